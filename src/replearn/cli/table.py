"""``replearn table``: Table 1 of the paper, with numbers."""

from argparse import Namespace
from contextlib import nullcontext

from replearn.cli.command import (
    PROMISE,
    Outcome,
    Parser,
    add_numbers,
    answered,
    refuse_unused,
    working,
)

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
    add_numbers(parser, margin=0.2)
    parser.add_shared("intercept")

    # counts beside the plans
    parser.add("--run PAIRS", "run pairs of labs and count", type=int, default=0, dest="measure")
    parser.add("--certified", "run certified plans, not practical ones", action="store_true")
    parser.add("--exponents", "say how plans grow; some seconds", action="store_true")
    parser.add_shared("page")


def run(options: Namespace) -> Outcome:
    """Plans of all rows in all modes; pairs of labs on demand."""
    from replearn.reports.table1 import table1

    if not options.measure:
        refuse_unused(options, "a table without --run", "certified")
    given = {name: getattr(options, name) for name in (*PROMISE, *_OWN)}
    with nullcontext() if options.measure else working("planning"):  # counting shows its own
        planned = table1(**given)
    if options.exponents or options.measure:
        options.details = True  # who asks for a second table wants all of it
    return answered(planned, "Table 1")
