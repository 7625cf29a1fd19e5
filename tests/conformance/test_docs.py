"""The documentation is sound: what it shows comes out, what it names exists, and it builds."""

import importlib.util
import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

import replearn as rl
from replearn.cli.parser import make_parser

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def load(path):
    """A module of the documentation, by its file."""
    spec = importlib.util.spec_from_file_location(f"docs_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


run_pages = load(DOCS / "run_pages.py")
check_site = load(DOCS / "check_site.py")
PAGES = run_pages.pages()


# ---------------------------------------------------------------- what pages show


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_page_shows_what_comes_out(page):
    assert run_pages.check(page) == []


def test_there_are_pages_to_run():
    names = {page.relative_to(DOCS).as_posix() for page in PAGES}
    assert {"start.md", "tour.ipynb", "guide/multi-site.md", "howto/plan.md"} <= names


def test_steps_of_a_page():
    page = """
```python
>>> 1 + 1
2
>>> for i in range(2):
...     print(i)
0
1
```

<!-- not run: an example -->
```console
$ replearn fit nothing.csv
```

```console
$ pip install replearn
$ replearn plan \\
    --features 3
shown
```
"""
    steps = list(run_pages.steps(page))
    assert [step.source.split()[0] for step in steps] == ["1", "for", "replearn"]
    assert [page[step.start : step.end] for step in steps] == ["2\n", "0\n1\n", "shown\n"]
    assert [page[step.start : step.end] == step.shown for step in steps] == [True] * 3
    printed = [printed for _, printed in run_pages.run(page)]
    assert printed[:2] == ["2\n", "0\n1\n"]
    assert printed[2].startswith("Plan: svm")


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        ("AUC 0.801", "AUC 0.802", True),  # last digits of a plan
        ("AUC 0.801", "AUC 0.870", False),
        ("rows 40,000", "rows 41,000", True),
        ("rows 40,000", "rows 50,000", False),
        ("3 of 20 pairs", "4 of 20 pairs", False),
        ("abc 4c3d22c9a0e2acf1...", "abc " + "5" * 64, True),
        ("same model", "different model", False),
        ("first\n...\nlast", "first\nmiddle\nlast", True),
        ("first\n...\nlast", "first\nmiddle", False),
        ("a\n<BLANKLINE>\nb", "a\n\nb", True),
        ("", "something", False),
    ],
)
def test_shown_and_printed(shown, printed, expected):
    assert run_pages.agrees(shown, printed) is expected


