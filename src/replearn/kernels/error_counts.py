"""How many points each of many halfspaces gets wrong: packed points, exact counts.

A point is ``y x`` in few components, single precision. Sixteen points make a **pack**: array
``points[pack, component, lane]``, so that one vector instruction serves sixteen points and a
range of points is a plain slice. An empty lane holds NaN, which is never counted.

A candidate is wrong on a point when ``(((c_0 p_0 + c_1 p_1) + c_2 p_2) + ...) <= 0``: single
precision, in this order, no fused multiply-add; a point on the boundary counts as wrong. So a
count is one integer, whatever the machine, the number of threads and the blocking.

Four candidates share each load of a pack, and the loops are explicit vectors, because numba does
not vectorise over points when the inner loop runs over components (measured: twice as slow).
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import cgutils, intrinsic, intrinsic_or, ir, njit, types
from replearn.kernels.philox import fill_words, normals_from_words
from replearn.kernels.vector_code import compiles, either
from replearn.types import Matrix, Order, Signs, is_sparse

#: Points in one pack.
PACK = 16

_ABREAST = 4  # candidates that share a load
_TILE = 16  # packs between two looks at the limits; they stay in the first-level cache

_FLOAT = ir.FloatType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_FLOATS = ir.VectorType(_FLOAT, PACK)
_INTS = ir.VectorType(_INT32, PACK)


@njit(cache=True, nogil=True)
def count_errors(points, candidates, limits, counts):
    """Count the points that each candidate gets wrong; give up on those above their limit.

    ``points`` are packs of shape (n_packs, n_components, 16), ``candidates`` have shape
    (n_candidates, n_components). Written is the count, or ``limit + 1`` if it is larger than the
    limit.
    """
    n_active = candidates.shape[0]
    active = np.empty(n_active + _ABREAST, dtype=np.int64)
    for i in range(n_active):
        active[i] = i
    counts[:] = 0
    for start in range(0, points.shape[0], _TILE):
        stop = min(start + _TILE, points.shape[0])
        for i in range(n_active, n_active + _ABREAST):
            active[i] = active[0]  # fills up the last four; counted and thrown away
        n_kept = 0
        for first in range(0, n_active, _ABREAST):
            wrong = _count_four(points, start, stop, candidates, active[first : first + _ABREAST])
            for i in range(min(_ABREAST, n_active - first)):
                member = active[first + i]
                counts[member] += wrong[i]
                if counts[member] <= limits[member]:
                    active[n_kept] = member
                    n_kept += 1
                else:
                    counts[member] = limits[member] + 1
        n_active = n_kept
        if n_active == 0:
            break


@njit
def _count_four_plainly(points, start, stop, candidates, members):
    """The same as a plain loop."""
    return (
        _count_one(points, start, stop, candidates[members[0]]),
        _count_one(points, start, stop, candidates[members[1]]),
        _count_one(points, start, stop, candidates[members[2]]),
        _count_one(points, start, stop, candidates[members[3]]),
    )


@njit
def _count_one(points, start, stop, candidate):
    n_wrong = 0
    for pack in range(start, stop):
        for lane in range(PACK):
            score = np.float32(0.0)
            for i in range(candidate.size):
                score += candidate[i] * points[pack, i, lane]
            if score <= 0.0:  # not so for NaN
                n_wrong += 1
    return n_wrong


@intrinsic_or(_count_four_plainly)
def _count_four(typing_context, points, start, stop, candidates, members):
    """Errors of four candidates on the packs from ``start`` to ``stop``."""
    counts = types.UniTuple(types.int64, _ABREAST)
    signature = counts(points, types.int64, types.int64, candidates, members)
    return signature, either(vector_code_works(), _emit_count_four, _count_four_plainly)


@cache
def vector_code_works() -> bool:
    """Whether this numba takes the code below; looked up once, when something is compiled."""
    return compiles(_probe)


def _probe() -> None:
    points = np.ones((1, 2, PACK), np.float32)
    _use_vector_code(points, 0, 1, np.ones((1, 2), np.float32), np.zeros(_ABREAST, np.int64))


@intrinsic
def _sure_count_four(typing_context, points, start, stop, candidates, members):
    counts = types.UniTuple(types.int64, _ABREAST)
    return counts(points, types.int64, types.int64, candidates, members), _emit_count_four


@njit
def _use_vector_code(points, start, stop, candidates, members):
    return _sure_count_four(points, start, stop, candidates, members)


def _emit_count_four(context, builder, signature, arguments):
    points, candidates, members = (
        context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 3, 4)
    )
    n_components = builder.extract_value(candidates.shape, 1)
    rows = []
    for i in range(_ABREAST):
        member = builder.load(builder.gep(members.data, [_INT64(i)]))
        rows.append(builder.gep(candidates.data, [builder.mul(member, n_components)]))
    scores = [cgutils.alloca_once(builder, _FLOATS) for _ in rows]
    counts = [cgutils.alloca_once(builder, _INTS) for _ in rows]
    zeros = ir.Constant(_FLOATS, [0.0] * PACK)
    for count in counts:
        builder.store(ir.Constant(_INTS, [0] * PACK), count)
    pack_size = builder.mul(n_components, _INT64(PACK))
    packs = cgutils.for_range_slice(builder, arguments[1], arguments[2], _INT64(1))
    with packs as (pack, _):
        base = builder.gep(points.data, [builder.mul(pack, pack_size)])
        for score in scores:
            builder.store(zeros, score)
        with cgutils.for_range(builder, n_components, intp=_INT64) as loop:
            place = builder.gep(base, [builder.mul(loop.index, _INT64(PACK))])
            lanes = builder.load(builder.bitcast(place, _FLOATS.as_pointer()), align=4)
            for score, row in zip(scores, rows, strict=True):
                factor = _in_all_lanes(builder, builder.load(builder.gep(row, [loop.index])))
                moved = builder.fadd(builder.load(score), builder.fmul(lanes, factor))
                builder.store(moved, score)
        for score, count in zip(scores, counts, strict=True):
            # ordered: false for NaN
            wrong = builder.fcmp_ordered("<=", builder.load(score), zeros)
            builder.store(builder.add(builder.load(count), builder.zext(wrong, _INTS)), count)
    sums = [_sum(builder, builder.load(count)) for count in counts]
    return context.make_tuple(builder, signature.return_type, sums)


def _in_all_lanes(builder, value):
    """A vector with the value in every lane."""
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    first = builder.insert_element(nothing, value, _INT32(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(_INTS, [0] * PACK))


def _sum(builder, lanes):
    total = _INT32(0)
    for i in range(PACK):
        total = builder.add(total, builder.extract_element(lanes, _INT32(i)))
    return builder.zext(total, _INT64)


# --- from rows to packs -----------------------------------------------------------------------


def pack_rows(
    X: Any, signs: Signs, order: Order, matrix: Matrix, points: NDArray[np.float32]
) -> int:
    """Write ``y A x`` of the rows ``order``, in that order, into packs.

    ``matrix`` is the map, transposed, of shape (n_inputs, n_components); one row more than X has
    columns is that of the constant 1. The lanes after the last row, and those of all-zero rows, are
    NaN. Returns how many rows are not zero.
    """
    if is_sparse(X):
        parts = X.data, X.indices, X.indptr, X.shape[1]
        return int(_pack_csr(*parts, signs, order, matrix, points))
    return int(_pack_dense(X, signs, order, matrix, points))


@njit(cache=True, nogil=True)
def _pack_dense(X, signs, order, matrix, points):
    n_features = X.shape[1]
    components = np.empty(matrix.shape[1])
    n_points = 0
    points[:] = np.nan
    for place in range(order.size):
        row = X[order[place]]
        scale = _scale(row, matrix.shape[0] > n_features)
        if scale == 0.0:
            continue
        scale *= signs[order[place]]
        components[:] = 0.0
        for j in range(n_features):
            _add(components, row[j] * scale, matrix[j])
        if matrix.shape[0] > n_features:
            _add(components, scale, matrix[n_features])
        _put(components, points, place)
        n_points += 1
    return n_points


@njit(cache=True, nogil=True)
def _pack_csr(data, indices, indptr, n_features, signs, order, matrix, points):
    """The same for a CSR matrix: apart, because rows of either kind cost a third more."""
    components = np.empty(matrix.shape[1])
    n_points = 0
    points[:] = np.nan
    for place in range(order.size):
        first, last = indptr[order[place]], indptr[order[place] + 1]
        scale = _scale(data[first:last], matrix.shape[0] > n_features)
        if scale == 0.0:
            continue
        scale *= signs[order[place]]
        components[:] = 0.0
        for p in range(first, last):
            _add(components, data[p] * scale, matrix[indices[p]])
        if matrix.shape[0] > n_features:
            _add(components, scale, matrix[n_features])
        _put(components, points, place)
        n_points += 1
    return n_points


@njit(cache=True, nogil=True)
def _scale(row, intercept):
    """A power of two that brings the largest entry near 1; 0 for an all-zero row.

    Only the direction of a row counts, and products with a power of two are exact.
    """
    top = 1.0 if intercept else 0.0
    for j in range(row.size):
        size = abs(np.float64(row[j]))
        if size > top:
            top = size
    if top == 0.0:
        return 0.0
    _, exponent = math.frexp(top)
    return math.ldexp(1.0, -min(max(exponent, -1000), 1000))


@njit(cache=True, nogil=True)
def _add(components, factor, row):
    for c in range(components.size):
        components[c] += factor * row[c]


@njit(cache=True, nogil=True)
def _put(components, points, place):
    pack, lane = place // PACK, place % PACK
    for c in range(components.size):
        points[pack, c, lane] = np.float32(components[c])


# --- candidates -------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def fill_directions(indices, key0, key1, out):
    """Candidate ``i`` of a random net: the normals of row ``i``, in single precision."""
    n_components = out.shape[1]
    words = np.empty(indices.size * n_components, dtype=np.uint64)
    normals = np.empty(words.size)
    for i in range(indices.size):
        row_words = words[i * n_components : (i + 1) * n_components]
        fill_words(np.uint64(indices[i]), key0, key1, row_words)
    normals_from_words(words, normals)
    out[:] = normals.reshape(out.shape).astype(np.float32)


@njit(cache=True, nogil=True)
def fill_lattice(ranks, volumes, out):
    """Candidate of each rank of a lattice net: integer vectors in a ball, in lexicographic order.

    ``volumes[m, s]`` is the number of integer vectors of m entries and squared length at most s;
    the last column is that of the whole ball. The origin, which stands in the middle, is left out.
    """
    n_components = out.shape[1]
    widest = volumes.shape[1] - 1
    for place in range(ranks.size):
        rank = ranks[place]
        if 2 * rank + 1 >= volumes[n_components, widest]:
            rank += 1  # step over the origin
        left = widest
        for c in range(n_components):
            entry = -np.int64(math.sqrt(left))
            while True:
                n_inside = volumes[n_components - c - 1, left - entry * entry]
                if rank < n_inside:
                    break
                rank -= n_inside
                entry += 1
            out[place, c] = np.float32(entry)
            left -= entry * entry
