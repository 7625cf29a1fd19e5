"""Hostile input: a short slice of ``benchmarks/fuzz.py``, and all that it ever found."""

import contextlib
import copy
import io
import json
import os
import random
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import replearn as rl
from replearn.cli import main
from replearn.errors import InvalidFile, ReplearnError, ReplicabilityWarning
from replearn.fits.file_fit import fit_file
from replearn.sources import open_source, read_table
from replearn.study.commitments import load_commitment
from replearn.study.protocol import Protocol
from tests.fuzzing.commitments import commitment_documents
from tests.fuzzing.drawn import DRAWN
from tests.fuzzing.garbling import Raw, json_text, npy_bytes, npz_members, sealed
from tests.fuzzing.judging import draws, judge
from tests.fuzzing.models import model_documents
from tests.fuzzing.protocols import protocol_documents
from tests.fuzzing.samples import TABLE, X, Y, quiet_fit, small_svm
from tests.fuzzing.states import saved_stream, small_audit
from tests.fuzzing.targets import MEMORY, TARGETS

CASES = {
    "model file": 250,
    "protocol file": 120,
    "commitments": 150,
    "hints": 150,
    "sums": 60,
    "choice protocol": 60,
    "choice file": 100,
    "onnx": 10,
    "stream state": 150,
    "score stream state": 40,
    "fit checkpoint": 25,
    "audit checkpoint": 40,
    "csv twins": 200,
    "csv": 30,
    "svmlight": 20,
    "npz": 150,
    "parquet": 60,
    "weights column": 30,
    "paths": 100,
    "estimators": 60,
    "command line": 60,
}

# Parsers of binary formats that are not ours may not be safe in one process with all tests: the
# benchmark runs them apart.


@pytest.mark.parametrize("name", CASES)
def test_mutated_input_gives_a_result_or_a_documented_error(name: str, tmp_path: Path) -> None:
    kinds = set()
    (tmp_path / "warm").mkdir()
    with contextlib.suppress(ReplearnError):  # compiles, and makes valid input, without a clock
        TARGETS[name](random.Random(f"{name}/-1"), tmp_path / "warm")
    for number in range(CASES[name]):
        folder = tmp_path / str(number)
        folder.mkdir()
        rng = random.Random(f"{name}/{number}")
        verdict = judge(
            lambda f=folder, r=rng: TARGETS[name](r, f), 60, max(512, MEMORY.get(name, 0))
        )
        assert verdict.kind != "other", f"{name}, case {number}: {verdict.detail}"
        kinds.add(verdict.kind)
    assert kinds == {"result", "error"}  # else the generator has lost its bite


@pytest.mark.parametrize("name", DRAWN)
def test_drawn_input_gives_a_result_or_a_documented_error(name: str, tmp_path: Path) -> None:
    strategy, use = DRAWN[name]
    kinds = set()
    for number, value in enumerate(draws(strategy(), seed=0, n=30)):
        folder = tmp_path / str(number)
        folder.mkdir()
        verdict = judge(lambda f=folder, v=value: use(v, f), 60, 512)
        assert verdict.kind != "other", f"{name}, {value!r:.500}: {verdict.detail}"
        kinds.add(verdict.kind)
    assert kinds == {"result", "error"}


def test_the_judge_sees_what_is_wrong() -> None:
    def hang() -> None:
        while True:
            pass

    def crash() -> None:
        {}["x"]

    def grow() -> None:
        np.ones(20_000_000)

    def refuse() -> None:
        raise ReplearnError("no")

    assert judge(hang, seconds=0.1).detail.startswith("hang")
    assert "KeyError" in judge(crash).detail
    assert judge(grow).detail.startswith("memory: 1")
    assert judge(refuse).kind == "error"
    assert judge(lambda: None).kind == "result"


# --- found: model files -------------------------------------------------------------------------


def written(folder: Path, document: Any) -> Path:
    path = folder / "a.json"
    path.write_text(json_text(document), "utf-8")
    return path


def edited(document: Any, **changes: Any) -> Any:
    """A copy with other values in the file, the model or its space; the fingerprint fits."""
    changed = copy.deepcopy(document)
    for name, value in changes.items():
        model = changed["model"]
        place = next(p for p in (model, model["space"], changed) if name in p)
        place[name] = value
    return sealed(changed)


