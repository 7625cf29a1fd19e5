"""What an audit found: pairs of fits, the questions they answer, and the result in words."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from replearn.audits.agreement import Agreement, at_other_size, pairs_needed, verdict_in_words
from replearn.errors import ReplearnError
from replearn.types import Drawable


@dataclass(frozen=True)
class Pair:
    """Two fits under one seed, on disjoint samples, and how they compare."""

    question: str  # samples, parts, halves or planned
    index: int
    seeds: str  # fresh or published
    seed: str
    same: bool  # exactly the same model
    churn: float  # share of test rows that get another label
    errors: tuple[float, float]  # test error of each
    angle: float | None  # between the normals, in degrees, where models have coefficients
    coefficient_distance: float | None  # of the vectors with intercepts, each at length 1
    changed: tuple[int, ...]  # codes that differ
    n_codes: int
    flipped: tuple[int, ...]  # cells that differ: a code each, or a block of codes for lattices
    walls: tuple[float, ...]  # from the first fit to the nearest wall of each cell, in grid widths
    estimate: float | None  # of the disagreement, by the first fit's own certificate
    scores: tuple[tuple[float, ...], tuple[float, ...]]  # of the shown test rows, by both fits

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Pair":
        """From the JSON types of its fields; ValueError or TypeError if they are others."""
        first, second = data["scores"]
        pair = cls(
            **data
            | {name: tuple(data[name]) for name in ("errors", "changed", "flipped", "walls")}
            | {"scores": (tuple(first), tuple(second))}
        )
        if not pair._makes_sense():
            raise ValueError("a pair must have the types that its attributes say")
        return pair

    def _makes_sense(self) -> bool:
        """Whether all values have their types, and numbers their ranges."""
        texts = (self.question, self.seeds, self.seed)
        counts = (self.index, self.n_codes, *self.changed, *self.flipped)
        reals = (self.churn, *self.errors, *self.walls, *self.scores[0], *self.scores[1])
        perhaps = (self.angle, self.coefficient_distance, self.estimate)
        known = [value for value in perhaps if value is not None]
        return (
            all(isinstance(text, str) for text in texts)
            and type(self.same) is bool
            and all(type(count) is int and 0 <= count < 1 << 31 for count in counts)
            and all(type(real) in (int, float) for real in (*reals, *known))
            and bool(np.isfinite(np.array([*reals, *known], dtype=np.float64)).all())
            and len(self.errors) == 2
            and len(self.scores[0]) == len(self.scores[1])
            and max(self.changed, default=-1) < self.n_codes
            and max(self.flipped, default=-1) < max(1, len(self.walls))
        )


@dataclass(frozen=True)
class Question:
    """One question to the data, and the pairs that answer it.

    Attributes
    ----------
    name : {"samples", "parts", "halves", "planned"}
    n_rows : int
        Rows of each sample.
    pairs : tuple of Pair
    max_disagreement, confidence : float
    planned : int or None
        Rows per site that a study counts on: the promise is about them.
    """

    name: str
    n_rows: int
    pairs: tuple[Pair, ...]
    max_disagreement: float
    confidence: float
    planned: int | None = None

    def of(self, seeds: str) -> tuple[Pair, ...]:
        """The pairs with fresh seeds, or with the published one."""
        return tuple(pair for pair in self.pairs if pair.seeds == seeds)

    @cached_property
    def fresh(self) -> Agreement | None:
        """Agreement when every pair has its own seed; None for methods without a seed."""
        return self._agreement("fresh")

    @cached_property
    def published(self) -> Agreement | None:
        """Agreement under the seed of the estimator."""
        return self._agreement("published")

    @property
    def main(self) -> Agreement:
        """Over fresh seeds, as the promise is; without a seed the only one there is."""
        agreement = self.fresh or self.published
        assert agreement is not None
        return agreement

    @property
    def seeds(self) -> str:
        """Which pairs ``main`` counts."""
        return "fresh" if self.fresh is not None else "published"

    @property
    def other_size(self) -> int | None:
        """The planned size, if samples had another one."""
        return None if self.planned in (None, self.n_rows) else self.planned

    def verdict(self, agreement: Agreement) -> str:
        """What an agreement says about the claim: "within", "exceeds" or "undecided".

        The disagreement falls with more rows. So samples that are smaller than planned can show
        the claim but never refute it, and larger ones can refute it but not show it.
        """
        found = agreement.verdict
        if self.other_size is None:
            return found
        cannot = "exceeds" if self.n_rows < self.other_size else "within"
        return "undecided" if found == cannot else found

    @property
    def at_planned(self) -> tuple[float, tuple[float, float]] | None:
        """Disagreement and interval at the planned size, extrapolated; None if it was measured."""
        other = self.other_size
        if other is None:
            return None
        low, high = (at_other_size(end, self.n_rows, other) for end in self.main.interval)
        return at_other_size(self.main.disagreement, self.n_rows, other), (low, high)

    @property
    def extrapolation(self) -> str:
        """What is to be expected at the planned size, in words; "" if it was measured."""
        if self.at_planned is None:
            return ""
        rate, (low, high) = self.at_planned
        return (
            f"if the disagreement falls like one over the square root of the rows, it is "
            f"{rate:.3f} ({low:.3f} to {high:.3f}: the {self.confidence:.0%} interval of the "
            f"measured one, carried over) for the planned {self.planned:,} rows per site"
        )

    @property
    def in_words(self) -> str:
        """The verdict, one or two sentences."""
        agreement = self.main
        if self.verdict(agreement) == agreement.verdict:
            text = verdict_in_words(agreement, self.about)
        else:
            needs = "more" if self.n_rows < (self.other_size or 0) else "fewer"
            text = (
                f"undecided about {agreement.max_disagreement:g} for the planned {self.planned:,} "
                f"rows per site: {agreement.n_different} of {agreement.n_pairs} pairs of fits gave "
                f"different models, {self.about}, a size for which nothing was promised. Audit "
                f"samples of {needs} rows."
            )
        more = self.extrapolation
        return f"{text} {more[0].upper()}{more[1:]}." if more else text

    @property
    def about(self) -> str:
        """What a verdict holds for, in words."""
        seeds = ", over fresh seeds" if self.seeds == "fresh" else ""
        return ABOUT[self.name].format(rows=self.n_rows, seeds=seeds)

    def _known(self, name: str) -> list[float]:
        """Values of an attribute of the pairs that ``main`` counts, where they have one."""
        values = [getattr(pair, name) for pair in self.of(self.seeds)]
        return [value for value in values if value is not None]

    @property
    def churn(self) -> float:
        """Mean share of test rows that get another label from the other lab's model."""
        return float(np.mean(self._known("churn")))

    @property
    def churn_when_different(self) -> float | None:
        """The same, over the pairs whose models differ; None if none does."""
        return _mean([pair.churn for pair in self.of(self.seeds) if not pair.same])

    @property
    def pointwise_agreement(self) -> float:
        """Mean share of test rows that get the same label from both models."""
        return 1 - self.churn

    @property
    def test_error(self) -> float:
        """Mean test error of the fits."""
        return float(np.mean([error for pair in self.of(self.seeds) for error in pair.errors]))

    @property
    def angle(self) -> float | None:
        """Mean angle of two labs' normals, in degrees; None without coefficients."""
        return _mean(self._known("angle"))

    @property
    def coefficient_distance(self) -> float | None:
        """Mean distance of two labs' coefficient vectors, each at length 1."""
        return _mean(self._known("coefficient_distance"))

    @property
    def estimated_disagreement(self) -> float | None:
        """Mean of what the fits' own certificates say; None if they have none."""
        return _mean(self._known("estimate"))

    @property
    def n_codes(self) -> int:
        """Codes of a model; 0 for methods without codes."""
        return max((pair.n_codes for pair in self.pairs), default=0)

    @property
    def n_cells(self) -> int:
        """Cells whose walls were measured: one for each code, or for each block of a lattice."""
        return max((len(pair.walls) for pair in self.pairs), default=0)

    def flip_shares(self) -> list[float]:
        """For each code, the share of pairs under the published seed in which it differs."""
        pairs = self.of("published")
        counts = np.zeros(self.n_codes)
        for pair in pairs:
            counts[list(pair.changed)] += 1
        return [float(share) for share in counts / max(1, len(pairs))]

    def wall_distances(self, flipped: bool) -> list[float]:
        """Distances to the nearest wall, of the codes that flipped or of those that did not."""
        return [
            distance
            for pair in self.pairs
            for code, distance in enumerate(pair.walls)
            if (code in pair.flipped) == flipped
        ]

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "question": self.name,
            "rows_per_sample": self.n_rows,
            "planned_rows": self.planned,
            "at_planned_rows": None
            if self.at_planned is None
            else {"disagreement": self.at_planned[0], "interval": list(self.at_planned[1])},
            "fresh_seeds": None if self.fresh is None else self.fresh.data(),
            "published_seed": None if self.published is None else self.published.data(),
            "pointwise_agreement": self.pointwise_agreement,
            "churn": self.churn,
            "churn_when_different": self.churn_when_different,
            "test_error": self.test_error,
            "angle_degrees": self.angle,
            "coefficient_distance": self.coefficient_distance,
            "estimated_disagreement": self.estimated_disagreement,
            "codes": {
                "n": self.n_codes,
                "cells": self.n_cells,
                "flip_share": self.flip_shares(),
                "wall_distance_flipped": _mean(self.wall_distances(True)),
                "wall_distance_kept": _mean(self.wall_distances(False)),
            },
        }

    def _agreement(self, seeds: str) -> Agreement | None:
        pairs = self.of(seeds)
        if not pairs:
            return None
        n_different = sum(not pair.same for pair in pairs)
        return Agreement(len(pairs), n_different, self.max_disagreement, self.confidence)


