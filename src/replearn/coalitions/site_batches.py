"""What Algorithm 1 makes of one site's rows: exact sums of the vectors of its whole batches."""

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.files.jsonfile import Unfit, read_integer, read_object
from replearn.kernels.score_sums import MAX_TOTAL_WEIGHT
from replearn.kernels.tally import BATCHES, TallyArrays, is_possible, new_tally
from replearn.stages.batches import BatchSums, no_sums
from replearn.types import IntegerArray

#: Batches of a coalition: limbs of vectors no longer than 8 have room for them.
MAX_BATCHES = (1 << 30) - 1

_KEYS = {"batch_size", "batches", "extremes", "hi", "labels", "lo", "rows", "tally"}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_REAL = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?(e[+-][0-9]{1,3})?|inf")


@dataclass(frozen=True, eq=False)
class SiteBatches:
    """Sums of the vectors of whole batches, and counts."""

    batches: BatchSums  # by group; batches are numbered from 0 at each site
    n_rows: int  # those after the last whole batch too
    class_weights: IntegerArray  # two counts

    @property
    def total_weight(self) -> int:
        """Number of rows."""
        return self.n_rows

    def __add__(self, other: "SiteBatches") -> "SiteBatches":
        if self.batches.hi.shape != other.batches.hi.shape:
            raise ReplearnError(
                f"sums must be of as many features everywhere, got {self.batches.hi.shape[1]} and "
                f"{other.batches.hi.shape[1]} numbers. Use the same columns at all sites."
            )
        if self.batches.n_batches + other.batches.n_batches > MAX_BATCHES:
            raise ReplearnError(
                f"sums must be of at most {MAX_BATCHES:,} batches in total: they would overflow. "
                "Leave out the file with the odd count."
            )
        return SiteBatches(
            self.batches.beside(other.batches),
            self.n_rows + other.n_rows,
            self.class_weights + other.class_weights,
        )


def batches_content(found: SiteBatches) -> dict[str, Any]:
    """Sums as JSON types; integers of more than 53 bits stand in text."""
    sums = found.batches
    used = sums.group_counts().size  # groups without batches hold nothing
    return {
        "batch_size": sums.batch_size,
        "batches": sums.group_counts().tolist(),
        "extremes": [repr(float(value)) for value in sums.counted.extremes],
        "hi": [_texts(group) for group in sums.hi[:used]],
        "labels": found.class_weights.tolist(),
        "lo": [_texts(group) for group in sums.lo[:used]],
        "rows": found.n_rows,
        "tally": _texts(sums.counted.counts),
    }


def read_batches(value: Any, n_inputs: int | None, batch_size: int) -> SiteBatches:
    """Sums that rows can have given; ``n_inputs`` if the protocol says how long vectors are."""
    content = read_object(value, "'sums'", _KEYS)
    if read_integer(content["batch_size"], "batch_size", 1, MAX_TOTAL_WEIGHT) != batch_size:
        raise Unfit(f"batches must have {batch_size:,} rows, got {content['batch_size']:,}")
    n_rows = read_integer(content["rows"], "rows", 1, MAX_TOTAL_WEIGHT)
    labels = _counts(content["labels"], "labels", n_rows)
    if len(labels) != 2 or sum(labels) != n_rows:
        raise Unfit(f"labels must be two counts that add up to {n_rows} rows")
    counts = np.array(_counts(content["batches"], "batches", MAX_BATCHES), dtype=np.int64)
    n_batches = int(counts.sum())
    if not (counts > 0).all() or not 1 <= n_batches <= MAX_BATCHES:
        raise Unfit(f"batches must be counts of 1 to {MAX_BATCHES:,} batches in all")
    if n_batches * batch_size > n_rows:
        raise Unfit(f"{n_batches:,} batches of {batch_size:,} rows cannot be of {n_rows:,} rows")
    hi, lo = (_groups(content[name], name, counts.size, n_inputs) for name in ("hi", "lo"))
    if hi.shape != lo.shape:
        raise Unfit("hi and lo must have one shape")
    empty = no_sums(hi.shape[1], batch_size)
    if counts.size > empty.hi.shape[0]:
        raise Unfit(f"there must be at most {empty.hi.shape[0]} groups, got {counts.size}")
    empty.hi[: counts.size], empty.lo[: counts.size] = hi, lo
    sums = replace(empty, counted=_tally(content, n_batches), counts=counts)
    if not sums.are_possible():
        raise Unfit("no batch vector is longer than 8; the numbers do not come from rows")
    return SiteBatches(sums, n_rows, np.array(labels, dtype=np.int64))


def _texts(values: IntegerArray) -> list[str]:
    return [str(int(value)) for value in values]


def _counts(value: Any, name: str, most: int) -> list[int]:
    if not isinstance(value, list) or not value:
        raise Unfit(f"{name} must be a list of counts")
    return [read_integer(count, f"a count of {name}", 0, most) for count in value]


def _integers(value: Any, name: str) -> list[int]:
    if not isinstance(value, list) or not all(
        isinstance(text, str) and _INTEGER.fullmatch(text) and text != "-0" for text in value
    ):
        raise Unfit(f"{name} must be lists of whole numbers, as text")
    numbers = [int(text) for text in value]
    if any(not -(1 << 62) < number < 1 << 62 for number in numbers):
        raise Unfit(f"{name} must have at most 62 bits")
    return numbers


def _groups(value: Any, name: str, n_groups: int, n_inputs: int | None) -> IntegerArray:
    if not isinstance(value, list) or len(value) != n_groups:
        raise Unfit(f"{name} must be a list of {n_groups} groups")
    rows = [_integers(group, name) for group in value]
    widths = {len(row) for row in rows}
    if len(widths) != 1 or 0 in widths or (n_inputs is not None and widths != {n_inputs}):
        raise Unfit(f"groups of {name} must have {n_inputs or 'as many'} numbers each")
    return np.array(rows, dtype=np.int64)


def _tally(content: dict[str, Any], n_batches: int) -> TallyArrays:
    empty = new_tally()
    counts, extremes = _integers(content["tally"], "tally"), content["extremes"]
    if len(counts) != empty.counts.size or counts[BATCHES] != n_batches:
        raise Unfit(f"the tally must be {empty.counts.size} counts of {n_batches:,} batches")
    if not isinstance(extremes, list) or len(extremes) != empty.extremes.size:
        raise Unfit(f"extremes must be {empty.extremes.size} numbers, as text")
    if not all(isinstance(text, str) and _REAL.fullmatch(text) for text in extremes):
        raise Unfit("extremes must be numbers, as text")
    tally = TallyArrays(np.array(counts, dtype=np.int64), np.array(list(map(float, extremes))))
    if not is_possible(tally):
        raise Unfit("the tally must count what can happen in that many batches")
    return tally
