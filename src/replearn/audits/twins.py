"""Two fitted classifiers side by side: whether they are the same, and if not, how far apart."""

import hashlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.cells import runs
from replearn.codes.space import CodeSpace
from replearn.codes.walls import near_facets
from replearn.estimators.base import ReplicableClassifier
from replearn.types import Vector

_MOST_CODES = 4096  # codes that are followed one by one
_MOST_CELLS = 256  # cells whose walls are measured


@dataclass(frozen=True, eq=False)
class TestRows:
    """Rows on which two classifiers are compared."""

    X: Any
    y: NDArray[Any]
    for_figures: Any  # some of these rows, whose scores are kept


def labels_as_predicted(estimator: Any, y: Any) -> NDArray[Any]:
    """Labels as the classifier spells them, if a protocol says how."""
    final = _final(estimator)
    if isinstance(final, ReplicableClassifier) and final.agreed.classes is not None:
        return final.labels().values(y)
    return np.asarray(y)


def seed_names(estimator: Any) -> tuple[str, ...]:
    """Parameters that hold the seed: every ``shared_seed``, or else every ``random_state``.

    The steps of a pipeline are included, which share one seed (their streams have names).
    """
    parameters = estimator.get_params(deep=True)
    for wanted in ("shared_seed", "random_state"):
        names = tuple(sorted(n for n in parameters if n.split("__")[-1] == wanted))
        if names:
            return names
    return ()


def hint_bits(estimator: Any) -> int:
    """Bits that the first lab publishes about its sample; 0 if the hint is fixed already."""
    final = _final(estimator)
    published = getattr(final, "published", None)
    design = None if published is None else getattr(published, "design", None)
    bits = getattr(final, "hint_bits", 0) if design is None else design.space.hint_bits
    return int(bits) if getattr(final, "hint", None) is None else 0


def planned_rows(estimator: Any) -> int | None:
    """Rows per site that the protocol of an estimator counts on; None without a protocol."""
    published = getattr(_final(estimator), "published", None)
    if published is None:
        return None
    if published.design is not None:
        return int(published.design.samples_per_site)
    planned = (published.notes or {}).get("samples_per_site")
    return int(planned) if isinstance(planned, str) and planned.isdecimal() else None


def published_hint(first: Any) -> dict[str, int]:
    """Parameters by which a second lab takes the hint of the first; none without hint bits."""
    if hint_bits(first) == 0:
        return {}
    prefix = f"{first.steps[-1][0]}__" if hasattr(first, "steps") else ""
    return {f"{prefix}hint": int(_final(first).hint_)}


def how_compared(fitted: Any) -> str:
    """What has to be equal for two fitted classifiers to be the same, in words."""
    before = (
        "what the steps before the classifier make of the test rows, and "
        if _before(fitted) is not None
        else ""
    )
    final = _final(fitted)
    if hasattr(final, "fingerprint_"):
        return before + "the model's integer codes (by fingerprint)"
    if hasattr(final, "coef_"):
        return before + "all coefficients, bit by bit"
    return before + "the labels of all test rows"


def compare_twins(first: Any, second: Any, test_rows: TestRows) -> dict[str, Any]:
    """Facts about a pair, by the names of the fields of `replearn.audits.findings.Pair`."""
    labels = [np.asarray(one.predict(test_rows.X)) for one in (first, second)]
    same = _identity(first, test_rows, labels[0]) == _identity(second, test_rows, labels[1])
    angle, distance = _angle(_final(first), _final(second))
    certificate = getattr(_final(first), "certificate_", None)
    return {
        "same": same,
        "churn": float((labels[0] != labels[1]).mean()),
        "errors": tuple(float((predicted != test_rows.y).mean()) for predicted in labels),
        "angle": angle,
        "coefficient_distance": distance,
        **_cells(_final(first), _final(second)),
        "estimate": getattr(certificate, "estimated_disagreement", None),
        "scores": tuple(scores_of(one, test_rows.for_figures) for one in (first, second)),
    }


def scores_of(fitted: Any, X: Any) -> tuple[float, ...]:
    """Probabilities, or signed distances to the boundary, or labels as 0 and 1."""
    if hasattr(fitted, "predict_proba"):
        scores = fitted.predict_proba(X)[:, 1]
    elif hasattr(fitted, "decision_function"):
        normal = np.asarray(getattr(_final(fitted), "coef_", 1.0), dtype=np.float64)
        scores = fitted.decision_function(X) / (float(np.linalg.norm(normal)) or 1.0)
        if scores.ndim == 2:  # of more than two classes, those of the second one
            scores = scores[:, 1]
    else:
        scores = fitted.predict(X) == fitted.classes_[1]
    return tuple(float(f"{score:.4g}") for score in np.asarray(scores, dtype=np.float64))


