"""Simulated centres: how often a new one leaves the cells that K centres have learned.

    python benchmarks/unlike.py [--repetitions 400]

Planned are 5 of 100. Centres are normal, have heavy tails, a tenth of them differs four times as
much, or they lack effects; no real table is looked at.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.theory.test_between import PLANNED, SPREADS, UNLIKE, leaving

SIZES = {"alike": (800, 4000), "unequal": (300, 10_000)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=400)
    n = parser.parse_args().repetitions
    print(f"leave, planned {PLANNED:.0%}:{'':29}{'K = 2':>8}{'4':>8}{'8':>8}")
    for unlike in UNLIKE:
        for spread in ("typical", "large", "mixed"):
            for rows, sizes in SIZES.items():
                rng = np.random.default_rng(2033)
                left = [leaving(k, SPREADS[spread], n, rng, unlike, sizes) / n for k in (2, 4, 8)]
                name = f"{unlike}, {spread}, rows {rows}"
                print(f"{name:46}" + "".join(f"{share:8.1%}" for share in left), flush=True)


if __name__ == "__main__":
    main()
