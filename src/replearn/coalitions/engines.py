"""One contract for engines: Arrow batches in, exact sums out.

An engine (a database, a dataframe, a cluster) hands record batches of its rows to `arrow_sums`, in
any order and number, and merges what it gets by ``+``. What comes out does not depend on how the
rows were cut: files, dataframes and clusters give the same bytes.
"""

import os
from collections.abc import Iterable
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array

from replearn.coalitions.rounds import CoalitionRound
from replearn.coalitions.site_batches import SiteBatches
from replearn.coalitions.site_sums import SiteSums, design_of, n_rounds, n_vector, read_name
from replearn.codes.encoding import Seen
from replearn.errors import ReplearnError
from replearn.estimators.docstrings import with_shared_entries
from replearn.files.jsonfile import Unfit
from replearn.fits.adding import add_pieces
from replearn.fits.file_fit import refuse_other_codes, training_source
from replearn.kernels.score_sums import MAX_TOTAL_WEIGHT, ScoreSums
from replearn.sources.arrow_batches import arrow_pieces
from replearn.sources.common import Piece, Watch, total_seen
from replearn.sources.labels import Labels
from replearn.stages.batches import max_margin
from replearn.stages.pieces import joined
from replearn.stages.scores import score_terms
from replearn.study.protocol import Protocol

#: Sums of fewer rows may tell what is in single ones.
FEWEST_ROWS = 100


@with_shared_entries
def arrow_sums(
    protocol: Protocol,
    batches: Iterable[Any],
    target: str | None = None,
    *,
    after: CoalitionRound | None = None,
    site: str | None = None,
    few_rows: bool = False,
    allow_unknown: bool = False,
    assume_shuffled: bool = False,
) -> SiteSums:
    """Exact sums of the rows in record batches of Arrow: the contract for engines.

    Parameters
    ----------
    {protocol}
    batches : iterable of pyarrow.RecordBatch or pyarrow.Table
        Raw columns, as the protocol names them; it encodes them.
    target : str, optional
        The label column; default that of the protocol.
    {after, site, few_rows, allow_unknown}
    assume_shuffled : bool, default=False
        For Algorithm 1, whose batches are consecutive rows: take the rows in their order, which
        must be random, instead of shuffling them in memory.

    Returns
    -------
    SiteSums
        For a logistic study the same bytes for the same rows, in any order and cut into any
        batches. Workers of one site merge their parts with `merged_sums`.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> protocol = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900).protocol
    >>> import pyarrow as pa
    >>> table = pa.table({"x0": X[200:, 0], "x1": X[200:, 1], "label": y[200:]})
    >>> rl.arrow_sums(protocol, table.to_batches(max_chunksize=500), "label").n_rows
    1800
    """
    column = target if target is not None else protocol.target
    if column is None:
        raise ReplearnError("labels are needed, got no target. Name the label column.")
    pieces = arrow_pieces(batches, column, protocol.encoding)
    return _added(protocol, pieces, column, after, site, few_rows, allow_unknown, assume_shuffled)


@with_shared_entries
def site_sums(
    protocol: Protocol,
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    after: CoalitionRound | None = None,
    site: str | None = None,
    few_rows: bool = False,
    allow_unknown: bool = False,
    assume_shuffled: bool = False,
    n_features: int | None = None,
    watch: Watch | None = None,
) -> SiteSums:
    """Exact sums of the rows in a file, or in a folder of files, of any size.

    Parameters
    ----------
    {protocol}
    path : path
        CSV, Parquet, npz or svmlight.
    target : str, optional
        The label column; default that of the protocol.
    {after, site, few_rows, allow_unknown}
    assume_shuffled : bool, default=False
        For Algorithm 1: take the rows in their order, which must be random.
    n_features : int, optional
        For svmlight files.
    watch : callable, optional
        Told the share of the rows that have been read.

    Returns
    -------
    SiteSums
        The same bytes for the same rows in any order, file or folder.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> protocol = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900).protocol
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import pandas as pd
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "site.csv")
    ...     pd.DataFrame(X[200:], columns=["x0", "x1"]).assign(label=y[200:]).to_csv(
    ...         path, index=False
    ...     )
    ...     print(rl.site_sums(protocol, path, "label").n_rows)
    1800
    """
    n_rounds(protocol)
    column = target if target is not None else protocol.target
    source, _ = training_source(protocol.estimator(), path, column, n_features=n_features)
    pieces = source.pieces(watch=watch)
    return _added(
        protocol, pieces, source.place, after, site, few_rows, allow_unknown, assume_shuffled
    )


@with_shared_entries
def row_sums(
    protocol: Protocol,
    X: Any,
    y: Any,
    *,
    after: CoalitionRound | None = None,
    site: str | None = None,
    few_rows: bool = False,
    allow_unknown: bool = False,
    assume_shuffled: bool = False,
) -> SiteSums:
    """Exact sums of rows in memory.

    Parameters
    ----------
    {protocol}
    X : array, dataframe or CSR matrix of shape (n_samples, n_features)
        Raw columns, as the protocol names them; it encodes them.
    y : array of shape (n_samples,)
        Labels of the protocol.
    {after, site, few_rows, allow_unknown}
    assume_shuffled : bool, default=False
        For Algorithm 1: take the rows in their order, which must be random.

    Returns
    -------
    SiteSums
        The same bytes for the same rows in any order.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> protocol = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900).protocol
    >>> rl.row_sums(protocol, X[200:], y[200:], site="oslo").n_rows
    1800
    """
    seen = None
    if protocol.encoding is not None:
        X, seen = protocol.encoding.counted(X)
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], order="C")
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    labels = np.asarray(y)
    if labels.shape != (X.shape[0],):
        raise ReplearnError(
            f"y must have one label for each of {X.shape[0]:,} rows, got shape {labels.shape}."
        )
    pieces = [Piece(X, labels, 0, seen)]
    return _added(protocol, pieces, "y", after, site, few_rows, allow_unknown, assume_shuffled)


