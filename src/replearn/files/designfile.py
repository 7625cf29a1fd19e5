"""Published designs and code spaces of logistic studies, read strictly from JSON."""

from typing import Any

import numpy as np

from replearn.codes.basis import Basis
from replearn.codes.cells import is_rounding
from replearn.codes.decimals import Decimals, DecimalTable
from replearn.codes.design import Design
from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.score_space import ScoreSpace
from replearn.files.jsonfile import (
    MAX_WIDTH,
    Unfit,
    read_basis,
    read_decimal,
    read_integer,
    read_object,
    read_width,
)

#: Coded numbers of a model, at the most.
MAX_CODED = 256

_SPACE_KEYS = {
    "cap", "directions", "hint", "hint_bits", "lift", "rounding", "shrink", "start", "threshold",
}  # fmt: skip


def read_score_space(value: Any, n_features: int | None = None) -> ScoreSpace:
    """The code space of a logistic model; ``n_features`` if that is known."""
    content = read_object(value, "'space'", _SPACE_KEYS, optional={"target"})
    start = _decimals(content["start"], "start")
    q = len(start)
    if not 1 <= q <= MAX_CODED:
        raise Unfit(f"start must have 1 to {MAX_CODED} numbers")
    rounding = content["rounding"]
    if not isinstance(rounding, str) or not is_rounding(rounding):
        raise Unfit("rounding must be the name of cells, such as centre, e8 or d4+centre")
    directions = _directions(content["directions"], n_features)
    if q % (len(directions.rows) + 1):
        raise Unfit(
            f"the start must have {len(directions.rows) + 1} numbers for each class but the first, "
            f"one more than directions, got {q}"
        )
    shrink = _decimals(content["shrink"], "shrink", q)
    if not all(0 <= float(number) <= 1 for number in shrink):
        raise Unfit("shrink must hold numbers from 0 to 1")
    bits = read_integer(content["hint_bits"], "hint_bits", 0, MAX_HINT_BITS)
    return ScoreSpace(
        directions=directions,
        cap=read_width(content["cap"], "cap"),
        start=start,
        shrink=shrink,
        lift=_table(content["lift"], "lift", q),
        rounding=rounding,
        threshold=_decimals([content["threshold"]], "threshold")[0],
        hint_bits=bits,
        hint=read_integer(content["hint"], "hint", 0, (1 << bits) - 1),
        target=_target(content, q, len(directions.rows)),
    )


def _target(content: Any, q: int, k: int) -> Decimals:
    """Centre and width of the numbers of a linear regression; nothing, if there are classes."""
    if "target" not in content:
        return ()
    target = _decimals(content["target"], "target", 2)
    read_width(target[1], "the width of the target")
    if q != k + 1:
        raise Unfit(f"a regression must have a start of {k + 1} numbers, got {q}")
    if content["threshold"] != "0":
        raise Unfit("a regression must have the threshold 0")
    return target


def read_design(value: Any) -> Design:
    """What a logistic study publishes."""
    keys = {
        "curvature", "encode", "limits", "n_steps", "penalty", "pushes", "reach",
        "samples_per_site", "space", "spread",
    }  # fmt: skip
    content = read_object(value, "'design'", keys, optional={"class_weights"})
    space = read_score_space(content["space"])
    q, k = space.n_components, len(space.directions.rows)
    pushes = _decimals(content["pushes"], "pushes", k + 1)
    reach, spread = (_decimals(content[name], name, q) for name in ("reach", "spread"))
    if not all(float(number) > 0 for number in pushes + reach + spread):
        raise Unfit("pushes, reach and spread must hold positive numbers")
    limits = content["limits"]
    if not isinstance(limits, list) or len(limits) != k:
        raise Unfit(f"limits must be a list of {k} integers")
    return Design(
        space=space,
        encode=_table(content["encode"], "encode", q),
        curvature=_table(content["curvature"], "curvature", q),
        penalty=_table(content["penalty"], "penalty", q),
        n_steps=read_integer(content["n_steps"], "n_steps", 1, 100),
        limits=tuple(read_integer(limit, "a limit", -100, 100) for limit in limits),
        pushes=pushes,
        reach=reach,
        spread=spread,
        samples_per_site=read_integer(content["samples_per_site"], "samples_per_site", 1, 1 << 50),
        class_weights=read_class_weights(content.get("class_weights"), space.n_classes),
    )


def read_class_weights(value: Any, n_classes: int) -> Decimals:
    """Weights of classes, from 0 to 1; none if there is no value."""
    if value is None:
        return ()
    if n_classes == 0:
        raise Unfit("a regression must not have class_weights")
    weights = _decimals(value, "class_weights", n_classes)
    if not all(0 < float(weight) <= 1 for weight in weights):
        raise Unfit("class_weights must hold numbers from 0 to 1")
    return weights


def _directions(value: Any, n_features: int | None) -> Basis:
    if not isinstance(value, list):
        raise Unfit("directions must be a list of rows")
    if not value:  # an intercept alone
        if n_features is None:
            raise Unfit("directions must have at least one row")
        return Basis(np.empty((0, n_features), dtype=np.int64), ())
    return read_basis({"rows": value, "widths": ["1"] * len(value)}, n_features)


def _decimals(value: Any, name: str, size: int | None = None) -> Decimals:
    if not isinstance(value, list) or (size is not None and len(value) != size):
        raise Unfit(f"{name} must be a list of {size or 'some'} decimal numbers")
    texts = tuple(read_decimal(text, f"a number of {name}") for text in value)
    if not all(abs(float(text)) <= MAX_WIDTH for text in texts):  # squares stay finite
        raise Unfit(f"numbers of {name} must be at most {MAX_WIDTH:g}")
    return texts


def _table(value: Any, name: str, size: int) -> DecimalTable:
    if not isinstance(value, list) or len(value) != size:
        raise Unfit(f"{name} must be a list of {size} rows")
    return tuple(_decimals(row, name, size) for row in value)
