"""Columns of a pilot that must not be published, or that cannot help: named, with what to do."""

import datetime
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import as_text, columns_of, names_of
from replearn.errors import ReplearnError
from replearn.types import Vector

#: Categories in fewer rows of the pilot are not published: a value must not belong to a few people.
RARE = 10

_FEWEST = 20  # values, before their number says anything
_ALL_DISTINCT = 0.9  # a larger share of different values: an identifier
_MOST_ANSWERS = 20  # different values of a column that may give the label away
_EXAMPLES = 1000  # different values that are looked at
_MOST_NAMED = 12  # columns in one line

_DATE = re.compile(
    r"""\d{4}([-/.])\d{1,2}\1\d{1,2}([ T].*)?      # 2024-05-31 12:00
    |\d{1,2}([-/.])\d{1,2}\3(\d{4}|\d{2})([ T].*)?  # 31.05.2024, 5/31/24
    |\d{1,2}[- ]?[A-Za-z]{3,9}\.?[- ,]*\d{2,4}.*    # 31 May 2024, 31MAY2024
    |[A-Za-z]{3,9}\.? \d{1,2},? \d{4}.*             # May 31, 2024
    """,
    re.VERBOSE,
)
_ID_NAME = re.compile(
    r"(^|[^a-z])(ids?|key|nr|no|nbr|num|number|uuid|guid|mrn|ssn|index|idx|row|record|case|patient"
    r"|person|subject)($|[^a-z])"
)


@dataclass(frozen=True)
class Remark:
    """What is odd about a column.

    Attributes
    ----------
    column : str
    kind : str
        "identifier", "date", "text", "rare", "empty", "copy": the column is refused. "tells",
        "constant", "folded": it is named.
    reason : str
        Half a sentence, after the name of the column.
    """

    column: str
    kind: str
    reason: str

    @property
    def refused(self) -> bool:
        """Whether a plan must not use the column."""
        return self.kind not in ("tells", "constant", "folded")

    def __str__(self) -> str:
        return f"{self.column!r} {self.reason}"


def in_words(remarks: Sequence[Remark], rare: int = RARE) -> list[str]:
    """Remarks as a few lines, however many columns there are."""
    heads = {
        "folded": f"values in fewer than {rare} rows, published as (other)",
        "constant": "the same in all rows of the pilot, so they cannot help",
    }
    lines = []
    for kind, head in heads.items():
        found = [remark for remark in remarks if remark.kind == kind]
        if found:
            named = ", ".join(map(str, found[:_MOST_NAMED]))
            more = len(found) - _MOST_NAMED
            lines.append(f"{head}: {named}{f' and {more} more' if more > 0 else ''}")
    return lines + [f"column {remark}" for remark in remarks if remark.kind == "tells"]


def publishable(
    X: Any, y: NDArray[Any] | None, choice: Mapping[str, Any], rare: int
) -> tuple[Any, tuple[Remark, ...]]:
    """A pilot of which everything may be published; ``choice`` holds settings of `safe_columns`.

    An array has no names, so nothing can be chosen; its numbers are taken as they are.
    """
    if type(rare) is not int or rare < 1:
        raise ReplearnError(f"rare must be a whole number of at least 1, got {rare!r}.")
    if names_of(X) is not None:
        return safe_columns(X, y, **choice, rare=rare)
    given = [name for name, value in choice.items() if value]
    if given and given != ["categories"]:  # x0, x1, ... may be categories
        raise ReplearnError(f"{given[0]} needs columns with names, got an array. Pass a table.")
    return X, ()


