"""Coalitions: labs send exact sums of their rows, round by round, and get one model.

The model is that of all rows together, to the bit; no row leaves its lab. Sums that no rows can
give are refused; labs are compared with each other; a lab that invents whole rows is not noticed,
unless they differ from all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from replearn.errors import ReplearnError, whole_number
from replearn.glm import GlmModel
from replearn.study.agreement import agreement_of, compare_with_original
from replearn.study.disclosure import refuse_few_together
from replearn.study.joint_original import Founded, founded
from replearn.study.opening import Opened, opened_by
from replearn.study.participants import LabsTogether, labs_together, learned_from
from replearn.study.passes import Counts, Member, PooledFit, State, spread_of, spread_state
from replearn.study.plausibility import refuse_impossible
from replearn.study.replication import GlmReplication
from replearn.study.shares import Share, add_shares, unpack_total
from replearn.study.study import GlmStudy
from replearn.study.sums import LabSums, at_state, refuse_small, refuse_two
from replearn.tables import LEAST_COUNT
from replearn.words import Facts, Figure, Row, Spoken, p_value, where_we_landed
from replearn.words import Table as FactTable

#: A lab that claims so many times the rows of the study is not believed unless it is asked for.
MOST_TIMES = 100
#: Labs in a picture, and numbers in a table.
_DRAWN, _LISTED = 6, 20


@dataclass(frozen=True, kw_only=True)
class Coalition(LabsTogether, Spoken):
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

    def facts(self) -> Facts:
        """In words."""
        n_labs, n_rows = self.n_labs, self.replication.n_rows
        verdict = f"{n_labs} labs with {n_rows:,} rows have one model"
        if n_labs == 1:
            verdict = f"1 lab with {n_rows:,} rows has a model"
        if self.replication.same is not None:
            verdict += ": the original's" if self.replication.same else ", not the original's"

        how = "in the cells of the study"
        if self.model.design.bits:
            how = "with the bits that the original published"
        items: list[Any] = [
            f"The fit of all rows, rounded {how}.",
            Row("fingerprint", self.model.fingerprint),
        ]

        # labs beside each other, as far as anybody saw their sums
        details, figures = list[Any](), list[Figure]()
        if self.n_unseen:
            items.append("Labs cannot be compared: only the total of their sums is known.")
        else:
            items += [
                Row("one population?", p_value(self.same_population), key="population"),
                Row("same without a lab", self.agreement, "%", note="of the labs"),
                *self.remarks,
            ]
            invented = "A lab that invents rows like those of the others is not noticed."
            details, figures = [self.table(), self._numbers(), invented], [self._picture()]
        details += self.replication.facts().details
        return Facts(f"{verdict}.", items, details, figures, {"same": self.replication.same})

    def _numbers(self) -> FactTable:
        """Those that differ most, first."""
        names, q = self.replication.names, self.heterogeneity
        order = np.argsort(-q, kind="stable")[:_LISTED]
        return FactTable(
            "Numbers that differ most between labs",
            ("number", "Cochran's Q"),
            [(names[i], float(q[i])) for i in order],
        )

    def _picture(self) -> Figure:
        """Labs in the cells of the model: all, or those that differ most."""
        furthest = sorted(self.labs, key=lambda one: one.p)[:_DRAWN]
        which = ", of those that differ most" if len(self.labs) > _DRAWN else ""
        return Figure(
            "Where labs lie in the cells of the model",
            lambda: where_we_landed(self.replication.names, {x.lab: x.landed for x in furthest}),
            "A box is the cell of one coefficient, a line the 95% interval of one lab "
            f"alone{which}.",
        )


def combine(
    study: Any,
    *sums: LabSums | Share,
    state: State | None = None,
    opened: Any = None,
    most_rows: int | None = None,
    publish: bool = False,
    replication_rows: int | None = None,
) -> "State | Coalition | Founded | Share":
    """Add up the sums of all labs, or secret shares of them.

    Parameters
    ----------
    study : path, Study or fitted estimator
        The study that all labs fit together.
    *sums : LabSums or Share
        One of each lab, of one round, in any order. A lab adds up the shares that it got; who
        combines adds up what all labs made of theirs.
    state : State, optional
        What the labs were asked for; ``study.begin()`` in the first round. After
        ``study.begin(opened)`` one round is all.
    opened : path, model, opening, or a sequence of them, optional
        What opens the study, to say what differs: the original's model, and the opening of a sealed
        one.
    most_rows : int, optional
        That a lab may claim; by default 100 times those of the study.
    publish : bool, default=False
        The labs together are an original: after the fit one round more gives the study of their
        model. The study so far is a draft; see `replearn.study.joint_original`.
    replication_rows : int, optional
        Rows of the smallest replication that the study promises its model; by default as many as
        all labs have. It counts in the last round, and may be passed in all.

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
    Newton's method on the joint loss needs the sums of all rows and no row [Wu12]. Because the sums
    are exact, the joint model is the model of one table, to the bit, whatever the number of labs.
    With many classes labs take fewer and larger steps than a table: last units may differ.

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
    >>> state = study.begin()
    >>> while isinstance(state, type(study.begin())):
    ...     sums = [rl.lab_sums(study, lab, state, lab=str(i)) for i, lab in enumerate(labs)]
    ...     state = rl.combine(study, *sums, state=state)
    >>> state.replication.same
    True
    """
    if publish and opened is not None:
        raise ReplearnError("a joint original does not use opened. Leave it out.")
    if replication_rows is not None and not publish:
        raise ReplearnError("replication_rows is of a joint original. Pass publish=True, too.")
    if replication_rows is not None:
        replication_rows = whole_number("replication_rows", replication_rows)

    study, state = at_state(study, state)
    known = opened_by(study, opened)
    if most_rows is None:
        most_rows = MOST_TIMES * max(study.n_original, study.n_replication)

    shares = [one for one in sums if isinstance(one, Share)]
    if shares:
        if len(shares) < len(sums):
            raise ReplearnError("shares are added up with shares alone. Make all files in one way.")
        found = _of_shares(study, state, shares, most_rows)
        if not isinstance(found, _FitOfShares):
            return found
        if publish:
            return _original(study, state, found.fitted, [found.total], replication_rows, found.n)
        return _coalition(study, [found.total], found.fitted, known, found.n)

    # no sum counts before those of all labs are plausible; the order of files changes nothing
    labs = sorted((one for one in sums if isinstance(one, LabSums)), key=lambda one: one.lab)
    _check_labs(study, state, labs)
    for one in labs:
        refuse_impossible(study.design, state, one.sums, one.lab, most_rows)
    _check_members(state, labs)

    total = reduce(add, (one.sums for one in labs))
    reached = study.step(total, state)
    if isinstance(reached, State) or (publish and not state.then):
        refuse_two(len(labs))

    # the fit goes on
    if isinstance(reached, State):
        if state.asks != "counts":
            return reached
        if publish:  # a share of the rows of an original may hold few of a term
            reached = reached.with_all_rows()
        members = tuple(Member(x.lab, Counts.of(x.sums)) for x in labs)
        return replace(reached.pooled(), members=members)

    # the fit is done, and so is a replication
    if not publish:
        return _coalition(study, labs, reached, known)

    return _original(study, state, reached, labs, replication_rows)


def _original(
    study: GlmStudy,
    state: State,
    fitted: PooledFit,
    labs: Sequence[LabSums],
    replication_rows: int | None,
    n_unseen: int = 0,
) -> State | Founded:
    """An original asks once more, how much single rows move the fit; then it is one."""
    if not state.then:
        return spread_state(state, fitted.theta, fitted.counts, fitted.behind)
    spread = spread_of(state, reduce(add, (one.sums for one in labs)))
    between_of = learned_from(spread.variance, study.design.coordinates)
    together = labs_together(study, fitted, labs, np.sqrt(spread.variance), between_of)
    together = replace(together, n_unseen=n_unseen)
    return founded(study, fitted, spread, together, replication_rows)


class _FitOfShares(NamedTuple):
    """The fit of labs of which the total alone is known."""

    fitted: PooledFit
    total: LabSums
    n: int  # labs


def _of_shares(
    study: GlmStudy, state: State, shares: Sequence[Share], most_rows: int
) -> "State | Share | _FitOfShares":
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
    refuse_small(state, total)
    refuse_few_together(study.design, counted, LEAST_COUNT)

    reached = study.step(total, state)
    if isinstance(reached, State):
        if reached.newton is None:
            return reached
        if reached.sample_threshold:  # of a sample few rows may have a term that many have
            reached = reached.with_all_rows()
        return reached.pooled()
    return _FitOfShares(reached, LabSums.of(study, name, total), n_labs)


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


def _check_members(state: State, labs: Sequence[LabSums]) -> None:
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

    for one in labs:
        if first_counts.get(one.lab) != Counts.of(one.sums):
            raise ReplearnError(
                f"the rows of {one.lab!r} must be those of its first round, got others: "
                f"{one.rows:,} rows. Begin anew, or ask that lab."
            )


def _coalition(
    study: GlmStudy, labs: Sequence[LabSums], fitted: PooledFit, known: Opened, n_unseen: int = 0
) -> Coalition:
    """The coalition's model beside the original, and its labs beside each other."""
    model, theta, n_rows = fitted.model, fitted.theta, fitted.counts.rows
    agreement = agreement_of(study, model, theta, n_rows, known)
    together = labs_together(study, fitted, labs, study.stated_spreads, lambda _: study.centres)
    return Coalition(
        model=agreement.usable,
        replication=compare_with_original(agreement),
        **vars(replace(together, n_unseen=n_unseen)),
    )
