"""``replearn shuffle``: the rows of a file in a random order."""

import csv
import io
from argparse import Namespace

from replearn.cli.command import Outcome, Parser, check_output_path, may_leave
from replearn.errors import ReplearnError
from replearn.words import Facts, Row

EPILOG = """\
example:
  replearn shuffle data.csv --out shuffled.csv --seed 7
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("table TABLE", "a CSV or Parquet file")
    parser.add("--out FILE", "of the same kind", required=True)
    parser.add("--seed TEXT", "any text; the same order again (default 0)", default="0")


def run(options: Namespace) -> Outcome:
    """Read all rows, order them by keys, write."""
    from replearn.codes import Coins
    from replearn.documents import write_atomically
    from replearn.tables import ParquetFile, reading

    check_output_path(options.out, "rows")
    ends = {path.lower().rpartition(".")[2] for path in (options.table, options.out)}
    if ends not in ({"csv"}, {"parquet"}):
        raise ReplearnError(
            "shuffle takes two .csv or two .parquet files. Convert the table first."
        )
    # keys by row number: the order depends on the seed alone
    coins = Coins(options.seed)
    if ends == {"csv"}:
        with reading(options.table), open(options.table, encoding="utf-8-sig", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        n_rows, text = len(rows), io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows[i] for i in coins.row_order("shuffle", n_rows))
        content = text.getvalue().encode()
    else:
        import pyarrow.parquet as pq

        n_rows, sink = ParquetFile(options.table).n_rows, io.BytesIO()  # refuses bombs
        order = coins.row_order("shuffle", n_rows)
        with reading(options.table):
            pq.write_table(pq.read_table(options.table).take(order), sink)
        content = sink.getvalue()
    may_leave("rows", n_rows)
    write_atomically(options.out, content)
    return Outcome(
        Facts(f"{n_rows:,} rows in random order are in {options.out}.", [Row("seed", options.seed)])
    )
