"""What hostile input is thrown at: one case function for each way into the library."""

import contextlib
import gzip
import hashlib
import io
import json
import os
import random
import re
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import replearn as rl
from replearn.codes.encoding import CategoryColumn
from replearn.codes.model import Model
from replearn.datasets import make_margin
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.fits.file_fit import fit_file
from replearn.sources import open_source, read_columns, read_table
from replearn.study.commitments import Opening, load_commitment, reveal, save_commitment
from replearn.study.protocol import Protocol
from tests.fuzzing import (
    ODD_VALUES,
    Case,
    hostile_json,
    json_text,
    must,
    mutated_bytes,
    mutated_json,
    require,
    sealed,
    some_bytes,
)

X, Y = make_margin(300, 3, margin=0.3, random_state=0)


def quiet_fit(estimator: Any, X: Any, y: Any) -> Any:
    """Fit without the warnings that so few rows deserve."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        warnings.simplefilter("ignore", rl.UselessModelWarning)
        return estimator.fit(X, y)


def small_svm(**parameters: Any) -> Any:
    """A classifier that learns from a few rows at once."""
    given = {"margin": 0.3, "batch_size": 8, "n_jobs": 1}
    return rl.ReplicableSVMClassifier(**given | parameters)


# --- model files --------------------------------------------------------------------------------


@cache
def model_documents() -> tuple[Any, ...]:
    """Valid files of every algorithm, as JSON."""
    small = {"margin": 0.3, "max_error": 0.2, "n_jobs": 1}
    frame = dict(zip(("age", "größe", "x"), X.T, strict=True))
    estimators = [
        rl.ReplicableSVMClassifier(**small),
        rl.ReplicableSVMClassifier(**small, projection="gaussian", n_components=9, rounding="e8"),
        rl.ReplicableSVMClassifier(**small, projection="hadamard", rounding="ak"),
        rl.ReplicableSVMClassifier(**small, projection="signs", n_components=5, rounding="centre"),
        rl.ReplicableSVMClassifier(**small, projection="rotation", fit_intercept=False),
        rl.ReplicableSGDClassifier(**small),
        rl.ReplicableNetClassifier(**small),
        rl.ReplicableNetClassifier(**small, net="lattice"),
        rl.ReplicableDPClassifier(**small, net="random"),
        rl.ReplicableBoostingClassifier(**small, n_rounds=3),
        rl.ReplicableBoostingClassifier(**small, rounding="foam", n_rounds=3),
        rl.ReplicableBoostingClassifier(**small, output="majority", n_rounds=3),
    ]
    labels = [Y, np.where(Y > 0, "ill", "well"), Y > 0]
    models = [quiet_fit(e, X, labels[i % 3]).model_ for i, e in enumerate(estimators)]
    for document in protocol_documents():
        protocol = _loaded(Protocol.load, document)
        rows, y = rows_for(protocol)
        models.append(quiet_fit(protocol.estimator(n_jobs=1), rows, y).model_)
    import pandas as pd

    models.append(quiet_fit(small_svm(), pd.DataFrame(frame), Y).model_)
    return tuple(_document(model) for model in models)


def _document(model: Model) -> Any:
    names = None if model.feature_names is None else list(model.feature_names)
    provenance = {"rows": 300, "mode": "practical", "estimated_disagreement": None}
    return {
        "feature_names": names,
        "fingerprint": model.fingerprint,
        "model": model.content(),
        "provenance": provenance,
    }


def _loaded(load: Callable[[Path], Any], document: Any) -> Any:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.json")
        path.write_text(json_text(document), "utf-8")
        return load(path)


def model_file(rng: random.Random, folder: Path) -> None:
    """A file that is loaded must work in every way."""
    path = folder / "a.model.json"
    path.write_bytes(hostile_json(rng, list(model_documents()), sealed))
    use_model(rl.load(path), folder)


def use_model(model: Model, folder: Path) -> None:
    """All that one does with a model; documented errors are for exports of odd names only."""
    rows = rows_of_model(model)
    try:
        scores = model.decision_function(rows)
    except ReplearnError as problem:
        require(model.encoding is not None, f"a model that was loaded does not predict: {problem}")
    else:
        require(np.isfinite(scores).all(), "scores are not finite")
        require(set(model.predict(rows).tolist()) <= set(model.classes), "another label")
    if model.is_halfspace:
        require(np.isfinite(model.coef).all() and np.isfinite(model.intercept), "a weight is NaN")
    require(rl.compare(model, model).same, "a model differs from itself")
    rl.save(model, folder / "again.json")
    again = must(lambda: rl.load(folder / "again.json"))
    require(again == model, "a saved model is another one")
    if model.n_features <= 10_000:
        for export in (rl.to_sklearn, rl.to_sql, rl.to_csv):
            with contextlib.suppress(ReplearnError):
                export(model)


def rows_of_model(model: Model) -> Any:
    """A few rows of the shape that the model wants."""
    if model.encoding is not None:
        return {
            column.name: np.array(
                [column.values[0], None, "other"]
                if isinstance(column, CategoryColumn)
                else [0.0, 1.0, -2.5],
                dtype=object if isinstance(column, CategoryColumn) else float,
            )
            for column in model.encoding.columns
        }
    if model.n_features > 10_000:
        return sp.csr_array(
            ([1.0, -1.0], ([0, 2], [0, model.n_features - 1])), shape=(3, model.n_features)
        )
    return np.random.default_rng(0).normal(size=(3, model.n_features))


# --- protocols ----------------------------------------------------------------------------------


@cache
def protocol_documents() -> tuple[Any, ...]:
    """Valid protocols: plain, with categories and missing values, with a public value."""
    plain = rl.plan_from_pilot(X, Y, samples_per_site=2000, shared_seed=7, algorithm="svm").protocol
    columns: dict[str, Any] = dict(zip(("age", "größe", "x"), X.T, strict=True))
    columns["town"] = np.array(["Oslo", "Rome", "1"] * 100, dtype=object)
    columns["x"] = np.where(np.arange(300) % 50 == 0, np.nan, columns["x"])
    table = rl.plan_from_pilot(
        columns, Y > 0, samples_per_site=2000, shared_seed="s", algorithm="svm"
    ).protocol
    public = table.with_public_value("lottery 1 2 3")
    return tuple(json.loads(json_text(p.content())) for p in (plain, table, public))


def rows_for(protocol: Protocol) -> tuple[Any, Any]:
    """Rows and labels that a protocol takes, if it is not too odd."""
    y = np.array(protocol.classes)[(Y[:40] > 0).astype(int)]
    if protocol.encoding is None:
        width = 3 if protocol.basis is None else protocol.basis.rows.shape[1] - 1
        return np.random.default_rng(0).normal(size=(40, max(1, min(width, 50)))), y
    rng = np.random.default_rng(0)
    return {
        column.name: rng.choice(np.array(column.values, dtype=object), size=40)
        if isinstance(column, CategoryColumn)
        else rng.normal(size=40)
        for column in protocol.encoding.columns
    }, y


def protocol_file(rng: random.Random, folder: Path) -> None:
    """A protocol that is loaded has a hash, is saved as it is, and fits or says why not."""
    path = folder / "study.json"
    path.write_bytes(hostile_json(rng, list(protocol_documents()), _with_public_seed))
    protocol = Protocol.load(path)
    protocol.save(folder / "again.json")
    again = must(lambda: Protocol.load(folder / "again.json", protocol.fingerprint))
    require(again.content() == protocol.content(), "a saved protocol is another one")
    require(isinstance(protocol.seed_policy, str), "no policy")
    rows, y = rows_for(protocol)
    use_estimator(protocol.estimator(n_jobs=1), rows, y, folder)


def _with_public_seed(document: Any) -> Any:
    """With the seed that follows from the public value, if there can be one."""
    if not isinstance(document, dict) or not isinstance(document.get("notes"), dict):
        return document
    value = document["notes"].get("public_value")
    if not isinstance(value, str):
        return document
    notes = {name: note for name, note in document["notes"].items() if name != "public_value"}
    with contextlib.suppress(ValueError, RecursionError):
        rest = json.dumps(
            json.loads(json_text(document | {"seed": "", "notes": notes})),
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        ).encode()
        text = b"replearn/seed/1\n" + len(rest).to_bytes(8, "little") + rest + value.encode()
        return document | {"seed": hashlib.sha256(text).hexdigest()}
    return document


def use_estimator(estimator: Any, X: Any, y: Any, folder: Path) -> None:
    """Fit; what comes out predicts finite scores, and is the same after a file."""
    quiet_fit(estimator, X, y)
    model = estimator.model_
    scores = estimator.decision_function(X)
    require(np.isfinite(scores).all(), "scores are not finite")
    require(len(estimator.predict(X)) == len(scores), "labels are missing")
    require(isinstance(str(estimator.certificate_), str), "no certificate")
    require(isinstance(str(estimator.plan_), str), "no plan")
    rl.save(model, folder / "fitted.json")
    again = must(lambda: rl.load(folder / "fitted.json"))
    require(again == model, "a saved model is another one")
    require((again.codes == model.codes).all(), "codes changed")


# --- commitments --------------------------------------------------------------------------------


@cache
def commitment_documents() -> tuple[Any, ...]:
    """Commitments and openings of two sites."""
    pairs = [rl.commit("ab" * 32, site) for site in ("Oslo", "Rome\n")]
    return tuple(item.content() for pair in pairs for item in pair)


def commitment_file(rng: random.Random, folder: Path) -> None:
    """Files of two sites, one or two of them hostile."""
    documents = list(commitment_documents())
    found = []
    for number, document in enumerate(documents):
        path = folder / f"{number}.json"
        content = json_text(document).encode()
        path.write_bytes(hostile_json(rng, [document]) if rng.random() < 0.4 else content)
        item = load_commitment(path)
        save_commitment(item, folder / "again.json")
        require(load_commitment(folder / "again.json") == item, "a saved commitment is another one")
        found.append(item)
    openings = [item for item in found if isinstance(item, Opening)]
    str(reveal([item for item in found if not isinstance(item, Opening)], openings))


# --- states and checkpoints -----------------------------------------------------------------------


@cache
def saved_stream() -> bytes:
    """State of a stream in the middle of a block."""
    return _written(lambda path: _stream().partial_fit(X[:203], Y[:203]).save_state(path))


def _stream() -> Any:
    return rl.ReplicableSGDClassifier(margin=0.3, batch_size=40, n_jobs=1)


def _written(write: Callable[[Path], object]) -> bytes:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.npz")
        write(path)
        return path.read_bytes()


def stream_state(rng: random.Random, folder: Path) -> None:
    """A stream that is resumed goes on, and has a model."""
    path = folder / "stream.npz"
    path.write_bytes(hostile_npz(rng, saved_stream(), resealed))
    estimator = _stream().load_state(path)
    estimator.partial_fit(X[203:], np.where(Y[203:] > 0, *estimator.classes_[::-1]))
    require(np.isfinite(estimator.decision_function(X)).all(), "scores are not finite")
    estimator.save_state(folder / "again.npz")


def hostile_npz(
    rng: random.Random, content: bytes, seal: Callable[[dict[str, Any]], None] | None = None
) -> bytes:
    """An archive with changed bytes, members, headers, types, shapes or numbers."""
    if rng.random() < 0.25:
        return mutated_bytes(rng, content)
    members = npz_members(content)
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(list(members))
        match rng.randrange(9):
            case 0:
                members[name] = mutated_bytes(rng, members[name])
            case 1:
                members.pop(name)
            case 2:
                members[rng.choice(["X.npy", "y.npy", "../x.npy", "/x.npy", "x", "é.npy"])] = (
                    members.pop(name)
                )
            case 3 | 4:
                members[name] = forged_array(rng, members[name])
            case 5 if "header.npy" in members and seal is not None:
                _forge_header(rng, members)
            case _:
                members[name] = changed_array(rng, members[name])
        if not members:
            members["a.npy"] = b""
    if seal is not None and rng.random() < 0.7:
        seal(members)
    out = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # names that stand twice
        for name, data in members.items():
            archive.writestr(name, data)
            if rng.random() < 0.03:
                archive.writestr(name, data)
    return out.getvalue()


def npz_members(content: bytes) -> dict[str, bytes]:
    """Files in an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy_bytes(array: Any) -> bytes:
    """An array as a file."""
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def changed_array(rng: random.Random, content: bytes) -> bytes:
    """Other numbers, type or shape."""
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # what was forged before
        return content
    match rng.randrange(5):
        case 0 if array.dtype.kind != "c":
            kinds = ["f2", "f4", "f8", "i1", "i8", "u8", "U3", "S4", "c16", "M8[s]", ">f8", "b1"]
            with contextlib.suppress(ValueError, TypeError), np.errstate(all="ignore"):
                array = array.astype(rng.choice(kinds))
        case 1:
            array = array.reshape(rng.choice([(-1,), (1, -1), (-1, 1)]))
        case 2:
            array = array[: rng.randrange(4)] if array.ndim else array
        case 3 if array.ndim:
            array = np.concatenate([array, array])
        case _ if array.size:
            odd: list[Any] = [0, 1, -1, 2**31, 2**62, -(2**63), 1e308, np.nan, np.inf, -0.0]
            array = array.copy()
            with contextlib.suppress(OverflowError, ValueError), np.errstate(all="ignore"):
                array.flat[rng.randrange(array.size)] = rng.choice(odd)
    return npy_bytes(array)


