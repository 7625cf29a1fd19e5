"""Coalitions: labs send exact sums of their rows, round by round, and get one model.

The model is that of all rows together, to the bit; no row leaves its lab. Sums that no rows can
give are refused; labs are compared with each other; a lab that invents whole rows is not noticed,
unless they differ from all others.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from typing import Annotated, Any

import numpy as np

from replearn.documents import Document, Integers, Range, Sha256, Text, Unfit
from replearn.errors import ReplearnError
from replearn.glm import Between, CentreFits, GlmDesign, GlmModel, LastIterate, newton
from replearn.rows import THETA_BITS, WEIGHT_BITS, ExactSums, integers, on_grid
from replearn.rows import Integers as Whole
from replearn.study.agreement import agreement_of, compare_with_original, spread_findings
from replearn.study.disclosure import refuse_few_rows, refuse_few_together, refuse_heavy_rows
from replearn.study.joint_original import Founded, founded
from replearn.study.participants import (
    Participant,
    beside_the_others,
    lab_table,
    learned_from,
    one_population_p,
    remarks_on,
)
from replearn.study.passes import (
    LEAST_LABS,
    LEAST_SUMMED,
    MAX_ROWS,
    MAX_SUM,
    Counts,
    Fitted,
    Member,
    State,
    behind_of,
    findings_of,
    refuse_other_codes,
    spread_of,
    spread_state,
    table_of,
)
from replearn.study.plausibility import refuse_impossible
from replearn.study.replication import GlmReplication
from replearn.study.shares import Share, add_shares, unpack_total
from replearn.study.study import GlmStudy
from replearn.tables import LEAST_COUNT, Finding, Table
from replearn.types import Codes, Matrix, Vector
from replearn.words import Facts, Figure, Landed, Row, Spoken, p_value, where_we_landed
from replearn.words import Table as FactTable

#: A lab that claims so many times the rows of the study is not believed unless it is asked for.
MOST_TIMES = 100
#: Labs in a picture.
_DRAWN = 6

_SUM = Integers(2, -MAX_SUM, MAX_SUM, 1 << 24)
#: Sums that are one number.
_COUNTED = ("rows", "weight", "sampled")


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
    lab: Annotated[str, Text(200)]
    rows: Annotated[int, Range(0, MAX_ROWS)]
    weight: Annotated[int, Range(0, MAX_SUM)] | None = None
    sampled: Annotated[int, Range(0, MAX_SUM)] | None = None
    totals: Annotated[Whole, Integers(1, -MAX_SUM, MAX_SUM, 100)] | None = None
    cells: Annotated[Codes, Integers(2, 0, MAX_ROWS)] | None = None
    gradient: Annotated[Whole, _SUM] | None = None
    information: Annotated[Whole, _SUM] | None = None
    exponents: Annotated[Codes, Integers(1, 0, MAX_ROWS, 1 << 12)] | None = None
    spread: Annotated[Whole, _SUM] | None = None
    findings: tuple[Finding, ...] = field(default=(), compare=False, repr=False)

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
        for name in _COUNTED:
            if name in fields:
                fields[name] = sums.count(name)
        return cls(study.fingerprint, sums.of, lab, **fields)

    @property
    def sums(self) -> ExactSums:
        """As a pass gives them."""
        values: dict[str, Whole] = {}
        for name in _COUNTED:
            if (value := getattr(self, name)) is not None:
                values[name] = integers([value])
        for name in ("totals", "cells", "gradient", "information", "exponents", "spread"):
            if (array := getattr(self, name)) is not None:
                values[name] = integers(array)
        return ExactSums(self.state, values)

    def facts(self) -> Facts:
        """What is sent, in words."""
        size = sum(np.size(value) for value in self.sums.values.values())
        return Facts(
            f"Sums over {self.rows:,} rows of {self.lab!r}: {size:,} integers, no individual data.",
            [
                "Send the file to the lab that combines: it sees these sums.",
                "With three or more labs the others see totals only; two labs get no totals.",
                *(f"{found.column or 'The target'}: {found.sentence}" for found in self.findings),
            ],
            details=[Row("study", self.study), Row("state", self.state)],
        )


def lab_sums(
    study: "GlmStudy | str | os.PathLike[str]",
    table: Any,
    state: State | None = None,
    *,
    lab: str = "lab",
    least_count: int = LEAST_COUNT,
) -> LabSums:
    """Exact sums of a lab's rows, to send to a coalition.

    Parameters
    ----------
    study : GlmStudy or path
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
    the state of the round. No file is made if a term or a class has 1 to 9 rows.

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
    study, state = _at(study, state)
    design = study.design
    if design.n_numbers > newton.MOST_STEERED:
        raise ReplearnError(
            f"labs must pool at most {newton.MOST_STEERED} coefficients, got {design.n_numbers:,}: "
            "the fit of more takes too many rounds. Use fewer columns, or an engine."
        )
    _refuse_two(len(state.members))

    source = table if isinstance(table, Table) else table_of(design, table)
    source = source.kept()  # what single rows weigh takes passes of its own
    sums = study.sums([source], state)

    # sums of few rows, or with a level or class that few have, never leave the lab
    _refuse_small(state, sums)
    if sums.seen is not None:
        refuse_other_codes(design, sums)
    asked = state.newton
    refuse_few_rows(design, source, 0 if asked is None else asked.sample_threshold, least_count)
    if asked is not None:
        refuse_heavy_rows(design, source, asked, least_count)

    findings = findings_of(study, sums)
    if asked is not None and _is_near_end(state, asked):
        # what single rows do to the fit here, beside what the study states
        then = spread_state(state, asked.theta, Counts.of(sums), behind_of(asked, sums))
        spread = spread_of(then, study.sums([source], then))
        findings += spread_findings(study, np.sqrt(spread.variance), spread.n_rows)

    shown = LabSums.of(study, lab, _without_few_cells(sums, least_count))
    return replace(shown, findings=tuple(findings))


