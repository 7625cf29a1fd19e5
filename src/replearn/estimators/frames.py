"""Dataframes of any library, before scikit-learn turns them into arrays."""

from typing import Any

import narwhals as nw

from replearn.errors import ReplearnError


def collected(X: Any) -> Any:
    """A lazy dataframe, computed; anything else as it is."""
    frame = nw.from_native(X, pass_through=True)
    return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else X


def refuse_other_than_numbers(X: Any) -> None:
    """Refuse a dataframe with columns that are not numbers, and say which; arrays pass."""
    frame = nw.from_native(X, pass_through=True, eager_only=True)
    if not isinstance(frame, nw.DataFrame):
        return
    for name, kind in frame.schema.items():
        if not (kind.is_numeric() or kind in (nw.Boolean, nw.Object, nw.Unknown)):
            raise ReplearnError(
                f"column {name!r} of X must hold numbers, got {kind}. Leave it out, turn it into "
                "numbers in the same way at every lab, or make a protocol that says how "
                "(plan_from_pilot, replearn plan --pilot)."
            )
