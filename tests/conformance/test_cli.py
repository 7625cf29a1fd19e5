"""The command line: exit codes, one line about bad input, JSON for programs."""

import csv
import errno
import functools
import inspect
import json
import os
import shlex
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from replearn import (
    Protocol,
    ReplicableBoostingClassifier,
    ReplicableDPClassifier,
    ReplicableNetClassifier,
    ReplicableSGDClassifier,
    ReplicableSVMClassifier,
    __version__,
    cli,
    load,
    progress,
    save,
)
from replearn.cli import parser
from replearn.cli import simulation as demo
from replearn.cli.options import ALGORITHMS, PROMISE
from replearn.cli.training import algorithm_of, make_estimator
from replearn.datasets import make_margin
from replearn.plans import planner as planning

ROOT = Path(__file__).resolve().parents[2]
SEED = ["--margin", "0.4", "--seed", "study 7", "--target", "label"]
NAMES = ["age", "dose", "pulse", "size"]


def draw(lab, n_rows):
    X, y = make_margin(n_rows, 4, margin=0.4, random_state=lab)
    return X, np.where(y > 0, "ill", "well")


def write_csv(path, X, y, names=NAMES):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "label"])
        writer.writerows([*map(repr, row), label] for row, label in zip(X.tolist(), y, strict=True))
    return str(path)


@pytest.fixture(scope="session")
def labs(tmp_path_factory):
    """Two tables of one population, and the models that two labs fit on them."""
    folder = tmp_path_factory.mktemp("labs")
    for name, lab, n_rows in (("a", 1, 20_000), ("b", 2, 25_000)):
        data = write_csv(folder / f"{name}.csv", *draw(lab, n_rows))
        assert cli.main(["fit", data, *SEED, "--out", str(folder / f"{name}.json")]) == 0
    return folder


def replearn(*arguments, **options):
    """Run in a process of its own."""
    command = [sys.executable, "-m", "replearn", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **options)


# ---------------------------------------------------------------- help


