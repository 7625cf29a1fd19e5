"""Ways to plan, and what the pilot says about each."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from replearn.codes.basis import Basis
from replearn.codes.cells import CELLS, best_blocks
from replearn.codes.encoding import Encoding
from replearn.codes.randomness import SharedRandomness
from replearn.kernels.slopes import slope_sums
from replearn.plans.block_hints import hinted_ratio, position_variance
from replearn.plans.plan_sgd import plan_sgd
from replearn.plans.plan_svm import plan_svm
from replearn.plans.sizes import Guarantee, Sizes, decimal
from replearn.stages.batches import BatchSums, Rows, best_of_sgd, max_margin, sum_batches
from replearn.stages.row_certificate import solved_by_curvature
from replearn.stages.row_fit import minimize
from replearn.study.pilot.encoders import row_lengths
from replearn.study.pilot.shapes import expected_flips, moments, shaped_widths
from replearn.types import Matrix, Signs, Vector

BATCH_SIZE = 100
REGULARIZATIONS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

#: Of fits on all rows.
ROW_REGULARIZATIONS = (1e-5, 1e-4, 0.001, 0.003, 0.01, 0.03, 0.1)

#: Ways to round that a pilot can choose from.
PROJECTION_KINDS = ("none", "hadamard", "principal", "shaped")

_N_GROUPS = 48
_N_SUBSETS = 2 * _N_GROUPS
_N_FOLDS = 5
_N_DIRECTIONS = (2, 3, 4, 6, 8, 12, 16, 24, 48)  # one would leave a sign to the sites
_N_HADAMARD = (48, 96, 192, 384)
_MAX_SHAPED = 1024  # inputs: the shaped basis is square
MAX_PUBLISHED = 20_000  # inputs: wider bases make protocols too large to read


@dataclass(frozen=True)
class FrontierPoint:
    """One way to plan: what it costs and what it is expected to give."""

    projection: str  # "none", "hadamard", "shaped"; with a number of directions also "principal"
    scaling: str  # "standard" or "common"
    regularization: float
    samples_per_site: int
    disagreement: float  # expected, of two sites (estimated, over seeds)
    accuracy: float  # expected, on new points (cross-validated on the pilot)
    grid_width: float
    estimate: str  # what is rounded: the mean of "batches", or one fit on all "rows"


@dataclass(frozen=True)
class Candidate:
    """One way to plan, with what the pilot says about it; arrays have an entry per pilot row.

    Flips and spread are expected walls that are crossed, times the grid width, and the root mean
    square of a coordinate's difference between two sites; both times sqrt(rows per site).
    """

    projection: str
    scaling: str
    encoding: Encoding
    regularization: float
    n_components: int
    basis: Basis | None
    margins: Vector  # cross-validated
    loads: Vector  # standard deviation of the noise on a row per unit of grid width
    fixed_noise: Vector  # variance of noise that does not depend on the grid: of a projection
    flips: float
    counts: Vector  # what a row counts in the accuracy
    spread: float
    rounding: str
    estimate: str  # what is rounded: the mean of "batches", or a fit on all "rows"

    @property
    def accuracy_before(self) -> float:
        """Cross-validated accuracy without rounding."""
        return float(np.average(self.margins > 0, weights=self.counts))

    def point(self, n_samples: int, disagreement: float, hint_bits: int = 0) -> FrontierPoint:
        """Accuracy when the grid is as wide as the wanted disagreement needs."""
        walls = -math.log1p(-disagreement)  # crossings are rare and nearly independent
        width = self.flips / math.sqrt(n_samples) / walls
        loads = self.loads
        if hint_bits:
            ratio = hinted_ratio(self.rounding, self.n_components, hint_bits, disagreement)
            width = ratio * self.spread / math.sqrt(n_samples)
            inside = position_variance(self.rounding, self.n_components, hint_bits)
            whole = position_variance(self.rounding, self.n_components, 0)
            loads = loads * math.sqrt(inside / whole)
        noise = np.sqrt((loads * width) ** 2 + self.fixed_noise)
        right = ndtr(self.margins / np.maximum(noise, 1e-12))
        accuracy = np.average(right, weights=self.counts)
        return FrontierPoint(
            self.projection,
            self.scaling,
            self.regularization,
            n_samples,
            disagreement,
            float(accuracy),
            float(decimal(width)),
            self.estimate,
        )


@dataclass(frozen=True)
class Scaled:
    """The pilot in one scaling: rows of length 1, and their principal directions.

    There are no directions if the rows are too wide for published ones.
    """

    scaling: str
    encoding: Encoding
    rows: Any  # array or CSR
    axes: Matrix
    eigenvalues: Vector


def scaled(scaling: str, encoding: Encoding, X: Any, fit_intercept: bool) -> Scaled:
    """Encode the pilot, and look for its principal directions."""
    rows = _unit_rows(encoding.transform(X), fit_intercept)
    n_inputs = rows.shape[1]
    if n_inputs > MAX_PUBLISHED:
        return Scaled(scaling, encoding, rows, np.empty((0, n_inputs)), np.empty(0))
    return Scaled(scaling, encoding, rows, *_principal(rows, max(_N_DIRECTIONS), n_inputs))


def candidates_of(
    pilot: Scaled,
    signs: Signs,
    weight: float,
    shared: SharedRandomness,
    class_weights: tuple[float, float] = (1.0, 1.0),
    estimate: str = "batches",
    algorithm: str = "svm",
) -> list[Candidate]:
    """All projections for one scaling, one regularisation and one estimate.

    ``algorithm`` makes the vectors of batches: Algorithm 1 ("svm") or 2 ("sgd").
    """
    scaling, encoding, rows = pilot.scaling, pilot.encoding, pilot.rows
    n_rows, n_inputs = rows.shape
    if estimate == "rows":
        normals, spread = _row_fits(rows, signs, weight, class_weights)
    else:
        everyone = np.arange(n_rows)
        sums = _subset_sums(rows, signs, everyone, weight, shared, class_weights, algorithm)
        _, spread = _unit_spread(sums)
        # a random subset of N rows varies less than a fresh batch by 1 - n/N
        spread *= math.sqrt(BATCH_SIZE / (1 - min(BATCH_SIZE, n_rows // 2) / n_rows))
        normals = cross_validated_normals(rows, signs, weight, shared, class_weights, algorithm)
    counts = np.where(signs > 0, class_weights[1], class_weights[0])
    margins = _own_fold(rows, normals) * signs
    blank = np.zeros(n_rows)

    def candidate(
        projection: str,
        components: Matrix,
        margins: Vector,
        loads: Vector,
        basis: Basis | None = None,
        n_components: int = n_inputs,
        fixed_noise: Vector = blank,
        rounding: str = "leech",
    ) -> Candidate:
        flips = expected_flips(components, rounding)
        return Candidate(
            projection,
            scaling,
            encoding,
            weight,
            n_components,
            basis,
            margins,
            loads,
            fixed_noise,
            flips,
            counts,
            math.sqrt(2 * float((components**2).sum()) / n_components),
            rounding,
            estimate,
        )

    even_loads = np.full(n_rows, math.sqrt(CELLS["leech"].second_moment))
    candidates = [candidate("none", spread, margins, even_loads)]
    total = math.sqrt(float((spread**2).sum()))
    for k in _N_HADAMARD:
        if k < n_inputs / 2:
            even = np.full((1, k), total / math.sqrt(k))
            noise = (1 - margins**2) * (1 / k - 1 / n_inputs)
            candidates.append(candidate("hadamard", even, margins, even_loads, None, k, noise))
    if n_inputs > MAX_PUBLISHED:
        return candidates
    axes, eigenvalues = pilot.axes, pilot.eigenvalues
    for k in _N_DIRECTIONS:
        if k < n_inputs and len(axes) >= k:
            rounding = best_blocks(k)
            order, widths = shaped_widths(spread @ axes[:k].T, eigenvalues[:k], rounding)
            inside = np.asarray(rows @ axes[:k].T)
            seen = np.einsum("ij,ij->i", inside, (normals @ axes[:k].T)[folds_of(n_rows)]) * signs
            for name, places, relative in (
                ("principal", np.arange(k), np.ones(k)),
                ("shaped", order, widths),
            ):
                loads = (inside[:, places] * relative) ** 2 @ moments(rounding, k)
                candidates.append(
                    candidate(
                        f"{name} {k}",
                        spread @ axes[places].T / relative,
                        seen,
                        np.sqrt(loads),
                        Basis.from_directions(axes[places], relative),
                        k,
                        rounding=rounding,
                    )
                )
    if n_inputs <= _MAX_SHAPED and len(axes) == n_inputs:
        order, widths = shaped_widths(spread @ axes.T, eigenvalues, "leech")
        inside = np.asarray(rows @ axes[order].T)
        candidates.append(
            candidate(
                "shaped",
                (spread @ axes[order].T) / widths,
                margins,
                np.sqrt((inside * widths) ** 2 @ moments("leech", n_inputs)),
                Basis.from_directions(axes[order], widths),
            )
        )
    return candidates


def _unit_rows(X: Any, fit_intercept: bool) -> Any:
    """Rows as directions, a constant appended; dense or CSR."""
    if sp.issparse(X):
        if fit_intercept:
            X = sp.hstack([X, np.ones((X.shape[0], 1))])
        return sp.csr_matrix(sp.diags_array(1 / np.maximum(row_lengths(X), 1e-300)) @ X)
    if fit_intercept:
        X = np.hstack([X, np.ones((len(X), 1))])
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.ascontiguousarray(X / np.maximum(lengths, 1e-300))


def _subset_sums(
    rows: Any,
    signs: Signs,
    members: NDArray[np.int64],
    weight: float,
    shared: SharedRandomness,
    class_weights: tuple[float, float] = (1.0, 1.0),
    algorithm: str = "svm",
) -> BatchSums:
    """Sums of the vectors of batches that are random subsets of the members."""
    size = min(BATCH_SIZE, members.size // 2)
    subsets = [
        members[shared.sample("pilot/subsets", members.size, size, row)]
        for row in range(_N_SUBSETS)
    ]
    plan_batches, kernel = _ALGORITHMS[algorithm]
    plan = plan_batches(
        Guarantee(0.1, 0.05, 0.1, 0.05),
        rows.shape[1],
        sizes=Sizes(batch_size=size, regularization=weight, projection="none"),
    )
    plan = replace(plan, class_weights=class_weights)
    order = np.concatenate(subsets)
    return sum_batches(kernel(plan), Rows(rows, signs, order), plan, n_groups=_N_GROUPS)


#: Sizes and vectors of batches.
_ALGORITHMS: dict[str, tuple[Any, Any]] = {
    "svm": (plan_svm, max_margin),
    "sgd": (plan_sgd, best_of_sgd),
}


def _unit_spread(sums: BatchSums) -> tuple[Vector, Matrix]:
    """Unit mean, and rows whose second moments are the covariance of one vector across it."""
    length = float(np.linalg.norm(sums.mean())) or 1.0
    mean = sums.mean() / length
    deviations = sums.group_deviations() / length
    across = deviations - np.outer(deviations @ mean, mean)
    return mean, across / math.sqrt(len(deviations) - 1)


def _row_fits(
    rows: Any, signs: Signs, weight: float, class_weights: tuple[float, float]
) -> tuple[Matrix, Matrix]:
    """Fits on all rows: for each fold the unit vector of the other folds; deviations.

    The second moments of the deviations are n times the covariance of a unit vector from n rows
    (sandwich formula). Slopes are those of rows that a fit has not seen: it makes its own small.
    """
    n_rows, n_inputs = rows.shape
    folds = folds_of(n_rows)

    def fitted(members: NDArray[np.int64]) -> Vector:
        X, y = rows[members], signs[members]
        found = minimize(lambda u: slope_sums(X, y, u, class_weights), n_inputs, weight, 1e-2, True)
        return found.vector

    vectors = np.array([fitted(np.flatnonzero(folds != fold)) for fold in range(_N_FOLDS)])
    lengths = np.maximum(np.sqrt((vectors**2).sum(axis=1)), 1e-300)
    scores = _own_fold(rows, vectors) * signs
    slopes = 1 / (1 + np.exp(np.clip(scores, -700, 700)))
    factors = np.where(signs > 0, class_weights[1], class_weights[0])
    dense: Matrix = np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
    dense = dense * signs[:, None]
    pulls = (factors * slopes)[:, None] * dense
    pulls = (pulls - pulls.mean(axis=0)) / math.sqrt(n_rows)
    moved = solved_by_curvature(dense, factors * slopes * (1 - slopes) / n_rows, weight, pulls)
    mean = (vectors / lengths[:, None]).mean(axis=0)
    mean /= max(float(np.linalg.norm(mean)), 1e-300)
    across = moved - np.outer(moved @ mean, mean)
    return vectors / lengths[:, None], across / float(lengths.mean())


def folds_of(n_rows: int) -> NDArray[np.int64]:
    """Number of the fold of each row."""
    return np.arange(n_rows) % _N_FOLDS


def cross_validated_normals(
    rows: Any,
    signs: Signs,
    weight: float,
    shared: SharedRandomness,
    class_weights: tuple[float, float] = (1.0, 1.0),
    algorithm: str = "svm",
) -> Matrix:
    """For each fold the unit mean vector of the other folds."""
    folds = folds_of(signs.size)
    normals = []
    for fold in range(_N_FOLDS):
        others = np.flatnonzero(folds != fold)
        sums = _subset_sums(rows, signs, others, weight, shared, class_weights, algorithm)
        normals.append(_unit_spread(sums)[0])
    return np.array(normals)


def _own_fold(rows: Any, normals: Matrix) -> Vector:
    """Score of each row by the normal that has not seen it."""
    return (rows @ normals.T)[np.arange(rows.shape[0]), folds_of(rows.shape[0])]


def _principal(rows: Any, n_axes: int, n_inputs: int) -> tuple[Matrix, Vector]:
    """Principal directions of the rows' second moment, largest first, all of them if few."""
    n_rows = rows.shape[0]
    if n_inputs <= _MAX_SHAPED:
        dense = rows.toarray() if sp.issparse(rows) else rows
        eigenvalues, vectors = np.linalg.eigh(dense.T @ dense / n_rows)
        return vectors.T[::-1].copy(), eigenvalues[::-1].copy()
    gram = np.asarray((rows @ rows.T).toarray() if sp.issparse(rows) else rows @ rows.T)
    eigenvalues, vectors = np.linalg.eigh(gram / n_rows)
    n_axes = min(n_axes, n_rows)
    top = vectors[:, ::-1][:, :n_axes]
    axes = np.asarray(rows.T @ top).T
    axes /= np.maximum(np.linalg.norm(axes, axis=1, keepdims=True), 1e-300)
    return axes, eigenvalues[::-1][:n_axes]
