"""Algorithms 1 and 2 of the paper as scikit-learn estimators: the mean of many batches."""

import math
import os
from typing import Any, Self

import numpy as np

from replearn.codes import Coins, Fitted
from replearn.errors import ReplearnError, ReplicabilityWarning, UselessModelWarning, short
from replearn.estimators.described import estimator
from replearn.estimators.halfspaces import HalfspaceClassifier, n_errors
from replearn.halfspaces import (
    OnePass,
    PublishedPlan,
    Trace,
    refuse_sorted,
    round_mean,
    rows_that_agree,
    sgd,
    svm,
    trace,
)
from replearn.rows import MemoryRows, Sample
from replearn.study import HalfspaceReplication, HalfspaceStudy
from replearn.types import Array, Signs
from replearn.words import warn

#: What adds up the batches of Algorithms 1 and 2.
ADDERS = {"svm": svm.adder, "sgd": sgd.adder}


@estimator()
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

        # what is left of a cell beside its bits, in units of the noise that the error allows
        times = float(space.grid_width) / 2**space.sketch_bits / (math.sqrt(12) * plan.noise)
        if times > 1:
            warn(
                f"Cells are {times:.2g} times as coarse as max_error={plan.promise.max_error:g} "
                f"allows, so the model may be wrong more often: {n_rows:,} rows show their spread "
                f"only roughly. {self._more(n_rows, spread)}. Or publish more bits.",
                UselessModelWarning,
            )

    def _finish(self, plan: Any, fitted: Fitted, n_rows: int, study: HalfspaceStudy | None) -> None:
        # of an earlier fit
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


@estimator(svm)
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

    _recipe = svm.SVM


@estimator(sgd)
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

    _recipe = sgd.SGD

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
        rows, labels = self._checked_pair(X, y, reset=is_first)
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
        self.counts_["own_errors"] = n_errors(self.model_, sample)  # of the rows of this call
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
