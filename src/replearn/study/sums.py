"""What a lab of a coalition sends in a round: exact sums of its rows, and no row.

Sums of few rows are refused here, before they leave. What no rows can give is refused where it
arrives: `replearn.study.plausibility`.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from replearn.documents import Document, Integers, Sha256, Unfit
from replearn.errors import ReplearnError
from replearn.glm import MOST_STEERED, NewtonState
from replearn.rows import EVERY_ROW, WEIGHT_BITS, ExactSums, WholeNumbers, integers
from replearn.study.agreement import spread_findings
from replearn.study.disclosure import refuse_few_rows, refuse_heavy_rows
from replearn.study.passes import (
    LEAST_LABS,
    LEAST_SUMMED,
    MAX_POOLED_ROWS,
    MAX_SUM,
    BigSum,
    Counts,
    LabName,
    RowCount,
    State,
    Sums,
    Totals,
    behind_of,
    findings_of,
    refuse_other_codes,
    spread_of,
    spread_state,
    table_of,
)
from replearn.study.study import GlmStudy, given_glm_study
from replearn.tables import LEAST_COUNT, Finding, Table
from replearn.types import Codes
from replearn.words import Facts, Row, Spoken

_Sums = Annotated[WholeNumbers, Integers(2, -MAX_SUM, MAX_SUM, 1 << 24)]
#: Sums that are one number, and those that are arrays.
_COUNTED = ("rows", "weight", "sampled")
_ARRAYS = ("totals", "cells", "gradient", "information", "exponents", "spread")


@dataclass(frozen=True)
class LabSums(Spoken, Document):
    """What a lab sends in one round: whole numbers, and nothing else about its rows.

    Attributes
    ----------
    study, state : SHA-256
        What the sums were made with.
    lab : str
        Its name.
    weight, totals, cells, sampled, gradient, information, exponents, spread : int or array
        What the state asked for; the page on the file format explains each.
    findings : tuple of Finding
        Columns that look different here: for the lab itself, no part of the file.
    rows : int
        Rows of the lab.
    n_shown : int
        Rows that share two terms with few others, so that whoever sees the file can work them
        out: for the lab itself, no part of the file.

    See Also
    --------
    lab_sums : makes one.
    combine : adds them up.

    Notes
    -----
    Sums of whole numbers add up in any order, so the model of many labs is that of one table,
    to the bit. A lab sends no sum in which a level, a class or a pair of both has 1 to 9 rows.

    Examples
    --------
    >>> import replearn as rl
    >>> labs = [rl.datasets.load_readmission(name, 6000) for name in ("Ashford", "Birchwood")]
    >>> y = labs[0].pop("readmitted")
    >>> study = rl.ReplicableLogisticClassifier().fit(labs[0], y).study_
    >>> sums = rl.lab_sums(study, labs[1], lab="Birchwood")
    >>> sums.lab, sums.rows
    ('Birchwood', 6000)
    >>> sums
    <LabSums: Sums over 6,000 rows of 'Birchwood': ... integers, no individual data.>
    """

    FORMAT = "replearn/sums"

    study: Sha256
    state: Sha256
    lab: LabName
    rows: RowCount
    weight: BigSum | None = None
    sampled: BigSum | None = None
    totals: Totals | None = None
    cells: Annotated[Codes, Integers(2, 0, MAX_POOLED_ROWS)] | None = None
    gradient: _Sums | None = None
    information: _Sums | None = None
    exponents: Annotated[Codes, Integers(1, 0, MAX_POOLED_ROWS, 1 << 12)] | None = None
    spread: _Sums | None = None
    findings: tuple[Finding, ...] = field(default=(), compare=False, repr=False)
    n_shown: int = field(default=0, compare=False, repr=False)

    def check(self) -> None:
        """Information is that of the gradient's columns."""
        if self.information is not None and len(self.information):
            n_columns = 0 if self.gradient is None else self.gradient.shape[1]
            if self.information.shape[1] != n_columns * (n_columns + 1) // 2:
                raise Unfit("information must be of the columns of the gradient")

    @classmethod
    def of(cls, study: GlmStudy, lab: str, sums: ExactSums) -> "LabSums":
        """From what a pass gave."""
        fields: dict[str, Any] = dict(sums.values)
        fields |= {name: sums.count(name) for name in _COUNTED if name in fields}
        return cls(study.fingerprint, sums.of, lab, **fields)

    @cached_property
    def sums(self) -> ExactSums:
        """As a pass gives them."""
        given = {name: getattr(self, name) for name in (*_COUNTED, *_ARRAYS)}
        values = {
            name: integers(np.atleast_1d(value))
            for name, value in given.items()
            if value is not None
        }
        return ExactSums(self.state, values)

    def facts(self) -> Facts:
        """What is sent, in words."""
        size = sum(np.size(value) for value in self.sums.values.values())
        is_safe = "no individual data"
        shown: list[str] = []
        if self.n_shown:
            is_safe = "but some show single rows"
            shown = [
                f"{self.n_shown:,} rows share two terms with few others, and can be worked out "
                "from the file: --shares hides them in totals."
            ]
        return Facts(
            f"Sums over {self.rows:,} rows of {self.lab!r}: {size:,} integers, {is_safe}.",
            [
                *shown,
                "Send the file to the lab that combines: it sees these sums.",
                "With three or more labs the others see totals only; two labs get no totals.",
                *(f"{found.column or 'The target'}: {found.sentence}" for found in self.findings),
            ],
            details=[Row("study", self.study), Row("state", self.state)],
        )


