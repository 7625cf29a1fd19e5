"""Audits: verdicts, samples, checkpoints."""

import json
import math
import warnings
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from scipy import stats
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import replearn as rl
from replearn.audits.agreement import Agreement, pairs_needed
from replearn.audits.auditing import _split
from replearn.audits.findings import Pair, Question
from replearn.audits.report import methods_paragraph, plain_verdict
from replearn.audits.samples import copied_share, take
from replearn.audits.twins import seed_names


def draw(n, rng):
    return rl.datasets.make_margin(n, 4, margin=0.3, random_state=rng)


def classifier(**parameters):
    return rl.ReplicableSVMClassifier(margin=0.3, batch_size=50, **parameters)


@pytest.fixture(scope="module")
def table():
    return rl.datasets.make_margin(4000, 4, margin=0.3, random_state=5)


# --- rates ----------------------------------------------------------------------------------


def test_fifty_nine_clean_pairs_show_five_per_cent():
    assert pairs_needed(0.05) == 59
    assert Agreement(59, 0, 0.05).verdict == "within"
    assert Agreement(58, 0, 0.05).verdict == "undecided"


@pytest.mark.parametrize("rho", [0.01, 0.05, 0.1, 0.3])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_clean_pairs_needed_are_the_fewest(rho, confidence):
    n = pairs_needed(rho, confidence)
    assert Agreement(n, 0, rho, confidence).verdict == "within"
    assert Agreement(n - 1, 0, rho, confidence).verdict == "undecided"


def test_interval_is_clopper_pearson():
    low, high = Agreement(60, 7, 0.1).interval
    assert low == pytest.approx(stats.beta.ppf(0.025, 7, 54))
    assert high == pytest.approx(stats.beta.ppf(0.975, 8, 53))


def test_verdicts_are_exclusive_and_ordered():
    verdicts = [Agreement(60, k, 0.1).verdict for k in range(61)]
    assert verdicts == sorted(verdicts, key=["within", "undecided", "exceeds"].index)
    assert set(verdicts) == {"within", "undecided", "exceeds"}


def test_pairs_for_a_true_rate_reach_the_power():
    n = pairs_needed(0.1, expected=0.03)
    allowed = max(k for k in range(n) if Agreement(n, k, 0.1).verdict == "within")
    assert stats.binom.cdf(allowed, n, 0.03) >= 0.8


@pytest.mark.parametrize("bad", [0, 1, -1, 2])
def test_pairs_needed_refuses_what_is_no_probability(bad):
    with pytest.raises(rl.ReplearnError, match="probability"):
        pairs_needed(bad)


def test_pairs_needed_refuses_a_rate_above_the_claim():
    with pytest.raises(rl.ReplearnError, match="below max_disagreement"):
        pairs_needed(0.1, expected=0.2)


# --- samples from a generator -----------------------------------------------------------------


def test_a_generator_gives_independent_samples_under_both_kinds_of_seeds():
    result = rl.audit(classifier(shared_seed=3), draw=draw, n_samples=500, n_pairs=6)
    question = result.main
    assert (question.name, question.n_rows) == ("samples", 500)
    assert question.fresh.n_pairs == question.published.n_pairs == 6
    assert len({pair.seed for pair in question.of("fresh")}) == 6
    assert {pair.seed for pair in question.of("published")} == {"3"}
    assert (result.seed_parameter, result.published_seed) == ("shared_seed", "3")
    assert 0 <= question.test_error < 0.3
    assert question.pointwise_agreement == 1 - question.churn


def test_the_same_audit_gives_the_same_numbers_whatever_the_threads():
    once, again = (
        rl.audit(classifier(), draw=draw, n_samples=400, n_pairs=5, n_jobs=jobs) for jobs in (1, 2)
    )
    assert once.data() == again.data()


def test_a_constant_generator_is_refused_and_copies_can_be_allowed(table):
    X, y = (part[:300] for part in table)

    def same_rows(n, rng):
        return X[:n], y[:n]

    with pytest.raises(rl.ReplearnError, match="must be disjoint, but 100%"):
        rl.audit(classifier(), draw=same_rows, n_samples=300, n_pairs=2)
    result = rl.audit(classifier(), draw=same_rows, n_samples=300, n_pairs=2, copies="allow")
    assert result.disagreement == 0


def test_a_generator_that_resamples_one_table_is_refused(table):
    X, y = table

    def bootstrap(n, rng):
        rows = rng.integers(0, len(y), n)
        return X[rows], y[rows]

    with pytest.raises(rl.ReplearnError, match="not from one fixed table"):
        rl.audit(classifier(), draw=bootstrap, n_samples=1000, n_pairs=2)


# --- one fixed data set -----------------------------------------------------------------------


