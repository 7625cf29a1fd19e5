"""Synthetic populations have the margin that they promise, and two labs can share one."""

import numpy as np
import pytest

from replearn.datasets import make_margin, margin_direction
from replearn.errors import ReplearnError
from tests.error_budget import assert_mean_close, assert_rate_close

SHAPES = [{}, {"decay": 1.0}, {"decoy": 0.8}, {"decoy": 0.5, "decay": 0.5, "max_margin": 0.3}]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("n_features", "margin"), [(2, 0.2), (40, 0.05)])
def test_rows_have_length_one_and_the_margin(shape, n_features, margin):
    X, y = make_margin(3000, n_features, margin, random_state=1, **shape)
    heights = y * (X @ margin_direction(n_features))
    assert X.shape == (3000, n_features)
    assert np.allclose(np.linalg.norm(X, axis=1), 1, atol=1e-12)
    assert heights.min() >= margin - 1e-12
    assert heights.max() <= shape.get("max_margin", min(4 * margin, 0.95)) + 1e-12


def test_a_sample_is_named_by_its_seed():
    first, second = (make_margin(50, 5, 0.2, random_state=7) for _ in range(2))
    assert (first[0] == second[0]).all()
    assert (first[1] == second[1]).all()
    other = make_margin(50, 5, 0.2, random_state=8)
    assert not (first[0] == other[0]).any()


def test_two_samples_share_a_population_and_two_populations_do_not():
    same = [margin_direction(30, population=4) for _ in range(2)]
    assert (same[0] == same[1]).all()
    assert np.linalg.norm(same[0]) == pytest.approx(1)
    assert abs(same[0] @ margin_direction(30, population=5)) < 0.9
    X, y = make_margin(500, 30, 0.2, population=4, random_state=0)
    assert (y * (X @ same[0]) > 0).all()


def test_labels_are_fair_and_flipped_as_often_as_asked():
    X, y = make_margin(20_000, 6, 0.2, label_noise=0.1, random_state=3)
    assert set(np.unique(y)) == {-1, 1}
    assert_rate_close(int((y > 0).sum()), 20_000, 0.5)
    assert_rate_close(int((y * (X @ margin_direction(6)) < 0).sum()), 20_000, 0.1)
    # would catch a rate of .11 with probability above .3, and of .12 nearly always


def test_a_decoy_agrees_with_three_labels_of_four():
    X, y = make_margin(20_000, 6, 0.2, decoy=0.9, random_state=3)
    mean = (y[:, None] * X).mean(axis=0)
    aside = mean - (mean @ margin_direction(6)) * margin_direction(6)
    assert np.linalg.norm(aside) > 0.2  # without a decoy it is below .02
    assert_rate_close(int((y * (X @ aside) > 0).sum()), 20_000, 0.75, tolerance=0.03)


def test_margins_are_uniform():
    X, y = make_margin(20_000, 6, 0.2, random_state=3)
    heights = y * (X @ margin_direction(6))
    assert_mean_close(heights, 0.5)
    assert_mean_close((heights - 0.5) ** 2, 0.6**2 / 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 1, 0.2), r"n_features must be at least 2, got 1"),
        ((10, 5, 0.0), r"0 < margin <= max_margin < 1, got 0\.0"),
        ((10, 5, 1.0), r"0 < margin <= max_margin < 1, got 1\.0"),
        ((10, 5, -0.1), r"0 < margin <= max_margin < 1"),
    ],
)
def test_impossible_populations(arguments, message):
    with pytest.raises(ReplearnError, match=message):
        make_margin(*arguments)
    with pytest.raises(ReplearnError, match=r"got 0\.3 and 0\.2"):
        make_margin(10, 5, 0.3, max_margin=0.2)
