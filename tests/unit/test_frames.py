"""Dataframes of every library give one model; what is no number is named."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import replearn as rl
from replearn.datasets import make_margin
from replearn.errors import ReplearnError

pytestmark = pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")

X, Y = make_margin(1000, 3, margin=0.2, random_state=1)
COLUMNS = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}
TOWNS = np.where(Y > 0, "Oslo", "Rome")


def fitted(rows, y=Y):
    return rl.ReplicableSVMClassifier(margin=0.2, shared_seed=1).fit(rows, y)


MAKERS = {
    "pandas": pd.DataFrame,
    "pandas, nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "Arrow": pa.table,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_every_library_gives_the_model_of_an_array(make):
    model = fitted(make(COLUMNS))
    assert model.fingerprint_ == fitted(X).fingerprint_
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (model.predict(make(COLUMNS)) == fitted(X).predict(X)).all()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
@pytest.mark.parametrize(
    "values",
    [TOWNS, np.full(1000, np.datetime64("2020-01-01", "us"))],
    ids=["text", "dates"],
)
def test_columns_that_are_no_numbers_are_named_with_the_remedy(make, values):
    with pytest.raises(ReplearnError, match=r"column 't' of X must hold numbers.*protocol"):
        fitted(make({**COLUMNS, "t": values}))
    model = fitted(make(COLUMNS))
    with pytest.raises(ReplearnError, match="column 'a' of X must hold numbers"):
        model.predict(make({**COLUMNS, "a": values}))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_missing_values_are_named_by_row_and_column(make):
    holes = [None, *X[1:, 1].tolist()]
    with pytest.raises(ReplearnError, match="NaN in row 0, column 'b'"):
        fitted(make({**COLUMNS, "b": holes}))
