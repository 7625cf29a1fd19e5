"""Dataframes of any library, before scikit-learn turns them into arrays."""

from typing import Any

import narwhals as nw
from narwhals.exceptions import DuplicateError

from replearn.errors import ReplearnError


def collected(X: Any) -> Any:
    """A lazy dataframe, computed; anything else as it is."""
    frame = _frame(X)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else X


def refuse_other_than_numbers(X: Any) -> None:
    """Refuse a dataframe with columns that are not numbers, and say which; arrays pass."""
    frame = _frame(X, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return
    for name, kind in frame.schema.items():
        if not (kind.is_numeric() or kind in (nw.Boolean, nw.Object, nw.Unknown)):
            raise ReplearnError(
                f"column {name!r} of X must hold numbers, got {kind}. Leave it out, turn it into "
                "numbers in the same way at every lab, or make a protocol that says how "
                "(plan_from_pilot, replearn plan --pilot)."
            )


def _frame(X: Any, **settings: bool) -> Any:
    """A dataframe as narwhals sees it; anything else as it is."""
    try:
        return nw.from_native(X, pass_through=True, **settings)
    except DuplicateError as problem:
        raise ReplearnError(
            f"X must have different column names: {' '.join(str(problem).split())}. Rename them."
        ) from None
