"""Small rows, and what is done with them and with what is fitted to them."""

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import replearn as rl
from replearn.datasets import make_margin
from replearn.errors import ReplearnError, ReplicabilityWarning
from tests.fuzzing.garbling import json_text
from tests.fuzzing.judging import must, require

X, Y = make_margin(300, 3, margin=0.3, random_state=0)


def quiet_fit(estimator: Any, X: Any, y: Any) -> Any:
    """Fit without the warnings that so few rows deserve."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        warnings.simplefilter("ignore", rl.UselessModelWarning)
        return estimator.fit(X, y)


def small_svm(**parameters: Any) -> Any:
    """A classifier that learns from a few rows at once."""
    given = {"margin": 0.3, "batch_size": 8, "n_jobs": 1}
    return rl.ReplicableSVMClassifier(**given | parameters)


def loaded(load: Callable[[Path], Any], document: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.json")
        path.write_text(json_text(document), "utf-8")
        return load(path)


def use_estimator(estimator: Any, X: Any, y: Any, folder: Path) -> None:
    """Fit; what comes out predicts finite scores, and is the same after a file."""
    quiet_fit(estimator, X, y)
    model = estimator.model_
    scores = estimator.predict(X) if model.is_numeric else estimator.decision_function(X)
    require(np.isfinite(scores).all(), "scores are not finite")
    require(len(estimator.predict(X)) == len(scores), "labels are missing")
    require(isinstance(str(estimator.certificate_), str), "no certificate")
    require(isinstance(str(estimator.plan_), str), "no plan")
    rl.save(model, folder / "fitted.json")
    again = must(lambda: rl.load(folder / "fitted.json"))
    require(again == model, "a saved model is another one")
    require((again.codes == model.codes).all(), "codes changed")


def written_bytes(write: Callable[[Path], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.npz")
        write(path)
        return path.read_bytes()


def _table() -> bytes:
    lines = ["a,größe,c d,label"]
    lines += [
        ",".join(f"{v:.4g}" for v in row) + f",{int(y)}" for row, y in zip(X[:60], Y, strict=False)
    ]
    return "\n".join(lines).encode() + b"\n"


TABLE = _table()


def outcome(function: Callable[[], Any]) -> Any:
    """What is returned, or the documented error that is raised."""
    try:
        return function()
    except ReplearnError as problem:
        return problem
