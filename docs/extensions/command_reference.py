"""The pages of the command line, written from the parser itself, one page for each command.

They are written to ``docs/commands/`` before the site is read, and belong to no commit.
"""

import argparse
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

from replearn.cli.parser import make_parser


def write_pages(app: Sphinx) -> None:
    """Write a page for each command, and one that lists them; leave alone what is up to date."""
    folder = Path(app.srcdir) / "commands"
    folder.mkdir(exist_ok=True)
    pages = all_pages()
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.md"):
        if path.stem not in pages:
            path.unlink()


def all_pages() -> dict[str, str]:
    """Pages in Markdown by name."""
    parser = make_parser()
    commands = _commands(parser)
    return {"index": _index(parser, commands)} | {
        name: _command_page(name, command) for name, (command, _) in commands.items()
    }


def _commands(
    parser: argparse.ArgumentParser,
) -> dict[str, tuple[argparse.ArgumentParser, str]]:
    """Parsers of the commands, and their one line of help."""
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    lines = {choice.dest: choice.help or "" for choice in action._choices_actions}
    return {name: (command, lines[name]) for name, command in action.choices.items()}


def _index(
    parser: argparse.ArgumentParser,
    commands: dict[str, tuple[argparse.ArgumentParser, str]],
) -> str:
    rows = "\n".join(f"| [{name}]({name}.md) | {line} |" for name, (_, line) in commands.items())
    names = "\n".join(commands)
    return f"""\
# Command line

{parser.description} `replearn COMMAND --help` prints what these pages say; they are written from
the same source. `python -m replearn` is the same program.

| command | what it does |
|---|---|
{rows}

{_epilog(parser)}

```{{toctree}}
:hidden:

{names}
```
"""


def _command_page(name: str, parser: argparse.ArgumentParser) -> str:
    sections = "\n".join(_options(parser))
    return f"""\
# replearn {name}

{parser.description}

```text
{_usage(parser)}
```

{sections}

{_epilog(parser)}
"""


def _usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=88)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, "")
    return formatter.format_help().strip()


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The arguments in groups, as definition lists."""
    formatter = parser._get_formatter()
    for group in parser._action_groups:
        actions = [a for a in group._group_actions if a.help != argparse.SUPPRESS]
        if not actions:
            continue
        yield f"## {(group.title or 'options').capitalize()}\n"
        for action in actions:
            value = "" if action.nargs == 0 else _value(action)
            names = action.option_strings or [value]
            shown = ", ".join(
                f"`{name}{' ' + value if action.option_strings and value else ''}`"
                for name in names
            )
            text = formatter._expand_help(action) if action.help else ""
            yield f"{shown}\n: {_plain(' '.join(text.split()))}\n"


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper() if action.option_strings else action.dest


def _epilog(parser: argparse.ArgumentParser) -> str:
    """What stands below the options: examples, explanations, exit codes, keys."""
    paragraphs = re.split(r"\n\s*\n", (parser.epilog or "").strip("\n"))
    return "\n\n".join(filter(None, map(_paragraph, paragraphs)))


def _paragraph(text: str) -> str:
    first, _, rest = text.partition("\n")
    if first.strip() in ("example:", "examples:"):
        return f"## Examples\n\n```console\n{_prompted(textwrap.dedent(rest))}\n```"
    if re.search(r"(?m)^  \S.*?\S {2,}\S", text):  # a list with columns
        return f"```text\n{text}\n```"
    for opening, title in (("exit codes:", "Exit codes"), ("JSON keys:", "JSON keys")):
        if text.startswith(opening):
            return f"## {title}\n\n{_plain(' '.join(text.removeprefix(opening).split()))}"
    return _plain(" ".join(text.split()))


def _prompted(commands: str) -> str:
    return "\n".join(f"$ {line}" for line in commands.splitlines() if line.strip())


def _plain(text: str) -> str:
    """Text that Markdown shall show as it is: options in code, no accidental emphasis."""
    parts = text.split("`")  # every second one is code already
    for number in range(0, len(parts), 2):
        escaped = re.sub(r"([*_|<>\[\]])", r"\\\1", parts[number])
        parts[number] = re.sub(r"(?<![\w-])(--[a-z][\w-]*)", r"`\1`", escaped)
    return "`".join(parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before any page is read."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
