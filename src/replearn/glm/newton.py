"""The fit of a generalised linear model, in whole numbers: Newton's method with exact gradients.

The gradient is an exact sum over all rows. The information matrix only steers: it comes from a
share of the rows, chosen by their content, and on coarser grids. Beyond 500 coefficients it is
that of each class alone (see `replearn.glm.preconditioners`). Gradients of the steps since then
correct it (L-BFGS). So the result is a function of the multiset of rows: no order, chunk, thread,
BLAS kernel or machine changes a bit.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Literal, NamedTuple

import numpy as np

from replearn.documents import Integers, Length, Part, Range, Unfit
from replearn.errors import NotConverged, ReplearnError, Unbounded
from replearn.exact import algebra
from replearn.glm.derivatives import (
    Form,
    form_of,
    information_at,
    information_shape,
    mean_gradient,
    ready,
    sums_at,
)
from replearn.glm.losses import Loss
from replearn.glm.preconditioners import Preconditioner, preconditioner_of
from replearn.rows import (
    EVERY_ROW,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    ExactSums,
    MemoryBlocks,
    Rows,
    WholeNumbers,
    integers,
    on_grid,
)
from replearn.types import BlockMap, Matrix, Vector

#: A fit ends so many units of 2^-26 from its limit, divided by the root of the number of rows:
#: a hundredth of the smallest standard error that a logistic coefficient can have.
_NEAR = 1 << 20
#: But at most 2^-10, however few the rows; choices and checks stop there.
NEAR_ENOUGH = 1 << 16
#: Coefficients of standardised columns stay below this; beyond, the classes are separable.
MAX_THETA = 16.0
#: The information matrix comes from about so many rows for each coefficient.
ROWS_PER_COEFFICIENT = 128
#: It is made again while steps are larger than this; only after larger ones with a guide, or if it
#: is that of each class alone, which is made again after so many steps, too.
_LARGE_STEP, _LARGE_GUIDED_STEP = 2.0**-3, 1.0
_MOST_BY_CLASS = 10
#: Steps since then that are remembered.
_MEMORY = 10
#: Steps at most: splines of 26 classes with a weak ridge take more than a thousand.
_MOST_STEPS = 5000
#: Fits of one score that only choose are guided by a whole matrix up to so many coefficients.
MOST_GUIDED = 2000
#: Beyond, they end at 2^-7: a small part of a standard error where so many columns share the rows.
_NEAR_OF_MANY = 1 << 19
#: A step is halved so often at most.
_MOST_HALVINGS = 20
#: Coefficients in whole units, and sums over all rows that there are, stay below these.
_MOST_UNITS, _MOST_SUM = 1 << 31, 1 << 100


@dataclass(frozen=True)
class Point(Part):
    """Coefficients in whole units of 2^-26, and the exact sum of the gradient there."""

    theta: Annotated[Matrix, Integers(2, -_MOST_UNITS, _MOST_UNITS)]
    gradient: Annotated[WholeNumbers, Integers(2, -_MOST_SUM, _MOST_SUM)]


@dataclass(frozen=True)
class LastIterate(Point):
    """The last good point, with all that gives the step from there."""

    # exact sums there or before
    information: Annotated[WholeNumbers, Integers(2, -_MOST_SUM, _MOST_SUM, 1 << 24)]
    # of the rows behind the two, in units of 2^-16
    weight: Annotated[int, Range(1, _MOST_SUM)]
    sampled: Annotated[int, Range(0, _MOST_SUM)]
    # rows whose mark is below it make the next information matrix
    sample_threshold: Annotated[int, Range(1, EVERY_ROW)]
    steers_badly: bool = False  # the information must be made anew, however small the step
    halvings: Annotated[int, Range(0, _MOST_HALVINGS + 1)] = 0  # of the step
    n_steps: Annotated[int, Range(0, _MOST_STEPS)] = 0  # that were taken before
    past: Annotated[tuple[Point, ...], Length(0, _MEMORY)] = ()  # since the information was made
    # what follows from the rest, so that it is computed once
    direction: "Direction | None" = field(default=None, compare=False, repr=False)

    def check(self) -> None:
        """Shapes must fit together."""
        shape = self.theta.shape
        shapes = {self.gradient.shape}
        for point in self.past:
            shapes |= {point.theta.shape, point.gradient.shape}
        if shapes != {shape}:
            raise Unfit(f"gradients and points must have the shape of theta, {shape}")
        if self.information.shape != information_shape(shape, self.form):
            raise Unfit(f"information must suit coefficients of the shape {shape}")

    @classmethod
    def at(
        cls, theta: Matrix, sums: ExactSums, sample_threshold: int, n_steps: int = 0
    ) -> "LastIterate":
        """A point with what a pass gave there."""
        return cls(
            theta,
            sums.values["gradient"],
            sums.values["information"],
            sums.count("weight"),
            sums.count("sampled"),
            sample_threshold,
            n_steps=n_steps,
        )

    @property
    def form(self) -> Form:
        """Of the information: as the shape of theta has it, or pairs if labs pool theirs."""
        usual = form_of(self.theta.shape)
        n_usual = information_shape(self.theta.shape, usual)[0]
        if len(self.information) in (0, n_usual):  # none if a guide steers
            return usual
        return "pairs"

    @property
    def sums(self) -> ExactSums:
        """As a pass gives them."""
        return ExactSums(
            "a Newton step",
            {
                "gradient": self.gradient,
                "weight": integers([self.weight]),
                "sampled": integers([self.sampled]),
                "information": self.information,
            },
        )


class Direction(NamedTuple):
    """A Newton step in real numbers, and what it came from."""

    precondition: Preconditioner
    gradient: Matrix
    step: Matrix

    @property
    def size(self) -> float:
        """Of the largest coefficient."""
        return float(np.abs(self.step).max())


@dataclass(frozen=True)
class NewtonState(Part):
    """Where Newton's method stands: what a pass over the rows needs to know; see `sums_at`."""

    # coefficients, whole numbers of units of 2^-26, the constant first
    theta: Annotated[Matrix, Integers(2, -_MOST_UNITS, _MOST_UNITS)]
    sample_threshold: Annotated[int, Range(0, EVERY_ROW)]
    behind: LastIterate | None = None  # where the step to theta began; None at the start
    form: Literal["pairs"] | None = None  # of the information; None: as theta's shape has it

    def sums(self, blocks: Iterable[Block], loss: Loss, work: BlockMap = map) -> ExactSums:
        """One pass over rows: what `advance` needs."""
        form = self.form or form_of(self.theta.shape)
        return sums_at(blocks, loss, self.theta, self.sample_threshold, form, work)

    def pooled(self) -> "NewtonState":
        """The same for labs, whose rounds take longer than matrices of all pairs of scores."""
        if form_of(self.theta.shape) == "pairs":
            return self
        return replace(self, form="pairs")

    def check(self) -> None:
        """The first state asks for information, and later ones have its shape."""
        if self.behind is None and not self.sample_threshold:
            raise Unfit("sample_threshold must be positive at the start")
        if self.behind is not None and self.behind.theta.shape != self.theta.shape:
            raise Unfit(f"behind must have the shape of theta, {self.theta.shape}")


