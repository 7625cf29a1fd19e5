"""``replearn show``: explain a file of replearn."""

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from replearn.cli.command import Outcome, Parser, may_leave
from replearn.words import Row

if TYPE_CHECKING:
    from replearn.glm import Model
    from replearn.reports.policy import Kind

#: What a page of a file tells, in the words of a policy.
_KINDS: "dict[str, Kind]" = {
    "replearn/study": "study",
    "replearn/sums": "sums",
    "replearn/model": "model",
    "replearn/state": "model",
}
#: Effects that are shown before details are asked for.
_MOST_EFFECTS = 10
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
    parser.add_page()


def run(options: argparse.Namespace) -> Outcome:
    """Read it strictly, and say what it is."""
    from replearn.reports.files import load
    from replearn.reports.methods import with_methods

    document = load(options.file)
    facts = document.facts()
    stated = [
        Row(name, value if isinstance(value, int | float | str) else str(value), note=_STATED)
        for name, value in (document.provenance or {}).items()
        if name not in ("estimates", "constants")  # which the table of coefficients has
    ]
    facts = replace(facts, details=[*facts.details, *stated])
    if document.FORMAT == "replearn/study" and document.KIND == "glm":
        facts = with_methods(facts, document)
    if options.page is not None and document.FORMAT in _KINDS:
        may_leave(_KINDS[document.FORMAT])
    shown = facts
    is_model = document.FORMAT == "replearn/model" and document.KIND == "glm"
    if is_model and not (options.details or document.is_mismatch):
        # a reader looks for effects first; details and pages have all of them in tables
        fingerprint, *rest = facts.items
        shown = replace(facts, items=[fingerprint, *_strongest_effects(document), *rest])
    return Outcome(shown, title=options.file, page=facts)


def _strongest_effects(model: "Model") -> list[Row]:
    """The clearest of its lab's own estimates, with intervals; none where it states none."""
    columns = model.coefficients.columns
    ratio = model.design.loss.ratio
    values = columns[ratio.replace(" ", "_") if ratio else "estimate"]
    if "class" in columns or None in columns["estimate"]:
        return []

    # clearest: most standard errors away from no effect, whatever the unit of a column
    distance: dict[int, float] = {}
    for place, (estimate, error) in enumerate(
        zip(columns["estimate"], columns["standard_error"], strict=True)
    ):
        if place and error > 0:  # the first is the constant
            distance[place] = abs(estimate) / error
    clearest = sorted(distance, key=lambda place: -distance[place])[:_MOST_EFFECTS]

    note, rows = f"estimated {ratio}" if ratio else "estimate per unit", []
    for place in clearest:
        ends = (columns["low"][place], columns["high"][place])
        name = columns["term"][place]
        rows.append(Row(name, values[place], "", ends, note, in_json=False))
    return rows
