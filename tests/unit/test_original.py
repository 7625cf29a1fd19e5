"""Parts of an original beside what they stand for, in plain NumPy."""

import re
import warnings
from functools import partial

import numpy as np
import pytest

import replearn as rl
from replearn.glm import (
    Bernoulli,
    Coordinates,
    Multinomial,
    Poisson,
    Summary,
    derivatives,
    fit,
    influence_of,
    newton,
)
from replearn.glm import sketched as glm
from replearn.glm.coordinates import MOST_IN_TRIANGLE
from replearn.glm.influence import upper_variance_factor
from replearn.glm.losses import Gaussian
from replearn.glm.validation import folds_of, held_out_loss, validate
from replearn.rows import Block, MemoryBlocks, marks

UNIT = 2.0**-26


def lab(n_rows=600, n_terms=3, seed=0, groups=None):
    """Rows on the grid, whose classes depend on the first column."""
    rng = np.random.default_rng(seed)
    terms = np.clip(rng.normal(size=(n_rows, n_terms)) * 4096, -16384, 16384).astype(np.int16)
    y = (rng.logistic(size=n_rows) < terms[:, 0] / 4096).astype(float)
    return MemoryBlocks(Block(terms, y, groups=groups))


# ---------------------------------------------------------------- coordinates


def test_coordinates_of_many_columns_are_their_scales():
    n_columns = MOST_IN_TRIANGLE + 5
    squares = np.linspace(0.25, 4.0, n_columns)
    found = Coordinates.of(np.array([[0.25]]), squares, 1e-9)
    assert found.columns is None
    np.testing.assert_allclose(found.scales, 2**14 * np.sqrt(squares), rtol=1 / 16)
    theta = np.arange(n_columns, dtype=float)[None] * 2**20
    np.testing.assert_allclose(found.to_theta(found.of_theta(theta)), theta * UNIT, rtol=1e-12)
    z = np.sqrt(0.25) * theta[0] * UNIT * found.scales * 2.0**-14
    np.testing.assert_allclose(found.of_theta(theta), z, rtol=1e-12)


