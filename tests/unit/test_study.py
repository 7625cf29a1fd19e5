"""Studies: what they hold, what they promise, and what a forger cannot make of them."""

import copy
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import replearn as rl
from replearn.datasets import load_readmission
from replearn.errors import InvalidFile, ReplearnError, ReplicabilityWarning
from replearn.glm import GLM, Between, GlmModel, GlmPromise
from replearn.glm import sketched as glm
from replearn.rows import copied_share
from replearn.study import GlmStudy, Request, RowEncoder, TableRows, publish, read_rows, replicate
from replearn.study.evidence import guess_bits
from replearn.study.placebo import placebo_matches
from replearn.tables import open_table

TARGET = "readmitted"


@pytest.fixture(scope="module")
def labs():
    return [load_readmission(centre, 3000) for centre in ("Ashford", "Birchwood")]


@pytest.fixture(scope="module")
def original(labs):
    return publish(open_table(labs[0], target=TARGET), Request(target=TARGET, ridge=0.003))


def table(frame: pd.DataFrame):
    return open_table(frame, target=TARGET)


def test_a_second_lab_gets_the_same_model_and_is_told_so(labs, original):
    model, found = replicate(original.study, table(labs[1]))
    assert found.same is True
    assert model == original.model
    assert found.apart == ()
    assert found.verdict == "confirmed"
    assert found.succeeded
    assert found.support.test.p_value > 0.01
    assert found.support.gain.low > 0
    assert str(found).startswith("The same model, and your patients support it.")
    assert 0 < found.evidence.rows < 3000
    assert 0 < found.evidence.bits < 20
    assert "no evidence" in str(found)
    assert found.performance.auc.value > 0.6


def weak_columns(seed):
    """A strong column, and two that hardly matter and have gaps."""
    rng = np.random.default_rng(seed)
    strong, age, dose = rng.normal(size=4000), rng.normal(60, 12, 4000), rng.lognormal(2, 0.5, 4000)
    died = rng.random(4000) < 1 / (1 + np.exp(1 - strong))
    gaps = rng.random((2, 4000)) < 0.3
    return pd.DataFrame(
        {
            "strong": strong,
            "age": np.where(gaps[0], np.nan, age),
            "dose": np.where(gaps[1], np.nan, dose),
            TARGET: died.astype(int),
        }
    )


@pytest.fixture(scope="module")
def weak_study():
    return publish(table(weak_columns(0)), Request(target=TARGET)).study


#: What a lab did to its columns, and those that must be looked at first.
MISHAPS = {
    "months": (lambda t: {"age": 12 * t["age"]}, ("age",)),
    "thousands": (lambda t: {"dose": 1000 * t["dose"]}, ("dose",)),
    "all missing": (lambda t: {"age": np.nan, "dose": np.nan}, ("age", "dose")),
    "all the same": (lambda t: {"dose": 7.0}, ("dose",)),
}


@pytest.mark.parametrize("name", MISHAPS)
def test_agreement_says_nothing_about_columns_that_are_dead_or_rescaled(weak_study, name):
    """A lab with ages in months was told: the same model, and your patients support it."""
    lab = weak_columns(1)
    assert replicate(weak_study, table(lab))[1].verdict == "confirmed"

    change, columns = MISHAPS[name]
    found = replicate(weak_study, table(lab.assign(**change(lab))))[1]
    assert found.same
    assert found.look_first == columns
    assert found.verdict == "questioned"
    assert not found.succeeded

    facts = found.facts()
    which = "this column" if len(columns) == 1 else "these columns"
    assert facts.verdict == f"The same model, but look at {which} first: {', '.join(columns)}."
    assert facts.values["look_first"] == list(columns)
    assert columns[0] in facts.told[0]
    assert "replearn update" not in str(found)  # it would fit the wrong columns


