"""Tables in files of all formats."""

import contextlib
import gzip
import random
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import replearn as rl
from replearn.errors import ReplearnError, ReplicabilityWarning
from replearn.fits.file_fit import fit_file
from replearn.sources import open_source, read_columns, read_table
from tests.fuzzing.garbling import hostile_npz, mutated_bytes, some_bytes
from tests.fuzzing.judging import Case, require
from tests.fuzzing.samples import TABLE, X, Y, outcome, small_svm, written_bytes

ODD_CELLS = [
    "", " ", "nan", "NaN", "inf", "-Infinity", "1e999", "1e-999", "0x10", "1_0", "1,5", '"1"', '"',
    '""', '"a""b"', '"a\nb"', "1" * 400, "1" * 100_000, "-" * 50, "1e5", "1E+5", "+1", " 1", "1 ",
    ".5", "5.", "1..", "١", "é", "\ufeff1", "\0", "true", "True", "1.0", "0", "-0", "007", "null",
    "NA", "None", "#N/A", "\t", "\x1b[2J", "1e-320", "4.9e-324", "1.7976931348623159e308",
    "0." + "0" * 400 + "1", "=1+1", "infinity", "NAN(1)", "1d5", "1f", "\u2028", "\r", "0b1",
]  # fmt: skip


def hostile_csv(rng: random.Random) -> bytes:
    """A table with odd cells, rows, line ends, or damage."""
    kind = rng.random()
    if kind < 0.08:
        return rng.choice([b"", b"\n", b"a", b"a,label\n", b"a,label", b"\xef\xbb\xbf", b'"', b"\r",
                           b"a,a\n1,2\n", b",\n1,2\n", b"label\n1\n", some_bytes(rng),
                           b"\0" * 50])  # fmt: skip
    if kind < 0.3:
        return mutated_bytes(rng, TABLE)
    rows = [line.split(",") for line in TABLE.decode().splitlines()]
    for _ in range(rng.choice([1, 1, 2, 4])):
        row = rng.randrange(len(rows)) if rng.random() < 0.85 else 0
        match rng.randrange(10):
            case 0:
                rows.insert(row, [])
            case 1:
                rows[row] = rows[row][: rng.randrange(4)]
            case 2:
                rows[row] = rows[row] + [rng.choice(ODD_CELLS)]
            case 3:
                rows = rows[: row + 1]
            case 4:
                column = rng.randrange(4)
                for cells in rows[1:]:
                    if column < len(cells):
                        cells[column] = rng.choice(
                            ["0", "1", cells[column], rng.choice(ODD_CELLS[:6])]
                        )
            case 5:
                for cells in rows[1:]:
                    if cells:
                        cells[-1] = rng.choice(
                            ["yes", "no", "yes", "1", "1.0", "0"][: rng.choice([1, 2, 6])]
                        )
            case _:
                if rows[row]:
                    rows[row][rng.randrange(len(rows[row]))] = rng.choice(ODD_CELLS)
    ends = rng.choice([["\n"], ["\n"], ["\r\n"], ["\r"], ["\n", "\r\n", "\r"]])
    text = "".join(",".join(cells) + rng.choice(ends) for cells in rows)
    if rng.random() < 0.1:
        text = text.rstrip("\r\n")
    if rng.random() < 0.05:
        text = "\ufeff" + text
    return text.encode("utf-8" if rng.random() < 0.95 else "utf-16")


def hostile_svmlight(rng: random.Random) -> bytes:
    """Sparse rows with odd indices, numbers, comments, or damage."""
    if rng.random() < 0.05:
        return rng.choice([b"", b"\n", b"#", b"# a\n", b"1\n-1\n", some_bytes(rng)])
    lines = [
        [f"{int(y)}", *(f"{i + 1}:{v:.4g}" for i, v in enumerate(row) if rng.random() < 0.8)]
        for row, y in zip(X[:40], Y, strict=False)
    ]
    for _ in range(rng.choice([1, 1, 2, 3])):
        row = rng.randrange(len(lines))
        odd = rng.choice(["0:1", "-1:1", "1:1", "99999999999:1", "16777216:1", "16777217:1", "2:",
        ":2",
            "2:nan", "2:inf", "2:1e999", "qid:3", "qid:", "a:b", "+2:1", "002:1", "2:1_0", "2 :1",
            "# c", "#", "2:1:1", "1" * 100_000 + ":1", "2:" + "1" * 100_000, "2:0x1", "\0", "é:1",
            "1.0:2", "1e0:2", "2147483648:1", "2:1e-320", "3:-0", "\x0b", "\r",
            "4:1#x"])  # fmt: skip
        match rng.randrange(5):
            case 0:
                lines[row][0] = rng.choice(
                    ["", "nan", "1,2", "x", "1e400", "+1", "0.5", "2", "1_0"]
                )
            case 1:
                rng.shuffle(lines[row])
            case 2:
                lines[row] = rng.choice([[], ["#"], ["1"], [" "]])
            case _:
                lines[row].insert(rng.randrange(len(lines[row]) + 1), odd)
    content = rng.choice(["\n", "\n", "\r\n"]).join(map(" ".join, lines)).encode() + b"\n"
    return mutated_bytes(rng, content) if rng.random() < 0.2 else content


