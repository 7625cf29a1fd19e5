"""Algorithm 1 with more than two classes: a halfspace for each, one model, one file, one hash."""

import io
import sqlite3
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import replearn as rl
from replearn.cli import main
from replearn.codes.randomness import SharedRandomness
from replearn.plans.plan_svm import plan_svm
from replearn.plans.sizes import Guarantee, Sizes
from tests.error_budget import assert_rate_at_most

pytestmark = pytest.mark.slow  # whole studies, planned and fitted

K, D, N = 3, 5, 3000
CENTRES = 2 * np.random.default_rng(5).normal(size=(K, D))
LABELS = np.array(["ash", "elm", "fir"])
NAMES = list("abcde")


def draw(n_rows=N, seed=1):
    rng = np.random.default_rng(seed)
    y = rng.choice(K, n_rows, p=[0.5, 0.3, 0.2])
    return CENTRES[y] + rng.normal(size=(n_rows, D)), LABELS[y]


X, Y = draw()


def quiet(function, *arguments, **keywords):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # few rows
        return function(*arguments, **keywords)


def svm(**parameters):
    return rl.ReplicableSVMClassifier(**{"margin": 0.2, "shared_seed": "trees"} | parameters)


@pytest.fixture(scope="module")
def fitted():
    return quiet(svm(hint_bits=2).fit, X, Y)


def test_the_largest_signed_distance_decides(fitted):
    scores = fitted.decision_function(X)
    assert fitted.coef_.shape == (K, D)
    assert fitted.intercept_.shape == (K,)
    lengths = (fitted.coef_**2).sum(axis=1) + fitted.intercept_**2
    np.testing.assert_allclose(lengths, 1)
    np.testing.assert_allclose(scores, X @ fitted.coef_.T + fitted.intercept_)
    assert (fitted.predict(X) == LABELS[scores.argmax(axis=1)]).all()
    assert fitted.score(X, Y) > 0.9
    assert not hasattr(fitted, "predict_proba")


@pytest.mark.parametrize("hint", [0, 3])
def test_codes_of_a_class_are_those_of_its_own_fit_on_a_grid_of_its_own(hint):
    sizes = {"rounding": "centre", "projection": "none", "grid_width": 0.125, "hint_bits": 2}
    codes = quiet(svm(**sizes, hint=hint).fit, X, Y).model_.codes.reshape(K, -1)
    coins = SharedRandomness("trees")
    for c, label in enumerate(LABELS):
        alone = quiet(svm(**sizes, hint=0).fit, X, label == Y)
        offset = coins.uniforms("rounding/offset", D + 1)
        mean = (alone.model_.codes + 0.5 + alone.residual_ + offset) * 0.125
        own = coins.uniforms("rounding/offset", D + 1, row=256 * c + hint)
        assert (codes[c] == np.floor(mean / 0.125 - own + 1e-9)).all()


def test_where_the_rows_are_changes_no_byte(fitted, tmp_path):
    hinted = svm(hint_bits=2, hint=fitted.hint_)
    assert quiet(replace_jobs(hinted).fit, X, Y).fingerprint_ == fitted.fingerprint_
    assert quiet(hinted.fit, sp.csr_matrix(X), Y).fingerprint_ == fitted.fingerprint_
    table = pd.DataFrame(X, columns=NAMES).assign(tree=Y)
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    for memory in (1 << 30, 1000):
        again = svm(hint_bits=2, hint=fitted.hint_)
        quiet(rl.fit_file, again, tmp_path / "rows.parquet", "tree", memory=memory)
        assert again.fingerprint_ == fitted.fingerprint_


def replace_jobs(estimator):
    return estimator.set_params(n_jobs=2)


