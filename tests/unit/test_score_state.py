"""Logistic streams on disk: resumed anywhere, refused if damaged, kill -9 safe."""

import io
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn.errors import InvalidFile
from replearn.files.statefile import _digest

N, NAMES = 1200, ["a", "b", "c"]


def draw(n_rows=N, seed=1, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3)) * [1, 5, 0.2] + [0, 2, 1]
    scores = np.column_stack([np.zeros(n_rows), X[:, 0] - 0.3 * X[:, 1], X[:, 2] - X[:, 0]])
    noise = rng.gumbel(size=(n_rows, n_classes))
    return pd.DataFrame(X, columns=NAMES), (scores[:, :n_classes] + noise).argmax(axis=1)


def planned(n_classes):
    X, y = draw(500, seed=2, n_classes=n_classes)
    plan = rl.plan_from_pilot(X, y, samples_per_site=N, max_disagreement=0.5, study="updating")
    assert plan.protocol.design.n_steps == 1
    return plan.protocol


@pytest.fixture(scope="module")
def protocols():
    return {n_classes: planned(n_classes) for n_classes in (2, 3)}


@pytest.fixture
def protocol(protocols):
    return protocols[2]


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weighted", [(False, False), (True, True), (False, True)])
def test_a_stream_goes_on_elsewhere_to_the_same_model(protocols, tmp_path, n_classes, weighted):
    X, y = draw(n_classes=n_classes)
    weights = np.random.default_rng(3).integers(0, 5, N) / 4
    parts, path = (slice(0, 700), slice(700, N)), tmp_path / "stream.npz"
    some = [weights[part] if has else None for part, has in zip(parts, weighted, strict=True)]
    protocol, classes = protocols[n_classes], list(range(n_classes))
    one = protocol.estimator().partial_fit(X[:700], y[:700], classes, sample_weight=some[0])
    one.save_state(path)
    resumed = protocol.estimator().load_state(path)
    assert resumed.fingerprint_ == one.fingerprint_
    assert resumed.certificate_ == one.certificate_
    resumed.partial_fit(X[700:], y[700:], sample_weight=some[1])
    backwards = protocol.estimator()
    for part, weight in zip(parts[::-1], some[::-1], strict=True):
        order = np.arange(N)[part][::-1]
        turned = None if weight is None else weight[::-1]
        backwards.partial_fit(X.iloc[order], y[order], classes, sample_weight=turned)
    assert resumed.fingerprint_ == backwards.fingerprint_
    assert resumed.certificate_ == backwards.certificate_
    assert resumed.seen_ == backwards.seen_
    resumed.save_state(path)
    backwards.save_state(tmp_path / "other.npz")
    assert _arrays(path) == _arrays(tmp_path / "other.npz")


def _arrays(path):
    with np.load(path, allow_pickle=False) as content:
        return {name: content[name].tolist() for name in content.files}


def test_streams_of_algorithm_2_under_an_encoding_go_on(protocol, tmp_path):
    X, y = draw()
    published = rl.Published(encoding=protocol.encoding, classes=(0, 1))
    one, two = (rl.ReplicableSGDClassifier(batch_size=40, published=published) for _ in range(2))
    one.partial_fit(X[:500], y[:500]).save_state(tmp_path / "stream.npz")
    two.load_state(tmp_path / "stream.npz").partial_fit(X[500:], y[500:])
    one.partial_fit(X[500:], y[500:])
    assert two.fingerprint_ == one.fingerprint_
    assert two.seen_ == one.seen_
    assert two.seen_.n_rows == N


def test_only_streams_of_the_same_protocol_are_resumed(protocol, protocols, tmp_path):
    X, y = draw()
    path = tmp_path / "stream.npz"
    with pytest.raises(rl.ReplearnError, match="no stream to save"):
        protocol.estimator().save_state(path)
    protocol.estimator().partial_fit(X, y).save_state(path)
    with pytest.raises(InvalidFile, match="must be 3 classes"):
        protocols[3].estimator().load_state(path)
    with pytest.raises(rl.ReplearnError, match="rows once"):
        rl.ReplicableLogisticClassifier().load_state(path)
    with pytest.raises(InvalidFile, match="not a saved stream"):
        rl.ReplicableSGDClassifier().load_state(path)


