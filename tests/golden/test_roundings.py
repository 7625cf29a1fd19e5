"""Codes and points of the lattice roundings, to the bit: part of the model file's format."""

import hashlib

import numpy as np
import pytest

from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import round_codes, unround

# 29 coordinates without a pattern, exact in binary
POINT = np.arange(1, 30) * 40503 % 4096 / 1024.0 - 2.0

DIGESTS = {
    "a2": "df6c30c2d11c4c69",
    "d3s": "73e4c8cf97ce11be",
    "d4": "08dbc16beffef960",
    "d5s": "596cc4a81756d31e",
    "e6s": "0b1904a7b81c5040",
    "e7s": "2aa10767b9f24484",
    "d10p": "da617807db177874",
    "k12": "d0caadec81bb8001",
    "e8+centre": "6ab281efb3b8d008",
    "leech+d5s": "7a9db6b7a2e309f2",
    "d10p+d4+centre": "aeeeef51b866f3db",
}


def digest(rounding: str) -> str:
    shared = SharedRandomness("golden roundings")
    codes = round_codes(POINT, 0.25, rounding, shared)
    point = unround(codes, POINT.size, 0.25, rounding, shared)
    return hashlib.sha256(codes.astype("<i8").tobytes() + point.astype("<f8").tobytes()).hexdigest()


@pytest.mark.parametrize("rounding", list(DIGESTS))
def test_codes_and_points_never_change(rounding: str) -> None:
    assert digest(rounding)[:16] == DIGESTS[rounding]
