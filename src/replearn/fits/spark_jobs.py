"""Jobs on Spark: work on Arrow batches where the rows are; what comes back is small.

Spark itself is never imported here. A dataframe, classic or of Spark Connect, is asked for
``mapInArrow`` and ``collect``; a lost task is done again by Spark, and its result counts once.
Executors load this module and what it imports, which is little: every worker process does.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from replearn.codes.encoding import Encoding
from replearn.errors import ReplearnError
from replearn.fits.adding import Added, add_pieces
from replearn.fits.label_parts import LabelPart
from replearn.fits.shared import Shared, called, one_line
from replearn.sources.arrow_batches import arrow_labels, arrow_pieces
from replearn.sources.labels import Labels

#: Items of one job; between two jobs an audit saves what is done.
_WAVE = 32


def results(frame: Any, work: Callable[[Iterator[Any]], Any]) -> list[Any]:
    """What some work says of each partition of a Spark dataframe, in their order.

    The work takes the record batches of a partition, and gives what can be pickled. A
    `ReplearnError` that it raises is raised here, that of the first partition, in one line; nothing
    is tried again.
    """
    names = frame.columns
    try:
        # by number on the way: mapInArrow of Spark 4 takes "a.b" for a field of a struct
        numbered = frame.toDF(*map(str, range(len(names))))
        rows = numbered.mapInArrow(_Task(work, names), "result binary").collect()
    except Exception as problem:  # pyspark need not be imported to name its exceptions
        raise ReplearnError(
            f"a job failed on Spark: {type(problem).__name__}: {one_line(_cause(problem))}. Check "
            "that the dataframe can be computed, and that driver and executors have the same "
            "Python (PYSPARK_PYTHON) and the same versions of replearn and of its packages."
        ) from problem
    found = [pickle.loads(row[0]) for row in rows]
    for result in found:
        if isinstance(result, ReplearnError):
            raise result
    return found


class _Task:
    """What an executor calls with the batches of a partition."""

    def __init__(self, work: Callable[[Iterator[Any]], Any], names: Sequence[str]) -> None:
        self._shared, self._names = Shared(work), list(names)

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        try:
            found = self._shared.unpacked()(b.rename_columns(self._names) for b in batches)
        except ReplearnError as problem:
            found = problem.with_traceback(None)
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(found)]})


def _cause(problem: BaseException) -> str:
    """The last line of what Python said on an executor, or else the first of Spark's."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    raised = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (raised or lines or ["no reason given"])[-1 if raised else 0]


def is_session(client: Any) -> bool:
    """Whether this is a Spark session, classic or of Spark Connect."""
    return type(client).__module__.startswith("pyspark.sql")


def spread(
    client: Any, function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[tuple[int, Any]]:
    """Apply a function that carries much data to many small items, as `clusters.spread` does.

    It is sent with each job of 32 items; Spark Connect takes up to 128 MiB.
    """
    for start in range(0, len(items), _WAVE):
        some = list(items[start : start + _WAVE])
        numbers = client.range(0, len(some), 1, len(some))
        for found in results(numbers, partial(_call_all, function, some)):
            yield from ((start + number, result) for number, result in found)


def _call_all(
    function: Callable[[Any], Any], items: Sequence[Any], batches: Iterable[Any]
) -> list[tuple[int, Any]]:
    numbers = [number for batch in batches for number in batch.column("id").to_pylist()]
    return [(number, called(function, items[number])) for number in numbers]


# --- on the executors -------------------------------------------------------------------------


def look(target: str, nothing_known: Labels, batches: Iterable[Any]) -> LabelPart:
    """What the labels of a partition say."""
    parts = [arrow_labels(batch, target) for batch in batches if batch.num_rows]
    return LabelPart.of(nothing_known, np.concatenate(parts) if parts else np.empty(0))


def add_up(
    target: str, encoding: Encoding | None, labels: Labels, terms: Any, batches: Iterable[Any]
) -> Added[Any]:
    """Exact terms of the rows of a partition."""
    return add_pieces(terms, arrow_pieces(batches, target, encoding), deepcopy(labels))
