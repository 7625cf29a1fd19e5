"""Runs one ONNX model in a process of its own. Started by `onnx_model`, never imported.

An ONNX file is a program that somebody else wrote. Here it may loop, crash or ask for all the
memory that there is, and nothing but this process suffers. It imports nothing of replearn.

Frames on standard input and output: one letter (J for JSON, N for arrays, M for the model), eight
bytes of length, little-endian, and then the bytes.
"""

import io
import json
import os
import sys
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

#: Operators of the standard, and of its part for classical machine learning.
DOMAINS = {"", "ai.onnx", "ai.onnx.ml"}
MAX_NODES = 1_000_000
MAX_NESTING = 16
EXTERNAL = 1  # TensorProto.DataLocation


class Refused(Exception):
    """What is wrong with the model, in words."""


def main() -> int:
    """Read a model, say what it takes and gives, then run it on each frame of arrays."""
    results = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not get between the frames
    requests = os.fdopen(os.dup(0), "rb")
    try:
        limits = json.loads(_read(requests, b"J") or b"")
        _limit(limits["memory_bytes"])
        session = _load(_read(requests, b"M") or b"")
        facts: dict[str, Any] = {
            "inputs": _facts(session.get_inputs()),
            "outputs": _facts(session.get_outputs()),
        }
        facts["metadata"] = dict(session.get_modelmeta().custom_metadata_map)
        _write(results, b"J", json.dumps(facts).encode())
        while (content := _read(requests, b"N")) is not None:
            _write(results, b"N", _run(session, content))
    except (Exception, MemoryError) as problem:
        words = " ".join(f"{type(problem).__name__}: {problem}".split())
        words = str(problem) if isinstance(problem, Refused) else words
        _write(results, b"J", json.dumps({"error": words[:300]}).encode())
        return 1
    return 0


def _limit(memory_bytes: int) -> None:
    """No more memory than this, and not a byte into any file."""
    try:
        import resource
    except ImportError:  # not on this system: the time-outs remain
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _load(content: bytes) -> Any:
    import onnx
    import onnxruntime

    try:
        model = onnx.load_model_from_string(content)
    except Exception:
        raise Refused("it is no ONNX model, or it is damaged") from None
    if not model.graph.node:
        raise Refused("it is no ONNX model, or it is empty")
    if len(model.functions):
        raise Refused("it brings functions of its own, which are not run")
    _check_graph(model.graph, [0], 0)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _check_graph(graph: Any, count: list[int], depth: int) -> None:
    """Refuse what reads other files, what is not of the standard, and what is too large."""
    if depth > MAX_NESTING:
        raise Refused(f"its graphs are nested more than {MAX_NESTING} deep")
    for tensor in graph.initializer:
        _check_tensor(tensor)
    for sparse in graph.sparse_initializer:
        _check_tensor(sparse.values)
        _check_tensor(sparse.indices)
    for node in graph.node:
        count[0] += 1
        if count[0] > MAX_NODES:
            raise Refused(f"it has more than {MAX_NODES:,} nodes")
        if node.domain not in DOMAINS:
            raise Refused(
                f"its operator {node.op_type[:40]!r} is of {node.domain[:40]!r}; only those of "
                "ai.onnx and ai.onnx.ml are run"
            )
        for attribute in node.attribute:
            for tensor in [attribute.t, *attribute.tensors]:
                _check_tensor(tensor)
            for sparse in [attribute.sparse_tensor, *attribute.sparse_tensors]:
                _check_tensor(sparse.values)
                _check_tensor(sparse.indices)
            if attribute.HasField("g"):
                _check_graph(attribute.g, count, depth + 1)
            for inner in attribute.graphs:
                _check_graph(inner, count, depth + 1)


def _check_tensor(tensor: Any) -> None:
    if tensor.data_location == EXTERNAL or len(tensor.external_data):
        raise Refused("it keeps numbers in other files, which are not read; store it as one file")


def _facts(arguments: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "type": one.type,
            "shape": [size if isinstance(size, int) else None for size in one.shape or []],
        }
        for one in arguments
    ]


def _run(session: Any, content: bytes) -> bytes:
    """Outputs of one piece of rows; maps from classes to probabilities become a table."""
    inputs: dict[str, NDArray[Any]] = {}
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        for place, one in enumerate(session.get_inputs()):
            array = arrays[str(place)]
            inputs[one.name] = array.astype(object) if one.type == "tensor(string)" else array
    outputs: dict[str, Any] = {}
    for place, value in enumerate(session.run(None, inputs)):
        if isinstance(value, list) and value and isinstance(value[0], dict):
            keys = sorted(value[0])
            outputs[f"{place}/keys"] = np.array([str(key) for key in keys])
            value = np.array([[row[key] for key in keys] for row in value])
        elif isinstance(value, list):
            continue
        array = np.asarray(value)
        outputs[str(place)] = array.astype(str) if array.dtype.kind == "O" else array
    out = io.BytesIO()
    np.savez(out, **outputs)
    return out.getvalue()


def _read(stream: BinaryIO, letter: bytes) -> bytes | None:
    head = stream.read(9)
    if not head and letter == b"N":
        return None
    if len(head) != 9 or head[:1] != letter:
        raise Refused("a frame was cut off")
    return stream.read(int.from_bytes(head[1:], "little"))


def _write(stream: BinaryIO, letter: bytes, content: bytes) -> None:
    stream.write(letter + len(content).to_bytes(8, "little") + content)
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
