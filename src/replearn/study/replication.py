"""The replication: the same model from other rows, or what differs."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from replearn.glm import Estimates
from replearn.study.evidence import Evidence
from replearn.study.performance import Performance
from replearn.study.support import Support
from replearn.tables import Finding, in_sentences
from replearn.types import Later, Vector
from replearn.words import Facts, Figure, Landed, Row, Spoken, p_value, where_we_landed

#: Questions about columns that stand beside a verdict; of more the rest is under details.
MOST_TOLD = 6

Verdict = Literal[
    "confirmed",
    "contradicted",
    "questioned",
    "unsupported",
    "undecided",
    "same slopes",
    "different",
    "untold",
]


class People(NamedTuple):
    """Persons of a survival study, each of whom has a row for each interval at risk."""

    here: int
    events: int
    planned: int | None  # about, from the study

    def row(self) -> Row:
        """In words."""
        note = f"{self.events:,} events"
        if self.planned is not None:
            note += f"; planned for about {self.planned:,}"
        return Row("persons here", self.here, note=note)


class Replication(Spoken):
    """Whether a lab got the original's model.

    Attributes
    ----------
    same : bool or None
        Agreement. None: the study is sealed, or registered, and does not tell.
    fingerprint : str
        Of this lab's codes.
    n_rows : int
        Rows of this lab.

    See Also
    --------
    replearn.study.GlmReplication : with what the patients say about the model.
    """

    same: bool | None
    fingerprint: str
    n_rows: int

    @property
    def verdict(self) -> Verdict:
        """Agreement and support in one word."""
        raise NotImplementedError

    @property
    def succeeded(self) -> bool:
        """Whether nothing speaks against the model: what a command's exit code says."""
        return self.verdict in ("confirmed", "undecided", "untold")


