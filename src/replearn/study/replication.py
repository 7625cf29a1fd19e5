"""The replication: the same model from other rows, or what differs."""

import math
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, Literal

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import GLM, PROMISED_ROWS, Estimates, GlmModel
from replearn.rows import MemoryBlocks, Rows, joined, marks, row_hashes
from replearn.study.encoder import RowEncoder, TableRows, read_rows
from replearn.study.evidence import Evidence
from replearn.study.own_estimates import estimates_in_range, own_estimates
from replearn.study.performance import Performance
from replearn.study.placebo import placebo_matches
from replearn.study.study import MOST_SPREAD, GlmStudy
from replearn.study.support import Support, support_of
from replearn.tables import EncodingCounts, Finding, Table, compare_profiles, in_sentences
from replearn.types import Ints, Later, Matrix, Vector
from replearn.words import Facts, Figure, Landed, Row, Spoken, p_value, where_we_landed

#: Numbers next to a wall that are moved to look for the original's model, one or two at a time.
_MOVED = 24
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
    findings_later: Later[tuple[Finding, ...]] = field(compare=False, repr=False)
    support_later: Later[Support | None] = field(compare=False, repr=False)
    own_later: Later[Estimates | None] = field(default=Later.known(None), compare=False, repr=False)

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
        if support is not None and (support.gain.high < 0 or support.rung in _DENIED):
            return "contradicted"
        if self.look_first:
            return "questioned"

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
        items.append(Row("rows here", self.n_rows, note=f"planned for {self.replication_rows:,}"))

        details: list[Any] = [*findings[MOST_TOLD:]]
        if support is not None:
            details += support.details()
        details += agreement_rows(self.disagreement, self.at_new_centre, self.n_rows)
        details.append(
            Row("guesses that find the model", self.evidence.guesses, note="from the study alone")
        )

        told = findings[:MOST_TOLD]
        return Facts(self._sentence(), items, details, [self._picture()], self._values(), told)

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
        same, it, beats = "The same model", "it", "it beats"
        if self.local_constant:
            same, it, beats = "The same slopes, with your own constant", "them", "they beat"
        if verdict == "confirmed":
            return f"{same}, and your patients support {it}."
        if verdict == "questioned":
            return f"{same}, but look at {_listed(self.look_first)}."
        if verdict == "unsupported":
            return f"{same}, but your {self.n_rows:,} rows do not show that {beats} your base rate."
        if verdict == "undecided" and support is None:
            return f"{same}; whether the patients support {it} was not tested."
        if verdict == "undecided":
            return (
                f"{same}; your {self.n_rows:,} rows are too few to show whether {beats} your base "
                "rate."
            )
        if verdict == "contradicted":
            assert support is not None
            return f"{same}, but your patients contradict {it} ({self._why(support)})."
        if verdict == "same slopes":
            assert support is not None
            what, differs = _base_risk(support)
            if self.same:
                return f"The same model, but the {what} {differs}."
            return f"The same model but for the {what}, which {differs}."
        if verdict == "untold":
            made = "A model was made; the study does not tell whether it is the original's."
            return f"{made} Look at {_listed(self.look_first)}." if self.look_first else made
        return "A different model: these rows do not give the original's model. Do not use this."

    def _why(self, support: Support) -> str:
        if support.rung == "model":
            return "it is worse than your base rate"
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
                "original's model."
            ]
        if verdict == "same slopes":
            return [_UPDATE_CONSTANT]
        if verdict in ("contradicted", "unsupported"):
            assert support is not None
            return [_next_command(support)]
        if verdict == "different":
            return self._why_different()

        if verdict == "questioned":  # whoever updated first would fit the wrong columns
            return [_RECODE]
        if support is None:
            return []
        return _miscalibrated(support)

    def _why_different(self) -> list[str]:
        """Too few rows, the rung that was reached, coefficients; and what to do."""
        support, reasons = self.support, []
        if self.n_rows < self.replication_rows and self.disagreement > 0.05:
            reasons.append(
                f"{self.n_rows:,} rows are few: the study was planned for "
                f"{self.replication_rows:,}."
            )
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
#: Rows that are compared with each other, about.
_MOST_COMPARED = 1 << 14


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
    if support.gain.high < 0:
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


