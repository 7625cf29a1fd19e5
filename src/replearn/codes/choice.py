"""A finished choice: which of the published candidates, and what they are."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from replearn.codes.model import Label, canonical_json

FORMAT = "replearn-choice"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Candidate:
    """One of the models that a study chooses among.

    Attributes
    ----------
    name : str
    sha256 : str or None
        Published hash of its file, or of its codes; None: known by its name alone.
    file : str or None
        Name of its file, without a folder.
    """

    name: str
    sha256: str | None = None
    file: str | None = None

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {"file": self.file, "name": self.name, "sha256": self.sha256}


@dataclass(frozen=True, eq=False)
class Choice:
    """Which of several finished models a site has chosen.

    Two choices are equal when their canonical bytes are. Nothing of the run is part of them: no
    scores, no number of rows, and no noise scale either, which may come from the rows.

    Attributes
    ----------
    candidates : tuple of Candidate
        In their published order.
    index : int
        The chosen one.
    scoring : mapping
        How they were scored, as JSON types.
    classes : tuple of labels
    seed : str
        The published seed.
    features : tuple of str or None
        Columns of a table, in the order in which candidates take them as one matrix.
    """

    candidates: tuple[Candidate, ...]
    index: int
    scoring: Mapping[str, Any]
    classes: tuple[Label, ...]
    seed: str
    features: tuple[str, ...] | None = None

    @property
    def chosen(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.index]

    @property
    def name(self) -> str:
        """Its name."""
        return self.chosen.name

    def content(self) -> dict[str, Any]:
        """What defines the choice, as JSON types."""
        return {
            "candidates": [candidate.content() for candidate in self.candidates],
            "classes": list(self.classes),
            "features": None if self.features is None else list(self.features),
            "format": FORMAT,
            "index": self.index,
            "scoring": dict(self.scoring),
            "seed": self.seed,
            "version": FORMAT_VERSION,
        }

    def canonical_bytes(self) -> bytes:
        """Canonical JSON (RFC 8785) of the content; the fingerprint is its SHA-256."""
        return canonical_json(self.content())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical bytes, in hex: equal if and only if the choices are."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Choice) and self.canonical_bytes() == other.canonical_bytes()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __str__(self) -> str:
        return (
            f"{self.name!r}, number {self.index + 1} of {len(self.candidates)} candidates, by "
            f"{self.scoring['name']}"
        )
