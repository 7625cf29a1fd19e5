"""Exact terms added up over pieces of rows, from files, Arrow batches or Spark."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic

from replearn.codes.encoding import Seen
from replearn.sources.common import Piece
from replearn.sources.labels import Labels
from replearn.stages.batches import Total, add_blocks
from replearn.types import Signs


@dataclass(frozen=True, eq=False)
class Added(Generic[Total]):
    """Exact sums over some rows, and what was odd in them."""

    total: Total | None = None  # None of no rows
    seen: Seen | None = None  # what was missing or unknown in the columns of an encoding
    n_rows: int = 0

    def __add__(self, other: "Added[Total]") -> "Added[Total]":
        return Added(
            _sum(self.total, other.total), _sum(self.seen, other.seen), self.n_rows + other.n_rows
        )


def _sum(first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    return first + second


def add_pieces(
    terms: Callable[[Any, Signs], Total], pieces: Iterable[Piece], labels: Labels
) -> Added[Total]:
    """Sum of ``terms(X, signs)`` over labelled pieces; their order and number do not matter."""
    added: Added[Total] = Added()
    for piece in pieces:
        n_rows, total = piece.X.shape[0], None
        if n_rows:
            assert piece.y is not None  # the pieces are labelled
            total = add_blocks(terms, piece.X, labels.targets(piece.y))
        added += Added(total, piece.seen, n_rows)
    return added