def safe_columns(
    X: Any,
    y: NDArray[Any] | None,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    categories: Sequence[str] = (),
    numeric: Sequence[str] = (),
    rare: int = RARE,
) -> tuple[Mapping[str, NDArray[Any]], tuple[Remark, ...]]:
    """Take the wanted columns of a table with names, if all of them may be published.

    Also remarks about them. To name a column as one of categories or of numbers, whatever it looks
    like, says that it is meant: it may hold dates, or tell the label; but not identify people.
    """
    wanted = _wanted(names_of(X) or [], columns, drop, [*categories, *numeric])
    table = dict(columns_of(X, wanted))
    for name in numeric:
        table[name] = _as_numbers(name, table[name])
    remarks = [
        remark
        for name in wanted
        for remark in _remarks(
            name, table[name], y, name in categories, name in (*categories, *numeric), rare
        )
    ]
    bad = [remark for remark in remarks if remark.refused]
    if bad:
        names = ",".join(remark.column for remark in bad)
        what = "a column" if len(bad) == 1 else f"{len(bad)} columns"
        raise ReplearnError(
            f"the pilot has {what} that must not be published: "
            f"{'; '.join(str(remark) for remark in bad[:10])}{'; ...' if len(bad) > 10 else ''}. "
            f"Leave {'it' if len(bad) == 1 else 'them'} out: --drop {names} (in Python: drop). If "
            "a column is a measurement, say so with --numeric; if it is a category, with "
            "--categories."
        )
    return table, tuple(remarks)


def published_categories(
    values: NDArray[Any], rare: int = RARE
) -> tuple[tuple[str, ...], int, float]:
    """Categories that stand in enough rows, how many do not, and the share of the rows of these."""
    counts = _counts(values)
    kept = tuple(sorted(text for text, count in counts.items() if count >= rare))
    folded = [count for count in counts.values() if count < rare]
    return kept, len(folded), sum(folded) / max(1, sum(counts.values()))


# --- which columns ----------------------------------------------------------------------------


def _wanted(
    found: list[str], columns: Sequence[str] | None, drop: Sequence[str], typed: Sequence[str]
) -> list[str]:
    for name in (*(columns or ()), *drop, *typed):
        if name not in found:
            known = ", ".join(repr(known) for known in found[:8])
            raise ReplearnError(
                f"the pilot has no column {name!r}; its columns are {known}. Name one of these."
            )
    wanted = [name for name in (found if columns is None else columns) if name not in drop]
    if not wanted:
        raise ReplearnError("the pilot must keep a column, got none. Leave out fewer of them.")
    for name in typed:
        if name not in wanted:
            raise ReplearnError(f"column {name!r} is left out and given a type. Do one of them.")
    return wanted


def _as_numbers(name: str, values: NDArray[Any]) -> Vector:
    """A column as numbers, NaN where it is missing."""
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    numbers = np.empty(values.size)
    for place, value in enumerate(values.tolist()):
        text = as_text(value)
        try:
            numbers[place] = np.nan if text is None else float(text)
        except ValueError:
            raise ReplearnError(
                f"column {name!r} must hold numbers to be numeric, got {str(value)[:40]!r}. Leave "
                "such cells empty, or take it as a category."
            ) from None
    return numbers


# --- remarks ----------------------------------------------------------------------------------


def _remarks(
    name: str,
    values: NDArray[Any],
    y: NDArray[Any] | None,
    as_category: bool,
    meant: bool,
    rare: int,
) -> list[Remark]:
    if values.dtype.kind in "Mm" or _are_dates(values):
        return [] if meant else [Remark(name, "date", "holds dates")]
    is_category = as_category or values.dtype.kind not in "biuf"
    remark = _on_category(name, values, meant, rare) if is_category else None
    if not is_category and not meant:
        remark = _on_numbers(name, values)
    told = _on_label(name, values, y, meant)
    return [found for found in (remark, told) if found is not None]


def _on_category(name: str, values: NDArray[Any], meant: bool, rare: int) -> Remark | None:
    counts = _counts(values)
    n_rows, n_values = sum(counts.values()), len(counts)
    if n_rows == 0:
        return Remark(name, "empty", "has no value in any row")
    examples = list(counts)[:_EXAMPLES]
    how_many = f"{n_values:,} different values in {n_rows:,} rows"
    if not meant:
        if sum(_DATE.fullmatch(text) is not None for text in examples) >= 0.9 * len(examples):
            return Remark(name, "date", "holds dates")
        words = np.mean([len(text.split()) for text in examples])
        if words >= 4 and n_values > n_rows / 2:
            return Remark(name, "text", f"looks like free text ({how_many})")
    if n_rows >= _FEWEST and n_values >= _ALL_DISTINCT * n_rows:
        return Remark(name, "identifier", f"looks like an identifier ({how_many})")
    kept, n_folded, share = published_categories(values, rare)
    if not kept:
        return Remark(
            name, "rare", f"has no value that stands in at least {rare} rows ({how_many})"
        )
    if n_values == 1:
        return Remark(name, "constant", f"is always {next(iter(counts))[:40]!r}")
    if n_folded:
        what = "1 value" if n_folded == 1 else f"{n_folded:,} values"
        return Remark(name, "folded", f"({what}, {share:.1%} of its rows)")
    return None


