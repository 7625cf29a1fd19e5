"""Boosting: same rows, same bytes, whatever the threads, the storage or the processor."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from replearn import ReplicabilityWarning, ReplicableBoostingClassifier

ROOT = Path(__file__).resolve().parents[2]

VARIANTS = {
    f"{rounding}, {output}, {'fresh' if fresh_rows else 'all'} rows": {
        "rounding": rounding,
        "output": output,
        "fresh_rows": fresh_rows,
    }
    for rounding in ("box", "foam")
    for output in ("halfspace", "majority")
    for fresh_rows in (True, False)
} | {
    "no intercept": {"fit_intercept": False},
    "private": {"random_state": 5, "fresh_rows": True},
    "paper": {"mode": "paper", "n_rounds": 5, "batch_size": 8000},
}


def population(n_rows=70_000, n_features=7):
    """Rows in units of 1/1024, so float32 holds them, labelled in exact integer arithmetic."""
    rng = np.random.default_rng(11)
    rows = rng.integers(-2048, 2048, size=(n_rows, n_features))
    rows[rng.random(rows.shape) < 0.4] = 0
    rows[:3] = 0
    heights = rows @ rng.integers(-9, 10, size=n_features)
    kept = (abs(heights) > 3000) | (np.arange(n_rows) < 3)
    return rows[kept] / 1024, np.where(heights[kept] > 0, "yes", "no")


X, Y = population()


def fingerprint(rows, **parameters):
    # boxes so small that every bit of a mean counts
    sizes = {"margin": 0.15, "shared_seed": "same bytes", "n_rounds": 4, "grid_width": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        return ReplicableBoostingClassifier(**sizes | parameters).fit(rows, Y).fingerprint_


def every_fingerprint():
    return {name: fingerprint(X, **sizes) for name, sizes in VARIANTS.items()}


@pytest.fixture(scope="module")
def expected():
    return every_fingerprint()


def test_all_models_are_different_so_that_equality_says_something(expected):
    assert len(set(expected.values())) == len(expected)


def test_threads(expected):
    assert len(X) > 2**15  # more than one block
    for name, sizes in VARIANTS.items():
        assert fingerprint(X, **sizes, n_jobs=3) == expected[name], name


STORED = {
    "csr": sp.csr_array,
    "float32": lambda rows: rows.astype(np.float32),
    "float32 csr": lambda rows: sp.csr_array(rows.astype(np.float32)),
    "Fortran order": np.asfortranarray,
    "huge": lambda rows: rows * 2.0**900,
    "tiny": lambda rows: rows * 2.0**-1000,
}


@pytest.mark.parametrize("storage", STORED)
def test_storage(storage, expected):
    stored = STORED[storage](X)
    if storage in ("huge", "tiny"):  # a common power of two changes no direction
        assert fingerprint(stored, fit_intercept=False) == expected["no intercept"]
        return
    for name, sizes in VARIANTS.items():
        assert fingerprint(stored, **sizes) == expected[name], name


def test_another_processor(expected):
    machine = {
        "OPENBLAS_CORETYPE": "Nehalem",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
    }
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | machine | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


if __name__ == "__main__":
    print(json.dumps(every_fingerprint()))