def test_coordinates_are_rounded_and_stay_nearly_independent():
    """Cells are planned for each coordinate: rounding them must not make one depend on others."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(2000, 40)) @ rng.normal(size=(40, 40)) / 6 + 0.5
    X[:, 0] = 1.0
    moments, less_one = X.T @ X / 2000, X[1:].T @ X[1:] / 1999
    _, columns = Coordinates.of(np.eye(1), moments, 1e-6).factors()
    turn = np.linalg.solve(columns, np.linalg.cholesky(moments))  # identity, if nothing is rounded
    variances = np.diagonal(np.linalg.inv(turn @ turn.T))
    assert 0.8 < variances.min() < variances.max() < 1.4

    _, others = Coordinates.of(np.eye(1), less_one, 1e-6).factors()
    places = np.tril_indices(40)
    assert np.mean(columns[places] == others[places]) > 0.8


def test_the_smallest_diagonal_of_a_triangle_is_one_unit():
    moments = np.diag([1.0, 1e-12])
    assert Coordinates.of(np.array([[1.0]]), moments, 1e-14).columns[1, 1] == 1


# ---------------------------------------------------------------- fits


@pytest.mark.parametrize(
    ("n_rows", "n_coefficients", "share"),
    [
        (16_384, 10, (8192 << 32) // 16_384),
        (16_383, 10, 1 << 32),
        (1_000_000, 100, (12_800 << 32) // 1_000_000),
    ],
)
def test_shares_of_rows_that_steer(n_rows, n_coefficients, share):
    assert newton.sample_threshold_for(n_rows, n_coefficients) == share


def test_a_share_of_the_rows_steers_to_the_fit_of_all():
    rows, loss = lab(40_000, seed=1), Bernoulli()
    summary = Summary.of(rows, loss)
    found = fit(rows, loss, "0.001", summary)
    all_steer = newton.Guide(newton.start(loss, summary, 4).theta)
    assert newton.start(loss, summary, 4).sample_threshold < 1 << 32
    exact = fit(rows, loss, "0.001", summary, tolerance_units=0, guide=all_steer)
    assert np.abs(found - exact).max() < 2**20 / np.sqrt(40_000)


def test_rows_are_sampled_by_all_of_their_columns():
    terms = np.zeros((4000, 2), dtype=np.int16)
    terms[:, 0] = np.arange(4000)
    block, share = Block(terms, np.zeros(4000)), 1 << 30
    sums = derivatives.sums_at([block], Bernoulli(), np.zeros((1, 3)), share)
    chosen = marks(terms) < share
    assert 800 < chosen.sum() < 1200
    assert sums.count("sampled") == int(chosen.sum()) << 16
    X = np.column_stack([np.full(chosen.sum(), 256), (terms[chosen] + 8) // 16]).astype(object)
    whole = derivatives.unpacked(sums.values["information"], 3)[0]
    assert (whole == X.T @ X * 2**20).all()  # a quarter in units of 2^-22


# ---------------------------------------------------------------- losses


def test_models_need_rows_of_every_class_and_events():
    assert not Bernoulli().is_enough(np.array([1.0, 0.0]))
    assert Bernoulli().is_enough(np.array([0.999, 0.001]))
    assert not Multinomial(3).is_enough(np.array([0.5, 0.5, 0.0]))
    assert not Poisson(3).is_enough(np.array([0.0]))


def test_predictions_of_scores():
    scores = np.array([[-2.0], [0.0], [3.0]])
    p = 1 / (1 + np.exp(-scores[:, 0]))
    np.testing.assert_allclose(Bernoulli().mean(scores), np.column_stack([1 - p, p]))
    three = np.array([[0.5, -1.0], [800.0, 0.0]])
    powers = np.exp(np.array([0.0, 0.5, -1.0]))
    np.testing.assert_allclose(Multinomial(3).mean(three), [powers / powers.sum(), [0, 1, 0]])
    assert Bernoulli.scale == (1.0, 0.0)
    assert Gaussian("5", "2").mean(np.array([[1.5]])) == 8.0
    np.testing.assert_allclose(Poisson(3).mean(np.array([[1.0], [99.0]])), [np.e, 8.0])


@pytest.mark.parametrize(("score", "slope"), [(47.0, 46.0), (50.0, 47.0), (-50.0, -49.0)])
def test_scores_of_numbers_are_cut_at_48(score, slope):
    found = Gaussian("0", "1").residual(np.array([[score]]), np.array([1.0]))
    assert found == slope


def test_units_of_few_numbers_are_their_ends():
    few = Gaussian.of(np.array([1.0, 2.0, 9.0]))
    assert (few.centre, few.spread) == ("5", "2.43")
    many = Gaussian.of(np.append(np.zeros(25), np.ones(25)))  # 50 are enough for quantiles
    assert (many.centre, many.spread) == ("0.5", "0.304")
    assert Gaussian.of(np.append(np.zeros(49), 99.0)).centre == "0"
    assert Gaussian.of(np.append(np.zeros(48), 99.0)).centre == "49.5"


# ---------------------------------------------------------------- spread


def test_upper_bounds_of_a_variance():
    np.testing.assert_allclose(
        upper_variance_factor([1e12, 200.0, 2.0]), [1.0, 1.35, 9.0], rtol=1e-5
    )


def influence(rows, loss, theta, coordinates=None):
    summary = Summary.of(rows, loss)
    if coordinates is None:
        moments = glm.second_moments(rows)
        coordinates = Coordinates.of(loss.information(summary.shares), moments, 0.01)
    return glm.spread_of(rows, loss, "0.01", theta, coordinates, summary), coordinates


def test_influences_are_those_of_the_sandwich():
    rows, loss = lab(500, seed=2), Bernoulli()
    theta = fit(rows, loss, "0.01", Summary.of(rows, loss))
    found, coordinates = influence(rows, loss, theta)
    X = np.column_stack([np.ones(500), rows.block.terms / 4096])
    p = 1 / (1 + np.exp(-(X @ theta[0] * UNIT)))
    information = (X * (p * (1 - p))[:, None]).T @ X / 500 + 0.01 * np.diag([0, 1, 1, 1])
    pull = np.linalg.solve(information, X.T).T
    leverage = (pull * X).sum(axis=1) * p * (1 - p) / 500
    scores, columns = coordinates.factors()
    rowwise = scores[0, 0] * (pull * ((p - rows.block.targets) / (1 - leverage))[:, None]) @ columns
    np.testing.assert_allclose(found.observed, (rowwise**2).mean(axis=0), rtol=1e-2)
    m = (rowwise**2).sum(axis=0) ** 2 / (rowwise**4).sum(axis=0)
    # squares of squares are cut to four bits or so, which makes m up to 15% larger
    np.testing.assert_allclose(found.m_observed, m, rtol=0.15)


@pytest.mark.parametrize("n_copies", [40, 1500])
def test_rows_of_one_group_count_as_one(n_copies):
    """Copies of a row make one group: so many times the variance, as many effective rows.

    Sums over many copies exceed what squares in int64 hold, and have a coarser unit.
    """
    alone, loss = lab(100, n_terms=2, seed=3), Bernoulli()
    theta = fit(alone, loss, "0.01", Summary.of(alone, loss))
    single, coordinates = influence(alone, loss, theta)
    names = np.tile(np.array([f"person {i}" for i in range(100)], dtype=object), n_copies)
    terms = np.tile(alone.block.terms, (n_copies, 1))
    copies = MemoryBlocks(Block(terms, np.tile(alone.block.targets, n_copies), groups=names))
    grouped, _ = influence(copies, loss, theta, coordinates)
    # leverages of copies are smaller, and so is each influence, by up to a tenth
    np.testing.assert_allclose(grouped.observed, n_copies * single.observed, rtol=0.25)
    np.testing.assert_allclose(grouped.m_observed, single.m_observed, rtol=0.25)


def test_influences_need_not_be_of_all_rows():
    rows, loss = lab(400, seed=4), Bernoulli()
    theta = fit(rows, loss, "0.01", Summary.of(rows, loss))
    _, coordinates = influence(rows, loss, theta)
    sums = derivatives.sums_at(rows.blocks(), loss, theta, 1 << 32)
    information = derivatives.mean_information(sums, loss, 0.01)
    parts = coordinates.factors()
    some = influence_of(rows.blocks(), loss, theta, information, parts, 4000, 4000.0)
    every = influence_of(rows.blocks(), loss, theta, information, parts, 400, 400.0)
    np.testing.assert_allclose(some.m_observed, 10 * every.m_observed, rtol=0.05)
    np.testing.assert_allclose(some.observed, every.observed, rtol=0.05)


# ---------------------------------------------------------------- choices


def test_held_out_losses_are_those_of_rows_not_seen():
    rows, loss = lab(500, seed=5), Bernoulli()
    found = validate(rows, folds_of(rows, loss), loss, "0.01")
    values, n_rows = 0.0, 0
    for fold in found.folds:
        assert fold.learn.block.n_rows + fold.held.n_rows == 500
        scores = fold.held.terms / 4096 @ fold.theta[0, 1:] * UNIT + fold.theta[0, 0] * UNIT
        values += np.logaddexp(0, scores).sum() - fold.held.targets @ scores
        n_rows += fold.held.n_rows
    assert n_rows == 500
    assert found.loss == pytest.approx(values / 500, abs=1e-6)
    assert held_out_loss(found.folds, loss) == found.loss


search = partial(glm.RidgeSearch.of, ridge="0.1")


def test_no_promise_where_small_parts_have_no_model():
    """Parts as small as the smallest lab have one class only: nobody knows how much they differ."""
    rows, loss = lab(400, seed=6), Bernoulli()
    rare = MemoryBlocks(Block(rows.block.terms, (np.arange(400) == 7).astype(float)))
    trial = search(rare, loss, glm.GlmPromise(0.01, 3, 400, 4)).original()
    assert trial.spread.inflation == 2 * glm.MOST_INFLATION
    trial = search(rows, loss, glm.GlmPromise(0.01, 3, 400, 400)).original()
    assert trial.spread.inflation < glm.MOST_INFLATION


def test_fifty_rows_have_cells_of_their_own_spread():
    loss = Bernoulli()
    found = [
        search(lab(n, seed=7), loss, glm.GlmPromise(0.01, 3, n, n)).original().widths
        for n in (49, 50)
    ]
    assert set(found[0]) == {"3.2"}  # arbitrary: nothing is published
    assert len(set(found[1])) > 1


# ---------------------------------------------------------------- classes that are nearly separable


def nearly_separable(n_rows=1500, seed=31):
    """Coefficients of 30 and 10 spreads: fits with a weak ridge come near the bound of 16."""
    rng = np.random.default_rng([7, seed])
    X = rng.normal(size=(n_rows, 5))
    return X, 0.1 * rng.logistic(size=n_rows) < 3 * X[:, 0] + X[:, 1]


def test_originals_keep_away_from_the_bound_of_coefficients():
    """Else replications, whose coefficients differ a little, might have no model at all."""
    X, y = nearly_separable()
    first = rl.ReplicableLogisticClassifier().fit(X, y)
    assert np.abs(first.model_.theta[:, 1:]).max() < 12
    assert not first.study_.problems


def test_a_weak_ridge_by_hand_is_not_published(tmp_path):
    X, y = nearly_separable()
    with pytest.warns(rl.ReplicabilityWarning, match="larger ridge"):
        first = rl.ReplicableLogisticClassifier(ridge=1.2e-4).fit(X, y)
    assert np.abs(first.model_.theta[:, 1:]).max() > 12
    with pytest.raises(rl.ReplearnError, match="larger ridge"):
        first.study_.save(tmp_path / "study.json")


# ---------------------------------------------------------------- labs without an event


def rare(n_rows, seed=0):
    """One row in a hundred is an event."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2))
    return X, rng.logistic(size=n_rows) < 2 * X[:, 0] - 6


