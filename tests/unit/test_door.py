"""One door into a fit: whoever calls, parameters, columns and labels are treated alike."""

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.errors import NotEnoughSamples, ReplearnError
from replearn.estimators.base import ReplicableClassifier

ODD = [
    ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
    ({"published": 3}, "published must be None or a Published, got 3"),
    ({"shared_seed": 1.5}, "shared_seed must be an int or a string, got 1.5"),
    ({"random_state": "x"}, "random_state"),
]


@pytest.fixture
def rows():
    X, y = rl.datasets.make_margin(400, 3, 0.3, random_state=0)
    return pd.DataFrame(X, columns=["a", "b", "c"]), y


@pytest.mark.parametrize(("parameters", "words"), ODD)
def test_every_door_refuses_odd_parameters_before_it_looks_at_rows(
    parameters, words, rows, tmp_path
):
    X, y = rows
    path = tmp_path / "rows.csv"
    path.write_text("nothing that could be read")
    for fit in (
        lambda clf: clf.fit(X, y),
        lambda clf: rl.fit_file(clf, path, "y"),
        lambda clf: rl.clusters.fit(clf, path, target="y"),
        lambda clf: clf.fit_sample(clf.in_memory(X.to_numpy(), y), 3, np.array([-1, 1])),
        lambda clf: clf.partial_fit(X, y),
    ):
        clf = rl.ReplicableSGDClassifier(**parameters)
        with pytest.raises(ReplearnError, match=words):
            fit(clf)


def test_a_stream_too_short_for_a_promise_has_no_model_yet(rows):
    X, y = rows
    clf = rl.ReplicableSGDClassifier(margin=0.3, mode="certified").partial_fit(X, y)
    for name in ("model_", "plan_", "certificate_", "coef_", "intercept_", "fingerprint_"):
        assert not hasattr(clf, name)
    for ask in (lambda: clf.model_, lambda: clf.coef_, lambda: clf.predict(X)):
        with pytest.raises(NotEnoughSamples, match="certified mode needs") as problem:
            ask()
        assert problem.value.available == 400


class Sums(ReplicableClassifier):
    """The least that an algorithm of sums over rows must say; it has a plan of its own."""

    asks = "sums"

    class Plan:
        algorithm, n_samples = "sums", 0

        def with_spent(self, spent):
            return self

    def __init__(self, fit_intercept=True, shared_seed=0, n_jobs=None, verbose=0):
        self.fit_intercept, self.shared_seed = fit_intercept, shared_seed
        self.n_jobs, self.verbose = n_jobs, verbose

    published = None
    total = None

    def _plan(self, n_inputs):
        return self.Plan()

    def _fit(self, sample, spaced=False):
        self.total = sample.add_up(_exact_sum, self._run())
        return self


def _exact_sum(X, signs):
    return np.array([int(np.rint(X * 2.0**20).sum()), int(signs.sum()), signs.size], dtype=object)


def test_an_algorithm_of_sums_takes_rows_from_anywhere(rows, tmp_path):
    X, y = rows
    X.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    X.assign(y=y).iloc[::-1].to_parquet(tmp_path / "rows.parquet", index=False)
    here = Sums(n_jobs=2).fit(X, y).total.tolist()
    assert here[2] == 400
    for name in ("rows.csv", "rows.parquet"):
        assert rl.fit_file(Sums(), tmp_path / name, "y").total.tolist() == here
        assert rl.fit_file(Sums(), tmp_path / name, "y", memory=0).total.tolist() == here


def test_a_warning_names_the_line_of_the_user(rows, tmp_path):
    X, y = rows
    X.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    clf = rl.ReplicableSVMClassifier(margin=0.2, shared_seed=1)
    for fit in (lambda: clf.fit(X, y), lambda: rl.fit_file(clf, tmp_path / "rows.csv", "y")):
        with pytest.warns(rl.ReplicabilityWarning) as seen:
            fit()
        assert {warning.filename for warning in seen} == {__file__}
