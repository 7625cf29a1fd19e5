import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

from replearn.errors import ReplearnError
from replearn.stages.calibration import calibrate, calibration_bins
from replearn.stages.intervals import mean, share
from replearn.stages.planned import Planned
from replearn.stages.ranking import auc, mean_auc, roc_points, signal_p_value
from replearn.stages.worth import worth
from tests.reference import delong


def draws(n, n_classes=2, seed=0, bias=0.0, slope=1.0):
    """Probabilities, and classes drawn from corrected ones."""
    rng = np.random.default_rng(seed)
    odds = 1.5 * rng.normal(size=(n, n_classes))
    p = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    true = np.exp(slope * odds + bias * np.arange(n_classes))
    true /= true.sum(axis=1, keepdims=True)
    truth = (rng.random(n)[:, None] > true.cumsum(axis=1)).sum(axis=1)
    return p, np.minimum(truth, n_classes - 1)


@pytest.fixture(scope="module")
def two():
    return draws(3000)


@pytest.fixture(scope="module")
def three():
    return draws(2000, 3, seed=1)


def of(p, truth, **options):
    return worth(truth, p.argmax(axis=1), labels=range(p.shape[1]), probabilities=p, **options)


def test_numbers_are_those_of_scikit_learn(two):
    p, truth = two
    measured, predicted = of(p, truth), p.argmax(axis=1)
    assert measured.auc.value == pytest.approx(metrics.roc_auc_score(truth, p[:, 1]), abs=1e-12)
    assert measured.log_loss.value == pytest.approx(metrics.log_loss(truth, p), abs=1e-12)
    assert measured.brier.value == pytest.approx(
        metrics.brier_score_loss(truth, p[:, 1]), abs=1e-12
    )
    assert measured.accuracy.value == metrics.accuracy_score(truth, predicted)
    assert measured.balanced_accuracy.value == pytest.approx(
        metrics.balanced_accuracy_score(truth, predicted), abs=1e-12
    )
    assert measured.confusion == tuple(
        map(tuple, metrics.confusion_matrix(truth, predicted).tolist())
    )
    assert [r.value for r in measured.recalls] == pytest.approx(
        metrics.recall_score(truth, predicted, average=None).tolist()
    )
    assert [r.value for r in measured.precisions] == pytest.approx(
        metrics.precision_score(truth, predicted, average=None).tolist()
    )
    base = np.bincount(truth) / truth.size
    always = np.tile(base, (truth.size, 1))
    assert measured.base_log_loss == pytest.approx(metrics.log_loss(truth, always))
    assert measured.base_brier == pytest.approx(metrics.brier_score_loss(truth, always[:, 1]))
    assert measured.log_loss_gain.value == pytest.approx(
        measured.base_log_loss - measured.log_loss.value
    )


def test_three_classes_are_those_of_scikit_learn(three):
    p, truth = three
    measured = of(p, truth)
    area = metrics.roc_auc_score(truth, p, multi_class="ovr", average="macro")
    assert measured.auc.value == pytest.approx(area, abs=1e-12)
    assert measured.log_loss.value == pytest.approx(metrics.log_loss(truth, p), abs=1e-12)
    one_hot = np.eye(3)[truth]
    assert measured.brier.value == pytest.approx(((p - one_hot) ** 2).sum(axis=1).mean())
    assert len(measured.calibration.intercepts) == 2
    assert measured.flags == ()


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=4, max_size=40).filter(
        lambda rows: 2 <= sum(hit for _, hit in rows) <= len(rows) - 2
    )
)
def test_delong_is_its_slow_twin_with_ties(rows):
    scores = np.array([float(score) for score, _ in rows])
    positive = np.array([hit for _, hit in rows])
    area, variance = delong(scores, positive)
    measured = auc(scores, positive)
    assert measured.value == pytest.approx(area, abs=1e-15)
    if 0 < area < 1:
        odds = np.log([measured.low / (1 - measured.low), measured.high / (1 - measured.high)])
        error = (odds[1] - odds[0]) / 2 / stats.norm.ppf(0.975) * area * (1 - area)
        assert error**2 == pytest.approx(variance, abs=1e-9, rel=1e-6)


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=2, max_size=40).filter(
        lambda rows: (
            0 < sum(hit for _, hit in rows) < len(rows) and len({score for score, _ in rows}) > 1
        )
    )
)
def test_the_test_for_signal_is_that_of_mann_and_whitney(rows):
    scores = np.array([float(score) for score, _ in rows])
    positive = np.array([hit for _, hit in rows])
    other = stats.mannwhitneyu(scores[positive], scores[~positive], method="asymptotic")
    assert signal_p_value(scores, positive) == pytest.approx(other.pvalue, abs=1e-12)


