"""Reports: complete, self-contained, the same bytes for the same result."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from sklearn.linear_model import LogisticRegression

import replearn as rl

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from replearn.audits.report import (
    audit_report,
    methods_paragraph,
    model_report,
    plain_verdict,
    save_report,
)


@pytest.fixture(scope="module")
def table():
    return rl.datasets.make_margin(4000, 4, margin=0.3, random_state=5)


@pytest.fixture(scope="module")
def result(table):
    classifier = rl.ReplicableSVMClassifier(margin=0.3, batch_size=50, rounding="centre")
    found = rl.audit(classifier, *table, n_pairs=12)
    return replace(found, command="replearn audit 'a <b>.csv'")


@pytest.fixture(scope="module")
def page(result):
    return audit_report(result)


class Reader(HTMLParser):
    """Tags that are open, and all addresses."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self):
        super().__init__()
        self.open, self.addresses, self.ids, self.n_svg = [], [], [], 0

    def handle_starttag(self, tag, attributes):
        self.n_svg += tag == "svg"
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "action", "data"):
                self.addresses.append(value)
            if name == "id":
                self.ids.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()


def read(page):
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return reader


def test_the_page_is_well_formed_and_needs_no_network(page):
    reader = read(page)
    assert all(address.startswith(("#", "data:")) for address in reader.addresses)
    assert "<script" not in page
    assert not re.search(r"url\((?!#)", page)
    assert reader.n_svg >= 5


def test_verdict_methods_and_command_are_there(result, page):
    assert plain_verdict(result).split(".")[0] in page
    assert "Clopper-Pearson interval" in methods_paragraph(result)
    assert methods_paragraph(result).replace("'", "&#39;") in page
    assert "replearn audit &#39;a &lt;b&gt;.csv&#39;" in page
    assert page.index('id="verdict"') < page.index("<svg")


def test_both_questions_stand_apart(page):
    assert "small parts" in page
    assert "full-size halves" in page
    assert "answer different questions" in page


def test_same_result_same_bytes(result, page):
    assert audit_report(result) == page


@pytest.mark.parametrize("n_different", [0, 5, 12])
def test_every_verdict_has_words(result, n_different):
    main = result.main
    pairs = tuple(replace(pair, same=i >= n_different) for i, pair in enumerate(main.of("fresh")))
    asked = replace(main, pairs=pairs, max_disagreement=0.3)
    changed = replace(result, questions=(asked,))
    words = {0: "enough to say", 5: "too little evidence", 12: "more often than"}[n_different]
    assert words in plain_verdict(changed)
    assert f'class="card verdict {changed.verdict}"' in audit_report(changed)


def test_peers_get_a_report_without_codes(table):
    found = rl.audit(LogisticRegression(), *table, n_pairs=3)
    page = audit_report(found)
    read(page)
    assert "predicted probability" in page
    assert "Which parts of the model are stable" not in page


def test_an_audit_writes_its_own_report(result, page, tmp_path):
    save_report(result, tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text() == page


def test_a_model_report_escapes_what_a_file_says(table):
    import pandas as pd

    X, y = table
    frame = pd.DataFrame(X, columns=["<script>", "b$1$", "c", "d"])
    model = rl.ReplicableSVMClassifier(margin=0.3).fit(frame, y).model_
    page = model_report(model, {"rows": 4000, "estimated_disagreement": "0.02"}, "replearn show x")
    reader = read(page)
    assert "<script>" not in page
    assert "b$1$" in page
    assert model.fingerprint in page
    assert "estimated probability of 0.02" in page
    assert reader.n_svg == 1
