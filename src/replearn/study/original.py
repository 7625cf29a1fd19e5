"""The original: from a table to a study that others can replicate."""

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from statistics import median_low
from typing import Any, Literal

import numpy as np

from replearn.codes import least_whole, seed_text
from replearn.documents import decimal_text
from replearn.errors import (
    ReplearnError,
    is_real,
    one_of,
    plain_float,
    probability,
    short,
    whole_number,
)
from replearn.glm import (
    GLM,
    MAX_NUMBERS,
    MOST_INFLATION,
    PROMISED_ROWS,
    Between,
    CentreFits,
    Estimates,
    Fold,
    GlmDesign,
    GlmModel,
    GlmPlan,
    Hazard,
    Kind,
    Loss,
    OwnSpread,
    Poisson,
    Promise,
    RidgeFit,
    copies_of_numbers,
    loss_of,
    named_pair,
    repeated_columns,
    scored,
)
from replearn.glm import sketched as glm
from replearn.rows import (
    MOST_TRIED,
    ROW_BITS,
    MemoryBlocks,
    Rows,
    pieces,
    row_hashes,
    sampled,
    with_constant,
)
from replearn.study.cohort import cohort_table, gaps_told
from replearn.study.encoder import RowEncoder, TableRows, read_rows
from replearn.study.opening import Opening
from replearn.study.own_estimates import own_estimates
from replearn.study.performance import Performance
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
    make_profile,
    rows_at_risk,
    target_numbers,
    time_at_risk,
)
from replearn.types import Later, Matrix, Vector, is_sparse
from replearn.words import Facts, Figure, Row, Rung, Spoken, ladder, percent, progress
from replearn.words import Table as FactTable

#: Rows (or groups of them) that a level has for a coefficient of its own, at the smallest lab.
LEAST_LEVEL = 20
#: Rows of equal weight that weighted ones must count as, at the smallest lab.
LEAST_EFFECTIVE = 30
#: How often products are halved, by trial: a ridge shrinks quarters sixteen times as much.
_HALVED = (0, 2)
#: What "auto" tries; any other basis is tried alone.
_BASES = {"auto": ("linear", "splines")}


@dataclass(eq=False, repr=False, kw_only=True)
class Options:
    """Parameters of an original; see `replearn.ReplicableLogisticClassifier`."""

    max_disagreement: float = 0.01
    sketch_bits: int = 8
    between: Any = "typical"
    constant: Literal["shared", "local"] = "shared"
    basis: Literal["linear", "splines", "auto"] = "linear"
    interactions: Literal["all"] | Sequence[tuple[str, str]] | None = None
    ridge: float | Literal["auto"] = "auto"
    missing: Literal["indicator", "refuse"] = "indicator"
    replication_rows: int | None = None
    shared_seed: int | str = 0
    categories: Sequence[str] = ()
    numeric: Sequence[str] = ()
    drop: Sequence[str] = ()
    sealed: bool = False
    n_jobs: int | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class Request(Options):
    """What an original is asked for: its options, and the names and meanings of columns."""

    kind: Kind = "logistic"
    target: str = "y"
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None
    weights: str | None = None
    offset: str | None = None
    time: str = "time"  # of survival, whose target is the event
    verbose: int = 0

    def check(self) -> None:
        """Refuse values that no study can have; numbers of NumPy become plain ones."""
        self.max_disagreement = probability("max_disagreement", self.max_disagreement)
        one_of("sketch_bits", self.sketch_bits, range(9))
        if named_pair(self.between) is None:
            raise ReplearnError(
                'between must be "typical", 0, or two standard deviations between centres, of the '
                f"mean score and of slopes, such as (0.2, 0.03), got {short(self.between)}."
            )
        one_of("constant", self.constant, ("shared", "local"))
        one_of("basis", self.basis, ("linear", "splines", "auto"))
        one_of("missing", self.missing, ("indicator", "refuse"))

        # numbers, as files can hold them
        if self.ridge != "auto":
            if not is_real(self.ridge) or not 1e-9 <= self.ridge <= 1e3:
                raise ReplearnError(
                    f'ridge must be "auto" or from 1e-9 to 1e3, got {short(self.ridge)}. It is a '
                    "weight on the mean loss of a row."
                )
            self.ridge = plain_float(self.ridge)
        if self.replication_rows is not None:
            remedy = "Leave it out for as many as here."
            self.replication_rows = whole_number(
                "replication_rows", self.replication_rows, remedy=remedy
            )
        self.sketch_bits = int(self.sketch_bits)
        if self.sealed and not self.sketch_bits:
            raise ReplearnError(
                "sealed must be False without published bits: there is no commitment to hide, and "
                "nobody is first. Publish bits, or leave it out."
            )
        seed_text(self.shared_seed)


