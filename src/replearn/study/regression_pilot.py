"""Plans of regressions: a small published sample of rows and numbers decides what sites share."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.basis import UNIT, Basis
from replearn.codes.decimals import decimal_table, decimals, number_table
from replearn.codes.design import Design
from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.codes.score_space import ScoreSpace
from replearn.errors import ReplearnError
from replearn.estimators.checks import check_whole
from replearn.plans.sizes import Guarantee, decimal
from replearn.study.pilot.allotment import Agreement
from replearn.study.pilot.cross_fit import with_constant
from replearn.study.pilot.designs import limited, published_columns, symmetric
from replearn.study.pilot.encoders import (
    EncodedPilot,
    encoded_pilots,
    in_own_span,
    row_lengths,
)
from replearn.study.pilot.families import krylov, most_directions
from replearn.study.pilot.safe_columns import RARE, Remark, in_words, publishable
from replearn.study.protocol import Protocol
from replearn.types import Drawable, IntegerArray, Matrix, Vector

FEWEST = 100  # rows of a pilot
N_FOLDS = 5
MAX_DIRECTIONS = 24

#: The plan aims at this share of the disagreement: a pilot errs, too.
_AIM = 0.8

#: Standard deviations, and multiples of the pilot's farthest number, beyond which numbers are cut;
#: likewise rows and products with directions. Far rows are what a line is about, so that little is.
_FAR, _FARTHEST = 4.0, 1.5

#: Root mean squares beyond which a row's score is cut: it makes the proof tight.
_FAR_PUSH = 6.0
_RIDGE = 1e-6
_RIDGES = 10.0 ** np.arange(-5, 3)
_DRAWS = 20  # of the rounding's noise, for the table


@dataclass(frozen=True)
class RegressionRow:
    """What one way to predict is worth on rows that it has not seen."""

    name: str
    r2: float
    rmse: float  # in units of the numbers
    mae: float  # likewise
    disagreement: float | None  # between sites; None: they have nothing to agree on


@dataclass(frozen=True)
class RegressionPlan(Drawable):
    """What a pilot says about a regression, and the protocol.

    Attributes
    ----------
    n_pilot : int
    table : tuple of RegressionRow
        Always the mean; the pilot's own model; this protocol; one site's rows without rounding.
    n_codes, hint_bits, n_sites, samples_per_site : int
    y_range : (float, float)
        Published: numbers beyond it are cut.
    remarks : tuple of Remark
        What is odd about columns of the pilot.
    cautions : tuple of str
        Why the protocol may not be worth a study.
    protocol : Protocol

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = X @ [2.0, -1.0, 0.0] + rng.normal(size=500)
    >>> plan = rl.plan_regression(X, y, samples_per_site=20_000)
    >>> plan.n_codes, round(plan.table[2].r2, 1)
    (2, 0.8)
    """

    n_pilot: int
    table: tuple[RegressionRow, ...]
    n_codes: int
    hint_bits: int
    n_sites: int
    samples_per_site: int
    y_range: tuple[float, float]
    remarks: tuple[Remark, ...]
    cautions: tuple[str, ...]
    protocol: Protocol = field(repr=False)

    def __str__(self) -> str:
        low, high = self.y_range
        lines = [
            f"Pilot of {self.n_pilot:,} rows with numbers from {low:g} to {high:g}; {self.n_sites} "
            f"sites of {self.samples_per_site:,} rows (estimated from the pilot, by held-out rows)",
            f"  {'':36}{'R2':>8}{'RMSE':>10}{'MAE':>10}{'disagreement':>14}",
        ]
        for row in self.table:
            differ = "" if row.disagreement is None else f"{row.disagreement:.3g}"
            lines.append(f"  {row.name:36}{row.r2:8.3f}{row.rmse:10.4g}{row.mae:10.4g}{differ:>14}")
        n = self.n_codes - 1
        known = "1 direction that knows" if n == 1 else f"{n} directions that know"
        lines.append(
            f"  The protocol decides the columns and their scaling, {known} the pilot's numbers, "
            f"the start and the grid. The sites decide {self.n_codes} numbers: the intercept and "
            "the weight of each direction."
        )
        lines += [f"  {line}" for line in in_words(self.remarks)]
        lines += [f"  Caution: {caution}" for caution in self.cautions]
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        names = ("n_pilot", "n_codes", "hint_bits", "n_sites", "samples_per_site")
        return {name: getattr(self, name) for name in names} | {
            "cautions": list(self.cautions),
            "remarks": [asdict(remark) for remark in self.remarks],
            "table": [asdict(row) for row in self.table],
            "y_range": list(self.y_range),
        }


def plan_regression(
    X: Any,
    y: Any,
    *,
    samples_per_site: int,
    max_disagreement: float = 0.1,
    shared_seed: int | str = 0,
    hint_bits: int = 0,
    sites: int = 2,
    n_directions: int | None = None,
    y_range: tuple[float, float] | None = None,
    categories: Sequence[str] = (),
    numeric: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    rare: int = RARE,
    target: str | None = None,
    failure_prob: float = 0.05,
) -> RegressionPlan:
    """Choose everything that sites of a linear regression must share, from a pilot sample.

    Parameters
    ----------
    X : dataframe, mapping of columns, array or CSR matrix of shape (n_pilot, n_columns)
        At least 100 rows; 1,000 are good. Text columns are categories.
    y : array of numbers
        What is to be predicted.
    samples_per_site : int
        Rows that each site will have.
    max_disagreement : float, default=0.1
        Wanted probability that not all sites get the same model; the plan aims at 80 % of it,
        since a pilot errs too.
    shared_seed : int or str, default=0
        The published seed.
    hint_bits : int, default=0
        The first site publishes this many bits about where its estimate lies, and cells can be far
        narrower. 0 is the paper's notion of replicability.
    sites : int, default=2
        All of them agree, except with probability ``max_disagreement``.
    n_directions : int, optional
        Default: as many as cost least, by held-out rows and the price of rounding.
    y_range : (float, float), optional
        Published range; numbers beyond it are cut. Default: four standard deviations around the
        mean of the pilot's numbers, and 1.5 times the farthest of them, rounded.
    categories, numeric, columns, drop : sequence of str, optional
        As for `plan_from_pilot`.
    rare : int, default=10
        As for `plan_from_pilot`.
    target : str, optional
        Name of the column of numbers, kept in the protocol.
    failure_prob : float, default=0.05
        Probability that a certificate's bound is wrong.

    Returns
    -------
    RegressionPlan
        With ``protocol``, and printable: what it is worth next to the mean and the pilot's own
        model.

    Notes
    -----
    The directions are the pilot's own ridge fit, then those of partial least squares. Everything in
    the table is judged by rows that it has not seen, in five folds. Cells are cubes where the
    estimate of a site varies equally in all directions (the pilot's sandwich covariance), so that
    rounding costs ``q sd^2 ratio^2 / (6 n)`` in mean square: `replearn.plans.cell_prices`. Tested
    in tests/unit/test_regression.py.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 3))
    >>> y = X @ [2.0, -1.0, 0.0] + rng.normal(size=500)
    >>> plan_regression(X, y, samples_per_site=20_000).protocol.algorithm
    'linear'
    """
    Guarantee(0.1, 0.1, max_disagreement, failure_prob)  # refuses what makes no sense
    check_whole(samples_per_site, "samples_per_site", 1, 1 << 50)
    check_whole(hint_bits, "hint_bits", 0, MAX_HINT_BITS)
    check_whole(sites, "sites", 2, 10_000)
    seed = seed_text(shared_seed, "shared_seed")
    numbers = _numbers(y)
    choice = {"columns": columns, "drop": drop, "categories": categories, "numeric": numeric}
    X, remarks = publishable(X, numbers, choice, rare)
    low, high = _range(numbers, y_range)
    centre, width = (float(text) for text in decimals([low / 2 + high / 2, high - low]))
    truth = np.clip((numbers - centre) / width, -0.5, 0.5)
    found = min(
        (_studied(_whole(pilot, X), truth) for pilot in encoded_pilots(X, categories, rare)),
        key=lambda studied: float(studied.losses.min()),
    )
    agreement = Agreement(samples_per_site, _AIM * max_disagreement, hint_bits, sites)
    k = _best_number(found, n_directions, agreement)
    design = _design(found, truth, k, (centre, width), agreement)
    table = _table(found, design, k, numbers, (centre, width), max_disagreement)
    protocol = Protocol(
        algorithm="linear",
        parameters={
            "failure_prob": decimal(failure_prob),
            "max_disagreement": decimal(max_disagreement),
        },
        seed=seed,
        classes=(),
        encoding=found.pilot.encoding,
        basis=None,
        notes={
            "n_pilot": len(numbers),
            "samples_per_site": samples_per_site,
            "sites": sites,
            "table": [
                {"name": row.name}
                | {name: f"{getattr(row, name):.6g}" for name in ("r2", "rmse", "mae")}
                for row in table
            ],
        },
        design=design,
        target=target,
    )
    return RegressionPlan(
        n_pilot=len(numbers),
        table=table,
        n_codes=k + 1,
        hint_bits=hint_bits,
        n_sites=sites,
        samples_per_site=samples_per_site,
        y_range=design.space.target_range,
        remarks=remarks,
        cautions=tuple(_cautions(table)),
        protocol=protocol,
    )


# --- what held-out rows say -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Studied:
    """A pilot in one scaling: directions, and predictions of held-out rows."""

    pilot: EncodedPilot
    directions: Matrix  # the pilot's own fit, then partial least squares
    held_out: Matrix  # predictions by the mean, and in further rows by 1, 2, ... directions
    own: Vector  # predictions by the pilot's own model
    losses: Vector  # mean squares of what is wrong with ``held_out``
    n_train: int


def _whole(pilot: EncodedPilot, X: Any) -> EncodedPilot:
    """The same without shortened rows: only those far beyond the pilot's are to be."""
    rows = pilot.encoding.transform(X)
    longest = float(row_lengths(rows).max()) or 1.0
    return replace(pilot, cap=decimal(_FARTHEST * longest), rows=rows)


