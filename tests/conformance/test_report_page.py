"""The reports in a real browser: they load without errors, and are readable on a phone."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import replearn as rl

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from replearn.audits.report import audit_report, model_report

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: install Debian's package chromium to run this"
)

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
    return folder


def browse(page: Path, *options: str) -> subprocess.CompletedProcess:
    """Open a page in a browser that cannot reach any network."""
    assert CHROMIUM is not None
    profile = page.parent / f"profile-{os.getpid()}"
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}"),
        *(*options, page.as_uri()),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


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


@pytest.mark.parametrize("name", ["audit", "model"])
def test_pages_load_without_errors(pages, name):
    done = browse(pages / f"{name}.html", "--dump-dom")
    assert done.returncode == 0
    assert "How this was made" in done.stdout
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["audit", "model"])
def test_figures_are_visible_and_nothing_hangs_over_the_side(pages, name, width):
    seen = measured(pages / f"{name}.html", width)
    assert seen["inner"] == width
    assert seen["scroll"] <= width
    assert len(seen["svgs"]) >= (5 if name == "audit" else 1)
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
