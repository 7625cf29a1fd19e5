"""A document: a frozen dataclass that is a file with a format, a version and a fingerprint."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self, TypeVar

from replearn.documents.files import (
    MAX_BYTES,
    FilePath,
    check_replaced,
    design_kind,
    read_json,
    write_json,
)
from replearn.documents.parts import OneOf, Part, Unfit, read_inside
from replearn.errors import InvalidFile, ReplearnError, short

D = TypeVar("D", bound="Document")

#: A study and a model are easily confused: the format needed, that of the file, and a remedy.
_CONFUSED = {
    ("replearn/model", "replearn/study"): (
        "This is a study: replearn replicate STUDY TABLE --out MODEL writes a model."
    ),
    ("replearn/study", "replearn/model"): (
        "This is a model: the study is the file that replearn publish --out wrote."
    ),
}


@dataclass(frozen=True)
class Document(Part):
    """A `Part` that is a file of its own; see there for what its fields may be.

    Parameters
    ----------
    provenance : dict, optional
        Facts about the run (date, host, versions) as JSON types. It is kept in the file and is
        part of neither content nor fingerprint.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Note(Document):
    ...     FORMAT = "replearn/note"
    ...     text: str
    >>> Note("hello").content()
    {'format': 'replearn/note', 'version': 1, 'text': 'hello'}
    >>> Note("hello") == Note("hello", provenance={"by": "lab A"})
    True
    """

    FORMAT: ClassVar[str]
    VERSION = 1
    MAX_BYTES = MAX_BYTES
    #: The ``kind`` of its ``design``, in a subclass of a class that has kinds; else None.
    KIND: ClassVar[str | None] = None

    provenance: dict[str, Any] | None = field(default=None, kw_only=True, compare=False, repr=False)

    def __init_subclass__(cls, **options: Any) -> None:
        """Keep the representation in one line, as `Part` keeps equality."""
        super().__init_subclass__(**options)
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def content(self) -> dict[str, Any]:
        """What defines it, as JSON types: all that the fingerprint covers.

        Returns
        -------
        content : dict
            Format, version and all fields.
        """
        return self._heading() | super().content()

    def _heading(self) -> dict[str, Any]:
        return {"format": self.FORMAT, "version": self.VERSION}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical bytes, in hex: equal if and only if the contents are."""
        return hashlib.sha256(self.canonical_bytes()).hexdigest()

    def save(self, path: FilePath, private: bool = False, new: bool = False) -> None:
        """Write the file, whole or not at all; a private one only its owner may read.

        A ``new`` one replaces no file, not even one that appears at the same time.

        What `load` would refuse is not written, and no file of a different kind is replaced.

        Parameters
        ----------
        path : path
            The file to write.
        private : bool, default=False
            Only the owner may read it.
        new : bool, default=False
            Replace no file.
        """
        self.refuse_unreadable(path)
        named = self.FORMAT
        if self.KIND is not None:
            named += f"/{self.KIND}"
        check_replaced(path, (named,), private)

        content = self.content() | {"fingerprint": self.fingerprint}
        if self.provenance is not None:
            content["provenance"] = self.provenance
        write_json(path, content, private, new)

    def refuse_unreadable(self, path: FilePath) -> None:
        """Stop before a file that `load` would refuse, or others beside it, are written.

        Parameters
        ----------
        path : path
            The file that would be written.
        """
        try:
            self._read(Part.content(self))
        except ReplearnError as problem:
            raise ReplearnError(f"{path} was not written: {problem}") from None

    @classmethod
    def load(cls, path: FilePath) -> Self:
        """Read a file strictly: `InvalidFile` if anything in it is not as the class says.

        Parameters
        ----------
        path : path
            The file to read.

        Returns
        -------
        document : instance of the class
            Checked, its fingerprint included.
        """
        return cls.from_content(read_json(path, cls.MAX_BYTES), str(path))

    @classmethod
    def from_content(cls, content: Any, where: str = "the document") -> Self:
        """The same from what JSON gives; ``where`` names it in messages.

        A class that has kinds gives one of the subclass that the design names.

        Parameters
        ----------
        content : dict
            What JSON gives.
        where : str
            Its name in messages.

        Returns
        -------
        document : instance of the class
            Checked.
        """
        body = {}
        if isinstance(content, dict):
            body = dict(content)

        try:
            # the header first: a file of a different kind breaks every other rule, too
            named = body.pop("format", None)
            if remedy := _CONFUSED.get((cls.FORMAT, str(named))):
                raise Unfit(f"must be {cls.FORMAT!r}, got {named!r}", remedy, "format")
            read_inside("format", OneOf((cls.FORMAT,)), named)
            read_inside("version", OneOf((cls.VERSION,)), body.pop("version", None))
            kind, kinds = design_kind(body), {one.KIND: one for one in cls.__subclasses__()}
            if cls.KIND not in (None, kind):
                rule = f"must be {cls.KIND!r}, got {short(kind)}"
                raise Unfit(rule, "replearn.load opens files of all kinds.", "design.kind")
            if cls.KIND is None and any(kinds):
                read_inside("design.kind", OneOf(tuple(sorted(kinds))), kind)
                return kinds[kind].from_content(content, where)

            said, provenance = body.pop("fingerprint", None), body.pop("provenance", None)
            if "provenance" in content and not isinstance(provenance, dict):
                raise Unfit(f"must be an object, got {short(provenance)}", key="provenance")
            document = cls._read(body)
            if "fingerprint" in content and said != document.fingerprint:
                raise Unfit(
                    f"must be {document.fingerprint}, got {short(said, 70)}: the file was altered",
                    key="fingerprint",
                )
        except ReplearnError as problem:  # of `check`, or of a constructor
            raise InvalidFile(f"{where}: {problem}") from None

        object.__setattr__(document, "provenance", provenance)  # nobody has seen it yet
        return document

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.fingerprint[:16]}>"


def document_of(path: FilePath, classes: Iterable[type[D]]) -> D:
    """Read a file of whichever of these classes its header names."""
    known = {cls.FORMAT: cls for cls in classes}
    content = read_json(path, max(cls.MAX_BYTES for cls in known.values()))
    try:
        named = read_inside("format", OneOf(tuple(known)), content.get("format"))
    except Unfit as problem:
        raise InvalidFile(f"{path}: {problem}") from None
    return known[named].from_content(content, str(path))
