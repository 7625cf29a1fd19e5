"""``replearn predict``: labels for new rows."""

import argparse
import csv
import io
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from replearn.cli.files import check_target, shown_progress, writing
from replearn.cli.options import add_command, add_file
from replearn.cli.outcome import Outcome
from replearn.cli.text import printable
from replearn.errors import ReplearnError, ReplicabilityWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replearn.codes.model import Label, Model


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

Columns are found by name if the model has names; others, such as labels, are ignored. If they
stand in another order, a warning says so, unless a protocol fixed the names. The result has the
columns prediction and score, one row for each row of DATA. DATA may have any format that
`replearn fit` takes; it is read piece by piece.

JSON keys: fingerprint, rows, counts (by label), predictions (without --out), warnings""",
    )
    add_file(parser, "model", metavar="MODEL", help="model file")
    add_file(parser, "data", metavar="DATA", help="new rows: a file, or a folder of files")
    add_file(parser, "--out", metavar="FILE", help="where to write them (default: print)")


def run(options: argparse.Namespace) -> Outcome:
    """Label the rows."""
    from replearn.files.atomic import replacing
    from replearn.files.modelfile import load

    check_target(options.out)
    model = load(options.model)
    if options.out is None:
        text = io.StringIO()
        labels: list[Label] = []
        counts = _write(model, options, text, labels)
        data = _data(model, counts) | {"predictions": labels}
        return Outcome(text.getvalue().rstrip("\n"), data)
    with (
        writing(options.out),
        replacing(options.out) as beside,
        beside.open("w", newline="") as out,
    ):
        counts = _write(model, options, out)
    shares = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    n_rows = sum(counts.values())
    line = f"{n_rows:,} rows: {shares}; written to {options.out}"
    return Outcome(printable(line), _data(model, counts))


def _data(model: "Model", counts: "dict[Label, int]") -> dict[str, Any]:
    by_label = {str(label): count for label, count in counts.items()}
    return {"fingerprint": model.fingerprint, "rows": sum(counts.values()), "counts": by_label}


def _write(
    model: "Model",
    options: argparse.Namespace,
    out: TextIO,
    kept: "list[Label] | None" = None,
) -> "dict[Label, int]":
    """Write a line for each row, piece by piece; how often each label came."""
    counts = dict.fromkeys(model.classes, 0)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["prediction", "score"])
    for scores in _scores(model, options):
        labels = [model.classes[int(score > 0)] for score in scores]
        writer.writerows(
            (label, f"{score:.9g}") for label, score in zip(labels, scores, strict=True)
        )
        for label in model.classes:
            counts[label] += labels.count(label)
        if kept is not None:
            kept += labels
    return counts


def _scores(model: "Model", options: argparse.Namespace) -> "Iterator[Any]":
    """Scores of the rows, in pieces."""
    from replearn.sources import open_source

    columns = None if model.encoding is not None else model.feature_names
    try:
        source = open_source(
            options.data,
            columns=columns,
            encoding=model.encoding,
            n_features=model.n_features if model.encoding is None else None,
        )
        if source.names is not None:
            _warn_of_order(model, options)
        with shown_progress(f"reading {Path(options.data).name}") as advance:
            for piece in source.pieces(watch=advance):
                yield model.scores(piece.X)
    except ReplearnError as problem:
        raise ReplearnError(f"{options.data} does not fit {options.model}: {problem}") from None


def _warn_of_order(model: "Model", options: argparse.Namespace) -> None:
    """Say when columns that no fingerprint covers are taken in another order than they stand."""
    from replearn.sources import open_source

    if model.feature_names is None or model.encoding is not None:
        return
    found = open_source(options.data, raw=True).names
    if found is not None and (odd := model.out_of_order(found)) is not None:
        warnings.warn(
            f"the columns of {options.data} are taken by name, but {odd}. The fingerprint does "
            f"not cover the names: check that {options.model} has them right.",
            ReplicabilityWarning,
            stacklevel=2,
        )
