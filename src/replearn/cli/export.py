"""``replearn export``: a model for other programs."""

import argparse
from typing import TYPE_CHECKING

from replearn.cli.files import check_target, writing
from replearn.cli.options import (
    Parser,
    add_common,
    add_spreadsheet,
    given,
    warn_of_formulas,
)
from replearn.cli.outcome import Outcome
from replearn.errors import ReplearnError
from replearn.terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replearn.codes.model import Model

#: Formats, and the options that only one of them has.
_OWN_OPTIONS = {"onnx": ("encoded", "float32"), "csv": ("spreadsheet",), "sql": ("table",)}


HELP = "write a model for other programs: ONNX, SQL or a table of coefficients"

EPILOG = """\
examples:
  replearn export a.model.json --to onnx --out a.onnx
  replearn export a.model.json --to sql --table patients
  replearn export a.model.json --to csv --out coefficients.csv

onnx: inputs are the raw columns of the protocol by name, or the matrix X if there was none;
  outputs are label and score, and of a logistic model probabilities.
sql: a query that adds replearn_score and replearn_label to a table, and of a logistic model
  replearn_probability; raw columns are encoded in it.
csv: one line for each feature, the intercept last; of a logistic model with odds ratios.
For scikit-learn call to_sklearn() in Python: a pickle is code, so no file of it is written here.

exit code 2: the model cannot be exported so, or the package onnx is missing:
  pip install "replearn[onnx]"

JSON keys: fingerprint, to, out, content (null if it was written to --out), warnings; with
  --to sql also score, label and probability (null if there is none), expressions"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("model MODEL", "model file")
    parser.add("--to", "format", choices=tuple(_OWN_OPTIONS), required=True)
    parser.add("--out FILE", "where to write it (default: print; onnx needs it)")
    parser.add("--table NAME", "sql: name of the table (default rows)")
    parser.add(
        "--encoded",
        "onnx: leave the protocol's encoding out, and take a matrix of encoded rows",
        action="store_true",
    )
    parser.add(
        "--float32", "onnx: numbers come in as float32 (default: float64)", action="store_true"
    )
    add_spreadsheet(parser, "csv: ")
    add_common(parser, "--large")


def run(options: argparse.Namespace) -> Outcome:
    """Write the model in the format asked for."""
    if options.to == "onnx" and options.out is None:
        raise ReplearnError("--to onnx makes a binary file. Name it with --out FILE.")
    for form, own in _OWN_OPTIONS.items():
        if form != options.to and (idle := given(options, *own)):
            raise ReplearnError(f"{idle[0]} is for --to {form}, got --to {options.to}.")
    check_target(options.out)
    from replearn.files.atomic import write_atomically
    from replearn.files.modelfile import load

    model = load(options.model)
    try:
        content, more = _export(model, options)
    except ReplearnError as problem:
        raise ReplearnError(f"{options.model}: {problem}") from None
    data = {"fingerprint": model.fingerprint, "to": options.to, "out": options.out, **more}
    if options.out is None:
        text = content.decode()
        return Outcome(text.removesuffix("\n"), data | {"content": text}, exact=True)
    with writing(options.out):
        write_atomically(options.out, content)
    text = f"model {model.fingerprint[:16]}..., written to {options.out}"
    return Outcome(printable(text), data | {"content": None})


def _export(model: "Model", options: argparse.Namespace) -> tuple[bytes, dict[str, str | None]]:
    """Content of the file, and what else there is to say."""
    from replearn import exports

    if options.to == "onnx":
        content = exports.to_onnx(
            model, encoded=options.encoded, single_precision=options.float32, large=options.large
        )
        return content, {}
    if options.to == "csv":
        warn_of_formulas(_texts(model), options)
        table = exports.to_csv(model, large=options.large, spreadsheet=options.spreadsheet)
        return table.encode(), {}
    name = "rows" if options.table is None else options.table
    sql = exports.to_sql(model, name, large=options.large)
    return sql.query.encode(), {
        "score": sql.score,
        "label": sql.label,
        "probability": sql.probability,
    }


def _texts(model: "Model") -> "Iterator[str]":
    """Names and categories that a table of coefficients shows."""
    yield from model.feature_names or ()
    for column in () if model.encoding is None else model.encoding.columns:
        yield column.name
        yield from getattr(column, "values", ())
