"""A finished choice: which of the published candidates, as a file."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from replearn.documents import DecimalText, Document, Label, Length, Part, Range, Sha256, Unfit
from replearn.documents.facts import Facts, Row, Spoken
from replearn.types import Codes

#: How candidates are scored, row by row; each score is between 0 and 1, and 1 is best.
Scoring = Literal["accuracy", "neg_brier_score", "neg_log_loss"]

MAX_CANDIDATES = 1000


@dataclass(frozen=True)
class Candidate(Part):
    """One of the models that a study chooses among; ``fingerprint`` if it is one of ours."""

    name: str
    fingerprint: Sha256 | None = None


@dataclass(frozen=True)
class ChoiceModel(Spoken, Document):
    """Which of several finished models a lab has chosen.

    Two choices are equal when their canonical bytes are. Nothing of the run is part of them: no
    scores and no number of rows.
    """

    FORMAT = "replearn/choice"

    # in their published order
    candidates: Annotated[tuple[Candidate, ...], Length(2, MAX_CANDIDATES)]
    chosen: Annotated[int, Range(0, MAX_CANDIDATES - 1)]  # place of the chosen one, from 0
    scoring: Scoring
    # of the shared noise, in units of the score
    noise_scale: Annotated[str, DecimalText(digits=3, low=1e-30, high=1e30)]
    classes: Annotated[tuple[Label, ...], Length(2, 10_000)]
    seed: str  # the published seed

    def check(self) -> None:
        """The chosen candidate is one of them, and no two have one name."""
        if self.chosen >= len(self.candidates):
            raise Unfit(f"chosen must be below {len(self.candidates)}, got {self.chosen}")
        if len({one.name for one in self.candidates}) < len(self.candidates):
            raise Unfit("candidates must have different names, got one twice")

    @property
    def recipe(self) -> str:
        """Name of the algorithm."""
        return "choice"

    @property
    def codes(self) -> Codes:
        """The place of the chosen candidate."""
        return np.array([self.chosen])

    @property
    def name(self) -> str:
        """Name of the chosen candidate."""
        return self.candidates[self.chosen].name

    def facts(self) -> Facts:
        """What was chosen, in words."""
        rows: list[Any] = [
            Row("fingerprint", self.fingerprint),
            Row("candidates", len(self.candidates)),
            Row("scoring", self.scoring),
            Row("noise scale", self.noise_scale),
            Row("seed", self.seed),
        ]
        return Facts(f"The choice is {self.name}.", rows)
