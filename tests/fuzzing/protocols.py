"""Protocols of studies."""

import contextlib
import hashlib
import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import replearn as rl
from replearn.codes.encoding import CategoryColumn
from replearn.study.protocol import Protocol
from tests.fuzzing.garbling import canonical, digest, hostile_json, json_text
from tests.fuzzing.judging import must, require
from tests.fuzzing.samples import X, Y, use_estimator


@cache
def protocol_documents() -> tuple[Any, ...]:
    """Valid protocols: plain, with categories and missing values, public values, registrations."""
    plain = rl.plan_from_pilot(X, Y, samples_per_site=2000, shared_seed=7, algorithm="svm").protocol
    columns: dict[str, Any] = dict(zip(("age", "größe", "x"), X.T, strict=True))
    columns["town"] = np.array(["Oslo", "Rome", "1"] * 100, dtype=object)
    columns["x"] = np.where(np.arange(300) % 50 == 0, np.nan, columns["x"])
    table = rl.plan_from_pilot(
        columns, Y > 0, samples_per_site=2000, shared_seed="s", algorithm="svm"
    ).protocol
    public = table.with_public_value("lottery 1 2 3")
    numbers = regression_protocol()
    found = (
        *(plain, table, public, *logistic_protocols(), numbers),
        registered(logistic_protocols()[0]),
    )
    return tuple(json.loads(json_text(p.content())) for p in found)


@cache
def logistic_protocols() -> tuple[Protocol, ...]:
    """Logistic studies of one step, of two, of three classes, and of a table with a text."""
    rng = np.random.default_rng(0)
    y = X[:, 0] + 0.5 * rng.normal(size=300) > 0
    three = np.digitize(X[:, 0] + 0.5 * rng.normal(size=300), [-0.3, 0.3])
    common: dict[str, Any] = {"samples_per_site": 2000, "max_disagreement": 0.5}
    common["study"] = "updating"
    one = rl.plan_from_pilot(X, y, hint_bits=2, **common).protocol
    assert one.design is not None
    many = replace(one, design=replace(one.design, n_steps=2))
    columns: dict[str, Any] = dict(zip(("age", "größe"), X.T, strict=False))
    columns["town"] = np.array(["Oslo", "Rome", "1"] * 100, dtype=object)
    of_three = rl.plan_from_pilot(X, three, **common).protocol
    return one, many, of_three, rl.plan_from_pilot(columns, y, **common).protocol


@cache
def regression_protocol() -> Protocol:
    """A study of numbers."""
    y = 3 * X[:, 0] + np.random.default_rng(1).normal(size=300)
    return rl.plan_regression(X, y, samples_per_site=2000, hint_bits=2).protocol


def registered(protocol: Protocol) -> Protocol:
    """As if it had been registered before a draw of the past, and completed after it."""
    note = {"draw": "lottery", "drawn_on": "2020-02-29", "registered_on": "2020-02-28"}
    bare = replace(protocol, seed="", notes={**protocol.notes, "registration": note})
    return bare.with_public_value("1 2 3")


def rows_for(protocol: Protocol) -> tuple[Any, Any]:
    """Rows and labels that a protocol takes, if it is not too odd."""
    y = np.linspace(-3, 3, 40)
    if protocol.classes:
        y = np.array(protocol.classes)[(Y[:40] > 0).astype(int)]
    if protocol.encoding is None:
        width = 3 if protocol.basis is None else protocol.basis.rows.shape[1] - 1
        if protocol.design is not None:
            width = protocol.design.space.n_features
        return np.random.default_rng(0).normal(size=(40, max(1, min(width, 50)))), y
    rng = np.random.default_rng(0)
    return {
        column.name: rng.choice(np.array(column.values, dtype=object), size=40)
        if isinstance(column, CategoryColumn)
        else rng.normal(size=40)
        for column in protocol.encoding.columns
    }, y


def protocol_file(rng: random.Random, folder: Path) -> None:
    """A protocol that is loaded has a hash, is saved as it is, and fits or says why not."""
    path = folder / "study.json"
    path.write_bytes(hostile_json(rng, list(protocol_documents()), with_public_seed))
    protocol = Protocol.load(path)
    protocol.save(folder / "again.json")
    again = must(lambda: Protocol.load(folder / "again.json", protocol.fingerprint))
    require(again.content() == protocol.content(), "a saved protocol is another one")
    require(isinstance(protocol.seed_policy, str), "no policy")
    rows, y = rows_for(protocol)
    use_estimator(protocol.estimator(n_jobs=1), rows, y, folder)


def with_public_seed(document: Any) -> Any:
    """With the seed that follows from the public value, if there can be one."""
    if not isinstance(document, dict) or not isinstance(document.get("notes"), dict):
        return document
    value = document["notes"].get("public_value")
    if not isinstance(value, str):
        return document
    notes = {name: note for name, note in document["notes"].items() if name != "public_value"}
    with contextlib.suppress(ValueError, RecursionError):
        bare = document | {"seed": "", "notes": notes}
        if "registration" in notes:
            text = b"replearn/seed/2\n" + bytes.fromhex(digest(bare)) + value.encode()
        else:
            rest = canonical(bare)
            text = b"replearn/seed/1\n" + len(rest).to_bytes(8, "little") + rest + value.encode()
        return document | {"seed": hashlib.sha256(text).hexdigest()}
    return document
