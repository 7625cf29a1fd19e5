"""The published bits never change: the vectors of docs/shared-randomness.md."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replearn.codes.randomness import SharedRandomness

PAGE = Path(__file__).parents[2] / "docs" / "shared-randomness.md"
VECTORS = json.loads(re.findall(r"```json\n(.*?)```", PAGE.read_text("utf-8"), re.S)[-1])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v["stream"])
def test_vectors_of_the_specification(vector: dict[str, Any]) -> None:
    shared = SharedRandomness(vector["seed"])
    where = vector["stream"]
    row = vector["row"]
    assert [f"{int(k):016x}" for k in shared.key(where)] == vector["key"]
    assert [f"{int(w):016x}" for w in shared.words(where, 6, row)] == vector["words"]
    assert [u.hex() for u in shared.uniforms(where, 3, row).tolist()] == vector["uniforms"]
    signs = "".join("+" if s > 0 else "-" for s in shared.signs(where, 70, row))
    assert signs == vector["signs"]
    assert [u.hex() for u in shared.normals(where, 6, row).tolist()] == vector["normals"]
    assert shared.sample(where, 12, 5, row).tolist() == vector["sample of 5 from 12"]
    if "exponentials" in vector:
        draws = shared.exponentials(where, 3, row).tolist()
        assert [draw.hex() for draw in draws] == vector["exponentials"]
    if "order of 6" in vector:
        assert shared.row_order(where, 6).tolist() == vector["order of 6"]


def test_words_are_numpys_philox() -> None:
    shared = SharedRandomness("any")
    for row in (0, 1, 2**40):
        generator = np.random.Philox(
            key=np.array(shared.key("s"), dtype=np.uint64),
            counter=np.array([0, row, 0, 0], dtype=np.uint64),
        )
        assert (shared.words("s", 103, row) == generator.random_raw(103)).all()
