"""Logistic studies on the command line: plan, fit, hints, compare, replicate; nothing ignored."""

import json
import shlex

import numpy as np
import pandas as pd
import pytest

from replearn import Protocol, cli, load

N = 4000

pytestmark = pytest.mark.filterwarnings(
    "ignore::replearn.ReplicabilityWarning", "ignore::replearn.UselessModelWarning"
)


def table(seed, n_rows=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 2)), columns=["age", "dose"])
    frame["ward"] = rng.choice(["east", "west", "north"], n_rows, p=[0.6, 0.37, 0.03])
    frame["code"] = rng.integers(0, 5, n_rows)
    scores = 1.5 * frame["age"] - frame["dose"] + (frame["ward"] == "east") - 1.5
    frame["sick"] = np.where(rng.random(n_rows) < 1 / (1 + np.exp(-scores)), "yes", "no")
    return frame


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    table(0, 300).to_csv(folder / "pilot.csv", index=False)
    table(0, 300).drop(columns="sick").to_csv(folder / "public.csv", index=False)
    (folder / "score.csv").write_text("column,weight\nage,2\ndose,-1\n")
    for seed, site in enumerate("abc", start=1):
        table(seed).to_csv(folder / f"{site}.csv", index=False)
        table(seed).to_parquet(folder / f"{site}.parquet")
    return folder


@pytest.fixture
def replearn(place, monkeypatch, capsys):
    monkeypatch.chdir(place)

    def run(line, code=0):
        capsys.readouterr()
        assert cli.main(shlex.split(line)) == code
        out, err = capsys.readouterr()
        if code == 2:
            assert err.count("\n") == 1
            return err
        return json.loads(out) if "--json" in line else out

    return run


BASE = f"plan --pilot pilot.csv --target sick --samples-per-site {N}"


@pytest.fixture
def study(replearn, place):
    if not (place / "study.json").exists():
        replearn(f"{BASE} --hint-bits 4 --seed trial --out study.json")
        replearn("fit a.csv --protocol study.json --lead --out a.model.json")
        replearn("fit b.parquet --protocol study.json --hint a.hint.json --out b.model.json")
    return place


# ---------------------------------------------------------------- plans


@pytest.fixture(scope="module")
def base_plan(place):
    from replearn.study.pilot import plan_from_pilot

    frame = pd.read_csv(place / "pilot.csv")
    plan = plan_from_pilot(
        frame.drop(columns="sick"), frame["sick"], samples_per_site=N, target="sick",
        shared_seed="0",
    )  # fmt: skip
    return plan.protocol.content()


@pytest.mark.parametrize(
    "option", ["--study discovery", "--sites 2", "--threshold half",
               "--scores score.csv", "--classes a,b"],
)  # fmt: skip
def test_options_of_logistic_studies_are_refused_for_algorithm_1(option, replearn):
    err = replearn(f"{BASE} --algorithm svm {option}", code=2)
    assert f"{option.split()[0]} belongs to --algorithm logistic" in err


def test_a_study_with_algorithm_1_has_hints(replearn, place):
    replearn(f"{BASE} --algorithm svm --hint-bits 3 --out one.json")
    err = replearn("fit a.csv --protocol one.json --out one.model.json", code=2)
    assert "this protocol has 3 hint bits" in err
    lead = replearn("fit a.csv --protocol one.json --lead --out one.model.json --json")
    assert lead["hint"] == json.loads((place / "one.hint.json").read_text())["hint"]
    line = "fit b.csv --protocol one.json --hint one.hint.json --out two.model.json --json"
    follow = replearn(line)
    assert follow["hint"] == lead["hint"]
    again = replearn("replicate one.model.json a.csv --json")
    assert again["hint"] == lead["hint"]
    assert again["same"]


def test_hint_bits_are_planned_from_a_promise(replearn):
    plan = "plan --features 50 --margin .2 --json"
    plain, hinted = replearn(plan), replearn(f"{plan} --hint-bits 2")
    assert (plain["hint_bits"], hinted["hint_bits"]) == (0, 2)
    assert plain["n_samples"] > 10 * hinted["n_samples"]


