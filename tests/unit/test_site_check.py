"""`check_file` finds what would stop a fit: the same as the fit, and with a guess at the remedy."""

import json

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.audits.site_check import check_file
from replearn.errors import ReplearnError

N = 1500


def draw(seed, n_rows=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(50, 10, n_rows), "dose": rng.normal(size=n_rows)})
    frame["sex"] = rng.choice(["female", "male"], n_rows)
    score = (frame["age"] - 50) / 10 + frame["dose"] + (frame["sex"] == "male")
    frame["label"] = np.where(score > 0.5, "ill", "well")
    frame.loc[rng.random(n_rows) < 0.1, "dose"] = np.nan
    return frame


@pytest.fixture(scope="module")
def protocol():
    pilot = draw(0, 400)
    return rl.plan_from_pilot(
        pilot.drop(columns="label"),
        pilot["label"].to_numpy(),
        samples_per_site=N,
        algorithm="svm",
        target="label",
    ).protocol


SITE = draw(1)
COMMAS = SITE.assign(age=[f"{age:.1f}".replace(".", ",") for age in SITE["age"]])

#: A site's table, and what is said about it.
STOPS = {
    "upper case": (SITE.assign(sex=SITE["sex"].str.upper()), "(is it 'male'?)"),
    "another name": (SITE.rename(columns={"age": "Age"}), "'age' is not there. Is it 'Age'?"),
    "no column": (SITE.drop(columns="age"), "'age' is not there. Add it."),
    "no label": (SITE.drop(columns="label"), "label column 'label' is not there"),
    "other labels": (SITE.replace({"ill": "Ill"}), "Does it write 'Ill' for 'ill'?"),
    "one class": (SITE[SITE["label"] == "ill"], "got one class"),
    "a missing label": (SITE.assign(label=SITE["label"].where(SITE["age"] > 30)), "is empty in"),
    "commas": (COMMAS, "Write a point where numbers have a comma"),
    "text": (SITE.assign(dose=SITE["dose"].astype(str).where(SITE["age"] > 30, "high")),
             "must hold numbers, got 'high'"),
    "infinite": (SITE.assign(age=SITE["age"].where(SITE["age"] > 30, np.inf)), "got 'inf'"),
    "missing": (SITE.assign(age=SITE["age"].where(SITE["age"] > 30)), "does not say what to do"),
    "empty": (SITE.assign(dose=np.nan), "'dose' has no value in any row"),
}  # fmt: skip


@pytest.mark.parametrize("name", STOPS)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_what_stops_the_fit_is_found(protocol, tmp_path, name, kind):
    table, words = STOPS[name]
    path = tmp_path / f"site.{kind}"
    table.to_csv(path, index=False) if kind == "csv" else table.to_parquet(path)
    found = check_file(protocol, path)
    assert not found.ok
    assert words in str(found)
    assert found.findings[0].kind == "stops"
    with pytest.raises(ReplearnError):
        rl.fit_file(protocol.estimator(), path, "label")
    json.dumps(found.data(), allow_nan=False)


@pytest.mark.parametrize("mark", [";", "\t"])
def test_semicolons_and_tabs_are_read_as_what_they_are(protocol, tmp_path, mark):
    SITE.to_csv(tmp_path / "site.csv", index=False, sep=mark)
    assert check_file(protocol, tmp_path / "site.csv").ok


def test_other_separators_are_named(protocol, tmp_path):
    SITE.to_csv(tmp_path / "site.csv", index=False, sep="|")
    found = check_file(protocol, tmp_path / "site.csv")
    assert not found.ok
    assert "are separated by bars" in str(found)
    assert "is not there" not in str(found)


#: Tables with which the fit goes on, and what is said about them.
GOES_ON = {
    "as planned": (SITE, "1,500 rows; the study planned for 1,500"),
    "another order": (SITE[SITE.columns[::-1]], "labels: "),
    "more columns": (SITE.assign(ward=1, nurse="x"), "not used: 'ward', 'nurse'"),
    "some unknown": (SITE.assign(sex=SITE["sex"].where(SITE["age"] > 33, "x")), "taken as unknown"),
    "another unit": (SITE.assign(age=365 * SITE["age"]), "Is it in the same unit?"),
    "one unknown": (
        SITE.assign(sex=["x", *SITE["sex"][1:]]),
        "0.1% of its values are not published: 'x' once",
    ),
    "few rows": (SITE[:300], "300 rows, where the study planned for 1,500"),
    "no men": (SITE[SITE["sex"] == "female"].sample(1200, replace=True), "no row has 'male'"),
}


@pytest.mark.parametrize("name", GOES_ON)
def test_what_does_not_stop_the_fit_is_told(protocol, tmp_path, name):
    table, words = GOES_ON[name]
    table.to_csv(tmp_path / "site.csv", index=False)
    found = check_file(protocol, tmp_path / "site.csv")
    assert found.ok, str(found)
    assert words in str(found)
    assert str(found).endswith("a fit would start")
    assert found.n_rows == len(table)
    assert sum(found.labels.values()) == len(table)


def test_counts_are_those_of_the_fit(protocol, tmp_path):
    table = SITE.assign(sex=SITE["sex"].where(SITE["age"] > 33, "x"))
    table.to_csv(tmp_path / "site.csv", index=False)
    found = check_file(protocol, tmp_path / "site.csv")
    seen = protocol.encoding.counted(table.drop(columns="label"))[1]
    assert found.columns == protocol.encoding.counts(seen)


def test_files_without_names_are_read_through(tmp_path):
    X, y = rl.datasets.make_margin(400, 3, margin=0.3, random_state=0)
    protocol = rl.plan_from_pilot(X, y, samples_per_site=400, algorithm="svm").protocol
    np.savez(tmp_path / "a.npz", X=X, y=y)
    assert check_file(protocol, tmp_path / "a.npz").ok
    np.savez(tmp_path / "b.npz", X=X[:, :2], y=y)
    assert not check_file(protocol, tmp_path / "b.npz").ok
    np.savez(tmp_path / "c.npz", X=X, y=y + 5)
    assert "must hold the labels" in str(check_file(protocol, tmp_path / "c.npz"))
    assert not check_file(protocol, tmp_path / "nowhere.csv").ok
