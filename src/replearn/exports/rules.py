"""What every export needs of a model: its halfspaces in numbers, and its names."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.codes.encoding import CategoryColumn
from replearn.codes.model import Model
from replearn.codes.score_space import ScoreSpace
from replearn.errors import ReplearnError
from replearn.types import Matrix, Vector


@dataclass(frozen=True, eq=False)
class Rule:
    """A model as numbers: the label is decided by the sign of a product, or by a vote of signs.

    There is one row of weights, or one for each vote of a majority, or for each of more than two
    classes, of which the largest product decides. Product and intercept of a logistic model are the
    log-odds of the second label minus ``threshold``, which is None for all others; of a regression
    they are the number that is predicted.
    """

    weights: Matrix
    intercepts: Vector
    names: tuple[str, ...]  # of the features, after encoding; x0, x1, ... if the model has none
    cap: float = math.inf  # longer rows are shortened to this length before the product
    threshold: float | None = None


def model_of(source: Any, large: bool = False) -> Model:
    """The model of a fitted classifier, or the model itself.

    One that is large must be asked for twice: a small file may declare a model whose export has
    gigabytes.
    """
    model = getattr(source, "model_", source)
    if not isinstance(model, Model):
        raise ReplearnError(
            "an export needs a Model or a fitted classifier of replearn, got "
            f"{type(source).__name__}. Call fit first, or load a model file."
        )
    if model is source and model.is_large and not large:
        raise ReplearnError(
            f"a model of {model.n_features:,} features and {model.codes.size:,} codes takes much "
            "time and memory to decode. Pass large=True (on the command line --large) if you trust "
            "its file."
        )
    return model


def rule_of(model: Model) -> Rule:
    """Numbers and names of a model that can be exported."""
    normals = model.halfspaces
    if len(normals) == 0:
        raise ReplearnError(
            "a majority of 0 halfspaces decides nothing and cannot be exported. Fit with more "
            "rows, or a smaller margin."
        )
    _check_categories(model)
    weights = normals[:, : model.n_features]
    intercepts = normals[:, -1] if model.fit_intercept else np.zeros(len(normals))
    if model.encoding is not None:
        names = model.encoding.output_names
    else:
        names = model.feature_names or tuple(f"x{i}" for i in range(model.n_features))
    if isinstance(model.space, ScoreSpace):
        cap, threshold = float(model.space.cap), float(model.space.threshold)
        return Rule(weights, intercepts, names, cap, None if model.is_numeric else threshold)
    return Rule(weights, intercepts, names)


def check_text(text: str, what: str, where: str) -> str:
    """A name or label that other programs can read: no NUL, no half of a UTF-16 pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        readable = False
    else:
        readable = "\0" not in text
    if not readable:
        raise ReplearnError(f"{what} must be plain text for {where}, got {text!r}. Rename it.")
    return text


def _check_categories(model: Model) -> None:
    for column in () if model.encoding is None else model.encoding.columns:
        if isinstance(column, CategoryColumn) and len(set(column.values)) < len(column.values):
            raise ReplearnError(
                f"categories of a column must differ for an export, got one of {column.name!r} "
                "twice. Repair the protocol and fit again."
            )
