"""The replication: the same model from other rows, or what differs."""

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.facts import Facts, Figure, Row, Spoken, Table as FactTable, p_value
from replearn.exact.rows import Kept
from replearn.recipes import glm
from replearn.recipes.glm import Summary
from replearn.recipes.model import Model
from replearn.study.evidence import Evidence
from replearn.study.original import worth_of
from replearn.study.rows import Reading, TableRows, read_rows
from replearn.study.study import Study
from replearn.study.worth import Worth
from replearn.tables import Finding, Table, compare_profiles
from replearn.types import Codes, Matrix, Vector

#: Numbers next to a wall that are moved to look for the original's model, one or two at a time.
_MOVED = 24


@dataclass(frozen=True)
class Difference:
    """One coded number of a replication beside the original's.

    Attributes
    ----------
    name : str
        The term, and the score where there are several.
    cells : int
        How many cells apart.
    standardised : float
        Difference in standard deviations of what two samples differ by.
    """

    name: str
    cells: int
    standardised: float


@dataclass(frozen=True)
class Replication(Spoken):
    """Whether a lab got the original's model, and what follows.

    Attributes
    ----------
    same : bool or None
        None: the study is sealed, or registered, and does not tell.
    fingerprint : str
        Of this lab's model.
    n_rows : int
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
    positions : array
        Where this lab's numbers lie in their cells, from -0.5 to 0.5.
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
    positions: Vector
    planned_rows: int

    def facts(self) -> Facts:
        """In words: the verdict first."""
        few = self.n_rows < self.planned_rows
        items: list[Any] = []
        if self.same:
            verdict = "The same model: these rows give exactly the original's model."
            items.append(_proof(self.evidence))
        elif self.same is None:
            verdict = "A model was made; the study does not tell whether it is the original's."
            items.append("Send the fingerprint to the original, or pass --opened with its model.")
        else:
            verdict = "A different model: these rows do not give the original's model."
            items += self._what_differs()
        items.append(Row("fingerprint", self.fingerprint))
        items.append(Row("rows here", self.n_rows, note=f"planned for {self.planned_rows:,}"))
        chance = Row(
            "chance of a different model", self.disagreement, "%", note="estimated beforehand"
        )
        items.append(chance)
        if few and not self.same:
            items.append("These rows are fewer than the study was planned for.")
        if self.worth is not None:
            items += self.worth.rows()[:2]
        return Facts(
            verdict,
            items,
            details=[
                *(f"{finding.column}: {finding.sentence}" for finding in self.findings),
                FactTable(
                    "Where the numbers differ",
                    ("number", "cells apart", "standard deviations"),
                    [(d.name, d.cells, d.standardised) for d in self.differences],
                ),
                Row("proof in bits", self.evidence.bits, note="against a guess without rows"),
                Row("the same after 2^40 guesses", self.evidence.bits_search),
            ],
            figures=[
                Figure("Where this lab's numbers lie in their cells", self._picture, "Agreement: all marks are inside.")
            ],
            values={"same": self.same},
        )

    def _what_differs(self) -> list[Any]:
        found: list[Any] = [
            f"{finding.column or 'The target'}: {finding.sentence}" for finding in self.findings[:2]
        ]
        if self.same_population is not None:
            found.append(
                Row(
                    "same population?",
                    f"p = {p_value(self.same_population)}",
                    key="same_population",
                )
            )
        for difference in self.differences[:3]:
            apart = f"{abs(difference.cells)} cell{'s' if abs(difference.cells) > 1 else ''} apart"
            found.append(
                Row(difference.name, apart, note=f"{difference.standardised:+.1f} standard deviations")
            )
        if not self.differences and self.nearest:
            found.append(f"Next to a wall: {', '.join(self.nearest[:3])}.")
        return found

    def _picture(self) -> str:
        from replearn.study.pictures import where_we_landed

        return where_we_landed(self.names, {"this lab": self.positions})


def _proof(evidence: Evidence) -> str:
    honest = f"A lab needs about {_two(evidence.rows)} rows of its own to get this model"
    if evidence.rows_search is None:
        return f"{honest}."
    return f"{honest}; one that tries 2^40 neighbours, about {_two(evidence.rows_search)}."


def _two(number: int) -> str:
    return f"{float(f'{number:.1e}'):,.0f}"


def replicate(
    study: Study, table: Table, opened: Model | None = None, nonce: str | None = None
) -> tuple[Model, Replication]:
    """Fit a study on a lab's own rows.

    Parameters
    ----------
    study : Study
    table : Table
        With the study's target.
    opened : Model, optional
        The original's model, once it is open: then the answer says what differs.
    nonce : str, optional
        Opens the commitment of a sealed study.
    """
    table_rows = TableRows(table, Reading.of(study.design))
    rows = read_rows(table_rows)
    loss = study.design.loss
    summary = Summary.of(rows, loss).check(loss)
    theta = glm.fit(rows, loss, study.design.ridge, summary)
    found = tuple(
        compare_profiles(
            study.design.encoding,
            study.profile,
            table_rows.seen,
            None if table_rows.label_counts is None else table_rows.label_counts.tolist(),
        )
    )
    model = Model(study.design, study.design.codes(theta))
    worth = None
    if isinstance(rows, Kept):
        whole = np.floor(model.design.decode(model.codes) * 2.0**26 + 0.5)
        worth = replace(
            worth_of(loss, (glm.Fold(rows, rows.block, summary, whole),)), held_out=False
        )
    return model, compare_with_original(
        study, model, theta, summary.n_rows, found, opened, nonce, worth
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
    known = model.codes if same else None if opened is None else opened.codes
    if known is None and same is False and not study.sealed:
        known = _neighbour(study, model, design.numbers(theta))
    z = design.numbers(theta)
    names = _names(study)
    offsets = design.cells.offsets(z, design.published)
    differences: tuple[Difference, ...] = ()
    p = None
    if known is not None:
        decoded = design.cells.decode(known, design.published)
        rounding = design.cells.widths**2 / (12 * 4**design.bits)
        scaled = (z - decoded) / np.sqrt(study.deviations(n_rows) ** 2 + rounding)
        p = _same_population(scaled)
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
        positions=offsets - (model.codes if known is None else known),
        planned_rows=study.n_replication,
    )


def _names(study: Study) -> tuple[str, ...]:
    """Names of the coded numbers."""
    design = study.design
    terms = ("(constant)", *design.encoding.term_names)
    if design.directions is not None:
        terms = ("(constant)", *(f"direction {i + 1}" for i in range(len(design.directions))))
    if design.loss.n_scores == 1:
        return terms
    labels = (design.classes or ())[1:]
    return tuple(f"{term}, {label}" for label in labels for term in terms)


def _same_population(scaled: Vector) -> float:
    """p-value of the largest standardised difference, for any correlation (Bonferroni)."""
    largest = float(np.abs(scaled).max())
    return min(1.0, scaled.size * math.erfc(largest / math.sqrt(2)))


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


