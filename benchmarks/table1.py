"""Table 1 of the paper, measured: what plans ask for, and what pairs of labs do.

    python benchmarks/table1.py --pairs 40               # counts, about 5 minutes on one core
    python benchmarks/table1.py --flat 20                # the same rows for 16 to 1,024 columns
    python benchmarks/table1.py --picture docs/pictures/table1.svg     # seconds

One part of the promise is changed at a time. Every row of the table runs at the size that its
practical plan asks for, on populations with margins from tau to twice tau. Plans with more than
10 million numbers in a lab's table, and foam beyond 16 columns, are left out. The picture shows
certified plans, which can be drawn at any size.
"""

import argparse
import math
import time
from dataclasses import replace
from pathlib import Path

from replearn.recipes.recipe import Promise
from replearn.reports.table1 import LINES, count_pairs, table1

BASE, COLUMNS = Promise(0.3, 0.1, 0.2), 5
SWEEPS = {
    "d": (3, 16, 64),
    "margin": (0.2, 0.45),
    "max_error": (0.05, 0.2),
    "max_disagreement": (0.05, 0.1),
}
SYMBOLS = {"d": "d", "margin": "tau", "max_error": "eps", "max_disagreement": "rho"}
MOST_NUMBERS, MOST_SECONDS = 10_000_000, 20
COLOURS = {
    "foam": "#8d5fba", "box": "#c4553d", "svm": "#0b7fb3", "sgd": "#5b8f3e", "net": "#a07f1f",
    "dp": "#4f73a0", "svm+3": "#0b7fb3", "sgd+3": "#5b8f3e",
}  # fmt: skip


def settings():
    """The base, and one change at a time."""
    yield "base", BASE, COLUMNS
    for name, values in SWEEPS.items():
        for value in values:
            promise = BASE if name == "d" else replace(BASE, **{name: value})
            yield f"{SYMBOLS[name]} = {value:g}", promise, value if name == "d" else COLUMNS


def promised(promise, columns):
    return table1(
        n_features=columns,
        margin=promise.margin,
        max_error=promise.max_error,
        max_disagreement=promise.max_disagreement,
    )


def count(n_pairs):
    print(f"base: d = {COLUMNS}, tau = {BASE.margin:g}, eps = {BASE.max_error:g}, ", end="")
    print(f"rho = {BASE.max_disagreement:g}; rows, pairs of {n_pairs} that differ, error")
    print(f"| | {' | '.join(LINES)} |\n|---|{'--:|' * len(LINES)}")
    for label, promise, columns in settings():
        plans, cells = promised(promise, columns).rows, []
        for name in LINES:
            n_rows = plans[name]["practical"]
            if n_rows * columns > MOST_NUMBERS or (name == "foam" and columns > 16):
                cells.append(f"{n_rows:,} / not run")
                continue
            count_pairs(name, promise, columns, min(n_rows, 500), 1)  # what is compiled is compiled
            start = time.process_time()
            count_pairs(name, promise, columns, n_rows, 1)
            if n_pairs * (time.process_time() - start) > MOST_SECONDS:
                cells.append(f"{n_rows:,} / not run")
                continue
            found = count_pairs(name, promise, columns, n_rows, n_pairs)
            cells.append(f"{n_rows:,} / {found.n_differ} / {found.error:.3f}")
        print(f"| {label} | {' | '.join(cells)} |", flush=True)


def flat(n_pairs):
    """Algorithms that project do not need more rows for more columns; boxes do."""
    promise = Promise(0.4, 0.2, 0.1)
    print(f"tau = {promise.margin:g}, eps = {promise.max_error:g}, ", end="")
    print(f"rho = {promise.max_disagreement:g}; rows, pairs of {n_pairs} that differ, error")
    print("| | svm | sgd | svm+3 | sgd+3 | box |\n|---|--:|--:|--:|--:|--:|")
    for columns in (16, 64, 256, 1024):
        plans, cells = promised(promise, columns).rows, []
        for name in ("svm", "sgd", "svm+3", "sgd+3"):
            found = count_pairs(name, promise, columns, plans[name]["practical"], n_pairs)
            cells.append(f"{found.n_rows:,} / {found.n_differ} / {found.error:.3f}")
        cells.append(f"{plans['box']['practical']:,} / not run")
        print(f"| d = {columns} | {' | '.join(cells)} |", flush=True)


