"""Cells for a family of directions, and what they leave of its signal."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from replearn.codes.cells import CELLS, best_blocks
from replearn.plans.cell_prices import expected_range, position_variance, width_ratio
from replearn.study.pilot.cross_fit import Family
from replearn.study.pilot.shapes import blocks_of, moments, stretched
from replearn.types import Vector

#: Coordinates of a site further than this many prior deviations from the start are cut there.
_REACH = 30.0

#: Rounds in which widths and what is believed of coordinates follow from each other.
_ROUNDS = 10

#: Of what is believed of the best coordinate, what counts for any. Widths then differ by a factor
#: of three or so, and a site that is far from the start is told wherever it is.
_LEAST_BELIEVED = 0.2

#: Of plans that gain nearly the same, the one with fewest coded numbers.
ENOUGH = 0.99


@dataclass(frozen=True)
class Agreement:
    """What the sites shall agree on, and with how many rows.

    Attributes
    ----------
    samples_per_site : int
    disagreement : float
        Planned probability that not all sites agree.
    hint_bits : int
    n_sites : int
    """

    samples_per_site: int
    disagreement: float
    hint_bits: int = 0
    n_sites: int = 2


@dataclass(frozen=True)
class Allotment:
    """Cells of the first q coordinates of a family.

    Attributes
    ----------
    family : Family
    agreement : Agreement
    widths, spread, shrink, reach : arrays of shape (q,)
        Widths of the cells, standard deviation of two sites' difference, how much of a centre is
        believed, and how far from the start a site may go; in the metric of the family.
    rounding : str
    moments : array of shape (q,)
        Variances of a site's point around the centre of its cell, in squared widths.
    gain : float
        Expected improvement on the start, in nats per row.
    full_gain : float
        The same without any rounding.
    """

    family: Family
    agreement: Agreement
    widths: Vector
    spread: Vector
    shrink: Vector
    reach: Vector
    rounding: str
    moments: Vector
    gain: float
    full_gain: float

    @property
    def size(self) -> int:
        """q: coded numbers."""
        return int(self.widths.size)

    @property
    def evidence_bits(self) -> float:
        """Minus log2 of the largest probability of a cell for somebody who knows the protocol.

        Under the pilot's own uncertainty about the coordinates, which are taken as independent.
        """
        family, n = self.family, self.agreement.samples_per_site
        known = np.sqrt(family.signal[: self.size] + family.variance[: self.size] / n)
        # 0.0 - and not a bare minus: no bits are 0.0, not -0.0
        return 0.0 - float(np.log2(2 * ndtr(self.widths / (2 * known)) - 1).sum())


def allot(family: Family, size: int, agreement: Agreement) -> Allotment:
    """Widths for the wanted agreement, and the best use of what the cells say.

    Notes
    -----
    A coordinate is believed to be normal around the start with variance ``signal``. The centre of
    its cell is that coordinate plus noise of variance ``v width^2 + variance / n``, so the
    share ``signal / (signal + noise)`` of it is the best guess, and ``signal^2 / (signal +
    noise) / 2`` nats are gained over the start: never less than nothing. With a hint, cells are
    boxes, and widths grow like the sites' spread; without one, see `_telling_cells`.
    """
    n = agreement.samples_per_site
    variance, signal = family.variance[:size], family.signal[:size]
    spread = np.sqrt(2 * family.caution * variance / n)
    bits, rho, n_sites = agreement.hint_bits, agreement.disagreement, agreement.n_sites
    if bits:
        rounding, widths = "centre", width_ratio(size, bits, rho, n_sites) * spread
        variances = np.full(size, position_variance(size, bits, rho, n_sites))
    else:
        crossings = -math.log1p(-rho) / expected_range(n_sites)
        tried = [
            (name, _telling_cells(spread, signal, variance / n, name, crossings))
            for name in sorted({best_blocks(size), "centre"})
        ]
        rounding, widths = max(
            tried, key=lambda cells: _gain(signal, _noise(cells[1], variance / n, cells[0]))
        )
        variances = moments(rounding, size)
    noise = variances * widths**2 + variance / n
    return Allotment(
        family=family,
        agreement=agreement,
        widths=widths,
        spread=spread,
        shrink=signal / (signal + noise),
        reach=_REACH * np.sqrt(signal + variance / n) + widths,
        rounding=rounding,
        moments=variances,
        gain=_gain(signal, noise),
        full_gain=_gain(signal, variance / n),
    )


def _gain(signal: Vector, noise: Vector) -> float:
    return float((signal**2 / (signal + noise)).sum() / 2)


def _noise(widths: Vector, own: Vector, rounding: str) -> Vector:
    return moments(rounding, widths.size) * widths**2 + own


def _telling_cells(
    spread: Vector, signal: Vector, own: Vector, rounding: str, crossings: float
) -> Vector:
    """Widths without a hint that leave most of the signal, for so many expected crossings.

    Notes
    -----
    An error in a coordinate costs what is believed of it: the gain ``s^2 / (s + noise)`` falls
    with the noise by the square of ``s / (s + noise)``. So cells are those that cross fewest walls
    at equal noise (`stretched`), with these squares as extents, which follow from the cells: some
    rounds of both, and the best of them. Coordinates that say little, such as an intercept that
    the pilot knows well, get wide cells and cost the others fewer crossings. A normal
    difference with standard deviations r_j, in widths, crosses a wall of a block of n with
    probability ``surface / 2 * sqrt(2/pi) * sqrt(sum r_j^2 / n)`` at most (docs/theory.md).
    """
    believed, found = np.ones(spread.size), []
    for _ in range(_ROUNDS):
        widths = stretched(spread, believed**2, rounding)
        crossed = sum(
            CELLS[name].surface
            * math.sqrt(float(((spread / widths)[block] ** 2).sum()) / CELLS[name].block)
            for name, block in blocks_of(rounding, spread.size)
        )
        widths *= crossed / math.sqrt(2 * math.pi) / crossings
        noise = _noise(widths, own, rounding)
        found.append((_gain(signal, noise), widths))
        believed = signal / (signal + noise)
        believed = np.maximum(believed, _LEAST_BELIEVED * believed.max())
    return max(found, key=lambda made: made[0])[1]


def best_allotment(families: list[Family], agreement: Agreement) -> Allotment:
    """The family with the largest gain, and its fewest coordinates that nearly have it."""
    candidates = [
        allot(family, size, agreement)
        for family in families
        for size in range(2, family.signal.size + 1)
    ]
    enough = ENOUGH * max(candidate.gain for candidate in candidates)
    return min(
        (candidate for candidate in candidates if candidate.gain >= enough),
        key=lambda candidate: (candidate.size, -candidate.gain),
    )
