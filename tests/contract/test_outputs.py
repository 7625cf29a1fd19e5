"""What commands write: formulas, seals, and files that must not be written over."""

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from replearn.datasets import make_margin
from tests.contract.commands import lab, replearn


def test_sealed_until_it_is_opened(inside: Path, tmp_path: Path) -> None:
    study = tmp_path / "s.json"
    assert replearn("publish", "a.csv", "--target", "died", "--out", study, "--sealed")[0] == 0
    opening = tmp_path / "a.opening.json"
    assert (opening.stat().st_mode & 0o077) == 0
    assert (tmp_path / "a.model.json").stat().st_mode & 0o077 == 0
    code, text, _ = replearn("replicate", study, "b.csv", "--json")
    assert (code, json.loads(text)["same"]) == (0, None)
    code, text, _ = replearn("replicate", study, "b.csv", "--opened", opening, "--json")
    assert (code, json.loads(text)["same"]) == (0, True)
    begin = ("combine", study, "--begin", "--opened", opening, "--out", tmp_path / "first.json")
    code, _, errors = replearn(*begin)
    assert (code, "got its opening alone" in errors) == (2, True)
    kept = json.loads(opening.read_text())
    del kept["fingerprint"]
    for name, value, words in (
        ("study", "0" * 64, "opens a different study"),
        ("nonce", "0" * 32, "must hold the nonce and the model that the study commits to"),
        ("model", "0" * 64, "must hold the nonce and the model that the study commits to"),
    ):
        opening.write_text(json.dumps(kept | {name: value}))
        code, _, errors = replearn("replicate", study, "b.csv", "--opened", opening)
        assert code == 2
        assert words in errors


def test_sums_of_a_row_more_are_refused(inside: Path, tmp_path: Path) -> None:
    """The difference of two answers to one study is what a single patient adds."""
    rows = lab("Birchwood")
    study, table, sums = tmp_path / "s.json", tmp_path / "b.csv", tmp_path / "b.sums.json"
    assert replearn("publish", "a.csv", "--target", "died", "--out", study)[0] == 0
    call = ["sums", study, table, "--lab", "b", "--out", sums]
    rows.to_csv(table, index=False)
    assert replearn(*call)[0] == 0
    assert replearn(*call)[0] == 0  # the same again
    first = sums.read_bytes()

    turned = rows.copy()
    turned.loc[7, "died"] = 1 - turned.loc[7, "died"]
    for other in (rows[1:], turned):
        other.to_csv(table, index=False)
        code, _, errors = replearn(*call)
        assert code == 2
        assert "the difference of both shows single rows" in " ".join(errors.split())
        assert sums.read_bytes() == first
    rows[20:].to_csv(table, index=False)
    assert replearn(*call)[0] == 0

    # and so of columns, before there is a study; without one of them the others tell the same
    call = ["sums", table, "--target", "died", "--lab", "b", "--out", tmp_path / "b.columns.json"]
    assert replearn(*call)[0] == 0
    assert replearn(*call, "--drop", "age")[0] == 0
    rows[21:].to_csv(table, index=False)
    code, _, errors = replearn(*call)
    assert code == 2
    assert "shows single rows" in " ".join(errors.split())


def test_predictions_and_rehearsals_hold_no_formulas(inside: Path, tmp_path: Path) -> None:
    """Labels and levels that a spreadsheet would compute; a rehearsal is read as it was meant."""
    table = lab("Ashford")
    table["died"] = np.where(table["died"] == 1, "=cmd()", "alive")
    table["ward"] = np.where(table["ward"] == "north", "@north", "-south")
    table.to_csv(tmp_path / "a.csv", index=False)
    study = tmp_path / "study.json"
    publish = ["publish", tmp_path / "a.csv", "--target", "died", "--out", study]
    assert replearn(*publish)[0] == 0
    code, text, _ = replearn("predict", tmp_path / "a.model.json", tmp_path / "a.csv")
    assert code == 0
    assert "'=cmd()," in text
    assert not any(line.startswith("=") for line in text.splitlines())

    code, text, _ = replearn("bundle", study, "--out", tmp_path / "bundle", "--json")
    assert code == 0
    page = (tmp_path / "bundle" / "study.html").read_bytes()
    assert json.loads(text)["page_sha256"] == sha256(page).hexdigest()
    rehearsal = tmp_path / "bundle" / "rehearsal.csv"
    assert not re.search(r'(^|,)"?[=@-]', rehearsal.read_text(), re.MULTILINE)
    code, _, errors = replearn("replicate", study, rehearsal)
    assert code == 1, errors  # its labels are invented


