"""Everything that a site needs to take part in a study, in one folder that works offline."""

import csv
import io
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn import __version__
from replearn.codes.encoding import CategoryColumn, Column, Encoding, NumberColumn
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError, ReplicabilityWarning, UselessModelWarning
from replearn.files.atomic import write_atomically
from replearn.fits.file_fit import fit_file
from replearn.study.protocol import Protocol

PROTOCOL, REHEARSAL, EXPECTED = "study.json", "rehearsal.csv", "rehearsal.json"
DICTIONARY, INSTRUCTIONS, CHECKLIST = "columns.csv", "INSTRUCTIONS.md", "CHECKLIST.md"

_ROWS, _CELLS = 2000, 1_000_000  # of a rehearsal, at most
_MISSING = 0.02  # share of cells, where the protocol allows it
_STRANGE = "a value that is not published"


@dataclass(frozen=True)
class Bundle:
    """What was written.

    Attributes
    ----------
    folder : str
    files : tuple of str
    protocol : str
        Hash of the protocol.
    fingerprint : str
        Of the model that a rehearsal must give.
    """

    folder: str
    files: tuple[str, ...]
    protocol: str
    fingerprint: str


def write_bundle(
    protocol: Protocol, folder: str | os.PathLike[str], target: str | None = None
) -> Bundle:
    """Write a folder for the sites of a study.

    Parameters
    ----------
    protocol : Protocol
        Of the study, with its seed.
    folder : path
        Must not exist yet, or be empty.
    target : str, optional
        Label column, if the protocol does not name it.

    Returns
    -------
    Bundle
        The files, and the fingerprint that the rehearsal must give.

    Notes
    -----
    The rows to rehearse with are made of what the protocol publishes (centres, scales, categories)
    and of coins; no row of any pilot or site is in them, and they say nothing about the world. A
    site that gets the expected fingerprint from them has the right versions and the right protocol.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> protocol = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900).protocol
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     bundle = rl.write_bundle(protocol, Path(folder, "for-the-sites"), target="label")
    ...     print(sorted(path.suffix for path in Path(folder, "for-the-sites").iterdir()))
    ['.csv', '.csv', '.json', '.json', '.md', '.md']
    """
    protocol.require_labels("a bundle")
    target = target if target is not None else protocol.target
    if target is None:
        raise ReplearnError(
            "the protocol does not name the label column. Pass it (target, on the command line "
            "--target)."
        )
    if protocol.encoding is None:
        raise ReplearnError(
            "a bundle needs a protocol with named columns, got one without. Plan from a table."
        )
    place = Path(folder)
    _make_folder(place)
    protocol.save(place / PROTOCOL)
    table = rehearsal_rows(protocol, target)
    _write(place / REHEARSAL, _as_csv([table, *zip(*table.values(), strict=True)]))
    fingerprint = _rehearsed(protocol, place / REHEARSAL, target)
    expected = {
        "expected_fingerprint": fingerprint,
        "protocol": protocol.fingerprint,
        "replearn": __version__,
        "target": target,
    }
    _write(place / EXPECTED, json.dumps(expected, indent=2) + "\n")
    _write(place / DICTIONARY, _dictionary(protocol, target))
    _write(place / INSTRUCTIONS, _instructions(protocol, target, fingerprint))
    _write(place / CHECKLIST, _page("checklist.md", protocol=protocol.fingerprint))
    files = (PROTOCOL, INSTRUCTIONS, CHECKLIST, DICTIONARY, REHEARSAL, EXPECTED)
    return Bundle(os.fspath(folder), files, protocol.fingerprint, fingerprint)


def _make_folder(place: Path) -> None:
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ReplearnError(f"{place} must be a new or empty folder. Name another one.")
    try:
        place.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise ReplearnError(
            f"{place} cannot be made: {place.parent} is no folder. Make it first."
        ) from None


def _write(path: Path, text: str) -> None:
    write_atomically(path, text.encode())


# --- the rehearsal ----------------------------------------------------------------------------


