"""Exports of logistic models: probabilities, thresholds, long rows, scaled categories."""

import csv
import io
import math
import pickle
import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier

import replearn as rl
from replearn.cli import main
from replearn.codes.basis import Basis
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.codes.model import Model
from replearn.codes.randomness import SharedRandomness
from replearn.codes.score_space import ScoreSpace

ENCODING = Encoding(
    (
        NumberColumn("age", "52.3", "25.5"),
        NumberColumn("dose", "-1", "0.002", fill_missing=True),
        CategoryColumn("site", ("north", "o'hara", "None"), scales=("0.7", "0.31", "0.45")),
        CategoryColumn("code", ("1", "10"), other="0.1", scales=("0.3", "0.9", "0.28")),
        CategoryColumn("plain", ("a", "b"), other="0.2"),
        NumberColumn("score", "0", "3"),
    )
)


def logistic(
    n_features=4, threshold="-1.25", cap="1.7", hint_bits=3, encoding=None, classes=("well", "ill")
):
    rng = np.random.default_rng(n_features)
    q = 3
    space = ScoreSpace(
        directions=Basis.from_directions(rng.normal(size=(q - 1, n_features))),
        cap=cap,
        start=("-0.4", "0.8", "0.3"),
        shrink=("0.9", "0.5", "1"),
        lift=(("0.11", "0", "0"), ("0.02", "0.3", "0"), ("0", "0.1", "0.25")),
        rounding="centre",
        threshold=threshold,
        hint_bits=hint_bits,
        hint=(1 << hint_bits) - 1,
    )
    codes = rng.integers(-3, 4, q)
    model = Model("logistic", n_features, True, space, "2024", classes, codes)
    if encoding is not None:
        model = replace(model, encoding=encoding, feature_names=encoding.output_names)
    return model


def table(n_rows, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "site": rng.choice(["north", "o'hara", "None", "south", None], n_rows),
            "code": rng.choice([1.0, 10.0, 3.0, np.nan], n_rows),
            "plain": rng.choice(["a", "b", "c", None], n_rows),
            "unused": np.arange(n_rows),
            "score": rng.normal(0, 3 * spread, n_rows),
            "age": rng.normal(50, 12 * spread, n_rows).round(1),
            "dose": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(-1, 0.002, n_rows)),
        }
    )