@dataclass(frozen=True)
class Certificate(Spoken):
    """How likely a replication gets this model; estimated, not proved.

    Attributes
    ----------
    expected : float
        Estimated probability that a replication with ``n_replication`` rows gets a different
        model, given where this original lies in its cells.
    planned : float
        What was asked for, as a mean over originals.
    n_original : int
        Rows of this original.
    n_replication : int
        Rows of the smallest replication that is promised the model.
    n_numbers : int
        Coefficients.
    effective_rows : float
        Behind the coefficient that the fewest rows carry.
    weakest : str
        Its name.
    inflation : float
        How much more parts of these rows differ than single rows explain, in squares.
    n_repeated : int
        Rows that occur before among those that were looked at.
    at_new_centre : float
        The same as ``expected`` for a centre whose truth differs as centres do.
    n_centres : int
        Centres that showed how they differ; 1: typical centres are assumed, 0: none differ.
    problems : tuple of str
        Why the study must not be published.
    cautions : tuple of str
        What to know before the study is published.

    See Also
    --------
    ReplicableLogisticClassifier : its ``certificate_`` is one.
    replearn.codes.Bound : the same for the paper's algorithms.

    Notes
    -----
    Rates are estimated by ``stability`` of the recipe, not proved: the chance that the
    difference of two labs leaves a cell, added up over coefficients. For a new centre it has
    heavier tails.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> certificate = first.certificate_
    >>> certificate.planned, certificate.n_original, certificate.n_numbers, certificate.problems
    (0.01, 1000, 22, ())
    >>> certificate.expected < certificate.at_new_centre < 0.01
    True
    """

    expected: float
    planned: float
    n_original: int
    n_replication: int
    n_numbers: int
    effective_rows: float
    weakest: str
    inflation: float
    n_repeated: int
    at_new_centre: float
    n_centres: int
    problems: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()

    @property
    def centre_words(self) -> str:
        """For which new centres the second rate is promised."""
        if self.n_centres == 0:
            return "a lab of the same population"
        if self.n_centres == 1:
            return "a new centre that differs as is typical"
        return f"a new centre like these {self.n_centres}"

    @property
    def assumed(self) -> list[str]:
        """What is assumed of new centres."""
        if self.n_centres == 0:
            return []
        varies = "Assumed: no column is the same in all rows of a new centre."
        if self.n_centres == 1:
            return [varies]
        return [
            varies,
            f"Assumed: of 1,000 new centres 406 differ as these {self.n_centres} do, 504 twice as "
            "much, 83 four times, 7 eight times or more, in all coefficients together.",
        ]

    def facts(self) -> Facts:
        """In words."""
        verdict = (
            f"A sample of {self.n_replication:,} rows of this population gets the same model in "
            f"{percent(1 - self.expected)} of cases, {self.centre_words} in "
            f"{percent(1 - self.at_new_centre)} (estimated)."
        )
        if self.problems:
            verdict = "No promise can be made for these rows."
        return Facts(
            verdict,
            [
                *self.problems,
                Row("agreement rate", 1 - self.planned, "%", note="planned"),
                Row("rows here", self.n_original),
                Row("coefficients", self.n_numbers),
                Row("weakest coefficient", self.weakest, note=f"{self.effective_rows:,.0f} rows"),
                *self.cautions,
            ],
            details=[
                *self.assumed,
                Row("parts of these rows differ", self.inflation, "times the expected square"),
                Row("repeated rows", self.n_repeated),
            ],
            figures=[] if self.problems else [Figure("Agreement rate", self._picture)],
        )

    def _picture(self) -> str:
        rates = {"planned": 1 - self.planned, "estimated here": 1 - self.expected}
        rungs = [Rung(name, rate, percent(rate), "") for name, rate in rates.items()]
        return ladder(rungs, f"agreement rate of labs with {self.n_replication:,} rows")


