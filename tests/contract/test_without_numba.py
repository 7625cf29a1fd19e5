"""Without the extra ``halfspaces``: what NumPy can do works, the rest is refused in one line."""

import subprocess
import sys

import pytest

_HIDDEN = "import sys; sys.modules['numba'] = None\n"

_PRACTICAL = """
import replearn as rl
X, y = rl.datasets.make_margin(2500, 4, margin=0.3, random_state=1)
for bits in (0, 3):
    fitted = rl.ReplicableSVMClassifier(margin=0.3, max_error=0.1, sketch_bits=bits).fit(X, y)
    print(fitted.fingerprint_, fitted.score(X, y) > 0.95)
print(rl.plan("sgd", n_features=4).plan.n_rows, rl.table1(n_features=4).rows["dp"]["certified"])
"""

_REFUSED = """
import replearn as rl
from replearn.__main__ import run
X, y = rl.datasets.make_margin(300, 2, margin=0.3, random_state=1)
for name in ("SGD", "Net", "DP"):
    try:
        getattr(rl, f"Replicable{name}Classifier")(margin=0.3).fit(X, y)
    except rl.ReplearnError as problem:
        print(problem)
"""


def printed(script):
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_one_fit_of_all_rows_plans_and_tables_work_and_are_the_same():
    assert printed(_HIDDEN + _PRACTICAL) == printed(_PRACTICAL)


def test_what_is_compiled_is_refused_in_one_line():
    lines = printed(_HIDDEN + _REFUSED)
    assert len(lines) == 3
    for line in lines:
        assert line.startswith("this fit needs numba, which is not installed")
        assert "replearn[halfspaces]" in line


@pytest.mark.parametrize("algorithm", ["sgd", "box"])
def test_the_command_says_so_or_works(algorithm, tmp_path):
    """Boosting needs no compiler either."""
    script = (
        "import replearn as rl, sys\n"
        "from replearn.__main__ import run\n"
        f"sys.argv = ['replearn', 'fit', {str(tmp_path / 'a.csv')!r}, '--target', 'y',"
        f" '--algorithm', {algorithm!r}, '--margin', '0.3', '--out',"
        f" {str(tmp_path / 'model.json')!r}]\n"
        "sys.exit(run())\n"
    )
    X_and_y = (
        "import numpy as np, replearn as rl\n"
        "X, y = rl.datasets.make_margin(300, 2, margin=0.3, random_state=1)\n"
        f"np.savetxt({str(tmp_path / 'a.csv')!r}, np.column_stack([X, y]), delimiter=',',"
        " header='a,b,y', comments='')\n"
    )
    printed(X_and_y)
    done = subprocess.run([sys.executable, "-c", _HIDDEN + script], capture_output=True, text=True)
    if algorithm == "sgd":
        assert done.returncode == 2
        assert done.stderr.splitlines()[-1].startswith("replearn: error: this fit needs numba")
    else:
        assert done.returncode == 0, done.stderr