@dataclass(frozen=True)
class Summary:
    """What a pass over targets and weights shows."""

    n_rows: int
    weight: int  # in units of 2^-16
    shares: Vector  # of the classes by weight, or the mean target

    @classmethod
    def of(cls, rows: Rows, loss: Loss) -> "Summary":
        """One pass over the targets."""
        n_rows = weight = 0
        totals: WholeNumbers | int = 0
        for block in rows.blocks():
            block_weight, block_totals = totals_of(block, loss)
            n_rows += block.n_rows
            weight += block_weight
            totals = totals + block_totals
        return cls.from_totals(n_rows, weight, integers(totals))

    @classmethod
    def from_totals(cls, n_rows: int, weight: int, totals: WholeNumbers) -> "Summary":
        """From what `totals_of` gave, summed up over all rows."""
        if not weight:
            raise ReplearnError("rows must have some weight, got none. Pass more rows.")
        return cls(n_rows, weight, totals.astype(np.float64) / weight)

    def check(self, loss: Loss) -> "Summary":
        """Refuse rows that have no such model."""
        if not loss.is_enough(self.shares):
            raise ReplearnError(loss.no_model_refusal)
        return self


def totals_of(block: Block, loss: Loss) -> tuple[int, WholeNumbers]:
    """Weight of some rows, and that of each class or the weighted targets, in units of 2^-16."""
    masses = on_grid(block.masses, WEIGHT_BITS)
    return block.weight, integers(loss.totals(block.targets, masses))


