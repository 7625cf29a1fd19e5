"""The DP reduction as a scikit-learn classifier."""

from collections.abc import Callable

from replearn.codes.published import Published
from replearn.estimators.checks import refuse_large
from replearn.estimators.docstrings import with_shared_entries
from replearn.estimators.net import NetBasedClassifier
from replearn.plans.plan_net import plan_dp
from replearn.plans.sizes import NetPlan
from replearn.stages import recipes


@with_shared_entries
class ReplicableDPClassifier(NetBasedClassifier):
    """Replicable halfspaces by the exponential mechanism: [LNUZ20] through [BGH23].

    A candidate of a net is drawn with probability proportional to
    ``exp(-inverse_temperature * error rate)``, a differentially private mechanism, and both labs
    draw with the same published noise (correlated sampling), so that they draw the same.
    **The published seed makes the output replicable, not private**: knowing the seed is knowing
    the noise. ``privacy_epsilon_`` says how private it would be with secret noise.

    {two_labs}

    Parameters
    ----------
    {margin, max_error, max_disagreement, failure_prob, shared_seed}
    mode : {"practical", "certified", "paper"}, default="practical"
        Where the sizes come from. Practical: calibrated formulas, fits on any number of
        rows. Certified: proved constants, refuses too few rows and nets that cannot be
        searched. Paper: its rates; docs/theory.md lists what differs.
    {fit_intercept}
    shuffle : bool, default=True
        Permute the rows, which matters only for the certificate.
    {random_state, n_jobs, verbose, batch_size, n_components, net, n_candidates}
    calibration : {"margin", "generic"}, default="margin"
        Populations for which the disagreement is proved: those with the margin, or all, for more
        rows (``1 / max_error^2`` instead of ``1 / max_error``).
    sampling : {"gumbel", "holenstein"}, default="gumbel"
        How the common noise is used; Holenstein's rejection is the reference.
    constants : dict or None, default=None
        Paper mode: the constants C1 to C3, default 1.
    published : Published or None, default=None
        What a protocol fixes: the scaling of the columns, labels.

    Attributes
    ----------
    model_ : Model
        The index of the chosen candidate, and what is needed to read it.
    {fingerprint_}
    privacy_epsilon_ : float
        Differential privacy (replacing one row) that the choice would have with secret noise.
    plan_ : NetPlan
        Sizes that were used, and what was spent.
    {certificate_, coef_, intercept_, classes_, n_features_in_, feature_names_in_}

    Examples
    --------
    >>> from replearn import ReplicableDPClassifier
    >>> from replearn.datasets import make_margin
    >>> labs = [make_margin(100_000, 4, margin=0.3, random_state=lab) for lab in (1, 2)]
    >>> first, second = (
    ...     ReplicableDPClassifier(margin=0.3, max_error=0.1, shared_seed=2024).fit(X, y)
    ...     for X, y in labs
    ... )
    >>> first.fingerprint_ == second.fingerprint_
    True
    >>> first.privacy_epsilon_ < 0.01
    True
    """

    def __init__(
        self,
        margin: float = 0.1,
        max_error: float = 0.05,
        max_disagreement: float = 0.1,
        failure_prob: float = 0.05,
        shared_seed: int | str = 0,
        mode: str = "practical",
        fit_intercept: bool = True,
        shuffle: bool = True,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        batch_size: int | str = "auto",
        n_components: int | str = "auto",
        projection: str = "auto",
        net: str = "auto",
        n_candidates: int | str = "auto",
        calibration: str = "margin",
        sampling: str = "gumbel",
        constants: dict[str, float] | None = None,
        published: Published | None = None,
    ) -> None:
        self.margin = margin
        self.max_error = max_error
        self.max_disagreement = max_disagreement
        self.failure_prob = failure_prob
        self.shared_seed = shared_seed
        self.mode = mode
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.batch_size = batch_size
        self.n_components = n_components
        self.projection = projection
        self.net = net
        self.n_candidates = n_candidates
        self.calibration = calibration
        self.sampling = sampling
        self.constants = constants
        self.published = published

    @property
    def _recipe(self) -> Callable[..., recipes.Chosen]:
        return recipes.dp

    @property
    def privacy_epsilon_(self) -> float:
        """Privacy parameter of the choice, had its noise been secret."""
        self._fitted_model()
        spent = self.plan_.done
        assert spent.privacy_epsilon is not None
        return spent.privacy_epsilon

    def _no_estimate(self) -> str:
        if self.sampling == "holenstein":
            return 'by rejection sampling, which is a reference. Use sampling="gumbel".'
        return super()._no_estimate()

    def _plan(self, n_inputs: int) -> NetPlan:
        plan = plan_dp(
            self._guarantee(),
            n_inputs,
            self.mode,
            self._sizes(),
            self.constants,
            **self._net_options(),
            calibration=self.calibration,
            sampling=self.sampling,
        )
        return refuse_large(plan)
