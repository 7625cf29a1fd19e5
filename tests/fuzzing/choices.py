"""Protocols of choices, choices, and ONNX files as candidates."""

import json
import random
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import replearn as rl
from replearn.files.onnx_model import OnnxLimits, OnnxModel
from tests.fuzzing.garbling import (
    digest,
    hostile_json,
    json_text,
    mutated_bytes,
    sealed,
    some_bytes,
)
from tests.fuzzing.judging import must, require
from tests.fuzzing.protocols import with_public_seed
from tests.fuzzing.samples import X, Y, quiet_fit, small_svm, written_bytes
from tests.unit import onnx_files

_LIMITS = OnnxLimits()


@cache
def candidate_files() -> dict[str, bytes]:
    """Finished models, by the name of their file."""
    fitted = {f"{n}.model.json": quiet_fit(small_svm(shared_seed=n), X, Y).model_ for n in range(3)}
    return {
        name: written_bytes(lambda path, m=model: rl.save(m, path))
        for name, model in fitted.items()
    }


@cache
def choice_documents() -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Protocols of choices; choices that were made."""
    with tempfile.TemporaryDirectory() as name:
        paths = with_candidates(Path(name))
        protocols = [
            rl.publish_choice(paths, X, Y, samples_per_site=200, scoring=scoring)[0]
            for scoring in ("accuracy", "balanced_accuracy", [[0, 1], [2.5, 0]])
        ]
        protocols.append(protocols[0].with_public_value("lottery 1 2 3"))
        choices = [_chosen(protocol, Path(name)) for protocol in protocols]
    documents = [
        {"choice": c.content(), "fingerprint": c.fingerprint, "provenance": {"rows": 200}}
        for c in choices
    ]
    return (
        tuple(json.loads(json_text(protocol.content())) for protocol in protocols),
        tuple(json.loads(json_text(document)) for document in documents),
    )


def with_candidates(folder: Path) -> list[Path]:
    """Write the files of all candidates."""
    for name, content in candidate_files().items():
        (folder / name).write_bytes(content)
    return [folder / name for name in candidate_files()]


def _chosen(protocol: rl.ChoiceProtocol, folder: Path) -> rl.Choice:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        warnings.simplefilter("ignore", rl.UselessModelWarning)
        labels = np.array(protocol.classes)[np.minimum((Y[:200] > 0), len(protocol.classes) - 1)]
        found: rl.Choice = protocol.estimator(folder).fit(X[:200], labels).choice_
    return found


def choice_protocol(rng: random.Random, folder: Path) -> None:
    """A protocol that is loaded is saved as it is, and chooses or says why not."""
    path = folder / "choice.json"
    path.write_bytes(hostile_json(rng, list(choice_documents()[0]), with_public_seed))
    use_choice_protocol(rl.ChoiceProtocol.load(path), folder)


def use_choice_protocol(protocol: rl.ChoiceProtocol, folder: Path) -> None:
    """Save, choose among files that are there."""
    with_candidates(folder)
    protocol.save(folder / "again.json")
    load = rl.ChoiceProtocol.load
    must(lambda: load(folder / "again.json", protocol.fingerprint))
    require(isinstance(protocol.seed_policy, str), "no policy")
    use_choice(_chosen(protocol, folder), folder)


def choice_file(rng: random.Random, folder: Path) -> None:
    """A choice that is loaded is one of its candidates."""
    path = folder / "a.choice.json"
    path.write_bytes(hostile_json(rng, list(choice_documents()[1]), sealed_choice))
    use_choice(rl.load_choice(path), folder)


def sealed_choice(document: Any) -> Any:
    """With the fingerprint that the choice has, if there can be one."""
    return sealed(document, "choice")


def use_choice(choice: rl.Choice, folder: Path) -> None:
    """A choice is among its candidates, and is saved as it is."""
    require(0 <= choice.index < len(choice.candidates), "nothing was chosen")
    rl.save_choice(choice, folder / "again.json")
    again = must(lambda: rl.load_choice(folder / "again.json"))
    require(again.fingerprint == choice.fingerprint, "a saved choice is another one")
    require(digest(choice.content()) == choice.fingerprint, "not the hash of its content")


# --- ONNX -----------------------------------------------------------------------------------------


@cache
def onnx_contents() -> tuple[bytes, ...]:
    """Files that are fine: of common shapes, and exports."""
    weights = np.array([2.0, -1.0, 0.5])
    protos = [
        onnx_files.linear(weights),
        onnx_files.zipped(weights),
        onnx_files.linear(weights, give=("probabilities",)),
    ]
    return (
        *(proto.SerializeToString() for proto in protos),
        rl.to_onnx(quiet_fit(small_svm(), X, (Y > 0).astype(int)).model_),
    )


def onnx_file(rng: random.Random, folder: Path) -> None:
    """A damaged model predicts for all rows, or says in one line what is wrong."""
    path = folder / "a.onnx"
    content = rng.choice(onnx_contents())
    damage: list[Callable[[], bytes]] = [
        lambda: mutated_bytes(rng, content),
        lambda: mutated_bytes(rng, content),
        lambda: mutated_bytes(rng, content),
        lambda: _other_graph(rng, content),
        lambda: _other_graph(rng, content),
        lambda: some_bytes(rng),
        lambda: content,
        lambda: content,
    ]
    path.write_bytes(rng.choice(damage)())
    model = OnnxModel(path, limits=_LIMITS, classes=[0, 1])
    require(len(model.predict(X[:7])) == 7, "labels are missing")
    chances = model.predict_proba(X[:7])
    require(chances.shape == (7, 2) and np.isfinite(chances).all(), "odd probabilities")


def _other_graph(rng: random.Random, content: bytes) -> bytes:
    """A valid message in which nodes, names, types or shapes are others."""
    import onnx

    proto = onnx.load_from_string(content)
    graph = proto.graph
    match rng.randrange(7):
        case 0:
            del graph.node[rng.randrange(len(graph.node))]
        case 1:
            rng.choice(graph.node).op_type = rng.choice(["Loop", "Exp", "NoSuchThing", "", "Log"])
        case 2:
            graph.input[0].type.tensor_type.elem_type = rng.randrange(20)
        case 3:
            shape = graph.input[0].type.tensor_type.shape
            shape.dim[-1].dim_value = rng.choice([0, 1, 4, 2**31, 2**62, -1])
        case 4 if len(graph.output) > 1:
            del graph.output[rng.randrange(len(graph.output))]
        case 5 if graph.initializer:
            one = rng.choice(graph.initializer)
            one.dims[:] = [rng.choice([0, 2, 7, 2**40, -1]) for _ in one.dims]
        case _:
            rng.choice(graph.node).input[0] = rng.choice(["", "X", "nothing", "x" * 3000])
    found: bytes = proto.SerializeToString()
    return found