@dataclass(frozen=True)
class Original:
    """What an original has: the study to publish, and the rest to keep.

    Attributes
    ----------
    study : GlmStudy
    model : GlmModel
    certificate : Certificate
    worth : Worth
        Held-out worth of the model after rounding.
    own_worth : Worth
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
    worth: Performance
    own_worth: Performance
    remarks: tuple[Remark, ...]
    basis: str
    folds: tuple[Fold, ...]
    nonce: str | None
    # this lab's own estimates with standard errors, made when they are read
    own: Later[Estimates | None] = field(compare=False, repr=False)
    # who is in the study, by outcome: Table 1 of a paper
    cohort: Later[FactTable] = field(compare=False, repr=False)
    gaps: str

    @property
    def rows_needed(self) -> int | None:
        """How many rows such a model needs, by Riley et al.; None where it explains nothing."""
        design, target = self.study.design, self.study.profile.target
        share = None
        if target and len(design.classes or ()) == 2:
            share = float(target[1])
        n_slopes = design.n_numbers - design.loss.n_scores
        return rows_needed(design.loss, self.worth, n_slopes, share)

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
    trial: RidgeFit

    @property
    def encoder(self) -> RowEncoder:
        """How rows are encoded."""
        return self.source.encoder


def publish(table: Table, request: Request) -> Original:
    """Fit an original: encoding, ridge, coordinates, cells and sketch from its own rows.

    Parameters
    ----------
    table : Table
        With a target.
    request : Request

    Returns
    -------
    original : Original
    """
    request.check()
    table, cuts = table.without(request.drop).kept(), tuple[str, ...]()
    if request.replication_rows is None and table.roles.get("centres") is not None:
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
        learned = _learned(table, request, basis, labels, promise)
        if request.kind == "survival":
            learned = _with_intervals(learned, cuts)
        for halved in _HALVED if learned.encoding.products else (0,):
            encoding = replace(learned.encoding, products_halved=halved)
            encoder = RowEncoder(encoding, loss, classes, weight)
            chosen = replace(learned, encoding=encoding)
            tried = _tried(table, request, promise, basis, chosen, encoder)
            if best is None or tried.trial.loss < best.trial.loss:
                best = tried
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


def _promise(request: Request, n_rows: int) -> Promise:
    """What is promised, and to labs of which size."""
    if n_rows < 2:
        raise ReplearnError(f"rows must be two or more, got n_samples = {n_rows}. Pass more rows.")
    n_there = request.replication_rows or n_rows
    pair = named_pair(request.between)
    assert pair is not None
    return Promise(request.max_disagreement, request.sketch_bits, n_rows, n_there, pair)


def _tried(
    table: Table,
    request: Request,
    promise: Promise,
    basis: str,
    learned: Learned,
    encoder: RowEncoder,
) -> _Candidate:
    """Encode the rows and fit them, with progress."""
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
        _, trial = glm.original(rows, encoder.loss, promise, ridge, lambda: advance(next(done)))
    return _Candidate(basis, learned, rows, source, trial)


def read_labels(table: Table, kind: Kind) -> tuple[tuple[Any, ...] | None, Any]:
    """The classes, and the target of each row."""
    column = table.whole("target")
    if kind == "logistic":
        return learn_classes(column)
    return None, target_numbers(column, least=None if kind == "linear" else 0)


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


def _with_intervals(learned: Learned, cuts: tuple[str, ...]) -> Learned:
    """The encoding with all intervals, none folded: each has events enough."""
    names = interval_names(cuts)
    columns = [column for column in learned.encoding.columns if column.name != INTERVAL]
    if cuts:
        columns.append(LevelColumn(INTERVAL, names[1:], names[0]))
    encoding = replace(learned.encoding, columns=tuple(columns))

    remarks = tuple(remark for remark in learned.remarks if remark.column != INTERVAL)
    return replace(learned, encoding=encoding, remarks=remarks)


def _learned(table: Table, request: Request, basis: str, labels: Any, promise: Promise) -> Learned:
    shrink = max(1.0, promise.n_here / promise.n_there)
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
        weights = np.array([float(given.get(label, 1.0)) for label in classes])
    else:
        raise ReplearnError(f'class_weight must be None, "balanced" or a dict, got {short(given)}.')
    return np.array([float(decimal_text(weight)) for weight in weights])


def _published(
    best: _Candidate, request: Request, promise: Promise, classes: Any, labels: Any
) -> Original:
    trial, learned, rows = best.trial, best.learned, best.rows
    design = _design_of(best, request, promise, classes)

    # a number that labs do not agree on has the code 0, and no sketch
    published = design.cells.publish(trial.coordinates.of_theta(trial.theta))
    codes, sketch = (np.where(design.is_agreed, part, 0) for part in published)
    if promise.bits:
        design = replace(design, sketch=sketch)
    model = GlmModel(design, codes).with_constants_of(rows)

    # the worth of the model, and what can be promised
    own_worth = worth_of(design.loss, trial.validation.folds)
    worth = worth_of(design.loss, trial.folds)
    targets = design.loss.units(labels)
    shares = design.loss.totals(targets, np.ones(len(targets))) / len(targets)
    certificate = _certificate(best, promise, model, worth, shares)

    # the study, which commits to the model
    nonce = secrets.token_hex(16) if request.sealed else None
    problems = (*certificate.problems, *_unsafe(learned.remarks, request))
    profile = make_profile(learned, labels)
    study = GlmStudy.of(design, promise, trial.spread, profile, problems)
    if design.bits:
        study = study.committed_to(model, nonce)

    # not everybody reads these, and they take as long as the fit
    source, theta = best.source, trial.theta

    return Original(
        study,
        model,
        certificate,
        worth,
        own_worth,
        learned.remarks,
        best.basis,
        trial.folds,
        nonce,
        own=Later(lambda: own_estimates(source, rows, theta)),
        cohort=Later(lambda: cohort_table(learned, design.target, classes)),
        gaps=gaps_told(learned),
    )


def _design_of(best: _Candidate, request: Request, promise: Promise, classes: Any) -> GlmDesign:
    """What a replication needs of the original's fit; the sketch comes later."""
    # weights of classes as the fit had them
    class_weight = None
    if best.encoder.class_weight is not None:
        class_weight = tuple(map(decimal_text, best.encoder.class_weight.tolist()))
    return GlmDesign(
        target=request.target,
        encoding=best.learned.encoding,
        loss=best.encoder.loss,
        ridge=best.trial.ridge,
        coordinates=best.trial.coordinates,
        widths=best.trial.widths,
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
    """Worth of fits on the rows that they have not seen."""
    at_risk = None
    if isinstance(loss, Hazard):
        pieces = [piece.offset for fold in folds for _, piece in scored(fold)]
        at_risk = np.concatenate([offset for offset in pieces if offset is not None])
    return Performance.of(loss, *held_out(folds), at_risk=at_risk)


def _about_weights(rows: Rows, names: Sequence[str], loss: Loss, promise: Promise) -> list[str]:
    """Weights so unequal that a few rows decide: no law of large numbers holds for them."""
    effective = _effective_rows(rows, len(names), loss)
    if effective is None:
        return []

    # a smaller lab has as many fewer
    effective = effective * min(1.0, promise.n_there / promise.n_here)
    weakest = int(np.argmin(effective))
    if effective[weakest] >= LEAST_EFFECTIVE:
        return []

    if effective[0] >= LEAST_EFFECTIVE:
        return [
            f"The weights are so unequal that the coefficient of {names[weakest]!r} rests on "
            f"{effective[weakest]:.0f} rows of equal weight, and {LEAST_EFFECTIVE} are needed. Cut "
            "the largest weights, drop the column, or get more rows."
        ]
    return [
        f"The weights are so unequal that {promise.n_there:,} rows count as {effective[0]:.0f} of "
        f"equal weight, and {LEAST_EFFECTIVE} are needed. Cut the largest weights, or get more "
        "rows."
    ]


def _effective_rows(rows: Rows, n_columns: int, loss: Loss) -> Vector | None:
    """Rows of equal weight behind each coefficient, the constant first; None without weights.

    Rows with the weights w count as ``(sum w)^2 / sum w^2``; behind the coefficient of a column x
    it is ``w x^2`` in place of w. Those of each class are counted apart, because a weight that a
    whole class has makes no row of it decide.
    """
    n_classes = 1
    if loss.by_class:
        n_classes = loss.n_scores + 1
    totals, squares = np.zeros((2, n_columns, n_classes))
    for block in rows.blocks():
        if block.weights is None:
            return None
        for piece in pieces(block, n_columns):
            assert piece.weights is not None
            X = with_constant(piece.terms).astype(np.float64) * 2.0**-ROW_BITS
            second = _squared(X)
            fourth = _squared(second)

            # rows of each class for themselves
            label = np.zeros(piece.n_rows)
            if loss.by_class:
                label = piece.targets
            weights = piece.weights[:, None] * (label[:, None] == np.arange(n_classes))
            totals += second.T @ weights
            squares += fourth.T @ weights**2
    return np.asarray((totals**2 / np.maximum(squares, 1e-300)).sum(axis=1))


def _squared(X: Any) -> Any:
    if is_sparse(X):
        return X.multiply(X)
    return X * X


def held_out(folds: tuple[Fold, ...]) -> tuple[Matrix, Vector, Vector | None]:
    """Scores, targets and weights of the rows that fits have not seen."""
    parts = [part for fold in folds for part in scored(fold)]
    scores = np.concatenate([score for score, _ in parts])
    targets = np.concatenate([piece.targets for _, piece in parts])

    # either all rows have weights or none
    weights = None
    if parts[0][1].weights is not None:
        weights = np.concatenate([piece.weights for _, piece in parts])
    return scores, targets, weights


def _certificate(
    best: _Candidate, promise: Promise, model: GlmModel, worth: Performance, shares: Vector
) -> Certificate:
    trial, design, agreed = best.trial, model.design, model.design.is_agreed
    no_model, problems = without_model(design.loss, shares, promise, trial.theta)
    problems += _about_rows(best, promise)

    # where the numbers that labs agree on lie in their cells
    z = trial.coordinates.of_theta(trial.theta)
    residual = (z - design.cells.decode(model.codes, design.published))[agreed]
    sampling = trial.spread.central(promise.n_here, promise.n_there)[agreed]
    own = OwnSpread(sampling, residual)

    def disagreement(between: Between) -> float:
        """A model that differs, or none at all."""
        stated = np.array([float(text) for text in trial.spread.stated])
        plan = GlmPlan(promise, stated, between, design.cells.widths).of(agreed)
        differs = GLM.stability(plan, promise.n_there, own).in_mode(plan.mode)
        return differs + no_model * (1.0 - differs)

    # the coefficient that the fewest rows carry
    effective = trial.spread.influence.effective
    weakest = int(np.argmin(np.where(agreed, effective, np.inf)))
    names = _column_names(design.encoding)

    n_repeated, n_compared = _repeated(best.rows, design.loss)
    cautions = _cautions(best, design, worth)
    is_grouped = any(block.groups is not None for block in best.rows.blocks())
    if n_repeated > 0.2 * n_compared and not is_grouped:
        cautions.append(
            f"{n_repeated:,} rows occur before. If the same person stands in several rows, pass "
            "groups; else the promise is too good."
        )
    return Certificate(
        expected=disagreement(Between.none(design.n_numbers)),
        planned=promise.max_disagreement,
        n_original=promise.n_here,
        n_replication=promise.n_there,
        n_numbers=design.n_numbers,
        effective_rows=float(effective[weakest]),
        weakest=names[weakest % len(names)],
        inflation=trial.spread.inflation,
        n_repeated=n_repeated,
        at_new_centre=disagreement(trial.spread.between),
        n_centres=trial.spread.between.n_centres,
        problems=tuple(problems),
        cautions=tuple(cautions),
    )


def _column_names(encoding: Encoding) -> tuple[str, ...]:
    """Of the columns of a score, the constant first."""
    return "(constant)", *encoding.term_names


def _about_rows(best: _Candidate, promise: Promise) -> list[str]:
    """Rows that are too few, too dependent or too unequal for a promise."""
    problems, inflation = [], best.trial.spread.inflation
    if promise.n_here < PROMISED_ROWS:
        problems.append(
            f"{promise.n_here} rows are too few for any promise. Get at least {PROMISED_ROWS}."
        )

    # parts differ more than independent rows do
    if inflation > MOST_INFLATION:
        needed = math.ceil(promise.n_here * inflation / 2)
        problems.append(
            f"Parts of these rows differ {inflation:.1f} times as much as single rows "
            f"explain. Get about {_round_up(needed):,} rows, use fewer columns, or pass groups "
            "if rows come in clusters."
        )
    names = _column_names(best.learned.encoding)
    return problems + _about_weights(best.rows, names, best.encoder.loss, promise)


def _cautions(best: _Candidate, design: GlmDesign, worth: Performance) -> list[str]:
    """What does not stop a study, but whoever reads it should know."""
    cautions = []
    if worth.is_useless:
        cautions.append("The model is no better than the base rate.")
    if design.constant == "local":
        cautions.append("Each lab fits its own constant (base risk): labs agree on slopes.")
    cautions += _about_centres(best.trial.centre_fits)
    cautions += best.trial.validation.untried
    return cautions


def _repeated(rows: Rows, loss: Loss) -> tuple[int, int]:
    """Rows whose encoded numbers and target occurred before, and how many were compared.

    Of rows at risk only those with the event: a person has one of them, and the others are alike
    for all who have the same columns and live longer.
    """
    if not isinstance(rows, MemoryBlocks):
        return 0, 0

    block = sampled(rows, rows.block.n_rows, MOST_TRIED, salt=4).block
    if isinstance(loss, Hazard):
        block = block.part(block.targets > 0)
    hashes = row_hashes(block)
    return len(hashes) - len(np.unique(hashes)), len(hashes)


def _about_columns(best: _Candidate) -> tuple[Remark, ...]:
    """Columns that follow from others, and copies of an outcome of numbers."""
    block, loss = next(iter(best.rows.blocks())), best.encoder.loss
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


def _about_centres(fits: CentreFits | None) -> list[str]:
    """Centres that could not show how they differ."""
    if fits is None:
        return []
    cautions = []
    if len(fits.names) < 2:
        cautions.append(
            "Fewer than two centres have a fit of their own, so centres are taken to be typical."
        )

    # centres that were left out
    if fits.without_fit:
        named = ", ".join(map(repr, fits.without_fit[:3]))
        cautions.append(
            f"{len(fits.without_fit)} centres are too small for a fit of their own ({named}); the "
            "others show how centres differ."
        )
    return cautions


def without_model(
    loss: Loss, shares: Vector, promise: Promise, theta: Matrix
) -> tuple[float, list[str]]:
    """How often rows of the smallest lab have no model at all, and what to do if that is often."""
    n_there, problems = promise.n_there, []
    if glm.is_steep(theta):
        problems.append(
            "Some column nearly separates the classes, so that a replication may have no bounded "
            "fit. Use a larger ridge."
        )

    # half of what is promised may be labs without a model
    allowed = promise.max_disagreement / 2
    no_model = loss.no_model_chance(shares, n_there)
    if no_model > allowed:
        needed = _round_up(
            least_whole(lambda n_rows: loss.no_model_chance(shares, n_rows) <= allowed)
        )
        problems.append(
            f"Of labs with {n_there:,} rows {percent(no_model)} have {loss.no_model_message}, and "
            f"so no model. Promise it to labs with at least {needed:,} rows: "
            f"replication_rows={needed}."
        )
    return no_model, problems


def _round_up(number: float) -> int:
    """Two digits, upwards."""
    digits = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / digits) * digits
