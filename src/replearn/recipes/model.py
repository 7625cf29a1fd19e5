"""A fitted generalised linear model: a design and its codes, which are whole numbers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from replearn.documents import MAX_WHOLE, Document, Integers, Label, Unfit
from replearn.documents.facts import Facts, Figure, Row, Spoken, Table
from replearn.documents.pictures import forest
from replearn.errors import ReplearnError
from replearn.recipes.design import DIRECTION_BITS, MAX_NUMBERS, Design
from replearn.tables import Batch, NumberColumn, numbers_of, open_table
from replearn.types import Codes, Matrix, Vector


@dataclass(frozen=True)
class Model(Spoken, Document):
    """What two labs compare: equal if and only if all bytes are.

    Nothing of the run (date, host, number of rows) is part of it.
    """

    FORMAT = "replearn/model"

    design: Design
    codes: Annotated[Codes, Integers(1, -MAX_WHOLE, MAX_WHOLE, MAX_NUMBERS)]

    def check(self) -> None:
        """One code for each number."""
        if self.codes.size != self.design.n_numbers:
            raise Unfit(f"codes must be {self.design.n_numbers} numbers, got {self.codes.size}")
        if not np.abs(self.theta).max() < 1e9:
            raise Unfit("codes must stand for coefficients below 10^9")

    @property
    def recipe(self) -> str:
        """Name of the loss."""
        return self.design.loss.kind

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """Labels; None if the model predicts numbers."""
        return self.design.classes

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Columns that it needs."""
        return self.design.encoding.names

    @cached_property
    def theta(self) -> Matrix:
        """Coefficients of the encoded terms, a row for each score, the constant first."""
        found = self.design.decode(self.codes)
        if self.design.directions is None:
            return found
        turned = found[:, 1:] @ (self.design.directions * 2.0**-DIRECTION_BITS)
        return np.column_stack([found[:, 0], turned])

    @cached_property
    def _per_unit(self) -> tuple[Matrix, Vector]:
        """Coefficients per unit of a column, and the constants that go with them."""
        scale, centre = self.design.loss.scale
        coef, intercept = scale * self.theta[:, 1:], scale * self.theta[:, 0] + centre
        terms = self.design.encoding.terms
        for place, term in enumerate(terms):
            if term.kind == "z":
                column = self.design.encoding.columns[term.columns[0]]
                assert isinstance(column, NumberColumn)
                coef[:, place] /= float(column.spread)
                intercept -= coef[:, place] * float(column.centre)
        return coef, intercept

    @property
    def coef(self) -> Matrix:
        """Coefficients, a row for each score and a column for each term.

        Those of numbers are per unit of the column, those of levels against the reference.
        """
        return self._per_unit[0]

    @property
    def intercept(self) -> Vector:
        """Constants that go with `coef`, one for each score."""
        return self._per_unit[1]

    @property
    def term_names(self) -> tuple[str, ...]:
        """Names of the terms, in the order of `coef`."""
        return self.design.encoding.term_names

    def batches(self, X: Any, offset: Any = None) -> Iterator[Batch]:
        """Rows of a table, with the columns that the model needs."""
        named = self.design.offset if offset is None else offset
        if offset is None and named is not None:
            try:
                yield from open_table(X, columns=self.feature_names, offset=named).batches()
                return
            except ReplearnError:
                raise ReplearnError(
                    f"the model needs the offset column {named!r}. Add it to the table, or pass "
                    "offset=."
                ) from None
        yield from open_table(X, columns=self.feature_names, offset=offset).batches()

    def scores_of(self, batch: Batch) -> Matrix:
        """Scores of some rows: log-odds, log-rates or standardised numbers."""
        found = self.design.encoding.values(batch) @ self.theta[:, 1:].T + self.theta[:, 0]
        if batch.offset is not None:
            found = found + numbers_of(batch.offset)[0][:, None]
        return found

    def scores(self, X: Any, offset: Any = None) -> Matrix:
        """Scores of all rows of a table, a column for each."""
        return np.concatenate([self.scores_of(batch) for batch in self.batches(X, offset)])

    def decision_function(self, X: Any) -> Any:
        """Log-odds of the second class, or a column for each of more classes."""
        found = self.scores(X)
        if self.design.loss.n_scores == 1:
            return found[:, 0]
        return np.column_stack([np.zeros(len(found)), found])

    def predict_proba(self, X: Any, offset: Any = None) -> Matrix:
        """Probability of each class."""
        if self.classes is None:
            raise AttributeError("a model of numbers has no probabilities. Use predict.")
        return self.design.loss.mean(self.scores(X, offset))

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """The most probable label of each row, or the number that is expected."""
        found = self.scores(X, offset)
        if self.classes is None:
            return self.design.loss.mean(found)
        return np.array(self.classes)[decided(found)]

    def facts(self) -> Facts:
        """What the model is, in words."""
        design = self.design
        what = design.loss.says.format(target=design.target, last=(self.classes or ("",))[-1])
        names = [f"of {label}" for label in (self.classes or ())[1:]]
        header = ("term", *names) if len(self.theta) > 1 else ("term", "coefficient")
        rows = [("(constant)", *self.intercept.tolist())]
        seen = set()
        for term, values in zip(design.encoding.terms, self.coef.T.tolist(), strict=True):
            column = design.encoding.columns[term.columns[0]]
            if term.kind == "level" and column.name not in seen:
                seen.add(column.name)
                reference = f"{column.name} = {getattr(column, 'reference', '')}"
                rows.append((f"{reference} (reference)", *[0.0] * len(values)))
            rows.append((term.name, *values))
        if design.loss.ratio and len(self.theta) == 1:
            header = (*header, design.loss.ratio)
            ratios = [None, *(float(np.exp(min(row[1], 700.0))) for row in rows[1:])]
            rows = [(*row, value) for row, value in zip(rows, ratios, strict=True)]
        title = "Coefficients: per unit of a number, of a level against its reference"
        coefficients = Table(title, header, rows, key="coefficients")
        return Facts(
            f"This model predicts {what}.",
            [
                Row("fingerprint", self.fingerprint),
                Row("columns", len(self.feature_names)),
                Row("coefficients", self.codes.size),
                Row("ridge", design.ridge),
                Row("seed", design.seed),
            ],
            details=[coefficients],
            figures=[
                Figure(
                    "Coefficients",
                    self._picture,
                    "Numbers: for a step of one spread, which stands behind the name. Levels: "
                    "against their reference.",
                )
            ],
        )

    def _picture(self) -> str:
        """Ratios on a logarithmic scale, or coefficients."""
        ratio, encoding = self.design.loss.ratio, self.design.encoding
        scaled, marks = self.design.loss.scale[0] * self.theta[:, 1:], []
        for label, theta in zip((self.classes or ("", ""))[1:], scaled, strict=True):
            for term, value in zip(encoding.terms, theta.tolist(), strict=True):
                step = getattr(encoding.columns[term.columns[0]], "spread", "")
                name = f"{term.name} (+{step})" if term.kind == "z" else term.name
                name = f"{name}, {label}" if len(self.theta) > 1 else name
                text = f"{np.exp(min(value, 700.0)):.2f}" if ratio else f"{value:+.3g}"
                marks.append((name, text, *[value] * 3))
        return forest(marks, 0.0, f"{ratio} 1" if ratio else "no effect")


def decided(scores: Matrix) -> NDArray[np.int64]:
    """Numbers of the classes that scores decide for; of equal scores the first class."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0).astype(np.int64)
    best = scores.argmax(axis=1)
    return np.where(scores[np.arange(len(scores)), best] > 0, best + 1, 0)
