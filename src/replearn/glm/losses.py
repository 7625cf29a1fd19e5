"""Losses of linear scores: all that a generalised linear model asks about its targets.

A loss is told apart in files by its ``kind``. What a fit uses (residual, curvature, start) has the
same bits on every machine; ``value`` too, since it chooses the ridge.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from replearn.documents import Decimal3, Length, Part, Positive3, Range, Text, Unfit, decimal_text
from replearn.errors import ReplearnError
from replearn.exact import LN2_HI, MAX_SCORE, exp, log, sigmoid, softplus
from replearn.rows import RESIDUAL_BITS, WEIGHT_BITS, on_grid
from replearn.types import Array, Matrix, Vector

#: Counts are at most 2^16: residuals would lose their last bits.
MOST_CAP_BITS = 16
#: Rows below which nothing is promised, and no quantile is published.
PROMISED_ROWS = 50


#: What a study may be asked for: the word of each loss's estimator.
Kind = Literal["logistic", "linear", "poisson", "survival"]


class _Classes(Part):
    """What losses of classes share: scores are log-odds against the first class.

    ``by_class`` says that targets are class numbers. Residuals have units of ``2^-bits``,
    predictions and second derivatives lie between ``predicted`` and ``curvatures``. A prediction
    is the ``link``'s inverse of a score, ``scale`` its units, and ``largest`` the largest score of
    a logarithm. The rest are words.
    """

    by_class = True
    recipe: ClassVar[Kind] = "logistic"
    bits = RESIDUAL_BITS
    least: ClassVar[float | None] = 0.0
    cut = 1.0
    predicted: ClassVar[tuple[int, int]] = (0, 1)
    curvatures: ClassVar[tuple[float, float]] = (0.0, 0.25)
    link = "logit"
    scale: ClassVar[tuple[float, float]] = (1.0, 0.0)
    largest = math.inf
    measure = "log-loss"
    counted = "rows"  # what a fit counts
    ratio = "odds ratio"
    no_model_refusal = (
        "rows must have all classes, but some class has no row. Get rows of each class."
    )
    no_model_message = "no row of some class"

    @property
    def n_scores(self) -> int:
        """One less than the classes."""
        raise NotImplementedError

    def is_enough(self, shares: Vector) -> bool:
        """Whether rows with these shares p of the classes have a model: ``p_k > 0`` for all k."""
        return bool((shares > 0).all())

    def no_model_chance(self, shares: Vector, n_rows: int) -> float:
        """Probability that some class has no row, at most: ``sum_k (1 - p_k)^n``."""
        return min(1.0, float(((1.0 - shares) ** n_rows).sum()))

    def units(self, targets: Any) -> Vector:
        """Targets as a fit takes them."""
        return np.asarray(targets, dtype=np.float64)

    def totals(self, targets: Vector, masses: Any) -> Vector:
        """Weight of each class k: ``sum_i m_i [y_i = k]``."""
        return np.bincount(targets.astype(np.int64), masses, self.n_scores + 1).astype(np.float64)

    def start(self, shares: Vector) -> Vector:
        """Scores of the constant model, ``log(p_k / p_0)`` with the shares p of the classes."""
        return log(shares[1:]) - log(shares[:1])

    def information(self, shares: Vector) -> Matrix:
        """Curvature of the constant model, a matrix over the scores: ``diag(p) - p p'``."""
        return np.diag(shares[1:]) - shares[1:, None] * shares[None, 1:]

    def expected(self, means: Matrix, pulls: list[Matrix]) -> tuple[Matrix, Matrix]:
        """Second and fourth moment of each row's influence if the model is right.

        ``sum_c p_c (a_c - m)^2`` and ``sum_c p_c (a_c - m)^4`` with the pull a_c of class c, none
        for the first, and their mean ``m = sum_c p_c a_c``.

        An original that happens to have no event where some are likely would think itself certain.
        ``means`` are residuals at targets of 0: probabilities of all classes but the first.
        """
        # the mean pull, and the probability of the first class; in place, since pulls are large
        mean, part = np.zeros_like(pulls[0]), np.empty_like(pulls[0])
        first = np.ones(len(means))
        for k, pull in enumerate(pulls):
            mean += np.multiply(means[:, k, None], pull, out=part)
            first = first - means[:, k]
        first = np.maximum(first, 0.0)[:, None]

        # the first class, and then each other one
        square = mean * mean
        second = first * square
        fourth = first * square * square
        for k, pull in enumerate(pulls):
            np.subtract(pull, mean, out=square)
            square *= square
            second += np.multiply(means[:, k, None], square, out=part)
            square *= square
            square *= means[:, k, None]
            fourth += square
        return second, fourth


