"""The picture "where we landed": a box for each cell, a mark for each lab. Plain SVG."""

from collections.abc import Mapping, Sequence
from html import escape

from replearn.types import Vector

_MARKS = ("#0b6e99", "#b4452f", "#4c7a34", "#7a4ea3", "#8a6d1a", "#3d5a80")
_MOST = 30


def where_we_landed(names: Sequence[str], labs: Mapping[str, Vector]) -> str:
    """An SVG: marks inside the box agree with the original.

    Parameters
    ----------
    names : sequence of str
        Of the coded numbers.
    labs : mapping of str to array
        Where each lab's numbers lie, in cells from the centre: inside is -0.5 to 0.5.
    """
    furthest = [max(abs(float(lab[i])) for lab in labs.values()) for i in range(len(names))]
    shown = sorted(sorted(range(len(names)), key=lambda i: -furthest[i])[:_MOST])
    row, left, width = 22, 210, 520
    height = row * len(shown) + 56
    middle, cell = left + (width - left) / 2, (width - left) / 3
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" style="max-width:100%;height:auto" font-family="system-ui,sans-serif" '
        'font-size="12" fill="currentColor">'
    ]
    for line, i in enumerate(shown):
        y = 26 + line * row
        name = names[i] if len(names[i]) <= 32 else names[i][:31] + "…"
        parts.append(
            f'<text x="{left - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{middle - cell / 2:.1f}" y="{y - 8}" width="{cell:.1f}" height="16" rx="2" '
            'fill="currentColor" fill-opacity="0.08" stroke="currentColor" stroke-opacity="0.35"/>'
        )
        for number, lab in enumerate(labs.values()):
            x = middle + cell * max(-1.45, min(1.45, float(lab[i])))
            color = _MARKS[number % len(_MARKS)]
            parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{color}"/>')
    y = height - 12
    for number, name in enumerate(labs):
        x = 12 + 130 * number
        color = _MARKS[number % len(_MARKS)]
        parts.append(
            f'<circle cx="{x}" cy="{y - 4}" r="4" fill="{color}"/>'
            f'<text x="{x + 9}" y="{y}">{escape(name)}</text>'
        )
    return "".join(parts) + "</svg>"
