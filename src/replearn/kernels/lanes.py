"""Dot products and updates whose bits depend on the numbers alone.

A sum of floats depends on its order, and compilers and BLAS choose the order by machine. Here
it is fixed: column ``j`` is added to lane ``j mod 16``, in ascending order of ``j``, and the
sixteen lanes are folded in halves (lane ``l`` with lane ``l + 8``, then ``+ 4``, ``+ 2``,
``+ 1``). Products and sums are rounded apart (no fused multiply-add). Absent columns of a
sparse row add exactly nothing, so dense and sparse rows give equal bits.

A **row** is a contiguous 1-D array, or a pair ``(values, slots)``: a sparse row whose
``values[p]`` belongs to entry ``slots[p]`` of the vector. The values are float32 or float64,
widened one by one and never as an array.

The lanes are one LLVM vector of sixteen doubles, because numba does not turn sixteen scalar
sums into vector instructions (measured: six times slower). LLVM splits that vector into
whatever the processor has, which changes no result.
"""

from typing import Any, NamedTuple

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

N_LANES = 16

_DOUBLE = ir.DoubleType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_LANES = ir.VectorType(_DOUBLE, N_LANES)


@njit(cache=True, nogil=True, inline="always")
def dot(x, w):
    """``<x, w>`` for a row ``x`` and a float64 vector ``w`` at least as long."""
    return _dot(x, w)


@njit(cache=True, nogil=True, inline="always")
def dot_and_square(x, w):
    """``(<x, w>, <x, x>)`` in one pass; the same bits as the two apart."""
    return _dot_and_square(x, w)


@njit(cache=True, nogil=True, inline="always")
def square(x):
    """``<x, x>`` of a row."""
    return _square(x)


@njit(cache=True, nogil=True, inline="always")
def axpy(a, x, w):
    """``w += a * x`` in place, for a row ``x`` and a float64 vector ``w`` at least as long."""
    _axpy(a, x, w)


# --- the intrinsics: what numba shall emit for them -------------------------------------------


@intrinsic
def _dot(typing_context, x, w):
    return types.float64(x, w), _lane_sums("w")


@intrinsic
def _square(typing_context, x):
    return types.float64(x), _lane_sums("x")


@intrinsic
def _dot_and_square(typing_context, x, w):
    return types.UniTuple(types.float64, 2)(x, w), _lane_sums("wx")


@intrinsic
def _axpy(typing_context, a, x, w):
    return types.void(types.float64, x, w), _emit_axpy


def _lane_sums(factors):
    """Code for the sums of x times each factor: "w" is the vector, "x" the row itself."""

    def emit(context, builder, signature, arguments):
        row = _open(context, builder, signature.args[0], arguments[0])
        vector = _open(context, builder, signature.args[-1], arguments[-1])
        sums = [cgutils.alloca_once(builder, _LANES) for _ in factors]
        for lanes in sums:
            builder.store(ir.Constant(_LANES, [0.0] * N_LANES), lanes)

        def add(cell, x, other):
            builder.store(builder.fadd(builder.load(cell), builder.fmul(x, other)), cell)

        def add_block(start, mask):
            x = _load(builder, row, start, mask)
            for lanes, factor in zip(sums, factors, strict=True):
                add(lanes, x, x if factor == "x" else _load(builder, vector, start, mask))

        def add_entry(x, slot):
            lane = builder.and_(slot, _INT64(N_LANES - 1))
            for lanes, factor in zip(sums, factors, strict=True):
                cell = builder.gep(builder.bitcast(lanes, _DOUBLE.as_pointer()), [lane])
                add(cell, x, x if factor == "x" else builder.load(builder.gep(vector.data, [slot])))

        _for_each(builder, row, add_block, add_entry)
        folded = [_fold(builder, builder.load(lanes)) for lanes in sums]
        if len(folded) == 1:
            return folded[0]
        return context.make_tuple(builder, signature.return_type, folded)

    return emit


def _emit_axpy(context, builder, signature, arguments):
    row = _open(context, builder, signature.args[1], arguments[1])
    vector = _open(context, builder, signature.args[2], arguments[2])
    a = arguments[0]
    a_block = _broadcast(builder, a)

    def add_block(start, mask):
        step = builder.fmul(a_block, _load(builder, row, start, mask))
        moved = builder.fadd(_load(builder, vector, start, mask), step)
        _store(builder, moved, vector, start, mask)

    def add_entry(x, slot):
        cell = builder.gep(vector.data, [slot])
        builder.store(builder.fadd(builder.load(cell), builder.fmul(a, x)), cell)

    _for_each(builder, row, add_block, add_entry)
    return context.get_dummy_value()


# --- pieces of code ---------------------------------------------------------------------------


class _Pointers(NamedTuple):
    """A row while code is emitted; ``slots`` is None when it is dense."""

    data: Any
    size: Any
    element: Any
    slots: Any


def _open(context, builder, row_type, value):
    if isinstance(row_type, types.Array):
        array = context.make_array(row_type)(context, builder, value)
        return _Pointers(array.data, array.nitems, context.get_data_type(row_type.dtype), None)
    values = _open(context, builder, row_type[0], builder.extract_value(value, 0))
    slots = _open(context, builder, row_type[1], builder.extract_value(value, 1))
    return values._replace(slots=slots.data)


def _for_each(builder, row, add_block, add_entry):
    """Run over the blocks of a dense row, the last one masked, or the entries of a sparse one."""
    if row.slots is not None:
        with cgutils.for_range(builder, row.size, intp=_INT64) as loop:
            value = builder.load(builder.gep(row.data, [loop.index]))
            slot = builder.load(builder.gep(row.slots, [loop.index]))
            slot = slot if slot.type == _INT64 else builder.zext(slot, _INT64)
            add_entry(_widen(builder, value, _DOUBLE), slot)
        return
    whole = builder.and_(row.size, _INT64(-N_LANES))
    with cgutils.for_range_slice(builder, _INT64(0), whole, _INT64(N_LANES)) as (start, _):
        add_block(start, None)
    rest = builder.sub(row.size, whole)
    with builder.if_then(builder.icmp_unsigned("!=", rest, _INT64(0))):
        numbers = ir.Constant(ir.VectorType(_INT64, N_LANES), list(range(N_LANES)))
        add_block(whole, builder.icmp_unsigned("<", numbers, _broadcast(builder, rest)))


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


def _widen(builder, value, wanted):
    return value if value.type == wanted else builder.fpext(value, wanted)
