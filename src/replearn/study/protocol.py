"""Protocols: everything that two labs must share, as a file with a hash."""

import hashlib
import os
from dataclasses import dataclass, replace
from typing import Any

from replearn.codes.basis import Basis
from replearn.codes.design import Design
from replearn.codes.encoding import Encoding
from replearn.codes.model import Label, canonical_json
from replearn.codes.published import Published
from replearn.codes.randomness import MAX_TEXT
from replearn.errors import InvalidFile, ReplearnError
from replearn.estimators import ReplicableLogisticClassifier, ReplicableSVMClassifier
from replearn.files.atomic import write_atomically
from replearn.files.designfile import read_design
from replearn.files.jsonfile import (
    Unfit,
    read_basis,
    read_classes,
    read_decimal,
    read_encoding,
    read_json,
    read_object,
    read_text,
    read_width,
    shown,
)
from replearn.sources.labels import Labels

FORMAT = "replearn-protocol"
FORMAT_VERSION = 2

#: Note that holds the public value from which the seed was derived.
_PUBLIC_VALUE = "public_value"

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
    design : Design or None
        Directions, start and cells of a logistic study.
    target : str or None
        Name of the label column.

    Examples
    --------
    >>> from replearn.datasets import make_margin
    >>> X, y = make_margin(1000, 5, margin=0.2, random_state=0)
    >>> from replearn.study.pilot import plan_from_pilot
    >>> protocol = plan_from_pilot(X, y, samples_per_site=50_000, shared_seed=7).protocol
    >>> protocol.estimator().shared_seed
    '7'
    """

    algorithm: str
    parameters: dict[str, Any]
    seed: str
    classes: tuple[Label, Label]
    encoding: Encoding | None
    basis: Basis | None
    notes: dict[str, Any]
    design: Design | None = None
    target: str | None = None

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        content = {
            "algorithm": self.algorithm,
            "basis": None if self.basis is None else self.basis.content(),
            "classes": list(self.classes),
            "encoding": None if self.encoding is None else self.encoding.content(),
            "format": FORMAT,
            "notes": self.notes,
            "parameters": self.parameters,
            "seed": self.seed,
            "version": 1 if self.design is None and self.target is None else 2,
        }
        if content["version"] == 1:
            return content
        design = None if self.design is None else self.design.content()
        return content | {"design": design, "target": self.target}

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return hashlib.sha256(canonical_json(self.content())).hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the protocol file, whole or not at all."""
        write_atomically(path, canonical_json(self.content()) + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str], expect: str | None = None) -> "Protocol":
        """Read and check a protocol file; ``expect`` is the fingerprint that was agreed on."""
        document = read_json(path)
        try:
            protocol = _protocol(document)
        except Unfit as problem:
            raise InvalidFile(f"{path} is not a valid protocol file: {problem}.") from None
        if expect is not None and protocol.fingerprint != expect.lower():
            raise InvalidFile(
                f"{path} must be the protocol {expect}, got {protocol.fingerprint}. "
                "It has been changed, or it is that of another study."
            )
        return protocol

    def with_public_value(self, value: str) -> "Protocol":
        """The same protocol with a seed that nobody could choose.

        The seed becomes a hash of everything else in the protocol and of a public value that
        nobody knew before, such as a lottery draw on a day agreed on in advance. The value is
        kept in the notes, and `load` checks that the seed follows from it.

        Parameters
        ----------
        value : str

        Returns
        -------
        Protocol
        """
        if not isinstance(value, str) or not 0 < len(value) <= MAX_TEXT:
            raise ReplearnError(
                f"a public value must be text of 1 to {MAX_TEXT} characters, got {value!r}."
            )
        return replace(
            self, seed=self._derived_seed(value), notes=self.notes | {_PUBLIC_VALUE: value}
        )

    @property
    def seed_policy(self) -> str:
        """Where the seed comes from, in words."""
        value = self.notes.get(_PUBLIC_VALUE)
        if value is None:
            return "explicit seed, chosen by the authors of the protocol"
        return f"derived from this protocol and the public value {value!r}"

    def _derived_seed(self, value: str) -> str:
        notes = {name: note for name, note in self.notes.items() if name != _PUBLIC_VALUE}
        rest = canonical_json(replace(self, seed="", notes=notes).content())
        text = b"replearn/seed/1\n" + len(rest).to_bytes(8, "little") + rest + value.encode()
        return hashlib.sha256(text).hexdigest()

    def check(self, X: Any, y: Any) -> None:
        """Refuse rows whose columns or labels are not those of the protocol, before any fit."""
        if self.encoding is not None:
            self.encoding.transform(X)
        labels = Labels(known=self.classes)
        labels.take(y)
        labels.require_both()

    def estimator(self, **overrides: Any) -> Any:
        """The estimator that every site fits; ``overrides`` are for n_jobs and the like.

        With hint bits the first site passes nothing, and the others ``hint=``, what it published.
        """
        fixed = {*self.parameters, "shared_seed", "published"}
        if fixed & set(overrides):
            raise ReplearnError(
                f"{sorted(fixed & set(overrides))[0]} is fixed by the protocol, got another one. "
                "Leave it out, or make another protocol."
            )
        parameters: dict[str, Any] = dict(self.parameters)
        for name in _REALS:
            if name in parameters:
                parameters[name] = float(parameters[name])
        published = Published(
            self.encoding,
            self.classes,
            self.basis,
            unit_mean=parameters.pop("unit_mean", False),
            design=self.design,
        )
        if self.design is not None:
            return ReplicableLogisticClassifier(
                **parameters, shared_seed=self.seed, published=published, **overrides
            )
        return ReplicableSVMClassifier(
            **parameters, shared_seed=self.seed, published=published, **overrides
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
    if document.get("format") != FORMAT:
        raise Unfit(f"the format must be {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise Unfit(
            f"version {shown(version)} is unknown; this release reads 1 to {FORMAT_VERSION}"
        )
    if version > 1:
        keys |= {"design", "target"}
    if set(document) != keys:
        raise Unfit(f"it must have the keys {', '.join(sorted(keys))}")
    algorithm, design = document["algorithm"], document.get("design")
    if algorithm != ("svm" if design is None else "logistic"):
        raise Unfit("the algorithm must be 'svm', or 'logistic' with a design")
    target = document.get("target")
    if not isinstance(document["notes"], dict):
        raise Unfit("notes must be an object")
    encoding, basis = document["encoding"], document["basis"]
    protocol = Protocol(
        algorithm=algorithm,
        parameters=_parameters(document["parameters"], algorithm),
        seed=read_text(document["seed"], "seed"),
        classes=read_classes(document["classes"]),
        encoding=None if encoding is None else read_encoding(encoding),
        basis=None if basis is None else read_basis(basis),
        notes=document["notes"],
        design=None if design is None else read_design(design),
        target=None if target is None else read_text(target, "target"),
    )
    if version == 2 and design is None and target is None:
        raise Unfit("a protocol without design and target has version 1")
    value = protocol.notes.get(_PUBLIC_VALUE)
    if value is not None and protocol.seed != protocol._derived_seed(
        read_text(value, _PUBLIC_VALUE)
    ):
        raise Unfit("the seed does not follow from the rest and from its public value")
    return protocol


def _parameters(content: Any, algorithm: str) -> dict[str, Any]:
    if algorithm == "logistic":
        return _logistic_parameters(content)
    keys = {*_REALS, *_WHOLE, *_NAMES, *_FLAGS}
    if not isinstance(content, dict) or set(content) != keys:
        raise Unfit(f"'parameters' must be an object with the keys {', '.join(sorted(keys))}")
    for name in _REALS:
        read_decimal(content[name], name)
    read_width(content["grid_width"], "grid_width")
    for name in _FLAGS:
        if not isinstance(content[name], bool):
            raise Unfit(f"{name} must be true or false")
    for name in _WHOLE:
        if type(content[name]) is not int:
            raise Unfit(f"{name} must be an integer")
    for name in _NAMES:
        read_text(content[name], name)
    return content


def _logistic_parameters(content: Any) -> dict[str, Any]:
    read_object(content, "'parameters'", {"failure_prob", "max_disagreement"})
    for name in content:
        read_decimal(content[name], name)
    return dict(content)
