"""Sums of sites: the pooled model to the bit, refusals, hostile files, the command line."""

import json
import runpy
import warnings
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp

import replearn as rl
from replearn.codes.canonical import canonical_json, fingerprint_of
from replearn.study.hints import Hint

N_ROWS = 3000
CUTS = (0, 150, 700, 1500, N_ROWS)
NAMES = [f"x{i}" for i in range(5)]


def draw(n_rows=N_ROWS, seed=1):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, 5)) < 0.6, rng.normal(size=(n_rows, 5)), 0)
    X *= np.arange(1, 6)
    return X, (rng.random(n_rows) < 1 / (1 + np.exp(1 - X[:, 0] + 0.4 * X[:, 1]))).astype(int)


@pytest.fixture(scope="module")
def protocol():
    X, y = draw(800, seed=9)
    plan = rl.plan_from_pilot(sp.csr_matrix(X), y, samples_per_site=N_ROWS, hint_bits=3)
    return replace(plan.protocol, target="label")


def with_steps(protocol, n_steps):
    return replace(protocol, design=replace(protocol.design, n_steps=n_steps))


def fitted(protocol, X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        warnings.simplefilter("ignore", rl.UselessModelWarning)  # sites may differ
        return protocol.estimator(**settings).fit(X, y)


def combined(protocol, sites_after, **settings):
    """All rounds; ``sites_after`` gives the sums of the sites after a state."""
    after = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        while True:
            found = rl.combine(protocol, sites_after(after), after, **settings)
            if isinstance(found, rl.Coalition):
                return found
            after = found


def parts(X, y, cuts=CUTS):
    return [(X[a:b], y[a:b]) for a, b in pairwise(cuts)]


@pytest.mark.parametrize("n_steps", [1, 4])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, np.float32])
def test_the_model_is_that_of_the_pooled_rows(protocol, n_steps, form):
    protocol = with_steps(protocol, n_steps)
    X, y = draw()
    X = form(X)
    pooled = fitted(protocol, X, y)
    for cuts in (CUTS, (0, N_ROWS), (0, 1, N_ROWS)):

        def sites(after, cuts=cuts):
            return [
                rl.row_sums(protocol, *part, after=after, few_rows=True)
                for part in parts(X, y, cuts)[::-1]
            ]

        found = combined(protocol, sites)
        assert found.model.fingerprint == pooled.fingerprint_
        assert found.certificate == pooled.certificate_  # all sums enter, not only the codes
        assert found.hint == pooled.hint_


def test_a_site_of_one_class_counts_too(protocol):
    X, y = draw()
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    assert len(set(y[:1500])) == 1
    sites = [rl.row_sums(protocol, *part) for part in parts(X, y, (0, 1500, N_ROWS))]
    found = combined(protocol, lambda _: sites)
    assert found.model.fingerprint == fitted(protocol, X, y).fingerprint_
    assert found.heterogeneity.p_value < 1e-6
    with pytest.raises(rl.ReplearnError, match="two classes"):
        rl.combine(protocol, sites[:1])


def test_files_frames_and_batches_give_the_same_bytes(protocol, tmp_path):
    X, y = draw(600)
    frame = pd.DataFrame(X, columns=NAMES).assign(label=y)
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    table = pa.Table.from_pandas(frame.assign(more="text"))
    reversed_columns = table.select(table.column_names[::-1])
    found = [
        rl.row_sums(protocol, frame[NAMES], y),
        rl.site_sums(protocol, tmp_path / "a.csv"),
        rl.site_sums(protocol, tmp_path / "a.parquet"),
        rl.arrow_sums(protocol, [table]),
        rl.arrow_sums(protocol, reversed_columns.to_batches(max_chunksize=7)[::-1], "label"),
        rl.merged_sums(
            rl.arrow_sums(protocol, [batch], few_rows=True)
            for batch in table.to_batches(max_chunksize=50)
        ),
    ]
    assert len({part.fingerprint for part in found}) == 1


