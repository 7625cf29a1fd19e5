"""Recorded bits of streams, maps, cells and fits: a change here is a change of every model."""

import hashlib

import numpy as np
import pytest

from replearn.codes import CodeSpace, Coins, seed_text
from replearn.codes.coins import MAX_TEXT
from replearn.codes.projection import lift, project
from replearn.errors import ReplearnError
from tests.reference import philox4x64

COINS = Coins("golden")


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def test_words_are_philox():
    key = [int(word) for word in COINS.key("a/stream")]
    words = COINS.words("a/stream", 10, row=3).tolist()
    expected = [word for block in range(3) for word in philox4x64([block + 1, 3, 0, 0], key)]
    assert words == expected[:10]


def test_words_of_rows_are_those_of_each_row():
    coins, rows = Coins("rows"), range(3, 9)
    found = coins.words_of_rows("example", 7, rows)
    expected = np.concatenate([coins.words("example", 7, row=row) for row in rows])
    np.testing.assert_array_equal(found, expected)


def test_signs_and_seeds_at_their_ends():
    signs = COINS.signs("a/stream", 400).tolist()
    assert all(COINS.signs("a/stream", n).tolist() == signs[:n] for n in range(300, 400))
    assert len(seed_text("x" * MAX_TEXT)) == MAX_TEXT
    with pytest.raises(ReplearnError, match="at most"):
        seed_text("x" * (MAX_TEXT + 1))


STREAMS = {
    "words": "fdb0a21dcf88155d",
    "uniforms": "c79fe31bab433e55",
    "signs": "37dc6575dba843b3",
    "normals": "74674eb9e3c8ff41",
    "exponentials": "e1b0cedcd5d64ea6",
}


@pytest.mark.parametrize("name", STREAMS)
def test_draws(name):
    draw = getattr(COINS, name)
    assert digest(draw("a/stream", 1000, row=2)) == STREAMS[name]
    assert (draw("a/stream", 9) == draw("a/stream", 9, row=0)).all()


def test_orders():
    assert COINS.sample("a/stream", 50, 5).tolist() == [44, 43, 34, 22, 26]
    assert digest(COINS.sample("a/stream", 300, 300)) == "6179d11c652f3e0b"
    assert digest(COINS.row_order("a/stream", 300)) == "a04164338f25b437"


POINT = np.cumsum(np.arange(48) % 7 - 3.0) / 16

MAPS = {
    "gaussian": ("62b0e2eb284ba2c8", "9afdbb35cee5bd51"),
    "hadamard": ("908d48bbddc79b28", "3a74f513b9154f6a"),
    "rotation": ("94b2b44e40390b9c", "b1c6bd5386a6e316"),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps(name):
    k = 48 if name == "rotation" else 24
    components = project(name, POINT[None], k, COINS)[0]
    assert (digest(components), digest(lift(name, components, 48, COINS))) == MAPS[name]


CODES = {
    ("ak", 0): "2da390a0c0e35326",
    ("centre", 0): "7c73c45990624c56",
    ("centre", 3): "a48d5f4098e264fb",
    ("e8", 0): "a801834079c283f0",
    ("leech", 0): "1d191f6c9c56a050",
}


@pytest.mark.parametrize(("rounding", "bits"), CODES)
def test_codes(rounding, bits):
    space = CodeSpace("rounded", 48, "none", 48, rounding, "0.21", bits)
    codes = space.encode(POINT, COINS)
    assert digest(codes) == CODES[rounding, bits]


FITS = {
    "ReplicableSVMClassifier": "eefc8a21cd49fe78",
    "ReplicableSGDClassifier": "907d12eb66bd9e02",
}


@pytest.mark.filterwarnings("ignore::replearn.errors.ReplicabilityWarning")
@pytest.mark.filterwarnings("ignore::replearn.errors.UselessModelWarning")  # no margin is 0.2
@pytest.mark.parametrize("name", FITS)
def test_fits(name):
    import replearn as rl

    grid = (np.arange(1200 * 5) * 7919 % 1009 / 504.5 - 1).reshape(1200, 5)  # no library's draws
    y = grid[:, 0] + grid[:, 1] > 0.1
    fitted = getattr(rl, name)(margin=0.2, shared_seed="golden").fit(grid, y)
    assert fitted.fingerprint_[:16] == FITS[name]