def _at(study: "GlmStudy | str | os.PathLike[str]", state: State | None) -> tuple[GlmStudy, State]:
    """The study, which may be a path, and its state: that of the first round, unless given."""
    if not isinstance(study, GlmStudy):
        study = GlmStudy.load(study)
    if state is None:
        state = study.begin()
    study.check_state(state)
    return study, state


def _refuse_small(state: State, sums: ExactSums) -> None:
    """Refuse sums of few rows, and a matrix of a sample that has few."""
    if sums.count("rows") < LEAST_SUMMED:
        raise ReplearnError(
            f"sums must be of at least {LEAST_SUMMED} rows, got {sums.count('rows')}: those of few "
            "rows may tell what stands in single ones. Pool them with those of a different lab."
        )
    if state.newton is None or not 0 < state.newton.sample_threshold < 1 << 32:
        return

    n_sampled = sums.count("sampled") >> WEIGHT_BITS  # at least: no row weighs more than 1
    if n_sampled < LEAST_SUMMED:
        raise ReplearnError(
            f"the round asks for a matrix of about {n_sampled} of these rows, and sums must be "
            f"of at least {LEAST_SUMMED}. Ask whoever combines to begin from the opened model: "
            "then all rows count."
        )


def _is_near_end(state: State, asked: newton.State) -> bool:
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


def _refuse_two(n_labs: int) -> None:
    """Stop before two labs get totals."""
    if n_labs == LEAST_LABS - 1:
        raise ReplearnError(
            "totals must be of three labs or more, got 2: totals less one's own sums are those of "
            "the other lab. Take one round from the opened model, or ask a third lab."
        )


