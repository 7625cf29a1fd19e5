"""Which cells to round in, for each number of coordinates, and what they cost.

    python benchmarks/cells.py            the table of `replearn.codes.cells.best_blocks`
    python benchmarks/cells.py --all      every number of coordinates up to 50
    python benchmarks/cells.py --check 200000
                                          second moments and flips of all cells by simulation
    python benchmarks/cells.py --moments 1e7
                                          second moments by simulation with other code than ours
    python benchmarks/cells.py --speed    time to round a block
    python benchmarks/cells.py --hints 100
                                          price in nats times n at rho = .06 when the first of two
                                          labs takes the safest of 1, 4 or 16 shifts

Price: expected excess deviance in nats, times n rho^2, of a model that two labs with n rows each
share with probability 1 - rho (`replearn.codes.cells.price`); the ball is what no cell can beat.
"""

import argparse
import math
import sys
import time
from pathlib import Path

import numpy as np

from replearn.codes.cells import (
    CELLS,
    ball_price,
    best_blocks,
    flip_constant,
    padded_size,
    price,
    runs,
    second_moment,
)
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import ROUNDINGS, residual, round_codes
from replearn.codes.walls import chance_to_leave
from replearn.types import Matrix

RHO = 0.06
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
        codes = ROUNDINGS[name].to_codes(points, shared.uniforms)
        errors = (
            ((ROUNDINGS[name].to_point(codes, shared.uniforms) - points) ** 2)
            .reshape(-1, n)
            .mean(axis=1)
        )
        moved = ROUNDINGS[name].to_codes(points + step * rng.normal(size=draws), shared.uniforms)
        flips = (codes != moved).reshape(-1, n).any(axis=1).mean()
        sem = math.sqrt(flips / (draws / n)) / step
        spread = errors.std() / math.sqrt(len(errors))
        print(
            f"{name:<8} {cell.second_moment:.5f} {errors.mean():.5f} ({spread:.5f}) "
            f"{flip_constant(name, n) * math.sqrt(n):12.3f} {flips / step:8.3f} ({sem:.3f})"
        )


def moments(n_draws: int) -> None:
    """Second moments from textbook constructions; of Leech from a hundredth of the draws."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from tests.second_moments import LATTICES, drawn_moments

    rng = np.random.default_rng(1)
    print("cell     constant   drawn      standard error  off by")
    for name in LATTICES:
        left, sums = n_draws // 100 if name == "leech" else n_draws, np.zeros(3)
        while left > 0:
            drawn = drawn_moments(name, rng, min(left, 200_000))
            sums += drawn.size, drawn.sum(), (drawn**2).sum()
            left -= drawn.size
        mean = sums[1] / sums[0]
        error = math.sqrt((sums[2] / sums[0] - mean**2) / sums[0])
        constant = CELLS[name].second_moment
        off = (mean - constant) / error
        print(f"{name:<8} {constant:.7f}  {mean:.7f}  {error:.7f}       {off:+.1f}", flush=True)


def speed() -> None:
    """Microseconds for a block."""
    shared = SharedRandomness(1)
    for name, cell in CELLS.items():
        points = np.random.default_rng(1).normal(scale=5, size=cell.block * 200)
        ROUNDINGS[name].to_codes(points, shared.uniforms)
        start = time.perf_counter()
        ROUNDINGS[name].to_codes(points, shared.uniforms)
        print(
            f"{name:<8} {(time.perf_counter() - start) / 200 * 1e6:8.1f} us a block of {cell.block}"
        )


def hinted_price(name: str, q: int, n_shifts: int, n_studies: int) -> float:
    """Excess deviance in nats, times n, when the safest of several shifts is taken.

    The displacement of the other lab has variance 2/n in each coordinate, ``deviation`` in grid
    widths; that is found for which the safest places are left with probability rho.
    """
    places = np.stack(
        [_places(name, q, n_shifts, SharedRandomness(study)) for study in range(n_studies)]
    )

    def safest(deviation: float) -> tuple[float, float]:
        spread = deviation * np.eye(q)
        left, squares = 0.0, 0.0
        for offsets in places:
            chances = [chance_to_leave(offset, spread, name) for offset in offsets]
            best = int(np.argmin(chances))
            left += chances[best] / n_studies
            squares += float((offsets[best, :q] ** 2).sum()) / n_studies
        return left, squares

    low, high = 0.001, 0.5
    for _ in range(9):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if safest(middle)[0] < RHO else (low, middle)
    return safest(low)[1] / low**2


def _places(name: str, q: int, n_shifts: int, shared: SharedRandomness) -> Matrix:
    """Where a point lies in its cells under several shifts: uniform, and independent."""
    points = np.zeros((n_shifts, padded_size(q, name)))
    coins = [SharedRandomness(f"{shared.seed}/{shift}") for shift in range(n_shifts)]
    for place, coin in zip(points, coins, strict=True):
        codes = round_codes(np.zeros(q), 1.0, name, coin)
        place[:] = residual(np.zeros(q), codes, 1.0, name, coin)
    return points


def hints(n_studies: int) -> None:
    """Prices with hints, cubes next to the best blocks."""
    print(f"{'q':>3} {'cells':<14} {'1 shift':>9} {'4':>9} {'16':>9}")
    for q in (2, 3, 5, 9, 13):
        for name in ("centre", best_blocks(q)):
            prices = [price(name, q) / RHO**2]  # a simulation of one shift needs many studies
            prices += [hinted_price(name, q, n_shifts, n_studies) for n_shifts in (4, 16)]
            print(f"{q:3d} {name:<14}" + "".join(f" {cost:9.2f}" for cost in prices), flush=True)


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--check", type=int, metavar="DRAWS")
    parser.add_argument("--moments", type=float, metavar="DRAWS")
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--hints", type=int, metavar="STUDIES")
    options = parser.parse_args()
    if options.check:
        check(options.check)
    elif options.moments:
        moments(int(options.moments))
    elif options.speed:
        speed()
    elif options.hints:
        hints(options.hints)
    else:
        print(table(tuple(range(1, 51)) if options.all else TABLE))


if __name__ == "__main__":
    main()
