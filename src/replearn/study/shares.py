"""Sums that nobody sees: each lab splits its own into random shares, one for each lab.

A lab adds up the shares that it got, one from each lab, and sends the result to whoever combines.
Modulo 2^128 the shares of a lab add up to its sums, and all of them but one are random. So the
results of all labs give the total of all labs, and without one of them nothing.
"""

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Annotated, Any

import numpy as np

from replearn.documents import Document, Integers, Length, Sha256, Unfit
from replearn.errors import ReplearnError, short
from replearn.rows import EVERY_ROW, ExactSums, WholeNumbers
from replearn.study.disclosure import (
    count_groups,
    groups_counted,
    refuse_few_together,
    refuse_heavy_rows,
)
from replearn.study.passes import LEAST_LABS, LabName, State, add_up
from replearn.study.study import GlmStudy
from replearn.study.sums import at_state, summed
from replearn.tables import LEAST_COUNT
from replearn.types import Ints
from replearn.words import Facts, Row, Spoken

#: Shares are whole numbers modulo this: far more than any total.
MODULUS = 1 << 128
_MOST_LABS = 1000
_COUNT_FIRST = (
    "Count the rows of all labs in a first round of shares, and pass what each lab added up "
    "(counted=); if these are few, too, ask for a study without such terms."
)


@dataclass(frozen=True)
class Share(Spoken, Document):
    """A part of the sums of one lab, or what a lab gets by adding up such parts of all labs.

    Attributes
    ----------
    study, state : SHA-256
        What the sums were made with.
    labs : tuple of str
        All labs that take part, in the order of their names.
    to : str
        The lab that adds up.
    numbers : array
        Modulo 2^128: random, without those of all other labs.
    lab : str or None
        Whose sums it is a part of. None: the parts of all labs are added up.
    """

    FORMAT = "replearn/share"

    study: Sha256
    state: Sha256
    labs: Annotated[tuple[LabName, ...], Length(LEAST_LABS, _MOST_LABS)]
    to: LabName
    numbers: Annotated[WholeNumbers, Integers(1, 0, MODULUS - 1, 1 << 24)]
    lab: LabName | None = None

    def check(self) -> None:
        """Labs are different, and named in order."""
        if list(self.labs) != sorted(set(self.labs)):
            raise Unfit("labs must be different, in the order of their names")
        if self.to not in self.labs or self.lab not in (None, *self.labs):
            raise Unfit("lab and to must be among the labs")

    def facts(self) -> Facts:
        """What it is, and where it goes."""
        size = f"{self.numbers.size:,} random numbers"
        rows = [Row("labs", len(self.labs)), Row("study", self.study), Row("state", self.state)]
        if self.lab is None:
            headline = f"What {self.to!r} got from {len(self.labs)} labs, added up: {size}."
            sent = (
                "Send the file to whoever combines: with those of all labs it gives totals. That "
                "of the first round is for all labs, who look at its counts."
            )
        else:
            headline = f"A share of the sums of {self.lab!r} for {self.to!r}: {size}."
            sent = f"Send the file to {self.to!r} alone, on a way that nobody else can read."
        return Facts(headline, [sent], details=rows)


