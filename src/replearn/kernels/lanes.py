"""Dot products and updates whose bits depend on the numbers alone.

A sum of floats depends on its order, and compilers and BLAS choose the order by machine. Here
it is fixed: column ``j`` is added to lane ``j mod 16``, in ascending order of ``j``, and the
sixteen lanes are folded in halves (lane ``l`` with lane ``l + 8``, then ``+ 4``, ``+ 2``,
``+ 1``). Multiplication and addition are rounded apart (no fused multiply-add). Absent columns
of a sparse row add exactly nothing, so dense and sparse rows give equal bits.

A **row** is a contiguous 1-D array, or a pair ``(values, slots)`` of a sparse row, where
``values[p]`` belongs to entry ``slots[p]`` of the dense vector; slots ascend within a lane.
Values are float32 or float64; they are widened one by one, never as an array.

The lanes are written as one LLVM vector of sixteen doubles, because numba does not turn
sixteen scalar sums into vector instructions (measured: six times slower). LLVM splits the
vector to whatever the processor has, which changes no result.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as _untyped_intrinsic

Function = TypeVar("Function", bound=Callable[..., Any])

N_LANES = 16

_DOUBLE = ir.DoubleType()
_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_LANES = ir.VectorType(_DOUBLE, N_LANES)
_NO_LANES = ir.Constant(_LANES, [0.0] * N_LANES)


def kernel(function: Function) -> Function:
    """Compile with the settings of every kernel: cached on disk, GIL released, strict floats."""
    return cast(Function, numba.njit(cache=True, nogil=True)(function))


def intrinsic(function: Function) -> Function:
    """``numba.extending.intrinsic``, typed."""
    return cast(Function, _untyped_intrinsic(function))


# ---------------------------------------------------------------------- what kernels call


@kernel
def dot(x: Any, w: Any) -> Any:
    """``<x, w>`` for a row ``x`` and a float64 vector ``w`` at least as long."""
    return _dot(x, w)


@kernel
def dot_and_square(x: Any, w: Any) -> Any:
    """``(<x, w>, <x, x>)`` in one pass; the same bits as the two apart."""
    return _dot_and_square(x, w)


@kernel
def square(x: Any) -> Any:
    """``<x, x>`` of a row."""
    return _square(x)


@kernel
def axpy(a: Any, x: Any, w: Any) -> None:
    """``w += a * x`` in place, for a row ``x`` and a float64 vector ``w`` at least as long."""
    _axpy(a, x, w)


# ------------------------------------------------------------------------------ intrinsics


@intrinsic
def _dot(typingctx: Any, x: Any, w: Any) -> Any:
    return types.float64(x, w), _lane_sums("w")


@intrinsic
def _square(typingctx: Any, x: Any) -> Any:
    return types.float64(x), _lane_sums("x")


@intrinsic
def _dot_and_square(typingctx: Any, x: Any, w: Any) -> Any:
    return types.UniTuple(types.float64, 2)(x, w), _lane_sums("wx")


@intrinsic
def _axpy(typingctx: Any, a: Any, x: Any, w: Any) -> Any:
    return types.void(types.float64, x, w), _scaled_addition


def _lane_sums(factors: str) -> Callable[..., Any]:
    """Code for the lane sums of x times each factor: "w" the vector, "x" the row itself."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        row = _open_row(context, builder, signature.args[0], args[0])
        vector = _open_array(context, builder, signature.args[-1], args[-1])
        sums = [cgutils.alloca_once(builder, _LANES) for _ in factors]
        for lanes in sums:
            builder.store(_NO_LANES, lanes)

        def add_block(start: Any, mask: Any) -> None:
            x = _load(builder, row, start, mask)
            for lanes, factor in zip(sums, factors, strict=True):
                other = x if factor == "x" else _load(builder, vector, start, mask)
                product = builder.fmul(x, other)
                builder.store(builder.fadd(builder.load(lanes), product), lanes)

        def add_entry(value: Any, slot: Any) -> None:
            lane = builder.and_(slot, _INT64(N_LANES - 1))
            for lanes, factor in zip(sums, factors, strict=True):
                cell = builder.gep(builder.bitcast(lanes, _DOUBLE.as_pointer()), [lane])
                other = value if factor == "x" else builder.load(builder.gep(vector.data, [slot]))
                product = builder.fmul(value, other)
                builder.store(builder.fadd(builder.load(cell), product), cell)

        _for_each(builder, row, add_block, add_entry)
        folded = [_fold(builder, builder.load(lanes)) for lanes in sums]
        if len(folded) == 1:
            return folded[0]
        return context.make_tuple(builder, signature.return_type, folded)

    return emit


