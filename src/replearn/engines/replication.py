"""A replication on any engine: the passes of a study, each made where the rows are."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

from replearn import __version__
from replearn.errors import ReplearnError
from replearn.exact.sums import ExactSums
from replearn.recipes.design import Design
from replearn.recipes.model import Model
from replearn.study.passes import State, add_up
from replearn.study.replication import Replication, compare_with_original
from replearn.study.study import Study
from replearn.tables import Seen, compare_profiles

#: What an engine applies to the batches of each partition.
Work = Callable[[Iterable[Any]], Any]

_KEPT = 1 << 10  # numbers of a column that travel from each partition, to look at units


def replicate(
    study: Study,
    pass_over: Callable[[State], Iterable[Any]],
    opened: Model | None = None,
    nonce: str | None = None,
) -> tuple[Model, Replication]:
    """Fit a study on rows that are elsewhere.

    Parameters
    ----------
    study : Study
    pass_over : function
        Gives what `part` says of each partition, at a state; a `ReplearnError` in its place is
        raised.
    opened, nonce
        As in `replearn.study.replication.replicate`.
    """
    design = study.design
    state = study.begin()
    seen = Seen(design.encoding)
    while True:
        # workers need not know what is behind
        newton = None if state.newton is None else replace(state.newton, behind=None)
        parts = list(pass_over(replace(state, newton=newton)))
        for found in parts:
            if isinstance(found, ReplearnError):
                raise found
        if not parts:
            raise ReplearnError("there must be partitions with rows, got none. Check the source.")
        for _, counted in parts:
            if counted is not None:
                seen.add(counted)
        total = reduce(add, (sums for sums, _ in parts))
        step = study.step(state, ExactSums(state.fingerprint, total.values))
        if not isinstance(step, State):
            break
        state = step
    totals = step.counts.totals
    weighted = design.weights or design.class_weight or design.classes is None
    labels = None if weighted else [int(total) >> 16 for total in totals]
    findings = tuple(compare_profiles(design.encoding, study.profile, seen, labels))
    model = Model(design, design.codes(step.theta))
    return model, compare_with_original(
        study, model, step.theta, step.counts.rows, findings, opened, nonce
    )


def part(design: Design, state: State, version: str, batches: Iterable[Any]) -> Any:
    """What a partition says, made where it is; an error is a result, so that nobody tries again."""
    try:
        if version != __version__:
            raise other_version(version, __version__)
        seen = Seen(design.encoding)
        sums = add_up(design, state, batches, seen)
        return sums, counted_once(state, seen)
    except ReplearnError as problem:
        return ReplearnError(str(problem))


def counted_once(state: State, seen: Seen) -> Seen | None:
    """What was seen, in few numbers, of the pass that counts rows; None of the others."""
    if state.asks != "counts":
        return None
    seen.thin(_KEPT)
    return seen


def work(study: Study, state: State) -> Work:
    """What an engine applies to the batches of each partition."""
    return partial(part, study.design, state, __version__)


def columns_of(design: Design, columns: Iterable[str]) -> list[str]:
    """Columns of a distributed dataframe that the study needs."""
    wanted = [design.target, design.weights, design.offset, *design.encoding.names]
    names = list(dict.fromkeys(name for name in wanted if name is not None))
    absent = sorted(set(names) - set(columns))
    if absent:
        raise ReplearnError(
            f"the dataframe has no column {absent[0]!r}, which the study needs. Rename it."
        )
    return names


def other_version(here: str, there: str) -> ReplearnError:
    """Two versions in one fit."""
    return ReplearnError(
        f"all workers must have replearn {here}, as here, got {there}. Install the same version "
        "everywhere."
    )


def one_line(problem: BaseException) -> str:
    """The first line of what somebody else's code says."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return (lines or [type(problem).__name__])[0][:300].rstrip(".")