def test_the_order_of_columns_changes_no_p_value(labs):
    """Cells depend on it; the test of support does not."""
    p_values = []
    for columns in (labs[0].columns, labs[0].columns[::-1]):
        first = publish(table(labs[0][columns]), Request(target=TARGET, ridge=0.003))
        _, found = replicate(first.study, table(labs[1]), opened=first.model)
        p_values.append(found.support.test.p_value)
    assert p_values[0] == pytest.approx(p_values[1], rel=0.02)  # knots and triangles are rounded


def test_patients_that_contradict_the_model_are_heard(labs, original):
    """All columns but one permuted: wide cells may give the same codes, and nobody must say so."""
    other = labs[1].copy()
    rng = np.random.default_rng(1)
    for column in other.columns.drop([TARGET, "age"]):
        other[column] = rng.permutation(other[column].to_numpy())
    _, found = replicate(original.study, table(other), opened=original.model)
    assert found.support.contradicts
    assert found.verdict in ("contradicted", "different")
    assert not found.succeeded


def test_a_different_base_risk_alone_keeps_the_slopes(labs, original):
    """Half of the patients without the event are gone: the odds double, the slopes stay."""
    other = load_readmission("Birchwood", 9000)
    events = other[TARGET].astype(str) == sorted(other[TARGET].astype(str).unique())[1]
    kept = events | (np.random.default_rng(0).random(len(other)) < 0.25)
    _, found = replicate(original.study, table(other[kept]))
    assert found.same is False
    assert found.same_slopes is True
    assert found.verdict == "same slopes"
    assert "base risk" in str(found)
    assert found.support.ratio.value > 1.3 or found.support.ratio.value < 1 / 1.3


@pytest.mark.parametrize(("kept", "verdict"), [(0.55, "same slopes"), (0.9, "confirmed")])
def test_a_different_base_risk_in_the_same_cell_is_told(labs, original, kept, verdict):
    """1.4 times as many events as expected: same codes, but no support; 1.08 times are fine."""
    other = load_readmission("Birchwood", 9000)
    events = other[TARGET].astype(str) == sorted(other[TARGET].astype(str).unique())[1]
    here = other[events | (np.random.default_rng(0).random(len(other)) < kept)]
    _, found = replicate(original.study, table(here))
    assert found.same
    assert found.verdict == verdict
    assert found.succeeded == (verdict == "confirmed")
    if verdict == "confirmed":
        return

    assert found.support.ratio.low > 1.25
    assert "The same model, but the base risk is 1.4 times as high here." in str(found)
    assert "update MODEL TABLE --constant" in str(found)

    # with a constant of its own, nothing is left to tell; what centres showed excuses it, too
    request = Request(target=TARGET, constant="local")
    slopes = publish(table(labs[0]), request)
    assert replicate(slopes.study, table(here))[1].verdict == "confirmed"
    support = replace(found.support, centres_known=True)
    assert support.base_risk_differs == (support.test.p_constants < 0.01)


def test_labels_of_other_patients_are_no_slopes_up_to_a_factor(labs, original):
    """The factor would be 0: nobody is told that patients have the original's slopes."""
    permuted = labs[1].copy()
    permuted[TARGET] = np.random.default_rng(0).permutation(permuted[TARGET].to_numpy())
    _, found = replicate(original.study, table(permuted), original.model)
    assert found.support.test.p_factor > 0.05
    assert found.support.gain.high < 0
    assert "up to one factor" not in str(found)
    assert "Your patients contradict these columns: " in " ".join(str(found).split())


def test_what_centres_differ_by_excuses_no_part_that_makes_predictions_worse(labs):
    """Neither the strongest column, nor all others: the second leg is asked of both."""
    lenient = Request(target=TARGET, ridge=0.003, between=(0.2, 0.1), replication_rows=400)
    original = publish(table(labs[0]), lenient)

    rng = np.random.default_rng(0)
    here = labs[1]
    strongest = here.assign(prior_admissions=rng.permutation(here.prior_admissions))
    turned = {"I": "IV", "II": "III", "III": "II", "IV": "I"}
    spoiled = {
        "without prior_admissions": strongest,
        "prior_admissions alone": here.assign(nyha=here.nyha.map(turned)),
        "": here,
    }
    for worse_than, rows in spoiled.items():
        _, found = replicate(original.study, table(rows), original.model)
        assert found.support.p_value > 0.05
        assert found.support.gain.high > 0
        assert found.support.worse_than == worse_than
        assert found.succeeded == (worse_than == "")
        told = f"it is worse than {worse_than}" in " ".join(str(found).split())
        assert told == (worse_than != "")