def _scaled_addition(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    """Code for ``w += a * x``."""
    row = _open_row(context, builder, signature.args[1], args[1])
    vector = _open_array(context, builder, signature.args[2], args[2])
    factor = args[0]
    factors = _broadcast(builder, factor)

    def add_block(start: Any, mask: Any) -> None:
        step = builder.fmul(factors, _load(builder, row, start, mask))
        _store(builder, builder.fadd(_load(builder, vector, start, mask), step), vector, start, mask)

    def add_entry(value: Any, slot: Any) -> None:
        cell = builder.gep(vector.data, [slot])
        builder.store(builder.fadd(builder.load(cell), builder.fmul(factor, value)), cell)

    _for_each(builder, row, add_block, add_entry)
    return context.get_dummy_value()


# -------------------------------------------------------------------- pieces of LLVM code


class _Row:
    """The pointers of a row: ``data`` and ``size``, and ``slots`` when it is sparse."""

    def __init__(self, values: Any, element: Any, slots: Any = None) -> None:
        self.data, self.size, self.element = values.data, values.nitems, element
        self.slots = slots.data if slots is not None else None


def _open_array(context: Any, builder: Any, array_type: Any, value: Any) -> _Row:
    array = context.make_array(array_type)(context, builder, value)
    return _Row(array, context.get_data_type(array_type.dtype))


def _open_row(context: Any, builder: Any, row_type: Any, value: Any) -> _Row:
    if isinstance(row_type, types.Array):
        return _open_array(context, builder, row_type, value)
    values, slots = (
        context.make_array(part)(context, builder, builder.extract_value(value, k))
        for k, part in enumerate(row_type)
    )
    return _Row(values, context.get_data_type(row_type[0].dtype), slots)


def _for_each(builder: Any, row: _Row, add_block: Any, add_entry: Any) -> None:
    """Run over a row: blocks of sixteen and a masked rest, or the entries of a sparse row."""
    if row.slots is not None:
        with cgutils.for_range(builder, row.size, intp=_INT64) as loop:
            value = builder.load(builder.gep(row.data, [loop.index]))
            slot = builder.load(builder.gep(row.slots, [loop.index]))
            add_entry(_widen(builder, value, _DOUBLE), _as_index(builder, slot))
        return
    whole = builder.and_(row.size, _INT64(-N_LANES))
    with cgutils.for_range_slice(builder, _INT64(0), whole, _INT64(N_LANES)) as (start, _):
        add_block(start, None)
    rest = builder.sub(row.size, whole)
    with builder.if_then(builder.icmp_unsigned("!=", rest, _INT64(0))):
        numbers = ir.Constant(ir.VectorType(_INT64, N_LANES), list(range(N_LANES)))
        add_block(whole, builder.icmp_unsigned("<", numbers, _broadcast(builder, rest)))


def _load(builder: Any, array: _Row, start: Any, mask: Any) -> Any:
    """Sixteen entries as doubles; those outside the mask are read as 0 (and not touched)."""
    block = ir.VectorType(array.element, N_LANES)
    pointer = builder.bitcast(builder.gep(array.data, [start]), block.as_pointer())
    size = 8 if array.element == _DOUBLE else 4
    if mask is None:
        entries = builder.load(pointer, align=size)
    else:
        name = f"llvm.masked.load.v{N_LANES}f{8 * size}.p0"
        signature = ir.FunctionType(block, [block.as_pointer(), _INT32, mask.type, block])
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        nothing = ir.Constant(block, [0.0] * N_LANES)
        entries = builder.call(function, [pointer, _INT32(size), mask, nothing])
    return _widen(builder, entries, _LANES)


def _store(builder: Any, entries: Any, array: _Row, start: Any, mask: Any) -> None:
    pointer = builder.bitcast(builder.gep(array.data, [start]), _LANES.as_pointer())
    if mask is None:
        builder.store(entries, pointer, align=8)
        return
    name = f"llvm.masked.store.v{N_LANES}f64.p0"
    arguments = [_LANES, _LANES.as_pointer(), _INT32, mask.type]
    signature = ir.FunctionType(ir.VoidType(), arguments)
    function = cgutils.get_or_insert_function(builder.module, signature, name)
    builder.call(function, [entries, pointer, _INT32(8), mask])


def _fold(builder: Any, lanes: Any) -> Any:
    """Add the upper half of the lanes to the lower half until one is left."""
    half = N_LANES // 2
    while half:
        lower = _pick(builder, lanes, range(half))
        lanes = builder.fadd(lower, _pick(builder, lanes, range(half, 2 * half)))
        half //= 2
    return builder.extract_element(lanes, _INT32(0))


def _pick(builder: Any, vector: Any, which: Sequence[int]) -> Any:
    return builder.shuffle_vector(
        vector, vector, ir.Constant(ir.VectorType(_INT32, len(which)), list(which))
    )


def _broadcast(builder: Any, value: Any) -> Any:
    empty = ir.Constant(ir.VectorType(value.type, N_LANES), ir.Undefined)
    return _pick(builder, builder.insert_element(empty, value, _INT32(0)), [0] * N_LANES)


def _widen(builder: Any, value: Any, wanted: Any) -> Any:
    return value if value.type == wanted else builder.fpext(value, wanted)


def _as_index(builder: Any, slot: Any) -> Any:
    return slot if slot.type == _INT64 else builder.zext(slot, _INT64)
