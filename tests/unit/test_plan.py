"""Plans: arithmetic without data. The theory's numbers, its inequalities, and every refusal."""

import inspect
import math
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from replearn.codes.basis import Basis
from replearn.codes.cells import CELLS, is_rounding, provable_flip_constant
from replearn.codes.projection import PROJECTIONS
from replearn.errors import NotEnoughSamples, ReplearnError
from replearn.plans.plan_sgd import plan_sgd
from replearn.plans.plan_svm import expected_squared_length, plan_svm
from replearn.plans.sizes import MODES, Guarantee, Sizes, Spent, decimal

LARGE = 10**5  # so many inputs that a Gaussian map to few components is cheaper than a rotation

modes = pytest.mark.parametrize("mode", MODES)


def promise(margin=0.5, max_error=0.1, max_disagreement=0.1, failure_prob=0.05):
    return Guarantee(margin, max_error, max_disagreement, failure_prob)


guarantees = st.builds(
    Guarantee,
    margin=st.floats(0.02, 0.9),
    max_error=st.floats(0.005, 0.4),
    max_disagreement=st.floats(0.005, 0.4),
    failure_prob=st.floats(0.001, 0.4),
)
inputs = st.integers(1, 3000)


# ---------------------------------------------------------------- certified: the theory's table


def theory_plan(tau, eps, rho, delta, rounding, d=None):
    """The planner of THEORY 5.4 with C = 1, line by line: (samples, n, B, k, beta)."""
    best = None
    e1 = e2 = eps / 2
    c = {"centre": 12, "ak": 6}[rounding]
    for s in [i / 100 for i in range(5, 60)]:
        for t in [j / 100 * tau for j in (1, 2, 3, 4, 6, 8, 10)]:
            m0 = (1 - s) * tau - t
            if m0 <= 0:
                continue
            log = math.log(1 / (0.9 * e2 * delta))
            k = math.ceil(2 * log / math.log(1 + m0 * m0 / (2 - m0 * m0)))
            beta, kk = math.sqrt(c / k), k
            if d is not None and d < k:
                beta, kk = math.sqrt(c / 2 * m0 * m0 / log), d
            variance = math.pi * beta**2 * rho**2 / (4 * kk)
            if kk == d:
                c_d = math.sqrt(2) * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2))
                variance *= c_d**2 / d
            n_batches = math.ceil(1 / variance)
            n = math.ceil(1 / (s * e1 * tau**2))
            if math.exp(-n_batches * t * t / (2 + 4 * t / 3)) > 0.1 * e2 * delta:
                continue
            if best is None or n * n_batches < best[0]:
                best = n * n_batches, n, n_batches, kk, beta
    return best


#: THEORY 10: (margin, inputs or None for many, rounding) -> samples at eps = rho = .1, delta = .05
TABLE = [
    (0.5, None, "centre", 1.0e8),
    (0.5, None, "ak", 2.0e8),
    (0.3, None, "centre", 2.2e9),
    (0.3, None, "ak", 4.3e9),
    (0.1, None, "centre", 1.6e12),
    (0.1, None, "ak", 3.2e12),
    (0.5, 10, "centre", 3.8e6),
    (0.5, 10, "ak", 6.7e6),
    (0.3, 10, "centre", 2.8e7),
    (0.3, 10, "ak", 5.2e7),
]


@pytest.mark.parametrize(("margin", "d", "rounding", "samples"), TABLE)
def test_certified_needs_fewer_rows_than_the_first_proof(margin, d, rounding, samples):
    # the proof with C = 1, variance 1, half of the error before rounding, and t up to .1 tau
    plan = plan_svm(promise(margin), d or LARGE, "certified", Sizes(rounding=rounding))
    assert plan.projection == ("gaussian" if d is None else "rotation")
    expected = theory_plan(margin, 0.1, 0.1, 0.05, rounding, d)[0]
    assert expected / 4 < plan.n_samples < expected / 2
    # The table has two digits; its "ak" entries for ten inputs are 5.3 % and 4.8 % below what its
    # own planner gives.
    assert expected == pytest.approx(samples, rel=0.06)


