"""Replicable preprocessing: a scaler whose numbers two labs share, and a ledger for pipelines."""

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from replearn.codes.encoding import Encoding, NumberColumn
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.codes.rounding import round_codes, unround
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.plans.sizes import decimal
from replearn.stages.means import replicable_mean
from replearn.types import Codes, Matrix, Vector
from replearn.warn import warn

_NORMAL_GINI = math.sqrt(math.pi) / 2  # standard deviation over E|x - x'|, for a normal column
_NO_SPREAD = -1000.0  # logarithm that stands for a column without any spread


class ReplicableScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Centre and scale columns by means that two labs round to the same numbers.

    A `sklearn.preprocessing.StandardScaler` computes its means from a lab's own rows, so two
    labs feed different numbers to whatever follows, and nothing after it can be exactly equal.
    Here each lab rounds its means to a grid with a shared random offset (rSTAT of [ILPS22]).

    Parameters
    ----------
    max_disagreement : float, default=0.05
        Probability that two labs may get different scalers. Used for the warning only: the grid
        is set by ``cell``, never by the rows.
    cell : float, default=2.0
        Width of the grid: of the centres in units of the column's scale, and of the logarithm
        of the scales. Wider cells agree more often and scale more coarsely; the rounding error
        is half a cell at most (about .26 cells on average for the cube).
    shared_seed : int or str, default=0
        Published; may be that of the classifier, since every use has its own stream.
    bounds : pair or array of shape (n_features, 2), optional
        Published smallest and largest value of the columns. With them the disagreement is
        proved (`replearn.replicable_mean`), for far more rows; ``cell`` is not used.
    tolerance : float, default=0.1
        With ``bounds``: accuracy of the means, as a share of the column's range.

    Attributes
    ----------
    centre_, scale_ : arrays of shape (n_features,)
        Functions of the codes and the seed alone.
    codes_ : int64 array
    fingerprint_ : str
        SHA-256 of codes, grid and seed: equal scalers, equal fingerprints.
    estimated_disagreement_ : float
        From this sample, at most: the expected number of walls between two labs' means. With
        ``bounds``: what is proved, ``max_disagreement``.

    Notes
    -----
    The scale comes first: the mean of ``|x - x'|`` over disjoint pairs of rows (Gini's mean
    difference; it needs no centre), rounded on a logarithmic grid. The centre is then rounded
    on a grid in units of that scale. Means within D of each other (in cells) get other codes
    with probability at most D per column: tests/unit/test_scaling.py.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labs = [rng.normal([5, 2000], [1, 30], size=(20_000, 2)) for _ in range(2)]
    >>> first, second = (ReplicableScaler(shared_seed=7).fit(X) for X in labs)
    >>> first.fingerprint_ == second.fingerprint_
    True
    """

    centre_: Vector
    scale_: Vector
    codes_: Codes
    n_features_in_: int

    def __init__(
        self,
        max_disagreement: float = 0.05,
        cell: float = 2.0,
        shared_seed: int | str = 0,
        bounds: Any = None,
        tolerance: float = 0.1,
    ) -> None:
        self.max_disagreement = max_disagreement
        self.cell = cell
        self.shared_seed = shared_seed
        self.bounds = bounds
        self.tolerance = tolerance

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn centres and scales that another lab would learn too.

        Parameters
        ----------
        X : array or dataframe of shape (n_samples, n_features)
            At least 4 rows.
        y : ignored

        Returns
        -------
        self
        """
        if not isinstance(self.cell, int | float) or not 0 < self.cell < math.inf:
            raise ReplearnError(f"cell must be a positive number, got {self.cell!r}. 2 is good.")
        X = validate_data(self, X, dtype=np.float64, ensure_min_samples=4)
        shared = SharedRandomness(f"{seed_text(self.shared_seed, 'shared_seed')}/scaler")
        if self.bounds is not None:
            return self._fit_bounded(X, shared)
        spreads, spread_errors = _spreads(X[shared.permutation("pairs", len(X))])
        log_spreads = np.where(spreads > 0, np.log(np.maximum(spreads, 1e-300)), _NO_SPREAD)
        scale_codes, rounded = _rounded(log_spreads, "scale", self.cell, shared)
        self.scale_ = np.array([_scale(log_spread) for log_spread in rounded])
        centre_codes, centres = _rounded(
            _column_means(X) / self.scale_, "centre", self.cell, shared
        )
        self.centre_ = centres * self.scale_
        self.codes_ = np.concatenate([scale_codes, centre_codes])
        mean_errors = X.std(axis=0) / math.sqrt(len(X)) / self.scale_
        self.estimated_disagreement_ = min(
            1.0, float((mean_errors + spread_errors).sum() * 2 / math.sqrt(math.pi) / self.cell)
        )
        self._warn(len(X))
        return self

    def _fit_bounded(self, X: Matrix, shared: SharedRandomness) -> Self:
        """Means of columns with published bounds: proved, by Hoeffding and a union bound."""
        n_columns = X.shape[1]
        low, high = _checked_bounds(self.bounds, n_columns)
        inside = np.clip((X - low) / (high - low), 0, 1)
        gaps = _pair_gaps(inside[shared.permutation("pairs", len(X))])

        def mean(values: Vector, name: str) -> float:
            share = self.max_disagreement / (2 * n_columns)  # two means for each column
            return replicable_mean(
                values, self.tolerance, share, shared_seed=str(shared.seed), name=name
            )

        centres = np.array([mean(inside[:, j], f"centre/{j}") for j in range(n_columns)])
        spreads = np.array([mean(gaps[:, j], f"scale/{j}") for j in range(n_columns)])
        self.centre_ = low + (high - low) * centres
        widths = (high - low) * np.maximum(spreads, self.tolerance) * _NORMAL_GINI
        self.scale_ = np.array([float(decimal(width)) for width in widths])
        # equal means, equal integers
        self.codes_ = np.rint(np.concatenate([spreads, centres]) * 2.0**52).astype(np.int64)
        self.estimated_disagreement_ = float(self.max_disagreement)
        return self

    def transform(self, X: Any) -> Matrix:
        """Centre and scale rows.

        Parameters
        ----------
        X : array or dataframe of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self, "codes_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray((X - self.centre_) / self.scale_)

    @property
    def fingerprint_(self) -> str:
        """SHA-256 of codes, grid and seed, in hex."""
        if not hasattr(self, "codes_"):
            raise AttributeError("ReplicableScaler has no codes yet. Call fit first.")
        grid = [self.cell] if self.bounds is None else [self.tolerance, np.asarray(self.bounds)]
        codes = ",".join(str(code) for code in self.codes_)
        text = f"{[np.asarray(part).tolist() for part in grid]!r}\n{self.shared_seed}\n{codes}"
        return hashlib.sha256(text.encode()).hexdigest()

    def encoding(self) -> Encoding:
        """The scaling as columns of a protocol, so that later sites need not learn it again."""
        check_is_fitted(self, "codes_")
        names = getattr(self, "feature_names_in_", [f"x{i}" for i in range(self.n_features_in_)])
        columns = zip(names, self.centre_, self.scale_, strict=True)
        return Encoding(tuple(NumberColumn(str(n), f"{c:.6g}", f"{s:.6g}") for n, c, s in columns))

    def _warn(self, n_rows: int) -> None:
        if self.estimated_disagreement_ <= self.max_disagreement:
            return
        needed = n_rows * (self.estimated_disagreement_ / self.max_disagreement) ** 2
        warn(
            f"Another lab would get another scaler with an estimated probability of up to "
            f"{self.estimated_disagreement_:.2f}, above max_disagreement="
            f"{self.max_disagreement:g}. Get more rows (about {float(f'{needed:.1g}'):,.0f} per "
            "lab), widen cell, or fix the scaling in a protocol.",
            ReplicabilityWarning,
        )


def _rounded(
    point: Vector, name: str, width: float, shared: SharedRandomness
) -> tuple[Codes, Vector]:
    """Codes of means on a shifted grid with coins of its own, and the point that they stand for."""
    coins = SharedRandomness(f"{shared.seed}/{name}")
    codes = round_codes(point, width, "centre", coins)
    return codes, unround(codes, point.size, width, "centre", coins)


def _scale(log_spread: float) -> float:
    # three digits, so that no mathematical library moves what the classifier sees
    if log_spread < _NO_SPREAD / 2:
        return 1.0
    return float(decimal(_NORMAL_GINI * math.exp(log_spread)))


def _column_means(X: Matrix) -> Vector:
    # exact sums: the same rows give the same codes in any order
    return np.array([math.fsum(column) / len(X) for column in X.T.tolist()])


def _spreads(X: Matrix) -> tuple[Vector, Vector]:
    """Mean absolute difference of disjoint row pairs, by column, and its relative error."""
    differences = _pair_gaps(X)
    means = _column_means(differences)
    errors = differences.std(axis=0) / math.sqrt(len(differences))
    return means, np.divide(errors, means, out=np.zeros_like(means), where=means > 0)


def _pair_gaps(X: Matrix) -> Matrix:
    """Absolute differences of disjoint pairs of rows."""
    half = len(X) // 2
    return np.abs(X[:half] - X[half : 2 * half])


def _checked_bounds(bounds: Any, n_columns: int) -> tuple[Vector, Vector]:
    try:
        pairs = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (n_columns, 2))
    except ValueError:
        pairs = np.zeros((1, 2))
    if not (np.isfinite(pairs).all() and (pairs[:, 0] < pairs[:, 1]).all()):
        raise ReplearnError(
            f"bounds must be a pair (low, high) or one for each of the {n_columns} columns, each "
            f"with low < high, got {bounds!r}. Publish the range that values can have."
        )
    return pairs[:, 0], pairs[:, 1]


# --- the ledger of a pipeline -----------------------------------------------------------------

#: Transformers that learn nothing but the number of columns, though they call for fit.
_STATELESS = {"PolynomialFeatures"}


@dataclass(frozen=True)
class Entry:
    """One step of a pipeline.

    Attributes
    ----------
    name, kind : str
        Name of the step and of its class.
    status : {"stateless", "replicable", "learns"}
        Learns nothing; learns replicably; learns from this lab's own rows.
    max_disagreement : float or None
        What a replicable step may spend.
    """

    name: str
    kind: str
    status: str
    max_disagreement: float | None


@dataclass(frozen=True)
class Ledger:
    """What the steps of a pipeline spend of the disagreement.

    Attributes
    ----------
    entries : tuple of Entry
    """

    entries: tuple[Entry, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence for each step that no two labs would agree on."""
        return tuple(
            f"step {entry.name!r} ({entry.kind}) learns from this lab's own rows, so two labs "
            "never feed the same numbers to what follows. Use ReplicableScaler, a stateless step "
            "such as Normalizer, or the fixed scaling of a protocol"
            for entry in self.entries
            if entry.status == "learns"
        )

    @property
    def max_disagreement(self) -> float:
        """Bound for the whole pipeline: the sum over its steps; 1 if a step learns freely."""
        if any(entry.status == "learns" for entry in self.entries):
            return 1.0
        return min(1.0, sum(entry.max_disagreement or 0.0 for entry in self.entries))

    def __str__(self) -> str:
        words = {"stateless": "nothing", "replicable": "replicably", "learns": "FROM ITS ROWS"}
        rows = [("step", "kind", "learns", "disagreement")]
        for entry in self.entries:
            spent = {"stateless": "0", "learns": "1"}.get(
                entry.status, f"{entry.max_disagreement or 0:g}"
            )
            rows.append((entry.name, entry.kind, words[entry.status], spent))
        rows.append(("together", "", "", f"{self.max_disagreement:g}"))
        widths = [max(len(row[place]) for row in rows) for place in range(4)]
        return "\n".join("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def check_pipeline(pipeline: Any) -> Ledger:
    """Add up what the steps of a pipeline spend, and warn about steps that break agreement.

    Parameters
    ----------
    pipeline : Pipeline, ColumnTransformer, FeatureUnion or a single estimator
        Fitted or not.

    Returns
    -------
    Ledger
        What each step spends, and their sum.

    Warns
    -----
    ReplicabilityWarning
        For each step that learns from a lab's rows, such as ``StandardScaler``, with the fix.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import Normalizer
    >>> import replearn as rl
    >>> pipeline = make_pipeline(Normalizer(), rl.ReplicableScaler(), rl.ReplicableSVMClassifier())
    >>> round(check_pipeline(pipeline).max_disagreement, 3)
    0.15
    """
    ledger = Ledger(tuple(_entries("", pipeline)))
    for problem in ledger.problems:
        warn(problem + ".", ReplicabilityWarning)
    return ledger


def _entries(prefix: str, estimator: Any) -> Iterator[Entry]:
    """The steps of nested pipelines, one after the other."""
    parts: Any = None
    for attribute in ("steps", "transformers", "transformer_list"):
        parts = parts or getattr(estimator, attribute, None)
    if parts:
        for name, part, *_ in parts:
            yield from _entries(f"{prefix}{name}/", part)
        return
    name = prefix.rstrip("/") or type(estimator).__name__
    if estimator is None or isinstance(estimator, str):  # "passthrough", "drop"
        yield Entry(name, str(estimator), "stateless", None)
    elif hasattr(estimator, "shared_seed") and hasattr(estimator, "max_disagreement"):
        rho = float(estimator.max_disagreement)
        yield Entry(name, type(estimator).__name__, "replicable", rho)
    elif type(estimator).__name__ in _STATELESS or not get_tags(estimator).requires_fit:
        yield Entry(name, type(estimator).__name__, "stateless", None)
    else:
        yield Entry(name, type(estimator).__name__, "learns", None)
