"""Labs of a coalition beside each other: who differs by more than rows and centres explain.

Centres differ, so that a test of one population accuses every honest centre once it has rows
enough. A lab is named only if it differs by more than the others differ among themselves.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from replearn.glm import Between, CentreFits, Coordinates, assumed, learned
from replearn.types import Vector
from replearn.words import Landed, Table

#: Labs that differ this unlikely much, as centres do, are named.
UNLIKELY = 0.001


@dataclass(frozen=True)
class Participant:
    """A lab of a coalition beside the others."""

    lab: str
    rows: int
    same: bool  # whether the model is the same without it (estimated by one Newton step)
    # of "this lab and the others are of one population": its largest difference, in the spread that
    # the study publishes, which no lab can change
    p: float
    largest: str  # the number that differs most
    landed: Landed  # where its own numbers lie in the cells, with 95% intervals
    p_centre: float = 1.0  # of "this lab differs from the others as centres do"

    @property
    def is_unlike(self) -> bool:
        """Whether it differs by more than centres do."""
        return self.p_centre < UNLIKELY


def remarks_on(labs: Sequence[Participant], copies: Sequence[tuple[str, str]]) -> list[str]:
    """Labs to ask about."""
    twice = "have nearly the same sums. Are these rows there twice?"
    return [f"{a!r} and {b!r} {twice}" for a, b in copies] + [
        f"{lab.lab!r} differs from the others by more than centres do, most in {lab.largest}."
        for lab in labs
        if lab.is_unlike
    ]


def lab_table(labs: Sequence[Participant]) -> Table:
    """All labs, in one table."""
    return Table(
        "Labs: the model without each, and how likely they differ so much (p)",
        ("lab", "rows", "without it", "one population", "as centres", "most in"),
        [
            (
                one.lab,
                one.rows,
                "the same" if one.same else "differs",
                one.p,
                one.p_centre,
                one.largest,
            )
            for one in labs
        ],
        key="labs",
    )


def chance_of_difference(
    difference: Vector, sampling: Vector, between: Between
) -> tuple[float, int]:
    """p-value of the largest difference between a lab and others, and which number it is.

    ``sampling`` are standard deviations that rows explain. Student's law, since few centres show
    how they differ; valid for any correlation (Bonferroni).
    """
    from scipy.special import stdtr

    deviations = between.with_sampling(sampling)
    away = np.abs(difference) / deviations
    freedoms = np.full(len(away), np.inf)
    if between.n_centres > 1:  # rows show the rest of the variance
        shown = np.maximum(between.deviations / deviations, 1e-6)
        freedoms = (4 + between.n_centres - 1) / shown**4
    chances = 2 * stdtr(freedoms, -away)
    largest = int(np.argmin(chances))
    return min(1.0, len(chances) * float(chances[largest])), largest


def beside_the_others(
    labs: Sequence[Participant],
    fits: CentreFits,
    variance: Vector,
    names: Sequence[str],
    between_of: Callable[[CentreFits], Between],
) -> tuple[Participant, ...]:
    """Each lab beside the others, and how unlikely it differs so much if it differs as centres do.

    ``variance`` is that of one row's influence on each number; ``between_of`` says what centres
    differ by, and may learn it from the other labs. The lab that differs most is no longer among
    the others once it is named: it would make each honest lab look different, or, where differences
    are learned, hide among wide ones.
    """
    compared = list(labs)
    trusted = list(range(len(labs)))
    while len(trusted) > 1:
        for place in trusted:
            rest = [other for other in trusted if other != place]
            p, largest = _difference_from(fits, place, rest, variance, between_of)
            p_centre = min(1.0, len(labs) * p)
            compared[place] = replace(labs[place], p_centre=p_centre, largest=names[largest])
        furthest = min(trusted, key=lambda place: compared[place].p_centre)
        if not compared[furthest].is_unlike:
            break
        trusted.remove(furthest)
    return tuple(compared)


def _difference_from(
    fits: CentreFits,
    place: int,
    rest: list[int],
    variance: Vector,
    between_of: Callable[[CentreFits], Between],
) -> tuple[float, int]:
    """A lab beside the pooled numbers of some others."""
    sizes, own = fits.n_rows[rest], fits.numbers[rest]
    others = CentreFits(tuple(fits.names[other] for other in rest), own, sizes)
    pooled = sizes @ own / sizes.sum()
    sampling = np.sqrt(variance * (1 / fits.n_rows[place] + 1 / sizes.sum()))
    return chance_of_difference(fits.numbers[place] - pooled, sampling, between_of(others))


def learned_from(variance: Vector, coordinates: Coordinates) -> Callable[[CentreFits], Between]:
    """What centres differ by, as some labs show it; one lab shows nothing."""

    def between_of(others: CentreFits) -> Between:
        if len(others.names) < 2:
            return assumed(coordinates)
        pooled = others.n_rows @ others.numbers / others.n_rows.sum()
        return learned(others, variance, coordinates, pooled)

    return between_of


def one_population_p(away: Vector) -> float:
    """p-value of the largest of some normal differences, for any correlation."""
    return min(1.0, len(away) * math.erfc(float(away.max()) / math.sqrt(2)))
