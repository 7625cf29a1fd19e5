"""How easily the package is read: tokens, blank lines, comments, conditional expressions.

    python benchmarks/air.py [ROOM ...]

Tokens are those of code; docstrings and comments do not count. Blank lines and lines with a
comment are shares of the lines of function bodies, docstrings left out.
"""

import ast
import io
import sys
import tokenize
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "replearn"
_LAYOUT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


@dataclass
class Counts:
    """Of some modules."""

    tokens: int = 0
    code_lines: int = 0
    body_lines: int = 0
    blank: int = 0
    commented: int = 0
    conditionals: int = 0
    functions: int = 0
    long: int = 0

    def add(self, path: Path) -> None:
        """Count one module."""
        text = path.read_text(encoding="utf-8")
        tree, lines = ast.parse(text), text.split("\n")
        documented = docstring_lines(tree)
        commented, code = set(), set()
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                commented.add(token.start[0])
            if token.type in _LAYOUT or token.start[0] in documented:
                continue
            self.tokens += 1
            code.update(range(token.start[0], token.end[0] + 1))
        self.code_lines += len(code)
        self.conditionals += sum(isinstance(node, ast.IfExp) for node in ast.walk(tree))

        for function in outer_functions(tree):
            first, last = function.body[0].lineno, function.end_lineno or 0
            body = [n for n in range(first, last + 1) if n not in documented]
            self.functions += 1
            self.long += len(body) > 60
            self.body_lines += len(body)
            self.blank += sum(not lines[n - 1].strip() for n in body)
            self.commented += sum(n in commented for n in body)


def docstring_lines(tree: ast.Module) -> set[int]:
    """Lines of docstrings."""
    found: set[int] = set()
    for node in ast.walk(tree):
        is_documented = isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        )
        if is_documented and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def outer_functions(tree: ast.AST) -> list[ast.FunctionDef]:
    """Functions and methods, without those inside of others."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            found.append(node)
        else:
            found += outer_functions(node)
    return found


def main(rooms: list[str]) -> None:
    chosen = rooms or sorted({p.relative_to(PACKAGE).parts[0] for p in PACKAGE.rglob("*.py")})
    print(
        f"{'room':<14}{'tokens':>9}{'per line':>9}{'blank':>8}{'comment':>9}{'x if c':>8}{'>60':>5}"
    )
    total = Counts()
    for room in chosen:
        here = Counts()
        place = PACKAGE / room
        for path in [place] if place.suffix else sorted(place.rglob("*.py")):
            here.add(path)
            total.add(path)
        show(room, here)
    show("all", total)


def show(name: str, counts: Counts) -> None:
    lines = max(1, counts.body_lines)
    print(
        f"{name:<14}{counts.tokens:>9,}{counts.tokens / max(1, counts.code_lines):>9.1f}"
        f"{counts.blank / lines:>9.1%}{counts.commented / lines:>9.1%}"
        f"{1000 * counts.conditionals / max(1, counts.code_lines):>9.1f}{counts.long:>9}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
