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
from replearn.tables.scan import ColumnScan, TableScan, quantile
from replearn.types import Array, Ints, Mask, Vector

#: Columns that tell the label less surprisingly are not asked about.
_CHANCE = 1e-6
#: Levels in fewer rows are never published: a value must not belong to a few people.
LEAST_COUNT = 10
#: A larger share of gaps is never silent.
MANY_GAPS = 0.5

_FEWEST = 20  # values, before their number says anything
_ALL_DISTINCT = 0.9  # a larger share of different values: an identifier
_MOST_ANSWERS = 20  # different values of a column that may give the label away
_EXAMPLES = 1000  # different values that are looked at
_SCREENED = 2048  # rows that are ranked first; all of them where these look odd
_RANKS, _RANKS_TIME = 0.98, 0.65  # AUC of one column that is asked about; of a time
_SHARP = 0.1  # a threshold cuts a column at a gap of less, in interquartile ranges
_LEAST_CODED = 0.003  # share of the rows that a code of missing values has

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
_CENTRE_WORD = re.compile(
    r"(cent(er|re)|site|hosp|hospital|clinic|lab|laboratory|practice|inst|institution)(s|id)?"
    r"|laboratories"
)
#: The last word of a column whose values stand for persons or clusters, in one row or several.
_PERSON_WORD = re.compile(r"p?ids?|nr|nbr|key|uuid|guid|mrn|ssn|patients?|persons?|subjects?")
_MANY_PERSONS, _MOST_VISITS = 50, 20  # different values, and rows of one of them on average
_CODE_WORD = re.compile(r"ids?|code|type")
_NUMBER_WORD = re.compile(r"ids?|key|nr|no|nbr|num|number|code|name|index")
#: Words before a centre's that make it something else: time_in_hospital, distance to the clinic.
_PLACE_WORDS = frozenset(
    ("in", "to", "at", "from", "per", "of", "prior", "previous", "days", "time", "stay", "distance")
)
_TIME_NAME = re.compile(
    r"(fu|follow ?up|survival|surv|event|censoring|death|relapse|d|r|p|os|pfs|rfs|dfs|efs)? ?"
    r"(time|days|weeks|months|years)"
    r"|follow ?up|(time|days|months|years) to (event|death|relapse|censoring)|os|pfs|rfs|dfs|efs"
)
#: Values that people write where they know none.
_CODES = frozenset((-1.0, -7.0, -8.0, -9.0, -88.0, -99.0, -999.0, -9999.0)) | frozenset(
    (77.0, 88.0, 99.0, 777.0, 888.0, 999.0, 7777.0, 8888.0, 9999.0, 99999.0, 999999.0)
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

    # steps are 1, 2 or 5 times a power of ten
    least = Decimal(max(2 * LEAST_COUNT, count / 50)) / n_rows
    power = Decimal(1).scaleb(least.adjusted())
    step = next(times * power for times in (1, 2, 5, 10) if times * power >= least)
    n_steps = max(1, math.floor(Decimal(count) / n_rows / step + Decimal("0.5")))
    return decimal_text(min(1.0, float(n_steps * step)))


@dataclass(frozen=True)
class Remark:
    """What is odd about a column; the reason is half a sentence, after its name.

    Kinds "identifier", "date", "text", "copy" must not be published; "tells", "time", "centre",
    "code", "coded", "gaps", "repeats" are questions; "constant", "hardly", "rare" and "empty"
    columns are left out; "folded" ones lose levels to "(other)", "absorbed" ones to the reference.
    """

    column: str
    kind: str
    reason: str

    @property
    def refused(self) -> bool:
        """Whether a study must not have the column."""
        return self.kind in ("identifier", "date", "text", "copy")

    @property
    def left_out(self) -> bool:
        """Whether the model goes without the column."""
        return self.kind in ("constant", "hardly", "rare", "empty")

    def __str__(self) -> str:
        return f"column {self.column!r} {self.reason}"


def refuse_unsafe(remarks: Sequence[Remark]) -> None:
    """Stop at columns that must not be published, once for all of them."""
    bad = [remark for remark in remarks if remark.refused]
    if not bad:
        return

    # columns with one reason are named together
    alike: dict[str, list[str]] = {}
    for remark in bad:
        alike.setdefault(remark.reason, []).append(remark.column)
    reasons = [f"{named_columns(names)} ({reason})" for reason, names in alike.items()]
    if len(reasons) > 8:
        reasons[8:] = ["..."]

    pronoun = "it"
    if len(bad) > 1:
        pronoun = "them"
    raise ReplearnError(
        f"a study must not publish {'; '.join(reasons)}. Leave {pronoun} out: "
        f"drop={','.join(remark.column for remark in bad)}. If a column is a measurement, say so "
        "(numeric=); if it has levels, name it, too (categories=)."
    )


def remarks_on(
    look: TableScan,
    levels: Collection[str],
    categories: Sequence[str],
    numeric: Sequence[str],
    least_rows: int,
) -> tuple[Remark, ...]:
    """What is odd about the columns of an original.

    Columns in ``levels`` are levels. To name a column in ``categories`` or ``numeric`` says that it
    is meant: it may hold dates or tell the label, but not identify people.
    """
    remarks: list[Remark | None] = []
    dull = look.mostly_zero()
    _refuse_mixed(look, levels, numeric)
    for name, column in look.columns.items():
        if name in dull:
            continue
        meant = name in categories or name in numeric
        share = column.n_missing / look.n_rows
        if MANY_GAPS <= share < 1:
            remarks.append(Remark(name, "gaps", f"is missing in {share:.0%} of the rows"))
        remarks.append(_on_gaps(name, column.missing_counts, look.class_counts, meant))

        if column.n_missing == look.n_rows:
            remarks.append(Remark(name, "empty", "has no value in any row"))
        elif name in levels or column.n_texts:
            remarks.append(_on_levels(name, column, meant, least_rows))
            if len(column.counts) <= _MOST_ANSWERS:
                joint = np.array(list(column.counts.values()))
                remarks.append(_on_label(name, joint, column.n_missing == 0, meant))
        else:
            remarks += _on_sampled_numbers(name, look, meant)
    return tuple(remark for remark in remarks if remark is not None)


def _on_sampled_numbers(name: str, look: TableScan, meant: bool) -> list[Remark | None]:
    """What is odd about a column of numbers, on its own and beside the classes."""
    known = look.numbers(name)
    distinct = known[np.append(True, known[1:] > known[:-1])[: known.size]]
    remarks = [_on_numbers(name, known.size, distinct, meant)]
    if not meant and (words := missing_code(known)):
        remarks.append(Remark(name, "code", words))

    if look.classes is None or distinct.size < 2:
        return remarks
    if distinct.size <= _MOST_ANSWERS:
        joint = _joint_counts(look.cells(name), look.classes)
        has_all = int(joint.sum()) == look.n_sampled
        remark = _on_label(name, joint, has_all, meant)
        is_copy = remark is not None and remark.kind == "copy"
        if remark is not None and not is_copy and not meant and _is_graded_outcome(joint):
            remark = Remark(name, "copy", "is the outcome before a threshold")
        remarks.append(remark)
    elif not meant and look.classes.max() == 1:
        remarks.append(_on_ranks(name, look.cells(name), look.classes))
    return remarks


def _refuse_mixed(look: TableScan, levels: Collection[str], numeric: Sequence[str]) -> None:
    """Refuse numbers with other signs; and columns that mix numbers and texts, all at once."""
    mixed = list[str]()
    for name, column in look.columns.items():
        if name in levels or not column.n_texts:
            continue
        texts = [text for text in column.counts if not is_number_text(text)]
        if signs := signs_meant(texts):
            raise ReplearnError(
                f"column {name!r} must hold numbers with a decimal point, got numbers with other "
                f"signs in {column.n_texts:,} cells. Say how the file writes numbers: {signs}."
            )

        looks_numeric = column.n_numbers > column.n_texts
        has_many = looks_numeric and len(column.counts) - len(texts) > _MOST_ANSWERS
        if name in numeric or has_many:
            mixed.append(name)

    if mixed:
        first = look.columns[mixed[0]]
        others = ""
        if len(mixed) > 1:
            others = f" in {mixed[0]!r}"
        raise ReplearnError(
            f"{named_columns(mixed)} must hold numbers only, or levels, got {first.n_texts:,} "
            f"texts among {first.n_numbers:,} numbers{others}. Leave such cells empty. Or, if "
            f"these are levels: categories={','.join(mixed)}."
        )


def _on_levels(name: str, column: ColumnScan, meant: bool, least_rows: int) -> Remark | None:
    totals = {text: int(rows.sum()) for text, rows in column.counts.items()}
    n_rows, n_values = sum(totals.values()), len(totals)
    how_many = f"{n_values:,} different values in {n_rows:,} rows"
    if column.too_many:
        return Remark(name, "identifier", f"looks like an identifier ({how_many} or more)")

    # what must not be published: dates, free text, identifiers
    if not meant:
        examples = list(totals)[:_EXAMPLES]
        if sum(_DATE.fullmatch(text) is not None for text in examples) >= 0.9 * len(examples):
            return Remark(name, "date", "holds dates")
        n_words = sum(len(text.split()) for text in examples)
        if n_words >= 4 * len(examples) and n_values > n_rows / 2:
            return Remark(name, "text", f"looks like free text ({how_many})")
    if n_rows >= _FEWEST and n_values >= _ALL_DISTINCT * n_rows:
        return Remark(name, "identifier", f"looks like an identifier ({how_many})")

    # what cannot help: one level, or rare ones only
    if n_values == 1:
        return Remark(name, "constant", "is the same in all rows, so it cannot help")
    folded = {
        text: total for text, total in totals.items() if column.n_independent(text) < least_rows
    }
    few = f"fewer than {least_rows:,} rows each"
    if column.independent is not None:
        few = f"rows worth fewer than {least_rows:,} independent ones each"
    if len(folded) == n_values:
        belong = ""
        if _PERSON_WORD.fullmatch(_last_word(name)):
            belong = f"; if it names persons, rows of one belong together (groups={name})"
        return Remark(name, "rare", f"has all of its levels in {few} ({how_many}{belong})")

    if not meant and _names_centres(name):
        return _centre(name)
    if folded:
        share = f"{sum(folded.values()) / n_rows:.1%} of the rows together"
        reason = f"has {_folded_words(folded)} in {few}, {share}"
        if make_other(column, folded, least_rows):
            return Remark(name, "folded", f"{reason}: taken together as (other)")
        reference = reference_level(column, set(totals) - set(folded))
        return Remark(name, "absorbed", f"{reason}: counted as the reference, {reference!r}")
    return None


def reference_level(column: ColumnScan, kept: Collection[str]) -> str:
    """The most frequent of the levels that are kept.

    Of equals it is the smaller text, so that nothing depends on the order of rows.
    """
    return min(kept, key=lambda text: (-int(column.counts[text].sum()), text))


def make_other(column: ColumnScan, folded: Collection[str], least_rows: int) -> bool:
    """Whether rare levels are enough together for a term of their own, "(other)"."""
    n_folded = sum(int(column.counts[text].sum()) for text in folded)
    n_independent = sum(map(column.n_independent, folded))
    return n_folded >= LEAST_COUNT and n_independent >= least_rows


def _folded_words(folded: dict[str, int]) -> str:
    """How many levels, and some that are no few people's."""
    words = f"{len(folded):,} level{'s' * (len(folded) > 1)}"
    shown = sorted(text for text, total in folded.items() if total >= LEAST_COUNT)[:3]
    if shown:
        words += f" ({', '.join(map(repr, shown))})"
    return words


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

    if distinct.size > 2 and _names_centres(name):
        return _centre(name)
    is_person = _PERSON_WORD.fullmatch(_last_word(name)) is not None
    if is_person and distinct.size >= _MANY_PERSONS and n_known <= _MOST_VISITS * distinct.size:
        how_many = f"{distinct.size:,} different whole numbers in {n_known:,} rows"
        belong = f"rows of one person belong together: groups={name}"
        return Remark(name, "identifier", f"looks like a number of persons ({how_many}; {belong})")
    if distinct.size > 2 and _CODE_WORD.fullmatch(_last_word(name)):
        reason = "holds whole numbers that its name calls codes, and counts as a quantity"
        return Remark(name, "coded", f"{reason}: if they are levels, say so (--categories {name})")
    return None


def _names_centres(name: str) -> bool:
    """Whether a column is called like the centres themselves: site, hospital_id, StudyCentre."""
    words = re.findall(r"[a-z]+", _spaced(name))
    while words and _NUMBER_WORD.fullmatch(words[-1]):
        words.pop()
    if not words or _CENTRE_WORD.fullmatch(words[-1]) is None:
        return False
    return not _PLACE_WORDS.intersection(words)


def missing_code(known: Vector) -> str:
    """What to ask about sorted numbers one of which may stand for a missing value; "" if none.

    Such a code is the smallest or the largest number, in some rows, and far from all others; a 0
    is asked about where no other number is near it, unless most rows have it.
    """
    if known.size < _FEWEST:
        return ""

    for end in (float(known[0]), float(known[-1])):
        low, high = (int(np.searchsorted(known, end, side=side)) for side in ("left", "right"))
        others = np.concatenate([known[:low], known[high:]])
        share = (high - low) / known.size
        if others.size < _FEWEST or share < _LEAST_CODED:  # too few to tell
            continue
        n_others = len(np.unique(others[:: 1 + others.size // _EXAMPLES]))
        if n_others <= 3:  # -1, 0 and 1
            continue

        width = quantile(others, 0.95) - quantile(others, 0.05)
        gap = min(abs(others[0] - end), abs(others[-1] - end))
        is_code = end in _CODES and (gap > 0.5 * width or end < 0 <= others[0])
        if end == 0 and low == 0 and n_others > 10:
            is_code = share < 0.5 and quantile(others, 0.01) > 0.6 * width

        if is_code:
            return (
                f"holds {end:g} in {share:.1%} of the rows, far from all other values: is it a "
                "code for missing values? Then leave such cells empty"
            )
    return ""


def _on_ranks(name: str, cells: Vector, classes: Array) -> Remark | None:
    """A number that ranks two classes too well: the outcome before its threshold, or a time."""
    known = ~np.isnan(cells)
    values, positive = cells[known], classes[known] == 1
    asked_about = _RANKS
    is_time = _TIME_NAME.fullmatch(re.sub(r"[^a-z]+", " ", _spaced(name)).strip()) is not None
    if is_time:
        asked_about = _RANKS_TIME

    # most columns are far from it, as some of the rows tell
    if _auc(values[:_SCREENED], positive[:_SCREENED]) < asked_about - 0.02:
        return None
    auc = _auc(values, positive)

    # all of one class above all of the other, with hardly a gap: there was a threshold
    if auc == 1.0 and min(positive.sum(), (~positive).sum()) >= LEAST_COUNT:
        low, high = sorted((values[positive], values[~positive]), key=lambda part: part[0])
        gap = float(high.min() - low.max())
        ordered = np.sort(values)
        middle = quantile(ordered, 0.75) - quantile(ordered, 0.25)
        if gap < _SHARP * middle:
            return Remark(name, "copy", "is the outcome before a threshold")

    if is_time and auc >= _RANKS_TIME:
        return Remark(
            name,
            "time",
            f"seems to be a time of follow-up, and ranks the outcome (AUC {auc:.3f}): who leaves "
            "early has no event. Leave it out, or use --time and --event "
            "(ReplicableSurvivalAnalysis)",
        )
    if auc < _RANKS:
        return None
    return Remark(
        name,
        "tells",
        f"ranks the outcome nearly perfectly (AUC {auc:.3f}): is it known before the outcome? If "
        "not, leave it out",
    )


def _auc(values: Vector, positive: Mask) -> float:
    """The chance that a row of one class has the larger number, whichever of both is larger."""
    ups, downs = np.sort(values[positive]), values[~positive]
    if not ups.size or not downs.size:
        return 0.5

    # ties count half
    below = np.searchsorted(ups, downs, side="left") + np.searchsorted(ups, downs, side="right")
    share = float(below.mean()) / 2 / ups.size
    return max(share, 1.0 - share)


def _joint_counts(values: Vector, labels: NDArray[np.integer]) -> Ints:
    """Rows of each different value, by class."""
    known = ~np.isnan(values)
    distinct, places = np.unique(values[known], return_inverse=True)
    n_classes = int(labels.max()) + 1
    joint = np.bincount(places * n_classes + labels[known], minlength=distinct.size * n_classes)
    return joint.reshape(distinct.size, n_classes)


def _on_label(name: str, joint: Ints, has_all: bool, meant: bool) -> Remark | None:
    """A column each of whose values goes with one class only; ``has_all`` if there are no gaps."""
    if joint.ndim != 2 or joint.shape[1] < 2 or joint.size == 0:
        return None
    classes = (joint > 0).sum(axis=1)
    told = set(joint.argmax(axis=1).tolist())
    if (classes != 1).any() or len(told) < 2:
        return None

    # one value for each class is a copy; more values may be chance
    if has_all and joint.shape[0] == len(told) and not meant:
        return Remark(name, "copy", "is a copy of the label")
    if _is_chance(joint):
        return None
    return Remark(
        name,
        "tells",
        f"tells the label in all {int(joint.sum()):,} rows that have it: is it known before the "
        "outcome? If not, leave it out",
    )


def _on_gaps(name: str, missing: Ints, in_class: Ints, meant: bool) -> Remark | None:
    """A column that has values, or gaps, in rows of one class only: the cause of each death."""
    known = in_class - missing
    if in_class.size < 2 or not known.any() or not missing.any():
        return None

    # no class has both: gaps alone tell the outcome
    fewest = min(known.sum(), missing.sum())
    if not ((known > 0) & (missing > 0)).any() and fewest >= LEAST_COUNT and not meant:
        reason = "has its gaps in all rows of one outcome, and in no others: it is the outcome"
        return Remark(name, "copy", reason)

    shares = in_class / in_class.sum()
    for part, verb in ((known, "has values"), (missing, "has gaps")):
        here = int(part.argmax())
        n_rows = int(part.sum())
        if part[here] == n_rows and n_rows * math.log(shares[here]) < math.log(_CHANCE):
            return Remark(
                name,
                "tells",
                f"{verb} in rows of one outcome only, {n_rows:,} of them: is it known before the "
                "outcome? If not, leave it out",
            )
    return None


def _is_graded_outcome(joint: Ints) -> bool:
    """Whether the outcome is a column of few numbers, cut: grades 0 to 4, and the label from 1 on.

    Takes the rows of each number, in order, by class. Numbers that stand for groups without an
    order, such as wards, would change classes more often.
    """
    classes = joint.argmax(axis=1)
    n_changes = int((classes[1:] != classes[:-1]).sum())
    return n_changes == len(set(classes.tolist())) - 1


def _is_chance(joint: Ints) -> bool:
    """Whether values may go with one class each by chance: few of them occur twice.

    A further row of a value has the class of its first one with the probability that two rows have
    one class at all.
    """
    n_rows = int(joint.sum())
    if n_rows < 50:  # which nobody publishes
        return True
    shares = joint.sum(axis=0) / n_rows
    n_further = n_rows - joint.shape[0]
    return n_further * math.log(float(shares @ shares)) > math.log(_CHANCE)


def _are_day_numbers(distinct: Vector) -> bool:
    """Whether whole numbers look like 20240531."""
    if distinct[0] < 19_000_101 or distinct[-1] > 21_001_231:
        return False
    month, day = distinct // 100 % 100, distinct % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)).all())


def _last_word(name: str) -> str:
    return ["", *re.findall(r"[a-z]+", _spaced(name))][-1]


def _spaced(name: str) -> str:
    """A name in lower case, with a space where a capital began a word: patientID, PatientId."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
