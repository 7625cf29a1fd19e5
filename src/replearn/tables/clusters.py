"""Rows that come in groups (a ward, a hospital, one person): how many rows they are worth.

Rows of one group share luck, so that a level's rows count less. With the correlation ``r`` of two
targets of one group, and ``b`` the mean over a level's rows of how many of them stand in the same
group, n rows are worth ``n / (1 + (b - 1) r)``: the sandwich of a level adds its influences
up within groups, and this is its variance. Kish's design effect is the case of equal groups.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from replearn.tables.cells import levels_of, numbers_of
from replearn.tables.encoding import MISSING
from replearn.tables.safety import LEAST_COUNT
from replearn.tables.scan import TableScan
from replearn.tables.table import Table
from replearn.types import Array, Ints, Ints32, Vector

#: Of one column: rows of each level by group.
_Shared = dict[str, Counter[int]]


@dataclass(frozen=True, eq=False)
class Clusters:
    """Groups of rows.

    Attributes
    ----------
    codes : int64 array
        The group of each row, in the order of the table.
    n_groups : int
    correlation : float
        Of two targets of one group, and a standard error more.
    """

    codes: Ints
    n_groups: int
    correlation: float

    @classmethod
    def of(cls, table: Table, labels: Array) -> "Clusters | None":
        """The groups that a table names; rows without a group are one each."""
        if "groups" not in table.roles:
            return None

        levels, names = levels_of(table.whole("groups"))
        codes = levels.astype(np.int64)
        alone = np.flatnonzero(codes < 0)
        codes[alone] = len(names) + np.arange(alone.size)
        n_groups = len(names) + alone.size
        return cls(codes, n_groups, correlation_within(labels, codes, n_groups))

    def n_independent(self, rows_by_group: Vector) -> float:
        """Independent rows for those of a level, from their number in each group.

        A level of fewer than ten groups may tell of a person, and a lab may not have it; where
        there are fewer than twenty groups it must be in half of them.
        """
        counts = np.asarray(rows_by_group, dtype=np.float64)
        if counts.size < min(LEAST_COUNT, self.n_groups / 2):
            return 0.0

        total = float(counts.sum())
        together = float(counts @ counts) / total  # rows of a row's group, in the mean
        return total / (1.0 + (together - 1.0) * self.correlation)

    def count(self, table: Table, look: TableScan) -> None:
        """Say of each level of a look, and of missing cells, how many independent rows have it."""
        shared: dict[str, _Shared] = {name: defaultdict(Counter) for name in look.columns}
        for batch in table.batches():
            groups = self.codes[batch.rows]
            for name, column in look.columns.items():
                if column.is_counted and not column.too_many:
                    codes, texts = levels_of(batch.column(name))
                elif column.n_missing:  # of numbers only gaps are counted
                    absent = np.isnan(numbers_of(batch.column(name))[0])
                    codes, texts = np.where(absent, -1, 0).astype(np.int32), ("",)
                else:
                    continue
                _add_pairs(shared[name], codes, (*texts, MISSING), groups)

        for name, levels in shared.items():
            look.columns[name].independent = {
                text: self.n_independent(np.array(list(rows.values())))
                for text, rows in levels.items()
            }

    def independent_apart(self, table: Table, centres: dict[str, float]) -> dict[str, float]:
        """Independent rows of those that differ from the centre of their column."""
        counts = {name: np.zeros(self.n_groups) for name in centres}
        for batch in table.batches():
            groups = self.codes[batch.rows]
            for name, centre in centres.items():
                values = numbers_of(batch.column(name))[0]
                apart = (values != centre) & ~np.isnan(values)
                counts[name] += np.bincount(groups[apart], minlength=self.n_groups)
        return {
            name: self.n_independent(by_group[by_group > 0]) for name, by_group in counts.items()
        }


def _add_pairs(shared: _Shared, codes: Ints32, texts: tuple[str, ...], groups: Ints) -> None:
    """Count rows of each level in each group; the last text is that of missing cells."""
    n_groups = int(groups.max()) + 1
    places = np.where(codes < 0, len(texts) - 1, codes).astype(np.int64)
    joint, counts = np.unique(places * n_groups + groups, return_counts=True)
    for pair, n_rows in zip(joint.tolist(), counts.tolist(), strict=True):
        place, group = divmod(pair, n_groups)
        shared[texts[place]][group] += n_rows


def correlation_within(labels: Array, codes: Ints, n_groups: int) -> float:
    """Intra-cluster correlation of targets by analysis of variance, and a standard error more.

    Of classes, the largest of their indicators. Groups that say nothing (all rows alone, or all in
    one group) count as if their rows were one.
    """
    sizes = np.bincount(codes, minlength=n_groups).astype(np.float64)
    sizes = sizes[sizes > 0]
    n_rows, k = float(sizes.sum()), sizes.size
    if k < 2 or k == n_rows:
        return 1.0
    typical = (n_rows - float(sizes @ sizes) / n_rows) / (k - 1)

    targets = [labels.astype(np.float64)]
    if labels.dtype.kind in "iub":
        targets = [(labels == label).astype(np.float64) for label in np.unique(labels)]
    correlation = max(_of_target(target, codes, n_groups, typical) for target in targets)

    # its standard error for k groups of one size, were all targets normal
    error = math.sqrt(2.0 / (typical * max(typical - 1.0, 1e-9) * (k - 1)))
    error *= (1.0 - correlation) * (1.0 + (typical - 1.0) * correlation)
    return min(1.0, correlation + error)


def _of_target(target: Vector, codes: Ints, n_groups: int, typical: float) -> float:
    sizes = np.bincount(codes, minlength=n_groups)
    sums = np.bincount(codes, weights=target, minlength=n_groups)
    held = sizes > 0
    means = sums[held] / sizes[held]

    # mean squares of the analysis of variance
    between = float(sizes[held] @ (means - target.mean()) ** 2) / (means.size - 1)
    total = float(((target - target.mean()) ** 2).sum())
    within = (total - between * (means.size - 1)) / (target.size - means.size)
    if total <= 0:
        return 0.0
    return min(1.0, max(0.0, (between - within) / (between + (typical - 1.0) * within)))
