"""``replearn compare`` with any number of models, as it is typed."""

import json
from dataclasses import replace

import numpy as np
import pytest

from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.codes.model import Model
from replearn.codes.space import CodeSpace
from replearn.files.modelfile import save

ENCODING = Encoding((NumberColumn("dose", "1", "2"), CategoryColumn("ward", ("east",))))
MODEL = Model(
    recipe="svm",
    n_features=2,
    fit_intercept=False,
    space=CodeSpace(2, "none", 2, "centre", "1"),
    seed="0",
    classes=("ill", "well"),
    codes=np.array([3, 0]),
    encoding=ENCODING,
)
MOVED = Encoding((NumberColumn("dose", "2.5", "2"), *ENCODING.columns[1:]))


@pytest.fixture
def folder(tmp_path):
    for name, model in {
        "lima": MODEL,
        "oslo": MODEL,
        "rome": replace(MODEL, encoding=MOVED),
        "bern": replace(MODEL, codes=np.array([0, 3])),
    }.items():
        save(model, tmp_path / f"{name}.model.json")
    (tmp_path / "study.json").write_text("{}")  # no model: a folder may hold other files
    (tmp_path / "new.csv").write_text("ward,dose\n" + "east,0\nwest,2\neast,3\nwest,9\n" * 5)
    return tmp_path


def test_a_folder_of_sites(run, folder):
    code, out, err = run("compare", folder)
    assert (code, err) == (1, "")
    assert out.startswith("different models: 3 models at 4 sites\n")
    assert "unlike A: column 'dose' of the encoding has centre '1' and '2.5'" in out
    assert "unlike A: 2 of 2 codes differ" in out
    code, out, _ = run("compare", folder / "lima.model.json", folder / "oslo.model.json")
    assert code == 0


def test_rows_that_change(run, folder):
    paths = [folder / f"{name}.model.json" for name in ("lima", "rome")]
    code, out, _ = run("compare", *paths, "--rows", folder / "new.csv")
    assert code == 1
    assert "5 of 20 given rows get another class" in out  # those with a dose of 2
    data = json.loads(run("compare", *paths, "--rows", folder / "new.csv", "--json")[1])
    assert (data["n_rows"], data["n_rows_changed"]) == (20, 5)
    assert data["parts"] == ["encoding"]
    data = json.loads(run("compare", folder, "--rows", folder / "new.csv", "--json")[1])
    changed = np.array(data["rows_changed"])
    assert (changed == changed.T).all()
    assert data["groups"][0]["sites"] == [
        str(folder / f"{name}.model.json") for name in ("lima", "oslo")
    ]
    assert len(data["fingerprints"]) == 4


@pytest.mark.parametrize("name", ["sites.svg", "sites.html"])
def test_a_picture(run, folder, name):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    code, out, _ = run("compare", folder, "--picture", folder / name)
    assert code == 1
    assert str(folder / name) in out
    assert "<svg" in (folder / name).read_text("utf-8")


def test_what_is_refused(run, folder):
    model = folder / "lima.model.json"
    (folder / "empty").mkdir()
    for arguments, message in (
        ([model], "at least two model files, got 1"),
        ([model, model], "at least two model files, got 1"),
        ([model, folder / "empty"], "must hold files *.model.json, got none"),
        ([folder, "--picture", folder / "x.png"], "must end in .svg or .html"),
        ([folder, "--site", "oslo"], "--site, --out and --protocol belong to --commit"),
        (["--commit", model, "--rows", "x.csv"], "--rows and --picture are for models"),
        ([folder, "--rows", folder / "none.csv"], "none.csv"),
    ):
        code, out, err = run("compare", *arguments)
        assert (code, out) == (2, ""), arguments
        assert message in err
        assert err.count("\n") == 1
