"""Logistic regression in a few published directions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from replearn.codes.design import Design
from replearn.codes.published import Published
from replearn.codes.randomness import SharedRandomness
from replearn.codes.score_space import ScoreSpace
from replearn.errors import NoModel, ReplearnError
from replearn.estimators.base import silent_overflow
from replearn.estimators.checks import (
    check_hint,
    check_whole,
    class_factors,
    refuse_unwritable,
    whole_or_auto,
)
from replearn.estimators.streaming import Streaming
from replearn.estimators.useless import judge_fit
from replearn.kernels.logistic import ScoreSums
from replearn.plans.plan_logistic import LogisticPlan, log_odds, promised_design
from replearn.plans.sizes import Guarantee
from replearn.sources.labels import label_values
from replearn.stages.batches import Rows
from replearn.stages.certificate import Certificate
from replearn.stages.hints import unsafe_hints
from replearn.stages.score_certificate import certify_scores
from replearn.stages.scores import (
    Scored,
    Steps,
    from_one_pass,
    logistic,
    round_theta,
    score_pass,
)
from replearn.stages.weights import GRAINS, whole_weights, with_weights
from replearn.types import BlockMap


def _takes_one_look(estimator: Any) -> bool:
    """Whether one look at each row is enough: one step, from a published start."""
    return estimator._design is not None and estimator._design.n_steps == 1


@dataclass(frozen=True)
class _Stream:
    """The rows so far: their number does not matter, only their exact sums do."""

    plan: LogisticPlan
    sums: ScoreSums


class ReplicableLogisticClassifier(Streaming):
    """Logistic regression in a few published directions, rounded so that labs agree.

    A protocol publishes a few directions of the columns, a start and the cells of a grid; a lab's
    rows decide the intercept and the weights of the directions by one or more exact Newton
    steps; these few numbers are rounded. Sums over rows know no order: the same rows in any order,
    chunks, format, on any number of threads and machines give the same bytes.

    Parameters
    ----------
    max_disagreement : float, default=0.1
        Probability that two labs may get different models.
    failure_prob : float, default=0.05
        Probability that the certificate's bound is wrong.
    shared_seed : int or str, default=0
        Published; the same at every site.
    samples_per_site : int, default=100_000
        Rows that each lab is expected to have. It decides how wide the cells are, so it is part of
        what labs agree on; a lab may have more or fewer.
    n_components : int or "auto", default="auto"
        Directions: by default all features, but at most eight shared random ones.
    threshold : float, default=0.5
        Probability from which on a row gets ``classes_[1]``. With more than two classes the most
        probable one is taken.
    hint_bits : int, default=0
        The first lab publishes this many bits about where its point lies, and cells can be far
        narrower; see docs/theory.md. 0 is the paper's notion of replicability.
    hint : int or None, default=None
        What the first lab published. With hint bits and no hint, this fit is the first, and sets
        ``hint_``.
    n_jobs : int or None, default=None
        Threads. The model does not depend on it.
    verbose : int, default=0
        Print progress.
    class_weight : dict or None, default=None
        Published weights of the classes: how much the loss of their rows counts. Only ratios
        matter. "balanced" would differ between labs: a plan from a pilot publishes numbers for it.
    published : Published or None, default=None
        What a protocol fixes: encoding, labels, and a design (directions, start, steps and
        cells), with which the sizes above are not used.

    Attributes
    ----------
    model_ : Model
        The integers that are the classifier.
    fingerprint_ : str
        SHA-256 of the model's canonical bytes: equal models, equal fingerprints.
    hint_ : int
        The hint that was used: given, or chosen by this fit as the first.
    plan_ : LogisticPlan
        Every size that was used.
    certificate_ : Certificate
        How likely another lab gets the same model.
    coef_ : array of shape (1, n_features), or (n_classes, n_features) if there are more than two
    intercept_ : array of shape (1,), or (n_classes,)
    classes_ : array of shape (n_classes,)
    n_features_in_ : int
    feature_names_in_ : array of str, if X had column names

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

    asks = "sums"
    _no_weights = None
    _many_classes = True
    fit_intercept = True  # not a parameter: the intercept is one of the coded numbers
    _remedy = "allow a larger max_disagreement, take hint bits, or plan from a pilot sample"

    @property
    def _design(self) -> Design | None:
        return None if self.published is None else self.published.design

    @property
    def hint_(self) -> int:
        """The hint of the model: what other labs pass as ``hint``."""
        space = self._fitted_model().space
        assert isinstance(space, ScoreSpace)
        return space.hint

    def unsafe_hints(self, n_sites: int = 2) -> tuple[int, ...]:
        """Hints under which this fit lies too near a wall: for studies without a first site.

        Every site fits without a hint and publishes these numbers; all take
        ``replearn.common_hint`` of what was published, and fit again with it.

        Parameters
        ----------
        n_sites : int, default=2
            Sites that shall agree.

        Returns
        -------
        hints : tuple of int

        Notes
        -----
        Sites that find a common hint differ with probability at most ``max_disagreement``, by the
        planned spread; see docs/theory.md. Up to ``2**hint_bits`` bits of the sample become public.
        """
        check_whole(n_sites, "n_sites", 2, 10_000)
        model = self._fitted_model()
        design, shared = self.plan_.design, SharedRandomness(model.seed)
        return unsafe_hints(self._components, design, shared, self.max_disagreement, n_sites)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Learn weights that another lab would learn too.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional
            Numbers from 0 to 16,384, which are rounded to multiples of 1/1024 so that sums are
            exact. A weight of 3 counts like three equal rows, to the bit; the certificate knows
            that they are not three independent ones.

        Returns
        -------
        self
        """
        return self._fit_rows(X, y, sample_weight)

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
        the whole, to the bit. Tested in tests/unit/test_logistic_rows.py.
        """
        self.check_parameters()
        stream: _Stream | None = self.__dict__.get("_stream")
        X, y = self._check_rows(X, y, reset=stream is None)
        known, targets = self._stream_labels(y, classes, stream is None)
        if sample_weight is not None:
            targets = with_weights(targets, whole_weights(sample_weight, targets.size))
        refuse_unwritable(label_values(known), getattr(self, "feature_names_in_", None))
        plan = self._plan(X.shape[1] + 1)
        if stream is not None and stream.plan.design.content() != plan.design.content():
            raise ReplearnError(
                "parameters of the plan were changed in the middle of a stream. Set them back, or "
                "start anew with a clone."
            )
        sums_at = score_pass(self.in_memory(X, targets), plan.design, self._threads())
        sums = sums_at(plan.design.space.start_numbers)
        self._stream = _Stream(plan, sums if stream is None else _joined(stream.sums, sums))
        self.classes_ = known
        self._forget()
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "partial_fit":  # another AttributeError: hasattr must say no
            steps = "several steps" if self._design is None else f"{self._design.n_steps} steps"
            raise NoModel(
                f"a stream shows its rows once, got a design of {steps}, which looks at all rows "
                "in each. Use fit or fit_file, or a protocol with one step (plan_from_pilot with "
                'study="updating").'
            )
        return super().__getattr__(name)

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

    def check_parameters(self) -> None:
        """Refuse parameters of the wrong kind before the rows are looked at."""
        super().check_parameters()
        Guarantee(0.1, 0.1, self.max_disagreement, self.failure_prob)
        bits = self.hint_bits if self._design is None else self._design.space.hint_bits
        check_hint(bits, self.hint)
        check_whole(self.samples_per_site, "samples_per_site", 1, 1 << 50)

    def _plan(self, n_inputs: int) -> LogisticPlan:
        design, source = self._design, "the published design"
        if design is None:
            source = "from the promise alone: rows are directions"
            design = promised_design(
                n_inputs - 1,
                self._shared(),
                max_disagreement=self.max_disagreement,
                samples_per_site=self.samples_per_site,
                n_components=whole_or_auto(self.n_components, "n_components"),
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
        elif design.space.n_inputs != n_inputs:
            raise ReplearnError(
                f"X must have {design.space.n_features} features after encoding, as the published "
                f"directions have, got {n_inputs - 1}. Use the protocol on the columns that it "
                "was made for."
            )
        return LogisticPlan(design, self.max_disagreement, self.failure_prob, source)

    def _learn(
        self, sample: Any, n_inputs: int, shared: SharedRandomness, run: BlockMap
    ) -> tuple[LogisticPlan, Scored]:
        plan = self._plan(n_inputs)
        return plan, logistic(sample, plan, shared, run, self.hint)

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

    def _fit(self, sample: Any, tested: bool = True) -> Self:
        super()._fit(sample, tested)
        self.__dict__.pop("_stream", None)
        return self

    def _make_model(self) -> None:
        stream, shared = self._stream, self._shared()
        with silent_overflow():
            fitted = from_one_pass(stream.sums, stream.plan.design, shared, self.hint)
        self._publish(stream.plan, fitted, shared)

    def _publish(self, plan: LogisticPlan, fitted: Scored, shared: SharedRandomness) -> None:
        super()._publish(plan, fitted, shared)
        self._components = fitted.components

    def _certify(self, fitted: Scored, shared: SharedRandomness) -> Certificate:
        return certify_scores(fitted, self.plan_, follows=self.hint is not None)

    def _judge(self, rows: Rows) -> None:
        if self._design is not None:
            weighted = bool(self._design.class_weights)
            judge_fit(self.model_, rows, self.agreed.notes, weighted, self.signal_)

    def _troubles(self) -> Iterator[str]:
        spent = self.plan_.spent
        if spent.n_shortened > 0.5 * spent.n_rows and self._design is not None:
            yield (
                f"{spent.n_shortened:,} of {spent.n_rows:,} rows are longer than the published "
                f"length {self.plan_.design.space.cap} and were shortened to it. Check that the "
                "columns have the units of the protocol."
            )

    def _no_estimate(self) -> str:
        raise NotImplementedError  # a logistic fit always has an estimate


def _joined(sums: ScoreSums, more: ScoreSums) -> ScoreSums:
    """Both sums; rows without weights weigh 1 if the others have some."""
    if (sums.squares is None) != (more.squares is None):
        sums, more = (
            part.with_weight(GRAINS) if part.squares is None else part for part in (sums, more)
        )
    return sums + more
