"""Encoded rows in memory, in a scratch file, or read anew: the same bits."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from replearn.glm import Bernoulli, newton
from replearn.rows import MemoryBlocks, joined
from replearn.study import Request, RowEncoder, TableRows, publish, read_rows, replicate
from replearn.study import encoder as door
from replearn.study.encoder import ScratchBlocks
from replearn.tables import learn_encoding, open_table, scratch


def table(n_rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    found = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=list("abc"))
    found["w"] = rng.choice([0.5, 1.0, 3.0], n_rows)
    found["o"] = rng.normal(size=n_rows)
    found["y"] = (found.a + rng.logistic(size=n_rows) > 0).astype(int)
    return found


@pytest.fixture(scope="module")
def rows():
    opened = open_table(table(150_000), target="y", weights="w", offset="o")
    labels = table(150_000).y.to_numpy()
    return TableRows(
        opened, RowEncoder(learn_encoding(opened, labels).encoding, Bernoulli(), (0, 1))
    )


def sums(found):
    theta = np.array([[0, 1 << 24, -(1 << 23), 5]], dtype=np.float64)
    state = newton.NewtonState(theta, 1 << 31)
    total = state.sums(found.blocks(), Bernoulli(), found.work)
    return {name: value.tolist() for name, value in total.values.items()}


@pytest.mark.parametrize(
    ("n_jobs", "limit"),
    [(None, "MOST_KEPT"), (2, "MOST_KEPT"), (-1, "MOST_KEPT"), (None, "MOST_ROWS_KEPT")],
)
def test_a_scratch_file_holds_the_same_rows(rows, monkeypatch, n_jobs, limit):
    expected = sums(rows)
    kept = read_rows(rows, n_jobs)
    assert isinstance(kept, MemoryBlocks)
    assert sums(kept) == expected
    monkeypatch.setattr(door, limit, {"MOST_KEPT": 1 << 18, "MOST_ROWS_KEPT": 1000}[limit])
    stored = read_rows(rows, n_jobs)
    assert isinstance(stored, ScratchBlocks)
    assert sums(stored) == expected
    assert sums(stored) == expected  # a second pass begins at the beginning


def test_a_full_disk_costs_time_and_nothing_else(rows, monkeypatch):
    monkeypatch.setattr(door, "MOST_KEPT", 1 << 18)

    def full(self, block):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(ScratchBlocks, "add", full)
    found = read_rows(rows)
    assert found is rows
    monkeypatch.undo()
    assert sums(found) == sums(read_rows(rows))


def test_a_replication_of_rows_that_do_not_fit(monkeypatch):
    whole = table(6000).drop(columns=["w", "o"])
    study = publish(open_table(whole[:3000], target="y"), Request(ridge=0.01)).study
    there = open_table(whole[3000:], target="y")
    expected = replicate(study, there)[0].fingerprint
    monkeypatch.setattr(door, "MOST_KEPT", 0)
    monkeypatch.setattr(door, "MOST_AT_ONCE", 1 << 12)
    assert replicate(study, there)[0].fingerprint == expected
    blocks = TableRows(there, RowEncoder.of(study.design)).blocks()
    assert max(block.terms.nbytes for block in blocks) <= 1 << 12
    monkeypatch.setattr(scratch, "MOST_STORED", 1 << 14)
    assert replicate(study, there)[0].fingerprint == expected


def test_what_is_seen_counts_all_rows_of_a_table_that_does_not_fit(monkeypatch):
    numbers = np.random.default_rng(0).random((3000, 4))
    X = sparse.csr_array(numbers * (numbers < 0.5))
    y = np.arange(3000) % 2
    opened = open_table(X, target=y)
    encoder = RowEncoder(learn_encoding(opened, y).encoding, Bernoulli(), (0, 1))
    monkeypatch.setattr(door, "MOST_KEPT", 1000)
    monkeypatch.setattr(opened, "batches", partial(opened.batches, 500))
    source = TableRows(opened, encoder)
    stored = read_rows(source)
    assert isinstance(stored, ScratchBlocks)
    assert source.seen.n_rows == 3000
    kept = joined(list(source.blocks()))
    assert (joined(list(stored.blocks())).terms != kept.terms).nnz == 0


def test_a_scratch_file_holds_groups_and_centres(monkeypatch):
    whole = table(3000).assign(g=[f"person {i // 2}" for i in range(3000)], c=["A", None] * 1500)
    opened = open_table(whole, target="y", groups="g", centres="c", columns=["a", "b"])
    labels = whole.y.to_numpy()
    encoder = RowEncoder(learn_encoding(opened, labels).encoding, Bernoulli(), (0, 1))
    monkeypatch.setattr(door, "MOST_KEPT", 1000)
    stored = joined(list(read_rows(TableRows(opened, encoder)).blocks()))
    assert stored.groups.tolist() == whole.g.tolist()
    assert stored.centres.tolist() == ["A", ""] * 1500