def score_name(fitted: Any) -> str:
    """What ``scores_of`` gives, in words."""
    if hasattr(fitted, "predict_proba"):
        return "predicted probability"
    return "signed distance to the boundary" if hasattr(fitted, "decision_function") else "label"


def _final(fitted: Any) -> Any:
    return fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted


def _before(fitted: Any) -> Any:
    return fitted[:-1] if hasattr(fitted, "steps") and len(fitted.steps) > 1 else None


def _identity(fitted: Any, test_rows: TestRows, labels: NDArray[Any]) -> bytes:
    """Equal for equal models, and for no others."""
    digest = hashlib.sha256()
    if (before := _before(fitted)) is not None:
        made = before.transform(test_rows.X)
        made = made.toarray() if hasattr(made, "toarray") else np.asarray(made)
        digest.update(np.ascontiguousarray(made, dtype=np.float64).tobytes())
    final = _final(fitted)
    if hasattr(final, "fingerprint_"):
        digest.update(final.fingerprint_.encode())
    elif hasattr(final, "coef_"):
        digest.update(_vector(final).tobytes())
    else:
        digest.update(repr(labels.tolist()).encode())
    return digest.digest()


def _vector(final: Any) -> Vector:
    """Coefficients and intercept, one after the other."""
    parts = [np.asarray(final.coef_, dtype=np.float64).ravel()]
    if hasattr(final, "intercept_"):
        parts.append(np.asarray(final.intercept_, dtype=np.float64).ravel())
    return np.concatenate(parts)


def _angle(first: Any, second: Any) -> tuple[float | None, float | None]:
    """Angle in degrees, and distance at length 1; None without coefficients."""
    if not hasattr(first, "coef_"):
        return None, None
    left, right = _vector(first), _vector(second)
    if np.array_equal(left, right):
        return 0.0, 0.0
    lengths = float(np.linalg.norm(left)), float(np.linalg.norm(right))
    if left.size != right.size or min(lengths) == 0:
        return None, None
    distance = float(np.linalg.norm(left / lengths[0] - right / lengths[1]))
    return math.degrees(2 * math.asin(min(1.0, distance / 2))), distance


def _cells(first: Any, second: Any) -> dict[str, Any]:
    """Codes and cells that differ, and how near to a wall the first fit was in each cell."""
    blank: dict[str, Any] = {"changed": (), "n_codes": 0, "flipped": (), "walls": ()}
    model, other = getattr(first, "model_", None), getattr(second, "model_", None)
    if model is None or other is None or model.codes.size != other.codes.size:
        return blank
    differs = model.codes != other.codes
    changed = tuple(np.flatnonzero(differs[:_MOST_CODES]).tolist())
    found = {"changed": changed, "n_codes": min(differs.size, _MOST_CODES)}
    residual = getattr(first, "residual_", None)
    if residual is None or not isinstance(model.space, CodeSpace):  # a choice from a net
        return blank | found
    cells = list(itertools.islice(_blocks(model.space), _MOST_CELLS))
    flipped = [i for i, (_, where) in enumerate(cells) if differs[where].any()]
    walls = [round(_wall(name, residual[where]), 4) for name, where in cells]
    return found | {"flipped": tuple(flipped), "walls": tuple(walls)}


def _blocks(space: CodeSpace) -> Iterator[tuple[str, slice]]:
    """Name of each cell, and which codes are its own."""
    size = space.n_codes // space.n_outputs
    for output in range(space.n_outputs):
        for run in runs(space.rounding, space.n_components):
            for start in range(run.start, run.stop, run.cell.block):
                first = output * size + start
                yield run.name, slice(first, first + run.cell.block)


def _wall(name: str, cell: Vector) -> float:
    """Distance of a point of a cell to the nearest wall, in grid widths."""
    for reach in (0.1, 0.4, math.inf):  # few facets are near, and all of them are many
        slacks, _ = near_facets(name, np.ascontiguousarray(cell), reach)
        if slacks.size:
            return float(slacks.min())
    return math.inf
