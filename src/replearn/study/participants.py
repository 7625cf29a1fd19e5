"""Labs of a coalition beside each other: who differs by more than rows and centres explain.

Centres differ, so that a test of one population accuses every honest centre once it has rows
enough. A lab is named only if it differs by more than the others differ among themselves.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from replearn.glm import (
    Between,
    CentreFits,
    Coordinates,
    GlmDesign,
    LastIterate,
    assumed,
    learned,
    newton,
)
from replearn.rows import THETA_BITS, ExactSums, on_grid
from replearn.study.passes import PooledFit
from replearn.study.study import GlmStudy
from replearn.study.sums import LabSums
from replearn.types import Matrix, Vector
from replearn.words import Landed, Table

#: Labs that differ this unlikely much, as centres do, are named.
_UNLIKE = 0.001


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
        return self.p_centre < _UNLIKE


@dataclass(frozen=True, kw_only=True)
class LabsTogether:
    """Labs that fitted one model, beside each other."""

    labs: tuple[Participant, ...]
    copies: tuple[tuple[str, str], ...]  # labs whose sums are too similar for different rows
    fits: CentreFits  # the numbers that each lab alone would have
    heterogeneity: Vector  # Cochran's Q of each number
    n_unseen: int = 0  # labs of which the total alone is known: it is the only one of ``labs``

    @property
    def n_labs(self) -> int:
        """Labs that took part."""
        return self.n_unseen or len(self.labs)

    @property
    def agreement(self) -> float:
        """Share of the labs without which the model is the same."""
        return sum(lab.same for lab in self.labs) / len(self.labs)

    @property
    def same_population(self) -> float:
        """p-value of "all labs are of one population", over all numbers (Bonferroni)."""
        if len(self.labs) < 2:
            return 1.0
        from scipy.special import chdtrc

        q = self.heterogeneity
        return min(1.0, q.size * float(chdtrc(len(self.labs) - 1, float(q.max()))))

    @property
    def remarks(self) -> list[str]:
        """Labs to ask about."""
        twice = "have nearly the same sums. Are these rows there twice?"
        return [f"{a!r} and {b!r} {twice}" for a, b in self.copies] + [
            f"{one.lab!r} differs from the others by more than centres do, most in {one.largest}."
            for one in self.labs
            if one.is_unlike
        ]

    def table(self) -> Table:
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
                for one in self.labs
            ],
            key="labs",
        )


def labs_together(
    study: GlmStudy,
    fitted: PooledFit,
    labs: Sequence[LabSums],
    spreads: Vector,
    between_of: Callable[[CentreFits], Between],
) -> LabsTogether:
    """The labs of a fit beside each other, as one Newton step from its last point shows them.

    ``spreads`` are standard deviations of one row's influence on each number; ``between_of`` says
    what centres differ by.
    """
    # the numbers that each lab alone would have
    numbers = _numbers_by_one_step(study.design, fitted.behind)
    own = np.array([numbers(one.sums) for one in labs])
    sizes = np.array([one.rows for one in labs], dtype=np.float64)

    # Cochran's Q of each number
    centre = sizes @ own / sizes.sum()
    q = (sizes[:, None] * ((own - centre) / spreads) ** 2).sum(axis=0)

    # each lab beside all others, first together and then as centres
    total = reduce(add, (one.sums for one in labs))
    participants = []
    for one, alone in zip(labs, own, strict=True):
        rest = numbers(total - one.sums) if len(labs) > 1 else alone
        participants.append(_participant(study, fitted, one, alone, rest, spreads))

    fits = CentreFits(tuple(one.lab for one in labs), own, sizes)
    names = study.design.number_names
    return LabsTogether(
        labs=_beside_the_others(participants, fits, spreads**2, names, between_of),
        copies=near_copies(fits.names, own / spreads, sizes),
        fits=fits,
        heterogeneity=q,
    )


def _numbers_by_one_step(design: GlmDesign, behind: LastIterate) -> Callable[[ExactSums], Vector]:
    """The coordinates that some rows alone would have, by one step from the last point."""
    loss, ridge = design.loss, float(design.ridge)
    precondition = newton.direction_of(behind, loss, ridge).precondition

    def numbers(sums: ExactSums) -> Vector:
        gradient, weight = sums.values["gradient"], sums.count("weight")
        # past points have the gradients of all labs
        own = replace(behind, gradient=gradient, weight=weight, past=(), direction=None)
        step = newton.direction_of(own, loss, ridge, precondition).step
        return design.coordinates.of_theta(behind.theta + on_grid(step, THETA_BITS))

    return numbers


def _participant(
    study: GlmStudy, fitted: PooledFit, one: LabSums, own: Vector, rest: Vector, spreads: Vector
) -> Participant:
    """A lab with its own numbers, and those of the rest."""
    cells, published, codes = study.design.cells, study.design.published, fitted.model.codes
    reach = 1.96 * spreads / math.sqrt(one.rows) / study.widths
    landed = Landed(cells.offsets(own, published) - codes, reach)

    # what the model would be without it, and how far it is from the rest
    is_same = bool((cells.replicate(rest, published) == codes).all())
    n_rest = max(1, fitted.counts.rows - one.rows)
    away = np.abs(own - rest) / (spreads * math.sqrt(1 / one.rows + 1 / n_rest))
    furthest = study.design.number_names[int(np.argmax(away))]
    return Participant(one.lab, one.rows, is_same, _largest_p(away), furthest, landed)


def _chance_of_difference(
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


def _beside_the_others(
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
    return _chance_of_difference(fits.numbers[place] - pooled, sampling, between_of(others))


def learned_from(variance: Vector, coordinates: Coordinates) -> Callable[[CentreFits], Between]:
    """What centres differ by, as some labs show it; one lab shows nothing."""

    def between_of(others: CentreFits) -> Between:
        if len(others.names) < 2:
            return assumed(coordinates)
        pooled = others.n_rows @ others.numbers / others.n_rows.sum()
        return learned(others, variance, coordinates, pooled)

    return between_of


def _largest_p(away: Vector) -> float:
    """p-value of the largest of some normal differences, for any correlation."""
    return min(1.0, len(away) * math.erfc(float(away.max()) / math.sqrt(2)))


def near_copies(names: Sequence[str], scaled: Matrix, sizes: Vector) -> tuple[tuple[str, str], ...]:
    """Pairs of labs that are more similar than different rows ever are.

    Squared differences of independent labs add up to a chi-square. Spreads may be twice too large:
    hence the factor 4.
    """
    from scipy.special import chdtr

    n_pairs, n_numbers = max(1, len(names) * (len(names) - 1) // 2), scaled.shape[1]
    pairs = []
    for i in range(len(names) - 1):
        # this lab beside all that come later
        unit = 1 / sizes[i] + 1 / sizes[i + 1 :]
        totals = ((scaled[i] - scaled[i + 1 :]) ** 2).sum(axis=1) / unit
        chance = chdtr(n_numbers, 4 * totals)

        copies = i + 1 + np.flatnonzero(chance < 1e-4 / n_pairs)
        pairs += [(names[i], names[j]) for j in copies.tolist()]
    return tuple(pairs)
