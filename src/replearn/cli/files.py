"""Reading with progress, and writing that is refused before the work rather than after it."""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.progress import Advance


def terminal_progress(label: str, total: float = 1.0) -> "AbstractContextManager[Advance]":
    """Progress on a terminal, and nothing in a pipe or a log."""
    from replearn.progress import no_progress, on_terminal, progress

    return progress(label, total) if on_terminal() else nullcontext(no_progress)


def read_labelled_columns(
    path: str, target: str | None, categories: Sequence[str] = ()
) -> tuple[Any, Any]:
    """Raw columns, for a protocol to encode, and labels."""
    from replearn.sources import read_columns

    columns, y = read_columns(path, target, categories=categories)
    if y is None:
        raise ReplearnError(
            f"{path}: labels are needed, got none. Name the label column with --target."
        )
    return columns, y


def check_target(path: str | None) -> None:
    """Refuse before the work what could not be written after it."""
    if path is None:
        return
    target = Path(path)
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise ReplearnError(
            f"{path} must be a regular file or not exist yet, since it is replaced as a whole. "
            "Name another file."
        )
    if not target.parent.is_dir():
        raise ReplearnError(
            f"{path} cannot be written: {target.parent} is no folder. Make it first."
        )
    if not os.access(target.parent, os.W_OK):
        raise ReplearnError(f"{path} cannot be written: no right to write to {target.parent}.")


def check_report(path: str | None) -> None:
    """The same for a report, whose packages may be missing."""
    check_target(path)
    if path is not None:
        from replearn.audits.figures import require_report_packages

        require_report_packages()


def save_page(page: str, path: str) -> None:
    """Write a report that was made."""
    from replearn.files.atomic import write_atomically

    with writing(path):
        write_atomically(path, page.encode())


def check_scratch(path: str | None) -> None:
    """Refuse a scratch folder that is none, whether or not rows will need it."""
    if path is not None and not (Path(path).is_dir() and os.access(path, os.W_OK)):
        raise ReplearnError(
            f"--scratch must be a folder that can be written to, got {path!r}. Make it first, or "
            "name another one."
        )


@contextmanager
def writing(path: str) -> Iterator[None]:
    """Name the file when it cannot be written."""
    try:
        yield
    except OSError as problem:
        if problem.filename and Path(problem.filename).parent != Path(path).parent:
            raise  # another file, such as one of a scratch folder
        raise ReplearnError(
            f"{path} cannot be written: {problem.strerror or problem}. Name another file."
        ) from None


def target_of(model: str, data: str) -> str | None:
    """The label column that a model was fitted with, if the data have it; else None."""
    from replearn.files.jsonfile import read_json
    from replearn.sources import open_source

    target = read_json(model)["provenance"].get("target")
    if not isinstance(target, str):
        return None
    return target if target in (open_source(data, raw=True).names or ()) else None