@cache
def archives() -> tuple[bytes, ...]:
    sparse = sp.csr_array(np.where(np.abs(X[:60]) > 0.3, X[:60], 0))
    names = np.array(["a", "b", "c"])
    parts = {"data": sparse.data, "indices": sparse.indices, "indptr": sparse.indptr}
    return (
        written_bytes(lambda path: np.savez(path, X=X[:60], y=Y[:60])),
        written_bytes(
            lambda path: np.savez(path, X=X[:60].astype("f4"), y=Y[:60] > 0, feature_names=names)
        ),
        written_bytes(
            lambda path: np.savez(path, **parts, shape=sparse.shape, format=b"csr", y=Y[:60])
        ),
        written_bytes(
            lambda path: np.savez_compressed(path, X=X[:60], y=np.where(Y[:60] > 0, "ü", "v"))
        ),
    )


@cache
def parquets() -> tuple[bytes, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = {"a": X[:60, 0], "größe": X[:60, 1].astype("f4"), "n": np.arange(60), "label": Y[:60]}
    text = numbers | {"town": ["Oslo", "Rome", None] * 20, "label": ["no", "yes", "no"] * 20}
    missing = numbers | {"a": [None, 1.0, 2.0] * 20}
    return tuple(
        written_bytes(lambda path, t=table, s=settings: pq.write_table(pa.table(t), path, **s))
        for table in (numbers, text, missing)
        for settings in ({}, {"row_group_size": 7, "compression": "gzip", "use_dictionary": False})
    )


def _zipped(rng: random.Random, content: bytes) -> bytes:
    packed = gzip.compress(content, 1, mtime=0)
    match rng.randrange(4):
        case 0:
            return packed[: rng.randrange(len(packed))]
        case 1:
            return mutated_bytes(rng, packed)
        case 2:
            return packed + packed
    return packed


def _hostile_table(rng: random.Random, folder: Path, suffix: str) -> Path:
    content = {
        ".csv": lambda: hostile_csv(rng),
        ".svm": lambda: hostile_svmlight(rng),
        ".npz": lambda: hostile_npz(rng, rng.choice(archives())),
        ".parquet": lambda: mutated_bytes(rng, rng.choice(parquets())),
    }[suffix]
    n_files = rng.choice([1] * 9 + [2])
    packed = suffix in (".csv", ".svm") and rng.random() < 0.1
    name = f"{suffix}.gz" if packed else suffix
    place = folder / f"a{name}"
    if n_files > 1:
        (folder / "parts").mkdir()
        place = folder / "parts"
    for number in range(n_files):
        path = place / f"{number}{name}" if n_files > 1 else place
        path.write_bytes(_zipped(rng, content()) if packed else content())
    return place


def table_case(suffix: str) -> Case:
    def case(rng: random.Random, folder: Path) -> None:
        use_table(_hostile_table(rng, folder, suffix), rng, folder)

    case.__doc__ = f"Files {suffix}, read in every way, and fitted in memory and streamed."
    return case


def use_table(path: Path, rng: random.Random, folder: Path) -> None:
    """Read and fit; ways that must agree do."""
    target = None if path.name.endswith((".svm", ".svm.gz", ".npz")) else "label"
    if path.is_dir() and next(path.iterdir()).name.endswith((".svm", ".svm.gz", ".npz")):
        target = None
    match rng.randrange(4):
        case 0:
            whole = outcome(lambda: read_table(path, target))
            pieces = outcome(lambda: list(open_source(path, target).pieces()))
            if isinstance(whole, Exception) or isinstance(pieces, Exception):
                empty = "must have rows" in str(whole) and pieces == []
                require(empty or str(whole) == str(pieces), f"{whole!r} but {pieces!r}")
            else:
                require(
                    _dense(whole.X).tobytes() == b"".join(_dense(p.X).tobytes() for p in pieces),
                    "other numbers",
                )
        case 1:
            use_columns(read_columns(path, target))
        case 2:
            _shuffled(path, target, folder)
        case _:
            fitted_both_ways(path, target)


def use_columns(found: tuple[Any, Any]) -> None:
    """Raw columns are numbers or objects, all of one length."""
    columns, y = found
    if isinstance(columns, dict):
        sizes = {len(column) for column in columns.values()}
        require(len(sizes) == 1, "columns of different lengths")
        require(y is None or len(y) in sizes, "labels are missing")


def _dense(X: Any) -> Any:
    return X.toarray() if sp.issparse(X) else np.ascontiguousarray(X)


def fitted_both_ways(path: Path, target: str | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        kept = outcome(lambda: fit_file(small_svm(), path, target))
        streamed = outcome(lambda: fit_file(small_svm(), path, target, memory=0))
    if isinstance(kept, Exception) or isinstance(streamed, Exception):
        require(
            isinstance(kept, Exception) and isinstance(streamed, Exception),
            f"{kept!r} but {streamed!r}",
        )
        raise kept
    require(kept.model_ == streamed.model_, "streamed and in memory give different models")
    require(np.isfinite(kept.coef_).all(), "weights are not finite")


def _shuffled(path: Path, target: str | None, folder: Path) -> None:
    from replearn.sources.shuffled_files import shuffle_file

    first = next(path.iterdir()) if path.is_dir() else path
    out = folder / ("out" + "".join(first.suffixes))
    shuffle_file(path, out)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        before = outcome(lambda: fit_file(small_svm(), path, target))
        after = outcome(lambda: fit_file(small_svm(shuffle=False), out, target))
    if isinstance(before, Exception):
        raise before
    if not isinstance(after, Exception):
        require(before.model_ == after.model_, "the shuffled file gives another model")


def csv_twins(rng: random.Random, folder: Path) -> None:
    """The fast reader of comma-separated text takes nothing that the slow one reads otherwise."""
    from replearn.sources.csv_parsing import _Odd, n_rows, read_by_arrow, read_by_reader

    path = folder / "a.csv"
    path.write_bytes(hostile_csv(rng))
    source = open_source(path)
    (file,) = source.files
    numeric = [name for name in file.names if rng.random() < 0.7]
    text = [name for name in file.names if name not in numeric]
    fast: list[Any] = []
    slow: list[Any] = []
    finished = problem = None
    with contextlib.suppress(_Odd, ReplearnError):
        for _, columns in read_by_arrow(file, numeric, text):
            fast.append(columns)
        finished = True
    try:
        for _, columns in read_by_reader(file, numeric, text, None):
            slow.append(columns)
    except ReplearnError as found:
        problem = found
    require(not finished or problem is None, f"only the fast reader takes it: {problem}")
    for name in file.names:
        quick = [value for columns in fast for value in columns[name]]
        right = [value for columns in slow for value in columns[name]]
        same = [str(a) == str(b) for a, b in zip(quick, right, strict=False)]
        require(all(same), f"other values in {name!r}")
    require(all(n_rows(columns) for columns in (*fast, *slow)), "rows without rows")


def weights_column(rng: random.Random, folder: Path) -> None:
    """A column of weights with odd cells: in memory and streamed give one model, or both none."""
    path = folder / "a.csv"
    path.write_bytes(_with_weights(rng, hostile_csv(rng) if rng.random() < 0.3 else TABLE))
    kind = rl.ReplicableLogisticClassifier if rng.random() < 0.95 else small_svm
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReplicabilityWarning)
        warnings.simplefilter("ignore", rl.UselessModelWarning)
        kept = outcome(lambda: fit_file(kind(), path, "label", weights="w"))
        streamed = outcome(lambda: fit_file(kind(), path, "label", weights="w", memory=0))
    if isinstance(kept, Exception) or isinstance(streamed, Exception):
        both = isinstance(kept, Exception) and isinstance(streamed, Exception)
        require(both, f"{kept!r} but {streamed!r}")
        raise kept
    require(kept.model_ == streamed.model_, "streamed and in memory give different models")


def _with_weights(rng: random.Random, table: bytes) -> bytes:
    cells = [rng.choice(["1", "2", "7", "0"]) for _ in range(200)]
    for _ in range(rng.choice([0, 1, 1, 2])):
        odd = ["-1", "0.5", "1e9", "1e300", "2.0000001", "4503599627370497", "1e16", *ODD_CELLS]
        cells[rng.randrange(60)] = rng.choice(odd)
    lines = table.split(b"\n")
    head, rows = lines[0] + b",w", lines[1:]
    return b"\n".join(
        [
            head,
            *(row + b"," + c.encode() if row else row for row, c in zip(rows, cells, strict=False)),
        ]
    )
