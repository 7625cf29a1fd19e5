"""How often a second lab would leave, as far as groups of one lab's rows can tell.

A statistic of a second lab, minus mine, is taken as normal with twice the variance of mine: theirs
is as uncertain as mine. Groups of rows show that variance; few groups show it roughly, so draws
are Student's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from replearn.codes import Bound, Coins, Spread
from replearn.types import Matrix, Vector, Words

#: A standard error of 0.007 at a disagreement of 0.1.
N_DRAWS = 2000

#: Fewer groups say nothing about their own spread, and fewer rows make no groups.
MIN_GROUPS, MIN_ROWS = 4, 100


def calibrated(value: float, n_rows: int) -> float:
    """What calibration expects before any row is seen; of very few rows nothing."""
    return min(1.0, value) if n_rows >= MIN_ROWS else 1.0


@cache
def student_draws(n_groups: int) -> Matrix:
    """Normal draws, each divided by the root of a mean of ``n_groups - 1`` squared normals.

    The same for every fit: they decide about no code.
    """
    coins, degrees = Coins("certificate"), n_groups - 1
    draws = coins.normals("draws", N_DRAWS * n_groups).reshape(N_DRAWS, n_groups)
    chi = coins.normals("scale", N_DRAWS * degrees).reshape(N_DRAWS, degrees)
    scaled = draws * np.sqrt(degrees / (chi**2).sum(axis=1))[:, None]
    scaled.setflags(write=False)

    return scaled


def share_beyond(slacks: Vector, moves: Matrix) -> float | None:
    """Share of draws in which some statistic moves by more than its slack.

    ``moves`` has a row for each group: a combination of the rows by standard normals has the law
    of the movement from this lab to another. None: too few groups.
    """
    if len(moves) < MIN_GROUPS:
        return None

    return float((student_draws(len(moves)) @ moves > slacks).any(axis=1).mean())


@dataclass(frozen=True, kw_only=True)
class Rivals(Spread):
    """How near other choices are."""

    slacks: Vector  # how far a statistic may move before a rival is chosen; shape (n_rivals,)
    # a combination of the rows, one for each part, by standard normals is the movement from this
    # lab to another
    moves: Matrix

    def expected(self) -> float | None:
        """Estimated probability, under this seed, that a second lab chooses a rival."""
        return share_beyond(self.slacks, self.moves)


def assumptions(margin: float | None, spread: Spread | None) -> str:
    """What a bound supposes: independent rows of one population, which keeps a margin or not."""
    words = Bound.assumes
    if margin is not None:
        words += f"; the population keeps the margin {margin:.3g}"

    if spread is not None and spread.n_repeated:
        words += (
            f"; {spread.n_repeated:,} rows occur again here, so parts of the sample may not be "
            "independent, and these numbers may be too small"
        )

    return words


def n_repeated(hashes: Iterable[Words]) -> int:
    """Rows that occur a second time, or more often, by the hashes of their content."""
    every = np.sort(np.concatenate(list(hashes)))
    return int(np.count_nonzero(every[1:] == every[:-1]))
