"""What a study says about the original's columns, and what a lab's columns say to it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from replearn.documents import Length, Part, Share3, decimal_text
from replearn.tables.cells import number_text
from replearn.tables.counts import MOST_UNKNOWN, EncodingCounts
from replearn.tables.encoding import (
    INTERVAL,
    MISSING,
    OTHER,
    Encoding,
    LevelColumn,
    Name,
    NumberColumn,
    Place,
)
from replearn.tables.learning import QUANTILE_ROWS, Learned, place_text
from replearn.tables.safety import LEAST_COUNT, MANY_GAPS, missing_code, published_share
from replearn.tables.scan import SAMPLE_ROWS, quantile
from replearn.types import Array, Vector

_SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)

#: Standard deviations that are no chance: samples of one population are asked about in fewer than
#: 1 % of the cases, all columns together.
CHANCE = 4.5
#: Rows of the smallest lab that differ in a column, at least, if it has a coefficient.
LEAST_APART = 20
#: Rows by which a published share may be off: half of a step, which has 20 to 50 rows.
MOST_ROUNDED = 25
#: A larger share of gaps is told where the study has no coefficient for them.
MOST_GAPS = 0.05

#: Factors between units that people use for one thing.
_UNITS = {
    1000.0: "thousands, or grams and kilograms",
    100.0: "percent, or metres and centimetres",
    10.0: "tenths",
    2.54: "inches and centimetres",
    39.37: "inches and metres",
    3.281: "feet and metres",
    2.205: "pounds and kilograms",
    1.609: "miles and kilometres",
    12.0: "years and months",
    365.25: "years and days",
    7.0: "weeks and days",
    24.0: "days and hours",
    60.0: "hours and minutes",
    18.02: "mg/dl and mmol/l of glucose",
    38.67: "mg/dl and mmol/l of cholesterol",
    88.42: "mg/dl and umol/l of creatinine",
    7.501: "mmHg and kPa",
}


@dataclass(frozen=True)
class NumberProfile(Part):
    """Rounded quantiles (5, 25, 50, 75, 95%) and the share of missing cells."""

    name: Name
    quantiles: Annotated[tuple[Place, ...], Length(0, 5)]
    missing: Share3
    kind: Literal["number"] = "number"

    def is_of(self, column: NumberColumn | LevelColumn) -> bool:
        """Whether it is that of this column, with all quantiles or none."""
        is_named = (self.kind, self.name) == (column.kind, column.name)
        return is_named and len(self.quantiles) in (0, len(_SHARES))


@dataclass(frozen=True)
class LevelProfile(Part):
    """Shares of the reference and of each level, in the order of the encoding."""

    name: Name
    shares: Annotated[tuple[Share3, ...], Length(0, 10_001)]
    kind: Literal["levels"] = "levels"

    def is_of(self, column: NumberColumn | LevelColumn) -> bool:
        """Whether it is that of this column, with all levels."""
        if not isinstance(column, LevelColumn) or self.name != column.name:
            return False
        return len(self.shares) == len(column.named)


@dataclass(frozen=True)
class Profile(Part):
    """What the original's columns look like, as far as it may be published.

    ``target`` has the shares of the classes, or quantiles of the numbers to regress on.
    """

    columns: tuple[NumberProfile | LevelProfile, ...]
    target: tuple[Place, ...] = ()

    def is_of(self, encoding: Encoding, classes: Sequence[Any] | None) -> bool:
        """Whether it has the columns, and the target with all quantiles or none."""
        n_target = len(_SHARES if classes is None else classes)
        if len(self.columns) != len(encoding.columns) or len(self.target) not in (0, n_target):
            return False
        pairs = zip(encoding.columns, self.columns, strict=True)
        return all(theirs.is_of(column) for column, theirs in pairs)


class Finding(NamedTuple):
    """What is odd about a column at this lab, in a sentence; "" stands for the target.

    ``first`` says that the column must be looked at before a verdict is believed: it has no value
    or no spread, a different unit, or exchanged levels, so that agreement says nothing about it.
    """

    column: str
    sentence: str
    first: bool = False


def in_sentences(findings: Sequence[Finding]) -> list[str]:
    """Findings for people: columns with the same finding share a sentence."""
    columns: dict[str, list[str]] = {}
    for column, sentence, _ in findings:
        columns.setdefault(sentence, []).append(column)
    sentences = []
    for sentence, names in columns.items():
        if names == [""]:
            sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
        elif len(names) == 1:
            sentences.append(f"Column {names[0]!r} {sentence}.")
        else:
            listed = ", ".join(map(repr, names[:4])) + (", ..." if len(names) > 4 else "")
            sentences.append(f"{len(names)} columns ({listed}): each {sentence}.")
    return sentences


def make_profile(learned: Learned, labels: Array) -> Profile:
    """The profile of an original: from at least 50 rows each, with two or three digits.

    Rows at risk are counted, and the rule is about persons, of whom each has several.
    """
    look, n_each = learned.look, 1.0
    if learned.at_risk is not None:
        look, n_each = learned.at_risk, learned.at_risk.n_rows / learned.look.n_rows

    columns: list[NumberProfile | LevelProfile] = []
    for column in learned.encoding.columns:
        scan = look.columns[column.name]
        if isinstance(column, NumberColumn):
            quantiles = quantiles_of(look.numbers(column.name), n_each)
            places = tuple(place_text(value, column.spread) for value in quantiles)
            gaps = _share(scan.n_missing, look.n_rows, n_each)
            columns.append(NumberProfile(column.name, places, gaps))
            continue

        totals = {text: int(rows.sum()) for text, rows in scan.counts.items()}
        named = set(column.named)
        totals[OTHER] = sum(total for text, total in totals.items() if text not in named)
        totals[MISSING] = scan.n_missing
        counts = [totals[text] for text in column.named]
        # in one interval a row is a person
        each = 1.0 if column.name == INTERVAL else n_each
        columns.append(LevelProfile(column.name, _shares(counts, look.n_rows, each)))

    # classes as shares, numbers as quantiles
    if labels.dtype.kind in "iub":
        target = _shares(np.bincount(labels).tolist(), labels.size)
    else:
        target = tuple(decimal_text(value) for value in quantiles_of(np.sort(labels)))
    return Profile(tuple(columns), target)


def _shares(counts: list[int], n_rows: int, n_each: float = 1.0) -> tuple[str, ...]:
    """Shares of the rows; few that are left go to the largest, or what is left would tell them."""
    least = LEAST_COUNT * n_each
    left = n_rows - sum(count for count in counts if count >= least)
    if left < least:
        largest = counts.index(max(counts))
        counts = [count + left * (place == largest) for place, count in enumerate(counts)]
    return tuple(_share(count, n_rows, n_each) for count in counts)


def _share(count: int, n_rows: int, n_each: float = 1.0) -> str:
    if count < LEAST_COUNT * n_each:
        return "0"
    return published_share(round(count / n_each), round(n_rows / n_each))


def quantiles_of(values: Vector, n_each: float = 1.0) -> list[float]:
    """Quantiles at 5, 25, 50, 75 and 95% of sorted values; none if there are fewer than 50.

    The outer ones move inwards until 50 rows are beyond them, to the quartiles at most. Persons
    have ``n_each`` rows.
    """
    least = QUANTILE_ROWS * n_each
    if values.size < least:
        return []

    tail = min(max(_SHARES[0], least / values.size), _SHARES[1])
    return [quantile(values, share) for share in (tail, *_SHARES[1:-1], 1 - tail)]


def compare_profiles(
    encoding: Encoding,
    profile: Profile,
    seen: EncodingCounts,
    label_counts: Sequence[int] | None,
    planned: tuple[int, int],
) -> list[Finding]:
    """What looks different at this lab: units, codings, levels, labels.

    Findings are no proof: populations may differ. Each is a question to ask before a fit, and what
    chance does to samples of one population is none. ``planned`` has the rows of the original and
    of the smallest replication.
    """
    rows = _Rows(seen.n_rows, *planned, *_persons(encoding, profile, seen))
    findings = []
    for place, (column, theirs) in enumerate(zip(encoding.columns, profile.columns, strict=True)):
        odd = Finding(column.name, "")
        n_known = seen.n_rows - int(seen.missing[place] + seen.unreadable[place])
        if n_known == 0:
            is_first = rows.is_odd_constant(_usual_gaps(theirs))
            odd = Finding(column.name, "has no value in any row here", is_first)
        elif isinstance(theirs, NumberProfile) and isinstance(column, NumberColumn):
            odd = _on_numbers(column, theirs, seen, place, rows)
        elif isinstance(theirs, LevelProfile) and isinstance(column, LevelColumn):
            odd = _on_levels(column, theirs, seen, place, rows)
        if odd.sentence:
            findings.append(odd)

    if label_counts is not None and (sentence := _on_labels(profile.target, label_counts, rows)):
        findings.append(Finding("", sentence))
    return findings


def _persons(encoding: Encoding, profile: Profile, seen: EncodingCounts) -> tuple[float, float]:
    """Independent rows for each row, here and at the original: 1 unless rows are at risk.

    Whoever is at risk in an interval was so in all before it, so that the rows of the intervals
    tell how many persons have how many rows. Of clusters of m rows ``sum m / sum m^2`` count.
    """
    last = profile.columns[-1]
    if encoding.intervals is None or not isinstance(last, LevelProfile):
        return 1.0, 1.0
    here = [seen.levels[-1][name] for name in encoding.intervals.named]
    return _independent(here), _independent(list(map(float, last.shares)))


def persons_seen(encoding: Encoding, seen: EncodingCounts) -> int:
    """Persons of rows at risk: each has one row in the first interval."""
    if encoding.intervals is None:
        return 0
    return int(seen.levels[-1][encoding.intervals.reference])


def persons_of(profile: Profile, n_rows: int) -> int | None:
    """About how many persons have so many rows at risk at the original, in two digits.

    None where the profile has no shares.
    """
    last = profile.columns[-1]
    if last.name != INTERVAL or not isinstance(last, LevelProfile) or not last.shares:
        return None
    about = n_rows * float(last.shares[0])
    unit = 10 ** max(0, len(str(int(about))) - 2)
    return int(about / unit + 0.5) * unit


def _independent(at_risk: Sequence[float]) -> float:
    n_squared = sum((2 * k + 1) * size for k, size in enumerate(at_risk))
    if n_squared == 0:
        return 1.0
    return sum(at_risk) / n_squared


def _usual_gaps(theirs: NumberProfile | LevelProfile) -> float:
    """Share of missing cells at the original; those of levels are at most one of the shares."""
    if isinstance(theirs, NumberProfile):
        return float(theirs.missing)
    return max(map(float, theirs.shares), default=0.0)


class _Rows(NamedTuple):
    """How many rows there are here, at the original, and at the smallest planned lab."""

    here: int
    original: int
    planned: int
    # independent ones for each row: of rows at risk there are as many as persons, about
    independent_here: float = 1.0
    independent_there: float = 1.0

    def chance(self, share: float, other: float = 0.0) -> float:
        """How far two samples of one population have a share apart, but for 7 in a million.

        The larger variance of both: small counts have longer tails than their mean tells.
        """
        variance = max(share * (1 - share), other * (1 - other))
        here = max(1.0, self.independent_here * self.here)
        original = self.independent_there * self.original
        return CHANCE * math.sqrt(variance * (1 / here + 1 / original))

    def is_odd_constant(self, share: float) -> bool:
        """Whether it is no chance that all rows have what this share of the original has.

        Columns without a level that 20 rows of the smallest lab differ in have no coefficient.
        """
        share = min(share, 1 - LEAST_APART / max(2 * LEAST_APART, self.planned))
        n_independent = self.independent_here * self.here
        return n_independent * math.log(max(share, 1e-300)) < math.log(1e-4)


def _on_numbers(
    column: NumberColumn, theirs: NumberProfile, seen: EncodingCounts, place: int, rows: _Rows
) -> Finding:
    values = seen.values(place)
    study = np.array([float(text) for text in theirs.quantiles])
    if values.size and values[0] == values[-1]:
        # all quantiles alike: 90 % or more of the original; else at most 95 %
        share = 1 - _SHARES[0]
        if (study == values[0]).all():
            share = 1.0
        return _on_constant(column.name, share, rows)

    ours = np.array(quantiles_of(values))
    spread = float(column.spread)
    is_known = ours.size > 0 and study.size > 0
    is_moved = is_known and _is_moved(values, ours, study, spread, rows)
    if is_moved and (words := _other_unit(ours, study, spread)):
        return Finding(column.name, words, first=True)
    if words := missing_code(values):
        return Finding(column.name, words)

    counts_as = ""
    if not column.indicator:
        counts_as = f"{column.centre}, the study's median"
    words = _on_missing(int(seen.missing[place]), theirs.missing, counts_as, rows)
    return Finding(column.name, words)


def _on_constant(name: str, share: float, rows: _Rows) -> Finding:
    """A column that is the same in all rows here, as in this share of the original's."""
    if not rows.is_odd_constant(share):
        return Finding(name, "")
    words = "is the same in all rows here, so nothing can be replicated about it"
    return Finding(name, words, first=True)


