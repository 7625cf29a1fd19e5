"""The paper's classifiers as scikit-learn estimators: the shell of all, Algorithms 1 and 2."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from replearn.codes import (
    Coins,
    Fitted,
    HalfspaceDesign,
    HalfspaceModel,
    Plan,
    Promise,
    Recipe,
    Sizes,
    after_constant,
    has_intercept,
    names_in_design,
    seed_text,
)
from replearn.documents import Label
from replearn.errors import (
    NotEnoughSamples,
    ReplearnError,
    ReplicabilityWarning,
    UselessModelWarning,
    short,
)
from replearn.estimators import HasModel, name_of_target, set_columns, study_of
from replearn.estimators.described import documented
from replearn.halfspaces import sgd, svm
from replearn.halfspaces.batches import OnePass, Trace, refuse_sorted, round_mean, trace
from replearn.halfspaces.published_plan import PublishedPlan
from replearn.halfspaces.rounded import rows_that_agree, rows_that_pass
from replearn.halfspaces.sgd import SGD
from replearn.halfspaces.svm import SVM
from replearn.rows import MemoryRows, Sample
from replearn.study import HalfspaceReplication, HalfspaceStudy
from replearn.tables import CsvOptions, StreamedRows, Table, learn_classes, open_table
from replearn.types import Array, BlockMap, Ints, Signs, Vector, unmasked
from replearn.words import threads, tracked, warn

_ROWS: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}

#: What adds up the batches of Algorithms 1 and 2.
ADDERS = {"svm": svm.adder, "sgd": sgd.adder}

#: Rows that are scored at once.
_SCORED = 1 << 16


@dataclass(eq=False, repr=False, kw_only=True)
class HalfspaceClassifier(ClassifierMixin, HasModel, BaseEstimator):
    """What the paper's classifiers share. Not for direct use.

    A subclass names its recipe; its parameters of None are sizes by hand.
    """

    margin: float = 0.1
    max_error: float = 0.05
    max_disagreement: float = 0.1
    failure_prob: float = 0.05
    shared_seed: int | str = 0
    mode: str = "practical"
    fit_intercept: bool | None = None
    shuffle: bool = True
    random_state: int | None = None
    n_jobs: int | None = None
    verbose: int = 0
    constants: Mapping[str, float] | None = None

    #: What else to do about too much disagreement.
    _remedy = "rely on a larger margin"

    def _recipe(self) -> Recipe:
        raise NotImplementedError

    # --- the one way to a model -------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Learn a halfspace that a second lab would learn too.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
            Rows of this lab.
        y : array of shape (n_samples,)
            Any two labels.

        Returns
        -------
        self : estimator
            Fitted.
        """
        rows, labels = validate_data(self, unmasked(X), unmasked(y), order="C", **_ROWS)
        self._target = name_of_target(y, getattr(self, "feature_names_in_", ()))
        return self._fit_rows(rows, labels, self._opened())

    def fit_table(self, table: Table) -> Self:
        """Learn from the rows of an open table of numbers, whose target is named: as `fit` does.

        Parameters
        ----------
        table : Table
            What `replearn.tables.open_table` gives.

        Returns
        -------
        self : estimator
            Fitted.
        """
        study = self._opened()
        set_columns(self, table)
        target = table.roles["target"]
        self._target = target if isinstance(target, str) else "y"  # files of arrays bring theirs
        if self.shuffle:
            return self._fit_rows(*table.numbers(), study)
        classes, places = learn_classes(table.whole("target"))
        signs = self._signs(np.array(classes)[places], study)
        refuse_sorted(signs)
        return self._learn(StreamedRows(table, signs), self.classes_, study)

    def _fit_rows(self, X: Any, y: Any, study: HalfspaceStudy | None) -> Self:
        """Learn from rows in memory."""
        signs = self._signs(y, study)
        sample = MemoryRows(X, signs, self._order(signs, study))
        return self._learn(sample, self.classes_, study)

    def fit_file(self, path: "str | os.PathLike[str]", target: str | None = None) -> Self:
        """Learn from the rows of a file: the model of `fit`, to the bit.

        With ``shuffle=False`` rows are read some at a time, and Algorithms 1 and 2 keep none of
        them. Else all are read first.

        Parameters
        ----------
        path : path
            A table of numbers: .csv, .csv.gz, .parquet, .npz or .svm.
        target : str, optional
            The column of the labels. Files of arrays bring theirs.

        Returns
        -------
        self : estimator
            Fitted.
        """
        return self.fit_table(table_of(self._opened(), path, target))

    def fit_sample(self, sample: Sample, classes: Any, work: BlockMap | None = None) -> Self:
        """Learn from rows wherever they are, in their canonical order.

        Parameters
        ----------
        sample : Sample
            Blocks of rows with signs -1 and +1; +1 stands for ``classes[1]``.
        classes : sequence of two labels
            What the signs stand for.
        work : callable, optional
            A function like ``map`` that makes the parts of the fit; by default threads do.

        Returns
        -------
        self : estimator
            Fitted.
        """
        self.__dict__.pop("feature_names_in_", None)
        names = names_in_design(getattr(sample, "names", None))
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self._target = getattr(sample, "target", "y")
        return self._learn(sample, classes, self._opened(), work)

    def _learn(
        self,
        sample: Sample,
        classes: Any,
        study: HalfspaceStudy | None,
        work: BlockMap | None = None,
    ) -> Self:
        """Plan, run, and say what came out."""
        self.__dict__.pop("_one_pass", None)
        self.classes_, self.n_features_in_ = np.asarray(classes), sample.n_features
        seed, plan = self._planned(sample.n_features, study)
        if plan.mode != "practical":
            plan.require(sample.n_rows)

        # an original's last rows test its model
        n_held_out = getattr(plan, "n_held_out", 0)
        training = sample.first(sample.n_rows - n_held_out) if n_held_out else sample
        fitted = self._recipe().run(training, plan, Coins(seed), self._work(work))

        self._conclude(plan, fitted, training.n_rows, study, seed)
        self.n_rows_ = sample.n_rows
        if getattr(plan, "looks", False):
            self._require_calm(plan, sample.n_rows, fitted)
        self.counts_["own_errors"] = _n_errors(self.model_, sample)
        if n_held_out:
            self._require_test(plan, sample)
        self._finish(plan, fitted, training.n_rows, study)
        if getattr(self, "trace", False):
            self.trace_ = self._traced(training, plan, fitted)
        self._warn(sample.n_rows, fitted.spread)
        self._warn_of_errors(sample.n_rows)
        return self

    def _constant(self, study: HalfspaceStudy | None) -> bool:
        """Whether a constant is appended; in a replication None is what the study says."""
        if study is not None and self.fit_intercept is None:
            return study.design.fit_intercept
        return has_intercept(self.mode, self.fit_intercept)

    def _planned(self, n_features: int, study: HalfspaceStudy | None) -> tuple[str, Any]:
        """Seed and sizes: those of the study, or by the promise."""
        constant = self._constant(study)
        n_inputs = n_features + constant
        if study is not None:
            return study.design.seed, self._plan_of(study, n_inputs)

        promise = Promise(self.margin, self.max_error, self.max_disagreement, self.failure_prob)
        promise = after_constant(promise) if constant else promise
        # sizes by hand: None stands for the planned one
        shared = {field.name for field in fields(HalfspaceClassifier)}
        by_hand = [f.name for f in fields(self) if f.default is None and f.name not in shared]
        sizes = {name: getattr(self, name) for name in by_hand if name != "study"}
        given = Sizes(
            {name: value for name, value in sizes.items() if value is not None},
            self.constants or {},
            _plain(getattr(self, "sketch_bits", 0)),
        )
        seed = seed_text(self.shared_seed)
        return seed, self._recipe().sizes(promise, n_inputs, self.mode, given)

    def _work(self, work: BlockMap | None = None) -> BlockMap:
        """What makes the parts of a fit: threads, since compiled loops release the interpreter."""
        if work is not None:
            return work
        work = threads(self.n_jobs)
        return tracked(work, "fitting") if self.verbose else work

    def _conclude(
        self, plan: Any, fitted: Fitted, n_rows: int, study: HalfspaceStudy | None, seed: str
    ) -> None:
        """Set sizes, certificate and model."""
        self.plan_, self.counts_ = plan, dict(fitted.counts)
        self.certificate_ = self._recipe().stability(plan, n_rows, fitted.spread)
        if study is None:
            design = self._design(fitted.space, seed, self._constant(study))
        else:
            design = study.design
        self.model_ = HalfspaceModel(design, fitted.codes)

    def _require_calm(self, plan: Any, n_rows: int, fitted: Any) -> None:
        """Certified: refuse rows whose batches differ too much for the proof."""
        if self.certificate_.proved <= plan.promise.max_disagreement:
            return
        needed = rows_that_pass(plan, fitted.spread)
        del self.model_
        raise NotEnoughSamples(
            f"certified mode needs about {needed:,} rows of this population, since its batches "
            f"differ more than most, got {n_rows:,}. Get more rows, relax the promise, or use "
            'mode="practical".',
            available=n_rows,
            needed=needed,
        )

    def _require_test(self, plan: Any, sample: Sample) -> None:
        """Certified with bits: publish only a model that rows which did not make it confirm."""
        n_wrong = _n_errors(self.model_, sample, sample.n_rows - plan.n_held_out)
        self.counts_ |= {"held_out": plan.n_held_out, "held_out_errors": n_wrong}
        if n_wrong > plan.n_allowed:
            model = self.__dict__.pop("model_")
            raise ReplearnError(
                f"the model must get at most {plan.n_allowed:,} of {plan.n_held_out:,} rows wrong "
                f"that were held out, got {n_wrong:,}. Either no halfspace has the margin "
                f"{plan.promise.margin:g} on them, or the seed {model.design.seed!r} was unlucky: "
                "take new rows and another seed, or plan for a smaller margin."
            )

    def _traced(self, sample: Sample, plan: Any, fitted: Fitted) -> Any:
        """Every intermediate of a fit; Algorithms 1 and 2 have them."""
        raise NotImplementedError

    def _opened(self) -> HalfspaceStudy | None:
        """The study that is replicated."""
        study: HalfspaceStudy | None = study_of(getattr(self, "study", None), self._recipe().name)
        return study

    def _design(self, space: Any, seed: str, constant: bool) -> HalfspaceDesign:
        """What labs share besides the codes."""
        return HalfspaceDesign(
            recipe=self._recipe().name,
            target=self._target,
            classes=self._labels(),
            fit_intercept=constant,
            space=space,
            seed=seed,
            columns=names_in_design(getattr(self, "feature_names_in_", None)),
        )

    def _plan_of(self, study: HalfspaceStudy, n_inputs: int) -> Plan:
        """The plan of a study, if it is one for this estimator and these rows."""
        design = study.design
        if self.fit_intercept is not None and design.fit_intercept != bool(self.fit_intercept):
            raise ReplearnError(
                f"fit_intercept must be that of the study, {design.fit_intercept}, got "
                f"{bool(self.fit_intercept)}. Pass fit_intercept={design.fit_intercept}."
            )

        # as many columns, of the same names
        if design.space.n_inputs != n_inputs:
            raise ReplearnError(
                f"X must have {design.n_features:,} columns, as the original's rows, got "
                f"{n_inputs - design.fit_intercept:,}. Pass the same columns in the same order."
            )
        names = names_in_design(getattr(self, "feature_names_in_", None))
        if None not in (names, design.columns) and names != design.columns:
            pairs = zip(names or (), design.columns or (), strict=True)
            here, there = next(pair for pair in pairs if pair[0] != pair[1])
            raise ReplearnError(
                f"columns must be those of the study, in its order: {there!r}, got {here!r}. Pass "
                "X[list(study.design.columns)]."
            )
        return study.replication_plan

    def _finish(self, plan: Any, fitted: Fitted, n_rows: int, study: HalfspaceStudy | None) -> None:
        """Set what else a fit leaves behind."""

    def _signs(self, y: Any, study: HalfspaceStudy | None) -> Signs:
        """Labels as -1 and +1; sets the classes."""
        try:
            self.classes_ = np.unique(y)
        except TypeError:
            raise ReplearnError(
                "y must hold labels of one type, got texts beside numbers. Write them all as text."
            ) from None
        check_classification_targets(self.classes_)  # of all labels it would sort them once more
        if study is not None:
            known = study.design.classes
            if not set(self.classes_.tolist()) <= set(known):
                raise ReplearnError(
                    f"y must have the study's classes {known[0]!r} and {known[1]!r}, got "
                    f"{short(self.classes_.tolist())}. Code the labels as the original did."
                )
            self.classes_ = np.array(known)
        if self.classes_.size > 2:
            raise ReplearnError(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"got {self.classes_.size} classes. Use ReplicableLogisticClassifier for more."
            )
        positive = np.asarray(y == self.classes_[-1])
        if positive.all() or not positive.any():
            raise ReplearnError(
                f"y must have rows of both classes, got the one class {short(y[0])}. Check the "
                "labels, or get more rows."
            )
        return np.where(positive, np.int8(1), np.int8(-1))

    def _order(self, signs: Signs, study: HalfspaceStudy | None) -> Ints:
        """Canonical order of the rows: as given, or by a keyed permutation."""
        if not self.shuffle:
            refuse_sorted(signs)
            return np.arange(signs.size)
        if self.random_state is None:
            seed = seed_text(self.shared_seed) if study is None else study.design.seed
            return Coins(seed).row_order("order", signs.size)
        key = seed_text(self.random_state, "random_state")
        return Coins(key).row_order("order/private", signs.size)

    def _labels(self) -> tuple[Label, ...]:
        found = self.classes_.tolist()
        whole = all(isinstance(label, float) and label.is_integer() for label in found)
        found = [int(label) for label in found] if whole else found
        if not all(isinstance(label, bool | int | str) for label in found):
            raise ReplearnError(
                f"labels must be integers, text or booleans, got {short(found)}. A model file "
                "must hold them; code them as text."
            )
        return tuple(found)

    def _warn(self, n_rows: int, spread: Any) -> None:
        """Say in words what the user must know about this fit."""
        found = self.certificate_.expected
        if self.plan_.mode != "practical":
            return
        if found is None:
            warn(
                f"The disagreement with a second lab cannot be estimated from {n_rows:,} rows. "
                f"{self._more(n_rows, spread)}.",
                ReplicabilityWarning,
            )
        elif found > self.plan_.promise.max_disagreement:
            warn(
                f"A second lab would get a different model with an estimated probability of "
                f"{found:.2f}, above max_disagreement={self.plan_.promise.max_disagreement:g}. "
                f"{self._more(n_rows, spread)}. Or allow more error or disagreement, or "
                f"{self._remedy}.",
                ReplicabilityWarning,
            )

    def _warn_of_errors(self, n_rows: int) -> None:
        """The rows of this lab are those of the promise: what they deny is denied."""
        share, most = self.counts_["own_errors"] / n_rows, self.plan_.promise.max_error
        if share > most:
            warn(
                f"The model is wrong on {share:.1%} of these rows, above max_error={most:g}. "
                "Either no halfspace has the promised margin on them, or there are too few. "
                "Plan for a smaller margin, or get more rows.",
                UselessModelWarning,
            )

    def _more(self, n_rows: int, spread: Any) -> str:
        """Advice about rows: never fewer than there are."""
        asked = self.plan_.n_rows
        if n_rows < asked:
            return f"Get more rows: the plan asks for {asked:,}, got {n_rows:,}"
        return f"{n_rows:,} rows are as many as planned: plan for a smaller margin, or get more"

    # --- prediction -------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Vector:
        """Score of each row; positive means ``classes_[1]``.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
            Rows with the columns of the fit.

        Returns
        -------
        scores : array of shape (n_samples,)
            Distance to the boundary, in units of the row's length.
        """
        model = self._model()
        X = validate_data(self, unmasked(X), reset=False, **_ROWS)
        return model.decision_function(X)

    def predict(self, X: Any) -> Array:
        """Class of each row.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
            Rows with the columns of the fit.

        Returns
        -------
        labels : array of shape (n_samples,)
            From ``classes_``.
        """
        model = self._model()
        X = validate_data(self, unmasked(X), reset=False, **_ROWS)
        return np.asarray(self.classes_[model.is_positive(X).astype(np.int64)])

    @property
    def coef_(self) -> Vector:
        """Weights of the features, shape (1, n_features)."""
        return self._model().coef[None, :]

    @property
    def intercept_(self) -> Vector:
        """Weight of a row's length, shape (1,)."""
        return np.array([self._model().intercept])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


