"""Each limit of docs/model-file.md: what is just allowed is loaded, what is just beyond is not."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from replearn.codes.model import Model
from replearn.errors import InvalidFile
from replearn.files.modelfile import load, too_large
from tests.fuzzing.garbling import sealed
from tests.golden.test_files import recorded

CASES = {case["name"]: case["file"] for case in recorded()}

TWO_COLUMNS = CASES["published basis"]["model"]["encoding"][:2]

Edits = dict[str, Any]


def changed(name: str, edits: Edits) -> dict[str, Any]:
    """A recorded file in which some values of the model, or of its space, are others."""
    document = copy.deepcopy(CASES[name])
    model = document["model"]
    for key, value in edits.items():
        place = model if key in model else model["space"]
        if value is ...:
            del place[key]
        else:
            place[key] = value
    return sealed(document)


def loaded(folder: Path, document: dict[str, Any]) -> Model:
    path = folder / "a.model.json"
    path.write_text(json.dumps(document), "utf-8")
    return load(path)


#: A recorded model, and values with which it is still one.
ALLOWED: list[tuple[str, Edits]] = [
    ("none, centre", {"codes": [2**53] * 6 + [-(2**53)] * 6}),
    ("hadamard, centre", {"n_components": 1, "codes": [3]}),
    ("hadamard, centre", {"n_components": 12, "codes": [3] * 12}),
    ("gaussian, ak", {"n_features": 1, "n_components": 1, "codes": [1], "fit_intercept": False}),
    ("gaussian, ak", {"n_features": 2**24, "n_components": 1, "codes": [1]}),
    ("hadamard, ak, hint", {"hint": 0}),
    ("hadamard, ak, hint", {"hint": 7}),
    ("hadamard, ak, hint", {"hint_bits": 1, "hint": 1}),
    ("three classes, gaussian, ak", {"hint": 0}),
    ("net, random", {"codes": [0]}),
    ("net, random", {"codes": [4999]}),
    ("net, random", {"n_candidates": 1, "codes": [0]}),
    ("net, random", {"n_candidates": 2**53, "codes": [2**53 - 1]}),
    ("net, random", {"projection": "hadamard", "n_components": 1}),
    ("net, random", {"projection": "gaussian", "n_components": 2**20}),
    ("net, random", {"projection": "gaussian", "n_components": 1, "n_features": 2**24}),
    ("net, lattice", {"radius": "0.09", "n_candidates": 105568, "codes": [0]}),
    ("boost, foam", {"n_features": 23, "n_rounds": 0, "codes": []}),
    ("boost, foam", {"codes": [0] * 80}),
    ("boost, box", {"codes": [-1] * 64}),
    ("boost, box", {"n_rounds": 0, "codes": [], "n_features": 2**24}),
]

#: A recorded model, values with which it is none, and what the message says.
REFUSED: list[tuple[str, Edits, str]] = [
    ("none, centre", {"codes": [2**53 + 1] * 12}, "at most 2.53"),
    ("none, centre", {"codes": [-(2**53) - 1] * 12}, "at most 2.53"),
    ("none, centre", {"version": 0}, "version 0 is unknown"),
    ("none, centre", {"version": True}, "version True is unknown"),
    ("none, centre", {"version": 2}, "a model of this kind has version 1"),
    ("hadamard, centre", {"n_components": 0, "codes": []}, "n_components must be an integer"),
    ("hadamard, centre", {"n_components": 13, "codes": [3] * 13}, "is 13 for 12 inputs"),
    ("rotation, centre", {"n_components": 11, "codes": [3] * 11}, "is 11 for 12 inputs"),
    ("rotation, centre", {"n_components": 13, "codes": [3] * 13}, "is 13 for 12 inputs"),
    ("gaussian, ak", {"n_features": 2**24 + 1}, "n_features must be an integer"),
    ("gaussian, ak", {"n_components": 2**20 + 1}, "n_components must be at most 1,048,576"),
    ("gaussian, ak", {"n_components": 2**24 + 2}, "from 1 to 16,777,217"),
    ("hadamard, ak, hint", {"hint": 8}, "hint must be an integer from 0 to 7"),
    ("hadamard, ak, hint", {"hint": -1}, "hint must be an integer from 0 to 7"),
    ("hadamard, ak, hint", {"hint_bits": 0, "hint": 0}, "hint_bits must be an integer from 1"),
    ("hadamard, ak, hint", {"hint": ...}, "both hint and hint_bits"),
    ("hadamard, ak, hint", {"hint_bits": ...}, "both hint and hint_bits"),
    ("three classes, gaussian, ak", {"n_outputs": 2}, "n_outputs must be an integer from 3"),
    ("three classes, gaussian, ak", {"n_outputs": 101}, "from 3 to 100"),
    ("three classes, gaussian, ak", {"classes": ["a", "b"]}, "there must be 3 classes"),
    ("three classes, gaussian, ak", {"classes": list("abcd")}, "there must be 3 classes"),
    ("three classes, gaussian, ak", {"n_features": 2**23}, "n_features must be at most 5,592,405"),
    ("three classes, logistic", {"classes": [0, 1]}, "there must be 3 classes"),
    ("table", {"n_components": 5}, "n_components is 5 for 6 inputs"),
    ("table", {"n_components": 7}, "n_components is 7 for 6 inputs"),
    ("table", {"projection": "none"}, "projection must be one of published"),
    ("table", {"n_features": 4}, "each row of the basis must be a list of 5"),
    ("logistic table", {"n_features": 4}, "must"),
    ("published basis", {"encoding": TWO_COLUMNS}, "encoding makes 2 features, the model has 3"),
    ("net, published", {"n_components": 3}, "n_components is 3 for 4 inputs"),
    ("net, published", {"projection": "gaussian"}, "projection must be one of published"),
    ("net, random", {"codes": [-1]}, "index of one of 5,000 candidates"),
    ("net, random", {"codes": [5000]}, "index of one of 5,000 candidates"),
    ("net, random", {"n_candidates": 0}, "n_candidates must be an integer from 1"),
    ("net, random", {"n_candidates": 2**53 + 1}, "n_candidates must be an integer"),
    ("net, random", {"net": "fine"}, "net must be one of"),
    ("net, random", {"projection": "fine"}, "projection must be one of"),
    ("net, random", {"radius": "0.18"}, "must be an object with the keys"),
    ("net, random", {"n_components": 3}, "n_components is 3 for 4 inputs"),
    ("net, random", {"projection": "gaussian", "n_components": 2**24 + 2}, "to 16,777,217"),
    ("net, lattice", {"radius": ...}, "must be an object with the keys"),
    ("net, lattice", {"radius": "1e-9"}, "radius must be a decimal"),
    ("net, lattice", {"n_candidates": 9055}, "n_candidates must be 9056"),
    ("boost, foam", {"n_features": 24, "n_rounds": 0, "codes": []}, "foam takes at most 24"),
    ("boost, foam", {"n_rounds": -1}, "n_rounds must be an integer from 0"),
    ("boost, foam", {"n_rounds": 2**20 + 1}, "n_rounds must be an integer from 0 to 1,048,576"),
    ("boost, foam", {"boosting": "ball"}, "boosting must be one of"),
    ("boost, foam", {"output": "ball"}, "output must be one of"),
    ("boost, foam", {"codes": [0] * 75 + [-1] + [0] * 4}, "number of a proposal"),
]


@pytest.mark.parametrize(("name", "edits"), ALLOWED, ids=str)
def test_what_is_just_allowed_is_loaded(tmp_path: Path, name: str, edits: Edits) -> None:
    document = changed(name, edits)
    assert loaded(tmp_path, document).fingerprint == document["fingerprint"]


@pytest.mark.parametrize(("name", "edits", "message"), REFUSED, ids=str)
def test_what_is_just_beyond_is_refused(
    tmp_path: Path, name: str, edits: Edits, message: str
) -> None:
    with pytest.raises(InvalidFile, match=message):
        loaded(tmp_path, changed(name, edits))


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        # inputs (an intercept may be one of them), components, of a net, halfspaces
        ((2**24 + 1, "none", 2**24 + 1, False), (2**24 + 2, "none", 2**24 + 2, False)),
        ((2**22 + 1, "hadamard", 9, False, 4), (2**22 + 2, "hadamard", 9, False, 4)),
        ((9, "signs", 2**20, False), (9, "signs", 2**20 + 1, False)),
        ((2**20, "gaussian", 2**10, False), (2**20, "gaussian", 2**10 + 1, False)),
        ((2**20, "gaussian", 2**8, False, 4), (2**20, "gaussian", 2**8 + 1, False, 4)),
        ((2**20, "gaussian", 2**8, True), (2**20, "gaussian", 2**8 + 1, True)),
    ],
)
def test_sizes_have_these_limits(fits: tuple[Any, ...], too_much: tuple[Any, ...]) -> None:
    assert too_large(*fits) is None
    assert too_large(*too_much) is not None
