"""Plans for more than two classes, or for classes of published weights.

As for two classes, but with K - 1 outputs that share their directions: coordinates come by
direction, and within a direction by class, so that the first k directions are the first
``(k + 1)(K - 1)`` coordinates.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from replearn.codes.decimals import Decimals
from replearn.codes.decimals import numbers as floats
from replearn.codes.design import Design
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.stages.batches import Rows
from replearn.stages.scores import all_steps
from replearn.study.pilot.allotment import Agreement, Allotment, allot
from replearn.study.pilot.cross_fit import (
    DISCOVERY_RIDGE,
    DISCOVERY_STEPS,
    VARIANCE_FLOOR,
    Family,
    Frame,
    block_means,
    discovery,
    discovery_frame,
    orthonormal_frame,
    smoothed,
    strong_columns,
    with_constant,
)
from replearn.study.pilot.designs import design_of, published_columns
from replearn.study.pilot.encoders import SCALINGS, EncodedPilot, encoded_pilots, in_own_span
from replearn.study.pilot.families import most_directions, principal
from replearn.study.pilot.pilot_plan import SHOWN_BITS, PilotPlan, study_plan
from replearn.study.pilot.request import Request, threshold_of
from replearn.study.pilot.ridge import N_FOLDS, short_step
from replearn.study.pilot.safe_columns import Remark
from replearn.study.pilot.softmax import Fits, held_out_fits, moments, weighted_loss
from replearn.study.pilot.truth import (
    ManyClasses,
    PlanRow,
    cautions,
    growth,
    seed_noise,
    with_seeds,
)
from replearn.study.pilot.unlucky_seeds import SeedCheck
from replearn.types import IntegerArray, Matrix, Vector

#: Directions and coded numbers at the most.
_MAX_DIRECTIONS, _MAX_CODED = 16, 128

#: Towards the start; and as for two classes, but a little more: more numbers are chosen among.
_RIDGE, _CAUTION = 0.02, 1.2

_SINGLE = "all rows of one site, not replicable"


@dataclass(frozen=True)
class _Studied:
    """A pilot in its best scaling, with what it says about directions."""

    pilot: EncodedPilot
    rows: Matrix
    span: Matrix
    numbers: IntegerArray
    counts: Vector
    fits: Fits
    classes: tuple[Any, ...]
    class_weights: Decimals
    remarks: tuple[Remark, ...]
    family: Family | None = None
    lost: Vector | None = None  # by the start in the first directions only, held out, in nats

    @property
    def n_outputs(self) -> int:
        return len(self.classes) - 1

    @property
    def shares(self) -> Vector:
        """Of each class, by what its rows count."""
        found = np.bincount(self.numbers, self.counts, len(self.classes))
        return np.asarray(found / found.sum())


def plan_many_classes(
    X: Any,
    numbers: IntegerArray,
    classes: tuple[Any, ...],
    class_weights: Decimals,
    remarks: tuple[Remark, ...],
    request: Request,
) -> PilotPlan:
    """Plan a logistic study of more than two classes, or with weights of classes.

    See `replearn.plan_from_pilot`.
    """
    request.check(has_labels=True)
    if request.scores:
        raise ReplearnError(
            "published scores are for two classes of equal weight, got more or others. Leave them "
            "out."
        )
    counts = np.ones(numbers.size)
    if class_weights:
        counts = floats(class_weights)[numbers]
    coins, ways = SharedRandomness("pilot"), []
    for pilot in encoded_pilots(X, request.categories, request.rare):
        rows, span = in_own_span(pilot.rows)
        fits = held_out_fits(rows, numbers, counts, coins)
        found = _Studied(pilot, rows, span, numbers, counts, fits, classes, class_weights, remarks)
        if request.study == "discovery":
            found = replace(found, family=_unsupervised(found))
        ways.append(found)
    found = min(ways, key=_scaling_loss)
    if found.family is None:
        family, lost = _supervised(found)
        found = replace(found, family=family, lost=lost)
    return _planned(found, request)


def _scaling_loss(found: _Studied) -> float:
    """What a scaling is chosen by: held-out log-loss of what the sites would fit."""
    scores = found.fits.scores if found.family is None else _discovered(found, found.family)
    return weighted_loss(found.numbers, scores, found.counts)


# --- directions -------------------------------------------------------------------------------


def _of_fit(rows: Matrix, fit: Matrix, slope: float, most: int) -> Frame:
    """The directions in which the scores of a fit vary most, then principal ones."""
    scores = rows @ fit[:, 1:].T
    middle = scores.mean(axis=0)
    turn = np.linalg.svd(scores - middle, full_matrices=False)[2]
    n_own = min(most, len(fit) - 1, len(turn))
    own = turn[:n_own] @ fit[:, 1:]
    more = principal(rows, most - n_own) if most > n_own else np.empty((0, rows.shape[1]))
    directions = np.vstack([own, more])
    columns, weights = with_constant(rows @ directions.T), np.ones(len(rows))
    kept = strong_columns(columns, weights, n_own + 1)
    frame = orthonormal_frame(columns[:, kept], weights)
    # scores of the classes in these directions, against the first class
    theta = np.zeros((columns.shape[1], len(fit)))
    inside = turn[:n_own].T @ turn[:n_own]
    theta[0] = fit[:, 0] + middle - inside @ middle
    theta[1 : n_own + 1] = turn[:n_own]
    theta = slope * (theta - theta[:, :1])[kept, 1:]
    start = np.asarray(np.linalg.solve(frame, theta), dtype=np.float64)
    return Frame(directions[kept[1:] - 1], frame, start, weights)


def _supervised(found: _Studied) -> tuple[Family, Vector]:
    """Directions of the pilot's own fit, and what held-out rows say about them.

    Also, for each number of columns, what its start loses next to the whole of the pilot's own
    model: in fewer directions than classes it is not whole.
    """
    fits, rows = found.fits, found.rows
    most = most_directions(rows, _MAX_DIRECTIONS)
    seen_parts = [fits.fold != left_out for left_out in range(N_FOLDS)]
    frames = [
        _of_fit(rows[seen], fit, fits.slope, most)
        for seen, fit in zip(seen_parts, fits.by_fold, strict=True)
    ]
    whole = _of_fit(rows, fits.whole, fits.slope, most)
    q = min(len(frame.start) for frame in (*frames, whole))
    size = q * found.n_outputs
    information, meat, held, n_held = np.zeros((size, size)), np.zeros((size, size)), [], []
    losses = np.zeros(q)
    for frame, seen in zip(frames, seen_parts, strict=True):
        columns = frame.columns(rows[~seen])[:, :q]
        theta = frame.start[:q]
        for j in range(q):
            scores = with_constant(columns[:, : j + 1] @ theta[: j + 1])
            scores[:, 0] = 0.0  # of the first class
            held_rows = found.numbers[~seen], scores, found.counts[~seen]
            losses[j] += weighted_loss(*held_rows) / N_FOLDS
        score, curvature, second = moments(
            columns, found.numbers[~seen], found.counts[~seen], theta
        )
        information += curvature / N_FOLDS
        meat += second / N_FOLDS
        held.append(score)
        n_held.append(len(columns))
    information = _nearly_by_direction(information, found.n_outputs)
    to_metric = np.linalg.inv(np.linalg.cholesky(information))
    variance = np.maximum(np.diag(to_metric @ meat @ to_metric.T), VARIANCE_FLOOR)
    squares = np.mean([(to_metric @ score) ** 2 for score in held], axis=0)
    excess = squares - variance * float(np.mean(1 / np.array(n_held)))
    lost = np.maximum(0.0, losses - losses[min(found.n_outputs, q - 1)])
    family = Family(
        name="softmax",
        directions=whole.orthogonal()[: q - 1],
        weights=whole.weights,
        start=whole.start[:q].ravel(),
        information=information,
        variance=variance,
        signal=smoothed(excess, variance / len(rows), found.n_outputs),
        ridge=_RIDGE,
        caution=_CAUTION,
    )
    return family, lost


def _unsupervised(found: _Studied) -> Family:
    """Principal directions, and a start that knows nothing but the shares of the classes."""
    rows, shares = found.rows, found.shares
    most, weights = most_directions(rows, _MAX_DIRECTIONS), np.ones(len(rows))
    made, columns = discovery_frame(rows, most, weights, np.log(shares[1:] / shares[0]))
    start = made.start
    by_class = (np.diag(shares[1:]) - np.outer(shares[1:], shares[1:])) * float(found.counts.mean())
    information = np.asarray(np.kron(np.eye(len(start)), by_class), dtype=np.float64)
    metric = np.linalg.cholesky(information).T
    theta = _fitted(columns, found.numbers, found.counts, start)
    variance = np.diag(metric @ _sandwich(found, columns, start) @ metric.T)
    variance = np.maximum(variance, VARIANCE_FLOOR)
    squares = (metric @ (theta - start).ravel()) ** 2
    signal = block_means(squares, variance / len(rows), found.n_outputs)
    return discovery(made, information, variance, signal)


def _fitted(columns: Matrix, numbers: IntegerArray, counts: Vector, start: Matrix) -> Matrix:
    """Weights after the steps of a site; see `replearn.stages.scores.logistic`."""
    theta = start
    for _ in range(DISCOVERY_STEPS):
        score, curvature, _ = moments(columns, numbers, counts, theta, smooth=0.0)
        ridge = DISCOVERY_RIDGE * np.eye(len(curvature))
        slope = score + ridge @ (theta - start).ravel()
        theta = theta - short_step(curvature + ridge, slope).reshape(theta.shape)
    return theta


def _sandwich(found: _Studied, columns: Matrix, start: Matrix) -> Matrix:
    """Covariance of one row's part in the weights, by rows that the fits have not seen."""
    information, meat = DISCOVERY_RIDGE * np.eye(start.size), np.zeros((start.size, start.size))
    for left_out in range(N_FOLDS):
        seen = found.fits.fold != left_out
        theta = _fitted(columns[seen], found.numbers[seen], found.counts[seen], start)
        parts = columns[~seen], found.numbers[~seen], found.counts[~seen]
        _, curvature, second = moments(*parts, theta, smooth=0.0)
        information += curvature / N_FOLDS
        meat += second / N_FOLDS
    bread = np.linalg.inv(information)
    return np.asarray(bread @ meat @ bread)


