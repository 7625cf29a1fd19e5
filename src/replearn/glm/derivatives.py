"""Derivatives of a loss, summed up exactly over rows: all that a fit asks of them.

The gradient is that of all rows. The information matrix, the mean of second derivatives, comes from
a share of the rows, chosen by their content, and on a coarser grid: it only steers.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any, Literal

import numpy as np

from replearn.glm.losses import Loss, Multinomial
from replearn.rows import (
    COARSE,
    COARSE_BLOCK,
    COARSE_SHIFT,
    EVERY_ROW,
    MAX_BLOCK,
    ROW_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    ExactSums,
    LevelRows,
    add_lower_products,
    column_sums,
    integers,
    most_rows,
    on_grid,
    pieces,
    scores,
    sparse_rows,
    with_constant,
)
from replearn.types import Array, BlockMap, Matrix, Vector, is_sparse

#: How the information of scores and columns is summed up: as matrices over the columns, one for
#: each pair of scores or one for each class; or as a first row and a diagonal for each class.
Form = Literal["pairs", "classes", "alone"]

#: Up to so many coefficients all pairs steer a fit; up to so many columns a matrix of each class.
MOST_STEERED = 500
#: Pairs of scores save a fit passes, but beyond so many columns for each score after the second
#: one their matrices take longer than the passes.
MOST_PAIRED = 64
#: Rows whose sums int64 holds: an entry of the information has at most 2^42 of each.
_MOST_ADDED = 1 << 16
#: The constant in the units of the information matrix.
_COARSE_ONE = 1 << (ROW_BITS - COARSE_SHIFT)
#: Numbers of dense rows whose products are made at once: 32 MB.
_MOST_FLOATS = 1 << 22
#: Arrays of the size of scores that are in use at once.
_SCORES_IN_USE = 8
#: So many times as many columns as matrices are few.
_FEW_COLUMNS = 3
#: Sparse entries that are kept in float64 during a fit: 32 MB.
_MOST_READY = 1 << 22


def sums_at(
    blocks: Iterable[Block],
    loss: Loss,
    theta: Matrix,
    sample_threshold: int = 0,
    form: Form = "pairs",
    work: BlockMap = map,
) -> ExactSums:
    """Gradient and information of the loss, summed up exactly over rows.

    Parameters
    ----------
    blocks : iterable of Block
    loss : Loss
    theta : array of shape (n_scores, n_columns)
        Coefficients, in whole units of 2^-26.
    sample_threshold : int
        Rows whose mark is below it make the information; 2^32 takes all, 0 none.
    form : "pairs", "classes" or "alone"
        See `Form`.
    work : how blocks are passed over

    Returns
    -------
    sums : ExactSums
        ``rows``, ``weight``, ``gradient`` (n_scores, n_columns), ``sampled`` (weight) and
        ``information``: for each pair of scores or each class the lower triangle over the columns,
        row by row; or for each class its first row and its diagonal.
    """
    one = partial(_few_sums, loss, theta, sample_threshold, form)
    return _total(blocks, one, work)


def information_at(
    blocks: Iterable[Block],
    loss: Loss,
    theta: Matrix,
    sample_threshold: int,
    form: Form = "pairs",
    work: BlockMap = map,
) -> ExactSums:
    """The information alone, as `sums_at` gives it beside the gradient."""
    one = partial(_few_products, loss, theta, sample_threshold, form)
    return _total(blocks, one, work)


def _total(blocks: Iterable[Block], one: Callable[[Block], ExactSums], work: BlockMap) -> ExactSums:
    parts = (part for block in blocks for part in _parts(block))
    return reduce(add, work(one, parts))


def ready(block: Block) -> list[Block]:
    """The same rows for many passes: cut once, so that their marks are made once.

    Few sparse ones are in float64, or else each product of SciPy would cast them.
    """
    parts = list(_parts(block))
    if not is_sparse(block.terms) or block.terms.nnz > _MOST_READY:
        return parts

    ready_parts = []
    for part in parts:
        rows = part.terms
        data = rows.data.astype(np.float64)
        terms = sparse_rows(data, rows.indices, rows.indptr, rows.shape)
        ready_parts.append(replace(part, terms=terms))
    return ready_parts


def _parts(block: Block) -> Iterator[Block]:
    """So few rows at a time that int64 holds their sums."""
    if block.n_rows <= _MOST_ADDED:
        yield block
        return
    for start in range(0, block.n_rows, _MOST_ADDED):
        yield block.part(slice(start, start + _MOST_ADDED))


def _few_sums(
    loss: Loss, theta: Matrix, sample_threshold: int, form: Form, block: Block
) -> ExactSums:
    """Sums of so few rows that int64 holds them."""
    gradient = np.zeros(theta.shape, dtype=np.int64)
    for piece, rows in _in_cache(block, theta.shape):
        _add_gradient(gradient, loss, rows, scores(rows, theta, piece.offset), piece)

    of_gradient = {
        "rows": integers([block.n_rows]),
        "weight": integers([block.weight]),
        "gradient": gradient,
    }
    products = _few_products(loss, theta, sample_threshold, form, block)
    return ExactSums(products.of, {**of_gradient, **products.values})


def _few_products(
    loss: Loss, theta: Matrix, sample_threshold: int, form: Form, block: Block
) -> ExactSums:
    """The information of so few rows that int64 holds it."""
    information = np.zeros(
        _room_for_information(theta.shape, sample_threshold, form), dtype=np.int64
    )
    add_information = _add_first_and_diagonal
    if form != "alone":
        add_information = partial(_add_matrices, form)

    sampled = 0
    if sample_threshold:
        some = block
        if sample_threshold < EVERY_ROW:
            some = block.part(block.marks < sample_threshold)
        sampled = some.weight
        for piece, rows in _for_products(some, theta.shape, form):
            eta = scores(rows, theta, piece.offset)
            add_information(information, loss, rows, eta, piece.weights)

    # what is symmetric is told once
    flat: Array = information.reshape(len(information), math.prod(information.shape[1:]))
    if form != "alone":
        lower = np.tril_indices(theta.shape[1])
        flat = information[:, lower[0], lower[1]]
    return ExactSums("a Newton step", {"sampled": integers([sampled]), "information": flat})


def _add_gradient(gradient: np.ndarray, loss: Loss, rows: Any, eta: Matrix, piece: Block) -> None:
    """Add up ``X' residual`` over some rows, whose scores are ``eta``."""
    n_columns = gradient.shape[1]
    slopes = _slopes(loss, eta, piece)
    products = column_sums(rows, slopes).astype(np.int64)
    gradient[:, n_columns - products.shape[1] :] += products

    # rows without their constant
    if products.shape[1] < n_columns:
        gradient[:, 0] += slopes.sum(axis=0).astype(np.int64) << ROW_BITS


