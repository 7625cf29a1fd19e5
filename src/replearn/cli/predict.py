"""``replearn predict``: labels for new rows."""

import argparse
import csv
import io
import shlex
from typing import TYPE_CHECKING, Any, TextIO

from replearn.cli.choice_files import (
    add_choice_models,
    predict_choice,
    refuse_choice_options,
)
from replearn.cli.files import check_target, target_of, writing
from replearn.cli.options import Parser, add_spreadsheet, warn_of_formulas
from replearn.cli.outcome import Outcome
from replearn.cli.scoring import piecewise_scores
from replearn.cli.text import missing_words
from replearn.terminal import printable

if TYPE_CHECKING:
    from replearn.codes.model import Label, Model
    from replearn.types import Matrix


HELP = "label new rows with a model"

EPILOG = """\
example:
  replearn predict a.model.json new.csv --out pred.csv

Columns are found by name if the model has names; others, such as labels, are ignored. If they
stand in another order, a warning says so, unless a protocol fixed the names. The result has the
columns prediction and score, one row for each row of DATA, and the probability of the second label
if the model has probabilities; of more than two classes, a probability or score for each of them.
The second label is predicted where the score is above 0. DATA may have any format that `replearn
fit` takes; it is read piece by piece.

JSON keys: fingerprint, rows, counts (by label), columns (rows with a missing or unknown value, by
  column), predictions (without --out), chosen (of a choice: its name), warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("model MODEL", "model file, or choice file")
    parser.add("data DATA", "new rows: a file, or a folder of files")
    parser.add("--out FILE", "where to write them (default: print)")
    add_spreadsheet(parser)
    add_choice_models(parser)


def run(options: argparse.Namespace) -> Outcome:
    """Label the rows."""
    from replearn.files.atomic import replacing
    from replearn.files.choicefile import is_choice_file
    from replearn.files.modelfile import load

    check_target(options.out)
    if is_choice_file(options.model):
        return predict_choice(options)
    refuse_choice_options(options)
    model = load(options.model)
    warn_of_formulas(model.classes, options)
    if options.out is None:
        text = io.StringIO()
        labels: list[Label] = []
        counts, columns = _write(model, options, text, labels)
        data = _data(model, counts, columns) | {"predictions": labels}
        return Outcome(text.getvalue().rstrip("\n"), data, exact=True)
    with (
        writing(options.out),
        replacing(options.out) as beside,
        beside.open("w", newline="") as out,
    ):
        counts, columns = _write(model, options, out)
    shares = ", ".join(f"{count:,} {label}" for label, count in counts.items())
    n_rows = sum(counts.values())
    lines = [f"{n_rows:,} rows: {shares}; written to {options.out}"]
    if columns:
        lines.append(missing_words(columns, n_rows))
    target = target_of(options.model, options.data)
    if target is not None:
        command = ["replearn", "evaluate", options.model, options.data, "--target", target]
        lines.append(f"the rows have labels; to see what the model is worth: {shlex.join(command)}")
    return Outcome("\n".join(map(printable, lines)), _data(model, counts, columns))


def _data(
    model: "Model", counts: "dict[Label, int]", columns: dict[str, dict[str, int]]
) -> dict[str, Any]:
    return {
        "fingerprint": model.fingerprint,
        "rows": sum(counts.values()),
        "counts": {str(label): count for label, count in counts.items()},
        "columns": columns,
    }


def _write(
    model: "Model", options: argparse.Namespace, out: TextIO, collected: "list[Label] | None" = None
) -> "tuple[dict[Label, int], dict[str, dict[str, int]]]":
    """Write a line for each row; how often each label came, and what was missing or unknown."""
    from replearn.exports.coefficients import harmless

    columns: dict[str, dict[str, int]] = {}
    counts: dict[Label, int] = dict.fromkeys(model.classes or ("numbers",), 0)
    written = {label: harmless(label) if options.spreadsheet else label for label in model.classes}
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["prediction", *_number_names(model, written)])
    for (scores,) in piecewise_scores([model], options.data, options.model, columns):
        if model.is_numeric:
            found = scores.tolist()
            writer.writerows([f"{number:.9g}"] for number in found)
            counts["numbers"] += len(found)
        else:
            found = [model.classes[place] for place in model.decided(scores).tolist()]
            writer.writerows(
                (written[label], *(f"{number:.9g}" for number in row))
                for label, row in zip(found, _numbers(model, scores).tolist(), strict=True)
            )
            for label in model.classes:
                counts[label] += found.count(label)
        if collected is not None:
            collected += found
    return counts, columns


def _number_names(model: "Model", written: "dict[Label, Any]") -> list[str]:
    """Names of the columns that stand beside each label."""
    if model.is_numeric:
        return []
    by_class = [f"probability {written[label]}" for label in model.classes]
    if model.n_classes == 2:
        return ["score", by_class[1]] if model.has_probabilities else ["score"]
    if model.has_probabilities:
        return by_class
    return [f"score {written[label]}" for label in model.classes]


def _numbers(model: "Model", scores: Any) -> "Matrix":
    """Those columns."""
    import numpy as np

    if model.n_classes > 2:
        return model.probabilities(scores) if model.has_probabilities else scores
    if not model.has_probabilities:
        return scores[:, None]
    return np.column_stack([scores, model.probabilities(scores)[:, 1]])
