"""The steps of a replication: fit, agreement with the original, what the patients say of it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import GLM, PROMISED_ROWS, Estimates, GlmModel, Hazard
from replearn.rows import MemoryBlocks, Rows, copied_share, joined, threshold_for
from replearn.study.encoder import RowEncoder, TableRows, read_rows
from replearn.study.evidence import Evidence
from replearn.study.opening import Opened, opened_by
from replearn.study.own_estimates import estimates_in_range, own_estimates
from replearn.study.placebo import placebo_matches
from replearn.study.replication import GlmReplication, People
from replearn.study.study import MOST_SPREAD, GlmStudy
from replearn.study.support import Support, support_of
from replearn.tables import EncodingCounts, Finding, Table, compare_profiles, persons_seen
from replearn.types import Ints, Later, Matrix, Vector
from replearn.words import Landed, percent

#: Numbers next to a wall that are moved to look for the original's model, one or two at a time.
_MOVED = 24
#: Rows that are compared with each other, about.
_MOST_COMPARED = 1 << 14

#: What is kept of rows that come in several calls: these, what was seen in them, and label counts.
Stream = tuple[MemoryBlocks, EncodingCounts, Any]


def replicate(
    study: GlmStudy, table: Table, opened: Any = None, n_jobs: int | None = None
) -> tuple[GlmModel, GlmReplication]:
    """Fit a study on a lab's own rows.

    With what opens the study (see `opened_by`) the answer says what differs. Threads change no bit.
    """
    known = opened_by(study, opened)
    source = TableRows(table, RowEncoder.of(study.design))
    rows = read_rows(source, n_jobs)
    own = partial(own_estimates, source, rows)
    return _replicated(study, rows, source.seen, source.label_counts, own, known)


def replicate_more(
    study: GlmStudy, table: Table, before: Stream | None = None
) -> tuple[Stream, GlmModel, GlmReplication]:
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
    own = partial(estimates_in_range, rows, source.encoder, seen)
    return (rows, seen, counts), *_replicated(study, rows, seen, counts, own, Opened())


def _replicated(
    study: GlmStudy,
    rows: Rows,
    seen: EncodingCounts,
    label_counts: Ints | None,
    own: Callable[[Matrix], Estimates | None],
    known: Opened,
) -> tuple[GlmModel, GlmReplication]:
    """The same for encoded rows; ``seen`` and ``label_counts`` describe their table.

    ``own`` gives a lab's own estimates from its fit.
    """
    design = study.design
    fitted = GLM.run(rows, design)
    model = GlmModel(design, fitted.codes).with_constants_of(rows)
    agreement = agreement_of(study, model, fitted.theta, fitted.n_used, known)

    def profiles() -> list[Finding]:
        counts = None if label_counts is None else label_counts.tolist()
        return compare_profiles(design.encoding, study.profile, seen, counts, study.planned_rows)

    replication = supported_by(agreement, profiles, rows)
    people = None
    if isinstance(design.loss, Hazard):
        n_events = sum(int(block.targets.sum()) for block in rows.blocks())
        planned = study.persons_of(study.n_replication)
        people = People(persons_seen(design.encoding, seen), n_events, planned)
    own_later = Later(partial(own, fitted.theta))
    return agreement.usable, replace(replication, own_later=own_later, people=people)


def supported_by(
    agreement: "Agreement", profiles: Callable[[], Sequence[Finding]], rows: Rows
) -> GlmReplication:
    """What a lab's fit and its patients say about the original's model.

    The patients are ``rows``: all, or some of them. What ``profiles`` finds of all comes first.
    Each answer takes as long as the fit, and is made when it is read.
    """
    study, original = agreement.study, agreement.original

    def support() -> Support | None:
        if original is None:
            return None
        here = original.with_constants_of(rows)
        return support_of(study, here, rows, agreement.theta)

    supported = Later(support)

    def spreads() -> Vector | None:
        tested = supported()
        return None if tested is None else tested.test.spreads

    def findings() -> tuple[Finding, ...]:
        beside = spread_findings(study, spreads(), rows.n_rows)
        return (*profiles(), *beside, *copies_findings(rows))

    def evidence() -> Evidence:
        proof = study.evidence(agreement.model, spreads())
        if not agreement.same or proof.is_weak:
            return proof
        return replace(proof, placebo=placebo_matches(study, agreement.model, rows))

    return replace(
        compare_with_original(agreement),
        support_later=supported,
        findings_later=Later(findings),
        evidence_later=Later(evidence),
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


def copies_findings(rows: Rows) -> tuple[Finding, ...]:
    """Whether the table holds rows twice, or three times."""
    if rows.n_rows < PROMISED_ROWS:
        return ()

    # by content, so that copies are together: which rows are compared depends on no order
    sample_threshold = threshold_for(_MOST_COMPARED, rows.n_rows)
    kept = [block.part(block.marks.astype(np.int64) < sample_threshold) for block in rows.blocks()]
    share = copied_share(np.concatenate([block.hashes for block in kept]))
    if not share:
        return ()
    how_many = "every row occurs at least twice"
    if share < 1:
        how_many = f"{percent(share)} of the rows occur again"
    return (
        Finding(
            "",
            f"{how_many}: does the table hold copies? Leave them out, because tests and standard "
            "errors count them as patients",
        ),
    )


@dataclass(frozen=True)
class Agreement:
    """A lab's fit of a study, and what is known about the original's model."""

    study: GlmStudy
    model: GlmModel  # that the lab's codes stand for
    theta: Matrix  # its fit, in whole units
    n_rows: int
    original: GlmModel | None = None
    same: bool | None = None
    same_slopes: bool | None = None

    @property
    def usable(self) -> GlmModel:
        """The lab's model, which nobody can use if it is not the original's."""
        return replace(self.model, is_mismatch=self.same is False)


def agreement_of(
    study: GlmStudy, model: GlmModel, theta: Matrix, n_rows: int, known: Opened
) -> Agreement:
    """Whether a lab's model is the original's, and that one as far as the lab knows it."""
    opened, nonce = known
    if study.sealed and opened is not None and nonce is None:
        raise ReplearnError(
            "a sealed study needs its opening, which proves that the model is the original's, got "
            "a model alone. Pass --opened a.opening.json too."
        )

    # an open model says more than commitments to it
    fit = study, model, theta, n_rows
    if opened is not None:
        if opened.design != study.design or study.commits_to(opened.fingerprint, nonce) is False:
            raise ReplearnError(
                "the opened model must be the one that the study commits to, got a different one. "
                "Ask the original for its model file."
            )
        is_same = opened.fingerprint == model.fingerprint
        has_slopes = opened.without_constants == model.without_constants
        return Agreement(*fit, opened, is_same, has_slopes)

    same = study.commits_to(model.fingerprint, nonce)
    same_slopes = study.commits_to_slopes(model, nonce)
    if same:
        return Agreement(*fit, model, same, same_slopes)

    # a model that is nearly the original's finds it: the study commits to one of its neighbours
    original = None
    if same_slopes and study.design.constant is None:
        original = _with_other_constants(study, model, nonce)
    elif same is False and not study.sealed:
        original = _neighbour(study, model, study.design.coordinates.of_theta(theta))
    return Agreement(*fit, original, same, same_slopes)


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


def compare_with_original(agreement: Agreement) -> GlmReplication:
    """What a lab's fit says about the original's model."""
    study, model, n_rows = agreement.study, agreement.model, agreement.n_rows
    design, agreed = study.design, study.design.is_agreed
    names = tuple(name for name, one in zip(design.number_names, agreed, strict=True) if one)

    # where the numbers of this lab lie, in cells from that of the original
    z = design.coordinates.of_theta(agreement.theta)
    offsets = design.cells.offsets(z, design.published)[agreed]
    known = agreement.original or model
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
        evidence_later=Later(lambda: study.evidence(model)),
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