@pytest.mark.slow
def test_of_two_that_publish_sealed_at_one_time_one_succeeds(inside: Path, tmp_path: Path) -> None:
    publish = ["publish", "a.csv", "--target", "died", "--sealed", "--out", tmp_path / "s.json"]
    command = [sys.executable, "-m", "replearn", *map(str, publish)]
    runs = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for _ in range(3)]
    assert sorted(run.wait() for run in runs)[0] == 0
    opening = tmp_path / "a.opening.json"
    code, text, _ = replearn(
        "replicate", tmp_path / "s.json", "b.csv", "--opened", opening, "--json"
    )
    assert (code, json.loads(text)["same"]) == (0, True)


@pytest.mark.slow
def test_what_an_earlier_study_needs_is_kept(inside: Path, tmp_path: Path) -> None:
    first, second = (tmp_path / f"{name}.json" for name in ("one", "two"))
    publish = ["publish", "a.csv", "--target", "died", "--out"]
    assert replearn(*publish, first, "--sealed")[0] == 0
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(kept) == {"one.json", "a.model.json", "a.opening.json"}
    for change, name in ((["--seed=7"], "a.model.json"), (["--rows=500"], "a.model.json"),
                         (["--seed=7", "--sealed"], "a.opening.json")):  # fmt: skip
        code, _, errors = replearn(*publish, second, *change)
        assert code == 2
        assert f"{name} is there already" in errors
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept
    # the same model again is harmless, and the same study
    assert replearn(*publish, second, "--sealed")[0] == 0
    assert second.read_bytes() == kept["one.json"]
    second.unlink()
    assert replearn(*publish, second)[0] == 0


@pytest.mark.parametrize(
    "call",
    [
        "publish t.csv --target died --out t.csv",
        "shuffle t.csv --out ./t.csv",
        "check study.json t.csv --page t.csv",
    ],
)
def test_a_table_is_not_written_over(inside: Path, call: str) -> None:
    (inside / "t.csv").write_bytes((inside / "a.csv").read_bytes())
    code, _, errors = replearn(*call.split())
    assert code == 2
    assert "is a file that this command needs" in errors
    assert (inside / "t.csv").read_bytes() == (inside / "a.csv").read_bytes()


@pytest.mark.parametrize("over", ["patients.csv", "own.opening.json", "linked.json"])
@pytest.mark.parametrize(
    "call",
    [
        "publish a.csv --target died --out {f}",
        "publish a.csv --target died --out {tmp}/s.json --keep {f}",
        "replicate linked.json b.csv --out {f}",
        "predict a.model.json new.csv --out {f}",
        "export a.model.json --out {f}",
        "sums linked.json lab.parquet --out {f}",
        "combine linked.json --begin --out {f}",
        "fit data.csv --target y --margin 0.4 --out {f}",
        "fit data.csv --target y --margin 0.4 --bits 2 --study-out {f}",
        "shuffle a.csv --out {f}",
        "bundle study.json --out {f}",
    ],
)
def test_no_command_writes_over_what_is_not_its_own(
    inside: Path, tmp_path: Path, call: str, over: str
) -> None:
    """A table, a file of a different kind, and a study that is read under a different name."""
    (inside / "patients.csv").write_bytes((inside / "a.csv").read_bytes())
    (inside / "own.opening.json").write_text('{"format":"replearn/opening"}')
    (inside / "linked.json").write_bytes((inside / "study.json").read_bytes())
    before = (inside / over).read_bytes()
    code, _, errors = replearn(*call.format(f=f"./{over}", tmp=tmp_path).split())
    assert code == 2, errors
    assert (inside / over).read_bytes() == before
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("page", ["page.html", "notes.html"])
def test_a_page_replaces_pages_of_replearn_alone(inside: Path, tmp_path: Path, page: str) -> None:
    path = tmp_path / page
    path.write_text("<!DOCTYPE html><html>mine</html>")
    if page == "page.html":
        path.unlink()
        assert replearn("show", "study.json", "--page", path)[0] == 0
    before = path.read_bytes()
    code, _, errors = replearn("check", "study.json", "b.csv", "--page", path)
    assert code == (2 if page == "notes.html" else 0)
    assert ("is no page of replearn" in errors) == (page == "notes.html")
    assert (path.read_bytes() == before) == (page == "notes.html")