def table_of(
    study: HalfspaceStudy | None, path: Any, target: str | None, csv: CsvOptions | None = None
) -> Table:
    """A table of numbers: all columns, or those of the study that is replicated."""
    if study is None:
        return open_table(path, target=target, csv=csv)
    design = study.design
    if target is None and not str(path).lower().endswith((".npz", ".svm")):
        target = design.target
    return open_table(path, target=target, columns=design.columns, csv=csv)


def _n_errors(model: HalfspaceModel, sample: Sample, first: int = 0) -> int:
    """Rows of the lab, from a first one on, that the model gets wrong; no code depends on it."""
    if isinstance(sample, MemoryRows) and not first:
        sample = replace(sample, order=None)  # which does not count, and takes time

    n_wrong = n_before = 0
    for block in sample.blocks(1):
        skipped = min(block.n_rows, max(0, first - n_before))
        n_before += block.n_rows
        for start in range(skipped, block.n_rows, _SCORED):
            X, signs = block.read(start, start + _SCORED)
            n_wrong += int(np.count_nonzero(model.is_positive(X) != (signs > 0)))
    return n_wrong


def _plain(value: Any) -> Any:
    """A whole number of NumPy as an int: files hold it."""
    return int(value) if isinstance(value, np.integer) else value


@dataclass(eq=False, repr=False, kw_only=True)
class BatchClassifier(HalfspaceClassifier):
    """What Algorithms 1 and 2 share. Not for direct use."""

    n_batches: int | None = None
    batch_size: int | None = None
    n_components: int | None = None
    grid_width: float | None = None
    projection: str | None = None
    rounding: str | None = None
    regularization: float | None = None
    sketch_bits: int = 0
    study: "HalfspaceStudy | str | os.PathLike[str] | None" = None
    trace: bool = False

    _remedy = "publish a sketch"

    def _traced(self, sample: Sample, plan: Any, fitted: Fitted) -> Trace:
        if not isinstance(sample, MemoryRows):
            raise ReplearnError(
                f"trace needs rows in memory, got {type(sample).__name__}. Call fit, and not "
                "fit_file with shuffle=False, or set trace=False."
            )
        add = None if plan.one_fit else ADDERS[plan.recipe](plan)
        return trace(sample, plan, Coins(self.model_.design.seed), fitted, add)

    def _more(self, n_rows: int, spread: Any) -> str:
        """Rows that labs of this population need, where its batches or groups show it."""
        needed = rows_that_agree(self.plan_, spread)
        if needed <= max(n_rows, self.plan_.n_rows):
            return super()._more(n_rows, spread)
        return f"Get more rows: this population needs about {needed:,} rows, got {n_rows:,}"

    def _warn(self, n_rows: int, spread: Any) -> None:
        super()._warn(n_rows, spread)
        plan: Any = self.plan_
        space: Any = self.model_.design.space
        if plan.mode != "practical" or not space.sketch_bits:
            return
        times = float(space.grid_width) / 2**space.sketch_bits / (math.sqrt(12) * plan.noise)
        if times > 1:
            warn(
                f"Cells are {times:.2g} times as coarse as max_error={plan.promise.max_error:g} "
                f"allows, so the model may be wrong more often: {n_rows:,} rows show their spread "
                f"only roughly. {self._more(n_rows, spread)}. Or publish more bits.",
                UselessModelWarning,
            )

    def _finish(self, plan: Any, fitted: Fitted, n_rows: int, study: HalfspaceStudy | None) -> None:
        for name in ("study_", "replication_"):
            self.__dict__.pop(name, None)
        if study is not None:
            self.study_ = study
            nothing = np.zeros(plan.n_components)  # the mean of vectors that point anywhere
            of_noise = fitted.space.encode(nothing, Coins(study.design.seed), plan.sketch)
            self.replication_ = HalfspaceReplication(
                study.commits_to(self.fingerprint_),
                self.fingerprint_,
                study.commitment,
                n_rows,
                bool((of_noise == fitted.codes).all()),
            )
        elif fitted.sketch is not None:
            spread: Any = fitted.spread
            published = PublishedPlan.of(plan, fitted.sketch, spread.batch_size)
            design = self.model_.design
            self.study_ = HalfspaceStudy(design, published, n_rows, self.fingerprint_)


