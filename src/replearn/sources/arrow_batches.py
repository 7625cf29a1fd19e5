"""Record batches of Arrow from any engine, as numbers and labels."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import Encoding
from replearn.errors import ReplearnError
from replearn.sources.arrow_columns import is_number, is_text, numbers, objects, values
from replearn.sources.common import Piece, check_names
from replearn.sources.matrices import BadCell, as_matrix, category_names, check_labels

_PLACE = "the Arrow batches"


def arrow_pieces(
    batches: Iterable[Any], target: str, encoding: Encoding | None = None
) -> Iterator[Piece]:
    """Rows of record batches, or of Arrow tables, as numbers.

    They have the columns of the encoding and the target, in any order; others are left out.
    Without an encoding, all columns but the target are taken, in their order.
    """
    first_row = 0
    for batch in batches:
        rows = batch.combine_chunks().to_batches() if hasattr(batch, "to_batches") else [batch]
        for part in rows:
            if part.num_rows:
                yield _piece(part, target, encoding, first_row)
                first_row += part.num_rows


def arrow_labels(batch: Any, target: str) -> NDArray[Any]:
    """The labels of a record batch, as they stand."""
    _check_type(batch, target, may_be_text=True)
    return values(batch.column(target))


def _check_type(batch: Any, name: str, may_be_text: bool) -> None:
    kind = batch.schema.field(name).type
    if not is_number(kind) and not (may_be_text and is_text(kind)):
        rule = "numbers or text" if may_be_text else "numbers"
        raise ReplearnError(
            f"{_PLACE}, column {name!r} must hold {rule}, got {kind}. Convert it in the query."
        )


def _piece(batch: Any, target: str, encoding: Encoding | None, first_row: int) -> Piece:
    found = batch.schema.names
    check_names(_PLACE, found)
    wanted = [name for name in found if name != target]
    if encoding is not None:
        wanted = [column.name for column in encoding.columns]
    for name in (*wanted, target):
        if name not in found:
            raise ReplearnError(
                f"column {name!r} must be in {_PLACE}, got {', '.join(map(repr, found[:8]))}. "
                "Select it in the query, or rename it."
            )
    categories = category_names(encoding)
    for name in (*wanted, target):
        _check_type(batch, name, may_be_text=name in categories or name == target)
    try:
        y = values(batch.column(target))
        check_labels(y, target)
        read = {n: (objects if n in categories else numbers)(batch.column(n)) for n in wanted}
        X, seen = as_matrix(read, wanted, encoding, np.float64)
    except BadCell as bad:
        raise ReplearnError(
            f"{_PLACE}, row {first_row + bad.row} (counted from 0), column {bad.column!r} must "
            f"{bad.rule}. {bad.remedy}."
        ) from None
    return Piece(X, y, first_row, seen)
