"""Protocols: everything that two labs must share, as a file with a hash."""

import os
from dataclasses import dataclass
from typing import Any

from replearn.codes.basis import Basis
from replearn.codes.design import Design
from replearn.codes.encoding import Encoding
from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.model import Label, Model
from replearn.codes.published import Published
from replearn.codes.score_space import ScoreSpace
from replearn.errors import InvalidFile, ReplearnError, short
from replearn.files.designfile import read_class_weights, read_design
from replearn.files.jsonfile import (
    Unfit,
    read_basis,
    read_classes,
    read_decimal,
    read_encoding,
    read_format,
    read_integer,
    read_json,
    read_object,
    read_text,
    read_width,
)
from replearn.files.modelfile import load as load_model
from replearn.sources.labels import Labels
from replearn.study.registration import Registrable, check_seed
from replearn.types import Drawable

FORMAT = "replearn-protocol"
FORMAT_VERSION = 3

#: Directions over which a protocol may search a net: it grows exponentially with them.
MAX_NET_DIRECTIONS = 6

#: Parameters of the estimator that a protocol fixes, with their types; reals are decimal strings.
_REALS = ("margin", "max_error", "max_disagreement", "failure_prob", "grid_width", "regularization")
_WHOLE = ("batch_size", "n_components")
_NAMES = {"projection", "rounding"}
_FLAGS = ("fit_intercept", "unit_mean")


