"""Mutation testing of the core: whether tests notice small changes of the code.

    python benchmarks/mutants.py [--only codes/rounding.py] [--share 0.25] [--seconds 170]

A mutant is a copy of one module in which one comparison, one operation of arithmetic, one constant
or one boolean is another one (below: `mutations`). For each module a share of all its mutants is
drawn at random, by the name of the module and ``--seed``. Each mutant runs the quick tests of its
module (`MODULES`) in a process of its own, with a copy of the package; it is *killed* if one of
them fails, or if they take longer than ten times as long as with the code as it is. Those that
survive are printed with their line. Docstrings, annotations and messages are not changed.

Loops that numba has compiled are not mutated: their twins in ``tests/reference.py`` check them.
"""

import argparse
import ast
import contextlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

#: Tests that take as long as all others together: random input, for which fuzzing is the place.
SLOW = "not any_value_anywhere and not another_package"

#: Modules and the tests that must notice.
MODULES = {
    "codes/randomness.py": (
        "unit/test_randomness.py",
        "unit/test_seeds.py",
        "golden/test_streams.py",
    ),
    "codes/rounding.py": ("golden/test_roundings.py", "unit/test_rounding.py"),
    "codes/cells.py": ("unit/test_cells.py", "unit/test_box_lattices.py"),
    "codes/lattices.py": ("golden/test_roundings.py", "unit/test_lattices.py"),
    "codes/canonical.py": ("unit/test_published_vectors.py", "unit/test_modelfile.py"),
    "files/modelfile.py": ("unit/test_modelfile.py",),
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


def mutations(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Changes: the node, and what is done to it."""
    for node in places(tree):
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            yield node, "comparison"
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
            yield node, "operation"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield node, "sign"
        elif isinstance(node, ast.BoolOp):
            yield node, "and, or"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
            yield node, "constant"


def changed(tree: ast.Module, node: ast.AST) -> None:
    """Change a node in its tree."""
    match node:
        case ast.Compare():
            node.ops[0] = COMPARISONS[type(node.ops[0])]()
        case ast.BinOp():
            node.op = OPERATIONS[type(node.op)]()
        case ast.UnaryOp():
            node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
            if isinstance(node.op, ast.Not):
                node.operand = ast.UnaryOp(ast.Not(), node.operand)
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant():
            node.value = node.value + 1 if isinstance(node.value, int) else node.value * 1.5 + 0.1


def run_tests(source: Path, tests: tuple[str, ...], seconds: float) -> bool:
    """Whether all tests pass, in a fork that has not imported the package yet."""
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        code = 3
        try:
            nothing = os.open(os.devnull, os.O_WRONLY)
            for stream in (1, 2):
                os.dup2(nothing, stream)
            sys.path[:0] = [str(source), str(ROOT)]
            os.chdir(ROOT)
            import pytest

            options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "-k", SLOW]
            code = int(pytest.main([*options, *(f"tests/{test}" for test in tests)]))
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def try_module(name: str, source: Path, options: argparse.Namespace, end: float) -> tuple[int, int]:
    """Killed and tried mutants of a module; survivors are printed."""
    path = source / "replearn" / name
    text, times = path.read_text("utf-8"), path.stat()
    begun = time.monotonic()
    if not run_tests(source, MODULES[name], 600):
        sys.exit(f"the tests of {name} fail as it is")
    limit = 10 * (time.monotonic() - begun) + 10
    number = len(list(mutations(ast.parse(text))))
    chosen = random.Random(f"{name}/{options.seed}").sample(range(number), number)
    last = round(options.share * number) if options.most is None else options.skip + options.most
    killed = tried = 0
    for index in chosen[options.skip : last]:
        if time.monotonic() > end:
            break
        tree = ast.parse(text)
        node, kind = list(mutations(tree))[index]
        line, before = node.lineno, ast.unparse(node)
        changed(tree, node)
        path.write_text(ast.unparse(tree), "utf-8")
        try:
            survived = run_tests(source, MODULES[name], limit)
        finally:
            path.write_text(text, "utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # compiled code stays valid
        tried += 1
        killed += not survived
        if survived:
            print(f"  {name}:{line}: {kind}: {before} became {ast.unparse(node)}", flush=True)
    print(f"{name:<24}{number:>6} mutants{tried:>6} tried{killed:>6} killed", flush=True)
    return killed, tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=tuple(MODULES))
    parser.add_argument("--share", type=float, default=0.25, help="of the mutants of a module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="mutants that have been tried")
    parser.add_argument("--most", type=int, help="mutants of a module")
    parser.add_argument("--seconds", type=float, default=1e9, help="no mutant is started later")
    options = parser.parse_args()
    end, counts = time.monotonic() + options.seconds, []
    sys.dont_write_bytecode = True
    os.environ["REPLEARN_EXAMPLES"] = "8"  # of each property: a mutant is mostly seen by the first
    for name in ("numpy", "numba", "scipy.sparse", "pytest", "sklearn.base"):
        __import__(name)  # once for all forks
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, copy_function=shutil.copy2)  # times, for numba
        for name in options.only or MODULES:
            counts.append(try_module(name, source, options, end))
    killed, tried = map(sum, zip(*counts, strict=True))
    print(f"{'all':<24}{'':>14}{tried:>6} tried{killed:>6} killed ({killed / max(tried, 1):.0%})")


if __name__ == "__main__":
    main()
