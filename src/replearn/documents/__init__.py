"""What is safe to open: files that are read strictly, by the annotations of a dataclass.

A file is a `Document`; what is nested in one is a `Part`. Both are frozen dataclasses::

    @dataclass(frozen=True)
    class Column(Part):
        kind: Literal["number"]
        name: str
        centre: Decimal3
        knots: tuple[Decimal3, ...] = ()
        note: str | None = None  # absent from the file when it is None

        def check(self) -> None:  # a rule across fields
            if self.centre in self.knots:
                raise Unfit(f"no knot may be the centre, got {self.centre}")


    @dataclass(frozen=True)
    class Study(Document):
        FORMAT = "replearn/study"
        columns: Annotated[tuple[Column, ...], Length(1, 5000)]
        sketch: Annotated[Codes, Integers(ndim=1, low=0, high=15)]


    study.save("study.json")
    Study.load("study.json").fingerprint
"""

from replearn.documents.canonical import MAX_WHOLE, canonical_json, decimal_text
from replearn.documents.document import Document, document_of
from replearn.documents.files import (
    FilePath,
    check_page,
    check_replaced,
    check_start,
    in_place_of,
    read_json,
    system_words,
    write_atomically,
    write_json,
)
from replearn.documents.parts import (
    Decimal3,
    DecimalText,
    Integers,
    Label,
    Length,
    NonNegative3,
    Part,
    Positive3,
    Range,
    Sha256,
    Share3,
    Text,
    Unfit,
)