def test_a_sums_file_is_read_as_it_was_written_and_holds_nothing_else(protocol, tmp_path):
    sums = rl.row_sums(protocol, *draw(200), site="Site A")
    sums.save(tmp_path / "a.json")
    assert rl.SiteSums.load(tmp_path / "a.json", protocol).fingerprint == sums.fingerprint
    content = json.loads((tmp_path / "a.json").read_text())
    assert set(content) == {
        "after", "format", "protocol", "round", "sha256", "site", "sums", "unknown", "version",
    }  # fmt: skip
    assert content["sums"]["labels"] == np.bincount(draw(200)[1]).tolist()


def test_influence_is_that_of_the_fit_without_the_site(protocol):
    protocol = with_steps(protocol, 1)
    X, y = draw()
    X[1500:, 0] *= -1  # a site of another population
    sites = [rl.row_sums(protocol, *part, site=f"s{i}") for i, part in enumerate(parts(X, y))]
    found = combined(protocol, lambda _: sites)
    for site, (start, stop) in zip(found.sites, pairwise(CUTS), strict=True):
        rest = np.r_[0:start, stop:N_ROWS]
        without = fitted(protocol, X[rest], y[rest], hint=found.hint)
        different = np.flatnonzero(without.model_.codes != found.model.codes).tolist()
        assert list(site.codes_moved) == different
        assert site.same == (not different)
    assert not found.sites[-1].same
    assert 0 <= found.agreement < 1
    assert found.heterogeneity.p_value < 1e-6
    assert "SITES DIFFER" in str(found)
    json.dumps(found.data(), allow_nan=False)


def test_a_given_hint_is_kept(protocol):
    X, y = draw()
    pooled = fitted(protocol, X, y, hint=5)
    found = combined(protocol, lambda _: [rl.row_sums(protocol, X, y)], hint=5)
    assert found.hint == 5
    assert found.model.fingerprint == pooled.fingerprint_


# --- refusals -----------------------------------------------------------------------------------


def test_what_would_make_another_model_is_refused(protocol):
    steps = with_steps(protocol, 3)
    X, y = draw()
    a, b = (rl.row_sums(steps, *part, site=f"s{i}") for i, part in enumerate(parts(X, y)[:2]))
    cases = [
        ([], "at least one site"),
        ([a, replace(a, site="other")], "same sums"),
        ([a, replace(b, site="s0")], "two versions of the site 's0'"),
        ([a, rl.row_sums(protocol, X, y)], "must be of the protocol"),
    ]
    for sites, words in cases:
        with pytest.raises(rl.ReplearnError, match=words):
            rl.combine(steps, sites)
    state = rl.combine(steps, [a, b])
    again = [rl.row_sums(steps, *p, site=f"s{i}", after=state) for i, p in enumerate(parts(X, y))]
    other = rl.combine(steps, [a])
    late = [
        ([a, b], state, "must be of round 2, got round 1"),
        (again[:1], state, "1 sites instead of 2; missing s1 of 550 rows"),
        (again[:3], state, "3 sites instead of 2; new s2"),
        (again[:2], other, "another state of the coalition"),
    ]
    for sites, after, words in late:
        with pytest.raises(rl.ReplearnError, match=words):
            rl.combine(steps, sites, after)
    with pytest.raises(rl.ReplearnError, match="must be of round 1"):
        rl.combine(steps, again[:2])
    with pytest.raises(rl.ReplearnError, match="one of the protocol"):
        rl.row_sums(protocol, X, y, after=state)


def test_a_state_after_the_last_round_goes_nowhere(protocol):
    steps = with_steps(protocol, 2)
    X, y = draw()
    state = rl.combine(steps, [rl.row_sums(steps, X, y)])
    state = replace(state, steps=replace(state.steps, n_passes=2))
    with pytest.raises(rl.ReplearnError, match="nothing left to do"):
        rl.row_sums(steps, X, y, after=state)