@dataclass(frozen=True)
class Bernoulli(_Classes):
    """Two classes; the score is the log-odds of the second."""

    kind: Literal["bernoulli"] = "bernoulli"
    n_scores = 1
    title = "logistic regression"
    says = "the probability of {target} = {last}"

    def residual(self, scores: Matrix, targets: Vector) -> Matrix:
        """Derivative of the loss in the score: ``p - y`` with ``p = 1 / (1 + e^-f)``."""
        residual = sigmoid(scores)
        residual -= targets[:, None]
        return residual

    def curvature(self, scores: Matrix) -> Matrix:
        """Second derivative in the score: ``p (1 - p)``."""
        p = sigmoid(scores)
        return p * (1.0 - p)

    def value(self, scores: Matrix, targets: Vector) -> Vector:
        """Loss of each row, in nats: ``log(1 + e^f) - y f``."""
        return softplus(scores[:, 0]) - targets * scores[:, 0]

    def information(self, shares: Vector) -> Matrix:
        """Curvature of the constant model, ``p (1 - p)`` with the share p of the second class."""
        return np.array([[shares[1] * (1.0 - shares[1])]])

    def mean(self, scores: Matrix) -> Matrix:
        """Probability of each class: ``1 - p`` and ``p = 1 / (1 + e^-f)``."""
        with np.errstate(over="ignore"):  # a score of -800 has the probability 0
            positive = 1.0 / (1.0 + np.exp(-scores[:, 0]))
        return np.column_stack([1.0 - positive, positive])


