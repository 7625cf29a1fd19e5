"""Least squares in published directions: exact sums, plans, protocols, files, agreement."""

import dataclasses
import json
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import replearn as rl
from replearn.errors import InvalidFile
from replearn.kernels.logistic import project, row_score_sums, score_sums
from tests.error_budget import assert_rate_at_most
from tests.reference import score_integers

pytestmark = pytest.mark.slow  # whole studies, planned and fitted

N = 4000


def draw(n_rows=N, seed=1):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4)) * [1, 5, 0.2, 1] + [0, 2, 1, 0]
    y = 100 + 30 * X[:, 0] - 2 * X[:, 1] + 20 * rng.standard_t(6, size=n_rows)
    return pd.DataFrame(X, columns=list("abcd")), y


def quiet(function, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **keywords)


@pytest.fixture(scope="module")
def plan():
    return rl.plan_regression(*draw(600, seed=9), samples_per_site=N, target="y")


# --- sums -------------------------------------------------------------------------------------


@given(
    n=st.integers(1, 8),
    d=st.integers(1, 20),
    k=st.integers(0, 5),
    cap=st.sampled_from([0.5, 100.0]),
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_integers_are_those_of_the_twin(n, d, k, cap, seed, weighted):
    rng = np.random.default_rng(seed)
    X, D = rng.normal(size=(n, d)), rng.integers(-9, 10, (k, d)).astype(np.float64)
    targets, theta = rng.uniform(-0.5, 0.5, n), rng.normal(size=(1, k + 1)) * 0.1
    weights = rng.integers(0, 2**24 + 1, n) if weighted else None
    sums = row_score_sums(X, D, cap, targets, theta, weights=weights, loss=True)
    counted = np.ones(n, np.int64) if weights is None else weights
    expected = score_integers(X, D, cap, targets.tolist(), theta, sums.units, counted.tolist())
    assert sums.integers()[:-1] == expected
    assert sums.total_weight == counted.sum()
    kept = score_sums(project(X, D, cap), targets, theta, sums.units, weights, loss=True)
    assert kept.integers() == sums.integers()


def test_the_loss_is_half_the_square_and_then_its_tangent():
    theta, one = np.array([[0.0, 1.0]]), np.ones((1, 1))
    for size in (0.3, 1.0, 5.0, 1e9):
        sums = row_score_sums(size * one, one, 1e12, np.zeros(1), theta, loss=True)
        expected = min(size**2 / 2 if size <= 1 else size - 0.5, 1024.0)
        assert sums.mean_loss() == pytest.approx(expected, rel=1e-9)


def test_the_estimate_before_rounding_is_least_squares():
    X, y = draw()
    X = ((X - X.mean()) / X.std()).to_numpy()
    clf = rl.ReplicableLinearRegressor(y_range=(-200, 400), samples_per_site=N).fit(X, y)
    theta = clf._components * float(clf.plan_.design.space.lift[0][0]) * 600
    columns = np.column_stack([np.ones(N), X])
    expected = np.linalg.lstsq(columns, y - 100, rcond=None)[0]
    np.testing.assert_allclose(theta, expected, rtol=1e-4, atol=1e-3)


def test_whole_weights_are_repeated_rows(plan):
    X, y = draw(500)
    weights = np.random.default_rng(0).integers(0, 4, 500)
    weighted = quiet(plan.protocol.estimator().fit, X, y, sample_weight=weights)
    rows = np.repeat(np.arange(500), weights)
    repeated = quiet(plan.protocol.estimator().fit, X.iloc[rows], y[rows])
    assert weighted.fingerprint_ == repeated.fingerprint_
    assert weighted.plan_.spent.n_effective < rows.size


# --- agreement --------------------------------------------------------------------------------


@pytest.mark.parametrize("hint_bits", [0, 3])
def test_two_labs_disagree_no_more_often_than_promised(hint_bits):
    planned = rl.plan_regression(
        *draw(1500, seed=3), samples_per_site=1000, max_disagreement=0.2, hint_bits=hint_bits
    )
    n_differ, bounds, trials = 0, [], 150
    for pair in range(trials):
        protocol = dataclasses.replace(planned.protocol, seed=str(pair))
        first = quiet(protocol.estimator().fit, *draw(1000, seed=1000 + 2 * pair))
        hint = {"hint": first.hint_} if hint_bits else {}
        second = quiet(protocol.estimator(**hint).fit, *draw(1000, seed=1001 + 2 * pair))
        n_differ += first.fingerprint_ != second.fingerprint_
        bounds.append(first.certificate_.disagreement_bound)
    assert_rate_at_most(n_differ, trials=trials, bound=0.2, false_alarm=1e-6)
    assert n_differ > 0  # else the cells are wider than they need be
    if hint_bits == 0:
        assert 0.1 < np.median(bounds) < 0.35
        assert_rate_at_most(
            n_differ, trials=trials, bound=float(np.median(bounds)), false_alarm=1e-6
        )


def test_the_certificate_knows_the_covariance(plan):
    """The sandwich of one sample is what estimates of many samples vary by."""
    theta = [
        quiet(plan.protocol.estimator().fit, *draw(1000, seed=seed))._components
        for seed in range(200, 300)
    ]
    spread = np.std(theta, axis=0, ddof=1) * np.sqrt(2)
    planned = plan.protocol.design.spread_numbers * np.sqrt(N / 1000)
    assert (spread < 1.5 * planned).all()
    assert (spread > 0.6 * planned).all()


# --- plans, protocols, files ------------------------------------------------------------------


def test_a_plan_tells_what_it_is_worth(plan):
    mean, own, planned, single = plan.table
    assert mean.r2 == pytest.approx(0, abs=0.02)
    assert mean.rmse > planned.rmse >= single.rmse
    fitted = quiet(plan.protocol.estimator().fit, *draw())
    X, y = draw(seed=5)
    errors = fitted.predict(X) - y
    assert np.sqrt((errors**2).mean()) == pytest.approx(planned.rmse, rel=0.1)
    assert fitted.score(X, y) > 0.9 * own.r2
    assert "this protocol" in str(plan)
    assert json.loads(json.dumps(plan.data()))["n_codes"] == plan.n_codes


def test_protocol_and_model_files(plan, tmp_path):
    path = tmp_path / "study.json"
    plan.protocol.save(path)
    again = rl.Protocol.load(path, plan.protocol.fingerprint)
    assert again == plan.protocol
    fitted = quiet(again.estimator().fit, *draw())
    rl.save(fitted.model_, tmp_path / "a.model.json", protocol=again.content())
    model = rl.load(tmp_path / "a.model.json")
    assert model == fitted.model_
    assert model.format_version == 3
    assert model.classes == ()
    assert (model.predict(draw()[0]) == fitted.predict(draw()[0])).all()
    assert rl.Protocol.of_model_file(tmp_path / "a.model.json") == again
    assert rl.compare(model, fitted.model_).same
    with pytest.raises(AttributeError, match="no probabilities"):
        model.predict_proba(draw()[0])
    for text in (str(model), str(again), model._repr_html_(), plan._repr_html_()):
        assert "number" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["model"].update(classes=[0, 1]), "no classes"),
        (lambda d: d["model"].update(version=2), "has version 3"),
        (lambda d: d["model"]["space"].update(target=["0", "-1"]), "width of the target"),
        (lambda d: d["model"]["space"].update(target=["0"]), "target must be a list of 2"),
        (lambda d: d["model"]["space"].update(threshold="1"), "threshold 0"),
    ],
)
def test_contradicting_models_are_refused(plan, tmp_path, change, words):
    path = tmp_path / "a.model.json"
    rl.save(quiet(plan.protocol.estimator().fit, *draw()).model_, path)
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InvalidFile, match=words):
        rl.load(path)


