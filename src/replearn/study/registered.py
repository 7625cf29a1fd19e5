"""Registered studies: nobody is first, nothing about a lab's sample is published.

Without a sketch rounding is dear, so a model has few numbers: the constant and some principal
directions of a pilot, or published scores that labs recalibrate. This is the paper's notion of
replicability, for models with probabilities.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from replearn.codes import seed_text
from replearn.errors import UselessModelWarning, probability, whole_number
from replearn.exact import algebra
from replearn.glm import DIRECTION_BITS, GlmDesign, GlmPromise, Kind, loss_of
from replearn.glm import sketched as glm
from replearn.rows import MemoryBlocks, Rows, joined
from replearn.study.encoder import RowEncoder, TableRows, projected, read_rows
from replearn.study.original import read_labels, worth_of
from replearn.study.study import GlmStudy
from replearn.tables import Table, learn_encoding, make_profile, open_table
from replearn.types import Codes, Matrix
from replearn.words import warn

#: Directions that are tried.
MOST_DIRECTIONS = 8


def register_study(
    pilot: Any,
    pilot_y: Any,
    *,
    replication_rows: int,
    scores: Sequence[str] | None = None,
    kind: Kind = "logistic",
    target: str = "y",
    max_disagreement: float = 0.1,
    shared_seed: int | str = 0,
    categories: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> GlmStudy:
    """Plan a study in which nobody is first, from a pilot or from public rows.

    Parameters
    ----------
    pilot : table
        Its rows are no lab's rows. An open `Table` has its target.
    pilot_y : column name or array
        Labels of the pilot.
    replication_rows : int
        Rows that each lab will have, at least.
    scores : sequence of str, optional
        Columns that hold finished scores: labs fit a constant and a slope for each. Otherwise labs
        fit principal directions of the pilot, as many as are worth their rounding.
    kind : "logistic", "linear", "poisson" or "survival", default="logistic"
        What labs fit.
    target : str
        Name of the column that labs predict.
    max_disagreement : float, default=0.1
        Planned probability that two labs get different models.
    shared_seed : int or str, default=0
        Seed shared by all labs; public; must not depend on the data.
    categories : sequence of str, default=()
        Columns that are levels, though they hold numbers.
    drop : sequence of str, default=()
        Columns to leave out.

    Returns
    -------
    study : GlmStudy
        With 0 bits: `replicate` it at every lab.

    See Also
    --------
    ReplicableLogisticClassifier : an original, which is first.
    combine : labs that fit together.

    Notes
    -----
    Cells have no bits of anybody's fit. So labs agree only if cells are wide beside the sampling
    error of all coefficients together, and rows grow with the cube of their number: statement 2 of
    ``docs/theory/guarantees.md`` says why.

    References
    ----------
    .. [KKLVZ24] Kalavasis, Karbasi, Larsen, Velegkas and Zhou. Replicable Learning of Large-Margin
       Halfspaces. ICML 2024, arXiv:2402.13857.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 4)) * [3, 1, 1, 1]
    >>> y = X[:, 0] + 3 * rng.logistic(size=1000) > 0
    >>> study = register_study(X, y, replication_rows=50_000)
    >>> study.design.bits, len(study.design.directions) < 4
    (0, True)
    """
    replication_rows = whole_number("replication_rows", replication_rows)
    max_disagreement = probability("max_disagreement", max_disagreement)
    table = pilot if isinstance(pilot, Table) else open_table(pilot, target=pilot_y)
    table = table.kept()
    if scores is None:
        table = table.without(drop)
    else:
        table.require_names("scores", scores)
        table = replace(table, names=tuple(scores))
    classes, labels = read_labels(table, kind)
    loss = loss_of(kind, classes, labels)

    # 1 the pilot: columns, encoded rows
    learned = learn_encoding(table, labels, categories=categories)
    rows = read_rows(TableRows(table, RowEncoder(learned.encoding, loss, classes)))

    # 2 finished scores are recalibrated; of columns as many directions as pay
    promise = GlmPromise(max_disagreement, 0, replication_rows, replication_rows)
    if scores is not None:
        directions, chosen = None, glm.RidgeSearch.of(rows, loss, promise).original()
    else:
        directions, chosen = _worthwhile(rows, loss, promise)
    worth = worth_of(loss, chosen.folds)
    if worth.is_useless:
        warn(
            f"With {replication_rows:,} rows per lab and no published bits the model is no better "
            "than the base rate. Get more rows per lab, or let one lab be first (publish).",
            UselessModelWarning,
        )

    # 3 a study without a commitment: no code was published
    design = GlmDesign(
        target=pilot_y if isinstance(pilot_y, str) else target,
        encoding=learned.encoding,
        loss=loss,
        ridge=chosen.validation.ridge,
        coordinates=chosen.coordinates,
        widths=chosen.widths,
        bits=0,
        seed=seed_text(shared_seed),
        classes=classes,
        directions=directions,
    )
    return GlmStudy.of(design, promise, chosen.spread, make_profile(learned, labels))


def _worthwhile(rows: Rows, loss: Any, promise: GlmPromise) -> tuple[Codes, glm.RidgeFit]:
    """As many principal directions as lower the held-out loss after rounding."""
    every = principal_directions(glm.second_moments(rows))[:MOST_DIRECTIONS]
    best: tuple[Codes, glm.RidgeFit] | None = None
    kept = rows if isinstance(rows, MemoryBlocks) else MemoryBlocks(joined(list(rows.blocks())))
    for k in range(1, len(every) + 1):
        turned = MemoryBlocks(replace(kept.block, terms=projected(kept.block.terms, every[:k])))
        fitted = glm.RidgeSearch.of(turned, loss, promise).original()
        if best is not None and fitted.loss >= best[1].loss:
            break
        best = every[:k], fitted
    assert best is not None
    return best


def principal_directions(moments: Matrix) -> Codes:
    """Principal directions of encoded rows, in whole units, each with about unit variance."""
    centre = moments[0, 1:]
    covariance = moments[1:, 1:] - centre[:, None] * centre
    values, vectors = algebra.eigenvectors(covariance)
    keep = values > 1e-3 * values[0]
    scaled = vectors[keep] / np.maximum(np.sqrt(values[keep]), 0.5)[:, None]
    return np.floor(scaled * 2.0**DIRECTION_BITS + 0.5).astype(np.int64)
