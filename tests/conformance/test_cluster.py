"""A fit on a cluster is the fit on one machine, to the byte, whatever dies on the way."""

import dataclasses
import os
import signal
import warnings
from functools import cache, partial
from itertools import pairwise

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster, wait

import replearn as rl
from replearn import ReplearnError
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.datasets import make_margin
from replearn.fits import clusters
from replearn.fits.clusters.tasks import completed, guarded
from replearn.fits.file_fit import fit_file

N, D = 6000, 5
NAMES = [f"x{i}" for i in range(D)]


@pytest.fixture(scope="module")
def cluster():
    settings = {
        # Dask gives a task up when one worker died with it, so we must send it again
        "distributed.scheduler.allowed-failures": 0,
        # a local cluster gives a worker up that is dead so long after it died, though perhaps again
        "distributed.deploy.lost-worker-timeout": "1 hour",
    }
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            memory_limit="2GiB",
            silence_logs="CRITICAL",
        ) as cluster,
    ):
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as client:
        yield client


@cache
def data(n=N, dtype=np.float64):
    X, y = make_margin(n, D, margin=0.2, random_state=1)
    return X.astype(dtype), y


def frame(n=N):
    X, y = data(n)
    return pd.DataFrame(X, columns=NAMES).assign(label=np.where(y > 0, "yes", "no"))


def svm(**parameters):
    # so lax that whatever seed a test takes is no reason for a warning
    lax = {"margin": 0.2, "shuffle": False, "max_disagreement": 0.99}
    return rl.ReplicableSVMClassifier(**lax | parameters)


def sgd(**parameters):
    lax = {"margin": 0.2, "shuffle": False, "max_disagreement": 0.99, "batch_size": 100}
    return rl.ReplicableSGDClassifier(**lax | parameters)


def arrays(sizes, X, y):
    """Dask arrays with these chunks of rows."""
    return da.from_array(X, chunks=(tuple(sizes), X.shape[1])), da.from_array(y, (tuple(sizes),))


def frames(sizes, table):
    """A dataframe with these partitions, whose lengths Dask does not know."""
    ends = np.cumsum([0, *sizes])
    parts = [dask.delayed(table.iloc[a:b]) for a, b in pairwise(ends)]
    return dd.from_delayed(parts, meta=table.iloc[:0])