@dataclass(frozen=True)
class Coalition(Spoken):
    """The model of many labs, and what each of them adds.

    Attributes
    ----------
    model : GlmModel
        That of the rows of all labs, to the bit (or one Newton step from an opened model).
    replication : GlmReplication
        Beside the original.
    heterogeneity : array
        Cochran's Q of each coded number, with one degree of freedom less than labs.
    same_population : float
        p-value of "all labs are of one population", over all numbers (Bonferroni).
    copies : tuple of pairs of str
        Labs whose sums are too similar for different rows.
    labs : tuple of Participant
        What each lab adds: its rows, and whether the model is the same without it.
    fits : CentreFits
        The numbers that each lab alone would have.
    n_unseen : int
        Labs that sent shares: then ``labs`` has one entry for all of them.

    See Also
    --------
    combine : makes one.

    Notes
    -----
    Newton's method on the joint loss: its rounds ask for a gradient and a matrix of each lab.
    Labs are compared by Cochran's Q [Cochran54].

    References
    ----------
    .. [Cochran54] Cochran. The combination of estimates from different experiments. Biometrics
       10, 1954.

    Examples
    --------
    >>> import replearn as rl
    >>> names = ("Ashford", "Birchwood", "Dunmore")
    >>> labs = {name: rl.datasets.load_readmission(name, 6000) for name in names}
    >>> table = labs["Ashford"].drop(columns="readmitted")
    >>> study = rl.ReplicableLogisticClassifier().fit(table, labs["Ashford"]["readmitted"]).study_
    >>> found = study.begin()
    >>> while not hasattr(found, "model"):
    ...     sums = [rl.lab_sums(study, lab, found, lab=name) for name, lab in labs.items()]
    ...     found = rl.combine(study, *sums, state=found)
    >>> found.replication.same, found.agreement, found.copies
    (True, 1.0, ())
    """

    model: GlmModel
    replication: GlmReplication
    labs: tuple[Participant, ...]
    heterogeneity: Vector
    same_population: float
    copies: tuple[tuple[str, str], ...]
    fits: CentreFits  # the numbers that each lab alone would have
    n_unseen: int = 0  # labs of which the total alone is known

    @property
    def agreement(self) -> float:
        """Share of the labs without which the model is the same."""
        return sum(lab.same for lab in self.labs) / len(self.labs)

    @property
    def remarks(self) -> list[str]:
        """Labs to ask about."""
        return remarks_on(self.labs, self.copies)

    def facts(self) -> Facts:
        """In words."""
        n_labs, n_rows = self.n_unseen or len(self.labs), self.replication.n_rows
        verdict = f"{n_labs} labs with {n_rows:,} rows have one model"
        if self.replication.same is not None:
            verdict += ": the original's" if self.replication.same else ", not the original's"

        # what differs most comes first, and alone if there is much
        names = self.replication.names
        order = np.argsort(-self.heterogeneity, kind="stable")[:20]
        furthest = sorted(self.labs, key=lambda x: x.p)[:_DRAWN]
        which = ""
        if len(self.labs) > _DRAWN:
            which = ", of those that differ most"

        how = "in the cells of the study"
        if self.model.design.bits:
            how = "with the bits that the original published"
        fit = f"The fit of all rows, rounded {how}."
        items: list[Any] = [fit, Row("fingerprint", self.model.fingerprint)]
        if self.n_unseen:
            unseen = "Labs cannot be compared: only the total of their sums is known."
            return Facts(
                f"{verdict}.",
                [*items, unseen],
                details=self.replication.facts().details,
                values={"same": self.replication.same},
            )
        return Facts(
            f"{verdict}.",
            [
                *items,
                Row("one population?", p_value(self.same_population), key="population"),
                Row("same without a lab", self.agreement, "%", note="of the labs"),
                *self.remarks,
            ],
            details=[
                lab_table(self.labs),
                FactTable(
                    "Numbers that differ most between labs",
                    ("number", "Cochran's Q"),
                    [(names[i], float(self.heterogeneity[i])) for i in order],
                ),
                "A lab that invents rows like those of the others is not noticed.",
                *self.replication.facts().details,
            ],
            figures=[
                Figure(
                    "Where labs lie in the cells of the model",
                    lambda: where_we_landed(names, {x.lab: x.landed for x in furthest}),
                    "A box is the cell of one coefficient, a line the 95% interval of one lab "
                    f"alone{which}.",
                )
            ],
            values={"same": self.replication.same},
        )


