"""Every command as its users meet it: on a terminal, in a pipe; answers and exit codes."""

import errno
import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from replearn.cli import COMMANDS
from replearn.datasets import load_readmission, make_margin
from tests.contract.commands import ROWS, SUMS, lab, on_terminal, replearn

pd = pytest.importorskip("pandas")

#: A call of each command, its exit code, and how its answer begins.
CALLS = [
    ("demo --rows 400 --labs 2", 0, "1. Halfspaces"),
    ("publish a.csv --target died --out new.study.json", 0, "The study is published"),
    ("replicate study.json b.csv", 0, "The same model"),
    ("replicate study.json b.parquet --details", 0, "The same model"),
    ("check study.json b.csv --details", 0, "The table is ready"),
    ("bundle study.json --out bundle", 0, "The bundle is in bundle"),
    ("show study.json --details", 0, "A study to replicate"),
    ("show a.model.json --details", 0, "This model predicts"),
    ("compare a.model.json b.model.json --study study.json", 0, "The same model"),
    ("evaluate a.model.json new.csv --by ward", 0, "On 1,200 rows the model removes"),
    ("update a.model.json b.csv --constant", 0, "The model is updated:"),
    ("predict a.model.json new.csv --out predictions.csv", 0, "Predictions of 1,200 rows"),
    ("export a.model.json --out a.export.csv", 0, "The model is in a.export.csv"),
    ("audit b.csv --study study.json --pairs 1 --rows 1200", 0, ""),
    ("audit labs.csv --study study.json --by hospital", 0, "3 of 3 centres got the study"),
    ("sums study.json lab.parquet --out lab.sums.json", 0, "Sums over 1,200 rows"),
    ("combine study.json --begin --out first.json", 0, "The next round begins"),
    (
        "fit data.csv --target y --algorithm sgd --margin 0.4 --bits 2",
        0,
        "A second lab with 3,000 rows",
    ),
    ("plan --features 50 --margin 0.2 --details", 0, "Each lab needs"),
    ("table", 0, "Rows that labs need"),
    ("shuffle a.csv --out shuffled.csv", 0, "1,200 rows in random order"),
]


def test_every_command_is_called() -> None:
    assert {call.split()[0] for call, _, _ in CALLS} == set(COMMANDS)


@pytest.mark.parametrize("call", [call for call, _, _ in CALLS if "demo" not in call])
def test_json_of_every_command(inside: Path, call: str, tmp_path: Path) -> None:
    """First of all: what is imported and compiled here, no child on a terminal has to."""
    call = re.sub(r"--out (\S+)", lambda found: f"--out {tmp_path / found[1]}", call)
    _, text, _ = replearn(*call.split(), "--json")
    assert json.loads(text)["verdict"]
    assert text.count("\n") == 1


@pytest.mark.parametrize(("call", "code", "beginning"), CALLS, ids=[c for c, _, _ in CALLS])
def test_on_a_terminal(inside: Path, call: str, code: int, beginning: str, tmp_path: Path) -> None:
    call = re.sub(r"--out (\S+)", lambda found: f"--out {tmp_path / found[1]}", call)
    beginning = re.sub(r" in (\S+)$", "", beginning)
    found, text = on_terminal(80, *call.split())
    text = re.sub(r"\r[^\n]*\r\x1b\[K", "", text)  # progress that was wiped off
    assert found == code, text
    assert text.startswith(beginning)
    assert "\x1b" not in text
    assert "\\x1b" not in text
    too_wide = [line for line in text.split("\n") if len(line) > 78]
    assert not too_wide
    if "--details" not in call and not call.startswith("demo"):  # a verdict of up to two lines
        most = 2 + 18 if call.startswith("publish") else 2 + 10  # it has ten coefficients
        assert len(text.rstrip("\n").split("\n")) <= most


def test_a_wide_terminal_has_lines_of_78_columns(inside: Path) -> None:
    words = ["show", "study.json", "--details"]
    assert on_terminal(120, *words) == on_terminal(80, *words)


def test_a_narrow_terminal(inside: Path) -> None:
    _, text = on_terminal(40, "replicate", "study.json", "b.csv")
    prose = [line for line in text.split("\n") if "Fingerprint" not in line]
    assert max(map(len, prose)) <= 64  # a fingerprint stays whole where it can
    assert sum(len(line) > 40 for line in prose) <= 1


