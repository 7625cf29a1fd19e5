"""Two simulated labs, end to end: what ``replearn demo`` shows.

Each study has its own population, a pilot sample that becomes the protocol, a published seed, and
two labs with samples of different sizes. Counted is how often both labs get exactly the same
model, for replearn and, on the same rows, for scikit-learn's LinearSVC with coefficients as
they are or rounded.
"""

import sys
import textwrap
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.svm import LinearSVC

from replearn.datasets import make_margin
from replearn.errors import ReplicabilityWarning
from replearn.estimators import ReplicableSVMClassifier
from replearn.progress import Advance, no_progress
from replearn.stages.certificate import Certificate
from replearn.study.pilot import plan_from_pilot
from replearn.study.protocol import Protocol
from replearn.types import Matrix, Vector

CONFIDENCE = 0.95

LabelledRows = tuple[Matrix, NDArray[np.int64]]

#: What a lab may do with the coefficients of LinearSVC before it compares them.
_BY_HAND: dict[str, Callable[[Vector], Vector]] = {
    "LinearSVC, coef_ as it is": lambda coef: coef,
    "LinearSVC, np.round(coef_, 1)": lambda coef: np.round(coef, 1),
    "LinearSVC, np.round(coef_, 0)": lambda coef: np.round(coef, 0),
}
_OURS = "replearn, protocol from a pilot"
_DEFAULT = "replearn, default sizes"


@dataclass(frozen=True)
class Setting:
    """What is simulated.

    Attributes
    ----------
    n_studies : int
        Pairs of labs; each pair has a population, two samples and a seed of its own.
    n_features, margin
        Of the populations.
    rows : tuple of int
        Sizes of the two labs' samples.
    n_pilot : int
        Rows of the pilot, which belong to no lab.
    n_new : int
        Fresh rows on which accuracy is measured.
    max_disagreement : float
        What the labs ask for.
    """

    n_studies: int = 20
    n_features: int = 50
    margin: float = 0.2
    rows: tuple[int, int] = (60_000, 75_000)
    n_pilot: int = 1000
    n_new: int = 20_000
    max_disagreement: float = 0.1


@dataclass(frozen=True)
class Fit:
    """What one lab gets from one method: ``key`` is equal for equal models."""

    key: bytes
    accuracy: float


@dataclass(frozen=True)
class Lab:
    """One lab of one study."""

    rows: int
    n_codes: int
    fingerprint: str
    certificate: Certificate
    fits: dict[str, Fit]


@dataclass(frozen=True)
class MethodResult:
    """One method over all studies.

    Attributes
    ----------
    same, studies : int
        Studies in which both labs got the same model, and all studies.
    interval : tuple of float
        Clopper-Pearson interval of the rate, at ``CONFIDENCE``.
    accuracy : float
        Mean over all labs, on new rows.
    """

    name: str
    same: int
    studies: int
    interval: tuple[float, float]
    accuracy: float


@dataclass(frozen=True)
class Result:
    """What was simulated and counted.

    Attributes
    ----------
    setting : Setting
    labs : tuple of Lab
        Of the first study.
    methods : tuple of MethodResult
        replearn first.
    mean_estimate : float
        Mean of the disagreement that each lab estimates; "not estimable" counts as 1.
    weakest : Certificate
        The one with the largest proved bound, of all labs.
    seconds : float
    """

    setting: Setting
    labs: tuple[Lab, Lab]
    methods: tuple[MethodResult, ...]
    mean_estimate: float
    weakest: Certificate
    seconds: float

    @property
    def same(self) -> bool:
        """Whether the two labs of the first study got the same model."""
        return self.labs[0].fingerprint == self.labs[1].fingerprint

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "setting": asdict(self.setting),
            "labs": [_lab_data(lab) for lab in self.labs],
            "same": self.same,
            "codes": self.labs[0].n_codes,
            "methods": [
                asdict(tally) | {"rate": tally.same / tally.studies} for tally in self.methods
            ],
            "mean_estimated_disagreement": self.mean_estimate,
            "largest_disagreement_bound": self.weakest.disagreement_bound,
            "seconds": self.seconds,
        }


