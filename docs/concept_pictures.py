"""Draw the pictures of the theory pages and of the architecture; prints the numbers they show.

python docs/concept_pictures.py [FOLDER]        default: docs/pictures
"""

import sys
from pathlib import Path

import numpy as np

import replearn as rl
from replearn.codes import Cells
from replearn.glm import GLM, Between, GlmPromise

BLUE, RED, GREEN = "#0072b2", "#d55e00", "#009e73"
INK = (
    "<style>svg:root{color:#1f2328}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
)


def svg(width, height, parts, label):
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{label}" font-family="sans-serif" font-size="14" fill="currentColor" '
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
    left, right, unit = 100, 590, 140
    one, two = 2.05, 2.35
    parts, rows = [], []
    for row, shift in enumerate((0.15, 0.8, 0.45)):
        y = 50 + 70 * row
        walls = [left + unit * (k - shift) for k in range(6)]
        a, b = (left + unit * (z - 0.7) for z in (one, two))
        split = np.floor(one - 0.7 + shift) != np.floor(two - 0.7 + shift)
        rows.append(split)
        parts += line_of_cells(y, left, right, walls)
        parts += [mark(a, y, 0, 6), mark(b, y, 1, 6)]
        parts.append(text(left - 14, y + 5, "different" if split else "same code", "end", "600"))
    parts += [
        text(left + unit * (one - 0.7), 20, "lab A"),
        text(left + unit * (two - 0.7), 20, "lab B"),
    ]
    print(
        f"shifts under which the two labs differ: {sum(rows)} of {len(rows)}; over all shifts 30%"
    )
    return svg(600, 240, parts, "Two labs' numbers under three shared shifts of the cells.")


def sketch():
    """Without and with a sketch: the cell is moved until the original lies near its middle."""
    left, right, unit = 100, 590, 140
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
        parts += [mark(a, y, 0, 6), mark(b, y, 1, 6), text(left - 14, y + 5, words, "end", "600")]
    parts += [text(a, 24, "original"), text(b + 34, 24, "replication")]
    print(f"original 1.9 and replication 2.2, cells of width 1: sketch {bits[0]}, same code {same}")
    return svg(
        600, 190, parts, "A sketch moves the cell so that the original lies near its middle."
    )


def price():
    """Price of rounding beside the sampling error: 20 coefficients, 1 of 100 labs differs."""
    parts, shown, left, unit = [], [], 100, 95
    for bits in (1, 2, 3, 4, 8):
        plan = GLM.sizes(GlmPromise(0.01, bits, 2, 2), np.ones(20), Between.none(20))
        factor = float(plan.widths[0])
        shown.append((bits, factor, factor**2 / (12 * 4**bits) / 0.5))
    for row, (bits, factor, share) in enumerate(shown):
        y, long = 30 + 42 * row, unit * share
        parts.append(text(left - 14, y + 5, f"{bits} bit{'s' if bits > 1 else ''}", "end", "600"))
        parts.append(
            f'<rect x="{left}" y="{y - 12}" width="{long:.1f}" height="24" fill="{BLUE}" rx="2"/>'
        )
        value = f"{share:.2f}" if share >= 0.005 else "below 0.01"
        beside = left + 8 + long
        if unit - 50 < long < unit:
            beside = left + unit + 7  # not across the line at 1
        parts.append(text(beside, y + 5, value, "start"))
        print(f"{bits} bits: cells {factor:.1f} standard deviations wide, price {share:.2f}")
    parts.append(f'<path d="M{left + unit} 8v214" stroke="currentColor" stroke-dasharray="4 4"/>')
    parts.append(text(left + unit + 7, 226, "1: the variance of the fit itself", "start"))
    parts.append(text(left, 248, "variance that rounding adds", "start"))
    return svg(600, 256, parts, "Price of rounding in units of the fit's own sampling error.")


PANEL, GAP, TOP = 133, 13, 30
REACH = 54  # a vector of length 1
LABS = ((BLUE, "circle"), (RED, "square"))


def mark(x, y, lab, size=4.0, hollow=False):
    """A point of a lab: circles and squares, so that no colour is needed."""
    colour, shape = LABS[lab]
    paint = f'fill="none" stroke="{colour}"' if hollow else f'fill="{colour}"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" {paint}/>'
    side = 1.8 * size
    corner = f'x="{x - side / 2:.1f}" y="{y - side / 2:.1f}"'
    return f'<rect {corner} width="{side:.1f}" height="{side:.1f}" {paint}/>'


def halfspace_runs():
    """Algorithm 1 at two labs in the plane, as the paper has it, with every intermediate."""
    sizes = {"n_batches": 100, "batch_size": 6, "n_components": 2, "grid_width": 0.3}
    options = {"margin": 0.25, "fit_intercept": False, "projection": "gaussian", "trace": True}
    samples = [rl.datasets.make_margin(600, 2, margin=0.25, random_state=lab) for lab in (1, 2)]
    labs = [
        rl.ReplicableSVMClassifier(**options, **sizes, rounding="centre", shared_seed=4).fit(X, y)
        for X, y in samples
    ]
    same = labs[0].fingerprint_ == labs[1].fingerprint_
    for lab in labs:
        print(f"strip: A z = {lab.trace_.components.round(2)}, codes {lab.trace_.codes}")
    print(f"strip: the same halfspace: {same}")
    return samples, labs