def test_a_class_that_comes_late_in_a_file_is_found(tmp_path):
    rows, labels = draw(4000, 7)
    late = np.argsort(labels == "fir", kind="stable")  # but rows are in random order elsewhere
    table = pd.DataFrame(rows[late], columns=NAMES).assign(tree=labels[late])
    table.to_csv(tmp_path / "rows.csv", index=False)
    whole = quiet(svm().fit, table[NAMES], table.tree.to_numpy())
    again = svm()
    quiet(rl.fit_file, again, tmp_path / "rows.csv", "tree", memory=1000)
    assert again.fingerprint_ == whole.fingerprint_
    kept = svm()
    checkpoint = tmp_path / "state"
    quiet(rl.fit_file, kept, tmp_path / "rows.csv", "tree", checkpoint=checkpoint)
    assert kept.fingerprint_ == whole.fingerprint_


def test_two_of_many_classes_are_the_model_of_two(tmp_path):
    two = Y != "fir"
    model = quiet(svm().fit, X[two], Y[two]).model_
    assert model.format_version == 1
    assert model.space.n_outputs == 1


# --- plans and certificates -------------------------------------------------------------------


def test_the_disagreement_is_divided_over_the_halfspaces():
    promise = Guarantee(0.2, 0.05, 0.12, 0.06)
    sizes = Sizes(projection="none", rounding="centre", grid_width=0.1)
    for mode, given in (("practical", sizes), ("certified", Sizes()), ("paper", Sizes())):
        whole = plan_svm(promise, 6, mode, given, n_outputs=4)
        part = Guarantee(0.2, 0.05, 0.03, 0.06)
        if mode != "practical":
            part = Guarantee(0.2, 0.0125, 0.03, 0.015)
        assert whole.n_samples == plan_svm(part, 6, mode, given).n_samples
        assert whole.guarantee == promise
        assert "halfspaces       4, one for each class" in str(whole)


@pytest.mark.parametrize("bits", [0, 3])
def test_labs_agree_as_certificates_say(bits):
    # A third of 25 pairs differ without a hint; estimates are means over fits of the first lab.
    differ, expected, n_pairs = 0, [], 25
    for pair in range(n_pairs):
        width = {"grid_width": 0.5 if bits == 0 else 0.16, "rounding": "centre"}
        lead = quiet(svm(shared_seed=pair, hint_bits=bits, **width).fit, *draw(2000, 2 * pair))
        hint = {"hint": lead.hint_} if bits else {}
        site = svm(shared_seed=pair, hint_bits=bits, **width, **hint)
        other = quiet(site.fit, *draw(2000, 2 * pair + 1))
        differ += other.fingerprint_ != lead.fingerprint_
        expected.append(lead.certificate_.estimated_disagreement)
    assert 0.02 < np.mean(expected) < 0.6
    assert_rate_at_most(differ, n_pairs, 1.3 * float(np.mean(expected)))
    assert differ > 0.4 * sum(expected) - 3


def test_a_bound_is_the_sum_over_halfspaces():
    many = quiet(svm(margin=0.4, grid_width=3.0, rounding="centre", projection="none").fit, X, Y)
    alone = [
        quiet(
            svm(
                margin=0.4,
                grid_width=3.0,
                rounding="centre",
                projection="none",
                failure_prob=0.05 / K,
            ).fit,
            X,
            label == Y,
        ).certificate_
        for label in LABELS
    ]
    found = many.certificate_
    assert 0 < found.disagreement_bound < 1
    assert found.disagreement_bound == pytest.approx(sum(c.disagreement_bound for c in alone))
    assert found.confidence == pytest.approx(1 - sum(1 - c.confidence for c in alone))


def test_a_margin_is_chosen_for_all_classes():
    found = quiet(svm(margin="auto", max_error=0.2).fit, X, Y)
    assert found.plan_.margins_tried
    assert found.plan_.n_outputs == K


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"class_weight": {"ash": 2}}, r"class_weight is for two classes .*, got 3"),
        ({"estimate": "rows"}, r'estimate="rows" is for two classes, got 3'),
        ({"mode": "certified", "hint_bits": 2}, r"hint_bits must be 0 for 3 classes in mode="),
    ],
)
def test_what_is_for_two_classes_says_so(parameters, message):
    with pytest.raises(rl.ReplearnError, match=message):
        svm(**parameters).fit(X, Y)