@dataclass(frozen=True)
class GlmReplication(Replication):
    """Whether a lab got the original's model, whether its patients support it, and what follows.

    Attributes
    ----------
    same : bool or None
        Agreement. None: the study is sealed, or registered, and does not tell.
    same_slopes : bool or None
        Whether the model is the original's but for the constants.
    fingerprint : str
        Of this lab's codes.
    disagreement : float
        Estimated probability that a sample of so many rows of the original's population gets a
        different model.
    at_new_centre : float
        The same for a new centre, which differs as centres do.
    apart : tuple of str
        Coefficients whose codes differ from the original's, as far as that is known.
    nearest : tuple of str
        If the original's model is not known: numbers of this lab that lie next to a wall.
    landed : Landed
        Where this lab's numbers lie in their cells, with 95% intervals.
    n_rows : int
        Rows of this lab.
    names : tuple of str
        Names of the coefficients.
    replication_rows : int
        Rows for which the study promises the model.
    local_constant : bool
        Whether labs agree on slopes, and each has a constant of its own.
    people : People or None
        Of a survival study: persons, events, and persons for whom it was planned. Their rows are
        rows at risk.

    See Also
    --------
    ReplicableLogisticClassifier : its ``replication_`` is one.
    replearn.study.support.Support : what the rows say about the model.

    Notes
    -----
    Agreement, support, performance and evidence are four things: whether codes are equal,
    whether the rows contradict the model, how well it predicts here, and what a match proves.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> other = rl.datasets.load_readmission("Birchwood", 1000)
    >>> target = other.pop("readmitted")
    >>> second = rl.ReplicableLogisticClassifier(study=first.study_).fit(other, target)
    >>> found = second.replication_
    >>> found.same, found.verdict, found.apart
    (True, 'confirmed', ())
    >>> found.fingerprint == first.fingerprint_
    True
    >>> found
    <GlmReplication: The same model, and your patients support it.>
    """

    same: bool | None
    same_slopes: bool | None
    fingerprint: str
    n_rows: int
    disagreement: float
    at_new_centre: float
    apart: tuple[str, ...]
    nearest: tuple[str, ...]
    names: tuple[str, ...]
    landed: Landed
    replication_rows: int
    local_constant: bool  # labs agree on slopes, and each has a constant of its own
    # what takes as long as the fit and not everybody reads
    evidence_later: Later[Evidence] = field(compare=False, repr=False)
    findings_later: Later[tuple[Finding, ...]] = field(
        compare=False, repr=False, default=Later.known(())
    )
    support_later: Later[Support | None] = field(
        compare=False, repr=False, default=Later.known(None)
    )
    own_later: Later[Estimates | None] = field(compare=False, repr=False, default=Later.known(None))
    people: People | None = None  # of survival

    @property
    def evidence(self) -> Evidence:
        """What a match proves."""
        return self.evidence_later()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Columns that look different at this lab."""
        return self.findings_later()

    @property
    def support(self) -> Support | None:
        """What this lab's patients say about the original's model; None while it is not known."""
        return self.support_later()

    @property
    def performance(self) -> Performance | None:
        """Of the original's model on this lab's rows."""
        return None if self.support is None else self.support.model

    @property
    def own(self) -> Estimates | None:
        """What this lab's own rows say about each coefficient, without the ridge."""
        return self.own_later()

    @property
    def positions(self) -> Vector:
        """Where this lab's numbers lie in their cells, from -0.5 to 0.5."""
        return self.landed.positions

    @property
    def look_first(self) -> tuple[str, ...]:
        """Columns without a value or a spread, in a different unit, or with exchanged levels.

        Agreement says nothing about them, and support nothing about the model as it should be.
        """
        return tuple(finding.column for finding in self.findings if finding.first)

    @property
    def verdict(self) -> Verdict:
        """Agreement and support in one word.

        "confirmed": the same model, and the patients support it; "contradicted": the same model,
        and they do not; "questioned": the same model, but columns look wrong here;
        "unsupported": the same model, and rows as many as were planned do not show that it beats
        the base rate; "undecided": the same, with fewer rows; "same slopes": the base risk
        alone differs, whether or not the constants are equal; "different"; "untold": sealed or
        registered.
        """
        if self.same is None:
            return "untold"
        if self.same:
            return self._verdict_of_the_same()

        # a different base risk alone
        support = self.support
        if self.same_slopes and support is not None and not support.contradicts_slopes:
            return "same slopes"
        return "different"

    def _verdict_of_the_same(self) -> Verdict:
        """What the patients say about a model that agrees."""
        support, is_small = self.support, self.n_rows < self.replication_rows
        # what is denied is so whatever columns look like; what is not may rest on wrong ones
        if support is not None and (support.worse_than or support.rung in _DENIED):
            return "contradicted"
        if self.look_first:
            return "questioned"

        # then the second leg of support: better than this lab's base rate
        if support is None:
            return "undecided"
        if not support.beats_base_rate and not is_small:
            return "unsupported"
        if support.rung == "slopes":
            return "same slopes"
        return "confirmed" if support.beats_base_rate else "undecided"

    @property
    def succeeded(self) -> bool:
        """Whether nothing speaks against the model, columns to look at first among it."""
        return super().succeeded and not self.look_first

    def facts(self) -> Facts:
        """In words: the verdict first."""
        support, findings = self.support, in_sentences(self.findings)

        # what to do, what a match proves, what the patients say
        items: list[Any] = [*self._next_steps()]
        if self.same is not False:
            items.append(f"Fingerprint {self.fingerprint}")
        if self.same:
            items.append(self.evidence.words())
        if support is not None:
            items += support.rows()
        # how many: of survival as persons, who have several rows each
        if self.people is None:
            planned = f"planned for {self.replication_rows:,}"
            items.append(Row("rows here", self.n_rows, note=planned))
        else:
            items.append(self.people.row())
        if support is not None and support.n_tested < self.n_rows:
            sample = "a sample, chosen by content; the fit has all"
            items.append(Row("rows that were tested", support.n_tested, note=sample))

        details: list[Any] = [*findings[MOST_TOLD:]]
        if support is not None:
            details += support.details()
        details += agreement_rows(self.disagreement, self.at_new_centre, self._size())
        details.append(
            Row("guesses that find the model", self.evidence.guesses, note="from the study alone")
        )

        told = findings[:MOST_TOLD]
        return Facts(self._sentence(), items, details, [self._picture()], self._values(), told)

    def _size(self) -> str:
        """How many rows, or persons, this lab has."""
        if self.people is None:
            return f"{self.n_rows:,} rows"
        return f"{self.people.here:,} persons"

    def _picture(self) -> Figure:
        marks = "A mark outside: a different model."
        if self.same:
            marks = "All marks are inside."
        return Figure(
            "Your estimates and the rounding cells",
            lambda: where_we_landed(self.names, {"this lab": self.landed}),
            f"A box is the cell of one coefficient, a line the 95% interval of this lab. {marks}",
        )

    def _values(self) -> dict[str, Any]:
        """For programs."""
        support = self.support
        values = {
            "verdict": self.verdict,
            "same": self.same,
            "same_slopes": self.same_slopes,
            "fingerprint": self.fingerprint,
            "disagreement": self.disagreement,
            "disagreement_new_centre": self.at_new_centre,
            "guess_bits": self.evidence.bits,
            "look_first": list(self.look_first),
        }
        if support is not None:
            values["p_value"] = support.p_value
            values["p_one_population"] = support.p_one_population
            values["p_constants"] = support.test.p_constants
            values["p_slopes"] = support.test.p_slopes
            values["gain"] = support.gain.value
        return values

    def _sentence(self) -> str:
        """The verdict, as people say it."""
        verdict, support = self.verdict, self.support
        # verdicts that do not speak of one and the same model
        if verdict == "different":
            return (
                "A different model: these rows do not give the original's model. Do not use this."
            )
        if verdict == "untold":
            made = "A model was made; the study does not tell whether it is the original's."
            return f"{made} Look at {_listed(self.look_first)}." if self.look_first else made
        if verdict == "same slopes":
            assert support is not None
            what, differs = _base_risk(support)
            if self.same:
                return f"The same model, but the {what} {differs}."
            return f"The same model but for the {what}, which {differs}."

        # constants that labs fit by themselves are no part of what is the same
        same, it, beats = "The same model", "it", "it beats"
        if self.local_constant:
            same, it, beats = "The same slopes, with your own constant", "them", "they beat"
        return f"{same}{self._of_the_same(it, beats)}."

    def _of_the_same(self, it: str, beats: str) -> str:
        """What the patients say about a model that agrees: the rest of a sentence."""
        verdict, support = self.verdict, self.support
        if verdict == "confirmed":
            return f", and your patients support {it}"
        if verdict == "questioned":
            return f", but look at {_listed(self.look_first)}"
        if support is None:
            return f"; whether the patients support {it} was not tested"
        if verdict == "contradicted":
            return f", but your patients contradict {it} ({self._why(support)})"
        if verdict == "unsupported":
            return f", but your {self._size()} do not show that {beats} your base rate"
        return f"; your {self._size()} are too few to show whether {beats} your base rate"

    def _why(self, support: Support) -> str:
        if support.worse_than and support.rung not in _DENIED:
            return f"it is worse than {support.worse_than}"
        culprits = ", ".join(support.culprits)
        if not culprits and support.rung == "slopes":
            culprits = "the base risk"
        least = p_value(min(support.p_value, support.test.p_slopes))
        return f"{least}: {culprits}" if culprits else least

    def _next_steps(self) -> list[str]:
        """What differs, by how much, and what to do."""
        verdict, support = self.verdict, self.support
        if verdict == "untold":
            return [
                "Compare the fingerprint with those of other labs, or pass --opened with the "
                "original's model; of a sealed study with its opening."
            ]
        if verdict == "same slopes" and not self.look_first:
            return [_UPDATE_CONSTANT]
        if verdict in ("contradicted", "unsupported"):
            assert support is not None
            return [_next_command(support)]
        if verdict == "different":
            return self._why_different()

        if verdict in (
            "questioned",
            "same slopes",
        ):  # whoever updated first would fit the wrong columns
            return [_RECODE]
        if support is None:
            return []
        return _miscalibrated(support)

    def _why_different(self) -> list[str]:
        """Too few rows, the rung that was reached, coefficients; and what to do."""
        support, reasons = self.support, []
        if self.n_rows < self.replication_rows and self.disagreement > 0.05:
            planned = f"{self.replication_rows:,}"
            if self.people is not None and self.people.planned is not None:
                planned = f"about {self.people.planned:,}"
            elif self.people is not None:
                planned += " rows at risk"
            reasons.append(f"{self._size()} are few: the study was planned for {planned}.")
        if support is not None:
            reasons.append(_rung(support))

        # a rung that names columns needs no coefficients beside it
        if self.apart and not (support is not None and _names_columns(support)):
            reasons.append(f"Coefficients that differ: {', '.join(self.apart[:3])}.")
        if self.nearest and not self.apart and support is None:
            listed = ", ".join(self.nearest[:3])
            reasons.append(f"Coefficients nearest to the edge of their cells: {listed}.")

        if support is None:
            return [*reasons, _ASK_ORIGINAL]
        return [*reasons, _next_command(support)]