def rows(n_features, n_rows=300, seed=1):
    """Short rows, long ones, very long and tiny ones, and zeros."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * 10.0 ** rng.integers(-4, 8, (n_rows, 1))
    X[0] = 0
    return X


MODELS = {
    "threshold": logistic(),
    "one half": logistic(threshold="0"),
    "integers": logistic(classes=(0, 1)),
    "booleans": logistic(n_features=1, classes=(False, True), threshold="3.5"),
    "short rows": logistic(cap="0.001"),
    "long rows": logistic(cap="5e+7"),
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
RAW = logistic(ENCODING.n_outputs, encoding=ENCODING)


def assert_same(model, given_rows, labels, probabilities):
    """Probabilities to the last bits, and labels of all rows that are not on the threshold."""
    expected = model.predict_proba(given_rows)
    assert np.abs(np.asarray(probabilities, float) - expected).max() < 4e-15
    clear = np.abs(model.decision_function(given_rows)) > 1e-12
    assert clear.mean() > 0.95
    assert (np.asarray(labels)[clear] == model.predict(given_rows)[clear]).all()


def test_the_rows_of_these_tests_are_of_all_lengths():
    lengths = np.linalg.norm(rows(4), axis=1)
    assert 0.1 < (lengths > 1.7).mean() < 0.9
    shares = [np.mean(model.predict(rows(4)) == "ill") for model in list(MODELS.values())[:2]]
    assert all(0.02 < share < 0.98 for share in shares)
    encoded = np.linalg.norm(ENCODING.transform(table(400)), axis=1)
    assert 0.05 < (encoded > 1.7).mean() < 1
    assert 0.05 < np.mean(RAW.predict(table(400)) == "ill") < 0.95


def test_the_page_about_the_file_says_how_to_decode():
    # docs/model-file.md, step by step, in plain Python
    model = MODELS["threshold"]
    space, shared = model.content()["space"], SharedRandomness(model.seed)
    q, bits, hint = len(space["start"]), space["hint_bits"], space["hint"]
    offset = shared.uniforms("rounding/offset", q).tolist()
    generator = 3  # of 3 bits
    moves = [hint * generator**j % 2**bits / 2**bits for j in range(q)]
    moved = [(u + m) % 1.0 for u, m in zip(offset, moves, strict=True)]
    centre = [code + o + 0.5 for code, o in zip(model.content()["codes"], moved, strict=True)]
    shrink = [float(text) for text in space["shrink"]]
    pull = [(1.0 - s) * c for s, c in zip(shrink, centre, strict=True)]  # blocks of one
    pull = [p * (0.5 / abs(p)) if abs(p) > 0.5 else p for p in pull]
    y = [c - p for c, p in zip(centre, pull, strict=True)]
    theta = []
    for start, row in zip(space["start"], space["lift"], strict=True):
        total = 0.0
        for text, value in zip(row, y, strict=True):
            total += float(text) * value
        theta.append(float(start) + total)
    weights = [0.0] * model.n_features
    for value, direction in zip(theta[1:], space["directions"], strict=True):
        weights = [w + value * (d * 2.0**-14) for w, d in zip(weights, direction, strict=True)]
    assert weights == model.coef.tolist()
    assert theta[0] - float(space["threshold"]) == model.intercept
    x = rows(4)[5].tolist()
    square, cap = math.fsum(value * value for value in x), float(space["cap"])
    factor = cap / math.sqrt(square) if square > cap * cap else 1.0
    score = math.fsum(v * w for v, w in zip(x, weights, strict=True)) * factor + model.intercept
    assert score == pytest.approx(model.decision_function([x])[0], rel=1e-13)


# ---------------------------------------------------------------- scikit-learn


@models
def test_sklearn_has_the_probabilities_and_labels(model):
    X = rows(model.n_features)
    plain = rl.to_sklearn(model)
    for given_rows in (X, sp.csr_array(X), X.astype(np.float32)):
        same = given_rows.astype(np.float64)
        assert_same(model, same, plain.predict(given_rows), plain.predict_proba(given_rows))
    last = plain[-1]
    assert type(last) is (
        LogisticRegression if model.space.threshold == "0" else FixedThresholdClassifier
    )
    assert plain.classes_.tolist() == list(model.classes)
    assert plain.n_features_in_ == model.n_features


def test_sklearn_leaves_short_rows_as_they_are_and_makes_long_ones_short():
    X = rows(4)
    shortened = rl.to_sklearn(logistic())[:-1].transform(X)
    long = np.linalg.norm(X, axis=1) > 1.7
    assert (shortened[~long] == X[~long]).all()
    assert np.allclose(np.linalg.norm(shortened[long], axis=1), 1.7, rtol=1e-14)


def test_sklearn_refuses_what_the_model_refuses():
    plain = rl.to_sklearn(replace(logistic(2), feature_names=("a", "b")))
    X = pd.DataFrame({"a": [1.0], "b": [2.0]})
    plain.predict(X)
    with pytest.raises(ValueError, match="feature names"):
        plain.predict(X[["b", "a"]])
    with pytest.raises(ValueError, match="features"):
        rl.to_sklearn(logistic(2)).predict(np.ones((1, 3)))
    for bad in (np.nan, np.inf, 1e200):  # of the last the length overflows
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            plain.predict(X.assign(a=bad))


def test_a_row_on_the_threshold_gets_the_first_label():
    # with no weights the log-odds are the intercept: on the threshold exactly
    base = logistic(2)
    space = replace(
        base.space, start=("-1.25", "0", "0"), lift=(("0", "0", "0"),) * 3, threshold="-1.25"
    )
    model = replace(base, space=space)
    X = np.ones((1, 2))
    assert model.decision_function(X)[0] == 0
    assert model.predict(X)[0] == rl.to_sklearn(model).predict(X)[0] == "well"


def test_sklearn_encodes_raw_columns():
    frame = table(300)
    pipeline = rl.to_sklearn(RAW)
    assert (pipeline[:1].transform(frame) == ENCODING.transform(frame)).all()
    assert_same(RAW, frame, pipeline.predict(frame), pipeline.predict_proba(frame))
    X = ENCODING.transform(frame)
    plain = rl.to_sklearn(RAW, encoded=True)
    assert_same(RAW, frame, plain.predict(X), plain.predict_proba(X))


@pytest.mark.slow
def test_pickles_need_no_replearn(tmp_path):
    frame = table(60)
    (tmp_path / "all.pickle").write_bytes(pickle.dumps((rl.to_sklearn(RAW), frame)))
    code = """
