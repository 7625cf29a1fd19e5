"""``replearn export``: a model in the words of a different program."""

from argparse import Namespace

from replearn.cli.command import Outcome, Parser, check_output_path, refuse_unused
from replearn.errors import ReplearnError
from replearn.words import Facts, Row

EPILOG = """\
examples:
  replearn export a.model.json --out coefficients.csv
  replearn export a.model.json --out a.sql --table patients --dialect duckdb
  replearn export a.model.json --out a.onnx

what the file predicts is what the model predicts
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_shared("model")
    parser.add("--out FILE", "ends in .csv, .sql or .onnx", required=True)
    parser.add("--table NAME", "SQL: the table that is read (default rows)", default="rows")
    parser.add(
        "--dialect",
        "SQL: of which database (default sqlite)",
        choices=("sqlite", "duckdb", "postgres"),
        default="sqlite",
    )


def run(options: Namespace) -> Outcome:
    """Write the format that the name of the file asks for."""
    from replearn import exports
    from replearn.documents import write_atomically
    from replearn.reports.files import load_model

    # the ending says which program will read it
    check_output_path(options.out, "model")
    model = load_model(options.model)
    kind = options.out.rpartition(".")[2].lower()
    if kind != "sql":
        refuse_unused(options, f"a .{kind} file", "table", "dialect")
    if kind == "csv":
        exports.to_csv(model, options.out)
    elif kind == "sql":
        # one line end at the end, as editors and diffs expect it
        text = exports.to_sql(model, options.table, dialect=options.dialect)
        write_atomically(options.out, (text.rstrip("\n") + "\n").encode())
    elif kind == "onnx":
        exports.to_onnx(model, options.out)
    else:
        raise ReplearnError(f"--out must end in .csv, .sql or .onnx, got {options.out!r}.")

    what = {"csv": "coefficients", "sql": f"SQL for {options.dialect}", "onnx": "an ONNX graph"}
    return Outcome(
        Facts(f"The model is in {options.out}, as {what[kind]}.", [Row("model", model.fingerprint)])
    )