#: Observed to expected events beyond it (the whole interval), or below its inverse, are told.
_MISCALIBRATED = 1.1
#: What to do next, from the rung that was reached.
_UPDATE_CONSTANT = "Next: replearn update MODEL TABLE --constant fits the base risk here."
_UPDATE_SLOPE = "Next: replearn update MODEL TABLE --slope fits base risk and one factor."
_EVALUATE = "Next: replearn evaluate MODEL TABLE says how well the model predicts here."
_ASK_ORIGINAL = "Next: ask the original for its model, and pass it with --opened."
_PUBLISH = "Next: replearn publish makes a study of your own rows."
_RECODE = "Next: give these columns as the study has them, or say why they differ."

#: Rungs on which patients contradict more than the base risk.
_DENIED = ("factor", "columns")
#: Columns that a verdict names.
_MOST_NAMED = 3


def _listed(columns: tuple[str, ...]) -> str:
    """Columns to look at first, in words."""
    which = "this column" if len(columns) == 1 else "these columns"
    names = ", ".join(columns[:_MOST_NAMED])
    more = len(columns) - _MOST_NAMED
    if more > 0:
        names += f", and {more} more"
    return f"{which} first: {names}"


def _miscalibrated(support: Support) -> list[str]:
    """What to do where agreement holds but the base risk here is a different one."""
    ratio = support.ratio
    if ratio is None or (ratio.low <= _MISCALIBRATED and ratio.high >= 1 / _MISCALIBRATED):
        return []
    return [
        f"Events are {ratio.value:.2g} times as many as the model says: replearn update --constant."
    ]


