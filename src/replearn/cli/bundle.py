"""``replearn bundle``: what a lab needs to replicate, offline."""

from argparse import Namespace
from hashlib import sha256

from replearn.cli.command import Outcome, Parser, study_may_leave
from replearn.words import Facts, Row

EPILOG = """\
example:
  replearn bundle study.json --out folder

writes study.json, study.html (a page that fits in any browser, without
network), rehearsal.csv (invented rows) and README.txt, or nothing
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_shared("study")
    parser.add("--out FOLDER", "a new or an empty folder", required=True)


def run(options: Namespace) -> Outcome:
    """Write the folder, whole or not at all."""
    from replearn.reports.bundle import write_bundle
    from replearn.study import GlmStudy

    study = GlmStudy.load(options.study)
    study_may_leave(study)

    # the files, and what tells that the page on the way was not changed
    folder = write_bundle(study, options.out)
    files = sorted(path.name for path in folder.iterdir())
    digest = sha256((folder / "study.html").read_bytes()).hexdigest()

    return Outcome(
        Facts(
            f"The bundle is in {options.out}: send the whole folder to a lab.",
            [
                "A lab without Python opens study.html in a browser and chooses its CSV file.",
                Row("files", ", ".join(files)),
                f"Study {study.fingerprint}",
                "Tell labs the SHA-256 of study.html by a different way:",
                digest,
            ],
            values={"study": study.fingerprint, "files": files, "page_sha256": digest},
        )
    )
