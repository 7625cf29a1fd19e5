"""The second implementation replicates a study from a raw CSV file: model files are equal."""

import gzip
import math
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from replearn.errors import ReplearnError
from replearn.glm import Coefficients, Estimates, GlmDesign, GlmModel, NewtonState
from replearn.reports.update import update
from replearn.rows import Block, integers, row_marks
from replearn.study import (
    NO_ESTIMATES,
    Coalition,
    GlmReplication,
    GlmStudy,
    Original,
    Request,
    RowEncoder,
    State,
    combine,
    lab_sums,
    publish,
    replicate,
)
from replearn.study.passes import Counts, Member, table_of
from replearn.tables import open_table, profile
from replearn.words import forest, ratio_in_words
from tests.contract.replications import (
    CASES,
    LOCAL_CASES,
    Case,
    bait,
    items,
    large_table,
    little_spread,
    make_study,
    open_case,
    opening_of,
    replicated,
    replications_of_all_verdicts,
    strange_columns,
    write_table,
)
from tests.contract.test_javascript import answers, needs_node
from tests.unit.test_coalition import clinic
from tests.unit.test_survival import trial


def call(
    study: GlmStudy, path: Any, case: Case, opened: Any = None, **more: Any
) -> tuple[str, Any]:
    options = {"decimal": case.csv.decimal, "thousands": case.csv.thousands, **more}
    options["opened"] = [] if opened is None else [opened.content()]
    return "replicate", {"study": study.content(), "path": str(path), "options": options}


@pytest.mark.slow
@needs_node
def test_model_files_are_equal(tmp_path):
    calls, expected = [], []
    for number, (name, case) in enumerate(CASES.items()):
        study, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        n_rows = case.n_rows if number % 2 else 97  # too few rows: a different model
        path = write_table(tmp_path / f"{number}.csv", case, seed=100 + number, n_rows=n_rows)
        opened = original if number % 3 == 0 else None
        model, replication = replicated(study, path, case, opened)
        expected.append((name, saved(model, tmp_path), replication, study.design))
        calls.append(call(study, path, case, opened))
    for (name, file, replication, design), found in zip(expected, answers(calls), strict=True):
        # after a mismatch nothing looks like a usable model
        assert found["model"] == file, name
        assert_same_words(replication, found)
        assert_same_estimates(replication, design, found)
    assert {replication.same for _, _, replication, _ in expected} == {True, False}


def saved(model: GlmModel, folder: Path) -> str | None:
    """The bytes of a model's file; None after a mismatch, when there is none."""
    path = folder / "model.json"
    if model.is_mismatch:
        with pytest.raises(ReplearnError, match="nobody fitted"):
            model.save(path)
        return None
    model.save(path)
    return path.read_text()


@needs_node
def test_sealed_studies_need_their_opening(tmp_path):
    case, nonce = CASES["text levels and missing values"], "0123456789abcdef" * 2
    study, model = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    path = write_table(tmp_path / "b.csv", case, seed=1)
    sealed, opening = opening_of(study, model, nonce)
    given = [None, model, replace(opening, nonce=nonce[::-1]), opening]
    untold, alone, wrong, opened = answers([call(sealed, path, case, one) for one in given])
    assert untold["same"] is None
    assert "a sealed study needs its opening" in alone["refused"]
    assert "must hold the nonce and the model" in wrong["refused"]
    assert opened["same"] == replicate(sealed, open_case(path, case, sealed.design.encoding.names),
                                       opening)[1].same  # fmt: skip


