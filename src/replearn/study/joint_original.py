"""An original of many labs: no lab is first, and no row leaves its lab.

Before the first round each lab describes its columns: quantiles and counts of many rows. They make
a draft, which is a registered study. The labs fit it as a coalition; one round more shows how much
single rows move the fit; then cells, sketch and study follow as for an original with all rows.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median_low
from typing import Annotated, Any

import numpy as np

from replearn.codes import Coins, chance_of_each, seed_text, width_for
from replearn.documents import Document, Integers, Label, Length, Part, Range, Unfit, decimal_text
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.glm import (
    RIDGES,
    Coordinates,
    GlmDesign,
    GlmModel,
    GlmPromise,
    Influence,
    Kind,
    Loss,
    Summary,
    loss_of,
)
from replearn.glm import between as centres
from replearn.glm import sketched as glm
from replearn.rows import MAX_ROW
from replearn.study.certificate import without_model
from replearn.study.disclosure import singled_out
from replearn.study.encoder import RowEncoder, TableRows, read_rows
from replearn.study.original import read_labels
from replearn.study.participants import LabsTogether, Participant
from replearn.study.passes import LEAST_SUMMED, MAX_POOLED_ROWS, LabName, PooledFit, RowCount
from replearn.study.study import GlmStudy, bits_each
from replearn.tables import (
    LEAST_COUNT,
    MOST_MISSING,
    OTHER,
    Encoding,
    LevelColumn,
    Name,
    NumberColumn,
    Table,
    TableScan,
    is_number_text,
    learn_encoding,
    make_profile,
    open_table,
    place_text,
    refuse_unsafe,
)
from replearn.types import Array, Codes, Ints, Vector
from replearn.words import Facts, Row, Spoken, percent, warn

#: Published bits about each coefficient.
_BITS = 8
#: Quantiles of a column that a lab sends at most.
_QUANTILES = 64
#: Rows of the table that has the columns of all labs, at most.
_DRAWN = 1 << 17
#: Slopes of labs may differ by this factor more than typical ones. Beyond it a lab that is unlike
#: the others stops the study; labs that all differ so much only make cells wide.
_MOST_EXCESS = 5.0


@dataclass(frozen=True)
class ColumnCounts(Part):
    """Numbers or levels of a column, and how many rows each stands for: ten or more.

    Beside them there may be rows that are too few to show: of levels, or without a value.
    """

    name: Name
    values: Annotated[tuple[Label, ...], Length(0, 10_001)]
    counts: Annotated[Codes, Integers(1, 0, MAX_POOLED_ROWS)]
    missing: RowCount
    are_numbers: bool
    hides_levels: bool = False  # of numbers: all of them, because sums would show few
    hides_gaps: bool = False

    def check(self) -> None:
        """A count for each value, and numbers where a column has them."""
        if len(self.values) != self.counts.size:
            raise Unfit(f"must have a count for each value, got {self.counts.size}", key="counts")
        if self.are_numbers and not all(_is_finite(value) for value in self.values):
            raise Unfit("must be numbers", key="values")

    def may_have(self, level: int | str) -> bool:
        """Whether there may be rows of a level that are not shown as such."""
        return level not in self.values and (self.hides_levels or OTHER in self.values)


@dataclass(frozen=True)
class LabColumns(Spoken, Document):
    """What a lab's columns look like, before there is a study."""

    FORMAT = "replearn/columns"

    lab: LabName
    rows: Annotated[int, Range(1, MAX_POOLED_ROWS)]
    kind: Kind
    target: ColumnCounts
    columns: Annotated[tuple[ColumnCounts, ...], Length(1, 10_000)]

    def check(self) -> None:
        """No column counts more rows than there are, and the target all that it shows."""
        for column in (self.target, *self.columns):
            if sum(column.counts.tolist()) + column.missing > self.rows:
                raise Unfit(f"must count at most the {self.rows:,} rows", key=column.name)
        if not self.target.counts.any():
            raise Unfit("must have values", key="target")

    def facts(self) -> Facts:
        """What is sent, in words."""
        size = sum(len(column.values) for column in self.columns)
        return Facts(
            f"Columns of {self.rows:,} rows at {self.lab!r}: {size:,} values, each of many rows.",
            [Row("target", self.target.name), Row("columns", len(self.columns))],
        )


