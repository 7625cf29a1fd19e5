"""Where the mean of Algorithms 1 and 2 is rounded: projection, components and cells of a mode.

Paper mode has a Gaussian map and AKround, practical mode what flips least at a noise that the error
allows. Certified mode asks that the sign of a margin survives: `replearn.halfspaces.turned_signs`
has the theorems, and `replearn.halfspaces.certified` the plan with the fewest rows.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import NormalDist
from typing import Any

from replearn.codes import (
    CELLS,
    FULL,
    Bound,
    Sizes,
    check_components,
    check_rounding,
    isotropic_flips,
    rows_for,
    second_moment,
)
from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.halfspaces.rounded import BatchPlan

#: Sizes of both algorithms that can be set by hand.
BY_HAND = {
    "n_batches": "batches of all rows",
    "batch_size": "rows of a batch",
    "n_components": "components of the projection",
    "grid_width": "side of a cell",
    "projection": "none, hadamard, rotation or gaussian",
    "rounding": "ak, centre, e8, leech, or several joined by +",
    "regularization": "weight of |u|^2 / 2",
}

#: Fewest components of a projection that is not set by hand: its noise must average out.
_FEWEST = 48

#: With a sketch all inputs are kept up to this number: the file has bits for each.
_MAX_SKETCHED = 4096


def only_in_paper_mode(mode: str, given: Sizes, names: tuple[str, ...]) -> None:
    """Refuse sizes that other modes do not have."""
    for name in names:
        if mode != "paper" and given.get(name) is not None:
            raise ReplearnError(
                f'{name} belongs to mode="paper", got mode={mode!r}. Leave it out, or choose paper '
                "mode."
            )


def with_rows(plan: BatchPlan, stability: Callable[[BatchPlan, int, None], Bound]) -> BatchPlan:
    """A plan with its rows; batches that are not planned are those that the bound needs."""
    n_batches = plan.n_batches or rows_for(stability, plan, plan.batch_size) // plan.batch_size
    n_rows = n_batches * plan.batch_size + plan.n_held_out
    return replace(plan, n_batches=n_batches, n_rows=n_rows)


def by_hand_text(sizes: Sizes, name: str, planned: float) -> str:
    """A real as text: the user's number in six digits, a planned one in three."""
    given = sizes.get(name)
    return decimal_text(planned) if given is None else decimal_text(float(given), 6)


def paper_space(n_inputs: int, sizes: Sizes, n_components: int, width: float) -> dict[str, Any]:
    """Gaussian projection and AKround, as printed; each may be set by hand."""
    if sizes.sketch_bits:
        raise ReplearnError(
            f'sketch_bits must be 0 in mode="paper", got {sizes.sketch_bits}. Leave them out, or '
            'use mode="practical" or "certified".'
        )

    check_rounding(sizes.get("rounding", "centre"))
    projection = sizes.get("projection", "gaussian")
    k = _components_of(projection, int(sizes.get("n_components", n_components)), n_inputs)
    check_components(projection, k, n_inputs)

    return {
        "projection": projection,
        "n_components": k,
        "rounding": sizes.get("rounding", "ak"),
        "grid_width": by_hand_text(sizes, "grid_width", width),
    }


def _components_of(projection: str, n_components: int, n_inputs: int) -> int:
    """Components of a map: all inputs of a full one, and no more of orthonormal rows."""
    if projection in FULL:
        return n_inputs
    if projection == "hadamard":
        return min(n_components, n_inputs)
    return n_components


# --- practical ------------------------------------------------------------------------------------


#: How often a seed may turn the sign of a row at the margin.
_RARELY = 0.02


def noise_of(margin: float, max_error: float, share: float) -> float:
    """Practical mode: noise in units of ``margin * u`` that costs a share of ``max_error``.

    Regularisation of the order ``max_error margin^2`` makes the functional margin 1 at least on
    nearly all rows of a population with that margin. So noise of standard deviation ``1/z`` costs
    ``share max_error`` at most, with z the normal quantile of ``1 - share max_error``.

    That is a mean over seeds. Under one seed the errors of rows go together, above all in few
    dimensions, and those by the coefficient of a constant, which all rows share. So the quantile is
    at least that of 2%: seeds that spoil a model are rare, even if max_error is large.
    """
    return margin / NormalDist().inv_cdf(1 - min(share * max_error, _RARELY))


def practical_space(n_inputs: int, noise: float, sizes: Sizes) -> dict[str, Any]:
    """The code space with the fewest flips at the given noise."""
    if sizes.sketch_bits:
        return _sketched_space(n_inputs, noise, sizes)

    k = int(sizes.get("n_components", n_inputs))
    names = ["none", "hadamard"]
    if k < n_inputs:
        names = ["hadamard"]
    if k > n_inputs:
        names = ["gaussian"]
    if sizes.get("projection"):
        names = [sizes.get("projection")]

    check_rounding(sizes.get("rounding", "centre"))
    cells = ["leech", "e8", "centre"]
    if sizes.get("rounding"):
        cells = [sizes.get("rounding")]

    # the fewest flips of all
    options = []
    for projection in names:
        for rounding in cells:
            k, left = _noise_split(projection, rounding, n_inputs, noise, sizes)
            width = float(sizes.get("grid_width", left / math.sqrt(second_moment(rounding, k))))
            options.append((isotropic_flips(rounding, k) / width, projection, rounding, k, width))

    _, projection, rounding, k, width = min(options)
    return {
        "projection": projection,
        "n_components": k,
        "rounding": rounding,
        "grid_width": by_hand_text(sizes, "grid_width", width),
    }


def _sketched_space(n_inputs: int, noise: float, sizes: Sizes) -> dict[str, Any]:
    """Cubes behind a mixing map; their width is chosen by the rows of the original."""
    if sizes.get("rounding", "centre") != "centre" or sizes.get("grid_width"):
        raise ReplearnError(
            "sketch_bits need cubes whose width is planned, got rounding or grid_width by hand. "
            "Leave them out."
        )

    projection = sizes.get("projection", "hadamard")
    k = n_inputs
    if projection not in FULL and (n_inputs > _MAX_SKETCHED or sizes.get("n_components")):
        k, _ = _noise_split(projection, "centre", n_inputs, noise, sizes)

    check_components(projection, k, n_inputs)
    return {"projection": projection, "n_components": k, "rounding": "centre", "grid_width": ""}


def _noise_split(
    projection: str, rounding: str, n_inputs: int, noise: float, sizes: Sizes
) -> tuple[int, float]:
    """Components, and the noise left for the rounding.

    The mean vector is at most 1 long. A projection of it to k components adds variance 1/k
    (independent entries) or 1/k - 1/d (orthonormal rows). Flips grow like sqrt(k) over the rounding
    noise; they are fewest when 1/k takes half of noise^2, plus 1/d for orthonormal rows.
    """
    orthonormal = projection != "gaussian"
    budget = noise**2
    if orthonormal:
        budget += 1 / n_inputs
    given = sizes.get("n_components")
    k = int(given) if given else max(_FEWEST, math.ceil(2 / budget))
    if not given:
        block = CELLS[rounding.split("+")[-1]].block
        k = -(-k // block) * block
        k = _components_of(projection, k, n_inputs)

    check_components(projection, k, n_inputs)
    left = budget - 1 / k
    if not (orthonormal and k == n_inputs):
        left = max(left, budget / 2)  # too few, set by hand, leave nothing: half, and more error

    return k, math.sqrt(left)
