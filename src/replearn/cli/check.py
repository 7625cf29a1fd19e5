"""``replearn check``: what would go wrong, without fitting."""

from argparse import Namespace

from replearn.cli.command import CSV, Outcome, Parser, answered, lab_table, working

EPILOG = """\
examples:
  replearn check study.json b.csv
  replearn check study.json b.csv --details --show-values

exit codes: 0 a fit would go through; 1 something would stop it; 2 bad input
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_shared("study", "table")
    parser.add("--show-values", "quote cells that the study does not know", action="store_true")
    parser.add_shared(*CSV, "page")


def run(options: Namespace) -> Outcome:
    """Read the table as a replication would."""
    from replearn.reports.check import check
    from replearn.study import GlmStudy

    study = GlmStudy.load(options.study)
    with working("reading the table"):
        checked = check(study, lab_table(options, study.design), options.show_values)
    return answered(checked, f"Check of {options.table}", not checked.ok)
