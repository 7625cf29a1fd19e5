"""From cells in the coordinates of a pilot to a published design."""

import math

import numpy as np

from replearn.codes.basis import UNIT, Basis
from replearn.codes.decimals import Decimals, decimal_table, decimals
from replearn.codes.design import Design
from replearn.codes.score_space import ScoreSpace
from replearn.study.pilot.allotment import Allotment
from replearn.study.pilot.cross_fit import orthonormal_frame, with_constant
from replearn.study.pilot.encoders import EncodedPilot
from replearn.types import Matrix, Vector

#: Standard deviations of a direction's products beyond which a row is cut.
_FAR = 5.0

#: Likewise of its score.
_FAR_PUSH = 6.0


def design_of(
    allotment: Allotment,
    pilot: EncodedPilot,
    span: Matrix,
    threshold: str,
    residuals: Matrix | None,
    n_outputs: int = 1,
    class_weights: Decimals = (),
) -> Design:
    """The published form of an allotment.

    Parameters
    ----------
    span : array of shape (r, n_columns)
        Orthonormal basis in whose coordinates the family's directions are.
    threshold : str
        Log-odds from which on a row is positive.
    residuals : array of shape (n_rows, n_residuals), or None
        Held-out ``p - t`` of the pilot's rows, if there are any; with more classes, for each.
    n_outputs : int, default=1
        Classes less one; they share the directions.

    Notes
    -----
    With columns ``a = (1, D x)`` of published directions, a triangular frame B makes ``a B``
    orthonormal on the pilot, and the metric M rounds ``M theta`` for ``theta`` in that frame. A
    site works with a itself: all maps are written for it.
    """
    family, size = allotment.family, allotment.size
    q = size // n_outputs
    raw = family.directions[: q - 1] @ span
    products = np.asarray(pilot.rows @ raw.T)
    factors, limits = limited(np.abs(products.mean(axis=0)) + _FAR * products.std(axis=0))
    directions = Basis.from_directions(raw * factors[:, None])
    columns = with_constant(np.asarray(pilot.rows @ (directions.rows * UNIT).T))
    frame = orthonormal_frame(columns, family.weights)
    # from coordinates by direction to the published ones, class after class
    written = np.einsum("ij,ce->cije", frame, np.eye(n_outputs)).reshape(size, size)
    inverse = np.linalg.inv(written)
    information = family.information[:size, :size]
    metric = np.linalg.cholesky(information).T
    ridge = family.ridge * np.eye(size)
    if family.n_steps > 1:
        ridge = family.ridge * information / max(float(np.diag(information).mean()), 1e-9)
    space = ScoreSpace(
        directions=directions,
        cap=pilot.cap,
        start=decimals(written @ family.start[:size]),
        shrink=decimals(allotment.shrink),
        lift=decimal_table(written @ np.linalg.inv(metric) * allotment.widths),
        rounding=allotment.rounding,
        threshold=threshold,
        hint_bits=allotment.agreement.hint_bits,
    )
    return Design(
        space=space,
        encode=decimal_table((metric / allotment.widths[:, None]) @ inverse),
        curvature=decimal_table(symmetric(inverse.T @ (information + ridge) @ inverse)),
        penalty=decimal_table(symmetric(inverse.T @ ridge @ inverse)),
        n_steps=family.n_steps,
        limits=limits,
        pushes=_pushes(columns, residuals, family.n_steps, limits),
        reach=decimals(allotment.reach / allotment.widths),
        spread=decimals(allotment.spread / allotment.widths),
        samples_per_site=allotment.agreement.samples_per_site,
        class_weights=class_weights,
    )


def published_columns(pilot: EncodedPilot, design: Design) -> Matrix:
    """The pilot's rows in the published directions, after a constant."""
    return with_constant(np.asarray(pilot.rows @ design.direction_rows.T))


def limited(far: Vector) -> tuple[Vector, tuple[int, ...]]:
    """Factors from 1/2 to 1 that make far products powers of two, and their exponents."""
    sizes = np.maximum(far, 1e-9)
    limits = [math.floor(math.log2(size)) for size in sizes.tolist()]
    return 2.0 ** np.array(limits) / sizes, tuple(limits)


def _pushes(
    columns: Matrix, residuals: Matrix | None, n_steps: int, limits: tuple[int, ...]
) -> Decimals:
    """Sizes to which a row's score is cut: six root mean squares of the pilot's held-out ones.

    Only where that makes a proof tight: with one step.
    """
    largest = np.array([1.0, *(2.0**limit for limit in limits)])
    if residuals is None or n_steps > 1:
        return decimals(largest)
    of_each = [((columns * column[:, None]) ** 2).mean(axis=0) for column in residuals.T]
    sizes = np.sqrt(np.max(of_each, axis=0))
    return decimals(np.minimum(largest, _FAR_PUSH * np.maximum(sizes, 1e-6 * largest)))


def symmetric(matrix: Matrix) -> Matrix:
    """Without what rounding has made different on the two sides of the diagonal."""
    return np.asarray((matrix + matrix.T) / 2)
