"""Fits on a Dask cluster: rows are encoded once, stay where they are, and sums travel."""

import glob
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, groupby
from typing import Any

from replearn.engines import replication
from replearn.engines.cluster import connect, gathered, usable
from replearn.engines.replication import RowsAsked, Work, columns_of, work
from replearn.glm import GlmDesign, GlmModel
from replearn.study import GlmReplication, GlmStudy, State, table_of
from replearn.tables import ParquetFile, ParquetRows, group_sizes

__all__ = ["connect", "fit", "replicate"]

#: Rows that one task reads from a Parquet file, about.
TASK_ROWS = 1 << 20
_RETRIES = 2


def replicate(
    study: GlmStudy, source: Any, client: Any = None, opened: Any = None
) -> tuple[GlmModel, GlmReplication]:
    """Fit a study on rows that the workers of a cluster can read, or have.

    Parameters
    ----------
    study : GlmStudy
    source : path, sequence of paths, or Dask dataframe
        Paths may hold ``*``. Parquet files are read by row groups, others whole; every worker must
        be able to read them. A dataframe is taken by its partitions.
    client : distributed.Client, optional
        The current one by default; see `connect`. A cluster is never started here.
    opened
        As in `replearn.study.agreement.replicate`.

    Returns
    -------
    model, replication
        Those of the same rows in memory, to the bit.
    """
    client = usable(client)
    parts = _parts(study.design, source)
    kept: list[Any] = []  # encoded rows, two bytes a number, in the memory of the workers

    def tasks(state: State | RowsAsked) -> list[Any]:
        def mapped(rows: list[Any], keep: bool = False) -> list[Any]:
            task = partial(_task, study.design, work(study, state, keep))
            return list(client.map(task, rows, pure=False, retries=_RETRIES))

        if not kept:
            rows = client.compute(parts) if hasattr(source, "to_delayed") else parts
            if state.scale is None:
                return mapped(rows)
            kept.extend(mapped(rows, keep=True))
        return mapped(kept)

    def pass_over(state: State | RowsAsked) -> Sequence[Any]:
        return gathered(client, partial(tasks, state), kept.clear)

    return replication.replicate(study, pass_over, opened)


def fit(
    estimator: Any, source: Any, target: str, classes: Sequence[Any], client: Any = None
) -> Any:
    """Fit Algorithm 1 or 2 on Parquet files: workers turn batches of rows into exact sums.

    Parameters
    ----------
    estimator : ReplicableSVMClassifier or ReplicableSGDClassifier
    source : path or sequence of paths
        Of Parquet files that every worker can read. Batches are of consecutive rows, as with
        ``shuffle=False``: put the rows into a random order once (``replearn shuffle``).
    target : str
        The column of the labels; all others are features.
    classes : sequence of two labels
    client : distributed.Client, optional

    Returns
    -------
    estimator
        Fitted as with the same rows in memory, to the bit.
    """
    client = usable(client)

    def mapped(task: Callable[[int], Any], starts: Iterable[int]) -> Any:
        def tasks() -> list[Any]:
            return list(client.map(task, list(starts), pure=False, retries=_RETRIES))

        return gathered(client, tasks)

    rows = ParquetRows.of(_paths(source), target, tuple(classes))
    return estimator.fit_sample(rows, classes, mapped)


def _task(design: GlmDesign, work: Work, given: Any) -> Any:
    """What a worker does with its part: a file and row groups, a dataframe, or encoded rows."""
    if not isinstance(given, tuple):
        return work([given])
    path, groups = given
    table = table_of(design, path)
    if groups is not None:
        table = replace(table, read=ParquetFile(path, groups).read, n_rows=None)
    return work([table])


def _parts(design: GlmDesign, source: Any) -> list[Any]:
    """What tells a worker where its rows are."""
    if hasattr(source, "to_delayed"):
        return list(source[columns_of(design, source.columns)].to_delayed())

    parts: list[Any] = []
    for path in _paths(source):
        table_of(design, path)  # what is wrong with its columns is told at once
        if not path.lower().endswith((".parquet", ".pq")):
            parts.append((path, None))
            continue

        # neighbouring row groups go to one worker, until they are a task
        sizes = group_sizes(path)
        ends = zip(range(len(sizes)), accumulate(sizes), strict=True)
        for _, groups in groupby(ends, lambda group: (group[1] - 1) // TASK_ROWS):
            parts.append((path, [number for number, _ in groups]))
    return parts


def _paths(source: Any) -> list[str]:
    if isinstance(source, str | os.PathLike):
        source = [source]
    paths: list[str] = []
    for one in source:
        # a path without a match is kept, so that its reader can say what is wrong with it
        paths += sorted(glob.glob(os.fspath(one))) or [os.fspath(one)]
    return paths
