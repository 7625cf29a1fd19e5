"""What the plans of all rounding algorithms share: the code space, and checks of sizes."""

import math
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from replearn.codes.basis import check_basis
from replearn.codes.cells import (
    CELLS,
    best_blocks,
    flip_constant,
    provable_flip_constant,
    proxy_proved,
    runs,
)
from replearn.errors import ReplearnError
from replearn.plans.block_hints import HintedCubes, hinted_ratio, position_variance
from replearn.plans.sizes import Guarantee, Sizes, decimal
from replearn.types import Vector

# --- numbers as text ------------------------------------------------------------------------


def weight_text(sizes: Sizes, derived: float) -> str:
    """Regularisation as text: the user's number as it is, a derived one in three digits."""
    return decimal(derived) if sizes.regularization is None else repr(sizes.regularization)


def width_text(sizes: Sizes, derived: float) -> str:
    """Grid width as text, likewise."""
    return decimal(derived) if sizes.grid_width is None else repr(sizes.grid_width)


def refuse_pilot_choices(sizes: Sizes, mode: str) -> None:
    """What only a pilot can choose has no place in a proof, nor in the paper."""
    for name in {"basis", "unit_mean"} & set(sizes.given()):
        raise ReplearnError(
            f'{name} belongs to mode="practical", got mode={mode!r}. Leave it out, or use the '
            "protocol of a pilot in practical mode."
        )


def check_components(sizes: Sizes, n_inputs: int) -> None:
    """Refuse a number of components that the chosen map cannot have."""
    k, projection = sizes.n_components, sizes.projection
    if k is None or sizes.basis is not None:
        return
    full = projection in ("none", "rotation")
    if (full and k != n_inputs) or (projection == "hadamard" and k > n_inputs):
        raise ReplearnError(
            f"n_components must be {'' if full else 'at most '}{n_inputs} for projection "
            f'{projection!r}, got {k}. Leave it "auto", or use projection="gaussian".'
        )


#: Fewest components of a projection that is not set by hand: its noise must average out.
_FEWEST = 48


# --- practical mode: the noise budget -------------------------------------------------------


def practical_space(
    guarantee: Guarantee,
    n_inputs: int,
    noise: float,
    sizes: Sizes,
    squared_length: float = 1.0,
    n_outputs: int = 1,
) -> tuple[dict[str, Any], float]:
    """What practical plans that round one vector have in common, and their `allowed_spread`."""
    rho, bits = guarantee.max_disagreement, sizes.hint_bits or 0
    projection, rounding, n_components, width = best_space(
        n_inputs, noise, rho, sizes, squared_length, n_outputs
    )
    common = {
        "mode": "practical",
        "guarantee": guarantee,
        "n_inputs": n_inputs,
        "projection": projection,
        "n_components": n_components,
        "rounding": rounding,
        "grid_width": width_text(sizes, width),
        "basis": "calibrated on synthetic populations, not proved",
        "by_hand": tuple(sizes.given()),
        "unit_mean": bool(sizes.unit_mean),
        "noise": noise,
        "basis_map": sizes.basis,
        "hint_bits": bits,
        "n_outputs": n_outputs,
    }
    return common, allowed_spread(rounding, n_components, width, rho, bits, n_outputs)


def best_space(
    n_inputs: int,
    noise: float,
    disagreement: float,
    sizes: Sizes,
    squared_length: float = 1.0,
    n_outputs: int = 1,
) -> tuple[str, str, int, float]:
    """The (projection, rounding, components, width) with the fewest flips at the given noise.

    The rounding "best" is that of `best_blocks`, once the number of components is known.
    ``squared_length`` is that of the mean vector which is expected; it is proved to be at most 1.
    ``n_outputs`` halfspaces are rounded, each with this noise, and all are to agree.
    """
    bits = sizes.hint_bits or 0
    if sizes.basis is not None:
        check_basis(sizes.basis, n_inputs)
        sizes = replace(sizes, projection="published", n_components=len(sizes.basis.widths))
    projections = [sizes.projection] if sizes.projection else ["none", "hadamard"]
    roundings = [sizes.rounding] if sizes.rounding else ["leech", "e8", "centre"]
    options = []
    for projection in projections:
        for rounding in roundings:
            n_components, rounding_noise = _noise_split(
                projection, rounding, n_inputs, noise, sizes.n_components, squared_length
            )
            cells = best_blocks(n_components) if rounding == "best" else rounding
            variance = position_variance(cells, n_outputs * n_components, bits)
            width = sizes.grid_width or rounding_noise / math.sqrt(variance)
            spread = allowed_spread(cells, n_components, width, disagreement, bits, n_outputs)
            options.append((1 / spread, (projection, cells, n_components, width)))
    return min(options, key=lambda option: option[0])[1]


