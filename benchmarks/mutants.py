"""Which small faults in the core, put there one at a time, the quick tests notice.

    python benchmarks/mutants.py --number 60 --seed 0 --only recipes

A mutant changes one comparison, one sign or one number. It is killed if the tests of its module
fail or hang. A survivor is a missing test, or a change that means nothing, as the size of a piece.
"""

import argparse
import ast
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy  # noqa: F401  what tests import is loaded once, the package anew each time
import pandas  # noqa: F401
import pytest
import sklearn.pipeline  # noqa: F401

HOME = Path(__file__).resolve().parents[1]
FITS = "tests/golden/test_studies.py tests/unit/test_original.py tests/unit/test_newton.py"
FITS += " tests/unit/test_rows.py"
STREAMS = "tests/golden/test_streams.py"

#: Modules of the core, and tests that know them and are quick.
TESTS = {
    "rows/blocks.py": f"tests/unit/test_exact.py {FITS}",
    "rows/sums.py": f"tests/unit/test_exact.py {FITS}",
    "exact/algebra.py": f"tests/unit/test_exact.py {FITS}",
    "exact/elementary.py": f"tests/unit/test_exact.py {FITS}",
    "codes/coins.py": f"{STREAMS} --deselect={STREAMS}::test_fits",  # which compiles
    "codes/sketch.py": "tests/golden/test_studies.py tests/theory/test_sketch.py",
    "study/study.py": "tests/golden/test_studies.py tests/unit/test_study.py",
    "study/evidence.py": "tests/golden/test_studies.py tests/unit/test_study.py",
    "glm/coordinates.py": f"{FITS} tests/unit/test_study.py",
    "glm/losses.py": f"{FITS} tests/theory/test_glm.py",
    "glm/newton.py": FITS,
    "glm/derivatives.py": FITS,
    "glm/validation.py": f"{FITS} tests/unit/test_study.py",
    "glm/influence.py": f"{FITS} tests/theory/test_glm.py",
    "glm/sketched.py": f"{FITS} tests/unit/test_study.py tests/theory/test_stability.py",
    "documents/canonical.py": "tests/unit/test_documents.py",
    "documents/parts.py": "tests/unit/test_documents.py",
    "tables/encoding.py": "tests/unit/test_encoding.py",
}
PAIRS = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Add, ast.Sub)]
PAIRS += [(ast.Mult, ast.Div), (ast.LShift, ast.RShift), (ast.And, ast.Or)]
OTHER = dict(PAIRS) | {second: first for first, second in PAIRS}


def put_fault(node):
    """Change a node in place, if it has a fault to offer."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        node.ops[0] = OTHER[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.BoolOp) and type(node.op) in OTHER:
        node.op = OTHER[type(node.op)]()
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        node.value += 1
    else:
        return False
    return True


def nodes_of(module):
    """The tree of a module, and all nodes but annotations, which say nothing at run time."""
    tree = ast.parse((HOME / "src/replearn" / module).read_text())
    found = [node for statement in tree.body for node in ast.walk(statement)]
    hints = [node.annotation for node in found if isinstance(node, ast.AnnAssign | ast.arg)]
    skipped = {id(inner) for hint in hints if hint is not None for inner in ast.walk(hint)}
    return tree, [node for node in found if id(node) not in skipped]


def run_tests(folder, tests):
    """In a process of its own."""
    os.dup2(os.dup2(os.open(os.devnull, os.O_WRONLY), 1), 2)
    os.chdir(folder)
    sys.path.insert(0, str(folder / "src"))
    sys.dont_write_bytecode = True
    sys.exit(
        int(
            pytest.main(
                ["-x", "-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider", *tests.split()]
            )
        )
    )


def is_killed(folder, module, source):
    """Whether the tests of a module notice its mutant."""
    path = folder / "src/replearn" / module
    kept = path.read_text()
    path.write_text(source)
    fork = multiprocessing.get_context("fork")
    tests = fork.Process(target=run_tests, args=(folder, TESTS[module]))
    tests.start()
    tests.join(600)
    tests.kill()
    tests.join()
    path.write_text(kept)
    return tests.exitcode != 0


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--number", type=int, default=60, help="of mutants")
    parser.add_argument("--seed", type=int, default=0, help="of the choice among all of them")
    parser.add_argument("--only", default="", help="modules whose names begin so")
    options = parser.parse_args()
    modules = [module for module in TESTS if module.startswith(options.only)]
    every = [(m, i) for m in modules for i, node in enumerate(nodes_of(m)[1]) if put_fault(node)]
    chosen = random.Random(options.seed).sample(every, min(options.number, len(every)))
    with tempfile.TemporaryDirectory() as name:
        folder, survived = Path(name), 0
        for part in ("src", "tests", "docs"):
            shutil.copytree(HOME / part, folder / part)
        shutil.copy(HOME / "pyproject.toml", folder)
        for module in sorted({module for module, _ in chosen}):
            fine = not is_killed(folder, module, (HOME / "src/replearn" / module).read_text())
            assert fine, f"tests of {module} fail without a mutant"
        for module, number in sorted(chosen):
            tree, nodes = nodes_of(module)
            old = ast.unparse(nodes[number])
            put_fault(nodes[number])
            if not is_killed(folder, module, ast.unparse(tree)):
                survived += 1
                print(f"{module}:{nodes[number].lineno}: {old} -> {ast.unparse(nodes[number])}")
    print(f"{len(chosen) - survived} of {len(chosen)} mutants killed ({len(every)} in all).")


if __name__ == "__main__":
    main()
