"""Columns that must not be published, or that cannot help: named, with what to do."""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
from numpy.typing import NDArray

from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.tables.cells import is_number_text, named_columns, signs_meant
from replearn.tables.look import ColumnLook, Look
from replearn.types import Vector

#: Levels in fewer rows are never published: a value must not belong to a few people.
LEAST_COUNT = 10

_FEWEST = 20  # values, before their number says anything
_ALL_DISTINCT = 0.9  # a larger share of different values: an identifier
_MOST_ANSWERS = 20  # different values of a column that may give the label away
_EXAMPLES = 1000  # different values that are looked at

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
_CENTRE_NAME = re.compile(
    r"(^|[^a-z])(cent(er|re)s?|sites?|hospitals?|clinics?|labs?|laborator(y|ies)|practices?"
    r"|institutions?)($|[^a-z])"
)


def published_share(count: int, n_rows: int) -> str:
    """The share of so many rows, in steps of at least twenty rows and of one in fifty of them.

    Fewer rows count as one step. Shares of two tables that differ by a row are then most often
    equal, so that nobody learns what that row is.

    Examples
    --------
    >>> [published_share(count, 1000) for count in (0, 3, 14, 486)]
    ['0', '0.02', '0.02', '0.48']
    """
    if count == 0:
        return "0"
    least = Decimal(max(2 * LEAST_COUNT, count / 50)) / n_rows
    power = Decimal(1).scaleb(least.adjusted())
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= least)
    n_steps = max(1, math.floor(Decimal(count) / n_rows / step + Decimal("0.5")))
    return decimal_text(min(1.0, float(n_steps * step)))


@dataclass(frozen=True)
class Remark:
    """What is odd about a column; the reason is half a sentence, after its name.

    Kinds "identifier", "date", "text", "copy" must not be published; "tells", "centre", "constant",
    "rare", "folded", "empty" are named.
    """

    column: str
    kind: str
    reason: str

    @property
    def refused(self) -> bool:
        """Whether a study must not have the column."""
        return self.kind in ("identifier", "date", "text", "copy")

    def __str__(self) -> str:
        return f"column {self.column!r} {self.reason}"


def refuse_unsafe(remarks: Sequence[Remark]) -> None:
    """Stop at columns that must not be published, once for all of them."""
    bad = [remark for remark in remarks if remark.refused]
    if bad:
        alike: dict[str, list[str]] = {}
        for remark in bad:
            alike.setdefault(remark.reason, []).append(remark.column)
        found = [f"{named_columns(names)} ({reason})" for reason, names in alike.items()]
        names = ",".join(remark.column for remark in bad)
        raise ReplearnError(
            f"a study must not publish {'; '.join(found[:8])}{'; ...' if len(found) > 8 else ''}. "
            f"Leave {'it' if len(bad) == 1 else 'them'} out: "
            f"drop={names}. If a column is a measurement, say so (numeric=); if it has levels, "
            "name it, too (categories=)."
        )


def remarks_on(
    look: Look,
    levels: Collection[str],
    categories: Sequence[str],
    numeric: Sequence[str],
    least_rows: int,
) -> tuple[Remark, ...]:
    """What is odd about the columns of an original.

    Columns in ``levels`` are levels. To name a column in ``categories`` or ``numeric`` says that it
    is meant: it may hold dates or tell the label, but not identify people.
    """
    found: list[Remark | None] = []
    dull = look.mostly_zero()
    for name, column in look.columns.items():
        if name in dull:
            continue
        meant = name in categories or name in numeric
        if column.n_missing == look.n_rows:
            found.append(Remark(name, "empty", "has no value in any row"))
        elif name in levels or column.n_texts:
            if name not in levels:
                _refuse_mixed(name, column, name in numeric)
            found.append(_on_levels(name, column, meant, least_rows))
            if len(column.counts) <= _MOST_ANSWERS:
                joint = np.array(list(column.counts.values()))
                found.append(_on_label(name, joint, column.n_missing == 0, meant))
        else:
            known = look.numbers(name)
            distinct = known[np.append(True, known[1:] > known[:-1])[: known.size]]
            found.append(_on_numbers(name, known.size, distinct, meant))
            is_short = 1 < distinct.size <= _MOST_ANSWERS
            if is_short and look.classes is not None:
                joint = _joint_counts(look.cells(name), look.classes)
                is_whole = int(joint.sum()) == look.n_sampled
                found.append(_on_label(name, joint, is_whole, meant))
    return tuple(remark for remark in found if remark is not None)


