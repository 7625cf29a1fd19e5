"""The reference describes every public name: no parameter, attribute or result is left blank."""

import importlib
import inspect
import re
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

import replearn

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "index.md"
PAPER = ("SVM", "SGD", "Net", "DP", "Boosting")

#: What every object has from Python, scikit-learn or our base classes, and one page explains.
INHERITED = {"FORMAT", "KIND", "VERSION", "MAX_BYTES", "args", "add_note", "with_traceback"}


def names_on_the_page() -> list[str]:
    """Full names, in the order of the page."""
    text = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"(?m)^   ([\w.]+)$", text)
    return [name.removeprefix("replearn.") for name in names]


def find(name: str) -> object:
    """The object of a name on the page."""
    module, _, last = name.rpartition(".")
    home = importlib.import_module(f"replearn.{module}") if module else replearn
    return getattr(home, last)


NAMES = names_on_the_page()

#: What users import; the others are results, which they read.
PUBLIC = [name for name in NAMES if name in replearn.__all__ or name.startswith("datasets.")]


def sections(thing: object) -> NumpyDocString:
    """The docstring, taken apart."""
    return NumpyDocString(inspect.getdoc(thing) or "")


def described(doc: NumpyDocString, section: str) -> dict[str, bool]:
    """The names of a section, and whether words stand below each."""
    found: dict[str, bool] = {}
    for entry in doc[section]:
        for name in (entry.name or entry.type).split(","):
            found[name.strip().lstrip("*")] = bool("".join(entry.desc).strip())
    return found


def blank_parameters(function: object) -> list[str]:
    """Parameters and results without a word about them."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a class of Python itself
        return []
    doc = sections(function)
    known = described(doc, "Parameters") | described(doc, "Other Parameters")
    asked = [name for name in signature.parameters if name not in ("self", "cls")]
    return [name for name in asked if not known.get(name)]


def lacks_result(function: object) -> bool:
    """Whether something comes back and nobody says what."""
    annotation = inspect.signature(function).return_annotation
    if annotation in (None, "None"):
        return False
    return not sections(function)["Returns"]


def members(cls: type) -> dict[str, object]:
    """What our own classes define, inherited or not."""
    found = {}
    for parent in reversed(cls.__mro__):
        if parent.__module__.startswith("replearn"):
            found |= {name: member for name, member in vars(parent).items() if name[0] != "_"}
    return {name: member for name, member in found.items() if name not in INHERITED}


def blanks_of_class(cls: type, is_result: bool) -> list[str]:
    """Parameters, attributes and methods of a class that nobody describes.

    Methods of results are for the library itself, but for those of `Study`.
    """
    doc = sections(cls)
    known = described(doc, "Attributes") | described(doc, "Parameters")
    blank = [name for name, has_words in known.items() if not has_words and name not in dir(cls)]

    if is_dataclass(cls):
        stored = [field.name for field in fields(cls) if field.name[0] != "_" and field.repr]
        blank += [name for name in stored if not known.get(name)]

    for name, member in members(cls).items():
        member = getattr(member, "__func__", member)  # of a class method
        if isinstance(member, property | cached_property):
            words = member.__doc__ or getattr(getattr(member, "func", None), "__doc__", None)
            blank += [] if words else [name]
        elif inspect.isfunction(member) and name != "check" and not is_result:
            blank += [f"{name}({one})" for one in blank_parameters(member)]
            blank += [f"{name}() result"] if lacks_result(member) else []
    return sorted(set(blank))


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left_blank(name):
    thing = find(name)
    if inspect.isclass(thing):
        blank = blanks_of_class(thing, name not in PUBLIC)
    else:
        blank = blank_parameters(thing)
        blank += ["result"] if lacks_result(thing) else []
    assert blank == []


#: Of numpydoc's rules those that are matters of taste: a second paragraph, where quotes close,
#: capital letters, results with a name.
TASTE = {"ES01", "GL02", "SA03", "RT02", "SS05"}
#: Sections that names have, but not each of their methods.
OF_NAMES = {"SA01", "EX01"}


@pytest.mark.parametrize("name", PUBLIC)
def test_numpydoc_finds_nothing(name):
    """Sections in order, each parameter with a type and a sentence, results, a summary line."""
    thing = find(name)
    found = [("", *error) for error in validate(f"replearn.{name}")["errors"]]
    if name == "Study":  # nobody makes one by hand: the page shows no signature
        found = [error for error in found if error[1] != "PR01"]
    for method, member in members(thing).items() if inspect.isclass(thing) else ():
        if inspect.isfunction(getattr(member, "__func__", member)):
            errors = validate(f"replearn.{name}.{method}")["errors"]
            found += [(method, *error) for error in errors if error[0] not in OF_NAMES]
    assert [error for error in found if error[1] not in TASTE] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_name_says_more_than_its_summary_and_where_that_is_from(name):
    thing = find(name)
    assert sections(thing)["Notes"]
    if not (inspect.isclass(thing) and issubclass(thing, Exception)):
        assert sections(thing)["References"]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_an_example_with_its_output(name):
    examples = "\n".join(sections(find(name))["Examples"])
    assert ">>>" in examples
    lines = [line for line in examples.splitlines() if line.strip()]
    assert any(not line.startswith((">>>", "...")) for line in lines), "no line of output"


@pytest.mark.parametrize("name", NAMES)
def test_every_name_leads_on(name):
    assert sections(find(name))["See Also"]


@pytest.mark.parametrize("name", [n for n in PUBLIC if n.startswith("Replicable")])
def test_every_model_says_how_it_works_and_where_that_is_from(name):
    doc = sections(find(name))
    assert doc["Notes"]
    assert doc["References"]


@pytest.mark.parametrize("algorithm", PAPER)
def test_algorithms_of_the_paper_have_pseudo_code_theorem_and_source(algorithm):
    doc = sections(getattr(replearn, f"Replicable{algorithm}Classifier"))
    notes = "\n".join(doc["Notes"])
    assert re.search(r"(?m)^ *(1\.? |A private learner)", notes), "no pseudo-code"
    assert re.search(r"Theorem|Proposition|Rates of Table 1", notes), "no theorem"
    assert "2402.13857" in "\n".join(doc["References"])


def test_all_public_names_are_on_the_page():
    assert set(replearn.__all__) - {"datasets"} <= set(NAMES)