def _studied(pilot: EncodedPilot, truth: Vector) -> _Studied:
    rows, span = in_own_span(pilot.rows)
    most = max(1, most_directions(rows, MAX_DIRECTIONS))
    fold = _folds(len(truth))
    weight = _best_ridge(rows, truth, fold)
    held_out, own = np.empty((most + 1, len(truth))), np.empty(len(truth))
    for number in range(N_FOLDS):
        out, inside = fold == number, fold != number
        directions = _directions(rows[inside], truth[inside], weight, most)
        fit = _ridge(rows[inside], truth[inside], weight)
        own[out] = with_constant(rows[out]) @ fit
        for k in range(most + 1):
            used = directions[: min(k, len(directions))]
            theta = _least_squares(with_constant(rows[inside] @ used.T), truth[inside])
            held_out[k, out] = with_constant(rows[out] @ used.T) @ theta
    losses = ((held_out - truth) ** 2).mean(axis=1)
    directions = _directions(rows, truth, weight, most)
    return _Studied(
        pilot, directions @ span, held_out, own, losses, len(truth) - len(truth) // N_FOLDS
    )


def _folds(n_rows: int) -> IntegerArray:
    """Five folds, by a published permutation that knows nothing of the rows."""
    order = SharedRandomness("replearn/regression/folds").row_order("order", n_rows)
    fold = np.empty(n_rows, dtype=np.int64)
    fold[order] = np.arange(n_rows) % N_FOLDS
    return fold