def test_the_same_options_give_the_protocol_of_python(replearn, place, base_plan):
    replearn(f"{BASE} --out planned.json")
    assert json.loads((place / "planned.json").read_text()) == base_plan


def test_a_plan_prints_what_a_sceptic_asks_for(replearn):
    out = replearn(f"{BASE} --hint-bits 4")
    for words in ("base rate", "pilot's own model", "this protocol", "one site's rows", "bits"):
        assert words in out
    assert "The protocol decides" in out


def test_a_plan_names_the_label_whose_share_it_gives(replearn):
    assert " labelled 'yes'; 2 sites" in replearn(BASE)


@pytest.mark.parametrize("algorithm", ["svm", "sgd", "net"])
def test_every_plan_gives_the_base_rate_and_says_when_it_is_not_beaten(replearn, algorithm, place):
    noise = table(0, 300).assign(
        sick=np.random.default_rng(5).choice(["no", "yes"], 300, p=[0.8, 0.2])
    )
    noise.to_csv(place / "noise.csv", index=False)
    said = replearn(f"{BASE} --algorithm {algorithm}")
    share = (table(0, 300)["sick"] == "no").mean()
    assert f"always the larger class is right for {share:.3f}" in said
    assert "Caution" not in said
    line = f"plan --pilot noise.csv --target sick --samples-per-site {N} --algorithm {algorithm}"
    assert "Caution: This protocol is expected to be no better than always" in replearn(line)


def test_a_discovery_says_that_the_pilots_own_model_is_better(replearn):
    said = replearn(f"{BASE} --study discovery")
    assert "one site's rows, same directions" in said
    assert "Caution: The pilot's own model is expected to be better (AUC 0." in said


def test_no_bits_are_not_less_than_nothing(replearn):
    said = replearn("plan --pilot pilot.csv --target sick --samples-per-site 40")
    assert "worth 0.0 bits" in said


def test_a_pilot_without_labels(replearn, place):
    line = f"plan --pilot public.csv --study discovery --samples-per-site {N} --hint-bits 8"
    err = replearn(line, code=2)
    assert "labels are needed" in err
    replearn(f"{line} --classes no,yes --share .3 --target sick --out found.json")
    protocol = Protocol.load(place / "found.json")
    assert (protocol.classes, protocol.target) == (("no", "yes"), "sick")
    fitted = replearn("fit a.csv --protocol found.json --lead --out found.model.json --json")
    assert fitted["worth"]["auc"]["value"] > 0.75


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name,points\nage,1\n", "header column,weight"),
        ("column,weight\nage,1\nage,2\n", "stands twice"),
        ("column,weight\nage,much\n", "must be a number"),
        ("column,weight\nweight,1\n", "must weigh columns of the pilot"),
        ("", "header column,weight"),
    ],
)
def test_odd_scores_are_refused(replearn, place, text, words):
    (place / "odd.csv").write_text(text)
    assert words in replearn(f"{BASE} --scores odd.csv", code=2)


def test_scores_know_labels(replearn):
    assert "they know labels" in replearn(f"{BASE} --scores score.csv --study discovery", code=2)


@pytest.mark.parametrize(
    ("threshold", "log_odds"), [("half", 0), (".2", np.log(0.25)), ("5:1", np.log(0.2))]
)
def test_thresholds(replearn, place, threshold, log_odds):
    replearn(f"{BASE} --threshold {threshold} --out planned.json")
    space = Protocol.load(place / "planned.json").design.space
    assert float(space.threshold) == pytest.approx(log_odds, abs=1e-8)


@pytest.mark.parametrize("threshold", ["often", "0:1", "1:0", "1:2:3", "-1:2", "1e9:1"])
def test_odd_thresholds(replearn, threshold):
    assert "threshold must be a prob" in replearn(f"{BASE} --threshold={threshold}", code=2)


# ---------------------------------------------------------------- fits and hints


def test_every_format_and_order_gives_the_same_model(replearn, study):
    expected = load(study / "a.model.json").fingerprint
    fit = "fit {} --protocol study.json --hint a.hint.json --expect " + expected
    replearn(fit.format("a.parquet"))
    table(1)[::-1].to_csv(study / "turned.csv.gz", index=False)
    replearn(fit.format("turned.csv.gz"))
    replearn(fit.format("turned.csv.gz") + " --target sick --jobs 1")


