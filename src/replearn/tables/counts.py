"""What a lab's rows look like to a published encoding: what is counted while they are encoded."""

import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from replearn.errors import ReplearnError
from replearn.tables.cells import Column, signs_meant, texts_of
from replearn.types import Array, Ints32, Mask, Vector

if TYPE_CHECKING:  # an encoding counts into this
    from replearn.tables.encoding import Encoding, LevelColumn, NumberColumn

#: A lab with a larger share of unknown cells in a column is asked about it. It codes the column
#: differently if there are two or three levels; of more, a lab may have others, to a third. Where
#: an original has folded levels, it is half of the cells that it named.
MOST_UNKNOWN = 0.05
_FEW_LEVELS, _MOST_OF_MANY = 3, 1 / 3
#: A larger share of gaps is refused where the study has no coefficient for them.
MOST_MISSING = 0.2

_FEWEST_ROWS = 20  # of which a share says anything
#: Numbers of a column that are kept to look at their quantiles; R and the page keep all.
_MOST_KEPT = KEPT_PER_BATCH = 1 << 14
_MOST_LEVELS = 1 << 12
_MOST_ODD = 1000  # texts
_EXAMPLES = 4


class EncodingCounts:
    """Counts per column, and some of the values, of the rows that were encoded so far.

    Attributes
    ----------
    counts : int64 array with a number for each column
        Its rows are missing, unknown, unreadable and clipped: cells without a value; levels that
        are not published; texts where a number belongs, which count as missing; numbers beyond
        the ends of the published range.
    lowest, highest : arrays with a number for each column
        Of the numbers beyond the ends.
    """

    def __init__(self, encoding: "Encoding") -> None:
        self.encoding = encoding
        self.n_rows = 0
        n_columns = len(encoding.columns)
        self.counts = np.zeros((4, n_columns), dtype=np.int64)
        self.missing, self.unknown, self.unreadable, self.clipped = self.counts
        self.lowest, self.highest = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
        self.levels: list[Counter[str]] = [Counter() for _ in range(n_columns)]
        self._kept: list[list[Vector]] = [[] for _ in range(n_columns)]
        self._strides = [1] * n_columns
        self._odd: list[set[str]] = [set() for _ in range(n_columns)]

    def keep(self, place: int, values: Vector) -> None:
        """Keep some numbers of a column, evenly spaced."""
        step = max(1, len(values) // KEPT_PER_BATCH)
        kept = self._kept[place]
        kept.append(values[:: step * self._strides[place]].copy())
        if sum(map(len, kept)) > _MOST_KEPT:
            self._strides[place] *= 2
            kept[:] = [np.concatenate(kept)[::2]]

    def keep_beyond(self, places: Array, values: Vector) -> None:
        """Count numbers beyond the ends of their columns, and keep the furthest."""
        self.clipped += np.bincount(places, minlength=len(self.levels))
        np.minimum.at(self.lowest, places, values)
        np.maximum.at(self.highest, places, values)

    def keep_levels(self, place: int, codes: Ints32, texts: tuple[str, ...]) -> None:
        """Count the levels of a column."""
        counts = np.bincount(codes[codes >= 0], minlength=len(texts)).tolist()
        levels = self.levels[place]
        levels.update(dict(zip(texts, counts, strict=True)))
        if len(levels) > _MOST_LEVELS:
            self.levels[place] = Counter(dict(levels.most_common(_MOST_LEVELS // 2)))

    def keep_odd(self, place: int, cells: Column, odd: Mask | None) -> None:
        """Keep a few of the texts that a column should not have: the first in their order."""
        texts = texts_of(cells)
        shown = {texts.values[code] for code in np.unique(texts.codes[odd]).tolist()}
        self._odd[place] = set(sorted(self._odd[place] | shown)[:_MOST_ODD])

    def values(self, place: int) -> Vector:
        """Some numbers of a column, sorted."""
        return np.sort(np.concatenate([*self._kept[place], np.empty(0)]))

    def thin(self, most: int) -> None:
        """Keep at most so many numbers of each column: for a message."""
        for place, kept in enumerate(self._kept):
            if kept:
                values = np.concatenate(kept)
                self._kept[place] = [values[:: -(-len(values) // most)].copy()]

    def add(self, other: "EncodingCounts") -> None:
        """Add what was counted elsewhere."""
        self.n_rows += other.n_rows
        self.counts += other.counts
        self.lowest = np.minimum(self.lowest, other.lowest)
        self.highest = np.maximum(self.highest, other.highest)
        for place in range(len(self.levels)):
            self.levels[place].update(other.levels[place])
            self._odd[place] = set(sorted(self._odd[place] | other._odd[place])[:_MOST_ODD])
            for values in other._kept[place]:
                self.keep(place, values)

    def troubles(self, show_values: bool = False) -> list[tuple[str, str]]:
        """Columns that this lab codes differently, each with half a sentence; no cell of a row.

        Columns with more than 5% of cells that are not published, beyond the expected share and
        chance. With ``show_values`` some of these cells are shown.
        """
        if self.n_rows < _FEWEST_ROWS:
            return []

        troubles = []
        has_gaps = self.missing > MOST_MISSING * self.n_rows
        for place in np.flatnonzero(has_gaps | (self.unknown + self.unreadable > 0)).tolist():
            column = self.encoding.columns[place]
            n_known = self.n_rows - int(self.missing[place])
            n_odd = int(self.unknown[place] + self.unreadable[place])
            usual = float(getattr(column, "folded", "0"))
            chance = 3 * math.sqrt(usual * (1 - usual) * n_known)
            most = _most_unknown(column, usual)
            if n_odd <= most * n_known + chance:
                if what := self._gaps(place):
                    troubles.append((column.name, what))
                continue

            # more cells that the study does not know than chance explains
            share = f"{n_odd:,} of {n_known:,} cells ({n_odd / n_known:.1%})"
            what = f"{share} have levels that the study does not know"
            if column.kind == "number":
                what = f"{share} are no numbers"
                if signs := signs_meant(self._odd[place]):
                    what += f"; they look like numbers with other signs: give {signs}"
            if show_values:
                what += f"; such as {', '.join(map(repr, sorted(self._odd[place])[:_EXAMPLES]))}"
            troubles.append((column.name, what))
        return troubles

    def _gaps(self, place: int) -> str:
        """Gaps that the study has no coefficient for, if they are many."""
        column, n_missing = self.encoding.columns[place], int(self.missing[place])
        has_term = any(kind == "missing" for kind, _ in column.terms)
        if has_term or n_missing <= MOST_MISSING * self.n_rows:
            return ""
        return (
            f"{n_missing:,} of {self.n_rows:,} cells ({n_missing / self.n_rows:.1%}) are missing, "
            "where the study has no coefficient for gaps"
        )

    def refuse(self) -> None:
        """Stop at a table that is coded differently from the study, with counts."""
        troubles = self.troubles()
        if not troubles:
            return

        listed = [f"in {name!r} {what}" for name, what in troubles]
        if len(listed) > 5:
            listed[5:] = [f"and {len(listed) - 5} more columns"]
        raise ReplearnError(
            f"the table is coded differently from the study: {'; '.join(listed)}. Recode them "
            "as the study has them, fill gaps in, or ask for a study without these columns."
        )


def _most_unknown(column: "NumberColumn | LevelColumn", folded: float) -> float:
    """Share of unknown cells that a column may have, of which the original has folded some."""
    if folded:
        return folded + (1 - folded) / 2

    # "(other)" and "(missing)" are no levels of a table
    named = [level for level in getattr(column, "levels", ()) if not level.startswith("(")]
    if 1 + len(named) <= _FEW_LEVELS:
        return MOST_UNKNOWN
    return _MOST_OF_MANY
