"""Standard errors of a lab's own coefficients, with the ridge taken out.

A ridge moves coefficients towards zero, and an interval around a moved number covers the truth too
seldom. So Newton's steps go on from the fit without its ridge; what is left of it is worth a
hundredth of a row, so that columns that separate the classes keep a finite, wide interval. The
variance is the sandwich of each row's influence, or of each group's, with leverages taken out
(HC3), or what the model itself predicts, whichever is larger: `replearn.glm.influence`. Own
hazard ratios are Cox's: `replearn.glm.cox`. A column that follows from those before it has no
estimate, as R's NA, so that the others keep theirs: `replearn.glm.collinear`.
"""

from dataclasses import dataclass, replace

import numpy as np

from replearn.documents import decimal_text
from replearn.exact import algebra
from replearn.glm.collinear import repeated_terms
from replearn.glm.cox import cox_fit
from replearn.glm.derivatives import MOST_STEERED, mean_gradient, mean_information, sums_at
from replearn.glm.influence import influence_of
from replearn.glm.losses import Hazard, Loss
from replearn.glm.newton import MAX_THETA, Summary
from replearn.glm.preconditioners import LEAST_PIVOT
from replearn.rows import (
    EVERY_ROW,
    MOST_TRIED,
    ROW_BITS,
    THETA_BITS,
    WEIGHT_BITS,
    Block,
    Rows,
    dense_terms,
    on_grid,
    sampled,
)
from replearn.tables import INTERVAL, Encoding, Term
from replearn.types import Mask, Matrix, Vector

#: The ridge of terms that follow from others, which keeps them at 0.
_PINNED = 1024.0
#: Of a normal distribution: 95% are within.
Z95 = 1.959963984540054
#: What is left of the ridge, in rows.
_LEFT = 0.01
_MOST_STEPS = 20
#: Events up to which own hazard ratios are Cox's.
_MOST_EVENTS = 5000
#: Steps end when the mean loss would fall by less than this, times the rows: a hundredth of a
#: standard error.
_NEAR = 1e-4
#: Digits of a standard error; estimates end at the same decimal place.
_DIGITS = 3


@dataclass(frozen=True, eq=False)
class Estimates:
    """What a lab's own rows say about each coefficient, without the ridge: per unit, uncentred.

    Attributes
    ----------
    estimate, standard_error : arrays of shape (n_scores, 1 + n_terms)
        The constant comes first; NaN for terms without a row, or that follow from earlier ones.
    n_rows : int
        Of Cox's model persons.
    n_beyond : int
        Numbers beyond the study's range.
    as_they_are : bool
        Whether these are taken as they are; else they are set to the ends of the range.
    is_cox : bool
        Whether hazard ratios are those of Cox's partial likelihood; else of the study's intervals.
    is_grouped : bool
        Whether influences were added up in groups of rows before the sandwich squared them.
    """

    estimate: Matrix
    standard_error: Matrix
    n_rows: int
    n_beyond: int = 0
    as_they_are: bool = False
    is_cox: bool = False
    is_grouped: bool = False

    @property
    def interval(self) -> tuple[Matrix, Matrix]:
        """Ends of the 95% intervals."""
        reach = Z95 * self.standard_error
        return self.estimate - reach, self.estimate + reach

    @property
    def content(self) -> dict[str, object]:
        """As JSON types, to three digits of the standard errors."""
        errors = [[_shortened(error) for error in row] for row in self.standard_error.tolist()]
        estimates = [
            [_as_far(number, error) for number, error in zip(*both, strict=True)]
            for both in zip(self.estimate.tolist(), errors, strict=True)
        ]
        stated = {"rows": self.n_rows, "estimate": estimates, "standard_error": errors}
        if self.n_beyond:
            stated |= {"beyond": self.n_beyond, "as_they_are": self.as_they_are}
        if self.is_cox:
            stated["cox"] = True
        if self.is_grouped:
            stated["grouped"] = True
        return stated

    @classmethod
    def of_content(cls, content: object, shape: tuple[int, int]) -> "Estimates | None":
        """What a file states about a model of this shape; None if it states nothing usable."""
        try:
            estimate, error = (
                np.array(content[key], dtype=np.float64)  # type: ignore[index]
                for key in ("estimate", "standard_error")
            )
            n_rows = int(content["rows"])  # type: ignore[index]
            n_beyond = int(content.get("beyond", 0))  # type: ignore[attr-defined]
            flags = [
                content.get(key) is True  # type: ignore[attr-defined]
                for key in ("as_they_are", "cox", "grouped")
            ]
        except (AttributeError, KeyError, TypeError, ValueError):
            return None
        for part in (estimate, error):
            if part.shape != shape or np.isinf(part).any():
                return None
        return cls(estimate, error, n_rows, n_beyond, *flags)


