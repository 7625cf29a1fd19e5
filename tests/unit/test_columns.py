"""What is done to columns is said, and what is odd about them is asked: never silently."""

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn import cli
from replearn.errors import ColumnWarning, ReplearnError, ReplicabilityWarning
from replearn.study import GlmStudy
from replearn.tables import Clusters, learn_encoding, open_table
from replearn.tables.clusters import correlation_within
from replearn.tables.safety import missing_code

N_SITES = 59


def site_trial(n_rows: int = 8000, seed: int = 1, between: float = 0.2) -> pd.DataFrame:
    """A trial at 59 sites of unequal size, whose base risks differ."""
    rng = np.random.default_rng(seed)
    site = rng.choice(N_SITES, n_rows, p=rng.dirichlet(np.full(N_SITES, 2.0)))
    frame = pd.DataFrame({"age": rng.normal(62, 11, n_rows).round(1)})
    frame["sex"] = rng.choice(["f", "m"], n_rows, p=[0.27, 0.73])
    frame["killip"] = rng.choice(["I", "II", "III", "IV"], n_rows, p=[0.8, 0.13, 0.045, 0.025])
    frame["prior_mi"] = rng.choice(["no", "yes"], n_rows, p=[0.83, 0.17])
    frame["arm"] = rng.choice(["placebo", "drug A", "drug B"], n_rows)
    score = -2.5 + 0.06 * (frame.age - 62) + 0.6 * (frame.killip == "II")
    score += 1.2 * (frame.killip == "III") + 2 * (frame.killip == "IV") - 0.3 * (frame.sex == "m")
    score += between * rng.normal(size=N_SITES)[site]
    frame["died"] = (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(int)
    frame["site"] = site
    return frame


# --- groups ---------------------------------------------------------------------------------------


def test_gaps_that_few_groups_have_are_refused_with_the_reason():
    """Four hospitals as groups: rows with gaps are worth six, too few for a coefficient."""
    rng = np.random.default_rng(2)
    site = np.repeat(["a", "b", "c", "d"], 300)
    died = rng.random(1200) < np.repeat([0.1, 0.4, 0.6, 0.9], 300)
    slope = np.where(rng.random(1200) < 0.4, np.nan, rng.normal(size=1200))
    frame = pd.DataFrame({"age": rng.normal(60, 9, 1200), "slope": slope})
    with pytest.raises(ReplearnError, match=r"'slope' is missing in 4\d\d of 1,200 rows.* groups"):
        rl.ReplicableLogisticClassifier().fit(frame, died, groups=site)


def test_sites_as_groups_drop_and_merge_nothing(tmp_path, capsys):
    path = tmp_path / "a.csv"
    site_trial().to_csv(path, index=False)
    out = str(tmp_path / "s.json")
    assert (
        cli.main(["publish", str(path), "--target", "died", "--groups", "site", "--out", out]) == 0
    )
    text = capsys.readouterr().out
    assert "(other)" not in text
    assert "Left out" not in text
    columns = {column.name: column for column in rl.load(out).design.encoding.columns}
    assert list(columns) == ["age", "sex", "killip", "prior_mi", "arm"]
    assert {columns["killip"].reference, *columns["killip"].levels} == {"I", "II", "III", "IV"}
    assert {columns["arm"].reference, *columns["arm"].levels} == {"placebo", "drug A", "drug B"}


def test_rows_are_worth_what_the_sandwich_says():
    """A level's rows count as the variance of its coefficient says: design effect and all."""
    frame = site_trial(6000, between=1.0)
    y = frame.died.to_numpy().astype(np.float64)
    codes = frame.site.to_numpy()
    within = correlation_within(y, codes, N_SITES)
    clusters = Clusters(codes, N_SITES, within)

    # a level that whole sites have, and one that rows of all sites have
    by_site, by_row = np.isin(codes, np.arange(20)), frame.arm.to_numpy() == "drug A"
    for member in (by_site, by_row):
        worth = clusters.n_independent(np.bincount(codes[member])[np.unique(codes[member])])
        residual = (y - y.mean()) * member
        groups = np.bincount(codes, weights=residual, minlength=N_SITES)
        inflation = (groups @ groups) / (residual @ residual)
        assert worth == pytest.approx(member.sum() / inflation, rel=0.6)
        # without groups it would be 30 times as many
        assert worth < member.sum() / 5


def test_rows_of_one_person_count_once():
    codes = np.repeat(np.arange(400), 20)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)[codes]
    clusters = Clusters(codes, 400, correlation_within(y, codes, 400))
    assert clusters.correlation == pytest.approx(1.0)
    assert clusters.n_independent(np.full(30, 20)) == pytest.approx(30)
    assert clusters.n_independent(np.full(9, 200)) == 0  # nine persons