def _nearly_by_direction(information: Matrix, n_outputs: int) -> Matrix:
    """Half of what is between directions is believed: the frames make it small to begin with."""
    direction = np.arange(len(information)) // n_outputs
    same = direction[:, None] == direction
    return np.where(same, information, 0.5 * information)


# --- the plan ---------------------------------------------------------------------------------


def _best(found: _Studied, agreement: Agreement) -> Allotment:
    """The fewest directions that nearly have the largest gain on the pilot's own model."""
    family, n_outputs = found.family, found.n_outputs
    assert family is not None
    lost = np.zeros(family.signal.size) if found.lost is None else found.lost
    most = min(family.signal.size, _MAX_CODED)
    candidates = []
    for size in range(2 * n_outputs, most + 1, n_outputs):
        made = allot(family, size, agreement)
        gain = made.gain - float(lost[size // n_outputs - 1])
        candidates.append(replace(made, gain=gain))
    if not candidates:
        raise ReplearnError(
            f"one direction for each of {n_outputs} classes against the first makes "
            f"{2 * n_outputs} coded numbers, and there is room for {most}. Merge classes."
        )
    largest = max(candidate.gain for candidate in candidates)
    enough = largest - (1 - family.enough) * abs(largest)
    return next(candidate for candidate in candidates if candidate.gain >= enough)


def _planned(found: _Studied, request: Request) -> PilotPlan:
    """The plan of a pilot that has been studied."""
    family, labelled = found.family, ManyClasses(found.numbers, found.counts)
    assert family is not None
    agreement, best = request.agreement, partial(_best, found)
    allotment = best(agreement)
    design = _design(found, allotment, request)
    base, own = _base(found.shares), _of_scores(labelled, found.fits.scores)
    narrow = best(replace(agreement, hint_bits=SHOWN_BITS[-1]))
    single = _expected(_SINGLE, own, base, narrow.full_gain)
    if family.n_steps > 1:
        scores = _discovered(found, family)
        single = replace(_of_scores(labelled, scores), name=_SINGLE, disagreement=None)

    def gained(made: Allotment) -> PlanRow:
        if family.n_steps == 1:
            return _expected("", own, base, made.gain)
        lost = 1 - made.gain / narrow.full_gain  # what rounding leaves of one site's rows
        return _expected("", single, base, -lost * (base.log_loss - single.log_loss))

    columns = published_columns(found.pilot, design)
    noise = seed_noise(allotment, design, columns, labelled, found.fits.scores)
    planned = replace(gained(allotment), name="this protocol", disagreement=agreement.disagreement)
    planned = with_seeds(planned, noise)
    without_hint = gained(best(replace(agreement, hint_bits=0)))
    return study_plan(
        request,
        found.pilot,
        found.classes,
        allotment,
        design,
        (base, own, planned, single),
        best=best,
        gained=gained,
        factors=(0.01, 0.1, 1, 10, 100),
        seeds=_seed_check(found, allotment, design, labelled, columns, base),
        cautions=[
            *cautions(base, own, planned, own_model=request.study == "updating"),
            *_better_without(request.hint_bits, without_hint, planned, base),
        ],
        again=partial(_planned, found),
        n_positive=0,
        rows_to_halve=None,
        directions=_words(found, request),
        remarks=found.remarks,
        n_classes=len(found.classes),
    )


def _seed_check(
    found: _Studied,
    allotment: Allotment,
    design: Design,
    labelled: ManyClasses,
    columns: Matrix,
    base: PlanRow,
) -> SeedCheck | None:
    """Who says what must be said about a seed, where the sites are expected."""
    family, size = allotment.family, allotment.size
    theta, scores = design.space.start_numbers, found.fits.scores
    if family.n_steps > 1:  # not at the start, which knows no label, but where the pilot is
        if allotment.agreement.hint_bits:
            return None  # in narrow cells that says nothing about where a site's rows end up
        sample = Rows(found.pilot.rows, found.numbers.astype(np.uint8), np.arange(len(columns)))
        n_used = size // found.n_outputs - 1
        used = replace(family, directions=family.directions[:n_used], start=family.start[:size])
        theta, scores = all_steps(sample, design).following, _discovered(found, used)
    return SeedCheck(design, theta, columns, labelled, scores, base)


def _better_without(bits: int, without: PlanRow, planned: PlanRow, base: PlanRow) -> list[str]:
    """A caution, if a hint costs more than it gives: its cells are cubes, not of a lattice."""
    if bits == 0 or without.log_loss > planned.log_loss - 1e-3 * base.log_loss:
        return []
    return [
        f"Without hint bits the study is expected to be better (log-loss {without.log_loss:.4f} "
        f"against {planned.log_loss:.4f}). Take more of them, or none."
    ]


def _words(found: _Studied, request: Request) -> str:
    kind = "principal directions"
    if request.study == "updating":
        kind = "directions in which the pilot's own fit tells classes apart, then principal ones"
    return f"{kind}; {SCALINGS[found.pilot.scaling]}"


# --- what it is worth -------------------------------------------------------------------------


def _base(shares: Vector) -> PlanRow:
    """The shares of the classes for everybody."""
    entropy = float(-(shares * np.log(shares)).sum())
    return PlanRow("always the base rate", entropy, 0.5, 1 / shares.size, float(shares.max()), 0.0)


def _discovered(found: _Studied, family: Family) -> Matrix:
    """Held-out scores of a discovery, before any rounding."""
    columns = with_constant(found.rows @ family.directions.T)
    columns = columns @ orthonormal_frame(columns, family.weights)
    start = family.start.reshape(-1, found.n_outputs)
    scores = np.zeros((len(columns), found.n_outputs + 1))
    for left_out in range(N_FOLDS):
        seen = found.fits.fold != left_out
        theta = _fitted(columns[seen], found.numbers[seen], found.counts[seen], start)
        scores[~seen, 1:] = columns[~seen] @ theta
    return scores


def _of_scores(labelled: ManyClasses, scores: Matrix) -> PlanRow:
    """Of held-out scores."""
    numbers, decided = labelled.numbers, np.argmax(scores, axis=1)
    hits = [float((decided[numbers == c] == c).mean()) for c in range(scores.shape[1])]
    return PlanRow(
        "the pilot's own model, as it is",
        labelled.loss(scores),
        labelled.auc(scores),
        float(np.mean(hits)),
        float(np.average(decided == numbers, weights=labelled.counts)),
        0.0,
    )


def _expected(name: str, own: PlanRow, base: PlanRow, gain: float) -> PlanRow:
    """Of a model that is better than the pilot's own by a gain in log-loss."""
    loss = min(max(own.log_loss - gain, 1e-6), base.log_loss)
    factor = growth(base, own, loss)

    def grown(value: float, least: float) -> float:
        return min(0.9999, max(0.0, least + (value - least) * factor))

    return PlanRow(
        name,
        loss,
        grown(own.auc, 0.5),
        grown(own.balanced_accuracy, base.balanced_accuracy),
        grown(own.accuracy, base.accuracy),
    )


# --- the design -------------------------------------------------------------------------------


def _design(found: _Studied, allotment: Allotment, request: Request) -> Design:
    """The published form of an allotment."""
    threshold = "0"
    if found.n_outputs == 1:
        threshold = threshold_of(request.threshold, float(found.shares[1]))
    truth = np.eye(len(found.classes))[found.numbers]
    residuals = (softmax(found.fits.scores, axis=1) - truth) * found.counts[:, None]
    return design_of(
        allotment,
        found.pilot,
        found.span,
        threshold,
        residuals,
        n_outputs=found.n_outputs,
        class_weights=found.class_weights,
    )
