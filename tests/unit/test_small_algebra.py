"""Small linear algebra: right, in the order that is documented, and the same bits everywhere."""

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replearn.kernels.small_algebra import cholesky, solve_positive, times
from tests.reference import cholesky_by_definition


def positive(q, seed=0, ridge=0.1):
    A = np.random.default_rng(seed).standard_normal((2 * q, q))
    return A.T @ A / (2 * q) + ridge * np.eye(q)


@given(st.integers(1, 64), st.integers(0, 10**6))
def test_factors_and_solutions(q, seed):
    A = positive(q, seed)
    R = cholesky(A)
    assert (np.tril(R, -1) == 0).all()
    assert (np.diag(R) > 0).all()
    np.testing.assert_allclose(R.T @ R, A, rtol=1e-12, atol=1e-13)
    b = np.random.default_rng(seed).standard_normal((q, 3))
    solved = solve_positive(A, b)
    np.testing.assert_allclose(times(A, solved), b, atol=1e-10)
    np.testing.assert_allclose(A @ solved, b, atol=1e-10)
    for function in (solve_positive, times):
        np.testing.assert_array_equal(function(A, b[:, 1]), function(A, b)[:, 1])


@given(st.integers(1, 12), st.integers(0, 10**6))
def test_the_order_is_that_of_the_twin(q, seed):
    A = positive(q, seed)
    assert cholesky(A).tolist() == cholesky_by_definition(A)


def test_whole_numbers_come_out_exactly():
    R = np.triu(np.arange(1, 37).reshape(6, 6)).astype(float)
    A = np.array(
        [[sum(Fraction(R[m, i] * R[m, j]) for m in range(6)) for j in range(6)] for i in range(6)]
    ).astype(float)
    np.testing.assert_array_equal(cholesky(A), R)
    x = np.arange(6.0) - 2
    np.testing.assert_array_equal(solve_positive(A, A @ x), x)


@pytest.mark.parametrize(
    "bad", [np.zeros((2, 2)), -np.eye(3), np.ones((2, 2)), np.full((2, 2), np.nan)]
)
def test_a_matrix_that_is_not_positive_definite(bad):
    with pytest.raises(ValueError, match=r"positive definite.*ridge"):
        cholesky(bad)


def test_the_arguments_are_kept_and_any_layout_will_do():
    A, b = positive(5), np.arange(5.0)
    before = A.copy(), b.copy()
    expected = solve_positive(A, b)
    np.testing.assert_array_equal(solve_positive(np.asfortranarray(A), b), expected)
    A.flags.writeable = b.flags.writeable = False
    np.testing.assert_array_equal(solve_positive(A, b), expected)
    np.testing.assert_array_equal(A, before[0])
    np.testing.assert_array_equal(b, before[1])


def solved():
    return solve_positive(positive(20), np.arange(20.0)).tobytes().hex()


@pytest.mark.parametrize(
    "settings",
    [{"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, {"NUMBA_DISABLE_JIT": "1"}],
    ids=["another processor", "not compiled"],
)
def test_the_same_bits(settings):
    environment = os.environ | settings | {"PYTHONPATH": os.pathsep.join(sys.path)}
    code = "from tests.unit.test_small_algebra import solved; print(solved())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == solved()
