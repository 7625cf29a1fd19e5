"""A protocol is registered without a seed; a later public draw decides it."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

import replearn as rl
from replearn.codes.canonical import canonical_json
from replearn.files.jsonfile import Unfit
from replearn.study.registration import check_seed, derived_seed, new_registration

TODAY = datetime.now(UTC).date()
LATER = TODAY + timedelta(days=9)
PROTOCOL = rl.Protocol(
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
    encoding=None,
    basis=None,
    notes={"pilot_rows": 1000},
)
DRAFT = PROTOCOL.register("lottery, six numbers", LATER)


def completed() -> rl.Protocol:
    """As if the day of the draw had come."""
    notes = {
        "draw": "lottery, six numbers",
        "drawn_on": "2026-01-02",
        "registered_on": "2026-01-01",
    }
    draft = replace(DRAFT, notes=DRAFT.notes | {"registration": notes})
    return draft.with_public_value("3 17 22")


def saved(protocol: rl.Protocol, folder: Path) -> Path:
    protocol.save(folder / "study.json")
    return folder / "study.json"


def test_a_protocol_that_changes_after_the_draw_has_another_registered_hash() -> None:
    """Without a registration a seed can be ground: some note in a thousand gives any property."""
    ground = next(
        changed
        for number in range(1000)
        if (changed := replace(PROTOCOL, notes={"n": number}).with_public_value("3 17 22")).seed[:2]
        == "00"
    )
    assert "not registered" in ground.seed_policy
    honest = completed()
    for number in range(50):
        changed = replace(honest, notes=honest.notes | {"n": number})
        assert changed.registered_hash != honest.registered_hash


def test_the_definition_of_hash_and_seed() -> None:
    """Other programs must be able to check it."""
    protocol = completed()
    content = protocol.content()
    del content["notes"]["public_value"]
    content["seed"] = ""
    first = hashlib.sha256(canonical_json(content)).digest()
    assert protocol.registered_hash == first.hex()
    seed = hashlib.sha256(b"replearn/seed/2\n" + first + b"3 17 22").hexdigest()
    assert protocol.seed == seed
    assert completed().registered_hash == replace(protocol, seed="").registered_hash


def test_a_draft_cannot_be_fitted(tmp_path: Path) -> None:
    draft = rl.Protocol.load(saved(DRAFT, tmp_path))
    assert draft.registered_hash == DRAFT.registered_hash
    with pytest.raises(rl.ReplearnError, match="has no seed before its draw, got none yet"):
        draft.estimator()


def test_sites_lock_the_hash_that_was_registered(tmp_path: Path) -> None:
    protocol = completed()
    path = saved(protocol, tmp_path)
    assert protocol.registered_hash is not None
    loaded = rl.Protocol.load(path, expect=protocol.registered_hash)
    assert loaded.estimator().shared_seed == protocol.seed
    assert protocol.registered_hash in loaded.seed_policy
    assert rl.Protocol.load(path, expect=protocol.fingerprint.upper())
    with pytest.raises(rl.InvalidFile, match="has been changed"):
        rl.Protocol.load(path, expect=DRAFT.registered_hash)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": "1"}, "the seed does not follow"),
        ({"notes": {"public_value": "3 17 23"}}, "the seed does not follow"),
        ({"notes": {"public_value": ""}}, "must not be empty"),
        ({"notes": {"pilot_rows": 1001}}, "the seed does not follow"),
        ({"notes": {"public_value": None}}, "must have no seed before"),
        ({"notes": {"registration": {"draw": "x"}}}, "the keys draw, drawn_on, registered_on"),
    ],
)
def test_what_does_not_follow_is_refused(tmp_path: Path, change: dict, message: str) -> None:
    content = completed().content()
    notes = content["notes"] | change.get("notes", {})
    content = content | change | {"notes": {k: v for k, v in notes.items() if v is not None}}
    if "registration" in change.get("notes", {}):
        content["notes"].pop("public_value")
    path = tmp_path / "study.json"
    path.write_text(json.dumps(content))
    with pytest.raises(rl.InvalidFile, match=message):
        rl.Protocol.load(path)


@pytest.mark.parametrize(
    ("drawn_on", "registered_on", "message"),
    [
        ("2026-01-02", "2026-01-02", "not before the draw"),
        ("2026-01-02", "2026-02-01", "not before the draw"),
        (LATER.isoformat(), "2026-01-01", "has not come yet"),
        ("soon", "2026-01-01", "must be days such as"),
    ],
)
def test_dates_that_cannot_be_are_refused(drawn_on: str, registered_on: str, message: str) -> None:
    notes = {"draw": "lottery", "drawn_on": drawn_on, "registered_on": registered_on}
    draft = replace(DRAFT, notes={"registration": notes})
    with pytest.raises(rl.ReplearnError, match=message):
        draft.with_public_value("3 17 22")
    drawn = {
        "seed": derived_seed(draft.content(), "3 17 22"),
        "notes": draft.notes | {"public_value": "3 17 22"},
    }
    with pytest.raises(Unfit, match=message):
        check_seed(draft.content() | drawn)


def test_a_draw_is_in_the_future() -> None:
    with pytest.raises(rl.ReplearnError, match="a draw must be after the registration"):
        PROTOCOL.register("lottery", TODAY)
    with pytest.raises(rl.ReplearnError, match="written as 2027-05-06, got 'soon'"):
        PROTOCOL.register("lottery", "soon")
    with pytest.raises(rl.ReplearnError, match="the draw must be text"):
        PROTOCOL.register("", LATER)
    assert new_registration("x", "2027-05-06", today=date(2027, 5, 5)).drawn_on.day == 6


def test_what_stood_before_stays_as_it_was(tmp_path: Path) -> None:
    """Protocols without a registration, with or without a public value, keep bytes and seeds."""
    assert PROTOCOL.registered_hash is None
    old = PROTOCOL.with_public_value("x")
    assert old.seed == "efb8414a69170addad6b52637994285c2d4fd3317a274d4c273d5072a5ca5c0b"
    assert rl.Protocol.load(saved(old, tmp_path)).seed == old.seed
