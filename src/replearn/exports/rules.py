"""The one description of a model that every export writes down.

Scores are a constant, what the terms of each column add, and what products of two terms add.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.codes import HalfspaceModel, Model
from replearn.documents import Label
from replearn.errors import ReplearnError, short
from replearn.glm import GlmModel
from replearn.tables import (
    BOOLEANS,
    MISSING,
    MISSING_WORDS,
    OTHER,
    LevelColumn,
    NumberColumn,
    Product,
    is_number_text,
    level_text,
)
from replearn.types import Codes, Matrix, Vector


@dataclass(frozen=True, eq=False)
class Rule:
    """A model in numbers.

    ``link`` is that of the loss, or "sign" of a halfspace; ``ratio`` is what the exponential of a
    coefficient is called. Terms are those of an `Encoding` with these
    columns and products; ``weights`` has a row for each and a column for each score. If the rule
    ``clips``, numbers are moved to the ends of their columns; if it ``refuses_missing``, a row with
    a missing cell has no prediction. The column ``offset`` is added to all scores, times
    ``offset_weight``, and so is ``length_weight`` times the length of the row, of all its numbers.
    Logarithms of counts end at ``largest``.
    """

    link: str
    fingerprint: str
    classes: tuple[Label, ...] | None
    columns: tuple[NumberColumn | LevelColumn, ...]
    products: tuple[Product, ...]
    weights: Matrix
    constants: Vector
    clips: bool
    refuses_missing: bool
    offset: str | None = None
    offset_weight: float = 1.0
    length_weight: float = 0.0
    largest: float = math.inf
    ratio: str = ""

    @property
    def numbers(self) -> tuple[NumberColumn, ...]:
        """The columns of numbers."""
        return tuple(column for column in self.columns if isinstance(column, NumberColumn))

    @property
    def levels(self) -> tuple[LevelColumn, ...]:
        """The columns of levels."""
        return tuple(column for column in self.columns if isinstance(column, LevelColumn))

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that a table must have."""
        own = tuple(column.name for column in self.columns)
        if self.offset is None:
            return own
        return (*own, self.offset)

    @property
    def by_position(self) -> bool:
        """Whether the columns come from an array, which had no names."""
        return not self.levels and self.names == tuple(f"x{i}" for i in range(len(self.columns)))

    def parts(self) -> Iterator[tuple[NumberColumn | LevelColumn, int, Matrix]]:
        """Each column, the number of its first term, and the weights of its terms."""
        start = 0
        for column in self.columns:
            yield column, start, self.weights[start : start + len(column.terms)]
            start += len(column.terms)

    # --- in blocks, for programs that multiply matrices -------------------------------------------

    def blocks(self) -> tuple[Matrix, Codes]:
        """Weights block by block, and for each product the places of its two terms among them.

        The blocks: numbers, hats, missing numbers, levels, the offset, products; all of each.
        """
        # 1 terms, in the order of their blocks
        first_blocks = {"z": 0, "hat": 1, "missing": 2}
        block: list[int] = []  # of each term
        for column in self.columns:
            if isinstance(column, LevelColumn):
                block += [3] * len(column.terms)
            else:
                block += [first_blocks[kind] for kind, _ in column.terms]
        order = np.argsort(block, kind="stable")

        # 2 the offset, if there is one, stands between terms and products
        n_offsets = int(self.offset is not None)
        offset = np.full((n_offsets, len(self.constants)), self.offset_weight)
        weights = [self.weights[order], offset, self.weights[len(order) :]]

        # 3 products name their terms by the old order
        new_places = np.argsort(order)
        pairs = np.array([(p.first, p.second) for p in self.products], dtype=np.int64)
        return np.concatenate(weights), new_places[pairs.reshape(-1, 2)]

    def scales(self) -> Matrix:
        """Low and high ends, centres and spreads of all numbers."""
        rows = [(c.nodes[0], c.nodes[-1], float(c.centre), float(c.spread)) for c in self.numbers]
        scales = np.array(rows).T
        if not self.clips:
            scales[:2] *= math.inf
        return scales

    def hats(self) -> tuple[Codes, Matrix]:
        """Which number each hat belongs to; and where all begin, have their tops and end."""
        owners = [place for place, c in enumerate(self.numbers) for _ in c.knots]
        nodes = [c.nodes[j : j + 3] for c in self.numbers for j in range(len(c.knots))]
        return np.array(owners, dtype=np.int64), np.array(nodes).reshape(-1, 3).T

    def indicators(self) -> list[int]:
        """Which numbers have a term that says that they are missing."""
        return [place for place, column in enumerate(self.numbers) if column.indicator]

    def level_rows(self, column: LevelColumn) -> tuple[dict[str, int], int, Matrix]:
        """Texts, as programs spell them, to rows of a table of terms; and the row of all others."""
        n_levels = len(column.terms)
        kinds = np.eye(n_levels), np.zeros((1, n_levels)), np.full((1, n_levels), np.nan)

        rows: dict[str, int] = {}
        for text, place in level_places(column).items():
            spellings = [*BOOLEANS.get(text, (text,))]
            if is_number_text(text):
                spellings.append(repr(float(text)))  # 1.0 for 1
            rows |= dict.fromkeys(spellings, place % (n_levels + 1))  # -1, the reference, has zeros

        other, missing = (column.places[text] % (n_levels + 1) for text in (OTHER, MISSING))
        if self.refuses_missing:
            missing = n_levels + 1
        return rows | dict.fromkeys(MISSING_WORDS, missing), other, np.vstack(kinds)