def test_independent_rows_lose_little():
    rng = np.random.default_rng(1)
    codes, y = rng.integers(0, 100, 5000), rng.normal(size=5000)
    assert correlation_within(y, codes, 100) < 0.02


def test_a_column_that_varies_is_not_left_out_without_a_word():
    frame = site_trial(3000)
    frame["ward"] = [f"w{i % 300}" for i in range(3000)]
    X, y = frame.drop(columns=["died", "site"]), frame.died
    with pytest.warns(ColumnWarning, match=r"'ward' has all of its levels in fewer than 20 rows"):
        fitted = rl.ReplicableLogisticClassifier().fit(X, y)
    with pytest.raises(ReplearnError, match=r"would go without column 'ward'.*drop=\['ward'\]"):
        fitted.study_.save("never.json")
    assert rl.ReplicableLogisticClassifier(drop=["ward"]).fit(X, y).study_.problems == ()


# --- collinear columns, copies of the outcome -----------------------------------------------------


def test_columns_that_follow_from_others_are_named():
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"kg": rng.normal(80, 12, 2000).round(1), "age": rng.normal(60, 9, 2000)})
    X["pounds"] = (X.kg * 2.2046).round(1)
    X["male"] = rng.integers(0, 2, 2000)
    X["sex"] = np.where(X.male == 1, "m", "f")
    X["both"] = X.kg + 3 * X.age
    X["near"] = X.kg + rng.normal(0, 3, 2000)  # r = .97 is no copy
    y = X.age / 10 + rng.normal(size=2000)
    with pytest.warns(ColumnWarning) as caught:
        rl.ReplicableLinearRegressor().fit(X, y)
    text = "\n".join(str(warning.message) for warning in caught)
    assert "'pounds' follows from 'kg': nobody can tell" in text
    assert "follows from 'male'" in text
    assert "'both' follows from 'kg', 'age'" in text
    assert "near" not in text


def test_copies_and_thresholds_of_numbers_are_refused():
    rng = np.random.default_rng(3)
    X = pd.DataFrame({"a": rng.normal(size=1000)})
    y = 10 + X.a + rng.normal(size=1000)
    X["scaled"], X["high"] = 2.2 * y - 1, (y > 10).astype(int)
    with pytest.warns(ReplicabilityWarning) as caught:
        fitted = rl.ReplicableLinearRegressor().fit(X, y)
    text = "\n".join(str(warning.message) for warning in caught)
    assert "'scaled' is a copy of the outcome" in text
    assert "'high' is the outcome, cut at a threshold" in text
    with pytest.raises(ReplearnError, match="must not publish column 'scaled'"):
        fitted.study_.save("never.json")


def outcome_remarks(**columns):
    rng = np.random.default_rng(4)
    y = columns.pop("y")
    table = open_table({"age": rng.normal(size=len(y)), **columns})
    return {r.column: r for r in learn_encoding(table, y).remarks}


def test_the_outcome_before_its_threshold_is_refused():
    rng = np.random.default_rng(5)
    hba1c = rng.normal(6, 1, 2000).round(1)
    y = (hba1c >= 6.5).astype(np.int64)
    found = outcome_remarks(y=y, hba1c=hba1c, later=hba1c + rng.normal(0, 0.1, 2000))
    assert (found["hba1c"].kind, found["hba1c"].refused) == ("copy", True)
    assert (found["later"].kind, found["later"].refused) == ("tells", False)
    # two groups of flowers are apart, and no threshold made them
    petal = np.where(y == 1, rng.normal(5, 0.3, 2000), rng.normal(1.5, 0.2, 2000))
    assert outcome_remarks(y=y, petal=petal)["petal"].kind == "tells"


