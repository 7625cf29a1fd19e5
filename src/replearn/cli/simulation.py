"""Simulated labs: what ``replearn demo`` counts and prints."""

import sys
import textwrap
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from replearn.audits.agreement import Agreement
from replearn.errors import ReplicabilityWarning
from replearn.estimators.useless import without_warnings_of_worth
from replearn.progress import Advance, no_progress
from replearn.stages.certificate import Certificate
from replearn.stages.worth import worth
from replearn.study.pilot import PilotPlan, plan_from_pilot
from replearn.types import Matrix, Vector

Rows = tuple[Matrix, NDArray[np.int64]]

BASE = "always the base rate"
PILOT = "the pilot's own model, published"
FULL = "LogisticRegression, a lab's rows"


@dataclass(frozen=True)
class Setting:
    """What is simulated; each pair of labs has a population, a pilot and a seed of its own."""

    n_studies: int = 20  # pairs of labs
    n_features: int = 12
    rows: tuple[int, int] = (50_000, 60_000)  # of the two labs
    n_pilot: int = 1000  # rows that belong to no lab
    n_new: int = 20_000  # fresh rows on which models are evaluated
    max_disagreement: float = 0.1  # what the labs ask for
    hint_bits: int = 4  # of the second protocol; the first has none

    @property
    def protocols(self) -> dict[str, int]:
        """Name and hint bits of each protocol."""
        return {f"replearn, {bits} hint bits": bits for bits in (0, self.hint_bits)}


@dataclass(frozen=True)
class Fit:
    """What one lab gets from one method: ``key`` is equal for equal models."""

    key: bytes
    log_loss: float
    auc: float
    balanced_accuracy: float


@dataclass(frozen=True)
class Lab:
    """One lab of one study; the certificate and the fingerprint are those with a hint."""

    rows: int
    n_codes: int
    fingerprint: str
    certificate: Certificate
    fits: dict[str, Fit]
    hints: dict[str, int]  # that it would publish as the first, by protocol


@dataclass(frozen=True)
class Study:
    """One protocol, and what two labs make of it."""

    labs: tuple[Lab, Lab]
    evidence: dict[str, float]


@dataclass(frozen=True)
class Method:
    """One method over all studies: how often labs agree, and means over all labs on new rows."""

    name: str
    agreement: Agreement
    log_loss: float
    auc: float
    balanced_accuracy: float
    evidence_bits: float | None

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        content = asdict(self) | {"agreement": self.agreement.data()}
        return content | {"same": self.n_same, "studies": self.agreement.n_pairs}

    @property
    def n_same(self) -> int:
        """Studies in which both labs got the same model."""
        return self.agreement.n_pairs - self.agreement.n_different


@dataclass(frozen=True)
class Result:
    """What was simulated and counted."""

    setting: Setting
    labs: tuple[Lab, Lab]  # of the first study
    methods: tuple[Method, ...]
    mean_estimate: float  # of the disagreement that each lab estimates, with a hint
    seconds: float

    @property
    def same(self) -> bool:
        """Whether the two labs of the first study got the same model."""
        return self.labs[0].fingerprint == self.labs[1].fingerprint

    @property
    def hinted(self) -> Method:
        """The protocol with hint bits."""
        return self.methods[-2]

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "setting": asdict(self.setting),
            "labs": [_lab_data(lab, self.hinted.name) for lab in self.labs],
            "same": self.same,
            "codes": self.labs[0].n_codes,
            "methods": [method.data() for method in self.methods],
            "mean_estimated_disagreement": self.mean_estimate,
            "seconds": self.seconds,
        }


def run(setting: Setting, advance: Advance = no_progress) -> Result:
    """Simulate all studies; ``advance`` is told how many are done."""
    start = time.monotonic()
    studies: list[Study] = []
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        # a lab would see it; here the estimates are shown beside what was measured
        warnings.simplefilter("ignore", ReplicabilityWarning)
        for study in pool.map(partial(_study, setting), range(setting.n_studies)):
            studies.append(study)
            advance(len(studies))
    estimates = [lab.certificate.estimated_disagreement for s in studies for lab in s.labs]
    return Result(
        setting=setting,
        labs=studies[0].labs,
        methods=tuple(
            _method(name, studies, setting) for name in (BASE, PILOT, *setting.protocols, FULL)
        ),
        mean_estimate=float(np.mean([1.0 if e is None else e for e in estimates])),
        seconds=round(time.monotonic() - start, 1),
    )