@needs_node
@pytest.mark.slow
def test_local_constants(tmp_path):
    """Labs agree on slopes; constants stand beside the content of a model's file."""
    calls, expected = [], []
    for number, (name, case) in enumerate(LOCAL_CASES.items()):
        study, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        n_rows = 97 if number == 1 else case.n_rows  # too few rows: a different model
        path = write_table(tmp_path / f"{number}.csv", case, seed=100 + number, n_rows=n_rows)
        opened = original if number % 2 else None
        model, replication = replicated(study, path, case, opened)
        expected.append((name, saved(model, tmp_path), replication))
        calls.append(call(study, path, case, opened))
    for (name, file, replication), found in zip(expected, answers(calls), strict=True):
        assert found["model"] == file, name
        assert_same_words(replication, found)
        assert "leaves the constant to each lab" in found["sums"]["refused"], name
    assert {replication.same for _, _, replication in expected} == {True, False}


@needs_node
@pytest.mark.slow
def test_updated_models_are_equal(tmp_path):
    """Byte for byte, of all losses; a second update keeps what the first one did."""
    calls, expected = [], []
    for number, (name, case) in enumerate((CASES | LOCAL_CASES).items()):
        _, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        path = write_table(tmp_path / f"{number}.csv", case, seed=300 + number)
        first = update(original, path, slope=case.loss.n_scores == 1, csv=case.csv).model
        for parent, slope in ((original, False), (original, True), (first, False), (first, True)):
            given = {"model": parent.content(), "path": str(path), "slope": slope}
            given["options"] = {"decimal": case.csv.decimal, "thousands": case.csv.thousands}
            calls.append(("update", given))
            try:
                found = update(parent, path, slope=slope, csv=case.csv).model
            except ReplearnError as problem:
                expected.append((name, {"refused": str(problem)}))
            else:
                expected.append((name, saved(found, tmp_path)))
    for (name, file), found in zip(expected, answers(calls), strict=True):
        assert found == file, name
    refused = {str(file["refused"]) for _, file in expected if isinstance(file, dict)}
    assert len(refused) == 1, "many classes have no factor in common"


@needs_node
@pytest.mark.parametrize(("label", "n_out", "same"), [("1", 10, False), ("0", 6, True)])
def test_the_page_offers_an_update(tmp_path, label, n_out, same):
    """Where the base risk alone differs, the page writes what `replearn update` writes."""
    case = replace(CASES["typical centres"], n_rows=3000)
    study, original = make_study(write_table(tmp_path / "a.csv", case, seed=1), case)
    path = write_table(tmp_path / "b.csv", case, seed=2)
    lines = path.read_text().splitlines()
    # of twenty with a label some are left out: the slopes stay, the base risk does not
    labelled = [i for i, line in enumerate(lines) if line.split(",")[7] == label]
    left_out = {i for place, i in enumerate(labelled) if place % 20 < n_out}
    path.write_text("\n".join(line for i, line in enumerate(lines) if i not in left_out) + "\n")
    replication = replicated(study, path, case)[1]
    assert (replication.verdict, replication.same) == ("same slopes", same)
    (found,) = answers([call(study, path, case)])
    assert (found["model"] is not None) == same
    assert found["update"]["file"] == saved(update(original, path).model, tmp_path)
    assert_same_words(replication, found)


@needs_node
def test_all_verdicts(tmp_path):
    expected, calls = [], []
    for _, study, path, replication in replications_of_all_verdicts(tmp_path):
        expected.append(replication)
        calls.append(call(study, path, Case()))
    for replication, found in zip(expected, answers(calls), strict=True):
        assert_same_words(replication, found)


def forest_of(support: Any) -> str | None:
    """The model's effects, with the intervals of one step towards a lab's rows."""
    if support is None or not support.columns:
        return None
    ratio = support.measure.endswith("ratio")

    def placed(value: float) -> float:
        return min(max(math.log(value or 1e-9), -12), 12) if ratio else value

    marks = [
        (
            column.shown,
            ratio_in_words(column.model, 3) if ratio else f"{column.model:+.3g}",
            *(placed(value) for value in (column.model, column.low, column.high)),
        )
        for column in support.columns
    ]
    at = (0.001, 0.01, 0.03, 0.1, 0.25, 0.5, 1, 2, 4, 10, 30, 100, 1000)
    ticks = [(math.log(value), f"{value:g}") for value in at] if ratio else None
    drawn = forest(marks, 0.0, support.measure if ratio else "no effect", ticks=ticks)
    return re.sub(' style="[^"]*"', "", drawn)


