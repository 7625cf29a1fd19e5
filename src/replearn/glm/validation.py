"""Cross-validation of a generalised linear model: what a ridge is worth on rows not seen."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replearn.errors import NotConverged, ReplearnError, Unbounded
from replearn.glm import newton
from replearn.glm.derivatives import mean_gradient, sums_at
from replearn.glm.losses import Loss
from replearn.glm.newton import Summary, fit
from replearn.glm.preconditioners import preconditioner_of
from replearn.rows import (
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    ExactSums,
    MemoryBlocks,
    on_grid,
    pieces,
    row_marks,
)
from replearn.types import Mask, Matrix

#: Ridges that are tried, from the strongest on.
RIDGES = (
    *("1", "0.3", "0.1", "0.03", "0.01", "0.003", "0.001", "0.0003", "0.0001", "0.00003"),
    "0.00001",
)
N_FOLDS = 5
#: A fold that moves no coefficient further takes one Newton step from the fit of all rows.
_SMALL_STEP = 0.25
#: A ridge whose first folds have so many times the loss of the best one is given up.
_HOPELESS = 1.05


@dataclass(frozen=True)
class Fold:
    """All rows, those that are held out, and what was learned from the others."""

    rows: MemoryBlocks
    held: Block
    summary: Summary  # of the rows to learn from
    theta: Matrix | None = None
    is_held: Mask | None = None  # None: what is held out is learned from, too

    @property
    def learn(self) -> MemoryBlocks:
        """The rows to learn from: a copy, which most folds never need."""
        if self.is_held is None:
            return self.rows
        return MemoryBlocks(self.rows.block.part(~self.is_held))


@dataclass(frozen=True)
class Validation:
    """Cross-validated fits with one ridge."""

    ridge: str
    loss: float  # held out, in nats, on a grid: choices have the same bits everywhere
    folds: tuple[Fold, ...]
    guide: newton.Guide  # the fit of all rows that the folds began with
    lost: tuple[tuple[int, int], ...] = ()  # of each fold: see `lost_by`
    untried: tuple[str, ...] = ()  # ridges whose fits did not converge, in words


def folds_of(kept: MemoryBlocks, loss: Loss) -> tuple[Fold, ...]:
    """Five folds, by the content of rows (or by their group)."""
    number = row_marks(kept.block, salt=2) % N_FOLDS
    without_terms = replace(kept.block, terms=np.empty((kept.block.n_rows, 0)))
    folds = []
    for fold in range(N_FOLDS):
        is_held = number == fold
        if is_held.any() and not is_held.all():
            summary = Summary.of(MemoryBlocks(without_terms.part(~is_held)), loss)
            if loss.is_enough(summary.shares):
                held = kept.block.part(is_held)
                folds.append(Fold(kept, held, summary, is_held=is_held))
    return tuple(folds) or (Fold(kept, kept.block, Summary.of(kept, loss)),)


def validate(
    kept: MemoryBlocks,
    folds: tuple[Fold, ...],
    loss: Loss,
    ridge: str,
    guide: newton.Guide | None = None,
    best: Validation | None = None,
) -> Validation:
    """Fit all rows, from ``guide`` on, and then each fold, which differs little from them.

    Each fit ends near its own limit, or is one small step away from that of all rows. Where the
    first folds are much worse than those of ``best``, the loss is infinite and the others are not
    fitted.
    """
    summary = Summary.of(kept, loss)
    tolerance_units = newton.near_enough(loss.n_scores * (kept.n_terms + 1))
    theta = fit(kept, loss, ridge, summary, tolerance_units, guide)
    guide, total = newton.Guide(theta), None
    form = newton.guide_form(theta.shape)
    if form != "alone":
        sample_threshold = newton.sample_threshold_for(summary.n_rows, theta.size)
        total = sums_at(kept.blocks(), loss, theta, sample_threshold, form, kept.work)
        guide = newton.Guide(theta, preconditioner_of(total, loss, float(ridge), form))

    fitted, lost = [], []
    for fold in folds:
        of_fold = None
        if total is not None and form == "pairs":
            of_fold = one_step(fold, loss, ridge, guide, total)
        if of_fold is None:  # one step is too short a way
            of_fold = fit(fold.learn, loss, ridge, fold.summary, tolerance_units, guide)
        fitted.append(replace(fold, theta=of_fold))
        lost.append(lost_by(fitted[-1], loss))
        # so much worse than the same folds of the best ridge: the others need no fit
        if best is not None and _mean(lost) > _HOPELESS * _mean(best.lost[: len(lost)]):
            return Validation(ridge, math.inf, (), guide)
    return Validation(ridge, _mean(lost), tuple(fitted), guide, tuple(lost))


def one_step(
    fold: Fold, loss: Loss, ridge: str, guide: newton.Guide, total: ExactSums
) -> Matrix | None:
    """One Newton step from the fit of all rows to that of a fold; None if it is a large one.

    The gradient of the rows to learn from is that of all rows, ``total``, less that of the rows
    held out: one pass over all rows serves five folds.
    """
    held = sums_at([fold.held], loss, guide.theta)
    learned = ExactSums(
        "rows to learn from",
        {name: total.values[name] - held.values[name] for name in ("gradient", "weight")},
    )
    if guide.precondition is None or not learned.count("weight"):
        return None

    gradient = mean_gradient(learned, guide.theta, loss, float(ridge))
    step = guide.precondition(gradient)
    if np.abs(step).max() > _SMALL_STEP:
        return None
    return guide.theta - on_grid(step, THETA_BITS)


def held_out_loss(folds: Sequence[Fold], loss: Loss) -> float:
    """Mean loss of held-out rows in nats, from an exact sum."""
    return _mean([lost_by(fold, loss) for fold in folds])


def lost_by(fold: Fold, loss: Loss) -> tuple[int, int]:
    """Loss of the held-out rows and their weight, on grids."""
    total = weight = 0
    for eta, piece in scored(fold):
        value = loss.value(eta, piece.targets)
        total += int(on_grid(np.minimum(value, 1e6) * piece.masses, 20).sum())
        weight += piece.weight
    return total, weight


def _mean(lost: Sequence[tuple[int, int]]) -> float:
    total, weight = (sum(parts) for parts in zip(*lost, strict=True))
    return float(total) * 2.0 ** (WEIGHT_BITS - 20) / float(weight)


def scored(fold: Fold) -> Iterator[tuple[Matrix, Block]]:
    """Scores of the held-out rows, piece by piece."""
    assert fold.theta is not None
    for piece in pieces(fold.held, fold.theta.shape[1]):
        yield piece.scores(fold.theta), piece


def best_ridge(
    kept: MemoryBlocks, folds: tuple[Fold, ...], loss: Loss, tick: Callable[[], None] = lambda: None
) -> Validation:
    """The ridge with the least held-out loss: from a strong one on, while it helps.

    Nearly separable rows have no bounded fit with a weak ridge; then the last bounded one counts.
    A fit that does not converge is a different thing: the choice then says what it left out.
    ``tick`` is called after each ridge.
    """
    best: Validation | None = None
    guide: newton.Guide | None = None
    left_out: list[str] = []
    for ridge in RIDGES[2::2]:  # whole decades; `tried` looks between them
        try:
            validation = validate(kept, folds, loss, ridge, guide, best)
        except (Unbounded, NotConverged) as error:
            if isinstance(error, NotConverged):
                left_out.append(untried(ridge, error))
            # ridges become weaker: after a good one, those that follow would fail, too
            if best is None:
                continue
            break
        tick()

        if best is not None and validation.loss >= best.loss:
            break
        best, guide = validation, validation.guide

    if best is None:
        raise ReplearnError(
            "rows must allow a bounded fit, but even a ridge of "
            f"{RIDGES[-1]} and stronger ones diverge. Leave out columns that separate the classes."
        )
    return replace(best, untried=tuple(left_out))


def untried(ridge: str, error: NotConverged) -> str:
    """What a choice of the ridge left out, and why."""
    return f"A ridge of {ridge} could not be tried: {error}"
