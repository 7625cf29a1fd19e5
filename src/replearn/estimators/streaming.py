"""What classifiers share that follow a stream: labels, and models that are made on demand."""

import os
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import Seen
from replearn.errors import InvalidFile, NoModel, NoModelYet, NotEnoughSamples, ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.estimators.checks import refuse_unwritable
from replearn.files.statefile import Arrays, StateFile, read_state, write_state
from replearn.sources.labels import Labels, label_values

#: What a stream is asked for when it is needed, because making it after each piece would be slow.
_ON_DEMAND = ("plan_", "model_", "residual_", "certificate_", "signal_", "untested_")
_READ_OFF_THE_MODEL = ("coef_", "intercept_", "fingerprint_", "hint_")


class Streaming(ReplicableClassifier):
    """A classifier with ``partial_fit``, whose state is ``_stream``. Not for direct use."""

    _stream: Any

    #: Kind of its files, and the key under which they say what else a stream depends on.
    _state_kind: ClassVar[str]
    _state_key: ClassVar[str]

    def _make_model(self) -> None:
        """Make a model of the stream so far."""
        raise NotImplementedError

    def _state(self) -> tuple[Any, Arrays]:
        """What ``_stream`` depends on, besides rows and labels, as JSON types, and its arrays."""
        raise NotImplementedError

    def _read_stream(self, state: StateFile, n_features: int) -> Any:
        """The stream of a file, which must have been made with this estimator's parameters."""
        raise NotImplementedError

    def save_state(self, path: str | os.PathLike[str]) -> None:
        """Write the stream to a file, to resume it later or elsewhere with `load_state`.

        Parameters
        ----------
        path : path
            An npz file: arrays, and a JSON text with the labels, the columns and what else
            the stream depends on. Written beside and renamed: who kills the process finds the old
            file or the new one. No pickle.
        """
        if self.__dict__.get("_stream") is None:
            raise ReplearnError("there is no stream to save. Call partial_fit first.")
        names = getattr(self, "feature_names_in_", None)
        about = {
            "classes": self.classes_.tolist(),
            "classes_kind": self.classes_.dtype.kind,
            "encoding": self.agreed.content()["encoding"],
            "feature_names": None if names is None else [str(name) for name in names],
            "n_features": self.n_features_in_,
        }
        if "seen_" in self.__dict__:
            seen = self.seen_
            about["seen"] = [seen.n_rows, list(seen.missing), list(seen.unknown)]
        depends, arrays = self._state()
        content = {"estimator": about, self._state_key: depends}
        write_state(path, self._state_kind, content, arrays)

    def load_state(self, path: str | os.PathLike[str]) -> Self:
        """Resume a stream from a file that `save_state` wrote.

        Parameters
        ----------
        path : path

        Returns
        -------
        self
            ``partial_fit`` goes on where the saved stream was.

        Raises
        ------
        InvalidFile
            If the file is not a whole, consistent state, or belongs to other parameters.
        """
        self.check_parameters()
        state = self._header(path)
        about = state.about["estimator"]
        encoding = self.agreed.encoding
        n_columns = None if encoding is None else len(encoding.columns)
        if problem := _problem(about, self._many_classes, n_columns):
            raise state.unfit(problem)
        kind = object if about["classes_kind"] == "O" else None
        classes = np.array(about["classes"], dtype=kind)
        refuse_unwritable(label_values(classes), about["feature_names"])
        if about["encoding"] != self.agreed.content()["encoding"]:
            raise InvalidFile(
                f"{path} was saved with another encoding of the columns. Resume with the "
                "protocol that the stream was started with."
            )
        n_features, self.classes_ = about["n_features"], classes
        self._stream = self._read_stream(state, n_features)
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        if about["feature_names"] is not None:
            self.feature_names_in_ = np.array(about["feature_names"], dtype=object)
        if n_columns is not None:
            n_rows, missing, unknown = about.get("seen", (0, (0,) * n_columns, (0,) * n_columns))
            self.seen_ = Seen(n_rows, tuple(missing), tuple(unknown))
        self._forget()
        return self

    def _header(self, path: str | os.PathLike[str]) -> StateFile:
        """The JSON part of a state file."""
        return read_state(path, self._state_kind).expecting({"estimator", self._state_key})

    def __getattr__(self, name: str) -> Any:
        # called only for what is not there: what a stream makes on demand, or nothing
        if "_stream" in self.__dict__ and name in (*_ON_DEMAND, *_READ_OFF_THE_MODEL):
            try:
                self._make_model()
            except NotEnoughSamples as problem:
                raise NoModelYet(*problem.__reduce__()[1]) from None
            except ReplearnError as problem:
                raise NoModel(str(problem)) from None
            return getattr(self, name)
        raise AttributeError(f"{type(self).__name__} has no {name}. Call fit or partial_fit first.")

    def _forget(self) -> None:
        """Drop what was made of fewer rows."""
        for name in _ON_DEMAND:
            self.__dict__.pop(name, None)

    def _fit(self, sample: Any, spaced: bool = False) -> Self:
        super()._fit(sample, spaced)
        self.__dict__.pop("_stream", None)
        return self

    def _next_rows(self, X: Any, y: Any, classes: Any) -> tuple[Any, NDArray[Any], NDArray[Any]]:
        """Checked rows of the next piece, the labels of the stream, and the rows' targets."""
        self.check_parameters()
        first = self.__dict__.get("_stream") is None
        X, y = self._check_rows(X, y, reset=first)
        labels = self.labels()
        if classes is not None:
            named = self.labels("classes")
            named.take(np.unique(np.asarray(classes)))
            named.require_both()
            if not first and named.classes.tolist() != self.classes_.tolist():
                raise ReplearnError(
                    f"classes must stay the same in all calls, got {named.classes.tolist()} after "
                    f"{self.classes_.tolist()}. Leave them out, or start anew with a clone."
                )
        if classes is not None or not first:
            remedy = "Recode the labels, or pass both as classes=[...] in the first call."
            known = self.classes_ if not first else named.classes
            many = self._many_classes
            labels = Labels("y", known, whose="this stream", remedy=remedy, many=many)
        taken = labels.take(y)
        if not labels.complete:
            raise ReplearnError(
                f"a stream must have two classes, got {np.unique(y).tolist()}. If the first rows "
                "have only one, pass classes=[...] with both."
            )
        refuse_unwritable(label_values(labels.classes), getattr(self, "feature_names_in_", None))
        return X, labels.classes, labels.targets_of(taken)


