"""Documents: exact bytes, round trips, refusals in words."""

import errno
import json
import os
import stat
import subprocess
import sys
from copy import deepcopy
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from replearn.documents import (
    MAX_WHOLE,
    Decimal3,
    Document,
    Integers,
    Label,
    Length,
    Part,
    Range,
    Sha256,
    Unfit,
    canonical_json,
    decimal_text,
    document_of,
    in_place_of,
    read_json,
    write_atomically,
    write_json,
)
from replearn.errors import InvalidFile, ReplearnError
from replearn.types import Codes


@dataclass(frozen=True)
class Number(Part):
    name: str
    centre: Decimal3
    knots: tuple[Decimal3, ...] = ()
    kind: Literal["number"] = "number"

    def check(self) -> None:
        if self.centre in self.knots:
            raise Unfit(f"no knot may be the centre, got {self.centre}", "Choose a different knot.")


@dataclass(frozen=True)
class Levels(Part):
    name: str
    levels: Annotated[tuple[str, ...], Length(1, 3)]
    kind: Literal["levels"] = "levels"


@dataclass(frozen=True)
class Paper(Document):
    FORMAT = "replearn/paper"

    columns: tuple[Number | Levels, ...]
    classes: tuple[Label, ...]
    pair: tuple[Annotated[int, Range(-9, 9)], bool]
    total: Annotated[int, Range(-(2**90), 2**90)]
    codes: Annotated[Codes, Integers(1, 0, 7, 4)]
    metric: Annotated[Codes, Integers(2, triangular=True)]
    table: Annotated[Codes, Integers(2)]
    seal: Sha256 | None = None
    best: Label | None = None


@dataclass(frozen=True)
class Memo(Document):
    FORMAT = "replearn/memo"
    VERSION = 2
    MAX_BYTES = 200

    text: str


def a_paper(**changes: Any) -> Paper:
    paper = Paper(
        columns=(Number("age", "54.5", ("40", "6.1e+22")), Levels("ward", ("A", "é"))),
        classes=("no", "yes"),
        pair=(-3, True),
        total=2**80,
        codes=np.array([0, 7, 3]),
        metric=np.array([[1, 0], [-2, MAX_WHOLE]]),
        table=np.array([[1, 2, 3]]),
    )
    return replace(paper, **changes)


# ---------------------------------------------------------------- canonical JSON

#: Without surrogates: hypothesis finds that out by encoding every character, in seconds.
CHARACTERS = st.characters(exclude_categories=("Cs",))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_WHOLE, MAX_WHOLE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(CHARACTERS),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text(CHARACTERS), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(JSON)
def test_canonical_json_is_rfc_8785(content: Any) -> None:
    assert canonical_json(content) == rfc8785.dumps(content)


@pytest.mark.parametrize(
    "content", [float("nan"), float("inf"), 2**53, [1, -(2**53)], "\ud800", {"a": {"\udc00": 1}}]
)
def test_what_json_cannot_hold_is_refused(content: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON has no|beyond 2\^53|surrogates"):
        canonical_json(content)


def test_bytes_of_parts_within_parts_are_those_of_the_content() -> None:
    @dataclass(frozen=True)
    class Signed(Document):
        FORMAT = "replearn/signed"

        paper: Paper
        note: Memo | None = None

    for note in (None, Memo("é")):
        signed = Signed(a_paper(), note)
        assert signed.canonical_bytes() == rfc8785.dumps(signed.content())
    assert signed.canonical_bytes() != Signed(a_paper(pair=(3, True)), note).canonical_bytes()


@given(st.floats(-1e300, 1e300), st.integers(1, 17))
def test_decimal_text_is_a_fixed_point(value: float, digits: int) -> None:
    text = decimal_text(value, digits)
    assert decimal_text(float(text), digits) == text
    assert float(text) == float(f"{value:.{digits}g}")


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": 1e999}', "1e999 is no number"),
        (b'{"a": 1, "a": 1}', "twice"),
        (b'{"a": "\\ud800"}', "half of a character"),
        (b'{"\\udfff": 1}', "half of a character"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "nested"),
        (b'{"a": ' + b"[" * 100_000, "nested"),
        (b'{"a": [' + b"[]," * (1 << 20), "lists and objects"),
        (b"[1]", "no object"),
        (b'{"a": "\xff"}', "UTF-8"),
        (b'{"a": ' + b"9" * 5000 + b"}", "one JSON object"),
        (b'{"a": 1', "one JSON object"),
        (b"", "one JSON object"),
        (b"{}" + b" " * 100, "at most 99 bytes, got 102"),
    ],
)
def test_bad_json_is_refused(tmp_path: Any, content: bytes, words: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InvalidFile, match=words) as caught:
        read_json(path, max_bytes=99 if b"{}" in content else 1 << 22)
    assert str(path) in str(caught.value)