def merged_sums(parts: Iterable[SiteSums]) -> SiteSums:
    """Sums of all rows of one site, from those of its workers or files.

    Parameters
    ----------
    parts : iterable of SiteSums
        Of one protocol, round and site, each of other rows; order does not matter.

    Returns
    -------
    SiteSums
        The same bytes as from all rows at once.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> protocol = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900).protocol
    >>> parts = [slice(200, 1100), slice(1100, 2000)]
    >>> halves = [rl.row_sums(protocol, X[rows], y[rows], site="oslo") for rows in parts]
    >>> whole = rl.row_sums(protocol, X[200:], y[200:], site="oslo")
    >>> rl.merged_sums(halves).fingerprint == whole.fingerprint
    True
    """
    found = list(parts)
    if not found:
        raise ReplearnError("there must be sums to merge, got none.")
    first = found[0]
    for other in found:
        for name in ("protocol", "round", "after", "site"):
            mine, theirs = getattr(first, name), getattr(other, name)
            if mine != theirs:
                raise ReplearnError(
                    f"parts of one site must have the same {name}, got {mine!r} and {theirs!r}. "
                    "Make them from one protocol, in one round."
                )
    refuse_overflow(found)
    return SiteSums(
        first.protocol,
        first.round,
        first.after,
        reduce(add, [part.sums for part in found]),
        tuple(map(sum, zip(*(part.unknown for part in found), strict=True))),
        first.site,
    )


def refuse_overflow(parts: Iterable[SiteSums]) -> None:
    """Refuse more rows than the sums have room for."""
    total = sum(part.sums.total_weight for part in parts)
    if total > MAX_TOTAL_WEIGHT:
        raise ReplearnError(
            f"sums must be of at most 2^50 rows in total, got {total:,}: they would overflow. "
            "Leave out the file with the odd count."
        )


def _added(
    protocol: Protocol,
    pieces: Iterable[Piece],
    place: str,
    after: CoalitionRound | None,
    site: str | None,
    few_rows: bool,
    allow_unknown: bool,
    assume_shuffled: bool,
) -> SiteSums:
    """Sums over pieces, whoever has read them."""
    n_rounds(protocol)
    if after is not None:
        after.check_next(protocol)
    known, many = sorted(protocol.classes), protocol.design is not None
    labels = Labels(f"the label column of {place}", known, from_text=True, many=many)
    sums: ScoreSums | SiteBatches | None
    if protocol.design is None:
        sums, seen = _batches(protocol, pieces, labels, place, assume_shuffled)
    else:
        design = design_of(protocol)
        theta = design.space.start_numbers if after is None else after.steps.following
        checked = (_checked(piece, design.space.n_features) for piece in pieces)
        added = add_pieces(partial(score_terms, design, theta), checked, labels)
        sums, seen = added.total, added.seen
    if sums is None:
        raise ReplearnError(f"{place} must have rows, got none.")
    if sums.n_rows < FEWEST_ROWS and not few_rows:
        raise ReplearnError(
            f"sums must be of at least {FEWEST_ROWS} rows, got {sums.n_rows}: those of few rows "
            "may tell what is in single ones. Pool the rows with another site's, or pass few_rows "
            "(on the command line --few-rows)."
        )
    refuse_other_codes(place, protocol.encoding, allow_unknown, seen)
    n_columns = 0 if protocol.encoding is None else len(protocol.encoding.columns)
    return SiteSums(
        protocol.fingerprint,
        1 if after is None else after.round + 1,
        None if after is None else after.fingerprint,
        sums,
        (0,) * n_columns if seen is None else seen.unknown,
        None if site is None else _checked_name(site),
    )


def _batches(
    protocol: Protocol, pieces: Iterable[Piece], labels: Labels, place: str, assume_shuffled: bool
) -> tuple[SiteBatches | None, Seen | None]:
    """Algorithm 1: the vectors of whole batches, added up."""
    estimator = protocol.estimator(shuffle=not assume_shuffled)
    rows = [piece for piece in pieces if piece.X.shape[0]]
    if not rows:
        return None, None
    X = reduce(joined, [piece.X for piece in rows])
    signs = np.concatenate([labels.targets(np.asarray(piece.y)) for piece in rows])
    expected, intercept = n_vector(protocol), bool(estimator.fit_intercept)
    if expected is not None:
        _check_width(X, expected - intercept)
    plan = estimator.batch_plan(X.shape[1] + intercept)
    if signs.size < plan.batch_size:
        raise ReplearnError(
            f"{place} must have a whole batch of {plan.batch_size:,} rows for Algorithm 1, got "
            f"{signs.size:,}. Pool the rows with another site's, or plan a logistic study, whose "
            "sums are of any number of rows."
        )
    sums = estimator.in_memory(X, signs).sums(max_margin(plan), plan)
    counts = np.array([np.count_nonzero(signs < 0), np.count_nonzero(signs > 0)], dtype=np.int64)
    return SiteBatches(sums, signs.size, counts), total_seen(piece.seen for piece in rows)


def _checked(piece: Piece, n_features: int) -> Piece:
    _check_width(piece.X, n_features)
    return piece


def _check_width(X: Any, n_features: int) -> None:
    if X.shape[1] != n_features:
        raise ReplearnError(
            f"rows must have {n_features} features after encoding, as the protocol has, got "
            f"{X.shape[1]}. Use the columns it was made for."
        )


def _checked_name(site: str) -> str:
    try:
        return read_name(site)
    except Unfit as problem:
        raise ReplearnError(f"{problem}, got {site!r:.80}.") from None
