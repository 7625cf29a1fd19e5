"""Table 1 of the paper with numbers: planned rows, exponents of the plans, and counted pairs."""

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

from replearn.codes import MODES, Mode, Promise, Recipe
from replearn.errors import NotSearchable, ReplearnError, ReplicabilityWarning, UselessModelWarning
from replearn.halfspaces import TABLE1
from replearn.reports.plans import plan, rows_text
from replearn.words import Facts, Figure, Spoken, Table, forest

#: Bits about each component in the rows with a sketch.
BITS = 3

#: Lines of the table by name: a recipe, and the bits that an original publishes.
LINES = {
    **{name: (recipe, 0) for name, recipe in TABLE1.items()},
    **{f"{name}+{BITS}": (TABLE1[name], BITS) for name in ("svm", "sgd")},
}

#: What a promise has that is halved, by its symbol.
_HALVED = {"eps": "max_error", "tau": "margin", "rho": "max_disagreement"}

#: Numbers of a lab's table (rows times columns), and columns of foam, beyond which nothing is run.
_MOST_NUMBERS, _MOST_FOAM = 40_000_000, 16
_TEST_ROWS = 4_000
_CAPTION = "A dot and its number: practical mode. The line reaches to the other modes."


class Counted(NamedTuple):
    """Pairs of labs that were run: how many differ, and the mean error of the models."""

    n_rows: int
    n_pairs: int
    n_differ: int
    error: float


@dataclass(frozen=True)
class Table1(Spoken):
    """Rows that each algorithm of the paper's Table 1 needs for one promise.

    Attributes
    ----------
    rows : dict
        By name and mode; None where there is no plan.
    fit_intercept : bool or None
        As estimators have it: None is a constant, but in paper mode.
    counted : dict
        By name: pairs that were run, or in words why none were.
    counted_mode : str
        The mode in which they were.
    exponents : dict
        By name, mode and symbol: the logarithm to base 2 of the ratio of rows if d is doubled, or
        eps, tau or rho halved. It holds the logarithms of a rate too. None: there is no plan.
    promise : Promise
        Margin, error, disagreement and failure.
    n_features : int
        Columns.

    See Also
    --------
    table1 : makes one.
    plan : one line of it, with all sizes.

    Notes
    -----
    Table 1 of [KKLVZ24], with constants. The three modes are three columns: calibrated, proved,
    printed.

    References
    ----------
    .. [KKLVZ24] Kalavasis, Karbasi, Larsen, Velegkas and Zhou. Replicable Learning of Large-Margin
       Halfspaces. ICML 2024. https://arxiv.org/abs/2402.13857

    Examples
    --------
    >>> import replearn as rl
    >>> found = rl.table1(n_features=10, margin=0.3)
    >>> found.rows["svm"]["practical"], list(found.rows["svm"])
    (2422, ['practical', 'certified', 'paper'])
    >>> list(found.rows)
    ['foam', 'box', 'svm', 'sgd', 'net', 'dp', 'svm+3', 'sgd+3']
    """

    promise: Promise
    n_features: int
    fit_intercept: bool | None
    rows: dict[str, dict[Mode, int | None]]
    counted: "dict[str, Counted | str]" = field(default_factory=dict)
    counted_mode: Mode = "practical"
    exponents: dict[str, dict[Mode, dict[str, float | None]]] = field(default_factory=dict)

    def facts(self) -> Facts:
        """As tables."""
        lines = []
        for name, (recipe, bits) in LINES.items():
            rows = [rows_text(self.rows[name][mode]) for mode in MODES]
            lines.append((name, line_title(recipe, bits), *rows))
        table = Table("", ("name", "algorithm", *MODES), lines, key="algorithms")
        rates = Table(
            "Rates, without logarithms (d: columns, tau: margin)",
            ("name", "printed", "certified", "from"),
            [(name, r.rate, r.certified_rate, r.source) for name, r in TABLE1.items()],
            key="rates",
        )

        # what was asked for, else empty
        counted = Table(
            "",
            ("name", f"{self.counted_mode} rows", "pairs that differ", "error"),
            [(name, *_counted_cells(pairs)) for name, pairs in self.counted.items()],
            key="counted",
        )

        # who runs pairs asks for these: what was not run, and why, is never below "More"
        tables = [part for part in (counted, table, self._growth()) if part.rows]
        asked = 1 if self.counted else len(tables)
        picture = Figure("Rows of each lab on a logarithmic scale", self._picture, _CAPTION)
        return Facts(
            self._verdict(),
            tables[:asked],
            details=[*tables[asked:], rates],
            figures=[picture],
            values={"n_rows": self.rows},
        )

    def _verdict(self) -> str:
        what = "Pairs of labs" if self.counted else "Rows that labs need"
        constant = ", no constant" if self.fit_intercept is False else " and a constant"
        promise = self.promise
        return (
            f"{what} for margin {promise.margin:g}, error {promise.max_error:g}, disagreement "
            f"{promise.max_disagreement:g}, {self.n_features:,} columns{constant}."
        )

    def _growth(self) -> Table:
        """Powers of each line and mode, below those that the paper prints."""
        lines = []
        for name, modes in self.exponents.items():
            for mode, powers in (_printed(name) | modes).items():
                cells = ["" if x is None else f"{x + 0.0:.1f}" for x in powers.values()]
                lines.append((name, mode, *cells))
        return Table(
            "How rows grow if d is doubled, or eps, tau or rho halved: powers of 2",
            ("name", "mode", "d", "1/eps", "1/tau", "1/rho"),
            lines,
            key="exponents",
        )

    def _picture(self) -> str:
        marks = []
        for name, modes in self.rows.items():
            ends = [math.log10(rows) for rows in modes.values() if rows is not None]
            if (rows := modes["practical"]) is not None:
                marks.append((name, rows_text(rows), math.log10(rows), min(ends), max(ends)))
        ticks = [(float(power), f"1e{power}") for power in range(5, 40, 5)]
        return forest(marks, 3.0, "1,000 rows", ticks=ticks)


