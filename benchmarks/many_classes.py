"""Many classes on real tables: accuracy, kept share, disagreement, beside one against the rest.

python benchmarks/many_classes.py DATA [--pairs N] [--tasks "NAME;NAME"] [--rest] [--raw FILE]
python benchmarks/many_classes.py DATA --sweep [mnist] [--classes K ...] [--raw FILE]
python benchmarks/many_classes.py DATA --halfspaces [--tasks ...] [--raw FILE]

DATA is the folder with the data sets (examples/README.md). A pilot of 1,500 rows plans an updating
study; two labs get half of the rest each, less the test rows, and pairs of labs fit under fresh
seeds. "kept" is the share of the gap between the majority and LogisticRegression on one lab's rows
that a model keeps, in accuracy. --rest adds one against the rest: a binary study for each class,
planned for the disagreement over the number of classes, on the same rows, and the largest
probability decides, as in scikit-learn's OneVsRestClassifier. --sweep merges classes of MNIST and
covtype and gives the labs fewer rows, in both kinds of study: which K and n are hopeless.
--halfspaces measures Algorithm 1 with more than two classes. --raw appends every figure to a file,
as a line of JSON.
"""

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler

import replearn as rl
from replearn.plans.plan_svm import plan_svm
from replearn.plans.sizes import Guarantee, Sizes

N_PILOT, N_TEST, BITS = 1500, 5000, (0, 4)


def mnist(folder):
    arrays = np.load(folder / "mnist70k.npz")
    pixels = arrays["X"].reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4)).reshape(-1, 196)
    return pixels, arrays["label"].astype(int)


def even_digits(folder):
    """MNIST with its ten classes merged into three."""
    X, y = mnist(folder)
    return X, np.digitize(y, [4, 7])


def covtype(folder):
    arrays = np.load(folder / "covtype.npz")
    areas = np.eye(4)[arrays["area"]]
    return np.hstack([arrays["X"].astype(float), areas]), arrays["cover_type"].astype(int)


def covtype_three(folder):
    """The two common cover types, and all others merged."""
    X, y = covtype(folder)
    return X, np.where(y > 2, 3, y)


def newsgroups(folder):
    """The 20 groups; the 2,000 most common words but for the first 50."""
    arrays = np.load(folder / "newsgroups20.npz")
    X = sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), arrays["shape"])
    common = np.argsort(-np.asarray((X > 0).sum(axis=0)).ravel())[50:2050]
    X = X[:, np.sort(common)].astype(float).log1p()
    return X.toarray(), arrays["label_names"][arrays["label"]].astype(str)


def newsgroup_topics(folder):
    """The same merged into 7 topics, by the first part of a group's name."""
    X, groups = newsgroups(folder)
    return X, np.char.partition(groups, ".")[:, 0]


TASKS = {
    "mnist, 10": mnist,
    "mnist merged, 3": even_digits,
    "covtype, 7": covtype,
    "covtype merged, 3": covtype_three,
    "newsgroups, 20": newsgroups,
    "newsgroups merged, 7": newsgroup_topics,
}

#: Of a sweep: data, classes that are left after merging, and rows of a lab.
SWEEP = {
    "mnist": (mnist, (2, 3, 5, 10), (3_000, 10_000, 30_000)),
    "covtype": (covtype, (2, 3, 5, 7), (10_000, 60_000, 280_000)),
}


def split(X, y, seed):
    order = np.random.default_rng(seed).permutation(len(y))
    test, pilot, rest = np.split(order, [N_TEST, N_TEST + N_PILOT])
    half = len(rest) // 2
    return [(X[part], y[part]) for part in (test, pilot, rest[:half], rest[half:])]


def fitted_pair(protocol, first, second):
    lead = protocol.estimator().fit(*first)
    hint = {"hint": lead.hint_} if protocol.hint_bits else {}
    return lead, protocol.estimator(**hint).fit(*second)


def merged(y, n_classes):
    """The most common classes but one stay, and all others are one."""
    labels, counts = np.unique(y, return_counts=True)
    kept = labels[np.argsort(-counts, kind="stable")][: n_classes - 1]
    return np.where(np.isin(y, kept), y, -1) if n_classes < labels.size else y


def note(raw, **facts):
    """Print the facts of one measurement, and append them to a file."""
    if raw is not None:
        with raw.open("a") as file:
            file.write(json.dumps(facts) + "\n")
    shown = {k: round(v, 4) if isinstance(v, float) else v for k, v in facts.items()}
    print(" ".join(f"{name}={value}" for name, value in shown.items()), flush=True)


