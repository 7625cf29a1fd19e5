"""What a second lab needs besides rows and design to repeat a fit of Algorithm 1 or 2."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from replearn.codes import CodeSpace, Promise
from replearn.documents import DecimalText, Integers, Part, Range, Unfit
from replearn.documents import decimal_text as text
from replearn.halfspaces.rounded import BatchPlan
from replearn.types import Codes

Real = Annotated[str, DecimalText(digits=12, low=0, high=1e30)]

_MAX_ROWS = 1 << 40

#: Fields that are decimal texts here, and numbers in a promise or a plan.
_PROMISE = ("margin", "max_error", "max_disagreement", "failure_prob")
_REALS = ("length_cap", "abs_gap", "rel_gap", "noise")


@dataclass(frozen=True)
class PublishedPlan(Part):
    """Promise, sizes and sketch of an original, as plain fields of a file."""

    mode: Literal["practical", "certified"]
    # the promise for which it was planned; the margin after the constant was appended
    margin: Real
    max_error: Real
    max_disagreement: Real
    failure_prob: Real
    one_fit: bool  # of all rows, in place of batches
    batch_size: Annotated[int, Range(1, _MAX_ROWS)]  # rows of a batch; of one fit: all
    # of a batch's vector
    regularization: Real
    length_cap: Real
    abs_gap: Real
    rel_gap: Real
    noise: Real
    # the bits that the original publishes about each component
    sketch: Annotated[Codes, Integers(1, 0, 15)]

    def check(self) -> None:
        """A promise that can be one."""
        if float(self.regularization) == 0:
            raise Unfit("regularization must be positive, got 0")

        self.promise()

    def check_space(self, space: CodeSpace) -> None:
        """One part of the sketch for each component of the space in which it is read."""
        if self.sketch.size != space.n_codes or space.sketch_bits == 0:
            raise Unfit(f"sketch must be {space.n_codes:,} numbers, got {self.sketch.size:,}")

        if (self.sketch >> space.sketch_bits).any():
            raise Unfit(f"sketch must have {space.sketch_bits} bits a number, got more")

    @classmethod
    def of(cls, plan: BatchPlan, sketch: Codes, batch_size: int) -> "PublishedPlan":
        """What an original publishes of its fit."""
        promise = {name: text(getattr(plan.promise, name), 12) for name in _PROMISE}
        reals = {name: text(getattr(plan, name), 12) for name in _REALS}
        return cls(
            mode=cast(Any, plan.mode),
            one_fit=plan.one_fit,
            batch_size=batch_size,
            regularization=plan.regularization,
            sketch=sketch,
            **promise,
            **reals,
        )

    def promise(self) -> Promise:
        """The promise for which it was planned."""
        return Promise(**{name: float(getattr(self, name)) for name in _PROMISE})

    def plan(self, recipe: str, space: CodeSpace, n_rows: int) -> BatchPlan:
        """The plan of a replication: as many rows as the original had."""
        reals: dict[str, Any] = {name: float(getattr(self, name)) for name in _REALS}
        return BatchPlan(
            recipe=recipe,
            mode=self.mode,
            promise=self.promise(),
            n_inputs=space.n_inputs,
            origin="the study of an original",
            n_rows=n_rows,
            one_fit=self.one_fit,
            batch_size=self.batch_size,
            n_batches=n_rows // self.batch_size,
            regularization=self.regularization,
            projection=space.projection,
            n_components=space.n_components,
            rounding=space.rounding,
            grid_width=space.grid_width,
            sketch_bits=space.sketch_bits,
            sketch=self.sketch,
            **reals,
        )
