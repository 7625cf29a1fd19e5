"""``replearn publish``: fit an original and write its study."""

import os
from argparse import Namespace
from contextlib import suppress
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from replearn.cli.command import (
    CSV,
    DIFFERENT,
    DONE,
    Outcome,
    Parser,
    check_output_path,
    csv_options,
    keep,
    may_leave,
    names,
    refuse_unused,
    study_may_leave,
    working,
)
from replearn.documents import Document
from replearn.errors import InvalidFile, ReplearnError
from replearn.words import Facts, Figure, Row, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replearn.glm import GlmDesign, GlmModel
    from replearn.study import GlmStudy, Original, Request
    from replearn.tables import Remark, Table

#: Plans that are tried for more evidence.
_PLANS_TRIED = 8

EPILOG = """\
examples:
  replearn publish a.csv --target died --out study.json
  replearn publish a.csv --target died --out study.json --sealed
  replearn publish p.csv --target died --out s.json --registered --rows 9000

writes study.json to send; beside it a.model.json to keep (and a.opening.json
if sealed). Publish once: each further study of nearly the same patients tells
a little about those in whom they differ. exit codes: 0 published; 1 it ranks
the wrong way round (AUC below 0.5); 2 no promise can be kept, or bad input
"""

#: Lines below the verdict that are no effects: files, rates, what is told.
_BESIDE_EFFECTS = 8
#: Of fewer rows, two studies show the outcome of the patient in whom they differ.
_ROWS_THAT_HIDE_ONE = 50_000


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_shared("table")
    parser.add("--target COLUMN", "what to predict")
    parser.add("--out FILE", "the study, to send to other labs", required=True)
    parser.add("--keep FILE", "your model (default: named after the table)")
    _add_kind(parser)
    _add_terms(parser)
    _add_promise(parser)
    _add_columns(parser)
    parser.add_shared("seed", *CSV, "page")


def _add_kind(parser: Parser) -> None:
    """Add what the target is, and who is first."""
    parser.add_shared("kind")

    # survival has two columns in place of a target
    parser.add("--time COLUMN", "survival: times to the event, or to the end of observation")
    parser.add("--event COLUMN", "survival: 1 where the event was seen, 0 where it was not")

    # who sees the commitment, and whether there is one
    parser.add("--sealed", "hide the model's fingerprint until you open it", action="store_true")
    parser.add(
        "--registered",
        "nobody is first: a pilot's rows only plan the study, each lab will have --rows",
        action="store_true",
    )
    parser.add("--scores COLUMNS", "registered: finished scores to recalibrate", type=names)


def _add_terms(parser: Parser) -> None:
    """Add which terms the model has, and how many bits are published of each."""
    parser.add(
        "--basis",
        "straight lines (default), curves, or the better of both",
        choices=("linear", "splines", "auto"),
        default="linear",
    )
    parser.add("--interactions PAIRS", 'all, or pairs of columns: "age:sex,age:bmi"')
    parser.add(
        "--bits N", "published per coefficient, 0 to 8 (default 8)", type=int, dest="sketch_bits"
    )


def _add_promise(parser: Parser) -> None:
    """Add what is promised to which labs."""
    parser.add("--centres COLUMN", "hospital or month of a row: shows how much centres differ")
    parser.add(
        "--between X",
        'how much centres differ: typical (default), 0 for one population, or "0.2,0.03"',
        type=_between,
    )
    parser.add(
        "--local-constant",
        "labs agree on slopes, and each fits its own constant (base risk)",
        dest="constant",
        action="store_const",
        const="local",
    )

    # when to refuse, and for which labs
    parser.add("--evidence BITS", "refuse if fewer guesses than 2^BITS find the model", type=float)
    parser.add(
        "--max-disagreement X",
        "probability of a different model (default 0.01; registered 0.1)",
        type=float,
    )
    parser.add(
        "--rows N",
        "rows of the smallest replication (default: as here, or of a median centre)",
        type=int,
        dest="replication_rows",
    )


