"""Facts: what people read, what programs read, and pages."""

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replearn.documents import Document, canonical_json
from replearn.words import Facts, Figure, Row, Spoken, Table, counted, in_words, p_value, percent
from replearn.words.facts import MAX_LINES

SVG = '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0"/></svg>'
COEFFICIENTS = Table(
    "Coefficients", ["column", "per unit", "rows"], [["age", 0.25, 1200], ["ward = B", -12.5, None]]
)


@pytest.mark.parametrize(
    ("values", "unit", "words"),
    [
        ([8010, 7], "", ["8,010", "7"]),
        ([0.8421, 0.9], "", ["0.842", "0.900"]),
        ([123456.7, 1.0], "", ["123,457", "1"]),
        ([0.00012, -0.00301], "", ["0.00012", "-0.00301"]),
        ([1e-9], "", ["1.00e-09"]),
        ([-0.0, 0.0], "", ["0.000", "0.000"]),
        ([float("nan"), None, True, "a"], "", ["not known", "not known", "yes", "a"]),
        ([np.float64(0.5), np.int64(3)], "", ["0.500", "3.000"]),
        ([0.05], "%", ["5%"]),
        ([0.05, 0.123], "%", ["5.0%", "12.3%"]),
        ([0.0001, 0.9999, 0.0, 1.0], "%", ["<0.1%", ">99.9%", "0.0%", "100.0%"]),
        ([0.0021, None], "%", ["0.21%", "not known"]),
        ([-0.021], "%", ["-2.1%"]),
    ],
)
def test_values_in_words(values: list[Any], unit: str, words: list[str]) -> None:
    assert in_words(values, unit) == words


def test_small_words() -> None:
    assert percent(0.123) == "12.3%"
    assert (p_value(0.04), p_value(0.0009)) == ("p = 0.040", "p < 0.001")
    assert counted(1, "row") == "1 row"
    assert counted(2000, "lab") == "2,000 labs"
    row = Row("height", 1.7, "m", (1.6, 1.85), "of 9 rows")
    assert row.shown == "1.700 m (1.600 to 1.850 m), of 9 rows"


def test_text_with_details() -> None:
    facts = Facts("Yes.", [Row("a", 1), Row("long", "x"), "A note."], [COEFFICIENTS])
    assert facts.text(details=True).split("\n") == [
        "Yes.",
        "  a     1",
        "  long  x",
        "A note.",
        "",
        "Coefficients",
        "  column    per unit   rows",
        "  age           0.25  1,200",
        "  ward = B    -12.50",
    ]
    assert str(facts).split("\n")[-1].startswith("More: ")
    assert repr(facts) == "<Facts: Yes.>"


def test_short_text_shows_what_fits() -> None:
    rows = [Row(f"r{i}", i) for i in range(MAX_LINES)]
    assert str(Facts("Yes.", rows)).count("\n") == MAX_LINES
    lines = str(Facts("Yes.", [*rows[:6], COEFFICIENTS, "last"])).split("\n")
    assert lines[1:] == [f"  r{i}  {i}" for i in range(6)] + ["last", lines[-1]]
    assert lines[-1].startswith("More")


def test_what_is_told_displaces_no_answer() -> None:
    rows = [Row(f"r{i}", i) for i in range(MAX_LINES)]
    told = [f"Column 'x{i}' has gaps." for i in range(15)]
    lines = str(Facts("Yes.", rows, told=told)).split("\n")
    assert lines[1:16] == told
    assert lines[16:] == [f"  r{i}  {i}" for i in range(MAX_LINES)]


def test_a_long_table_begins_where_it_fits() -> None:
    table = Table("By ward", ["ward", "rows"], [[str(i), i] for i in range(30)])
    lines = str(Facts("Yes.", [Row("AUC", 0.7), table])).split("\n")
    assert len(lines) == 1 + MAX_LINES
    assert lines[-3:-1] == ["  4        4", "  ... and 25 more"]


def test_long_tables_say_what_is_left_out() -> None:
    facts = Facts("Yes.", [Table("T", ["n"], [[i] for i in range(510)])])
    assert facts.text(details=True).endswith("  499\n  ... and 10 more")
    assert len(facts.data()["t"]) == 510


def test_a_table_that_is_too_wide_becomes_lines() -> None:
    table = Table("Wide", ["head"] * 9, [[123456.5] * 9])
    assert Facts("Yes.", [table]).text(40, details=True).count("head") == 9


def width_of(line: str) -> int:
    return sum(2 if "\u4e00" <= character <= "\u9fff" else 1 for character in line)


TEXT = st.text("ab  病\x1b\n\u202e<&\"'", max_size=60)
CELLS = st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats() | TEXT
ITEMS = st.lists(
    st.builds(Row, TEXT, CELLS, st.sampled_from(["", "%", "m"]), note=TEXT)
    | st.builds(
        Table,
        TEXT,
        st.tuples(TEXT, TEXT),
        st.lists(st.tuples(CELLS, CELLS), max_size=4),
        st.just(("", "%")),
    )
    | TEXT,
    max_size=8,
)