def test_help_is_quick_because_it_imports_nothing_heavy():
    script = (
        "import sys\nfrom replearn.cli import main\n"
        "try: main(['fit', '--help'])\nexcept SystemExit as done: assert done.code == 0\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'pyarrow', 'rich', 'shtab'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


COMMANDS = [module.__name__.rpartition(".")[2] for module in parser.COMMANDS]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(run, command):
    code, out, _ = run(command, "--help")
    assert code == 0
    assert "--json" in out
    assert "JSON keys:" in out


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_gives_examples_that_parse(run, command):
    out = run(*([] if command is None else [command]), "--help")[1]
    examples = [line.strip() for line in out.splitlines() if line.startswith("  replearn ")]
    assert any(line.startswith(f"replearn {command or ''}") for line in examples)
    for line in examples:
        words = shlex.split(line.partition(" > ")[0])
        parser.make_parser().parse_args(words[1:])


@pytest.mark.parametrize("columns", ["80", "100", "250"])
@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_fits_100_columns(run, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", columns)
    out = run(*([] if command is None else [command]), "--help")[1]
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("command", [None, "fit", "compare", "audit", "completion"])
def test_help_lists_exit_codes_where_they_matter(run, command):
    assert "exit codes: 0 " in run(*([] if command is None else [command]), "--help")[1]


def test_help_states_the_defaults_of_the_estimator():
    signature = inspect.signature(ReplicableSVMClassifier)
    for name, (default, _) in PROMISE.items():
        assert signature.parameters[name].default == default
    made = make_estimator(parser.make_parser().parse_args(["fit", "x.csv"]), None)
    assert made.get_params() == ReplicableSVMClassifier(shared_seed="0", n_jobs=-1).get_params()


def test_version_and_entry_point(run):
    assert run("--version") == (0, f"replearn {__version__}\n", "")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"replearn": "replearn.cli:main"}


# ---------------------------------------------------------------- what the commands do


def documented(run, command, out):
    """The JSON that was printed, after a check that its keys are in the help."""
    data = json.loads(out)
    text = run(command, "--help")[1].split("JSON keys:", 1)[1]
    listed = text.replace("(", ",").replace(")", ",").replace(":", ",").split(",")
    missing = set(data) - {word.strip() for word in listed}
    assert not missing
    return data


def test_two_labs_get_the_same_model(run, labs):
    first, second = labs / "a.json", labs / "b.json"
    code, out, err = run("compare", first, second)
    assert (code, err) == (0, "")
    assert out.startswith("same model: every code is equal\n")
    data = documented(run, "compare", run("compare", first, second, "--json")[1])
    assert data["same"] is True
    assert data["fingerprints"] == [load(first).fingerprint] * 2
    assert load(first).canonical_bytes() == load(second).canonical_bytes()


def test_different_models_exit_with_1(run, labs, tmp_path):
    model = load(labs / "a.json")
    save(replace(model, codes=model.codes + 1), tmp_path / "c.json")
    code, out, _ = run("compare", labs / "a.json", tmp_path / "c.json")
    assert code == 1
    assert "codes differ" in out
    assert "degrees" in out
    code, out, _ = run("compare", labs / "a.json", tmp_path / "c.json", "--json")
    assert code == 1
    data = documented(run, "compare", out)
    assert (data["same"], data["n_codes_differing"]) == (False, model.codes.size)


def test_columns_in_another_order_are_not_read_silently(run, labs, tmp_path):
    model = load(labs / "a.json")
    save(replace(model, feature_names=model.feature_names[::-1]), tmp_path / "turned.json")
    code = run("compare", labs / "a.json", tmp_path / "turned.json")[0]
    assert code == 1, "the fingerprints are equal, the predictions are not"
    plain = run("predict", labs / "a.json", labs / "b.csv", "--json")
    turned = run("predict", tmp_path / "turned.json", labs / "b.csv", "--json")
    assert plain[2] == ""
    assert json.loads(plain[1])["predictions"] != json.loads(turned[1])["predictions"]
    assert "are taken by name, but the table has" in turned[2]
    assert "The fingerprint does not cover the names" in turned[2]


def test_fit_is_the_estimator(run, labs, tmp_path):
    X, y = draw(1, 20_000)
    expected = ReplicableSVMClassifier(margin=0.4, shared_seed="study 7").fit(X, y)
    code, out, _ = run("fit", labs / "a.csv", *SEED, "--json", "--jobs", 1)
    assert code == 0
    data = documented(run, "fit", out)
    assert data["fingerprint"] == expected.fingerprint_
    assert data["estimated_disagreement"] == expected.certificate_.estimated_disagreement
    assert data["rows"] == 20_000
    assert data["warnings"] == []
    np.savez(tmp_path / "a.npz", X=X, y=y)
    npz = run("fit", tmp_path / "a.npz", "--margin", 0.4, "--seed", "study 7", "--json")[1]
    assert json.loads(npz)["fingerprint"] == expected.fingerprint_


def test_fit_options_reach_the_estimator(run, labs, tmp_path):
    options = [
        *("--max-error", 0.1, "--max-disagreement", 0.99, "--failure-prob", 0.2),
        *("--no-intercept", "--no-shuffle"),
    ]
    out = tmp_path / "m.json"
    code, text, _ = run("fit", labs / "a.csv", *SEED, *options, "--out", out)
    assert code == 0
    X, y = draw(1, 20_000)
    expected = ReplicableSVMClassifier(
        margin=0.4,
        max_error=0.1,
        max_disagreement=0.99,
        failure_prob=0.2,
        shared_seed="study 7",
        fit_intercept=False,
        shuffle=False,
    ).fit(X, y)
    assert load(out).fingerprint == expected.fingerprint_
    assert expected.fingerprint_ in text


def test_two_spellings_of_rows_in_random_order(run, labs):
    fits = [
        json.loads(run("fit", labs / "a.csv", *SEED, *spelling, "--json")[1])["fingerprint"]
        for spelling in (["--assume-shuffled"], ["--no-shuffle"], [])
    ]
    X, y = draw(1, 20_000)
    expected = ReplicableSVMClassifier(margin=0.4, shared_seed="study 7", shuffle=False).fit(X, y)
    assert fits == [expected.fingerprint_, expected.fingerprint_, load(labs / "a.json").fingerprint]


def test_expected_fingerprint(run, labs):
    right = load(labs / "a.json").fingerprint
    fit = ("fit", labs / "a.csv", *SEED)
    assert run(*fit, "--expect", right.upper())[0] == 0
    code, out, _ = run(*fit, "--expect", "0" * 64)
    assert code == 1
    assert "NO: 0000" in out
    code, out, _ = run(*fit, "--expect", "0" * 64, "--json")
    assert code == 1
    assert json.loads(out)["as_expected"] is False


def test_the_model_file_says_where_it_comes_from(run, labs):
    code, out, _ = run("show", labs / "a.json", "--json")
    assert code == 0
    data = documented(run, "show", out)
    provenance = data["provenance"]
    assert provenance["rows"] == 20_000
    assert provenance["batches"] == 200
    assert provenance["replearn"] == __version__
    assert 0 <= float(provenance["estimated_disagreement"]) <= 1
    assert data["feature_names"] == NAMES
    assert data["model"]["classes"] == ["ill", "well"]
    text = run("show", labs / "a.json")[1]
    assert load(labs / "a.json").fingerprint in text
    assert "study 7" in text


def test_predict(run, labs, tmp_path):
    model, out = load(labs / "a.json"), tmp_path / "pred.csv"
    code, text, _ = run("predict", labs / "a.json", labs / "b.csv", "--out", out)
    assert code == 0
    assert text.startswith("25,000 rows: ")
    X, y = draw(2, 25_000)
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["prediction"] for row in rows] == model.predict(X).tolist()
    scores = np.array([float(row["score"]) for row in rows])
    np.testing.assert_allclose(scores, model.decision_function(X), rtol=1e-8, atol=1e-12)
    assert np.mean([row["prediction"] for row in rows] == y) > 0.8


