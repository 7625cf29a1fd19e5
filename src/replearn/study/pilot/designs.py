"""From cells in the coordinates of a pilot to a published design."""

import math

import numpy as np

from replearn.codes.basis import UNIT, Basis
from replearn.codes.decimals import decimal_table, decimals
from replearn.codes.design import Design
from replearn.codes.score_space import ScoreSpace
from replearn.study.pilot.allotment import Allotment
from replearn.study.pilot.cross_fit import orthonormal_frame, with_constant
from replearn.study.pilot.encoders import EncodedPilot
from replearn.types import Matrix

#: Standard deviations of a direction's products beyond which a row is cut.
_FAR = 6.0


def design_of(allotment: Allotment, pilot: EncodedPilot, span: Matrix, threshold: str) -> Design:
    """The published form of an allotment.

    Parameters
    ----------
    allotment : Allotment
    pilot : EncodedPilot
    span : array of shape (r, n_columns)
        Orthonormal basis in whose coordinates the family's directions are.
    threshold : str
        Log-odds from which on a row is positive.

    Notes
    -----
    With columns ``a = (1, D x)`` of published directions, a triangular frame B makes ``a B``
    orthonormal on the pilot, and the metric M rounds ``M theta`` for ``theta`` in that frame. A
    site works with a itself: all maps are written for it.
    """
    family, q = allotment.family, allotment.size
    directions = Basis.from_directions(family.directions[: q - 1] @ span)
    columns = with_constant(np.asarray(pilot.rows @ (directions.rows * UNIT).T))
    frame = orthonormal_frame(columns, family.weights)
    inverse = np.linalg.inv(frame)
    information = family.information[:q, :q]
    metric = np.linalg.cholesky(information).T
    ridge = family.ridge * np.eye(q)
    space = ScoreSpace(
        directions=directions,
        cap=pilot.cap,
        start=decimals(frame @ family.start[:q]),
        shrink=decimals(allotment.shrink),
        lift=decimal_table(frame @ np.linalg.inv(metric) * allotment.widths),
        rounding=allotment.rounding,
        threshold=threshold,
        hint_bits=allotment.agreement.hint_bits,
    )
    return Design(
        space=space,
        encode=decimal_table((metric / allotment.widths[:, None]) @ inverse),
        curvature=decimal_table(_symmetric(inverse.T @ (information + ridge) @ inverse)),
        penalty=decimal_table(_symmetric(inverse.T @ ridge @ inverse)),
        n_steps=family.n_steps,
        limits=_limits(columns[:, 1:]),
        reach=decimals(allotment.reach / allotment.widths),
        spread=decimals(allotment.spread / allotment.widths),
        samples_per_site=allotment.agreement.samples_per_site,
    )


def _limits(columns: Matrix) -> tuple[int, ...]:
    """Exponents of the powers of two that are six deviations away or more."""
    sizes = np.abs(columns.mean(axis=0)) + _FAR * columns.std(axis=0)
    return tuple(math.ceil(math.log2(max(size, 1e-9))) for size in sizes.tolist())


def _symmetric(matrix: Matrix) -> Matrix:
    return np.asarray((matrix + matrix.T) / 2)
