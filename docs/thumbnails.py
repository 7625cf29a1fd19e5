"""Run each example, keep what it prints, and draw one small bold picture of what it finds.

python docs/thumbnails.py [FOLDER]        default: docs/pictures/examples

The texts stand beside the pictures; docs/examples.md shows both. Pictures are made for a width of
160 pixels: few marks, one number, no axes.
"""

import contextlib
import io
import math
import os
import runpy
import sys
import tempfile
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent / "examples"
BLUE, RED, GREY = "#0072b2", "#d55e00", 'currentColor" fill-opacity="0.3'
INK = (
    "<style>svg:root{color:#1f2328}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
)


def svg(parts, words, label):
    text = f'<text x="80" y="22" text-anchor="middle" font-weight="700">{words}</text>'
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 160 110" width="160" role="img" '
        f'aria-label="{label}" font-family="system-ui,sans-serif" font-size="15" '
        f'fill="currentColor">{INK}{text}{"".join(parts)}</svg>\n'
    )


def bar(x, width, share, color):
    height = max(3.0, 70 * share)
    return (
        f'<rect x="{x:.1f}" y="{102 - height:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="2" fill="{color}"/>'
    )


def bars(shares, colors):
    step = 136 / len(shares)
    pairs = enumerate(zip(shares, colors, strict=True))
    return [bar(12 + i * step, 0.78 * step, share, color) for i, (share, color) in pairs]


def boxes(labs, shown=5):
    """Cells as boxes, and a dot for each lab: the numbers that lie furthest out."""
    far = sorted(range(len(labs[0])), key=lambda i: -max(abs(lab[i]) for lab in labs))[:shown]
    parts = []
    for line, i in enumerate(far):
        y = 38 + 15 * line
        parts.append(
            f'<rect x="48" y="{y - 6}" width="64" height="12" rx="2" fill="currentColor" '
            'fill-opacity="0.12"/>'
        )
        for lab in labs:
            x = 80 + 64 * max(-1.1, min(1.1, float(lab[i])))
            color = BLUE if abs(lab[i]) <= 0.5 else RED
            parts.append(f'<circle cx="{x:.1f}" cy="{y}" r="4.5" fill="{color}"/>')
    return parts


def line(values, low, high, color):
    """Values from left to right, on one scale from low to high."""
    step = 130 / (len(values) - 1)
    points = (
        f"{15 + i * step:.1f},{100 - 66 * (v - low) / (high - low):.1f}"
        for i, v in enumerate(values)
    )
    return f'<polyline points="{" ".join(points)}" fill="none" stroke="{color}" stroke-width="5"/>'


def same_colors(flags):
    return [BLUE if flag else RED for flag in flags]


def two_hospitals(found):
    positions = found["second"].replication_.positions
    return svg(boxes([positions]), "same model", "Two hospitals: all marks lie in their cells.")


def four_centres(found):
    others = list(found["labs"].values())[1:]
    parts = boxes([lab.replication_.positions for lab in others])
    return svg(parts, "four centres", "Four centres: all marks lie in their cells.")


def retraining(found):
    same = found["same"]
    n_alarms = same.count(False)
    label = f"{len(same)} months; in {n_alarms} the model changed."
    return svg(bars([1.0] * len(same), same_colors(same)), "then an alarm", label)


def pooled_centres(found):
    sizes = [len(table) for table in found["small"]]
    shares = [size / sum(sizes) for size in sizes]
    parts = bars([*shares, 1.0], [*[GREY] * len(sizes), BLUE])
    return svg(parts, f"{len(sizes)} make {sum(sizes):,}", "Small centres replicate together.")


def how_many_rows(found):
    matches = found["matches"]
    parts = bars([n / 10 for n in matches.values()], [*[GREY] * (len(matches) - 1), BLUE])
    label = "Labs of 10 that match, by sample size: " + str(list(matches.values()))
    return svg(parts, f"{min(matches)} to {max(matches):,}", label)


