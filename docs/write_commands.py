"""Write ``docs/commands/index.md`` from what ``--help`` prints."""

import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "commands" / "index.md"


def help_of(*words):
    run = subprocess.run(
        [sys.executable, "-m", "replearn", *words, "--help"],
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


def page():
    """The page: a table of commands, then the help of each."""
    from replearn.cli import COMMANDS

    rows = "\n".join(f"| [`{name}`](#{name}) | {what} |" for name, what in COMMANDS.items())
    parts = [f"## {name}\n\n```text\n{help_of(name)}\n```\n" for name in COMMANDS]
    return (
        "# Commands\n\n"
        "`replearn COMMAND --help` prints what stands here. Exit code 0 means done or the same\n"
        "model, 1 a different model or something that would stop a fit, 2 bad usage or input.\n\n"
        f"| command | what it does |\n|---|---|\n{rows}\n\n" + "\n".join(parts)
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