import pickle, sys
sys.modules["replearn"] = None  # importing it raises
plain, frame = pickle.load(open(sys.argv[1], "rb"))
print(*plain.predict_proba(frame)[:, 1].tolist())
"""
    command = [sys.executable, "-c", code, str(tmp_path / "all.pickle")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found = np.array([float(text) for text in ran.stdout.split()])
    assert np.abs(found - RAW.predict_proba(frame)[:, 1]).max() < 4e-15


def test_a_fitted_classifier_of_a_plan_is_exported(tmp_path):
    rng = np.random.default_rng(3)
    frame = table(3000, seed=5).drop(columns="unused")
    log_odds = (frame.age - 50) / 12 + (frame.site == "north") - 1.5
    y = np.where(rng.random(3000) < 1 / (1 + np.exp(-log_odds)), "ill", "well")
    plan = rl.plan_from_pilot(frame[:600], y[:600], samples_per_site=2400, hint_bits=4)
    clf = plan.protocol.estimator().fit(frame[600:], y[600:])
    plain = clf.to_sklearn()
    text = frame.assign(code=[None if c != c else f"{c:.0f}" for c in frame.code])
    assert_same(clf.model_, text, plain.predict(text), plain.predict_proba(text))


# ---------------------------------------------------------------- ONNX


def run_onnx(content, inputs):
    onnx.checker.check_model(onnx.load_from_string(content), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return dict(
        zip([out.name for out in session.get_outputs()], session.run(None, inputs), strict=True)
    )


def raw_inputs(frame):
    inputs = {}
    for column in ENCODING.columns:
        values = frame[column.name]
        if isinstance(column, NumberColumn):
            inputs[column.name] = values.to_numpy(np.float64)
        else:
            texts = ["" if v is None or v != v else v for v in values]
            texts = [f"{v:.0f}" if isinstance(v, float) else v for v in texts]
            inputs[column.name] = np.array(texts, dtype=object)
    return inputs


@models
def test_onnx_has_the_probabilities_and_labels(model):
    X = rows(model.n_features)
    found = run_onnx(rl.to_onnx(model), {"X": X})
    assert list(found) == ["label", "score", "probabilities"]
    assert found["probabilities"].dtype == np.float64
    assert_same(model, X, found["label"], found["probabilities"])
    single = X.astype(np.float32)
    found = run_onnx(rl.to_onnx(model, single_precision=True), {"X": single})
    assert_same(model, single.astype(np.float64), found["label"], found["probabilities"])


def test_onnx_encodes_raw_columns():
    frame = table(300)
    found = run_onnx(rl.to_onnx(RAW), raw_inputs(frame))  # one of its columns is "score"
    assert list(found) == ["label", "score_", "probabilities"]
    assert_same(RAW, frame, found["label"], found["probabilities"])
    found = run_onnx(rl.to_onnx(RAW, encoded=True), {"X": ENCODING.transform(frame)})
    assert_same(RAW, frame, found["label"], found["probabilities"])


def test_onnx_shows_rows_that_mean_nothing():
    X = np.array([[1.0, 1, 1, 1], [np.nan, 1, 1, 1], [1e200, 1, 1, 1]])
    found = run_onnx(rl.to_onnx(logistic()), {"X": X})
    assert np.isnan(found["score"]).tolist() == [False, True, True]
    assert np.isnan(found["probabilities"]).all(axis=1).tolist() == [False, True, True]


def test_onnx_says_the_version_of_the_format():
    proto = onnx.load_from_string(rl.to_onnx(logistic()))
    facts = {prop.key: prop.value for prop in proto.metadata_props}
    assert facts["replearn.format"] == "replearn-model 2"


# ---------------------------------------------------------------- SQL


def run_sql(model, columns, types=()):
    types = dict(types)
    database = sqlite3.connect(":memory:")
    kinds = ", ".join(f'"{name}" {types.get(name, "REAL")}' for name in columns)
    database.execute(f'CREATE TABLE "rows" ({kinds})')
    marks = ", ".join("?" * len(columns))
    lists = [pd.Series(values).astype(object) for values in columns.values()]
    cells = zip(*([None if v is None or v != v else v for v in x] for x in lists), strict=True)
    database.executemany(f'INSERT INTO "rows" VALUES ({marks})', cells)
    sql = rl.to_sql(model)
    found = database.execute(
        f'SELECT {sql.score}, {sql.probability}, {sql.label} FROM "rows" ORDER BY rowid'
    ).fetchall()
    cursor = database.execute(sql.query)
    added = [column[0] for column in cursor.description][-3:]
    assert added == ["replearn_score", "replearn_probability", "replearn_label"]
    assert [row[-3:] for row in cursor.fetchall()] == found
    scores, probabilities, labels = zip(*found, strict=True)
    return scores, probabilities, labels


def both(probabilities):
    high = np.array(probabilities, dtype=float)
    return np.column_stack([1 - high, high])


@models
def test_sql_has_the_probabilities_and_labels(model):
    X = rows(model.n_features)
    columns = {f"x{i}": X[:, i] for i in range(model.n_features)}
    _, probabilities, labels = run_sql(model, columns)
    assert_same(model, X, labels, both(probabilities))


def test_sql_encodes_raw_columns():
    frame = table(300)
    types = {"site": "TEXT", "code": "REAL", "plain": "TEXT"}
    _, probabilities, labels = run_sql(RAW, {name: frame[name] for name in frame}, types)
    assert_same(RAW, frame, labels, both(probabilities))


def test_sql_is_null_where_nothing_can_be_said():
    columns = {f"x{i}": np.array([1.0, np.nan, 1e200]) for i in range(4)}
    for found in run_sql(logistic(), columns):
        assert [value is None for value in found] == [False, True, True]


def test_sql_of_extreme_log_odds_does_not_overflow():
    base = logistic(1, cap="1e+9", threshold="0")
    model = replace(base, space=replace(base.space, lift=(("1", "0", "0"),) * 3))
    X = np.array([[-1e9], [1e9]])
    expected = model.predict_proba(X)[:, 1]
    assert sorted(expected) == [pytest.approx(math.exp(-700)), 1.0]
    assert run_sql(model, {"x0": X[:, 0]})[1] == pytest.approx(expected.tolist(), rel=1e-12)


# ---------------------------------------------------------------- coefficients


def lines_of(model):
    return {
        line["feature"]: line for line in csv.DictReader(io.StringIO(rl.to_csv(model), newline=""))
    }


def test_csv_is_enough_to_compute_by_hand():
    frame = table(60)
    lines = lines_of(RAW)
    intercept, threshold, longest = (
        float(lines.pop(name)["coefficient"])
        for name in ("(intercept)", "(threshold)", "(longest row)")
    )
    scores = RAW.decision_function(frame)
    for place in range(60):
        total = square = 0.0
        for line in lines.values():
            value = frame[line["column"]][place]
            missing = value is None or value != value
            if line["category"]:
                text = f"{value:.0f}" if isinstance(value, float) and not missing else value
                known = [
                    one["category"] for one in lines.values() if one["column"] == line["column"]
                ]
                text = "(other)" if not missing and text not in known else text
                scaled = (text == line["category"]) / float(line["scale"] or 1)
            else:
                scaled = (value - float(line["centre"])) / float(line["scale"])
            if not missing:
                total += float(line["coefficient"]) * scaled
                square += scaled**2
        total *= min(1.0, longest / math.sqrt(square))
        assert total + intercept - threshold == pytest.approx(scores[place], abs=1e-12)


def test_csv_has_odds_ratios_per_unit_and_per_scale():
    lines = lines_of(RAW)
    near = replace(RAW, space=replace(RAW.space, cap="1e+9"))
    frame = table(1).assign(age=50.0, site="south")
    for name, moved in (
        ("age", frame.assign(age=51.0)),
        ("site=north", frame.assign(site="north")),
    ):
        change = near.decision_function(moved) - near.decision_function(frame)
        assert float(lines[name]["log_odds_per_unit"]) == pytest.approx(change[0], rel=1e-5)
        assert float(lines[name]["odds_ratio_per_unit"]) == pytest.approx(
            math.exp(change[0]), rel=1e-5
        )
    ratio = math.exp(float(lines["age"]["coefficient"]))
    assert float(lines["age"]["odds_ratio_per_scale"]) == pytest.approx(ratio, rel=1e-5)
    assert lines["(intercept)"]["odds_ratio_per_unit"] == ""


# ---------------------------------------------------------------- any encoding, any rows


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.sampled_from(["0.2", "1", "3.7"]), min_size=3, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["-2.5", "0", "0.75"]),
    st.sampled_from(["0.3", "2", "1e+4"]),
)
def test_all_exports_agree_on_any_rows(seed, scales, other, scaled, threshold, cap):
    columns = (
        NumberColumn("u", "1", scales[0], fill_missing=True),
        CategoryColumn(
            "c",
            ("x", "y"),
            other="0.1" if other else None,
            scales=tuple(scales[: 2 + other]) if scaled else (),
        ),
        NumberColumn("v", "-2", scales[1]),
    )
    encoding = Encoding(columns)
    model = logistic(encoding.n_outputs, threshold=threshold, cap=cap, encoding=encoding)
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.integers(-3, 5, 20)
    frame = pd.DataFrame(
        {
            "u": np.where(rng.random(20) < 0.3, np.nan, rng.normal(size=20) * size),
            "c": rng.choice(["x", "y", "z", None], 20),
            "v": rng.normal(size=20) * size,
        }
    )
    plain = rl.to_sklearn(model)
    assert np.abs(plain.predict_proba(frame) - model.predict_proba(frame)).max() < 4e-15
    inputs = {
        "u": frame.u.to_numpy(),
        "c": np.array([v if isinstance(v, str) else "" for v in frame.c], dtype=object),
        "v": frame.v.to_numpy(),
    }
    found = run_onnx(rl.to_onnx(model), inputs)
    assert np.abs(found["probabilities"] - model.predict_proba(frame)).max() < 4e-15
    _, probabilities, _ = run_sql(model, {name: frame[name] for name in frame}, {"c": "TEXT"})
    assert np.abs(both(probabilities) - model.predict_proba(frame)).max() < 4e-15


# ---------------------------------------------------------------- for people


def test_show_and_report_know_logistic_models(tmp_path, capsys):
    rl.save(RAW, tmp_path / "a.json")
    assert main(["show", str(tmp_path / "a.json"), "--report", str(tmp_path / "a.html")]) == 0
    text, page = capsys.readouterr().out, (tmp_path / "a.html").read_text()
    probability = 1 / (1 + math.exp(1.25))
    for words in (f"from a probability of {probability:.4g} on", "odds ratios", "7 of 8", "1.7"):
        assert words in text
        assert words in page
    ratio = float(lines_of(RAW)["age"]["odds_ratio_per_unit"])
    assert f"age {ratio:.4g}" in page
    assert "lift" not in page