def assert_same_words(python: GlmReplication, found: dict[str, Any]) -> None:
    """What is not a code is the same to all digits that are shown, in the same words."""
    facts = python.facts()
    assert found["verdict"] == facts.verdict
    assert found["told"] == list(facts.told)
    assert found["items"] == items(facts.items)
    assert found["details"] == items(facts.details)
    assert found["picture"] == re.sub(' style="[^"]*"', "", facts.figures[0].draw())
    if python.support is not None:  # else the lab's own estimates are drawn
        assert found["forest"] == forest_of(python.support)
    assert (found["same"], found["fingerprint"]) == (python.same, python.fingerprint)
    assert (found["word"], found["sameSlopes"]) == (python.verdict, python.same_slopes)
    assert found["positions"] == pytest.approx(python.positions.tolist(), abs=1e-12)
    assert found["nearest"] == list(python.nearest)
    assert found["apart"] == list(python.apart)
    assert found["findings"] == [list(finding) for finding in python.findings]
    assert found["disagreement"] == pytest.approx(python.disagreement, rel=1e-9)
    assert found["atNewCentre"] == pytest.approx(python.at_new_centre, rel=1e-9)
    assert found["evidence"]["rows"] == python.evidence.rows
    assert found["evidence"]["bits"] == pytest.approx(python.evidence.bits, abs=1e-3)
    assert_same_support(python, found["support"])


def assert_same_estimates(python: GlmReplication, design: GlmDesign, found: dict[str, Any]) -> None:
    """The lab's own estimates are those of Python to the digits that standard errors leave."""
    shape = design.loss.n_scores, 1 + design.encoding.n_terms
    stated = None if python.own is None else Estimates.of_content(python.own.content, shape)
    expected = items(Coefficients(design, None, stated).own_tables())
    if not expected:
        assert found["own"] == [NO_ESTIMATES]
        return
    table, told = found["own"]
    assert told == expected[1]
    assert (table["title"], table["header"]) == (expected[0]["title"], expected[0]["header"])
    n_names = table["header"].index("estimate")
    for row, theirs in zip(table["rows"], expected[0]["rows"], strict=True):
        assert row[:n_names] == theirs[:n_names]
        assert [bool(cell) for cell in row] == [bool(cell) for cell in theirs]
        if not row[n_names]:
            continue
        (estimate, error), (other, expected_error) = (
            [float(cell.replace(",", "")) for cell in one[n_names : n_names + 2]]
            for one in (row, theirs)
        )
        assert error == pytest.approx(expected_error, rel=0.02), row
        assert estimate == pytest.approx(other, abs=0.02 * error), row


def assert_same_support(python: GlmReplication, found: dict[str, Any] | None) -> None:
    """p-values, gain and spreads of the test."""
    if python.support is None:
        assert found is None
        return
    assert found is not None
    test = python.support.test
    for name, value in (
        ("pValue", test.p_value),
        ("pConstants", test.p_constants),
        ("pSlopes", test.p_slopes),
        ("pFactor", test.p_factor),
    ):
        # differences of large squares leave few digits to the smallest ones
        assert found["test"][name] == pytest.approx(value, rel=1e-6, abs=1e-12), name
    alike = python.support.p_one_population
    assert found["pOnePopulation"] == pytest.approx(alike, rel=1e-6, abs=1e-12)
    assert found["rung"] == python.support.rung
    gain = python.support.gain
    assert found["gain"]["value"] == pytest.approx(gain.value, rel=1e-6)
    assert found["gain"]["low"] == pytest.approx(gain.low, rel=1e-6)
    assert found["test"]["spreads"] == pytest.approx(test.spreads.tolist(), rel=1e-6)