@pytest.mark.parametrize("weight", [None, "balanced"])
def test_small_labs_that_may_have_no_event_are_promised_nothing(weight):
    X, y = rare(4000)
    options = {"ridge": 0.01, "class_weight": weight}
    with pytest.warns(rl.ReplicabilityWarning, match="no row of some class") as warned:
        few = rl.ReplicableLogisticClassifier(replication_rows=200, **options).fit(X, y)
    lacking = (1 - y.mean()) ** 200
    assert few.certificate_.expected == pytest.approx(lacking, rel=0.05)
    needed = int(re.search(r"replication_rows=([0-9]+)", str(warned[0].message))[1])
    assert (1 - y.mean()) ** needed < 0.005 < (1 - y.mean()) ** (0.9 * needed)
    enough = rl.ReplicableLogisticClassifier(replication_rows=needed, **options).fit(X, y)
    assert not enough.study_.problems
    assert enough.certificate_.expected < 0.01


def test_small_labs_that_may_count_nothing_are_promised_nothing():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4000, 2))
    counts = rng.poisson(np.exp(X[:, 0] - 4))
    with pytest.warns(rl.ReplicabilityWarning, match="no event"):
        rl.ReplicablePoissonRegressor(replication_rows=100, ridge=0.1).fit(X, counts)
    rl.ReplicablePoissonRegressor(replication_rows=500, ridge=0.1).fit(X, counts)


# ---------------------------------------------------------------- bounds


def test_models_that_no_file_could_hold_are_refused_before_the_fit():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(600, 400)), np.arange(600) % 50
    with pytest.raises(rl.ReplearnError, match=r"at most 16,384 coefficients, got 19,649.*linear"):
        rl.ReplicableLogisticClassifier().fit(X, y)


@pytest.mark.parametrize(("sigma", "is_problem"), [(1.0, False), (3.5, True)])
def test_weights_that_let_a_few_rows_decide_are_a_problem(sigma, is_problem):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(2000, 2))
    y = rng.logistic(size=2000) < X[:, 0]
    weights = np.exp(sigma * rng.normal(size=2000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = rl.ReplicableLogisticClassifier(ridge=0.01).fit(X, y, sample_weight=weights)
    assert any("equal weight" in one for one in first.study_.problems) == is_problem
