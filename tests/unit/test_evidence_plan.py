"""``publish --evidence``: a study that proves enough, or a refusal with a plan that does."""

import re

import numpy as np
import pandas as pd
import pytest

from replearn.cli import main


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 8))
    y = X @ np.linspace(-0.8, 0.8, 8) + rng.logistic(size=4000) > 0
    rows = pd.DataFrame(X, columns=list("abcdefgh")).assign(died=y.astype(int))
    rows.to_csv("a.csv", index=False)
    return tmp_path


def publish(*options):
    return main(["publish", "a.csv", "--target", "died", "--out", "study.json", *options])


def test_a_refusal_names_options_that_prove_enough(table, capsys):
    assert publish("--evidence", "20") == 2
    words = capsys.readouterr().err
    assert not (table / "study.json").exists()
    plan = re.search(r"--between 0 --rows \d+", words)
    assert plan is not None
    assert publish("--evidence", "20", *plan[0].split()) == 0


@pytest.mark.parametrize("bits", ["-3", "0", "nan", "inf"])
def test_bits_that_are_no_number_of_guesses_are_refused(table, capsys, bits):
    assert publish("--evidence", bits) == 2
    assert "from 0 to 1000 bits" in capsys.readouterr().err
    assert not (table / "study.json").exists()


def test_patients_that_a_match_takes_are_told_only_where_guesses_are_many(table, capsys):
    """Else somebody without any patient finds the model by guessing."""
    assert publish("--details") == 0
    words = capsys.readouterr().out
    assert "A match is no evidence" in words
    assert "patients needed" not in words

    for file in ("study.json", "a.model.json"):
        (table / file).unlink()
    assert publish("--details", "--between", "0", "--rows", "20000") == 0
    assert "patients needed to match" in capsys.readouterr().out


def test_what_no_plan_reaches_is_refused(table, capsys):
    assert publish("--evidence", "900") == 2
    assert "No --rows reaches it" in capsys.readouterr().err
