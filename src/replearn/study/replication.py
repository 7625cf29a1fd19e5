"""The replication: the same model from other rows, or what differs."""

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.documents.facts import Facts, Figure, Row, Spoken, counted, p_value, percent
from replearn.documents.facts import Table as FactTable
from replearn.documents.pictures import Landed, where_we_landed
from replearn.errors import ReplearnError
from replearn.exact.rows import Kept, Rows, joined
from replearn.recipes import glm
from replearn.recipes.losses import LEAST_ROWS
from replearn.recipes.model import Model
from replearn.recipes.newton import Summary, fit
from replearn.recipes.validation import Fold
from replearn.study.evidence import Evidence
from replearn.study.original import worth_of
from replearn.study.rows import Reading, TableRows, read_rows
from replearn.study.study import Study
from replearn.study.worth import Worth
from replearn.tables import Finding, Seen, Table, compare_profiles, in_sentences
from replearn.types import Codes, Matrix, Vector

#: Spreads that a study states may differ from those of a lab by this factor, in the median.
_MOST_SPREAD = 3.0
#: Numbers next to a wall that are moved to look for the original's model, one or two at a time.
_MOVED = 24


@dataclass(frozen=True)
class Difference:
    """One coded number of a replication beside the original's."""

    name: str  # the term, and the score where there are several
    cells: int  # how many cells apart
    standardised: float  # difference in standard deviations of what two samples differ by


@dataclass(frozen=True)
class Replication(Spoken):
    """Whether a lab got the original's model, and what follows.

    Attributes
    ----------
    same : bool or None
        None: the study is sealed, or registered, and does not tell.
    fingerprint : str
        Of this lab's model.
    disagreement : float
        Estimated probability that a lab with so many rows gets a different model.
    evidence : Evidence
        What a match proves.
    differences : tuple of Difference
        Where this lab's codes differ from the original's, as far as that is known.
    nearest : tuple of str
        If the original's model is not open: numbers of this lab that lie next to a wall.
    same_population : float or None
        p-value of "both samples are of one population"; None while the original is not open.
    findings : tuple of Finding
        Columns that look different at this lab.
    worth : Worth or None
        Of the model, on this lab's own rows; these rows made it, unless it is the original's.
    landed : Landed
        Where this lab's numbers lie in their cells, with 95% intervals.
    """

    same: bool | None
    fingerprint: str
    n_rows: int
    disagreement: float
    evidence: Evidence
    differences: tuple[Difference, ...]
    nearest: tuple[str, ...]
    same_population: float | None
    findings: tuple[Finding, ...]
    worth: Worth | None
    names: tuple[str, ...]
    landed: Landed
    planned_rows: int

    @property
    def positions(self) -> Vector:
        """Where this lab's numbers lie in their cells, from -0.5 to 0.5."""
        return self.landed.positions

    def facts(self) -> Facts:
        """In words: the verdict first."""
        items: list[Any] = [f"Fingerprint {self.fingerprint}"]
        if self.same:
            verdict = "The same model: these rows give exactly the original's model."
            items.append(self.evidence.words())
        elif self.same is None:
            verdict = "A model was made; the study does not tell whether it is the original's."
            items.append(
                "Compare the fingerprint with those of other labs, or pass --opened with the "
                "original's model."
            )
        else:
            verdict = "A different model: these rows do not give the original's model."
            items += self._what_differs()
        items.append(Row("rows here", self.n_rows, note=f"planned for {self.planned_rows:,}"))
        items.append(agreement_row(self.disagreement, self.n_rows))
        details: list[Any] = in_sentences(self.findings)[2 * (self.same is False) :]
        if self.worth is not None and self.same:
            items += self.worth.rows()[:2]
        elif self.worth is not None:
            details += ["On the rows of the fit, so a little too good:", *self.worth.rows()[:2]]
        if self.differences:
            table = FactTable(
                "Where the numbers differ",
                ("number", "cells apart", "standard deviations"),
                [(d.name, d.cells, d.standardised) for d in self.differences],
            )
            details.append(table)
        details.append(
            Row("proof in bits", self.evidence.bits, note="against a guess without rows")
        )
        if self.evidence.bits_search is not None:
            details.append(Row("after 2^40 guesses", self.evidence.bits_search))
        picture = Figure(
            "Where this lab's numbers lie in their cells",
            lambda: where_we_landed(self.names, {"this lab": self.landed}),
            "A box is the cell of one coefficient, a line the 95% interval of this lab. All marks "
            "inside: the same model.",
        )
        values = {
            "same": self.same,
            "fingerprint": self.fingerprint,
            "disagreement": self.disagreement,
            "same_population": self.same_population,
        }
        return Facts(verdict, items, details, [picture], values)

    def _what_differs(self) -> list[Any]:
        """The likely reasons, the likeliest first."""
        found: list[Any] = [*in_sentences(self.findings)[:2]]
        p = self.same_population
        if self.n_rows < self.planned_rows and self.disagreement > 0.05:
            found.append(
                f"{self.n_rows:,} rows are few: the study was planned for {self.planned_rows:,}."
            )
        elif p is None or p > 0.01:
            found.append(f"Chance alone makes {percent(self.disagreement)} of such labs differ.")
        if p is not None:
            word = "not shown to differ" if p > 0.01 else "they differ"
            found.append(Row("populations", word, note=p_value(p), key="populations"))
        for difference in self.differences[:3]:
            apart = f"{counted(abs(difference.cells), 'cell')} apart"
            note = f"{difference.standardised:+.1f} standard deviations"
            found.append(Row(difference.name, apart, note=note))
        if not self.differences and self.nearest:
            near = ", ".join(self.nearest[:3])
            found.append(f"Coefficients nearest to the edge of their cells: {near}.")
        return found


