"""A survival study beside R's coxph and Python's lifelines, on tables of R's package survival.

    python benchmarks/survival.py

Prints two tables. The first: own hazard ratios, and those of lifelines, as the
largest difference from coxph in its standard errors; numbers beyond the study's range, which own
estimates take as they are; and the same difference where the ratios are the shared model's. The
second, at a horizon: concordance, mean risk, Brier score, and observed to expected of all three.
Needs Rscript with the package survival and, for its columns, lifelines (pip install lifelines).
"""

import json
import shutil
import subprocess
import tempfile
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import replearn as rl
from replearn.reports.horizon import brier_score, evaluate_at, kaplan_meier
from replearn.tables import LevelColumn

#: Table, its time and event, columns and a horizon in its unit.
TABLES = {
    "lung": ("time", "status == 2", "age sex ph.ecog wt.loss", 365),
    "veteran": ("time", "status == 1", "trt celltype karno diagtime age prior", 180),
    "gbsg": ("rfstime", "status == 1", "age meno size grade nodes pgr er hormon", 1095),
    "rotterdam": ("dtime", "death == 1", "age meno grade nodes pgr er hormon chemo", 1825),
    # enzymes with long tails
    "pbc": (
        "time",
        "status == 2",
        "trt age sex bili chol albumin copper alk.phos ast trig platelet protime stage",
        1825,
    ),
    "colon": ("time", "status == 1", "age sex obstruct perfor adhere nodes differ extent", 1095),
}

SCRIPT = """
suppressMessages(library(survival))
part <- commandArgs(TRUE)[1]
d <- read.csv(part)
fit <- coxph(Surv(time, event) ~ ., d, x = TRUE)
robust <- sqrt(diag(coxph(Surv(time, event) ~ ., d, robust = TRUE)$var))
horizon <- as.numeric(readLines(sub("csv$", "txt", part)))
base <- basehaz(fit, centered = TRUE)
H <- max(c(0, base$hazard[base$time <= horizon]))
risk <- 1 - exp(-H * exp(predict(fit, type = "lp")))
found <- list(names = names(coef(fit)), coef = unname(coef(fit)),
              se = unname(sqrt(diag(fit$var))), robust = unname(robust), risk = risk,
              concordance = unname(fit$concordance["concordance"]))
writeLines(jsonlite::toJSON(found, auto_unbox = TRUE, digits = 12), sub("csv$", "json", part))
"""

EXPORT = """
suppressMessages(library(survival))
args <- commandArgs(TRUE)
d <- get(args[1])
if (args[1] == "colon") d <- d[d$etype == 2, ]
d$event <- as.integer(with(d, eval(parse(text = args[3]))))
d$time <- d[[args[2]]]
d <- na.omit(d[, c("time", "event", strsplit(args[4], " ")[[1]])])
d <- d[d$time > 0, ]
for (name in names(d)) if (is.factor(d[[name]])) d[[name]] <- as.character(d[[name]])
write.csv(d, args[5], row.names = FALSE)
"""


def run_r(script: str, *arguments: str) -> None:
    """Run a script of R, with what it says if it fails."""
    subprocess.run(["Rscript", "-e", script, *arguments], check=True, capture_output=True)


def indicators(frame: pd.DataFrame, model: Any) -> pd.DataFrame:
    """Levels as 0 and 1 against the study's reference."""
    found = frame.copy()
    for column in model.design.encoding.columns:
        if isinstance(column, LevelColumn) and column.name in found:
            for level in column.levels:
                found[f"{column.name}{level}"] = (frame[column.name] == level).astype(int)
            found = found.drop(columns=column.name)
    return found


def largest(own: dict[str, float], cox: dict[str, Any]) -> float:
    """Difference in standard errors of coxph, of the columns that both name alike."""
    pairs = zip(cox["names"], cox["coef"], cox["se"], strict=True)
    apart = [abs(own[name] - value) / error for name, value, error in pairs if name in own]
    return max(apart)