def lab_shares(
    study: Any,
    table: Any,
    state: State | None = None,
    *,
    lab: str,
    labs: Sequence[str],
    counted: Iterable[Share] = (),
    least_count: int = LEAST_COUNT,
) -> dict[str, Share]:
    """Secret shares of the sums of a lab's rows, one for each lab of a coalition.

    Parameters
    ----------
    study : path, Study or fitted estimator
        The study that all labs fit together.
    table : path, dataframe, Arrow data or Table
        With the columns and the target of the study.
    state : State, optional
        What `combine` gave after the last round; ``study.begin()`` in the first.
    lab : str
        Name of this lab.
    labs : sequence of str
        Names of all labs, this one included: three or more.
    counted : iterable of Share
        What all labs added up in the first round, got from each of them: their counts of rows.
        Without them this lab must have rows enough by itself, as for `lab_sums`.
    least_count : int, default=10
        Rows of each term and class, of all labs together, or none; and as many must weigh about
        the same at the coefficients of the round.

    Returns
    -------
    shares : dict of str and Share
        By the lab that each is for. This lab keeps its own.

    See Also
    --------
    lab_sums : sums that whoever combines may see.
    combine : adds up the shares that a lab got; then what all labs made of them.

    Notes
    -----
    Additive secret sharing [BGW88]: all shares but one are drawn at random modulo 2^128, and the
    last makes up for them. What all labs but one, and whoever combines, see together is their own
    and the total. A total of 1 to 9 rows shows them as sums of one lab would, so each lab looks at
    the counts of all before it answers: the first round has nothing else.

    References
    ----------
    .. [BGW88] Ben-Or, Goldwasser and Wigderson. Completeness theorems for non-cryptographic
       fault-tolerant distributed computation. STOC 1988.

    Examples
    --------
    >>> import replearn as rl
    >>> labs = {name: rl.datasets.load_readmission(name, 900) for name in rl.datasets.CENTRES[:3]}
    >>> table = rl.datasets.load_readmission("Ashford", 3000)
    >>> study = rl.ReplicableLogisticClassifier().fit(table, table.pop("readmitted")).study_
    >>> sent = [rl.lab_shares(study, labs[name], lab=name, labs=[*labs]) for name in labs]
    >>> added = [rl.combine(study, *(shares[name] for shares in sent)) for name in labs]
    >>> rl.combine(study, *added).counts.rows
    2700
    """
    study, state = at_state(study, state)
    names = _checked_names(lab, labs)
    if 0 < state.sample_threshold < EVERY_ROW:
        raise ReplearnError(
            "a round of shares must take all rows, got one of a sample, which may have few of a "
            "term. Combine the shares of the first round again."
        )
    source, sums = summed(study, table, state)
    counts = count_groups(study.design, source, state.sample_threshold)

    # whoever combines gets totals, so that labs themselves look at what these are of
    if state.newton is not None:
        together = _together(study, names, counts, tuple(counted))
        refuse_few_together(study.design, together, least_count, _COUNT_FIRST)
        refuse_heavy_rows(study.design, source, state.newton, least_count, of_terms=False)

    # counts travel along: those of the first round are for all labs
    left = _in_one_line({**sums.values, "counted": counts.astype(object)})
    shares = {}
    for name in names:
        part = left
        if name != names[-1]:
            part = _random(left.size)
            left = (left - part) % MODULUS
        shares[name] = Share(study.fingerprint, state.fingerprint, names, name, part, lab)
    return shares


def _together(
    study: GlmStudy, names: tuple[str, ...], own: Ints, counted: tuple[Share, ...]
) -> WholeNumbers | Ints:
    """Rows of each group at all labs, or at this lab if nobody has counted."""
    if not counted:
        return own

    begun = study.begin()
    for one in counted:
        if (one.study, one.state, one.labs) != (study.fingerprint, begun.fingerprint, names):
            raise ReplearnError(
                "counted must be what these labs added up in the first round of this study, got "
                "something else. Get it from each lab."
            )
    total = add_shares(counted)
    if isinstance(total, Share):
        raise ReplearnError(
            "counted must be what each lab added up, got shares. Combine those of each lab first."
        )

    # the first round has no matrix, and so no sample
    _, together = unpack_total(study, begun, total)
    if (together[0] < own[0]).any():
        raise ReplearnError(
            "counted must be at least the rows that this lab has, got fewer. Use the table of the "
            "first round, and get what each lab added up from that lab itself."
        )
    return together


