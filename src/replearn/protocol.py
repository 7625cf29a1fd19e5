"""Protocols: everything that two labs must share, as a file with a hash."""

import hashlib
import os
from dataclasses import dataclass
from typing import Any

from replearn.basis import Basis
from replearn.encoding import Encoding
from replearn.errors import InvalidFile
from replearn.estimators import ReplicableSVMClassifier
from replearn.jsonfile import (
    Unfit,
    read_basis,
    read_classes,
    read_decimal,
    read_encoding,
    read_json,
    read_text,
    write_atomically,
)
from replearn.model import Label, canonical_json

FORMAT = "replearn-protocol"
FORMAT_VERSION = 1

#: Parameters of the estimator that a protocol fixes, with their types; reals are decimal strings.
_REALS = (
    "margin",
    "max_error",
    "max_disagreement",
    "failure_prob",
    "grid_width",
    "regularization",
)
_WHOLE = ("batch_size", "n_components")
_NAMES = {"projection", "rounding"}
_FLAGS = ("fit_intercept", "unit_mean")


@dataclass(frozen=True)
class Protocol:
    """What every site fixes before it looks at its own rows.

    Attributes
    ----------
    algorithm : str
    parameters : dict
        Of the estimator: numbers as decimal strings, so that everybody reads the same.
    seed : str
        The published seed.
    classes : tuple of two labels
    encoding : Encoding or None
        Columns, scaling and categories.
    basis : Basis or None
        Published directions.
    notes : dict
        What the pilot predicted; for people, part of the hash like everything else.

    Examples
    --------
    >>> from replearn.datasets import make_margin
    >>> X, y = make_margin(1000, 5, margin=0.2, random_state=0)
    >>> from replearn.pilot import plan_from_pilot
    >>> protocol = plan_from_pilot(X, y, samples_per_site=50_000, shared_seed=7).protocol
    >>> protocol.estimator().fit(X, y).model_.seed
    '7'
    """

    algorithm: str
    parameters: dict[str, Any]
    seed: str
    classes: tuple[Label, Label]
    encoding: Encoding | None
    basis: Basis | None
    notes: dict[str, Any]

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "algorithm": self.algorithm,
            "basis": None if self.basis is None else self.basis.content(),
            "classes": list(self.classes),
            "encoding": None if self.encoding is None else self.encoding.content(),
            "format": FORMAT,
            "notes": self.notes,
            "parameters": self.parameters,
            "seed": self.seed,
            "version": FORMAT_VERSION,
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return hashlib.sha256(canonical_json(self.content())).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the protocol file, whole or not at all."""
        write_atomically(path, canonical_json(self.content()) + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Protocol":
        """Read and check a protocol file."""
        document = read_json(path)
        try:
            return _protocol(document)
        except Unfit as problem:
            raise InvalidFile(f"{path} is not a valid protocol file: {problem}.") from None

    def estimator(self, **overrides: Any) -> ReplicableSVMClassifier:
        """The estimator that every site fits; ``overrides`` are for n_jobs and the like."""
        parameters: dict[str, Any] = dict(self.parameters)
        for name in _REALS:
            parameters[name] = float(parameters[name])
        return ReplicableSVMClassifier(
            **parameters,
            shared_seed=self.seed,
            basis=self.basis,
            encoding=self.encoding,
            classes=self.classes,
            **overrides,
        )


def _protocol(document: dict[str, Any]) -> Protocol:
    keys = {
        "algorithm",
        "basis",
        "classes",
        "encoding",
        "format",
        "notes",
        "parameters",
        "seed",
        "version",
    }
    if set(document) != keys:
        raise Unfit(f"it must have the keys {', '.join(sorted(keys))}")
    if document["format"] != FORMAT:
        raise Unfit(f"the format must be {FORMAT!r}")
    if document["version"] != FORMAT_VERSION:
        raise Unfit(f"version {document['version']!r} is unknown; this release reads 1")
    if document["algorithm"] != "svm":
        raise Unfit("the algorithm must be 'svm'")
    if not isinstance(document["notes"], dict):
        raise Unfit("notes must be an object")
    encoding, basis = document["encoding"], document["basis"]
    return Protocol(
        algorithm="svm",
        parameters=_parameters(document["parameters"]),
        seed=read_text(document["seed"], "seed"),
        classes=read_classes(document["classes"]),
        encoding=None if encoding is None else read_encoding(encoding),
        basis=None if basis is None else read_basis(basis),
        notes=document["notes"],
    )


def _parameters(content: Any) -> dict[str, Any]:
    keys = {*_REALS, *_WHOLE, *_NAMES, *_FLAGS}
    if not isinstance(content, dict) or set(content) != keys:
        raise Unfit(f"'parameters' must be an object with the keys {', '.join(sorted(keys))}")
    for name in _REALS:
        read_decimal(content[name], name)
    for name in _FLAGS:
        if not isinstance(content[name], bool):
            raise Unfit(f"{name} must be true or false")
    for name in _WHOLE:
        if type(content[name]) is not int:
            raise Unfit(f"{name} must be an integer")
    for name in _NAMES:
        read_text(content[name], name)
    return content
