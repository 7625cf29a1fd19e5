"""``replearn predict``: labels for new rows."""

import argparse
from collections.abc import Sequence
from typing import Any

from replearn.cli.files import check_target, read_numbers, writing
from replearn.cli.options import add_command, add_file
from replearn.cli.outcome import Outcome
from replearn.cli.text import printable
from replearn.errors import ReplearnError


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "predict",
        run,
        "label new rows with a model",
        """\
example:
  replearn predict a.model.json new.csv --out pred.csv

Columns are found by name if the model has names; others, such as labels, are ignored. The
result has the columns prediction and score, one row for each row of DATA.

JSON keys: fingerprint, rows, counts (by label), predictions (without --out), warnings""",
    )
    add_file(parser, "model", metavar="MODEL", help="model file")
    add_file(parser, "data", metavar="DATA", help="new rows (.csv, .csv.gz, .npz)")
    add_file(parser, "--out", metavar="FILE", help="where to write them (default: print)")


def run(options: argparse.Namespace) -> Outcome:
    """Label the rows."""
    from replearn.atomic import write_atomically
    from replearn.modelfile import load

    check_target(options.out)
    model = load(options.model)
    if model.encoding is None:
        X = read_numbers(options.data, columns=model.feature_names).X
    else:
        from replearn.sources import read_columns

        X = read_columns(options.data)[0]
    try:
        scores = model.decision_function(X)
    except ReplearnError as problem:
        raise ReplearnError(f"{options.data} does not fit {options.model}: {problem}") from None
    labels = [model.classes[int(score > 0)] for score in scores]
    counts = {str(label): labels.count(label) for label in model.classes}
    data = {"fingerprint": model.fingerprint, "rows": len(labels), "counts": counts}
    if options.out is None:
        return Outcome(_csv_text(labels, scores).rstrip("\n"), data | {"predictions": labels})
    with writing(options.out):
        write_atomically(options.out, _csv_text(labels, scores).encode())
    shares = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    text = f"{len(labels):,} rows: {shares}; written to {options.out}"
    return Outcome(printable(text), data)


def _csv_text(labels: Sequence[Any], scores: Any) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["prediction", "score"])
    writer.writerows((label, f"{score:.9g}") for label, score in zip(labels, scores, strict=True))
    return text.getvalue()
