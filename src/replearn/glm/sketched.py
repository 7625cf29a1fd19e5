"""Generalised linear models with a sketch: the original's steps, and the replication's.

An original fits its full model, chooses coordinates and cells from its own rows, and publishes a
few bits about each coded number. A replication fits the same model on its own rows and reads the
sketch. `replearn.glm.recipe` has the bound.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from replearn.codes import Coins
from replearn.documents import decimal_text
from replearn.errors import NotConverged, ReplearnError, Unbounded
from replearn.exact import algebra
from replearn.glm import between as centres
from replearn.glm import newton
from replearn.glm.between import Between, CentreFits
from replearn.glm.coordinates import MOST_IN_TRIANGLE, Coordinates
from replearn.glm.derivatives import MOST_STEERED, form_of, information_at, mean_information
from replearn.glm.influence import Influence, influence_of
from replearn.glm.influence_alone import influence_alone
from replearn.glm.influence_by_class import influence_by_class
from replearn.glm.losses import PROMISED_ROWS, Hazard, Loss
from replearn.glm.newton import Summary, fit
from replearn.glm.recipe import GlmPromise, planned_cells
from replearn.glm.validation import (
    RIDGES,
    Fold,
    Validation,
    best_ridge,
    folds_of,
    held_out_loss,
    untried,
    validate,
)
from replearn.rows import (
    EVERY_ROW,
    MAX_BLOCK,
    MOST_TRIED,
    ROW_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    LevelRows,
    MemoryBlocks,
    Rows,
    add_lower_products,
    column_sums,
    on_grid,
    pieces,
    row_marks,
    sampled,
    squared,
    with_constant,
)
from replearn.types import Ints, Matrix, Vector, is_sparse

#: Pairs of disjoint parts of the original's own rows that check the spread.
N_CHECKS, _MOST_CHECKS = 4, 32
#: Thousands of coefficients tell as much in fewer pairs.
_CHECKS_OF_MANY = 2
#: Parts of the original's rows may differ by this factor more than influences say, in squares.
MOST_INFLATION = 4.0
_LEAST_INFLATION = 0.25
#: Rows of a centre whose own fit shows how centres differ.
LEAST_CENTRE = 50
#: Joint counts below it are not published.
LEAST_COUNT = 10
#: Ridges are compared on so many rows, or so many for each coefficient. More rows would at times
#: choose a weaker ridge; what that is worth was not measured on the same held-out rows.
_LEAST_TRIED, _TRIED_PER_COEFFICIENT = 1 << 15, 128
#: Ridges of the search and originals with some of them, which `RidgeSearch` reports.
N_TICKS = 8
#: Weights of rows in second moments have units of 2^-8.
_MOMENT_BITS = 8
#: Coefficients of originals stay below it, so that those of replications stay below their bound.
_MOST_THETA = 0.75 * newton.MAX_THETA
#: Ridge and widths where there are too few rows to choose them.
_STRONG, _ARBITRARY = "0.1", "3.2"
#: A model may cost this share of its sampling error, 0.5 q/n nats, for a stronger ridge.
_RIDGE_PRICE = 0.1


@dataclass(frozen=True)
class NumberSpread:
    """How much the coded numbers of labs differ."""

    influence: Influence  # of the original's rows
    between: Between  # what centres differ by, however many rows they have
    # how much larger squared differences between parts of the original's own rows were than
    # influences say. Below 1 it makes a proof fair, but no cell narrower.
    inflation: float = 1.0

    def sampling(self, n_here: float, n_there: float, upper: bool = False) -> Vector:
        """Standard deviations of what the rows of two labs alone make differ."""
        factor = self.inflation
        if upper:
            factor = max(1.0, factor)
        return self.influence.differences(n_here, n_there, upper) * math.sqrt(factor)

    @property
    def stated(self) -> tuple[str, ...]:
        """Standard deviation of one row's influence on each number, as a study publishes it."""
        return tuple(map(decimal_text, self.sampling(1.0, math.inf).tolist()))

    @property
    def published(self) -> tuple[Vector, Between]:
        """Spreads of single rows, and what centres differ by, as a reader finds them."""
        texts = list(map(decimal_text, self.between.deviations.tolist()))
        between = Between(np.array(texts, dtype=np.float64), self.between.n_centres)
        return np.array(self.stated, dtype=np.float64), between

    def central(self, n_here: float, n_there: float) -> Vector:
        """Geometric means of what was seen and what cells are planned with.

        A lab knows its own spread only up to an error.
        """
        seen, upper = (self.sampling(n_here, n_there, bound) for bound in (False, True))
        return np.sqrt(seen * upper)


