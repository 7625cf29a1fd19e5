"""Test vectors of every step of a fit, for other implementations: writes docs/vectors.json.

Rows of a case are stored where they are few; of the large cases they come from the coins, as
``rows_from_coins`` says.
"""

from pathlib import Path
from typing import Any

import numpy as np

from replearn.codes.coins import Coins
from replearn.codes.sketch import Cells
from replearn.documents import canonical_json, fingerprint_of
from replearn.exact import algebra, elementary
from replearn.exact.rows import Block, Kept, marks, with_constant
from replearn.recipes import newton
from replearn.recipes.coordinates import Coordinates
from replearn.recipes.glm import Summary, second_moments
from replearn.recipes.losses import Bernoulli, Gaussian, Loss, Multinomial, Poisson

PATH = Path(__file__).parents[1] / "docs" / "vectors.json"


def rows_from_coins(name: str, n_rows: int, n_terms: int) -> np.ndarray:
    """Terms from four uniforms each: ``floor((a + b + c + d - 2) * 7000 + 0.5)``, row by row."""
    u = Coins("vectors").uniforms(name, 4 * n_rows * n_terms).reshape(n_rows, n_terms, 4)
    total = ((u[..., 0] + u[..., 1]) + u[..., 2]) + u[..., 3]
    return np.floor((total - 2.0) * 7000.0 + 0.5).astype(np.int16)


def targets_from_coins(name: str, terms: np.ndarray, loss: Loss) -> np.ndarray:
    """Targets that depend on the first term: no part of the format."""
    u = Coins("vectors").uniforms(f"{name}/targets", len(terms))
    x = terms[:, 0] / 4096.0
    if loss.kind == "bernoulli":
        return (u * 6 - 3 < x).astype(np.float64)
    if loss.kind == "multinomial":
        return np.clip(np.floor((u + x / 4) * loss.n_scores + 0.5), 0, loss.n_scores)
    if loss.kind == "gaussian":
        return np.floor((x + 2 * u - 1) * 65536 + 0.5) / 65536
    return np.floor(u * u * 6 * (1.5 + np.clip(x, -1, 1)))


def cases() -> dict[str, tuple[Block, Loss, str]]:
    """The fits: rows, loss and ridge."""
    found: dict[str, tuple[Block, Loss, str]] = {}
    losses: dict[str, Loss] = {
        "two classes": Bernoulli(),
        "four classes": Multinomial(4),
        "numbers": Gaussian("0", "1"),
        "counts": Poisson(8),
    }
    for name, loss in losses.items():
        terms = rows_from_coins(name, 60, 3)
        found[name] = Block(terms, targets_from_coins(name, terms, loss)), loss, "0.01"
        u = Coins("vectors").uniforms(f"{name}/weights", 120)
        weights = np.floor(u[:60] * 65536 + 0.5) / 65536
        offset = np.floor((u[60:] - 0.5) * 65536 + 0.5) / 65536
        weighted = Block(terms, found[name][0].targets, weights, offset)
        found[f"{name}, weights and offset"] = weighted, loss, "0.003"
    terms = rows_from_coins("separable", 60, 2)
    terms[:, 1] = terms[:, 0]
    targets = (terms[:, 0] > 0).astype(np.float64)
    targets[0] = 1 - targets[0]
    found["nearly separable, a column twice"] = Block(terms, targets), Bernoulli(), "0.0001"
    terms = rows_from_coins("sampled", 40_000, 2)
    targets = targets_from_coins("sampled", terms, Bernoulli())
    found["a share of the rows"] = Block(terms, targets), Bernoulli(), "0.001"
    terms = rows_from_coins("many", 1000, 505)
    targets = targets_from_coins("many", terms, Bernoulli())
    found["many coefficients"] = Block(terms, targets), Bernoulli(), "0.1"
    return found


