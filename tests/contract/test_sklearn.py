"""scikit-learn's own checks, for every public estimator with its defaults: no list of exceptions.

A new estimator gets all of it by one line.
"""

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from replearn.errors import ReplicabilityWarning, UselessModelWarning
from replearn.estimators.batches import ReplicableSGDClassifier, ReplicableSVMClassifier
from replearn.estimators.boosting import ReplicableBoostingClassifier
from replearn.estimators.dp import ReplicableDPClassifier
from replearn.estimators.glm import (
    ReplicableLinearRegressor,
    ReplicableLogisticClassifier,
    ReplicablePoissonRegressor,
)
from replearn.estimators.net import ReplicableNetClassifier

ESTIMATORS = [
    ReplicableLogisticClassifier,
    ReplicableLinearRegressor,
    ReplicablePoissonRegressor,
    ReplicableSVMClassifier,
    ReplicableSGDClassifier,
    ReplicableNetClassifier,
    ReplicableDPClassifier,
    ReplicableBoostingClassifier,
]


@pytest.mark.parametrize(
    "estimator",
    [pytest.param(cls, marks=pytest.mark.slow) for cls in ESTIMATORS],
    ids=lambda cls: cls.__name__,
)
def test_check_estimator(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)  # the checks fit few rows
        warnings.simplefilter("ignore", UselessModelWarning)
        found = check_estimator(estimator(), on_fail=None, on_skip=None)
    bad = [
        f"{check['check_name']}: {check['exception']!r}"
        for check in found
        if check["status"] not in ("passed", "skipped")
    ]
    assert not bad, "\n".join(bad)
    skipped = {check["check_name"] for check in found if check["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}  # needs an environment variable


def test_coefficients_of_a_regression_have_the_units_of_its_target():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(2000, 3))
    y = 70 + 20 * X[:, 0] + rng.normal(size=2000)
    fitted = ReplicableLinearRegressor().fit(X, y)
    inside = X[(np.abs(X) < 0.8).all(axis=1)]  # values beyond the published range are moved to it
    expected = inside @ fitted.coef_[0] + fitted.intercept_
    np.testing.assert_allclose(fitted.predict(inside), expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_masks_and_imaginary_parts_are_not_dropped(estimator):
    """A masked cell is a gap: it has the model of the gap, or is refused."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] > 0).astype(int)
    hidden = rng.random(X.shape) < 0.1
    masked, gaps = np.ma.MaskedArray(X, hidden), np.where(hidden, np.nan, X)

    def outcome(*arguments, **more):
        try:
            fitted = estimator().fit(*arguments, **more)
            return fitted.model_, fitted.predict(arguments[0]).tolist()
        except (ValueError, TypeError):
            return "refused"

    assert outcome(masked, y) == outcome(gaps, y)
    plain = estimator().fit(X, y)
    with pytest.raises(ValueError, match="omplex"):
        plain.predict(X + 1j)
    cases = [((X + 0j, y), {}), ((X, y + 1j), {})]
    cases += [((X, np.ma.MaskedArray(labels, hidden[:, 0])), {}) for labels in (y, y.astype(str))]
    if hasattr(plain, "study_"):
        one, none = np.ones(400), np.arange(400) > 0  # a weight of zero leaves its row out
        bad = [np.ma.MaskedArray(one, hidden[:, 0]), one + 1j, none * (1 - 3 * hidden[:, 0])]
        cases += [((X, y), {"sample_weight": weight}) for weight in bad]
    for arguments, more in cases:
        assert outcome(*arguments, **more) == "refused"