@pytest.mark.parametrize(("margin", "d", "samples"), [(0.5, 10, 1.49e6), (0.1, 100, 2.2e9)])
def test_certified_sizes_that_were_to_be_reached(margin, d, samples):
    # the first proof needed 3.97e6 and 4.6e10
    assert plan_svm(promise(margin), d, "certified").n_samples < samples


@pytest.mark.parametrize("make", [plan_svm, plan_sgd])
def test_certified_hints_need_fewer_rows(make):
    rows = [
        make(promise(0.5), 10, "certified", Sizes(hint_bits=bits, rounding="centre")).n_samples
        for bits in (None, 2, 4)
    ]
    assert rows[0] > 5 * rows[1] > 6 * rows[2]


def proved_error(plan, guarantee, rounding, share, tail):
    """Whether the error is proved, for a division of it and of the failure probability."""
    tau, delta, box = guarantee.margin, guarantee.failure_prob, plan.box_constraint
    e1, e2 = share * guarantee.max_error, (1 - share) * guarantee.max_error
    width, k = float(plan.grid_width), plan.n_components
    # 1. leave-one-out hinge and the solver's gap stay within s e1
    gap = math.sqrt(2 * plan.accuracy.abs_gap)
    hinge = max(1, (1 + box) / (2 * box)) / (tau**2 * (plan.batch_size + 1))
    slack = (hinge + gap) / e1
    # 2. the smallest t for which Bernstein's inequality leaves its part of e2 delta
    log = math.log(1 / ((1 - tail) * e2 * delta))
    variance = min(1, (math.sqrt(box) + tau * gap) ** 2)
    linear = 4 / 3 * log / plan.n_batches
    shift = (linear + math.sqrt(linear**2 + 8 * variance * log / plan.n_batches)) / 2
    # 3. the margin that is left survives projection and rounding
    margin = (1 - slack) * tau - shift
    if margin <= 0:
        return False
    proxy = CELLS[rounding].second_moment
    if plan.projection == "gaussian":
        wrong = (1 + margin**2 / (1 - margin**2 + k * proxy * width**2)) ** (-k / 2)
    else:
        wrong = math.exp(-(margin**2) / (2 * proxy * width**2))
    return wrong <= tail * e2 * delta


@settings(max_examples=20)
@given(guarantees, inputs, st.sampled_from(["centre", "ak"]))
def test_certified_plan_meets_every_inequality(guarantee, n_inputs, rounding):
    # Not how the plan was found, but whether the proof goes through for it
    plan = plan_svm(guarantee, n_inputs, "certified", Sizes(rounding=rounding))
    tau, k, box = guarantee.margin, plan.n_components, plan.box_constraint
    # some division of the error and of the failure probability makes the proof go through
    assert any(
        proved_error(plan, guarantee, rounding, before / 100, tail / 100)
        for before in range(5, 99)
        for tail in range(5, 100)
    )
    if plan.projection == "rotation":
        assert k == n_inputs
    # two labs; under the margin the variance is at most C
    constant = provable_flip_constant(plan.projection, rounding, n_inputs, k)
    spread = math.sqrt(box) + tau * math.sqrt(2 * plan.accuracy.abs_gap)
    flips = constant / float(plan.grid_width) * min(1, spread) * math.sqrt(2 / plan.n_batches)
    assert plan.length_cap == 1
    assert flips <= guarantee.max_disagreement


@settings(max_examples=15)
@given(guarantees, inputs)
def test_certified_takes_the_cheaper_projection(guarantee, n_inputs):
    best = plan_svm(guarantee, n_inputs, "certified")
    each = [
        plan_svm(guarantee, n_inputs, "certified", Sizes(projection=name)).n_samples
        for name in ("gaussian", "rotation")
    ]
    assert best.n_samples == min(each)


