"""Least squares in a few published directions."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from replearn.codes.design import Design
from replearn.codes.model import Label
from replearn.codes.published import Published
from replearn.errors import ReplearnError
from replearn.estimators.checks import directions_or_auto, real_or_auto, refuse_unwritable
from replearn.estimators.docstrings import with_shared_entries
from replearn.estimators.score_based import ScoreBased
from replearn.plans.plan_linear import promised_linear_design
from replearn.plans.plan_logistic import LogisticPlan
from replearn.sources.numbers import Numbers

#: Share of numbers beyond the published range from which on a fit warns.
_MANY_CUT = 0.01

#: Widest range, and farthest from 0: squares stay finite, and the files take them.
_LARGEST = 1e60


@with_shared_entries
class ReplicableLinearRegressor(RegressorMixin, ScoreBased):
    """Least squares in a few published directions, rounded so that labs agree.

    A protocol publishes a few directions of the columns, the range of the numbers, a start and the
    cells of a grid; a lab's rows decide the intercept and the weights of the directions by exact
    sums of ``a a'`` and ``a y``; these few numbers are rounded. The same rows in any order, chunks
    and on any number of threads give the same bytes.

    Parameters
    ----------
    y_range : (float, float) or None, default=None
        Published smallest and largest number: others are cut to them before they are added up.
        Needed unless a protocol has it. A range that follows from a lab's own rows would be
        another one at every lab.
    {max_disagreement}
    failure_prob : float, default=0.05
        Probability that the certificate's bound is wrong.
    {shared_seed, samples_per_site}
    n_components : int or "auto", default="auto"
        Directions: by default all features, but at most 16 shared random ones.
    residual_sd : float or "auto", default="auto"
        Published: about how far numbers are from their predictions, which decides how wide the
        cells are. By default a quarter of the range, which is nearly always too much.
    hint_bits : int, default=0
        The first lab publishes this many bits about where its point lies, and cells can be far
        narrower; see docs/theory.md. 0 is the paper's notion of replicability.
    {hint, n_jobs, verbose}
    published : Published or None, default=None
        What a protocol fixes: encoding, and a design (directions, range, start and cells), with
        which the sizes above are not used.

    Attributes
    ----------
    model_ : Model
        The integers that are the regression.
    {fingerprint_, hint_}
    plan_ : LogisticPlan
        Every size that was used.
    {certificate_}
    coef_ : array of shape (n_features,)
    intercept_ : float
    {n_features_in_, feature_names_in_}

    Notes
    -----
    Without a design columns should have mean 0 and variance about 1 (`ReplicableScaler`), and the
    least squares of the rows are rounded. With the design of `replearn.plan_regression` one step
    from the published start, with the published curvature, is taken: what is rounded is then an
    affine function of a mean over rows, and ``certificate_`` has a proved bound. Rows that are
    longer than the published length are shortened to it, also at prediction. Residuals are cut to
    the width of the range. See docs/regression.md.

    Examples
    --------
    >>> import numpy as np
    >>> from replearn import ReplicableLinearRegressor
    >>> def lab(seed):
    ...     rng = np.random.default_rng(seed)
    ...     X = rng.normal(size=(40_000, 3))
    ...     return X, X @ [1.0, -0.5, 0.2] + rng.normal(size=40_000)
    >>> first, second = (
    ...     ReplicableLinearRegressor(y_range=(-6, 6), residual_sd=1, samples_per_site=40_000).fit(
    ...         *lab(seed)
    ...     )
    ...     for seed in (1, 2)
    ... )
    >>> first.fingerprint_ == second.fingerprint_
    True
    >>> bool(first.score(*lab(3)) > 0.5)
    True
    """

    def __init__(
        self,
        y_range: tuple[float, float] | None = None,
        max_disagreement: float = 0.1,
        failure_prob: float = 0.05,
        shared_seed: int | str = 0,
        samples_per_site: int = 100_000,
        n_components: int | str = "auto",
        residual_sd: float | str = "auto",
        hint_bits: int = 0,
        hint: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        published: Published | None = None,
    ) -> None:
        self.y_range = y_range
        self.max_disagreement = max_disagreement
        self.failure_prob = failure_prob
        self.shared_seed = shared_seed
        self.samples_per_site = samples_per_site
        self.n_components = n_components
        self.residual_sd = residual_sd
        self.hint_bits = hint_bits
        self.hint = hint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.published = published

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Number of each row.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        numbers : array of shape (n_samples,)
        """
        return self._scores(X)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the features, shape (n_features,)."""
        return np.asarray(self._fitted_model().coef)

    @property
    def intercept_(self) -> float:  # type: ignore[override]
        """What is predicted for a row of zeros."""
        return float(self._fitted_model().intercept)

    def check_parameters(self) -> None:
        """Refuse parameters of the wrong kind before the rows are looked at."""
        super().check_parameters()
        if self._design is None:
            _read_range(self.y_range)
            real_or_auto(self.residual_sd, "residual_sd")
        elif not self._design.space.is_numeric:
            raise ReplearnError(
                "a regression needs a design with the range of its numbers, got one of labels. "
                "Plan with plan_regression, or take a ReplicableLogisticClassifier."
            )

    def labels(self, place: str = "y", *, from_text: bool = False) -> Any:
        """What turns a column into numbers of the published range."""
        design = self._design
        if design is None:  # of one feature: only the range is wanted
            design = self._promised(1, n_components=1)
        self._numbers = Numbers(place, design.space)
        return self._numbers

    def _test(self, sample: Any, spaced: bool) -> tuple[None, str]:
        return None, "the test is for labels, not for numbers"

    def _describe(
        self, n_features: int, classes: NDArray[Any], names: tuple[str, ...] | None
    ) -> None:
        refuse_unwritable(None, names)
        self.n_features_in_ = n_features

    def _plan(self, n_inputs: int) -> LogisticPlan:
        design, source = self._design, "the published design"
        if design is None:
            source = "from the promise alone: standardised columns"
            n_features = n_inputs - 1
            design = self._promised(n_features, directions_or_auto(self.n_components, n_features))
        else:
            self._refuse_other_columns(design, n_inputs)
        return LogisticPlan(design, self.max_disagreement, self.failure_prob, source)

    def _promised(self, n_features: int, n_components: int | None) -> Design:
        """The design of the promise alone."""
        low, high = _read_range(self.y_range)
        residual_sd = real_or_auto(self.residual_sd, "residual_sd")
        return promised_linear_design(
            n_features,
            self._shared(),
            y_range=(low, high),
            residual_sd=(high - low) / 4 if residual_sd is None else residual_sd,
            max_disagreement=self.max_disagreement,
            samples_per_site=self.samples_per_site,
            n_components=n_components,
            hint_bits=self.hint_bits,
        )

    def _label_values(self) -> tuple[Label, ...]:
        return ()

    def _troubles(self) -> Iterator[str]:
        yield from super()._troubles()
        share = self._numbers.share_cut
        if share > _MANY_CUT:
            low, high = self.plan_.design.space.target_range
            yield (
                f"{share:.1%} of the numbers are beyond the published range {low:g} to {high:g} "
                "and were cut to it. Check that y has the units of the protocol, or publish a "
                "wider range."
            )


def _read_range(value: Any) -> tuple[float, float]:
    """The published range, as two numbers."""
    try:
        low, high = (float(number) for number in value)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not (abs(low) <= _LARGEST and abs(high) <= _LARGEST and high - low > 1e-60):
        raise ReplearnError(
            f"y_range must be two numbers, the smaller first, got {value!r:.80}. Publish the range "
            "that y may have, such as (0, 250), or plan with plan_regression: a range that "
            "follows from a lab's own rows is another one at every lab."
        )
    return low, high
