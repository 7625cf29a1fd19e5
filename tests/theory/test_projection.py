"""Laws of the shared projections (THEORY 2.4, 2.5; Appendix "JL" of the paper).

The unit of chance is a seed. Each check has a false-alarm probability of 1e-6 or less; what it
would catch is said beside it.
"""

import math

import numpy as np
import pytest
from scipy import stats

from replearn.codes.cells import mean_length
from replearn.codes.projection import PROJECTIONS
from replearn.codes.randomness import SharedRandomness
from tests.error_budget import assert_mean_close, assert_rate_at_most, assert_rate_close

FALSE_ALARM = 1e-6
N_SEEDS = 10_000


def images(name, n_components, vectors, seeds):
    """Images of each vector under the map of each seed: (n_vectors, n_seeds, n_components)."""
    apply = PROJECTIONS[name].apply
    out = np.empty((len(vectors), len(seeds), n_components))
    for i, seed in enumerate(seeds):
        shared = SharedRandomness(seed)
        for j, vector in enumerate(vectors):
            out[j, i] = apply(vector, n_components, shared)
    return out


def unit(vector):
    return np.asarray(vector) / np.linalg.norm(vector)


def some_vectors(d):
    """Two axes (one in the second window of a Hadamard map), a flat one, two without pattern."""
    rng = np.random.default_rng(3)
    axes = np.eye(d)
    return [axes[0], axes[-1], unit(np.ones(d)), *map(unit, rng.normal(size=(2, d)))]


def products(first, second):
    return (first * second).sum(axis=1)


# ---------------------------------------------------------------- inner products


@pytest.mark.parametrize("name", ["gaussian", "signs", "hadamard", "rotation"])
def test_jl_inner_products_are_unbiased(name, seeds):
    d = 12
    k = d if name == "rotation" else 5
    vectors = some_vectors(d)
    mapped = images(name, k, vectors, seeds(N_SEEDS))
    pairs = [(i, j) for i in range(len(vectors)) for j in range(i + 1)]
    for i, j in pairs:
        expected = float(vectors[i] @ vectors[j])
        # the tolerance is for rotations, which keep inner products exactly
        sample = products(mapped[i], mapped[j])
        assert_mean_close(sample, expected, 1e-12, FALSE_ALARM / len(pairs))
    # would catch a bias of .041 (gaussian), .038 (signs), .029 (hadamard) in one of the products
    # with probability .8; the standard deviation of a product is .3 to .7


@pytest.mark.parametrize("k", [6, 24])
def test_jl_variance_of_gaussian_inner_products(k, seeds):
    vectors = some_vectors(7)
    mapped = images("gaussian", k, vectors, seeds(N_SEEDS))
    pairs = [(0, 0), (0, 1), (2, 3), (4, 4), (3, 4)]
    for i, j in pairs:
        z, x = 2.0 * vectors[i], vectors[j]
        sample = (products(2.0 * mapped[i], mapped[j]) - z @ x) ** 2
        expected = ((z @ z) * (x @ x) + (z @ x) ** 2) / k
        assert_mean_close(sample, expected, false_alarm=FALSE_ALARM / len(pairs))
    # would catch a variance wrong by 13 % (k = 6), 10 % (k = 24) with probability .8


def test_jl_variance_of_signs_inner_products(seeds):
    # Equal coordinates do not vary: (|z|^2 |x|^2 + <z,x>^2 - 2 sum z_i^2 x_i^2) / k
    k = 6
    vectors = some_vectors(7)
    mapped = images("signs", k, vectors, seeds(N_SEEDS))
    for i, j in [(0, 0), (0, 1), (2, 2), (2, 3), (3, 4)]:
        z, x = vectors[i], vectors[j]
        sample = (products(mapped[i], mapped[j]) - z @ x) ** 2
        expected = (1 + (z @ x) ** 2 - 2 * (z**2 @ x**2)) / k
        assert_mean_close(sample, expected, 1e-12, FALSE_ALARM / 5)
    # would catch a variance wrong by 11 % with probability .8; without the last term it would be
    # wrong by 17 % (2, 2), 35 % (2, 3), and by everything for (0, 0)


# ---------------------------------------------------------------- lengths (lemma:distr-JL)


