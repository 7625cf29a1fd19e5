"""Plans of the paper's algorithms before any row is spent."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from replearn.codes import Mode, Plan, Promise, Recipe, Sizes, after_constant, has_intercept
from replearn.errors import ReplearnError, short, whole_number
from replearn.glm import GLM
from replearn.halfspaces import TABLE1, BatchPlan, calm_variance
from replearn.words import Facts, Figure, Row, Spoken, by_rows

#: All recipes by name: the model of studies, whose sizes follow from rows, and those of Table 1.
RECIPES: dict[str, Recipe] = {GLM.name: GLM} | TABLE1

#: Sizes in words, in the order of a fit; programs read all sizes by their names.
_WORDS = {
    "one_fit": "one fit of all rows",
    "n_batches": "batches",
    "batch_size": "rows of a batch",
    "n_repetitions": "runs of a batch",
    "n_validation": "rows that choose the best run",
    "regularization": "weight of |u|^2 / 2",
    "n_rounds": "rounds, at most",
    "projection": "projection",
    "n_components": "components",
    "log_size": "logarithm of the candidates",
    "low": "threshold, lowest",
    "high": "threshold, highest",
    "inverse_temperature": "inverse temperature",
    "populations": "disagreement bounded for",
    "rounding": "rounding",
    "grid_width": "side of a cell",
    "noise": "noise of a score",
    "sketch_bits": "published bits per component",
    "n_held_out": "rows held out for a test",
    "n_allowed": "errors allowed among them",
}

#: Of which populations a bound holds.
_POPULATIONS = {"margin": "populations with the margin", "all": "all populations"}

#: Fields of every plan, which are said apart.
_COMMON = {field.name for field in fields(Plan)}


@dataclass(frozen=True)
class Planned(Spoken):
    """How many rows an algorithm needs, and all its sizes.

    Attributes
    ----------
    recipe : Recipe
        The algorithm: its name, its rate and its bounds.
    plan : Plan
        All sizes; ``plan.n_rows`` are the rows that each lab needs.

    See Also
    --------
    plan : makes one.
    table1 : all algorithms beside each other.

    Notes
    -----
    ``recipe.sizes`` does arithmetic and sees no rows: a plan can be printed before any data are
    spent.

    Examples
    --------
    >>> import replearn as rl
    >>> planned = rl.plan("svm", n_features=10, margin=0.3)
    >>> planned.plan.n_rows, planned.recipe.rate
    (2422, 'eps^-1 tau^-7 rho^-2')
    >>> planned
    <Planned: Each lab needs 2,422 rows for Algorithm 1 (svm).>
    """

    recipe: Recipe
    plan: Plan

    def disagreement(self, n_rows: int) -> float:
        """With so many rows: calibrated in practical mode, else proved."""
        return self.recipe.stability(self.plan, n_rows, None).in_mode(self.plan.mode)

    def facts(self) -> Facts:
        """In words."""
        promise = self.plan.promise
        sizes = self._sizes()
        # one fit has no batches, and one run leaves no choice
        unused = {"n_batches", "batch_size"} if sizes.get("one_fit") else set()
        if sizes.get("n_repetitions") == 1:
            unused.add("n_repetitions")
        told = [
            Row(words, _readable(sizes[n]))
            for n, words in _WORDS.items()
            if sizes.get(n) and n not in unused
        ]
        disagreement = self.disagreement(self.plan.n_rows)
        picture = Figure(
            "How often two labs get the same model, by their sample size",
            lambda: by_rows(self.plan.n_rows, self.disagreement),
        )
        return Facts(
            f"Each lab needs {rows_text(self.plan.n_rows)} rows for "
            f"{self.recipe.title} ({self.recipe.name}).",
            [
                Row("mode", self.plan.mode, note=self.plan.origin),
                Row("margin", promise.margin, note="of rows as the algorithm sees them"),
                Row("error at most", promise.max_error, "%"),
                Row("disagreement at most", promise.max_disagreement, "%"),
            ],
            details=[
                Row("disagreement by the plan", disagreement, "%"),
                *self._rate(),
                *self._calm(),
                *told,
            ],
            figures=[picture] if disagreement < 1 else [],  # a proof may say nothing
            values={"algorithm": self.recipe.name, "n_rows": self.plan.n_rows} | sizes,
        )

    def _rate(self) -> list[Row]:
        """As printed, or as proved here; with bits neither holds."""
        if getattr(self.plan, "sketch_bits", 0):
            return []

        rate = self.recipe.rate
        if self.plan.mode == "certified":
            rate = self.recipe.certified_rate

        return [Row("rate", rate, note="without logarithms")]

    def _sizes(self) -> dict[str, Any]:
        """All sizes of this algorithm by name, those of its net among them."""
        sizes = vars(self.plan)
        if "cover" in sizes:
            sizes = sizes | vars(sizes["cover"])
        return {
            name: plain
            for name, value in sizes.items()
            if name not in _COMMON and (plain := _plain(value)) is not None
        }

    def _calm(self) -> list[Row]:
        """Of a plan that looks at its rows: for which populations no lab refuses but rarely."""
        made = self.plan
        if not (isinstance(made, BatchPlan) and made.looks):
            return []
        variance = float(f"{calm_variance(made, made.n_batches):.2g}")
        note = "of batches; above it one lab may refuse where the other does not"
        return [Row("Definition 1.1 in full up to a variance of", variance, note=note)]


def plan(
    algorithm: str = "svm",
    *,
    n_features: int,
    margin: float = 0.1,
    max_error: float = 0.05,
    max_disagreement: float = 0.1,
    failure_prob: float = 0.05,
    mode: Mode = "practical",
    fit_intercept: bool | None = None,
    sketch_bits: int = 0,
    constants: Mapping[str, float] | None = None,
    **sizes: Any,
) -> Planned:
    """Say how many rows each lab needs, and every size of the fit: arithmetic, no rows.

    Parameters
    ----------
    algorithm : {"svm", "sgd", "net", "dp", "box", "foam"}, default="svm"
        A row of Table 1.
    n_features : int
        Columns of a row.
    margin, max_error, max_disagreement, failure_prob : float
        The promise; see `ReplicableSVMClassifier`.
    mode : {"practical", "certified", "paper"}, default="practical"
        Calibrated, proved, or as the paper prints them.
    fit_intercept : bool or None, default=None
        None is as estimators have it: a constant, but in paper mode.
    sketch_bits : int, default=0
        Bits about each component that an original publishes.
    constants : dict, optional
        Paper mode: constants of the printed formulas by symbol.
    **sizes : int or float
        Sizes by hand, such as ``n_batches``.

    Returns
    -------
    planned : Planned
        ``print`` it; ``planned.plan.n_rows`` are the rows that each lab needs.

    See Also
    --------
    table1 : all algorithms beside each other.
    ReplicableSVMClassifier : fits such a plan.

    Notes
    -----
    Sizes invert the bound of the algorithm, ``Recipe.stability``, by bisection. No row is looked
    at, so both labs may plan alone.

    References
    ----------
    .. [KKLVZ24] Kalavasis, Karbasi, Larsen, Velegkas and Zhou. Replicable Learning of Large-Margin
       Halfspaces. ICML 2024, arXiv:2402.13857.

    Examples
    --------
    >>> plan("svm", n_features=20, margin=0.2).plan.n_rows > 1000
    True
    """
    recipe = RECIPES.get(algorithm)
    if recipe is GLM:
        raise ReplearnError(
            "sizes of a GLM follow from an original's rows, and not from a promise alone. Fit an "
            "original: its certificate_ and study_.disagreement(n_rows) say what labs need."
        )
    if recipe is None:
        known = ", ".join(TABLE1)
        raise ReplearnError(f"algorithm must be one of {known}, got {short(algorithm)}.")
    if sketch_bits and algorithm not in ("svm", "sgd"):  # others would silently plan without
        raise ReplearnError(
            f"sketch_bits must be 0 for {algorithm}, got {short(sketch_bits)}. Leave them out, or "
            "plan for svm or sgd."
        )

    # a constant is one input more, and costs margin
    n_features = whole_number("n_features", n_features)
    promise = Promise(margin, max_error, max_disagreement, failure_prob)
    constant = has_intercept(mode, fit_intercept)
    promise = after_constant(promise) if constant else promise
    made = recipe.sizes(
        promise, n_features + constant, mode, Sizes(sizes, constants or {}, sketch_bits)
    )
    return Planned(recipe, made)


def _readable(size: Any) -> Any:
    """A size as a reader takes it: an exact decimal as a number, a word of ours in theirs."""
    if isinstance(size, str) and size.replace(".", "", 1).isdigit():
        return float(size) if "." in size else int(size)
    return _POPULATIONS.get(size, size) if isinstance(size, str) else size


def rows_text(number: int | None) -> str:
    """A number of rows, short."""
    if number is None:
        return ""
    return f"{number:,}" if number < 10**9 else f"{number:.1e}"


def _plain(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return value if not isinstance(value, int) or abs(value) < 10**15 else float(value)
    return None
