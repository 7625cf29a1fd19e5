"""A logistic study of two classes: from a pilot to a protocol, and to the truth about it."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from replearn.codes.basis import UNIT
from replearn.codes.design import Design
from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError
from replearn.plans.plan_logistic import log_odds
from replearn.stages.batches import Rows
from replearn.stages.scores import all_steps
from replearn.study.pilot.allotment import Agreement, Allotment, best_allotment
from replearn.study.pilot.cross_fit import (
    Family,
    discovery_family,
    discovery_scores,
    fold_axes,
    supervised_family,
    with_constant,
)
from replearn.study.pilot.designs import design_of
from replearn.study.pilot.encoders import SCALINGS, EncodedPilot, encoded_pilots, in_own_span
from replearn.study.pilot.families import SUPERVISED
from replearn.study.pilot.pilot_plan import SHOWN_BITS, PilotPlan
from replearn.study.pilot.request import SAFETY, Request, threshold_of
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
from replearn.study.pilot.unlucky_seeds import SeedCheck, no_cautions
from replearn.study.protocol import Protocol
from replearn.types import Matrix, Signs, Vector

#: Directions at the most, and pilot rows for each of them.
MAX_DIRECTIONS = 48
_ROWS_PER_DIRECTION = 40


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
    asked_seed = seed_text(request.shared_seed, "shared_seed")
    agreement = Agreement(
        request.samples_per_site,
        SAFETY * request.max_disagreement,
        request.hint_bits,
        request.sites,
    )
    allotment = best_allotment(found.families, agreement)
    threshold = threshold_of(request.threshold, found.share)
    design = design_of(allotment, found.pilot, found.span, threshold, found.residuals)
    noise = _seed_noise(found, allotment, design)
    rows = _rows(found, allotment, design, noise)
    seeds = _seed_check(found, design)
    seed, passed_over = (asked_seed, []) if seeds is None else seeds.upright(asked_seed)
    protocol = Protocol(
        algorithm="logistic",
        parameters={
            "failure_prob": repr(request.failure_prob),
            "max_disagreement": repr(request.max_disagreement),
        },
        seed=seed,
        classes=found.classes,
        encoding=found.pilot.encoding,
        basis=None,
        notes=_notes(request.study, rows, allotment, found, request.sites),
        design=design,
        target=request.target,
    )
    seed_cautions = no_cautions if seeds is None else seeds.cautions
    return PilotPlan(
        study=request.study,
        n_pilot=int(found.rows.shape[0]),
        n_positive=0 if found.truth is None else int(found.truth.sum()),
        table=rows,
        by_bits=tuple(_of_bits(found, agreement, bits, rows) for bits in SHOWN_BITS)
        if rows
        else (),
        by_rows=_by_rows(found, agreement, rows) if rows else (),
        rows_to_halve=_rows_to_halve(allotment, found),
        directions=_words(allotment.family, found, request.scores),
        n_codes=allotment.size,
        hint_bits=request.hint_bits,
        n_sites=request.sites,
        samples_per_site=request.samples_per_site,
        evidence_bits=allotment.evidence_bits,
        remarks=found.remarks,
        rare=request.rare,
        cautions=(
            *_cautions(rows, request.study),
            *(() if seeds is None else seeds.left_to_chance()),
            *passed_over,
            *seed_cautions(protocol.seed),
        ),
        protocol=protocol,
        replan=partial(_replanned, found, request),
        seed_cautions=seed_cautions,
    )


def _replanned(found: "_Studied", request: Request, **changes: Any) -> PilotPlan:
    """Plan again from the same pilot."""
    return _planned(found, request.changed(found.truth is not None, **changes))


@dataclass(frozen=True)
class _Studied:
    """A pilot in its best scaling, with what it says about families of directions.

    Attributes
    ----------
    pilot : EncodedPilot
    rows, span : arrays
        The rows in an orthonormal basis of their span, and that basis.
    families : list of Family
    fits : HeldOut or None
    truth : array or None
        Which rows have the second label.
    share : float
        Of the second label.
    classes : tuple of two labels
    remarks : tuple of Remark
        On the columns.
    """

    pilot: EncodedPilot
    rows: Matrix
    span: Matrix
    families: list[Family]
    fits: HeldOut | None
    truth: Truth | None
    share: float
    classes: tuple[Any, ...]
    remarks: tuple[Remark, ...]

    @property
    def residuals(self) -> Matrix | None:
        """Held-out ``p - t`` of the pilot's own model, as one column."""
        if self.fits is None or self.truth is None:
            return None
        return np.asarray(expit(self.fits.calibrated) - self.truth)[:, None]


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
        found = _Studied(pilot, rows, span, [], fits, truth, share, classes, remarks)
        if request.study == "discovery":
            found = replace(found, families=[_discovery(found)])
        ways.append(found)
    best = min(ways, key=_scaling_loss)
    return best if best.families else replace(best, families=_supervised(best, request))