def test_too_many_rows_would_overflow(protocol):
    sums = rl.row_sums(protocol, *draw(200))
    many = np.array([2**49, 2**49], dtype=np.int64)
    large = replace(sums, sums=replace(sums.sums, n_rows=2**50, class_weights=many), site="big")
    with pytest.raises(rl.ReplearnError, match="overflow"):
        rl.combine(protocol, [sums, large])
    with pytest.raises(rl.ReplearnError, match="overflow"):
        rl.merged_sums([large, large])


def test_sums_of_few_rows_are_refused_unless_asked(protocol):
    X, y = draw(99)
    with pytest.raises(rl.ReplearnError, match="at least 100 rows, got 99"):
        rl.row_sums(protocol, X, y)
    assert rl.row_sums(protocol, X, y, few_rows=True).n_rows == 99


def test_bad_rows_are_refused(protocol):
    X, y = draw(200)
    with pytest.raises(rl.ReplearnError, match="one label for each"):
        rl.row_sums(protocol, X, y[:-1])
    with pytest.raises(rl.ReplearnError, match="labels"):
        rl.row_sums(protocol, X, y + 1)
    table = pa.Table.from_pandas(pd.DataFrame(X, columns=NAMES).assign(label=y))
    with pytest.raises(rl.ReplearnError, match="'x0' must be in the Arrow batches"):
        rl.arrow_sums(protocol, [table.drop_columns(["x0"])])
    with pytest.raises(rl.ReplearnError, match="must hold numbers, got string"):
        rl.arrow_sums(protocol, [table.set_column(0, "x0", pa.array(["a"] * 200))])
    gaps = pa.array([None if i == 3 else v for i, v in enumerate(y.tolist())])
    with pytest.raises(rl.ReplearnError, match=r"row 3 .*'label' must hold a label"):
        rl.arrow_sums(protocol, [table.set_column(5, "label", gaps)])
    with pytest.raises(rl.ReplearnError, match="got none"):
        rl.arrow_sums(protocol, [])
    with pytest.raises(rl.ReplearnError, match="site must be a name"):
        rl.row_sums(protocol, X, y, site="two\nlines")
    with pytest.raises(rl.ReplearnError, match="same site"):
        rl.merged_sums([rl.row_sums(protocol, X, y, site=name) for name in "ab"])
    sgd = replace(protocol, design=None, algorithm="sgd")
    with pytest.raises(rl.ReplearnError, match="logistic study"):
        rl.row_sums(sgd, X, y)


# --- hostile files ------------------------------------------------------------------------------


def changed(content, path, value):
    """A copy with another value at a path, and the right hash."""
    copy = json.loads(json.dumps(content))
    copy.pop("sha256")
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy | {"sha256": fingerprint_of(copy)}


HOSTILE = [
    (("format",), "replearn-model", "format"),
    (("version",), 2, "version 2 is unknown"),
    (("version",), True, "version True is unknown"),
    (("protocol",), "0" * 64, "belongs to the protocol"),
    (("round",), 2, "round must be an integer"),
    (("round",), 1.5, "round must be an integer"),
    (("after",), "0" * 64, "only sums of the first round"),
    (("after",), "x", "64 hexadecimal digits"),
    (("site",), "", "site must be a name"),
    (("site",), "a\x1b[2J", "site must be a name"),
    (("site",), 5, "site must be a string"),
    (("more",), 1, "with the keys"),
    (("unknown",), [0], "list of 5 counts"),
    (("unknown", 0), 201, "count of unknown values"),
    (("sums",), [], "'sums' must be an object"),
    (("sums", "rows"), 0, "rows must be"),
    (("sums", "rows"), 2**50 + 1, "rows must be"),
    (("sums", "rows"), 201, "must add up to 201"),
    (("sums", "labels"), [200], "two counts"),
    (("sums", "labels"), [-1, 201], "count of labels"),
    (("sums", "cut_rows"), 201, "cut_rows"),
    (("sums", "integers"), ["0"], "integers must be a list of"),
    (("sums", "integers", 0), 5, "whole numbers of at most"),
    (("sums", "integers", 0), "9" * 33, "whole numbers of at most"),
    (("sums", "integers", 0), "007", "whole numbers of at most"),
    (("sums", "integers", 0), "-0", "no zero has a sign"),
    (("sums", "integers", 0), "1e5", "whole numbers of at most"),
    (("sums", "integers", 0), "٣", "whole numbers of at most"),
    (("sums", "integers", 0), str(2**51 * 200 + 1), "do not come from rows"),
    (("sums", "integers", 0), str(2**51 * 200), "do not come from rows"),
]


