"""Draw the three pictures of the documentation from seeded data (about 20 seconds).

    python docs/pictures.py [FOLDER]        default: docs/pictures

Sixteen hospitals have 4,000 invented patients each; the first publishes, the others replicate.
Worth is measured on 20,000 new patients. The script prints the numbers that pages quote.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from replearn import ReplicableLogisticClassifier
from replearn.datasets import load_readmission
from replearn.study.pictures import Rung, ladder, sixteen_scores, where_we_landed

HOSPITALS, PATIENTS = 16, 4000
# pictures that stand alone, in a README, choose their ink; inside a page they take the page's
INK = (
    "<style>svg:root{color:#1f2328}"
    "@media(prefers-color-scheme:dark){svg:root{color:#e6edf3}}</style>"
)


def patients(centre, n_rows=PATIENTS, seed=0):
    table = load_readmission(centre, n_rows, seed=seed)
    return table.drop(columns="readmitted"), table["readmitted"]


def own_model(X, y):
    """What a hospital would do alone: scikit-learn's logistic regression."""
    numbers = make_column_selector(dtype_include="number")
    levels = make_column_selector(dtype_exclude="number")
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), levels),
    )
    return make_pipeline(columns, LogisticRegression()).fit(X, y)


def main(folder):
    hospitals = [patients("Ashford"), *(patients("Dunmore", seed=s) for s in range(HOSPITALS - 1))]
    new_X, new_y = patients("Castleton", 20_000)
    own = [own_model(X, y) for X, y in hospitals]
    first = ReplicableLogisticClassifier().fit(*hospitals[0])
    others = [ReplicableLogisticClassifier(study=first.study_).fit(X, y) for X, y in hospitals[1:]]
    small = own_model(hospitals[0][0][:1000], hospitals[0][1][:1000])

    risks = np.array([model.predict_proba(new_X[:300])[:, 1] for model in own])
    who = int(np.argsort(np.abs(risks[0] - 0.4))[0])  # near 40% at the first hospital
    person = new_X.iloc[[who]]
    ours = [float(model.predict_proba(person)[0, 1]) for model in (first, *others)]
    row = person.iloc[0]
    text = f"One patient: {row.age} years, NYHA {row.nyha}, prior admissions: {row.prior_admissions}"
    pictures = {"sixteen-scores": sixteen_scores(risks[:, who].tolist(), ours, text)}

    base = float(log_loss(new_y, np.full(len(new_y), new_y.mean())))

    def removed(model):
        """Share of the base rate's log-loss that a model removes."""
        return 1 - float(log_loss(new_y, model.predict_proba(new_X)[:, 1])) / base

    curved = ReplicableLogisticClassifier(basis="splines").fit(*hospitals[0])
    again = [ReplicableLogisticClassifier(study=curved.study_).fit(*lab) for lab in hospitals[1:]]
    alone = [ReplicableLogisticClassifier(basis="splines").fit(*lab) for lab in hospitals[1:5]]
    n_curved = 1 + sum(model.fingerprint_ == curved.fingerprint_ for model in again)
    everyone = f"{HOSPITALS} of {HOSPITALS}"
    rungs = [
        ("the base rate", 0.0, everyone),
        ("a published model of 1,000", removed(small), everyone),
        ("the replicated model", removed(curved), f"{n_curved} of {HOSPITALS}"),
        ("a hospital's own model", sum(map(removed, alone)) / 4, "nobody else"),
    ]
    assert len({model.fingerprint_ for model in (curved, *alone)}) == 5
    pictures["ladder"] = ladder(
        [Rung(name, x, f"{x:.1%}", same, "replicated" in name) for name, x, same in rungs],
        "log-loss removed, new patients",
    )
    shown = {f"hospital {i}": others[i - 2].replication_.positions for i in range(2, 6)}
    pictures["where-we-landed"] = where_we_landed(others[0].replication_.names, shown)

    folder.mkdir(exist_ok=True)
    for name, svg in pictures.items():
        opening, rest = svg.split(">", 1)
        (folder / f"{name}.svg").write_text(f"{opening}>{INK}{rest}\n", encoding="utf-8")
    print(text)
    n_same = 1 + sum(model.fingerprint_ == first.fingerprint_ for model in others)
    n_own = len(set(risks[:, who].tolist()))
    print(f"own models: {risks[:, who].min():.1%} to {risks[:, who].max():.1%}, {n_own} different")
    print(f"replicated: {sorted(set(ours))}, {n_same} of {HOSPITALS} the same model")
    print(
        *(f"{name}: {x:.1%} of the log-loss removed, same at {same}" for name, x, same in rungs),
        sep="\n",
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
