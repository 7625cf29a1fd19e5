"""Updated models: constants beside kept slopes, against plain NumPy and scikit-learn."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import replearn as rl
from replearn.cli import main
from replearn.codes import HalfspaceModel
from replearn.errors import InvalidFile, ReplearnError, ReplicabilityWarning
from replearn.glm import GlmModel
from replearn.study import Request, calibration_line, publish
from replearn.tables import open_table
from tests.error_budget import assert_rate_at_least, assert_rate_at_most

EFFECTS = np.array([0.8, -0.5, 0.3])


def draw(
    kind: str, n_rows: int, seed: int, shift: float = 0.0, factor: float = 1.0
) -> tuple[pd.DataFrame, Any]:
    """Rows of a centre whose constant and slopes differ from the first one's by so much."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    score = shift - 0.5 + factor * (X @ EFFECTS)
    if kind == "logistic":
        y: Any = (score + rng.logistic(size=n_rows) > 0).astype(int)
    elif kind == "poisson":
        y = rng.poisson(np.exp(score))
    elif kind == "linear":
        y = 10.0 + 2.0 * score + rng.normal(size=n_rows)
    else:
        scores = np.column_stack([np.zeros(n_rows), score, -score + 2 * shift])
        y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    return pd.DataFrame(X, columns=["a", "b", "c"]), y


CLASSES: dict[str, Any] = {
    "logistic": rl.ReplicableLogisticClassifier,
    "classes": rl.ReplicableLogisticClassifier,
    "linear": rl.ReplicableLinearRegressor,
    "poisson": rl.ReplicablePoissonRegressor,
}


@pytest.fixture(scope="module")
def originals() -> dict[str, GlmModel]:
    found = {}
    for kind, estimator in CLASSES.items():
        found[kind] = estimator(shared_seed="update").fit(*draw(kind, 3000, 1)).model_
    return found


def newton(
    link: str, columns: np.ndarray, offset: np.ndarray, y: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """A plain fit without a ridge beside an offset."""
    beta = np.zeros(columns.shape[1])
    for _ in range(50):
        score = columns @ beta + offset
        mean = {"logit": 1 / (1 + np.exp(-score)), "log": np.exp(score), "identity": score}[link]
        curved = {"logit": mean * (1 - mean), "log": mean, "identity": np.ones_like(mean)}[link]
        gradient = columns.T @ (weights * (mean - y))
        beta -= np.linalg.solve((columns * (weights * curved)[:, None]).T @ columns, gradient)
    return beta


def slopes_score(model: GlmModel, X: pd.DataFrame) -> np.ndarray:
    return model.scores(X)[:, 0] - model.theta[0, 0]


@pytest.mark.parametrize("kind", ["logistic", "linear", "poisson"])
@pytest.mark.parametrize("weighted", [False, True])
def test_fits_are_those_of_plain_numpy(originals, kind, weighted):
    model = originals[kind]
    X, y = draw(kind, 5000, 2, shift=0.6, factor=0.7)
    masses = np.random.default_rng(3).integers(1, 5, len(y)) if weighted else np.ones(len(y))
    given = {"sample_weight": masses} if weighted else {}
    spread, centre = model.design.loss.scale
    units, along = (y - centre) / spread, slopes_score(model, X)
    ones, link = np.ones((len(y), 1)), model.design.loss.link

    constant = rl.update(model, X, y, **given)
    expected = newton(link, ones, along, units, masses)
    assert constant.model.recalibration is not None
    assert constant.model.theta[0, 0] == pytest.approx(expected[0], abs=3e-4)
    assert constant.model.theta[0, 1:] == pytest.approx(model.theta[0, 1:], abs=0)

    slope = rl.update(model, X, y, slope=True, **given)
    both = np.column_stack([ones, along])
    expected = newton(link, both, np.zeros(len(y)), units, masses)
    assert slope.model.recalibration is not None
    assert float(slope.model.recalibration.factor) == pytest.approx(expected[1], abs=1e-3)
    assert slope.model.theta[0, 0] == pytest.approx(expected[0], abs=1e-3)
    assert constant.slope is not None
    assert constant.slope.value == pytest.approx(expected[1], abs=1e-3)


def test_the_slope_is_that_of_scikit_learn(originals):
    model = originals["logistic"]
    X, y = draw("logistic", 4000, 4, shift=-0.5, factor=1.4)
    found = rl.update(model, X, y, slope=True)
    along = slopes_score(model, X)[:, None]
    plain = LogisticRegression(C=1e10, tol=1e-10).fit(along, y)
    ours = found.model.predict_proba(X)[:, 1]
    assert ours == pytest.approx(plain.predict_proba(along)[:, 1], abs=5e-4)
    # as many events as were seen
    assert ours.mean() == pytest.approx(y.mean(), abs=1e-5)


def test_classes_get_a_constant_each(originals):
    model = originals["classes"]
    X, y = draw("classes", 4000, 5, shift=0.7)
    found = rl.update(model, X, y)
    shares = np.bincount(y) / len(y)
    assert found.model.predict_proba(X).mean(axis=0) == pytest.approx(shares, abs=1e-5)
    assert [name for name, _ in found.shifts] == ["1", "2"]
    assert found.slope is None
    with pytest.raises(ReplearnError, match="slope must be False for 3 classes"):
        rl.update(model, X, y, slope=True)


def test_a_column_that_lacks_is_named_whatever_the_offset():
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=400) for name in ("age", "dose")} | {"days": np.full(400, 0.1)}
    table = open_table(columns | {"n": rng.poisson(1.0, 400)}, target="n", offset="days")
    model = publish(table, Request(kind="poisson", target="n", offset="days", ridge=0.01)).model
    for lacks, words in (("days", "needs the offset column 'days'"), ("dose", "no column 'dose'")):
        some = {name: values for name, values in columns.items() if name != lacks}
        with pytest.raises(ReplearnError, match=words):
            model.predict(some)


