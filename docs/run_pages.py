"""Run what the pages show: their sessions of Python, and their ``replearn`` commands.

    python docs/run_pages.py [PAGE ...]            say where a page shows what does not come out
    python docs/run_pages.py --write [PAGE ...]    put what comes out into the pages

Notebooks are run cell by cell, and keep their figures. Of Markdown, two kinds of fenced blocks are
run, those of a page one after the other in one empty folder:

- ``python`` with ``>>>``: a session, as in a docstring;
- ``console``: lines ``$ replearn ...``, each with what it prints below.

Other blocks are text, and so is a block below ``<!-- not run: why -->``. Shown and printed numbers
may differ by little (pilots are planned in floating point, whose last digits differ between
machines), and hashes by all their digits; everything else must be equal. ``...`` stands for
anything. ``--write`` leaves alone what agrees, and keeps as many lines as there are above a last
``...``.
"""

import argparse
import ast
import base64
import contextlib
import doctest
import io
import json
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FENCE = re.compile(r"(?ms)^(?P<open>```(?:python|console)\n)(?P<body>.*?)^```$")
NOT_RUN = re.compile(r"<!-- not run[^>]*-->\s*$")
HASH = re.compile(r"(?<![\w.])[0-9a-f]{12,64}\b(?:\.\.\.)?")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")


@dataclass(frozen=True)
class Step:
    """Something to run, and what the page shows of it: characters ``start`` to ``end``."""

    language: str
    source: str
    shown: str
    start: int
    end: int
    line: int


def pages(folder: Path = HERE) -> list[Path]:
    """All pages of the site that show something to run."""
    found = sorted((*folder.rglob("*.md"), *folder.glob("*.ipynb")))
    mine = [p for p in found if not {"_build", "auto_gallery", "commands"} & set(p.parts)]
    written = {page.with_suffix(".md") for page in mine if page.suffix == ".ipynb"}
    return [
        page
        for page in mine
        if page.suffix == ".ipynb"
        or (page not in written and any(steps(page.read_text(encoding="utf-8"))))
    ]


def steps(text: str) -> Iterator[Step]:
    """What a page shows, in order."""
    for block in FENCE.finditer(text):
        if NOT_RUN.search(text[: block.start()]):
            continue
        body, start = block["body"], block.start("body")
        found = _sessions(body) if block["open"].startswith("```python") else _commands(body)
        for language, source, shown, begin, end in found:
            line = text.count("\n", 0, start + begin) + 1
            yield Step(language, source, shown, start + begin, start + end, line)


def _sessions(body: str) -> Iterator[tuple[str, str, str, int, int]]:
    place = 0
    for piece in doctest.DocTestParser().parse(body):
        if isinstance(piece, str):
            place += len(piece)
            continue
        length = sum(len(line) + 5 for line in piece.source.splitlines())  # prompt, line end
        begin = body.index(">>> ", place)
        shown = begin + length
        yield "python", piece.source, piece.want, shown, shown + len(piece.want)
        place = shown + len(piece.want)


def _commands(body: str) -> Iterator[tuple[str, str, str, int, int]]:
    # a command may go on in the next line
    for match in re.finditer(r"(?ms)^\$ (.*?(?<!\\))\n(.*?)(?=^\$ |\Z)", body):
        command = match[1].replace("\\\n", " ").partition("  #")[0]
        if command.startswith("replearn "):
            shown = match[2].rstrip("\n") + "\n" if match[2].strip() else ""
            yield "console", command, shown, match.start(2), match.start(2) + len(shown)


def run(text: str) -> Iterator[tuple[Step, str]]:
    """Run a page in an empty folder; what each step printed."""
    names: dict[str, object] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            for step in steps(text):
                yield step, _session(step, names) if step.language == "python" else _command(step)
        finally:
            os.chdir(before)


def _session(step: Step, names: dict[str, object]) -> str:
    """Run an example as doctest does, exceptions included."""
    example = doctest.Example(step.source, "")
    test = doctest.DocTest([example], names, "page", None, step.line, None)
    heard: list[str] = []

    class Listener(doctest.DocTestRunner):
        def report_success(self, out, test, example, got):
            heard.append(got)

        def report_failure(self, out, test, example, got):
            heard.append(got)

        def report_unexpected_exception(self, out, test, example, exc_info):
            heard.append(
                "Traceback (most recent call last):\n    ...\n"
                + f"{exc_info[0].__module__}.{exc_info[0].__qualname__}: {exc_info[1]}\n"
            )

    Listener(verbose=False).run(test, out=lambda _: None, clear_globs=False)
    names.update(test.globs)
    return "".join(heard)


def _command(step: Step) -> str:
    """Run a command of ours in this process; complaints are part of what it prints."""
    from replearn import cli

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            cli.main(shlex.split(step.source)[1:])
        except SystemExit as stop:
            print(stop.code or "", end="", file=printed)
    return printed.getvalue()


# ---------------------------------------------------------------- shown and printed


