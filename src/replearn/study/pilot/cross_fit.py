"""What held-out rows say about a family of directions: information, variance, and signal.

Directions are made on four fifths of the pilot and judged by the last fifth, in turn. In the
coordinates of the directions, made orthonormal in the Fisher metric of the start, that gives

- H, the Fisher information of a row, and J, the second moments of its score, so that a
  site's estimate varies with the sandwich covariance;
- s2, how far the best weights are from the start: the squared held-out score, less its own
  variance. It is smoothed over blocks of coordinates and drawn towards what theory expects
  of a fit on a pilot of this size, so that choosing by it has next to no optimism.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from replearn.study.pilot.families import principal, supervised_directions
from replearn.study.pilot.ridge import N_FOLDS, HeldOut, Truth, log_loss, short_step
from replearn.types import Matrix, Vector

#: Smallest variance of a coordinate: a pilot that is separated shows none.
VARIANCE_FLOOR = 0.3

#: Share of the quadratic bound of the log-loss that a row's curvature has at least. A step in a
#: metric of more than half the bound cannot raise the loss.
_BOUND_SHARE = 0.55

#: A direction is left out if less than this share of it is new, or if it rests on fewer than this
#: share of the pilot's rows.
_NEW_SHARE = 1e-3
_FEWEST_ROWS = 1 / 25
_FEWEST_DISCOVERY_ROWS = 1 / 66

#: How many directions theory counts for, against what was seen in a group of them.
_THEORY_WEIGHT = 2.0


@dataclass(frozen=True)
class Family:
    """Directions with what the pilot says about them.

    Theta has the q coordinates of the columns ``(1, rows @ directions.T) @ frame``. Directions are
    made orthogonal like these, of length 1, and given in the coordinates of the pilot's span.
    """

    name: str
    directions: Matrix
    weights: Vector  # of the pilot's rows, in whose metric the columns are orthonormal
    start: Vector
    information: Matrix
    variance: Vector  # of one row's part in ``M theta``, ``M' M`` the information
    signal: Vector  # expected squared distance from the start, likewise
    n_steps: int = 1
    ridge: float = 0.02  # towards the start
    caution: float = 1.1  # the variance of sites is taken larger than the pilot shows
    enough: float = 0.95  # of plans that gain this share of the most, the fewest numbers are coded


@dataclass(frozen=True)
class Frame:
    """Directions, and the triangular map that makes their columns orthonormal.

    The start has a number for each column, or a row of them for several outputs.
    """

    directions: Matrix
    frame: Matrix
    start: Vector
    weights: Vector

    def orthogonal(self) -> Matrix:
        """The directions behind the orthonormal columns, scaled to length 1."""
        mixed = self.frame[1:, 1:].T @ self.directions
        return np.asarray(mixed / np.linalg.norm(mixed, axis=1, keepdims=True))

    def columns(self, rows: Matrix) -> Matrix:
        """Orthonormal columns of rows."""
        return np.asarray(with_constant(rows @ self.directions.T) @ self.frame)


def supervised_family(
    name: str,
    rows: Matrix,
    fits: HeldOut,
    n_directions: int,
    scores: Matrix,
    axes: list[Matrix],
) -> Family:
    """A family that knows labels, with its held-out statistics.

    ``axes`` are the principal directions of each fold's rows, and of all rows last.
    """
    truth, seen_parts = fits.truth, [fits.fold != left_out for left_out in range(N_FOLDS)]

    def made(seen: Truth, fit: Vector, own_axes: Matrix) -> Frame:
        directions = supervised_directions(
            name, rows[seen], truth[seen], fit, fits.weight, n_directions, scores, own_axes
        )
        place = len(scores)  # where the pilot's own fit is among the directions
        intercept = fits.correction[0] + fits.correction[1] * fit[0]
        return _framed(directions, rows[seen], place, intercept, float(fits.correction[1]))

    frames = [
        made(seen, fit, own) for seen, fit, own in zip(seen_parts, fits.by_fold, axes, strict=False)
    ]
    whole = made(np.ones(truth.size, dtype=bool), fits.whole, axes[-1])
    q = min(len(frame.start) for frame in (*frames, whole))
    information, meat, held, n_held = np.zeros((q, q)), np.zeros((q, q)), [], []
    for frame, seen in zip(frames, seen_parts, strict=True):
        columns = frame.columns(rows[~seen])[:, :q]
        scores = columns @ frame.start[:q]
        residual, weights = expit(scores) - truth[~seen], curvature_weights(scores)
        information += (columns * weights[:, None]).T @ columns / len(columns) / N_FOLDS
        meat += (columns * (residual**2)[:, None]).T @ columns / len(columns) / N_FOLDS
        held.append(columns.T @ residual / len(columns))
        n_held.append(len(columns))
    # half of what is off the diagonal is believed: the frames make it small to begin with
    information = 0.5 * (information + np.diag(np.diag(information)))
    to_metric = solve_triangular(np.linalg.cholesky(information), np.eye(q), lower=True)
    variance = np.maximum(np.diag(to_metric @ meat @ to_metric.T), VARIANCE_FLOOR)
    squares = np.mean([(to_metric @ score) ** 2 for score in held], axis=0)
    excess = squares - variance * np.mean(1 / np.array(n_held))
    return Family(
        name=name,
        directions=whole.orthogonal()[: q - 1],
        weights=whole.weights,
        start=whole.start[:q],
        information=information,
        variance=variance,
        signal=smoothed(excess, variance / truth.size),
    )


#: Steps and ridge of a study that starts from no model: the rows' own curvature is stepped with.
DISCOVERY_STEPS, DISCOVERY_RIDGE = 8, 0.05

#: Without labels: assumed variance of the log-odds, which falls off like one over the number of
#: the direction.
_ASSUMED_SIGNAL = 2.0


def discovery_family(
    rows: Matrix, share: float, n_directions: int, fits: HeldOut | None = None
) -> Family:
    """Principal directions, and a start that knows nothing but the share of positives.

    Labels, if there are any, say how much signal to expect in how many directions, and nothing
    about which directions these are.
    """
    spread = share * (1 - share)
    weights = np.full(len(rows), spread)
    found, columns = discovery_frame(rows, n_directions, weights, np.log(share / (1 - share)))
    start, numbers = found.start, np.arange(1, found.start.size + 1)
    variance = np.ones(start.size)
    signal = spread * _ASSUMED_SIGNAL / numbers / (1 / numbers).sum()
    if fits is not None:
        theta = _fitted(columns, fits.truth, start)
        variance = _held_out_variance(columns, fits, start)
        signal = block_means((theta - start) ** 2, variance / len(rows))
    return discovery(found, np.eye(start.size), variance, signal)


def discovery_frame(
    rows: Matrix, n_directions: int, weights: Vector, base: Any
) -> tuple[Frame, Matrix]:
    """Principal directions, a start that says the same log-odds to all, and their columns."""
    directions = principal(rows, n_directions)
    columns = with_constant(rows @ directions.T)
    kept = strong_columns(columns, weights, 2, _FEWEST_DISCOVERY_ROWS)
    frame = orthonormal_frame(columns[:, kept], weights)
    start = np.zeros((kept.size, *np.shape(base)))
    start[0] = base / frame[0, 0]
    return Frame(directions[kept[1:] - 1], frame, start, weights), columns[:, kept] @ frame


def discovery(found: Frame, information: Matrix, variance: Vector, signal: Vector) -> Family:
    """The family of a study whose directions know no label."""
    return Family(
        name="pca",
        directions=found.orthogonal(),
        weights=found.weights,
        start=found.start.ravel(),
        information=information,
        variance=variance,
        signal=signal,
        n_steps=DISCOVERY_STEPS,
        ridge=DISCOVERY_RIDGE,
        caution=1.5,
        enough=0.99,  # there is no start to fall back on, so a share of the gain is much
    )


def discovery_scores(rows: Matrix, fits: HeldOut, share: float, size: int) -> Vector:
    """Held-out log-odds of a discovery with a number of coordinates, before any rounding."""
    truth, scores = fits.truth, np.empty(len(rows))
    for left_out in range(N_FOLDS):
        seen = fits.fold != left_out
        family = discovery_family(rows[seen], share, size - 1)
        columns = with_constant(rows @ family.directions.T)
        columns = columns @ orthonormal_frame(columns[seen], family.weights)
        theta = _fitted(columns[seen], truth[seen], family.start)
        scores[~seen] = columns[~seen] @ theta
    return scores


def _fitted(columns: Matrix, truth: Truth, start: Vector) -> Vector:
    """Weights after the steps of a site; see `replearn.stages.scores.logistic`."""
    ridge = DISCOVERY_RIDGE * np.eye(start.size)

    def step(theta: Vector) -> tuple[float, Vector]:
        scores = columns @ theta
        chance = expit(scores)
        curvature = (columns * (chance * (1 - chance))[:, None]).T @ columns / truth.size + ridge
        slope = columns.T @ (chance - truth) / truth.size + ridge @ (theta - start)
        return log_loss(truth, scores), theta - short_step(curvature, slope)

    theta = start
    loss, following = step(theta)
    for _ in range(DISCOVERY_STEPS - 1):
        next_loss, beyond = step(following)
        if next_loss > loss:
            following = (theta + following) / 2
            continue
        theta, loss, following = following, next_loss, beyond
    return following


def _held_out_variance(columns: Matrix, fits: HeldOut, start: Vector) -> Vector:
    """Variance of one row's part in the weights, from rows that the fits have not seen.

    Rows that a fit has seen are too well explained by it. The curvature is Newton's own: the
    variance of a fit is that of its limit, however it gets there.
    """
    truth, q = fits.truth, start.size
    information, meat = DISCOVERY_RIDGE * np.eye(q), np.zeros((q, q))
    for left_out in range(N_FOLDS):
        seen = fits.fold != left_out
        chance = expit(columns[~seen] @ _fitted(columns[seen], truth[seen], start))
        held, residual = columns[~seen], chance - truth[~seen]
        information += (held * (chance * (1 - chance))[:, None]).T @ held / truth.size
        meat += (held * (residual**2)[:, None]).T @ held / truth.size
    bread = np.linalg.inv(information)
    return np.maximum(np.diag(bread @ meat @ bread), VARIANCE_FLOOR)


def _blocks(size: int, n_outputs: int) -> list[slice]:
    """Coordinates of the intercepts, and of directions in groups of doubling size."""
    pairs = pairwise((0, 1, 2, 4, 8, 16, 32, 64))
    found = [slice(low * n_outputs, min(high * n_outputs, size)) for low, high in pairs]
    return [block for block in found if block.start < size]


def block_means(squares: Vector, noise: Vector, n_outputs: int = 1) -> Vector:
    """Signal by groups of directions, the intercept apart; never below half the noise."""
    signal = np.empty_like(squares)
    for block in _blocks(squares.size, n_outputs):
        seen = float((squares[block] - noise[block]).mean())
        least = (4.0 if block.start == 0 else 0.5) * float(noise[block].mean())
        signal[block] = max(seen, least)
    return signal


def smoothed(excess: Vector, theory: Vector, n_outputs: int = 1) -> Vector:
    """Signal by groups of directions, drawn towards what theory expects of a fit on a pilot."""
    signal, weight = np.empty_like(theory), _THEORY_WEIGHT * n_outputs
    for block in _blocks(theory.size, n_outputs):
        seen, n = float((excess[block] / theory[block]).sum()), theory[block].size
        signal[block] = theory[block] * np.clip((weight + seen) / (weight + n), 0.25, 1e6)
    return signal


def fold_axes(rows: Matrix, fits: HeldOut, n_directions: int) -> list[Matrix]:
    """Principal directions of the rows that each fold's fit has seen, and of all rows last."""
    parts = [rows[fits.fold != left_out] for left_out in range(N_FOLDS)]
    return [principal(part, n_directions) for part in (*parts, rows)]


