"""Compiled loops of the paper's batch solvers and net searches; nothing of a study imports them."""

from replearn.errors import ReplearnError

try:
    import numba
except ModuleNotFoundError:
    raise ReplearnError(
        "this fit needs numba, which is not installed. Run pip install 'replearn[halfspaces]', or "
        'use ReplicableSVMClassifier with mode="practical" and no sizes by hand, which needs none.'
    ) from None

from replearn.kernels.descent import Descent, add_descents
from replearn.kernels.error_counts import count_errors
from replearn.kernels.int32_directions import RawRows
from replearn.kernels.max_margin import Problem, add_batches
