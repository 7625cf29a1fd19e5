"""Audits by real centres: each left out once; random-effects summaries against plain formulas."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import replearn as rl
from replearn.errors import ReplearnError
from replearn.reports.centres import places_of
from replearn.reports.random_effects import AS_IS, LOG, LOGIT, pooled
from replearn.study import Measure
from tests.error_budget import assert_rate_at_least


def measure(value: float, error: float) -> Measure:
    return Measure(value, value - 1.96 * error, value + 1.96 * error)


# --- random effects -------------------------------------------------------------------------------


def test_without_differences_between_centres_the_mean_is_that_of_inverse_variances() -> None:
    found = pooled([measure(1.0, 0.1), measure(1.05, 0.1), measure(1.1, 0.2)], AS_IS)
    weights = np.array([100.0, 100.0, 25.0])
    assert found is not None
    assert found.between == 0
    assert found.mean.value == pytest.approx(weights @ [1.0, 1.05, 1.1] / weights.sum())
    error = 1 / math.sqrt(weights.sum())
    assert found.mean.high - found.mean.value == pytest.approx(4.302653 * error, rel=1e-6)
    assert found.new_centre[1] - found.mean.value == pytest.approx(12.706205 * error, rel=1e-6)


def test_equal_errors_have_a_closed_form() -> None:
    """Paule and Mandel's variance is then that of the values less the squared error."""
    values = [0.2, 0.9, 0.4, 1.3, 0.7]
    found = pooled([measure(value, 0.1) for value in values], AS_IS)
    between = np.var(values, ddof=1) - 0.01
    assert found is not None
    assert found.between == pytest.approx(math.sqrt(between), rel=1e-6)
    assert found.mean.value == pytest.approx(np.mean(values))
    error = math.sqrt(np.var(values, ddof=1) / 5)
    assert found.mean.high - found.mean.value == pytest.approx(2.776445 * error, rel=1e-6)
    ahead = 3.182446 * math.sqrt(between + error**2)
    assert found.new_centre[0] == pytest.approx(np.mean(values) - ahead, rel=1e-6)


#: Thirteen trials of a vaccine: ill and well of those with it, and of those without (Colditz 1994).
BCG = np.array([
    [4, 119, 11, 128], [6, 300, 29, 274], [3, 228, 11, 209], [62, 13536, 248, 12619],
    [33, 5036, 47, 5761], [180, 1361, 372, 1079], [8, 2537, 10, 619], [505, 87886, 499, 87892],
    [29, 7470, 45, 7232], [17, 1699, 65, 1600], [186, 50448, 141, 27197], [5, 2493, 3, 2338],
    [27, 16886, 29, 17825],
])  # fmt: skip


def test_a_published_meta_analysis_with_unequal_errors() -> None:
    """Log risk ratios; metafor has 0.3181 for Paule and Mandel's variance, and a mean of -0.715."""
    ill, well, ill_without, well_without = BCG.T
    n_with, n_without = ill + well, ill_without + well_without
    values = np.log(ill / n_with) - np.log(ill_without / n_without)
    squares = 1 / ill - 1 / n_with + 1 / ill_without - 1 / n_without
    ratios = [
        Measure(*np.exp([value, value - 1.96 * error, value + 1.96 * error]))
        for value, error in zip(values, np.sqrt(squares), strict=True)
    ]
    found = pooled(ratios, LOG)
    assert found is not None
    assert found.n_centres == 13
    assert found.between**2 == pytest.approx(0.3181, abs=5e-5)
    assert math.log(found.mean.value) == pytest.approx(-0.7150, abs=5e-5)

    # the rest by hand: least squares on the constant, with weights
    def fit(between: float) -> tuple[float, float, float]:
        root = 1 / np.sqrt(squares + between)
        mean, residual = np.linalg.lstsq(root[:, None], root * values, rcond=None)[:2]
        return float(mean[0]), float(residual[0]), float(root @ root)

    between = optimize.brentq(lambda one: fit(one)[1] - 12, 0, 5, xtol=1e-14)
    mean, residual, information = fit(between)
    error = math.sqrt(residual / 12 / information)  # Hartung and Knapp
    ends = mean + error * stats.t.ppf([0.025, 0.975], 12)
    assert np.log([found.mean.low, found.mean.high]) == pytest.approx(ends, rel=1e-6)
    ends = mean + math.hypot(math.sqrt(between), error) * stats.t.ppf([0.025, 0.975], 11)
    assert np.log(found.new_centre) == pytest.approx(ends, rel=1e-6)


