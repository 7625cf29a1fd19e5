"""Run what the pages show: their ``console`` blocks, and their sessions of Python.

    python docs/run_pages.py [PAGE ...]            say where a page shows what does not come out
    python docs/run_pages.py --write [PAGE ...]    put what comes out into the pages
    python docs/run_pages.py --jobs 4              four pages at a time; by default two

A page that cannot be run is named with the reason, and the others are run nonetheless.

The blocks of a page are run one after the other in one folder, which holds the tables of four
centres: ashford.csv, birchwood.csv, castleton.csv and dunmore.csv, 4,000 patients each. Nothing is
run that a reader does not see; a block below ``<!-- not run: why -->`` is shown and not run.
``...`` in a page stands for anything. Fingerprints are compared: a library that promises the same
bytes shows those of today. A first or last line ``...`` keeps the output as short as it is. With
both, the line below the first one must stay.
"""

import argparse
import contextlib
import difflib
import doctest
import glob
import io
import os
import re
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"(?ms)^(?P<open>```(?:python|console)\n)(?P<body>.*?)^```$")
COMMAND = re.compile(r"(?ms)^\$ (.*?(?<!\\))\n(.*?)(?=^\$ |\Z)")
DEMO = re.compile(r"(?s)\$ (.*?)\n(.*)")
NOT_RUN = re.compile(r"<!-- not run[^>]*-->\s*$")
PATIENTS = 4000
#: Pages that take longest, and are run first.
SLOW = ("survival.md", "README.md")
#: Two lines are one, with other numbers in it, if so much of them is equal.
LEAST_LIKENESS = 0.5


@dataclass(frozen=True)
class Step:
    """Something to run, and what the page shows of it: characters ``start`` to ``end``."""

    language: str
    source: str
    shown: str
    start: int
    end: int


