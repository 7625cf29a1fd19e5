"""An audit by real centres: each is left out once, and replicates the model of all others.

Random halves of a table show what chance does. Centres show what a new hospital or a new month
will: whether it gets the model, whether its patients support it, and how well the model predicts
there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import LEAST_CENTRE
from replearn.reports.counts import interval_of, verdict_of
from replearn.reports.random_effects import (
    AS_IS,
    LEAST_CENTRES,
    LOG,
    LOGIT,
    RandomEffects,
    Scale,
    pooled,
)
from replearn.study import GlmReplication, Measure, Support
from replearn.types import Array, Ints
from replearn.words import (
    Facts,
    Figure,
    Mark,
    Row,
    Spoken,
    Table,
    counted,
    followed,
    forest,
    percent,
)

#: Each centre takes a fit of all others.
MOST_CENTRES = 100
#: What is pooled: its name, its scale, and where it is perfect.
_MEASURES: tuple[tuple[str, Scale, float | None], ...] = (
    ("AUC", LOGIT, None),
    ("observed to expected", LOG, 1.0),
    ("calibration slope", AS_IS, 1.0),
)
_TRIPOD = (
    "TRIPOD+AI: 12d, differences between centres were quantified by leaving each out; 23b, the "
    "table gives performance by centre; 24, replearn update recalibrates where a centre differs."
)


@dataclass(frozen=True)
class LeftOut:
    """A centre that replicated the model of the others, or why it could not."""

    name: str
    n_rows: int
    replication: GlmReplication | None
    reason: str = ""  # why it has no model

    @property
    def verdict(self) -> str:
        """In one word."""
        return "no model" if self.replication is None else self.replication.verdict

    @property
    def same(self) -> bool:
        """Whether it got the model of the others."""
        return self.replication is not None and bool(self.replication.same)

    @property
    def support(self) -> Support | None:
        """What its patients say about the model of the others."""
        return None if self.replication is None else self.replication.support

    def measure(self, name: str) -> Measure | None:
        """AUC, observed to expected or calibration slope of the others' model here."""
        support = self.support
        if support is None:
            return None
        if name == "AUC":
            return support.model.auc
        if name == "observed to expected":
            return support.ratio
        return None if support.line is None else support.line[1]