def reference(test, pilot, first):
    """Accuracy of the majority, and of LogisticRegression on one lab's rows."""
    scaler = MaxAbsScaler().fit(pilot[0])
    full = LogisticRegression(max_iter=100).fit(
        scaler.transform(first[0][:40_000]), first[1][:40_000]
    )
    base = max(np.unique(test[1], return_counts=True)[1]) / len(test[1])
    return float(base), float(full.score(scaler.transform(test[0]), test[1]))


def sweep(folder, n_pairs, raw, names, wanted):
    """Fewer classes, fewer rows, both kinds of study, with and without a hint."""
    for name in names:
        load, class_counts, row_counts = SWEEP[name]
        X, y = load(folder)
        for n_classes in wanted or class_counts:
            labels = merged(y, n_classes)
            test, pilot, first, second = split(X, labels, 0)
            pooled = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
            base, best = reference(test, pilot, first)
            for study in ("updating", "discovery"):
                first_plan = rl.plan_from_pilot(*pilot, samples_per_site=1000, study=study)
                for n in row_counts:
                    for bits in BITS:
                        try:
                            plan = first_plan.replan(samples_per_site=n, hint_bits=bits)
                        except rl.ReplearnError as problem:  # too many numbers for a hint
                            note(
                                raw, kind="refused", task=name, classes=n_classes, study=study,
                                rows=n, bits=bits, why=str(problem),
                            )  # fmt: skip
                            continue
                        differ, scores = 0, []
                        for pair in range(n_pairs):
                            order = np.random.default_rng(pair).permutation(len(pooled[1]))
                            parts = order[:n], order[n : 2 * n]
                            labs = [(pooled[0][part], pooled[1][part]) for part in parts]
                            model, twin = fitted_pair(replace(plan.protocol, seed=str(pair)), *labs)
                            differ += model.fingerprint_ != twin.fingerprint_
                            scores.append(model.score(*test))
                        found = float(np.mean(scores))
                        note(
                            raw, kind="sweep", task=name, classes=n_classes, study=study, rows=n,
                            bits=bits, numbers=plan.n_codes, majority=base, logistic=best,
                            own=plan.table[1].accuracy, ours=found,
                            kept=(found - base) / (best - base), differ=int(differ),
                            pairs=n_pairs, evidence=plan.evidence_bits,
                        )  # fmt: skip


def halfspaces(name, folder, n_pairs, raw):
    """Algorithm 1 in the pilot's principal directions, and OneVsRestClassifier of two classes.

    Grids are as wide as the plan's, times the root of the rows that it asks for over those that a
    lab has: so wide that labs of this size disagree as often as planned. Directions: of 4 and 8
    those that are best on the test rows, for both.
    """
    X, y = TASKS[name](folder)
    test, pilot, first, second = split(X, y, 0)
    base, best = reference(test, pilot, first)
    pooled = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
    n, n_classes = len(first[1]), np.unique(y).size
    centre, spread = pilot[0].mean(axis=0), np.maximum(pilot[0].std(axis=0), 1e-3)
    axes = np.linalg.svd((pilot[0] - centre) / spread, full_matrices=False)[2]

    def encoded(rows, k):
        return np.ascontiguousarray(((rows - centre) / spread) @ axes[:k].T)

    for bits in BITS:
        for outputs in (n_classes, 1):
            # one model of all classes, or one of two classes for each, with its part of rho
            found = []
            rho = 0.1 if outputs > 1 else 0.1 / n_classes
            for k in (4, 8):
                plan = plan_svm(
                    Guarantee(0.1, 0.05, rho, 0.05), k + 1, sizes=Sizes(hint_bits=bits or None),
                    n_outputs=outputs,
                )  # fmt: skip
                width = float(plan.grid_width) * max(1.0, np.sqrt(plan.n_samples / n))

                def estimator(pair, hint=None, width=width, bits=bits):
                    return rl.ReplicableSVMClassifier(
                        grid_width=width, shared_seed=pair, hint_bits=bits, hint=hint
                    )

                def lab_scores(models, rows):
                    if len(models) == 1:
                        return models[0].decision_function(rows)
                    return np.column_stack([model.decision_function(rows) for model in models])

                differ, scores = 0, []
                labels = np.unique(y)
                for pair in range(n_pairs):
                    order = np.random.default_rng(pair).permutation(len(pooled[1]))
                    labs = [
                        (encoded(pooled[0][part], k), pooled[1][part])
                        for part in np.array_split(order, 2)
                    ]
                    targets = (
                        [lambda y: y]
                        if outputs > 1
                        else [lambda y, label=label: (y == label).astype(int) for label in labels]
                    )
                    leads = [estimator(pair).fit(labs[0][0], of(labs[0][1])) for of in targets]
                    others = [
                        estimator(pair, lead.hint_ if bits else None).fit(
                            labs[1][0], of(labs[1][1])
                        )
                        for lead, of in zip(leads, targets, strict=True)
                    ]
                    differ += any(
                        one.fingerprint_ != other.fingerprint_
                        for one, other in zip(leads, others, strict=True)
                    )
                    decided = labels[lab_scores(leads, encoded(test[0], k)).argmax(axis=1)]
                    scores.append(float((decided == test[1]).mean()))
                found.append((float(np.mean(scores)), k, differ))
            accuracy, k, differ = max(found)
            note(
                raw, kind="halfspaces" if outputs > 1 else "OneVsRest of halfspaces", task=name,
                rows=n, bits=bits, directions=k, majority=base, logistic=best, ours=accuracy,
                kept=(accuracy - base) / (best - base), differ=int(differ), pairs=n_pairs,
                all=[(k, round(a, 4), int(d)) for a, k, d in found],
            )  # fmt: skip