@needs_node
@pytest.mark.slow
def test_sums_files_are_equal(tmp_path):
    """Of three labs, in all rounds, and of one step from an opened model."""
    calls, files = [], []
    for number, (name, case) in enumerate(CASES.items()):
        study, original = make_study(write_table(tmp_path / "a.csv", case, seed=number), case)
        paths = [
            write_table(
                tmp_path / f"{number}.{lab}.csv",
                case,
                seed=300 + lab,
                n_rows=2 * case.n_rows + 9 * lab,
            )
            for lab in range(3)
        ]
        state: Any = study.begin()
        states = [] if case.weights else [study.begin(original)]
        while isinstance(state, State):
            states.append(state)
            tables = [open_case(path, case, study.design.encoding.names) for path in paths]
            sums = [lab_sums(study, table, state, lab=f"é{i}") for i, table in enumerate(tables)]
            state = combine(study, *sums, state=state)
        assert isinstance(state, Coalition)
        for round_, given in enumerate(states):
            table = open_case(paths[0], case, study.design.encoding.names)
            lab_sums(study, table, given, lab="é").save(tmp_path / "sums.json")
            is_first = given == study.begin()
            more = {"lab": "é", "state": None if is_first else given.content()}
            calls.append(call(study, paths[0], case, **more))
            files.append((name, round_, (tmp_path / "sums.json").read_text()))
    for (name, round_, file), found in zip(files, answers(calls), strict=True):
        assert found["sums"].get("file") == file, (name, round_, found["sums"])
        assert "no individual data" in found["sums"]["words"]


@needs_node
def test_rows_that_a_pair_of_terms_shows_are_told(tmp_path):
    calls, words = [], []
    for n_levels, n_rows in ((4, 700), (25, 2500)):
        study = publish(
            open_table(clinic(9000, 1, n_levels), target="y"), Request(ridge=0.01)
        ).study
        theta = np.full((1, len(study.design.encoding.term_names) + 1), 1 << 22)
        state = State(study.fingerprint, 0, newton=NewtonState(theta, 1 << 32))
        table = clinic(n_rows, 2, n_levels)
        table = table.drop(table[(table.ward == "w03") & (table.drug == "d03")].index[3:])
        table.to_csv(path := tmp_path / f"{n_levels}.csv", index=False)
        calls.append(call(study, path, Case(), state=state.content(), lab="lab"))
        try:
            n_shown = lab_sums(study, table, state, lab="lab").n_shown
            words.append(f" {n_shown:,} rows share two terms with few others")
        except ReplearnError as refusal:
            words.append(str(refusal))
    assert words[0].startswith(" 3 rows")
    assert "at most half" in words[1]
    for word, found in zip(words, answers(calls), strict=True):
        assert word in (found["sums"].get("words") or found["sums"]["refused"])


@needs_node
def test_sums_of_few_persons_are_refused(tmp_path):
    """One patient with a level has many rows at risk."""
    frame = trial(1500, 0).assign(ward=["A", "B", "C"] * 500)
    frame.to_csv(path := tmp_path / "a.csv", index=False)
    study = publish_trial(path).study
    frame["ward"] = ["A", "B"] * 750
    frame.loc[frame.days.nlargest(8).index[7], "ward"] = "C"
    frame.to_csv(path, index=False)
    with pytest.raises(ReplearnError, match="'ward = C'") as caught:
        lab_sums(study, table_of(study.design, path))
    (found,) = answers([call(study, path, Case())])
    assert found["sums"]["refused"] == str(caught.value)