def lab_columns(
    table: Table,
    kind: Kind = "logistic",
    lab: str = "lab",
    categories: Sequence[str] = (),
    least_count: int = LEAST_COUNT,
) -> LabColumns:
    """Describe a lab's columns, for a coalition that has no study yet.

    The table has a target, by name, and no columns that the study should not have; numbers of the
    columns in ``categories`` are names of levels. Classes of fewer than ``least_count`` rows are
    refused. What has so few rows in some class is not shown: the lab would refuse its sums, and a
    draft takes what all labs show.
    """
    least_count = max(1, least_count)
    known, labels = read_labels(table, kind)
    if len(labels) < LEAST_SUMMED:
        raise ReplearnError(
            f"columns must be of at least {LEAST_SUMMED} rows, got {len(labels)}: those of few "
            "rows may tell what stands in single ones. Pool them with those of a different lab."
        )

    # what columns are, as an original would read them
    learned = learn_encoding(table, labels, categories=categories)
    refuse_unsafe(learned.remarks)

    encoded: dict[str, Ints] | None = None
    if not table.is_sparse:
        encoded = _encoded_counts(table, learned.encoding, known and labels)
    columns = [
        _column_counts(learned.look, name, name in categories, encoded, least_count)
        for name in learned.look.columns
    ]
    target = _target_counts(str(table.roles["target"]), known, labels, least_count)
    return LabColumns(lab, len(labels), kind, target, tuple(columns))


def _column_counts(
    look: TableScan,
    name: str,
    is_category: bool,
    encoded: Mapping[str, Ints] | None,
    least_count: int,
) -> ColumnCounts:
    """What is shown of a column; ``encoded`` has rows of encoded numbers, of tables not sparse."""
    column = look.columns[name]
    are_numbers = not is_category and not column.n_texts
    if are_numbers:
        numbers = look.numbers(name)
        values, counts = tuple[str, ...](), list[int]()
        if encoded is None or not _singles_out(encoded.get(name), numbers, least_count):
            values, counts = _groups(numbers, column.n_numbers, least_count)
        hides_levels = column.n_numbers > 0 and not values
    else:
        values, counts, hides_levels = _frequent_levels(column.counts, least_count)

    # few gaps are nobody's business
    missing = column.n_missing
    if missing < least_count or not _is_many(column.missing_counts, least_count):
        missing = 0
    return ColumnCounts(
        name,
        values,
        np.array(counts),
        missing,
        are_numbers,
        hides_levels,
        hides_gaps=missing < column.n_missing,
    )


def _is_many(by_class: Array, least_count: int) -> bool:
    """Whether each class has no row or many."""
    return not ((by_class > 0) & (by_class < least_count)).any()


def _frequent_levels(
    counts: Mapping[str, Ints], least_count: int
) -> tuple[tuple[str, ...], list[int], bool]:
    """Levels of many rows in each class; the others together, if they have as many, or hidden."""
    kept, rest = dict[str, int](), np.zeros(1, dtype=np.int64)
    for text, by_class in counts.items():
        if text != OTHER and by_class.sum() >= least_count and _is_many(by_class, least_count):
            kept[text] = int(by_class.sum())
        else:
            rest = rest + by_class

    is_shown = rest.sum() >= least_count and _is_many(rest, least_count)
    if is_shown:
        kept[OTHER] = int(rest.sum())
    return tuple(kept), list(kept.values()), bool(rest.any()) and not is_shown


def _encoded_counts(table: Table, encoding: Encoding, labels: Any) -> dict[str, Ints]:
    """Rows of each encoded number of a column, by class; ``labels`` is None if there are none."""
    n_classes = 1 if labels is None else int(labels.max()) + 1
    places, start = dict[str, int](), 0
    for column in encoding.columns:
        if isinstance(column, NumberColumn):
            places[column.name] = start
        start += len(column.terms)

    size = (2 * MAX_ROW + 1) * n_classes
    counts = {name: np.zeros(size, dtype=np.int64) for name in places}
    for batch in table.batches():
        terms = encoding.encode(batch)
        own = np.zeros(batch.n_rows, dtype=np.int64)
        if labels is not None:
            own = labels[batch.rows]

        for name, place in places.items():
            cells = (terms[:, place].astype(np.int64) + MAX_ROW) * n_classes + own
            counts[name] += np.bincount(cells, minlength=size)
    return {name: flat.reshape(-1, n_classes) for name, flat in counts.items()}


def _singles_out(by_number: Ints | None, values: Vector, least_count: int) -> bool:
    """Whether sums of a column of numbers show few rows: those of a number, or beside the usual."""
    if by_number is None:  # too little varies for a term here, but a draft may have one
        return bool(values.size) and bool(values[0] < values[-1]) and least_count > 1

    different = by_number[by_number.any(axis=1)]
    told = singled_out(different.sum(axis=1))
    return not all(_is_many(different[shown].sum(axis=0), least_count) for shown in told)


