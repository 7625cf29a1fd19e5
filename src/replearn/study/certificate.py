"""What an original may promise of its own rows, and what speaks against publishing it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.codes import least_whole
from replearn.glm import (
    GLM,
    MOST_INFLATION,
    PROMISED_ROWS,
    Between,
    CentreFits,
    GlmDesign,
    GlmModel,
    GlmPlan,
    GlmPromise,
    Hazard,
    Loss,
    OwnSpread,
    RidgeFit,
)
from replearn.glm import sketched as glm
from replearn.rows import (
    MOST_TRIED,
    ROW_BITS,
    MemoryBlocks,
    Rows,
    copied_share,
    pieces,
    sampled,
    squared,
    with_constant,
)
from replearn.study.performance import Performance
from replearn.types import Matrix, Vector
from replearn.words import Facts, Figure, Row, Rung, Spoken, counted, ladder, percent

#: Rows of equal weight that weighted ones must count as, at the smallest lab; or the share that
#: weights must leave of rare rows, which would be too few without them, too.
LEAST_EFFECTIVE, LEAST_KEPT = 30, 0.5


@dataclass(frozen=True)
class Certificate(Spoken):
    """How likely a replication gets this model; estimated, not proved.

    Attributes
    ----------
    expected : float
        Estimated probability that a replication with ``n_replication`` rows gets a different
        model, given where this original lies in its cells.
    planned : float
        What was asked for, as a mean over originals.
    n_original : int
        Rows of this original.
    n_replication : int
        Rows of the smallest replication that is promised the model.
    n_numbers : int
        Coefficients.
    effective_rows : float
        Behind the coefficient that the fewest rows carry.
    weakest : str
        Its name.
    is_grouped : bool
        Whether these effective rows are groups.
    inflation : float
        How much more parts of these rows differ than single rows explain, in squares.
    n_repeated : int
        Rows that occur before among those that were looked at.
    at_new_centre : float
        The same as ``expected`` for a centre whose truth differs as centres do.
    n_centres : int
        Centres that showed how they differ; 1: typical centres are assumed, 0: none differ.
    problems : tuple of str
        Why the study must not be published.
    cautions : tuple of str
        What to know before the study is published.
    counted : str
        What rows are called: of survival rows at risk.

    See Also
    --------
    ReplicableLogisticClassifier : its ``certificate_`` is one.
    replearn.codes.Bound : the same for the paper's algorithms.

    Notes
    -----
    Rates are estimated by ``stability`` of the recipe, not proved: the chance that the
    difference of two labs leaves a cell, added up over coefficients. For a new centre it has
    heavier tails, and so where a few rows of heavy weights make the spread.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 1000)
    >>> y = table.pop("readmitted")
    >>> first = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> certificate = first.certificate_
    >>> certificate.planned, certificate.n_original, certificate.n_numbers, certificate.problems
    (0.01, 1000, 22, ())
    >>> certificate.expected < certificate.at_new_centre < 0.01
    True
    """

    expected: float
    planned: float
    n_original: int
    n_replication: int
    n_numbers: int
    effective_rows: float
    weakest: str
    is_grouped: bool
    inflation: float
    n_repeated: int
    at_new_centre: float
    n_centres: int
    problems: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    counted: str = "rows"  # of survival at risk

    @property
    def centre_words(self) -> str:
        """For which new centres the second rate is promised."""
        if self.n_centres == 0:
            return "a lab of the same population"
        if self.n_centres == 1:
            return "a typical new centre"
        return f"a new centre like these {self.n_centres}"

    @property
    def assumed(self) -> list[str]:
        """What is assumed of new centres."""
        if self.n_centres == 0:
            return []
        varies = "Assumed: no column is the same in all rows of a new centre."
        if self.n_centres == 1:
            return [varies]
        return [
            varies,
            f"Assumed: of 1,000 new centres 406 differ as these {self.n_centres} do, 504 twice as "
            "much, 83 four times, 7 eight times or more, in all coefficients together.",
        ]

    def facts(self) -> Facts:
        """In words."""
        verdict = (
            f"A sample of {self.n_replication:,} {self.counted} of this population gets the same "
            f"model in {percent(1 - self.expected)} of cases, {self.centre_words} in "
            f"{percent(1 - self.at_new_centre)} (estimated)."
        )
        if self.problems:
            verdict = "No promise can be made for these rows."
        behind = counted(round(self.effective_rows), "group" if self.is_grouped else "row")
        return Facts(
            verdict,
            [
                *self.problems,
                Row("agreement rate", 1 - self.planned, "%", note="planned"),
                Row(f"{self.counted} here", self.n_original, key="rows_here"),
                Row("coefficients", self.n_numbers),
                Row("weakest coefficient", self.weakest, note=behind),
                *self.cautions,
            ],
            details=[
                *self.assumed,
                Row("parts of these rows differ", self.inflation, "times the expected square"),
                Row("repeated rows", self.n_repeated),
            ],
            figures=[] if self.problems else [Figure("Agreement rate", self._picture)],
        )

    def _picture(self) -> str:
        rates = {"planned": 1 - self.planned, "estimated here": 1 - self.expected}
        rungs = [Rung(name, rate, percent(rate), "") for name, rate in rates.items()]
        return ladder(rungs, f"agreement rate of labs with {self.n_replication:,} rows")


def certificate_of(
    fitted: RidgeFit,
    rows: Rows,
    model: GlmModel,
    promise: GlmPromise,
    worth: Performance,
    shares: Vector,
) -> Certificate:
    """What the fit of an original and its rows let it promise.

    ``worth`` is that of the rounded model, ``shares`` are those of the classes.
    """
    design, agreed = model.design, model.design.is_agreed
    names = ("(constant)", *design.encoding.term_names)

    # what speaks against any promise
    no_model, problems = without_model(design.loss, shares, promise, fitted.theta)
    problems += _about_rows(promise, fitted.spread.inflation)
    weighted = _effective_rows(rows, len(names), design.loss)
    problems += _about_weights(weighted, names, promise)

    # where the numbers that labs agree on lie in their cells
    z = fitted.coordinates.of_theta(fitted.theta)
    residual = (z - design.cells.decode(model.codes, design.published))[agreed]
    sampling = fitted.spread.central(promise.n_here, promise.n_there)[agreed]
    own = OwnSpread(sampling * _tails(weighted, promise, design.n_numbers), residual)

    def disagreement(between: Between) -> float:
        """A model that differs, or none at all."""
        stated = np.array(fitted.spread.stated, dtype=np.float64)
        plan = GlmPlan(promise, stated, between, design.cells.widths).of(agreed)
        differs = GLM.stability(plan, promise.n_there, own).in_mode(plan.mode)
        return differs + no_model * (1.0 - differs)

    # the coefficient that the fewest rows carry
    effective = fitted.spread.influence.effective
    weakest = int(np.argmin(np.where(agreed, effective, np.inf)))

    # what a reader should know: rows of one person look like repeated ones
    hashes = _hashes(rows, design.loss)
    n_repeated = len(hashes) - len(np.unique(hashes))
    cautions = _cautions(fitted, design, worth)
    if n_repeated > 0.2 * len(hashes) or copied_share(hashes):
        cautions += _about_repeats(rows, n_repeated)

    return Certificate(
        expected=disagreement(Between.none(design.n_numbers)),
        planned=promise.max_disagreement,
        n_original=promise.n_here,
        n_replication=promise.n_there,
        n_numbers=design.n_numbers,
        effective_rows=float(effective[weakest]),
        weakest=names[weakest % len(names)],
        is_grouped=any(block.groups is not None for block in rows.blocks()),
        inflation=fitted.spread.inflation,
        n_repeated=n_repeated,
        at_new_centre=disagreement(fitted.spread.between),
        n_centres=fitted.spread.between.n_centres,
        problems=tuple(problems),
        cautions=tuple(cautions),
        counted=design.loss.counted,
    )


def _about_rows(promise: GlmPromise, inflation: float) -> list[str]:
    """Rows that are too few or too dependent for a promise."""
    problems = []
    if promise.n_here < PROMISED_ROWS:
        problems.append(
            f"{promise.n_here} rows are too few for any promise. Get at least {PROMISED_ROWS}."
        )

    # parts differ more than independent rows do
    if inflation > MOST_INFLATION:
        needed = math.ceil(promise.n_here * inflation / 2)
        problems.append(
            f"Parts of these rows differ {inflation:.1f} times as much as single rows "
            f"explain. Get about {_round_up(needed):,} rows, use fewer columns, or pass groups "
            "if rows come in clusters."
        )
    return problems


@dataclass(frozen=True)
class _EffectiveRows:
    """Rows of equal weight behind each coefficient, the constant first.

    Rows with the weights w count as ``(sum w)^2 / sum w^2``; behind the coefficient of a column x
    it is ``w x^2`` in place of w. Those of each class are counted apart, because a weight that a
    whole class has makes no row of it decide.
    """

    weighted: Vector  # as rows are weighted
    equal: Vector  # as they would be with equal weights
    behind_spread: float  # the same of w^2: a spread is a sum of these


def _tails(rows: _EffectiveRows | None, promise: GlmPromise, n_numbers: int) -> float:
    """How much further than normal tails go where a few heavy rows make the spread.

    A sample that has not seen the largest weights of its population takes the spread for smaller
    than it is. Student's quantile stands in place of the normal one, with as many degrees of
    freedom as rows make the spread, at the rate of the promise shared among coefficients.
    """
    if rows is None:
        return 1.0
    from scipy.special import ndtri, stdtrit

    freedom = rows.behind_spread * min(1.0, promise.n_there / promise.n_here)
    inside = 1 - promise.max_disagreement / (2 * n_numbers)
    return float(stdtrit(max(freedom, 1.0), inside) / ndtri(inside))


def _about_weights(
    rows: _EffectiveRows | None, names: Sequence[str], promise: GlmPromise
) -> list[str]:
    """Weights so unequal that a few rows decide: no law of large numbers holds for them."""
    if rows is None:
        return []

    # a smaller lab has as many fewer; few rows of a rare level are no fault of weights
    share = min(1.0, promise.n_there / promise.n_here)
    effective, equal = rows.weighted * share, rows.equal * share
    short = effective < np.minimum(LEAST_EFFECTIVE, LEAST_KEPT * equal)
    if not short.any():
        return []

    # rows as a whole are enough, but not those behind some column
    if not short[0]:
        weakest = int(np.argmin(np.where(short, effective, np.inf)))
        return [
            f"The weights are so unequal that the coefficient of {names[weakest]!r} rests on "
            f"{effective[weakest]:.0f} rows of equal weight, and {LEAST_EFFECTIVE} are needed. Cut "
            "the largest weights, drop the column, or get more rows."
        ]
    return [
        f"The weights are so unequal that {promise.n_there:,} rows count as {effective[0]:.0f} of "
        f"equal weight, and {LEAST_EFFECTIVE} are needed. Cut the largest weights, or get more "
        "rows."
    ]


def _effective_rows(rows: Rows, n_columns: int, loss: Loss) -> _EffectiveRows | None:
    """What weighted rows count as; None without weights."""
    n_classes = 1
    if loss.by_class:
        n_classes = loss.n_scores + 1

    totals, squares = np.zeros((2, 2, n_columns, n_classes))
    fourths = np.zeros(n_classes)
    for block in rows.blocks():
        if block.weights is None:
            return None

        for piece in pieces(block, n_columns):
            second = squared(with_constant(piece.terms) * 2.0**-ROW_BITS)
            fourth = squared(second)

            # rows of each class for themselves
            label = piece.targets if loss.by_class else np.zeros(piece.n_rows)
            of_class = (label[:, None] == np.arange(n_classes)).astype(np.float64)

            # as they are weighted, and with equal weights
            for kind, weights in enumerate((piece.masses[:, None] * of_class, of_class)):
                totals[kind] += second.T @ weights
                squares[kind] += fourth.T @ weights**2
            fourths += (piece.masses[:, None] ** 4 * of_class).sum(axis=0)

    effective = (totals**2 / np.maximum(squares, 1e-300)).sum(axis=2)
    behind_spread = squares[0, 0] ** 2 / np.maximum(fourths, 1e-300)
    return _EffectiveRows(effective[0], effective[1], float(behind_spread.sum()))


def _cautions(fitted: RidgeFit, design: GlmDesign, worth: Performance) -> list[str]:
    """What does not stop a study, but whoever reads it should know."""
    cautions = []
    if worth.is_useless:
        cautions.append("The model is no better than the base rate.")
    if design.constant == "local":
        cautions.append("Each lab fits its own constant (base risk): labs agree on slopes.")
    cautions += _about_centres(fitted.centre_fits)
    cautions += fitted.validation.untried
    return cautions


def _about_centres(fits: CentreFits | None) -> list[str]:
    """Centres that could not show how they differ."""
    if fits is None:
        return []
    cautions = []
    if len(fits.names) < 2:
        cautions.append(
            "Fewer than two centres have a fit of their own, so centres are taken to be typical."
        )

    # centres that were left out
    if fits.without_fit:
        named = ", ".join(map(repr, fits.without_fit[:3]))
        if (n_more := len(fits.without_fit) - 3) > 0:
            named += f" and {n_more} more"
        cautions.append(
            f"Too few rows or events for a fit of its own: centre {named}. The others show how "
            "centres differ."
        )
    return cautions


def _about_repeats(rows: Rows, n_repeated: int) -> list[str]:
    """Rows that look like those of one person."""
    if any(block.groups is not None for block in rows.blocks()):
        return []
    return [
        f"{n_repeated:,} rows occur before. If the same person stands in several rows, pass "
        "groups; else the promise is too good."
    ]


def _hashes(rows: Rows, loss: Loss) -> Any:
    """Encoded numbers and targets of some rows, to find those that occur before.

    Of rows at risk only those with the event: a person has one of them, and the others are alike
    for all who have the same columns and live longer.
    """
    if not isinstance(rows, MemoryBlocks):
        return np.array([])

    block = sampled(rows, MOST_TRIED, salt=4).block
    if isinstance(loss, Hazard):
        block = block.part(block.targets > 0)
    return block.hashes


def without_model(
    loss: Loss, shares: Vector, promise: GlmPromise, theta: Matrix
) -> tuple[float, list[str]]:
    """How often rows of the smallest lab have no model at all, and what to do if that is often."""
    n_there, problems = promise.n_there, []
    if glm.is_steep(theta):
        problems.append(
            "Some column nearly separates the classes, so that a replication may have no bounded "
            "fit. Use a larger ridge."
        )

    # half of what is promised may be labs without a model
    allowed = promise.max_disagreement / 2
    no_model = loss.no_model_chance(shares, n_there)
    if no_model > allowed:
        needed = _round_up(
            least_whole(lambda n_rows: loss.no_model_chance(shares, n_rows) <= allowed)
        )
        problems.append(
            f"Of labs with {n_there:,} rows {percent(no_model)} have {loss.no_model_message}, and "
            f"so no model. Promise it to labs with at least {needed:,} rows: "
            f"replication_rows={needed}."
        )
    return no_model, problems


def _round_up(number: float) -> int:
    """Two digits, upwards."""
    digits = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / digits) * digits