def rewritten(path, change, seal=True):
    """The file with its arrays changed, and a digest that fits."""
    with np.load(path) as content:
        arrays = dict(content.items())
    header = json.loads(arrays.pop("header").tobytes())
    change(arrays, header)
    if seal:
        header["digest"] = _digest(arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    path.write_bytes(buffer.getvalue())


def _set(name, place, value):
    return lambda arrays, header: arrays[name].__setitem__(place, value)


def _about(**changes):
    return lambda arrays, header: header["about"]["estimator"].update(changes)


DAMAGES = {
    "rows": (_set("counts", 0, 0), "must be of rows"),
    "zero rows": (_set("counts", 1, N + 1), "must be of rows"),
    "more rows": (_set("counts", 0, N + 1), "must weigh 1"),
    "flag": (_set("counts", 4, 2), "contradict"),
    "heaviest": (_set("counts", 5, 1), "must weigh 1"),
    "class": (_set("class_weights", 0, -1), "weights of classes"),
    "limb": (_set("limbs", (1, 0), -1), "lower limbs"),
    "sum": (_set("limbs", (0, 0), 2**60), "do not come from rows"),
    "square": (_set("limbs", (0, -1), -5), "do not come from rows"),
    "names": (_about(feature_names=["a"]), "strings"),
    "classes": (_about(classes=[1, 0]), "in order"),
    "three": (_about(classes=[0, 1, 2]), "2 classes"),
    "seen": (_about(seen=[5, [6, 0, 0], [0, 0, 0]]), "seen must be"),
    "keys": (lambda a, h: h["about"].pop("design"), "must have the keys"),
    "design": (lambda a, h: h["about"].update(design=3), "another design"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_sums_that_no_rows_give_are_refused(protocol, tmp_path, damage):
    change, words = DAMAGES[damage]
    path = tmp_path / "stream.npz"
    protocol.estimator().partial_fit(*draw()).save_state(path)
    rewritten(path, change)
    fresh = protocol.estimator()
    with pytest.raises(InvalidFile, match=words):
        fresh.load_state(path)
    assert not hasattr(fresh, "model_")


def test_an_altered_file_is_refused(protocol, tmp_path):
    path = tmp_path / "stream.npz"
    protocol.estimator().partial_fit(*draw()).save_state(path)
    rewritten(path, _set("limbs", (1, 0), 5), seal=False)
    with pytest.raises(InvalidFile, match="altered or damaged"):
        protocol.estimator().load_state(path)


WRITER = """
import sys
from pathlib import Path
import numpy as np
import replearn as rl
folder = Path(sys.argv[1])
with np.load(folder / "rows.npz") as rows:
    X, y = rows["X"], rows["y"]
clf = rl.Protocol.load(folder / "study.json").estimator()
if (folder / "stream.npz").exists():
    clf.load_state(folder / "stream.npz")
n_seen = clf._stream.sums.n_rows if hasattr(clf, "_stream") else 0
for start in range(n_seen, len(y), 4):
    piece = slice(start, start + 4)
    names = dict(zip("abc", X[piece].T))
    clf.partial_fit(names, y[piece], classes=[0, 1]).save_state(folder / "stream.npz")
    (folder / "started").touch()
print(clf.fingerprint_)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="kills of Linux")
def test_kill_9_loses_nothing_that_was_saved(protocol, tmp_path):
    X, y = draw(160)
    np.savez(tmp_path / "rows.npz", X=X.to_numpy(), y=y)
    protocol.save(tmp_path / "study.json")
    n_killed = 0
    for kill in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, tmp_path],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        (tmp_path / "started").unlink(missing_ok=True)
        if kill < 2:
            while process.poll() is None and not (tmp_path / "started").exists():
                time.sleep(0.002)
            time.sleep(0.03 * (kill + 1))
            process.send_signal(signal.SIGKILL)
        out, words = process.communicate(timeout=120)
        n_killed += process.returncode == -signal.SIGKILL
        saved = protocol.estimator().load_state(tmp_path / "stream.npz")  # whole at any moment
        assert saved._stream.sums.n_rows % 4 == 0
    assert n_killed >= 1
    assert process.returncode == 0, words
    assert out.strip() == protocol.estimator().partial_fit(X, y).fingerprint_
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
