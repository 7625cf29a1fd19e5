"""Do a lab's rows support a given model? A score test with all of its rows.

Once the model is known, nothing limits the power of a test but the rows. At the model the gradient
of a lab's loss has the mean 0 if its patients follow the model, and a covariance that the model
itself predicts. To it comes what the original's own error and the difference between centres add:

    ``V = (1 + n / n_original) phi B + H S H``,

B the covariance of the gradient, phi the dispersion, H the information with the ridge, S the
covariance between centres. ``Q = g' V^-1 g`` is about chi-square. Where events are few its variance
is larger than that of a chi-square by the fourth cumulants of the rows, ``sum_i (x_i' V^-1 x_i)^2
kappa_i``, which the model predicts too; so Q is compared with the chi-square of its own mean and
variance. Counted in tests/theory/test_support.py.

Where the truth of this centre may lie far from the model, B and H are those at its most likely
place, the best linear prediction, and g is the gradient continued from there to the model. At the
model itself, scores would change by more than linear terms say: of honest centres with 1% events
a third had p < 0.05.

Beyond 600 coefficients the constants and the size of all slopes are tested alone. The size has a
mean, too: slopes that were fitted to noise are too large elsewhere, and the gradient along them is
``n / n_original`` for each effective coefficient. What that explains contradicts no model.

What differs in one direction is lost among many, all the more since centres differ in each. So
three directions count by themselves, too: the constants, or base risk; the size of all slopes, or
calibration slope, which is that of a centre whose columns were permuted; and the column with the
smallest p, times the columns that are known well enough. The harmonic mean of all p-values counts
(Wilson 2019). Where few events stand behind a direction the tail of its step is not normal: it
counts in Q alone.

Slopes have one variance between centres, the mean of what a study states: then no order of columns
changes Q. Where that variance was learned from few centres, F takes the place of chi-square, as
Student's law takes that of the normal one in `replearn.codes.stability`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replearn.glm.between import Between
from replearn.glm.coordinates import Coordinates
from replearn.glm.derivatives import over_scores
from replearn.glm.losses import Loss, means_of, own_pairs
from replearn.glm.newton import MAX_THETA
from replearn.rows import (
    MOST_TRIED,
    ROW_BITS,
    THETA_BITS,
    Block,
    Rows,
    on_grid,
    pieces,
    sampled,
    scores,
    squared,
    with_constant,
)
from replearn.types import Array, Matrix, Vector, is_sparse

#: Coefficients beyond which only the constants and the size of the slopes are tested.
MOST_TESTED = 600
#: Coefficients for each row of the original that its overfitting is computed for, at most.
_MOST_LEVERAGE = 0.9
#: Beyond so many, overfitting moves constants, too, by what is not known: they are not tested.
_CONSTANTS_TOLD = 0.1
#: Information and variance of a column that a lab does not have.
_ABSENT = 1e-9
#: Changes of scores: one that changes their curvature by a tenth at most; the longest one that is
#: made at once, because steps at rare events lead too far; and how many are made.
_LINEAR, _FAR, _MOST_MOVES = 0.1, 1.0, 12
#: Standard error of a coefficient, in encoded units, up to which its column counts by itself: about
#: sixteen events of a level.
_KNOWN = 0.25
#: Weight of the test of all coefficients beside those of single directions; and how much is added
#: to a harmonic mean of p-values.
_OF_ALL, _EXCESS, _TINY = 3.0, 1.1, 1e-300
#: Rounding of published mean squares, relative to these.
_ROUNDED = 0.125
#: Numbers of an array at once.
_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Reference:
    """The model that is tested, and what is known about its own error."""

    loss: Loss
    theta: Matrix  # in whole units, a row for each score, the constant first
    ridge: float
    coordinates: Coordinates
    between: Between
    n_original: float

    @property
    def is_wide(self) -> bool:
        """Whether only the constants and the size of the slopes are tested."""
        return self.theta.size > MOST_TESTED

    @property
    def parameters(self) -> Vector:
        """What is tested: the coefficients, or for wide models constants and factors of 1."""
        theta = self.theta * 2.0**-THETA_BITS
        if self.is_wide:
            theta = np.column_stack([theta[:, 0], np.ones(len(theta))])
        return theta.reshape(-1)

    @property
    def rungs(self) -> tuple[Matrix, Matrix, Matrix]:
        """Directions in which a lab may depart: none, constants, these and the size of slopes."""
        factor, n_scores = self.parameters, len(self.theta)
        width = len(factor) // n_scores
        constants = np.zeros((len(factor), n_scores))
        constants[::width] = np.eye(n_scores)

        factor[::width] = 0.0
        freed = constants
        if factor.any():
            freed = np.column_stack([constants, factor])
        return np.empty((len(factor), 0)), constants, freed


@dataclass(frozen=True)
class ScoreTest:
    """What a lab's rows say about a model.

    Attributes
    ----------
    p_value : float
        Of all coefficients together.
    p_constants : float
        Of the constants alone, given the slopes: of base risks.
    p_slopes : float
        The same whatever the constants: other base risks are allowed.
    p_size : float
        Of the size of all slopes together: of the calibration slope.
    p_factor : float
        The same whatever the constants and the size of all slopes together.
    step : array of shape (n_scores, n_columns)
        This lab's own estimates less the model's, by one Newton step.
    errors : array
        Standard errors of this lab's own estimates, as the model predicts them.
    own_covariance : array
        Of this lab's own estimates.
    covariance : array
        Of ``step``, with the original's error and the difference between centres.
    spreads : array
        Standard deviation of one row's influence on each coded number, as this lab's rows show.
    n_effective : float
        Information about a constant, of the score with the least: about as many rarer outcomes.
    below : float
        Degrees of freedom behind the covariance; infinite unless centres showed it.
    """

    p_value: float
    p_constants: float
    p_slopes: float
    p_size: float
    p_factor: float
    step: Matrix
    errors: Matrix
    own_covariance: Matrix
    covariance: Matrix
    spreads: Vector | None
    n_effective: float
    below: float = math.inf

    def p_of(self, columns: Sequence[int]) -> float:
        """p-value of the coefficients of some columns (1: the first after the constant)."""
        n_columns = self.step.shape[1]
        places = [k * n_columns + j for k in range(len(self.step)) for j in columns]
        step = self.step.reshape(-1)[places]
        square = float(step @ np.linalg.solve(self.covariance[np.ix_(places, places)], step))
        return tail_of(square, len(places), self.below)

    @property
    def of_constants(self) -> tuple[float, ...]:
        """p-value of the constants, if there are events enough."""
        return (self.p_constants,) if self._has_events else ()

    @property
    def of_directions(self) -> tuple[float, ...]:
        """p-values of the size of all slopes, and of the column that differs most (Bonferroni)."""
        if not self._has_events:
            return ()
        known = 1 + np.flatnonzero((self.errors[:, 1:] <= _KNOWN).all(axis=0))
        if not known.size:
            return (self.p_size,)
        least = min(self.p_of([column]) for column in known.tolist())
        return self.p_size, min(1.0, known.size * least)

    @property
    def _has_events(self) -> bool:
        """Whether single directions of a model that is not wide have events enough."""
        return self.spreads is not None and self.n_effective >= _KNOWN**-2

    @property
    def p_all(self) -> float:
        """All coefficients, with what is lost among many: base risk, size, and one column."""
        return combined(self.p_value, *self.of_constants, *self.of_directions)


def combined(p_all: float, *directions: float) -> float:
    """Harmonic mean of p-values, of which that of all coefficients counts three times.

    Unlike the smallest one times their number it costs next to nothing where all are small. Its
    size is up to a fifth above the stated one, for two to 300 coefficients: half of it is taken
    off.
    """
    if not directions:
        return p_all
    inverses = [_OF_ALL / max(p_all, _TINY), *(1.0 / max(p, _TINY) for p in directions)]
    return min(1.0, _EXCESS * (_OF_ALL + len(directions)) / math.fsum(inverses))


def tail_of(square: float, freedom: float, below: float) -> float:
    """Probability of a larger chi-square, or, with a finite freedom ``below``, of its F."""
    from scipy.special import fdtrc, gammaincc

    square = max(square, 0.0)
    if math.isinf(below):
        return float(gammaincc(freedom / 2, square / 2))
    return float(fdtrc(freedom, below, square / freedom))


@dataclass(frozen=True)
class _Place:
    """Rows at some coefficients, and their gradient continued from there to the model's own."""

    reference: Reference
    moments: "_Moments"
    information: Matrix
    sampling: Matrix  # covariance of the gradient from rows alone
    gradient: Vector

    @classmethod
    def of(cls, rows: Rows, reference: Reference, away: Vector) -> "_Place":
        """At coefficients that lie so far away from the model's."""
        theta, here = reference.parameters + away, reference
        if away.any():
            moved = on_grid(theta.reshape(reference.theta.shape), THETA_BITS)
            here = replace(reference, theta=moved)

        moments = _Moments.of(rows, here)
        ridges = moments.weight * _ridges(reference, moments)
        information = moments.information + np.diag(ridges)
        gradient = moments.gradient + ridges * theta - information @ away
        sampling = moments.dispersion(reference.loss) * moments.noise
        return cls(here, moments, information, sampling, gradient)