def test_designs_of_labels_and_numbers_are_told_apart(plan):
    X, y = draw(300)
    with pytest.raises(rl.ReplearnError, match="got one of numbers"):
        rl.ReplicableLogisticClassifier(published=plan.protocol.estimator().published).fit(
            X, y > 99
        )
    labels = rl.plan_from_pilot(X, y > 99, samples_per_site=N).protocol
    published = rl.Published(encoding=labels.encoding, design=labels.design)
    with pytest.raises(rl.ReplearnError, match="got one of labels"):
        rl.ReplicableLinearRegressor(published=published).fit(X, y)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"y": np.zeros(600)}, "y must vary"),
        ({"y": np.full(600, np.nan)}, "y must be finite"),
        ({"y": ["a"] * 600}, "y must hold numbers"),
        ({"y_range": (1, 0)}, "the smaller first"),
        ({"n_directions": 99}, "n_directions must be"),
        ({"hint_bits": 99}, "hint_bits must be"),
    ],
)
def test_odd_plans_are_refused(changes, words):
    X, y = draw(600)
    with pytest.raises(rl.ReplearnError, match=words):
        rl.plan_regression(**{"X": X, "y": y, "samples_per_site": N} | changes)


# --- exports ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed():
    """A regression on numbers, some missing, and categories, and rows for it."""
    X, y = draw(1500, seed=4)
    town = np.random.default_rng(0).choice(["Oslo", "Rome", "O'Hara"], 1500)
    X = X.assign(town=town)
    X.loc[::50, "a"] = np.nan
    y = y + 15 * (town == "Oslo")
    protocol = rl.plan_regression(X, y, samples_per_site=1500, hint_bits=4).protocol
    return quiet(protocol.estimator().fit, X, y), X[:300].reset_index(drop=True)


@pytest.mark.parametrize("encoded", [False, True])
def test_scikit_learn_predicts_the_same(mixed, encoded):
    fitted, X = mixed
    rows = fitted.model_.encoding.transform(X) if encoded else X
    plain = rl.to_sklearn(fitted, encoded=encoded)
    assert type(plain[-1]).__name__ == "LinearRegression"
    np.testing.assert_allclose(plain.predict(rows), fitted.predict(X), rtol=1e-10)