def test_write_puts_in_what_comes_out(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\n>>> print('a', 2)\nwrong\n>>> x = 1\n>>> x\n```\n")
    assert len(run_pages.check(page)) == 2
    assert run_pages.write(page) == 2
    assert page.read_text() == "```python\n>>> print('a', 2)\na 2\n>>> x = 1\n>>> x\n1\n```\n"
    assert run_pages.check(page) == []


GALLERY = sorted((DOCS / "gallery").glob("[0-9]*.py"))
QUICK = ("01", "06", "12")  # the site's build runs all of them, and an error ends it


@pytest.mark.parametrize(
    "script", [path for path in GALLERY if path.stem[:2] in QUICK], ids=lambda p: p.stem
)
def test_example_of_the_gallery_runs(script, monkeypatch, tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script.name])
    plt.switch_backend("Agg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are for readers
        runpy.run_path(str(script), run_name="__main__")
    assert plt.get_fignums(), "an example of the gallery has a figure"
    plt.close("all")


@pytest.mark.parametrize("script", GALLERY, ids=lambda p: p.stem)
def test_example_of_the_gallery_says_what_its_figures_show(script):
    text = script.read_text(encoding="utf-8")
    compile(text, str(script), "exec")
    drawn = len(re.findall(r"plt\.subplots\(", text))
    assert drawn
    # the titles of a figure are its alternative text
    assert len(re.findall(r"\.set_title\(", text)) >= drawn
    assert re.match(r'"""\n(.+)\n(=+)\n\n', text), "a title, and what it is about"


# ---------------------------------------------------------------- what pages name


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "api/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"(?m)^   ([A-Za-z_]\w*)$", text)
    assert sorted(listed) == sorted(rl.__all__)


def test_notebook_has_texts_for_its_figures():
    cells = json.loads((DOCS / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    drawn = [
        cell
        for cell in cells
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", ()))
    ]
    assert drawn
    assert all(len(cell["metadata"]["alt"]) > 40 for cell in drawn)


def test_pictures_have_a_light_and_a_dark_form_and_a_text():
    images = [
        (page, match[1], match[2])
        for page in DOCS.rglob("*.md")
        if not {"_build", "auto_gallery"} & set(page.parts)
        for match in re.finditer(
            r"(?ms)^```\{image\} (\S+)\n(.*?)^```", page.read_text(encoding="utf-8")
        )
    ]
    assert images
    for page, name, options in images:
        assert re.search(r":alt: .{40}", options), (page, name)
        if "/pictures/" in f"/{name}" or name.startswith("pictures/"):
            pair = [
                name.replace("-light", f"-{ground}").replace("-dark", f"-{ground}")
                for ground in ("light", "dark")
            ]
            assert {image for where, image, _ in images if where == page} >= set(pair)
            assert all((page.parent / image).is_file() for image in pair)


def test_pages_of_the_command_line_have_every_command_and_option():
    pytest.importorskip("sphinx")
    pages = load(DOCS / "extensions/command_reference.py").all_pages()
    parser = make_parser()
    commands = parser._subparsers._group_actions[0].choices
    assert set(pages) == {"index", *commands}
    for name, command in commands.items():
        options = {option for action in command._actions for option in action.option_strings}
        shown = set(re.findall(r"`(--?[\w-]+)", pages[name]))
        assert options <= shown, name
        assert "``" not in pages[name].replace("```", ""), name  # code inside code
        assert f"[{name}]({name}.md)" in pages["index"]


def test_relative_links_of_markdown_files_exist():
    sources = [*DOCS.rglob("*.md"), *ROOT.glob("*.md"), *(ROOT / "examples").glob("*.md")]
    made = ("auto_gallery/", "commands/", "api/generated/", "tour.md")
    broken = []
    for page in sources:
        if {"_build", "auto_gallery", "commands", "generated"} & set(page.parts):
            continue
        text = re.sub(r"(?ms)^```.*?^```$", "", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)(?:#[^)]*)?\)", text):
            target = (page.parent / link).resolve()
            within = target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else ""
            if not target.exists() and not within.startswith(made):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def test_every_benchmark_that_a_page_names_can_be_reproduced():
    reproduce = (DOCS / "reproduce.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"(?:benchmarks|examples|docs)/[a-z0-9_/]+\.py", reproduce))
    assert all((ROOT / name).is_file() for name in listed)
    pages = [*DOCS.glob("*.md"), ROOT / "README.md"]
    named = {
        name
        for page in pages
        for name in re.findall(
            r"python (benchmarks/\w+\.py)", page.read_text(encoding="utf-8").replace("`", " ")
        )
    }
    assert len(named) > 8
    assert named <= listed


def test_paper_cites_what_is_in_its_bibliography():
    text = (ROOT / "paper.md").read_text(encoding="utf-8")
    keys = set(re.findall(r"(?m)^@\w+\{(\w+),$", (ROOT / "paper.bib").read_text(encoding="utf-8")))
    assert set(re.findall(r"@([A-Z]\w+)", text)) == keys
    for heading in ("Summary", "Statement of need", "State of the field", "Use of AI tools"):
        assert f"\n# {heading}\n" in text


# ---------------------------------------------------------------- the site


def test_extra_of_the_documentation_brings_what_its_pages_use():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = extras["optional-dependencies"]["docs"]
    ours = next(entry for entry in wanted if entry.startswith("replearn["))
    assert {"data", "cli", "report", "onnx"} <= set(ours[9:-1].split(","))


def test_broken_links_and_foreign_scripts_are_found(tmp_path):
    (tmp_path / "other.html").write_text("<h1 id='here'>x</h1>")
    (tmp_path / "index.html").write_text(
        "<a href='other.html#here'></a><a href='other.html#gone'></a><a href='gone.html'></a>"
        "<script src='https://example.org/x.js'></script><a href='https://example.org'></a>"
        "<img src='other.html'>"
    )
    found = check_site.complaints(tmp_path)
    assert len(found) == 4
    assert sum("anchor" in line for line in found) == 1
    assert sum("would load" in line for line in found) == 1
    assert sum("alternative text" in line for line in found) == 1


def test_site_builds_without_warnings_and_its_links_hold(tmp_path):
    for name in ("sphinx", "myst_parser", "numpydoc", "pydata_sphinx_theme", "sphinx_gallery"):
        pytest.importorskip(name)
    command = (sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html")
    places = (
        "-D",
        "plot_gallery=0",
        "-d",
        str(tmp_path / "trees"),
        str(DOCS),
        str(tmp_path / "html"),
    )
    shown = dict(os.environ, PYTHONPATH=str(ROOT / "src"))
    done = subprocess.run((*command, *places), capture_output=True, text=True, env=shown)
    assert done.returncode == 0, done.stderr[-4000:]
    assert check_site.complaints((tmp_path / "html").resolve()) == []


# ---------------------------------------------------------------- docstrings

# what the house leaves out: "See Also", a second paragraph, names of single results, and summaries
# that are no sentences ("The four words of one block")
LEFT_OUT = {"SA01", "ES01", "RT02", "SS05"}


@pytest.mark.parametrize("name", sorted(rl.__all__))
def test_docstring_of_a_public_name_is_whole(name):
    """Every parameter and result is described, and there is an example."""
    validation = pytest.importorskip("numpydoc.validate")
    errors = dict(validation.validate(f"replearn.{name}")["errors"])
    documented = getattr(rl, name)
    if inspect.isclass(documented) and "PR01" in errors:  # a result documents its attributes
        from numpydoc.docscrape import ClassDoc

        attributes = {
            part.strip()
            for entry in ClassDoc(documented)["Attributes"]
            for part in entry.name.split(",")
        }
        if set(inspect.signature(documented).parameters) <= attributes:
            del errors["PR01"]
    if inspect.ismodule(documented):
        errors.pop("EX01", None)  # its functions have them
    assert {code: text for code, text in errors.items() if code not in LEFT_OUT} == {}
