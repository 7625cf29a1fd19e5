"""Rows in any pieces give the sums of all rows at once, to the bit."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from replearn.datasets import make_margin
from replearn.plans.plan_sgd import plan_sgd
from replearn.plans.plan_svm import plan_svm
from replearn.plans.sizes import BatchPlan, Guarantee, Sizes
from replearn.stages.batches import LabelRuns, Rows, best_of_sgd, max_margin, sum_batches
from replearn.stages.pieces import BatchStream

N, D, BATCH = 700, 5, 30


@cache
def data():
    X, y = make_margin(N, D, margin=0.2, random_state=3)
    return X, np.where(y > 0, 1, -1).astype(np.int8)


@cache
def plan(kind: str, exact: bool = False) -> BatchPlan:
    make = plan_svm if kind == "svm" else plan_sgd
    sizes = Sizes(batch_size=BATCH, n_batches=9 if exact else None)
    mode = "paper" if exact else "practical"
    return make(Guarantee(0.2, 0.05, 0.1, 0.05), D + 1, mode, sizes)


def kernel(kind: str, exact: bool = False):
    return (max_margin if kind == "svm" else best_of_sgd)(plan(kind, exact))


def equal(one, other) -> bool:
    return (
        (one.hi == other.hi).all()
        and (one.lo == other.lo).all()
        and (one.counted.counts == other.counted.counts).all()
        and (one.counted.extremes == other.counted.extremes).all()
        and one.batch_size == other.batch_size
    )


def whole(kind: str, n: int, exact: bool = False):
    X, signs = data()
    return sum_batches(kernel(kind, exact), Rows(X[:n], signs[:n], np.arange(n)), plan(kind, exact))


cuts = st.lists(st.integers(0, N), max_size=6)


@pytest.mark.parametrize("kind", ["svm", "sgd"])
@pytest.mark.parametrize("make", [np.array, sp.csr_matrix], ids=["dense", "sparse"])
@settings(max_examples=25, deadline=None)
@given(cuts=cuts, n=st.integers(1, N))
def test_any_pieces_give_the_sums_of_all_rows(kind, make, cuts, n):
    X, signs = data()
    stream = BatchStream(kernel(kind), plan(kind))
    places = sorted({0, n, *(cut for cut in cuts if cut < n)})
    for start, stop in pairwise(places):
        stream.take(make(X[start:stop]), signs[start:stop])
    assert equal(stream.total(), whole(kind, n))
    assert stream.labels == LabelRuns.of(signs[:n])


@settings(max_examples=25, deadline=None)
@given(cuts=cuts)
def test_a_plan_with_so_many_batches_takes_no_more(cuts):
    X, signs = data()
    stream = BatchStream(kernel("svm", exact=True), plan("svm", exact=True))
    places = sorted({0, N, *cuts})
    for start, stop in pairwise(places):
        stream.take(X[start:stop], signs[start:stop])
    assert stream.total().n_batches == 9
    assert equal(stream.total(), whole("svm", N, exact=True))


@settings(max_examples=25, deadline=None)
@given(first=st.integers(0, N), second=st.integers(0, N))
def test_a_restored_stream_goes_on_to_the_same_sums(first, second):
    X, signs = data()
    old = BatchStream(kernel("svm"), plan("svm"))
    old.take(X[:first], signs[:first])
    arrays = {name: array.copy() for name, array in old.arrays().items()}
    old.take(X[first:second], signs[first:second])  # lost
    new = BatchStream(kernel("svm"), plan("svm"))
    new.restore(arrays)
    assert new.n_added <= first
    new.take(X[new.n_added :], signs[new.n_added :])
    assert equal(new.total(), whole("svm", N))


def test_waiting_rows_do_not_hold_on_to_their_piece():
    X, signs = data()
    stream = BatchStream(kernel("svm"), plan("svm"))
    piece = X[:61].copy()
    stream.take(piece, signs[:61])
    piece[:] = np.nan
    stream.take(X[61:], signs[61:])
    assert equal(stream.total(), whole("svm", N))


@given(st.lists(st.sampled_from([-1, 1]), max_size=30), st.integers(0, 30))
def test_runs_of_labels_can_be_joined(values, cut):
    signs = np.array(values, dtype=np.int8)
    joined = LabelRuns.of(signs[:cut]).then(LabelRuns.of(signs[cut:]))
    assert joined == LabelRuns.of(signs)


def test_sorted_labels_look_sorted_and_shuffled_ones_do_not():
    signs = np.repeat(np.array([-1, 1], dtype=np.int8), 500)
    assert LabelRuns.of(signs).look_sorted()
    rng = np.random.default_rng(0)
    # a false alarm has probability below 1e-14 a time
    assert not any(LabelRuns.of(rng.permutation(signs)).look_sorted() for _ in range(1000))
