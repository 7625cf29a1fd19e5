"""Algorithm 2 as a scikit-learn classifier."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Self

from replearn.codes.published import Published
from replearn.errors import InvalidFile, ReplearnError
from replearn.estimators.base import silent_overflow
from replearn.estimators.batch_based import BatchBasedClassifier
from replearn.estimators.checks import refuse_large, whole_or_auto
from replearn.estimators.docstrings import with_shared_entries
from replearn.estimators.streaming import Streaming, other_plan
from replearn.files.statefile import Arrays, StateFile
from replearn.plans.plan_sgd import plan_sgd
from replearn.plans.sizes import BatchPlan, Sizes
from replearn.stages import recipes
from replearn.stages.signal import NOT_KEPT
from replearn.stages.stream import DescentStream, new_stream, restored


@with_shared_entries
class ReplicableSGDClassifier(Streaming, BatchBasedClassifier):
    """Replicable large-margin halfspaces by gradient descent: Algorithm 2 of [KKLVZ24].

    {two_labs}

    Each row is read once. Blocks of ``batch_size`` rows are one run of projected stochastic
    gradient descent each; the averages of their iterates are averaged, projected and rounded.
    Unlike Algorithm 1 it can follow a stream: see `partial_fit`.

    Parameters
    ----------
    {margin, max_error, max_disagreement, failure_prob, shared_seed}
    mode : {"practical", "certified", "paper"}, default="practical"
        Where the sizes come from. Practical: calibrated formulas, fits on any number of
        rows. Certified: proved constants, refuses too few rows. Paper: its sizes;
        docs/theory.md lists what differs.
    {fit_intercept}
    shuffle : bool, default=True
        ``fit`` permutes the rows before they are cut into blocks, by a permutation keyed with the
        shared seed, or with ``random_state`` if that is given. ``partial_fit`` never does.
    {random_state}
    n_jobs : int or None, default=None
        Threads of ``fit``. The model does not depend on it.
    {verbose}
    n_batches, batch_size, n_components, grid_width, projection, rounding, regularization : \
