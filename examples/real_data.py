"""What the examples on real data share: loading, dealing rows out to labs, counting agreement.

The data sets are in one folder, which every script takes as its argument; examples/README.md
says which files it holds. Nothing here learns from the rows: scaling and categories are the
business of a protocol, which comes from a pilot.
"""

import argparse
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def arguments(text, argv=None):
    """Options that all examples have; ``text`` is the docstring of the script."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with the data sets")
    parser.add_argument("--quick", action="store_true", help="small pilot, few repetitions")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw it, as SVG or PNG")
    parser.add_argument(
        "--write", type=Path, metavar="FOLDER", help="write pilot and labs as files"
    )
    options = parser.parse_args(argv)
    if not options.data.is_dir():
        parser.error(f"{options.data} must be the folder with the data sets. It does not exist.")
    return options


# --- data sets --------------------------------------------------------------------------------


def flights(folder):
    """All flights that left New York City in 2013, what is known at departure, and the airport."""
    table = pd.read_csv(folder / "nycflights13.csv.gz").dropna(subset=["dep_delay", "arr_delay"])
    # air_time and arr_delay are known only after landing
    columns = table[["dep_delay", "distance", "hour", "month", "carrier"]].reset_index(drop=True)
    y = np.where(table["arr_delay"] >= 15, "late", "on time")
    return columns, y, table["origin"].to_numpy()


def forest(folder):
    """Plots of forest with spruce or ponderosa pine (cover types 1 and 3)."""
    arrays = np.load(folder / "covtype.npz")
    rows = np.isin(arrays["cover_type"], (1, 3))
    columns = pd.DataFrame(arrays["X"][rows].astype(float), columns=arrays["feature_names"])
    for name in ("area", "soil"):  # numbers that are names: as text they are categories
        columns[name] = [f"{name} {number}" for number in arrays[name][rows]]
    return columns, np.where(arrays["cover_type"][rows] == 1, "spruce", "pine")


def digits(folder):
    """Pictures of the handwritten digits 0 and 1."""
    arrays = np.load(folder / "mnist70k.npz")
    rows = arrays["label"] <= 1
    return arrays["X"][rows].astype(float), arrays["label"][rows].astype(int)


def news(folder):
    """Word counts of messages to computer and recreation groups, as CSR, and the words."""
    arrays = np.load(folder / "newsgroups20.npz")
    parts = arrays["data"].astype(float), arrays["indices"].astype(np.int32), arrays["indptr"]
    counts = sp.csr_array(parts, shape=tuple(arrays["shape"]))
    section = np.array([name.split(".")[0] for name in arrays["label_names"]])[arrays["label"]]
    rows = np.flatnonzero((section == "comp") | (section == "rec"))
    words = np.array(bytes(arrays["vocabulary"]).decode().split("\n"))
    return counts[rows], section[rows], words


#: Columns of the heart file whose numbers are names, not amounts.
HEART_CATEGORIES = ("cp", "restecg", "slope", "thal")


def heart(folder):
    """Patients of four hospitals, with missing values as they are, and the hospital."""
    table = pd.read_csv(folder / "heart_disease_4site.csv.gz")
    columns = table.drop(columns=["num", "site"])
    for name in ("chol", "trestbps"):  # 0 stands for "not measured"
        columns[name] = columns[name].where(columns[name] > 0)
    return columns, np.where(table["num"] > 0, "disease", "healthy"), table["site"].to_numpy()


# --- labs -------------------------------------------------------------------------------------


def take(X, rows):
    """Some rows of a dataframe, an array or a CSR matrix."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def shuffled(rows, number):
    """Rows in a random order, the same whenever the script runs."""
    return np.random.default_rng(number).permutation(rows)


