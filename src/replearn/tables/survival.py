"""Times to an event as rows at risk: one for each interval in which a person was under observation.

A piecewise exponential model is a Poisson regression of such rows: the event is the count, and the
logarithm of the time at risk the offset. Labs expand their rows by published cuts, so they do so
alike.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from replearn.documents import decimal_text
from replearn.errors import ReplearnError
from replearn.exact import log
from replearn.tables.cells import Column, Texts
from replearn.tables.encoding import INTERVAL
from replearn.tables.labels import target_numbers
from replearn.tables.table import Batch, Table
from replearn.types import Vector

#: A column that expanded rows have beside their interval: the logarithm of the time at risk.
AT_RISK = "(log time at risk)"
#: What all rows at risk of a person have in common, if the table says it: role, and column.
_OF_PERSONS = {"groups": "(group)", "centres": "(centre)"}
#: Events in each interval, at least; and intervals, at most.
LEAST_EVENTS, _MOST_INTERVALS = 20, 20


def event_numbers(column: Column) -> Vector:
    """0 where a time is censored and 1 where the event was seen; anything else is refused."""
    values = target_numbers(column, "the event")
    distinct = set(values.tolist())
    if distinct <= {0.0, 1.0}:
        return values

    shown = ", ".join(f"{value:g}" for value in sorted(distinct)[:5])
    remedy = "Recode it so, such as 1 and 2 of R's tables as 0 and 1."
    if len(distinct) > 2:
        remedy = (
            "Competing events (a death from something else) are no censoring: they need a model "
            "for each, which a study does not have. Count all of them as the event, or study one "
            "outcome at a fixed time with a logistic model."
        )
    raise ReplearnError(
        "the event must be 1 where it was seen and 0 where the time is censored, got "
        f"{shown}. {remedy}"
    )


def event_times(column: Column) -> Vector:
    """Positive times of all rows."""
    values = target_numbers(column, "the time")
    if (values <= 0).any():
        raise ReplearnError(
            f"the time must be positive in every row, got {int((values <= 0).sum()):,} rows with 0 "
            "or less. Leave them out, or add half of the smallest unit."
        )
    return values


def cuts_of(times: Vector, events: Vector, least_events: int = LEAST_EVENTS) -> tuple[str, ...]:
    """Where intervals end: quantiles of event times in three digits, so many events between."""
    seen = np.sort(times[events > 0])
    if len(seen) < least_events:
        raise ReplearnError(
            f"a survival study needs at least {least_events:,} events, got {len(seen):,}. Get more "
            "rows, or wait for more events."
        )

    n_intervals = min(_MOST_INTERVALS, len(seen) // least_events)
    cuts: list[str] = []
    start = 0.0  # of the interval that the next cut ends
    for k in range(1, n_intervals):
        text = decimal_text(float(seen[k * len(seen) // n_intervals]), 3)
        cut = float(text)
        inside = np.count_nonzero((seen > start) & (seen <= cut))
        beyond = np.count_nonzero(seen > cut)
        if inside >= least_events <= beyond:  # ties and rounding move events across
            cuts.append(text)
            start = cut
    return tuple(cuts)


def interval_names(cuts: Sequence[str]) -> tuple[str, ...]:
    """What intervals are called."""
    starts = ("0", *cuts)
    last = f"after {starts[-1]}"
    return (*(f"{a} to {b}" for a, b in zip(starts, cuts, strict=False)), last)


def time_at_risk(times: Vector, cuts: Sequence[str]) -> np.ndarray:
    """Time that each row spends in each interval."""
    starts = np.array([0.0, *map(float, cuts)])
    ends = np.append(starts[1:], np.inf)
    return np.clip(np.minimum(times[:, None], ends) - starts, 0.0, None)


def rows_at_risk(table: Table, cuts: Sequence[str], event: str) -> Table:
    """A table whose target is the time and whose offset the event, with a row for each interval."""
    for name in (INTERVAL, AT_RISK):
        if name in table.names:
            raise ReplearnError(f"no column may be called {name!r}. Rename it.")
    if "weights" in table.roles:
        raise ReplearnError("a survival study takes no weights of rows. Leave them out.")
    table.require("target")
    table.require("offset")
    intervals = interval_names(cuts)
    table = table.kept()  # people are fewer than rows at risk

    def read(names: Sequence[str], n_rows: int) -> Iterator[dict[str, Column]]:
        for batch in table.batches(max(1, n_rows // len(intervals))):
            columns = _expanded(batch, cuts, intervals, event)
            yield {name: columns[name] for name in names}

    roles = {"target": event, "offset": AT_RISK}
    roles |= {role: name for role, name in _OF_PERSONS.items() if role in table.roles}
    return Table(
        table.place, (*table.names, INTERVAL), None, read, levels=table.levels, roles=roles
    )


def _expanded(
    batch: Batch, cuts: Sequence[str], intervals: tuple[str, ...], event: str
) -> dict[str, Column]:
    assert batch.y is not None
    assert batch.offset is not None
    times, seen = event_times(batch.y), event_numbers(batch.offset)
    exposure = time_at_risk(times, cuts)
    row, interval = np.nonzero(exposure > 0)

    # an event belongs to the last interval of its row
    is_last = np.append(row[1:] != row[:-1], True)

    columns: dict[str, Column] = {name: batch.column(name)[row] for name in batch.names}
    columns[INTERVAL] = Texts(interval.astype(np.int32), intervals)
    # a library's logarithm differs in the last bit between machines
    columns[AT_RISK] = log(exposure[row, interval])
    columns[event] = seen[row] * is_last
    for role, name in _OF_PERSONS.items():
        of_persons = getattr(batch, role)
        if of_persons is not None:
            columns[name] = of_persons[row]
    return columns