@dataclass(frozen=True)
class _Compared:
    """The gradient where curvature is measured, and its covariance under the model."""

    place: _Place
    overfitting: "_Overfitting"
    centres: Matrix  # the part that centres differ by
    exact: Matrix
    total: Matrix  # with a little on the diagonal, so that there is an inverse
    inverse: Matrix

    @classmethod
    def of(cls, rows: Rows, reference: Reference) -> "_Compared":
        """Curvature is that where the truth of this centre most likely lies."""
        prior, theta = _prior(reference), reference.parameters
        ratio, away = rows.n_rows / reference.n_original, np.zeros(theta.size)
        for _ in range(_MOST_MOVES):
            place = _Place.of(rows, reference, away)
            overfitting = _Overfitting.of(place.moments, reference, ratio)

            information, sampling = place.information, place.sampling
            centres = information @ prior @ information
            exact = (1.0 + ratio) * sampling + centres + np.diag(overfitting.variance)
            total = exact + 1e-9 * np.diag(np.diagonal(exact)) + _ABSENT * np.eye(len(exact))
            inverse: Matrix = np.asarray(np.linalg.inv(total), dtype=np.float64)

            # best linear prediction of what the model differs by from the truth here
            of_model = prior @ information + ratio * _inverted(information) @ sampling
            likely = theta - of_model @ inverse @ place.gradient
            step = np.clip(likely, -MAX_THETA, MAX_THETA) - theta - away
            change = _change_of_scores(step, place)
            if reference.is_wide or change < _LINEAR:
                break
            away = away + step * min(1.0, _FAR / change)
        return cls(place, overfitting, centres, exact, total, inverse)


