"""Statistical tests of the shared coins, by programs of others: dieharder and ent.

    python benchmarks/stream_tests.py [--seed 2024] [--ways words ...] [--tests 0 1 ...]

Both are packages of Debian (apt install dieharder ent). Three ways to read coins are tested, since
a fit reads all of them:

- words: the words of one row, one after the other;
- rows: the first block of rows 0, 1, 2, ... of one stream;
- seeds: the first block of one stream under the seeds 0, 1, 2, ...

``control`` is none of ours: SHAKE-256 of a counter. What fails with it, too, is the test's fault.

dieharder calls a p-value outside [.000001, .999999] FAILED, and one outside [.005, .995] WEAK; of
a perfect generator about one test in a hundred is WEAK. All tests are run that its author calls
good, with its own defaults; a verdict is printed as soon as it is there. The summary is recorded
in docs/trust.md.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from collections import Counter

import numpy as np
from numba import njit

from replearn.codes.randomness import STREAM_FORMAT, SharedRandomness
from replearn.kernels.philox import fill_words, philox_block

#: Numbers of all tests that dieharder calls good, and their sizes of tuples where it asks for one.
TESTS = (0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 15, 16, 17, 100, 101, 102, 200, 201, 202, 203, 204,
         205, 206, 207, 208, 209)  # fmt: skip
TUPLES = {200: (1, 2, 4, 8, 12), 201: (2, 3, 4, 5), 202: (2, 3, 4, 5), 203: (0, 1, 7, 32)}
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


@njit
def _fill_seeds(keys, out):
    for i in range(out.shape[0]):
        out[i] = philox_block(np.uint64(0), np.uint64(0), keys[i, 0], keys[i, 1])


def _keys(first, n):
    """`SharedRandomness.key` of consecutive seeds, ten times as fast."""
    stream, found = STREAM.encode(), []
    for number in range(first, first + n):
        seed = str(number).encode()
        text = STREAM_FORMAT + len(seed).to_bytes(8, "little") + seed + stream
        found.append(hashlib.sha256(text).digest()[:16])
    keys = np.frombuffer(b"".join(found), dtype="<u8").reshape(n, 2)
    assert tuple(keys[0]) == SharedRandomness(first).key(STREAM)
    return keys


def seeds(seed):
    number = int(seed)
    out = np.empty((1 << 13, 4), dtype=np.uint64)
    while True:
        _fill_seeds(_keys(number, out.shape[0]), out)
        yield out.ravel()
        number += out.shape[0]


def control(seed):
    number = 0
    while True:
        digest = hashlib.shake_256(f"{seed}/{number}".encode()).digest(8 * CHUNK)
        yield np.frombuffer(digest, dtype="<u8")
        number += 1


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


def run_dieharder(seed, source, tests, psamples):
    """Verdicts, the most extreme tail, and the bytes read; every test starts the stream anew."""
    verdicts, lowest, n_bytes = Counter(), 1.0, 0
    for test, size in ((one, size) for one in tests for size in TUPLES.get(one, (None,))):
        options = [] if size is None else ["-n", str(size)]
        options += [] if psamples is None else ["-p", str(psamples)]
        said, written = feed(["dieharder", "-g", "200", "-d", str(test), *options], source(seed))
        n_bytes += written
        for line in said.splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if cells[-1] in ("PASSED", "WEAK", "FAILED"):
                verdicts[cells[-1]] += 1
                lowest = min(lowest, float(cells[-2]), 1 - float(cells[-2]))
                print("   ", " ".join(cells), flush=True)
    return verdicts, lowest, n_bytes


WAYS = {"words": words, "rows": rows, "seeds": seeds, "control": control}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", default="2024")
    parser.add_argument("--tests", type=int, nargs="+", default=list(TESTS))
    parser.add_argument("--psamples", type=int, help="p-values of a test")
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=list(WAYS))
    parser.add_argument("--ent-megabytes", type=int, default=64)
    options = parser.parse_args()
    missing = [name for name in ("dieharder", "ent") if shutil.which(name) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} must be installed: apt install {' '.join(missing)}")
    for way in options.ways:
        print(f"{way}, dieharder:")
        verdicts, lowest, n_bytes = run_dieharder(
            options.seed, WAYS[way], options.tests, options.psamples
        )
        print(f"  {dict(verdicts)}, most extreme tail {lowest:.2g}, {n_bytes / 1e9:.1f} GB read")
    for way in options.ways:
        said, written = feed(["ent"], WAYS[way](options.seed), options.ent_megabytes << 20)
        print(f"{way}, ent of {written >> 20} MB:")
        for line in said.splitlines():
            if line.strip():
                print(f"  {line.strip()}")


if __name__ == "__main__":
    main()