def _is_moved(values: Vector, ours: Vector, study: Vector, spread: float, rows: _Rows) -> bool:
    """Whether a quartile is more than a spread away, and no chance explains that.

    A median of zeros and ones jumps by chance; the share of rows below the study's does not.
    """
    for place in (1, 2, 3):
        quartile, share = study[place], _SHARES[place]
        if abs(ours[place] - quartile) <= spread:
            continue

        # published quartiles have three digits of the spread
        below = np.searchsorted(values, quartile - spread / 100, side="left") / values.size
        up_to = np.searchsorted(values, quartile + spread / 100, side="right") / values.size
        sizes = {"here": values.size, "original": min(rows.original, SAMPLE_ROWS)}
        chance = rows._replace(**sizes).chance(share)
        if below > share + chance or up_to < share - chance:
            return True
    return False


def _on_missing(n_missing: int, stated: str | None, counts_as: str, rows: _Rows) -> str:
    """Gaps that the study has no coefficient for are told early, others if they are far more.

    ``counts_as`` is what such cells become; "" if they have a coefficient. Half of a column is
    never missing in silence. Of levels without a coefficient for gaps no share is stated (None):
    they were too few for one.
    """
    share, usual = n_missing / rows.here, float(stated or 0)
    most = max(usual, LEAST_COUNT / rows.original)  # fewer are not stated
    in_study = f"{usual:.0%}"
    if stated is None:
        most = min(0.5, LEAST_APART / rows.planned)
        in_study = f"fewer than {LEAST_APART} of {rows.planned:,}"
    many = max(MOST_GAPS if counts_as else 0.2, most - usual + rows.chance(most, share))
    if share - usual < many and share < MANY_GAPS:
        return ""

    words = f"is missing in {share:.0%} of the rows here, in the study in {in_study}"
    if counts_as:
        words += f": such cells count as {counts_as}"
    return words


