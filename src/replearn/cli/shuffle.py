"""``replearn shuffle``: the rows of a file in a random order."""

import argparse
import csv
import io

from replearn.cli.command import Outcome, Parser, check_target
from replearn.documents.facts import Facts, Row
from replearn.errors import ReplearnError

EPILOG = """\
example:
  replearn shuffle data.csv --out shuffled.csv --seed 7
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("table TABLE", "a CSV or Parquet file")
    parser.add("--out FILE", "of the same kind", required=True)
    parser.add("--seed TEXT", "any text; the same order again (default 0)", default="0")


def run(options: argparse.Namespace) -> Outcome:
    """Read all rows, order them by keys, write."""
    from replearn.codes.coins import Coins
    from replearn.documents import write_atomically

    check_target(options.out)
    ends = {path.lower().rpartition(".")[2] for path in (options.table, options.out)}
    coins = Coins(options.seed)
    if ends == {"csv"}:
        with open(options.table, encoding="utf-8-sig", newline="") as file:
            header, *rows = list(csv.reader(file)) or [[]]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows[i] for i in coins.row_order("shuffle", len(rows)))
        write_atomically(options.out, text.getvalue().encode())
        n_rows = len(rows)
    elif ends == {"parquet"}:
        import pyarrow.parquet as pq

        table = pq.read_table(options.table)
        n_rows = table.num_rows
        sink = io.BytesIO()
        pq.write_table(table.take(coins.row_order("shuffle", n_rows)), sink)
        write_atomically(options.out, sink.getvalue())
    else:
        raise ReplearnError(
            "shuffle takes two .csv or two .parquet files. Convert the table first."
        )
    return Outcome(
        Facts(f"{n_rows:,} rows in random order are in {options.out}.", [Row("seed", options.seed)])
    )
