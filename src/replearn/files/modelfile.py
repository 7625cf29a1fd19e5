"""Model files: canonical JSON, validated on load, no pickle. The format is docs/model-file.md."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from replearn.codes.basis import Basis
from replearn.codes.boost_space import BoostSpace
from replearn.codes.cells import CELLS, is_rounding
from replearn.codes.encoding import Encoding
from replearn.codes.hints import MAX_HINT_BITS
from replearn.codes.model import FORMAT, FORMAT_VERSION, Label, Model, Space
from replearn.codes.net_space import NetSpace
from replearn.codes.nets import NETS, lattice_size
from replearn.codes.projection import PROJECTIONS, map_draws
from replearn.codes.score_space import ScoreSpace
from replearn.codes.space import CodeSpace
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.designfile import read_score_space
from replearn.files.jsonfile import (
    MAX_CLASSES,
    Unfit,
    check_fingerprint,
    read_basis,
    read_classes,
    read_decimal,
    read_encoding,
    read_format,
    read_integer,
    read_json,
    read_object,
    read_text,
    read_width,
    write_json,
)
from replearn.plans.plan_boosting import MAX_FOAM_INPUTS, OUTPUTS
from replearn.plans.plan_boosting import ROUNDINGS as BOOST_ROUNDINGS

# Counts that a file merely declares are limited, so that a small file takes little memory and time:
# decoding takes some tens of bytes for each feature, and draws a number for each entry of a map.
MAX_FEATURES = 1 << 24
MAX_COMPONENTS = 1 << 20  # more only if there are as many inputs
MAX_DRAWS = 1 << 30
MAX_NET_DRAWS = 1 << 28  # a fit has the whole map in memory
MAX_ROUNDS = 1 << 20
MAX_CODE = 1 << 53


def save(
    model: Model,
    path: str | os.PathLike[str],
    provenance: Mapping[str, Any] | None = None,
    protocol: Mapping[str, Any] | None = None,
) -> None:
    """Write a model file, whole or not at all.

    Parameters
    ----------
    model : Model
        Of any algorithm.
    path : path
        By custom it ends in ``.model.json``.
    provenance : mapping, optional
        Facts about the run (rows, date, versions). Kept in the file, not part of the fingerprint.
    protocol : mapping, optional
        Content of the study's protocol, so that others can repeat it on their rows. Likewise.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.model.json")
    ...     rl.save(fitted.model_, path, provenance={"rows": 2000})
    ...     print(path.read_text()[:1])
    {
    """
    content: dict[str, Any] = {
        "feature_names": None if model.feature_names is None else list(model.feature_names),
        "fingerprint": model.fingerprint,
        "model": model.content(),
        "provenance": dict(provenance or {}),
    }
    if protocol is not None:
        content["protocol"] = dict(protocol)
    write_json(path, content)


def load(path: str | os.PathLike[str]) -> Model:
    """Read and check a model file.

    Parameters
    ----------
    path : path
        Of a file that `save` or the command line wrote.

    Returns
    -------
    Model
        The integers and names of the file; nothing is executed.

    Raises
    ------
    InvalidFile
        If the file is not a whole, consistent model of a known format.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.model.json")
    ...     rl.save(fitted.model_, path)
    ...     print(rl.load(path).fingerprint == fitted.fingerprint_)
    True
    """
    document = read_json(path)
    _expect_keys(document, {"feature_names", "fingerprint", "model", "provenance"}, path)
    try:
        model = _model(document["model"], document["feature_names"])
        for name in ("provenance", "protocol"):
            if not isinstance(document.get(name, {}), dict):
                raise Unfit(f"{name} must be an object")
    except Unfit as problem:
        raise InvalidFile(f"{path} is not a valid model file: {problem}.") from None
    check_fingerprint(document, model.fingerprint, path)
    return model


def _expect_keys(document: Mapping[str, Any], keys: set[str], path: object) -> None:
    found = set(document) - {"protocol"}  # which may be left out
    if found != keys:
        odd = sorted(found ^ keys)[0][:64]
        word = "lacks" if odd in keys else "has the unknown key"
        raise InvalidFile(f"{path} {word} {odd!r}. Is it a model file of this version of replearn?")


def _model(content: Any, feature_names: Any) -> Model:
    keys = {
        "classes", "codes", "fit_intercept", "format", "n_features", "recipe", "seed", "space",
        "version",
    }  # fmt: skip
    read_object(content, "'model'", keys, optional={"encoding"})
    version = read_format(content, FORMAT, FORMAT_VERSION)
    n_features = read_integer(content["n_features"], "n_features", 1, MAX_FEATURES)
    fit_intercept = content["fit_intercept"]
    if not isinstance(fit_intercept, bool):
        raise Unfit("fit_intercept must be true or false")
    space = _space(content["space"], n_features + fit_intercept)
    encoding = _encoding(content.get("encoding"), n_features)
    model = Model(
        recipe=read_text(content["recipe"], "recipe"),
        n_features=n_features,
        fit_intercept=fit_intercept,
        space=space,
        seed=read_text(content["seed"], "seed"),
        classes=_classes(content["classes"], space),
        codes=_codes(content["codes"], space),
        feature_names=_names(feature_names, n_features, encoding),
        encoding=encoding,
    )
    if version != model.format_version:
        raise Unfit(f"a model of this kind has version {model.format_version}, got {version}")
    return model


def _classes(value: Any, space: Space) -> tuple[Label, ...]:
    """As many labels as the codes tell apart."""
    n_classes = 2
    if isinstance(space, ScoreSpace):
        n_classes = space.n_classes
    elif isinstance(space, CodeSpace) and space.n_outputs > 1:
        n_classes = space.n_outputs
    if n_classes == 2:
        return read_classes(value, most=2)
    if n_classes == 0:  # it predicts numbers
        if value != []:
            raise Unfit("a regression must have no classes")
        return ()
    classes = read_classes(value)
    if len(classes) != n_classes:
        raise Unfit(f"there must be {n_classes} classes, as in the space, got {len(classes)}")
    return classes


def _encoding(content: Any, n_features: int) -> Encoding | None:
    encoding = None if content is None else read_encoding(content)
    if encoding is not None and encoding.n_outputs != n_features:
        raise Unfit(f"the encoding makes {encoding.n_outputs} features, the model has {n_features}")
    return encoding


def _space(content: Any, n_inputs: int) -> Space:
    if isinstance(content, dict) and "net" in content:
        return _net_space(content, n_inputs)
    if isinstance(content, dict) and "boosting" in content:
        return _boost_space(content, n_inputs)
    if isinstance(content, dict) and "lift" in content:
        return read_score_space(content, n_inputs - 1)
    keys = {"grid_width", "n_components", "projection", "rounding"}
    optional = {"basis", "hint", "hint_bits", "n_outputs"}
    read_object(content, "'space'", keys, optional=optional)
    _one_of(content, "projection", _projections(content))
    if not is_rounding(content["rounding"]):
        raise Unfit(f"rounding must be one of {', '.join(CELLS)}, or several joined by +")
    n_components, basis = _components(content, n_inputs)
    width = read_width(content["grid_width"], "grid_width")
    return _not_too_large(
        CodeSpace(
            n_inputs,
            content["projection"],
            n_components,
            content["rounding"],
            width,
            basis,
            *_hint(content),
            _n_outputs(content),
        )
    )


def _n_outputs(content: dict[str, Any]) -> int:
    """Halfspaces of a code space; models of two classes do not mention them."""
    if "n_outputs" not in content:
        return 1
    return read_integer(content["n_outputs"], "n_outputs", 3, MAX_CLASSES)


def _hint(content: dict[str, Any]) -> tuple[int, int]:
    """Hint bits and the hint of a code space; models without hints do not mention them."""
    given = {"hint", "hint_bits"} & set(content)
    if not given:
        return 0, 0
    if len(given) == 1:
        raise Unfit("'space' must have both hint and hint_bits, or none of them")
    bits = read_integer(content["hint_bits"], "hint_bits", 1, MAX_HINT_BITS)
    return bits, read_integer(content["hint"], "hint", 0, (1 << bits) - 1)


def _net_space(content: dict[str, Any], n_inputs: int) -> NetSpace:
    lattice = content["net"] == "lattice"
    keys = {"n_candidates", "n_components", "net", "projection"}
    read_object(content, "'space'", keys | {"radius"} if lattice else keys, optional={"basis"})
    _one_of(content, "net", NETS)
    _one_of(content, "projection", _projections(content))
    n_components, basis = _components(content, n_inputs)
    n_candidates = read_integer(content["n_candidates"], "n_candidates", 1, MAX_CODE)
    radius = ""
    if lattice:
        radius = read_decimal(content["radius"], "radius", 1e-9)
        try:
            n_points = lattice_size(n_components, radius)
        except ReplearnError as problem:
            raise Unfit(str(problem)) from None
        if n_candidates != n_points:
            raise Unfit(f"n_candidates must be {n_points}, the size of this lattice net")
    return _not_too_large(
        NetSpace(
            n_inputs,
            content["projection"],
            n_components,
            content["net"],
            n_candidates,
            radius,
            basis,
        )
    )


def _boost_space(content: dict[str, Any], n_inputs: int) -> BoostSpace:
    read_object(content, "'space'", {"boosting", "grid_width", "n_rounds", "output"})
    _one_of(content, "boosting", BOOST_ROUNDINGS)
    _one_of(content, "output", OUTPUTS)
    if content["boosting"] == "foam" and n_inputs > MAX_FOAM_INPUTS:
        raise Unfit(f"foam takes at most {MAX_FOAM_INPUTS} inputs")
    n_rounds = read_integer(content["n_rounds"], "n_rounds", 0, MAX_ROUNDS)
    width = read_width(content["grid_width"], "grid_width")
    return BoostSpace(n_inputs, content["boosting"], width, n_rounds, content["output"])


def _one_of(content: dict[str, Any], name: str, known: Iterable[str]) -> None:
    """Refuse a name that is none of the known ones."""
    if content[name] not in list(known):
        raise Unfit(f"{name} must be one of {', '.join(known)}")


def _projections(content: dict[str, Any]) -> Iterable[str]:
    return ["published"] if "basis" in content else PROJECTIONS


def _components(content: dict[str, Any], n_inputs: int) -> tuple[int, Basis | None]:
    """The number of components, which the projection must allow, and published directions."""
    n_components = read_integer(content["n_components"], "n_components", 1, MAX_FEATURES + 1)
    basis, projection = None, content["projection"]
    if "basis" in content:
        basis = read_basis(content["basis"], n_inputs)
        allowed = n_components == len(basis.widths)
    elif PROJECTIONS[projection].full:
        allowed = n_components == n_inputs
    else:
        allowed = n_components <= n_inputs or projection != "hadamard"
    if not allowed:
        raise Unfit(f"n_components is {n_components} for {n_inputs} inputs")
    return n_components, basis


def too_large(
    n_inputs: int, projection: str, n_components: int, of_net: bool, n_outputs: int = 1
) -> str | None:
    """What is too large about a code space, in words; None if nothing is.

    A fit asks this before its work, so that every model that is fitted can be loaded.
    """
    if n_outputs * n_inputs > MAX_FEATURES + n_outputs:
        return f"n_features must be at most {MAX_FEATURES // n_outputs:,}"
    most = max(MAX_COMPONENTS, n_inputs)
    if n_components > most:
        return f"n_components must be at most {most:,}"
    draws = n_outputs * map_draws(projection, n_inputs, n_components)
    limit = MAX_DRAWS
    if of_net:
        draws, limit = n_inputs * n_components, MAX_NET_DRAWS
    if draws > limit:
        return f"a map of {n_inputs:,} inputs to {n_components:,} components is too large"
    return None


_Space = TypeVar("_Space", CodeSpace, NetSpace)


def _not_too_large(space: _Space) -> _Space:
    of_net = isinstance(space, NetSpace)
    n_outputs = space.n_outputs if isinstance(space, CodeSpace) else 1
    problem = too_large(space.n_inputs, space.projection, space.n_components, of_net, n_outputs)
    if problem is not None:
        raise Unfit(problem)
    return space


def _codes(value: Any, space: Space) -> np.ndarray[Any, np.dtype[np.int64]]:
    if not isinstance(value, list) or len(value) != space.n_codes:
        raise Unfit(f"codes must be a list of {space.n_codes:,} integers")
    if not all(type(code) is int and -MAX_CODE <= code <= MAX_CODE for code in value):
        raise Unfit("codes must be integers of at most 2^53")
    if isinstance(space, NetSpace) and not 0 <= value[0] < space.n_candidates:
        raise Unfit(f"the code must be the index of one of {space.n_candidates:,} candidates")
    if isinstance(space, BoostSpace) and space.rounding == "foam":
        proposals = value[:: space.codes_per_round]
        if any(proposal < 0 for proposal in proposals):
            raise Unfit("the first code of a round of foam must be the number of a proposal")
    return np.array(value, dtype=np.int64)


def _names(value: Any, n_features: int, encoding: Encoding | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != n_features:
        raise Unfit(f"feature_names must be null or a list of {n_features:,} strings")
    names = tuple(read_text(name, "a feature name") for name in value)
    if encoding is None and len(set(names)) < n_features:  # a table is read by them
        raise Unfit("feature_names must differ from each other")
    if encoding is not None and names != encoding.output_names:
        raise Unfit("feature_names must be null or those of the encoding")
    return names