def picture():
    """Certified rows of each line of the table against d, tau, eps and rho: four panels."""
    base, columns = Promise(0.2, 0.05, 0.1), 10_000
    axes = {
        "d": (10, 100, 1000, 10_000, 100_000),
        "margin": (0.4, 0.2, 0.1, 0.05),
        "max_error": (0.2, 0.1, 0.05, 0.025),
        "max_disagreement": (0.1, 0.01, 0.001, 0.0001),
    }
    width, height, gap, low, high = 250, 250, 62, 3, 34
    parts = []
    for panel, (name, values) in enumerate(axes.items()):
        left, top = gap + panel % 2 * (width + gap), 24 + panel // 2 * (height + 62)

        n = len(values)

        def place(i, rows, left=left, top=top, n=n):
            share = (math.log10(rows) - low) / (high - low)
            return left + width * (i + 0.5) / n, top + height * (1 - share)

        parts.append(
            f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" '
            'stroke="currentColor" stroke-opacity="0.4"/>'
        )
        for power in range(5, high, 5):
            y = place(0, 10.0**power)[1]
            parts.append(
                f'<path d="M{left} {y:.1f}h{width}" stroke="currentColor" stroke-opacity="0.12"/>'
                f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">1e{power}</text>'
            )
        for i, value in enumerate(values):
            x = place(i, 1e3)[0]
            parts.append(
                f'<text x="{x:.1f}" y="{top + height + 16}" text-anchor="middle">{value:,}</text>'
            )
        parts.append(
            f'<text x="{left + width / 2}" y="{top + height + 34}" text-anchor="middle" '
            f'font-weight="600">{SYMBOLS[name]}</text>'
        )
        lines = {line: [] for line in LINES}
        for i, value in enumerate(values):
            promise = base if name == "d" else replace(base, **{name: value})
            for line, modes in promised(promise, value if name == "d" else columns).rows.items():
                if modes["certified"] is not None:
                    lines[line].append(place(i, modes["certified"]))
        for line, points in lines.items():
            if not points:
                continue
            dash = ' stroke-dasharray="5 4"' if "+" in line else ""
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{COLOURS[line]}" '
                f'stroke-width="2"{dash}/>'
            )
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[line]}"/>'
                for x, y in points
            ]
    total = 2 * (height + 62) + 40
    for i, line in enumerate(LINES):
        x, dash = 14 + i * 76, ' stroke-dasharray="5 4"' if "+" in line else ""
        parts.append(
            f'<path d="M{x} {total - 16}h18" stroke="{COLOURS[line]}" stroke-width="2"{dash}/>'
            f'<text x="{x + 22}" y="{total - 12}">{line}</text>'
        )
    whole = 2 * (width + gap) + 20
    label = "Rows that certified plans of Table 1 ask for, against d, tau, eps and rho."
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {whole} {total}" role="img" '
        f'aria-label="{label}" font-family="sans-serif" font-size="12" fill="currentColor">'
        "<style>svg:root{color:#1f2328}"
        "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
        f"<title>{label}</title>{''.join(parts)}</svg>\n"
    )


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--pairs", type=int, default=0, help="pairs of labs to count")
    parser.add_argument(
        "--flat", type=int, default=0, help="pairs of labs with up to 1,024 columns"
    )
    parser.add_argument("--picture", type=Path, help="write the picture here")
    options = parser.parse_args()
    if options.picture:
        options.picture.write_text(picture(), encoding="utf-8")
    if options.pairs:
        count(options.pairs)
    if options.flat:
        flat(options.flat)


if __name__ == "__main__":
    main()
