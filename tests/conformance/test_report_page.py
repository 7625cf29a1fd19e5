"""The reports in a real browser: they load without errors, and are readable on a phone."""

import html
import json
import re
import shutil
import subprocess
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import replearn as rl

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from replearn.audits.evaluation_page import evaluation_report
from replearn.audits.report import audit_report, model_report
from tests.browser import browse, needs_chromium

pytestmark = needs_chromium

# what a reader sees, written into the page by a copy of it that may run scripts
MEASURE = """
<pre id="measured"></pre><script>
const box = e => { const r = e.getBoundingClientRect();
  return [r.left, r.top, r.width, r.height]; };
const texts = [...document.querySelectorAll("svg text")].map(t => t.getBoundingClientRect().height);
document.getElementById("measured").textContent = JSON.stringify({
  inner: innerWidth,
  scroll: document.documentElement.scrollWidth,
  svgs: [...document.querySelectorAll("svg")].map(box),
  smallest: Math.min(...texts),
  body: parseFloat(getComputedStyle(document.querySelector("main p")).fontSize),
  verdict: box(document.getElementById("verdict")),
  firstFigure: document.querySelector("figure").getBoundingClientRect().top,
});
</script></body>
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    X, y = rl.datasets.make_margin(4000, 4, margin=0.3, random_state=5)
    classifier = rl.ReplicableSVMClassifier(margin=0.3, batch_size=50)
    (folder / "audit.html").write_text(audit_report(rl.audit(classifier, X, y, n_pairs=10)))
    model = classifier.fit(X, y).model_
    (folder / "model.html").write_text(model_report(model, {"rows": 4000}, "replearn show m.json"))
    (folder / "evaluation.html").write_text(supplement(folder))
    return folder


def supplement(folder):
    """The longest page of an evaluation: logistic, by group, with its protocol."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(3000, 12)), columns=[f"column {i}" for i in range(12)])
    table["site"] = rng.choice(["north", "south", "east", "west"], 3000)
    score = table.iloc[:, :12].sum(axis=1) + 2 * rng.normal(size=3000)
    table["label"] = np.where(score > 1, "yes", "no")
    pilot, rows = table[:800], table[800:]
    rows.to_csv(folder / "rows.csv", index=False)
    protocol = rl.plan_from_pilot(
        pilot.drop(columns="label"), pilot["label"].to_numpy(), samples_per_site=2000, hint_bits=4
    ).protocol
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rl.ReplicabilityWarning)  # few rows
        model = rl.fit_file(protocol.estimator(), folder / "rows.csv", "label").model_
    found = rl.evaluate_file(model, folder / "rows.csv", "label", by="site", describe=True)
    provenance = {"rows": 2200, "estimated_disagreement": "0.05"}
    return evaluation_report(
        found, "replearn evaluate m.json rows.csv", model, provenance, protocol
    )


def measured(page: Path, width: int) -> dict:
    copy = page.with_name(f"{page.stem}-{width}.html")
    text = re.sub(r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>", "", page.read_text())
    # a frame has exactly this width; windows have a smallest one
    framed = html.escape(text.replace("</body>", MEASURE), quote=True)
    copy.write_text(
        f'<!DOCTYPE html><body style="margin:0"><iframe style="border:0" width="{width}" '
        f'height="4000" srcdoc="{framed}"></iframe><pre id="out"></pre><script>onload = () => '
        '{ document.getElementById("out").textContent = "MEASURED" + document.querySelector('
        '"iframe").contentDocument.getElementById("measured").textContent + "END"; };'
        "</script></body>"
    )
    dom = browse(copy, "--dump-dom").stdout
    found = re.findall(r"MEASURED(\{.*?\})END", html.unescape(dom))
    assert found, dom[-500:]
    return json.loads(found[-1])


@pytest.mark.parametrize("name", ["audit", "model", "evaluation"])
def test_pages_load_without_errors(pages, name):
    done = browse(pages / f"{name}.html", "--dump-dom")
    assert done.returncode == 0
    assert "How this was made" in done.stdout
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["audit", "model", "evaluation"])
def test_figures_are_visible_and_nothing_hangs_over_the_side(pages, name, width):
    seen = measured(pages / f"{name}.html", width)
    assert seen["inner"] == width
    assert seen["scroll"] <= width
    assert len(seen["svgs"]) >= {"audit": 5, "model": 1, "evaluation": 2}[name]
    for left, _, wide, high in seen["svgs"]:
        assert left >= 0
        assert left + wide <= width
        assert wide >= 250
        assert high >= 100
    assert seen["body"] >= 16
    assert seen["smallest"] >= 9.5  # pixels, of the text in figures


