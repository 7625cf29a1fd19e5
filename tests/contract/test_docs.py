"""Pages show what comes out, name files that exist, and keep to the rules of CONTRIBUTING.md."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import replearn
from replearn.words import Landed, Rung, ladder, where_we_landed

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import run_pages  # noqa: E402

PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if not {"_build", "commands", "results"} & set(page.relative_to(ROOT / "docs").parts[:-1])
]
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]
GUIDES = [
    page for page in PAGES if page.parent.name in ("guide", "howto") or page.name == "start.md"
]

#: What nobody should write, and what to write.
WORST = {
    r"\banother (model|lab|centre|hospital|seed)\b": "a different model",
    r"(?<![\w.])\.\d": "0.1",
    r"\d %": "10%",
    r"and says so\b": "a full stop",
    r"\b(sites|multi-site)\b": "labs or centres",
    r"\b(simply|obviously|of course)\b": "nothing",
    r"\b(utilise|leverage|in order to)\b": "use, to",
    r"\bshall\b": "should, or must",
    r"\b(he|she|his|her)\b": "they",
    r"\blets? expect\b": "explains, predicts",
    r"\b(is|are) to be\b": "must be, or a verb",
    r"\b[Aa]sked were\b": "a subject that can act",
}
MOST_WORDS = 30


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(text: str) -> str:
    """Paragraphs and items, without code, tables, pictures, links' addresses and headings."""
    text = re.sub(r"(?ms)^(```+|:::+)\{?(?:raw|toctree)?.*?^\1$", "", text)
    text = re.sub(r"(?ms)^---\n.*?^---\n", "", text)
    text = re.sub(r"(?ms)^```.*?^```$", "", text)
    text = re.sub(r"(?m)^(\||#|!\[|<img|:::|\([\w-]+\)=).*$", "", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"`[^`]*`", "x", text)


@pytest.mark.parametrize(
    "page",
    [
        page if name(page) == "docs/index.md" else pytest.param(page, marks=pytest.mark.slow)
        for page in run_pages.pages()
    ],
    ids=name,
)
def test_pages_show_what_comes_out(page):
    complaints = run_pages.check(page)
    hint = "python docs/run_pages.py --write puts in what comes out now"
    assert not complaints, "\n".join([*complaints, hint])


def test_what_differs_is_noticed():
    text = "```console\n$ replearn show none.json\nAll is well.\n```\n"
    ((step, printed),) = run_pages.run(text)
    assert not run_pages.agrees(step.shown, printed)
    assert run_pages.agrees("a ... d", "a b c d")
    assert not run_pages.agrees("a 1.5", "a 1.6")


def test_a_page_is_written_anew_where_its_words_changed_too(tmp_path):
    shown = "```console\n$ replearn show none.json\n...\nnone.json is no file here.\n...\n```\n"
    page = tmp_path / "page.md"
    page.write_text(shown.replace("is no file here", "does not exist"))
    (_, printed), *_ = run_pages.run(page.read_text())
    (line,) = [line for line in printed.splitlines() if "none.json" in line]
    page.write_text(shown.replace("none.json is no file here.", line.replace("exist", "be there")))
    assert run_pages.told(page, is_written=True)[0]
    assert line in page.read_text()

    # a page that cannot be run does not stop the others
    page.write_text("```console\n$ rm study.json\n```\n")
    is_well, words = run_pages.told(page, is_written=False)
    assert not is_well
    assert "a page runs replearn" in words


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_no_set_up_is_hidden_from_the_reader(page):
    assert "<!-- run:" not in page.read_text(encoding="utf-8")


#: Blocks that are no output: lists of commands, notation, code that test_r.py runs, directives.
SHOWN_ONLY = ("bash", "text", "json", "r", "{")
BLOCK = re.compile(r"(?ms)^```([^\n]*)\n(.*?)^```$")


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_what_looks_like_output_is_run(page):
    """README showed a table that the demo no longer printed: its block had no language."""
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.finditer(text):
        language, body = block.groups()
        if run_pages.NOT_RUN.search(text[: block.start()]):
            continue
        if language in ("python", "console"):
            assert any(run_pages.steps(block[0])), block[0]
        else:
            assert language.startswith(SHOWN_ONLY), block[0]
        if language == "text":
            assert re.search(r"\d{2}", body) is None, block[0]