def test_columns_fitted_to_chance_contradict_no_model():
    """Twenty of them and 300 rows: they make predictions worse everywhere."""
    rng = np.random.default_rng(1)

    def rows(n_rows):
        X = rng.normal(size=(n_rows, 21))
        y = (rng.random(n_rows) < 1 / (1 + np.exp(-1.2 * X[:, 0]))) * 1
        return open_table({f"x{j}": X[:, j] for j in range(21)}, target=y)

    original = publish(rows(300), Request(ridge=0.001, between=(0.2, 0.1)))
    _, found = replicate(original.study, rows(4000), original.model)
    strongest, others = found.support.parts
    assert strongest.part.name == "x0"
    assert others.gain.high < 0
    assert not others.is_harmful
    assert found.support.worse_than == ""


def test_slopes_that_are_half_as_strong_are_contradicted(labs, original):
    """One direction, lost in a sum over twenty columns of which centres may differ in each."""
    other = load_readmission("Birchwood", 6000)
    rng = np.random.default_rng(3)
    levels = sorted(other[TARGET].astype(str).unique())
    coin = np.where(rng.random(len(other)) < 0.185, levels[1], levels[0])
    other[TARGET] = np.where(rng.random(len(other)) < 0.5, coin, other[TARGET].astype(str))
    _, found = replicate(original.study, table(other), opened=original.model)
    assert found.support.line[1].high < 0.75
    assert found.support.rung == "factor"
    assert not found.succeeded
    assert "--slope" in str(found)


def test_the_study_holds_the_commitment_and_not_the_model(original, tmp_path):
    path = tmp_path / "study.json"
    original.study.save(path)
    assert GlmStudy.load(path) == original.study
    text = path.read_text()
    assert original.model.fingerprint in text
    assert '"codes"' not in text


def test_few_rows_are_told_their_own_chance(labs, original):
    few = labs[1].iloc[:60]
    _, found = replicate(original.study, table(few))
    assert found.disagreement > 0.1
    assert original.study.disagreement(3000) < 0.01
    assert found.same or "60 rows are few" in str(found)


def test_the_chance_of_few_rows_is_that_of_all_cells(original):
    study, rng = original.study, np.random.default_rng(0)
    for n_rows in (60, 120):
        upper = np.sqrt(study.widths / study.implied_widths)
        plan = study.plan(study.stated_spreads * upper, study.centres)
        ratios = study.widths / plan.sampling(n_rows)  # independent: exact
        residual = rng.uniform(-1, 1, (20_000, ratios.size)) * ratios / 2 ** (study.design.bits + 1)
        moved = rng.standard_normal((20_000, ratios.size)) + residual
        same = (np.abs(moved) < ratios / 2).all(axis=1).mean()
        assert 0 < same < 0.9
        assert 1 - study.disagreement(n_rows) == pytest.approx(same, abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("strength", "halved"), [(0.0, 2), (2.0, 0)])
def test_products_are_shrunk_unless_they_matter(strength, halved):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10))
    score = X[:, 0] + X[:, 3] + strength * X[:, 1] * X[:, 2]
    table = open_table(X, target=(rng.logistic(size=500) < score).astype(int))
    found = publish(table, Request(interactions="all"))
    assert found.study.design.encoding.products_halved == halved


