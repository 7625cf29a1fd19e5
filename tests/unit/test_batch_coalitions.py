"""Sums of sites for Algorithm 1: the pooled model to the bit, refusals, hostile files."""

import json
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import replearn as rl
from replearn import cli
from replearn.codes.canonical import canonical_json, fingerprint_of
from replearn.datasets import make_margin
from replearn.study.protocol import Protocol

SIZE = 40
CUTS = (0, 3 * SIZE, 20 * SIZE, 49 * SIZE, 60 * SIZE)  # whole batches per site, odd numbers too
NAMES = [f"x{i}" for i in range(4)]


@pytest.fixture(scope="module")
def protocol():
    return Protocol(
        algorithm="svm",
        parameters={
            "margin": "0.2", "max_error": "0.1", "max_disagreement": "0.9", "failure_prob": "0.05",
            "grid_width": "0.3", "regularization": "0.001", "batch_size": SIZE, "n_components": 5,
            "projection": "none", "rounding": "centre", "fit_intercept": True, "unit_mean": False,
        },
        seed="7",
        classes=("no", "yes"),
        encoding=None,
        basis=None,
        notes={},
        target="label",
    )  # fmt: skip


def draw(n_rows=CUTS[-1], seed=1):
    X, y = make_margin(n_rows, 4, margin=0.2, random_state=seed)
    return X, np.where(y > 0, "yes", "no")


def parts(X, y, cuts=CUTS):
    return [(X[a:b], y[a:b]) for a, b in pairwise(cuts)]


def quietly(function, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)
        return function(*arguments, **options)


def sites_of(protocol, X, y, cuts=CUTS):
    return [
        rl.row_sums(protocol, *part, site=f"s{i}", few_rows=True, assume_shuffled=True)
        for i, part in enumerate(parts(X, y, cuts))
    ]


def pooled(protocol, X, y):
    return quietly(protocol.estimator(shuffle=False).fit, X, y)


def test_the_model_is_that_of_the_concatenated_rows(protocol):
    X, y = draw()
    expected = pooled(protocol, X, y)
    for cuts in (CUTS, (0, CUTS[-1]), (0, SIZE, CUTS[-1])):
        found = quietly(rl.combine, protocol, sites_of(protocol, X, y, cuts)[::-1])
        assert found.model.fingerprint == expected.fingerprint_
        assert found.n_rows == X.shape[0]
    one = quietly(rl.combine, protocol, sites_of(protocol, X, y, (0, CUTS[-1])))
    assert one.certificate == expected.certificate_


def test_the_certificate_knows_the_sizes_of_groups(protocol):
    X, y = draw()
    total = sum(site.sums.batches.n_batches for site in sites_of(protocol, X, y))
    found = quietly(rl.combine, protocol, sites_of(protocol, X, y))
    assert found.certificate.n_batches == total == CUTS[-1] // SIZE
    merged = rl.merged_sums(replace(site, site=None) for site in sites_of(protocol, X, y))
    counts = merged.sums.batches.group_counts()
    # 3, 17, 29 and 11 batches, two to a group, numbered from 0 at each site
    assert counts[:3].tolist() == [8, 7, 6]
    assert counts.sum() == total
    means = merged.sums.batches.group_means()
    np.testing.assert_allclose(counts @ means / total, merged.sums.batches.mean(), atol=1e-12)


def test_rows_after_the_last_whole_batch_are_left_over(protocol):
    X, y = draw()
    short = rl.row_sums(protocol, X[: 3 * SIZE + 7], y[: 3 * SIZE + 7], assume_shuffled=True)
    assert short.sums.batches.n_batches == 3
    assert short.n_rows == 3 * SIZE + 7
    rest = rl.row_sums(protocol, X[3 * SIZE :], y[3 * SIZE :], assume_shuffled=True)
    found = quietly(rl.combine, protocol, [short, rest])
    assert found.model.fingerprint == pooled(protocol, X, y).fingerprint_


def test_influence_is_that_of_the_fit_without_the_site(protocol):
    X, y = draw()
    X[CUTS[3] :] *= -1  # a site of another population
    found = quietly(rl.combine, protocol, sites_of(protocol, X, y))
    for site, (start, stop) in zip(found.sites, pairwise(CUTS), strict=True):
        rest = np.r_[0:start, stop : X.shape[0]]
        without = pooled(protocol, X[rest], y[rest])
        different = np.flatnonzero(without.model_.codes != found.model.codes).tolist()
        assert list(site.codes_moved) == different
        assert site.same == (not different)
    assert not found.sites[-1].same
    assert "cells" not in str(found.sites[0])
    json.dumps(found.data(), allow_nan=False)


def test_files_frames_and_the_order_of_fit(protocol, tmp_path):
    X, y = draw(10 * SIZE)
    frame = pd.DataFrame(X, columns=NAMES).assign(label=y)
    frame.to_parquet(tmp_path / "a.parquet")
    in_order = rl.site_sums(protocol, tmp_path / "a.parquet", assume_shuffled=True)
    assert in_order.fingerprint == rl.row_sums(protocol, X, y, assume_shuffled=True).fingerprint
    shuffled = rl.site_sums(protocol, tmp_path / "a.parquet")
    assert shuffled.fingerprint != in_order.fingerprint
    alone = quietly(rl.combine, protocol, [shuffled])
    assert alone.model.fingerprint == quietly(protocol.estimator().fit, X, y).fingerprint_
    order = np.argsort(y)
    with pytest.raises(rl.ReplearnError, match="looks sorted"):
        rl.row_sums(protocol, X[order], y[order], assume_shuffled=True)


