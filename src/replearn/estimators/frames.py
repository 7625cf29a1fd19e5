"""Dataframes of any library, before scikit-learn turns them into arrays."""

from typing import Any

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError

from replearn.codes.encoding import Encoding, Seen
from replearn.errors import ReplearnError


def numbers_of(X: Any, encoding: Encoding | None) -> tuple[Any, Seen | None]:
    """Rows as numbers, and what was missing or unknown, if there is an encoding.

    A lazy dataframe is computed. Without an encoding other tables and arrays are returned as they
    are, and a dataframe with columns that are not numbers is refused.
    """
    if isinstance(X, np.ndarray):
        return (X, None) if encoding is None else encoding.counted(X)
    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError as problem:
        raise ReplearnError(
            f"X must have different column names: {' '.join(str(problem).split())}. Rename them."
        ) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
        X = frame.to_native()
    if encoding is not None:
        return encoding.counted(X)
    for name, kind in frame.schema.items() if isinstance(frame, nw.DataFrame) else ():
        if not (kind.is_numeric() or kind in (nw.Boolean, nw.Object, nw.Unknown)):
            raise ReplearnError(
                f"column {name!r} of X must hold numbers, got {kind}. Leave it out, turn it into "
                "numbers in the same way at every lab, or make a protocol that says how "
                "(plan_from_pilot, replearn plan --pilot)."
            )
    return X, None
