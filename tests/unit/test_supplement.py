"""The page of an evaluation as a supplement: planned and measured, weights, data, checklist."""

import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import replearn as rl
from replearn.audits.evaluation import evaluate_file
from replearn.audits.report import in_prose, model_report
from replearn.audits.weights import weights_of

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from replearn.audits.evaluation_page import evaluation_report

pytestmark = pytest.mark.slow  # whole studies, planned and fitted

N = 4000


def draw(seed, n_rows=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(50, 13, n_rows), "dose": rng.normal(size=n_rows)})
    frame["sex"] = rng.choice(["female", "male"], n_rows)
    odds = 0.1 * (frame["age"] - 50) + frame["dose"] + 1.5 * (frame["sex"] == "male") - 1
    frame["label"] = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-odds)), "ill", "well")
    frame["label"] = frame["label"].map({"ill": "yes", "well": "no"})
    frame.loc[rng.random(n_rows) < 0.1, "dose"] = np.nan
    return frame


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("supplement")
    pilot = draw(0, 800)
    plan = rl.plan_from_pilot(
        pilot.drop(columns="label"),
        pilot["label"].to_numpy(),
        samples_per_site=N,
        hint_bits=4,
        target="label",
    )
    draw(1).to_csv(folder / "site.csv", index=False)
    draw(2).to_csv(folder / "new.csv", index=False)
    fitted = rl.fit_file(plan.protocol.estimator(), folder / "site.csv", "label")
    provenance = {"rows": N, "estimated_disagreement": "0.04", "worth": {"base_rates": ["0.4"]}}
    return folder, SimpleNamespace(
        model=fitted.model_, provenance=provenance, protocol=plan.protocol
    )


@pytest.fixture(scope="module")
def found(study):
    folder, about = study
    return evaluate_file(about.model, folder / "new.csv", "label", by="sex", describe=True)


@pytest.fixture(scope="module")
def page(found, study):
    return evaluation_report(found, "replearn evaluate a.json new.csv", **vars(study[1]))


def cells(page, table):
    body = page[page.index(f'<table id="{table}">') :]
    rows = re.findall(r"<tr>(.*?)</tr>", body[: body.index("</table>")], flags=re.DOTALL)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, flags=re.DOTALL) for row in rows]


def test_planned_and_measured_stand_side_by_side(page, found, study):
    rows = {row[0]: row[1:] for row in cells(page, "planned")}
    assert rows["AUC"] == [study[1].protocol.notes["expected_auc"], str(found.worth.auc)]
    assert rows["rows of the fit"] == ["4,000", "4,000"]
    assert rows["disagreement of two sites"][1].startswith("0.04 (estimated")


def test_weights_have_units_and_odds_ratios(page, found, study):
    weights = {weight.name: weight for weight in weights_of(study[1].model, found.spreads)}
    assert weights["age"].step == "10 more"
    assert weights["dose"].step in ("1 more", "0.1 more")
    # the population has 0.1 per year, so exp(1) for ten and exp(1.3) for a standard deviation
    assert weights["age"].odds_ratio(False) == pytest.approx(np.exp(1), rel=0.3)
    assert weights["age"].odds_ratio(True) == pytest.approx(np.exp(1.3), rel=0.35)
    assert weights["sex=male"].step == "having it"
    shown = cells(page, "weights")[1:]
    assert [row[0] for row in shown] == [
        weight.name for weight in sorted(weights.values(), key=lambda weight: -weight.size)
    ]
    assert float(shown[0][3]) == pytest.approx(
        next(iter(weights_of(study[1].model, found.spreads))).odds_ratio(True), rel=0.01
    )


def test_data_and_missing_values_are_described(page):
    rows = {row[0]: row[1:] for row in cells(page, "columns")}
    assert rows["sex"][0] == "category: female, male"
    assert rows["dose"][0] == "number, filled in if missing"
    assert 5 < float(rows["dose"][1].rstrip("%")) < 15
    assert dict(cells(page, "data"))["rows of the fit"] == "4,000"


def test_what_the_protocol_decided_is_told(page, study):
    facts = dict(cells(page, "decided"))
    assert facts["protocol"] == study[1].protocol.fingerprint
    assert "numbers: an intercept and the weights" in facts["left to the sites"]
    assert facts["rows of the pilot"] == "800"


def test_items_of_the_checklist_are_in_order(page):
    items = [row[0] for row in cells(page, "tripod")]
    numbers = [int(re.match(r"[0-9]+", item)[0]) for item in items]
    assert numbers == sorted(numbers)
    assert {"9a", "11, 20b", "22", "23a", "14, 23a"} <= set(items)


def test_no_page_shows_the_brackets_of_a_program(page, study):
    model = model_report(study[1].model, study[1].provenance, "replearn show a.json")
    for text in (page, model):
        words = re.sub(r"<svg.*?</svg>|<style>.*?</style>", "", text, flags=re.DOTALL)
        words = re.sub(r"<[^>]*>", " ", words)
        assert not re.search(r"array\(|np\.|\{&#39;|\[&#39;|None", words)
    assert in_prose([]) == "none"


def test_figures_can_be_heard(page):
    labels = re.findall(r'role="img" aria-label="([^"]*)"', page)
    assert len(labels) == 2
    assert all(len(label) > 80 for label in labels)


def test_models_without_odds_have_weights_too(tmp_path):
    X, y = rl.datasets.make_margin(3000, 3, margin=0.3, random_state=1)
    model = rl.ReplicableSVMClassifier(margin=0.3, batch_size=50).fit(X, y).model_
    np.savez(tmp_path / "new.npz", X=X, y=y)
    found = evaluate_file(model, tmp_path / "new.npz", describe=True)
    page = evaluation_report(found, "replearn evaluate", model)
    assert "added per standard deviation" in page
    assert "odds ratio" not in page
    assert 'id="decided"' not in page
    assert weights_of(model)[0].per_spread is None


@pytest.mark.parametrize("sparse", [False, True])
def test_spreads_are_those_of_the_rows(sparse, tmp_path):
    X, y = rl.datasets.make_margin(3000, 3, margin=0.3, random_state=1)
    model = rl.ReplicableSVMClassifier(margin=0.3, batch_size=50).fit(X, y).model_
    rows = sp.csr_array(X)
    parts = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": X.shape}
    np.savez(tmp_path / "new.npz", **(parts if sparse else {"X": X}), y=y)
    found = evaluate_file(model, tmp_path / "new.npz", describe=True)
    assert found.spreads == pytest.approx(X.std(axis=0, ddof=1), abs=1e-9)
