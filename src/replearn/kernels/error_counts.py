"""How many points each of many halfspaces gets wrong: a compiled loop.

A candidate is wrong on a point when ``(((c_0 p_0 + c_1 p_1) + c_2 p_2) + ...) <= 0``: single
precision, in this order, no fused multiply-add; a point on the boundary counts as wrong. So a
count is one integer, whatever the machine, the number of threads and the blocks.
"""

import numpy as np
from numba import njit

_TILE = 256  # points that stay in the first-level cache between two looks at the limits
_ZERO = np.float32(0.0)


@njit(cache=True, nogil=True)
def count_errors(points, candidates, limits):
    """Count the points that each candidate gets wrong; give up on those above their limit.

    Points are columns of a float32 array of shape (n_components, n_points), candidates rows of one
    of shape (n_candidates, n_components). A count of ``limit + 1`` stands for any larger one.
    """
    n_components, n_points = points.shape
    counts = np.zeros(limits.size, np.int64)
    active = np.flatnonzero(limits >= 0)
    n_active = active.size
    tile = np.empty((n_components, _TILE), np.float32)
    scores = np.empty(_TILE, np.float32)
    for start in range(0, n_points, _TILE):
        size = min(_TILE, n_points - start)
        for i in range(n_components):
            for j in range(size):
                tile[i, j] = points[i, start + j]
            for j in range(size, _TILE):
                tile[i, j] = np.nan  # never counted
        n_kept = 0
        for place in range(n_active):
            member = active[place]
            counts[member] += _wrong_in_tile(tile, candidates[member], scores)
            if counts[member] <= limits[member]:
                active[n_kept] = member
                n_kept += 1
        n_active = n_kept
        if n_active == 0:
            break
    return np.minimum(counts, limits + 1)


@njit(cache=True, nogil=True)
def _wrong_in_tile(tile, candidate, scores):
    """Four components at a time: fewer loads and stores, the same order of additions."""
    n_components = tile.shape[0]
    scores[:] = _ZERO
    first = 0
    while first + 4 <= n_components:
        c0, c1 = candidate[first], candidate[first + 1]
        c2, c3 = candidate[first + 2], candidate[first + 3]
        p0, p1, p2, p3 = tile[first], tile[first + 1], tile[first + 2], tile[first + 3]
        for j in range(_TILE):
            scores[j] = (((scores[j] + c0 * p0[j]) + c1 * p1[j]) + c2 * p2[j]) + c3 * p3[j]
        first += 4
    for i in range(first, n_components):
        c0, p0 = candidate[i], tile[i]
        for j in range(_TILE):
            scores[j] = scores[j] + c0 * p0[j]
    n_wrong = 0
    for j in range(_TILE):
        n_wrong += int(scores[j] <= _ZERO)  # not so for NaN
    return n_wrong
