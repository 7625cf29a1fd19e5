"""Pairs of labs that run Algorithm 1 or 2 on their own rows of one population."""

from dataclasses import replace
from typing import Any

import numpy as np

from replearn.codes import Coins, Fitted, Recipe
from replearn.rows import MemoryRows
from tests.populations import draw


def sample(name: str, n_rows: int, d: int, margin: float, seed: Any) -> MemoryRows:
    """Rows of a population in their order, which is random."""
    X, y = draw(name, n_rows, d, margin, seed)
    return MemoryRows(X, y.astype(np.int8))


def pair(
    recipe: Recipe, plan: Any, name: str, n_rows: int, d: int, margin: float, seed: int
) -> list[Fitted]:
    """Fits of two labs with one seed; with sketch bits the second one reads the first's sketch."""
    first = recipe.run(sample(name, n_rows, d, margin, [seed, 0]), plan, Coins(seed), map)
    if plan.sketch_bits:
        plan = replace(
            plan,
            batch_size=first.spread.batch_size,
            grid_width=first.space.grid_width,
            sketch=first.sketch,
        )
    second = recipe.run(sample(name, n_rows, d, margin, [seed, 1]), plan, Coins(seed), map)
    return [first, second]


def differ(fits: list[Fitted]) -> bool:
    """Whether the two labs got different codes."""
    return bool((fits[0].codes != fits[1].codes).any())


def error(fitted: Fitted, seed: int, name: str, d: int, margin: float) -> float:
    """Share of 4,000 new rows that a fit gets wrong."""
    X, y = draw(name, 4000, d, margin, 987_654)
    return float((y * (X @ fitted.space.decode(fitted.codes, Coins(seed))) <= 0).mean())
