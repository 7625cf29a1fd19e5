"""What would go wrong at a site's fit, found without fitting: columns, labels, codes, units."""

import difflib
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn, Seen, as_text
from replearn.errors import ReplearnError
from replearn.sources import open_source
from replearn.sources.common import total_seen
from replearn.sources.csv_files import CsvSource
from replearn.sources.labels import Labels
from replearn.sources.parquet_files import ParquetSource
from replearn.study.protocol import Protocol

if TYPE_CHECKING:
    from replearn.sources import Watch

_FAR = 5.0  # published scales between a column's mean and the published centre: another unit?
_MOST_VALUES = 10_000  # different texts of a column that are kept
_MOST_NAMED = 5


@dataclass(frozen=True)
class Finding:
    """One thing about a site's file.

    Attributes
    ----------
    kind : {"stops", "warns", "note"}
        Whether the fit would stop, would go on with a warning or a doubt, or is all right.
    about : str
        Column, or "" for the file.
    text : str
        A sentence with what to do.
    """

    kind: str
    about: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind:<6} {self.text}"


@dataclass(frozen=True)
class SiteCheck:
    """What is right and wrong with a site's file.

    Attributes
    ----------
    place : str
    n_rows : int
    labels : dict
        Rows of each label, as the file spells it.
    findings : tuple of Finding
    columns : dict
        Rows with a missing or unknown value, by column; others left out.
    """

    place: str
    n_rows: int
    labels: dict[str, int]
    findings: tuple[Finding, ...]
    columns: dict[str, dict[str, int]]

    @property
    def ok(self) -> bool:
        """Whether nothing stops the fit."""
        return not any(finding.kind == "stops" for finding in self.findings)

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        stops = sum(finding.kind == "stops" for finding in self.findings)
        lines.append(
            f"{self.place}: a fit would start"
            if self.ok
            else f"{self.place}: a fit would stop; mend {stops} thing{'s'[: stops > 1]} first"
        )
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "ok": self.ok,
            "place": self.place,
            "rows": self.n_rows,
            "labels": self.labels,
            "findings": [vars(finding) for finding in self.findings],
            "columns": self.columns,
        }


def check_file(
    protocol: Protocol,
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    watch: "Watch | None" = None,
) -> SiteCheck:
    """Find everything that would go wrong at the fit of a site, without fitting.

    Parameters
    ----------
    protocol : Protocol
        Of the study.
    path : path
        The site's file, or folder of files.
    target : str, optional
        Label column; default that of the protocol.
    watch : callable, optional
        Told the share of the rows that have been read.

    Returns
    -------
    SiteCheck
        Values of the file stand in its sentences: it is for the site, and for nobody else.

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
    >>> import pandas as pd
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "site.csv")
    ...     pd.DataFrame({"x0": X[200:, 0], "label": y[200:]}).to_csv(path, index=False)  # no x1
    ...     print(rl.check_file(protocol, path, "label").ok)
    False
    """
    protocol.require_labels("a check")
    place = os.fspath(path)
    target = target if target is not None else protocol.target
    try:
        source = open_source(path, raw=True)
    except ReplearnError as problem:
        return SiteCheck(place, 0, {}, (Finding("stops", "", str(problem)),), {})
    if not isinstance(source, CsvSource | ParquetSource) or protocol.encoding is None:
        return _read_through(protocol, path, target, None, watch)
    names = list(source.wanted)
    findings = list(_columns_findings(protocol.encoding, names, target))
    there = [column for column in protocol.encoding.columns if column.name in names]
    texts = [column.name for column in there if isinstance(column, CategoryColumn)]
    texts += [target] if target in names else []
    looks: dict[str, _Look] = {column.name: _Look() for column in there}
    labels: Counter[str | None] = Counter()
    n_rows = 0
    try:
        for part in source.raw_columns(None, texts, watch):
            n_rows += len(next(iter(part.values())))
            for column in there:
                looks[column.name].take(column, part[column.name])
            if target in names:
                labels.update(as_text(value) for value in part[str(target)].tolist())
    except ReplearnError as problem:
        return SiteCheck(place, 0, {}, (*findings, Finding("stops", "", str(problem))), {})
    for column in there:
        findings += _column_findings(column, looks[column.name], n_rows)
    if target in names:
        findings += _label_findings(protocol, str(target), labels)
    findings += _size_findings(protocol, n_rows)
    counts = {text: count for text, count in labels.items() if text is not None}
    each = [looks.get(column.name, _Look()) for column in protocol.encoding.columns]
    missing = tuple(look.n_missing for look in each)
    seen = Seen(n_rows, missing, tuple(look.n_unknown for look in each))
    found = SiteCheck(place, n_rows, counts, _ordered(findings), protocol.encoding.counts(seen))
    return found if not found.ok else _read_through(protocol, path, target, found, watch)


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda found: ("stops", "warns", "note").index(found.kind)))


