"""The page study.html: it fits in a browser what Python fits, and connects to nothing."""

import gzip
import io
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from replearn.datasets import load_readmission
from replearn.errors import ReplearnError
from replearn.reports import bundle
from replearn.study import GlmStudy, Request, lab_sums, publish, replicate
from replearn.study.passes import table_of
from replearn.tables import open_table
from tests.contract.browser import Browser, Firefox
from tests.contract.replications import CASES, items, make_study, open_case, replicated, write_table
from tests.unit.test_survival import trial

needs_browser = pytest.mark.skipif(
    not (shutil.which("chromium") and shutil.which("chromedriver")),
    reason="chromium and chromedriver are not installed",
)
needs_firefox = pytest.mark.skipif(
    not shutil.which("firefox-esr"), reason="firefox-esr is not installed"
)
CASE = CASES["text levels and missing values"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A bundle, and tables of three labs beside it."""
    place = tmp_path_factory.mktemp("bundle")
    study, model = make_study(write_table(place / "a.csv", CASE, seed=0), CASE)
    model.save(place / "original.json")
    study.begin().save(place / "state.json")
    same = write_table(place / "same.csv", CASE, seed=100)
    (place / "same.csv.gz").write_bytes(gzip.compress(same.read_bytes()))
    write_table(place / "commas.csv", CASES["decimal commas"], seed=100)
    (place / "odd.csv").write_text("age,bmi\n1,2\n")
    bundle.write_bundle(study, place / "out")
    return place


def test_a_bundle_is_the_same_each_time(folder):
    names = ["README.txt", "rehearsal.csv", "study.html", "study.json"]
    assert sorted(path.name for path in (folder / "out").iterdir()) == names
    study = GlmStudy.load(folder / "out" / "study.json")
    assert bundle.study_page(study) == (folder / "out" / "study.html").read_text()
    assert bundle.rehearsal(study) == (folder / "out" / "rehearsal.csv").read_text()


def test_a_page_holds_no_address(folder):
    page = (folder / "out" / "study.html").read_text()
    assert "connect-src 'none'" in page
    assert set(re.findall(r"https?://[^\"' ]*", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(link|img|iframe)|\bsrc=|\bfetch\(|XMLHttpRequest", page)


@pytest.mark.parametrize("name", CASES)
def test_a_rehearsal_can_be_replicated(tmp_path, name):
    study, _ = make_study(write_table(tmp_path / "a.csv", CASES[name], seed=1), CASES[name])
    (tmp_path / "rehearsal.csv").write_text(bundle.rehearsal(study))
    case = CASES["text levels and missing values"] if name == "decimal commas" else CASES[name]
    _, replication = replicated(study, tmp_path / "rehearsal.csv", case)
    assert [finding for finding in replication.findings if finding.column] == []


def test_a_rehearsal_has_believable_values():
    table = load_readmission("Ashford", 1500)
    study = publish(
        open_table(table, target="readmitted"), Request(target="readmitted", ridge=0.01)
    ).study
    invented = pd.read_csv(io.StringIO(bundle.rehearsal(study)))
    assert set(invented) == set(table)
    for name, cells in invented.items():
        if cells.dtype.kind in "if":  # no half admissions, nobody of 150 years
            assert set(cells.dropna() % 1) == {0} or set(table[name].dropna() % 1) != {0}
            assert table[name].min() <= cells.min() < cells.max() <= table[name].max()
        else:
            assert set(cells.dropna()) <= {*table[name], "other"}


def test_a_bundle_is_there_as_a_whole_or_not_at_all(folder, tmp_path, monkeypatch):
    study = GlmStudy.load(folder / "out" / "study.json")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(ReplearnError, match="new or an empty folder"):
        bundle.write_bundle(study, tmp_path / "full")

    def stop(_: GlmStudy) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(bundle, "rehearsal", stop)
    with pytest.raises(KeyboardInterrupt):
        bundle.write_bundle(study, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def wait_for_answer(browser: Browser) -> tuple[str, str]:
    """The verdict, or what the page says in its place."""
    browser.wait(
        "document.getElementById('busy').hidden && document.getElementById('status').innerText"
    )
    browser.wait("!document.getElementById('status').innerText.startsWith('Reading')")
    shown = browser.run(
        "return [document.getElementById('result').hidden, "
        "document.getElementById('verdict').innerText, document.getElementById('status').innerText]"
    )
    return ("", shown[2]) if shown[0] else (shown[1], shown[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "width"),
    [
        pytest.param(Browser, 1000, marks=needs_browser),
        pytest.param(Browser, 360, marks=needs_browser),
        pytest.param(Firefox, 1000, marks=needs_firefox),
    ],
)
def test_a_browser_replicates(folder, tmp_path, kind, width):
    study = GlmStudy.load(folder / "out" / "study.json")
    model, replication = replicated(study, folder / "same.csv", CASE)
    assert replication.same
    model.save(tmp_path / "model.json")
    table = open_case(folder / "same.csv", CASE, study.design.encoding.names)
    lab_sums(study, table, lab="same").save(tmp_path / "sums.json")
    with kind(tmp_path, width) as browser:
        browser.open(folder / "out" / "study.html")
        browser.choose("file", folder / "same.csv.gz")
        facts = replication.facts()
        assert wait_for_answer(browser)[0] == facts.verdict
        shown = browser.run("return document.getElementById('result').innerText")
        for item in items((*facts.items, *facts.details)):
            cells = [item] if isinstance(item, str) else item
            if isinstance(item, dict):
                cells = [
                    item["title"],
                    *item["header"],
                    *(cell for row in item["rows"] for cell in row),
                ]
            assert all(cell in shown for cell in cells), item
        assert browser.run("return document.activeElement.id") == "verdict"
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")
        assert browser.run("return document.querySelector('svg').getAttribute('aria-label')")
        inputs = "[...document.querySelectorAll('input, select, progress')]"
        assert browser.run(f"return {inputs}.every((one) => one.labels.length > 0)")
        browser.click("save-model")
        assert browser.download("model.json") == (tmp_path / "model.json").read_bytes()
        browser.click("save-sums")
        assert browser.download("same.sums.json") == (tmp_path / "sums.json").read_bytes()
        browser.click("save-report")
        report = browser.download("report.html").decode()
        assert facts.verdict in report
        assert model.fingerprint in report
        assert "<script" not in report
        browser.choose("state", folder / "state.json")
        wait_for_answer(browser)
        browser.run(
            "const lab = document.getElementById('lab'); lab.value = 'É 1';"
            "lab.dispatchEvent(new Event('change'))"
        )
        wait_for_answer(browser)
        browser.click("save-sums")
        lab_sums(study, table, study.begin(), lab="É 1").save(tmp_path / "sums.json")
        assert browser.download("É 1.sums.json") == (tmp_path / "sums.json").read_bytes()
        if kind is Browser:
            # a browser that does not know webrtc 'block' yet says so
            complaints = [text for text in browser.complaints() if "directive 'webrtc'" not in text]
            assert complaints == []


@pytest.mark.slow
@needs_browser
def test_a_browser_replicates_survival(tmp_path):
    for seed in (0, 1):
        trial(2000, seed).to_csv(tmp_path / f"{seed}.csv", index=False)
    table = open_table(tmp_path / "0.csv", target="days", offset="died")
    study = publish(table, Request(kind="survival", time="days", target="died")).study
    bundle.write_bundle(study, tmp_path / "out")
    model, replication = replicate(study, table_of(study.design, tmp_path / "1.csv"))
    model.save(tmp_path / "model.json")
    with Browser(tmp_path) as browser:
        browser.open(tmp_path / "out" / "study.html")
        columns = browser.run("return document.getElementById('columns').innerText")
        assert "to the event, or to the end of observation" in columns
        assert "interval" not in columns
        browser.choose("file", tmp_path / "out" / "rehearsal.csv")
        assert wait_for_answer(browser)[0].startswith("A different model")
        browser.choose("file", tmp_path / "1.csv")
        browser.wait("document.getElementById('status').innerText.startsWith('1.csv: done')")
        assert wait_for_answer(browser)[0] == replication.facts().verdict
        browser.click("save-model")
        assert browser.download("model.json") == (tmp_path / "model.json").read_bytes()


@pytest.mark.slow
@needs_browser
def test_a_browser_refuses_and_goes_on(folder, tmp_path):
    with Browser(tmp_path) as browser:
        browser.open(folder / "out" / "study.html")
        browser.choose("file", folder / "odd.csv")
        verdict, words = wait_for_answer(browser)
        assert verdict == ""
        assert words.startswith("odd.csv has no columns 'ward', 'smoker', 'died'")
        browser.choose("file", folder / "commas.csv")
        assert 'give "comma: 1234,5" in the menu "Decimal separator"' in wait_for_answer(browser)[1]
        browser.run(
            "const sign = document.getElementById('decimal'); sign.value = ',';"
            "sign.dispatchEvent(new Event('change'))"
        )
        assert wait_for_answer(browser)[0].startswith("The same model")
        browser.choose("file", folder / "out" / "rehearsal.csv")
        assert "point where the decimal sign is a comma" in wait_for_answer(browser)[1]
        browser.run("document.getElementById('decimal').value = '.'")
        browser.choose("opened", folder / "original.json")
        assert wait_for_answer(browser)[0].startswith("A different model")
        assert browser.run("return document.getElementById('save-model').hidden")
        browser.run(
            "const files = new DataTransfer(); files.items.add(new File(['a,a'], 'dropped.csv'));"
            "document.body.dispatchEvent("
            "new DragEvent('drop', {dataTransfer: files, bubbles: true}))"
        )
        assert wait_for_answer(browser)[1].startswith("dropped.csv must have different names")
        refused = browser.run(
            "try { new XMLHttpRequest().open('GET', 'http://127.0.0.1:9/'); "
            "return fetch('http://127.0.0.1:9/').then(() => 'sent', () => 'refused'); }"
            "catch { return 'refused'; }"
        )
        assert refused == "refused"
        assert any("Content Security Policy" in words for words in browser.complaints())