def test_the_mean_of_one_area_is_that_area(two):
    p, truth = two
    alone, among = auc(p[:, 1], truth == 1), mean_auc([(p[:, 1], truth == 1)])
    assert alone.value == among.value
    assert among.low == pytest.approx(alone.low, abs=1e-4)  # m against m - 1
    both = mean_auc([(p[:, 1], truth == 1), (p[:, 0], truth == 0)])
    assert both.low == pytest.approx(among.low, abs=1e-12)  # two views of the same order


def test_separated_classes_have_an_interval_all_the_same():
    measured = auc(np.arange(20.0), np.arange(20) >= 10)
    assert measured.value == 1
    assert measured.low == pytest.approx(0.025 ** (1 / 10))
    inverted = auc(-np.arange(20.0), np.arange(20) >= 10)
    assert (inverted.value, inverted.high) == (0, pytest.approx(1 - 0.025 ** (1 / 10)))
    p = np.column_stack([np.linspace(0.9, 0.1, 20), np.linspace(0.1, 0.9, 20)])
    measured = of(p, (np.arange(20) >= 10).astype(int))
    assert measured.calibration.slope is None
    assert "calibration slope" in measured.absent[0]


def test_calibration_is_a_logistic_regression(two):
    p, truth = two
    odds = np.log(p[:, 1] / p[:, 0])
    model = LogisticRegression(C=np.inf, tol=1e-10).fit(odds[:, None], truth)
    found = calibrate(p, truth)
    assert found.slope.value == pytest.approx(model.coef_[0, 0], abs=1e-5)
    # the slope's standard error, from the information matrix
    q = model.predict_proba(odds[:, None])[:, 1]
    design = np.column_stack([np.ones_like(odds), odds])
    covariance = np.linalg.inv((design * (q * (1 - q))[:, None]).T @ design)
    half = stats.norm.ppf(0.975) * np.sqrt(covariance[1, 1])
    assert found.slope.high - found.slope.value == pytest.approx(half, rel=1e-4)
    # in the large, what is added makes the mean probability that of the rows
    q = 1 / (1 + np.exp(-odds - found.intercepts[0].value))
    assert q.mean() == pytest.approx(truth.mean(), abs=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_calibration_finds_what_was_done_to_the_odds(n_classes):
    p, truth = draws(40_000, n_classes, seed=3, slope=0.5)
    slope = calibrate(p, truth, confidence=0.9999).slope
    assert slope.low < 0.5 < slope.high < 0.6
    p, truth = draws(40_000, n_classes, seed=4, bias=0.3)
    for k, intercept in enumerate(calibrate(p, truth, confidence=0.9999).intercepts, start=1):
        assert intercept.low < 0.3 * k < intercept.high


def test_calibration_of_a_constant_has_an_intercept_and_no_slope():
    truth = np.repeat([0, 1], [30, 10])
    found = calibrate(np.tile([0.5, 0.5], (40, 1)), truth)
    assert found.slope is None
    assert found.intercepts[0].value == pytest.approx(-np.log(3), abs=1e-6)


def test_bins_hold_all_rows_and_cut_no_tie(two):
    p, truth = two
    bins = calibration_bins(p[:, 1], truth == 1)
    assert len(bins) == 10
    assert sum(b.n_rows for b in bins) == truth.size
    assert [b.predicted for b in bins] == sorted(b.predicted for b in bins)
    assert len(calibration_bins(np.full(50, 0.3), np.arange(50) < 20)) == 1
    tied = calibration_bins(np.repeat([0.1, 0.2, 0.9], [80, 15, 5]), np.arange(100) < 50)
    assert [b.n_rows for b in tied] == [80, 20]


def test_roc_points_are_those_of_scikit_learn(two):
    p, truth = two
    scores = np.round(p[:, 1], 2)  # ties
    x, y, _ = metrics.roc_curve(truth, scores, drop_intermediate=False)
    points = roc_points(scores, truth == 1)
    assert points[:, 0] == pytest.approx(x)
    assert points[:, 1] == pytest.approx(y)
    thin = roc_points(p[:, 1], truth == 1, most=50)
    assert len(thin) <= 51
    assert thin[-1].tolist() == [1, 1]


def test_shares_are_wilson_intervals():
    for count, trials in ((0, 7), (3, 7), (7, 7), (250, 1000)):
        other = stats.binomtest(count, trials).proportion_ci(0.9, method="wilson")
        found = share(count, trials, 0.9)
        assert (found.low, found.high) == pytest.approx((other.low, other.high), abs=1e-12)


def test_means_are_student_intervals():
    values = np.random.default_rng(0).normal(size=12)
    other = stats.ttest_1samp(values, 0).confidence_interval(0.9)
    found = mean(values, 0.9)
    assert (found.low, found.high) == pytest.approx((other.low, other.high))
    json.dumps(mean(np.array([1.0])).data(), allow_nan=False)


def test_a_constant_model_is_named():
    rng = np.random.default_rng(0)
    truth = (rng.random(2000) < 0.07).astype(int)
    p = np.full(2000, 0.07)
    measured = worth(truth, np.zeros(2000, int), labels=("no", "yes"), probabilities=p)
    assert measured.flags == ("constant", "no_signal")
    assert measured.auc.value == 0.5
    assert measured.accuracy.value > 0.9  # which is why accuracy is not enough
    assert "every one of 2,000 rows the class 'no'" in str(measured)


def test_a_threshold_that_is_never_met_is_told_from_no_signal():
    rng = np.random.default_rng(0)
    p = 0.4 * rng.random(2000)
    truth = (rng.random(2000) < p).astype(int)
    measured = worth(truth, np.zeros(2000, int), labels=("no", "yes"), probabilities=p)
    assert measured.flags == ("constant",)
    assert "another threshold" in measured.problems[0]


def test_an_inverted_model_is_named(two):
    p, truth = two
    measured = of(p, 1 - truth)
    assert measured.flags == ("inverted", "worse_than_base_rate")
    assert len(measured.problems) == 1
    scores_only = worth(1 - truth, p.argmax(axis=1), labels=(0, 1), scores=p[:, 1])
    assert "inverted" in scores_only.flags


def test_noise_has_no_signal(two):
    p, truth = two
    measured = of(p, np.random.default_rng(5).permutation(truth))
    assert measured.flags == ("no_signal", "worse_than_base_rate")
    assert "log-loss" in measured.problems[1]
    scores_only = worth(
        np.repeat([0, 1], [2900, 100]), p.argmax(axis=1), labels=("no", "yes"), scores=p[:, 1]
    )
    assert "Always answering 'no'" in scores_only.problems[-1]


def test_what_scores_alone_cannot_say_is_said(two):
    p, truth = two
    measured = worth(truth, p.argmax(axis=1), labels=(0, 1), scores=p[:, 1] - 0.5)
    assert measured.auc == of(p, truth).auc
    assert measured.log_loss is measured.brier is measured.calibration is None
    assert "no probabilities" in measured.absent[0]
    assert "log-loss" not in dict(measured.lines())
    alone = worth(truth, p.argmax(axis=1), labels=(0, 1))
    assert alone.auc is None
    assert alone.flags == ()


def test_rows_of_one_class_say_what_they_can(two):
    p, truth = two
    kept = truth == 1
    measured = of(p[kept], truth[kept])
    assert measured.auc is measured.balanced_accuracy is measured.calibration is None
    assert measured.log_loss is not None
    assert "No row has the class 0" in measured.absent[0]
    assert measured.recalls[0] is None
    one = of(p[:1], truth[:1])
    json.dumps(one.data(), allow_nan=False)
    assert str(one)


def test_no_row_is_refused():
    with pytest.raises(ReplearnError, match="got none"):
        worth(np.array([], int), np.array([], int), labels=(0, 1))


def test_sure_errors_cost_much_and_stay_finite():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    measured = of(p, np.array([1, 1, 0]))
    assert measured.log_loss.value == pytest.approx((-np.log(1e-15) + np.log(2)) / 3)


def test_small_integer_types_and_one_column_of_probabilities_do(two):
    p, truth = two
    small = worth(
        truth.astype(np.uint8),
        (p[:, 1] > 0.5).view(np.uint8),
        labels=(0, 1),
        probabilities=p[:, 1],
        scores=p[:, 1],
    )
    assert small.confusion == of(p, truth).confusion
    assert small.brier.value == pytest.approx(of(p, truth).brier.value)


def test_order_of_rows_does_not_matter(two):
    p, truth = two
    order = np.random.default_rng(0).permutation(truth.size)
    first, second = of(p, truth), of(p[order], truth[order])
    assert first.auc.value == second.auc.value
    assert first.log_loss.value == pytest.approx(second.log_loss.value, rel=1e-12)


def test_data_is_json_and_text_is_short(three):
    measured = of(*three)
    data = json.loads(json.dumps(measured.data(), allow_nan=False))
    assert data["auc"]["interval"][0] < data["auc"]["value"] < data["auc"]["interval"][1]
    assert len(str(measured).splitlines()) <= 12
    assert "np." not in str(measured)


def test_a_pilot_of_few_rows_is_not_called_better():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 20_000)
    scores = rng.normal(size=labels.size) + 1.5 * labels
    measured = worth(labels, (scores > 0.75).astype(int), labels=(0, 1), scores=scores)
    area = measured.auc.value
    for n_pilot, better in ((None, True), (100, False), (1_000_000, True)):
        planned = Planned(pilot_auc=area + 0.02, n_pilot=n_pilot)
        assert any("would be better" in text for text in planned.problems(measured)) == better
