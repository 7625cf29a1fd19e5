"""Logistic regression in a few published directions."""

import os
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from replearn.codes.canonical import fingerprint_of
from replearn.codes.published import Published
from replearn.errors import NoModel, ReplearnError
from replearn.estimators.base import silent_overflow
from replearn.estimators.checks import class_factors, directions_or_auto
from replearn.estimators.docstrings import with_shared_entries
from replearn.estimators.score_based import ScoreBased
from replearn.estimators.score_state import read_sums, sums_as_arrays
from replearn.estimators.streaming import Streaming, other_plan
from replearn.estimators.useless import warn_of_fit
from replearn.files.statefile import Arrays, StateFile
from replearn.kernels.logistic import ScoreSums
from replearn.plans.plan_logistic import LogisticPlan, log_odds, promised_design
from replearn.stages.batches import Rows
from replearn.stages.scores import Steps, from_one_pass, round_theta, score_pass
from replearn.stages.signal import NOT_KEPT
from replearn.stages.weights import GRAINS, whole_weights, with_weights


def _takes_one_look(estimator: Any) -> bool:
    """Whether one look at each row is enough: one step, from a published start."""
    return estimator._design is not None and estimator._design.n_steps == 1


@dataclass(frozen=True)
class _Stream:
    """The rows so far: their number does not matter, only their exact sums do."""

    plan: LogisticPlan
    sums: ScoreSums