def _study(setting: Setting, study: int) -> Study:
    """A pilot, its protocols with and without a hint, and two labs."""
    pilot, new, *own = (
        _draw(setting, n_rows, study, sample)
        for sample, n_rows in enumerate((setting.n_pilot, setting.n_new, *setting.rows))
    )
    plan = plan_from_pilot(
        *pilot,
        samples_per_site=min(setting.rows),
        max_disagreement=setting.max_disagreement,
        shared_seed=study,
    )
    assert isinstance(plan, PilotPlan)
    plans = {name: plan.replan(hint_bits=bits) for name, bits in setting.protocols.items()}
    share = float(pilot[1].mean())
    published = {
        BASE: _measured_fit(b"", np.full(setting.n_new, share), new, share),
        PILOT: _plain(pilot, new, share),
    }
    first = _lab(plans, own[0], new, share, published)
    second = _lab(plans, own[1], new, share, published, first.hints)
    evidence = {name: planned.evidence_bits for name, planned in plans.items()}
    return Study((first, second), evidence)


def _lab(
    plans: dict[str, PilotPlan],
    own: Rows,
    new: Rows,
    share: float,
    published: dict[str, Fit],
    hints: dict[str, int] | None = None,
) -> Lab:
    """Everything that happens at one lab; without hints it is the first."""
    fits, found, last = dict(published), {}, None
    for name, plan in plans.items():
        hint = {"hint": hints[name]} if hints and plan.hint_bits else {}
        with without_warnings_of_worth():  # what it is worth stands in the table
            last = plan.protocol.estimator(**hint).fit(*own)
        found[name] = last.hint_
        chances = last.predict_proba(new[0])[:, 1]
        fits[name] = _measured_fit(last.fingerprint_.encode(), chances, new, share)
    assert last is not None
    fits[FULL] = _plain(own, new, share)
    n_codes, certificate = last.model_.codes.size, last.certificate_
    return Lab(len(own[1]), n_codes, last.fingerprint_, certificate, fits, found)


def _plain(own: Rows, new: Rows, share: float) -> Fit:
    """Scikit-learn's logistic regression."""
    plain = LogisticRegression(max_iter=1000).fit(*own)
    key = np.append(plain.coef_.ravel(), plain.intercept_).tobytes()
    return _measured_fit(key, plain.predict_proba(new[0])[:, 1], new, share)


def _measured_fit(key: bytes, chances: Vector, new: Rows, share: float) -> Fit:
    """What probabilities are worth on new rows, decided at the pilot's share of positives."""
    found = worth(new[1], (chances > share).astype(np.int64), labels=(0, 1), probabilities=chances)
    assert found.log_loss is not None
    assert found.auc is not None
    assert found.balanced_accuracy is not None
    return Fit(key, found.log_loss.value, found.auc.value, found.balanced_accuracy.value)


def _draw(setting: Setting, n_rows: int, study: int, sample: int) -> Rows:
    """Rows of a population: columns on different scales, about 15 % positive, noisy labels."""
    population = np.random.default_rng([study])
    weights = population.normal(size=setting.n_features)
    weights *= 1.3 / np.linalg.norm(weights)
    scales = np.exp(population.normal(size=setting.n_features))
    rng = np.random.default_rng([study, sample])
    X = rng.normal(size=(n_rows, setting.n_features))
    positive = rng.random(n_rows) < 1 / (1 + np.exp(2.3 - X @ weights))
    return X * scales, positive.astype(np.int64)


def _method(name: str, studies: Sequence[Study], setting: Setting) -> Method:
    n_different = sum(s.labs[0].fits[name].key != s.labs[1].fits[name].key for s in studies)
    fits = [lab.fits[name] for study in studies for lab in study.labs]
    bits = [study.evidence[name] for study in studies if name in study.evidence]
    return Method(
        name,
        Agreement(len(studies), n_different, setting.max_disagreement),
        float(np.mean([fit.log_loss for fit in fits])),
        float(np.mean([fit.auc for fit in fits])),
        float(np.mean([fit.balanced_accuracy for fit in fits])),
        float(np.mean(bits)) if bits else None,
    )


def _lab_data(lab: Lab, name: str) -> dict[str, Any]:
    return {
        "rows": lab.rows,
        "auc": lab.fits[name].auc,
        "fingerprint": lab.fingerprint,
        "estimated_disagreement": lab.certificate.estimated_disagreement,
        "disagreement_bound": lab.certificate.disagreement_bound,
        "bound_confidence": lab.certificate.confidence,
    }


