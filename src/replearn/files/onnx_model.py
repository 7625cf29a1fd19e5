"""Finished models in ONNX files: hostile input, checked by hash and run in a process apart."""

import contextlib
import hashlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import as_text, columns_of
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.jsonfile import limited_bytes
from replearn.types import Matrix, Vector

_WORKER = Path(__file__).with_name("onnx_worker.py")
_ROWS_AT_ONCE = 1 << 14
_NUMBERS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
}
_LABELS = ("tensor(int64)", "tensor(int32)", "tensor(string)", "tensor(bool)")
_MOST_REPLY = 1 << 31


@dataclass(frozen=True)
class OnnxLimits:
    """What a model may cost."""

    file_bytes: int = 1 << 28
    seconds: float = 60.0  # for loading, and for each piece of 16,384 rows
    memory_bytes: int = 1 << 33  # of the process that runs it, where the system can limit that


class OnnxModel:
    """A classifier in an ONNX file.

    Parameters
    ----------
    path : path
    sha256 : str, optional
        Hash that the file must have.
    classes : sequence of labels, optional
        In the order of the model's probabilities. Default: what the file says about itself.
    features : sequence of str, optional
        Columns of a table, in the order in which the model takes them as one matrix.
    limits : OnnxLimits, optional

    Attributes
    ----------
    sha256 : str
    name : str
        Name of the file.

    Notes
    -----
    The file is read once, and what was hashed is what runs. It runs in a process of its own, with
    limits on time and memory and without writing files; models that keep numbers in other files,
    bring operators that are not of the standard, or functions of their own, are refused.

    A model takes one matrix of rows, or a vector for each column by its name. It gives labels, or
    probabilities of the classes, or both; a vector of real numbers is taken as the score of the
    second class.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sha256: str | None = None,
        classes: Sequence[Any] | None = None,
        features: Sequence[str] | None = None,
        limits: OnnxLimits | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.name = Path(self.path).name
        self.limits = OnnxLimits() if limits is None else limits
        self._content = limited_bytes(self.path, self.limits.file_bytes, "ONNX files of ")
        self.sha256 = hashlib.sha256(self._content).hexdigest()
        if sha256 is not None and self.sha256 != sha256.lower():
            raise InvalidFile(
                f"{self.path} must have the SHA-256 {sha256.lower()}, got {self.sha256}. It is not "
                "the published candidate: get it again from its source."
            )
        self.features = None if features is None else tuple(features)
        self.classes_ = None if classes is None else np.asarray(classes)

    def predict(self, X: Any) -> NDArray[Any]:
        """Label of each row, as text where the model gives text."""
        found = self._outputs(X)
        if found.labels is not None:
            return found.labels
        if found.probabilities is None:
            raise self._lacks("labels or probabilities")
        if self.classes_ is None:
            raise ReplearnError(
                f"{self.path} gives probabilities without labels. Say what its classes are, in "
                "their order (classes)."
            )
        return self.classes_[np.argmax(found.probabilities, axis=1)]

    def predict_proba(self, X: Any) -> Matrix:
        """Probability of each class, in the order of the classes."""
        found = self._outputs(X)
        if found.probabilities is None:
            raise self._lacks("probabilities")
        return found.probabilities

    def decision_function(self, X: Any) -> Vector:
        """Score of the second class."""
        found = self._outputs(X)
        if found.scores is not None:
            return found.scores
        if found.probabilities is None or found.probabilities.shape[1] != 2:
            raise self._lacks("scores of two classes")
        return found.probabilities[:, 1]

    def __repr__(self) -> str:
        return f"OnnxModel({self.name!r}, sha256={self.sha256[:16]!r}...)"

    # --- how it is run ----------------------------------------------------------------------------

    def _outputs(self, X: Any) -> "_Outputs":
        with contextlib.closing(_Worker(self._content, self.path, self.limits)) as worker:
            inputs, n_rows = self._inputs(X, worker.facts["inputs"])
            pieces = [
                worker.run([one[start : start + _ROWS_AT_ONCE] for one in inputs])
                for start in range(0, n_rows, _ROWS_AT_ONCE)
            ]
            return self._read_outputs(pieces, worker.facts, n_rows)

    def _inputs(self, X: Any, wanted: list[dict[str, Any]]) -> tuple[list[NDArray[Any]], int]:
        """Arrays for the inputs, in their order, and the number of rows."""
        if len(wanted) == 1 and len(wanted[0]["shape"]) == 2 and wanted[0]["shape"][1] != 1:
            matrix = self._matrix(X)
            width = wanted[0]["shape"][1]
            if width is not None and matrix.shape[1] != width:
                raise ReplearnError(
                    f"{self.path} takes {width} columns, got {matrix.shape[1]}. Name its columns "
                    "in their order (features)."
                )
            return [self._typed(matrix, wanted[0])], len(matrix)
        names = [one["name"] for one in wanted]
        columns = columns_of(X, names)
        arrays = []
        for one in wanted:
            array = self._typed(columns[one["name"]], one)
            arrays.append(array[:, None] if len(one["shape"]) == 2 else array)
        return arrays, len(arrays[0])

    def _matrix(self, X: Any) -> Matrix:
        is_table = hasattr(X, "columns") or hasattr(X, "column_names") or isinstance(X, Mapping)
        if is_table and self.features is not None:
            columns = columns_of(X, list(self.features))
            X = np.column_stack([columns[name] for name in self.features])
        if hasattr(X, "toarray"):
            X = X.toarray()
        try:
            matrix = np.asarray(X, dtype=np.float64)
        except (TypeError, ValueError):
            raise ReplearnError(
                f"{self.path} takes a matrix of numbers, got other values. Name its columns in "
                "their order (features), or encode them as it expects."
            ) from None
        if matrix.ndim != 2:
            raise ReplearnError(f"{self.path} takes rows of columns, got shape {matrix.shape}.")
        return matrix

    def _typed(self, values: NDArray[Any], one: dict[str, Any]) -> NDArray[Any]:
        if one["type"] == "tensor(string)":
            texts = [as_text(value) for value in np.ravel(values).tolist()]
            return np.array(["" if text is None else text for text in texts]).reshape(values.shape)
        kind = _NUMBERS.get(one["type"])
        if kind is None:
            raise ReplearnError(f"{self.path} takes {one['type']}, which is not supported.")
        try:
            numbers = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise ReplearnError(
                f"{self.path} takes numbers as its input {one['name']!r}, got other values."
            ) from None
        if kind not in (np.float32, np.float64) and not np.isfinite(numbers).all():
            raise ReplearnError(
                f"{self.path} takes whole numbers as its input {one['name']!r}, got NaN or inf."
            )
        return numbers.astype(kind)

    def _read_outputs(
        self, pieces: list[dict[str, NDArray[Any]]], facts: dict[str, Any], n_rows: int
    ) -> "_Outputs":
        """Tell labels, probabilities and scores apart by their types and shapes."""
        labels = probabilities = scores = None
        for place, output in enumerate(facts["outputs"]):
            key = str(place)
            if not pieces or not all(key in piece for piece in pieces):
                continue
            values = np.concatenate([piece[key] for piece in pieces])
            if len(values) != n_rows:
                raise ReplearnError(
                    f"{self.path} must give one result for each of {n_rows:,} rows, got "
                    f"{len(values):,}."
                )
            if output["type"] in _LABELS and labels is None:
                labels = values.reshape(n_rows, -1)[:, 0] if n_rows else values.ravel()
            elif values.dtype.kind == "f" and values.ndim == 2 and probabilities is None:
                keys = [piece[f"{key}/keys"] for piece in pieces if f"{key}/keys" in piece]
                probabilities = self._ordered(values.astype(np.float64), keys)
            elif values.dtype.kind == "f" and values.ndim == 1 and scores is None:
                scores = values.astype(np.float64)
                if "prob" in output["name"].lower() and probabilities is None:
                    probabilities = np.column_stack([1 - scores, scores])
        if labels is not None:
            labels = self._as_classes(labels, facts["metadata"])
        if labels is None and probabilities is None and scores is None:
            raise self._lacks("labels, probabilities or scores")
        for found in (probabilities, scores):
            if found is not None and not np.isfinite(found).all():
                row = int(np.argmin(np.isfinite(found.reshape(n_rows, -1)).all(axis=1)))
                raise ReplearnError(
                    f"{self.path} gives NaN or inf in row {row}. Fill in missing values as the "
                    "model expects them."
                )
        return _Outputs(labels, probabilities, scores)

    def _ordered(self, table: Matrix, keys: list[NDArray[Any]]) -> Matrix:
        """Columns of probabilities in the order of the classes."""
        if table.shape[1] == 1:
            table = np.column_stack([1 - table[:, 0], table[:, 0]])
        classes = self.classes_
        if classes is None:
            return table
        if keys:
            places = {as_text(key): place for place, key in enumerate(keys[0].tolist())}
            texts = [as_text(label) for label in classes.tolist()]
            if all(text in places for text in texts):
                return table[:, [places[text] for text in texts]]
        if table.shape[1] != classes.size:
            raise ReplearnError(
                f"{self.path} must give probabilities of {classes.size} classes, got "
                f"{table.shape[1]} columns."
            )
        return table

    def _as_classes(self, labels: NDArray[Any], metadata: dict[str, str]) -> NDArray[Any]:
        """Labels in the spelling of the classes; a file of replearn writes booleans as 0 and 1."""
        classes = self.classes_
        if classes is None and "replearn.labels" in metadata:
            with contextlib.suppress(ValueError):
                classes = np.asarray(json.loads(metadata["replearn.labels"]))
        if classes is not None and classes.dtype.kind == "b" and labels.dtype.kind in "iu":
            return labels.astype(bool)
        return labels

    def _lacks(self, what: str) -> ReplearnError:
        return ReplearnError(
            f"{self.path} must give {what}, which it does not. Export it with them."
        )


@dataclass(frozen=True, eq=False)
class _Outputs:
    labels: NDArray[Any] | None
    probabilities: Matrix | None
    scores: Vector | None


class _Worker:
    """A process that runs one model, and is ended when it takes too long."""

    def __init__(self, content: bytes, path: str, limits: OnnxLimits) -> None:
        _require_runtime()
        self._path, self._limits = path, limits
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        header = json.dumps({"memory_bytes": limits.memory_bytes}).encode()
        try:
            reply = self._exchange([(b"J", header), (b"M", content)], "load")
            self.facts: dict[str, Any] = json.loads(reply)
        except BaseException:
            self.close()
            raise

    def run(self, arrays: list[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Outputs for one piece of rows."""
        out = io.BytesIO()
        named: dict[str, Any] = {str(place): array for place, array in enumerate(arrays)}
        np.savez(out, **named)
        reply = self._exchange([(b"N", out.getvalue())], "run")
        with np.load(io.BytesIO(reply), allow_pickle=False) as found:
            return dict(found)

    def close(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._process.wait()

    def _exchange(self, frames: list[tuple[bytes, bytes]], task: str) -> bytes:
        """Send frames and wait for the answer, no longer than allowed."""
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(self._answer, frames)
            try:
                return answer.result(timeout=self._limits.seconds)
            except BaseException as problem:
                self._process.kill()  # which ends the thread
                if isinstance(problem, TimeoutError):
                    raise InvalidFile(
                        f"{self._path} took more than {self._limits.seconds:g} seconds to {task}, "
                        "and was stopped."
                    ) from None
                if isinstance(problem, OSError | ValueError):
                    done = "loaded" if task == "load" else "run"
                    raise InvalidFile(f"{self._path} could not be {done}: {problem}.") from None
                raise

    def _answer(self, frames: list[tuple[bytes, bytes]]) -> bytes:
        requests, stream = self._process.stdin, self._process.stdout
        assert requests is not None
        assert stream is not None
        with contextlib.suppress(BrokenPipeError):  # it has an answer already
            for letter, content in frames:
                requests.write(letter + len(content).to_bytes(8, "little"))
                requests.write(content)
            requests.flush()
        head = stream.read(9)
        if len(head) < 9:
            raise ValueError("the process that ran it ended, perhaps for lack of memory")
        size = int.from_bytes(head[1:], "little")
        if size > _MOST_REPLY:
            raise ValueError("it gives far too much")
        content = stream.read(size)
        if head[:1] == b"J":
            words = json.loads(content).get("error")
            if words is not None:
                raise ValueError(words.rstrip("."))
        return content


def _require_runtime() -> None:
    from importlib.util import find_spec

    missing = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise ReplearnError(
            f"an ONNX model needs the package {missing[0]} to run. Install it: "
            'pip install "replearn[choice]"'
        )
