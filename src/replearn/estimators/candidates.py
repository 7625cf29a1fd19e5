"""Finished models of any kind, as candidates: what they predict, under which name and hash."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.choice import MAX_CANDIDATES, Candidate
from replearn.codes.encoding import as_text, columns_of
from replearn.codes.model import Model
from replearn.codes.randomness import MAX_TEXT, has_surrogates
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.onnx_model import OnnxModel
from replearn.types import IntegerArray, Matrix, Vector


@dataclass(frozen=True, eq=False)
class PredictionColumn:
    """A candidate whose predictions stand in the table.

    One column holds labels, or the probability (any score, for an AUC) of the second class. A
    tuple of columns, one for each class, holds their probabilities.
    """

    columns: Any  # str, int, or tuple of these

    def predict(self, X: Any) -> NDArray[Any]:
        """The column."""
        if isinstance(self.columns, tuple):
            raise ReplearnError(
                f"the columns {self.columns!r} hold probabilities, not labels. Name a column of "
                "labels, or score by neg_log_loss or neg_brier_score."
            )
        return _column(X, self.columns)

    def numbers(self, X: Any) -> NDArray[Any]:
        """The column, or the columns side by side, as numbers."""
        names = self.columns if isinstance(self.columns, tuple) else (self.columns,)
        try:
            table = np.column_stack([_column(X, name) for name in names]).astype(np.float64)
        except (TypeError, ValueError):
            raise ReplearnError(
                f"column {names[0]!r} must hold numbers for this scoring, got other values."
            ) from None
        return table if isinstance(self.columns, tuple) else table[:, 0]


def _column(X: Any, name: Any) -> NDArray[Any]:
    if isinstance(name, str):
        return columns_of(X, [name])[name]
    array = np.asarray(X)
    if array.ndim != 2 or not -array.shape[1] <= name < array.shape[1]:
        raise ReplearnError(f"X must have a column {name}, got shape {array.shape}.")
    return array[:, name]


@dataclass(frozen=True, eq=False)
class Contender:
    """A candidate and what it is known by."""

    model: Any  # fitted classifier, `Model`, `OnnxModel` or `PredictionColumn`
    published: Candidate
    finished: bool = True  # it came from outside; what it raises is told with its name

    @property
    def name(self) -> str:
        """Its name."""
        return self.published.name

    @property
    def classes(self) -> NDArray[Any] | None:
        """Its classes, if it knows them."""
        found = getattr(self.model, "classes_", getattr(self.model, "classes", None))
        return None if found is None else np.asarray(found)

    def has(self, method: str) -> bool:
        """Whether it can say that."""
        if isinstance(self.model, Model) and method == "predict_proba":
            return self.model.has_probabilities
        return hasattr(self.model, method)

    # --- what a scoring needs ---------------------------------------------------------------------

    def labels(self, X: Any, classes: NDArray[Any]) -> IntegerArray:
        """Numbers of the classes that it predicts; -1 for a label that is none of them."""
        predicted = np.asarray(self._call("predict", X))
        self._check_rows(predicted, X, 1)
        known = {as_text(label): place for place, label in enumerate(classes.tolist())}
        different, inverse = np.unique(_plain(predicted), return_inverse=True)
        places = [known.get(as_text(label), -1) for label in different.tolist()]
        return np.array(places, dtype=np.int64)[inverse.ravel()]

    def probabilities(self, X: Any, classes: NDArray[Any]) -> Matrix:
        """Probabilities of the classes, one column each; 0 for a class that it does not know."""
        if isinstance(self.model, PredictionColumn):
            found = self.model.numbers(X)
            table = np.column_stack([1 - found, found]) if found.ndim == 1 else found
            own: NDArray[Any] | None = classes
        else:
            if not self.has("predict_proba"):
                raise self._lacks("predict_proba", "Calibrate it (CalibratedClassifierCV)")
            table = np.asarray(self._call("predict_proba", X), dtype=np.float64)
            own = self.classes if self.classes is not None else classes
        self._check_rows(table, X, 2)
        if table.shape[1] != (0 if own is None else own.size):
            raise ReplearnError(
                f"candidate {self.name!r} must give a probability for each class, got "
                f"{table.shape[1]} columns."
            )
        if not ((table >= -1e-6) & (table <= 1 + 1e-6)).all():
            raise ReplearnError(
                f"candidate {self.name!r} must give probabilities in [0, 1], got "
                f"{float(table[~((table >= -1e-6) & (table <= 1 + 1e-6))][0])!r}."
            )
        assert own is not None
        places = {as_text(label): place for place, label in enumerate(own.tolist())}
        result = np.zeros((len(table), classes.size))
        for place, label in enumerate(classes.tolist()):
            if as_text(label) in places:
                result[:, place] = table[:, places[as_text(label)]]
        return result

    def scores(self, X: Any, classes: NDArray[Any]) -> Vector:
        """Scores that rank the second of two classes."""
        if isinstance(self.model, PredictionColumn):
            values = self.model.numbers(X)
            values = values[:, 1] if values.ndim == 2 else values
        elif self.has("decision_function"):
            values = np.asarray(self._call("decision_function", X), dtype=np.float64)
            if self.classes is not None and as_text(self.classes.tolist()[-1]) != as_text(
                classes.tolist()[1]
            ):
                values = -values
        elif self.has("predict_proba"):
            values = self.probabilities(X, classes)[:, 1]
        else:
            raise self._lacks("decision_function or predict_proba", "Score it by accuracy")
        self._check_rows(values, X, 1)
        if not np.isfinite(values).all():
            raise ReplearnError(f"candidate {self.name!r} gives scores that are NaN or inf.")
        return values

    def _call(self, method: str, X: Any) -> Any:
        if not self.finished:
            return getattr(self.model, method)(X)
        try:
            return getattr(self.model, method)(self._rows(X))
        except InvalidFile as problem:
            raise InvalidFile(f"candidate {self.name!r}: {problem}") from None
        except ReplearnError as problem:
            raise ReplearnError(f"candidate {self.name!r}: {problem}") from None
        except Exception as problem:
            words = " ".join(str(problem).split())[:200]
            raise ReplearnError(
                f"candidate {self.name!r} cannot predict these rows: {words} "
                f"({type(problem).__name__}). Is it fitted, and on these columns?"
            ) from problem

    def _rows(self, X: Any) -> Any:
        """Columns by name as the matrix that a model of replearn takes; others take them."""
        if not isinstance(X, Mapping) or not isinstance(self.model, Model):
            return X
        if self.model.encoding is not None:
            return X
        names = list(self.model.feature_names or X)
        columns = columns_of(X, names)
        return np.column_stack([columns[name] for name in names])

    def _check_rows(self, values: NDArray[Any], X: Any, n_dim: int) -> None:
        n_rows = n_rows_of(X)
        if values.ndim != n_dim or len(values) != n_rows:
            raise ReplearnError(
                f"candidate {self.name!r} must give one result for each of {n_rows:,} rows, got "
                f"shape {values.shape}."
            )

    def _lacks(self, method: str, remedy: str) -> ReplearnError:
        return ReplearnError(
            f"candidate {self.name!r} ({type(self.model).__name__}) has no {method}, which this "
            f"scoring needs. {remedy}, or leave it out."
        )


def _plain(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels that can be sorted: objects of several types become text."""
    if labels.dtype.kind != "O":
        return labels
    return np.array([str(as_text(label)) for label in labels.tolist()])


