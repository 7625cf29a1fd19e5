"""``replearn table``: Table 1 of the paper, with numbers."""

import argparse
from contextlib import nullcontext

from replearn.cli.command import PROMISE, Outcome, Parser, working

EPILOG = """\
example:
  replearn table --features 50 --margin 0.2
  replearn table --features 5 --margin 0.3 --max-error 0.1 --run 10
  replearn table --features 10 --margin 0.3 --no-intercept --certified --run 2
"""


_OWN = ("n_features", "fit_intercept", "measure", "certified", "exponents")


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("--features N", "columns (default 50)", type=int, default=50, dest="n_features")
    for name, (default, text) in PROMISE.items():
        value = 0.2 if name == "margin" else default
        option = f"--{name.replace('_', '-')} X"
        parser.add(option, f"{text} (default {value:g})", type=float, default=value)
    parser.add(
        "--no-intercept",
        "a boundary through the origin",
        dest="fit_intercept",
        action="store_const",
        const=False,
    )

    # counts beside the plans
    parser.add("--run PAIRS", "run pairs of labs and count", type=int, default=0, dest="measure")
    parser.add("--certified", "run certified plans, not practical ones", action="store_true")
    parser.add("--exponents", "say how plans grow; some seconds", action="store_true")
    parser.add_page()


def run(options: argparse.Namespace) -> Outcome:
    """Plans of all rows in all modes; pairs of labs on demand."""
    from replearn.reports.table1 import table1

    given = {name: getattr(options, name) for name in PROMISE}
    given |= {name: getattr(options, name) for name in _OWN}
    with nullcontext() if options.measure else working("planning"):  # counting shows its own
        found = table1(**given)
    if options.exponents or options.measure:
        options.details = True  # who asks for a second table wants all of it
    return Outcome(found.facts(), title="Table 1")