@with_shared_entries
class ReplicableLogisticClassifier(ScoreBased, Streaming):
    """Logistic regression in a few published directions, rounded so that labs agree.

    A protocol publishes a few directions of the columns, a start and the cells of a grid; a lab's
    rows decide the intercept and the weights of the directions by one or more exact Newton
    steps; these few numbers are rounded. Sums over rows know no order: the same rows in any order,
    chunks, format, on any number of threads and machines give the same bytes.

    Parameters
    ----------
    {max_disagreement}
    failure_prob : float, default=0.05
        Probability that the certificate's bound is wrong.
    {shared_seed, samples_per_site}
    n_components : int or "auto", default="auto"
        Directions: by default all features, but at most eight shared random ones.
    threshold : float, default=0.5
        Probability from which on a row gets ``classes_[1]``. With more than two classes the most
        probable one is taken.
    hint_bits : int, default=0
        The first lab publishes this many bits about where its point lies, and cells can be far
        narrower; see docs/theory.md. 0 is the paper's notion of replicability.
    {hint, n_jobs, verbose, class_weight}
    published : Published or None, default=None
        What a protocol fixes: encoding, labels, and a design (directions, start, steps and
        cells), with which the sizes above are not used.

    Attributes
    ----------
    {model_, fingerprint_, hint_}
    plan_ : LogisticPlan
        Every size that was used.
    {certificate_}
    coef_ : array of shape (1, n_features), or (n_classes, n_features) if there are more than two
    intercept_ : array of shape (1,), or (n_classes,)
    classes_ : array of shape (n_classes,)
    {n_features_in_, feature_names_in_}

    Notes
    -----
    Without a design rows are directions, scaled to one length. A design from a pilot
    (`replearn.plan_from_pilot`) knows the scales and the useful directions, and is worth more.
    ``decision_function`` is the log-odds minus those of the threshold; rows that are longer than
    the published length are shortened to it, also at prediction. K classes share the directions:
    K - 1 times as many numbers are coded, and the first class has the score 0 (see
    docs/many-classes.md).

    Examples
    --------
    >>> from replearn import ReplicableLogisticClassifier
    >>> from replearn.datasets import make_margin
    >>> labs = [make_margin(40_000, 3, margin=0.2, random_state=lab) for lab in (1, 2)]
    >>> first, second = (
    ...     ReplicableLogisticClassifier(samples_per_site=40_000, shared_seed=7).fit(X, y)
    ...     for X, y in labs
    ... )
    >>> first.fingerprint_ == second.fingerprint_
    True
    """

    def __init__(
        self,
        max_disagreement: float = 0.1,
        failure_prob: float = 0.05,
        shared_seed: int | str = 0,
        samples_per_site: int = 100_000,
        n_components: int | str = "auto",
        threshold: float = 0.5,
        hint_bits: int = 0,
        hint: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        class_weight: dict[Any, float] | None = None,
        published: Published | None = None,
    ) -> None:
        self.max_disagreement = max_disagreement
        self.failure_prob = failure_prob
        self.shared_seed = shared_seed
        self.samples_per_site = samples_per_site
        self.n_components = n_components
        self.threshold = threshold
        self.hint_bits = hint_bits
        self.hint = hint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.class_weight = class_weight
        self.published = published

    _many_classes = True

    @available_if(_takes_one_look)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take more rows. The first call, or one after ``fit``, starts a stream.

        Only for designs of one step, as `replearn.plan_from_pilot` makes them for updating: more
        steps look at all rows again. What is kept does not grow with the rows. ``model_``,
        ``fingerprint_`` and the like are made when they are asked for, at any time; read
        ``certificate_``, as no warning is given here.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        classes : array of labels, optional
            Needed in the first call if its y does not hold all.
        sample_weight : array of shape (n_samples,), optional
            As for ``fit``; where there are none, rows weigh 1.

        Returns
        -------
        self

        Notes
        -----
        The same rows in any pieces and any order, sorted ones too, give the model of ``fit`` on
        the whole, to the bit; `save_state` keeps their sums. Tested in
        tests/unit/test_logistic_rows.py and tests/unit/test_score_state.py.
        """
        stream: _Stream | None = self.__dict__.get("_stream")
        X, known, targets = self._next_rows(X, y, classes)
        if sample_weight is not None:
            targets = with_weights(targets, whole_weights(sample_weight, targets.size))
        plan = self._plan(X.shape[1] + 1)
        if stream is not None and stream.plan.design.content() != plan.design.content():
            raise other_plan()
        sums_at = score_pass(self.in_memory(X, targets), plan.design, self._threads())
        sums = sums_at(plan.design.space.start_numbers)
        self._stream = _Stream(plan, sums if stream is None else _joined(stream.sums, sums))
        self.classes_ = known
        self._forget()
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "partial_fit":  # another AttributeError: hasattr must say no
            raise self._too_many_steps()
        return super().__getattr__(name)

    def _too_many_steps(self) -> NoModel:
        steps = "several steps" if self._design is None else f"{self._design.n_steps} steps"
        return NoModel(
            f"a stream shows its rows once, got a design of {steps}, which looks at all rows "
            "in each. Use fit or fit_file, or a protocol with one step (plan_from_pilot with "
            'study="updating").'
        )

    _state_kind, _state_key = "score-stream", "design"

    def _state(self) -> tuple[Any, Arrays]:
        design = fingerprint_of(self._stream.plan.design.content())
        return design, sums_as_arrays(self._stream.sums)

    def _header(self, path: str | os.PathLike[str]) -> StateFile:
        if not _takes_one_look(self):
            raise self._too_many_steps()
        return super()._header(path)

    def _read_stream(self, state: StateFile, n_features: int) -> _Stream:
        plan = self._plan(n_features + 1)
        if len(self.classes_) != plan.design.space.n_classes:
            raise state.unfit(f"there must be {plan.design.space.n_classes} classes")
        return _Stream(plan, read_sums(state, plan.design))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probability of each class.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        probabilities : array of shape (n_samples, n_classes)
        """
        return self._fitted_model().probabilities(self.decision_function(X))

    def _plan(self, n_inputs: int) -> LogisticPlan:
        design, source = self._design, "the published design"
        if design is None:
            source = "from the promise alone: rows are directions"
            design = promised_design(
                n_inputs - 1,
                self._shared(),
                max_disagreement=self.max_disagreement,
                samples_per_site=self.samples_per_site,
                n_components=directions_or_auto(self.n_components, n_inputs - 1),
                hint_bits=self.hint_bits,
                threshold=log_odds(self.threshold),
                class_weights=class_factors(self.class_weight, self.classes_),
                n_classes=len(self.classes_),
            )
        elif self.class_weight is not None:
            raise ReplearnError(
                "class_weight is fixed by the published design, got "
                f"{self.class_weight!r:.80}. Leave it out, or plan with it."
            )
        elif design.space.is_numeric:
            raise ReplearnError(
                "a classifier needs a design of labels, got one of numbers. Use a "
                "ReplicableLinearRegressor."
            )
        else:
            self._refuse_other_columns(design, n_inputs)
        return LogisticPlan(design, self.max_disagreement, self.failure_prob, source)

    def fit_steps(self, steps: Steps) -> Self:
        """Learn from passes over rows that were made elsewhere; `replearn.combine` does.

        Parameters
        ----------
        steps : Steps
            All of the passes that the published design asks for.

        Returns
        -------
        self
        """
        self.check_parameters()
        design = self._design
        if design is None or self.agreed.classes is None:
            raise ReplearnError(
                "sums need a published design and labels, got none. Take the estimator from a "
                "protocol: Protocol.load(path).estimator()."
            )
        if steps.n_passes != design.n_steps:
            raise ReplearnError(
                f"the design asks for {design.n_steps} passes, got {steps.n_passes}. Make the "
                "others first."
            )
        shared = self._shared()
        self._describe(design.space.n_features, self.labels().classes, None)
        plan = self._plan(design.space.n_inputs)
        with silent_overflow():
            scored = round_theta(steps.following, steps.sums, design, shared, self.hint)
        self._publish(plan, scored, shared)
        self._warn()
        return self

    def _make_model(self) -> None:
        stream, shared = self._stream, self._shared()
        with silent_overflow():
            fitted = from_one_pass(stream.sums, stream.plan.design, shared, self.hint)
        self._publish(stream.plan, fitted, shared)
        self.untested_ = NOT_KEPT

    def _warn_of_worth(self, rows: Rows) -> None:
        if self._design is not None:
            weighted = bool(self._design.class_weights)
            warn_of_fit(self.model_, rows, self.agreed.notes, weighted, self.signal_)


def _joined(sums: ScoreSums, more: ScoreSums) -> ScoreSums:
    """Both sums; rows without weights weigh 1 if the others have some."""
    if (sums.squares is None) != (more.squares is None):
        sums, more = (
            part.with_weight(GRAINS) if part.squares is None else part for part in (sums, more)
        )
    return sums + more
