"""What is refused before any work: parameters of the wrong kind, models that no file could hold."""

import math
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from replearn.codes.cells import CELLS, is_rounding
from replearn.codes.decimals import Decimals, decimals
from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.model import Label
from replearn.codes.published import Published
from replearn.errors import ReplearnError, short
from replearn.files.jsonfile import MAX_WIDTH, MIN_WIDTH, Unfit, read_classes, read_text
from replearn.files.modelfile import MAX_ROUNDS, too_large
from replearn.plans.plan_rows import RowPlan
from replearn.plans.sizes import BatchPlan, NetPlan, Plan

AnyPlan = TypeVar("AnyPlan", bound=Plan)

_FLAGS = ("fit_intercept", "shuffle", "agnostic")

#: Constants of paper mode, beyond which sizes are no numbers any more.
_SMALLEST_CONSTANT, _LARGEST_CONSTANT = 1e-12, 1e12

#: Of a model whose codes are weights: its file has 256 numbers, one of them the intercept.
_MOST_DIRECTIONS = 255


def refuse_odd_parameters(parameters: dict[str, Any]) -> None:
    """Refuse values of the wrong kind; numbers and names are checked where they are read."""
    for name in _FLAGS:
        value = parameters.get(name, False)
        if not isinstance(value, bool | np.bool_ | int | np.integer) or value not in (0, 1):
            raise ReplearnError(f"{name} must be True or False, got {short(value)}.")
    fresh = parameters.get("fresh_rows", "auto")
    if not isinstance(fresh, bool) and not (isinstance(fresh, str) and fresh == "auto"):
        raise ReplearnError(f'fresh_rows must be True, False or "auto", got {short(fresh)}.')
    _check_published(parameters.get("published"))
    _check_constants(parameters.get("constants"))
    for name in ("net", "calibration", "sampling", "output", "mode"):
        if not isinstance(parameters.get(name, ""), str):
            raise ReplearnError(f"{name} must be a name, got {short(parameters[name])}.")
    n_rounds = parameters.get("n_rounds")
    if isinstance(n_rounds, int | np.integer) and n_rounds > MAX_ROUNDS:
        raise ReplearnError(f"n_rounds must be at most {MAX_ROUNDS:,}, got {short(n_rounds)}.")


def _check_published(published: Any) -> None:
    if published is None:
        return
    if not isinstance(published, Published):
        raise ReplearnError(
            f"published must be None or a Published, got {short(published)}. Take it from a "
            "protocol: Protocol.load(path).estimator()."
        )
    if published.classes is not None:
        refuse_unwritable(published.classes, None)


def _check_constants(constants: Any) -> None:
    if constants is None:
        return
    if not isinstance(constants, dict) or not all(isinstance(name, str) for name in constants):
        raise ReplearnError(
            f"constants must be None or a dict from names to numbers, got {short(constants)}."
        )
    for name, value in constants.items():
        positive = isinstance(value, int | float) and 0 < value < math.inf  # else told elsewhere
        if positive and not _SMALLEST_CONSTANT <= value <= _LARGEST_CONSTANT:
            raise ReplearnError(
                f"constants[{name!r}] must be from {_SMALLEST_CONSTANT:g} to "
                f"{_LARGEST_CONSTANT:g}, got {short(value)}. The default is 1."
            )


def refuse_large(plan: AnyPlan) -> AnyPlan:
    """Refuse a code space whose model no file could hold, before any work."""
    if isinstance(plan, BatchPlan | NetPlan | RowPlan):
        of_net = isinstance(plan, NetPlan)
        n_outputs = plan.n_outputs if isinstance(plan, BatchPlan) else 1
        problem = too_large(plan.n_inputs, plan.projection, plan.n_components, of_net, n_outputs)
    else:
        problem = too_large(plan.n_inputs, "none", plan.n_inputs, False)
    if problem is not None:
        raise ReplearnError(
            f'{problem}. Use fewer components, projection="hadamard", or fewer features.'
        )
    return plan


def refuse_unwritable(labels: tuple[Label, ...] | None, names: Iterable[str] | None) -> None:
    """Refuse labels and names that a model file could not hold, before any work."""
    try:
        if labels is not None:
            read_classes(list(labels))
        for name in () if names is None else names:
            read_text(name, "the name of a column")
    except Unfit as problem:
        raise ReplearnError(f"{problem}: a model file must hold it. Rename it.") from None


# --- weights of classes -------------------------------------------------------------------------


