"""Files with the state of a stream."""

import os
from typing import Any

from replearn.errors import InvalidFile
from replearn.files.statefile import StateFile, read_state, write_state
from replearn.plans.sizes import BatchPlan
from replearn.stages.stream import DescentStream, new_stream, restored

KIND = "stream"


def write_stream(
    path: str | os.PathLike[str], stream: DescentStream, about: dict[str, Any]
) -> None:
    """Write a stream, whole or not at all; ``about`` goes with it, as JSON."""
    blocks = defines_blocks(stream.plan, stream.n_features)
    write_state(path, KIND, {"estimator": about, "blocks": blocks}, stream.arrays())


def read_header(path: str | os.PathLike[str]) -> StateFile:
    """The JSON part of a state file."""
    return read_state(path, KIND).expecting({"blocks", "estimator"})


def read_stream(state: StateFile, plan: BatchPlan, n_features: int) -> DescentStream:
    """The stream of a state file, which must have been made with this plan."""
    mine, theirs = defines_blocks(plan, n_features), state.about["blocks"]
    for name, value in mine.items():
        if not isinstance(theirs, dict) or theirs.get(name) != value:
            other = theirs.get(name) if isinstance(theirs, dict) else None
            raise InvalidFile(
                f"{state.path} was saved with {name} = {other!r}, this estimator has {value!r}. "
                "Resume with the parameters that the stream was started with."
            )
    arrays = state.arrays(like=new_stream(plan, n_features).arrays())
    stream = restored(plan, n_features, arrays)
    if stream is None:
        raise state.unfit("its numbers contradict each other")
    return stream


def defines_blocks(plan: BatchPlan, n_features: int) -> dict[str, Any]:
    """What the vector of a block depends on, besides its rows; reals as text."""
    return {
        "batch_size": plan.batch_size,
        "length_cap": repr(plan.length_cap),
        "margin": repr(plan.guarantee.margin),
        "n_batches": plan.n_batches if plan.exact_batches else None,
        "n_features": n_features,
        "n_inputs": plan.n_inputs,
        "n_repetitions": plan.n_repetitions,
        "n_validation": plan.n_validation,
        "regularization": plan.regularization,
        **({} if plan.class_weights == (1.0, 1.0) else {"class_weights": repr(plan.class_weights)}),
    }
