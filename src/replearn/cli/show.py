"""``replearn show``: explain a file of replearn."""

import argparse

from replearn.cli.command import Outcome, Parser, write_page

EPILOG = """\
examples:
  replearn show study.json
  replearn show a.model.json --details
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("file FILE", "a study, a model, or any file that replearn wrote")
    parser.add_page()


def run(options: argparse.Namespace) -> Outcome:
    """Read it strictly, and say what it is."""
    from replearn.reports.files import load

    facts = load(options.file).facts()
    write_page(facts, options.page, options.file)
    return Outcome(facts)
