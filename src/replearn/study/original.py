"""The original: from a table to a study that others can replicate."""

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import median_low
from typing import Any

import numpy as np

from replearn.codes import seed_text
from replearn.documents import decimal_text
from replearn.errors import ReplearnError, short
from replearn.glm import (
    MAX_NUMBERS,
    Estimates,
    Fold,
    GlmDesign,
    GlmModel,
    GlmPromise,
    Hazard,
    Kind,
    Loss,
    Poisson,
    RidgeFit,
    copies_of_numbers,
    loss_of,
    loss_of_numbers,
    named_pair,
    repeated_columns,
    scored,
)
from replearn.glm import sketched as glm
from replearn.rows import MemoryBlocks, Rows
from replearn.study.certificate import Certificate, certificate_of
from replearn.study.cohort import cohort_table, gaps_told
from replearn.study.encoder import RowEncoder, TableRows, read_rows
from replearn.study.opening import Opening
from replearn.study.own_estimates import own_estimates
from replearn.study.performance import Performance
from replearn.study.request import Request
from replearn.study.sample_size import rows_needed
from replearn.study.study import GlmStudy
from replearn.tables import (
    AT_RISK,
    INTERVAL,
    LEAST_EVENTS,
    Clusters,
    Encoding,
    Learned,
    LevelColumn,
    Remark,
    Table,
    cuts_of,
    event_numbers,
    event_times,
    interval_names,
    learn_classes,
    learn_encoding,
    levels_of,
    look_at,
    make_profile,
    rows_at_risk,
    target_numbers,
    time_at_risk,
)
from replearn.types import Later, Matrix, Vector
from replearn.words import Table as FactTable
from replearn.words import progress

#: Rows (or groups of them) that a level has for a coefficient of its own, at the smallest lab.
LEAST_LEVEL = 20
#: How often products are halved, by trial: a ridge shrinks quarters sixteen times as much, which
#: is better more often than not.
_HALVED = (2, 0)
#: What "auto" tries; any other basis is tried alone.
_BASES = {"auto": ("linear", "splines")}


@dataclass(frozen=True)
class Original:
    """What an original has: the study to publish, and the rest to keep.

    Attributes
    ----------
    study : GlmStudy
    model : GlmModel
    certificate : Certificate
    performance : Performance
        Held-out performance of the model after rounding.
    own_performance : Performance
        The same before rounding.
    remarks : tuple of Remark
        About columns.
    basis : str
    folds : tuple of Fold
        Cross-validated fits after rounding.
    nonce : str or None
        Opens a sealed study.
    own : function
        What the original's own rows say about each coefficient, without the ridge.
    """

    study: GlmStudy
    model: GlmModel
    certificate: Certificate
    performance: Performance
    own_performance: Performance
    remarks: tuple[Remark, ...]
    basis: str
    folds: tuple[Fold, ...]
    nonce: str | None
    # this lab's own estimates with standard errors, made when they are read
    own: Later[Estimates | None] = field(compare=False, repr=False)
    # who is in the study, by outcome: Table 1 of a paper
    cohort: Later[FactTable] = field(compare=False, repr=False)
    gaps: list[str]

    @property
    def rows_needed(self) -> int | None:
        """How many rows such a model needs, by Riley et al.; None where it explains nothing."""
        design, target = self.study.design, self.study.profile.target
        share = None
        if target and len(design.classes or ()) == 2:
            share = float(target[1])
        n_slopes = design.n_numbers - design.loss.n_scores
        return rows_needed(design.loss, self.performance, n_slopes, share)

    @property
    def opening(self) -> Opening | None:
        """What opens a sealed study."""
        if self.nonce is None:
            return None
        return Opening(self.study.fingerprint, self.model.fingerprint, self.nonce)

    def sealed_with(self, nonce: str) -> "Original":
        """The same original, sealed with a different nonce."""
        return replace(self, study=self.study.committed_to(self.model, nonce), nonce=nonce)


@dataclass
class _Candidate:
    """An original with one basis, and products that are halved so often."""

    basis: str
    learned: Learned
    rows: Rows
    source: TableRows
    fitted: RidgeFit