def test_a_model_file_carries_its_study(study):
    document = json.loads((study / "a.model.json").read_text())
    protocol = Protocol.load(study / "study.json")
    assert document["provenance"]["protocol"] == protocol.fingerprint
    assert Protocol.of_model_file(study / "a.model.json") == protocol
    assert json.loads((study / "a.hint.json").read_text()) == {
        "format": "replearn-hint",
        "hint": load(study / "a.model.json").space.hint,
        "hint_bits": 4,
        "protocol": protocol.fingerprint,
        "seed": "trial",
        "version": 1,
    }


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fit a.csv --protocol study.json", "is it this one"),
        ("fit a.csv --protocol study.json --lead", "name that with --out"),
        (
            "fit a.csv --protocol study.json --lead --hint a.hint.json",
            "one at a time, got --lead and --hint",
        ),
        ("fit a.csv --protocol study.json --hint study.json", "not a valid hint file"),
        ("fit a.csv --target sick --lead --out x.json", "--lead is for protocols with hint bits"),
        ("fit a.csv --protocol study.json --lead --out x.json --no-shuffle", "--assume-shuffled"),
        ("fit a.csv --protocol study.json --lead --out x.json --random-state 1", "--random-state"),
        ("fit a.csv --protocol study.json --lead --out x.json --memory 1G", "--memory"),
        ("fit a.csv --protocol study.json --lead --out x.json --scratch .", "--scratch"),
        ("fit a.csv --protocol study.json --lead --out x.json --checkpoint x", "--checkpoint"),
        ("fit a.csv --target sick --checkpoint-every 3", "--checkpoint-every needs --checkpoint"),
        (f"fit a.csv --target sick --lock {'0' * 64}", "--lock is the hash of a protocol"),
        ("audit a.csv --protocol study.json --no-shuffle", "--assume-shuffled"),
    ],
)
def test_what_cannot_be_is_said_by_name(replearn, study, line, words):
    assert words in replearn(line, code=2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"protocol": "0" * 64}, "its protocol is 0000"),
        ({"seed": "other"}, "its seed is other"),
        ({"hint_bits": 8}, "number of hint bits is 8"),
        ({"hint": 16}, "hint must be an integer from 0 to 15"),
        ({"hint": True}, "hint must be an integer from 0 to 15"),
        ({"hint_bits": 9}, "bits must be an integer from 1 to 8"),
        ({"version": 2}, "version 2 is unknown; this release reads 1"),
        ({"extra": 1}, "must be an object with the keys"),
        ({"protocol": "x"}, "64 hexadecimal digits"),
    ],
)
def test_another_hint_is_refused(replearn, study, change, words):
    content = json.loads((study / "a.hint.json").read_text()) | change
    (study / "odd.hint.json").write_text(json.dumps(content))
    assert words in replearn("fit b.csv --protocol study.json --hint odd.hint.json", code=2)


def test_no_target_is_needed_after_a_plan(replearn, study):
    worth = replearn("evaluate a.model.json c.csv --json")
    assert worth["auc"]["value"] > 0.8
    assert worth["log_loss"]["value"] < worth["base_log_loss"]
    replearn("predict a.model.json c.csv --out predicted.csv")


def test_an_audit_gives_the_second_lab_the_hint_of_the_first(replearn, study):
    line = "audit a.csv --protocol study.json --pairs 12 --question halves --json"
    audited = replearn(line, code=3)
    assert audited["algorithm"] == "logistic"
    assert any("published a hint of 4 bits" in note for note in audited["notes"])
    # planned for twice the rows: two first labs would differ in nearly all pairs
    assert audited["disagreement"] < 0.6


# ---------------------------------------------------------------- the same study again


def test_two_first_labs_are_noticed(replearn, study):
    for seed in range(4, 9):  # hints may be equal by chance
        table(seed).to_csv(study / "c.csv", index=False)
        replearn("fit c.csv --protocol study.json --lead --out c.model.json")
        hints = [load(study / f"{site}.model.json").hint for site in "ac"]
        if hints[0] != hints[1]:
            break
    out = replearn("compare a.model.json c.model.json", code=1)
    assert f"the hints are {hints[0]} and {hints[1]}: both labs fitted as the first one" in out