def near_enough(n_coefficients: int) -> int:
    """How far from their limits fits may end that only choose or check, in units of 2^-26."""
    return NEAR_ENOUGH if n_coefficients <= MOST_GUIDED else _NEAR_OF_MANY


def guide_form(shape: tuple[int, ...]) -> Form:
    """Of the information by which a fit guides others; "alone" guides none."""
    n_scores, n_columns = shape
    if n_scores == 1 and n_columns <= MOST_GUIDED:
        return "pairs"
    return form_of(shape)


def start(loss: Loss, summary: Summary, n_columns: int) -> NewtonState:
    """The first state, at the constant model; a score has ``n_columns`` with its constant."""
    theta = np.zeros((loss.n_scores, n_columns))
    theta[:, 0] = on_grid(loss.start(summary.shares), THETA_BITS)

    # thousands of columns, each beside the constant alone: made of all rows, once
    if form_of(theta.shape) == "alone":
        return NewtonState(theta, EVERY_ROW)
    return NewtonState(theta, sample_threshold_for(summary.n_rows, theta.size))


def advance(
    state: NewtonState,
    sums: ExactSums,
    loss: Loss,
    ridge: float,
    tolerance_units: int | None = None,
    precondition: Preconditioner | None = None,
) -> NewtonState | Matrix:
    """What follows from a pass over all rows: the next state, or the coefficients.

    Parameters
    ----------
    state : NewtonState
    sums : ExactSums
        Of all rows at that state.
    loss : Loss
    ridge : float
        Per row: weight of half the squared length of the coefficients, without the constant,
        on the mean loss. Labs with different numbers of rows have one target.
    tolerance_units : int, optional
        How far from its limit a fit may end, in units of 2^-26; by default the rows say it.
    precondition : optional
        Steers the first step if the state asks for no information: see `Guide`.

    Returns
    -------
    next_state : NewtonState or array of shape (n_scores, n_columns)
        Coefficients are whole numbers of units of 2^-26.
    """
    last = state.behind
    refresh_above = _LARGE_STEP if precondition is None else _LARGE_GUIDED_STEP

    # 0 read the sums; where a share of the rows was not fair, ask for all of them
    if last is None and not _is_fair_sample(state, sums):
        return replace(state, sample_threshold=EVERY_ROW)
    gradient = mean_gradient(sums, state.theta, loss, ridge)

    # 1 line search: halve the step that led here unless it went down enough
    last_direction = None
    if last is not None:
        last_direction = direction_of(last, loss, ridge)
        if not _went_down(gradient, last_direction):
            return _halved(last, last_direction, refresh_above)

    # 2 check convergence of the gradient
    if last is not None and last.n_steps + 1 == _MOST_STEPS:
        raise NotConverged(
            f"the fit must converge, but {_MOST_STEPS} steps were not enough. Use a larger ridge."
        )
    if np.abs(gradient).max() <= _flat_gradient(sums, loss):
        return state.theta

    # 3 Newton step, by the information that was made here or is remembered
    iterate = _arrived(state, sums)
    if state.sample_threshold:
        precondition = None
    elif last_direction is not None:
        precondition = last_direction.precondition
    direction = direction_of(iterate, loss, ridge, precondition)

    # 4 check convergence of the steps
    step = on_grid(direction.step, THETA_BITS)
    if tolerance_units is None:
        tolerance_units = min(NEAR_ENOUGH, max(1, int(_NEAR / math.sqrt(sums.count("rows")))))
    if _is_converged(state, step, tolerance_units):
        return state.theta + step

    # 5 next state; where steps hardly shrink, a larger share of the rows will steer better
    shrinks = last_direction is None or direction.size <= last_direction.size / 4
    if not shrinks and iterate.sample_threshold < EVERY_ROW:
        iterate = replace(
            iterate,
            sample_threshold=min(4 * iterate.sample_threshold, EVERY_ROW),
            steers_badly=True,
        )
    return _ahead(replace(iterate, direction=direction), refresh_above)


def _flat_gradient(sums: ExactSums, loss: Loss) -> float:
    """A gradient that the grid of residuals alone can make: half a unit in each row, times 4."""
    return 2.0 ** (WEIGHT_BITS + 1 - loss.bits) * sums.count("rows") / sums.count("weight")