@documented(svm)
@dataclass(eq=False, repr=False, kw_only=True)
class ReplicableSVMClassifier(BatchClassifier):
    """Algorithm 1 of the paper: halfspaces from the mean of batch SVMs.

    Parameters
    ----------
    {promise}
    {batch_sizes}
    margin_share : float or None, default=None
        Paper mode: the share of a batch's largest margin that its SVM has; None is 0.5, as printed.

    Attributes
    ----------
    {batch_fitted}

    See Also
    --------
    ReplicableSGDClassifier : gradient descent in place of SVMs.
    ReplicableLogisticClassifier : studies, for classes that no halfspace separates.
    plan : how many rows a promise needs.

    Notes
    -----
    {printed}

    The head of ``replearn.halfspaces.svm`` has our constants, their proof, and every departure
    of ``mode="paper"`` from what is printed.

    References
    ----------
    {paper}

    Examples
    --------
    Nobody is first: two labs share a seed, and nothing else.

    {two_labs}

    With a sketch a first lab publishes a study, and a second one needs fewer rows.

    >>> few = [rl.datasets.make_margin(4000, 3, margin=0.3, random_state=i) for i in (1, 2)]
    >>> first = rl.ReplicableSVMClassifier(margin=0.3, sketch_bits=3).fit(*few[0])
    >>> second = rl.ReplicableSVMClassifier(study=first.study_).fit(*few[1])
    >>> second.replication_.same
    True
    """

    margin_share: float | None = None

    def _recipe(self) -> Recipe:
        return SVM


