"""Replications on Spark: rows are encoded once where they are, and exact sums travel.

Spark itself is never imported here: a dataframe, classic or of Spark Connect, is asked for
``mapInArrow`` and ``collect``. A lost task is done again by Spark, and its result counts once.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from replearn.engines import replication
from replearn.engines.replication import RowsAsked, Work, columns_of, one_line, work
from replearn.errors import ReplearnError
from replearn.glm import GlmDesign, GlmModel
from replearn.study import GlmReplication, GlmStudy, State

#: Encoded rows in one cell of a dataframe, about.
PIECE_ROWS = 1 << 17


def replicate(study: GlmStudy, frame: Any, opened: Any = None) -> tuple[GlmModel, GlmReplication]:
    """Fit a study on a Spark dataframe.

    Parameters
    ----------
    study : GlmStudy
    frame : pyspark.sql.DataFrame
        Classic or of Spark Connect, with the columns of the study. It is computed once; encoded
        rows, two bytes a number, are persisted by the executors until the fit ends.
    opened
        As in `replearn.study.agreement.replicate`.

    Returns
    -------
    model, replication
        Those of the same rows in memory, to the bit.

    Notes
    -----
    Executors need replearn, and the Python of the driver (``PYSPARK_PYTHON``).
    """
    kept: list[Any] = []

    def pass_over(state: State | RowsAsked) -> list[Any]:
        try:
            if not kept:
                rows, task = _selected(study.design, frame), _at_once
                if state.scale is not None:
                    kept.append(_mapped(rows, _in_pieces, work(study, state, keep=True)).persist())
            if kept:
                rows, task = kept[0], _of_kept
            results = _mapped(rows, task, work(study, state)).collect()
            return [pickle.loads(row[0]) for row in results]
        except ReplearnError:
            raise
        except Exception as problem:  # pyspark need not be imported to name its exceptions
            raise ReplearnError(
                f"a job failed on Spark: {type(problem).__name__}: {one_line(problem)}. Check that "
                "the dataframe can be computed, and that driver and executors have the same Python "
                "(PYSPARK_PYTHON) and the same packages."
            ) from problem

    try:
        return replication.replicate(study, pass_over, opened)
    finally:
        for one in kept:
            one.unpersist()


def _selected(design: GlmDesign, frame: Any) -> Any:
    """The columns of the study, of a dataframe that has an end."""
    if not hasattr(frame, "mapInArrow"):
        raise ReplearnError(
            f"the rows must be a Spark dataframe, got {type(frame).__name__}. Make one with "
            "spark.createDataFrame."
        )
    if "connect" in type(frame).__module__:
        _knock(frame.sparkSession)

    if frame.isStreaming:
        raise ReplearnError(
            "the dataframe must have an end, got a streaming one. Fit what was written so far."
        )

    names = columns_of(design, frame.columns)
    # in quotes, so that a dot in a name is no field of a struct
    return frame.select(*("`" + name.replace("`", "``") + "`" for name in names))


def _knock(session: Any) -> None:
    """Fail at once if no server answers: Spark Connect would try again for minutes."""
    policies = session.client.get_retry_policies()
    session.client.set_retry_policies([])
    try:
        session.conf.get("spark.sql.session.timeZone")  # anything that a server knows
    except Exception as problem:  # without retries, so that the process can end soon, too
        raise ReplearnError(
            f"no Spark Connect server answers ({one_line(problem)}). Check that it runs, and the "
            "address of the session, like sc://10.0.0.1:15002."
        ) from None
    session.client.set_retry_policies(policies)


def _mapped(frame: Any, task: Callable[..., Iterator[Any]], work: Work) -> Any:
    """What some work gives on the record batches of each partition: an object in each row."""
    names = list(frame.columns)
    # by number on the way: mapInArrow takes "a.b" for a field of a struct
    numbered = frame.toDF(*map(str, range(len(names))))
    return numbered.mapInArrow(partial(_task, task, work, names), "result binary")


def _task(
    task: Callable[..., Iterator[Any]], work: Work, names: list[str], batches: Iterable[Any]
) -> Iterator[Any]:
    """What an executor calls with the batches of a partition."""
    import pyarrow as pa

    renamed = (batch.rename_columns(names) for batch in batches)
    for result in task(work, renamed):
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(result)]})


def _at_once(work: Work, batches: Iterable[Any]) -> Iterator[Any]:
    yield work(batches)


def _in_pieces(work: Work, batches: Iterable[Any]) -> Iterator[Any]:
    """Rows to keep, some at a time: no cell of a dataframe may be large."""
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= PIECE_ROWS:
            yield work(waiting)
            waiting = []
    yield work(waiting)


def _of_kept(work: Work, batches: Iterable[Any]) -> Iterator[Any]:
    yield work(pickle.loads(one.as_buffer()) for batch in batches for one in batch.column(0))
