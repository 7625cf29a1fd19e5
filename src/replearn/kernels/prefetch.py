"""Ask for a row before it is needed."""

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from replearn.kernels.lanes import _open_row

_INT32 = ir.IntType(32)
_INT64 = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()
_LINE = 64  # bytes of a cache line


@njit(cache=True, nogil=True, inline="always")
def row_prefetch(rows, k):
    """Ask for row k to be brought into the cache; changes no result."""
    _row_prefetch(rows, k)


@intrinsic
def _row_prefetch(typing_context, rows, k):
    return types.void(rows, types.int64), _prefetches


def _prefetches(context, builder, signature, arguments):
    """Code that asks for each cache line of a row, and waits for none."""
    row = _open_row(context, builder, signature.args, arguments)
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, _INT32, _INT32, _INT32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    for array in (row.data,) if row.columns is None else (row.data, row.columns):
        size = array.type.pointee.get_abi_size(context.target_data)
        n_bytes = builder.mul(row.size, _INT64(size))
        start = builder.bitcast(array, _BYTES)
        with cgutils.for_range_slice(builder, _INT64(0), n_bytes, _INT64(_LINE)) as (place, _):
            line = builder.gep(start, [place])
            builder.call(prefetch, [line, _INT32(0), _INT32(3), _INT32(1)])  # to read, data
    return context.get_dummy_value()
