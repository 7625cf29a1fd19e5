"""Own estimates beside R's `glm`, on real tables whose columns are as they are.

    python benchmarks/glm.py DATA

A line prints, for each table without its gaps: rows, numbers beyond the study's range, the largest
difference of own estimates from `glm` in its standard errors, the same of estimates that set these
numbers to the ends of the range as the shared model does, and robust standard errors in those of
`glm`, the least and the largest. Needs Rscript with the package survival.
"""

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
from survival import indicators, largest, run_r

import replearn as rl
from replearn.tables import NumberColumn

#: Name, file (or R's package survival), target, model and columns.
TABLES = [
    (
        "heart",
        "heart_disease_4site.csv.gz",
        "num > 0",
        "logistic",
        "age sex trestbps chol fbs thalach exang oldpeak",
    ),
    (
        "census",
        "adult.csv.gz",
        "income == '>50K'",
        "logistic",
        "age educational-num capital-gain capital-loss hours-per-week gender race",
    ),
    (
        "hospital",
        "diabetes130.csv.gz",
        "readmitted == '<30'",
        "logistic",
        "time_in_hospital num_lab_procedures num_procedures num_medications number_outpatient "
        "number_emergency number_inpatient number_diagnoses insulin",
    ),
    ("late", "nycflights13.csv.gz", "arr_delay > 15", "logistic", "distance air_time hour origin"),
    ("minutes", "nycflights13.csv.gz", "arr_delay", "linear", "dep_delay distance hour origin"),
    ("pbc", "survival", "status == 2", "logistic", "age bili albumin copper protime platelet chol"),
    ("flchain", "survival", "death", "logistic", "age sex kappa lambda creatinine"),
]

EXPORT = """
suppressMessages(library(survival))
args <- commandArgs(TRUE)
write.csv(get(args[1]), args[2], row.names = FALSE)
"""

SCRIPT = """
args <- commandArgs(TRUE)
d <- read.csv(args[1], check.names = FALSE)
fit <- glm(y ~ ., if (args[2] == "linear") gaussian else binomial, d)
found <- list(names = gsub("`", "", names(coef(fit))), coef = unname(coef(fit)),
              se = unname(sqrt(diag(vcov(fit)))))
writeLines(jsonlite::toJSON(found, digits = 12), args[3])
"""


def clipped(frame: pd.DataFrame, model: Any) -> pd.DataFrame:
    """Numbers set to the ends of the published range."""
    found = frame.copy()
    for column in model.design.encoding.columns:
        if isinstance(column, NumberColumn):
            found[column.name] = found[column.name].clip(column.nodes[0], column.nodes[-1])
    return found


def table_of(name: str, file: str, target: str, columns: str, data: Path, folder: Path) -> Any:
    """Columns and target without gaps."""
    path = data / file
    if file == "survival":
        path = folder / f"{name}.all.csv"
        run_r(EXPORT, name, str(path))
    frame = pd.read_csv(path, low_memory=False)
    names = columns.split()
    part = frame[[*names, target.split()[0]]].dropna()
    y = part.eval(target).astype(float)
    return part[names].reset_index(drop=True), y.reset_index(drop=True)


def beside(frame: pd.DataFrame, y: pd.Series, kind: str, folder: Path) -> dict[str, Any]:
    """What `glm` finds."""
    frame.assign(y=y).to_csv(folder / "part.csv", index=False)
    run_r(SCRIPT, str(folder / "part.csv"), kind, str(folder / "part.json"))
    found: dict[str, Any] = json.loads((folder / "part.json").read_text())
    return found


def measured(row: tuple[str, str, str, str, str], data: Path, folder: Path) -> str:
    """A line about one table."""
    name, file, target, kind, columns = row
    frame, y = table_of(name, file, target, columns, data, folder)
    estimator = rl.ReplicableLogisticClassifier
    if kind == "linear":
        estimator = rl.ReplicableLinearRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # promises are not the question
        fitted = estimator(between=0).fit(frame, y)

    known = fitted.coefficients_
    terms = [term.replace(" = ", "") for term in known.columns["term"]]
    own = dict(zip(terms, known.columns["estimate"], strict=True))
    errors = dict(zip(terms, known.columns["standard_error"], strict=True))
    plain = beside(indicators(frame, fitted.model_), y, kind, folder)
    cut = beside(indicators(clipped(frame, fitted.model_), fitted.model_), y, kind, folder)

    places = [plain["names"].index(term) for term in terms[1:]]
    ratios = [errors[plain["names"][i]] / plain["se"][i] for i in places]
    in_range = dict(zip(cut["names"], cut["coef"], strict=True))
    return (
        f"{name:9} {len(frame):7,} {known.own.n_beyond:7,}  {largest(own, plain):5.2f} "
        f"{largest(in_range, plain):8.2f}   {min(ratios):5.2f} {max(ratios):5.2f}"
    )


def main() -> None:
    """Print a line for each table."""
    data = Path(sys.argv[1])
    print("table        rows  beyond  SE from glm: as is, in range   robust SE in glm's")
    with tempfile.TemporaryDirectory() as folder:
        for row in TABLES:
            print(measured(row, data, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
