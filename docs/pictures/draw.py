"""Draw the pictures of the landing page and of the concepts, for light and for dark pages.

    python docs/pictures/draw.py

Everything in them is computed here, from the formulas that their pages state.
"""

import hashlib
import json
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from scipy.stats import norm

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from figure_style import BLUE, ORANGE, save_pair  # noqa: E402

INK = {"light": "#1f2430", "dark": "#e6e8ec"}
LINE = {"light": "#b4bac4", "dark": "#5c6470"}
FILL = {"light": "#e4ecf6", "dark": "#22344c"}
POINT = {"light": BLUE, "dark": "#7db4f0"}
SECOND = {"light": ORANGE, "dark": "#f0a94e"}


def two_labs(ground):
    """Two samples, two estimates, one cell, one model."""
    rng = np.random.default_rng(5)
    figure = plt.figure(figsize=(6.9, 3.1))
    labs, cells, model = figure.subfigures(1, 3, width_ratios=(0.95, 1.1, 0.95))

    panels = labs.subplots(2, 1)
    estimates = []
    for panel, name, colour in zip(panels, "AB", (POINT, SECOND), strict=True):
        X = rng.normal(size=(120, 2))
        side = X @ [0.8, 0.6] + 0.35 * rng.normal(size=120) > 0
        estimates.append((X * (2 * side - 1)[:, None]).mean(axis=0))
        panel.plot(*X[side].T, "o", color=colour[ground], markersize=3)
        panel.plot(*X[~side].T, "x", color=LINE[ground], markersize=3.5)
        normal = estimates[-1]
        along = np.array([-normal[1], normal[0]]) / np.linalg.norm(normal)
        panel.plot(
            *np.outer([-3, 3], along).T, color=INK[ground], linewidth=1.2, linestyle="-", marker=""
        )
        panel.set(xlim=(-2.6, 2.6), ylim=(-2.2, 2.2), xticks=[], yticks=[])
        panel.set_title(f"rows of lab {name}", fontsize=11)
        panel.spines[:].set_visible(False)

    panel = cells.subplots()
    width, offset = 1.0, np.array([0.61, 0.18])
    points = 3.5 * np.array(estimates)
    codes = np.floor((points - offset) / width).astype(int).tolist()
    assert codes[0] == codes[1]
    _grid(panel, ground, width, offset, (0, 4), (0, 4))
    corner = np.array(codes[0]) * width + offset
    panel.add_patch(
        Rectangle(
            corner, width, width, facecolor=FILL[ground], edgecolor=INK[ground], linewidth=1.6
        )
    )
    for point, name, colour, mark in zip(points, "AB", (POINT, SECOND), "os", strict=True):
        panel.plot(*point, mark, color=colour[ground], markersize=8, zorder=3)
        panel.annotate(name, point, (7, -3), textcoords="offset points", fontsize=11)
    panel.set(xlim=(0, 4), ylim=(0, 4), aspect="equal")
    panel.set_title("a published grid", fontsize=11)
    panel.set_xlabel("two estimates, one cell", fontsize=11)

    panel = model.subplots()
    panel.axis("off")
    panel.set(xlim=(0, 1), ylim=(0, 1))
    panel.set_title("one model", fontsize=11)
    for code, place, name, colour in zip(codes, (0.75, 0.5), "AB", (POINT, SECOND), strict=True):
        fingerprint = hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]
        panel.text(0.02, place, f"lab {name}", fontsize=11, color=colour[ground], weight="bold")
        panel.text(0.02, place - 0.09, fingerprint, fontsize=10.5, family="monospace")
    panel.text(0.02, 0.2, "one hash to compare;\nno row leaves a lab", fontsize=10.5)
    return figure


def _grid(panel, ground, width, offset, xlim, ylim):
    for start, limits, draw in ((offset[0], xlim, panel.axvline), (offset[1], ylim, panel.axhline)):
        first = limits[0] - (limits[0] - start) % width
        for place in np.arange(first, limits[1] + width, width):
            draw(place, color=LINE[ground], linewidth=1)
    panel.set(xlim=xlim, ylim=ylim, xticks=[], yticks=[])
    panel.spines[:].set_visible(False)


def grid(ground):
    """Two estimates in one cell, and in two."""
    figure, panels = plt.subplots(1, 2, figsize=(5.6, 3.0))
    stories = (
        ("one cell, one model", [[1.45, 1.8], [1.62, 2.05]]),
        ("a wall: two models", [[2.18, 1.8], [2.4, 2.05]]),
    )
    start = np.array([0.3, 0.5])
    for panel, (title, points) in zip(panels, stories, strict=True):
        _grid(panel, ground, 1.0, start, (0, 3.6), (0.4, 3.6))
        for point in points:
            corner = np.floor(np.array(point) - start) + start
            panel.add_patch(
                Rectangle(corner, 1, 1, facecolor=FILL[ground], edgecolor="none", zorder=0)
            )
            panel.plot(*(corner + 0.5), "+", color=INK[ground], markersize=9)
        for point, name, colour, mark in zip(points, "AB", (POINT, SECOND), "os", strict=True):
            panel.plot(*point, mark, color=colour[ground], markersize=8)
            place = {"A": (-14, -3), "B": (7, 2)}[name]
            panel.annotate(name, point, place, textcoords="offset points")
        panel.set(aspect="equal")
        panel.set_title(title)
    return figure


