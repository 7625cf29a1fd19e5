"""A model: the whole numbers that two labs compare, and what is needed to read them.

A design is what labs share. A model is a design and its codes; the kind of its design says what
these mean. Halfspaces stand here, generalised linear models in `replearn.glm`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np

from replearn.codes.coins import Coins
from replearn.codes.nets import NetSpace
from replearn.codes.space import CodeSpace
from replearn.codes.votes import VoteSpace
from replearn.documents import MAX_WHOLE, Document, Integers, Label, Length, Part, Text, Unfit
from replearn.errors import ReplearnError
from replearn.exact import lengths, row_products, unit
from replearn.types import Array, Codes, Mask, Matrix, Vector, is_sparse
from replearn.words import Facts, Figure, Row, Spoken, forest

#: What turns codes into a direction; each has ``n_inputs``, ``check_codes`` and ``decode``.
Space = CodeSpace | NetSpace | VoteSpace

#: Codes that a file may hold.
MAX_CODES = 1 << 20

#: A score of so many lengths of its row has its sign for certain; squares of shorter rows vanish.
_SURE, _TINY = 1e-9, 1e-100

#: Rows that are scored at once.
_SCORED = 1 << 11


@dataclass(frozen=True)
class HalfspaceDesign(Part):
    """An algorithm, the columns and labels that it reads, and where its codes live."""

    recipe: str  # name of the algorithm
    target: Annotated[str, Text()]  # name of the column that is predicted
    # ``decision_function(x) > 0`` is the second
    classes: Annotated[tuple[Label, ...], Length(2, 2)]
    fit_intercept: bool  # a constant 1 is appended to each row
    space: Space
    seed: str  # the published seed
    # names of the columns, in order; absent for arrays, whose columns are x0, x1, ...
    columns: Annotated[tuple[str, ...], Length(1)] | None = None
    kind: Literal["halfspace"] = "halfspace"
    # labs have one constant in common; a halfspace gives labels, and no probabilities or numbers;
    # no column is added to its scores
    constant = loss = offset = None

    def check(self) -> None:
        """As many columns as the space has inputs."""
        if self.n_features < 1:
            raise Unfit("n_inputs must leave a feature besides the intercept, got none")
        if self.columns is not None and len(self.columns) != self.n_features:
            raise Unfit(f"columns must be {self.n_features:,} names, got {len(self.columns):,}")
        if self.columns == positions(self.n_features):
            raise Unfit("columns must be absent where they are x0, x1, ...")

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return self.space.n_inputs - self.fit_intercept

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns; x0, x1, ... of arrays."""
        return self.columns or positions(self.n_features)

    def named_as(self, other: "HalfspaceDesign") -> "HalfspaceDesign":
        """The same design with the columns and the target of a different one."""
        return replace(self, columns=other.columns, target=other.target)


