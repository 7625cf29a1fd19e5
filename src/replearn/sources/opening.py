"""From a path to a source, by the end of its name."""

import os
import stat
from collections.abc import Callable, Sequence

from replearn.codes.encoding import Encoding
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.sources.common import Request, Source, reading
from replearn.sources.csv_files import open_csv
from replearn.sources.npz_files import open_npz
from replearn.sources.parquet_files import open_parquet
from replearn.sources.svmlight_files import open_svmlight

#: What opens files, by the end of their names.
FORMATS: dict[str, Callable[[Request], Source]] = {
    ".npz": open_npz,
    ".csv": open_csv,
    ".csv.gz": open_csv,
    ".parquet": open_parquet,
    ".pq": open_parquet,
    ".svm": open_svmlight,
    ".svm.gz": open_svmlight,
    ".svmlight": open_svmlight,
    ".svmlight.gz": open_svmlight,
    ".libsvm": open_svmlight,
    ".libsvm.gz": open_svmlight,
}


def open_source(
    path: str | os.PathLike[str],
    target: str | None = None,
    columns: Sequence[str] | None = None,
    encoding: Encoding | None = None,
    n_features: int | None = None,
    raw: bool = False,
) -> Source:
    """Describe a table in a file or a folder, so that it can be read piece by piece.

    Headers and sizes are looked at, and rows only where a format says nothing before them
    (svmlight without ``n_features``).

    Parameters
    ----------
    path : path
        A file (see ``FORMATS``), or a folder of files of one format, which are taken in the
        order of their names. In a folder, names that start with a dot or an underscore do
        not count.
    target : str, optional
        Label column. In an ``.npz`` file the array of labels, by default ``y`` if there is one;
        in an svmlight file the labels have no name.
    columns : sequence of str, optional
        Features to take, in this order; default all but the target. A file without column names
        is taken as it is.
    encoding : Encoding, optional
        How columns become numbers, categories and missing values included. Without it all
        features must be finite numbers.
    n_features : int, optional
        Columns before encoding. A study must fix it for svmlight files: the largest column in
        the rows of one lab need not be that of another one.
    raw : bool, default=False
        Batches carry all columns as they are, whatever they hold.

    Notes
    -----
    Pieces are read with a memory that does not depend on the number of rows, but for ``.npz``
    files, which are read as a whole. Files that cannot be read, or whose columns are not what is
    asked for, are refused.
    """
    place = os.fspath(path)
    paths, suffix = _files_of_folder(place) if os.path.isdir(place) else _one_file(place)
    request = Request(place, paths, target, columns, encoding, n_features, raw)
    source = FORMATS[suffix](request)
    known = source.names is not None and encoding is None and not raw
    if known and n_features not in (None, source.n_features):
        raise ReplearnError(
            f"{place} must have {n_features} feature columns, the number that was given, got "
            f"{source.n_features}. Name the columns to take."
        )
    return source


def source_for(model: Model, path: str | os.PathLike[str], target: str | None = None) -> Source:
    """The columns of a table that a model takes, encoded as it was fitted."""
    if model.encoding is not None:
        n_columns = len(model.encoding.columns)
        return open_source(path, target, encoding=model.encoding, n_features=n_columns)
    return open_source(path, target, model.feature_names, n_features=model.n_features)


def _one_file(path: str) -> tuple[tuple[str, ...], str]:
    """The file, and the end of its name."""
    suffix = _suffix(path)
    if suffix is None:
        raise ReplearnError(
            f"{path} must end in one of {', '.join(FORMATS)}. Convert it, or rename it if it has "
            "one of these formats."
        )
    with reading(path):
        mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):  # a pipe, say, which could be read only once
        raise ReplearnError(f"{path} must be a file or a folder. Copy it to a file first.")
    return (path,), suffix


def _suffix(path: str) -> str | None:
    """The end of a name that tells its format."""
    name = os.path.basename(path).lower()
    return next((end for end in FORMATS if name.endswith(end)), None)


def _files_of_folder(folder: str) -> tuple[tuple[str, ...], str]:
    """Its files in the order of their names, and the end of the first one's name."""
    with reading(folder), os.scandir(folder) as entries:
        counted = [entry for entry in entries if not entry.name.startswith((".", "_"))]
        found = sorted((entry.name, entry.is_dir()) for entry in counted)
        odd = sorted(entry.name for entry in counted if not entry.is_dir() and not entry.is_file())
    if not found:
        raise ReplearnError(f"{folder} must hold files with rows, got an empty folder.")
    if odd:  # a pipe would wait for ever, a device has no end
        raise ReplearnError(
            f"{folder} must hold regular files only, got {odd[0]!r}. Move it elsewhere."
        )
    first = _suffix(found[0][0])
    for name, is_folder in found:
        if is_folder:
            raise ReplearnError(
                f"{folder} must hold files only, got the folder {name!r}. Move its files up, or "
                "name it instead."
            )
        suffix = _suffix(name)
        if suffix is None or first is None or FORMATS[suffix] is not FORMATS[first]:
            raise ReplearnError(
                f"{folder} must hold files of one format, got {found[0][0]!r} and {name!r}. Move "
                f"one of them elsewhere; formats are {', '.join(FORMATS)}."
            )
    return tuple(os.path.join(folder, name) for name, _ in found), str(first)
