"""A lab's own estimates, of its numbers as they are.

A study sets numbers beyond its range to the ends, so that no row moves the shared model far. A
statistician's fit takes them as they are, and a few of them may turn a slope. So do own estimates:
where a lab has such numbers, its rows are encoded anew in a range that holds them.
"""

from dataclasses import replace

import numpy as np

from replearn.glm import Estimates, Gaussian, Summary, estimates_of
from replearn.rows import Block, MemoryBlocks, Rows, joined, on_grid
from replearn.study.encoder import RowEncoder, TableRows
from replearn.tables import EncodingCounts, target_numbers
from replearn.types import Matrix

#: What is said where a lab has none.
NO_ESTIMATES = (
    "No standard errors: own estimates are for at most 500 coefficients of single columns."
)


def own_estimates(source: TableRows, rows: Rows, theta: Matrix) -> Estimates | None:
    """Estimates of the rows of a table, ``theta`` being their fit in whole units.

    Rows that are not in memory, or have changed since they were fitted, keep the study's range.
    """
    # a range that holds the lab's own numbers; they are encoded anew if the study's does not
    encoder, wider = source.encoder, _reaching(source)
    is_same = wider.encoding == encoder.encoding and wider.loss == encoder.loss
    kept = None
    if not is_same and encoder.directions is None:
        kept = _encoded_anew(source, rows, wider)
    if kept is None:
        return estimates_in_range(rows, encoder, source.seen, theta)

    # the same coefficients, in units of the wider range
    here, there = (one.encoding.per_unit(np.eye(theta.shape[1])) for one in (encoder, wider))
    turned = np.linalg.solve(there.T, (theta @ here).T).T
    start = on_grid(turned * (encoder.loss.scale[0] / wider.loss.scale[0]), 0)
    stretch = np.diagonal(here) / np.diagonal(there)

    summary = Summary.of(kept, wider.loss)
    estimates = estimates_of(kept, wider.encoding, wider.loss, start, summary, stretch)
    n_beyond = int(source.seen.clipped.sum())
    return estimates and replace(estimates, n_beyond=n_beyond, as_they_are=True)


def estimates_in_range(
    rows: Rows, encoder: RowEncoder, seen: EncodingCounts, theta: Matrix
) -> Estimates | None:
    """Estimates of encoded rows, whose numbers beyond the range are set to its ends."""
    n_beyond = int(seen.clipped.sum())
    summary = Summary.of(rows, encoder.loss)
    estimates = estimates_of(rows, encoder.encoding, encoder.loss, theta, summary)
    return estimates and replace(estimates, n_beyond=n_beyond)


def _reaching(source: TableRows) -> RowEncoder:
    """How rows are encoded in a range that holds them."""
    encoder, seen = source.encoder, source.seen
    loss = encoder.loss
    if isinstance(loss, Gaussian):
        loss = loss.reaching(target_numbers(source.table.whole("target")))
    return replace(
        encoder, encoding=encoder.encoding.reaching(seen.lowest, seen.highest), loss=loss
    )


def _encoded_anew(source: TableRows, rows: Rows, wider: RowEncoder) -> MemoryBlocks | None:
    """The same rows in a wider range; None if they are not the same, or not in memory."""
    if not isinstance(rows, MemoryBlocks):
        return None

    # rows whose hashes are others have changed since they were fitted
    hashes, start = rows.block.hashes, 0
    blocks = list[Block]()
    for batch in source.table.batches():
        before = source.encoder.block(batch, source.scale)
        end = start + before.n_rows
        if not np.array_equal(before.hashes, hashes[start:end]):
            return None
        blocks.append(wider.block(batch, source.scale))
        start = end
    return MemoryBlocks(wider.with_levels(joined(blocks)), rows.work)
