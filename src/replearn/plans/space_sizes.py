"""What the plans of all rounding algorithms share: the code space, and checks of sizes."""

import math
from dataclasses import replace

from replearn.codes.basis import check_basis
from replearn.codes.cells import CELLS, best_blocks, flip_constant, proxy_proved
from replearn.errors import ReplearnError
from replearn.plans.block_hints import hinted_ratio, position_variance
from replearn.plans.sizes import Sizes, decimal

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


def best_space(
    n_inputs: int, noise: float, disagreement: float, sizes: Sizes, squared_length: float = 1.0
) -> tuple[str, str, int, float]:
    """The (projection, rounding, components, width) with the fewest flips at the given noise.

    The rounding "best" is that of `best_blocks`, once the number of components is known.
    ``squared_length`` is that of the mean vector which is expected; it is proved to be at most 1.
    """
    bits = sizes.hint_bits or 0
    if sizes.basis is not None:
        check_basis(sizes.basis, n_inputs)
        sizes = replace(sizes, projection="published", n_components=len(sizes.basis.widths))
    projections = [sizes.projection] if sizes.projection else ["none", "hadamard"]
    roundings = [sizes.rounding] if sizes.rounding else ["leech", "e8", "centre"]
    best: tuple[float, tuple[str, str, int, float]] | None = None
    for projection in projections:
        for rounding in roundings:
            n_components, rounding_noise = _noise_split(
                projection, rounding, n_inputs, noise, sizes.n_components, squared_length
            )
            cells = best_blocks(n_components) if rounding == "best" else rounding
            variance = position_variance(cells, n_components, bits)
            width = sizes.grid_width or rounding_noise / math.sqrt(variance)
            flips = 1 / allowed_spread(cells, n_components, width, disagreement, bits)
            if best is None or flips < best[0]:
                best = flips, (projection, cells, n_components, width)
    assert best is not None
    return best[1]


def allowed_spread(
    rounding: str, n_components: int, width: float, disagreement: float, bits: int
) -> float:
    """Root mean squared distance of two labs' means at which they disagree so often.

    With hint bits the distance of each coordinate is `hinted_ratio` times smaller than the width.
    """
    if bits == 0:
        return width * disagreement / flip_constant(rounding, n_components)
    ratio = hinted_ratio(rounding, n_components, bits, disagreement)
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


def provable_rounding(sizes: Sizes) -> str:
    """The rounding of a certified plan; refuses sizes for which nothing is proved."""
    refused = {"n_components", "grid_width", "regularization"} & set(sizes.given())
    if refused:
        raise ReplearnError(
            f"certified mode derives {sorted(refused)[0]}; it cannot be set by hand. "
            'Leave it "auto", or use mode="practical".'
        )
    if sizes.hint_bits:
        raise ReplearnError("certified mode has no hints yet.")
    rounding = sizes.rounding or "centre"
    if rounding == "best" or not proxy_proved(rounding):
        raise ReplearnError(
            f'certified mode proves its error bound for the roundings "centre" and "ak", got '
            f'{rounding!r}. Leave it "auto", or use mode="practical".'
        )
    if sizes.projection not in (None, "gaussian", "rotation"):
        raise ReplearnError(
            f'certified mode needs a rotation-invariant projection, "gaussian" or "rotation", '
            f'got {sizes.projection!r}. Leave it "auto", or use mode="practical".'
        )
    return rounding


def provable_space(
    projection: str, rounding: str, margin: float, failure: float, n_inputs: int
) -> tuple[int, float]:
    """Components and grid width that keep the sign of a margin, but with this probability.

    Tested in tests/theory/test_margin.py.
    """
    log, proxy = math.log(1 / failure), CELLS[rounding].second_moment
    if projection == "gaussian":
        n_components = math.ceil(2 * log / math.log(1 + margin**2 / (2 - margin**2)))
        width = math.sqrt(1 / (proxy * n_components))
    else:
        n_components = n_inputs
        width = math.sqrt(margin**2 / (2 * proxy * log))
    # rounded down, so that the decimal that is used is on the safe side for the error
    return n_components, float(decimal(width * 0.995))


# --- paper mode -----------------------------------------------------------------------------


def paper_rounding(sizes: Sizes) -> str:
    """The rounding of a paper plan: the paper's own, if no other is set by hand."""
    if sizes.rounding == "best":
        raise ReplearnError(
            'rounding="best" belongs to mode="practical", got mode="paper". Leave it "auto", '
            'which is the paper\'s "ak".'
        )
    return sizes.rounding or "ak"


def refuse_hints(sizes: Sizes) -> None:
    """The paper's notion of replicability has no hints."""
    if sizes.hint_bits:
        raise ReplearnError(
            f'hint_bits must be 0 in mode="paper", got {sizes.hint_bits}. Leave them out, or use '
            'mode="practical" or "certified".'
        )


def check_constants(constants: dict[str, float], algorithm: str, meanings: dict[str, str]) -> None:
    """Refuse constants that the algorithm does not have."""
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