def agrees(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, but for small differences of numbers."""
    pieces = [_tokens(piece) for piece in HASH.sub("#hash", shown).split("...")]
    rest = _tokens(printed)
    if len(pieces) == 1:
        return _same(pieces[0], rest)
    first, *middle, last = pieces
    if not _same(first, rest[: len(first)]):
        return False
    place = len(first)
    for piece in middle:
        spots = range(place, len(rest) - len(piece) + 1)
        spot = next((i for i in spots if _same(piece, rest[i : i + len(piece)])), None)
        if spot is None:
            return False
        place = spot + len(piece)
    return place <= len(rest) - len(last) and _same(last, rest[len(rest) - len(last) :])


def _tokens(text: str) -> list[str]:
    text = HASH.sub("#hash", text.replace("<BLANKLINE>", ""))
    text = NUMBER.sub(lambda match: f" {match[0]} ", text)
    return text.split()


def _same(first: list[str], second: list[str]) -> bool:
    return len(first) == len(second) and all(map(_close, first, second))


def _close(first: str, second: str) -> bool:
    if first == second:
        return True
    if not (NUMBER.fullmatch(first) and NUMBER.fullmatch(second)):
        return False
    one, other = (float(text.replace(",", "")) for text in (first, second))
    digits = len(first.partition(".")[2].partition("e")[0])
    return abs(one - other) <= max(0.05 * abs(one), 2 * 10.0**-digits if digits else 0.0)


# ---------------------------------------------------------------- notebooks


def run_cells(notebook: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, list[bytes]]]:
    """Run the code of a notebook; what each cell printed, and its figures as PNG."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    sys.path.insert(0, str(HERE))
    from figure_style import settings

    names: dict[str, object] = {"__name__": "__main__"}
    before = Path.cwd()
    plt.switch_backend("Agg")
    with (
        tempfile.TemporaryDirectory() as folder,
        warnings.catch_warnings(),
        mpl.rc_context(settings()),
    ):
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            for cell in notebook["cells"]:
                if cell["cell_type"] == "code":
                    printed = _cell("".join(cell["source"]), names)
                    figures = [_png(plt.figure(number)) for number in plt.get_fignums()]
                    plt.close("all")
                    yield cell, printed, figures
        finally:
            os.chdir(before)


def _cell(source: str, names: dict[str, object]) -> str:
    """Run a cell; the value of an expression at its end is printed, as notebooks do."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                print(repr(value))
    return printed.getvalue()


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def compare_cells(page: Path) -> Iterator[tuple[str, str, str]]:
    """Source, stored text and printed text of each cell of a notebook."""
    for cell, printed, figures in run_cells(json.loads(page.read_text(encoding="utf-8"))):
        stored = [output for output in cell["outputs"] if "image/png" in output.get("data", {})]
        shown = "".join("".join(output.get("text", [])) for output in cell["outputs"])
        marks = "[figure]\n"
        yield "".join(cell["source"]), shown + marks * len(stored), printed + marks * len(figures)


def write_cells(page: Path) -> int:
    """Store what the cells of a notebook print and draw, if it is not what they hold."""
    notebook = json.loads(page.read_text(encoding="utf-8"))
    n_changed = 0
    for number, (cell, printed, figures) in enumerate(run_cells(notebook), 1):
        shown = "".join("".join(output.get("text", [])) for output in cell["outputs"])
        stored = [output for output in cell["outputs"] if "image/png" in output.get("data", {})]
        if agrees(shown, printed) and len(stored) == len(figures):
            continue
        n_changed += 1
        outputs: list[dict[str, Any]] = []
        if printed:
            lines = printed.splitlines(keepends=True)
            outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
        outputs += [
            {
                "data": {"image/png": base64.b64encode(figure).decode()},
                "metadata": {},
                "output_type": "display_data",
            }
            for figure in figures
        ]
        cell["outputs"], cell["execution_count"] = outputs, number
    if n_changed:
        page.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
    return n_changed


# ---------------------------------------------------------------- the command


def check(page: Path) -> list[str]:
    """One complaint for every step that prints something else than its page shows."""
    if page.suffix == ".ipynb":
        return [
            f"{page}: {source}\n--- shown\n{shown}--- printed\n{printed}"
            for source, shown, printed in compare_cells(page)
            if not agrees(shown, printed)
        ]
    return [
        f"{page}:{step.line}: {step.source.strip()}\n--- shown\n{step.shown}--- printed\n{printed}"
        for step, printed in run(page.read_text(encoding="utf-8"))
        if not agrees(step.shown, printed)
    ]


def write(page: Path) -> int:
    """Put what comes out into a page; the number of places that changed."""
    if page.suffix == ".ipynb":
        return write_cells(page)
    text = page.read_text(encoding="utf-8")
    changes = [(step, printed) for step, printed in run(text) if not agrees(step.shown, printed)]
    for step, printed in reversed(changes):
        short = HASH.sub(lambda match: match[0][:16] + "...", printed)
        if step.language == "python":
            short = re.sub(r"(?m)^$\n", "<BLANKLINE>\n", short)
        lines = [line.rstrip() for line in short.splitlines()]
        if step.shown.rstrip().endswith("\n..."):  # as many lines as before
            lines = [*lines[: len(step.shown.splitlines()) - 1], "..."]
        short = "".join(line + "\n" for line in lines)
        text = text[: step.start] + short + text[step.end :]
    if changes:
        page.write_text(text, encoding="utf-8")
    return len(changes)


def main() -> int:
    """Check or write all pages, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="put what comes out into the pages")
    options = parser.parse_args()
    bad = 0
    for page in options.pages or pages():
        page = page.resolve()
        if options.write:
            print(f"{page.name}: {write(page)} changed")
        else:
            complaints = check(page)
            bad += len(complaints)
            print(f"{page.name}: {len(complaints)} differ", *complaints, sep="\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