def _add_columns(parser: Parser) -> None:
    """Add the penalty, and what columns mean."""
    parser.add("--ridge X", "penalty per row (default: by cross-validation)", type=float)
    parser.add(
        "--missing",
        "missing numbers get a coefficient of their own (default), or stop the fit",
        choices=("indicator", "refuse"),
        default="indicator",
    )

    # classes, and what columns are
    parser.add("--class-weight", "give classes equal weight", choices=("balanced",))
    numeric = "columns that are measurements, whatever they look like, with commas"
    parser.add_shared("categories")
    parser.add("--numeric COLUMNS", numeric, type=names, default=[])
    parser.add_shared("drop")

    # columns that are no predictors
    parser.add("--weights COLUMN", "weights of rows")
    parser.add("--offset COLUMN", "a known part of the score, such as log exposure")
    parser.add("--groups COLUMN", "rows of one group belong together, such as a person's")


def run(options: Namespace) -> Outcome:
    """Fit, refuse what must not be published, write."""
    from replearn.study import publish
    from replearn.tables import refuse_unsafe

    # 1 what can be refused before the work
    stem = os.path.basename(options.table).split(".")[0] or "original"
    model_path = options.keep or os.path.join(os.path.dirname(options.out), f"{stem}.model.json")
    check_output_path(options.out, "study", ("replearn/study/glm",))
    check_output_path(model_path, None, ("replearn/model/glm",), [options.out])
    _refuse_forgotten(options)
    _refuse_unused(options)
    _prepare_survival(options)
    bits = options.evidence
    if bits is not None and not 0 < bits <= 1000:
        raise ReplearnError(f"--evidence must be from 0 to 1000 bits, got {bits:g}. 30 is usual.")
    table = _table(options)
    if options.registered:
        return _register(table, options)

    # 2 the fit, and what must not be published
    request = _request(options)
    with working("fitting the original"):
        original = publish(table, request, refuse_unsafe)
    refuse_unsafe(original.remarks)
    study, model = original.study, original.model.stating(original.own())
    study.refuse_problems()
    if bits is not None:
        _refuse_weak(original, table, request, bits)
    study_may_leave(study)
    if options.page is not None:  # it has all coefficients
        may_leave("model", study.n_original, study.design.n_numbers)
    study.refuse_unreadable(options.out)

    # 3 the files: the study last, since who has it may rely on the others
    original = _as_begun(original, model_path)
    files = _write_private(original, model, options.out, model_path)
    original.study.save(options.out)

    facts = page = _facts(original, files)
    if options.page is not None:
        facts, page = _with_page(facts, original, model, options.page)
    auc, title = original.performance.auc, f"Original of {options.out}"
    code = DIFFERENT if auc is not None and auc.value < 0.5 else DONE
    return Outcome(facts, code, title=title, n_rows=study.n_original, page=page)


def _table(options: Namespace) -> "Table":
    """The rows of the original, with the roles of its columns."""
    from replearn.tables import open_table

    # of survival the two columns are times and events
    target, offset = options.target, options.offset
    if options.kind == "survival":
        target, offset = options.time, options.event
    return open_table(
        options.table,
        target=target,
        weights=options.weights,
        offset=offset,
        groups=options.groups,
        centres=options.centres,
        csv=csv_options(options),
    )


def _request(options: Namespace) -> "Request":
    """What was asked for: an option is stored under the name of the field that it sets."""
    from replearn.study import Request

    given = {}
    for field in fields(Request):
        value = getattr(options, field.name, None)
        if value is not None:
            given[field.name] = value
    if options.interactions is not None:
        given["interactions"] = _pairs(options.interactions)
    return Request(**given)


def _write_private(
    original: "Original", model: "GlmModel", study_path: str, model_path: str
) -> list[Row]:
    """Write what stays with the original, and say what to do with each file."""
    files = [
        Row("send", study_path, note="not the model"),
        Row("keep", model_path, note="your model"),
    ]

    # the opening first: a model without it could never be shown to be the study's
    kept: dict[str, Document] = {}
    if original.opening is not None:
        path = _opening_path(model_path)
        kept[path] = original.opening
        files.append(Row("keep", path, note="opens the seal", key="opening"))
    kept[model_path] = model
    keep(kept)
    return files


