"""`replearn evaluate`, and what `fit` and `predict` say about the worth of a model."""

import json

import numpy as np
import pytest

from replearn import cli
from replearn.datasets import make_margin

pd = pytest.importorskip("pandas")

FIT = ["--target", "label", "--margin", "0.3", "--seed", "7"]


def write(path, seed, n_rows=4000, noise=0.05):
    X, y = make_margin(n_rows, 3, margin=0.3, random_state=seed)
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(y.size) < noise, -y, y)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["label"] = np.where(y > 0, "ill", "well")
    frame.to_csv(path, index=False)
    frame["site"] = rng.choice(["north", "south"], size=y.size)
    frame.to_csv(path.with_suffix(".wide.csv"), index=False)
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("evaluate")
    write(folder / "new.csv", 2)
    data = write(folder / "a.csv", 1)
    assert cli.main(["fit", data, *FIT, "--out", str(folder / "a.json")]) == 0
    return folder


@pytest.fixture
def run(capsys):
    def call(*arguments, code=0):
        capsys.readouterr()
        assert cli.main([str(argument) for argument in arguments]) == code
        return capsys.readouterr()

    return call


def test_fit_says_what_the_model_is_worth_on_its_own_rows(folder, run):
    out = run("fit", folder / "a.csv", *FIT).out
    assert "on its own rows, which the model has seen" in out
    assert "balanced accuracy" in out
    data = json.loads(run("fit", folder / "a.csv", *FIT, "--json").out)
    assert data["worth"]["rows"] == 4000
    assert data["worth"]["flags"] == []


def test_fit_warns_of_a_model_that_knows_nothing(tmp_path, run):
    data = write(tmp_path / "noise.csv", 5, noise=0.5)
    done = run("fit", data, *FIT, "--json")
    assert json.loads(done.out)["worth"]["flags"]
    assert "replearn: warning:" in done.err


def test_evaluate_knows_the_label_column_of_the_fit(folder, run):
    named = run("evaluate", folder / "a.json", folder / "new.csv", "--target", "label").out
    assert run("evaluate", folder / "a.json", folder / "new.csv").out == named
    for words in ("AUC", "balanced accuracy", "always", "true well", "no log-loss"):
        assert words in named


def test_evaluate_without_labels_is_refused(folder, tmp_path, run):
    pd.read_csv(folder / "new.csv").drop(columns="label").to_csv(tmp_path / "x.csv", index=False)
    assert "--target" in run("evaluate", folder / "a.json", tmp_path / "x.csv", code=2).err


def test_evaluate_by_group_as_json_and_as_a_page(folder, tmp_path, run):
    pytest.importorskip("matplotlib")
    page = tmp_path / "page.html"
    done = run(
        "evaluate",
        folder / "a.json",
        folder / "new.wide.csv",
        "--by",
        "site",
        "--report",
        page,
        "--json",
    )
    data = json.loads(done.out)
    assert [group["group"] for group in data["groups"]] == ["north", "south"]
    assert data["report"] == str(page)
    assert data["warnings"] == []
    assert "By site" in page.read_text()


def test_predict_offers_an_evaluation_of_labelled_rows(folder, tmp_path, run):
    out = tmp_path / "pred.csv"
    assert (
        "replearn evaluate"
        in run("predict", folder / "a.json", folder / "new.csv", "--out", out).out
    )
    pd.read_csv(folder / "new.csv").drop(columns="label").to_csv(tmp_path / "x.csv", index=False)
    assert "evaluate" not in run("predict", folder / "a.json", tmp_path / "x.csv", "--out", out).out
