"""What opens a study: the original's model, and the nonce of a sealed one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from replearn.documents import Document, Sha256, Text, document_of
from replearn.errors import ReplearnError, short
from replearn.glm import GlmModel
from replearn.study.study import GlmStudy
from replearn.words import Facts, Row, Spoken


@dataclass(frozen=True)
class Opening(Spoken, Document):
    """What opens a sealed study: the original keeps it, and sends it when all labs are done.

    From the fingerprints of study and model and the nonce the study's commitment follows.
    """

    FORMAT = "replearn/opening"

    study: Sha256
    model: Sha256
    nonce: Annotated[str, Text(64, r"[0-9a-f]{32}")]

    def facts(self) -> Facts:
        """What it opens, in words."""
        return Facts(
            "This opens a sealed study. Keep it private until all labs have sent fingerprints.",
            [
                Row("study", self.study),
                Row("the original's model", self.model),
                "Labs pass it with --opened: then they see whether their models are the same.",
            ],
        )


class Opened(NamedTuple):
    """What a lab knows of an original: its model, and the nonce of a sealed study."""

    model: GlmModel | None = None
    nonce: str | None = None


def opened_by(study: GlmStudy, given: Any) -> Opened:
    """The original's model and the nonce, as far as they are given.

    ``given`` is a file, a model, an opening, a fitted estimator, or a sequence of them.
    """
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    model, nonce = None, None
    for one in several:
        if one is None:
            continue
        # an estimator gives its model, and a path names its file
        where, part = "the opening", getattr(one, "model_", one)
        if isinstance(one, str | os.PathLike):
            where, part = os.fspath(one), document_of(one, (GlmModel, Opening))

        # whichever of the two it is
        if isinstance(part, Opening):
            _check_opening(part, study, where)
            nonce = part.nonce
        elif isinstance(part, GlmModel):
            model = part
        else:
            raise ReplearnError(
                f"opened must be files, models, openings or fitted estimators, got {short(one)}."
            )
    return Opened(model, nonce)


def _check_opening(opening: Opening, study: GlmStudy, where: str) -> None:
    """Refuse what opens nothing: a wrong nonce would call every model a different one."""
    if opening.study != study.fingerprint:
        raise ReplearnError(f"{where} opens a different study. Ask the original for this.")
    if study.commits_to(opening.model, opening.nonce) is False:
        raise ReplearnError(
            f"{where} must hold the nonce and the model that the study commits to, got others. "
            "Ask the original for its opening."
        )