@pytest.mark.slow
@needs_node
def test_sums_that_are_refused(tmp_path):
    case = CASES["text levels and missing values"]
    study, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    path = write_table(tmp_path / "b.csv", case, seed=1)
    few = write_table(tmp_path / "few.csv", case, seed=1, n_rows=90)
    state = study.begin()
    other = replace(state, study="0" * 64).content()
    altered = state.content() | {"scale": 1, "fingerprint": state.fingerprint}
    few_sampled = replace(
        state,
        counts=Counts(800, 800 << 16, integers([1, 1])),
        newton=NewtonState(np.zeros((1, RowEncoder.of(study.design).n_terms + 1)), 1 << 28),
    )
    with pytest.raises(ReplearnError) as caught:
        lab_sums(study, open_case(path, case, study.design.encoding.names), few_sampled)
    spread = few_sampled.content() | {"then": "spread"}
    few_rows = []
    given = [(few, None), (path, other), (path, altered), (path, study.content())]
    given += [(path, few_sampled.content()), (path, spread)]
    words = ["at least 100 rows, got 90", "one of this study", "altered", "replearn/state"]
    words += [str(caught.value), "needs Python"]
    for name in ("text levels and missing values", "splines", "products", "many classes"):
        other_case = CASES[name]
        refused, _ = make_study(write_table(tmp_path / "c.csv", other_case, seed=2), other_case)
        table = write_table(tmp_path / f"{name}.csv", other_case, seed=3, n_rows=140)
        with pytest.raises(ReplearnError, match="show single patients") as caught:
            lab_sums(refused, open_case(table, other_case, refused.design.encoding.names))
        words.append(str(caught.value))
        few_rows.append(call(refused, table, other_case))
    n_columns = few_sampled.newton.theta.shape[1]
    steep = np.array([[31 << 26, 15 << 25] + [0] * (n_columns - 2)])  # only a few are in its reach
    heavy = replace(state, newton=NewtonState(steep, 1 << 32))
    enough = write_table(tmp_path / "enough.csv", case, seed=1, n_rows=12_000)
    with pytest.raises(ReplearnError, match="outweigh all others") as caught:
        lab_sums(study, open_case(enough, case, study.design.encoding.names), heavy)
    given.append((enough, heavy.content()))
    words.insert(len(given) - 1, str(caught.value))
    without_matrix = heavy.content()
    without_matrix["newton"]["sample_threshold"] = 0
    given.append((enough, without_matrix))
    words.insert(len(given) - 1, str(caught.value))

    # rows that have changed since the first round
    counts = Counts(12_001, 12_001 << 16, integers([6000, 6001]) << 16)
    members = (Member("lab", counts), *(Member(name, counts) for name in "ab"))
    later = replace(few_sampled, members=members)
    with pytest.raises(ReplearnError, match="same rows") as caught:
        lab_sums(study, open_case(enough, case, study.design.encoding.names), later, lab="lab")
    given.append((enough, later.content()))
    words.insert(len(given) - 1, str(caught.value))
    calls = [call(study, where, case, state=state, lab="lab") for where, state in given] + few_rows
    for word, found in zip(words, answers(calls), strict=True):
        assert word in found["sums"]["refused"]
        assert found["verdict"]


BAD_ROWS = {
    "one class": ("", "some class has no row"),
    "a label that is missing": ("60,25,A,true,1,0,1,,x", "missing labels"),
    "a label that is unknown": ("60,25,A,true,1,0,1,2,x\n" * 10, "in 10 of 810 rows: '2'"),
    "a level that is unknown": ("60,25,Z,true,1,0,1,1,x\n" * 500, "500 of 1,300 cells (38.5%)"),
    "numbers with commas": ('60,"25,5",A,true,1,0,1,1,x\n' * 60, 'decimal=","'),
    "infinity": ("60,inf,A,true,1,0,1,1,x", "infinite numbers"),
}  # fmt: skip


@needs_node
def test_refusals_are_the_same(tmp_path):
    case = CASES["text levels and missing values"]
    study, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    calls, expected = [], []
    for number, (name, (rows, words)) in enumerate(BAD_ROWS.items()):
        path = write_table(tmp_path / f"{number}.csv", case, seed=1)
        path.write_text(path.read_text() + rows)
        if name == "one class":
            path.write_text(re.sub(",1,x$", ",0,x", path.read_text(), flags=re.M))
        with pytest.raises(ReplearnError) as caught:
            replicated(study, path, case)
        expected.append((name, str(caught.value).replace(str(path), path.name), words))
        calls.append(call(study, path, case))
    for (name, message, words), found in zip(expected, answers(calls), strict=True):
        assert words in message, name
        assert found["refused"] == message, name


