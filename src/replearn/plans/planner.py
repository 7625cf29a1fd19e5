"""Planning a study: all sizes from a promise, or the promise that a number of rows can keep."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from replearn.codes.hints import MAX_HINT_BITS
from replearn.errors import NotEnoughSamples, ReplearnError
from replearn.plans.plan_boosting import plan_boosting
from replearn.plans.plan_net import plan_dp, plan_net
from replearn.plans.plan_rows import plan_rows
from replearn.plans.plan_sgd import plan_sgd
from replearn.plans.plan_svm import plan_svm
from replearn.plans.sizes import MODES, Guarantee, Plan, Sizes, check_mode

#: What can be solved for, with the range that is searched.
_RANGES = {"margin": (1e-3, 0.95), "max_error": (1e-5, 0.49), "max_disagreement": (1e-5, 0.99)}
_STEPS = 40  # halvings of the range, on a logarithmic scale
_DIGITS = 3


@dataclass(frozen=True)
class Algorithm:
    """One row of Table 1 of the paper."""

    algorithm: str  # name in `plan`
    title: str
    rate: str  # sample complexity as printed, without logarithms
    make: Callable[..., Plan]  # from guarantee, number of inputs and mode


#: The six rows of Table 1.
ROWS = (
    Algorithm(
        "boost-foam",
        "ILPS22, foam rounding",
        "(d eps^-3 tau^-8 rho^-2)^1.01",
        partial(plan_boosting, rounding="foam"),
    ),
    Algorithm(
        "boost-box",
        "ILPS22, box rounding",
        "(d^3 eps^-4 tau^-10 rho^-2)^1.01",
        partial(plan_boosting, rounding="box"),
    ),
    Algorithm("svm", "Algorithm 1", "eps^-1 tau^-7 rho^-2", plan_svm),
    Algorithm("sgd", "Algorithm 2", "eps^-2 tau^-6 rho^-2", plan_sgd),
    Algorithm("net", "Algorithm 3", "eps^-1 tau^-4 rho^-2", plan_net),
    Algorithm("dp", "LNUZ20 by DP reduction", "eps^-2 tau^-4 rho^-2", plan_dp),
)
ALGORITHMS = tuple(row.algorithm for row in ROWS)
_HINTED = ("svm", "sgd")


def plan(
    algorithm: str = "svm",
    *,
    n_features: int,
    margin: float | None = 0.1,
    max_error: float | None = 0.05,
    max_disagreement: float | None = 0.1,
    failure_prob: float = 0.05,
    n_samples: int | None = None,
    mode: str = "practical",
    n_sites: int = 2,
    fit_intercept: bool = True,
    constants: dict[str, float] | None = None,
    hint_bits: int = 0,
    estimate: str = "batches",
) -> Plan:
    """All sizes of a fit, before any data is spent; or what a number of rows can promise.

    Parameters
    ----------
    algorithm : {"svm", "sgd", "net", "dp", "boost-box", "boost-foam"}, default="svm"
        Row of Table 1.
    n_features : int
        Number of columns.
    margin, max_error, max_disagreement : float or None
        The promise. With ``n_samples``, one of them may be None: the plan then has the smallest
        value that this number of rows allows.
    failure_prob : float, default=0.05
        Probability that the error may be larger than ``max_error``.
    n_samples : int, optional
        Rows of each site. Given together with the whole promise, it is checked.
    mode : {"practical", "certified", "paper"}, default="practical"
        Where the sizes come from: calibrated, proved, or the formulas of the paper.
    n_sites : int, default=2
        ``max_disagreement`` is the chance that *not all* sites agree; two of them may then differ
        with probability ``max_disagreement / (n_sites - 1)`` (union bound against one site).
    fit_intercept : bool, default=True
        A constant column is appended: one input more.
    constants : dict, optional
        Paper mode: the constants of the algorithm, default 1.
    hint_bits : int, default=0
        Algorithms 1 and 2: bits that the first lab publishes about where its mean lies, 0 to 8.
    estimate : {"batches", "rows"}, default="batches"
        Algorithm 1: as in `ReplicableSVMClassifier`.

    Returns
    -------
    Plan
        Its ``n_samples`` are the rows that each site needs.

    Raises
    ------
    NotEnoughSamples
        If ``n_samples`` rows cannot keep the promise; says what to relax, and by how much.

    Examples
    --------
    >>> plan(margin=0.2, max_error=0.05, max_disagreement=0.1, n_features=50).n_samples
    31900
    >>> plan(margin=0.2, max_disagreement=None, n_features=50, n_samples=100_000).guarantee
    Guarantee(margin=0.2, max_error=0.05, max_disagreement=0.0565, failure_prob=0.05)
    >>> [plan(margin=0.2, n_features=50, hint_bits=bits).n_samples for bits in (0, 2, 4)]
    [31900, 2200, 700]
    >>> plan(margin=0.2, n_features=50, estimate="rows").n_samples
    11418
    """
    row = _row(algorithm)
    if estimate not in ("batches", "rows") or (estimate == "rows" and algorithm != "svm"):
        raise ReplearnError(
            f'estimate must be "batches", or "rows" for svm, got {estimate!r} for {algorithm}.'
        )
    if estimate == "rows":
        row = replace(row, make=plan_rows)
    check_mode(mode)
    _check_whole("n_features", n_features, 1)
    _check_whole("n_sites", n_sites, 2)
    _check_whole("hint_bits", hint_bits, 0)
    if hint_bits > (MAX_HINT_BITS if algorithm in _HINTED else 0):
        raise ReplearnError(
            f"hint_bits must be 0, or up to {MAX_HINT_BITS} for {' and '.join(_HINTED)}, got "
            f"{hint_bits} for {algorithm}."
        )
    promise = {"margin": margin, "max_error": max_error, "max_disagreement": max_disagreement}
    unknown = [name for name, value in promise.items() if value is None]
    if n_samples is not None:
        _check_whole("n_samples", n_samples, 1)
    elif unknown:
        raise ReplearnError(
            f"{unknown[0]}=None asks to solve for it, which needs n_samples, got None. Pass the "
            "number of rows of each site, or a value."
        )
    if len(unknown) > 1:
        raise ReplearnError(
            f"only one value can be solved for, got None for {' and '.join(unknown)}. "
            "Give all but one of them."
        )
    request = _Request(
        row, n_features + bool(fit_intercept), mode, failure_prob, n_sites, constants, hint_bits
    )
    if unknown:
        assert n_samples is not None
        found = request.search(promise, unknown[0], n_samples)
        if found is None:
            highest = promise | {unknown[0]: _RANGES[unknown[0]][1]}
            raise request.too_few(highest, n_samples, request.planned(highest).n_samples)
        made = found
    else:
        made = request.planned(promise)
        if n_samples is not None and n_samples < made.n_samples:
            raise request.too_few(promise, n_samples, made.n_samples)
    if n_sites == 2:
        return made
    rho = (n_sites - 1) * made.guarantee.max_disagreement
    words = f"{n_sites} sites all agree but with probability {rho:.3g}"
    return replace(made, basis=f"{made.basis}; {words}")


@dataclass(frozen=True)
class _Request:
    """What is fixed while a value is searched."""

    row: Algorithm
    n_inputs: int
    mode: str
    failure_prob: float
    n_sites: int
    constants: dict[str, float] | None
    hint_bits: int

    def planned(self, promise: dict[str, Any]) -> Plan:
        """The plan of a whole promise."""
        whole = Guarantee(**promise, failure_prob=self.failure_prob)
        pair = replace(whole, max_disagreement=whole.max_disagreement / (self.n_sites - 1))
        more: dict[str, Any] = {} if self.constants is None else {"constants": self.constants}
        if self.hint_bits:
            more["sizes"] = Sizes(hint_bits=self.hint_bits)
        return self.row.make(pair, self.n_inputs, self.mode, **more)

    def fits(self, promise: dict[str, Any], n_samples: int) -> Plan | None:
        """The plan, if this number of rows is enough for it."""
        try:
            made = self.planned(promise)
        except ReplearnError:  # such as a net that nobody can search
            return None
        return made if made.n_samples <= n_samples else None

    def search(self, promise: dict[str, Any], name: str, n_samples: int) -> Plan | None:
        """The plan with the smallest value of one part of the promise, if rows are enough for any.

        Bisection: the larger the value, the fewer rows are needed.
        """
        low, high = _RANGES[name]
        best = self.fits(promise | {name: high}, n_samples)
        if best is None:
            return None
        for _ in range(_STEPS):
            middle = _rounded_up(math.sqrt(low * high))
            if not low < middle < high:
                break
            made = self.fits(promise | {name: middle}, n_samples)
            if made is None:
                low = middle
            else:
                best, high = made, middle
        return best

    def too_few(self, promise: dict[str, Any], n_samples: int, needed: int) -> NotEnoughSamples:
        """Why a request is impossible, and what to relax."""
        ways = []
        for name, times in (
            ("max_disagreement", self.n_sites - 1),
            ("max_error", 1),
            ("margin", 1),
        ):
            made = self.search(promise, name, n_samples)
            if made is not None:
                ways.append(f"{name} to {getattr(made.guarantee, name) * times:g}")
        if self.mode != "practical":
            practical = replace(self, mode="practical", constants=None).fits(promise, n_samples)
            if practical is not None:
                ways.append('mode to "practical", which estimates instead of proving')
        remedy = (
            "Relax " + ", or ".join(ways)
            if ways
            else "None of max_disagreement, max_error and margin alone is enough: relax several"
        )
        words = ", ".join(f"{name} {value:g}" for name, value in promise.items())
        return NotEnoughSamples(
            f"{self.row.algorithm} in {self.mode} mode needs {needed:,} rows for {words}"
            f"{'' if self.n_sites == 2 else f' at {self.n_sites} sites'}, got {n_samples:,}. "
            f"{remedy}; or get more rows.",
            available=n_samples,
            needed=needed,
        )


def _rounded_up(value: float) -> float:
    """Three digits, on the safe side."""
    shift = 10.0 ** (_DIGITS - 1 - math.floor(math.log10(value)))
    return float(f"{math.ceil(value * shift - 1e-9) / shift:.{_DIGITS}g}")


def _row(algorithm: str) -> Algorithm:
    for row in ROWS:
        if row.algorithm == algorithm:
            return row
    raise ReplearnError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}.")


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ReplearnError(f"{name} must be an integer of at least {least}, got {value!r}.")


# --- Table 1 ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableRow:
    """Rows needed by one algorithm, by mode; None with a reason where it cannot be run."""

    algorithm: str
    title: str
    rate: str
    n_samples: dict[str, int | None]
    reasons: dict[str, str]


@dataclass(frozen=True)
class Table1:
    """Table 1 of the paper with numbers.

    Attributes
    ----------
    guarantee : Guarantee
    n_features : int
    rows : tuple of TableRow
    """

    guarantee: Guarantee
    n_features: int
    rows: tuple[TableRow, ...]

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            **asdict(self.guarantee),
            "n_features": self.n_features,
            "rows": [asdict(row) for row in self.rows],
        }

    def __str__(self) -> str:
        promise = self.guarantee
        lines = [
            f"Rows per lab for margin {promise.margin:g}, error <= {promise.max_error:g}, "
            f"disagreement <= {promise.max_disagreement:g}, failure <= {promise.failure_prob:g}, "
            f"{self.n_features} features",
            f"  {'algorithm':<12}{'':<24}{'practical':>12}{'certified':>12}{'paper':>12}"
            "  rate in the paper",
        ]
        notes: list[str] = []
        for row in self.rows:
            cells = "".join(f"{self._cell(row, mode, notes):>12}" for mode in MODES)
            lines.append(f"  {row.algorithm:<12}{row.title:<24}{cells}  {row.rate}")
        lines.append(
            "  practical: calibrated, not proved; certified: proved; paper: all constants 1"
        )
        lines += [f"  ({i}) {note}" for i, note in enumerate(notes, start=1)]
        return "\n".join(lines)

    def _cell(self, row: TableRow, mode: str, notes: list[str]) -> str:
        number = row.n_samples[mode]
        if number is not None:
            return f"{number:,}" if number < 10_000_000 else f"{number:.1e}"
        reason = row.reasons[mode]
        if reason not in notes:
            notes.append(reason)
        return f"({notes.index(reason) + 1})"


def table1(
    *,
    margin: float = 0.5,
    max_error: float = 0.1,
    max_disagreement: float = 0.1,
    failure_prob: float = 0.05,
    n_features: int = 50,
    fit_intercept: bool = True,
) -> Table1:
    """Table 1 of the paper with numbers: rows per lab of the six algorithms in three modes.

    Parameters
    ----------
    margin, max_error, max_disagreement, failure_prob : float
        The promise, as for `plan`.
    n_features : int, default=50
        Number of columns.
    fit_intercept : bool, default=True
        A constant column is appended: one input more.

    Returns
    -------
    Table1
        Rows of the table, with reasons where an algorithm refuses; it prints as a table.

    Examples
    --------
    >>> table1(n_features=10).rows[2].n_samples["certified"] > 1_000_000
    True
    """
    guarantee = Guarantee(margin, max_error, max_disagreement, failure_prob)
    _check_whole("n_features", n_features, 1)
    n_inputs = n_features + bool(fit_intercept)
    rows = tuple(_table_row(row, guarantee, n_inputs) for row in ROWS)
    return Table1(guarantee, n_features, rows)


def _table_row(row: Algorithm, guarantee: Guarantee, n_inputs: int) -> TableRow:
    numbers: dict[str, int | None] = {}
    reasons: dict[str, str] = {}
    for mode in MODES:
        try:
            numbers[mode] = row.make(guarantee, n_inputs, mode).n_samples
        except ReplearnError as problem:
            numbers[mode], reasons[mode] = None, str(problem)
    return TableRow(row.algorithm, row.title, row.rate, numbers, reasons)
