"""The files of the project agree with each other, and the error budget keeps its word."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import dev
from tests.error_budget import (
    assert_mean_close,
    assert_rate_at_least,
    assert_rate_at_most,
    assert_rate_between,
    assert_rate_close,
    power,
)

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def text(name):
    return (ROOT / name).read_text(encoding="utf-8")


def project_files():
    """What git tracks or would track; without git, what an unpacked archive holds."""
    if (ROOT / ".git").exists() and shutil.which("git"):
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        names = [name for name in listing.stdout.split("\0") if name]
        return [ROOT / name for name in names if (ROOT / name).is_file()]
    made = re.compile(r"\.(?!ci$|git|pre-)|__pycache__$|build$|dist$")
    return [
        path
        for path in ROOT.rglob("*")
        if path.is_file() and not any(map(made.match, path.relative_to(ROOT).parts))
    ]


# ---------------------------------------------------------------- files


def test_version_is_the_same_everywhere():
    version = PROJECT["version"]
    assert importlib.metadata.version("replearn") == version
    assert re.findall(r"(?m)^version: (\S+)$", text("CITATION.cff")) == [version]
    assert re.findall(r"(?m)^## \[(\d\S*)\]", text("CHANGELOG.md"))[0] == version


def test_licence_is_the_same_everywhere():
    assert PROJECT["license"] == "BSD-3-Clause"
    assert text("LICENSE").startswith("BSD 3-Clause License")
    assert "\nlicense: BSD-3-Clause\n" in text("CITATION.cff")


def test_newest_release_lists_changed_outputs():
    newest = re.split(r"(?m)^## ", text("CHANGELOG.md"))[1]
    assert "### Changed outputs" in newest


def test_package_ships_its_types():
    assert (ROOT / "src/replearn/py.typed").is_file()


def test_readme_gives_the_two_commands():
    fenced = "\n".join(re.findall(r"(?ms)^```[^\n]*\n(.*?)^```", text("README.md")))
    commands = [line.removeprefix("$ ").split("#")[0].strip() for line in fenced.splitlines()]
    assert "python3 dev.py demo" in commands
    assert "python3 dev.py test" in commands


def test_continuous_integration_runs_the_readme_test_command():
    script = ROOT / ".ci/run"
    lines = [line.strip() for line in script.read_text(encoding="utf-8").splitlines()]
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    *others, tests, coverage = commands
    assert tests == "python3 dev.py test"
    assert all("apt-get install" in command and "|| true" in command for command in others)
    assert coverage.startswith("python3 dev.py test --fast --coverage ||")
    if sys.platform != "win32":
        assert script.stat().st_mode & 0o111


def test_no_file_names_a_registry():
    # put together here, so that this file passes its own test
    hosts = "|".join(("py" + "pi\\.", "python" + "hosted\\.", "regis" + "try\\.", "npm" + "js\\."))
    options = "--(?:extra-)?index" + "-url|--find" + "-links"
    pattern = re.compile(f"(?i){hosts}|{options}".encode())
    found = [
        f"{path.relative_to(ROOT)}: {match.group().decode()}"
        for path in project_files()
        for match in pattern.finditer(path.read_bytes())
    ]
    assert found == []


def test_constraints_pin_every_dependency():
    def canonical(name):
        return re.sub(r"[-_.]+", "-", name).lower()

    pins = {}
    for line in text("constraints.txt").splitlines():
        match = re.fullmatch(r"([A-Za-z0-9._-]+)==[^\s;]+(?: ; .+)?", line)
        assert match, f"not a pin: {line!r}"
        pins.setdefault(canonical(match.group(1)), line)
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    names = {re.match(r"[A-Za-z0-9._-]+", entry).group() for group in groups for entry in group}
    assert {canonical(name) for name in names} - {"replearn"} <= pins.keys()


def test_cited_keys_are_in_the_bibliography():
    keys = set(re.findall(r"(?m)^@\w+\{(\w+),$", text("docs/references.bib")))
    assert "KKLVZ24" in keys
    cited = {
        (key, path.name)
        for path in (ROOT / "src").rglob("*.py")
        for inside in re.findall(r"\[([^\[\]\n]+)\]", path.read_text(encoding="utf-8"))
        for key in re.findall(r"(?:^|[;,] )([A-Z][A-Za-z]+\d\d)\b", inside)
    }
    assert {(key, name) for key, name in cited if key not in keys} == set()


# ---------------------------------------------------------------- dev.py


def test_quick_tests_are_those_outside_of_the_slow_folders():
    folders = ("tests/golden", "tests/engines", "tests/conformance/test_net_example.py")
    options = ("-p", "no:xdist", "-p", "no:cacheprovider", "--collect-only", "-q", "-q")
    done = subprocess.run(
        (sys.executable, "-m", "pytest", *options, *dev.chosen(["--fast"]), *folders),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    counts = dict(re.findall(r"^(tests/\S+): (\d+)$", done.stdout, flags=re.MULTILINE))
    assert counts, done.stdout + done.stderr
    assert all(name.startswith("tests/golden/") for name in counts)


@pytest.mark.parametrize(("command", "code"), [("", 0), ("help", 0), ("demo x", 2), ("tset", 2)])
def test_dev_explains_itself(command, code, capsys):
    assert dev.main(command.split()) == code
    assert "python3 dev.py test" in capsys.readouterr().out


def test_dev_names_the_failed_steps_and_passes_the_code_on(monkeypatch, capsys):
    monkeypatch.setattr(dev, "call", lambda name: {"a": 0, "b": 3, "c": 4}[name])
    assert dev.run_steps([("first", ("a",)), ("second", ("b",)), ("third", ("c",))]) == 3
    verdicts = [line.split(" s  ")[-1] for line in capsys.readouterr().out.splitlines()[-3:]]
    assert verdicts == ["ok", "FAILED (exit code 3)", "FAILED (exit code 4)"]


def test_dev_installs_once_and_falls_back_to_pip(monkeypatch, tmp_path):
    def pretend(*command):
        commands.append(command)
        return 1 if "uv" in Path(command[0]).name else 0

    commands = []
    (tmp_path / "python").touch()
    for name, value in {
        "VENV": tmp_path,
        "BIN": tmp_path,
        "PYTHON": tmp_path / "python",
        "STAMP": tmp_path / "stamp",
        "runs": lambda *command: True,
        "quietly": pretend,
    }.items():
        monkeypatch.setattr(dev, name, value)

    assert dev.prepare("cli") == 0
    assert [command[1:3] for command in commands] == [("pip", "install"), ("-m", "pip")]
    assert dev.prepare("cli") == 0
    assert len(commands) == 2
    assert dev.prepare("test") == 0
    assert commands[-1][-1] == ".[cli,test]"


def test_dev_hides_other_environments_and_colours(monkeypatch):
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV", "FORCE_COLOR"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: False)
    seen = dev.environment()
    assert seen.keys().isdisjoint({"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "VIRTUAL_ENV"})
    assert (seen["NO_COLOR"], "FORCE_COLOR" in seen) == ("1", False)


# ---------------------------------------------------------------- error budget


def fails(check, *arguments, **keywords):
    try:
        check(*arguments, **keywords)
    except AssertionError:
        return True
    return False


PROBABILITIES = st.floats(0.001, 0.999)
BUDGETS = st.sampled_from([1e-9, 1e-6, 1e-3, 0.05])
TRIALS = st.integers(1, 60)


def rejection_probability(check, trials, bound, truth, false_alarm):
    """Exact: the weight of all the counts at which the check fails."""
    rejected = [n for n in range(trials + 1) if fails(check, n, trials, bound, false_alarm)]
    return float(stats.binom.pmf(rejected, trials, truth).sum())


@given(TRIALS, PROBABILITIES, st.floats(0, 1), BUDGETS)
def test_kept_promise_rarely_raises_an_alarm(trials, bound, share, false_alarm):
    below, above = bound * share, 1 - (1 - bound) * share
    at_most, at_least = assert_rate_at_most, assert_rate_at_least
    limit = false_alarm * (1 + 1e-9)
    assert rejection_probability(at_most, trials, bound, below, false_alarm) <= limit
    assert rejection_probability(at_least, trials, bound, above, false_alarm) <= limit


@given(TRIALS, PROBABILITIES, PROBABILITIES, BUDGETS)
def test_power_is_the_probability_of_an_alarm(trials, bound, truth, false_alarm):
    if abs(truth - bound) < 1e-6:
        return
    check = assert_rate_at_most if truth > bound else assert_rate_at_least
    exact = rejection_probability(check, trials, bound, truth, false_alarm)
    assert power(trials, bound, truth, false_alarm) == pytest.approx(exact, abs=1e-9)


def test_stated_power_is_met_by_simulation():
    assert power(2000, 0.10, 0.15) == pytest.approx(0.98, abs=0.005)
    counts = np.random.default_rng(0).binomial(2000, 0.15, size=4000)
    n_caught = sum(fails(assert_rate_at_most, n, 2000, 0.10) for n in counts)
    assert_rate_close(n_caught, 4000, power(2000, 0.10, 0.15))
    # would catch a power that is really 0.95 with probability above 0.999
    assert power(4000, power(2000, 0.10, 0.15), 0.95, false_alarm=5e-7) > 0.999


def test_alarm_states_rate_bound_and_p_value():
    with pytest.raises(AssertionError, match=r"300 of 2000 .* 0\.15, but at most 0\.1 .* p-value"):
        assert_rate_at_most(300, 2000, 0.10)
    with pytest.raises(AssertionError, match=r"100 of 2000 .* 0\.05, but at least 0\.1 .* p-value"):
        assert_rate_at_least(100, 2000, 0.10)


def test_certain_events_are_checked_exactly():
    assert_rate_at_most(0, 10, 0.0)
    assert_rate_at_least(10, 10, 1.0)
    assert fails(assert_rate_at_most, 1, 10, 0.0)
    assert fails(assert_rate_at_least, 9, 10, 1.0)


def test_rate_between_fails_on_both_sides():
    assert_rate_between(150, 1000, 0.10, 0.20)
    assert fails(assert_rate_between, 20, 1000, 0.10, 0.20)
    assert fails(assert_rate_between, 300, 1000, 0.10, 0.20)
    assert_rate_close(150, 1000, 0.16)
    assert fails(assert_rate_close, 150, 1000, 0.25)
    assert_rate_close(150, 1000, 0.25, tolerance=0.08)


@pytest.mark.parametrize(
    ("check", "arguments"),
    [
        (assert_rate_at_most, (5, 10, 1.0)),
        (assert_rate_at_least, (5, 10, 0.0)),
        (assert_rate_between, (5, 10, 0.0, 1.0)),
        (assert_rate_between, (5, 10, 0.6, 0.4)),
        (assert_rate_at_most, (11, 10, 0.5)),
        (assert_rate_at_most, (0, 0, 0.5)),
        (assert_rate_at_most, (5, 10, 0.5, 0.0)),
        (assert_mean_close, ([1.0], 1.0)),
        (assert_mean_close, ([1.0, np.nan], 1.0)),
        (power, (10, 0.5, 0.5)),
    ],
)
def test_check_that_can_tell_nothing_is_refused(check, arguments):
    with pytest.raises(ValueError, match=r"must be|must differ|tells nothing"):
        check(*arguments)


def test_mean_close_has_the_stated_size_and_power():
    rng = np.random.default_rng(0)
    means = [rng.normal(3.0, 2.0, size=100) for _ in range(2000)]
    n_alarms = sum(fails(assert_mean_close, sample, 3.0, false_alarm=0.05) for sample in means)
    assert_rate_close(n_alarms, 2000, 0.05)
    # four standard errors away, at level 0.05: a noncentral t, caught nearly always
    critical = stats.t.isf(0.025, 99)
    caught = stats.nct.sf(critical, 99, 4.0) + stats.nct.cdf(-critical, 99, 4.0)
    n_caught = sum(fails(assert_mean_close, sample, 2.2, false_alarm=0.05) for sample in means)
    assert_rate_close(n_caught, 2000, caught)


def test_mean_close_without_spread_is_exact():
    assert_mean_close([0.1] * 50, 0.1)
    assert fails(assert_mean_close, [0.1] * 50, 0.1001)
    assert_mean_close([0.1] * 50, 0.1001, tolerance=0.001)


# ---------------------------------------------------------------- seeds


def test_seed_blocks_do_not_overlap(seeds, seed_block):
    assert list(seeds(3)) == [seed_block * 1_000_000 + i for i in range(3)]
    with pytest.raises(ValueError, match="overlap"):
        seeds(1_000_001)