def _is_converged(state: NewtonState, step: Matrix, tolerance_units: int) -> bool:
    """Whether this step and those after it stay within so many units.

    Steps after this one that shrink as the last two did add up to ``size^2 / (last_size - size)``.
    """
    size = np.abs(step).max()
    last_size = 0.0
    if state.behind is not None:
        last_size = np.abs(state.theta - state.behind.theta).max()
    return bool(8 * size <= tolerance_units or size * size <= tolerance_units * (last_size - size))


def _is_fair_sample(state: NewtonState, sums: ExactSums) -> bool:
    """Whether about as many rows were sampled as asked for; few different rows have no share."""
    if not 0 < state.sample_threshold < EVERY_ROW:
        return True
    sampled = sums.count("sampled") / sums.count("weight")
    return abs(sampled - state.sample_threshold * 2.0**-32) <= state.sample_threshold * 2.0**-35


def _went_down(gradient: Matrix, step: Direction) -> bool:
    """Whether the loss rises at most a quarter as fast at the end of a step as it fell before."""
    slope_there = algebra.dot(gradient, step.step)
    return slope_there <= -algebra.dot(step.gradient, step.step) / 4


def _halved(last: LastIterate, direction: Direction, refresh_above: float) -> NewtonState:
    """Half of the step from the last good point."""
    if last.halvings >= _MOST_HALVINGS:
        raise NotConverged(
            "the fit must converge, but its steps do not shrink. Use a larger ridge."
        )
    shorter = replace(last, halvings=last.halvings + 1, direction=direction)
    return _ahead(shorter, refresh_above)


def _arrived(state: NewtonState, sums: ExactSums) -> LastIterate:
    """The point of a state as the next good one; without information of its own it takes the last.

    Points since that was made are remembered, for they correct it.
    """
    last = state.behind
    if last is None:
        sample_threshold = state.sample_threshold or sample_threshold_for(
            sums.count("rows"), state.theta.size
        )
        return LastIterate.at(state.theta, sums, sample_threshold)

    iterate = LastIterate.at(state.theta, sums, last.sample_threshold, last.n_steps + 1)
    if state.sample_threshold:
        return iterate
    past = (*last.past, Point(last.theta, last.gradient))[-_MEMORY:]
    return replace(iterate, information=last.information, sampled=last.sampled, past=past)


def direction_of(
    iterate: LastIterate, loss: Loss, ridge: float, precondition: Preconditioner | None = None
) -> Direction:
    """The Newton step from a point; ``precondition`` is that of its information, if it is known.

    Steps since the information was made correct it (L-BFGS in two loops).
    """
    if iterate.direction is not None:
        return iterate.direction

    # gradients at the iterates since the information was made, the last one here
    weight = integers([iterate.weight])
    every: tuple[Point, ...] = (*iterate.past, iterate)
    iterates = []
    for point in every:
        sums = ExactSums("", {"gradient": point.gradient, "weight": weight})
        iterates.append((point.theta, mean_gradient(sums, point.theta, loss, ridge)))
    pairs = _correction_pairs(iterates)
    gradient = iterates[-1][1]

    # first loop, from the last pair to the first
    q = gradient
    alphas = []
    for s, y, sy in reversed(pairs):
        alphas.append(algebra.dot(s, q) / sy)
        q = q - alphas[-1] * y

    # the information matrix takes the place of L-BFGS's scaled identity
    if precondition is None:
        precondition = preconditioner_of(iterate.sums, loss, ridge, iterate.form)
    r = precondition(q)

    # second loop, from the first pair to the last
    for (s, y, sy), alpha in zip(pairs, reversed(alphas), strict=True):
        beta = algebra.dot(y, r) / sy
        r = r + (alpha - beta) * s
    return Direction(precondition, gradient, -r)


def _correction_pairs(iterates: list[tuple[Matrix, Matrix]]) -> list[tuple[Matrix, Matrix, float]]:
    """Steps s and changes y of the gradient between iterates, with their products s'y."""
    pairs = []
    for (theta, gradient), (next_theta, next_gradient) in pairwise(iterates):
        s = (next_theta - theta) * 2.0**-THETA_BITS
        y = next_gradient - gradient
        sy = algebra.dot(s, y)
        # a convex loss has no other pairs, but for rounding
        if sy > 0:
            pairs.append((s, y, sy))
    return pairs


