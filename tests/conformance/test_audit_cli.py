"""The commands of a study: audit, table, plan, commit and reveal."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.cli import main
from replearn.cli.options import ALGORITHMS
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("study")
    for name, seed in (("a", 1), ("b", 2)):
        X, y = rl.datasets.make_margin(6000, 4, margin=0.3, random_state=seed)
        np.savez(place / f"{name}.npz", X=X, y=np.where(y > 0, "ill", "well"))
        main(
            f"fit {place}/{name}.npz --margin .3 --max-error .2 --out {place}/{name}.model.json "
            "--json".split()
        )
    return place


PARAMETERS = {
    "batch_size": 100, "failure_prob": "0.05", "fit_intercept": True, "grid_width": "0.8",
    "margin": "0.3", "max_disagreement": "0.5", "max_error": "0.05", "n_components": 4,
    "projection": "none", "regularization": "0.1", "rounding": "centre", "unit_mean": True,
}  # fmt: skip
EASY = ("--margin", ".3", "--max-error", ".3", "--jobs", "1")


def test_audit_says_within_and_exits_with_0(folder, run):
    code, out, _ = run(
        "audit", folder / "a.npz", *EASY, "--max-disagreement", ".9", "--pairs", "10",
        "--json",
    )  # fmt: skip
    data = json.loads(out)
    assert (code, data["verdict"]) == (0, "within")
    assert [question["question"] for question in data["questions"]] == ["parts", "halves"]
    assert data["clean_pairs_needed"] == 2
    assert data["command"].startswith("replearn audit ")


def test_audit_says_exceeds_and_exits_with_1(folder, run):
    code, out, _ = run(
        "audit", folder / "a.npz", "--margin", ".01", "--max-error", ".001",
        "--max-disagreement", ".01", "--pairs", "8", "--question", "parts", "--jobs", "1",
    )  # fmt: skip
    assert code == 1
    assert out.startswith("Audit: exceeds 0.01")


def test_audit_says_undecided_and_exits_with_3(folder, run):
    code, out, _ = run("audit", folder / "a.npz", *EASY, "--pairs", "3", "--question", "halves")
    assert code == 3
    assert "29 clean pairs are the fewest that show 0.1" in out


def test_audit_writes_a_report_and_goes_on_from_its_checkpoint(folder, run, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    arguments = (
        "audit", folder / "a.npz", *EASY, "--pairs", "3", "--question", "halves",
        "--report", tmp_path / "audit.html", "--checkpoint", tmp_path / "audit.json",
    )  # fmt: skip
    first = run(*arguments)
    page = (tmp_path / "audit.html").read_bytes()
    assert b"replearn audit" in page
    assert run(*arguments) == first
    assert (tmp_path / "audit.html").read_bytes() == page
    assert not list(tmp_path.glob(".*"))


def test_audit_by_protocol(folder, run, tmp_path):
    columns = tuple(NumberColumn(f"x{i}", "0", "1") for i in range(4))
    parameters = PARAMETERS | {"n_components": 5}
    protocol = rl.Protocol("svm", parameters, "7", ("ill", "well"), Encoding(columns), None, {})
    protocol.save(tmp_path / "study.json")
    code, out, err = run(
        "audit", folder / "a.npz", "--protocol", tmp_path / "study.json", "--pairs", "4",
        "--question", "halves", "--jobs", "1", "--json",
    )  # fmt: skip
    assert code in (0, 1, 3), err
    data = json.loads(out)
    assert (data["published_seed"], data["max_disagreement"]) == ("7", 0.5)
    for command in ("audit", "fit"):
        code, _, err = run(
            command, folder / "a.npz", "--protocol", tmp_path / "study.json", "--lock",
            "0" * 64,
        )  # fmt: skip
        assert code == 2
        assert "It has been changed" in err


def test_audit_by_protocol_reads_the_rows_that_fit_reads(run, tmp_path):
    # codes such as 00701 would be numbers, and so no known categories, if they were read otherwise
    rng = np.random.default_rng(3)
    codes, noise = rng.integers(0, 2, 3000), rng.normal(size=3000)
    lines = (f"0070{code},{x:.3f},{code}" for code, x in zip(codes, noise, strict=True))
    (tmp_path / "rows.csv").write_text("\n".join(["clinic,x,ill", *lines]) + "\n")
    columns = (CategoryColumn("clinic", ("00700", "00701")), NumberColumn("x", "0", "10"))
    protocol = rl.Protocol("svm", PARAMETERS, "7", (0, 1), Encoding(columns), None, {})
    protocol.save(tmp_path / "study.json")
    given = (tmp_path / "rows.csv", "--target", "ill", "--protocol", tmp_path / "study.json")
    code, out, err = run("fit", *given, "--out", tmp_path / "a.model.json", "--json")
    assert code == 0, err
    table = pd.read_csv(tmp_path / "rows.csv", dtype={"clinic": str})
    model = rl.load(tmp_path / "a.model.json")
    assert (model.predict(table[["clinic", "x"]]) != table["ill"]).mean() < 0.01
    code, out, err = run(
        "audit", *given, "--pairs", "3", "--question", "halves", "--json", "--allow-copies"
    )
    assert code in (0, 1, 3), err
    assert json.loads(out)["questions"][0]["test_error"] < 0.01


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_audit_of_each_algorithm(folder, run, algorithm):
    arguments = ("audit", folder / "a.npz", *EASY, "--algorithm", algorithm, "--pairs", "3")
    code, out, _ = run(*arguments, "--question", "halves", "--json")
    data = json.loads(out)
    assert code == {"within": 0, "exceeds": 1, "undecided": 3}[data["verdict"]]
    assert data["algorithm"] == algorithm
    assert data["compared"] == "the model's integer codes (by fingerprint)"
    code, out, _ = run(*arguments, "--question", "parts")
    assert code in (0, 1, 3)
    has_cells = algorithm in ("svm", "sgd")  # the others have codes, but no walls to be near to
    assert ("codes in" in out) == has_cells


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--pairs", "0"), "whole number of at least 1"),
        (("--confidence", "95"), "must be a number in (0, 1)"),
        (("--question", "thirds"), "invalid choice"),
        (("--report", "/no/such/folder/x.html"), "is no folder"),
        (("--max-disagreement", "5"), "for 5 % pass 0.05"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(folder, refused, arguments, words):
    assert words in refused("audit", folder / "a.npz", *arguments)


# --- plan and table -----------------------------------------------------------------------------


def test_table_has_six_rows(run):
    code, out, _ = run("table", "--features", "10", "--json")
    assert code == 0
    assert len(json.loads(out)["rows"]) == 6
    code, out, _ = run("table", "--features", "10")
    assert "Algorithm 1" in out


def test_plan_solves_and_refuses(run):
    code, out, _ = run(
        "plan", "--features", "10", "--margin", ".2", "--samples", "50000", "--solve",
        "max-disagreement", "--json",
    )  # fmt: skip
    data = json.loads(out)
    assert code == 0
    assert data["n_samples"] <= 50000
    assert data["max_disagreement"] < 0.1
    code, _, err = run("plan", "--features", "10", "--samples", "50000", "--mode", "certified")
    assert code == 2
    assert "certified mode needs" in err
    code, out, _ = run("plan", "--features", "10", "--algorithm", "sgd", "--sites", "4")
    assert code == 0
    assert "4 sites all agree" in out


# --- commit and reveal --------------------------------------------------------------------------


def test_commit_then_reveal(folder, run, tmp_path):
    for site in "ab":
        code, out, _ = run(
            "compare", "--commit", folder / f"{site}.model.json", "--site", site, "--out",
            tmp_path / site, "--json",
        )  # fmt: skip
        assert code == 0
        print_ = rl.load(folder / f"{site}.model.json").fingerprint
        commitment = Path(json.loads(out)["commitment"]).read_text()
        assert print_ not in commitment
    files = sorted(tmp_path.glob("*.json"))
    code, out, _ = run("compare", "--reveal", *files, "--json")
    same = rl.load(folder / "a.model.json") == rl.load(folder / "b.model.json")
    assert json.loads(out)["same"] == same
    assert code == (0 if same else 1)
    code, _, err = run("compare", "--reveal", *files[:-1])
    assert code == 2
    assert "each site must have" in err


def test_a_commitment_is_never_replaced(folder, run, tmp_path):
    arguments = (
        "compare", "--commit", folder / "a.model.json", "--site", "a", "--out", tmp_path / "a",
    )  # fmt: skip
    assert run(*arguments)[0] == 0
    code, _, err = run(*arguments)
    assert code == 2
    assert "must not change" in err


def test_compare_needs_two_models_and_commit_needs_a_site(folder, run):
    code, _, err = run("compare", folder / "a.model.json")
    assert (code, "needs at least two model files, got 1" in err) == (2, True)
    code, _, err = run("compare", "--commit", folder / "a.model.json")
    assert (code, "--site NAME" in err) == (2, True)


def test_show_writes_a_report(folder, run, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    code, out, _ = run("show", folder / "a.model.json", "--report", tmp_path / "model.html")
    assert code == 0
    assert "model.html" in out
    assert rl.load(folder / "a.model.json").fingerprint in (tmp_path / "model.html").read_text()
