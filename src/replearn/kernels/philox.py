"""Philox4x64-10 [SMDS11] and what is made of its bits, without libm.

Word ``j`` of row ``r`` under a key is word ``j % 4`` of the Philox block with counter
``(1 + j // 4, r, 0, 0)``: the stream of ``numpy.random.Philox(key=key, counter=[0, r, 0, 0])``.
Any word can be made anywhere, in any order. Only IEEE additions, multiplications, divisions
and square roots follow, in a fixed order, so every platform gets the same bits.
The format is specified in docs/shared-randomness.md.
"""

import math

import numpy as np

from replearn.kernels.compiler import interpreted_as, intrinsic_or, ir, njit, types, wrapping
from replearn.kernels.portable import LN2_HI, LN2_LO

_MULTIPLIER_0 = np.uint64(0xD2E7470EE14C6C93)
_MULTIPLIER_1 = np.uint64(0xCA5A826395121157)
_WEYL_0 = np.uint64(0x9E3779B97F4A7C15)
_WEYL_1 = np.uint64(0xBB67AE8584CAA73B)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)

_SQRT_HALF = 0.7071067811865476

_ROWS_PER_BUCKET = 4


def _upper_half(a, b):
    """The same in the interpreter."""
    return np.uint64((int(a) * int(b)) >> 64)


@intrinsic_or(_upper_half)
def _high_product(typing_context, a, b):  # numba gives the intrinsic its typing context
    """Upper 64 bits of the 128-bit product, as the one machine instruction that it is."""

    def emit(context, builder, signature, arguments):
        wide = ir.IntType(128)
        left, right = (builder.zext(value, wide) for value in arguments)
        high = builder.lshr(builder.mul(left, right), ir.Constant(wide, 64))
        return builder.trunc(high, ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), emit


@wrapping
@njit(cache=True, nogil=True)
def philox_block(block, row, key0, key1):
    """The four words of one block: ten rounds on the counter ``(block + 1, row, 0, 0)``."""
    c0, c1, c2, c3 = block + _ONE, row, _ZERO, _ZERO
    for _ in range(10):
        high0, low0 = _high_product(_MULTIPLIER_0, c0), _MULTIPLIER_0 * c0
        high1, low1 = _high_product(_MULTIPLIER_1, c2), _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ key0, low1, high0 ^ c3 ^ key1, low0
        key0 += _WEYL_0
        key1 += _WEYL_1
    return c0, c1, c2, c3


def _words_of_numpy(row, key0, key1, out):
    """The same from NumPy, whose counter is raised before the first block."""
    counter = np.array([0, row, 0, 0], dtype=np.uint64)
    key = np.array([key0, key1], dtype=np.uint64)
    out[:] = np.random.Philox(counter=counter, key=key).random_raw(out.size)


@interpreted_as(_words_of_numpy)
@njit(cache=True, nogil=True)
def fill_words(row, key0, key1, out):
    """Write the first ``out.size`` words of a row."""
    n_whole = out.size // 4
    for block in range(n_whole):
        part = out[4 * block : 4 * block + 4]
        part[0], part[1], part[2], part[3] = philox_block(np.uint64(block), row, key0, key1)
    if out.size > 4 * n_whole:
        four = philox_block(np.uint64(n_whole), row, key0, key1)
        for i in range(4 * n_whole, out.size):
            out[i] = four[i - 4 * n_whole]


@njit(cache=True, nogil=True)
def natural_log(x):
    """Natural logarithm of a normal positive number, within 2 units in the last place.

    ``ln(x) = e ln 2 + 2 artanh(s)`` with ``s = (m - 1) / (m + 1)``, ``m`` in ``[.7, 1.4)``.
    """
    mantissa, exponent = math.frexp(x)
    if mantissa < _SQRT_HALF:
        mantissa *= 2.0
        exponent -= 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    s2 = s * s
    series = 0.0
    for i in range(11, 0, -1):
        series = (series + 1.0 / (2 * i + 1)) * s2
    return exponent * LN2_HI + (2.0 * s + (2.0 * s * series + exponent * LN2_LO))


@njit(cache=True, nogil=True)
def _tail_quantile(p):
    """Minus the normal quantile of ``p < .075``: the two outer branches of AS 241 [Wichura88]."""
    r = math.sqrt(-natural_log(p))
    if r <= 5.0:
        r -= 1.6
        num = 7.74545014278341407640e-4
        num = num * r + 2.27238449892691845833e-2
        num = num * r + 2.41780725177450611770e-1
        num = num * r + 1.27045825245236838258e0
        num = num * r + 3.64784832476320460504e0
        num = num * r + 5.76949722146069140550e0
        num = num * r + 4.63033784615654529590e0
        num = num * r + 1.42343711074968357734e0
        den = 1.05075007164441684324e-9
        den = den * r + 5.47593808499534494600e-4
        den = den * r + 1.51986665636164571966e-2
        den = den * r + 1.48103976427480074590e-1
        den = den * r + 6.89767334985100004550e-1
        den = den * r + 1.67638483018380384940e0
        den = den * r + 2.05319162663775882187e0
        den = den * r + 1.0
        return num / den
    r -= 5.0
    num = 2.01033439929228813265e-7
    num = num * r + 2.71155556874348757815e-5
    num = num * r + 1.24266094738807843860e-3
    num = num * r + 2.65321895265761230930e-2
    num = num * r + 2.96560571828504891230e-1
    num = num * r + 1.78482653991729133580e0
    num = num * r + 5.46378491116411436990e0
    num = num * r + 6.65790464350110377720e0
    den = 2.04426310338993978564e-15
    den = den * r + 1.42151175831644588870e-7
    den = den * r + 1.84631831751005468180e-5
    den = den * r + 7.86869131145613259100e-4
    den = den * r + 1.48753612908506148525e-2
    den = den * r + 1.36929880922735805310e-1
    den = den * r + 5.99832206555887937690e-1
    den = den * r + 1.0
    return num / den