def _target_counts(name: str, classes: Any, labels: Any, least_count: int) -> ColumnCounts:
    """Rows of each class, or quantiles of numbers."""
    if classes is None:
        values, counts = _groups(np.sort(labels), len(labels), least_count)
        return ColumnCounts(name, values, np.array(counts), 0, True)

    in_class = np.bincount(labels)
    if in_class.min() < least_count:
        raise ReplearnError(
            f"columns must be of at least {least_count} rows of each class, got fewer of "
            f"{classes[int(in_class.argmin())]!r}. Pool these rows with those of a different lab."
        )
    return ColumnCounts(name, classes, in_class, 0, False)


def _groups(values: Vector, n_rows: int, least_count: int) -> tuple[tuple[str, ...], list[int]]:
    """Medians of groups of sorted numbers, with the precision of the spread; rows of each."""
    n_groups = min(_QUANTILES, values.size // least_count)
    if not n_groups:
        return (), []

    # digits beyond the spread would tell more than the column does
    low, high = np.quantile(values, [0.05, 0.95]).tolist()
    spread = decimal_text((high - low) / 3.29 or abs(high) or 1.0)

    parts = np.array_split(values, n_groups)
    ends = np.arange(n_groups + 1) * n_rows // n_groups
    medians = [float(part[part.size // 2]) for part in parts]
    return tuple(place_text(median, spread) for median in medians), np.diff(ends).tolist()


def draft_study(
    *labs: LabColumns,
    ridge: float | None = None,
    max_disagreement: float = 0.01,
    shared_seed: int | str = 0,
    basis: Any = "linear",
) -> GlmStudy:
    """A registered study with the columns of all labs, for them to fit together.

    The ridge is by default the one of 1, 0.3, 0.1, ... at or above ten over the number of rows.
    Coordinates come from columns as if they were independent: rounding then costs more where they
    are not, by about the mean variance inflation factor. A warning tells what would keep the last
    round from making a study, as far as rows and targets of the labs show it.
    """
    labs = tuple(sorted(labs, key=lambda one: one.lab))
    _check_labs(labs)
    kind, n_rows = labs[0].kind, sum(one.rows for one in labs)

    # a table that has the columns of all labs, and its encoding, as an original learns it
    columns, table = _table_like(labs, min(n_rows, _DRAWN))
    classes, labels = read_labels(table, kind)
    levels = [parts[0].name for parts in columns if not parts[0].are_numbers]
    learned = learn_encoding(table, labels, basis=basis, categories=levels)
    learned = replace(learned, encoding=_without_hidden(learned.encoding, columns))
    loss = loss_of(kind, classes, labels)
    rows = read_rows(TableRows(table, RowEncoder(learned.encoding, loss, classes)))

    # coordinates and cells before any fit
    penalty = _default_ridge(n_rows)
    if ridge:
        penalty = decimal_text(ridge)
    shares = Summary.of(rows, loss).check(loss).shares
    moments = glm.moments_for(rows)
    n_numbers = loss.n_scores * len(moments)
    deviation = (2 / n_rows) ** 0.5  # a row's influence is about 1 in these coordinates
    width = width_for(chance_of_each(max_disagreement, n_numbers), 0) * deviation
    design = GlmDesign(
        target=labs[0].target.name,
        encoding=learned.encoding,
        loss=loss,
        ridge=penalty,
        coordinates=Coordinates.of(loss.information(shares), moments, float(penalty)),
        widths=(decimal_text(1.005 * width),) * n_numbers,
        bits=0,
        seed=seed_text(shared_seed),
        classes=classes,
    )

    _warn_early(loss, shares, [one.rows for one in labs], max_disagreement)
    return GlmStudy(
        design,
        decimal_text(max_disagreement),
        n_original=n_rows,
        n_replication=n_rows,
        spreads=("1",) * n_numbers,
        between=("0",) * n_numbers,
        n_centres=0,
        profile=make_profile(learned, labels),
    )


def _table_like(labs: Sequence[LabColumns], n_rows: int) -> tuple[list[list[ColumnCounts]], Table]:
    """Columns that all labs can sum, and a table that has them, each by itself."""
    sizes = [one.rows for one in labs]
    every = zip(*(one.columns for one in labs), strict=True)
    columns = [parts for parts in (_summable(each, sizes) for each in every) if parts]
    if not columns:
        raise ReplearnError(
            "there must be a column of which all labs show values, got none: each has too few rows "
            "of some value. Join rows of different labs, or add up in secret shares."
        )
    target = _drawn([one.target for one in labs], n_rows)
    drawn = {parts[0].name: _drawn(parts, n_rows) for parts in columns}
    return columns, open_table(drawn, target=target)


def _is_finite(value: Label) -> bool:
    text = str(value)
    return is_number_text(text) and math.isfinite(float(text))


def _warn_early(loss: Loss, shares: Vector, sizes: list[int], max_disagreement: float) -> None:
    """Say before the first round what `founded` would refuse after the last one."""
    promise = GlmPromise(max_disagreement, _BITS, sum(sizes), int(median_low(sizes)))
    _, problems = without_model(loss, shares, promise, np.zeros((loss.n_scores, 1)))
    for problem in problems:
        warn(f"The last round would make no study. {problem}", ReplicabilityWarning)


def _default_ridge(n_rows: int) -> str:
    """The least of the usual ones at or above ten over the number of rows."""
    least = min(10 / n_rows, 1)
    return min((ridge for ridge in RIDGES if float(ridge) >= least), key=float)


def _check_labs(labs: Sequence[LabColumns]) -> None:
    if not labs:
        raise ReplearnError("there must be columns of at least one lab, got none.")

    def kinds(one: LabColumns) -> Any:
        return one.kind, one.target.name, [(c.name, c.are_numbers) for c in one.columns]

    for one, neighbour in zip(labs[1:], labs, strict=False):  # sorted by name
        if one.lab == neighbour.lab:
            raise ReplearnError(f"each lab must send one file, got two of {one.lab!r}. Keep one.")
        if kinds(one) != kinds(labs[0]):
            raise ReplearnError(
                f"all labs must have the same target and the same columns of numbers and of "
                f"levels, in one order, but {one.lab!r} and {labs[0].lab!r} differ. Agree on them."
            )


def _summable(parts: Sequence[ColumnCounts], sizes: Sequence[int]) -> list[ColumnCounts]:
    """A column as all labs can sum it: nothing if they cannot.

    Levels and gaps that some lab may have in few rows have no term; such levels are other ones.
    Where gaps have no term, a lab with many refuses the column.
    """
    hides_gaps = any(part.hides_gaps for part in parts)
    n_known = [int(part.counts.sum()) for part in parts]
    if not any(n_known):
        return []

    all_sizes = zip(n_known, sizes, strict=True)
    if hides_gaps and any(n_rows - n > MOST_MISSING * n_rows for n, n_rows in all_sizes):
        return []
    if parts[0].are_numbers:
        if any(part.hides_levels for part in parts):
            return []
        return [replace(part, missing=part.missing * (not hides_gaps)) for part in parts]

    shown = set().union(*(part.values for part in parts)) - {OTHER}
    common = {level for level in shown if not any(part.may_have(level) for part in parts)}
    if not common:
        return []

    summable = []
    for part in parts:
        kept, rest = dict[Label, int](), 0
        for level, count in zip(part.values, part.counts.tolist(), strict=True):
            if level in common:
                kept[level] = count
            else:
                rest += count
        if rest:
            kept[OTHER] = rest
        counts = np.array(list(kept.values()), dtype=np.int64)
        missing = part.missing * (not hides_gaps)
        summable.append(replace(part, values=tuple(kept), counts=counts, missing=missing))
    return summable


def _without_hidden(encoding: Encoding, columns: Sequence[Sequence[ColumnCounts]]) -> Encoding:
    """No term of other levels where some lab has too few of them: these are the reference then."""
    hidden = {parts[0].name for parts in columns if any(part.hides_levels for part in parts)}
    kept = []
    for column in encoding.columns:
        if isinstance(column, LevelColumn) and column.name in hidden:
            levels = tuple(level for level in column.levels if level != OTHER)
            column = replace(column, levels=levels)
        if column.terms:
            kept.append(column)
    return replace(encoding, columns=tuple(kept))


def _drawn(parts: Sequence[ColumnCounts], size: int) -> Any:
    """A column of so many rows that has the counts of all labs, in an order of its own."""
    values: list[Any] = []
    counts: list[int] = []
    missing = np.nan if parts[0].are_numbers else None
    for part in parts:
        values += [*part.values, missing]
        counts += [*part.counts.tolist(), part.missing]

    # a row in the middle of each of so many equal parts
    ends = np.cumsum(counts)
    places = np.searchsorted(ends, (np.arange(size) + 0.5) * ends[-1] / size, side="right")

    # columns in one order would look dependent
    order = Coins(f"columns/{parts[0].name}").row_order("draft", size)
    dtype = np.float64 if parts[0].are_numbers else object
    return np.array(values, dtype=dtype)[places][order]


@dataclass(frozen=True, kw_only=True)
class Founded(LabsTogether, Spoken):
    """What labs publish together, and who differs or is too similar to be different rows.

    Attributes
    ----------
    study : GlmStudy
        To publish.
    model : GlmModel
        That of all labs together.
    labs : sequence of Participant
        What each lab adds.
    copies : sequence of pairs of str
        Labs whose sums are too similar for different rows.
    fits : CentreFits
        The numbers that each lab alone would have.
    heterogeneity : array
        Cochran's Q of each coded number, with one degree of freedom less than labs.
    n_unseen : int
        Labs that sent shares: then ``labs`` has one entry for all of them.

    See Also
    --------
    combine : makes one, with ``publish``.

    Notes
    -----
    The labs fit a draft as a coalition. One more round shows how much single rows, and labs,
    move the fit; cells and sketch follow as for an original that has all rows.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> labs = {}
    >>> for name in ("Bern", "Lund", "Oslo"):
    ...     age, dose, luck = rng.normal(size=(3, 2000))
    ...     labs[name] = {"age": age, "dose": dose, "died": (age - dose + 2 * luck > 1) * 1}
    >>> seen = [lab_columns(open_table(rows, target="died"), lab=n) for n, rows in labs.items()]
    >>> draft = draft_study(*seen)
    >>> found = draft.begin()
    >>> while not hasattr(found, "model"):
    ...     sums = [rl.lab_sums(draft, rows, found, lab=n) for n, rows in labs.items()]
    ...     found = rl.combine(draft, *sums, state=found, publish=True)
    >>> found.study.n_original, found.copies
    (6000, ())
    >>> found.study.commits_to(found.model.fingerprint)
    True
    """

    study: GlmStudy
    model: GlmModel

    def facts(self) -> Facts:
        """In words."""
        study = self.study
        share = percent(1 - study.disagreement(study.n_replication, new_centre=True))
        like = "is typical" if self.n_unseen else "these labs do"
        return Facts(
            f"{self.n_labs} labs publish one study: a new centre with {study.n_replication:,} rows "
            f"that differs as {like} gets exactly this model in {share} of cases (estimated).",
            [
                *study.problems,
                *self.remarks,
                Row("rows of all labs", study.n_original),
                Row("coefficients", study.design.n_numbers, note=bits_each(study.design.bits)),
                Row("fingerprint", self.model.fingerprint),
            ],
            details=[self.table()],
            figures=study.facts().figures,
        )


def founded(
    draft: GlmStudy,
    fitted: PooledFit,
    spread: Influence,
    together: LabsTogether,
    replication_rows: int | None,
) -> Founded:
    """The study of a coalition, from its fit and from what single rows do to it.

    Labs that differ more than rows explain show how centres differ: new ones will, too.
    """
    coordinates, counts, n_rows = draft.design.coordinates, fitted.counts, fitted.counts.rows
    numbers, fits = coordinates.of_theta(fitted.theta), together.fits
    between, n_there = centres.assumed(coordinates), n_rows // together.n_labs
    if len(fits.names) > 1:  # a new centre is like one of the labs, not like all together
        between = centres.learned(fits, spread.variance, coordinates, numbers)
        n_there = int(median_low(fits.n_rows.tolist()))

    # cells, codes and sketch, as for an original with all rows
    total_spread = glm.NumberSpread(spread, between)
    rho = float(draft.max_disagreement)
    promise = GlmPromise(rho, _BITS, n_rows, replication_rows or n_there)
    widths = glm.widths_of(total_spread, promise)
    bare = replace(draft.design, widths=widths, bits=_BITS, sketch=None)
    model = GlmModel.of_original(bare, numbers)

    # why the study must not be published
    shares = Summary.from_totals(n_rows, counts.weight, counts.totals).shares
    _, problems = without_model(bare.loss, shares, promise, fitted.theta)
    excess = centres.times_typical(between, coordinates)
    unlike = [one for one in together.labs if one.is_unlike]
    if excess > _MOST_EXCESS and unlike:
        problems.append(
            f"Labs differ {excess:.0f} times as much as centres typically do, because of "
            f"{_named(unlike)}. Ask them, or begin anew without them."
        )

    study = GlmStudy.of(model.design, promise, total_spread, draft.profile, problems)
    return Founded(study=study.committed_to(model), model=model, **vars(together))


def _named(unlike: Sequence[Participant]) -> str:
    """The labs that differ most, each with what it differs most in."""
    ranked = sorted(unlike, key=lambda one: (one.p_centre, one.p))
    return ", ".join(f"{one.lab!r} ({one.largest})" for one in ranked[:3])