def _framed(directions: Matrix, rows: Matrix, place: int, intercept: float, slope: float) -> Frame:
    """Make columns orthonormal in the Fisher metric of the start, leaving out weak directions."""
    columns = with_constant(rows @ directions.T)
    theta = np.zeros(columns.shape[1])
    theta[0], theta[1 + place] = intercept, slope
    weights = curvature_weights(columns @ theta)
    kept = strong_columns(columns, weights, place + 2)
    columns, theta = columns[:, kept], theta[kept]
    frame = orthonormal_frame(columns, weights)
    return Frame(directions[kept[1:] - 1], frame, np.linalg.solve(frame, theta), weights)


def curvature_weights(scores: Vector) -> Vector:
    """Curvature of the log-loss that is safe to step with, at these log-odds.

    The Fisher weight ``p (1 - p)``, but not less than .55 of ``(p - 1/2) / score``, the smallest
    quadratic bound of the log-loss [JJ00]. The Fisher weight vanishes on rows with a large score;
    those that are wrong would then push a step far beyond where it is good.
    """
    chance = expit(scores)
    size = np.maximum(np.abs(scores), 1e-3)
    return np.asarray(np.maximum(chance * (1 - chance), _BOUND_SHARE * (expit(size) - 0.5) / size))


def with_constant(columns: Matrix) -> Matrix:
    """A column of ones in front."""
    return np.column_stack([np.ones(len(columns)), columns])


