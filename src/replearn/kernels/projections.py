"""Shared linear maps made on the fly from counter-based bits: no matrix is ever stored.

Each map has an ``apply`` (``A z``) and a ``lift`` (``A^T b``). All sums run in one fixed order,
so the results are the same bits everywhere. Scaling to unit expectation is left to the caller.
"""

import math

import numpy as np

from replearn.kernels.compiler import interpreted_as, njit
from replearn.kernels.lanes import dot
from replearn.kernels.philox import fill_normals, fill_signs, philox_block

_ONE = np.uint64(1)
_BLOCK = 256  # signs in one Philox block: 4 words of 64 bits
_CHUNK = 4096  # doubles that stay in the first-level cache


@njit(cache=True, nogil=True)
def gaussian_apply(z, key0, key1, out):
    """``out[i] = sum_j N_ij z_j``; row ``i`` of N is row ``i`` of the stream."""
    row_entries = np.empty(z.size)
    for i in range(out.size):
        fill_normals(np.uint64(i), key0, key1, row_entries)
        out[i] = dot(row_entries, z)


@njit(cache=True, nogil=True)
def gaussian_lift(b, key0, key1, out):
    """``out[j] = sum_i N_ij b_i``, rows added in ascending order."""
    row_entries = np.empty(out.size)
    out[:] = 0.0
    for i in range(b.size):
        fill_normals(np.uint64(i), key0, key1, row_entries)
        scale = b[i]
        for j in range(out.size):
            out[j] += scale * row_entries[j]


@njit(cache=True, nogil=True)
def _signed_sums(eight, table):
    """``table[byte]`` = sum of the eight numbers, each with the sign that its bit of byte says."""
    table[0] = -(
        ((eight[0] + eight[1]) + (eight[2] + eight[3]))
        + ((eight[4] + eight[5]) + (eight[6] + eight[7]))
    )
    for bit in range(8):
        twice = 2.0 * eight[bit]
        for byte in range(1 << bit):
            table[byte + (1 << bit)] = table[byte] + twice


@njit(cache=True, nogil=True)
def signs_apply(z, key0, key1, out):
    """``out[i] = sum_j s_ij z_j``: 256 columns at a time, by table look-up of eight signs each."""
    tables = np.empty((32, 256))
    padded = np.zeros(_BLOCK)
    out[:] = 0.0
    for block in range((z.size + _BLOCK - 1) // _BLOCK):
        part = z[block * _BLOCK : (block + 1) * _BLOCK]
        padded[:] = 0.0
        padded[: part.size] = part
        for group in range(32):
            _signed_sums(padded[8 * group : 8 * group + 8], tables[group])
        for i in range(out.size):
            four = philox_block(np.uint64(block), np.uint64(i), key0, key1)
            total = 0.0
            for w in range(4):
                word = four[w]
                for byte in range(8):
                    index = (word >> np.uint64(8 * byte)) & np.uint64(255)
                    total += tables[8 * w + byte, index]
            out[i] += total


def _signs_lift_by_rows(b, key0, key1, out):
    """The same, a row at a time."""
    signs = np.empty(out.size)
    out[:] = 0.0
    for i in range(b.size):
        fill_signs(np.uint64(i), key0, key1, signs)
        out += b[i] * signs


@interpreted_as(_signs_lift_by_rows)
@njit(cache=True, nogil=True)
def signs_lift(b, key0, key1, out):
    """``out[j] = sum_i s_ij b_i``, rows added in ascending order, 256 columns at a time."""
    part = np.empty(_BLOCK)
    for block in range((out.size + _BLOCK - 1) // _BLOCK):
        part[:] = 0.0
        for i in range(b.size):
            four = philox_block(np.uint64(block), np.uint64(i), key0, key1)
            scale = b[i]
            for w in range(4):
                word = four[w]
                for bit in range(64):
                    up = (word >> np.uint64(bit)) & _ONE
                    part[64 * w + bit] += scale if up else -scale
        here = out[block * _BLOCK : (block + 1) * _BLOCK]
        here[:] = part[: here.size]


@njit(cache=True, nogil=True)
def _reflect(normal, length, y):
    """Householder reflection that sends ``normal`` to a multiple of the first axis, in place.

    ``normal[0]`` already holds the first entry of the mirror's normal vector.
    """
    factor = dot(normal, y) / (length * abs(normal[0]))
    for j in range(y.size):
        y[j] -= factor * normal[j]


@njit(cache=True, nogil=True)
def _mirror(row, key0, key1, out):
    """Fill ``out`` with the mirror vector of one Gaussian; return its length and its sign."""
    fill_normals(row, key0, key1, out)
    length = math.sqrt(dot(out, out))
    sign = 1.0 if out[0] >= 0.0 else -1.0
    out[0] += sign * length
    return length, sign


@njit(cache=True, nogil=True)
def rotate(y, key0, key1):
    """Apply a Haar-distributed rotation to ``y`` in place: ``D H_{d-2} ... H_0`` [Stewart80].

    Mirror ``i`` acts on ``y[i:]`` and comes from row ``i`` of the stream, ``d - i`` normals.
    """
    buffer = np.empty(y.size)
    for i in range(y.size):
        length, sign = _mirror(np.uint64(i), key0, key1, buffer[: y.size - i])
        if i < y.size - 1:
            _reflect(buffer[: y.size - i], length, y[i:])
        y[i] *= -sign


@njit(cache=True, nogil=True)
def unrotate(y, key0, key1):
    """Apply the inverse of ``rotate`` in place."""
    buffer = np.empty(y.size)
    for i in range(y.size - 1, -1, -1):
        length, sign = _mirror(np.uint64(i), key0, key1, buffer[: y.size - i])
        y[i] *= -sign
        if i < y.size - 1:
            _reflect(buffer[: y.size - i], length, y[i:])


def _butterflies_at_once(y, first_stride, last_stride):
    """The same, a level at a time."""
    stride = first_stride
    while stride < last_stride:
        pairs = y.reshape(-1, 2, stride)
        left, right = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = left + right, left - right
        stride *= 2


@interpreted_as(_butterflies_at_once)
@njit(cache=True, nogil=True)
def _butterflies(y, first_stride, last_stride):
    """The levels ``first_stride <= stride < last_stride`` of the Hadamard transform, in place."""
    stride = first_stride
    while stride < last_stride:
        for start in range(0, y.size, 2 * stride):
            left = y[start : start + stride]
            right = y[start + stride : start + 2 * stride]
            for j in range(stride):
                a = left[j]
                b = right[j]
                left[j] = a + b
                right[j] = a - b
        stride *= 2


@njit(cache=True, nogil=True)
def hadamard(y):
    """Orthonormal Walsh-Hadamard transform in place; ``y.size`` is a power of two."""
    n = y.size
    small = min(n, _CHUNK)
    for start in range(0, n, small):  # the first levels never leave the cache
        _butterflies(y[start : start + small], 1, small)
    _butterflies(y, small, n)
    scale = 1.0 / math.sqrt(n)
    for j in range(n):
        y[j] *= scale