@given(TEXT, ITEMS, ITEMS, st.integers(24, 100))
def test_whatever_the_facts(verdict: str, items: Any, details: Any, width: int) -> None:
    facts = Facts(verdict, items, details)
    for everything in (False, True):
        lines = facts.text(width, everything).split("\n")
        assert max(map(width_of, lines)) <= width
        assert not any(character in line for line in lines for character in "\x1b\u202e")
    n_verdict = len(Facts(verdict).text(width).split("\n"))
    assert len(facts.text(width).split("\n")) <= n_verdict + MAX_LINES
    canonical_json(facts.data())
    Page.read(facts.html(verdict))
    Page.read(facts._repr_html_())


def test_data() -> None:
    facts = Facts(
        "Yes.",
        [Row("Rows (all)", np.int64(5)), Row("AUC", 0.5, interval=(0.4, float("inf"))), "Note."],
        [Row("AUC", float("nan")), Row("x", 1, key="own"), Table("", ["a", "b c"], [[1, True]])],
        values={"own": [np.float64(0.5)], "same": True},
    )
    assert facts.data() == {
        "verdict": "Yes.",
        "rows_all": 5,
        "auc": 0.5,
        "auc_interval": [0.4, None],
        "auc_2": None,
        "own": [0.5],
        "table": [{"a": 1, "b_c": True}],
        "notes": ["Note."],
        "same": True,
    }


class Page(HTMLParser):
    """Tags and text; every tag must be closed in order."""

    @classmethod
    def read(cls, text: str) -> "Page":
        page = cls()
        page.open, page.tags, page.words = [], [], ""
        page.feed(text)
        assert not page.open
        return page

    open: list[str]
    tags: list[tuple[str, dict[str, str | None]]]
    words: str

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def test_page() -> None:
    drawn = []
    figure = Figure('cells "and" marks', lambda: drawn.append(1) or SVG, "Where we landed")
    facts = Facts("Same <model>.", [Row("a & b", 0.5, "%")], [COEFFICIENTS], [figure])
    assert not drawn
    text = facts.html("Study <7>")
    page = Page.read(text)
    tags = [tag for tag, _ in page.tags]
    assert text.startswith("<!DOCTYPE html>")
    assert ("html", {"lang": "en"}) in page.tags
    assert tags.count("h1") == 1
    assert not {"script", "img", "iframe"} & set(tags)
    assert not re.search(r"https?://(?!www.w3.org/2000/svg)", text)
    (svg,) = (attributes for tag, attributes in page.tags if tag == "svg")
    assert svg["role"] == "img"
    assert svg["aria-label"] == 'cells "and" marks'
    assert "<?xml" not in text
    titles = ("Study <7>", "Coefficients", figure.label)
    for words in (*titles, "Same <model>.", "a & b", "50%", "-12.50", "landed"):
        assert words in page.words
    for rule in ("prefers-color-scheme: dark", "@media print", "size: A4"):
        assert rule in text
    assert [attributes.get("scope") for tag, attributes in page.tags if tag == "th"] == [
        "row",
        *["col"] * 3,
    ]
    assert "<details>" in facts._repr_html_()


def test_results_speak() -> None:
    @dataclass(frozen=True)
    class Result(Spoken, Document):
        FORMAT = "replearn/result"
        rows: int

        def facts(self) -> Facts:
            return Facts("The same\nmodel.", [Row("rows", self.rows)])

    result = Result(5)
    assert repr(result) == "<Result: The same?model.>"
    assert str(result) == "The same?model.\n  rows  5"
    assert "<strong>The same?model.</strong>" in result._repr_html_()
    assert result == Result(5)


def test_an_interval_beside_one_number_is_drawn_in_full():
    """That of an audit ended in an arrow at the claim: its number has no interval."""
    from replearn.words import forest

    drawn = forest(
        [("counted", "100%", 1.0, 0.8, 1.0), ("claimed", "99%", 0.99, 0.99, 0.99)], 0.99, "claim"
    )
    assert 'fill-opacity="0.55"' not in drawn  # no arrow
    ((left, right), (alone, same)) = re.findall(
        r'<line x1="([\d.]+)" x2="([\d.]+)" y1="\d+" y2="\d+" stroke="#', drawn
    )
    assert float(left) < float(alone) == float(same) < float(right)


def test_words_beside_a_forest_are_whole_and_its_axis_has_numbers():
    """Intervals on the page of an audit by centre were cut in the middle."""
    from replearn.words import forest

    words = "0.77 (0.75 to 0.79)"
    drawn = forest(
        [("ashford", words, 0.77, 0.75, 0.79), ("b", words, 0.7, 0.6, 0.8)], 0.77, "mean"
    )
    (width,) = re.findall(r'viewBox="0 0 (\d+)', drawn)
    (left,) = set(re.findall(rf'<text x="(\d+)" y="\d+">{re.escape(words)}', drawn))
    assert int(left) + 7.6 * len(words) < int(width)
    assert all(f">{tick}</text>" in drawn for tick in ("0.6", "0.7", "0.8"))


def test_p_values_of_a_table_are_those_of_papers():
    table = Table("", ("column", "p"), [("age", 0.000002), ("sex", 0.25)], ("", "p"))
    assert table.columns[1] == ("p", ["<0.001", "0.250"], True)
