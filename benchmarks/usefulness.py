"""What replicable models are worth on real tables.

python benchmarks/usefulness.py DATA

DATA is the folder with the data sets (examples/README.md). For each task a pilot of 1,000 rows
plans a study, two labs get half of the rest each, and pairs of labs fit under fresh seeds, with 0,
2, 4 and 8 hint bits, as an updating (directions know the pilot's labels) and as a discovery
(principal directions). All numbers are on rows that neither pilot nor labs have seen. Beside them:
LogisticRegression on one lab's rows, the pilot's own model, and a cross-validated
LogisticRegression on the pilot's rows.

--tasks NAME,NAME   some of the tasks
--bits N,N          some of the numbers of hint bits
--studies NAME,NAME some of the kinds of study
--pairs N           pairs of labs for each line (default 40, on four pilots)
--pilot N           rows of a pilot (default 1000)
--before            also Algorithm 1 (`algorithm="svm"`), the only plan of version 0.1
--json FILE         all numbers
--markdown FILE...  no measurement: the table of docs/usefulness.md from such files; later ones win
"""

import argparse
import json
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.stats import binomtest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import replearn as rl
from replearn.study.pilot.encoders import shortened

BITS = (0, 2, 4, 8)
STUDIES = ("updating", "discovery")
N_PILOTS = 4
N_TEST = 10_000


# --- tasks: raw columns and labels 0 and 1 ----------------------------------------------------


def covtype(folder, positive, negative=None):
    arrays = np.load(folder / "covtype.npz")
    kinds = arrays["cover_type"]
    rows = np.isin(kinds, positive + (negative or [*range(1, 8)]))
    columns = pd.DataFrame(arrays["X"][rows].astype(float), columns=arrays["feature_names"])
    for name in ("area", "soil"):
        columns[name] = np.char.add(f"{name} ", arrays[name][rows].astype(str)).astype(object)
    return columns, np.isin(kinds[rows], positive).astype(int)


def mnist(folder, positive, negative):
    arrays = np.load(folder / "mnist70k.npz")
    rows = np.isin(arrays["label"], positive + negative)
    return arrays["X"][rows] / 255.0, np.isin(arrays["label"][rows], positive).astype(int)


def text(folder, name, positive=None, negative=None):
    arrays = np.load(folder / name)
    counts = sp.csr_matrix(
        (arrays["data"].astype(float), arrays["indices"], arrays["indptr"]),
        shape=tuple(arrays["shape"]),
    )
    if positive is None:
        labels = (arrays["y"] > 0).astype(int)
    else:
        groups = arrays["label_names"][arrays["label"]]
        first, second = (np.char.startswith(groups, part) for part in (positive, negative))
        counts, labels = counts[first | second], first[first | second].astype(int)
    counts = counts[:, np.asarray((counts > 0).sum(axis=0)).ravel() >= 2]
    return TfidfTransformer(sublinear_tf=True).fit_transform(counts).tocsr(), labels


def flights(folder):
    table = pd.read_csv(folder / "nycflights13.csv.gz").dropna(subset=["arr_delay", "dep_delay"])
    names = ["dep_delay", "distance", "hour", "month", "air_time", "carrier", "origin"]
    return table[names].reset_index(drop=True), (table["arr_delay"] >= 15).to_numpy().astype(int)


def adult(folder):
    table = pd.read_csv(folder / "adult.csv.gz")
    y = (table["income"] == ">50K").to_numpy().astype(int)
    return table.drop(columns=["income", "fnlwgt"]), y


def diabetes(folder, target):
    table = pd.read_csv(folder / "diabetes130.csv.gz", keep_default_na=False, low_memory=False)
    columns = table.drop(
        columns=["encounter_id", "patient_nbr", "readmitted", "weight", "payer_code"]
    )
    for name in ("admission_type_id", "discharge_disposition_id", "admission_source_id"):
        columns[name] = columns[name].astype(str)
    for name in ("diag_1", "diag_2", "diag_3"):
        columns[name] = columns[name].str.slice(0, 3)
    if target == "readmitted":
        return columns, (table["readmitted"] != "NO").to_numpy().astype(int)
    y = (table["diabetesMed"] == "Yes").to_numpy().astype(int)
    return columns.drop(columns=["diabetesMed", "diag_1", "diag_2", "diag_3"]), y