# ---------------------------------------------------------------- paper: lines 1 to 4


def test_paper_mode_is_lines_1_to_4():
    plan = plan_svm(Guarantee(0.5, 0.1, 0.2, 0.05), 100, "paper")
    log = math.log(1 / (0.1 * 0.5 * 0.2 * 0.05))  # 7.6009
    assert plan.n_components == math.ceil(log / 0.5**2) == 31
    assert plan.n_batches == math.ceil(log / (0.5**4 * 0.2**2)) == 3041
    assert plan.batch_size == math.ceil(log / (0.1 * 0.5**3)) == 609
    assert plan.grid_width == "0.0658"  # .5 / 7.6009
    assert (plan.projection, plan.rounding) == ("gaussian", "ak")
    assert plan.regularization == "0"
    assert plan.box_constraint == math.inf
    assert plan.unit_vectors
    # SVM(S, tau/2): half of the largest margin, and no batch without tau/2
    assert (plan.accuracy.margin_share, plan.accuracy.margin_floor) == (0.5, 0.25)


@given(guarantees, st.tuples(*[st.floats(0.01, 100)] * 4))
def test_paper_mode_scales_with_its_constants(guarantee, constants):
    c1, c2, c3, c4 = constants
    plan = plan_svm(guarantee, 10, "paper", constants={"C1": c1, "C2": c2, "C3": c3, "C4": c4})
    tau, eps = guarantee.margin, guarantee.max_error
    rho, delta = guarantee.max_disagreement, guarantee.failure_prob
    log = math.log(1 / (eps * tau * rho * delta))
    assert plan.n_components == math.ceil(c1 * log / tau**2)
    assert plan.n_batches == math.ceil(c2 * log / (tau**4 * rho**2))
    assert plan.batch_size == math.ceil(c3 * log / (eps * tau**3))
    assert float(plan.grid_width) == pytest.approx(c4 * tau / log, rel=0.005)
    assert all(f"{c:g}" in plan.basis for c in constants)


# ---------------------------------------------------------------- all modes


@modes
def test_plans_do_not_depend_on_the_number_of_rows(mode):
    assert "n_samples" not in inspect.signature(plan_svm).parameters
    plan = plan_svm(promise(), 10, mode)
    # more batches than needed change nothing but their number
    many = plan_svm(promise(), 10, mode, Sizes(n_batches=2 * plan.n_batches))
    assert many == replace(plan, n_batches=2 * plan.n_batches, by_hand=("n_batches",))
    spent = Spent(100, 1, 0, 0, 0, 0, 0.0, 1000)
    assert plan.with_spent(spent) == plan
    assert plan.with_spent(spent).spent == spent


@modes
@settings(max_examples=25)
@given(guarantee=guarantees, n_inputs=inputs)
def test_derived_reals_are_decimals_of_three_digits(mode, guarantee, n_inputs):
    plan = plan_svm(guarantee, n_inputs, mode)
    three_digits(plan.grid_width)
    if mode == "certified":  # an exact quotient, the same text everywhere: C in hundredths
        box = round(100 * plan.box_constraint)
        assert plan.regularization == repr(100 / (box * plan.batch_size))
    else:
        three_digits(plan.regularization)
    assert plan.projection in PROJECTIONS
    assert is_rounding(plan.rounding)


def three_digits(text):
    assert isinstance(text, str)
    digits = re.sub(r"e.*$", "", text).replace(".", "").lstrip("0")
    assert len(digits) <= 3
    assert decimal(float(text)) == text


@given(st.floats(1e-9, 1e9))
def test_decimal_is_within_half_a_unit(value):
    three_digits(decimal(value))
    assert float(decimal(value)) == pytest.approx(value, rel=0.005001)