def _opening_path(model_path: str) -> str:
    return f"{model_path.removesuffix('.json').removesuffix('.model')}.opening.json"


def _as_begun(original: "Original", model_path: str) -> "Original":
    """The same study as before, if a sealed one was stopped before its study was written."""
    from replearn.study import Opening

    path = _opening_path(model_path)
    if original.nonce is None or not os.path.exists(path):
        return original

    with suppress(InvalidFile):
        begun = Opening.load(path)
        as_before = original.sealed_with(begun.nonce)
        if as_before.study.fingerprint == begun.study:
            return as_before
    return original


def _with_page(
    facts: Facts, original: "Original", model: "GlmModel", path: str
) -> tuple[Facts, Facts]:
    """Facts for the terminal, and for the page, which holds the model."""
    from replearn.reports.evaluate import evaluate_original
    from replearn.reports.methods import with_methods

    measured = ("by cross-validation within this lab:", evaluate_original(original))
    page = with_methods(facts, original.study, model, measured)

    until = "before all fingerprints are on record" if original.study.sealed else "with the study"
    warning = f"Do not send this page ({path}) {until}: it holds the model."
    facts = replace(facts, told=[warning, *facts.told])
    return facts, replace(page, told=[warning, *page.told])


#: What only rows of an original say, or what only an original writes.
_OF_ORIGINALS = (
    *("keep", "sealed", "basis", "interactions", "sketch_bits", "centres", "between", "evidence"),
    *("ridge", "missing", "class_weight", "numeric", "weights", "offset", "groups"),
)


def _refuse_unused(options: Namespace) -> None:
    """Refuse options that belong to the other road."""
    if options.registered:
        refuse_unused(options, "--registered", *_OF_ORIGINALS)
    else:
        refuse_unused(options, "a study without --registered", "scores")


_NOT_OF_SURVIVAL = ("target", "weights", "offset", "class_weight", "scores", "kind", "registered")


def _prepare_survival(options: Namespace) -> None:
    """With --time and --event the study is one of survival, whose target is the event."""
    if options.time is None and options.event is None:
        return
    if options.time is None or options.event is None:
        raise ReplearnError("survival needs both --time and --event. Name both columns.")
    refuse_unused(options, "a study of --time and --event", *_NOT_OF_SURVIVAL)
    options.kind, options.target = "survival", options.event


def _register(table: "Table", options: Namespace) -> Outcome:
    """Plan a study in which nobody is first."""
    from replearn.study import register_study

    if options.replication_rows is None:
        raise ReplearnError("--registered needs --rows: how many rows each lab will have.")
    if options.constant is not None:
        raise ReplearnError(
            "--local-constant does not go with --registered: there the constant is a number that "
            "labs agree on. Leave it out; replearn update fits a constant afterwards."
        )

    # a pilot's rows only plan: none of their coefficients is published
    table = table.kept()
    n_rows = len(table.whole("target"))
    with working("planning the study"):
        study = register_study(
            table,
            table.require("target"),
            replication_rows=options.replication_rows,
            scores=options.scores,
            kind=options.kind,
            target=options.target or "y",
            max_disagreement=options.max_disagreement or 0.1,
            shared_seed=options.shared_seed,
            categories=options.categories,
            drop=options.drop,
        )

    may_leave("study", n_rows, study.design.n_numbers, study)
    study.save(options.out)
    return Outcome(study.facts(), title=f"Study {options.out}", n_rows=n_rows)


def _between(text: str) -> Any:
    """What --between says: a word, one number or two."""
    if text == "typical":
        return text
    parts = [float(part) for part in text.split(",")]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _refuse_weak(original: "Original", table: "Table", request: "Request", asked: float) -> None:
    """Stop where a match would prove less than was asked for, with a plan that proves enough."""
    bits = original.study.evidence(original.model).bits
    if bits >= asked:
        return
    with working("planning for more evidence"):
        plan = _plan_for(original, table, request, asked)
    raise ReplearnError(
        f"--evidence must be at most what the study gives, 2^{bits:.1f} guesses, got 2^{asked:g}. "
        f"{plan} The study was not published."
    )