def test_the_verdict_is_read_first(pages):
    seen = measured(pages / "audit.html", 390)
    top, height = seen["verdict"][1], seen["verdict"][3]
    assert top < 200
    assert top + height <= seen["firstFigure"]


def test_figures_are_drawn(pages, tmp_path):
    from matplotlib.image import imread

    shot = tmp_path / "shot.png"
    browse(pages / "audit.html", f"--screenshot={shot}", "--window-size=1280,3000")
    pixels = imread(shot)[..., :3]
    assert pixels.shape[1] == 1280
    blue = (abs(pixels - [0x1F / 255, 0x5F / 255, 0xA8 / 255]) < 0.05).all(axis=2)
    assert blue.sum() > 2000


PDFTOTEXT = shutil.which("pdftotext")


def test_a_supplement_prints_on_three_sheets_without_orphan_headings(pages, tmp_path):
    printed = tmp_path / "page.pdf"
    page = pages / "evaluation.html"
    browse(page, "--no-pdf-header-footer", f"--print-to-pdf={printed}")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b(?!s)", printed.read_bytes())) <= 3
    if PDFTOTEXT is None:  # Debian's package poppler-utils
        return
    command = [PDFTOTEXT, "-layout", str(printed), "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    headings = {html.unescape(h) for h in re.findall(r"<h[23]>([^<]*)</h[23]>", page.read_text())}
    assert len(headings) >= 8
    for sheet in filter(str.strip, text.split("\f")):
        last = [line.strip() for line in sheet.splitlines() if line.strip()][-1]
        assert last not in headings


@pytest.mark.parametrize("name", ["audit", "evaluation"])
def test_words_have_contrast(pages, name):
    """Every colour of text against its background: at least 4.5 to 1, as WCAG 2 asks."""
    copy = pages / f"{name}-contrast.html"
    text = re.sub(
        r"<meta http-equiv=\"Content-Security-Policy\"[^>]*>",
        "",
        (pages / f"{name}.html").read_text(),
    )
    copy.write_text(text.replace("</body>", CONTRAST))
    dom = browse(copy, "--dump-dom").stdout
    lowest = re.findall(r"LOWEST([0-9.]+) (.*?)END", html.unescape(dom))
    assert lowest, dom[-500:]
    assert float(lowest[-1][0]) >= 4.5, lowest[-1]


CONTRAST = """
<pre id="contrast"></pre><script>
const parse = c => { const m = c.match(/[0-9.]+/g).map(Number);
  return m.length > 3 && m[3] === 0 ? null : m; };
const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255;
  return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const back = e => { for (; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor);
  if (c) return c; } return [255, 255, 255]; };
let lowest = [99, ""];
for (const e of document.querySelectorAll("main *")) {
  if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
  const style = getComputedStyle(e), svg = e.closest("svg");
  const ink = parse(svg ? style.fill : style.color);
  if (!ink) continue;
  const a = light(ink), b = light(back(svg ? svg.parentElement : e));
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < lowest[0]) lowest = [ratio, e.tagName + " " + e.textContent.trim().slice(0, 40)];
}
document.getElementById("contrast").textContent =
  "LOWEST" + lowest[0].toFixed(2) + " " + lowest[1] + "END";
</script></body>
"""
