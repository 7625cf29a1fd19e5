"""The parser of the command line: one module for each command."""

import argparse

from replearn import __version__
from replearn.cli import (
    audit,
    bundle,
    check,
    choose,
    combine,
    compare,
    completion,
    demo,
    evaluate,
    export,
    fit,
    plan,
    predict,
    replicate,
    show,
    shuffle,
    sums,
    table,
)
from replearn.cli.options import HelpFormatter, Parser

#: Commands, in the order of the help.
COMMANDS = (
    demo,
    plan,
    bundle,
    check,
    fit,
    choose,
    compare,
    replicate,
    sums,
    combine,
    predict,
    evaluate,
    show,
    audit,
    shuffle,
    export,
    table,
    completion,
)

_EPILOG = """\
examples:
  replearn demo
  replearn plan --margin .2 --max-error .05 --max-disagreement .1 --features 50
  replearn fit site_a.csv --target label --margin .2 --seed 2024 --out a.model.json
  replearn compare a.model.json b.model.json
  replearn predict a.model.json new.csv --out pred.csv

exit codes: 0 done, or the same model, or an audit within its bound; 1 the models differ, an audit
  exceeds its bound, or a check finds what would stop a fit; 2 bad usage or bad input; 3 an audit
  that decides nothing; 70 a bug of replearn; 130 interrupted; 141 a pipe was closed
"""


def make_parser() -> argparse.ArgumentParser:
    """The parser; its result has ``run``, the function of the command."""
    parser = Parser(
        prog="replearn",
        description="Two labs, two samples, one seed: exactly the same classifier.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"replearn {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser
