"""docs/verify/verify.js, written from the pages, reads what replearn wrote, to the same bits."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.golden.test_files import recorded

PROGRAM = Path(__file__).parents[2] / "docs" / "verify" / "verify.js"
NODE = shutil.which("node") or shutil.which("nodejs")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")


CASES = {case["name"]: case for case in recorded()}


def _hex(value: Any) -> Any:
    """A number in hexadecimal, or a list of them."""
    return list(map(_hex, value)) if isinstance(value, list) else float(value).hex()


def verify(folder: Path, cases: list[dict[str, Any]]) -> tuple[int, list[dict[str, Any]]]:
    """The program's exit code, and what it says of each case."""
    paths = []
    for place, case in enumerate(cases):
        for kind in ("file", "rows"):
            paths.append(folder / f"{place}.{kind}.json")
            paths[-1].write_text(json.dumps(case[kind]), encoding="utf-8")
    command = [str(NODE), str(PROGRAM), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    code, found = verify(tmp_path_factory.mktemp("verify"), list(CASES.values()))
    assert code == 0
    return dict(zip(CASES, found, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_fingerprints_and_predictions_are_the_same(
    name: str, said: dict[str, dict[str, Any]]
) -> None:
    case, found = CASES[name], said[name]
    assert found["fingerprint"] == case["file"]["fingerprint"]
    rows = found["predictions"]
    assert [row["label"] for row in rows] == case["labels"]
    assert [_hex(row["score"]) for row in rows] == case["scores"]
    if case["probabilities"] is not None:
        assert [_hex(row["probability"]) for row in rows] == case["probabilities"]


def test_a_changed_code_is_found(tmp_path: Path) -> None:
    case = recorded()[0]
    case["file"]["model"]["codes"][0] += 1
    code, (found,) = verify(tmp_path, [case])
    assert (code, found["same"]) == (1, False)
    assert found["predictions"][0]["score"] != float.fromhex(case["scores"][0])