def moments_for(rows: Rows) -> Matrix | Vector:
    """Second moments as coordinates take them: of too many columns for a triangle mean squares."""
    n_columns = rows.n_terms + 1
    if n_columns <= MOST_IN_TRIANGLE:
        return second_moments(rows)

    # exact: 2^14 rows x 2^28 x 2^8
    total, weight = np.zeros(n_columns, dtype=np.int64), 0
    for block in rows.blocks():
        for piece in pieces(block, n_columns):
            masses = _masses(piece)
            squares = squared(with_constant(piece.terms))
            total += column_sums(squares, masses[:, None])[0].astype(np.int64)
            weight += int(masses.sum())
    return total.astype(np.float64) * 2.0 ** (-2 * ROW_BITS) / weight


def second_moments(rows: Rows) -> Matrix:
    """Mean products of encoded columns, the constant first; small joint counts are left out."""
    n_columns = rows.n_terms + 1
    total = np.zeros((n_columns, n_columns), dtype=np.int64)
    n_rows = weight = 0
    for block in rows.blocks():
        n_rows += block.n_rows
        for piece in pieces(block, n_columns):
            weight += _add_moments(total, piece)

    # dense products are made up to the diagonal
    upper = np.triu_indices(n_columns, 1)
    total[upper] = total.T[upper]

    # fewer rows are not published at all
    if n_rows >= PROMISED_ROWS:
        _leave_out_small(total)
    return total.astype(np.float64) * 2.0 ** (-2 * ROW_BITS) / weight


def _add_moments(total: Ints, piece: Block) -> int:
    """Add up weighted products of columns, and return the weight."""
    masses = _masses(piece)

    # products are exact: 2^14 rows x 2^28 x 2^8
    if isinstance(piece.terms, LevelRows):
        numbers = with_constant(piece.terms.numbers)
        piece.terms.add_products(total, numbers, masses, MAX_BLOCK, 1 << ROW_BITS)
        return int(masses.sum())

    X = with_constant(piece.terms)
    if is_sparse(X):
        total += (X.multiply(masses[:, None]).T @ X).toarray().astype(np.int64)
    else:
        add_lower_products(total, X * masses[:, None], X)
    return int(masses.sum())


def _masses(piece: Block) -> Vector:
    """Weights of rows in units of 2^-8."""
    if piece.weights is None:
        return np.full(piece.n_rows, 2.0**_MOMENT_BITS)
    return np.maximum(on_grid(piece.weights, _MOMENT_BITS), 1.0)


def _leave_out_small(total: Ints) -> None:
    """Small joint counts go to the diagonal, so that the matrix stays positive."""
    small = np.abs(total) < LEAST_COUNT << (2 * ROW_BITS + _MOMENT_BITS)
    np.fill_diagonal(small, False)
    total[np.diag_indices(len(total))] += np.where(small, np.abs(total), 0).sum(axis=1)
    total[small] = 0


def spread_of(
    rows: Rows, loss: Loss, ridge: str, theta: Matrix, coordinates: Coordinates, summary: Summary
) -> Influence:
    """Influences of the original's rows on its coordinates."""
    kept = sampled(rows, 2 * MOST_TRIED, salt=3)
    n_rows, weight = summary.n_rows, summary.weight * 2.0**-WEIGHT_BITS
    rate, parts = float(ridge), coordinates.factors
    is_alone = is_sparse(kept.block.terms) and kept.block.groups is None and loss.n_scores == 1
    if is_alone and theta.size > newton.MOST_GUIDED:
        return influence_alone(kept.block, loss, theta, rate, coordinates, n_rows, weight)

    if theta.size > MOST_STEERED and form_of(theta.shape) == "classes":
        sums = information_at(kept.blocks(), loss, theta, EVERY_ROW, "classes")
        return influence_by_class(kept.blocks(), loss, theta, sums, rate, parts(), n_rows, weight)

    sums = information_at(kept.blocks(), loss, theta, EVERY_ROW)
    information = mean_information(sums, loss, rate)
    return influence_of(kept.blocks(), loss, theta, information, parts(), n_rows, weight)


