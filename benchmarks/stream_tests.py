"""Statistical tests of the shared coins, by programs of others: dieharder and ent.

    python benchmarks/stream_tests.py [--seed 2024] [--tests 0 2 ...] [--psamples 100]

Both are packages of Debian (apt install dieharder ent). Three ways to read coins are tested, since
a fit reads all of them:

- words: the words of one row, one after the other;
- rows: the first block of rows 0, 1, 2, ... of one stream;
- seeds: the first block of one stream under the seeds 0, 1, 2, ...

dieharder calls a p-value outside [.000001, .999999] FAILED, and one outside [.005, .995] WEAK; of
a perfect generator about one test in a hundred is WEAK. The output is recorded in docs/trust.md.
"""

import argparse
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
from numba import njit

from replearn.codes.randomness import SharedRandomness
from replearn.kernels.philox import fill_words, philox_block

#: Numbers of dieharder's tests that read up to some hundred megabytes.
TESTS = (0, 2, 3, 8, 9, 10, 11, 12, 13, 15, 16, 100, 101, 102, 204, 206, 208)
CHUNK = 1 << 18  # words
STREAM = "rounding/offset"


def words(seed):
    """Rows of 2^30 words, in pieces; a new row when one is used up."""
    shared, row = SharedRandomness(seed), 0
    whole = np.empty(1 << 24, dtype=np.uint64)
    while True:
        fill_words(np.uint64(row), *shared.key(STREAM), whole)
        yield from np.split(whole, whole.size // CHUNK)
        row += 1


@njit
def _fill_rows(first, key0, key1, out):
    for i in range(out.shape[0]):
        out[i] = philox_block(np.uint64(0), np.uint64(first + i), key0, key1)


def rows(seed):
    key = SharedRandomness(seed).key(STREAM)
    out = np.empty((CHUNK // 4, 4), dtype=np.uint64)
    first = 0
    while True:
        _fill_rows(first, *key, out)
        yield out.ravel()
        first += out.shape[0]


def seeds(seed):
    number = int(seed)
    while True:
        found = []
        for _ in range(1 << 12):
            found.append(SharedRandomness(number).words(STREAM, 4))
            number += 1
        yield np.concatenate(found)


def feed(command, source, most_bytes=None):
    """Write words to a program until it has enough, and return what it says."""
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    written = 0
    try:
        for part in source:
            running.stdin.write(part.astype("<u8").tobytes())
            written += part.nbytes
            if most_bytes is not None and written >= most_bytes:
                break
        running.stdin.close()
    except BrokenPipeError:
        pass
    said = running.stdout.read().decode()
    running.wait()
    return said, written


def run_dieharder(name, source, tests, psamples):
    verdicts, lowest, n_bytes = Counter(), 1.0, 0
    for test in tests:
        command = ["dieharder", "-g", "200", "-d", str(test), "-p", str(psamples)]
        said, written = feed(command, source(name))
        n_bytes += written
        for line in said.splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if cells[-1] in ("PASSED", "WEAK", "FAILED"):
                verdicts[cells[-1]] += 1
                lowest = min(lowest, float(cells[-2]), 1 - float(cells[-2]))
                if cells[-1] != "PASSED":
                    print("   ", " ".join(cells))
    return verdicts, lowest, n_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="2024")
    parser.add_argument("--tests", type=int, nargs="+", default=list(TESTS))
    parser.add_argument("--psamples", type=int, default=100)
    parser.add_argument("--ways", nargs="+", default=["words", "rows"])
    parser.add_argument("--ent-megabytes", type=int, default=64)
    options = parser.parse_args()
    missing = [name for name in ("dieharder", "ent") if shutil.which(name) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} must be installed: apt install {' '.join(missing)}")
    makers = {"words": words, "rows": rows, "seeds": seeds}
    for way in options.ways:
        print(f"{way}, dieharder:")
        verdicts, lowest, n_bytes = run_dieharder(
            options.seed, makers[way], options.tests, options.psamples
        )
        print(f"  {dict(verdicts)}, most extreme tail {lowest:.2g}, {n_bytes / 1e9:.1f} GB read")
    for way, make in makers.items():
        said, written = feed(["ent"], make(options.seed), options.ent_megabytes << 20)
        print(f"{way}, ent of {written >> 20} MB:")
        for line in said.splitlines():
            if line.strip():
                print(f"  {line.strip()}")


if __name__ == "__main__":
    main()