def test_sql_predicts_the_same(mixed):
    import sqlite3

    fitted, X = mixed
    with sqlite3.connect(":memory:") as database:
        X.to_sql("rows", database, index=False)
        found = rl.to_sql(fitted.model_)
        numbers = pd.read_sql_query(found.query, database)["replearn_prediction"]
        again = pd.read_sql_query(f"SELECT {found.label} AS y FROM rows", database)["y"]
    np.testing.assert_allclose(numbers, fitted.predict(X), rtol=1e-10)
    assert (again == numbers).all()


def test_onnx_predicts_the_same(mixed):
    onnxruntime = pytest.importorskip("onnxruntime")
    fitted, X = mixed
    session = onnxruntime.InferenceSession(rl.to_onnx(fitted))
    assert [output.name for output in session.get_outputs()] == ["prediction"]
    inputs = {name: X[name].to_numpy(object if name == "town" else float) for name in X}
    np.testing.assert_allclose(session.run(None, inputs)[0], fitted.predict(X), rtol=1e-10)


def test_csv_adds_up_to_the_prediction(mixed):
    import csv

    fitted, X = mixed
    lines = list(csv.DictReader(rl.to_csv(fitted).splitlines()))
    weights = np.array([float(line["coefficient"]) for line in lines[:-2]])
    assert [line["feature"] for line in lines[-2:]] == ["(intercept)", "(longest row)"]
    rows = fitted.model_.encoding.transform(X)
    lengths = np.linalg.norm(rows, axis=1)
    rows *= np.minimum(1, float(lines[-1]["coefficient"]) / lengths)[:, None]
    found = rows @ weights + float(lines[-2]["coefficient"])
    np.testing.assert_allclose(found, fitted.predict(X), rtol=1e-10)


# --- files and the command line ---------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(plan, tmp_path_factory):
    place = tmp_path_factory.mktemp("regression")
    X, y = draw()
    X.assign(y=y).to_csv(place / "rows.csv", index=False)
    X.assign(y=y).sort_values("y").to_parquet(place / "rows.parquet", row_group_size=301)
    X.assign(y="high").to_csv(place / "words.csv", index=False)
    plan.protocol.save(place / "study.json")
    return place


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_files_give_the_bytes_of_memory(plan, folder, name):
    expected = quiet(plan.protocol.estimator().fit, *draw())
    found = quiet(rl.fit_file, plan.protocol.estimator(n_jobs=2), folder / name, "y", memory=0)
    assert found.fingerprint_ == expected.fingerprint_
    assert found.certificate_ == expected.certificate_


def test_words_in_files_are_refused(plan, folder):
    with pytest.raises(rl.ReplearnError, match=r"must hold numbers, got 'high'"):
        rl.fit_file(plan.protocol.estimator(), folder / "words.csv", "y")


def test_the_command_line(plan, folder, capsys):
    from replearn.cli import main

    rows, model, study = (str(folder / n) for n in ("rows.csv", "a.model.json", "study.json"))

    def said(*arguments, code=0):
        assert quiet(main, list(arguments)) == code
        return capsys.readouterr()

    assert "linear" in said("fit", rows, "--protocol", study, "--out", model).out
    assert "published range" in said("show", model).out
    assert "R2" in said("evaluate", model, rows, "--target", "y").out
    said("predict", model, rows, "--out", str(folder / "p.csv"))
    numbers = np.loadtxt(folder / "p.csv", skiprows=1)
    np.testing.assert_allclose(numbers, rl.load(model).predict(draw()[0]), rtol=1e-6)
    other = str(folder / "b.model.json")
    said("fit", str(folder / "rows.parquet"), "--protocol", study, "--out", other)
    assert "same model" in said("compare", model, other).out
    for refused in (
        ("check", rows, "--protocol", study),
        ("audit", rows, "--protocol", study, "--pairs", "2"),
        ("replicate", model, rows),
        ("sums", rows, "--protocol", study, "--out", str(folder / "s.json")),
        ("bundle", study, "--out", str(folder / "b")),
    ):
        assert "regression" in said(*refused, code=2).err


def test_evaluations_are_those_of_the_definitions(plan):
    X, y = draw(seed=6)
    fitted = quiet(plan.protocol.estimator().fit, *draw())
    found = rl.evaluate_regression(fitted, X, y)
    assert found.r2.value == pytest.approx(fitted.score(X, y))
    assert found.rmse.value == pytest.approx(np.sqrt(((fitted.predict(X) - y) ** 2).mean()))
    assert found.r2.low < found.r2.value < found.r2.high
    again = np.array([fitted.score(*draw(seed=seed)) for seed in range(50, 90)])
    width = (found.r2.high - found.r2.low) / 3.92
    assert 0.5 * width < again.std(ddof=1) < 1.8 * width
    with pytest.warns(rl.UselessModelWarning, match="not shown to predict better"):
        rl.evaluate_regression(fitted, X, y[::-1])
    with pytest.raises(rl.ReplearnError, match="got a regression"):
        rl.evaluate(fitted.model_, X, y)