@pytest.mark.parametrize(("path", "value", "words"), HOSTILE)
def test_a_hostile_sums_file_is_refused(protocol, tmp_path, path, value, words):
    content = rl.row_sums(protocol, *draw(200)).content()
    bad = changed(content | {"sha256": ""}, path, value)
    (tmp_path / "a.json").write_bytes(canonical_json(bad))
    with pytest.raises(rl.InvalidFile, match=words):
        rl.SiteSums.load(tmp_path / "a.json", protocol)


def test_a_damaged_file_is_refused(protocol, tmp_path):
    sums = rl.row_sums(protocol, *draw(200))
    sums.save(tmp_path / "a.json")
    text = (tmp_path / "a.json").read_text()
    (tmp_path / "b.json").write_text(text.replace('"site":null', '"site":"me"'))
    with pytest.raises(rl.InvalidFile, match="hash is not that"):
        rl.SiteSums.load(tmp_path / "b.json", protocol)
    for cut in (0, 1, len(text) // 2, len(text) - 3):
        (tmp_path / "b.json").write_text(text[:cut])
        with pytest.raises(rl.InvalidFile):
            rl.SiteSums.load(tmp_path / "b.json", protocol)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("round",), 9, "round must be"),
        (("theta",), ["0"], "theta must be a list"),
        (("following", 0), "nan", "decimal number"),
        (("following", 0), "1e999", "decimal number"),
        (("following", 0), 0.5, "decimal number"),
        (("members",), [], "members must be"),
        (("members", 0), ["a", 1], "six counts"),
        (("members", 0, 1), -1, "a count"),
        (("members", 0, 0), 5, "site must be"),
        (("after",), 5, "64 hexadecimal"),
    ],
)
def test_a_hostile_state_is_refused(protocol, tmp_path, path, value, words):
    steps = with_steps(protocol, 3)
    state = rl.combine(steps, [rl.row_sums(steps, *draw())])
    state.save(tmp_path / "good.json")
    assert rl.CoalitionRound.load(tmp_path / "good.json", steps).fingerprint == state.fingerprint
    bad = changed(state.content() | {"sha256": ""}, path, value)
    (tmp_path / "bad.json").write_bytes(canonical_json(bad))
    with pytest.raises(rl.InvalidFile, match=words):
        rl.CoalitionRound.load(tmp_path / "bad.json", steps)


