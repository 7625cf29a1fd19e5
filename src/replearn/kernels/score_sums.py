"""Exact sums of logistic scores and their moments: merged by addition, read as means."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from replearn.types import IntegerArray, Matrix, Vector

#: A term of one unit, in quanta.
QUANTA = 2**51
#: The unit of a loss: none exceeds 701 nats.
LOSS_UNIT = 1024.0
#: A sum is ``hi * 2^40 + lo``.
LIMB = 40
#: Weights of all rows together: beyond it, sums could leave their limbs.
MAX_TOTAL_WEIGHT = 2**50
#: Bits of the lower limb.
LOW = np.int64(2**LIMB - 1)


class Parts(NamedTuple):
    """Which sums are made, beside those of the score."""

    fisher: bool
    second: bool
    loss: bool


@dataclass(frozen=True)
class ScoreSums:
    """Sums over rows, in whole numbers; ``+`` merges those of two sets of rows.

    Attributes
    ----------
    n_rows, n_zero, n_capped, n_cut : int
        Rows; rows of zeros only; rows longer than the cap; rows with a projection beyond its
        unit, which was cut to it (none, if units come from ``projection_units``).
    class_weights : int64 array of shape (n_classes,)
        Sum of the weights of each class; without weights, its number of rows.
    units : float64 array of shape (q,)
        Powers of two; that of the intercept is 1.
    parts : Parts
    limbs : int64 array of shape (2, n_sums)
        ``hi`` and ``lo`` of every sum, ``0 <= lo < 2^40``: the score (C, q), then the Fisher
        information and the second moments (pairs of outputs, pairs of coordinates), the loss.
    squares : int or None
        Sum of the squared weights; None: no row has a weight, all count as 1.
    heaviest : int
        Largest weight.
    """

    n_rows: int
    n_zero: int
    n_capped: int
    n_cut: int
    class_weights: IntegerArray
    units: Vector
    parts: Parts
    limbs: IntegerArray
    squares: int | None = None
    heaviest: int = 1

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        """The sums of both sets of rows; order and grouping do not matter."""
        if (
            self.limbs.shape != other.limbs.shape
            or self.class_weights.size != other.class_weights.size
            or self.parts != other.parts
            or (self.squares is None) != (other.squares is None)
            or not np.array_equal(self.units, other.units)
        ):
            raise ValueError(
                "Sums can be added if they have the same classes, directions, units and parts, "
                f"got {self._kind()} and {other._kind()}. Make both from one protocol."
            )
        return ScoreSums(
            self.n_rows + other.n_rows,
            self.n_zero + other.n_zero,
            self.n_capped + other.n_capped,
            self.n_cut + other.n_cut,
            self.class_weights + other.class_weights,
            self.units,
            self.parts,
            merged_limbs(self.limbs, other.limbs),
            None if self.squares is None or other.squares is None else self.squares + other.squares,
            max(self.heaviest, other.heaviest),
        )

    def with_weight(self, weight: int) -> "ScoreSums":
        """Sums of the same rows, which have no weights yet, each of this one."""
        return replace(
            self,
            class_weights=self.class_weights * weight,
            limbs=_limbs([weight * number for number in self.integers()]),
            squares=self.n_rows * weight**2,
            heaviest=weight,
        )

    @classmethod
    def from_integers(
        cls,
        integers: Sequence[int],
        n_rows: int,
        n_zero: int,
        n_capped: int,
        n_cut: int,
        class_weights: IntegerArray,
        units: Vector,
        parts: Parts,
    ) -> "ScoreSums":
        """The sums that ``integers`` were of; refuses numbers that no rows can give."""
        limit = int(class_weights.sum()) * QUANTA
        n_sums = number_of_sums(class_weights.size - 1, units.size, parts)
        if len(integers) != n_sums:
            raise ValueError(
                f"There must be {n_sums} sums for {class_weights.size} classes, {units.size} "
                f"coordinates and {parts}, got {len(integers)}. Read them with their protocol."
            )
        largest = max(map(abs, integers))
        if largest > limit or limit > MAX_TOTAL_WEIGHT * QUANTA:
            raise ValueError(
                f"Sums must be at most the total weight, in quanta {limit}, and that at most "
                f"2^50 units, got {largest}. The numbers do not come from rows."
            )
        counts = n_rows, n_zero, n_capped, n_cut
        return cls(*counts, class_weights, units, parts, _limbs(integers))

    def contradiction(self) -> str | None:
        """What no rows can have given, in words: moments that contradict each other."""
        if self.total_weight == 0:
            return None
        squares, information = np.diag(self.mean_second()), np.diag(self.mean_fisher())
        quantum = 2.0**-40 * np.maximum(1.0, np.tile(self.units, self._n_outputs) ** 2)
        if not ((squares >= 0).all() and (information >= 0).all()):
            return "sums of squares must not be negative; the numbers do not come from rows"
        if not (self.mean_score() ** 2 <= squares * (1 + 1e-9) + quantum).all():
            return "means must not exceed root mean squares; the numbers do not come from rows"
        if self.parts.loss and self.mean_loss() < 0:
            return "the loss must not be negative; the numbers do not come from rows"
        return None

    def integers(self) -> list[int]:
        """Every sum as one integer, in quanta of its unit."""
        return integers_of(self.limbs)

    def mean_score(self) -> Vector:
        """Mean of ``(p_c - t_c) a``, shape (C * q,), each entry correctly rounded."""
        n = self._n_outputs * self.units.size
        return self._means(0, n, np.tile(self.units, self._n_outputs))

    def mean_fisher(self) -> Matrix:
        """Mean Fisher information, shape (C * q, C * q), each entry correctly rounded."""
        if not self.parts.fisher:
            raise ValueError("There is no Fisher information in these sums: pass fisher=True.")
        return self._matrix(self._n_outputs * self.units.size)

    def mean_second(self) -> Matrix:
        """Mean of ``v v'`` for the score ``v``, shape (C * q, C * q), correctly rounded."""
        if not self.parts.second:
            raise ValueError("There are no second moments in these sums: pass second=True.")
        start = self._n_outputs * self.units.size
        return self._matrix(start + self.parts.fisher * self._n_pairs)

    def mean_loss(self) -> float:
        """Mean of ``- ln p`` of the rows' own classes, in nats."""
        if not self.parts.loss:
            raise ValueError("There is no loss in these sums: pass loss=True.")
        return float(self._means(self.limbs.shape[1] - 1, 1, np.array([LOSS_UNIT]))[0])

    @property
    def total_weight(self) -> int:
        """Sum of the weights; without weights, the number of rows."""
        return int(self.class_weights.sum())

    @property
    def effective_rows(self) -> float:
        """Equally weighted rows of which a mean varies as much [Kis65]; never more than rows."""
        return self.n_rows if self.squares is None else self.total_weight**2 / self.squares

    @property
    def heaviness(self) -> float:
        """Largest share of one row in a mean, times ``effective_rows``: 1 without weights."""
        if self.squares is None:
            return 1.0
        return self.effective_rows * self.heaviest / self.total_weight

    @property
    def _n_outputs(self) -> int:
        return self.class_weights.size - 1

    @property
    def _n_pairs(self) -> int:
        return triangle(self._n_outputs) * triangle(self.units.size)

    def _kind(self) -> str:
        units = ", ".join(f"{unit:g}" for unit in self.units)
        weights = "no weights" if self.squares is None else "weights"
        return f"{self.class_weights.size} classes, units [{units}], {weights}, {self.parts}"

    def _means(self, start: int, n: int, units: Vector) -> Vector:
        """Quotients of integers are correctly rounded, and a power of two changes no digit."""
        whole = self.total_weight * QUANTA
        if whole == 0:
            raise ValueError("There is no mean of no rows: the total weight is 0.")
        numbers = integers_of(self.limbs[:, start : start + n])
        return np.array([number / whole for number in numbers]) * units

    def _matrix(self, start: int) -> Matrix:
        C, q = self._n_outputs, self.units.size
        rows, columns = np.triu_indices(q)
        units = np.tile(self.units[rows] * self.units[columns], triangle(C))
        blocks = self._means(start, self._n_pairs, units).reshape(triangle(C), -1)
        matrix = np.empty((C, q, C, q))
        for block, c, other in zip(blocks, *np.triu_indices(C), strict=True):
            for i, j in ((rows, columns), (columns, rows)):
                matrix[c, i, other, j] = matrix[other, i, c, j] = block
        return matrix.reshape(C * q, C * q)


def merged_limbs(one: IntegerArray, other: IntegerArray) -> IntegerArray:
    """Limbs of the sums of two sets of rows."""
    hi, lo = one + other
    return np.stack([hi + (lo >> LIMB), lo & LOW])


def integers_of(limbs: IntegerArray) -> list[int]:
    """Every sum as one integer."""
    return [(int(hi) << LIMB) + int(lo) for hi, lo in limbs.T]


def _limbs(integers: Sequence[int]) -> IntegerArray:
    limbs = [[v >> LIMB for v in integers], [v & int(LOW) for v in integers]]
    return np.array(limbs).astype(np.int64)


def triangle(n: int) -> int:
    """Number of pairs ``i <= j`` of n things."""
    return n * (n + 1) // 2


def number_of_sums(n_outputs: int, q: int, parts: Parts) -> int:
    """Of the score, and of the other parts that are made."""
    pairs = triangle(n_outputs) * triangle(q)
    return n_outputs * q + (int(parts.fisher) + int(parts.second)) * pairs + int(parts.loss)
