"""Sums that nobody sees: additive secret shares of the sites' integers, modulo 2^k.

Each site cuts every whole number of its sums into random shares, one for each of three servers. A
share alone is noise. Each server adds up what it gets; only the three totals together are the sums
of all sites, and of no single one. Run: python examples/secret_shares.py

The servers must not collude, and each pair of site and server needs an encrypted channel. For
sites that drop out, use a protocol of secure aggregation; it adds integers modulo 2^k as well.
"""

import secrets
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

import replearn as rl
from replearn.kernels.score_sums import ScoreSums

BITS = 128  # sums of at most 2^50 rows have fewer than 102 bits, and a sign
MODULUS = 1 << BITS
N_SERVERS = 3


def draw(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 3))
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)


def numbers_of(site):
    """All numbers of a site in one list: sums, then counts."""
    sums = site.sums
    counts = [sums.n_rows, sums.n_zero, sums.n_capped, sums.n_cut]
    return [*sums.integers(), *counts, *map(int, sums.class_weights), *site.unknown]


def shares_of(number):
    """Random numbers that add up to this one, modulo 2^k."""
    noise = [secrets.randbelow(MODULUS) for _ in range(N_SERVERS - 1)]
    return [*noise, (number - sum(noise)) % MODULUS]


def opened(shares):
    """The number, with its sign."""
    total = sum(shares) % MODULUS
    return total - MODULUS if total >= MODULUS // 2 else total


def with_numbers(like, numbers):
    """The sums of all sites as those of one, from the numbers that were opened."""
    old = like.sums
    n_sums, n_classes = len(old.integers()), old.class_weights.size
    integers, counts = numbers[:n_sums], numbers[n_sums : n_sums + 4]
    labels = np.array(numbers[n_sums + 4 : n_sums + 4 + n_classes], dtype=np.int64)
    sums = ScoreSums.from_integers(integers, *counts, labels, old.units, old.parts)
    return replace(like, sums=sums, unknown=tuple(numbers[n_sums + 4 + n_classes :]), site=None)


protocol = rl.plan_from_pilot(*draw(800, seed=1), samples_per_site=3000).protocol
data = [draw(n_rows, seed) for seed, n_rows in enumerate((700, 900, 1400), start=2)]
sites = [rl.row_sums(protocol, *rows) for rows in data]

servers = [[0] * len(numbers_of(sites[0])) for _ in range(N_SERVERS)]
for site in sites:
    for place, number in enumerate(numbers_of(site)):
        for server, share in zip(servers, shares_of(number), strict=True):
            server[place] = (server[place] + share) % MODULUS

total = with_numbers(sites[0], [opened(shares) for shares in zip(*servers, strict=True)])
assert total.sums.integers() == reduce(add, [site.sums for site in sites]).integers()
secret, plain = rl.combine(protocol, [total]), rl.combine(protocol, sites)
print("from shares:", secret.model.fingerprint)
print("from sums:  ", plain.model.fingerprint)
assert secret.model.fingerprint == plain.model.fingerprint