def test_grades_of_the_outcome_are_refused():
    """Heart disease of grades 0 to 4, of which the outcome is "any"."""
    grade = np.random.default_rng(8).choice(5, 700, p=[0.45, 0.25, 0.1, 0.1, 0.1])
    y = (grade > 0).astype(np.int64)
    found = outcome_remarks(y=y, grade=grade, gaps=np.where(np.arange(700) < 30, np.nan, grade))
    assert (found["grade"].kind, found["grade"].refused) == ("copy", True)
    assert "before a threshold" in found["gaps"].reason
    # wards without an order that tell the outcome are asked about
    ward = np.array([3, 0, 4, 1, 2])[grade]
    assert outcome_remarks(y=y, ward=ward)["ward"].kind == "tells"


def test_a_copy_of_two_numbers_is_called_one():
    y = np.random.default_rng(8).integers(0, 2, 700)
    assert outcome_remarks(y=y, dead=y.astype(float))["dead"].reason == "is a copy of the label"


def test_numbers_that_a_name_calls_codes_are_asked_about():
    """Admission type 3 is not three times type 1."""
    rng = np.random.default_rng(7)
    y, admission = rng.integers(0, 2, 900), rng.integers(1, 9, 900)
    found = outcome_remarks(y=y, admission_type_id=admission, visits=admission)
    assert set(found) == {"admission_type_id"}
    assert not found["admission_type_id"].refused
    assert "--categories admission_type_id" in found["admission_type_id"].reason


def test_a_time_beside_an_outcome_is_asked_about():
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 2000)
    time = np.where(y == 1, rng.exponential(200, 2000), rng.exponential(900, 2000)).round()
    found = outcome_remarks(
        y=y, futime=time, time_in_hospital=time, days_to_death=time, dtime=time, rfs_time=time
    )
    assert set(found) == {"futime", "days_to_death", "dtime", "rfs_time"}
    assert "or use --time and --event" in found["futime"].reason
    chance = rng.exponential(900, 2000)
    assert outcome_remarks(y=y, futime=chance) == {}


@pytest.mark.parametrize(
    ("name", "is_centre"),
    [
        ("site", True),
        ("StudyCentre", True),
        ("hospital_id", True),
        ("clinic no", True),
        ("time_in_hospital", False),
        ("days_hospital", False),
        ("hospital_beds", False),
        ("website_visits", False),
    ],
)
def test_names_of_centres(name, is_centre):
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 1000)
    found = outcome_remarks(y=y, **{name: rng.integers(1, 9, 1000)})
    assert (name in found and found[name].kind == "centre") == is_centre


# --- codes of missing values ----------------------------------------------------------------------

RNG = np.random.default_rng(8)
AGE = RNG.normal(60, 12, 2000).round()
FEW = RNG.random(2000) < 0.02


@pytest.mark.parametrize(
    ("values", "code"),
    [
        (np.where(FEW, 999, AGE), "999"),
        (np.where(FEW, -9, RNG.integers(0, 30, 2000)), "-9"),
        (np.where(FEW, -999, RNG.normal(size=2000)), "-999"),
        (np.where(FEW, 0, RNG.normal(230, 45, 2000).round()), "0"),
        (AGE, ""),
        (np.minimum(AGE + 30, 99), ""),  # 99 and older
        (RNG.poisson(0.5, 2000), ""),
        (RNG.integers(-1, 2, 2000), ""),
        (RNG.normal(-8, 2, 2000).round(), ""),  # base excess
        (RNG.lognormal(7, 1.5, 2000), ""),
        (RNG.integers(0, 2, 2000), ""),
    ],
)
def test_codes_of_missing_values_are_asked_about(values, code):
    said = missing_code(np.sort(values.astype(np.float64)))
    assert said.startswith(f"holds {code} in ") if code else said == ""


