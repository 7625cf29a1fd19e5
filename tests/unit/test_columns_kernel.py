"""Columns to rows: against the twin, in every place, with what is missing or infinite."""

import math

import numpy as np
import pytest

from replearn.codes.encoding import Encoding, NumberColumn
from replearn.kernels.columns import ScaledColumns, _write_at_once
from tests.reference import scaled_column


def table(n_rows, n_columns, seed=0):
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=n_rows) for _ in range(n_columns)]
    for column in columns[::3]:
        column[rng.random(n_rows) < 0.1] = math.nan
    return columns, rng.normal(size=n_columns), rng.random(n_columns) + 0.5


@pytest.mark.parametrize(("n_rows", "n_columns"), [(0, 3), (1, 1), (127, 8), (129, 9), (300, 17)])
def test_columns_become_rows(n_rows, n_columns):
    columns, centres, scales = table(n_rows, n_columns)
    places = np.random.default_rng(1).permutation(n_columns + 2)[:n_columns]
    X = np.full((n_rows, n_columns + 2), 7.0)
    n_missing, finite = ScaledColumns(columns, centres, scales, places).write(X)
    expected = np.full_like(X, 7.0)
    for column, centre, scale, place in zip(columns, centres, scales, places, strict=True):
        expected[:, place] = scaled_column(column, centre, scale)
    assert X.tobytes() == expected.tobytes()
    assert n_missing.tolist() == [np.isnan(column).sum() for column in columns]
    assert finite
    again, counts = np.full_like(X, 7.0), np.zeros(n_columns, np.int64)
    assert _write_at_once(columns, 0, centres, scales, places, again, counts) == 0
    assert again.tobytes() == expected.tobytes()
    assert counts.tolist() == n_missing.tolist()


@pytest.mark.parametrize("places", [np.arange(17), np.random.default_rng(1).permutation(17)])
def test_some_rows_are_those_of_all(places):
    columns, centres, scales = table(1000, 17)
    ready, X = ScaledColumns(columns, centres, scales, places), np.empty((1000, 17))
    n_missing, _ = ready.write(X)
    counts = np.zeros_like(n_missing)
    for start, stop in ((0, 300), (300, 301), (301, 301), (301, 1000)):
        some, again = np.empty((2, stop - start, 17))
        counts += ready.write(some, start)[0]
        assert some.tobytes() == X[start:stop].tobytes()
        _write_at_once(columns, start, centres, scales, places, again, np.zeros(17, np.int64))
        assert again.tobytes() == some.tobytes()
    assert counts.tolist() == n_missing.tolist()
    with pytest.raises(ValueError, match="same length"):
        ready.write(np.empty((2, 17)), 999)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1e308])
def test_what_is_infinite_or_becomes_so_is_seen(value):
    columns, places = [np.zeros(200), np.zeros(200)], np.arange(2)
    columns[1][150] = value
    columns[0][150] = math.nan
    for scale, finite in ((1e-3, False), (1.0, abs(value) < math.inf)):
        X = np.empty((200, 2))
        ready = ScaledColumns(columns, np.zeros(2), np.full(2, scale), places)
        n_missing, found = ready.write(X)
        assert found == finite
        assert n_missing.tolist() == [1, 0]
        n_infinite = _write_at_once(
            columns, 0, np.zeros(2), np.full(2, scale), places, np.empty((200, 2)), n_missing
        )
        assert n_infinite == (not finite)


def test_single_precision_and_strides():
    columns = np.arange(60, dtype=np.float32).reshape(20, 3).T
    X = np.empty((20, 3), dtype=np.float32)
    ScaledColumns(list(columns), np.zeros(3), np.ones(3), np.arange(3)).write(X)
    assert np.array_equal(X, columns.T)


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="same length"):
        Encoding((NumberColumn("a", "0", "1"), NumberColumn("b", "0", "1"))).encoded(
            {"a": np.zeros(3), "b": np.zeros(2)}
        )
