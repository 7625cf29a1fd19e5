"""Algorithm 1 as a scikit-learn classifier."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

from replearn.codes.published import Published
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.estimators.base import Asks, silent_overflow
from replearn.estimators.batch_based import BatchBasedClassifier
from replearn.estimators.checks import refuse_large
from replearn.estimators.docstrings import with_shared_entries
from replearn.plans.plan_rows import RowPlan, plan_rows
from replearn.plans.plan_svm import MARGIN_GRID, plan_svm
from replearn.plans.sizes import BatchPlan
from replearn.stages import recipes
from replearn.stages.batches import BatchSums
from replearn.stages.certificate import Certificate
from replearn.stages.row_certificate import certify_rows
from replearn.stages.row_fit import fit_all_rows
from replearn.types import BlockMap

#: What Algorithm 1 can round.
ESTIMATES = ("batches", "rows")


@with_shared_entries
class ReplicableSVMClassifier(BatchBasedClassifier):
    """Replicable large-margin halfspaces by batch SVMs: Algorithm 1 of [KKLVZ24].

    {two_labs}

    More than two classes have a halfspace each, against the rest: one model, one file and one
    fingerprint, and the disagreement is divided over them. The largest signed distance decides.

    Parameters
    ----------
    margin : float or "auto", default=0.1
        Margin that some halfspace has on the population, rows scaled to length 1 (after a
        constant is appended to them, with ``fit_intercept``: that divides the margin of rows of
        length 1 by 1.41); of more than two classes, each against the rest. "auto"
        (practical mode): the largest of a published grid whose noise the data bear, chosen
        replicably; the choice's own disagreement is part of the certificate.
    max_error : float, default=0.05
        Share of new points that may be misclassified. In practical mode it sets the rounding
        noise and is a target: met on average over seeds and over populations that have the
        margin, while some seeds and populations are worse (docs/theory.md).
    {max_disagreement}
    failure_prob : float, default=0.05
        Probability that the error may exceed ``max_error`` (certified mode), or that the
        certificate's bound is wrong.
    {shared_seed}
    mode : {"practical", "certified", "paper"}, default="practical"
        Where the sizes come from. Practical: calibrated formulas, fits on any number of
        rows. Certified: proved constants, refuses too few rows. Paper: its sizes;
        docs/theory.md lists what differs.
    {fit_intercept}
    shuffle : bool, default=True
        Permute the rows before they are cut into batches, by a permutation keyed with the
        shared seed, or with ``random_state`` if that is given.
    {random_state, n_jobs, verbose}
    n_batches, batch_size, n_components, grid_width, projection, rounding, regularization : \