@dataclass(frozen=True)
class CentreAudit(Spoken):
    """Agreement, support and performance, centre by centre.

    Attributes
    ----------
    by : str
        What names the centres.
    centres : tuple of LeftOut
        What each centre got from the others, with its name, rows and verdict.
    small : tuple of str
        Centres with fewer than 50 rows, which are never left out.
    claim : float
        Share of new centres that may differ.
    of_study : bool
        Whether the centres replicated one given study; else each that of all others.

    See Also
    --------
    audit : makes one, with ``by``.

    Notes
    -----
    Each centre in turn replicates the study of all others. Measures are pooled with random
    effects, and the interval for a new centre is that of [Higgins09].

    References
    ----------
    .. [Higgins09] Higgins, Thompson and Spiegelhalter. A re-evaluation of random-effects meta-
       analysis. Journal of the Royal Statistical Society A 172(1), 2009.

    Examples
    --------
    >>> import pandas as pd
    >>> import replearn as rl
    >>> names = ("Ashford", "Birchwood", "Castleton", "Dunmore")
    >>> table = pd.concat([rl.datasets.load_readmission(name, 500) for name in names])
    >>> y = table.pop("readmitted")
    >>> hospital = [name for name in names for _ in range(500)]
    >>> found = rl.audit(rl.ReplicableLogisticClassifier(), table, y, by=hospital)
    >>> [(one.name, one.n_rows) for one in found.centres][:2]
    [('Ashford', 500), ('Birchwood', 500)]
    >>> found.claim, found.verdict
    (0.01, 'undecided')
    """

    by: str
    centres: tuple[LeftOut, ...]
    small: tuple[str, ...]
    claim: float
    of_study: bool = False

    @property
    def n_rows(self) -> int:
        """Of all centres."""
        return sum(one.n_rows for one in self.centres)

    @property
    def n_same(self) -> int:
        """Centres that got the model."""
        return sum(one.same for one in self.centres)

    @property
    def contradicting(self) -> list[str]:
        """Centres whose patients contradict it, whether or not they got it."""
        return [one.name for one in self.centres if one.support and one.support.contradicts]

    @property
    def verdict(self) -> str:
        """Word for it: "within" if the claim is shown, "exceeds" if refuted, else "undecided"."""
        return verdict_of(len(self.centres) - self.n_same, len(self.centres), self.claim)

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper-Pearson, 95%: of the share of centres that get the model."""
        # of centres that agree; the limits are those of centres that differ
        low, high = interval_of(len(self.centres) - self.n_same, len(self.centres))
        return 1 - high, 1 - low

    def summary(self, measure: str) -> RandomEffects | None:
        """Random-effects summary of "AUC", "observed to expected" or "calibration slope"."""
        scale = next(scale for name, scale, _ in _MEASURES if name == measure)
        values = [one.measure(measure) for one in self.centres]
        return pooled([value for value in values if value is not None], scale)

    @property
    def summaries(self) -> dict[str, RandomEffects]:
        """All of them that three centres or more have."""
        pairs = ((name, self.summary(name)) for name, _, _ in _MEASURES)
        return {name: one for name, one in pairs if one is not None}

    def facts(self) -> Facts:
        """In words."""
        n_centres = len(self.centres)
        whose = "the study's model" if self.of_study else "the model of all others"
        against = self.contradicting
        # many names would hide the answer
        named = f" ({', '.join(against)})" if 0 < len(against) <= 3 else ""
        verdict = (
            f"{self.n_same} of {counted(n_centres, 'centre')} got {whose}; the patients of "
            f"{len(against) or 'none'}{named} contradict it."
        )
        items: list[Any] = [
            *self._new_centre_rows(),
            self._centre_table(),
            *self._summary_tables(),
            Row("agreement", self.n_same / n_centres, "%", self.interval),
            f"Planned are {percent(1 - self.claim)}: {_MEANINGS[self.verdict]}.",
            *(f"{one.name!r} has no model: {one.reason}" for one in self.centres if one.reason),
        ]

        # centres that are too small to judge
        if self.small:
            named = ", ".join(map(repr, self.small[:3]))
            items.append(f"Centres of fewer than {LEAST_CENTRE} rows were not left out: {named}.")
        return Facts(
            verdict,
            [*items, _TRIPOD],
            figures=self._figures(),
            values={
                "verdict_word": self.verdict,
                "same": self.n_same,
                "contradicting": len(against),
            },
        )

    def _new_centre_rows(self) -> list[Row]:
        """Where a new centre lies, since that is what somebody elsewhere wants to know."""
        return [
            Row(name, one.mean.value, "", one.new_centre, "a new centre", in_json=False)
            for name, one in self.summaries.items()
        ]

    def _centre_table(self) -> Table:
        """Those that did not confirm the model come first: a long table is cut."""
        rows: list[tuple[Any, ...]] = []
        for one in sorted(self.centres, key=lambda one: one.verdict == "confirmed"):
            measures = [one.measure(name) for name, _, _ in _MEASURES]
            values = [None if measure is None else measure.value for measure in measures]
            rows.append((one.name, one.n_rows, one.verdict, *values))
        header = (self.by, "rows", "verdict", "AUC", "obs/exp", "slope")
        return Table(
            "Each centre, left out", header, rows, key="centres", digits=(0, 0, 0, 3, 3, 3)
        )

    def _summary_tables(self) -> list[Table]:
        if not self.summaries:
            return []
        rows = [
            (name, one.mean.value, one.mean.low, one.mean.high, *one.new_centre, one.between)
            for name, one in self.summaries.items()
        ]
        header = ("measure", "mean", "from", "to", "new: from", "to", "spread")
        title = "Random effects: the mean of centres, and where a new centre lies (95%)"
        return [Table(title, header, rows, key="summaries", digits=(0, *[3] * 6))]

    def _figures(self) -> list[Figure]:
        """A forest for each measure."""
        return [
            Figure(
                f"{name} by {self.by}",
                lambda name=name: self._forest(name),  # type: ignore[misc]
                "Lines are 95% intervals; the last one is where a new centre lies.",
            )
            for name in self.summaries
        ]

    def _forest(self, name: str) -> str:
        marks: list[Mark] = []
        for one in self.centres:
            if (measure := one.measure(name)) is not None:
                marks.append(_mark(one.name, measure))

        # below the centres: their mean, and where a new one lies
        summary = self.summaries[name]
        mean = summary.mean
        marks.append(_mark("mean of centres", mean))
        marks.append(_mark("a new centre", Measure(mean.value, *summary.new_centre)))

        perfect = next(line for other, _, line in _MEASURES if other == name)
        if perfect is None:
            return forest(marks, mean.value, "mean")
        return forest(marks, perfect, "perfect")


_MEANINGS = {
    "within": "shown",
    "exceeds": "refuted",
    "undecided": "too few centres to show or refute it",
}


def _mark(name: str, measure: Measure) -> Mark:
    text = f"{measure.value:.2f} ({measure.low:.2f} to {measure.high:.2f})"
    return name, text, measure.value, measure.low, measure.high


def places_of(names: Array) -> tuple[dict[str, Ints], tuple[str, ...]]:
    """Rows of each centre that is large enough, and the names of those that are not."""
    # a row without a centre belongs to none
    texts = np.array(["" if _is_missing(name) else str(name) for name in names.tolist()])
    known, codes = np.unique(texts, return_inverse=True)
    rows = {str(name): np.flatnonzero(codes == i) for i, name in enumerate(known) if name != ""}

    # a fit on few rows shows chance, and may show a person
    large = {name: places for name, places in rows.items() if len(places) >= LEAST_CENTRE}
    if not LEAST_CENTRES <= len(large) <= MOST_CENTRES:
        raise ReplearnError(
            f"by must name {LEAST_CENTRES} to {MOST_CENTRES} centres of at least {LEAST_CENTRE} "
            f"rows, got {len(large)}. Name a column of hospitals or months."
        )
    return large, tuple(name for name in rows if name not in large)


def _is_missing(value: Any) -> bool:
    return value is None or value != value


def leave_each_out(
    centre: Array,
    replicated: Callable[[Ints], GlmReplication],
    claim: float,
    by: str,
    of_study: bool = False,
) -> CentreAudit:
    """Let each centre replicate; a centre that cannot, without an event, say, has no model.

    ``centre`` names that of each row, and ``replicated`` takes the places of one's rows.
    """
    places, small = places_of(centre)
    centres = []
    for name, rows in followed(places.items(), "auditing", len(places)):
        try:
            centres.append(LeftOut(name, len(rows), replicated(rows)))
        except ReplearnError as error:
            centres.append(LeftOut(name, len(rows), None, str(error)))
    return CentreAudit(by, tuple(centres), small, claim, of_study)