def write_study(folder, target, samples):
    """One file for each sample, by name: CSV of a dataframe, npz of an array or a CSR matrix."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (X, y) in samples.items():
        if hasattr(X, "columns"):
            X.assign(**{target: y}).to_csv(folder / f"{name}.csv", index=False)
        elif sp.issparse(X):
            parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
            np.savez_compressed(folder / f"{name}.npz", **parts, y=y)
        else:
            np.savez_compressed(folder / f"{name}.npz", X=X, y=y)
    print(f"wrote {', '.join(samples)} to {folder}")


@dataclass
class Pairs:
    """Pairs of labs: whether they got the same model, and what else is known about them."""

    same: list = field(default_factory=list)
    worths: list = field(default_factory=list)
    estimates: list = field(default_factory=list)

    @property
    def rate(self):
        """How many pairs agree, with the Clopper-Pearson interval of that rate."""
        return rate(sum(self.same), len(self.same))

    @property
    def estimated_rate(self):
        """Mean rate of agreement that the certificates estimate; "-" if none of them could."""
        known = [estimate for estimate in self.estimates if estimate is not None]
        return f"{1 - np.mean(known):.2f}" if known else "-"


def interval(n_same, n_pairs):
    """Clopper-Pearson interval of a rate, at 95 %."""
    return binomtest(n_same, n_pairs).proportion_ci(0.95)


def rate(n_same, n_pairs):
    low, high = interval(n_same, n_pairs)
    return f"{n_same:2d} of {n_pairs} [{low:.2f}, {high:.2f}]"


def worth(fitted, X, y):
    """AUC and balanced accuracy on rows that the fit has not seen."""
    auc = roc_auc_score(y == fitted.classes_[1], fitted.decision_function(X))
    return auc, balanced_accuracy_score(y, fitted.predict(X))


def fit_all(protocol, X, y, labs, seed=None):
    """Fits of all labs: the first chooses the hint, the others use it. Under another seed, too."""
    fits = []
    for lab in labs:
        follows = fits and protocol.hint_bits
        estimator = protocol.estimator(**({"hint": fits[0].hint_} if follows else {}))
        if seed is not None:
            estimator.set_params(shared_seed=seed)
        fits.append(estimator.fit(take(X, lab), y[lab]))
    return fits


def many_pairs(protocol, X, y, rows, n_test, n_splits):
    """Deal rows out to two labs and a test set, many times, each time with a new seed.

    Splits of one data set are not independent, so the interval of the rate is somewhat too short.
    """
    pairs = Pairs()
    for split in range(n_splits):
        order = shuffled(rows, 1000 + split)
        test, labs = order[:n_test], np.array_split(order[n_test:], 2)
        first, second = fit_all(protocol, X, y, labs, f"split {split}")
        pairs.same.append(first.fingerprint_ == second.fingerprint_)
        for fitted in (first, second):
            pairs.worths.append(worth(fitted, take(X, test), y[test]))
            pairs.estimates.append(fitted.certificate_.estimated_disagreement)
    return pairs


def print_fits(names, fits, X, y):
    """One line for each lab of a study, and what their models are worth on new rows."""
    for name, fit in zip(names, fits, strict=True):
        estimate = fit.certificate_.estimated_disagreement
        auc, balanced = worth(fit, X, y)
        print(
            f"  {name}: fingerprint {fit.fingerprint_[:16]}, AUC {auc:.3f}, balanced accuracy "
            f"{balanced:.3f}, estimated disagreement "
            + ("not estimable" if estimate is None else f"{estimate:.3f}")
        )


def print_table(measured, encode, X, y, pilot, labs, test):
    """Agreement and worth of ours, beside what a sceptic would ask for."""
    heading = "same model [95% interval]  certificates    AUC  bal. acc."
    print(f"  {'':32}{heading}")
    for name, pairs in measured.items():
        auc, balanced = np.mean(pairs.worths, axis=0)
        print(f"  {name:32}{pairs.rate:25}{pairs.estimated_rate:>14}{auc:7.3f}{balanced:11.3f}")
    for name, rows in {
        "the pilot's own model": pilot,
        "LogisticRegression, lab A": labs[0],
    }.items():
        fitted = logistic_regression(encode(take(X, rows)), y[rows])
        auc, balanced = worth(fitted, encode(take(X, test)), y[test])
        same = "always, if it is published" if rows is pilot else "never"
        print(f"  {name:32}{same:39}{auc:7.3f}{balanced:11.3f}")
    print(f"  {'always the larger class':32}{'always':39}{0.5:7.3f}{0.5:11.3f}")


def logistic_regression(X, y):
    """The usual fit, with balanced classes."""
    usual = LogisticRegression(class_weight="balanced", max_iter=2000)
    return make_pipeline(StandardScaler(with_mean=False), usual).fit(X, y)


def describe(comparison):
    """What `rl.compare` found, in a few words."""
    if comparison.same:
        return "the same model"
    return (
        f"different: {comparison.n_codes_differing} of {comparison.n_codes} codes, "
        f"normals {comparison.angle_degrees:.0f} degrees apart"
    )


# --- figures ----------------------------------------------------------------------------------


def new_figure(width, height):
    """An empty figure, drawn without a window."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        sys.exit('--figure needs matplotlib. Run pip install "replearn[report]".')
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure, path):
    figure.savefig(path, dpi=150)
    print(f"wrote {path}")