@dataclass(frozen=True)
class AtHorizon:
    """A model on the rows that it saw."""

    concordance: float
    risk: float
    brier: float
    ratio: float  # observed to expected

    @classmethod
    def of(cls, concordance: float, risks: Any, frame: pd.DataFrame, horizon: float) -> "AtHorizon":
        """From the risk of each row at the horizon."""
        risks, times, events = (
            np.asarray(part, dtype=np.float64) for part in (risks, frame.time, frame.event)
        )
        observed = 1 - kaplan_meier(times, events, np.array([horizon]))[0]
        brier = brier_score(risks, times, events, horizon)
        return cls(concordance, float(risks.mean()), brier, observed / float(risks.mean()))


def by_lifelines(frame: pd.DataFrame, horizon: float) -> tuple[dict[str, float], AtHorizon] | None:
    """Log-hazard ratios of lifelines, and its model at the horizon; None without it."""
    try:
        from lifelines import CoxPHFitter
    except ImportError:
        return None
    fit = CoxPHFitter().fit(frame, "time", "event")
    risks = 1 - fit.predict_survival_function(frame, times=[horizon]).to_numpy()[0]
    known = {name: float(value) for name, value in fit.params_.items()}
    return known, AtHorizon.of(fit.concordance_index_, risks, frame, horizon)


def measured(name: str, folder: Path) -> tuple[str, str]:
    """A line of each table."""
    time, event, columns, horizon = TABLES[name]
    path = folder / f"{name}.csv"
    run_r(EXPORT, name, time, event, columns, str(path))
    frame = pd.read_csv(path)
    y = np.array(
        list(zip(frame.event == 1, frame.time.astype(float), strict=True)),
        dtype=[("event", "?"), ("time", "f8")],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows for a promise: that is not the question
        fitted = rl.ReplicableSurvivalAnalysis(between=0).fit(
            frame.drop(columns=["time", "event"]), y
        )

    # coxph and lifelines, with the study's reference levels
    known = indicators(frame, fitted.model_)
    known.to_csv(path, index=False)
    path.with_suffix(".txt").write_text(str(horizon))
    run_r(SCRIPT, str(path))
    cox = json.loads(path.with_suffix(".json").read_text())
    other = by_lifelines(known, horizon)

    columns_of = fitted.coefficients_.columns
    terms = [term.replace(" = ", "") for term in columns_of["term"]]
    own = dict(zip(terms, columns_of["estimate"], strict=True))
    shared = dict(zip(terms, columns_of["model"], strict=True))
    apart = [largest(own, cox), largest(other[0], cox) if other else np.nan, largest(shared, cox)]
    n_beyond = fitted.coefficients_.own.n_beyond
    first = f"{name:10} {len(frame):5,} {int(frame.event.sum()):5,} {n_beyond:6,} "
    first += "".join(f"{value:10.2f}" for value in apart)

    # standard errors beside the larger of R's, robust and not
    errors = dict(zip(terms, columns_of["standard_error"], strict=True))
    theirs = zip(cox["names"], map(max, cox["se"], cox["robust"]), strict=True)
    off = max(abs(errors[name] / error - 1) for name, error in theirs if name in errors)
    first += f"{off:10.1%}"

    risks = fitted.predict_risk(frame.drop(columns=["time", "event"]), horizon)
    found = [
        AtHorizon.of(evaluate_at(fitted.model_, frame, horizon).concordance, risks, frame, horizon),
        AtHorizon.of(cox["concordance"], cox["risk"], frame, horizon),
    ]
    if other:
        found.append(other[1])
    second = f"{name:10} {horizon:5}  " + "   ".join(
        " ".join(f"{getattr(one, part.name):.3f}" for one in found) for part in fields(AtHorizon)
    )
    return first, second


def main() -> None:
    """Print both tables."""
    if shutil.which("Rscript") is None:
        print("Rscript is not installed: nothing to compare with.")
        return

    with tempfile.TemporaryDirectory() as folder:
        lines = [measured(name, Path(folder)) for name in TABLES]
    print("Standard errors from coxph: own hazard ratios, those of lifelines, the shared model's;")
    print("and how far own standard errors are from the larger of coxph's, robust and not")
    print("table       rows events beyond       own lifelines    shared    errors")
    print("\n".join(first for first, _ in lines))
    print("\nAt the horizon: here, coxph, lifelines (if it is installed)")
    print("table     horizon  concordance         mean risk           Brier score         O/E")
    print("\n".join(second for _, second in lines))


if __name__ == "__main__":
    main()
