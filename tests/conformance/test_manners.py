"""What users of scikit-learn and notebooks expect: names, routing, pictures, pages."""

import builtins
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

import replearn as rl

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # few rows

N = 1200
RNG = np.random.default_rng(0)
X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["age", "dose", "x"])
Y = np.where(X["age"] + RNG.normal(size=N) > 0, "ill", "well")
LAX = {"samples_per_site": N, "max_disagreement": 0.9}


# --- names --------------------------------------------------------------------------------------


def test_names_go_through_pipelines():
    scaler = rl.ReplicableScaler().fit(X)
    assert scaler.get_feature_names_out().tolist() == list(X)
    framed = rl.ReplicableScaler().set_output(transform="pandas").fit_transform(X)
    assert list(framed) == list(X)
    assert framed.index.equals(X.index)
    for last in (
        rl.ReplicableLogisticClassifier(**LAX),
        rl.ReplicableSVMClassifier(margin=0.1, batch_size=40, max_disagreement=0.9),
    ):
        pipeline = make_pipeline(rl.ReplicableScaler(), last).set_output(transform="pandas")
        pipeline.fit(X, Y)
        assert pipeline.n_features_in_ == 3
        assert pipeline[:-1].get_feature_names_out().tolist() == list(X)
        assert pipeline[-1].feature_names_in_.tolist() == list(X)
        assert pipeline[-1].model_.feature_names == tuple(X)


# --- metadata -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "estimator",
    [rl.ReplicableLogisticClassifier(**LAX), rl.ReplicableLinearRegressor((-5, 5), **LAX)],
    ids=["logistic", "linear"],
)
def test_weights_are_routed(estimator):
    """Weights that a cross-validation routes are those of a fit, and are refused if unasked for."""
    y = Y if isinstance(estimator, rl.ReplicableLogisticClassifier) else X["age"] - X["dose"]
    weights = RNG.integers(0, 3, N)
    order = np.arange(N)
    split = [(order[: N // 2], order[N // 2 :])]
    with config_context(enable_metadata_routing=True):
        asked = estimator.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        found = cross_validate(
            make_pipeline(rl.ReplicableScaler(), asked),
            X, y, cv=split, params={"sample_weight": weights}, return_estimator=True,
        )  # fmt: skip
    fitted = found["estimator"][0]
    half = order[: N // 2]
    again = make_pipeline(rl.ReplicableScaler(), estimator)
    name = again.steps[-1][0]
    again.fit(X.iloc[half], np.asarray(y)[half], **{f"{name}__sample_weight": weights[half]})
    assert fitted[-1].fingerprint_ == again[-1].fingerprint_
    assert fitted[-1].plan_.spent.n_effective == again[-1].plan_.spent.n_effective


# --- pictures and pages -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def things():
    plan = rl.plan_from_pilot(X[:400], Y[:400], samples_per_site=800, hint_bits=2)
    fitted = plan.protocol.estimator().fit(X[400:], Y[400:])
    svm = rl.ReplicableSVMClassifier(margin=0.1, batch_size=40, max_disagreement=0.9)
    regression = rl.plan_regression(X[:400], X["age"][:400] * 2, samples_per_site=800)
    return {
        "Plan": svm.fit(X, Y).plan_,
        "LogisticPlan": fitted.plan_,
        "promised": rl.ReplicableLogisticClassifier(**LAX).fit(X, Y).plan_,
        "Certificate": fitted.certificate_,
        "not estimable": rl.Certificate(None, 1.0, 0.95, "nothing", 3),
        "AuditResult": rl.audit(svm, X, Y, n_pairs=3, max_disagreement=0.9),
        "Protocol": plan.protocol,
        "of Algorithm 1": rl.plan_from_pilot(
            X[:400], Y[:400], samples_per_site=800, algorithm="svm"
        ).protocol,
        "of a regression": regression.protocol,
        "RegressionPlan": regression,
        "Model": fitted.model_,
        "regression": regression.protocol.estimator().fit(X, 2 * X["age"]).model_,
    }


def test_everything_is_drawn_on_given_or_new_axes(things):
    plt = pytest.importorskip("matplotlib.pyplot")
    for name, thing in things.items():
        figure, ax = plt.subplots()
        assert thing.plot(ax) is ax, name
        assert ax.get_xlabel(), name
        assert len(figure.axes) == 1
        own = thing.plot()
        assert own.figure is not figure
        own.figure.canvas.draw()
        assert "<div" in thing._repr_html_()
        plt.close("all")


def test_the_curve_of_a_plan_goes_through_its_promise(things):
    plt = pytest.importorskip("matplotlib.pyplot")
    for name in ("Plan", "LogisticPlan", "promised"):
        sizes, values = things[name].plot().lines[0].get_data()
        assert (np.diff(values) <= 1e-12).all()
        at_plan = np.interp(things[name].n_samples, sizes, values)
        promise = getattr(things[name], "max_disagreement", 0.9)
        assert 0.5 * promise < at_plan < 1.1 * promise, name
        plt.close("all")


def test_without_matplotlib_the_message_says_what_to_install(things, monkeypatch):
    pytest.importorskip("matplotlib")
    found = builtins.__import__

    def missing(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    for module in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(rl.ReplearnError, match=r'pip install "replearn\[report\]"'):
        things["Model"].plot()


def test_a_protocol_without_a_word_about_its_worth_has_no_picture(things):
    from dataclasses import replace

    with pytest.raises(rl.ReplearnError, match="nothing to draw"):
        replace(things["Protocol"], notes={"expected_auc": "soon"}).plot()
