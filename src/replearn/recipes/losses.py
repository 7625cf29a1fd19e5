"""Bernoulli, Multinomial, Gaussian and Poisson losses of linear scores.

A loss is told apart in files by its ``kind``. What a fit uses (residual, curvature, start) has the
same bits on every machine; ``value`` too, since it chooses the ridge.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from replearn.documents import Decimal3, Part, Positive3
from replearn.exact.elementary import LN2_HI, MAX_SCORE, exp, log, sigmoid, softplus
from replearn.exact.rows import RESIDUAL_BITS
from replearn.types import Matrix, Vector


@dataclass(frozen=True)
class Bernoulli(Part):
    """Two classes; the score is the log-odds of the second."""

    kind: Literal["bernoulli"] = "bernoulli"
    n_scores: ClassVar[int] = 1
    bits: ClassVar[int] = RESIDUAL_BITS

    def residual(self, scores: Matrix, targets: Vector) -> Matrix:
        """Derivative of the loss in each score, at most 1 in size."""
        return sigmoid(scores) - targets[:, None]

    def curvature(self, scores: Matrix) -> Matrix:
        """Second derivatives, a column for each pair of scores (k, l) with k <= l."""
        p = sigmoid(scores)
        return p * (1.0 - p)

    def value(self, scores: Matrix, targets: Vector) -> Vector:
        """Loss of each row, in nats."""
        return softplus(scores[:, 0]) - targets * scores[:, 0]

    def start(self, shares: Vector) -> Vector:
        """Scores of the constant model; ``shares`` are those of the classes."""
        return log(shares[1:]) - log(shares[:1])

    def information(self, shares: Vector) -> Matrix:
        """Curvature of the constant model, a matrix over the scores."""
        return np.array([[shares[1] * (1.0 - shares[1])]])

    def mean(self, scores: Matrix) -> Matrix:
        """Probability of each class."""
        with np.errstate(over="ignore"):  # a score of -800 has the probability 0
            positive = 1.0 / (1.0 + np.exp(-scores[:, 0]))
        return np.column_stack([1.0 - positive, positive])


@dataclass(frozen=True)
class Multinomial(Part):
    """Three classes or more; scores are log-odds against the first class."""

    n_classes: int
    kind: Literal["multinomial"] = "multinomial"
    bits: ClassVar[int] = RESIDUAL_BITS

    @property
    def n_scores(self) -> int:
        """One less than the classes."""
        return self.n_classes - 1

    def _shares(self, scores: Matrix) -> tuple[Matrix, Vector, Vector]:
        """Probabilities of all classes but the first, the divisor, and the largest score."""
        top = np.maximum(scores.max(axis=1), 0.0)
        powers = exp(np.maximum(scores - top[:, None], -2 * MAX_SCORE))
        below = exp(np.maximum(-top, -2 * MAX_SCORE))
        for k in range(self.n_scores):
            below = below + powers[:, k]
        return powers / below[:, None], below, top

    def residual(self, scores: Matrix, targets: Vector) -> Matrix:
        """Derivative of the loss in each score, at most 1 in size."""
        classes = np.arange(1, self.n_classes)
        return self._shares(scores)[0] - (targets[:, None] == classes)

    def curvature(self, scores: Matrix) -> Matrix:
        """Second derivatives, a column for each pair of scores (k, l) with k <= l."""
        p = self._shares(scores)[0]
        first, second = np.triu_indices(self.n_scores)
        return p[:, first] * ((first == second) - p[:, second])

    def value(self, scores: Matrix, targets: Vector) -> Vector:
        """Loss of each row, in nats."""
        _, below, top = self._shares(scores)
        chosen = np.where(
            targets > 0,
            scores[np.arange(len(scores)), np.maximum(targets, 1).astype(np.int64) - 1],
            0.0,
        )
        return log(below) + top - chosen

    def start(self, shares: Vector) -> Vector:
        """Scores of the constant model."""
        return log(shares[1:]) - log(shares[:1])

    def information(self, shares: Vector) -> Matrix:
        """Curvature of the constant model, a matrix over the scores."""
        return np.diag(shares[1:]) - shares[1:, None] * shares[None, 1:]

    def mean(self, scores: Matrix) -> Matrix:
        """Probability of each class."""
        every = np.column_stack([np.zeros(len(scores)), scores])
        powers = np.exp(every - every.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


@dataclass(frozen=True)
class Gaussian(Part):
    """A number, in published units: ``(y - centre) / spread``, cut at 16 units."""

    centre: Decimal3
    spread: Positive3
    kind: Literal["gaussian"] = "gaussian"
    n_scores: ClassVar[int] = 1
    bits: ClassVar[int] = RESIDUAL_BITS - 6  # residuals are at most 64
    cut: ClassVar[float] = 16.0

    def residual(self, scores: Matrix, targets: Vector) -> Matrix:
        """Derivative of the loss in the score."""
        return np.clip(scores, -48.0, 48.0) - targets[:, None]

    def curvature(self, scores: Matrix) -> Matrix:
        """Second derivative: 1."""
        return np.ones_like(scores)

    def value(self, scores: Matrix, targets: Vector) -> Vector:
        """Half the squared error of each row, in units of the spread."""
        error = scores[:, 0] - targets
        return 0.5 * error * error

    def start(self, shares: Vector) -> Vector:
        """The constant model; ``shares`` holds the mean target."""
        return shares.copy()

    def information(self, shares: Vector) -> Matrix:
        """Curvature of the constant model."""
        return np.ones((1, 1))

    def mean(self, scores: Matrix) -> Vector:
        """Predicted number, in the units of the target."""
        return scores[:, 0] * float(self.spread) + float(self.centre)


@dataclass(frozen=True)
class Poisson(Part):
    """A count, at most ``2^cap_bits``; the score is the logarithm of its mean."""

    cap_bits: int
    kind: Literal["poisson"] = "poisson"
    n_scores: ClassVar[int] = 1

    @property
    def bits(self) -> int:
        """Residuals are at most 2^cap_bits."""
        return RESIDUAL_BITS - self.cap_bits

    @property
    def cut(self) -> float:
        """The largest count."""
        return float(1 << self.cap_bits)

    def _rate(self, scores: Matrix) -> Matrix:
        return exp(np.clip(scores, -MAX_SCORE, self.cap_bits * LN2_HI))

    def residual(self, scores: Matrix, targets: Vector) -> Matrix:
        """Derivative of the loss in the score."""
        return self._rate(scores) - targets[:, None]

    def curvature(self, scores: Matrix) -> Matrix:
        """Second derivative: the mean."""
        return self._rate(scores)

    def value(self, scores: Matrix, targets: Vector) -> Vector:
        """Half the deviance of each row, without the part that depends on the count alone."""
        return self._rate(scores)[:, 0] - targets * scores[:, 0]

    def start(self, shares: Vector) -> Vector:
        """The constant model; ``shares`` holds the mean count."""
        return log(shares)

    def information(self, shares: Vector) -> Matrix:
        """Curvature of the constant model."""
        return shares[:, None].copy()

    def mean(self, scores: Matrix) -> Vector:
        """Predicted count."""
        return np.exp(np.minimum(scores[:, 0], self.cap_bits * LN2_HI))


Loss = Bernoulli | Multinomial | Gaussian | Poisson
