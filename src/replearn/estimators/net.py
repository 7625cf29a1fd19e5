"""Algorithm 3 as a scikit-learn classifier, and what it shares with the DP reduction."""

from typing import Any

from replearn.errors import ReplicabilityWarning
from replearn.estimators.described import estimator
from replearn.estimators.halfspaces import HalfspaceClassifier
from replearn.halfspaces import net
from replearn.words import warn


@estimator()
class ChoosingClassifier(HalfspaceClassifier):
    """What the classifiers that choose from a net share. Not for direct use."""

    n_components: int | None = None
    projection: str | None = None
    n_candidates: int | None = None
    n_rows: int | None = None

    _remedy = "use fewer components"

    def _warn(self, n_rows: int, spread: Any) -> None:
        if not self.counts_["below"]:
            warn(
                f"None of the {self.counts_['tested']:,} candidates is below the threshold, so the "
                "one with the fewest errors was taken, and a second lab may well take a different "
                "one. Lower margin, or raise max_error or n_candidates.",
                ReplicabilityWarning,
            )
        else:
            super()._warn(n_rows, spread)


@estimator(net)
class ReplicableNetClassifier(ChoosingClassifier):
    """Algorithm 3 of the paper: the first halfspace of a net below a random threshold.

    The candidates are the directions of a shared net. The seed draws a threshold and an
    order of the candidates. A lab takes the first one whose error on its rows is below the
    threshold. This suits few features, or data that many halfspaces separate well: the net grows
    exponentially with the number of components.

    Parameters
    ----------
    {promise}
    {net_sizes}

    Attributes
    ----------
    {fitted}
    plan_ : NetPlan
        Sizes that were used.

    See Also
    --------
    ReplicableDPClassifier : draws a candidate with common noise.
    ReplicableSVMClassifier : Algorithm 1, for more features.
    plan : how many rows a promise needs.

    Notes
    -----
    {printed}

    The head of ``replearn.halfspaces.net`` has our constants, their proof, and every departure
    of ``mode="paper"`` from what is printed.

    References
    ----------
    {paper}

    Examples
    --------
    {two_labs}
    """

    _recipe = net.NET
