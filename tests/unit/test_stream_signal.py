"""Signal in streams of rows."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import replearn as rl
from replearn.cli import main
from replearn.kernels.halves import crossed_scores, half_sums
from replearn.stages import signal
from replearn.stages.signal import SpacedRows, signal_of
from tests.reference import half_sums_by_definition


@pytest.mark.parametrize("expected", [None, 90_001])
@pytest.mark.parametrize("sparse", [False, True])
def test_a_stream_keeps_evenly_spaced_rows(sparse, expected):
    n_rows = 90_001
    numbers = np.arange(n_rows)
    X = np.column_stack([numbers, numbers + 0.5])
    stream = SpacedRows(expected)
    for first in range(0, n_rows, 7_001):
        part = slice(first, first + 7_001)
        stream.take(sp.csr_matrix(X[part]) if sparse else X[part], numbers[part] % 2)
    rows, labels = stream._joined()
    kept = (rows.toarray() if sparse else rows)[:, 0]
    assert np.unique(np.diff(kept)).tolist() == [8.0]
    assert kept[0] == 0
    assert n_rows - kept[-1] <= 8
    assert labels.tolist() == (kept % 2).tolist()


@pytest.mark.filterwarnings("ignore:Another lab would get")
def test_fits_on_files_say_whether_there_is_signal(tmp_path):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(3000, 3)), columns=list("abc"))
    y = pd.Series((X["a"] + rng.normal(size=3000) > 0).astype(int), name="y")
    protocol = rl.plan_from_pilot(X[:500], y[:500], samples_per_site=2500).protocol
    X[500:].assign(y=y[500:]).to_parquet(tmp_path / "rows.parquet")
    X[500:].assign(y=rng.permutation(y[500:])).to_parquet(tmp_path / "noise.parquet")
    found = rl.fit_file(protocol.estimator(), tmp_path / "rows.parquet", "y")
    assert found.signal_.p_value < 1e-6
    with pytest.warns(rl.UselessModelWarning, match="show no signal"):
        found = rl.fit_file(protocol.estimator(), tmp_path / "noise.parquet", "y")
    assert found.signal_.p_value > 0.05


@pytest.fixture
def site(tmp_path):
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(3000, 3)), columns=list("abc"))
    table = X.assign(y=(X["a"] + rng.normal(size=3000) > 0).astype(int))
    table.to_parquet(tmp_path / "site.parquet")
    return tmp_path / "site.parquet"


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
@pytest.mark.parametrize("make", [rl.ReplicableSVMClassifier, rl.ReplicableSGDClassifier])
def test_algorithms_1_and_2_test_files_of_any_size(make, site, tmp_path, monkeypatch):
    monkeypatch.setattr(signal, "_FIRST_LOOK", 250)  # so that rows are left out
    settings = {"margin": 0.3, "max_disagreement": 0.9}
    here = rl.fit_file(make(**settings), site, "y")
    assert here.signal_.p_value < 1e-6
    assert here.signal_.n_rows == 375
    assert here.untested_ == ""
    for more in ({"memory": 1000}, {"checkpoint": tmp_path / "state"}):
        assert rl.fit_file(make(**settings), site, "y", **more).signal_ == here.signal_
    state = {"checkpoint": tmp_path / "state"}  # all rows are in it: they are only looked at
    again = rl.fit_file(make(**settings), site, "y", **state)
    assert (again.signal_, again.fingerprint_) == (here.signal_, here.fingerprint_)


@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_a_model_without_a_test_says_why(site):
    table = pd.read_parquet(site)
    X, y = table[list("abc")].to_numpy(), table["y"].to_numpy()
    few = rl.ReplicableSVMClassifier(max_disagreement=0.9).fit(X[:39], y[:39])
    assert (few.signal_, few.untested_) == (None, signal.TOO_FEW)
    stream = rl.ReplicableSGDClassifier(max_disagreement=0.9, batch_size=100).partial_fit(X, y)
    assert (stream.signal_, stream.untested_) == (None, signal.NOT_KEPT)
    stream.fit(X, y)
    assert stream.signal_.found
    assert stream.untested_ == ""
    protocol = rl.plan_from_pilot(X[:500], y[:500], samples_per_site=2500).protocol
    assert protocol.estimator().partial_fit(X, y).untested_ == signal.NOT_KEPT


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_every_command_that_makes_a_model_writes_its_test(site, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = pd.read_parquet(site)
    pilot = table.head(500)
    plan = rl.plan_from_pilot(pilot[list("abc")], pilot["y"], samples_per_site=2500, target="y")
    plan.protocol.save("study.json")
    lines = [
        "fit site.parquet --protocol study.json --out fit.model.json",
        "fit site.parquet --target y --margin .3 --out one.model.json",
        "replicate fit.model.json site.parquet --out again.model.json",
        "sums site.parquet --protocol study.json --out a.sums.json --site A",
        "combine a.sums.json --protocol study.json --out all.model.json",
    ]
    for line in lines:
        assert main(line.split()) == 0, capsys.readouterr().err
    said = {
        path.name: json.loads(path.read_text())["provenance"]
        for path in tmp_path.glob("*.model.json")
    }
    for name in ("fit", "one", "again"):
        assert float(said[f"{name}.model.json"]["signal_p"]) < 1e-6
    assert said["again.model.json"] == said["fit.model.json"]
    assert said["all.model.json"]["signal_untested"] == signal.ONLY_SUMS
    capsys.readouterr()
    assert main(["compare", "fit.model.json", "again.model.json", "all.model.json"]) == 0
    words = capsys.readouterr().out
    assert "shown by the rows of 2 of 3 sites" in words
    assert f"not tested at all.model.json: {signal.ONLY_SUMS}" in words


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_sums_of_halves_keep_their_digits(kind):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1001, 5)) * [1, 1, 1e-3, 0, 5] + [0, 1e9, 1e6, 7, -3]
    X = X.astype(kind)
    members, positive = rng.permutation(1001)[:901], rng.random(901) < 0.3
    sums, squares = half_sums(X, members, positive)
    expected = half_sums_by_definition(X, members, positive)
    np.testing.assert_allclose(sums, expected[0], rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(squares, expected[1], rtol=1e-12)
    for half, members_of_it in enumerate((members[::2], members[1::2])):
        n = members_of_it.size
        variances = squares[half] / n - (sums[half].sum(axis=0) / n) ** 2
        found = X[members_of_it].astype(float)
        np.testing.assert_allclose(variances, found.var(axis=0), rtol=1e-7)
        assert variances[3] == 0
    directions = rng.normal(size=(2, 5))
    scores = crossed_scores(X, members, directions)
    np.testing.assert_allclose(scores[::2], X[members[::2]] @ directions[1], rtol=1e-6)
    np.testing.assert_allclose(scores[1::2], X[members[1::2]] @ directions[0], rtol=1e-6)


def test_rows_of_extreme_length_do_no_harm():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(np.uint8)
    X[:, 2] *= 1e200
    assert signal_of(X, y).found
    assert signal_of(sp.csr_matrix(X), y).found


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_and_dense_rows_give_one_p_value(n_classes):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(600, 5)) * (rng.random((600, 5)) < 0.5)
    y = (X[:, 0] + rng.normal(size=600) > 0).astype(np.uint8) + (rng.random(600) < 0.2) * (
        n_classes - 2
    )
    order = rng.permutation(600)
    dense, sparse = signal_of(X, y, order), signal_of(sp.csr_matrix(X), y, order)
    assert dense.p_value == pytest.approx(sparse.p_value, rel=1e-6)
    assert dense.auc == pytest.approx(sparse.auc)
