"""Replicable numbers: the score of a model, the same number at every site."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.estimators.candidates import contenders, n_rows_of
from replearn.estimators.choice import (
    check_share,
    class_numbers,
    labels_of,
    read_scoring,
    score_candidates,
)
from replearn.plans.ledger import StudyLedger
from replearn.plans.plan_choice import rows_of_sites, site_range
from replearn.plans.sizes import decimal
from replearn.stages.score_rounding import ReplicableScore, round_score
from replearn.warn import warn


def replicable_score(
    model: Any,
    X: Any,
    y: Any,
    scoring: Any = "accuracy",
    *,
    prevalence: Sequence[float] | None = None,
    max_disagreement: float = 0.05,
    grid_width: float | None = None,
    samples_per_site: int | Sequence[int] | None = None,
    n_sites: int = 2,
    spread: float | None = None,
    shared_seed: int | str = 0,
    name: str = "",
    classes: Sequence[Any] | None = None,
    ledger: StudyLedger | None = None,
) -> ReplicableScore:
    """The score of a model, rounded so that every site gets the same number.

    Parameters
    ----------
    model : as a candidate of `ReplicableChoiceClassifier`
        The same at every site, such as the chosen one.
    X, y : rows of this site and their labels
        Rows that the model has not seen.
    scoring : str or array, default="accuracy"
        As for `ReplicableChoiceClassifier`.
    prevalence : sequence of float, optional
        With "balanced_accuracy": published share of each class.
    max_disagreement : float, default=0.05
        Probability that not all sites get the same number; its share of the ledger.
    grid_width : float, optional
        Published width of the grid; the number is within half of it of the site's own score.
        Default: as wide as ``max_disagreement``, ``samples_per_site`` and ``spread`` ask for.
    samples_per_site : int or sequence of int, optional
        Published rows of each site; needed without ``grid_width``, since a site's own number of
        rows must not set the grid.
    n_sites : int, default=2
        Number of sites, if ``samples_per_site`` is not a sequence.
    spread : float, optional
        Published standard deviation of a row's number. Default: the largest that there can be. For
        an accuracy near .9 pass .3, the root of .9 times .1.
    shared_seed : int or str, default=0
        Published. Reads the stream "score/{name}".
    name : str, default=""
        Each number of a study needs a name of its own, or their grids have the same offset.
    classes : sequence of labels, optional
        Published classes. Default: those that the model knows.
    ledger : StudyLedger, optional
        Notes ``max_disagreement`` under "score {name}".

    Returns
    -------
    ReplicableScore
        The number, the width of its grid, and how likely sites are to differ.

    Warns
    -----
    ReplicabilityWarning
        If the rows say that sites disagree more often than ``max_disagreement``.

    Notes
    -----
    Two sites with n rows get different numbers with probability about
    ``1.13 spread / (sqrt(n) grid_width)``: a third digit is dear. See `round_score` for the bound.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 2, 80_000)
    >>> predicted = np.where(rng.random(80_000) < 0.9, labels, 1 - labels)[:, None]
    >>> settings = {"samples_per_site": 40_000, "spread": 0.3, "shared_seed": 2024}
    >>> sites = slice(40_000), slice(40_000, 80_000)
    >>> [str(replicable_score(0, predicted[site], labels[site], **settings)) for site in sites]
    ['accuracy 0.895, to +-0.017', 'accuracy 0.895, to +-0.017']
    """
    seed = seed_text(shared_seed, "shared_seed")
    name = seed_text(name, "name")
    check_share(max_disagreement, "max_disagreement")
    (one,) = contenders([("model", model)], classes=classes)
    labels = labels_of(y, n_rows_of(X))
    known = one.classes if classes is None else np.asarray(classes)
    known = np.unique(labels) if known is None else known
    found = read_scoring(scoring, prevalence, known.size)
    width = _width(grid_width, samples_per_site, n_sites, spread, found.row_range, max_disagreement)
    if ledger is not None:
        ledger.spend(f"score {name}".strip(), max_disagreement)
    sums = score_candidates([one], found, X, class_numbers(known, labels), known)
    rows = rows_of_sites(sums.n_rows if samples_per_site is None else samples_per_site, n_sites)
    result = round_score(
        sums, found.name, width, rows, SharedRandomness(seed), name, found.row_range
    )
    if (result.expected_disagreement or 0.0) > 1.05 * max_disagreement:
        warn(
            f"Other sites get another number with an estimated probability of "
            f"{result.expected_disagreement:.2f}, above max_disagreement={max_disagreement:g}. "
            "Publish a wider grid, or get more rows.",
            ReplicabilityWarning,
        )
    return result


def _width(
    grid_width: float | None,
    samples_per_site: int | Sequence[int] | None,
    n_sites: int,
    spread: float | None,
    row_range: float | None,
    max_disagreement: float,
) -> str:
    for name, value in (("grid_width", grid_width), ("spread", spread)):
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if value is not None and (not number or not 0 < value < math.inf):
            raise ReplearnError(f"{name} must be a positive number, got {value!r:.80}.")
    if grid_width is not None:
        return repr(float(grid_width))
    if samples_per_site is None:
        raise ReplearnError(
            "replicable_score needs grid_width or samples_per_site, which sites publish: a grid "
            "that follows from a site's own rows is another one at every site."
        )
    if spread is None and row_range is None:
        raise ReplearnError(
            "this score has no largest spread. Publish grid_width or spread, from a pilot."
        )
    largest = row_range / 2 if spread is None and row_range is not None else spread
    assert largest is not None
    rows = rows_of_sites(samples_per_site, n_sites)
    return decimal(largest * site_range(rows) / max_disagreement)