def _best_ridge(rows: Matrix, truth: Vector, fold: IntegerArray) -> float:
    losses = np.zeros(len(_RIDGES))
    for number in range(N_FOLDS):
        out, inside = fold == number, fold != number
        for place, weight in enumerate(_RIDGES):
            fit = _ridge(rows[inside], truth[inside], float(weight))
            losses[place] += ((with_constant(rows[out]) @ fit - truth[out]) ** 2).sum()
    return float(_RIDGES[np.argmin(losses)])


def _ridge(rows: Matrix, truth: Vector, weight: float) -> Vector:
    """Intercept and weights; ``weight`` is relative to the largest variance of the rows."""
    mean, centred = rows.mean(axis=0), rows - rows.mean(axis=0)
    moments = centred.T @ centred / len(rows)
    scale = max(float(np.diag(moments).max(initial=0.0)), 1e-300)
    inner = moments + weight * scale * np.eye(len(moments))
    slope = np.linalg.solve(inner, centred.T @ (truth - truth.mean()) / len(rows))
    return np.concatenate([[truth.mean() - mean @ slope], slope])


def _directions(rows: Matrix, truth: Vector, weight: float, most: int) -> Matrix:
    """The ridge fit, then partial least squares; each orthogonal to those before, of length 1."""
    wanted = [_ridge(rows, truth, weight)[1:], *krylov(rows, truth, most)]
    found: list[Vector] = []
    for direction in wanted:
        rest = direction
        for earlier in found:
            rest = rest - earlier * (earlier @ rest)
        length = float(np.linalg.norm(rest))
        if length > 1e-6 * max(float(np.linalg.norm(direction)), 1e-300) and len(found) < most:
            found.append(rest / length)
    return np.array(found).reshape(-1, rows.shape[1])