def _ahead(iterate: LastIterate, refresh_above: float) -> NewtonState:
    """The state at the end of a step, which is halved until coefficients stay in bounds."""
    assert iterate.direction is not None
    form = iterate.form
    step, size = iterate.direction.step, iterate.direction.size
    for halvings in range(iterate.halvings, _MOST_HALVINGS + 2):
        length = 2.0**-halvings
        theta = iterate.theta + on_grid(length * step, THETA_BITS)
        if np.abs(theta).max() >= MAX_THETA * 2.0**THETA_BITS:
            continue

        # after a small step the information at its beginning still steers well
        sample_threshold = 0
        if iterate.steers_badly or _is_refreshed(form, iterate, length * size, refresh_above):
            sample_threshold = iterate.sample_threshold
        state = NewtonState(theta, sample_threshold, replace(iterate, halvings=halvings))
        if form != form_of(theta.shape):
            state = state.pooled()
        return state
    raise Unbounded(
        f"coefficients of standardised columns must stay below {MAX_THETA:g}, but these rows drive "
        "them further: some column nearly separates the classes. Use a larger ridge."
    )


def _is_refreshed(form: Form, iterate: LastIterate, moved: float, refresh_above: float) -> bool:
    """Whether the information is made again after a step that moves a coefficient so far."""
    if form == "pairs":
        return moved > refresh_above
    n_steps = len(iterate.past) + 1
    return form == "classes" and (moved > _LARGE_GUIDED_STEP or n_steps == _MOST_BY_CLASS)


@dataclass(frozen=True)
class Guide:
    """A fit of nearly the same rows, from which another one begins."""

    theta: Matrix
    precondition: Preconditioner | None = None  # by its information, which steers the other one


def fit(
    rows: Rows,
    loss: Loss,
    ridge: str,
    summary: Summary,
    tolerance_units: int | None = None,
    guide: Guide | None = None,
) -> Matrix:
    """Coefficients at which the mean loss of all rows with its ridge is smallest.

    Parameters
    ----------
    rows : Rows
        Wherever they are: each step passes over them once.
    loss : Loss
    ridge : decimal text
    summary : Summary
    tolerance_units, guide : optional
        See `advance` and `Guide`.

    Returns
    -------
    theta : array of shape (n_scores, n_columns)
        In whole units of 2^-26.
    """
    state, precondition = start(loss, summary, rows.n_terms + 1), None
    if guide is not None:
        precondition = guide.precondition
        state = replace(state, theta=guide.theta)
    if precondition is not None:
        state = replace(state, sample_threshold=0)

    # rows in memory are made ready once for all passes
    blocks = None
    if isinstance(rows, MemoryBlocks):
        blocks = ready(rows.block)

    iterate: NewtonState | Matrix = state
    while isinstance(iterate, NewtonState):
        if blocks is None or not iterate.sample_threshold or iterate.behind is None:
            sums = iterate.sums(blocks or rows.blocks(), loss, rows.work)
        else:
            sums = _gradient_first(iterate, blocks, loss, float(ridge), rows.work)
        iterate = advance(iterate, sums, loss, float(ridge), tolerance_units, precondition)
    return iterate


def _gradient_first(
    state: NewtonState, blocks: list[Block], loss: Loss, ridge: float, work: BlockMap
) -> ExactSums:
    """One pass, or none for the information at the end of a step that will be halved."""
    gradient = replace(state, sample_threshold=0).sums(blocks, loss, work)
    assert state.behind is not None
    step = direction_of(state.behind, loss, ridge)
    if not _went_down(mean_gradient(gradient, state.theta, loss, ridge), step):
        return gradient

    form = state.form or form_of(state.theta.shape)
    products = information_at(blocks, loss, state.theta, state.sample_threshold, form, work)
    return ExactSums(gradient.of, {**gradient.values, **products.values})


def sample_threshold_for(n_rows: int, n_coefficients: int) -> int:
    """The share of rows, in units of 2^-32, that makes the information matrix."""
    n_sampled = max(ROWS_PER_COEFFICIENT * n_coefficients, 1 << 13)
    if 2 * n_sampled > n_rows:
        return EVERY_ROW
    return (n_sampled << 32) // n_rows
