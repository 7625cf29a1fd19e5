"""Generalised linear models with a sketch: the original's steps, and the replication's.

An original fits its full model, chooses coordinates and cells from its own rows, and publishes a
few bits about each coded number. A replication fits the same model on its own rows and reads the
sketch. `stability` is the one place where the probability of different codes is written.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from replearn.codes.coins import Coins
from replearn.codes.sketch import miss_rate, width_factor
from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.exact import algebra
from replearn.exact.rows import (
    MOST_TRIED,
    ROW_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    Kept,
    Rows,
    on_grid,
    pieces,
    row_marks,
    sampled,
    with_constant,
)
from replearn.recipes import newton
from replearn.recipes.coordinates import Coordinates
from replearn.recipes.derivatives import mean_information, sums_at
from replearn.recipes.influence import Influence, influence_of
from replearn.recipes.losses import LEAST_ROWS, Loss
from replearn.recipes.newton import Summary, fit
from replearn.recipes.recipe import Bound
from replearn.recipes.validation import (
    RIDGES,
    Fold,
    Validation,
    best_ridge,
    folds_of,
    held_out_loss,
    validate,
)
from replearn.types import Matrix, Vector, is_sparse

#: Pairs of disjoint parts of the original's own rows that check the spread.
N_CHECKS, _MOST_CHECKS = 4, 32
#: Parts of the original's rows may differ by this factor more than influences say, in squares.
MOST_INFLATION = 4.0
_LEAST_INFLATION = 0.25
#: Joint counts below it are not published.
LEAST_COUNT = 10
#: Weights of rows in second moments have units of 2^-8.
_MOMENT_BITS = 8
#: Coefficients of originals stay below it, so that those of replications stay below their bound.
_MOST_THETA = 0.75 * newton.MAX_THETA
#: Ridge and widths where there are too few rows to choose them.
_STRONG, _ARBITRARY = "0.1", "0.1"
#: A model may cost this share of its sampling error, 0.5 q/n nats, for a stronger ridge.
_RIDGE_PRICE = 0.1
#: Rounding may cost this share of what a model is worth; else its numbers get one bit more.
_DEAR = 0.01
#: Of one number, so that its logarithm is finite.
_MOST_MISSES = 1 - 1e-12


@dataclass(frozen=True)
class Spread:
    """How much the coded numbers of labs differ."""

    influence: Influence  # of the original's rows
    # how much larger squared differences between parts of the original's own rows were than
    # influences say. Below 1 it makes a proof fair, but no cell narrower.
    inflation: float = 1.0

    def differences(self, n_here: float, n_there: float, upper: bool = False) -> Vector:
        """Standard deviations of the difference between two labs."""
        factor = max(1.0, self.inflation) if upper else self.inflation
        return self.influence.differences(n_here, n_there, upper) * math.sqrt(factor)

    @property
    def stated(self) -> tuple[str, ...]:
        """Standard deviation of one row's influence on each number, as a study publishes it."""
        return tuple(map(decimal_text, self.differences(1.0, math.inf).tolist()))

    def central(self, n_here: float, n_there: float) -> Vector:
        """Geometric means of what was seen and what cells are planned with.

        A lab knows its own spread only up to an error.
        """
        seen, upper = (self.differences(n_here, n_there, bound) for bound in (False, True))
        return np.sqrt(seen * upper)


def second_moments(rows: Rows) -> Matrix:
    """Mean products of encoded columns, the constant first; small joint counts are left out."""
    n_columns = rows.n_terms + 1
    total = np.zeros((n_columns, n_columns), dtype=np.int64)
    n_rows = weight = 0
    for block in rows.blocks():
        n_rows += block.n_rows
        for piece in pieces(block, n_columns):
            X = with_constant(piece.terms)
            masses = np.full(piece.n_rows, 2.0**_MOMENT_BITS)
            if piece.weights is not None:
                masses = np.maximum(on_grid(piece.weights, _MOMENT_BITS), 1.0)
            weighted = X.multiply(masses[:, None]) if is_sparse(X) else X * masses[:, None]
            product = weighted.T @ X  # exact: 2^14 rows x 2^28 x 2^8
            total += (product.toarray() if is_sparse(product) else product).astype(np.int64)
            weight += int(masses.sum())
    small = np.abs(total) < LEAST_COUNT << (2 * ROW_BITS + _MOMENT_BITS)
    np.fill_diagonal(small, False)
    small &= n_rows >= LEAST_ROWS  # fewer are not published at all
    # what is left out goes to the diagonal, so that the matrix stays positive
    total[np.diag_indices(n_columns)] += np.where(small, np.abs(total), 0).sum(axis=1)
    total[small] = 0
    return total.astype(np.float64) * 2.0 ** (-2 * ROW_BITS) / weight


