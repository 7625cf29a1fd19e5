"""Evaluations, comparisons, checks, audits, plans and files, against exact answers."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

import replearn as rl
from replearn.datasets import CENTRES, load_readmission, make_margin
from replearn.errors import InvalidFile, ReplearnError
from replearn.reports.audit import Audit, audit, audit_study
from replearn.reports.check import check
from replearn.reports.compare import compare
from replearn.reports.evaluate import evaluate, evaluate_original
from replearn.reports.files import load, save
from replearn.reports.methods import methods, with_methods
from replearn.reports.plans import plan
from replearn.reports.table1 import table1
from replearn.study import Opening, Original, Request, publish, replicate
from replearn.tables import Product, open_table

ROWS = 1500


def table(columns: dict, **options: object):  # type: ignore[no-untyped-def]
    return open_table(columns, target="readmitted", **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def labs() -> dict[str, dict]:
    return {name: load_readmission(name, ROWS, as_frame=False) for name in CENTRES}


@pytest.fixture(scope="module")
def original(labs: dict[str, dict]) -> Original:
    return publish(table(labs["Ashford"]), Request(target="readmitted"))


@pytest.fixture(scope="module")
def halfspace() -> rl.ReplicableSVMClassifier:
    X, y = make_margin(4000, 3, 0.4, random_state=1)
    return rl.ReplicableSVMClassifier(margin=0.4).fit(X, y)


# --- evaluate -------------------------------------------------------------------------------------


def test_evaluate_measures_what_scikit_learn_measures(original, labs) -> None:
    new = labs["Dunmore"]
    found = evaluate(original.model, new, "readmitted")
    y, p = new["readmitted"], original.model.predict_proba(new)[:, 1]
    assert found.performance.auc.value == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    assert found.performance.loss.value == pytest.approx(log_loss(y, p), abs=1e-9)
    expected = balanced_accuracy_score(y, original.model.predict(new))
    assert found.performance.balanced_accuracy.value == pytest.approx(expected, abs=1e-12)
    assert found.fingerprint == original.model.fingerprint
    logistic = LogisticRegression(C=1e9, tol=1e-10).fit(found.scores[:, None], y)
    assert found.slope.value == pytest.approx(logistic.coef_[0, 0], abs=1e-3)
    assert found.ratio.value == pytest.approx(y.mean() / p.mean(), abs=1e-9)
    # in the large: the constant beside the scores, whose coefficient is 1
    moved = 1 / (1 + np.exp(-(found.scores + found.in_the_large.value)))
    assert moved.mean() == pytest.approx(y.mean(), abs=1e-9)
    share = logistic.predict_proba(found.scores[:, None])[:, 1]
    design = np.column_stack([np.ones(len(share)), found.scores])
    information = (design * (share * (1 - share))[:, None]).T @ design
    error = np.sqrt(np.linalg.inv(information)[1, 1])  # if the line is right: no sandwich
    assert found.slope.high - found.slope.low == pytest.approx(2 * 1.96 * error, rel=0.15)
    assert sum(b.n_rows for b in found.bins) == ROWS
    assert np.mean([b.observed.value for b in found.bins]) == pytest.approx(y.mean(), abs=1e-6)


def test_evaluate_by_groups_leaves_small_ones_out(original, labs) -> None:
    new = labs["Dunmore"]
    found = evaluate(original.model, new, "readmitted", by="nyha")
    errors = original.model.predict_proba(new)[:, 1] - new["readmitted"]
    share = new["readmitted"].mean()
    assert found.brier[0].value == pytest.approx((errors**2).mean())
    assert found.brier[1] == pytest.approx(share * (1 - share))
    assert "Brier score" in found.facts().text(78, details=True)
    counts = {name: int((new["nyha"] == name).sum()) for name in ("I", "II", "III", "IV")}
    assert {name: worth.n_rows for name, worth in found.groups} == counts
    ward = np.array(["a"] * (ROWS - 9) + ["b"] * 9, dtype=object)
    found = evaluate(original.model, new, "readmitted", by=ward)
    assert [name for name, _ in found.groups] == ["a"]
    assert found.n_small == 9
    with pytest.raises(ReplearnError, match="at most 100 groups"):
        evaluate(original.model, new, "readmitted", by=np.arange(ROWS).astype(str))


def test_evaluate_counts_weights_as_rows(original, labs) -> None:
    new = {name: values[:400] for name, values in labs["Dunmore"].items()}
    weights = np.repeat([1.0, 3.0], 200)
    twice = {name: np.repeat(values, weights.astype(int)) for name, values in new.items()}
    found = evaluate(original.model, new, "readmitted", sample_weight=weights).performance
    expected = evaluate(original.model, twice, "readmitted").performance
    assert found.loss.value == pytest.approx(expected.loss.value)
    assert found.auc.value == pytest.approx(expected.auc.value)


def test_evaluate_halfspaces_and_foreign_classifiers(halfspace) -> None:
    X, y = make_margin(500, 3, 0.4, label_noise=0.1, random_state=2)
    found = evaluate(halfspace, X, y).performance
    assert found.loss.value == pytest.approx(np.mean(halfspace.predict(X) != y))
    assert found.words == "error"
    foreign = LogisticRegression().fit(X, y)
    found = evaluate(foreign, X, y, by=np.where(X[:, 0] > 0, "up", "down"))
    p = foreign.predict_proba(X)
    assert found.performance.loss.value == pytest.approx(log_loss(y, p), abs=1e-9)
    assert len(found.groups) == 2
    with pytest.raises(ReplearnError, match="predict_proba"):
        evaluate(object(), X, y)


def test_an_inverted_model_is_named(original, labs) -> None:
    new = dict(labs["Dunmore"])
    new["readmitted"] = 1 - new["readmitted"]
    found = evaluate(original.model, new, "readmitted")
    assert found.is_inverted
    assert "wrong way round" in found.facts().verdict


def test_figures_of_an_evaluation_are_svg(original, labs) -> None:
    page = evaluate(original.model, labs["Dunmore"], "readmitted").facts().html("Performance")
    assert page.count('<svg role="img"') == 3
    assert "nan" not in page.lower().replace("finance", "")


@pytest.mark.slow
def test_results_have_a_picture(original, halfspace, labs) -> None:
    model = original.model
    other = type(model)(model.design, model.codes + np.arange(model.codes.size) % 2)
    for result, words in (
        (model, "nyha = IV"),
        (halfspace.model_, "x1"),
        (original.performance, "base rate alone"),
        (original.certificate, "planned 99%; estimated here "),
        (check(original.study, table(labs["Dunmore"])), "haemoglobin"),
        (Audit(20, 1, 100, 0.01), "counted 95%; claimed 99%; line: claim."),
        (compare(model, model), "all marks are inside"),
        (compare(model, other), "model 2"),
        (plan("svm", n_features=3, margin=0.4), "agreement rate: "),
        (table1(n_features=5, margin=0.3), "svm+3"),
    ):
        shown = result._repr_html_()
        assert shown.count("<svg") == shown.count('role="img"') == 1
        assert words in shown
        assert "\n" not in repr(result)


# --- compare --------------------------------------------------------------------------------------


def test_compare(original, labs, tmp_path: Path) -> None:
    same, _ = replicate(original.study, table(labs["Birchwood"]))
    few = {name: values[:60] for name, values in labs["Castleton"].items()}
    other, _ = replicate(original.study, table(few))
    assert same == original.model
    found = compare(original.model, same, study=original.study)
    assert found.same
    assert found.original
    assert found.evidence.rows > 10
    found = compare(original.model, same, other)
    assert not found.same
    assert found.one_study
    apart = np.flatnonzero(other.codes != same.codes)
    names = original.study.design.number_names
    assert {name for name, _ in found.differences} == {names[i] for i in apart}
    for name, cells in found.differences:
        place = names.index(name)
        assert cells == (0, 0, other.codes[place] - same.codes[place])
    paths = [tmp_path / f"{name}.json" for name in "ab"]
    for path in paths:
        save(same, path)
    assert compare(*paths).names == ("a.json", "b.json")


def test_models_of_different_studies_are_not_the_same(original, labs, halfspace) -> None:
    twin = publish(table(labs["Ashford"]), Request(target="readmitted", shared_seed=7))
    found = compare(original.model, twin.model)
    assert not found.one_study
    assert "different studies" in found.facts().verdict
    assert not compare(original.model, halfspace).same
    with pytest.raises(ReplearnError, match="of the study that was passed"):
        compare(twin.model, twin.model, study=original.study)
    with pytest.raises(ReplearnError, match="at least two"):
        compare(original.model)
    with pytest.raises(ReplearnError, match="models of replearn"):
        compare(original.model, LogisticRegression())


# --- check ----------------------------------------------------------------------------------------


def test_check_finds_nothing_in_a_good_table(original, labs) -> None:
    found = check(original.study, table(labs["Birchwood"]))
    assert found.ok
    assert found.findings == ()
    assert found.n_rows == ROWS
    assert found.facts().verdict.startswith("The table is ready")
    share, there = labs["Birchwood"]["readmitted"].mean(), labs["Ashford"]["readmitted"].mean()
    assert found.outcome == ("readmitted = 1", pytest.approx(share), pytest.approx(there, abs=0.01))


def test_check_says_equal_complaints_once(original, labs) -> None:
    odd = dict(labs["Birchwood"])
    for name in ("age", "systolic", "length_of_stay"):
        odd[name] = np.full(ROWS, 5)
    text = check(original.study, table(odd)).facts().text()
    assert "3 columns ('age', 'length_of_stay', 'systolic'): each is the same in all rows" in text


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda t: t | {"readmitted": np.where(t["readmitted"], "yes", "no")},
            "labels of the study",
        ),
        (lambda t: t | {"readmitted": np.zeros(ROWS)}, "no row here"),
        (lambda t: t | {"nyha": np.array(["x"] * ROWS, dtype=object)}, "does not know"),
        (lambda t: t | {"age": np.array(["old"] * ROWS, dtype=object)}, "no numbers"),
    ],
)
def test_check_names_what_would_stop(original, labs, change, words: str) -> None:
    found = check(original.study, table(change(labs["Birchwood"])))
    assert not found.ok
    assert any(words in line for line in found.stops)
    with pytest.raises(ReplearnError):
        replicate(original.study, table(change(labs["Birchwood"])))


def test_check_of_counts_and_measurements(labs) -> None:
    columns = dict(labs["Ashford"])
    study = publish(
        open_table(columns, target="length_of_stay"),
        Request(kind="linear", target="length_of_stay", drop=("readmitted",)),
    ).study
    assert check(study, open_table(labs["Dunmore"], target="length_of_stay")).ok
    columns["length_of_stay"] = np.array(["long"] * ROWS, dtype=object)
    assert not check(study, open_table(columns, target="length_of_stay")).ok


# --- audit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_different", "n_pairs"), [(0, 10), (3, 40), (10, 10), (1, 300)])
def test_intervals_are_those_of_clopper_and_pearson(n_different: int, n_pairs: int) -> None:
    found = Audit(n_pairs, n_different, 100, 0.1).interval
    expected = stats.binomtest(n_different, n_pairs).proportion_ci(0.95, method="exact")
    assert found == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_verdicts_of_audits() -> None:
    assert Audit(29, 0, 100, 0.1).verdict == "within"
    assert Audit(28, 0, 100, 0.1).verdict == "undecided"
    assert Audit(20, 10, 100, 0.1).verdict == "exceeds"
    assert "At least 29" in Audit(28, 0, 100, 0.1).facts().text()


@pytest.mark.parametrize(
    ("n_all", "words"),
    [
        (4000, "makes 1 such lab. For 299 labs take a larger one."),
        (400_000, "makes 100 such labs. A study that plans for --rows 1337 makes 299 of it."),
        (4_000_000, None),  # there are enough, if more are asked for
    ],
)
def test_an_audit_of_few_labs_says_what_would_make_more(n_all: int, words: str | None) -> None:
    text = Audit(1, 0, 4000, 0.01, conditional=False, least_rows=4000, n_all=n_all).facts().text()
    assert "At least 299" in text
    assert ("such lab" in text) is (words is not None)
    assert words is None or words in " ".join(text.split())


def test_audit_of_a_foreign_classifier() -> None:
    X, y = make_margin(600, 3, 0.3, random_state=0)
    found = audit(LogisticRegression(), X, y, n_pairs=4)
    assert found.n_different == 4
    assert found.compared == "predictions"
    assert found.n_rows == 240
    assert 0 <= found.churn <= 0.2
    assert found.accuracy > 0.9
    again = audit(LogisticRegression(), X, y, n_pairs=4)
    assert again == found


@pytest.mark.slow
def test_audit_of_an_estimator_of_ours_replicates_the_study(labs) -> None:
    X = load_readmission("Ashford", 3000)
    y = X.pop("readmitted")
    found = audit(rl.ReplicableLogisticClassifier(), X, y, n_pairs=3)
    assert found.compared == "fingerprints"
    assert found.n_different == 0
    assert found.claim == 0.01


def test_audit_of_a_study(original) -> None:
    n_all = 4 * ROWS
    everybody = table(load_readmission("Dunmore", n_all, as_frame=False))
    found = audit_study(original.study, everybody, ROWS, most=10)
    assert (found.n_pairs, found.n_different) == (4, 0)
    with pytest.raises(ReplearnError, match="cannot be cut"):
        audit_study(original.study, everybody, 10**6, most=1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_pairs": 0}, "n_pairs"),
        ({"n_rows": 400}, "cannot be cut"),
        ({"max_disagreement": 5}, "must be in"),
        ({"seed": 1.5}, "seed must be"),
    ],
)
def test_refusals_of_audits(options: dict, words: str) -> None:
    X, y = make_margin(600, 3, 0.3, random_state=0)
    with pytest.raises(ReplearnError, match=words):
        audit(LogisticRegression(), X, y, **options)


# --- plans ----------------------------------------------------------------------------------------


def test_plans_are_those_of_the_estimators(halfspace) -> None:
    found = plan("svm", n_features=3, margin=0.4)
    assert found.plan == halfspace.plan_
    assert found.disagreement(found.plan.n_rows) <= 0.1
    assert not plan("svm", n_features=3, mode="paper").facts().figures  # nothing is proved
    assert f"{found.plan.n_rows:,}" in found.facts().verdict
    with pytest.raises(ReplearnError, match="algorithm must be"):
        plan("forest", n_features=3)


def test_the_methods_paragraph_says_what_the_study_says(original) -> None:
    text = methods(original.study)
    design = original.study.design
    for words in (
        f"logistic regression for readmitted with {design.n_numbers} coefficients",
        "7 numeric predictors entered as linear terms",
        "5 categorical predictors entered as indicators",
        f"{ROWS:,} rows, as it states",
        original.study.fingerprint[:16],
        "with probability 99%",
    ):
        assert words in text
    encoding = replace(design.encoding, products=(Product(0, 1),), products_halved=2)
    study = replace(original.study, design=replace(design, encoding=encoding))
    assert "1 product of terms entered as well, which the penalty shrinks 16 times" in methods(
        study
    )
    measured = evaluate_original(original)
    assert measured.performance.auc == original.performance.auc  # on rows that fits have not seen
    facts = with_methods(original.study.facts(), original.study, original.model, ("x", measured))
    assert len(facts.figures) == 5
    assert text in facts.html("Supplement").replace("&#x27;", "'")
    names = [row["column"] for row in facts.data()["predictors"]]
    items = {row["item"]: row["answer"] for row in facts.data()["tripod"]}
    assert items["10"] == "original: 1,500 rows; others: 1,500 rows"
    # BMJ 385:e078378
    asked = "7, 8a, 9b, 10, 11, 12b, c, 12d, 12f, 24, 13, 15, 18c, f, 22, 23a, 23b, others"
    assert ", ".join(items) == asked
    assert items["22"] == "all coefficients, above"
    assert items["23a"] == "above"
    assert names == [column.name for column in design.encoding.columns]
    terms = [row["term"] for row in facts.data()["coefficients"]]
    references = [term for term in terms if term.endswith("(reference)")]
    assert len(references) == 5
    assert len(terms) == design.n_numbers + 5


# --- files, data ----------------------------------------------------------------------------------


def test_any_file_is_loaded_by_its_header(original, halfspace, tmp_path: Path) -> None:
    opening = Opening(original.study.fingerprint, original.model.fingerprint, "0" * 32)
    for number, thing in enumerate((original.study, original.model, halfspace.model_, opening)):
        path = tmp_path / f"{number}.json"
        save(thing, path)
        found = load(path)
        assert type(found) is type(thing)
        assert found == thing
        assert found.facts().verdict
    with pytest.raises(ReplearnError, match="is there and is no replearn/model"):
        save(halfspace, path)  # a file of a different kind is not written over
    path = tmp_path / "2.json"
    save(halfspace, path)
    assert load(path) == halfspace.model_
    path.write_text('{"format": "replearn/nothing", "version": 1}')
    with pytest.raises(InvalidFile, match="format"):
        load(path)
    with pytest.raises(ReplearnError, match="must get a study"):
        save(3, path)
    with pytest.raises(InvalidFile, match="nonce"):
        Opening.from_content(opening.content() | {"nonce": "x"})


def test_readmission_is_the_same_everywhere() -> None:
    first = load_readmission("Ashford", 300, as_frame=False)
    again = load_readmission(n_rows=300)
    chosen = again[again["centre"] == "Ashford"]
    assert len(again) == 1200
    for name, values in first.items():
        same = (values == chosen[name].to_numpy()) | (chosen[name].isna() & (values != values))
        assert (same | np.array([value is None for value in values])).all()
    other = load_readmission("Ashford", 300, seed=1, as_frame=False)
    assert (other["age"] != first["age"]).any()
    assert 0.1 < first["readmitted"].mean() < 0.3
    assert np.isnan(first["haemoglobin"]).any()
    assert any(value is None for value in first["diabetes"])
    with pytest.raises(ReplearnError, match="centre must be"):
        load_readmission("Elsewhere")


def test_margins_are_kept() -> None:
    X, y = make_margin(500, 4, 0.2, max_margin=0.3, decoy=0.5, random_state=0)
    heights = y * (X @ rl.datasets.margin_direction(4))
    assert np.allclose(np.linalg.norm(X, axis=1), 1)
    assert heights.min() >= 0.2 - 1e-12
    assert heights.max() <= 0.3 + 1e-12
    for bad in ({"n_features": 1, "margin": 0.2}, {"n_features": 3, "margin": 2.0}):
        with pytest.raises(ReplearnError):
            make_margin(10, **bad)  # type: ignore[arg-type]


def test_sizes_are_told_as_readers_take_them():
    """An exact decimal had twelve digits, and populations were a word of the code."""
    options = {"margin": 0.3, "max_error": 0.1, "fit_intercept": False}
    svm = plan("svm", n_features=10, mode="certified", **options).facts().text(details=True)
    assert re.search(r"weight of \|u\|\^2 / 2 +0\.00\d{3}\n", svm)
    dp = plan("dp", n_features=10, **options).facts().text(details=True)
    assert re.search(r"inverse temperature +\d+\n", dp)
    assert "populations with the margin" in dp