def test_a_replication_needs_no_scikit_learn_and_no_compiler(inside: Path) -> None:
    script = (
        "import sys; from replearn.cli import main\n"
        "main(['replicate', 'study.json', 'b.csv'])\n"
        "print([m for m in ('sklearn', 'numba', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.rstrip().endswith("[]"), done.stdout + done.stderr


# --- answers and exit codes -----------------------------------------------------------------------


def test_a_coalition_by_mail(inside: Path, tmp_path: Path) -> None:
    state: list[str] = []
    for round_ in range(30):
        for name in ("a", "b", "third"):
            out = tmp_path / f"{name}.sums.json"
            code, _, errors = replearn("sums", "study.json", f"{name}.csv", "--out", out, *state)
            assert code == 0, errors
        files = [tmp_path / name for name in SUMS.split()]
        out = tmp_path / f"next{round_}.json"
        code, text, errors = replearn("combine", "study.json", *files, "--out", out, *state)
        if "next round" not in text:
            break
        state = ["--state", str(out)]
    assert text.startswith("3 labs with 3,600 rows have one model"), errors
    assert replearn("show", out)[1].startswith("This model predicts")


def test_json(inside: Path) -> None:
    code, text, _ = replearn("replicate", "study.json", "b.csv", "--json")
    found = json.loads(text)
    assert code == 0
    assert found["same"] is True
    assert len(found["fingerprint"]) == 64
    assert found["warnings"] == []


def test_a_model_is_shown_with_its_clearest_effects(inside: Path) -> None:
    """Ten below the fingerprint: those that the table of details has."""
    code, text, _ = replearn("show", "a.model.json")
    assert code == 0
    lines = text.rstrip("\n").split("\n")
    assert lines[1].startswith("  fingerprint ")
    assert len(lines) == 13  # the verdict, the fingerprint, effects, and how to see more
    effects = [line.split("  ") for line in lines if line.endswith("estimated odds ratio")]
    assert len(effects) == 10

    # the same numbers, in an order that nobody's unit changes
    _, text, _ = replearn("show", "a.model.json", "--details")
    assert "estimated odds ratio" not in text
    table = text.partition("own estimates")[2].split("\n")
    own = {line[2:].partition("  ")[0]: line.split()[-5:] for line in table if line[:2] == "  "}
    distances = []
    for _, name, *_, said in effects:
        estimate, error, ratio, low, high = own[name]
        shown = [float(cell) for cell in re.findall(r"[\d.]+", said)]
        assert shown == pytest.approx([float(ratio), float(low), float(high)], rel=0.01)
        distances.append(abs(float(estimate)) / float(error))
    assert distances == sorted(distances, reverse=True)


def test_a_different_model_exits_with_1(inside: Path, tmp_path: Path) -> None:
    table = lab("Castleton")
    table["died"] = 1 - table["died"]
    table.to_csv(tmp_path / "swapped.csv", index=False)
    out = tmp_path / "swapped.model.json"
    code, text, _ = replearn("replicate", "study.json", tmp_path / "swapped.csv", "--out", out)
    assert code == 1
    assert text.startswith("A different model")
    assert "labels may be exchanged" in text
    assert "No model file was written" in text
    assert not out.exists()


def test_a_model_that_ranks_the_wrong_way_exits_with_1(inside: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes = set()
    for number in range(4):
        rows = pd.DataFrame({"a": rng.normal(size=300), "died": rng.random(300) < 0.3})
        rows.to_csv(tmp_path / f"r{number}.csv", index=False)
        out = tmp_path / f"s{number}.json"
        call = ["publish", tmp_path / f"r{number}.csv", "--target", "died", "--out", out]
        code, text, errors = replearn(*call, "--json")
        assert code in (0, 1), errors
        assert (code == 1) == (json.loads(text)["auc"] < 0.5)
        codes.add(code)
    assert codes == {0, 1}


def test_models_of_different_studies(inside: Path, tmp_path: Path) -> None:
    out = tmp_path / "other.json"
    replearn("publish", "a.csv", "--target", "died", "--out", out, "--seed", "other")
    code, text, _ = replearn("compare", "a.model.json", tmp_path / "a.model.json")
    assert code == 1
    assert text.startswith("Models of different studies")


def test_what_a_lab_says_about_itself_is_marked(inside: Path, tmp_path: Path) -> None:
    note = {"AUC": "0.98765", "worth": "40 bits", "a match": "probability 9.1e-13"}
    for name in ("study.json", "a.model.json"):
        content = json.loads((inside / name).read_text()) | {"provenance": note}
        (tmp_path / name).write_text(json.dumps(content))
        lines = replearn("show", tmp_path / name, "--details")[1].splitlines()
        said = [line for line in lines if any(str(value) in line for value in note.values())]
        assert len(said) == 3
        assert all(line.endswith("as the lab states") for line in said)
    _, text, _ = replearn("show", "study.json")
    assert re.search(r"rows of the original .*as the lab states", text)
    for call in ("replicate {study} b.csv", "compare {model} b.model.json --study {study}"):
        words = call.format(study=tmp_path / "study.json", model=tmp_path / "a.model.json").split()
        assert not any(str(value) in replearn(*words, "--details")[1] for value in note.values())


def test_check_quotes_no_cell_unless_asked(inside: Path, tmp_path: Path) -> None:
    table = lab("Birchwood")
    table["nyha"] = "secret " + table["nyha"]
    table["sodium"] *= 1000
    path = tmp_path / "odd.csv"
    table.to_csv(path, index=False)
    code, text, _ = replearn("check", "study.json", path, "--details")
    assert code == 1
    assert "would stop" in text.split("\n")[0]
    assert "secret" not in text
    assert "1000 times as large" in text
    assert "secret" in replearn("check", "study.json", path, "--show-values")[1]
    code, _, errors = replearn("replicate", "study.json", path)
    assert code == 2
    assert "secret" not in errors


def test_signs_of_numbers(inside: Path, tmp_path: Path) -> None:
    path = tmp_path / "german.csv"
    table = lab("Birchwood")
    table["sodium"] = table["sodium"].map("{:,.2f}".format, na_action="ignore")
    table["sodium"] = table["sodium"].str.replace(".", ",")
    table["platelets"] = [f"{200 + n % 99}.000" for n in range(ROWS)]
    table.to_csv(path, index=False, sep=";", decimal=",")
    _, plain, _ = replearn("replicate", "study.json", "b.csv", "--json")
    signs = ["--decimal", ",", "--thousands", "."]
    code, text, errors = replearn("replicate", "study.json", path, *signs, "--json")
    assert code == 0, errors
    assert json.loads(text)["fingerprint"] == json.loads(plain)["fingerprint"]
    out = tmp_path / "s.json"
    publish = ["publish", path, "--target", "died", "--out", out]
    code, _, errors = replearn(*publish)
    assert code == 2
    assert '--decimal=","' in errors
    assert replearn(*publish, *signs)[0] == 0
    platelets = json.loads(out.read_text())["profile"]["columns"][-1]
    assert float(platelets["quantiles"][0]) > 200_000


def test_tables_to_practise_on(tmp_path: Path) -> None:

    assert replearn("demo", "--tables", tmp_path / "new", "--rows", "300")[0] == 0
    assert replearn("demo", "--tables", tmp_path / "new", "--rows", "300")[0] == 2  # never over one
    tables = {path.stem: pd.read_csv(path) for path in (tmp_path / "new").iterdir()}
    assert {*tables} == {"ashford", "birchwood", "castleton", "dunmore", "ninety-days"}
    assert tables["castleton"].equals(load_readmission("Castleton", 300))
    differs = (tables["castleton"] != tables["ninety-days"]) & tables["castleton"].notna()
    assert differs.any().to_dict() == {name: name == "readmitted" for name in differs}


def test_pages(inside: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    replearn("replicate", "study.json", "b.csv", "--page", page)
    text = page.read_text()
    assert text.count('role="img"') == 5  # where it landed, worth in three, the coefficients
    assert "made without this lab&#x27;s rows" in text
    replearn("publish", "a.csv", "--target", "died", "--out", tmp_path / "s.json", "--page", page)
    assert "Performance by cross-validation" in page.read_text()
    replearn("evaluate", "a.model.json", "new.csv", "--page", page)
    assert page.read_text().count("<figure>") == 3


def test_predictions_are_the_models(inside: Path) -> None:
    from replearn import load

    code, text, _ = replearn("predict", "a.model.json", "new.csv")
    assert code == 0
    found = pd.read_csv(io.StringIO(text))
    expected = load("a.model.json").predict_proba(pd.read_csv("new.csv"))
    assert (found["probability of 1"].to_numpy() == expected[:, 1]).all()


@pytest.mark.parametrize(
    "algorithm", ["svm", pytest.param("sgd --no-intercept", marks=pytest.mark.slow)]
)
def test_a_study_of_the_paper_goes_from_lab_to_lab(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, algorithm: str
) -> None:
    """Columns in a different order, and one more of them, do not change what is learned."""
    monkeypatch.chdir(tmp_path)
    for number in (1, 2):
        X, y = make_margin(3000, 4, 0.4, random_state=0, max_margin=0.9 - number / 100)
        table = pd.DataFrame(X, columns=list("abcd")).assign(y=np.where(y > 0, "ill", "well"))
        table.to_csv(f"paper{number}.csv", index=False)
    table[["y", *"dbac"]].assign(e=1.5).to_csv("paper2.csv", index=False)
    call = f"fit paper1.csv --target y --algorithm {algorithm} --margin 0.4 --bits 3"
    code, text, _ = replearn(*f"{call} --study-out paper.json --out paper1.model.json".split())
    assert code == 0, text
    assert replearn("show", "paper.json")[0] == 0
    code, text, errors = replearn("replicate", "paper.json", "paper2.csv", "--out", "p2.model.json")
    assert (code, text.splitlines()[0]) == (
        0, "The same model: these rows give exactly the original's model.",
    ), errors  # fmt: skip
    assert replearn("compare", "paper1.model.json", "p2.model.json")[0] == 0
    call = "audit paper2.csv --study paper.json --rows 700 --pairs 2"
    code, text, _ = replearn(*call.split())
    assert code == 0
    assert text.startswith("2 of 2 labs got the original's model")
    flipped = table.assign(y=np.where(table["y"] == "ill", "well", "ill"))
    flipped.to_csv("paper3.csv", index=False)
    assert replearn("replicate", "paper.json", "paper3.csv")[0] == 1
    table.drop(columns="a").to_csv("paper4.csv", index=False)
    code, _, errors = replearn("replicate", "paper.json", "paper4.csv")
    assert code == 2
    assert "'a'" in errors


def test_grades_are_told_to_be_classes_without_an_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    grade = np.digitize(x + rng.logistic(size=600), [-1, 1]) + 1
    for labels, told in ((grade, True), (np.array(["", "low", "mid", "high"])[grade], False)):
        path = tmp_path / f"{told}.csv"
        pd.DataFrame({"x": x.round(2), "nyha": labels}).to_csv(path, index=False)
        out = ("--out", tmp_path / f"{told}.study.json")
        text = " ".join(replearn("publish", path, "--target", "nyha", *out)[1].split())
        words = "The 3 classes of 'nyha' are numbers and count as unordered."
        assert (words in text) is told


def test_a_full_disk_leaves_no_empty_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was there stays: only a folder that has nothing in it goes."""

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("replearn.documents.write_atomically", full)
    code, _, errors = replearn("demo", "--tables", tmp_path / "new", "--rows", "300")
    assert code != 0
    assert "No space left" in errors
    assert not (tmp_path / "new").exists()

    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "notes").write_text("mine")
    replearn("demo", "--tables", tmp_path / "old", "--rows", "300")
    assert (tmp_path / "old" / "notes").read_text() == "mine"


def test_few_rows_are_told_what_publishing_again_shows(inside: Path, tmp_path: Path) -> None:
    """Below 50,000 rows, whatever is published of each coefficient but nothing."""
    for bits, is_told in (("8", True), ("4", True), ("0", False)):
        made = ("--out", tmp_path / f"{bits}.json", "--keep", tmp_path / f"{bits}.model.json")
        call = ("publish", "a.csv", "--target", "died", "--details", "--bits", bits, *made)
        code, text, _ = replearn(*call)
        assert code == 0
        words = "a second study with one patient more or less"
        assert (words in " ".join(text.split())) == is_told