def _on_numbers(name: str, values: NDArray[Any]) -> Remark | None:
    numbers = known_numbers(values)
    distinct = np.unique(numbers)
    if distinct.size <= 1:
        value = "missing" if distinct.size == 0 else f"{distinct[0]:g}"
        return Remark(name, "constant", f"is always {value}")
    if not (distinct == np.floor(distinct)).all():
        return None
    if _are_day_numbers(distinct):
        return Remark(name, "date", f"holds dates, such as {distinct[0]:.0f}")
    all_distinct = numbers.size >= _FEWEST and distinct.size >= _ALL_DISTINCT * numbers.size
    counted = distinct[-1] - distinct[0] < 2 * numbers.size  # 1, 2, 3, ... with few gaps
    if all_distinct and (counted or _ID_NAME.search(_spaced(name))):
        return Remark(
            name,
            "identifier",
            f"looks like an identifier ({distinct.size:,} different whole numbers in "
            f"{numbers.size:,} rows)",
        )
    return None


def _on_label(
    name: str, values: NDArray[Any], y: NDArray[Any] | None, meant: bool
) -> Remark | None:
    """A column each of whose values goes with one label only."""
    texts = None if y is None else _texts(values, _MOST_ANSWERS)
    if texts is None:
        return None
    labels: dict[str, set[Any]] = {}
    n_rows = 0
    for text, label in zip(texts, np.asarray(y).tolist(), strict=True):
        if text is not None:
            labels.setdefault(text, set()).add(label)
            n_rows += 1
    told = [next(iter(found)) for found in labels.values() if len(found) == 1]
    if len(told) < len(labels) or len(set(told)) < 2:
        return None
    if n_rows == len(texts) and len(labels) == len(set(told)) and not meant:
        return Remark(name, "copy", "is a copy of the label")
    return Remark(
        name,
        "tells",
        f"tells the label in all {n_rows:,} rows that have it: is it known before the outcome? If "
        "not, leave it out",
    )


def _texts(values: NDArray[Any], most: int) -> list[str | None] | None:
    """Values as categories, if there are not too many."""
    if values.dtype.kind in "biuf":
        distinct = np.unique(known_numbers(values))
        if distinct.size > most:
            return None
        known = {float(number): as_text(float(number)) for number in distinct}
        return [known.get(number) for number in values.astype(np.float64).tolist()]
    texts = [as_text(value) for value in values.tolist()]
    return texts if len(set(texts) - {None}) <= most else None


def known_numbers(values: NDArray[Any]) -> Vector:
    """The numbers of a column, without those that are missing."""
    numbers = np.asarray(values, dtype=np.float64)
    return numbers[~np.isnan(numbers)]


def _counts(values: NDArray[Any]) -> Counter[str]:
    """Rows of each category; missing values left out."""
    if values.dtype.kind in "biuf":
        distinct, counts = np.unique(values, return_counts=True)
        pairs = zip(map(as_text, distinct), counts.tolist(), strict=True)
        return Counter({text: count for text, count in pairs if text is not None})
    items = values.tolist() if values.dtype.kind in "OU" else list(values)
    return Counter(text for item in items if (text := as_text(item)) is not None)


def _are_dates(values: NDArray[Any]) -> bool:
    if values.dtype != object:
        return False
    known = [value for value in values[:_EXAMPLES].tolist() if as_text(value) is not None]
    kinds = (datetime.date, datetime.time, datetime.timedelta)  # a datetime is a date
    return bool(known) and all(isinstance(value, kinds) for value in known)


def _are_day_numbers(distinct: Vector) -> bool:
    """Whether whole numbers look like 20240531."""
    if distinct[0] < 19_000_101 or distinct[-1] > 21_001_231:
        return False
    month, day = distinct // 100 % 100, distinct % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


def _spaced(name: str) -> str:
    """A name in lower case, with a space where a capital began a word: patientID, PatientId."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
