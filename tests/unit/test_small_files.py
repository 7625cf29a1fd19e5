"""A file of a few hundred bytes costs little, whatever it declares, unless that is asked for."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replearn as rl
from replearn import cli
from replearn.codes.canonical import canonical_json
from replearn.codes.model import EASY_FEATURES
from replearn.codes.space import CodeSpace
from replearn.files.modelfile import MAX_FEATURES


def declared(space: dict[str, Any], codes: list[int], n_features: int, recipe: str) -> bytes:
    content = {
        "classes": [0, 1],
        "codes": codes,
        "fit_intercept": False,
        "format": "replearn-model",
        "n_features": n_features,
        "recipe": recipe,
        "seed": "0",
        "space": space,
        "version": 1,
    }
    document = {
        "feature_names": None,
        "fingerprint": hashlib.sha256(canonical_json(content)).hexdigest(),
        "model": content,
        "provenance": {},
    }
    return canonical_json(document)


def projected(name: str, n_components: int) -> dict[str, Any]:
    return {
        "grid_width": "1",
        "n_components": n_components,
        "projection": name,
        "rounding": "centre",
    }


FILES = {
    "hadamard": declared(projected("hadamard", 1), [1], MAX_FEATURES, "svm"),
    "gaussian": declared(projected("gaussian", 64), [1] * 64, MAX_FEATURES, "svm"),
    "signs": declared(projected("signs", 64), [1] * 64, MAX_FEATURES, "svm"),
    "few features": declared(projected("gaussian", 5000), [1] * 5000, 200_000, "svm"),
    "net": declared(
        {"n_candidates": 10, "n_components": 16, "net": "random", "projection": "gaussian"},
        [3],
        MAX_FEATURES,
        "net",
    ),
    "no rounds": declared(
        {"boosting": "box", "grid_width": "1", "n_rounds": 0, "output": "halfspace"},
        [],
        MAX_FEATURES,
        "boost",
    ),
}

#: Memory of the process in MiB after the commands, above what imports take.
SCRIPT = """
import resource, sys
from replearn import cli
from replearn.files.modelfile import load
from replearn.audits import report, sites
from replearn import exports
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sys.argv[1:]:
    for command in (["show", path], ["show", path, "--json"], ["compare", path, sys.argv[1]]):
        assert cli.main(command) in (0, 1, 2)
    for command in (["export", path, "--to", "csv"], ["export", path, "--to", "sql"]):
        assert cli.main(command) == 2
print("MiB", (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory otherwise")
def test_what_is_not_asked_for_is_not_computed(tmp_path: Path) -> None:
    paths = []
    for name, content in FILES.items():
        assert len(content) < 11_000
        path = tmp_path / f"{name}.model.json"
        path.write_bytes(content)
        paths.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *paths], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert int(done.stdout.splitlines()[-1].split()[1]) < 100
    assert done.stdout.count("largest weights") == len(FILES)


@pytest.mark.parametrize("name", FILES)
def test_exports_and_reports_are_refused_until_asked_for(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.model.json"
    path.write_bytes(FILES[name])
    model = rl.load(path)
    assert model.is_large
    for export in (rl.to_csv, rl.to_sql, rl.to_onnx, rl.to_sklearn):
        with pytest.raises(rl.ReplearnError, match="large=True"):
            export(model)


def test_what_is_asked_for_is_computed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    n_features = EASY_FEATURES + 1
    path = tmp_path / "a.model.json"
    path.write_bytes(declared(projected("hadamard", 1), [1], n_features, "svm"))
    model = rl.load(path)
    assert rl.to_sklearn(model, large=True).coef_.shape == (1, n_features)
    assert rl.to_csv(model, large=True).count("\n") == n_features + 2
    assert cli.main(["show", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["coef"] is None
    assert cli.main(["show", str(path), "--json", "--large"]) == 0
    assert json.loads(capsys.readouterr().out)["coef"] == model.coef.tolist()
    assert cli.main(["show", str(path), "--report", str(tmp_path / "a.html")]) == 2
    assert "Pass --large" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()


def test_the_largest_weights_come_first() -> None:
    space = CodeSpace(4, "none", 4, "centre", "1")
    model = rl.Model("svm", 4, False, space, "0", (0, 1), np.array([1, -9, 9, 0]))
    names = [name for name, _ in model.largest_weights(4)]
    order = sorted(range(4), key=lambda i: -abs(model.coef[i]))
    assert names == [f"x{i}" for i in order]
    assert model.largest_weights(1)[0][1] == model.coef[order[0]]
