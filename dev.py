#!/usr/bin/env python3
"""Set up and run replearn from a checkout. Needs python3 (3.11 or later) with venv and pip.

    python3 dev.py demo              two simulated labs, end to end
    python3 dev.py test [ARGS]       lint, and pytest on two workers; ARGS go to pytest
    python3 dev.py test --fast       the same without the slow tests
    python3 dev.py test --engines    the same with Spark and Flower, which take a minute to install
    python3 dev.py test --coverage   the same; fails if fewer than 90 % of the lines are run
    python3 dev.py versions          quick tests with the oldest and the newest versions, on each
                                     Python from 3.11 that is there (pyenv: PYENV_VERSION), and
                                     with the NumPy that comes next
    python3 dev.py lint              ruff, mypy and import-linter
    python3 dev.py docs              the documentation, in docs/_build/html, and its links checked
    python3 dev.py docs --quick      the same without drawing pictures and running pages again
    python3 dev.py docs --write      the same, and what commands print now is put into the pages
    python3 dev.py run [ARGS]        the replearn command line
    python3 dev.py lock              write constraints.txt anew, with the newest versions

The first call makes .venv beside this file and installs what the command needs.
"""

from __future__ import annotations  # so that an old Python gets as far as our message

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
BIN = VENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
CONSTRAINTS = ROOT / "constraints.txt"
STAMP = VENV / "dev-stamp.json"  # what is installed, so that the next call need not ask

MYPY = ("mypy", (str(BIN / "mypy"),))
QUICK_LINT = (
    ("ruff check", ("ruff", "check", ".")),
    ("ruff format", ("ruff", "format", "--check", ".")),
    ("import-linter", ("lint-imports", "--no-logo")),
)
# worksteal, because tests differ in length; the workers share numba's disk cache
PYTEST = ("pytest", "-n", "2", "--dist", "worksteal")
SITE = "docs/_build/html"
ENGINES = "tests/contract/test_engines.py"  # those that are installed
GROUPS = ("test", "docs", "engines")  # of pyproject.toml; what else is prepared is an extra
#: Of the documentation, where they are called otherwise than their steps.
_SCRIPTS = {"commands": "write_commands", "concepts": "concept_pictures"}
SPHINX = ("sphinx-build", "-W", "--keep-going", "-q", "-b", "html")