"auto" or value, default="auto"
        Sizes of the plan, by hand. ``rounding="best"`` takes the cells that cost least for the
        number of components (`replearn.codes.cells.best_blocks`).
    constants : dict or None, default=None
        Paper mode: the constants C1 to C4 of Algorithm 1, default 1.
    class_weight : dict or None, default=None
        Published weights of two classes: how much the loss of their rows counts. Only ratios
        matter. "balanced" would differ between labs: a plan from a pilot publishes numbers for it.
    published : Published or None, default=None
        What a protocol fixes: the scaling of the columns, labels, directions to round in.
    hint_bits : int, default=0
        The first lab publishes this many bits about where its mean lies, and far fewer rows are
        needed; see docs/theory.md. 0 is the paper's notion of replicability.
    {hint}
    estimate : {"batches", "rows"}, default="batches"
        What is rounded. "batches": the mean of large-margin vectors of batches, the paper's way.
        "rows" (practical mode): the vector of one regularised logistic fit on all rows, from exact
        sums in a few passes over them. It needs a half to a quarter of the rows where margins are
        spread out, no batches and no order, so ``shuffle`` and ``random_state`` have no effect.
        Where all margins are close to ``margin`` its error is larger: docs/theory.md.

    Attributes
    ----------
    {model_, hint_, fingerprint_}
    plan_ : BatchPlan, or RowPlan with ``estimate="rows"``
        Every size that was used.
    {certificate_}
    coef_ : array of shape (1, n_features), or (n_classes, n_features) if there are more than two
    intercept_ : array of shape (1,), or (n_classes,)
    classes_ : array of shape (n_classes,)
    {n_features_in_, feature_names_in_}

    Examples
    --------
    >>> from replearn import ReplicableSVMClassifier
    >>> from replearn.datasets import make_margin
    >>> labs = [make_margin(40_000, 10, margin=0.3, random_state=lab) for lab in (1, 2)]
    >>> first, second = (
    ...     ReplicableSVMClassifier(margin=0.3, shared_seed=2024).fit(X, y) for X, y in labs
    ... )
    >>> first.fingerprint_ == second.fingerprint_
    True
    """

    def __init__(
        self,
        margin: float | str = 0.1,
        max_error: float = 0.05,
        max_disagreement: float = 0.1,
        failure_prob: float = 0.05,
        shared_seed: int | str = 0,
        mode: str = "practical",
        fit_intercept: bool = True,
        shuffle: bool = True,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        n_batches: int | str = "auto",
        batch_size: int | str = "auto",
        n_components: int | str = "auto",
        grid_width: float | str = "auto",
        projection: str = "auto",
        rounding: str = "auto",
        regularization: float | str = "auto",
        constants: dict[str, float] | None = None,
        class_weight: dict[Any, float] | None = None,
        published: Published | None = None,
        hint_bits: int = 0,
        hint: int | None = None,
        estimate: str = "batches",
    ) -> None:
        self.margin = margin
        self.max_error = max_error
        self.max_disagreement = max_disagreement
        self.failure_prob = failure_prob
        self.shared_seed = shared_seed
        self.mode = mode
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.n_batches = n_batches
        self.batch_size = batch_size
        self.n_components = n_components
        self.grid_width = grid_width
        self.projection = projection
        self.rounding = rounding
        self.regularization = regularization
        self.constants = constants
        self.class_weight = class_weight
        self.published = published
        self.hint_bits = hint_bits
        self.hint = hint
        self.estimate = estimate

    _many_classes = True
    _signs_of_two = True

    @property
    def asks(self) -> Asks:  # type: ignore[override]  # here it depends on a parameter
        """What it asks of its rows: batches in their order, or sums in any."""
        return "sums" if self.estimate == "rows" else "batches"

    def check_parameters(self) -> None:
        """Refuse parameters of the wrong kind before the rows are looked at."""
        super().check_parameters()
        if self.estimate not in ESTIMATES:
            raise ReplearnError(
                f"estimate must be one of {', '.join(ESTIMATES)}, got {self.estimate!r}. "
                "The default is batches."
            )
        if self.estimate == "rows" and self.margin == "auto":
            raise ReplearnError(
                'estimate="rows" needs a margin, got "auto". Pass the number that you rely on, or '
                'use estimate="batches".'
            )

    @property
    def _recipe(self) -> Callable[..., Any]:
        return partial(fit_all_rows if self.estimate == "rows" else recipes.svm, hint=self.hint)

    def _learn(
        self, sample: Any, n_inputs: int, shared: SharedRandomness, run: BlockMap
    ) -> tuple[Any, Any]:
        if self.margin != "auto":
            return super()._learn(sample, n_inputs, shared, run)
        if self.mode != "practical":
            raise ReplearnError(
                f'margin="auto" needs mode="practical", got mode={self.mode!r}. A promise needs a '
                "margin: pass the number that you rely on."
            )
        plans = [self._plan(n_inputs, margin) for margin in MARGIN_GRID]
        return recipes.svm_of_unknown_margin(sample, plans, shared, run, self.hint)

    def batch_plan(self, n_inputs: int) -> BatchPlan:
        """The plan for rows of this width, if batches of several sites are to be added up."""
        self.check_parameters()
        if self.estimate != "batches":
            raise ReplearnError(
                f'sums of batches need estimate="batches", got {self.estimate!r}: a fit on all '
                "rows takes several rounds. Use a logistic study, whose sums of sites add up."
            )
        if self.margin == "auto" or self.mode != "practical":
            raise ReplearnError(
                f'sums of batches need a margin and mode="practical", got {self.margin!r} and '
                f"{self.mode!r}. Take the estimator from a protocol."
            )
        plan: BatchPlan = self._plan(n_inputs)
        return plan

    def fit_batches(self, sums: BatchSums, n_rows: int) -> Self:
        """Learn from batches that were made elsewhere; `replearn.combine` does.

        Parameters
        ----------
        sums : BatchSums
            Of all sites.
        n_rows : int
            Rows of all sites.

        Returns
        -------
        self
        """
        n_inputs = sums.hi.shape[1]
        plan, shared = self.batch_plan(n_inputs), self._shared()
        self._describe(n_inputs - bool(self.fit_intercept), self.labels().classes, None)
        with silent_overflow():
            fitted = recipes.round_means([sums], n_rows, plan, shared, self.hint)
        self._publish(plan, fitted, shared)
        self._warn()
        return self

    def _plan(self, n_inputs: int, margin: float | None = None) -> Any:
        if self.estimate == "rows":
            return self._row_plan(n_inputs)
        guarantee = self._guarantee(margin)
        known = self.__dict__.get("classes_")
        n_outputs = 1 if known is None or len(known) == 2 else len(known)
        plan = plan_svm(guarantee, n_inputs, self.mode, self._sizes(), self.constants, n_outputs)
        return refuse_large(self._weighted(plan))

    def _row_plan(self, n_inputs: int) -> RowPlan:
        n_classes = len(self.__dict__.get("classes_", (0, 1)))  # a plan may come before any label
        if n_classes > 2:
            raise ReplearnError(
                f'estimate="rows" is for two classes, got {n_classes}. Use estimate="batches", '
                "which has a halfspace for each, or ReplicableLogisticClassifier."
            )
        plan = plan_rows(self._guarantee(), n_inputs, self.mode, self._sizes(), self.constants)
        return refuse_large(self._weighted(plan))

    def _certify(self, fitted: Any, shared: SharedRandomness) -> Certificate:
        if isinstance(self.plan_, RowPlan):
            return certify_rows(fitted, self.plan_, shared)
        return super()._certify(fitted, shared)

    def _troubles(self) -> Iterator[str]:
        if not isinstance(self.plan_, RowPlan):
            yield from super()._troubles()
        elif self.plan_.done.n_unconverged:
            yield (
                f"The fit on all rows stopped {self.plan_.done.worst_gap:.2g} from its minimum, "
                f"not {self.plan_.distance}. Raise regularization, or scale the features."
            )

    def _no_estimate(self) -> str:
        if not isinstance(self.plan_, RowPlan):
            return super()._no_estimate()
        return f"from {self.plan_.done.n_rows} rows. Get more rows: 30 are the fewest."
