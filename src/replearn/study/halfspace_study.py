"""A study of Algorithm 1 or 2: what an original publishes, and what a replication found."""

from dataclasses import dataclass

from replearn.documents import Document, Sha256
from replearn.documents.facts import Facts, Row, Spoken
from replearn.recipes.halfspace_design import HalfspaceDesign


@dataclass(frozen=True)
class HalfspaceStudy(Spoken, Document):
    """What a replication of Algorithm 1 or 2 may know: the design and a commitment.

    Attributes
    ----------
    commitment : SHA-256
        Fingerprint of the original's model.
    """

    FORMAT = "replearn/paper-study"

    design: HalfspaceDesign
    commitment: Sha256

    def facts(self) -> Facts:
        """The study in words."""
        design = self.design
        return Facts(
            f"A replication from {design.n_rows:,} rows gets the original's halfspace, except with "
            f"probability {float(design.max_disagreement):g}.",
            [
                Row("recipe", design.recipe),
                Row("mode", design.mode),
                Row("columns", design.space.n_inputs - design.fit_intercept),
                Row("rows of the original", design.n_rows),
                Row("published bits", design.sketch.size * design.space.sketch_bits),
                Row("seed", design.seed),
                Row("commitment", self.commitment),
            ],
        )


@dataclass(frozen=True)
class HalfspaceReplication(Spoken):
    """Whether a replication got the original's halfspace."""

    same: bool
    # of the replication's model, and of the original's
    fingerprint: str
    commitment: str
    n_rows: int  # of the replication
    # labels that are pure noise would give this model too: cells are so wide that its codes say
    # nothing, and the model is what the sketch says
    noise_matches: bool

    def facts(self) -> Facts:
        """The verdict first."""
        verdict = (
            "The same model: these rows give exactly the original's model."
            if self.same
            else "A different model: these rows do not give the original's model."
        )
        weak = (
            "Labels that are pure noise would give this model too: cells are wide, and a match "
            "proves nothing about the labels. Studies of more rows have narrower cells."
        )
        return Facts(
            verdict,
            [
                *([weak] if self.noise_matches else []),
                f"Fingerprint {self.fingerprint}",
                Row("rows here", self.n_rows),
            ],
            values={"fingerprint": self.fingerprint, "committed": self.commitment},
        )