def estimates_of(
    rows: Rows,
    encoding: Encoding,
    loss: Loss,
    theta: Matrix,
    summary: Summary,
    stretch: Vector | float = 1.0,
) -> Estimates | None:
    """Estimates and standard errors of a lab, from its fit ``theta`` in whole units.

    None beyond 500 coefficients, and where rows are combinations of encoded numbers. Columns have
    units ``stretch`` times as large as in a study, so coefficients may be as much larger.
    """
    if theta.size > MOST_STEERED or rows.n_terms != encoding.n_terms:
        return None
    lab = _Lab(rows, sampled(rows, 2 * MOST_TRIED, salt=3), loss, summary)

    # Newton's steps go on without the ridge
    repeated = lab.repeated(theta)
    left: Vector = _LEFT / summary.n_rows / stretch**2 + _PINNED * repeated.astype(np.float64)
    point, information = lab.without_ridge(theta, left, stretch)

    # in the units of the target
    turn = encoding.per_unit(np.eye(theta.shape[1])) * loss.scale[0]
    estimate = encoding.per_unit(point * 2.0**-THETA_BITS) * loss.scale[0]
    estimate[:, 0] += loss.scale[1]
    own = Estimates(estimate, lab.standard_errors(point, information, turn), summary.n_rows)
    if isinstance(loss, Hazard) and lab.is_complete:
        own = _with_cox(own, next(iter(rows.blocks())), encoding, repeated)
    for part in (own.estimate, own.standard_error):
        part[:, repeated] = np.nan
    is_grouped = any(block.groups is not None for block in rows.blocks())
    return replace(own, is_grouped=is_grouped)


@dataclass(frozen=True)
class _Lab:
    """Rows of a lab, and those of them that give information and influences."""

    rows: Rows
    kept: Rows
    loss: Loss
    summary: Summary

    @property
    def is_complete(self) -> bool:
        """Whether all rows do."""
        return self.kept is self.rows

    def repeated(self, theta: Matrix) -> Mask:
        """Coefficients of one score that earlier ones make superfluous."""
        n = theta.shape[1]
        for some in (self.kept, self.rows):  # what some rows cannot tell apart all are asked
            sums = sums_at(some.blocks(), self.loss, theta, EVERY_ROW, work=self.rows.work)
            repeated = repeated_terms(mean_information(sums, self.loss, 0.0)[:n, :n])
            if self.is_complete or not repeated.any():
                break
        return repeated

    def without_ridge(
        self, theta: Matrix, left: Vector, stretch: Vector | float
    ) -> tuple[Matrix, Matrix]:
        """Where Newton's steps end once hardly a ridge is left, and the information there."""
        loss, work = self.loss, self.rows.work
        last = point = theta
        step, slope = np.zeros_like(theta), 0.0  # from the last point; the loss along it
        for _ in range(_MOST_STEPS):
            # 0 the information comes from some rows, the gradient from all
            sums = sums_at(self.kept.blocks(), loss, point, EVERY_ROW, work=work)
            information = mean_information(sums, loss, left)
            if not self.is_complete:
                sums = sums_at(self.rows.blocks(), loss, point, work=work)
            gradient = mean_gradient(sums, point, loss, left)

            # 1 line search: half of a step that went far beyond its lowest point
            if algebra.dot(gradient, step) > -slope:
                step, slope = 0.5 * step, 0.5 * slope
                point = last + on_grid(step, THETA_BITS)
                continue

            # 2 Newton step; the end if it promises little
            lower = algebra.cholesky(information, LEAST_PIVOT)
            step = -algebra.solve(lower, gradient.reshape(-1)).reshape(theta.shape)
            if -algebra.dot(gradient, step) * self.summary.n_rows < _NEAR:
                break

            # 3 long steps come from columns that nearly separate: one at a time, and not too far
            step = step * min(1.0, 4.0 / max(float(np.abs(step / stretch).max()), 1e-300))
            slope = algebra.dot(gradient, step)
            following = point + on_grid(step, THETA_BITS)
            if np.abs(following / stretch).max() >= MAX_THETA * 2.0**THETA_BITS:
                break
            last, point = point, following
        return point, information

    def standard_errors(self, point: Matrix, information: Matrix, turn: Matrix) -> Matrix:
        """Of coefficients per unit, which ``turn`` makes of those of encoded columns."""
        # influences on each are asked for in units of what the model itself predicts
        lower = algebra.cholesky(information, LEAST_PIVOT)
        turns = np.asarray(np.kron(np.eye(len(point)), turn), dtype=np.float64)
        half = algebra.forward(lower, turns)
        deviations = np.sqrt((half * half).sum(axis=0)).reshape(point.shape)
        size = deviations.max(axis=0)
        n_rows, weight = self.summary.n_rows, self.summary.weight * 2.0**-WEIGHT_BITS
        about = information, (np.eye(len(point)), turn / size), n_rows, weight
        influence = influence_of(self.kept.blocks(), self.loss, point, *about)

        variance = influence.variance
        if any(block.groups is not None for block in self.kept.blocks()):
            # groups show how they spread; what the model predicts knows nothing of them
            alone = [replace(block, groups=None) for block in self.kept.blocks()]
            expected = influence_of(alone, self.loss, point, *about).expected
            variance = np.maximum(influence.observed, expected)
        return np.sqrt(variance.reshape(point.shape) * (size * size) / n_rows)


