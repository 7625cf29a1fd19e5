"""``replearn demo``: two simulated labs."""

import argparse
from typing import Any

from replearn.cli.files import shown_progress
from replearn.cli.options import add_command, positive
from replearn.cli.outcome import Outcome


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "demo",
        run,
        "two simulated labs, end to end, beside scikit-learn's LinearSVC",
        """\
example:
  replearn demo --repetitions 5

Two labs draw different samples of one population and fit with the same settings and seed.
The same is done for more populations, samples and seeds, and the pairs with exactly the
same model are counted, for replearn and for LinearSVC on the same rows. Takes half a minute.

JSON keys: setting, labs (rows, accuracy, fingerprint, estimated_disagreement,
  disagreement_bound, bound_confidence), same, codes, methods (name, same, studies,
  rate, interval, accuracy), mean_estimated_disagreement, largest_disagreement_bound,
  seconds, warnings""",
    )
    parser.add_argument(
        "--repetitions",
        type=positive,
        default=20,
        metavar="N",
        help="pairs of labs, each with its own population and seed (default 20)",
    )


def run(options: argparse.Namespace) -> Outcome:
    """Simulate the labs."""
    from replearn.cli import simulation as demo

    setting = demo.Setting(n_studies=options.repetitions)
    with shown_progress("two labs, again and again", setting.n_studies) as advance:
        result = demo.run(setting, advance)
    return Outcome(demo.text(result), result.data())
