"""Dot products and updates whose bits depend on the numbers alone.

A sum of floats depends on its order, and compilers and BLAS choose the order by machine. Here
it is fixed: column ``j`` is added to lane ``j mod 16``, in ascending order of ``j``, and the
sixteen lanes are folded in halves (lane ``l`` with lane ``l + 8``, then ``+ 4``, ``+ 2``,
``+ 1``). Products and sums are rounded apart (no fused multiply-add). Absent columns of a
sparse row add exactly nothing, so dense and sparse rows give equal bits.

Values are float32 or float64; they are widened one by one and never as an array. The rows of a
batch are a ``DenseRows`` or a ``SparseRows``, and the functions on them take the number of a
row: a slice ``X[i]`` in a hot loop would cost two atomic reference counts, as much as the dot.

The lanes are one LLVM vector of sixteen doubles, because numba does not turn sixteen scalar
sums into vector instructions (measured, rows in cache: over three times slower). LLVM splits that
vector into whatever the processor has, which changes no result. A numba that does not take this
code gets plain loops instead, with the same bits (``plain_lanes``): nothing is chosen by hand.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from replearn.kernels import plain_lanes
from replearn.kernels.compiler import cgutils, intrinsic, intrinsic_or, ir, njit, types
from replearn.kernels.plain_lanes import N_LANES
from replearn.kernels.vector_code import compiles, either

_DOUBLE = ir.DoubleType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_LANES = ir.VectorType(_DOUBLE, N_LANES)
_LINE = 64  # bytes of a cache line


class DenseRows(NamedTuple):
    """Rows ``members`` of the C-contiguous array ``X``, in place."""

    X: Any
    members: Any


class SparseRows(NamedTuple):
    """Rows ``members`` of a CSR matrix, in place; column numbers ascend within a row."""

    data: Any
    indices: Any
    indptr: Any
    members: Any


@njit(cache=True, nogil=True, inline="always")
def dot(x, w):
    """``<x, w>`` for a contiguous vector ``x`` and a float64 vector ``w`` at least as long."""
    return _dot(x, w)


@njit(cache=True, nogil=True, inline="always")
def square(x):
    """``<x, x>`` for a contiguous vector."""
    return _square(x)


@njit(cache=True, nogil=True, inline="always")
def axpy(a, x, w):
    """``w += a * x`` in place, for a contiguous vector ``x``."""
    _axpy(a, x, w)


@njit(cache=True, nogil=True, inline="always")
def row_dot(rows, k, w):
    """``<x_k, w>`` for row k of a batch."""
    return _row_dot(rows, k, w)


@njit(cache=True, nogil=True, inline="always")
def row_dot_and_square(rows, k, w):
    """``(<x_k, w>, <x_k, x_k>)`` in one pass; the same bits as the two apart."""
    return _row_dot_and_square(rows, k, w)


@njit(cache=True, nogil=True, inline="always")
def row_square(rows, k):
    """``<x_k, x_k>`` for row k of a batch."""
    return _row_square(rows, k)


@njit(cache=True, nogil=True, inline="always")
def row_axpy(a, rows, k, w):
    """``w += a * x_k`` in place."""
    _row_axpy(a, rows, k, w)


@njit(cache=True, nogil=True, inline="always")
def row_prefetch(rows, k):
    """Ask for row k to be brought into the cache before it is needed; changes no result."""
    _row_prefetch(rows, k)


def _plain_row(name, place=0):
    """The plain function of this name for the kind of rows that it is given."""
    dense, sparse = (getattr(plain_lanes, f"{kind}_{name}") for kind in ("dense", "sparse"))

    def call(*arguments):
        chosen = dense if isinstance(arguments[place], DenseRows) else sparse
        return chosen(*arguments)

    return call


# --- the intrinsics: what numba is to emit for them -------------------------------------------


@intrinsic_or(plain_lanes.dot)
def _dot(typing_context, x, w):
    return types.float64(x, w), _code(_sums_of_products("w", _open_vector), plain_lanes.dot)


@intrinsic_or(plain_lanes.square)
def _square(typing_context, x):
    return types.float64(x), _code(_sums_of_products("x", _open_vector), plain_lanes.square)


@intrinsic_or(plain_lanes.axpy)
def _axpy(typing_context, a, x, w):
    signature = types.void(types.float64, x, w)
    return signature, _code(_scaled_addition(_open_vector), plain_lanes.axpy)


@intrinsic_or(_plain_row("dot"))
def _row_dot(typing_context, rows, k, w):
    vector = _sums_of_products("w", _open_row)
    return types.float64(rows, types.int64, w), _row_code(rows, vector, "dot")


@intrinsic_or(_plain_row("dot_and_square"))
def _row_dot_and_square(typing_context, rows, k, w):
    pair = types.UniTuple(types.float64, 2)
    vector = _sums_of_products("wx", _open_row)
    return pair(rows, types.int64, w), _row_code(rows, vector, "dot_and_square")


@intrinsic_or(_plain_row("square"))
def _row_square(typing_context, rows, k):
    vector = _sums_of_products("x", _open_row)
    return types.float64(rows, types.int64), _row_code(rows, vector, "square")


@intrinsic_or(_plain_row("axpy", place=1))
def _row_axpy(typing_context, a, rows, k, w):
    signature = types.void(types.float64, rows, types.int64, w)
    return signature, _row_code(rows, _scaled_addition(_open_row), "axpy")


@njit
def _no_prefetch(rows, k):
    """Without prefetching, a row comes when it is read."""


@intrinsic_or(_no_prefetch)
def _row_prefetch(typing_context, rows, k):
    return types.void(rows, types.int64), either(prefetch_works(), _prefetches, _no_prefetch)


def _code(vector, plain):
    return either(vector_code_works(), vector, plain)


def _row_code(rows, vector, name):
    kind = "dense" if rows.instance_class is DenseRows else "sparse"
    return _code(vector, getattr(plain_lanes, f"{kind}_{name}"))


@cache
def vector_code_works() -> bool:
    """Whether this numba takes the vector code; looked up once, when something is compiled."""
    return compiles(lambda: [_use_vector_code(rows, 0, np.ones(17)) for rows in _probes()])


@cache
def prefetch_works() -> bool:
    """Whether it takes the code that prefetches."""
    return compiles(lambda: [_use_prefetch(rows, 0) for rows in _probes()])


def _probes() -> tuple[DenseRows, SparseRows]:
    """A dense row and a sparse one, narrow and wide."""
    members, columns = np.zeros(1, np.int64), np.arange(17, dtype=np.int32)
    sparse = SparseRows(np.ones(17), columns, np.array([0, 17]), members)
    return DenseRows(np.ones((1, 17), np.float32), members), sparse


@intrinsic
def _vector_dot_and_square(typing_context, rows, k, w):
    pair = types.UniTuple(types.float64, 2)
    return pair(rows, types.int64, w), _sums_of_products("wx", _open_row)


@intrinsic
def _vector_axpy(typing_context, a, rows, k, w):
    signature = types.void(types.float64, rows, types.int64, w)
    return signature, _scaled_addition(_open_row)


@intrinsic
def _sure_prefetch(typing_context, rows, k):
    return types.void(rows, types.int64), _prefetches


@njit
def _use_vector_code(rows, k, w):
    _vector_axpy(0.0, rows, k, w)
    return _vector_dot_and_square(rows, k, w)


@njit
def _use_prefetch(rows, k):
    _sure_prefetch(rows, k)


def _sums_of_products(factors, open_row):
    """Code for the sums of x times each factor: "w" is the vector, "x" the row itself."""

    def emit(context, builder, signature, arguments):
        row = open_row(context, builder, signature.args, arguments)
        vector = row
        if "w" in factors:
            vector = _open_vector(context, builder, signature.args[-1:], arguments[-1:])
        sums = [cgutils.alloca_once(builder, _LANES) for _ in factors]
        for lanes in sums:
            builder.store(ir.Constant(_LANES, [0.0] * N_LANES), lanes)

        def add(cell, x, other):
            builder.store(builder.fadd(builder.load(cell), builder.fmul(x, other)), cell)

        def add_block(start, mask):
            x = _load(builder, row, start, mask)
            for lanes, factor in zip(sums, factors, strict=True):
                add(lanes, x, x if factor == "x" else _load(builder, vector, start, mask))

        def add_entry(x, column):
            lane = builder.and_(column, _INT64(N_LANES - 1))
            for lanes, factor in zip(sums, factors, strict=True):
                cell = builder.gep(builder.bitcast(lanes, _DOUBLE.as_pointer()), [lane])
                if factor == "x":
                    add(cell, x, x)
                else:
                    add(cell, x, builder.load(builder.gep(vector.data, [column])))

        _for_each(builder, row, add_block, add_entry)
        folded = [_fold(builder, builder.load(lanes)) for lanes in sums]
        if len(folded) == 1:
            return folded[0]
        return context.make_tuple(builder, signature.return_type, folded)

    return emit


def _scaled_addition(open_row):
    """Code for ``w += a x``."""

    def emit(context, builder, signature, arguments):
        a = arguments[0]
        row = open_row(context, builder, signature.args[1:], arguments[1:])
        vector = _open_vector(context, builder, signature.args[-1:], arguments[-1:])
        a_block = _broadcast(builder, a)

        def add_block(start, mask):
            step = builder.fmul(a_block, _load(builder, row, start, mask))
            moved = builder.fadd(_load(builder, vector, start, mask), step)
            _store(builder, moved, vector, start, mask)

        def add_entry(x, column):
            cell = builder.gep(vector.data, [column])
            builder.store(builder.fadd(builder.load(cell), builder.fmul(a, x)), cell)

        _for_each(builder, row, add_block, add_entry)
        return context.get_dummy_value()

    return emit


def _prefetches(context, builder, signature, arguments):
    """Code that asks for each cache line of a row, and waits for none."""
    row = _open_row(context, builder, signature.args, arguments)
    pointer = ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, _INT32, _INT32, _INT32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    for array in (row.data,) if row.columns is None else (row.data, row.columns):
        size = array.type.pointee.get_abi_size(context.target_data)
        n_bytes = builder.mul(row.size, _INT64(size))
        start = builder.bitcast(array, pointer)
        with cgutils.for_range_slice(builder, _INT64(0), n_bytes, _INT64(_LINE)) as (place, _):
            line = builder.gep(start, [place])
            builder.call(prefetch, [line, _INT32(0), _INT32(3), _INT32(1)])  # to read, data
    return context.get_dummy_value()


# --- pieces of code ---------------------------------------------------------------------------


class _Pointers(NamedTuple):
    """A row while code is emitted; ``columns`` is None when it is dense."""

    data: Any
    size: Any
    element: Any
    columns: Any


def _open_vector(context, builder, kinds, values):
    """The vector that is the first of these values."""
    array = context.make_array(kinds[0])(context, builder, values[0])
    return _Pointers(array.data, array.nitems, context.get_data_type(kinds[0].dtype), None)


def _open_row(context, builder, kinds, values):
    """The row that the first two of these values name: a batch and a number."""
    fields = [
        context.make_array(kind)(context, builder, builder.extract_value(values[0], place))
        for place, kind in enumerate(kinds[0])
    ]
    element = context.get_data_type(kinds[0][0].dtype)
    member = builder.load(builder.gep(fields[-1].data, [values[1]]))
    if kinds[0].instance_class is DenseRows:
        matrix = fields[0]
        n_columns = builder.extract_value(matrix.shape, 1)
        data = builder.gep(matrix.data, [builder.mul(member, n_columns)])
        return _Pointers(data, n_columns, element, None)
    entries, columns, ends = fields[:3]
    start = _index(builder, builder.gep(ends.data, [member]))
    stop = _index(builder, builder.gep(ends.data, [builder.add(member, _INT64(1))]))
    return _Pointers(
        builder.gep(entries.data, [start]),
        builder.sub(stop, start),
        element,
        builder.gep(columns.data, [start]),
    )


def _for_each(builder, row, add_block, add_entry):
    """Run over the blocks of a dense row, the last one masked, or the entries of a sparse one."""
    if row.columns is not None:
        with cgutils.for_range(builder, row.size, intp=_INT64) as loop:
            value = builder.load(builder.gep(row.data, [loop.index]))
            slot = builder.load(builder.gep(row.columns, [loop.index]))
            add_entry(_widen(builder, value, _DOUBLE), _as_int64(builder, slot))
        return
    whole = builder.and_(row.size, _INT64(-N_LANES))
    with cgutils.for_range_slice(builder, _INT64(0), whole, _INT64(N_LANES)) as (start, _):
        add_block(start, None)
    rest = builder.sub(row.size, whole)
    with builder.if_then(builder.icmp_unsigned("!=", rest, _INT64(0))):
        numbers = ir.Constant(ir.VectorType(_INT64, N_LANES), list(range(N_LANES)))
        add_block(whole, builder.icmp_unsigned("<", numbers, _broadcast(builder, rest)))


def _index(builder, pointer):
    """An int32 or int64 entry of an index array, as int64."""
    number = builder.load(pointer)
    return number if number.type == _INT64 else builder.sext(number, _INT64)


def _load(builder, array, start, mask):
    """Sixteen entries as doubles; those outside the mask are not touched and count as 0."""
    block = ir.VectorType(array.element, N_LANES)
    pointer = builder.bitcast(builder.gep(array.data, [start]), block.as_pointer())
    size = 8 if array.element == _DOUBLE else 4
    if mask is None:
        return _widen(builder, builder.load(pointer, align=size), _LANES)
    nothing = ir.Constant(block, [0.0] * N_LANES)
    entries = _call(builder, "load", block, [pointer, _INT32(size), mask, nothing])
    return _widen(builder, entries, _LANES)


def _store(builder, entries, array, start, mask):
    pointer = builder.bitcast(builder.gep(array.data, [start]), _LANES.as_pointer())
    if mask is None:
        builder.store(entries, pointer, align=8)
    else:
        _call(builder, "store", _LANES, [entries, pointer, _INT32(8), mask])


def _call(builder, what, block, arguments):
    """Call ``llvm.masked.load`` or ``.store``, by the name that every LLVM since 14 takes."""
    kind = f"v{N_LANES}f{64 if block.element == _DOUBLE else 32}"
    result = block if what == "load" else ir.VoidType()
    signature = ir.FunctionType(result, [argument.type for argument in arguments])
    name = f"llvm.masked.{what}.{kind}.p0{kind}"
    return builder.call(cgutils.get_or_insert_function(builder.module, signature, name), arguments)


def _fold(builder, lanes):
    """Add the upper half of the lanes to the lower half until one is left."""
    half = N_LANES // 2
    while half:
        lower = _pick(builder, lanes, range(half))
        lanes = builder.fadd(lower, _pick(builder, lanes, range(half, 2 * half)))
        half //= 2
    return builder.extract_element(lanes, _INT32(0))


def _broadcast(builder, value):
    empty = ir.Constant(ir.VectorType(value.type, N_LANES), ir.Undefined)
    return _pick(builder, builder.insert_element(empty, value, _INT32(0)), [0] * N_LANES)


def _pick(builder, vector, lanes):
    numbers = ir.Constant(ir.VectorType(_INT32, len(lanes)), list(lanes))
    return builder.shuffle_vector(vector, vector, numbers)


def _as_int64(builder, index):
    """An index that is not negative, of any type."""
    return index if index.type == _INT64 else builder.zext(index, _INT64)


def _widen(builder, value, wanted):
    return value if value.type == wanted else builder.fpext(value, wanted)