def test_many_gaps_are_never_silent(tmp_path, capsys):
    frame = site_trial(3000).drop(columns="site")
    order = RNG.permutation(3000)
    frame["lvef"] = np.where(order < 2700, np.nan, RNG.normal(50, 8, 3000).round())
    frame["bmi"] = np.where(order >= 2640, np.nan, RNG.normal(27, 4, 3000).round(1))
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    cli.main(["publish", str(path), "--target", "died", "--out", str(tmp_path / "s.json")])
    text = " ".join(capsys.readouterr().out.split())
    # once: one sentence names all columns with gaps
    assert "'lvef' is missing" not in text
    assert "Missing values have coefficients of their own: lvef 90%, bmi 12%" in text

    # for smaller labs the gaps of bmi are too few: they have no coefficient, and it is not promised
    path = path.rename(tmp_path / "small.csv")
    options = ["publish", str(path), "--target", "died", "--rows", "150", "--out"]
    assert cli.main([*options, str(tmp_path / "small.json")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Missing values have coefficients of their own: lvef 90%. " in text
    assert "missing values count as the median, (other) or the reference: bmi 12%. " in text
    names = GlmStudy.load(tmp_path / "small.json").design.encoding.term_names
    assert "lvef missing" in names
    assert "bmi missing" not in names


def test_what_must_not_leave_is_refused_before_the_fit(tmp_path, monkeypatch, capsys):
    """Hours may lie between a command and its fit."""
    site_trial(900).assign(id=np.arange(900)).to_csv(path := tmp_path / "a.csv", index=False)
    monkeypatch.setattr(
        "replearn.study.original.read_rows", lambda *_: pytest.fail("rows were read")
    )
    options = ["publish", str(path), "--target", "died", "--out", str(tmp_path / "s.json")]
    assert cli.main(options) == 2
    assert "--drop id" in capsys.readouterr().err


# --- who is in the study --------------------------------------------------------------------------


def test_table_one_counts_by_outcome_and_hides_few(tmp_path, capsys):
    frame = site_trial(3000).drop(columns="site")
    frame.loc[:24, "killip"] = "V"  # 25 rows, of which fewer than ten died
    frame["smoker"] = (np.arange(3000) % 3 == 0).astype(int)
    frame["year"] = 1991 + np.arange(3000) % 9  # three digits of the number would make it 2e+03
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    options = ["publish", str(path), "--target", "died", "--out", str(tmp_path / "s.json")]
    cli.main([*options, "--details"])
    text = capsys.readouterr().out
    table = text[text.index("Who is in the study") :]
    assert max(map(len, text.splitlines())) <= 78
    died = frame.died == 1
    for column, value in (("arm", "drug A"), ("sex", "f")):
        line = next(row for row in table.splitlines() if f"{column} = {value}" in row)
        count = int(((frame[column] == value) & died).sum())
        assert f"{count:,} ({count / died.sum():.1%})" in line
    assert "1995 (1993, 1997)" in table
    smokers = next(row for row in table.splitlines() if row.strip().startswith("smoker"))
    assert f"{int(frame.smoker[died].sum()):,} ({frame.smoker[died].mean():.1%})" in smokers
    hidden = [row for row in table.splitlines() if "few rows" in row]
    assert any("killip = V" in row for row in hidden)
    assert len(hidden) >= 2  # or the sum over levels would tell it


# --- files ----------------------------------------------------------------------------------------


def test_columns_that_differ_in_case_only_are_said_so():
    table = {"Age": np.arange(50.0), "SEX": ["f", "m"] * 25, "y": [0, 1] * 25}
    with pytest.raises(ReplearnError, match=r"'age' is 'Age' there, 'sex' is 'SEX' there: case"):
        open_table(table, target="y", columns=["age", "sex"])


def test_check_tells_of_a_file_that_was_joined_twice():
    frame = site_trial(2000).drop(columns="site")
    fitted = rl.ReplicableLogisticClassifier().fit(frame.drop(columns="died"), frame.died)
    lab = site_trial(1000, seed=3).drop(columns="site")
    assert rl.check(fitted.study_, lab).findings == ()
    twice = rl.check(fitted.study_, pd.concat([lab, lab]))
    assert "joined twice" in str(twice)
    assert twice.n_repeated >= 1000


def test_a_page_that_holds_the_model_says_do_not_send(tmp_path, capsys):
    path = tmp_path / "a.csv"
    site_trial(2000).drop(columns="site").to_csv(path, index=False)
    page = tmp_path / "a.html"
    options = ["publish", str(path), "--target", "died", "--out", str(tmp_path / "s.json")]
    assert cli.main([*options, "--sealed", "--page", str(page)]) == 0
    assert "Do not send this page" in " ".join(capsys.readouterr().out.split())
    assert "before all fingerprints are on record: it holds the model" in page.read_text()
