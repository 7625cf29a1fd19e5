"""ONNX files as candidates: common shapes are understood, hostile ones end in one line."""

import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto

import replearn as rl
from replearn.codes.encoding import CategoryColumn, Encoding, NumberColumn
from replearn.files.onnx_model import OnnxLimits, OnnxModel
from tests.unit import onnx_files

RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 8))
WEIGHTS = np.array([2.0, -1, 0.5, 0, 0, 1, 0, -0.3])
Y = (X @ WEIGHTS + RNG.logistic(size=600) > 0).astype(int)


@pytest.fixture
def folder(tmp_path):
    return tmp_path


def write(folder, name, proto):
    path = folder / f"{name}.onnx"
    content = proto if isinstance(proto, bytes) else proto.SerializeToString()
    path.write_bytes(content)
    return path


def test_labels_probabilities_and_scores(folder):
    path = write(folder, "both", onnx_files.linear(WEIGHTS))
    model = OnnxModel(path)
    chances = 1 / (1 + np.exp(-(X @ WEIGHTS)))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], chances, atol=1e-5)
    assert (model.predict(X) == (chances > 0.5)).all()
    np.testing.assert_allclose(model.decision_function(X), chances, atol=1e-5)


@pytest.mark.parametrize("shape", ["maps", "one column", "probabilities alone", "double"])
def test_other_shapes_say_the_same(folder, shape):
    proto = {
        "maps": lambda: onnx_files.zipped(WEIGHTS),
        "one column": lambda: onnx_files.linear(WEIGHTS, give=("label", "yes")),
        "probabilities alone": lambda: onnx_files.linear(WEIGHTS, give=("probabilities",)),
        "double": lambda: onnx_files.linear(WEIGHTS, kind=TensorProto.DOUBLE),
    }[shape]()
    model = OnnxModel(write(folder, "other", proto), classes=[0, 1])
    chances = 1 / (1 + np.exp(-(X @ WEIGHTS)))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], chances, atol=1e-5)
    assert (model.predict(X) == (chances > 0.5)).all()


def test_exports_of_replearn_with_named_columns_and_text(folder):
    table = pd.DataFrame(X[:, :2], columns=["dose", "size"])
    table["kind"] = np.where(X[:, 2] > 0, "a", "b")
    labels = np.where(X[:, 0] > 0, "ill", "well")
    encoding = Encoding(
        (
            NumberColumn("dose", "0", "1", False),
            NumberColumn("size", "0", "2", False),
            CategoryColumn("kind", ("a", "b")),
        )
    )
    classifier = rl.ReplicableSVMClassifier(
        max_disagreement=0.99, batch_size=20, published=rl.Published(encoding=encoding)
    )
    model = classifier.fit(table, labels).model_
    path = write(folder, "exported", rl.to_onnx(model))
    assert (OnnxModel(path).predict(table) == model.predict(table)).all()


def test_a_choice_among_files(folder):
    paths = [
        write(folder, name, onnx_files.linear(WEIGHTS * share))
        for name, share in (("bold", 3.0), ("right", 1.0), ("shy", 0.3))
    ]
    chosen = rl.ReplicableChoiceClassifier(
        [str(path) for path in paths], scoring="neg_log_loss", noise_scale=1e-6, classes=[0, 1]
    )
    chosen.fit(X, Y)
    assert chosen.choice_.name == "right"
    candidate = chosen.choice_.chosen
    assert (candidate.file, len(candidate.sha256)) == ("right.onnx", 64)
    np.testing.assert_allclose(chosen.predict_proba(X).sum(axis=1), 1, atol=1e-6)


def test_another_hash_is_refused_by_name(folder):
    path = write(folder, "mine", onnx_files.linear(WEIGHTS))
    with pytest.raises(rl.InvalidFile, match=r"mine\.onnx must have the SHA-256 000"):
        OnnxModel(path, sha256="0" * 64)
    with pytest.raises(rl.InvalidFile, match=r"mine\.onnx must have the SHA-256 000"):
        rl.ReplicableChoiceClassifier([path], hashes={"mine": "0" * 64}, classes=[0, 1]).fit(X, Y)


@pytest.mark.parametrize(
    ("proto", "words"),
    [
        (b"", "no ONNX model"),
        (b"no model at all", "no ONNX model"),
        (bytes(range(256)) * 40, "no ONNX model"),
        (onnx_files.external().SerializeToString(), "other files"),
        (onnx_files.external(inside_a_node=True).SerializeToString(), "other files"),
        (onnx_files.foreign().SerializeToString(), "com.somebody"),
        (onnx_files.greedy().SerializeToString(), "could not be run"),
    ],
)
def test_hostile_files_end_in_one_line(folder, proto, words):
    path = write(folder, "hostile", proto)
    model = OnnxModel(path, limits=OnnxLimits(memory_bytes=1 << 32))
    with pytest.raises(rl.InvalidFile, match=words) as caught:
        model.predict(X)
    assert "hostile.onnx" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_never_ends_is_stopped(folder):
    path = write(folder, "endless", onnx_files.endless())
    with pytest.raises(rl.InvalidFile, match="took more than 4 seconds to run, and was stopped"):
        OnnxModel(path, limits=OnnxLimits(seconds=4)).predict(X)


def test_a_choice_names_the_hostile_candidate(folder):
    good = write(folder, "good", onnx_files.linear(WEIGHTS))
    bad = write(folder, "bad", onnx_files.foreign())
    with pytest.raises(rl.InvalidFile, match=r"candidate 'bad': .*bad\.onnx could not be loaded"):
        rl.ReplicableChoiceClassifier([good, bad], classes=[0, 1]).fit(X, Y)


def test_large_files_folders_and_devices_are_refused(folder):
    path = write(folder, "large", onnx_files.linear(WEIGHTS))
    with pytest.raises(rl.InvalidFile, match="at most 100 are read"):
        OnnxModel(path, limits=OnnxLimits(file_bytes=100))
    with pytest.raises(rl.InvalidFile, match="got a folder"):
        OnnxModel(folder)
    with pytest.raises(rl.InvalidFile, match="regular file"):
        OnnxModel("/dev/zero")


def test_rows_that_do_not_fit_are_refused(folder):
    model = OnnxModel(write(folder, "eight", onnx_files.linear(WEIGHTS)))
    with pytest.raises(rl.ReplearnError, match="takes 8 columns, got 3"):
        model.predict(X[:, :3])
    with pytest.raises(rl.ReplearnError, match="matrix of numbers"):
        model.predict(np.full((3, 8), "x"))
    holes = X.copy()
    holes[7, 0] = np.nan
    with pytest.raises(rl.ReplearnError, match="NaN or inf in row 7"):
        model.predict_proba(holes)
    scores = OnnxModel(write(folder, "labels", onnx_files.linear(WEIGHTS, give=("label",))))
    with pytest.raises(rl.ReplearnError, match="must give probabilities"):
        scores.predict_proba(X)
