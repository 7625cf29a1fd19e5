"""How far a point is from the nearest wall of its cell: sums in a fixed order.

A first lab chooses its hint by these, so they must be the same bits everywhere.
"""

import numpy as np

from replearn.kernels.compiler import njit


@njit(cache=True, nogil=True)
def least_slack(heights, normals, point):
    """Least distance from a point to one of several walls, ``min(heights - normals @ point)``."""
    least = np.inf
    for wall in range(normals.shape[0]):
        reached = 0.0
        for i in range(point.size):
            reached += normals[wall, i] * point[i]
        least = min(least, heights[wall] - reached)
    return least


@njit(cache=True, nogil=True)
def leech_reach(point, words):
    """Largest inner product of a point with the shortest vectors of the Leech lattice.

    ``words`` are the 4096 words of the Golay code as rows of bits; vectors are in integer
    coordinates: two entries +-4; +-2 on a word of weight 8 with an even number of minus signs; -1
    on a word and 1 elsewhere, with one entry moved by 4 to the other side of 0.
    """
    first = second = 0.0
    for i in range(24):
        size = abs(point[i])
        if size > first:
            first, second = size, first
        elif size > second:
            second = size
    largest = 4 * (first + second)
    for word in range(words.shape[0]):
        signed = 0.0  # inner product with the signs of the word
        lowest = np.inf
        on_word = 0.0  # sum of sizes on the word
        smallest = np.inf
        weight = n_negative = 0
        for i in range(24):
            value = point[i]
            if words[word, i]:
                weight += 1
                size = abs(value)
                on_word += size
                smallest = min(smallest, size)
                n_negative += value < 0
                value = -value
            signed += value
            lowest = min(lowest, value)
        largest = max(largest, signed - 4 * lowest)
        if weight == 8:
            odd = n_negative % 2 == 1
            largest = max(largest, 2 * (on_word - 2 * smallest if odd else on_word))
    return largest
