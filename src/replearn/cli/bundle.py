"""``replearn bundle``: everything that a site needs, in one folder."""

import argparse

from replearn.cli.files import writing
from replearn.cli.options import Parser, add_common
from replearn.cli.outcome import Outcome
from replearn.cli.text import aligned

HELP = "write a folder with everything that a site needs, to be used offline"

EPILOG = """\
example:
  replearn bundle study.json --out for-the-sites

The folder has the protocol, one page of instructions for a site's data manager, a checklist, a
list of the columns, a made-up file to rehearse with, and the fingerprint that the rehearsal must
give. Nothing in it comes from rows of a pilot or a site, except what the protocol publishes.

JSON keys: out, files, protocol (its hash), expected_fingerprint, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("protocol PROTOCOL", "protocol of the study")
    parser.add("--out FOLDER", "a new folder", required=True)
    add_common(parser, "--lock")
    parser.add("--target COLUMN", "label column, if the protocol does not name it")


def run(options: argparse.Namespace) -> Outcome:
    """Write the folder."""
    from replearn.audits.bundle import write_bundle
    from replearn.study.protocol import Protocol

    protocol = Protocol.load(options.protocol, options.lock)
    with writing(options.out):
        done = write_bundle(protocol, options.out, options.target)
    lines = [
        ("written to", done.folder),
        ("files", ", ".join(done.files)),
        ("protocol", done.protocol),
        ("rehearsal", f"must give {done.fingerprint}"),
    ]
    data = {
        "out": done.folder,
        "files": list(done.files),
        "protocol": done.protocol,
        "expected_fingerprint": done.fingerprint,
    }
    return Outcome(aligned(lines), data)