def agreement_row(disagreement: float, n_rows: int) -> Row:
    """How often a lab with so many rows gets the original's model."""
    share = max(1 - disagreement, 1e-5)  # an estimate: nobody knows that it never happens
    return Row("agreement rate", share, "%", note=f"estimated for {n_rows:,} rows")


def replicate(
    study: Study,
    table: Table,
    opened: Model | None = None,
    nonce: str | None = None,
    n_jobs: int | None = None,
) -> tuple[Model, Replication]:
    """Fit a study on a lab's own rows.

    With the original's model, once it is open, the answer says what differs; a nonce opens the
    commitment of a sealed study. Threads change no bit.
    """
    source = TableRows(table, Reading.of(study.design))
    rows = read_rows(source, n_jobs)
    return replicate_rows(study, rows, source.seen, source.label_counts, opened, nonce)


def replicate_more(
    study: Study, table: Table, before: tuple[Kept, Seen, Any] | None = None
) -> tuple[tuple[Kept, Seen, Any], Model, Replication]:
    """The same for the rows of a table and those ``before``; what is kept of both comes first."""
    source = TableRows(table, Reading.of(study.design))
    rows = read_rows(source)
    if not isinstance(rows, Kept):
        raise ReplearnError("rows of one call must fit into memory. Pass fewer at a time.")
    seen, counts = source.seen, source.label_counts
    if before is not None:
        rows = Kept(joined([before[0].block, rows.block]))
        seen.add(before[1])
        counts = None if counts is None else counts + before[2]
    return (rows, seen, counts), *replicate_rows(study, rows, seen, counts)


def replicate_rows(
    study: Study,
    rows: Rows,
    seen: Seen,
    label_counts: NDArray[np.int64] | None,
    opened: Model | None = None,
    nonce: str | None = None,
) -> tuple[Model, Replication]:
    """The same for rows that are encoded; ``seen`` and ``label_counts`` describe their table."""
    loss = study.design.loss
    summary = Summary.of(rows, loss).check(loss)
    theta = fit(rows, loss, study.design.ridge, summary)
    found = tuple(
        compare_profiles(
            study.design.encoding,
            study.profile,
            seen,
            None if label_counts is None else label_counts.tolist(),
        )
    )
    model = Model(study.design, study.design.codes(theta))
    worth = None
    if isinstance(rows, Kept):
        whole = np.floor(model.design.decode(model.codes) * 2.0**26 + 0.5)
        worth = replace(worth_of(loss, (Fold(rows, rows.block, summary, whole),)), held_out=False)
    design = study.design
    here = glm.spread_of(rows, loss, design.ridge, theta, design.coordinates, summary)
    found += spread_findings(study, here.variance, summary.n_rows)
    return model, compare_with_original(
        study, model, theta, summary.n_rows, found, opened, nonce, worth
    )