def strip():
    """Seven steps of Algorithm 1 at two labs: real rows, and what ``trace=True`` keeps."""
    samples, labs = halfspace_runs()
    traces = [lab.trace_ for lab in labs]
    parts = []

    def panel(number, title):
        column, row = number % 4, number // 4
        left, top = GAP + column * (PANEL + GAP), TOP + row * (PANEL + TOP + 22)
        frame = f'<rect x="{left}" y="{top}" width="{PANEL}" height="{PANEL}" rx="4" fill="none" '
        parts.append(f'{frame}stroke="currentColor" stroke-opacity="0.3"/>')
        parts.append(text(left, top - 8, f"{number + 1} {title}", "start", "600"))
        return left + PANEL / 2, top + PANEL / 2

    def arrow(centre, vector, lab, width=1.0):
        x, y = centre
        colour = LABS[lab][0]
        dash = 'stroke-dasharray="5 3"' if lab else ""
        ends = f'x2="{x + REACH * vector[0]:.1f}" y2="{y - REACH * vector[1]:.1f}"'
        stroke = f'stroke="{colour}" stroke-width="{width}" {dash}'
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" {ends} {stroke}/>')

    # the rows, and a vector for each batch
    for number, title in ((0, "two samples"), (6, "same halfspace")):
        x, y = panel(number, title)
        if number == 6:
            normal = labs[0].coef_[0]
            across = np.array([-normal[1], normal[0]])
            parts.append(
                f'<line x1="{x - 61 * across[0]:.1f}" y1="{y + 61 * across[1]:.1f}" '
                f'x2="{x + 61 * across[0]:.1f}" y2="{y - 61 * across[1]:.1f}" '
                'stroke="currentColor" stroke-width="2"/>'
            )
        for lab, (X, signs) in enumerate(samples):
            for point, sign in list(zip(X, signs, strict=True))[:40]:
                parts.append(mark(x + REACH * point[0], y - REACH * point[1], lab, 2.6, sign < 0))

    centre = panel(1, "batch normals")
    for lab, trace in enumerate(traces):
        for vector in trace.directions[:15]:
            arrow(centre, vector / max(1.0, np.linalg.norm(vector)), lab)

    centre = panel(2, "mean")
    for lab, trace in enumerate(traces):
        arrow(centre, trace.mean_direction / max(1.0, np.linalg.norm(trace.mean_direction)), lab, 3)

    # components, the shared grid, and the cell
    points = np.array([trace.components for trace in traces])
    width = float(labs[0].model_.design.space.grid_width)
    middle, scale = points.mean(axis=0), PANEL / (3.2 * width)
    for number, title in ((3, "projection"), (4, "shared grid"), (5, "same cell")):
        x, y = panel(number, title)
        if number > 3:
            for axis in (0, 1):
                for k in range(-4, 5):  # walls lie half a cell from what the codes stand for
                    at = scale * (traces[0].rounded[axis] + (k + 0.5) * width - middle[axis])
                    if abs(at) < PANEL / 2:
                        path = f"M{x + at:.1f} {y - PANEL / 2}v{PANEL}"
                        if axis == 1:
                            path = f"M{x - PANEL / 2} {y - at:.1f}h{PANEL}"
                        parts.append(
                            f'<path d="{path}" stroke="currentColor" stroke-opacity="0.45"/>'
                        )
        if number == 5:
            b = traces[0].rounded
            corner = scale * (b - width / 2 - middle)
            side = scale * width
            parts.append(
                f'<rect x="{x + corner[0]:.1f}" y="{y - corner[1] - side:.1f}" width="{side:.1f}" '
                f'height="{side:.1f}" fill="{GREEN}" fill-opacity="0.3"/>'
            )
            at = scale * (b - middle)
            cross = f"M{x + at[0] - 6:.1f} {y - at[1]:.1f}h12m-6 -6v12"
            parts.append(f'<path d="{cross}" stroke="currentColor"/>')
        for lab, point in enumerate(points):
            at = scale * (point - middle)
            parts.append(mark(x + at[0], y - at[1], lab, 5))

    # legend in the place of an eighth picture
    left, top = GAP + 3 * (PANEL + GAP), 2 * TOP + PANEL + 44
    for line, words in enumerate(("lab A", "lab B")):
        parts.append(mark(left + 8, top + 26 * line, line, 5))
        parts.append(text(left + 24, top + 5 + 26 * line, words, "start"))
    parts.append(text(left, top + 56, "full: label +1", "start"))
    parts.append(text(left, top + 78, "hollow: label -1", "start"))
    parts.append(text(left, top + 104, "cross: what the", "start"))
    parts.append(text(left, top + 122, "codes stand for", "start"))
    label = "Algorithm 1 at two labs: different samples and batch normals, one cell, one halfspace."
    return svg(4 * (PANEL + GAP) + GAP, 2 * (PANEL + TOP) + 40, parts, label)


