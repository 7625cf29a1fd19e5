"""Models of many sites: who has the same one, and what differs."""

import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

from replearn.audits.sites import compare_sites
from replearn.codes.model import Model
from replearn.codes.space import CodeSpace
from replearn.errors import ReplearnError

MODEL = Model(
    recipe="svm",
    n_features=2,
    fit_intercept=False,
    space=CodeSpace(2, "none", 2, "centre", "1"),
    seed="0",
    classes=(0, 1),
    codes=np.array([3, 0]),
)
OTHER = replace(MODEL, codes=np.array([0, 3]))
THIRD = replace(OTHER, seed="1")


def test_groups_are_the_sites_with_equal_bytes() -> None:
    models = {"a": OTHER, "b": MODEL, "c": replace(MODEL), "d": THIRD, "e": MODEL}
    sites = compare_sites(models)
    assert not sites.same
    assert [group.sites for group in sites.groups] == [("b", "c", "e"), ("a",), ("d",)]
    assert sites.n_sites == 5
    assert "different models: 3 models at 5 sites" in str(sites)
    assert sites.differences(1)[0] == "unlike A: 2 of 2 codes differ"
    assert "seed is '0' and '1'" in sites.differences(2)[0]
    assert sites.share_different(0, 1) == 1.0
    assert sites.share_different(0, 2) is None  # other seeds: codes mean other points


def test_all_sites_the_same() -> None:
    sites = compare_sites({str(i): replace(MODEL) for i in range(4)})
    assert sites.same
    assert str(sites).startswith("same model at all 4 sites")


def test_rows_that_change_are_counted_for_every_two_groups() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 2))
    models = {"a": MODEL, "b": OTHER, "c": THIRD}
    sites = compare_sites(models, rows=rows)
    labels = [model.predict(rows) for model in models.values()]
    expected = tuple(tuple(int((x != y).sum()) for y in labels) for x in labels)
    assert expected[0][1] > 0
    assert sites.changed == expected
    assert sites.n_rows == 200
    assert f"{expected[0][1]} of 200 rows get another class" in str(sites)


def test_names_that_contradict_each_other_part_a_group() -> None:
    """A model without names fits both of two that read tables differently; those are not alike."""
    turned = replace(MODEL, feature_names=("y", "x"))
    sites = compare_sites({"a": MODEL, "b": replace(MODEL, feature_names=("x", "y")), "c": turned})
    assert [group.sites for group in sites.groups] == [("a", "b"), ("c",)]


def test_one_model_is_no_comparison() -> None:
    with pytest.raises(ReplearnError, match="at least two models, got 1"):
        compare_sites({"a": MODEL})


@pytest.mark.parametrize("n_sites", [2, 5, 150])
def test_the_picture_is_a_whole_svg(n_sites: int) -> None:
    pytest.importorskip("matplotlib")
    from replearn.audits.figures import sites_figure

    kinds = [MODEL, MODEL, OTHER, THIRD]
    models = {f"site {i} <&> $x$": kinds[i % 4] for i in range(n_sites)}
    svg = sites_figure(compare_sites(models))
    root = ElementTree.fromstring(svg)
    assert root.tag.endswith("svg")
    assert svg == sites_figure(compare_sites(models))
    assert len(svg) < 200_000
    texts = [text.strip() for text in root.itertext() if text.strip()]
    assert "same" in texts
    assert ("A  site 0 <&> $x$" in texts) == (n_sites < 100)


def test_the_page_names_every_site_and_escapes_it() -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    from replearn.audits.report import sites_report

    page = sites_report(compare_sites({"<b>": MODEL, "rome": OTHER}), "replearn compare x")
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "2 different models at 2 sites." in page
    assert MODEL.fingerprint in page
    assert OTHER.fingerprint in page
