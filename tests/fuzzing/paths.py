"""Paths that are not what they seem."""

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import replearn as rl
from replearn.coalitions.site_sums import SiteSums
from replearn.errors import ReplearnError
from replearn.files.onnx_model import OnnxModel
from replearn.fits.file_fit import fit_file
from replearn.sources import read_columns, read_table
from replearn.study.commitments import load_commitment
from replearn.study.hints import read_hints
from replearn.study.protocol import Protocol
from tests.fuzzing.protocols import logistic_protocols
from tests.fuzzing.samples import TABLE, small_svm
from tests.fuzzing.states import small_stream
from tests.fuzzing.tables import archives, parquets, use_columns


def odd_path(rng: random.Random, folder: Path) -> str:
    """A path that is not what it seems."""
    ends = [
        ".csv",
        ".csv.gz",
        ".svm",
        ".npz",
        ".parquet",
        ".json",
        "",
        ".CSV",
        ".pq",
        ".model.json",
    ]
    end = rng.choice(ends)
    start = rng.choice(["a", "a b", "é", "x" * 200, "-", chr(27) + "[2J", "a" + chr(10) + "b"])
    path = folder / f"{start}{rng.randrange(10**9)}{end}"
    match rng.randrange(14):
        case 0:
            path.mkdir()
        case 1:
            os.mkfifo(path)
        case 2:
            path.symlink_to(path)
        case 3:
            path.symlink_to("/dev/zero")
        case 4:
            path.symlink_to(folder / "nothing")
        case 5:
            path.mkdir()
            for name in rng.sample(
                ["a.csv", "b.csv", "c.npz", ".hidden", "_x", "d.parquet", "e.txt"], 2
            ):
                (path / name).write_bytes(rng.choice([b"", TABLE]))
        case 6:
            path.mkdir()
            (path / "a.csv").mkdir()
        case 7:
            path.mkdir()
            os.mkfifo(path / "a.csv")
        case 8:
            return rng.choice(["", ".", "/", "/dev/null", "/dev/zero", "/dev/full",
            "/dev/stdin.csv", "/proc/self/mem",
                               "a\0b.csv", "\udc80.csv", "x" * 5000 + ".csv", "..", "~", "//",
                               "/dev/fd/99.csv"])  # fmt: skip
        case 9:
            return str(path)
        case 10:
            path.write_bytes(b"")
        case 11:
            path.write_bytes(
                rng.choice([TABLE, gzip.compress(TABLE), archives()[0], parquets()[0]])
            )
        case 12:
            path.write_bytes(bytes(2_000_000))
        case _:
            path.write_bytes(gzip.compress(bytes(5_000_000)))
    return str(path)


def paths(rng: random.Random, folder: Path) -> None:
    """Every reader on paths that are not what they seem; what the system says is an error, too."""
    path = odd_path(rng, folder)
    readers: list[Callable[[], Any]] = [
        lambda: rl.load(path),
        lambda: Protocol.load(path),
        lambda: load_commitment(path),
        lambda: rl.load_choice(path),
        lambda: rl.ChoiceProtocol.load(path),
        lambda: SiteSums.load(path, logistic_protocols()[0]),
        lambda: read_hints([path], logistic_protocols()[0]),
        lambda: OnnxModel(path),
        lambda: read_table(path, "label"),
        lambda: read_table(path),
        lambda: use_columns(read_columns(path, "label")),
        lambda: small_stream().load_state(path),
        lambda: fit_file(small_svm(), path, "label"),
    ]
    try:
        rng.choice(readers)()
    except (OSError, ValueError) as problem:
        plain = (
            isinstance(problem, OSError)
            or "null" in str(problem)
            or isinstance(problem, UnicodeError)
        )
        if not plain or isinstance(problem, ReplearnError):
            raise
        raise ReplearnError(str(problem)) from None  # as of any path that cannot be opened
