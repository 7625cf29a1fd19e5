"""Items as lines for a terminal."""

import unicodedata
from collections.abc import Sequence
from itertools import chain, groupby, zip_longest

from replearn.errors import printable
from replearn.words.items import Item, Row, Table

#: Rows of a table that a terminal shows; JSON and pages have all.
MAX_TABLE_ROWS = 500


def _columns_of(text: str) -> int:
    """Columns that a terminal gives a text: two for a wide character, none for a mark on one."""
    if text.isascii():
        return len(text)

    n_columns = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        n_columns += 1 + (unicodedata.east_asian_width(character) in "WF")
    return n_columns


def wrapped(text: str, width: int) -> list[str]:
    """Lines of at most ``width`` columns; a long word is broken."""
    lines = [""]
    for word in printable(text).split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and _columns_of(longer) > width:
            lines.append(word)
        else:
            lines[-1] = longer

        # a word that is longer than a line, where a character may take two columns
        while _columns_of(lines[-1]) > width:
            cut = width
            while cut > 1 and _columns_of(lines[-1][:cut]) > width:
                cut -= 1
            lines[-1:] = [lines[-1][:cut], lines[-1][cut:]]
    return lines


def item_lines(items: Sequence[Item], width: int) -> list[list[str]]:
    """The lines of each item; the values of neighbouring rows stand in one column."""
    blocks: list[list[str]] = []
    for kind, group in groupby(items, type):
        if kind is Row:
            blocks += _row_lines([item for item in group if isinstance(item, Row)], width)
            continue
        for item in group:
            if isinstance(item, Table):
                blocks.append(_table_lines(item, width))
            else:
                blocks.append(wrapped(str(item), width))
    return blocks


def _row_lines(rows: list[Row], width: int) -> list[list[str]]:
    names = [_columns_of(printable(row.name)) for row in rows]
    values = [_columns_of(printable(row.shown)) for row in rows]

    # names are broken only where values need the room; long values are broken first
    longest = max((size for size in values if size <= width // 2), default=0)
    left = min(max(names), max(width // 3, width - 4 - longest))
    right = width - left - 4

    blocks = []
    for row, name_size, value_size in zip(rows, names, values, strict=True):
        if max(map(_columns_of, printable(row.shown).split()), default=0) > right:
            # a long word, such as a fingerprint, stays in one piece, if need be below its name
            parts = [*wrapped(row.name, width - 2), *wrapped(row.shown, width - 2)]
            if name_size + 1 + value_size <= width - 2:
                parts = [f"{printable(row.name)} {printable(row.shown)}"]
            blocks.append([f"  {part}" for part in parts])
        else:
            blocks.append(_beside([(row.name, left, False), (row.shown, right, False)]))
    return blocks


def _beside(cells: Sequence[tuple[str, int, bool]]) -> list[str]:
    """The lines of cells (text, width, whether it stands at the right) that stand in one row."""
    lines = []
    for parts in zip_longest(*(wrapped(text, width) for text, width, _ in cells), fillvalue=""):
        line = ""
        for part, (_, width, at_right) in zip(parts, cells, strict=True):
            space = " " * (width - _columns_of(part))
            cell = part + space
            if at_right:
                cell = space + part
            line += f"  {cell}"
        lines.append(line.rstrip())
    return lines


def shortened(table: Table, width: int, n_lines: int) -> list[str]:
    """The first rows of a table, of those that fit; all of it if fewer than two do."""
    n_rows = n_lines - len(_table_lines(table, width, 0))  # a title, the header and the last line
    return _table_lines(table, width, n_rows if n_rows > 1 else MAX_TABLE_ROWS)


def _table_lines(table: Table, width: int, n_most: int = MAX_TABLE_ROWS) -> list[str]:
    """A title, a header and rows; a line for each cell where the columns do not fit."""
    heads, columns, numeric = zip(*table.columns, strict=True)
    rows = list(zip(*(cells[:n_most] for cells in columns), strict=True))
    sizes = [max(map(_columns_of, column)) for column in zip(heads, *rows, strict=True)]

    # the widest text gives way, down to twelve columns; then the next
    excess = sum(sizes) + 2 * len(sizes) - width
    texts = [i for i in range(len(sizes)) if not numeric[i]]
    for i in sorted(texts, key=lambda i: -sizes[i]):
        given = max(0, min(excess, sizes[i] - 12))
        sizes[i] -= given
        excess -= given

    lines: list[str] = []
    if table.title:
        lines += wrapped(table.title, width)
    if sum(sizes) + 2 * len(sizes) > width:
        for row in rows:
            lines += chain(*_row_lines(list(map(Row, heads, row)), width))
    else:
        for row in (heads, *rows):
            lines += _beside(list(zip(row, sizes, numeric, strict=True)))

    n_more = len(table.rows) - len(rows)
    if n_more:
        lines.append(f"  ... and {n_more:,} more")
    return lines
