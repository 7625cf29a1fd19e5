"""``replearn publish``: fit an original and write its study."""

import argparse
import os
from contextlib import suppress
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from replearn.cli.command import (
    DIFFERENT,
    DONE,
    Outcome,
    Parser,
    check_output_path,
    csv_options,
    may_leave,
    names,
    refuse_unused,
    working,
)
from replearn.documents import Document
from replearn.errors import ReplearnError
from replearn.words import Facts, Figure, Row, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replearn.glm import Model
    from replearn.study import Original, Study
    from replearn.tables import Remark, Table

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


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("table TABLE", "your rows: .csv, .csv.gz, .parquet, .npz or .svm")
    parser.add("--target COLUMN", "what to predict")
    parser.add("--out FILE", "the study, to send to other labs", required=True)
    parser.add("--keep FILE", "your model (default: named after the table)")
    parser.add(
        "--kind",
        "what the target is: classes (default), a measurement, a count",
        choices=("logistic", "linear", "poisson"),
        default="logistic",
    )
    parser.add("--time COLUMN", "survival: times to the event, or to the end of observation")
    parser.add("--event COLUMN", "survival: 1 where the event was seen, 0 where it was not")
    parser.add("--sealed", "hide the model's fingerprint until you open it", action="store_true")
    parser.add(
        "--registered",
        "nobody is first: a pilot's rows only plan the study, each lab will have --rows",
        action="store_true",
    )
    parser.add("--scores COLUMNS", "registered: finished scores to recalibrate", type=names)
    parser.add(
        "--basis",
        "straight lines (default), curves, or the better of both",
        choices=("linear", "splines", "auto"),
        default="linear",
    )
    parser.add("--interactions PAIRS", 'all, or pairs of columns: "age:sex,age:bmi"')
    parser.add(
        "--bits N",
        "published per coefficient, 0 to 8 (default 8: one byte)",
        type=int,
        dest="sketch_bits",
    )
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
    parser.add("--evidence BITS", "refuse if fewer guesses than 2^BITS find the model", type=float)
    parser.add(
        "--max-disagreement X",
        "probability of a different model (default 0.01; registered 0.1)",
        type=float,
    )
    parser.add(
        "--rows N",
        "rows of the smallest replication (default: as many as here)",
        type=int,
        dest="replication_rows",
    )
    parser.add("--ridge X", "penalty per row (default: by cross-validation)", type=float)
    parser.add(
        "--missing",
        "missing numbers get a coefficient of their own (default), or stop the fit",
        choices=("indicator", "refuse"),
        default="indicator",
    )
    parser.add("--class-weight", "give classes equal weight", choices=("balanced",))
    for name, text in (
        ("categories", "columns whose numbers are names of levels"),
        ("numeric", "columns that are measurements, whatever they look like"),
        ("drop", "columns to leave out"),
    ):
        parser.add(f"--{name} COLUMNS", f"{text}, with commas", type=names, default=[])
    parser.add("--weights COLUMN", "weights of rows")
    parser.add("--offset COLUMN", "a known part of the score, such as log exposure")
    parser.add("--groups COLUMN", "rows of one group belong together, such as a person's")
    parser.add("--seed TEXT", "published; any text (default 0)", default="0", dest="shared_seed")
    parser.add_csv()
    parser.add_page()


def run(options: argparse.Namespace) -> Outcome:
    """Fit, refuse what must not be published, write."""
    from replearn.reports.files import Opening
    from replearn.study import Request, publish
    from replearn.tables import open_table, refuse_unsafe

    stem = os.path.basename(options.table).split(".")[0] or "original"
    beside = os.path.join(os.path.dirname(options.out), stem)
    model_path = options.keep or f"{beside}.model.json"
    opening_path = f"{model_path.removesuffix('.json').removesuffix('.model')}.opening.json"
    check_output_path(options.out, "study", [options.table], ("replearn/study/glm",))
    check_output_path(model_path, None, [options.table, options.out], ("replearn/model/glm",))
    _refuse_forgotten(options)
    _refuse_unused(options)
    _prepare_survival(options)
    is_survival = options.kind == "survival"
    table = open_table(
        options.table,
        target=options.time if is_survival else options.target,
        weights=options.weights,
        offset=options.event if is_survival else options.offset,
        groups=options.groups,
        centres=options.centres,
        csv=csv_options(options),
    )
    if options.registered:
        return _register(table, options)
    known = [field.name for field in fields(Request) if field.name in options]
    given = {name: getattr(options, name) for name in known}
    given["interactions"] = _pairs(options.interactions)
    request = Request(**{name: value for name, value in given.items() if value is not None})
    with working("fitting the original"):
        original = publish(table, request)
    refuse_unsafe(original.remarks)
    study, model = original.study, original.model.stating(original.own)
    study.refuse_problems()
    _refuse_weak(study, model, options.evidence)
    may_leave("study", study.n_original, study.design.n_numbers, study)
    if options.page is not None:  # it has all coefficients
        may_leave("model", study.n_original, study.design.n_numbers)
    kept: dict[str, Document] = {}
    files = [
        Row("send", options.out, note="not the model"),
        Row("keep", model_path, note="your model"),
    ]
    if original.nonce is not None:
        kept[opening_path] = Opening(study.fingerprint, model.fingerprint, original.nonce)
        files.append(Row("keep", opening_path, note="opens the seal", key="opening"))
    kept[model_path] = model
    _keep(kept)
    study.save(options.out)  # last: who has it may rely on the others
    facts = page = _facts(original, files)
    if options.page is not None:
        from replearn.reports.evaluate import evaluate_original
        from replearn.reports.methods import with_methods

        measured = ("by cross-validation within this lab:", evaluate_original(original))
        page = with_methods(facts, study, model, measured)
        until = "before all fingerprints are on record" if study.sealed else "with the study"
        words = f"Do not send this page ({options.page}) {until}: it holds the model."
        facts, page = (replace(one, told=[words, *one.told]) for one in (facts, page))
    auc, title = original.worth.auc, f"Original of {options.out}"
    code = DIFFERENT if auc is not None and auc.value < 0.5 else DONE
    return Outcome(facts, code, title=title, n_rows=study.n_original, page=page)