@pytest.mark.parametrize("rounding", list(CELLS))
@given(guarantee=guarantees, n_inputs=inputs)
def test_practical_grid_keeps_to_the_noise(rounding, guarantee, n_inputs):
    # projection (orthonormal rows, a direction of the expected length) and rounding together
    plan = plan_svm(guarantee, n_inputs, "practical", Sizes(rounding=rounding))
    assert plan.projection in ("none", "hadamard")
    length = expected_squared_length(guarantee.margin)
    projected = length * (1 / plan.n_components - 1 / n_inputs)
    total = projected + CELLS[rounding].second_moment * float(plan.grid_width) ** 2
    assert total <= plan.noise**2 * 1.011  # the width has three digits


@given(guarantees, inputs, st.sampled_from(MODES), st.data())
def test_a_stronger_promise_needs_more_samples(guarantee, n_inputs, mode, data):
    name = data.draw(st.sampled_from(["margin", "max_error", "max_disagreement"]))
    value = getattr(guarantee, name) * data.draw(st.floats(0.3, 0.99))
    weak = plan_svm(guarantee, n_inputs, mode)
    strong = plan_svm(replace(guarantee, **{name: value}), n_inputs, mode)
    # practical mode fills its last batch
    spare = weak.batch_size if mode == "practical" else 0
    assert strong.n_samples >= weak.n_samples - spare


@settings(max_examples=25)
@given(guarantees, inputs, st.sampled_from(["certified", "paper"]), st.floats(0.3, 0.99))
def test_a_smaller_failure_probability_needs_more_samples(guarantee, n_inputs, mode, share):
    strong = replace(guarantee, failure_prob=guarantee.failure_prob * share)
    weak_plan, strong_plan = (plan_svm(each, n_inputs, mode) for each in (guarantee, strong))
    assert strong_plan.n_samples >= weak_plan.n_samples


@settings(max_examples=25)
@given(guarantees, inputs, st.sampled_from(["certified", "paper"]))
def test_halving_the_disagreement_costs_about_four_times(guarantee, n_inputs, mode):
    assume(guarantee.max_disagreement < 0.1)
    half = replace(guarantee, max_disagreement=guarantee.max_disagreement / 2)
    ratio = plan_svm(half, n_inputs, mode).n_samples / plan_svm(guarantee, n_inputs, mode).n_samples
    # less where Bernstein's inequality decides, more by the logarithm of paper mode
    assert 1 <= ratio <= (4.1 if mode == "certified" else 8)


def test_sizes_by_hand_are_kept():
    sizes = Sizes(
        n_batches=7, batch_size=30, n_components=24, grid_width=0.123456, projection="signs",
        rounding="e8", regularization=0.0123456,
    )  # fmt: skip
    for mode in ("practical", "paper"):
        plan = plan_svm(promise(), 50, mode, sizes)
        assert plan.grid_width == "0.123456"
        assert plan.regularization == "0.0123456"
        assert plan.box_constraint == pytest.approx(1 / (30 * 0.0123456))
        for name in ("n_batches", "batch_size", "n_components", "projection", "rounding"):
            assert getattr(plan, name) == getattr(sizes, name)
        assert plan.by_hand == tuple(sizes.given())
        assert plan.n_samples == 210


@modes
@pytest.mark.parametrize(
    "given_size",
    [
        {"n_batches": 10**8},
        {"batch_size": 10**4},
        {"n_components": 24},
        {"grid_width": 0.123456},
        {"projection": "rotation"},
        {"rounding": "ak"},
        {"regularization": 0.25},
        {"unit_mean": True},
        {"basis": Basis.from_directions(np.eye(100)[:3])},
    ],
    ids=lambda given_size: next(iter(given_size)),
)
def test_a_size_by_hand_is_used_or_refused_but_not_ignored(mode, given_size):
    ((name, value),) = given_size.items()
    sizes = Sizes(**given_size)
    if mode == "certified" and name not in ("n_batches", "batch_size", "projection", "rounding"):
        with pytest.raises(ReplearnError, match=name):
            plan_svm(promise(), 100, mode, sizes)
        return
    if mode == "paper" and name in ("unit_mean", "basis"):  # not in the paper
        with pytest.raises(ReplearnError, match=name):
            plan_svm(promise(), 100, mode, sizes)
        return
    plan = plan_svm(promise(), 100, mode, sizes)
    assert plan.by_hand == (name,)
    used = getattr(plan, {"basis": "basis_map"}.get(name, name))
    assert used == (repr(value) if isinstance(value, float) else value)


