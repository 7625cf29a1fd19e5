"""Same rows, same bytes: whatever the threads, the storage, the BLAS or the processor."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from replearn import Published, ReplicabilityWarning, ReplicableSVMClassifier
from replearn.codes.projection import PROJECTIONS
from replearn.codes.rounding import ROUNDINGS

ROOT = Path(__file__).resolve().parents[2]

N_COMPONENTS = {"gaussian": 17, "signs": 17, "hadamard": 9}  # the others keep all inputs
SPACES = {
    f"{projection}, {rounding}": {
        "projection": projection,
        "rounding": rounding,
        "n_components": N_COMPONENTS.get(projection, "auto"),
    }
    for projection in PROJECTIONS
    for rounding in ROUNDINGS
}
SOLVERS = {
    "hard margin": {"regularization": 0.0},
    "no intercept": {"fit_intercept": False},
    "unit mean": {"published": Published(unit_mean=True)},
    "whole sample": {"batch_size": 10_000},
    "private order": {"random_state": 5},
    "order of the file": {"shuffle": False},
    "paper": {"mode": "paper", "n_batches": 20, "batch_size": 60},
}


def population(n_rows=2500, n_features=13):
    """Rows in units of 1/1024, so float32 holds them, labelled in exact integer arithmetic."""
    rng = np.random.default_rng(11)
    rows = rng.integers(-2048, 2048, size=(n_rows, n_features))
    rows[rng.random(rows.shape) < 0.4] = 0
    rows[:3] = 0
    heights = rows @ rng.integers(-9, 10, size=n_features)
    kept = (abs(heights) > 3000) | (np.arange(n_rows) < 3)
    return rows[kept] / 1024, np.where(heights[kept] > 0, "yes", "no")


X, Y = population()


def fingerprint(rows, labels=Y, **parameters):
    sizes = {
        "margin": 0.2,
        "shared_seed": "bytes",
        "batch_size": 500,
        "grid_width": 1e-9,  # so fine that the codes hold nine digits of the mean
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)  # few rows
        return ReplicableSVMClassifier(**sizes | parameters).fit(rows, labels).fingerprint_


def every_fingerprint():
    dense = {name: fingerprint(X, **sizes) for name, sizes in (SPACES | SOLVERS).items()}
    sparse = {
        "sparse": fingerprint(sp.csr_array(X), margin=0.3),
        "sparse, hard margin": fingerprint(sp.csr_array(X), margin=0.3, regularization=0.0),
    }
    return dense | sparse


@pytest.fixture(scope="module")
def expected():
    return every_fingerprint()


def test_all_models_are_different_so_that_equality_says_something(expected):
    assert len(set(expected.values())) == len(expected)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
@pytest.mark.parametrize("solver", SOLVERS)
def test_threads(solver, n_jobs):
    # batches of 3 rows make several blocks of work
    sizes = {"batch_size": 3, "n_batches": 500, "rounding": "centre"}
    small = SOLVERS[solver] | sizes
    assert fingerprint(X, **small, n_jobs=n_jobs) == fingerprint(X, **small)


STORED = {
    "csr_matrix": sp.csr_matrix,
    "csr with 64-bit indices": lambda rows: with_wide_indices(rows),
    "csr with stored zeros": lambda rows: with_stored_zeros(rows),
    "csr with duplicates": lambda rows: with_duplicates(rows),
    "csc_array": sp.csc_array,
    "float32": lambda rows: rows.astype(np.float32),
    "float32 csr": lambda rows: sp.csr_array(rows.astype(np.float32)),
    "Fortran order": np.asfortranarray,
    "every second row of a larger array": lambda rows: np.repeat(rows, 2, axis=0)[::2],
    "columns backwards in memory": lambda rows: rows[:, ::-1].copy()[:, ::-1],
    "read only": lambda rows: read_only(rows),
    "other byte order": lambda rows: rows.astype(rows.dtype.newbyteorder()),
    "pandas": pd.DataFrame,
    "pandas, mixed types": lambda rows: pd.DataFrame(rows).astype({0: np.float32}),
    "lists": lambda rows: rows.tolist(),
}


def with_wide_indices(rows):
    matrix = sp.csr_array(rows)
    matrix.indices, matrix.indptr = matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)
    return matrix


def with_stored_zeros(rows):
    n_rows, n_columns = rows.shape
    columns = np.tile(np.arange(n_columns), n_rows)
    return sp.csr_array(
        (rows.ravel().copy(), columns, np.arange(n_rows + 1) * n_columns), shape=rows.shape
    )


def with_duplicates(rows):
    half = sp.csr_array(rows / 2)
    return sp.csr_array(
        (np.repeat(half.data, 2), np.repeat(half.indices, 2), half.indptr * 2), shape=half.shape
    )


def read_only(rows):
    copy = rows.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("storage", STORED)
def test_storage(storage, expected):
    stored = STORED[storage](X)
    chosen = SPACES if storage in ("csr_matrix", "float32") else {}
    for name, sizes in (chosen | SOLVERS).items():
        assert fingerprint(stored, **sizes) == expected[name], name


@pytest.mark.parametrize("make_labels", [list, pd.Series, lambda y: y.astype(object)])
def test_storage_of_labels(make_labels, expected):
    assert (
        fingerprint(X, make_labels(Y), published=Published(unit_mean=True)) == expected["unit mean"]
    )


MACHINES = {
    "old BLAS": {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_NUM_THREADS": "1"},
    "newer BLAS, oldest processor": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
    },
}


@pytest.mark.parametrize("machine", MACHINES)
def test_another_processor(machine, expected):
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | MACHINES[machine] | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == expected


if __name__ == "__main__":
    print(json.dumps(every_fingerprint()))
