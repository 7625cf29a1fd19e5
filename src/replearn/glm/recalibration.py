"""Recalibration: the constants of a model fitted anew on other rows, its slopes kept.

The score of the slopes is an offset, and Newton's method fits constants beside it: an exact fit in
whole numbers, like every other one. With a factor, one number multiplies all slopes. It is fitted
together with a constant first, rounded to thousandths, and constants are fitted beside the slopes
times that: so the model that a file holds predicts as many events as were seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from replearn.documents import DecimalText, Integers, Part, Sha256, decimal_text
from replearn.errors import NotConverged, ReplearnError, Unbounded
from replearn.glm.losses import Loss
from replearn.glm.newton import Summary, fit
from replearn.rows import (
    MAX_ROW,
    ROW_BITS,
    THETA_BITS,
    Block,
    MemoryBlocks,
    Rows,
    joined,
    on_grid,
    pieces,
    scores,
)
from replearn.types import BlockMap, Codes, Matrix

#: Constants in whole units of 2^-26 stay below it.
MOST_UNITS = 1 << 31
#: The score of the slopes enters a fit divided by 4, so that scores up to 16 are on the grid.
_SCORE_SHIFT = 2
#: Factors are published in thousandths, up to 1,000.
_THOUSANDTHS, _DIGITS = 1000, 7
#: Nothing pulls at what is recalibrated.
_NO_RIDGE = "0"

Constants = Annotated[Codes, Integers(1, -MOST_UNITS, MOST_UNITS, 100)]
Factor = Annotated[str, DecimalText(digits=_DIGITS, low=0.001, high=1000)]


@dataclass(frozen=True)
class Recalibration(Part):
    """What makes an updated model of its parent: part of the updated model's fingerprint.

    Attributes
    ----------
    parent : SHA-256
        Fingerprint of the model that was updated.
    constants : array
        In place of the decoded ones, in whole units of 2^-26, one for each score.
    factor : decimal text
        On the decoded slopes.
    """

    parent: Sha256
    constants: Constants
    factor: Factor = "1"

    def applied(self, theta: Matrix) -> Matrix:
        """Coefficients, the constant first, after recalibration."""
        return with_constants(theta * float(self.factor), self.constants)


def with_constants(theta: Matrix, constants: Codes) -> Matrix:
    """The same slopes with other constants, which are in whole units."""
    return np.column_stack([constants * 2.0**-THETA_BITS, theta[:, 1:]])


def slopes_of(theta: Matrix, factor: str = "1") -> Matrix:
    """Slopes times a factor in whole units, with constants of 0."""
    slopes: Matrix = on_grid(theta * float(factor), THETA_BITS)
    slopes[:, 0] = 0.0
    return slopes


@dataclass(frozen=True)
class _Scored(Rows):
    """Rows whose columns are gone: the score of the slopes is an offset, or the only column."""

    rows: Rows
    slopes: Matrix
    as_column: bool = False

    @property
    def n_terms(self) -> int:
        """Encoded numbers of a row, without the constant."""
        return int(self.as_column)

    @property
    def n_rows(self) -> int:
        """As of the rows."""
        return self.rows.n_rows

    @property
    def work(self) -> BlockMap:
        """As of the rows."""
        return self.rows.work

    def blocks(self) -> Iterator[Block]:
        """The rows, from the beginning."""
        for block in self.rows.blocks():
            for piece in pieces(block, self.slopes.shape[1]):
                yield self._scored(piece)

    def _scored(self, piece: Block) -> Block:
        # beside an offset only the constants are free
        if not self.as_column:
            none = np.zeros((piece.n_rows, 0), dtype=np.int16)
            return Block(none, piece.targets, piece.weights, piece.scores(self.slopes))

        # as the only column it has a coefficient, on the grid of encoded numbers
        column = on_grid(scores(piece.terms, self.slopes, None), ROW_BITS - _SCORE_SHIFT)
        terms = np.clip(column, -MAX_ROW, MAX_ROW).astype(np.int16)
        return Block(terms, piece.targets, piece.weights, piece.offset)

    def kept(self) -> Rows:
        """The same, scored once if the rows are in memory."""
        if not isinstance(self.rows, MemoryBlocks):
            return self
        return MemoryBlocks(joined(list(self.blocks())), self.rows.work)


def fit_constants(rows: Rows, loss: Loss, slopes: Matrix) -> Codes:
    """Constants at which the mean loss of rows is smallest, given slopes in whole units."""
    theta = _fitted(
        _Scored(rows, slopes),
        loss,
        "the constant must have a bounded fit beside the model's slopes, got none: scores of "
        "these rows lie far away from the outcomes. Check units and the target's coding.",
    )
    return theta[:, 0].astype(np.int64)


def fit_factor(rows: Rows, loss: Loss, slopes: Matrix) -> str:
    """The factor on slopes at which the mean loss of rows is smallest, its constant free.

    In thousandths: a model of one score alone has it.
    """
    assert loss.n_scores == 1
    theta = _fitted(
        _Scored(rows, slopes, as_column=True),
        loss,
        "the factor on the slopes must be below 4, but these rows drive it further. Use the "
        "constant alone, or get more rows.",
    )
    return thousandths(float(theta[0, 1]) * 2.0 ** -(THETA_BITS + _SCORE_SHIFT))


def _fitted(scored: _Scored, loss: Loss, refusal: str) -> Matrix:
    """Coefficients of scored rows; the refusal says what stands in the way of a bounded fit."""
    rows = scored.kept()  # scored once for all passes
    summary = Summary.of(rows, loss).check(loss)
    try:
        return fit(rows, loss, _NO_RIDGE, summary)
    except (Unbounded, NotConverged):
        raise ReplearnError(refusal) from None


def thousandths(factor: float) -> str:
    """A factor as files have it."""
    whole = float(np.floor(factor * _THOUSANDTHS + 0.5))
    if whole < 1:
        raise ReplearnError(
            f"the factor on the slopes must be positive, got {factor:.3g}: the model ranks these "
            "rows the wrong way round, and no factor mends that. Check the target's coding, or fit "
            "a model of your own."
        )
    return decimal_text(whole / _THOUSANDTHS, _DIGITS)
