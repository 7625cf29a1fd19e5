"""A fitted generalised linear model: a design and its codes, which are whole numbers."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Self

import numpy as np

from replearn.codes import Model
from replearn.documents import MAX_WHOLE, Integers, Unfit
from replearn.errors import ReplearnError, short
from replearn.glm.coefficients import MOST_EFFECTS, Coefficients
from replearn.glm.design import DIRECTION_BITS, MAX_NUMBERS, GlmDesign
from replearn.glm.recalibration import (
    MOST_UNITS,
    Recalibration,
    fit_constants,
    slopes_of,
    with_constants,
)
from replearn.glm.sandwich import Estimates
from replearn.rows import Rows
from replearn.tables import Batch, numbers_of, open_table
from replearn.types import Array, Codes, Ints, Matrix, Vector
from replearn.words import Facts, Row


@dataclass(frozen=True)
class GlmModel(Model):
    """A generalised linear model, as the integers that two labs compare.

    Attributes
    ----------
    design : GlmDesign
        What labs share: columns, loss, coordinates, cells and sketch.
    codes : array of int
        One whole number for each coefficient: all that was learned.
    recalibration : Recalibration or None
        Of an updated model: its parent, and what is different from it.

    See Also
    --------
    load : reads one from a file.
    save : writes one.

    Notes
    -----
    Everything follows from codes and design: a coefficient is the middle of its cell, less the
    shift of the sketch. No float of a fit is kept, so equal codes predict equally on any
    machine.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> model = first.model_
    >>> model.codes.dtype, len(model.codes), model.term_names[:2]
    (dtype('int64'), 22, ('age', 'sex = female'))
    >>> model.predict_proba(table[:2]).shape, model.fingerprint == first.fingerprint_
    ((2, 2), True)
    >>> model
    <GlmModel: This model predicts the probability of readmitted = 1.>
    """

    KIND = "glm"
    of_study = True

    design: GlmDesign
    codes: Annotated[Codes, Integers(1, -MAX_WHOLE, MAX_WHOLE, MAX_NUMBERS)]
    # of an updated model: its parent, and what is different from it
    recalibration: Recalibration | None = None
    # codes of a lab that missed the original's cells: with the original's sketch they stand for a
    # model that nobody fitted, so nothing may predict with it
    is_mismatch: bool = field(default=False, kw_only=True, compare=False, repr=False)

    def check(self) -> None:
        """One code for each number."""
        if self.codes.size != self.design.n_numbers:
            raise Unfit(f"codes must be {self.design.n_numbers} numbers, got {self.codes.size}")
        if not np.abs(self.design.decode(self.codes)).max() < 1e9:
            raise Unfit("codes must stand for coefficients below 10^9")
        if self.design.constant == "local" and self.codes[self.design.is_constant].any():
            raise Unfit("codes must be 0 for constants that each lab fits by itself")

        # an updated model has constants of its own
        updated, n_scores = self.recalibration, self.design.loss.n_scores
        if updated is not None and updated.constants.size != n_scores:
            raise Unfit(f"constants of the recalibration must be {n_scores} numbers")

    @classmethod
    def of_original(cls, design: GlmDesign, numbers: Vector) -> "GlmModel":
        """The model of an original's numbers, in the design with their sketch."""
        # a number that labs do not agree on has the code 0, and no sketch
        published = design.cells.publish(numbers)
        codes, sketch = (np.where(design.is_agreed, part, 0) for part in published)
        if design.bits:
            design = replace(design, sketch=sketch)
        return cls(design, codes)

    @property
    def without_constants(self) -> "GlmModel":
        """The model whose codes of constants are 0: what labs of other base risks share."""
        codes = self.codes.reshape(self.design.loss.n_scores, -1).copy()
        codes[:, 0] = 0
        return GlmModel(self.design, codes.reshape(-1))

    @property
    def local_constants(self) -> Codes | None:
        """Constants of this lab, where the design leaves them to labs, in whole units of 2^-26.

        They stand beside the content, in the provenance: no part of the fingerprint.
        """
        stated = (self.provenance or {}).get("constants")
        if stated is None:
            return None

        # a file from elsewhere may state anything
        constants = np.array([])
        if isinstance(stated, list):
            constants = np.array(stated)
        is_whole = constants.dtype == np.int64 and constants.shape == (self.design.loss.n_scores,)
        if not is_whole or np.abs(constants).max() > MOST_UNITS:
            raise ReplearnError(
                f"constants beside the model must be {self.design.loss.n_scores} whole numbers, "
                f"got {short(stated)}. Get the file anew from its source."
            )
        return constants

    def with_local_constants(self, constants: Codes) -> Self:
        """The same model for a lab whose rows have these constants."""
        stated = {"constants": [int(one) for one in constants]}
        return replace(self, provenance={**(self.provenance or {}), **stated})

    def with_constants_of(self, rows: Rows) -> Self:
        """The model with constants of these rows, where its design leaves them to labs."""
        if self.design.constant is None:
            return self
        slopes = slopes_of(self.design.decode(self.codes))
        return self.with_local_constants(fit_constants(rows, self.design.loss, slopes))

    @cached_property
    def fitted_theta(self) -> Matrix:
        """Coefficients of the columns of the fit, a row for each score, the constant first."""
        self._refuse_mismatch()
        theta = self.design.decode(self.codes)
        if self.recalibration is not None:
            return self.recalibration.applied(theta)
        if self.design.constant is None:
            return theta

        # each lab has a constant of its own
        constants = self.local_constants
        if constants is None:
            raise ReplearnError(
                "the model must have a constant to predict, but its study leaves the constant to "
                "each lab, and this file has none. Fit yours: replearn update MODEL TABLE "
                "--constant."
            )
        return with_constants(theta, constants)

    def _refuse_mismatch(self) -> None:
        if self.is_mismatch:
            raise ReplearnError(
                "a replication must give the original's model to be used, but these rows did not: "
                "what their codes stand for nobody fitted. The replication says what differs; "
                "recalibrate the original's model with update, or fit one of your own."
            )

    def save(
        self, path: "str | os.PathLike[str]", private: bool = False, new: bool = False
    ) -> None:
        """Write the file, whole or not at all; refused for what nobody fitted."""
        self._refuse_mismatch()
        super().save(path, private, new)

    @cached_property
    def theta(self) -> Matrix:
        """Coefficients of the encoded terms, a row for each score, the constant first."""
        theta = self.fitted_theta
        if self.design.directions is None:
            return theta

        # from directions back to the terms that they combine
        slopes = theta[:, 1:] @ (self.design.directions * 2.0**-DIRECTION_BITS)
        return np.column_stack([theta[:, 0], slopes])

    @cached_property
    def _per_unit(self) -> tuple[Matrix, Vector]:
        """Coefficients per unit of a column, and the constants that go with them."""
        scale, centre = self.design.loss.scale
        theta = self.design.encoding.per_unit(self.theta) * scale
        return theta[:, 1:], theta[:, 0] + centre

    @property
    def coef(self) -> Matrix:
        """Coefficients, a row for each score and a column for each term.

        Those of numbers are per unit of the column, those of levels against the reference, and
        those of products per unit of both. What they and `intercept` add up to is the prediction.
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
        if self.design.loss.kind == "hazard":
            raise ReplearnError(
                "a survival model predicts the risk within a time. Use predict_risk of "
                "ReplicableSurvivalAnalysis, or replearn predict --horizon."
            )
        given = self.design.offset if offset is None else offset
        try:
            table = open_table(X, columns=self.feature_names, offset=given)
        except ReplearnError:
            if offset is not None or given is None:
                raise
            open_table(X, columns=self.feature_names)  # says what else is wrong
            raise ReplearnError(
                f"the model needs the offset column {given!r}. Add it to the table, or pass "
                "offset=."
            ) from None
        yield from table.batches()

    def scores_of(self, batch: Batch) -> Matrix:
        """Scores of some rows: log-odds, log-rates or standardised numbers."""
        eta = self.design.encoding.values(batch) @ self.theta[:, 1:].T + self.theta[:, 0]
        if batch.offset is not None:
            eta = eta + numbers_of(batch.offset)[0][:, None]
        return eta

    def scores(self, X: Any, offset: Any = None) -> Matrix:
        """Scores of all rows of a table, a column for each."""
        return np.concatenate([self.scores_of(batch) for batch in self.batches(X, offset)])

    def decision_function(self, X: Any) -> Any:
        """Log-odds of the second class, or a column for each of more classes."""
        eta = self.scores(X)
        if self.design.loss.n_scores == 1:
            return eta[:, 0]
        return np.column_stack([np.zeros(len(eta)), eta])

    def predict_proba(self, X: Any, offset: Any = None) -> Matrix:
        """Probability of each class."""
        if self.classes is None:
            raise AttributeError("a model of numbers has no probabilities. Use predict.")
        return self.design.loss.mean(self.scores(X, offset))

    def predict(self, X: Any, offset: Any = None) -> Array:
        """The most probable label of each row, or the number that is expected."""
        eta = self.scores(X, offset)
        if self.classes is None:
            return self.design.loss.mean(eta)
        return np.array(self.classes)[decided(eta)]

    @property
    def number_names(self) -> tuple[str, ...]:
        """Names of the codes."""
        return self.design.number_names

    @property
    def prediction_names(self) -> tuple[str, ...]:
        """Columns of a table of predictions."""
        return "prediction", *(f"probability of {label}" for label in self.classes or ())

    def predictions_of(self, batch: Batch) -> list[list[Any]]:
        """Lines of a table of predictions: a number, or the label and all probabilities."""
        scores = self.scores_of(batch)
        means = self.design.loss.mean(scores)
        if self.classes is None:  # numbers
            return [[value] for value in means.ravel().tolist()]

        labels = [self.classes[place] for place in decided(scores).tolist()]
        return [[label, *some] for label, some in zip(labels, means.tolist(), strict=True)]

    def facts(self) -> Facts:
        """What the model is, in words."""
        design = self.design
        if self.is_mismatch:
            return Facts(
                "No model: these rows did not give the original's.",
                [Row("fingerprint", self.fingerprint, note="of this lab's codes")],
                details=self.coefficients.own_tables(),
                figures=self.coefficients.figures(),
            )

        # what is predicted, and of the last class
        own = self.coefficients
        what = design.loss.says.format(target=design.target, last=design.score_labels[-1])
        return Facts(
            f"This {'updated ' if self.recalibration else ''}model predicts {what}.",
            [
                Row("fingerprint", self.fingerprint),
                *self._about_constants(),
                Row("columns", len(self.feature_names)),
                Row("coefficients", self.codes.size, key="n_coefficients"),
                Row("ridge", design.ridge),
                Row("seed", design.seed),
            ],
            details=[*own.tables(), *own.own_tables()],
            figures=own.figures(),
        )

    def _about_constants(self) -> list[Row]:
        """Where constants come from, if not from the codes."""
        if self.recalibration is not None:
            slopes = "the study's"
            if self.recalibration.factor != "1":
                slopes = f"{self.recalibration.factor} times the study's"
            return [
                Row("updated from", self.recalibration.parent, key="parent"),
                Row("slopes", slopes, note="constants were fitted anew"),
            ]
        if self.design.constant is None:
            return []
        stated = "none" if self.local_constants is None else "this lab's own"
        return [Row("constant", stated, note="no part of the fingerprint")]

    @property
    def coefficients(self) -> Coefficients:
        """All coefficients as readers multiply and add them, and what its lab states of its own."""
        shape = self.design.loss.n_scores, 1 + len(self.term_names)

        # estimates stand beside the content, so a file from elsewhere may state anything
        stated = Estimates.of_content((self.provenance or {}).get("estimates"), shape)
        if self.is_mismatch:
            return Coefficients(self.design, None, stated)

        # an updated model has left its cells
        cells = None if self.recalibration is not None else self.design.half_cells
        known = np.column_stack([self.intercept, self.coef])
        return Coefficients(self.design, known, stated, cells)

    def strongest_effects(self) -> list[Row]:
        """The clearest of its lab's own estimates; none where it states none."""
        if self.is_mismatch:
            return []
        return self.coefficients.strongest(MOST_EFFECTS)

    def stating(self, own: Estimates | None) -> Self:
        """The same model with a lab's own estimates beside it: no part of its fingerprint."""
        if own is None:
            return self
        return replace(self, provenance={**(self.provenance or {}), "estimates": own.content})


def decided(scores: Matrix) -> Ints:
    """Numbers of the classes that scores decide for; of equal scores the first class."""
    if scores.shape[1] == 1:
        return (scores[:, 0] > 0).astype(np.int64)
    best = scores.argmax(axis=1)
    return np.where(scores[np.arange(len(scores)), best] > 0, best + 1, 0)