def combine(
    study: "GlmStudy | str | os.PathLike[str]",
    *sums: LabSums | Share,
    state: State | None = None,
    opened: GlmModel | None = None,
    nonce: str | None = None,
    most_rows: int | None = None,
    publish: bool = False,
    replication_rows: int | None = None,
) -> "State | Coalition | Founded | Share":
    """Add up the sums of all labs, or secret shares of them.

    Parameters
    ----------
    study : GlmStudy or path
        The study that all labs fit together.
    *sums : LabSums or Share
        One of each lab, of one round, in any order. A lab adds up the shares that it got; who
        combines adds up what all labs made of theirs.
    state : State, optional
        What the labs were asked for; ``study.begin()`` in the first round. After
        ``study.begin(opened)`` one round is all.
    opened : GlmModel, optional
        The original's, to say what differs.
    nonce : str, optional
        Opens a sealed study.
    most_rows : int, optional
        That a lab may claim; by default 100 times those of the study.
    publish : bool, default=False
        The labs together are an original: after the fit one round more gives the study of their
        model. The study so far is a draft; see `replearn.study.joint_original`.
    replication_rows : int, optional
        Rows of the smallest replication that the study promises its model; by default as many as
        all labs have.

    Returns
    -------
    found : State, Coalition, Founded or Share
        What labs need for the next round, or the model, or study and model; or what a lab got in
        shares, added up.

    Raises
    ------
    ReplearnError
        If sums are of a different study or round, of labs that took no part before, there twice,
        or not of any rows.

    See Also
    --------
    lab_sums : what each lab sends.
    lab_shares : what each lab sends if nobody may see its sums.
    register_study : a study in which nobody is first.

    Notes
    -----
    Newton's method on the joint loss needs the sums of all rows and no row. Because the sums are
    exact, the joint model is the model of one table, to the bit, whatever the number of labs.

    Examples
    --------
    >>> import replearn as rl
    >>> names = ("Ashford", "Birchwood", "Dunmore")
    >>> labs = [rl.datasets.load_readmission(name, 6000) for name in names]
    >>> first = labs[0].drop(columns="readmitted"), labs[0]["readmitted"]
    >>> study = rl.ReplicableLogisticClassifier().fit(*first).study_
    >>> state = study.begin()
    >>> while isinstance(state, type(study.begin())):
    ...     sums = [rl.lab_sums(study, lab, state, lab=str(i)) for i, lab in enumerate(labs)]
    ...     state = rl.combine(study, *sums, state=state)
    >>> state.replication.same
    True
    """
    if publish and not (opened is None and nonce is None):
        raise ReplearnError("a joint original does not use opened and nonce. Leave them out.")
    if replication_rows is not None and not publish:
        raise ReplearnError("replication_rows is of a joint original. Pass publish=True, too.")

    study, state = _at(study, state)
    if most_rows is None:
        most_rows = MOST_TIMES * max(study.n_original, study.n_replication)

    shares = [one for one in sums if isinstance(one, Share)]
    if shares:
        if publish or len(shares) < len(sums):
            raise ReplearnError(
                "shares are added up with shares, and not for a joint original, which compares "
                "the sums of its labs. Make all files in one way."
            )
        return _of_shares(study, state, shares, opened, nonce, most_rows)

    # no sum counts before those of all labs are plausible; the order of files changes nothing
    labs = sorted((one for one in sums if isinstance(one, LabSums)), key=lambda one: one.lab)
    _check_labs(study, state, labs)
    parts = [one.sums for one in labs]
    for one, part in zip(labs, parts, strict=True):
        refuse_impossible(study.design, state, part, one.lab, most_rows)
    _check_members(state, labs, parts)

    total = reduce(add, parts)
    reached = study.step(total, state)
    if isinstance(reached, State) or (publish and not state.then):
        _refuse_two(len(labs))

    # the fit goes on
    if isinstance(reached, State):
        if state.asks != "counts":
            return reached
        if publish:  # a share of the rows of an original may hold few of a term
            reached = reached.with_all_rows()
        pairs = zip(labs, parts, strict=True)
        return replace(reached, members=tuple(Member(x.lab, Counts.of(part)) for x, part in pairs))

    # the fit is done, and so is a replication
    if not state.then and not publish:
        spreads = study.stated_spreads
        return _coalition(study, labs, parts, total, reached, spreads, opened, nonce)

    # an original asks once more: how much single rows move the fit
    if not state.then:
        _refuse_many(reached.theta.size)
        return spread_state(state, reached.theta, reached.counts, reached.behind)

    spread = spread_of(state, total)
    between_of = learned_from(spread.variance, study.design.coordinates)
    beside = _coalition(
        study, labs, parts, total, reached, np.sqrt(spread.variance), between_of=between_of
    )
    return founded(
        study,
        reached,
        spread,
        beside.fits,
        beside.labs,
        beside.copies,
        replication_rows=replication_rows,
    )


