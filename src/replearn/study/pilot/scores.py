"""Published scores as directions: tables of coefficients, or models."""

import csv
import itertools
import os
from collections.abc import Mapping, Sequence

import numpy as np

from replearn.codes.encoding import CategoryColumn, Encoding
from replearn.codes.model import Model
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.jsonfile import require_regular
from replearn.files.modelfile import MAX_FEATURES
from replearn.types import Matrix, Vector

#: Weights of columns (or of ``column=value`` for a category), or a model of replearn.
PublishedScore = Mapping[str, float] | Model


def score_directions(scores: Sequence[PublishedScore], encoding: Encoding) -> Matrix:
    """Published scores as directions of the encoded columns, one in each row.

    A score that gives a column the weight w gives the encoded column w times its scale.
    """
    rows = [_direction(score, encoding) for score in scores]
    return np.array(rows).reshape(-1, encoding.n_outputs)


def _direction(score: PublishedScore, encoding: Encoding) -> Vector:
    names = encoding.output_names
    if isinstance(score, Model):
        if score.feature_names is None:
            raise ReplearnError(
                "a published score must name its columns, got a model without feature names. "
                "Pass a table of column and weight."
            )
        weights = score.coef
        if score.encoding is not None:
            weights = weights / output_scales(score.encoding)
        score = dict(zip(score.feature_names, weights.tolist(), strict=True))
    unknown = sorted(set(score) - set(names))
    if unknown:
        raise ReplearnError(
            f"a published score must weigh columns of the pilot, got {unknown[0]!r}. The columns "
            f"are {', '.join(map(repr, names[:8]))}{' ...' if len(names) > 8 else ''}."
        )
    scales = output_scales(encoding)
    scaled = np.array([float(score.get(name, 0.0)) for name in names]) * scales
    length = float(np.linalg.norm(scaled))
    if not np.isfinite(length) or length == 0:
        raise ReplearnError(
            "a published score must have finite weights that are not all 0. Check its table."
        )
    return np.asarray(scaled / length)


def output_scales(encoding: Encoding) -> Vector:
    """What one unit of each raw column is divided by."""
    scales: list[float] = []
    for column in encoding.columns:
        if isinstance(column, CategoryColumn):
            scales += (1 / column.heights).tolist()
        else:
            scales.append(float(column.scale))
    return np.array(scales)


def read_score_table(path: str | os.PathLike[str]) -> dict[str, float]:
    """A published score from a CSV file with the header ``column,weight``."""
    require_regular(path)
    with open(path, encoding="utf-8", newline="") as file:
        try:
            rows = list(itertools.islice(csv.reader(file), MAX_FEATURES + 2))
        except (csv.Error, UnicodeDecodeError) as problem:
            raise InvalidFile(f"{path} is not a CSV file: {problem}.") from None
    rows = [row for row in rows if row]
    header = [name.strip().lower() for name in rows[0]] if rows else []
    if header != ["column", "weight"] or any(len(row) != 2 for row in rows):
        raise InvalidFile(
            f"{path} must have the header column,weight and two cells in each row, got the header "
            f"{','.join(header)[:60]!r}. Leave out the intercept: sites decide it."
        )
    if len(rows) > MAX_FEATURES + 1:
        raise InvalidFile(f"{path} must have at most {MAX_FEATURES:,} rows.")
    found: dict[str, float] = {}
    for column, weight in rows[1:]:
        if column in found:
            raise ReplearnError(f"column {column!r} stands twice in a published score.")
        try:
            found[column] = float(weight)
        except ValueError:
            raise ReplearnError(
                f"the weight of {column!r} must be a number, got {weight!r}."
            ) from None
    return found
