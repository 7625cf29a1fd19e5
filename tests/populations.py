"""Named populations that tests and benchmarks share: exact margins, and one knob each.

A row is ``v = y x / |x| = m w + sqrt(1 - m^2) s``: w the normal that is promised, m a margin of at
least tau, s a direction at a right angle to w. So every population keeps its margin for certain,
but for those that are named in `OUTSIDE`.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dger

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Population:
    """What makes a population hard; each named one turns one knob, or two."""

    max_margin: float = 4.0  # margins reach from 1 to this many times the promise
    # how margins begin at the promise: with a jump of their density, or with none
    edge: Literal["jump", "none"] = "jump"
    # a direction that misleads: its cosine with rows, and the share of rows for which it is right
    decoy: float = 0.0
    decoy_share: float = 0.75
    decay: float = 0.0  # of the spectrum of the other directions
    # share of rows that lie at the margin in any direction; the others are all alike
    adversary: float = 0.0
    n_clusters: int = 0  # that the other directions form, on no side as on the other; 0: none
    n_atoms: int = 0  # different rows that there are; 0: no two are alike
    positive_share: float = 0.5  # of the two classes
    lengths: float = 0.0  # standard deviation of the logarithm of a row's length
    label_noise: float = 0.0  # share of labels that are wrong: no margin is kept


#: By name. The first ones are easy.
POPULATIONS: dict[str, Population] = {
    "plain": Population(),
    "tight": Population(max_margin=1.1),  # all margins near the promise
    "smooth": Population(edge="none"),  # few rows are near the promise
    "decoy60": Population(max_margin=1.3, decoy=0.7, decoy_share=0.6),
    "decoy77": Population(max_margin=1.05, decoy=0.7, decoy_share=0.77),
    "decoy": Population(max_margin=1.3, decoy=0.7, decoy_share=0.88),
    "minority": Population(max_margin=1.3, decoy=0.7, decoy_share=0.94),
    "skewed": Population(max_margin=3.0, decoy=0.7, decay=0.5),  # a decoy, and a spectrum
    "adversary": Population(adversary=0.03),  # of stability: rare rows in any direction
    "clusters": Population(n_clusters=6),  # so that no jump is at the best normal
    "atoms": Population(n_atoms=40),
    "classes": Population(positive_share=0.05),
    "lengths": Population(lengths=1.5),
    "noisy": Population(label_noise=0.15),
    "noise5": Population(label_noise=0.05),
}

#: Those that keep no margin.
OUTSIDE = ("noisy", "noise5")


def draw(
    name: str, n_rows: int, n_features: int, margin: float, seed: Any
) -> tuple[Rows, NDArray[np.int64]]:
    """Rows and labels (-1 and +1) of a named population; ``seed`` says which sample."""
    population, rng = POPULATIONS[name], np.random.default_rng(seed)
    normal = np.random.default_rng(7_919).standard_normal(n_features)
    normal /= np.linalg.norm(normal)

    if population.n_atoms:  # the same ones in every sample
        atoms = _directions(
            population, population.n_atoms, normal, margin, np.random.default_rng(7_920)
        )
        rows = atoms[rng.integers(population.n_atoms, size=n_rows)]
    else:
        rows = _directions(population, n_rows, normal, margin, rng)

    labels = np.where(rng.random(n_rows) < population.positive_share, 1, -1)
    factors = labels * np.exp(population.lengths * rng.standard_normal(n_rows))
    rows *= factors[:, None]
    flipped = rng.random(n_rows) < population.label_noise
    return rows, np.where(flipped, -labels, labels)


def _directions(
    population: Population, n_rows: int, normal: Rows, margin: float, rng: np.random.Generator
) -> Rows:
    """Unit vectors ``y x / |x|`` with their margins."""
    top = min(population.max_margin * margin, 0.95)
    heights = rng.uniform(0, 1, size=n_rows)
    if population.edge == "none":
        heights = np.sqrt(heights)  # the density grows from 0 in proportion
    heights = margin + (top - margin) * heights

    side = rng.standard_normal((n_rows, normal.size))
    side *= np.arange(1, normal.size + 1) ** -population.decay
    if population.n_clusters:
        centres = np.random.default_rng(7_921).standard_normal((population.n_clusters, normal.size))
        side = 0.7 * side + centres[rng.integers(population.n_clusters, size=n_rows)]
    _add(side, -(side @ normal), normal)

    if population.decoy and normal.size > 2:
        axis = np.zeros(normal.size)
        axis[np.argmin(np.abs(normal))] = 1.0
        axis -= (axis @ normal) * normal
        axis /= np.linalg.norm(axis)
        _add(side, -(side @ axis), axis)
        agrees = np.where(rng.random(n_rows) < population.decoy_share, 1.0, -1.0)
        # its cosine with the whole row, not with the part beside the normal; a row that is high
        # above the plane has less room for it
        room = np.sqrt(1 - heights**2)
        cosine = np.minimum(population.decoy, 0.95 * room)
        ratio = cosine / np.sqrt(room**2 - cosine**2)
        _add(side, ratio * agrees * _lengths(side), axis)

    if population.adversary:
        rare = rng.random(n_rows) < population.adversary
        heights = np.where(rare, margin, 1.0)

    side *= (np.sqrt(1 - heights**2) / _lengths(side))[:, None]
    _add(side, heights, normal)
    return side


def _lengths(rows: Rows) -> NDArray[np.float64]:
    return np.sqrt(np.einsum("ij,ij->i", rows, rows))


def _add(rows: Rows, factors: NDArray[np.float64], vector: NDArray[np.float64]) -> None:
    """Add a multiple of one vector to each row, in place: samples are drawn thousands of times."""
    dger(1.0, vector, factors, a=rows.T, overwrite_a=True)