def _of_shares(
    study: GlmStudy,
    state: State,
    shares: Sequence[Share],
    opened: GlmModel | None,
    nonce: str | None,
    most_rows: int,
) -> "State | Coalition | Share":
    """The same of shares: only the total of all labs is ever known."""
    for one in shares:
        _check_round(study, state, f"a share for {one.to!r}", one)
    added = add_shares(shares)
    if isinstance(added, Share):
        return added

    # totals are looked at as the sums of a lab are: by their own logic, and for few rows
    n_labs, name = len(shares), "all labs"
    total, counted = unpack_total(study, state, added)
    refuse_impossible(study.design, state, total, name, most_rows * n_labs)
    _refuse_small(state, total)
    refuse_few_together(study.design, counted, LEAST_COUNT)

    reached = study.step(total, state)
    if isinstance(reached, State):
        return reached
    together = LabSums.of(study, name, total)
    spreads = study.stated_spreads
    found = _coalition(study, [together], [total], total, reached, spreads, opened, nonce)
    return replace(found, n_unseen=n_labs)


def _refuse_many(n_numbers: int) -> None:
    """Stop where labs would publish more than they can fit."""
    if n_numbers > newton.MOST_STEERED:
        raise ReplearnError(
            f"labs can publish at most {newton.MOST_STEERED} coefficients together, got "
            f"{n_numbers}. Use fewer columns."
        )


