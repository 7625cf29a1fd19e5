"""A fit on files gives the model of a fit in memory, to the bit."""

import gzip
import os
import shutil
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

import replearn as rl
from replearn.codes.encoding import Encoding, NumberColumn
from replearn.datasets import make_margin
from replearn.errors import NotEnoughSamples, ReplearnError
from replearn.files import checkpoint
from replearn.files.jsonfile import read_json
from replearn.fits.file_fit import fit_file, training_source
from replearn.sources import common, matrices, shuffling

N, D = 6000, 7
NAMES = [f"c{i}" for i in range(D)]
X, Y = make_margin(N, D, margin=0.2, random_state=1)

pytestmark = pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")


def table(y=Y) -> pa.Table:
    return pa.table({**{name: X[:, i] for i, name in enumerate(NAMES)}, "label": y})


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The same rows in every format."""
    place = tmp_path_factory.mktemp("files")
    rows = table()
    pq.write_table(rows, place / "a.parquet", row_group_size=700)
    pa.csv.write_csv(rows, place / "a.csv")
    (place / "a.csv.gz").write_bytes(gzip.compress((place / "a.csv").read_bytes()))
    np.savez(place / "a.npz", X=X, y=Y)
    dump_svmlight_file(X, Y, str(place / "a.svm"), zero_based=False)
    (place / "parts").mkdir()
    for i, start in enumerate(range(0, N, 1100)):
        pq.write_table(rows.slice(start, 1100), place / "parts" / f"part-{i}.parquet")
    return place


def svm(**changes):
    return rl.ReplicableSVMClassifier(**({"margin": 0.2, "shared_seed": 5} | changes))


FILES = ["a.parquet", "a.csv", "a.csv.gz", "a.npz", "a.svm", "parts"]


def target(name: str) -> str | None:
    return None if name in ("a.npz", "a.svm") else "label"


@pytest.mark.parametrize("memory", [0, 1 << 30], ids=["streamed", "in memory"])
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_model_of_memory(folder, name, shuffle, memory):
    expected = svm(shuffle=shuffle).fit(X, Y)
    fitted = fit_file(svm(shuffle=shuffle), folder / name, target(name), memory=memory)
    assert fitted.fingerprint_ == expected.fingerprint_
    assert fitted.plan_ == expected.plan_
    assert str(fitted.certificate_) == str(expected.certificate_)
    assert fitted.n_features_in_ == D
    assert (fitted.model_.predict(X[:50]) == expected.predict(X[:50])).all()


@pytest.mark.parametrize(
    "estimator",
    [
        svm(margin="auto"),
        svm(random_state=3, n_jobs=2),
        svm(mode="paper", batch_size=50, n_batches=20),
        rl.ReplicableSGDClassifier(margin=0.2),
        rl.ReplicableNetClassifier(margin=0.3, max_error=0.2),
        rl.ReplicableBoostingClassifier(margin=0.3, max_error=0.3, n_rounds=5),
    ],
    ids=["auto", "private order", "paper", "sgd", "net", "boosting"],
)
def test_every_estimator_gives_the_model_of_memory(folder, estimator):
    expected = estimator.fit(X, Y).fingerprint_
    fitted = fit_file(estimator, folder / "a.parquet", "label", memory=0)
    assert fitted.fingerprint_ == expected


def test_names_labels_and_columns_go_into_the_model(folder):
    labels = pa.array(np.where(Y > 0, "ill", "well"))
    path = folder / "words.parquet"
    pq.write_table(table(labels), path)
    fitted = fit_file(svm(), path, "label", columns=["c3", "c0"], memory=0)
    assert fitted.model_.feature_names == ("c3", "c0")
    assert fitted.model_.classes == ("ill", "well")
    assert fitted.fingerprint_ == svm().fit(X[:, [3, 0]], labels.to_numpy(False)).fingerprint_


def test_a_protocol_encodes_the_columns_of_files(tmp_path):
    rng = np.random.default_rng(0)
    kind = np.array(["a", "b", "c"])[rng.integers(0, 3, N)]
    holes = np.where(rng.random(N) < 0.05, np.nan, X[:, 1])
    columns = {"one": X[:, 0], "two": holes, "kind": kind}
    pilot = {name: values[:1000] for name, values in columns.items()}
    protocol = rl.plan_from_pilot(
        pilot, Y[:1000], samples_per_site=N, shared_seed=7, algorithm="svm"
    ).protocol
    expected = protocol.estimator().fit(columns, Y).fingerprint_
    rows = pa.table({**columns, "two": pa.array(holes, from_pandas=True), "label": Y})
    pq.write_table(rows, tmp_path / "a.parquet")
    pa.csv.write_csv(rows, tmp_path / "a.csv")
    for name in ("a.parquet", "a.csv"):
        for memory in (0, 1 << 30):
            fitted = fit_file(protocol.estimator(), tmp_path / name, "label", memory=memory)
            assert fitted.fingerprint_ == expected


@pytest.mark.parametrize("memory", [0, 1 << 30], ids=["streamed", "in memory"])
def test_sorted_rows_are_shuffled_or_refused(tmp_path, memory):
    order = np.argsort(Y, kind="stable")
    path = tmp_path / "sorted.parquet"
    pq.write_table(table().take(pa.array(order)), path)
    expected = svm().fit(X[order], Y[order]).fingerprint_
    assert fit_file(svm(), path, "label", memory=memory).fingerprint_ == expected
    with pytest.raises(ReplearnError, match="sorted or clustered"):
        fit_file(svm(shuffle=False), path, "label", memory=memory)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_too_few_rows_are_counted_before_the_fit(folder, suffix):
    estimator = svm(mode="certified", shuffle=False)
    with pytest.raises(NotEnoughSamples, match="got 6,000"):
        fit_file(estimator, folder / f"a{suffix}", "label")


@pytest.mark.parametrize("memory", [0, 1 << 30], ids=["streamed", "in memory"])
def test_a_bad_cell_is_named_by_its_place_in_the_file(folder, tmp_path, memory):
    lines = (folder / "a.csv").read_text().splitlines()
    cells = lines[4321].split(",")
    lines[4321] = ",".join(["wrong", *cells[1:]])
    path = tmp_path / "bad.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(ReplearnError, match=r"line 4322.*'c0'.*wrong"):
        fit_file(svm(), path, "label", memory=memory)


@pytest.mark.parametrize("memory", [0, 1 << 30], ids=["streamed", "in memory"])
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (np.zeros(N, int), "got one class: 0"),
        (np.arange(N) % 3, "got more: 0, 1, 2"),
        (np.linspace(0, 1, N), "whole numbers, booleans or text"),
    ],
    ids=["one", "three", "measurements"],
)
def test_other_than_two_labels_are_refused(tmp_path, labels, words, memory):
    path = tmp_path / "a.parquet"
    pq.write_table(table(labels), path)
    halves = rl.ReplicableSGDClassifier(margin=0.2, shared_seed=5)  # one halfspace, two sides
    with pytest.raises(ReplearnError, match=words):
        fit_file(halves, path, "label", memory=memory)


@pytest.mark.parametrize("memory", [0, 1 << 30], ids=["streamed", "in memory"])
def test_labels_are_asked_for(folder, memory):
    with pytest.raises(ReplearnError, match="labels are needed, got none"):
        fit_file(svm(), folder / "a.parquet", memory=memory)


def test_the_labels_of_the_protocol_are_needed(folder):
    with pytest.raises(ReplearnError, match="labels of the protocol"):
        fit_file(
            svm(published=rl.Published(classes=("a", "b"))), folder / "a.parquet", "label", memory=0
        )


# --- checkpoints ------------------------------------------------------------------------------


class Stopped(Exception):
    """What a test raises in the middle of a fit."""


def stopping(after: int):
    calls = 0

    def watch(share: float) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise Stopped

    return watch


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [svm(), svm(shuffle=False), svm(margin="auto")], ids=repr)
def test_a_stopped_fit_goes_on_and_gives_the_same_model(folder, tmp_path, estimator, monkeypatch):
    monkeypatch.setattr(shuffling, "_MAX_BATCH", 1 << 12)  # many batches
    expected = estimator.fit(X, Y).fingerprint_
    state = tmp_path / "state"
    n_runs = 0
    for after in (1, 3, 4, 9, 40, 300, 3000):
        try:
            fitted = fit_file(
                estimator,
                folder / "parts",
                "label",
                checkpoint=state,
                every=0.0,
                watch=stopping(after),
            )
        except Stopped:
            n_runs += 1
        else:
            break
    assert n_runs >= 2
    assert fitted.fingerprint_ == expected
    checkpoint.clear(state)
    assert not state.exists()


def test_a_checkpoint_saves_work(folder, tmp_path):
    state, seen = tmp_path / "state", []
    estimator = svm(shuffle=False)
    with pytest.raises(Stopped):
        fit_file(
            estimator,
            folder / "parts",
            "label",
            checkpoint=state,
            every=0.0,
            watch=stopping(4),
        )
    fit_file(estimator, folder / "parts", "label", checkpoint=state, watch=seen.append)
    assert min(seen) > 0.5  # of six parts the first three were not read again


def test_a_checkpoint_of_another_fit_is_refused(folder, tmp_path):
    state = tmp_path / "state"
    fit_file(svm(), folder / "a.parquet", "label", checkpoint=state)
    with pytest.raises(ReplearnError, match="another fit, which differs in shared_seed"):
        fit_file(svm(shared_seed=6), folder / "a.parquet", "label", checkpoint=state)
    with pytest.raises(ReplearnError, match="another fit, which differs in the number of files"):
        fit_file(svm(), folder / "parts", "label", checkpoint=state)
    fit_file(svm(n_jobs=2), folder / "a.parquet", "label", checkpoint=state)


@pytest.mark.parametrize("rows", [600, 6000], ids=["whole", "in samples"])
def test_a_checkpoint_of_other_rows_is_refused_whatever_their_name_size_and_time(
    tmp_path, rows, monkeypatch
):
    """Two sites may have files that differ in nothing but their rows."""
    monkeypatch.setattr(common, "_N_SAMPLES", 2)
    text = ["c0,c1,label", *(f"{a:+.9f},{b:+.9f},{y:+d}" for a, b, y in zip(*X.T[:2], Y))]  # noqa: B905
    other = [text[0], *(line[:-2] + f"{-y:+d}" for line, y in zip(text[1:], Y, strict=True))]
    state, fingerprints = tmp_path / "state", []
    for site, lines in (("one", text), ("two", other)):
        (tmp_path / site).mkdir()
        path = tmp_path / site / "rows.csv"
        path.write_text("\n".join(lines[: rows + 1]))
        os.utime(path, ns=(0, 12_345))
        fingerprints.append(fit_file(svm(), path, "label").fingerprint_)
    assert fingerprints[0] != fingerprints[1]
    site_1, site_2 = (tmp_path / site / "rows.csv" for site in ("one", "two"))
    assert site_1.stat().st_size == site_2.stat().st_size
    assert (site_1.stat().st_size > 2 * 2**16) == (rows == 6000)
    fit_file(svm(), site_1, "label", checkpoint=state)
    with pytest.raises(ReplearnError, match=r"which differs in the content of rows\.csv\. Name an"):
        fit_file(svm(), site_2, "label", checkpoint=state)
    resumed = fit_file(svm(), site_1, "label", checkpoint=state)
    assert resumed.fingerprint_ == fingerprints[0]


def test_a_large_file_that_was_touched_is_refused(folder, tmp_path, monkeypatch):
    """Samples do not show all of it, so its place and its times also count."""
    monkeypatch.setattr(common, "_N_SAMPLES", 2)
    path, state = tmp_path / "a.csv", tmp_path / "state"
    shutil.copy(folder / "a.csv", path)
    fit_file(svm(), path, "label", checkpoint=state)
    path.touch()
    with pytest.raises(ReplearnError, match=r"differs in the place or the times of a\.csv"):
        fit_file(svm(), path, "label", checkpoint=state)


@pytest.mark.slow
def test_every_flipped_byte_of_a_checkpoint_is_noticed(tmp_path):
    """63 of 76 flipped bytes in scattered rows once gave another model without a word."""
    path, state = tmp_path / "a.parquet", tmp_path / "state"
    pq.write_table(table().slice(0, 600), path)
    expected = fit_file(svm(), path, "label", checkpoint=state).fingerprint_
    sums = state / "replearn-work" / "sums-1.state"
    sums.unlink()  # it must be made from the rows again
    files = sorted(p for p in state.rglob("*") if p.is_file() and p.name != "replearn-lock")
    assert len(files) == 2 + 64
    rng, n_refused = np.random.default_rng(0), 0
    for trial in range(80):
        chosen = files[trial % len(files)]
        before = chosen.read_bytes()
        content = bytearray(before)
        content[rng.integers(len(content))] ^= 1 << rng.integers(8)
        chosen.write_bytes(content)
        try:
            assert fit_file(svm(), path, "label", checkpoint=state).fingerprint_ == expected
        except ReplearnError:
            n_refused += 1
        chosen.write_bytes(before)
        sums.unlink(missing_ok=True)
    assert n_refused >= 78  # all but perhaps a byte of the mark that says nothing


def test_a_clearing_that_was_killed_blocks_no_later_run(folder, tmp_path, monkeypatch):
    state = tmp_path / "state"
    fit_file(svm(), folder / "a.parquet", "label", checkpoint=state)
    removed = []

    def stop(path, *_, **__):
        removed.append(path)
        (path / "job.json").unlink()
        raise Stopped

    with monkeypatch.context() as killed:
        killed.setattr(shutil, "rmtree", stop)
        with pytest.raises(Stopped):
            checkpoint.clear(state)
    assert removed
    other = svm(shared_seed=6)  # the folder is free for anything else
    expected = fit_file(other, folder / "a.parquet", "label").fingerprint_
    fitted = fit_file(other, folder / "a.parquet", "label", checkpoint=state)
    assert fitted.fingerprint_ == expected
    checkpoint.clear(state)
    assert not state.exists()


def test_a_checkpoint_in_use_is_not_cleared(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    held = checkpoint.Checkpoint(tmp_path / "state", {})
    checkpoint.clear(tmp_path / "state")
    assert (tmp_path / "state" / "replearn-work").exists()
    held.close()
    checkpoint.clear(tmp_path / "state")
    assert not (tmp_path / "state").exists()
    checkpoint.clear(tmp_path / "state")


def test_two_processes_do_not_share_a_checkpoint(tmp_path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    first = checkpoint.Checkpoint(tmp_path / "state", {})
    with pytest.raises(ReplearnError, match="in use by another process"):
        checkpoint.Checkpoint(tmp_path / "state", {})
    first.close()
    checkpoint.Checkpoint(tmp_path / "state", {}).close()


def test_a_checkpoint_clears_nothing_but_its_own_files(folder, tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    (state / "mine.txt").write_text("keep me")
    fit_file(svm(), folder / "a.parquet", "label", checkpoint=state)
    assert read_json(state / "replearn-work" / "job.json")["target"] == "label"
    checkpoint.clear(state)
    assert [path.name for path in state.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["a.npz", "a.svm"])
def test_what_cannot_be_resumed_is_said(folder, tmp_path, name):
    estimator = rl.ReplicableNetClassifier() if name == "a.svm" else svm()
    with pytest.raises(ReplearnError, match="a checkpoint needs"):
        fit_file(estimator, folder / name, checkpoint=tmp_path / "state")


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({"a": np.inf}, "row 7011 .* 'a' must be a finite number"),
        ({"b": np.nan}, "row 7011 .* 'b' must not be missing"),
        ({"a": 1e308}, "row 7011 .* 'a' must be finite after scaling"),
        ({"a": np.inf, "y": 3}, "row 7011 .* 'a' must be a finite number"),
        ({"y": 3}, "must hold the labels of the protocol"),
    ],
)
def test_rows_that_are_written_where_they_are_used_name_the_same_cell(
    tmp_path, monkeypatch, cell, words
):
    monkeypatch.setattr(matrices, "_CACHED_NUMBERS", 600)  # blocks of a few hundred rows
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(8000, 2)), columns=["a", "b"])
    frame["y"] = (frame.a + rng.normal(size=8000) > 0).astype(int)
    protocol = rl.plan_from_pilot(frame[["a", "b"]][:500], frame.y[:500], samples_per_site=8000)
    encoding = Encoding((NumberColumn("a", "0", "0.001"), NumberColumn("b", "0", "1")))
    agreed = replace(protocol.protocol.estimator().published, encoding=encoding)
    if cell.get("a") == np.inf:
        frame.loc[7000, "b"] = np.inf  # earlier, but in a later column
    for name, value in cell.items():
        frame.loc[7011, name] = value
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    clf = rl.ReplicableLogisticClassifier(published=agreed)
    with pytest.raises(ReplearnError, match=words) as streamed:
        rl.fit_file(clf, tmp_path / "rows.parquet", "y")
    if "labels" not in words:  # at once, cells are read before labels
        source, _ = training_source(clf, tmp_path / "rows.parquet", "y")
        with pytest.raises(ReplearnError) as at_once:
            list(source.pieces())
        assert str(streamed.value) == str(at_once.value)


def test_what_is_missing_is_counted_where_rows_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(matrices, "_CACHED_NUMBERS", 600)
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.normal(size=(8000, 2)), columns=["a", "b"])
    frame["c"] = rng.choice(["x", "y", None], size=8000, p=[0.6, 0.3, 0.1])
    frame["y"] = (frame.a + rng.normal(size=8000) > 0).astype(int)
    frame.loc[rng.random(8000) < 0.1, "b"] = np.nan
    features = ["a", "b", "c"]
    protocol = rl.plan_from_pilot(frame[features][:500], frame.y[:500], samples_per_site=8000)
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        streamed = rl.fit_file(protocol.protocol.estimator(), tmp_path / "rows.parquet", "y")
        here = protocol.protocol.estimator().fit(frame[features], frame.y)
    assert streamed.fingerprint_ == here.fingerprint_
    assert streamed.seen_.n_rows == 8000
    assert streamed.seen_.missing == tuple(frame[features].isna().sum())
