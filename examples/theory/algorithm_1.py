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


def labs() -> list[Any]:
    """Two labs, other rows, the same seed; paper mode, with sizes that a laptop runs."""
    fits = []
    for lab in (0, 1):
        X, y = rl.datasets.make_margin(24_000, 30, 0.3, max_margin=0.6, random_state=lab)
        algorithm = rl.ReplicableSVMClassifier(
            margin=0.3, mode="paper", shared_seed="2024", trace=True, **SIZES
        )
        fits.append(algorithm.fit(X, y))
    return fits


def steps(one: Any, two: Any) -> list[tuple[str, str]]:
    """What each line of the algorithm gave, in words."""
    apart = float(np.linalg.norm(one.mean_direction - two.mean_direction))
    spread = float(np.linalg.norm(one.directions - one.mean_direction, axis=1).mean())
    n_same = int((one.codes == two.codes).sum())
    cosine = float(
        one.direction @ one.mean_direction
        / (np.linalg.norm(one.direction) * np.linalg.norm(one.mean_direction))
    )  # fmt: skip
    n_batches, n_inputs = one.directions.shape
    return [
        ("line 2", f"{n_batches} SVMs: unit normals w_i, {spread:.2f} from their mean on average"),
        ("line 3", f"the mean z; the labs' means are {apart:.3f} apart"),
        ("line 4", f"A, {one.components.size} x {n_inputs}, shared: the labs have the same one"),
        ("line 5", f"AKround with o and u, shared: {n_same} of {one.codes.size} codes are equal"),
        ("line 6", f"A'b: its cosine with z is {cosine:.2f}"),
    ]


def draw(one: Any, two: Any, folder: Path) -> None:
    """One picture for each step."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    both = np.vstack([one.directions, two.directions])
    axes = np.linalg.svd(both - both.mean(axis=0), full_matrices=False)[2][:2]

    def picture(name: str, title: str) -> Any:
        figure, frame = plt.subplots(figsize=(5, 4), layout="constrained")
        frame.set_title(title)
        pictures.append((figure, folder / f"{name}.svg"))
        return frame

    pictures: list[tuple[Any, Path]] = []
    frame = picture("1-normals", "Line 2: a normal from each batch")
    for lab, mark in ((one, "o"), (two, "x")):
        frame.plot(*(lab.directions @ axes.T).T, mark)
    frame = picture("2-means", "Line 3: their mean, much steadier")
    for lab, mark in ((one, "o"), (two, "x")):
        frame.plot(*(lab.directions @ axes.T).T, ".", color="lightgrey")
        frame.plot(*(lab.mean_direction @ axes.T), mark)
    frame = picture("3-projection", "Line 4: A z of both labs, by component")
    frame.plot(one.components, "o")
    frame.plot(two.components, "x")
    frame = picture("4-rounding", "Line 5: b, where the shared coins round both")
    frame.plot(one.rounded, "o")
    frame.plot(two.rounded, "x")
    frame = picture("5-direction", "Line 6: A'b beside z")
    frame.plot(one.mean_direction / np.linalg.norm(one.mean_direction), "o")
    frame.plot(one.direction / np.linalg.norm(one.direction), "x")
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