def _check_labs(study: GlmStudy, state: State, labs: Sequence[LabSums]) -> None:
    """Refuse sums that are of something else, or there twice."""
    if not labs:
        raise ReplearnError("there must be sums of at least one lab, got none.")

    contents: dict[bytes, str] = {}
    for one in labs:
        _check_round(study, state, f"the sums of {one.lab!r}", one)

        # two labs may have the same counts by chance, but not the same gradient
        twin = contents.setdefault(replace(one, lab="").canonical_bytes(), one.lab)
        if twin != one.lab and one.gradient is not None:
            raise ReplearnError(
                f"{twin!r} and {one.lab!r} have the same sums: rows would count twice. Leave one "
                "out."
            )

    names = [one.lab for one in labs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ReplearnError(f"each lab must send one file, got two of {twice!r}. Keep one.")


def _check_round(study: GlmStudy, state: State, what: str, one: LabSums | Share) -> None:
    if one.study != study.fingerprint:
        raise ReplearnError(
            f"{what} must be of the study {study.fingerprint[:16]}, got {one.study[:16]}. Send "
            "all labs one study file."
        )
    if one.state != state.fingerprint:
        raise ReplearnError(
            f"{what} must be of this round, got those of a different one. Send that lab the state "
            "of this round (on the command line --state)."
        )


def _check_members(state: State, labs: Sequence[LabSums], parts: Sequence[ExactSums]) -> None:
    """Refuse labs, rows or labels that are not those of the first round."""
    if not state.members:
        return

    first_counts = {member.lab: member.counts for member in state.members}

    # the same labs, with the same rows
    missing = sorted(set(first_counts) - {one.lab for one in labs})
    if missing:
        raise ReplearnError(
            f"all labs of the first round must take part, got none of {', '.join(missing[:5])}. "
            "Get their sums, or begin anew without them."
        )

    for one, part in zip(labs, parts, strict=True):
        if first_counts.get(one.lab) != Counts.of(part):
            raise ReplearnError(
                f"the rows of {one.lab!r} must be those of its first round, got others: "
                f"{one.rows:,} rows. Begin anew, or ask that lab."
            )


def _coalition(
    study: GlmStudy,
    labs: Sequence[LabSums],
    parts: Sequence[ExactSums],
    total: ExactSums,
    fitted: Fitted,
    spreads: Vector,
    opened: GlmModel | None = None,
    nonce: str | None = None,
    between_of: Callable[[CentreFits], Between] | None = None,
) -> Coalition:
    """The coalition's model beside the original, and its labs beside each other.

    ``between_of`` says what centres differ by; by default what the study states.
    """
    n_rows = fitted.counts.rows
    agreement = agreement_of(study, fitted.model, fitted.theta, n_rows, opened, nonce)
    replication = compare_with_original(agreement)

    # the numbers that each lab alone would have
    numbers = _numbers_by_one_step(study.design, fitted.behind)
    own = np.array([numbers(part) for part in parts])
    sizes = np.array([one.rows for one in labs], dtype=np.float64)

    # Cochran's Q of each number
    centre = sizes @ own / sizes.sum()
    q = (sizes[:, None] * ((own - centre) / spreads) ** 2).sum(axis=0)

    # each lab beside all others together
    participants = []
    for one, part, alone in zip(labs, parts, own, strict=True):
        rest = None
        if len(labs) > 1:
            rest = numbers(_less(total, part))
        participants.append(
            _participant(study, replication.names, fitted, one, alone, rest, spreads)
        )

    lab_names = tuple(one.lab for one in labs)
    fits = CentreFits(lab_names, own, sizes)
    between_of = between_of or (lambda _: study.centres)
    return Coalition(
        agreement.usable,
        replication,
        beside_the_others(participants, fits, spreads**2, replication.names, between_of),
        q,
        _one_population(q, len(labs)),
        near_copies(lab_names, own / spreads, sizes),
        fits,
    )


def _numbers_by_one_step(design: GlmDesign, behind: LastIterate) -> Callable[[ExactSums], Vector]:
    """The coordinates that some rows alone would have, by one step from the last point."""
    loss, ridge = design.loss, float(design.ridge)
    factor = newton.direction_of(behind, loss, ridge).factor

    def numbers(sums: ExactSums) -> Vector:
        gradient, weight = sums.values["gradient"], sums.count("weight")
        # past points have the gradients of all labs
        own = replace(behind, gradient=gradient, weight=weight, past=(), direction=None)
        step = newton.direction_of(own, loss, ridge, factor).step
        return design.coordinates.of_theta(behind.theta + on_grid(step, THETA_BITS))

    return numbers


def _less(total: ExactSums, part: ExactSums) -> ExactSums:
    """The sums of all labs but one."""
    values = {name: value - part.values[name] for name, value in total.values.items()}
    return ExactSums(total.of, values)


def _participant(
    study: GlmStudy,
    names: Sequence[str],
    fitted: Fitted,
    one: LabSums,
    own: Vector,
    rest: Vector | None,
    spreads: Vector,
) -> Participant:
    """A lab with its own numbers and those of the rest; None if it is the only one."""
    cells, published, codes = study.design.cells, study.design.published, fitted.model.codes
    reach = 1.96 * spreads / math.sqrt(one.rows) / study.widths
    landed = Landed(cells.offsets(own, published) - codes, reach)
    if rest is None:
        return Participant(one.lab, one.rows, True, 1.0, names[0], landed)

    # what the model would be without it, and how far it is from the rest
    moved = np.flatnonzero(cells.replicate(rest, published) != codes)
    scale = spreads * math.sqrt(1 / one.rows + 1 / (fitted.counts.rows - one.rows))
    away = np.abs(own - rest) / scale
    return Participant(
        one.lab,
        one.rows,
        not moved.size,
        one_population_p(away),
        names[int(np.argmax(away))],
        landed,
    )


def _one_population(q: Vector, n_labs: int) -> float:
    """p-value of the largest of Cochran's Q, for any correlation."""
    if n_labs < 2:
        return 1.0
    from scipy.special import chdtrc

    return min(1.0, q.size * float(chdtrc(n_labs - 1, float(q.max()))))


def near_copies(names: Sequence[str], scaled: Matrix, sizes: Vector) -> tuple[tuple[str, str], ...]:
    """Pairs of labs that are more similar than different rows ever are.

    Squared differences of independent labs add up to a chi-square. Spreads may be twice too large:
    hence the factor 4.
    """
    from scipy.special import chdtr

    n_pairs, n_numbers = max(1, len(names) * (len(names) - 1) // 2), scaled.shape[1]
    pairs = []
    for i in range(len(names) - 1):
        # this lab beside all that come later
        unit = 1 / sizes[i] + 1 / sizes[i + 1 :]
        totals = ((scaled[i] - scaled[i + 1 :]) ** 2).sum(axis=1) / unit
        chance = chdtr(n_numbers, 4 * totals)

        copies = i + 1 + np.flatnonzero(chance < 1e-4 / n_pairs)
        pairs += [(names[i], names[j]) for j in copies.tolist()]
    return tuple(pairs)
