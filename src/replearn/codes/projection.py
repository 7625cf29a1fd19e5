"""Shared linear maps from directions to components, and back.

Every map keeps lengths and inner products in expectation: ``E[A^T A]`` is the identity.

========== ================================================= ======================= =========
name       map                                               cost, memory            rotation
                                                                                     invariant
========== ================================================= ======================= =========
gaussian   independent N(0, 1/k) entries                     k d normals, O(d)       yes
signs      independent +-1/sqrt(k) entries                   k d bits, O(d)          no
hadamard   k rows of a fast random orthogonal matrix,        d log d, O(d)           no
           times sqrt(d/k)
rotation   Haar rotation of all d coordinates [Stewart80]    d^2/2 normals, O(d)     yes
none       the coordinates as they are                       nothing                 no
========== ================================================= ======================= =========
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from replearn.codes.randomness import SharedRandomness
from replearn.kernels import projections as kernels
from replearn.types import Vector


@dataclass(frozen=True)
class Projection:
    """One shared linear map.

    ``apply(point, n_components, shared)`` gives components, ``lift(components, n_inputs, shared)``,
    its transpose, a point. A ``full`` map keeps all coordinates, so ``n_components`` is the number
    of inputs.
    """

    apply: Callable[[Vector, int, SharedRandomness], Vector]
    lift: Callable[[Vector, int, SharedRandomness], Vector]
    full: bool = False


def _drawn(name: str, apply: Callable[..., None], lift: Callable[..., None]) -> Projection:
    """A map of independent entries, each of which is drawn where it is needed."""

    def applied(point: Vector, n_components: int, shared: SharedRandomness) -> Vector:
        out = np.empty(n_components)
        apply(point, *shared.key(f"projection/{name}"), out)
        return out / math.sqrt(n_components)

    def lifted(components: Vector, n_inputs: int, shared: SharedRandomness) -> Vector:
        out = np.empty(n_inputs)
        lift(components, *shared.key(f"projection/{name}"), out)
        return out / math.sqrt(components.size)

    return Projection(applied, lifted)


def _rotation(point: Vector, n_components: int, shared: SharedRandomness) -> Vector:
    out = point.copy()
    kernels.rotate(out, *shared.key("projection/rotation"))
    return out


def _rotation_lift(components: Vector, n_inputs: int, shared: SharedRandomness) -> Vector:
    out = components.copy()
    kernels.unrotate(out, *shared.key("projection/rotation"))
    return out


def _mixing_window(n_inputs: int) -> int:
    """Largest power of two that fits: two overlapping windows of it cover all inputs."""
    return 1 << (n_inputs.bit_length() - 1)


def _hadamard(point: Vector, n_components: int, shared: SharedRandomness) -> Vector:
    # Two overlapping Hadamard windows with fresh signs before each make an exactly orthogonal
    # map for every length, without padding to a power of two (which would lose up to half
    # of the components).
    window = _mixing_window(point.size)
    mixed = point * shared.signs("projection/hadamard/signs", point.size, row=0)
    kernels.hadamard(mixed[:window])
    mixed *= shared.signs("projection/hadamard/signs", point.size, row=1)
    kernels.hadamard(mixed[point.size - window :])
    kept = shared.sample("projection/hadamard/rows", point.size, n_components)
    return mixed[kept] * math.sqrt(point.size / n_components)


def _hadamard_lift(components: Vector, n_inputs: int, shared: SharedRandomness) -> Vector:
    window = _mixing_window(n_inputs)
    kept = shared.sample("projection/hadamard/rows", n_inputs, components.size)
    mixed = np.zeros(n_inputs)
    mixed[kept] = components * math.sqrt(n_inputs / components.size)
    kernels.hadamard(mixed[n_inputs - window :])
    mixed *= shared.signs("projection/hadamard/signs", n_inputs, row=1)
    kernels.hadamard(mixed[:window])
    return mixed * shared.signs("projection/hadamard/signs", n_inputs, row=0)


def _same(point: Vector, size: int, shared: SharedRandomness) -> Vector:
    return point


PROJECTIONS: dict[str, Projection] = {
    "gaussian": _drawn("gaussian", kernels.gaussian_apply, kernels.gaussian_lift),
    "signs": _drawn("signs", kernels.signs_apply, kernels.signs_lift),
    "hadamard": Projection(_hadamard, _hadamard_lift),
    "rotation": Projection(_rotation, _rotation_lift, full=True),
    "none": Projection(_same, _same, full=True),
}


def map_draws(projection: str, n_inputs: int, n_components: int) -> int:
    """Numbers that are drawn, one by one, to apply a projection once."""
    drawn = projection in ("gaussian", "signs", "rotation")
    return n_inputs * n_components if drawn else 0
