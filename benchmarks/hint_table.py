"""Simulate how wide cells must be when the first lab publishes a hint.

python benchmarks/hint_table.py > src/replearn/plans/hint_table.py     half an hour
"""

import math
import sys

import numpy as np
from numba import njit

from replearn.codes.hints import MAX_HINT_BITS, moves
from replearn.codes.randomness import SharedRandomness
from replearn.plans.cell_prices import width_ratio

N_CODES = (1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 36, 49, 66, 92, 128)
DISAGREEMENTS = (0.0005, 0.005, 0.02, 0.06, 0.12, 0.3)
N_DRAWS = 4000  # positions of the first point
N_BISECTIONS = 14


@njit(cache=True)
def chosen(drawn, all_moves, ratio):
    """Mean chance to be met and mean squared position, under the best move of each position."""
    n_draws, q = drawn.shape
    met, square = 0.0, 0.0
    for i in range(n_draws):
        best, best_square = -1.0, 0.0
        for move in all_moves:
            chance, total = 1.0, 0.0
            for j in range(q):
                position = (drawn[i, j] - move[j]) % 1.0 - 0.5
                total += position * position
                above = math.erfc((0.5 - position) * ratio / math.sqrt(2.0))
                below = math.erfc((0.5 + position) * ratio / math.sqrt(2.0))
                chance *= 1.0 - 0.5 * (above + below)
                if chance <= best:
                    break
            if chance > best:
                best, best_square = chance, total / q
        met += best
        square += best_square
    return met / n_draws, square / n_draws


def simulate(n_codes, bits, disagreement):
    """Ratio and position variance of one entry, by bisection."""
    drawn = SharedRandomness("hint table").uniforms(f"{n_codes}", n_codes * N_DRAWS)
    drawn, all_moves = drawn.reshape(N_DRAWS, n_codes), moves(bits, n_codes)
    low, high = 1.0, width_ratio(n_codes, 0, disagreement)
    for _ in range(N_BISECTIONS):
        middle = math.sqrt(low * high)
        if 1 - chosen(drawn, all_moves, middle)[0] > disagreement:
            low = middle
        else:
            high = middle
    return high, chosen(drawn, all_moves, high)[1]


def main():
    tables = {"RATIOS": [], "VARIANCES": []}
    for bits in range(1, MAX_HINT_BITS + 1):
        print(f"{bits} bits", file=sys.stderr)
        found = np.array([[simulate(q, bits, rho) for rho in DISAGREEMENTS] for q in N_CODES])
        tables["RATIOS"].append(found[..., 0])
        tables["VARIANCES"].append(found[..., 1])
    print('"""Cells for hints, simulated by ``python benchmarks/hint_table.py``.')
    print()
    print("``RATIOS[bits - 1][i][j]``: width of a cube over the standard deviation of two sites'")
    print("difference at ``N_CODES[i]`` coordinates and a disagreement of ``DISAGREEMENTS[j]``.")
    print("``VARIANCES``: mean squared position of the first site's point, in widths.")
    print('"""')
    print()
    print(f"N_CODES = {N_CODES}")
    print(f"DISAGREEMENTS = {DISAGREEMENTS}")
    for name, parts in tables.items():
        print(f"{name} = (")
        for rows in parts:
            print("    (")
            for row in rows:
                print(f"        ({', '.join(f'{x:.4g}' for x in row)}),")
            print("    ),")
        print(")")


if __name__ == "__main__":
    main()
