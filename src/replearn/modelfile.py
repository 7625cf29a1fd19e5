"""Model files: canonical JSON, validated on load, no pickle. The format is docs/model-file.md."""

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from replearn.errors import InvalidFile
from replearn.model import FORMAT, FORMAT_VERSION, Label, Model, canonical_json
from replearn.stages.projection import PROJECTIONS
from replearn.stages.rounding import ROUNDINGS
from replearn.stages.space import CodeSpace

MAX_FILE_BYTES = 1 << 28
MAX_FEATURES = 1 << 26
MAX_COMPONENTS = 1 << 24
MAX_TEXT = 1 << 12

_DECIMAL = re.compile(r"(0|[1-9][0-9]{0,17})(\.[0-9]{1,20})?(e[+-][0-9]{1,3})?")


def save(
    model: Model, path: str | os.PathLike[str], provenance: Mapping[str, Any] | None = None
) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    model : Model
    path : path
    provenance : mapping, optional
        Facts about the run (rows, date, versions). Kept in the file, not part of the fingerprint.
    """
    content = {
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "fingerprint": model.fingerprint,
        "model": model.content(),
        "provenance": dict(provenance or {}),
    }
    write_atomically(path, canonical_json(content) + b"\n")


def load(path: str | os.PathLike[str]) -> Model:
    """Read and check a model file.

    Raises
    ------
    InvalidFile
        If the file is not a whole, consistent model of a known format.
    """
    document = read_json(path)
    _expect_keys(document, {"feature_names", "fingerprint", "model", "provenance"}, path)
    try:
        model = _model(document["model"], document["feature_names"])
    except _Unfit as problem:
        raise InvalidFile(f"{path} is not a valid model file: {problem}.") from None
    if document["fingerprint"] != model.fingerprint:
        raise InvalidFile(
            f"{path} was altered or damaged: its content has the fingerprint {model.fingerprint}, "
            f"the file says {str(document['fingerprint'])[:64]!r}. Get it again from its source."
        )
    return model


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read one JSON object strictly: limited size, no duplicate keys, no NaN."""
    size = os.path.getsize(path)
    if size > MAX_FILE_BYTES:
        raise InvalidFile(f"{path} has {size:,} bytes; at most {MAX_FILE_BYTES:,} are read.")
    try:
        document = json.loads(
            Path(path).read_bytes().decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_constant=_no_constants,
        )
    except (ValueError, RecursionError) as problem:
        raise InvalidFile(
            f"{path} is not valid JSON: {str(problem)[:200]}. Is it the right file?"
        ) from None
    if not isinstance(document, dict):
        raise InvalidFile(f"{path} must hold one JSON object. Is it the right file?")
    return document


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write beside the target and rename, so that no reader ever sees half a file."""
    target = Path(path)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _no_constants(text: str) -> None:
    raise ValueError(f"{text} is not a JSON number")


def _expect_keys(document: Mapping[str, Any], keys: set[str], path: object) -> None:
    if set(document) != keys:
        odd = sorted(set(document) ^ keys)[0][:64]
        word = "lacks" if odd in keys else "has the unknown key"
        raise InvalidFile(f"{path} {word} {odd!r}. Is it a model file of this version of replearn?")


class _Unfit(Exception):
    """A value that does not fit the format; the message completes "not valid: ..."."""


def _model(content: Any, feature_names: Any) -> Model:
    keys = {
        "classes", "codes", "fit_intercept", "format", "n_features", "recipe", "seed", "space",
        "version",
    }  # fmt: skip
    if not isinstance(content, dict) or set(content) != keys:
        raise _Unfit(f"'model' must be an object with the keys {', '.join(sorted(keys))}")
    if content["format"] != FORMAT:
        raise _Unfit(f"the format must be {FORMAT!r}")
    if content["version"] != FORMAT_VERSION:
        raise _Unfit(
            f"version {content['version']!r} is unknown; this release reads {FORMAT_VERSION}"
        )
    n_features = _integer(content["n_features"], "n_features", 1, MAX_FEATURES)
    fit_intercept = content["fit_intercept"]
    if not isinstance(fit_intercept, bool):
        raise _Unfit("fit_intercept must be true or false")
    space = _space(content["space"], n_features + fit_intercept)
    return Model(
        recipe=_text(content["recipe"], "recipe"),
        n_features=n_features,
        fit_intercept=fit_intercept,
        space=space,
        seed=_text(content["seed"], "seed"),
        classes=_classes(content["classes"]),
        codes=_codes(content["codes"], space.n_codes),
        feature_names=_names(feature_names, n_features),
    )


def _space(content: Any, n_inputs: int) -> CodeSpace:
    keys = {"grid_width", "n_components", "projection", "rounding"}
    if not isinstance(content, dict) or set(content) != keys:
        raise _Unfit(f"'space' must be an object with the keys {', '.join(sorted(keys))}")
    for name, known in (("projection", PROJECTIONS), ("rounding", ROUNDINGS)):
        if content[name] not in known if isinstance(content[name], str) else True:
            raise _Unfit(f"{name} must be one of {', '.join(known)}")
    n_components = _integer(content["n_components"], "n_components", 1, MAX_COMPONENTS)
    full = PROJECTIONS[content["projection"]].full
    if (full and n_components != n_inputs) or (
        content["projection"] == "hadamard" and n_components > n_inputs
    ):
        raise _Unfit(f"n_components is {n_components} for {n_inputs} inputs")
    width = content["grid_width"]
    if not (isinstance(width, str) and _DECIMAL.fullmatch(width) and 0 < float(width) < 1e300):
        raise _Unfit("grid_width must be a positive decimal number in a string")
    return CodeSpace(n_inputs, content["projection"], n_components, content["rounding"], width)


def _integer(value: Any, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise _Unfit(f"{name} must be an integer from {low:,} to {high:,}")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise _Unfit(f"{name} must be a string of at most {MAX_TEXT} characters")
    return value


def _classes(value: Any) -> tuple[Label, Label]:
    if (
        not isinstance(value, list)
        or len(value) != 2
        or type(value[0]) is not type(value[1])
        or not isinstance(value[0], bool | int | str)
        or value[0] == value[1]
    ):
        raise _Unfit("classes must be two different labels of one type (string, integer, boolean)")
    for label in value:
        if isinstance(label, str):
            _text(label, "a label")
        else:
            _integer(int(label), "a label", -(2**53), 2**53)
    return value[0], value[1]


def _codes(value: Any, n_codes: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    if not isinstance(value, list) or len(value) != n_codes:
        raise _Unfit(f"codes must be a list of {n_codes:,} integers")
    if not all(type(code) is int and -(2**53) <= code <= 2**53 for code in value):
        raise _Unfit("codes must be integers of at most 2^53")
    return np.array(value, dtype=np.int64)


def _names(value: Any, n_features: int) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != n_features:
        raise _Unfit(f"feature_names must be null or a list of {n_features:,} strings")
    return tuple(_text(name, "a feature name") for name in value)