# --- for people -------------------------------------------------------------------------------

_WIDTH = 80

#: Rows of text, the header first.
Table = list[tuple[str, ...]]


def text(result: Result, styled: bool | None = None) -> str:
    """The result to read: with drawn tables on a terminal (or if ``styled``), plain elsewhere."""
    setting = result.setting
    introduction = (
        f"Two labs draw their own samples of one population ({setting.n_features} columns, about "
        "15 % positive). They share a protocol, made from a pilot of "
        f"{setting.n_pilot:,} other rows, with a published seed in it, and no data. Lab A fits "
        f"first and publishes a hint of {setting.hint_bits} bits."
    )
    verdict = "Different models this time. The labs notice, since the fingerprints differ."
    if result.same:
        verdict = f"Same model: all {result.labs[0].n_codes} integers that define it are equal."
    again = (
        f"Again, for {setting.n_studies} populations, each with a new pilot, seed and pair of "
        "samples. How often do both labs get exactly the same model, what is it worth on new "
        "rows, and how many bits is a match worth to somebody who knows the protocol?"
    )
    parts: list[str | Table] = [_filled(introduction), _labs_table(result), verdict]
    if setting.n_studies > 1:
        parts += [_filled(again), _methods_table(result), _chances(result), _filled(_CLOSING)]
    draw = _drawn if (sys.stdout.isatty() if styled is None else styled) else _plain_table
    return "\n\n".join(part if isinstance(part, str) else draw(part) for part in parts)


def _labs_table(result: Result) -> Table:
    name = result.hinted.name
    return [
        ("", "lab A", "lab B"),
        ("rows", *(f"{lab.rows:,}" for lab in result.labs)),
        ("AUC on new rows", *(f"{lab.fits[name].auc:.4f}" for lab in result.labs)),
        ("fingerprint", *(lab.fingerprint[:16] + "..." for lab in result.labs)),
    ]


def _methods_table(result: Result) -> Table:
    rows = [
        (
            method.name,
            f"{method.n_same} of {method.agreement.n_pairs}",
            f"{method.log_loss:.4f}",
            f"{method.auc:.3f}",
            f"{method.balanced_accuracy:.3f}",
            "-" if method.evidence_bits is None else f"{method.evidence_bits:.1f}",
        )
        for method in result.methods
    ]
    return [("method", "same model", "log-loss", "AUC", "bal. acc.", "bits"), *rows]


def _chances(result: Result) -> str:
    found = result.hinted.agreement
    low, high = found.interval
    lines = {
        "measured": f"{found.disagreement:.2f}: {found.n_different} of the {found.n_pairs} pairs "
        f"above, {found.confidence:.0%} interval {low:.2f} to {high:.2f} (asked for: at most "
        f"{result.setting.max_disagreement:g})",
        "estimated": f"{result.mean_estimate:.2f}: mean of what each lab predicts for its seed, "
        "from its own rows alone",
    }
    return "\n".join(
        ["Chance that two labs get different models, with the hint:"]
        + [_filled(line, first=f"  {word:<9}  ", rest=" " * 13) for word, line in lines.items()]
    )


def _filled(paragraph: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(paragraph, _WIDTH, initial_indent=first, subsequent_indent=rest)


_CLOSING = (
    "The base rate and the pilot's model are the same at all labs because no lab's rows decide "
    "anything. Without hint bits labs of this size can little more than confirm the pilot's "
    "model or veto it, and a match is worth about 0 bits. With a hint the labs' rows decide, "
    "and a match says something. LogisticRegression uses everything, and no two labs agree."
)


def _plain_table(table: Table) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(
        f"  {line[0]:<{widths[0]}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
        for line in table
    )


def _drawn(table: Table) -> str:
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table as DrawnTable
    except ImportError:
        return _plain_table(table)
    drawn = DrawnTable(box=SIMPLE_HEAD)
    for number, title in enumerate(table[0]):
        drawn.add_column(title, justify="right" if number else "left", no_wrap=True)
    for row in table[1:]:
        drawn.add_row(*row, style="bold green" if row[0].startswith("replearn") else None)
    console = Console(force_terminal=True, width=_WIDTH)
    with console.capture() as capture:
        console.print(drawn)
    return "\n".join(line.rstrip() for line in capture.get().splitlines() if line.strip())
