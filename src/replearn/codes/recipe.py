"""The nouns of every recipe: a promise, its sizes, a plan, what a fit saw, and the bound.

A recipe is one value with three functions. `sizes` does arithmetic and sees no rows: those of
Table 1 follow from a promise alone, those of a GLM from a promise and from what an original states
of its rows' spread. `run` turns rows into codes and holds no constants. `stability` bounds the
probability that a second lab gets other codes; it is the one place where that bound is written.
Plans invert it (`rows_for`), and certificates evaluate it with the spread that was seen.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from replearn.codes.stability import least_whole
from replearn.errors import NotEnoughSamples, ReplearnError, short
from replearn.types import Codes
from replearn.words import Facts, Row, Spoken

Mode = Literal["practical", "certified", "paper"]
MODES: tuple[Mode, ...] = get_args(Mode)
#: No estimate from one sample tells smaller probabilities apart.
_LEAST_ESTIMATE = 0.001

_REMEDIES = {
    "margin": "It is a distance for rows of norm 1; try 0.1.",
    "max_error": "It is a share of new rows; for 5% pass 0.05.",
    "max_disagreement": "It is a probability; for 5% pass 0.05.",
    "failure_prob": "It is a probability; for 5% pass 0.05.",
}


@dataclass(frozen=True)
class Promise:
    """What two labs are promised.

    Attributes
    ----------
    margin : float
        tau: some halfspace separates the examples, scaled to norm 1, with this margin.
    max_error : float
        epsilon: share of new rows that the model may get wrong. Certified mode keeps it for one
        seed, but with probability ``failure_prob``; practical mode keeps it on average over seeds.
    max_disagreement : float
        rho: probability that two labs get different models.
    failure_prob : float
        delta: probability that the error is larger than ``max_error``.

    Examples
    --------
    >>> Promise(0.1, 0.05, 5, 0.05)
    Traceback (most recent call last):
    ...
    replearn.errors.ReplearnError: max_disagreement must be a number in (0, 1), got 5. It is a
    probability; for 5% pass 0.05.
    """

    margin: float
    max_error: float
    max_disagreement: float
    failure_prob: float = 0.05

    def __post_init__(self) -> None:
        for name, remedy in _REMEDIES.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
                raise ReplearnError(
                    f"{name} must be a number in (0, 1), got {short(value)}. {remedy}"
                )


def after_constant(promise: Promise) -> Promise:
    """The promise for directions ``x / |x|`` to which a constant 1 is appended.

    These have length ``sqrt(2)``, so each keeps ``1 / sqrt(2)`` of its margin, whatever its length
    was.
    """
    return replace(promise, margin=promise.margin / math.sqrt(2))


def has_intercept(mode: str, asked: bool | None) -> bool:
    """Whether a constant is appended: as asked; else always but in paper mode, which has none."""
    if asked is None:
        return mode != "paper"
    return bool(asked)


#: Sizes by hand that are names; and those for which 0 makes sense: a hard margin, one run.
_NAMED = ("projection", "rounding", "populations", "normalize")
_MAY_BE_ZERO = ("regularization", "n_validation")


@dataclass(frozen=True)
class Sizes:
    """Sizes that a user sets by hand, and the constants of the paper's formulas by symbol."""

    # such as ``{"n_batches": 20}``. A recipe refuses names that it does not know.
    by_hand: Mapping[str, Any] = field(default_factory=dict)
    # paper mode: such as ``{"C1": 2.0}``. The others are 1.
    constants: Mapping[str, float] = field(default_factory=dict)
    sketch_bits: int = 0  # bits that the original publishes about each component; 0 to 4

    def check(self, mode: str, names: Mapping[str, str], constants: Mapping[str, str]) -> None:
        """Refuse what a recipe does not have; both mappings give a meaning to each name."""
        if mode not in MODES:
            raise ReplearnError(f"mode must be one of {', '.join(MODES)}, got {short(mode)}.")
        if self.constants and mode != "paper":
            raise ReplearnError(
                f'constants belong to mode="paper", got mode={mode!r}. Leave them out, or use '
                "paper mode."
            )

        # names first: what a recipe does not know has no range
        _check_names("sizes", self.by_hand, names)
        _check_names("constants", self.constants, constants)
        for name, value in (*self.constants.items(), *self.by_hand.items()):
            if name not in _NAMED:  # those are checked where the names are known
                _check_size(name, value)

        if not (isinstance(self.sketch_bits, int) and 0 <= self.sketch_bits <= 4):
            raise ReplearnError(
                f"sketch_bits must be an integer from 0 to 4, got {short(self.sketch_bits)}. Three "
                "bits make the rounding nearly free."
            )

    def get(self, name: str, planned: Any = None) -> Any:
        """A size that was set by hand, or the planned one."""
        return self.by_hand.get(name, planned)

    def refuse_by_hand(self) -> None:
        """Refuse sizes in certified mode where all of them follow from a proof."""
        for name in self.by_hand:
            raise ReplearnError(
                f"certified mode derives {name}; it cannot be set by hand. Leave it out, or use "
                'mode="practical".'
            )

    def constant(self, symbol: str) -> float:
        """A constant of the paper's formulas; 1 unless it was given."""
        return float(self.constants.get(symbol, 1.0))