# --- what knows the model ---------------------------------------------------------------------


def test_a_model_is_one_file(fitted, tmp_path):
    path = tmp_path / "a.model.json"
    rl.save(fitted.model_, path)
    again = rl.load(path)
    assert again == fitted.model_
    assert again.format_version == 3
    assert (again.predict(X) == fitted.predict(X)).all()
    text = path.read_text()
    for damaged in (
        text.replace('"n_outputs":3', '"n_outputs":4'),
        text.replace('"n_outputs":3', '"n_outputs":2'),
        text.replace(',"n_outputs":3', ""),
        text.replace('"version":3', '"version":2'),
    ):
        path.write_text(damaged)
        with pytest.raises(rl.InvalidFile):
            rl.load(path)


def test_exports_give_its_classes(fitted):
    import onnxruntime as ort

    few, labels = X[:200], fitted.predict(X[:200])
    scores = fitted.decision_function(few)
    plain = rl.to_sklearn(fitted)
    assert (plain.predict(few) == labels).all()
    np.testing.assert_allclose(plain.decision_function(few), scores)
    found = ort.InferenceSession(rl.to_onnx(fitted)).run(None, {"X": few})
    assert (np.array(found[0]) == labels).all()
    np.testing.assert_allclose(found[1], scores)
    base = sqlite3.connect(":memory:")
    pd.DataFrame(few, columns=[f"x{i}" for i in range(D)]).to_sql("rows", base, index=False)
    query = rl.to_sql(fitted)
    assert query.probability is None
    rows = base.execute(query.query).fetchall()
    assert [row[-1] for row in rows] == labels.tolist()
    np.testing.assert_allclose([row[-2] for row in rows], scores.max(axis=1))
    table = pd.read_csv(io.StringIO(rl.to_csv(fitted)))
    assert len(table) == K * (D + 1)
    of_fir = table[table["class"] == "fir"].coefficient.to_numpy()
    np.testing.assert_array_equal(of_fir, [*fitted.coef_[2], fitted.intercept_[2]])


def test_the_command_line_knows_its_classes(tmp_path, capsys):
    for name, seed in (("a", 1), ("b", 2)):
        rows, labels = draw(N, seed)
        table = pd.DataFrame(rows, columns=NAMES).assign(tree=labels)
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        out = str(tmp_path / f"{name}.model.json")
        options = ["--target", "tree", "--algorithm", "svm", "--margin", ".2", "--out", out]
        assert quiet(main, ["fit", str(tmp_path / f"{name}.csv"), *options]) == 0
    one, other = str(tmp_path / "a.model.json"), str(tmp_path / "b.model.json")
    same = rl.load(one) == rl.load(other)
    capsys.readouterr()
    rows = ["--rows", str(tmp_path / "a.csv")]
    assert quiet(main, ["compare", one, other, *rows]) == (0 if same else 1)
    assert "of 3,000" in capsys.readouterr().out
    page = str(tmp_path / "page.html")
    assert quiet(main, ["show", one, "--report", page]) == 0
    assert "'ash', 'elm', 'fir' (the largest score)" in capsys.readouterr().out
    predictions = str(tmp_path / "p.csv")
    assert quiet(main, ["predict", one, str(tmp_path / "b.csv"), "--out", predictions]) == 0
    found = pd.read_csv(predictions)
    assert found.columns.tolist() == ["prediction", "score ash", "score elm", "score fir"]
    data = str(tmp_path / "b.csv")
    report = str(tmp_path / "evaluation.html")
    arguments = ["evaluate", one, data, "--target", "tree", "--report", report]
    assert quiet(main, arguments) == 0
    assert "true fir" in capsys.readouterr().out


def test_an_audit_knows_many_classes():
    result = quiet(rl.audit, svm(max_disagreement=0.5), X, Y, n_pairs=3, max_disagreement=0.5)
    assert 0 <= result.disagreement <= 1
