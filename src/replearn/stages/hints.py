"""Which hint a first lab publishes; and hints without one: all say which are unsafe for them."""

from collections.abc import Collection, Sequence

import numpy as np
from scipy.special import ndtri

from replearn.codes.design import Design
from replearn.codes.randomness import SharedRandomness
from replearn.codes.safety import wall_distance
from replearn.codes.space import CodeSpace
from replearn.errors import ReplearnError
from replearn.types import Vector


def safest_hint(components: Vector, space: CodeSpace, shared: SharedRandomness) -> int:
    """The offset of the grid under which a point lies farthest from all walls of its cell.

    Of equally safe ones the first; 0 without hint bits.

    Notes
    -----
    It looks at places in cells and at nothing else, so it says nothing about the difference of two
    labs, which is all that the proof needs (docs/theory.md). The distance to the nearest wall
    is a better guide than that to the centre: with 101 cubes and 4 bits cells may be 5.7 times
    narrower. Tested in tests/theory/test_block_hints.py.
    """
    best, farthest = 0, -1.0
    for hint in range(1 << space.hint_bits if space.hint_bits else 0):
        _, residual = space.with_hint(hint).round(components, shared)
        distance = min(
            wall_distance(part, space.rounding, space.n_components)
            for part in residual.reshape(space.n_outputs, -1)
        )
        if distance > farthest:
            best, farthest = hint, distance
    return best


def unsafe_hints(
    components: Vector,
    design: Design,
    shared: SharedRandomness,
    disagreement: float,
    n_sites: int = 2,
) -> tuple[int, ...]:
    """Moves of the grid under which a site's point lies too near a wall of its cell.

    ``components`` is the point, in cells that are cubes, and ``disagreement`` the probability that
    sites with a common hint may get different codes. To be published by every site; `common_hint`
    reads them.

    Notes
    -----
    Near is nearer than half of what two sites differ by, in a coordinate, with probability
    ``disagreement`` over coordinates and pairs. If a hint is safe for two sites whose codes differ,
    their points lie on both sides of a wall, each this far from it, so they differ by twice
    as much: the proof needs nothing of how the hint was chosen. Tested in
    tests/theory/test_common_hint.py.
    """
    space = design.space
    if space.rounding != "centre" or space.hint_bits == 0:
        raise ReplearnError(
            f"a common hint needs hint bits and cells that are cubes, got {space.hint_bits} bits "
            f"and {space.rounding!r}. Plan with hint_bits."
        )
    slack = safe_distance(design, disagreement, n_sites)
    unsafe = []
    for hint in range(1 << space.hint_bits):
        moved = space.with_hint(hint)
        place = moved.residual(components, moved.encode(components, shared), shared)
        if (0.5 - np.abs(place[: slack.size]) < slack).any():
            unsafe.append(hint)
    return tuple(unsafe)


def safe_distance(design: Design, disagreement: float, n_sites: int = 2) -> Vector:
    """Distance from the walls, in cells, that is safe: half of a difference that is rare."""
    spread = design.spread_numbers
    n_pairs = n_sites * (n_sites - 1) / 2
    return np.asarray(-ndtri(disagreement / (2 * spread.size * n_pairs)) * spread / 2)


def common_hint(unsafe: Sequence[Collection[int]], hint_bits: int) -> int:
    """The first hint that is safe for all sites.

    Parameters
    ----------
    unsafe : sequence of collections of int
        What every site published.
    hint_bits : int
        Of the protocol: there are ``2**hint_bits`` hints.

    Returns
    -------
    int
        The hint that all sites fit with.

    Examples
    --------
    >>> common_hint([(0, 2), (1, 2)], hint_bits=2)
    3
    """
    for hint in range(1 << hint_bits):
        if not any(hint in hints for hints in unsafe):
            return hint
    raise ReplearnError(
        f"some hint must be safe for all {len(unsafe)} sites, got none of {1 << hint_bits}. Let "
        "one site be the first, or plan with more hint bits or wider cells."
    )