@pytest.mark.slow
@needs_node
def test_the_same_columns_look_strange(tmp_path):
    calls, expected = [], []
    for name, study, path, case in (*strange_columns(tmp_path), *little_spread(tmp_path)):
        expected.append((name, replicated(study, path, case)[1]))
        calls.append(call(study, path, case))
    for (name, replication), found in zip(expected, answers(calls), strict=True):
        assert replication.findings, name
        assert_same_words(replication, found)


@needs_node
@pytest.mark.slow
def test_wide_models_have_the_same_support(tmp_path):
    """Beyond 600 coefficients constants and the size of slopes are tested, less overfitting."""
    rng, paths = np.random.default_rng(5), [tmp_path / "a.csv", tmp_path / "b.csv"]
    slopes = rng.normal(size=605) / 10
    for path in paths:
        table = np.round(rng.normal(size=(900, 605)), 2)
        died = rng.random(900) < 1 / (1 + np.exp(-table @ slopes))
        frame = pd.DataFrame(table, columns=[f"x{i}" for i in range(605)])
        frame.assign(died=died.astype(int)).to_csv(path, index=False)
    request = Request(target="died", ridge=0.03, replication_rows=900)
    original = publish(open_table(paths[0], target="died"), request)
    study = original.study
    python = replicate(study, open_table(paths[1], target="died"), original.model)[1]
    given = {"study": study.content(), "path": str(paths[1])}
    given["options"] = {"opened": [original.model.content()]}
    found = answers([("replicate", given)])[0]
    assert found["verdict"] == python.facts().verdict
    ours, theirs = found["support"]["test"], python.support.test
    assert ours["pSlopes"] == pytest.approx(theirs.p_slopes, rel=1e-6)
    assert ours["pValue"] == pytest.approx(theirs.p_value, rel=1e-6)
    assert theirs.p_value > 0.01


@needs_node
def test_units_are_those_of_python():
    assert answers([("units", {})]) == [[[*unit] for unit in profile._UNITS.items()]]


@needs_node
def test_compressed_files(tmp_path):
    case = CASES["text levels and missing values"]
    study, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    content = write_table(tmp_path / "b.csv", case, seed=1).read_bytes()
    packed = gzip.compress(content)
    files = {
        "whole.csv.gz": packed,
        "two.csv.gz": gzip.compress(content[:9000]) + gzip.compress(content[9000:]),
        "other-name.csv": packed,
        "torn.csv.gz": packed[:-2000],
        "altered.csv.gz": packed[:5000] + b"?" + packed[5001:],
        "plain.csv.gz": content,
    }
    calls, expected = [], []
    for name, given in files.items():
        (tmp_path / name).write_bytes(given)
        calls.append(call(study, tmp_path / name, case))
        try:
            expected.append(replicated(study, tmp_path / name, case)[1].fingerprint)
        except ReplearnError as problem:
            expected.append(str(problem).replace(str(tmp_path / name), name))
    found = [answer.get("refused") or answer["fingerprint"] for answer in answers(calls)]
    for name, python, ours in zip(files, expected, found, strict=True):
        assert python.partition("cannot be read")[:2] == ours.partition("cannot be read")[:2], name


@needs_node
@pytest.mark.slow
def test_a_large_table(tmp_path):
    study, case = large_table(path := tmp_path / "table.csv")
    started = time.process_time()
    model, replication = replicated(study, path, case)
    replication.facts()  # support is tested when it is read
    seconds = time.process_time() - started
    (found,) = answers([call(study, path, case)])
    ours, size = found["seconds"], found["megabytes"]
    print(f"Python {seconds:.1f} s, JavaScript {ours:.1f} s of one core and {size:.0f} MB")
    assert found["fingerprint"] == model.fingerprint
    assert_same_words(replication, found)
    assert size < 500
    assert ours < 1 + 6 * seconds  # a second in which the engine compiles what it will repeat


