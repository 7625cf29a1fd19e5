"""What an original is asked for: its options, and the names and meanings of columns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from replearn.codes import seed_text
from replearn.errors import (
    ReplearnError,
    is_real,
    one_of,
    plain_float,
    probability,
    short,
    whole_number,
)
from replearn.glm import Kind, named_pair


@dataclass(eq=False, repr=False, kw_only=True)
class Options:
    """Parameters of an original; see `replearn.ReplicableLogisticClassifier`."""

    max_disagreement: float = 0.01
    sketch_bits: int = 8
    between: Any = "typical"
    constant: Literal["shared", "local"] = "shared"
    basis: Literal["linear", "splines", "auto"] = "linear"
    interactions: Literal["all"] | Sequence[tuple[str, str]] | None = None
    ridge: float | Literal["auto"] = "auto"
    missing: Literal["indicator", "refuse"] = "indicator"
    replication_rows: int | None = None
    shared_seed: int | str = 0
    categories: Sequence[str] = ()
    numeric: Sequence[str] = ()
    drop: Sequence[str] = ()
    sealed: bool = False
    n_jobs: int | None = None


@dataclass(eq=False, repr=False, kw_only=True)
class Request(Options):
    """What an original is asked for: its options, and the names and meanings of columns."""

    kind: Kind = "logistic"
    target: str = "y"
    class_weight: Literal["balanced"] | Mapping[Any, float] | None = None
    weights: str | None = None
    offset: str | None = None
    time: str = "time"  # of survival, whose target is the event
    verbose: int = 0

    def check(self) -> None:
        """Refuse values that no study can have; numbers of NumPy become plain ones."""
        self.max_disagreement = probability("max_disagreement", self.max_disagreement)
        one_of("sketch_bits", self.sketch_bits, range(9))
        if named_pair(self.between) is None:
            raise ReplearnError(
                'between must be "typical", 0, or two standard deviations between centres, of the '
                f"mean score and of slopes, such as (0.2, 0.03), got {short(self.between)}."
            )
        one_of("constant", self.constant, ("shared", "local"))
        one_of("basis", self.basis, ("linear", "splines", "auto"))
        one_of("missing", self.missing, ("indicator", "refuse"))

        # numbers, as files can hold them
        if self.ridge != "auto":
            if not is_real(self.ridge) or not 1e-9 <= self.ridge <= 1e3:
                raise ReplearnError(
                    f'ridge must be "auto" or from 1e-9 to 1e3, got {short(self.ridge)}. It is a '
                    "weight on the mean loss of a row."
                )
            self.ridge = plain_float(self.ridge)
        if self.replication_rows is not None:
            remedy = "Leave it out for as many as here."
            self.replication_rows = whole_number(
                "replication_rows", self.replication_rows, remedy=remedy
            )
        self.sketch_bits = int(self.sketch_bits)
        if self.sealed and not self.sketch_bits:
            raise ReplearnError(
                "sealed must be False without published bits: there is no commitment to hide, and "
                "nobody is first. Publish bits, or leave it out."
            )
        seed_text(self.shared_seed)