#: What only rows of an original say, or what only an original writes.
_OF_ORIGINALS = (
    *("keep", "sealed", "basis", "interactions", "sketch_bits", "centres", "between", "evidence"),
    *("ridge", "missing", "class_weight", "numeric", "weights", "offset", "groups"),
)


def _refuse_unused(options: argparse.Namespace) -> None:
    """Refuse options that belong to the other road."""
    if options.registered:
        refuse_unused(options, "--registered", *_OF_ORIGINALS)
    else:
        refuse_unused(options, "a study without --registered", "scores")


def _prepare_survival(options: argparse.Namespace) -> None:
    """With --time and --event the study is one of survival, whose target is the event."""
    if options.time is None and options.event is None:
        return
    if options.time is None or options.event is None:
        raise ReplearnError("survival needs both --time and --event. Name both columns.")
    given = {"target", "weights", "offset", "class_weight", "scores"}
    found = [f"--{name.replace('_', '-')}" for name in sorted(given) if getattr(options, name)]
    if options.kind != "logistic":
        found.append("--kind")
    if options.registered:
        found.append("--registered")
    if found:
        raise ReplearnError(f"--time and --event do not go with {', '.join(found)}. Leave it out.")
    options.kind, options.target = "survival", options.event


def _register(table: "Table", options: argparse.Namespace) -> Outcome:
    """Plan a study in which nobody is first."""
    from replearn.reports.audit import columns_of
    from replearn.study import register_study

    if options.replication_rows is None:
        raise ReplearnError("--registered needs --rows: how many rows each lab will have.")
    if options.constant is not None:
        raise ReplearnError(
            "--local-constant does not go with --registered: there the constant is a number that "
            "labs agree on. Leave it out; replearn update fits a constant afterwards."
        )
    columns, y = columns_of(table.without(options.drop))
    with working("planning the study"):
        study = register_study(
            columns,
            y,
            samples_per_lab=options.replication_rows,
            scores=options.scores,
            kind=options.kind,
            target=options.target or "y",
            max_disagreement=options.max_disagreement or 0.1,
            shared_seed=options.shared_seed,
            categories=options.categories,
        )
    may_leave("study", len(y), study.design.n_numbers, study)
    study.save(options.out)
    return Outcome(study.facts(), title=f"Study {options.out}", n_rows=len(y))


def _between(text: str) -> Any:
    """What --between says: a word, one number or two."""
    if text == "typical":
        return text
    parts = [float(part) for part in text.split(",")]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _refuse_weak(study: "Study", model: "Model", asked: float | None) -> None:
    """Stop where a match would prove less than was asked for, with a plan that proves enough."""
    if asked is None or (evidence := study.evidence(model)).bits >= asked:
        return
    raise ReplearnError(
        f"--evidence must be at most what the study gives, 2^{evidence.bits:.1f} guesses, got "
        f"2^{asked:g}. {_plan_for(study, model, asked)} The study was not published."
    )


def _plan_for(study: "Study", model: "Model", asked: float) -> str:
    """Options with which cells are narrow enough: one population, and labs of more rows."""
    from replearn.codes import least_whole

    most = 100 * study.n_original
    needed = least_whole(lambda n_rows: study.planned_bits(model, n_rows) >= asked, most=most)
    if needed > most:
        return "No --rows reaches it with these columns: get more rows or columns that matter."
    rows = max(needed, study.n_replication)
    return f"Narrower cells prove more: --between 0 --rows {rows} gives it (estimated)."


def _refuse_forgotten(options: argparse.Namespace) -> None:
    """Stop where a second lab seems to publish instead of replicating."""
    from replearn.errors import InvalidFile
    from replearn.study import Study

    if not os.path.exists(options.out):
        return
    try:
        Study.load(options.out)
    except InvalidFile:
        return
    raise ReplearnError(
        f"{options.out} is a study already. To get the same model, run replearn replicate "
        f"{options.out} {options.table}; to publish a new one, name a different file."
    )


