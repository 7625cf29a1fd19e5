"""Rows of arrays, sparse matrices and dataframes: take some, recognise equal ones."""

import hashlib
from collections.abc import Iterator
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from replearn.errors import ReplearnError

_MOST_HASHES = 1_000_000  # rows that are compared, so that memory is bounded


def n_rows_of(X: Any) -> int:
    """Number of rows of a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def check_table(X: Any, y: Any) -> None:
    """Refuse what is no table with labels."""
    if X is None or y is None:
        raise ReplearnError(
            "an audit needs X and y, or draw and n_samples. Pass audit(estimator, X, y) or "
            "audit(estimator, draw=f, n_samples=m)."
        )
    if n_rows_of(X) != len(y):
        raise ReplearnError(
            f"X and y must have as many rows, got {n_rows_of(X):,} and {len(y):,}. "
            "Check how the labels were read."
        )


def take(X: Any, rows: NDArray[np.int64]) -> Any:
    """These rows, as the same kind of table."""
    if isinstance(X, np.ndarray):
        return X[rows]
    if sp.issparse(X):
        return X.tocsr()[rows]
    if isinstance(X, list):
        return [X[row] for row in rows]
    return nw.from_native(X, eager_only=True)[rows.tolist()].to_native()


def row_digest(X: Any, y: Any) -> str:
    """Hash of a table and its labels."""
    digest = hashlib.sha256()
    for row in _row_hashes(X, y):
        digest.update(row)
    return digest.hexdigest()


def copied_share(first: tuple[Any, Any], second: tuple[Any, Any] | None) -> float:
    """Share of the second sample's rows that are also in the first.

    Without a second sample: share of rows that are copies of an earlier one. Labels count.
    Of large tables a part is looked at, chosen by content, so that copies stay together.
    """
    largest = max(n_rows_of(sample[0]) for sample in (first, second) if sample is not None)
    limit = min(256, 256 * _MOST_HASHES // max(1, largest))
    rows = [row for row in _row_hashes(*first) if row[0] < limit]
    known = set(rows)
    if second is None:
        return 1 - len(known) / max(1, len(rows))
    others = [row for row in _row_hashes(*second) if row[0] < limit]
    return sum(row in known for row in others) / max(1, len(others))


def _row_hashes(X: Any, y: Any) -> Iterator[bytes]:
    """Sixteen bytes for each row with its label."""
    for row, label in zip(_row_bytes(X), np.asarray(y).tolist(), strict=True):
        text = row + b"\0" + repr(label).encode()
        yield hashlib.blake2b(text, digest_size=16).digest()


def _row_bytes(X: Any) -> Iterator[bytes]:
    if sp.issparse(X):
        X = X.tocsr()
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        bounds = zip(X.indptr[:-1].tolist(), X.indptr[1:].tolist(), strict=True)
        return (X.indices[a:b].tobytes() + X.data[a:b].tobytes() for a, b in bounds)
    if not isinstance(X, np.ndarray | list):
        X = nw.from_native(X, eager_only=True).to_numpy()
    array = np.asarray(X)
    if array.dtype == object:
        return (repr(row.tolist()).encode() for row in array)
    return (row.tobytes() for row in array)
