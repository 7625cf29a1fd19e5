"""Recorded model files of every kind, and what they predict, to the last bit.

Other readers of the format are tested against the same record: replearn with NumPy alone, and the
program in docs/verify. ``python tests/golden/test_files.py`` writes it anew.
"""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.codes.model import Model
from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import CodeSpace
from tests.golden.test_fits import COMMON, noisy, planned, rows, table
from tests.golden.test_models import DIRECTION, SPACES

RECORD = Path(__file__).parent / "models.json"

#: Roundings that ``SPACES`` does not have, with as many components as make several blocks.
LATTICES = {
    "a2": 5,
    "d3s": 5,
    "d4": 7,
    "d5s": 6,
    "e6s": 8,
    "e7s": 9,
    "d10p": 11,
    "k12": 12,
    "e8+d3s+centre": 12,
}


def recorded() -> list[dict[str, Any]]:
    """Name, model file, rows, scores, labels and probabilities (null: none) of each model."""
    return json.loads(RECORD.read_text(encoding="utf-8"))


def _of_direction(space: CodeSpace) -> Model:
    shared = SharedRandomness("golden")
    codes = space.encode(DIRECTION, shared)
    return Model("svm", DIRECTION.size - 1, True, space, "golden", ("no", "yes"), codes)


def _models() -> dict[str, tuple[Model, Any]]:
    """Models, and rows for them."""
    found: dict[str, tuple[Model, Any]] = {}
    wide = np.round(np.outer(np.sin(np.arange(1, 9)), np.cos(np.arange(3, 14))) * 9, 3)
    for name, (projection, k, rounding, width) in SPACES.items():
        space = CodeSpace(DIRECTION.size, projection, k, rounding, width)
        found[name] = _of_direction(space), wide
    for rounding, k in LATTICES.items():
        space = CodeSpace(DIRECTION.size, "hadamard", k, rounding, "0.125")
        found[f"hadamard, {rounding}"] = _of_direction(space), wide
    for rounding in ("leech", "ak"):
        space = CodeSpace(DIRECTION.size, "hadamard", 9, rounding, "0.125", hint_bits=3, hint=5)
        found[f"hadamard, {rounding}, hint"] = _of_direction(space), wide
    boosting, net = rl.ReplicableBoostingClassifier, rl.ReplicableNetClassifier
    few = rows()[0][:8] / 7
    for name, estimator in {
        "net, random": net(**COMMON, net="random", n_candidates=5000),
        "net, lattice": net(**COMMON, net="lattice"),
        "boost, box": boosting(**COMMON, rounding="box"),
        "boost, foam": boosting(**COMMON, rounding="foam"),
        "boost, majority": boosting(**COMMON, rounding="box", output="majority"),
        "logistic": rl.ReplicableLogisticClassifier(shared_seed="golden", samples_per_site=2000),
    }.items():
        found[name] = estimator.fit(*noisy()).model_, few
    frame, labels = table()
    odd = {"age": [1e9, 0.0], "dose": [0.1, None], "group": ["b", "unheard of"]}
    some = pd.concat([frame[:8], pd.DataFrame(odd)])
    found["published basis"] = planned(*rows(400)).estimator().fit(*noisy()).model_, few
    found["table"] = planned(frame, labels).estimator().fit(frame, labels).model_, some
    plan = rl.plan_from_pilot(
        frame, labels, samples_per_site=600, shared_seed="golden", hint_bits=3
    )
    model = plan.protocol.estimator(hint=5).fit(frame, labels).model_
    found["logistic table"] = model, some
    far = np.array([2.5, -1.75, 3.125, 0.75, -2.25, 1.5])[: model.space.n_components]
    for rounding in ("ak", "d3s", "a2+centre"):
        space = replace(model.space, rounding=rounding)
        codes = space.encode(far, SharedRandomness("golden"))
        found[f"logistic, {rounding}"] = replace(model, space=space, codes=codes), some
    pilot = rows(400)
    searched = rl.plan_from_pilot(
        *pilot, samples_per_site=100_000, algorithm="net", shared_seed="golden"
    )
    found["net, published"] = searched.protocol.estimator().fit(*noisy()).model_, few
    return found | _of_three_classes(wide, few)


def _of_three_classes(wide: Any, few: Any) -> dict[str, tuple[Model, Any]]:
    """Models of more than two classes, and rows for them."""
    found: dict[str, tuple[Model, Any]] = {}
    shared, three = (
        SharedRandomness("golden"),
        np.stack([DIRECTION, -DIRECTION[::-1], DIRECTION**2]),
    )
    for projection, k, rounding, bits, hint in (
        ("hadamard", 9, "e8", 0, 0),
        ("none", DIRECTION.size, "leech", 3, 5),
        ("gaussian", 7, "ak", 2, 1),
    ):
        space = CodeSpace(
            DIRECTION.size, projection, k, rounding, "0.125", hint_bits=bits, hint=hint, n_outputs=3
        )
        codes = space.encode(three.ravel(), shared)
        labels = ("high", "low", "none")
        model = Model("svm", DIRECTION.size - 1, True, space, "golden", labels, codes)
        found[f"three classes, {projection}, {rounding}"] = model, wide
    X, signs = noisy()
    estimator = rl.ReplicableLogisticClassifier(
        shared_seed="golden", samples_per_site=2000, hint_bits=2, hint=1
    )
    fitted = estimator.fit(X, np.where(X[:, 0] > 0.5, 2, signs > 0))
    found["three classes, logistic"] = fitted.model_, few
    return found


def _scores(model: Model, X: Any) -> list[Any]:
    """Scores of rows in hexadecimal; of more than two classes a list for each row."""
    return _hex(model.decision_function(X).tolist())


def _probabilities(model: Model, X: Any) -> list[Any] | None:
    """Those of the second class; of more than two classes all of them; none without log-odds."""
    if not model.has_probabilities:
        return None
    found = model.predict_proba(X)
    return _hex((found if model.n_classes > 2 else found[:, 1]).tolist())


def _hex(values: Any) -> Any:
    return [_hex(value) for value in values] if isinstance(values, list) else values.hex()


def _plain(X: Any) -> list[Any]:
    """Rows as JSON: lists of numbers, or objects by column, with null for what is missing."""
    if isinstance(X, np.ndarray):
        return X.tolist()
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()}
        for row in X.to_dict("records")
    ]


def _record() -> None:
    documents = []
    with warnings.catch_warnings(), TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        for name, (model, X) in _models().items():
            path = Path(folder) / "model.json"
            rl.save(model, path)
            documents.append(
                {
                    "name": name,
                    "file": json.loads(path.read_text(encoding="utf-8")),
                    "rows": _plain(X),
                    "scores": _scores(model, X),
                    "labels": model.predict(X).tolist(),
                    "probabilities": _probabilities(model, X),
                }
            )
    lines = ",\n".join(json.dumps(document, ensure_ascii=False) for document in documents)
    RECORD.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


@pytest.mark.parametrize("case", recorded() if RECORD.exists() else [], ids=lambda c: c["name"])
def test_recorded_files_predict_what_they_did(case: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(case["file"]), encoding="utf-8")
    model = rl.load(path)
    X = pd.DataFrame(case["rows"]) if isinstance(case["rows"][0], dict) else np.array(case["rows"])
    assert model.fingerprint == case["file"]["fingerprint"]
    assert _scores(model, X) == case["scores"]
    assert model.predict(X).tolist() == case["labels"]
    assert _probabilities(model, X) == case["probabilities"]


if __name__ == "__main__":
    _record()
