"""``replearn table``: Table 1 of the paper with numbers."""

import argparse

from replearn.cli.options import PROMISE, Parser, positive
from replearn.cli.outcome import Outcome

HELP = "Table 1 of the paper with numbers: rows per lab of six algorithms in three modes"

EPILOG = """\
example:
  replearn table --margin .5 --max-error .1 --max-disagreement .1 --features 50

JSON keys: margin, max_error, max_disagreement, failure_prob, n_features, rows (algorithm, title,
  rate, n_samples by mode (null: cannot be run), reasons by mode), warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    for name, default in (
        ("margin", 0.5),
        ("max_error", 0.1),
        ("max_disagreement", 0.1),
        ("failure_prob", 0.05),
    ):
        option, text = "--" + name.replace("_", "-"), PROMISE[name][1]
        parser.add_argument(
            option, type=float, default=default, metavar="X", help=f"{text} (default {default:g})"
        )
    parser.add("--features N", "columns (default 50)", type=positive, default=50)
    parser.add(
        "--no-intercept", "boundaries through the origin", dest="intercept", action="store_false"
    )


def run(options: argparse.Namespace) -> Outcome:
    """Show the table."""
    from replearn.plans.planner import table1

    table = table1(
        margin=options.margin,
        max_error=options.max_error,
        max_disagreement=options.max_disagreement,
        failure_prob=options.failure_prob,
        n_features=options.features,
        fit_intercept=options.intercept,
    )
    return Outcome(str(table), table.data())