def _distance(ours: Vector, study: Vector, spread: float) -> float:
    """How far quantiles are apart, in spreads; of the three in the middle."""
    return float(np.abs(ours - study)[1:4].max()) / spread


#: How much of the rows is above a quartile.
_ABOVE = {1: "three quarters", 2: "half", 3: "a quarter"}


def _other_unit(ours: Vector, study: Vector, spread: float) -> str:
    """The change of unit or code that brings the lab's quantiles to the study's.

    Other patients are no other unit: without such a change nothing is said of quartiles among the
    values that 90% of the original's patients have.
    """
    place = 2  # the median, unless both are the same, such as 0
    if ours[2] == study[2]:
        place = max((1, 3), key=lambda i: abs(ours[i] - study[i]))
    middle = f"{_ABOVE[place]} of the rows are above {number_text(ours[place])} here, in the study "
    middle += f"above {number_text(study[place])}"

    # whole codes that begin elsewhere
    shift = ours[2] - study[2]
    if (ours - study == shift).all() and shift == np.floor(shift):
        how = "larger" if shift > 0 else "smaller"
        return (
            f"is {number_text(abs(shift))} {how} throughout than in the study, as if "
            "it were coded differently, such as 1 and 2 for 0 and 1"
        )

    # the change of unit that fits best: factor, constant, and words
    ways = [(1.8, 32.0, "in degrees Fahrenheit"), (1 / 1.8, -32 / 1.8, "in degrees Celsius")]
    for factor, unit in _UNITS.items():
        ways.append((factor, 0.0, f"{number_text(factor)} times as large ({unit}?)"))
        ways.append((1 / factor, 0.0, f"{number_text(factor)} times smaller ({unit}?)"))
    away = [_distance((ours - zero) / factor, study, spread) for factor, zero, _ in ways]
    best = int(np.argmin(away))
    factor, zero, words = ways[best]

    # a spread may be wide: the medians themselves must fit, too; a 0 fits any factor
    fits = abs((ours[2] - zero) / factor - study[2]) <= 0.15 * abs(study[2])
    if away[best] < 0.5 and fits and (zero or study[2]):
        return f"seems to have a different unit: it is {words}; {middle}"
    if (ours[1:4] < study[0]).any() or (ours[1:4] > study[4]).any():
        return f"has very different values: {middle}"
    return ""


