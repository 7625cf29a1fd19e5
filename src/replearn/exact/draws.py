"""Random numbers from uniform 64-bit words, without libm: the same bits on every machine."""

import numpy as np

from replearn.exact.elementary import log
from replearn.types import Vector, Words

# AS 241 [Wichura88]: numerators and denominators, the highest power first
_CENTRE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852545925, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
_NEAR = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
     1.27045825245236838258, 3.64784832476320460504, 5.76949722146069140550,
     4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
     1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940,
     2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
     2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580,
     5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
     7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
     5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def uniforms(words: Words) -> Vector:
    """Uniforms on ``[0, 1)``, multiples of 2^-53."""
    return np.asarray((words >> np.uint64(11)) * 2.0**-53)


def midpoints(words: Words) -> Vector:
    """Midpoints of 2^52 equal intervals of ``(0, 1)``; they and their complements are exact."""
    return np.asarray(((words >> np.uint64(12)) * np.uint64(2) + np.uint64(1)) * 2.0**-53)


def _ratio(parts: tuple[tuple[float, ...], tuple[float, ...]], r: Vector) -> tuple[Vector, Vector]:
    values = []
    for coefficients in parts:
        value = np.full_like(r, coefficients[0])
        for coefficient in coefficients[1:]:
            value = value * r + coefficient
        values.append(value)
    return values[0], values[1]


def normals(words: Words) -> Vector:
    """Standard normals: the normal quantile of the midpoints, by AS 241."""
    p = midpoints(words)
    q = p - 0.5
    above, below = _ratio(_CENTRE, 0.180625 - q * q)
    quantiles = q * above / below

    # the tails, by the logarithm of the probability
    outer = np.flatnonzero((p < 0.075) | (p > 0.925))
    tail = np.minimum(p[outer], 1.0 - p[outer])
    r = np.sqrt(minus_logs(tail))
    near, far = _ratio(_NEAR, r - 1.6), _ratio(_FAR, r - 5.0)
    size = np.where(r <= 5.0, near[0] / near[1], far[0] / far[1])
    quantiles[outer] = np.where(q[outer] < 0, -size, size)
    return quantiles


def minus_logs(x: Vector) -> Vector:
    """``-ln x`` of positive numbers."""
    return -log(x, n_terms=11)


def exponentials(words: Words) -> Vector:
    """Exponential draws, ``-ln p``."""
    return minus_logs(midpoints(words))
