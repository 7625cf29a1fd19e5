"""Whether rows hold any signal: labs that agree on noise agree on nothing."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.kernels.halves import crossed_scores, half_sums
from replearn.stages.weights import parted
from replearn.types import Matrix, Order, Vector, is_sparse

#: P-values from here on are called no signal.
LEVEL = 0.05

#: Why there is no p-value.
TOO_FEW = "fewer than 40 rows, or than 4 of a class"
ELSEWHERE = "the rows are on a cluster, and only sums leave it; `replearn evaluate` tests some"
ONLY_SUMS = "only sums of the rows are here; each site can test its own rows"
NOT_KEPT = "a stream keeps no rows"

_FIRST_LOOK = 10_000  # rows; all of them if there are not twice as many, or if these show nothing
_FEWEST = 40  # rows
_MOST_NUMBERS = 1 << 24  # of rows that are kept of a stream
_HALVES = (slice(0, None, 2), slice(1, None, 2))


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
            f"{self.p_value:.2g}). There may be none, and labs also agree on noise; or it "
            "takes more rows to see it. Check labels and columns, or get more rows."
        )


def signal_of(X: Any, targets: NDArray[Any], order: Order | None = None) -> Signal | None:
    """Test whether the labels know anything of the rows, as a linear model could use it.

    ``targets`` are signs or class numbers; weights do not count. The order in which the rows are
    looked at should be a random one, if they are sorted. None if there are too few rows to say
    anything: fewer than 40, or than 4 of a class.

    Notes
    -----
    The rows are cut into two halves. The difference of the class means of one half, over the
    variances of the columns, is a direction; the test of Mann and Whitney, one-sided, says
    whether it orders the other half. If labels and rows are independent, a direction of one half
    knows nothing of the other, in any dimension, so its p-value is valid; a score of the model
    itself on the rows that it was fitted on would look like signal where there is none. There are
    two halves, K classes (one if K = 2), and two looks at more than 20,000 rows, the first at
    10,000 of them: the smallest p-value is multiplied by their number. Calibration and power:
    tests/theory/test_signal.py.
    """
    numbers, _ = parted(targets)
    labels = numbers if order is None else numbers[order]
    if labels.size < _FEWEST:
        return None
    kinds, counts = _counted(labels)
    if kinds.size < 2 or counts.min() < 4:
        return None
    kinds = kinds[kinds.size == 2 :]  # each against all others; of two, only the second
    n_looks = 1 if labels.size <= 2 * _FIRST_LOOK else 2
    look = slice(None)
    if n_looks == 2:  # without an order from all over the table, which may be sorted
        step = -(-labels.size // _FIRST_LOOK)
        look = slice(0, None, step) if order is None else slice(_FIRST_LOOK)
    members = np.arange(labels.size) if order is None else order
    found = _look(X, members[look], labels[look], kinds, n_looks)
    if n_looks == 2 and not found.p_value < LEVEL / 10:
        found = _look(X, members, labels, kinds, n_looks)
    return found


def _counted(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different labels, and how many rows have them."""
    ends = np.array([labels.min(), labels.max()])
    counts = np.array([np.count_nonzero(labels == end) for end in ends])
    if counts.sum() == labels.size:  # most often: no need to sort
        return ends, counts
    return np.unique(labels, return_counts=True)


def spaced_signal(X: Any, targets: NDArray[Any], order: Order) -> Signal | None:
    """The test on evenly spaced rows in their order, as `SpacedRows` keeps them of a stream.

    Rows of a file give the same p-value, whether they are read at once or piece by piece.
    """
    stride = 1
    while -(-order.size // stride) > _most_rows(X):
        stride *= 2
    return signal_of(X, targets, order[::stride])


def _most_rows(X: Any) -> int:
    """Rows that are kept of a stream at most."""
    return max(_FEWEST, min(2 * _FIRST_LOOK, _MOST_NUMBERS // max(1, X.shape[1])))


def _look(
    X: Any, members: Order, labels: NDArray[Any], kinds: NDArray[Any], n_looks: int
) -> Signal:
    # who compares models reads `LEVEL`, and may have no scipy
    from replearn.stages.ranking import area_and_p_value

    rows = X[members] if is_sparse(X) else X
    tests = []
    for kind in kinds:
        positive = labels == kind
        with np.errstate(all="ignore"):  # rows of extreme length say nothing
            scores = np.nan_to_num(_crossed_scores(rows, members, positive))
        tests += [area_and_p_value(scores[half], positive[half]) for half in _HALVES]
    smallest = min(p for _, p in tests) * len(tests) * n_looks
    return Signal(min(1.0, smallest), float(np.mean([area for area, _ in tests])), members.size)


def _crossed_scores(X: Any, members: Order, positive: NDArray[np.bool_]) -> Vector:
    """Scores of the rows, those of each half by the direction of the other one.

    A CSR matrix holds the members only.
    """
    if not is_sparse(X):
        sums, squares = half_sums(X, members, positive)
        return crossed_scores(X, members, _directions(sums, squares, positive))
    halves = [X[half] for half in _HALVES]
    kinds = np.column_stack([~positive, positive]).astype(np.float64)
    sums = np.array([(part.T @ kinds[half]).T for half, part in zip(_HALVES, halves, strict=True)])
    squares = np.array([np.asarray(part.multiply(part).sum(axis=0)).ravel() for part in halves])
    scores = np.empty(positive.size)
    directions = _directions(sums, squares, positive)
    for half, part, direction in zip(_HALVES, halves, directions[::-1], strict=True):
        scores[half] = part @ direction
    return scores


def _directions(sums: Any, squares: Matrix, positive: NDArray[np.bool_]) -> Matrix:
    """Difference of the class means over the variances of the columns, for each half.

    ``sums`` and ``squares`` are those of `half_sums`.
    """
    n_positive = np.array([[positive[half].sum()] for half in _HALVES])
    n_rows = np.array([[positive[half].size] for half in _HALVES])
    variances = squares / n_rows - (sums.sum(axis=1) / n_rows) ** 2
    difference = sums[:, 1] / n_positive - sums[:, 0] / (n_rows - n_positive)
    usable = (variances > 0) & (n_positive > 0) & (n_positive < n_rows)
    return np.where(usable, difference / variances, 0.0)


class SpacedRows:
    """Evenly spaced rows of a stream of any length, at most as many as are looked at at once.

    Every row is kept until there are too many; then every second one is dropped, and of the
    following rows as many are skipped. So it takes little memory, and sorted rows do no harm. Who
    knows how many rows there will be says so: the same rows are kept, and no others copied.
    """

    def __init__(self, n_expected: int | None = None) -> None:
        self._parts: list[tuple[Any, NDArray[Any]]] = []
        self._n_seen, self._stride = 0, 1
        self._n_expected = n_expected or 0

    def take(self, X: Any, targets: NDArray[Any]) -> None:
        """Look at the next rows."""
        numbers, _ = parted(targets)
        n_rows = max(self._n_expected, self._n_seen + numbers.size)
        while -(-n_rows // self._stride) > _most_rows(X):
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
