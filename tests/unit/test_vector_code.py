"""Where the compiler does not take vector code, plain loops give the same bits."""

import os
import subprocess
import sys

import numpy as np
import pytest

from replearn.kernels import error_counts, lanes
from replearn.kernels.vector_code import compiles

#: Runs tests of the kernels with pieces of the vector code that no compiler takes.
BROKEN = """
import numpy as np
from replearn.kernels import error_counts, lanes
from tests.unit import test_exact, test_net

def dropped(*arguments):
    raise AttributeError("'PointerType' object has no attribute 'pointee'")

lanes._fold = lanes._broadcast = lanes._open_row = error_counts._in_all_lanes = dropped
test_exact.test_vectors_have_the_order_of_the_twin(np.float64)
test_exact.test_dense_and_sparse_rows_have_the_bits_of_vectors(np.float32)
test_exact.test_a_row_at_the_end_of_memory_is_not_read_past_its_end()
test_net.test_a_point_on_the_boundary_is_wrong()
rows = lanes.DenseRows(np.ones((2, 3)), np.arange(2))
lanes.row_prefetch(rows, 1)
assert not lanes.vector_code_works()
assert not lanes.prefetch_works()
assert not error_counts.vector_code_works()
print("done")
"""


def test_this_compiler_takes_the_vector_code():
    assert lanes.vector_code_works()
    assert lanes.prefetch_works()
    assert error_counts.vector_code_works()


def test_a_probe_that_fails_says_no():
    def fails():
        raise RuntimeError("LLVM IR parsing error")

    assert not compiles(fails)
    assert compiles(lambda: None)


@pytest.mark.slow
def test_plain_loops_take_over(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", BROKEN], env=environment, capture_output=True, text=True
    )
    assert done.stdout.strip() == "done", done.stderr


def test_plain_counts_are_those_of_the_vector_code():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((5, 3, 16)).astype(np.float32)
    points[4, :, 7:] = np.nan
    candidates = rng.standard_normal((6, 3)).astype(np.float32)
    members = np.array([5, 0, 3, 3])
    plain = error_counts._count_four_plainly(points, 1, 5, candidates, members)
    assert plain == error_counts._use_vector_code(points, 1, 5, candidates, members)