def rare(columns, y, share=0.02):
    """The same table with so few positives that they are this share of it."""
    positives = np.flatnonzero(y == 1)
    keep = round(share / (1 - share) * (y == 0).sum())
    rows = np.sort(np.concatenate([np.flatnonzero(y == 0), positives[:keep]]))
    return columns.iloc[rows].reset_index(drop=True), y[rows]


def small(folder, name):
    table = pd.read_csv(folder / f"{name}.csv.gz")
    target = table.columns[-1]
    return table.drop(columns=[c for c in ("date", target) if c in table]), (
        table[target] == 1
    ).to_numpy().astype(int)


def skin(folder):
    arrays = np.load(folder / "skin.npz")
    return arrays["X"].astype(float), (arrays["y"] > 0).astype(int)


def mushrooms(folder):
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(folder / "mushrooms.svm.gz", n_features=126, zero_based=False)
    return sp.csr_matrix(X), (y > 0).astype(int)


TASKS = {
    "adult": adult,
    "adult 2 % positive": lambda folder: rare(*adult(folder)),
    "htru2": lambda folder: small(folder, "htru2"),
    "occupancy": lambda folder: small(folder, "occupancy"),
    "flights late": flights,
    "skin": skin,
    "covtype 1 v 3": lambda folder: covtype(folder, [1], [3]),
    "covtype 2 v 7": lambda folder: covtype(folder, [2], [7]),
    "covtype 2 v rest": lambda folder: covtype(folder, [2]),
    "diabetes readmitted": lambda folder: diabetes(folder, "readmitted"),
    "diabetes medication": lambda folder: diabetes(folder, "diabetesMed"),
    "mushrooms": mushrooms,
    "mnist 0 v 1": lambda folder: mnist(folder, [0], [1]),
    "mnist 4 v 9": lambda folder: mnist(folder, [4], [9]),
    "mnist even v odd": lambda folder: mnist(folder, [0, 2, 4, 6, 8], [1, 3, 5, 7, 9]),
    "20news comp v rec": lambda folder: text(folder, "newsgroups20.npz", "comp.", "rec."),
    "subjectivity": lambda folder: text(folder, "subjectivity.npz"),
}


# --- what models are worth --------------------------------------------------------------------


def take(X, rows):
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def worth(y, probability, threshold):
    return {
        "auc": roc_auc_score(y, probability),
        "balanced": balanced_accuracy_score(y, probability > threshold),
        "log_loss": log_loss(y, np.clip(probability, 1e-9, 1 - 1e-9)),
    }


def full_model(X, y):
    """What a user would fit on one lab's rows: scaled columns, LogisticRegression."""
    few = X.shape[0] > 60_000 and X.shape[1] > 500
    model = make_pipeline(usual_scaling(X), LogisticRegression(max_iter=300))
    return model.fit(take(X, np.arange(30_000)), y[:30_000]) if few else model.fit(X, y)


def rival_model(X, y):
    """What a user would fit on the pilot's few rows: the ridge weight by cross-validation."""
    weights = np.logspace(-3, 1, 5)
    fit = LogisticRegressionCV(Cs=weights, cv=5, scoring="neg_log_loss", max_iter=300)
    return make_pipeline(usual_scaling(X), fit).fit(X, y)


def usual_scaling(X):
    if not hasattr(X, "columns"):
        return StandardScaler(with_mean=not sp.issparse(X))
    numbers = X.select_dtypes("number").columns.tolist()
    others = [name for name in X if name not in numbers]
    return make_column_transformer(
        (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), others)
    )


