"""Bad input gets one clear error: the rule, the value, the remedy."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from replearn import (
    InvalidFile,
    NotEnoughSamples,
    ReplearnError,
    ReplicabilityWarning,
    ReplicableSGDClassifier,
    ReplicableSVMClassifier,
    load,
    save,
)
from replearn.datasets import make_margin

X, Y = make_margin(4000, 4, margin=0.4, random_state=0)


def classifier(**parameters):
    # so lax that whatever seed a test takes is no reason for a warning
    return ReplicableSVMClassifier(**{"margin": 0.4, "max_disagreement": 0.99} | parameters)


def with_value(value, row=17, column=2):
    changed = X.copy()
    changed[row, column] = value
    return changed


# ---------------------------------------------------------------- data


@pytest.mark.parametrize(
    ("value", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")], ids=str
)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, np.asfortranarray])
def test_values_that_are_not_finite(value, word, make):
    message = rf"X must be finite, got {word} in row 17, column 2\. Fill in .* drop"
    with pytest.raises(ReplearnError, match=message):
        classifier().fit(make(with_value(value)), Y)
    fitted = classifier().fit(make(X), Y)
    with pytest.raises(ReplearnError, match=message):
        fitted.predict(make(with_value(value)))


def test_a_missing_value_is_named_by_its_column():
    table = pd.DataFrame(with_value(np.nan), columns=["a", "b", "c", "d"])
    with pytest.raises(ReplearnError, match=r"got NaN in row 17, column 'c'\."):
        classifier().fit(table, Y)


def test_large_numbers_are_finite():
    assert classifier().fit(X * 1e300, Y).fingerprint_
    assert classifier().fit((X * 1e37).astype(np.float32), Y).fingerprint_


def test_no_rows():
    with pytest.raises(ValueError, match=r"Found array with 0 sample.* minimum of 1 is required"):
        classifier().fit(X[:0], Y[:0])


def test_one_class():
    with pytest.raises(ReplearnError, match=r"y must hold two classes, got one class: .*7.* Check"):
        classifier().fit(X, np.full(len(X), 7))


@pytest.mark.parametrize(
    ("labels", "kind"),
    [(np.arange(len(X)) % 3, "0, 1, 2"), (np.array(["a", "b", "c", "b"] * 1000), "'a', 'b', 'c'")],
    ids=["numbers", "text"],
)
def test_three_classes(labels, kind):
    message = rf"y must hold two classes, got more: {kind}.* Only binary classification is supp"
    with pytest.raises(ReplearnError, match=message):
        ReplicableSGDClassifier().fit(X, labels)


def test_labels_that_are_not_classes():
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        classifier().fit(X, X[:, 0])


def test_different_numbers_of_rows_and_labels():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier().fit(X, Y[:-1])


def test_wrong_columns_at_prediction():
    fitted = classifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4 features"):
        fitted.predict(X[:, :3])
    with pytest.raises(ReplearnError, match=r"X must have 4 columns, .* got shape \(4000, 3\)"):
        fitted.model_.predict(X[:, :3])


@pytest.mark.parametrize("mode", ["certified", "paper"])
def test_too_few_rows_for_a_promise(mode):
    with pytest.raises(NotEnoughSamples) as caught:
        classifier(mode=mode).fit(X, Y)
    assert caught.value.available == 4000
    assert caught.value.needed > 4000
    message = str(caught.value)
    assert message.startswith(f"{mode} mode needs {caught.value.needed:,} rows")
    assert "got 4,000. Get more rows, allow" in message
    assert 'mode="practical"' in message
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.available, again.needed) == (4000, caught.value.needed)


def test_too_few_rows_in_practical_mode_is_a_warning():
    with pytest.warns(ReplicabilityWarning, match=r"cannot be estimated .* Get more rows"):
        fitted = classifier().fit(X[:200], Y[:200])
    assert fitted.certificate_.estimated_disagreement is None
    with pytest.warns(ReplicabilityWarning, match=r"estimated probability of .* above max_disag"):
        classifier(grid_width=1e-4, max_disagreement=0.1).fit(X, Y)


def test_sorted_rows_without_shuffling():
    order = np.argsort(Y, kind="stable")
    with pytest.raises(ReplearnError, match=r"looks sorted or clustered.* Use shuffle=True"):
        classifier(shuffle=False).fit(X[order], Y[order])
    assert classifier().fit(X[order], Y[order]).fingerprint_


def test_rows_without_direction_are_counted():
    zeros = with_value(0.0)
    zeros[:50] = 0
    fitted = classifier(fit_intercept=False).fit(zeros, Y)
    assert fitted.plan_.spent.n_zero_rows == 50


# ---------------------------------------------------------------- parameters


@pytest.mark.parametrize("name", ["margin", "max_error", "max_disagreement", "failure_prob"])
@pytest.mark.parametrize("value", [0, 1, 5, -0.1, np.nan, "0.1", None, True])
def test_probabilities_and_shares(name, value):
    with pytest.raises(ReplearnError, match=rf"^{name} must be a number in \(0, 1\), got .*\. \w"):
        classifier(**{name: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"mode": "fast"}, r"mode must be one of practical, certified, paper, got 'fast'"),
        ({"shared_seed": 1.5}, r"shared_seed must be an int or a string, got 1\.5\. Publish one"),
        ({"shared_seed": None}, r"shared_seed must be an int or a string, got None"),
        ({"shared_seed": True}, r"shared_seed must be an int or a string, got True"),
        ({"random_state": "x"}, r"random_state must be an int or None, got 'x'"),
        pytest.param(
            {"random_state": np.random.RandomState(0)},
            r"random_state must be an int or None",
            id="RandomState",
        ),
        ({"batch_size": 0}, r'batch_size must be "auto" or a positive integer, got 0'),
        ({"batch_size": 2.5}, r'batch_size must be "auto" or a positive integer, got 2\.5'),
        ({"n_batches": -1}, r'n_batches must be "auto" or a positive integer, got -1'),
        ({"n_components": "many"}, r'n_components must be "auto" or a positive integer'),
        ({"grid_width": 0.0}, r'grid_width must be "auto" or a positive number, got 0\.0'),
        ({"grid_width": np.inf}, r'grid_width must be "auto" or a positive number, got inf'),
        ({"regularization": -1}, r'regularization must be "auto" or a number of at least 0'),
        ({"projection": "pca"}, r'projection must be "auto" or one of gaussian, .* got \'pca\''),
        ({"rounding": "up"}, r'rounding must be "auto" or one of ak, centre, .* got \'up\''),
        ({"constants": {"C1": 2}}, r'constants belong to mode="paper", got mode=\'practical\''),
        (
            {"mode": "paper", "constants": {"C9": 2}},
            r"constants has the unknown key 'C9'\. Algorithm 1 has C1",
        ),
        (
            {"mode": "paper", "constants": {"C1": 0}},
            r"constants\['C1'\] must be a positive number, got 0\. The default is 1",
        ),
        (
            {"mode": "certified", "grid_width": 0.1},
            r'certified mode derives grid_width; .* Leave it "auto", or use mode="practical"',
        ),
        (
            {"mode": "certified", "projection": "signs"},
            r"certified mode needs a rotation-invariant projection, .* got 'signs'",
        ),
    ],
    ids=str,
)
def test_parameters(parameters, message):
    with pytest.raises(ReplearnError, match=message):
        classifier(**parameters).fit(X, Y)


def test_no_threads():
    with pytest.raises(ValueError, match="n_jobs == 0"):
        classifier(n_jobs=0).fit(X, Y)


# ---------------------------------------------------------------- files


@pytest.fixture
def model_path(tmp_path):
    path = tmp_path / "a.model.json"
    save(classifier().fit(X, Y).model_, path)
    return path


def test_a_model_file_that_was_cut_off(model_path):
    model_path.write_bytes(model_path.read_bytes()[:-40])
    with pytest.raises(InvalidFile, match=r"is not valid JSON: .* Is it the right file\?"):
        load(model_path)


def test_a_model_file_with_one_changed_code(model_path):
    document = json.loads(model_path.read_text("utf-8"))
    document["model"]["codes"][0] += 1
    model_path.write_text(json.dumps(document), "utf-8")
    with pytest.raises(InvalidFile, match=r"was altered or damaged: .* Get it again"):
        load(model_path)


def test_a_pickle_is_never_opened(tmp_path):
    path = tmp_path / "a.model.json"
    path.write_bytes(pickle.dumps(classifier().fit(X, Y)))
    with pytest.raises(InvalidFile, match="not valid JSON"):
        load(path)


def test_a_missing_model_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"b\.model\.json"):
        load(tmp_path / "b.model.json")
