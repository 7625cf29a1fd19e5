"""Searching a net: how fast candidates are tested, and what a lazy search saves.

    python benchmarks/net_search.py                  speed, in half a minute
    python benchmarks/net_search.py --calibration    rows of the practical plan, in minutes
    python benchmarks/net_search.py --sizes          certified sizes

Times are single-thread CPU time, best of several. BLAS is one thread of numpy's, in single
precision, with the better of two layouts and the best of four block sizes.
"""

import argparse
import math
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

import replearn as rl
from replearn.codes.net_space import NetSpace
from replearn.codes.randomness import SharedRandomness
from replearn.datasets import make_margin
from replearn.kernels import error_counts as kernel
from replearn.plans.plan_net import plan_dp, plan_net
from replearn.plans.sizes import Guarantee
from replearn.stages.batches import Rows
from replearn.stages.net_search import (
    Net,
    fewest_errors,
    first_passing,
    largest_score,
    pack_points,
)

SHARED = SharedRandomness(1)


def best_time(work, repeats=5):
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def population(n, d, margin, **shape):
    X, y = make_margin(n, d, margin, random_state=0, **shape)
    return Rows(X, y.astype(np.int8), np.arange(n))


def blas_counts(signed, candidates, block, by_candidate):
    out = np.empty(candidates.shape[0], dtype=np.int64)
    for start in range(0, out.size, block):
        part = candidates[start : start + block]
        if by_candidate:
            out[start : start + block] = np.count_nonzero(part @ signed.T <= 0, axis=1)
        else:
            out[start : start + block] = np.count_nonzero(signed @ part.T <= 0, axis=0)
    return out


def counting(n_points=10_000, n_candidates=4096):
    print(f"\nErrors of {n_candidates:,} candidates on {n_points:,} points, microseconds each")
    print("  k   BLAS   full count          early exit (2.5 % errors)    with generation")
    for k in (3, 6, 16, 24):
        blas, full, early, made = counting_times(k, n_points, n_candidates)
        us = 1e6 / n_candidates
        print(
            f"{k:3d} {blas * us:6.2f} {full * us:7.2f} ({blas / full:4.1f} x) "
            f"{early * us:9.3f} ({blas / early:5.1f} x) {made * us:17.3f} ({blas / made:5.1f} x)"
        )