#: What each question asks, in words.
ASKED = {
    "samples": "independent samples of {rows:,} rows each",
    "parts": "disjoint parts of the data, {rows:,} rows each (independent pairs, small samples)",
    "halves": "disjoint halves of the data, {rows:,} rows each, cut at random for each pair "
    "(full size, but it speaks about these rows)",
    "planned": "disjoint samples of {rows:,} rows each, as the study plans, taken from the data at "
    "random for each pair (it speaks about these rows)",
}

#: What a verdict holds for, in words.
ABOUT = {
    "samples": "for samples of {rows:,} rows of this population{seeds}",
    "parts": "for samples of {rows:,} rows of the population of these rows{seeds}",
    "halves": "given these rows: for halves of {rows:,} rows that are cut at random{seeds}",
    "planned": "given these rows: for samples of the planned {rows:,} rows that are taken from "
    "them at random{seeds}",
}

#: Questions whose pairs are cut from the same rows again and again.
GIVEN_ROWS = ("halves", "planned")


@dataclass(frozen=True)
class AuditResult(Drawable):
    """What an audit found.

    Attributes
    ----------
    method : str
        The estimator, as it prints.
    compared : str
        What had to be equal for two models to be the same.
    seed_parameter : str or None
        Parameter that carries the seed; None if there is none.
    published_seed : str or None
    questions : tuple of Question
        The last one is the main one.
    n_test : int
        Test rows, in no sample.
    notes : tuple of str
        What was left out and why, and warnings.
    command : str
        What makes this audit again.
    extra : dict
        Facts for the report: names, versions.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> classifier = rl.ReplicableSVMClassifier(margin=0.3, batch_size=50, max_disagreement=0.9)
    >>> result = rl.audit(classifier, X, y, n_pairs=3, max_disagreement=0.9)
    >>> result.verdict
    'within'
    >>> result.question("halves").fresh.n_pairs
    3
    """

    method: str
    compared: str
    seed_parameter: str | None
    published_seed: str | None
    questions: tuple[Question, ...]
    n_test: int
    notes: tuple[str, ...] = ()
    command: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> Question:
        """The question that the verdict is about."""
        return self.questions[-1]

    @property
    def disagreement(self) -> float:
        """Share of pairs with different models."""
        return self.main.main.disagreement

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper-Pearson interval of the disagreement."""
        return self.main.main.interval

    @property
    def verdict(self) -> str:
        """Of the main question: "within", "exceeds" or "undecided"."""
        return self.main.verdict(self.main.main)

    @property
    def verdict_in_words(self) -> str:
        """One sentence for people."""
        return self.main.in_words

    def question(self, name: str) -> Question:
        """The question with this name."""
        for question in self.questions:
            if question.name == name:
                return question
        asked = ", ".join(question.name for question in self.questions)
        raise ReplearnError(f"question must be one that was asked ({asked}), got {name!r}.")

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "verdict": self.verdict,
            "verdict_in_words": self.verdict_in_words,
            "disagreement": self.disagreement,
            "interval": list(self.interval),
            "max_disagreement": self.main.max_disagreement,
            "confidence": self.main.confidence,
            "clean_pairs_needed": pairs_needed(self.main.max_disagreement, self.main.confidence),
            "method": self.method,
            "compared": self.compared,
            "seed_parameter": self.seed_parameter,
            "published_seed": self.published_seed,
            "test_rows": self.n_test,
            "questions": [question.data() for question in self.questions],
            "notes": list(self.notes),
            "command": self.command,
            **self.extra,
        }

    def __str__(self) -> str:
        lines = [f"Audit: {self.verdict_in_words}", f"  compared      {self.compared}"]
        for question in self.questions:
            lines += ["", *_question_lines(question, self.n_test)]
        lines += [f"  note          {note}" for note in self.notes]
        return "\n".join(lines)


def _question_lines(question: Question, n_test: int) -> list[str]:
    lines = [f"  {ASKED[question.name].format(rows=question.n_rows)}"]
    if question.fresh is not None:
        verdict = question.verdict(question.fresh)
        lines.append(f"  fresh seeds   {question.fresh} ({verdict})")
    if question.published is not None:
        name = "published seed" if question.fresh is not None else "the method"
        lines.append(f"  {name}  {question.published} ({question.verdict(question.published)})")
    if question.extrapolation:
        lines.append(f"  planned size  {question.extrapolation}")
    churn = question.churn_when_different
    lines.append(
        f"  test rows     error {question.test_error:.4f}; labels that change {question.churn:.4f}"
        + ("" if churn is None else f", {churn:.4f} where the models differ")
        + f" ({n_test:,} rows)"
    )
    if question.angle is not None:
        lines.append(
            f"  coefficients  angle of the normals {question.angle:.3g} degrees, distance "
            f"{question.coefficient_distance:.3g} on average"
        )
    if question.estimated_disagreement is not None:
        lines.append(
            f"  certificates  estimated {question.estimated_disagreement:.3f} on average, from "
            "one fit each"
        )
    lines += _code_lines(question)
    return lines


def _code_lines(question: Question) -> list[str]:
    if not question.n_cells:  # no codes, or no cells that could flip: nets and boosting
        return []
    flipped, kept = _mean(question.wall_distances(True)), _mean(question.wall_distances(False))
    cells = f"{question.n_codes} codes in {question.n_cells} cell{'s'[: question.n_cells > 1]}"
    if flipped is None:
        return [f"  codes         {cells}, none flipped"]
    line = f"  codes         {cells}; one that flipped was {flipped:.3f} grid widths from "
    line += "its wall" + ("" if kept is None else f", one that stayed {kept:.3f}")
    shares = question.flip_shares()
    worst = sorted(range(len(shares)), key=lambda code: -shares[code])[:3]
    names = ", ".join(f"{code} ({shares[code]:.0%})" for code in worst if shares[code] > 0)
    return [line] + ([f"  least stable  codes {names}, under the published seed"] if names else [])


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