def inflation_of(
    kept: MemoryBlocks,
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
    tolerance_units = newton.near_enough(loss.n_scores * (kept.n_terms + 1))
    n_least = N_CHECKS if tolerance_units == newton.NEAR_ENOUGH else _CHECKS_OF_MANY
    n_checks = max(n_least, min(_MOST_CHECKS, int(0.5 / share)))  # small parts are many
    numbers_of = partial(_numbers_of, loss, ridge, coordinates, tolerance_units, guide)
    ratios = []
    for check in range(n_checks):
        place = row_marks(kept.block, salt=10 + check) * 2.0**-32
        one, other = (
            numbers_of(kept.block.part(part)) for part in (place < share, place >= 1.0 - share)
        )
        if one is not None and other is not None:
            (z, n), (z_other, m) = one, other
            ratios.append(((z - z_other) / influence.differences(n, m, upper=False)) ** 2)
    if tolerance_units == newton.NEAR_ENOUGH:
        return _mean_ratio(ratios)

    # of thousands of columns those behind which most rows stand must not hide among the others
    order = np.argsort(-influence.effective, kind="stable")
    groups = np.array_split(order, max(1, order.size // MOST_IN_TRIANGLE))
    return max(_mean_ratio([ratio[group] for ratio in ratios]) for group in groups)


def _numbers_of(
    loss: Loss,
    ridge: str,
    coordinates: Coordinates,
    tolerance_units: int,
    guide: newton.Guide,
    part: Block,
    least_rows: int = 1,
) -> tuple[Vector, int] | None:
    """Numbers that some rows alone would have, and how many they are; None of too few rows."""
    if part.n_rows < least_rows:
        return None
    rows = MemoryBlocks(part)
    summary = Summary.of(rows, loss)
    if not loss.is_enough(summary.shares):
        return None
    theta = fit(rows, loss, ridge, summary, tolerance_units, guide)
    return coordinates.of_theta(theta), part.n_rows


def _mean_ratio(ratios: list[Vector]) -> float:
    """Of squared differences to their expectations; few small ones are believed less."""
    if not ratios:  # parts as small as the smallest lab have no model
        return 2 * MOST_INFLATION

    squares = np.concatenate(ratios)
    total, size = algebra.total(squares), squares.size
    if total >= size:
        return total / size
    return max(_LEAST_INFLATION, (total + 8) / (size + 8))


def widths_of(spread: NumberSpread, promise: GlmPromise) -> tuple[str, ...]:
    """Widths of cells, as published: three digits, rounded upwards."""
    if promise.n_here < PROMISED_ROWS:
        return (_ARBITRARY,) * spread.influence.variance.size

    upper = spread.sampling(promise.n_here, promise.n_there, upper=True)
    # sizes of centres follow from the published numbers, from which a replication computes them
    factor, size = planned_cells(promise, *spread.published)
    widths = factor * spread.between.with_sampling(upper, size)
    return tuple(decimal_text(1.005 * width, 3) for width in widths)


@dataclass(frozen=True)
class RidgeFit:
    """A whole original with one ridge: fit, coordinates, spread and cells, and what it is worth."""

    validation: Validation  # without rounding
    theta: Matrix  # the fit of all rows, in whole units
    coordinates: Coordinates
    spread: NumberSpread
    centre_fits: CentreFits | None
    widths: tuple[str, ...]
    folds: tuple[Fold, ...]  # the same fits with a rounding error as the study's
    loss: float  # held out, after rounding

    def with_cells(self, promise: GlmPromise, loss: Loss) -> "RidgeFit":
        """The same fit in cells of its own spread, and what rounding makes of it."""
        widths = widths_of(self.spread, promise)
        sizes = np.array(widths, dtype=np.float64)

        folds = []
        for number, fold in enumerate(self.validation.folds):
            if fold.theta is not None:
                theta = rounded(fold.theta, self.coordinates, sizes, promise.bits, number)
                folds.append(replace(fold, theta=theta))
        held_out = held_out_loss(folds, loss)
        return replace(self, widths=widths, folds=tuple(folds), loss=held_out)


def _between(
    promise: GlmPromise,
    coordinates: Coordinates,
    influence: Influence,
    inflation: float,
    fits: CentreFits | None,
    numbers: Vector,
) -> Between:
    """Differences between centres: none, as they are stated, or as the table's centres show."""
    if not any(promise.between):
        return Between.none(influence.variance.size)
    if fits is None or len(fits.names) < 2:
        return centres.assumed(coordinates, promise.between)
    variance = influence.variance * max(1.0, inflation)
    return centres.learned(fits, variance, coordinates, numbers)


def centre_fits(
    kept: MemoryBlocks, loss: Loss, ridge: str, coordinates: Coordinates, guide: newton.Guide
) -> CentreFits | None:
    """The fit of each centre alone, as if it replicated; None if the table names no centres."""
    block = kept.block
    if block.centres is None:
        return None

    numbers_of = partial(_numbers_of, loss, ridge, coordinates, newton.NEAR_ENOUGH, guide)
    names, fits, without = [], [], []
    for name in sorted(set(block.centres.tolist()) - {""}):
        alone = None
        with suppress(Unbounded, NotConverged):  # it may have no bounded fit of its own
            alone = numbers_of(block.part(block.centres == name), LEAST_CENTRE)
        if alone is None:
            without.append(name)
        else:
            names.append(name)
            fits.append(alone)

    numbers, sizes = (np.array([fit[i] for fit in fits], dtype=np.float64) for i in (0, 1))
    return CentreFits(tuple(names), numbers, sizes, tuple(without))


@dataclass
class RidgeSearch:
    """The choice of a ridge: what it is made on, what is tried, and what could not be tried.

    By default it is the strongest one whose held-out loss, after rounding, is as good as the best
    up to a tenth of the sampling error of the smallest lab.
    """

    rows: Rows
    loss: Loss
    promise: GlmPromise
    tick: Callable[[], None]  # is called after each of the steps that take long: about `N_TICKS`
    summary: Summary
    kept: MemoryBlocks  # a sample of the rows
    folds: tuple[Fold, ...]
    best: Validation  # without rounding
    is_given: bool  # no other ridge is tried
    left_out: list[str]
    unbounded: ReplearnError = field(
        default_factory=lambda: Unbounded(
            "rows must allow a bounded fit of each of their parts, but some column nearly "
            "separates the classes. Leave it out."
        )
    )

    @classmethod
    def of(
        cls,
        rows: Rows,
        loss: Loss,
        promise: GlmPromise,
        ridge: str | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> "RidgeSearch":
        """With the ridge that is best without rounding; or with the one that is given."""
        summary = Summary.of(rows, loss).check(loss)
        n_coefficients = loss.n_scores * (rows.n_terms + 1)
        least = _LEAST_TRIED
        if isinstance(loss, Hazard):  # a person has a row in each interval, and one event at most
            least *= len(loss.cuts) + 1
        n_tried = min(MOST_TRIED, max(least, _TRIED_PER_COEFFICIENT * n_coefficients))
        kept = sampled(rows, n_tried, salt=4)
        folds = folds_of(kept, loss)

        # few rows choose no ridge
        if summary.n_rows < PROMISED_ROWS:
            folds, ridge = (Fold(kept, kept.block, summary),), ridge or _STRONG
        if ridge is None:
            best = best_ridge(kept, folds, loss, tick)
        else:
            best = validate(kept, folds, loss, ridge)
        parts = summary, kept, folds, best, ridge is not None
        return cls(rows, loss, promise, tick, *parts, left_out=list(best.untried))

    def original(self) -> RidgeFit:
        """A whole original with the chosen ridge."""
        if self.is_given:
            return self.fit_with_ridge(self.best)

        # 1 the best ridge, and stronger ones that cost no more than allowed
        price = _RIDGE_PRICE * 0.5 * self.loss.n_scores * (self.rows.n_terms + 1)
        allowed = price / min(self.promise.n_there, self.summary.n_rows)
        candidates = self.no_worse(allowed)
        most = min(validation.loss for validation in candidates) + allowed

        # 2 the strongest of them that costs no more after rounding either
        ridge_fits: list[RidgeFit] = []
        for validation in candidates[::-1]:
            ridge_fit = self.bounded(validation)
            self.tick()
            if ridge_fit is None:
                continue
            ridge_fits.insert(0, ridge_fit)
            if ridge_fit.loss <= most:
                break

        # 3 rounding costs more than that, or no fit is bounded: stronger ones cost no more, maybe
        else:
            for validation in self.stronger(candidates[-1]):
                ridge_fit = self.bounded(validation)
                if ridge_fit is not None:
                    ridge_fits.append(ridge_fit)
                    if ridge_fit.loss > _least_loss(ridge_fits) + allowed:
                        break
        if not ridge_fits:
            raise self.unbounded

        most = _least_loss(ridge_fits) + allowed
        chosen = next(ridge_fit for ridge_fit in ridge_fits[::-1] if ridge_fit.loss <= most)
        untried = tuple(self.left_out)
        return replace(chosen, validation=replace(chosen.validation, untried=untried))

    @cached_property
    def moments(self) -> Matrix | Vector:
        """Second ones, of all rows."""
        return moments_for(self.rows)

    def fit_with_ridge(self, validation: Validation) -> RidgeFit:
        """An original with the ridge of a validation."""
        ridge, loss, n_rows = validation.ridge, self.loss, self.summary.n_rows
        # from the start, as a replication does
        theta = fit(self.rows, loss, ridge, self.summary)
        information = loss.information(self.summary.shares)
        coordinates = Coordinates.of(information, self.moments, float(ridge))
        influence = spread_of(self.rows, loss, ridge, theta, coordinates, self.summary)

        # how parts of these rows differ, and centres: few rows cannot tell
        inflation, fits = 1.0, None
        if n_rows >= PROMISED_ROWS:
            about = loss, ridge, coordinates
            smallest, guide = self.promise.n_there, validation.guide
            inflation = inflation_of(self.kept, *about, influence, smallest, guide)
            many = self.kept
            if many.block.centres is not None:  # more rows show better how centres differ
                many = sampled(self.rows, MOST_TRIED, salt=4)
            fits = centre_fits(many, *about, guide)

        # cells of what is known about the spread
        numbers = coordinates.of_theta(theta)
        between = _between(self.promise, coordinates, influence, inflation, fits, numbers)
        spread = NumberSpread(influence, between, inflation)
        bare = RidgeFit(validation, theta, coordinates, spread, fits, (), (), math.inf)
        return bare.with_cells(self.promise, loss)

    def bounded(self, validation: Validation) -> RidgeFit | None:
        """The original with a ridge; None if it, or a part of the rows, has no bounded fit."""
        try:
            ridge_fit = self.fit_with_ridge(validation)
        except (Unbounded, NotConverged) as error:
            self._leave_out(validation.ridge, error)
            return None
        return None if is_steep(ridge_fit.theta) else ridge_fit

    def no_worse(self, allowed: float) -> list[Validation]:
        """The best one, and stronger ones whose held-out loss is at most so much larger."""
        candidates, least = [self.best], self.best.loss
        for validation in self.stronger(self.best):
            # whole decades were compared before; one between them may be better
            least = min(least, validation.loss)
            if validation.loss > least + allowed:
                break
            candidates.append(validation)
        return [validation for validation in candidates if validation.loss <= least + allowed]

    def stronger(self, validation: Validation) -> Iterator[Validation]:
        """Validations with stronger and stronger ridges."""
        for ridge in RIDGES[: RIDGES.index(validation.ridge)][::-1]:
            try:
                validation = validate(self.kept, self.folds, self.loss, ridge, validation.guide)
            except (Unbounded, NotConverged) as error:
                self._leave_out(ridge, error)
                continue
            yield validation

    def _leave_out(self, ridge: str, error: ReplearnError) -> None:
        """An unbounded fit is what weak ridges have; one that did not converge must be told."""
        self.unbounded = error
        if isinstance(error, NotConverged):
            self.left_out.append(untried(ridge, error))


def _least_loss(ridge_fits: list[RidgeFit]) -> float:
    return min(ridge_fit.loss for ridge_fit in ridge_fits)


def is_steep(theta: Matrix) -> bool:
    """Whether some replication might have no bounded fit: classes are nearly separable."""
    return bool(np.abs(theta[:, 1:]).max(initial=0.0) > _MOST_THETA * 2.0**THETA_BITS)


def rounded(theta: Matrix, coordinates: Coordinates, widths: Vector, bits: int, row: int) -> Matrix:
    """Coefficients with a rounding error as the study's, drawn from coins that it never uses."""
    noise = (_WORTH.uniforms("noise", widths.size, row) - 0.5) * widths / 2**bits
    return on_grid(coordinates.to_theta(coordinates.of_theta(theta) + noise), THETA_BITS)


#: Coins of rounding errors that only say what rounding costs.
_WORTH = Coins("worth after rounding")