def _check_names(kind: str, given: Mapping[str, Any], known: Mapping[str, str]) -> None:
    for name in sorted(set(given) - set(known)):
        words = ", ".join(f"{key} ({meaning})" for key, meaning in known.items())
        raise ReplearnError(f"{kind} has no {name!r} here. Use one of {words}.")


def _check_size(name: str, value: Any) -> None:
    types: Any = Real
    kind, least = "a number", 1e-30  # not 0: sizes stand below fraction bars
    if name.startswith("n_") or name == "batch_size":
        kind, types, least = "an integer", int | np.integer, 1
    if name in _MAY_BE_ZERO:
        least = 0

    if isinstance(value, bool) or not isinstance(value, types) or not least <= value < 1e30:
        raise ReplearnError(
            f"{name} must be {kind} of at least {least:g}, got {short(value)}. Leave it out for "
            "the planned value."
        )


def log_terms(promise: Promise) -> float:
    """The logarithm of the paper's formulas: ``log(1 / (eps tau rho delta))``."""
    rates = promise.max_error * promise.margin * promise.max_disagreement * promise.failure_prob
    return math.log(1 / rates)


def common(
    recipe: str, promise: Promise, n_inputs: int, mode: Mode, given: Sizes
) -> dict[str, Any]:
    """Fields of every `Plan`, but for its rows."""
    constants = ", ".join(f"{name} = {value:g}" for name, value in given.constants.items())
    origins = {
        "practical": "calibrated on synthetic populations, not proved",
        "certified": "proved for every population with this margin",
        "paper": f"as printed, with constants {constants or 1}" + ", others 1" * bool(constants),
    }
    origin = origins[mode]
    if given.by_hand and mode != "certified":  # which takes no size that breaks its proof
        origin += f", but for what was set by hand: {', '.join(given.by_hand)}"

    return {
        "recipe": recipe,
        "promise": promise,
        "n_inputs": n_inputs,
        "mode": mode,
        "origin": origin,
        "by_hand": tuple(given.by_hand),
    }


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Every size of a fit, before any row is spent; each recipe adds its own fields."""

    recipe: str  # name in the table of recipes
    mode: Mode
    promise: Promise
    n_inputs: int  # columns, and one more for the intercept
    origin: str  # where the sizes come from, and what they assume
    n_rows: int = 0  # rows that each lab needs for the promise
    by_hand: tuple[str, ...] = ()  # names of the sizes that the user set

    def require(self, n_rows: int) -> None:
        """Refuse a fit of too few rows; practical mode fits what there is."""
        if self.mode == "practical" or n_rows >= self.n_rows:
            return

        remedy = "Get more rows, relax the promise, "
        if self.mode == "paper":
            remedy += "set sizes by hand, "
        raise NotEnoughSamples(
            f"{self.mode} mode needs {self.n_rows:,} rows for margin {self.promise.margin:g}, "
            f"max_error {self.promise.max_error:g} and max_disagreement "
            f'{self.promise.max_disagreement:g}, got {n_rows:,}. {remedy}or use mode="practical".',
            available=n_rows,
            needed=self.n_rows,
        )


@dataclass(frozen=True, kw_only=True)
class Spread:
    """What a sample showed of its own spread; each recipe adds what its bound needs."""

    n_parts: int  # independent parts (batches, groups of rows) that showed it
    # rows that occur a second time, or more often. A bound speaks of independent rows.
    n_repeated: int = 0


@dataclass(frozen=True, kw_only=True)
class Bound(Spoken):
    """How likely it is that two labs get different codes.

    Attributes
    ----------
    proved : float
        Upper bound, as a mean over seeds; 1 says nothing.
    confidence : float
        Probability, over samples, with which ``proved`` holds.
    expected : float or None
        Not proved: calibrated, as a mean over seeds, or, after a fit, estimated from its sample
        under its seed. None: the sample has too few parts to tell.
    assumes : str
        What both numbers suppose.
    n_labs : int
        Labs of which the numbers speak: not all of them agree.

    See Also
    --------
    ReplicableSVMClassifier : its ``certificate_`` is one.
    replearn.study.Certificate : the same for studies.

    Notes
    -----
    Definition 1.1 of [KKLVZ24]: an algorithm is rho-replicable if two runs on independent
    samples of any population, with the same shared coins, give different models with
    probability at most rho.

    References
    ----------
    .. [KKLVZ24] Kalavasis, Karbasi, Larsen, Velegkas and Zhou. Replicable Learning of Large-Margin
       Halfspaces. ICML 2024. https://arxiv.org/abs/2402.13857

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(500, 5, margin=0.4, random_state=0)
    >>> first = rl.ReplicableSVMClassifier(margin=0.4, sketch_bits=3).fit(X, y)
    >>> bound = first.certificate_
    >>> bound.proved, bound.expected < 0.1, bound.n_labs
    (1.0, True, 2)
    >>> bound.assumes
    'rows drawn independently from one population, as many at each lab'
    """

    proved: float  # upper bound, as a mean over seeds; 1 says nothing
    confidence: float = 1.0  # probability, over samples, with which ``proved`` holds
    # not proved. Without a spread: calibrated, over seeds. With one: estimated from this sample,
    # under this seed. None: the sample has too few parts to tell.
    expected: float | None = None
    # what both suppose
    assumes: str = "rows drawn independently from one population, as many at each lab"
    n_labs: int = 2  # labs of which the numbers speak: not all of them agree

    def facts(self) -> Facts:
        """The certificate in words; it says of how many labs it speaks."""
        labs, differ = f"{self.n_labs} labs", "do not all get the same model"
        if self.n_labs == 2:
            labs, differ = "two labs", "get different models"

        # what these rows say of this seed
        if self.expected is None:
            verdict = f"How often {labs} differ is not known from these rows."
            few = "too few batches or groups of rows show a spread, or no candidate was good enough"
        else:
            estimate = f"of {self.expected:.3g}"
            if self.expected < _LEAST_ESTIMATE:  # no estimate shows that it never happens
                estimate = f"below {_LEAST_ESTIMATE}"
            verdict = f"{labs.capitalize()} {differ} with an estimated probability {estimate}."
            few = ""

        # what the theorem says of all seeds
        proved = [Row("proved bound, over seeds", None, note="the theorem says nothing here")]
        if self.proved < 1:
            proved = [
                Row("proved bound, over seeds", self.proved),
                Row("confidence of the bound", self.confidence),
            ]

        return Facts(
            verdict,
            [
                Row("labs", self.n_labs),
                Row("expected disagreement", self.expected, note=few),
                *proved,
                Row("assumes", self.assumes),
            ],
        )

    def in_mode(self, mode: str) -> float:
        """The number that a mode stands for: practical the expected one, else the proved one."""
        if mode != "practical":
            return self.proved
        if self.expected is None:
            return 1.0
        return self.expected


@dataclass(frozen=True)
class Fitted:
    """What a recipe hands back."""

    codes: Codes  # the model, with the published coins
    spread: Spread | None  # what `stability` needs of this sample
    n_used: int  # rows that made the codes; others were left over
    # what happened on the way, such as ``{"zero_rows": 3}``
    counts: Mapping[str, int] = field(default_factory=dict)
    sketch: Codes | None = None  # bits that an original publishes
    # where the codes live, if the rows had a part in it: an original chooses its own width
    space: Any = None


@dataclass(frozen=True)
class Recipe:
    """One algorithm."""

    # as Table 1 of the paper has them; the rate without logarithms
    name: str
    title: str
    rate: str
    # ``sizes(promise, n_inputs, mode, sizes)`` gives a `Plan`: arithmetic, no rows; of a GLM
    # ``sizes(promise, spreads, between)``, whose promise has the rows of both labs
    sizes: Callable[..., Any]
    # ``run(sample, plan, coins, work)`` gives a `Fitted`: rows to codes; of a GLM
    # ``run(rows, design)``. ``work`` maps a function over blocks: serial, threads or a cluster
    run: Callable[..., Any]
    # ``stability(plan, n_rows, spread)`` gives a `Bound`; spread None: before any row
    stability: Callable[[Any, int, Any], Bound]
    # of Table 1: the rate of certified plans, without logarithms, and where the printed one stands
    certified_rate: str = ""
    source: str = ""


AnyPlan = TypeVar("AnyPlan", bound=Plan)

#: More rows than this are no plan.
MAX_ROWS = 10**60


def rows_for(
    stability: Callable[[AnyPlan, int, None], Bound],
    plan: AnyPlan,
    step: int = 1,
    least: int = 1,
    most: int = 0,
) -> int:
    """The least number of rows for which ``stability`` keeps the plan's promise: bisection.

    The bound falls with the number of rows, which come in whole steps, such as batches, at
    ``least`` so many. With ``most`` rows, an answer above it is any number above it.
    """

    def keeps(n_steps: int) -> bool:
        bound = stability(plan, n_steps * step, None)
        return bound.in_mode(plan.mode) <= plan.promise.max_disagreement

    # a search that only asks whether some rows suffice ends here
    if most and (least * step > most or not keeps(most // step)):
        return most + step

    n_rows = step * least_whole(keeps, least, MAX_ROWS // step)
    if n_rows > MAX_ROWS:
        raise ReplearnError(
            f"no number of rows keeps max_disagreement {plan.promise.max_disagreement:g} with "
            "these sizes. Relax the promise, or set fewer sizes by hand."
        )
    return n_rows