def _exchanged(ours: Mapping[str, float], study: Mapping[str, float], rows: _Rows) -> str:
    """Two levels whose shares are the other way round, while all others are as they were.

    Older or younger patients are no exchange: then shares of many levels differ.
    """
    chance = {name: rows.chance(study[name], share) for name, share in ours.items()}
    for first, second in permutations(ours, 2):
        gap, turned = study[first] - study[second], ours[second] - ours[first]
        if gap <= 0.2 or gap + turned <= chance[first] + chance[second]:
            continue

        back = {**ours, first: ours[second], second: ours[first]}
        if all(abs(back[name] - study[name]) <= gap / 4 + chance[name] for name in ours):
            return (
                f"may have its levels {first!r} and {second!r} exchanged: here "
                f"{ours[first]:.0%} and {ours[second]:.0%} of the rows, in the study "
                f"{study[first]:.0%} and {study[second]:.0%}"
            )
    return ""


def _on_levels(
    column: LevelColumn, theirs: LevelProfile, seen: EncodingCounts, place: int, rows: _Rows
) -> Finding:
    counts, n_rows = seen.levels[place], rows.here
    if column.name == INTERVAL:
        return _on_times(column, theirs, counts, rows)
    study = dict(zip(column.named, map(float, theirs.shares), strict=False))
    present = [name for name, count in counts.items() if count]
    if len(present) == 1 and not seen.missing[place]:
        share = study.get(present[0], study.get(OTHER, 0.0))
        return _on_constant(column.name, share, rows)

    names = [name for name in column.named if name not in (OTHER, MISSING)]
    shares = {name: counts[name] / n_rows for name in names}
    if words := _exchanged(shares, study, rows):
        return Finding(column.name, words, first=True)

    # unknown levels, then gaps
    others = column.reference
    if OTHER in column.levels:
        others = OTHER
    n_known = n_rows - int(seen.missing[place])
    unknown, usual = int(seen.unknown[place]) / n_known, float(column.folded)
    if unknown > usual + max(MOST_UNKNOWN, rows.chance(usual, unknown)):
        return Finding(
            column.name,
            f"has levels here that the study does not have, in {unknown:.0%} of the rows: they "
            f"count as {others!r}",
        )

    stated, counts_as = None, repr(others)
    if MISSING in column.levels:
        stated, counts_as = str(study[MISSING]), ""
    words = _on_missing(int(seen.missing[place]), stated, counts_as, rows)
    return Finding(column.name, words)


