"""How many hands a row goes through in a fit, as docs/architecture.md says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_walks_are_as_long_as_the_architecture_says() -> None:
    script = ROOT / "benchmarks" / "walks.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    printed = [int(line[20:].split()[0]) for line in done.stdout.splitlines()[1:]]
    rows = re.findall(r"^\| `(?:fit|clusters).*?\| (\d+) \|.*\| (\d+) \|$", page, re.MULTILINE)
    assert printed == [int(now) for now, _ in rows]
    assert all(int(now) <= 0.75 * int(before) for now, before in rows)