def class_factors(class_weight: Any, classes: Iterable[Any]) -> Decimals:
    """Published weights of the classes: decimal numbers, the largest 1; none: all the same.

    ``class_weight`` is a dict from labels to positive numbers; labels not in it weigh 1.
    """
    if class_weight is None:
        return ()
    if isinstance(class_weight, str) and class_weight == "balanced":
        raise ReplearnError(
            'class_weight="balanced" would be read off the rows of one lab, and another lab would '
            "weigh differently. Publish numbers: pass a dict, such as {0: 1, 1: 9}, or plan with "
            'plan_from_pilot(..., class_weight="balanced").'
        )
    labels = list(classes)
    if not isinstance(class_weight, dict):
        raise ReplearnError(
            "class_weight must be None or a dict from labels to numbers, got "
            f"{short(class_weight)}."
        )
    known = {_plain(label) for label in labels}
    weights = {_plain(label): weight for label, weight in class_weight.items()}
    for label, weight in weights.items():
        if label not in known:
            raise ReplearnError(
                f"class_weight must weigh the labels {short(labels)}, got {short(label)}."
            )
        number = isinstance(weight, int | float | np.integer | np.floating)
        if not number or isinstance(weight, bool) or not 0 < weight <= sys.float_info.max:
            raise ReplearnError(
                f"class_weight[{short(label)}] must be a positive number, got {short(weight)}."
            )
    found = np.array([float(weights.get(_plain(label), 1.0)) for label in labels])
    relative = found / found.max()
    if (relative < _SMALLEST_CONSTANT).any():
        raise ReplearnError("class_weight must have ratios of at most 1e12, got a larger one.")
    return () if (relative == 1).all() else decimals(relative)


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


# --- sizes that are set by hand ---------------------------------------------------------------


def whole_or_auto(value: Any, name: str) -> int | None:
    """A positive integer, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ReplearnError(f'{name} must be "auto" or a positive integer, got {value!r}.')
    return int(value)


def directions_or_auto(value: Any, n_features: int) -> int | None:
    """``n_components``, not more than there are features or than a model file holds; or None."""
    k = whole_or_auto(value, "n_components")
    most = min(n_features, _MOST_DIRECTIONS)
    if k is not None and k > most:
        raise ReplearnError(
            f"n_components must be at most {most:,} for {n_features:,} features, got "
            f'{short(value)}. Leave it at "auto".'
        )
    return k


def real_or_auto(value: Any, name: str, *, zero_allowed: bool = False) -> float | None:
    """A positive number (or 0, if that is allowed), or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    number = isinstance(value, int | float | np.integer | np.floating)
    value = float(value) if isinstance(value, np.floating) else value
    positive = number and not isinstance(value, bool) and 0 < value < np.inf
    if not positive and not (zero_allowed and number and value == 0):
        what = "a number of at least 0" if zero_allowed else "a positive number"
        raise ReplearnError(f'{name} must be "auto" or {what}, got {short(value)}.')
    if positive and not MIN_WIDTH <= value <= MAX_WIDTH:
        raise ReplearnError(
            f"{name} must be from {MIN_WIDTH:g} to {MAX_WIDTH:g}, got {short(value)}. Scale it."
        )
    return float(value)


def choice_or_auto(value: Any, name: str, known: Iterable[str]) -> str | None:
    """One of the known names, or None for "auto"."""
    if isinstance(value, str) and value == "auto":
        return None
    if not isinstance(value, str) or value not in known:
        raise ReplearnError(f'{name} must be "auto" or one of {", ".join(known)}, got {value!r}.')
    return str(value)


def rounding_or_auto(value: Any) -> str | None:
    """A rounding, which may join several by "+", "best", or None for "auto"."""
    if isinstance(value, str) and is_rounding(value):
        return str(value)
    return choice_or_auto(value, "rounding", [*CELLS, "best"])


def check_whole(value: Any, name: str, low: int, high: int) -> None:
    """Refuse what is no integer in this range."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise ReplearnError(f"{name} must be an integer from {low} to {high:,}, got {value!r}.")


def check_hint(bits: Any, hint: Any) -> None:
    """Refuse numbers of hint bits, and hints, that there cannot be."""
    check_whole(bits, "hint_bits", 0, MAX_HINT_BITS)
    if hint is None:
        return
    if bits == 0:
        raise ReplearnError(
            f"hint needs hint bits, got hint={hint!r} and none. Leave it out, or use the protocol "
            "that the hint belongs to."
        )
    check_whole(hint, "hint", 0, (1 << bits) - 1)