@pytest.mark.parametrize(
    "call",
    [
        "combine {tmp}/a.columns.json --out {f}",
        "combine study.json {tmp}/a.sums.json --publish --out {f}",
        "fit data.csv --target y --margin 0.4 --bits 2 --study-out {f}",
    ],
)
def test_no_study_is_lost(inside: Path, tmp_path: Path, call: str) -> None:
    """A draft, a state and a study of halfspaces have the name of a study that others may have."""
    path = tmp_path / "theirs.json"
    words = call.format(f=path, tmp=tmp_path).split()
    path.write_bytes((inside / "study.json").read_bytes())
    for other in (
        f"sums a.csv --target died --out {tmp_path}/a.columns.json",
        f"sums study.json a.csv --out {tmp_path}/a.sums.json",
    ):
        assert replearn(*other.split())[0] == 0
    if words[0] == "fit":
        path.unlink()
        assert replearn(*words)[0] == 0
    before = path.read_bytes()
    code, _, errors = replearn(*words)
    assert code == 2
    assert "Name a new file, or delete it first" in " ".join(errors.split())
    assert path.read_bytes() == before


def test_a_round_replaces_no_study(inside: Path, tmp_path: Path) -> None:
    path = tmp_path / "first.json"
    path.write_bytes((inside / "study.json").read_bytes())
    before = path.read_bytes()
    code, _, errors = replearn("combine", "study.json", "--begin", "--out", path)
    assert code == 2
    assert "is there and is no replearn/state or replearn/model/glm" in errors
    assert path.read_bytes() == before


def test_a_sealed_original_that_was_stopped_is_finished(inside: Path, tmp_path: Path) -> None:
    """Whoever stops between opening and study begins again, and gets the study of the opening."""
    call = ("publish", "a.csv", "--target", "died", "--out", tmp_path / "s.json", "--sealed")
    assert replearn(*call)[0] == 0
    before = (tmp_path / "s.json").read_bytes()
    (tmp_path / "s.json").unlink()
    assert replearn(*call)[0] == 0
    assert (tmp_path / "s.json").read_bytes() == before


@pytest.mark.parametrize("model", ["a.model.json", "svm.json"])
def test_a_model_is_exported_by_a_process_that_did_nothing_else(
    inside: Path, tmp_path: Path, model: str
) -> None:
    """Every kind of file is known before the first one is read."""
    if model == "svm.json":
        model = str(tmp_path / model)
        call = f"fit data.csv --target y --margin 0.4 --out {model}"
        assert replearn(*call.split())[0] == 0
    words = ["-m", "replearn", "export", model, "--out", str(tmp_path / "fresh.sql")]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_private_model_stays_what_it_is(inside: Path) -> None:
    before = (inside / "a.model.json").read_bytes()
    code, _, errors = replearn("replicate", "study.json", "b.csv", "--out", "a.model.json")
    assert code == 2
    assert "is private" in errors
    assert (inside / "a.model.json").read_bytes() == before


def test_warnings_of_many_fits_do_not_hide_the_answer(inside: Path) -> None:
    """An audit of labs with 50 rows printed 38 lines, nearly all of them about rare levels."""
    audit = ("audit", "a.csv", "--target", "died", "--rows", "50", "--pairs", "10")
    _, text, errors = replearn(*audit)
    assert "of 10 pairs both labs got the same model" in text
    assert errors.count("replearn: warning: ") <= 6
    assert re.search(r"\d+ more warnings?: see --json\.", errors)
    _, text, _ = replearn(*audit, "--json")
    assert len(json.loads(text)["warnings"]) > 5


def test_no_estimate_says_that_labs_never_differ(inside: Path, tmp_path: Path) -> None:
    X, y = make_margin(20_000, 3, 0.4, random_state=1)
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    code, text, _ = replearn("fit", tmp_path / "rows.npz", "--margin", "0.3")
    assert code == 0
    assert "of the same population gets this model in >99.9% of cases" in " ".join(text.split())