def _on_times(
    column: LevelColumn, theirs: LevelProfile, counts: Mapping[str, int], rows: _Rows
) -> Finding:
    """Times in years where the study has days leave nobody at risk after its first interval.

    Or everybody at risk to its last one, the other way round.
    """
    shares = list(map(float, theirs.shares))
    at_risk = [counts[name] for name in (column.reference, *column.levels)]
    is_short = at_risk[0] == rows.here and rows.is_odd_constant(shares[0])
    is_long = at_risk[-1] > max(LEAST_APART, 0.95 * at_risk[0]) and shares[-1] < shares[0] / 2
    if is_short or is_long:
        return Finding(column.name, _SAME_TIMES, first=True)
    return Finding(column.name, "")


_SAME_TIMES = (
    "is the same for everybody here: do the times have the study's unit (days and years)? If not, "
    "convert them"
)


def _on_labels(target: Sequence[str], counts: Sequence[int], rows: _Rows) -> str:
    shares = np.array(counts, dtype=np.float64) / max(1, sum(counts))
    study = np.array([float(share) for share in target])
    if shares.size != study.size:
        return ""

    away = np.abs(shares - study)
    pairs = zip(study.tolist(), shares.tolist(), strict=True)
    chance = np.array([rows.chance(theirs, ours) for theirs, ours in pairs])
    is_odd = away > chance + MOST_ROUNDED / rows.original

    # one's share here is about that of the other in the study
    fits_other = abs(shares[1] - study[0]) < away[1] / 3
    if study.size == 2 and abs(study[1] - 0.5) > 0.1 and fits_other and is_odd[1]:
        return (
            f"the labels may be exchanged: the second class has {shares[1]:.0%} of the rows here, "
            f"in the study {study[1]:.0%}"
        )

    # a quarter of the rows apart, or four times as many
    ratios = np.maximum(shares, 1e-9) / np.maximum(study, 1e-9)
    far = np.maximum(away / 0.25, np.abs(np.log(ratios)) / np.log(4)) * is_odd
    odd = int(np.argmax(far))
    if far[odd] > 1:
        return f"class {odd} has {shares[odd]:.1%} of the rows here, in the study {study[odd]:.1%}"
    return ""
