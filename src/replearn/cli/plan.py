"""``replearn plan``: how many rows the paper's algorithms need."""

from argparse import Namespace

from replearn.cli.command import Outcome, Parser, add_promise, answered, promise_of

EPILOG = """\
examples:
  replearn plan --features 50 --margin 0.2
  replearn plan --algorithm sgd --features 50 --margin 0.2 --mode certified

for studies (publish, replicate) no plan is needed: publish says how many rows
a replication needs
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("--features N", "columns", type=int, required=True, dest="n_features")
    add_promise(parser)
    parser.add_shared("page")


def run(options: Namespace) -> Outcome:
    """Arithmetic, no rows."""
    from replearn.reports.plans import plan

    planned = plan(options.algorithm, n_features=options.n_features, **promise_of(options))
    return answered(planned, f"Plan of {options.algorithm}")
