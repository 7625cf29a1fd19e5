"""From a pilot to a protocol: the frontier, the chosen point, the file."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from replearn.codes.decimals import Decimals
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError
from replearn.plans.sizes import Guarantee, decimal
from replearn.study.pilot.encoders import encodings
from replearn.study.pilot.request import Request
from replearn.study.pilot.safe_columns import RARE, Remark, in_words
from replearn.study.pilot.svm_candidates import (
    BATCH_SIZE,
    MAX_PUBLISHED,
    PROJECTION_KINDS,
    REGULARIZATIONS,
    ROW_REGULARIZATIONS,
    Candidate,
    FrontierPoint,
    candidates_of,
    scaled,
)
from replearn.study.protocol import Protocol
from replearn.types import InNotebooks, Signs

_TARGETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4)

#: Accuracies closer than this count as equal; a pilot cannot tell them apart.
_TIE = 0.002

#: The protocol aims below the disagreement that was asked for, since a pilot errs too.
_SAFETY = 0.6


@dataclass(frozen=True)
class SvmPilotPlan(InNotebooks):
    """What a pilot says: the frontier, and the protocol of the chosen point.

    Attributes
    ----------
    frontier : tuple of FrontierPoint
        The best accuracy at each disagreement, at ``samples_per_site``.
    samples : tuple of FrontierPoint
        The best accuracy at the wanted disagreement, for other numbers of samples.
    chosen : FrontierPoint
    protocol : Protocol
    pilot_accuracy : float
        Cross-validated accuracy before any rounding: what replicability is paid from.
    base_accuracy : float
        That of always giving the larger class; one half if classes are balanced by weights.
    remarks : tuple of Remark
        What is odd about columns of the pilot.
    rare : int
        Categories in fewer rows are folded into one.
    other : str
        What another recipe would have given, if one was tried.
    """

    frontier: tuple[FrontierPoint, ...]
    samples: tuple[FrontierPoint, ...]
    chosen: FrontierPoint
    protocol: Protocol
    pilot_accuracy: float
    base_accuracy: float
    remarks: tuple[Remark, ...] = ()
    rare: int = RARE
    other: str = ""

    def __str__(self) -> str:
        lines = [
            f"Pilot: accuracy {self.pilot_accuracy:.3f} before rounding (cross-validated); always "
            f"the larger class is right for {self.base_accuracy:.3f}",
            f"  {'disagreement':>12}  {'accuracy':>8}  projection, scaling, regularization",
        ]
        lines += [
            f"  {p.disagreement:12.3f}  {p.accuracy:8.3f}  {p.projection}, {p.scaling}, "
            f"{p.regularization:g}"
            for p in self.frontier
        ]
        lines.append(
            f"  chosen: {self.chosen.projection}, {self.chosen.scaling}, "
            f"{self.chosen.estimate} {self.chosen.regularization:g}: "
            f"expected accuracy {self.chosen.accuracy:.3f} at disagreement "
            f"{self.chosen.disagreement:.3f} with {self.chosen.samples_per_site:,} rows per site "
            "(estimated from the pilot)"
        )
        if self.other:
            lines.append(f"  other recipe: {self.other}")
        if self.protocol.hint_bits:
            lines.append(f"  {self.protocol.hint_bits} hint bits: one site must be the first")
        lines += [f"  {line}" for line in in_words(self.remarks, self.rare)]
        lines += [f"  Caution: {caution}" for caution in self.cautions]
        return "\n".join(lines)

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why the protocol may not be worth a study."""
        return no_better_than_base(self.chosen.accuracy, self.base_accuracy)

    def under(self, protocol: Protocol) -> "SvmPilotPlan":
        """The plan after its protocol was registered, or got the seed of a public value."""
        return replace(self, protocol=protocol)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "pilot_accuracy": self.pilot_accuracy,
            "base_accuracy": self.base_accuracy,
            "cautions": list(self.cautions),
            "chosen": asdict(self.chosen),
            "frontier": [asdict(point) for point in self.frontier],
            "samples": [asdict(point) for point in self.samples],
            "remarks": [asdict(remark) for remark in self.remarks],
            "other": self.other,
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw the frontier; needs matplotlib. Returns the axes."""
        import matplotlib.pyplot as plt

        if axes is None:
            axes = plt.figure(figsize=(9, 4), layout="constrained").subplots(1, 2)
        left, right = axes
        frontier, samples, chosen = self.frontier, self.samples, self.chosen
        left.plot([p.disagreement for p in frontier], [p.accuracy for p in frontier], "o-")
        left.plot(chosen.disagreement, chosen.accuracy, "s", markersize=10, label="chosen")
        left.axhline(self.pilot_accuracy, linestyle=":", color="grey", label="without rounding")
        left.set(
            xscale="log",
            xlabel="disagreement between two sites",
            ylabel="accuracy",
            title=f"{chosen.samples_per_site:,} rows per site",
        )
        left.legend(loc="lower right")
        right.plot([p.samples_per_site for p in samples], [p.accuracy for p in samples], "o-")
        right.axhline(self.pilot_accuracy, linestyle=":", color="grey")
        right.set(
            xscale="log",
            xlabel="rows per site",
            title=f"at disagreement {chosen.disagreement:.2g}",
        )
        return axes


def plan_svm_study(
    X: Any,
    signs: Signs,
    classes: tuple[Any, ...],
    remarks: tuple[Remark, ...],
    request: Request,
    class_weights: Decimals,
    *,
    algorithm: str = "svm",
    fit_intercept: bool = True,
    projections: Sequence[str] = PROJECTION_KINDS,
    margin: float = 0.1,
    max_error: float = 0.05,
    estimates: Sequence[str] = ("batches",),
    regularizations: Sequence[float] = REGULARIZATIONS,
) -> SvmPilotPlan:
    """Plan a study with Algorithm 1 or 2; see `replearn.plan_from_pilot`.

    Parameters
    ----------
    class_weights : tuple of str
        What a row of each class counts; none: all the same. Accuracies are weighted alike.
    projections : sequence of str
        What to choose from: "none", "hadamard", "principal", "shaped".
    margin, max_error : float
        Recorded in the protocol. The pilot's margins, not these, set the grid.
    estimates : sequence of str
        What to choose from: "batches", "rows". In few directions neither needs fewer rows, and
        only batches of several sites can be added up.
    regularizations : sequence of float
        Of fits on batches: what to choose from.

    Notes
    -----
    Candidates: two scalings, six regularisations (seven of fits on all rows), and the projections
    none, Hadamard, 2 to 48 principal directions of the pilot or all of them, with even cells or
    shaped ones. Each is judged by five-fold cross-validation of its margins, with the rounding
    noise that the wanted disagreement leaves, and by the spread of batch vectors over random
    subsets of the pilot. The plan aims at 60 % of the wanted disagreement. Tested in
    tests/theory/test_pilot.py.
    """
    refuse_auto(margin)
    if algorithm != "svm" and tuple(estimates) != ("batches",):
        raise ReplearnError(
            f'estimates are for algorithm="svm", got {list(estimates)!r} and {algorithm!r}: '
            "gradient descent works on batches. Leave them out."
        )
    guarantee = Guarantee(margin, max_error, request.max_disagreement, request.failure_prob)
    shared = SharedRandomness(seed_text(request.shared_seed, "shared_seed"))
    n_rows, hint_bits = request.samples_per_site, request.hint_bits
    negative, positive = map(float, class_weights or ("1", "1"))
    ways = [("batches", weight) for weight in regularizations]
    ways += [("rows", weight) for weight in ROW_REGULARIZATIONS]
    candidates = [
        candidate
        for way in encodings(X, request.categories, request.rare)
        for pilot in [scaled(*way, X, fit_intercept)]
        for estimate, weight in ways
        if estimate in estimates and (estimate == "batches" or pilot.rows.shape[1] <= MAX_PUBLISHED)
        for candidate in candidates_of(
            pilot, signs, weight, shared, (negative, positive), estimate, algorithm
        )
        if candidate.projection.split()[0] in projections
    ]
    if not candidates:
        raise ReplearnError(
            f"projections must allow one that fits these data, got {list(projections)!r}. "
            f"Known: {', '.join(PROJECTION_KINDS)}."
        )
    aimed = _SAFETY * request.max_disagreement

    def best(n_samples: int, disagreement: float) -> FrontierPoint:
        points = (c.point(n_samples, disagreement, hint_bits) for c in candidates)
        return max(points, key=lambda point: point.accuracy)

    enough = best(n_rows, aimed).accuracy - _TIE
    # of equally accurate plans the more regularised is solved faster and varies less
    planned = [(c, c.point(n_rows, aimed, hint_bits)) for c in candidates]
    candidate, chosen = max(
        (pair for pair in planned if pair[1].accuracy >= enough),
        key=lambda pair: (pair[0].regularization, pair[1].accuracy),
    )
    return SvmPilotPlan(
        frontier=tuple(best(n_rows, wanted) for wanted in _TARGETS),
        samples=tuple(
            best(max(BATCH_SIZE, round(n_rows * factor)), aimed)
            for factor in (0.01, 0.03, 0.1, 0.3, 1, 3, 10)
        ),
        chosen=chosen,
        protocol=Protocol(
            algorithm=algorithm,
            parameters={
                **_parameters(chosen, candidate, guarantee, fit_intercept),
                **({"class_weights": list(class_weights)} if class_weights else {}),
                **({"hint_bits": hint_bits} if hint_bits else {}),
            },
            seed=str(shared.seed),
            classes=classes,
            encoding=candidate.encoding,
            basis=candidate.basis,
            notes={
                "expected_accuracy": f"{chosen.accuracy:.3f}",
                "expected_disagreement": f"{chosen.disagreement:.3f}",
                "projection": chosen.projection,
                "samples_per_site": str(chosen.samples_per_site),
                "scaling": chosen.scaling,
            },
            target=request.target,
        ),
        pilot_accuracy=candidate.accuracy_before,
        base_accuracy=_base_accuracy(signs, negative, positive),
        remarks=remarks,
        rare=request.rare,
    )


def _parameters(
    chosen: FrontierPoint, candidate: Candidate, guarantee: Guarantee, fit_intercept: bool
) -> dict[str, Any]:
    """Parameters of the estimator that every protocol fixes."""
    by_rows = candidate.estimate == "rows"
    return {
        **({"estimate": "rows"} if by_rows else {"batch_size": BATCH_SIZE}),
        "failure_prob": repr(guarantee.failure_prob),
        "fit_intercept": fit_intercept,
        "grid_width": decimal(chosen.grid_width),
        "margin": repr(guarantee.margin),
        "max_disagreement": repr(guarantee.max_disagreement),
        "max_error": repr(guarantee.max_error),
        "n_components": candidate.n_components,
        "projection": candidate.projection if candidate.basis is None else "published",
        "regularization": repr(candidate.regularization),
        "rounding": candidate.rounding,
        "unit_mean": True,
    }


def _base_accuracy(signs: Signs, negative: float, positive: float) -> float:
    """Accuracy of always giving the larger class, rows weighted by their class."""
    share = positive * float((signs > 0).mean())
    total = share + negative * float((signs < 0).mean())
    return max(share, total - share) / total


def no_better_than_base(accuracy: float, base: float) -> tuple[str, ...]:
    """The caution of a protocol that is not worth a study, if it is not."""
    if accuracy > base + 0.005:
        return ()
    return (
        f"This protocol is expected to be no better than always the larger class (accuracy "
        f'{accuracy:.3f} against {base:.3f}). Get more rows per site, or use algorithm="logistic", '
        "which needs far fewer.",
    )


def refuse_auto(margin: Any) -> None:
    """A pilot's own margins set the grid: there is nothing to learn at the sites."""
    if margin == "auto":
        raise ReplearnError(
            'margin="auto" is for fits without a protocol, got a pilot: the margins of its rows '
            "set the grid, and sites need not learn one. Leave margin out."
        )