def test_a_match_is_worth_bits(replearn, study):
    out = replearn("compare a.model.json b.model.json")
    bits = Protocol.load(study / "study.json").evidence_bits
    assert bits > 1
    assert f"a match is worth {bits:.1f} bits" in out
    data = replearn("compare a.model.json b.model.json --json")
    assert data["evidence_bits"] == bits


def test_predictions_of_a_logistic_model_have_probabilities(replearn, study):
    model = load(study / "a.model.json")
    replearn("predict a.model.json c.csv --out predicted.csv")
    found, rows = pd.read_csv("predicted.csv"), pd.read_csv("c.csv")
    assert list(found) == ["prediction", "score", "probability yes"]
    expected = model.predict_proba(rows[["age", "dose", "ward", "code"]])[:, 1]
    np.testing.assert_allclose(found["probability yes"], expected, rtol=1e-8)


def test_a_published_study_is_replicated(replearn, study):
    data = replearn("replicate a.model.json b.parquet --out again.model.json --json")
    assert data["same"] is True
    assert load(study / "again.model.json") == load(study / "a.model.json")
    out = replearn("replicate a.model.json b.csv")
    assert "the same model" in out
    assert "another lab gets another model with probability" in out
    assert "planned" in out
    other = table(8)
    other["age"] += 2
    other.to_csv(study / "elsewhere.csv", index=False)
    out = replearn("replicate a.model.json elsewhere.csv", code=1)
    assert "NOT the same model" in out
    lock = Protocol.load(study / "study.json").fingerprint
    replearn(f"replicate again.model.json b.csv --lock {lock}")
    assert "another study" in replearn(f"replicate a.model.json b.csv --lock {'1' * 64}", code=2)


def test_a_model_without_its_study_cannot_be_replicated(replearn, study):
    replearn("fit a.csv --target sick --seed 1 --margin .3 --out plain.json", code=2)
    document = json.loads((study / "a.model.json").read_text())
    plain = {key: value for key, value in document.items() if key != "protocol"}
    (study / "plain.model.json").write_text(json.dumps(plain))
    assert "must carry the protocol" in replearn("replicate plain.model.json b.csv", code=2)
    changed = json.loads(json.dumps(document))
    changed["protocol"]["seed"] = "another"
    (study / "odd.model.json").write_text(json.dumps(changed))
    assert "not fitted under it" in replearn("replicate odd.model.json b.csv", code=2)
    changed["protocol"] = []
    (study / "odd.model.json").write_text(json.dumps(changed))
    assert "protocol must be an object" in replearn("replicate odd.model.json b.csv", code=2)


def test_a_fit_is_shown_beside_the_plan_and_judged(replearn, study):
    out = replearn("fit b.csv --protocol study.json --hint a.hint.json")
    assert "beside the plan:" in out
    assert "; the pilot's own model 0." in out
    protocol = Protocol.load(study / "study.json")
    for auc, words in (("0.999", "less than half"), ("0.9", "would be better")):
        document = protocol.content()
        document["notes"] = document["notes"] | {"pilot_auc": auc}
        (study / "boast.json").write_text(json.dumps(document))
        noise = table(3)
        noise["sick"] = np.where(
            np.random.default_rng(0).random(N) < (0.35 if auc == "0.999" else 0), "yes",
            noise["sick"],
        )  # fmt: skip
        noise.to_csv(study / "noise.csv", index=False)
        data = replearn("fit noise.csv --protocol boast.json --lead --out x.model.json --json")
        assert any(words in warning for warning in data["warnings"])


def test_the_rehearsal_of_a_study_with_hints_runs_as_written(replearn, study, monkeypatch):
    replearn("bundle study.json --out sites")
    monkeypatch.chdir(study / "sites")
    page = next(path for path in (study / "sites").iterdir() if path.suffix == ".md"
                and "replearn fit rehearsal" in path.read_text())  # fmt: skip
    fits = [line.strip() for line in page.read_text().splitlines() if "replearn fit " in line]
    replearn(fits[0].removeprefix("replearn "))
    assert (study / "sites" / "rehearsal.hint.json").exists()
    assert "--hint first.hint.json" in fits[1]
