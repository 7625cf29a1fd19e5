"""Sums of sites, and rounds of coalitions."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import replearn as rl
from replearn.coalitions.site_sums import SiteSums
from replearn.study.protocol import Protocol
from tests.fuzzing.garbling import hashed, hostile_json, json_text
from tests.fuzzing.judging import must, require
from tests.fuzzing.protocols import logistic_protocols, protocol_documents
from tests.fuzzing.samples import X, Y, loaded

SITES = {"oslo": slice(0, 120), "rome": slice(120, 300)}


@cache
def sum_documents() -> dict[str, tuple[Any, ...]]:
    """Files of sums of two sites, by study and round; "after" is what follows the first round."""
    one, logistic, svm = *logistic_protocols()[:2], algorithm_one()
    first = _sums(logistic, None)
    after = rl.combine(logistic, first)
    assert isinstance(after, rl.CoalitionRound)
    found = {
        "first": [one.content() for one in first],
        "after": [after.content()],
        "second": [one.content() for one in _sums(logistic, after)],
        "alone": [one_site.content() for one_site in _sums(one, None)],
        "batches": [one.content() for one in _sums(svm, None)],
    }
    return {
        name: tuple(hashed(json.loads(json_text(one))) for one in contents)
        for name, contents in found.items()
    }


@cache
def algorithm_one() -> Protocol:
    """A protocol of Algorithm 1 in which a site has whole batches."""
    document = json.loads(json_text(protocol_documents()[0]))
    document["parameters"]["batch_size"] = 20
    found: Protocol = loaded(Protocol.load, document)
    return found


def study_of(kind: str) -> Protocol:
    """The protocol of some sums."""
    if kind == "batches":
        return algorithm_one()
    return logistic_protocols()[0 if kind == "alone" else 1]


def _sums(protocol: Protocol, after: Any) -> list[SiteSums]:
    y = np.array(protocol.classes)[(Y > 0).astype(int)]
    return [
        rl.row_sums(
            protocol, X[rows], y[rows], site=name, after=after, few_rows=True, assume_shuffled=True
        )
        for name, rows in SITES.items()
    ]


def sums_file(rng: random.Random, folder: Path) -> None:
    """Sums of two sites, one or two of them hostile: a model, a round, or an error in words."""
    kind = rng.choice(["first", "second", "batches", "alone"])
    protocol = study_of(kind)
    documents = sum_documents()
    after = None
    if kind == "second":
        path = _file(rng, folder / "after.json", documents["after"][0], 0.3)
        after = rl.CoalitionRound.load(path, protocol)
        after.save(folder / "again.json")
        again = must(lambda: rl.CoalitionRound.load(folder / "again.json", protocol))
        require(again.fingerprint == after.fingerprint, "a saved round is another one")
    sites = []
    for number, document in enumerate(documents[kind]):
        path = _file(rng, folder / f"{number}.json", document, 0.6)
        site = SiteSums.load(path, protocol)
        site.save(folder / "again.json")
        saved = must(lambda: SiteSums.load(folder / "again.json", protocol))
        require(saved.fingerprint == site.fingerprint, "saved sums are others")
        sites.append(site)
    use_sums(protocol, sites, after, folder)


def use_sums(protocol: Protocol, sites: list[SiteSums], after: Any, folder: Path) -> None:
    """Add up; what comes out can be shown, and a model can be saved and read."""
    found = rl.combine(protocol, sites, after)
    if isinstance(found, rl.CoalitionRound):
        found.save(folder / "round.json")
        must(lambda: rl.CoalitionRound.load(folder / "round.json", protocol))
        return
    json.dumps(found.data(), allow_nan=False)
    str(found)
    rl.save(found.model, folder / "model.json")
    require(must(lambda: rl.load(folder / "model.json")) == found.model, "another model")


def _file(rng: random.Random, path: Path, document: Any, hostile: float) -> Path:
    if rng.random() < hostile:
        path.write_bytes(hostile_json(rng, [document], hashed))
    else:
        path.write_text(json_text(document), "utf-8")
    return path
