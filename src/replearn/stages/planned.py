"""What a pilot expected of a study, beside what a fit gave."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from replearn.stages.worth import Worth

#: AUCs closer than this are not told apart.
_TIE = 0.002


@dataclass(frozen=True)
class Planned:
    """What the notes of a protocol say about its worth; None where they say nothing.

    Attributes
    ----------
    expected_auc, expected_log_loss, expected_balanced_accuracy : float or None
        Of this protocol, by held-out rows of the pilot.
    pilot_auc, pilot_log_loss : float or None
        Of the pilot's own model, published as it is.
    n_pilot : float or None
        Rows of the pilot, which say how sure its numbers are.
    """

    expected_auc: float | None = None
    expected_log_loss: float | None = None
    expected_balanced_accuracy: float | None = None
    pilot_auc: float | None = None
    pilot_log_loss: float | None = None
    n_pilot: float | None = None

    @classmethod
    def of(cls, notes: Mapping[str, Any] | None) -> "Planned":
        """From the notes of a protocol, which anybody may have written; None: there is none."""
        notes = {} if notes is None else notes
        return cls(**{field.name: _number(notes.get(field.name)) for field in fields(cls)})

    def data(self) -> dict[str, float | None]:
        """As JSON types."""
        return asdict(self)

    def lines(self, worth: Worth) -> list[tuple[str, str]]:
        """Expected beside measured, as names and values."""
        rows = (
            ("AUC", self.expected_auc, worth.auc, self.pilot_auc),
            ("log-loss", self.expected_log_loss, worth.log_loss, self.pilot_log_loss),
            ("balanced accuracy", self.expected_balanced_accuracy, worth.balanced_accuracy, None),
        )
        return [
            (
                name,
                f"planned {expected:.3f}, here {measured}"
                + ("" if pilot is None else f"; the pilot's own model {pilot:.3f}"),
            )
            for name, expected, measured, pilot in rows
            if expected is not None and measured is not None
        ]

    def problems(self, worth: Worth) -> tuple[str, ...]:
        """Why the model is worth less than what the pilot knew, one sentence each."""
        area = worth.auc
        if area is None or self.pilot_auc is None or worth.inverted or worth.no_signal:
            return ()  # reported already
        if area.high - 0.5 < (self.pilot_auc - 0.5) / 2:
            return (
                f"The model keeps less than half of the pilot's signal: AUC {area}, the pilot's "
                f"own model had {self.pilot_auc:.3f}. Plan with more rows per site or with hint "
                "bits; or these rows are of another population.",
            )
        unsure = math.hypot(area.high - area.value, self._pilot_unsure(worth))
        if self.pilot_auc - area.value > unsure + _TIE:
            whose = "" if self.n_pilot is None else f" on its own {self.n_pilot:,.0f} rows"
            return (
                f"The pilot's own model, published as it is, would be better: it had AUC "
                f"{self.pilot_auc:.3f}{whose}, this model has {area}. Plan with hint bits or more "
                "rows; or these rows are of another population.",
            )
        return ()

    def _pilot_unsure(self, worth: Worth) -> float:
        """Half the width of an interval around the pilot's AUC: few rows made it.

        By Hanley and McNeil's variance, with the base rate of these rows.
        """
        area, n_rows = self.pilot_auc, self.n_pilot
        rare = min(rate.value for rate in worth.base_rates)
        if area is None or n_rows is None or not 0.5 <= area <= 1 or n_rows * rare < 1:
            return 0.0
        n_few, n_many = n_rows * rare, n_rows * (1 - rare)
        one, two = area / (2 - area), 2 * area**2 / (1 + area)
        spread = (n_few - 1) * (one - area**2) + (n_many - 1) * (two - area**2)
        return 1.96 * math.sqrt(max(area * (1 - area) + spread, 0.0) / (n_few * n_many))


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None