def _keep(kept: dict[str, Document]) -> None:
    """Write all private files, or none: of two that publish at one time one succeeds."""
    absent = [path for path, document in kept.items() if not _is_kept(path, document)]
    written: list[str] = []
    try:
        for path in absent:
            kept[path].save(path, private=True, new=True)
            written.append(path)
    except ReplearnError:
        for path in written:
            os.unlink(path)
        raise


def _is_kept(path: str, document: Document) -> bool:
    """Whether the same file is there; what an earlier study needs is not written over."""
    if not os.path.lexists(path):
        return False
    with suppress(ReplearnError):
        if type(document).load(path) == document:
            return True
    raise ReplearnError(
        f"{path} is there already and belongs to an earlier study. Name a different file for your "
        "model with --keep. If that study was never written, remove the file."
    )


def _pairs(text: str | None) -> Any:
    if text is None or text == "all":
        return text
    pairs = [tuple(pair.split(":")) for pair in names(text)]
    if any(len(pair) != 2 for pair in pairs):
        raise ReplearnError(
            f'--interactions must be all, or pairs like "age:sex,age:bmi", got {text!r}.'
        )
    return pairs


def _facts(original: "Original", files: list[Row]) -> Facts:
    from replearn.study import sample_size_row

    certificate, study = original.certificate, original.study
    verdict = (
        f"The study is published: {certificate.centre_words}, with "
        f"{certificate.n_replication:,} rows, gets exactly this model in "
        f"{percent(1 - certificate.at_new_centre)} of the cases (estimated; "
        f"{percent(1 - certificate.planned)} planned)."
    )
    if study.commitment is None:
        verdict = f"The study is registered: nobody is first. {certificate.facts().verdict}"
    own = original.own_worth
    told, notes = _notes(original.remarks)
    told = [*told, original.gaps] if original.gaps else told
    cohort = [] if original.cohort is None else [original.cohort]
    evidence = study.evidence(original.model)
    worth = original.worth
    unclear = [f"These rows do not show that the model beats the {worth.null} alone."]
    unclear = unclear if worth.loss.high >= worth.base else []
    return Facts(
        verdict,
        [
            *files,
            Row("same population", 1 - certificate.expected, "%", note="of samples, estimated"),
            evidence.words(),
            *certificate.cautions,
            *original.worth.rows()[:2],
            *unclear,
        ],
        details=[
            *original.worth.rows()[2:],
            Row(f"{own.words} before rounding", own.loss.value),
            Row("basis", original.basis),
            Row("ridge", study.design.ridge),
            Row("published bits", study.design.bits, "for each coefficient"),
            Row("fingerprint", original.model.fingerprint),
            Row("study", study.fingerprint),
            *(item for item in certificate.facts().items[1:] if isinstance(item, Row)),
            Row("patients needed to match", evidence.rows, note="half of the time"),
            *sample_size_row(original.rows_needed, study.n_original),
            *notes,
            *cohort,
            *original.model.stating(original.own).coefficients.own_tables(),
        ],
        figures=[
            Figure(
                "Performance of the model, beside the base rate and the fit before rounding",
                lambda: _ladder(original),
                "Cross-validated within this lab.",
            )
        ],
        told=told,
    )


def _notes(remarks: "Sequence[Remark]") -> tuple[list[str], list[str]]:
    """What is said of columns beside the verdict, each of them named; and the rest of it."""
    asked = [f"Column {r.column!r} {r.reason}." for r in remarks if not (r.left_out or _folds(r))]
    told = asked[:4]
    if asked[4:]:
        names = [repr(r.column) for r in remarks if not (r.left_out or _folds(r))][4:]
        told.append(f"More questions, about {', '.join(names)}: see --details.")
    for words, chosen in (
        ("Left out, because nothing varies", [r for r in remarks if r.left_out]),
        ("Rare levels taken together as (other)", [r for r in remarks if _folds(r)]),
    ):
        if chosen:
            told.append(f"{words}: {', '.join(repr(r.column) for r in chosen)}.")
    rest = [f"Column {r.column!r} {r.reason}." for r in remarks if r.left_out or _folds(r)]
    return told, [*asked[4:], *rest]


def _folds(remark: "Remark") -> bool:
    return remark.kind == "folded"


def _ladder(original: "Original") -> str:
    """What rounding costs, and who gets the model."""
    from replearn.words import Rung, ladder

    worth, own = max(0.0, original.worth.explained), max(0.0, original.own_worth.explained)
    labs = f"{percent(1 - original.certificate.expected)} of labs"
    return ladder(
        [
            Rung("the base rate", 0.0, "0%", "every lab"),
            Rung("this model", worth, f"{worth:.2%}", labs, ours=True),
            Rung("the fit before rounding", own, f"{own:.2%}", "nobody else"),
        ],
        f"{original.worth.words} removed",
    )
