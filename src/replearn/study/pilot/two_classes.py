"""A logistic study of two classes: from a pilot to a protocol, and to the truth about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from replearn.codes.design import Design
from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.randomness import SharedRandomness
from replearn.errors import ReplearnError
from replearn.plans.plan_logistic import log_odds
from replearn.stages.batches import Rows
from replearn.stages.scores import all_steps
from replearn.study.pilot.allotment import Allotment, best_allotment
from replearn.study.pilot.cross_fit import (
    Family,
    discovery_family,
    discovery_scores,
    fold_axes,
    supervised_family,
)
from replearn.study.pilot.designs import design_of, published_columns
from replearn.study.pilot.encoders import SCALINGS, EncodedPilot, encoded_pilots, in_own_span
from replearn.study.pilot.families import SUPERVISED, most_directions
from replearn.study.pilot.pilot_plan import PilotPlan, study_plan
from replearn.study.pilot.request import Request, threshold_of
from replearn.study.pilot.ridge import N_FOLDS, HeldOut, Truth, held_out, log_loss
from replearn.study.pilot.safe_columns import Remark
from replearn.study.pilot.scores import PublishedScore, score_directions
from replearn.study.pilot.truth import (
    PlanRow,
    TwoClasses,
    cautions,
    expected,
    majority,
    of_scores,
    seed_noise,
    with_seeds,
)
from replearn.study.pilot.unlucky_seeds import SeedCheck
from replearn.types import Matrix, Signs, Vector

_MAX_DIRECTIONS = 48

#: Of the rows per site, for which a plan says what they would give.
_FACTORS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)


def plan_logistic_study(
    X: Any,
    signs: Signs | None,
    classes: tuple[Any, ...] | None,
    remarks: tuple[Remark, ...],
    request: Request,
) -> PilotPlan:
    """Plan a logistic study; see `replearn.plan_from_pilot`."""
    request.check(signs is not None)
    truth = None if signs is None else signs > 0
    share = request.share if truth is None else float(truth.mean())
    if classes is None or share is None:
        raise ReplearnError(
            "a pilot without labels needs classes, the two labels of the sites, and share, the "
            f"share of the second one, got {classes!r} and {share!r}."
        )
    return _planned(_studied(X, truth, share, classes, remarks, request), request)


def _planned(found: "_Studied", request: Request) -> PilotPlan:
    """The plan of a pilot that has been studied."""
    best = partial(best_allotment, found.families)
    allotment = best(request.agreement)
    threshold = threshold_of(request.threshold, found.share)
    design = design_of(allotment, found.pilot, found.span, threshold, found.residuals)
    rows: tuple[PlanRow, ...] = ()
    seeds, said = None, []
    if found.fits is not None:
        rows = _rows(found, found.fits, allotment, design)
        seeds = _seed_check(found, found.fits, design)
        base, own, planned, _ = rows
        said = cautions(base, own, planned, own_model=request.study == "updating")
    return study_plan(
        request,
        found.pilot,
        found.classes,
        allotment,
        design,
        rows,
        best=best,
        gained=partial(_gained, rows=rows),
        factors=_FACTORS,
        seeds=seeds,
        cautions=said,
        again=partial(_planned, found),
        n_positive=0 if found.fits is None else int(found.fits.truth.sum()),
        rows_to_halve=_rows_to_halve(allotment, found),
        directions=_words(allotment.family, found, request.scores),
        remarks=found.remarks,
    )


@dataclass(frozen=True)
class _Studied:
    """A pilot in its best scaling, with what it says about families of directions."""

    pilot: EncodedPilot
    rows: Matrix  # in an orthonormal basis of their span
    span: Matrix  # that basis
    families: list[Family]
    fits: HeldOut | None  # None: there are no labels
    share: float  # of the second label
    classes: tuple[Any, ...]
    remarks: tuple[Remark, ...]

    @property
    def residuals(self) -> Matrix | None:
        """Held-out ``p - t`` of the pilot's own model, as one column."""
        if self.fits is None:
            return None
        return np.asarray(expit(self.fits.calibrated) - self.fits.truth)[:, None]


def _studied(
    X: Any,
    truth: Truth | None,
    share: float,
    classes: tuple[Any, ...],
    remarks: tuple[Remark, ...],
    request: Request,
) -> _Studied:
    """Encode the pilot, choose its scaling by held-out log-loss, and look at its directions."""
    coins = SharedRandomness("pilot")  # folds do not depend on the study's seed
    ways = []
    for pilot in encoded_pilots(X, request.categories, request.rare):
        rows, span = in_own_span(pilot.rows)
        fits = None if truth is None else held_out(rows, truth, coins)
        found = _Studied(pilot, rows, span, [], fits, share, classes, remarks)
        if request.study == "discovery":
            family = discovery_family(rows, share, most_directions(rows, _MAX_DIRECTIONS), fits)
            found = replace(found, families=[family])
        ways.append(found)
    best = min(ways, key=_scaling_loss)
    if best.families or best.fits is None:
        return best
    return replace(best, families=_supervised(best, best.fits, request))