def level_places(column: LevelColumn) -> dict[str, int]:
    """The place of each level that a cell can have; -1 for the reference."""
    can_be = (text for text in column.places if level_text(text) == text not in MISSING_WORDS)
    return {text: column.places[text] for text in can_be}


def rule_of(source: Any, as_table: bool = False) -> Rule:
    """The rule of a model, or of a fitted estimator; for programs, or as a table of lines."""
    model = getattr(source, "model_", source)
    if not isinstance(model, Model):
        raise ReplearnError(
            "an export needs a model or a fitted estimator of replearn, got "
            f"{type(source).__name__}. Call fit first, or load a model file."
        )
    rule = _RULES[model.design.kind](model, as_table)

    # what some program could not spell
    levels = (text for column in rule.levels for text in level_places(column))
    for text in map(str, (*rule.names, *(rule.classes or ()), *levels)):
        if not text or "\0" in text:  # half of a character cannot be in a file
            raise ReplearnError(
                "names, labels and levels must have characters, and no NUL among them, got "
                f"{short(text)}. Rename it."
            )
    if len(set(rule.names)) < len(rule.names):
        raise ReplearnError("names of columns must be different for an export. Rename them.")
    return rule


#: Columns of an export, at most: a file of 300 bytes may name millions, and each is a line.
MOST_EXPORTED = 1 << 16


def _of_halfspace(model: HalfspaceModel, as_table: bool) -> Rule:
    if model.n_features > MOST_EXPORTED:
        raise ReplearnError(
            f"an export has at most {MOST_EXPORTED:,} columns, got {model.n_features:,}. Use "
            "replearn predict, or the estimator's predict, which need no file for them."
        )
    columns = tuple(NumberColumn(name, "0", "1") for name in model.feature_names)
    return Rule(
        link="sign",
        fingerprint=model.fingerprint,
        classes=model.classes,
        columns=columns,
        products=(),
        weights=model.coef[:, None],
        constants=np.zeros(1),
        clips=False,
        refuses_missing=True,
        length_weight=model.intercept,
    )


def _of_glm(model: GlmModel, as_table: bool) -> Rule:
    encoding, loss = model.design.encoding, model.design.loss
    if loss.kind == "hazard" and not as_table:
        raise ReplearnError(
            "a survival model can be exported as a table only, since a prediction is about a time. "
            "Name a file that ends in .csv."
        )

    # in the unit of the target, and of products that are not shrunk
    scale, centre = loss.scale
    weights = model.theta[:, 1:].T * scale
    for place, product in enumerate(encoding.products, encoding.n_terms - len(encoding.products)):
        weights[place] /= 2 ** encoding.shrinkage(product)
    return Rule(
        link=loss.link,
        fingerprint=model.fingerprint,
        classes=model.classes,
        columns=encoding.columns,
        products=encoding.products,
        weights=weights,
        constants=model.theta[:, 0] * scale + centre,
        clips=True,
        refuses_missing=encoding.missing == "refuse",
        offset=model.design.offset,
        offset_weight=scale,
        largest=loss.largest,
        ratio=loss.ratio,
    )


#: By the kind of a model's design.
_RULES: dict[str, Callable[[Any, bool], Rule]] = {"glm": _of_glm, "halfspace": _of_halfspace}