@dataclass(frozen=True)
class Multinomial(_Classes):
    """Three classes or more; scores are log-odds against the first class."""

    n_classes: int
    kind: Literal["multinomial"] = "multinomial"
    title = "multinomial logistic regression"
    says = "the probability of each {target}"

    @property
    def n_scores(self) -> int:
        """One less than the classes."""
        return self.n_classes - 1

    def _shares(self, scores: Matrix) -> tuple[Matrix, Vector, Vector]:
        """Probabilities of all classes but the first, the divisor, and the largest score.

        ``p_k = e^(f_k - t) / d`` with ``t = max(0, f_1, f_2, ...)`` and
        ``d = e^-t + sum_k e^(f_k - t)``.
        """
        top = np.maximum(scores.max(axis=1), 0.0)
        powers = scores - top[:, None]
        powers = exp(np.maximum(powers, -2 * MAX_SCORE, out=powers))
        below = exp(np.maximum(-top, -2 * MAX_SCORE))
        # one by one: NumPy's sum may have another order on other machines
        for k in range(self.n_scores):
            below += powers[:, k]
        powers /= below[:, None]
        return powers, below, top

    def residual(self, scores: Matrix, targets: Vector) -> Matrix:
        """Derivative of the loss in each score, at most 1 in size: ``p_k - [y = k]``."""
        residual = self._shares(scores)[0]
        rows = np.flatnonzero(targets)
        residual[rows, targets[rows].astype(np.int64) - 1] -= 1.0
        return residual

    def curvature(self, scores: Matrix) -> Matrix:
        """Second derivatives, a column for each pair of scores (k, l) with k <= l.

        ``p_k ([k = l] - p_l)``
        """
        p = self._shares(scores)[0]
        first, second = np.triu_indices(self.n_scores)
        return p[:, first] * ((first == second) - p[:, second])

    def class_curvature(self, scores: Matrix) -> Matrix:
        """Second derivatives if all classes had scores, the first one too: ``p_k (1 - p_k)``."""
        shares = np.empty((len(scores), self.n_classes), order="F")
        shares[:, 1:] = self._shares(scores)[0]
        first = np.ones(len(shares))
        for k in range(1, self.n_classes):
            first -= shares[:, k]
        np.maximum(first, 0.0, out=shares[:, 0])
        shares *= 1.0 - shares
        return shares

    def value(self, scores: Matrix, targets: Vector) -> Vector:
        """Loss of each row, in nats: ``log(1 + sum_k e^f_k) - f_y``, with ``f_0 = 0``."""
        _, below, top = self._shares(scores)
        columns = np.maximum(targets, 1).astype(np.int64) - 1
        chosen = np.where(targets > 0, scores[np.arange(len(scores)), columns], 0.0)
        return log(below) + top - chosen

    def mean(self, scores: Matrix) -> Matrix:
        """Probability of each class: ``e^f_k / sum_l e^f_l``, with ``f_0 = 0``."""
        every = np.column_stack([np.zeros(len(scores)), scores])
        powers = np.exp(every - every.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


class _Numbers(Part):
    """What losses of numbers share; attributes are those of losses of classes."""

    by_class = False
    n_scores = 1
    counted = "rows"
    ratio = ""
    no_model_refusal = ""
    no_model_message = "no event"

    def is_enough(self, shares: Vector) -> bool:
        """Whether rows with this mean target have a model."""
        return True

    def no_model_chance(self, shares: Vector, n_rows: int) -> float:
        """Probability that so many rows have no model."""
        return 0.0

    def totals(self, targets: Vector, masses: Any) -> Vector:
        """Weighted targets, added up exactly: ``sum_i m_i y_i``."""
        return np.array([np.floor(targets * masses + 0.5).sum()])

    def start(self, shares: Vector) -> Vector:
        """Score of the constant model: the mean target, which ``shares`` holds."""
        return shares.copy()

    def expected(self, means: Matrix, pulls: list[Matrix]) -> tuple[Matrix, Matrix]:
        """Second and fourth moment of each row's influence if targets are normal, of variance 1.

        ``a^2`` and ``3 a^4`` with the pull a.
        """
        square = pulls[0] * pulls[0]
        return square, 3.0 * (square * square)


@dataclass(frozen=True)
class Gaussian(_Numbers):
    """A number, in published units: ``(y - centre) / spread``, cut at 16 units."""

    centre: Decimal3
    spread: Positive3
    kind: Literal["gaussian"] = "gaussian"
    recipe: ClassVar[Kind] = "linear"
    bits = RESIDUAL_BITS - 6  # residuals are at most 64
    least: ClassVar[float | None] = None
    cut = 16.0
    predicted: ClassVar[tuple[int, int]] = (-48, 48)
    curvatures: ClassVar[tuple[float, float]] = (1.0, 1.0)
    link = "identity"
    largest = math.inf
    title = "linear regression"
    says = "the mean of {target}"
    measure = "half the squared error"

    @classmethod
    def of(cls, numbers: Vector) -> "Gaussian":
        """With the units of an original's targets."""
        # 3.29 standard deviations of a normal law lie between its 5% and 95% quantiles
        low, centre, high = np.quantile(numbers, [0.05, 0.5, 0.95]).tolist()
        if len(numbers) < PROMISED_ROWS:  # too few to publish: the ends, whatever is repeated
            low, high = float(numbers.min()), float(numbers.max())
            centre = (low + high) / 2
        spread = (high - low) / 3.29 or float(np.ptp(numbers)) or 1.0
        return cls(decimal_text(centre), decimal_text(spread))

    @property
    def scale(self) -> tuple[float, float]:
        """Spread and centre."""
        return float(self.spread), float(self.centre)

    def units(self, targets: Any) -> Vector:
        """Targets as a fit takes them: ``(y - centre) / spread``, cut, on a grid of 2^-16."""
        units = (targets - float(self.centre)) / float(self.spread)
        cut = np.minimum(np.maximum(units, -self.cut), self.cut)
        return on_grid(cut, WEIGHT_BITS) * 2.0**-WEIGHT_BITS

    def reaching(self, targets: Vector) -> "Gaussian":
        """The same with units in which none of these numbers is cut."""
        reach = float(np.abs(targets - float(self.centre)).max()) / float(self.spread)
        if reach <= self.cut:
            return self
        return Gaussian(self.centre, decimal_text(float(self.spread) * reach / self.cut * 1.006))

    def residual(self, scores: Matrix, targets: Vector) -> Matrix:
        """Derivative of the loss in the score: ``f - y``, with f between -48 and 48."""
        return np.clip(scores, -48.0, 48.0) - targets[:, None]

    def curvature(self, scores: Matrix) -> Matrix:
        """Second derivative: 1."""
        return np.ones_like(scores)

    def value(self, scores: Matrix, targets: Vector) -> Vector:
        """Half the squared error of each row, in units of the spread: ``(f - y)^2 / 2``."""
        error = scores[:, 0] - targets
        return 0.5 * error * error

    def information(self, shares: Vector) -> Matrix:
        """Curvature of the constant model: 1."""
        return np.ones((1, 1))

    def mean(self, scores: Matrix) -> Vector:
        """Predicted number, in the units of the target: ``f spread + centre``."""
        return scores[:, 0] * float(self.spread) + float(self.centre)


@dataclass(frozen=True)
class Poisson(_Numbers):
    """A count, at most ``2^cap_bits``; the score is the logarithm of its mean."""

    cap_bits: Annotated[int, Range(1, MOST_CAP_BITS)]
    kind: Literal["poisson"] = "poisson"
    recipe: ClassVar[Kind] = "poisson"
    least: ClassVar[float | None] = 0.0
    link = "log"
    scale: ClassVar[tuple[float, float]] = (1.0, 0.0)
    title = "Poisson regression"
    says = "the mean count of {target}"
    measure = "half the deviance"
    ratio = "rate ratio"
    no_model_refusal = "counts must not all be zero. Get rows with some events."

    @classmethod
    def of(cls, numbers: Vector) -> "Poisson":
        """With the largest count that an original's targets suggest: at least four times theirs."""
        cap_bits = max(2, math.ceil(math.log2(4 * float(numbers.max()) + 1)))
        if cap_bits > MOST_CAP_BITS:
            raise ReplearnError(
                f"counts must be at most {1 << 14:,}, got larger ones. Use "
                "ReplicableLinearRegressor, or count in larger units."
            )
        return cls(cap_bits)

    @property
    def bits(self) -> int:
        """Residuals are at most 2^cap_bits."""
        return RESIDUAL_BITS - self.cap_bits

    @property
    def cut(self) -> float:
        """The largest count."""
        return float(1 << self.cap_bits)

    @property
    def predicted(self) -> tuple[int, int]:
        """Means are counts."""
        return 0, 1 << self.cap_bits

    @property
    def curvatures(self) -> tuple[float, float]:
        """Those of the means."""
        return 0.0, self.cut

    @property
    def largest(self) -> float:
        """The largest score: ``cap_bits log 2``."""
        return self.cap_bits * LN2_HI

    def is_enough(self, shares: Vector) -> bool:
        """Whether rows with this mean count have a model: it is positive."""
        return bool(shares[0] > 0)

    def no_model_chance(self, shares: Vector, n_rows: int) -> float:
        """Probability that so many rows have no model, as all counts are 0: ``e^(-n mean)``."""
        return math.exp(-float(shares[0]) * n_rows)

    def units(self, targets: Any) -> Vector:
        """Targets as a fit takes them: ``min(y, cut)``."""
        return np.minimum(targets, self.cut)

    def _rate(self, scores: Matrix) -> Matrix:
        """The mean count ``e^f``, at most the largest count."""
        return exp(np.clip(scores, -MAX_SCORE, self.largest))

    def residual(self, scores: Matrix, targets: Vector) -> Matrix:
        """Derivative of the loss in the score: ``e^f - y``."""
        return self._rate(scores) - targets[:, None]

    def curvature(self, scores: Matrix) -> Matrix:
        """Second derivative: the mean ``e^f``."""
        return self._rate(scores)

    def value(self, scores: Matrix, targets: Vector) -> Vector:
        """Half the deviance of each row, without the part that depends on the count alone.

        ``e^f - y f``
        """
        return self._rate(scores)[:, 0] - targets * scores[:, 0]

    def least_value(self, targets: Vector) -> Vector:
        """The value at a mean of y, which a deviance is counted from: ``y - y log y``."""
        return targets - targets * np.log(np.maximum(targets, 1e-300))

    def start(self, shares: Vector) -> Vector:
        """Score of the constant model: the logarithm of the mean count, which ``shares`` holds."""
        return log(shares)

    def information(self, shares: Vector) -> Matrix:
        """Curvature of the constant model: the mean count."""
        return shares[:, None].copy()

    def expected(self, means: Matrix, pulls: list[Matrix]) -> tuple[Matrix, Matrix]:
        """Second and fourth moment of each row's influence if counts have these means mu.

        ``mu a^2`` and ``mu a^4`` with the pull a.
        """
        square = pulls[0] * pulls[0]
        return means * square, means * square * square

    def mean(self, scores: Matrix) -> Vector:
        """Predicted count: ``e^f``, at most the largest one."""
        return np.exp(np.minimum(scores[:, 0], self.largest))


@dataclass(frozen=True)
class Hazard(Poisson):
    """Events of rows at risk, in intervals that end at the cuts; the score is a log-hazard."""

    time: Annotated[str, Text()] = ""  # columns of a lab's table
    event: Annotated[str, Text()] = ""
    cuts: Annotated[tuple[Positive3, ...], Length(0, 100)] = ()
    kind: Literal["hazard"] = "hazard"  # type: ignore[assignment]
    recipe: ClassVar[Kind] = "survival"
    title = "piecewise exponential survival model"
    says = "the hazard of {target}"
    ratio = "hazard ratio"
    # a person has one in each interval of time
    counted = "rows at risk"
    no_model_refusal = "some event must have been seen. Get rows with events."

    def check(self) -> None:
        """Cuts must increase."""
        ends = [float(cut) for cut in self.cuts]
        if sorted(set(ends)) != ends:
            raise Unfit(f"cuts must increase, got {self.cuts}")


Loss = Bernoulli | Multinomial | Gaussian | Poisson | Hazard


def own_pairs(loss: Loss) -> Array:
    """Places of the curvatures of each score with itself among those of all pairs of scores."""
    return np.flatnonzero(np.equal(*np.triu_indices(loss.n_scores)))


def means_of(loss: Loss, scores: Matrix) -> Matrix:
    """What is expected of targets, of all classes but the first: residuals at targets of 0."""
    return loss.residual(scores, np.zeros(len(scores)))


def loss_of(kind: Kind, classes: tuple[Any, ...] | None, targets: Vector) -> Loss:
    """The loss of a study, with the units that its targets have."""
    if classes is not None:
        if len(classes) == 2:
            return Bernoulli()
        return Multinomial(len(classes))

    return loss_of_numbers(kind).of(targets)


def loss_of_numbers(kind: Kind) -> type[Gaussian] | type[Poisson]:
    """The loss whose estimator has this word; rows at risk are counts."""
    of_numbers: dict[str, type[Gaussian] | type[Poisson]] = {"linear": Gaussian}
    return of_numbers.get(kind, Poisson)
