"""What the annotations of a class say about a file: how a value is read, checked and written."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import cycle
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NoReturn,
    Self,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from replearn.documents.canonical import MAX_WHOLE, Canonical, canonical_json, decimal_text
from replearn.errors import ReplearnError, short

MAX_TEXT = 1 << 12
MAX_ITEMS = 1 << 20

#: A label of a class.
Label = bool | int | str

_GET_AGAIN = "If it is the right file, get it again from its source."
_DECIMAL = re.compile(r"-?[0-9]{1,21}(\.[0-9]{1,30})?(e[+-][0-9]{1,3})?")
_HALF = re.compile("[\ud800-\udfff]")
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")


class Unfit(ReplearnError):
    """A value that does not fit its place; the reader of the file adds where that is.

    The rule has no full stop: "must be below 5, got 7". A key is like "columns[3].centre".
    """

    def __init__(self, rule: str, remedy: str = _GET_AGAIN, key: str = "") -> None:
        said = rule
        if key and rule.startswith("must "):
            said = f"{key} {rule}"
        elif key:
            said = f"{key}: {rule}"
        super().__init__(f"{said}. {remedy}")
        self.rule, self.remedy, self.key = rule, remedy, key

    def inside(self, key: str) -> "Unfit":
        """The same complaint, seen from one level above."""
        if self.key and not self.key.startswith("["):
            key += "."
        return Unfit(self.rule, self.remedy, key + self.key)


def _refuse(rule: str, value: Any) -> NoReturn:
    got = short(value)
    if isinstance(value, dict | list):
        got = f"{type(value).__name__} of {len(value):,}"
    raise Unfit(f"must be {rule}, got {got}")


class _Kind:
    """Reads a value of JSON or raises `Unfit`; writes it again."""

    def _read(self, value: Any) -> Any:
        raise NotImplementedError

    def _write(self, value: Any) -> Any:
        return value


def _as_text(kind: "Range | Integers") -> bool:
    """Whether some whole numbers of this kind are too large for a number of JSON."""
    return max(abs(kind.low), abs(kind.high)) > MAX_WHOLE


@dataclass(frozen=True)
class Range(_Kind):
    """Whole numbers from ``low`` to ``high``; written as text if some are beyond 2^53."""

    low: int = -MAX_WHOLE
    high: int = MAX_WHOLE

    def _read(self, value: Any) -> int:
        number, where = value, ""
        if _as_text(self):
            number, where = self._from_text(value), " in a string"
        if type(number) is not int or not self.low <= number <= self.high:
            _refuse(f"a whole number from {self.low:,} to {self.high:,}{where}", value)
        return number

    def _from_text(self, value: Any) -> int | None:
        """The number that a text is; a long one is not even looked at."""
        most = 1 + len(str(max(abs(self.low), abs(self.high))))
        if isinstance(value, str) and len(value) <= most and _WHOLE.fullmatch(value):
            return int(value)
        return None

    def _write(self, value: int) -> int | str:
        if _as_text(self):
            return str(int(value))
        return int(value)


@dataclass(frozen=True)
class Text(_Kind):
    """A string of at most ``most`` characters, as the regular expression ``pattern`` says."""

    most: int = MAX_TEXT
    pattern: str | None = None

    def _read(self, value: Any) -> str:
        if not isinstance(value, str) or not len(value) <= self.most:
            _refuse(f"a string of at most {self.most:,} characters", value)
        if _HALF.search(value):
            _refuse("a string of whole characters", value)
        if self.pattern is not None and re.fullmatch(self.pattern, value) is None:
            _refuse(f"a string like {self.pattern}", value)
        return value


@dataclass(frozen=True)
class DecimalText(_Kind):
    """A decimal number in a string, in the one form that `decimal_text` writes."""

    digits: int = 3
    low: float = -1e300
    high: float = 1e300

    def _read(self, value: Any) -> str:
        if (
            not isinstance(value, str)
            or not _DECIMAL.fullmatch(value)
            or not self.low <= float(value) <= self.high
            or value != decimal_text(float(value), self.digits)
        ):
            _refuse(
                f"a decimal number from {self.low:g} to {self.high:g} with at most {self.digits} "
                "digits, in a string",
                value,
            )
        return value


@dataclass(frozen=True)
class Integers(_Kind):
    """An array of whole numbers, as lists; a triangle holds row i up to the diagonal.

    If some may be beyond 2^53, all are written as text, and read as Python integers.
    """

    ndim: int = 1
    low: int = -MAX_WHOLE
    high: int = MAX_WHOLE
    max_size: int = MAX_ITEMS
    triangular: bool = False

    def _read(self, value: Any) -> Any:
        rows, form = value, "a list of rows"
        if self.ndim == 1:
            rows, form = [value], "a list"
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            _refuse(form, value)
        if len(rows) * max(map(len, rows), default=0) > self.max_size:
            _refuse(f"an array of at most {self.max_size:,} numbers", value)

        if _as_text(self):
            one = Range(self.low, self.high)
            rows = [[one._read(cell) for cell in row] for row in rows]
        self._check_rows(rows, value)
        return self._array(rows)

    def _check_rows(self, rows: list[list[Any]], value: Any) -> None:
        """The shape, and then the numbers of each row."""
        form, sizes = "rectangular", [len(row) for row in rows[:1]] * len(rows)
        if self.triangular:
            form, sizes = "triangular", list(range(1, len(rows) + 1))

        for size, row in zip(sizes, rows, strict=True):
            if len(row) != size:
                _refuse(form, value)
            if not row:
                continue
            # rows are long: built-in functions look at them faster than a loop
            if set(map(type, row)) != {int} or min(row) < self.low or max(row) > self.high:
                odd = next(v for v in row if type(v) is not int or not self.low <= v <= self.high)
                _refuse(f"whole numbers from {self.low:,} to {self.high:,}", odd)

    def _array(self, rows: list[list[int]]) -> Any:
        """Rows with zeros up to the length of the last, as an array that nobody writes to."""
        import numpy as np  # not needed for words, so that `replearn --help` is quick

        n_columns = max(map(len, rows[-1:]), default=0)
        padded = [row + [0] * (n_columns - len(row)) for row in rows]
        kind: Any = np.int64
        if _as_text(self):
            kind = object

        array = np.array(padded, dtype=kind).reshape((len(rows), n_columns)[-self.ndim :])
        array.setflags(write=False)
        return array

    def _write(self, value: Any) -> list[Any]:
        import numpy as np

        array = np.asarray(value)
        if _as_text(self):
            texts = [str(int(cell)) for cell in array.flat]
            array = np.array(texts, dtype=object).reshape(array.shape)
        elif array.dtype.kind == "f":
            array = array.astype(np.int64)

        rows: list[Any] = array.tolist()
        if not self.triangular:
            return rows
        return [row[: i + 1] for i, row in enumerate(rows)]


@dataclass(frozen=True)
class Length:
    """How many items a tuple may have."""

    low: int = 0
    high: int = MAX_ITEMS


#: Decimal numbers with three digits; positive ones; probabilities.
Decimal3 = Annotated[str, DecimalText()]
Positive3 = Annotated[str, DecimalText(low=1e-300)]
NonNegative3 = Annotated[str, DecimalText(low=0)]
Share3 = Annotated[str, DecimalText(low=0, high=1)]
#: A SHA-256 in hex.
Sha256 = Annotated[str, Text(64, "[0-9a-f]{64}")]


class _AnyLabel(_Kind):
    def _read(self, value: Any) -> Label:
        if isinstance(value, bool):  # before int: True is one of these, too
            return value
        if isinstance(value, int):
            return Range()._read(value)
        return Text()._read(value)


@dataclass(frozen=True)
class OneOf(_Kind):
    """One of these values, which ``Literal`` stands for."""

    choices: tuple[Any, ...]

    def _read(self, value: Any) -> Any:
        if not any(type(value) is type(choice) and value == choice for choice in self.choices):
            _refuse(" or ".join(map(repr, self.choices)), value)
        return value


@dataclass(frozen=True)
class _Items(_Kind):
    """A tuple: of one kind and any length, or of one kind for each place."""

    kinds: tuple[_Kind, ...]
    length: Length

    def _read(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list) or not self.length.low <= len(value) <= self.length.high:
            _refuse(f"a list of {self.length.low:,} to {self.length.high:,} items", value)
        pairs = zip(cycle(self.kinds), value, strict=False)
        return tuple(read_inside(f"[{i}]", kind, item) for i, (kind, item) in enumerate(pairs))

    def _write(self, value: Any) -> list[Any]:
        return [kind._write(item) for kind, item in zip(cycle(self.kinds), value, strict=False)]


@dataclass(frozen=True)
class _PartOf(_Kind):
    """One class, or the one of several whose literal ``kind`` the value names."""

    classes: "tuple[type[Part], ...]"

    @cached_property
    def _by_kind(self) -> "dict[str, type[Part]]":
        return {get_args(get_type_hints(cls)["kind"])[0]: cls for cls in self.classes}

    def _read(self, value: Any) -> "Part":
        if len(self.classes) == 1:
            return self.classes[0]._read(value)

        kinds, kind = self._by_kind, None
        if isinstance(value, dict):
            kind = value.get("kind")
        if not isinstance(kind, str) or kind not in kinds:
            _refuse(f"an object of the kind {' or '.join(map(repr, kinds))}", value)
        return kinds[kind]._read(value)

    def _write(self, value: Any) -> dict[str, Any]:
        return value.content()


@dataclass(frozen=True)
class Part:
    """A frozen dataclass that is part of a file; its annotations are the format.

    Subclasses are decorated with ``@dataclass(frozen=True)``. Fields may be ``int`` (or
    ``Annotated[int, Range(0, 9)]``), ``bool``, ``str`` (or with `Text`), decimals in a string
    (`Decimal3` and others with `DecimalText`), ``Literal``, `Label`, ``tuple[T, ...]`` (or with
    `Length`), ``tuple[A, B]``, integer arrays with `Integers`, parts, and unions of parts that a
    literal ``kind`` tells apart. A field ``T | None`` is absent from
    the file when it is None; all others must be there. Fields with ``compare=False`` are not
    part of the content. Parts with equal content are equal.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep equality by content: the decorator would write its own, and arrays have no truth."""
        super().__init_subclass__(**options)
        for name in ("__eq__", "__hash__"):
            if name not in cls.__dict__:
                setattr(cls, name, getattr(cls, name))

    def check(self) -> None:
        """Refuse what breaks a rule across fields: raise `Unfit`."""

    def content(self) -> dict[str, Any]:
        """What defines it, as JSON types."""
        return {name: kind._write(value) for name, kind, value in self._given()}

    def _given(self) -> "Iterator[tuple[str, _Kind, Any]]":
        """Fields that stand in the file, by name, with their kinds."""
        for name, (kind, _) in _kinds_of(type(self)).items():
            if (value := getattr(self, name)) is not None:
                yield name, kind, value

    def canonical_bytes(self) -> bytes:
        """Canonical JSON (RFC 8785) of the content.

        Returns
        -------
        text : bytes
            What the fingerprint is made of.
        """
        return self._canonical.encode()

    def _heading(self) -> dict[str, Any]:
        """What stands in a file before the fields."""
        return {}

    @cached_property
    def _canonical(self) -> Canonical:
        """Canonical JSON, made once: many models that are tried share one design."""
        content = self._heading()
        for name, kind, value in self._given():
            content[name] = value._canonical if isinstance(value, Part) else kind._write(value)
        return Canonical(canonical_json(content).decode())

    @classmethod
    def _read(cls, value: Any) -> Self:
        kinds = _kinds_of(cls)
        if not isinstance(value, dict):
            _refuse("an object", value)

        # keys first, so that a file of a newer version is called one
        for key in value:
            if key not in kinds:
                raise Unfit(f"the key {short(key)} is unknown", "Does it need a newer replearn?")
        for name, (_, optional) in kinds.items():
            if name not in value and not optional:
                raise Unfit(f"the key {name!r} is missing")

        given = {name: read_inside(name, kinds[name][0], item) for name, item in value.items()}
        part = cls(**dict.fromkeys(kinds) | given)
        part.check()
        return part

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Part) or type(other) is not type(self):
            return False
        return self.canonical_bytes() == other.canonical_bytes()  # in Python True equals 1

    def __hash__(self) -> int:
        return hash(self.canonical_bytes())


def read_inside(key: str, kind: _Kind, value: Any) -> Any:
    """The value at a key; a complaint names the key."""
    try:
        return kind._read(value)
    except Unfit as problem:
        raise problem.inside(key) from None


def _find_kinds(cls: Any) -> dict[str, tuple[_Kind, bool]]:
    """The kind of each field, and whether it may be absent."""
    hints = get_type_hints(cls, include_extras=True)
    kinds = {}
    for field in fields(cls):
        if field.compare:  # the others are no part of the content
            members = _members(hints[field.name])
            given = tuple(member for member in members if member is not NoneType)
            kinds[field.name] = (_kind_of(given), len(given) < len(members))
    return kinds


#: The same, looked up once for each class.
_kinds_of: Callable[[Any], dict[str, tuple[_Kind, bool]]] = cache(_find_kinds)


def _members(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) in (Union, UnionType):
        return get_args(hint)
    return (hint,)


def _kind_of(members: tuple[Any, ...], length: Length | None = None) -> _Kind:
    """The kind that an annotation means, given the members of its union."""
    if set(members) == set(get_args(Label)):
        return _AnyLabel()
    if all(isinstance(member, type) and issubclass(member, Part) for member in members):
        return _PartOf(members)
    if len(members) > 1:
        raise TypeError(f"only parts may form a union, got {members}")

    # a plain type
    (hint,) = members
    simple: dict[Any, _Kind] = {int: Range(), bool: OneOf((False, True)), str: Text()}
    if hint in simple:
        return simple[hint]

    # a type with what restricts it: a kind, or the length of a tuple
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        last = hint.__metadata__[-1]
        if isinstance(last, Length):
            return _kind_of(inner[:1], last)
        return last
    if origin is Literal:
        return OneOf(inner)

    # tuples
    if origin is tuple and inner[-1] is Ellipsis:
        return _Items((_kind_of(_members(inner[0])),), length or Length())
    if origin is tuple:
        kinds = tuple(_kind_of(_members(member)) for member in inner)
        return _Items(kinds, Length(len(kinds), len(kinds)))
    raise TypeError(f"files hold no {hint}")
