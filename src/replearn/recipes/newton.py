"""The fit of a generalised linear model, in whole numbers: Newton's method with exact gradients.

The gradient is an exact sum over all rows. The information matrix only steers: it comes from a
share of the rows, chosen by their content, and on coarser grids. So the result is a function of
the multiset of rows: no order, chunk, thread, BLAS kernel or machine changes a bit.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from replearn.errors import ReplearnError
from replearn.exact import algebra
from replearn.exact.rows import (
    COARSE,
    COARSE_BLOCK,
    ROW_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    marks,
    on_grid,
    pieces,
    scores,
    with_constant,
)
from replearn.exact.sums import ExactSums, integers
from replearn.losses import Loss
from replearn.types import Matrix, Vector, is_sparse

#: A step of at most this many units of 2^-26 in every coefficient is the last one: 2^-17.
LAST_STEP = 1 << 9
#: Coefficients of standardised columns stay below this; beyond, the classes are separable.
MAX_THETA = 16.0
#: The information matrix comes from about so many rows for each coefficient.
ROWS_PER_COEFFICIENT = 128
#: It is made again while steps are larger than this.
_LARGE_STEP = 2.0**-5
_MOST_STEPS = 200


@dataclass(frozen=True)
class State:
    """Where Newton's method stands: what a pass over the rows needs to know.

    Attributes
    ----------
    theta : array of shape (n_scores, n_columns)
        Coefficients, whole numbers of units of 2^-26, the constant first.
    share : int
        Rows whose mark is below it make the information matrix; 2^32 takes all, 0 none.
    """

    theta: Matrix
    share: int


def sums_at(blocks: Iterable[Block], loss: Loss, state: State) -> ExactSums:
    """Gradient and information of the loss, summed up exactly over rows.

    Returns
    -------
    sums : ExactSums
        ``rows``, ``weight``, ``gradient`` (n_scores, n_columns), ``sampled`` (weight) and
        ``information`` (pairs of scores, n_columns, n_columns).
    """
    n_scores, n_columns = state.theta.shape
    n_pairs = n_scores * (n_scores + 1) // 2
    rows = weight = sampled = 0
    gradient = np.zeros((n_scores, n_columns), dtype=np.int64)
    information = np.zeros((n_pairs if state.share else 0, n_columns, n_columns), dtype=np.int64)
    for block in blocks:
        for piece in pieces(block, n_columns):
            X = with_constant(piece.terms)
            found = scores(X, state.theta, piece.offset)
            residual = loss.residual(found, piece.targets)
            if piece.weights is not None:
                residual *= piece.weights[:, None]
            gradient += (X.T @ on_grid(residual, loss.bits)).T.astype(np.int64)
            rows += piece.n_rows
            weight += _total_weight(piece.weights, piece.n_rows)
            if state.share:
                chosen = marks(X) < state.share
                sampled += _add_information(
                    information, loss, X[chosen], found[chosen], _cut(piece.weights, chosen)
                )
    return ExactSums(
        "a Newton step",
        {
            "rows": integers([rows]),
            "weight": integers([weight]),
            "sampled": integers([sampled]),
            "gradient": integers(gradient),
            "information": integers(information),
        },
    )


def _cut(weights: Vector | None, chosen: np.ndarray) -> Vector | None:
    return None if weights is None else weights[chosen]


def _total_weight(weights: Vector | None, n_rows: int) -> int:
    if weights is None:
        return n_rows << WEIGHT_BITS
    return int((weights * 2.0**WEIGHT_BITS).astype(np.int64).sum())


def _add_information(
    information: np.ndarray, loss: Loss, X: Matrix, found: Matrix, weights: Vector | None
) -> int:
    """Add up ``X' diag(curvature) X`` over some rows, and return their weight."""
    for start in range(0, len(found), COARSE_BLOCK):
        part = slice(start, start + COARSE_BLOCK)
        coarse = X[part] * (1.0 / COARSE)
        if is_sparse(coarse):
            coarse.data = np.floor(coarse.data + 0.5)
        else:
            coarse = np.floor(coarse + 0.5)
        curvature = loss.curvature(found[part])
        if weights is not None:
            curvature = curvature * weights[part, None]
        for pair, values in enumerate(on_grid(curvature, loss.bits).T):
            if is_sparse(coarse):
                product = (coarse.multiply(values[:, None]).T @ coarse).toarray()
            else:
                product = (coarse * values[:, None]).T @ coarse
            information[pair] += product.astype(np.int64)
    return _total_weight(weights, len(found))


