"""``replearn completion``: a script that lets the shell complete commands, options and files."""

import argparse

from replearn.cli.options import FILES, Parser
from replearn.cli.outcome import Outcome
from replearn.errors import ReplearnError

_PREAMBLE = {"bash": FILES["bash"] + ' () { compgen -f -- "$1"; }'}


HELP = "print a script that lets your shell complete commands, options and files"

EPILOG = """\
example:
  replearn completion bash

to install it, write it where your shell looks, and open a new shell:
  replearn completion bash > ~/.local/share/bash-completion/completions/replearn
  replearn completion zsh > ~/.zfunc/_replearn
  replearn completion tcsh > ~/.replearn.tcsh

bash needs its package bash-completion for this; without it, put this line into ~/.bashrc:
  source <(replearn completion bash)
zsh: ~/.zshrc must have `fpath=(~/.zfunc $fpath)` before `compinit`.
tcsh: put `source ~/.replearn.tcsh` into ~/.tcshrc.

exit codes: 0 done; 2 the package shtab is missing: pip install "replearn[cli]"

JSON keys: shell, script, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("shell", "your shell", choices=tuple(FILES))


def run(options: argparse.Namespace) -> Outcome:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise ReplearnError(
            "replearn completion needs the package shtab, which is not installed. "
            'Install it with: pip install "replearn[cli]"'
        ) from None
    script = shtab.complete(
        options.parser, shell=options.shell, preamble=_PREAMBLE.get(options.shell, "")
    )
    return Outcome(script, {"shell": options.shell, "script": script}, exact=True)
