"""The planner's page in a real browser: its numbers are the library's, to the printed digit."""

import html
import importlib.util
import itertools
import json
import math
import re
import shutil
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from replearn.plans.cell_prices import expected_range, price, width_ratio
from tests.browser import browse, needs_chromium

PLANNER = Path(__file__).resolve().parents[2] / "docs/planner"
STUDY = {
    "rows": 20_000,
    "sites": 2,
    "disagreement": 0.1,
    "numbers": 5,
    "bits": 4,
    "base": 0.2,
    "signal": 0.1,
}
_CHOICES = ((2, 3, 16), (1, 7, 49, 128), (0, 1, 4, 8), (0.005, 0.037, 0.3))
GRID = [
    STUDY
    | {"sites": sites, "numbers": q, "bits": bits, "disagreement": rho}
    | {"rows": (1_000, 64_321)[i % 2]}
    for i, (sites, q, bits, rho) in enumerate(itertools.product(*_CHOICES))
] + [STUDY | {"base": base, "signal": 0.37} for base in (0.001, 0.03, 0.5, 0.77)]

# types every study into the fields, as a reader would, and writes down what the page says
TYPE = """
<pre id="seen"></pre><script>
const fields = ["verdict", "price", "share", "needed", "affordable", "entropy", "good", "rounded",
  "agreement", "pair", "width"];
const cells = id => [...document.querySelectorAll(`#${id} tr`)].map(
  tr => [...tr.children].map(td => td.textContent));
document.getElementById("seen").textContent = "SEEN" + JSON.stringify(STUDIES.map(study => {
  for (const [name, value] of Object.entries(study)) {
    const input = document.getElementById(name);
    if (Number(input.value) === value) continue;
    input.value = value;
    input.dispatchEvent(new Event("input"));
  }
  const seen = Object.fromEntries(fields.map(id => [id, document.getElementById(id).textContent]));
  return {...seen, rows: cells("by-rows"), sites: cells("by-sites"),
    notes: document.getElementById("notes").children.length,
    link: document.getElementById("link").getAttribute("href")};
})) + "END";
</script></body>
"""
# what a keyboard can reach, and how wide the page is
LOOK = """
<pre id="seen"></pre><script>
document.getElementById("seen").textContent = "SEEN" + JSON.stringify({
  values: Object.fromEntries([...document.querySelectorAll("input[type=number]")].map(
    input => [input.id, Number(input.value)])),
  share: document.getElementById("share").textContent,
  link: document.getElementById("link").getAttribute("href"),
  ground: getComputedStyle(document.body).backgroundColor,
  curves: document.querySelectorAll("figure > svg path").length,
  text: Math.min(...[...document.querySelectorAll("svg text")].map(
    text => text.getBoundingClientRect().height)),
  hidden: [...document.querySelectorAll("input, button, a, summary")].filter(
    e => e.tabIndex < 0 || e.getBoundingClientRect().height === 0).length,
}) + "END";
</script></body>
"""


@pytest.fixture
def page(tmp_path):
    """A copy of the page that ends with a script of the test."""
    shutil.copytree(PLANNER, tmp_path / "planner")

    def with_script(script):
        path = tmp_path / "planner/index.html"
        text = (PLANNER / "index.html").read_text(encoding="utf-8")
        path.write_text(text.replace("</body>", script), encoding="utf-8")
        return path

    return with_script


def seen(path, *options, fragment=""):
    done = browse(path, "--dump-dom", *options, fragment=fragment)
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    found = re.findall(r"(?s)<pre id=\"seen\">SEEN(.*?)END</pre>", done.stdout)
    assert found, done.stdout[-500:]
    return json.loads(html.unescape(found[0]))


# ---------------------------------------------------------------- the library's numbers, as shown


def shown(x):
    rounded = float(f"{x:.3g}")
    if rounded >= 1000:
        return f"{rounded:,.0f}"
    if rounded == 0:
        return "0.00"
    if rounded < 1e-6:
        return re.sub(r"e-0?", "e-", f"{x:.2e}")
    return f"{x:.{max(0, 2 - math.floor(math.log10(rounded)))}f}"


def entropy(study):
    base = study["base"]
    return -(base * math.log(base) + (1 - base) * math.log(1 - base))


cached_price = cache(price)


def nats(study, rows=None, **changes):
    s = study | changes
    cost = cached_price(s["numbers"], s["bits"], s["disagreement"], s["sites"])
    return cost / (rows or s["rows"])


def affordable(study, rows):
    limit = 0.1 * study["signal"] * entropy(study)
    fine = [q for q in range(1, 129) if nats(study, rows, numbers=q) <= limit]
    most = max(fine, default=0)
    return "128 or more" if most == 128 else str(most)


def agreement(study, n_sites):
    """The disagreement at which ``width_ratio`` gives these cells to that many sites."""
    q, bits, rho, planned = (study[key] for key in ("numbers", "bits", "disagreement", "sites"))
    if bits:
        return max(0.0, 1 - (n_sites - 1) * rho / (planned - 1))
    gap = math.sqrt(2 / math.pi) * expected_range(n_sites)
    return max(0.0, 1 - gap / width_ratio(q, bits, rho, planned)) ** q


