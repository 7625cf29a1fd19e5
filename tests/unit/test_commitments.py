"""Commit, then reveal; and seeds that nobody could choose."""

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

import replearn as rl
from replearn.codes.encoding import Encoding, NumberColumn
from replearn.study.commitments import (
    Commitment,
    Opening,
    commit,
    load_commitment,
    reveal,
    save_commitment,
)

SAME, OTHER = "ab" * 32, "cd" * 32


STUDY, ANOTHER = "01" * 32, "02" * 32


def sites(*fingerprints, protocol=STUDY):
    pairs = [commit(print_, f"site {i}", protocol) for i, print_ in enumerate(fingerprints)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def test_equal_fingerprints_are_the_same_model():
    result = reveal(*sites(SAME, SAME, SAME))
    assert result.same
    assert "same model at all 3 sites" in str(result)


def test_one_other_fingerprint_is_not():
    result = reveal(*sites(SAME, SAME, OTHER))
    assert not result.same
    assert "2 models at 3 sites" in str(result)


def test_equal_fingerprints_have_different_commitments():
    (first, second), _ = sites(SAME, SAME)
    assert first.digest != second.digest
    assert SAME not in first.digest


def test_a_golden_digest():
    """Other programs must be able to check a commitment: this is its definition."""
    import hashlib
    import hmac

    for protocol, text in ((STUDY, f'"{STUDY}"'), (None, "null")):
        opening = Opening("oslo", protocol, SAME, "01" * 32)
        message = f'["replearn-commitment",2,"oslo",{text},"{SAME}"]'.encode()
        expected = hmac.new(bytes.fromhex("01" * 32), message, hashlib.sha256).hexdigest()
        assert opening.commitment() == Commitment("oslo", protocol, expected)


def test_a_commitment_belongs_to_its_study():
    """Nobody can use it under another protocol, and sites of two studies are not compared."""
    commitments, openings = sites(SAME, SAME)
    cheat = replace(openings[1], protocol=ANOTHER)
    with pytest.raises(rl.ReplearnError, match="'site 1' is not what it committed to"):
        reveal([commitments[0], replace(commitments[1], protocol=ANOTHER)], [openings[0], cheat])
    other = commit(SAME, "site 1", ANOTHER)
    with pytest.raises(rl.ReplearnError, match="all sites must commit under one protocol"):
        reveal([commitments[0], other[0]], [openings[0], other[1]])
    assert reveal(commitments, openings).protocol == STUDY
    assert reveal(*sites(SAME, SAME, protocol=None)).protocol is None
    with pytest.raises(rl.ReplearnError, match="protocol must be 64 hexadecimal digits"):
        commit(SAME, "oslo", "abc")


def test_another_fingerprint_after_the_fact_is_refused():
    commitments, openings = sites(SAME, SAME)
    cheat = replace(openings[1], fingerprint=OTHER)
    with pytest.raises(rl.ReplearnError, match="'site 1' is not what it committed to"):
        reveal(commitments, [openings[0], cheat])


def test_a_copied_commitment_is_refused():
    commitments, openings = sites(SAME)
    copy = replace(commitments[0], site="copycat")
    copied = replace(openings[0], site="copycat")
    with pytest.raises(rl.ReplearnError, match="'copycat' is not what it committed to"):
        reveal([*commitments, copy], [*openings, copied])


def test_missing_and_double_sites_are_refused():
    commitments, openings = sites(SAME, SAME)
    with pytest.raises(rl.ReplearnError, match="only one of them from 'site 1'"):
        reveal(commitments, openings[:1])
    with pytest.raises(rl.ReplearnError, match="got two from 'site 0'"):
        reveal([commitments[0]] * 2, openings)
    with pytest.raises(rl.ReplearnError, match="two sites"):
        reveal(commitments[:1], openings[:1])


@pytest.mark.parametrize("bad", ["", "xyz", "AB" * 32, SAME + "0"])
def test_bad_fingerprints_are_refused(bad):
    with pytest.raises(rl.ReplearnError, match="64 hexadecimal digits"):
        commit(bad, "oslo")


def test_files_keep_everything_and_openings_stay_private(tmp_path):
    for item in commit(SAME, "oslo"):
        path = tmp_path / type(item).__name__
        save_commitment(item, path)
        assert load_commitment(path) == item
    assert stat.S_IMODE((tmp_path / "Opening").stat().st_mode) == 0o600


def test_an_opening_is_never_readable_by_others(tmp_path, monkeypatch):
    """Not between its name and its rights, either, whatever the umask."""
    seen = []
    rename = Path.replace

    def watched(self, target):
        seen.append(stat.S_IMODE(self.stat().st_mode))
        rename(self, target)
        seen.append(stat.S_IMODE(Path(target).stat().st_mode))

    monkeypatch.setattr(Path, "replace", watched)
    before = os.umask(0)
    try:
        commitment, opening = commit(SAME, "oslo")
        save_commitment(opening, tmp_path / "opening")
        assert seen == [0o600, 0o600]
        save_commitment(commitment, tmp_path / "commitment")
        assert seen[2:] == [0o666, 0o666]
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "replearn-model"},
        {"version": 1},
        {"protocol": "short"},
        {"protocol": 5},
        {"digest": "short"},
        {"site": 5},
        {"extra": 1},
    ],
)
def test_hostile_files_are_refused(tmp_path, change):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(commit(SAME, "oslo")[0].content() | change))
    with pytest.raises(rl.InvalidFile, match=r"c\.json"):
        load_commitment(path)


