"""Performance of a survival model at a horizon: concordance, calibration and Brier score."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.glm import GlmModel, concordance, hazard_of, log_hazards, survival_at
from replearn.reports.evaluate import Bin, calibration_table
from replearn.study import Measure
from replearn.tables import CsvOptions, event_numbers, event_times, open_table
from replearn.types import Ints, Vector
from replearn.words import Facts, Row, Spoken

_N_BINS = 5
_LEAST_BIN = 20
_Z95 = 1.96


@dataclass(frozen=True)
class HorizonEvaluation(Spoken):
    """A survival model on rows with times and events.

    Attributes
    ----------
    concordance : float
        Harrell's.
    predicted : float
        Mean risk at the horizon.
    observed : Measure
        One minus Kaplan and Meier's survival at the horizon, by Greenwood.
    brier, base_brier : float
        Graf's, weighted by the chance of not being censored; and that of one risk for all.
    bins : tuple of Bin
        Fifths of the predicted risk.
    """

    horizon: float
    n_rows: int
    n_events: int
    concordance: float
    predicted: float
    observed: Measure
    brier: float
    base_brier: float
    bins: tuple[Bin, ...]

    @property
    def is_inverted(self) -> bool:
        """Whether it ranks the wrong way round."""
        return self.concordance < 0.5

    def facts(self) -> Facts:
        """In words."""
        share = 1.0 - self.brier / self.base_brier
        verdict = (
            f"At {self.horizon:g} the model removes {share:.1%} of the Brier score of one risk for "
            "all."
        )
        if self.is_inverted:
            verdict = "The model ranks the wrong way round: its concordance is below 0.5."

        # beside the observed risk, which censoring makes an estimate
        observed = self.observed
        ratio = Measure(
            *(end / self.predicted for end in (observed.value, observed.low, observed.high))
        )
        return Facts(
            verdict,
            [
                Row("rows", self.n_rows, note=f"{self.n_events:,} events"),
                Row("concordance", self.concordance, note="Harrell's"),
                observed.row(f"risk by {self.horizon:g}, observed", "Kaplan and Meier", "%"),
                Row(f"risk by {self.horizon:g}, predicted", self.predicted, "%"),
                ratio.row("observed to expected", "1 is perfect"),
                Row("Brier score", self.brier, note=f"one risk for all {self.base_brier:.3f}"),
            ],
            [calibration_table("Calibration at the horizon", self.bins)],
        )


def evaluate_at(
    model: GlmModel, table: Any, horizon: float, csv: CsvOptions | None = None
) -> HorizonEvaluation:
    """Measure a survival model on rows that have its columns, times and events."""
    loss = hazard_of(model)
    names = [column.name for column in model.design.encoding.own_columns]
    source = open_table(table, target=loss.time, offset=loss.event, columns=names, csv=csv)
    times, events = event_times(source.whole("target")), event_numbers(source.whole("offset"))
    if not 0 < horizon < times.max():
        raise ReplearnError(
            f"the horizon must be positive and before the last time, {times.max():g}, got "
            f"{horizon:g}. Nobody was seen longer."
        )

    # predicted risks beside those of Kaplan and Meier
    risks = 1.0 - survival_at(model, source, [horizon])[:, 0]
    observed = _risk_by(horizon, times, events)
    return HorizonEvaluation(
        horizon,
        len(times),
        int(events.sum()),
        concordance(log_hazards(model, source), times, events),
        float(risks.mean()),
        observed,
        brier_score(risks, times, events, horizon),
        brier_score(np.full(len(times), observed.value), times, events, horizon),
        _bins(risks, times, events, horizon),
    )


def kaplan_meier(times: Vector, events: Vector, at: Vector, before: bool = False) -> Vector:
    """Survival at each of some times; with ``before`` just before them."""
    moments, at_risk, deaths = _at_events(times, events)
    curve = np.append(1.0, np.cumprod(1.0 - deaths / at_risk))
    return np.asarray(curve[np.searchsorted(moments, at, side="left" if before else "right")])


def _at_events(times: Vector, events: Vector) -> tuple[Vector, Ints, Ints]:
    """Times of events in order, rows under observation until then, and events at each."""
    moments, deaths = np.unique(times[events > 0], return_counts=True)
    at_risk = len(times) - np.searchsorted(np.sort(times), moments, side="left")
    return moments, at_risk, deaths


def brier_score(risks: Vector, times: Vector, events: Vector, horizon: float) -> float:
    """Graf's: squared errors of risks, each row weighted by its chance of not being censored."""
    uncensored = 1.0 - events
    here = np.minimum(times, horizon)
    is_event = (times <= horizon) & (events > 0)
    at_event = kaplan_meier(times, uncensored, here, before=True)
    at_horizon = float(kaplan_meier(times, uncensored, np.array([horizon]))[0])

    # who is censored before the horizon counts for nothing; the others stand for them
    weights = np.where(is_event, 1.0 / np.maximum(at_event, 1e-12), 0.0)
    weights = np.where(times > horizon, 1.0 / max(at_horizon, 1e-12), weights)
    return float((weights * (is_event - risks) ** 2).mean())


def _risk_by(horizon: float, times: Vector, events: Vector) -> Measure:
    """One minus Kaplan and Meier, with Greenwood's interval on the scale of log-survival."""
    survival = float(kaplan_meier(times, events, np.array([horizon]))[0])

    # Greenwood's sum over the times of events
    _, at_risk, deaths = _at_events(times, events * (times <= horizon))
    alive = np.maximum(at_risk * (at_risk - deaths), 1)

    reach = _Z95 * math.sqrt(float((deaths / alive).sum()))
    low, high = survival * math.exp(reach), survival * math.exp(-reach)
    return Measure(1.0 - survival, max(0.0, 1.0 - low), 1.0 - high)


def _bins(risks: Vector, times: Vector, events: Vector, horizon: float) -> tuple[Bin, ...]:
    order = np.argsort(risks, kind="stable")
    n_bins = min(_N_BINS, max(1, len(order) // _LEAST_BIN))
    return tuple(
        Bin(len(part), float(risks[part].mean()), _risk_by(horizon, times[part], events[part]))
        for part in np.array_split(order, n_bins)
    )
