"""From a pilot to a protocol of Algorithm 3: a net over a few published directions."""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from replearn.codes.basis import Basis
from replearn.codes.encoding import Encoding
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError
from replearn.plans.plan_net import affordable_error
from replearn.plans.sizes import Guarantee, decimal
from replearn.study.pilot.encoders import encodings
from replearn.study.pilot.request import Request
from replearn.study.pilot.safe_columns import RARE, Remark, in_words
from replearn.study.pilot.svm_candidates import Scaled, cross_validated_normals, folds_of, scaled
from replearn.study.pilot.svm_plan import no_better_than_base, refuse_auto
from replearn.study.protocol import MAX_NET_DIRECTIONS, Protocol
from replearn.types import InNotebooks, Matrix, Signs, Vector

#: Candidates of the net: 2,000 directions leave a gap of .01 to .15 in 2 to 6 dimensions.
N_CANDIDATES = 2000

#: Regularisation of the pilot's own batch SVMs, whose mean is the first direction.
_WEIGHT = 0.1

#: Where the threshold may lie, next to the smallest error, as shares of what a choice may lose:
#: from .2 to .9, with the grid of the start.
_THRESHOLDS = (0.2, 0.35, 0.5, 0.65, 0.8)

#: As for Algorithm 1: the protocol aims below the disagreement that was asked for.
_SAFETY = 0.6


@dataclass(frozen=True)
class NetPoint:
    """One way to plan a choice from a net.

    The expected accuracy is, held out, that of candidates whose error is below a threshold that the
    choice draws.
    """

    n_directions: int
    scaling: str  # "standard" or "common"
    best_accuracy: float  # of the net's best candidate, held out
    max_error: float  # what the choice may lose next to that, so that sites agree as wanted
    accuracy: float


@dataclass(frozen=True)
class NetPilotPlan(InNotebooks):
    """What a pilot says about a study with Algorithm 3, and the study's protocol.

    Attributes
    ----------
    points : tuple of NetPoint
        The best of each number of directions.
    chosen : NetPoint
    protocol : Protocol
    base_accuracy : float
        Of the larger class.
    samples_per_site : int
    disagreement : float
        That the plan aims at.
    remarks : tuple of Remark
        What is odd about columns of the pilot.
    rare : int
        Categories in fewer rows are folded into one.
    """

    points: tuple[NetPoint, ...]
    chosen: NetPoint
    protocol: Protocol
    base_accuracy: float
    samples_per_site: int
    disagreement: float
    remarks: tuple[Remark, ...] = ()
    rare: int = RARE

    @property
    def cautions(self) -> tuple[str, ...]:
        """Why the protocol may not be worth a study."""
        return no_better_than_base(self.chosen.accuracy, self.base_accuracy)

    def __str__(self) -> str:
        lines = [
            f"Pilot: always the larger class is right for {self.base_accuracy:.3f}; "
            f"{self.samples_per_site:,} rows per site",
            f"  {'directions':>10}  {'best of the net':>15}  {'may lose':>8}  {'expected':>8}"
            "  scaling",
        ]
        lines += [
            f"  {p.n_directions:10d}  {p.best_accuracy:15.3f}  {p.max_error:8.3f}  "
            f"{p.accuracy:8.3f}  {p.scaling}"
            for p in self.points
        ]
        lines.append(
            f"  chosen: {self.chosen.n_directions} directions that know the pilot's labels (its "
            f"own fit, then principal ones), {N_CANDIDATES:,} candidates; expected accuracy "
            f"{self.chosen.accuracy:.3f} at disagreement {self.disagreement:.3f} (estimated from "
            "the pilot)"
        )
        lines += [f"  {line}" for line in in_words(self.remarks, self.rare)]
        lines += [f"  Caution: {caution}" for caution in self.cautions]
        return "\n".join(lines)

    def under(self, protocol: Protocol) -> "NetPilotPlan":
        """The plan after its protocol was registered, or got the seed of a public value."""
        return replace(self, protocol=protocol)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            "base_accuracy": self.base_accuracy,
            "cautions": list(self.cautions),
            "chosen": asdict(self.chosen),
            "disagreement": self.disagreement,
            "points": [asdict(point) for point in self.points],
            "remarks": [asdict(remark) for remark in self.remarks],
            "samples_per_site": self.samples_per_site,
        }


