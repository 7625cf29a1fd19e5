"""Sums that no rows can give: what a lab may not claim.

All comparisons are of whole numbers. A lab that makes up whole rows, and adds them up as it should,
is not noticed here; it stands beside the others in `replearn.study.participants`.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import GlmDesign, Loss, NewtonState, over_scores, unpacked
from replearn.rows import (
    COARSE,
    EVERY_ROW,
    MAX_ROW,
    ROW_BITS,
    WEIGHT_BITS,
    ExactSums,
    WholeNumbers,
    on_grid,
)
from replearn.study.passes import SPREAD_BITS, Counts, State, add_up

#: One, as the constant column has it, on the fine and on the coarse grid.
_ONE = 1 << ROW_BITS
_COARSE_ONE = int(_ONE / COARSE)
#: No encoded number is larger than this many ones.
_LARGEST = MAX_ROW // _ONE


class _Impossible(Exception):
    """What no rows can give, in words."""


def _must(holds: Any, problem: str) -> None:
    if not holds:
        raise _Impossible(problem)


def refuse_impossible(
    design: GlmDesign, state: State, sums: ExactSums, lab: str, most_rows: int
) -> None:
    """Refuse sums of a lab that no rows can give; ``most_rows`` is what any lab may claim."""
    try:
        _check(design, state, sums, most_rows)
    except _Impossible as problem:
        raise ReplearnError(
            f"the sums of {lab!r} cannot be of rows: {problem}. Ask that lab."
        ) from None


def _check(design: GlmDesign, state: State, sums: ExactSums, most_rows: int) -> None:
    """Each check relies on those before it."""
    rows = sums.count("rows")
    _must(
        0 < rows <= most_rows, f"they claim {rows:,} rows, and at most {most_rows:,} are believed"
    )
    _must(_are_asked_for(design, state, sums), "they are not those that the round asks for")
    if state.scale is None:
        _check_exponents(sums)
        return

    _check_counts(design, sums)
    if state.newton is not None:
        _check_step(design, state, state.newton, sums)
    if state.then:
        _check_spread(sums)


def _are_asked_for(design: GlmDesign, state: State, sums: ExactSums) -> bool:
    """Whether they have the names and shapes that a lab without rows would send."""
    asked, values = add_up(design, state, ()).values, sums.values
    if set(asked) != set(values):
        return False
    for name, value in values.items():
        if asked[name].size != value.size or (value.size and asked[name].shape != value.shape):
            return False
    return True


def _check_exponents(sums: ExactSums) -> None:
    """Weights are counted once each."""
    counts = sums.values["exponents"]
    is_whole = (counts >= 0).all() and counts.sum() <= sums.count("rows")
    _must(is_whole, "their weights do not add up to their rows")


def _check_step(design: GlmDesign, state: State, asked: NewtonState, sums: ExactSums) -> None:
    """Gradient and information, at the constant model against the labels, too."""
    _check_gradient(design, asked, sums)
    _check_information(design, asked, sums)
    if asked.behind is None and state.counts is not None:
        _check_first_gradient(design, asked, sums)


def _check_spread(sums: ExactSums) -> None:
    """Squares of influences, and their squares."""
    squares, fourth = sums.reals("spread") * 2.0**-SPREAD_BITS
    many = 2 * sums.count("sampled") * fourth + 1e-6  # Cauchy and Schwarz; they are on a grid
    _must(
        (squares >= 0).all() and (squares * squares <= many).all(),
        "the sums of squared influences that they sent are not possible together",
    )


def _check_counts(design: GlmDesign, sums: ExactSums) -> None:
    """Rows, their weights, classes and cells."""
    loss, counts = design.loss, Counts.of(sums)

    # rows weigh from one unit to 1; without weights all of them 1
    most = least = counts.rows << WEIGHT_BITS
    if design.weights or design.class_weight:
        least = counts.rows
    _must(
        least <= counts.weight <= most,
        f"{counts.rows:,} rows cannot have the weight {counts.weight * 2.0**-WEIGHT_BITS:,}",
    )

    totals, cut = counts.totals, _cut(loss, counts)
    if loss.by_class:
        adds_up = (totals >= 0).all() and totals.sum() == counts.weight
        _must(adds_up, "their classes do not add up to their rows")
        is_whole = least < counts.weight or not (totals % (1 << WEIGHT_BITS)).any()
        _must(is_whole, "some class has a part of a row")
    else:
        is_near = abs(totals[0]) <= cut and (loss.least != 0 or totals[0] >= 0)
        _must(is_near, "the mean of their targets is out of reach")

    cells = sums.values["cells"]
    _must(((cells >= 0) & (cells <= counts.rows)).all(), "they count more cells than rows")


def _cut(loss: Loss, counts: Counts) -> int:
    """The largest sum of targets, with half a unit in each row and more."""
    return int(loss.cut) * counts.weight + counts.rows


def _residuals(design: GlmDesign, sums: ExactSums) -> Iterator[tuple[int, int, int]]:
    """For each score the sum of residuals, at least and at most, and of their sizes at most.

    With P the sum of predictions and T that of targets, the residuals add up to P - T, and their
    sizes to at most P + T if neither is ever negative.
    """
    loss, counts = design.loss, Counts.of(sums)
    shift, half = loss.bits - WEIGHT_BITS, counts.rows  # half a unit in each row, and more
    for k in range(loss.n_scores):
        # the gradient of the constant is the sum of residuals
        residual = int(sums.values["gradient"][k, 0]) // _ONE
        low, high = (_times(abs(end) * counts.weight, shift) for end in loss.predicted)
        target = _times(counts.totals[k + 1 if loss.by_class else 0], shift)

        # P + T = (P - T) + 2 T, or, where predictions may be negative, the largest of both
        size = residual + 2 * target
        if low:
            size = high + _times(int(loss.cut) * counts.weight, shift)
        yield -low - target - half, high - target + half, size + half


def _times(value: int, shift: int) -> int:
    """``value * 2^shift``, away from zero."""
    return value << shift if shift >= 0 else -(-value >> -shift)


def _check_gradient(design: GlmDesign, asked: NewtonState, sums: ExactSums) -> None:
    """Residuals, and products of them with encoded numbers, are bounded."""
    gradient = sums.values["gradient"]
    _must(
        gradient.shape == asked.theta.shape,
        f"their gradient has the shape {gradient.shape} in place of {asked.theta.shape}",
    )
    for row, (low, high, size) in zip(gradient, _residuals(design, sums), strict=True):
        residual, part = divmod(row[0], _ONE)
        _must(not part, "their gradient has a part of a unit")
        _must(low <= residual <= high, "their gradient contradicts their targets")
        largest = max(map(abs, row.tolist()))
        _must(largest <= MAX_ROW * size, "their gradient is larger than their rows allow")


def _check_first_gradient(design: GlmDesign, asked: NewtonState, sums: ExactSums) -> None:
    """At the constant model every class has one residual, so that its rows are counted again."""
    loss, counts = design.loss, Counts.of(sums)
    if not loss.by_class or design.offset or (asked.theta[:, 1:]).any():
        return
    if design.weights or design.class_weight:
        return

    # one residual for each class, the same for all of its rows
    n_classes = len(counts.totals)
    constant = np.repeat(asked.theta[:, :1].T * 2.0**-26, n_classes, axis=0)
    residuals = on_grid(loss.residual(constant, np.arange(n_classes, dtype=np.float64)), loss.bits)

    sizes = counts.totals >> WEIGHT_BITS
    for k in range(loss.n_scores):
        due = sum(int(r) * int(n) for r, n in zip(residuals[:, k], sizes, strict=True))
        is_due = sums.values["gradient"][k, 0] == due * _ONE
        _must(is_due, "their gradient contradicts their labels")


def _check_information(design: GlmDesign, asked: NewtonState, sums: ExactSums) -> None:
    """Sums of curvatures are bounded, and their matrix is positive."""
    loss, weight, sampled = design.loss, sums.count("weight"), sums.count("sampled")
    n_scores, n_columns = asked.theta.shape
    is_sample = asked.sample_threshold != EVERY_ROW
    _must(
        0 <= sampled <= weight and (sampled == weight or is_sample),
        "their information is of more or fewer rows than it should be",
    )
    if not asked.sample_threshold:
        return

    # between which sums of curvatures lie
    slack = sums.count("rows")  # half a unit in each row, and more
    least, most = (
        _times(int(end * 4) * sampled, loss.bits - WEIGHT_BITS) // 4 + slack
        for end in loss.curvatures
    )

    # a block for each pair of scores
    blocks = unpacked(sums.values["information"], n_columns)
    pairs = zip(*np.triu_indices(n_scores), strict=True)
    for block, (k, m) in zip(blocks, pairs, strict=True):
        total, part = divmod(int(block[0, 0]), _COARSE_ONE**2)
        is_bounded = not part and abs(total) <= most and (k != m or total >= 0)
        _must(is_bounded, "their information is above its maximum")
        if k == m:
            _must(total >= least - 2 * slack, "their information is not that of their rows")
            _check_block(block)

    # curvatures are rounded for each pair of scores, so all blocks are positive up to that
    loose = 0
    if n_scores > 1:
        loose = n_scores * slack * (_LARGEST * _COARSE_ONE) ** 2 * n_columns
    _must(_least_eigenvalue(blocks, n_scores) >= -loose, "their information is not positive")


def _check_block(block: WholeNumbers) -> None:
    """The information of one score, a matrix."""
    diagonal = np.diagonal(block)
    is_bounded = (diagonal >= 0).all() and (diagonal <= _LARGEST**2 * block[0, 0]).all()
    _must(is_bounded, "their information is above its maximum")
    _must(
        (block**2 <= diagonal[:, None] * diagonal).all(),
        "their information breaks the inequality of Cauchy and Schwarz",
    )


def _least_eigenvalue(parts: WholeNumbers, n_scores: int) -> float:
    """Of the whole matrix over scores and columns; what float64 cannot tell from 0 is 0."""
    values = np.linalg.eigvalsh(over_scores(parts.astype(np.float64), n_scores))
    least, most = float(values[0]), float(np.abs(values).max())
    if least > -1e-12 * values.size * most:
        return 0.0
    return least