def of_space(**wanted: str) -> Any:
    return next(
        document
        for document in model_documents()
        if wanted.items() <= document["model"]["space"].items()
    )


@pytest.mark.parametrize("device", ["/dev/zero", "fifo"])
@pytest.mark.parametrize("load", [rl.load, Protocol.load, load_commitment])
def test_what_has_no_end_or_no_begin_is_not_read(load: Any, device: str, tmp_path: Path) -> None:
    path = Path(device)
    if device == "fifo":
        path = tmp_path / device
        os.mkfifo(path)
    with pytest.raises(InvalidFile, match=r"must be a regular file\. Copy it"):
        load(path)
    with pytest.raises(InvalidFile, match="must be a file, got a folder"):
        load(tmp_path)


def test_a_state_is_not_read_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InvalidFile, match="must be a regular file"):
        rl.ReplicableSGDClassifier().load_state(tmp_path / "fifo")


@pytest.mark.parametrize(
    "value", ["1e400", '"\\ud800"', "[" * 40 + "]" * 40, '{"a":' * 900 + "1" + "}" * 900]
)
@pytest.mark.parametrize("place", ["provenance", "notes"])
def test_what_could_not_be_written_again_is_not_read(
    value: str, place: str, tmp_path: Path
) -> None:
    if place == "provenance":
        path = written(tmp_path, edited(model_documents()[0], provenance={"a": Raw(value)}))
    else:
        path = written(tmp_path, protocol_documents()[0] | {"notes": {"a": Raw(value)}})
    load = rl.load if place == "provenance" else Protocol.load
    with pytest.raises(InvalidFile, match=r"not valid JSON: .*(too large|half of|nested)"):
        load(path)


def test_provenance_is_an_object(tmp_path: Path) -> None:
    path = written(tmp_path, edited(model_documents()[0], provenance=[1]))
    with pytest.raises(InvalidFile, match="provenance must be an object"):
        rl.load(path)


@pytest.mark.parametrize("version", [True, Raw("1.0"), [[1] * 999]])
def test_a_version_is_the_integer(version: Any, tmp_path: Path) -> None:
    for load, document in (
        (rl.load, edited(model_documents()[0], version=version)),
        (Protocol.load, protocol_documents()[0] | {"version": version}),
    ):
        with pytest.raises(InvalidFile, match=r"version .{1,60} is unknown") as caught:
            load(written(tmp_path, document))
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid_width": "9e+299"}, "grid_width must be from 1e-60 to 1e"),
        ({"grid_width": "1e-300"}, "grid_width must be from 1e-60 to 1e"),
        ({"n_features": 2**24 + 1}, "n_features must be an integer from 1 to 16,777,216"),
        ({"n_features": 2**24}, None),
        ({"n_features": 2**24, "projection": "rotation"}, "n_components"),
    ],
    ids=str,
)
def test_counts_and_widths_have_limits(changes: Any, message: str | None, tmp_path: Path) -> None:
    document = of_space(projection="gaussian", rounding="e8")
    path = written(tmp_path, edited(document, feature_names=None, **changes))
    if message is None:
        assert judge(lambda: rl.load(path), seconds=60).kind == "result"  # nothing is decoded yet
        return
    with pytest.raises(InvalidFile, match=message):
        rl.load(path)


def test_a_net_of_large_maps_is_refused(tmp_path: Path) -> None:
    """A file of 300 bytes kept a machine busy for days: 2^20 times 2^20 draws."""
    changes = {"n_components": 2**20, "n_features": 2**20, "projection": "gaussian"}
    path = written(tmp_path, edited(of_space(net="random"), feature_names=None, **changes))
    with pytest.raises(InvalidFile, match=r"a map of 1,048,577 inputs .* is too large"):
        rl.load(path)


