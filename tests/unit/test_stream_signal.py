"""Signal in streams of rows."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import replearn as rl
from replearn.stages.signal import SpacedRows


@pytest.mark.parametrize("sparse", [False, True])
def test_a_stream_keeps_evenly_spaced_rows(sparse):
    n_rows = 90_001
    numbers = np.arange(n_rows)
    X = np.column_stack([numbers, numbers + 0.5])
    stream = SpacedRows()
    for first in range(0, n_rows, 7_001):
        part = slice(first, first + 7_001)
        stream.take(sp.csr_matrix(X[part]) if sparse else X[part], numbers[part] % 2)
    rows, labels = stream._joined()
    kept = (rows.toarray() if sparse else rows)[:, 0]
    assert np.unique(np.diff(kept)).tolist() == [8.0]
    assert kept[0] == 0
    assert n_rows - kept[-1] <= 8
    assert labels.tolist() == (kept % 2).tolist()


@pytest.mark.filterwarnings("ignore:Another lab would get")
def test_fits_on_files_say_whether_there_is_signal(tmp_path):
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(3000, 3)), columns=list("abc"))
    y = pd.Series((X["a"] + rng.normal(size=3000) > 0).astype(int), name="y")
    protocol = rl.plan_from_pilot(X[:500], y[:500], samples_per_site=2500).protocol
    X[500:].assign(y=y[500:]).to_parquet(tmp_path / "rows.parquet")
    X[500:].assign(y=rng.permutation(y[500:])).to_parquet(tmp_path / "noise.parquet")
    found = rl.fit_file(protocol.estimator(), tmp_path / "rows.parquet", "y")
    assert found.signal_.p_value < 1e-6
    with pytest.warns(rl.UselessModelWarning, match="show no signal"):
        found = rl.fit_file(protocol.estimator(), tmp_path / "noise.parquet", "y")
    assert found.signal_.p_value > 0.05
