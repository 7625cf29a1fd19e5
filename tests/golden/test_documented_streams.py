"""Every stream that a fit reads stands in docs/shared-randomness.md: others must be able to."""

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replearn as rl
from replearn.codes.randomness import SharedRandomness

PAGE = Path(__file__).parents[2] / "docs" / "shared-randomness.md"
X, Y = rl.datasets.make_margin(600, 3, margin=0.3, random_state=0)


def documented() -> list[re.Pattern[str]]:
    """Patterns of the names in the table: ``{t}`` is anything without a slash."""
    section = PAGE.read_text("utf-8").split("## Which stream", 1)[1].split("## Test vectors")[0]
    patterns = []
    for line in section.splitlines():
        if not line.startswith("| `"):
            continue
        names = re.findall(r"`([^`]+)`", line.split("|")[1])
        for name in names:
            full = name if not name.startswith("/") else "{purpose}" + name
            full = full.replace("{purpose}", "choice")  # unless the user says otherwise
            patterns.append(re.compile(re.sub(r"\\\{[a-z]+\\\}", "[^/]+", re.escape(full))))
    return patterns


def svm(**parameters: Any) -> Any:
    return rl.ReplicableSVMClassifier(margin=0.3, **parameters).fit(X, Y)


FITS: dict[str, Callable[[], Any]] = {
    "svm": svm,
    "unknown margin": lambda: rl.ReplicableSVMClassifier(margin="auto").fit(X, Y),
    "private order": lambda: svm(random_state=1),
    "paper": lambda: svm(projection="gaussian", n_components=2, rounding="ak"),
    "signs": lambda: svm(projection="signs", n_components=2),
    "rotation": lambda: svm(projection="rotation"),
    "hadamard": lambda: svm(projection="hadamard", n_components=2),
    "sgd": lambda: rl.ReplicableSGDClassifier(margin=0.3).fit(X, Y),
    "net": lambda: rl.ReplicableNetClassifier(margin=0.3).fit(X, Y),
    "agnostic": lambda: rl.ReplicableNetClassifier(margin=0.3, agnostic=True).fit(X, Y),
    "lattice": lambda: rl.ReplicableNetClassifier(margin=0.5, net="lattice").fit(X, Y),
    "dp": lambda: rl.ReplicableDPClassifier(margin=0.3).fit(X, Y),
    "holenstein": lambda: rl.ReplicableDPClassifier(margin=0.3, sampling="holenstein").fit(X, Y),
    "box": lambda: rl.ReplicableBoostingClassifier(margin=0.3, rounding="box").fit(X, Y),
    "foam": lambda: rl.ReplicableBoostingClassifier(margin=0.3, rounding="foam").fit(X, Y),
    "scaler": lambda: rl.ReplicableScaler().fit(X),
    "bounded scaler": lambda: rl.ReplicableScaler(
        bounds=(-1, 1), tolerance=0.4, max_disagreement=0.9
    ).fit(np.repeat(X, 20, axis=0)),
    "mean": lambda: rl.replicable_mean(np.full(10**5, 0.5), 0.1, name="age"),
    "choice": lambda: rl.correlated_choice([0.0, 1.0], 1),
    "noisy best": lambda: rl.noisy_best([0.1, 0.2], 0.1, 1),
    "models": lambda: rl.ReplicableChoiceClassifier([0, 1], scoring="roc_auc").fit(X, Y),
    "search": lambda: rl.ReplicableSearchCV(
        rl.ReplicableSVMClassifier(margin=0.3), {"regularization": [1.0]}, cv=2, refit=False
    ).fit(X, Y),
    "number": lambda: rl.replicable_score(0, X, Y, "roc_auc", grid_width=0.5, name="auc"),
    "first below": lambda: rl.first_below([0.1, 0.2], 1, high=0.3, cell=0.1),
}


@pytest.mark.parametrize("name", FITS)
def test_every_stream_is_documented(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    key = SharedRandomness.key

    def watched(self: SharedRandomness, stream: str) -> Any:
        if self.seed not in ("certificate", "walls", "cell prices"):  # these decide about no code
            read.add(stream)
        return key(self, stream)

    monkeypatch.setattr(SharedRandomness, "key", watched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        FITS[name]()
    patterns = documented()
    assert read
    missing = {name for name in read if not any(p.fullmatch(name) for p in patterns)}
    assert not missing