def fit_vector(block: Block, loss: Loss, ridge: str) -> dict[str, Any]:
    """Every step of one fit, and the codes of an original and of a replication."""
    rows = Kept(block)
    summary = Summary.of(rows, loss).check(loss)
    passes, sums = [], []

    def passed(state: newton.State) -> Any:
        passes.append({"theta": whole(state.theta), "share": state.share})
        sums.append(newton.sums_at(rows.blocks(), loss, state))
        return sums[-1]

    n_columns = rows.n_terms + 1
    theta = newton.fit(passed, loss, float(ridge), summary.shares, summary.n_rows, n_columns)
    coordinates = Coordinates.of(
        loss.information(summary.shares), second_moments(rows), float(ridge)
    )
    z = coordinates.of_theta(theta)
    cells = Cells.drawn(np.full(z.size, 0.0625), 3, Coins("vectors"))
    codes, sketch = cells.publish(z)
    return {
        "loss": loss.content(),
        "ridge": ridge,
        "shares": summary.shares.tolist(),
        "passes": passes,
        "first": {name: value.tolist() for name, value in sums[0].values.items()},
        "theta": whole(theta),
        "coordinates": coordinates.content(),
        "numbers": z.tolist(),
        "widths": ["0.0625"] * z.size,
        "bits": 3,
        "seed": "vectors",
        "sketch": sketch.tolist(),
        "codes": codes.tolist(),
        "moved": cells.replicate(z + 0.03, sketch).tolist(),
        "decoded": cells.decode(codes, sketch).tolist(),
        "coefficients": coordinates.to_theta(cells.decode(codes, sketch)).tolist(),
    }


def whole(theta: np.ndarray) -> list[list[int]]:
    return theta.astype(np.int64).tolist()


def vectors() -> dict[str, Any]:
    """All of them, as JSON types."""
    points = np.array([-60.0, -30.0, -1.0, -0.34657359027997264, -1e-9, 0.0, 0.1, 1.0, 30.0, 60.0])
    positive = np.array([1e-300, 1e-9, 0.5, 0.7071067811865475, 0.7071067811865476, 1.0, 3.0, 1e9])
    matrix = np.array([[4.0, 2.0, 0.6], [2.0, 5.0, 0.3], [0.6, 0.3, 1e-9]])
    lower = algebra.cholesky(matrix, 0.025)
    right = np.array([1.0, -2.0, 0.5])
    content = {
        "b": [1, 1e-7, -0.0, 1e21, 0.1],
        "é": '\u20ac\n"',
        "a": {"": None},
        "\U0001f600": True,
    }
    ties = Cells.drawn(np.full(6, 0.25), 3, Coins("vectors"))
    at = (0.5 - ties.shifts) * 0.25  # exactly between two cells; the second half just below
    at[3:] -= 2.0**-54
    terms = rows_from_coins("marks", 4, 3)
    return {
        "canonical": {
            "content": content,
            "text": canonical_json(content).decode(),
            "sha256": fingerprint_of(content),
        },
        "words": {
            "seed": "2024",
            "stream": "cells",
            "row": 3,
            "words": [str(word) for word in Coins(2024).words("cells", 6, 3).tolist()],
            "uniforms": Coins(2024).uniforms("cells", 6, 3).tolist(),
        },
        "exp": [points.tolist(), elementary.exp(points).tolist()],
        "sigmoid": [points.tolist(), elementary.sigmoid(points).tolist()],
        "log": [positive.tolist(), elementary.log(positive).tolist()],
        "algebra": {
            "matrix": matrix.tolist(),
            "floor": 0.025,
            "lower": lower.tolist(),
            "right": right.tolist(),
            "solution": algebra.solve(lower, right).tolist(),
        },
        "marks": {"terms": terms.tolist(), "marks": marks(with_constant(terms)).tolist()},
        "ties": {
            "widths": ["0.25"] * 6,
            "bits": 3,
            "seed": "vectors",
            "sketch": [0] * 6,
            "numbers": at.tolist(),
            "codes": ties.replicate(at, np.zeros(6, dtype=np.int64)).tolist(),
        },
        "fits": [
            {"name": name}
            | (
                {"terms": block.terms.tolist(), "targets": block.targets.tolist()}
                if block.n_rows < 1000
                else {
                    "stream": "many" if block.terms.shape[1] > 2 else "sampled",
                    "n_rows": block.n_rows,
                    "n_terms": block.terms.shape[1],
                    "ones": np.flatnonzero(block.targets)[:20].tolist(),
                }
            )
            | ({} if block.weights is None else {"weights": block.weights.tolist()})
            | ({} if block.offset is None else {"offset": block.offset.tolist()})
            | fit_vector(block, loss, ridge)
            for name, (block, loss, ridge) in cases().items()
        ],
    }


if __name__ == "__main__":
    PATH.write_bytes(canonical_json(vectors()) + b"\n")
    print(f"{PATH}: {PATH.stat().st_size:,} bytes")
