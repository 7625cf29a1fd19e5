"""Lemmas about cells and sketches, each with an error budget of 1e-6."""

import numpy as np
import pytest
from scipy import stats

from replearn.codes import Cells, Coins, chance_of_any, chance_of_each, chance_of_leaving, width_for
from tests.error_budget import assert_rate_at_most, assert_rate_between

N = 200_000


@pytest.mark.parametrize("bits", [0, 1, 2, 3, 4])
def test_the_residual_is_uniform_and_the_sketch_tells_nothing_about_the_cell(bits):
    """r is uniform on +-w / 2^(b+1), k on 0 ... 2^b - 1, whatever the number."""
    z = np.full(N, 1.2345)
    cells = Cells.drawn(np.full(N, 0.7), bits, Coins("a"))
    codes, sketch = cells.publish(z)
    residual = z - cells.decode(codes, sketch)
    scaled = residual / (0.7 / 2 ** (bits + 1))
    assert stats.kstest(scaled, stats.uniform(-1, 2).cdf).pvalue > 1e-6
    counts = np.bincount(sketch, minlength=1 << bits)
    if bits:
        assert stats.chisquare(counts).pvalue > 1e-6


@pytest.mark.parametrize("bits", [0, 1, 3])
def test_a_replication_differs_exactly_if_its_number_leaves_the_cell(bits):
    rng = np.random.default_rng(2)
    cells = Cells.drawn(rng.uniform(0.1, 2, N), bits, Coins("b"))
    z = rng.normal(size=N)
    other = z + rng.normal(size=N) * 0.3
    codes, sketch = cells.publish(z)
    leaves = np.abs(other - cells.decode(codes, sketch)) > cells.widths / 2
    assert (leaves == (cells.replicate(other, sketch) != codes)).all()
    assert (cells.replicate(z, sketch) == codes).all()


@pytest.mark.parametrize("bits", [0, 1, 2, 3])
@pytest.mark.parametrize("width", [2.0, 4.0, 6.0])
def test_the_chance_of_leaving_a_cell_of_normal_differences(bits, width):
    rng = np.random.default_rng(int(10 * width) + bits)
    cells = Cells.drawn(np.full(N, width), bits, Coins("c"))
    z = rng.normal(size=N)
    codes, sketch = cells.publish(z)
    differ = int((cells.replicate(z + rng.normal(size=N), sketch) != codes).sum())
    rate = chance_of_leaving(width, bits)
    assert_rate_between(differ, N, rate, rate)


@pytest.mark.parametrize(
    ("q", "rho", "bits"), [(1, 0.9, 0), (5, 0.1, 3), (20, 0.01, 3), (200, 0.1, 1)]
)
def test_widths_keep_the_promise_for_all_numbers_together(q, rho, bits):
    factor = width_for(chance_of_each(rho, q), bits)
    each = chance_of_leaving(factor, bits)
    assert chance_of_any(np.full(q, each)) == pytest.approx(rho, rel=1e-6)
    trials = 4000
    rng = np.random.default_rng(q)
    shifts = rng.random((trials, q))
    common = rng.normal(size=(trials, 1))  # differences that are strongly correlated
    delta = 0.8 * common + 0.6 * rng.normal(size=(trials, q))
    differ = 0
    for shift, change in zip(shifts, delta, strict=True):
        cells = Cells(np.full(q, factor), shift, bits)
        codes, sketch = cells.publish(np.zeros(q))
        differ += bool((cells.replicate(change, sketch) != codes).any())
    assert_rate_at_most(differ, trials, rho)


@pytest.mark.parametrize(("q", "c", "price"), [(5, 4.7, 0.03), (50, 6.3, 0.05), (2000, 8.4, 0.09)])
def test_three_bits_cost_a_fraction_of_the_sampling_error(q, c, price):
    """The table of the theory page: width and price in units of q / n nats, at rho = 0.1."""
    factor = width_for(chance_of_each(0.1, q), 3)
    assert factor == pytest.approx(c, abs=0.06)
    assert factor**2 / (12 * 4**3) == pytest.approx(price, abs=0.006)
