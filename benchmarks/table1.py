"""Table 1 of the paper: its rates beside ours, rows at one promise, and pictures of exponents.

    python benchmarks/table1.py --rows                   # rates, and rows at one promise
    python benchmarks/table1.py --pictures docs/pictures # four of them, a minute

The pictures show certified plans, which can be drawn at any size. Pairs of labs are counted by
`populations.py` and by ``replearn table --run``.
"""

import argparse
import math
import textwrap
from dataclasses import replace
from pathlib import Path

from replearn.codes import Promise
from replearn.reports.plans import rows_text
from replearn.reports.table1 import LINES, _printed, line_title, table1

SYMBOLS = {"d": "d", "margin": "tau", "max_error": "eps", "max_disagreement": "rho"}
#: Of the line that a panel is about; the others are grey.
BLUE = "#0072b2"


def promised(promise, columns):
    return table1(
        n_features=columns,
        margin=promise.margin,
        max_error=promise.max_error,
        max_disagreement=promise.max_disagreement,
    )


AXES = {
    "d": (10, 1000, 100_000, 10**7),
    "margin": (0.4, 0.2, 0.1, 0.05),
    "max_error": (0.2, 0.1, 0.05, 0.025),
    "max_disagreement": (0.1, 0.01, 0.001, 0.0001),
}
NAMES = {"d": "columns", "tau": "margin", "eps": "error", "rho": "disagreement"}

#: What a picture says: one thing each.
MESSAGES = {
    "d": "Beyond 100,000 columns only the prior work, foam and box, still grows",
    "tau": "Half the margin: 4 times the rows with bits, 64 for svm and sgd, 256 for foam, box",
    "eps": "Half the error: twice the rows, but 4 times for sgd and 16 times for foam and box",
    "rho": "A tenth of the disagreement: 100 times the rows, but hardly any more with bits",
}

#: A panel: its size, and the powers of ten that it spans.
WIDTH, HEIGHT, LOW, HIGH = 120, 120, 3, 42


def rows_at_one_promise():
    """The table that opens docs/theory/table1.md."""
    found = table1(
        n_features=10, margin=0.3, max_error=0.1, max_disagreement=0.1, fit_intercept=False
    )
    print("| line | printed rate | certified rate | practical | certified | paper |")
    print("|---|---|---|--:|--:|--:|")
    for name, (recipe, bits) in LINES.items():
        printed, certified, source = recipe.rate, recipe.certified_rate, recipe.source
        source = source.replace("Theorem", "Thm").replace("Proposition", "Prop.")
        if bits:
            printed, certified, source = "", f"{certified.split()[0]} tau^-2", "statement 8"
        title = line_title(recipe, bits)
        title += f", {source}" if source not in title else ""
        rows = " | ".join(rows_text(n) for n in found.rows[name].values())
        print(f"| {name}: {title} | {in_maths(printed)} | {in_maths(certified)} | {rows} |")


def in_maths(rate):
    """A rate as it stands on a page."""
    symbols = {"eps": r"\varepsilon", "tau": r"\tau", "rho": r"\rho", "d": "d"}
    parts = []
    for factor in rate.split():
        symbol, _, power = factor.partition("^")
        parts.append(symbols[symbol] + (f"^{{{power}}}" if power else ""))
    return f"${' '.join(parts)}$" if parts else ""