def _plan_for(original: "Original", table: "Table", request: "Request", asked: float) -> str:
    """Options with which cells are narrow enough: one population, and labs of more rows.

    They are tried before they are named, since more rows bring more columns and other cells.
    """
    from replearn.codes import least_whole
    from replearn.study import publish

    most, excess = 100 * original.study.n_original, 0.0
    tried = original.study.n_replication * 2 // 3
    for _ in range(_PLANS_TRIED):
        planned = partial(original.study.planned_bits, original.model)
        goal = asked + excess
        rows = least_whole(lambda n_rows: planned(n_rows) >= goal, most=most)  # noqa: B023
        rows = tried = max(rows, tried * 3 // 2)
        if rows > most:
            break

        original = publish(table, replace(request, between=0, replication_rows=rows))
        bits = original.study.evidence(original.model).bits
        if bits >= asked and not original.certificate.problems:
            return f"Narrower cells prove more: --between 0 --rows {rows} gives 2^{bits:.1f}."
        excess = original.study.planned_bits(original.model, rows) - bits
    return "No --rows reaches it with these columns: get more rows or columns that matter."


def _refuse_forgotten(options: Namespace) -> None:
    """Stop where a second lab seems to publish instead of replicating."""
    from replearn.study import GlmStudy

    if not os.path.exists(options.out):
        return
    try:
        GlmStudy.load(options.out)
    except InvalidFile:
        return
    raise ReplearnError(
        f"{options.out} is a study already. To get the same model, run replearn replicate "
        f"{options.out} {options.table}; to publish a new one, name a different file."
    )


def _pairs(text: str) -> Any:
    """What --interactions says: all, or pairs of columns."""
    if text == "all":
        return text
    pairs = [tuple(pair.split(":")) for pair in names(text)]
    if any(len(pair) != 2 for pair in pairs):
        raise ReplearnError(
            f'--interactions must be all, or pairs like "age:sex,age:bmi", got {text!r}.'
        )
    return pairs


def _facts(original: "Original", files: list[Row]) -> Facts:
    from replearn.study import NO_ESTIMATES

    study = original.study
    remarks = original.remarks
    if original.gaps:  # these sentences name all columns with gaps
        remarks = tuple(remark for remark in remarks if remark.kind != "gaps")
    told, notes = _notes(remarks)
    if original.gaps:
        told += original.gaps
    told += _order_told(study.design)

    # how often, what a match proves, and what the model is worth
    performance = original.performance
    items: list[Any] = [
        *files,
        Row("agreement, same population", 1 - original.certificate.expected, "%", note="estimated"),
        study.evidence(original.model).words(),
        *original.certificate.cautions,
        *performance.rows()[:2],
    ]
    if performance.gain.low <= 0:
        items.append(f"These rows do not show that the model beats the {performance.null} alone.")

    # the clearest effects, where a reader of R looks for coefficients
    own = original.own()
    effects: list[Any] = [NO_ESTIMATES]
    if own is not None:
        effects = original.model.stating(own).strongest_effects()
    items += effects

    figure = Figure(
        "Performance of the model, beside the base rate and the fit before rounding",
        lambda: _ladder(original),
        "Cross-validated within this lab.",
    )
    details = _details(original, notes)
    return Facts(
        _verdict(original),
        items,
        details,
        figures=[figure],
        told=told,
        most_lines=len(effects) + _BESIDE_EFFECTS,
    )


def _verdict(original: "Original") -> str:
    """How often other labs get this model."""
    certificate = original.certificate
    if original.study.commitment is None:
        return f"The study is registered: nobody is first. {certificate.facts().verdict}"
    shared = "these slopes" if original.study.design.constant == "local" else "this model"
    return (
        f"The study is published: {certificate.centre_words}, with "
        f"{original.study.sized(certificate.n_replication)}, gets exactly {shared} in "
        f"{percent(1 - certificate.at_new_centre)} of cases (estimated; "
        f"{percent(1 - certificate.planned)} planned)."
    )


def _details(original: "Original", notes: list[str]) -> list[Any]:
    """What is shown on demand, and on the page."""
    from replearn.study import sample_size_row

    study, own = original.study, original.own_performance
    evidence = study.evidence(original.model)
    needed = Row("patients needed to match", evidence.rows, note="half of the time")

    details: list[Any] = [
        *original.performance.rows()[2:],
        Row(f"{own.words} before rounding", own.loss.value),
        Row("basis", original.basis),
        Row("ridge", study.design.ridge),
        Row("published bits", study.design.bits, "for each coefficient"),
        Row("fingerprint", original.model.fingerprint),
        Row("study", study.fingerprint),
        *(item for item in original.certificate.facts().items[1:] if isinstance(item, Row)),
        *([] if evidence.is_weak else [needed]),
        *sample_size_row(original.rows_needed, study.n_original, study.design.loss.counted),
        *original.certificate.assumed,
        *_about_publishing_again(study),
        *notes,
        original.cohort(),
    ]
    return details + original.model.stating(original.own()).coefficients.own_tables()


def _about_publishing_again(study: "GlmStudy") -> list[str]:
    """Two studies that differ by one patient: of few rows, one with an event moves more numbers."""
    if not study.design.bits or study.n_original >= _ROWS_THAT_HIDE_ONE:
        return []
    return [
        f"Publish these rows once: of {study.n_original:,}, a second study with one patient more "
        "or less shows the outcome of that patient, sealed or not. Add patients by hundreds."
    ]


def _order_told(design: "GlmDesign") -> list[str]:
    """Grades, such as 1 to 4, are classes without an order."""
    grades = design.classes or ()
    if len(grades) < 3 or not all(type(grade) is int for grade in grades):
        return []
    return [
        f"The {len(grades)} classes of {design.target!r} are numbers and count as unordered. If "
        "their order matters, pass --kind linear, or a threshold as the outcome."
    ]


def _notes(remarks: "Sequence[Remark]") -> tuple[list[str], list[str]]:
    """What is said of columns beside the verdict, each of them named; and the rest of it."""
    done: dict[str, list[Remark]] = {}  # what was done to columns, in words
    asked: list[Remark] = []
    for remark in remarks:
        if words := _DONE.get(remark.kind, _LEFT_OUT if remark.left_out else ""):
            done.setdefault(words, []).append(remark)
        else:
            asked.append(remark)

    told = [f"Column {one.column!r} {one.reason}." for one in asked[:4]]
    if asked[4:]:
        told.append(f"More questions, about {_names(asked[4:])}: see --details.")
    for words in (_LEFT_OUT, *_DONE.values()):
        if words in done:
            told.append(f"{words}: {_names(done[words])}.")
    rest = [*asked[4:], *(one for one in remarks if one not in asked)]
    return told, [f"Column {one.column!r} {one.reason}." for one in rest]


_LEFT_OUT = "Left out, because nothing varies"
#: What was done to columns, by the kind of a remark.
_DONE = {
    "hardly": "Left out, because fewer than 50 rows differ from the others",
    "folded": "Rare levels taken together as (other)",
    "absorbed": "Rare levels counted as the reference, being too few even together",
    "coded": "Counted as quantities, though their names call them codes (--categories, if levels)",
}


def _names(remarks: "Sequence[Remark]") -> str:
    return ", ".join(repr(one.column) for one in remarks)


def _ladder(original: "Original") -> str:
    """What rounding costs, and who gets the model."""
    from replearn.words import Rung, ladder

    ours, own = (
        max(0.0, original.performance.explained),
        max(0.0, original.own_performance.explained),
    )
    labs = f"{percent(1 - original.certificate.expected)} of labs"
    return ladder(
        [
            Rung("the base rate", 0.0, "0%", "every lab"),
            Rung("this model", ours, f"{ours:.2%}", labs, ours=True),
            Rung("the fit before rounding", own, f"{own:.2%}", "nobody else"),
        ],
        f"{original.performance.words} removed",
    )
