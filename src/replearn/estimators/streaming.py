"""What classifiers share that follow a stream: labels, and models that are made on demand."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.errors import NoModel, NoModelYet, NotEnoughSamples, ReplearnError
from replearn.estimators.base import ReplicableClassifier
from replearn.sources.labels import Labels

#: What a stream is asked for when it is needed, because making it after each piece would be slow.
_ON_DEMAND = ("plan_", "model_", "residual_", "certificate_")
_READ_OFF_THE_MODEL = ("coef_", "intercept_", "fingerprint_", "hint_")


class Streaming(ReplicableClassifier):
    """A classifier with ``partial_fit``, whose state is ``_stream``. Not for direct use."""

    _stream: Any

    def _make_model(self) -> None:
        """Make a model of the stream so far."""
        raise NotImplementedError

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

    def _stream_labels(
        self, y: NDArray[Any], classes: Any, first: bool
    ) -> tuple[Any, NDArray[Any]]:
        """The labels of a stream, and those of the next rows as targets."""
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
        return labels.classes, labels.targets_of(taken)
