"""Every command as its users meet it: on a terminal, in a pipe, with bad input."""

import fcntl
import io
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
import warnings
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from replearn.cli import COMMANDS, main
from replearn.cli.command import Parser
from replearn.datasets import load_readmission, make_margin

pd = pytest.importorskip("pandas")

ROWS = 1200


def replearn(*words: str) -> tuple[int, str, str]:
    """Run a command in this process: exit code, standard output, standard error."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([*map(str, words)])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()


def on_terminal(columns: int, *words: str) -> tuple[int, str]:
    """Run a command in a child of this process whose terminal has so many columns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads at a fork
        child, terminal = pty.fork()
    if child == 0:
        sys.stdout, sys.stderr = (os.fdopen(number, "w") for number in (1, 2))
        os.environ.pop("COLUMNS", None)
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        try:
            code = main([*map(str, words)])
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout.flush()
        os._exit(code)
    parts = []
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        parts.append(part)
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, b"".join(parts).decode().replace("\r\n", "\n")


#: Sums of all labs.
SUMS = "a.sums.json b.sums.json third.sums.json"


def lab(centre: str, seed: int = 0) -> "pd.DataFrame":
    table = load_readmission(centre, ROWS, seed=seed).rename(columns={"readmitted": "died"})
    table["ward"] = np.where(table["age"] > 70, "north", "south")
    return table.ffill().bfill()  # of few gaps a lab would send no sums


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of two labs, a study and models: the files that the examples of --help name."""
    made = tmp_path_factory.mktemp("labs")
    first, second = lab("Ashford"), lab("Birchwood")
    first.to_csv(made / "a.csv", index=False)
    first.to_csv(made / "p.csv", index=False)
    risk = 1 / (1 + np.exp(-second["prior_admissions"] / 2 + 2))
    second.assign(p_tree=0.2, p_logistic=risk).to_csv(made / "b.csv", index=False)
    second.to_parquet(made / "b.parquet")
    second.to_parquet(made / "lab.parquet")
    third = lab("Castleton")
    third.to_csv(made / "third.csv", index=False)
    named = [one.assign(hospital=f"h{i}") for i, one in enumerate((first, second, third))]
    pd.concat(named).to_csv(made / "labs.csv", index=False)
    second.to_csv(made / "new.csv", index=False)
    X, y = make_margin(3000, 4, 0.4, random_state=0)
    rows = pd.DataFrame(X, columns=list("abcd")).assign(y=y)
    rows.to_csv(made / "data.csv", index=False)
    rows.to_parquet(made / "data.parquet")
    rows.to_csv(made / "other.csv", index=False)
    here = Path.cwd()
    os.chdir(made)
    try:
        code, text, _ = replearn("publish", "a.csv", "--target", "died", "--out", "study.json")
        assert code == 0, text
        for name in ("b", "c"):
            replearn("replicate", "study.json", "b.csv", "--out", f"{name}.model.json")
    finally:
        os.chdir(here)
    return made


@pytest.fixture
def inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


# --- on a terminal --------------------------------------------------------------------------------

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
        assert len(text.rstrip("\n").split("\n")) <= 2 + 10


def test_a_wide_terminal_has_lines_of_78_columns(inside: Path) -> None:
    words = ["show", "study.json", "--details"]
    assert on_terminal(120, *words) == on_terminal(80, *words)


def test_a_narrow_terminal(inside: Path) -> None:
    _, text = on_terminal(40, "replicate", "study.json", "b.csv")
    prose = [line for line in text.split("\n") if "Fingerprint" not in line]
    assert max(map(len, prose)) <= 64  # a fingerprint stays whole where it can
    assert sum(len(line) > 40 for line in prose) <= 1


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help(command: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, text, _ = replearn(*([command] if command else []), "--help")
    assert code == 0
    assert max(map(len, text.split("\n"))) <= 78
    if command:
        assert "example" in text
        assert "--json" in text


def test_no_command_prints_the_commands() -> None:
    code, text, errors = replearn()
    assert (code, errors) == (0, "")
    assert "publish" in text


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from replearn.cli import main\n"
        "try: main(['publish', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'scipy', 'sklearn', 'numba', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.rstrip().endswith("[]"), done.stdout + done.stderr


def test_a_replication_needs_no_scikit_learn_and_no_compiler(inside: Path) -> None:
    script = (
        "import sys; from replearn.cli import main\n"
        "main(['replicate', 'study.json', 'b.csv'])\n"
        "print([m for m in ('sklearn', 'numba', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.rstrip().endswith("[]"), done.stdout + done.stderr


def examples() -> list[str]:
    """All examples of all helps."""
    found = []
    for command in COMMANDS:
        epilog = import_module(f"replearn.cli.{command}").EPILOG
        found += re.findall(r"^  (replearn .*)$", epilog, flags=re.M)
    return found


@pytest.mark.parametrize(
    "algorithm", ["svm", pytest.param("sgd --no-intercept", marks=pytest.mark.slow)]
)
def test_a_study_of_the_paper_goes_from_lab_to_lab(inside: Path, algorithm: str) -> None:
    """Columns in a different order, and one more of them, do not change what is learned."""
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


def test_names_with_spaces_between_them_are_told_of_commas(inside: Path) -> None:
    call = "publish data.csv --target y --out new.json --drop a b --details"
    code, _, errors = replearn(*call.split())
    assert code == 2
    assert "unrecognized arguments: b. Several names have commas between them: --drop a,b" in errors


@pytest.mark.slow
@pytest.mark.parametrize("example", examples())
def test_examples_of_help(inside: Path, example: str, tmp_path: Path) -> None:
    for file in inside.iterdir():
        if file.is_file() and not file.name.endswith(".sums.json"):  # of a round that is over
            (tmp_path / file.name).write_bytes(file.read_bytes())
    os.chdir(tmp_path)  # the fixture goes back
    words = shlex.split(example.partition(" | ")[0])[1:]
    for option, name in pairwise(words):  # whoever tries an example has no such file yet
        if option in ("--out", "--study-out") and words[0] in ("publish", "fit"):
            (tmp_path / name).unlink(missing_ok=True)
    if words[0] == "publish":
        (tmp_path / "study.json").unlink(missing_ok=True)
    if words[0] == "combine" and ("--publish" in words or "columns" in example):
        _a_draft()
    elif "--state" in words or words[0] == "combine":
        _a_round(with_state="--state" in words)
    if words == ["replicate", "study.json", "other.csv"]:
        (tmp_path / "study.json").unlink()
        replearn(*shlex.split("fit data.csv --target y --bits 3 --study-out study.json"))
    words = [
        name
        for w in words
        for name in (sorted(map(str, Path().glob(w))) or [w] if "*" in w else [w])
    ]
    if words[0] == "demo" and "--tables" not in words:
        words += ["--labs", "2"]
    if words[0] == "table":
        words += ["--run", "0"]
    if "--horizon" in words:
        _a_survival_model(tmp_path)
    if words[0] == "audit" and "--by" not in words:
        words += ["--rows", "500", "--pairs", "2"]
    code, _, errors = replearn(*words)
    assert code in (0, 1), errors


def _a_survival_model(folder: Path) -> None:
    """A trial with times until death, and its model."""
    rng = np.random.default_rng(5)
    age = rng.normal(60, 10, 1500)
    days = np.ceil(rng.exponential(400 * np.exp(-(age - 60) / 30))) + 1
    died = (days < 900).astype(int)
    table = pd.DataFrame({"age": age.round(1), "days": np.minimum(days, 900), "died": died})
    for name in ("trial.csv", "new.csv"):
        table.to_csv(folder / name, index=False)
    call = "publish trial.csv --time days --event died --out trial.json --keep trial.model.json"
    assert replearn(*call.split())[0] == 0
    (folder / "trial.model.json").replace(folder / "a.model.json")


def _a_draft() -> None:
    """Columns of three labs, the draft that they make, and sums of its first round."""
    columns = [f"{name}.columns.json" for name in ("a", "b", "third")]
    for name, out in zip(("a", "b", "third"), columns, strict=True):
        drop = ["--drop", "p_tree,p_logistic"] if name == "b" else []
        assert replearn("sums", f"{name}.csv", "--target", "died", "--out", out, *drop)[0] == 0
    found = replearn("combine", *columns, "--out", "draft.json")
    assert found[0] == 0, found
    _a_round(with_state=False, study="draft.json")


def _a_round(with_state: bool, study: str = "study.json") -> None:
    """Sums of three labs, of the first round or of the second."""
    for round_ in range(1 + with_state):
        state = ["--state", "next.json"] if round_ else []
        for name in ("a", "b", "third"):
            call = ["sums", study, f"{name}.csv", "--out", f"{name}.sums.json"]
            assert replearn(*call, *state)[0] == 0
        if with_state and not round_:
            replearn("combine", "study.json", *SUMS.split(), "--out", "next.json")


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
    """Below the fingerprint, in at most ten lines: those that the table of details has."""
    code, text, _ = replearn("show", "a.model.json")
    assert code == 0
    lines = text.rstrip("\n").split("\n")
    assert len(lines) <= 11
    effects = [line.split("  ") for line in lines if line.endswith("estimated odds ratio")]
    assert len(effects) >= 4

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
    from replearn.datasets import load_readmission

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


RULES = {
    "format": "replearn/policy",
    "version": 1,
    "least_rows": 0,
    "least_count": 0,
    "most_coefficients_per_row": "1",
    "may_leave": ["study", "model", "sums", "predictions", "page", "rows"],
}

#: Whatever a command can write ({f}), the kind that a policy calls it, and whether it knows rows.
LEAVING = [
    ("publish a.csv --target died --out {f}", "study", True),
    ("publish a.csv --target died --out {f} --registered --rows 9000", "study", True),
    ("publish a.csv --target died --out {tmp}/s.json --page {f}", "page", True),
    ("publish a.csv --target died --out {tmp}/s.json --page {f}", "model", True),
    ("replicate study.json b.csv --out {f}", "model", True),
    ("replicate study.json b.csv --page {f}", "page", True),
    ("replicate study.json b.csv --page {f}", "model", True),
    ("replicate p.study.json other.csv --out {f}", "model", True),
    ("replicate p.study.json other.csv --page {f}", "page", True),
    ("check study.json b.csv --page {f}", "page", True),
    ("bundle study.json --out {f}", "study", True),
    ("show a.model.json --page {f}", "page", False),
    ("show a.model.json --page {f}", "model", False),
    ("show study.json --page {f}", "study", False),
    ("compare a.model.json b.model.json --page {f}", "page", False),
    ("evaluate a.model.json new.csv --page {f}", "page", True),
    ("update a.model.json b.csv --slope --out {f}", "model", True),
    ("update a.model.json b.csv --constant --page {f}", "page", True),
    ("predict a.model.json new.csv --out {f}", "predictions", True),
    ("predict a.model.json new.csv", "predictions", True),
    ("export a.model.json --out {f}.csv", "model", False),
    ("audit b.csv --study study.json --pairs 1 --rows 1200 --page {f}", "page", True),
    ("sums study.json lab.parquet --out {f}", "sums", True),
    ("combine study.json a.sums.json b.sums.json third.sums.json --out {f}", "model", True),
    ("combine study.json --begin --out {f}", "model", False),
    (
        "combine study.json a.sums.json b.sums.json third.sums.json --out {tmp}/s.json --page {f}",
        "page",
        False,
    ),
    ("fit data.csv --target y --margin 0.4 --out {f}", "model", True),
    ("fit data.csv --target y --margin 0.4 --bits 2 --study-out {f}", "study", True),
    ("fit data.csv --target y --margin 0.4 --page {f}", "page", True),
    ("plan --features 50 --page {f}", "page", False),
    ("table --page {f}", "page", False),
    ("shuffle a.csv --out {f}.csv", "rows", True),
]


def test_whatever_a_command_writes_is_under_the_policy() -> None:
    found = set()
    for command in COMMANDS:
        parser = Parser()
        import_module(f"replearn.cli.{command}").add_arguments(parser)
        options = {name for action in parser._actions for name in action.option_strings}
        found |= {(command, name) for name in options & {"--out", "--page", "--study-out"}}
    calls = [re.split(r"[ {}]+", call) for call, _, _ in LEAVING]
    assert found == {(call[0], word) for call in calls for word in call if (call[0], word) in found}


@pytest.mark.parametrize(("call", "kind", "has_rows"), LEAVING)
def test_policy(
    inside: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    kind: str,
    has_rows: bool,
) -> None:
    path = tmp_path / "policy.json"
    monkeypatch.setenv("REPLEARN_POLICY", str(path))
    path.write_text(json.dumps(RULES))
    if "p.study.json" in call:
        fit = "fit data.csv --target y --margin 0.4 --bits 2 --study-out p.study.json"
        replearn(*fit.split())
    if "sums.json" in call:
        _a_round(with_state=False)
    words = call.format(f=tmp_path / "f", tmp=tmp_path).split()
    others = [name for name in RULES["may_leave"] if name != kind]
    few = {"least_rows": 1 << 30} if has_rows else {}
    for change, rule in (({"may_leave": others}, "lets"), (few, "at least 1,073,741,824 rows")):
        path.write_text(json.dumps(RULES | change))
        code, text, errors = replearn(*words)
        if change:
            assert (code, text) == (2, ""), errors
            assert f"policy {rule}" in errors or rule in errors
            assert os.listdir(tmp_path) == ["policy.json"]
        else:
            assert code == 0, errors


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"most_coefficients_per_row": "0.001"}, "0.001 coefficients"),
        ({"least_count": 600}, "600 rows of each level"),
    ],
)
@pytest.mark.parametrize(
    "call", ["publish a.csv --target died --out {}", "bundle study.json --out {}"]
)
def test_rules_of_a_policy(
    inside: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, object],
    words: str,
    call: str,
) -> None:
    (tmp_path / "replearn.policy.json").write_text(json.dumps(RULES | change))
    for name in ("a.csv", "study.json"):
        (tmp_path / name).write_bytes((inside / name).read_bytes())
    monkeypatch.chdir(tmp_path)  # where a policy is found, too
    code, _, errors = replearn(*call.format("out").split())
    assert code == 2
    assert words in errors
    assert not (tmp_path / "out").exists()


def test_a_policy_beside_the_table_holds_and_none_is_passed_by(
    inside: Path, tmp_path: Path
) -> None:
    """Not in the working folder; a link to nowhere; two policies of which one forbids."""
    table, policy = tmp_path / "b.csv", tmp_path / "replearn.policy.json"
    table.write_bytes((inside / "b.csv").read_bytes())
    call = ["predict", inside / "b.model.json", table]
    assert replearn(*call)[0] == 0
    policy.write_text(json.dumps(RULES | {"may_leave": ["study"]}))
    code, text, errors = replearn(*call)
    assert (code, text) == (2, "")
    assert "policy lets study leave" in errors
    policy.unlink()
    policy.symlink_to(tmp_path / "nowhere")
    assert replearn(*call)[:2] == (2, "")


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


# --- bad input ------------------------------------------------------------------------------------


REFUSALS = [
    ("frobnicate", "invalid choice"),
    ("publish a.csv", "required: --out"),
    ("publish a.csv --out {tmp}/s.json", "Name it: --target NAME"),
    ("publish a.csv --target nope --out {tmp}/s.json", "has no column 'nope'"),
    ("publish a.csv --target died --out {tmp}/no/s.json", "is no folder"),
    ("publish a.csv --target died --out {tmp}", "must be a file"),
    ("publish a.csv --target died --out {tmp}/s.json --max-disagreement 5", "--max-disagreement"),
    ("publish a.csv --target died --out {tmp}/s.json --interactions age", "pairs like"),
    ("publish a.csv --target died --out study.json", "is a study already"),
    ("publish a.csv --target died --rows 3 --out {tmp}/s.json", "no row of some class"),
    ("publish a.csv --target died --registered --out {tmp}/s.json", "needs --rows"),
    ("publish a.csv --target age --out {tmp}/s.json", "--kind linear"),
    ("replicate a.model.json b.csv", "This is a model: the study is the file"),
    ("predict study.json b.csv", "This is a study: replearn replicate STUDY TABLE --out MODEL"),
    ("replicate nofile.json b.csv", "No such file"),
    ("replicate study.json nofile.csv", "nofile.csv cannot be read"),
    ("replicate a.csv b.csv", "must be one JSON object"),
    ("replicate study.json b.csv --decimal x", "decimal"),
    ("show a.csv", "must be one JSON object"),
    ("compare a.model.json", "at least two"),
    ("evaluate a.model.json new.csv --by age2", "age2"),
    ("update a.model.json b.csv", "either --constant or --slope"),
    ("update a.model.json b.csv --constant --slope", "either --constant or --slope"),
    ("update study.json b.csv --constant", "takes the original's model"),
    ("export a.model.json --out {tmp}/x.doc", "must end in"),
    ("demo --rows -3 --tables {tmp}/new", "rows must be one or more"),
    ("replicate study.json b.csv --page a.csv", "is no page"),
    ("replicate study.json b.csv --out a.csv", "is no replearn/model"),
    ("fit data.csv --target y --algorithm net --bits 2", "belongs to svm and sgd"),
    ("fit a.csv --target died", "must hold a number in every row"),
    ("plan --features 0", "--features"),
    ("shuffle a.csv --out {tmp}/a.parquet", "two .csv or two .parquet"),
    ("audit a.csv --study study.json --rows 5000", "cannot be cut"),
    ("audit labs.csv --target died --by hospital --pairs 3", "--pairs belongs to random parts"),
    ("audit data.csv --target y --by a --algorithm svm", "--by needs --algorithm glm"),
    ("audit labs.csv --target died --by nowhere", "by must be a column"),
    ("combine study.json --out {tmp}/x.json", "at least one lab"),
    ("sums study.json --out {tmp}/x.json", "a study and a table, got study.json alone"),
]


@pytest.mark.parametrize(("call", "words"), REFUSALS, ids=[call for call, _ in REFUSALS])
def test_refusals(inside: Path, tmp_path: Path, call: str, words: str) -> None:
    code, text, errors = replearn(*call.format(tmp=tmp_path).split())
    assert code == 2
    assert text == ""
    assert words in errors
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    assert not list(tmp_path.iterdir())


def _started(*words: str, **settings: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "replearn", *words],
        stderr=subprocess.PIPE,
        **settings,  # type: ignore[call-overload]
    )


#: Work that takes a while, and what it writes.
LONG = [
    "demo --labs 9",
    "publish a.csv --target died --out {tmp}/s.json",
    "replicate study.json b.csv --out {tmp}/m.json --page {tmp}/p.html",
    "check study.json b.csv",
    "bundle study.json --out {tmp}/bundle",
    "predict a.model.json new.csv --out {tmp}/p.csv",
    "audit b.csv --study study.json --pairs 2 --rows 1200",
    "sums study.json lab.parquet --out {tmp}/lab.sums.json",
    "combine study.json a.sums.json b.sums.json third.sums.json --out {tmp}/next.json",
    "fit data.csv --target y --margin 0.4",
]
AFTER = """
import os, signal, sys, threading
from replearn import cli
from replearn.__main__ import run
threading.Timer(float(sys.argv.pop(1)), os.kill, (os.getpid(), signal.SIGINT)).start()
run()
"""


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(
            call, id=call.split()[0], marks=() if call.startswith("replicate") else pytest.mark.slow
        )
        for call in LONG
    ],
)
def test_an_interrupt_says_so(inside: Path, tmp_path: Path, call: str) -> None:
    """At any time: while modules are imported, files are read, rows are fitted, files written."""
    if SUMS in call:
        _a_round(with_state=False)
    codes = set()
    often = call.startswith(("publish", "fit"))
    for seconds in (0.02, 0.1, 0.4, 0.8, 1.6) if often else (0.1, 0.8):
        process = subprocess.run(
            [sys.executable, "-c", AFTER, str(seconds), *call.format(tmp=tmp_path).split()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        codes.add(process.returncode)
        if process.returncode == 130:
            assert process.stderr == "replearn: interrupted\n"
            assert not list(tmp_path.rglob(".*"))
        else:
            assert process.returncode == 0, process.stderr
        for path in tmp_path.iterdir():  # whole files, of a call that ended or nearly did
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert 130 in codes


def test_a_closed_output(inside: Path) -> None:
    closed = _started("show", "study.json", preexec_fn=lambda: os.close(1))
    _, errors = closed.communicate(timeout=600)
    assert closed.returncode == 2
    assert errors.decode().count("\n") == 1
    reader, writer = os.pipe()
    os.close(reader)
    piped = _started("predict", "a.model.json", "new.csv", stdout=writer)
    os.close(writer)
    _, errors = piped.communicate(timeout=600)
    assert piped.returncode == 141
    assert errors == b""


def test_a_full_disk(inside: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        process = _started("show", "study.json", stdout=full)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 2
    assert errors.decode().count("\n") == 1


@pytest.mark.slow
def test_a_path_that_is_no_utf8(inside: Path) -> None:
    odd = os.fsdecode(b"\xff.csv")
    (inside / odd).write_bytes((inside / "b.csv").read_bytes())
    for words in (["show", odd], ["replicate", "study.json", odd]):
        process = _started(*words, stdout=subprocess.PIPE)
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 2
        assert errors.decode().count("\n") == 1


def test_an_output_without_unicode(inside: Path, tmp_path: Path) -> None:
    table = lab("Ashford").rename(columns={"ward": "Größe"})
    path, out = tmp_path / "u.csv", tmp_path / "s.json"
    table.to_csv(path, index=False)
    assert replearn("publish", path, "--target", "died", "--out", out)[0] == 0
    process = _started(
        "show",
        str(out),
        "--details",
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
    )
    text, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors
    assert b"Gr\\xf6\\xdfe" in text


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
