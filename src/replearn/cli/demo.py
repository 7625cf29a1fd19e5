"""``replearn demo``: two simulated labs."""

import argparse

from replearn.cli.files import terminal_progress
from replearn.cli.options import Parser, positive
from replearn.cli.outcome import Outcome

HELP = "two simulated labs, end to end, beside what a sceptic would ask for"

EPILOG = """\
example:
  replearn demo --repetitions 5

A pilot makes a protocol, two labs draw different samples of one population and fit, the first one
publishes a hint of four bits. The same is done for more populations, pilots, samples and seeds, and
the pairs with exactly the same model are counted: for the base rate, the pilot's own model,
protocols without and with a hint, and LogisticRegression on all rows of a lab. Takes half a minute.

JSON keys: setting, labs (rows, auc, fingerprint, estimated_disagreement, disagreement_bound,
  bound_confidence), same, codes, methods (name, same, studies, agreement, log_loss, auc,
  balanced_accuracy, evidence_bits), mean_estimated_disagreement, seconds, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add(
        "--repetitions N",
        "pairs of labs, each with its own population and seed (default 20)",
        type=positive,
        default=20,
    )


def run(options: argparse.Namespace) -> Outcome:
    """Simulate the labs."""
    from replearn.cli import simulation as demo

    setting = demo.Setting(n_studies=options.repetitions)
    with terminal_progress("two labs, again and again", setting.n_studies) as advance:
        result = demo.run(setting, advance)
    return Outcome(demo.text(result), result.data())
