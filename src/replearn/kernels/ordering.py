"""Random orders of rows, by keys that any row can make for itself."""

import numpy as np

from replearn.kernels.compiler import njit
from replearn.kernels.philox import philox_block

_ROWS_PER_BUCKET = 4


@njit(cache=True, nogil=True)
def fill_keys(first, key0, key1, out):
    """Write words ``first``, ``first + 1``, ... of row 0 of a stream: one key for each row."""
    for i in range(out.size):
        place = np.uint64(first + i)
        if i == 0 or place % np.uint64(4) == 0:
            four = philox_block(place // np.uint64(4), np.uint64(0), key0, key1)
        out[i] = four[place % np.uint64(4)]


@njit(cache=True, nogil=True)
def order_by_keys(keys):
    """Places of the keys from the smallest to the largest; of equal ones, the first comes first.

    The keys are uniform, so their leading bits cut them into buckets of a few each: one pass to
    count, one to distribute, and a sort by insertion, in which no row moves far.
    """
    n = keys.size
    bits = 0
    while n >> (bits + 1) >= _ROWS_PER_BUCKET:
        bits += 1
    shift = np.uint64(63 - bits)  # in two steps, because a shift by 64 is not defined
    ends = np.zeros((1 << bits) + 1, np.int64)
    for key in keys:
        ends[((key >> shift) >> np.uint64(1)) + np.uint64(1)] += 1
    for bucket in range(1, ends.size):
        ends[bucket] += ends[bucket - 1]
    order = np.empty(n, np.int64)
    for i in range(n):  # ends[b] starts as the beginning of bucket b
        bucket = (keys[i] >> shift) >> np.uint64(1)
        order[ends[bucket]] = i
        ends[bucket] += 1
    for i in range(1, n):  # sorted but for the few rows of each bucket
        row, k = order[i], i
        while k > 0 and keys[order[k - 1]] > keys[row]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = row
    return order
