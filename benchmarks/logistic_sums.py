"""Sums for logistic regression in published directions, in units of one ``X @ w``.

One thread, CPU time, best of several, interleaved in one process. Run with
``OPENBLAS_NUM_THREADS=1 python benchmarks/logistic_sums.py``; about a minute.
"""

import time

import numpy as np
import scipy.sparse as sp

from replearn.kernels.logistic import project, projection_units, row_score_sums, score_sums

CAP = 12.0


def best_times(functions, n_rounds=7):
    """CPU seconds of each function, the rounds interleaved, after one call to compile."""
    for function in functions:
        function()
    best = [float("inf")] * len(functions)
    for _ in range(n_rounds):
        for place, function in enumerate(functions):
            start = time.thread_time()
            function()
            best[place] = min(best[place], time.thread_time() - start)
    return best


def published(rng, k, d):
    directions = rng.standard_normal((k, d))
    return directions, rng.standard_normal(k + 1) * 0.1, projection_units(directions, CAP)


def dense(rng, k, n=300_000, d=100):
    X, classes = rng.standard_normal((n, d)), rng.integers(0, 2, n).astype(np.uint8)
    directions, theta, units = published(rng, k, d)
    kept, out, w = project(X, directions, CAP), np.empty(n), directions[0].copy()
    weights = rng.integers(0, 5, n)
    one, fit, score, step, score_step, weighted = best_times(
        [
            lambda: np.dot(X, w, out=out),
            lambda: row_score_sums(X, directions, CAP, classes, theta, units),
            lambda: row_score_sums(
                X, directions, CAP, classes, theta, units, fisher=False, second=False
            ),
            lambda: score_sums(kept, classes, theta, units),
            lambda: score_sums(kept, classes, theta, units, fisher=False, second=False),
            lambda: score_sums(kept, classes, theta, units, weights),
        ],
        n_rounds=7 if k < 20 else 3,
    )
    q = k + 1
    share = (step - score_step) / fit * (q + q * (q + 1)) / (q * (q + 1))
    print(
        f"| dense, k = {k} | {fit / one:.2f} | {score / one:.2f} | {1.3 * (k + 2):.1f} "
        f"| {step / one:.2f} | {weighted / one:.2f} | {0.3 * (k + 2):.1f} | {share:.0%} |"
    )


def sparse(rng, k=4, n=100_000, d=100_000, per_row=100):
    columns = np.sort(rng.integers(0, d, (n, per_row)), axis=1).ravel().astype(np.int32)
    ends = np.arange(0, n * per_row + 1, per_row)
    X = sp.csr_matrix((rng.standard_normal(n * per_row), columns, ends), shape=(n, d))
    X.sum_duplicates()
    classes = rng.integers(0, 2, n).astype(np.uint8)
    directions, theta, units = published(rng, k, d)
    w = directions[0].copy()
    one, fit = best_times(
        [lambda: X @ w, lambda: row_score_sums(X, directions, CAP, classes, theta, units)]
    )
    print(f"| CSR, k = {k} | {fit / one:.2f} | | {1.5 * (k + 2):.1f} | | | | |")


def main():
    rng = np.random.default_rng(0)
    print(
        "| rows | one pass | score alone | bar | step on kept rows | weighted | bar | adding up |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for k in (1, 4, 8, 16, 48):
        dense(rng, k)
    sparse(rng)


if __name__ == "__main__":
    main()
