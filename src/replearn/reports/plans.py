"""Plans of the paper's algorithms before any row is spent, and Table 1 with numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from replearn.errors import ReplearnError, short
from replearn.facts import Facts, Row, Spoken, Table
from replearn.recipes import RECIPES
from replearn.recipes.recipe import MODES, Mode, Plan, Promise, Recipe, Sizes, after_constant

#: Fields of every plan, which are said apart.
_COMMON = {field.name for field in fields(Plan)}


@dataclass(frozen=True)
class Planned(Spoken):
    """How many rows an algorithm needs, and all its sizes.

    Attributes
    ----------
    recipe : Recipe
    plan : Plan
    disagreement : float
        At that number of rows: calibrated in practical mode, else proved.
    """

    recipe: Recipe
    plan: Plan
    disagreement: float

    def facts(self) -> Facts:
        """In words."""
        promise = self.plan.promise
        sizes = [
            Row(field.name.replace("_", " "), _plain(getattr(self.plan, field.name)))
            for field in fields(self.plan)
            if field.name not in _COMMON and _plain(getattr(self.plan, field.name)) is not None
        ]
        return Facts(
            f"Each lab needs {_rows(self.plan.n_rows)} rows for {self.recipe.title}.",
            [
                Row("mode", self.plan.mode, note=self.plan.origin),
                Row("margin", promise.margin, note="after the constant was appended, if one is"),
                Row("error at most", promise.max_error, "%"),
                Row("disagreement at most", promise.max_disagreement, "%"),
                Row("bound there", self.disagreement, "%"),
            ],
            details=[Row("rate", self.recipe.rate, note="without logarithms"), *sizes],
            values={"algorithm": self.recipe.name, "n_rows": self.plan.n_rows},
        )


def plan(
    algorithm: str = "svm",
    *,
    n_features: int,
    margin: float = 0.1,
    max_error: float = 0.05,
    max_disagreement: float = 0.1,
    failure_prob: float = 0.05,
    mode: Mode = "practical",
    fit_intercept: bool = True,
    sketch_bits: int = 0,
    constants: Mapping[str, float] | None = None,
    **sizes: Any,
) -> Planned:
    """Say how many rows each lab needs, and every size of the fit: arithmetic, no rows.

    Parameters
    ----------
    algorithm : {"svm", "sgd", "net", "dp", "box", "foam"}
        A row of Table 1.
    n_features : int
    margin, max_error, max_disagreement, failure_prob : float
        The promise; see `ReplicableSVMClassifier`.
    mode : {"practical", "certified", "paper"}
    fit_intercept : bool, default=True
    sketch_bits : int, default=0
        Bits about each component that an original publishes.
    constants : dict, optional
        Paper mode: constants of the printed formulas by symbol.
    **sizes
        Sizes by hand.

    Examples
    --------
    >>> plan("svm", n_features=20, margin=0.2).plan.n_rows > 1000
    True
    """
    recipe = RECIPES.get(algorithm)
    if recipe is None:
        raise ReplearnError(
            f"algorithm must be one of {', '.join(RECIPES)}, got {short(algorithm)}."
        )
    if isinstance(n_features, bool) or not isinstance(n_features, int) or n_features < 1:
        raise ReplearnError(f"n_features must be a number of columns, got {short(n_features)}.")
    promise = Promise(margin, max_error, max_disagreement, failure_prob)
    promise = after_constant(promise) if fit_intercept else promise
    made = recipe.sizes(
        promise, n_features + fit_intercept, mode, Sizes(sizes, constants or {}, sketch_bits)
    )
    bound = recipe.stability(made, made.n_rows, None)
    return Planned(recipe, made, bound.in_mode(mode))


@dataclass(frozen=True)
class Table1(Spoken):
    """Rows that each algorithm of the paper's Table 1 needs for one promise.

    Attributes
    ----------
    promise : Promise
    n_features : int
    rows : dict
        By algorithm and mode; None where there is no plan.
    """

    promise: Promise
    n_features: int
    rows: dict[str, dict[str, int | None]]

    def facts(self) -> Facts:
        """As a table."""
        promise = self.promise
        table = Table(
            "Table 1 of the paper: rows of each lab",
            ("name", "algorithm", *MODES),
            [
                (name, recipe.title, *(_rows(self.rows[name][m]) for m in MODES))
                for name, recipe in RECIPES.items()
            ],
            key="algorithms",
        )
        rates = Table(
            "Rates, without logarithms (d: columns, tau: margin)",
            ("name", "rows"),
            [(name, recipe.rate) for name, recipe in RECIPES.items()],
            key="rates",
        )
        return Facts(
            f"Rows that labs need for margin {promise.margin:g}, error {promise.max_error:g} and "
            f"disagreement {promise.max_disagreement:g} with {self.n_features:,} columns.",
            [table],
            details=[rates],
            values={"n_rows": self.rows},
        )


def table1(
    *,
    n_features: int = 50,
    margin: float = 0.2,
    max_error: float = 0.05,
    max_disagreement: float = 0.1,
    failure_prob: float = 0.05,
) -> Table1:
    """Table 1 of the paper with numbers for one promise, without an intercept.

    Parameters
    ----------
    n_features : int
    margin, max_error, max_disagreement, failure_prob : float
        The promise.
    """
    given = {
        "n_features": n_features,
        "margin": margin,
        "max_error": max_error,
        "max_disagreement": max_disagreement,
        "failure_prob": failure_prob,
    }
    found: dict[str, dict[str, int | None]] = {}
    for name in RECIPES:
        found[name] = {}
        for mode in MODES:
            made = plan(name, mode=mode, fit_intercept=False, **given)  # type: ignore[arg-type]
            found[name][mode] = made.plan.n_rows
    promise = Promise(margin, max_error, max_disagreement, failure_prob)
    return Table1(promise, n_features, found)


def _rows(number: int | None) -> str:
    if number is None:
        return ""
    return f"{number:,}" if number < 10**9 else f"{number:.1e}"


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value if not isinstance(value, int) or abs(value) < 10**15 else float(value)
    return None
