"""Commitments and their openings."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import replearn as rl
from replearn.study.commitments import Opening, load_commitment, reveal, save_commitment
from tests.fuzzing.garbling import hostile_json, json_text
from tests.fuzzing.judging import require


@cache
def commitment_documents() -> tuple[Any, ...]:
    """Commitments and openings of two sites."""
    pairs = [rl.commit("ab" * 32, site) for site in ("Oslo", "Rome\n")]
    return tuple(item.content() for pair in pairs for item in pair)


def commitment_file(rng: random.Random, folder: Path) -> None:
    """Files of two sites, one or two of them hostile."""
    documents = list(commitment_documents())
    found = []
    for number, document in enumerate(documents):
        path = folder / f"{number}.json"
        content = json_text(document).encode()
        path.write_bytes(hostile_json(rng, [document]) if rng.random() < 0.4 else content)
        item = load_commitment(path)
        save_commitment(item, folder / "again.json")
        require(load_commitment(folder / "again.json") == item, "a saved commitment is another one")
        found.append(item)
    openings = [item for item in found if isinstance(item, Opening)]
    str(reveal([item for item in found if not isinstance(item, Opening)], openings))