def main(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    if sys.version_info < (3, 11):
        say(f"replearn needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]}")
        return 2
    command, rest = (arguments[0], arguments[1:]) if arguments else ("help", [])
    try:
        if command == "demo" and not rest:
            return prepare("halfspaces") or call("replearn", "demo")
        if command == "run":
            return prepare("halfspaces") or call("replearn", *rest, cwd=Path.cwd())
        if command == "test":
            parts = ("test", "engines") if "--engines" in rest else ("test",)
            pytest = ("pytest", (*PYTEST, *chosen(rest)))
            return prepare(*parts) or run_steps((*QUICK_LINT, pytest), beside=(MYPY,))
        if command == "versions" and not rest:
            return make_venv() or install_uv() or max(try_versions(*pair) for pair in versions())
        if command == "lint" and not rest:
            return prepare("test") or run_steps((*QUICK_LINT, MYPY))
        if command == "docs" and rest in ([], ["--quick"], ["--write"]):
            return prepare("docs") or run_steps(site_steps(*rest))
        if command == "lock" and not rest:
            return make_venv() or install_uv() or lock()
    except KeyboardInterrupt:
        return 130
    print((__doc__ or "").strip())
    return 0 if command in ("help", "-h", "--help") else 2


#: Options of ``test`` that are short for those of pytest.
SHORT: dict[str, tuple[str, ...]] = {
    "--engines": (),
    "--fast": ("-m", "not slow"),
    "--coverage": ("--cov=replearn", "--cov-report=term:skip-covered", "--cov-fail-under=90"),
}


def chosen(arguments: list[str]) -> list[str]:
    """Arguments of pytest."""
    return [option for argument in arguments for option in SHORT.get(argument, (argument,))]


def site_steps(option: str = "") -> Iterable[tuple[str, tuple[str, ...]]]:
    """What builds the documentation; warnings are errors, and no step needs a network."""
    if option != "--quick":
        for name in ("commands", "concepts", "pictures", "thumbnails", "results"):
            yield name, ("python", f"docs/{_SCRIPTS.get(name, name)}.py")
        yield "pages", ("python", "docs/run_pages.py", *([option] if option else []))
    yield "sphinx", (*SPHINX, "docs", SITE)
    yield "links", ("python", "docs/check_site.py", SITE)
    yield "search", ("python", "docs/check_search.py", SITE)


def versions() -> list[tuple[str, str]]:
    """The oldest and the newest packages on the oldest Python, and the newest on newer ones.

    The last one has the newest NumPy, released or not: it must give the same codes.
    """
    find = (str(BIN / "uv"), "python", "find", "--no-python-downloads")
    newer = [("highest", name) for name in ("3.12", "3.13", "3.14") if runs(*find, name)]
    found = [("lowest-direct", "3.11"), ("highest", "3.11"), *newer]
    return [*found, ("prerelease", found[-1][1])]


def try_versions(resolution: str, version: str) -> int:
    """Run the quick tests in an environment of their own, with this choice of versions."""
    place = ROOT / f".venv-{resolution}-{version}"
    python = place / PYTHON.relative_to(VENV)
    uv = str(BIN / "uv")
    say(f"quick tests on Python {version} with the versions that uv calls {resolution}")
    install = (uv, "pip", "install", "--python", str(python))
    is_next = resolution == "prerelease"
    choice = ("--resolution", "highest" if is_next else resolution)
    code = quietly(uv, "venv", "--clear", "--python", version, str(place)) or quietly(
        *install, *choice, "--editable", ".[halfspaces,onnx,dask]", "--group", "test"
    )
    if is_next and not code:
        code = quietly(*install, "--prerelease", "allow", "--upgrade", "numpy")
    tests = ("-m", "pytest", "-q", "-m", "not slow", "tests/unit", "tests/golden", ENGINES)
    return code or subprocess.call((str(python), *tests), cwd=ROOT, env=environment())


def run_steps(steps: Iterable[Any], beside: Iterable[Any] = ()) -> int:
    """Run every step, a name and a command, and say at the end which ones failed.

    What runs beside them is silent unless it fails: mypy keeps one core busy for 20 seconds.
    """

    def timed(run: Callable[..., int], name: str, command: Any) -> tuple[str, int, float]:
        say(f"{name}: {' '.join(command)}")
        start = time.monotonic()
        return name, run(*command), time.monotonic() - start

    with ThreadPoolExecutor() as pool:
        others = [pool.submit(timed, quietly, *step) for step in beside]
        results = [timed(call, *step) for step in steps]
        results += [other.result() for other in others]
    say("summary")
    for name, code, seconds in results:
        verdict = "ok" if code == 0 else f"FAILED (exit code {code})"
        print(f"  {name:<14}{seconds:7.1f} s  {verdict}", flush=True)
    return next((code for _, code, _ in results if code), 0)


def prepare(*parts: str) -> int:
    """Make .venv hold replearn with these extras and groups; instant when nothing has changed."""
    key = hashlib.sha256()
    for file in (ROOT / "pyproject.toml", CONSTRAINTS):
        key.update(file.read_bytes() + b"\0")
    stamp = read_stamp()
    installed = set(stamp["parts"]) if stamp.get("key") == key.hexdigest() else set()
    if PYTHON.exists() and stamp.get("root") == str(ROOT) and installed.issuperset(parts):
        return 0
    start = time.monotonic()
    if make_venv():
        return 1
    wanted = sorted(installed.union(parts))
    extras = ",".join(part for part in wanted if part not in GROUPS)
    groups = [option for part in wanted if part in GROUPS for option in ("--group", part)]
    target = ("--editable", f".[{extras}]", *groups, "--constraint")
    say(f"installing replearn with {', '.join(wanted)} (seconds to a few minutes)")
    uv = (str(BIN / "uv"), "pip", "install", "--python", str(PYTHON))
    if install_uv() or quietly(*uv, *target, str(CONSTRAINTS)):
        say("trying again with pip alone, which checks no hashes where a folder is installed, too")
        pip = (str(PYTHON), "-m", "pip", "install")
        pins = VENV / CONSTRAINTS.name
        pins.write_text(without_hashes(CONSTRAINTS.read_text(encoding="utf-8")), encoding="utf-8")
        if quietly(*pip, "--upgrade", "pip>=25.1") or quietly(*pip, *target, str(pins)):
            say("could not install: see above. Can pip reach its package index from here?")
            return 1
    stamp = {"root": str(ROOT), "key": key.hexdigest(), "parts": wanted}
    STAMP.write_text(json.dumps(stamp), encoding="utf-8")
    say(f"ready after {time.monotonic() - start:.0f} s")
    return 0


def without_hashes(pins: str) -> str:
    """Pins that pip takes for a folder: it wants either all hashes or none."""
    return re.sub(r" \\\n +--hash=\S+", "", pins)


def make_venv() -> int:
    """Make .venv unless it is there and works; a copy from elsewhere does not."""
    copied = read_stamp().get("root", str(ROOT)) != str(ROOT)
    clear = ["--clear"] if copied or not PYTHON.exists() else []
    if not clear and runs(str(PYTHON), "-m", "pip", "--version"):
        return 0
    say("making a virtual environment in .venv")
    code = quietly(sys.executable, "-m", "venv", *clear, str(VENV))
    if code:
        say("could not make .venv. On some systems the venv module is a package: python3-venv.")
    return code


def install_uv() -> int:
    """Install uv into .venv: it installs the rest several times faster than pip."""
    if runs(str(BIN / "uv"), "--version"):
        return 0
    return quietly(str(PYTHON), "-m", "pip", "install", "uv")


def lock() -> int:
    """Pin the newest versions and their hashes for all platforms, without registry addresses."""
    say("writing constraints.txt")
    options = "--universal --no-header --no-annotate --upgrade --quiet --generate-hashes"
    options += " --no-emit-package replearn"
    groups = [option for group in GROUPS for option in ("--group", f"pyproject.toml:{group}")]
    command = [str(BIN / "uv"), "pip", "compile", "-", "--python-version", "3.11"]
    command += [*options.split(), *groups, "--output-file", CONSTRAINTS.name]
    # groups name replearn with its extras, which is here and on no index
    return subprocess.run(command, input=b"-e .\n", cwd=ROOT, env=environment()).returncode


def read_stamp() -> dict[str, Any]:
    """What prepare wrote last time, or nothing."""
    try:
        return dict(json.loads(STAMP.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def call(name: str, *arguments: str, cwd: Path = ROOT) -> int:
    """Run a tool of .venv and return its exit code."""
    path = shutil.which(name, path=str(BIN))
    if path is None:
        say(f"{name} is not in .venv: delete .venv and try again")
        return 127
    return subprocess.call((path, *arguments), cwd=cwd, env=environment())


def quietly(*command: str) -> int:
    """Run a command and show what it said only if it failed."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
    except OSError as error:
        say(f"failed: {error}")
        return 127
    if done.returncode:
        say(f"failed: {' '.join(command)}")
        print(done.stdout.rstrip(), flush=True)
    return done.returncode


def runs(*command: str) -> bool:
    """Whether a command can be run at all."""
    try:
        done = subprocess.run(command, env=environment(), capture_output=True)
    except OSError:
        return False
    return done.returncode == 0


def environment() -> dict[str, str]:
    """What the children see: .venv and no other environment, and no colours in a pipe."""
    # without PYTHONDONTWRITEBYTECODE, because imports are three times slower with it
    hidden = {"PYTHONDONTWRITEBYTECODE", "PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV"}
    extra = {"PATH": os.pathsep.join((str(BIN), os.environ.get("PATH", os.defpath)))}
    # two workers on two cores: more threads would wait for each other, those of OpenMP busily
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        extra[name] = os.environ.get(name, "1")
    if sys.version_info >= (3, 12):  # counts lines at a fraction of the cost
        extra["COVERAGE_CORE"] = os.environ.get("COVERAGE_CORE", "sysmon")
    if not sys.stdout.isatty():
        hidden |= {"FORCE_COLOR", "CLICOLOR_FORCE", "PY_COLORS"}
        extra["NO_COLOR"] = "1"
    visible = {name: value for name, value in os.environ.items() if name not in hidden}
    return {**visible, **extra}


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"[dev] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