def other_plan() -> ReplearnError:
    """A plan that is not that of the stream so far."""
    return ReplearnError(
        "parameters of the plan were changed in the middle of a stream. Set them back, or start "
        "anew with a clone."
    )


def _problem(about: Any, many: bool, n_columns: int | None) -> str | None:
    """What is wrong with the labels and columns of a state file."""
    keys = {"classes", "classes_kind", "encoding", "feature_names", "n_features"}
    if not isinstance(about, dict) or set(about) - {"seen"} != keys:
        return f"'estimator' must have the keys {', '.join(sorted(keys))}"
    names, n_features = about["feature_names"], about["n_features"]
    if type(n_features) is not int or not 0 < n_features < 1 << 31:
        return "n_features must be a positive integer"
    if not _are_classes(about["classes"], many) or about["classes_kind"] not in tuple("biufUO"):
        return f"classes must be {'' if many else 'two '}different labels of one type, in order"
    if names is not None and not (
        isinstance(names, list)
        and len(names) == n_features
        and all(isinstance(name, str) for name in names)
    ):
        return f"feature_names must be {n_features} strings"
    if "seen" in about and not _are_counts(about["seen"], n_columns):
        return "seen must be a number of rows, and counts of missing and of unknown values"
    return None


def _are_classes(classes: Any, many: bool) -> bool:
    return (
        isinstance(classes, list)
        and (len(classes) >= 2 if many else len(classes) == 2)
        and all(isinstance(label, bool | int | float | str) for label in classes)
        and len({type(label) for label in classes}) == 1
        and all(label < after for label, after in pairwise(classes))
    )


def _are_counts(seen: Any, n_columns: int | None) -> bool:
    if n_columns is None or not isinstance(seen, list) or len(seen) != 3:
        return False
    n_rows, *counts = seen
    return (
        type(n_rows) is int
        and 0 <= n_rows < 1 << 63
        and all(isinstance(part, list) and len(part) == n_columns for part in counts)
        and all(type(n) is int and 0 <= n <= n_rows for part in counts for n in part)
    )
