"""JSON files that are safe to open, and files that are there as a whole or not at all."""

import contextlib
import errno
import glob
import json
import math
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from replearn.documents.canonical import canonical_json
from replearn.errors import InvalidFile, ReplearnError, file_path

FilePath = str | os.PathLike[str]

MAX_BYTES = 1 << 26
MAX_DEPTH = 32
_MAX_PARTS = 1 << 20

#: No living writer leaves its hidden file alone for so long: a day.
_SECONDS_TO_SWEEP = 86_400

#: What the head of each page says.
_GENERATOR = b'<meta name="generator" content="replearn">'

#: An escape that may stand for half of a character; UTF-8 itself has none.
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(path: FilePath, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Read one JSON object strictly; `InvalidFile` if the file holds anything else.

    Limited size and nesting, no duplicate keys, no NaN, no number that is infinite as a double,
    no half of a character: what is read can be written again.
    """
    content = _limited_bytes(path, max_bytes)
    try:
        return _parsed(content)
    except ValueError as problem:
        raise InvalidFile(
            f"{path} must be one JSON object, as replearn writes it, got a different text "
            f"({str(problem)[:200]}). Is it the right file?"
        ) from None


def write_json(path: FilePath, content: Any, private: bool = False, new: bool = False) -> None:
    """Write canonical JSON, whole or not at all; a private file only its owner may read."""
    write_atomically(path, canonical_json(content) + b"\n", private, new)


def write_atomically(
    path: FilePath, content: bytes, private: bool = False, new: bool = False
) -> None:
    """Write a file so that no reader ever sees half of it; see `in_place_of`."""
    with in_place_of(path, private, new=new) as name, open(name, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())  # the content must be safe before its new name is


def check_replaced(path: FilePath, kinds: tuple[str, ...], private: bool = False) -> None:
    """Stop before a file of a different kind is lost, or a private one becomes public.

    ``kinds`` are formats of documents, with the kind of their design where it matters
    (replearn/study/glm). Without any, no file is replaced: nobody can tell a table from what was
    exported.
    """
    file_path(path)
    if not os.path.exists(path) or not os.path.getsize(path):  # an empty file loses nothing
        return

    content: dict[str, Any] = {}
    if kinds:
        with contextlib.suppress(InvalidFile):
            content = read_json(path)
    named = content.get("format")
    if not {named, f"{named}/{design_kind(content)}"} & set(kinds):
        what = " or ".join(kinds) or "file that this command may replace"
        raise ReplearnError(
            f"{path} is there and is no {what}. Name a new file, or delete it first."
        )

    if not private and not os.stat(path).st_mode & 0o077 and _granted(0o066):
        raise ReplearnError(
            f"{path} is private, and what is written would not be. Name a new file, or delete it "
            "first."
        )


def design_kind(content: dict[str, Any]) -> Any:
    """The kind that the design of a document names, whatever it is; None without one."""
    design = content.get("design")
    if not isinstance(design, dict):
        return None
    return design.get("kind")


def _granted(rights: int) -> int:
    """What is left of some rights for a new file, as the user has it."""
    mask = os.umask(0)
    os.umask(mask)
    return rights & ~mask


def check_page(path: FilePath) -> None:
    """Stop before a page replaces what is no page of replearn."""
    check_start(path, _GENERATOR, "page of replearn")


def check_start(path: FilePath, mark: bytes, what: str) -> None:
    """Stop before a file is lost that is not of the own kind, as a mark at its start tells."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        start = file.read(1 << 10)
    if start and mark not in start:
        raise ReplearnError(
            f"{path} is there and is no {what}. Name a new file, or delete it first."
        )


@contextmanager
def in_place_of(
    path: FilePath, private: bool = False, folder: bool = False, new: bool = False
) -> Iterator[Path]:
    """Give a hidden file or folder beside the target, which becomes the target at the end.

    If anything goes wrong, the old target stays and the new one is removed; if the process is
    killed, a writer of a later day removes it. What is private nobody but its owner may read, not
    for a moment. Of several who write a ``new`` file at one time one succeeds.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    names = (f".{target.name[:100]}.", ".part")
    try:
        _sweep(target.parent, *names)
        rights = 0o666
        if folder:
            rights = 0o777
            made = Path(tempfile.mkdtemp(names[1], names[0], target.parent))
        else:
            number, name = tempfile.mkstemp(names[1], names[0], target.parent)
            os.close(number)
            made = Path(name)

        try:
            yield made

            if not private:  # it was made for its owner
                os.chmod(made, _granted(rights))
            if new:
                _appear(made, target)
            else:
                os.replace(made, target)
        except BaseException:
            _remove(made)
            raise
    except OSError as problem:
        raise ReplearnError(f"{path} cannot be written: {system_words(problem)}") from problem


def _appear(made: Path, target: Path) -> None:
    """Give a file its name, unless a different file has it."""
    try:
        os.link(made, target)  # which replaces nothing, other than a change of name
    except FileExistsError:
        raise
    except OSError:  # a file system without links, such as FAT
        os.replace(made, target)
    else:
        made.unlink()


def _sweep(folder: Path, start: str, end: str) -> None:
    """Remove what processes that were killed long ago left."""
    for left in folder.glob(f"{glob.escape(start)}*{end}"):
        with contextlib.suppress(OSError):  # a different writer was faster
            if time.time() - left.stat().st_mtime > _SECONDS_TO_SWEEP:
                _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def system_words(problem: OSError) -> str:
    """What the operating system complains about, and what to do."""
    remedy = "Check the path and its rights"
    if problem.errno in (errno.ENOSPC, errno.EDQUOT):
        remedy = "Free some space, or name a folder on a different disk"
    return f"{problem.strerror or problem}. {remedy}."


def _limited_bytes(path: FilePath, most: int) -> bytes:
    """The content of a regular file: a device has no end, and a pipe may never begin."""
    file_path(path)
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    if os.path.isdir(path):
        raise InvalidFile(f"{path} must be a file, got a folder. Name a file in it.")

    number = os.open(path, flags)
    with open(number, "rb") as file:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise InvalidFile(f"{path} must be a regular file. Copy it to one first.")
        content = b""
        if status.st_size <= most:
            content = file.read(most + 1)  # it may grow while it is read

    if len(content) > most or status.st_size > most:
        raise InvalidFile(
            f"{path} must have at most {most:,} bytes, got {status.st_size:,}. "
            "Is it the right file?"
        )
    return content


def _parsed(content: bytes) -> dict[str, Any]:
    if content.count(b"[") + content.count(b"{") > _MAX_PARTS:  # each costs far more than its sign
        raise ValueError(f"it has more than {_MAX_PARTS:,} lists and objects")
    try:
        document = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_no_duplicates,
            parse_constant=_finite,
            parse_float=_finite,
        )
    except UnicodeDecodeError:
        raise ValueError("it is no UTF-8") from None
    except RecursionError:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep") from None
    if not isinstance(document, dict):
        raise ValueError("it holds no object")

    level: list[Any] = [document]
    for _ in range(MAX_DEPTH):
        level = _one_deeper(level)
    if level:
        raise ValueError(f"it is nested more than {MAX_DEPTH} deep")

    if _HALF_CHARACTER.search(content):
        try:
            json.dumps(document, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text has half of a character") from None
    return document


def _one_deeper(level: list[Any]) -> list[Any]:
    """The lists and objects inside of these."""
    inside: list[Any] = []
    for part in level:
        if isinstance(part, dict):
            part = part.values()
        inside += (value for value in part if isinstance(value, dict | list))
    return inside


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return result


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is no number that is finite")
    return value
