"""CSV files that may well be read in two ways: Python, JavaScript and R read or refuse them alike.

    python benchmarks/hostile.py 40000 [--seed 0]

Each file has strange cells, quotes, delimiters and line ends, as `strange_file` of the tests draws
them. What counts are the encoded rows and the cells that are missing or odd: they must be equal.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.contract.test_javascript_tables import ENCODING, by_javascript, by_python, strange_file
from tests.contract.test_r import Answers

#: Files that a process of another language reads at once.
BATCH = 500


def compared(files: list[bytes], folder: Path, by_r: Answers) -> Counter[str]:
    """What became of some files, and how many are read in two ways."""
    calls, expected = [], []
    for number, content in enumerate(files):
        path = folder / f"{number}.csv"
        expected.append(by_python(path, content, {}))
        given = {"path": str(path), "encoding": ENCODING.content(), "options": {}}
        calls.append(("encode", given))

    found: Counter[str] = Counter()
    in_r, in_javascript = by_r(folder, calls), by_javascript([(content, {}) for content in files])
    for content, ours, second, third in zip(files, expected, in_javascript, in_r, strict=True):
        refused = {"refused" in one for one in (ours, second, third)}
        is_same = second == ours and refused == {"refused" in ours}
        if "columns" in ours and is_same:
            counts = [count[:2] for count in ours["counts"]]
            is_same = third["columns"] == ours["columns"] and third["counts"] == counts
        found["read" if "columns" in ours else "refused"] += 1
        if not is_same:
            found["read in two ways"] += 1
            print(repr(content)[:400])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n_files", type=int)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    total: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as home:
        by_r = Answers(Path(home))
        for start in range(0, options.n_files, BATCH):
            coins = random.Random(f"hostile {options.seed} {start}")
            n_files = min(BATCH, options.n_files - start)
            with tempfile.TemporaryDirectory() as folder:
                total += compared([strange_file(coins) for _ in range(n_files)], Path(folder), by_r)
            print(f"{start + n_files:,} files in three languages: {dict(total)}", flush=True)
        by_r.close()
    return bool(total["read in two ways"])


if __name__ == "__main__":
    sys.exit(main())