def _read_through(
    protocol: Protocol,
    path: str | os.PathLike[str],
    target: str | None,
    so_far: SiteCheck | None,
    watch: "Watch | None",
) -> SiteCheck:
    """Read the rows as the fit does, and say what it would say."""
    place = os.fspath(path)
    labels = Labels(f"the label column of {place}", sorted(protocol.classes), from_text=True)
    seen: Seen | None = None
    n_rows, problem = 0, None
    counts: Counter[str] = Counter()
    try:
        source = open_source(path, target, encoding=protocol.encoding)
        if not source.labelled:
            raise ReplearnError(f"{place}: labels are needed, got none. Name the label column.")
        for piece in source.pieces(watch=watch):
            numbers = labels.numbers(np.asarray(piece.y))
            n_rows += numbers.size
            counts.update(str(labels.classes[number]) for number in numbers.tolist())
            seen = total_seen((seen, piece.seen))
        labels.require_both()
    except ReplearnError as refused:
        problem = Finding("stops", "", str(refused))
    found = [] if problem is None else [problem]
    if so_far is not None:
        return replace(so_far, findings=(*found, *so_far.findings))
    columns: dict[str, dict[str, int]] = {}
    if problem is None:
        found += _size_findings(protocol, n_rows)
        if protocol.encoding is not None and seen is not None:
            columns = protocol.encoding.counts(seen)
            troubles = protocol.encoding.troubles(seen)
            found += [Finding("stops", "", f"{trouble}.") for trouble in troubles]
    return SiteCheck(place, n_rows, dict(counts), _ordered(found), columns)


# --- columns ----------------------------------------------------------------------------------


def _columns_findings(
    encoding: Encoding, names: Sequence[str], target: str | None
) -> Iterator[Finding]:
    wanted = [column.name for column in encoding.columns]
    if len(names) == 1 and "|" in names[0]:
        text = (
            "its columns are separated by bars, so all of it is one column. Save it with commas "
            "between cells and points in numbers."
        )
        yield Finding("stops", "", text)
        return
    unused = [name for name in names if name not in wanted]
    for name in wanted:
        if name not in names:
            guess = _guess(name, unused)
            hint = f" Is it {guess!r}? Rename it" if guess else " Add it"
            yield Finding("stops", name, f"column {name!r} is not there.{hint}.")
    if target is None:
        yield Finding("stops", "", "the protocol does not name the label column. Pass --target.")
    elif target not in names:
        guess = _guess(target, unused)
        hint = f" Is it {guess!r}? Rename it, or pass --target" if guess else " Add it"
        yield Finding("stops", target, f"label column {target!r} is not there.{hint}.")
    if more := [repr(name) for name in unused if name != target]:
        yield Finding("note", "", f"columns that are not used: {_listed(more)}.")