def test_offsets_are_kept(tmp_path):
    rng = np.random.default_rng(6)
    tables = []
    for shift in (0.0, 0.5):
        X, exposure = rng.normal(size=(3000, 2)), rng.normal(0, 0.5, 3000)
        y = rng.poisson(np.exp(shift - 0.5 + X @ [0.4, 0.2] + exposure))
        tables.append(pd.DataFrame(X, columns=["a", "b"]).assign(time=exposure, count=y))
    first, second = tables
    model = rl.ReplicablePoissonRegressor()
    model.fit(first[["a", "b"]], first["count"], offset=first["time"])
    second.to_csv(tmp_path / "b.csv", index=False)
    found = rl.update(model, tmp_path / "b.csv")
    assert found.model.predict(second).sum() == pytest.approx(second["count"].sum(), rel=1e-4)
    along = slopes_score(model.model_, second)  # with the offset
    ones = np.ones((len(second), 1))
    (expected,) = newton("log", ones, along, second["count"].to_numpy(), np.ones(len(second)))
    assert found.model.theta[0, 0] == pytest.approx(expected, abs=3e-4)
    (_, ratio), *_ = found.shifts
    changed = expected - model.model_.theta[0, 0]
    assert ratio.value == pytest.approx(math.exp(changed), rel=1e-3)


def test_survival_takes_the_columns_of_time_and_event():
    rng = np.random.default_rng(7)

    def rows(shift: float) -> pd.DataFrame:
        x, end = rng.normal(size=2000), rng.uniform(0, 3, 2000)
        death = rng.exponential(np.exp(-0.5 * x - shift))
        seen = death <= end
        return pd.DataFrame({"x": x, "years": np.minimum(death, end), "died": seen.astype(int)})

    first, second = rows(0.0), rows(0.7)
    kinds = [("died", "?"), ("years", "f8")]
    y = np.array(list(zip(first["died"] == 1, first["years"], strict=True)), dtype=kinds)
    model = rl.ReplicableSurvivalAnalysis().fit(first[["x"]], y)
    found = rl.update(model, second)
    (_, ratio), *_ = found.shifts
    assert ratio.low < math.exp(0.7) < ratio.high
    assert found.n_events == second["died"].sum()
    assert found.ratios[1] is not None
    assert found.ratios[1].value == pytest.approx(1.0, abs=1e-5)