def _least_squares(columns: Matrix, truth: Vector) -> Vector:
    moments = columns.T @ columns / len(truth)
    ridge = _RIDGE * np.diag(np.maximum(np.diag(moments), 1e-300))
    return np.asarray(np.linalg.solve(moments + ridge, columns.T @ truth / len(truth)))


def _best_number(found: _Studied, wanted: int | None, agreement: Agreement) -> int:
    """Directions for which held-out loss and the price of rounding are least together.

    A site has more rows than the pilot, so that its weights vary less than those of a fold.
    """
    most, n_rows = len(found.directions), agreement.samples_per_site
    if wanted is not None:
        check_whole(wanted, "n_directions", 1, most)
        return wanted
    expected = []
    for k in range(1, most + 1):
        q, loss = k + 1, float(found.losses[k])
        less = q * loss * (1 / n_rows - 1 / found.n_train)
        expected.append(loss + less + q * loss * agreement.ratio(q) ** 2 / (6 * n_rows))
    return 1 + int(np.argmin(expected))


# --- the published form ---------------------------------------------------------------------------


def _design(
    found: _Studied,
    truth: Vector,
    k: int,
    target: tuple[float, float],
    agreement: Agreement,
) -> Design:
    raw, q = found.directions[:k], k + 1
    rows = found.pilot.rows
    factors, limits = limited(_FARTHEST * np.abs(np.asarray(rows @ raw.T)).max(axis=0))
    directions = Basis.from_directions(raw * factors[:, None])
    columns = with_constant(np.asarray(rows @ (directions.rows * UNIT).T))
    largest = np.array([1.0, *(2.0**limit for limit in limits)])
    columns = np.clip(columns, -largest, largest)
    start = _least_squares(columns, truth)
    # of rows that a fit has not seen: those of its own would look too good
    scores = columns * (found.held_out[k] - truth)[:, None]
    information = columns.T @ columns / len(truth)
    meat = scores.T @ scores / len(truth)
    inverse = np.linalg.inv(information)
    root = np.linalg.cholesky(symmetric(inverse @ meat @ inverse) + 1e-24 * inverse)
    sd = math.sqrt(2 / agreement.samples_per_site)
    width = agreement.ratio(q) * sd
    pushes = np.minimum(largest, _FAR_PUSH * np.sqrt((scores**2).mean(axis=0)) + 1e-6 * largest)
    space = ScoreSpace(
        directions=directions,
        cap=found.pilot.cap,
        start=decimals(start),
        shrink=("1",) * q,
        lift=decimal_table(root * width),
        rounding="centre",
        hint_bits=agreement.hint_bits,
        target=decimals(list(target)),
    )
    return Design(
        space=space,
        encode=decimal_table(np.linalg.inv(root) / width),
        curvature=decimal_table(symmetric(information) * (1 + _RIDGE)),
        penalty=decimal_table(symmetric(information) * _RIDGE),
        n_steps=1,
        limits=limits,
        pushes=decimals(pushes),
        reach=("1000000",) * q,
        spread=decimals(np.full(q, sd / width)),
        samples_per_site=agreement.samples_per_site,
    )


