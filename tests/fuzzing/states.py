"""States of streams, and checkpoints of fits and audits."""

import json
import os
import random
import tempfile
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import replearn as rl
from replearn.errors import ReplicabilityWarning
from replearn.fits.file_fit import fit_file
from replearn.study.protocol import Protocol
from tests.fuzzing.garbling import (
    hostile_json,
    hostile_npz,
    json_text,
    mutated_bytes,
    mutated_json,
    resealed,
)
from tests.fuzzing.judging import must, require
from tests.fuzzing.protocols import logistic_protocols, rows_for
from tests.fuzzing.samples import TABLE, X, Y, small_svm, written_bytes


@cache
def saved_stream() -> bytes:
    """State of a stream in the middle of a block."""
    return written_bytes(lambda path: small_stream().partial_fit(X[:203], Y[:203]).save_state(path))


def small_stream() -> Any:
    return rl.ReplicableSGDClassifier(margin=0.3, batch_size=40, n_jobs=1)


def stream_state(rng: random.Random, folder: Path) -> None:
    """A stream that is resumed goes on, and has a model."""
    path = folder / "stream.npz"
    path.write_bytes(hostile_npz(rng, saved_stream(), resealed))
    estimator = small_stream().load_state(path)
    estimator.partial_fit(X[203:], np.where(Y[203:] > 0, *estimator.classes_[::-1]))
    require(np.isfinite(estimator.decision_function(X)).all(), "scores are not finite")
    estimator.save_state(folder / "again.npz")


@cache
def saved_score_streams() -> tuple[bytes, ...]:
    """States of logistic streams: two classes, with weights, three classes."""
    one, _, three, _ = logistic_protocols()

    def saved(protocol: Protocol, weights: Any) -> bytes:
        rows, y = rows_for(protocol)
        stream = protocol.estimator(n_jobs=1)
        stream.partial_fit(rows, y, classes=list(protocol.classes), sample_weight=weights)
        return written_bytes(stream.save_state)

    return saved(one, None), saved(one, np.arange(40) / 8), saved(three, None)


def score_stream_state(rng: random.Random, folder: Path) -> None:
    """A logistic stream that is resumed goes on, and has a model or says why not."""
    place = rng.randrange(3)
    protocol = logistic_protocols()[2 * (place == 2)]
    path = folder / "stream.npz"
    content = saved_score_streams()[place]
    path.write_bytes(hostile_npz(rng, content, resealed) if rng.random() < 0.9 else content)
    estimator = protocol.estimator(n_jobs=1).load_state(path)
    estimator.save_state(folder / "again.npz")
    again = must(lambda: protocol.estimator(n_jobs=1).load_state(folder / "again.npz"))
    rows, _ = rows_for(protocol)
    estimator.partial_fit(rows, estimator.classes_[np.arange(40) % 2])
    require(np.isfinite(estimator.decision_function(rows)).all(), "scores are not finite")
    require(again.fingerprint_, "no model")


@cache
def _checkpointed() -> dict[str, bytes]:
    """Files of the checkpoint of a fit that is nearly done, by name; and the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = folder / "a.csv"
        table.write_bytes(TABLE)
        os.utime(table, (1e9, 1e9))
        for shuffle in (True, False):
            where = folder / f"shuffle {shuffle}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ReplicabilityWarning)
                fit_file(small_svm(shuffle=shuffle), table, "label", checkpoint=where)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def fit_checkpoint(rng: random.Random, folder: Path) -> None:
    """A fit that goes on from a hostile checkpoint gives the model of an undisturbed one."""
    files = _checkpointed()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    os.utime(folder / "a.csv", (1e9, 1e9))
    shuffle = rng.random() < 0.5
    where = f"shuffle {shuffle}"
    chosen = folder / rng.choice([name for name in files if name.startswith(where)])
    content = chosen.read_bytes()
    if chosen.suffix == ".json":
        content = hostile_json(rng, [json.loads(content)])
    elif content[:2] == b"PK":
        content = hostile_npz(rng, content, resealed)
    else:
        content = mutated_bytes(rng, content)
    chosen.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        fitted = fit_file(
            small_svm(shuffle=shuffle), folder / "a.csv", "label", checkpoint=folder / where
        )
    require(np.isfinite(fitted.coef_).all(), "weights are not finite")


@cache
def _audited() -> tuple[bytes, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "audit.json")
        text = str(small_audit(path))
        return path.read_bytes(), text


def small_audit(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        return rl.audit(small_svm(), X, Y, n_pairs=2, n_jobs=1, checkpoint=path)


def audit_checkpoint(rng: random.Random, folder: Path) -> None:
    """An audit that goes on from a hostile file."""
    path = folder / "audit.json"
    content = json.loads(_audited()[0])
    if rng.random() < 0.8:
        changed = mutated_json(rng, content.pop("pairs"))
        text = json_text(content | {"pairs": changed}).encode()
    else:
        text = hostile_json(rng, [content])
    path.write_bytes(text)
    result = small_audit(path)
    str(result)
    json.dumps(result.data(), allow_nan=False)
