"""Sums that no rows can give: what a lab may not claim.

All comparisons are of whole numbers. A lab that makes up whole rows, and adds them up as it should,
is not noticed here; it stands beside the others in `replearn.study.participants`.
"""

from collections.abc import Iterator

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


def refuse_impossible(
    design: GlmDesign, state: State, sums: ExactSums, lab: str, most_rows: int
) -> None:
    """Refuse sums of a lab that no rows can give; ``most_rows`` is what any lab may claim."""
    problem = _problem(design, state, sums, most_rows)
    if problem:
        raise ReplearnError(f"the sums of {lab!r} cannot be of rows: {problem}. Ask that lab.")


def _problem(design: GlmDesign, state: State, sums: ExactSums, most_rows: int) -> str:
    """What is wrong with the sums of a lab, in words; nothing if rows can give them."""
    rows = sums.count("rows")
    if not 0 < rows <= most_rows:
        return f"they claim {rows:,} rows, and at most {most_rows:,} are believed"
    if not _are_asked_for(design, state, sums):
        return "they are not those that the round asks for"
    if state.scale is None:
        return _on_exponents(sums)

    # each check relies on those before it
    problem = _on_counts(design, sums)
    if not problem and state.newton is not None:
        problem = _on_step(design, state, state.newton, sums)
    if not problem and state.then:
        problem = _on_spread(sums)
    return problem


def _are_asked_for(design: GlmDesign, state: State, sums: ExactSums) -> bool:
    """Whether they have the names and shapes that a lab without rows would send."""
    asked, values = add_up(design, state, ()).values, sums.values
    if set(asked) != set(values):
        return False
    for name, value in values.items():
        if asked[name].size != value.size or (value.size and asked[name].shape != value.shape):
            return False
    return True


def _on_exponents(sums: ExactSums) -> str:
    """Weights are counted once each."""
    counts = sums.values["exponents"]
    if (counts >= 0).all() and counts.sum() <= sums.count("rows"):
        return ""
    return "their weights do not add up to their rows"


def _on_step(design: GlmDesign, state: State, asked: NewtonState, sums: ExactSums) -> str:
    """Gradient and information, at the constant model against the labels, too."""
    problem = _on_gradient(design, asked, sums) or _on_information(design, asked, sums)
    if problem or asked.behind is not None or state.counts is None:
        return problem
    return _on_first_gradient(design, asked, sums)


def _on_spread(sums: ExactSums) -> str:
    """Squares of influences, and their squares."""
    squares, fourth = sums.reals("spread") * 2.0**-SPREAD_BITS
    many = 2 * sums.count("sampled") * fourth + 1e-6  # Cauchy and Schwarz; they are on a grid
    if (squares < 0).any() or (squares * squares > many).any():
        return "the sums of squared influences that they sent are not possible together"
    return ""


def _on_counts(design: GlmDesign, sums: ExactSums) -> str:
    """Rows, their weights, classes and cells."""
    loss, counts = design.loss, Counts.of(sums)

    # rows weigh from one unit to 1; without weights all of them 1
    most = least = counts.rows << WEIGHT_BITS
    if design.weights or design.class_weight:
        least = counts.rows
    if not least <= counts.weight <= most:
        return f"{counts.rows:,} rows cannot have the weight {counts.weight * 2.0**-WEIGHT_BITS:,}"

    totals, cut = counts.totals, _cut(loss, counts)
    if loss.by_class:
        if not (totals >= 0).all() or totals.sum() != counts.weight:
            return "their classes do not add up to their rows"
        if least == counts.weight and (totals % (1 << WEIGHT_BITS)).any():
            return "some class has a part of a row"
    elif abs(totals[0]) > cut or (loss.least == 0 and totals[0] < 0):
        return "the mean of their targets is out of reach"

    cells = sums.values["cells"]
    if not ((cells >= 0) & (cells <= counts.rows)).all():
        return "they count more cells than rows"
    return ""


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


def _on_gradient(design: GlmDesign, asked: NewtonState, sums: ExactSums) -> str:
    """Residuals, and products of them with encoded numbers, are bounded."""
    gradient = sums.values["gradient"]
    if gradient.shape != asked.theta.shape:
        return f"their gradient has the shape {gradient.shape} in place of {asked.theta.shape}"
    for row, (low, high, size) in zip(gradient, _residuals(design, sums), strict=True):
        if row[0] % _ONE:
            return "their gradient has a part of a unit"
        if not low <= row[0] // _ONE <= high:
            return "their gradient contradicts their targets"
        if max(map(abs, row.tolist())) > MAX_ROW * size:
            return "their gradient is larger than their rows allow"
    return ""


def _on_first_gradient(design: GlmDesign, asked: NewtonState, sums: ExactSums) -> str:
    """At the constant model every class has one residual, so that its rows are counted again."""
    loss, counts = design.loss, Counts.of(sums)
    if not loss.by_class or design.offset or (asked.theta[:, 1:]).any():
        return ""
    if design.weights or design.class_weight:
        return ""

    # one residual for each class, the same for all of its rows
    n_classes = len(counts.totals)
    constant = np.repeat(asked.theta[:, :1].T * 2.0**-26, n_classes, axis=0)
    residuals = on_grid(loss.residual(constant, np.arange(n_classes, dtype=np.float64)), loss.bits)

    sizes = counts.totals >> WEIGHT_BITS
    for k in range(loss.n_scores):
        due = sum(int(r) * int(n) for r, n in zip(residuals[:, k], sizes, strict=True))
        if sums.values["gradient"][k, 0] != due * _ONE:
            return "their gradient contradicts their labels"
    return ""


def _on_information(design: GlmDesign, asked: NewtonState, sums: ExactSums) -> str:
    """Sums of curvatures are bounded, and their matrix is positive."""
    loss, weight, sampled = design.loss, sums.count("weight"), sums.count("sampled")
    n_scores, n_columns = asked.theta.shape
    is_sample = asked.sample_threshold != EVERY_ROW
    if not 0 <= sampled <= weight or (sampled != weight and not is_sample):
        return "their information is of more or fewer rows than it should be"
    if not asked.sample_threshold:
        return ""

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
        total = int(block[0, 0]) // _COARSE_ONE**2
        if block[0, 0] % _COARSE_ONE**2 or abs(total) > most or (k == m and total < 0):
            return "their information is above its maximum"
        if k != m:
            continue
        if total < least - 2 * slack:
            return "their information is not that of their rows"
        if problem := _on_block(block):
            return problem

    # curvatures are rounded for each pair of scores, so all blocks are positive up to that
    loose = 0
    if n_scores > 1:
        loose = n_scores * slack * (_LARGEST * _COARSE_ONE) ** 2 * n_columns
    if _least_eigenvalue(blocks, n_scores) < -loose:
        return "their information is not positive"
    return ""


def _on_block(block: WholeNumbers) -> str:
    """The information of one score, a matrix."""
    diagonal = np.diagonal(block)
    if (diagonal < 0).any() or (diagonal > _LARGEST**2 * block[0, 0]).any():
        return "their information is above its maximum"
    if (block**2 > diagonal[:, None] * diagonal).any():
        return "their information breaks the inequality of Cauchy and Schwarz"
    return ""


def _least_eigenvalue(parts: WholeNumbers, n_scores: int) -> float:
    """Of the whole matrix over scores and columns; what float64 cannot tell from 0 is 0."""
    values = np.linalg.eigvalsh(over_scores(parts.astype(np.float64), n_scores))
    least, most = float(values[0]), float(np.abs(values).max())
    if least > -1e-12 * values.size * most:
        return 0.0
    return least