@dataclass(frozen=True)
class Protocol(Registrable, Drawable):
    """What every site fixes before it looks at its own rows.

    Attributes
    ----------
    algorithm : {"logistic", "svm", "sgd", "net"}
    parameters : dict
        Of the estimator: numbers as decimal strings, so that everybody reads the same.
    seed : str
        The published seed.
    classes : tuple of labels
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

    Notes
    -----
    Hint bits are part of the design, or of the parameters of Algorithms 1 and 2.

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
    classes: tuple[Label, ...]
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
            "version": self._version,
        }
        if content["version"] == 1:
            return content
        design = None if self.design is None else self.design.content()
        return content | {"design": design, "target": self.target}

    @property
    def _version(self) -> int:
        """The oldest version of the format that can hold the protocol."""
        if self.algorithm in ("sgd", "net"):
            return 3
        return 2 if self.design is not None or self.target or self.hint_bits else 1

    def __str__(self) -> str:
        """In a few lines; the file has the rest."""
        labels = ", ".join(map(repr, self.classes[:8])) + (" ..." if len(self.classes) > 8 else "")
        if self.design is not None and self._is_numeric:
            labels = self.design.space.target_in_words
        lines = [
            f"Protocol {self.fingerprint[:16]}...: {self.algorithm}",
            f"  {'numbers' if self._is_numeric else 'labels '}          {labels}"
            + (f" in {self.target}" if self.target else ""),
            f"  hint bits        {self.hint_bits}",
            f"  seed             {self.seed_policy}",
        ]
        if self.encoding is not None:
            lines.insert(2, f"  columns          {len(self.encoding.columns):,}")
        return "\n".join(lines)

    @property
    def _is_numeric(self) -> bool:
        return self.design is not None and self.design.space.is_numeric

    @property
    def hint_bits(self) -> int:
        """Bits that the first site publishes about its estimate."""
        if self.design is None:
            return int(self.parameters.get("hint_bits", 0))
        return self.design.space.hint_bits

    @property
    def evidence_bits(self) -> float | None:
        """What a match of two sites is worth, in bits, as planned; None if nobody planned it."""
        try:
            return max(0.0, float(self.notes["evidence_bits"]))
        except (KeyError, TypeError, ValueError):
            return None

    @classmethod
    def load(cls, path: str | os.PathLike[str], expect: str | None = None) -> "Protocol":
        """Read and check a protocol file.

        Parameters
        ----------
        path : path
        expect : str, optional
            The fingerprint that was agreed on, or the hash under which the protocol was registered
            before its seed was drawn.

        Returns
        -------
        Protocol

        Raises
        ------
        InvalidFile
            If it is another protocol, its seed does not follow from its public value, or that value
            was drawn before the protocol was registered.
        """
        document = read_json(path)
        try:
            protocol = _protocol(document)
        except Unfit as problem:
            raise InvalidFile(f"{path} is not a valid protocol file: {problem}.") from None
        protocol.require(expect, path)
        return protocol

    @classmethod
    def of_model_file(cls, path: str | os.PathLike[str]) -> "Protocol | None":
        """The protocol under which the model of a file was fitted; None if the file has none.

        Raises
        ------
        InvalidFile
            If the protocol is not valid, or the model cannot come from it.
        """
        model, document = load_model(path), read_json(path)
        if "protocol" not in document:
            return None
        try:
            protocol = _protocol(document["protocol"])
            protocol._refuse_other_model(model)
        except Unfit as problem:
            raise InvalidFile(f"{path} holds no valid protocol: {problem}.") from None
        return protocol

    def _refuse_other_model(self, model: Model) -> None:
        """Refuse a model that has another seed, encoding, labels or space."""
        same = (model.seed, model.classes, model.encoding) == (
            self.seed,
            self.classes,
            self.encoding,
        )
        space = model.space
        if self.design is None:
            same &= getattr(space, "basis", None) == self.basis
            same &= getattr(space, "hint_bits", 0) == self.hint_bits
        else:
            same &= isinstance(space, ScoreSpace) and space.with_hint(0) == self.design.space
        if not same:
            raise Unfit("the model was not fitted under it")

    def check(self, X: Any, y: Any) -> None:
        """Refuse rows whose columns or labels are not those of the protocol, before any fit."""
        if self.encoding is not None:
            self.encoding.transform(X)
        if self.algorithm == "linear":
            return
        labels = Labels(known=self.classes)
        labels.take(y)
        labels.require_both()

    def require_labels(self, what: str) -> None:
        """Refuse what only studies of labels have."""
        if self._is_numeric:
            raise ReplearnError(
                f"{what} is for studies of labels, got the protocol of a regression. Fit and "
                "evaluate it as it is."
            )

    def estimator(self, **overrides: Any) -> Any:
        """The estimator that every site fits; ``overrides`` are for n_jobs and the like.

        With hint bits the first site passes nothing, and the others ``hint=``, what it published.
        """
        if self.registered_hash is not None and not self.seed:
            raise ReplearnError(
                f"a registered protocol has no seed before its draw, got {self.seed_policy}. "
                "Complete it: replearn plan --registered FILE --public-value TEXT --out FILE."
            )
        fixed = {*self.parameters, "shared_seed", "published", "class_weight"}
        if fixed & set(overrides):
            raise ReplearnError(
                f"{sorted(fixed & set(overrides))[0]} is fixed by the protocol, got another one. "
                "Leave it out, or make another protocol."
            )
        parameters: dict[str, Any] = dict(self.parameters)
        for name in _REALS:
            if name in parameters:
                parameters[name] = float(parameters[name])
        if "class_weights" in parameters:
            weights = map(float, parameters.pop("class_weights"))
            parameters["class_weight"] = dict(zip(sorted(self.classes), weights, strict=True))
        published = Published(
            self.encoding,
            self.classes or None,
            self.basis,
            unit_mean=parameters.pop("unit_mean", False),
            design=self.design,
            notes=self.notes,
        )
        # a protocol can be read where scikit-learn is not installed
        from replearn import estimators

        make: Any = {
            "linear": estimators.ReplicableLinearRegressor,
            "logistic": estimators.ReplicableLogisticClassifier,
            "svm": estimators.ReplicableSVMClassifier,
            "sgd": estimators.ReplicableSGDClassifier,
            "net": estimators.ReplicableNetClassifier,
        }[self.algorithm]
        return make(**parameters, shared_seed=self.seed, published=published, **overrides)


def _protocol(document: dict[str, Any]) -> Protocol:
    keys = {
        "algorithm", "basis", "classes", "encoding", "format", "notes", "parameters", "seed",
        "version",
    }  # fmt: skip
    version = read_format(document, FORMAT, FORMAT_VERSION)
    if version > 1:
        keys |= {"design", "target"}
    if set(document) != keys:
        raise Unfit(f"it must have the keys {', '.join(sorted(keys))}")
    algorithm = document["algorithm"]
    design = None if document.get("design") is None else read_design(document["design"])
    if algorithm not in _algorithms(design):
        raise Unfit(
            "the algorithm must be 'svm', 'sgd' or 'net', or with a design 'logistic', or 'linear' "
            "if it has a target"
        )
    target = document.get("target")
    if not isinstance(document["notes"], dict):
        raise Unfit("notes must be an object")
    encoding, basis = document["encoding"], document["basis"]
    protocol = Protocol(
        algorithm=algorithm,
        parameters=_parameters(document["parameters"], algorithm),
        seed=read_text(document["seed"], "seed"),
        classes=() if algorithm == "linear" else read_classes(document["classes"]),
        encoding=None if encoding is None else read_encoding(encoding),
        basis=None if basis is None else read_basis(basis),
        notes=document["notes"],
        design=design,
        target=None if target is None else read_text(target, "target"),
    )
    n_classes = 2 if protocol.design is None else protocol.design.space.n_classes
    if protocol.content()["classes"] != document["classes"] or len(protocol.classes) != n_classes:
        raise Unfit(f"there must be {n_classes} classes, got {short(document['classes'])}")
    if version != protocol.content()["version"]:
        raise Unfit(
            "a protocol of svm without target and hint bits has version 1, one of sgd or net 3, "
            "others 2"
        )
    check_seed(protocol.content())
    return protocol


def _algorithms(design: Design | None) -> tuple[str, ...]:
    """Those that a protocol with or without a design may have."""
    if design is None:
        return ("svm", "sgd", "net")
    return ("linear",) if design.space.is_numeric else ("logistic",)


def _parameters(content: Any, algorithm: str) -> dict[str, Any]:
    if algorithm in ("linear", "logistic"):
        read_object(content, "'parameters'", {"failure_prob", "max_disagreement"})
        return _typed(content)
    if algorithm == "net":
        return _net_parameters(content)
    keys = {*_REALS, *_WHOLE, *_NAMES, *_FLAGS}
    if algorithm == "svm" and isinstance(content, dict) and "estimate" in content:
        # left out for batches
        if content["estimate"] != "rows":
            raise Unfit("estimate must be 'rows', or be left out")
        keys = keys - {"batch_size"} | {"estimate"}
    read_object(content, "'parameters'", keys, {"class_weights", "hint_bits"})
    if "hint_bits" in content:  # left out if there are none
        read_integer(content["hint_bits"], "hint_bits", 1, MAX_HINT_BITS)
    _typed(content)
    read_class_weights(content.get("class_weights"), 2)
    read_width(content["grid_width"], "grid_width")
    for name in {*_WHOLE} & keys:
        if type(content[name]) is not int:
            raise Unfit(f"{name} must be an integer")
    for name in _NAMES:
        read_text(content[name], name)
    return content


def _typed(content: dict[str, Any]) -> dict[str, Any]:
    """Parameters of which the reals are decimals and the flags flags."""
    for name in _REALS:
        if name in content:
            read_decimal(content[name], name)
    for name in ("agnostic", *_FLAGS):
        if not isinstance(content.get(name, True), bool):
            raise Unfit(f"{name} must be true or false")
    return content


def _net_parameters(content: Any) -> dict[str, Any]:
    reals = {"failure_prob", "margin", "max_disagreement", "max_error"}
    others = {"agnostic", "fit_intercept", "n_candidates", "n_components", "net", "projection"}
    read_object(content, "'parameters'", reals | others)
    _typed(content)
    read_integer(content["n_components"], "n_components", 1, MAX_NET_DIRECTIONS)
    read_integer(content["n_candidates"], "n_candidates", 1, 1 << 24)
    if (content["net"], content["projection"]) != ("random", "published"):
        raise Unfit("a protocol of nets has a random net over published directions")
    return content