def test_what_would_make_another_model_is_refused(protocol):
    X, y = draw()
    first, second, *_ = sites_of(protocol, X, y)

    def refused(words, sites, **options):
        with pytest.raises(rl.ReplearnError, match=words):
            rl.combine(protocol, sites, **options)

    refused("the same sums", [first, replace(first, site="other")])
    refused("two versions of the site 's0'", [first, replace(second, site="s0")])
    refused("hint needs hint bits", [first], hint=1)
    refused("at least one site", [])
    other = replace(protocol, seed="8")
    refused("must be of the protocol", [rl.row_sums(other, X, y, assume_shuffled=True)])
    one_class = rl.row_sums(protocol, X[y == "no"], y[y == "no"], assume_shuffled=True)
    refused("two classes", [one_class])
    few = replace(
        protocol, parameters=protocol.parameters | {"projection": "gaussian", "n_components": 3}
    )
    two = [rl.row_sums(few, rows, y, assume_shuffled=True) for rows in (X, np.c_[X, X[:, 0]])]
    with pytest.raises(rl.ReplearnError, match="as many features"):
        rl.combine(few, two)
    with pytest.raises(rl.ReplearnError, match=r"a whole batch of 40 rows .* got 39"):
        rl.row_sums(protocol, X[:39], y[:39], few_rows=True)
    with pytest.raises(rl.ReplearnError, match="at least 100 rows"):
        rl.row_sums(protocol, X[:80], y[:80])
    with pytest.raises(rl.ReplearnError, match="must have rows, got none"):
        rl.arrow_sums(protocol, [])


HOSTILE = [
    (("batch_size",), 41, "must have 40 rows"),
    (("rows",), 10, "a count of labels"),
    (("labels",), [1, 1], "add up"),
    (("labels",), [100], "add up|two counts"),
    (("batches",), [], "counts"),
    (("batches",), [2, 0], "counts of 1"),
    (("batches",), [2**31], "batches"),
    (("batches",), [2, 2], "cannot be of|groups"),
    (("hi",), [["1"] * 5], "2 groups"),
    (("hi",), [["1"] * 5, ["1"] * 4], "numbers each"),
    (("hi",), [["1"] * 4] * 2, "one shape"),
    (("hi", 0), [1, 2, 3, 4, 5], "as text"),
    (("hi", 0), ["-0", "1", "1", "1", "1"], "as text"),
    (("hi", 0), ["9" * 19, "1", "1", "1", "1"], "62 bits"),
    (("hi", 0), [str(2**60), "1", "1", "1", "1"], "longer than 8"),
    (("tally",), ["3"], "the tally"),
    (("tally", 0), "4", "the tally"),
    (("tally", 6), "9", "what can happen"),
    (("tally", 9), str(-(2**31)), "what can happen"),  # squared distances add up to less than 0
    (("extremes",), ["0.0"], "extremes"),
    (("extremes", 0), "nan", "extremes"),
    (("extremes", 0), "inf", "what can happen"),
    (("more",), 1, "keys"),
]


@pytest.mark.parametrize(("path", "value", "words"), HOSTILE)
def test_a_hostile_file_is_refused(protocol, tmp_path, path, value, words):
    X, y = draw(3 * SIZE)
    content = rl.row_sums(protocol, X, y, assume_shuffled=True).content()
    place = content["sums"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    file = tmp_path / "a.json"
    file.write_bytes(canonical_json(content | {"sha256": fingerprint_of(content)}))
    with pytest.raises(rl.InvalidFile, match=words):
        rl.SiteSums.load(file, protocol)


def test_from_files_to_a_model(protocol, tmp_path, capsys):
    X, y = draw()
    protocol.save(tmp_path / "study.json")
    frame = pd.DataFrame(X, columns=NAMES).assign(label=y)
    frame.to_parquet(tmp_path / "all.parquet")
    study = ["--protocol", str(tmp_path / "study.json")]
    files = []
    for number, (start, stop) in enumerate(pairwise(CUTS)):
        data, out = tmp_path / f"{number}.parquet", tmp_path / f"{number}.sums.json"
        frame[start:stop].to_parquet(data)
        options = ["--out", str(out), "--assume-shuffled", "--few-rows", "--site", f"s{number}"]
        assert cli.main(["sums", str(data), *study, *options]) == 0
        files.append(str(out))
        content = rl.SiteSums.load(out, protocol).content()
        assert content | {"sha256": fingerprint_of(content)} == json.loads(out.read_text())
    model, page = str(tmp_path / "model.json"), str(tmp_path / "page.html")
    assert cli.main(["combine", *files, *study, "--out", model, "--report", page]) == 0
    expected = pooled(protocol, X, y)
    assert rl.load(model).fingerprint == expected.fingerprint_
    assert "<h2>Forest</h2>" not in (tmp_path / "page.html").read_text()
    capsys.readouterr()
    assert cli.main(["combine", *files, files[0], *study, "--out", model]) == 2
    assert "the same sums" in capsys.readouterr().err
