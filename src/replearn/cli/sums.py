"""``replearn sums``: a lab's part of a joint fit."""

import argparse
import os

from replearn.cli.command import Outcome, Parser, check_target, lab_table, may_leave, working

EPILOG = """\
examples:
  replearn sums study.json lab.parquet --out lab.sums.json
  replearn sums study.json lab.parquet --state next.json --out lab.sums.json

the file holds sums of many rows as whole numbers, and no row
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("study STUDY", "the study file")
    parser.add("table TABLE", "your rows: .csv, .csv.gz, .parquet, .npz or .svm")
    parser.add("--out FILE", "the sums, to send to whoever combines", required=True)
    parser.add("--state FILE", "what combine gave after the last round (default: the first)")
    parser.add("--lab NAME", "your name (default: that of the table)")
    parser.add_csv()


def run(options: argparse.Namespace) -> Outcome:
    """Add up the lab's rows."""
    from replearn.study.coalition import lab_sums
    from replearn.study.passes import State
    from replearn.study.study import Study

    check_target(options.out, "sums")
    study = Study.load(options.study)
    state = None if options.state is None else State.load(options.state)
    name = options.lab or os.path.basename(options.table).split(".")[0]
    with working("adding up rows"):
        sums = lab_sums(study, lab_table(options, study.design), state, lab=name)
    may_leave("sums", sums.rows, study.design.n_numbers)
    sums.save(options.out)
    return Outcome(sums.facts())
