"""``replearn show``: explain a file of replearn."""

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from replearn.cli.command import Outcome, Parser, may_leave
from replearn.words import MAX_LINES, Row

if TYPE_CHECKING:
    from replearn.reports.policy import Kind

#: What a page of a file tells, in the words of a policy.
_KINDS: "dict[str, Kind]" = {
    "replearn/study": "study",
    "replearn/sums": "sums",
    "replearn/share": "sums",
    "replearn/model": "model",
    "replearn/state": "model",
}
#: Nobody has checked what a file says beside its content.
_STATED = "as the lab states"

EPILOG = """\
examples:
  replearn show study.json
  replearn show a.model.json --details
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("file FILE", "a study, a model, or any file that replearn wrote")
    parser.add_shared("page")


def run(options: Namespace) -> Outcome:
    """Read it strictly, and say what it is."""
    from replearn.codes import Model
    from replearn.reports.files import load
    from replearn.reports.methods import with_methods
    from replearn.study import GlmStudy

    document = load(options.file)
    facts = document.facts()
    stated = [
        Row(name, value if isinstance(value, int | float | str) else str(value), note=_STATED)
        for name, value in (document.provenance or {}).items()
        if name not in ("estimates", "constants")  # which the table of coefficients has
    ]
    facts = replace(facts, details=[*facts.details, *stated])
    if isinstance(document, GlmStudy):
        facts = with_methods(facts, document)
    if options.page is not None and document.FORMAT in _KINDS:
        may_leave(_KINDS[document.FORMAT])
    shown = facts
    if isinstance(document, Model) and not options.details:
        # a reader looks for effects first; details and pages have all of them in tables
        fingerprint, *rest = facts.items
        effects = document.strongest_effects()
        # beside them the fingerprint and one line more
        shown = replace(facts, items=[fingerprint, *effects, *rest], most_lines=MAX_LINES + 2)
    return Outcome(shown, title=options.file, page=facts)
