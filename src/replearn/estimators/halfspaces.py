"""The shell of the paper's classifiers as scikit-learn estimators."""

from collections.abc import Mapping
from dataclasses import fields, replace
from functools import partial
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
from replearn.documents import FilePath, Label
from replearn.errors import (
    NotEnoughSamples,
    ReplearnError,
    ReplicabilityWarning,
    UselessModelWarning,
    short,
)
from replearn.estimators.described import estimator
from replearn.estimators.shell import (
    ROW_CHECKS,
    HasModel,
    name_of_target,
    refuse_odd,
    set_columns,
    study_of,
)
from replearn.halfspaces import refuse_sorted, rows_that_pass
from replearn.rows import MemoryRows, Sample
from replearn.study import HalfspaceStudy
from replearn.tables import CsvOptions, StreamedRows, Table, learn_classes, open_table
from replearn.types import Array, BlockMap, Ints, Signs, Vector, is_sparse, unmasked
from replearn.words import threads, tracked, warn

#: Rows that are read at once to be scored, and the first ones that show labels.
_SCORED, _FIRST = 1 << 14, 1 << 10


@estimator()
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

    @property
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
        rows, labels = self._checked_pair(X, y)
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
        target = table.roles.get("target")
        self._target = target if isinstance(target, str) else "y"  # files of arrays bring theirs
        if self.shuffle:
            return self._fit_rows(*table.numbers(), study)

        # rows stay in the file: their labels alone are read first
        classes, places = learn_classes(table.whole("target"))
        signs = self._signs(np.array(classes)[places], study)
        refuse_sorted(signs)
        return self._learn(StreamedRows(table, signs), self.classes_, study)

    def _fit_rows(self, X: Any, y: Any, study: HalfspaceStudy | None) -> Self:
        """Learn from rows in memory."""
        signs = self._signs(y, study)
        sample = MemoryRows(X, signs, self._order(signs, study))
        return self._learn(sample, self.classes_, study)

    def fit_file(self, path: FilePath, target: str | None = None) -> Self:
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
        # practical mode fits what there is
        if plan.mode != "practical":
            plan.require(sample.n_rows)

        # an original's last rows test its model
        n_held_out = getattr(plan, "n_held_out", 0)
        training = sample.first(sample.n_rows - n_held_out) if n_held_out else sample
        fitted = self._recipe.run(training, plan, Coins(seed), self._work(work))

        self._conclude(plan, fitted, training.n_rows, study, seed)

        self.n_rows_ = sample.n_rows
        if getattr(plan, "looks", False):
            self._require_calm(plan, sample.n_rows, fitted)
        self.counts_["own_errors"] = n_errors(self.model_, sample)
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
        return seed, self._recipe.sizes(promise, n_inputs, self.mode, given)

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
        self.certificate_ = self._recipe.stability(plan, n_rows, fitted.spread)
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
        del self.model_  # nobody may use a model that breaks the promise
        raise NotEnoughSamples(
            f"certified mode needs about {needed:,} rows of this population, since its batches "
            f"differ more than most, got {n_rows:,}. Get more rows, relax the promise, or use "
            'mode="practical".',
            available=n_rows,
            needed=needed,
        )

    def _require_test(self, plan: Any, sample: Sample) -> None:
        """Certified with bits: publish only a model that rows which did not make it confirm."""
        n_wrong = n_errors(self.model_, sample, sample.n_rows - plan.n_held_out)
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
        study: HalfspaceStudy | None = study_of(getattr(self, "study", None), self._recipe.name)
        return study

    def _design(self, space: Any, seed: str, constant: bool) -> HalfspaceDesign:
        """What labs share besides the codes."""
        return HalfspaceDesign(
            recipe=self._recipe.name,
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
            self.classes_ = classes_of(y)
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
        labels = self.classes_.tolist()
        whole = all(isinstance(label, float) and label.is_integer() for label in labels)
        labels = [int(label) for label in labels] if whole else labels
        if not all(isinstance(label, bool | int | str) for label in labels):
            raise ReplearnError(
                f"labels must be integers, text or booleans, got {short(labels)}. A model file "
                "must hold them; code them as text."
            )
        return tuple(labels)

    def _warn(self, n_rows: int, spread: Any) -> None:
        """Say in words what the user must know about this fit."""
        expected = self.certificate_.expected
        if self.plan_.mode != "practical":
            return
        if expected is None:
            warn(
                f"The disagreement with a second lab cannot be estimated from {n_rows:,} rows. "
                f"{self._more(n_rows, spread)}.",
                ReplicabilityWarning,
            )
        elif expected > self.plan_.promise.max_disagreement:
            warn(
                f"A second lab would get a different model with an estimated probability of "
                f"{expected:.2f}, above max_disagreement={self.plan_.promise.max_disagreement:g}. "
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
        return self._model().decision_function(self._checked(X))

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
        is_positive = self._model().is_positive(self._checked(X))
        return np.asarray(self.classes_[is_positive.astype(np.int64)])

    def _checked_pair(self, X: Any, y: Any, reset: bool = True) -> tuple[Any, Any]:
        """Rows and labels of a fit."""
        refuse_odd(X)
        check = partial(validate_data, self, unmasked(X), unmasked(y), order="C", **ROW_CHECKS)

        # scikit-learn's own look for gaps takes twice as long as a product; it knows the words
        rows, labels = check(reset=reset, ensure_all_finite=False)
        numbers = (rows.data if is_sparse(rows) else rows).reshape(-1)
        if not np.isfinite(np.dot(numbers, numbers)):
            check(reset=reset)
        return rows, labels

    def _checked(self, X: Any) -> Any:
        """Rows with the columns of the fit."""
        refuse_odd(X)
        return validate_data(self, unmasked(X), reset=False, **ROW_CHECKS)

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


def n_errors(model: HalfspaceModel, sample: Sample, first: int = 0) -> int:
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


def classes_of(y: Array) -> Array:
    """What ``np.unique`` gives: of two labels that the first rows show, without sorting all."""
    classes = np.unique(y[:_FIRST])
    if classes.size == 2 and ((y == classes[0]) | (y == classes[1])).all():
        return classes
    return np.unique(y)


def _plain(value: Any) -> Any:
    """A whole number of NumPy as an int: files hold it."""
    return int(value) if isinstance(value, np.integer) else value
