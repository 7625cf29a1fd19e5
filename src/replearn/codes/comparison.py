"""Whether two models are the same classifier, and if not, which part differs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.codes.canonical import canonical_json
from replearn.codes.model import Model
from replearn.errors import ReplearnError, short

#: Parts without which codes stand for the same point.
_BESIDE_THE_POINT = {"classes", "codes", "encoding"}


@dataclass(frozen=True)
class Comparison:
    """Where two models differ.

    Attributes
    ----------
    same : bool
        Exactly the same classifier: equal canonical bytes, so equal fingerprints, and no column
        name that stands at different places in the two.
    parts : tuple of str
        Parts of the model that differ, by their names in the file (``codes``, ``encoding``,
        ``classes``, ``seed``, ``space``, ...), and ``columns`` for column names at other places.
    differences : tuple of str
        Sentences about these parts; empty if the models are the same.
    notes : tuple of str
        What differs without making another classifier: names of columns.
    n_codes_differing, n_codes : int
        Codes that differ, if both models live in one code space.
    angle_degrees : float or None
        Angle between the two normals, if they have the same inputs and are not too large to be
        decoded unasked.
    n_rows, n_rows_changed : int or None
        Given rows, and those of them that get another class; None if none were given.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> other = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9, shared_seed=1).fit(
    ...     X, y
    ... )
    >>> found = rl.compare(fitted.model_, other.model_)
    >>> found.same, found.parts
    (False, ('codes', 'seed'))
    """

    same: bool
    parts: tuple[str, ...]
    differences: tuple[str, ...]
    notes: tuple[str, ...]
    n_codes_differing: int
    n_codes: int
    angle_degrees: float | None
    n_rows: int | None = None
    n_rows_changed: int | None = None

    def __str__(self) -> str:
        head = (
            "same model: every code is equal"
            if self.same
            else "different models: " + "; ".join(self.differences)
        )
        lines = [head, *(f"note: {note}" for note in self.notes)]
        if self.n_rows is not None:
            lines.append(f"{self.n_rows_changed:,} of {self.n_rows:,} given rows get another class")
        return "\n".join(lines)


def compare(first: Model, second: Model, rows: Any = None) -> Comparison:
    """Say whether two models are the same classifier, and where they differ.

    Parameters
    ----------
    first, second : Model
        In any order.
    rows : array, CSR or table, optional
        Rows to classify by both, to count how many get another class.

    Returns
    -------
    Comparison
        ``same``, and where the two differ; it prints as sentences.

    Notes
    -----
    Column names are no part of a fingerprint, since a lab may hold the same columns without names.
    But a table is read by name: if a name stands at another place in the other model, rows of a
    table are read differently, and the models are not the same.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> classifier = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9)
    >>> model = classifier.fit(X, y).model_
    >>> print(compare(model, model, rows=X))
    same model: every code is equal
    0 of 2,000 given rows get another class
    """
    found = dict(_differences(first.content(), second.content()))
    if moved := _moved_column(first.feature_names, second.feature_names):
        found["columns"] = (moved,)
    renamed = None if moved else _renamed_column(first.feature_names, second.feature_names)
    one_space = not set(found) - _BESIDE_THE_POINT
    n_rows, n_changed = (None, None) if rows is None else _changed(first, second, rows)
    return Comparison(
        same=not found,
        parts=tuple(found),
        differences=tuple(sentence for sentences in found.values() for sentence in sentences),
        notes=() if renamed is None else (renamed,),
        n_codes_differing=int((first.codes != second.codes).sum()) if one_space else 0,
        n_codes=first.codes.size,
        angle_degrees=_angle(first, second, set(found)),
        n_rows=n_rows,
        n_rows_changed=n_changed,
    )


# --- parts ------------------------------------------------------------------------------------


def _differences(
    first: Mapping[str, Any], second: Mapping[str, Any]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Parts that differ, in the order of their names, with sentences about them."""
    for name in sorted(first.keys() | second.keys()):
        left, right = first.get(name), second.get(name)
        if canonical_json(left) == canonical_json(right):  # unlike ==, which says 1 is True
            continue
        if name == "codes":
            yield name, (_codes_sentence(first["codes"], second["codes"]),)
        elif name == "encoding":
            yield name, _encoding_sentences(left, right)
        elif isinstance(left, dict) and isinstance(right, dict):
            yield name, tuple(_values(left, right))
        else:
            yield name, (_values_sentence(f"{name} is", left, right),)