def counting_times(k, n_points, n_candidates):
    rows = population(n_points, k, 0.1)
    space = NetSpace(k, "none", k, "random", n_candidates)
    points = pack_points(rows, rows.order, space, SHARED)
    indices = np.arange(n_candidates)
    candidates = space.candidates(indices, SHARED)
    signed = (rows.X * rows.signs[:, None]).astype(np.float32)
    counts = np.empty(n_candidates, dtype=np.int64)
    everything = np.full(n_candidates, n_points)
    few = np.full(n_candidates, n_points // 40)
    net = Net(space, SHARED, range(n_candidates))
    blas = min(
        best_time(lambda b=b, s=s: blas_counts(signed, candidates, b, s), 3)
        for b in (16, 64, 256, 1024)
        for s in (True, False)
    )
    full = best_time(lambda: kernel.count_errors(points.packs, candidates, everything, counts))
    # BLAS adds in another order, so a point on the boundary may fall to the other side
    assert (np.abs(counts - blas_counts(signed, candidates, 256, True)) <= 1).all()
    early = best_time(lambda: kernel.count_errors(points.packs, candidates, few, counts))
    made = best_time(lambda: net.counts(points, indices, few))
    return blas, full, early, made


def lazy(n=20_000, size=1 << 20):
    print(f"\nLazy search, {n:,} rows, nets of {size:,} candidates, threshold 5 %; seconds")
    print("  k  margins     full count   first below (tested)   mechanism (tested)")
    for k in (6, 10, 15, 20, 25):
        for low, high in ((0.3, 0.95), (0.1, 0.4)):
            rows = population(n, k, low, max_margin=high)
            space = NetSpace(k, "none", k, "random", size)
            points = pack_points(rows, rows.order, space, SHARED)
            net = Net(space, SHARED, range(size))
            some = np.arange(4096)
            full = timed(net.counts, points, some, np.full(some.size, n))[1] * size / some.size
            found, first = timed(first_passing, points, net, n // 20, n // 20)
            noise = SHARED.gumbels("net/gumbel", size)
            gibbs, mechanism = timed(largest_score, points, net, 1.5 * k / 0.1, noise, 0.0)
            note = ""
            if found.candidate < 0:
                note = f"none below: best {fewest_errors(points, net).n_errors / n:.3f}"
            print(
                f"{k:3d}  {low:.1f}-{high:.2f} {full:13.1f} {first:12.4f} ({found.n_tested:9,d})"
                f" {mechanism:10.3f} ({gibbs.n_tested:9,d})  {note}"
            )


def timed(work, *arguments):
    start = time.process_time()
    result = work(*arguments)
    return result, time.process_time() - start


def calibration(pairs=40, n=5000):
    """Rows times max_error times (disagreement / components)^2: the constant of the plan."""
    print(f"\nPractical mode, {pairs} pairs of {n:,} rows")
    print(
        "algorithm  margin  d  population  disagreement  estimated  error mean, largest  constant"
    )
    warnings.simplefilter("ignore")
    shapes = {"easy": {}, "tight": {"max_margin": 1.3}, "decoy": {"decoy": 0.5}}
    for kind in (rl.ReplicableNetClassifier, rl.ReplicableDPClassifier):
        for margin, max_error in ((0.3, 0.1), (0.1, 0.05)):
            for d in (3, 6, 10) if margin == 0.3 else (3, 6):
                for name, shape in shapes.items():
                    shape = {k: v * margin if k == "max_margin" else v for k, v in shape.items()}
                    differ, estimates, errors = 0, [], []
                    for seed in range(pairs):
                        fits = []
                        for lab in (0, 1):
                            X, y = make_margin(n, d, margin, random_state=2 * seed + lab, **shape)
                            estimator = kind(
                                margin, max_error, shared_seed=seed, fit_intercept=False
                            )
                            fits.append(estimator.fit(X, y))
                        test = make_margin(5000, d, margin, random_state=10**6, **shape)
                        errors.append(1 - fits[0].score(*test))
                        estimates.append(fits[0].certificate_.estimated_disagreement)
                        differ += fits[0].fingerprint_ != fits[1].fingerprint_
                    known = [e for e in estimates if e is not None]
                    rate = differ / pairs
                    print(
                        f"{fits[0].plan_.algorithm:9s} {margin:7.1f} {d:3d}  {name:10s} "
                        f"{rate:12.3f} {np.mean(known) if known else math.nan:10.3f} "
                        f"{np.mean(errors):10.4f} {max(errors):8.4f} "
                        f"{n * max_error * (rate / d) ** 2:9.3f}",
                        flush=True,
                    )


def sizes():
    promise = {"max_error": 0.1, "max_disagreement": 0.1, "failure_prob": 0.05}
    print("\nCertified sizes at max_error = max_disagreement = .1, failure_prob = .05")
    print("margin  d   Algorithm 3 (candidates)     DP, margin (candidates)   DP, generic")
    for margin in (0.3, 0.5):
        for d in (3, 4, 5, 6, 8):
            guarantee = Guarantee(margin, **promise)
            net, dp = (make(guarantee, d, "certified") for make in (plan_net, plan_dp))
            generic = plan_dp(guarantee, d, "certified", calibration="generic")
            print(
                f"{margin:6.1f} {d:2d} {net.n_samples:13,d} ({net.net.n_candidates:9,d}) "
                f"{dp.n_samples:15,d} ({dp.net.n_candidates:9,d}) {generic.n_samples:13,d}"
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calibration", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    options = parser.parse_args()
    if options.calibration:
        calibration()
    elif options.sizes:
        sizes()
    else:
        with threadpool_limits(1):
            counting()
            lazy()
