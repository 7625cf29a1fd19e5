"""Columns that follow from others, and columns that follow from the outcome: found and named."""

import numpy as np

from replearn.rows import ROW_BITS, Block, dense_terms
from replearn.tables import Encoding
from replearn.types import Mask, Matrix, Vector, is_sparse

#: Rows that are looked at, and terms at most.
_MOST_ROWS, _MOST_TERMS = 1 << 12, 400
#: A term follows from others if they leave less than this of its variance.
_LEFT = 1e-3
#: Others that explain it have coefficients of at least this, in standard deviations.
_PART = 0.05
#: The end of the range of encoded numbers, where different values become one.
_END = 4 << ROW_BITS
#: A coefficient has no estimate if earlier ones leave less than this of its information, which
#: encoded rows have in units of 2^-8.
_NOTHING = 1e-5
#: Rows on each side of a threshold, at least.
_LEAST_SIDE = 10


def repeated_columns(block: Block, encoding: Encoding) -> list[tuple[str, tuple[str, ...]]]:
    """Terms that follow from earlier ones, each with the columns of these: what R shows as NA.

    Products, hats and indicators of missing values are no columns of a table and not looked at.
    """
    # rows whose numbers are not cut
    X, places = _plain_terms(block, encoding)
    inside = (np.abs(X) < _END).all(axis=1)
    X = X[inside][:_MOST_ROWS]
    if len(X) < 2 * X.shape[1] or not X.shape[1]:
        return []

    X = X - X.mean(axis=0)
    spread = np.sqrt((X * X).mean(axis=0))
    correlation = (X.T @ X) / len(X) / np.maximum(np.outer(spread, spread), 1e-300)

    # regress each term on those before it that follow from no other
    kept: list[int] = []
    repeated = []
    for j in range(X.shape[1]):
        if spread[j] == 0:
            continue
        weights = np.linalg.solve(correlation[np.ix_(kept, kept)], correlation[kept, j])
        if 1.0 - float(weights @ correlation[kept, j]) >= _LEFT:
            kept.append(j)
            continue
        others = [kept[i] for i in np.flatnonzero(np.abs(weights) > _PART)]
        columns = [encoding.columns[encoding.terms[places[i]].columns[0]].name for i in others]
        repeated.append((encoding.terms[places[j]].name, tuple(dict.fromkeys(columns))))
    return repeated


def copies_of_numbers(block: Block, encoding: Encoding) -> list[tuple[int, str]]:
    """Columns that copy a target of numbers, or cut it at a threshold; each with what it is."""
    X, places = _plain_terms(block, encoding)
    target = block.targets[: len(X)]
    if len(target) < 2 * _LEAST_SIDE or target.std() == 0:
        return []

    copies = []
    for j, place in enumerate(places):
        (number, *_), column = encoding.terms[place].columns, X[:, j]
        inside = np.abs(column) < _END
        if inside.sum() < 2 * _LEAST_SIDE or column[inside].std() == 0:
            continue

        if abs(np.corrcoef(column[inside], target[inside])[0, 1]) > 1.0 - _LEFT**2:
            copies.append((number, "is a copy of the outcome"))
        elif _is_cut(column, target):
            copies.append((number, "is the outcome, cut at a threshold"))
    return copies


def _is_cut(column: Vector, target: Vector) -> bool:
    """Whether a column of two values has all larger targets on one side."""
    low = column == column.min()
    if not _LEAST_SIDE <= low.sum() <= len(low) - _LEAST_SIDE or np.unique(column[~low]).size > 1:
        return False
    one, other = target[low], target[~low]
    return bool(one.max() < other.min() or other.max() < one.min())


def _plain_terms(block: Block, encoding: Encoding) -> tuple[Matrix, list[int]]:
    """Numbers and levels of some rows, and which terms they are; of very many levels none."""
    places = [i for i, term in enumerate(encoding.terms) if term.kind in ("z", "level")]
    if (
        is_sparse(block.terms)
        or len(places) > _MOST_TERMS
        or block.terms.shape[1] != len(encoding.terms)
    ):
        return np.zeros((0, 0)), []
    rows = dense_terms(block.part(slice(4 * _MOST_ROWS)).terms)
    return np.asarray(rows[:, places], dtype=np.float64), places


def repeated_terms(information: Matrix) -> Mask:
    """Coefficients of which earlier ones leave nothing, as R's models find them: one is enough.

    What earlier ones leave is a pivot of elimination. Columns without any row are among them.
    """
    rest, before = information.copy(), np.diagonal(information)
    repeated = np.zeros(len(rest), dtype=np.bool_)
    for j, own in enumerate(before.tolist()):
        pivot = rest[j, j]
        if pivot > _NOTHING * own:
            rest[j + 1 :, j + 1 :] -= np.outer(rest[j + 1 :, j], rest[j, j + 1 :]) / pivot
        else:
            repeated[j] = True
    return repeated
