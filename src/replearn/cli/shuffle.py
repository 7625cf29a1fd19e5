"""``replearn shuffle``: a file with the rows of another one in random order."""

import argparse
from pathlib import Path

from replearn.cli.files import check_scratch, check_target, terminal_progress, writing
from replearn.cli.options import Parser
from replearn.cli.outcome import Outcome
from replearn.terminal import printable

HELP = "put the rows of a file in random order, once, with little memory"

EPILOG = """\
example:
  replearn shuffle big.parquet --out shuffled.parquet --seed 2024
  replearn fit shuffled.parquet --target label --seed 2024 --assume-shuffled --out a.model.json

The order is that in which `replearn fit big.parquet --seed 2024` takes the rows, so both give the
same model, to the bit; but the second reads the shuffled file as a stream. OUT has the format of
IN. Memory does not depend on the number of rows; the scratch folder takes as much space as
the rows. DATA may be a folder of files, which are taken in the order of their names.

JSON keys: rows, out, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("data IN", "a file, or a folder of files of one format")
    parser.add("--out OUT", "file to write", required=True)
    parser.add("--seed", "seed of the order: any text (default 0)", default="0")
    parser.add(
        "--random-state N", "a private key instead of --seed, as in the estimators", type=int
    )
    parser.add("--scratch DIR", "folder for temporary files (default: OUT's)")


def run(options: argparse.Namespace) -> Outcome:
    """Shuffle."""
    from replearn.sources.shuffled_files import shuffle_file

    check_target(options.out)
    check_scratch(options.scratch)
    with terminal_progress(f"shuffling {Path(options.data).name}") as watch, writing(options.out):
        n_rows = shuffle_file(
            options.data, options.out, options.seed, options.random_state, options.scratch, watch
        )
    text = printable(f"{n_rows:,} rows in random order, written to {options.out}")
    return Outcome(text, {"rows": n_rows, "out": options.out})
