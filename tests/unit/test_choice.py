"""Choices among finished models: what may be a candidate, what comes out, what is refused."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import replearn as rl
from replearn.estimators.candidates import contenders

X, Y = make_classification(6000, n_features=8, n_informative=5, random_state=0)
TRAIN, HERE, THERE = slice(1000), slice(1000, 3500), slice(3500, 6000)


def fitted(y=Y, X=X):
    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
        "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
        "bayes": GaussianNB(),
    }
    return {name: model.fit(X[TRAIN], y[TRAIN]) for name, model in models.items()}


MODELS = fitted()


def choose(candidates=None, X=X, y=Y, rows=HERE, **parameters):
    chosen = rl.ReplicableChoiceClassifier(
        MODELS if candidates is None else candidates, **parameters
    )
    return chosen.fit(X[rows], y[rows])


def test_afterwards_it_is_the_chosen_one():
    chosen = choose(shared_seed=1)
    model = MODELS[chosen.choice_.name]
    assert chosen.chosen_ is model
    assert (chosen.predict(X[THERE]) == model.predict(X[THERE])).all()
    np.testing.assert_array_equal(chosen.predict_proba(X[THERE]), model.predict_proba(X[THERE]))
    assert chosen.score(X[THERE], Y[THERE]) == model.score(X[THERE], Y[THERE])
    scores = [model.score(X[HERE], Y[HERE]) for model in MODELS.values()]
    np.testing.assert_allclose(chosen.scores_, scores)
    assert chosen.n_features_in_ == 8
    assert chosen.classes_.tolist() == [0, 1]
    assert hasattr(chosen, "decision_function") == hasattr(model, "decision_function")


def test_the_choice_is_the_best_noisy_score():
    for seed in range(20):
        chosen = choose(shared_seed=seed, noise_scale=0.2)
        assert chosen.choice_.index == rl.noisy_best(chosen.scores_, 0.2, seed)


def test_two_sites_get_one_fingerprint():
    pairs = [
        [choose(rows=rows, shared_seed=seed).fingerprint_ for rows in (HERE, THERE)]
        for seed in range(10)
    ]
    assert sum(here == there for here, there in pairs) >= 8
    assert len({here for here, _ in pairs}) == 10  # the seed is part of it


def test_neither_order_nor_type_of_rows_matters():
    order = np.random.default_rng(0).permutation(2500)
    first = choose(shared_seed=3)
    second = rl.ReplicableChoiceClassifier(MODELS, shared_seed=3).fit(
        X[HERE][order], Y[HERE][order].tolist()
    )
    assert second.fingerprint_ == first.fingerprint_
    assert second.noise_scale_ == first.noise_scale_
    assert (second.scores_ == first.scores_).all()


def test_clones_and_pickles_keep_what_candidates_have_learned():
    chosen = choose()
    again = clone(chosen)
    assert not hasattr(again, "choice_")
    assert again.fit(X[HERE], Y[HERE]).fingerprint_ == chosen.fingerprint_
    copied = pickle.loads(pickle.dumps(chosen))
    assert copied.fingerprint_ == chosen.fingerprint_
    assert (copied.predict(X[THERE]) == chosen.predict(X[THERE])).all()
    assert cross_val_score(again, X[HERE], Y[HERE], cv=3).min() > 0.7


@pytest.mark.parametrize(
    "scoring",
    [
        "accuracy",
        "balanced_accuracy",
        "neg_log_loss",
        "neg_brier_score",
        "roc_auc",
        [[0, 1], [3, 0]],
    ],
)
def test_every_scoring_chooses(scoring):
    chosen = choose(scoring=scoring, shared_seed=5)
    assert chosen.certificate_.expected_disagreement <= 0.105
    proved = chosen.certificate_.disagreement_bound
    assert proved == 1  # the noise came from the rows
    planned = choose(scoring=scoring, noise_scale=2 * float(chosen.noise_scale_))
    no_proof = scoring in ("roc_auc", "balanced_accuracy")
    assert (planned.certificate_.disagreement_bound == 1) == no_proof
    assert "seeds" in str(planned.certificate_)


def test_published_shares_make_balanced_accuracy_provable():
    chosen = choose(scoring="balanced_accuracy", prevalence=[0.5, 0.5], noise_scale=0.1)
    assert chosen.certificate_.disagreement_bound < 0.2
    assert chosen.choice_.scoring == {"name": "balanced_accuracy", "prevalence": ["0.5", "0.5"]}


def test_more_classes_and_text():
    X3, y3 = make_classification(3000, n_classes=3, n_informative=6, random_state=1)
    names = np.array(["high", "low", "middle"])[y3]
    models = fitted(names, X3)
    chosen = choose(models, X3, names, slice(1000, 3000), scoring="neg_log_loss")
    assert chosen.classes_.tolist() == ["high", "low", "middle"]
    assert chosen.predict_proba(X3[:5]).shape == (5, 3)
    assert set(chosen.predict(X3[:50])) <= set(names)


def test_probabilities_are_put_in_the_order_of_the_classes():
    half = DecisionTreeClassifier(max_depth=1).fit(X[:50], np.full(50, 1))  # knows one class
    chosen = rl.ReplicableChoiceClassifier(
        {"half": half, "logistic": MODELS["logistic"]}, scoring="neg_log_loss", noise_scale=1e-9
    ).fit(X[HERE], Y[HERE])
    assert chosen.choice_.name == "logistic"
    (one, _) = contenders({"half": half, "logistic": MODELS["logistic"]})
    np.testing.assert_array_equal(one.probabilities(X[:3], np.array([0, 1])), [[0, 1]] * 3)


def test_columns_of_predictions():
    labels = {name: model.predict(X) for name, model in MODELS.items()}
    table = pd.DataFrame(labels)
    direct = choose(shared_seed=7)
    for frame in (table, pl.DataFrame(labels)):
        chosen = rl.ReplicableChoiceClassifier(list(MODELS), shared_seed=7).fit(
            frame[HERE], Y[HERE]
        )
        assert chosen.choice_.index == direct.choice_.index
        assert (chosen.predict(frame[THERE]) == direct.predict(X[THERE])).all()
        assert not hasattr(chosen, "predict_proba")
    chances = np.column_stack([model.predict_proba(X)[:, 1] for model in MODELS.values()])
    by_number = choose([0, 1, 2], chances, scoring="roc_auc", shared_seed=7)
    assert by_number.choice_.index == choose(scoring="roc_auc", shared_seed=7).choice_.index
    both = np.column_stack([model.predict_proba(X) for model in MODELS.values()])
    by_class = choose([(0, 1), (2, 3), (4, 5)], both, scoring="neg_log_loss", shared_seed=7)
    assert by_class.choice_.index == choose(scoring="neg_log_loss", shared_seed=7).choice_.index
    first = 2 * by_class.choice_.index
    np.testing.assert_array_equal(by_class.predict_proba(both[:5]), both[:5, first : first + 2])


def test_models_of_replearn_are_known_by_their_fingerprints():
    Xm, ym = rl.datasets.make_margin(4000, 4, margin=0.3, random_state=0)
    classifier = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9, batch_size=50)
    model = classifier.fit(Xm[:2000], ym[:2000]).model_
    logistic = LogisticRegression().fit(Xm[:2000], ym[:2000])
    candidates = {"svm": model, "same": classifier, "logistic": logistic}
    chosen = rl.ReplicableChoiceClassifier(candidates).fit(Xm[2000:], ym[2000:])
    hashes = [candidate.sha256 for candidate in chosen.choice_.candidates]
    assert hashes == [model.fingerprint, model.fingerprint, None]
    with pytest.raises(rl.ReplearnError, match="'svm' must have the fingerprint"):
        rl.ReplicableChoiceClassifier(candidates, hashes={"svm": "0" * 64}).fit(Xm, ym)


def test_published_hashes_are_part_of_the_fingerprint():
    one = choose(hashes={"tree": "ab" * 32})
    other = choose(hashes={"tree": "cd" * 32})
    assert one.choice_.index == other.choice_.index
    assert one.fingerprint_ != other.fingerprint_


def test_rows_of_other_sites_count():
    few = choose(samples_per_site=500)
    many = choose(samples_per_site=50_000)
    assert float(few.noise_scale_) > 5 * float(many.noise_scale_)
    sixteen = choose(n_sites=16)
    assert float(sixteen.noise_scale_) > 2.5 * float(choose().noise_scale_)


def test_warnings_say_what_is_wrong():
    with pytest.warns(rl.ReplicabilityWarning, match="above max_disagreement=0.01"):
        choose(noise_scale=0.05, max_disagreement=0.01)
    with pytest.warns(rl.ReplicabilityWarning, match="from 20 rows"):
        choose(rows=slice(1000, 1020))
    dummies = {"zero": DummyClassifier(strategy="constant", constant=0).fit(X, Y)}
    rare = (np.random.default_rng(0).random(6000) < 0.1).astype(int)
    with pytest.warns(rl.UselessModelWarning, match="always guessing"):
        rl.ReplicableChoiceClassifier(dummies).fit(X, rare)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"candidates": []}, "1 to 1,000 models"),
        ({"candidates": "tree"}, "must be a list"),
        ({"candidates": [object()]}, "fitted classifier"),
        ({"candidates": [("a", MODELS["tree"]), ("a", MODELS["bayes"])]}, "'a' twice"),
        ({"candidates": {"": MODELS["tree"]}}, "name must be text"),
        ({"candidates": {"raw": DecisionTreeClassifier()}}, "'raw' cannot predict"),
        ({"scoring": "f1"}, "scoring must be one of"),
        ({"scoring": object()}, "table of costs"),
        ({"scoring": "balanced_accuracy", "prevalence": ["x"]}, "prevalence must be numbers"),
        ({"max_disagreement": 5}, "for 5 % pass"),
        ({"max_disagreement": "x"}, "max_disagreement"),
        ({"noise_scale": "wide"}, "noise_scale"),
        ({"noise_scale": -1}, "noise_scale"),
        ({"shared_seed": 1.5}, "shared_seed"),
        ({"samples_per_site": 0}, "samples_per_site"),
        ({"n_sites": 1}, "n_sites"),
        ({"classes": [0]}, "two classes"),
        ({"classes": ["a", "b"]}, "must hold the labels"),
        ({"hashes": {"forest": "0" * 64}}, "no candidate"),
    ],
)
def test_odd_parameters_are_refused(parameters, words):
    candidates = parameters.pop("candidates", MODELS)
    with pytest.raises(rl.ReplearnError, match=words):
        choose(candidates, **parameters)


def test_odd_rows_are_refused():
    with pytest.raises(rl.ReplearnError, match="one label for each row"):
        rl.ReplicableChoiceClassifier(MODELS).fit(X[:10], Y[:9])
    with pytest.raises(rl.ReplearnError, match="got 2"):
        rl.ReplicableChoiceClassifier(MODELS).fit(X[:10], np.arange(10) % 3)
    ridge = RidgeClassifier().fit(X, Y)
    with pytest.raises(rl.ReplearnError, match="predict_proba"):
        choose({"ridge": ridge}, scoring="neg_log_loss")
    with pytest.raises(FileNotFoundError):
        choose([Path("absent.onnx"), *MODELS.items()])
    with pytest.raises(rl.ReplearnError, match="'tree' cannot predict"):
        rl.ReplicableChoiceClassifier({"tree": MODELS["tree"]}).fit(X[:, :3], Y)
    chosen = choose()
    with pytest.raises(ValueError, match="features"):
        chosen.predict(X[:, :3])


# --- numbers ------------------------------------------------------------------------------------


def test_a_number_that_sites_share():
    chosen = choose(shared_seed=1)
    ledger = rl.StudyLedger(0.3)
    ledger.spend("choice", 0.1)
    settings = {"samples_per_site": 2500, "shared_seed": 1, "max_disagreement": 0.2}
    found = [
        rl.replicable_score(chosen.chosen_, X[rows], Y[rows], **settings) for rows in (HERE, THERE)
    ]
    assert found[0].value == found[1].value
    own = chosen.chosen_.score(X[HERE], Y[HERE])
    assert abs(found[0].value - own) <= float(found[0].grid_width) / 2
    noted = rl.replicable_score(
        chosen.chosen_, X[HERE], Y[HERE], "roc_auc", grid_width=0.1, ledger=ledger, name="auc",
        max_disagreement=0.2,
    )  # fmt: skip
    assert ledger.spent == pytest.approx(0.3)
    assert "score auc" in str(ledger)
    assert noted.disagreement_bound == 1
    assert str(noted).startswith("roc_auc 0.")
    with pytest.raises(rl.ReplearnError, match="is left"):
        rl.replicable_score(
            chosen.chosen_, X[HERE], Y[HERE], grid_width=0.1, ledger=ledger, max_disagreement=0.01
        )


def test_names_give_numbers_their_own_grids():
    model = MODELS["tree"]
    values = {
        rl.replicable_score(model, X[HERE], Y[HERE], grid_width=0.2, name=name).value
        for name in ("a", "b", "c")
    }
    assert len(values) == 3


def test_what_a_number_needs():
    model = MODELS["tree"]
    with pytest.raises(rl.ReplearnError, match="grid_width or samples_per_site"):
        rl.replicable_score(model, X, Y)
    with pytest.raises(rl.ReplearnError, match="no largest spread"):
        rl.replicable_score(model, X, Y, "roc_auc", samples_per_site=100)
    with pytest.raises(rl.ReplearnError, match="positive number"):
        rl.replicable_score(model, X, Y, grid_width=-1)
    with pytest.warns(rl.ReplicabilityWarning, match="another number"):
        rl.replicable_score(model, X[HERE], Y[HERE], grid_width=0.01)
    narrow = rl.replicable_score(model, X, Y, samples_per_site=6000, spread=0.4, n_sites=3)
    wide = rl.replicable_score(model, X, Y, samples_per_site=6000, n_sites=3)
    assert float(narrow.grid_width) == pytest.approx(0.8 * float(wide.grid_width), rel=0.01)
    assert wide.disagreement_bound < 1


def test_a_published_choice_names_the_columns_of_any_table(tmp_path: Path) -> None:
    paths = [tmp_path / f"{seed}.model.json" for seed in (1, 2)]
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(8)])
    for seed, path in enumerate(paths):
        svm = rl.ReplicableSVMClassifier(max_disagreement=0.99, batch_size=50, shared_seed=seed)
        rl.save(svm.fit(frame[TRAIN], Y[TRAIN]).model_, path)
    for table in (frame[HERE], pa.Table.from_pandas(frame[HERE]), dict(frame[HERE].items())):
        protocol, _ = rl.publish_choice(paths, table, Y[HERE], samples_per_site=5000)
        assert protocol.features == tuple(frame)
