"""What a match proves, computed from a study's own numbers by whoever prints it.

*In rows*: how many rows of the same population somebody needs to get the model half of the time.
*In bits*: how unlikely the best guess of somebody is who holds the study file and no rows.
"""

import math
from dataclasses import dataclass

import numpy as np

from replearn.codes.sketch import Cells
from replearn.types import Codes, Vector

#: Guesses that cost nothing: whoever holds an open study can test so many against its commitment.
FREE_BITS = 40.0
#: Fewer bits, or rows, than these prove nothing.
LEAST_BITS, LEAST_ROWS = 10.0, 50
_MOST_ROWS = 10**12


def rows_to_match(widths: Vector, spreads: Vector, n_original: int) -> int:
    """Rows at which a lab gets the model half of the time.

    ``spreads`` are standard deviations of one row's influence on each number; the original, with
    its ``n_original`` rows, is uncertain too.
    """

    def match_half(n_rows: int) -> bool:
        """Whether numbers at the centre of their cells stay there, if they differ normally."""
        deviations = spreads * math.sqrt(1 / n_rows + 1 / n_original)
        chances = (math.erf(x) for x in widths / (2 * math.sqrt(2) * deviations))
        return math.exp(sum(math.log(max(chance, 1e-300)) for chance in chances)) >= 0.5

    return first_rows(match_half)


def rows_to_find(widths: Vector, spreads: Vector, n_original: int) -> int:
    """Rows at which a lab that tries 2^40 neighbouring models finds the one that fits.

    The number of tries that a good search needs is about two to the entropy of the codes, given
    what the lab's own rows say about them.
    """

    def bits(n_rows: int) -> float:
        deviations = spreads * math.sqrt(1 / n_rows + 1 / n_original)
        ratios = (widths / deviations).tolist()
        return math.fsum(_entropy(ratio) for ratio in ratios)

    return first_rows(lambda n_rows: bits(n_rows) <= FREE_BITS)


def first_rows(holds) -> int:  # type: ignore[no-untyped-def]
    """The least number of rows at which something holds that holds beyond it too."""
    low, high = 0, 1
    while not holds(high):
        low, high = high, high * 2
        if high > _MOST_ROWS:
            return _MOST_ROWS
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _entropy(ratio: float) -> float:
    """Bits of a normal number that is rounded to cells of this many standard deviations."""
    if ratio < 0.5:
        return 0.5 * math.log2(2 * math.pi * math.e) - math.log2(ratio)
    total, k = 0.0, 0
    while True:
        low, high = ((k - 0.5) * ratio, (k + 0.5) * ratio)
        p = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2
        if p < 1e-12:
            return total
        total -= (1 if k == 0 else 2) * p * math.log2(p)
        k += 1


def bits_of(cells: Cells, sketch: Codes, numbers: Vector, known: int) -> float:
    """How unlikely the best guess is of somebody without rows, in bits.

    ``numbers`` are the model's own, decoded; of these the first ``known`` follow from the base
    rate, which is published. The guesser knows cells and sketch, and how strong the model is as a
    whole: numbers are normal around 0 with the mean square that the model's have. What is not known
    is which columns matter and in which direction. The bits are minus log2 of the most likely cell
    of each number.
    """
    rest = numbers.reshape(-1)[known:]
    if not rest.size:
        return 0.0
    scale = math.sqrt(float(np.mean(rest**2)))
    if scale == 0:
        return 0.0
    parts = 1 << cells.bits
    total = 0.0
    for i in range(known, len(cells.widths)):
        shift = (float(cells.shifts[i]) - int(sketch[i]) / parts) % 1.0
        off = min(shift, 1.0 - shift)  # from 0 to the nearest centre of a cell, in cells
        width = float(cells.widths[i]) / scale
        low, high = (off - 0.5) * width, (off + 0.5) * width
        p = (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2))) / 2
        total -= math.log2(max(p, 1e-300))
    return total


@dataclass(frozen=True)
class Evidence:
    """What a match proves."""

    rows: int  # that an honest lab needs, to get the model half of the time
    # that a lab needs which tries 2^40 neighbours; 0 if these find the model without any rows, None
    # where a seal forbids it
    rows_search: int | None
    bits: float  # against somebody who has the study file and no rows
    bits_search: float | None  # the same, less the 40 bits of free guesses

    def words(self) -> str:
        """In rows, in a sentence."""
        if self.bits < LEAST_BITS:
            tries = _two_digits(round(2**self.bits))
            return f"A match proves little: a guess without rows hits once in about {tries} tries."
        honest = f"A lab needs about {_two_digits(self.rows)} rows of its own to get this model"
        if self.rows_search is None:
            return f"{honest}."
        if self.rows_search < LEAST_ROWS:
            return f"{honest}; one that tries 2^40 models needs hardly any."
        return f"{honest}; one that tries 2^40 models, about {_two_digits(self.rows_search)}."


def _two_digits(number: int) -> str:
    return f"{float(f'{number:.1e}'):,.0f}"
