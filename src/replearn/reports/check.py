"""What would go wrong with a lab's table, without fitting."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import Hazard
from replearn.study import (
    MOST_TOLD,
    GlmStudy,
    People,
    RowEncoder,
    agreement_rows,
    given_glm_study,
    table_of,
)
from replearn.tables import (
    EncodingCounts,
    Finding,
    LevelColumn,
    Table,
    class_numbers,
    compare_profiles,
    in_sentences,
    persons_seen,
    row_hashes,
)
from replearn.types import Array, Ints
from replearn.words import Facts, Figure, Row, Spoken, counted, forest, percent, round_numbers
from replearn.words import Table as FactTable

#: Different rows, at least, before it is odd that each occurs twice.
LEAST_REPEATED = 20


@dataclass(frozen=True)
class Check(Spoken):
    """What a table says to a study before anything is fitted. It quotes no cell of a row.

    Attributes
    ----------
    stops : tuple of str
        What would stop a fit.
    findings : tuple of Finding
        What looks different here: questions, no proofs.
    replication_rows : int
        Rows for which the study promises the model.
    disagreement, at_new_centre : float
        Estimated probability that so many rows give a different model.
    seen : EncodingCounts
        Counts per column.
    n_repeated : int
        Rows that occur before, in all columns of the study.
    outcome : tuple of str, float and float, or None
        For two classes: what the second is called, its share here, and at the original.
    local_constant : bool
        Whether the constant is each lab's own.
    people : People or None
        Persons and events of a survival study.
    n_rows : int
        Rows of the table.

    See Also
    --------
    check : makes one.

    Notes
    -----
    Nothing is fitted: columns are compared with the profile that the study states.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> found = rl.check(first.study_, rl.datasets.load_readmission("Birchwood", 1000))
    >>> found.ok, found.stops, found.n_rows
    (True, (), 1000)
    >>> found
    <Check: The table is ready: nothing would stop a replication.>
    """

    stops: tuple[str, ...]
    findings: tuple[Finding, ...]
    n_rows: int
    replication_rows: int
    disagreement: float
    at_new_centre: float
    seen: EncodingCounts
    n_repeated: int = 0
    outcome: tuple[str, float, float] | None = None
    local_constant: bool = False  # labs agree on slopes
    people: People | None = None  # of survival

    @property
    def ok(self) -> bool:
        """Whether a fit would go through."""
        return not self.stops

    def facts(self) -> Facts:
        """In words."""
        questions = in_sentences(self.findings)
        verdict = "The table is ready: nothing would stop a replication."
        if self.stops:
            verdict = f"{counted(len(self.stops), 'thing')} would stop a replication."
        elif questions:
            asked = counted(len(questions), "question")
            verdict = f"A replication would go through; {asked} to answer first."
        elif self.disagreement > 0.05:
            verdict = (
                f"The table is ready, but small for this study: a lab with {self._size()} "
                f"gets the original's model in {percent(max(1 - self.disagreement, 1e-5))} of the "
                "cases."
            )

        told = [*self.stops, *questions]
        rows = Row("rows here", self.n_rows, note=f"planned for {self.replication_rows:,}")
        items: list[Any] = [rows if self.people is None else self.people.row()]
        if not told and self.disagreement <= 0.05:
            items += agreement_rows(self.disagreement, self.at_new_centre, self._size())

        if self.outcome is not None:
            name, here, there = self.outcome
            items.append(
                Row(name, here, "%", note=f"{percent(there)} at the original", key="share")
            )
        if self.local_constant:
            items.append("The constant (base risk) will be your own: labs agree on slopes.")

        # what is not told beside the verdict stands under the details
        caption = "Cells that are missing, that have unknown levels, or that are no numbers."
        figure = Figure("Cells without a value, by column", self._picture, caption)
        more = told[MOST_TOLD:]
        details: list[Any] = [*more, Row("repeated rows", self.n_repeated), self._counts()]
        if more:
            items.append(f"{counted(len(more), 'more question')} under --details.")
        values = {"ok": self.ok}
        return Facts(verdict, items, details, [figure], values, told[:MOST_TOLD])

    def _size(self) -> str:
        return f"{self.n_rows:,} rows" if self.people is None else f"{self.people.here:,} persons"

    def _picture(self) -> str:
        rows = [(name, sum(shares[:3])) for name, *shares in self._counts().rows]
        marks = [(name, percent(x), x, 0.0, x) for name, x in rows]
        ticks = [(x, f"{x:.0%}") for x in round_numbers(0.0, max(x for _, x in rows))[1:]]
        return forest(marks, 0.0, "no such cells", ticks=ticks)

    def _counts(self) -> FactTable:
        # shares, so that tables of any size compare
        shares = (self.seen.counts / self.n_rows).T.tolist()
        names = self.seen.encoding.names
        return FactTable(
            "Cells of each column",
            ("column", "missing", "unknown", "no number", "beyond the range"),
            [(name, *cells) for name, cells in zip(names, shares, strict=True)],
            ("", "%", "%", "%", "%"),
        )


def check(study: Any, table: Any, show_values: bool = False) -> Check:
    """Read a lab's table as a replication would, and say what is odd.

    Parameters
    ----------
    study : path, Study or fitted estimator
        The study that this lab is about to replicate.
    table : path, dataframe, Arrow data or Table
        With the study's columns and its target.
    show_values : bool, default=False
        Quote some of the cells that the study does not know. They may be a person's.

    Returns
    -------
    check : Check
        ``print`` it; ``check.stops`` would stop a fit.

    See Also
    --------
    ReplicableLogisticClassifier : replicates a study.

    Notes
    -----
    Of the outcome only the share of each class is read, so a check gives nothing away about a fit.
    Units are compared by the quantiles that the study publishes. Conformance, completeness and
    plausibility of a table are asked about, in the words of [Kahn16].

    References
    ----------
    .. [Kahn16] Kahn and others. A harmonized data quality assessment terminology and framework for
       the secondary use of electronic health record data. eGEMs 4(1), 2016.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> study = rl.ReplicableLogisticClassifier().fit(table, y).study_
    >>> rl.check(study, rl.datasets.load_readmission("Birchwood", 2000)).stops
    ()
    """
    study = given_glm_study(study)
    design = study.design
    table = table if isinstance(table, Table) else table_of(design, table)
    seen, counts, n_events, wrong, hashes = _read(study, table, show_values)

    # 1 what would stop a fit
    troubles = seen.troubles(show_values)
    stops = [f"Column {name!r}: {what}{_levels(study, name)}." for name, what in troubles]
    if wrong:
        stops.append(f"{wrong[0].upper()}{wrong[1:]}")
    if counts.any() and (counts == 0).any():
        absent = percent(float(np.mean(counts == 0)))
        stops.append(
            f"{absent} of the classes have no row here, so nothing can be said about them."
        )

    # 2 what is odd beside the original's profile
    shown = counts.tolist() if counts.any() else None
    findings = compare_profiles(design.encoding, study.profile, seen, shown, study.planned_rows)
    _, repeats = np.unique(hashes, return_counts=True)
    if seen.n_rows >= 2 * LEAST_REPEATED and repeats.min() > 1:
        findings.append(Finding("", "every row occurs twice or more: was the file joined twice"))

    # 3 the share of the second of two classes, here and there
    outcome = None
    if counts.size == 2 and counts.any() and len(study.profile.target) == 2:
        name = f"{design.target} = {design.score_labels[0]}"
        outcome = (name, counts[1] / counts.sum(), float(study.profile.target[1]))
    named = {name for name, _ in troubles}
    return Check(
        tuple(stops),
        tuple(finding for finding in findings if finding.column not in named),
        seen.n_rows,
        study.n_replication,
        study.disagreement(seen.n_rows),
        study.disagreement(seen.n_rows, new_centre=True),
        seen,
        seen.n_rows - len(repeats),
        outcome,
        design.constant == "local",
        _people(study, seen, n_events),
    )


def _people(study: GlmStudy, seen: EncodingCounts, n_events: int) -> People | None:
    """Persons of a survival study."""
    if not isinstance(study.design.loss, Hazard):
        return None
    n_persons = persons_seen(study.design.encoding, seen)
    return People(n_persons, n_events, study.persons_of(study.n_replication))


def _read(
    study: GlmStudy, table: Table, show_values: bool
) -> tuple[EncodingCounts, Ints, int, str, Array]:
    """Counts of cells, classes and events, what is wrong with labels, and a hash of each row."""
    design = study.design
    encoder = RowEncoder.of(design)
    seen = EncodingCounts(design.encoding)
    counts = np.zeros(len(design.classes or ()), dtype=np.int64)
    n_events, wrong, hashes = 0, "", []

    for batch in table.batches():
        design.encoding.encode(batch, seen)
        hashes.append(row_hashes(batch, design.encoding.names, np.zeros(batch.n_rows, np.int64)))

        # all columns are checked, so a wrong label stops nothing yet
        try:
            if design.classes:
                assert batch.y is not None
                classes = class_numbers(batch.y, design.classes, show_values=show_values)
                counts += np.bincount(classes, minlength=counts.size)
            else:
                n_events += int(encoder.targets(batch).sum())
        except ReplearnError as problem:
            wrong = wrong or str(problem)
    return seen, counts, n_events, wrong, np.concatenate(hashes)


def _levels(study: GlmStudy, name: str) -> str:
    """Some levels that the study knows of a column; nothing of a number."""
    for column in study.design.encoding.columns:
        if column.name == name and isinstance(column, LevelColumn):
            return f"; the study has {', '.join(column.named[:6])}"
    return ""