def allowed_spread(
    rounding: str,
    n_components: int,
    width: float,
    disagreement: float,
    bits: int,
    n_outputs: int = 1,
) -> float:
    """Root mean squared distance of two labs' means at which they disagree so often.

    With hint bits the distance of each coordinate is `hinted_ratio` times smaller than the width.
    Of several halfspaces each gets an equal part of the disagreement; one hint moves all grids.
    """
    if bits == 0:
        return width * disagreement / n_outputs / flip_constant(rounding, n_components)
    ratio = hinted_ratio(rounding, n_outputs * n_components, bits, disagreement)
    return width * math.sqrt(n_components) / ratio


def _noise_split(
    projection: str,
    rounding: str,
    n_inputs: int,
    noise: float,
    by_hand: int | None,
    squared_length: float,
) -> tuple[int, float]:
    """Components, and the noise left for the rounding.

    A projection to k components adds variance |z|^2/k (independent entries) or |z|^2 (1/k - 1/d)
    (orthonormal rows). Flips grow like sqrt(k) over the rounding noise; they are fewest when
    |z|^2/k takes half of noise^2, plus |z|^2/d for orthonormal rows.
    """
    if projection == "published":
        assert by_hand is not None
        return by_hand, noise
    orthonormal = projection in ("none", "rotation", "hadamard")
    budget = noise**2 + (squared_length / n_inputs if orthonormal else 0.0)
    n_components = by_hand or max(_FEWEST, math.ceil(2 * squared_length / budget))
    block = 1 if rounding == "best" else CELLS[rounding.split("+")[-1]].block
    if by_hand is None:
        n_components = -(-n_components // block) * block
    n_components = components(projection, n_components, n_inputs)
    left = budget - squared_length / n_components
    if not (orthonormal and n_components == n_inputs):
        left = max(left, budget / 2)  # too few, set by hand, leave nothing: half, and more error
    return n_components, math.sqrt(left)


def components(projection: str, n_components: int, n_inputs: int) -> int:
    """Full maps keep all inputs; a Hadamard map has no more rows than inputs."""
    if projection in ("none", "rotation"):
        return n_inputs
    if projection == "hadamard":
        return min(n_components, n_inputs)
    return n_components


# --- certified mode: what is proved ---------------------------------------------------------


#: Lattices for which certified plans are proved, behind a rotation: squared covering radius of the
#: unit cell, and mean squared length of a place in it (Leech: our measurement plus five standard
#: errors).
_LATTICES = {"leech": (2.0, 24 * 0.06576), "e8": (1.0, 8 * 929 / 12960), "centre": (1 / 4, 1 / 12)}
_MAX_INPUTS = 1024  # beyond that a rotation takes long, and so does this plan
_ROUNDINGS = ("centre", "leech", "e8", "leech+centre", "e8+centre", "leech+e8+centre")


def provable_roundings(sizes: Sizes, n_inputs: int) -> list[str]:
    """Roundings of a certified plan; refuses sizes for which nothing is proved."""
    refused = {"n_components", "grid_width", "regularization"} & set(sizes.given())
    if refused:
        raise ReplearnError(
            f"certified mode derives {sorted(refused)[0]}; it cannot be set by hand. "
            'Leave it "auto", or use mode="practical".'
        )
    if sizes.projection not in (None, "gaussian", "rotation"):
        raise ReplearnError(
            f'certified mode needs a rotation-invariant projection, "gaussian" or "rotation", '
            f'got {sizes.projection!r}. Leave it "auto", or use mode="practical".'
        )
    rounding = sizes.rounding
    if rounding is None:
        if sizes.hint_bits or sizes.projection == "gaussian" or n_inputs > _MAX_INPUTS:
            return ["centre"]
        shapes = {runs(name, n_inputs): name for name in reversed(_ROUNDINGS)}
        return sorted(shapes.values(), key=_ROUNDINGS.index)
    cubes = rounding in ("ak", "centre")
    known = all(part in _LATTICES for part in rounding.split("+"))
    if not cubes and (not known or sizes.hint_bits or sizes.projection == "gaussian"):
        raise ReplearnError(
            'certified mode proves its error bound for the roundings "centre" and "ak", and behind '
            'a rotation, without hint bits, for "leech", "e8" and both joined with "centre", got '
            f'{rounding!r}. Leave it "auto", or use mode="practical".'
        )
    return [rounding]


def require_at_least(sizes: Sizes, **needed: int) -> None:
    """Refuse sizes by hand that are too small for a proof."""
    for name, least in needed.items():
        by_hand = getattr(sizes, name)
        if by_hand is not None and by_hand < least:
            raise ReplearnError(
                f"certified mode needs {name} of at least {least:,}, got {by_hand:,}. Leave it "
                '"auto", relax the promise, or use mode="practical".'
            )


def provable_variance(
    projection: str,
    rounding: str,
    n_inputs: int,
    n_components: int,
    width: float,
    disagreement: float,
    bits: int,
) -> float:
    """Variance of a lab's mean with which two labs provably disagree so often at most.

    With hints the length of one batch's vector counts too, beside the variance: a hundredth.
    """
    if bits:
        law = HintedCubes(projection, n_components, bits)
        return law.allowed(disagreement) * width**2 / 2 * 0.99
    constant = provable_flip_constant(projection, rounding, n_inputs, n_components)
    return (width * disagreement / constant) ** 2 / 2


def provable_space(
    projection: str, rounding: str, margin: float, failure: float, n_inputs: int
) -> tuple[int, float]:
    """Components and grid width that keep the sign of a margin, but with this probability.

    Tested in tests/theory/test_margin.py.
    """
    log = math.log(1 / failure)
    if projection == "gaussian":
        proxy = CELLS[rounding].second_moment
        n_components = math.ceil(2 * log / math.log(1 + margin**2 / (2 - margin**2)))
        width = math.sqrt(1 / (proxy * n_components))
    elif proxy_proved(rounding):
        n_components = n_inputs
        width = margin / math.sqrt(2 * CELLS[rounding].second_moment * log)
    else:
        n_components = n_inputs
        width = margin * math.sqrt(n_inputs / (2 * lattice_exponent(rounding, n_inputs, failure)))
    # rounded down, so that the decimal that is used is on the safe side for the error
    return n_components, float(decimal(width * 0.995))


@lru_cache(maxsize=4096)
def lattice_exponent(rounding: str, n_inputs: int, failure: float) -> float:
    """The least A for which ``E exp(-A / |r|^2)`` is proved to be at most ``failure``.

    r is the place in the cells of all blocks, uniform and independent of the rotation R, so
    ``<r, R x>`` has the law of ``|r|`` times a coordinate of a random unit vector:
    ``P[width <r, R x> > m] <= E exp(-n m^2 / (2 width^2 |r|^2))``. The squared length of each
    block is at most the squared covering radius, and its mean is known. ``exp(-A/q)`` is convex
    in q up to A/2, so the worst law with these has two points: 0 and the largest. Tested in
    tests/theory/test_margin.py.
    """
    squares, chances = _worst_squares(rounding, n_inputs)
    low = 2 * float(squares[-1])  # convex from there on
    high = low + float(squares[-1]) * math.log(1 / failure)  # enough, as 0 is the least
    for _ in range(24):
        middle = math.sqrt(low * high)
        if float(chances @ np.exp(-middle / squares)) > failure:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=256)