def _with_cox(own: Estimates, block: Block, encoding: Encoding, repeated: Mask) -> Estimates:
    """Hazard ratios of Cox's partial likelihood in place of those that intervals give.

    The baseline follows from them: events over what the hazard ratios expect in each interval. Too
    many events for that leave many intervals, which are as good.
    """
    if not 0 < block.targets.sum() <= _MOST_EVENTS or block.offset is None:
        return own

    # hazard ratios, the interval being a stratum
    of_time = np.array([is_interval(encoding, term) for term in encoding.terms])
    terms = dense_terms(block.terms) * 2.0**-ROW_BITS
    interval = terms[:, of_time] @ np.arange(1, of_time.sum() + 1)
    X, time = terms[:, ~of_time], np.exp(block.offset)
    pinned = _PINNED * len(X) * repeated[1:][~of_time]
    # rows of a person follow each other, the first interval first
    persons = np.cumsum(interval == 0)
    n_persons = int(persons[-1])
    groups = persons if block.groups is None else block.groups
    fit = cox_fit(X, interval, time, block.targets, groups, pinned)
    if fit is None:
        return own

    # the baseline: a constant, and how later intervals differ from the first
    theta = np.zeros((1, 1 + len(of_time)))
    slopes, baseline = (1 + np.flatnonzero(some) for some in (~of_time, of_time))
    theta[0, slopes] = fit.beta
    n_intervals = 1 + len(baseline)
    at = interval.astype(np.intp)
    expected = np.bincount(at, time * np.exp(X @ fit.beta), minlength=n_intervals)
    events = np.bincount(at, block.targets, minlength=n_intervals)
    hazards = np.log(np.maximum(events, 1.0) / np.maximum(expected, 1e-300))
    theta[0, 0] = hazards[0]
    theta[0, baseline] = hazards[1:] - hazards[0]

    estimate = encoding.per_unit(theta)
    turn = encoding.per_unit(np.eye(theta.shape[1]))[np.ix_(slopes, slopes)]
    errors = own.standard_error.copy()
    errors[0, slopes] = np.sqrt(np.diagonal(turn.T @ fit.covariance @ turn))

    # an interval without an event has no baseline, nor has any if that is the first
    unknown = np.append(0, baseline)[(events == 0) | (events[0] == 0)]
    estimate[0, unknown] = errors[0, unknown] = np.nan
    return Estimates(estimate, errors, n_persons, is_cox=True)


def is_interval(encoding: Encoding, term: Term) -> bool:
    """Whether a term is the baseline of an interval of time."""
    return len(term.columns) == 1 and encoding.columns[term.columns[0]].name == INTERVAL


def _shortened(error: float) -> float | None:
    """A standard error in three digits; None where there is none."""
    if np.isnan(error):
        return None
    return float(decimal_text(error, _DIGITS))


def _as_far(number: float, error: float | None) -> float | None:
    """A number to the last decimal place that its standard error has."""
    if error is None or not error > 0:
        return None if error is None else number
    places = _DIGITS - 1 - int(np.floor(np.log10(error)))
    return round(number, places)
