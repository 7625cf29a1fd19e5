"""Many classes on real tables: accuracy, kept share, disagreement, beside one against the rest.

python benchmarks/many_classes.py DATA [--pairs N] [--tasks NAME,NAME] [--rest]

DATA is the folder with the data sets (examples/README.md). A pilot of 1,500 rows plans an updating
study; two labs get half of the rest each, less the test rows, and pairs of labs fit under fresh
seeds. "kept" is the share of the gap between the majority and LogisticRegression on one lab's rows
that a model keeps, in accuracy. --rest adds scikit-learn's OneVsRestClassifier of binary studies,
each planned for the disagreement over the number of classes.
"""

import argparse
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler

import replearn as rl

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
    """Six groups of groups, by the first part of their name; the 2,000 most common words."""
    arrays = np.load(folder / "newsgroups20.npz")
    X = sp.csr_matrix((arrays["data"], arrays["indices"], arrays["indptr"]), arrays["shape"])
    common = np.argsort(-np.asarray((X > 0).sum(axis=0)).ravel())[50:2050]
    X = X[:, np.sort(common)].astype(float).log1p()
    names = np.array([str(name).split(".")[0] for name in arrays["label_names"]])
    return X.toarray(), names[arrays["label"]]


TASKS = {
    "mnist, 10": mnist,
    "mnist merged, 3": even_digits,
    "covtype, 7": covtype,
    "covtype merged, 3": covtype_three,
    "newsgroups, 7": newsgroups,
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


def one_against_rest(X, y, bits, n_pairs):
    """Accuracy and disagreement of K binary studies, decided by the largest probability."""
    classes = np.unique(y)
    accuracies, differ = [], 0
    for pair in range(n_pairs):
        test, pilot, first, second = split(X, y, pair)
        chances, same = [], True
        for label in classes:
            plan = rl.plan_from_pilot(
                pilot[0], (pilot[1] == label).astype(int), samples_per_site=len(first[1]),
                hint_bits=bits, max_disagreement=0.1 / len(classes), shared_seed=pair,
            )  # fmt: skip
            labs = [(rows, (labels == label).astype(int)) for rows, labels in (first, second)]
            one, other = fitted_pair(plan.protocol, *labs)
            same &= one.fingerprint_ == other.fingerprint_
            chances.append(one.predict_proba(test[0])[:, 1])
        accuracies.append((classes[np.argmax(chances, axis=0)] == test[1]).mean())
        differ += not same
    return float(np.mean(accuracies)), differ


def measure(name, folder, n_pairs, rest):
    X, y = TASKS[name](folder)
    test, pilot, first, _ = split(X, y, 0)
    scaler = MaxAbsScaler().fit(pilot[0])
    full = LogisticRegression(max_iter=100).fit(
        scaler.transform(first[0][:40_000]), first[1][:40_000]
    )
    base = max(np.unique(test[1], return_counts=True)[1]) / N_TEST
    best = full.score(scaler.transform(test[0]), test[1])
    for bits in BITS:
        plan = rl.plan_from_pilot(
            *pilot, samples_per_site=len(first[1]), hint_bits=bits, shared_seed=0
        )
        differ, scores = 0, []
        for pair in range(n_pairs):
            test, _, one, other = split(X, y, 0)
            swap = np.random.default_rng(pair).permutation(len(one[1]) + len(other[1]))
            pooled = np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])
            labs = [(pooled[0][part], pooled[1][part]) for part in np.array_split(swap, 2)]
            model, twin = fitted_pair(replace(plan.protocol, seed=str(pair)), *labs)
            differ += model.fingerprint_ != twin.fingerprint_
            scores.append(model.score(*test))
        found, own = float(np.mean(scores)), plan.table[1].accuracy
        print(
            f"| {name} | {len(first[1]):,} | {bits} | {plan.n_codes} | {base:.3f} | {best:.3f} | "
            f"{own:.3f} | {found:.3f} | {(found - base) / (best - base):.2f} | "
            f"{differ} of {n_pairs} | {plan.evidence_bits:.1f} |",
            flush=True,
        )
        if rest:
            accuracy, differ = one_against_rest(X, y, bits, max(1, n_pairs // 4))
            print(f"one against the rest, {bits} bits: accuracy {accuracy:.3f}, {differ} differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--tasks", default=";".join(TASKS), help="names, separated by semicolons")
    parser.add_argument("--rest", action="store_true", help="one against the rest, too")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| task | rows per lab | bits | numbers | majority | LogisticRegression | pilot's own | "
        "ours | kept | differ | evidence |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    )
    for name in options.tasks.split(";"):
        measure(name, options.data, options.pairs, options.rest)


if __name__ == "__main__":
    main()