def forged_array(rng: random.Random, content: bytes) -> bytes:
    """A header that promises something else than what follows."""
    shapes = ["()", "(0,)", "(1,)", "(-1,)", "(1000000000000,)", "(2305843009213693952,)", "(3, 0)",
              "(99999999999999999999999,)", "(True,)", "(1.5,)", "5", "None", "(300, 3)",
              "(1, 1, 1)"]  # fmt: skip
    kinds = ["'<f8'", "'|O'", "'<i8'", "'<U2147483647'", "'|V8'", "[('a', '<f8')]", "'<M8[s]'",
             "'<c16'", "5", "'<f8' if 0 else 1", "'<f16'", "'|S0'", "'<f3'"]  # fmt: skip
    descr, order, shape = rng.choice(kinds), rng.choice(["False", "True", "1"]), rng.choice(shapes)
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if rng.random() < 0.1:
        header = rng.choice(
            ["(" * 500, "__import__('os')", "{}", "", "[" * 200 + "]" * 200, "1" * 9000]
        )
    data = header.encode() + b"\n"
    version = rng.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"])
    size = len(data).to_bytes(2 if version[0] == 1 else 4, "little")
    if rng.random() < 0.1:
        size = rng.choice([b"\xff" * len(size), b"\0" * len(size)])
    return b"\x93NUMPY" + version + size + data + content[128:]


