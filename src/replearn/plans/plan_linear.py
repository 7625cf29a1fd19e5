"""A design of least squares that follows from a promise alone."""

import math

import numpy as np

from replearn.codes.basis import Basis
from replearn.codes.decimals import decimal_table, decimals
from replearn.codes.design import Design
from replearn.codes.randomness import SharedRandomness
from replearn.codes.score_space import ScoreSpace
from replearn.plans.cell_prices import width_ratio
from replearn.plans.plan_logistic import shared_directions
from replearn.plans.sizes import decimal

#: The first pass finds the least squares, the second looks at their residuals for the certificate.
N_STEPS = 2

#: Directions at the most: random ones lose what a regression is about, so they come late.
MAX_COMPONENTS = 16

#: Ridge, relative to columns of unit variance.
RIDGE = 1e-6

#: Rows longer than this many root mean squares, for columns of unit variance, are shortened.
_FAR = 4.0


def promised_linear_design(
    n_features: int,
    shared: SharedRandomness,
    *,
    y_range: tuple[float, float],
    residual_sd: float,
    max_disagreement: float,
    samples_per_site: int,
    n_components: int | None = None,
    hint_bits: int = 0,
) -> Design:
    """A design of least squares for standardised columns and numbers of a published range.

    Numbers beyond ``y_range`` are cut to it; ``residual_sd`` is about what they differ from their
    predictions by; ``shared`` gives directions where there are more features than ``n_components``
    (default all, but not more than 16).

    Notes
    -----
    For columns of mean 0, variance 1 and no correlation the weights of one row vary by
    ``residual_sd`` in every direction, and cells are cubes of that shape. A pilot knows better; see
    `replearn.plan_regression`.
    """
    k = min(n_features, MAX_COMPONENTS) if n_components is None else n_components
    k = min(k, n_features)
    q, (low, high) = k + 1, y_range
    # as much as the widest range of doubles lets one compute
    centre, span = low / 2 + high / 2, high - low
    cap = decimal(_FAR * math.sqrt(n_features))
    noise = residual_sd / span
    sd = noise * math.sqrt(2 / samples_per_site)
    width = float(decimal(width_ratio(q, hint_bits, max_disagreement) * sd))
    limit = math.ceil(math.log2(float(cap)))
    space = ScoreSpace(
        directions=Basis.from_directions(shared_directions(n_features, k, shared)),
        cap=cap,
        start=("0",) * q,
        shrink=("1",) * q,
        lift=decimal_table(np.eye(q) * width),
        rounding="centre",
        hint_bits=hint_bits,
        target=decimals([centre, span]),
    )
    return Design(
        space=space,
        encode=decimal_table(np.eye(q) / width),
        curvature=decimal_table(np.eye(q) * (1 + RIDGE)),
        penalty=decimal_table(np.eye(q) * RIDGE),
        n_steps=N_STEPS,
        limits=(limit,) * k,
        pushes=decimals([1.0, *[2.0**limit] * k]),
        reach=("1000000000",) * q,
        spread=decimals(np.full(q, sd / width)),
        samples_per_site=samples_per_site,
    )