def test_whole_characters_in_two_escapes_are_read(tmp_path: Any) -> None:
    (tmp_path / "a.json").write_bytes(b'{"a": "\\ud83d\\ude00"}')
    assert read_json(tmp_path / "a.json") == {"a": "\U0001f600"}


def test_only_regular_files_are_read(tmp_path: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in [(tmp_path, "folder"), (tmp_path / "pipe", "regular"), ("/dev/zero", "reg")]:
        with pytest.raises(InvalidFile, match=words):
            read_json(path)
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "none.json")


def test_a_file_is_replaced_whole_and_links_stay(tmp_path: Any) -> None:
    target, link = tmp_path / "a", tmp_path / "b"
    link.symlink_to(target)
    write_atomically(target, b"old")
    write_atomically(link, b"new")
    assert target.read_bytes() == b"new"
    assert link.is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_private_file_is_its_owners(tmp_path: Any) -> None:
    mask = os.umask(0o022)
    try:
        for private, mode in [(True, 0o600), (False, 0o644)]:
            write_json(tmp_path / "a", {}, private)
            assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == mode
    finally:
        os.umask(mask)


@pytest.mark.parametrize("function", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_atomically(tmp_path / "a", b"old")
    monkeypatch.setattr(os, function, full)
    with pytest.raises(ReplearnError, match=r"No space left on device\. Free some space"):
        write_atomically(tmp_path / "a", b"new")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_writer_left_is_removed_a_day_later(tmp_path: Any, kind: str) -> None:
    target = tmp_path / f"{kind}[1]"
    script = (
        "import os, sys; from replearn.documents import in_place_of\n"
        "with in_place_of(sys.argv[1], folder=sys.argv[2] == 'folder') as made: os._exit(9)"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script, str(target), kind], check=False)
    old, fresh = tmp_path.iterdir()  # the fresh one may belong to a living writer
    os.utime(old, (1, 1))
    with in_place_of(target, folder=kind == "folder"):
        assert not old.exists()
    assert sorted(tmp_path.iterdir()) == sorted([fresh, target])


def test_a_missing_folder_is_named(tmp_path: Any) -> None:
    with pytest.raises(ReplearnError, match=r"none/a cannot be written.*Check the path"):
        write_atomically(tmp_path / "none" / "a", b"")


# ---------------------------------------------------------------- documents


def test_exact_bytes(tmp_path: Any) -> None:
    Memo("é", provenance={"rows": 1.5}).save(tmp_path / "m")
    content = canonical_json({"format": "replearn/memo", "version": 2, "text": "é"})
    fingerprint = sha256(content).hexdigest()
    assert (tmp_path / "m").read_text("utf-8") == (
        f'{{"fingerprint":"{fingerprint}","format":"replearn/memo",'
        '"provenance":{"rows":1.5},"text":"é","version":2}\n'
    )


def test_round_trip(tmp_path: Any) -> None:
    paper = a_paper(best=1, provenance={"by": "lab A"})
    paper.save(tmp_path / "p")
    again = document_of(tmp_path / "p", [Memo, Paper])
    assert isinstance(again, Paper)
    assert again == paper
    assert hash(again) == hash(paper)
    assert again.fingerprint == paper.fingerprint == sha256(paper.canonical_bytes()).hexdigest()
    assert again.provenance == {"by": "lab A"}
    assert again.columns == paper.columns
    assert again.seal is None
    assert "seal" not in read_json(tmp_path / "p")
    assert np.array_equal(again.metric, paper.metric)
    assert not again.metric.flags.writeable
    assert read_json(tmp_path / "p")["metric"] == [[1], [-2, MAX_WHOLE]]
    assert repr(again) == f"<Paper {paper.fingerprint[:16]}>"


