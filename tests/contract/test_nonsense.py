"""Methods called with what makes no sense: one of our errors, with the rule and the value."""

import re

import numpy as np
import pytest

import replearn as rl


@pytest.fixture(scope="module")
def things():
    """A study with its state and sums, and one of a halfspace."""
    table = rl.datasets.load_readmission("Ashford", 600)
    y = table.pop("readmitted")
    first = rl.ReplicableLogisticClassifier().fit(table, y)
    short = rl.ReplicableLogisticClassifier().fit(table[["age"]], y)
    X, labels = rl.datasets.make_margin(500, 5, margin=0.4, random_state=0)
    halves = rl.ReplicableSVMClassifier(margin=0.4, sketch_bits=3).fit(X, labels)
    state = first.study_.begin()
    total = first.study_.sums([table.assign(readmitted=y)], state)
    return {
        "first": first,
        "study": first.study_,
        "model": first.model_,
        "other": short.model_,
        "halves": halves,
        "state": state,
        "total": total,
        "table": table,
        "rl": rl,
        "np": np,
    }


CALLS = [
    ("study.step(0, state)", "sums must be of type ExactSums, got 0. "),
    ("study.step(total, 0)", "state must be of type State, got 0. "),
    ("study.sums([table], None)", "state must be of type State, got None. "),
    ("study.check_state('x')", "state must be of type State, got 'x'. "),
    ("study.sums(None, state)", "batches must be several tables, got None. "),
    ("study.sums(table, state)", "Pass one table as [table]."),
    ("study.sums('a.csv', state)", "batches must be several tables, got 'a.csv'. "),
    ("study.begin('x')", "opened must be of type GlmModel, got 'x'. "),
    ("study.begin(halves.model_)", "opened must be of type GlmModel, got <HalfspaceModel"),
    ("study.evidence('x')", "model must be of type GlmModel, got 'x'. "),
    ("study.evidence(halves.model_)", "model must be of type GlmModel, got <HalfspaceModel"),
    ("study.evidence(other)", "coefficients of the study, got one of 2. "),
    ("study.evidence(model, 'x')", "numbers, got 'x'. "),
    ("study.evidence(model, np.ones(1))", "numbers, got array([1.]). "),
    ("study.planned_bits(model, 0)", "n_rows must be a whole number of at least 1, got 0."),
    ("study.planned_bits(model, 'x')", "n_rows must be a whole number of at least 1, got 'x'."),
    ("study.planned_bits(0, 5)", "model must be of type GlmModel, got 0. "),
    ("study.disagreement(-1)", "n_rows must be a whole number of at least 1, got -1."),
    ("study.disagreement('a')", "n_rows must be a whole number of at least 1, got 'a'."),
    ("study.commits_to(0)", "fingerprint must be of type str, got 0. "),
    ("study.commits_to('a', 3)", "nonce must be of type str, got 3. "),
    ("study.commits_to_slopes('x')", "model must be of type GlmModel, got 'x'. "),
    ("study.save(None)", "path must be a text or a path, got None. "),
    ("study.save(-1)", "path must be a text or a path, got -1. "),
    ("halves.predict(None)", "X must be a table: a dataframe, an array or a mapping of columns"),
    ("halves.predict(0)", "X must be a table: a dataframe, an array or a mapping of columns"),
    ("first.predict(None)", "X must be a table: a dataframe, an array or a mapping of columns"),
    ("first.certificate_.facts().text(width=0)", "width must be a whole number of at least 20"),
    ("study.facts().text(width='x')", "width must be a whole number of at least 20, got 'x'. "),
    ("rl.load(None)", "path must be a text or a path, got None. "),
    ("rl.load(0)", "path must be a text or a path, got 0. "),
    ("rl.load(study)", "path must be a text or a path, got <GlmStudy"),
    ("rl.load(b'a')", "path must be a text or a path, got b'a'. "),
    ("rl.load('a\\0b')", "path must be a text or a path, got 'a\\x00b'. "),
    ("rl.save(study, None)", "path must be a text or a path, got None. "),
    ("rl.combine(None)", "study must be a path, a Study or a fitted estimator, got None. "),
    (
        "rl.lab_sums(None, table, lab='a')",
        "study must be a path, a Study or a fitted estimator, got None. ",
    ),
    *(
        (f"rl.ReplicableLogisticClassifier({given}).fit(table, np.arange(len(table)) % 2)", words)
        for given, words in (
            ("interactions=3", "interactions must be pairs of different columns, got 3."),
            ("interactions=[3]", "interactions must be pairs of different columns, got 3."),
            ("n_jobs='a'", "n_jobs must be a whole number or None, got 'a'."),
            ("class_weight={2: 1}", "class_weight must be for labels of the target, [0, 1], got"),
            ("class_weight={0: -1}", "class_weight must be positive numbers, got {0: -1}."),
        )
    ),
]


@pytest.mark.parametrize(("call", "words"), CALLS, ids=[call for call, _ in CALLS])
def test_nonsense_is_refused_in_our_words(things, call, words):
    with pytest.raises(rl.ReplearnError, match=re.escape(words)):
        eval(call, dict(things))
