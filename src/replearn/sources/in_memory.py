"""Whole tables in memory, from any format."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import ReplearnError
from replearn.sources.common import Piece, Source, Table, Watch, total_seen
from replearn.sources.csv_files import CsvSource
from replearn.sources.labels import typed_labels
from replearn.sources.npz_files import NpzSource
from replearn.sources.opening import open_source
from replearn.sources.parquet_files import ParquetSource
from replearn.types import is_sparse


def read_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    columns: Sequence[str] | None = None,
    watch: Watch | None = None,
    n_features: int | None = None,
) -> Table:
    """Read a numeric table with or without labels; see `open_source`.

    What cannot be read, or holds anything but finite numbers and labels, is refused.
    """
    source = open_source(path, target, columns, n_features=n_features)
    whole = read_within(source, None, watch)
    assert whole is not None  # there is no limit
    return Table(whole.X, None if whole.y is None else _typed_labels(whole.y), source.names)


def read_within(
    source: Source,
    limit: int | None,
    watch: Watch | None = None,
    label: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
) -> Piece | None:
    """All rows of a source as one piece, or None if they take more than ``limit`` bytes.

    ``label`` is applied to the labels of each piece as soon as it is read; `Labels.take` is meant.
    """
    if limit is not None and (source.nbytes or 0) > limit:
        return None
    if isinstance(source, NpzSource):
        whole = source.load()
        if label is not None and whole.y is not None:
            whole = replace(whole, y=label(whole.y))
        if watch is not None:
            watch(1.0)
        return whole
    pieces: list[Piece] = []
    n_bytes = 0
    for piece in source.pieces(watch=watch):
        X = piece.X
        arrays = (X.data, X.indices, X.indptr) if is_sparse(X) else (X,)
        n_bytes += sum(array.nbytes for array in arrays)
        if limit is not None and n_bytes > limit:
            return None
        if label is not None and piece.y is not None:
            piece = replace(piece, y=label(piece.y))
        pieces.append(piece)
    if not pieces:
        raise _no_rows(source)
    return pieces[0] if len(pieces) == 1 else _joined(source, pieces)


def _joined(source: Source, pieces: list[Piece]) -> Piece:
    """The pieces as one; the list is emptied."""
    y = None if pieces[0].y is None else np.concatenate([piece.y for piece in pieces])
    seen = total_seen(piece.seen for piece in pieces)
    if source.sparse:
        import scipy.sparse as sp

        return Piece(sp.vstack([piece.X for piece in pieces], format="csr"), y, 0, seen)
    n_rows = pieces[-1].first_row + pieces[-1].X.shape[0]
    dtype = np.result_type(*(piece.X.dtype for piece in pieces))
    X = np.empty((n_rows, source.n_features), dtype=dtype)
    while pieces:  # from the last to the first, each freed as soon as it is copied
        piece = pieces.pop()
        X[piece.first_row : piece.first_row + piece.X.shape[0]] = piece.X
    return Piece(X, y, 0, seen)


def _no_rows(source: Source) -> ReplearnError:
    below = " below its header" if isinstance(source, CsvSource) else ""
    return ReplearnError(f"{source.place} must have rows{below}, got none. Check the file.")


def read_columns(
    path: str | os.PathLike[str],
    target: str | None = None,
    watch: Watch | None = None,
    categories: Sequence[str] = (),
    n_features: int | None = None,
) -> tuple[Any, NDArray[Any] | None]:
    """Raw columns by name and labels, for a protocol to encode; a CSR array if rows are sparse.

    Numbers have NaN for a missing value; text, as objects, None. In a CSV file a column is numeric
    if all its cells are numbers or empty, unless it is one of the ``categories``: codes such as
    ``00701`` would lose their zeros. Columns without names are called ``x0``, ``x1``, ...
    """
    source = open_source(path, raw=True, n_features=n_features)
    if not isinstance(source, CsvSource | ParquetSource):
        table = read_table(path, target, watch=watch, n_features=n_features)
        if table.names is None and is_sparse(table.X):
            return table.X, table.y
        names = table.names or tuple(f"x{i}" for i in range(table.X.shape[1]))
        return dict(zip(names, table.X.T, strict=True)), table.y
    found = list(source.raw_columns(target, categories, watch))
    if not found:
        raise _no_rows(source)
    columns = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    return columns, None if target is None else _typed_labels(columns.pop(target))


def _typed_labels(labels: NDArray[Any]) -> NDArray[Any]:
    """Text as numbers if all of it is; other labels as they are."""
    return typed_labels(labels.tolist()) if labels.dtype == object else labels
