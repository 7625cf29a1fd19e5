"""The logistic function: its specification, its order, and its bits with and without numba."""

import json
import math
import os
import re
import subprocess
import sys
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replearn.kernels import portable
from replearn.kernels.compiler import njit
from replearn.kernels.sigmoid import exponential, sigmoid
from tests.reference import specified_sigmoid

SPECIFICATION = Path(__file__).parents[2] / "docs" / "sigmoid.md"
scores = st.floats(-800, 800) | st.floats(-40, 40) | st.floats(-1, 1)


def arguments(n, seed=0):
    rng = np.random.default_rng(seed)
    parts = [
        rng.uniform(-40, 40, n),
        rng.uniform(-710, 710, n),
        rng.standard_normal(n) * 2.0 ** rng.integers(-60, 3, n),
        # where the power of two changes
        np.nextafter(np.arange(-100, 1030) * math.log(2), rng.choice([-np.inf, np.inf], 1130)),
        np.array([0.0, -0.0, 36.7, 36.8, 1e300, -1e300, np.inf, -np.inf, 700.0, -700.0]),
    ]
    return np.concatenate(parts)


@njit(nogil=True, error_model="numpy")  # as in the kernels: a look for x/0 would stop vectorisation
def fill_sigmoids(s, out):
    for i in range(s.size):
        out[i] = sigmoid(s[i])


def compiled(s):
    out = np.empty_like(s)
    fill_sigmoids(s, out)
    return out


def units_off(value, exact):
    return float(abs(Decimal(value) - exact) / Decimal(float(np.spacing(float(exact)))))


def test_the_documented_vectors():
    (block,) = re.findall(r"```json\n(.*?)```", SPECIFICATION.read_text("utf-8"), re.DOTALL)
    vectors = json.loads(block)
    for argument, value in vectors["sigmoid"]:
        s, p = float.fromhex(argument), float.fromhex(value)
        assert sigmoid(s) == p
        assert float(portable.sigmoid(s)) == p
    for case in vectors["softmax"]:
        given_scores = [list(map(float.fromhex, case["scores"]))]
        expected = [list(map(float.fromhex, case["probabilities"]))]
        assert portable.softmax(given_scores).tolist() == expected


@given(scores)
@example(0.0)
@example(-37.4503179537296)
@example(1e308)
def test_numba_numpy_and_the_specification_agree(s):
    assert sigmoid(s) == float(portable.sigmoid(s)) == specified_sigmoid(s)


def test_loops_of_vector_instructions_give_the_same_bits():
    s = arguments(20_000)
    expected = portable.sigmoid(s)
    np.testing.assert_array_equal(compiled(s), expected)
    np.testing.assert_array_equal([sigmoid(v) for v in s[:500]], expected[:500])
    in_place = s.copy()
    fill_sigmoids(in_place, in_place)
    np.testing.assert_array_equal(in_place, expected)


@given(st.floats(-750, 750), st.floats(-750, 750))
def test_never_falling(one, other):
    low, high = sorted((one, other))
    assert sigmoid(low) <= sigmoid(high)
    assert exponential(low) <= exponential(high)


def test_never_falling_between_neighbours():
    s = np.sort(arguments(20_000, seed=1))
    for _ in range(4):
        following = np.nextafter(s, np.inf)
        assert (compiled(s) <= compiled(following)).all()
        s = following
    assert (np.diff(compiled(s)) >= 0).all()


def test_within_a_few_units_in_the_last_place():
    rng = np.random.default_rng(2)
    s = np.concatenate([rng.uniform(-38, 38, 4000), rng.uniform(-38, -36, 2000)])
    s = np.append(s, rng.uniform(-700, -38, 1000))
    with localcontext() as context:
        context.prec = 60
        exact = [1 / (1 + (-Decimal(v)).exp()) for v in map(float, s)]
        errors = [units_off(p, e) for p, e in zip(compiled(s).tolist(), exact, strict=True)]
        roots = [units_off(exponential(float(v)), Decimal(float(v)).exp()) for v in -s[:2000]]
    assert max(errors) < 2.5
    assert max(roots) < 2.0


def test_the_ends():
    assert sigmoid(0.0) == 0.5
    assert sigmoid(36.8) == 1.0 > sigmoid(36.7)
    assert sigmoid(-math.inf) == sigmoid(-700.0) == 1 / (1 + exponential(700.0)) > 9.8e-305
    assert sigmoid(math.inf) == 1.0
    assert math.isnan(sigmoid(math.nan))
    assert np.isnan(portable.sigmoid(math.nan))


@given(st.lists(st.lists(st.floats(-300, 300), min_size=2, max_size=2), min_size=1, max_size=4))
def test_softmax_is_a_distribution_and_near_its_definition(rows):
    p = portable.softmax(rows)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-15)
    padded = np.column_stack([np.zeros(len(rows)), rows])
    exact = np.exp(padded - padded.max(axis=1, keepdims=True))
    exact /= exact.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, exact, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize(
    "settings",
    [{"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, {"NUMBA_DISABLE_JIT": "1"}],
    ids=["another processor", "not compiled"],
)
def test_the_same_bits(settings):
    environment = os.environ | settings
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    code = (
        "from tests.unit.test_sigmoid import arguments, compiled\n"
        "print(compiled(arguments(2000)).tobytes().hex())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == compiled(arguments(2000)).tobytes().hex()
