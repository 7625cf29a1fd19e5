"""A study: what labs share. The original publishes it, replications read it."""

import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from replearn.codes.sketch import width_factor
from replearn.documents import Document, Length, Positive3, Range, Sha256, Share3, Unfit
from replearn.documents.facts import Facts, Figure, Row, Spoken
from replearn.documents.pictures import by_rows
from replearn.errors import ReplearnError
from replearn.exact.sums import ExactSums
from replearn.recipes.design import MAX_NUMBERS, Design
from replearn.recipes.glm import stability
from replearn.recipes.model import Model
from replearn.study import passes
from replearn.study.evidence import FREE_BITS, Evidence, bits_of, rows_to_find, rows_to_match
from replearn.study.passes import Fitted, State, Sums
from replearn.study.rows import Reading
from replearn.tables import Profile
from replearn.types import Vector

#: Rows that a study may speak of.
MAX_ROWS = 1 << 40
#: Widths may exceed what spread and rows imply by upper confidence bounds, up to this factor.
_MOST_UPPER = 8.0


@dataclass(frozen=True)
class Study(Spoken, Document):
    """What a replication may know: the design, the promise and a commitment, not the model.

    Attributes
    ----------
    design : Design
        How rows become codes, with the sketch.
    max_disagreement : decimal text
        Planned probability that a replication gets a different model.
    n_original, n_replication : int
        Rows of the original, and of the smallest replication that is promised the model.
    spreads : decimal texts
        Standard deviation of one row's influence on each number, at the original.
    profile : Profile
        What the original's columns look like, so that a lab notices other units.
    commitment : SHA-256 or None
        Of the original's model: its fingerprint, or, if sealed, that of nonce and fingerprint. None
        in a registered study, where nobody is first.
    sealed : bool
        Whether the commitment hides the fingerprint until the original opens it.
    """

    FORMAT = "replearn/study"

    design: Design
    max_disagreement: Share3
    n_original: Annotated[int, Range(1, MAX_ROWS)]
    n_replication: Annotated[int, Range(1, MAX_ROWS)]
    spreads: Annotated[tuple[Positive3, ...], Length(1, MAX_NUMBERS)]
    profile: Profile
    commitment: Sha256 | None = None
    sealed: bool = False
    problems: tuple[str, ...] = field(default=(), compare=False, repr=False)

    def save(self, path: "str | os.PathLike[str]", private: bool = False) -> None:
        """Publish the study; refused where its promise cannot be kept."""
        self.refuse_problems()
        super().save(path, private)

    def refuse_problems(self) -> None:
        """Stop where the promise cannot be kept."""
        if self.problems:
            raise ReplearnError(f"the study was not published: {' '.join(self.problems)}")

    def check(self) -> None:
        """The parts must fit together: nobody believes widths that rows and spreads deny."""
        if len(self.spreads) != self.design.n_numbers:
            raise Unfit(f"spreads must be {self.design.n_numbers} numbers")
        if (self.commitment is None) != (self.design.bits == 0):
            raise Unfit("a commitment must be there if and only if there is a sketch")
        if self.sealed and self.commitment is None:
            raise Unfit("sealed must be false without a commitment")
        if not self.profile.is_of(self.design.encoding, self.design.classes):
            raise Unfit("the profile must have the columns and the target of the design")
        if not 0 < float(self.max_disagreement) < 1:
            raise Unfit("max_disagreement must be in (0, 1)")
        ratio = self.widths / (self._factor * self.deviations(self.n_replication))
        if not ((ratio > 0.9) & (ratio < _MOST_UPPER)).all():
            raise Unfit(
                "widths must be those that rows, spreads and max_disagreement imply, got some that "
                f"are {ratio.min():.2g} to {ratio.max():.2g} times as wide"
            )

    @property
    def widths(self) -> Vector:
        """Of the cells."""
        return self.design.cells.widths

    @cached_property
    def stated_spreads(self) -> Vector:
        """Standard deviation of one row's influence on each number, as the original states it."""
        return np.array([float(spread) for spread in self.spreads])

    @property
    def _factor(self) -> float:
        """Widths of cells as planned, in standard deviations."""
        return width_factor(self.design.n_numbers, float(self.max_disagreement), self.design.bits)

    def deviations(self, n_rows: int) -> Vector:
        """Standard deviations between the original and a lab with so many rows."""
        return self.stated_spreads * math.sqrt(1 / self.n_original + 1 / n_rows)

    def disagreement(self, n_rows: int) -> float:
        """Estimated probability that a lab with so many rows gets a different model.

        Standard deviations are geometric means of those that the original saw and those that its
        cells were planned with, as in its own certificate.
        """
        planned = self.widths / self.deviations(self.n_replication)
        ratios = self.widths / self.deviations(n_rows) * np.sqrt(self._factor / planned)
        expected = stability(ratios, self.design.bits).expected
        assert expected is not None
        return expected

    def commits_to(self, fingerprint: str, nonce: str | None = None) -> bool | None:
        """Whether the original's model has this fingerprint; None if the seal hides it."""
        if self.commitment is None or (self.sealed and nonce is None):
            return None
        if self.sealed:
            assert nonce is not None
            return self.commitment == sealed_commitment(nonce, fingerprint)
        return self.commitment == fingerprint

    def evidence(self, model: Model, spreads: Vector | None = None) -> Evidence:
        """What it proves that somebody gets this model.

        ``spreads`` are those that a lab finds in its own rows; by default those that the study
        states.
        """
        design = self.design
        spreads = self.stated_spreads if spreads is None else spreads
        decoded = design.cells.decode(model.codes, design.published)
        order = np.arange(design.n_numbers).reshape(design.loss.n_scores, -1)
        known = order[:, 0]  # the base rate gives the constants away
        places = np.concatenate([known, np.setdiff1d(order.reshape(-1), known)])
        cells = type(design.cells)(
            design.cells.widths[places], design.cells.shifts[places], design.bits
        )
        bits = bits_of(cells, design.published[places], decoded[places], len(known))
        rows = rows_to_match(self.widths, spreads, self.n_original)
        if self.sealed or self.commitment is None:
            return Evidence(rows, None, bits, None)
        search = 0  # where free guesses find the model, no rows are needed
        if bits > FREE_BITS:
            search = rows_to_find(self.widths, spreads, self.n_original)
        return Evidence(rows, min(search, rows), bits, max(0.0, bits - FREE_BITS))

    def begin(self, opened: Model | None = None) -> State:
        """What the first pass over rows is asked for; from an opened model one pass is enough."""
        return passes.begin(self.design, self.fingerprint, opened)

    def sums(self, batches: Iterable[Any], state: State) -> Sums:
        """What a pass gives on some of the rows: whole numbers that add up with ``+``.

        Parameters
        ----------
        batches : iterable of Arrow record batches, dataframes, paths, tables or encoded rows
        state : State
            Of `begin`, or of the last `step`.
        """
        self.check_state(state)
        return passes.add_up(self.design, state, batches)

    def step(self, sums: ExactSums, state: State) -> State | Fitted:
        """What follows from the sums of all rows: the next state, or the fit."""
        self.check_state(state)
        return passes.advance(self.design, state, sums)

    def check_state(self, state: State) -> None:
        """Refuse a state of a different study, or one that does not fit its coefficients."""
        if state.study != self.fingerprint:
            raise ReplearnError(
                f"the state must be one of this study, {self.fingerprint[:16]}, got one of "
                f"{state.study[:16]}. Use the files of one study."
            )
        loss, asked, counts = self.design.loss, state.newton, state.counts
        shape = (loss.n_scores, 1 + Reading.of(self.design).n_terms)
        n_totals = loss.n_scores + 1 if loss.by_class else 1
        if (asked is not None and asked.theta.shape != shape) or (
            counts is not None and counts.totals.size != n_totals
        ):
            raise ReplearnError(
                f"the state must hold {shape} coefficients and {n_totals} counts, got others. Ask "
                "whoever combines for it again."
            )

    def facts(self) -> Facts:
        """What the study says, in words."""
        design = self.design
        if self.commitment is None:
            verdict = "A registered study: nobody is first, every lab may fit it."
        else:
            verdict = "A study to replicate: labs with rows of their own can get the same model."
        promised = 1 - float(self.max_disagreement)
        return Facts(
            verdict,
            [
                Row("target", design.target),
                Row("columns", len(design.encoding.columns)),
                Row("coded numbers", design.n_numbers, note=f"{design.bits} bits each"),
                *(
                    [Row("rows of the original", self.n_original, note="as the lab states")]
                    if self.commitment
                    else []
                ),
                Row("rows of a lab", self.n_replication, note="at least"),
                Row("agreement rate", promised, "%", note="planned"),
                Row("commitment", "sealed" if self.sealed else self.commitment or "none"),
            ],
            details=[
                Row("study", self.fingerprint),
                Row("ridge", design.ridge),
                Row("seed", design.seed),
            ],
            figures=[
                Figure(
                    "How often a lab gets the same model, by its sample size",
                    lambda: by_rows(self.n_replication, self.disagreement),
                    "Estimated for labs with rows of the original's population.",
                )
            ],
        )


def sealed_commitment(nonce: str, fingerprint: str) -> str:
    """SHA-256 of a secret nonce and a fingerprint, in hex."""
    return hashlib.sha256(f"replearn/seal/1\n{nonce}\n{fingerprint}".encode()).hexdigest()
