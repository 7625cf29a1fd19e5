"""Survival: rows at risk, hazard ratios beside a textbook's, and two labs with one model."""

import re

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn import cli
from replearn.errors import ReplearnError
from replearn.exact import log
from replearn.glm import concordance
from replearn.reports.horizon import brier_score, evaluate_at, kaplan_meier
from replearn.study import Request, lab_sums, publish
from replearn.study.passes import table_of
from replearn.tables import AT_RISK, INTERVAL, cuts_of, open_table, rows_at_risk
from tests.error_budget import assert_rate_at_most

TRUTH = {"age": 0.03, "treated": -0.5}


def trial(n_rows: int = 4000, seed: int = 0) -> pd.DataFrame:
    """Times with a hazard that falls, two effects, and patients who leave."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(60, 10, n_rows).round()})
    frame["treated"] = rng.integers(0, 2, n_rows)
    score = TRUTH["age"] * (frame.age - 60) + TRUTH["treated"] * frame.treated
    death = 400 * rng.weibull(0.7, n_rows) * np.exp(-score / 0.7)  # hazard ratios of exp(score)
    end = rng.uniform(100, 1500, n_rows)
    frame["days"] = np.ceil(np.minimum(death, end))
    frame["died"] = (death <= end).astype(int)
    return frame


def outcome(frame: pd.DataFrame) -> np.ndarray:
    return np.array(
        list(zip(frame.died == 1, frame.days, strict=True)), dtype=[("died", "?"), ("days", "f8")]
    )


def features(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[["age", "treated"]]


@pytest.fixture(scope="module")
def original() -> rl.ReplicableSurvivalAnalysis:
    frame = trial()
    return rl.ReplicableSurvivalAnalysis().fit(features(frame), outcome(frame))


def test_a_row_for_each_interval_at_risk():
    rows = {"age": [50.0, 60.0, 70.0], "days": [5.0, 10.0, 25.0], "died": [1, 0, 1]}
    table = rows_at_risk(open_table(rows, target="days", offset="died"), ("10", "20"), "died")
    (batch,) = table.batches()
    assert batch.column("age").tolist() == [50, 60, 70, 70, 70]
    intervals = batch.column(INTERVAL)
    assert [intervals.values[i] for i in intervals.codes] == [
        "0 to 10",
        "0 to 10",
        "0 to 10",
        "10 to 20",
        "after 20",
    ]
    assert batch.y.tolist() == [1, 0, 0, 0, 1]
    # not NumPy's: its last bit differs between machines
    assert batch.offset.tolist() == log(np.array([5.0, 10, 10, 10, 5])).tolist()
    assert table.roles["offset"] == AT_RISK


def test_cuts_have_twenty_events_between_them():
    rng = np.random.default_rng(1)
    times, events = np.ceil(rng.exponential(30, 300)), (rng.random(300) < 0.6).astype(float)
    cuts = cuts_of(times, events)
    places = np.digitize(times[events > 0], [float(cut) for cut in cuts], right=True)
    assert len(cuts) > 3
    assert np.bincount(places).min() >= 20
    with pytest.raises(ReplearnError, match="at least 20 events, got 5"):
        cuts_of(times[:20], (np.arange(20) < 5).astype(float))


def cox(frame: pd.DataFrame) -> np.ndarray:
    """Cox's estimates with Breslow's ties, as textbooks have them."""
    frame = frame.sort_values("days", ascending=False)
    X = features(frame).to_numpy(float) - features(frame).to_numpy(float).mean(axis=0)
    died, days, beta = frame.died.to_numpy() == 1, frame.days.to_numpy(), np.zeros(2)
    last = np.searchsorted(-days, -days, side="right") - 1  # the risk set of each row ends there
    for _ in range(20):
        w = np.exp(X @ beta)
        s0, s1 = np.cumsum(w), np.cumsum(w[:, None] * X, axis=0)
        s2 = np.cumsum(w[:, None, None] * X[:, :, None] * X[:, None, :], axis=0)
        mean = (s1 / s0[:, None])[last][died]
        second = (s2 / s0[:, None, None])[last][died]
        information = (second - mean[:, :, None] * mean[:, None, :]).sum(axis=0)
        beta = beta + np.linalg.solve(information, (X[died] - mean).sum(axis=0))
    return beta


def test_hazard_ratios_are_those_of_cox(original):
    own = original.coefficients_.own
    near = 0.1 * own.standard_error[0, 1:3]
    assert (np.abs(own.estimate[0, 1:3] - cox(trial())) < near).all()
    assert (np.abs(own.estimate[0, 1:3] - [*TRUTH.values()]) < 40 * near).all()
    assert "hazard_ratio" in original.coefficients_.columns


def test_two_labs_get_one_model(original, tmp_path):
    frame = trial(seed=1)
    path = tmp_path / "b.csv"
    frame.to_csv(path, index=False)
    second = rl.ReplicableSurvivalAnalysis(study=original.study_)
    assert second.fit(features(frame), outcome(frame)).fingerprint_ == original.fingerprint_
    fingerprint = second.fit_file(path).fingerprint_
    assert fingerprint == original.fingerprint_


def test_risk_at_a_horizon_is_calibrated(original):
    frame = trial(20_000, seed=2)
    truth = 1 - np.exp(
        -((365 / 400) ** 0.7)
        * np.exp(TRUTH["age"] * (frame.age - 60) + TRUTH["treated"] * frame.treated)
    )
    risk = original.predict_risk(features(frame), 365)
    assert np.abs(risk - truth).mean() < 0.03
    survival = original.predict_survival(features(frame.head(3)), [100, 365, 1000])
    assert (np.diff(survival, axis=1) < 0).all()
    assert 1 - survival[:, 1] == pytest.approx(risk[:3])


def test_concordance_counts_pairs():
    times, events = np.array([1.0, 2.0, 2.0, 3.0, 4.0]), np.array([1, 1, 0, 1, 0])
    risks = np.array([3.0, 1.0, 1.0, 2.0, 0.0])
    # pairs: the first with four others (4 of 4), the second with the censored one of its time
    # (half), the one of 3 (no) and of 4 (yes), the fourth with the last (yes)
    assert concordance(risks, times, events) == pytest.approx((4 + 1.5 + 1) / 8)


def test_score_is_the_concordance(original):
    frame = trial(1000, seed=3)
    assert 0.58 < original.score(features(frame), outcome(frame)) < 0.7


@pytest.mark.parametrize(
    ("died", "words"),
    [([0, 1, 2], "Competing events"), ([1, 2, 2], "such as 1 and 2 of R's tables as 0 and 1")],
)
def test_other_events_are_refused(died, words, tmp_path):
    frame = trial(300).assign(died=np.resize(died, 300))
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ReplearnError, match=words):
        rl.ReplicableSurvivalAnalysis().fit_file(tmp_path / "a.csv", "days", "died")


def test_y_must_say_event_and_time():
    with pytest.raises(ReplearnError, match="structured array with two fields"):
        rl.ReplicableSurvivalAnalysis().fit(features(trial(100)), trial(100).days)


def test_commands(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    trial().to_csv("a.csv", index=False)
    trial(seed=1).to_csv("b.csv", index=False)
    publish = "publish a.csv --time days --event died --out s.json --page a.html"
    assert cli.main(publish.split()) == 0
    assert cli.main(["replicate", "s.json", "b.csv", "--details"]) == 0
    assert "hazard ratio" in capsys.readouterr().out
    assert cli.main(["show", "a.model.json", "--details"]) == 0
    assert "(interval) = after" in capsys.readouterr().out
    predict = "predict a.model.json b.csv --horizon 365 --out risk.csv"
    assert cli.main(predict.split()) == 0
    risks = pd.read_csv("risk.csv").risk
    assert len(risks) == 4000
    assert risks.between(0, 1).all()
    assert cli.main(["export", "a.model.json", "--out", "a.csv.csv"]) == 0
    capsys.readouterr()
    for command, words in (
        ("predict a.model.json b.csv", "needs --horizon"),
        ("export a.model.json --out a.sql", "as a table only"),
        ("publish a.csv --time days --out t.json", "both --time and --event"),
        ("publish a.csv --time days --event died --kind linear --out t.json", "--kind"),
        ("evaluate a.model.json b.csv", "concordance"),
    ):
        assert cli.main(command.split()) == 2, command
        assert words in capsys.readouterr().err.replace("\n", " "), command


def test_the_base_rate_knows_the_time_at_risk(original):
    """Rows end with their event: without their time a constant looks better than any model."""
    frame = trial(seed=5)
    replication = (
        rl.ReplicableSurvivalAnalysis(study=original.study_)
        .fit(features(frame), outcome(frame))
        .replication_
    )
    support = replication.support
    assert support is not None
    assert support.model.loss.value < support.model.base
    assert support.own.loss.value < support.own.base


# --- Cox's model, and what a model is worth at a horizon ------------------------------------------


def partial_likelihood(beta: np.ndarray, X: np.ndarray, times: np.ndarray, events: np.ndarray):
    """Efron's, as textbooks have it: a loop over event times."""
    weights, total = np.exp(X @ beta), 0.0
    for moment in np.unique(times[events > 0]):
        here = (times == moment) & (events > 0)
        at_risk, tied = weights[times >= moment].sum(), weights[here].sum()
        total += float((X[here] @ beta).sum())
        total -= sum(np.log(at_risk - k / here.sum() * tied) for k in range(int(here.sum())))
    return total


