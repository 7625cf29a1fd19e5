"""``replearn update``: the original's model, recalibrated on a centre's own rows."""

from argparse import Namespace
from dataclasses import replace

from replearn.cli.command import (
    CSV,
    Outcome,
    Parser,
    check_output_path,
    csv_options,
    may_leave,
    working,
)
from replearn.words import Row

EPILOG = """\
examples:
  replearn update a.model.json b.csv --constant --out b.model.json
  replearn update a.model.json b.csv --slope --out b.model.json

the updated model names its parent's fingerprint and has one of its own.
predict, evaluate, show, export and compare take it like any other.
exit codes: 0 updated; 2 bad usage or input, or too few events
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("model MODEL", "the original's model file")
    parser.add_shared("table")
    parser.add("--constant", "keep the slopes, fit the base risk here", action="store_true")
    parser.add("--slope", "fit the base risk and one factor on all slopes", action="store_true")
    parser.add("--out FILE", "write the updated model")
    parser.add("--target COLUMN", "the labels, if their name here is not the model's")
    parser.add("--weights COLUMN", "weights of rows, if their name here is not the model's")
    parser.add("--offset COLUMN", "the offset, if its name here is not the model's")
    parser.add_shared(*CSV, "page")


def run(options: Namespace) -> Outcome:
    """Fit what was asked for, and write the model."""
    from replearn.errors import ReplearnError
    from replearn.reports.update import update

    # neither, or both: it is for the user to say what may change
    if options.constant == options.slope:
        raise ReplearnError(
            "update needs either --constant or --slope: the base risk alone, or with one factor on "
            "all slopes. Pass one of them."
        )

    # one or two numbers are fitted here; all others are the parent's
    check_output_path(options.out, "model", ("replearn/model/glm",))
    with working("updating the model"):
        updated = update(
            options.model,
            options.table,
            options.target,
            slope=options.slope,
            sample_weight=options.weights,
            offset=options.offset,
            csv=csv_options(options),
        )

    facts = updated.facts()
    if options.out is not None:
        may_leave("model", updated.n_rows, 1 + len(updated.shifts))
        updated.model.save(options.out)
        facts = replace(facts, items=[*facts.items, Row("updated model", options.out, key="out")])
    return Outcome(facts, title=f"Update of {options.model}", n_rows=updated.n_rows)