def labs_of(pooled, pair):
    """Two labs, each with half of the rows."""
    X, y = pooled
    order = np.random.default_rng(pair).permutation(len(y))
    return [(X[part], y[part]) for part in np.array_split(order, 2)]


def softmax(plan, labs, test, pair):
    """Accuracy of one model of all classes, and whether two labs differ."""
    model, twin = fitted_pair(replace(plan.protocol, seed=str(pair)), *labs)
    return model.score(*test), model.fingerprint_ != twin.fingerprint_


def one_against_rest(plans, labs, test, pair):
    """The same of a binary model for each class, decided by the largest probability."""
    chances, differ = [], False
    for label, plan in plans.items():
        binary = [(rows, (labels == label).astype(int)) for rows, labels in labs]
        model, twin = fitted_pair(replace(plan.protocol, seed=str(pair)), *binary)
        differ |= model.fingerprint_ != twin.fingerprint_
        chances.append(model.predict_proba(test[0])[:, 1])
    return (np.array([*plans])[np.argmax(chances, axis=0)] == test[1]).mean(), differ


def measure(name, folder, n_pairs, rest, raw):
    X, y = TASKS[name](folder)
    test, pilot, first, second = split(X, y, 0)
    base, best = reference(test, pilot, first)
    pooled = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
    facts = {"task": name, "rows": len(first[1])}
    plan = rl.plan_from_pilot(*pilot, samples_per_site=len(first[1]))
    of_classes = {}
    if rest:
        classes = np.unique(y)
        of_classes = {
            label: rl.plan_from_pilot(
                pilot[0], (pilot[1] == label).astype(int), samples_per_site=len(first[1]),
                max_disagreement=0.1 / classes.size,
            )
            for label in classes
        }  # fmt: skip
    for bits in BITS:
        one = plan.replan(hint_bits=bits)
        ways = {"softmax": (softmax, one)}
        if rest:
            each = {label: found.replan(hint_bits=bits) for label, found in of_classes.items()}
            ways["one against the rest"] = one_against_rest, each
        for kind, (way, planned) in ways.items():
            found = [way(planned, labs_of(pooled, pair), test, pair) for pair in range(n_pairs)]
            ours = float(np.mean([accuracy for accuracy, _ in found]))
            of_plan = {}
            if kind == "softmax":
                of_plan = {
                    "numbers": one.n_codes, "majority": base, "logistic": best,
                    "own": one.table[1].accuracy, "evidence": one.evidence_bits,
                }  # fmt: skip
            note(
                raw, kind=kind, **facts, bits=bits, **of_plan, ours=ours,
                kept=(ours - base) / (best - base), differ=int(sum(d for _, d in found)),
                pairs=n_pairs,
            )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tasks", default=";".join(TASKS), help="names, separated by semicolons")
    parser.add_argument("--rest", action="store_true", help="one against the rest, too")
    parser.add_argument("--raw", type=Path, help="append every figure to this file")
    parser.add_argument("--sweep", nargs="*", choices=list(SWEEP), help="fewer classes and rows")
    parser.add_argument("--classes", type=int, nargs="*", help="of a sweep, if not all")
    parser.add_argument("--halfspaces", action="store_true", help="Algorithm 1")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.sweep is not None:
        names = options.sweep or list(SWEEP)
        sweep(options.data, options.pairs, options.raw, names, options.classes)
        return
    if options.halfspaces:
        for name in options.tasks.split(";"):
            halfspaces(name, options.data, options.pairs, options.raw)
        return
    for name in options.tasks.split(";"):
        measure(name, options.data, options.pairs, options.rest, options.raw)


if __name__ == "__main__":
    main()
