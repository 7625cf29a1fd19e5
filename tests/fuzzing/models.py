"""Model files."""

import contextlib
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import replearn as rl
from replearn.codes.encoding import CategoryColumn
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.study.protocol import Protocol
from tests.fuzzing.garbling import hostile_json, sealed
from tests.fuzzing.judging import must, require
from tests.fuzzing.protocols import protocol_documents, rows_for
from tests.fuzzing.samples import X, Y, loaded, quiet_fit, small_svm


@cache
def model_documents() -> tuple[Any, ...]:
    """Valid files of every algorithm, as JSON."""
    small = {"margin": 0.3, "max_error": 0.2, "n_jobs": 1}
    frame = dict(zip(("age", "größe", "x"), X.T, strict=True))
    estimators = [
        rl.ReplicableSVMClassifier(**small),
        rl.ReplicableSVMClassifier(**small, projection="gaussian", n_components=9, rounding="e8"),
        rl.ReplicableSVMClassifier(**small, projection="hadamard", rounding="ak"),
        rl.ReplicableSVMClassifier(**small, projection="signs", n_components=5, rounding="centre"),
        rl.ReplicableSVMClassifier(**small, projection="rotation", fit_intercept=False),
        rl.ReplicableSGDClassifier(**small),
        rl.ReplicableNetClassifier(**small),
        rl.ReplicableNetClassifier(**small, net="lattice"),
        rl.ReplicableDPClassifier(**small, net="random"),
        rl.ReplicableBoostingClassifier(**small, n_rounds=3),
        rl.ReplicableBoostingClassifier(**small, rounding="foam", n_rounds=3),
        rl.ReplicableBoostingClassifier(**small, output="majority", n_rounds=3),
    ]
    labels = [Y, np.where(Y > 0, "ill", "well"), Y > 0]
    models = [quiet_fit(e, X, labels[i % 3]).model_ for i, e in enumerate(estimators)]
    for document in protocol_documents():
        protocol = loaded(Protocol.load, document)
        rows, y = rows_for(protocol)
        models.append(quiet_fit(protocol.estimator(n_jobs=1), rows, y).model_)
    import pandas as pd

    models.append(quiet_fit(small_svm(), pd.DataFrame(frame), Y).model_)
    return tuple(_document(model) for model in models)


def _document(model: Model) -> Any:
    names = None if model.feature_names is None else list(model.feature_names)
    provenance = {"rows": 300, "mode": "practical", "estimated_disagreement": None}
    return {
        "feature_names": names,
        "fingerprint": model.fingerprint,
        "model": model.content(),
        "provenance": provenance,
    }


def model_file(rng: random.Random, folder: Path) -> None:
    """A file that is loaded must work in every way."""
    path = folder / "a.model.json"
    path.write_bytes(hostile_json(rng, list(model_documents()), sealed))
    use_model(rl.load(path), folder)


def use_model(model: Model, folder: Path) -> None:
    """All that one does with a model; documented errors are for exports of odd names only."""
    rows = rows_of_model(model)
    try:
        scores = model.decision_function(rows)
    except ReplearnError as problem:
        require(model.encoding is not None, f"a model that was loaded does not predict: {problem}")
    else:
        require(np.isfinite(scores).all(), "scores are not finite")
        known = set(scores.tolist()) if model.is_numeric else set(model.classes)
        require(set(model.predict(rows).tolist()) <= known, "another label")
    if model.is_halfspace:
        finite = np.isfinite(model.coef).all() and np.isfinite(model.intercept).all()
        require(finite, "a weight is NaN")
    require(rl.compare(model, model).same, "a model differs from itself")
    rl.save(model, folder / "again.json")
    again = must(lambda: rl.load(folder / "again.json"))
    require(again == model, "a saved model is another one")
    if model.n_features <= 10_000:
        for export in (rl.to_sklearn, rl.to_sql, rl.to_csv):
            with contextlib.suppress(ReplearnError):
                export(model)


def rows_of_model(model: Model) -> Any:
    """A few rows of the shape that the model wants."""
    if model.encoding is not None:
        return {
            column.name: np.array(
                [column.values[0], None, "other"]
                if isinstance(column, CategoryColumn)
                else [0.0, 1.0, -2.5],
                dtype=object if isinstance(column, CategoryColumn) else float,
            )
            for column in model.encoding.columns
        }
    if model.n_features > 10_000:
        return sp.csr_array(
            ([1.0, -1.0], ([0, 2], [0, model.n_features - 1])), shape=(3, model.n_features)
        )
    return np.random.default_rng(0).normal(size=(3, model.n_features))
