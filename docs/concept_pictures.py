"""Draw the pictures of the theory pages and of the architecture; prints the numbers they show.

python docs/concept_pictures.py [FOLDER]        default: docs/pictures
"""

import sys
from pathlib import Path

import numpy as np

from replearn.codes import Cells
from replearn.codes.sketch import width_factor

BLUE, RED, GREEN = "#0b7fb3", "#c4553d", "#5b8f3e"
INK = (
    "<style>svg:root{color:#1f2328}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
)


def svg(width, height, parts, label):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{label}" font-family="sans-serif" font-size="13" fill="currentColor" '
        f'style="max-width:{width}px">{INK}<title>{label}</title>{"".join(parts)}</svg>\n'
    )


def text(x, y, words, anchor="middle", weight="400"):
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}" font-weight="{weight}">{words}</text>'


def line_of_cells(y, left, right, walls, shade=None):
    """A number line with its walls; one cell is shaded."""
    parts = [f'<path d="M{left} {y}H{right}" stroke="currentColor" stroke-opacity="0.5"/>']
    if shade:
        parts.append(
            f'<rect x="{shade[0]:.1f}" y="{y - 20}" width="{shade[1] - shade[0]:.1f}" height="40" '
            'fill="currentColor" fill-opacity="0.08"/>'
        )
    parts += [
        f'<path d="M{x:.1f} {y - 20}v40" stroke="currentColor" stroke-width="1.5"/>'
        for x in walls
        if left <= x <= right
    ]
    return parts


def dot(x, y, colour):
    return f'<circle cx="{x:.1f}" cy="{y}" r="6" fill="{colour}"/>'


def cells():
    """Two labs' numbers under three shared shifts: a wall falls between them once."""
    left, right, unit = 150, 640, 140
    one, two = 2.05, 2.35
    parts, rows = [], []
    for row, shift in enumerate((0.15, 0.8, 0.45)):
        y = 50 + 70 * row
        walls = [left + unit * (k - shift) for k in range(6)]
        a, b = (left + unit * (z - 0.7) for z in (one, two))
        split = np.floor(one - 0.7 + shift) != np.floor(two - 0.7 + shift)
        rows.append(split)
        parts += line_of_cells(y, left, right, walls)
        parts += [dot(a, y, BLUE), dot(b, y, RED)]
        parts.append(text(left - 14, y + 5, "different" if split else "same code", "end", "600"))
    parts += [
        text(left + unit * (one - 0.7), 20, "lab A"),
        text(left + unit * (two - 0.7), 20, "lab B"),
    ]
    print(
        f"shifts under which the two labs differ: {sum(rows)} of {len(rows)}; over all shifts 30%"
    )
    return svg(660, 240, parts, "Two labs' numbers under three shared shifts of the cells.")


def sketch():
    """Without and with a sketch: the cell is moved until the original lies near its middle."""
    left, right, unit = 150, 640, 140
    grid = Cells(np.array([1.0]), np.array([0.05]), 3)
    first, second = np.array([1.9]), np.array([2.2])
    codes, bits = grid.publish(first)
    same = bool((grid.replicate(second, bits) == codes).all())
    parts = []
    a, b = (left + unit * (z[0] - 0.3) for z in (first, second))
    for y, offset, words in ((60, 0.0, "no sketch"), (150, bits[0] / 8 - 0.5, "3 bits")):
        walls = [left + unit * (k - 0.3 - 0.05 + offset) for k in range(6)]
        inside = [x for x in walls if x <= a][-1]
        parts += line_of_cells(y, left, right, walls, (inside, inside + unit))
        parts += [dot(a, y, BLUE), dot(b, y, RED), text(left - 14, y + 5, words, "end", "600")]
    parts += [text(a, 24, "original"), text(b + 34, 24, "replication")]
    print(f"original 1.9 and replication 2.2, cells of width 1: sketch {bits[0]}, same code {same}")
    return svg(
        660, 190, parts, "A sketch moves the cell so that the original lies near its middle."
    )


def price():
    """Price of rounding beside the sampling error: 20 coefficients, 1 of 100 labs differs."""
    parts, shown = [], []
    for bits in (1, 2, 3, 4):
        factor = width_factor(20, 0.01, bits)
        shown.append((bits, factor, factor**2 / (12 * 4**bits) / 0.5))
    for row, (bits, factor, share) in enumerate(shown):
        y, long = 30 + 42 * row, 95 * share
        parts.append(text(120, y + 5, f"{bits} bit{'s' if bits > 1 else ''}", "end", "600"))
        parts.append(
            f'<rect x="134" y="{y - 12}" width="{long:.1f}" height="24" fill="{BLUE}" rx="2"/>'
        )
        parts.append(text(142 + long, y + 5, f"{share:.2f}", "start"))
        print(f"{bits} bits: cells {factor:.1f} standard deviations wide, price {share:.2f}")
    parts.append('<path d="M229 8v180" stroke="currentColor" stroke-dasharray="4 4"/>')
    parts.append(text(236, 196, "the fit's own sampling error", "start"))
    return svg(660, 205, parts, "Price of rounding in units of the fit's own sampling error.")


def rooms():
    """The rooms of the package, from the top down, with their lines."""
    home = Path(__file__).resolve().parents[1] / "src" / "replearn"
    words = {
        "cli": "one module per command", "engines": "Dask, Spark",
        "reports": "evaluate, audit, compare, check",
        "estimators": "scikit-learn shells", "study": "original, replication, coalition",
        "exports": "SQL, ONNX, CSV, scikit-learn", "recipes": "one file per algorithm",
        "tables": "frames and files to whole numbers",
        "codes": "coins, cells, sketches", "documents": "what is safe to open",
        "exact": "sums without rounding errors",
    }  # fmt: skip
    parts, total = [], 0
    for row, (name, what) in enumerate(words.items()):
        lines = sum(
            len(p.read_text(encoding="utf-8").splitlines()) for p in (home / name).rglob("*.py")
        )
        total += lines
        y = 10 + 34 * row
        colour = GREEN if name in ("recipes", "codes", "exact") else BLUE  # the pure core
        parts.append(
            f'<rect x="10" y="{y}" width="620" height="28" rx="4" fill="{colour}" '
            'fill-opacity="0.16" stroke="currentColor" stroke-opacity="0.25"/>'
        )
        parts.append(text(24, y + 19, name, "start", "600") + text(140, y + 19, what, "start"))
        parts.append(text(616, y + 19, f"{lines:,}", "end"))
        print(f"| `{name}/` | {what} | {lines:,} |")
    root = sum(len(p.read_text(encoding="utf-8").splitlines()) for p in home.glob("*.py"))
    print(f"| root | errors, types, datasets | {root:,} |")
    print(f"| all | | {total + root:,} |")
    return svg(640, 14 + 34 * len(words), parts, "Rooms of the package from the top down.")


def main(folder):
    for name, draw in {"cells": cells, "sketch": sketch, "price": price, "rooms": rooms}.items():
        (folder / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
