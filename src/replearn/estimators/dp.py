"""The DP reduction as a scikit-learn classifier."""

from replearn.estimators.described import estimator
from replearn.estimators.net import ChoosingClassifier
from replearn.halfspaces import dp


@estimator(dp)
class ReplicableDPClassifier(ChoosingClassifier):
    """Halfspaces by the exponential mechanism with common noise: [LNUZ20] through [BGH23].

    A candidate of a net is drawn with probability proportional to ``exp(-inverse_temperature *
    error rate)``, a differentially private mechanism, and all labs draw with the same published
    noise, so that they draw the same. **The published seed makes the output replicable, not
    private**: whoever knows the seed knows the noise. ``privacy_epsilon_`` says how private it
    would be with secret noise.

    Parameters
    ----------
    {promise}
    {net_sizes}
    populations : {"margin", "all"} or None, default=None
        Populations for which the disagreement is bounded: those with the margin, or all, for more
        rows. None is "margin", and "all" in paper mode.

    Attributes
    ----------
    {fitted}
    plan_ : DPPlan
        Sizes that were used.
    privacy_epsilon_ : float
        Pure differential privacy of the mechanism, if its noise were secret.

    See Also
    --------
    ReplicableNetClassifier : Algorithm 3, the first candidate below a threshold.
    plan : how many rows a promise needs.

    Notes
    -----
    {printed}

    The head of ``replearn.halfspaces.dp`` has our constants, their proof, and every departure
    of ``mode="paper"`` from what is printed.

    References
    ----------
    {paper}

    Examples
    --------
    {two_labs}
    """

    populations: str | None = None

    _recipe = dp.DP

    @property
    def privacy_epsilon_(self) -> float:
        """Pure differential privacy of the mechanism, if its noise were secret."""
        self._model()
        assert isinstance(self.plan_, dp.DPPlan)
        # replacing one row moves every log-weight by at most L / n, and so the normaliser
        return 2 * float(self.plan_.inverse_temperature) / self.counts_["points"]
