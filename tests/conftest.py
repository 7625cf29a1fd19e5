"""Settings of the whole suite: which seeds are taken, and how hypothesis draws."""

import os
from collections.abc import Callable, Generator

import hypothesis
import pytest

SEEDS_PER_BLOCK = 1_000_000

#: Examples of a property; benchmarks/mutants.py takes fewer.
EXAMPLES = int(os.environ.get("REPLEARN_EXAMPLES", "100"))

# a failure on one machine is a failure on every machine
hypothesis.settings.register_profile(
    "fixed", derandomize=True, deadline=None, max_examples=EXAMPLES
)
# prints what reproduces a failure: @reproduce_failure(...)
hypothesis.settings.register_profile("fresh", derandomize=False, deadline=None, print_blob=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seed-block",
        type=int,
        default=0,
        metavar="N",
        help="block of seeds for statistical tests; other than 0, hypothesis draws afresh too",
    )


def pytest_configure(config: pytest.Config) -> None:
    block = config.getoption("--seed-block")
    if block < 0:
        raise pytest.UsageError(f"--seed-block must be 0 or more, got {block}.")
    hypothesis.settings.load_profile("fixed" if block == 0 else "fresh")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # tracing costs a third of what repeats few lines thousands of times, and doubles the time of
    # numba's compiler; quick tests run the same lines
    for item in items:
        kernels = item.path.name == "test_kernels.py"
        if kernels or "theory" in item.path.parts or item.get_closest_marker("slow"):
            item.add_marker("no_cover")
    # first one worker compiles all loops, before the other one asks for them
    items.sort(key=lambda item: item.path.name != "test_kernels.py")


#: Set by CI where node, R and a browser were installed: whoever has none of them may skip.
REQUIRES_TWINS = os.environ.get("REPLEARN_REQUIRE_TWINS") == "1"
#: How tests say that the tool of a twin is absent.
_TWINS = ("node is not installed", "Rscript is not", "jsonlite is not", "chromedriver are not")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A twin that was not tested is a failure where its tool is required."""
    report = yield
    reason = str(report.longrepr)
    if REQUIRES_TWINS and report.skipped and any(words in reason for words in _TWINS):
        report.outcome = "failed"
        report.longrepr = f"REPLEARN_REQUIRE_TWINS=1, but the twin was not tested: {reason}"
    return report


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed block: {config.getoption('--seed-block')}"


@pytest.fixture(scope="session")
def seed_block(pytestconfig: pytest.Config) -> int:
    """Number of the block of seeds that this run takes; 0 unless --seed-block says otherwise."""
    return int(pytestconfig.getoption("--seed-block"))


@pytest.fixture(scope="session")
def seeds(seed_block: int) -> Callable[[int], range]:
    """``seeds(n)``: the first n seeds of this run's block."""

    def first(n: int) -> range:
        if n > SEEDS_PER_BLOCK:
            raise ValueError(f"n must be at most {SEEDS_PER_BLOCK}, got {n}: blocks would overlap.")
        start = seed_block * SEEDS_PER_BLOCK
        return range(start, start + n)

    return first
