"""What a reader multiplies and adds, from any printed table of coefficients, is the prediction."""

import re

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from benchmarks.intervals import counted, simulated
from replearn.words import ratio_in_words

N_ROWS = 6000


def patients(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """Numbers of different units, a 0/1 column, levels and a real product."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(35, 90, N_ROWS),
            "year": rng.integers(2010, 2024, N_ROWS),
            "diabetes": rng.integers(0, 2, N_ROWS),
            "killip": rng.choice(["I", "II", "III"], N_ROWS, p=[0.7, 0.2, 0.1]),
        }
    )
    frame["platelets"] = rng.normal(250_000, 40_000, N_ROWS).round(-3)
    score = -2 + 0.05 * (frame.age - 60) + 0.6 * (frame.killip == "II") + 0.4 * frame.diabetes
    score += 0.02 * (frame.age - 60) * frame.diabetes - 4e-6 * (frame.platelets - 250_000)
    return frame, rng.random(N_ROWS) < 1 / (1 + np.exp(-score))


@pytest.fixture(scope="module")
def fitted() -> rl.ReplicableLogisticClassifier:
    pairs = [("age", "diabetes"), ("age", "year"), ("age", "killip")]
    return rl.ReplicableLogisticClassifier(interactions=pairs).fit(*patients())


def by_hand(
    coefficients: dict[str, float], row: pd.Series, ends: dict[str, tuple[float, ...]]
) -> float:
    """The probability that a reader gets: names and numbers of a table, and a patient."""

    def value(name: str) -> float:
        if name == "(constant)":
            return 1.0
        if " x " in name:
            first, second = name.split(" x ")
            return value(first) * value(second)
        if " = " in name:
            column, level = name.removesuffix(" (reference)").split(" = ")
            return float(row[column] == level)
        lowest, highest, if_missing = ends[name]
        number = if_missing if pd.isna(row[name]) else float(row[name])
        return min(max(number, lowest), highest)

    score = sum(number * value(name) for name, number in coefficients.items())
    return 1 / (1 + np.exp(-score))


def printed(text: str) -> dict[str, float]:
    """Names and numbers of the table of coefficients in a text of 200 columns."""
    table = text[text.index("Coefficients: per unit") :].partition("\n\n")[0]
    lines = table.splitlines()[2:]
    cells = [line.split("  ") for line in lines]
    found = {}
    for line in cells:
        name, number, *_ = [cell.strip() for cell in line if cell.strip()]
        found[name] = float(number.replace(",", ""))
    return found


def test_the_printed_table_gives_the_prediction(fitted):
    model = fitted.model_
    # numbers beyond the study's range, and a missing one, count as the table says
    frame = patients(1)[0].head(50).astype({"age": float})
    frame.loc[:3, ["age", "platelets"]] = [[150, 4e5], [-20, 6e4], [np.nan, 5e5], [64, -1e5]]
    predicted = fitted.predict_proba(frame)[:, 1]

    text = printed(model.facts().text(width=200, details=True))
    assert len(text) == model.codes.size + 1  # all of them, and the reference level

    lines = model.facts().data()["coefficients"]
    data = {line["term"]: line["coefficient"] for line in lines}
    ends = {line["term"]: (line["lowest"], line["highest"], line["if_missing"]) for line in lines}
    terms = dict(zip(model.term_names, fitted.coef_[0], strict=True))
    own = {"(constant)": fitted.intercept_[0], **terms}

    for (_, row), probability in zip(frame.iterrows(), predicted, strict=True):
        assert by_hand(text, row, ends) == pytest.approx(probability, rel=0.02)
        assert by_hand(data, row, ends) == pytest.approx(probability, rel=1e-9)
        assert by_hand(own, row, ends) == pytest.approx(probability, rel=1e-9)


def test_coefficients_print_as_a_table(fitted):
    text = str(fitted.coefficients_)
    assert all(name in text for name in fitted.coefficients_.terms)
    assert max(map(len, text.splitlines())) <= 78

    # of a long one the clearest
    X = np.random.default_rng(0).normal(size=(2000, 70))
    y = X[:, 0] + np.sin(np.arange(2000)) > 0
    lines = str(rl.ReplicableLogisticClassifier(ridge=0.01).fit(X, y).coefficients_).splitlines()
    assert len(lines) == 11
    assert "(" in lines[1]


def test_a_product_is_per_unit_of_both(fitted):
    terms = dict(zip(fitted.model_.term_names, fitted.coef_[0], strict=True))
    # the ridge may shrink products by a third; per spread of both it would be 0.1
    assert 0.01 < terms["age x diabetes"] < 0.026


def test_figure_and_table_say_the_same(fitted):
    picture = fitted.model_.facts().figures[0].draw()
    for line in fitted.model_.facts().data()["coefficients"][1:]:
        if "reference" not in line["term"]:
            assert f"{line['term']} {ratio_in_words(line['odds_ratio'], 3)}" in picture


def test_a_figure_of_some_says_of_how_many():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 45))
    figure = rl.ReplicableLinearRegressor().fit(X, X[:, 0] + X[:, 1]).model_.facts().figures[0]
    assert "The 40 furthest from no effect, of 45." in figure.caption


# --- standard errors ------------------------------------------------------------------------------


def test_estimates_are_those_of_a_logistic_regression_without_a_ridge():
    frame, y = patients(5)
    frame = frame.drop(columns="killip")
    fitted = rl.ReplicableLogisticClassifier(ridge=0.1).fit(frame, y)
    own = fitted.coefficients_.own

    X = np.column_stack([np.ones(len(y)), frame])
    scale = np.abs(X).max(axis=0)
    X, beta = X / scale, np.zeros(X.shape[1])
    for _ in range(30):  # Newton's method, as textbooks have it
        p = 1 / (1 + np.exp(-X @ beta))
        information = (X * (p * (1 - p))[:, None]).T @ X
        beta += np.linalg.solve(information, X.T @ (y - p))
    errors = np.sqrt(np.diagonal(np.linalg.inv(information))) / scale

    # the encoded grid moves numbers by a hundredth of a standard error
    assert np.abs(own.estimate[0] - beta / scale).max() == pytest.approx(0, abs=0.1 * errors[0])
    assert (np.abs(own.estimate[0] - beta / scale) < 0.05 * errors).all()
    assert own.standard_error[0] == pytest.approx(errors, rel=0.05)
    # the ridge's own coefficients are far from there
    assert (np.abs(fitted.coef_[0] - beta[1:] / scale[1:]) > 2 * errors[1:]).any()


def test_a_level_without_events_has_a_wide_interval():
    rng = np.random.default_rng(2)
    level = rng.choice(["A", "B"], 2000, p=[0.95, 0.05])
    y = (rng.random(2000) < 0.3) & (level == "A")
    frame = pd.DataFrame({"level": level, "x": rng.normal(size=2000)})
    columns = rl.ReplicableLogisticClassifier().fit(frame, y).coefficients_.columns
    at = columns["term"].index("level = B")
    assert columns["estimate"][at] < -2
    assert columns["low"][at] < 1e-3
    assert columns["high"][at] > 0.1  # it may still be a tenth


def test_groups_widen_intervals():
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(150), 20)
    luck, x = rng.normal(size=(2, 150))[:, groups]
    y = 0.3 * x + luck + rng.normal(size=3000)
    frame = pd.DataFrame({"x": x})
    alone = rl.ReplicableLinearRegressor().fit(frame, y).coefficients_.own
    grouped = rl.ReplicableLinearRegressor().fit(frame, y, groups=groups)
    together = grouped.coefficients_.own
    # 20 rows of one group that share half of their variance: sqrt(1 + 19 * 0.5) is 3.2
    assert together.standard_error[0, 1] == pytest.approx(3.2 * alone.standard_error[0, 1], rel=0.2)
    assert "robust standard errors by group" in " ".join(str(grouped.coefficients_).split())
    assert re.search(r"weakest coefficient +.*, \d+ groups", str(grouped.certificate_.facts()))


def test_the_model_file_keeps_the_estimates_and_the_study_does_not(tmp_path, fitted):
    stated = fitted.model_.stating(fitted.coefficients_.own)
    stated.save(tmp_path / "a.model.json")
    read = rl.load(tmp_path / "a.model.json")
    assert read.fingerprint == fitted.fingerprint_  # they are no part of the model
    assert read.coefficients.own.standard_error == pytest.approx(
        fitted.coefficients_.own.standard_error, rel=0.01
    )
    fitted.study_.save(tmp_path / "study.json")
    assert "standard_error" not in (tmp_path / "study.json").read_text()
    text = read.facts().text(details=True)
    assert "This lab's own estimates (6,000 rows), without the ridge" in text


@pytest.mark.parametrize(
    ("kind", "n_rows", "constant"), [("logistic", 1000, -2.0), ("groups", 1500, 0)]
)
def test_intervals_cover_the_truth(kind, n_rows, constant):
    draw, truth = (simulated(kind, n, constant) for n in (n_rows, 100_000))
    hits, _shrunk, _ = counted(kind, draw, truth, n_samples=150)
    # 750 intervals, of which those of one sample hang together: a standard error of about 0.012
    assert 0.91 <= hits.mean() <= 0.99
    # an interval of 85% would be found out in 99.9% of the runs


def far_values(n_rows: int = 1500) -> tuple[pd.DataFrame, np.ndarray]:
    """Some numbers are so far out that they turn a slope."""
    rng = np.random.default_rng(5)
    dose, age = rng.normal(size=(2, n_rows))
    dose[:12] += 30
    score = np.minimum(dose, 5) - 0.5 * age  # hardly more from 5 to 30
    return pd.DataFrame({"dose": dose, "age": age}), score


def by_newton(frame: pd.DataFrame, y: np.ndarray) -> np.ndarray:
    """A logistic regression of columns as they are."""
    X = np.column_stack([np.ones(len(y)), frame])
    beta = np.zeros(3)
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ beta))
        beta += np.linalg.solve((X * (p * (1 - p))[:, None]).T @ X, X.T @ (y - p))
    return beta


def test_own_estimates_take_far_values_as_they_are():
    frame, score = far_values()
    y = (np.random.default_rng(6).logistic(size=len(score)) < score).astype(int)
    fitted = rl.ReplicableLogisticClassifier(between=0).fit(frame, y)
    own, known = fitted._own(), fitted.coefficients_
    away = np.abs(own.estimate[0] - by_newton(frame, y)) / own.standard_error[0]
    assert away.max() < 0.05
    assert "sets 12 values beyond the study's range to its ends, while" in str(known.own_tables())

    # the file of a model states how they were taken
    stated = fitted.model_.stating(own).coefficients.own
    assert (stated.n_beyond, stated.as_they_are) == (12, True)

    # a replication has estimates of its own, streamed rows keep the range
    study = fitted.study_
    lab = rl.ReplicableLogisticClassifier(study=study).fit(frame, y)
    assert np.allclose(lab._own().estimate, own.estimate, atol=0.05 * own.standard_error.min())
    streamed = rl.ReplicableLogisticClassifier(study=study).partial_fit(frame, y)
    assert not streamed._own().as_they_are
    assert "to its ends, here, too" in str(streamed.coefficients_.own_tables())


def test_own_slopes_of_a_linear_model_take_far_targets_as_they_are():
    frame, score = far_values()
    y = score + np.random.default_rng(6).normal(size=len(score))
    y[:20] += 100
    fitted = rl.ReplicableLinearRegressor(between=0).fit(frame, y)
    X = np.column_stack([np.ones(len(y)), frame])
    own = fitted._own()
    away = np.abs(own.estimate[0] - np.linalg.lstsq(X, y)[0]) / own.standard_error[0]
    assert away.max() < 0.05


def test_rows_that_changed_after_the_fit_keep_the_range():
    frame, score = far_values()
    y = (np.random.default_rng(6).logistic(size=len(score)) < score).astype(int)
    X = frame.to_numpy(copy=True)
    fitted = rl.ReplicableLogisticClassifier(between=0).fit(X, y)
    X[:] = 0.0  # somebody reuses the array before the estimates are read
    own = fitted._own()
    assert not own.as_they_are
    assert np.abs(own.estimate[0, 1:]).min() > 0.1


def test_the_forest_plot_of_a_lab(fitted):
    """The shared value, its cell and this lab's interval, all coefficients, as in the table."""
    frame, y = patients(7)
    lab = rl.ReplicableLogisticClassifier(study=fitted.study_).fit(frame, y)
    known = lab.coefficients_
    (figure,) = known.figures()
    assert "A box is its cell" in figure.caption
    picture = figure.draw()
    n_terms = len(known.terms) - 1
    assert picture.count("<rect") == picture.count("<circle") == n_terms
    for value in np.exp(lab.model_.coef[0]):
        assert f">{ratio_in_words(value, 3)}</text>" in picture  # as the table has it

    # a coefficient at the edge of its box is at the edge of its cell: one step further is not
    design, model = lab.model_.design, lab.model_
    step = design.half_cells[0] * design.encoding.per_unit(np.eye(n_terms + 1)).diagonal() ** -1
    for j in range(1, n_terms + 1):
        for share, same in ((0.97, True), (1.03, False)):
            for side in (-1, 1):
                moved = model.theta.copy()
                moved[0, j] += side * share * step[j]
                codes = design.codes(np.round(moved * 2.0**26))
                assert (codes[j] == model.codes[j]) == same


def test_one_long_interval_leaves_room_for_the_others():
    from replearn.words import forest

    marks = [(f"x{i}", "1.0", 0.1 * i, 0.1 * i - 0.2, 0.1 * i + 0.2) for i in range(5)]
    drawn = forest([*marks, ("rare", "0.9", -0.1, -40.0, 40.0)], 0.0, "odds ratio")
    assert drawn.count('fill-opacity="0.55"') == 2  # an arrow at each end
    assert drawn.count("<circle") == 6


def test_ticks_of_a_wide_forest_plot_do_not_overlap():
    from replearn.words import forest

    ratios = (0.001, 0.01, 0.03, 0.1, 0.25, 0.5, 1, 2, 4, 10, 30, 100, 1000)
    ticks = [(float(np.log(ratio)), f"{ratio:g}") for ratio in ratios]
    drawn = forest([("rare", "0.9", -0.1, -20.0, 20.0)], 0.0, "odds ratio", ticks=ticks)
    places = re.findall(r'<text x="([\d.]+)"[^>]*fill-opacity="0.8">([\d.]+)</text>', drawn)
    assert "1" in {text for _, text in places}
    assert np.diff(sorted(float(x) for x, _ in places)).min() > 30


def schooling(n_rows: int = 4000) -> tuple[pd.DataFrame, np.ndarray]:
    """Years follow from the school, as in a census, beside a column of their own."""
    rng = np.random.default_rng(8)
    years = rng.choice([8, 10, 12, 16], n_rows)
    names = {8: "primary", 10: "middle", 12: "high", 16: "university"}
    frame = pd.DataFrame({"age": rng.normal(40, 10, n_rows).round()})
    frame["school"] = [names[year] for year in years.tolist()]
    frame["years"] = years
    return frame, rng.logistic(size=n_rows) < 0.03 * (frame.age - 40) + 0.2 * (years - 11)


def test_a_column_that_follows_from_others_has_no_estimate_and_the_others_keep_theirs(tmp_path):
    frame, y = schooling()
    with pytest.warns(rl.errors.ColumnWarning, match="'years' follows from 'school'"):
        model = rl.ReplicableLogisticClassifier().fit(frame, y)
    found = pd.DataFrame(model.coefficients_.columns).set_index("term")
    alone = rl.ReplicableLogisticClassifier().fit(frame.drop(columns="years"), y)
    alone = pd.DataFrame(alone.coefficients_.columns).set_index("term")

    # as R's NA: the model predicts with both, the estimates are those without it
    assert found.loc["years"].isna().tolist() == [False, True, True, True, True, True]
    found = found.drop(index="years")
    away = (found.estimate - alone.estimate).abs() / alone.standard_error
    assert away.max() < 0.02
    assert np.allclose(found.standard_error, alone.standard_error, rtol=0.01)

    # said beside the table, drawn with the model alone, and kept in a file
    said = " ".join(map(str, model.coefficients_.own_tables()))
    assert "No estimate: 'years', which has no row here or follows from columns above" in said
    assert "nan" not in "".join(figure.draw() for figure in model.coefficients_.figures())
    model.model_.stating(model.coefficients_.own).save(tmp_path / "model.json")
    again = rl.load(tmp_path / "model.json").coefficients
    assert pd.DataFrame(again.columns).set_index("term").loc["years"].isna().sum() == 5


def test_a_hazard_ratio_that_follows_from_others_has_no_estimate():
    frame, _ = schooling(1500)
    rng = np.random.default_rng(9)
    death = rng.exponential(np.exp(0.1 * (12 - frame.years)))
    y = np.array(list(zip(death < 2, np.minimum(death, 2), strict=True)), "?,f8")
    with pytest.warns(rl.errors.ColumnWarning, match="'years' follows from 'school'"):
        model = rl.ReplicableSurvivalAnalysis().fit(frame, y)
    found = pd.DataFrame(model.coefficients_.columns).set_index("term")
    assert found.estimate.isna().tolist() == [term == "years" for term in found.index]
    assert found.standard_error["school = university"] < 0.2


def test_parts_of_curves_are_no_ratios():
    """The exponential of a hat is the ratio of nothing: a curve's effects are differences."""
    rng = np.random.default_rng(12)
    age, dose = rng.normal(60, 10, 3000), rng.normal(size=3000)
    died = rng.logistic(size=3000) < ((age - 60) / 10) ** 2 - 1 + 0.8 * dose
    X = pd.DataFrame({"age": age, "dose": dose})
    fitted = rl.ReplicableLogisticClassifier(basis="splines", between=0).fit(X, died)
    columns = fitted.coefficients_.columns
    known = dict(zip(columns["term"], columns["odds_ratio"], strict=True))
    assert any(term.startswith("age ~") for term in known)
    assert {known[term] for term in known} == {None}
    assert fitted.coefficients_.strongest(3) == []
    assert "is a part of a curve" in " ".join(str(fitted.coefficients_).split())

    # beside them other columns keep theirs
    X["dose"] = (dose > 0).astype(int)
    both = rl.ReplicableLogisticClassifier(basis="splines", between=0).fit(X, died)
    assert [row.name for row in both.coefficients_.strongest(3)] == ["dose"]


def test_steps_are_on_the_scale_of_the_table_of_coefficients(fitted):
    """Of products, too: per unit of both."""
    found = rl.ReplicableLogisticClassifier(study=fitted.study_).fit(*patients(1))
    shown = {one.shown: one.model for one in found.replication_.support.columns}
    known = dict(zip(*(found.coefficients_.columns[key] for key in ("term", "model")), strict=True))
    del known["(constant)"]
    assert any(" x " in term for term in known)
    assert shown == pytest.approx({term: np.exp(value) for term, value in known.items()}, rel=1e-4)
    for one in found.replication_.support.columns:
        assert one.low < one.own < one.high