def line_title(recipe: Recipe, bits: int) -> str:
    """What a line of the table is about, without its name."""
    return recipe.title + (f" with {bits} bits" if bits else "")


def table1(
    *,
    n_features: int = 50,
    margin: float = 0.2,
    max_error: float = 0.05,
    max_disagreement: float = 0.1,
    failure_prob: float = 0.05,
    fit_intercept: bool | None = None,
    measure: int = 0,
    certified: bool = False,
    exponents: bool = False,
) -> Table1:
    """Table 1 of the paper with numbers for one promise: the rows that `plan` says.

    Below the six lines stand Algorithms 1 and 2 with a sketch: an original publishes three bits
    about each component, so somebody is first.

    Parameters
    ----------
    n_features : int, default=50
        Columns of a row.
    margin, max_error, max_disagreement, failure_prob : float
        The promise.
    fit_intercept : bool or None, default=None
        As estimators have it: None is a constant, but in paper mode.
    measure : int, default=0
        Pairs of labs that are run for each line of the table, on populations with margins from
        ``margin`` to twice as much. Plans that are too large are left out.
    certified : bool, default=False
        Run the certified plans, and not the practical ones.
    exponents : bool, default=False
        Say how plans grow with each part of the promise; some seconds of arithmetic.

    Returns
    -------
    table : Table1
        ``print`` it; ``table.rows`` has rows by algorithm and mode.

    See Also
    --------
    plan : one line of it, with all sizes.

    Notes
    -----
    Each row is a call of `plan`. Rates in ``docs/theory/table1.md`` are slopes of these numbers on
    logarithmic scales.

    References
    ----------
    .. [KKLVZ24] Kalavasis, Karbasi, Larsen, Velegkas and Zhou. Replicable Learning of Large-Margin
       Halfspaces. ICML 2024, arXiv:2402.13857.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.table1(n_features=10, margin=0.3, max_error=0.1)
    >>> list(table.rows)
    ['foam', 'box', 'svm', 'sgd', 'net', 'dp', 'svm+3', 'sgd+3']
    """
    promise = Promise(margin, max_error, max_disagreement, failure_prob)
    rows: dict[str, dict[Mode, int | None]] = {}
    growth: dict[str, dict[Mode, dict[str, float | None]]] = {}
    for name in LINES:
        rows[name], powers = {}, {}
        for mode in MODES:
            planned = partial(_planned, name, mode, fit_intercept)
            n_rows = rows[name][mode] = planned(promise, n_features)
            if exponents and n_rows is not None:
                powers[mode] = _powers(n_rows, planned, promise, n_features)
        if exponents:
            growth[name] = powers

    run_mode: Mode = "certified" if certified else "practical"
    counted = {}
    for name, modes in rows.items() if measure else ():
        how: dict[str, Any] = {"mode": run_mode, "fit_intercept": fit_intercept}
        counted[name] = _count(name, promise, n_features, modes[run_mode], measure, how)
    return Table1(promise, n_features, fit_intercept, rows, counted, run_mode, growth)