def spread_findings(study: Study, variance: Vector, n_rows: int) -> tuple[Finding, ...]:
    """Whether rows here vary as the study states: what a match proves rests on that."""
    ratio = float(np.median(study.stated_spreads / np.sqrt(variance)))
    if 1 / _MOST_SPREAD < ratio < _MOST_SPREAD or n_rows < LEAST_ROWS:
        return ()
    return (
        Finding(
            "",
            f"the study states that its numbers vary {ratio:.2g} times as much as they do here, so "
            "what a match proves is not known",
        ),
    )


def compare_with_original(
    study: Study,
    model: Model,
    theta: Matrix,
    n_rows: int,
    findings: tuple[Finding, ...] = (),
    opened: Model | None = None,
    nonce: str | None = None,
    worth: Worth | None = None,
) -> Replication:
    """What a lab's fit says about the original's model."""
    design = study.design
    same = study.commits_to(model.fingerprint, nonce)
    if opened is not None:
        if opened.design != design or study.commits_to(opened.fingerprint, nonce) is False:
            raise ReplearnError(
                "the opened model must be the one that the study commits to, got a different one. "
                "Ask the original for its model file."
            )
        same = opened.fingerprint == model.fingerprint
    z = design.coordinates.of_theta(theta)
    known = model.codes if same else None if opened is None else opened.codes
    if known is None and same is False and not study.sealed:
        known = _neighbour(study, model, z)
    names = design.number_names
    offsets = design.cells.offsets(z, design.published)
    differences: tuple[Difference, ...] = ()
    p = None
    if known is not None:
        decoded = design.cells.decode(known, design.published)
        rounding = design.cells.widths**2 / (12 * 4**design.bits)
        scaled = (z - decoded) / np.sqrt(study.deviations(n_rows) ** 2 + rounding)
        # of the largest standardised difference, for any correlation (Bonferroni)
        p = min(1.0, scaled.size * math.erfc(float(np.abs(scaled).max()) / math.sqrt(2)))
        apart = np.flatnonzero(model.codes != known)
        order = apart[np.argsort(-np.abs(scaled[apart]), kind="stable")]
        differences = tuple(
            Difference(names[i], int(model.codes[i] - known[i]), float(scaled[i])) for i in order
        )
    near = np.argsort(np.abs(np.abs(offsets - model.codes) - 0.5), kind="stable")
    return Replication(
        same=same,
        fingerprint=model.fingerprint,
        n_rows=n_rows,
        disagreement=study.disagreement(n_rows),
        evidence=study.evidence(model),
        differences=differences,
        nearest=tuple(names[i] for i in near[:5]),
        same_population=p,
        findings=findings,
        worth=worth,
        names=names,
        landed=Landed(
            offsets - (model.codes if known is None else known),
            1.96 * study.stated_spreads / math.sqrt(n_rows) / study.widths,
        ),
        planned_rows=study.n_replication,
    )


def _neighbour(study: Study, model: Model, z: Vector) -> Codes | None:
    """The original's codes, if one or two numbers next to a wall make the difference."""
    offsets = study.design.cells.offsets(z, study.design.published) - model.codes
    near = np.argsort(np.abs(np.abs(offsets) - 0.5), kind="stable")[:_MOVED].tolist()
    for moved in (*combinations(near, 1), *combinations(near[:8], 2)):
        codes = model.codes.copy()
        for i in moved:
            codes[i] += 1 if offsets[i] > 0 else -1
        if study.commits_to(Model(study.design, codes).fingerprint):
            return codes
    return None