def n_rows_of(X: Any) -> int:
    """Rows of an array, a sparse matrix, a table or a mapping of columns."""
    if isinstance(X, Mapping):
        return len(next(iter(X.values())))
    shape = X.shape if hasattr(X, "shape") else np.asarray(X).shape
    if len(shape) != 2:
        raise ReplearnError(
            f"X must have rows and columns, got shape {tuple(shape)}. Reshape your data: "
            "X.reshape(1, -1) is a single row."
        )
    return int(shape[0])


# --- what a user passes -------------------------------------------------------------------------


def contenders(
    candidates: Any,
    hashes: Mapping[str, str] | None = None,
    features: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
) -> list[Contender]:
    """Read the candidates that a user passes: see `ReplicableChoiceClassifier`.

    ``features`` and ``classes`` are for ONNX files: columns of their matrix, and classes in the
    order of their probabilities.
    """
    if isinstance(candidates, Mapping):
        items: list[Any] = list(candidates.items())
    elif isinstance(candidates, str | bytes) or not isinstance(candidates, Sequence):
        raise ReplearnError(
            "candidates must be a list of models or of (name, model), or a dict from names to "
            f"models, got {candidates!r:.80}."
        )
    else:
        items = list(candidates)
    if not 1 <= len(items) <= MAX_CANDIDATES:
        raise ReplearnError(
            f"candidates must be 1 to {MAX_CANDIDATES:,} models, got {len(items):,}."
        )
    hashes = {} if hashes is None else hashes
    found = [_contender(item, place, hashes, features, classes) for place, item in enumerate(items)]
    names = [one.name for one in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ReplearnError(
            f"candidates must have different names, got {twice[0]!r} twice. Pass (name, model)."
        )
    unknown = sorted(set(hashes) - set(names))
    if unknown:
        raise ReplearnError(f"hashes has {unknown[0]!r}, which is no candidate. Check its name.")
    return found


def _contender(
    item: Any,
    place: int,
    hashes: Mapping[str, str],
    features: Sequence[str] | None,
    classes: Sequence[Any] | None,
) -> Contender:
    if isinstance(item, Contender):
        return item
    name, model = None, item
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str):
        name, model = item
    name = _name_of(model, place) if name is None else name
    if not isinstance(name, str) or not 0 < len(name) <= MAX_TEXT or has_surrogates(name):
        raise ReplearnError(f"a candidate's name must be text, got {name!r:.80}.")
    wanted = hashes.get(name)
    file = None
    if _is_onnx_path(model):
        model = OnnxModel(os.fspath(model), sha256=wanted, classes=classes, features=features)
    elif isinstance(model, str | int | np.integer | tuple) and not isinstance(model, bool):
        model = PredictionColumn(model)
    elif not hasattr(model, "predict"):
        raise ReplearnError(
            f"candidate {name!r} must be a fitted classifier, a model of replearn, the path of an "
            f"ONNX file or a column of predictions, got {model!r:.80}."
        )
    digest = wanted
    if isinstance(model, OnnxModel):
        file, digest = model.name, model.sha256
    elif (own := _fingerprint(model)) is not None:
        if wanted is not None and own != wanted.lower():
            raise ReplearnError(
                f"candidate {name!r} must have the fingerprint {wanted}, got {own}. It is not the "
                "published candidate: get it again from its source."
            )
        digest = own
    return Contender(model, Candidate(name, None if digest is None else digest.lower(), file))


def _is_onnx_path(model: Any) -> bool:
    return isinstance(model, Path) or (isinstance(model, str) and model.lower().endswith(".onnx"))


def _name_of(model: Any, place: int) -> str:
    if isinstance(model, OnnxModel):
        return model.name.removesuffix(".onnx")
    if _is_onnx_path(model):
        return Path(model).name.removesuffix(".onnx")
    if isinstance(model, str):
        return model
    if isinstance(model, int | np.integer):
        return f"column {model}"
    return f"{place + 1}: {type(model).__name__}"


def _fingerprint(model: Any) -> str | None:
    if isinstance(model, Model):
        return model.fingerprint
    found = getattr(model, "fingerprint_", None)
    return found if isinstance(found, str) else None