def run(setting: Setting | None = None, advance: Advance = no_progress) -> Result:
    """Simulate all studies.

    Parameters
    ----------
    setting : Setting, optional
    advance : Advance
        Called with the number of studies done.

    Returns
    -------
    Result
    """
    setting = setting or Setting()
    start = time.monotonic()
    studies: list[tuple[Lab, Lab]] = []
    with warnings.catch_warnings(), ThreadPoolExecutor(2) as pool:
        # a lab would see it; here the estimates are shown beside what was measured
        warnings.simplefilter("ignore", ReplicabilityWarning)
        for labs in pool.map(partial(_study, setting), range(setting.n_studies)):
            studies.append(labs)
            advance(len(studies))
    certificates = [lab.certificate for pair in studies for lab in pair]
    estimates = [certificate.estimated_disagreement for certificate in certificates]
    return Result(
        setting=setting,
        labs=studies[0],
        methods=tuple(_method_result(name, studies) for name in (_OURS, _DEFAULT, *_BY_HAND)),
        mean_estimate=float(np.mean([1.0 if e is None else e for e in estimates])),
        weakest=max(certificates, key=lambda certificate: certificate.disagreement_bound),
        seconds=round(time.monotonic() - start, 1),
    )


def _study(setting: Setting, study: int) -> tuple[Lab, Lab]:
    """One protocol, and what two labs make of it."""
    pilot = _draw(setting, setting.n_pilot, study, sample=3)
    protocol = plan_from_pilot(
        *pilot,
        algorithm="svm",
        samples_per_site=min(setting.rows),
        max_disagreement=setting.max_disagreement,
        shared_seed=study,
    ).protocol
    new = _draw(setting, setting.n_new, study, sample=2)
    first, second = (
        _lab(setting, protocol, _draw(setting, n_rows, study, sample=number), new)
        for number, n_rows in enumerate(setting.rows)
    )
    return first, second


def _lab(setting: Setting, protocol: Protocol, own: LabelledRows, new: LabelledRows) -> Lab:
    """Everything that happens at one lab."""
    replicable = protocol.estimator().fit(*own)
    default = ReplicableSVMClassifier(
        margin=setting.margin,
        max_disagreement=setting.max_disagreement,
        shared_seed=protocol.seed,
    ).fit(*own)
    plain = LinearSVC(dual=False).fit(*own)
    weights = np.append(plain.coef_.ravel(), plain.intercept_)
    return Lab(
        rows=len(own[1]),
        n_codes=replicable.model_.codes.size,
        fingerprint=replicable.fingerprint_,
        certificate=replicable.certificate_,
        fits={
            name: Fit(classifier.fingerprint_.encode(), float(classifier.score(*new)))
            for name, classifier in ((_OURS, replicable), (_DEFAULT, default))
        }
        | {name: _fit_of(rule(weights), *new) for name, rule in _BY_HAND.items()},
    )


def _draw(setting: Setting, n_rows: int, study: int, sample: int) -> LabelledRows:
    return make_margin(
        n_rows,
        setting.n_features,
        setting.margin,
        population=study,
        random_state=np.random.default_rng([study, sample]),
    )


def _fit_of(weights: Vector, X: Matrix, y: NDArray[np.int64]) -> Fit:
    positive = X @ weights[:-1] + weights[-1] > 0
    canonical = weights + 0.0  # -0.0 and 0.0 are the same number
    return Fit(canonical.tobytes(), float(np.mean(positive == (y > 0))))


def _method_result(name: str, studies: Sequence[tuple[Lab, Lab]]) -> MethodResult:
    same = sum(first.fits[name].key == second.fits[name].key for first, second in studies)
    interval = binomtest(same, len(studies)).proportion_ci(CONFIDENCE, method="exact")
    accuracies = [lab.fits[name].accuracy for pair in studies for lab in pair]
    return MethodResult(
        name,
        same,
        len(studies),
        (float(interval.low), float(interval.high)),
        float(np.mean(accuracies)),
    )


def _lab_data(lab: Lab) -> dict[str, Any]:
    return {
        "rows": lab.rows,
        "accuracy": lab.fits[_OURS].accuracy,
        "fingerprint": lab.fingerprint,
        "estimated_disagreement": lab.certificate.estimated_disagreement,
        "disagreement_bound": lab.certificate.disagreement_bound,
        "bound_confidence": lab.certificate.confidence,
    }


# --- for people -------------------------------------------------------------------------------

_WIDTH = 80


