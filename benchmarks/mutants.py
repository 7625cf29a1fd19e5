"""Mutation testing of the core: whether tests notice small changes of the code.

    python benchmarks/mutants.py [--only codes/rounding.py] [--most 40] [--seed 0]

A mutant is a module in which one comparison, one operation of arithmetic, one constant, one
condition or one boolean is another one (below: `mutations`). For each module ``--most`` of its
mutants are drawn at random, by the name of the module and ``--seed``. Each mutant runs the quick
tests of its module (`MODULES`); it is *killed* if one of them fails, or if they take ten times as
long as with the code as it is. Those that survive are printed with their line. Docstrings,
annotations and messages are not changed.

The tests run once with the code as it is, which loads and compiles everything. Each mutant then
runs in a fork, which forgets all modules of the package but the compiled loops, and imports the
mutant in place of the file: a second or two instead of ten.

Loops that numba has compiled are not mutated: their twins in ``tests/reference.py`` check them.
"""

import argparse
import ast
import importlib
import importlib.abc
import importlib.util
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parent.parent

#: Modules that no mutant is part of: they stay loaded.
KEPT = ("replearn.kernels", "replearn.errors", "replearn.types")

#: Random input, for which fuzzing is the place, and what takes longer than the rest together.
SLOW = "not any_value_anywhere and not another_package and not no_neighbour_is_closer and not pilot"

#: Modules and the tests that must notice, quick ones first.
MODULES = {
    "codes/canonical.py": ("unit/test_published_vectors.py", "unit/test_modelfile.py"),
    "codes/randomness.py": (
        "golden/test_streams.py",
        "unit/test_randomness.py",
        "unit/test_seeds.py",
    ),
    "codes/rounding.py": ("unit/test_rounding.py", "golden/test_roundings.py"),
    "codes/cells.py": ("unit/test_cells.py", "unit/test_box_lattices.py"),
    "codes/lattices.py": ("unit/test_lattices.py", "golden/test_roundings.py"),
    "files/modelfile.py": (
        "unit/test_modelfile.py",
        "unit/test_modelfile_limits.py",
        "golden/test_files.py",
        "unit/test_regression.py",
    ),
}

COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATIONS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Add, ast.Pow: ast.Mult, ast.LShift: ast.RShift,
    ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip


def places(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes that can be changed, in the order of the text."""
    hidden = set()
    for node in ast.walk(tree):
        ours = []
        if isinstance(node, ast.FunctionDef):
            ours = [node.returns, *(a.annotation for a in node.args.args), *node.decorator_list]
        elif isinstance(node, ast.AnnAssign):
            ours = [node.annotation]
        elif isinstance(node, ast.Raise | ast.JoinedStr):
            ours = [node]
        for one in ours:
            hidden.update(map(id, ast.walk(one)) if one is not None else ())
    return (node for node in ast.walk(tree) if id(node) not in hidden)


def mutations(tree: ast.Module) -> Iterator[tuple[ast.expr, str, int]]:
    """Changes: the node, what is done to it, and to which of its operators."""
    for node in places(tree):
        if isinstance(node, ast.Compare):
            yield from ((node, "comparison", i) for i in range(len(node.ops)))
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            yield node, "operation", 0
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield node, "sign", 0
        elif isinstance(node, ast.BoolOp):
            yield node, "and, or", 0
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            yield node, "constant", 0
        elif isinstance(node, ast.If | ast.IfExp) and isinstance(
            node.test, ast.Name | ast.Attribute | ast.Call
        ):
            yield node, "condition", 0


def change(node: ast.expr, which: int) -> tuple[str, str]:
    """Change a node in its tree; its text before and after."""
    shown = node.test if isinstance(node, ast.If | ast.IfExp) else node
    before = ast.unparse(shown)
    match node:
        case ast.Compare():
            node.ops[which] = COMPARISONS[type(node.ops[which])]()
        case ast.BinOp():
            node.op = OPERATIONS[type(node.op)]()
        case ast.UnaryOp(op=ast.USub()):
            node.op = ast.UAdd()
        case ast.UnaryOp():
            node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant():
            node.value = node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.1
        case ast.If() | ast.IfExp():
            node.test = shown = ast.UnaryOp(ast.Not(), node.test)
    return before, ast.unparse(shown)


class Mutant(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module of the package in place of its file."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(self, name, path, target=None):  # type: ignore[no-untyped-def]
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(ast.fix_missing_locations(self.tree), self.path, "exec"), module.__dict__)


def run_tests(tests: tuple[str, ...]) -> int:
    """The exit code of pytest, in this process."""
    import pytest

    options = ["-x", "-qq", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-k", SLOW]
    return int(pytest.main([*options, *(f"tests/{test}" for test in tests)]))


def silent_tests(mutant: Mutant, tests: tuple[str, ...], seconds: float) -> bool:
    """Whether all tests pass with a mutant, in a fork."""
    child = os.fork()
    if child == 0:
        code = 3
        try:
            os.setpgid(0, 0)
            nothing = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nothing, stream)
            for name in list(sys.modules):
                ours = name.startswith(("replearn.", "tests.")) or name in ("replearn", "conftest")
                if ours and not name.startswith(KEPT):
                    del sys.modules[name]
            sys.meta_path.insert(0, mutant)
            package = importlib.import_module("replearn")
            for name in KEPT:  # a package that is new does not know what is loaded
                setattr(package, name.partition(".")[2], sys.modules[name])
            code = run_tests(tests)
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def try_module(name: str, options: argparse.Namespace) -> tuple[int, int]:
    """Killed and tried mutants of a module; survivors are printed."""
    path = ROOT / "src" / "replearn" / name
    module = f"replearn.{name.removesuffix('.py').replace('/', '.')}"
    text = path.read_text("utf-8")
    begun = time.monotonic()
    as_it_is = Mutant(module, path, ast.parse(text))
    if run_tests(MODULES[name]) or not silent_tests(as_it_is, MODULES[name], 600):
        sys.exit(f"the tests of {name} fail as it is")
    limit = 10 * (time.monotonic() - begun)
    number = len(list(mutations(ast.parse(text))))
    chosen = random.Random(f"{name}/{options.seed}").sample(range(number), number)
    chosen = chosen[options.skip : options.skip + options.most]
    killed = 0
    for index in chosen:
        tree = ast.parse(text)
        node, kind, which = list(mutations(tree))[index]
        line = getattr(node, "lineno", 0)
        before, after = change(node, which)
        if silent_tests(Mutant(module, path, tree), MODULES[name], limit):
            print(f"  {name}:{line}: {kind}: {before} became {after}", flush=True)
        else:
            killed += 1
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    print(
        f"{name:<24}{number:>6} mutants{len(chosen):>6} tried{killed:>6} killed"
        f"  ({used:.0f} s of processors so far)",
        flush=True,
    )
    return killed, len(chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=tuple(MODULES))
    parser.add_argument("--most", type=int, default=40, help="mutants of a module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="mutants that have been tried")
    options = parser.parse_args()
    sys.dont_write_bytecode = True
    os.environ["REPLEARN_EXAMPLES"] = "8"  # of each property: a mutant is mostly seen by the first
    os.chdir(ROOT)
    counts = [try_module(name, options) for name in options.only or MODULES]
    killed, tried = map(sum, zip(*counts, strict=True))
    print(f"{'all':<24}{'':>14}{tried:>6} tried{killed:>6} killed ({killed / max(tried, 1):.0%})")


if __name__ == "__main__":
    main()
