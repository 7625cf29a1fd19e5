"""Recorded bits of nets, boxes and foam: a change here is a change of every model."""

import numpy as np

from replearn.codes import Coins, candidates, round_mean

POINT = np.array([0.3, -1.7, 12.25, 0.0, 5.5])


def test_candidates():
    found = candidates(np.array([0, 63, 64, 10**9]), 3, Coins("golden"))
    assert [[value.hex() for value in row] for row in found.tolist()] == [
        ["0x1.2f8df3a25764ep-3", "0x1.951c7ffcee38ep+0", "-0x1.d32dbc7b97b2cp+0"],
        ["-0x1.5c48827581afbp-1", "0x1.1f4dc8b03c8c2p-1", "-0x1.95dd97f481d6cp-2"],
        ["0x1.2b1e072464b05p-3", "-0x1.3293149d12817p-1", "0x1.9a72fd320c735p+0"],
        ["0x1.8a52f350807d4p+0", "0x1.45ad1f1648892p+1", "-0x1.75e54e215cedcp-2"],
    ]


def test_boxes_and_foam():
    coins = Coins("golden")
    assert round_mean("box", POINT, 0, coins).tolist() == [-1, -3, 11, -1, 5]
    assert round_mean("box", POINT, 3, coins).tolist() == [0, -3, 12, -1, 5]
    assert round_mean("foam", POINT, 0, coins).tolist() == [74, 0, -3, 11, -1, 4]
    assert round_mean("foam", POINT, 3, coins).tolist() == [14, -1, -3, 12, -1, 4]
    assert round_mean("foam", POINT[:1], 1, coins).tolist() == [0, -1]
