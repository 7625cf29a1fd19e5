"""Sites that code columns differently: counted at every fit, evaluation, prediction and audit."""

import json

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn import cli
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn, Seen
from replearn.errors import ReplearnError, ReplicabilityWarning

N = 3000


def draw(seed, n_rows=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(50, 10, n_rows), "dose": rng.normal(size=n_rows)})
    frame["sex"] = rng.choice(["female", "male"], n_rows)
    frame["unit"] = rng.choice(["a", "b", *"qrstuvwxyz"], n_rows, p=[0.45, 0.45, *[0.01] * 10])
    score = (frame["age"] - 50) / 10 + frame["dose"] + (frame["sex"] == "male")
    frame["label"] = np.where(score > 0.5, "ill", "well")
    frame.loc[rng.random(n_rows) < 0.1, "dose"] = np.nan
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("codes")
    pilot = draw(0, 500)
    plan = rl.plan_from_pilot(
        pilot.drop(columns="label"),
        pilot["label"].to_numpy(),
        samples_per_site=N,
        algorithm="svm",
    )
    plan.protocol.save(folder / "study.json")
    site = draw(1)
    site.to_csv(folder / "good.csv", index=False)
    site.assign(sex=site["sex"].str.upper()).to_csv(folder / "upper.csv", index=False)
    site.assign(dose=np.nan).to_csv(folder / "empty.csv", index=False)
    return folder


@pytest.fixture
def run(folder, capsys):
    def call(command, data, *arguments, code=0):
        capsys.readouterr()
        options = ["--target", "label", "--protocol", str(folder / "study.json")]
        options = options if command in ("fit", "audit") else []
        found = cli.main([command, *map(str, data), *options, *map(str, arguments)])
        captured = capsys.readouterr()
        assert found == code, captured.err
        return captured

    return call


def test_counts_stand_in_the_file_and_in_the_output(folder, run, tmp_path):
    out = tmp_path / "a.json"
    done = run("fit", [folder / "good.csv"], "--out", out)
    assert "of 3,000 rows: dose" in done.out
    provenance = json.loads(out.read_text())["provenance"]
    n_missing = int(draw(1)["dose"].isna().sum())
    assert provenance["columns"]["dose"] == {"missing": n_missing, "unknown": 0}
    assert set(provenance["columns"]) == {"dose", "unit"}  # of unit the rare ones
    assert 0.5 < float(provenance["worth"]["auc"]) <= 1
    assert provenance["target"] == "label"


@pytest.mark.parametrize("memory", [[], ["--memory", "1K"]], ids=["in memory", "out of core"])
def test_upper_case_stops_the_fit(folder, run, memory):
    err = run("fit", [folder / "upper.csv"], *memory, code=2).err
    assert "column 'sex' has values that the protocol does not know in 3,000 of 3,000" in err
    assert "it knows 'female', 'male'" in err
    assert "--allow-unknown" in err
    assert err.count("\n") == 1


def test_an_empty_column_stops_the_fit(folder, run):
    assert "'dose' has no value in any" in run("fit", [folder / "empty.csv"], code=2).err


def test_it_can_be_allowed(folder, run, tmp_path):
    out = tmp_path / "a.json"
    done = run("fit", [folder / "upper.csv"], "--allow-unknown", "--out", out)
    assert "is coded differently" in done.err
    counts = json.loads(out.read_text())["provenance"]["columns"]
    assert counts["sex"] == {"missing": 0, "unknown": N}


def test_audits_stop_too(folder, run):
    assert "column 'sex'" in run("audit", [folder / "upper.csv"], "--pairs", 2, code=2).err


def test_predictions_and_evaluations_warn(folder, run, tmp_path):
    out = tmp_path / "a.json"
    run("fit", [folder / "good.csv"], "--out", out)
    done = run("predict", [out, folder / "upper.csv"], "--out", tmp_path / "p.csv")
    assert "is coded differently" in done.err
    assert "sex 3,000 unknown" in done.out
    done = run("evaluate", [out, folder / "upper.csv"], "--json")
    data = json.loads(done.out)
    assert data["columns"]["sex"] == {"missing": 0, "unknown": N}
    assert any("coded differently" in warning for warning in data["warnings"])


@pytest.mark.filterwarnings("ignore:Another lab would get")  # what is coded is the subject
def test_tables_in_memory_warn(folder):
    site = draw(1)
    protocol = rl.Protocol.load(folder / "study.json")
    X, y = site.drop(columns="label"), site["label"]
    upper = X.assign(sex=X["sex"].str.upper())
    with pytest.warns(ReplicabilityWarning, match="X is coded differently: column 'sex'"):
        protocol.estimator().fit(upper, y)
    fitted = protocol.estimator().fit(X, y)
    assert fitted.seen_.missing[1] == site["dose"].isna().sum()
    with pytest.warns(ReplicabilityWarning, match="column 'sex'"):
        fitted.predict(upper)


@pytest.mark.filterwarnings("ignore:Another lab would get")  # what is coded is the subject
def test_files_in_python_stop(folder):
    protocol = rl.Protocol.load(folder / "study.json")
    with pytest.raises(ReplearnError, match="pass allow_unknown"):
        rl.fit_file(protocol.estimator(), folder / "upper.csv", "label")
    fitted = rl.fit_file(protocol.estimator(), folder / "upper.csv", "label", allow_unknown=True)
    assert fitted.seen_.unknown[2] == N


# --- what counts as differently ----------------------------------------------------------------

COLUMNS = Encoding(
    (
        NumberColumn("n", "0", "1", True),
        CategoryColumn("c", ("x",)),
        CategoryColumn("o", ("x",), "0.4"),
    )
)


@pytest.mark.parametrize(
    ("n_rows", "missing", "unknown", "columns"),
    [
        (1000, (0, 0, 0), (0, 50, 400), []),
        (1000, (0, 0, 0), (0, 51, 0), ["c"]),
        (1000, (0, 900, 0), (0, 6, 0), ["c"]),  # of those that have a value
        (1000, (0, 0, 0), (0, 0, 490), []),  # chance
        (1000, (0, 0, 0), (0, 0, 600), ["o"]),
        (1000, (1000, 999, 0), (0, 0, 0), ["n"]),
        (19, (19, 0, 0), (0, 19, 19), []),  # so few rows say nothing
    ],
)
def test_more_than_five_per_cent_are_too_many(n_rows, missing, unknown, columns):
    troubles = COLUMNS.troubles(Seen(n_rows, missing, unknown))
    assert [trouble.split("'")[1] for trouble in troubles] == columns


def test_counts_add_up():
    total = Seen(10, (1, 2), (0, 3)) + Seen(5, (0, 1), (1, 0))
    assert total == Seen(15, (1, 3), (1, 3))
    values = {"n": [1.0, None, 2.0], "c": ["x", "y", None], "o": ["y", "x", "x"]}
    table = {name: np.array(cells, dtype=object) for name, cells in values.items()}
    X, seen = COLUMNS.counted(table)
    assert seen == Seen(3, (1, 1, 0), (0, 1, 1))
    assert (COLUMNS.transform(table) == X).all()
    assert COLUMNS.counts(seen) == {
        "n": {"missing": 1, "unknown": 0},
        "c": {"missing": 1, "unknown": 1},
        "o": {"missing": 0, "unknown": 1},
    }