@dataclass(frozen=True)
class _Form:
    """A quadratic form of the gradient, beside the chi-square of its own mean and variance."""

    gradient: Vector
    inverse: Matrix
    mean: float
    variance: float
    below: float  # degrees of freedom behind the covariance

    @classmethod
    def of(cls, rows: Rows, compared: _Compared, reference: Reference) -> "_Form":
        """Without the mean that overfitting gives to the gradient."""
        place, inverse = compared.place, compared.inverse
        gradient = place.gradient - np.clip(place.gradient, 0.0, compared.overfitting.mean)

        # a level without a row here has no variance, and counts nothing
        inside = inverse @ compared.exact
        mean = max(float(np.trace(inside)), 1e-9)
        variance = 2.0 * float((inside * inside.T).sum())
        # the original's rows have fourth cumulants, too: those of as many rows, times the ratio^4
        ratio = rows.n_rows / reference.n_original
        variance += (1.0 + ratio**3) * _fourth(rows, place.reference, inverse)

        share = float(np.trace(inverse @ compared.centres)) / mean
        below = _freedom(share, reference.between.n_centres)
        return cls(gradient, inverse, mean, max(variance, 0.5 * mean), below)

    def left(self, allowed: Matrix) -> float:
        """What remains when the gradient may depart in some directions."""
        square = float(self.gradient @ self.inverse @ self.gradient)
        if not allowed.shape[1]:
            return square

        # what the best departure in these directions explains is taken off
        along = allowed.T @ self.inverse
        fitted = np.linalg.lstsq(along @ allowed, along @ self.gradient, rcond=None)[0]
        return square - float((along @ self.gradient) @ fitted)

    def p_of(self, allowed: Matrix) -> float:
        """p-value of what remains."""
        left = self.mean - allowed.shape[1]
        if left < 0.5:  # nothing is left to test
            return 1.0
        freedom = 2.0 * left * self.mean / self.variance
        return tail_of(self.left(allowed) * freedom / left, freedom, self.below)