def publish(
    table: Table, request: Request, inspect: Callable[[Sequence[Remark]], None] | None = None
) -> Original:
    """Fit an original: encoding, ridge, coordinates, cells and sketch from its own rows.

    Parameters
    ----------
    table : Table
        With a target.
    request : Request
    inspect : function, optional
        Gets the remarks about columns before the fit, and may refuse them.

    Returns
    -------
    original : Original
    """
    request.check()
    table, cuts = table.without(request.drop).kept(), tuple[str, ...]()
    people = table  # of survival, who then have several rows at risk
    if request.replication_rows is None and "centres" in table.roles:
        request = replace(request, replication_rows=_rows_of_a_centre(table))
    if request.kind == "survival":
        table, request, cuts = _at_risk(table, request)

    classes, labels = read_labels(table, request.kind)
    promise = _promise(request, len(labels))
    loss = loss_of(request.kind, classes, labels)
    if isinstance(loss, Poisson) and request.kind == "survival":
        loss = Hazard(loss.cap_bits, time=request.time, event=request.target, cuts=cuts)
    weight = _class_weight(request.class_weight, classes, labels)

    # the smallest held-out loss decides; of equal ones the simpler basis, which comes first
    best: _Candidate | None = None
    for basis in _BASES.get(request.basis, (request.basis,)):
        learned = _learned(people, request, basis, labels, promise)
        if inspect is not None:
            inspect(learned.remarks)
        if request.kind == "survival":
            learned = _with_intervals(learned, cuts, table)
        for halved in _HALVED if learned.encoding.products else (0,):
            encoding = replace(learned.encoding, products_halved=halved)
            encoder = RowEncoder(encoding, loss, classes, weight)
            chosen = replace(learned, encoding=encoding)
            best = _better(best, table, request, promise, basis, chosen, encoder)
    assert best is not None

    remarks = (*best.learned.remarks, *_about_columns(best))
    best = replace(best, learned=replace(best.learned, remarks=remarks))
    return _published(best, request, promise, classes, labels)


def _rows_of_a_centre(table: Table) -> int | None:
    """What a new centre is taken to have: the median of these, but for those too small for a fit.

    The original pools them all; nobody who replicates it has as many rows.
    """
    codes, names = levels_of(table.whole("centres"))
    sizes = np.bincount(codes[codes >= 0], minlength=len(names))
    sizes = sizes[sizes >= glm.LEAST_CENTRE]
    if sizes.size < 2:
        return None
    return int(median_low(sizes.tolist()))


def _promise(request: Request, n_rows: int) -> GlmPromise:
    """What is promised, and to labs of which size."""
    if n_rows < 2:
        raise ReplearnError(f"rows must be two or more, got n_samples = {n_rows}. Pass more rows.")
    n_there = request.replication_rows or n_rows
    pair = named_pair(request.between)
    assert pair is not None
    return GlmPromise(request.max_disagreement, request.sketch_bits, n_rows, n_there, pair)


def _better(
    best: _Candidate | None,
    table: Table,
    request: Request,
    promise: GlmPromise,
    basis: str,
    learned: Learned,
    encoder: RowEncoder,
) -> _Candidate:
    """Encode the rows and fit them, with progress; or the best so far, if that is no worse."""
    # what would take hours is refused before rows are read, or before the fit
    _refuse_too_many(learned.encoding, encoder.loss)
    source = TableRows(table, encoder)
    rows = read_rows(source, request.n_jobs)
    _refuse_dense(rows)

    ridge = None
    if request.ridge != "auto":
        ridge = decimal_text(float(request.ridge))
    done = count(1)
    with progress("fitting the original", glm.N_TICKS, bool(request.verbose)) as advance:
        search = glm.RidgeSearch.of(rows, encoder.loss, promise, ridge, lambda: advance(next(done)))
        # rounding costs something: what is no better without it is not tried to its end
        if best is not None and search.best.loss >= best.fitted.loss:
            return best
        fitted = search.original()

    if best is not None and fitted.loss >= best.fitted.loss:
        return best
    return _Candidate(basis, learned, rows, source, fitted)


def read_labels(table: Table, kind: Kind) -> tuple[tuple[Any, ...] | None, Any]:
    """The classes, and the target of each row."""
    column = table.whole("target")
    if kind == "logistic":
        return learn_classes(column)
    return None, target_numbers(column, least=loss_of_numbers(kind).least)


def _at_risk(table: Table, request: Request) -> tuple[Table, Request, tuple[str, ...]]:
    """Rows at risk in intervals of their own event times, and a request about them."""
    if request.interactions == "all":
        raise ReplearnError(
            'interactions="all" would let every effect change with time. Name pairs of columns.'
        )
    times, events = event_times(table.whole("target")), event_numbers(table.whole("offset"))

    # the smallest lab needs events enough in each interval, too
    n_there = request.replication_rows or len(times)
    least = math.ceil(LEAST_EVENTS * max(1.0, len(times) / n_there))
    cuts = cuts_of(times, events, least)

    # from here on a row is a person in an interval
    n_at_risk = int(np.count_nonzero(time_at_risk(times, cuts)))
    n_there = math.ceil(n_there * n_at_risk / len(times))
    request = replace(request, replication_rows=n_there, offset=AT_RISK)
    return rows_at_risk(table, cuts, request.target), request, cuts


