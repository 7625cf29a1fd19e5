"""``replearn bundle``: a folder with all that a lab needs to replicate, offline."""

import argparse

from replearn.cli.command import Outcome, Parser

EPILOG = """\
examples:
  replearn bundle study.json --out for-the-centre

The folder holds the study, a page that fits it in a browser (study.html, no
installation, no network), invented rows to rehearse with, and a few words.
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("study STUDY", "the study file")
    parser.add("--out FOLDER", "a new folder", required=True)


def run(options: argparse.Namespace) -> Outcome:
    """Write the folder, as a whole or not at all."""
    from replearn.facts import Facts, Row
    from replearn.reports.bundle import write_bundle
    from replearn.study.study import Study

    folder = write_bundle(Study.load(options.study), options.out)
    sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
    return Outcome(
        Facts(
            f"{options.out} has all that a lab needs. Send the whole folder.",
            [
                "Open study.html in a browser, and choose rehearsal.csv to see what happens.",
                *(Row(name, size, "bytes") for name, size in sizes.items()),
            ],
            values={"folder": str(folder)},
        )
    )