def _refuse_mixed(name: str, column: ColumnLook, numeric: bool) -> None:
    """Refuse numbers with other signs, and numbers among which some cells are texts."""
    texts = [text for text in column.counts if not is_number_text(text)]
    if signs := signs_meant(texts):
        raise ReplearnError(
            f"column {name!r} must hold numbers with a decimal point, got numbers with other signs "
            f"in {column.n_texts:,} cells. Say how the file writes numbers: {signs}."
        )
    looks_numeric = column.n_numbers > column.n_texts
    if numeric or (looks_numeric and len(column.counts) - len(texts) > _MOST_ANSWERS):
        raise ReplearnError(
            f"column {name!r} must hold numbers only, or levels, got {column.n_texts:,} texts "
            f"among {column.n_numbers:,} numbers. Leave such cells empty; or if it has levels, "
            "name it in categories."
        )


def _on_levels(name: str, column: ColumnLook, meant: bool, least_rows: int) -> Remark | None:
    totals = {text: int(rows.sum()) for text, rows in column.counts.items()}
    n_rows, n_values = sum(totals.values()), len(totals)
    how_many = f"{n_values:,} different values in {n_rows:,} rows"
    examples = list(totals)[:_EXAMPLES]
    if column.too_many:
        return Remark(name, "identifier", f"looks like an identifier ({how_many} or more)")
    if not meant:
        if sum(_DATE.fullmatch(text) is not None for text in examples) >= 0.9 * len(examples):
            return Remark(name, "date", "holds dates")
        n_words = sum(len(text.split()) for text in examples)
        if n_words >= 4 * len(examples) and n_values > n_rows / 2:
            return Remark(name, "text", f"looks like free text ({how_many})")
    if n_rows >= _FEWEST and n_values >= _ALL_DISTINCT * n_rows:
        return Remark(name, "identifier", f"looks like an identifier ({how_many})")
    if n_values == 1:
        return Remark(name, "constant", "is the same in all rows, so it cannot help")
    folded = {text: total for text, total in totals.items() if total < least_rows}
    if len(folded) == n_values:
        return Remark(name, "rare", f"has no level in at least {least_rows:,} rows ({how_many})")
    if not meant and _CENTRE_NAME.search(_spaced(name)):
        return _centre(name)
    if folded:
        what = "1 level" if len(folded) == 1 else f"{len(folded):,} levels"
        shown = sorted(text for text, total in folded.items() if total >= LEAST_COUNT)[:3]
        named = f" ({', '.join(map(repr, shown))})" if shown else ""
        share = f"{sum(folded.values()) / n_rows:.1%} of the rows together"
        reason = f"has {what}{named} in fewer than {least_rows:,} rows each, {share}"
        return Remark(name, "folded", f"{reason}: taken together as (other)")
    return None


def _centre(name: str) -> Remark:
    return Remark(
        name,
        "centre",
        "seems to name or number the centres: a lab that has other centres, or one, cannot "
        "replicate it. Leave it out unless all labs share its levels",
    )


def _on_numbers(name: str, n_known: int, distinct: Vector, meant: bool) -> Remark | None:
    if meant or distinct.size <= 1 or not (distinct == np.floor(distinct)).all():
        return None
    if _are_day_numbers(distinct):
        return Remark(name, "date", "holds dates, written as numbers")
    all_distinct = n_known >= _FEWEST and distinct.size >= _ALL_DISTINCT * n_known
    counted = distinct[-1] - distinct[0] < 2 * n_known  # 1, 2, 3, ... with few gaps
    if all_distinct and (counted or _ID_NAME.search(_spaced(name))):
        how_many = f"{distinct.size:,} different whole numbers in {n_known:,} rows"
        return Remark(name, "identifier", f"looks like an identifier ({how_many})")
    if distinct.size > 2 and _CENTRE_NAME.search(_spaced(name)):
        return _centre(name)
    return None


def _joint_counts(values: Vector, labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """Rows of each different value, by class."""
    known = ~np.isnan(values)
    distinct, places = np.unique(values[known], return_inverse=True)
    n_classes = int(labels.max()) + 1
    joint = np.bincount(places * n_classes + labels[known], minlength=distinct.size * n_classes)
    return joint.reshape(distinct.size, n_classes)


def _on_label(name: str, joint: NDArray[np.int64], is_whole: bool, meant: bool) -> Remark | None:
    """A column each of whose values goes with one class only."""
    if joint.ndim != 2 or joint.shape[1] < 2 or joint.size == 0:
        return None
    classes = (joint > 0).sum(axis=1)
    told = set(joint.argmax(axis=1).tolist())
    if (classes != 1).any() or len(told) < 2:
        return None
    if is_whole and joint.shape[0] == len(told) and not meant:
        return Remark(name, "copy", "is a copy of the label")
    return Remark(
        name,
        "tells",
        f"tells the label in all {int(joint.sum()):,} rows that have it: is it known before the "
        "outcome? If not, leave it out",
    )


def _are_day_numbers(distinct: Vector) -> bool:
    """Whether whole numbers look like 20240531."""
    if distinct[0] < 19_000_101 or distinct[-1] > 21_001_231:
        return False
    month, day = distinct // 100 % 100, distinct % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


def _spaced(name: str) -> str:
    """A name in lower case, with a space where a capital began a word: patientID, PatientId."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
