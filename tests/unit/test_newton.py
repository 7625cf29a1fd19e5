"""The fit with many coefficients, beside the one with a whole information matrix."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from replearn.errors import ReplearnError
from replearn.glm import Bernoulli, Loss, Multinomial, Poisson, Summary, derivatives, fit, newton
from replearn.glm.losses import Gaussian
from replearn.rows import RESIDUAL_BITS, Block, MemoryBlocks
from replearn.study import State

LOSSES = {
    "two classes": Bernoulli(),
    "four classes": Multinomial(4),
    "numbers": Gaussian("0", "1"),
    "counts": Poisson(8),
}


def lab(loss: Loss, n_rows: int = 1500, weighted: bool = False) -> MemoryBlocks:
    """Sparse rows with more coefficients than get a whole matrix; some columns are correlated."""
    rng = np.random.default_rng(5)
    n_terms = derivatives.MOST_STEERED // loss.n_scores + 3
    terms = rng.integers(0, 9000, (n_rows, n_terms)) * (rng.random((n_rows, n_terms)) < 0.1)
    terms[:, 1] = terms[:, 0] // 2 + terms[:, 2] // 2
    score = (terms[:, 0] - 2 * terms[:, 3]) / 4096 - 0.5
    if loss.kind == "bernoulli":
        y = (rng.logistic(size=n_rows) < score).astype(float)
    elif loss.kind == "multinomial":
        y = np.column_stack([score, -score, 0 * score, 0.5 * score]) + rng.gumbel(size=(n_rows, 4))
        y = y.argmax(axis=1).astype(float)
    elif loss.kind == "gaussian":
        y = np.floor((score + rng.normal(size=n_rows)) * 4096) / 4096
    else:
        y = rng.poisson(np.exp(0.5 * score)).astype(float)
    weights = np.floor(rng.random(n_rows) * 65536) / 65536 if weighted else None
    return MemoryBlocks(Block(sparse.csr_matrix(terms.astype(np.int16)), y, weights))


def through_a_file(content) -> newton.NewtonState:
    """A state, read as a lab would."""
    found = State.from_content(State("0" * 64, scale=0).content() | {"newton": content})
    assert found.newton is not None
    return found.newton


@pytest.mark.parametrize("weighted", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_fits_end_where_they_say_from_their_limit(monkeypatch, loss, weighted):
    """With a whole information matrix and with a diagonal; steps shrink only about evenly."""
    rows = lab(loss, weighted=weighted)
    summary = Summary.of(rows, loss)
    near = 2**20 / np.sqrt(summary.n_rows)
    for steered in (500, 10**6):
        monkeypatch.setattr(derivatives, "MOST_STEERED", steered)
        found = fit(rows, loss, "0.1", summary)
        limit = fit(rows, loss, "0.1", summary, tolerance_units=0)
        assert np.abs(found - limit).max() < 2 * near


def test_where_rules_of_a_first_pass_end():
    """A step is the last one if eight of it are near; a share of the rows is off by an eighth."""
    loss, rows = LOSSES["two classes"], lab(LOSSES["two classes"], n_rows=64)
    state = newton.NewtonState(np.zeros((1, rows.n_terms + 1)), 1 << 30)
    sums = state.sums(rows.blocks(), loss)
    weight = sums.count("weight")

    def advanced(sampled: int, near: int) -> newton.NewtonState | np.ndarray:
        values = {**sums.values, "sampled": sums.values["sampled"] * 0 + sampled}
        return newton.advance(state, replace(sums, values=values), loss, 0.01, near)

    right = weight // 4
    largest = int(np.abs(advanced(right, 1 << 40)).max())
    assert isinstance(advanced(right, 8 * largest), np.ndarray)
    assert isinstance(advanced(right, 8 * largest - 1), newton.NewtonState)
    for sign in (-1, 1):
        off = right + sign * right // 8
        assert advanced(off, 0).behind is not None
        found = advanced(off + sign, 0)
        assert (found.behind, found.sample_threshold) == (None, 1 << 32)


def test_no_order_no_chunk_and_no_zero_changes_a_bit():
    loss = LOSSES["four classes"]
    rows = lab(loss, weighted=True)
    summary, block = Summary.of(rows, loss), rows.block
    expected = fit(rows, loss, "0.01", summary)
    order = np.random.default_rng(0).permutation(block.n_rows)
    dense = Block(block.terms.toarray()[order], block.targets[order], block.weights[order])
    assert (fit(MemoryBlocks(dense), loss, "0.01", summary) == expected).all()
    state: newton.NewtonState | np.ndarray = newton.start(loss, summary, rows.n_terms + 1)
    while isinstance(
        state, newton.NewtonState
    ):  # each state goes through a file, rows come in parts
        state = through_a_file(state.content())
        parts = [block.part(slice(0, 400)), block.part(slice(400, None))]
        state = newton.advance(state, state.sums(parts, loss), loss, 0.01)
    assert (state == expected).all()


@pytest.mark.slow
def test_correlated_columns_need_more_steps_and_get_there():
    rng = np.random.default_rng(1)
    base = rng.normal(size=(3000, 20))
    terms = np.clip(base @ rng.normal(size=(20, 520)) * 1000, -16384, 16384).astype(np.int16)
    rows = MemoryBlocks(Block(terms, (rng.logistic(size=3000) < base[:, 0]).astype(float)))
    loss = Bernoulli()
    summary = Summary.of(rows, loss)
    passes, theta = [], newton.start(loss, summary, 521)
    while isinstance(theta, newton.NewtonState):
        passes.append(theta.sample_threshold)
        sums = theta.sums(rows.blocks(), loss)
        theta = newton.advance(theta, sums, loss, 0.001)
    sums = derivatives.sums_at(rows.blocks(), loss, theta)
    assert np.abs(derivatives.mean_gradient(sums, theta, loss, 0.001)).max() < 2.0**-15
    assert passes[0] == 1 << 32  # the information is made once
    assert not any(passes[1:])


def test_states_that_do_not_fit_together_are_refused():
    loss = LOSSES["two classes"]
    rows = lab(loss)
    summary = Summary.of(rows, loss)
    state = newton.start(loss, summary, rows.n_terms + 1)
    for _ in range(3):
        state = newton.advance(state, state.sums(rows.blocks(), loss), loss, 0.01)
    content = state.content()
    content["behind"]["past"][0]["gradient"] = [["1", "2"]]
    with pytest.raises(ReplearnError, match="shape of theta"):
        through_a_file(content)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_curvatures_and_residuals_are_within_what_a_coalition_believes(loss):
    scores = np.linspace(-40, 40, 801)[:, None] * np.arange(1, loss.n_scores + 1)
    scores = np.minimum(scores, loss.largest if np.isfinite(loss.largest) else 48.0)
    first, second = np.triu_indices(loss.n_scores)
    own = loss.curvature(scores)[:, first == second]
    low, high = loss.curvatures
    assert own.min() == pytest.approx(low, abs=1e-9)
    assert 0.8 * high < own.max() <= high
    residuals = loss.residual(scores, np.zeros(len(scores)))
    assert np.abs(residuals).max() <= 2.0 ** (RESIDUAL_BITS - loss.bits)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_residuals_are_the_slopes_of_the_loss(loss):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(60, loss.n_scores))
    targets = rng.integers(0, loss.n_scores + 1, 60).astype(float)
    residuals = loss.residual(scores, targets)
    for k, step in enumerate(1e-3 * np.eye(loss.n_scores)):
        rise = loss.value(scores + step, targets) - loss.value(scores - step, targets)
        assert rise / 2e-3 == pytest.approx(residuals[:, k], abs=1e-5)


def test_counts_end_where_their_sums_would_not_be_exact():
    assert Poisson.of(np.array([0.0, 16383.0])).cap_bits == 16
    with pytest.raises(ReplearnError, match="counts must be at most 16,384, got larger"):
        Poisson.of(np.array([16384.0]))


@pytest.mark.parametrize(
    ("share", "whole"), [(0, True), (1 << 31, True), (1 << 32, True), (1 << 32, False)]
)
@pytest.mark.parametrize("loss", [Bernoulli(), Multinomial(4)])
def test_rows_that_are_ready_give_the_same_sums(monkeypatch, loss, share, whole):
    rows, rng = lab(loss, weighted=True), np.random.default_rng(0)
    n_columns = rows.n_terms + 1 if not whole else 8
    block = replace(rows.block, terms=rows.block.terms[:, : n_columns - 1])
    theta = np.round(rng.normal(size=(loss.n_scores, n_columns)) * 2**22)
    expected = derivatives.sums_at([block], loss, theta, share, whole)
    monkeypatch.setattr(derivatives, "_MOST_ADDED", 700)
    ready = derivatives.ready(block)
    assert [part.terms.dtype for part in ready] == [np.float64] * 3
    found = derivatives.sums_at(ready, loss, theta, share, whole)
    for name, values in expected.values.items():
        assert (found.values[name] == values).all(), name


@pytest.mark.parametrize("n_terms", [1, 2])
def test_few_columns_of_many_classes(n_terms):
    """First rows and diagonals of two or three columns have as many numbers as triangles."""
    rng = np.random.default_rng(0)
    loss = Multinomial(504 // (n_terms + 1))
    terms = rng.integers(-4000, 4000, (600, n_terms)).astype(np.int16)
    rows = MemoryBlocks(Block(terms, np.arange(600.0) % (loss.n_scores + 1)))
    theta = fit(rows, loss, "0.1", Summary.of(rows, loss))
    sums = derivatives.sums_at(rows.blocks(), loss, theta)
    assert np.abs(derivatives.mean_gradient(sums, theta, loss, 0.1)).max() < 2.0**-15


class ReadAnew:
    """Rows that are not in memory: each pass reads them."""

    work = map

    def __init__(self, rows):
        self.rows, self.n_terms = rows, rows.n_terms

    def blocks(self):
        return self.rows.blocks()


def test_information_is_made_only_where_a_step_ends(monkeypatch):
    """In memory the gradient comes first: of steps that are halved nobody reads the information."""
    rng, loss = np.random.default_rng(1), Multinomial(20)
    labels = np.arange(600.0) % 20
    centres = rng.normal(size=(20, 30))
    terms = 6000 * (centres[labels.astype(int)] + rng.normal(size=(600, 30)))
    terms = np.clip(terms, -16000, 16000).astype(np.int16)
    rows = MemoryBlocks(Block(terms, labels))
    calls = Counter()

    def counted(name, call):
        def counting(*arguments):
            calls[name] += 1
            return call(*arguments)

        return counting

    for name in ("information_at", "preconditioner_of", "_halved"):
        monkeypatch.setattr(newton, name, counted(name, getattr(newton, name)))

    summary = Summary.of(rows, loss)
    found = fit(rows, loss, "0.0001", summary)
    assert calls["_halved"] > 0
    assert calls["information_at"] == calls["preconditioner_of"] - 1  # the first pass has both
    assert (fit(ReadAnew(rows), loss, "0.0001", summary) == found).all()
