"""The examples on real data run, on small stand-ins with the same columns.

Their docstrings' command lines run too, on the files that ``--write`` makes, and give the models
that the scripts give.
"""

import ast
import re
import runpy
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from replearn import cli

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = [
    "flights_by_airport",
    "covertype_two_halves",
    "mnist_zero_one",
    "newsgroups",
    "heart_by_hospital",
]
SITES = {"cleveland": 303, "hungarian": 294, "switzerland": 123, "va": 200}


def write_flights(folder, rng):
    n = 9000
    origin = rng.choice(["EWR", "JFK", "LGA"], n)
    departure = np.round(rng.exponential(20, n) - 10)
    # at LGA the flights that leave late arrive early: another population
    arrival = np.where(origin == "LGA", 20 - departure, departure) + rng.normal(0, 5, n).round()
    arrival[::50] = np.nan
    table = pd.DataFrame(
        {
            "month": rng.integers(1, 13, n),
            "day": rng.integers(1, 29, n),
            "hour": rng.integers(5, 24, n),
            "minute": rng.integers(0, 60, n),
            "sched_arr_time": rng.integers(0, 2400, n),
            "dep_delay": departure,
            "arr_delay": arrival,
            "air_time": rng.integers(30, 400, n),
            "distance": rng.integers(100, 2500, n),
            "carrier": rng.choice(["UA", "B6", "DL"], n),
            "origin": origin,
            "dest": "BOS",
        }
    )
    table.to_csv(folder / "nycflights13.csv.gz", index=False)


def write_forest(folder, rng):
    n = 6000
    cover_type = rng.integers(1, 4, n)
    names = ["Elevation", "Slope", "Aspect"]
    X = rng.normal(0, 10, (n, 3)) + np.outer(cover_type, [-100, 5, 0]) + 3000
    np.savez(
        folder / "covtype.npz",
        X=X.astype(np.int16),
        area=rng.integers(0, 2, n).astype(np.uint8),
        soil=rng.integers(0, 4, n).astype(np.uint8),
        cover_type=cover_type.astype(np.uint8),
        feature_names=np.array(names),
    )


def write_digits(folder, rng):
    n = 2400
    label = rng.integers(0, 3, n)
    pictures = rng.integers(0, 60, (n, 28, 28))
    pictures[label == 0, 6:22, 6:9] += 150
    pictures[label == 1, 6:22, 13:16] += 150
    np.savez(
        folder / "mnist70k.npz",
        X=pictures.reshape(n, 784).astype(np.uint8),
        label=label.astype(np.uint8),
    )


def write_news(folder, rng):
    groups = ["alt.atheism", "comp.graphics", "comp.windows.x", "rec.autos", "rec.sport.hockey"]
    n, n_words, n_in_message = 2500, 300, 12
    label = np.arange(n) % len(groups)
    start = np.select([label == 0, label <= 2], [200, 0], 60)  # each section has its own words
    indices = np.concatenate(
        [np.sort(first + rng.choice(100, n_in_message, replace=False)) for first in start]
    )
    np.savez(
        folder / "newsgroups20.npz",
        data=rng.integers(1, 4, indices.size).astype(np.uint8),
        indices=indices.astype(np.uint16),
        indptr=(n_in_message * np.arange(n + 1)).astype(np.int32),
        shape=np.array([n, n_words]),
        label=label.astype(np.uint8),
        label_names=np.array(groups),
        vocabulary=np.frombuffer("\n".join(f"w{i}" for i in range(n_words)).encode(), np.uint8),
    )


def write_heart(folder, rng):
    site = np.repeat(list(SITES), list(SITES.values()))
    n = len(site)
    num = rng.integers(0, 5, n)
    ill = num > 0
    numbers = {
        "age": rng.integers(30, 77, n),
        "sex": rng.integers(0, 2, n),
        "trestbps": rng.normal(130, 15, n).round(),
        "chol": np.where(site == "switzerland", 0, rng.normal(240, 50, n).round()),
        "fbs": rng.integers(0, 2, n),
        "thalach": np.round(rng.normal(150, 20, n) - 25 * ill),
        "exang": ill * rng.integers(0, 2, n),
        "oldpeak": np.round(rng.exponential(1, n) + ill, 1),
        "ca": rng.integers(0, 4, n),
    }
    codes = {"cp": (1, 2, 3, 4), "restecg": (0, 1, 2), "slope": (1, 2, 3), "thal": (3, 6, 7)}
    table = pd.DataFrame(numbers | {name: rng.choice(values, n) for name, values in codes.items()})
    for name in ("trestbps", "fbs", "slope", "ca", "thal"):
        table[name] = table[name].astype(float).mask(rng.random(n) < 0.3)
    table.assign(num=num, site=site).to_csv(folder / "heart_disease_4site.csv.gz", index=False)