def _scaling_loss(found: _Studied) -> float:
    """What a scaling is chosen by: held-out log-loss of what the sites would fit.

    Without labels all are equal, and the first is taken.
    """
    if found.truth is None or found.fits is None:
        return 0.0
    if not found.families:
        return log_loss(found.truth, found.fits.calibrated)
    return log_loss(found.truth, _discovered(found, found.families[0].signal.size))


def _most_directions(found: _Studied) -> int:
    n_rows, n_columns = found.rows.shape
    return min(MAX_DIRECTIONS, n_columns, max(1, n_rows // _ROWS_PER_DIRECTION))


def _discovery(found: _Studied) -> Family:
    fold = None if found.fits is None else found.fits.fold
    return discovery_family(found.rows, found.truth, found.share, _most_directions(found), fold)


def _discovered(found: _Studied, size: int) -> Vector:
    """Held-out log-odds of a discovery with a number of coordinates, before any rounding."""
    assert found.fits is not None
    assert found.truth is not None
    return discovery_scores(found.rows, found.truth, found.share, found.fits.fold, size)


def _supervised(found: _Studied, request: Request) -> list[Family]:
    assert found.fits is not None
    assert found.truth is not None
    most = _most_directions(found)
    published = score_directions(request.scores, found.pilot.encoding) @ found.span.T
    axes = fold_axes(found.rows, found.fits, most)
    return [
        supervised_family(name, found.rows, found.truth, found.fits, most, published, axes)
        for name in SUPERVISED
    ]


def _rows(
    found: _Studied, allotment: Allotment, design: Design, noise: Matrix | None
) -> tuple[PlanRow, ...]:
    """The table: base rate, pilot's own model, this protocol, one site without rounding."""
    truth, share = found.truth, found.share
    if truth is None or found.fits is None or noise is None:
        return ()
    threshold = float(design.space.threshold)
    base = majority(share)
    own = of_scores("the pilot's own model, as it is", truth, found.fits.calibrated, threshold)
    single = _single(found, truth, allotment, own, base)
    planned = replace(
        _gained(allotment, (base, own, own, single)),
        name="this protocol",
        disagreement=allotment.agreement.disagreement,
    )
    return base, own, with_seeds(planned, noise), single


def _columns(found: _Studied, design: Design) -> Matrix:
    """The pilot's rows in the published directions, after a constant."""
    return with_constant(np.asarray(found.pilot.rows @ (design.space.directions.rows * UNIT).T))


def _seed_noise(found: _Studied, allotment: Allotment, design: Design) -> Matrix | None:
    """Log-loss and AUC over seeds; None without labels."""
    if found.truth is None or found.fits is None:
        return None
    columns = _columns(found, design)
    return seed_noise(allotment, design, columns, TwoClasses(found.truth), found.fits.calibrated)


def _seed_check(found: _Studied, design: Design) -> SeedCheck | None:
    """Who says what must be said about a seed, if labels tell where the sites are expected."""
    if found.truth is None or found.fits is None:
        return None
    theta, scores = design.space.start_numbers, found.fits.calibrated
    if design.n_steps > 1:  # not at the start, which knows no label, but where the pilot is
        theta = _where_pilot_is(found.pilot.rows, found.truth, design)
        scores = _discovered(found, design.space.n_components)
    rows = _columns(found, design), TwoClasses(found.truth), scores
    return SeedCheck(design, theta, *rows, majority(found.share))


def _where_pilot_is(X: Any, truth: Truth, design: Design) -> Vector:
    """The weights that the pilot's own rows would give, before rounding."""
    return all_steps(Rows(X, truth.view(np.uint8), np.arange(truth.size)), design).following


def _single(
    found: _Studied, truth: Truth, allotment: Allotment, own: PlanRow, base: PlanRow
) -> PlanRow:
    """One site's rows without any rounding."""
    name = "one site's rows, not replicable"
    if allotment.family.n_steps > 1:
        name = "one site's rows, same directions"
        threshold = log_odds(found.share)
        row = of_scores(name, truth, _discovered(found, allotment.size), float(threshold))
        # a site has more rows than the fits on four fifths of the pilot
        fewer = 1 / ((1 - 1 / N_FOLDS) * truth.size) - 1 / allotment.agreement.samples_per_site
        to_learn = float(allotment.family.variance[: allotment.size].sum()) / 2 * max(fewer, 0.0)
        return expected(name, row, base, to_learn)
    precise = replace(allotment.agreement, hint_bits=MAX_HINT_BITS)
    gain = max(best_allotment([family], precise).full_gain for family in found.families)
    return expected(name, own, base, gain)


def _of_bits(
    found: _Studied, agreement: Agreement, bits: int, rows: Sequence[PlanRow]
) -> tuple[int, PlanRow, int]:
    allotment = best_allotment(found.families, replace(agreement, hint_bits=bits))
    return bits, _gained(allotment, rows), allotment.size


def _gained(allotment: Allotment, rows: Sequence[PlanRow]) -> PlanRow:
    """What an allotment gives: more than the pilot's own model, or a share of one site's rows."""
    base, own, _, single = rows
    if allotment.family.n_steps == 1:
        return expected("", own, base, allotment.gain)
    lost = 1 - allotment.gain / allotment.full_gain
    return expected("", single, base, -lost * (base.log_loss - single.log_loss))


def _by_rows(
    found: _Studied, agreement: Agreement, rows: Sequence[PlanRow]
) -> tuple[tuple[int, PlanRow], ...]:
    made = []
    for factor in (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100):
        n = max(100, round(agreement.samples_per_site * factor))
        allotment = best_allotment(found.families, replace(agreement, samples_per_site=n))
        made.append((n, _gained(allotment, rows)))
    return tuple(made)


def _rows_to_halve(allotment: Allotment, found: _Studied) -> int | None:
    """Rows per site at which rounding costs half, to two digits; None if that is out of reach."""
    cost = allotment.full_gain - allotment.gain
    if cost <= 1e-6:
        return None
    n, factors = allotment.agreement.samples_per_site, 2.0 ** np.arange(0.25, 12, 0.25)

    def halves(factor: float) -> bool:
        more = replace(allotment.agreement, samples_per_site=round(n * factor))
        return best_allotment(found.families, more).gain >= allotment.full_gain - cost / 2

    place = bisect_left(factors, True, key=halves)
    return None if place == factors.size else int(float(f"{n * factors[place]:.2g}"))


def _cautions(rows: Sequence[PlanRow], study: str) -> list[str]:
    if not rows:
        return []
    base, own, planned, _ = rows
    return cautions(base, own, planned, own_model=study == "updating")


def _words(family: Family, found: _Studied, scores: Sequence[PublishedScore]) -> str:
    given = "the published scores, " if scores else ""
    words = {
        "pca": "principal directions",
        "score": f"{given}the pilot's own fit, then principal directions",
        "pls": f"{given}the pilot's own fit, then partial least squares",
        "ridges": f"{given}the pilot's own fits at several ridge weights",
    }[family.name]
    return f"{words}; {SCALINGS[found.pilot.scaling]}"


def _notes(
    study: str, rows: Sequence[PlanRow], allotment: Allotment, found: _Studied, sites: int
) -> dict[str, str]:
    """What people should find in the protocol about its origin."""
    notes = {
        "directions": allotment.family.name,
        "evidence_bits": f"{allotment.evidence_bits:.1f}",
        "expected_disagreement": f"{allotment.agreement.disagreement:.3f}",
        "n_pilot": str(found.rows.shape[0]),
        "samples_per_site": str(allotment.agreement.samples_per_site),
        "scaling": found.pilot.scaling,
        "sites": str(sites),
        "study": study,
    }
    if rows:
        _, own, planned, _ = rows
        notes |= {
            "expected_auc": f"{planned.auc:.4f}",
            "expected_balanced_accuracy": f"{planned.balanced_accuracy:.4f}",
            "expected_log_loss": f"{planned.log_loss:.4f}",
            "pilot_auc": f"{own.auc:.4f}",
            "pilot_log_loss": f"{own.log_loss:.4f}",
        }
    return notes
