"""From a guarantee to sizes. Every constant of the theory is here; no data is seen here.

What defines the code space and the expected vector (batch size, regularisation, projection,
rounding, grid) is a function of the arguments and the number of inputs alone, so that labs
with different numbers of rows agree. Only the number of batches follows from the rows.
Derived reals are kept as decimal strings, rounded to three significant digits wherever a
mathematical library has a part in them, so that no version of one moves them.
"""

import math
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Self

from replearn.codes.basis import Basis
from replearn.errors import NotEnoughSamples, ReplearnError
from replearn.types import Drawable

MODES = ("practical", "certified", "paper")


def check_mode(mode: str, constants: dict[str, float] | None = None) -> None:
    """Refuse modes that do not exist, and constants in modes that have none."""
    if mode not in MODES:
        raise ReplearnError(f"mode must be one of {', '.join(MODES)}, got {mode!r}.")
    if constants and mode != "paper":
        raise ReplearnError(
            f'constants belong to mode="paper", got mode={mode!r}. '
            "Leave constants out, or choose paper mode."
        )


@dataclass(frozen=True)
class Guarantee:
    """What is promised.

    Attributes
    ----------
    margin : float
        tau: some direction separates the classes with this margin, rows scaled to length 1.
    max_error : float
        epsilon: share of new points that the classifier may get wrong.
    max_disagreement : float
        rho: probability that two labs get different classifiers.
    failure_prob : float
        delta: probability that the error is larger than ``max_error``.
    """

    margin: float
    max_error: float
    max_disagreement: float
    failure_prob: float

    def __post_init__(self) -> None:
        for name in ("margin", "max_error", "max_disagreement", "failure_prob"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not number or not 0 < value < 1:
                raise ReplearnError(
                    f"{name} must be a number in (0, 1), got {value!r}. {_REMEDIES[name]}"
                )
            if not _SMALLEST <= value < 1 - _SMALLEST:
                raise ReplearnError(
                    f"{name} must be from {_SMALLEST:g} to 1 - {_SMALLEST:g}, got {value!r}. "
                    f"{_REMEDIES[name]}"
                )
            object.__setattr__(self, name, float(value))  # a numpy number becomes a plain one


#: Smaller numbers make no sense, and their powers are soon no numbers.
_SMALLEST = 1e-9

_REMEDIES = {
    "margin": "It is the cosine between a row and the boundary's normal; .02 to .5 are common.",
    "max_error": "It is a share of points; for 5 % pass 0.05.",
    "max_disagreement": "It is a probability; for 5 % pass 0.05.",
    "failure_prob": "It is a probability; for 5 % pass 0.05.",
}


@dataclass(frozen=True)
class Accuracy:
    """When the solver of one batch may stop."""

    # hard margin: certified share of the batch's largest margin; a batch proved to have a smaller
    # one than the floor is given up (zero vector)
    margin_share: float = 0.8
    margin_floor: float = 0.0
    # soft margin: duality gap, absolute, and relative to half the squared length
    abs_gap: float = 0.0
    rel_gap: float = 3e-4
    max_sweeps: int = 10_000


@dataclass(frozen=True)
class Spent:
    """What a fit did with its rows.

    The exponential mechanism would be differentially private with ``privacy_epsilon`` (replacing
    one row) if the noise were secret. The published seed makes it replicable instead.
    """

    n_rows: int
    n_batches: int  # that were used; boosting: rounds done
    n_dropped: int  # rows beyond the last whole batch
    n_zero_rows: int  # they have no direction and were skipped
    n_unconverged: int = 0  # batches whose solver hit the sweep limit
    n_infeasible: int = 0  # batches without the required margin
    worst_gap: float = 0.0  # largest duality gap of a batch
    n_row_visits: int = 0  # rows read by the solver, all sweeps together
    n_tested: int = 0  # nets: candidates whose errors were counted
    below: bool = (
        True  # nets: some candidate was below the threshold; boosting: the test was passed
    )
    privacy_epsilon: float | None = None


@dataclass(frozen=True)
class Sizes:
    """Sizes that the user sets by hand; None leaves the choice to the plan."""

    n_batches: int | None = None
    batch_size: int | None = None
    n_components: int | None = None
    grid_width: float | None = None
    projection: str | None = None
    rounding: str | None = None
    regularization: float | None = None
    basis: Basis | None = None
    unit_mean: bool | None = None
    n_repetitions: int | None = None
    n_validation: int | None = None
    hint_bits: int | None = None

    def given(self) -> dict[str, Any]:
        """Names and values of the sizes that were set."""
        return {
            name: value
            for name, value in vars(self).items()
            if value is not None and name != "hint_bits"  # part of the promise, not a size
        }


@dataclass(frozen=True)
class NetSizes:
    """Sizes of the algorithms that choose among the candidates of a net. Reals are decimals.

    Within an angle whose sine is the radius every direction has a candidate (with high
    probability, for the random net). Net and projection leave the best one wrong on at most the
    share ``exceptions`` of a population that keeps the promise, except with probability
    ``net_failure``, over seeds.
    """

    net: str  # "random": independent directions; "lattice": the integer vectors in a ball
    n_candidates: int  # of each of the ``n_strings`` nets if it is random
    radius: str
    rule: str  # "first_below", "gumbel" or "holenstein"
    # first_below: law of the threshold (`replearn.stages.selection.ThresholdLaw`), which may be
    # uniform on the scale of square roots; repetitions for each shared string, and such strings
    low: str = "0"
    high: str = "0"
    cell: str = "0"
    root: bool = True
    n_repeats: int = 1
    n_strings: int = 1
    # other rules: the weight of a candidate is ``exp(-inverse_temperature * error rate)``, and the
    # disagreement is proved for populations with the "margin", or for all ("generic")
    inverse_temperature: str = "0"
    calibration: str = ""
    exceptions: str = "0"
    net_failure: str = "0"

    def lines(self) -> list[str]:
        """The net and the choice, in words."""
        net = f"{self.n_candidates:,} {self.net} candidates, radius {self.radius}"
        if self.rule == "first_below":
            start = f"the best error in cells of {self.cell} plus " if float(self.cell) else ""
            choice = f"first below a threshold from {start}{self.low} to {self.high}"
            if self.n_repeats > 1:
                choice += f", {self.n_repeats:,} repeats of {self.n_strings} shared strings"
        else:
            choice = (
                f"exponential mechanism, inverse temperature {self.inverse_temperature}, "
                f"{self.rule} sampling, {self.calibration} calibration"
            )
        return [f"  net              {net}", f"  choice           {choice}"]


@dataclass(frozen=True)
class BoostSizes:
    """Sizes of smooth boosting. Reals are decimals.

    A row's weight is ``exp(-decay N)``, at most 1, N the sum over the rounds of
    ``y h(x) - threshold``. The stopping test looks at the mean weight ("density"), or the share of
    rows that are wrong ("error"), rounded to a grid; the limit is 2/3 of ``max_error``.
    """

    output: str  # "halfspace" or "majority"
    n_rounds: int  # at the most
    threshold: str
    decay: str
    fresh_rows: bool  # its own for each round, and a rejection sampler; or all rows, weighted
    n_training: int  # fresh rows of a round; 0: from the data at hand
    n_testing: int
    n_kept: int  # rows that the sampler shall keep; 0: all that it accepts
    statistic: str
    test_width: str

    def lines(self) -> list[str]:
        """The rounds, in words."""
        rows = "all rows, weighted"
        if self.fresh_rows:
            rows = f"{self.n_training:,} fresh rows" if self.n_training else "fresh rows"
            rows += f", {self.n_kept:,} kept" if self.n_kept else ", rejection sampling"
        testing = f", on {self.n_testing:,} rows" if self.n_testing else ""
        return [
            f"  rounds           at most {self.n_rounds:,} of {rows}; output {self.output}",
            f"  weights          exp(-{self.decay} N), threshold {self.threshold}",
            f"  test             {self.statistic} in cells of {self.test_width}{testing}",
        ]


@dataclass(frozen=True, kw_only=True)
class Plan(Drawable):
    """Every size of a fit, before any data is spent; a `BatchPlan`, `NetPlan` or `BoostPlan`.

    Attributes
    ----------
    algorithm, mode : str
    guarantee : Guarantee
    n_inputs : int
        Features, and one more for the intercept.
    basis : str
        Where the sizes come from, and what they assume.
    by_hand : tuple of str
        Names of the sizes that the user set.
    spent : Spent or None
        After a fit: what was used.

    Examples
    --------
    >>> import replearn as rl
    >>> plan = rl.plan("svm", margin=0.2, n_features=50)
    >>> plan.n_samples, plan.mode, plan.guarantee.max_error
    (31900, 'practical', 0.05)
    """

    algorithm: str
    mode: str
    guarantee: Guarantee
    n_inputs: int
    basis: str
    by_hand: tuple[str, ...] = ()
    spent: Spent | None = field(default=None, compare=False)

    @property
    def n_samples(self) -> int:
        """Rows that one lab needs for the promise."""
        raise NotImplementedError

    @property
    def done(self) -> Spent:
        """What a fit has used; an error before it."""
        if self.spent is None:
            raise ReplearnError("nothing was spent yet: this plan was made without a fit.")
        return self.spent

    def with_spent(self, spent: Spent) -> Self:
        """The plan of a fit that was done."""
        return replace(self, spent=spent)

    def __str__(self) -> str:
        promise = self.guarantee
        bound = "about" if self.mode == "practical" else "<="  # a target, see docs/promises.md
        lines = [
            f"Plan: {self.algorithm}, {self.mode} mode ({self.basis})",
            f"  promise          margin {promise.margin:g}, error {bound} {promise.max_error:g}, "
            f"disagreement <= {promise.max_disagreement:g}, failure <= {promise.failure_prob:g}",
            f"  samples needed   {self.n_samples:,}{self._parts()}",
            *self._size_lines(),
        ]
        if self.by_hand:
            lines.append(f"  set by hand      {', '.join(self.by_hand)}")
        if self.spent is not None:
            lines.append(
                f"  spent            {self.spent.n_rows:,} rows, {self.spent.n_dropped:,} left "
                f"over, {self.spent.n_zero_rows:,} zero rows, {self._spent_words(self.spent)}"
            )
        return "\n".join(lines)

    def require_samples(self, n_rows: int) -> None:
        """Refuse a fit that could not keep the promise of its mode."""
        if self.mode == "practical" or n_rows >= self.n_samples:
            return
        promise = self.guarantee
        raise NotEnoughSamples(
            f"{self.mode} mode needs {self.n_samples:,} rows{self._parts()} for margin "
            f"{promise.margin:g}, max_error {promise.max_error:g}, max_disagreement "
            f"{promise.max_disagreement:g}; got {n_rows:,}. Get more rows, allow more disagreement "
            "or error, rely on a larger margin if the population has it, "
            + ("set n_batches and batch_size by hand, " if self.mode == "paper" else "")
            + 'or use mode="practical", which fits and estimates the disagreement.',
            available=n_rows,
            needed=self.n_samples,
        )

    def _parts(self) -> str:
        """What the samples are made of, in words."""
        return ""

    def _size_lines(self) -> list[str]:
        raise NotImplementedError

    def _spent_words(self, spent: Spent) -> str:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RoundedPlan(Plan):
    """Sizes of the algorithms that round one vector to codes; a `BatchPlan` or a `RowPlan`.

    Attributes
    ----------
    regularization : str
        Weight lambda of ``lambda/2 |u|^2`` beside the mean loss; "0" is the hard margin.
    projection, n_components, rounding, grid_width
        The code space.
    basis_map : Basis or None
        Published directions, for the projection "published".
    unit_mean : bool
        Scale the vector to length 1 before rounding; otherwise it is ``margin * u``.
    noise : float
        Practical mode: standard deviation of what projection and rounding add to the score
        of a row of length 1.
    class_weights : pair of float
        What the loss of a row counts, by its sign: -1, +1. From 0 to 1.
    hint_bits : int
        Bits that the first lab publishes about where its vector lies.
    n_outputs : int
        Halfspaces: 1, or one for each of more than two classes, against all others.
    """

    regularization: str
    projection: str
    n_components: int
    rounding: str
    grid_width: str
    basis_map: Basis | None = None
    unit_mean: bool = False
    noise: float = 0.0
    class_weights: tuple[float, float] = (1.0, 1.0)
    hint_bits: int = 0
    n_outputs: int = 1

    def _size_lines(self) -> list[str]:
        lines = [
            self._solver_line(),
            f"  code space       {self.n_inputs:,} inputs > {self.projection} > "
            f"{self.n_components:,} components > {self.rounding}, width {self.grid_width}",
        ]
        if self.n_outputs > 1:
            lines.append(
                f"  halfspaces       {self.n_outputs}, one for each class against the rest; the "
                "disagreement is divided over them"
            )
        if self.hint_bits:
            lines.append(
                f"  hint             {self.hint_bits} bits of the first lab's sample are published"
            )
        return lines

    def _solver_line(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class BatchPlan(RoundedPlan):
    """Sizes of the algorithms that average the vectors of batches: "svm" and "sgd".

    ``regularization`` is 1/(batch_size C) of the batch SVM.

    Attributes
    ----------
    batch_size, n_batches : int
        ``n_batches`` is the number that the promise needs; a fit uses what its rows allow.
    length_cap : float
        Longer batch vectors are shortened to this length.
    accuracy : Accuracy
        SVM: when the solver may stop.
    unit_vectors : bool
        SVM: average unit normals (as printed in the paper) instead of ``margin * u``.
    margins_tried : tuple of (float, float)
        ``margin="auto"``: the margins that were tried, and the share of rows that their noise
        would turn.
    n_repetitions, n_validation : int
        Gradient descent: runs of a batch, and its rows on which the best of them is found.
    """

    batch_size: int
    n_batches: int
    length_cap: float
    accuracy: Accuracy = Accuracy()
    unit_vectors: bool = False
    margins_tried: tuple[tuple[float, float], ...] = ()
    n_repetitions: int = 1
    n_validation: int = 0

    @property
    def n_samples(self) -> int:
        """Rows that one lab needs for the promise."""
        return self.n_batches * self.batch_size

    @property
    def exact_batches(self) -> bool:
        """Use ``n_batches`` and no more: as printed in the paper, or as set by hand."""
        return self.mode == "paper" or "n_batches" in self.by_hand

    @property
    def box_constraint(self) -> float:
        """C of the batch SVM."""
        weight = float(self.regularization)
        return math.inf if weight == 0 else 1 / (self.batch_size * weight)

    def _parts(self) -> str:
        word = "batch" if self.n_batches == 1 else "batches"
        return f" = {self.n_batches:,} {word} of {self.batch_size:,}"

    def _size_lines(self) -> list[str]:
        lines = super()._size_lines()
        if self.margins_tried:
            tried = ", ".join(f"{margin:g} ({error:.3f})" for margin, error in self.margins_tried)
            lines.append(f"  margins tried    {tried}; in brackets the error of its noise")
        return lines

    def _solver_line(self) -> str:
        if self.algorithm != "sgd":
            vectors = "unit normals" if self.unit_vectors else "margin times solution"
            return f"  batch SVM        regularization {self.regularization}, {vectors}"
        runs = f"{(self.batch_size - self.n_validation) // self.n_repetitions:,} steps"
        if self.n_repetitions > 1:
            runs = f"best of {self.n_repetitions} runs of {runs}, on {self.n_validation:,} rows"
        return f"  gradient descent regularization {self.regularization}, {runs}"

    def _spent_words(self, spent: Spent) -> str:
        return (
            f"{spent.n_batches:,} batches, {spent.n_unconverged:,} not converged, "
            f"{spent.n_infeasible:,} without margin"
        )


@dataclass(frozen=True, kw_only=True)
class NetPlan(Plan):
    """Sizes of the algorithms that choose a candidate of a net: "net" and "dp".

    Attributes
    ----------
    n_rows : int
        Rows that the choice needs; in paper mode it uses this many and no more.
    projection, n_components
        The space of the net.
    net : NetSizes
        The net and the choice.
    basis_map : Basis or None
        Published directions, for the projection "published".
    """

    n_rows: int
    projection: str
    n_components: int
    net: NetSizes
    basis_map: Basis | None = None

    @property
    def n_samples(self) -> int:
        """Rows that one lab needs for the promise."""
        return self.n_rows

    def _size_lines(self) -> list[str]:
        return [
            f"  space            {self.n_inputs:,} inputs > {self.projection} > "
            f"{self.n_components:,} components",
            *self.net.lines(),
        ]

    def _spent_words(self, spent: Spent) -> str:
        words = f"{spent.n_tested:,} candidates tested"
        if spent.privacy_epsilon is not None:
            words += f", privacy epsilon {spent.privacy_epsilon:.2g}"
        return words if spent.below else words + ", none below the threshold"


@dataclass(frozen=True, kw_only=True)
class BoostPlan(Plan):
    """Sizes of smooth boosting.

    Attributes
    ----------
    round_rows : int
        Rows that a round needs: its own, or those of all rounds.
    rounding, grid_width
        The code space of a round.
    boost : BoostSizes
        The rounds.
    """

    round_rows: int
    rounding: str
    grid_width: str
    boost: BoostSizes

    @property
    def n_samples(self) -> int:
        """Rows that one lab needs for the promise."""
        return self.round_rows * (self.boost.n_rounds if self.boost.fresh_rows else 1)

    def _parts(self) -> str:
        if not self.boost.fresh_rows:
            return ""
        return f" = {self.boost.n_rounds:,} rounds of {self.round_rows:,}"

    def _size_lines(self) -> list[str]:
        return [
            *self.boost.lines(),
            f"  code space       {self.n_inputs:,} inputs > {self.rounding}, "
            f"width {self.grid_width}",
        ]

    def _spent_words(self, spent: Spent) -> str:
        words = f"{spent.n_batches:,} rounds"
        return words if spent.below else words + ", test not passed"


def decimal(value: float) -> str:
    """Three significant digits, as text that every platform reads as the same number."""
    return f"{value:.3g}"
