"""Dataframes of any library, before scikit-learn turns them into arrays."""

from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from replearn.errors import ReplearnError


def eager_table(X: Any, *, numbers_only: bool) -> Any:
    """Compute a lazy dataframe; other tables and arrays are returned as they are.

    Parameters
    ----------
    X : array, matrix or dataframe
    numbers_only : bool
        Refuse a dataframe with columns that are not numbers, and say which.
    """
    if isinstance(X, np.ndarray):
        return X
    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError as problem:
        raise ReplearnError(
            f"X must have different column names: {' '.join(str(problem).split())}. Rename them."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
        X = frame.to_native()
    if not numbers_only or not isinstance(frame, nw.DataFrame):
        return X
    for name, kind in frame.schema.items():
        if not (kind.is_numeric() or kind in (nw.Boolean, nw.Object, nw.Unknown)):
            raise ReplearnError(
                f"column {name!r} of X must hold numbers, got {kind}. Leave it out, turn it into "
                "numbers in the same way at every lab, or make a protocol that says how "
                "(plan_from_pilot, replearn plan --pilot)."
            )
    return X
