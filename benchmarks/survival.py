"""A survival study beside R's coxph on real tables of R's package survival.

    python benchmarks/survival.py

Prints for each table the largest difference of own hazard ratios in standard errors of coxph, on
columns as they are and set to the ends of the published range; concordance, mean risk and Brier
score at the horizon of both; and observed to expected here. Needs Rscript with the package
survival, and says so if it is not there.
"""

import json
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import replearn as rl
from replearn.reports.horizon import brier_score, evaluate_at
from replearn.tables import LevelColumn, NumberColumn

#: Table, its time and event, columns and a horizon in its unit.
TABLES = {
    "lung": ("time", "status == 2", "age sex ph.ecog wt.loss", 365),
    "veteran": ("time", "status == 1", "trt celltype karno diagtime age prior", 180),
    "gbsg": ("rfstime", "status == 1", "age meno size grade nodes pgr er hormon", 1095),
    "rotterdam": ("dtime", "death == 1", "age meno grade nodes pgr er hormon chemo", 1825),
    "colon": ("time", "status == 1", "age sex obstruct perfor adhere nodes differ extent", 1095),
}

SCRIPT = """
suppressMessages(library(survival))
folder <- commandArgs(TRUE)[1]
for (part in list.files(folder, "[.]csv$", full.names = TRUE)) {
  d <- read.csv(part)
  fit <- coxph(Surv(time, event) ~ ., d, x = TRUE)
  horizon <- as.numeric(readLines(sub("csv$", "txt", part)))
  base <- basehaz(fit, centered = TRUE)
  H <- max(c(0, base$hazard[base$time <= horizon]))
  risk <- 1 - exp(-H * exp(predict(fit, type = "lp")))
  found <- list(names = names(coef(fit)), coef = unname(coef(fit)),
                se = unname(sqrt(diag(fit$var))), risk = risk,
                concordance = unname(fit$concordance["concordance"]))
  writeLines(jsonlite::toJSON(found, auto_unbox = TRUE, digits = 12), sub("csv$", "json", part))
}
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


def clipped(frame: pd.DataFrame, model: Any) -> pd.DataFrame:
    """Numbers set to the ends of the published range."""
    found = frame.copy()
    for column in model.design.encoding.columns:
        if isinstance(column, NumberColumn):
            found[column.name] = found[column.name].clip(column.nodes[0], column.nodes[-1])
    return found


def largest(own: dict[str, float], cox: dict[str, Any]) -> float:
    """Difference in standard errors of coxph, of the columns that both name alike."""
    pairs = zip(cox["names"], cox["coef"], cox["se"], strict=True)
    apart = [abs(own[name] - value) / error for name, value, error in pairs if name in own]
    return max(apart)


def measured(name: str, folder: Path) -> str:
    """A line about one table."""
    time, event, columns, horizon = TABLES[name]
    run_r(EXPORT, name, time, event, columns, str(folder / f"{name}.csv"))
    frame = pd.read_csv(folder / f"{name}.csv")
    y = np.array(
        list(zip(frame.event == 1, frame.time.astype(float), strict=True)),
        dtype=[("event", "?"), ("time", "f8")],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows for a promise: that is not the question
        fitted = rl.ReplicableSurvivalAnalysis(between=0).fit(
            frame.drop(columns=["time", "event"]), y
        )
    cut_frame = indicators(clipped(frame, fitted.model_), fitted.model_)
    cut_frame.to_csv(folder / f"{name}.clipped.csv", index=False)
    indicators(frame, fitted.model_).to_csv(folder / f"{name}.csv", index=False)
    for part in (name, f"{name}.clipped"):
        (folder / f"{part}.txt").write_text(str(horizon))
    run_r(SCRIPT, str(folder))
    plain, cut = (
        json.loads((folder / f"{part}.json").read_text()) for part in (name, f"{name}.clipped")
    )
    terms = fitted.coefficients_.columns
    own = {
        term.replace(" = ", ""): value
        for term, value in zip(terms["term"], terms["estimate"], strict=True)
    }
    found = evaluate_at(fitted.model_, frame, horizon)
    brier = brier_score(
        np.array(plain["risk"]), frame.time.to_numpy(float), frame.event.to_numpy(float), horizon
    )
    return (
        f"{name:10} {len(frame):5,} {int(frame.event.sum()):5,}  {largest(own, plain):5.2f} "
        f"{largest(own, cut):5.2f}   {found.concordance:.3f} {plain['concordance']:.3f}   "
        f"{found.predicted:.3f} {np.mean(plain['risk']):.3f}   {found.brier:.4f} {brier:.4f}   "
        f"{found.observed.value / found.predicted:.3f}"
    )


def main() -> None:
    """Print a line for each table."""
    if shutil.which("Rscript") is None:
        print("Rscript is not installed: nothing to compare with.")
        return
    print(
        "table       rows events  SE as is, clipped   concordance   risk at horizon   Brier   O/E"
    )
    print("                         (own beside coxph)  here, coxph   here, coxph")
    with tempfile.TemporaryDirectory() as folder:
        for name in TABLES:
            print(measured(name, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
