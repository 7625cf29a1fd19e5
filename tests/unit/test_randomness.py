"""Streams are addressed, not advanced; their draws have the laws they should."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri

from replearn.codes.randomness import MAX_TEXT, SharedRandomness, seed_text
from replearn.errors import ReplearnError
from replearn.kernels.philox import natural_log, order_by_keys

SHARED = SharedRandomness(11)
N = 200_000
FALSE_ALARM = 1e-6


def test_an_int_and_its_text_are_one_seed() -> None:
    assert (SharedRandomness(7).words("a", 5) == SharedRandomness("7").words("a", 5)).all()


def test_a_seed_is_as_long_as_a_file_allows_and_no_longer() -> None:
    assert seed_text("x" * MAX_TEXT, "seed") == "x" * MAX_TEXT
    with pytest.raises(ReplearnError, match="at most 4096 Unicode characters"):
        seed_text("x" * (MAX_TEXT + 1), "seed")
    with pytest.raises(ReplearnError, match="must be an int or a string"):
        seed_text(1.0, "seed")


@pytest.mark.parametrize(
    "kind", ["words", "uniforms", "signs", "normals", "gumbels", "exponentials"]
)
def test_draws_are_of_row_0_unless_another_is_asked_for(kind: str) -> None:
    draw = getattr(SHARED, kind)
    assert (draw("rows", 64) == draw("rows", 64, row=0)).all()
    assert (draw("rows", 64) != draw("rows", 64, row=1)).any()
    assert (SHARED.sample("rows", 64, 64) == SHARED.sample("rows", 64, 64, row=0)).all()


@pytest.mark.parametrize("number", [0xD800, 0xDBFF, 0xDC00, 0xDFFF])
def test_a_seed_has_no_half_of_a_character(number: int) -> None:
    assert seed_text("\ud7ff\ue000\U0010ffff", "seed")
    with pytest.raises(ReplearnError, match="Unicode characters"):
        seed_text(f"a{chr(number)}", "seed")


def test_seed_and_name_cannot_be_confused() -> None:
    assert SharedRandomness("1").key("2/a") != SharedRandomness("12").key("/a")


@given(st.integers(0, 200), st.integers(0, 50))
def test_a_longer_draw_begins_with_the_shorter(n: int, more: int) -> None:
    for draw in (SHARED.words, SHARED.uniforms, SHARED.signs, SHARED.normals):
        assert (draw("prefix", n + more)[:n] == draw("prefix", n)).all()


def test_rows_and_streams_differ() -> None:
    first = SHARED.words("a", 64)
    assert not (first == SHARED.words("a", 64, row=1)).any()
    assert not (first == SHARED.words("b", 64)).any()
    assert not (first == SharedRandomness(12).words("a", 64)).any()


def test_uniforms_are_uniform() -> None:
    assert stats.kstest(SHARED.uniforms("u", N), "uniform").pvalue > FALSE_ALARM


def test_normals_are_normal() -> None:
    assert stats.kstest(SHARED.normals("n", N), "norm").pvalue > FALSE_ALARM


def test_signs_are_fair_and_uncorrelated() -> None:
    signs = SHARED.signs("s", N)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    # a bias of .01 in mean or lag would be caught with probability > .99
    for lag in (0, 1, 63, 64):
        product = signs if lag == 0 else signs[lag:] * signs[:-lag]
        assert abs(product.mean()) < stats.norm.isf(FALSE_ALARM / 2) / np.sqrt(product.size)


def test_normals_invert_the_distribution_function() -> None:
    words = SHARED.words("n", N)
    p = ((words >> np.uint64(12)).astype(np.int64) * 2 + 1) * 2.0**-53
    np.testing.assert_allclose(SHARED.normals("n", N), ndtri(p), rtol=3e-15)


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_natural_log_is_accurate(x: float) -> None:
    assert natural_log(x) == pytest.approx(np.log(x), rel=4e-16, abs=4e-16)


def test_samples_are_distinct_and_uniform() -> None:
    counts = np.zeros(6)
    for row in range(6000):
        chosen = SHARED.sample("c", 6, 3, row)
        assert len(set(chosen.tolist())) == 3
        counts[chosen] += 1
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_permutations_are_uniform() -> None:
    orders = [tuple(SHARED.sample("p", 3, 3, row).tolist()) for row in range(6000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pytest.mark.parametrize("n", [0, 1, 2, 3, 8, 9, 1000, 100_003])
def test_rows_are_ordered_by_their_keys(n: int) -> None:
    keys = SHARED.words("o", n)
    assert (SHARED.row_order("o", n) == np.argsort(keys, kind="stable")).all()


def test_equal_keys_keep_the_order_of_the_rows() -> None:
    keys = np.array([5, 5, 1, 5, 1, 0, 2**64 - 1, 2**64 - 1], dtype=np.uint64)
    assert order_by_keys(keys).tolist() == [5, 2, 4, 0, 1, 3, 6, 7]


@given(st.integers(0, 50), st.integers(0, 50))
def test_a_row_makes_its_key_anywhere(first: int, n: int) -> None:
    assert (SHARED.row_keys("o", n, first) == SHARED.words("o", first + n)[first:]).all()


def test_row_orders_are_uniform() -> None:
    orders = [tuple(SharedRandomness(i).row_order("p", 3).tolist()) for i in range(6000)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