def test_equality_is_by_content() -> None:
    assert a_paper() == a_paper(provenance={"a": 1})
    assert a_paper(best=1) != a_paper(best=True)
    assert Number("a", "1") != Levels("a", ("1",))
    assert Memo("a") != "a"


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"format": "x"}, "paper.json: format must be 'replearn/paper', got 'x'"),
    ({"version": 2}, "version must be 1, got 2"),
    ({"version": True}, "version must be 1, got True"),
    ({"odd": 1}, "the key 'odd' is unknown. Does it need a newer replearn?"),
    (
        {"columns": [{"kind": "odd"}]},
        "columns[0] must be an object of the kind 'number' or 'levels'",
    ),
    ({"columns": [{"kind": ["number"]}]}, "columns[0] must be an object of the kind"),
    ({"columns": [{"kind": "number", "name": "a"}]}, "columns[0]: the key 'centre' is missing"),
    (
        {"columns": [{"kind": "number", "name": "a", "centre": "1", "knots": ["1"]}]},
        "columns[0]: no knot may be the centre, got 1. Choose a different knot.",
    ),
    (
        {"columns": [{"kind": "levels", "name": "a", "levels": []}]},
        "columns[0].levels must be a list of 1 to 3 items, got list of 0",
    ),
    ({"classes": [1, 2.0]}, "classes[1] must be a string"),
    ({"classes": [2**53]}, "classes[0] must be a whole number"),
    (
        {"classes": ["a" * 5000]},
        "classes[0] must be a string of at most 4,096 characters, got 'aaa",
    ),
    ({"pair": [1]}, "pair must be a list of 2 to 2 items"),
    ({"pair": [True, True]}, "pair[0] must be a whole number"),
    ({"pair": [1, 0]}, "pair[1] must be False or True, got 0"),
    ({"pair": [10, True]}, "pair[0] must be a whole number from -9 to 9, got 10"),
    ({"total": 5}, "in a string, got 5"),
    ({"total": "05"}, "in a string, got '05'"),
    ({"total": "9" * 5000}, "in a string, got '999"),
    ({"codes": [8]}, "codes must be whole numbers from 0 to 7, got 8"),
    ({"codes": [True]}, "codes must be whole numbers from 0 to 7, got True"),
    ({"codes": [1.0]}, "got 1.0"),
    ({"codes": [[1]]}, "codes must be whole numbers"),
    ({"codes": [0] * 5}, "codes must be an array of at most 4 numbers"),
    ({"codes": {"0": 1}}, "codes must be a list, got dict of 1"),
    ({"table": [[0] * (2**20 + 1)]}, "table must be an array of at most 1,048,576 numbers"),
    ({"metric": [[1, 0], [2, 3]]}, "metric must be triangular"),
    ({"table": [[1, 0], [2]]}, "table must be rectangular"),
    ({"table": [1, 2]}, "table must be a list of rows"),
    ({"seal": None}, "seal must be a string"),
    ({"seal": "A" * 64}, "seal must be a string like"),
    ({"fingerprint": "0"}, "the file was altered"),
    ({"fingerprint": None}, "fingerprint must be"),
    ({"provenance": None}, "provenance must be an object, got None"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_refusals(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        Paper.from_content(a_paper().content() | changes, "paper.json")
    assert str(caught.value).startswith("paper.json: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["0.50", "-0", ".5", "5.", "+1", "1e5", "1e-07", "1234", " 1", "inf", "1e400", "1_0", ""],
)
def test_a_decimal_has_one_form(text: str) -> None:
    column = {"kind": "number", "name": "a", "centre": text, "knots": []}
    content = a_paper().content() | {"columns": [column]}
    with pytest.raises(InvalidFile, match="centre must be a decimal number"):
        Paper.from_content(content)


def test_what_cannot_be_loaded_is_not_saved(tmp_path: Any) -> None:
    with pytest.raises(ReplearnError, match=r"was not written: codes must be .* got 9"):
        a_paper(codes=np.array([9])).save(tmp_path / "p")
    with pytest.raises(ReplearnError, match=r"was not written: columns\[0\]: no knot"):
        a_paper(columns=(Number("a", "1", ("1",)),)).save(tmp_path / "p")
    assert not os.listdir(tmp_path)


def test_size_and_format_are_checked_first(tmp_path: Any) -> None:
    Memo("a" * 300).save(tmp_path / "m")
    with pytest.raises(InvalidFile, match="at most 200 bytes"):
        Memo.load(tmp_path / "m")
    a_paper().save(tmp_path / "p")
    with pytest.raises(InvalidFile, match="format must be 'replearn/memo'"):
        document_of(tmp_path / "p", [type("Big", (Memo,), {"MAX_BYTES": 1 << 20})])
    with pytest.raises(InvalidFile, match="format must be"):
        Paper.from_content([1])


LABELS = st.booleans() | st.integers(-MAX_WHOLE, MAX_WHOLE) | st.text(CHARACTERS, max_size=5)
DECIMALS = st.floats(-1e9, 1e9).map(decimal_text)
PAPERS = st.builds(
    Paper,
    columns=st.lists(
        st.builds(Number, st.text(CHARACTERS, max_size=5), DECIMALS, kind=st.just("number"))
        | st.builds(
            Levels,
            st.text(CHARACTERS, max_size=5),
            st.lists(st.text(CHARACTERS, max_size=3), min_size=1, max_size=3).map(tuple),
            kind=st.just("levels"),
        ),
        max_size=3,
    ).map(tuple),
    classes=st.lists(LABELS, max_size=3).map(tuple),
    pair=st.tuples(st.integers(-9, 9), st.booleans()),
    total=st.integers(-(2**90), 2**90),
    codes=st.lists(st.integers(0, 7), max_size=4).map(lambda codes: np.array(codes, dtype=int)),
    metric=st.integers(0, 3).map(lambda n: np.tril(np.arange(n * n).reshape(n, n))),
    table=st.integers(0, 3).map(lambda n: np.arange(2 * n).reshape(n, 2)),
    seal=st.none() | st.just("0" * 64),
    best=st.none() | LABELS,
    provenance=st.none(),
)


@given(PAPERS)
def test_every_document_survives_its_round_trip(paper: Paper) -> None:
    content = json.loads(canonical_json(paper.content()))
    again = Paper.from_content(content)
    assert again == paper
    assert again.canonical_bytes() == paper.canonical_bytes()


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything in a document."""
    found = []
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += [(*here, key), *places(item, (*here, key))]
    return found


@pytest.mark.parametrize("sealed", [True, False])
@given(data=st.data())
def test_every_mutation_is_refused_or_harmless(sealed: bool, data: st.DataObject) -> None:
    paper = a_paper(best="yes")
    content = deepcopy(paper.content()) | ({"fingerprint": paper.fingerprint} if sealed else {})
    *above, last = data.draw(st.sampled_from(places(content)))
    parent = content
    for key in above:
        parent = parent[key]
    if data.draw(st.booleans()):
        del parent[last]
    else:
        parent[last] = data.draw(JSON)
    try:
        found = Paper.from_content(content)
    except InvalidFile:
        return
    if sealed and "fingerprint" in content:
        assert found == paper
    else:  # nothing says that it was altered, but it means what it says
        assert Paper.from_content(found.content()) == found
        assert found.canonical_bytes() == canonical_json(content)


def test_large_and_small_numbers_change_their_form_where_ecmascript_does() -> None:
    numbers = [1e20, 1e21, -1.5e21, 1e-6, 1e-7, 123456789012345680000.0]
    found = "[100000000000000000000,1e+21,-1.5e+21,0.000001,1e-7,123456789012345680000]"
    assert canonical_json(numbers).decode() == found