def test_names_that_scikit_learn_cannot_hold(tmp_path: Path) -> None:
    document = next(d for d in model_documents() if "encoding" in d["model"])
    content = copy.deepcopy(document["model"]["encoding"])
    content[0]["name"] = "\0"
    model = rl.load(written(tmp_path, edited(document, encoding=content, feature_names=None)))
    with pytest.raises(ReplearnError, match="must be plain text for scikit-learn"):
        rl.to_sklearn(model)


# --- found: commitments, states, checkpoints ------------------------------------------------------


def test_the_format_of_a_commitment_is_a_name(tmp_path: Path) -> None:
    document = commitment_documents()[0] | {"format": {"a": 1}}
    with pytest.raises(InvalidFile, match="the format must be"):
        load_commitment(written(tmp_path, document))


def test_a_site_is_unicode() -> None:
    with pytest.raises(ReplearnError, match=r"site must be a string of .* Unicode"):
        rl.commit("ab" * 32, "\udc80")


@pytest.mark.parametrize(
    "header", [b"((((", b" {}\n x", b"\0", b"1" * 100, b"[" * 100], ids=lambda header: header[:4]
)
def test_arrays_of_a_state_with_odd_headers(header: bytes, tmp_path: Path) -> None:
    members = npz_members(saved_stream())
    content = members["hi.npy"]
    padded = header + b" " * (len(content[10:128]) - len(header))
    members["hi.npy"] = content[:8] + struct.pack("<H", len(padded)) + padded + content[128:]
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(InvalidFile, match=r"'hi' (is not an array|has the header)"):
        rl.ReplicableSGDClassifier(margin=0.3, batch_size=40).load_state(path)


@pytest.mark.parametrize("damage", ["length", "offsets", "cut", "mark"])
def test_damaged_rows_of_a_checkpoint_do_not_crash(damage: str, tmp_path: Path) -> None:
    table, state = tmp_path / "a.csv", tmp_path / "state"
    table.write_bytes(TABLE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        fit_file(small_svm(), table, "label", checkpoint=state)
    rows = state / "replearn-work" / "rows"
    (rows.parent / "sums-1.state").unlink()
    bucket = max(rows.glob("bucket-*"), key=lambda path: path.stat().st_size)
    content = bytearray(bucket.read_bytes())
    if damage == "length":
        content[:8] = b"\xff" * 8
    elif damage == "offsets":  # as 64-bit integers they point far outside
        content[-len(content) // 2 :] = b"\x7f" * (len(content) - len(content) // 2)
    elif damage == "cut":
        del content[-5:]
    else:
        (rows / "scattered.state").write_text('{"sizes": [1], "done": true}')
    bucket.write_bytes(content)
    with pytest.raises(InvalidFile, match=r"was altered or damaged: .* Delete its folder|no npz"):
        fit_file(small_svm(), table, "label", checkpoint=state)


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_codes", [1]), ("changed", [[]]), ("index", "0"), ("walls", [None]), ("errors", [0.1])],
)
def test_pairs_of_an_audit_have_their_types(name: str, value: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.json"
    small_audit(path)
    content = json.loads(path.read_text("utf-8"))
    content["pairs"][0][name] = value
    path.write_text(json.dumps(content), "utf-8")
    with pytest.raises(InvalidFile, match="is damaged"):
        small_audit(path)


# --- found: estimators ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"projection": []}, 'projection must be "auto" or one of'),
        ({"rounding": np.array(["ak"])}, 'rounding must be "auto" or one of'),
        ({"shuffle": np.array([True, False])}, "shuffle must be True or False"),
        ({"fit_intercept": "yes"}, "fit_intercept must be True or False, got 'yes'"),
        ({"mode": 3}, "mode must be a name, got 3"),
        ({"mode": []}, r"mode must be a name, got \[\]"),
        ({"shared_seed": "\ud800"}, "shared_seed must be a string of .* Unicode"),
        ({"shared_seed": "x" * 5000}, "shared_seed must be a string of at most 4096"),
        ({"margin": 10**400}, r"margin must be a number in \(0, 1\)"),
        ({"margin": 1e-300}, "margin must be from 1e-09 to 1 - 1e-09"),
        ({"max_error": 1e-300}, "max_error must be from 1e-09"),
        ({"class_weight": {1: 10**400}}, r"class_weight\[1\] must be a positive number"),
        ({"class_weight": {1: np.complex128(1)}}, r"class_weight\[1\] must be a positive number"),
        ({"max_disagreement": 5e-324}, "max_disagreement must be from 1e-09"),
        ({"grid_width": 1e-300}, "grid_width must be from 1e-60 to 1e"),
        ({"grid_width": 1e-30}, "grid_width must be so large that codes have at most 53 bits"),
        ({"grid_width": 1e-30, "rounding": "leech"}, "codes have at most 53 bits"),
        ({"regularization": 5e-324}, "regularization must be from 1e-60"),
        ({"grid_width": 0.3 + 0j}, 'grid_width must be "auto" or a positive number'),
        ({"projection": "signs", "n_components": 2**40}, "n_components must be at most 1,048,576"),
        ({"mode": "paper", "constants": {"C1": 1e300}}, r"constants\['C1'\] must be from 1e-12"),
        ({"mode": "paper", "constants": []}, "constants must be None or a dict"),
    ],
    ids=lambda value: str(value)[:60].encode("ascii", "replace").decode(),
)
def test_odd_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ReplearnError, match=message):
        quiet_fit(small_svm(**parameters), X, Y)