def test_a_promise_to_small_labs_is_checked_on_many_small_parts(labs, monkeypatch):
    """Eight parts of 239 rows had a bounded fit where three of thirty labs had none."""
    sizes, fit = [], glm.fit
    monkeypatch.setattr(
        glm, "fit", lambda rows, *rest: sizes.append(rows.block.n_rows) or fit(rows, *rest)
    )
    rows = labs[0][[TARGET, "age", "sodium"]]
    request = Request(target=TARGET, ridge=0.01, replication_rows=100)
    publish(open_table(rows, target=TARGET), request)
    small = [size for size in sizes if size < 200]
    assert len(small) == 2 * (len(rows) // 200)
    assert np.mean(small) == pytest.approx(100, abs=10)


def test_a_different_population_is_a_finding(labs, original):
    other = labs[1].copy()
    other[TARGET] = np.random.default_rng(0).permutation(other[TARGET].to_numpy())
    other["age"] = other["age"] * 12
    model, found = replicate(original.study, table(other))
    assert found.same is False
    assert any(finding.column == "age" and "12" in finding.sentence for finding in found.findings)
    _, opened = replicate(original.study, table(other), opened=original.model)
    assert opened.support.test.p_value < 1e-5
    assert opened.verdict == "different"
    assert model != original.model


def test_an_opened_model_must_be_the_committed_one(labs, original):
    codes = original.model.codes.copy()
    codes[3] += 1
    with pytest.raises(ReplearnError, match="commits to"):
        replicate(original.study, table(labs[1]), opened=GlmModel(original.study.design, codes))


def test_a_sealed_study_tells_nothing_until_it_is_opened(labs):
    request = Request(target=TARGET, ridge=0.003, sealed=True)
    first = publish(table(labs[0]), request)
    assert first.study.commitment != first.model.fingerprint
    model, blind = replicate(first.study, table(labs[1]))
    assert blind.same is None
    assert blind.verdict == "untold"
    assert not blind.evidence.is_open
    assert first.study.commits_to(model.fingerprint, first.nonce) is True
    _, opened = replicate(first.study, table(labs[1]), opened=[first.model, first.opening])
    assert opened.same is True
    assert first.study.commits_to(model.fingerprint, "0" * 32) is False
    with pytest.raises(ReplearnError, match="needs its opening"):
        replicate(first.study, table(labs[1]), opened=model)
    with pytest.raises(ReplearnError, match="commits to"):
        replicate(first.study, table(labs[1]), opened=replace(first.opening, nonce="0" * 32))


def test_a_study_without_a_promise_is_not_published(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    with pytest.warns(ReplicabilityWarning, match="too few"):
        fitted = rl.ReplicableLogisticClassifier().fit(X, y)
    with pytest.raises(ReplearnError, match="not published"):
        fitted.study_.save(tmp_path / "study.json")
    assert not (tmp_path / "study.json").exists()


def test_registered_studies_have_no_first_lab(labs):
    pilot = load_readmission("Castleton", 1000)
    study = rl.register_study(
        pilot.drop(columns=TARGET), pilot[TARGET], replication_rows=3000, target=TARGET
    )
    assert study.design.bits == 0
    assert study.commitment is None
    (one, found), (two, _) = (replicate(study, table(lab)) for lab in labs)
    assert found.same is None
    assert one.design == two.design


# --- a forger's suite: each study is hashed anew ----------------------------------------------


def scale(texts, factor):
    return [f"{float(text) * factor:.3g}" for text in texts]


def forged(original, change):
    content = copy.deepcopy(json.loads(original.study.canonical_bytes()))
    change(content)
    return content


REFUSED = {
    "wide cells": lambda c: c["design"].update(widths=scale(c["design"]["widths"], 100)),
    "narrow cells": lambda c: c["design"].update(widths=scale(c["design"]["widths"], 0.01)),
    "spreads": lambda c: c.update(spreads=scale(c["spreads"], 100)),
    "rows of the original": lambda c: c.update(n_original=50),
    "rows of a replication": lambda c: c.update(n_replication=20),
    "no disagreement": lambda c: c.update(max_disagreement="0"),
    "nearly no disagreement": lambda c: c.update(max_disagreement="1e-12"),
    "fewer bits": lambda c: c["design"].update(bits=1),
    "no bits": lambda c: c["design"].update(bits=0),
    "a sketch beyond its bits": lambda c: c["design"]["sketch"].__setitem__(0, 256),
    "a short sketch": lambda c: c["design"]["sketch"].pop(),
    "no sketch": lambda c: c["design"].pop("sketch"),
    "no commitment": lambda c: c.pop("commitment"),
    "a seal without a commitment": lambda c: (c.pop("commitment"), c.update(sealed=True)),
    "a singular triangle": lambda c: c["design"]["coordinates"]["columns"][2].__setitem__(2, 0),
    "a short triangle": lambda c: c["design"]["coordinates"]["columns"].pop(),
    "three classes": lambda c: c["design"].update(classes=[0, 1, 2]),
    "one class": lambda c: c["design"].update(classes=[0]),
    "a loss of numbers": lambda c: c["design"].update(loss={"kind": "poisson", "cap_bits": 3}),
    "directions": lambda c: c["design"].update(directions=[[1, 2]]),
    "a level twice": lambda c: c["design"]["encoding"]["columns"].append(
        c["design"]["encoding"]["columns"][0]
    ),
    "a profile of other columns": lambda c: c["profile"]["columns"].pop(),
    "a profile of fewer levels": lambda c: next(
        column for column in c["profile"]["columns"] if column["kind"] == "levels"
    )["shares"].pop(),
    "a profile of fewer quantiles": lambda c: next(
        column for column in c["profile"]["columns"] if column["kind"] == "number"
    )["quantiles"].pop(),
    "a profile of more classes": lambda c: c["profile"]["target"].append("0"),
    "a profile of other names": lambda c: c["profile"]["columns"][0].update(name="other"),
    "an unknown key": lambda c: c.update(note="worth 40 bits"),
    "a real where text belongs": lambda c: c["design"].update(ridge=0.003),
    "an infinite ridge": lambda c: c["design"].update(ridge="1e999"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_studies_whose_parts_do_not_fit_together_are_refused(original, name):
    with pytest.raises(InvalidFile):
        GlmStudy.from_content(forged(original, REFUSED[name]))


def wide(factor):
    def change(content):
        content["design"]["widths"] = scale(content["design"]["widths"], factor)
        content["spreads"] = scale(content["spreads"], factor)

    return change


def heavy(content):
    content["design"]["ridge"] = "1000"


def blind(content):
    for column in content["design"]["encoding"]["columns"]:
        if column["kind"] == "number":
            column["spread"], column["knots"] = "1e+90", []


def coarse(content):
    columns = content["design"]["coordinates"]["columns"]
    columns[:] = [[value // 100 or 1 for value in column] for column in columns]


def lopsided(content):
    content["design"]["class_weight"] = ["0.001", "1000"]


@pytest.mark.parametrize("change", [wide(300), heavy, blind, coarse, lopsided])
def test_studies_for_which_any_labels_will_do_are_found_out(labs, original, change):
    """Honest, inverted and coin-flip labels may give one model: nobody is told that it proves much.

    Whoever compares such models is told so, too.
    """
    study = GlmStudy.from_content(forged(original, change))
    coins, inverted = labs[1].copy(), labs[1].copy()
    coins[TARGET] = np.random.default_rng(1).permutation(coins[TARGET].to_numpy())
    inverted[TARGET] = 1 - inverted[TARGET]
    runs = [replicate(study, table(lab)) for lab in (labs[1], coins, inverted)]
    (honest, found), *others = runs
    if any(model == honest for model, _ in others):
        text = found.evidence.words() + " ".join(finding.sentence for finding in found.findings)
        assert "no evidence" in text or "count nothing" in text
        assert "no evidence" in str(rl.compare(honest, honest, study=study))


def rows_of(study, lab):
    return TableRows(table(lab), RowEncoder.of(study.design))


def test_a_study_that_coin_flips_replicate_is_exposed(labs, original):
    """Cells are wide, by centres that are said to differ, and the model's numbers far from 0."""
    content = forged(original, lambda c: c.update(between=["2"] * len(c["between"])))
    between = Between(np.full(len(content["between"]), 2.0), content["n_centres"])
    promise = GlmPromise(float(content["max_disagreement"]), 8, 3000, 3000)
    widths = GLM.sizes(promise, np.array(content["spreads"], dtype=float), between).widths
    content["design"]["widths"] = [f"{width * 1.05:.3g}" for width in widths]
    bait = GlmStudy.from_content(content)

    cells = bait.design.cells
    sketch = np.floor((cells.shifts - 0.45) % 1 * 256).astype(np.int64)
    design = replace(bait.design, sketch=sketch)
    model = GlmModel(design, design.codes(np.zeros((1, design.n_numbers))))
    slopes = model.without_constants.fingerprint
    study = replace(bait, design=design, commitment=model.fingerprint, slopes_commitment=slopes)
    assert np.median(np.abs(model.theta)) > 4
    assert study.evidence(model).is_weak  # the first guess is that no column matters

    coins = labs[1].copy()
    coins[TARGET] = np.random.default_rng(2).permutation(coins[TARGET].to_numpy())
    for lab in (coins, labs[1]):
        _, found = replicate(study, table(lab))
        assert found.same
        assert found.verdict == "contradicted"
        assert "A match is no evidence" in str(found)
        assert placebo_matches(study, model, read_rows(rows_of(study, lab)))
    honest = read_rows(rows_of(original.study, labs[1]))
    assert not placebo_matches(original.study, original.model, honest)


def test_a_replication_tries_permuted_labels():
    """An offset may hold all that a model undoes: coin flips match, in narrow cells.

    Nothing else is odd about such a study: the fit with permuted labels alone exposes it.
    """

    def coin_flips(seed):
        rng = np.random.default_rng(seed)
        columns = {f"x{k}": rng.normal(size=3000) for k in range(6)}
        offset = sum((-1) ** k * (1 + k / 3) * column for k, column in enumerate(columns.values()))
        died = rng.integers(0, 2, 3000)
        frame = pd.DataFrame({**columns, "off": offset, TARGET: died})
        return open_table(frame, target=TARGET, offset="off")

    request = Request(target=TARGET, ridge=0.001, offset="off", between=0)
    study = publish(coin_flips(0), request).study
    found = replicate(study, coin_flips(1))[1]
    assert found.same
    assert found.evidence.bits > 20
    assert found.evidence.placebo
    assert "give this model with permuted labels, too" in " ".join(str(found).split())


def test_crafted_levels_that_hold_for_every_row_stop_the_fit(labs, original):
    """Columns that are 1 for everybody would make the base rate look like a model."""

    def change(content):
        for column in content["design"]["encoding"]["columns"]:
            if column["kind"] == "levels":
                column["reference"] = "z"
                column["levels"] = ["(other)", *(f"z{i}" for i in range(len(column["levels"]) - 1))]

    with pytest.raises(ReplearnError, match="levels that the study does not know"):
        replicate(GlmStudy.from_content(forged(original, change)), table(labs[1]))


def test_models_of_different_studies_are_not_compared_as_the_same(original):
    """Equal codes under a design that says something else; a study that is not theirs."""
    other = GlmStudy.from_content(forged(original, lambda c: c["design"].update(ridge="0.00299")))
    twin = GlmModel(other.design, original.model.codes)
    found = rl.compare(original.model, twin)
    assert not found.same
    assert str(found).startswith("Models of different studies")
    with pytest.raises(ReplearnError, match="study"):
        rl.compare(original.model, original.model, study=other)


def test_rows_that_come_in_parts_give_the_same_bytes(labs, original):
    X, y = labs[1].drop(columns=TARGET), labs[1][TARGET]
    whole = rl.ReplicableLogisticClassifier(study=original.study).fit(X, y)
    parts = rl.ReplicableLogisticClassifier(study=original.study)
    for start in range(0, 3000, 1000):
        parts.partial_fit(X.iloc[start : start + 1000], y.iloc[start : start + 1000])
    assert parts.fingerprint_ == whole.fingerprint_
    assert parts.replication_.n_rows == 3000
    assert not hasattr(rl.ReplicableLogisticClassifier(), "partial_fit")


def test_columns_that_name_persons_are_not_published(labs, tmp_path):
    named = labs[0].assign(patient=[f"P{number:05d}" for number in range(3000)])
    with pytest.warns(ReplicabilityWarning, match="patient"):
        fitted = rl.ReplicableLogisticClassifier(ridge=0.003).fit(
            named.drop(columns=TARGET), named[TARGET]
        )
    with pytest.raises(ReplearnError, match=r"drop=\['patient'\]"):
        fitted.study_.save(tmp_path / "study.json")


def test_levels_of_few_persons_are_folded_however_many_rows_they_have():
    rng = np.random.default_rng(3)
    rare = np.array(["rare"] * 10 + ["often"] * 390, dtype=object)
    table = pd.DataFrame({"x": rng.normal(size=400), "kind": rare})
    y = (rng.random(400) < 0.5).astype(int)
    times, persons = np.repeat(np.arange(400), 5), np.repeat(np.arange(400).astype(str), 5)

    def levels(groups):
        source = open_table(table.iloc[times], target=y[times], groups=groups)
        columns = publish(source, Request(ridge=0.1)).study.design.encoding.columns
        return [column.name for column in columns]

    assert levels(None) == ["x", "kind"]  # 50 rows
    assert levels(persons) == ["x"]  # of ten persons


@pytest.mark.parametrize("width", [0.8, 1.5, 4.0])
def test_guesses_are_those_of_a_search_by_probability(width, seeds):
    """All code vectors of four numbers, sorted by their probability: the place of the true one."""
    rng = np.random.default_rng(seeds(1)[0])
    numbers = rng.normal(size=4)
    widths, offsets = width * rng.uniform(0.8, 1.2, 4), rng.uniform(-0.5, 0.5, 4)
    scale = np.sqrt(np.mean(numbers**2))
    codes = np.arange(-12, 13)
    logs = []
    for one, off in zip(widths / scale, offsets, strict=True):
        centre = (codes - off) * one
        mass = stats.norm.cdf(centre + one / 2) - stats.norm.cdf(centre - one / 2)
        logs.append(np.log(np.maximum(mass, 1e-300)))
    total = logs[0][:, None, None, None] + logs[1][:, None, None] + logs[2][:, None] + logs[3]
    true = tuple(np.rint(numbers / widths + offsets).astype(int) + 12)
    place = int((total > total[true]).sum()) + 1
    found = 2 ** guess_bits(widths, offsets, numbers)
    assert place / 1.3 <= found <= 1.3 * place + 1


def test_many_guesses_are_counted_and_not_run(seeds):
    """Where both are possible they agree; a model of a hundred numbers takes no time."""
    rng = np.random.default_rng(seeds(1)[0])
    numbers = rng.normal(size=100)
    few, many = (guess_bits(np.full(100, w), np.zeros(100), numbers) for w in (8.0, 1.0))
    assert few < 20 < many < 300


def test_heavy_weights_behind_a_single_coefficient_are_told():
    """All rows count as 150 of equal weight; those of a rare level as a few, and labs differ."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=4000), "rare": (rng.random(4000) < 0.03) * 1.0})
    frame[TARGET] = (rng.random(4000) < 1 / (1 + np.exp(1 - frame["x"]))).astype(int)

    def problems(weights):
        weighted = open_table(frame.assign(w=weights), target=TARGET, weights="w")
        return publish(
            weighted, Request(target=TARGET, weights="w", ridge=0.01)
        ).certificate.problems

    assert not any("unequal" in one for one in problems(rng.uniform(0.5, 1.5, 4000)))
    heavy = problems(rng.lognormal(0, 1.8, 4000))
    assert any("the coefficient of 'rare' rests on" in one for one in heavy)


def test_few_rows_of_a_rare_level_are_no_fault_of_the_weights():
    """A census with survey weights was refused for 16 people of one country."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.normal(size=4000), "born": np.where(range(4000), "here", "")})
    frame.loc[rng.choice(4000, 24, replace=False), "born"] = "far"
    frame[TARGET] = (rng.random(4000) < 1 / (1 + np.exp(1 - frame["x"]))).astype(int)

    def problems(weights):
        weighted = open_table(frame.assign(w=weights), target=TARGET, weights="w")
        request = Request(target=TARGET, weights="w", ridge=0.01)
        return publish(weighted, request).certificate.problems

    assert not any("unequal" in one for one in problems(rng.uniform(0.5, 1.5, 4000)))
    heavy = problems(np.where(frame["born"] == "far", rng.lognormal(0, 2, 4000), 1.0))
    assert any("the coefficient of 'born = far' rests on" in one for one in heavy)


@pytest.mark.slow
def test_too_many_dense_columns_are_refused_before_the_fit():
    """10,000 of them hung."""
    X = np.random.default_rng(0).normal(size=(120, 5001))
    with pytest.raises(ReplearnError, match="at most 5,000 dense columns"):
        rl.ReplicableLogisticClassifier().fit(X, (X[:, 0] > 0).astype(int))


def test_nothing_is_sealed_without_bits():
    with pytest.raises(ReplearnError, match="there is no commitment to hide"):
        Request(sealed=True, sketch_bits=0).check()


def test_a_weak_model_may_beat_the_base_rate_for_certain():
    """Row by row: the log-loss alone is as uncertain as the number of events."""
    from replearn.glm import Bernoulli
    from replearn.study import Performance

    rng = np.random.default_rng(5)
    x = rng.normal(size=4000)
    died = (rng.logistic(size=4000) < 0.3 * x - 2).astype(float)
    worth = Performance.of(Bernoulli(), (0.3 * x - 2)[:, None], died)
    assert worth.loss.high > worth.base  # the loss's own interval would not show it
    assert worth.gain.low > 0
    assert worth.gain.value == pytest.approx(worth.base - worth.loss.value)

    noise = Performance.of(Bernoulli(), (0.3 * rng.permutation(x) - 2)[:, None], died)
    assert noise.gain.low < 0


def test_a_table_that_holds_its_rows_twice_is_told(labs, original):
    twice = pd.concat([labs[1], labs[1]])
    told = [f.sentence for f in replicate(original.study, table(twice))[1].findings]
    assert any("every row occurs at least twice" in sentence for sentence in told)
    assert not replicate(original.study, table(labs[1]))[1].findings

    # a quarter of them, too
    some = pd.concat([labs[1], labs[1].head(len(labs[1]) // 4)])
    told = [f.sentence for f in replicate(original.study, table(some))[1].findings]
    assert any("20% of the rows occur again" in sentence for sentence in told), told

    # rows of few kinds are alike by nature
    rng = np.random.default_rng(2)
    few = {"a": rng.integers(0, 2, 3000).astype(float), "b": rng.choice(list("xyz"), 3000)}
    labels = (rng.random(3000) < 0.3).astype(int)
    study = publish(open_table(few, target=labels), Request()).study
    assert not replicate(study, open_table(few, target=labels))[1].findings


@pytest.mark.parametrize("n_kinds", [300, 3000, 10_000])
@pytest.mark.parametrize("steepness", [0.0, 0.5, 1.0])
def test_rows_that_are_alike_by_chance_are_no_copies(n_kinds, steepness):
    """Of rows that chance makes alike some are three: also where all kinds are as frequent."""
    rng = np.random.default_rng([n_kinds, int(2 * steepness)])
    shares = np.arange(1, n_kinds + 1.0) ** -steepness
    n_asked = sum(
        copied_share(rng.choice(n_kinds, n_rows, p=shares / shares.sum())) > 0
        for n_rows in (60, 200, 600, 2000, 6000)
        for _ in range(60)
    )
    assert n_asked <= 1