def expected(study):
    gain = study["signal"] * entropy(study)
    cost = nats(study)
    q, bits, rho, n_sites = (study[key] for key in ("numbers", "bits", "disagreement", "sites"))
    return {
        "price": shown(cost),
        "share": shown(100 * cost / gain) + " %",
        "needed": shown(nats(study, 1) / gain / 0.1),
        "affordable": affordable(study, study["rows"]),
        "entropy": shown(entropy(study)),
        "good": shown(entropy(study) - gain),
        "rounded": shown(entropy(study) - gain + cost),
        "agreement": shown(agreement(study, n_sites)),
        "pair": shown(agreement(study, 2)),
        "width": shown(width_ratio(q, bits, rho, n_sites) * math.sqrt(2)),
        "rows": [
            [
                f"{rows:,}",
                shown(nats(study, rows)),
                shown(100 * nats(study, rows) / gain) + " %",
                affordable(study, rows),
            ]
            for rows in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
        ],
        "sites": [
            [
                str(n),
                shown(agreement(study, n)),
                shown(100 * nats(study, sites=n) / gain) + " %",
            ]
            for n in (2, 3, 4, 8, 16, 32)
        ],
    }


# ---------------------------------------------------------------- tests


def test_tables_are_in_step_with_the_library():
    spec = importlib.util.spec_from_file_location("make_tables", PLANNER / "make_tables.py")
    make_tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_tables)
    remedy = "run python docs/planner/make_tables.py"
    assert make_tables.PATH.read_text(encoding="utf-8") == make_tables.tables(), remedy


@needs_chromium
def test_numbers_are_those_of_the_library_to_the_printed_digit(page):
    found = seen(page(f"<script>const STUDIES = {json.dumps(GRID)};</script>{TYPE}"))
    assert len(found) == len(GRID)
    for study, said in zip(GRID, found, strict=True):
        wanted = expected(study)
        assert {key: said[key] for key in wanted} == wanted, study


def test_cells_for_other_numbers_of_sites_are_those_of_width_ratio():
    for study in (STUDY, STUDY | {"bits": 0}, STUDY | {"bits": 0, "sites": 16}):
        q, bits, rho, n_sites = (study[key] for key in ("numbers", "bits", "disagreement", "sites"))
        for other in (2, 3):
            ratio = width_ratio(q, bits, 1 - agreement(study, other), other)
            assert ratio == pytest.approx(width_ratio(q, bits, rho, n_sites), rel=1e-9)


@needs_chromium
def test_verdicts_and_notes(page):
    studies = [STUDY, STUDY | {"rows": 1000, "sites": 3}, STUDY | {"rows": 100, "bits": 0}]
    studies += [STUDY | {"sites": 64, "disagreement": 0.02}]
    found = seen(page(f"<script>const STUDIES = {json.dumps(studies)};</script>{TYPE}"))
    assert [said["verdict"].split(":")[0] for said in found[:3]] == [
        "Affordable",
        "Expensive",
        "Out of reach",
    ]
    assert "rows per site" in found[1]["verdict"]
    # few rows of the rarer class; beyond the end of the table of hints
    assert [said["notes"] for said in found] == [0, 0, 1, 1]


@needs_chromium
@pytest.mark.parametrize("dark", [False, True])
def test_link_keeps_the_state(page, dark):
    study = STUDY | {"rows": 4321, "sites": 5, "numbers": 9, "bits": 2, "base": 0.07}
    fragment = "#" + "&".join(f"{name}={value}" for name, value in study.items())
    options = ["--blink-settings=preferredColorScheme=0"] if dark else []
    found = seen(page(LOOK), *options, fragment=fragment)
    assert found["values"] == study
    assert found["link"] == fragment
    assert found["share"] == expected(study)["share"]
    assert found["curves"] == 3 + 3 + 1
    assert found["hidden"] == 0
    assert found["text"] >= 9.5
    assert found["ground"] == ("rgb(20, 24, 30)" if dark else "rgb(255, 255, 255)")


@needs_chromium
def test_nonsense_in_a_link_is_not_taken(page):
    found = seen(page(LOOK), fragment="#rows=abc&sites=1000&bits=-3&numbers=&base=2")
    assert found["values"] == STUDY | {"sites": 64, "bits": 0, "base": 0.999}


class _Fields(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.inputs, self.labelled = {}, set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if tag == "input":
            self.inputs[named["id"]] = named
        if tag == "label":
            self.labelled.add(named["for"])


def test_every_input_has_a_label_and_nothing_comes_from_elsewhere():
    text = (PLANNER / "index.html").read_text(encoding="utf-8")
    fields = _Fields(text)
    assert len(fields.inputs) == 2 * len(STUDY)
    for name, attributes in fields.inputs.items():
        assert name in fields.labelled or attributes.get("aria-label"), name
    for path in PLANNER.glob("*.*"):
        urls = re.findall(r"https?://[^\s\"')]+", path.read_text(encoding="utf-8"))
        assert set(urls) <= {"http://www.w3.org/2000/svg"}, path
