"""The algorithms of [ILPS22] as a scikit-learn classifier."""

from collections.abc import Callable, Iterator
from functools import partial

from replearn.codes.published import Published
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.estimators.checks import real_or_auto, refuse_large, whole_or_auto
from replearn.estimators.docstrings import with_shared_entries
from replearn.plans.plan_boosting import OUTPUTS, ROUNDINGS, plan_boosting
from replearn.plans.sizes import BoostPlan, Sizes
from replearn.stages.boost_rounds import Boosted, boost
from replearn.stages.certificate import Certificate, certify_boosting


@with_shared_entries
class ReplicableBoostingClassifier(ReplicableClassifier):
    """Replicable boosting of rounded means, the prior work: both algorithms of [ILPS22].

    Each round takes the mean of ``y x`` over re-weighted rows and rounds it in the original
    space, to boxes or to the droplets of a foam; rows that the vote classifies with a margin lose
    weight (SmoothBoost [Servedio03]); a replicable test ends the rounds. The classifier is the
    sign of the sum of the rounds, or the majority of their signs. Here for comparison: samples
    grow with the number of features, and the time of foam is ``2^d``; the other classifiers
    do better.

    Two labs that fit on different samples of one population, with the same parameters and
    ``shared_seed``, get exactly the same model with probability at least
    ``1 - max_disagreement`` (proved in certified mode, whose sizes are out of reach; estimated
    by ``certificate_`` in practical mode).

    Parameters
    ----------
    {margin, max_error, max_disagreement, failure_prob, shared_seed}
    mode : {"practical", "certified", "paper"}, default="practical"
        Where the sizes come from. Practical: faster weights, a test of the error, fits on any
        number of rows. Certified: proved constants, refuses too few rows. Paper: the
        algorithm and the rates of Table 1, constants open.
    rounding : {"box", "foam"}, default="box"
        Cubes, or the droplets of [KORW12]; foam takes at most 24 inputs.
    output : {"halfspace", "majority"}, default="halfspace"
        The sign of the sum of the rounds' products (a halfspace, proper), or the majority of
        their signs (improper: no ``coef_``).
    {fit_intercept}
    shuffle : bool, default=True
        Permute the rows, which matters for fresh rows and for the certificate.
    random_state : int or None, default=None
        Private key of the permutation and of the rejection sampler's coins.
    {n_jobs, verbose}
    n_rounds : int or "auto", default="auto"
        Most rounds.
    fresh_rows : bool or "auto", default="auto"
        Rows of its own for each round, accepted by a rejection sampler, as in [ILPS22]; or all
        rows in every round, weighted, which needs far fewer (at most twice the disagreement of
        a round). "auto": fresh, except in practical mode.
    batch_size : int or "auto", default="auto"
        Fresh rows of a round; a quarter of them are for the test.
    grid_width : float or "auto", default="auto"
        Side of a box, or of the cube of a droplet.
    constants : dict or None, default=None
        Paper mode: the constants C1 to C3, default 1.
    published : Published or None, default=None
        What a protocol fixes: the scaling of the columns, labels.

    Attributes
    ----------
    model_ : Model
        The codes of all rounds, and what is needed to read them.
    {fingerprint_}
    n_rounds_ : int
        Rounds that were done.
    plan_ : BoostPlan
        Sizes that were used, and what was spent.
    {certificate_, coef_, intercept_, classes_, n_features_in_, feature_names_in_}

    Examples
    --------
    >>> from replearn import ReplicableBoostingClassifier
    >>> from replearn.datasets import make_margin
    >>> labs = [make_margin(100_000, 4, margin=0.3, random_state=lab) for lab in (1, 2)]
    >>> first, second = (
    ...     ReplicableBoostingClassifier(margin=0.3, rounding="foam", shared_seed=2025).fit(X, y)
    ...     for X, y in labs
    ... )
    >>> first.fingerprint_ == second.fingerprint_
    True
    """

    plan_: BoostPlan

    asks = "rows"
    _remedy = "allow a larger max_error, or use another classifier: this one needs the most"

    def __init__(
        self,
        margin: float = 0.1,
        max_error: float = 0.05,
        max_disagreement: float = 0.1,
        failure_prob: float = 0.05,
        shared_seed: int | str = 0,
        mode: str = "practical",
        rounding: str = "box",
        output: str = "halfspace",
        fit_intercept: bool = True,
        shuffle: bool = True,
        random_state: int | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        n_rounds: int | str = "auto",
        fresh_rows: bool | str = "auto",
        batch_size: int | str = "auto",
        grid_width: float | str = "auto",
        constants: dict[str, float] | None = None,
        published: Published | None = None,
    ) -> None:
        self.margin = margin
        self.max_error = max_error
        self.max_disagreement = max_disagreement
        self.failure_prob = failure_prob
        self.shared_seed = shared_seed
        self.mode = mode
        self.rounding = rounding
        self.output = output
        self.fit_intercept = fit_intercept
        self.shuffle = shuffle
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.n_rounds = n_rounds
        self.fresh_rows = fresh_rows
        self.batch_size = batch_size
        self.grid_width = grid_width
        self.constants = constants
        self.published = published

    @property
    def _recipe(self) -> Callable[..., Boosted]:
        private = None if self.random_state is None else SharedRandomness(str(self.random_state))
        return partial(boost, coins=private)

    @property
    def n_rounds_(self) -> int:
        """Rounds that were done."""
        self._fitted_model()
        return self.plan_.done.n_batches

    def _plan(self, n_inputs: int) -> BoostPlan:
        for name, known in (("rounding", ROUNDINGS), ("output", OUTPUTS)):
            if getattr(self, name) not in known:
                raise ReplearnError(
                    f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}."
                )
        sizes = Sizes(
            batch_size=whole_or_auto(self.batch_size, "batch_size"),
            grid_width=real_or_auto(self.grid_width, "grid_width"),
        )
        plan = plan_boosting(
            self._guarantee(),
            n_inputs,
            self.mode,
            sizes,
            self.constants,
            rounding=self.rounding,
            output=self.output,
            n_rounds=whole_or_auto(self.n_rounds, "n_rounds"),
            fresh_rows=None if self.fresh_rows == "auto" else bool(self.fresh_rows),
        )
        return refuse_large(plan)

    def _certify(self, fitted: Boosted, shared: SharedRandomness) -> Certificate:
        return certify_boosting(fitted, self.plan_, shared)

    def _no_estimate(self) -> str:
        return f"from {self.plan_.done.n_rows:,} rows. Get more rows."

    def _troubles(self) -> Iterator[str]:
        spent = self.plan_.done
        if not spent.below:
            yield (
                f"The test was not passed within {spent.n_batches:,} rounds, so the error may be "
                f"above max_error={self.max_error:g}. Lower margin, raise max_error or n_rounds, "
                "or get more rows."
            )