def write_incomes(folder, rng):
    n = 9000
    age, hours = rng.integers(18, 80, n), rng.integers(10, 70, n)
    work = rng.choice(["private", "public"], n)
    rich = age + hours + 20 * (work == "public") + rng.normal(0, 15, n) > 95
    table = pd.DataFrame({"age": age, "hours": hours, "work": work, "fnlwgt": 1})
    table["income"] = np.where(rich, ">50K", "<=50K")
    table.to_csv(folder / "adult.csv.gz", index=False)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A folder with a small stand-in for each data set."""
    folder = tmp_path_factory.mktemp("data")
    for number, write in enumerate(
        (write_flights, write_forest, write_digits, write_news, write_heart, write_incomes)
    ):
        write(folder, np.random.default_rng(number))
    return folder


@pytest.fixture
def run(data, monkeypatch, capsys):
    """Run an example as a script, and give what it printed."""
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "real_data", raising=False)

    def run_example(name, *options):
        monkeypatch.setattr(sys, "argv", [name, str(data), "--quick", *map(str, options)])
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        return capsys.readouterr().out

    yield run_example
    monkeypatch.delitem(sys.modules, "real_data", raising=False)


def commands(name):
    """The command lines in the docstring of an example."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{name}.py").read_text()))
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line)[1:] for line in lines if line.strip().startswith("replearn ")]


def airports_differ_where_labs_agree(printed):
    rates = dict(re.findall(r"(?m)^  (\w.*? and .*?): +(\d) of 3 ", printed))
    assert rates["EWR and LGA"] == rates["JFK and LGA"] == "0"
    assert min(int(rates["EWR and JFK"]), int(rates["lab A and lab B"])) >= 2


def says_what_so_few_patients_are_worth(printed):
    assert re.search(r"cleveland: certified mode needs [\d,]{9,} rows .* got \d{2,3}\.", printed)
    assert "cp: one of 1, 2, 3, 4; missing: none of them" in printed
    assert re.search(r"all hospitals agree: +\d of 3 ", printed)
    assert printed.count("balanced accuracy") == len(SITES)


#: What an example must find on its stand-in.
FINDINGS = {
    "flights_by_airport": airports_differ_where_labs_agree,
    "heart_by_hospital": says_what_so_few_patients_are_worth,
}


@pytest.mark.parametrize("name", NAMES)
def test_example_and_its_command_lines(name, run, tmp_path, monkeypatch, capsys):
    printed = run(name, "--figure", tmp_path / "figure.svg", "--write", tmp_path / "STUDY")
    assert ElementTree.parse(tmp_path / "figure.svg").getroot().tag.endswith("svg")
    if name in FINDINGS:
        FINDINGS[name](printed)
    n_lab = re.search(r"2 sites of ([\d,]+) rows", printed)[1].replace(",", "")

    monkeypatch.chdir(tmp_path)
    codes = {}
    for command in commands(name):
        if "--samples-per-site" in command:
            command[command.index("--samples-per-site") + 1] = n_lab
        codes.setdefault(command[0], []).append(cli.main(command))
    by_hand = capsys.readouterr().out
    assert codes["fit"] == [0, 0]
    assert codes["plan"] == ([0, 0] if name == "heart_by_hospital" else [0])
    assert codes["compare"][0] in (0, 1)

    fingerprints = [text[:8] for text in re.findall(r"(?m)^fingerprint +([0-9a-f]{64})$", by_hand)]
    assert len(fingerprints) == 2
    assert set(fingerprints) <= {text[:8] for text in re.findall(r"\b[0-9a-f]{8,64}\b", printed)}


def test_unknown_folder_is_one_line(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["newsgroups", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(EXAMPLES / "newsgroups.py"), run_name="__main__")
    assert stopped.value.code == 2
    assert "must be the folder with the data sets" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_finished_models_are_chosen_alike(run):
    printed = run("choose_a_model")
    ours = [int(n) for n in re.findall(r"with shared noise: (\d) of 5", printed)]
    assert len(ours) == 2
    assert sum(ours) >= 6  # .9 each is planned
    assert printed.count("published: ") == 4
    assert "together             0.2 of 0.2" in printed
