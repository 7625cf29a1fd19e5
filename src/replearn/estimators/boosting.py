"""The algorithms of [ILPS22] as a scikit-learn classifier."""

from typing import Any

from replearn.codes import Recipe
from replearn.errors import ReplearnError, ReplicabilityWarning, short
from replearn.estimators.described import estimator
from replearn.estimators.halfspaces import HalfspaceClassifier
from replearn.halfspaces import boosting
from replearn.words import warn


@estimator(boosting)
class ReplicableBoostingClassifier(HalfspaceClassifier):
    """Boosting of rounded means, the prior work: both algorithms of [ILPS22].

    Each round takes the mean of ``y x`` over re-weighted rows and rounds it in the original space,
    to boxes or to the droplets of a foam. Rows that the vote classifies with a margin lose weight;
    a replicable test ends the rounds. The classifier is the sum of the rounds' directions. It is
    here for comparison: rows grow with the number of features, and the time of foam is ``2^d``.

    Parameters
    ----------
    {promise}
    rounding : {"box", "foam"}, default="box"
        Cubes, or the droplets of [KORW12]; foam takes at most 24 inputs.
    n_rounds : int or None, default=None
        Rounds at most; None is the planned number.
    grid_width : float or None, default=None
        Side of a box, or of the cube of a droplet.
    n_rows : int or None, default=None
        Rows of a lab, for paper mode.

    Attributes
    ----------
    {fitted}
    plan_ : BoostPlan
        Sizes that were used.

    See Also
    --------
    ReplicableSVMClassifier : Algorithm 1, whose rows do not grow with the features.
    table1 : all six algorithms with numbers for one promise.

    Notes
    -----
    {printed}

    The head of ``replearn.halfspaces.boosting`` has our constants, their proof, and every departure
    of ``mode="paper"`` from what is printed.

    References
    ----------
    {paper}

    Examples
    --------
    {two_labs}
    """

    rounding: str = "box"
    n_rounds: int | None = None
    grid_width: float | None = None
    n_rows: int | None = None

    _remedy = "use a different classifier: this one needs the most"

    @property
    def _recipe(self) -> Recipe:
        # constructors of scikit-learn check nothing
        if self.rounding not in ("box", "foam"):
            raise ReplearnError(
                f'rounding must be "box" or "foam", got {short(self.rounding)}. Boxes take any '
                "number of features."
            )

        return {"box": boosting.BOX, "foam": boosting.FOAM}[self.rounding]

    def _warn(self, n_rows: int, spread: Any) -> None:
        super()._warn(n_rows, spread)
        if not self.counts_["below"]:
            warn(
                f"The test was not passed within {self.counts_['rounds']:,} rounds, so the error "
                f"may be above max_error={self.max_error:g}. Lower margin, raise max_error or "
                "n_rounds, or get more rows.",
                ReplicabilityWarning,
            )
