"""Models never change: recorded fingerprints, from directions and from rows.

A difference here is a changed output: it goes into CHANGELOG.md and raises the format version.
``python tests/golden/test_models.py`` prints what is recorded below.
"""

import warnings

import numpy as np
import pytest

from replearn.codes.model import Model
from replearn.codes.randomness import SharedRandomness
from replearn.codes.space import CodeSpace
from replearn.errors import ReplicabilityWarning
from replearn.estimators import ReplicableSVMClassifier

# Eleven features and an intercept, in units of 1/64: every float holds them exactly.
DIRECTION = np.array([17, -40, 3, 0, 25, -8, 31, 12, -19, 6, -2, 9]) / 64

SPACES = {
    "none, centre": ("none", 12, "centre", "0.25"),
    "none, leech": ("none", 12, "leech", "0.156"),
    "rotation, e8": ("rotation", 12, "e8", "0.1"),
    "rotation, centre": ("rotation", 12, "centre", "0.0123"),
    "hadamard, centre": ("hadamard", 7, "centre", "0.2"),
    "hadamard, leech": ("hadamard", 12, "leech", "0.05"),
    "gaussian, ak": ("gaussian", 30, "ak", "0.11"),
    "gaussian, leech": ("gaussian", 30, "leech", "0.2"),
    "signs, centre": ("signs", 20, "centre", "0.07"),
    "signs, e8": ("signs", 20, "e8", "0.3"),
}

FITS = {
    "practical": {"margin": 0.1},
    "practical, gaussian, e8": {
        "margin": 0.1,
        "projection": "gaussian",
        "rounding": "e8",
        "n_components": 20,
        "grid_width": 0.05,
    },
    "hard margin": {"margin": 0.1, "regularization": 0.0, "fit_intercept": False},
    "paper": {"mode": "paper", "margin": 0.1, "batch_size": 60, "n_batches": 10},
}

RECORDED = {
    "none, centre": "70cd5f90283cef1c8ea3bc8db35892fa4ccaa79d4e8138de4d24329e52ceae9f",
    "none, leech": "040bcc4128df59bbe8f223224464c3b3984a5b43ed8239d950784c53fff7306a",
    "rotation, e8": "13fa8569815f1402296fb9427f3116109f074f2e0ff3b17c5878014dd268a03d",
    "rotation, centre": "adc8a81af3b3aa47f5f84164af7d39fd6296dabf14687ddc0f8a52deb6b51b09",
    "hadamard, centre": "c215eb99c32dfd2bf6013ca9fb87d54393625a40f1fadc025b7afe6f845be198",
    "hadamard, leech": "7bf0019891d374c972c4a89fad2013d983486d8e67871c5a60e24f769757dd05",
    "gaussian, ak": "a7f264db574d85a538e4f7941f016665a9a2f3c21a34dd99541a6de7509bc39e",
    "gaussian, leech": "794eedf610148b41f54d47bc0568fd82e47d7bb6ff96d1e2e30ce5ff43ebf36c",
    "signs, centre": "5d38c2d693e279df7d84cae678d8edf8233dff5408e48a14f751a78e6848e873",
    "signs, e8": "2a0c4362ed0ba57739adda381bf1e8a965272a76d85638ee430eb7847aa354cc",
    "practical": "ba1030bb7f4011b24666a257a842953bc2609b968ad09e7aee39ff3fc7c56dd7",
    "practical, gaussian, e8": "ce82b06bf384a963cc9aff652a9dda53f24f91ee3e8b3b3e9e6e5bf1426e02c8",
    "hard margin": "fae0c3587c2aa15ef93cb905413b64671969c399728bcb4a8c724d6be04bf3c3",
    "paper": "b3adbd258127c8cd0964b038ff0ba94d38415eec10fd9673573839a351e1601b",
}


def encoded(name: str) -> Model:
    projection, n_components, rounding, width = SPACES[name]
    space = CodeSpace(DIRECTION.size, projection, n_components, rounding, width)
    return Model(
        recipe="svm",
        n_features=DIRECTION.size - 1,
        fit_intercept=True,
        space=space,
        seed="golden",
        classes=("no", "yes"),
        codes=space.encode(DIRECTION, SharedRandomness("golden")),
    )


def rows(n_rows: int = 900) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers from a linear congruential generator, labelled by a halfspace."""
    normal, state = (3, -2, 5, 1, -4), 12345
    X: list[list[int]] = []
    y: list[int] = []
    while len(X) < n_rows:
        row = []
        for _ in normal:
            state = (1103515245 * state + 12345) % 2**31
            row.append((state >> 16) % 201 - 100)
        height = sum(w * x for w, x in zip(normal, row, strict=True))
        if abs(height) >= 150:
            X.append(row)
            y.append(1 if height > 0 else -1)
    return np.array(X, dtype=np.float64), np.array(y)


def fitted(name: str) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)  # few rows
        return ReplicableSVMClassifier(**FITS[name], shared_seed="golden").fit(*rows()).model_


def test_the_rows_are_what_they_were():
    X, y = rows()
    assert X[:2].astype(int).tolist() == [[66, -57, -38, 69, -100], [-93, 3, 37, 74, 95]]
    assert (int(X.sum()), int(y.sum())) == (-3825, -26)


@pytest.mark.parametrize("name", SPACES)
def test_models_of_a_direction(name: str) -> None:
    assert encoded(name).fingerprint == RECORDED[name]


@pytest.mark.parametrize("name", FITS)
def test_models_of_rows(name: str) -> None:
    assert fitted(name).fingerprint == RECORDED[name]


def test_the_recorded_codes() -> None:
    assert encoded("none, centre").codes.tolist() == [0, -3, 0, -1, 0, -1, 1, 0, -2, -1, -1, 0]
    assert fitted("practical").codes.tolist() == [0, -2, 2, -2, -6, 0, -2, -2]


if __name__ == "__main__":
    X, y = rows()
    print(X[:2].astype(int).tolist(), int(X.sum()), int(y.sum()))
    print(encoded("none, centre").codes.tolist(), fitted("practical").codes.tolist())
    for name in SPACES:
        print(f'    "{name}": "{encoded(name).fingerprint}",')
    for name in FITS:
        print(f'    "{name}": "{fitted(name).fingerprint}",')
