"""The classifier: integers, and what is needed to read them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.boost_space import BoostSpace
from replearn.codes.canonical import Fingerprinted
from replearn.codes.encoding import Encoding, columns_of
from replearn.codes.net_space import NetSpace
from replearn.codes.projection import map_draws
from replearn.codes.randomness import SharedRandomness
from replearn.codes.score_space import ScoreSpace
from replearn.codes.space import CodeSpace, unit
from replearn.errors import ReplearnError
from replearn.kernels.portable import sigmoid, softmax
from replearn.kernels.scores import capped_scores, scores
from replearn.types import Codes, Drawable, Matrix, Vector, is_sparse

FORMAT = "replearn-model"
FORMAT_VERSION = 3

#: What turns codes into a classifier, for each kind of algorithm.
Space = CodeSpace | NetSpace | BoostSpace | ScoreSpace

#: Numbers that are drawn to decode a model, and features, up to which that is done unasked. A file
#: of a few hundred bytes may declare far more.
EASY_DRAWS, EASY_FEATURES = 1 << 24, 1 << 18

#: A class label as it stands in the file: JSON keeps these three apart.
Label = bool | int | str


@dataclass(frozen=True, eq=False)
class Model(Fingerprinted, Drawable):
    """A halfspace, as the integers that two labs compare.

    Two models are equal when their canonical bytes are: recipe, code space, seed, labels and
    codes. Nothing of the run (date, host, number of rows) is part of it.

    Attributes
    ----------
    recipe : str
        Name of the algorithm.
    n_features : int
    fit_intercept : bool
        A constant 1 is appended to each row.
    space : CodeSpace, NetSpace, BoostSpace or ScoreSpace
    seed : str
        The published seed.
    classes : tuple of labels
        Of two, ``decision_function(x) > 0`` is the second. None: it predicts numbers.
    codes : int64 array
    feature_names : tuple of str or None
        Kept in the file, checked at prediction; not part of the fingerprint, since a lab may
        hold the same columns without names. So a table must have its columns in this order.
    encoding : Encoding or None
        How a table of raw columns becomes the ``n_features`` numbers of a row, if a protocol
        fixed that.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> fitted.model_.codes.dtype, len(fitted.model_.fingerprint)
    (dtype('int64'), 64)
    >>> bool((fitted.model_.predict(X) == fitted.predict(X)).all())
    True
    """

    recipe: str
    n_features: int
    fit_intercept: bool
    space: Space
    seed: str
    classes: tuple[Label, ...]
    codes: Codes
    feature_names: tuple[str, ...] | None = None
    encoding: Encoding | None = None

    def __str__(self) -> str:
        """In a few lines; nothing is decoded."""
        labels = ", ".join(map(repr, self.classes[:8])) + (" ..." if self.n_classes > 8 else "")
        if isinstance(self.space, ScoreSpace) and self.is_numeric:
            labels = f"a number, {self.space.target_in_words}"
        return "\n".join(
            [
                f"Model {self.fingerprint[:16]}...: {self.recipe}",
                f"  features         {self.n_features:,}"
                + (" and an intercept" if self.fit_intercept else ""),
                f"  {'predicts' if self.is_numeric else 'labels  '}         {labels}",
                f"  codes            {self.codes.size:,}",
                f"  seed             {self.seed}",
            ]
        )

    def content(self) -> dict[str, Any]:
        """What defines the classifier, as JSON types. Reals are decimal strings."""
        return {
            "classes": list(self.classes),
            "codes": [int(code) for code in self.codes],
            "fit_intercept": self.fit_intercept,
            "format": FORMAT,
            "n_features": self.n_features,
            "recipe": self.recipe,
            "seed": self.seed,
            "space": self.space.content(),
            "version": self.format_version,
        } | ({} if self.encoding is None else {"encoding": self.encoding.content()})

    @property
    def format_version(self) -> int:
        """The oldest version of the format that can hold the model."""
        hinted = isinstance(self.space, CodeSpace) and self.space.hint_bits > 0
        if self.is_numeric or (isinstance(self.space, CodeSpace) and self.space.n_outputs > 1):
            return 3
        if isinstance(self.space, NetSpace) and self.space.basis is not None:
            return 3
        return 2 if self.has_probabilities or hinted else 1

    @property
    def shared(self) -> SharedRandomness:
        """The published coins."""
        return SharedRandomness(self.seed)

    @property
    def is_halfspace(self) -> bool:
        """Whether one direction classifies; a majority of several does not."""
        return not (isinstance(self.space, BoostSpace) and self.space.output == "majority")

    @property
    def has_probabilities(self) -> bool:
        """Whether the scores are log-odds."""
        return isinstance(self.space, ScoreSpace) and not self.space.is_numeric

    @property
    def is_numeric(self) -> bool:
        """Whether it predicts numbers; then it has no classes."""
        return isinstance(self.space, ScoreSpace) and self.space.is_numeric

    @property
    def is_large(self) -> bool:
        """Whether decoding takes more than about a second; nobody should do it unasked."""
        space = self.space
        n_draws = 0
        if isinstance(space, CodeSpace | NetSpace):
            n_draws = map_draws(space.projection, space.n_inputs, space.n_components)
        n_maps = space.n_outputs if isinstance(space, CodeSpace) else 1
        return n_maps * self.n_features > EASY_FEATURES or n_maps * n_draws > EASY_DRAWS

    @property
    def hint(self) -> int:
        """The offset or move of the grid that the first lab chose; 0 without hint bits."""
        return self.space.hint if isinstance(self.space, ScoreSpace | CodeSpace) else 0

    @cached_property
    def weights(self) -> Any:
        """Weights of the decision, intercept last; the same bits on every machine.

        Of length 1, but for log-odds, whose length means something. Of more than two classes, a row
        for each; of log-odds, the first one's are 0.
        """
        if not self.is_halfspace:
            raise AttributeError(
                "a majority of halfspaces has no direction, coef or intercept. Fit with "
                'output="halfspace".'
            )
        decoded = self.space.decode(self.codes, self.shared)
        if not isinstance(self.space, ScoreSpace):
            return unit(decoded) if decoded.ndim == 1 else np.array([unit(row) for row in decoded])
        if len(self.classes) > 2 or self.is_numeric:
            return decoded
        decoded[-1] -= float(self.space.threshold)
        return decoded

    @property
    def n_classes(self) -> int:
        """Labels that a row may get."""
        return len(self.classes)

    @property
    def direction(self) -> Vector:
        """The halfspace's normal, length 1, intercept last."""
        if self.n_classes > 2:
            raise ReplearnError(
                f"a direction is for models of two classes, got {self.n_classes}. Use predict, or "
                "the weights of one class: model.coef[i]."
            )
        return unit(self.weights) if isinstance(self.space, ScoreSpace) else self.weights

    @property
    def coef(self) -> Any:
        """Weights of the features; of more than two classes, a row for each."""
        return self.weights[..., : self.n_features]

    @property
    def intercept(self) -> Any:
        """Weight of the constant, 0 without one; of more than two classes, an array."""
        if self.n_classes > 2:
            return self.weights[:, -1] if self.fit_intercept else np.zeros(self.n_classes)
        return float(self.weights[-1]) if self.fit_intercept else 0.0

    def largest_weights(self, n_shown: int) -> list[tuple[str, float]]:
        """Names and weights of the features that count most, the largest first.

        Of more than two classes: the spread of a feature's weights over the classes.
        """
        sizes = self.coef if self.n_classes <= 2 else np.ptp(self.coef, axis=0)
        places = np.argsort(-np.abs(sizes), kind="stable")[:n_shown].tolist()
        names = self.feature_names
        return [(f"x{i}" if names is None else names[i], float(sizes[i])) for i in places]

    @cached_property
    def halfspaces(self) -> Matrix:
        """Normals of the halfspaces that vote, one in each row, intercept last.

        One row, ``direction``, unless the model is a majority.
        """
        if self.is_halfspace:
            return np.atleast_2d(self.weights)
        assert isinstance(self.space, BoostSpace)
        return self.space.voters(self.codes, self.shared)

    def decision_function(self, X: Any) -> Any:
        """Signed distance to the boundary, of each row (array, CSR, or table with columns).

        Of a majority: the mean of its votes, each +1 or -1. Of more than two classes: a column for
        each, signed distances or log-odds against the first.
        """
        scores = self.scores(self._numbers(X))
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores.reshape(len(scores), -1)).all(axis=1)))
            raise ReplearnError(f"X must be finite, got NaN or inf in row {row}. Fill or drop it.")
        return scores

    def _numbers(self, X: Any) -> Any:
        """Encoded rows; columns of a dataframe are taken by name."""
        if self.encoding is not None:
            return self.encoding.transform(X)
        found = getattr(X, "column_names", None)  # the columns of an Arrow table are its values
        found = getattr(X, "columns", None) if found is None else found
        if self.feature_names is None or found is None:
            return X
        columns = columns_of(X, list(self.feature_names))
        if (out_of_order := self.out_of_order(found)) is not None:
            raise ReplearnError(
                f"X must have its columns in the order of the model, but {out_of_order}. Pass "
                "X[list(model.feature_names)] if the names are right."
            )
        return np.column_stack([columns[name] for name in self.feature_names])

    def out_of_order(self, found: Iterable[Any]) -> str | None:
        """What is odd about the order of a table's columns, in words; None if nothing is.

        The fingerprint does not cover the names, unless they are those of an encoding: who turned
        them round in the file would change the predictions of a table that is read by name.
        """
        if self.feature_names is None or self.encoding is not None:
            return None
        wanted = set(self.feature_names)
        there = [name for name in map(str, found) if name in wanted]
        for expected, name in zip(self.feature_names, there, strict=False):
            if expected != name:
                return f"the table has {name!r} where the model has {expected!r}"
        return None

    def scores(self, X: Any) -> Any:
        """``decision_function`` of finite rows that are encoded already."""
        n_columns = np.shape(X)[1] if len(np.shape(X)) == 2 else None
        if n_columns != self.n_features:
            raise ReplearnError(
                f"X must have {self.n_features} columns, as in training, got shape {np.shape(X)}. "
                "Pass a 2-D array with the same features."
            )
        rows = X if is_sparse(X) else np.asarray(X)
        if isinstance(self.space, ScoreSpace):
            cap = float(self.space.cap)
            if self.n_classes <= 2:
                return capped_scores(rows, self.coef, self.intercept, cap)
            others = capped_scores(rows, self.coef[1:], self.intercept[1:], cap)
            return np.column_stack([np.zeros(len(others)), others])
        if self.n_classes > 2:
            by_class = zip(self.coef, self.intercept, strict=True)
            return np.column_stack([scores(rows, *halfspace) for halfspace in by_class])
        if self.is_halfspace:
            return scores(rows, self.coef, self.intercept)
        weights = self.halfspaces[:, : self.n_features]
        constants = self.halfspaces[:, -1] if self.fit_intercept else np.zeros(len(weights))
        products = [scores(rows, *voter) for voter in zip(weights, constants, strict=True)]
        votes = np.where(np.array(products) > 0, 1.0, -1.0)
        # a vote would hide that a row is not finite
        return np.where(np.isfinite(products).all(axis=0), votes.mean(axis=0), np.nan)

    def predict_proba(self, X: Any) -> Matrix:
        """Probability of each class; only models with log-odds have them."""
        return self.probabilities(self.decision_function(X))

    def probabilities(self, scores: Any) -> Matrix:
        """Probability of each class, from the decision function."""
        if not isinstance(self.space, ScoreSpace) or self.is_numeric:
            raise AttributeError(
                f"a model of the recipe {self.recipe!r} has scores and no probabilities. Plan a "
                "logistic study for those."
            )
        if self.n_classes > 2:
            return softmax(np.ascontiguousarray(scores[:, 1:]))
        positive = sigmoid(scores + float(self.space.threshold))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of each row, or the number that is predicted."""
        if self.is_numeric:
            return np.asarray(self.decision_function(X))
        return np.array(self.classes)[self.decided(self.decision_function(X))]

    def decided(self, scores: Any) -> NDArray[np.int64]:
        """Numbers of the classes that scores decide for; of equal scores the first class."""
        if self.n_classes > 2:
            return np.argmax(scores, axis=1)
        return (scores > 0).astype(np.int64)