def test_ratios_and_shares_are_pooled_on_their_own_scales() -> None:
    halved = pooled([Measure(x, x / 1.5, x * 1.5) for x in (0.5, 1.0, 2.0)], LOG)
    assert halved is not None
    assert halved.mean.value == pytest.approx(1.0)
    assert halved.new_centre[0] > 0
    shares = pooled([Measure(x, x - 0.01, x + 0.01) for x in (0.7, 0.8, 0.98)], LOGIT)
    assert shares is not None
    assert 0 < shares.new_centre[0] < shares.new_centre[1] < 1


def test_fewer_than_three_centres_show_nothing() -> None:
    nothing = Measure(0.0, 0.0, 0.0)  # no event: a ratio of 0
    assert pooled([measure(1.0, 0.1), measure(2.0, 0.1), nothing], LOG) is None
    assert pooled([measure(math.nan, 0.1)] * 5, AS_IS) is None


def test_new_centres_lie_in_prediction_intervals_as_often_as_stated(seeds) -> None:
    rng = np.random.default_rng(seeds(1)[0])
    trials, inside = 600, 0
    for _ in range(trials):
        errors = rng.uniform(0.05, 0.2, size=8)
        values = 1.0 + 0.15 * rng.normal(size=8) + errors * rng.normal(size=8)
        found = pooled([measure(*pair) for pair in zip(values, errors, strict=True)], AS_IS)
        assert found is not None
        low, high = found.new_centre
        inside += low < 1.0 + 0.15 * rng.normal() < high
    assert_rate_at_least(inside, trials, 0.93)  # catches 0.86 with probability 0.9


# --- centres left out -----------------------------------------------------------------------------


def hospitals(n_centres: int = 4, n_rows: int = 600, seed: int = 0) -> pd.DataFrame:
    """Hospitals whose base risks differ as hospitals' do."""
    rng = np.random.default_rng(seed)
    n_all = n_centres * n_rows
    table = pd.DataFrame({"age": rng.normal(60, 10, n_all), "dose": rng.normal(size=n_all)})
    table["hospital"] = np.repeat([f"h{i}" for i in range(n_centres)], n_rows)
    shift = np.repeat(0.15 * rng.normal(size=n_centres), n_rows)
    score = 0.08 * (table["age"] - 60) + 0.7 * table["dose"] - 0.5 + shift
    table["died"] = (rng.random(n_all) < 1 / (1 + np.exp(-score))).astype(int)
    return table


def audited(table: pd.DataFrame, **options):
    rows = table.drop(columns="died")
    return rl.audit(rl.ReplicableLogisticClassifier(), rows, table["died"], **options)


def test_each_centre_replicates_the_model_of_all_others() -> None:
    table = hospitals()
    found = audited(table, by="hospital")
    assert [one.name for one in found.centres] == ["h0", "h1", "h2", "h3"]
    assert found.n_same == 4
    assert found.contradicting == []
    assert found.n_rows == 2400
    assert found.verdict == "undecided"  # four centres cannot show 99%
    for one in found.centres:
        assert one.replication.n_rows == 600
        assert 0.6 < one.measure("AUC").value < 0.9
    summary = found.summary("calibration slope")
    assert summary.new_centre[0] < summary.mean.low < 1 < summary.mean.high < summary.new_centre[1]

    text = found.facts().text(details=True)
    for words in ("4 of 4 centres", "h3", "TRIPOD+AI: 12d", "23b", "24", "new: from"):
        assert words in text
    assert max(map(len, text.split("\n"))) <= 78
    data = found.facts().data()
    assert len(data["centres"]) == 4
    assert len(data["summaries"]) == 3
    assert all(figure.draw().startswith("<svg") for figure in found.facts().figures)


