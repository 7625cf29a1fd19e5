"""``replearn check``: everything that would go wrong at a fit, without fitting."""

import argparse
from pathlib import Path

from replearn.cli.files import terminal_progress
from replearn.cli.options import Parser, add_common
from replearn.cli.outcome import DIFFERENT, DONE, Outcome
from replearn.terminal import printable_lines

HELP = "what would go wrong at the fit of this site's file, without fitting"

EPILOG = """\
example:
  replearn check site_a.csv --protocol study.json

Columns that are not there (and which may be meant), labels, values that the protocol does not
know, numbers that are none, missing values, other units, too few rows. Nothing is written, and
nothing leaves this computer; the sentences may hold values of the file.

exit codes: 0 a fit would start; 1 it would stop; 2 bad usage

JSON keys: ok, place, rows, labels (rows of each), findings (kind: stops, warns or note; about;
  text), columns (rows with a missing or unknown value, by column), warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("data DATA", "rows of this site")
    add_common(parser, "--protocol", "--lock", "--target")


def run(options: argparse.Namespace) -> Outcome:
    """Check the file."""
    from replearn.audits.site_check import check_file
    from replearn.study.protocol import Protocol

    protocol = Protocol.load(options.protocol, options.lock)
    with terminal_progress(f"reading {Path(options.data).name}") as advance:
        found = check_file(protocol, options.data, options.target, watch=advance)
    return Outcome(printable_lines(str(found)), found.data(), DONE if found.ok else DIFFERENT)