def test_own_hazard_ratios_are_those_of_cox():
    """The partial likelihood of whole rows is highest there, whatever the intervals."""
    frame = trial(600, seed=3)
    frame["days"] = (frame.days / 50).round() + 1  # many ties
    fitted = rl.ReplicableSurvivalAnalysis(between=0).fit(features(frame), outcome(frame))
    own = fitted.coefficients_.own
    beta, errors = own.estimate[0, 1:3], own.standard_error[0, 1:3]
    X, times, events = features(frame).to_numpy(float), frame.days.to_numpy(), frame.died.to_numpy()
    X = X - X.mean(axis=0)
    inside = partial_likelihood(beta, X, times, events)
    for place in (0, 1):
        for step in (-0.1, 0.1):  # a tenth of a standard error away it is lower, by 1/200
            moved = beta.copy()
            moved[place] += step * errors[place]
            assert inside - partial_likelihood(moved, X, times, events) > 0.002


def test_own_hazard_ratios_of_long_tails():
    """Plain Newton's steps from 0 go to and fro for ever: an enzyme with values far away."""
    rng = np.random.default_rng(0)
    enzyme, weight = rng.exponential(1, 300) ** 2, rng.normal(size=300)
    death = rng.exponential(np.exp(-2 * np.log1p(enzyme) - 0.5 * weight))
    frame = pd.DataFrame({"enzyme": enzyme, "weight": weight, "died": 1})
    frame["days"] = 1 + (100 * death).round()

    X = frame[["enzyme", "weight"]]
    fitted = rl.ReplicableSurvivalAnalysis(between=0).fit(X, outcome(frame))
    own = fitted.coefficients_.own
    assert own.is_cox
    assert "Cox's partial likelihood" in str(fitted.coefficients_)
    beta, errors = own.estimate[0, 1:3], own.standard_error[0, 1:3]
    given = X.to_numpy() - X.to_numpy().mean(axis=0), frame.days.to_numpy(), frame.died.to_numpy()
    inside = partial_likelihood(beta, *given)
    for step in (-0.1, 0.1):
        for moved in np.diag(step * errors):
            assert partial_likelihood(beta + moved, *given) < inside