def lab_sums(
    study: Any,
    table: Any,
    state: State | None = None,
    *,
    lab: str = "lab",
    least_count: int = LEAST_COUNT,
) -> LabSums:
    """Exact sums of a lab's rows, to send to a coalition.

    Parameters
    ----------
    study : path, Study or fitted estimator
        The study that all labs fit together.
    table : path, dataframe, Arrow data or Table
        With the columns and the target of the study.
    state : State, optional
        What `combine` gave after the last round; ``study.begin()`` in the first.
    lab : str, default="lab"
        Name of the lab, one for each.
    least_count : int, default=10
        Sums are refused in which a term, a class, or both together have fewer rows than this, but
        some: such sums show single patients.

    Returns
    -------
    sums : LabSums
        The same bytes for the same rows in any order.

    See Also
    --------
    combine : adds up the sums of all labs.

    Notes
    -----
    A file holds whole numbers that add up in any order, such as the gradient and the curvature at
    the state of the round [Wu12]. No file is made if a term or a class has 1 to 9 rows.

    References
    ----------
    .. [Wu12] Wu, Jiang, Kim and Ohno-Machado. Grid Binary LOgistic REgression (GLORE): building
       shared models without sharing data. JAMIA 19, 758-764, 2012.

    Examples
    --------
    >>> import replearn as rl
    >>> names = ("Ashford", "Birchwood", "Dunmore")
    >>> labs = [rl.datasets.load_readmission(name, 6000) for name in names]
    >>> first = labs[0].drop(columns="readmitted"), labs[0]["readmitted"]
    >>> study = rl.ReplicableLogisticClassifier().fit(*first).study_
    >>> rl.lab_sums(study, labs[1], lab="Birchwood").rows
    6000
    """
    study, state = at_state(study, state)
    design, asked = study.design, state.newton
    if design.n_numbers > MOST_STEERED:
        raise ReplearnError(
            f"labs must pool at most {MOST_STEERED} coefficients, got {design.n_numbers:,}: the "
            "fit of more takes too many rounds. Use fewer columns, or an engine."
        )
    refuse_two(len(state.members))
    source, sums = summed(study, table, state)
    _refuse_changed(state, sums, lab)

    # sums of few rows, or with a level or class that few have, never leave the lab
    refuse_small(state, sums)
    n_shown = refuse_few_rows(design, source, state.sample_threshold, least_count)
    if asked is not None:
        refuse_heavy_rows(design, source, asked, least_count)

    findings = findings_of(study, sums)
    if asked is not None and _is_near_end(state, asked):
        # what single rows do to the fit here, beside what the study states
        then = spread_state(state, asked.theta, Counts.of(sums), behind_of(asked, sums))
        spread = spread_of(then, study.sums([source], then))
        findings += spread_findings(study, np.sqrt(spread.variance), spread.n_rows)

    shown = LabSums.of(study, lab, _without_few_cells(sums, least_count))
    return replace(shown, findings=tuple(findings), n_shown=n_shown)


def at_state(given: Any, state: State | None) -> tuple[GlmStudy, State]:
    """The study that was given, and its state: that of the first round, unless given."""
    study = given_glm_study(given)
    if state is None:
        state = study.begin()
    study.check_state(state)
    return study, state


def summed(study: GlmStudy, table: Any, state: State) -> tuple[Table, Sums]:
    """A lab's table, for passes that look for what its sums would tell, and the sums."""
    source = table if isinstance(table, Table) else table_of(study.design, table)
    source = source.kept()
    sums = study.sums([source], state)
    if sums.seen is not None:
        refuse_other_codes(study.design, sums)
    return source, sums


def refuse_small(state: State, sums: ExactSums) -> None:
    """Refuse sums of few rows, and a matrix of a sample that has few."""
    if sums.count("rows") < LEAST_SUMMED:
        raise ReplearnError(
            f"sums must be of at least {LEAST_SUMMED} rows, got {sums.count('rows')}: those of few "
            "rows may tell what stands in single ones. Pool them with those of a different lab."
        )
    if not 0 < state.sample_threshold < EVERY_ROW:
        return

    n_sampled = sums.count("sampled") >> WEIGHT_BITS  # at least: no row weighs more than 1
    if n_sampled < LEAST_SUMMED:
        raise ReplearnError(
            f"the round asks for a matrix of about {n_sampled} of these rows, and sums must be "
            f"of at least {LEAST_SUMMED}. Ask whoever combines to begin from the opened model: "
            "then all rows count."
        )


def _is_near_end(state: State, asked: NewtonState) -> bool:
    """Whether the fit hardly moves any more: the last steps ask for no matrix."""
    if state.then:
        return False
    return not asked.sample_threshold or state.asks == "one step"


def _without_few_cells(sums: ExactSums, least_count: int) -> ExactSums:
    """Few cells that are missing, unknown or clipped are nobody's business, and count as none."""
    if "cells" not in sums.values:
        return sums
    cells = sums.values["cells"]
    shown = np.where(cells < least_count, 0, cells)
    return ExactSums(sums.of, {**sums.values, "cells": shown})


def _refuse_changed(state: State, sums: ExactSums, lab: str) -> None:
    """Refuse rows that have changed since a lab counted them: what was added would be seen."""
    for member in state.members:
        if member.lab == lab and member.counts != Counts.of(sums):
            raise ReplearnError(
                f"all rounds must be over the same rows, but {lab!r} had {member.counts.rows:,} in "
                f"the first and has {sums.count('rows'):,} now, or other targets: the difference "
                "would show single rows. Use the table of the first round."
            )


def refuse_two(n_labs: int) -> None:
    """Stop before two labs get totals."""
    if n_labs == LEAST_LABS - 1:
        raise ReplearnError(
            "totals must be of three labs or more, got 2: totals less one's own sums are those of "
            "the other lab. Take one round from the opened model, or ask a third lab."
        )