# --- the command line ---------------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [1, 3])
def test_from_files_to_a_model(protocol, n_steps, tmp_path, run):
    protocol = with_steps(protocol, n_steps)
    study = tmp_path / "study.json"
    protocol.save(study)
    X, y = draw()
    frame = pd.DataFrame(X, columns=NAMES).assign(label=y)
    frame.to_parquet(tmp_path / "all.parquet")
    for i, (a, b) in enumerate(pairwise(CUTS)):
        frame[a:b].to_csv(tmp_path / f"site{i}.csv", index=False)
    after = []
    for k in range(n_steps):
        files = [tmp_path / f"{i}.{k}.sums.json" for i in range(4)]
        for i, file in enumerate(files):
            settings = ["--protocol", study, "--out", file, "--site", f"S{i}", *after]
            code, out, err = run("sums", tmp_path / f"site{i}.csv", *settings, "--json")
            assert (code, err) == (0, "")
            assert json.loads(out)["round"] == k + 1
        state = tmp_path / f"state{k}.json"
        code, out, err = run(
            "combine", *files, "--protocol", study, "--out", state, "--json", *after[:2]
        )
        assert code == 0, err
        found = json.loads(out)
        assert found["done"] == (k == n_steps - 1)
        after = ["--after", state, "--round", k + 2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        pooled = rl.fit_file(protocol.estimator(), tmp_path / "all.parquet", "label")
    assert found["fingerprint"] == pooled.fingerprint_ == rl.load(state).fingerprint
    assert [site["site"] for site in found["sites"]] == ["S0", "S1", "S2", "S3"]
    expect = ["--expect", "0" * 64] if n_steps == 1 else []
    if expect:
        code, out, _ = run("combine", *files, "--protocol", study, "--out", state, *expect)
        assert code == 1
        assert "S3: 1,500 rows" in out


def test_the_command_line_refuses(protocol, tmp_path, run):
    study, data, out = tmp_path / "study.json", tmp_path / "a.csv", tmp_path / "a.json"
    protocol.save(study)
    X, y = draw(120)
    pd.DataFrame(X, columns=NAMES).assign(label=y).to_csv(data, index=False)
    settings = ["--protocol", study, "--out", out]
    assert run("sums", data, *settings, "--round", 2)[0] == 2
    assert not out.exists()
    assert run("sums", data, *settings)[0] == 0
    code, _, err = run("combine", out, out, *settings[:2], "--out", tmp_path / "m.json")
    assert (code, err.count("\n")) == (2, 1)
    assert "same sums" in err
    assert not (tmp_path / "m.json").exists()


def test_a_coalition_takes_the_hint_file_of_the_first_site(protocol, tmp_path, run):
    space = replace(protocol.design.space, hint_bits=3)
    protocol = replace(protocol, design=replace(protocol.design, space=space))
    study, sums, hint = (tmp_path / name for name in ("s.json", "a.json", "a.hint.json"))
    protocol.save(study)
    rl.row_sums(protocol, *draw(400)).save(sums)
    Hint.of(5, protocol).save(hint)
    found = []
    for given in (hint, 5):
        out = tmp_path / "model.json"
        settings = ["--protocol", study, "--out", out, "--hint", given, "--json"]
        code, text, err = run("combine", sums, *settings)
        assert code == 0, err
        found.append(json.loads(text)["fingerprint"])
        assert rl.load(out).hint == 5
    assert found[0] == found[1]
    replace(Hint.of(5, protocol), seed="other").save(hint)
    code, _, err = run("combine", sums, *settings[:4], "--hint", hint)
    assert code == 2
    assert "a hint must come from a fit under the same protocol, but its seed is other" in err


def test_the_report_draws_every_site(protocol, tmp_path, run):
    pytest.importorskip("matplotlib")
    study, page = tmp_path / "study.json", tmp_path / "page.html"
    protocol.save(study)
    files = []
    for i, part in enumerate(parts(*draw())):
        files.append(tmp_path / f"{i}.json")
        rl.row_sums(protocol, *part, site=f"<Site {i}>").save(files[-1])
    settings = ["--protocol", study, "--out", tmp_path / "m.json", "--report", page]
    assert run("combine", *files, *settings)[0] == 0
    text = page.read_text()
    assert "<Site" not in text
    n_numbers = protocol.design.space.n_components
    assert text.count("&lt;Site 2&gt; (800)") >= n_numbers
    assert text.count("<svg") == n_numbers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sums_in_polars", "secret_shares"])
@pytest.mark.filterwarnings("ignore::replearn.ReplicabilityWarning")
def test_the_examples_give_the_same_sums(name, capsys):
    if name == "sums_in_polars":
        pytest.importorskip("polars")
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / f"{name}.py"))
    first, second = (line.split()[-1] for line in capsys.readouterr().out.splitlines())
    assert first == second
