"""Plans from a pilot: a small published sample decides what a promise alone cannot know.

A pilot of a thousand rows says how the margins are spread, in which directions the data lie and how
much a lab's direction will vary. From that follow the scaling, the regularisation, the
directions to round in and the grid, all written into a protocol before any site looks at
its own rows. The pilot is not part of any site's sample.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import ndtr

from replearn.basis import Basis
from replearn.cells import CELLS
from replearn.encoding import CategoryColumn, Column, Encoding, NumberColumn, as_text, columns_of
from replearn.errors import ReplearnError
from replearn.estimators.base import label_values
from replearn.plan import Guarantee, Sizes, decimal
from replearn.plans.svm import plan_svm
from replearn.protocol import Protocol
from replearn.randomness import SharedRandomness
from replearn.stages.batches import BatchSums, Rows, max_margin, sum_batches
from replearn.types import Matrix, Signs, Vector

BATCH_SIZE = 100
_N_GROUPS = 48
_N_SUBSETS = 2 * _N_GROUPS
_N_FOLDS = 5
_REGULARIZATIONS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_N_DIRECTIONS = (24, 48)
_MAX_SHAPED = 1024  # inputs: the shaped basis is square
_MAX_PUBLISHED = 20_000  # inputs: wider bases make protocols too large to read
#: Ways to round that a pilot can choose from.
PROJECTION_KINDS = ("none", "hadamard", "principal", "shaped")

_TARGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)

#: Floors of what a pilot shows: a direction without spread in the pilot may have some later.
_EIGENVALUE_FLOOR = 0.01  # of the mean eigenvalue
_SPREAD_FLOOR = 0.1  # of the root mean square spread

#: Accuracies closer than this count as equal; a pilot cannot tell them apart.
_TIE = 0.002

#: The protocol aims below the disagreement that was asked for, since a pilot errs too.
_SAFETY = 0.6


@dataclass(frozen=True)
class FrontierPoint:
    """One way to plan: what it costs and what it is expected to give.

    Attributes
    ----------
    projection : str
        "none", "hadamard", "principal 24", "principal 48" or "shaped".
    scaling : str
        "standard" or "common".
    regularization : float
    samples_per_site : int
    disagreement : float
        Expected probability that two sites get different models (estimated, over seeds).
    accuracy : float
        Expected share of new points that the model gets right (cross-validated on the pilot).
    grid_width : float
    """

    projection: str
    scaling: str
    regularization: float
    samples_per_site: int
    disagreement: float
    accuracy: float
    grid_width: float


@dataclass(frozen=True)
class PilotPlan:
    """What a pilot says: the frontier, and the protocol of the chosen point.

    Attributes
    ----------
    frontier : tuple of FrontierPoint
        The best accuracy at each disagreement, at ``samples_per_site``.
    samples : tuple of FrontierPoint
        The best accuracy at the wanted disagreement, for other numbers of samples.
    chosen : FrontierPoint
    protocol : Protocol
    pilot_accuracy : float
        Cross-validated accuracy before any rounding: what replicability is paid from.
    """

    frontier: tuple[FrontierPoint, ...]
    samples: tuple[FrontierPoint, ...]
    chosen: FrontierPoint
    protocol: Protocol
    pilot_accuracy: float

    def __str__(self) -> str:
        lines = [
            f"Pilot: accuracy {self.pilot_accuracy:.3f} before rounding (cross-validated)",
            f"  {'disagreement':>12}  {'accuracy':>8}  projection, scaling, regularization",
        ]
        lines += [
            f"  {p.disagreement:12.3f}  {p.accuracy:8.3f}  {p.projection}, {p.scaling}, "
            f"{p.regularization:g}"
            for p in self.frontier
        ]
        lines.append(
            f"  chosen: {self.chosen.projection}, expected accuracy {self.chosen.accuracy:.3f} at "
            f"disagreement {self.chosen.disagreement:.3f} with "
            f"{self.chosen.samples_per_site:,} rows per site (estimated from the pilot)"
        )
        return "\n".join(lines)

    def plot(self, axes: Any = None) -> Any:
        """Draw the frontier; needs matplotlib. Returns the axes."""
        return _plot(self, axes)


def plan_from_pilot(
    X: Any,
    y: Any,
    *,
    samples_per_site: int,
    max_disagreement: float = 0.1,
    shared_seed: int | str = 0,
    fit_intercept: bool = True,
    categories: Sequence[str] = (),
    projections: Sequence[str] = PROJECTION_KINDS,
    margin: float = 0.1,
    max_error: float = 0.05,
    failure_prob: float = 0.05,
) -> PilotPlan:
    """Choose everything that two sites must share from a pilot sample.

    Parameters
    ----------
    X : dataframe, mapping of columns, array or CSR matrix of shape (n_pilot, n_columns)
        At least 100 rows; 1,000 are good. Text columns are categories.
    y : array of two labels
    samples_per_site : int
        Rows that each site will have.
    max_disagreement : float, default=0.1
        Wanted probability that two sites get different models; the plan aims at 60 % of it.
    shared_seed : int or str, default=0
        The published seed.
    fit_intercept : bool, default=True
    categories : sequence of str
        Further columns to treat as categories.
    projections : sequence of str
        What to choose from: "none", "hadamard", "principal", "shaped".
    margin, max_error, failure_prob : float
        Recorded in the protocol. The pilot's margins, not these, set the grid.

    Returns
    -------
    PilotPlan

    Notes
    -----
    Candidates: two scalings, six regularisations, and the projections none, Hadamard, 24 or 48
    principal directions of the pilot, and shaped cells. Each is judged by five-fold
    cross-validation of its margins, with the rounding noise that the wanted disagreement leaves,
    and by the spread of batch vectors over random subsets of the pilot. Tested in
    tests/theory/test_pilot.py.
    """
    guarantee = Guarantee(margin, max_error, max_disagreement, failure_prob)
    signs, classes = _signs(y)
    shared = SharedRandomness(str(shared_seed))
    judged = [
        _judge(scaling, encoding, X, signs, weight, fit_intercept, shared)
        for scaling, encoding in _encodings(X, categories)
        for weight in _REGULARIZATIONS
    ]
    candidates = [
        candidate
        for group in judged
        for candidate in group
        if candidate.projection.split()[0] in projections
    ]
    if not candidates:
        raise ReplearnError(
            f"projections must allow one that fits these data, got {list(projections)!r}. "
            f"Known: {', '.join(PROJECTION_KINDS)}."
        )
    target = _SAFETY * max_disagreement

    def best(n_samples: int, disagreement: float) -> FrontierPoint:
        points = (candidate.point(n_samples, disagreement) for candidate in candidates)
        return max(points, key=lambda point: point.accuracy)

    enough = best(samples_per_site, target).accuracy - _TIE
    # of equally accurate plans the more regularised is solved faster and varies less
    candidate = max(
        (c for c in candidates if c.point(samples_per_site, target).accuracy >= enough),
        key=lambda c: (c.regularization, c.point(samples_per_site, target).accuracy),
    )
    chosen = candidate.point(samples_per_site, target)
    return PilotPlan(
        frontier=tuple(best(samples_per_site, wanted) for wanted in _TARGETS),
        samples=tuple(
            best(max(BATCH_SIZE, round(samples_per_site * factor)), target)
            for factor in (0.01, 0.03, 0.1, 0.3, 1, 3, 10)
        ),
        chosen=chosen,
        protocol=_protocol(chosen, candidate, guarantee, shared, classes, fit_intercept),
        pilot_accuracy=candidate.accuracy_before,
    )


# --- reading the pilot ----------------------------------------------------------------------


def _signs(y: Any) -> tuple[Signs, tuple[Any, Any]]:
    values, indices = np.unique(np.asarray(y), return_inverse=True)
    if values.size != 2:
        raise ReplearnError(f"y must hold two classes, got {values.size}.")
    if indices.size < BATCH_SIZE or min(np.bincount(indices)) < _N_FOLDS:
        raise ReplearnError(
            f"a pilot needs at least {BATCH_SIZE} rows and {_N_FOLDS} of each class, got "
            f"{indices.size} rows. A thousand rows are good."
        )
    return (2 * indices - 1).astype(np.int8), label_values(values)


def _encodings(X: Any, categories: Sequence[str]) -> list[tuple[str, Encoding]]:
    """The two scalings that are tried: each column by its own spread, or all by one number."""
    if sp.issparse(X):
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        common = decimal(float(np.median(lengths)) or 1.0)
        names = [f"x{i}" for i in range(X.shape[1])]
        return [("common", Encoding(tuple(NumberColumn(name, "0", common) for name in names)))]
    names = _column_names(X)
    table = columns_of(X, names)
    columns = [_column(name, table[name], name in categories) for name in names]
    numbers = [column for column in columns if isinstance(column, NumberColumn)]
    values = np.array([_numbers(table[column.name]) for column in numbers])
    lengths = np.sqrt(np.nansum(values**2, axis=0)) if numbers else np.ones(1)
    common = decimal(float(np.median(lengths)) or 1.0)
    together = tuple(
        replace(column, centre="0", scale=common) if isinstance(column, NumberColumn) else column
        for column in columns
    )
    return [("standard", Encoding(tuple(columns))), ("common", Encoding(together))]


def _column_names(X: Any) -> list[str]:
    if isinstance(X, Mapping):
        return [str(name) for name in X]
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None:
        return [f"x{i}" for i in range(np.shape(X)[1])]
    return [str(name) for name in names]


def _column(name: str, values: NDArray[Any], as_category: bool) -> Column:
    """Published scaling of one column.

    Binary columns are moved to 0 and 1, not standardised: the spread of a rare one in a pilot
    says little.
    """
    if as_category or values.dtype.kind not in "biuf":
        found = sorted({text for value in values if (text := as_text(value)) is not None})
        return CategoryColumn(name, tuple(found))
    numbers = _numbers(values)
    missing = bool(np.isnan(numbers).any())
    distinct = np.unique(numbers[~np.isnan(numbers)])
    if distinct.size == 0:
        return NumberColumn(name, "0", "1", missing)
    if distinct.size == 1:
        return NumberColumn(name, decimal(distinct[0]), decimal(max(abs(distinct[0]), 1)), missing)
    if distinct.size == 2:
        low, high = distinct
        return NumberColumn(name, decimal(low), decimal(high - low), missing)
    centre, spread = float(np.nanmean(numbers)), float(np.nanstd(numbers))
    # digits of the centre are needed down to the size of the spread, not of the centre
    digits = max(0, 2 - math.floor(math.log10(spread)))
    return NumberColumn(name, f"{centre:.{min(digits, 20)}f}", decimal(spread), missing)


def _numbers(values: NDArray[Any]) -> Vector:
    return np.asarray(values, dtype=np.float64)


# --- judging a way to plan --------------------------------------------------------------------


@dataclass(frozen=True)
class _Candidate:
    """One way to plan, with what the pilot says about it.

    Attributes
    ----------
    margins, loads : arrays, one entry per pilot row
        Cross-validated margin of the row, and the standard deviation of the noise on it per
        unit of grid width.
    fixed_noise : array
        Variance of noise on each row that does not depend on the grid (from a random projection).
    flips : float
        Expected number of crossed walls, times grid width, times sqrt(rows per site).
    """

    projection: str
    scaling: str
    encoding: Encoding
    regularization: float
    n_components: int
    basis: Basis | None
    margins: Vector
    loads: Vector
    fixed_noise: Vector
    flips: float

    @property
    def accuracy_before(self) -> float:
        """Cross-validated accuracy without rounding."""
        return float((self.margins > 0).mean())

    def point(self, n_samples: int, disagreement: float) -> FrontierPoint:
        """Accuracy when the grid is as wide as the wanted disagreement needs."""
        walls = -math.log1p(-disagreement)  # crossings are rare and nearly independent
        width = self.flips / math.sqrt(n_samples) / walls
        noise = np.sqrt((self.loads * width) ** 2 + self.fixed_noise)
        accuracy = ndtr(self.margins / np.maximum(noise, 1e-12)).mean()
        return FrontierPoint(
            self.projection,
            self.scaling,
            self.regularization,
            n_samples,
            disagreement,
            float(accuracy),
            float(decimal(width)),
        )


def _judge(
    scaling: str,
    encoding: Encoding,
    X: Any,
    signs: Signs,
    weight: float,
    fit_intercept: bool,
    shared: SharedRandomness,
) -> list[_Candidate]:
    """All projections for one scaling and one regularisation."""
    rows = _unit_rows(encoding.transform(X), fit_intercept)
    n_rows = signs.size
    sums = _subset_sums(rows, signs, np.arange(n_rows), weight, shared)
    mean, spread = _unit_spread(sums)
    n_inputs = mean.size
    # a random subset of N rows varies less than a fresh batch by 1 - n/N
    spread *= math.sqrt(BATCH_SIZE / (1 - min(BATCH_SIZE, n_rows // 2) / n_rows))
    normals = _cross_validated_normals(rows, signs, weight, shared)
    margins = _own_fold(rows, normals) * signs
    cell = CELLS["leech"]
    blank = np.zeros(n_rows)

    def candidate(
        projection: str,
        components: Matrix,
        margins: Vector,
        loads: Vector,
        basis: Basis | None = None,
        n_components: int = n_inputs,
        fixed_noise: Vector = blank,
    ) -> _Candidate:
        flips = _expected_flips(components)
        loads = loads * math.sqrt(cell.second_moment)
        return _Candidate(
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
        )

    candidates = [candidate("none", spread, margins, np.ones(n_rows))]
    total = math.sqrt(float((spread**2).sum()))
    for k in (48, 96, 192, 384):
        if k < n_inputs / 2:
            even = np.full((1, k), total / math.sqrt(k))
            noise = (1 - margins**2) * (1 / k - 1 / n_inputs)
            candidates.append(
                candidate(
                    "hadamard",
                    even,
                    margins,
                    np.ones(n_rows),
                    n_components=k,
                    fixed_noise=noise,
                )
            )
    if n_inputs > _MAX_PUBLISHED:
        return candidates
    axes, eigenvalues = _principal(rows, max(_N_DIRECTIONS), n_inputs)
    for k in _N_DIRECTIONS:
        if k < n_inputs and len(axes) >= k:
            basis = Basis.from_directions(axes[:k])
            inside = _inner(rows, axes[:k])
            seen = np.einsum("ij,ij->i", inside, (normals @ axes[:k].T)[_folds(n_rows)]) * signs
            candidates.append(
                candidate(
                    f"principal {k}",
                    spread @ axes[:k].T,
                    seen,
                    np.sqrt((inside**2).sum(axis=1)),
                    basis,
                    k,
                )
            )
    if n_inputs <= _MAX_SHAPED and len(axes) == n_inputs:
        widths = _shaped_widths(spread @ axes.T, eigenvalues)
        by_width = np.argsort(-widths)  # cells of like width share a block
        axes, widths = axes[by_width], widths[by_width]
        basis = Basis.from_directions(axes, widths)
        inside = _inner(rows, axes)
        candidates.append(
            candidate(
                "shaped",
                (spread @ axes.T) / widths,
                margins,
                np.sqrt(((inside * widths) ** 2).sum(axis=1)),
                basis,
            )
        )
    return candidates


def _unit_rows(X: Any, fit_intercept: bool) -> Any:
    """Rows as directions, a constant appended; dense or CSR."""
    if sp.issparse(X):
        if fit_intercept:
            X = sp.hstack([X, np.ones((X.shape[0], 1))])
        lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return sp.csr_matrix(sp.diags_array(1 / np.maximum(lengths, 1e-300)) @ X)
    if fit_intercept:
        X = np.hstack([X, np.ones((len(X), 1))])
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.ascontiguousarray(X / np.maximum(lengths, 1e-300))


def _subset_sums(
    rows: Any, signs: Signs, members: NDArray[np.int64], weight: float, shared: SharedRandomness
) -> BatchSums:
    """Sums of batch SVMs on random subsets of the members."""
    size = min(BATCH_SIZE, members.size // 2)
    subsets = [
        members[shared.sample("pilot/subsets", members.size, size, row)]
        for row in range(_N_SUBSETS)
    ]
    plan = plan_svm(
        Guarantee(0.1, 0.05, 0.1, 0.05),
        rows.shape[1],
        sizes=Sizes(batch_size=size, regularization=weight, projection="none"),
    )
    order = np.concatenate(subsets)
    return sum_batches(max_margin(plan), Rows(rows, signs, order), plan, n_groups=_N_GROUPS)


def _unit_spread(sums: BatchSums) -> tuple[Vector, Matrix]:
    """Unit mean, and rows whose second moments are the covariance of one vector across it."""
    length = float(np.linalg.norm(sums.mean())) or 1.0
    mean = sums.mean() / length
    deviations = sums.group_deviations() / length
    across = deviations - np.outer(deviations @ mean, mean)
    return mean, across / math.sqrt(len(deviations) - 1)


def _folds(n_rows: int) -> NDArray[np.int64]:
    return np.arange(n_rows) % _N_FOLDS


def _cross_validated_normals(
    rows: Any, signs: Signs, weight: float, shared: SharedRandomness
) -> Matrix:
    """For each fold the unit mean vector of the other folds."""
    folds = _folds(signs.size)
    normals = []
    for fold in range(_N_FOLDS):
        sums = _subset_sums(rows, signs, np.flatnonzero(folds != fold), weight, shared)
        normals.append(_unit_spread(sums)[0])
    return np.array(normals)


def _own_fold(rows: Any, normals: Matrix) -> Vector:
    """Score of each row by the normal that has not seen it."""
    return (rows @ normals.T)[np.arange(rows.shape[0]), _folds(rows.shape[0])]


def _inner(rows: Any, axes: Matrix) -> Matrix:
    return np.asarray(rows @ axes.T)


def _expected_flips(components: Matrix) -> float:
    """Walls crossed by the difference of two sites' means, times width times sqrt(rows).

    ``components`` are deviations in the code space whose second moments are batch size times
    the covariance of a batch vector; two sites differ with twice that over their rows.
    """
    cell = CELLS["leech"]
    variances = 2 * (components**2).sum(axis=0)
    starts = np.arange(0, variances.size, cell.block)
    return float(cell.isotropic_flips * np.sqrt(np.add.reduceat(variances, starts)).sum())


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


def _shaped_widths(components: Matrix, eigenvalues: Vector) -> Vector:
    """Relative cell widths that cross fewest walls at a given noise on the rows.

    ``width_j ~ (spread_j / eigenvalue_j)^(1/3)``: wide cells where labs differ much and rows hardly
    extend. Both are bounded from below, because a direction that is empty in the pilot
    need not stay so; without the floors one such column ruins all agreement.
    """
    spreads = np.sqrt((components**2).sum(axis=0))
    spreads = np.maximum(spreads, _SPREAD_FLOOR * math.sqrt(float((spreads**2).mean())))
    extents = np.maximum(eigenvalues, _EIGENVALUE_FLOOR * float(eigenvalues.mean()))
    widths = (spreads / extents) ** (1 / 3)
    return np.asarray(widths / np.exp(np.log(widths).mean()))


# --- writing it down --------------------------------------------------------------------------


def _protocol(
    chosen: FrontierPoint,
    candidate: _Candidate,
    guarantee: Guarantee,
    shared: SharedRandomness,
    classes: tuple[Any, Any],
    fit_intercept: bool,
) -> Protocol:
    basis = candidate.basis
    return Protocol(
        algorithm="svm",
        parameters={
            "batch_size": BATCH_SIZE,
            "failure_prob": repr(guarantee.failure_prob),
            "fit_intercept": fit_intercept,
            "grid_width": decimal(chosen.grid_width),
            "margin": repr(guarantee.margin),
            "max_disagreement": repr(guarantee.max_disagreement),
            "max_error": repr(guarantee.max_error),
            "n_components": candidate.n_components,
            "projection": candidate.projection if basis is None else "published",
            "regularization": repr(candidate.regularization),
            "rounding": "leech",
            "unit_mean": True,
        },
        seed=str(shared.seed),
        classes=classes,
        encoding=candidate.encoding,
        basis=basis,
        notes={
            "expected_accuracy": f"{chosen.accuracy:.3f}",
            "expected_disagreement": f"{chosen.disagreement:.3f}",
            "projection": chosen.projection,
            "samples_per_site": str(chosen.samples_per_site),
            "scaling": chosen.scaling,
        },
    )


def _plot(plan: PilotPlan, axes: Any) -> Any:
    import matplotlib.pyplot as plt

    if axes is None:
        axes = plt.figure(figsize=(9, 4), layout="constrained").subplots(1, 2)
    left, right = axes
    left.plot([p.disagreement for p in plan.frontier], [p.accuracy for p in plan.frontier], "o-")
    left.plot(plan.chosen.disagreement, plan.chosen.accuracy, "s", markersize=10, label="chosen")
    left.axhline(plan.pilot_accuracy, linestyle=":", color="grey", label="without rounding")
    left.set(
        xscale="log",
        xlabel="disagreement between two sites",
        ylabel="accuracy",
        title=f"{plan.chosen.samples_per_site:,} rows per site",
    )
    left.legend(loc="lower right")
    right.plot([p.samples_per_site for p in plan.samples], [p.accuracy for p in plan.samples], "o-")
    right.axhline(plan.pilot_accuracy, linestyle=":", color="grey")
    right.set(
        xscale="log",
        xlabel="rows per site",
        title=f"at disagreement {plan.chosen.disagreement:.2g}",
    )
    return axes
