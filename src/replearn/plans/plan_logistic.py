"""The plan of a logistic fit: a published design, or one that follows from a promise alone."""

import math
from dataclasses import dataclass, field, replace
from numbers import Real

import numpy as np

from replearn.codes.basis import Basis
from replearn.codes.decimals import Decimals, decimal_table, decimals
from replearn.codes.design import Design
from replearn.codes.projection import PROJECTIONS
from replearn.codes.randomness import SharedRandomness
from replearn.codes.score_space import ScoreSpace
from replearn.codes.space import unit
from replearn.errors import ReplearnError
from replearn.plans.cell_prices import width_ratio
from replearn.plans.sizes import decimal
from replearn.types import Drawable, Matrix

#: Without a published design: directions at the most, steps, and ridge in the Fisher metric.
MAX_COMPONENTS = 8
N_STEPS = 6
RIDGE = 1e-3

#: Without a published design all rows that are longer than this are scaled to it, so that only
#: their direction counts.
SHORT = "0.001"
_SHORT_EXPONENT = -9  # the power of two above it


@dataclass(frozen=True)
class ScoresSpent:
    """What a logistic fit did with its rows."""

    n_rows: int
    n_by_class: tuple[int, ...]  # with weights, their weight, rounded down; of numbers: nothing
    n_zero_rows: int
    n_shortened: int  # rows that were longer than the published length
    n_passes: int  # times that all rows were looked at
    # with weights: equally weighted rows of which a mean varies as much [Kis65]
    n_effective: float | None = None

    @property
    def n_positive(self) -> int:
        """Rows that do not have the first label."""
        return sum(self.n_by_class[1:])


@dataclass(frozen=True)
class LogisticPlan(Drawable):
    """Every size of a logistic or linear fit, before any data is spent.

    Attributes
    ----------
    design : Design
        Directions, start, steps and cells.
    max_disagreement, failure_prob : float
    basis : str
        Where the design comes from.
    spent : ScoresSpent or None
        After a fit: what was used.
    """

    design: Design
    max_disagreement: float
    failure_prob: float
    basis: str
    spent: ScoresSpent | None = field(default=None, compare=False)

    mode = "practical"

    @property
    def algorithm(self) -> str:
        """Name of the recipe."""
        return "linear" if self.design.space.is_numeric else "logistic"

    @property
    def n_samples(self) -> int:
        """Rows that one lab needs for the promise."""
        return self.design.samples_per_site

    def with_spent(self, spent: ScoresSpent) -> "LogisticPlan":
        """The plan of a fit that was done."""
        return replace(self, spent=spent)

    def __str__(self) -> str:
        space, design = self.design.space, self.design
        hint = f", {space.hint_bits} hint bits" if space.hint_bits else ""
        steps = "1 step with the published curvature"
        if design.n_steps > 1:
            steps = f"{design.n_steps} Newton steps"
            if space.is_numeric:
                steps = "least squares, and a look at its residuals"
        lines = [
            f"Plan: {self.algorithm} ({self.basis})",
            f"  promise          disagreement <= {self.max_disagreement:g}{hint}",
            f"  samples needed   {self.n_samples:,}",
            f"  estimate         {len(space.directions.rows)} directions and an intercept"
            f"{_for_classes(space.n_classes)}, {steps}",
            f"  code space       {space.n_features:,} features > {space.n_components} numbers > "
            f"{space.rounding}; rows longer than {space.cap} are shortened",
        ]
        if self.spent is not None:
            spent = self.spent
            positive = f" ({spent.n_positive:,} positive)"
            if len(spent.n_by_class) > 2:
                positive = f" ({len(spent.n_by_class)} classes)"
            if space.is_numeric:
                positive = ""
            lines.append(
                f"  spent            {spent.n_rows:,} rows{positive}, "
                f"{spent.n_shortened:,} shortened, {spent.n_passes} passes"
            )
            if spent.n_effective is not None:
                lines.append(
                    f"  weights          as good as {spent.n_effective:,.0f} rows of equal weight"
                )
        return "\n".join(lines)


def _for_classes(n_classes: int) -> str:
    return "" if n_classes <= 2 else f" for each of {n_classes - 1} classes against the first"


def promised_design(
    n_features: int,
    shared: SharedRandomness,
    *,
    max_disagreement: float,
    samples_per_site: int,
    n_components: int | None = None,
    hint_bits: int = 0,
    threshold: str = "0",
    class_weights: Decimals = (),
    n_classes: int = 2,
) -> Design:
    """A design that follows from a promise and the number of features alone.

    ``shared`` gives directions where there are more features than ``n_components`` (default all,
    but not more than 8), ``threshold`` is the log-odds from which on a row is positive, and
    ``class_weights`` are what a row of each class counts in the loss; none: all the same.

    Notes
    -----
    Rows are taken as directions (scaled to one short length), the start is a model that says the
    same to all, and the Fisher information is that of rows without a preferred direction: with
    two classes ``1/4`` for the intercept and ``length^2 / (4 k)`` for each direction. A pilot knows
    all this better; see `replearn.plan_from_pilot`.
    """
    k = min(n_features, MAX_COMPONENTS) if n_components is None else n_components
    q = (n_classes - 1) * (k + 1)
    by_class = np.eye(n_classes - 1) / n_classes - 1 / n_classes**2
    sizes = np.concatenate([[1.0], np.full(k, float(SHORT) ** 2 / k)])
    information = np.kron(by_class, np.diag(sizes))
    metric = np.kron(np.linalg.cholesky(by_class).T, np.diag(np.sqrt(sizes)))
    sd = math.sqrt(2 / samples_per_site)
    width = float(decimal(width_ratio(q, hint_bits, max_disagreement) * sd))
    space = ScoreSpace(
        directions=Basis.from_directions(shared_directions(n_features, k, shared)),
        cap=SHORT,
        start=("0",) * q,
        shrink=("1",) * q,
        lift=decimal_table(width * np.linalg.inv(metric)),
        rounding="centre",
        threshold=threshold if n_classes == 2 else "0",
        hint_bits=hint_bits,
    )
    return Design(
        space=space,
        encode=decimal_table(metric / width),
        curvature=decimal_table(information * (1 + RIDGE)),
        penalty=decimal_table(information * RIDGE),
        n_steps=N_STEPS,
        limits=(_SHORT_EXPONENT,) * k,
        pushes=("1",) * (k + 1),
        reach=("1000000",) * q,
        spread=decimals(np.full(q, sd / width)),
        samples_per_site=samples_per_site,
        class_weights=class_weights,
    )


def log_odds(probability: float) -> str:
    """A threshold as published: log-odds, as a decimal number.

    Examples
    --------
    >>> log_odds(0.5), log_odds(0.2)
    ('0', '-1.386294361')
    """
    number = isinstance(probability, Real) and not isinstance(probability, bool)
    if not number or not 0 < probability < 1:
        raise ReplearnError(
            f"threshold must be a probability in (0, 1), got {probability!r}. The share of "
            "positives aims at balanced accuracy, 0.5 at accuracy."
        )
    return decimals([math.log(probability / (1 - probability))])[0]


def shared_directions(n_features: int, k: int, shared: SharedRandomness) -> Matrix:
    """All axes, or shared random directions: one in each row."""
    if k >= n_features:
        return np.eye(n_features)
    lift = PROJECTIONS["gaussian"].lift
    return np.array([unit(lift(axis, n_features, shared)) for axis in np.eye(k)])
