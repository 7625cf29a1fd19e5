"""The one description of a model that every export writes down.

Scores are a constant, what each column adds, and what products of two terms add. Weights are arrays
with a number for each score.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from replearn.codes.model import HalfspaceModel
from replearn.documents import Label
from replearn.errors import ReplearnError, short
from replearn.exact.elementary import LN2_HI
from replearn.losses import Gaussian, Poisson
from replearn.recipes.model import Model
from replearn.tables import MISSING, OTHER, NumberColumn
from replearn.tables.cells import MISSING_WORDS, is_number_text, level_text
from replearn.types import Codes, Matrix, Vector

#: How booleans may be spelled.
BOOLEANS = {"true": ("true", "True", "TRUE"), "false": ("false", "False", "FALSE")}

#: A term that is multiplied: the place of a column, and the place of a level, of a number None.
Factor = tuple[int, int | None]


@dataclass(frozen=True, eq=False)
class Number:
    """A column of numbers.

    A number x is moved into ``nodes[0]`` to ``nodes[-1]`` and adds ``weights * (x - centre) /
    spread``. It adds ``heights[j]`` times a hat: 1 at ``nodes[j + 1]``, 0 from both neighbours on,
    linear between. A missing number counts as the centre, and adds ``missing``.
    """

    name: str
    centre: float
    spread: float
    nodes: tuple[float, ...]
    weights: Vector
    heights: Matrix
    missing: Vector | None


@dataclass(frozen=True, eq=False)
class Levels:
    """A column of levels: ``levels[i]`` adds ``weights[i]``, the reference nothing.

    All levels that are not named count as "(other)", missing cells as "(missing)"; where that is
    not among the levels, as "(other)"; and where that is not, as the reference.
    """

    name: str
    levels: tuple[str, ...]
    reference: str
    weights: Matrix

    @cached_property
    def places(self) -> dict[str, int | None]:
        """The place of each level that a cell can have, and of the reference: None."""
        found: dict[str, int | None] = {self.reference: None}
        found |= {level: place for place, level in enumerate(self.levels)}
        can_be = (text for text in found if level_text(text) == text not in MISSING_WORDS)
        return {text: found[text] for text in can_be}

    @property
    def other(self) -> int | None:
        """The place of all levels that are not named."""
        return self.places.get(OTHER)

    @property
    def missing(self) -> int | None:
        """The place of missing cells."""
        return self.places.get(MISSING, self.other)


@dataclass(frozen=True, eq=False)
class Rule:
    """A model as columns, products of two factors with their weights, and constants.

    ``kind`` is that of the loss, or "halfspace". The column ``offset`` is added to all scores,
    times ``offset_weight``. Logarithms of counts end at ``largest``.
    """

    kind: str
    fingerprint: str
    classes: tuple[Label, ...] | None
    columns: tuple[Number | Levels, ...]
    constants: Vector
    refuses_missing: bool
    products: Mapping[tuple[Factor, Factor], Vector] = field(default_factory=dict)
    offset: str | None = None
    offset_weight: float = 1.0
    largest: float = math.inf

    @cached_property
    def numbers(self) -> tuple[Number, ...]:
        """The columns of numbers."""
        return tuple(column for column in self.columns if isinstance(column, Number))

    @cached_property
    def levels(self) -> tuple[Levels, ...]:
        """The columns of levels."""
        return tuple(column for column in self.columns if isinstance(column, Levels))

    @property
    def names(self) -> tuple[str, ...]:
        """All columns that a table must have."""
        own = tuple(column.name for column in self.columns)
        return own if self.offset is None else (*own, self.offset)

    @property
    def by_position(self) -> bool:
        """Whether the columns come from an array, which had no names."""
        return not self.levels and self.names == tuple(f"x{i}" for i in range(len(self.numbers)))

    # --- in blocks, for programs that multiply matrices -------------------------------------------

    def weights(self) -> Matrix:
        """A row for each number, hat, missing number, level, the offset and each product."""
        blocks = [
            *(column.weights[None] for column in self.numbers),
            *(column.heights for column in self.numbers),
            *(column.missing[None] for column in self.numbers if column.missing is not None),
            *(column.weights for column in self.levels),
        ]
        if self.offset is not None:
            blocks.append(np.full((1, len(self.constants)), self.offset_weight))
        return np.concatenate([*blocks, *(weights[None] for weights in self.products.values())])

    def scales(self) -> Matrix:
        """Low and high ends, centres and spreads of all numbers."""
        return np.array([(c.nodes[0], c.nodes[-1], c.centre, c.spread) for c in self.numbers]).T

    def hats(self) -> tuple[Codes, Matrix]:
        """Which number each hat belongs to; and where all begin, have their tops and end."""
        owners = [place for place, c in enumerate(self.numbers) for _ in c.heights]
        nodes = [c.nodes[j : j + 3] for c in self.numbers for j in range(len(c.heights))]
        return np.array(owners, dtype=np.int64), np.array(nodes).reshape(-1, 3).T

    def indicators(self) -> list[int]:
        """Which numbers have a term that says that they are missing."""
        return [place for place, c in enumerate(self.numbers) if c.missing is not None]

    def factors(self) -> Codes:
        """The rows of `weights` whose terms are multiplied, two for each product."""
        first, next_number = [], 0
        next_level = len(self.numbers) + len(self.hats()[0]) + len(self.indicators())
        for column in self.columns:
            if isinstance(column, Number):
                first.append(next_number)
                next_number += 1
            else:
                first.append(next_level)
                next_level += len(column.levels)
        pairs = [[first[c] + (level or 0) for c, level in pair] for pair in self.products]
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    def level_rows(self, column: Levels) -> tuple[dict[str, int], Matrix]:
        """Texts, as programs spell them, to rows of a table of terms; the last is of all others."""
        n_levels = len(column.levels)
        table = np.zeros((n_levels + 3, n_levels))  # levels, the reference, missing, others
        table[:n_levels] = np.eye(n_levels)
        for row, place in ((n_levels + 1, column.missing), (n_levels + 2, column.other)):
            if place is not None:
                table[row, place] = 1.0
        if self.refuses_missing:
            table[n_levels + 1] = np.nan
        rows = {}
        for text, place in column.places.items():
            also = (repr(float(text)),) if is_number_text(text) else ()  # 1.0 for 1
            for spelling in (*BOOLEANS.get(text, (text,)), *also):
                rows[spelling] = n_levels if place is None else place
        return rows | dict.fromkeys(MISSING_WORDS, n_levels + 1), table


def rule_of(source: Any) -> Rule:
    """The rule of a model, or of a fitted estimator."""
    model = getattr(source, "model_", source)
    if not isinstance(model, HalfspaceModel | Model):
        raise ReplearnError(
            "an export needs a model or a fitted estimator of replearn, got "
            f"{type(source).__name__}. Call fit first, or load a model file."
        )
    rule = _of_glm(model) if isinstance(model, Model) else _of_halfspace(model)
    labels = [label for label in rule.classes or () if isinstance(label, str)]
    for text in (*rule.names, *labels, *(text for column in rule.levels for text in column.places)):
        if not text or "\0" in text:  # half of a character cannot be in a file
            raise ReplearnError(
                "names, labels and levels must have characters, and no NUL among them, got "
                f"{short(text)}. Rename it."
            )
    if len(set(rule.names)) < len(rule.names):
        raise ReplearnError("names of columns must be different for an export. Rename them.")
    return rule


def _of_halfspace(model: HalfspaceModel) -> Rule:
    ends, nothing = (-math.inf, math.inf), np.zeros((0, 1))
    columns = tuple(
        Number(name, 0.0, 1.0, ends, np.array([weight]), nothing, None)
        for name, weight in zip(model.feature_names, model.coef.tolist(), strict=True)
    )
    constants = np.array([model.intercept])
    return Rule("halfspace", model.fingerprint, model.classes, columns, constants, True)


def _of_glm(model: Model) -> Rule:
    encoding, loss = model.design.encoding, model.design.loss
    scale, centre = 1.0, 0.0
    if isinstance(loss, Gaussian):
        scale, centre = float(loss.spread), float(loss.centre)
    weights = model.theta[:, 1:].T * scale
    columns: list[Number | Levels] = []
    factors: list[Factor] = []  # of each term that is no product
    for place, column in enumerate(encoding.columns):
        own = weights[len(factors) : len(factors) + column.n_terms]
        if isinstance(column, NumberColumn):
            scales = float(column.centre), float(column.spread), tuple(column.nodes.tolist())
            missing = own[-1] if column.indicator else None
            heights = own[1 : 1 + len(column.knots)]
            columns.append(Number(column.name, *scales, own[0], heights, missing))
            factors += [(place, None)] * len(own)
        else:
            columns.append(Levels(column.name, column.levels, column.reference, own))
            factors += [(place, level) for level in range(len(own))]
    products: dict[tuple[Factor, Factor], Vector] = {}
    for product, own in zip(encoding.products, weights[len(factors) :], strict=True):
        pair = factors[product.first], factors[product.second]
        share = 0.25 if pair[0][1] is None and pair[1][1] is None else 1.0
        products[pair] = products.get(pair, 0.0) + own * share
    return Rule(
        loss.kind,
        model.fingerprint,
        model.classes,
        tuple(columns),
        model.theta[:, 0] * scale + centre,
        encoding.missing == "refuse",
        products,
        model.design.offset,
        scale,
        loss.cap_bits * LN2_HI if isinstance(loss, Poisson) else math.inf,
    )
