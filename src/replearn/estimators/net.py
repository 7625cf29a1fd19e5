"""Algorithm 3 as a scikit-learn classifier, and what it shares with the DP reduction."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from replearn.codes.nets import NETS
from replearn.codes.projection import PROJECTIONS
from replearn.codes.published import Published
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.estimators.checks import choice_or_auto, refuse_large, whole_or_auto
from replearn.estimators.docstrings import with_shared_entries
from replearn.plans.plan_net import plan_net
from replearn.plans.sizes import NetPlan, Sizes
from replearn.progress import counted
from replearn.stages import recipes
from replearn.stages.certificate import Certificate, certify_choice
from replearn.types import BlockMap


class NetBasedClassifier(ReplicableClassifier):
    """What the classifiers that choose from a net share. Not for direct use."""

    net: str
    n_candidates: int | str
    constants: dict[str, float] | None
    plan_: NetPlan

    asks = "counts"
    _remedy = "allow a larger max_error, or use fewer components"

    def _sizes(self) -> Sizes:
        basis = self.agreed.basis
        known = PROJECTIONS if basis is None else ["published"]
        return Sizes(
            batch_size=whole_or_auto(self.batch_size, "batch_size"),
            n_components=whole_or_auto(self.n_components, "n_components"),
            projection=choice_or_auto(self.projection, "projection", known),
            basis=basis,
        )

    def _net_options(self) -> dict[str, Any]:
        return {
            "net": choice_or_auto(self.net, "net", NETS),
            "n_candidates": whole_or_auto(self.n_candidates, "n_candidates"),
        }

    def _certify(self, fitted: recipes.Chosen, shared: SharedRandomness) -> Certificate:
        spent = fitted.spent
        n_points = spent.n_rows - spent.n_dropped - spent.n_zero_rows
        return certify_choice(fitted.evidence, self.plan_, n_points)

    def _run(self) -> BlockMap:
        # a search has no known end
        return counted(self._threads(), "searching") if self.verbose else self._threads()

    def _no_estimate(self) -> str:
        spent = self.plan_.done
        return f"from {spent.n_rows:,} rows. Get more rows." if spent.below else ""

    def _troubles(self) -> Iterator[str]:
        spent = self.plan_.done
        if not spent.below:
            yield (
                f"None of the {spent.n_tested:,} candidates tested is below the threshold, so the "
                "one with the fewest errors was taken, and another lab may well take another. "
                "Lower margin, raise max_error or n_candidates, or set agnostic=True."
            )


@with_shared_entries
class ReplicableNetClassifier(NetBasedClassifier):
    """Replicable choice from a net of halfspaces: Algorithm 3 of [KKLVZ24].

    The candidates are the directions of a shared net. A threshold is drawn at random, and the
    first candidate, in a shared random order, whose error on this lab's rows is below it is
    taken (rLearnerFinite of [BGH23]). Few features, or data that many halfspaces separate well:
    the net grows exponentially with the number of components.

    {two_labs}

    Parameters
    ----------
    {margin, max_error, max_disagreement, failure_prob, shared_seed}
    mode : {"practical", "certified", "paper"}, default="practical"
        Where the sizes come from. Practical: calibrated formulas, fits on any number of
        rows. Certified: proved constants, refuses too few rows and nets that cannot be
        searched. Paper: its sizes; docs/theory.md lists what differs.
    {fit_intercept}
    shuffle : bool, default=True
        Permute the rows, which matters only for amplification and for the certificate.
    {random_state, n_jobs, verbose, batch_size, n_components, net, n_candidates}
    agnostic : bool, default=False
        Learn the smallest error of the net, replicably, instead of assuming that it is about 0:
        for populations that no candidate classifies with ``max_error``. The error is then at most
        ``max_error`` above the smallest.
    n_repeats : int, default=1
        Amplification: choose this many times, on disjoint rows, and take what was chosen most, for
        the first shared string for which that was chosen often.
    constants : dict or None, default=None
        Paper mode: the constants C1 and C2 of Algorithm 3, default 1.
    published : Published or None, default=None
        What a protocol fixes: the scaling of the columns, labels, directions to search in.

    Attributes
    ----------
    model_ : Model
        The index of the chosen candidate, and what is needed to read it.
    {fingerprint_}
    plan_ : NetPlan
        Sizes that were used, and what was spent.
    {certificate_, coef_, intercept_, classes_, n_features_in_, feature_names_in_}

    Examples
    --------
    >>> from replearn import ReplicableNetClassifier
    >>> from replearn.datasets import make_margin
    >>> labs = [make_margin(100_000, 4, margin=0.3, random_state=lab) for lab in (1, 2)]
    >>> first, second = (
    ...     ReplicableNetClassifier(margin=0.3, max_error=0.1, shared_seed=2024).fit(X, y)
    ...     for X, y in labs
    ... )
    >>> first.fingerprint_ == second.fingerprint_
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
        agnostic: bool = False,
        n_repeats: int = 1,
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
        self.agnostic = agnostic
        self.n_repeats = n_repeats
        self.constants = constants
        self.published = published

    @property
    def _recipe(self) -> Callable[..., recipes.Chosen]:
        return recipes.net

    def _plan(self, n_inputs: int) -> NetPlan:
        if not isinstance(self.n_repeats, int | np.integer) or self.n_repeats < 1:
            raise ReplearnError(
                f"n_repeats must be a positive integer, got {self.n_repeats!r}. "
                "1 chooses once, on all rows."
            )
        plan = plan_net(
            self._guarantee(),
            n_inputs,
            self.mode,
            self._sizes(),
            self.constants,
            **self._net_options(),
            agnostic=bool(self.agnostic),
            n_repeats=int(self.n_repeats),
        )
        return refuse_large(plan)