def _table(
    found: _Studied,
    design: Design,
    k: int,
    numbers: Vector,
    target: tuple[float, float],
    max_disagreement: float,
) -> tuple[RegressionRow, ...]:
    centre, width = target
    columns, lift = published_columns(found.pilot, design), number_table(design.space.lift)
    rng = np.random.default_rng(0)
    own = found.held_out[k]
    noisy = [own + columns @ (lift @ rng.uniform(-0.5, 0.5, len(lift))) for _ in range(_DRAWS)]

    # a site has more rows than a fold, and weights that vary less
    less = len(lift) * float(found.losses[k]) * width**2
    less *= 1 / found.n_train - 1 / max(design.samples_per_site, found.n_train)

    def row_of(
        name: str, predictions: Sequence[Vector], differ: float | None, less: float = 0.0
    ) -> RegressionRow:
        errors = np.concatenate([centre + width * p - numbers for p in predictions])
        errors *= math.sqrt(max(0.0, 1 - less / max(float((errors**2).mean()), 1e-300)))
        square = float((errors**2).mean())
        r2 = 1 - square / max(float(numbers.var()), 1e-300)
        return RegressionRow(name, r2, math.sqrt(square), float(np.abs(errors).mean()), differ)

    return (
        row_of("always the mean", [found.held_out[0]], 0.0),
        row_of("the pilot's own model, published", [found.own], 0.0),
        row_of("this protocol", noisy, max_disagreement, less),
        row_of("one site's rows, not rounded", [own], None, less),
    )


def _cautions(table: Sequence[RegressionRow]) -> list[str]:
    mean, own, planned, _ = table
    found = []
    if planned.rmse >= mean.rmse:
        found.append("this protocol predicts no better than the mean. Get more rows or hint bits.")
    elif planned.rmse > 1.001 * own.rmse:
        found.append(
            "the pilot's own model, published as it is, predicts better than this protocol. More "
            "rows or hint bits make the grid finer."
        )
    return found


# --- what is refused ------------------------------------------------------------------------------


def _numbers(y: Any) -> Vector:
    try:
        numbers: NDArray[np.float64] = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ReplearnError(
            f"y must hold numbers, got {y!r:.80}. Labels are planned by plan_from_pilot."
        ) from None
    if numbers.ndim != 1 or numbers.size < FEWEST:
        raise ReplearnError(f"a pilot needs at least {FEWEST} rows, got y of {numbers.shape}.")
    if not np.isfinite(numbers).all():
        raise ReplearnError("y must be finite, got NaN or inf. Drop such rows from the pilot.")
    if not numbers.std() > 0:
        raise ReplearnError(f"y must vary, got {numbers[0]:g} in every row. Check the column.")
    return numbers


def _range(numbers: Vector, given: tuple[float, float] | None) -> tuple[float, float]:
    if given is None:
        mean, sd = float(numbers.mean()), float(numbers.std())
        far = max(_FAR * sd, _FARTHEST * float(np.abs(numbers - mean).max()))
        step = 10.0 ** (math.floor(math.log10(sd)) - 1)  # rounded: no row's own number
        low, high = mean - far, mean + far
        return math.floor(low / step) * step, math.ceil(high / step) * step
    try:
        low, high = (float(number) for number in given)
    except (TypeError, ValueError):
        low, high = math.nan, math.nan
    if not low < high or not math.isfinite(high - low):
        raise ReplearnError(
            f"y_range must be two numbers, the smaller first, got {given!r:.80}. Leave it out for "
            "one that follows from the pilot."
        )
    return low, high