@needs_node
def test_permuted_labels(tmp_path):
    """As Python permutes them: a study that any labels replicate is found out on the page, too."""
    coins = np.random.default_rng(4)
    terms = coins.integers(-2, 3, (300, 2)).astype(np.int16)  # many rows are equal
    block = Block(terms, coins.integers(0, 2, 300) * 1.0, coins.integers(1, 3, 300) / 4)
    given = {name: getattr(block, name).tolist() for name in ("terms", "targets", "weights")}
    calls = [("rowMarks", given | {"salt": salt}) for salt in (20, 21)]

    case = CASES["typical centres"]
    honest, _ = make_study(write_table(tmp_path / "a.csv", case, seed=0), case)
    path = write_table(tmp_path / "b.csv", case, seed=1)
    table = open_case(path, case, honest.design.encoding.names)
    for study in (honest, bait(honest)):
        codes = replicate(study, table)[0].codes.tolist()
        calls.append(("placebo", {"study": study.content(), "path": str(path), "codes": codes}))
    *marks, by_honest, by_bait = answers(calls)
    for salt, found in zip((20, 21), marks, strict=True):
        assert found == row_marks(block, salt).tolist()
    assert (by_honest, by_bait) == (False, True)


def publish_trial(path: Path) -> Original:
    table = open_table(path, target="days", offset="died")
    return publish(table, Request(kind="survival", time="days", target="died"))


@needs_node
def test_survival(tmp_path):
    """Rows at risk, codes, verdicts and tests of survival are Python's."""
    study, calls, expected = None, [], []
    for seed, n_rows in enumerate((1500, 1500, 120)):
        frame = trial(n_rows, seed)
        frame["arm"] = np.where(frame.pop("treated") == 1, "x y", "b")
        frame.loc[:59, "age"] = np.nan
        frame.to_csv(path := tmp_path / f"{seed}.csv", index=False)
        if study is None:
            published = publish_trial(path)
            study, original = published.study, published.model
        table = table_of(study.design, path)
        opened = original if seed == 2 else None
        model, replication = replicate(study, table, opened)
        expected.append((saved(model, tmp_path), replication, table))
        calls.append(call(study, path, Case(), opened))
    for (file, replication, table), found in zip(expected, answers(calls), strict=True):
        assert found["model"] == file
        assert_same_words(replication, found)
        assert_same_estimates(replication, study.design, found)
        if "file" not in found["sums"]:  # of few persons some terms would show single ones
            assert len(table.whole("target")) < 2000
            continue
        lab_sums(study, table, lab="lab").save(tmp_path / "sums.json")
        assert found["sums"]["file"] == (tmp_path / "sums.json").read_text()
    assert {replication.same for _, replication, _ in expected} == {True, False}


@needs_node
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"died": "2"}, "the event must be 1 where it was seen"),
        ({"died": "dead"}, "Write 1 where it was seen and 0 where the time is censored"),
        ({"days": "0"}, "the time must be positive in every row"),
        ({"days": ""}, "the time must hold a number in every row"),
    ],
)
def test_survival_that_is_refused(tmp_path, change, rule):
    trial(900, 1).to_csv(path := tmp_path / "a.csv", index=False)
    study = publish_trial(path).study
    odd = trial(300, 2).astype(object)
    odd.loc[:2, list(change)] = next(iter(change.values()))
    odd.to_csv(path, index=False)
    with pytest.raises(ReplearnError, match=rule) as problem:
        replicate(study, table_of(study.design, path))
    (found,) = answers([call(study, path, Case())])
    assert found["refused"] == str(problem.value)
