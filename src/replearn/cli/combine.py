"""``replearn combine``: add up the sums of labs."""

from argparse import Namespace
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replearn.cli.command import (
    DIFFERENT,
    Outcome,
    Parser,
    check_output_path,
    keep,
    may_leave,
    refuse_unused,
    study_may_leave,
    working,
)
from replearn.errors import ReplearnError
from replearn.words import Facts, Row

if TYPE_CHECKING:
    from replearn.glm import GlmModel
    from replearn.study import Coalition, Founded, GlmStudy, LabColumns, State

#: What labs add up their rows for, in a statistician's words.
_PASSES = {
    "scale": "scale of the weights",
    "counts": "counts of rows and classes",
    "one step": "one Newton step",
    "a step": "one Newton step",
    "spread": "spread of the coefficients",
}

EPILOG = """\
examples:
  replearn combine study.json *.sums.json --out next.json
  replearn combine study.json *.sums.json --state next.json --out third.json
  replearn combine study.json --begin --opened a.model.json --out first.json
  replearn combine study.json *.for-north.json --out north.share.json
  replearn combine study.json *.share.json --out next.json
  replearn combine a.columns.json b.columns.json --out draft.json
  replearn combine draft.json *.sums.json --publish --out next.json

writes the state of the next round, or, after the last one, the model. From an
opened model one round is enough: --begin writes the state that labs need.
Labs that publish together begin with their columns: they make a draft.
Of secret shares each lab adds up those it got, and whoever combines the rest.

exit codes: 0 the next round, or a model; 1 it is not the original's model;
  2 bad input
"""

#: Options of rounds, which a draft does not know.
_OF_ROUNDS = ("state", "begin", "opened", "publish", "replication_rows", "page")


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("study STUDY", "the study file, or the columns of a first lab")
    parser.add("sums SUMS", "the sums (or columns) of all labs, of one round", nargs="*")
    parser.add("--out FILE", "the next state, or the model", required=True)
    parser.add("--state FILE", "what the labs were asked for (default: the first round)")
    parser.add("--begin", "write the state of the first round", action="store_true")
    parser.add_shared("opened")
    parser.add(
        "--publish",
        "the labs together are the original: after the last round the study is written",
        action="store_true",
    )

    # of a joint original: what it promises, and what its draft asks for
    rows = "publish: rows of the smallest replication (default: a median lab)"
    parser.add("--rows N", rows, type=int, dest="replication_rows")
    parser.add("--ridge X", "of a draft, per row (default: ten over all rows)", type=float)
    parser.add("--seed TEXT", "of a draft; any text (default 0)", default="0")
    parser.add_shared("page")


def run(options: Namespace) -> Outcome:
    """Add up, and step on."""
    from replearn.documents import document_of
    from replearn.study import GlmStudy, LabColumns, LabSums, Share

    # before there is a study: its draft
    first: Any = document_of(options.study, (GlmStudy, LabColumns))
    if isinstance(first, LabColumns):
        check_output_path(options.out, "study")
        refuse_unused(options, "a draft from columns", *_OF_ROUNDS)
        return _draft(first, options)

    # a round: sums of all labs, or secret shares of them
    sums: list[Any] = [document_of(path, (LabSums, Share)) for path in options.sums]
    shares = [one for one in sums if isinstance(one, Share)]
    if any(share.lab is not None for share in shares):
        unused = ("begin", "opened", "page", "publish", "replication_rows")
        refuse_unused(options, "a lab that adds up shares", *unused)
        check_output_path(options.out, "shares", ("replearn/share",))
    else:
        made = ["replearn/state"] if options.publish else ["replearn/state", "replearn/model/glm"]
        check_output_path(options.out, "model", tuple(made))
    refuse_unused(options, "a round of a study", "ridge", "seed")
    if options.publish and not options.begin:
        refuse_unused(options, "a joint original", "opened")
    return _round(first, sums, options)