def orthonormal_frame(columns: Matrix, weights: Vector) -> Matrix:
    """Upper triangular map after which columns are orthonormal in the weighted metric, in order."""
    gram = (columns * weights[:, None]).T @ columns / len(columns)
    gram += 1e-9 * float(np.trace(gram)) / len(gram) * np.eye(len(gram))
    return np.asarray(solve_triangular(np.linalg.cholesky(gram), np.eye(len(gram)), lower=True).T)


def strong_columns(
    columns: Matrix, weights: Vector, n_always: int, fewest_rows: float = _FEWEST_ROWS
) -> Vector:
    """Columns that add something of their own and rest on enough rows, by their numbers."""
    n_rows = len(columns)
    kept: list[int] = []
    basis: list[Vector] = []
    for j in range(columns.shape[1]):
        column = columns[:, j]
        rest = column.copy()
        for _ in range(2):  # twice is enough
            for earlier in basis:
                rest = rest - earlier * float((weights * earlier) @ rest / n_rows)
        size = float((weights * rest) @ rest / n_rows)
        share = size / max(float((weights * column) @ column / n_rows), 1e-300)
        loads = weights * rest**2
        n_effective = float(loads.sum() ** 2 / max(float((loads**2).sum()), 1e-300))
        strong = share > _NEW_SHARE and n_effective >= fewest_rows * n_rows
        if strong or (j < n_always and share > 1e-12):
            kept.append(j)
            basis.append(rest / np.sqrt(size))
    return np.array(kept)
