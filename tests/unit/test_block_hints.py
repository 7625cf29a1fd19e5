"""Hints of Algorithms 1 and 2: distances to walls, fits, files, protocols, messages."""

import json
from dataclasses import replace

import numpy as np
import pytest

import replearn as rl
from replearn.codes.cells import padded_size
from replearn.codes.hints import redrawn
from replearn.codes.randomness import SharedRandomness
from replearn.codes.rounding import residual, round_codes
from replearn.codes.safety import wall_distance
from replearn.codes.space import CodeSpace
from replearn.codes.walls import near_facets
from replearn.datasets import make_margin
from replearn.errors import InvalidFile, ReplearnError
from replearn.stages.hints import safest_hint

CELLS = ["centre", "a2", "d3s", "d4", "e6s", "e7s", "e8", "d10p", "k12", "leech"]

pytestmark = pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")


# ---------------------------------------------------------------- distances to walls


@pytest.mark.parametrize("rounding", CELLS)
def test_the_distance_to_the_walls_is_that_to_the_nearest_of_all(rounding):
    size = padded_size(1, rounding)
    for seed in range(5):
        shared = SharedRandomness(seed)
        point = shared.normals("point", size) * 3
        place = residual(point, round_codes(point, 1.0, rounding, shared), 1.0, rounding, shared)
        slacks, _ = near_facets(rounding, place, np.inf)
        assert wall_distance(place, rounding, size) == pytest.approx(slacks.min(), abs=1e-12)
        assert slacks.min() > -1e-12


def test_several_blocks_have_the_least_distance():
    place = np.zeros(24 + 2)
    place[:2], place[24:] = 0.1, [0.2, -0.35]
    assert wall_distance(place, "leech+centre", 26) == pytest.approx(0.15)
    place[24:] = 0.0
    assert wall_distance(place, "leech+centre", 26) == pytest.approx(0.5)
    place[:2] = 0.6
    assert wall_distance(place, "leech+centre", 26) == pytest.approx(1 - 0.6 * np.sqrt(2))


def test_the_safest_hint_is_the_best_of_all():
    shared = SharedRandomness("safest")
    space = CodeSpace(9, "none", 9, "e8+centre", "0.5", hint_bits=3)
    point = shared.normals("point", 9)
    chosen = safest_hint(point, space, shared)
    distances = []
    for hint in range(8):
        coins = redrawn(shared, hint)
        codes = round_codes(point, 0.5, "e8+centre", coins)
        place = residual(point, codes, 0.5, "e8+centre", coins)
        distances.append(wall_distance(place, "e8+centre", 9))
    assert chosen == int(np.argmax(distances))
    assert safest_hint(point, replace(space, hint_bits=0), shared) == 0


def test_a_hint_has_its_own_row_of_the_offsets_and_of_nothing_else():
    shared, other = SharedRandomness(7), redrawn(SharedRandomness(7), 5)
    offsets = other.uniforms("rounding/offset", 4)
    assert offsets.tolist() == shared.uniforms("rounding/offset", 4, row=5).tolist()
    for stream in ("rounding/threshold", "projection/0"):
        assert other.uniforms(stream, 4).tolist() == shared.uniforms(stream, 4).tolist()
    assert redrawn(shared, 0) is shared


# ---------------------------------------------------------------- fits

ESTIMATORS = [rl.ReplicableSVMClassifier, rl.ReplicableSGDClassifier]


@pytest.fixture(scope="module")
def labs():
    return [make_margin(3000, 5, margin=0.3, random_state=lab) for lab in (1, 2)]


@pytest.fixture(scope="module", params=ESTIMATORS, ids=lambda kind: kind.__name__)
def pair(request, labs):
    settings = {"margin": 0.3, "shared_seed": "pair", "hint_bits": 3}
    first = request.param(**settings).fit(*labs[0])
    return first, request.param(**settings, hint=first.hint_).fit(*labs[1])


def test_the_second_lab_takes_the_hint_of_the_first(pair, labs):
    first, second = pair
    assert first.fingerprint_ == second.fingerprint_
    assert first.model_.hint == first.hint_ == second.hint_
    assert first.model_.space.hint_bits == 3
    assert second.score(*labs[0]) > 0.8
    assert first.certificate_.estimated_disagreement < 0.1
    assert "3 bits of the first lab" in str(first.plan_)


def test_a_model_with_a_hint_is_read_back(pair, tmp_path):
    model, path = pair[0].model_, tmp_path / "a.model.json"
    rl.save(model, path)
    again = rl.load(path)
    assert again == model
    assert again.weights.tolist() == model.weights.tolist()
    document = json.loads(path.read_text())
    assert document["model"]["version"] == 2
    for change, words in (
        ({"hint": 8}, "hint must be an integer from 0 to 7"),
        ({"hint_bits": 9}, "hint_bits must be an integer from 1 to 8"),
        ({"hint_bits": 0}, "hint_bits must be an integer from 1 to 8"),
    ):
        odd = json.loads(path.read_text())
        odd["model"]["space"] |= change
        (tmp_path / "odd.json").write_text(json.dumps(odd))
        with pytest.raises(InvalidFile, match=words):
            rl.load(tmp_path / "odd.json")
    del document["model"]["space"]["hint"]
    (tmp_path / "odd.json").write_text(json.dumps(document))
    with pytest.raises(InvalidFile, match="both hint and hint_bits"):
        rl.load(tmp_path / "odd.json")