def plan_net_study(
    X: Any,
    signs: Signs,
    classes: tuple[Any, ...],
    remarks: tuple[Remark, ...],
    request: Request,
    *,
    fit_intercept: bool = True,
    margin: float = 0.1,
) -> NetPilotPlan:
    """Plan a study with Algorithm 3; see `replearn.plan_from_pilot`.

    The margin is recorded in the protocol; the number of candidates is fixed. The plan aims at 60 %
    of the wanted disagreement.

    Notes
    -----
    The directions are the pilot's own batch-SVM normal and principal directions of what is left,
    2 to 6 of them. A net of 2,000 directions of that space is searched on four folds, and its best
    candidate is judged on the fifth. What agreement costs follows from the rows: the choice may
    lose ``affordable_error``, and what it does lose is judged on the fifth, too. Tested in
    tests/unit/test_protocols_of_recipes.py.
    """
    refuse_auto(margin)
    rho, n_rows = request.max_disagreement, request.samples_per_site
    aimed = _SAFETY * rho
    shared = SharedRandomness(seed_text(request.shared_seed, "shared_seed"))
    Guarantee(margin, 0.5, rho, request.failure_prob)  # refuses what makes no sense
    found: list[tuple[NetPoint, Encoding, Basis]] = []
    for way in encodings(X, request.categories, request.rare):
        pilot = scaled(*way, X, fit_intercept)
        if len(pilot.axes) == 0:
            raise ReplearnError(
                f"a net over published directions needs at most 20,000 columns, got "
                f'{pilot.rows.shape[1]:,}. Use algorithm="svm", or fewer columns.'
            )
        normals = cross_validated_normals(pilot.rows, signs, _WEIGHT, shared)
        whole = np.asarray(normals.mean(axis=0))
        for k in range(2, min(MAX_NET_DIRECTIONS, pilot.rows.shape[1]) + 1):
            error = affordable_error(k, aimed, n_rows)
            best, expected = _of_net(pilot, signs, normals, k, error)
            point = NetPoint(k, pilot.scaling, best, float(decimal(error)), expected)
            found.append((point, pilot.encoding, Basis.from_directions(_axes(pilot, whole, k))))
    affordable = [way for way in found if way[0].max_error < 0.5]
    if not affordable:
        least = min(point.max_error for point, *_ in found)
        raise ReplearnError(
            f"a net needs more rows than the {n_rows:,} of a site: its choice would have "
            f"to lose {least:g} of accuracy to agree. Get more rows, allow more "
            'disagreement, or use algorithm="logistic".'
        )
    chosen, encoding, basis = max(affordable, key=lambda way: way[0].accuracy)
    points = tuple(
        max((p for p, *_ in found if p.n_directions == k), key=lambda point: point.accuracy)
        for k in sorted({p.n_directions for p, *_ in found})
    )
    protocol = Protocol(
        algorithm="net",
        parameters={
            "agnostic": True,
            "failure_prob": repr(request.failure_prob),
            "fit_intercept": fit_intercept,
            "margin": repr(margin),
            "max_disagreement": repr(rho),
            "max_error": decimal(chosen.max_error),
            "n_candidates": N_CANDIDATES,
            "n_components": chosen.n_directions,
            "net": "random",
            "projection": "published",
        },
        seed=str(shared.seed),
        classes=classes,
        encoding=encoding,
        basis=basis,
        notes={
            "expected_accuracy": f"{chosen.accuracy:.3f}",
            "expected_disagreement": f"{aimed:.3f}",
            "samples_per_site": str(n_rows),
            "scaling": chosen.scaling,
        },
        target=request.target,
    )
    base = float(max((signs > 0).mean(), (signs < 0).mean()))
    return NetPilotPlan(points, chosen, protocol, base, n_rows, aimed, remarks, request.rare)


def _axes(pilot: Scaled, normal: Vector, n_directions: int) -> Matrix:
    """The pilot's own normal, then principal directions, made orthogonal to what comes before."""
    axes: list[Vector] = []
    for direction in (normal, *pilot.axes):
        left = direction - sum((axis * (axis @ direction) for axis in axes), np.zeros(normal.size))
        length = float(np.linalg.norm(left))
        if length > 1e-6:
            axes.append(left / length)
        if len(axes) == n_directions:
            break
    return np.array(axes)


def _of_net(
    pilot: Scaled, signs: Signs, normals: Matrix, n_directions: int, max_error: float
) -> tuple[float, float]:
    """Held-out accuracy of the best candidate of a net, and of what a site's choice would give.

    A site takes the first candidate below a threshold, in random order: any of those, that is.
    """
    coins = SharedRandomness("pilot/net")
    size = N_CANDIDATES * n_directions
    net = coins.normals("candidates", size).reshape(N_CANDIDATES, n_directions)
    folds, best, chosen = folds_of(signs.size), [], []
    for fold, normal in enumerate(normals):
        points = np.asarray(pilot.rows @ _axes(pilot, normal, n_directions).T)
        right, held = (points @ net.T) * signs[:, None] > 0, folds == fold
        errors, accuracy = 1 - right[~held].mean(axis=0), right[held].mean(axis=0)
        least = float(errors.min())
        best.append(accuracy[np.argmin(errors)])
        for share in _THRESHOLDS:
            chosen.append(accuracy[errors <= least + share * max_error].mean())
    return float(np.mean(best)), float(np.mean(chosen))
