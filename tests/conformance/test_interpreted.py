"""Without compilation the kernels are plain Python: slow, and to the bit the same."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Quick ones of the recorded fits, each kind of kernel among them.
FITS = [
    *("svm, fine", "svm, CSR", "svm, private order", "sgd", "boost, foam", "boost, majority"),
]


def test_recorded_fits_without_compilation() -> None:
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    tests = [f"tests/golden/test_fits.py::test_recorded_fits[{name}]" for name in FITS]
    tests += ["tests/golden/test_logistic.py", "tests/golden/test_streams.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stdout[-2000:]
