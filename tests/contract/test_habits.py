"""Habits that are easily lost: names typed for editors, twins that CI requires."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import replearn as rl

ROOT = Path(__file__).parents[2]


def run(*command, **variables):
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=os.environ | variables, capture_output=True,
        text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_public_names_are_typed_for_editors(tmp_path):
    """mypy sees a signature, not Any: it finds wrong calls, and knows what comes back."""
    pytest.importorskip("mypy")
    lines = ["import replearn as rl"]
    lines += [f"reveal_type(rl.{name})" for name in rl.__all__]
    lines += ["rl.plan(n_featurs=3)", "reveal_type(rl.Study.load('study.json'))"]
    path = tmp_path / "snippet.py"
    path.write_text("\n".join(lines) + "\n")
    said = run("-m", "mypy", "--config-file", "pyproject.toml", str(path)).stdout.splitlines()
    revealed = [line for line in said if "Revealed type is" in line]
    assert len(revealed) == len(rl.__all__) + 1
    assert [line for line in revealed if '"Any"' in line] == []
    assert revealed[-1].endswith('"replearn.study.study.Study"')
    assert any('Missing named argument "n_features"' in line for line in said)


TWIN = """
import pytest
@pytest.mark.skipif(True, reason="node is not installed")
def test_a_twin(): pass
@pytest.mark.skipif(True, reason="pyspark is not installed")
def test_an_engine(): pass
"""


@pytest.mark.parametrize(("required", "code"), [("0", 0), ("1", 1)])
def test_ci_fails_where_a_twin_was_not_tested(required, code, tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (tmp_path / "test_twin.py").write_text(TWIN)
    done = run(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", "--rootdir", str(tmp_path)),
        *("-c", os.devnull, str(tmp_path)),
        REPLEARN_REQUIRE_TWINS=required,
    )
    assert done.returncode == code, done.stdout
    assert ("the twin was not tested" in done.stdout) == bool(code)
    assert f"{2 - code} skipped" in done.stdout


@pytest.mark.slow
def test_speed_is_compared_with_the_last_release(monkeypatch):
    """By ratios to scikit-learn on one machine, of calls that both have measured."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    speed = pytest.importorskip("speed")
    released = pd.DataFrame({"what": ["a", "b", "gone"], "ratio": [1.0, 2.0, 1.0]})
    table = pd.DataFrame({"what": ["b", "a", "new", "files"], "ratio": [2.1, 1.3, 9.0, np.nan]})
    assert speed.slower(table, released) == {"a": 1.3}


#: The commands and the public package alone import answers, and each by its file: no command loads
#: what it does not say. All other rooms have a door, whose ``__init__`` names what others import.
WITHOUT_DOOR = {"reports": ("cli", "__init__.py")}


def imports_of(module: Path) -> Iterator[str]:
    """What a module imports from the package, by full names."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("replearn."):
            yield str(node.module)


def test_no_import_goes_past_a_door():
    package = ROOT / "src" / "replearn"
    past = []
    for module in package.rglob("*.py"):
        room = module.relative_to(package).parts[0]
        for name in imports_of(module):
            parts = name.split(".")
            may_enter = (parts[1], *WITHOUT_DOOR.get(parts[1], ()))
            if len(parts) > 2 and room not in may_enter:
                past.append(f"{module.relative_to(package)}: {name}")
    assert not past, "\n".join(past)


#: Where callers choose by the kind of a design: exports, and commands whose answers differ.
CHOOSING = {"exports/rules.py", "cli/replicate.py", "cli/audit.py"}


def asks_for_the_kind(node: ast.AST) -> bool:
    """``design.kind``, or ``isinstance`` of a class of halfspaces."""
    if isinstance(node, ast.Attribute) and node.attr == "kind":
        return isinstance(node.value, ast.Attribute) and node.value.attr == "design"
    if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"):
        return False
    return any("Halfspace" in getattr(one, "id", "") for one in ast.walk(node.args[1]))


def test_studies_and_models_answer_for_themselves():
    """Nobody asks a study or a model which of the two kinds it is, but for three."""
    package, asking = ROOT / "src" / "replearn", set()
    for module in package.rglob("*.py"):
        tree = ast.parse(module.read_text(encoding="utf-8"))
        if any(map(asks_for_the_kind, ast.walk(tree))):
            asking.add(module.relative_to(package).as_posix())
    assert asking == CHOOSING


def test_scripts_import_names_that_exist():
    """Pictures and benchmarks are run seldom: a name that moved would break them unseen."""
    missing = []
    for folder in ("docs", "benchmarks", "examples"):
        for script in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                    "replearn"
                ):
                    continue
                module = import_module(str(node.module))
                missing += [
                    f"{script.relative_to(ROOT)}: {node.module}.{alias.name}"
                    for alias in node.names
                    if not hasattr(module, alias.name)
                    and find_spec(f"{node.module}.{alias.name}") is None
                ]
    assert not missing, "\n".join(missing)