def add_shares(shares: Iterable[Share]) -> Share | WholeNumbers:
    """What one lab got from all labs, added up; or the totals, if all labs did so."""
    shares = list(shares)
    first = shares[0]

    # nothing of two rounds is added up: the result would look as random as any other
    for one in shares:
        if (one.study, one.state, one.labs) != (first.study, first.state, first.labs):
            raise ReplearnError(
                "shares must be of one round and of the same labs, got those of two. Make them "
                "anew with the same --state and --shares."
            )
        if one.numbers.size != first.numbers.size:
            raise ReplearnError("shares must have as many numbers each, got different ones.")

    # a lab has one share of each, or whoever combines has what each lab made of its own
    is_sent = {one.lab is not None for one in shares}
    if is_sent == {True}:
        if len({one.to for one in shares}) > 1:
            raise ReplearnError(
                "a lab adds up the shares that are for itself, got those for "
                f"{_listed({one.to for one in shares})}. Take those for one lab."
            )
        _check_all(first.labs, [str(one.lab) for one in shares], "one share from")
    elif is_sent == {False}:
        _check_all(first.labs, [one.to for one in shares], "what was added up at")
    else:
        raise ReplearnError(
            "shares must be those that one lab got, or those that all labs added up, got both."
        )

    if is_sent == {True}:
        total = reduce(add, (one.numbers for one in shares)) % MODULUS
        return Share(first.study, first.state, first.labs, first.to, total)
    return joined_shares(shares)


def joined_shares(shares: Iterable[Share]) -> WholeNumbers:
    """What all shares of one lab, or what all labs made of theirs, add up to."""
    total = reduce(add, (one.numbers for one in shares)) % MODULUS
    return np.where(total >= MODULUS // 2, total - MODULUS, total)  # some sums are negative


def unpack_total(
    study: GlmStudy, state: State, total: WholeNumbers
) -> tuple[ExactSums, WholeNumbers]:
    """The sums of all labs, and counts of rows of each group, from what was added up."""
    groups, classes = groups_counted(study.design)
    asked = dict(add_up(study.design, state, ()).values)
    asked["counted"] = np.zeros((2, len(groups), len(classes)), dtype=object)
    sizes = [asked[name].size for name in sorted(asked)]
    if total.size != sum(sizes):
        raise ReplearnError(
            "the shares are not those that the round asks for. Make them anew with its state."
        )

    parts = np.split(total, np.cumsum(sizes)[:-1])
    values = {
        name: part.reshape(asked[name].shape)
        for name, part in zip(sorted(asked), parts, strict=True)
    }
    counted = values.pop("counted")
    return ExactSums(state.fingerprint, values), counted


def _in_one_line(values: dict[str, WholeNumbers]) -> WholeNumbers:
    """All numbers, in the order of the names of their arrays, modulo 2^128."""
    line = np.concatenate([values[name].reshape(-1) for name in sorted(values)])
    return np.asarray(line.astype(object) % MODULUS)


def _random(size: int) -> WholeNumbers:
    drawn = secrets.token_bytes(16 * size)
    numbers = [int.from_bytes(drawn[16 * i : 16 * i + 16]) for i in range(size)]
    return np.array(numbers, dtype=object)


def _checked_names(lab: str, labs: Sequence[str]) -> tuple[str, ...]:
    if isinstance(labs, str):
        raise ReplearnError(f"labs must be a sequence of names, got the text {labs!r}.")
    names = tuple(sorted(set(labs)))
    if len(names) < LEAST_LABS or len(names) < len(labs):
        raise ReplearnError(
            f"shares are for {LEAST_LABS} different labs or more, got {short(list(labs))}: of two "
            "each could take its own from the total."
        )
    if lab not in names:
        raise ReplearnError(
            f"lab must be one of the labs that take part, got {lab!r}. They are {_listed(names)}."
        )
    return names


def _check_all(labs: Sequence[str], names: Sequence[str], what: str) -> None:
    """Each lab must be there, once."""
    absent = sorted(set(labs) - set(names))
    if absent:
        raise ReplearnError(f"there must be {what} each lab, got none of {_listed(absent)}.")
    if len(names) > len(labs):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ReplearnError(f"there must be {what} each lab, got two of {_listed(twice)}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:5])