def agreement_rows(disagreement: float, at_new_centre: float, n_rows: int) -> list[Row]:
    """How often a lab with so many rows gets the original's model, with each condition."""
    rates = {"a sample of the original's patients": disagreement, "a new centre": at_new_centre}
    # an estimate: nobody knows that it never happens
    return [
        Row(f"agreement, {name}", max(1 - rate, 1e-5), "%", note=f"estimated for {n_rows:,} rows")
        for name, rate in rates.items()
    ]


def replicate(
    study: GlmStudy,
    table: Table,
    opened: GlmModel | None = None,
    nonce: str | None = None,
    n_jobs: int | None = None,
) -> tuple[GlmModel, GlmReplication]:
    """Fit a study on a lab's own rows.

    With the original's model, once it is open, the answer says what differs; a nonce opens the
    commitment of a sealed study. Threads change no bit.
    """
    source = TableRows(table, RowEncoder.of(study.design))
    rows = read_rows(source, n_jobs)
    return replicate_rows(
        study, rows, source.seen, source.label_counts, opened, nonce, source=source
    )


def replicate_more(
    study: GlmStudy, table: Table, before: tuple[MemoryBlocks, EncodingCounts, Any] | None = None
) -> tuple[tuple[MemoryBlocks, EncodingCounts, Any], GlmModel, GlmReplication]:
    """The same for the rows of a table and those ``before``; what is kept of both comes first."""
    source = TableRows(table, RowEncoder.of(study.design))
    rows = read_rows(source)
    if not isinstance(rows, MemoryBlocks):
        raise ReplearnError("rows of one call must fit into memory. Pass fewer at a time.")
    seen, counts = source.seen, source.label_counts

    # rows of many calls are those of one
    if before is not None:
        rows = MemoryBlocks(joined([before[0].block, rows.block]))
        seen.add(before[1])
        counts = None if counts is None else counts + before[2]
    return (rows, seen, counts), *replicate_rows(study, rows, seen, counts)


def replicate_rows(
    study: GlmStudy,
    rows: Rows,
    seen: EncodingCounts,
    label_counts: Ints | None,
    opened: GlmModel | None = None,
    nonce: str | None = None,
    source: TableRows | None = None,
) -> tuple[GlmModel, GlmReplication]:
    """The same for rows that are encoded; ``seen`` and ``label_counts`` describe their table.

    Own estimates ask the ``source`` of the rows for numbers beyond the study's range.
    """
    design = study.design
    fitted = GLM.run(rows, design)
    theta, summary = fitted.theta, fitted.summary
    model = GlmModel(design, fitted.codes).with_constants_of(rows)

    agreement = agreement_of(study, model, theta, opened, nonce)

    def profiles() -> tuple[Finding, ...]:
        counts = None if label_counts is None else label_counts.tolist()
        return tuple(
            compare_profiles(design.encoding, study.profile, seen, counts, study.planned_rows)
        )

    def own() -> Estimates | None:
        if source is not None:
            return own_estimates(source, rows, theta)
        n_beyond = int(seen.clipped.sum())
        return estimates_in_range(rows, RowEncoder.of(design), theta, n_beyond)

    replication = supported_by(
        study, model, theta, summary.n_rows, agreement, Later(profiles), rows, summary.n_rows
    )
    return agreement.usable(model), replace(replication, own_later=Later(own))


