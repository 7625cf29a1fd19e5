"""Spaces of nets and votes: files of them, what they refuse, and what a byte may cost."""

import time
from dataclasses import replace

import numpy as np
import pytest

from replearn.codes import (
    MAX_ROUNDS,
    Coins,
    HalfspaceDesign,
    HalfspaceModel,
    NetSpace,
    VoteSpace,
    candidates,
    hypothesis,
    round_mean,
)
from replearn.codes.votes import centre, vote
from replearn.errors import InvalidFile

NET = NetSpace("net", 5, "none", 5, 1000)
PROJECTED = NetSpace("net", 40, "hadamard", 6, 1000)
BOX = VoteSpace("vote", 4, "box", "0.1")
FOAM = VoteSpace("vote", 3, "foam", "0.25")

CODES = {
    NET: [123],
    PROJECTED: [999],
    BOX: [1, -2, 3, 4, 0, 0, 1, 7],
    FOAM: [5, 0, 1, -1, 77, 2, 2, 2],
}


def model(space, codes):
    return HalfspaceModel(HalfspaceDesign("test", "y", (0, 1), False, space, "7"), np.array(codes))


@pytest.mark.parametrize("space", CODES, ids=lambda space: f"{space.kind} {space.n_inputs}")
def test_a_model_survives_its_file(space, tmp_path):
    made = model(space, CODES[space])
    made.save(tmp_path / "m.json")
    read = HalfspaceModel.load(tmp_path / "m.json")
    assert read == made
    assert read.fingerprint == made.fingerprint
    np.testing.assert_array_equal(read.direction, made.direction)
    assert np.linalg.norm(made.direction) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("space", "codes", "words"),
    [
        (NET, [1000], "codes must be one number below 1,000"),
        (NET, [-1], "codes must be one number below 1,000"),
        (NET, [1, 2], "codes must be one number below 1,000"),
        (replace(NET, projection="moon"), [1], "projection must be one of"),
        (replace(NET, n_components=4), [1], "n_components must be 5"),
        (replace(PROJECTED, n_components=41), [1], "n_components must be at most 40"),
        (NetSpace("net", 1 << 20, "gaussian", 100, 10), [1], "decoding must draw at most"),
        (BOX, [1, 2, 3], "codes must be 4 numbers for each of 1 to"),
        (BOX, [], "codes must be 4 numbers for each of 1 to"),
        (replace(BOX, n_inputs=1), [0] * (MAX_ROUNDS + 1), "codes must be 1 numbers"),
        (FOAM, [-1, 0, 0, 0], "proposals must be below"),
        (FOAM, [1 << 50, 0, 0, 0], "proposals must be below"),
        (replace(FOAM, n_inputs=25), [0] * 26, "foam has at most 24 inputs"),
    ],
)
def test_a_file_refuses_what_is_no_model(space, codes, words, tmp_path):
    content = model(NET, [1]).content() | {"codes": codes}
    content["design"] |= {"space": space.content(), "columns": ["a"] * space.n_inputs}
    with pytest.raises(InvalidFile, match=words):
        HalfspaceModel.from_content(content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "codes"),
    [
        (VoteSpace("vote", 1, "box", "0.1"), range(MAX_ROUNDS)),
        (VoteSpace("vote", 1, "foam", "0.1"), [(1 << 44) - 1] * (2 * MAX_ROUNDS)),
        (NetSpace("net", 1 << 12, "gaussian", 1 << 12, 1 << 32), [(1 << 32) - 1]),
    ],
    ids=["box", "foam", "net"],
)
def test_the_dearest_file_is_decoded_in_seconds(space, codes):
    dearest = model(space, list(codes))
    dearest.check()
    start = time.perf_counter()
    assert dearest.direction.size == space.n_inputs
    assert time.perf_counter() - start < 20  # 1 on an idle core


def test_candidates_do_not_depend_on_which_others_are_drawn():
    coins = Coins(3)
    every = candidates(np.arange(300), 4, coins)
    some = np.array([299, 7, 64, 63, 7])
    np.testing.assert_array_equal(candidates(some, 4, coins), every[some])
    assert len({row.tobytes() for row in every}) == 300


@pytest.mark.parametrize("rounding", ["box", "foam"])
def test_rounds_are_read_back(rounding):
    rng, coins = np.random.default_rng(0), Coins(1)
    every, total = [], np.zeros(3)
    for t in range(5):
        point = rng.normal(size=3)
        codes = round_mean(rounding, point, t, coins)
        assert (abs(centre(rounding, codes, t, coins) - point) <= 0.5).all()
        total += hypothesis(rounding, codes, t, coins)
        every.append(codes)
    np.testing.assert_array_equal(vote(rounding, np.concatenate(every), 3, coins), total)
