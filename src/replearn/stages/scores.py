"""Exact sums of scores over rows, and the steps that they allow.

Nothing here knows an order of rows: sums are integers, so chunks, threads, machines and sites add
up to the same bits.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.design import Design
from replearn.codes.randomness import SharedRandomness
from replearn.codes.score_space import ScoreSpace
from replearn.errors import ReplearnError
from replearn.kernels.logistic import (
    Projected,
    ScoreSums,
    project,
    row_score_sums,
    score_sums,
)
from replearn.kernels.score_sums import MAX_TOTAL_WEIGHT
from replearn.kernels.small_algebra import solve_positive, times
from replearn.plans.cell_prices import stay_chance
from replearn.plans.plan_logistic import LogisticPlan, ScoresSpent
from replearn.stages.batches import Rows, Sample
from replearn.stages.weights import GRAINS, parted
from replearn.types import BlockMap, Codes, Vector

#: Longest step after the first, in the metric of the rows' own curvature: a step of Newton's method
#: that goes further than this has left the region where the curvature is known.
_LONGEST_STEP = 1.0

#: What turns weights into exact sums over all rows.
ScorePass = Callable[[Vector], ScoreSums]


def score_pass(sample: Sample, design: Design, run: BlockMap = map) -> ScorePass:
    """The passes of a fit over its rows: exact sums of scores at any weights.

    Rows in memory are projected once if there is more than one pass; others are read anew.
    """
    if design.n_steps > 1 and isinstance(sample, Rows):
        directions, cap = design.direction_rows, design.cap
        kept = sample.add_up(lambda X, targets: ((project(X, directions, cap), targets),), run)

        def again(theta: Vector) -> ScoreSums:
            def part(rows: tuple[Projected, NDArray[Any]]) -> ScoreSums:
                projected, targets = rows
                classes, weights = parted(targets)
                return score_sums(
                    projected,
                    classes,
                    design.space.by_output(theta),
                    design.units,
                    weights,
                    loss=True,
                    most=design.push_numbers,
                    factors=design.class_factors,
                )

            return reduce(ScoreSums.__add__, run(part, kept))

        return again

    # workers of a cluster get this: it must not drag the sample along
    return lambda theta: sample.add_up(partial(score_terms, design, theta), run)


def score_terms(design: Design, theta: Vector, X: Any, targets: NDArray[Any]) -> ScoreSums:
    """What some rows add to a pass at ``theta``: every engine calls this, and adds up.

    X are encoded rows, ``targets`` numbers of classes, or what is regressed on, with weights or
    without (`replearn.stages.weights`). Sums are whole numbers; those of two sets of rows are
    merged by ``+``.
    """
    classes, weights = parted(targets)
    return row_score_sums(
        X,
        design.direction_rows,
        design.cap,
        classes,
        design.space.by_output(theta),
        design.units,
        weights,
        loss=design.n_steps > 1,
        most=design.push_numbers,
        factors=design.class_factors,
    )


@dataclass(frozen=True)
class Scored:
    """What a fit hands back.

    ``components``, in cells, were rounded; ``theta`` is the same before rounding: intercept and
    weights of the directions. ``residual`` is their place in their cell, from its centre. The space
    has the hint that was given, or that this fit, as the first, has chosen; the sums are those of
    the last pass over the rows.
    """

    codes: Codes
    space: ScoreSpace
    components: Vector
    theta: Vector
    residual: Vector
    sums: ScoreSums
    spent: ScoresSpent


def logistic(
    sample: Sample,
    plan: LogisticPlan,
    shared: SharedRandomness,
    run: BlockMap = map,
    hint: int | None = None,
) -> Scored:
    """Logistic regression in published directions: exact passes over the rows, then round.

    The rows may come in any order. ``hint`` was published by the first lab; with hint bits and no
    hint, this fit is the first.
    """
    steps = all_steps(sample, plan.design, run)
    return round_theta(steps.following, steps.sums, plan.design, shared, hint)


def all_steps(sample: Sample, design: Design, run: BlockMap = map) -> "Steps":
    """All passes over the rows that a design asks for; what follows them is rounded."""
    sums_at = score_pass(sample, design, run)
    steps = Steps.start(sums_at(design.space.start_numbers), design)
    for _ in range(design.n_steps - 1):
        steps = steps.then(sums_at(steps.following), design)
    return steps


@dataclass(frozen=True)
class Steps:
    """How far the steps of a fit have come; passes over rows may be made anywhere.

    ``theta`` are the best weights that were looked at, with the sums there; ``following`` is where
    the next pass looks, and what is rounded after the last one.
    """

    theta: Vector
    sums: ScoreSums
    following: Vector
    n_passes: int

    @classmethod
    def start(cls, sums: ScoreSums, design: Design) -> "Steps":
        """After the first pass, at the published start."""
        refuse_unlearnable(sums, design)
        theta = design.space.start_numbers
        return cls(theta, sums, next_theta(theta, sums, design), 1)

    def then(self, looked_at: ScoreSums, design: Design) -> "Steps":
        """After one more pass, at ``following``."""
        n_passes = self.n_passes + 1
        if looked_at.mean_loss() > self.sums.mean_loss():  # too far: half way back, and look again
            return Steps(self.theta, self.sums, (self.theta + self.following) / 2, n_passes)
        further = next_theta(self.following, looked_at, design)
        return Steps(self.following, looked_at, further, n_passes)


def from_one_pass(
    sums: ScoreSums, design: Design, shared: SharedRandomness, hint: int | None = None
) -> Scored:
    """The fit of a design with one step, from the sums over all rows at its start."""
    return round_theta(Steps.start(sums, design).following, sums, design, shared, hint)


def round_theta(
    theta: Vector,
    sums: ScoreSums,
    design: Design,
    shared: SharedRandomness,
    hint: int | None = None,
) -> Scored:
    """Round the weights of a finished fit to codes."""
    components = in_cells(theta, design)
    chosen = best_hint(components, design, shared) if hint is None else hint
    space = design.space.with_hint(chosen)
    per_row = 1 if sums.squares is None else GRAINS
    spent = ScoresSpent(
        n_rows=sums.n_rows,
        n_by_class=()
        if design.space.is_numeric
        else tuple(int(weight) // per_row for weight in sums.class_weights),
        n_zero_rows=sums.n_zero,
        n_shortened=sums.n_capped,
        n_passes=design.n_steps,
        n_effective=None if sums.squares is None else sums.effective_rows,
    )
    codes = space.encode(components, shared)
    residual = space.residual(components, codes, shared)
    return Scored(codes, space, components, theta, residual, sums, spent)


def in_cells(theta: Vector, design: Design) -> Vector:
    """What is rounded of the weights, in cells."""
    reach = design.reach_numbers
    moved = times(design.encode_numbers, theta - design.space.start_numbers)
    return np.clip(moved, -reach, reach)  # never longer than before: no proof changes


def next_theta(theta: Vector, sums: ScoreSums, design: Design) -> Vector:
    """One Newton step: with the published curvature if it is the only one, else with the rows' own.

    The single step is an affine function of the mean score, which is what makes its
    disagreement provable. Later steps are shortened to where their curvature can be trusted, so
    that separable rows give bounded weights.
    """
    gradient = sums.mean_score() + times(design.penalty_numbers, theta - design.space.start_numbers)
    if design.n_steps == 1:
        return theta - _solved(design.curvature_numbers, gradient)
    curvature = sums.mean_fisher() + design.penalty_numbers
    step = _solved(curvature, gradient)
    if design.space.is_numeric:  # its curvature is the same everywhere
        return theta - step
    length = math.sqrt(max(0.0, float(_dot(step, times(curvature, step)))))
    return theta - step * min(1.0, _LONGEST_STEP / max(length, 1e-300))


def best_hint(components: Vector, design: Design, shared: SharedRandomness) -> int:
    """The move of the grid under which another lab is most likely to land in the same cell.

    By the planned spread, not by that of these rows: the choice then depends on where the point
    lies in its cells and on nothing else, which the proof needs (docs/theory.md).
    """
    space = design.space
    if space.hint_bits == 0:
        return 0
    ratios = 1 / np.maximum(design.spread_numbers, 1e-9)
    places = []
    for hint in range(1 << space.hint_bits):
        moved = space.with_hint(hint)
        codes = moved.encode(components, shared)
        places.append(moved.residual(components, codes, shared)[: ratios.size])
    return int(np.argmax(stay_chance(np.array(places), ratios)))


def _solved(matrix: Any, vector: Vector) -> Vector:
    try:
        return np.asarray(solve_positive(matrix, vector))
    except ValueError:
        raise ReplearnError(
            "the curvature of the rows must be positive definite, got a singular one. Raise "
            "regularization, or take fewer directions."
        ) from None


def _dot(left: Vector, right: Vector) -> float:
    return float(times(left[None, :], right)[0])


def refuse_unlearnable(sums: ScoreSums, design: Design) -> None:
    """Refuse a sample of one class, and weights that sums cannot hold."""
    if sums.total_weight > MAX_TOTAL_WEIGHT:
        raise ReplearnError(
            f"weights must add up to at most {MAX_TOTAL_WEIGHT // GRAINS:,}, got "
            f"{sums.total_weight // GRAINS:,}. Divide all by the same number, which all labs agree "
            "on."
        )
    if sums.total_weight == 0:
        raise ReplearnError("weights must not be zero in every row: there is nothing to learn.")
    if not design.space.is_numeric and np.count_nonzero(sums.class_weights) < 2:
        raise ReplearnError(
            "y must hold two classes, got one class. Check the label column; a sample of one "
            "class cannot be learned from."
        )