class _Look:
    """What the rows hold in one column."""

    def __init__(self) -> None:
        self.n_missing = self.n_unknown = self.n_bad = self.n_numbers = 0
        self.sum = 0.0
        self.bad: Counter[str] = Counter()
        self.unknown: Counter[str] = Counter()
        self.known: Counter[str] = Counter()

    def take(self, column: NumberColumn | CategoryColumn, values: NDArray[Any]) -> None:
        """Look at more rows."""
        if isinstance(column, CategoryColumn):
            self._take_categories(column, values)
            return
        if values.dtype.kind not in "biuf":
            values = self._numbers(values)
        numbers = np.asarray(values, dtype=np.float64)
        infinite = np.isinf(numbers)
        _count(self.bad, map(str, numbers[infinite].tolist()))
        self.n_bad += int(infinite.sum())
        self.n_missing += int(np.isnan(numbers).sum())
        known = numbers[np.isfinite(numbers)]
        self.n_numbers += known.size
        self.sum += float(known.sum())

    def _numbers(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Text as numbers, NaN if it is missing; what is neither is noted and left out."""
        found = []
        for value in values.tolist():
            text = as_text(value)
            number = math.nan if text is None else _number(text)
            if number is None:
                self.n_bad += 1
                _count(self.bad, [str(text)])
            else:
                found.append(number)
        return np.array(found, dtype=np.float64)

    def _take_categories(self, column: CategoryColumn, values: NDArray[Any]) -> None:
        published = {as_text(value) for value in column.values}
        counts = Counter(as_text(value) for value in values.tolist())
        self.n_missing += counts.pop(None, 0)
        for text, count in counts.items():
            assert text is not None
            if text in published:
                self.known[text] += count
            else:
                self.n_unknown += count
                if len(self.unknown) < _MOST_VALUES or text in self.unknown:
                    self.unknown[text] += count


def _number(text: str) -> float | None:
    """A number as the reader of files takes it; None if it is none."""
    try:
        return float(text) if text.isascii() and "_" not in text else None
    except ValueError:
        return None


def _count(counter: Counter[str], texts: Iterable[str]) -> None:
    for text in texts:
        if len(counter) < _MOST_VALUES or text in counter:
            counter[text] += 1


def _column_findings(
    column: NumberColumn | CategoryColumn, look: _Look, n_rows: int
) -> Iterator[Finding]:
    if n_rows and look.n_missing == n_rows:
        text = "has no value in any row. Fill it in, or pass --allow-unknown at the fit."
        yield Finding("stops", column.name, f"column {column.name!r} {text}")
    elif isinstance(column, CategoryColumn):
        yield from _category_findings(column, look, n_rows)
    else:
        yield from _number_findings(column, look, n_rows)


def _category_findings(column: CategoryColumn, look: _Look, n_rows: int) -> Iterator[Finding]:
    about = f"column {column.name!r}"
    if look.n_unknown:
        share = look.n_unknown / max(1, n_rows - look.n_missing)
        trouble = Encoding((column,)).troubles(Seen(n_rows, (look.n_missing,), (look.n_unknown,)))
        examples = ", ".join(
            f"{text[:40]!r} {_times(count)}" + (f" (is it {guess!r}?)" if guess else "")
            for text, count in look.unknown.most_common(_MOST_NAMED)
            for guess in [_guess(text, column.values) if trouble else None]
        )
        text = f"{about}: {_share(share)} of its values are not published: {examples}."
        if trouble:
            remedy = "Recode them, or pass --allow-unknown at the fit."
            yield Finding("stops", column.name, f"{text} {remedy}")
        else:
            taken = "(other)" if column.other else "unknown"
            yield Finding("note", column.name, f"{text} They are taken as {taken}.")
    absent = [value for value in column.values if as_text(value) not in look.known]
    if absent and n_rows >= 1000:
        kind = "warns" if len(absent) == len(column.values) else "note"
        yield Finding(kind, column.name, f"{about}: no row has {_listed(map(repr, absent))}.")
    if look.n_missing:
        yield _missing_note(column.name, look, n_rows)


def _number_findings(column: NumberColumn, look: _Look, n_rows: int) -> Iterator[Finding]:
    about = f"column {column.name!r}"
    if look.n_bad:
        shown = ", ".join(repr(text[:40]) for text, _ in look.bad.most_common(_MOST_NAMED))
        commas = any("," in text for text in look.bad)
        remedy = "Write a point where numbers have a comma" if commas else "Correct or empty them"
        text = f"{about} must hold numbers, got {shown} in {look.n_bad:,} rows. {remedy}."
        yield Finding("stops", column.name, text)
    if look.n_missing and column.fill_missing:
        yield _missing_note(column.name, look, n_rows)
    elif look.n_missing:
        text = (
            f"{about} is missing in {look.n_missing:,} of {n_rows:,} rows, and the protocol does "
            "not say what to do then. Fill it in, or leave out these rows."
        )
        yield Finding("stops", column.name, text)
    if look.n_numbers:
        mean, centre = look.sum / look.n_numbers, float(column.centre)
        if abs(mean - centre) > _FAR * float(column.scale):
            text = f"has the mean {mean:.4g}, the protocol {centre:.4g}. Is it in the same unit?"
            yield Finding("warns", column.name, f"{about} {text}")


def _missing_note(name: str, look: _Look, n_rows: int) -> Finding:
    share = _share(look.n_missing / n_rows)
    return Finding("note", name, f"column {name!r} is missing in {share} of the rows.")


def _share(share: float) -> str:
    return "less than 0.1%" if share < 0.0005 else f"{share:.1%}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


# --- labels and rows --------------------------------------------------------------------------


def _label_findings(
    protocol: Protocol, target: str, labels: Mapping[str | None, int]
) -> Iterator[Finding]:
    if labels.get(None):
        text = f"is empty in {labels[None]:,} rows. Fill it in, or leave out these rows."
        yield Finding("stops", target, f"label column {target!r} {text}")
    texts = np.array([text for text in labels if text is not None], dtype=object)
    try:
        reader = Labels(f"label column {target!r}", sorted(protocol.classes), from_text=True)
        reader.take(texts)
        reader.require_both()
    except ReplearnError as problem:
        known = [str(label) for label in protocol.classes]
        guesses = [
            f"{text!r} for {guess!r}"
            for text in texts.tolist()
            if text not in known and (guess := _guess(text, known))
        ]
        hint = f" Does it write {', '.join(guesses[:2])}?" if guesses else ""
        yield Finding("stops", target, f"{problem}{hint}")
    else:
        shown = ", ".join(f"{count:,} {text}" for text, count in labels.items() if text is not None)
        wanted = " and ".join(repr(label) for label in protocol.classes)
        yield Finding("note", target, f"labels: {shown} (the protocol has {wanted}).")


def _size_findings(protocol: Protocol, n_rows: int) -> Iterator[Finding]:
    planned = protocol.notes.get("samples_per_site")
    if not isinstance(planned, str) or not planned.isdigit():
        return
    if n_rows < 0.9 * int(planned):
        text = (
            f"{n_rows:,} rows, where the study planned for {int(planned):,} at each site: this "
            "site gets another model more often than planned."
        )
        yield Finding("warns", "", text)
    else:
        yield Finding("note", "", f"{n_rows:,} rows; the study planned for {int(planned):,}.")


def _guess(text: str, known: Sequence[str]) -> str | None:
    """What somebody may have meant: equal but for case and blanks, or a slip of the pen."""

    def plain(word: str) -> str:
        return "".join(word.casefold().replace("_", "").replace("-", "").split())

    same = [word for word in known if plain(word) == plain(text)]
    if same:
        return same[0]
    close = difflib.get_close_matches(text, known, 1, cutoff=0.8)
    return close[0] if close and len(text) > 3 else None


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    return ", ".join(every[:_MOST_NAMED]) + (
        f" and {len(every) - _MOST_NAMED} more" if every[_MOST_NAMED:] else ""
    )
