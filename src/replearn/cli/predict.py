"""``replearn predict``: predictions of a model for the rows of a table."""

import csv
import io
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from replearn.cli.command import (
    CSV,
    Outcome,
    Parser,
    check_output_path,
    csv_options,
    may_leave,
    refuse_unused,
    working,
)
from replearn.errors import ReplearnError
from replearn.words import Facts, Row

EPILOG = """\
examples:
  replearn predict a.model.json new.csv --out predictions.csv
  replearn predict a.model.json new.csv | head

writes a CSV file with a row for each row of the table, in its order: the
prediction, and for classes the probability of each
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_shared("model")
    parser.add("table TABLE", "rows with the model's columns")
    parser.add("--horizon TIME", "survival: risk of the event within this time", type=float)
    parser.add("--out FILE", "write the predictions here (default: print them)")
    parser.add_shared(*CSV)


def run(options: Namespace) -> Outcome:
    """Predict some rows at a time."""
    from replearn.documents import write_atomically
    from replearn.exports import harmless
    from replearn.reports.files import load_model

    # who prints predictions lets them leave, too
    may_leave("predictions")
    check_output_path(options.out, "predictions")
    model = load_model(options.model)

    # rows are read some at a time; what they give is text, and fits into memory
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    n_rows = 0
    with working("predicting"):
        header, batches = _predictions(model, options)
        writer.writerow(map(harmless, header))
        for lines in batches:
            n_rows += len(lines)
            writer.writerows([[harmless(cell) for cell in line] for line in lines])

    may_leave("predictions", n_rows)
    facts = Facts(
        f"Predictions of {n_rows:,} rows are in {options.out or 'standard output'}.",
        [Row("model", model.fingerprint)],
        values={"rows": n_rows},
    )
    if options.out is None:
        return Outcome(facts, raw=text.getvalue())
    write_atomically(options.out, text.getvalue().encode())
    return Outcome(facts)


def _predictions(model: Any, options: Namespace) -> tuple[Sequence[str], Iterable[list[list[Any]]]]:
    """What the predictions are called, and the lines of each batch of rows."""
    if model.design.recipe != "survival":
        refuse_unused(options, "a model without times", "horizon")
        return model.prediction_names, _lines(model, options)
    if options.horizon is None:
        raise ReplearnError(
            "a survival model needs --horizon: the time within which the event may come. Pass it."
        )

    # a risk is that of one time, for all rows at once
    from replearn.glm import survival_at
    from replearn.tables import open_table

    table = open_table(options.table, csv=csv_options(options))
    risks = 1.0 - survival_at(model, table, [options.horizon])[:, 0]
    return ["risk"], [[[repr(risk)] for risk in risks.tolist()]]


def _lines(model: Any, options: Namespace) -> Iterator[list[list[Any]]]:
    from replearn.tables import open_table

    table = open_table(
        options.table,
        columns=model.feature_names,
        offset=model.design.offset,
        csv=csv_options(options),
    )

    for batch in table.batches():
        yield [
            [repr(cell) if isinstance(cell, float) else cell for cell in line]
            for line in model.predictions_of(batch)
        ]
