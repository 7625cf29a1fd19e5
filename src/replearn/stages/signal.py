"""Whether rows hold any signal: labs that agree on noise agree on nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.stages.weights import parted
from replearn.types import Matrix, Order, Vector, is_sparse

#: P-values from here on are called no signal.
LEVEL = 0.05

#: Why there is no p-value.
TOO_FEW = "fewer than 40 rows, or than 4 of a class"
ELSEWHERE = "the rows are on a cluster, and only sums leave it; `replearn evaluate` tests some"
ONLY_SUMS = "only sums of the rows are here; each site can test its own rows"
NOT_KEPT = "a stream keeps no rows"

_FIRST_LOOK = 20_000  # rows; all of them only if these show nothing
_FEWEST = 40  # rows
_FEW_DIGITS = 1e-8  # a variance that is a smaller share of the mean square has lost half its digits
_MOST_NUMBERS = 1 << 24  # of rows that are kept of a stream


@dataclass(frozen=True)
class Signal:
    """A test of "the labels know nothing of the rows".

    Attributes
    ----------
    p_value : float
        If the labels are independent of the rows, it is below any p with probability at most p.
    auc : float
        How well a direction that was learned on one half of the rows orders the other half.
    n_rows : int
        Rows that were looked at.
    """

    p_value: float
    auc: float
    n_rows: int

    @property
    def found(self) -> bool:
        """Whether the rows show any."""
        return self.p_value < LEVEL

    def __str__(self) -> str:
        p = f"p = {self.p_value:.2g}" if self.p_value >= 1e-6 else "p < 1e-6"
        head = "yes" if self.found else "NOT SHOWN"
        return (
            f"{head}: half of {self.n_rows:,} rows orders the other half with AUC {self.auc:.3f}, "
            f"guessing 0.5, {p}"
        )

    @property
    def problem(self) -> str:
        """What to say if the rows show no signal; "" if they do."""
        if self.found:
            return ""
        return (
            f"These {self.n_rows:,} rows show no signal: a direction learned on one half orders "
            f"the other half with AUC {self.auc:.3f}, where guessing has 0.5 (p = "
            f"{self.p_value:.2g}). There may be none, and labs agree on noise, too; or it "
            "takes more rows to see it. Check labels and columns, or get more rows."
        )


def signal_of(X: Any, targets: NDArray[Any], order: Order | None = None) -> Signal | None:
    """Test whether the labels know anything of the rows, as a linear model could use it.

    Parameters
    ----------
    X : array or CSR matrix of shape (n_rows, n_features)
        Finite numbers.
    targets : array of shape (n_rows,)
        Signs or class numbers; weights do not count.
    order : int64 array, optional
        In which the rows are looked at; a random one, if the rows are sorted.

    Returns
    -------
    Signal or None
        None if there are too few rows to say anything: fewer than 40, or than 4 of a class.

    Notes
    -----
    The rows are cut into two halves. The difference of the class means of one half, over the
    variances of the columns, is a direction; the test of Mann and Whitney, one-sided, says
    whether it orders the other half. If labels and rows are independent, a direction of one half
    knows nothing of the other, in any dimension, so its p-value is valid; a score of the model
    itself on the rows that it was fitted on would look like signal where there is none. There are
    two halves, K classes (one if K = 2), and two looks, the first at 20,000 rows: the smallest
    p-value is multiplied by their number. Calibration and power: tests/theory/test_signal.py.
    """
    numbers, _ = parted(targets)
    members = range(numbers.size) if order is None else order
    classes = np.unique(numbers)
    if len(members) < _FEWEST or classes.size < 2 or _fewest(numbers[_places(members)]) < 4:
        return None
    # from all over the table, which may be sorted
    look = members[:: -(-len(members) // _FIRST_LOOK)] if order is None else members[:_FIRST_LOOK]
    n_looks = 1 if len(look) == len(members) else 2
    found = _look(X, numbers, look, n_looks)
    if n_looks == 2 and not found.p_value < LEVEL / 10:
        found = _look(X, numbers, members, n_looks)
    return found


def spaced_signal(X: Any, targets: NDArray[Any], order: Order | None = None) -> Signal | None:
    """The test on evenly spaced rows in their order, as `SpacedRows` keeps them of a stream.

    Rows of a file give the same p-value, whether they are read at once or piece by piece.
    """
    numbers, _ = parted(targets)
    members = np.arange(numbers.size) if order is None else order
    stride = 1
    while -(-members.size // stride) > _most_kept(X):
        stride *= 2
    picked = members[::stride]
    return signal_of(X[picked], numbers[picked])


def _most_kept(X: Any) -> int:
    """Rows that are kept of a stream at most."""
    return max(_FEWEST, min(_FIRST_LOOK, _MOST_NUMBERS // max(1, X.shape[1])))


def _places(members: Order | range) -> Order | slice:
    """For indexing: evenly spaced rows are taken as they are, without a copy."""
    if isinstance(members, range):
        return slice(members.start, members.stop, members.step)
    return members


def _fewest(numbers: NDArray[Any]) -> int:
    return int(np.unique(numbers, return_counts=True)[1].min())


def _look(X: Any, numbers: NDArray[Any], members: Order | range, n_looks: int) -> Signal:
    kinds = np.unique(numbers)[1:] if np.unique(numbers).size == 2 else np.unique(numbers)
    rows, labels = X[_places(members)], numbers[_places(members)]
    one, other = slice(0, None, 2), slice(1, None, 2)
    tests = [
        _half_on_half(rows, labels == kind, learned, tested)
        for kind in kinds
        for learned, tested in ((one, other), (other, one))
    ]
    smallest = min(p for p, _ in tests) * len(tests) * n_looks
    return Signal(min(1.0, smallest), float(np.mean([a for _, a in tests])), len(members))


def _half_on_half(
    X: Any, positive: NDArray[np.bool_], learned: slice, tested: slice
) -> tuple[float, float]:
    """One-sided p-value and area of a direction of some rows on other rows."""
    # who compares models reads `LEVEL`, and has no scipy perhaps
    from replearn.stages.ranking import auc, signal_p_value

    with np.errstate(all="ignore"):  # rows of extreme length say nothing
        scores = np.nan_to_num(np.asarray(X[tested] @ _direction(X[learned], positive[learned])))
    hits = positive[tested]
    if hits.all() or not hits.any():
        return 1.0, 0.5
    area = auc(scores, hits).value
    two_sided = signal_p_value(scores, hits)
    return (two_sided / 2 if area > 0.5 else 1 - two_sided / 2), area


def _direction(X: Any, positive: NDArray[np.bool_]) -> Vector:
    """Difference of the class means over the variances of the columns."""
    n, n_positive = positive.size, int(positive.sum())
    if n_positive in (0, n):
        return np.zeros(X.shape[1])
    weights = np.where(positive, 1 / n_positive, -1 / (n - n_positive))
    difference = np.asarray(X.T @ weights, dtype=np.float64)
    if is_sparse(X):
        means = np.asarray(X.mean(axis=0)).ravel()
        variances = np.asarray(X.multiply(X).mean(axis=0)).ravel() - means**2
    else:
        variances = _variances(X)
    usable = variances > 0
    return np.where(usable, difference / np.where(usable, variances, 1.0), 0.0)


def _variances(X: Matrix) -> Vector:
    """Of the columns: from sums in one pass, and with care where these lose digits."""
    n = X.shape[0]
    squares = np.einsum("ij,ij->j", X, X, dtype=np.float64) / n
    variances: Vector = squares - np.asarray(X.T @ np.full(n, 1 / n)) ** 2
    careful = variances <= _FEW_DIGITS * squares
    variances[careful] = X[:, careful].var(axis=0, dtype=np.float64)
    return variances


class SpacedRows:
    """Evenly spaced rows of a stream of any length, at most as many as the first look takes.

    Every row is kept until there are too many; then every second one is dropped, and of the
    following rows as many are skipped. So it takes little memory, and sorted rows do no harm.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Any, NDArray[Any]]] = []
        self._n_seen, self._stride = 0, 1

    def take(self, X: Any, targets: NDArray[Any]) -> None:
        """Look at the next rows."""
        numbers, _ = parted(targets)
        while -(-(self._n_seen + numbers.size) // self._stride) > _most_kept(X):
            self._stride *= 2
            if self._parts:
                rows, labels = self._joined()
                self._parts = [(rows[::2], labels[::2])]
        picked = slice(-self._n_seen % self._stride, None, self._stride)
        self._n_seen += numbers.size
        # copied, so that the other rows can go
        self._parts.append((X[picked].copy(), numbers[picked].copy()))

    def signal(self) -> Signal | None:
        """The test on what was kept."""
        return signal_of(*self._joined()) if self._parts else None

    def _joined(self) -> tuple[Any, NDArray[Any]]:
        rows = [part for part, _ in self._parts]
        labels = np.concatenate([part for _, part in self._parts])
        if not is_sparse(rows[0]):
            return np.vstack(rows), labels
        import scipy.sparse as sp  # models are checked without scipy, and never come here

        return sp.vstack(rows, format="csr"), labels
