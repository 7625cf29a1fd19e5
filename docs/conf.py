"""The site, built by ``python3 dev.py docs``: without a network, and with warnings as errors."""

import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

import replearn  # noqa: E402

project = "replearn"
author = "The replearn developers"
copyright = "the replearn developers, BSD-3-Clause"
version = release = replearn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "results/*.md"]
suppress_warnings = ["config.cache"]  # this file holds functions

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath", "substitution"]
myst_substitutions = {"version": replearn.__version__}
myst_dmath_allow_digits = False  # "$5 and $6" is money
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say the types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"  # beside the page is room for one name
numpydoc_show_class_members = False
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = "replearn"
html_static_path = ["_static"]
html_css_files = ["style.css"]
html_js_files = [("planner.js", {"defer": "defer"})]
html_show_sourcelink = False
html_copy_source = False
html_favicon = "_static/favicon.svg"
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {
        "text": "replearn",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo-dark.svg",
        "alt_text": "replearn, to the first page",
    },
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navbar_end": ["planner-link", "theme-switcher"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "use_edit_page_button": False,
    "footer_start": ["copyright"],
    "footer_end": ["about"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": True,
    "search_as_you_type": True,
}
html_sidebars = {"index": [], "start": [], "examples": []}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True
copybutton_line_continuation_character = "\\"


def _pictures_take_the_ink_of_the_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put our own drawings into the page itself, so that they follow light and dark."""

    def drawing(match: re.Match[str]) -> str:
        path = (HERE / docname).parent / match[2]
        app.env.note_dependency(str(path.resolve()))  # a new drawing makes the page anew
        words = re.sub(r"`([^`]+)`", r"<code>\1</code>", match[1])
        caption = "" if "/examples/" in match[2] else f"<figcaption>{words}</figcaption>"
        return f"```{{raw}} html\n<figure>{path.read_text(encoding='utf-8')}{caption}</figure>\n```"

    source[0] = re.sub(r"(?m)^!\[([^\]]+)\]\(([^)]*pictures/[^)]+\.svg)\)$", drawing, source[0])


def _links_to_the_repository(app: Sphinx, docname: str, source: list[str]) -> None:
    """Links to files outside of ``docs/`` become names: they are not copied to the site."""
    source[0] = re.sub(
        r"\[([^\]\n]+)\]\((?:\.\./)+(?!docs/)(?:README|CONTRIBUTING|CHANGELOG|benchmarks|examples|src|tests)[^)\s]*\)",
        r"`\1`",
        source[0],
    )


def _proofs_are_open(app: Sphinx, docname: str, source: list[str]) -> None:
    """A reader may fold a proof; search and print see it."""
    if docname.startswith("theory/"):
        source[0] = re.sub(r"(?m)^(:::+\{dropdown\}.*\n)(?!:open:)", r"\1:open:\n", source[0])


def _code_of_examples(app: Sphinx, docname: str, source: list[str]) -> None:
    """Below the gallery: each script, and what it prints (docs/thumbnails.py keeps it)."""
    if docname != "examples":
        return
    parts = ["## Code and output\n"]
    for folder, name in re.findall(r"<../examples/(\w+)/(\w+)\.py>", source[0]):
        parts.append(
            f":::{{dropdown}} {name}.py\n"
            f'```{{literalinclude}} ../examples/{folder}/{name}.py\n:start-at: \'"""\'\n```\n\n'
            f"It prints:\n\n```{{literalinclude}} pictures/examples/{name}.txt\n"
            ":language: text\n```\n:::\n"
        )
    source[0] += "\n" + "\n".join(parts)


def _inline_formula(translator: object, node: nodes.Element) -> None:
    translator.body.append(tex2mathml(node.astext()))  # type: ignore[attr-defined]
    raise nodes.SkipNode


def _formula(translator: object, node: nodes.Element) -> None:
    text = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="formula" role="math">{text}</div>\n')  # type: ignore[attr-defined]
    raise nodes.SkipNode


def _is_foreign(app, what, name, member, skip, options) -> bool | None:
    """Leave out of classes what they inherit from elsewhere, and what `Attributes` list above."""
    home = getattr(getattr(member, "fget", member), "__module__", None) or "replearn"
    is_listed = isinstance(member, property) and name.endswith("_")
    is_ours = home.startswith("replearn") and not name.startswith("set_")
    return None if is_ours and not is_listed else True


def _without_signature(app, what, name, thing, options, signature, result) -> tuple | None:
    """Users call estimators and errors; nobody makes a result by hand."""
    is_result = what == "class" and name.rpartition(".")[2] not in replearn.__all__
    return ("", None) if is_result or name == "replearn.Study" else None


def _names_are_links(app, what, name, thing, options, lines) -> None:
    """`See Also` names what users import, wherever the object itself is at home."""
    for i, line in enumerate(lines):
        lines[i] = re.sub(r":obj:`(\w+)`", _from_the_package, line)


def _from_the_package(match: re.Match[str]) -> str:
    return f":obj:`{match[1]} <replearn.{match[1]}>`" if match[1] in replearn.__all__ else match[0]


def _study_to_try(app: Sphinx, failure: Exception | None) -> None:
    """Put a real bundle beside the pages, with a table that matches, for readers to open."""
    if failure is not None or app.builder.format != "html":
        return
    from replearn.datasets import load_readmission
    from replearn.reports.bundle import write_bundle

    folder = Path(app.outdir) / "try"
    shutil.rmtree(folder, ignore_errors=True)
    table = load_readmission("Ashford", 4000)
    X, y = table.drop(columns="readmitted"), table["readmitted"]
    write_bundle(replearn.ReplicableLogisticClassifier().fit(X, y).study_, folder)
    load_readmission("Birchwood", 4000).to_csv(folder / "birchwood.csv", index=False)


def setup(app: Sphinx) -> None:
    """Register what this file defines; formulas are MathML, which needs no script."""
    app.connect("source-read", _pictures_take_the_ink_of_the_page)
    app.connect("source-read", _links_to_the_repository)
    app.connect("source-read", _proofs_are_open)
    app.connect("source-read", _code_of_examples)
    app.connect("autodoc-skip-member", _is_foreign)
    app.connect("autodoc-process-signature", _without_signature)
    app.connect("autodoc-process-docstring", _names_are_links, priority=900)  # numpydoc is first
    app.connect("build-finished", _study_to_try)
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_formula, None))
    app.config.html_math_renderer = "mathml"