def test_own_hazard_ratios_of_many_events_are_said_to_be_those_of_intervals(monkeypatch):
    """Cox's take a risk set for each event: with too many of them intervals are as good."""
    monkeypatch.setattr("replearn.glm.sandwich._MOST_EVENTS", 100)
    frame = trial(600, seed=3)
    fitted = rl.ReplicableSurvivalAnalysis(between=0).fit(features(frame), outcome(frame))
    said = " ".join(str(fitted.coefficients_).split())
    assert "Hazard ratios are those of the study's intervals" in said


def by_person(beta: np.ndarray, X: np.ndarray, times: np.ndarray, events: np.ndarray) -> np.ndarray:
    """Lin and Wei's standard errors without ties, as textbooks have them: a loop over events."""
    weights = np.exp(X @ beta)
    scores, information = np.zeros_like(X), np.zeros((X.shape[1], X.shape[1]))
    for row in np.flatnonzero(events):
        at_risk = np.flatnonzero(times >= times[row])
        share = weights[at_risk] / weights[at_risk].sum()
        away = X[at_risk] - share @ X[at_risk]
        scores[row] += X[row] - share @ X[at_risk]
        scores[at_risk] -= away * (weights[at_risk] / weights[at_risk].sum())[:, None]
        information += (away * share[:, None]).T @ away
    inverse = np.linalg.inv(information)
    return np.sqrt(np.diagonal(inverse @ (scores.T @ scores) @ inverse))


