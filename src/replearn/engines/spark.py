"""Replications on Spark: rows are encoded once where they are, and exact sums travel.

Spark itself is never imported here: a dataframe, classic or of Spark Connect, is asked for
``mapInArrow`` and ``collect``. A lost task is done again by Spark, and its result counts once.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from replearn import __version__
from replearn.engines import replication
from replearn.engines.replication import columns_of, other_version, part
from replearn.errors import ReplearnError
from replearn.exact.rows import Block
from replearn.recipes.design import Design
from replearn.recipes.model import Model
from replearn.study.passes import State, blocks_of, sums_of
from replearn.study.replication import Replication
from replearn.study.study import Study
from replearn.tables import Seen


def replicate(
    study: Study, frame: Any, opened: Model | None = None, nonce: str | None = None
) -> tuple[Model, Replication]:
    """Fit a study on a Spark dataframe.

    Parameters
    ----------
    study : Study
    frame : pyspark.sql.DataFrame
        Classic or of Spark Connect, with the columns of the study. It is computed once; encoded
        rows, two bytes a number, are persisted by the executors until the fit ends.
    opened, nonce
        As in `replearn.study.replication.replicate`.

    Returns
    -------
    model, replication
        Those of the same rows in memory, to the bit.

    Notes
    -----
    Executors need replearn, and the Python of the driver (``PYSPARK_PYTHON``).
    """
    design = study.design
    rows = _selected(design, frame)
    encoded: list[Any] = []

    def pass_over(state: State) -> list[Any]:
        if state.scale is None:
            return _collected(rows, partial(part, design, state, __version__))
        if not encoded:
            encode = partial(_encoded, design, state.scale, __version__)
            encoded.append(_mapped(rows, encode).persist())
        return _collected(encoded[0], partial(_sums, design, state))

    try:
        return replication.replicate(study, pass_over, opened, nonce)
    finally:
        for one in encoded:
            one.unpersist()


def _selected(design: Design, frame: Any) -> Any:
    """The columns of the study, of a dataframe that has an end."""
    if not hasattr(frame, "mapInArrow"):
        raise ReplearnError(
            f"the rows must be a Spark dataframe, got {type(frame).__name__}. Make one with "
            "spark.createDataFrame."
        )
    if frame.isStreaming:
        raise ReplearnError(
            "the dataframe must have an end, got a streaming one. Fit what was written so far."
        )
    names = columns_of(design, frame.columns)
    # in quotes, so that a dot in a name is no field of a struct
    return frame.select(*("`" + name.replace("`", "``") + "`" for name in names))


def _mapped(frame: Any, work: Callable[[Iterable[Any]], Any]) -> Any:
    """What some work gives on the record batches of each partition: objects, one in each row."""
    names = list(frame.columns)
    # by number on the way: mapInArrow takes "a.b" for a field of a struct
    numbered = frame.toDF(*map(str, range(len(names))))
    return numbered.mapInArrow(partial(_task, work, names), "result binary")


def _collected(frame: Any, work: Callable[[Iterable[Any]], Any]) -> list[Any]:
    try:
        return [pickle.loads(row[0]) for row in _mapped(frame, work).collect()]
    except Exception as problem:  # pyspark need not be imported to name its exceptions
        raise ReplearnError(
            f"a job failed on Spark: {type(problem).__name__}: {_cause(problem)}. Check that the "
            "dataframe can be computed, and that driver and executors have the same Python "
            "(PYSPARK_PYTHON) and the same packages."
        ) from problem


def _task(
    work: Callable[[Iterable[Any]], Any], names: list[str], batches: Iterator[Any]
) -> Iterator[Any]:
    """What an executor calls with the batches of a partition."""
    import pyarrow as pa

    found = work(batch.rename_columns(names) for batch in batches)
    for one in found if isinstance(found, Iterator) else [found]:
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(one)]})


def _encoded(design: Design, scale: int, version: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Blocks of encoded rows, and at last what was seen, or an error about the rows."""
    try:
        if version != __version__:
            raise other_version(version, __version__)
        seen = Seen(design.encoding)
        yield from blocks_of(design, scale, batches, seen)
        yield seen
    except ReplearnError as problem:
        yield ReplearnError(str(problem))


def _sums(design: Design, state: State, batches: Iterable[Any]) -> Any:
    seen = Seen(design.encoding)

    def blocks() -> Iterator[Block]:
        for batch in batches:
            for packed in batch.column(0):
                found = pickle.loads(packed.as_buffer())
                if isinstance(found, ReplearnError):
                    raise found
                if isinstance(found, Seen):
                    seen.add(found)
                else:
                    yield found

    try:
        return sums_of(design, state, blocks(), seen), replication.counted_once(state, seen)
    except ReplearnError as problem:
        return problem.with_traceback(None)


def _cause(problem: BaseException) -> str:
    """The last line of what Python said on an executor, or else the first of Spark's."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    raised = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception"))]
    return (raised or lines or ["no reason given"])[-1 if raised else 0][:300].rstrip(".")