def exchange(lanes, messages, label):
    """Who sends which file when: a lane for each party, an arrow for each file, time downwards."""
    left, right, top = 70, 530, 46
    step = (right - left) / (len(lanes) - 1)
    floor = top + 46 * len(messages)
    parts = []
    for lane, name in enumerate(lanes):
        x = left + lane * step
        parts.append(text(x, 24, name, weight="600"))
        parts.append(f'<path d="M{x} 34V{floor}" stroke="currentColor" stroke-opacity="0.35"/>')
    for line, (sender, receiver, what) in enumerate(messages):
        y = top + 30 + 46 * line
        at = left + sender * step
        if sender == receiver:  # what a party does by itself
            side, anchor = (14, "start") if sender == 0 else (-14, "end")
            parts.append(dot(at, y, GREEN) + text(at + side, y + 5, what, anchor))
            continue
        to = left + receiver * step
        head = -8 if to > at else 8
        parts.append(
            f'<path d="M{at} {y}H{to}" stroke="{BLUE}" stroke-width="2"/>'
            f'<path d="M{to} {y}l{head} -5v10z" fill="{BLUE}"/>'
        )
        parts.append(text((at + to) / 2, y - 7, what))
    return svg(600, floor + 10, parts, label)


def who_sends():
    """A study with one original: files from left to right are sent to every centre."""
    messages = [
        (0, 0, "publish"),
        (0, 1, "study.json, to every centre"),
        (1, 1, "check, replicate"),
        (1, 0, "fingerprint (64 letters and digits)"),
        (0, 1, "sealed: opening and model, once all are in"),
        (1, 1, "compare, evaluate"),
    ]
    label = "An original sends a study, centres send fingerprints, and the original opens the seal."
    return exchange(("first centre", "other centres"), messages, label)


def pool():
    """Small centres that replicate together, from an opened model."""
    messages = [
        (0, 1, "study.json and the model"),
        (1, 1, "combine --begin"),
        (1, 2, "study.json, first.json"),
        (2, 2, "sums"),
        (2, 1, "sums.json: integers, one file"),
        (1, 1, "combine"),
        (1, 2, "joint.model.json"),
    ]
    label = (
        "Small centres send one file of sums each; whoever combines sends all of them one model."
    )
    return exchange(("first centre", "whoever combines", "small centres"), messages, label)


def who_sends_jointly():
    """An original of several centres, in rounds."""
    messages = [
        (0, 0, "sums --target"),
        (0, 1, "columns.json: quantiles and counts"),
        (1, 0, "draft.json"),
        (0, 1, "sums.json, about five times"),
        (1, 0, "next.json, after each of them"),
        (1, 1, "combine --publish"),
        (1, 0, "study.json and the model"),
    ]
    label = (
        "Centres send columns, then sums in rounds; whoever combines sends states and the study."
    )
    return exchange(("each centre", "whoever combines"), messages, label)


def rooms():
    """The rooms of the package, from the top down, with their lines."""
    home = Path(__file__).resolve().parents[1] / "src" / "replearn"
    words = {
        "cli": "one module per command", "engines": "Dask, Spark",
        "reports": "evaluate, audit, compare, check",
        "estimators": "scikit-learn shells", "study": "original, replication, coalition",
        "exports": "SQL, ONNX, CSV, scikit-learn",
        "glm": "losses, Newton steps, coefficients", "halfspaces": "one file per algorithm",
        "kernels": "compiled loops of the paper", "tables": "frames and files to columns",
        "rows": "encoded rows and their sums", "words": "facts as text, JSON, pages",
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
        colour = (
            GREEN if name in ("glm", "halfspaces", "kernels", "rows", "codes", "exact") else BLUE
        )  # the pure core
        parts.append(
            f'<rect x="10" y="{y}" width="580" height="28" rx="4" fill="{colour}" '
            'fill-opacity="0.16" stroke="currentColor" stroke-opacity="0.25"/>'
        )
        parts.append(text(24, y + 19, name, "start", "600") + text(140, y + 19, what, "start"))
        parts.append(text(576, y + 19, f"{lines:,}", "end"))
        print(f"| `{name}/` | {what} | {lines:,} |")
    root = sum(len(p.read_text(encoding="utf-8").splitlines()) for p in home.glob("*.py"))
    print(f"| root | errors, types, datasets | {root:,} |")
    print(f"| all | | {total + root:,} |")
    return svg(600, 14 + 34 * len(words), parts, "Modules of the package from the top down.")


def main(folder):
    pictures = {
        "strip": strip, "cells": cells, "sketch": sketch, "price": price,
        "who-sends": who_sends, "pool": pool,
        "who-sends-jointly": who_sends_jointly, "rooms": rooms,
    }  # fmt: skip
    for name, draw in pictures.items():
        (folder / f"{name}.svg").write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
