"""Every example runs and declares what it needs; the reference lists all names and options."""

import runpy
import sys
import tomllib
import warnings
from pathlib import Path

import pytest

from replearn.errors import ReplicabilityWarning

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/*.py"))  # the app in flower/ is run by test_engines.py
FOUND = [str(path.relative_to(EXAMPLES)) for path in SCRIPTS]


def test_there_are_three_shelves_and_few_scripts():
    assert {path.parent.name for path in SCRIPTS} == {"studies", "questions", "theory"}
    assert 9 <= len(SCRIPTS) <= 13
    page = (EXAMPLES.parent / "docs" / "examples.md").read_text(encoding="utf-8")
    assert [name for name in FOUND if name not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_an_example(name, tmp_path, monkeypatch, capsys):
    source = (EXAMPLES / name).read_text(encoding="utf-8")
    head = source.split("# /// script\n")[1].split("# ///\n")[0]
    needs = tomllib.loads("".join(line[2:] for line in head.splitlines(keepends=True)))
    assert needs["requires-python"] == ">=3.11"
    assert needs["dependencies"][0] == "replearn"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [name])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", ReplicabilityWarning)
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    shown = EXAMPLES.parent / "docs/pictures/examples" / f"{Path(name).stem}.txt"
    hint = "python docs/thumbnails.py writes what comes out now"
    assert capsys.readouterr().out == shown.read_text(encoding="utf-8"), hint


@pytest.mark.slow
def test_the_page_of_commands_is_what_help_prints():
    sys.path.insert(0, str(EXAMPLES.parent / "docs"))
    try:
        import write_commands
    finally:
        sys.path.pop(0)
    assert write_commands.PAGE.read_text(encoding="utf-8") == write_commands.page()