def _next_command(support: Support) -> str:
    """The command that suits the rung: after Vergouwe, the smallest change that is enough."""
    if support.worse_than:
        return _PUBLISH
    nexts = {"model": _EVALUATE, "slopes": _UPDATE_CONSTANT, "factor": _UPDATE_SLOPE}
    return nexts.get(support.rung, _PUBLISH)


def _base_risk(support: Support) -> tuple[str, str]:
    """What differs and how, in words."""
    if support.ratio is None:
        return "constants", "differ here"
    ratio = support.ratio.value
    if ratio >= 1:
        return "base risk", f"is {ratio:.2g} times as high here"
    return "base risk", f"is {1 / max(ratio, 1e-12):.2g} times as low here"


def _rung(support: Support) -> str:
    """How far the original's model holds here."""
    if support.rung == "model" and support.worse_than:
        return f"The original's model predicts worse here than {support.worse_than}."
    words = {
        "model": "Your patients do not contradict the original's model: chance may be the reason.",
        "slopes": "Your patients have the original's slopes and a different base risk.",
        "factor": "Your patients have the original's slopes up to one factor.",
        "columns": "Your patients contradict these columns: "
        f"{', '.join(support.culprits) or 'several'}.",
    }
    return words[support.rung]


def _names_columns(support: Support) -> bool:
    """Whether the rung is the last one, which says which columns differ."""
    return bool(support.culprits) and support.rung == "columns"


def agreement_rows(disagreement: float, at_new_centre: float, size: str) -> list[Row]:
    """How often a lab of this size gets the original's model, with each condition."""
    rates = {"a sample of the original's patients": disagreement, "a new centre": at_new_centre}
    # an estimate: nobody knows that it never happens
    return [
        Row(f"agreement, {name}", max(1 - rate, 1e-5), "%", note=f"estimated for {size}")
        for name, rate in rates.items()
    ]