def score_test(rows: Rows, reference: Reference) -> ScoreTest:
    """Test a model with all rows of a lab."""
    compared, n_rows = _Compared.of(rows, reference), rows.n_rows
    form = _Form.of(rows, compared, reference)
    place, information = compared.place, compared.place.information

    # 1 the rungs: all, whatever the constants, whatever the constants and one factor
    allowed = [information @ free for free in reference.rungs]
    p_value, p_slopes, p_factor = map(form.p_of, allowed)
    n_scores = len(reference.theta)
    p_constants = tail_of(form.left(allowed[0]) - form.left(allowed[1]), n_scores, form.below)
    if compared.overfitting.leverage > _CONSTANTS_TOLD:
        p_value, p_constants = p_slopes, 1.0

    # 2 the lab's own estimates, one step away
    bread = _inverted(information)
    own = bread @ place.sampling @ bread
    # columns of one value follow from the constant: rounding may leave a negative variance
    variances = np.maximum(np.diagonal(own), 0.0)
    errors = np.where(np.diagonal(information) > _ABSENT, np.sqrt(variances), np.inf)

    # 3 what wide models do not have
    p_size, spreads = 1.0, None
    if not reference.is_wide:
        p_size = _p_of_size(compared, allowed, n_rows / reference.n_original, form.below)
        turn = np.kron(*(part.T for part in reference.coordinates.factors()))
        spreads = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", turn, own, turn), 0.0) * n_rows)

    shape = (n_scores, -1)
    return ScoreTest(
        p_value,
        p_constants,
        p_slopes,
        p_size,
        p_factor,
        (-bread @ form.gradient).reshape(shape),
        errors.reshape(shape),
        own,
        bread @ compared.total @ bread,
        spreads,
        float(np.diagonal(information)[:: len(information) // n_scores].min()),
        form.below,
    )


def _p_of_size(compared: _Compared, allowed: Sequence[Matrix], ratio: float, below: float) -> float:
    """p-value of the size of all slopes, whatever the constants.

    Slopes are too large where they were fitted to noise: with e the original's error, the gradient
    along them has the form ``e' H e``, of a known mean.
    """
    place = compared.place
    _, constants, freed = allowed
    if freed.shape[1] == constants.shape[1]:  # no slopes
        return 1.0

    # what constants explain is taken off
    pulled = compared.inverse @ constants
    inner = compared.inverse - pulled @ np.linalg.solve(constants.T @ pulled, pulled.T)
    along = freed[:, -1]
    noise = inner @ place.sampling * ratio
    excess = float(along @ inner @ place.gradient)
    excess -= float(np.clip(excess, 0.0, np.trace(noise)))
    variance = float(along @ inner @ along) + 2.0 * float((noise * noise.T).sum())
    return tail_of(excess**2 / max(variance, _TINY), 1, below)


def _inverted(information: Matrix) -> Matrix:
    """Columns that a lab does not have are left alone."""
    little = 1e-9 * np.diagonal(information) + _ABSENT
    return np.asarray(np.linalg.inv(information + np.diag(little)), dtype=np.float64)


def _change_of_scores(step: Vector, place: _Place) -> float:
    """Root mean square of what a step changes in the scores of rows."""
    width = step.size // len(place.reference.theta)
    constants = float(np.trace(place.information[::width, ::width]))
    return math.sqrt(max(float(step @ place.information @ step), 0.0) / max(constants, _ABSENT))


@dataclass(frozen=True)
class _Overfitting:
    """What slopes that were fitted to noise do to the gradient elsewhere, along each parameter.

    With e the original's error it is the form ``e' H e``, whose mean is ``n / n_original`` for each
    effective slope. Models with few rows for each of them are too sure of themselves: then a row
    that a fit has not seen has a residual ``1 / (1 - h)`` times that of one it has seen.
    """

    mean: Vector
    variance: Vector
    leverage: float  # effective slopes for each row of the original

    @classmethod
    def of(cls, moments: "_Moments", reference: Reference, ratio: float) -> "_Overfitting":
        """Of wide models; others have its variance in each coefficient."""
        if not reference.is_wide:
            nothing = np.zeros(moments.gradient.size)
            return cls(nothing, nothing, 0.0)

        n_effective = moments.effective_slopes(reference)
        leverage = np.minimum(n_effective / reference.n_original, _MOST_LEVERAGE)
        inflation = 1.0 / (1.0 - leverage)
        dispersion: Any = moments.dispersion(reference.loss)
        if reference.loss.by_class:
            surprise = moments.squares / max(moments.predicted, 1e-12)
            dispersion = np.clip(surprise, 1.0, inflation)
        mean = ratio * dispersion * n_effective * inflation
        variance = 2.0 * mean**2 / np.maximum(n_effective, 1.0)
        return cls(mean, variance, float(leverage.max()))


def _ridges(reference: Reference, moments: "_Moments") -> Vector:
    """The ridge of each parameter, as it pulls on rows like these."""
    if reference.is_wide:
        slopes = reference.theta[:, 1:] * 2.0**-THETA_BITS
        pull = reference.ridge * (slopes**2).sum(axis=1)
        return np.column_stack([np.zeros(len(pull)), pull]).reshape(-1)

    # it was fitted to columns as often as the original had them: published are their mean squares,
    # rounded, with the ridge relative to the mean information of a score
    of_scores, of_columns = ((part * part).sum(axis=1) for part in reference.coordinates.factors())
    rounding = of_columns * _ROUNDED
    there = of_columns - reference.ridge / float(of_scores.mean())
    here = moments.second / max(moments.weight, 1e-12)
    there = np.clip(here, np.maximum(there - rounding, 0.0), there + rounding)

    ridges = reference.ridge * here / np.maximum(there, _ABSENT)
    ridges[0] = 0.0
    return np.tile(ridges, len(reference.theta))


def _freedom(share: float, n_centres: int) -> float:
    """Degrees of freedom of the covariance, of which centres have shown a share."""
    if n_centres < 2 or share < 1e-6:
        return math.inf
    return (4 + n_centres - 1) / share**2


def _prior(reference: Reference) -> Matrix:
    """Covariance between centres."""
    n_scores, n_columns = reference.theta.shape
    scores_factor, columns_factor = reference.coordinates.factors()
    variances = (reference.between.deviations**2).reshape(n_scores, n_columns)
    slopes = 0.0
    if n_columns > 1:
        slopes = float(variances[:, 1:].mean())

    if reference.is_wide:  # two parameters a score: the constant, and the size of its slopes
        lengths = (scores_factor**2).sum(axis=0)
        theta = reference.theta * 2.0**-THETA_BITS
        turned = theta[:, 1:] @ columns_factor[1:, 1:]
        size = np.maximum((turned**2).sum(axis=1) * lengths, 1e-12)
        prior = np.column_stack([variances[:, 0] / lengths, slopes / size])
        return np.diag(prior.reshape(-1))

    # from coordinates back to coefficients
    each = np.full((n_scores, n_columns), slopes)
    each[:, 0] = variances[:, 0].mean()
    back = np.kron(*(np.linalg.inv(part).T for part in (scores_factor, columns_factor)))
    return (back * each.reshape(-1)) @ back.T


@dataclass(frozen=True)
class _Piece:
    """Some rows at the model: for each score the columns that its parameters multiply."""

    columns: list[Matrix]
    residual: Matrix
    curvature: Matrix
    means: Matrix
    mass: Vector
    diagonal: Matrix | None = None  # of the information of each score, for wide models

    @classmethod
    def all_of(cls, blocks: Iterator[Block], reference: Reference) -> Iterator["_Piece"]:
        """Piece by piece, so that arrays stay small."""
        for block in blocks:
            for piece in pieces(block, reference.theta.shape[1]):
                yield cls._of(piece, reference)

    @classmethod
    def _of(cls, piece: Block, reference: Reference) -> "_Piece":
        loss, X, mass = reference.loss, with_constant(piece.terms), piece.masses
        eta = scores(X, reference.theta, piece.offset)
        curvature, diagonal = loss.curvature(eta), None
        if reference.is_wide:
            columns = _wide_columns(X, reference.theta)
            curved = curvature[:, own_pairs(loss)] * mass[:, None]
            diagonal = np.asarray(squared(X).T @ curved).T * 4.0**-ROW_BITS
        else:
            dense = X.toarray() if is_sparse(X) else X
            columns = [dense * 2.0**-ROW_BITS] * loss.n_scores

        residual = loss.residual(eta, piece.targets)
        return cls(columns, residual, curvature, means_of(loss, eta), mass, diagonal)


def _wide_columns(X: Any, theta: Matrix) -> list[Matrix]:
    """For each score a column of ones, and the score without its constant."""
    slopes_alone = theta.copy()
    slopes_alone[:, 0] = 0
    slopes = scores(X, slopes_alone, None)
    ones = np.ones(len(slopes))
    return [np.column_stack([ones, of_score]) for of_score in slopes.T]


@dataclass
class _Moments:
    """Sums over rows at the model."""

    gradient: Vector
    information: Matrix
    noise: Matrix
    second: Vector  # weighted squares of the columns
    weight: float
    squares: float  # of residuals, and what the model predicts of them
    predicted: float
    diagonal: Matrix | None = None  # of the information of each score, for wide models

    @classmethod
    def of(cls, rows: Rows, reference: Reference) -> "_Moments":
        """One pass over all rows."""
        size = reference.parameters.size
        width = size // len(reference.theta)
        square = np.zeros((size, size))
        sums = cls(np.zeros(size), square, square.copy(), np.zeros(width), 0.0, 0.0, 0.0)
        if reference.is_wide:
            sums.diagonal = np.zeros(reference.theta.shape)
        for piece in _Piece.all_of(rows.blocks(), reference):
            sums._add(piece, own_pairs(reference.loss))
        return sums

    def _add(self, piece: _Piece, own: Array) -> None:
        n_scores, width = piece.residual.shape[1], self.second.size
        pulls = piece.residual * piece.mass[:, None]
        is_weighted = bool((piece.mass != 1.0).any())

        # information and covariance of the gradient, which differ by weights alone
        for pair, (k, other) in enumerate(zip(*np.triu_indices(n_scores), strict=True)):
            place = slice(k * width, (k + 1) * width), slice(other * width, (other + 1) * width)
            curved = piece.columns[k] * (piece.curvature[:, pair] * piece.mass)[:, None]
            block = curved.T @ piece.columns[other]
            noise = block
            if is_weighted:
                noise = (curved * piece.mass[:, None]).T @ piece.columns[other]
            for matrix, part in ((self.information, block), (self.noise, noise)):
                matrix[place] += part
                if k != other:
                    matrix[place[::-1]] += part.T

        # gradient
        for score, columns in enumerate(piece.columns):
            self.gradient[score * width : (score + 1) * width] += columns.T @ pulls[:, score]

        # what dispersion, presence and overfitting are computed from
        self.second += piece.mass @ piece.columns[0] ** 2
        self.weight += float(piece.mass.sum())
        self.squares += float((pulls * pulls).sum())
        squared = (piece.mass * piece.mass)[:, None]
        self.predicted += float((piece.curvature[:, own] * squared).sum())
        if piece.diagonal is not None and self.diagonal is not None:
            self.diagonal += piece.diagonal

    def effective_slopes(self, reference: Reference) -> Vector:
        """Slopes that rows of the original moved, at most, for each parameter of a wide model.

        ``tr H (H + ridge)^-1`` is at most the same of the diagonals, and at most the rows.
        """
        assert self.diagonal is not None
        slopes = self.diagonal[:, 1:]
        shrinkage = slopes / np.maximum(slopes + self.weight * reference.ridge, 1e-300)
        n_effective = np.minimum(shrinkage.sum(axis=1), reference.n_original)
        return np.column_stack([np.zeros(len(n_effective)), n_effective]).reshape(-1)

    def dispersion(self, loss: Loss) -> float:
        """How much more residuals vary than the model predicts; classes cannot."""
        if loss.by_class or self.predicted <= 0:
            return 1.0
        return max(self.squares / self.predicted, 1e-12)


def _fourth(rows: Rows, reference: Reference, inverse: Matrix) -> float:
    """What fourth cumulants of the rows add to the variance of the quadratic form."""
    kept = sampled(rows, MOST_TRIED // len(reference.theta), salt=5)
    lower: Matrix = np.asarray(np.linalg.cholesky((inverse + inverse.T) / 2), dtype=np.float64)
    total, n_seen = 0.0, 0
    for piece in _Piece.all_of(kept.blocks(), reference):
        total += _fourth_of(piece, reference.loss, lower)
        n_seen += len(piece.mass)
    return total * rows.n_rows / max(1, n_seen)


def _fourth_of(piece: _Piece, loss: Loss, lower: Matrix) -> float:
    n_scores, width = piece.residual.shape[1], piece.columns[0].shape[1]
    if n_scores == 1:
        squared = piece.columns[0] @ lower
        lengths = (squared * squared).sum(axis=1) * piece.mass**2
        return float((lengths**2 * _cumulants(piece, loss)).sum())

    # several scores: the squared length of each possible residual, weighted by its probability
    total = 0.0
    step = max(1, _AT_ONCE // (n_scores * lower.shape[1]))
    for start in range(0, len(piece.mass), step):
        part = slice(start, start + step)
        parts = [
            piece.columns[k][part] @ lower[k * width : (k + 1) * width] for k in range(n_scores)
        ]
        turned = np.stack(parts, axis=1) * piece.mass[part, None, None]
        inner = np.einsum("nkq,nlq->nkl", turned, turned)
        total += _class_cumulants(inner, piece.means[part])
    return total


def _class_cumulants(inner: Matrix, means: Matrix) -> float:
    """``E (r' B r)^2 - (tr B W)^2 - 2 tr B W B W`` over rows, r the residual of a random class."""
    n_scores = means.shape[1]
    rest = np.maximum(1.0 - means.sum(axis=1), 0.0)
    shares = np.column_stack([rest, means])

    # each class as it is likely
    fourth = np.zeros(len(means))
    for label in range(n_scores + 1):
        residual = means.copy()
        if label:
            residual[:, label - 1] -= 1.0
        length = np.einsum("nk,nkl,nl->n", residual, inner, residual)
        fourth += shares[:, label] * length * length

    # less what residuals of the same covariance would have if they were normal
    covariance = -means[:, :, None] * means[:, None, :]
    places = np.arange(n_scores)
    covariance[:, places, places] += means
    product = np.einsum("nkl,nlm->nkm", inner, covariance)
    trace = np.einsum("nkk->n", product)
    squared = np.einsum("nkl,nlk->n", product, product)
    return float((fourth - trace**2 - 2.0 * squared).sum())


def _cumulants(piece: _Piece, loss: Loss) -> Vector:
    """Fourth cumulant of each row's residual, as the model predicts it."""
    variance = piece.curvature[:, 0]
    if loss.by_class:
        return variance * (1.0 - 6.0 * variance)
    if loss.link == "log":  # counts, and events of rows at risk
        return variance

    # numbers: what the rows show
    squares = piece.residual[:, 0] ** 2
    mean = float(squares.mean())
    return np.full(len(squares), float((squares * squares).mean()) - 3.0 * mean * mean)


def shift_of(loss: Loss, eta: Matrix, targets: Vector, masses: Vector) -> Vector:
    """What must be added to scores so that they predict the mean outcome: one for each score."""
    n_scores = eta.shape[1]
    shift = np.zeros(n_scores)
    for _ in range(50):
        shifted = eta + shift
        gradient = (loss.residual(shifted, targets) * masses[:, None]).sum(axis=0)
        curvature = (loss.curvature(shifted) * masses[:, None]).sum(axis=0)

        # a little is added, since all outcomes may be the same
        information = over_scores(curvature[:, None, None], n_scores)
        information += 1e-9 * np.eye(n_scores) * (1.0 + np.trace(information))

        step = np.clip(-np.linalg.solve(information, gradient), -2.0, 2.0)
        shift = shift + step
        if float(np.abs(step).max()) < 1e-10 or math.isnan(float(step.sum())):
            break
    return shift