"auto" or value, default="auto"
        Sizes of the plan, by hand. ``batch_size`` is the number of rows of a block,
        ``regularization`` is lambda of ``lambda/2 |u|^2 + mean hinge loss``, positive.
        ``rounding="best"`` takes the cells that cost least for the number of components
        (`replearn.codes.cells.best_blocks`).
    n_repetitions, n_validation : "auto" or int, default="auto"
        Paper mode: runs of a block, and its rows on which the best of them is found.
    constants : dict or None, default=None
        Paper mode: the constants C1 to C4 of Algorithm 2, default 1.
    {class_weight}
    published : Published or None, default=None
        What a protocol fixes: the scaling of the columns, labels, directions to round in.
    hint_bits : int, default=0
        The first lab publishes this many bits about where its mean lies, and far fewer rows are
        needed; see docs/theory.md. 0 is the paper's notion of replicability.
    {hint}

    Attributes
    ----------
    {model_, hint_, fingerprint_}
    plan_ : BatchPlan
        Every size that was used.
    {certificate_, coef_, intercept_, classes_, n_features_in_, feature_names_in_}

    Examples
    --------
    >>> from replearn import ReplicableSGDClassifier
    >>> from replearn.datasets import make_margin
    >>> labs = [make_margin(40_000, 10, margin=0.3, random_state=lab) for lab in (1, 2)]
    >>> first, second = (
    ...     ReplicableSGDClassifier(margin=0.3, shared_seed=2024).fit(X, y) for X, y in labs
    ... )
    >>> first.fingerprint_ == second.fingerprint_
    True

    A stream gives the model of all its rows, in their order:

    >>> X, y = labs[0]
    >>> stream = ReplicableSGDClassifier(margin=0.3, shared_seed=2024)
    >>> for start in range(0, 40_000, 7_000):
    ...     piece = slice(start, start + 7_000)
    ...     stream = stream.partial_fit(X[piece], y[piece])
    >>> whole = ReplicableSGDClassifier(margin=0.3, shared_seed=2024, shuffle=False).fit(X, y)
    >>> stream.fingerprint_ == whole.fingerprint_
    True
    """

    def __init__(
        self,
        margin: float = 0.1,
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
        n_repetitions: int | str = "auto",
        n_validation: int | str = "auto",
        constants: dict[str, float] | None = None,
        class_weight: dict[Any, float] | None = None,
        published: Published | None = None,
        hint_bits: int = 0,
        hint: int | None = None,
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
        self.n_repetitions = n_repetitions
        self.n_validation = n_validation
        self.constants = constants
        self.class_weight = class_weight
        self.published = published
        self.hint_bits = hint_bits
        self.hint = hint

    @property
    def _recipe(self) -> Callable[..., recipes.Fitted]:
        return partial(recipes.sgd, hint=self.hint)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Take the next rows of a stream. The first call, or one after ``fit``, starts one.

        The rows must come in random order; they are not permuted. What is kept does not grow with
        their number. ``model_``, ``plan_`` and ``certificate_`` are made when they are asked for;
        read ``certificate_``, as no warning is given here.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of two labels, optional
            Needed in the first call if its y does not hold both.

        Returns
        -------
        self

        Notes
        -----
        Any pieces of the same rows give the model of ``fit`` with ``shuffle=False`` on the whole,
        to the bit. A piece after which the labels so far would look sorted is refused and not
        taken. Tested in tests/unit/test_sgd.py.
        """
        stream: DescentStream | None = self.__dict__.get("_stream")
        X, self.classes_, signs = self._next_rows(X, y, classes)
        plan = self._plan(X.shape[1] + bool(self.fit_intercept))
        if stream is None:
            stream = new_stream(plan, X.shape[1])
        elif stream.plan != plan:
            raise other_plan()
        if stream.looks_sorted_with(signs):
            raise ReplearnError(
                "y looks sorted or clustered, so blocks of consecutive rows would not be "
                "independent samples; these rows were not taken. Shuffle the rows once, and then "
                "keep that order."
            )
        stream.take(X, signs)
        self._stream = stream
        self._forget()
        return self

    _state_kind, _state_key = "stream", "blocks"

    def _state(self) -> tuple[Any, Arrays]:
        stream = self._stream
        return _defines_blocks(stream.plan, stream.n_features), stream.arrays()

    def _read_stream(self, state: StateFile, n_features: int) -> DescentStream:
        plan = self._plan(n_features + bool(self.fit_intercept))
        theirs = state.about["blocks"]
        for name, value in _defines_blocks(plan, n_features).items():
            if not isinstance(theirs, dict) or theirs.get(name) != value:
                other = theirs.get(name) if isinstance(theirs, dict) else None
                raise InvalidFile(
                    f"{state.path} was saved with {name} = {other!r}, this estimator has "
                    f"{value!r}. Resume with the parameters that the stream was started with."
                )
        arrays = state.arrays(like=new_stream(plan, n_features).arrays())
        stream = restored(plan, n_features, arrays)
        if stream is None:
            raise state.unfit("its numbers contradict each other")
        return stream

    def _make_model(self) -> None:
        """Make a model of the stream so far."""
        stream, shared = self._stream, self._shared()
        stream.plan.require_samples(stream.n_rows)
        with silent_overflow():
            fitted = recipes.round_means(
                [stream.total()], stream.n_rows, stream.plan, shared, self.hint
            )
        self._publish(stream.plan, fitted, shared)
        self.untested_ = NOT_KEPT

    def _sizes(self) -> Sizes:
        return replace(
            super()._sizes(),
            n_repetitions=whole_or_auto(self.n_repetitions, "n_repetitions"),
            n_validation=whole_or_auto(self.n_validation, "n_validation"),
        )

    def _plan(self, n_inputs: int) -> BatchPlan:
        sizes = self._sizes()
        plan = plan_sgd(self._guarantee(), n_inputs, self.mode, sizes, self.constants)
        return refuse_large(self._weighted(plan))


def _defines_blocks(plan: BatchPlan, n_features: int) -> dict[str, Any]:
    """What the vector of a block depends on, besides its rows; reals as text."""
    return {
        "batch_size": plan.batch_size,
        "length_cap": repr(plan.length_cap),
        "margin": repr(plan.guarantee.margin),
        "n_batches": plan.n_batches if plan.exact_batches else None,
        "n_features": n_features,
        "n_inputs": plan.n_inputs,
        "n_repetitions": plan.n_repetitions,
        "n_validation": plan.n_validation,
        "regularization": plan.regularization,
        **({} if plan.class_weights == (1.0, 1.0) else {"class_weights": repr(plan.class_weights)}),
    }
