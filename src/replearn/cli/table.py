"""``replearn table``: Table 1 of the paper, with numbers."""

import argparse

from replearn.cli.command import PROMISE, Outcome, Parser, write_page

EPILOG = """\
example:
  replearn table --features 50 --margin 0.2
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("--features N", "columns (default 50)", type=int, default=50, dest="n_features")
    for name, (default, text) in PROMISE.items():
        value = 0.2 if name == "margin" else default
        option = f"--{name.replace('_', '-')} X"
        parser.add(option, f"{text} (default {value:g})", type=float, default=value)
    parser.add_page()


def run(options: argparse.Namespace) -> Outcome:
    """Plans of all six rows in all modes."""
    from replearn.reports.plans import table1

    given = {name: getattr(options, name) for name in PROMISE}
    facts = table1(n_features=options.n_features, **given).facts()
    write_page(facts, options.page, "Table 1")
    options.details = True  # a table that nobody cuts
    return Outcome(facts)