def test_rows_in_any_order_and_from_a_file_give_the_same_bytes(originals, tmp_path):
    model = originals["logistic"]
    X, y = draw("logistic", 1500, 8, shift=0.4)
    shuffled = np.random.default_rng(0).permutation(len(y))
    X.assign(y=y).to_csv(tmp_path / "b.csv", index=False)
    for slope in (False, True):
        found = rl.update(model, X, y, slope=slope).fingerprint
        assert rl.update(model, X.iloc[shuffled], y[shuffled], slope=slope).fingerprint == found
        assert rl.update(model, tmp_path / "b.csv", "y", slope=slope).fingerprint == found


def test_files_name_their_parent_and_survive(originals, tmp_path):
    model = originals["logistic"]
    found = rl.update(model, *draw("logistic", 1500, 9, shift=0.5), slope=True)
    assert found.parent == model.fingerprint != found.fingerprint
    rl.save(found.model, tmp_path / "b.json")
    loaded = rl.load(tmp_path / "b.json")
    assert loaded == found.model
    assert loaded.theta.tolist() == found.model.theta.tolist()
    for change in (
        {"constants": [1, 2]},
        {"constants": []},
        {"factor": "0"},
        {"factor": "1.00"},
        {"factor": "-1"},
        {"parent": "x"},
    ):
        content = found.model.content()
        content["recalibration"] = content["recalibration"] | change
        with pytest.raises(InvalidFile):
            GlmModel.from_content(content)
    altered = json.loads((tmp_path / "b.json").read_text())
    altered["recalibration"]["constants"][0] += 1
    with pytest.raises(InvalidFile, match="altered"):
        GlmModel.from_content(altered)


def test_an_update_of_an_update_keeps_the_factor(originals):
    model = originals["logistic"]
    rows = draw("logistic", 3000, 10, shift=0.5, factor=0.6)
    once = rl.update(model, *rows, slope=True)
    again = rl.update(once.model, *rows, slope=True)
    assert again.parent == once.fingerprint
    parts = [found.model.content()["recalibration"] for found in (once, again)]
    # nothing is left to mend but a thousandth
    assert float(parts[0]["factor"]) == pytest.approx(float(parts[1]["factor"]), abs=0.0011)
    assert parts[0]["constants"] == pytest.approx(parts[1]["constants"], rel=1e-2)
    other = rl.update(once.model, *draw("logistic", 3000, 11, shift=-0.5, factor=0.6))
    assert other.model.content()["recalibration"]["factor"] == parts[0]["factor"]
    assert other.shifts[0][1].high < 1


def test_it_says_what_changed(originals):
    model = originals["logistic"]
    found = rl.update(model, *draw("logistic", 3000, 12, shift=0.9))
    text = found.facts().text()
    assert "The model is updated: the base odds are" in text
    assert "times as high here; the slopes are the parent's." in " ".join(text.split())
    data = found.facts().data()
    assert data["base_risk_odds_ratio_interval"][0] < math.exp(0.9)
    assert data["models"][1]["observed_to_expected"] == pytest.approx(1.0, abs=1e-5)
    assert data["models"][0]["observed_to_expected"] > 1.1
    assert (data["parent"], data["rows_here"]) == (model.fingerprint, 3000)
    same = rl.update(model, *draw("logistic", 3000, 13))
    assert "does not differ" in str(same)


@pytest.mark.slow
def test_intervals_cover_the_truth(originals):
    """95% intervals of base risk and slope, of a centre that has the model's own slopes."""
    model, n_covered, trials = originals["logistic"], 0, 200
    rng = np.random.default_rng(14)
    for _ in range(trials):
        X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "c"])
        along = slopes_score(model, X)
        y = (model.theta[0, 0] + 0.4 + 0.8 * along + rng.logistic(size=400) > 0).astype(int)
        found = rl.update(model, X, y, slope=True).slope
        assert found is not None
        n_covered += found.low <= 0.8 <= found.high
    # would catch a coverage of 0.85 with probability 0.9
    assert_rate_at_least(n_covered, trials, 0.94, false_alarm=1e-4)


def _halfspace() -> HalfspaceModel:
    X, y = rl.datasets.make_margin(2000, 4, 0.3)
    return rl.ReplicableSVMClassifier(margin=0.3, sketch_bits=4).fit(X, y).model_