@dataclass(frozen=True)
class Grid:
    """A table of text: the first column to the left, the others to the right."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def text(result: Result, styled: bool | None = None) -> str:
    """The result to read: with drawn tables on a terminal, plain elsewhere.

    Parameters
    ----------
    result : Result
    styled : bool, optional
        Default: whether standard output is a terminal. Without rich it is plain anyway.
    """
    parts: list[str | Grid] = [_introduction(result), _labs_grid(result), _verdict(result)]
    if result.setting.n_studies > 1:
        parts += [_again(result), _methods_grid(result), _chances(result), _CLOSING]
    draw = _drawn if (sys.stdout.isatty() if styled is None else styled) else _plain
    return "\n\n".join(part if isinstance(part, str) else draw(part) for part in parts)


def _introduction(result: Result) -> str:
    setting = result.setting
    return _filled(
        f"Two labs draw their own samples of one population ({setting.n_features} features, "
        f"margin {setting.margin:g}). They share a protocol, made from a pilot of "
        f"{setting.n_pilot:,} other rows for a disagreement of at most "
        f"{setting.max_disagreement:g}, with a published seed in it, and no data."
    )


def _labs_grid(result: Result) -> Grid:
    def row(title: str, show: Callable[[Lab], str]) -> tuple[str, ...]:
        return (title, *map(show, result.labs))

    return Grid(
        ("", "lab A", "lab B"),
        (
            row("rows", lambda lab: f"{lab.rows:,}"),
            row("accuracy on new rows", lambda lab: _percent(lab.fits[_OURS].accuracy)),
            row("fingerprint", lambda lab: lab.fingerprint[:16] + "..."),
        ),
    )


def _verdict(result: Result) -> str:
    if result.same:
        return f"Same model: all {result.labs[0].n_codes} integers that define it are equal."
    return "Different models this time. The labs notice, since the fingerprints differ."


def _again(result: Result) -> str:
    return _filled(
        f"Again, for {result.setting.n_studies} populations, each with a new pilot, seed and pair "
        "of samples. How often do both labs get exactly the same model? All methods see the same "
        "rows."
    )


def _methods_grid(result: Result) -> Grid:
    return Grid(
        ("method", "same model", f"{CONFIDENCE:.0%} interval", "accuracy"),
        tuple(
            (
                tally.name,
                f"{tally.same} of {tally.studies}",
                f"{tally.interval[0]:.2f} to {tally.interval[1]:.2f}",
                _percent(tally.accuracy),
            )
            for tally in result.methods
        ),
    )


def _chances(result: Result) -> str:
    ours, certificate = result.methods[0], result.weakest
    n_different = ours.studies - ours.same
    bound = certificate.disagreement_bound
    certified = "nothing is proved here"
    if bound < 1:
        certified = (
            f"at most {bound:.2f}: proved by every lab from its own rows, on average over seeds, "
            f"at confidence {certificate.confidence:g}; assumes {certificate.assumes}"
        )
    lines = {
        "measured": f"{n_different / ours.studies:.2f}: {n_different} of the {ours.studies} pairs "
        f"above (asked for: at most {result.setting.max_disagreement:g})",
        "estimated": f"{result.mean_estimate:.2f}: mean of what each lab predicts for its seed, "
        "from its own rows alone",
        "certified": certified,
    }
    return "\n".join(
        ["Chance that two labs with a protocol get different models:"]
        + [_filled(line, first=f"  {word:<9}  ", rest=" " * 13) for word, line in lines.items()]
    )


_CLOSING = """\
The default sizes know nothing of the population, and are coarse; a pilot buys
accuracy and agreement. Rounding by hand works when no coefficient lies near an
edge: how often that is depends on the population and on the number of digits,
and nothing says so beforehand."""


def _filled(paragraph: str, first: str = "", rest: str = "") -> str:
    return textwrap.fill(paragraph, _WIDTH, initial_indent=first, subsequent_indent=rest)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _plain(grid: Grid) -> str:
    lines = [grid.header, *grid.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(grid.header))]
    return "\n".join(
        f"  {line[0]:<{widths[0]}}"
        + "".join(f"   {cell:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
        for line in lines
    )


def _drawn(grid: Grid) -> str:
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        return _plain(grid)
    table = Table(box=SIMPLE_HEAD)
    for number, title in enumerate(grid.header):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    for row in grid.rows:
        table.add_row(*row, style="bold green" if row[0] == _OURS else None)
    console = Console(force_terminal=True, width=_WIDTH)
    with console.capture() as capture:
        console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines() if line.strip())
