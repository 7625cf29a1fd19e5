"""A study of Algorithm 1 or 2: what an original publishes, and what a replication found."""

from dataclasses import dataclass
from typing import Any

from replearn.codes import CodeSpace, HalfspaceDesign
from replearn.documents import Sha256, Unfit
from replearn.halfspaces import BatchPlan, PublishedPlan
from replearn.study.replication import Replication, Verdict
from replearn.study.study import StatedRows, Study
from replearn.words import Facts, Row


@dataclass(frozen=True)
class HalfspaceStudy(Study):
    """What a replication of Algorithm 1 or 2 may know: design, plan and commitment, not the model.

    Attributes
    ----------
    design : HalfspaceDesign
        The columns, the labels, and the space in which the codes live.
    plan : PublishedPlan
        Promise and sizes of the original, with the sketch.
    n_original : int
        Rows of the original; as many at a replication are promised the model.
    commitment : SHA-256
        Fingerprint of the original's model.

    See Also
    --------
    ReplicableSVMClassifier : its ``study_`` is one.
    GlmStudy : the same for regressions.

    Notes
    -----
    With bits somebody is first: an original publishes where in its cell each component lies.
    The rows that labs need then grow like ``log(1 / rho)``, not ``1 / rho^2`` (statement 8 of
    "Guarantees").

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(500, 5, margin=0.4, random_state=0)
    >>> first = rl.ReplicableSVMClassifier(margin=0.4, sketch_bits=3).fit(X, y)
    >>> first.study_.n_original, first.study_.design.target, first.study_.plan.max_disagreement
    (500, 'y', '0.1')
    >>> first.study_.commits_to(first.fingerprint_)
    True
    """

    KIND = "halfspace"

    design: HalfspaceDesign
    plan: PublishedPlan
    n_original: StatedRows
    commitment: Sha256

    def check(self) -> None:
        """The parts must fit together."""
        if self.design.recipe not in ("svm", "sgd"):
            raise Unfit(f"recipe must be 'svm' or 'sgd', got {self.design.recipe!r}")
        self.plan.check_space(self.space)

    @property
    def space(self) -> CodeSpace:
        """Where the codes live."""
        if not isinstance(self.design.space, CodeSpace):
            raise Unfit("space must be one of rounded vectors, got a different one")
        return self.design.space

    @property
    def replication_plan(self) -> BatchPlan:
        """The plan of a replication: as many rows as the original had."""
        return self.plan.plan(self.design.recipe, self.space, self.n_original)

    def facts(self) -> Facts:
        """The study in words."""
        # what labs need to know before they fit it
        design = self.design
        return Facts(
            f"A replication from {self.n_original:,} rows gets the original's halfspace, except "
            f"with probability {float(self.plan.max_disagreement):g}.",
            [
                Row("target", design.target),
                Row("recipe", design.recipe),
                Row("mode", self.plan.mode),
                Row("columns", design.n_features),
                Row("rows of the original", self.n_original),
                Row("published bits", self.plan.sketch.size * self.space.sketch_bits),
                Row("seed", design.seed),
                Row("commitment", self.commitment),
            ],
        )


@dataclass(frozen=True)
class HalfspaceReplication(Replication):
    """Whether a replication got the original's halfspace.

    Attributes
    ----------
    same : bool or None
        Whether the model is the original's.
    fingerprint : str
        Of this lab's model.
    commitment : str
        Of the original's model, as the study states it.
    n_rows : int
        Rows of this lab.
    noise_matches : bool
        Whether labels that are pure noise would give this model, too: cells are then so wide that
        a match proves nothing about the labels.

    See Also
    --------
    ReplicableSVMClassifier : its ``replication_`` is one.

    Notes
    -----
    Labels of pure noise are fitted as well: if they give the same codes, agreement says
    nothing.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(500, 5, margin=0.4, random_state=0)
    >>> first = rl.ReplicableSVMClassifier(margin=0.4, sketch_bits=3).fit(X, y)
    >>> X, y = rl.datasets.make_margin(500, 5, margin=0.4, random_state=1)
    >>> second = rl.ReplicableSVMClassifier(margin=0.4, study=first.study_).fit(X, y)
    >>> second.replication_.same, second.replication_.noise_matches
    (True, False)
    >>> second.replication_
    <HalfspaceReplication: The same model: these rows give exactly the original's model.>
    """

    same: bool | None
    # of the replication's model, and of the original's
    fingerprint: str
    commitment: str
    n_rows: int  # of the replication
    # labels that are pure noise would give this model too: cells are so wide that its codes say
    # nothing, and the model is what the sketch says
    noise_matches: bool

    @property
    def verdict(self) -> Verdict:
        """Agreement in one word; whether the rows support the halfspace is not tested."""
        if self.same:
            return "undecided"
        return "different"

    def facts(self) -> Facts:
        """The verdict first."""
        verdict = "A different model: these rows do not give the original's model."
        if self.same:
            verdict = "The same model: these rows give exactly the original's model."

        # cells may be so wide that anything matches
        weak = (
            "Labels that are pure noise would give this model too: cells are wide, and a match "
            "proves nothing about the labels. Studies of more rows have narrower cells."
        )
        items: list[Any] = [f"Fingerprint {self.fingerprint}", Row("rows here", self.n_rows)]
        if self.noise_matches:
            items.insert(0, weak)
        return Facts(
            verdict, items, values={"fingerprint": self.fingerprint, "committed": self.commitment}
        )