def measure(name, load, folder, options):
    """All lines of one task."""
    X, y = load(folder)
    n_pairs, n_pilot = options.pairs, options.pilot
    lines = {}
    for number in range(N_PILOTS):
        rng = np.random.default_rng([2026, number])  # chose nothing
        order = rng.permutation(len(y))
        n_test = min(N_TEST, len(y) // 5)
        pilot, test, rest = np.split(order, [n_pilot, n_pilot + n_test])
        n_lab = len(rest) // 2
        share = y[pilot].mean()
        full = full_model(take(X, rest[:n_lab]), y[rest[:n_lab]])
        of_full = worth(y[test], full.predict_proba(take(X, test))[:, 1], share)
        rival = rival_model(take(X, pilot), y[pilot])
        of_rival = worth(y[test], rival.predict_proba(take(X, test))[:, 1], share)
        for study in options.studies.split(","):
            started = time.perf_counter()
            first = rl.plan_from_pilot(
                take(X, pilot), y[pilot], samples_per_site=n_lab, study=study
            )
            seconds = time.perf_counter() - started
            encoding = first.protocol.encoding
            rows = encoding.transform(X)
            own = rl.ReplicableLogisticClassifier  # the shell of all fits below
            of_pilot = pilot_worth(first, rows, y, test, share)
            for bits in map(int, options.bits.split(",")):
                plan = first.replan(hint_bits=bits)
                line = lines.setdefault((study, bits), new_line(name, study, bits, n_lab))
                line["full"].append(of_full)
                line["pilot"].append(of_pilot)
                line["rival"].append(of_rival)
                line["planned"].append(
                    {"auc": plan.table[2].auc, "log_loss": plan.table[2].log_loss}
                )
                line["k"].append(plan.n_codes - 1)
                line["evidence"].append(plan.evidence_bits)
                line["seconds"].append(seconds)
                published = replace(plan.protocol.estimator().published, encoding=None)
                for pair in range(n_pairs // N_PILOTS):
                    members = rng.permutation(rest)
                    seed = f"{name}/{study}/{bits}/{number}/{pair}"
                    line["passed over"].append(False)
                    if plan.seed_cautions(seed):  # the plan of this seed may have the next one
                        asked, seed = seed, plan.replan(shared_seed=seed).protocol.seed
                        line["passed over"][-1] = seed != asked
                    labs = members[:n_lab], members[n_lab : 2 * n_lab]
                    lead = own(shared_seed=seed, published=published).fit(rows[labs[0]], y[labs[0]])
                    hint = lead.hint_ if bits else None
                    other = own(shared_seed=seed, published=published, hint=hint)
                    other.fit(rows[labs[1]], y[labs[1]])
                    line["named"].append(bool(plan.seed_cautions(seed)))
                    line["differ"].append(lead.fingerprint_ != other.fingerprint_)
                    line["estimate"].append(lead.certificate_.estimated_disagreement)
                    line["bound"].append(lead.certificate_.disagreement_bound)
                    line["ours"].append(worth(y[test], lead.predict_proba(rows[test])[:, 1], share))
        if options.before:
            before(lines, name, X, y, (pilot, test, rest), number, of_full, n_pairs // N_PILOTS)
    return list(lines.values())


def before(lines, name, X, y, parts, number, of_full, n_pairs):
    """What version 0.1 would have planned and fitted. Its scores are no probabilities."""
    pilot, test, rest = parts
    n_lab = len(rest) // 2
    started = time.perf_counter()
    plan = rl.plan_from_pilot(take(X, pilot), y[pilot], samples_per_site=n_lab, algorithm="svm")
    line = lines.setdefault(("0.1", 0), new_line(name, "0.1", 0, n_lab))
    line["seconds"].append(time.perf_counter() - started)
    line["full"].append(of_full)
    line["k"].append(0)
    rng = np.random.default_rng([2027, number])
    for pair in range(n_pairs):
        members = rng.permutation(rest)
        fits = []
        for lab in (members[:n_lab], members[n_lab : 2 * n_lab]):
            protocol = replace(plan.protocol, seed=str(1000 * number + pair))
            fits.append(protocol.estimator().fit(take(X, lab), y[lab]))
        line["differ"].append(fits[0].fingerprint_ != fits[1].fingerprint_)
        scores = fits[0].decision_function(take(X, test))
        line["ours"].append(
            {
                "auc": roc_auc_score(y[test], scores),
                "balanced": balanced_accuracy_score(y[test], scores > 0),
            }
        )


def pilot_worth(plan, rows, y, test, share):
    """The pilot's own model: the start of an updating study, which a discovery has not."""
    if plan.study == "discovery":
        return None
    space = plan.protocol.design.space
    weights = space.lifted(space.start_numbers)
    short = shortened(rows[test], float(space.cap))
    scores = np.asarray(short @ weights[:-1]).ravel() + weights[-1]
    return worth(y[test], 1 / (1 + np.exp(-scores)), share)


def new_line(name, study, bits, n_lab):
    lists = ("full", "pilot", "planned", "ours", "k", "evidence", "seconds", "differ", "estimate")
    lists += ("named", "passed over", "rival")
    return {"task": name, "study": study, "bits": bits, "rows": n_lab, "bound": []} | {
        key: [] for key in lists
    }


def mean(rows, key):
    return float(np.mean([row[key] for row in rows if row is not None]))


def kept(line):
    return (mean(line["ours"], "auc") - 0.5) / (mean(line["full"], "auc") - 0.5)


def show(line):
    if line["study"] == "0.1":
        print(
            f"{line['task']:<20} version 0.1  {line['rows']:>8,} {mean(line['ours'], 'auc'):.3f}"
            f" (worst {min(row['auc'] for row in line['ours']):.3f})"
            f" {mean(line['ours'], 'balanced'):.3f} | differ {np.mean(line['differ']):.3f}"
            f" | kept {kept(line):.3f} | {np.mean(line['seconds']):.0f} s",
            flush=True,
        )
        return
    differ = binomtest(sum(line["differ"]), len(line["differ"])).proportion_ci()
    pilot = "-" if line["pilot"][0] is None else f"{mean(line['pilot'], 'auc'):.3f}"
    print(
        f"{line['task']:<20} {line['study']:<10}{line['bits']:>2} {line['rows']:>8,}"
        f"{np.mean(line['k']):>5.1f} {mean(line['ours'], 'auc'):.3f}"
        f" (worst {min(row['auc'] for row in line['ours']):.3f})"
        f" {mean(line['ours'], 'balanced'):.3f} {mean(line['ours'], 'log_loss'):.3f}"
        f" | planned {mean(line['planned'], 'auc'):.3f} {mean(line['planned'], 'log_loss'):.3f}"
        f" | differ {np.mean(line['differ']):.3f} [{differ.low:.2f}, {differ.high:.2f}]"
        f" | estimate {np.mean(line['estimate']):.3f} bound {np.mean(line['bound']):.3f}"
        f" | full {mean(line['full'], 'auc'):.3f} {mean(line['full'], 'log_loss'):.3f}"
        f" pilot {pilot} scikit-learn on it {mean(line['rival'], 'auc'):.3f}"
        f" {mean(line['rival'], 'log_loss'):.3f} | kept {kept(line):.3f}"
        f" | evidence {np.mean(line['evidence']):.1f} | {np.mean(line['seconds']):.0f} s",
        flush=True,
    )


def markdown(lines):
    """One row for each task and study: AUC by hint bits, beside what a sceptic asks for."""
    print(
        "| task | rows per lab | study | AUC: 0 bits | 2 | 4 | 8 | pilot's own model "
        "| scikit-learn on the pilot | full model | balanced accuracy, 4 bits "
        "| log-loss, 4 bits: planned, measured; scikit-learn on the pilot "
        "| differ: 0 bits, 2, 4, 8 | evidence, 4 bits |"
    )
    print("|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|---|---|--:|")
    by_key = {(line["task"], line["study"], line["bits"]): line for line in lines}
    for task in dict.fromkeys(line["task"] for line in lines):
        for study in STUDIES:
            some = [by_key[task, study, bits] for bits in BITS]
            four = some[2]
            differ = ", ".join(f"{np.mean(line['differ']):.3f}" for line in some)
            aucs = " | ".join(f"{mean(line['ours'], 'auc'):.3f}" for line in some)
            pilot = "" if four["pilot"][0] is None else f"{mean(four['pilot'], 'auc'):.3f}"
            print(
                f"| {task} | {four['rows']:,} | {study} | {aucs} | {pilot} "
                f"| {mean(four['rival'], 'auc'):.3f} "
                f"| {mean(four['full'], 'auc'):.3f} | {mean(four['ours'], 'balanced'):.3f} "
                f"| {mean(four['planned'], 'log_loss'):.3f}, {mean(four['ours'], 'log_loss'):.3f}; "
                f"{mean(four['rival'], 'log_loss'):.3f} "
                f"| {differ} | {np.mean(four['evidence']):.1f} |"
            )


def by_name(lines, named):
    """AUC of all models under seeds that the plan names as unlucky, or does not."""
    return [
        row["auc"]
        for line in lines
        for row, said in zip(line["ours"], line["named"], strict=True)
        if said == named
    ]


def inverted(lines):
    """Models that rank the wrong way round: under seeds that plans name, and under all others."""
    words = []
    for named in (True, False):
        found = by_name(lines, named)
        lowest = f", lowest AUC {min(found):.3f}" if found else ""
        seeds = "that plans name" if named else "that they do not"
        words.append(
            f"{sum(auc < 0.5 for auc in found)} of {len(found)} under seeds {seeds}{lowest}"
        )
    passed_over = sum(sum(line.get("passed over", ())) for line in lines)
    return f"inverted {'; '.join(words)}; {passed_over} seeds passed over by plans"


def summary(lines):
    print("\nover all tasks")
    old = [kept(line) for line in lines if line["study"] == "0.1"]
    if old:
        print(
            f"version 0.1: kept median {np.median(old):.3f}, worst {np.round(np.sort(old)[:3], 3)}"
        )
    for study in STUDIES:
        for bits in BITS:
            some = [line for line in lines if (line["study"], line["bits"]) == (study, bits)]
            if not some:
                continue
            share = np.array([kept(line) for line in some])
            auc = [abs(mean(line["planned"], "auc") - mean(line["ours"], "auc")) for line in some]
            loss = [
                abs(mean(line["planned"], "log_loss") / mean(line["ours"], "log_loss") - 1)
                for line in some
            ]
            ratio = [np.mean(line["bound"]) / max(np.mean(line["estimate"]), 1e-9) for line in some]
            pairs = [pair for line in some for pair in line["differ"]]
            gain = [
                mean(line["ours"], "auc") - mean(line["pilot"], "auc")
                for line in some
                if line["pilot"][0] is not None
            ]
            of_rival = [mean(line["ours"], "auc") - mean(line["rival"], "auc") for line in some]
            less_loss = sum(
                mean(line["ours"], "log_loss") < mean(line["rival"], "log_loss") for line in some
            )
            print(
                f"{study:<10} {bits} bits: kept median {np.median(share):.3f}, worst "
                f"{np.round(np.sort(share)[:3], 3).tolist()}; minus pilot "
                f"{np.median(gain) if gain else float('nan'):+.4f}, minus scikit-learn on it "
                f"{np.median(of_rival):+.4f} (less log-loss in {less_loss} of {len(some)}); "
                f"differ {sum(pairs)} of {len(pairs)}; |planned - measured| AUC "
                f"{np.median(auc):.4f}, log-loss {np.median(loss):.1%}; "
                f"bound / estimate {np.median(ratio):.2f}; {inverted(some)}"
            )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--studies", default=",".join(STUDIES))
    parser.add_argument("--bits", default=",".join(map(str, BITS)))
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--pilot", type=int, default=1000)
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--markdown", type=Path, nargs="+")
    options = parser.parse_args()
    if options.markdown:
        read = [json.loads(path.read_text()) for path in options.markdown]
        merged = {(x["task"], x["study"], x["bits"]): x for lines in read for x in lines}
        markdown(merged.values())
        summary(list(merged.values()))
        return
    if options.data is None:
        parser.error("name the folder of the data sets, or --markdown FILE")
    warnings.simplefilter("ignore")
    lines = []
    for name in options.tasks.split(","):
        if name not in TASKS:
            sys.exit(f"unknown task {name!r}; known: {', '.join(TASKS)}")
        for line in measure(name, TASKS[name], options.data, options):
            lines.append(line)
            show(line)
        if options.json is not None:
            options.json.write_text(json.dumps(lines, default=float))
    summary(lines)


if __name__ == "__main__":
    main()
