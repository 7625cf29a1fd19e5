"""What a lab's sums would tell about single patients: sums of few rows, which must not leave.

Where a term (a level, a hat, an indicator, a product) is not zero in one row only, its line of the
information matrix *is* that row. What holds for a term holds for all that sums can be combined to:
the level without a term, the ends of a spline, a rare value of a number, cells of two columns with
products; and for each of them within a class. A study with a narrow spread clips all numbers but a
few, and at coefficients that were chosen for it all rows but one weigh nothing.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import GlmDesign, Loss, NewtonState
from replearn.rows import EVERY_ROW, MAX_ROW, ROW_BITS, Block, Rows, dense_terms, marks, pieces
from replearn.study.encoder import RowEncoder, TableRows, projected, read_rows
from replearn.tables import Encoding, NumberColumn, Table, spelled
from replearn.types import Array, Ints, Mask, Matrix

#: Up to so many different numbers of a column, a line and a square single out each of them.
FEW_VALUES = 3
#: Groups that are named in a refusal.
_NAMED = 5
#: Rows that a pair of terms may show, at most, as a share of all. Real tables have a few percent,
#: studies that are made to show rows have nearly all.
_MOST_SHOWN = 0.5
#: The sum of a term is of so many rows at least, as rows that weigh the same.
_LEAST_OF_TERM = 3.0
#: What is less than the whole numbers of a pass show.
_NOTHING = 2.0**-24
_JOIN = (
    "Join these rows with those of a different lab, ask for a study without such terms, or add up "
    "in secret shares (guide: Pool small centres)."
)
_ASK_MORE = "Ask more labs to take part, or ask for a study without such terms."


class Group(NamedTuple):
    """Rows whose sum can be had from the sums of a pass."""

    name: str
    holds: Callable[[Array], Mask]  # of terms, or of targets in one column


def refuse_few_rows(
    design: GlmDesign, table: Table, sample_threshold: int, least_count: int
) -> int:
    """Stop before sums leave in which a group of rows is there, but small.

    Groups of two terms are not refused, since nearly every table has some that are small. But
    their entry of the matrix tells the curvature of these rows, which few possible rows have.

    Parameters
    ----------
    design : GlmDesign
    table : Table
    sample_threshold : int
        Rows whose mark is below it make the information matrix; 2^32 takes all, 0 none.
    least_count : int
        Rows of each term and each class, and of both together, at least; none is fine, too.

    Returns
    -------
    n_shown : int
        Rows that share two groups with fewer rows than that.
    """
    rows = _uncombined(design, table)
    common = _frequencies(rows)
    groups, classes = _groups(design.encoding, common[:-1]), _classes(design, common)
    counts = _count(design, rows, groups, classes, sample_threshold)
    _refuse_few(groups, classes, counts, least_count, _JOIN)

    n_rows, n_shown = _shown_by_pairs(design, rows, groups, sample_threshold, least_count)
    if n_shown > _MOST_SHOWN * n_rows:
        raise ReplearnError(
            f"sums must show at most half of the rows by pairs of terms, but {n_shown:,} of "
            f"{n_rows:,} rows share two terms with fewer than {least_count}. Ask for a study with "
            "fewer levels and knots, or add up in secret shares (guide: Pool small centres)."
        )
    return n_shown


def groups_counted(design: GlmDesign) -> tuple[list[Group], list[Group]]:
    """Groups of rows, and classes, that are the same ones at all labs, whatever their rows."""
    none: list[Counter[float]] = [Counter() for _ in range(len(design.encoding.term_names) + 1)]
    groups, start = _groups(design.encoding, none[:-1]), 0
    for column in design.encoding.columns:
        # a narrow spread clips what is away from the usual number, so that it has one number, too
        if isinstance(column, NumberColumn):
            groups.append(_not_zero(f"{column.name}, not at the centre", start))
        start += len(column.terms)
    return groups, _classes(design, none)


def count_groups(design: GlmDesign, table: Table, sample_threshold: int) -> Ints:
    """Rows of each of them, by class: of all rows, and of those that make the matrix."""
    return _count(design, _uncombined(design, table), *groups_counted(design), sample_threshold)


def refuse_few_together(
    design: GlmDesign, counts: Any, least_count: int, remedy: str = _ASK_MORE
) -> None:
    """Stop if the rows of all labs together, as `count_groups` counts, are few of some group."""
    _refuse_few(*groups_counted(design), counts, least_count, remedy)


def _uncombined(design: GlmDesign, table: Table) -> Rows:
    """Encoded numbers before directions combine them: who sees many directions sees them."""
    return read_rows(TableRows(table, replace(RowEncoder.of(design), directions=None)))


def _count(
    design: GlmDesign, rows: Rows, groups: list[Group], classes: list[Group], sample_threshold: int
) -> Ints:
    total, sampled = counts = np.zeros((2, len(groups), len(classes)), dtype=np.int64)
    intervals = [i for i, group in enumerate(groups) if group.name in _interval_names(design)]
    at_risk = np.zeros((len(groups), len(intervals)), dtype=np.int64)
    for block in _small(rows):
        terms = dense_terms(block.terms)
        inside = np.array([group.holds(terms) for group in groups])
        of_class = np.array([group.holds(block.targets[:, None]) for group in classes])
        total += inside.astype(np.int64) @ of_class.T
        at_risk += inside.astype(np.int64) @ inside[intervals].T

        # the matrix is of a sample, which must not be small either
        if 0 < sample_threshold < EVERY_ROW:
            seen = terms if design.directions is None else projected(terms, design.directions)
            chosen = marks(seen) < sample_threshold
            sampled += inside[:, chosen].astype(np.int64) @ of_class[:, chosen].T

    # a person has many rows at risk, but one in each interval
    if intervals:
        total[:, 0] = at_risk.max(axis=1)
    return counts


def _interval_names(design: GlmDesign) -> set[str]:
    """Groups that are the intervals of a survival study."""
    column = design.encoding.intervals
    return set() if column is None else {f"{column.name} = {level}" for level in column.named}


def _shown_by_pairs(
    design: GlmDesign, rows: Rows, groups: list[Group], sample_threshold: int, least_count: int
) -> tuple[int, int]:
    """Rows of the matrix, and those of them that share two groups with few."""
    if not sample_threshold:
        return 0, 0
    together = np.zeros((len(groups), len(groups)), dtype=np.int64)
    for inside in _memberships(design, rows, groups, sample_threshold):
        together += (inside @ inside.T).astype(np.int64)

    few = ((together > 0) & (together < least_count)).astype(np.float32)
    n_shown = 0
    for inside in _memberships(design, rows, groups, sample_threshold):
        n_shown += int(((few @ inside) * inside).any(axis=0).sum())
    return int(together[0, 0]), n_shown  # the first group is of all rows


def _memberships(
    design: GlmDesign, rows: Rows, groups: list[Group], sample_threshold: int
) -> Iterator[Matrix]:
    """Which rows of the matrix are in which group: ones and zeros, whose products are exact."""
    for block in _small(rows):
        terms = dense_terms(block.terms)
        if sample_threshold < EVERY_ROW:
            seen = terms if design.directions is None else projected(terms, design.directions)
            terms = terms[marks(seen) < sample_threshold]
        yield np.array([group.holds(terms) for group in groups], dtype=np.float32)


def _refuse_few(
    groups: list[Group], classes: list[Group], counts: Any, least_count: int, remedy: str
) -> None:
    few = ((counts > 0) & (counts < least_count)).any(axis=0)
    if few.any():
        named = [_words(groups[i], classes[j]) for i, j in np.argwhere(few)[:_NAMED].tolist()]
        more = f" and {few.sum() - _NAMED} more" if few.sum() > _NAMED else ""
        raise ReplearnError(
            f"sums must be of at least {least_count} rows of each term and class, or of none: "
            f"those of fewer show single patients. Here are fewer of {', '.join(named)}{more}. "
            f"{remedy}"
        )


def refuse_heavy_rows(
    design: GlmDesign, table: Table, asked: NewtonState, least_count: int, fewest: float = 0.0
) -> None:
    """Stop before sums leave that hardly more than one row makes, at the coefficients asked for.

    Parameters
    ----------
    design : GlmDesign
    table : Table
    asked : NewtonState
        Of the fit: its coefficients, and the threshold of rows in the information matrix.
    least_count : int
        Rows of equal weight that a sum must be of; of single terms a few are enough.
    fewest : float
        Single terms are looked at if so many rows have them at any coefficients: fewer rows of a
        lab may have a term if nobody sees its sums.
    """
    # residuals, curvatures and terms: what rows add to each sum
    blocks = _small(read_rows(TableRows(table, RowEncoder.of(design))))
    sums = [_sizes_in_sums(block, design.loss, asked) for block in blocks]
    residuals, curvatures, terms, unweighted = (
        np.sum(parts, axis=0) for parts in zip(*sums, strict=True)
    )

    # where all is flat, the gradient of a round beside it shows the few rows that are not
    is_flat = (curvatures[0] <= _NOTHING).any()
    least = min(_least_effective(residuals), _least_effective(curvatures))
    is_looked_at = _effective(unweighted) >= fewest
    is_few = _least_effective(terms[:, :, is_looked_at]) < _LEAST_OF_TERM
    if is_flat or is_few or least < least_count:
        raise ReplearnError(
            f"sums must be of at least {least_count} rows that weigh about the same, but at these "
            "coefficients a few rows outweigh all others, and would be seen. Ask whoever combines "
            "how the coefficients were found, and take outliers and heavy weights out of the table."
        )


def _sizes_in_sums(block: Block, loss: Loss, asked: NewtonState) -> list[Matrix]:
    """What rows add to the sums of a Newton step: of each sum the sizes, and their squares."""
    eta = block.scores(asked.theta)
    residuals = np.abs(loss.residual(eta, block.targets)) * block.masses[:, None]

    # the matrix is of a sample; without one, curvatures tell how two gradients may differ
    chosen = block.marks < (asked.sample_threshold or EVERY_ROW)
    curvatures = np.abs(loss.curvature(eta[chosen])) * block.masses[chosen, None]
    rows = dense_terms(block.part(chosen).terms)
    terms = np.abs(rows.astype(np.float64)) * 2.0**-ROW_BITS

    pairs = [(sizes.sum(axis=0), (sizes**2).sum(axis=0)) for sizes in (residuals, curvatures)]
    pairs.append((curvatures.T @ terms, (curvatures**2).T @ terms**2))
    masses = block.masses[chosen]
    pairs.append((masses @ terms, masses**2 @ terms**2))
    return list(map(np.array, pairs))


def _least_effective(summed: Matrix) -> float:
    """Rows of equal weight of the sum that has the fewest; without those that hardly are there."""
    rows = _effective(summed)
    return float(rows[summed[0] > _NOTHING].min(initial=np.inf))


def _effective(summed: Matrix) -> Matrix:
    """Rows of equal weight that each sum is of, ``(sum |a|)^2 / sum a^2``."""
    sums, squares = summed
    effective: Matrix = sums**2 / np.maximum(squares, np.finfo(np.float64).tiny)
    return effective


def _words(group: Group, of_class: Group) -> str:
    names = [one.name for one in (group, of_class) if one.name != "all rows"]
    return repr(" and ".join(names))


def _small(rows: Rows) -> Iterator[Block]:
    for block in rows.blocks():
        yield from pieces(block, rows.n_terms)


def _frequencies(rows: Rows) -> list[Counter[float]]:
    """How often each number occurs, in each term and at last in the targets."""
    counters: list[Counter[float]] = [Counter() for _ in range(rows.n_terms + 1)]
    for block in _small(rows):
        columns = [*dense_terms(block.terms).T, block.targets]
        for counter, column in zip(counters, columns, strict=True):
            different, counts = np.unique(column, return_counts=True)
            counter.update(dict(zip(different.tolist(), counts.tolist(), strict=True)))
    return counters


def _classes(design: GlmDesign, common: list[Counter[float]]) -> list[Group]:
    """All rows, and classes by name; of numbers those that a sum can single out."""
    everybody = Group("all rows", lambda y: np.ones(len(y), dtype=bool))
    if design.classes is None:
        return [everybody, *_of_numbers(design.target, 0, common[-1])]
    texts = map(spelled, design.classes)
    return [everybody, *(_equal(f"{design.target} = {text}", 0, i) for i, text in enumerate(texts))]


def _equal(name: str, place: int, value: float) -> Group:
    return Group(name, lambda terms: terms[:, place] == value)


def _not_zero(name: str, place: int) -> Group:
    return Group(name, lambda terms: terms[:, place] != 0)


def singled_out(counts: Ints) -> list[Mask]:
    """Which of some different numbers sums show: each of few, or the usual one beside all others.

    ``counts`` are the rows of each.
    """
    if len(counts) <= FEW_VALUES:
        return list(np.eye(len(counts), dtype=np.bool_))
    if 2 * counts.max() <= counts.sum():
        return []
    is_usual = np.arange(len(counts)) == counts.argmax()
    return [is_usual, ~is_usual]


def _of_numbers(name: str, place: int, common: Counter[float]) -> list[Group]:
    """Each of few numbers; of many the rows beside one that most rows have."""
    order = sorted(common)
    if len(order) <= FEW_VALUES:
        return [_equal(f"{name}, number {i + 1}", place, x) for i, x in enumerate(order)]

    told = singled_out(np.array([common[x] for x in order]))
    if not told:
        return []
    usual = order[int(told[0].argmax())]
    beside = Group(f"{name}, not usual", lambda terms: terms[:, place] != usual)
    return [_equal(f"{name}, usual", place, usual), beside]


def _groups(encoding: Encoding, common: list[Counter[float]]) -> list[Group]:
    """All groups of rows that sums over these terms can single out."""
    groups = [Group("all rows", lambda terms: np.ones(len(terms), dtype=bool))]
    partitions: list[list[Group]] = []  # of each column, by what has products
    start = 0
    for column in encoding.columns:
        stop = start + len(column.terms)
        if isinstance(column, NumberColumn):
            partitions.append(_of_numbers(column.name, start, common[start]))
            groups += [*_not_clipped(column.name, start), *_of_spline(column, start)]
        else:
            names = [name for _, name in column.terms]
            levels = [_not_zero(name, start + i) for i, name in enumerate(names)]
            partitions.append([*levels, _rest(column.name, column.reference, start, stop)])
        groups += partitions[-1]
        start = stop

    # products: a number of many values has no groups of its own to combine
    for place, term in enumerate(encoding.terms[start:], start):
        if not all(partitions[column] for column in term.columns):
            groups.append(_not_zero(term.name, place))

    # and those with the levels that have no term
    for first, second in dict.fromkeys(term.columns for term in encoding.terms[start:]):
        groups += [_both(a, b) for a in partitions[first] for b in partitions[second]]
    return groups


def _rest(name: str, reference: str, start: int, stop: int) -> Group:
    return Group(
        f"{name} = {reference}", lambda terms: np.asarray(~terms[:, start:stop].any(axis=1))
    )


def _both(a: Group, b: Group) -> Group:
    return Group(f"{a.name} and {b.name}", lambda terms: a.holds(terms) & b.holds(terms))


def _not_clipped(name: str, place: int) -> list[Group]:
    """Numbers within the reach of the study, and those that are not at its centre, too.

    What is clipped has one of two large numbers, so that a sum tells what it is without them.
    """
    return [
        Group(f"{name}, not clipped", lambda terms: np.abs(terms[:, place]) < MAX_ROW),
        Group(
            f"{name}, neither clipped nor at the centre",
            lambda terms: np.asarray((np.abs(terms[:, place]) < MAX_ROW) & (terms[:, place] != 0)),
        ),
    ]


def _of_spline(column: NumberColumn, start: int) -> list[Group]:
    """Hats, both ends of the spline, and rows with or without a value."""
    groups = [_not_zero(name, start + i) for i, (_, name) in enumerate(column.terms) if i]

    if column.knots:
        # the outer knots, on the grid of encoded numbers
        z = (column.nodes[[1, -2]] - float(column.centre)) / float(column.spread)
        low, high = np.floor(z * (1 << ROW_BITS) + 0.5)

        below, above = f"{column.name} < {column.knots[0]}", f"{column.name} > {column.knots[-1]}"
        groups.append(Group(below, lambda terms: terms[:, start] < low))
        groups.append(Group(above, lambda terms: terms[:, start] > high))

    if column.indicator:
        last = start + len(column.terms) - 1
        groups.append(_equal(f"{column.name} not missing", last, 0))
    return groups