def spread_of(
    rows: Rows, loss: Loss, ridge: str, theta: Matrix, coordinates: Coordinates, summary: Summary
) -> Influence:
    """Influences of the original's rows on its coordinates."""
    kept = sampled(rows, summary.n_rows, 2 * MOST_TRIED, salt=3)
    sums = sums_at(kept.blocks(), loss, theta, share=1 << 32)
    return influence_of(
        kept.blocks(),
        loss,
        theta,
        mean_information(sums, loss, float(ridge)),
        coordinates.factors(),
        summary.n_rows,
        summary.weight * 2.0**-WEIGHT_BITS,
    )


def inflation_of(
    kept: Kept,
    loss: Loss,
    ridge: str,
    coordinates: Coordinates,
    influence: Influence,
    smallest: int,
    guide: newton.Guide,
) -> float:
    """Squared differences between parts of a lab's own rows, beside what influences say.

    Each check takes two disjoint parts, as large as the smallest lab where that is possible.
    """
    share = min(0.5, smallest / kept.block.n_rows)
    ratios = []
    n_checks = max(N_CHECKS, min(_MOST_CHECKS, int(0.5 / share)))  # small parts are many
    for check in range(n_checks):
        place = row_marks(kept.block, salt=10 + check) * 2.0**-32
        found = []
        for part in (place < share, place >= 1.0 - share):
            half = Kept(kept.block.part(part))
            if not half.block.n_rows:
                continue
            summary = Summary.of(half, loss)
            if loss.is_enough(summary.shares):
                theta = fit(half, loss, ridge, summary, newton.NEAR_ENOUGH, guide)
                found.append((coordinates.of_theta(theta), summary.n_rows))
        if len(found) == 2:
            (z, n), (other, m) = found
            ratios.append(((z - other) / influence.differences(n, m, upper=False)) ** 2)
    if not ratios:  # parts as small as the smallest lab have no model
        return 2 * MOST_INFLATION
    squares = np.concatenate(ratios)
    total, size = algebra.total(squares), squares.size
    if total >= size:
        return total / size
    return max(_LEAST_INFLATION, (total + 8) / (size + 8))  # few of them are believed less


@dataclass(frozen=True)
class Promise:
    """What an original promises its replications."""

    max_disagreement: float  # probability that a replication gets a different model
    bits: int  # published about each number
    # rows of the original, and of the smallest replication
    n_here: int
    n_there: int


def widths_of(spread: Spread, promise: Promise) -> tuple[str, ...]:
    """Widths of cells, as published: three digits, rounded upwards."""
    if promise.n_here < LEAST_ROWS:
        return (_ARBITRARY,) * spread.influence.variance.size
    deviations = spread.differences(promise.n_here, promise.n_there, upper=True)
    factor = width_factor(len(deviations), promise.max_disagreement, promise.bits)
    return tuple(decimal_text(1.005 * factor * deviation, 3) for deviation in deviations)


def stability(widths: Vector, bits: int, residual: Vector | None = None) -> Bound:
    """How likely a replication gets different codes.

    Parameters
    ----------
    widths : array
        Of the cells, in standard deviations of the difference between the two labs.
    bits : int
    residual : array, optional
        Where this original lies in its cells, from their centres, in the same units; without it,
        over the coins.

    Returns
    -------
    bound : Bound
        ``expected``: normal differences stay within all cells at least as often as if they were
        independent, whatever their correlations (Sidak). A sum over the cells would exceed 1 for
        few rows; `replearn.codes.sketch.width_factor` inverts that sum, which is the larger one.
    """
    if residual is None:
        each = [miss_rate(width, bits) for width in widths]
    else:
        above, below = ((widths / 2 + off) / math.sqrt(2.0) for off in (-residual, residual))
        each = [(math.erfc(a) + math.erfc(b)) / 2 for a, b in zip(above, below, strict=True)]
    together = math.fsum(math.log1p(-min(miss, _MOST_MISSES)) for miss in each)
    return Bound(proved=1.0, expected=-math.expm1(together))