def test_own_standard_errors_add_up_each_person():
    """Where the effect is no straight line they are larger than the model's, as coxph's robust."""
    rng = np.random.default_rng(11)
    age = rng.exponential(10, 900).round(2)
    death = rng.exponential(np.exp(-0.8 * np.sqrt(age) + 0.06 * age))
    frame = pd.DataFrame({"age": age, "days": 1 + death * 100, "died": 1})
    fitted = rl.ReplicableSurvivalAnalysis(between=0).fit(frame[["age"]], outcome(frame))
    own = fitted.coefficients_.own
    X, times, events = frame[["age"]].to_numpy(), frame.days.to_numpy(), frame.died.to_numpy()
    expected = by_person(own.estimate[0, 1:2], X - X.mean(), times, events)
    assert own.standard_error[0, 1:2] == pytest.approx(expected, rel=0.01)

    # rows at risk alone, as if those of a person were different persons, say less
    assert expected[0] > 1.15 * model_error(own.estimate[0, 1:2], X, times)


def model_error(beta: np.ndarray, X: np.ndarray, times: np.ndarray) -> float:
    """Standard error by the information, all rows having an event."""
    weights, information = np.exp(X @ beta), 0.0
    for moment in times:
        share = weights * (times >= moment) / weights[times >= moment].sum()
        information += float(share @ X[:, 0] ** 2 - (share @ X[:, 0]) ** 2)
    return information**-0.5


def test_kaplan_meier_and_brier_by_hand():
    times, events = np.array([1.0, 2, 2, 3, 4]), np.array([1.0, 0, 1, 1, 0])
    # 4/5 after 1; 3 of 4 are left after 2; then 1 of 2
    assert kaplan_meier(times, events, np.array([0.5, 1, 2, 3.5])) == pytest.approx(
        [1, 0.8, 0.6, 0.3]
    )
    assert kaplan_meier(times, events, np.array([2.0]), before=True) == pytest.approx([0.8])
    # without censoring it is the mean squared error
    risks = np.array([0.9, 0.5, 0.4, 0.2, 0.1])
    died = (times <= 2.5).astype(float)
    assert brier_score(risks, times, np.ones(5), 2.5) == pytest.approx(((died - risks) ** 2).mean())