def rehearsal_rows(protocol: Protocol, target: str) -> dict[str, NDArray[Any]]:
    """Made-up rows with the columns of a protocol: cells as text, "" where a value is missing."""
    assert protocol.encoding is not None
    columns = protocol.encoding.columns
    n_rows = max(200, min(_ROWS, _CELLS // len(columns)))
    coins = SharedRandomness(f"rehearsal/{protocol.fingerprint}")
    table = {column.name: _cells(column, coins, n_rows) for column in columns}
    X = protocol.encoding.transform(_read_back(protocol.encoding, table))
    weights = coins.normals("weights", X.shape[1])
    scores = X @ weights
    scores = (scores - scores.mean()) / (scores.std() or 1.0) + 0.5 * coins.normals("noise", n_rows)
    names = np.array([str(label) for label in sorted(protocol.classes)], dtype=object)
    cuts = np.quantile(scores, np.arange(1, names.size) / names.size)
    table[target] = names[(scores[:, None] > cuts).sum(axis=1)]
    return table


def _cells(column: Column, coins: SharedRandomness, n_rows: int) -> NDArray[Any]:
    stream = f"column/{column.name}"
    if isinstance(column, NumberColumn):
        spread = float(column.scale)
        values = float(column.centre) + spread * coins.normals(stream, n_rows)
        digits = max(0, 2 - int(np.floor(np.log10(spread)))) if spread > 0 else 2
        cells = np.array([f"{value:.{min(digits, 12)}f}" for value in values], dtype=object)
        if column.fill_missing:
            cells[coins.uniforms(f"{stream}/missing", n_rows) < _MISSING] = ""
        return cells
    values = np.array(column.values, dtype=object)
    places = (coins.uniforms(stream, n_rows) * len(values)).astype(np.int64)
    cells = values[places]
    if column.other:
        strange = coins.uniforms(f"{stream}/other", n_rows) < min(0.5, float(column.other))
        cells[strange] = _STRANGE
    return cells


def _read_back(encoding: Encoding, table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The cells as a reader of the file takes them."""
    return {
        column.name: np.array([float(cell) if cell else np.nan for cell in table[column.name]])
        if isinstance(column, NumberColumn)
        else np.array([cell if cell.strip() else None for cell in table[column.name]], object)
        for column in encoding.columns
    }


def _as_csv(lines: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _rehearsed(protocol: Protocol, path: Path, target: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)  # the rows are few, and made up
        warnings.simplefilter("ignore", UselessModelWarning)
        return fit_file(protocol.estimator(), path, target).fingerprint_


# --- words ------------------------------------------------------------------------------------


def _dictionary(protocol: Protocol, target: str) -> str:
    assert protocol.encoding is not None
    lines = [("column", "kind", "values", "may be empty")]
    for column in protocol.encoding.columns:
        if isinstance(column, CategoryColumn):
            values = " | ".join(column.values) + (" | any other" if column.other else "")
            lines.append((column.name, "category", values, "yes"))
        else:
            about = f"about {column.centre}" if float(column.centre) else ""
            lines.append((column.name, "number", about, "yes" if column.fill_missing else "no"))
    return _as_csv([*lines, (target, "label", " | ".join(map(str, protocol.classes)), "no")])


def _page(name: str, **words: str) -> str:
    """A page of `templates`, with its blanks filled in."""
    text = (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")
    return text.format_map(words)


def _instructions(protocol: Protocol, target: str, fingerprint: str) -> str:
    assert protocol.encoding is not None
    planned, size = protocol.notes.get("samples_per_site"), ""
    if isinstance(planned, str) and planned.isdigit():
        size = f" The study planned for about {int(planned):,} rows."
    return _page(
        "instructions.md",
        version=__version__,
        protocol=protocol.fingerprint,
        fingerprint=fingerprint,
        n_columns=str(len(protocol.encoding.columns)),
        target=target,
        labels=" or ".join(map(repr, protocol.classes)),
        size=size,
        hint=_HINT if protocol.hint_bits else "",
        rehearse=" --lead --out rehearsal.model.json" if protocol.hint_bits else "",
        follow=" --hint first.hint.json" if protocol.hint_bits else "",
    )


_HINT = """
This study publishes a hint: ask the coordinator whether your site is the first one, and for the
hint file (first.hint.json below) if it is not. The first site fits with `--lead` in place of
`--hint first.hint.json`, and sends the file our-site.hint.json to the coordinator.
"""