def test_a_model_without_hints_has_no_trace_of_them(labs):
    plain = rl.ReplicableSVMClassifier(margin=0.3).fit(*labs[0])
    assert plain.hint_ == 0
    content = plain.model_.content()
    assert content["version"] == 1
    assert "hint" not in json.dumps(content)


def test_two_first_labs_are_noticed(pair, labs):
    first, _ = pair
    other = (first.hint_ + 1) % 8
    second = type(first)(**first.get_params() | {"hint": other}).fit(*labs[1])
    assert second.fingerprint_ != first.fingerprint_
    found = rl.compare(first.model_, second.model_)
    assert "both labs fitted as the first one" in str(found)


def test_a_stream_takes_hints_too(labs):
    settings = {"margin": 0.3, "shared_seed": "pair", "hint_bits": 2}
    X, y = labs[0]
    stream = rl.ReplicableSGDClassifier(**settings)
    for start in range(0, 3000, 1000):
        stream.partial_fit(X[start : start + 1000], y[start : start + 1000])
    whole = rl.ReplicableSGDClassifier(**settings, shuffle=False).fit(X, y)
    assert (stream.hint_, stream.fingerprint_) == (whole.hint_, whole.fingerprint_)


def test_the_margin_may_be_chosen_as_well(labs):
    settings = {"margin": "auto", "shared_seed": "pair", "hint_bits": 2}
    first = rl.ReplicableSVMClassifier(**settings).fit(*labs[0])
    second = rl.ReplicableSVMClassifier(**settings, hint=first.hint_).fit(*labs[1])
    assert first.fingerprint_ == second.fingerprint_


def test_an_audit_hands_the_hint_on(labs):
    X, y = np.concatenate([X for X, _ in labs]), np.concatenate([y for _, y in labs])
    lead = rl.ReplicableSVMClassifier(margin=0.3, hint_bits=2)
    found = rl.audit(lead, X, y, n_pairs=6)
    assert any("published a hint of 2 bits" in note for note in found.notes)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hint_bits": 9}, "hint_bits must be an integer from 0 to 8, got 9"),
        ({"hint_bits": 1.0}, "hint_bits must be an integer from 0 to 8, got 1.0"),
        ({"hint": 1}, "hint needs hint bits"),
        ({"hint_bits": 2, "hint": 4}, "hint must be an integer from 0 to 3, got 4"),
        ({"hint_bits": 2, "mode": "paper"}, "hint_bits must be 0 in mode=.paper., got 2"),
    ],
)
@pytest.mark.parametrize("kind", ESTIMATORS)
def test_odd_hints_are_refused(kind, settings, words, labs):
    with pytest.raises(ReplearnError, match=words):
        kind(**settings).fit(*labs[0])


# ---------------------------------------------------------------- plans and protocols


@pytest.mark.parametrize("algorithm", ["svm", "sgd"])
def test_hint_bits_need_far_fewer_rows(algorithm):
    rows = [
        rl.plan(algorithm, margin=0.1, n_features=100, hint_bits=bits).n_samples
        for bits in (0, 1, 2, 4, 8)
    ]
    assert rows[0] > 3 * rows[1] > 6 * rows[2] > 15 * rows[3] > 30 * rows[4]
    assert rows[0] > 10 * rows[2]
    assert rows[0] > 30 * rows[3]


def test_plans_of_other_algorithms_have_no_hints():
    with pytest.raises(ReplearnError, match="hint_bits must be 0, or up to 8 for svm and sgd"):
        rl.plan("net", n_features=3, hint_bits=2)
    with pytest.raises(ReplearnError, match="got 9 for svm"):
        rl.plan(n_features=3, hint_bits=9)


@pytest.fixture(scope="module")
def protocol():
    X, y = make_margin(400, 6, margin=0.2, random_state=9)
    plan = rl.plan_from_pilot(X, y, samples_per_site=3000, algorithm="svm", hint_bits=4)
    assert "4 hint bits" in str(plan)
    return plan.protocol


def test_a_protocol_of_algorithm_1_fixes_the_hint_bits(protocol, tmp_path):
    assert protocol.hint_bits == 4
    assert protocol.content()["version"] == 2
    protocol.save(tmp_path / "study.json")
    assert rl.Protocol.load(tmp_path / "study.json") == protocol
    odd = json.loads((tmp_path / "study.json").read_text())
    odd["parameters"]["hint_bits"] = 0
    (tmp_path / "odd.json").write_text(json.dumps(odd))
    with pytest.raises(InvalidFile, match="hint_bits must be an integer from 1 to 8"):
        rl.Protocol.load(tmp_path / "odd.json")


def test_sites_of_a_protocol_agree(protocol):
    sites = [make_margin(3000, 6, margin=0.2, random_state=site) for site in (1, 2)]
    lead = protocol.estimator().fit(*sites[0])
    other = protocol.estimator(hint=lead.hint_).fit(*sites[1])
    assert lead.fingerprint_ == other.fingerprint_
    assert lead.model_.space.hint_bits == 4
