"""Cells inside published directions: how wide in each, how often crossed, how much noise."""

import math

import numpy as np

from replearn.codes.cells import CELLS, runs
from replearn.types import Matrix, Order, Vector

#: Floors of what a pilot shows: a direction without spread in the pilot may have some later.
EIGENVALUE_FLOOR = 0.01  # of the mean eigenvalue
SPREAD_FLOOR = 0.1  # of the root mean square spread


def expected_flips(components: Matrix, rounding: str) -> float:
    """Walls crossed by the difference of two sites' vectors, times width times sqrt(rows).

    ``components`` are deviations in the code space whose second moments are n times the covariance
    of a vector from n rows; two sites differ with twice that over their rows.
    """
    variances = 2 * (components**2).sum(axis=0)
    return float(
        sum(
            _flips(name) * math.sqrt(variances[b].sum())
            for name, b in blocks_of(rounding, variances.size)
        )
    )


def moments(rounding: str, n_components: int) -> Vector:
    """Mean squared rounding error of each coordinate, in squared grid widths."""
    found = np.empty(n_components)
    for name, block in blocks_of(rounding, n_components):
        found[block] = CELLS[name].second_moment
    return found


def blocks_of(rounding: str, n_components: int) -> list[tuple[str, slice]]:
    """The cells of a rounding, each with the coordinates that it holds."""
    return [
        (run.name, slice(start, min(start + CELLS[run.name].block, run.start + run.n_components)))
        for run in runs(rounding, n_components)
        for start in range(run.start, run.start + run.n_components, CELLS[run.name].block)
    ]


def shaped_widths(components: Matrix, extents: Vector, rounding: str) -> tuple[Order, Vector]:
    """An order of the directions, and relative widths there that cross fewest walls at equal noise.

    ``components`` are deviations in the directions, one in each row, whose second moments say how
    much sites differ; ``extents`` are mean squares of the rows in each direction: what a rounding
    error costs there. Directions of like width share a block; the geometric mean of widths is 1.

    Notes
    -----
    A block whose cell is stretched by ``w_j`` is crossed like ``sqrt(sum s_j^2 / w_j^2)``, s_j the
    spread, and adds noise like ``sum e_j w_j^2``, e_j the extent. The product of both sums is
    least for ``w_j ~ (s_j^2 / e_j)^(1/4)`` (Cauchy-Schwarz). With these, a
    block has F crossings and N noise; blocks that are stretched by ``(F / N)^(1/3)`` each cross
    fewest walls in sum. Derived in docs/theory.md, tested in tests/theory/test_pilot.py. Both
    spreads and extents are bounded from below, because a direction that is empty in the pilot need
    not stay so; without the floors one such column ruins all agreement.
    """
    spreads = np.sqrt((components**2).sum(axis=0))
    spreads = np.maximum(spreads, SPREAD_FLOOR * math.sqrt(float((spreads**2).mean())))
    extents = np.maximum(extents, EIGENVALUE_FLOOR * float(extents.mean()))
    widths = (spreads**2 / extents) ** 0.25
    order = np.argsort(-widths, kind="stable")
    spreads, extents, widths = spreads[order], extents[order], widths[order]
    for name, block in blocks_of(rounding, widths.size):
        crossed = _flips(name) * math.sqrt(float(((spreads / widths)[block] ** 2).sum()))
        noise = CELLS[name].second_moment * float((extents * widths**2)[block].sum())
        widths[block] *= (crossed / noise) ** (1 / 3)
    return order, np.asarray(widths / np.exp(np.log(widths).mean()))


def _flips(name: str) -> float:
    """Crossings per root mean square length of a difference in one cell."""
    cell = CELLS[name]
    return cell.isotropic_flips * (math.sqrt(2 / math.pi) if cell.block == 1 else 1.0)