def pages() -> list[Path]:
    """All pages that show something to run."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    mine = (page for page in found if not {"_build", "commands"} & set(page.parts))
    return [page for page in mine if any(steps(page.read_text(encoding="utf-8")))]


def steps(text: str) -> Iterator[Step]:
    """What a page shows, in order."""
    for block in FENCE.finditer(text):
        if NOT_RUN.search(text[: block.start()]):
            continue
        start = block.start("body")
        reader = _sessions if block["open"].startswith("```python") else _commands
        for language, source, shown, place in reader(block["body"]):
            yield Step(language, source, shown, start + place, start + place + len(shown))


def _sessions(body: str) -> Iterator[tuple[str, str, str, int]]:
    place = 0
    for piece in doctest.DocTestParser().parse(body):
        if isinstance(piece, str):
            place += len(piece)
            continue
        place += sum(len(line) + 5 for line in piece.source.splitlines())  # prompt, line end
        yield "python", piece.source, piece.want, place
        place += len(piece.want)


def _commands(body: str) -> Iterator[tuple[str, str, str, int]]:
    demo = body.startswith("$ python3 dev.py")  # it prints commands itself
    for match in [DEMO.match(body)] if demo else COMMAND.finditer(body):
        shown = match[2].rstrip("\n") + "\n" if match[2].strip() else ""
        yield "console", match[1].replace("\\\n", " "), shown, match.start(2)


def run(text: str) -> Iterator[tuple[Step, str]]:
    """Run a page; what each step printed."""
    from replearn.datasets import CENTRES, load_readmission

    names: dict[str, object] = {"__name__": "__main__"}
    before, code = Path.cwd(), 0
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for centre in CENTRES:
            table = load_readmission(centre, PATIENTS)
            table.to_csv(Path(folder) / f"{centre.lower()}.csv", index=False)
        os.chdir(folder)
        try:
            for step in steps(text):
                if step.language == "python":
                    yield step, _session(step.source, names)
                else:
                    printed, code = _command(step.source, code)
                    if step.shown.strip() == "..." and code == 2:  # nobody would see the error
                        raise RuntimeError(f"{step.source}: exit code {code}\n{printed}")
                    yield step, printed
        finally:
            os.chdir(before)


def _session(source: str, names: dict[str, object]) -> str:
    """Run an example as doctest does, exceptions included."""
    heard: list[str] = []

    class Listener(doctest.DocTestRunner):
        def report_success(self, out, test, example, got):
            heard.append(got)

        def report_failure(self, out, test, example, got):
            heard.append(got)

        def report_unexpected_exception(self, out, test, example, exc_info):
            name = f"{exc_info[0].__module__}.{exc_info[0].__qualname__}"
            heard.append(f"Traceback (most recent call last):\n    ...\n{name}: {exc_info[1]}\n")

    test = doctest.DocTest([doctest.Example(source, "")], names, "page", None, 0, None)
    Listener(verbose=False).run(test, out=lambda _: None, clear_globs=False)
    names.update(test.globs)
    return "".join(heard)


def _command(source: str, last: int) -> tuple[str, int]:
    """Run one of our commands, ``cd`` or ``echo $?`` here; what it printed, and its exit code."""
    from replearn import cli

    if source == "echo $?":
        return f"{last}\n", 0
    words = [name for word in shlex.split(source) for name in sorted(glob.glob(word)) or [word]]
    if words[0] == "cd":
        return os.chdir(words[1]) or "", 0
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        if words[0] == "replearn" or words[:2] == ["python3", "dev.py"]:
            try:
                code = cli.main(words[1 if words[0] == "replearn" else 2 :])
            except SystemExit as stop:
                code = int(stop.code or 0)
        else:
            raise ValueError(f"a page runs replearn, cd and echo $?, got {source!r}")
    if code not in (0, 1, 2):
        raise RuntimeError(f"{source}: exit code {code}\n{printed.getvalue()}")
    return printed.getvalue(), code


def agrees(shown: str, printed: str) -> bool:
    """Whether a page shows what was printed, fingerprints included: but for spaces and ``...``."""
    pieces = [" ".join(piece.split()) for piece in shown.split("...")]
    pattern = r"\s?.*\s?".join(map(re.escape, pieces))
    text = " ".join(printed.replace("<BLANKLINE>", "").split())
    return re.fullmatch(pattern.replace("<BLANKLINE>", ""), text) is not None


def check(page: Path) -> list[str]:
    """One complaint for every step that prints something else than its page shows."""
    return [
        f"{page.name}: {step.source.strip()}\n--- shown\n{step.shown}--- printed\n{printed}"
        for step, printed in run(page.read_text(encoding="utf-8"))
        if not agrees(step.shown, printed)
    ]


def write(page: Path) -> int:
    """Put what comes out into a page; the number of places that changed."""
    text = page.read_text(encoding="utf-8")
    changes = [(step, new) for step, out in run(text) if (new := written(step, out)) != step.shown]
    for step, new in reversed(changes):
        text = text[: step.start] + new + text[step.end :]
    if changes:
        page.write_text(text, encoding="utf-8")
    return len(changes)


def written(step: Step, printed: str) -> str:
    """What a page should show of a step: as much as it does, with the line breaks of today."""
    shown = step.shown.splitlines()
    if agrees(step.shown, printed) and any("..." in one and one != "..." for one in shown):
        return step.shown  # a part of a line stands for anything
    lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
    if step.language == "python":
        lines = [line or "<BLANKLINE>" for line in lines]

    # between lines "..." excerpts, each as long as it was
    excerpts = [list(group) for _, group in groupby(shown, lambda line: line == "...")]
    if ["..."] not in excerpts:
        return "".join(f"{line}\n" for line in lines)
    new: list[str] = []
    for place, excerpt in enumerate(excerpts):
        if excerpt == ["..."]:
            new += excerpt
            continue
        start = 0
        if place == len(excerpts) - 1:
            start = max(0, len(lines) - len(excerpt))
        elif place:
            start = _place(excerpt[0], lines)
        new += "\n".join(lines[start : start + len(excerpt)]).rstrip("\n").splitlines()
    return "".join(f"{line}\n" for line in new)


def _place(first: str, lines: list[str]) -> int:
    """Where a line stands; if its numbers or words changed, the line that is most like it."""
    likeness = [difflib.SequenceMatcher(None, first, line).ratio() for line in lines]
    best = max(range(len(lines)), key=likeness.__getitem__)
    if likeness[best] < LEAST_LIKENESS:
        raise ValueError(f"no line is like {first!r}: put the new one into the page by hand")
    return best


def told(page: Path, is_written: bool) -> tuple[bool, str]:
    """Check or write one page: whether all is well, and what to say about it."""
    start = time.monotonic()
    try:
        if is_written:
            is_well, said = True, [f"{write(page)} changed"]
        else:
            complaints = check(page)
            is_well, said = not complaints, [f"{len(complaints)} differ", *complaints]
    except Exception as problem:  # the other pages are run nonetheless
        is_well, said = False, [f"not run to its end. {type(problem).__name__}: {problem}"]
    said[0] += f" ({time.monotonic() - start:.0f} s)"
    return is_well, "\n".join([f"{page.name}: {said[0]}", *said[1:]])


def main() -> int:
    """Check or write all pages, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="put what comes out into the pages")
    parser.add_argument("--jobs", type=int, default=2, help="pages at a time")
    options = parser.parse_args()

    # a page has a folder of its own, and a process has one working folder
    chosen = [page.resolve() for page in options.pages] or pages()
    chosen.sort(key=lambda page: page.name not in SLOW)
    all_well = True
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for done in as_completed([pool.submit(told, page, options.write) for page in chosen]):
            is_well, words = done.result()
            all_well &= is_well
            print(words, flush=True)
    return 0 if all_well else 1


if __name__ == "__main__":
    sys.exit(main())
