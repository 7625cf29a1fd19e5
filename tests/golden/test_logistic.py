"""Logistic models never change: a recorded protocol, and fingerprints of fits under it.

``python tests/golden/test_logistic.py`` prints what is recorded below.
"""

from pathlib import Path

import numpy as np
import pytest

import replearn as rl
from tests.golden.test_fits import noisy

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # few rows

PROTOCOL = Path(__file__).parent / "logistic_protocol.json"
RECORDED = {
    "protocol": "c82a9e27eb842abc467033754f8008fa168cf5e0a78f03ea072537bf26683410",
    "lead": "c388ddecae0fff22b33be58a97fd4513c9133307414e411abccd987a24ee2713",
    "hint 5": "34743b687e4378446c79092cdc0ccc7e8d8e3258c322026b9fbce6520e43d5b5",
    "promise": "6484a87b7918dc2889571469232498470afa2f7d6342f29c0912befdeaba4207",
}


def fits() -> dict[str, str]:
    X, y = noisy()
    labels = np.where(y > 0, 1, 0)
    protocol = rl.Protocol.load(PROTOCOL)
    lead = protocol.estimator().fit(X, labels)
    promised = rl.ReplicableLogisticClassifier(shared_seed="golden", samples_per_site=2000)
    return {
        "protocol": protocol.fingerprint,
        "lead": lead.fingerprint_,
        "hint 5": protocol.estimator(hint=5).fit(X, labels).fingerprint_,
        "promise": promised.fit(X, labels).fingerprint_,
    }


def test_recorded_logistic_fits() -> None:
    assert fits() == RECORDED


if __name__ == "__main__":
    if not PROTOCOL.exists():
        X, y = noisy()
        plan = rl.plan_from_pilot(
            X[:500], np.where(y[:500] > 0, 1, 0), samples_per_site=1200, hint_bits=3
        )
        plan.protocol.save(PROTOCOL)
    for name, fingerprint in fits().items():
        print(f'    "{name}": "{fingerprint}",')