def _in_cache(block: Block, shape: tuple[int, ...]) -> Iterator[tuple[Block, Any]]:
    """Pieces of rows that a core's cache holds, and their terms for products.

    Terms are without their constant: to copy them as they are takes half as long.
    """
    n_scores, n_columns = shape
    terms = block.terms
    if is_sparse(terms):
        # ready rows are one piece, since SciPy takes long to begin: 2^16 x 2^14 x 2^22 is 2^52
        if terms.dtype == np.float64 and n_scores == 1:
            yield block, terms
            return
        for piece in pieces(block, n_columns):
            yield piece, piece.terms
        return

    width, n_filled = n_columns, n_columns - 1
    if isinstance(terms, LevelRows):
        width, n_filled = terms.n_stored + n_scores, len(terms.number_places)
    width = max(width, _SCORES_IN_USE * n_scores)

    # one room for all pieces, so that it stays in the cache
    room = np.empty((min(most_rows(width), block.n_rows), n_filled))
    for piece in pieces(block, width):
        yield piece, _reals(piece.terms, room)


def _for_products(block: Block, shape: tuple[int, ...], form: Form) -> Iterator[tuple[Block, Any]]:
    """Pieces for products of columns, which take longer to begin; dense ones have a constant."""
    n_columns = shape[1]
    if is_sparse(block.terms):
        for piece in pieces(block, n_columns):
            yield piece, piece.terms
        return

    has_levels = isinstance(block.terms, LevelRows) and form != "alone"
    most = min(COARSE_BLOCK, max(256, _MOST_FLOATS // n_columns))
    room = None
    if has_levels:
        most = MAX_BLOCK
    else:
        room = np.empty((n_columns, min(most, block.n_rows))).T  # each column in one piece

    for start in range(0, block.n_rows, most):
        piece = block.part(slice(start, start + most))
        if has_levels:
            yield piece, _reals(piece.terms)
        else:
            yield piece, with_constant(piece.terms, room)


def _reals(terms: Any, room: Matrix | None = None) -> Any:
    """Terms in float64, written into ``room`` if it is given."""
    if is_sparse(terms):
        return terms
    if isinstance(terms, LevelRows):
        return replace(terms, numbers=_reals(terms.numbers, room))
    if room is None:
        return terms.astype(np.float64)

    reals = room[: len(terms)]
    np.copyto(reals, terms)
    return reals


def _slopes(loss: Loss, eta: Matrix, piece: Block) -> Matrix:
    """Residuals of rows times their weights, on the grid."""
    residual = loss.residual(eta, piece.targets)
    if piece.weights is not None:
        residual *= piece.weights[:, None]
    return on_grid(residual, loss.bits)


def _room_for_information(
    shape: tuple[int, ...], sample_threshold: int, form: Form
) -> tuple[int, int, int]:
    """For each pair of scores or each class a matrix over the columns, or two rows."""
    n_columns = shape[1]
    n_matrices = information_shape(shape, form)[0]
    if not sample_threshold:
        n_matrices = 0
    return n_matrices, 2 if form == "alone" else n_columns, n_columns


def _add_matrices(
    form: Form, information: np.ndarray, loss: Loss, X: Any, eta: Matrix, weights: Vector | None
) -> None:
    """Add up ``X' diag(curvature) X`` over some rows."""
    if is_sparse(X):
        _add_sparse(information, X, _curvature(form, loss, eta, weights))
    elif isinstance(X, LevelRows):
        numbers = np.floor(with_constant(X.numbers) * (1.0 / COARSE) + 0.5)
        for pair, values in enumerate(_curvature(form, loss, eta, weights)):
            X.add_products(information[pair], numbers, values, COARSE_BLOCK, _COARSE_ONE)
    else:
        _add_dense(form, information, loss, X, eta, weights)


def _add_sparse(information: np.ndarray, X: Any, curvature: Matrix) -> None:
    """In int64, which needs no bound on the number of rows; the constant is not among the rows."""
    coarse = _coarse_cells(X)
    turned = coarse.T.tocsr()
    cells = turned.data
    for matrix, values in zip(information, curvature.astype(np.int64), strict=True):
        turned.data = cells * values[turned.indices]
        matrix[1:, 1:] += (turned @ coarse).toarray()
        matrix[1:, 0] += np.asarray(turned.sum(axis=1)).ravel() * _COARSE_ONE
        matrix[0, 0] += values.sum() * _COARSE_ONE**2


def _coarse_cells(X: Any) -> Any:
    """Sparse rows in units of 2^-8, in int64."""
    cells = X.data.astype(np.int16, copy=False) + int(COARSE) // 2
    cells = (cells >> COARSE_SHIFT).astype(np.int64)
    return sparse_rows(cells, X.indices, X.indptr, X.shape)


def _add_dense(
    form: Form, information: np.ndarray, loss: Loss, X: Any, eta: Matrix, weights: Vector | None
) -> None:
    """In float64, of so few rows that products are exact; only what is up to the diagonal."""
    # round in place: these are the largest arrays
    X *= 1.0 / COARSE
    X += 0.5
    np.floor(X, out=X)

    # many matrices of few columns: products of a column with others serve all matrices
    curvature = _curvature(form, loss, eta, weights)
    if X.shape[1] < _FEW_COLUMNS * len(curvature):
        for place in range(X.shape[1]):
            pairs = X[:, place:] * X[:, place, None]
            information[:, place:, place] += (curvature @ pairs).astype(np.int64)
        return

    weighted = np.empty_like(X)
    for matrix, values in zip(information, curvature, strict=True):
        np.multiply(X, values[:, None], out=weighted)
        add_lower_products(matrix, weighted, X)


def _add_first_and_diagonal(
    information: np.ndarray, loss: Loss, X: Any, eta: Matrix, weights: Vector | None
) -> None:
    """Add up the first row and the diagonal of each class."""
    n_others = information.shape[2] - X.shape[1]  # columns that sparse rows leave out: the constant
    values = _curvature("alone", loss, eta, weights)
    if is_sparse(X):  # int64 needs no bound on the number of rows
        values = values.astype(np.int64)
        coarse = _coarse_cells(X)
        cells = coarse.data
    else:
        coarse = cells = np.floor(X * (1.0 / COARSE) + 0.5)

    # products with the constant, then squares, which take the place of the cells
    products = column_sums(coarse, values.T).astype(np.int64)
    information[:, 0, n_others:] += products * _COARSE_ONE
    np.multiply(cells, cells, out=cells)
    information[:, 1, n_others:] += column_sums(coarse, values.T).astype(np.int64)
    if n_others:
        totals = values.sum(axis=1).astype(np.int64)
        information[:, :, 0] += totals[:, None] * _COARSE_ONE**2


def _curvature(form: Form, loss: Loss, eta: Matrix, weights: Vector | None) -> Matrix:
    """A row for each pair of scores or each class, on the grid."""
    if form == "pairs" or not isinstance(loss, Multinomial):
        curvature = loss.curvature(eta)
    else:
        curvature = loss.class_curvature(eta)
    if weights is not None:
        curvature = curvature * weights[:, None]
    return on_grid(curvature, loss.bits).T


@dataclass(frozen=True)
class Penalty:
    """The ridge, of all columns or of each: symmetric in all classes, none on the constants."""

    ridge: Vector | float
    n_scores: int
    n_columns: int

    def gradient(self, theta: Matrix) -> Matrix:
        """Of the penalty, at coefficients in whole units."""
        values = theta * 2.0**-THETA_BITS
        # the first class has no coefficients, but counts in the mean over all classes
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
        return np.asarray(np.kron(one, np.diag(columns)), dtype=np.float64)


def mean_gradient(sums: ExactSums, theta: Matrix, loss: Loss, ridge: Vector | float) -> Matrix:
    """Gradient of the mean loss with its ridge."""
    unit = 2.0 ** (WEIGHT_BITS - ROW_BITS - loss.bits)
    of_loss = sums.reals("gradient") * unit / float(sums.count("weight"))
    return of_loss + Penalty(ridge, *theta.shape).gradient(theta)


def mean_information(sums: ExactSums, loss: Loss, ridge: Vector | float) -> Matrix:
    """The information matrix of a row with the ridge, over all scores and columns."""
    parts = mean_parts(sums, loss, "pairs")
    return over_scores(parts, loss.n_scores) + Penalty(ridge, loss.n_scores, parts.shape[1]).matrix


def over_scores(parts: Matrix, n_scores: int) -> Matrix:
    """One matrix over all scores and columns, from a symmetric one for each pair of scores."""
    n_columns = parts.shape[1]
    matrix = np.empty((n_scores, n_columns, n_scores, n_columns))
    for part, (k, m) in zip(parts, zip(*np.triu_indices(n_scores), strict=True), strict=True):
        matrix[k, :, m, :] = matrix[m, :, k, :] = part
    return matrix.reshape(n_scores * n_columns, n_scores * n_columns)


def mean_parts(sums: ExactSums, loss: Loss, form: Form) -> Matrix:
    """What sums have of the information matrix, of a row."""
    unit = 2.0 ** (WEIGHT_BITS - loss.bits) / (2.0**ROW_BITS / COARSE) ** 2
    flat = sums.reals("information")
    n_columns = flat.shape[1] // 2
    if form != "alone":  # of a triangle
        n_columns = (math.isqrt(8 * flat.shape[1] + 1) - 1) // 2
    parts = unpacked(flat, n_columns, form)
    return parts * unit / float(max(sums.count("sampled"), 1))


def form_of(shape: tuple[int, ...]) -> Form:
    """Of the information that steers a fit of coefficients of a shape."""
    n_scores, n_columns = shape
    if n_scores * n_columns <= MOST_STEERED and (n_scores - 2) * n_columns <= MOST_PAIRED:
        return "pairs"
    if n_columns <= MOST_STEERED:  # then there are several scores
        return "classes"
    return "alone"


def information_shape(shape: tuple[int, ...], form: Form) -> tuple[int, int]:
    """Rows and numbers of the information about coefficients of a shape, as sums have it."""
    n_scores, n_columns = shape
    triangle = n_columns * (n_columns + 1) // 2
    if form == "pairs":
        return n_scores * (n_scores + 1) // 2, triangle

    n_parts = n_scores + 1 if n_scores > 1 else 1
    return n_parts, triangle if form == "classes" else 2 * n_columns


def unpacked(rows: Array, n_columns: int, form: Form = "pairs") -> Array:
    """Symmetric matrices, or first rows with diagonals, of what sums have."""
    if form == "alone":
        return rows.reshape(len(rows), 2, n_columns)

    matrices = np.zeros((len(rows), n_columns, n_columns), dtype=rows.dtype)
    lower, upper = np.tril_indices(n_columns)
    matrices[:, lower, upper] = matrices[:, upper, lower] = rows
    return matrices
