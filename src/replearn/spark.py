"""Fits and evaluations of Spark dataframes: rows stay where they are, exact sums travel.

The model is that of the same rows on one machine, to the byte, whatever the partitions, and
whatever dies on the way. Classic sessions and Spark Connect are the same here. An audit runs on
Spark with ``replearn.audit(..., client=session)``. See ``docs/scaling.md``.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from operator import add
from typing import Any, TypeVar

import numpy as np

from replearn.audits.evaluation import Collected, Evaluation, concluded
from replearn.codes.encoding import Encoding, as_text
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.fits.adding import Added
from replearn.fits.file_fit import check_seen, wanted_columns
from replearn.fits.label_parts import join_labels, labels_of
from replearn.fits.spark_jobs import add_up, look, results
from replearn.sources.arrow_batches import arrow_pieces
from replearn.stages.batches import Total
from replearn.stages.intervals import CONFIDENCE
from replearn.types import BlockMap, Signs

__all__ = ["evaluate", "fit"]

Classifier = TypeVar("Classifier", bound=ReplicableClassifier)

_PLACE = "the Spark dataframe"


def fit(
    estimator: Classifier,
    X: Any,
    *,
    target: str,
    columns: Sequence[str] | None = None,
    allow_unknown: bool = False,
) -> Classifier:
    """Fit an estimator on a Spark dataframe.

    Parameters
    ----------
    estimator : ReplicableLogisticClassifier
        Rows of a dataframe have no order, so it must be one that needs none.
    X : pyspark.sql.DataFrame
        Classic or of Spark Connect, with raw columns. It is computed once for the labels, and once
        for each step of the fit; cache it if that takes long.
    target : str
        Label column.
    columns : sequence of str, optional
        Feature columns; default all but the target, or those of the estimator's encoding.
    allow_unknown : bool, default=False
        Fit although columns are coded differently than the protocol says.

    Returns
    -------
    estimator
        Fitted: model and certificate are those of ``fit`` on all rows in memory, to the byte.

    Notes
    -----
    Executors need replearn, and the Python of the driver (``PYSPARK_PYTHON``). An error about rows
    is raised here in one line; it is no task failure that Spark would try again.
    """
    estimator.check_parameters()
    if estimator.asks != "sums":
        raise ReplearnError(
            f"rows of a Spark dataframe have no order, got {type(estimator).__name__}, which needs "
            'one. Use ReplicableLogisticClassifier, ReplicableSVMClassifier(estimate="rows"), or '
            "write shuffled Parquet files and use replearn.clusters.fit."
        )
    encoding = estimator.agreed.encoding
    wanted = _wanted(X, target, columns, encoding)
    labels = labels_of(estimator, f"the label column of {_PLACE}")
    runs = join_labels(labels, results(_selected(X, [target]), partial(look, target, labels)))
    rows = _selected(X, [*wanted, target])
    sample = _SparkSample(rows, partial(add_up, target, encoding, labels), runs.n_rows)
    sample.on_seen = partial(check_seen, estimator, _PLACE, encoding, allow_unknown)
    names, n_features = (
        (tuple(wanted), len(wanted)) if encoding is None else (None, encoding.n_outputs)
    )
    return estimator.fit_sample(sample, n_features, labels.classes, names)


def evaluate(
    model: Model, X: Any, *, target: str, by: str | None = None, confidence: float = CONFIDENCE
) -> Evaluation:
    """Say what a model is worth on the labelled rows of a Spark dataframe.

    Parameters
    ----------
    model : Model
    X : pyspark.sql.DataFrame
        Predicted where the rows are; ten bytes of each come to the driver.
    target : str
        Label column.
    by : str, optional
        Column whose values make groups that are evaluated apart.
    confidence : float, default=0.95
        Of every interval.

    Returns
    -------
    Evaluation
        As of `replearn.evaluate_file` on the same rows.
    """
    encoding = model.encoding
    columns = model.feature_names
    if encoding is not None:
        columns = tuple(column.name for column in encoding.columns)
    elif columns is None:
        columns = tuple(name for name in X.columns if name not in (target, by))
    wanted = _wanted(X, target, columns, encoding)
    names = list(dict.fromkeys([*wanted, target, *(() if by is None else (by,))]))
    parts = results(_selected(X, names), partial(_predict, model, [*wanted, target], target, by))
    collected = reduce(Collected.join, [part for part, _ in parts])
    groups = np.array([value for _, some in parts for value in some], dtype=object)
    found = collected.evaluation(
        model.fingerprint, _PLACE, by, None if by is None else groups, confidence
    )
    return concluded(found, encoding, collected.seen)


class _SparkSample:
    """Rows of a dataframe: a `Sample` that is asked for sums over rows in any order."""

    on_seen: Callable[[Any], None]

    def __init__(self, rows: Any, work: Callable[..., Any], n_rows: int) -> None:
        self._rows, self._work, self.n_rows = rows, work, n_rows

    def add_up(self, terms: Callable[[Any, Signs], Total], run: BlockMap = map) -> Total:
        """Sum of ``terms(X, signs)`` over the batches, each added up where it is."""
        added: Added[Total] = reduce(add, results(self._rows, partial(self._work, terms)), Added())
        if added.n_rows != self.n_rows or added.total is None:
            raise ReplearnError(
                f"{_PLACE} must give the same rows whenever it is computed, got {self.n_rows:,} "
                f"and then {added.n_rows:,}. Cache it, or fix the seeds of its random functions."
            )
        self.on_seen(added.seen)
        return added.total


def _predict(
    model: Model, names: list[str], target: str, by: str | None, batches: Iterable[Any]
) -> tuple[Collected, list[str | None]]:
    """What is collected of each row of a partition, on its executor, and its group."""
    collected, groups = Collected(model.classes), []
    for batch in batches:
        for piece in arrow_pieces([batch.select(names)], target, model.encoding):
            collected.take(model, piece, _PLACE)
        if by is not None:
            groups += [as_text(value) for value in batch.column(by).to_pylist()]
    return collected, groups


# --- columns ----------------------------------------------------------------------------------


def _wanted(
    X: Any, target: str, columns: Sequence[str] | None, encoding: Encoding | None
) -> list[str]:
    """Names of the feature columns."""
    if not hasattr(X, "mapInArrow"):
        raise ReplearnError(
            f"X must be a Spark dataframe, got {type(X).__name__}. Make one with "
            "spark.createDataFrame, or use estimator.fit for rows in memory."
        )
    if X.isStreaming:
        raise ReplearnError(
            "X must have an end, got a streaming dataframe. Fit what has been written so far, or "
            "take its batches with partial_fit (foreachBatch)."
        )
    return wanted_columns(_PLACE, list(X.columns), target, columns, encoding)


def _selected(X: Any, names: Sequence[str]) -> Any:
    # in quotes, so that a dot in a name is no field of a struct
    return X.select(*("`" + name.replace("`", "``") + "`" for name in names))
