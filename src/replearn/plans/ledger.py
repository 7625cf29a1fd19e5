"""What the steps of a study spend of its disagreement."""

from dataclasses import dataclass

from replearn.errors import ReplearnError


@dataclass(frozen=True)
class Spending:
    """One step of a study."""

    what: str
    share: float  # probability that not all sites get the same result in this step


class StudyLedger:
    """Adds up what a study spends: whatever the steps, the sum bounds their disagreement together.

    Parameters
    ----------
    max_disagreement : float, default=0.1
        Of all results of the study together. Published; the steps in the same order everywhere.

    Examples
    --------
    >>> ledger = StudyLedger(0.2)
    >>> ledger.spend("choice of the model", 0.1)
    >>> ledger.spend("its accuracy", 0.05)
    >>> print(ledger)
      choice of the model  0.1
      its accuracy         0.05
      together             0.15 of 0.2
    """

    def __init__(self, max_disagreement: float = 0.1) -> None:
        if not 0 < max_disagreement < 1:
            raise ReplearnError(
                f"max_disagreement must be a number in (0, 1), got {max_disagreement!r}."
            )
        self.max_disagreement = float(max_disagreement)
        self.entries: tuple[Spending, ...] = ()

    @property
    def spent(self) -> float:
        """Sum over the steps so far."""
        return sum(entry.share for entry in self.entries)

    @property
    def remaining(self) -> float:
        """What later steps may spend."""
        return max(0.0, self.max_disagreement - self.spent)

    def spend(self, what: str, share: float) -> None:
        """Note a step; refused if the study cannot afford it, or has it already.

        Parameters
        ----------
        what : str
            Name of the step.
        share : float
        """
        if not 0 <= share < 1:
            raise ReplearnError(f"share must be a number in [0, 1), got {share!r}.")
        if any(entry.what == what for entry in self.entries):
            raise ReplearnError(
                f"{what!r} is in the ledger already. Two steps of one study need two names: with "
                "one name they would use the same coins."
            )
        if self.spent + share > self.max_disagreement + 1e-12:
            raise ReplearnError(
                f"{what!r} would spend {share:g}, but {self.remaining:.3g} of "
                f"{self.max_disagreement:g} is left. Give it a smaller share, or plan the study "
                "with a larger max_disagreement."
            )
        self.entries = (*self.entries, Spending(what, float(share)))

    def __str__(self) -> str:
        rows = [(entry.what, f"{entry.share:g}") for entry in self.entries]
        rows.append(("together", f"{self.spent:.6g} of {self.max_disagreement:g}"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)

    def __repr__(self) -> str:
        return f"<StudyLedger: {self.spent:.6g} of {self.max_disagreement:g} spent>"
