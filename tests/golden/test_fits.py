"""Fits of every algorithm, and a pilot's protocol, never change: recorded fingerprints.

Only public names are used, so that no change inside the package touches this file. A difference
here is a changed output: it goes into CHANGELOG.md and raises the format version.
``python tests/golden/test_fits.py`` prints what is recorded below.
"""

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import replearn as rl

RECORDED: dict[str, str] = {
    "svm": "79fab15f8d5a69b24837d350102e271bda4cc51e644550774372c806a4d5b3ab",
    "svm, fine": "1aa23e4779f8801b489f1cd011251b79ec95976e300abe2590b75d232cd1279d",
    "svm, unknown margin": "b2d071a537487fac32d21dba765ad8f93a7989ecc6094d000da5123352b141a7",
    "svm, CSR": "1aa23e4779f8801b489f1cd011251b79ec95976e300abe2590b75d232cd1279d",
    "svm, in order": "925068e9be197d72c78e07732824fbf1e5d93305f8355faad3500023a0159efc",
    "svm, private order": "416ccbb32c649372a315727cc6eee502ec3a56a04bec50aeffb7dec66a822b1b",
    "sgd": "3902091702e84148893f64ac30049b574a5ca75cd71bf55a89c7f8566a9d6ced",
    "sgd, paper": "c9c6e63789e32878d73a44ccde9946d69ae6eb812c9472da48c6797334126ad2",
    "net": "2c58efcd11f539342c7ccfc21b03b3ab1426b9ca1c13abeff49fee1680917219",
    "net, agnostic": "e279164d1ab5830b04b70f4f92b7a9f30d7558f256da14b04e4f8c28fd0ed0a7",
    "dp": "b42e0205cfd31000414a6495e7139043f8a8753085e9adc327e74fbfbda099fb",
    "boost, box": "feb570e22cad693bd9713afa191f109b8d75d6f9c0fa31ae49d59522d0f57f16",
    "boost, foam": "e99ae28cf7885f9eb36b3ee9d7323bdb42a9df90506bbc77f9fcaf1059596df0",
    "boost, majority": "9eafb3cd88c30618a5eb0061d4f54f8e09f8c8cdd8a0555876721878d715625a",
    "protocol of a matrix": "0053ad9cb8dd829091dd9b0a58afa0f93d0635fdea17cac5b2fad26c540bfc17",
    "fit under it": "3e88f9b1fc4f9f991ce7ca99b58c062a97d77a7a5f0229a31b9c63ac1c1f929c",
    "protocol of a table": "8158325c71a24efe270df40b6267780b2ea44767e3304316cc13aea536bda7a5",
    "fit of a table": "bb11269902bfc43718bfbbbd5fde787f65aa8dd9d5275ac8e8e9b15fba7d1483",
    "fit, older protocol": "a6758247a703d2cdc2af3de7c4df3436a35fd21f9ab54fcf1dc5dc067fa82438",
    "table, older protocol": "5d68a2ae30f8ad5e16ebc510017b87ed04be12362a1b8bb2718dac122b27ad56",
}


