"""Ask for a row before it is needed."""

from functools import cache

import numpy as np

from replearn.kernels.compiler import cgutils, intrinsic, intrinsic_or, ir, njit, types
from replearn.kernels.lanes import DenseRows, SparseRows, _open_row
from replearn.kernels.vector_code import compiles, either

_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_LINE = 64  # bytes of a cache line


@njit(cache=True, nogil=True, inline="always")
def row_prefetch(rows, k):
    """Ask for row k to be brought into the cache; changes no result."""
    _row_prefetch(rows, k)


@njit
def _no_prefetch(rows, k):
    """Without prefetching, a row comes when it is read."""


@intrinsic_or(_no_prefetch)
def _row_prefetch(typing_context, rows, k):
    return types.void(rows, types.int64), either(prefetch_works(), _prefetches, _no_prefetch)


@cache
def prefetch_works() -> bool:
    """Whether this numba takes the code below; looked up once, when something is compiled."""
    return compiles(_probe)


def _probe() -> None:
    members = np.zeros(1, np.int64)
    _use_prefetch(DenseRows(np.ones((1, 17)), members), 0)
    columns = np.arange(17, dtype=np.int32)
    _use_prefetch(SparseRows(np.ones(17), columns, np.array([0, 17]), members), 0)


@intrinsic
def _sure_prefetch(typing_context, rows, k):
    return types.void(rows, types.int64), _prefetches


@njit
def _use_prefetch(rows, k):
    _sure_prefetch(rows, k)


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
