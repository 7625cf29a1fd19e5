"""Coalitions: the model of all rows from sums, and what is refused."""

from dataclasses import replace
from functools import partial, reduce
from operator import add

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from replearn.errors import InvalidFile, ReplearnError
from replearn.glm import GlmModel, newton, unpacked
from replearn.study import (
    Coalition,
    GlmStudy,
    LabSums,
    PooledFit,
    Request,
    State,
    combine,
    lab_shares,
    lab_sums,
    publish,
    register_study,
    replicate,
)
from replearn.tables import open_table

KINDS = ("logistic", "classes", "linear", "poisson", "weights", "balanced")


def hospital(n_rows: int, seed: int, kind: str = "logistic") -> pd.DataFrame:
    """Patients of one population."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": np.round(rng.normal(60, 12, n_rows)),
            "pulse": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(80, 10, n_rows)),
            "ward": rng.choice(["A", "B", "C"], n_rows, p=[0.5, 0.3, 0.2]),
        }
    )
    score = (table.age - 60) / 12 + (table.ward == "B") * 0.8
    if kind == "linear":
        table["y"] = np.round(score + rng.normal(size=n_rows), 3)
    elif kind == "poisson":
        table["y"] = rng.poisson(np.exp(0.4 * score))
    elif kind == "classes":
        table["y"] = rng.choice(["x", "y", "z"], n_rows)
        table.loc[score + rng.logistic(size=n_rows) > 0, "y"] = "x"
    else:
        table["y"] = (score + rng.logistic(size=n_rows) > 0.7).astype(int)
    if kind == "weights":
        table["w"] = rng.choice([0.0, 0.3, 1.0, 2.5], n_rows)
    return table


def published(kind: str) -> tuple[GlmStudy, GlmModel]:
    table = hospital(3000, 1, kind)
    weights = "w" if kind == "weights" else None
    glm = kind if kind in ("linear", "poisson") else "logistic"
    request = Request(
        kind=glm,  # type: ignore[arg-type]
        ridge=0.01,
        weights=weights,
        class_weight="balanced" if kind == "balanced" else None,
    )
    found = publish(open_table(table, target="y", weights=weights), request)
    return found.study, found.model


@pytest.fixture(scope="module", params=KINDS)
def case(request):
    study, model = published(request.param)
    return request.param, study, model


@pytest.fixture(scope="module")
def plain():
    return published("logistic")


@pytest.fixture(scope="module")
def labs():
    rows = hospital(3000, 2)
    return {"Bern": rows[:700], "Oslo": rows[700:1900], "Rome": rows[1900:]}


def rounds(study, labs, state=None, through_files=False, **given):
    """All rounds of a coalition; the last sums and their state too."""
    found = study.begin() if state is None else state
    while isinstance(found, State):
        asked = found
        sums = [lab_sums(study, rows, asked, lab=lab) for lab, rows in labs.items()]
        if through_files:
            sums = [LabSums.from_content(one.content()) for one in sums]
            asked = State.from_content(asked.content())
        found = combine(study, *sums, state=asked, **given)
    return found, sums, asked


def state_after(study, labs, n_rounds):
    state = study.begin()
    for _ in range(n_rounds):
        sums = [lab_sums(study, rows, state, lab=lab) for lab, rows in labs.items()]
        state = combine(study, *sums, state=state)
    return state


# --- the same bits ------------------------------------------------------------------------------


def test_a_coalition_has_the_model_of_all_rows(case):
    kind, study, _ = case
    rows = hospital(2500, 2, kind)
    parts = {"Bern": rows[:700], "Oslo": rows[700:1500], "Rome": rows[1500:]}
    found, _, _ = rounds(study, parts, through_files=True)
    weights = "w" if kind == "weights" else None
    expected, replication = replicate(study, open_table(rows, target="y", weights=weights))
    assert isinstance(found, Coalition)
    assert found.model.fingerprint == expected.fingerprint
    assert found.replication.same == replication.same
    assert found.replication.n_rows == replication.n_rows
    shares = [(lab.rows / replication.n_rows, lab.landed.positions) for lab in found.labs]
    centre = sum(share * positions for share, positions in shares)
    if found.replication.same and weights is None:  # the mean lies where all rows lie
        assert np.allclose(centre, found.replication.positions, atol=0.15)
    assert "Oslo" in found._repr_html_()


def test_labs_with_many_classes_take_few_rounds():
    """They sum up all pairs of scores; one table has a matrix of each class, and more passes."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(rng.normal(size=(4000, 12)), columns=[f"x{i}" for i in range(12)])
    rows["y"] = [f"kind {kind}" for kind in rng.integers(0, 8, 4000) + 2 * (rows.x0 > 0.5)]
    study = publish(open_table(rows[:2000], target="y"), Request(ridge=0.01)).study
    parts = {"Bern": rows[2000:2700], "Oslo": rows[2700:3300], "Rome": rows[3300:]}

    found, _, state = rounds(study, parts, through_files=True)
    assert state.newton.behind.form == "pairs"
    assert state.newton.behind.n_steps <= 3
    expected, _ = replicate(study, open_table(rows[2000:], target="y"))
    assert found.model.fingerprint == expected.fingerprint


