"""Seeds whose cells happen to lie badly, named before any site fits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from replearn.codes.design import Design
from replearn.codes.randomness import SharedRandomness
from replearn.stages.scores import best_hint, in_cells
from replearn.study.pilot.truth import TIE, Labelled, PlanRow, shifted
from replearn.types import Matrix, Vector

_ELSEWHERE = 20  # weights near the pilot's

#: Losses that are smaller than this share of the base rate's are not worth another seed.
_WORTH_ANOTHER = 1e-3

#: Seeds that a seed is compared with.
_OTHER_SEEDS = tuple(f"pilot/{i}" for i in range(60))

_OTHER_VALUE = "Take another public value, before any site fits."

_MOST_TRIED = 40  # seeds, in place of one that will not do


def next_seed(seed: str, fits: Callable[[str], bool]) -> str | None:
    """The first of "seed/2", "seed/3" and so on that will do: there is nothing to choose."""
    others = (f"{seed}/{i}" for i in range(2, 2 + _MOST_TRIED))
    return next(filter(fits, others), None)


def no_cautions(seed: str) -> list[str]:
    """No caution about a seed, where nobody can tell."""
    return []


def rounded(design: Design, seed: str, theta: Vector) -> Vector:
    """What a site at some weights gets under a seed: the model of its cell.

    Other sites get it, too, or that of a neighbour.
    """
    shared, components = SharedRandomness(seed), in_cells(theta, design)
    space = design.space.with_hint(best_hint(components, design, shared))
    return space.theta(space.encode(components, shared), shared)


@dataclass(frozen=True)
class SeedCheck:
    """Says whether a seed is an unlucky one: worse than nine of ten for the sites.

    The scores are held-out log-odds of the pilot's rows that stand for a model at ``theta``; of
    more than two classes a column for each.
    """

    design: Design
    theta: Vector  # where the sites are expected
    columns: Matrix  # the pilot's rows in the published directions, after a constant
    labelled: Labelled
    scores: Any
    base: PlanRow  # always the base rate

    def cautions(self, seed: str) -> list[str]:
        """What must be said about a seed."""
        moved = self._moved(seed)
        loss = self.labelled.loss(moved)
        negligible = self.labelled.loss(self.scores) + _WORTH_ANOTHER * self.base.log_loss
        if loss <= max(negligible, self._nine_of_ten):
            return self._inverted(seed)
        return [
            f"This seed is unlucky: if the sites' rows say what the pilot's say, their model has "
            f"log-loss {loss:.4f} and AUC {self.labelled.auc(moved):.3f}, worse than under "
            f"nine of ten seeds. {_OTHER_VALUE}"
        ]

    def _moved(self, seed: str, theta: Vector | None = None) -> Any:
        """Held-out log-odds after rounding under a seed, of sites at ``theta`` or elsewhere."""
        moved = rounded(self.design, seed, self.theta if theta is None else theta) - self.theta
        return shifted(self.scores, self.columns, moved, self.design)

    def _inverted(self, seed: str) -> list[str]:
        """A caution, if sites that the pilot cannot exclude would rank the wrong way round."""
        if not self.inverts(seed):
            return []
        return [
            f"Under this seed the model may rank the wrong way round: {self._n_inverted(seed)} of "
            f"{len(self._elsewhere)} weights that the pilot cannot exclude end up so. "
            f"{_OTHER_VALUE}"
        ]

    def inverts(self, seed: str) -> bool:
        """Whether the model may rank the wrong way round, for sites the pilot cannot exclude."""
        return self._n_inverted(seed) * 10 > len(self._elsewhere)

    def _n_inverted(self, seed: str) -> int:
        ranks = (self.labelled.auc(self._moved(seed, theta)) for theta in self._elsewhere)
        return sum(rank < 0.5 - TIE for rank in ranks)

    def upright(self, seed: str) -> tuple[str, list[str]]:
        """The seed, or the next one that does not invert the model, and what to say of that."""
        other = next_seed(seed, lambda s: not self.inverts(s)) if self.inverts(seed) else None
        if other is None:
            return seed, []
        return other, [
            f"Under the seed {seed!r} the model may rank the wrong way round, so the protocol has "
            f"the seed {other!r}, the first one after it under which it does not."
        ]

    @cached_property
    def _elsewhere(self) -> Matrix:
        """Weights that the pilot cannot exclude, drawn as far from its own as its size allows."""
        design, q = self.design, self.theta.size
        rows = design.samples_per_site / (2 * len(self.columns))
        normals = SharedRandomness("pilot/seeds").normals("elsewhere", _ELSEWHERE * q)
        cells = normals.reshape(_ELSEWHERE, q) * design.spread_numbers * math.sqrt(rows)
        return np.asarray(self.theta + np.linalg.solve(design.encode_numbers, cells.T).T)

    @cached_property
    def _under_others(self) -> list[Any]:
        """Held-out log-odds after rounding under each of the seeds that one is compared with."""
        return [self._moved(seed) for seed in _OTHER_SEEDS]

    @cached_property
    def _nine_of_ten(self) -> float:
        return _nine_of_ten([self.labelled.loss(scores) for scores in self._under_others])

    def left_to_chance(self) -> list[str]:
        """A caution about the plan, if its cells are so wide that some seeds invert the model."""
        n_inverted = sum(self.labelled.auc(scores) < 0.5 - TIE for scores in self._under_others)
        if n_inverted == 0:
            return []
        return [
            f"Cells are so wide that the seed may decide which way round the model ranks: under "
            f"{n_inverted} of {len(_OTHER_SEEDS)} seeds it is the wrong one. Take hint bits or "
            "more rows per site; or a seed that `seed_cautions` says nothing about."
        ]


def unlucky_without_pilot(design: Design, seed: str) -> list[str] | None:
    """The same for sites that confirm the start, by what is published alone.

    To second order, by the published curvature. None if nothing published says where sites will
    be: with more than one step they are not expected at the start.
    """
    if design.n_steps > 1:
        return None
    start, curvature = design.space.start_numbers, design.curvature_numbers

    def cost(seed: str) -> float:
        moved = rounded(design, seed, start) - start
        return float(moved @ curvature @ moved) / 2

    loss = cost(seed)
    if loss <= _WORTH_ANOTHER * math.log(2) or loss <= _nine_of_ten(
        [cost(s) for s in _OTHER_SEEDS]
    ):
        return []
    return [
        f"This seed is unlucky: if the sites confirm the start, rounding costs their model about "
        f"{loss:.4f} of log-loss, more than under nine of ten seeds. {_OTHER_VALUE}"
    ]


def _nine_of_ten(losses: Sequence[float]) -> float:
    return float(np.quantile(losses, 0.9))
