"""Table 1 of the paper, measured: what plans ask for, and what pairs of labs do.

    python benchmarks/table1.py --pairs 40               # counts, about 5 minutes on one core
    python benchmarks/table1.py --flat 20                # the same rows for 16 to 1,024 columns
    python benchmarks/table1.py --pictures docs/pictures # four of them, seconds

One part of the promise is changed at a time. Every row of the table runs at the size that its
practical plan asks for, on populations with margins from tau to twice tau. Plans with more than
10 million numbers in a lab's table, foam beyond 16 columns, and what takes more than 20 CPU seconds
are left out. The pictures show certified plans, which can be drawn at any size.
"""

import argparse
import math
import time
from dataclasses import replace
from pathlib import Path

from replearn.codes import Promise
from replearn.reports.table1 import LINES, _printed, count_pairs, table1

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


AXES = {
    "d": (10, 1000, 100_000, 10**7),
    "margin": (0.4, 0.2, 0.1, 0.05),
    "max_error": (0.2, 0.1, 0.05, 0.025),
    "max_disagreement": (0.1, 0.01, 0.001, 0.0001),
}
NAMES = {"d": "columns", "tau": "margin", "eps": "error", "rho": "disagreement"}


def picture(name):
    """Certified rows of each line against one part of the promise, and the exponents."""
    base, columns, values, symbol = Promise(0.2, 0.05, 0.1), 10**6, AXES[name], SYMBOLS[name]
    tables = [
        promised(base if name == "d" else replace(base, **{name: value}),
                 value if name == "d" else columns)
        for value in values
    ]  # fmt: skip
    left, top, width, height, low, high = 52, 14, 330, 290, 3, 42
    label = f"Rows of certified plans against {symbol}, the {NAMES[symbol]}, and their exponents."

    def place(i, rows):
        share = (math.log10(rows) - low) / (high - low)
        return left + width * (i + 0.5) / len(values), top + height * (1 - share)

    def text(x, y, words, more=""):
        return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'

    parts = [
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.4"/>',
        text(left + width / 2, top + height + 36, f"{symbol}, the {NAMES[symbol]}",
             'text-anchor="middle" font-weight="600"'),
        text(left + width + 48, top + 8, "exponent"),
        text(left + width + 118, top + 8, "printed"),
    ]  # fmt: skip
    for power in range(5, high, 5):
        y = place(0, 10.0**power)[1]
        parts.append(f'<path d="M{left} {y:.1f}h{width}" stroke="currentColor" '
                     'stroke-opacity="0.12"/>')  # fmt: skip
        parts.append(text(left - 6, y + 4, f"1e{power}", 'text-anchor="end"'))
    for i, value in enumerate(values):
        x = place(i, 1e3)[0]
        parts.append(text(x, top + height + 17, f"{value:,}", 'text-anchor="middle"'))
    for line, key in enumerate(LINES):
        rows, dash = [table.rows[key]["certified"] for table in tables], ""
        if "+" in key:
            dash = ' stroke-dasharray="5 4"'
        stroke = f'stroke="{COLOURS[key]}" stroke-width="2"{dash}'
        points = [place(i, n) for i, n in enumerate(rows)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" {stroke}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[key]}"/>'
                  for x, y in points]  # fmt: skip
        # the last step: there the logarithms are smallest
        fitted = math.log(rows[-1] / rows[-2]) / math.log(values[-1] / values[-2])
        printed = _printed(key).get("printed", {symbol: None})[symbol]
        sign = 1 if name == "d" else -1
        y = top + 30 + 20 * line
        parts.append(f'<path d="M{left + width + 8} {y - 4}h14" {stroke}/>')
        parts.append(text(left + width + 24, y, f"{key}", 'font-size="11"'))
        parts.append(text(left + width + 70, y, f"{fitted + 0.0:.2f}"))
        shown = "" if printed is None else f"{sign * printed + 0.0:.0f}"
        parts.append(text(left + width + 134, y, shown))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 360" role="img" '
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
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each exponent")
    options = parser.parse_args()
    for name, symbol in SYMBOLS.items() if options.pictures else ():
        path = options.pictures / f"table1-{symbol}.svg"
        path.write_text(picture(name), encoding="utf-8")
    if options.pairs:
        count(options.pairs)
    if options.flat:
        flat(options.flat)


if __name__ == "__main__":
    main()