@modes
def test_full_maps_keep_all_inputs(mode):
    for projection in ("none", "rotation"):
        if mode == "certified" and projection == "none":
            continue
        assert plan_svm(promise(), 17, mode, Sizes(projection=projection)).n_components == 17


def test_hadamard_has_no_more_rows_than_inputs():
    sizes = Sizes(projection="hadamard", n_components=100)
    for mode in ("practical", "paper"):
        with pytest.raises(ReplearnError, match="at most 17 for projection 'hadamard', got 100"):
            plan_svm(promise(), 17, mode, sizes)
    with pytest.raises(ReplearnError, match="must be 17 for projection 'none', got 24"):
        plan_svm(promise(), 17, sizes=Sizes(projection="none", n_components=24))


@modes
def test_a_plan_prints_its_promise_and_sizes(mode):
    plan = plan_svm(promise(0.25), 10, mode)
    text = str(plan)
    assert f"svm, {mode} mode" in text
    bound = "about" if mode == "practical" else "<="  # practical mode has a target
    assert f"margin 0.25, error {bound} 0.1, disagreement <= 0.1, failure <= 0.05" in text
    assert f"{plan.n_samples:,} = {plan.n_batches:,} batches of {plan.batch_size:,}" in text
    assert f"width {plan.grid_width}" in text
    assert "by hand" not in text
    by_hand = plan_svm(promise(0.25), 10, mode, Sizes(n_batches=10**9))
    assert "set by hand      n_batches" in str(by_hand)
    spent = plan.with_spent(Spent(1234, 5, 6, 7, 8, 9, 0.0, 10))
    for words in (
        *("1,234 rows", "6 left over", "7 zero rows", "5 batches"),
        *("8 not converged", "9 without margin"),
    ):
        assert words in str(spent)


# ---------------------------------------------------------------- refusals: rule, value, remedy


@pytest.mark.parametrize("name", ["margin", "max_error", "max_disagreement", "failure_prob"])
@pytest.mark.parametrize("value", [0, 1, 5, -0.1, 0.0, 1.0, math.nan, math.inf, "0.1", None, True])
def test_guarantee_refuses_what_is_no_probability(name, value):
    numbers = {
        "margin": 0.1,
        "max_error": 0.1,
        "max_disagreement": 0.1,
        "failure_prob": 0.1,
        name: value,
    }
    with pytest.raises(ReplearnError) as refusal:
        Guarantee(**numbers)
    message = str(refusal.value)
    assert message.startswith(f"{name} must be a number in (0, 1), got {value!r}. ")
    assert re.search(r"pass 0\.05|are common", message)


def test_guarantee_takes_numpy_numbers():
    assert promise(np.float64(0.5)) == promise(0.5)