def test_predict_finds_columns_by_name(run, labs, tmp_path):
    X, y = draw(3, 50)
    shuffled = write_csv(tmp_path / "s.csv", X[:, ::-1], y, names=NAMES[::-1])
    code, out, _ = run("predict", labs / "a.json", shuffled, "--json")
    assert code == 0
    data = documented(run, "predict", out)
    assert data["predictions"] == load(labs / "a.json").predict(X).tolist()
    assert data["counts"] == {label: data["predictions"].count(label) for label in ("ill", "well")}
    printed = run("predict", labs / "a.json", shuffled)[1].splitlines()
    assert printed[0] == "prediction,score"
    assert len(printed) == 51


def test_plan(run):
    arguments = ("plan", "--margin", 0.2, "--max-error", 0.05, "--features", 50)
    code, out, _ = run(*arguments)
    assert code == 0
    assert out.startswith("Plan: svm, practical mode (calibrated on synthetic populations, not")
    data = documented(run, "plan", run(*arguments, "--json")[1])
    assert data["n_samples"] == data["n_batches"] * data["batch_size"]
    assert f"{data['n_samples']:,} = " in out
    assert data["n_inputs"] == 51
    certified = json.loads(run(*arguments, "--mode", "certified", "--no-intercept", "--json")[1])
    assert certified["n_inputs"] == 50
    assert certified["n_samples"] > 100 * data["n_samples"]


def test_a_study_with_a_protocol(run, labs, tmp_path):
    pilot = write_csv(tmp_path / "pilot.csv", *draw(3, 1000))
    study = tmp_path / "study.json"
    arguments = ("plan", "--pilot", pilot, "--target", "label", "--samples-per-site", 20_000)
    code, out, _ = run(*arguments, "--seed", "study 8", "--out", study, "--json")
    assert code == 0
    assert documented(run, "plan", out)["protocol"] == Protocol.load(study).fingerprint
    for name in ("a", "b"):
        fit = ("fit", labs / f"{name}.csv", "--target", "label", "--protocol", study)
        assert run(*fit, "--out", tmp_path / f"{name}.json")[0] == 0
    assert load(tmp_path / "a.json").seed == "study 8"
    models = [load(tmp_path / f"{name}.json") for name in ("a", "b")]
    different = models[0].fingerprint != models[1].fingerprint  # it may be an unlucky seed
    assert run("compare", tmp_path / "a.json", tmp_path / "b.json")[0] == int(different)
    code, out, _ = run("predict", tmp_path / "a.json", labs / "b.csv", "--json")
    assert code == 0
    assert np.mean(np.array(json.loads(out)["predictions"]) == draw(2, 25_000)[1]) > 0.8


def test_warnings_are_one_line_and_in_the_json(run, tmp_path):
    data = write_csv(tmp_path / "small.csv", *draw(1, 150))
    code, out, err = run("fit", data, *SEED, "--json")
    assert code == 0
    (warning,) = documented(run, "fit", out)["warnings"]
    assert "Get more rows" in warning
    assert err == f"replearn: warning: {warning}\n"
    assert json.loads(out)["estimated_disagreement"] is None