@pytest.mark.slow
def test_results_are_those_of_their_files(tmp_path):
    """What docs/results.py would write is there: tables, pictures and the sentences quoted."""
    ignored = shutil.ignore_patterns("_build", "api", "*.png")
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=ignored)
    shutil.copy(ROOT / "README.md", tmp_path)
    subprocess.run([sys.executable, tmp_path / "docs" / "results.py"], check=True)
    written = ["README.md", "docs/index.md", "docs/results.md"]
    written += ["docs/pictures/results.svg", "docs/pictures/centres.svg"]
    hint = "python docs/results.py writes it"
    for path in written:
        assert (tmp_path / path).read_bytes() == (ROOT / path).read_bytes(), f"{path}: {hint}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["table1.py --rows", "populations.py --summary docs/results/populations.csv"]
)
def test_table1_is_todays(command):
    script, *options = command.split()
    call = [sys.executable, f"benchmarks/{script}", *options]
    printed = subprocess.run(call, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    page = (ROOT / "docs/theory/table1.md").read_text(encoding="utf-8")
    rows = [line for line in printed.splitlines() if line.startswith("|") and "---" not in line]
    assert len(rows) > 5
    assert [row for row in rows[1:] if row not in page] == []


def test_numbers_in_sentences_are_those_of_their_files():
    """Of months, of intervals, and of a second promise of Table 1."""
    results, pages = ROOT / "docs/results", ROOT / "docs"
    months = pd.read_csv(results / "months.csv").set_index("learned from")
    alone, several = months.loc[1], months.loc[2:].sum()
    said = (pages / "guide/retrain.md").read_text(encoding="utf-8")
    for n in (several, alone):
        assert f"{n['a different model']} of {n['later months']}" in said

    covered = pd.read_csv(results / "intervals.csv")["covered"]
    said = (pages / "howto/statistics.md").read_text(encoding="utf-8")
    assert f"{covered.min():.1%} to {covered.max():.1%}" in said

    promise = {"margin": 0.2, "max_error": 0.1, "max_disagreement": 0.1}
    rows = replearn.table1(n_features=20, fit_intercept=False, **promise).rows
    said = (pages / "theory/table1.md").read_text(encoding="utf-8")
    for line in ("svm", "dp", "svm+3"):
        assert f"{rows[line]['certified']:,}" in said


def test_what_is_to_be_installed_exists():
    """The README of a bundle named an extra that had left."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {}
    for path in (*TEXTS, *(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("*.js")):
        text = path.read_text(encoding="utf-8")
        for extra in re.findall(r"pip install ['\"]?(?:\.|replearn)\[(\w+)\]", text):
            named[extra] = name(path)
    assert {"halfspaces", "onnx"} <= set(named)
    assert set(named) <= set(project["optional-dependencies"]), named


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)|<img src=\"([^\"]+)\"", text)
    for link in (one or other for one, other in links):
        if not link.startswith(("http", "mailto:")):
            assert (page.parent / link).exists(), link


def test_threats_name_tests_that_are_there():
    text = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+\.py|benchmarks/\w+\.py)`", text))
    assert len(named) > 15
    assert [one for one in named if not [*ROOT.glob(one), *ROOT.glob(f"tests/*/{one}")]] == []


def worst_words(text: str) -> str:
    """What nobody should write, one for each line."""
    return "\n".join(
        f"{match[0]!r} in {text[max(0, match.start() - 40) : match.end() + 20]!r}: write {better}"
        for pattern, better in WORST.items()
        for match in re.finditer(pattern, text)
    )


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_the_worst_words_are_absent(page):
    found = worst_words(prose(page.read_text(encoding="utf-8")))
    assert not found, found


def docstrings(module: Path) -> str:
    """All docstrings of a module, without examples."""
    nodes = ast.walk(ast.parse(module.read_text(encoding="utf-8")))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
    return prose(re.sub(r"(?ms)^ *>>> .*?(?=^\s*$|\Z)", "", "\n\n".join(texts)))


def test_the_worst_words_are_absent_from_docstrings():
    modules = (ROOT / "src" / "replearn").rglob("*.py")
    found = {
        name(module): worst for module in modules if (worst := worst_words(docstrings(module)))
    }
    assert not found, "\n".join(f"{path}: {worst}" for path, worst in found.items())


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/index.md", *GUIDES], ids=name)
def test_sentences_are_short(page):
    paragraphs = re.split(r"\n\s*\n|\n(?=[-*>:] |\d+\. )", prose(page.read_text(encoding="utf-8")))
    sentences = [s for p in paragraphs for s in re.split(r"(?<=[.?!:;])[)*\"]*\s+", p)]
    long = [s for s in sentences if len(re.findall(r"[\w'-]+", s)) > MOST_WORDS]
    assert not long, "\n---\n".join(long)


def test_each_proof_names_a_test_that_exists():
    page = (ROOT / "docs/theory/proofs.md").read_text(encoding="utf-8")
    named = re.findall(r"^- (\w+): `(test_\w+\.py)::(test_\w+)`$", page, re.MULTILINE)
    assert [number for number, _, _ in named] == re.findall(r"{dropdown} (\w+)\. ", page)
    for _, file, test in named:
        (found,) = (ROOT / "tests").rglob(file)
        assert f"\ndef {test}(" in found.read_text(encoding="utf-8")


def n_words(page: Path) -> int:
    """All that a reader reads, code and outputs included; lines of tables are no words."""
    return len(re.findall(r"\S*\w\S*", page.read_text(encoding="utf-8")))


def test_there_is_not_too_much_to_read():
    assert n_words(ROOT / "README.md") < 700
    generated = {"results.md", "reference/index.md"}  # the second is a list of names
    beside = {"architecture.md", "trust.md"}  # they belong to CONTRIBUTING.md
    written = [page for page in PAGES if str(page.relative_to(ROOT / "docs")) not in generated]
    assert sum(page.name not in beside for page in written) <= 27
    assert sum(map(n_words, written)) <= 25_200


@pytest.mark.parametrize("page", sorted((ROOT / "docs/guide").glob("[!i]*.md")), ids=name)
def test_guides_have_a_picture(page):
    assert re.search(r"(?m)^!\[.+\]\(\.\./pictures/.+\)$", page.read_text(encoding="utf-8"))


def drawn(svg: str) -> str:
    """What a reader of the picture hears."""
    root = ElementTree.fromstring(svg)
    assert root.attrib["role"] == "img"
    assert "currentColor" in svg
    return root.attrib["aria-label"]


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/pictures").glob("*.svg")), ids=lambda path: path.stem
)
def test_pictures_of_the_documentation_can_be_heard(path):
    assert len(drawn(path.read_text(encoding="utf-8"))) > 20


@pytest.mark.parametrize(
    "path", sorted((ROOT / "docs/pictures").glob("*.svg")), ids=lambda path: path.stem
)
def test_words_in_pictures_are_whole_and_can_be_read_on_a_phone(path):
    """A page of 400 pixels shows 392 of a picture. Letters are as wide as those of DejaVu Sans."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    width = float(root.attrib["viewBox"].split()[2])
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        size = float(text.attrib.get("font-size", root.attrib["font-size"]))
        assert size * 392 / width >= 9, "".join(text.itertext())
        words = "".join(text.itertext())
        narrow = sum(letter in " iljtfr.,;:'()" for letter in words)
        wide = sum(letter in "mwMW%" for letter in words)
        length = size * (0.61 * len(words) - 0.27 * narrow + 0.34 * wide)
        before = {"start": 0.0, "middle": length / 2, "end": length}
        left = float(text.attrib["x"]) - before[text.attrib.get("text-anchor", "start")]
        assert left >= 0, text.text
        assert left + length <= width, text.text


@pytest.mark.parametrize("page", TEXTS, ids=name)
def test_captions_of_cells_say_what_the_picture_shows(page):
    """A caption said "All marks inside" under marks outside."""
    text = page.read_text(encoding="utf-8")
    for caption, path in re.findall(r"(?m)^!\[([^]]+)\]\(([^)]+\.svg)\)$", text):
        said = drawn((page.parent / path).read_text(encoding="utf-8"))
        if "rounding cells" in said:
            assert ("all marks" in caption.lower()) == said.endswith("all marks are inside.")


def test_a_ladder_compares_with_its_longest_rung():
    svg = ladder(
        [Rung("base", 0.0, "0%", "all"), Rung("ours", 0.2, "20%", "9 of 9", True)], "worth"
    )
    assert drawn(svg) == "worth: base 0%, same at all; ours 20%, same at 9 of 9."
    assert re.findall(r'width="([\d.]+)" height="24"', svg) == ["2.0", "186.0"]


def test_marks_outside_of_a_box_are_told():
    names = ["age", "a<b"]
    reach = np.array([0.2, 0.2])
    inside = Landed(np.array([0.1, -0.4]), reach)
    assert drawn(where_we_landed(names, {"x": inside})).endswith("are inside.")
    svg = where_we_landed(names, {"x": Landed(np.array([0.1, -9.0]), reach), "y": inside})
    assert drawn(svg).endswith("1 has a mark outside.")
    marks = svg.count("<circle"), svg.count('class="mark"'), svg.count("<line")
    assert marks == (2 + 1, 2 + 1, 4)  # two of each lab, one of each in the legend
    assert "-9.0 cells" in svg  # beyond the edge: the number says how far
