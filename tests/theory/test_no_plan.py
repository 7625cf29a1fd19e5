"""No algorithm keeps the disagreement everywhere with few rows: the bound of docs/theory/proofs.md.

Two rows ``e1`` and ``e2``; the second one has probability ``sin^2 t`` and a label s. Both labels
keep a margin.
"""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom


def integral(x):
    """``G(x)``: of ``sqrt(u (1 - u))`` from 0 to x."""
    return quad(lambda u: np.sqrt(u * (1 - u)), 0, x)[0]


def test_the_integral_is_between_its_lines():
    for x in np.linspace(0, 1, 101):
        low, high = (np.pi / 8 * (x + sign * 2 * x * (1 - x)) for sign in (-1, 1))
        assert low - 1e-12 <= integral(x) <= high + 1e-12


def says_plus(angles, thresholds, n):
    """A learner that says + unless it saw enough rows with the label -: one line a threshold."""
    return binom.cdf(thresholds[:, None] - 1, n, np.sin(angles) ** 2)


@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_answers_turn_slowly(n):
    angles = np.linspace(0, 0.32, 4001)
    answers = says_plus(angles, np.arange(1, n // 10, max(1, n // 200)), n)
    slopes = np.gradient(answers, angles, axis=1)
    steepest = 2 * np.sqrt(n * answers * (1 - answers))
    assert (np.abs(slopes) <= steepest + 0.02 * np.sqrt(n)).all()


@pytest.mark.parametrize("n", [5000, 20_000])
@pytest.mark.parametrize("error", [0.02, 0.05])
def test_random_thresholds_keep_no_more_than_the_bound_allows(n, error):
    """The best for two rows: a shared threshold, uniform on the scale of angles."""
    end = np.arcsin(np.sqrt(2 * error))
    angles = np.linspace(0, end, 801)
    thresholds = n * np.sin(np.linspace(0, end - 1 / np.sqrt(n), 801)) ** 2
    answers = says_plus(angles, np.ceil(thresholds) + 1, n)
    differ = (2 * answers * (1 - answers)).mean(axis=0).max()
    wrong = answers[:, -1].mean()
    assert wrong < 0.1

    rows = (np.pi / 8 * (0.5 - wrong - 2 * differ) / (end * differ)) ** 2
    assert rows <= n <= 80 * rows  # and the bound says something