# ---------------------------------------------------------------- six algorithms

ESTIMATORS = {
    "svm": ReplicableSVMClassifier,
    "sgd": ReplicableSGDClassifier,
    "net": ReplicableNetClassifier,
    "dp": ReplicableDPClassifier,
    "boost-box": functools.partial(ReplicableBoostingClassifier, rounding="box"),
    "boost-foam": functools.partial(ReplicableBoostingClassifier, rounding="foam"),
}
FEW_ROWS = "ignore::replearn.errors.ReplicabilityWarning"  # 5,000 rows are few for some


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The same 5,000 rows as .csv and as .npz, and 25 of them."""
    folder = tmp_path_factory.mktemp("tables")
    X, y = draw(1, 5000)
    write_csv(folder / "a.csv", X, y)
    np.savez(folder / "a.npz", X=X, y=y)
    np.savez(folder / "few.npz", X=X[:25], y=y[:25])
    return folder


def test_the_six_algorithms_are_those_of_the_plan():
    assert set(ESTIMATORS) == set(ALGORITHMS) == set(planning.ALGORITHMS)


@pytest.mark.filterwarnings(FEW_ROWS)
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fit_show_and_predict_with_each_algorithm(run, tables, tmp_path, algorithm):
    options = ("--algorithm", algorithm, "--margin", 0.4, "--max-error", 0.2, "--seed", "7")
    out = tmp_path / "m.json"
    code, text, _ = run("fit", tables / "a.csv", "--target", "label", *options, "--out", out)
    assert code == 0
    X, y = draw(1, 5000)
    made = ESTIMATORS[algorithm](margin=0.4, max_error=0.2, shared_seed="7")
    assert algorithm_of(made) == algorithm
    expected = made.fit(X, y)
    model = load(out)
    assert model.fingerprint == expected.fingerprint_
    assert model.fingerprint in text
    for word in ("estimated", "certified", "5,000, "):
        assert word in text
    data = documented(run, "fit", run("fit", tables / "a.npz", *options, "--json")[1])
    assert (data["algorithm"], data["fingerprint"]) == (algorithm, model.fingerprint)
    assert data["estimated_disagreement"] == expected.certificate_.estimated_disagreement
    assert data["rows_needed"] == expected.plan_.n_samples

    shown = documented(run, "show", run("show", out, "--json")[1])
    assert shown["provenance"]["rows"] == 5000
    assert shown["feature_names"] == NAMES
    code, text, _ = run("show", out)
    assert code == 0
    assert "largest weights" in text
    code, printed, _ = run("predict", out, tables / "a.csv", "--json")
    assert code == 0
    assert json.loads(printed)["predictions"] == expected.predict(X).tolist()


@pytest.mark.filterwarnings(FEW_ROWS)
@pytest.mark.parametrize(
    ("algorithm", "how"),
    [
        ("svm", "in 50 batches of 100"),
        ("dp", " candidates were tested"),
        ("boost-box", " rounds"),
    ],
)
def test_fit_says_what_was_done_with_the_rows(run, tables, algorithm, how):
    out = run("fit", tables / "a.npz", "--algorithm", algorithm, "--margin", 0.3)[1]
    assert how in out


@pytest.mark.parametrize(("algorithm", "source"), [("svm", "1 batch"), ("net", "these rows")])
def test_few_rows_have_no_estimate(run, tables, tmp_path, algorithm, source):
    fit = ("fit", tables / "few.npz", "--algorithm", algorithm, "--margin", 0.4)
    code, out, err = run(*fit, "--out", tmp_path / "m.json")
    assert code == 0
    assert f"estimated    cannot be said from {source}\n" in out
    assert err.startswith("replearn: warning: The disagreement with another lab ")
    provenance = json.loads(run("show", tmp_path / "m.json", "--json")[1])["provenance"]
    assert provenance["estimated_disagreement"] is None
    assert json.loads(run(*fit, "--json")[1])["estimated_disagreement"] is None


@pytest.mark.parametrize("command", ["fit", "audit"])
@pytest.mark.parametrize("algorithm", ALGORITHMS[1:])
def test_only_svm_finds_its_margin(refused, command, algorithm):
    # there is no such file: options are looked at first
    line = refused(command, "no.npz", "--margin", "auto", "--algorithm", algorithm)
    assert line == (
        f"replearn: error: --margin auto needs --algorithm svm, got {algorithm}. Pass the margin "
        "as a number."
    )


@pytest.mark.filterwarnings(FEW_ROWS)
def test_margin_auto(run, tables):
    data = json.loads(run("fit", tables / "a.npz", "--margin", "auto", "--json")[1])
    X, y = draw(1, 5000)
    expected = ReplicableSVMClassifier(margin="auto", shared_seed="0").fit(X, y)
    assert (data["algorithm"], data["fingerprint"]) == ("svm", expected.fingerprint_)


@pytest.mark.parametrize("command", ["fit", "audit"])
def test_a_protocol_says_the_algorithm(refused, command):
    protocol = ("--protocol", "study.json", "--algorithm", "svm", "--max-error", 0.1)
    line = refused(command, "no.npz", *protocol)
    assert "as well as the algorithm, got --max-error, --algorithm too. Leave that out" in line


# ---------------------------------------------------------------- the demo


SMALL = {"rows": (2000, 2500), "n_pilot": 300, "n_new": 500, "n_features": 3}


def test_demo(run, monkeypatch):
    monkeypatch.setattr(demo, "Setting", functools.partial(demo.Setting, **SMALL))
    code, out, err = run("demo", "--repetitions", 2)
    assert (code, err) == (0, "")
    for word in ("lab A", "2,500", "replearn, 4 hint bits", "measured", "estimated", "AUC"):
        assert word in out
    assert "\x1b" not in out  # no colours in a pipe
    assert max(map(len, out.splitlines())) <= 80
    data = documented(run, "demo", run("demo", "--repetitions", 2, "--json")[1])
    base, pilot, _, hinted, full = data["methods"]
    assert (base["same"], pilot["same"], full["same"], full["studies"]) == (2, 2, 0, 2)
    assert (base["auc"], base["evidence_bits"]) == (0.5, None)
    assert hinted["name"] == "replearn, 4 hint bits"
    assert data["same"] == (data["labs"][0]["fingerprint"] == data["labs"][1]["fingerprint"])


@pytest.fixture(scope="module")
def demonstration():
    """What two small studies of the demo gave."""
    return demo.run(demo.Setting(n_studies=2, **SMALL))


def test_demo_says_the_same_each_time(demonstration):
    first, again = demonstration, demo.run(demo.Setting(n_studies=2, **SMALL))
    assert first.methods == again.methods
    assert first.labs == again.labs
    assert all(0.5 <= method.auc <= 1 for method in first.methods)


def test_demo_counts_pairs_whose_models_are_equal():
    def study(*keys):
        fits = [{demo.FULL: demo.Fit(key, 0.5, 0.5, 0.5)} for key in keys]
        return demo.Study(tuple(demo.Lab(1, 1, "", None, fit, {}) for fit in fits), {})

    pairs = [study(b"a", b"a"), study(b"a", b"b"), study(b"c", b"c")]
    method = demo._method(demo.FULL, pairs, demo.Setting())
    assert (method.n_same, method.agreement.n_pairs) == (2, 3)
    interval = method.agreement.interval  # Clopper-Pearson
    assert interval == pytest.approx((1 - 0.9916, 1 - 0.0943), abs=1e-4)


def test_demo_when_the_first_pair_differs(demonstration):
    first, second = demonstration.labs
    other = replace(demonstration, labs=(first, replace(second, fingerprint="0" * 64)))
    assert "Different models this time" in demo.text(other, styled=False)


def test_demo_text_on_a_terminal_and_without_rich(demonstration, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    drawn = demo.text(demonstration, styled=True)
    assert "─" in drawn
    plain = demo.text(demonstration, styled=False)
    assert "─" not in plain
    monkeypatch.setitem(sys.modules, "rich.table", None)
    assert demo.text(demonstration, styled=True) == plain


# ---------------------------------------------------------------- bad usage


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("frob", "invalid choice: 'frob'"),
        ("fit", "the following arguments are required: DATA"),
        ("fit a.csv --margin wide", "argument --margin: invalid float value: 'wide'"),
        ("fit a.csv --jobs 0", "argument --jobs: must be a whole number of at least 1, got '0'"),
        ("fit a.csv --expect abc", "argument --expect: must be 64 hexadecimal digits, got 'abc'"),
        ("fit a.csv --mode fast", "argument --mode: invalid choice: 'fast'"),
        ("plan --features -3", "must be a whole number of at least 1, got '-3'"),
        ("compare", "the following arguments are required: "),
        ("demo --repetitions x", "must be a whole number of at least 1, got 'x'"),
    ],
)
def test_bad_usage(refused, arguments, message):
    line = refused(*arguments.split())
    assert message in line
    assert "--help)" in line


def test_bad_parameters(refused, labs):
    line = refused("fit", labs / "a.csv", *SEED, "--max-disagreement", 5)
    assert line == (
        "replearn: error: --max-disagreement must be a number in (0, 1), got 5.0. It is a "
        "probability; for 5 % pass 0.05."
    )
    assert "margin must be a number in (0, 1)" in refused("plan", "--margin", 2, "--features", 3)
    assert "plan needs --features N, or --pilot FILE" in refused("plan", "--margin", 0.2)
    assert refused("compare", labs / "a.json")  # with what?
    line = refused("fit", labs / "a.csv", *SEED, "--protocol", "study.json")
    assert "--protocol fixes the promise, the mode, the intercept and the seed" in line


def test_bad_tables(refused, labs, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text("a,label\n1,p\n,q\n")
    line = refused("fit", bad, "--target", "label")
    assert f"{bad}, line 3, column 'a' must be a finite number, got an empty cell" in line
    assert "cannot be read: No such file" in refused("fit", tmp_path / "x.csv", "--target", "y")
    assert "has no column 'y'" in refused("fit", labs / "a.csv", "--target", "y")
    assert "labels are needed, got none. Name the label column" in refused("fit", labs / "a.csv")
    assert "must end in one of .npz, .csv" in refused("fit", tmp_path / "x.txt", "--target", "y")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["p"] * 4, "must hold two classes, got one class: 'p'"),
        (["p", "q", "r", "p"], "must hold two classes, got more: 'p', 'q', 'r'"),
        (["0.1", "0.2", "0.35", "0.7"], "whole numbers, booleans or text, got 0.1"),
    ],
)
def test_bad_labels(refused, tmp_path, labels, message):
    data = write_csv(tmp_path / "t.csv", draw(1, 4)[0], labels)
    assert message in refused("fit", data, "--target", "label", "--algorithm", "sgd")


def test_too_few_rows_for_certified_mode(refused, labs):
    line = refused("fit", labs / "a.csv", *SEED, "--mode", "certified")
    assert "certified mode needs " in line
    assert "got 20,000. Get more rows, allow" in line


def test_sorted_rows_without_shuffling(refused, tmp_path):
    X, y = draw(1, 2000)
    order = np.argsort(y)
    data = write_csv(tmp_path / "sorted.csv", X[order], y[order])
    assert "y looks sorted" in refused("fit", data, *SEED, "--no-shuffle")


def test_tables_that_do_not_fit_the_model(refused, labs, tmp_path):
    X, y = draw(1, 5)
    other = write_csv(tmp_path / "o.csv", X, y, names=["age", "dose", "pulse", "weight"])
    assert "has no column 'size'" in refused("predict", labs / "a.json", other)
    np.savez(tmp_path / "narrow.npz", X=X[:, :3])
    line = refused("predict", labs / "a.json", tmp_path / "narrow.npz")
    assert "X must have 4 columns, as in training, got shape (5, 3)" in line
    X[2, 1] = np.nan
    np.savez(tmp_path / "nan.npz", X=X)
    line = refused("predict", labs / "a.json", tmp_path / "nan.npz")
    assert "X must hold finite numbers, got nan in row 2, column 1" in line


def test_bad_model_files(refused, labs, tmp_path):
    damaged = tmp_path / "a.json"
    damaged.write_bytes((labs / "a.json").read_bytes().replace(b'"seed":"study 7"', b'"seed":"x"'))
    for command in (("show", damaged), ("compare", labs / "a.json", damaged)):
        assert "was altered or damaged" in refused(*command)
    assert "is not valid JSON" in refused("show", labs / "a.csv")
    assert "No such file or directory" in refused("compare", labs / "a.json", tmp_path / "no.json")
    assert "must be a file, got a folder" in refused("show", tmp_path)


# ---------------------------------------------------------------- files that cannot be written


def test_places_that_cannot_be_written(refused, labs, tmp_path):
    fit = ("fit", labs / "a.csv", *SEED, "--out")
    assert "is no folder. Make it first" in refused(*fit, tmp_path / "no" / "m.json")
    assert "must be a regular file" in refused(*fit, tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert "must be a regular file" in refused(*fit, tmp_path / "link")
    predict = ("predict", labs / "a.json", labs / "a.csv", "--out")
    assert "is no folder. Make it first" in refused(*predict, tmp_path / "no" / "p.csv")
    assert os.listdir(tmp_path) == ["link"]


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_folder_without_write_permission(refused, labs, tmp_path):
    tmp_path.chmod(0o500)
    line = refused("fit", labs / "a.csv", *SEED, "--out", tmp_path / "m.json")
    assert "no right to write" in line


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_a_full_disk_leaves_nothing_half_written(refused, labs, tmp_path, monkeypatch, command):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "out"
    out.write_text("as it was")
    monkeypatch.setattr(os, "fsync", full)
    arguments = {"fit": (labs / "a.csv", *SEED), "predict": (labs / "a.json", labs / "a.csv")}
    line = refused(command, *arguments[command], "--out", out)
    assert f"{out} cannot be written: No space left on device" in line
    assert out.read_text() == "as it was"
    assert os.listdir(tmp_path) == ["out"]


# ---------------------------------------------------------------- the process


def test_exit_codes_of_the_process(labs, tmp_path):
    same = replearn("compare", labs / "a.json", labs / "b.json")
    assert (same.returncode, same.stderr) == (0, "")
    model = load(labs / "a.json")
    save(replace(model, seed="other"), tmp_path / "c.json")
    different = replearn("compare", labs / "a.json", tmp_path / "c.json", "--json")
    assert different.returncode == 1
    assert json.loads(different.stdout)["differences"] == ["seed is 'study 7' and 'other'"]
    bad = replearn("fit", tmp_path / "no.csv", "--target", "y")
    assert (bad.returncode, bad.stdout, bad.stderr.count("\n")) == (2, "", 1)
    usage = replearn("fit", "--margin")
    assert (usage.returncode, usage.stdout, usage.stderr.count("\n")) == (2, "", 1)


def test_a_fit_in_a_pipe_shows_no_progress(labs):
    fit = replearn("fit", labs / "a.csv", *SEED, "--json")
    assert (fit.returncode, fit.stderr) == (0, "")
    assert json.loads(fit.stdout)["fingerprint"] == load(labs / "a.json").fingerprint


def test_a_bug_is_not_mistaken_for_different_models(run, labs, monkeypatch):
    def broken(options):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(cli.compare, "run", broken)
    code, out, err = run("compare", labs / "a.json", labs / "b.json")
    assert (code, out) == (70, "")
    assert "ZeroDivisionError: oops" in err
    assert "please report" in err.splitlines()[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of a shell")
def test_a_reader_that_has_seen_enough(labs):
    command = f"{sys.executable} -m replearn predict {labs / 'a.json'} {labs / 'b.csv'} | head -1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (141, "prediction,score\n", "")


def test_names_in_a_file_cannot_steer_the_terminal(run, labs, tmp_path):
    names = ("\x1b[2J", "dose", "pulse", "a\rb")
    model = replace(load(labs / "a.json"), feature_names=names, seed="\x1b]0;x\x07")
    save(model, tmp_path / "evil.json", provenance={"\x1b[31m": "\x9b"})
    for command in (("show",), ("compare", labs / "a.json")):
        out = run(*command, tmp_path / "evil.json")[1]
        assert not set(out) & set("\x1b\x07\r\x9b")


# ---------------------------------------------------------------- progress


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(progress, "on_terminal", lambda: True)


def test_progress_on_a_terminal_without_rich(terminal, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress.progress("reading", 4) as advance:
        advance(1)
        advance(4)
    assert capsys.readouterr().err == "\rreading 25 %\rreading 100 %\r\x1b[K"


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
def test_progress_on_a_terminal(labs):
    import pty

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "replearn", "fit", str(labs / "b.csv"), *SEED, "--json"]
    env = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=env)
    os.close(theirs)
    out, _ = process.communicate(timeout=120)
    shown = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert process.returncode == 0
    assert json.loads(out)["rows"] == 25_000
    assert "reading b.csv" in shown
    assert "fitting" in shown
