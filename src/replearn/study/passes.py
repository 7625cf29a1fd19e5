"""Passes over rows wherever they are: batches in, whole numbers out, and what follows from them.

A fit is a row of passes. A `State` says what a pass is asked for; `add_up` makes its sums on any
part of the rows; sums of parts add up with ``+``; `advance` gives the next state, or the fit. One
machine, a cluster and labs that write letters do the same steps, so they get the same bits.
"""

import copy
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from operator import add
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np

from replearn.documents import Document, Integers, Length, Part, Range, Sha256, Text, Unfit
from replearn.errors import ReplearnError
from replearn.exact import algebra
from replearn.glm import (
    GlmDesign,
    GlmModel,
    Hazard,
    Influence,
    LastIterate,
    NewtonState,
    Summary,
    influence_of,
    mean_information,
    newton,
    totals_of,
)
from replearn.rows import (
    EVERY_ROW,
    MOST_TRIED,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    ExactSums,
    WholeNumbers,
    integers,
    joined,
    on_grid,
    row_marks,
    threshold_for,
)
from replearn.study.encoder import RowEncoder, refuse_weightless
from replearn.tables import (
    Batch,
    CsvOptions,
    EncodingCounts,
    Finding,
    Table,
    compare_profiles,
    open_table,
    rows_at_risk,
)
from replearn.types import Matrix
from replearn.words import Facts, Row, Spoken

if TYPE_CHECKING:
    from replearn.study.study import GlmStudy

#: Rows of all labs, and sums over them, stay below these.
MAX_POOLED_ROWS, MAX_SUM = 1 << 50, 1 << 100
#: A Newton step from an opened model may promise so many nats a row; beyond, one is not enough.
LARGEST_GAIN = 0.05

#: With two labs, totals less one's own sums are the sums of the other.
LEAST_LABS = 3
#: Sums of fewer rows may tell what stands in single ones.
LEAST_SUMMED = 100
#: Squares of what single rows do to coded numbers have units of 2^-30.
SPREAD_BITS = 30

_EXPONENTS = 1100  # float64 has none beyond
_KEPT = 1 << 8  # numbers of a column that travel from each part, to look at units
#: Rows that are encoded at once: their columns stay below the size from which malloc, as Dask sets
#: it, returns memory to the system each time.
_ENCODED_ROWS = 1 << 13

#: Parts of files: rows of all labs, sums over them, those of classes, and names of labs.
RowCount = Annotated[int, Range(0, MAX_POOLED_ROWS)]
BigSum = Annotated[int, Range(0, MAX_SUM)]
Totals = Annotated[WholeNumbers, Integers(1, -MAX_SUM, MAX_SUM, 100)]
LabName = Annotated[str, Text(200)]

Asked = Literal["scale", "counts", "one step", "a step", "spread"]


@dataclass(frozen=True)
class Sums(ExactSums):
    """Exact sums, with what was seen where rows were counted: levels, and numbers to look at."""

    seen: EncodingCounts | None = None

    def __add__(self, other: ExactSums) -> "Sums":
        total = super().__add__(other)
        seen, more = copy.deepcopy(self.seen), getattr(other, "seen", None)
        if seen is not None and more is not None:
            seen.add(more)
        return Sums(total.of, total.values, seen or more)


@dataclass(frozen=True)
class Encoded:
    """Encoded rows that are kept where they are, two bytes a number, and what was seen in them."""

    block: Block
    seen: EncodingCounts


@dataclass(frozen=True)
class Counts(Part):
    """Rows, their weight, and the weight of each class (or the weighted targets).

    Weights are in units of 2^-16.
    """

    rows: RowCount
    weight: BigSum
    totals: Totals

    @classmethod
    def of(cls, sums: ExactSums) -> "Counts":
        """Those of a pass."""
        return cls(sums.count("rows"), sums.count("weight"), sums.values["totals"])


@dataclass(frozen=True)
class Member(Part):
    """A lab that takes part, and what it counted in the first round."""

    lab: LabName
    counts: Counts