def _worst_squares(rounding: str, n_inputs: int) -> tuple[Vector, Vector]:
    """Squared lengths, 0 left out, of places in the worst case, and their chances."""
    unit = 0.25  # all squared covering radii are multiples of it
    chances = np.ones(1)
    for run in runs(rounding, n_inputs):
        largest, mean = _LATTICES[run.name]
        jump = np.zeros(round(largest / unit) + 1)
        jump[0], jump[-1] = 1 - mean / largest, mean / largest
        for _ in range(run.n_blocks):
            chances = np.convolve(chances, jump)
    squares = unit * np.arange(chances.size, dtype=np.float64)
    return np.asarray(squares[1:]), chances[1:]


# --- paper mode -----------------------------------------------------------------------------


def paper_space(
    guarantee: Guarantee, n_inputs: int, sizes: Sizes, n_components: int, width: float
) -> dict[str, Any]:
    """What the paper's plans of Algorithms 1 and 2 have in common; no hints, which it has not."""
    if sizes.hint_bits:
        raise ReplearnError(
            f'hint_bits must be 0 in mode="paper", got {sizes.hint_bits}. Leave them out, or use '
            'mode="practical" or "certified".'
        )
    if sizes.rounding == "best":
        raise ReplearnError(
            'rounding="best" belongs to mode="practical", got mode="paper". Leave it "auto", '
            'which is the paper\'s "ak".'
        )
    projection = sizes.projection or "gaussian"
    return {
        "mode": "paper",
        "guarantee": guarantee,
        "n_inputs": n_inputs,
        "length_cap": 1.0,
        "projection": projection,
        "n_components": components(projection, sizes.n_components or n_components, n_inputs),
        "rounding": sizes.rounding or "ak",
        "grid_width": width_text(sizes, width),
        "by_hand": tuple(sizes.given()),
    }


def read_constants(
    given: dict[str, float] | None, algorithm: str, meanings: dict[str, str]
) -> list[float]:
    """Constants of an algorithm in their order, 1 unless given; others are refused."""
    constants = given or {}
    unknown = sorted(set(constants) - set(meanings))
    if unknown:
        known = ", ".join(f"{name} ({meaning})" for name, meaning in meanings.items())
        raise ReplearnError(
            f"constants has the unknown key {unknown[0]!r}. {algorithm} has {known}."
        )
    for name, value in constants.items():
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ReplearnError(
                f"constants[{name!r}] must be a positive number, got {value!r}. The default is 1."
            )
    return [constants.get(name, 1.0) for name in meanings]