def test_measures_are_those_of_a_fit_of_all_others() -> None:
    """Scikit-learn fits the other hospitals, and formulas measure it at the one that is left."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    table = hospitals(4, 1500)
    columns = ["age", "dose"]
    ours = rl.ReplicableLogisticClassifier(ridge=1e-6)
    found = rl.audit(ours, table[[*columns, "hospital"]], table["died"], by="hospital")
    for one in found.centres:
        is_here = (table["hospital"] == one.name).to_numpy()
        others, here = table[~is_here], table[is_here]
        fit = LogisticRegression(C=1e6, max_iter=1000).fit(others[columns], others["died"])
        risks, died = fit.predict_proba(here[columns])[:, 1], here["died"].to_numpy()
        score = np.log(risks / (1 - risks))
        again = LogisticRegression(C=1e6).fit(score[:, None], died)  # calibration
        expected = {
            "AUC": roc_auc_score(died, risks),
            "observed to expected": died.mean() / risks.mean(),
            "calibration slope": again.coef_[0, 0],
        }
        for name, value in expected.items():
            assert one.measure(name).value == pytest.approx(value, rel=0.005), (one.name, name)


def test_an_array_names_centres_as_a_column_does() -> None:
    table = hospitals(3, 300)
    by_name = audited(table, by="hospital")
    by_values = rl.audit(
        rl.ReplicableLogisticClassifier(),
        {"age": table["age"].to_numpy(), "dose": table["dose"].to_numpy()},
        table["died"].to_numpy(),
        by=table["hospital"].to_numpy(),
    )
    prints = [
        [one.replication.fingerprint for one in found.centres] for found in (by_name, by_values)
    ]
    assert prints[0] == prints[1]


def test_a_centre_that_is_unlike_all_others_is_named() -> None:
    table = hospitals(4, 1500)
    spoiled = table["hospital"] == "h2"
    table.loc[spoiled, "dose"] *= -1
    found = audited(table, by="hospital")
    assert found.centres[2].verdict in ("contradicted", "different")
    assert found.contradicting


def test_a_short_text_begins_with_a_new_centre_and_centres_that_differ() -> None:
    table = hospitals(6, 600)
    table.loc[table["hospital"] == "h4", "dose"] *= -1
    lines = audited(table, by="hospital").facts().text().split("\n")
    start = next(i for i, line in enumerate(lines) if line.endswith("a new centre"))
    assert "calibration slope" in lines[start + 2]
    first = next(line.split()[0] for line in lines if re.match(r"  h\d", line))
    assert first == "h4"
    assert len(lines) <= 12


def test_a_centre_without_events_has_no_model_and_stops_nothing() -> None:
    table = hospitals(4, 300)
    table.loc[table["hospital"] == "h1", "died"] = 0
    found = audited(table, by="hospital")
    assert found.centres[1].verdict == "no model"
    assert found.centres[1].reason
    assert not found.centres[1].same
    assert "'h1' has no model" in found.facts().text(details=True)


def test_small_centres_and_rows_without_one_are_never_left_out() -> None:
    names = np.array(["a"] * 60 + ["b"] * 60 + ["c"] * 60 + ["tiny"] * 5 + [None] * 70, object)
    places, small = places_of(names)
    assert list(places) == ["a", "b", "c"]
    assert small == ("tiny",)


@pytest.mark.parametrize("kind", ["linear", "poisson"])
def test_numbers_and_counts(kind: str) -> None:
    table = hospitals(3, 300)
    rng = np.random.default_rng(1)
    score = 0.05 * (table["age"] - 60)
    rows = table[["age", "dose", "hospital"]]
    if kind == "linear":
        found = rl.audit(
            rl.ReplicableLinearRegressor(), rows, score + rng.normal(size=900), by="hospital"
        )
        assert found.summaries == {}
    else:
        found = rl.audit(
            rl.ReplicablePoissonRegressor(), rows, rng.poisson(np.exp(score)), by="hospital"
        )
        assert list(found.summaries) == ["observed to expected"]
    assert found.n_same == 3
    assert found.facts().text(details=True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "nowhere"}, "by must be a column"),
        ({"by": "age"}, "3 to 100 centres"),
        ({"by": "hospital", "n_pairs": 3}, "Leave out n_pairs"),
        ({"by": np.array(["a", "b"])}, "a value for each of the 900 rows"),
        ({"by": "hospital", "max_disagreement": 5}, "must be in"),
    ],
)
def test_refusals(options: dict, words: str) -> None:
    with pytest.raises(ReplearnError, match=words):
        audited(hospitals(3, 300), **options)


def test_other_classifiers_know_no_centres() -> None:
    from sklearn.linear_model import LogisticRegression

    table = hospitals(3, 300)
    with pytest.raises(ReplearnError, match="by needs a logistic"):
        rl.audit(LogisticRegression(), table[["age"]], table["died"], by=table["hospital"])
    with pytest.raises(ReplearnError, match="by needs a logistic"):
        rl.audit(
            rl.ReplicableSurvivalAnalysis(), table[["age"]], table["died"], by=table["hospital"]
        )


def test_an_audit_asks_once_about_a_column() -> None:
    """Each fit asked again, with a percentage of its own: ten warnings for two columns."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=1200), "gaps": rng.normal(size=1200)})
    sick = (rng.random(1200) < 1 / (1 + np.exp(-table["x"]))).astype(int)
    table.loc[rng.random(1200) < 0.7, "gaps"] = np.nan
    site = np.arange(1200) % 4

    for asked in ({"n_pairs": 3}, {"by": site}):
        with pytest.warns(rl.ColumnWarning, match="'gaps' is missing in") as warned:
            rl.audit(rl.ReplicableLogisticClassifier(), table, sick, **asked)
        assert sum("'gaps'" in str(one.message) for one in warned) == 1