def test_evaluate_at_a_horizon(tmp_path, original, capsys):
    original.model_.save(tmp_path / "a.model.json")
    frame = trial(2000, seed=9)
    frame.to_csv(tmp_path / "b.csv", index=False)
    call = ["evaluate", str(tmp_path / "a.model.json"), str(tmp_path / "b.csv")]
    assert cli.main([*call, "--horizon", "365"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    found = evaluate_at(original.model_, frame, 365)
    assert f"concordance {original.score(features(frame), outcome(frame)):.3f}" in text
    risks = original.predict_risk(features(frame), 365)
    assert found.predicted == pytest.approx(risks.mean())
    assert found.predicted == pytest.approx(found.observed.value, abs=0.06)  # cells are wide
    assert found.brier < found.base_brier
    assert cli.main([*call, "--horizon", "9999"]) == 2
    assert "before the last time" in capsys.readouterr().err
    assert cli.main(call) == 2
    assert "--horizon TIME" in capsys.readouterr().err


def flagged(n_rows: int, seed: int) -> pd.DataFrame:
    """A trial with a column that half of the patients have."""
    rng = np.random.default_rng(seed)
    return trial(n_rows, seed).assign(flag=rng.integers(0, 2, n_rows))


def test_persons_are_counted_not_their_rows_at_risk():
    """Honest labs had "very different values", and most rows "occurred before": of one person."""
    n_asked = 0
    for seed in range(4):
        original = publish(
            open_table(flagged(1500, seed), target="days", offset="died"),
            Request(kind="survival", time="days", target="died", ridge=0.01),
        )
        assert not any("occur before" in one for one in original.certificate.cautions)
        for lab in range(100, 140):
            found = rl.check(original.study, flagged(80, 1000 * seed + lab))
            n_asked += bool(found.findings)
    # rows at risk in place of persons: one lab in five was asked
    assert_rate_at_most(n_asked, trials=160, bound=0.01, false_alarm=1e-3)


def test_rows_at_risk_are_called_so(original):
    assert " held-out rows at risk the model removes " in str(original.performance_)
    assert "% of half the deviance of" in str(original.performance_)
    assert "(4,000 persons), without the ridge" in str(original.coefficients_)


def test_persons_who_occur_twice_are_told():
    frame = trial(600)
    twice = pd.concat([frame, frame])
    original = publish(
        open_table(twice, target="days", offset="died"),
        Request(kind="survival", time="days", target="died", ridge=0.01),
    )
    assert any("occur before" in one for one in original.certificate.cautions)


def test_intervals_of_time_are_no_effects(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    age = rng.normal(60, 10, 900)
    time = rng.exponential(np.exp(-(age - 60) / 20)) ** 0.4  # the hazard rises steeply
    table = pd.DataFrame({"age": age, "t": time.round(4) + 1e-4, "died": 1})
    table.to_csv("a.csv", index=False)
    given = ["--time", "t", "--event", "died", "--out", "s.json"]
    assert cli.main(["publish", "a.csv", *given]) == 0
    shown = capsys.readouterr().out
    assert "rows at risk" in shown
    assert re.search(r"age .* estimated hazard ratio", shown), shown
    assert "(interval)" not in shown


def test_the_methods_of_a_paper_count_no_interval_as_a_predictor(original):
    from replearn.reports.methods import methods, tripod_items

    words = methods(original.study_)
    n_intervals = len(original.study_.design.loss.cuts) + 1
    assert f"2 log-hazard ratios, a baseline hazard that is constant in each of {n_intervals} " in (
        words
    )
    assert "2 numeric predictors" in words
    assert "categorical" not in words
    assert "rows at risk), as it states" in words
    answers = dict(row[::2] for row in tripod_items(original.study_).rows)
    assert answers["9b"] == "2, under Predictors"


def test_levels_and_table_1_are_of_persons(tmp_path):
    """Three persons at risk in twenty intervals are sixty rows, and still three persons."""
    frame = trial(4000, seed=5)
    frame["ward"] = np.where(frame.index < 3, "rare", np.where(frame.index % 2, "a", "b"))
    frame.loc[:2, "days"] = frame.days.max()
    table = open_table(frame, target="days", offset="died")
    original = publish(table, Request(kind="survival", time="days", target="died"))

    (ward,) = (one for one in original.study.design.encoding.columns if one.name == "ward")
    assert {ward.reference, *ward.levels} == {"a", "b"}
    cohort = {row[0]: row[1] for row in original.cohort().rows}
    assert cohort["rows"] == "4,000"
    assert cohort["treated"].startswith(f"{int(frame.treated.sum()):,} ")
    (about,) = (one for one in original.study.profile.columns if one.name == "ward")
    assert all(float(share) == 0 or float(share) >= 20 / 4000 for share in about.shares)

    frame["patient"] = np.random.default_rng(1).permutation(4000)
    table = open_table(frame, target="days", offset="died")
    original = publish(table, Request(kind="survival", time="days", target="died"))
    assert {remark.column for remark in original.remarks if remark.refused} == {"patient"}


def test_sizes_are_told_in_persons(original):
    """A person has a row in each interval; no reader counts those."""
    frame = trial(1500, 7)
    lab = rl.ReplicableSurvivalAnalysis(study=original.study_).fit(features(frame), outcome(frame))
    report, study = str(lab.replication_), str(original.study_)
    assert lab.replication_.n_rows > 5 * 1500
    people = re.search(r"persons here +1,500, ([\d,]+) events; planned for about ([\d,]+)", report)
    assert people is not None, report
    assert int(people[1].replace(",", "")) == frame.died.sum()
    assert abs(int(people[2].replace(",", "")) / 4000 - 1) < 0.05
    assert "rows here" not in report
    assert f"{lab.replication_.n_rows:,}" not in report
    assert re.search(r"planned for labs with +about [34],\d00 persons", study), study


def test_a_lab_without_late_events_has_the_ratios_of_cox(tmp_path, original, capsys):
    """Nobody is followed as long as at the original: only the late baseline has no estimate."""
    frame = trial(800, seed=6)
    frame["died"] = np.where(frame.days > 600, 0, frame.died)
    frame["days"] = frame.days.clip(upper=600)
    found = rl.ReplicableSurvivalAnalysis(study=original.study_).fit(
        features(frame), outcome(frame)
    )
    own = found.coefficients_.own
    assert own.is_cox
    assert own.n_rows == 800
    assert np.isnan(own.estimate[0]).any()
    assert np.isfinite(own.estimate[0, :3]).all()
    said = " ".join(str(found.coefficients_).split())
    assert "Intervals in which nobody had the event have no estimate" in said
    assert "--drop" not in said

    # Table 1, the table of steps and `show` are of patients, not of intervals
    steps = found.replication_.facts().text(details=True).partition("one step towards")[2]
    assert "treated" in steps
    assert "(interval) = " not in steps
    original.study_.save(tmp_path / "s.json")
    assert cli.main(["show", str(tmp_path / "s.json")]) == 0
    assert re.search(r"columns +2\n", capsys.readouterr().out)


def test_centres_of_a_survival_study_are_learned(tmp_path):
    frame = trial(2400)
    hospital = np.arange(len(frame)) % 4
    names = [f"hospital {number}" for number in hospital]
    first = rl.ReplicableSurvivalAnalysis().fit(features(frame), outcome(frame), centres=names)
    assert first.certificate_.n_centres == 4
    assert first.certificate_.centre_words == "a new centre like these 4"

    # from a file, and by the command, the same study
    path, study = tmp_path / "trial.csv", tmp_path / "study.json"
    frame.assign(hospital=names).to_csv(path, index=False)
    filed = rl.ReplicableSurvivalAnalysis().fit_file(path, "days", "died", centres="hospital")
    assert filed.study_.fingerprint == first.study_.fingerprint
    told = ["--time", "days", "--event", "died", "--centres", "hospital", "--out", str(study)]
    assert cli.main(["publish", str(path), *told]) == 0
    assert rl.load(study).fingerprint == first.study_.fingerprint

    # centres whose mortality differs much widen cells
    frame["died"] = np.where(
        hospital == 0, frame.died * (np.arange(len(frame)) % 8 < 4), frame.died
    )
    wide = rl.ReplicableSurvivalAnalysis().fit(features(frame), outcome(frame), centres=names)
    widths = [float(one.study_.widths[0]) for one in (first, wide)]
    assert widths[1] > widths[0]


def test_sums_of_few_persons_with_a_level_are_refused():
    """A person has a row in each interval: twenty rows at risk may be one patient."""
    wards = np.array(["A", "B", "C"])
    frame = trial(3000, 0).assign(ward=wards[np.arange(3000) % 3])
    request = Request(kind="survival", time="days", target="died")
    study = publish(open_table(frame, target="days", offset="died"), request).study
    longest = np.argsort(-frame.days.to_numpy())[5:14]
    for n_persons in (1, 9):
        few = frame.assign(ward=wards[np.arange(3000) % 2])
        few.loc[longest[:n_persons], "ward"] = "C"
        assert len(table_of(study.design, few[few.ward == "C"]).whole("target")) > 15
        with pytest.raises(ReplearnError, match="Here are fewer of 'ward = C'"):
            lab_sums(study, few)
    assert lab_sums(study, frame).rows > 3000


def test_ridges_are_compared_on_all_rows_at_risk(monkeypatch):
    """A part of them chose one three times as strong: each person has twenty rows."""
    from replearn.glm import validation

    n_compared = set()

    def counting(kept, *given):
        n_compared.add(kept.block.n_rows)
        return validate(kept, *given)

    validate = validation.validate
    monkeypatch.setattr(validation, "validate", counting)
    frame = trial(4000)
    rl.ReplicableSurvivalAnalysis(between=0).fit(features(frame), outcome(frame))
    n_at_risk = sum(
        batch.n_rows
        for batch in rows_at_risk(
            open_table(frame, target="days", offset="died"),
            cuts_of(frame.days.to_numpy(), frame.died.to_numpy()),
            "died",
        ).batches()
    )
    assert n_at_risk > 1 << 15
    assert n_compared == {n_at_risk}