@dataclass(frozen=True)
class State(Spoken, Document):
    """What the next pass over the rows is asked for.

    Attributes
    ----------
    study : SHA-256
        The study that is fitted.
    scale : int or None
        No weight of a row exceeds two to this power. None: the pass has to find it.
    counts : Counts or None
        Of all rows. None: the pass counts.
    newton : NewtonState or None
        The current point. None: the pass only counts.
    members : tuple of Member
        The labs of a coalition, and what each counted.
    then : "spread" or None
        The fit is done; the pass shows how much single rows move it.

    See Also
    --------
    combine : makes one.
    lab_sums : answers it.

    Notes
    -----
    A fit is a chain of states: counts, then one Newton step for each round. All labs answer the
    same state, so their sums add up.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> state = first.study_.begin()
    >>> state.asks
    'counts'
    >>> state.study == first.study_.fingerprint
    True
    """

    FORMAT = "replearn/state"

    study: Sha256
    # no weight of a row exceeds two to this power. None: the pass has to find it.
    scale: Annotated[int, Range(-_EXPONENTS, _EXPONENTS)] | None = None
    counts: Counts | None = None  # of all rows. None: the pass counts.
    # None: the pass only counts. With it and without counts, one step is taken and no more.
    newton: NewtonState | None = None
    members: Annotated[tuple[Member, ...], Length(0, 10_000)] = ()  # the labs of a coalition
    # the fit is done; the pass shows how much single rows move it
    then: Literal["spread"] | None = None

    def check(self) -> None:
        """Each part needs the one before."""
        if self.then and (self.counts is None or self.newton is None or not self.newton.behind):
            raise Unfit("then must be absent until the fit is done")
        if self.scale is None and (self.counts is not None or self.newton is not None):
            raise Unfit("scale must be known before rows are counted")
        if self.counts is not None and self.newton is None:
            raise Unfit("newton must be there once rows are counted")

    @property
    def asks(self) -> Asked:
        """What the pass is for."""
        if self.scale is None:
            return "scale"
        if self.newton is None:
            return "counts"
        if self.counts is None:
            return "one step"
        return self.then or "a step"

    @property
    def sample_threshold(self) -> int:
        """Rows whose mark is below it make the matrix of the pass."""
        if self.newton is None:
            return 0
        return self.newton.sample_threshold

    def pooled(self) -> "State":
        """The same for labs, in few rounds."""
        assert self.newton is not None
        return replace(self, newton=self.newton.pooled())

    def with_all_rows(self) -> "State":
        """The same, where each step takes all rows in place of a share of them."""
        assert self.newton is not None
        return replace(self, newton=replace(self.newton, sample_threshold=EVERY_ROW))

    def facts(self) -> Facts:
        """What is asked for, in words."""
        command = "replearn sums STUDY TABLE --state FILE --out LAB.sums.json"
        items: list[Any] = [f"Each lab runs: {command}"]
        if self.members:
            items.append(Row("labs so far", len(self.members)))
        if self.counts:
            items.append(Row("rows", self.counts.rows))
        items.append(Row("study", self.study))
        return Facts(f"A round of a joint fit: labs add up their rows ({self.asks}).", items)


@dataclass(frozen=True)
class PooledFit:
    """The end of all passes; ``theta`` has units of 2^-26, ``behind`` is the last point before."""

    model: GlmModel
    theta: Matrix
    counts: Counts
    behind: LastIterate


def spread_state(state: State, theta: Matrix, counts: Counts, behind: LastIterate) -> State:
    """What one more pass is asked for after a fit: how much single rows move it."""
    return replace(state, counts=counts, newton=NewtonState(theta, 0, behind), then="spread")


def begin(design: GlmDesign, study: str, opened: GlmModel | None = None) -> State:
    """The first state of a study; from an opened model a single Newton step is the fit."""
    if design.weights is not None:
        if opened is not None:
            raise ReplearnError(
                "one round must do without weights of rows, but the study has the column "
                f"{design.weights!r}. Take several rounds: leave out the opened model."
            )
        return State(study)

    # without weights of rows the scale is known: that of the largest class
    largest = max(map(float, design.class_weight or ("0.5",)))
    scale = math.frexp(largest)[1]  # without weights of classes 0: rows count 1
    if opened is None:
        return State(study, scale)

    if opened.design != design:
        raise ReplearnError(
            "the opened model must be one of the study, got a different one. Ask the original for "
            "its model file."
        )
    theta = on_grid(design.decode(opened.codes), THETA_BITS)
    return State(study, scale, newton=NewtonState(theta, EVERY_ROW).pooled())


def add_up(design: GlmDesign, state: State, batches: Iterable[Any]) -> Sums:
    """What a pass gives on some of the rows; the sums of all parts add up.

    Batches are `Encoded`, Arrow record batches, dataframes, or other sources of a table with the
    columns that the design names. There may be none.
    """
    if state.scale is None:
        return Sums(state.fingerprint, _exponents(design, batches))

    # the pass that counts rows looks at their cells, too
    seen = None
    if state.asks in ("counts", "one step"):
        seen = EncodingCounts(design.encoding)
    blocks = chain([_no_rows(design)], _blocks(design, state.scale, batches, seen))
    total = reduce(add, (_of_block(design, state, block) for block in blocks))

    cells = np.zeros((4, len(design.encoding.columns)), dtype=np.int64)
    if seen is not None:
        cells = seen.counts
        seen.thin(_KEPT)
    return Sums(state.fingerprint, {**total.values, "cells": integers(cells)}, seen)