def supported_by(
    study: GlmStudy,
    model: GlmModel,
    theta: Matrix,
    n_rows: int,
    agreement: "Agreement",
    profiles: Later[tuple[Finding, ...]],
    rows: Rows,
    n_tested: int,
) -> GlmReplication:
    """What a lab's fit and its patients say about the original's model.

    The patients are ``rows``: all, or so many of them. What ``profiles`` found of all comes first.
    """

    # this takes as long as the fit, and is made when it is read
    def support() -> Support | None:
        if agreement.original is None:
            return None
        original = agreement.original.with_constants_of(rows)
        return support_of(study, original, rows, n_tested, theta)

    supported = Later(support)

    def spreads() -> Vector | None:
        tested = supported()
        return None if tested is None else tested.test.spreads

    def findings() -> tuple[Finding, ...]:
        beside = spread_findings(study, spreads(), n_tested)
        return (*profiles(), *beside, *copies_findings(rows, n_tested))

    def evidence() -> Evidence:
        proof = study.evidence(model, spreads())
        if not agreement.same or proof.is_weak:
            return proof
        return replace(proof, placebo=placebo_matches(study, model, rows, n_tested))

    return compare_with_original(
        study, model, theta, n_rows, agreement, Later(findings), Later(evidence), supported
    )


def spread_findings(study: GlmStudy, spreads: Vector | None, n_rows: int) -> tuple[Finding, ...]:
    """Whether rows here vary as the study states: what a match proves rests on that."""
    if spreads is None or n_rows < PROMISED_ROWS:
        return ()
    ratio = study.stated_spreads / np.maximum(spreads, 1e-30)

    # wide cells for a few numbers are enough to forge; narrow ones are odd if they are many
    is_wide = ratio > MOST_SPREAD
    odd = int(np.count_nonzero(is_wide | (ratio < 1 / MOST_SPREAD)))
    if not is_wide.any() and 2 * odd <= ratio.size:
        return ()
    return (
        Finding(
            "",
            f"the spreads of {odd} of {ratio.size} coefficients are not what the study states; "
            "these count nothing in what a match proves",
        ),
    )