def names_in_design(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """Names of columns as a design has them: None where they are those of an array."""
    if names is None:
        return None
    given = tuple(map(str, names))
    if given == positions(len(given)):  # so that arrays and their files give one design
        return None
    return given


def positions(n_columns: int) -> tuple[str, ...]:
    """What columns of arrays are called."""
    return tuple(f"x{i}" for i in range(n_columns))


class Model(Spoken, Document):
    """What two labs compare: equal if and only if all bytes are.

    Nothing of the run (date, host, number of rows) is part of it.
    """

    FORMAT = "replearn/model"

    design: Any
    codes: Codes
    #: Whether labs fit it from a study, which tells what a match proves.
    of_study = False
    #: What an updated model says of its parent.
    recalibration: Any = None

    @property
    def classes(self) -> tuple[Label, ...] | None:
        """Labels; None if the model predicts numbers."""
        return self.design.classes

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Columns that it needs."""
        return self.design.feature_names

    def strongest_effects(self) -> list[Row]:
        """The clearest of its lab's own estimates; none where it states none."""
        return []


@dataclass(frozen=True)
class HalfspaceModel(Model):
    """A halfspace, as the integers that two labs compare.

    Two models are equal when their canonical bytes are.

    Attributes
    ----------
    design : HalfspaceDesign
        What labs share: algorithm, columns, labels, space of the codes and seed.
    codes : array of int
        The whole numbers that two labs compare.

    See Also
    --------
    ReplicableSVMClassifier : its ``model_`` is one.
    load : reads one from a file.

    Notes
    -----
    Codes and coins give the vector ``w``; a row x is labelled by the sign of ``<w, x>``, with
    the length of x in place of a constant 1 where there is an intercept.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(500, 5, margin=0.4, random_state=0)
    >>> first = rl.ReplicableSVMClassifier(margin=0.4, sketch_bits=3).fit(X, y)
    >>> model = first.model_
    >>> model.codes.dtype, model.coef.shape, model.fingerprint == first.fingerprint_
    (dtype('int64'), (5,), True)
    >>> model
    <HalfspaceModel: This halfspace tells 1 from -1.>
    """

    KIND = "halfspace"

    design: HalfspaceDesign
    codes: Annotated[Codes, Integers(1, -MAX_WHOLE, MAX_WHOLE, MAX_CODES)]

    def check(self) -> None:
        """As many codes as the space has."""
        self.design.space.check_codes(self.codes)

    @property
    def n_features(self) -> int:
        """Columns of a row."""
        return self.design.n_features

    @property
    def number_names(self) -> tuple[str, ...]:
        """Names of the codes, which mix all columns."""
        return tuple(f"code {i + 1}" for i in range(self.codes.size))

    @cached_property
    def direction(self) -> Vector:
        """The halfspace's normal, length 1, intercept last; the same bits on every machine."""
        return unit(self.design.space.decode(self.codes, Coins(self.design.seed)))

    @property
    def coef(self) -> Vector:
        """Weights of the features."""
        return self.direction[: self.n_features]

    @property
    def intercept(self) -> float:
        """Weight of a row's length, 0 without one: the constant of rows of norm 1."""
        if not self.design.fit_intercept:
            return 0.0
        return float(self.direction[-1])

    def decision_function(self, X: Any) -> Vector:
        """Score of each row of an array, a CSR matrix or a table with the model's columns.

        ``<coef, x> + intercept |x|``: a row times a positive number has the same sign.
        """
        rows = self._rows(X)
        scores = row_products(rows, self.coef)
        if self.design.fit_intercept:
            scores = scores + self.intercept * lengths(rows)

        # scores show it as well as cells, and are fewer
        finite = np.isfinite(scores)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ReplearnError(f"X must be finite, got NaN or inf in row {row}. Fill or drop it.")
        return scores

    def scores_of(self, batch: Any) -> Matrix:
        """Scores of some rows of a table, in one column."""
        return self.decision_function(batch.numbers())[:, None]

    def is_positive(self, X: Any) -> Mask:
        """Whether each row has a positive score: exactly that, and several times as fast.

        A product whose bits depend on the machine decides where rounding could not turn its sign.
        """
        rows = self._rows(X)
        if is_sparse(rows):
            return self.decision_function(rows) > 0

        # some rows at a time: those in single precision are never all made longer
        positive = np.empty(rows.shape[0], dtype=bool)
        for start in range(0, positive.size, _SCORED):
            part = rows[start : start + _SCORED]
            exact = part.astype(np.float64, copy=False)
            sizes = np.sqrt(np.einsum("ij,ij->i", exact, exact))
            if not np.isfinite(sizes).all():
                return self.decision_function(rows) > 0  # it names the row that cannot be scored

            rough = exact @ self.coef + self.intercept * sizes
            here = positive[start : start + _SCORED]
            np.greater(rough, 0, out=here)
            unsure = np.flatnonzero((np.abs(rough) <= _SURE * sizes) | (sizes <= _TINY))
            if unsure.size:
                here[unsure] = self.decision_function(part[unsure]) > 0
        return positive

    def predict(self, X: Any) -> Array:
        """Label of each row."""
        return np.array(self.design.classes)[self.is_positive(X).astype(np.int64)]

    @property
    def prediction_names(self) -> tuple[str, ...]:
        """Columns of a table of predictions."""
        return "prediction", "score"

    def predictions_of(self, batch: Any) -> list[list[Any]]:
        """Lines of a table of predictions: the label and the score of each row."""
        scores = self.scores_of(batch)[:, 0]
        return [[self.design.classes[int(score > 0)], score] for score in scores.tolist()]

    def _rows(self, X: Any) -> Any:
        """Checked rows, as an array of floats or a CSR matrix."""
        if is_sparse(X):
            rows = X.tocsr()
            rows.sum_duplicates()
        else:
            columns = self._own_columns(X)
            rows = np.asarray(columns)
            if rows.dtype.kind != "f":
                rows = np.asarray(columns, dtype=np.float64)  # of the table: it knows its gaps

        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ReplearnError(
                f"X must have {self.n_features} columns, as in training, got shape {rows.shape}. "
                "Pass a 2-D array with the same features."
            )
        return rows

    def _own_columns(self, X: Any) -> Any:
        """Columns of a dataframe by their names, in whichever order it has them."""
        names = self.design.columns
        if names is None or not hasattr(X, "columns"):
            return X

        for name in names:
            if name not in list(X.columns):
                raise ReplearnError(
                    f"X must have the column {name!r}, got none of that name. Pass the columns "
                    "that the model was fitted on."
                )
        return X[list(names)]

    def facts(self) -> Facts:
        """What the model is, in words."""
        # ten columns at most: a text is no list of thousands
        order = np.argsort(-np.abs(self.coef), kind="stable")[:10]
        weights = [Row(self.feature_names[i], float(self.coef[i])) for i in order]

        other, positive = self.design.classes
        return Facts(
            f"This halfspace tells {positive} from {other}.",
            [
                Row("fingerprint", self.fingerprint),
                Row("recipe", self.design.recipe),
                Row("columns", self.n_features),
                Row("codes", self.codes.size),
                Row("seed", self.design.seed),
            ],
            details=weights,
            figures=[Figure("Weights of the columns", self._picture)],
        )

    def _picture(self) -> str:
        pairs = zip(self.feature_names, self.coef.tolist(), strict=True)
        return forest([(name, f"{w:+.3f}", w, w, w) for name, w in pairs], 0.0, "no effect")