def encode(design: GlmDesign, scale: int | None, batches: Iterable[Any]) -> Encoded:
    """Encoded rows, for engines that keep them: `add_up` takes them in place of batches."""
    assert scale is not None
    seen = EncodingCounts(design.encoding)
    blocks = list(_blocks(design, scale, batches, seen, _ENCODED_ROWS))
    seen.thin(_KEPT)
    return Encoded(joined(blocks or [_no_rows(design)]), seen)


def _no_rows(design: GlmDesign) -> Block:
    return Block(np.zeros((0, RowEncoder.of(design).n_terms), dtype=np.int16), np.zeros(0))


def _blocks(
    design: GlmDesign, scale: int, batches: Iterable[Any], seen: EncodingCounts | None, *most: int
) -> Iterator[Block]:
    encoder = RowEncoder.of(design)
    for source in batches:
        if isinstance(source, Encoded):
            yield source.block
            if seen is not None:
                seen.add(source.seen)
        else:
            for batch in _batches(design, source, *most):
                yield encoder.block(batch, 2.0**scale, seen)


def _batches(design: GlmDesign, source: Any, *most: int) -> Iterator[Batch]:
    if isinstance(source, ReplearnError):  # what a worker found in place of rows
        raise source
    if not isinstance(source, Table):
        if hasattr(source, "__len__") and not isinstance(source, str) and not len(source):
            return  # a partition without rows
        source = table_of(design, source)
    yield from source.batches(*most)


def table_of(
    design: GlmDesign, source: Any, csv: CsvOptions | None = None, target: str | None = None
) -> Table:
    """The columns of a study in a file, a dataframe or Arrow data; of survival rows at risk."""
    loss, names = design.loss, [column.name for column in design.encoding.own_columns]
    if isinstance(loss, Hazard):
        table = open_table(source, target=loss.time, offset=loss.event, columns=names, csv=csv)
        return rows_at_risk(table, loss.cuts, loss.event)
    return open_table(
        source,
        target=target or design.target,
        columns=names,
        weights=design.weights,
        offset=design.offset,
        csv=csv,
    )


def _exponents(design: GlmDesign, batches: Iterable[Any]) -> dict[str, WholeNumbers]:
    """How many rows have weights, and the power of two above the largest: it sets the scale."""
    encoder = RowEncoder.of(design)
    largest, n_rows, n_weighted = 0.0, 0, 0
    for source in batches:
        for batch in _batches(design, source):
            masses = encoder.masses(batch, encoder.targets(batch))
            assert masses is not None
            largest = max(largest, float(masses.max(initial=0.0)))
            n_rows += batch.n_rows
            n_weighted += int(np.count_nonzero(masses))

    # the largest alone is sent: weights of single rows stay here
    counts = np.zeros(2 * _EXPONENTS + 1, dtype=np.int64)
    if n_weighted:
        counts[math.frexp(largest)[1] + _EXPONENTS] = n_weighted
    return {"rows": integers([n_rows]), "exponents": integers(counts)}


def _of_block(design: GlmDesign, state: State, block: Block) -> ExactSums:
    weight, totals = totals_of(block, design.loss)
    values = {"rows": integers([block.n_rows]), "weight": integers([weight]), "totals": totals}
    if state.newton is not None:
        values |= state.newton.sums([block], design.loss).values
    if state.then:
        values |= _spread(design, state, block)
    return ExactSums(state.fingerprint, values)


def _spread(design: GlmDesign, state: State, block: Block) -> dict[str, WholeNumbers]:
    """Squares, and squares of squares, of what single rows do to each coded number."""
    asked, counts = state.newton, state.counts
    assert asked is not None
    assert asked.behind is not None
    assert counts is not None

    # of many rows a sample is enough; marks of rows choose it, so that parts agree on it
    if counts.rows > 2 * MOST_TRIED:
        sample_threshold = threshold_for(2 * MOST_TRIED, counts.rows)
        block = block.part(row_marks(block, 3, apart=False) < sample_threshold)

    squares = fourth = np.zeros(asked.theta.size)
    if block.n_rows:
        influence = influence_of(
            [block],
            design.loss,
            asked.theta,
            mean_information(asked.behind.sums, design.loss, float(design.ridge)),
            design.coordinates.factors(),
            counts.rows,
            counts.weight * 2.0**-WEIGHT_BITS,
        )
        squares = influence.variance * block.n_rows
        fourth = squares * squares / (influence.effective * block.n_rows / counts.rows)

    # whole numbers, which add up exactly in any order
    units = np.array([squares, fourth]) * 2.0**SPREAD_BITS
    spread = np.array([[int(unit) for unit in part] for part in units], dtype=object)
    return {"sampled": integers([block.n_rows]), "spread": spread}