@njit(cache=True, nogil=True)
def _central_quantile(q):
    """The normal quantile of ``.5 + q``, ``|q| <= .425``: the inner branch of AS 241."""
    r = 0.180625 - q * q
    num = 2509.0809287301226727
    num = num * r + 33430.575583588128105
    num = num * r + 67265.770927008700853
    num = num * r + 45921.953931549871457
    num = num * r + 13731.693765509461125
    num = num * r + 1971.5909503065514427
    num = num * r + 133.14166789178437745
    num = num * r + 3.387132872796366608
    den = 5226.495278852545925
    den = den * r + 28729.085735721942674
    den = den * r + 39307.89580009271061
    den = den * r + 21213.794301586595867
    den = den * r + 5394.1960214247511077
    den = den * r + 687.1870074920579083
    den = den * r + 42.313330701600911252
    den = den * r + 1.0
    return q * num / den


@njit(cache=True, nogil=True)
def _midpoint(word):
    """Midpoint of one of 2^52 equal intervals of ``(0, 1)``; it and its complement are exact."""
    return np.float64(np.int64(word >> np.uint64(12)) * 2 + 1) * 2.0**-53


@njit(cache=True, nogil=True)
def uniform_from_word(word):
    """Uniform on the multiples of 2^-53 in ``[0, 1)``."""
    return np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53


@njit(cache=True, nogil=True)
def uniforms_from_words(words, out):
    """A uniform from each word."""
    for i in range(out.size):
        out[i] = uniform_from_word(words[i])


@njit(cache=True, nogil=True)
def fill_normals(row, key0, key1, out):
    """Write the first ``out.size`` standard normals of a row: inversion of ``_midpoint``."""
    words = np.empty(out.size, dtype=np.uint64)
    fill_words(row, key0, key1, words)
    normals_from_words(words, out)


def _normals_at_once(words, out):
    """The same, with all of the centre in one go: each operation is that of a single number."""
    p = _midpoint(words)
    out[:] = _central_quantile(p - 0.5)
    for i in np.flatnonzero(p < 0.075):
        out[i] = -_tail_quantile(p[i])
    for i in np.flatnonzero(p > 0.925):
        out[i] = _tail_quantile(1.0 - p[i])


@interpreted_as(_normals_at_once)
@njit(cache=True, nogil=True)
def normals_from_words(words, out):
    """A standard normal from each word."""
    for i in range(out.size):  # no branch here, so that the compiler can vectorise it
        out[i] = _central_quantile(_midpoint(words[i]) - 0.5)
    for i in range(out.size):
        p = _midpoint(words[i])
        if p < 0.075:
            out[i] = -_tail_quantile(p)
        elif p > 0.925:
            out[i] = _tail_quantile(1.0 - p)


def _signs_at_once(row, key0, key1, out):
    """The same: the lowest bit of the lowest byte comes first."""
    words = np.empty((out.size + 63) // 64, dtype="<u8")
    fill_words(row, key0, key1, words)
    bits = np.unpackbits(words.view(np.uint8), count=out.size, bitorder="little")
    out[:] = np.where(bits, 1.0, -1.0)


@interpreted_as(_signs_at_once)
@njit(cache=True, nogil=True)
def fill_signs(row, key0, key1, out):
    """Write the first ``out.size`` signs of a row: bit ``j % 64`` of word ``j // 64``, 1 for +1."""
    n = out.size
    words = np.empty((n + 63) // 64, dtype=np.uint64)
    fill_words(row, key0, key1, words)
    for j in range(n):
        bit = (words[j >> 6] >> np.uint64(j & 63)) & _ONE
        out[j] = 1.0 if bit else -1.0


@njit(cache=True, nogil=True)
def shuffle_front(row, key0, key1, n_front, items):
    """Fisher-Yates from the front, in place: after it ``items[:n_front]`` is a uniform sample.

    Step ``i`` swaps ``items[i]`` with ``items[i + floor(word_i (n - i) / 2^64)]``; one word a
    step, whatever happens (the bias is below ``n / 2^64``).
    """
    n = items.size
    words = np.empty(n_front, dtype=np.uint64)
    fill_words(row, key0, key1, words)
    for i in range(n_front):
        j = i + np.int64(_high_product(words[i], np.uint64(n - i)))
        items[i], items[j] = items[j], items[i]


@njit(cache=True, nogil=True)
def gumbels_from_words(words, out):
    """A Gumbel draw from each word: ``-ln(-ln p)``, p its ``_midpoint``."""
    for i in range(out.size):
        out[i] = -natural_log(-natural_log(_midpoint(words[i])))


@njit(cache=True, nogil=True)
def exponentials_from_words(words, out):
    """An exponential draw from each word: ``-ln p``, p its ``_midpoint``."""
    for i in range(out.size):
        out[i] = -natural_log(_midpoint(words[i]))


@njit(cache=True, nogil=True)
def index_from_word(word, n):
    """Uniform on ``0, ..., n - 1``: ``floor(word n / 2^64)`` (the bias is below ``n / 2^64``)."""
    return np.int64(_high_product(word, np.uint64(n)))


# --- orders of rows, by keys that any row can make for itself -----------------------------------


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
