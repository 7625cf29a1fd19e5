"""Linear regressions never change: a recorded protocol, and fingerprints of fits under it.

``python -m tests.golden.test_linear`` prints what is recorded below.
"""

from pathlib import Path

import numpy as np
import pytest

import replearn as rl
from tests.golden.test_fits import noisy

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # few rows

PROTOCOL = Path(__file__).parent / "linear_protocol.json"
RECORDED = {
    "protocol": "c31e4a1c6137689a6a69788c35f2e66eb274aeb3898f8a31735985346f7e42ef",
    "lead": "63729f425e84b946a7f57b00079371864311995426c82860f0fa851e93cedd8e",
    "hint 5": "5b97b6a8885947c57581678fcec79cd41837d78e0d1c43ef15ccb24bfd5e8cb9",
    "weights": "63729f425e84b946a7f57b00079371864311995426c82860f0fa851e93cedd8e",
    "promise": "a1135f2960f8db486c667b79920a235d99dd4690ac0e7d9d50519b0b81930dc1",
}


def rows() -> tuple[np.ndarray, np.ndarray]:
    X, _ = noisy()
    return X, 10 * X[:, 0] - 3 * X[:, 1] + np.arange(len(X)) % 7


def fits() -> dict[str, str]:
    X, y = rows()
    protocol = rl.Protocol.load(PROTOCOL)
    weights = np.where(y > 4, 3, 0.25)
    promised = rl.ReplicableLinearRegressor(
        y_range=(-20, 25), shared_seed="golden", samples_per_site=2000
    )
    return {
        "protocol": protocol.fingerprint,
        "lead": protocol.estimator().fit(X, y).fingerprint_,
        "hint 5": protocol.estimator(hint=5).fit(X, y).fingerprint_,
        "weights": protocol.estimator().fit(X, y, sample_weight=weights).fingerprint_,
        "promise": promised.fit(X, y).fingerprint_,
    }


def test_recorded_linear_fits() -> None:
    assert fits() == RECORDED


if __name__ == "__main__":
    if not PROTOCOL.exists():
        X, y = rows()
        rl.plan_regression(
            X[:500], y[:500], samples_per_site=1200, hint_bits=3, n_directions=3
        ).protocol.save(PROTOCOL)
    for name, fingerprint in fits().items():
        print(f'    "{name}": "{fingerprint}",')
