"""Which cells to round in, for each number of coordinates, and what they cost.

    python benchmarks/cells.py            the table of `replearn.codes.cells.best_blocks`
    python benchmarks/cells.py --all      every number of coordinates up to 50
    python benchmarks/cells.py --check 200000
                                          second moments and flips of all cells by simulation
    python benchmarks/cells.py --speed    time to round a block

Price: expected excess deviance in nats, times n rho^2, of a model that two labs with n rows each
share with probability 1 - rho (`replearn.codes.cells.price`); the ball is what no cell can beat.
"""

import argparse
import math
import time

import numpy as np

from replearn.codes.cells import (
    CELLS,
    ball_price,
    best_blocks,
    flip_constant,
    price,
    runs,
    second_moment,
)
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import ROUNDINGS

TABLE = (*range(1, 14), 16, 20, 24, 25, 32, 48)


def table(sizes: tuple[int, ...]) -> str:
    """The table, one line for each number of coordinates."""
    rule = "=== ============== ====== ========= ========= ========= ======"
    head = "  q best blocks    error  crossings     price     cubes / ball"
    lines = [rule, head, rule]
    for q in sizes:
        name = best_blocks(q)
        crossings = sum(run.crossings for run in runs(name, q))
        lines.append(
            f"{q:3d} {name:<14} {second_moment(name, q):.4f} {crossings:9.3f} "
            f"{price(name, q):9.2f} {price('centre', q):9.2f} {price(name, q) / ball_price(q):6.2f}"
        )
    return "\n".join([*lines, rule])


def check(n_draws: int) -> None:
    """Second moments and flips by simulation, next to the constants."""
    rng = np.random.default_rng(1)
    step = 0.02
    print("cell      error  measured (se)          flips  measured (se)   [per sd / width]")
    for name, cell in CELLS.items():
        n = cell.block
        draws = -(-n_draws // (10 if n > 8 else 1)) * n
        shared = SharedRandomness(1)
        points = rng.uniform(0, 1000, size=draws)
        codes = ROUNDINGS[name].to_codes(points, shared)
        errors = (
            ((ROUNDINGS[name].to_point(codes, shared) - points) ** 2).reshape(-1, n).mean(axis=1)
        )
        moved = ROUNDINGS[name].to_codes(points + step * rng.normal(size=draws), shared)
        flips = (codes != moved).reshape(-1, n).any(axis=1).mean()
        sem = math.sqrt(flips / (draws / n)) / step
        spread = errors.std() / math.sqrt(len(errors))
        print(
            f"{name:<8} {cell.second_moment:.5f} {errors.mean():.5f} ({spread:.5f}) "
            f"{flip_constant(name, n) * math.sqrt(n):12.3f} {flips / step:8.3f} ({sem:.3f})"
        )


def speed() -> None:
    """Microseconds for a block."""
    shared = SharedRandomness(1)
    for name, cell in CELLS.items():
        points = np.random.default_rng(1).normal(scale=5, size=cell.block * 200)
        ROUNDINGS[name].to_codes(points, shared)
        start = time.perf_counter()
        ROUNDINGS[name].to_codes(points, shared)
        print(
            f"{name:<8} {(time.perf_counter() - start) / 200 * 1e6:8.1f} us a block of {cell.block}"
        )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--check", type=int, metavar="DRAWS")
    parser.add_argument("--speed", action="store_true")
    options = parser.parse_args()
    if options.check:
        check(options.check)
    elif options.speed:
        speed()
    else:
        print(table(tuple(range(1, 51)) if options.all else TABLE))


if __name__ == "__main__":
    main()
