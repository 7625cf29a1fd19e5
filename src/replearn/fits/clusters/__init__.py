"""Fits on a Dask cluster: rows stay where they are, exact sums travel.

A fit on a cluster gives the model of the same rows in the same order on one machine, to the byte,
whatever the number of workers and partitions, and whatever dies on the way. See
``docs/scaling.md``.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from replearn.codes.encoding import Seen
from replearn.errors import ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.fits.clusters.samples import ClusterSample
from replearn.fits.clusters.tables import ClusterRows, RowsInFiles, RowsInPartitions
from replearn.fits.clusters.tasks import spread
from replearn.fits.connection import connect, require_workers, usable_client
from replearn.fits.file_fit import refuse_other_codes, training_source, wanted_columns
from replearn.sources import Watch

__all__ = ["connect", "fit", "spread"]

Classifier = TypeVar("Classifier", bound=ReplicableClassifier)


def fit(
    estimator: Classifier,
    X: Any,
    y: Any = None,
    *,
    target: str | None = None,
    columns: Sequence[str] | None = None,
    client: Any = None,
    task_rows: int | None = None,
    allow_unknown: bool = False,
    watch: Watch | None = None,
) -> Classifier:
    """Fit an estimator on rows that are on a Dask cluster, or that its workers can read.

    Parameters
    ----------
    estimator : replicable classifier
        With ``shuffle=False``: rows are taken in the order of the partitions, which must be random.
    X : path, Dask dataframe or Dask array
        A path is that of a Parquet file, or of a folder of such files, which every worker can read.
        Workers are told where to read; no row goes through this process. Partitions of a dataframe
        and rows of an array are worked on where they are; persist them first if they fit into the
        cluster's memory, or they are computed for each pass over the rows.
    y : Dask series or Dask array, optional
        Labels, with the partitions of X.
    target : str, optional
        Label column of files or a dataframe, instead of ``y``.
    columns : sequence of str, optional
        Feature columns; default all but the target, or those of the estimator's encoding.
    client : distributed.Client, optional
        Default the current one. A cluster is never started here; see `connect`.
    task_rows : int, optional
        Rows that one task reads from files, about; default 64 MiB of numbers.
    allow_unknown : bool, default=False
        Fit although columns are coded differently than the protocol says. Without it files are
        refused, as by `fit_file`, and partitions are warned of, as by ``fit``.
    watch : callable, optional
        Called with the share of the work that is done, of each pass over the rows.

    Returns
    -------
    estimator
        Fitted: the model, the certificate and what was spent are those of ``fit`` on all rows in
        memory (of `fit_file`, for a path), to the byte.

    Notes
    -----
    The first pass reads the labels only, so what is wrong with them is told before the long one.
    Tasks of workers that die are done again. A task that finds bad rows is not: its error is raised
    here, in one line, as on one machine.
    """
    estimator.check_parameters()
    if estimator.asks != "sums" and estimator.shuffle:
        raise ReplearnError(
            "rows on a cluster are taken in their order, got shuffle=True. Shuffle the rows once "
            "(replearn shuffle IN OUT), then use shuffle=False."
        )
    if estimator.asks == "rows":
        raise ReplearnError(
            f"{type(estimator).__name__} needs its rows in memory. Use fit, or another classifier: "
            "SVM, SGD, Net or DP."
        )
    client = usable_client(client)
    require_workers(client)
    table = _table(estimator, X, y, target, columns, task_rows)
    table.on_seen = partial(_on_seen, estimator, X, allow_unknown)
    table.look(client)
    sample = ClusterSample(client, table, watch)
    return estimator.fit_sample(sample, table.n_features, table.labels.classes, table.names)


def _on_seen(
    estimator: ReplicableClassifier, X: Any, allow_unknown: bool, seen: Seen | None
) -> None:
    """Keep what was missing or unknown; refuse or warn of columns that are coded differently."""
    if seen is None:
        return
    estimator.seen_ = seen
    if isinstance(X, str | os.PathLike):
        refuse_other_codes(os.fspath(X), estimator.agreed.encoding, allow_unknown, seen)
    elif not allow_unknown:
        estimator.warn_of_codes(seen)


def _table(
    estimator: ReplicableClassifier,
    X: Any,
    y: Any,
    target: str | None,
    columns: Sequence[str] | None,
    task_rows: int | None,
) -> ClusterRows:
    import dask.array as da
    import dask.dataframe as dd

    if isinstance(X, str | os.PathLike):
        if y is not None or target is None:
            raise ReplearnError(
                f"{os.fspath(X)} must come with the name of its label column and without y. Pass "
                'target="...".'
            )
        return RowsInFiles(*training_source(estimator, X, target, columns), task_rows)
    if isinstance(X, dd.DataFrame):
        return _frame_table(estimator, X, y, target, columns)
    if isinstance(X, da.Array):
        return _array_table(estimator, X, y, target, columns)
    raise ReplearnError(
        f"X must be a path, a Dask dataframe or a Dask array, got {type(X).__name__}. Rows in "
        "memory need no cluster: use estimator.fit(X, y)."
    )


def _frame_table(
    estimator: ReplicableClassifier, X: Any, y: Any, target: Any, columns: Sequence[str] | None
) -> ClusterRows:
    import dask.dataframe as dd

    found = list(X.columns)
    if (y is None) == (target is None):
        raise ReplearnError(
            "the labels of a Dask dataframe must be a column of it or a series, got "
            f"{'neither' if y is None else 'both'}. Pass target=... or y=...."
        )
    wanted = wanted_columns("X", found, target, columns, estimator.agreed.encoding)
    if y is None:
        parts = [(part, None) for part in X[[*wanted, target]].to_delayed()]
        return RowsInPartitions(
            estimator, parts, X[target].to_delayed(), wanted, target, len(wanted)
        )
    if not isinstance(y, dd.Series) or y.npartitions != X.npartitions:
        raise ReplearnError(
            f"y must be a Dask series with the {X.npartitions:,} partitions of X, got "
            f"{type(y).__name__} with {getattr(y, 'npartitions', 'no')}. Take it from the same "
            "dataframe, or pass target=...."
        )
    labels = y.to_delayed()
    parts = list(zip(X[wanted].to_delayed(), labels, strict=True))
    return RowsInPartitions(estimator, parts, labels, wanted, None, len(wanted))


def _array_table(
    estimator: ReplicableClassifier, X: Any, y: Any, target: Any, columns: Sequence[str] | None
) -> ClusterRows:
    import dask.array as da

    if target is not None or columns is not None:
        raise ReplearnError(
            "a Dask array has no named columns, got target or columns. Pass the labels as y."
        )
    if not isinstance(y, da.Array) or y.ndim != 1:
        raise ReplearnError(
            "y must be a Dask array of one dimension, got "
            f"{f'{y.ndim} dimensions' if isinstance(y, da.Array) else type(y).__name__}. Make it "
            "one, with the chunks of X: da.from_array(y, chunks=X.chunks[0])."
        )
    if X.ndim != 2 or X.numblocks[1] != 1:
        raise ReplearnError(
            f"X must have two dimensions and all columns in one chunk, got chunks {X.chunks}. Use "
            "X.rechunk({1: -1})."
        )
    if y.numblocks[0] != X.numblocks[0] or (
        not np.isnan([*X.chunks[0], *y.chunks[0]]).any() and y.chunks[0] != X.chunks[0]
    ):
        raise ReplearnError(
            f"X and y must have the same chunks of rows, got {X.numblocks[0]:,} and "
            f"{y.numblocks[0]:,}, or others. Use y.rechunk((X.chunks[0],))."
        )
    labels = y.to_delayed().tolist()
    parts = list(zip(X.to_delayed()[:, 0].tolist(), labels, strict=True))
    return RowsInPartitions(estimator, parts, labels, None, None, X.shape[1])