@dataclass(frozen=True)
class Trial:
    """A whole original with one ridge: fit, coordinates, spread and cells, and what it is worth."""

    validation: Validation  # without rounding
    theta: Matrix  # the fit of all rows, in whole units
    coordinates: Coordinates
    spread: Spread
    widths: tuple[str, ...]
    folds: tuple[Fold, ...]  # the same fits with a rounding error as the study's
    loss: float  # held out, after rounding

    @property
    def ridge(self) -> str:
        """Of the fit."""
        return self.validation.ridge

    def with_cells(self, promise: Promise, loss: Loss) -> "Trial":
        """The same fit in cells of its own spread, and what rounding makes of it."""
        widths = widths_of(self.spread, promise)
        sizes = np.array([float(width) for width in widths])
        folds = tuple(
            replace(fold, theta=rounded(fold.theta, self.coordinates, sizes, promise.bits, number))
            for number, fold in enumerate(self.validation.folds)
            if fold.theta is not None
        )
        found = held_out_loss(folds, loss)
        return replace(self, widths=widths, folds=folds, loss=found)

    def is_dear(self, loss: Loss) -> bool:
        """Whether rounding costs more than a hundredth of what the fit is worth.

        Rounding errors of both signs are tried, so that only their squares count.
        """
        own, n_columns = self.validation, self.theta.shape[1]
        mirrored, base = [], []
        for fold, moved in zip(own.folds, self.folds, strict=True):
            assert fold.theta is not None
            assert moved.theta is not None
            mirrored.append(replace(fold, theta=2 * fold.theta - moved.theta))
            constant = newton.start(loss, fold.summary, n_columns)
            base.append(replace(fold, theta=constant.theta))
        cost = (self.loss + held_out_loss(mirrored, loss)) / 2 - own.loss
        return cost > _DEAR * (held_out_loss(base, loss) - own.loss) > 0


def attempt(
    rows: Rows,
    kept: Kept,
    loss: Loss,
    summary: Summary,
    promise: Promise,
    moments: Matrix,
    validation: Validation,
) -> Trial:
    """An original with the ridge of a validation."""
    ridge = validation.ridge
    theta = fit(rows, loss, ridge, summary)  # from the start, as a replication does
    coordinates = Coordinates.of(loss.information(summary.shares), moments, float(ridge))
    influence = spread_of(rows, loss, ridge, theta, coordinates, summary)
    spread = Spread(influence)
    if summary.n_rows >= LEAST_ROWS:
        n_there = promise.n_there
        inflation = inflation_of(
            kept, loss, ridge, coordinates, influence, n_there, validation.guide
        )
        spread = Spread(influence, inflation)
    bare = Trial(validation, theta, coordinates, spread, (), (), math.inf)
    return bare.with_cells(promise, loss)


def original(
    rows: Rows, loss: Loss, promise: Promise, ridge: str | None = None
) -> tuple[Summary, Trial]:
    """Fit an original and choose its cells.

    Parameters
    ----------
    rows : Rows
    loss : Loss
    promise : Promise
    ridge : decimal text, optional
        By default the strongest one whose held-out loss, after rounding, is as good as the best
        up to a tenth of the sampling error of the smallest lab.
    """
    summary = Summary.of(rows, loss).check(loss)
    kept = sampled(rows, summary.n_rows, MOST_TRIED, salt=4)
    moments = second_moments(rows)
    folds = folds_of(kept, loss)
    if summary.n_rows < LEAST_ROWS:
        folds, ridge = (Fold(kept, kept.block, summary),), ridge or _STRONG
    if ridge is not None:
        validation = validate(kept, folds, loss, ridge)
        return summary, attempt(rows, kept, loss, summary, promise, moments, validation)
    validation = best_ridge(kept, folds, loss)
    trials: list[Trial] = []
    price = _RIDGE_PRICE * 0.5 * loss.n_scores * (rows.n_terms + 1)
    allowed = price / min(promise.n_there, summary.n_rows)
    place = RIDGES.index(validation.ridge)
    for stronger in RIDGES[place::-1]:
        try:
            if stronger != validation.ridge:
                validation = validate(kept, folds, loss, stronger, validation.guide)
            trial = attempt(rows, kept, loss, summary, promise, moments, validation)
        except ReplearnError:
            if stronger == RIDGES[0] and not trials:
                raise
            continue  # a part of the rows has no bounded fit
        if is_steep(trial.theta):
            continue
        trials.append(trial)
        if trials[-1].loss > min(trial.loss for trial in trials) + allowed:
            break
    best = min(trial.loss for trial in trials)
    return summary, next(trial for trial in trials[::-1] if trial.loss <= best + allowed)


def is_steep(theta: Matrix) -> bool:
    """Whether some replication might have no bounded fit: classes are nearly separable."""
    return bool(np.abs(theta[:, 1:]).max(initial=0.0) > _MOST_THETA * 2.0**THETA_BITS)


def rounded(theta: Matrix, coordinates: Coordinates, widths: Vector, bits: int, row: int) -> Matrix:
    """Coefficients with a rounding error as the study's, drawn from coins that it never uses."""
    noise = (_WORTH.uniforms("noise", widths.size, row) - 0.5) * widths / 2**bits
    return on_grid(coordinates.to_theta(coordinates.of_theta(theta) + noise), THETA_BITS)


#: Coins of rounding errors that only say what rounding costs.
_WORTH = Coins("worth after rounding")
