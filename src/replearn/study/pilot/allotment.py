"""Cells for a family of directions, and what they leave of its signal."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from replearn.codes.cells import best_blocks, runs, second_moment
from replearn.plans.cell_prices import expected_range, position_variance, width_ratio
from replearn.study.pilot.cross_fit import Family
from replearn.types import Vector

#: Coordinates of a site further than this many prior deviations from the start are cut there.
_REACH = 30.0


@dataclass(frozen=True)
class Agreement:
    """With how many rows, and how often, sites shall agree."""

    samples_per_site: int
    disagreement: float  # planned probability that not all sites agree
    hint_bits: int
    n_sites: int

    def ratio(self, n_codes: int) -> float:
        """Width of cubes, over the standard deviation of two sites' difference."""
        return width_ratio(n_codes, self.hint_bits, self.disagreement, self.n_sites)


@dataclass(frozen=True)
class Allotment:
    """Cells of the first q coordinates of a family, in its metric."""

    family: Family
    agreement: Agreement
    widths: Vector
    spread: Vector  # standard deviation of two sites' difference
    shrink: Vector  # how much of a centre is believed
    reach: Vector  # how far from the start a site may go
    rounding: str
    moment: float  # variance of a site's point around the centre of its cell, in squared widths
    gain: float  # expected improvement on the start, in nats per row
    full_gain: float  # the same without any rounding

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
    noise) / 2`` nats are gained over the start: never less than nothing. Without a hint, cells are
    those of the best lattice, and widths that cross fewest walls at a given noise grow like the
    root of the sites' spread; with one, cells are boxes, and widths grow like the spread.
    """
    n = agreement.samples_per_site
    variance, signal = family.variance[:size], family.signal[:size]
    spread = np.sqrt(2 * family.caution * variance / n)
    bits, rho, n_sites = agreement.hint_bits, agreement.disagreement, agreement.n_sites
    rounding = "centre" if bits else best_blocks(size)
    if bits == 0:
        shape = np.sqrt(spread)
        gap = math.sqrt(2 / math.pi) * expected_range(n_sites) * math.sqrt(float(spread.mean()))
        crossings = sum(run.crossings for run in runs(rounding, size))
        widths = shape * (crossings * gap / -math.log1p(-rho))
        moment = second_moment(rounding, size)
    else:
        widths = agreement.ratio(size) * spread
        moment = position_variance(size, bits, rho, n_sites)
    noise = moment * widths**2 + variance / n
    return Allotment(
        family=family,
        agreement=agreement,
        widths=widths,
        spread=spread,
        shrink=signal / (signal + noise),
        reach=_REACH * np.sqrt(signal + variance / n) + widths,
        rounding=rounding,
        moment=moment,
        gain=float((signal**2 / (signal + noise)).sum() / 2),
        full_gain=float((signal**2 / (signal + variance / n)).sum() / 2),
    )


def best_allotment(families: list[Family], agreement: Agreement) -> Allotment:
    """The family with the largest gain, and its fewest coordinates that nearly have it."""
    candidates = [
        allot(family, size, agreement)
        for family in families
        for size in range(2, family.signal.size + 1)
    ]
    enough = families[0].enough * max(candidate.gain for candidate in candidates)
    return min(
        (candidate for candidate in candidates if candidate.gain >= enough),
        key=lambda candidate: (candidate.size, -candidate.gain),
    )
