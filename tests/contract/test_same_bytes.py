"""Same rows, same bytes: whatever the order, chunk, kernel, thread, source or precision.

Fits are compared before they are rounded (coefficients in units of 2^-26), which is about a million
times finer than cells are, and studies by all their bytes.
"""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import replearn as rl
from replearn.datasets import load_readmission
from replearn.documents import decimal_text
from replearn.glm import Bernoulli, Coordinates, GlmModel, Multinomial, Poisson, newton
from replearn.glm import sketched as glm
from replearn.glm.losses import Gaussian
from replearn.rows import Block, MemoryBlocks, joined
from replearn.study import Request, RowEncoder, TableRows, publish
from replearn.tables import open_table

TARGET = "readmitted"
REQUEST = Request(target=TARGET, basis="splines", interactions=[("age", "sodium")], ridge=0.003)


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return load_readmission("Ashford", 2000)


@pytest.fixture(scope="module")
def original(table):
    return publish(open_table(table, target=TARGET), REQUEST)


@pytest.fixture(scope="module")
def theta(table, original):
    return _theta(table, original.study)


def _theta(source, study, **options):
    rows = TableRows(open_table(source, target=TARGET, **options), RowEncoder.of(study.design))
    loss = study.design.loss
    return newton.fit(rows, loss, study.design.ridge, newton.Summary.of(rows, loss))


def test_leaving_out_one_row_changes_the_fingerprint_of_narrow_cells(table, original, theta):
    """Cells a million times narrower: the tests of this module would notice a single row."""
    design = original.study.design
    widths = tuple(decimal_text(float(width) * 1e-6) for width in design.widths)
    narrow = replace(design, widths=widths)

    def fingerprint(found):
        return GlmModel(narrow, narrow.codes(found)).fingerprint

    assert len({fingerprint(_theta(table.drop(i), original.study)) for i in (0, 7, 1999)}) == 3
    assert fingerprint(_theta(table[::-1], original.study)) == fingerprint(theta)
    assert fingerprint(_theta(table.iloc[1:], original.study)) != fingerprint(theta)


def test_order_of_rows_and_columns(table, original, theta):
    shuffled = table.sample(frac=1, random_state=0)[table.columns[::-1]]
    assert (_theta(shuffled, original.study) == theta).all()
    again = publish(open_table(shuffled[table.columns], target=TARGET), REQUEST)
    assert again.study.canonical_bytes() == original.study.canonical_bytes()
    assert again.certificate == original.certificate


def _levels(n_levels, n_columns, n_rows=4000):
    """A table of levels alone, most of whose rows occur several times or nearly so."""
    rng = np.random.default_rng([n_levels, n_columns])
    chances = rng.dirichlet(np.ones(n_levels))
    codes = rng.choice(n_levels, (n_rows, n_columns), p=chances)
    score = (codes * rng.normal(0, 0.1, n_columns)).sum(axis=1) - 1
    columns = {f"c{j}": np.char.add("level ", codes[:, j].astype(str)) for j in range(n_columns)}
    return pd.DataFrame(columns | {TARGET: (rng.logistic(size=n_rows) < score).astype(int)})


@pytest.mark.parametrize(("n_levels", "n_columns"), [(2, 20), (4, 8), (12, 3), (30, 2)])
def test_order_of_rows_in_tables_of_levels(n_levels, n_columns):
    """Few rows have a content of their own: a hash that takes two for one would show itself."""
    table = _levels(n_levels, n_columns)
    studies = set()
    for seed in range(3):
        rows = open_table(table.sample(frac=1, random_state=seed), target=TARGET)
        first = publish(rows, Request(target=TARGET))
        studies.add((first.study.canonical_bytes(), repr(first.certificate)))
    assert len(studies) == 1


@pytest.mark.parametrize("source", ["polars", "arrow", "dict", "csv", "csv.gz", "parquet"])
def test_sources(table, original, theta, source, tmp_path):
    path = tmp_path / f"rows.{source}"
    given = {
        "polars": lambda: pl.from_pandas(table),
        "arrow": lambda: pa.Table.from_pandas(table),
        "dict": lambda: table.to_dict(orient="list"),
        "csv": lambda: table.to_csv(path, index=False) or path,
        "csv.gz": lambda: table.to_csv(path, index=False) or path,
        "parquet": lambda: (
            pq.write_table(pa.Table.from_pandas(table), path, row_group_size=333) or path
        ),
    }[source]()
    assert (_theta(given, original.study) == theta).all()
    again = publish(open_table(given, target=TARGET), REQUEST)
    assert again.study.canonical_bytes() == original.study.canonical_bytes()


