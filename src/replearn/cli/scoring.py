"""Scores of the rows of a file, by one model or by several that read it alike."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from replearn.cli.files import terminal_progress
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.warn import warn

if TYPE_CHECKING:
    from replearn.codes.encoding import Seen
    from replearn.codes.model import Model
    from replearn.types import Vector


def piecewise_scores(
    models: "Sequence[Model]",
    data: str,
    place: str,
    counts: dict[str, dict[str, int]] | None = None,
) -> "Iterator[list[Vector]]":
    """Scores of the rows by each of the models, in pieces.

    All models have the same names, encoding and number of features; ``place`` is where they come
    from, for messages. ``counts`` is filled at the end: rows with a missing or unknown value, by
    column of the encoding.
    """
    from replearn.sources.common import total_seen, warn_if_coded_differently
    from replearn.sources.opening import source_for

    model = models[0]
    seen: Seen | None = None
    try:
        source = source_for(model, data)
        if source.names is not None:
            _warn_of_order(model, data, place)
        with terminal_progress(f"reading {Path(data).name}") as advance:
            for piece in source.pieces(watch=advance):
                seen = total_seen((seen, piece.seen))
                yield [one.scores(piece.X) for one in models]
    except ReplearnError as problem:
        raise ReplearnError(f"{data} does not fit {place}: {problem}") from None
    if seen is not None and model.encoding is not None:
        warn_if_coded_differently(data, model.encoding, seen)
        if counts is not None:
            counts |= model.encoding.counts(seen)


def _warn_of_order(model: "Model", data: str, place: str) -> None:
    """Say when columns that no fingerprint covers are taken in another order than they stand."""
    from replearn.sources import open_source

    if model.feature_names is None or model.encoding is not None:
        return
    found = open_source(data, raw=True).names
    if found is not None and (odd := model.out_of_order(found)) is not None:
        warn(
            f"the columns of {data} are taken by name, but {odd}. The fingerprint does not cover "
            f"the names: check that {place} has them right.",
            ReplicabilityWarning,
        )
