"""The design of a study: all that turns rows into codes, and codes into a model.

A design is what labs share. A model is a design and its codes.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np

from replearn.codes import Cells, Coins
from replearn.documents import Integers, Label, Length, Part, Positive3, Range, Text, Unfit
from replearn.glm.coordinates import Coordinates
from replearn.glm.losses import Loss
from replearn.tables import Encoding
from replearn.types import Codes, Mask, Matrix

#: Coded numbers of a model, at most.
MAX_NUMBERS = 1 << 14
#: Entries of published directions are whole numbers of units of 2^-12.
DIRECTION_BITS = 12


@dataclass(frozen=True)
class GlmDesign(Part):
    """Encoding, loss, coordinates, cells and sketch of a generalised linear model."""

    target: Annotated[str, Text()]  # name of the column that is predicted
    encoding: Encoding  # how a row of a table becomes whole numbers
    loss: Loss
    ridge: Positive3  # per row, on the mean loss
    coordinates: Coordinates  # in which coefficients are rounded
    # of the cells, one for each coordinate
    widths: Annotated[tuple[Positive3, ...], Length(1, MAX_NUMBERS)]
    bits: Annotated[int, Range(0, 8)]  # published about each coordinate; 0: nobody is first
    seed: Annotated[str, Text()]  # of the shared coins
    # of two, the second is the one whose probability is modelled
    classes: Annotated[tuple[Label, ...], Length(2, 100)] | None = None
    # one for each class
    class_weight: Annotated[tuple[Positive3, ...], Length(2, 100)] | None = None
    # names of columns
    weights: Annotated[str, Text()] | None = None
    offset: Annotated[str, Text()] | None = None
    # a registered study fits only these combinations of encoded numbers
    directions: Annotated[Codes, Integers(2, -(1 << 13), 1 << 13, 1 << 20)] | None = None
    # absent if there are no bits
    sketch: Annotated[Codes, Integers(1, 0, 255, MAX_NUMBERS)] | None = None
    # constants are no part of the model that labs agree on: each fits its own. Absent if shared
    constant: Literal["local"] | None = None
    kind: Literal["glm"] = "glm"

    def check(self) -> None:
        """The parts must fit together."""
        # classes are those of the loss
        n_classes = 0
        if self.loss.by_class:
            n_classes = self.loss.n_scores + 1
        if len(self.classes or ()) != n_classes:
            raise Unfit(f"classes must be those of the loss, got {len(self.classes or ())}")
        if self.class_weight is not None and len(self.class_weight) != len(self.classes or ()):
            raise Unfit("class_weight must have one number for each class")

        # coordinates are those of the fitted columns
        n_terms = self.encoding.n_terms
        if self.directions is not None:
            if self.directions.shape[1] != n_terms:
                raise Unfit(f"directions must have {n_terms} numbers each")
            n_terms = len(self.directions)
        if self.coordinates.n_columns != n_terms + 1:
            raise Unfit(f"coordinates must have {n_terms + 1} columns")
        if len(self.coordinates.scores) != self.loss.n_scores:
            raise Unfit(f"coordinates must have {self.loss.n_scores} scores")

        # cells and sketch have one number for each coordinate
        if len(self.widths) != self.n_numbers:
            raise Unfit(f"widths must be {self.n_numbers} numbers, got {len(self.widths)}")
        if (self.sketch is None) != (self.bits == 0):
            raise Unfit("a sketch must be there if and only if bits are published")
        if self.sketch is not None and not (
            self.sketch.size == self.n_numbers and self.sketch.max() < 1 << self.bits
        ):
            raise Unfit(f"the sketch must be {self.n_numbers} numbers of {self.bits} bits")
        if self.constant == "local" and self.published[self.is_constant].any():
            raise Unfit("the sketch must be 0 for constants that each lab fits by itself")

    @property
    def recipe(self) -> str:
        """Which regression it is, in the word of its estimator."""
        return self.loss.recipe

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Columns that a model needs."""
        return self.encoding.names

    def named_as(self, other: object) -> "GlmDesign":
        """The design itself: its columns have encodings, and cannot be called differently."""
        return self

    @property
    def score_labels(self) -> tuple[Label, ...]:
        """What each score is called: all classes but the first; nothing where it is a number's."""
        return (self.classes or ("", ""))[1:]

    @property
    def n_numbers(self) -> int:
        """Coded numbers."""
        return self.loss.n_scores * self.coordinates.n_columns

    @property
    def is_constant(self) -> Mask:
        """Which of the coded numbers are constants."""
        return np.arange(self.n_numbers) % self.coordinates.n_columns == 0

    @property
    def is_agreed(self) -> Mask:
        """Which of the coded numbers labs agree on: all, or all but the constants."""
        if self.constant == "local":
            return ~self.is_constant
        return np.ones(self.n_numbers, dtype=bool)

    @property
    def number_names(self) -> tuple[str, ...]:
        """Names of the coded numbers: the term, and the class where there are several scores."""
        terms = self.encoding.term_names
        if self.directions is not None:
            terms = tuple(f"direction {i + 1}" for i in range(len(self.directions)))
        named = ("(constant)", *terms)
        if self.loss.n_scores == 1:
            return named
        return tuple(f"{term}, {label}" for label in self.score_labels for term in named)

    @cached_property
    def cells(self) -> Cells:
        """The cells, shifted by the shared coins."""
        widths = np.array(self.widths, dtype=np.float64)
        return Cells.drawn(widths, self.bits, Coins(self.seed))

    @property
    def published(self) -> Codes:
        """The sketch; zeros where nothing is published."""
        if self.sketch is None:
            return np.zeros(self.n_numbers, dtype=np.int64)
        return self.sketch

    def codes(self, theta: Matrix) -> Codes:
        """Codes of a lab's fit, in whole units of 2^-26; those of local constants are 0."""
        codes = self.cells.replicate(self.coordinates.of_theta(theta), self.published)
        return np.where(self.is_agreed, codes, 0)

    @property
    def half_cells(self) -> Matrix | None:
        """How far a coefficient may be from the model's inside its cell, per unit.

        Those behind it being the model's; None where terms are combinations of columns.
        """
        if self.directions is not None:
            return None
        scores, columns = self.coordinates.factors()
        widths = np.array(self.widths, dtype=np.float64).reshape(len(scores), -1)
        units = np.diagonal(self.encoding.per_unit(np.eye(len(columns)))) * self.loss.scale[0]
        return 0.5 * widths * units / np.outer(np.diagonal(scores), np.diagonal(columns))

    def decode(self, codes: Codes) -> Matrix:
        """Coefficients that codes stand for, a row for each score, the constant first."""
        return self.coordinates.to_theta(self.cells.decode(codes, self.published))