def picture(name):
    """Small multiples: certified rows of each line against one part of the promise.

    A panel shows one line in blue and the others in grey. At its end stands the exponent of the
    last step, where logarithms are smallest.
    """
    base, columns, values, symbol = Promise(0.2, 0.05, 0.1), 10**6, AXES[name], SYMBOLS[name]
    tables = [
        promised(base if name == "d" else replace(base, **{name: value}),
                 value if name == "d" else columns)
        for value in values
    ]  # fmt: skip
    rows = {key: [table.rows[key]["certified"] for table in tables] for key in LINES}

    parts = [
        _text(10, 20 + 18 * line, words, 'font-weight="600"')
        for line, words in enumerate(textwrap.wrap(MESSAGES[symbol], 64))
    ]
    for place, key in enumerate(LINES):
        left, top = 46 + place % 4 * (WIDTH + 18), 72 + place // 4 * (HEIGHT + 58)
        parts += _panel(key, rows, values, symbol, left, top)
    parts.append(
        _text(10, 72 + 2 * (HEIGHT + 58), f"Rows of a certified plan against {symbol}, the "
              f"{NAMES[symbol]}, both on logarithmic scales.", 'opacity="0.8"')
    )  # fmt: skip
    label = f"{MESSAGES[symbol]}. A panel for each line of Table 1, against the {NAMES[symbol]}."
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 600 444" role="img" '
        f'aria-label="{label}" font-family="sans-serif" font-size="14" fill="currentColor">'
        "<style>svg:root{color:#1f2328}"
        "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
        f"<title>{label}</title>{''.join(parts)}</svg>\n"
    )


def _text(x, y, words, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{words}</text>'


def _power(exponent, symbol, decimals):
    """With its sign: rows grow with columns, and as the others shrink."""
    return f"{exponent if symbol == 'd' else -exponent:.{decimals}f}".replace("-0.0", "0.0")


def _panel(key, rows, values, symbol, left, top):
    """One line of the table, among the others."""

    def point(i, n):
        x = left + WIDTH * (i + 0.5) / len(values)
        return x, top + HEIGHT * (1 - (math.log10(n) - LOW) / (HIGH - LOW))

    def line(other):
        return " ".join("{:.1f},{:.1f}".format(*point(i, n)) for i, n in enumerate(rows[other]))

    parts = [
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" fill="none" '
        'stroke="currentColor" stroke-opacity="0.35"/>'
    ]
    for power in (10, 20, 30, 40):
        y = point(0, 10.0**power)[1]
        parts.append(
            f'<path d="M{left} {y:.1f}h{WIDTH}" stroke="currentColor" stroke-opacity="0.1"/>'
        )
        if left == 46:
            parts.append(_text(left - 4, y + 5, f"1e{power}", 'text-anchor="end"'))
    for i in (0, len(values) - 1):
        x, value = point(i, 1e3)[0], values[i]
        shown = f"{value:.0e}".replace("e+0", "e") if value > 1000 else f"{value:,}"
        parts.append(_text(x, top + HEIGHT + 15, shown, 'text-anchor="middle"'))

    grey = 'fill="none" stroke="currentColor" stroke-opacity="0.22"'
    parts += [f'<polyline points="{line(other)}" {grey}/>' for other in LINES if other != key]
    parts.append(f'<polyline points="{line(key)}" fill="none" stroke="{BLUE}" stroke-width="2.5"/>')

    # at the end of the line, the exponent of its last step; as printed, above the panel
    step = math.log(values[-1] / values[-2])
    exponent = abs(math.log(rows[key][-1] / rows[key][-2]) / step)
    x, y = point(len(values) - 1, rows[key][-1])
    at_end = 'text-anchor="end" font-weight="600"'
    beside = y - 8 if y - top > 24 else y + 20
    parts.append(_text(x + 14, beside, _power(exponent, symbol, 1), at_end))
    printed = _printed(key).get("printed", {}).get(symbol)
    words = "" if printed is None else f"printed {_power(printed, symbol, 0)}"
    parts.append(_text(left, top - 7, f'<tspan font-weight="600">{key}</tspan>  {words}'))
    return parts


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", action="store_true", help="rates, and rows at one promise")
    parser.add_argument("--pictures", type=Path, help="folder for a picture of each exponent")
    options = parser.parse_args()
    if options.rows:
        rows_at_one_promise()
    for name, symbol in SYMBOLS.items() if options.pictures else ():
        path = options.pictures / f"table1-{symbol}.svg"
        path.write_text(picture(name), encoding="utf-8")


if __name__ == "__main__":
    main()
