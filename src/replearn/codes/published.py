"""What a protocol fixes besides numbers and names: one object that every estimator takes."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replearn.codes.basis import Basis
from replearn.codes.design import Design
from replearn.codes.encoding import Encoding
from replearn.codes.model import Label
from replearn.errors import ReplearnError


@dataclass(frozen=True, repr=False)
class Published:
    """What labs have agreed on before any of them looked at its rows.

    Attributes
    ----------
    encoding : Encoding or None
        Scaling and categories of the columns.
    classes : tuple of labels or None
        The labels; rows with others are refused.
    basis : Basis or None
        Directions to round in.
    unit_mean : bool
        Scale the mean of the batch vectors to length 1 before it is rounded.
    design : Design or None
        Directions, start, steps and cells of a logistic regression.
    notes : mapping or None
        What a pilot predicted, for people: a fit that falls short of it says so. No model depends
        on it, so it is not part of what is compared.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> protocol = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900).protocol
    >>> protocol.estimator().published.classes
    (False, True)
    """

    encoding: Encoding | None = None
    classes: tuple[Label, ...] | None = None
    basis: Basis | None = None
    unit_mean: bool = False
    design: Design | None = None
    notes: Mapping[str, Any] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, kind in (("encoding", Encoding), ("basis", Basis), ("design", Design)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise ReplearnError(
                    f"{name} must be None or a {kind.__name__}, got {value!r:.80}. Take it from a "
                    "protocol: Protocol.load(path).estimator()."
                )
        n_classes = 2 if self.design is None else self.design.space.n_classes
        if n_classes == 0 and self.classes is not None:
            raise ReplearnError(f"a regression has no classes, got {self.classes!r:.80}.")
        if self.classes is not None and not _are_labels(self.classes, n_classes):
            number = "two" if n_classes == 2 else n_classes
            raise ReplearnError(
                f"classes must be None or {number} different labels of one type (string, integer, "
                f"boolean) in a tuple, got {self.classes!r:.80}."
            )
        if not isinstance(self.unit_mean, bool):
            raise ReplearnError(f"unit_mean must be True or False, got {self.unit_mean!r:.80}.")

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "basis": None if self.basis is None else self.basis.content(),
            "classes": None if self.classes is None else list(self.classes),
            "encoding": None if self.encoding is None else self.encoding.content(),
            "unit_mean": self.unit_mean,
            "design": None if self.design is None else self.design.content(),
        }

    def __repr__(self) -> str:
        """In one line; the hash tells two of them apart."""
        parts = [] if self.encoding is None else [f"{len(self.encoding.columns)} columns"]
        parts += [] if self.classes is None else [f"classes {self.classes}"]
        parts += [] if self.basis is None else [f"{len(self.basis.rows)} directions"]
        if self.design is not None:
            parts.append(f"{self.design.space.n_components} coded numbers")
        parts += ["unit mean"] if self.unit_mean else []
        content = repr(self.content()).encode(errors="backslashreplace")
        digest = hashlib.sha256(content).hexdigest()
        return f"<Published: {', '.join(parts) or 'nothing'}; {digest[:16]}>"


def _are_labels(classes: object, n_classes: int) -> bool:
    return (
        isinstance(classes, tuple)
        and len(classes) == n_classes
        and isinstance(classes[0], bool | int | str)
        and len({type(label) for label in classes}) == 1
        and len(set(classes)) == n_classes
    )