def rows(n_rows: int = 1200) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers from a linear congruential generator, labelled by a halfspace."""
    normal, state = (3, -2, 5), 4321
    X: list[list[int]] = []
    y: list[int] = []
    while len(X) < n_rows:
        row = []
        for _ in normal:
            state = (1103515245 * state + 12345) % 2**31
            row.append((state >> 16) % 201 - 100)
        height = sum(w * x for w, x in zip(normal, row, strict=True))
        if abs(height) >= 120:
            X.append(row)
            y.append(1 if height > 0 else -1)
    return np.array(X, dtype=np.float64), np.array(y)


def table(n_rows: int = 600) -> tuple[pd.DataFrame, np.ndarray]:
    """The same rows as a table with names, a category and missing values."""
    X, y = rows(n_rows)
    frame = pd.DataFrame({"age": X[:, 0], "dose": X[:, 1] / 8})
    frame["group"] = np.array(["a", "b", "c"])[(X[:, 2] // 67 + 1).astype(int) % 3]
    frame.loc[::50, "dose"] = np.nan
    return frame, np.where(y > 0, "yes", "no")


def of(estimator: object, X: object, y: object) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # few rows
        return estimator.fit(X, y).fingerprint_  # type: ignore[attr-defined]


def planned(X: object, y: object) -> rl.Protocol:
    return rl.plan_from_pilot(
        X, y, samples_per_site=20_000, shared_seed="golden", algorithm="svm"
    ).protocol


def kept(name: str) -> rl.Protocol:
    """A protocol that version 0.1 planned."""
    return rl.Protocol.load(Path(__file__).parent / f"svm_protocol_of_a_{name}.json")


def noisy() -> tuple[np.ndarray, np.ndarray]:
    """The same rows, every seventh label wrong."""
    X, y = rows()
    return X, np.where(np.arange(y.size) % 7 == 0, -y, y)


COMMON = {"margin": 0.2, "shared_seed": "golden"}
FINE = COMMON | {"grid_width": 0.001}  # so that the order of the rows shows
FITS: dict[str, Callable[[], str]] = {
    "svm": lambda: of(rl.ReplicableSVMClassifier(**COMMON), *rows()),
    "svm, fine": lambda: of(rl.ReplicableSVMClassifier(**FINE), *noisy()),
    "svm, unknown margin": lambda: of(
        rl.ReplicableSVMClassifier(margin="auto", shared_seed="golden"), *noisy()
    ),
    "svm, CSR": lambda: of(
        rl.ReplicableSVMClassifier(**FINE), sp.csr_matrix(noisy()[0]), noisy()[1]
    ),
    "svm, in order": lambda: of(rl.ReplicableSVMClassifier(**FINE, shuffle=False), *noisy()),
    "svm, private order": lambda: of(rl.ReplicableSVMClassifier(**FINE, random_state=5), *noisy()),
    "sgd": lambda: of(rl.ReplicableSGDClassifier(**FINE), *noisy()),
    "sgd, paper": lambda: of(
        rl.ReplicableSGDClassifier(**COMMON, mode="paper", batch_size=100, n_batches=8), *rows()
    ),
    "net": lambda: of(rl.ReplicableNetClassifier(**COMMON), *rows()),
    "net, agnostic": lambda: of(rl.ReplicableNetClassifier(**COMMON, agnostic=True), *noisy()),
    "dp": lambda: of(rl.ReplicableDPClassifier(**COMMON), *noisy()),
    "boost, box": lambda: of(rl.ReplicableBoostingClassifier(**COMMON, rounding="box"), *rows()),
    "boost, foam": lambda: of(rl.ReplicableBoostingClassifier(**COMMON, rounding="foam"), *rows()),
    "boost, majority": lambda: of(
        rl.ReplicableBoostingClassifier(**COMMON, rounding="box", output="majority"), *rows()
    ),
    "protocol of a matrix": lambda: planned(*rows(400)).fingerprint,
    "fit under it": lambda: of(planned(*rows(400)).estimator(), *rows()),
    "protocol of a table": lambda: planned(*table()).fingerprint,
    "fit of a table": lambda: of(planned(*table()).estimator(), *table()),
    # a better planner makes other protocols; those that labs have give the models that they gave
    "fit, older protocol": lambda: of(kept("matrix").estimator(), *rows()),
    "table, older protocol": lambda: of(kept("table").estimator(), *table()),
}


@pytest.mark.parametrize("name", FITS)
def test_recorded_fits(name: str) -> None:
    assert FITS[name]() == RECORDED[name]


if __name__ == "__main__":
    print("RECORDED: dict[str, str] = {")
    for name, fingerprint in FITS.items():
        print(f'    "{name}": "{fingerprint()}",')
    print("}")