def test_refusals(originals, tmp_path):
    model = originals["logistic"]
    X, y = draw("logistic", 600, 15)
    rare = np.zeros(600, dtype=int)
    rare[:9] = 1
    with pytest.raises(ReplearnError, match="at least 10 rows of each class, got 9"):
        rl.update(model, X, rare)
    rare[:19] = 1
    rl.update(model, X, rare)
    with pytest.raises(ReplearnError, match="at least 20 rows of each class, got 19"):
        rl.update(model, X, rare, slope=True)
    with pytest.raises(ReplearnError, match="at least 10 events, got 4"):
        rl.update(originals["poisson"], X, np.arange(600) < 4)
    with pytest.raises(ReplearnError, match="ranks these rows the wrong way round"):
        rl.update(model, X, 1 - draw("logistic", 600, 15)[1], slope=True)
    with pytest.raises(ReplearnError, match="got a halfspace, which predicts labels"):
        rl.update(_halfspace(), X, y)
    with pytest.raises(ReplearnError, match="takes the original's model"):
        rl.update(3, X, y)


# --- a constant of each lab -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSES)
def test_labs_share_slopes_and_have_constants_of_their_own(kind, tmp_path):
    first = CLASSES[kind](constant="local").fit(*draw(kind, 3000, 20))
    X, y = draw(kind, 3000, 21, shift=1.0)
    second = CLASSES[kind](study=first.study_).fit(X, y)
    assert second.replication_.verdict == "confirmed"
    assert "The same slopes, with your own constant" in str(second.replication_)
    assert second.fingerprint_ == first.fingerprint_
    assert second.coef_.tolist() == first.coef_.tolist()
    assert (second.intercept_ != first.intercept_).all()
    assert "(constant)" not in "".join(second.replication_.names)
    if kind == "logistic":  # as many events as this lab has seen
        assert second.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), abs=1e-5)
    assert first.study_.design.published[first.study_.design.is_constant].tolist() == [0] * len(
        first.intercept_
    )
    rl.save(second, tmp_path / "b.json")
    assert rl.load(tmp_path / "b.json").intercept.tolist() == second.intercept_.tolist()
    assert rl.compare(first, second).same
    assert "constants are each lab's own" in " ".join(str(rl.compare(first, second)).split())


def test_without_its_constant_a_model_does_not_predict(tmp_path):
    X, y = draw("logistic", 2000, 22)
    model = rl.ReplicableLogisticClassifier(constant="local").fit(X, y).model_
    bare = replace(model, provenance=None)
    assert bare.fingerprint == model.fingerprint
    with pytest.raises(ReplearnError, match="leaves the constant to each lab"):
        bare.predict(X)
    updated = rl.update(bare, X, y).model  # which fits one
    assert updated.predict_proba(X) == pytest.approx(model.predict_proba(X), abs=1e-12)
    wrong = replace(model, provenance={"constants": [0.5]})
    with pytest.raises(ReplearnError, match="must be 1 whole numbers"):
        wrong.predict(X)


def test_sums_of_several_labs_have_no_constant_of_their_own():
    X, y = draw("logistic", 2000, 23)
    study = rl.ReplicableLogisticClassifier(constant="local").fit(X, y).study_
    with pytest.raises(ReplearnError, match="leaves the constant to each lab"):
        rl.lab_sums(study, X.assign(y=y))
    with pytest.raises(ReplearnError, match="constant must be one of 'shared', 'local'"):
        rl.ReplicableLogisticClassifier(constant="own").fit(X, y)


# --- after a mismatch -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow() -> Any:
    return rl.ReplicableLogisticClassifier(between=0).fit(*draw("logistic", 4000, 30))


@pytest.mark.parametrize(
    ("shift", "factor", "verdict", "command"),
    [
        (0.7, 1.0, "same slopes", "--constant"),
        (0.0, 0.5, "different", "--slope"),
        (0.0, -1.0, "different", "replearn publish"),
    ],
)
def test_every_rung_names_the_next_command(narrow, shift, factor, verdict, command):
    from replearn.study import replicate
    from replearn.tables import open_table

    X, y = draw("logistic", 4000, 31, shift, factor)
    table = open_table(X, target=y, columns=narrow.study_.design.encoding.names)
    model, found = replicate(narrow.study_, table, narrow.model_)
    assert found.verdict == verdict
    assert "Next: replearn" in str(found)
    assert command in str(found)
    assert model.is_mismatch


