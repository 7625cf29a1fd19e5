"""Choice files: canonical JSON, validated on load. The format is a section of docs/choosing.md."""

import os
import re
from collections.abc import Mapping
from typing import Any

from replearn.codes.choice import FORMAT, FORMAT_VERSION, MAX_CANDIDATES, Candidate, Choice
from replearn.errors import InvalidFile
from replearn.files.jsonfile import (
    Unfit,
    check_fingerprint,
    read_classes,
    read_decimal,
    read_format,
    read_hash,
    read_integer,
    read_json,
    read_object,
    read_text,
    write_json,
)

MAX_CLASSES = 1 << 10
MAX_COLUMNS = 1 << 16


def save_choice(
    choice: Choice, path: str | os.PathLike[str], provenance: Mapping[str, Any] | None = None
) -> None:
    """Write a choice file, whole or not at all.

    Parameters
    ----------
    choice : Choice
        ``choice_`` of a fitted `ReplicableChoiceClassifier`.
    path : path
        By custom it ends in ``.choice.json``.
    provenance : mapping, optional
        Facts about the run (rows, scores, noise scale). Kept in the file, not part of the
        fingerprint.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import replearn as rl
    >>> y = np.arange(400) % 2
    >>> chosen = rl.ReplicableChoiceClassifier([0, 1]).fit(np.column_stack([y, 1 - y]), y)
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.choice.json")
    ...     rl.save_choice(chosen.choice_, path, provenance={"rows": 400})
    ...     print(rl.load_choice(path).index)
    0
    """
    content = {
        "choice": choice.content(),
        "fingerprint": choice.fingerprint,
        "provenance": dict(provenance or {}),
    }
    write_json(path, content)


def load_choice(path: str | os.PathLike[str]) -> Choice:
    """Read and check a choice file.

    Parameters
    ----------
    path : path
        Of a file that `save_choice` or the command line wrote.

    Returns
    -------
    Choice
        What the file holds; nothing is executed.

    Raises
    ------
    InvalidFile
        If the file is not a whole, consistent choice of a known format.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import replearn as rl
    >>> y = np.arange(400) % 2
    >>> chosen = rl.ReplicableChoiceClassifier([0, 1]).fit(np.column_stack([y, 1 - y]), y)
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.choice.json")
    ...     rl.save_choice(chosen.choice_, path)
    ...     print(rl.load_choice(path).fingerprint == chosen.fingerprint_)
    True
    """
    document = read_json(path)
    try:
        read_object(document, "a choice file", {"choice", "fingerprint", "provenance"})
        if not isinstance(document["provenance"], dict):
            raise Unfit("provenance must be an object")
        choice = _choice(document["choice"])
    except Unfit as problem:
        raise InvalidFile(f"{path} is not a valid choice file: {problem}.") from None
    check_fingerprint(document, choice.fingerprint, path)
    return choice


def is_choice_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file claims to be a choice; `load_choice` checks it."""
    document = read_json(path)
    return isinstance(document.get("choice"), dict)


def _choice(content: Any) -> Choice:
    keys = {
        "candidates", "classes", "features", "format", "index", "scoring", "seed", "version",
    }  # fmt: skip
    read_object(content, "'choice'", keys)
    read_format(content, FORMAT, FORMAT_VERSION)
    candidates = read_candidates(content["candidates"])
    classes = read_classes(content["classes"], MAX_CLASSES)
    return Choice(
        candidates=candidates,
        index=read_integer(content["index"], "index", 0, len(candidates) - 1),
        scoring=read_scoring_content(content["scoring"], len(classes)),
        classes=classes,
        seed=read_text(content["seed"], "seed"),
        features=read_features(content["features"]),
    )


# --- parts that protocols share -----------------------------------------------------------------


def read_candidates(value: Any) -> tuple[Candidate, ...]:
    """Names, hashes and files of candidates; all names different."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_CANDIDATES:
        raise Unfit(f"candidates must be a list of 1 to {MAX_CANDIDATES:,} candidates")
    found = tuple(_candidate(content) for content in value)
    if len({one.name for one in found}) != len(found):
        raise Unfit("two candidates have the same name")
    return found


def _candidate(content: Any) -> Candidate:
    read_object(content, "a candidate", {"file", "name", "sha256"})
    name = read_text(content["name"], "a candidate's name")
    if not name:
        raise Unfit("a candidate must have a name")
    digest, file = content["sha256"], content["file"]
    if digest is not None:
        read_hash(digest, "sha256, unless it is null,")
    if file is not None:
        read_text(file, "a candidate's file")
        # a name of a file, and no way to another folder
        if not file or file in (".", "..") or re.search(r"[/\\:\x00-\x1f]", file):
            raise Unfit("a candidate's file must be a name without a folder")
        if digest is None:
            raise Unfit("a candidate with a file must have its sha256")
    return Candidate(name, digest, file)


def read_features(value: Any) -> tuple[str, ...] | None:
    """Columns in their order, or null."""
    if value is None:
        return None
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_COLUMNS:
        raise Unfit(f"features must be null or a list of 1 to {MAX_COLUMNS:,} columns")
    found = tuple(read_text(name, "a column's name") for name in value)
    if len(set(found)) != len(found):
        raise Unfit("two features have the same name")
    return found


def read_scoring_content(value: Any, n_classes: int) -> dict[str, Any]:
    """How candidates are scored, as JSON types."""
    read_object(value, "scoring", {"name"}, {"costs", "prevalence"})
    read_text(value["name"], "the name of the scoring")
    shares, costs = value.get("prevalence", []), value.get("costs", [])
    if not isinstance(shares, list) or len(shares) not in (0, n_classes):
        raise Unfit(f"prevalence must be a list of {n_classes} numbers")
    for share in shares:
        read_decimal(share, "prevalence", 0)
    if not isinstance(costs, list) or len(costs) not in (0, n_classes):
        raise Unfit(f"costs must be a table of {n_classes} by {n_classes} numbers")
    for row in costs:
        if not isinstance(row, list) or len(row) != n_classes:
            raise Unfit(f"costs must be a table of {n_classes} by {n_classes} numbers")
        for cost in row:
            read_decimal(cost, "a cost")
    return dict(value)
