"""Shuffling by way of files gives the rows in the order that memory would give."""

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.files.statefile import read_state
from replearn.sources import open_source, shuffling
from replearn.sources.shuffled_files import shuffle_file
from replearn.sources.shuffling import ShuffledSource

N = 5000
COINS = SharedRandomness("a seed")
ORDER = COINS.row_order("order", N)


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "number": rng.normal(size=N),
            "small": rng.integers(0, 9, N).astype(np.int8),
            "key": pa.array([None if i % 7 == 0 else f"value {i}" for i in range(N)]),
            "kind": pa.array(np.array(["a", "b", "c"])[rng.integers(0, 3, N)]).dictionary_encode(),
            "row": np.arange(N),
        }
    )


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    path = tmp_path / "in.parquet"
    pq.write_table(table(), path, row_group_size=700)
    return path


def scattered(path: Path, folder: Path) -> ShuffledSource:
    folder.mkdir(exist_ok=True)
    shuffled = ShuffledSource(open_source(path, raw=True), COINS, "order", folder)
    shuffled.scatter()
    return shuffled


def test_rows_come_in_the_order_of_their_keys(parquet, tmp_path):
    shuffled = scattered(parquet, tmp_path / "scratch")
    rows = np.concatenate([batch.column("row").to_numpy() for batch in shuffled.batches()])
    assert shuffled.n_rows == N
    assert (rows == ORDER).all()


@pytest.mark.parametrize("start", [0, 1, 77, 78, 2500, N - 1, N])
def test_a_later_start_skips_rows(parquet, tmp_path, start):
    shuffled = scattered(parquet, tmp_path / "scratch")
    rows = [batch.column("row").to_numpy() for batch in shuffled.batches(start)]
    assert (np.concatenate([np.empty(0, int), *rows]) == ORDER[start:]).all()


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 1234])
def test_large_buckets_are_distributed_again(parquet, tmp_path, monkeypatch, start):
    monkeypatch.setattr(shuffling, "_MAX_BUCKET", 3000)  # bytes: dozens of rows
    monkeypatch.setattr(shuffling, "_MAX_BATCH", 1000)
    shuffled = scattered(parquet, tmp_path / "scratch")
    batches = list(shuffled.batches(start))
    assert max(batch.num_rows for batch in batches) < 60
    rows = np.concatenate([batch.column("row").to_numpy() for batch in batches])
    assert (rows == ORDER[start:]).all()


def test_a_shuffled_parquet_file_has_all_columns_and_types(parquet, tmp_path):
    out = tmp_path / "out.parquet"
    assert shuffle_file(parquet, out, "a seed") == N
    written = pq.read_table(out)
    assert written.schema == table().schema
    assert written.to_pylist() == table().take(pa.array(ORDER)).to_pylist()
    assert os.listdir(tmp_path) in (["in.parquet", "out.parquet"], ["out.parquet", "in.parquet"])


TEXT = ["x,note,y"] + [f'{i},"a ""note""\nin two lines, {i}",{i % 2}' for i in range(300)]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_a_shuffled_csv_file_keeps_every_record_as_it_was(tmp_path, end, suffix):
    newline = "\r\n" if end == "\r\n" else "\n"
    content = (newline.join(TEXT) + end).encode()
    path, out = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    assert shuffle_file(path, out, "a seed") == 300
    written = gzip.decompress(out.read_bytes()) if suffix.endswith("gz") else out.read_bytes()
    order = COINS.row_order("order", 300)
    records = [TEXT[0], *(TEXT[1 + i] for i in order)]
    assert written.decode().replace("\r\n", "\n") == "\n".join(records) + "\n"


def test_a_shuffled_svmlight_file_keeps_its_lines(tmp_path):
    lines = [f"{'+1' if i % 3 else '-1'} {i % 5 + 1}:{i}.5 9:1" for i in range(200)]
    path, out = tmp_path / "in.svm", tmp_path / "out.svm"
    path.write_text("\n".join(lines) + "\n")
    assert shuffle_file(path, out, "a seed") == 200
    order = COINS.row_order("order", 200)
    assert out.read_text().splitlines() == [lines[i] for i in order]


def test_a_shuffled_archive_has_its_rows_in_order(tmp_path):
    X = np.arange(40.0).reshape(20, 2)
    np.savez(tmp_path / "in.npz", X=X, y=np.arange(20) % 2)
    assert shuffle_file(tmp_path / "in.npz", tmp_path / "out.npz", "a seed") == 20
    order = COINS.row_order("order", 20)
    with np.load(tmp_path / "out.npz") as out:
        assert (out["X"] == X[order]).all()
        assert (out["y"] == order % 2).all()


def test_a_private_key_gives_another_order(parquet, tmp_path):
    out = tmp_path / "out.parquet"
    shuffle_file(parquet, out, random_state=7)
    rows = pq.read_table(out, columns=["row"]).column("row").to_numpy()
    assert (rows == SharedRandomness("7").row_order("order/private", N)).all()


def test_another_format_is_refused(parquet, tmp_path):
    with pytest.raises(ReplearnError, match=r"must have the format of .*\.parquet or \.pq"):
        shuffle_file(parquet, tmp_path / "out.csv")


KILLED = """
import sys, time
from replearn.sources import shuffling
from replearn.codes.randomness import SharedRandomness
from replearn.sources import open_source

source = open_source(sys.argv[1], raw=True)
shuffled = shuffling.ShuffledSource(source, SharedRandomness("a seed"), "order", sys.argv[2], 0.0)
add = shuffling._Buckets.add
def slow(*arguments):
    add(*arguments)
    print("batch", flush=True)
    time.sleep(0.05)
shuffling._Buckets.add = slow
shuffled.scatter()
"""


@pytest.mark.slow
@pytest.mark.parametrize("n_batches", [1, 3])
def test_a_killed_distribution_goes_on(parquet, tmp_path, n_batches):
    """Killed for real; what was being written after the last mark is cut off."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, parquet, folder], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    for _ in range(n_batches):
        process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    mark = folder / "scattered.state"
    assert not mark.exists() or not read_state(mark, "shuffle").about["done"]
    shuffled = scattered(parquet, folder)
    rows = np.concatenate([batch.column("row").to_numpy() for batch in shuffled.batches()])
    assert (rows == ORDER).all()


SLOW_SHUFFLE = """
import sys, time
from replearn.sources import shuffled_files
writer = shuffled_files._writer
def slow(*arguments):
    print("writing", flush=True)
    time.sleep(30)
shuffled_files._writer = slow
shuffled_files.shuffle_file(*sys.argv[1:3])
"""


@pytest.mark.slow
def test_a_later_shuffle_removes_what_a_killed_one_left(parquet, tmp_path):
    pytest.importorskip("fcntl", reason="this system has no such locks")
    out, mine = tmp_path / "out.parquet", tmp_path / ".replearn-scratch-of-mine"
    mine.mkdir()
    processes = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", SLOW_SHUFFLE, parquet, out], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"writing\n"
        processes.append(process)
    killed, living = processes
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert len(list(tmp_path.glob(".*"))) == 2 * 2 + 1  # a folder and a file of each
    shuffle_file(parquet, out)
    assert len(list(tmp_path.glob(".*"))) == 1 * 2 + 1  # those of the living one stay
    living.send_signal(signal.SIGKILL)
    living.wait()
    shuffle_file(parquet, out)
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "out.parquet", mine.name}
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()