def _with_intervals(learned: Learned, cuts: tuple[str, ...], at_risk: Table) -> Learned:
    """What persons show, with all intervals, none folded: each has events enough."""
    names = interval_names(cuts)
    columns = [*learned.encoding.columns]
    if cuts:
        columns.append(LevelColumn(INTERVAL, names[1:], names[0]))
    encoding = replace(learned.encoding, columns=tuple(columns))

    levels = {column.name for column in columns if isinstance(column, LevelColumn)}
    seen = look_at(at_risk, [column.name for column in columns], None, levels)
    return replace(learned, encoding=encoding, at_risk=seen)


def _learned(
    table: Table, request: Request, basis: str, labels: Any, promise: GlmPromise
) -> Learned:
    shrink = max(1.0, promise.n_here / promise.n_there)
    if request.kind == "survival":  # of persons: whether the event was seen
        labels = event_numbers(table.whole("offset")).astype(np.int64)
    return learn_encoding(
        table,
        labels,
        basis=basis,  # type: ignore[arg-type]
        interactions=request.interactions,
        missing=request.missing,
        categories=request.categories,
        numeric=request.numeric,
        least_rows=math.ceil(LEAST_LEVEL * shrink),
        clusters=Clusters.of(table, labels),
    )


def _refuse_too_many(encoding: Encoding, loss: Loss) -> None:
    """Refuse what no file could hold, before a fit that takes hours."""
    n_columns = len(encoding.term_names) + 1
    n_numbers = loss.n_scores * n_columns
    if n_numbers > MAX_NUMBERS:
        advice = "Drop columns"
        if loss.n_scores > 1:
            advice += ", or pass kind=linear if the target is a measured number"
        raise ReplearnError(
            f"a model must have at most {MAX_NUMBERS:,} coefficients, got {n_numbers:,}: "
            f"{n_columns:,} for each of {loss.n_scores:,} scores. {advice}."
        )


#: Dense columns beyond which a fit takes hours; sparse ones and levels may be more.
MOST_DENSE = 5000


def _refuse_dense(rows: Rows) -> None:
    """Refuse a fit of hours before it begins."""
    if not isinstance(rows, MemoryBlocks) or not isinstance(rows.block.terms, np.ndarray):
        return
    n_columns = rows.block.terms.shape[1]
    if n_columns > MOST_DENSE:
        raise ReplearnError(
            f"a fit must have at most {MOST_DENSE:,} dense columns, got {n_columns:,}: it would "
            "take hours. Drop columns, combine them into fewer, or pass a sparse matrix if most "
            "cells are 0."
        )


def _class_weight(given: Any, classes: tuple[Any, ...] | None, labels: Any) -> Vector | None:
    """One weight for each class, in three digits."""
    if given is None:
        return None
    if classes is None:
        raise ReplearnError("class_weight must be None for numbers. Use sample_weight.")
    if given == "balanced":
        counts = np.bincount(labels, minlength=len(classes))
        weights = len(labels) / (len(classes) * counts)
    elif isinstance(given, Mapping):
        if not set(given) <= set(classes):
            raise ReplearnError(
                f"class_weight must be for labels of the target, {short(list(classes))}, got "
                f"{short(sorted(set(given) - set(classes), key=str))}. Check the labels."
            )
        weights = np.array([float(given.get(label, 1.0)) for label in classes])
        if not (np.isfinite(weights) & (weights > 0)).all():
            raise ReplearnError(
                f"class_weight must be positive numbers, got {short(dict(given))}. Leave the rows "
                "of a class out of the table if they should not count."
            )
    else:
        raise ReplearnError(f'class_weight must be None, "balanced" or a dict, got {short(given)}.')
    return np.array([float(decimal_text(weight)) for weight in weights])


