"""What a second lab needs besides its rows to repeat a fit of Algorithm 1 or 2."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from replearn.codes.space import CodeSpace
from replearn.documents import DecimalText, Integers, Label, Length, Part, Range, Text, Unfit
from replearn.documents import decimal_text as text
from replearn.recipes.recipe import Promise
from replearn.recipes.rounded import BatchPlan
from replearn.types import Codes

Real = Annotated[str, DecimalText(digits=12, low=0, high=1e30)]

_MAX_ROWS = 1 << 40

#: Fields that are decimal texts here, and numbers in a promise or a plan.
_PROMISE = ("margin", "max_error", "max_disagreement", "failure_prob")
_REALS = ("length_cap", "abs_gap", "rel_gap", "noise")


@dataclass(frozen=True)
class HalfspaceDesign(Part):
    """Sizes, seed and sketch of an original, as plain fields of a file."""

    recipe: Literal["svm", "sgd"]
    mode: Literal["practical", "certified"]
    # the promise for which it was planned; the margin after the constant was appended
    margin: Real
    max_error: Real
    max_disagreement: Real
    failure_prob: Real
    fit_intercept: bool
    classes: Annotated[tuple[Label, ...], Length(2, 2)]
    seed: Annotated[str, Text()]
    space: CodeSpace
    one_fit: bool  # of all rows, in place of batches
    # rows of a batch (of one fit: all), and of the original
    batch_size: Annotated[int, Range(1, _MAX_ROWS)]
    n_rows: Annotated[int, Range(1, _MAX_ROWS)]
    # of a batch's vector
    regularization: Real
    length_cap: Real
    abs_gap: Real
    rel_gap: Real
    noise: Real
    # the bits that the original publishes about each component
    sketch: Annotated[Codes, Integers(1, 0, 15)]

    def check(self) -> None:
        """One part of the sketch for each component, and a promise that can be one."""
        if self.sketch.size != self.space.n_codes or self.space.sketch_bits == 0:
            raise Unfit(f"sketch must be {self.space.n_codes:,} numbers, got {self.sketch.size:,}")
        if (self.sketch >> self.space.sketch_bits).any():
            raise Unfit(f"sketch must have {self.space.sketch_bits} bits a number, got more")
        if float(self.regularization) == 0:
            raise Unfit("regularization must be positive, got 0")
        self.promise()

    @classmethod
    def of(
        cls,
        plan: BatchPlan,
        space: CodeSpace,
        sketch: Codes,
        batch_size: int,
        n_rows: int,
        seed: str,
        classes: tuple[Label, ...],
        fit_intercept: bool,
    ) -> "HalfspaceDesign":
        """What an original publishes of its fit."""
        promise = {name: text(getattr(plan.promise, name), 12) for name in _PROMISE}
        reals = {name: text(getattr(plan, name), 12) for name in _REALS}
        return cls(
            recipe=cast(Any, plan.recipe),
            mode=cast(Any, plan.mode),
            fit_intercept=fit_intercept,
            classes=classes,
            seed=seed,
            space=space,
            one_fit=plan.one_fit,
            batch_size=batch_size,
            n_rows=n_rows,
            regularization=plan.regularization,
            sketch=sketch,
            **promise,
            **reals,
        )

    def promise(self) -> Promise:
        """The promise for which it was planned."""
        return Promise(**{name: float(getattr(self, name)) for name in _PROMISE})

    def plan(self) -> BatchPlan:
        """The plan of a replication: as many rows as the original had."""
        reals: dict[str, Any] = {name: float(getattr(self, name)) for name in _REALS}
        return BatchPlan(
            recipe=self.recipe,
            mode=self.mode,
            promise=self.promise(),
            n_inputs=self.space.n_inputs,
            origin="the study of an original",
            n_rows=self.n_rows,
            one_fit=self.one_fit,
            batch_size=self.batch_size,
            n_batches=self.n_rows // self.batch_size,
            regularization=self.regularization,
            projection=self.space.projection,
            n_components=self.space.n_components,
            rounding=self.space.rounding,
            grid_width=self.space.grid_width,
            sketch_bits=self.space.sketch_bits,
            sketch=self.sketch,
            **reals,
        )