def what_rounding_costs(found):
    losses = found["losses"]
    best = min(losses.values())
    price = [loss - best for loss in losses.values()]
    shares = [one / max(price) for one in price]
    colors = [BLUE if bits == 3 else GREY for bits in losses]
    return svg(bars(shares, colors), "1 to 4 bits", "The price of rounding falls with each bit.")


def different_population(found):
    import pandas as pd

    import replearn as rl
    from replearn.study import replicate
    from replearn.tables import open_table

    table = open_table(pd.read_csv("castleton.csv"), target="readmitted")  # the script is there
    opened = rl.load("ashford.model.json")
    result = replicate(rl.Study.load("study.json"), table, opened=opened)[1]
    return svg(boxes([result.positions]), "a mismatch", "Some marks lie outside.")


def choose_a_model(found):
    parts = []
    for top, votes in ((34, found["alone"]), (70, found["shared"])):
        at = 12.0
        colors = (RED, BLUE, GREY)
        for name, color in zip(found["candidates"], colors, strict=True):
            width = 136 * votes.count(name) / len(votes)
            parts.append(
                f'<rect x="{at:.1f}" y="{top}" width="{width:.1f}" height="26" fill="{color}"/>'
            )
            at += width
    n_alone, n_shared = len(set(found["alone"])), len(set(found["shared"]))
    label = f"Alone, hospitals choose {n_alone} models; with shared coins {n_shared}."
    return svg(parts, f"{n_alone} choices, or {n_shared}", label)


def each_row(found):
    rows = {name: modes["practical"] for name, modes in found["found"].rows.items()}
    logs = {name: math.log10(n) for name, n in rows.items()}
    most = max(logs.values())
    colors = [BLUE if "+" in name else GREY for name in logs]
    parts = bars([(n / most) ** 2 for n in logs.values()], colors)
    return svg(parts, "Table 1", "Rows of each line of Table 1; with a sketch the fewest.")


def change_a_constant(found):
    import replearn as rl

    def rows(c2):
        given = {**found["given"], "constants": {"C2": c2}, "fit_intercept": False}
        return rl.plan("svm", mode="paper", **given).plan.n_rows

    sizes = [rows(c2) for c2 in (1.0, 0.7, 0.4, 0.1)]
    parts = bars([size / sizes[0] for size in sizes], [GREY, GREY, GREY, BLUE])
    return svg(parts, "C2 = 0.1", "Rows of Algorithm 1 for four values of a constant.")


def plot_an_exponent(found):
    logs = {bits: [math.log10(n) for n in rows] for bits, rows in found["rows"].items()}
    low, high = min(map(min, logs.values())), max(map(max, logs.values()))
    parts = [line(logs[0], low, high, RED), line(logs[3], low, high, BLUE)]
    return svg(parts, "0 and 3 bits", "Rows against disagreement: steep without bits, flat with.")


def algorithm_1(found):
    """Components of both labs' projected means: nearly equal, and rounded to the same codes."""
    labs = [lab.trace_.components for lab in found["labs"]()]
    most = max(abs(value) for lab in labs for value in lab)
    parts = []
    for lab, radius, color in zip(labs, (6, 3), (BLUE, RED), strict=True):
        for place, value in enumerate(lab):
            x, y = 12 + 136 * place / (len(lab) - 1), 66 - 34 * value / most
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}"/>')
    return svg(parts, "same codes", "Components of two labs lie on each other.")


def pointwise_vote(found):
    differ = sum(found["differ"]) / len(found["differ"])
    parts = bars([differ / found["bound"], 1.0], [BLUE, GREY])
    return svg(parts, "counted, proved", "Points that differ, beside the bound.")


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for script in sorted(EXAMPLES.glob("*/*.py")):
        before = Path.cwd()
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(place)
            try:
                with contextlib.redirect_stdout(io.StringIO()) as printed:
                    found = runpy.run_path(str(script), run_name="__main__")
                    picture = globals()[script.stem](found)
            finally:
                os.chdir(before)
        (folder / f"{script.stem}.txt").write_text(printed.getvalue(), encoding="utf-8")
        (folder / f"{script.stem}.svg").write_text(picture, encoding="utf-8")
        print(script.stem, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "pictures" / "examples")
