"""Protocols, encodings and pilots: files, locks and messages."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from replearn import (
    InvalidFile,
    Protocol,
    ReplearnError,
    ReplicabilityWarning,
    load,
    plan_from_pilot,
    save,
)
from replearn.codes.basis import Basis
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.codes.randomness import SharedRandomness
from replearn.datasets import make_margin
from replearn.study.pilot import svm_candidates as candidates
from replearn.study.pilot.encoders import encodings


def table(n: int, state: int) -> tuple[pd.DataFrame, Any]:
    """Two numbers, a rare indicator, a category; the label follows from them."""
    rng = np.random.default_rng(state)
    age, pressure = rng.normal(50, 12, n), rng.normal(130, 20, n)
    site = rng.choice(["north", "south", "west"], n)
    score = (age - 50) / 12 + (pressure - 130) / 20 + (site == "west") - 0.3
    keep = np.abs(score) > 0.4
    frame = pd.DataFrame(
        {"age": age, "pressure": pressure, "rare": (rng.random(n) < 0.02) * 1.0, "site": site}
    )
    return frame[keep].reset_index(drop=True), np.where(score > 0, "ill", "healthy")[keep]


@pytest.fixture(scope="module")
def plan() -> Any:
    X, y = table(1500, 0)
    return plan_from_pilot(X, y, samples_per_site=20_000, shared_seed="study 1", algorithm="svm")


def fit(protocol: Protocol, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        return protocol.estimator().fit(X, y)


def test_a_protocol_survives_its_file(plan: Any, tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    plan.protocol.save(path)
    loaded = Protocol.load(path)
    assert loaded.fingerprint == plan.protocol.fingerprint
    X, y = table(3000, 1)
    assert fit(loaded, X, y).fingerprint_ == fit(plan.protocol, X, y).fingerprint_


def test_the_model_carries_the_encoding(plan: Any, tmp_path: Path) -> None:
    X, y = table(3000, 1)
    fitted = fit(plan.protocol, X, y)
    assert fitted.score(X, y) > 0.9
    save(fitted.model_, tmp_path / "a.json")
    model = load(tmp_path / "a.json")
    assert model == fitted.model_
    for same in (X, pl.from_pandas(X), pl.from_pandas(X).to_arrow(), X[X.columns[::-1]]):
        assert (model.predict(same) == fitted.predict(X)).all()


def test_columns_and_labels_are_locked(plan: Any) -> None:
    X, y = table(500, 2)
    with pytest.raises(ReplearnError, match="column 'site' is not in the table"):
        fit(plan.protocol, X.drop(columns="site"), y)
    with pytest.raises(ReplearnError, match="labels of the protocol, 'healthy' and 'ill', got"):
        fit(plan.protocol, X, np.where(y == "ill", 1, 0))
    with pytest.raises(ReplearnError, match="'age' has 1 missing values"):
        fit(plan.protocol, X.assign(age=X.age.mask(X.index == 3)), y)
    with pytest.raises(ReplearnError, match="'age' must be numeric, got values like 'old'"):
        fit(plan.protocol, X.assign(age="old"), y)


def test_unknown_and_missing_categories_are_zeros() -> None:
    column = CategoryColumn("c", ("1", "a"))
    values = np.array([1, 1.0, "a", "b", None, float("nan")], dtype=object)
    assert column.transform(values).tolist() == [[1, 0], [1, 0], [0, 1], [0, 0], [0, 0], [0, 0]]


def test_sparse_tables_are_scaled_without_centring() -> None:
    X = sp.random(30, 4, 0.5, format="csr", random_state=0)
    encoding = Encoding(tuple(NumberColumn(f"x{i}", "0", "2") for i in range(4)))
    np.testing.assert_allclose(encoding.transform(X).toarray(), X.toarray() / 2)
    with pytest.raises(ReplearnError, match="cannot be centred"):
        Encoding((NumberColumn("a", "1", "2"),) * 4).transform(X)
    with pytest.raises(ReplearnError, match="must have 4 columns"):
        encoding.transform(X[:, :3])


def test_basis_maps_there_and_back() -> None:
    rng = np.random.default_rng(0)
    axes = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    basis = Basis.from_directions(axes, rng.uniform(0.5, 2, 7))
    z = rng.normal(size=7)
    np.testing.assert_allclose(basis.lift(basis.apply(z)), z, atol=1e-3)
    assert basis == Basis.from_directions(axes, np.array([float(w) for w in basis.widths]))


BAD = {
    "keys": lambda d: d.pop("seed"),
    "format must be": lambda d: d.__setitem__("format", "x"),
    "version 7": lambda d: d.__setitem__("version", 7),
    "algorithm must": lambda d: d.__setitem__("algorithm", "x"),
    "margin must be a decimal": lambda d: d["parameters"].__setitem__("margin", 0.1),
    "batch_size must be an integer": lambda d: d["parameters"].__setitem__("batch_size", "a"),
    "unit_mean must be": lambda d: d["parameters"].__setitem__("unit_mean", 1),
    "'parameters' must": lambda d: d["parameters"].__setitem__("extra", 1),
    "list of columns": lambda d: d.__setitem__("encoding", []),
    "kind 'number' or 'category'": lambda d: d["encoding"].__setitem__(0, {"kind": "x"}),
    "same name": lambda d: d["encoding"].append(d["encoding"][0]),
    "scale must be a positive": lambda d: d["encoding"][0].__setitem__("scale", "0"),
    "classes must be": lambda d: d.__setitem__("classes", [1]),
    "notes must": lambda d: d.__setitem__("notes", []),
    "as many rows as widths": lambda d: d.__setitem__("basis", {"rows": [[1]], "widths": []}),
    "at most 2.15": lambda d: d.__setitem__("basis", {"rows": [[10**9]], "widths": ["1"]}),
}


@pytest.mark.parametrize("message", BAD)
def test_a_damaged_protocol_is_refused(plan: Any, tmp_path: Path, message: str) -> None:
    content = json.loads(json.dumps(plan.protocol.content()))
    BAD[message](content)
    path = tmp_path / "p.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InvalidFile, match=message):
        Protocol.load(path)


@pytest.mark.parametrize("n_rows", [100, 199, 250])
def test_a_small_pilot_is_enough_for_a_plan(n_rows: int) -> None:
    X, y = make_margin(n_rows, 4, margin=0.2, random_state=1)
    assert (
        0 < plan_from_pilot(X, y, samples_per_site=10_000, algorithm="svm").chosen.disagreement < 1
    )


def test_a_pilot_is_cut_into_many_subsets() -> None:
    """Of 500 rows, not just the five batches that they hold."""
    X, y = make_margin(500, 3, margin=0.2, random_state=1)
    shared = SharedRandomness("pilot")
    sums = candidates._subset_sums(X, y.astype(np.int8), np.arange(500), 0.01, shared)
    assert sums.n_batches == candidates._N_SUBSETS
    assert len(sums.group_deviations()) == candidates._N_GROUPS


def test_missing_values_stand_in_the_middle_of_their_column() -> None:
    rng = np.random.default_rng(0)
    X, _ = make_margin(400, 2, margin=0.2, random_state=1)
    holes = rng.random(400) < 0.3
    columns = {
        "far": np.where(holes, np.nan, 200 + X[:, 0]),
        "binary": np.where(holes, np.nan, (X[:, 1] > 0) * 1.0),
    }
    for _, encoding in encodings(columns, ()):
        encoded = encoding.transform(columns)
        np.testing.assert_array_equal(encoded[holes], 0.0)
        np.testing.assert_allclose(encoded[~holes].mean(axis=0), 0.0, atol=1e-2)


def test_a_pilot_must_be_large_enough() -> None:
    X, y = make_margin(60, 5, 0.2, random_state=0)
    with pytest.raises(ReplearnError, match="at least 100 rows"):
        plan_from_pilot(X, y, samples_per_site=1000)
    with pytest.raises(ReplearnError, match="two classes, got one class"):
        plan_from_pilot(X, np.ones(60), samples_per_site=1000)


def test_the_frontier_is_monotone_and_printed(plan: Any) -> None:
    accuracies = [point.accuracy for point in plan.frontier]
    assert accuracies == sorted(accuracies)
    assert [p.accuracy for p in plan.samples] == sorted(p.accuracy for p in plan.samples)
    assert "chosen: " in str(plan)


def test_the_frontier_can_be_drawn(plan: Any, tmp_path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    left, right = plan.plot()
    assert left.get_xlabel() == "disagreement between two sites"
    assert right.get_xscale() == "log"
    left.figure.savefig(tmp_path / "frontier.png")