def copies_findings(rows: Rows, n_rows: int) -> tuple[Finding, ...]:
    """Whether the table holds all of its rows twice, or three times.

    Rows of few levels are alike by nature; then they are few kinds, and some of them stand alone.
    """
    if n_rows < PROMISED_ROWS:
        return ()

    # by content, so that copies are together: which rows are compared depends on no order
    share = min(1 << 32, (_MOST_COMPARED << 32) // n_rows)
    kept = [block.part(marks(block.terms).astype(np.int64) < share) for block in rows.blocks()]
    hashes = np.concatenate([row_hashes(block) for block in kept])
    copies = np.unique(hashes, return_counts=True)[1]
    if copies.size < PROMISED_ROWS // 3 or copies.min() < 2 or copies.sum() > 3 * copies.size:
        return ()
    return (
        Finding(
            "",
            "every row occurs at least twice: does the table hold copies? Leave them out, because "
            "tests and standard errors count them as patients",
        ),
    )


@dataclass(frozen=True)
class Agreement:
    """What is known about the original's model."""

    original: GlmModel | None
    same: bool | None
    same_slopes: bool | None

    def usable(self, model: GlmModel) -> GlmModel:
        """A lab's model, which nobody can use if it is not the original's."""
        return replace(model, is_mismatch=True) if self.same is False else model


def agreement_of(
    study: GlmStudy,
    model: GlmModel,
    theta: Matrix,
    opened: GlmModel | None = None,
    nonce: str | None = None,
) -> Agreement:
    """Whether a lab's model is the original's, and that one as far as the lab knows it."""
    if study.sealed and opened is not None and nonce is None:
        raise ReplearnError(
            "a sealed study needs its opening, which proves that the model is the original's, got "
            "a model alone. Pass --opened a.opening.json too (nonce= in Python)."
        )

    # an open model says more than commitments to it
    if opened is not None:
        if opened.design != study.design or study.commits_to(opened.fingerprint, nonce) is False:
            raise ReplearnError(
                "the opened model must be the one that the study commits to, got a different one. "
                "Ask the original for its model file."
            )
        same = opened.fingerprint == model.fingerprint
        same_slopes = opened.without_constants == model.without_constants
        return Agreement(opened, same, same_slopes)

    committed = study.commits_to(model.fingerprint, nonce)
    committed_slopes = study.commits_to_slopes(model, nonce)
    if committed:
        return Agreement(model, committed, committed_slopes)

    # a model that is nearly the original's finds it: the study commits to one of its neighbours
    original = None
    if committed_slopes and study.design.constant is None:
        original = _with_other_constants(study, model, nonce)
    elif committed is False and not study.sealed:
        original = _neighbour(study, model, study.design.coordinates.of_theta(theta))
    return Agreement(original, committed, committed_slopes)


def _with_other_constants(study: GlmStudy, model: GlmModel, nonce: str | None) -> GlmModel | None:
    """The original's model, if only its constants differ: the nearest ones that it commits to."""
    n_scores = study.design.loss.n_scores
    reach = {1: 200, 2: 8, 3: 3}.get(n_scores, 1)
    places = np.arange(n_scores) * study.design.coordinates.n_columns

    # nearest first, as far as that takes no time
    moves = product(sorted(range(-reach, reach + 1), key=abs), repeat=min(n_scores, 6))
    for move in sorted(moves, key=lambda m: sum(map(abs, m))):
        codes = model.codes.copy()
        codes[places[: len(move)]] += np.array(move)
        other = GlmModel(study.design, codes)
        if study.commits_to(other.fingerprint, nonce):
            return other
    return None


def compare_with_original(
    study: GlmStudy,
    model: GlmModel,
    theta: Matrix,
    n_rows: int,
    agreement: Agreement,
    findings: Later[tuple[Finding, ...]] | None = None,
    evidence: Later[Evidence] | None = None,
    support: Later[Support | None] | None = None,
) -> GlmReplication:
    """What a lab's fit says about the original's model."""
    design, agreed = study.design, study.design.is_agreed
    names = tuple(name for name, one in zip(design.number_names, agreed, strict=True) if one)

    # where the numbers of this lab lie, in cells from that of the original
    z = design.coordinates.of_theta(theta)
    offsets = design.cells.offsets(z, design.published)[agreed]
    known = model if agreement.original is None else agreement.original
    own, codes = model.codes[agreed], known.codes[agreed]

    # codes that differ, the furthest first; and numbers next to a wall
    apart = np.flatnonzero(own != codes)
    furthest = apart[np.argsort(-np.abs(offsets - codes)[apart], kind="stable")]
    nearest = np.argsort(np.abs(np.abs(offsets - own) - 0.5), kind="stable")[:5]

    reach = 1.96 * study.stated_spreads / math.sqrt(n_rows) / study.widths
    return GlmReplication(
        same=agreement.same,
        same_slopes=agreement.same_slopes,
        fingerprint=model.fingerprint,
        n_rows=n_rows,
        disagreement=study.disagreement(n_rows),
        at_new_centre=study.disagreement(n_rows, new_centre=True),
        apart=tuple(names[i] for i in furthest),
        nearest=tuple(names[i] for i in nearest),
        names=names,
        landed=Landed(offsets - codes, reach[agreed]),
        replication_rows=study.n_replication,
        local_constant=design.constant == "local",
        evidence_later=evidence or Later(lambda: study.evidence(model)),
        findings_later=findings or Later(tuple),
        support_later=support or Later(lambda: None),
    )


def _neighbour(study: GlmStudy, model: GlmModel, z: Vector) -> GlmModel | None:
    """The original's model, if one or two numbers next to a wall make the difference."""
    offsets = study.design.cells.offsets(z, study.design.published) - model.codes
    order = np.argsort(np.abs(np.abs(offsets) - 0.5), kind="stable")
    walls = order[study.design.is_agreed[order]][:_MOVED].tolist()

    # each beyond its wall, alone or in pairs
    across = np.where(offsets > 0, 1, -1)
    for places in (*combinations(walls, 1), *combinations(walls[:8], 2)):
        codes = model.codes.copy()
        for i in places:
            codes[i] += across[i]
        other = GlmModel(study.design, codes)
        if study.commits_to(other.fingerprint):
            return other
    return None
