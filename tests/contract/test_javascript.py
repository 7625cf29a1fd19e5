"""The second implementation: JavaScript gives the same bits as Python, step by step."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import vectors
from replearn.documents import canonical_json
from replearn.errors import ReplearnError
from replearn.glm import Bernoulli, Multinomial, Poisson, Summary, fit
from replearn.glm.losses import Gaussian
from replearn.rows import Block, MemoryBlocks

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def answers(calls: list[tuple[str, Any]]) -> list[Any]:
    """What JavaScript answers."""
    done = subprocess.run(
        ["node", Path(__file__).parent / "calls.mjs"],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def stored() -> dict[str, Any]:
    return json.loads(vectors.PATH.read_bytes())


def test_stored_vectors_are_what_python_gives():
    assert vectors.PATH.read_bytes() == canonical_json(vectors.vectors()) + b"\n"


@needs_node
def test_steps(stored):
    names = ("canonical", "words", "exp", "sigmoid", "log", "algebra", "marks", "ties")
    given = [
        (name, stored[name][0] if name in ("exp", "sigmoid", "log") else stored[name])
        for name in names
    ]
    found = dict(zip(names, answers(given), strict=True))
    canonical, words, algebra = (stored[name] for name in ("canonical", "words", "algebra"))
    assert found["canonical"] == [canonical["text"], canonical["sha256"]]
    assert found["words"] == [words["words"], words["uniforms"]]
    for name in ("exp", "sigmoid", "log"):
        assert found[name] == stored[name][1]
    assert found["algebra"] == [algebra["lower"], algebra["solution"]]
    assert found["marks"] == stored["marks"]["marks"]
    assert found["ties"] == stored["ties"]["codes"] == [1, 1, 1, 0, 0, 0]


def targets_alone(stored: dict[str, Any]) -> Iterator[tuple[dict[str, Any], list[float]]]:
    """Tables of one column, the target, and what it is to a fit."""
    for kind in ("gaussian", "poisson"):
        loss, numbers, targets = stored["table"][kind]
        lines = ["y", *map(str, numbers)]
        column = {"kind": "number", "name": "y", "centre": "0", "spread": "1", "knots": []}
        encoding = {
            "columns": [column],
            "products": [],
            "missing": "indicator",
            "products_halved": 0,
        }
        given = {"csv": "\n".join(lines), "loss": loss, "target": "y", "encoding": encoding}
        yield given, targets


@needs_node
def test_tables_and_a_study(stored, tmp_path):
    table, study = stored["table"], stored["study"]
    (tmp_path / "table.csv").write_text(study["csv"])
    given = {"study": study["study"], "path": str(tmp_path / "table.csv")}
    states = [round_["state"] for round_ in study["rounds"]]
    alone = list(targets_alone(stored))
    calls = [("table", given) for given in (table, *(given for given, _ in alone))]
    calls += [("replicate", given | {"options": {"state": s, "lab": "a lab"}}) for s in states]
    found, *others = answers(calls)
    assert found == {name: table[name] for name in found}
    assert [others.pop(0)["targets"] for _ in alone] == [targets for _, targets in alone]
    for round_, answer in zip(study["rounds"], others, strict=True):
        assert answer["fingerprint"] == study["model_fingerprint"]
        sums = json.loads(answer["sums"]["file"])
        assert sums.pop("fingerprint") == sha256(canonical_json(round_["sums"])).hexdigest()
        assert sums == round_["sums"]


@pytest.mark.slow
@needs_node
def test_fits(stored):
    for vector, found in zip(
        stored["fits"], answers([("fit", vector) for vector in stored["fits"]]), strict=True
    ):
        for name in (
            "shares",
            "passes",
            "theta",
            "numbers",
            "codes",
            "moved",
            "decoded",
            "coefficients",
        ):
            assert found[name] == vector[name], (vector["name"], name)
        first = vector["first"]
        assert found["gradient"] == [str(v) for row in first["gradient"] for v in row]
        assert [found["weight"]] == first["weight"]
        assert [found["sampled"]] == first["sampled"]


def strange_tables(rng: np.random.Generator):
    """Rows of all losses: across blocks, far, rare, duplicated, separable, constant."""
    for number in range(24):
        loss = (
            Bernoulli(),
            Multinomial(3 + number % 4),
            Gaussian("0", "1"),
            Poisson(4 + number % 9),
        )[number % 4]
        n_rows, n_terms = int(rng.choice([5, 40, 300, 5000])), int(rng.integers(1, 7))
        if number >= 20:  # more coefficients than have a whole information matrix
            n_rows, n_terms = 400, 510 // loss.n_scores
        terms = np.clip(rng.standard_t(3, (n_rows, n_terms)) * 4096, -16384, 16384)
        terms = np.floor(terms).astype(np.int16)
        if number % 3 == 0:
            terms = np.column_stack([terms, terms[:, 0], np.zeros_like(terms[:, 0])])
        score = terms[:, 0] / 4096 * float(rng.choice([0.3, 1, 10]))
        if loss.kind == "bernoulli":
            targets = (rng.logistic(size=n_rows) < score).astype(float)
        elif loss.kind == "multinomial":
            targets = rng.integers(0, loss.n_classes, n_rows).astype(float)
        elif loss.kind == "gaussian":
            targets = np.clip(np.floor((score + rng.normal(size=n_rows)) * 65536) / 65536, -16, 16)
        else:
            targets = np.minimum(rng.poisson(np.exp(np.clip(score, -3, 2))), loss.cut).astype(float)
        weights = offset = None
        if number % 2:
            weights = np.floor(rng.random(n_rows) * 65536) / 65536
            offset = rng.normal(size=n_rows)
        yield (
            Block(terms, targets, weights, offset),
            loss,
            str(rng.choice(["0.1", "0.001", "0.00001"])),
        )
    terms = (rng.integers(0, 2, (20_000, 2)) * 4096).astype(np.int16)  # four different rows
    targets = (rng.logistic(size=20_000) < terms[:, 0] / 4096).astype(float)
    yield Block(terms, targets), Bernoulli(), "0.001"


@needs_node
@pytest.mark.slow
def test_strange_tables():
    tables = list(strange_tables(np.random.default_rng(32)))
    calls = []
    for block, loss, ridge in tables:
        given = {name: getattr(block, name) for name in ("terms", "targets", "weights", "offset")}
        given = {name: value.tolist() for name, value in given.items() if value is not None}
        calls.append(("fit", given | {"loss": loss.content(), "ridge": ridge}))
    n_refused = 0
    for (block, loss, ridge), found in zip(tables, answers(calls), strict=True):
        rows = MemoryBlocks(block)
        try:
            theta = fit(rows, loss, ridge, Summary.of(rows, loss).check(loss))
            expected = {"theta": theta.tolist()}
        except ReplearnError as problem:
            n_refused += 1
            expected = {"refused": str(problem)}
        assert {name: found[name] for name in expected} == expected
    assert n_refused < len(tables) / 2