# --- seeds ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def protocol():
    return rl.Protocol(
        algorithm="svm",
        parameters={
            "batch_size": 100,
            "failure_prob": "0.05",
            "fit_intercept": True,
            "grid_width": "0.2",
            "margin": "0.3",
            "max_disagreement": "0.1",
            "max_error": "0.05",
            "n_components": 4,
            "projection": "none",
            "regularization": "0.1",
            "rounding": "centre",
            "unit_mean": True,
        },
        seed="7",
        classes=(-1, 1),
        encoding=Encoding(tuple(NumberColumn(name, "0", "1") for name in "abc")),
        basis=None,
        notes={},
    )


def test_a_derived_seed_follows_from_protocol_and_public_value(protocol):
    derived = protocol.with_public_value("lottery of 6 May: 3 17 22")
    assert derived.seed == protocol.with_public_value("lottery of 6 May: 3 17 22").seed
    assert derived.seed != protocol.with_public_value("another value").seed
    assert derived.with_public_value("another value").seed == (
        protocol.with_public_value("another value").seed
    )
    assert derived.estimator().shared_seed == derived.seed
    assert "lottery" in derived.seed_policy
    assert "explicit" in protocol.seed_policy


def test_the_rest_of_the_protocol_counts(protocol):
    other = replace(protocol, parameters=protocol.parameters | {"grid_width": "0.5"})
    assert other.with_public_value("x").seed != protocol.with_public_value("x").seed


def test_a_seed_that_does_not_follow_is_refused(protocol, tmp_path):
    path = tmp_path / "study.json"
    protocol.with_public_value("x").save(path)
    assert rl.Protocol.load(path).seed == protocol.with_public_value("x").seed
    path.write_text(path.read_text().replace('"public_value":"x"', '"public_value":"y"'))
    with pytest.raises(rl.InvalidFile, match="the seed does not follow"):
        rl.Protocol.load(path)


def test_a_locked_protocol_refuses_changes(protocol, tmp_path):
    path = tmp_path / "study.json"
    protocol.save(path)
    assert rl.Protocol.load(path, expect=protocol.fingerprint).seed == protocol.seed
    with pytest.raises(rl.InvalidFile, match="has been changed"):
        rl.Protocol.load(path, expect="0" * 64)


def test_other_columns_or_labels_are_refused_before_the_fit(protocol):
    X, y = rl.datasets.make_margin(50, 3, margin=0.3, random_state=1)
    protocol.check(X, y)
    with pytest.raises(rl.ReplearnError, match="columns"):
        protocol.check(X[:, :2], y)
    with pytest.raises(rl.ReplearnError, match="labels of the protocol, -1 and 1, got 0"):
        protocol.check(X, (y > 0) * 5)


@pytest.mark.parametrize("value", ["", 5, "x" * 5000])
def test_bad_public_values_are_refused(protocol, value):
    with pytest.raises(rl.ReplearnError, match="public value must be text"):
        protocol.with_public_value(value)
