"""Plans for more than two classes, or for classes of published weights.

As for two classes, but with K - 1 outputs that share their directions: coordinates come by
direction, and within a direction by class, so that the first k directions are the first
``(k + 1)(K - 1)`` coordinates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import softmax

from replearn.codes.basis import UNIT
from replearn.codes.decimals import Decimals
from replearn.codes.decimals import numbers as floats
from replearn.codes.design import Design
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError
from replearn.stages.batches import Rows
from replearn.stages.ranking import auc
from replearn.stages.scores import all_steps
from replearn.study.pilot.allotment import ENOUGH, Agreement, Allotment, allot
from replearn.study.pilot.cross_fit import (
    DISCOVERY_CAUTION,
    DISCOVERY_RIDGE,
    DISCOVERY_STEPS,
    FEWEST_DISCOVERY_ROWS,
    THEORY_WEIGHT,
    VARIANCE_FLOOR,
    Family,
    orthonormal_frame,
    strong_columns,
    with_constant,
)
from replearn.study.pilot.designs import design_of
from replearn.study.pilot.encoders import SCALINGS, EncodedPilot, encoded_pilots, in_own_span
from replearn.study.pilot.families import principal
from replearn.study.pilot.pilot_plan import SHOWN_BITS, PilotPlan
from replearn.study.pilot.request import SAFETY, Request, threshold_of
from replearn.study.pilot.safe_columns import Remark
from replearn.study.pilot.softmax import N_FOLDS, Fits, held_out_fits, moments, weighted_loss
from replearn.study.pilot.truth import (
    ManyClasses,
    PlanRow,
    cautions,
    growth,
    seed_noise,
    with_seeds,
)
from replearn.study.pilot.unlucky_seeds import SeedCheck, no_cautions
from replearn.study.protocol import Protocol
from replearn.types import IntegerArray, Matrix, Vector

#: Directions at the most, pilot rows for each of them, and coded numbers at the most.
_MAX_DIRECTIONS, _ROWS_PER_DIRECTION, _MAX_CODED = 16, 40, 128

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


def _most_directions(found: _Studied) -> int:
    n_rows, n_columns = found.rows.shape
    return min(_MAX_DIRECTIONS, n_columns, max(1, n_rows // _ROWS_PER_DIRECTION))


@dataclass(frozen=True)
class _Frame:
    """Directions, the triangular map that makes their columns orthonormal, and the start."""

    directions: Matrix
    frame: Matrix
    start: Matrix  # (columns, outputs)

    def columns(self, rows: Matrix) -> Matrix:
        return np.asarray(with_constant(rows @ self.directions.T) @ self.frame)

    def orthogonal(self) -> Matrix:
        mixed = self.frame[1:, 1:].T @ self.directions
        return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True))


def _of_fit(rows: Matrix, fit: Matrix, slope: float, most: int) -> _Frame:
    """The directions in which the scores of a fit vary most, then principal ones."""
    weights, scores = fit[:, 1:], rows @ fit[:, 1:].T
    middle = scores.mean(axis=0)
    turn = np.linalg.svd(scores - middle, full_matrices=False)[2]
    n_own = min(most, len(fit) - 1, len(turn))
    own = turn[:n_own] @ weights
    more = principal(rows, most - n_own) if most > n_own else np.empty((0, rows.shape[1]))
    directions = np.vstack([own, more])
    columns = with_constant(rows @ directions.T)
    kept = strong_columns(columns, np.ones(len(rows)), n_own + 1)
    frame = orthonormal_frame(columns[:, kept], np.ones(len(rows)))
    # scores of the classes in these directions, against the first class
    theta = np.zeros((columns.shape[1], len(fit)))
    inside = turn[:n_own].T @ turn[:n_own]
    theta[0] = fit[:, 0] + middle - inside @ middle
    theta[1 : n_own + 1] = turn[:n_own]
    theta = slope * (theta - theta[:, :1])[kept, 1:]
    start = np.asarray(np.linalg.solve(frame, theta), dtype=np.float64)
    return _Frame(directions[kept[1:] - 1], frame, start)


def _supervised(found: _Studied) -> tuple[Family, Vector]:
    """Directions of the pilot's own fit, and what held-out rows say about them.

    Also, for each number of columns, what its start loses next to the whole of the pilot's own
    model: in fewer directions than classes it is not whole.
    """
    most, fits, rows = _most_directions(found), found.fits, found.rows
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
        weights=np.ones(len(rows)),
        start=whole.start[:q].ravel(),
        information=information,
        variance=variance,
        signal=_smoothed(excess, variance / len(rows), found.n_outputs),
        ridge=_RIDGE,
        caution=_CAUTION,
    )
    return family, lost


def _unsupervised(found: _Studied) -> Family:
    """Principal directions, and a start that knows nothing but the shares of the classes."""
    rows, C = found.rows, found.n_outputs
    directions = principal(rows, _most_directions(found))
    columns = with_constant(rows @ directions.T)
    kept = strong_columns(columns, np.ones(len(rows)), 2, FEWEST_DISCOVERY_ROWS)
    frame = orthonormal_frame(columns[:, kept], np.ones(len(rows)))
    shares = found.shares
    start = np.zeros((kept.size, C))
    start[0] = np.log(shares[1:] / shares[0]) / frame[0, 0]
    made = _Frame(directions[kept[1:] - 1], frame, start)
    framed = columns[:, kept] @ frame
    by_class = (np.diag(shares[1:]) - np.outer(shares[1:], shares[1:])) * float(found.counts.mean())
    information = np.asarray(np.kron(np.eye(kept.size), by_class), dtype=np.float64)
    metric = np.linalg.cholesky(information).T
    theta = _fitted(framed, found.numbers, found.counts, start)
    variance = np.diag(metric @ _sandwich(found, framed, start) @ metric.T)
    variance = np.maximum(variance, VARIANCE_FLOOR)
    squares = (metric @ (theta - start).ravel()) ** 2
    return Family(
        name="pca",
        directions=made.orthogonal(),
        weights=np.ones(len(rows)),
        start=start.ravel(),
        information=information,
        variance=variance,
        signal=_block_means(squares, variance / len(rows), C),
        n_steps=DISCOVERY_STEPS,
        ridge=DISCOVERY_RIDGE,
        caution=DISCOVERY_CAUTION,
    )


def _fitted(columns: Matrix, numbers: IntegerArray, counts: Vector, start: Matrix) -> Matrix:
    """Weights after the steps of a site; see `replearn.stages.scores.logistic`."""
    theta = start
    for _ in range(DISCOVERY_STEPS):
        score, curvature, _ = moments(columns, numbers, counts, theta, smooth=0.0)
        ridge = DISCOVERY_RIDGE * np.eye(len(curvature))
        slope = score + ridge @ (theta - start).ravel()
        step = np.linalg.solve(curvature + ridge, slope)
        length = math.sqrt(max(float(step @ (curvature + ridge) @ step), 1e-300))
        theta = theta - (step * min(1.0, 1.0 / length)).reshape(theta.shape)
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


def _blocks(size: int, n_outputs: int) -> list[slice]:
    """Coordinates of the intercepts, and of directions in groups of doubling size."""
    pairs = pairwise((0, 1, 2, 4, 8, 16, 32))
    found = [slice(low * n_outputs, min(high * n_outputs, size)) for low, high in pairs]
    return [block for block in found if block.start < size]


def _smoothed(excess: Vector, theory: Vector, n_outputs: int) -> Vector:
    """Signal by groups of directions, drawn towards what theory expects of a fit on a pilot."""
    signal = np.empty_like(theory)
    for block in _blocks(theory.size, n_outputs):
        seen, n = float((excess[block] / theory[block]).sum()), theory[block].size
        weight = THEORY_WEIGHT * n_outputs
        signal[block] = theory[block] * np.clip((weight + seen) / (weight + n), 0.25, 1e6)
    return signal


def _block_means(squares: Vector, noise: Vector, n_outputs: int) -> Vector:
    """Signal by groups of directions; never below half the noise."""
    signal = np.empty_like(squares)
    for block in _blocks(squares.size, n_outputs):
        seen = float((squares[block] - noise[block]).mean())
        least = (4.0 if block.start == 0 else 0.5) * float(noise[block].mean())
        signal[block] = max(seen, least)
    return signal


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
    enough = largest - (1 - ENOUGH) * abs(largest)
    return next(candidate for candidate in candidates if candidate.gain >= enough)


def _planned(found: _Studied, request: Request) -> PilotPlan:
    """The plan of a pilot that has been studied."""
    family, C = found.family, found.n_outputs
    assert family is not None
    asked_seed = seed_text(request.shared_seed, "shared_seed")
    rho = SAFETY * request.max_disagreement
    agreement = Agreement(request.samples_per_site, rho, request.hint_bits, request.sites)
    allotment = _best(found, agreement)
    design = _design(found, allotment, request)
    base, own = _base(found.shares), _of_scores(found, found.fits.scores)
    narrow = _best(found, replace(agreement, hint_bits=SHOWN_BITS[-1]))
    single = _expected(_SINGLE, own, base, narrow.full_gain)
    if family.n_steps > 1:
        single = replace(
            _of_scores(found, _discovered(found, family)), name=_SINGLE, disagreement=None
        )

    def expected(name: str, made: Allotment) -> PlanRow:
        if family.n_steps == 1:
            return _expected(name, own, base, made.gain)
        lost = 1 - made.gain / narrow.full_gain  # what rounding leaves of one site's rows
        return _expected(name, single, base, -lost * (base.log_loss - single.log_loss))

    planned = replace(expected("this protocol", allotment), disagreement=rho)
    labelled = ManyClasses(found.numbers, found.counts)
    columns = with_constant(np.asarray(found.pilot.rows @ (design.space.directions.rows * UNIT).T))
    noise = seed_noise(allotment, design, columns, labelled, found.fits.scores)
    planned = with_seeds(planned, noise)
    rows = (base, own, planned, single)
    theta, scores = design.space.start_numbers, found.fits.scores
    if family.n_steps > 1:  # not at the start, which knows no label, but where the pilot is
        sample = Rows(found.pilot.rows, found.numbers.astype(np.uint8), np.arange(len(columns)))
        q = allotment.size // C
        used = replace(
            family, directions=family.directions[: q - 1], start=family.start[: allotment.size]
        )
        theta, scores = all_steps(sample, design).following, _discovered(found, used)
    seeds = SeedCheck(design, theta, columns, labelled, scores, base)
    # in narrow cells, where the pilot's rows end up says nothing about where a site's do
    unknown = family.n_steps > 1 and request.hint_bits > 0
    seed_cautions = no_cautions if unknown else seeds.cautions
    seed, passed_over = (asked_seed, []) if unknown else seeds.upright(asked_seed)
    protocol = Protocol(
        algorithm="logistic",
        parameters={
            "failure_prob": repr(request.failure_prob),
            "max_disagreement": repr(request.max_disagreement),
        },
        seed=seed,
        classes=found.classes,
        encoding=found.pilot.encoding,
        basis=None,
        notes=_notes(found, allotment, request, rows),
        design=design,
        target=request.target,
    )

    def of_bits(bits: int) -> tuple[int, PlanRow, int]:
        made = _best(found, replace(agreement, hint_bits=bits))
        return bits, expected("", made), made.size

    def of_rows(factor: float) -> tuple[int, PlanRow]:
        n = max(100, round(request.samples_per_site * factor))
        return n, expected("", _best(found, replace(agreement, samples_per_site=n)))

    by_bits = tuple(of_bits(bits) for bits in SHOWN_BITS)
    return PilotPlan(
        study=request.study,
        n_pilot=found.numbers.size,
        n_positive=0,
        table=rows,
        by_bits=by_bits,
        by_rows=tuple(of_rows(factor) for factor in (0.01, 0.1, 1, 10, 100)),
        rows_to_halve=None,
        directions=_words(found, request),
        n_codes=allotment.size,
        hint_bits=request.hint_bits,
        n_sites=request.sites,
        samples_per_site=request.samples_per_site,
        evidence_bits=allotment.evidence_bits,
        remarks=found.remarks,
        rare=request.rare,
        cautions=(
            *cautions(base, own, planned, own_model=request.study == "updating"),
            *_better_without(request.hint_bits, by_bits[0][1], planned, base),
            *(() if unknown else seeds.left_to_chance()),
            *passed_over,
            *seed_cautions(protocol.seed),
        ),
        protocol=protocol,
        replan=partial(_replanned, found, request),
        seed_cautions=seed_cautions,
        n_classes=len(found.classes),
    )


def _replanned(found: _Studied, request: Request, **changes: Any) -> PilotPlan:
    return _planned(found, request.changed(True, **changes))


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


def _notes(
    found: _Studied, allotment: Allotment, request: Request, rows: Sequence[PlanRow]
) -> dict[str, str]:
    _, own, planned, _ = rows
    return {
        "directions": allotment.family.name,
        "evidence_bits": f"{allotment.evidence_bits:.1f}",
        "expected_auc": f"{planned.auc:.4f}",
        "expected_balanced_accuracy": f"{planned.balanced_accuracy:.4f}",
        "expected_disagreement": f"{allotment.agreement.disagreement:.3f}",
        "expected_log_loss": f"{planned.log_loss:.4f}",
        "n_pilot": str(found.numbers.size),
        "pilot_auc": f"{own.auc:.4f}",
        "pilot_log_loss": f"{own.log_loss:.4f}",
        "samples_per_site": str(request.samples_per_site),
        "scaling": found.pilot.scaling,
        "sites": str(request.sites),
        "study": request.study,
    }


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


def _of_scores(found: _Studied, scores: Matrix) -> PlanRow:
    """Of held-out scores; AUC is the mean over classes, each against the rest."""
    numbers, counts = found.numbers, found.counts
    chance = softmax(scores, axis=1)
    decided = np.argmax(scores, axis=1)
    n_classes = len(found.classes)
    areas = [auc(chance[:, c], numbers == c).value for c in range(n_classes)]
    hits = [float((decided[numbers == c] == c).mean()) for c in range(n_classes)]
    return PlanRow(
        "the pilot's own model, as it is",
        weighted_loss(numbers, scores, counts),
        float(np.mean(areas)),
        float(np.mean(hits)),
        float(np.average(decided == numbers, weights=counts)),
        0.0,
    )


def _expected(name: str, own: PlanRow, base: PlanRow, gain: float) -> PlanRow:
    """Of a model that is better than the pilot's own by a gain in log-loss.

    What ranks and decides grows like the root of what the log-loss explains.
    """
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