def _published(
    best: _Candidate, request: Request, promise: GlmPromise, classes: Any, labels: Any
) -> Original:
    fitted, learned, rows = best.fitted, best.learned, best.rows
    bare = _design_of(best, request, promise, classes)
    numbers = fitted.coordinates.of_theta(fitted.theta)
    model = GlmModel.of_original(bare, numbers).with_constants_of(rows)
    design = model.design

    # the worth of the model, and what can be promised
    own_worth = worth_of(design.loss, fitted.validation.folds)
    worth = worth_of(design.loss, fitted.folds)
    targets = design.loss.units(labels)
    shares = design.loss.totals(targets, np.ones(len(targets))) / len(targets)
    certificate = certificate_of(fitted, rows, model, promise, worth, shares)

    # the study, which commits to the model
    nonce = secrets.token_hex(16) if request.sealed else None
    problems = (*certificate.problems, *_unsafe(learned.remarks, request))
    profile = make_profile(learned, labels)
    study = GlmStudy.of(design, promise, fitted.spread, profile, problems)
    if design.bits:
        study = study.committed_to(model, nonce)

    # not everybody reads these, and they take as long as the fit
    source, theta = best.source, fitted.theta
    outcomes = (0, 1) if request.kind == "survival" else classes

    return Original(
        study,
        model,
        certificate,
        worth,
        own_worth,
        learned.remarks,
        best.basis,
        fitted.folds,
        nonce,
        own=Later(lambda: own_estimates(source, rows, theta)),
        cohort=Later(lambda: cohort_table(learned, design.target, outcomes)),
        gaps=gaps_told(learned),
    )


def _design_of(best: _Candidate, request: Request, promise: GlmPromise, classes: Any) -> GlmDesign:
    """What a replication needs of the original's fit; the sketch comes later."""
    # weights of classes as the fit had them
    class_weight = None
    if best.source.encoder.class_weight is not None:
        class_weight = tuple(map(decimal_text, best.source.encoder.class_weight.tolist()))
    return GlmDesign(
        target=request.target,
        encoding=best.learned.encoding,
        loss=best.source.encoder.loss,
        ridge=best.fitted.validation.ridge,
        coordinates=best.fitted.coordinates,
        widths=best.fitted.widths,
        bits=promise.bits,
        seed=seed_text(request.shared_seed),
        classes=classes,
        class_weight=class_weight,
        weights=request.weights,
        offset=request.offset,
        constant="local" if request.constant == "local" else None,
    )


def _unsafe(remarks: Sequence[Remark], request: Request) -> list[str]:
    """Columns that a study must not show, and those that it would go without."""
    refused = [
        f"It must not publish column {remark.column!r}, which {remark.reason}. Leave it out: "
        f"drop=[{remark.column!r}]."
        for remark in remarks
        if remark.refused
    ]
    return refused + _left_out(remarks, request)


def _left_out(remarks: Sequence[Remark], request: Request) -> list[str]:
    """Columns that vary, or that a user named, and that the model goes without."""
    named = {*request.categories, *request.numeric}
    return [
        f"It would go without column {remark.column!r}, which {remark.reason}. Say so with "
        f"drop=[{remark.column!r}]; or join levels, or plan for larger labs (replication_rows)."
        for remark in remarks
        if remark.kind == "rare" or (remark.left_out and remark.column in named)
    ]


def worth_of(loss: Loss, folds: tuple[Fold, ...]) -> Performance:
    """Performance of fits on the rows that they have not seen."""
    at_risk = None
    if isinstance(loss, Hazard):
        pieces = [piece.offset for fold in folds for _, piece in scored(fold)]
        at_risk = np.concatenate([offset for offset in pieces if offset is not None])
    return Performance.of(loss, *held_out(folds), at_risk=at_risk)


def held_out(folds: tuple[Fold, ...]) -> tuple[Matrix, Vector, Vector]:
    """Scores, targets and weights of the rows that fits have not seen."""
    parts = [part for fold in folds for part in scored(fold)]
    scores = np.concatenate([score for score, _ in parts])
    targets = np.concatenate([piece.targets for _, piece in parts])
    return scores, targets, np.concatenate([piece.masses for _, piece in parts])


def _about_columns(best: _Candidate) -> tuple[Remark, ...]:
    """Columns that follow from others, and copies of an outcome of numbers."""
    block, loss = next(iter(best.rows.blocks())), best.source.encoder.loss
    encoding = best.learned.encoding
    remarks = []
    if not loss.by_class and not isinstance(loss, Hazard):
        remarks = [
            Remark(encoding.columns[place].name, "copy", reason)
            for place, reason in copies_of_numbers(block, encoding)
        ]

    # columns that follow from others
    for name, others in repeated_columns(block, encoding):
        listed = ", ".join(map(repr, others))
        remarks.append(
            Remark(
                name,
                "repeats",
                f"follows from {listed}: nobody can tell their effects apart (predictions do not "
                "suffer). Leave one of them out",
            )
        )
    return tuple(remarks)