@documented(sgd)
@dataclass(eq=False, repr=False, kw_only=True)
class ReplicableSGDClassifier(BatchClassifier):
    """Algorithm 2 of the paper: halfspaces from the mean of runs of gradient descent.

    Parameters
    ----------
    {promise}
    {batch_sizes}
    n_repetitions : int or None, default=None
        Paper mode: runs of gradient descent on a batch.
    n_validation : int or None, default=None
        Paper mode: rows of a batch that choose among its runs.
    normalize : bool or None, default=None
        Paper mode: scale the best run to length 1, as printed; None is False.

    Attributes
    ----------
    {batch_fitted}

    See Also
    --------
    ReplicableSVMClassifier : SVMs in place of gradient descent, for fewer rows in eps.
    plan : how many rows a promise needs.

    Notes
    -----
    {printed}

    The head of ``replearn.halfspaces.sgd`` has our constants, their proof, and every departure
    of ``mode="paper"`` from what is printed.

    References
    ----------
    {paper}

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(12_000, 3, margin=0.3, random_state=1)
    >>> promise = {"margin": 0.3, "max_error": 0.2, "max_disagreement": 0.5}
    >>> fitted = rl.ReplicableSGDClassifier(**promise).fit(X, y)
    >>> bool(fitted.score(X, y) > 0.9)
    True
    """

    n_repetitions: int | None = None
    n_validation: int | None = None
    normalize: bool | None = None

    def _recipe(self) -> Recipe:
        return SGD

    # --- rows as they come ------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from more rows: afterwards the model is that of all rows so far.

        It is, to the bit, what ``fit`` with ``shuffle=False`` gives for all of them in their order,
        however they are cut. Two batches of rows are kept at most. Rows must come in random order.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
            Rows that were not seen before.
        y : array of shape (n_samples,)
            Their labels.
        classes : sequence of two labels, optional
            Needed at the first call, which may see one of them only. A replication has its study's.
            After ``fit`` a first call begins anew, with a warning.

        Returns
        -------
        self : estimator
            Fitted. A warning about too much disagreement comes from the planned number of rows on;
            ``certificate_`` has the estimate at any time.
        """
        self._check_one_pass()
        study = self._opened()
        is_first = "_one_pass" not in vars(self)
        rows, labels = validate_data(
            self, unmasked(X), unmasked(y), reset=is_first, order="C", **_ROWS
        )
        known = self._known_classes(classes, study)
        signs = _signs_among(known, labels)
        refuse_sorted(signs)

        # 1. plan at the first call
        if is_first:
            self.classes_, self._target = known, str(getattr(y, "name", None) or "y")
            seed, plan = self._planned(rows.shape[1], study)
            self._one_pass = OnePass(plan, seed)
        one_pass = self._one_pass

        # 2. sum whole batches, and round the mean of all there are
        add = sgd.adder(one_pass.plan)
        one_pass.take(rows, signs, add, self._work())
        sums, batch_size = one_pass.all_sums(add)
        plan, n_rows = one_pass.plan, one_pass.n_rows
        fitted = round_mean(sums, batch_size, plan, Coins(one_pass.seed), n_rows)

        # 3. say what came out
        self._conclude(plan, fitted, n_rows, study, one_pass.seed)
        self.n_rows_ = n_rows
        sample = MemoryRows(rows, signs)
        self.counts_["own_errors"] = _n_errors(self.model_, sample)  # of the rows of this call
        self._finish(plan, fitted, n_rows, study)
        if n_rows >= plan.n_rows:
            self._warn(n_rows, fitted.spread)
            self._warn_of_errors(signs.size)
        return self

    def _check_one_pass(self) -> None:
        """Refuse what needs all rows at once."""
        if self.mode != "practical":
            raise ReplearnError(
                f'partial_fit needs mode="practical", got mode={self.mode!r}, which fixes the '
                "number of rows before a fit begins. Call fit_file with shuffle=False: it keeps no "
                "rows either."
            )
        if self.trace or (self.sketch_bits and self.study is None):
            name = "trace" if self.trace else "sketch_bits"
            raise ReplearnError(
                f"{name} must be left out in partial_fit, got {getattr(self, name)!r}: it needs "
                "all rows at once. Call fit, or leave it out."
            )
        if "model_" in vars(self) and "_one_pass" not in vars(self):
            warn(
                f"partial_fit begins anew: the {self.n_rows_:,} rows of fit were not kept. Call "
                "partial_fit from the start to learn from all rows.",
                ReplicabilityWarning,
            )

    def _known_classes(self, classes: Any, study: HalfspaceStudy | None) -> Array:
        """Both labels: of earlier calls, of the study, or as given."""
        known: Array | None = None
        if "model_" in vars(self):  # of an earlier call, or of fit
            known = self.classes_
        elif study is not None:
            known = np.array(study.design.classes)

        if classes is None:
            if known is None:
                raise ReplearnError("classes must be passed on the first call to partial_fit.")
            return known

        given = np.unique(classes)
        if given.size != 2 or (known is not None and set(given) != set(known)):
            expected = "two labels" if known is None else short(known.tolist())
            raise ReplearnError(
                f"classes must be {expected}, got {short(given.tolist())}. Pass both labels."
            )
        return given if known is None else known


def _signs_among(classes: Array, y: Any) -> Signs:
    """Labels as -1 and +1, if they are these classes."""
    unknown = np.setdiff1d(y, classes)
    if unknown.size:
        raise ReplearnError(
            f"y must have the classes {short(classes.tolist())}, got {short(unknown[0].item())}. "
            "Pass all labels as classes at the first call."
        )
    return np.where(y == classes[1], np.int8(1), np.int8(-1))