@pytest.mark.parametrize("n_parts", [1, 3, 8])
def test_parts_of_rows_add_up(plain, n_parts):
    study, _ = plain
    rows = hospital(1000, 3)
    table = pa.Table.from_pandas(rows, preserve_index=False)
    size = -(-len(rows) // n_parts)
    state = state_after(study, {"all": rows}, 2)
    parts = [
        study.sums(table.slice(start, size).to_batches(max_chunksize=97), state)
        for start in range(0, len(rows), size)
    ]
    shuffled = [rows.sample(frac=1, random_state=0), rows[:0]]
    whole = study.sums(shuffled, state)
    total = reduce(add, [*parts, study.sums([], state)])
    assert LabSums.of(study, "a", total).canonical_bytes() == (
        LabSums.of(study, "a", whole).canonical_bytes()
    )


def test_one_round_from_an_opened_model(plain, labs):
    study, model = plain
    found, _, state = rounds(study, labs, study.begin(model), through_files=True)
    several, _, _ = rounds(study, labs)
    assert state.asks == "one step"
    assert found.model.fingerprint == several.model.fingerprint


def test_one_round_says_where_it_is_not_enough(plain, labs):
    study, model = plain
    others = {lab: rows.assign(y=1 - rows.y) for lab, rows in labs.items()}
    with pytest.raises(ReplearnError, match="Take several rounds"):
        rounds(study, others, study.begin(model))


def test_sums_grow_beyond_int64():
    study, _ = published("linear")
    rows = hospital(500, 3, "linear")
    state = state_after(study, {"all": rows}, 1)
    part = study.sums([rows], state)
    total = part
    for _ in range(40):
        total = total + total
    doubled = LabSums.from_content(LabSums.of(study, "a", total).content() | {"rows": 500})
    assert (doubled.sums.values["gradient"] == part.values["gradient"] * 2**40).all()
    assert max(map(abs, doubled.sums.values["information"].flat)) > 2**63


# --- what sums tell about patients --------------------------------------------------------------


def patient_of(study, sums, term):
    """The encoded row of the only patient with a term, from sums alone."""
    found = sums.values
    line = unpacked(found["information"], found["gradient"].shape[1])[0][1 + term]
    return np.rint(line[1:].astype(float) / float(line[1 + term]) * 2**12).astype(int)


def encoded(study, rows):
    table = open_table(rows, columns=study.design.encoding.names)
    return np.concatenate([study.design.encoding.encode(batch) for batch in table.batches()])


def with_one(rows, **values):
    """Rows of which one alone has some values."""
    rows = rows.reset_index(drop=True)
    for name, value in values.items():
        others = next(x for x in rows[name] if x == x and x != value)
        rows.loc[rows[name] == value, name] = others
        rows.loc[0, name] = value
    return rows


def test_a_level_of_one_patient_is_that_patient_and_is_not_sent(plain):
    study, model = plain
    rows = with_one(hospital(800, 6), ward="C")
    for state in (study.begin(model), state_after(study, {"Oslo": hospital(3000, 2)}, 2)):
        state = replace(
            state, counts=None, newton=replace(state.newton, sample_threshold=1 << 32, behind=None)
        )
        sums = study.sums([rows], state)
        place = study.design.encoding.term_names.index("ward = C")
        guess, patient = patient_of(study, sums, place), encoded(study, rows)[0]
        assert np.abs(guess - patient).max() <= 8  # the matrix has a coarser grid
        with pytest.raises(ReplearnError, match=r"show single patients.*'ward = C'"):
            lab_sums(study, rows, state)
    assert lab_sums(study, hospital(800, 6), study.begin(model)).rows == 800
    assert lab_sums(study, rows[1:], study.begin(model)).rows == 799  # nobody of the level is fine


def test_a_single_event_is_a_patient_and_is_not_sent(plain):
    study, _ = plain
    rows = with_one(hospital(800, 6), y=1)
    rows.loc[1:, "y"] = 0
    state = study.step(study.sums([rows], study.begin()), study.begin())
    state = replace(state, newton=replace(state.newton, sample_threshold=1 << 32))
    values = study.sums([rows], state).values  # at the constant model all rows have one curvature
    line = unpacked(values["information"], values["gradient"].shape[1])[0][0].astype(float)
    rate = 1 / 800
    all_rows = line / line[0] * 800
    gradient = values["gradient"][0].astype(float) / 2.0**34
    guess = np.rint((all_rows * rate - gradient)[1:] * 2**12)
    assert np.abs(guess - encoded(study, rows)[0]).max() < 300
    with pytest.raises(ReplearnError, match="'y = 1'"):
        lab_sums(study, rows)


@pytest.mark.parametrize("least", [2, 10, 60])
def test_few_rows_of_a_term_in_a_class_are_not_sent(plain, least):
    rows = hospital(800, 6)
    chosen = rows[(rows.ward == "C") & (rows.y == 1)].index
    for n_left, refused in ((0, False), (1, True), (least - 1, True), (least, False)):
        some = rows.drop(chosen[n_left:])
        words = ""
        try:
            lab_sums(plain[0], some, least_count=least)
        except ReplearnError as error:
            words = str(error)
        assert ("'ward = C and y = 1'" in words) == refused
        assert (f"at least {least} rows" in words) or not refused


def test_rows_without_a_term_of_their_own_are_counted_too(plain):
    """The level that others are compared with, a matrix of some rows, rare numbers and targets."""
    study, model = plain
    reference = study.design.encoding.columns[2].reference
    for rows, words in (
        (with_one(hospital(800, 6), ward=reference), f"ward = {reference}"),
        (hospital(800, 6).assign(age=[75.0] * 3 + [60.0] * 797), "age, number 2"),
        (hospital(800, 6).assign(age=[75.0, 74, 73] + [60.0] * 797), "age, not usual"),
        (hospital(800, 6).assign(pulse=[np.nan] * 797 + [80.0] * 3), "pulse not missing"),
    ):
        with pytest.raises(ReplearnError, match=words):
            lab_sums(study, rows, study.begin(model))
    counts, _ = published("poisson")
    with pytest.raises(ReplearnError, match="y, number 2"):
        lab_sums(counts, hospital(800, 6, "poisson").assign(y=[2.0] * 4 + [0.0] * 796))
    state = state_after(study, {"all": hospital(3000, 2)}, 1)
    rows = hospital(800, 6)
    few = rows.drop(rows[rows.ward == "C"].index[24:])
    some = replace(state, newton=replace(state.newton, sample_threshold=1 << 30))
    assert lab_sums(study, few, study.begin(model)).rows == len(few)
    with pytest.raises(ReplearnError, match="'ward = C"):
        lab_sums(study, few, some)


def test_ends_of_splines_and_products_are_counted():
    table = hospital(3000, 1)
    request = Request(ridge=0.01, basis="splines", interactions=[("ward", "age")])
    study = publish(open_table(table, target="y"), request).study
    rows = hospital(1500, 6)
    assert lab_sums(study, hospital(3000, 6)).rows == 3000
    column = study.design.encoding.columns[0]
    with pytest.raises(ReplearnError, match=f"age > {column.knots[-1]}"):
        lab_sums(study, rows.assign(age=[90.0, 90.0] + [50.0, 55, 60, 65] * 374 + [50, 55]))


def test_few_cells_count_as_none(plain):
    rows = hospital(800, 6).assign(
        age=[300.0] * 3 + [60.0, 61, 62, 63, 64, 65, 66] * 113 + [60] * 6
    )
    sums = lab_sums(plain[0], rows)
    assert sums.cells[3, 0] == 0  # three were clipped
    assert sums.cells[0, 1] >= 10


def at_coefficients(study, rows, *theta):
    """A round that asks for sums of all rows at coefficients that somebody has chosen."""
    state = state_after(study, {"all": rows}, 1)
    chosen = np.array([theta]) * 2.0**26
    newton = replace(state.newton, theta=chosen, sample_threshold=1 << 32, behind=None)
    return replace(state, counts=None, newton=newton)


def test_a_narrow_spread_singles_out_nobody(plain):
    """A made-up study clips all ages but two, and its coefficients leave one of them."""
    rows = hospital(800, 6)
    rows["age"] = np.where(np.arange(800) % 2, 40.0, 70.0) + np.arange(800) / 100
    rows.loc[[3, 4], "age"] = [55.0, 55.03]
    content = plain[0].content()
    content["design"]["encoding"]["columns"][0] |= {"centre": "55", "spread": "0.01"}
    study = GlmStudy.from_content(content)
    state = at_coefficients(study, hospital(3000, 2), 0, 31, 0, 0, 0, 0)

    sums = study.sums([rows], state).values
    line = unpacked(sums["information"], sums["gradient"].shape[1])[0][0].astype(float)
    guess = np.rint(line / line[0] * 4096)[1:]
    assert np.abs(guess - encoded(study, rows)[3]).max() <= 8
    with pytest.raises(ReplearnError, match="'age, not clipped'"):
        lab_sums(study, rows, state)


def test_coefficients_that_single_out_a_row_are_refused(plain):
    """All rows but one lie far on the right side of the coefficients: the gradient is that row."""
    study, model = plain
    rows = hospital(800, 6)
    old = np.arange(800) % 2 == 0
    rows["age"] = np.where(old, 80.0, 40.0) + np.arange(800) % 7
    rows["y"] = old.astype(int)
    rows.loc[4, "y"] = 0
    state = at_coefficients(study, hospital(3000, 2), 0, 31, 0, 0, 0, 0)

    gradient = study.sums([rows], state).values["gradient"][0].astype(float) / 2.0**22
    assert np.abs(gradient[1:] - encoded(study, rows)[4]).max() < 8
    with pytest.raises(ReplearnError, match="a few rows outweigh all others"):
        lab_sums(study, rows, state)
    assert lab_sums(study, rows, study.begin(model)).rows == 800


def test_coefficients_that_single_out_a_row_of_a_term_are_refused(plain):
    """Those of ward B are far on one side, but for one: in a total of shares it would be seen."""
    study, model = plain
    rows = hospital(800, 6)
    column = study.design.encoding.columns[0]
    centre, spread = round(float(column.centre)), float(column.spread)
    in_b = rows["ward"] == "B"
    rows.loc[in_b, "age"] = centre + (rows["age"] - centre).abs()
    alone = int(np.flatnonzero(in_b)[0])
    rows.loc[alone, "age"] = centre - spread
    state = at_coefficients(study, hospital(3000, 2), 0, 31, 0, 0, 31, 0)

    sums = study.sums([rows], state).values
    matrix = unpacked(sums["information"], sums["gradient"].shape[1])[0].astype(float)
    guess = np.rint(matrix[4] / matrix[4, 0] * 4096)[1:]
    assert np.abs(guess - encoded(study, rows)[alone]).max() <= 64
    labs = ["a", "b", "c"]
    for answer in (lab_sums, partial(lab_shares, labs=labs)):
        with pytest.raises(ReplearnError, match="a few rows outweigh all others"):
            answer(study, rows, state, lab="a")
    assert set(lab_shares(study, rows, study.begin(model), lab="a", labs=labs)) == set(labs)


def test_rounds_that_differ_by_a_row_are_refused(plain):
    """Of two steep rounds without a matrix the gradients differ by the patient between them."""
    rows = hospital(800, 6)
    rows["pulse"] = np.where(np.arange(800) % 2, 79.8, 80.2) + np.arange(800) % 9 / 1000
    rows.loc[5, "pulse"] = 80.0
    content = plain[0].content()
    content["design"]["encoding"]["columns"][1] |= {"centre": "80", "spread": "0.1"}
    study = GlmStudy.from_content(content)
    state = state_after(study, {"all": hospital(3000, 2)}, 4)
    assert state.sample_threshold == 0
    assert lab_sums(study, rows, state).gradient.shape == (1, 6)

    gradients = []
    for constant in (31, -31):
        asked = replace(state.newton, theta=np.array([[constant, 0, 31, 0, 0, 0]]) * 2.0**26)
        steep = replace(state, newton=asked)
        gradients.append(study.sums([rows], steep).values["gradient"][0].astype(float))
        with pytest.raises(ReplearnError, match="a few rows outweigh all others"):
            lab_sums(study, rows, steep)
    patient = (gradients[0] - gradients[1]) / 2.0**22
    assert np.abs(patient[1:] - encoded(study, rows)[5]).max() < 8


def clinic(n_rows, seed, n_levels):
    """Two columns of as many levels each, so that few rows share two of them."""
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(
        {
            "age": rng.integers(20, 90, n_rows),
            "ward": [f"w{one:02}" for one in rng.integers(0, n_levels, n_rows)],
            "drug": [f"d{one:02}" for one in rng.integers(0, n_levels, n_rows)],
        }
    )
    rows["y"] = (rng.random(n_rows) < 1 / (1 + np.exp(-(rows.age - 60) / 20))).astype(int)
    return rows


def test_a_patient_alone_with_two_levels_is_told_of():
    """The entry of a pair is that patient's curvature, so the risk, so the age: it must be said."""
    study = publish(open_table(clinic(4000, 1, 4), target="y"), Request(ridge=0.01)).study
    rows = clinic(1500, 2, 4)
    pair = (rows.ward == "w03") & (rows.drug == "d03")
    rows = rows.drop(rows[pair].index[1:]).reset_index(drop=True)
    state = at_coefficients(study, clinic(3000, 3, 4), -3.0, *[0.5] * 7)
    sums = lab_sums(study, rows, state)

    # whoever combines tries all ages with these two levels
    places = [study.design.encoding.term_names.index(name) for name in ("ward = w03", "drug = d03")]
    seen = unpacked(sums.information, sums.gradient.shape[1])[0][1 + places[0], 1 + places[1]]
    ages = np.arange(20, 90)
    every = pd.DataFrame({"age": ages, "ward": "w03", "drug": "d03"})
    scores = -3.0 + 0.5 * encoded(study, every).sum(axis=1) / 4096
    curvatures = 1 / (2 + 2 * np.cosh(scores)) * 2.0**22 * 2**16
    hidden = rows.age[(rows.ward == "w03") & (rows.drug == "d03")].item()
    assert ages[np.abs(curvatures - float(seen)).argmin()] == hidden

    assert sums.n_shown == 1
    assert "1 rows share two terms" in str(sums)
    assert "no individual data" not in str(sums)
    whole = lab_sums(study, clinic(1500, 2, 4), state)
    assert whole.n_shown == 0
    assert "no individual data" in str(whole)


def test_a_study_under_which_most_rows_are_nearly_alone_gets_no_sums():
    study = publish(open_table(clinic(9000, 1, 25), target="y"), Request(ridge=0.01)).study
    rows = clinic(2500, 2, 25)
    assert lab_sums(study, rows).n_shown == 0  # nothing but rows and classes is counted yet
    state = at_coefficients(study, clinic(9000, 3, 25), *[0.1] * 50)
    with pytest.raises(ReplearnError, match=r"at most half of the rows .*fewer levels and knots"):
        lab_sums(study, rows, state)


def test_a_row_more_than_in_the_first_round_is_refused_at_the_lab(plain, labs):
    study, _ = plain
    state = state_after(study, labs, 1)
    rows = labs["Bern"]
    assert lab_sums(study, rows, state, lab="Bern").rows == len(rows)
    for other in (rows[1:], rows.assign(y=1 - rows.y)):
        with pytest.raises(ReplearnError, match="same rows, but 'Bern' had 700 in the first"):
            lab_sums(study, other, state, lab="Bern")


def test_two_labs_get_no_totals(plain, labs):
    """Totals less one's own sums are those of the other lab."""
    study, model = plain
    two = {lab: labs[lab] for lab in ("Bern", "Oslo")}
    first = [lab_sums(study, rows, lab=lab) for lab, rows in two.items()]
    with pytest.raises(ReplearnError, match="three labs or more, got 2"):
        combine(study, *first)
    found, _, _ = rounds(study, two, study.begin(model))
    assert len(found.labs) == 2
    alone, _, _ = rounds(study, {"Bern": labs["Bern"]}, study.begin(model))
    assert "1 lab with 700 rows has a model" in alone.facts().verdict
    state = state_after(study, labs, 1)
    with pytest.raises(ReplearnError, match="three labs or more, got 2"):
        lab_sums(study, labs["Bern"], replace(state, members=state.members[:2]))


# --- what labs are told -------------------------------------------------------------------------


def test_labs_of_one_population(plain, labs):
    found, _, _ = rounds(plain[0], labs)
    assert found.same_population > 0.01
    assert min(lab.p for lab in found.labs) > 0.01
    assert found.agreement == 1
    assert found.copies == ()
    assert "3 labs with 3,000 rows have one model" in found.facts().verdict


def test_labs_stand_about_where_their_own_fits_do(plain, labs):
    """One step from the joint fit, without the memory of all labs' gradients."""
    found, _, _ = rounds(plain[0], labs)
    for lab in found.labs:
        alone = replicate(plain[0], open_table(labs[lab.lab], target="y"))[1]
        apart = lab.landed.positions - alone.landed.positions
        assert np.abs(apart / lab.landed.reach).max() < 0.15


def test_a_lab_that_differs_is_named(plain, labs):
    study, _ = plain
    other = labs["Oslo"].copy()
    other.loc[other.ward == "B", "y"] = 0
    found, _, _ = rounds(study, labs | {"Oslo": other})
    assert found.same_population < 1e-6
    assert min(found.labs, key=lambda lab: lab.p).lab == "Oslo"
    words = "'Oslo' differs from the others by more than centres do, most in ward = B."
    assert found.remarks == [words]  # no honest lab is named
    table = next(item for item in found.facts().details if getattr(item, "key", "") == "labs")
    assert [row[0] for row in table.rows] == sorted(labs)


def test_a_near_copy_is_named(plain, labs):
    study, _ = plain
    found, _, _ = rounds(study, labs | {"Paris": labs["Oslo"][1:]})
    assert found.copies == (("Oslo", "Paris"),)


def rounds_with(study, labs, forge):
    """All rounds, in which some labs change what they send."""
    found = study.begin()
    while isinstance(found, State):
        sums = [lab_sums(study, rows, found, lab=lab) for lab, rows in labs.items()]
        found = combine(study, *forge(sums), state=found)
    return found


def test_a_copy_that_hides_behind_one_quantum_is_named(plain, labs):
    def forge(sums):
        copy = replace(sums[1], lab="Paris")
        if copy.gradient is None:
            copy = changed(copy, cells=lambda cells: put(cells, (3, 0), lambda n: n + 1))
        else:
            copy = changed(copy, gradient=lambda g: put(g, (0, 1), lambda v: v + 1))
        return [*sums, copy]

    assert rounds_with(plain[0], labs, forge).copies == (("Oslo", "Paris"),)


def test_inflated_information_silences_nobody(plain, labs):
    """The spread that labs are compared with is the study's: no lab can change it."""
    other = labs["Oslo"].copy()
    other.loc[other.ward == "B", "y"] = 0
    honest = rounds_with(plain[0], labs | {"Oslo": other}, list)

    def forge(sums):
        if sums[1].information is None or not sums[1].information.size:
            return sums
        larger = (sums[1].information * 17 // 16) // 65536 * 65536
        return [sums[0], replace(sums[1], information=larger), sums[2]]

    forged = rounds_with(plain[0], labs | {"Oslo": other}, forge)
    assert honest.same_population < 1e-6
    assert forged.same_population < 1e-6
    assert min(forged.labs, key=lambda lab: lab.p).lab == "Oslo"


def test_the_model_without_a_lab_is_nearly_that_of_the_others(plain, labs):
    study, _ = plain
    other = labs["Rome"].assign(y=1 - labs["Rome"].y)
    found, _, _ = rounds(study, labs | {"Rome": other})
    without, _, _ = rounds(study, {"both": pd.concat([labs["Bern"], labs["Oslo"]])})
    (rome,) = (lab for lab in found.labs if lab.lab == "Rome")
    assert not rome.same
    assert found.model.fingerprint != without.model.fingerprint


def test_labs_may_have_equal_counts(plain, labs):
    """Two small labs have the same rows and labels in number more often than one thinks."""
    rows = labs["Oslo"].dropna()
    rows = rows[(rows.age > 30) & (rows.age < 90)]
    yes, no = rows[rows.y == 1], rows[rows.y == 0]
    thirds = {
        lab: pd.concat([yes[start:180:3], no[start:180:3]])
        for lab, start in (("A", 0), ("B", 1), ("C", 2))
    }
    sums = [lab_sums(plain[0], part, lab=lab) for lab, part in thirds.items()]
    assert replace(sums[0], lab="B") == sums[1]
    found, _, _ = rounds(plain[0], thirds)
    assert found.copies == ()


@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")
def test_labs_of_a_registered_study_take_the_rows_that_one_table_takes():
    study = register_study(hospital(1500, 5), "y", replication_rows=20_000)
    whole = hospital(40_000, 2)
    labs = {"Bern": whole[:10_000], "Oslo": whole[10_000:25_000], "Rome": whole[25_000:]}
    sums = [lab_sums(study, rows, lab=lab) for lab, rows in labs.items()]
    fit, original = combine(study, *sums).newton, combine(study, *sums, publish=True).newton
    assert fit.sample_threshold == newton.sample_threshold_for(40_000, fit.theta.size) < 1 << 32
    assert original.sample_threshold == 1 << 32  # whatever is rare, all of its rows count


def test_a_single_lab_is_a_coalition(plain, labs):
    found, _, _ = rounds(plain[0], {"Bern": labs["Bern"]})
    assert found.agreement == 1
    assert found.same_population == 1


# --- refusals -----------------------------------------------------------------------------------


def changed(sums, **how):
    """Sums with some numbers changed by functions."""
    return replace(sums, **{name: change(getattr(sums, name)) for name, change in how.items()})


def put(array, place, value):
    found = np.array(array, dtype=object)
    found[place] = value(found[place])
    return found


FORGERIES = {
    "rows": ({"rows": lambda n: 10**9}, "they claim 1,000,000,000 rows"),
    "weight": ({"weight": lambda w: w + 1}, "cannot have the weight"),
    "classes": ({"totals": lambda t: t + 1}, "do not add up"),
    "part of a row": ({"totals": lambda t: t + np.array([1, -1])}, "a part of a row"),
    "negative class": ({"totals": lambda t: put(put(t, 0, lambda v: v + t[1] + 65536), 1,
                                                lambda v: -65536)}, "do not add up"),
    "cells": ({"cells": lambda c: c + 10**6}, "more cells than rows"),
    "fewer kinds of cells": ({"cells": lambda c: c[:3]}, "not those that the round asks for"),
    "a class more": ({"totals": lambda t: np.append(t, 0)}, "not those that the round asks for"),
}  # fmt: skip
STEPS = {
    "gradient, one quantum": ({"gradient": lambda g: g + 1}, "a part of a unit"),
    "gradient, constant": (
        {"gradient": lambda g: put(g, (0, 0), lambda v: v + 4096)},
        "contradicts their labels",
    ),
    "gradient, all classes": (
        {"gradient": lambda g: put(g, (0, 0), lambda v: v + (4096 << 40))},
        "contradicts their targets",
    ),
    "gradient, too large": (
        {"gradient": lambda g: put(g, (0, 1), lambda v: 10**6 * v + 10**16)},
        "larger than their rows allow",
    ),
    "inflated information": ({"information": lambda i: i * 1000}, "above its maximum"),
    "one large entry": (
        {"information": lambda i: put(i, (0, 2), lambda v: v * 1000)},
        "above its maximum",
    ),
    "Cauchy and Schwarz": (
        {"information": lambda i: put(i, (0, 4), lambda v: 2 * (i[0, 2] + i[0, 5]))},
        "Cauchy and Schwarz",
    ),
    "negative": ({"information": lambda i: -i}, "above its maximum"),
    "more rows in it": ({"sampled": lambda s: s + 65536}, "more or fewer rows"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_counts_that_no_rows_give_are_refused(plain, labs, name):
    study, _ = plain
    sums = {lab: lab_sums(study, rows, lab=lab) for lab, rows in labs.items()}
    how, words = FORGERIES[name]
    sums["Oslo"] = changed(sums["Oslo"], **how)
    with pytest.raises(ReplearnError, match=words) as raised:
        combine(study, *sums.values())
    assert "'Oslo'" in str(raised.value)


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_no_rows_give_are_refused(plain, labs, name):
    study, _ = plain
    state = state_after(study, labs, 1)
    sums = {lab: lab_sums(study, rows, state, lab=lab) for lab, rows in labs.items()}
    how, words = STEPS[name]
    sums["Oslo"] = changed(sums["Oslo"], **how)
    with pytest.raises(ReplearnError, match=words) as raised:
        combine(study, *sums.values(), state=state)
    assert "'Oslo'" in str(raised.value)


def test_information_that_is_not_positive_is_refused(plain, labs):
    study, _ = plain
    state = state_after(study, labs, 1)
    sums = [lab_sums(study, rows, state, lab=lab) for lab, rows in labs.items()]
    found = sums[0].sums.values
    whole = unpacked(found["information"], found["gradient"].shape[1])[0]
    for i, j in ((1, 2), (1, 3), (2, 3)):  # each pair is possible, the three together are not
        whole[i, j] = whole[j, i] = -int(0.6 * np.sqrt(float(whole[i, i] * whole[j, j])))
    below = np.tril_indices(len(whole))
    sums[0] = replace(sums[0], information=whole[below][None])
    with pytest.raises(ReplearnError, match="not positive"):
        combine(study, *sums, state=state)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_honest_lab_is_refused(kind):
    study, _ = published(kind)
    tiny = {str(seed): hospital(600 + 7 * seed, 50 + seed, kind) for seed in range(12)}
    found, _, _ = rounds(study, tiny)
    assert isinstance(found, Coalition)


def test_what_is_not_of_this_round_is_refused(plain, labs):
    study, model = plain
    other, _ = published("linear")
    first = [lab_sums(study, rows, lab=lab) for lab, rows in labs.items()]
    state = combine(study, *first)
    second = [lab_sums(study, rows, state, lab=lab) for lab, rows in labs.items()]
    one = first[0]
    for given, at, words in [
        ([], None, "at least one lab"),
        (first, state, "must be of this round"),
        (second, None, "must be of this round"),
        (second[1:], state, "must take part, got none of Bern"),
        ([*second, replace(second[0], lab="Paris")], state, "have the same sums"),
        ([*first, changed(first[1], rows=lambda n: n - 1)], None, "got two of 'Oslo'|cannot"),
        ([replace(one, study=other.fingerprint)], None, "Send all labs one study file"),
    ]:
        with pytest.raises(ReplearnError, match=words):
            combine(study, *given, state=at)
    with pytest.raises(ReplearnError, match="one of this study"):
        lab_sums(other, hospital(300, 5, "linear"), state, lab="Bern")
    of_fewer = lab_sums(study, labs["Bern"][1:], state, lab="somebody")
    fewer = [replace(of_fewer, lab="Bern"), *second[1:]]
    with pytest.raises(ReplearnError, match="must be those of its first round"):
        combine(study, *fewer, state=state)
    with pytest.raises(ReplearnError, match="at least 100 rows, got 99"):
        lab_sums(study, labs["Bern"][:99])
    with pytest.raises(ReplearnError, match="coded differently"):
        lab_sums(study, labs["Bern"].assign(ward="Z"))
    with pytest.raises(ReplearnError, match="without weights"):
        published("weights")[0].begin(model)


def test_states_that_do_not_fit_or_ask_for_few_rows_are_refused(plain, labs):
    study, _ = plain
    state = state_after(study, labs, 1)
    asked = state.newton
    wide = replace(asked, theta=np.zeros((1, asked.theta.shape[1] + 1)))
    totals = replace(state.counts, totals=state.counts.totals[:1])
    for bad in (replace(state, newton=wide), replace(state, counts=totals)):
        with pytest.raises(ReplearnError, match="the state must hold"):
            lab_sums(study, labs["Bern"], bad)
    few = replace(state, newton=replace(asked, sample_threshold=(1 << 32) // 500))
    with pytest.raises(ReplearnError, match=r"a matrix of about [0-9]+ of these rows"):
        lab_sums(study, labs["Bern"], few)
    most = replace(state, newton=replace(asked, sample_threshold=(1 << 32) - 1))
    assert lab_sums(study, labs["Bern"], most).sampled


def test_a_lab_sees_what_looks_different(plain, labs):
    sums = lab_sums(plain[0], labs["Oslo"].assign(age=labs["Oslo"].age * 12), lab="Oslo")
    assert "age: seems to have a different unit" in sums.facts().text()


def test_a_lab_sees_that_its_rows_vary_less(plain, labs):
    study, model = plain
    other = replace(study, spreads=tuple(f"{10 * float(one):.3g}" for one in study.spreads))
    for given, words in ((study, False), (other, True)):
        sums = lab_sums(given, labs["Oslo"], given.begin(model), lab="Oslo")
        assert ("count nothing" in sums.facts().text()) == words


def test_files_are_read_strictly(plain, labs, tmp_path):
    study, _ = plain
    state = state_after(study, labs, 3)
    sums = lab_sums(study, labs["Bern"], state, lab="Bern")
    sums.save(tmp_path / "sums.json")
    state.save(tmp_path / "state.json")
    assert LabSums.load(tmp_path / "sums.json") == sums
    assert State.load(tmp_path / "state.json") == state
    good = sums.content()
    for change in (
        {"gradient": [["1.5"]]},
        {"gradient": [[1, 2]]},
        {"information": [["1", "2"]]},
        {"rows": -1},
        {"lab": "x" * 201},
    ):
        with pytest.raises(InvalidFile):
            LabSums.from_content(good | change)
    with pytest.raises(InvalidFile, match="scale must be known"):
        State.from_content({k: v for k, v in state.content().items() if k != "scale"})


def test_passes_over_changed_rows_are_refused(plain, labs):
    study, _ = plain
    rows = labs["Oslo"]
    state = study.step(study.sums([rows], study.begin()), study.begin())
    assert not isinstance(state, PooledFit)
    with pytest.raises(ReplearnError, match="over the same rows"):
        study.step(study.sums([rows[1:]], state), state)
    with pytest.raises(ReplearnError, match="two different ones"):
        study.sums([rows], state) + study.sums([rows], study.begin())