def assert_same(one, other, tmp_path):
    assert one.fingerprint_ == other.fingerprint_
    assert one.certificate_ == other.certificate_
    assert one.plan_ == other.plan_
    assert one.classes_.dtype == other.classes_.dtype
    assert one.classes_.tolist() == other.classes_.tolist()
    assert (one.coef_ == other.coef_).all()
    assert np.array_equal(one.residual_, other.residual_)
    assert vars(one).keys() == vars(other).keys()
    assert getattr(one, "seen_", None) == getattr(other, "seen_", None)
    for name, estimator in (("one", one), ("other", other)):
        rl.save(estimator.model_, tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


PARTITIONS = {
    "one": [N],
    "two": [N // 2, N // 2],
    "uneven": [17, 1, 0, 2983, 1000, 999, 0, 1000],
    "less than a batch": [13] * 30 + [N - 390],
    "ends with little": [N - 3, 1, 0, 1, 1, 0],
    "borders between batches": [25, 1975, 2000, 2000],
}


@pytest.mark.parametrize("sizes", PARTITIONS.values(), ids=PARTITIONS)
def test_any_chunks_of_an_array_give_the_same_bytes(client, sizes, tmp_path):
    X, y = data()
    assert sum(sizes) == N
    fitted = clusters.fit(svm(), *arrays(sizes, X, y), client=client)
    assert_same(fitted, svm().fit(X, y), tmp_path)


@pytest.mark.parametrize("sizes", [PARTITIONS["uneven"], [N]], ids=["uneven", "one"])
def test_any_partitions_of_a_dataframe_give_the_same_bytes(client, sizes, tmp_path):
    table = frame()
    local = svm().fit(table[NAMES], table["label"])
    assert_same(clusters.fit(svm(), frames(sizes, table), target="label"), local, tmp_path)
    parts = frames(sizes, table)
    assert_same(clusters.fit(svm(), parts[NAMES], parts["label"]), local, tmp_path)
    assert fitted_names(local) == NAMES


def fitted_names(estimator):
    return estimator.feature_names_in_.tolist()


@pytest.mark.parametrize("n_rows", [1, 7, 30, 55, 101])
@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_few_rows_give_the_same_bytes(client, n_rows, tmp_path):
    X, y = data()
    X, y = X[:n_rows], np.arange(n_rows) % 2
    chunks = [n_rows // 2, n_rows - n_rows // 2]
    if n_rows == 1:
        with pytest.raises(ReplearnError, match="y must hold two classes, got one class"):
            clusters.fit(svm(), *arrays(chunks, X, y))
    else:
        assert_same(clusters.fit(svm(), *arrays(chunks, X, y)), svm().fit(X, y), tmp_path)


@pytest.mark.parametrize(
    "make",
    [
        sgd,
        lambda: svm(margin="auto"),
        lambda: svm(fit_intercept=False, shared_seed="a word"),
        lambda: svm(mode="paper", n_batches=9, batch_size=50),
        lambda: svm(estimate="rows"),
    ],
    ids=["sgd", "auto", "no intercept", "paper", "rows"],
)
def test_other_algorithms_give_the_same_bytes(client, make, tmp_path):
    X, y = data()
    sizes = [1234, 21, 2000, N - 3255]
    assert_same(clusters.fit(make(), *arrays(sizes, X, y)), make().fit(X, y), tmp_path)


def test_single_precision_gives_the_same_bytes(client, tmp_path):
    X, y = data(dtype=np.float32)
    assert_same(clusters.fit(svm(), *arrays([2900, 3100], X, y)), svm().fit(X, y), tmp_path)


def test_sparse_chunks_give_the_same_bytes(client, tmp_path):
    X, y = data()
    dX, dy = arrays([2900, 3100], X, y)
    fitted = clusters.fit(svm(), dX.map_blocks(sp.csr_matrix, meta=sp.csr_matrix((0, 0))), dy)
    assert_same(fitted, svm().fit(sp.csr_matrix(X), y), tmp_path)


def test_an_encoding_is_applied_where_the_rows_are(client, tmp_path):
    columns = [NumberColumn(name, "0.1", "2") for name in NAMES[:4]]
    encoding = Encoding((*columns, CategoryColumn("kind", ("a", "b"))))
    kinds = np.array(["a", "b"] * 24 + ["c", None], dtype=object)  # few are unknown or missing
    table = frame().assign(kind=np.resize(kinds, N), other="text")
    local = svm(published=rl.Published(encoding)).fit(table, table["label"])
    parts = frames([1000, 30, N - 1030], table)
    fitted = clusters.fit(svm(published=rl.Published(encoding)), parts, target="label")
    assert_same(fitted, local, tmp_path)


@pytest.mark.parametrize(
    "make", [svm, lambda **parameters: net(n_candidates=100, **parameters)], ids=["svm", "net"]
)
@pytest.mark.filterwarnings("ignore:None of the")
def test_what_is_unknown_is_counted_where_the_rows_are(client, make, tmp_path):
    columns = [NumberColumn(name, "0.1", "2") for name in NAMES[:4]]
    encoding = Encoding((*columns, CategoryColumn("kind", ("a", "b"))))
    table = frame().assign(kind=np.resize(np.array(["a", "b", "c"], dtype=object), N))
    path = tmp_path / "rows.parquet"
    table.to_parquet(path, row_group_size=700)
    published = rl.Published(encoding)
    with pytest.warns(rl.ReplicabilityWarning, match="'kind' has values that the protocol does no"):
        local = make(published=published).fit(table, table["label"])
    assert local.seen_.unknown == (0, 0, 0, 0, N // 3)
    parts = frames([1000, 30, N - 1030], table)
    with pytest.warns(rl.ReplicabilityWarning, match="'kind' has values that the protocol does no"):
        fitted = clusters.fit(make(published=published), parts, target="label")
    assert fitted.seen_ == local.seen_
    for fit in (lambda *rows, **more: clusters.fit(*rows, task_rows=500, **more), fit_file):
        with pytest.raises(ReplearnError, match=r"rows\.parquet: column 'kind' has values that"):
            fit(make(published=published), path, target="label")
        fitted = fit(make(published=published), path, target="label", allow_unknown=True)
        assert fitted.seen_ == local.seen_


@pytest.mark.parametrize("labels", [(0, 1), (False, True), (3.0, -1.0), ("10", "9"), ("1", "0")])
def test_labels_are_those_of_fit(client, labels, tmp_path):
    X, y = data()
    y = np.array(labels, dtype=object if isinstance(labels[0], str) else None)[(y > 0).astype(int)]
    local = svm().fit(X, y)
    assert_same(clusters.fit(svm(), *arrays([N // 2, N // 2], X, y)), local, tmp_path)


def test_known_classes_are_those_of_the_protocol(client, tmp_path):
    X, y = data()
    parts = arrays([N], X, (y > 0).astype(int))
    local = svm(published=rl.Published(classes=(0, 1))).fit(X, (y > 0).astype(int))
    assert_same(clusters.fit(svm(published=rl.Published(classes=(0, 1))), *parts), local, tmp_path)
    with pytest.raises(ReplearnError, match="y must hold the labels of the protocol, 1 and 2"):
        clusters.fit(svm(published=rl.Published(classes=(1, 2))), *parts)


# ---------------------------------------------------------------- files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder of Parquet files with row groups of different sizes."""
    folder = tmp_path_factory.mktemp("rows")
    table = frame()
    for number, (start, stop, group) in enumerate([(0, 2500, 700), (2500, 2510, 5), (2510, N, N)]):
        table.iloc[start:stop].to_parquet(folder / f"part-{number}.parquet", row_group_size=group)
    return folder


@pytest.mark.parametrize("task_rows", [40, 1000, None])
@pytest.mark.parametrize("make", [svm, sgd])
def test_parquet_gives_the_same_bytes(client, files, make, task_rows, tmp_path):
    local = fit_file(make(), files, "label")
    table = frame()
    assert local.fingerprint_ == make().fit(table[NAMES], table["label"]).fingerprint_
    fitted = clusters.fit(make(), files, target="label", task_rows=task_rows)
    assert_same(fitted, local, tmp_path)


def test_the_margin_of_rows_in_files_is_chosen_alike(client, files, tmp_path):
    local = fit_file(svm(margin="auto"), files, "label")
    fitted = clusters.fit(svm(margin="auto"), files, target="label", task_rows=1000)
    assert_same(fitted, local, tmp_path)


def test_one_worker_gives_the_same_bytes(files, tmp_path):
    options = {"dashboard_address": ":0", "silence_logs": "CRITICAL"}
    with (
        LocalCluster(n_workers=1, threads_per_worker=2, processes=False, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        fitted = clusters.fit(svm(), files, target="label", task_rows=500, client=client)
    assert_same(fitted, fit_file(svm(), files, "label"), tmp_path)


# ---------------------------------------------------------------- choices from a net


def net(**parameters):
    lax = {"margin": 0.3, "max_error": 0.1, "shuffle": False, "max_disagreement": 0.99}
    return rl.ReplicableNetClassifier(**lax | parameters)


def dp(**parameters):
    lax = {"margin": 0.3, "max_error": 0.1, "shuffle": False, "max_disagreement": 0.99}
    return rl.ReplicableDPClassifier(**lax | parameters)


NETS = {
    "net": net,
    "lattice": lambda: net(net="lattice"),
    "agnostic": lambda: net(agnostic=True, n_candidates=500),
    "paper": lambda: net(mode="paper", batch_size=3000, n_components=2),
    "dp": dp,
    "holenstein": lambda: dp(sampling="holenstein", n_candidates=200),
}


@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_choices_from_a_net_are_the_same(client, make, tmp_path):
    X, y = data()
    X = X.copy()
    X[100:110] = 0
    local = make().fit(X, y)
    assert_same(clusters.fit(make(), *arrays(PARTITIONS["uneven"], X, y)), local, tmp_path)


def test_choices_from_a_net_on_files_are_the_same(client, files, tmp_path):
    local = fit_file(net(), files, "label")
    assert_same(clusters.fit(net(), files, target="label", task_rows=500), local, tmp_path)


@pytest.mark.parametrize("n_rows", [2, 50, 70])
@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_choices_from_few_rows_are_the_same(client, n_rows, tmp_path):
    X, y = data()
    X, y = X[:n_rows], np.arange(n_rows) % 2
    parts = arrays([1, n_rows - 1], X, y)
    assert_same(clusters.fit(net(), *parts), net().fit(X, y), tmp_path)


def test_a_net_needs_rows_with_a_direction(client):
    X, y = data()
    for fit in (lambda e, X, y: e.fit(X, y), lambda e, X, y: clusters.fit(e, *arrays([N], X, y))):
        with pytest.raises(ReplearnError, match="not all zero, got 6,000 zero rows"):
            fit(net(fit_intercept=False), 0 * X, y)


def test_amplification_needs_its_rows_in_memory(client):
    with pytest.raises(ReplearnError, match="n_repeats must be 1 unless all rows are in memory"):
        clusters.fit(net(n_repeats=2), *arrays([N], *data()))


# ---------------------------------------------------------------- workers die


@pytest.fixture
def pids(client, cluster):
    """Processes of two workers."""
    try:
        client.wait_for_workers(2, timeout=20)
    except TimeoutError:  # on a busy machine, one may have given up while it started again
        cluster.scale(len(cluster.worker_spec) + 1)
        client.wait_for_workers(2, timeout=60)
    return list(client.run(os.getpid).values())[:2]


class Killer:
    """A watch that kills workers when some tasks are done: others are under way."""

    def __init__(self, victims):
        self._left = dict(victims)  # by the number of tasks that are done
        self.shares = []

    def __call__(self, share):
        self.shares.append(share)
        for pid in self._left.pop(len(self.shares), ()):
            os.kill(pid, signal.SIGKILL)  # an error if it is dead already

    @property
    def killed_all(self):
        return not self._left


@pytest.mark.parametrize(
    ("where", "victims"),
    [("memory", {1: [0]}), ("files", {1: [0, 1]}), ("files", {1: [0], 9: [1]})],
    ids=["one, rows in its memory", "all at once", "one after the other"],
)
def test_a_fit_outlives_its_workers(client, pids, where, victims, tmp_path):
    n_rows = 60_000
    X, y = data(n_rows)
    parameters = {"margin": 0.02, "batch_size": 200}
    local = svm(**parameters).fit(X, y)
    killer = Killer({n_done: [pids[i] for i in which] for n_done, which in victims.items()})
    if where == "files":
        path = tmp_path / "rows.parquet"
        pd.DataFrame(X, columns=NAMES).assign(y=y).to_parquet(path, row_group_size=1000)
        local = fit_file(svm(**parameters), path, "y")
        fitted = clusters.fit(svm(**parameters), path, target="y", task_rows=1000, watch=killer)
    else:
        dX, dy = (part.persist() for part in arrays([1000] * 60, X, y))
        wait([dX, dy])
        fitted = clusters.fit(svm(**parameters), dX, dy, watch=killer)
    assert killer.killed_all
    assert killer.shares[0] < 0.1
    assert killer.shares[-1] == 1
    assert killer.shares == sorted(killer.shares)
    assert_same(fitted, local, tmp_path)


def _die_once(mark):
    """Take the worker along at the first call, as too little memory would."""
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def test_a_key_that_the_scheduler_has_given_up_is_not_asked_for_again(client, pids, tmp_path):
    held = []  # as long as somebody holds a future of it, a scheduler remembers a failed task

    def make():
        about = guarded(_die_once)(tmp_path / "mark")
        held.append(client.compute(about))
        return [guarded(_both)(about, number) for number in range(3)]

    assert dict(completed(client, make)) == {number: ("alive", number) for number in range(3)}
    assert held[0].status == "error"
    assert len(held) == 2


def _both(one, other):
    return one, other


def test_a_search_outlives_its_workers(client, pids, tmp_path):
    X, y = data(60_000)
    local = net().fit(X, y)
    chunks = [1600] * 37 + [800]
    killer = Killer({1: pids[:1], 38: pids[1:]})  # while rows are projected, and when all are
    fitted = clusters.fit(net(), *arrays(chunks, X, y), watch=killer)
    assert killer.killed_all
    assert_same(fitted, local, tmp_path)


# ---------------------------------------------------------------- audits


def draw(n, rng):
    return make_margin(n, D, margin=0.2, random_state=rng)


def test_an_audit_is_the_same(client):
    X, y = data()
    estimator = svm(shuffle=True)
    options = {"n_pairs": 5, "copies": "allow"}
    done = []
    for more in ({"X": X, "y": y}, {"draw": draw, "n_samples": 2000}):
        here = rl.audit(estimator, **more, **options)
        there = rl.audit(estimator, **more, **options, client=client, advance=done.append)
        assert there == here
    assert done == [*range(1, 11), *range(1, 6)]


def test_an_audit_outlives_its_workers(client, pids, tmp_path):
    X, y = data(20_000)
    here = rl.audit(svm(shuffle=True), X, y, n_pairs=20)
    killer = Killer({1: pids})
    options = {"client": client, "advance": killer, "checkpoint": tmp_path / "audit.json"}
    there = rl.audit(svm(shuffle=True), X, y, n_pairs=20, **options)
    # rows elsewhere are not tested for signal, which is a note
    assert dataclasses.replace(there, notes=()) == dataclasses.replace(here, notes=())
    assert killer.killed_all


def test_an_audit_that_cannot_be_made_says_why(client):
    X, y = data()
    message = r"a fit of pair 0 \(parts, 54 rows\) failed: certified mode needs .* rows"
    with pytest.raises(ReplearnError, match=message):
        rl.audit(svm(mode="certified"), X, y, n_pairs=50, client=client)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "inf")], ids=str)
def test_a_bad_row_is_told_as_on_one_machine(client, value, word):
    X, y = data()
    X = X.copy()
    X[4321, 2] = value
    X[5432, 1] = value  # in a later partition
    with pytest.raises(ReplearnError) as here:
        svm().fit(X, y)
    estimator = svm()
    with pytest.raises(ReplearnError) as there:
        clusters.fit(estimator, *arrays([500] * 12, X, y))
    assert str(there.value) == str(here.value)
    assert f"{word} in row 4321, column 2" in str(there.value)
    assert there.value.__cause__ is None
    assert not hasattr(estimator, "model_")


def test_a_bad_row_of_a_dataframe_is_told_by_its_column(client):
    table = frame()
    table.loc[77, "x3"] = np.nan
    with pytest.raises(ReplearnError, match="got NaN in row 77, column 'x3'"):
        clusters.fit(svm(), frames([70, N - 70], table), target="label")


def test_a_bad_row_of_a_file_is_told_as_on_one_machine(client, tmp_path):
    table = frame()
    table.loc[4321, "x2"] = np.nan
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=500)
    messages = []
    for run in (
        lambda path: fit_file(svm(), path, "label"),
        lambda path: clusters.fit(svm(), path, target="label", task_rows=500),
    ):
        with pytest.raises(ReplearnError, match=r"row 4321 .* column 'x2'") as caught:
            run(tmp_path / "rows.parquet")
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_text_among_the_numbers_is_told_as_on_one_machine(client):
    table = frame().assign(x1="a word")
    with pytest.raises(ReplearnError, match="'x1' of X must hold numbers") as here:
        svm().fit(table[NAMES], table["label"])
    with pytest.raises(ReplearnError) as there:
        clusters.fit(svm(), frames([3000, 3000], table), target="label")
    assert str(there.value) == str(here.value)


@pytest.mark.parametrize("label", [None, np.nan], ids=str)
def test_a_missing_label(client, label):
    table = frame()
    table["label"] = table["label"].astype(object)
    table.loc[3010, "label"] = label
    message = "y must hold a label in every row, got a missing label in row 10 of partition 1"
    with pytest.raises(ReplearnError, match=message):
        clusters.fit(svm(), frames([3000, 3000], table), target="label")


def test_one_class_and_three_classes(client):
    X, y = data()
    one, three = np.ones(N, dtype=int), np.where(np.arange(N) == 5000, 7, y)
    for labels, make in ((one, svm), (three, sgd)):
        with pytest.raises(ReplearnError) as here:
            make().fit(X, labels)
        with pytest.raises(ReplearnError) as there:
            clusters.fit(make(), *arrays([3000, 3000], X, labels))
        assert str(there.value) == str(here.value)


def test_sorted_labels_are_refused_as_on_one_machine(client, tmp_path):
    X, y = data()
    order = np.argsort(y, kind="stable")
    table = frame().iloc[order]
    table.to_parquet(tmp_path / "sorted.parquet", row_group_size=1000)
    with pytest.raises(ReplearnError, match="y looks sorted or clustered") as here:
        svm().fit(X[order], y[order])
    for rows in (frames([1000] * 6, table), tmp_path / "sorted.parquet"):
        with pytest.raises(ReplearnError) as there:
            clusters.fit(svm(), rows, target="label")
        assert str(there.value) == str(here.value)


def test_no_rows(client):
    with pytest.raises(ReplearnError, match="X must have rows, got none"):
        clusters.fit(svm(), frames([0, 0], frame()), target="label")


def test_rows_that_are_to_be_shuffled_are_refused(client, files):
    with pytest.raises(ReplearnError, match=r"shuffle=True\. Shuffle the rows once \(replearn shu"):
        clusters.fit(svm(shuffle=True), files, target="label")


def test_too_few_rows_for_a_promise(client, files):
    with pytest.raises(rl.NotEnoughSamples) as caught:
        clusters.fit(svm(mode="certified"), files, target="label")
    assert caught.value.available == N


def test_boosting_needs_its_rows_in_memory(client, files):
    estimator = rl.ReplicableBoostingClassifier(shuffle=False)
    with pytest.raises(ReplearnError, match="ReplicableBoostingClassifier needs its rows in memor"):
        clusters.fit(estimator, files, target="label")


def test_what_is_no_table_on_a_cluster(client, files, tmp_path):
    X, y = data()
    dX, dy = arrays([3000, 3000], X, y)
    table = frames([3000, 3000], frame())
    (tmp_path / "rows.csv").write_text("a,label\n1,0\n2,1\n")
    for rows, more, message in [
        (X, {"y": y}, "X must be a path, a Dask dataframe or a Dask array, got ndarray"),
        (dX.rechunk({1: 2}), {"y": dy}, r"all columns in one chunk, .* Use X\.rechunk"),
        (dX, {"y": dy.rechunk(1000)}, "X and y must have the same chunks of rows"),
        (dX, {"y": y}, "y must be a Dask array of one dimension, got ndarray"),
        (dX, {"y": dy, "target": "a"}, "a Dask array has no named columns"),
        (table, {}, "must be a column of it or a series, got neither"),
        (table, {"target": "none"}, "X has no column 'none'; its columns are 'x0'"),
        (table, {"y": dy}, "y must be a Dask series with the 2 partitions of X, got Array"),
        (files, {}, 'Pass target="..."'),
        (tmp_path / "rows.csv", {"target": "label"}, r"rows\.csv must be Parquet"),
    ]:
        with pytest.raises(ReplearnError, match=message):
            clusters.fit(svm(), rows, **more)


def test_a_partition_that_cannot_be_computed(client):
    table = frame()

    def fail(part):
        raise OSError("the disk is gone")

    parts = frames([3000, 3000], table).map_partitions(fail, meta=table.iloc[:0])
    message = "a task failed on the cluster: OSError: the disk is gone. Check"
    with pytest.raises(ReplearnError, match=message):
        clusters.fit(svm(), parts, target="label")


def test_nothing_is_left_on_the_cluster(client, files):
    clusters.fit(svm(), files, target="label", task_rows=1000)
    with pytest.raises(ReplearnError):
        clusters.fit(svm(), files, target="x0", task_rows=1000)
    client.run(lambda: None)  # a round trip: what was released is released
    assert not client.futures


@pytest.mark.parametrize("steps", [1, 6])
def test_a_logistic_fit_is_the_same_on_a_cluster(client, tmp_path, steps):
    table = frame()
    if steps == 1:
        pilot = table[:800]
        plan = rl.plan_from_pilot(pilot[NAMES], pilot.label, samples_per_site=N, hint_bits=2)
        assert plan.protocol.design.n_steps == 1
        make = plan.protocol.estimator
    else:
        make = partial(rl.ReplicableLogisticClassifier, samples_per_site=N, max_disagreement=0.99)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        expected = make().fit(table[NAMES], table.label)
        by_label = table.sort_values("label")  # no order of rows matters
        by_label.to_parquet(tmp_path / "rows.parquet", index=False, row_group_size=500)
        found = [
            clusters.fit(
                make(), frames([1, 0, 2999, 3000], by_label), target="label", client=client
            ),
            clusters.fit(
                make(), tmp_path / "rows.parquet", target="label", client=client, task_rows=700
            ),
        ]
    for clf in found:
        assert clf.fingerprint_ == expected.fingerprint_
        assert clf.certificate_ == expected.certificate_
        assert clf.plan_.spent == expected.plan_.spent
