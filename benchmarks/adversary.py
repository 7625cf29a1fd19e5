"""Is the proof fair? Labs with too few rows, or none, who search for the committed model.

    python benchmarks/adversary.py [--originals 20] [--labs 20] [--rows 8000]

A lab with m rows knows its own numbers, the study file, and how strong the model is as a whole. It
tries models from the most likely one on, by the normal law of its own error and a normal prior. How
many are more likely than the true one is counted, not tried: costs of all cells are added up on a
fine grid, number by number. So 2^30 or 2^40 tries need no hashing.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
from population import Published, coefficients, fitted, rows

from replearn.errors import ReplearnError
from replearn.recipes.glm import Promise
from replearn.study.evidence import FREE_BITS, bits_of, rows_to_find, rows_to_match

TRIES = (0, 20, 30, 40)
#: Steps of the grid of costs in nats, and its end.
_STEP, _END = 0.01, 120.0


def log2_rank(one: Published, centre: np.ndarray, deviation: np.ndarray) -> float:
    """How many models are at least as likely as the true one, as a power of two."""
    counts = np.zeros(int(_END / _STEP))
    counts[0] = 1.0
    truth = 0.0
    for j in range(centre.size):
        reach = np.arange(-60, 61)
        width, bits = one.cells.widths[j], one.cells.bits
        middle = (one.codes[j] + one.sketch[j] / 2**bits - one.cells.shifts[j]) * width
        nearest = np.floor((centre[j] - middle) / width + 0.5)
        cells = middle + (nearest + reach) * width
        costs = ((cells - centre[j]) / deviation[j]) ** 2 / 2
        truth += ((middle - centre[j]) / deviation[j]) ** 2 / 2
        places = np.floor(costs / _STEP).astype(int)
        new = np.zeros_like(counts)
        for place in places[places < counts.size]:
            new[place:] += counts[: counts.size - place]
        counts = new
    if truth >= _END:
        return np.inf
    return float(np.log2(counts[: int(truth / _STEP) + 1].sum()))


def posterior(one: Published, z: np.ndarray | None, m: int) -> tuple[np.ndarray, np.ndarray]:
    """What a lab with m rows thinks of the original's numbers; the base rate is published."""
    scale = np.sqrt(np.mean(one.z[1:] ** 2))
    prior = np.full(one.z.size, scale)
    mean = np.zeros(one.z.size)
    mean[0], prior[0] = one.z[0], one.spread.differences(one.n_rows, np.inf)[0]
    if z is None:
        return mean, prior
    error = one.spread.differences(m, one.n_rows)
    weight = prior**2 / (prior**2 + error**2)
    return mean + weight * (z - mean), np.sqrt(weight) * error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--originals", type=int, default=20)
    parser.add_argument("--labs", type=int, default=20)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--write", type=Path, help="folder for adversary.csv")
    options = parser.parse_args()
    rng = np.random.default_rng(40)
    theta = coefficients()
    promise = Promise(0.01, 3, options.rows, options.rows)
    originals = [
        Published.of(rows(options.rows, rng, theta), promise, f"adversary {number}")
        for number in range(options.originals)
    ]
    claims = []
    for one in originals:
        spreads = one.spread.differences(1.0, np.inf)
        bits = bits_of(one.cells, one.sketch, one.cells.decode(one.codes, one.sketch), 1)
        match = rows_to_match(one.cells.widths, spreads, options.rows)
        find = rows_to_find(one.cells.widths, spreads, options.rows) if bits > FREE_BITS else 0
        claims.append((match, find, bits))
    match, find, bits = np.median(claims, axis=0)
    print(f"claimed: {match:,.0f} rows, {find:,.0f} with 2^40 tries, {bits:.1f} bits without rows")
    lines = []
    for m in sorted({0, 200, 1000, 3000, int(match), int(find)}):
        fits = _fits(m, options.labs, rng, theta) if m else [None]
        direct, ranks = [], []
        for one in originals:
            for fit in fits:
                z = None if fit is None else one.coordinates.of_theta(fit)
                direct.append(fit is not None and one.same(fit))
                ranks.append(log2_rank(one, *posterior(one, z, max(m, 1))))
        line = {"rows": m, "direct": np.mean(direct), "log2 rank, median": np.median(ranks)}
        line |= {f"2^{power} tries": np.mean(np.array(ranks) <= power) for power in TRIES}
        lines.append(line)
    table = pd.DataFrame(lines)
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    if options.write is not None:
        table.assign(claimed_rows=match, claimed_search=find, claimed_bits=bits).to_csv(
            options.write / "adversary.csv", index=False
        )


def _fits(m: int, n_labs: int, rng: np.random.Generator, theta: np.ndarray) -> list[np.ndarray]:
    """Fits of labs with m rows; a lab without a model draws again."""
    found: list[np.ndarray] = []
    while len(found) < n_labs:
        try:
            found.append(fitted(rows(m, rng, theta)))
        except ReplearnError:
            continue
    return found


if __name__ == "__main__":
    main()