def _round(study: "GlmStudy", sums: list[Any], options: Namespace) -> Outcome:
    """From the sums of all labs to the next state, a study or a model."""
    from replearn.study import Coalition, Founded, LabSums, Share, State, combine, opened_by

    # the model from which one round is enough
    opened = options.opened or None
    if options.begin:
        model = opened_by(study, opened).model
        if opened and model is None:
            raise ReplearnError("--begin needs the original's model, got its opening alone.")
        return _begin(study, model, options)
    if not options.publish:
        refuse_unused(options, "a joint fit without --publish", "replication_rows")

    state = None if options.state is None else State.load(options.state)
    with working("adding up sums"):
        result = combine(
            study,
            *sums,
            state=state,
            opened=opened,
            publish=options.publish,
            replication_rows=options.replication_rows,
        )
    if isinstance(result, Share):
        may_leave("shares")
        result.save(options.out)
        return Outcome(replace(result.facts(), values={"done": False}))

    # of shares nobody knows the rows before the end
    n_rows = sum(one.rows for one in sums if isinstance(one, LabSums)) or None
    if isinstance(result, Coalition):
        n_rows = result.replication.n_rows
    may_leave("model", n_rows, study.design.n_numbers)

    # a round in between, the end of a joint original, or that of a joint replication
    if isinstance(result, Founded):
        return _publish(result, options)
    if isinstance(result, Coalition):
        return _finish(result, options)
    result.save(options.out)
    facts = _next(result, options.out, len(sums))
    if options.replication_rows is not None:  # the state does not remember it
        told = f"--rows {options.replication_rows} counts in the last round: give it again then."
        facts = replace(facts, told=[told])
    return Outcome(facts)


def _begin(study: "GlmStudy", opened: "GlmModel | None", options: Namespace) -> Outcome:
    """Write the state of the first round."""
    refuse_unused(options, "--begin", "state", "publish", "replication_rows", "page")
    if options.sums:
        raise ReplearnError("--begin needs no sums: no lab has added up rows yet.")
    state = study.begin(opened)
    state.save(options.out)
    return Outcome(_next(state, options.out, 0))


def _publish(original: "Founded", options: Namespace) -> Outcome:
    """Write the study of all labs together, and keep their model."""
    study_may_leave(original.study)
    path = f"{options.out.removesuffix('.json')}.model.json"
    check_output_path(options.out, "study")  # no study is lost, of these labs or of others
    keep({path: original.model})
    original.study.save(options.out)

    files = [Row("send", options.out, note="not the model"), Row("keep", path)]
    facts = original.facts()
    facts = replace(facts, items=[*files, *facts.items])
    return Outcome(facts, title=f"Original of {options.out}", n_rows=original.study.n_original)


def _finish(coalition: "Coalition", options: Namespace) -> Outcome:
    """Write the model of a joint replication, unless it is not the original's."""
    facts, title = coalition.facts(), f"Coalition of {options.study}"
    if coalition.replication.same is False:  # what these rows give is nobody's fit
        facts = replace(facts, items=["No model file was written.", *facts.items])
        return Outcome(facts, DIFFERENT, title=title)
    coalition.model.save(options.out)
    return Outcome(facts, title=title)


def _draft(first: "LabColumns", options: Namespace) -> Outcome:
    """A draft of a study from the columns of all labs."""
    from replearn.study import LabColumns, draft_study

    # the columns of all labs, of which the first is already read
    labs = [first, *(LabColumns.load(path) for path in options.sums)]
    study = draft_study(*labs, ridge=options.ridge, shared_seed=options.seed)

    study_may_leave(study)
    study.save(options.out)

    asked = [column.name for column in first.columns]
    absent = [name for name in asked if name not in study.design.encoding.names]
    told = []
    if absent:
        named = ", ".join(map(repr, absent))
        why = "some lab has too few rows of a value to sum, or too many gaps"
        told = [f"Left out, because {why}: {named}."]
    return Outcome(
        Facts(
            f"The draft of a study is made: send {options.out} to all labs.",
            [
                *told,
                f"Each runs: replearn sums {options.out} TABLE --out LAB.sums.json",
                Row("labs", len(labs)),
                Row("rows", study.n_original),
                Row("coefficients", study.design.n_numbers),
            ],
            values={"done": False},
        )
    )


def _next(state: "State", path: str, n_labs: int) -> Facts:
    return Facts(
        f"The next round begins: send {path} to all labs.",
        [
            f"Each runs: replearn sums STUDY TABLE --state {path} --out LAB.sums.json",
            *([Row("labs", n_labs)] if n_labs else []),
            Row("next round", _PASSES[state.asks], key="asked_for"),
        ],
        values={"done": False},
    )
