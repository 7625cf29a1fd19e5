"""Lines by room, and imports between the names in the root of the package.

    python benchmarks/rooms.py src/replearn [OTHER/src/replearn]

An edge is an import, lazy ones included, from one name in the root (a room or a module) to another;
it is counted once.
"""

import ast
import sys
from collections import Counter
from pathlib import Path


def lines_by_room(package: Path) -> Counter[str]:
    """Lines of the files below each room; modules of the root together."""
    counts: Counter[str] = Counter()
    for file in package.rglob("*.py"):
        parts = file.relative_to(package).parts
        counts[parts[0] if len(parts) > 1 else "(root)"] += len(file.read_text().splitlines())
    return counts


def edges(package: Path) -> set[tuple[str, str]]:
    """Imports between names in the root."""
    modules = {name_of(package, file): file for file in package.rglob("*.py")}
    found = set()
    for name, file in modules.items():
        for wanted in imported(ast.parse(file.read_text()), modules):
            if root_name(wanted) != root_name(name):
                found.add((root_name(name), root_name(wanted)))
    return found


def imported(tree: ast.AST, modules: dict[str, Path]) -> list[str]:
    """Modules of the package that a module imports, anywhere in it."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                names.append(whole if whole in modules else node.module)
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return [name for name in names if name in modules]


def name_of(package: Path, file: Path) -> str:
    parts = [package.name, *file.relative_to(package).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def root_name(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def main() -> None:
    for package in map(Path, sys.argv[1:]):
        counts, found = lines_by_room(package), edges(package)
        names = {name for edge in found for name in edge}
        print(f"{package}: {counts.total():,} lines, {len(names)} names, {len(found)} edges")
        for room, n_lines in sorted(counts.items()):
            print(f"  {room:12}{n_lines:8,}")


if __name__ == "__main__":
    main()
