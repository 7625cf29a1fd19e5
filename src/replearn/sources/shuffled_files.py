"""A file with the rows of another one in random order: shuffled once, streamed ever after."""

import gzip
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from replearn.codes.randomness import SharedRandomness, seed_text
from replearn.errors import ReplearnError
from replearn.files.atomic import replacing, scratch_folder
from replearn.sources import open_source, read_table
from replearn.sources.shuffling import ShuffledSource

if TYPE_CHECKING:
    import pyarrow as pa

    from replearn.sources import Source, Watch

#: Endings of files that have one format.
_FORMATS = (
    (".parquet", ".pq"),
    (".csv", ".csv.gz"),
    (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz"),
    (".npz",),
)
_ROW_GROUP = 1 << 25  # bytes in memory of a row group of Parquet

#: Takes the batches of a file one after the other.
_Write = Callable[["pa.RecordBatch"], None]


def shuffle_file(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    shared_seed: int | str = 0,
    random_state: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    watch: "Watch | None" = None,
) -> int:
    r"""Write the rows of a file in the order in which ``fit`` with ``shuffle=True`` takes them.

    A fit on the new file with ``shuffle=False`` gives the model of a fit on the old one with
    ``shuffle=True`` and the same seed, to the bit, and reads the rows as a stream.

    Parameters
    ----------
    path : path
        A file, or a folder of files.
    out : path
        A file of the same format; text may be compressed (``.gz``).
    shared_seed : int or str, default=0
        The published seed, whose stream "order" gives the rows their keys.
    random_state : int, optional
        Instead of the shared seed: a private key.
    scratch : path, optional
        Folder for temporary files as large as the rows; default the folder of ``out``. What a
        killed run left there is removed.
    watch : callable, optional
        Called with the share of the work that is done.

    Returns
    -------
    n_rows : int
        Rows that were written.

    Notes
    -----
    Memory does not depend on the number of rows; see `ShuffledSource`. An npz file is shuffled
    in memory.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import replearn as rl
    >>> with TemporaryDirectory() as folder:
    ...     size = Path(folder, "rows.csv").write_text("a,label\n1,0\n2,1\n3,0\n")
    ...     print(rl.shuffle_file(Path(folder, "rows.csv"), Path(folder, "shuffled.csv"), 2024))
    ...     print(sorted(Path(folder, "shuffled.csv").read_text().split()))
    3
    ['1,0', '2,1', '3,0', 'a,label']
    """
    place = Path(out)
    source = open_source(path, raw=True)
    _check_format(source, place)
    coins, stream = (
        (SharedRandomness(seed_text(shared_seed, "shared_seed")), "order")
        if random_state is None
        else (SharedRandomness(str(random_state)), "order/private")
    )
    if source.in_memory_only:
        return _shuffle_arrays(path, place, coins, stream)
    with scratch_folder(scratch or place.parent) as folder:
        shuffled = ShuffledSource(source, coins, stream, folder, every=float("inf"))
        shuffled.scatter(_half(watch, 0.0))
        with replacing(place) as beside, _writer(source, place, beside) as write:
            for batch in shuffled.batches(watch=_half(watch, 0.5)):
                write(batch)
        return shuffled.n_rows


def _half(watch: "Watch | None", start: float) -> "Watch | None":
    return None if watch is None else lambda share: watch(start + share / 2)


def _check_format(source: "Source", out: Path) -> None:
    given = Path(source.paths[0]).name.lower()
    ends = next(ends for ends in _FORMATS if given.endswith(ends))
    if not out.name.lower().endswith(ends):
        raise ReplearnError(
            f"{out} must have the format of {source.place}, so end in {' or '.join(ends)}. Rename "
            "it, or convert the file first."
        )


@contextmanager
def _writer(source: "Source", out: Path, beside: Path) -> Iterator[_Write]:
    """What writes batches to a file."""
    if out.name.lower().endswith(_FORMATS[0]):
        with _parquet_writer(source, beside) as write:
            yield write
        return
    with beside.open("wb") as file:
        # no name and no time in the file, so that the same rows give the same bytes
        zipped = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if out.suffix == ".gz" else None
        text: Any = file if zipped is None else zipped
        text.write(source.header)  # type: ignore[attr-defined]
        yield lambda batch: text.writelines(batch.column(0).to_pylist())
        if zipped is not None:
            zipped.close()


@contextmanager
def _parquet_writer(source: "Source", beside: Path) -> Iterator[_Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    first = source.batches()
    schema = next(first).schema
    first.close()
    waiting: list[pa.RecordBatch] = []

    with pq.ParquetWriter(beside, schema) as file:

        def flush() -> None:
            if waiting:
                table = pa.Table.from_batches(waiting)
                file.write_table(table.cast(schema), row_group_size=table.num_rows)
                waiting.clear()

        def write(batch: "pa.RecordBatch") -> None:
            waiting.append(batch)
            if sum(part.nbytes for part in waiting) >= _ROW_GROUP:
                flush()

        yield write
        flush()


def _shuffle_arrays(
    path: str | os.PathLike[str], out: Path, coins: SharedRandomness, stream: str
) -> int:
    table = read_table(path)
    order = coins.row_order(stream, table.X.shape[0])
    X = table.X[order]
    arrays: dict[str, Any] = {"X": X}
    if sp.issparse(X):
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    if table.y is not None:
        arrays["y"] = table.y[order]
    if table.names is not None:
        arrays["feature_names"] = np.array(table.names)
    with replacing(out) as beside, beside.open("wb") as file:
        np.savez(file, **arrays)
    return int(order.size)