def differ(target, spread, shifts, width=1.0):
    """Probability that two normal estimates of ``target`` are rounded to different cells."""
    edges = np.arange(-4, 5)[:, None] * width + np.atleast_1d(shifts) * width
    same = np.diff(norm.cdf((edges - target) / spread), axis=0) ** 2
    return 1 - same.sum(axis=0)


def shift(ground):
    """Disagreement against where the truth lies: a fixed grid, and one with a random shift."""
    figure, panel = plt.subplots(figsize=(5.6, 3.1))
    spread, targets = 0.06, np.linspace(0, 2, 401)
    fixed = [differ(target, spread, 0.5)[0] for target in targets]
    shifted = differ(0.0, spread, (np.arange(2000) + 0.5) / 2000).mean()
    panel.plot(
        targets,
        fixed,
        color=SECOND[ground],
        linestyle="--",
        marker="",
        label="fixed grid",
    )
    panel.axhline(shifted, color=POINT[ground], linestyle="-", label="published random shift")
    panel.set(
        xlabel="true coefficient, in cells", ylabel="chance of different models", ylim=(0, 0.6)
    )
    panel.legend(loc="upper center", ncols=2, bbox_to_anchor=(0.5, 1.2))
    return figure


def noise(ground):
    """What agreement costs: width of a cell, rows, disagreement."""
    figure, panel = plt.subplots(figsize=(5.6, 3.3))
    rows = np.geomspace(1e3, 1e6, 50)
    for rho, style, mark in ((0.3, ":", "^"), (0.1, "-", "o"), (0.03, "--", "s")):
        spread = 1 / np.sqrt(rows)
        width = np.sqrt(2) * spread * np.sqrt(2 / np.pi) / rho  # P[differ] = E|D| / width
        colour = {0.3: INK, 0.1: POINT, 0.03: SECOND}[rho][ground]
        panel.loglog(
            rows,
            width / np.sqrt(12),
            style,
            color=colour,
            marker=mark,
            markevery=12,
            label=f"disagreement {rho}",
        )
    panel.loglog(
        rows,
        1 / np.sqrt(rows),
        color=INK[ground],
        linestyle="-",
        linewidth=1,
        marker="",
        label="sampling error itself",
    )
    panel.set(
        xlabel="rows per lab",
        ylabel="error of one rounded number,\nin sd of a row",
    )
    panel.legend(fontsize=10)
    return figure


def seeds(ground):
    """Disagreement under each of 200 seeds, sorted, and what rho says."""
    figure, panel = plt.subplots(figsize=(5.6, 3.1))
    spread, n_seeds = 0.044, 200
    shifts = np.random.default_rng(1).random(n_seeds)
    rates = np.sort(differ(0.0, spread, shifts))[::-1]
    panel.bar(np.arange(n_seeds), rates, 1.0, color=POINT[ground])
    mean = differ(0.0, spread, (np.arange(4000) + 0.5) / 4000).mean()
    panel.axhline(mean, color=SECOND[ground], linestyle="--", linewidth=2)
    panel.annotate(
        f"rho, the mean over all seeds: {mean:.2f}",
        (n_seeds, mean),
        (0, 5),
        textcoords="offset points",
        ha="right",
    )
    panel.set(
        xlabel="200 seeds, the unluckiest first",
        ylabel="chance of different models",
        xlim=(0, n_seeds),
    )
    return figure


def pilot(ground):
    """What is decided by whom: pilot, protocol, sites, model."""
    figure, panel = plt.subplots(figsize=(6.0, 3.3))
    panel.set(xlim=(0, 10), ylim=(0.2, 4.6))
    panel.axis("off")
    boxes = {
        "pilot": (0.05, 1.7, 2.35, 1.3, "a pilot, no\nsite's own rows"),
        "protocol": (
            3.1,
            0.75,
            2.85,
            3.1,
            "a published protocol\n\ncolumns, categories\nscaling\n"
            "directions, start\ngrid, and later a seed",
        ),
        "site 1": (6.9, 3.15, 2.9, 0.95, "rows of site 1\ndecide which cell"),
        "site 2": (6.9, 1.85, 2.9, 0.95, "rows of site 2\ndecide which cell"),
        "site 3": (6.9, 0.55, 2.9, 0.95, "rows of site 3\ndecide which cell"),
    }
    for name, (x, y, width, height, text) in boxes.items():
        face = FILL[ground] if name == "protocol" else "none"
        panel.add_patch(
            FancyBboxPatch(
                (x, y),
                width,
                height,
                boxstyle="round,pad=0.02,rounding_size=0.12",
                facecolor=face,
                edgecolor=INK[ground],
                linewidth=1.2,
            )
        )
        panel.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=10.5)
    arrows = [((2.5, 2.35), (3.05, 2.35)), *(((5.95, 2.35), (6.85, y)) for y in (3.6, 2.33, 1.03))]
    for start, end in arrows:
        panel.add_patch(
            FancyArrowPatch(
                start, end, arrowstyle="-|>", mutation_scale=13, color=INK[ground], linewidth=1.2
            )
        )
    return figure


PICTURES = {
    "two-labs": two_labs,
    "grid": grid,
    "shift": shift,
    "noise": noise,
    "seeds": seeds,
    "pilot": pilot,
}


def main(folder=HERE):
    """Draw all pictures."""
    plt.switch_backend("Agg")
    for name, draw in PICTURES.items():
        save_pair(draw, folder / name)
        plt.close("all")


if __name__ == "__main__":
    main()
