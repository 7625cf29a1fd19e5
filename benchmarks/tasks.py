"""Real tables as tasks: rows, a target, and what is special about them.

Every benchmark takes the folder of these public tables on its command line. Nothing of it is part
of the repository.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from replearn.tables import Table, open_table

#: Rows of a task at most: two labs and the rows to test on.
MOST_ROWS = 50_000
N_TEST = 10_000


@dataclass(frozen=True)
class Task:
    """Rows and their target.

    Attributes
    ----------
    name : str
    columns : DataFrame or CSR matrix
    target : array
    kind : "logistic", "linear" or "poisson"
    weights, groups : array or None
    categories : tuple of str
        Numbers that are levels.
    """

    name: str
    columns: Any
    target: np.ndarray
    kind: str = "logistic"
    weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    categories: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """All rows."""
        return len(self.target)

    @property
    def n_classes(self) -> int:
        """Of a logistic task; 0 for numbers."""
        return len(np.unique(self.target)) if self.kind == "logistic" else 0

    @property
    def is_sparse(self) -> bool:
        """Whether rows are sparse."""
        return sp.issparse(self.columns)

    def rows(self, places: np.ndarray) -> Any:
        """Columns of some rows."""
        return self.columns[places] if self.is_sparse else self.columns.iloc[places]

    def table(self, places: np.ndarray) -> Table:
        """Some rows as a lab has them."""
        return open_table(
            self.rows(places),
            target=self.target[places],
            weights=None if self.weights is None else self.weights[places],
            groups=None if self.groups is None else self.groups[places],
        )

    def split(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Two labs of one size and rows to test on; rows of a group stay together."""
        rng = np.random.default_rng([2028, seed])
        groups = np.arange(self.n_rows) if self.groups is None else self.groups
        names, places = np.unique(groups, return_inverse=True)
        order = np.argsort(rng.permutation(len(names))[places], kind="stable")[:MOST_ROWS]
        n_test = min(N_TEST, len(order) // 5)
        half = (len(order) - n_test) // 2
        return order[:half], order[half : 2 * half], order[2 * half :]


def tasks(folder: Path, names: list[str] | None = None) -> Iterator[Task]:
    """The tasks of a folder, one after the other."""
    for name in names or TASKS:
        yield TASKS[name](folder, name)


# --- the tables -----------------------------------------------------------------------------------


def _numbers(array: np.ndarray, names: Any = None) -> pd.DataFrame:
    names = [f"x{i}" for i in range(array.shape[1])] if names is None else names
    return pd.DataFrame(array.astype(np.float64), columns=names)


def _census(folder: Path, name: str, target: str = "income", **how: Any) -> Task:
    table = pd.read_csv(folder / "adult.csv.gz")
    columns = table.drop(columns=["fnlwgt", target])
    if target != "income":
        return Task(name, columns, table[target].to_numpy(float), "linear")
    y = (table[target] == ">50K").to_numpy().astype(int)
    if how.get("weighted"):
        return Task(name, columns, y, weights=table["fnlwgt"].to_numpy(float))
    if how.get("rare"):
        rows = np.sort(np.r_[np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:760]])
        return Task(name, columns.iloc[rows].reset_index(drop=True), y[rows])
    if times := how.get("times"):
        rows = np.repeat(np.arange(len(y))[: MOST_ROWS // times], times)
        return Task(name, columns.iloc[rows].reset_index(drop=True), y[rows], groups=rows)
    return Task(name, columns, y)


def _forest(folder: Path, name: str, kinds: tuple[int, ...] | None, others: Any = None) -> Task:
    arrays = np.load(folder / "covtype.npz")
    cover = arrays["cover_type"]
    rows = np.isin(cover, [*(kinds or ()), *(others or range(1, 8))])
    columns = _numbers(arrays["X"][rows], arrays["feature_names"])
    for part in ("area", "soil"):
        columns[part] = np.char.add(f"{part} ", arrays[part][rows].astype(str)).astype(object)
    return Task(name, columns, cover[rows] if kinds is None else np.isin(cover[rows], kinds) * 1)


def _pixels(folder: Path, name: str) -> Task:
    arrays = np.load(folder / "skin.npz")
    return Task(name, _numbers(arrays["X"]), (arrays["y"] > 0).astype(int))


def _flights(folder: Path, name: str, kind: str = "logistic") -> Task:
    table = pd.read_csv(folder / "nycflights13.csv.gz").dropna(subset=["arr_delay", "dep_delay"])
    columns = table[["dep_delay", "distance", "hour", "month", "air_time", "carrier", "origin"]]
    late = table["arr_delay"].to_numpy(float)
    y = late if kind == "linear" else (late >= 15).astype(int)
    return Task(name, columns.reset_index(drop=True), y, kind)


def _hospital(folder: Path, name: str, target: str) -> Task:
    table = pd.read_csv(folder / "diabetes130.csv.gz", low_memory=False)
    left_out = ["encounter_id", "patient_nbr", "readmitted", "weight", "payer_code"]
    columns = table.drop(columns=[*left_out, "diag_1", "diag_2", "diag_3", "medical_specialty"])
    codes = ("admission_type_id", "discharge_disposition_id", "admission_source_id")
    groups = table["patient_nbr"].to_numpy()
    if target in table.columns and target != "readmitted":
        columns = columns.drop(columns=[target])
        if target == "diabetesMed":
            return Task(
                name,
                columns,
                (table[target] == "Yes").to_numpy() * 1,
                "logistic",
                None,
                groups,
                codes,
            )
        return Task(name, columns, table[target].to_numpy(float), "poisson", None, groups, codes)
    back = table["readmitted"].to_numpy().astype(str)
    y = {"again": back != "NO", "soon": back == "<30", "three": back}[target]
    return Task(name, columns, y if y.dtype.kind == "U" else y * 1, "logistic", None, groups, codes)


def _small(folder: Path, name: str, file: str) -> Task:
    table = pd.read_csv(folder / f"{file}.csv.gz")
    target = table.columns[-1]
    columns = table.drop(columns=[column for column in ("date", target) if column in table])
    return Task(name, columns, (table[target] == 1).to_numpy() * 1)


def _heart(folder: Path, name: str) -> Task:
    table = pd.read_csv(folder / "heart_disease_4site.csv.gz")
    columns = table.drop(columns=["num", "site"])
    zero_is_missing = columns[["chol", "trestbps"]]
    columns[["chol", "trestbps"]] = zero_is_missing.where(zero_is_missing > 0)
    levels = ("cp", "restecg", "slope", "thal")
    return Task(name, columns, (table["num"] > 0).to_numpy() * 1, categories=levels)


def _mushrooms(folder: Path, name: str) -> Task:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(folder / "mushrooms.svm.gz", n_features=126, zero_based=False)
    return Task(name, sp.csr_matrix(X), (y > 0).astype(int))


def _text(folder: Path, name: str, file: str, first: str = "", second: str = "") -> Task:
    from sklearn.feature_extraction.text import TfidfTransformer

    arrays = np.load(folder / file)
    shape = tuple(arrays["shape"])
    counts = sp.csr_matrix((arrays["data"] * 1.0, arrays["indices"], arrays["indptr"]), shape)
    if not first:
        y = (arrays["y"] > 0).astype(int)
    else:
        labels = arrays["label_names"][arrays["label"]]
        mine, theirs = (np.char.startswith(labels, part) for part in (first, second))
        counts, y = counts[mine | theirs], mine[mine | theirs].astype(int)
    often = np.asarray((counts > 0).sum(axis=0)).ravel() >= 100
    return Task(name, TfidfTransformer(sublinear_tf=True).fit_transform(counts[:, often]), y)


def _groups_of_news(folder: Path, name: str) -> Task:
    """Twenty classes; 60 directions of the words, learned without labels."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfTransformer

    arrays = np.load(folder / "newsgroups20.npz")
    shape = tuple(arrays["shape"])
    counts = sp.csr_matrix((arrays["data"] * 1.0, arrays["indices"], arrays["indptr"]), shape)
    words = TfidfTransformer(sublinear_tf=True).fit_transform(counts)
    found = TruncatedSVD(60, random_state=0).fit_transform(words)
    return Task(name, _numbers(found), arrays["label_names"][arrays["label"]])


def _digits(folder: Path, name: str, kinds: tuple[int, ...] = ()) -> Task:
    """Means of 4 x 4 pixels: 49 columns, less those that hardly vary."""
    arrays = np.load(folder / "mnist70k.npz")
    rows = np.isin(arrays["label"], kinds or range(10))
    images = arrays["X"][rows].reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)
    labels = arrays["label"][rows]
    return Task(name, _numbers(images), (labels == kinds[0]) * 1 if len(kinds) == 2 else labels)


def _genes(folder: Path, name: str) -> Task:
    arrays = np.load(folder / "golub_leukemia.npz")
    return Task(name, _numbers(arrays["X"]), (arrays["y"] > 0) * 1)


Maker = Callable[[Path, str], Task]
#: What each task is there for stands behind it.
TASKS: dict[str, Maker] = {
    "census": _census,  # levels
    "census, 2 % positive": partial(_census, rare=True),  # imbalanced
    "forest 1 v 3": partial(_forest, kinds=(1,), others=(3,)),  # nearly separable
    "forest 2 v rest": partial(_forest, kinds=(2,)),  # noisy, many levels
    "skin": _pixels,  # three columns, four of five rows repeated
    "flights, late": _flights,  # far outliers
    "hospital, again": partial(_hospital, target="again"),  # clustered rows
    "hospital, within 30 days": partial(_hospital, target="soon"),  # clustered, imbalanced
    "hospital, medication": partial(_hospital, target="diabetesMed"),  # separable
    "pulsars": partial(_small, file="htru2"),  # nearly separable, outliers
    "occupancy": partial(_small, file="occupancy"),  # nearly separable, outliers
    "banknotes": partial(_small, file="banknote"),  # 1,372 rows, nearly separable
    "heart": _heart,  # 920 rows
    "mushrooms": _mushrooms,  # sparse, separable
    "digits 4 v 9": partial(_digits, kinds=(4, 9)),
    "sentences": partial(_text, file="subjectivity.npz"),  # sparse text
    "news, comp v rec": partial(_text, file="newsgroups20.npz", first="comp.", second="rec."),
    "hospital, 3 classes": partial(_hospital, target="three"),
    "forest, 7 classes": partial(_forest, kinds=None),
    "digits, 10 classes": _digits,
    "news, 20 classes": _groups_of_news,
    "census, hours (linear)": partial(_census, target="hours-per-week"),
    "flights, delay (linear)": partial(_flights, kind="linear"),  # far outliers in the target
    "hospital, stays (Poisson)": partial(_hospital, target="number_inpatient"),
    "hospital, days (Poisson)": partial(_hospital, target="time_in_hospital"),
    "census, weighted": partial(_census, weighted=True),
    "census, five times": partial(_census, times=5),  # duplicated rows, with groups
}
