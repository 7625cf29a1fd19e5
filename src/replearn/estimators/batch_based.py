"""What the classifiers that average the vectors of batches share."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

from replearn.codes.projection import PROJECTIONS
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.estimators.checks import (
    check_hint,
    choice_or_auto,
    class_factors,
    real_or_auto,
    rounding_or_auto,
    whole_or_auto,
)
from replearn.plans.plan_rows import RowPlan
from replearn.plans.sizes import BatchPlan, Sizes
from replearn.stages.certificate import Certificate, certify

Weighable = TypeVar("Weighable", BatchPlan, RowPlan)


class BatchBasedClassifier(ReplicableClassifier):
    """What the classifiers that average the vectors of batches share. Not for direct use."""

    hint_bits: int
    hint: int | None
    plan_: Any

    asks = "batches"
    _remedy = "allow a larger max_error or margin, take hint bits, or plan from a pilot sample"

    def _sizes(self) -> Sizes:
        basis = self.agreed.basis
        known = PROJECTIONS if basis is None else ["published"]
        return Sizes(
            n_batches=whole_or_auto(self.n_batches, "n_batches"),
            batch_size=whole_or_auto(self.batch_size, "batch_size"),
            n_components=whole_or_auto(self.n_components, "n_components"),
            grid_width=real_or_auto(self.grid_width, "grid_width"),
            projection=choice_or_auto(self.projection, "projection", known),
            rounding=rounding_or_auto(self.rounding),
            regularization=real_or_auto(self.regularization, "regularization", zero_allowed=True),
            basis=basis,
            unit_mean=True if self.agreed.unit_mean else None,
            hint_bits=self.hint_bits or None,
        )

    def _weighted(self, plan: Weighable) -> Weighable:
        """The plan with the published weights of the two classes."""
        known = self.agreed.classes or self.__dict__.get("classes_")
        factors = class_factors(self.class_weight, () if known is None else sorted(known))
        if not factors:
            return plan
        if len(factors) > 2:
            raise ReplearnError(
                f"class_weight is for two classes in this algorithm, got {len(factors)}: each "
                "halfspace tells one class from all others. Leave it out, or use "
                "ReplicableLogisticClassifier, which weighs every class."
            )
        if plan.mode != "practical":
            raise ReplearnError(
                f'class_weight needs mode="practical", got mode={plan.mode!r}: what is proved '
                "there counts all rows the same. Leave it out."
            )
        negative, positive = map(float, factors)
        return replace(plan, class_weights=(negative, positive))

    @property
    def hint_(self) -> int:
        """The hint of the model: what other labs pass as ``hint``."""
        return self._fitted_model().hint

    def check_parameters(self) -> None:
        """Refuse parameters of the wrong kind before the rows are looked at."""
        super().check_parameters()
        check_hint(self.hint_bits, self.hint)

    def _certify(self, fitted: Any, shared: SharedRandomness) -> Certificate:
        return certify(fitted, self.plan_, shared)

    def _troubles(self) -> Iterator[str]:
        spent = self.plan_.done
        if spent.n_unconverged:
            yield (
                f"{spent.n_unconverged:,} of {spent.n_batches:,} batches did not reach the "
                f"accuracy asked for (worst duality gap {spent.worst_gap:.2g}). Raise "
                "regularization, or scale the features."
            )
        if spent.n_infeasible:
            yield (
                f"{spent.n_infeasible:,} of {spent.n_batches:,} batches have no margin of "
                f"{self.plan_.accuracy.margin_floor:g}, so the promise of margin {self.margin} "
                "does not hold. Lower margin, or set regularization above 0."
            )

    def _no_estimate(self) -> str:
        spent = self.plan_.done
        batches = "1 batch" if spent.n_batches == 1 else f"{spent.n_batches} batches"
        return (
            f"from {batches} of {self.plan_.batch_size} rows. Get more rows: seven batches are the "
            "fewest."
        )
