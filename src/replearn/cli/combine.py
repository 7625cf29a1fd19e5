"""``replearn combine``: add up the sums of labs."""

import argparse

from replearn.cli.command import (
    DIFFERENT,
    DONE,
    Outcome,
    Parser,
    check_target,
    may_leave,
    working,
    write_page,
)
from replearn.cli.replicate import read_opened
from replearn.documents.facts import Facts, Row

EPILOG = """\
examples:
  replearn combine study.json *.sums.json --out next.json
  replearn combine study.json *.sums.json --state next.json --out next.json
  replearn combine study.json --begin --opened a.model.json --out first.json

writes the state of the next round, or, after the last one, the model. From an
opened model one round is enough: --begin writes the state that labs need.

exit codes: 0 the next round, or a model; 1 it is not the original's model;
  2 bad input
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("study STUDY", "the study file")
    parser.add("sums SUMS", "the sums of all labs, of one round", nargs="*")
    parser.add("--out FILE", "the next state, or the model", required=True)
    parser.add("--state FILE", "what the labs were asked for (default: the first round)")
    parser.add("--begin", "write the state of the first round", action="store_true")
    parser.add(
        "--opened FILE",
        "the original's model, or what opens a sealed study; or both",
        action="append",
        default=[],
    )
    parser.add_page()


def run(options: argparse.Namespace) -> Outcome:
    """Add up, and step on."""
    from replearn.study.coalition import Coalition, LabSums, combine
    from replearn.study.passes import State
    from replearn.study.study import Study

    check_target(options.out, "model")
    check_target(options.page, "page")
    study = Study.load(options.study)
    opened, nonce = read_opened(options.opened, study)
    if options.begin:
        begun = study.begin(opened)
        begun.save(options.out)
        return Outcome(_next(begun, options.out, 0))
    state = None if options.state is None else State.load(options.state)
    sums = [LabSums.load(path) for path in options.sums]
    with working("adding up sums"):
        found = combine(study, *sums, state=state, opened=opened, nonce=nonce)
    may_leave("model", sum(part.rows for part in sums), study.design.n_numbers)
    if not isinstance(found, Coalition):
        found.save(options.out)
        return Outcome(_next(found, options.out, len(sums)))
    found.model.save(options.out)
    facts = found.facts()
    write_page(facts, options.page, f"Coalition of {options.study}")
    return Outcome(facts, DIFFERENT if found.replication.same is False else DONE)


def _next(state: object, path: str, n_labs: int) -> Facts:
    return Facts(
        f"The next round begins: send {path} to all labs.",
        [
            f"Each runs: replearn sums STUDY TABLE --state {path} --out LAB.sums.json",
            Row("labs", n_labs or None),
            Row("asked for", state.asks),  # type: ignore[attr-defined]
        ],
        values={"done": False},
    )