def _values(left: Mapping[str, Any], right: Mapping[str, Any]) -> Iterator[str]:
    differ = [
        name
        for name in sorted(left.keys() | right.keys())
        if canonical_json(left.get(name)) != canonical_json(right.get(name))
    ]
    for name in differ:
        if differ == ["hint"]:
            yield (
                f"the hints are {short(left[name])} and {short(right[name])}: both labs fitted "
                "as the first one, so one of them must fit again with the hint of the other"
            )
        else:
            yield _values_sentence(f"{name} is", left.get(name), right.get(name))


def _values_sentence(start: str, left: Any, right: Any) -> str:
    return f"{start} {short(left)} and {short(right)}"


def _codes_sentence(first: Sequence[int], second: Sequence[int]) -> str:
    if len(first) != len(second):
        return f"there are {len(first):,} and {len(second):,} codes"
    n_differing = sum(left != right for left, right in zip(first, second, strict=True))
    return f"{n_differing:,} of {len(first):,} codes differ"


def _encoding_sentences(
    first: Sequence[Mapping[str, Any]] | None, second: Sequence[Mapping[str, Any]] | None
) -> tuple[str, ...]:
    if first is None or second is None:
        return (f"only the {'first' if second is None else 'second'} has an encoding",)
    left = {column["name"]: column for column in first}
    right = {column["name"]: column for column in second}
    sentences = [
        f"only the {which} encodes the column {short(name)}"
        for which, own, other in (("first", left, right), ("second", right, left))
        for name in own
        if name not in other
    ]
    for name in left.keys() & right.keys():
        facts = left[name].keys() | right[name].keys()
        sentences += [
            _values_sentence(
                f"column {short(name)} of the encoding has {fact}",
                left[name].get(fact),
                right[name].get(fact),
            )
            for fact in sorted(facts)
            if left[name].get(fact) != right[name].get(fact)
        ]
    return tuple(sorted(sentences)) or ("the encoding has its columns in another order",)


# --- columns ----------------------------------------------------------------------------------


def _moved_column(first: Sequence[str] | None, second: Sequence[str] | None) -> str | None:
    """The first column name that stands elsewhere in the second model, in words."""
    if first is None or second is None or tuple(first) == tuple(second):
        return None
    places = {name: place for place, name in enumerate(second, start=1)}
    for place, name in enumerate(first, start=1):
        if places.get(name, place) != place:
            return (
                f"column {short(name)} stands at place {place} in the first and at place "
                f"{places[name]} in the second, so tables are read differently"
            )
    return None


def _renamed_column(first: Sequence[str] | None, second: Sequence[str] | None) -> str | None:
    """The first column with another name, in words."""
    if first is None or second is None:
        if first == second:
            return None
        return f"only the {'first' if second is None else 'second'} names its columns"
    for place, (left, right) in enumerate(zip(first, second, strict=False), start=1):
        if left != right:
            return (
                f"column {place} is named {short(left)} in the first and {short(right)} in the "
                "second"
            )
    return None


# --- what the difference means ----------------------------------------------------------------


def _angle(first: Model, second: Model, parts: set[str]) -> float | None:
    if not first.is_halfspace or not second.is_halfspace or parts & {"encoding", "columns"}:
        return None
    if first.space.n_inputs != second.space.n_inputs:
        return None
    if not parts:
        return 0.0
    if max(first.n_classes, second.n_classes) > 2:
        return None
    if first.is_large or second.is_large:
        return None
    return math.degrees(math.acos(float(np.clip(first.direction @ second.direction, -1, 1))))


def _changed(first: Model, second: Model, rows: Any) -> tuple[int, int]:
    """Number of rows, and of those that get another class."""
    labels = []
    for which, model in (("first", first), ("second", second)):
        try:
            labels.append(model.predict(rows).astype(object))
        except ReplearnError as problem:
            raise ReplearnError(f"the rows do not fit the {which} model: {problem}") from None
    return labels[0].size, int((labels[0] != labels[1]).sum())
