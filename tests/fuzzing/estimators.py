"""Rows, labels and parameters of all kinds."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import replearn as rl
from tests.fuzzing.samples import use_estimator

_REALS = [0, 1, -1, 2, 0.5, 0.1, 0.01, 1e-9, 1e-160, 1e-300, 5e-324, 0.999999, 1 - 2**-53, 1e300,
          float("nan"), float("inf"), -0.0, np.float32(0.2), "0.1", "auto", None, True, [], {},
          b"x",
          np.array([0.1]), np.array(0.1), 10**400, 0.3 + 0j]  # fmt: skip


_WHOLES = ["auto", 0, 1, 2, 3, 7, 8, 24, 100, -1, 1.5, 2.0, 10**6, 2**20, 2**31, 2**53, 2**63,
10**30,
           None, True, "3", [], np.int64(5), np.uint8(9), np.array(3), float("nan")]  # fmt: skip


_NAMES = ["auto", "rows", "batches", "none", "gaussian", "signs", "hadamard", "rotation",
          "published", "ak", "centre",
          "e8", "leech", "box", "foam", "random", "lattice", "gumbel", "holenstein", "margin",
          "generic", "practical", "certified", "paper", "halfspace", "majority", "", None, 0, 1.5,
          [],
          {}, True, np.array(["none"]), b"none", "\ud800"]  # fmt: skip


_FLAGS = [
    True,
    False,
    0,
    1,
    None,
    "yes",
    "",
    [],
    np.bool_(True),
    np.array([True, False]),
    2.5,
    "auto",
]


_SEEDS = [0, 7, -1, 10**50, "", "s", "\ud800", "x" * 10_000, "\0", None, 1.5, True, [], b"s",
np.int8(3),
          float("nan"), np.array(3)]  # fmt: skip


_OTHERS = [None, {}, {"C1": 2.0}, {"C1": 0}, {"C1": "x"}, {"C9": 1}, {1: 2}, [], "x", 3,
{"C1": 1e300},
           {"C1": 1e-300}, {"C2": True}, {"C1": None}, {"C1": 10**400},
           {"C1": float("nan")}]  # fmt: skip


_CLASSES = [None, (-1, 1), ("a", "b"), (0, 1), (True, False), ("", "\ud800"), (0, 10**400)]


VALUES: dict[str, list[Any]] = (
    dict.fromkeys(("margin", "max_error", "max_disagreement", "failure_prob"), _REALS)
    | dict.fromkeys(("grid_width", "regularization", "threshold"), _REALS)
    | dict.fromkeys(
        ("n_batches", "batch_size", "n_components", "n_repetitions", "n_validation", "n_candidates",
         "n_rounds", "n_repeats", "samples_per_site"), _WHOLES,
    )
    | dict.fromkeys(("mode", "projection", "rounding", "net", "calibration", "sampling", "estimate",
    "output"), _NAMES)
    | dict.fromkeys(("fit_intercept", "shuffle", "agnostic", "fresh_rows"), _FLAGS)
    | {"n_rounds": [value for value in _WHOLES if not isinstance(value,
    int) or not 100 < value <= 2**20]}
    | {"shared_seed": _SEEDS, "random_state": _SEEDS, "constants": _OTHERS}
    | {"class_weight": [None, "balanced", {}, {-1: 2, 1: 0.5}, {"a": 1}, {-1: -1}, 3, [1, 2],
       {-1: float("nan"), 1: 1}, {1: 10**400}]}
    | {"hint_bits": [0, 2, 9, -1, True, 1.5, "x", None], "hint": [None, 0, 3, 99, "x", True]}
    | {"n_jobs": [None, 1, 2, 0, -1, "x", 1.5, True, [], 10**30], "verbose": [0, False, None]}
    | {"published": [None, [], "x", 0, *(rl.Published(classes=two) for two in _CLASSES)]}
)  # fmt: skip


ESTIMATORS = (
    rl.ReplicableSVMClassifier,
    rl.ReplicableSGDClassifier,
    rl.ReplicableNetClassifier,
    rl.ReplicableDPClassifier,
    rl.ReplicableBoostingClassifier,
    rl.ReplicableLogisticClassifier,
)


def odd_parameters(rng: random.Random, kind: Any) -> dict[str, Any]:
    """Keywords of an estimator with values of any type."""
    known = kind().get_params()
    chosen = rng.sample(sorted(known), rng.choice([0, 1, 1, 2, 3]))
    odd = {name: rng.choice(VALUES[name]) for name in chosen}
    if issubclass(kind, rl.ReplicableBoostingClassifier) and rng.random() < 0.4:
        odd.setdefault("rounding", "foam")
    if rng.random() < 0.1:
        odd |= {"mode": rng.choice(["paper", "certified"])} if "mode" in known else {}
    return usual(kind) | odd


def usual(kind: Any) -> dict[str, Any]:
    """Keywords with which a few rows are enough, of those that an estimator has."""
    given = {"margin": 0.3, "max_error": 0.2, "n_jobs": 1}
    return {name: value for name, value in given.items() if name in kind().get_params()}


def odd_labels(rng: random.Random, n_rows: int) -> Any:
    """Labels of all kinds."""
    signs = np.array([rng.random() < 0.5 for _ in range(n_rows)])
    if n_rows > 1 and rng.random() < 0.9:
        signs[:2] = [True, False]
    match rng.randrange(16):
        case 0:
            return signs
        case 1:
            return np.where(signs, "a", "b")
        case 2:
            return np.where(signs, "\0", "\ud800").astype(object)
        case 3:
            return np.array([1 if s else "x" for s in signs], dtype=object)
        case 4:
            return np.where(signs, 1.5, 2.5)
        case 5:
            return np.where(signs, 1e300, -1e300)
        case 6:
            return np.arange(n_rows) % 3
        case 7:
            return np.zeros(n_rows)
        case 8:
            return np.where(signs, np.nan, 1.0)
        case 9:
            return np.where(signs, 2**62, -(2**63))
        case 10:
            return signs.tolist()
        case 11:
            return np.where(signs, "a" * 5000, "b")
        case 12:
            return np.where(signs, 1, 0).astype(
                rng.choice(["u1", "i2", "f2", "u8", "c8", "M8[s]", "S1"])
            )
        case 13:
            return np.array([None if s else 1 for s in signs], dtype=object)
        case 14:
            return np.where(signs, 2**64 - 1, 0).astype("u8")
    return np.where(signs, 1, -1)


def odd_rows(rng: random.Random) -> Any:
    """Rows of all kinds, with shapes from nothing to long rows."""
    n_rows = rng.choice([0, 1, 2, 3, 10, 30, 60, 120])
    n_columns = rng.choice([0, 1, 1, 2, 3, 5, 23, 24, 40, 300])
    numbers = np.random.default_rng(rng.randrange(2**32))
    X = numbers.normal(size=(n_rows, n_columns))
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        odd = rng.choice(
            [0.0, np.nan, np.inf, 1e308, -1e308, 5e-324, 1e-310, 1e-160, 1e160, 2.0**-1074]
        )
        match rng.randrange(5):
            case 0:
                X[:] = odd
            case 1 if n_rows:
                X[rng.randrange(n_rows)] = odd
            case 2 if n_columns:
                X[:, rng.randrange(n_columns)] = odd
            case 3:
                with np.errstate(all="ignore"):
                    X *= odd
            case _:
                X[numbers.random(X.shape) < 0.7] = 0.0
    with np.errstate(all="ignore"):
        return _as_kind(rng, X)


def _as_kind(rng: random.Random, X: Any) -> Any:
    match rng.randrange(20):
        case 0 | 1:
            return X.astype(np.float32)
        case 2:
            return np.asfortranarray(X)
        case 3:
            X.setflags(write=False)
            return X
        case 4:
            return X[:, ::-1] if X.size else X
        case 5 | 6 | 7:
            return _odd_csr(rng, sp.csr_matrix(X))
        case 8:
            return sp.csc_array(X)
        case 9:
            return sp.coo_array(X)
        case 10:
            return X.tolist()
        case 11:
            return X.astype(object)
        case 12:
            return (
                np.nan_to_num(X).clip(-100, 100).astype(rng.choice(["i1", "i8", "u8", "?", "f2"]))
            )
        case 13:
            return X.ravel() if rng.random() < 0.5 else X[None]
        case 14:
            return X.astype(rng.choice(["U8", "S8", "c16"]))
        case 15:
            import pandas as pd

            names = [rng.choice(["a", 0, "é", "\n", ""]) for _ in range(X.shape[1])]
            return pd.DataFrame(
                X, columns=names if rng.random() < 0.4 else [f"c{i}" for i in range(X.shape[1])]
            )
        case 16 if X.size:
            last = np.full(len(X), 2**16)  # long rows of which little is there
            return sp.csr_array(
                (np.resize(X, len(X)), last, np.arange(len(X) + 1)), shape=(len(X), 2**16 + 1)
            )
    return X


def _odd_csr(rng: random.Random, X: Any) -> Any:
    """A matrix with entries out of order, or twice, or with long indices."""
    match rng.randrange(4):
        case 0 if X.nnz > 1:
            return sp.csr_matrix((X.data, X.indices[::-1].copy(), X.indptr), shape=X.shape)
        case 1 if X.nnz:
            X = sp.csr_array((X.data, np.zeros_like(X.indices), X.indptr), shape=X.shape)
        case 2:
            X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def estimator(rng: random.Random, folder: Path) -> None:
    """Odd rows, labels and parameters: a model that works, or an error in words."""
    kind = rng.choice(ESTIMATORS)
    X: Any = odd_rows(rng) if rng.random() < 0.7 else np.random.default_rng(0).normal(size=(60, 3))
    n_rows = len(X) if isinstance(X, list) else X.shape[0]
    y = (
        odd_labels(rng, n_rows)
        if rng.random() < 0.5
        else (np.arange(n_rows) * 7 % 5 < 2).astype(int)
    )
    parameters = odd_parameters(rng, kind) if rng.random() < 0.7 else usual(kind)
    if np.ndim(X) == 2 and np.shape(X)[1] > 12 and parameters.get("rounding") == "foam":
        X = X[:, :12] if hasattr(X, "dtype") else np.zeros((n_rows, 2))  # foam takes 2^d by design
    use_estimator(kind(**parameters), X, y, folder)