def _scaling_loss(found: _Studied) -> float:
    """What a scaling is chosen by: held-out log-loss of what the sites would fit.

    Without labels all are equal, and the first is taken.
    """
    if found.fits is None:
        return 0.0
    scores = found.fits.calibrated
    if found.families:
        scores = _discovered(found, found.fits, found.families[0].signal.size)
    return log_loss(found.fits.truth, scores)


def _discovered(found: _Studied, fits: HeldOut, size: int) -> Vector:
    """Held-out log-odds of a discovery with a number of coordinates, before any rounding."""
    return discovery_scores(found.rows, fits, found.share, size)


def _supervised(found: _Studied, fits: HeldOut, request: Request) -> list[Family]:
    most = most_directions(found.rows, _MAX_DIRECTIONS)
    published = score_directions(request.scores, found.pilot.encoding) @ found.span.T
    axes = fold_axes(found.rows, fits, most)
    return [supervised_family(name, found.rows, fits, most, published, axes) for name in SUPERVISED]


def _rows(
    found: _Studied, fits: HeldOut, allotment: Allotment, design: Design
) -> tuple[PlanRow, ...]:
    """The table: base rate, pilot's own model, this protocol, one site without rounding."""
    threshold = float(design.space.threshold)
    base = majority(found.share)
    own = of_scores("the pilot's own model, as it is", fits.truth, fits.calibrated, threshold)
    single = _single(found, fits, allotment, own, base)
    planned = replace(
        _gained(allotment, (base, own, own, single)),
        name="this protocol",
        disagreement=allotment.agreement.disagreement,
    )
    columns = published_columns(found.pilot, design)
    noise = seed_noise(allotment, design, columns, TwoClasses(fits.truth), fits.calibrated)
    return base, own, with_seeds(planned, noise), single


def _seed_check(found: _Studied, fits: HeldOut, design: Design) -> SeedCheck:
    """Who says what must be said about a seed, where the sites are expected."""
    theta, scores = design.space.start_numbers, fits.calibrated
    if design.n_steps > 1:  # not at the start, which knows no label, but where the pilot is
        order = np.arange(fits.truth.size)
        sample = Rows(found.pilot.rows, fits.truth.view(np.uint8), order)
        theta = all_steps(sample, design).following
        scores = _discovered(found, fits, design.space.n_components)
    columns = published_columns(found.pilot, design)
    return SeedCheck(design, theta, columns, TwoClasses(fits.truth), scores, majority(found.share))


def _single(
    found: _Studied, fits: HeldOut, allotment: Allotment, own: PlanRow, base: PlanRow
) -> PlanRow:
    """One site's rows without any rounding."""
    name = "one site's rows, not replicable"
    if allotment.family.n_steps > 1:
        name = "one site's rows, same directions"
        scores = _discovered(found, fits, allotment.size)
        row = of_scores(name, fits.truth, scores, float(log_odds(found.share)))
        # a site has more rows than the fits on four fifths of the pilot
        seen = (1 - 1 / N_FOLDS) * fits.truth.size
        fewer = 1 / seen - 1 / allotment.agreement.samples_per_site
        to_learn = float(allotment.family.variance[: allotment.size].sum()) / 2 * max(fewer, 0.0)
        return expected(name, row, base, to_learn)
    precise = replace(allotment.agreement, hint_bits=MAX_HINT_BITS)
    gain = max(best_allotment([family], precise).full_gain for family in found.families)
    return expected(name, own, base, gain)


def _gained(allotment: Allotment, rows: Sequence[PlanRow]) -> PlanRow:
    """What an allotment gives: more than the pilot's own model, or a share of one site's rows."""
    base, own, _, single = rows
    if allotment.family.n_steps == 1:
        return expected("", own, base, allotment.gain)
    lost = 1 - allotment.gain / allotment.full_gain
    return expected("", single, base, -lost * (base.log_loss - single.log_loss))


def _rows_to_halve(allotment: Allotment, found: _Studied) -> int | None:
    """Rows per site at which rounding costs half, to two digits; None if that is out of reach."""
    cost = allotment.full_gain - allotment.gain
    if cost <= 1e-6:
        return None
    n = allotment.agreement.samples_per_site
    for factor in 2.0 ** np.arange(0.25, 12, 0.25):
        more = replace(allotment.agreement, samples_per_site=round(n * factor))
        if best_allotment(found.families, more).gain >= allotment.full_gain - cost / 2:
            return int(float(f"{n * factor:.2g}"))
    return None


def _words(family: Family, found: _Studied, scores: Sequence[PublishedScore]) -> str:
    given = "the published scores, " if scores else ""
    words = {
        "pca": "principal directions",
        "score": f"{given}the pilot's own fit, then principal directions",
        "pls": f"{given}the pilot's own fit, then partial least squares",
        "ridges": f"{given}the pilot's own fits at several ridge weights",
    }[family.name]
    return f"{words}; {SCALINGS[found.pilot.scaling]}"