def _forge_header(rng: random.Random, members: dict[str, bytes]) -> None:
    with contextlib.suppress(ValueError, EOFError):
        header = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
        text = json_text(mutated_json(rng, header)).encode()
        members["header.npy"] = npy_bytes(np.frombuffer(text, dtype=np.uint8))


def resealed(members: dict[str, bytes]) -> None:
    """Put the digest of the arrays into the header, if there can be one."""
    with contextlib.suppress(Exception):  # there is none for what is no array
        header = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
        digest = hashlib.sha256()
        for name in sorted(set(members) - {"header.npy"}):
            array = np.load(io.BytesIO(members[name]), allow_pickle=False)
            digest.update(name.removesuffix(".npy").encode() + b"\0" + array.tobytes())
        header["digest"] = digest.hexdigest()
        members["header.npy"] = npy_bytes(
            np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)
        )


@cache
def _checkpointed() -> dict[str, bytes]:
    """Files of the checkpoint of a fit that is nearly done, by name; and the table."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = folder / "a.csv"
        table.write_bytes(TABLE)
        os.utime(table, (1e9, 1e9))
        for shuffle in (True, False):
            where = folder / f"shuffle {shuffle}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ReplicabilityWarning)
                fit_file(small_svm(shuffle=shuffle), table, "label", checkpoint=where)
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }


def fit_checkpoint(rng: random.Random, folder: Path) -> None:
    """A fit that goes on from a hostile checkpoint gives the model of an undisturbed one."""
    files = _checkpointed()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    os.utime(folder / "a.csv", (1e9, 1e9))
    shuffle = rng.random() < 0.5
    where = f"shuffle {shuffle}"
    chosen = folder / rng.choice([name for name in files if name.startswith(where)])
    content = chosen.read_bytes()
    if chosen.suffix == ".json":
        content = hostile_json(rng, [json.loads(content)])
    elif content[:2] == b"PK":
        content = hostile_npz(rng, content, resealed)
    else:
        content = mutated_bytes(rng, content)
    chosen.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        fitted = fit_file(
            small_svm(shuffle=shuffle), folder / "a.csv", "label", checkpoint=folder / where
        )
    require(np.isfinite(fitted.coef_).all(), "weights are not finite")


@cache
def _audited() -> tuple[bytes, str]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "audit.json")
        text = str(_audit(path))
        return path.read_bytes(), text


def _audit(path: Path) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        return rl.audit(small_svm(), X, Y, n_pairs=2, n_jobs=1, checkpoint=path)


def audit_checkpoint(rng: random.Random, folder: Path) -> None:
    """An audit that goes on from a hostile file."""
    path = folder / "audit.json"
    content = json.loads(_audited()[0])
    if rng.random() < 0.8:
        changed = mutated_json(rng, content.pop("pairs"))
        text = json_text(content | {"pairs": changed}).encode()
    else:
        text = hostile_json(rng, [content])
    path.write_bytes(text)
    result = _audit(path)
    str(result)
    json.dumps(result.data(), allow_nan=False)


# --- tables ---------------------------------------------------------------------------------------


def _table() -> bytes:
    lines = ["a,größe,c d,label"]
    lines += [
        ",".join(f"{v:.4g}" for v in row) + f",{int(y)}" for row, y in zip(X[:60], Y, strict=False)
    ]
    return "\n".join(lines).encode() + b"\n"


TABLE = _table()

ODD_CELLS = [
    "", " ", "nan", "NaN", "inf", "-Infinity", "1e999", "1e-999", "0x10", "1_0", "1,5", '"1"', '"',
    '""', '"a""b"', '"a\nb"', "1" * 400, "1" * 100_000, "-" * 50, "1e5", "1E+5", "+1", " 1", "1 ",
    ".5", "5.", "1..", "١", "é", "\ufeff1", "\0", "true", "True", "1.0", "0", "-0", "007", "null",
    "NA", "None", "#N/A", "\t", "\x1b[2J", "1e-320", "4.9e-324", "1.7976931348623159e308",
    "0." + "0" * 400 + "1", "=1+1", "infinity", "NAN(1)", "1d5", "1f", "\u2028", "\r", "0b1",
]  # fmt: skip


def hostile_csv(rng: random.Random) -> bytes:
    """A table with odd cells, rows, line ends, or damage."""
    kind = rng.random()
    if kind < 0.08:
        return rng.choice([b"", b"\n", b"a", b"a,label\n", b"a,label", b"\xef\xbb\xbf", b'"', b"\r",
                           b"a,a\n1,2\n", b",\n1,2\n", b"label\n1\n", some_bytes(rng),
                           b"\0" * 50])  # fmt: skip
    if kind < 0.3:
        return mutated_bytes(rng, TABLE)
    rows = [line.split(",") for line in TABLE.decode().splitlines()]
    for _ in range(rng.choice([1, 1, 2, 4])):
        row = rng.randrange(len(rows)) if rng.random() < 0.85 else 0
        match rng.randrange(10):
            case 0:
                rows.insert(row, [])
            case 1:
                rows[row] = rows[row][: rng.randrange(4)]
            case 2:
                rows[row] = rows[row] + [rng.choice(ODD_CELLS)]
            case 3:
                rows = rows[: row + 1]
            case 4:
                column = rng.randrange(4)
                for cells in rows[1:]:
                    if column < len(cells):
                        cells[column] = rng.choice(
                            ["0", "1", cells[column], rng.choice(ODD_CELLS[:6])]
                        )
            case 5:
                for cells in rows[1:]:
                    if cells:
                        cells[-1] = rng.choice(
                            ["yes", "no", "yes", "1", "1.0", "0"][: rng.choice([1, 2, 6])]
                        )
            case _:
                if rows[row]:
                    rows[row][rng.randrange(len(rows[row]))] = rng.choice(ODD_CELLS)
    ends = rng.choice([["\n"], ["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r"]])
    text = "".join(",".join(cells) + rng.choice(ends) for cells in rows)
    if rng.random() < 0.1:
        text = text.rstrip("\r\n")
    if rng.random() < 0.05:
        text = "\ufeff" + text
    return text.encode("utf-8" if rng.random() < 0.95 else "utf-16")


def hostile_svmlight(rng: random.Random) -> bytes:
    """Sparse rows with odd indices, numbers, comments, or damage."""
    if rng.random() < 0.05:
        return rng.choice([b"", b"\n", b"#", b"# a\n", b"1\n-1\n", some_bytes(rng)])
    lines = [
        [f"{int(y)}", *(f"{i + 1}:{v:.4g}" for i, v in enumerate(row) if rng.random() < 0.8)]
        for row, y in zip(X[:40], Y, strict=False)
    ]
    for _ in range(rng.choice([1, 1, 2, 3])):
        row = rng.randrange(len(lines))
        odd = rng.choice(["0:1", "-1:1", "1:1", "99999999999:1", "16777216:1", "16777217:1", "2:",
        ":2",
            "2:nan", "2:inf", "2:1e999", "qid:3", "qid:", "a:b", "+2:1", "002:1", "2:1_0", "2 :1",
            "# c", "#", "2:1:1", "1" * 100_000 + ":1", "2:" + "1" * 100_000, "2:0x1", "\0", "é:1",
            "1.0:2", "1e0:2", "2147483648:1", "2:1e-320", "3:-0", "\x0b", "\r",
            "4:1#x"])  # fmt: skip
        match rng.randrange(5):
            case 0:
                lines[row][0] = rng.choice(
                    ["", "nan", "1,2", "x", "1e400", "+1", "0.5", "2", "1_0"]
                )
            case 1:
                rng.shuffle(lines[row])
            case 2:
                lines[row] = rng.choice([[], ["#"], ["1"], [" "]])
            case _:
                lines[row].insert(rng.randrange(len(lines[row]) + 1), odd)
    content = rng.choice(["\n", "\n", "\r\n"]).join(map(" ".join, lines)).encode() + b"\n"
    return mutated_bytes(rng, content) if rng.random() < 0.2 else content


@cache
def _archives() -> tuple[bytes, ...]:
    sparse = sp.csr_array(np.where(np.abs(X[:60]) > 0.3, X[:60], 0))
    names = np.array(["a", "b", "c"])
    parts = {"data": sparse.data, "indices": sparse.indices, "indptr": sparse.indptr}
    return (
        _written(lambda path: np.savez(path, X=X[:60], y=Y[:60])),
        _written(
            lambda path: np.savez(path, X=X[:60].astype("f4"), y=Y[:60] > 0, feature_names=names)
        ),
        _written(lambda path: np.savez(path, **parts, shape=sparse.shape, format=b"csr", y=Y[:60])),
        _written(
            lambda path: np.savez_compressed(path, X=X[:60], y=np.where(Y[:60] > 0, "ü", "v"))
        ),
    )


@cache
def _parquets() -> tuple[bytes, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = {"a": X[:60, 0], "größe": X[:60, 1].astype("f4"), "n": np.arange(60), "label": Y[:60]}
    text = numbers | {"town": ["Oslo", "Rome", None] * 20, "label": ["no", "yes", "no"] * 20}
    missing = numbers | {"a": [None, 1.0, 2.0] * 20}
    return tuple(
        _written(lambda path, t=table, s=settings: pq.write_table(pa.table(t), path, **s))
        for table in (numbers, text, missing)
        for settings in ({}, {"row_group_size": 7, "compression": "gzip", "use_dictionary": False})
    )


def _zipped(rng: random.Random, content: bytes) -> bytes:
    packed = gzip.compress(content, 1, mtime=0)
    match rng.randrange(4):
        case 0:
            return packed[: rng.randrange(len(packed))]
        case 1:
            return mutated_bytes(rng, packed)
        case 2:
            return packed + packed
    return packed


def _hostile_table(rng: random.Random, folder: Path, suffix: str) -> Path:
    content = {
        ".csv": lambda: hostile_csv(rng),
        ".svm": lambda: hostile_svmlight(rng),
        ".npz": lambda: hostile_npz(rng, rng.choice(_archives())),
        ".parquet": lambda: mutated_bytes(rng, rng.choice(_parquets())),
    }[suffix]
    n_files = rng.choice([1] * 9 + [2])
    packed = suffix in (".csv", ".svm") and rng.random() < 0.1
    name = f"{suffix}.gz" if packed else suffix
    place = folder / f"a{name}"
    if n_files > 1:
        (folder / "parts").mkdir()
        place = folder / "parts"
    for number in range(n_files):
        path = place / f"{number}{name}" if n_files > 1 else place
        path.write_bytes(_zipped(rng, content()) if packed else content())
    return place


def _table_case(suffix: str) -> Case:
    def case(rng: random.Random, folder: Path) -> None:
        use_table(_hostile_table(rng, folder, suffix), rng, folder)

    case.__doc__ = f"Files {suffix}, read in every way, and fitted in memory and streamed."
    return case


def use_table(path: Path, rng: random.Random, folder: Path) -> None:
    """Read and fit; ways that must agree do."""
    target = None if path.name.endswith((".svm", ".svm.gz", ".npz")) else "label"
    if path.is_dir() and next(path.iterdir()).name.endswith((".svm", ".svm.gz", ".npz")):
        target = None
    match rng.randrange(4):
        case 0:
            whole = outcome(lambda: read_table(path, target))
            pieces = outcome(lambda: list(open_source(path, target).pieces()))
            if isinstance(whole, Exception) or isinstance(pieces, Exception):
                empty = "must have rows" in str(whole) and pieces == []
                require(empty or str(whole) == str(pieces), f"{whole!r} but {pieces!r}")
            else:
                require(
                    _dense(whole.X).tobytes() == b"".join(_dense(p.X).tobytes() for p in pieces),
                    "other numbers",
                )
        case 1:
            use_columns(read_columns(path, target))
        case 2:
            _shuffled(path, target, folder)
        case _:
            _fitted_both_ways(path, target)


def use_columns(found: tuple[Any, Any]) -> None:
    """Raw columns are numbers or objects, all of one length."""
    columns, y = found
    if isinstance(columns, dict):
        sizes = {len(column) for column in columns.values()}
        require(len(sizes) == 1, "columns of different lengths")
        require(y is None or len(y) in sizes, "labels are missing")


def outcome(function: Callable[[], Any]) -> Any:
    """What is returned, or the documented error that is raised."""
    try:
        return function()
    except ReplearnError as problem:
        return problem


def _dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else np.ascontiguousarray(X)


def _fitted_both_ways(path: Path, target: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        kept = outcome(lambda: fit_file(small_svm(), path, target))
        streamed = outcome(lambda: fit_file(small_svm(), path, target, memory=0))
    if isinstance(kept, Exception) or isinstance(streamed, Exception):
        require(
            isinstance(kept, Exception) and isinstance(streamed, Exception),
            f"{kept!r} but {streamed!r}",
        )
        raise kept
    require(kept.model_ == streamed.model_, "streamed and in memory give different models")
    require(np.isfinite(kept.coef_).all(), "weights are not finite")


def _shuffled(path: Path, target: str | None, folder: Path) -> None:
    from replearn.sources.shuffled_files import shuffle_file

    first = next(path.iterdir()) if path.is_dir() else path
    out = folder / ("out" + "".join(first.suffixes))
    shuffle_file(path, out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        before = outcome(lambda: fit_file(small_svm(), path, target))
        after = outcome(lambda: fit_file(small_svm(shuffle=False), out, target))
    if isinstance(before, Exception):
        raise before
    if not isinstance(after, Exception):
        require(before.model_ == after.model_, "the shuffled file gives another model")


def csv_twins(rng: random.Random, folder: Path) -> None:
    """The fast reader of comma-separated text takes nothing that the slow one reads otherwise."""
    from replearn.sources.csv_parsing import _Odd, n_rows, read_by_arrow, read_by_reader

    path = folder / "a.csv"
    path.write_bytes(hostile_csv(rng))
    source = open_source(path)
    (file,) = source.files
    numeric = [name for name in file.names if rng.random() < 0.7]
    text = [name for name in file.names if name not in numeric]
    fast: list[Any] = []
    slow: list[Any] = []
    finished = problem = None
    with contextlib.suppress(_Odd, ReplearnError):
        for _, columns in read_by_arrow(file, numeric, text):
            fast.append(columns)
        finished = True
    try:
        for _, columns in read_by_reader(file, numeric, text, None):
            slow.append(columns)
    except ReplearnError as found:
        problem = found
    require(not finished or problem is None, f"only the fast reader takes it: {problem}")
    for name in file.names:
        quick = [value for columns in fast for value in columns[name]]
        right = [value for columns in slow for value in columns[name]]
        same = [str(a) == str(b) for a, b in zip(quick, right, strict=False)]
        require(all(same), f"other values in {name!r}")
    require(all(n_rows(columns) for columns in (*fast, *slow)), "rows without rows")


# --- estimators -----------------------------------------------------------------------------------

_REALS = [0, 1, -1, 2, 0.5, 0.1, 0.01, 1e-9, 1e-160, 1e-300, 5e-324, 0.999999, 1 - 2**-53, 1e300,
          float("nan"), float("inf"), -0.0, np.float32(0.2), "0.1", "auto", None, True, [], {},
          b"x",
          np.array([0.1]), np.array(0.1), 10**400, 0.3 + 0j]  # fmt: skip
_WHOLES = ["auto", 0, 1, 2, 3, 7, 8, 24, 100, -1, 1.5, 2.0, 10**6, 2**20, 2**31, 2**53, 2**63,
10**30,
           None, True, "3", [], np.int64(5), np.uint8(9), np.array(3), float("nan")]  # fmt: skip
_NAMES = ["auto", "none", "gaussian", "signs", "hadamard", "rotation", "published", "ak", "centre",
          "e8", "leech", "box", "foam", "random", "lattice", "gumbel", "holenstein", "margin",
          "generic", "practical", "certified", "paper", "halfspace", "majority", "", None, 0, 1.5,
          [],
          {}, True, np.array(["none"]), b"none", "\ud800"]  # fmt: skip
_FLAGS = [
    True,
    False,
    0,
    1,
    None,
    "yes",
    "",
    [],
    np.bool_(True),
    np.array([True, False]),
    2.5,
    "auto",
]
_SEEDS = [0, 7, -1, 10**50, "", "s", "\ud800", "x" * 10_000, "\0", None, 1.5, True, [], b"s",
np.int8(3),
          float("nan"), np.array(3)]  # fmt: skip
_OTHERS = [None, {}, {"C1": 2.0}, {"C1": 0}, {"C1": "x"}, {"C9": 1}, {1: 2}, [], "x", 3,
{"C1": 1e300},
           {"C1": 1e-300}, {"C2": True}, {"C1": None}, {"C1": 10**400},
           {"C1": float("nan")}]  # fmt: skip
_CLASSES = [None, (-1, 1), ("a", "b"), (0, 1), (True, False), ("", "\ud800"), (0, 10**400)]

_VALUES: dict[str, list[Any]] = (
    dict.fromkeys(("margin", "max_error", "max_disagreement", "failure_prob"), _REALS)
    | dict.fromkeys(("grid_width", "regularization"), _REALS)
    | dict.fromkeys(
        ("n_batches", "batch_size", "n_components", "n_repetitions", "n_validation", "n_candidates",
         "n_rounds", "n_repeats"), _WHOLES,
    )
    | dict.fromkeys(("mode", "projection", "rounding", "net", "calibration", "sampling",
    "output"), _NAMES)
    | dict.fromkeys(("fit_intercept", "shuffle", "agnostic", "fresh_rows"), _FLAGS)
    | {"n_rounds": [value for value in _WHOLES if not isinstance(value,
    int) or not 100 < value <= 2**20]}
    | {"shared_seed": _SEEDS, "random_state": _SEEDS, "constants": _OTHERS}
    | {"class_weight": [None, "balanced", {}, {-1: 2, 1: 0.5}, {"a": 1}, {-1: -1}, 3, [1, 2],
       {-1: float("nan"), 1: 1}, {1: 10**400}]}
    | {"hint_bits": [0, 2, 9, -1, True, 1.5, "x", None], "hint": [None, 0, 3, 99, "x", True]}
    | {"n_jobs": [None, 1, 2, 0, -1, "x", 1.5, True, [], 10**30], "verbose": [0, False, None]}
    | {"published": [None, [], "x", 0, *(rl.Published(classes=two) for two in _CLASSES)]}
)  # fmt: skip

ESTIMATORS = (
    rl.ReplicableSVMClassifier,
    rl.ReplicableSGDClassifier,
    rl.ReplicableNetClassifier,
    rl.ReplicableDPClassifier,
    rl.ReplicableBoostingClassifier,
)


def odd_parameters(rng: random.Random, kind: Any) -> dict[str, Any]:
    """Keywords of an estimator with values of any type."""
    known = kind().get_params()
    chosen = rng.sample(sorted(known), rng.choice([0, 1, 1, 2, 3]))
    odd = {name: rng.choice(_VALUES[name]) for name in chosen}
    if issubclass(kind, rl.ReplicableBoostingClassifier) and rng.random() < 0.4:
        odd.setdefault("rounding", "foam")
    if rng.random() < 0.1:
        odd["mode"] = rng.choice(["paper", "certified"])
    return {"margin": 0.3, "max_error": 0.2, "n_jobs": 1} | odd


def odd_labels(rng: random.Random, n_rows: int) -> Any:
    """Labels of all kinds."""
    signs = np.array([rng.random() < 0.5 for _ in range(n_rows)])
    if n_rows > 1 and rng.random() < 0.9:
        signs[:2] = [True, False]
    match rng.randrange(16):
        case 0:
            return signs
        case 1:
            return np.where(signs, "a", "b")
        case 2:
            return np.where(signs, "\0", "\ud800").astype(object)
        case 3:
            return np.array([1 if s else "x" for s in signs], dtype=object)
        case 4:
            return np.where(signs, 1.5, 2.5)
        case 5:
            return np.where(signs, 1e300, -1e300)
        case 6:
            return np.arange(n_rows) % 3
        case 7:
            return np.zeros(n_rows)
        case 8:
            return np.where(signs, np.nan, 1.0)
        case 9:
            return np.where(signs, 2**62, -(2**63))
        case 10:
            return signs.tolist()
        case 11:
            return np.where(signs, "a" * 5000, "b")
        case 12:
            return np.where(signs, 1, 0).astype(
                rng.choice(["u1", "i2", "f2", "u8", "c8", "M8[s]", "S1"])
            )
        case 13:
            return np.array([None if s else 1 for s in signs], dtype=object)
        case 14:
            return np.where(signs, 2**64 - 1, 0).astype("u8")
    return np.where(signs, 1, -1)


def odd_rows(rng: random.Random) -> Any:
    """Rows of all kinds, with shapes from nothing to long rows."""
    n_rows = rng.choice([0, 1, 2, 3, 10, 30, 60, 120])
    n_columns = rng.choice([0, 1, 1, 2, 3, 5, 23, 24, 40, 300])
    numbers = np.random.default_rng(rng.randrange(2**32))
    X = numbers.normal(size=(n_rows, n_columns))
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        odd = rng.choice(
            [0.0, np.nan, np.inf, 1e308, -1e308, 5e-324, 1e-310, 1e-160, 1e160, 2.0**-1074]
        )
        match rng.randrange(5):
            case 0:
                X[:] = odd
            case 1 if n_rows:
                X[rng.randrange(n_rows)] = odd
            case 2 if n_columns:
                X[:, rng.randrange(n_columns)] = odd
            case 3:
                with np.errstate(all="ignore"):
                    X *= odd
            case _:
                X[numbers.random(X.shape) < 0.7] = 0.0
    with np.errstate(all="ignore"):
        return _as_kind(rng, X)


def _as_kind(rng: random.Random, X: Any) -> Any:
    match rng.randrange(20):
        case 0 | 1:
            return X.astype(np.float32)
        case 2:
            return np.asfortranarray(X)
        case 3:
            X.setflags(write=False)
            return X
        case 4:
            return X[:, ::-1] if X.size else X
        case 5 | 6 | 7:
            return _odd_csr(rng, sp.csr_matrix(X))
        case 8:
            return sp.csc_array(X)
        case 9:
            return sp.coo_array(X)
        case 10:
            return X.tolist()
        case 11:
            return X.astype(object)
        case 12:
            return (
                np.nan_to_num(X).clip(-100, 100).astype(rng.choice(["i1", "i8", "u8", "?", "f2"]))
            )
        case 13:
            return X.ravel() if rng.random() < 0.5 else X[None]
        case 14:
            return X.astype(rng.choice(["U8", "S8", "c16"]))
        case 15:
            import pandas as pd

            names = [rng.choice(["a", 0, "é", "\n", ""]) for _ in range(X.shape[1])]
            return pd.DataFrame(
                X, columns=names if rng.random() < 0.4 else [f"c{i}" for i in range(X.shape[1])]
            )
        case 16 if X.size:
            last = np.full(len(X), 2**16)  # long rows of which little is there
            return sp.csr_array(
                (np.resize(X, len(X)), last, np.arange(len(X) + 1)), shape=(len(X), 2**16 + 1)
            )
    return X


def _odd_csr(rng: random.Random, X: Any) -> Any:
    """A matrix with entries out of order, or twice, or with long indices."""
    match rng.randrange(4):
        case 0 if X.nnz > 1:
            return sp.csr_matrix((X.data, X.indices[::-1].copy(), X.indptr), shape=X.shape)
        case 1 if X.nnz:
            X = sp.csr_array((X.data, np.zeros_like(X.indices), X.indptr), shape=X.shape)
        case 2:
            X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


def estimator(rng: random.Random, folder: Path) -> None:
    """Odd rows, labels and parameters: a model that works, or an error in words."""
    kind = rng.choice(ESTIMATORS)
    X: Any = odd_rows(rng) if rng.random() < 0.7 else np.random.default_rng(0).normal(size=(60, 3))
    n_rows = len(X) if isinstance(X, list) else X.shape[0]
    y = (
        odd_labels(rng, n_rows)
        if rng.random() < 0.5
        else (np.arange(n_rows) * 7 % 5 < 2).astype(int)
    )
    parameters = (
        odd_parameters(rng, kind) if rng.random() < 0.7 else {"margin": 0.3, "max_error": 0.2}
    )
    if np.ndim(X) == 2 and np.shape(X)[1] > 12 and parameters.get("rounding") == "foam":
        X = X[:, :12] if hasattr(X, "dtype") else np.zeros((n_rows, 2))  # foam takes 2^d by design
    use_estimator(kind(**parameters), X, y, folder)


# --- paths ----------------------------------------------------------------------------------------


def odd_path(rng: random.Random, folder: Path) -> str:
    """A path that is not what it seems."""
    ends = [
        ".csv",
        ".csv.gz",
        ".svm",
        ".npz",
        ".parquet",
        ".json",
        "",
        ".CSV",
        ".pq",
        ".model.json",
    ]
    end = rng.choice(ends)
    start = rng.choice(["a", "a b", "é", "x" * 200, "-", chr(27) + "[2J", "a" + chr(10) + "b"])
    path = folder / f"{start}{rng.randrange(10**9)}{end}"
    match rng.randrange(14):
        case 0:
            path.mkdir()
        case 1:
            os.mkfifo(path)
        case 2:
            path.symlink_to(path)
        case 3:
            path.symlink_to("/dev/zero")
        case 4:
            path.symlink_to(folder / "nothing")
        case 5:
            path.mkdir()
            for name in rng.sample(
                ["a.csv", "b.csv", "c.npz", ".hidden", "_x", "d.parquet", "e.txt"], 2
            ):
                (path / name).write_bytes(rng.choice([b"", TABLE]))
        case 6:
            path.mkdir()
            (path / "a.csv").mkdir()
        case 7:
            path.mkdir()
            os.mkfifo(path / "a.csv")
        case 8:
            return rng.choice(["", ".", "/", "/dev/null", "/dev/zero", "/dev/full",
            "/dev/stdin.csv", "/proc/self/mem",
                               "a\0b.csv", "\udc80.csv", "x" * 5000 + ".csv", "..", "~", "//",
                               "/dev/fd/99.csv"])  # fmt: skip
        case 9:
            return str(path)
        case 10:
            path.write_bytes(b"")
        case 11:
            path.write_bytes(
                rng.choice([TABLE, gzip.compress(TABLE), _archives()[0], _parquets()[0]])
            )
        case 12:
            path.write_bytes(bytes(2_000_000))
        case _:
            path.write_bytes(gzip.compress(bytes(5_000_000)))
    return str(path)


def paths(rng: random.Random, folder: Path) -> None:
    """Every reader on paths that are not what they seem; what the system says is an error, too."""
    path = odd_path(rng, folder)
    readers: list[Callable[[], Any]] = [
        lambda: rl.load(path),
        lambda: Protocol.load(path),
        lambda: load_commitment(path),
        lambda: read_table(path, "label"),
        lambda: read_table(path),
        lambda: use_columns(read_columns(path, "label")),
        lambda: _stream().load_state(path),
        lambda: fit_file(small_svm(), path, "label"),
    ]
    try:
        rng.choice(readers)()
    except (OSError, ValueError) as problem:
        plain = (
            isinstance(problem, OSError)
            or "null" in str(problem)
            or isinstance(problem, UnicodeError)
        )
        if not plain or isinstance(problem, ReplearnError):
            raise
        raise ReplearnError(str(problem)) from None  # as of any path that cannot be opened


# --- the command line -----------------------------------------------------------------------------

_ARGUMENTS = ["", "-", "--", "x", "0", "1", "-1", "nan", "inf", "1e400", "1e-400", "0.3", "auto",
"9" * 5000,
              "é", "\n", "\x1b[31m", "a\nb", "\udc80", "label", "--json", "--help", "-h", "2",
              "3", "1e9",
              "practical", "certified", "paper", "svm", "sgd", "net", "boost-foam", "=",
              "ab" * 32]  # fmt: skip

_OPTIONS = {
    "fit": ["--target", "--out", "--algorithm", "--margin", "--max-error", "--max-disagreement",
            "--failure-prob", "--mode", "--no-intercept", "--seed", "--protocol", "--lock",
            "--json",
            "--assume-shuffled", "--random-state", "--features", "--memory", "--scratch",
            "--expect",
            "--checkpoint", "--checkpoint-every"],
    "predict": ["--out", "--json"],
    "compare": ["--commit", "--reveal", "--site", "--out", "--json"],
    "show": ["--json", "--report"],
    "shuffle": ["--out", "--seed", "--random-state", "--scratch", "--json"],
    "audit": ["--target", "--protocol", "--margin", "--question", "--confidence", "--checkpoint",
    "--json"],
    "plan": ["--margin", "--max-error", "--features", "--mode", "--json", "--pilot", "--target",
    "--out"],
    "export": ["--out", "--json", "--format"],
    "completion": ["--json"],
    "nothing": ["--json"],
}  # fmt: skip


def command_line(rng: random.Random, folder: Path) -> None:
    """Odd arguments and files: exit code 0 to 3, and one line if something is wrong."""
    from replearn.cli import main

    arguments = _odd_arguments(rng, folder)
    # as the streams of a process are, for arguments that are not UTF-8
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors, write_through=True)
        for errors in ("strict", "backslashreplace")
    )
    here = os.getcwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code: Any = main(arguments)
            except SystemExit as problem:
                code = problem.code
    finally:
        os.chdir(here)
    printed, told = (stream.buffer.getvalue().decode() for stream in (out, err))  # type: ignore[attr-defined]
    said = f"{arguments!r:.600} exits with {code}: {told[-1500:]!r}"
    require(code in (0, 1, 2, 3), said)
    lines = told.split("\n")[:-1]
    complaints = [line for line in lines if not line.startswith("replearn: warning: ")]
    require("Traceback" not in told, said)
    require(len(complaints) == (code == 2), said)
    steers = re.compile(r"[\x00-\x1f\x7f-\x9f]")
    require(not any(map(steers.search, lines)), said)
    require(all(len(line) < 20_000 for line in lines), said[:3000])
    if code == 2:
        raise ReplearnError(complaints[0])
    if code == 0 and "--json" in arguments and "--help" not in arguments and "-h" not in arguments:
        json.loads(printed)


def _odd_arguments(rng: random.Random, folder: Path) -> list[str]:
    command = rng.choice([*_OPTIONS, "fit", "fit", "show", "predict"])
    data, model, protocol = folder / "a.csv", folder / "a.model.json", folder / "study.json"
    good = rng.random() < 0.5
    data.write_bytes(TABLE if good else hostile_csv(rng))
    documents = list(model_documents())
    model.write_bytes(
        json_text(documents[-1]).encode() if good else hostile_json(rng, documents, sealed)
    )
    protocol.write_bytes(hostile_json(rng, list(protocol_documents()), _with_public_seed))
    values = [
        *_ARGUMENTS,
        str(data),
        str(model),
        str(protocol),
        str(folder),
        str(folder / "new.csv"),
        "new.json",
    ]
    words = {
        "fit": [str(data), "--target", "label", "--jobs", "1"],
        "predict": [str(model), str(data)],
        "compare": [str(model), str(model)],
        "show": [str(model)],
        "shuffle": [str(data), "--out", "out.csv"],
        "audit": [str(data), "--target", "label", "--pairs", "2", "--jobs", "1"],
        "plan": ["--margin", "0.3", "--features", "3"],
        "export": [str(model)],
        "completion": ["bash"],
    }.get(command, [])
    arguments = [command, *words]
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        arguments.append(rng.choice(_OPTIONS[command]))
        if rng.random() < 0.8:
            value = odd_path(rng, folder) if rng.random() < 0.15 else rng.choice(values)
            arguments.append(value)
    if rng.random() < 0.2 and len(arguments) > 1:
        arguments[rng.randrange(len(arguments))] = rng.choice(values)
    return arguments


# --- input that hypothesis draws ----------------------------------------------------------------


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
    return st.tuples(st.sampled_from(parts), _json_trees()).map(
        lambda drawn: _graft(*drawn[0], drawn[1])
    )


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
        values = {name: st.sampled_from(_VALUES[name]) for name in kind().get_params()}
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


def _use_text(name: str, target: str | None) -> Any:
    def case(content: bytes, folder: Path) -> None:
        (folder / name).write_bytes(content)
        outcome(lambda: use_columns(read_columns(folder / name, target)))
        _fitted_both_ways(folder / name, target)

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
    use_estimator(
        kind(**{"margin": 0.3, "max_error": 0.2, "n_jobs": 1} | parameters), narrow, y, folder
    )


#: What hypothesis draws, by target: a function that makes the strategy, and what uses a draw.
DRAWN: dict[str, tuple[Callable[[], st.SearchStrategy[Any]], Callable[[Any, Path], object]]] = {
    "drawn model file": (
        lambda: _grafted(model_documents()),
        _use_json(rl.load, sealed, use_model),
    ),
    "drawn protocol file": (
        lambda: _grafted(protocol_documents()),
        _use_json(Protocol.load, _with_public_seed, _use_protocol),
    ),
    "drawn csv": (_table_texts, _use_text("a.csv", "label")),
    "drawn svmlight": (_sparse_texts, _use_text("a.svm", None)),
    "drawn estimators": (
        lambda: st.tuples(_drawn_rows(), _drawn_labels(), _drawn_estimators()),
        _use_drawn_estimator,
    ),
}


#: Targets by name, those that mutate valid input.
TARGETS: dict[str, Case] = {
    "model file": model_file,
    "protocol file": protocol_file,
    "commitments": commitment_file,
    "stream state": stream_state,
    "fit checkpoint": fit_checkpoint,
    "audit checkpoint": audit_checkpoint,
    "csv twins": csv_twins,
    "csv": _table_case(".csv"),
    "svmlight": _table_case(".svm"),
    "npz": _table_case(".npz"),
    "parquet": _table_case(".parquet"),
    "paths": paths,
    "estimators": estimator,
    "command line": command_line,
}

#: MiB that a case may take: more where the input says how many columns there are.
MEMORY = {
    "protocol file": 128.0,
    "drawn protocol file": 128.0,
    "svmlight": 256.0,
    "estimators": 256.0,
    "command line": 256.0,
    "paths": 256.0,
}