def spread_of(state: State, sums: ExactSums) -> Influence:
    """How much single rows move the fit, from the pass that was asked for it."""
    assert state.counts is not None
    squares, fourth = sums.reals("spread") * 2.0**-SPREAD_BITS
    tried, n_rows = sums.count("sampled"), state.counts.rows
    variance = np.maximum(squares / tried, 1e-30)
    effective = squares * squares / np.maximum(fourth, 1e-30) * (n_rows / tried)
    return Influence(variance, np.zeros_like(effective), effective, effective, n_rows)


def advance(design: GlmDesign, state: State, sums: ExactSums) -> State | PooledFit:
    """What follows from the sums of all rows: the next state, or the fit.

    Refuses sums of a different state, and rows that are coded differently or have no model.
    """
    if sums.of != state.fingerprint:
        raise ReplearnError(
            "sums must be of this round, got those of a different one. Make them with this state."
        )
    if state.scale is None:
        return replace(state, scale=_scale_of(sums))

    loss, counts = design.loss, Counts.of(sums)
    if state.asks != "a step":
        refuse_other_codes(design, sums)

    # rows were counted: the fit begins
    if state.newton is None:
        summary = Summary.from_totals(counts.rows, counts.weight, counts.totals).check(loss)
        first = newton.start(loss, summary, RowEncoder.of(design).n_terms + 1)
        return replace(state, counts=counts, newton=first)

    # an opened model: one step is all
    if state.counts is None:
        theta = _one_step(design, state.newton, sums)
        return _fitted(design, theta, counts, state.newton, sums)

    if counts != state.counts:
        raise ReplearnError(
            f"all passes must be over the same rows, got {state.counts.rows:,} rows and then "
            f"{counts.rows:,}, or other targets. Use rows that do not change between passes."
        )
    if state.then:
        return _fitted(design, state.newton.theta, counts, state.newton, sums)

    reached = newton.advance(state.newton, sums, loss, float(design.ridge))
    if isinstance(reached, NewtonState):
        return replace(state, newton=reached)
    return _fitted(design, reached, counts, state.newton, sums)


def _scale_of(sums: ExactSums) -> int:
    """The power of two above the largest weight of all parts."""
    places = np.flatnonzero(sums.values["exponents"])
    refuse_weightless(places.size > 0)
    return int(places[-1]) - _EXPONENTS


def _fitted(
    design: GlmDesign, theta: Matrix, counts: Counts, asked: NewtonState, sums: ExactSums
) -> PooledFit:
    return PooledFit(GlmModel(design, design.codes(theta)), theta, counts, behind_of(asked, sums))


def behind_of(asked: NewtonState, sums: ExactSums) -> LastIterate:
    """The point of a pass, with its information or, if none was asked for, the last one."""
    theta, gradient = asked.theta, sums.values["gradient"]
    if asked.behind is not None and not asked.sample_threshold:
        return replace(asked.behind, theta=theta, gradient=gradient, direction=None)
    return LastIterate.at(theta, sums, asked.sample_threshold)


def _one_step(design: GlmDesign, state: NewtonState, sums: ExactSums) -> Matrix:
    """The last step from an opened model; refused where it would not be the last."""
    behind = behind_of(state, sums)
    direction = newton.direction_of(behind, design.loss, float(design.ridge))

    gain = -algebra.dot(direction.gradient, direction.step) / 2
    if not gain < LARGEST_GAIN:
        raise ReplearnError(
            f"one round must begin near its end, but these rows would gain {gain:.2g} nats each "
            f"(at most {LARGEST_GAIN}): they differ from the opened model. Take several rounds."
        )
    return state.theta + on_grid(direction.step, THETA_BITS)


def findings_of(study: "GlmStudy", sums: Sums) -> list[Finding]:
    """What looks different in the rows of a pass that counted: units, levels, labels."""
    if sums.seen is None:
        return []
    design = study.design

    # totals count rows of classes where rows weigh the same
    labels = None
    if not (design.weights or design.class_weight or design.classes is None):
        labels = [int(total) >> WEIGHT_BITS for total in sums.values["totals"]]
    return compare_profiles(design.encoding, study.profile, sums.seen, labels, study.planned_rows)


def refuse_other_codes(design: GlmDesign, sums: ExactSums) -> None:
    """Stop where columns are coded differently from the study."""
    seen = EncodingCounts(design.encoding)
    seen.n_rows = sums.count("rows")
    seen.counts += sums.values["cells"].astype(np.int64)
    seen.refuse()