def test_chunks(table, original, theta):
    encoder = RowEncoder.of(original.study.design)
    source = open_table(table, target=TARGET)
    blocks = [encoder.block(batch, 1.0) for batch in source.batches(97)]
    rows = MemoryBlocks(joined(blocks[::-1]))
    loss = original.study.design.loss
    summary = newton.Summary.of(rows, loss)
    assert (newton.fit(rows, loss, original.study.design.ridge, summary) == theta).all()


def test_dense_sparse_and_single_precision():
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(3000, 12)) * (rng.random((3000, 12)) < 0.2)).astype(np.float32)
    y = X[:, 0] + rng.logistic(size=3000) > 0
    study = rl.ReplicableLogisticClassifier(ridge=0.001).fit(sparse.csr_array(X), y).study_
    prints = {
        rl.ReplicableLogisticClassifier(study=study).fit(given, y).fingerprint_
        for given in (X, X.astype(np.float64), sparse.csr_array(X), sparse.csc_array(X), X.tolist())
    }
    assert prints == {study.commitment}


LOSSES = [Bernoulli(), Multinomial(4), Gaussian("0", "1"), Poisson(5)]


def _case(loss, n_rows=3000, n_terms=20):
    rng = np.random.default_rng(5)
    terms = np.clip(rng.normal(size=(n_rows, n_terms)) * 4096, -16384, 16384).astype(np.int16)
    score = terms[:, :3] @ np.array([1.0, -0.5, 0.25]) / 4096
    targets = {
        "bernoulli": lambda: rng.random(n_rows) < 1 / (1 + np.exp(1 - score)),
        "multinomial": lambda: np.clip(np.round(score + rng.logistic(size=n_rows)) + 1, 0, 3),
        "gaussian": lambda: np.round((score + rng.normal(size=n_rows)) * 65536) / 65536,
        "poisson": lambda: np.minimum(rng.poisson(np.exp(score / 2)), 31),
    }[loss.kind]()
    weights = np.floor(rng.uniform(1, 65536, n_rows)) / 65536
    return Block(terms, targets.astype(np.float64), weights, np.round(rng.normal(size=n_rows), 3))


def fits():
    """Coefficients and influences of all losses, and whole studies: what a subprocess prints."""
    found = {}
    rows = open_table(load_readmission("Ashford", 800), target=TARGET)
    for request in (Request(target=TARGET), REQUEST):
        first = publish(rows, request)
        numbers = [repr(vars(first.certificate)), str(first.performance)]
        found[request.basis] = [first.study.content(), *numbers]
    for loss in LOSSES:
        rows = MemoryBlocks(_case(loss))
        summary = newton.Summary.of(rows, loss)
        theta = newton.fit(rows, loss, "0.003", summary)
        information = loss.information(summary.shares)
        coordinates = Coordinates.of(information, glm.second_moments(rows), 0.003)
        influence = glm.spread_of(rows, loss, "0.003", theta, coordinates, summary)
        found[loss.kind] = [
            theta.astype(int).tolist(),
            coordinates.content(),
            influence.variance.tolist(),
            influence.effective.tolist(),
        ]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "threads"), [("Prescott", "1"), ("Haswell", "2"), ("SkylakeX", "1"), ("Zen", "2")]
)
def test_blas_kernels_and_threads(kernel, threads):
    environment = os.environ | {"OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": threads}
    command = (
        "import json; from tests.contract import test_same_bytes as t; print(json.dumps(t.fits()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", command], env=environment, capture_output=True, text=True
    )
    if done.returncode == -signal.SIGILL:
        pytest.skip(f"this machine has no instructions for {kernel}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == _here()


def _here(_kept={}):  # noqa: B006
    if not _kept:
        _kept.update(json.loads(json.dumps(fits())))
    return _kept
