# /// script
# requires-python = ">=3.11"
# dependencies = ["replearn", "matplotlib"]
# ///
"""Algorithm 1 of the paper, step by step: two labs, every intermediate, a picture of each step.

    python algorithm_1.py [--folder pictures]

Without a folder it prints the steps; with one it draws them (needs matplotlib).
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import replearn as rl

SIZES = {"n_batches": 400, "batch_size": 60, "n_components": 24, "grid_width": 0.4}
LABS = (("lab 1", "o", "tab:blue"), ("lab 2", "x", "tab:orange"))


def rows(n_rows: int, seed: int) -> Any:
    """Rows and labels of one population with margins from 0.3 to 0.6."""
    return rl.datasets.make_margin(n_rows, 30, 0.3, max_margin=0.6, random_state=seed)


def labs() -> list[Any]:
    """Two labs, other rows, the same seed; paper mode, with sizes that a laptop runs."""
    fits = []
    for lab in (0, 1):
        algorithm = rl.ReplicableSVMClassifier(
            margin=0.3, mode="paper", shared_seed="2024", trace=True, **SIZES
        )
        fits.append(algorithm.fit(*rows(24_000, lab)))
    return fits


def margins(normal: Any) -> Any:
    """Of new rows, by this normal: negative ones are errors."""
    X, y = rows(4000, 2)
    return y * (X @ normal) / np.linalg.norm(X, axis=1) / np.linalg.norm(normal)


def steps(one: Any, two: Any) -> list[tuple[str, str]]:
    """What each line of the algorithm gave, in words."""
    apart = float(np.linalg.norm(one.mean_direction - two.mean_direction))
    spread = float(np.linalg.norm(one.directions - one.mean_direction, axis=1).mean())
    n_same = int((one.codes == two.codes).sum())
    cosine = float(
        one.direction @ one.mean_direction
        / (np.linalg.norm(one.direction) * np.linalg.norm(one.mean_direction))
    )  # fmt: skip
    wrong = float((margins(one.direction) <= 0).mean())
    n_batches, n_inputs = one.directions.shape
    return [
        ("line 1", f"sizes: {', '.join(f'{name} {size}' for name, size in SIZES.items())}"),
        ("line 2", f"{n_batches} SVMs: unit normals w_i, {spread:.2f} from their mean on average"),
        ("line 3", f"the mean z; the labs' means are {apart:.3f} apart"),
        ("line 4", f"A, {one.components.size} x {n_inputs}, shared: the labs have the same one"),
        ("line 5", f"AKround with o and u, shared: {n_same} of {one.codes.size} codes are equal"),
        ("line 6", f"A'b: its cosine with z is {cosine:.2f}; wrong on {wrong:.1%} of new rows"),
    ]


def draw(one: Any, two: Any, folder: Path) -> None:
    """One picture for each step."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    both = list(zip((one, two), LABS, strict=True))
    pictures: list[tuple[Any, Path]] = []

    def picture(name: str, title: str, x: str, y: str) -> Any:
        figure, frame = plt.subplots(figsize=(5.5, 4), layout="constrained")
        frame.set(title=title, xlabel=x, ylabel=y)
        pictures.append((figure, folder / f"{name}.svg"))
        return frame

    # the plane in which normals vary most
    every = np.vstack([one.directions, two.directions])
    axes = np.linalg.svd(every - every.mean(axis=0), full_matrices=False)[2][:2]
    plane = "first direction in which they vary", "second direction"

    frame = picture("2-normals", "Line 2: a normal from each batch of rows", *plane)
    for lab, (name, mark, color) in both:
        frame.plot(*(lab.directions @ axes.T).T, mark, color=color, label=name, markersize=4)
    frame.legend()

    frame = picture("3-means", "Line 3: both labs' means, on their normals", *plane)
    for lab, (name, mark, color) in both:
        frame.plot(*(lab.directions @ axes.T).T, ".", color="lightgrey")
        frame.plot(*(lab.mean_direction @ axes.T), mark, color=color, label=name, zorder=3)
    frame.legend()

    frame = picture("4-matrix", "Line 4: the matrix A, the same at both labs", "input", "component")
    frame.figure.colorbar(frame.imshow(one.projection, cmap="RdBu", aspect="auto"))

    title = "Line 5: A z of both labs, each in one shared cell"
    frame = picture("5-cells", title, "component", "A z, and the cell that holds it")
    width, places = SIZES["grid_width"], np.arange(one.codes.size)
    low = width * (one.codes + one.offsets - one.thresholds)  # where the code changes
    frame.bar(places, width, bottom=low, width=0.7, color="lightgrey", label="cell of lab 1")
    for lab, (name, mark, color) in both:
        frame.plot(places, lab.components, mark, color=color, label=name)
    frame.set_ylim(top=0.65)
    frame.legend(fontsize="small", ncols=3)

    title = "Line 6: what the rounding costs, on new rows"
    frame = picture("6-margins", title, "margin; below 0 is an error", "rows")
    bins = np.linspace(-0.4, 0.8, 49)
    for normal, name in ((one.mean_direction, "by the mean z"), (one.direction, "by A'b")):
        frame.hist(margins(normal), bins, alpha=0.6, label=name)
    frame.axvline(0.0, color="black")
    frame.legend()

    for figure, path in pictures:
        figure.savefig(path)
        plt.close(figure)


def main() -> None:
    """Print the steps, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    first, second = labs()
    for name, words in steps(first.trace_, second.trace_):
        print(f"{name}  {words}")
    same = first.fingerprint_ == second.fingerprint_
    print("result  the same model" if same else "result  different models")
    if given.folder is not None:
        draw(first.trace_, second.trace_, given.folder)


if __name__ == "__main__":
    main()
