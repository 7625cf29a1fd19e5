"""A replication on any engine: the passes of a study, each made where the rows are."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

from replearn import __version__
from replearn.errors import ReplearnError
from replearn.glm import GlmDesign, GlmModel
from replearn.rows import MemoryBlocks, joined, row_marks, threshold_for
from replearn.study import (
    GlmReplication,
    GlmStudy,
    PooledFit,
    State,
    Sums,
    agreement_of,
    encode,
    findings_of,
    opened_by,
    supported_by,
)

#: What an engine applies to the batches of each partition.
Work = Callable[[Iterable[Any]], Any]
PassOver = Callable[[Any], Iterable[Any]]  # of a `State`, or of `RowsAsked`
#: Rows that the test of support takes at most: they travel, encoded, to where the answer is made.
MOST_HELD = 1 << 20
#: Of the marks that choose them.
_SALT = 9


def replicate(
    study: GlmStudy, pass_over: PassOver, opened: Any = None
) -> tuple[GlmModel, GlmReplication]:
    """Fit a study on rows that are elsewhere.

    Parameters
    ----------
    study : GlmStudy
    pass_over : function
        Gives what `work` gives of each partition, at a state. The last state asks for rows.
    opened
        As in `replearn.study.agreement.replicate`.
    """
    known = opened_by(study, opened)

    # 1 passes over all rows, until the fit ends
    step: State | PooledFit = study.begin()
    findings: list[Any] = []
    while isinstance(step, State):
        state = step
        total = _total(state, pass_over)
        findings += findings_of(study, total)
        step = study.step(total, state)
    fitted, n_rows = step, step.counts.rows

    # 2 rows for the test of support: all, or as many as one machine holds
    agreement = agreement_of(study, fitted.model, fitted.theta, n_rows, known)
    sample_threshold = 0
    if agreement.original is not None:
        sample_threshold = threshold_for(MOST_HELD, n_rows)
    rows = MemoryBlocks(joined(_results(pass_over, RowsAsked(state.scale, sample_threshold))))

    # 3 the answer
    replication = supported_by(agreement, lambda: findings, rows)
    return agreement.usable, replication


@dataclass(frozen=True)
class RowsAsked:
    """Asked of partitions after a fit: encoded rows, all or a share of 2^32 chosen by content.

    It is no `State`, because those may come from other labs: rows never leave a lab.
    """

    scale: int | None
    sample_threshold: int


def _total(state: State, pass_over: PassOver) -> Sums:
    light = state
    if state.newton is not None and not state.then:  # workers need not know what is behind
        light = replace(state, newton=replace(state.newton, behind=None))
    return replace(reduce(add, _results(pass_over, light)), of=state.fingerprint)


def _results(pass_over: PassOver, asked: State | RowsAsked) -> list[Any]:
    """What each partition gives; an error about its rows is a result, too, and raised here."""
    parts = list(pass_over(asked))
    for part in parts:
        if isinstance(part, ReplearnError):
            raise part
    if not parts:
        raise ReplearnError("there must be partitions with rows, got none. Check the source.")
    return parts


def work(study: GlmStudy, state: State | RowsAsked, keep: bool = False) -> Work:
    """What an engine applies to the batches of each partition; it can keep encoded rows for later.

    An error about the rows is a result, so that nobody tries again.
    """
    return partial(_part, study, state, keep, __version__)


def _part(
    study: GlmStudy, state: State | RowsAsked, keep: bool, version: str, batches: Iterable[Any]
) -> Any:
    try:
        if version != __version__:
            raise other_version(version, __version__)
        if isinstance(state, RowsAsked):
            block = encode(study.design, state.scale, batches).block
            is_asked = row_marks(block, _SALT, apart=False) < state.sample_threshold
            return block.part(is_asked)
        if keep:
            return encode(study.design, state.scale, batches)
        return study.sums(batches, state)
    except ReplearnError as problem:
        return ReplearnError(str(problem))


def columns_of(design: GlmDesign, columns: Iterable[str]) -> list[str]:
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
    """The last line in which Python, Java or gRPC names an error, or else the first line."""
    lines = [
        line.strip().removeprefix("Caused by").lstrip(": ") for line in str(problem).split("\n")
    ]

    names = r"[\w.]*(Error|Exception)\b|details = "
    raised = [line for line in lines if re.match(names, line) and not line.endswith("last):")]
    return (raised[-1:] or [*filter(None, lines), type(problem).__name__])[0][:300].rstrip(".")
