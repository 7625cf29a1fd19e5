"""Items as HTML: one page without scripts, or the cell of a notebook."""

from collections.abc import Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

from replearn.errors import printable
from replearn.words.items import Figure, Item, Row, Table


def safe(text: str) -> str:
    """Text that is no markup, and moves no cursor."""
    return escape(printable(text))


def items_html(items: Sequence[Item]) -> str:
    """Items below each other; neighbouring rows make one table."""
    parts = []
    for kind, group in groupby(items, type):
        if kind is Row:
            parts.append(_rows_html(group))
            continue
        for item in group:
            if isinstance(item, Table):
                parts.append(_table_html(item))
            else:
                parts.append(f"<p>{safe(str(item))}</p>")
    return "\n".join(parts)


def _rows_html(rows: Iterable[Any]) -> str:
    lines = [
        f'<tr><th scope="row">{safe(row.name)}</th><td>{safe(row.shown)}</td></tr>' for row in rows
    ]
    return "\n".join(["<table><tbody>", *lines, "</tbody></table>"])


def _table_html(table: Table) -> str:
    heads, columns, numeric = zip(*table.columns, strict=True)
    classes = [' class="number"' * is_number for is_number in numeric]

    head = ""
    for name, kind in zip(heads, classes, strict=True):
        head += f'<th scope="col"{kind}>{safe(name)}</th>'

    # cells have the class of their column: numbers stand at the right
    rows = []
    for row in zip(*columns, strict=True):
        cells = "".join(f"<td{k}>{safe(c)}</td>" for c, k in zip(row, classes, strict=True))
        rows.append(f"<tr>{cells}</tr>")
    body = "<tbody>\n" + "\n".join(rows) + "\n</tbody>"

    caption = ""
    if table.title:
        caption = f"<caption>{safe(table.title)}</caption>"
    table_html = f"<table>{caption}<thead><tr>{head}</tr></thead>\n{body}</table>"

    # a wide table scrolls by itself, also for those who have no mouse
    label = safe(table.title or "Table")
    return f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">{table_html}</div>'


def figure_html(figure: Figure) -> str:
    """Inline SVG, without what stands before its root; one that tells itself keeps its words."""
    root, _, parts = figure.draw().partition("<svg")[2].partition(">")
    # a picture that says nothing itself is called by its title
    if "aria-label" not in root:
        root = f' role="img" aria-label="{safe(figure.label)}"{root}'
    svg = f"<svg{root}>{parts}"
    words = f"<strong>{safe(figure.label)}.</strong> {safe(figure.caption)}"
    return f"<figure>{svg}<figcaption>{words}</figcaption></figure>"


STYLE = """
:root { color-scheme: light dark; --ink: #1c1f23; --soft: #59616d; --line: #d3d9e0; --back: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e8eb; --soft: #a4acb8; --line: #3b424c; --back: #16191d; } }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--back);
  font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main { max-width: 52rem; margin: 0 auto; padding: 1.2rem 1rem 3rem; }
h1 { font-size: 1.2rem; color: var(--soft); font-weight: 600; } h2 { font-size: 1.15rem; }
.verdict { font-size: 1.35rem; line-height: 1.35; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: 1rem 0; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { text-align: left; padding: .3rem 1.2rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
tbody th { font-weight: 400; color: var(--soft); min-width: 10rem; }
.scroll th, .scroll td { overflow-wrap: normal; }
.number { text-align: right; white-space: nowrap; }
figure { margin: 1.2rem 0; } figure svg { max-width: 100%; height: auto; }
.figures figure { flex: 1 1 14rem; min-width: 0; max-width: 100%; } p { overflow-wrap: anywhere; }
.figures figure:has([width="600"]) { flex-basis: 100%; }
figcaption { color: var(--soft); font-size: .92rem; }
@media (max-width: 600px) { figure svg[width="600"] {
  max-width: none; width: calc(100% + 1.5rem); margin-left: -.75rem; } }
@page { size: A4; margin: 15mm; }
@media print {
  :root { font-size: 9pt; --ink: #000; --soft: #333; --line: #bbb; --back: #fff; }
  main { max-width: none; padding: 0; } .scroll { overflow: visible; }
  th, td { padding: .15rem 1.2rem .15rem 0; } .figures figure { flex-basis: 5cm; }
  h1, h2, caption { break-after: avoid; } p, tr, figure { break-inside: avoid; } }
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="replearn">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body><main>
<h1>{title}</h1>
<p class="verdict">{verdict}</p>
{items}
{figures}
{details}
</main></body>
</html>
"""
