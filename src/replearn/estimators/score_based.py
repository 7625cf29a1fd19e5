"""What estimators share whose rows add up to scores in published directions."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self

from replearn.codes.design import Design
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.estimators.base import Replicable
from replearn.estimators.checks import check_hint, check_whole
from replearn.plans.plan_logistic import LogisticPlan
from replearn.plans.sizes import Guarantee
from replearn.stages.certificate import Certificate
from replearn.stages.hints import unsafe_hints
from replearn.stages.score_certificate import certify_scores
from replearn.stages.scores import Scored, logistic


class ScoreBased(Replicable):
    """Logistic and linear regression in published directions. Not for direct use."""

    samples_per_site: int
    hint_bits: int
    hint: int | None

    asks = "sums"
    _no_weights = None
    fit_intercept = True  # not a parameter: the intercept is one of the coded numbers
    _remedy = "allow a larger max_disagreement, take hint bits, or plan from a pilot sample"

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # type: ignore[override]
        """Learn weights that another lab would learn too.

        Parameters
        ----------
        X : array, dataframe or CSR matrix of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Labels, or the numbers of a regression.
        sample_weight : array of shape (n_samples,), optional
            Numbers from 0 to 16,384, which are rounded to multiples of 1/1024 so that sums are
            exact. A weight of 3 counts like three equal rows, to the bit; the certificate knows
            that they are not three independent ones.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight=sample_weight)

    @property
    def _design(self) -> Design | None:
        return None if self.published is None else self.published.design

    @property
    def hint_(self) -> int:
        """The hint of the model: what other labs pass as ``hint``."""
        return self._fitted_model().hint

    def unsafe_hints(self, n_sites: int = 2) -> tuple[int, ...]:
        """Hints under which this fit lies too near a wall: for studies without a first site.

        Every site fits without a hint and publishes these numbers; all take
        ``replearn.common_hint`` of what was published, and fit again with it.

        Parameters
        ----------
        n_sites : int, default=2
            Sites that are to agree.

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

    def check_parameters(self) -> None:
        """Refuse parameters of the wrong kind before the rows are looked at."""
        super().check_parameters()
        Guarantee(0.1, 0.1, self.max_disagreement, self.failure_prob)
        bits = self.hint_bits if self._design is None else self._design.space.hint_bits
        check_hint(bits, self.hint)
        check_whole(self.samples_per_site, "samples_per_site", 1, 1 << 50)

    def _refuse_other_columns(self, design: Design, n_inputs: int) -> None:
        """Refuse rows that are not of the published directions."""
        if design.space.n_inputs != n_inputs:
            raise ReplearnError(
                f"X must have {design.space.n_features} features after encoding, as the published "
                f"directions have, got {n_inputs - 1}. Use the protocol on the columns that it "
                "was made for."
            )

    @property
    def _recipe(self) -> Callable[..., Scored]:
        return partial(logistic, hint=self.hint)

    def _publish(self, plan: LogisticPlan, fitted: Scored, shared: SharedRandomness) -> None:
        super()._publish(plan, fitted, shared)
        self._components = fitted.components

    def _certify(self, fitted: Scored, shared: SharedRandomness) -> Certificate:
        return certify_scores(fitted, self.plan_, follows=self.hint is not None)

    def _troubles(self) -> Iterator[str]:
        spent = self.plan_.spent
        if spent.n_shortened > 0.5 * spent.n_rows and self._design is not None:
            yield (
                f"{spent.n_shortened:,} of {spent.n_rows:,} rows are longer than the published "
                f"length {self.plan_.design.space.cap} and were shortened to it. Check that the "
                "columns have the units of the protocol."
            )