def test_a_table_answers_two_questions_apart(table):
    result = rl.audit(classifier(), *table, n_pairs=10)
    parts, halves = result.questions
    assert (parts.name, parts.n_rows) == ("parts", 3600 // 20)
    assert (halves.name, halves.n_rows) == ("halves", 1800)
    assert parts.fresh.n_pairs == halves.fresh.n_pairs == 10
    assert halves.published.n_pairs == 1  # one cut under it is enough to see its codes
    assert result.n_test == 400
    assert result.main is halves
    assert result.verdict == halves.fresh.verdict
    assert result.question("parts") is parts


def test_no_row_is_used_twice(table):
    y = table[1]
    seen = []

    class Spy(DummyClassifier):
        def fit(self, X, y):
            seen.append(X[:, 0].copy())
            return super().fit(X, y)

    numbered = np.arange(len(y), dtype=float)[:, None]
    rl.audit(Spy(), numbered, y, n_pairs=5, question="parts")
    rows = np.concatenate(seen[::2] + seen[1::2])
    # a DummyClassifier has a random_state, so each part is fitted under two seeds
    values, counts = np.unique(rows, return_counts=True)
    assert set(counts) == {2}
    assert values.size == 10 * (3600 // 10)


def test_too_few_rows_for_parts_are_said_and_the_halves_remain(table):
    X, y = table
    result = rl.audit(classifier(), X[:600], y[:600], n_pairs=20)
    assert [question.name for question in result.questions] == ["halves"]
    assert "left out: 40 parts of at least 50 rows need" in result.notes[0]
    with pytest.raises(rl.ReplearnError, match="needs more rows"):
        rl.audit(classifier(), X[:600], y[:600], n_pairs=20, question="parts")


def test_copied_rows_are_pointed_out(table):
    X, y = (np.repeat(part[:1000], 2, axis=0) for part in table)
    with pytest.warns(rl.ReplicabilityWarning, match="50% of the rows are exact copies"):
        result = rl.audit(classifier(), X, y, n_pairs=2, question="halves")
    assert "exact copies" in result.notes[0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.audit(classifier(), X, y, n_pairs=2, question="halves", copies="allow")


@pytest.mark.parametrize("kind", ["sparse", "pandas", "polars", "float32"])
def test_other_tables(table, kind):
    X, y = table
    X = {
        "sparse": sp.csr_array,
        "pandas": lambda X: pd.DataFrame(X, columns=list("abcd")),
        "polars": lambda X: pl.DataFrame(X, schema=list("abcd")),
        "float32": lambda X: X.astype(np.float32),
    }[kind](X)
    result = rl.audit(classifier(), X, y, n_pairs=3)
    assert result.main.fresh.n_pairs == 3


# --- any classifier ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "compared", "seed"),
    [
        (LinearSVC(), "all coefficients, bit by bit", "random_state"),
        (LogisticRegression(random_state=1), "all coefficients, bit by bit", "random_state"),
        (DecisionTreeClassifier(max_depth=2), "the labels of all test rows", "random_state"),
        (
            make_pipeline(Normalizer(), LinearSVC()),
            "what the steps before the classifier make of the test rows, and all coefficients",
            "random_state",
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_peers_are_audited_too(table, peer, compared, seed):
    result = rl.audit(peer, *table, n_pairs=8, question="halves")
    assert result.compared.startswith(compared)
    assert result.seed_parameter == seed
    if "coefficients" in compared:
        assert result.disagreement == 1
        assert result.verdict == "exceeds"
        assert result.main.angle > 0


def test_a_method_without_a_seed_is_fitted_once_for_each_pair(table):
    from sklearn.naive_bayes import GaussianNB

    result = rl.audit(GaussianNB(), *table, n_pairs=4)
    assert result.seed_parameter is None
    assert result.question("parts").fresh is None
    assert result.question("parts").published.n_pairs == 4


def test_the_seed_of_a_pipeline_is_found_in_every_step():
    pipeline = make_pipeline(rl.ReplicableScaler(), classifier())
    assert seed_names(pipeline) == (
        "replicablescaler__shared_seed",
        "replicablesvmclassifier__shared_seed",
    )


def test_a_fitted_scaler_in_front_ruins_agreement_and_is_named(table):
    X, y = table
    pipeline = make_pipeline(StandardScaler(), classifier())
    result = rl.audit(pipeline, X * [1, 10, 100, 1000], y, n_pairs=4, question="halves")
    assert result.disagreement == 1
    assert "ReplicableScaler" in result.notes[0]


def test_the_audited_estimator_stays_as_it_is(table):
    estimator = classifier(shared_seed=9, n_jobs=2)
    before = estimator.get_params()
    rl.audit(estimator, *table, n_pairs=2, question="halves", n_jobs=2)
    assert estimator.get_params() == before
    assert not hasattr(estimator, "model_")


# --- codes and walls --------------------------------------------------------------------------


def test_flipped_codes_and_walls_are_recorded():
    estimator = classifier(rounding="centre", grid_width=0.1, projection="none")
    result = rl.audit(estimator, draw=draw, n_samples=300, n_pairs=10)
    question = result.main
    assert question.n_codes == question.n_cells == 5
    different = [pair for pair in question.pairs if not pair.same]
    assert different
    assert all(pair.changed for pair in different)
    assert all(not pair.changed for pair in question.pairs if pair.same)
    assert all(0 <= wall <= 0.5 for pair in question.pairs for wall in pair.walls)
    flipped, kept = question.wall_distances(True), question.wall_distances(False)
    assert np.mean(flipped) < np.mean(kept)
    assert len(question.flip_shares()) == 5


def test_lattice_cells_flip_as_a_whole():
    estimator = classifier(rounding="leech", grid_width=0.3)
    result = rl.audit(estimator, draw=draw, n_samples=300, n_pairs=6)
    assert (result.main.n_codes, result.main.n_cells) == (24, 1)
    assert all(0 <= pair.walls[0] < 1 for pair in result.main.pairs)


# --- going on after a stop --------------------------------------------------------------------


class Stop(Exception):
    pass


def test_a_stopped_audit_goes_on_where_it_was(tmp_path):
    path = tmp_path / "audit.json"
    calls = []

    def stop_after_three(done):
        calls.append(done)
        if done == 3:
            raise Stop

    options = {"draw": draw, "n_samples": 300, "n_pairs": 6}
    with pytest.raises(Stop):
        rl.audit(classifier(), **options, checkpoint=path, advance=stop_after_three)
    assert len(json.loads(path.read_text())["pairs"]) == 6  # three pairs, two kinds of seeds
    calls.clear()
    resumed = rl.audit(classifier(), **options, checkpoint=path, advance=calls.append)
    assert calls == [4, 5, 6]
    assert resumed.data() == rl.audit(classifier(), **options).data()
    assert rl.audit(classifier(), **options, checkpoint=path).data() == resumed.data()


def test_more_pairs_go_on_from_fewer(tmp_path):
    path = tmp_path / "audit.json"
    options = {"draw": draw, "n_samples": 300, "checkpoint": path}
    rl.audit(classifier(), **options, n_pairs=2)
    calls = []
    rl.audit(classifier(), **options, n_pairs=4, advance=calls.append)
    assert calls == [3, 4]


def test_a_checkpoint_of_another_audit_is_refused(tmp_path, table):
    path = tmp_path / "audit.json"
    rl.audit(classifier(), *table, n_pairs=2, question="halves", checkpoint=path)
    with pytest.raises(rl.ReplearnError, match="belongs to another audit"):
        rl.audit(classifier(mode="paper"), *table, n_pairs=2, question="halves", checkpoint=path)


@pytest.mark.parametrize("content", ["{}", '{"format":"replearn-audit","version":1,"key":"x"}'])
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "audit.json"
    path.write_text(content)
    with pytest.raises(rl.ReplearnError, match="checkpoint"):
        rl.audit(classifier(), draw=draw, n_samples=300, n_pairs=1, checkpoint=path)


def test_pairs_survive_their_json():
    pair = Pair(
        "parts", 0, "fresh", "7", False, 0.1, (0.2, 0.3), 1.5, 0.1, (0,), 2, (0,), (0.1,), None,
        ((0.5, 1.0), (0.25, -1.0)),
    )  # fmt: skip
    assert Pair.from_data(json.loads(json.dumps(asdict(pair)))) == pair


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_pairs": 0}, "n_pairs must be a positive integer"),
        ({"question": "all"}, "question must be one of both, parts, halves"),
        ({"copies": "perhaps"}, "copies must be one of"),
        ({"max_disagreement": 5}, "for 5 % pass 0.05"),
        ({"draw": draw}, "draw must come with n_samples"),
    ],
)
def test_bad_options_get_one_clear_error(table, options, message):
    with pytest.raises(rl.ReplearnError, match=message):
        rl.audit(classifier(), *table, **options)


def test_no_data_and_unequal_data():
    with pytest.raises(rl.ReplearnError, match="needs X and y"):
        rl.audit(classifier())
    with pytest.raises(rl.ReplearnError, match="as many rows, got 3 and 2"):
        rl.audit(classifier(), np.ones((3, 2)), [0, 1])


def test_a_part_with_one_class_says_which_and_what_to_do():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    y = np.zeros(2000)
    y[:3] = 1
    with pytest.raises(rl.ReplearnError, match="Fewer pairs make larger parts"):
        rl.audit(classifier(), X, y, n_pairs=10)


def test_copied_share_and_take():
    X = np.arange(8.0).reshape(4, 2)
    y = np.array([0, 1, 0, 1])
    assert copied_share((X, y), None) == 0
    assert copied_share((X, y), (X[2:], y[2:])) == 1
    assert copied_share((X, y), (X[2:], 1 - y[2:])) == 0  # another label, another row
    rows = np.array([3, 1])
    for table in (X, sp.csr_array(X), pd.DataFrame(X)):
        taken = take(table, rows)
        dense = taken.toarray() if sp.issparse(taken) else np.asarray(taken)
        assert np.array_equal(dense, X[rows])


def test_large_tables_are_compared_in_part(monkeypatch):
    from replearn.audits import samples

    monkeypatch.setattr(samples, "_MOST_HASHES", 2000)
    X = np.random.default_rng(0).normal(size=(10_000, 2))
    y = np.zeros(10_000)
    copied = np.concatenate([X, X[:5000]]), np.concatenate([y, y[:5000]])
    assert copied_share((X, y), None) == 0
    assert copied_share(copied, None) == pytest.approx(1 / 3, abs=0.05)
    assert copied_share((X, y), (X[5000:], y[5000:])) == 1


def test_the_text_says_everything_once(table):
    text = str(rl.audit(classifier(), *table, n_pairs=10))
    for words in ("fresh seeds", "published seed", "labels that change", "angle", "halves"):
        assert words in text


# --- the planned size ---------------------------------------------------------------------------


class Fickle(ClassifierMixin, BaseEstimator):
    """Another model for every sample, whatever the seed."""

    def __init__(self, shared_seed=0, published=None):
        self.shared_seed, self.published = shared_seed, published

    def fit(self, X, y):
        self.classes_, self.fingerprint_ = np.unique(y), str(X.sum())
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def test_samples_have_the_planned_size_if_the_rows_allow_it(table):
    X, y = table
    n = (len(y) - min(2000, len(y) // 10)) // 2
    result = rl.audit(Fickle(), X, y, n_pairs=8, n_samples=n - 10)
    assert (result.main.name, result.main.n_rows, result.main.at_planned) == (
        "planned",
        n - 10,
        None,
    )
    assert result.verdict == "exceeds"
    assert f"samples of the planned {n - 10:,} rows" in result.verdict_in_words
    assert f"two disjoint samples of the planned {n - 10:,} rows" in methods_paragraph(result)
    assert "refuted" in methods_paragraph(result)
    tiny = rl.audit(Fickle(), X, y, n_pairs=2, n_samples=60)
    assert [question.n_rows for question in tiny.questions] == [60, 60]
    stage = _split(X, y, 8, "halves", None, "0", n - 10)[0]
    first, second = stage.samples("planned", 3)
    assert len(first[1]) == len(second[1]) == n - 10
    assert not set(map(bytes, first[0])) & set(map(bytes, second[0]))


def test_nothing_is_refuted_at_a_size_that_was_not_promised(table):
    X, y = table
    result = rl.audit(Fickle(), X, y, n_pairs=8, n_samples=100 * len(y))
    half = result.main.n_rows
    assert (result.main.name, result.verdict) == ("halves", "undecided")
    assert result.main.main.verdict == "exceeds"
    rate, (low, high) = result.main.at_planned
    assert (rate, high) == (1.0, 1.0)
    assert low == pytest.approx(1 - (1 - result.interval[0]) ** math.sqrt(half / 100 / len(y)))
    text = str(result)
    for words in (text, methods_paragraph(result), plain_verdict(result)):
        assert "was refuted" not in words
        assert "exceeds" not in words
        assert f"planned {100 * len(y):,} rows per site" in words
        assert "if the disagreement falls like one over the square root" in words.lower()
    assert f"there are {len(y):,}" in text
    assert result.data()["questions"][-1]["at_planned_rows"]["disagreement"] == 1.0
    # a promise for fewer rows is not shown by more
    larger = Question("samples", 900, (result.main.pairs[0],) * 60, 0.1, 0.95, planned=300)
    clean = replace(larger, pairs=tuple(replace(pair, same=True) for pair in larger.pairs))
    assert (larger.verdict(larger.main), clean.verdict(clean.main)) == ("exceeds", "undecided")


def test_an_audit_of_a_protocol_knows_its_size(table):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 0] + rng.logistic(size=1500) > 0).astype(int)
    protocol = rl.plan_from_pilot(X[:500], y[:500], samples_per_site=400).protocol
    settings = {"n_pairs": 2, "question": "halves"}
    result = rl.audit(protocol.estimator(), X[500:], y[500:], **settings)
    assert (result.main.name, result.main.n_rows) == ("planned", 400)
    fickle = Fickle(published=rl.Published(notes={"samples_per_site": "4000"}))
    result = rl.audit(fickle, X[500:], y[500:], **settings)
    assert (result.main.name, result.main.planned) == ("halves", 4000)