def _count(
    name: str,
    promise: Promise,
    n_features: int,
    n_rows: int | None,
    n_pairs: int,
    how: dict[str, Any],
) -> Counted | str:
    """Pairs of labs, where a laptop can run them; else why it cannot."""
    if n_rows is None:
        return "no plan"
    # what takes too much memory, and foam, whose time doubles with each column
    if n_rows * n_features > _MOST_NUMBERS:
        return f"over {_MOST_NUMBERS // 10**6} million numbers"
    if name == "foam" and n_features > _MOST_FOAM:
        return f"over {_MOST_FOAM} columns"
    try:
        return count_pairs(name, promise, n_features, n_rows, n_pairs, **how)
    except NotSearchable:
        return "too many candidates"


def _counted_cells(pairs: Counted | str) -> tuple[str, str, str]:
    """Rows, pairs that differ, error."""
    if isinstance(pairs, str):
        return "", f"not run: {pairs}", ""
    return rows_text(pairs.n_rows), f"{pairs.n_differ} of {pairs.n_pairs}", f"{pairs.error:.4f}"


def count_pairs(
    name: str, promise: Promise, n_features: int, n_rows: int, n_pairs: int, **how: Any
) -> Counted:
    """Run pairs of labs with fresh rows and a fresh seed each.

    Parameters
    ----------
    name : str
        A line of the table, such as ``"svm"`` or ``"svm+3"``.
    **how
        Mode and intercept of the estimators; practical, without one, unless given.
    """
    from replearn.datasets import make_margin

    def draw(sample: int, n: int = n_rows) -> tuple[Any, Any]:
        top = min(2 * promise.margin, 0.95)
        return make_margin(n, n_features, promise.margin, max_margin=top, random_state=sample)

    new_rows = draw(10**9, _TEST_ROWS)  # a sample that no pair has
    n_differ, wrong = 0, 0.0
    with warnings.catch_warnings():
        for said in (ReplicabilityWarning, UselessModelWarning):  # what they say is counted here
            warnings.simplefilter("ignore", said)
        for pair in range(n_pairs):
            first = _shell(name, promise, pair, **how).fit(*draw(2 * pair))
            second = _shell(name, promise, pair, getattr(first, "study_", None), **how)
            second.fit(*draw(2 * pair + 1))
            n_differ += first.fingerprint_ != second.fingerprint_
            wrong += 1 - float(first.score(*new_rows))
    return Counted(n_rows, n_pairs, n_differ, wrong / n_pairs)


def _shell(name: str, promise: Promise, seed: int, study: Any = None, **how: Any) -> Any:
    """The estimator of a line; with a study it is a replication."""
    from replearn.estimators import ESTIMATORS

    recipe, bits = LINES[name]
    more: dict[str, Any] = {"sketch_bits": bits} if bits else {}
    # a replication has its bits from the study
    if bits and study is not None:
        more = {"study": study}
    more = {"fit_intercept": False} | how | more
    return ESTIMATORS[recipe.name](**asdict(promise), shared_seed=seed, **more)


@lru_cache(maxsize=256)
def _planned(
    name: str, mode: Mode, fit_intercept: bool | None, promise: Promise, n_features: int
) -> int | None:
    recipe, bits = LINES[name]
    if bits and mode == "paper":
        return None
    how: dict[str, Any] = {"mode": mode, "fit_intercept": fit_intercept, "sketch_bits": bits}
    try:
        return plan(recipe.name, n_features=n_features, **asdict(promise), **how).plan.n_rows
    except ReplearnError:  # no number of rows keeps it
        return None


def _powers(
    n_rows: int, planned: Callable[[Promise, int], int | None], promise: Promise, n_features: int
) -> dict[str, float | None]:
    """Logarithms of the ratio of rows if d is doubled, or a part of the promise halved."""
    there = {"d": planned(promise, 2 * n_features)}
    for symbol, part in _HALVED.items():
        halved = replace(promise, **{part: getattr(promise, part) / 2})
        there[symbol] = planned(halved, n_features)
    return {
        symbol: None if more is None else math.log2(more / n_rows) for symbol, more in there.items()
    }


def _printed(name: str) -> dict[Any, dict[str, float | None]]:
    """Powers in the rate of Table 1; a sketch has no such line."""
    recipe, bits = LINES[name]
    return {} if bits else {"printed": powers_of(recipe.rate)}


def powers_of(rate: str) -> dict[str, float | None]:
    """Powers of d, 1/eps, 1/tau and 1/rho in a rate."""
    powers: dict[str, float | None] = dict.fromkeys(("d", *_HALVED), 0.0)
    for factor in rate.split():
        symbol, _, power = factor.partition("^")
        # a negative power of tau is one of 1/tau, as the table has it
        powers[symbol] = abs(float(power or 1))
    return powers
