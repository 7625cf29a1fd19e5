"""Hints, and hints that sites ask not to take."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from replearn.study.hints import Hint, UnsafeHints, read_hints
from tests.fuzzing.garbling import hostile_json, json_text
from tests.fuzzing.judging import must, require
from tests.fuzzing.protocols import logistic_protocols


@cache
def hint_documents() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """One file of a first site; files of three sites that have none."""
    protocol = logistic_protocols()[0]
    unsafe = [(), (0, 1), (1, 3)]
    hints = [UnsafeHints.of(numbers, protocol) for numbers in unsafe]
    return (Hint.of(2, protocol).content(),), tuple(
        json.loads(json_text(h.content())) for h in hints
    )


def hint_file(rng: random.Random, folder: Path) -> None:
    """Hints of a study, one or more of them hostile: a move of the grid, or an error in words."""
    protocol = logistic_protocols()[0]
    paths = []
    for number, document in enumerate(rng.choice(hint_documents())):
        path = folder / f"{number}.json"
        hostile = rng.random() < 0.6
        path.write_bytes(hostile_json(rng, [document]) if hostile else json_text(document).encode())
        paths.append(path)
    if len(paths) == 1:
        hint = Hint.load(paths[0])
        hint.save(folder / "again.json")
        require(must(lambda: Hint.load(folder / "again.json")) == hint, "another hint")
    require(0 <= read_hints(paths, protocol) < 1 << protocol.hint_bits, "no move of the grid")