@pytest.mark.parametrize(
    ("arguments", "rule", "value", "remedy"),
    [
        ({"mode": "exact"}, "mode must be one of practical, certified, paper", "'exact'", ""),
        (
            {"mode": "certified", "constants": {"C1": 2.0}},
            'constants belong to mode="paper"',
            "'certified'",
            "Leave constants out",
        ),
        (
            {"mode": "practical", "constants": {"C1": 2.0}},
            'constants belong to mode="paper"',
            "'practical'",
            "choose paper mode",
        ),
        (
            {"mode": "paper", "constants": {"C5": 2.0}},
            "unknown key",
            "'C5'",
            "Algorithm 1 has C1 (components), C2 (batches), C3 (batch size)",
        ),
        *(
            (
                {"mode": "paper", "constants": {"C2": bad}},
                "constants['C2'] must be a positive number",
                repr(bad),
                "The default is 1",
            )
            for bad in (0, -1.0, math.inf, math.nan, "2", None)
        ),
        *(
            (
                {"mode": "certified", "sizes": Sizes(**{name: 0.5})},
                f"certified mode derives {name}",
                "",
                'Leave it "auto", or use mode="practical"',
            )
            for name in ("n_components", "grid_width", "regularization")
        ),
        *(
            (
                {"mode": "certified", "sizes": Sizes(rounding=name, hint_bits=2)},
                'proves its error bound for the roundings "centre" and "ak"',
                repr(name),
                'use mode="practical"',
            )
            for name in ("e8", "leech", "d4")
        ),
        *(
            (
                {"mode": "certified", "sizes": Sizes(projection=name)},
                'needs a rotation-invariant projection, "gaussian" or "rotation"',
                repr(name),
                'use mode="practical"',
            )
            for name in ("signs", "hadamard", "none")
        ),
        *(
            (
                {"mode": "certified", "sizes": Sizes(**{name: 3})},
                f"certified mode needs {name} of at least",
                "got 3.",
                "relax the promise",
            )
            for name in ("n_batches", "batch_size")
        ),
    ],
)
def test_plan_refuses_with_rule_value_and_remedy(arguments, rule, value, remedy):
    with pytest.raises(ReplearnError) as refusal:
        plan_svm(promise(), 10, **arguments)
    message = str(refusal.value)
    assert rule in message
    assert value in message
    assert remedy in message


def test_certified_takes_more_than_it_needs():
    least = plan_svm(promise(), 10, "certified")
    sizes = Sizes(n_batches=least.n_batches, batch_size=2 * least.batch_size)
    plan = plan_svm(promise(), 10, "certified", sizes)
    assert plan.batch_size == 2 * least.batch_size
    assert plan.box_constraint == pytest.approx(least.box_constraint, rel=1e-12)


@pytest.mark.parametrize("mode", ["certified", "paper"])
def test_too_few_rows_are_refused_with_numbers_and_remedies(mode):
    plan = plan_svm(promise(), 10, mode)
    plan.require_samples(plan.n_samples)
    with pytest.raises(NotEnoughSamples) as refusal:
        plan.require_samples(plan.n_samples - 1)
    message = str(refusal.value)
    assert f"{mode} mode needs {plan.n_samples:,} rows" in message
    assert f"got {plan.n_samples - 1:,}" in message
    assert 'use mode="practical"' in message
    assert ("by hand" in message) == (mode == "paper")
    assert (refusal.value.available, refusal.value.needed) == (plan.n_samples - 1, plan.n_samples)
    copy = pickle.loads(pickle.dumps(refusal.value))
    assert (str(copy), copy.available, copy.needed) == (message, plan.n_samples - 1, plan.n_samples)


def test_practical_mode_fits_any_number_of_rows():
    plan_svm(promise(), 10, "practical").require_samples(1)


@pytest.mark.parametrize("make", [plan_svm, plan_sgd], ids=["svm", "sgd"])
def test_the_rounding_best_is_chosen_by_the_number_of_components(make):
    best = Sizes(rounding="best")
    for n_inputs, rounding in ((2, "a2"), (5, "d5s"), (10, "d10p"), (11, "k12"), (13, "leech")):
        chosen = make(promise(), n_inputs, "practical", best)
        assert chosen.rounding == rounding
        assert chosen.n_samples <= make(promise(), n_inputs, "practical").n_samples
    with pytest.raises(ReplearnError, match='rounding="best"'):
        make(promise(), 5, "paper", best)
    with pytest.raises(ReplearnError, match="certified mode proves"):
        make(promise(), 5, "certified", best)
