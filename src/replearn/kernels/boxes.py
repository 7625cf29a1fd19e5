"""Nearest points of a lattice that is a union of shifted boxes, as integer codes.

A point has integer coordinates ``c``, and it belongs to the lattice when ``c``, taken modulo
`moduli` coordinate by coordinate, is one of `words`. Squared lengths are ``sum(weights * c**2)``,
up to a common factor. Given a word, the coordinates do not know of each other: each takes the
nearest integer of its residue class. So the nearest point is the best of as many points as there
are words.

**Exactness.** A coordinate is split into a whole number and a fraction (exactly), and the
fraction is taken to the nearest multiple of 2**-52. From there on everything is integer
arithmetic: squared distances are compared without their common term, which makes them linear in
the fraction. So the order of sums cannot matter, and no compiler or processor can move a code.

**Ties.** Of several nearest points, the one whose ``c`` is lexicographically smallest. A
translation by a lattice vector keeps this order, so codes then shift by exactly that vector.

Coordinates must be finite, at most 2**50 in size; ``weights * moduli**2`` at most 48, in at most
24 coordinates, so that no sum leaves 64 bits.
"""

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.compiler import njit
from replearn.types import Codes, Matrix

_ONE = 1 << 52  # fractions are integers in units of 2**-52


@njit(cache=True, nogil=True)
def _nearest_of_class(fraction, residue, modulus):
    """Nearest integer of a residue class; the lower one wins a tie."""
    step = modulus * _ONE
    distance = fraction - residue * _ONE
    return residue + modulus * ((distance + step // 2 - 1) // step)


@njit(cache=True, nogil=True)
def _fill_tables(wholes, fractions, moduli, weights, values, costs):
    """Tabulate nearest values of all residue classes, and what each costs above the best one."""
    for i in range(wholes.size):
        modulus = moduli[i]
        least = np.int64(1) << 62
        for residue in range(modulus):
            value = _nearest_of_class(fractions[i], (residue - wholes[i]) % modulus, modulus)
            cost = weights[i] * value * (value * _ONE - 2 * fractions[i])
            values[i, residue], costs[i, residue] = value, cost
            least = min(least, cost)
        for residue in range(modulus):
            costs[i, residue] -= least


@njit(cache=True, nogil=True)
def _precedes(values, word, other):
    """Whether the point of a word comes before that of another one."""
    for i in range(word.size):
        mine, theirs = values[i, word[i]], values[i, other[i]]
        if mine != theirs:
            return mine < theirs
    return False


@njit(cache=True, nogil=True)
def _best_word(values, costs, words, common, sums):
    """Index of the word with the nearest point.

    Costs are never negative, so a word whose first places cost too much already is given up, and
    with it all that begin like it; they come right after it, as words are sorted.
    """
    n = words.shape[1]
    best, best_cost = 0, np.int64(1) << 62
    given_up = n  # the place where the last word was
    for j in range(words.shape[0]):
        if common[j] > given_up:
            continue
        word = words[j]
        given_up = n
        for i in range(common[j], n):
            sums[i + 1] = sums[i] + costs[i, word[i]]
            if sums[i + 1] > best_cost:
                given_up = i
                break
        if given_up < n:
            continue
        if sums[n] < best_cost or _precedes(values, word, words[best]):
            best, best_cost = j, sums[n]
    return best


@njit(cache=True, nogil=True)
def nearest_in_boxes(
    scaled: Matrix,
    moduli: NDArray[np.int64],
    weights: NDArray[np.int64],
    words: NDArray[np.int8],
    common: NDArray[np.int64],
) -> Codes:
    """Integer coordinates of the nearest lattice points.

    Points are in units of the integer coordinates. Words are residues, from 0 to ``moduli - 1``, in
    lexicographic order, no word twice; ``common`` says how many first places a word has in common
    with the word before it.

    Examples
    --------
    The hexagonal lattice: both coordinates even or both odd, squared length ``a**2 + 3 b**2``.

    >>> words = np.array([[0, 0], [1, 1]], dtype=np.int8)
    >>> moduli, weights, common = np.array([2, 2]), np.array([1, 3]), np.array([0, 0])
    >>> nearest_in_boxes(np.array([[0.9, 0.4]]), moduli, weights, words, common)
    array([[1, 1]])
    """
    n_points, n = scaled.shape
    codes = np.empty((n_points, n), dtype=np.int64)
    wholes = np.empty(n, dtype=np.int64)
    fractions = np.empty(n, dtype=np.int64)
    values = np.zeros((n, moduli.max()), dtype=np.int64)
    costs = np.zeros((n, moduli.max()), dtype=np.int64)
    sums = np.zeros(n + 1, dtype=np.int64)
    for point in range(n_points):
        for i in range(n):
            whole = np.rint(scaled[point, i])
            wholes[i] = np.int64(whole)
            fractions[i] = np.int64(np.rint((scaled[point, i] - whole) * float(_ONE)))
        _fill_tables(wholes, fractions, moduli, weights, values, costs)
        best = words[_best_word(values, costs, words, common, sums)]
        for i in range(n):
            codes[point, i] = wholes[i] + values[i, best[i]]
    return codes