@pytest.mark.parametrize("k", [1, 2, 8, 33])
def test_distributional_jl_law_of_gaussian_lengths(k, seeds):
    vectors = [some_vectors(7)[i] for i in (0, 2, 3)]
    mapped = images("gaussian", k, vectors, seeds(N_SEEDS))
    for image in mapped:
        lengths = k * (image**2).sum(axis=1)
        assert stats.kstest(lengths, stats.chi2(k).cdf).pvalue > FALSE_ALARM / 3
    # would catch a distribution function .034 apart with probability .9


@pytest.mark.parametrize("name", ["gaussian", "signs"])
def test_distributional_jl_tail(name, seeds):
    # With constants: P[ ||Ax|^2 - 1| > e ] <= 2 exp(-k (e^2/4 - e^3/6)) [Achlioptas 2001]
    k = 40
    vectors = [some_vectors(12)[i] for i in (0, 2, 3)]
    mapped = images(name, k, vectors, seeds(N_SEEDS // 2))
    for image in mapped:
        deviations = np.abs((image**2).sum(axis=1) - 1)
        for share in (0.5, 0.7):
            bound = 2 * math.exp(-k * (share**2 / 4 - share**3 / 6))
            n_beyond = int((deviations > share).sum())
            assert_rate_at_most(n_beyond, N_SEEDS // 2, bound, FALSE_ALARM / 6)
    # would catch rates of .419 (bound .378) and .177 (bound .147) with probability .8; the law of
    # chi-square has .025 and .0038


# ---------------------------------------------------------------- Hadamard


def hadamard_matrix(d, k, shared):
    return np.array([PROJECTIONS["hadamard"].apply(axis, k, shared) for axis in np.eye(d)]).T


@pytest.mark.parametrize("d", [*range(1, 18), 31, 32, 33, 64, 65, 100, 127])
def test_hadamard_rows_are_exactly_orthonormal(d, seed_block):
    for k in sorted({1, (d + 1) // 2, d}):
        rows = hadamard_matrix(d, k, SharedRandomness(seed_block))
        np.testing.assert_allclose(rows @ rows.T, d / k * np.eye(k), atol=1e-12 * d)


def hadamard_squares(d, k, vectors, seeds):
    """For pairs of vectors: squared errors of their inner products, and what to expect of them.

    Perfectly mixed orthonormal rows vary by (|z|^2 |x|^2 + <z,x>^2)(1/k - 1/d) d/(d-1).
    """
    mapped = images("hadamard", k, vectors, seeds)
    for i in range(len(vectors)):
        for j in range(i + 1):
            z, x = vectors[i], vectors[j]
            expected = (1 + (z @ x) ** 2) * (1 / k - 1 / d) * d / (d - 1)
            yield (products(mapped[i], mapped[j]) - z @ x) ** 2, expected


@pytest.mark.parametrize(("d", "k"), [(64, 16), (100, 20), (65, 20), (96, 48), (7, 3)])
def test_hadamard_variance_of_inner_products(d, k, seeds):
    # An axis outside the first window is spread over w < d places only: up to d/w < 2 times the
    # variance of perfect mixing, which is (1 - k/d) times that of Gaussian entries.
    vectors = [*some_vectors(d), np.eye(d)[-2]]
    window = 1 << (d.bit_length() - 1)
    for sample, perfect in hadamard_squares(d, k, vectors, seeds(N_SEEDS // 2)):
        bound = perfect * d / window
        assert_mean_close(sample, bound / 2, bound / 2, FALSE_ALARM / 21)
    # would catch a variance 14 % above the bound with probability .8; two axes outside the first
    # window meet it exactly


def test_hadamard_mixes_well(seeds):
    # within 15 % of perfect, whether the vectors are axes, flat or without pattern
    for sample, perfect in hadamard_squares(64, 16, some_vectors(64), seeds(N_SEEDS // 2)):
        assert_mean_close(sample, perfect, 0.15 * perfect, FALSE_ALARM / 15)
    # would catch a variance 28 % off with probability .8; seen: 0 to 5 % below


# ---------------------------------------------------------------- rotation


def rotations(d, seeds):
    """The matrices, (n_seeds, d, d); the last axis runs over inputs."""
    return images("rotation", d, list(np.eye(d)), seeds).transpose(1, 2, 0)


def reference_rotations(d, n, rng):
    """Haar-distributed by the textbook: Q of the QR decomposition, signs fixed by R."""
    q, r = np.linalg.qr(rng.normal(size=(n, d, d)))
    return q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None, :]


@pytest.mark.parametrize("d", [2, 3, 7])
def test_rotation_columns_and_rows_are_uniform_on_the_sphere(d, seeds):
    sample = rotations(d, seeds(N_SEEDS))
    law = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)  # of one coordinate
    places = [(0, 0), (0, d - 1), (d - 1, 0), (d - 1, d - 1), (d // 2, d // 2)]
    for i, j in places:
        assert stats.kstest(sample[:, i, j], law.cdf).pvalue > FALSE_ALARM / (2 * len(places))
    # a whole column, and a whole row, along a direction that is no axis
    direction = unit(np.arange(1, d + 1))
    for view in (sample @ direction, direction @ sample):
        for i in range(0, d, max(1, d - 1)):
            assert stats.kstest(view[:, i], law.cdf).pvalue > FALSE_ALARM / 8
    # would catch a distribution function .036 apart with probability .9


@pytest.mark.parametrize("d", [2, 3, 6])
def test_rotation_is_haar(d, seeds, seed_block):
    # Q, Q R and R Q have one law, that of the textbook's construction
    rng = np.random.default_rng([seed_block, 1])
    n_seeds = N_SEEDS // 2
    sample = rotations(d, seeds(n_seeds))
    other = rotations(d, seeds(2 * n_seeds)[n_seeds:])
    fixed = reference_rotations(d, 1, rng)[0]
    textbook = reference_rotations(d, n_seeds, rng)
    views = [
        lambda q: np.trace(q, axis1=1, axis2=2),
        lambda q: q[:, 0, 0] * q[:, 1, 1],
        lambda q: q[:, 0, 1] + q[:, 1, 0],
        lambda q: np.abs(q).sum(axis=(1, 2)),
    ]
    for moved in (textbook, other @ fixed, fixed @ other):
        for view in views:
            # rounded: in two dimensions a reflection has trace 0 up to the last bit
            first, second = view(sample).round(9), view(moved).round(9)
            p_value = stats.ks_2samp(first, second, method="asymp").pvalue
            assert p_value > FALSE_ALARM / 12
    # would catch distribution functions .072 apart with probability .9


@pytest.mark.parametrize("d", [1, 2, 5])
def test_rotation_has_both_determinants(d, seeds):
    # Haar on the whole orthogonal group: half of the maps contain a reflection
    n_seeds = N_SEEDS // 2
    determinants = np.linalg.det(rotations(d, seeds(n_seeds)))
    np.testing.assert_allclose(np.abs(determinants), 1, atol=1e-12)
    assert_rate_close(int((determinants > 0).sum()), n_seeds, 0.5)
    # would catch a rate of .541 or .459 with probability .8


# ---------------------------------------------------------------- l1 length of a displacement


@pytest.mark.parametrize("k", [1, 5, 24])
def test_l1_length_of_a_gaussian_image(k, seeds):
    # E |A delta|_1 = sqrt(2 k / pi) |delta|
    for vector in some_vectors(7)[1:4]:
        image = images("gaussian", k, [0.3 * vector], seeds(N_SEEDS // 2))[0]
        expected = 0.3 * math.sqrt(2 * k / math.pi)
        assert_mean_close(np.abs(image).sum(axis=1), expected, false_alarm=FALSE_ALARM / 3)
    # would catch a mean wrong by 6.4 % (k = 1), 2.9 % (k = 5), 1.4 % (k = 24) with probability .8


@pytest.mark.parametrize("d", [1, 2, 5, 24])
def test_l1_length_of_a_rotated_displacement(d, seeds):
    # E |Q delta|_1 = sqrt(2/pi) d / c_d |delta|, c_d the mean length of a normal vector
    rng = np.random.default_rng(5)
    c_d = math.sqrt(2) * math.gamma((d + 1) / 2) / math.gamma(d / 2)
    assert mean_length(d) == pytest.approx(c_d, rel=1e-12)
    for vector in (np.eye(d)[0], unit(np.ones(d)), unit(rng.normal(size=d))):
        image = images("rotation", d, [0.3 * vector], seeds(N_SEEDS // 2))[0]
        expected = 0.3 * math.sqrt(2 / math.pi) * d / c_d
        assert_mean_close(np.abs(image).sum(axis=1), expected, 1e-12, FALSE_ALARM / 3)
    # would catch a mean wrong by .9 % with probability .8