def fit(
    passed: Callable[[State], ExactSums],
    loss: Loss,
    ridge: float,
    shares: Vector,
    n_rows: int,
    n_columns: int,
    start: Matrix | None = None,
) -> Matrix:
    """Coefficients at which the mean loss with its ridge is smallest.

    Parameters
    ----------
    passed : function from State to ExactSums
        One pass over all rows, wherever they are.
    loss : Loss
    ridge : float
        Per row: weight of half the squared length of the coefficients, without the constant,
        on the mean loss. Labs with different numbers of rows have one target.
    shares : array
        Shares of the classes, or the mean target, of all rows.
    n_rows, n_columns : int
        Rows, and coefficients of a score with its constant.
    start : array of shape (n_scores, n_columns), optional
        Where to begin, in whole units; by default at the constant model.

    Returns
    -------
    theta : array of shape (n_scores, n_columns)
        Whole numbers of units of 2^-26.
    """
    n_scores = loss.n_scores
    if start is None:
        theta = np.zeros((n_scores, n_columns))
        theta[:, 0] = on_grid(loss.start(shares), THETA_BITS)
    else:
        theta = start
    penalty = Penalty(ridge, n_scores, n_columns)
    share = _share(n_rows, n_scores * n_columns)
    sums = passed(State(theta, share))
    lower = None
    last = np.inf
    for _ in range(_MOST_STEPS):
        gradient = _mean_gradient(sums, loss) + penalty.gradient(theta)
        if np.abs(gradient).max() <= 2.0**-loss.bits:
            return theta  # the grid of residuals shows no slope any more
        if sums.values["information"].size:
            lower = algebra.cholesky(mean_information(sums, loss, ridge), ridge / 4)
        assert lower is not None
        step = -algebra.solve(lower, gradient.reshape(-1)).reshape(theta.shape)
        size = float(np.abs(step).max())
        units = on_grid(step, THETA_BITS)
        if np.abs(units).max() <= LAST_STEP:
            return theta + units
        steers_badly = size > last / 4 and share < 1 << 32
        if steers_badly:  # a larger share of the rows will do better
            share = min(4 * share, 1 << 32)
        last = size
        slope = algebra.total((gradient * step).reshape(-1))
        length = 1.0
        while True:
            there = theta + on_grid(length * step, THETA_BITS)
            if not np.abs(there).max() < MAX_THETA * 2.0**THETA_BITS:
                if length < 2.0**-20:
                    raise _separable()
                length /= 2
                continue
            steer = steers_badly or length * size > _LARGE_STEP
            sums = passed(State(there, share if steer else 0))
            ahead = _mean_gradient(sums, loss) + penalty.gradient(there)
            if algebra.total((ahead * step).reshape(-1)) <= -slope / 4:
                break
            length /= 2
            if length < 2.0**-20:
                raise ReplearnError(
                    "the fit must converge, but its steps do not shrink. Use a larger ridge."
                )
        theta = there
    raise ReplearnError(
        f"the fit must converge, but {_MOST_STEPS} steps were not enough. Use a larger ridge."
    )


def _separable() -> ReplearnError:
    return ReplearnError(
        f"coefficients of standardised columns must stay below {MAX_THETA:g}, but these rows drive "
        "them further: some column nearly separates the classes. Use a larger ridge."
    )


@dataclass(frozen=True)
class Penalty:
    """The ridge: symmetric in all classes, and none on the constants."""

    ridge: float
    n_scores: int
    n_columns: int

    def gradient(self, theta: Matrix) -> Matrix:
        """Of the penalty, at coefficients in whole units."""
        values = theta * 2.0**-THETA_BITS
        if self.n_scores > 1:
            centre = np.zeros(self.n_columns)
            for row in values:
                centre = centre + row
            values = values - centre / (self.n_scores + 1)
        out = values * self.ridge
        out[:, 0] = 0.0
        return out

    @property
    def matrix(self) -> Matrix:
        """Second derivatives of the penalty."""
        columns = np.full(self.n_columns, self.ridge)
        columns[0] = 0.0
        one = np.eye(self.n_scores)
        if self.n_scores > 1:
            one = one - 1.0 / (self.n_scores + 1)
        return np.kron(one, np.diag(columns))


def _share(n_rows: int, n_coefficients: int) -> int:
    """The share of rows, in units of 2^-32, that makes the information matrix."""
    wanted = max(ROWS_PER_COEFFICIENT * n_coefficients, 1 << 13)
    return 1 << 32 if 2 * wanted > n_rows else (wanted << 32) // n_rows


def _mean_gradient(sums: ExactSums, loss: Loss) -> Matrix:
    unit = 2.0 ** (WEIGHT_BITS - ROW_BITS - loss.bits)
    return sums.reals("gradient") * unit / float(sums.count("weight"))


def mean_information(sums: ExactSums, loss: Loss, ridge: float) -> Matrix:
    """The information matrix of a row with the ridge, over all scores and columns."""
    parts = sums.reals("information")
    n_columns, n_scores = parts.shape[1], loss.n_scores
    unit = 2.0 ** (WEIGHT_BITS - loss.bits) / (2.0**ROW_BITS / COARSE) ** 2
    parts = parts * unit / float(max(sums.count("sampled"), 1))
    whole = np.empty((n_scores, n_columns, n_scores, n_columns))
    for pair, (k, l) in enumerate(zip(*np.triu_indices(n_scores), strict=True)):
        whole[k, :, l, :] = parts[pair]
        whole[l, :, k, :] = parts[pair].T
    penalty = Penalty(ridge, n_scores, n_columns).matrix
    return whole.reshape(n_scores * n_columns, n_scores * n_columns) + penalty
