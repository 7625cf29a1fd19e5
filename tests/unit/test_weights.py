"""Weights of rows: a whole number counts like equal rows, to the bit, wherever the rows are."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

import replearn as rl
from replearn.cli import main

N, NAMES = 900, ["a", "b", "c"]


def draw(n_rows=N, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)) * [1, 5, 0.2]
    y = (rng.random(n_rows) < 1 / (1 + np.exp(-X[:, 0] + 0.3 * X[:, 1]))).astype(int)
    return X, y, rng.integers(0, 5, n_rows)


X, Y, W = draw()
REPEATED = np.repeat(np.arange(N), W)


@pytest.fixture(scope="module")
def protocol():
    rows, y, _ = draw(600, seed=2)
    frame = pd.DataFrame(rows, columns=NAMES)
    return rl.plan_from_pilot(frame, y, samples_per_site=N, target="y").protocol


def promised():
    return rl.ReplicableLogisticClassifier(samples_per_site=N, max_disagreement=0.9)


def quiet(function, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **keywords)


@pytest.mark.parametrize("planned", [False, True])
def test_whole_weights_count_like_equal_rows(protocol, planned):
    make = protocol.estimator if planned else promised
    rows = pd.DataFrame(X, columns=NAMES)
    weighted = quiet(make().fit, rows, Y, sample_weight=W)
    repeated = quiet(make().fit, rows.iloc[REPEATED], Y[REPEATED])
    assert weighted.fingerprint_ == repeated.fingerprint_
    assert weighted.plan_.spent.n_by_class == repeated.plan_.spent.n_by_class
    assert planned == (weighted.plan_.design.n_steps == 1)
    # equal rows are not independent ones: the certificate knows
    n = weighted.plan_.spent.n_effective
    assert n == pytest.approx(W.sum() ** 2 / (W**2).sum())
    first, second = weighted.certificate_, repeated.certificate_
    assert first.estimated_disagreement > second.estimated_disagreement
    assert first.disagreement_bound >= second.disagreement_bound
    assert "weights" in first.assumes


@pytest.mark.parametrize("factor", [1, 0.25, 7])
def test_only_ratios_matter(factor):
    plain = quiet(promised().fit, X, Y)
    assert quiet(promised().fit, X, Y, np.full(N, factor)).fingerprint_ == plain.fingerprint_
    assert quiet(promised().fit, X, Y, float(factor)).plan_.spent.n_effective == pytest.approx(N)


def test_rows_of_weight_zero_are_not_there():
    kept = W > 0
    found = quiet(promised().fit, X, Y, kept.astype(float))
    assert found.fingerprint_ == quiet(promised().fit, X[kept], Y[kept]).fingerprint_


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
@pytest.mark.parametrize("planned", [False, True])
def test_a_column_of_a_file_holds_weights(tmp_path, protocol, name, planned):
    make = protocol.estimator if planned else promised
    frame = pd.DataFrame(X, columns=NAMES).assign(y=Y)
    frame.insert(1, "w", W / 2)
    path = tmp_path / name
    write = frame.to_csv if name.endswith("csv") else frame.to_parquet
    write(path, index=False)
    found = quiet(rl.fit_file, make(), path, "y", weights="w")
    expected = quiet(make().fit, frame[NAMES], Y, sample_weight=W)
    assert found.fingerprint_ == expected.fingerprint_
    assert found.plan_.spent.n_effective == expected.plan_.spent.n_effective
    if planned:
        out = tmp_path / "a.model.json"
        protocol.save(tmp_path / "study.json")
        command = ["fit", str(path), "--protocol", str(tmp_path / "study.json"), "--weights", "w"]
        assert quiet(main, [*command, "--out", str(out)]) == 0
        assert rl.load(out).fingerprint == expected.fingerprint_


def test_a_stream_takes_weights_in_any_pieces(protocol):
    expected = quiet(protocol.estimator().fit, X, Y, np.where(np.arange(N) < 400, 1, W))
    for order in (slice(None), slice(None, None, -1)):  # weights first, or last
        stream = protocol.estimator()
        for part in np.array_split(np.arange(N), [100, 400, 401, 800])[order]:
            weights = W[part] if part[0] >= 400 else None
            stream.partial_fit(X[part], Y[part], classes=[0, 1], sample_weight=weights)
        assert stream.fingerprint_ == expected.fingerprint_
        assert stream.plan_.spent == expected.plan_.spent


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(N - 1), "one weight for each row"),
        (np.full(N, -1.0), "from 0 to 16,384, got -1 in row 0"),
        (np.full(N, np.nan), "got nan in row 0"),
        (np.full(N, 1e5), "divide all by the same number"),
        (np.full(N, 1e-5), "multiply all by the same number"),
        (["heavy"] * N, "must hold numbers"),
        (Y, "two classes"),
    ],
)
def test_odd_weights_are_refused(weights, message):
    with pytest.raises(rl.ReplearnError, match=message):
        promised().fit(X, Y, sample_weight=weights)


def test_others_say_why_they_take_none(tmp_path):
    for other in (rl.ReplicableSVMClassifier(), rl.ReplicableSGDClassifier()):
        with pytest.raises(rl.ReplearnError, match="takes no sample_weight: it cuts"):
            other.fit(X, Y, sample_weight=W)
    with pytest.raises(rl.ReplearnError, match="takes no weights"):
        rl.fit_file(rl.ReplicableSVMClassifier(), tmp_path / "a.csv", "y", weights="w")


def test_weights_are_routed():
    with sklearn.config_context(enable_metadata_routing=True):
        clf = promised().set_fit_request(sample_weight=True)
        clf.set_score_request(sample_weight=True)
        pipe = make_pipeline(Normalizer(), clf)
        found = quiet(cross_validate, pipe, X, Y, params={"sample_weight": W}, cv=2)
        assert np.isfinite(found["test_score"]).all()
        assert quiet(pipe.fit, X, Y, sample_weight=W)[-1].plan_.spent.n_effective is not None