@pytest.mark.slow
def test_a_different_base_risk_leaves_the_test_of_slopes_alone(narrow):
    """Far from the model its curvature is a different one: slopes are tested at own constants."""
    from replearn.study import replicate
    from replearn.tables import open_table

    n_rejected, trials = 0, 120
    for seed in range(trials):
        X, y = draw("logistic", 4000, 1000 + seed, shift=0.8)
        table = open_table(X, target=y, columns=narrow.study_.design.encoding.names)
        support = replicate(narrow.study_, table, narrow.model_)[1].support
        assert support is not None
        n_rejected += support.test.p_slopes < 0.05
    # would catch the rate of a test at the model itself, about 0.6, with probability 1
    assert_rate_at_most(n_rejected, trials, 0.075, false_alarm=1e-4)


def test_after_a_mismatch_nothing_predicts(narrow, tmp_path):
    X, y = draw("logistic", 4000, 32, factor=0.3)
    with pytest.warns(ReplicabilityWarning, match="no model to predict with"):
        second = rl.ReplicableLogisticClassifier(study=narrow.study_).fit(X, y)
    calls: list[Any] = [
        lambda: second.predict(X),
        lambda: second.predict_proba(X),
        lambda: second.coef_,
        lambda: second.intercept_,
        lambda: rl.save(second, tmp_path / "b.json"),
        lambda: rl.to_csv(second, tmp_path / "b.csv"),
        lambda: rl.evaluate(second.model_, X, y),
    ]
    for call in calls:
        with pytest.raises(ReplearnError, match="nobody fitted"):
            call()
    assert not [*tmp_path.iterdir()]
    assert second.fingerprint_ != narrow.fingerprint_
    # what this lab's own rows say is there, as what it is
    own = second.coefficients_.columns
    assert own["model"] == [None] * 4
    assert own["estimate"][1] == pytest.approx(0.3 * EFFECTS[0], abs=0.15)
    assert "No model: these are this lab's own estimates." in str(second.coefficients_)


def test_after_a_mismatch_the_command_writes_no_model(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed, (name, factor) in enumerate((("a", 1.0), ("b", 0.4))):
        X, y = draw("logistic", 3000, 40 + seed, factor=factor)
        X.assign(died=y).to_csv(f"{name}.csv", index=False)
    words = "publish a.csv --target died --out study.json --between 0"
    assert main(words.split()) == 0
    capsys.readouterr()
    words = "replicate study.json b.csv --out b.model.json --page b.html --opened a.model.json"
    assert main(words.split()) == 1
    said, page = capsys.readouterr().out, Path("b.html").read_text()
    assert "No model file was written." in said
    assert "replearn update MODEL TABLE --slope" in " ".join(said.split())
    assert not Path("b.model.json").exists()
    assert "Methods." not in page
    assert "TRIPOD" not in page
    assert "own estimates" in page
    assert main(["update", "a.model.json", "b.csv", "--slope", "--out", "b.model.json"]) == 0
    assert main(["replicate", "study.json", "b.csv", "--opened", "b.model.json"]) == 2
    assert "must be the one that the study commits to" in capsys.readouterr().err


@pytest.mark.parametrize("factor", [1.0, -1.0, -30.0, 100.0, 1e-3])
def test_calibration_slopes_are_those_of_a_logistic_regression(factor):
    """Also of models that rank the wrong way round, or are far too sure of themselves."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=4000)
    y = (rng.logistic(size=4000) < score - 1) * 1.0
    line = calibration_line(factor * score, y, np.ones(4000))
    expected = LogisticRegression(C=np.inf, tol=1e-10).fit(score[:, None], y)
    assert line is not None
    assert line[0].value == pytest.approx(expected.intercept_[0], abs=1e-4)
    assert line[1].value * factor == pytest.approx(expected.coef_[0, 0], abs=1e-4)
    assert 0 < (line[1].high - line[1].low) * abs(factor) < 0.3


def test_scores_that_separate_have_no_calibration_line():
    score = np.linspace(-1, 1, 100)
    assert calibration_line(score, (score > 0) * 1.0, np.ones(100)) is None