def test_a_protocol_cannot_be_overridden(tmp_path: Path) -> None:
    protocol = Protocol.load(written(tmp_path, protocol_documents()[0]))
    with pytest.raises(ReplearnError, match="margin is fixed by the protocol"):
        protocol.estimator(margin=0.2)


@pytest.mark.parametrize(
    "pair",
    [(2**62, 0), (1e300, -1e300), ("\ud800", "a"), ("x" * 5000, "a")],
    ids=lambda p: str(p)[:9].encode("ascii", "replace").decode(),
)
def test_labels_that_no_file_can_hold(pair: tuple[Any, Any]) -> None:
    labels = np.array(
        [pair[int(y > 0)] for y in Y], dtype=object if isinstance(pair[0], str) else None
    )
    for estimator in (small_svm(), rl.ReplicableSGDClassifier(margin=0.3)):
        with pytest.raises(ReplearnError, match=r"a model file must hold it\. Rename it"):
            quiet_fit(estimator, X, labels)


def test_names_that_no_file_can_hold() -> None:
    frame = pd.DataFrame(X, columns=["a", "x" * 5000, "c"])
    with pytest.raises(ReplearnError, match="the name of a column must be a string of at most"):
        quiet_fit(small_svm(), frame, Y)


def test_names_that_stand_twice() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "a"])
    with pytest.raises(ReplearnError, match="X must have different column names"):
        quiet_fit(small_svm(), frame, Y)
    fitted = quiet_fit(small_svm(), pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    with pytest.raises(ReplearnError, match="X must have different column names"):
        fitted.model_.predict(frame)


def test_entries_that_are_finite_but_not_their_sum() -> None:
    twice = sp.csr_matrix(([1e308, 1e308, 1.0], [0, 0, 0], [0, 2, 3]), shape=(2, 1))
    with pytest.raises(ReplearnError, match="X must be finite, got inf in row 0, column 0"):
        quiet_fit(small_svm(), twice, [0, 1])


def test_scores_that_are_not_finite_are_told() -> None:
    fitted = quiet_fit(small_svm(), X, Y)
    with pytest.raises(ReplearnError, match=r"weighted sum .* in row 1\. Scale its rows"):
        fitted.predict(np.array([[0.0, 0, 0], np.copysign(1.7e308, fitted.coef_[0])]))


def test_boosting_long_rows_takes_memory_for_a_few_of_them() -> None:
    """It took 48 kB for each feature: 2,000 draws of another lab's mean, three times."""
    long = sp.random_array((60, 10_000), density=0.001, format="csr", rng=np.random.default_rng(0))
    estimator = rl.ReplicableBoostingClassifier(margin=0.3, max_error=0.2, n_rounds=2)
    quiet_fit(estimator, X, Y)  # compiles
    verdict = judge(lambda: quiet_fit(estimator, long, np.arange(60) % 2), 60, 200)
    assert verdict.kind == "result", verdict.detail


def test_boosting_with_one_row_for_training() -> None:
    estimator = rl.ReplicableBoostingClassifier(margin=0.3, max_error=0.2, fresh_rows=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        assert estimator.fit(X[:2], [0, 1]).fingerprint_


@pytest.mark.parametrize("width", [np.float32(0.2), np.float16(0.2)])
def test_widths_in_single_precision(width: Any) -> None:
    assert quiet_fit(small_svm(grid_width=width), X, Y).fingerprint_


def test_rows_of_zeros_have_a_certificate() -> None:
    estimator = small_svm(published=rl.Published(unit_mean=True), batch_size=2, fit_intercept=False)
    fitted = quiet_fit(estimator, np.zeros((40, 3)), np.arange(40) % 2)
    assert np.isfinite(fitted.decision_function(X)).all()
    assert str(fitted.certificate_)


# --- found: tables --------------------------------------------------------------------------------


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(ReplearnError, match=r"must hold regular files only, got 'a\.csv'"):
        open_source(tmp_path)


def test_long_names_are_cut_in_messages(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a," + "1" * 100_000 + "\n1,2\n")
    with pytest.raises(ReplearnError, match="has no column 'label'") as caught:
        open_source(path, "label")
    assert len(str(caught.value)) < 1000


def test_one_number_does_not_make_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 1:1 16777216:1\n-1 2:1\n")
    with pytest.raises(ReplearnError, match=r"at most 1,048,576 columns unless .* --features"):
        open_source(path)
    assert open_source(path, n_features=2**24).n_features == 2**24


def test_text_that_is_not_unicode_in_an_archive(tmp_path: Path) -> None:
    labels = np.array(["a", "b"] * 20)
    labels.view(np.uint32)[3] = 0x7FFFFFFF
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", npy_bytes(X[:40]))
        archive.writestr("y.npy", npy_bytes(labels))
    with pytest.raises(ReplearnError, match="'y' has text that is not Unicode"):
        read_table(tmp_path / "a.npz")


@pytest.mark.parametrize("kind", [np.uint64, np.int64, np.uint32])
def test_rows_of_a_sparse_archive_that_overlap(kind: Any, tmp_path: Path) -> None:
    """Unsigned places passed the checks of SciPy, which then wrote outside of its arrays."""
    indptr = np.array([0, 2, 1, 3]).astype(kind)
    np.savez(tmp_path / "a.npz", data=np.ones(3), indices=[0, 1, 0], indptr=indptr, shape=(3, 2))
    with pytest.raises(ReplearnError, match="must hold a valid CSR matrix"):
        read_table(tmp_path / "a.npz")


# --- found: the command line ----------------------------------------------------------------------


def said(*arguments: str) -> tuple[int, str]:
    """Exit code and standard error of a command, whose output is strict UTF-8."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    err = io.TextIOWrapper(
        io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True
    )
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(list(arguments))
        except SystemExit as problem:
            code = int(str(problem.code))
    return code, err.buffer.getvalue().decode()  # type: ignore[attr-defined]


@pytest.mark.parametrize("argument", ["a\nb", "\x1b[31m", "a\rb"])
def test_what_was_typed_does_not_steer_the_terminal(argument: str) -> None:
    code, text = said("show", "x.json", argument)
    assert code == 2
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "\r" not in text


def test_arguments_that_are_not_utf_8(tmp_path: Path) -> None:
    table, model = tmp_path / "a.csv", tmp_path / "a.model.json"
    table.write_bytes(TABLE)
    model.write_text(json_text(model_documents()[0]), "utf-8")
    data = [str(table), "--target", "label"]
    assert said("show", str(model), "--report", str(tmp_path / "\udc80.html"))[0] == 0
    for refused in (
        ("compare", "--commit", str(model), "--site", "\udc80", "--out", str(tmp_path / "x")),
        ("shuffle", str(table), "--out", str(tmp_path / "b.csv"), "--seed", "\udc80"),
        ("audit", *data, "--pairs", "2", "--audit-seed", "\udc80"),
        ("fit", *data, "--seed", "\udc80"),
    ):
        code, text = said(*refused)
        assert code == 2, text
        assert "Unicode characters" in text
