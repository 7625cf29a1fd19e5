"""A finished choice: which of the published candidates, and what they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from replearn.codes.canonical import Fingerprinted, canonical_json
from replearn.codes.model import Label

FORMAT = "replearn-choice"
FORMAT_VERSION = 1

#: More would need a table of ties with more than a million entries.
MAX_CANDIDATES = 1000


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
class Choice(Fingerprinted):
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

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> y = np.arange(400) % 2
    >>> predictions = np.column_stack([y, 1 - y])  # a right model, and a wrong one
    >>> chosen = rl.ReplicableChoiceClassifier([0, 1]).fit(predictions, y)
    >>> chosen.choice_.index, chosen.choice_.name
    (0, 'column 0')
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

    def __str__(self) -> str:
        return (
            f"{self.name!r}, number {self.index + 1} of {len(self.candidates)} candidates, by "
            f"{self.scoring['name']}"
        )


def choice_differences(first: Choice, second: Choice) -> tuple[str, ...]:
    """Sentences about what differs between two choices; empty if they are the same."""
    left, right = first.content(), second.content()
    found = []
    if left["candidates"] != right["candidates"]:
        found.append(_candidates_sentence(first.candidates, second.candidates))
    for name in ("classes", "features", "scoring", "seed"):
        if canonical_json(left[name]) != canonical_json(right[name]):
            found.append(f"{name} is {left[name]!r:.60} and {right[name]!r:.60}")
    if first.index != second.index or (found and first.chosen != second.chosen):
        found.append(f"{first.name!r} and {second.name!r} were chosen")
    return tuple(found)


def _candidates_sentence(first: tuple[Candidate, ...], second: tuple[Candidate, ...]) -> str:
    if len(first) != len(second):
        return f"there are {len(first)} and {len(second)} candidates"
    for place, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        if one.name != other.name:
            return f"candidate {place} is {one.name!r:.60} and {other.name!r:.60}"
        if one.sha256 != other.sha256:
            return f"candidate {one.name!r:.60} has another hash"
        if one.file != other.file:
            return f"candidate {one.name!r:.60} stands in files of different names"
    return "the candidates differ"
