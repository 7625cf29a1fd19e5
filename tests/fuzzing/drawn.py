"""Input that hypothesis draws."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import replearn as rl
from replearn.coalitions.site_sums import SiteSums
from replearn.sources import read_columns
from replearn.study.protocol import Protocol
from tests.fuzzing.choices import choice_documents, sealed_choice, use_choice, use_choice_protocol
from tests.fuzzing.coalitions import study_of, sum_documents, use_sums
from tests.fuzzing.estimators import ESTIMATORS, VALUES, usual
from tests.fuzzing.garbling import ODD_VALUES, hashed, json_text, sealed
from tests.fuzzing.judging import require
from tests.fuzzing.models import model_documents, use_model
from tests.fuzzing.protocols import (
    protocol_documents,
    rows_for,
    with_public_seed,
)
from tests.fuzzing.samples import outcome, use_estimator
from tests.fuzzing.tables import ODD_CELLS, fitted_both_ways, use_columns


def _json_trees() -> st.SearchStrategy[Any]:
    """Any JSON, with keys and values that files of ours have."""
    words = st.sampled_from(
        sorted({word for document in model_documents() for word in _words(document)})
    )
    leaves = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), words,
        st.sampled_from(ODD_VALUES),
    )  # fmt: skip
    keys = st.one_of(words, st.text(max_size=4))
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=6),
        max_leaves=12,
    )


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _words(item)
    elif isinstance(value, list):
        for item in value[:20]:
            yield from _words(item)


def _grafted(documents: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """Valid documents, a part of which is another tree."""
    parts = [
        (document, where)
        for document in documents
        for where in [(), *_paths(document), *_paths(document)]
    ]
    changed = st.tuples(st.sampled_from(parts), _json_trees()).map(
        lambda drawn: _graft(*drawn[0], drawn[1])
    )
    return st.one_of(*[changed] * 7, st.sampled_from(documents))  # now and then, nothing is odd


def _paths(document: Any) -> list[tuple[str, ...]]:
    inner = [
        (key, *where)
        for key, value in document.items()
        if isinstance(value, dict)
        for where in _paths(value)
    ]
    return [(key,) for key in document] + inner


def _graft(document: Any, where: tuple[str, ...], tree: Any) -> Any:
    if not where:
        return tree
    return document | {where[0]: _graft(document[where[0]], where[1:], tree)}


def _with_one_odd(good: Any, odd: Any, n_rows: int, join: Callable[[Any], bytes]) -> Any:
    """Good rows, into which perhaps a few odd ones are put."""
    rows = st.lists(good, min_size=2, max_size=n_rows)
    some = st.lists(st.tuples(st.integers(0, n_rows), odd), max_size=2)

    def together(drawn: tuple[list[Any], list[tuple[int, Any]]]) -> bytes:
        lines = list(drawn[0])
        for at, line in drawn[1]:
            lines.insert(at, line)
        return join(lines)

    return st.tuples(rows, some).map(together)


_SMALL = st.floats(-100, 100, allow_nan=False).map(repr)


def _table_texts() -> st.SearchStrategy[bytes]:
    odd = _SMALL | st.floats().map(repr) | st.sampled_from(ODD_CELLS) | st.text(max_size=5)
    label = st.sampled_from(["0", "1"])
    good = st.tuples(_SMALL, _SMALL, label).map(",".join)
    bad = st.lists(odd, min_size=2, max_size=4).map(",".join)

    def text(head: str, end: str) -> Any:
        return _with_one_odd(
            good, bad, 20, lambda lines: end.join([head, *lines]).encode("utf-8", "replace")
        )

    heads = st.sampled_from(["a,b,label"] * 6 + ["a,label", "label,a,b", "a,b,label,label", ""])
    return st.tuples(heads, st.sampled_from(["\n", "\r\n", "\r"])).flatmap(lambda t: text(*t))


def _sparse_texts() -> st.SearchStrategy[bytes]:
    label = st.sampled_from(["1", "-1"])
    cells = st.dictionaries(st.integers(1, 9), _SMALL, max_size=4)
    good = st.tuples(label, cells).map(
        lambda t: " ".join([t[0], *(f"{i}:{v}" for i, v in sorted(t[1].items()))])
    )
    pair = st.tuples(st.integers(), st.floats()).map(lambda p: f"{p[0]}:{p[1]!r}")
    token = pair | st.text(max_size=4) | st.sampled_from(["qid:1", "#", "1:1", "2:0.5", "3:-1"])
    bad = st.tuples(
        st.sampled_from(["1", "-1", "+1", "1.5", "nan", "x", ""]), st.lists(token, max_size=4)
    )
    odd = bad.map(lambda t: " ".join([t[0], *t[1]]))
    return _with_one_odd(good, odd, 20, lambda lines: "\n".join(lines).encode("utf-8", "replace"))


def _drawn_rows() -> st.SearchStrategy[Any]:
    kinds = st.sampled_from(
        [np.float64] * 4 + [np.float32, np.int64, np.int8, np.bool_, np.float16, object]
    )

    def of_kind(kind: Any) -> st.SearchStrategy[Any]:
        if kind is object:
            return st.lists(
                st.lists(st.floats() | st.none() | st.text(max_size=2), max_size=3), max_size=9
            )
        shapes = hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=24)
        tame = hnp.arrays(
            kind,
            shapes,
            elements={"allow_nan": False, "allow_infinity": False}
            if kind in (np.float64, np.float32, np.float16)
            else None,
        )
        return tame | tame | hnp.arrays(kind, shapes)

    return kinds.flatmap(of_kind)


def _drawn_labels() -> st.SearchStrategy[Any]:
    pairs = [
        (0, 1),
        (-1, 1),
        ("a", "b"),
        (True, False),
        (0.0, 2.0),
        ("", "é"),
        (1, "1"),
        (None, 1),
        (2**60, 3),
    ]
    return st.sampled_from(pairs).flatmap(
        lambda pair: st.lists(st.sampled_from(pair), max_size=22).map(lambda rest: [*pair, *rest])
    )


def _drawn_estimators() -> st.SearchStrategy[Any]:
    def with_parameters(kind: Any) -> st.SearchStrategy[Any]:
        values = {name: st.sampled_from(VALUES[name]) for name in kind().get_params()}
        few = st.lists(st.sampled_from(sorted(values)), max_size=2, unique=True)
        return few.flatmap(
            lambda names: st.tuples(
                st.just(kind), st.fixed_dictionaries({n: values[n] for n in names})
            )
        )

    return st.sampled_from(ESTIMATORS).flatmap(with_parameters)


def _use_json(
    load: Callable[[Path], Any], seal: Callable[[Any], Any], use: Callable[[Any, Path], None]
) -> Any:
    def case(document: Any, folder: Path) -> None:
        path = folder / "drawn.json"
        path.write_bytes(json_text(seal(document)).encode("utf-8", "surrogatepass"))
        use(load(path), folder)

    return case


def _use_sums(document: Any, folder: Path) -> None:
    path = folder / "drawn.json"
    path.write_bytes(json_text(hashed(document)).encode("utf-8", "surrogatepass"))
    protocol = study_of("batches" if "batches" in json_text(document) else "alone")
    use_sums(protocol, [SiteSums.load(path, protocol)], None, folder)


def _use_text(name: str, target: str | None) -> Any:
    def case(content: bytes, folder: Path) -> None:
        (folder / name).write_bytes(content)
        outcome(lambda: use_columns(read_columns(folder / name, target)))
        fitted_both_ways(folder / name, target)

    return case


def _use_protocol(protocol: Protocol, folder: Path) -> None:
    rows, y = rows_for(protocol)
    require(len(protocol.fingerprint) == 64, "no fingerprint")
    use_estimator(protocol.estimator(n_jobs=1), rows, y, folder)


def _use_drawn_estimator(drawn: Any, folder: Path) -> None:
    X, labels, (kind, parameters) = drawn
    n_rows = len(X)
    y = np.resize(np.array(labels or [0], dtype=object), n_rows).tolist()
    narrow = X if parameters.get("rounding") != "foam" or np.ndim(X) != 2 else X[:, :8]
    use_estimator(kind(**usual(kind) | parameters), narrow, y, folder)


#: What hypothesis draws, by target: a function that makes the strategy, and what uses a draw.
DRAWN: dict[str, tuple[Callable[[], st.SearchStrategy[Any]], Callable[[Any, Path], object]]] = {
    "drawn model file": (
        lambda: _grafted(model_documents()),
        _use_json(rl.load, sealed, use_model),
    ),
    "drawn protocol file": (
        lambda: _grafted(protocol_documents()),
        _use_json(Protocol.load, with_public_seed, _use_protocol),
    ),
    "drawn sums": (
        lambda: _grafted((sum_documents()["alone"][0], sum_documents()["batches"][0])),
        _use_sums,
    ),
    "drawn choice protocol": (
        lambda: _grafted(choice_documents()[0]),
        _use_json(rl.ChoiceProtocol.load, with_public_seed, use_choice_protocol),
    ),
    "drawn choice file": (
        lambda: _grafted(choice_documents()[1]),
        _use_json(rl.load_choice, sealed_choice, use_choice),
    ),
    "drawn csv": (_table_texts, _use_text("a.csv", "label")),
    "drawn svmlight": (_sparse_texts, _use_text("a.svm", None)),
    "drawn estimators": (
        lambda: st.tuples(_drawn_rows(), _drawn_labels(), _drawn_estimators()),
        _use_drawn_estimator,
    ),
}
