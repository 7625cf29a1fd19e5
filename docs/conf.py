"""The site, built by ``python3 dev.py docs``: without a network, and with warnings as errors."""

import os
import re
import shutil
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT / "src"), str(HERE), str(HERE / "extensions")]

import matplotlib  # noqa: E402

matplotlib.use("Agg")  # figures are drawn where there is no screen

import replearn  # noqa: E402

# ---------------------------------------------------------------- the project

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
    "sphinx_gallery.gen_gallery",
    # ours, in docs/extensions
    "command_reference",
    "mathml",
    "notebook_pages",
    "page_links",
]
exclude_patterns = [
    "_build",
    "planner/**",  # a page of its own, copied as it is
    "gallery/README.*",
    "**/README.md",
    "auto_gallery/*.ipynb",  # for downloads; the pages are made from the scripts
    "auto_gallery/*.py",
    "sg_execution_times.rst",
    "auto_gallery/sg_execution_times.rst",
]
suppress_warnings = [
    "config.cache",  # conf.py holds functions
]
nitpicky = False

# ---------------------------------------------------------------- Markdown

myst_enable_extensions = ["attrs_inline", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_dmath_allow_digits = False  # "$5 and $6" is money
myst_heading_anchors = 3

# ---------------------------------------------------------------- the reference

autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"  # the docstrings say the types
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the templates in docs/_templates list them
numpydoc_xref_param_type = False
templates_path = ["_templates"]

# ---------------------------------------------------------------- the gallery

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _house_style(gallery_conf: dict[str, object], name: str) -> None:
    """Start every example with the style of all figures, and warnings without our folders."""
    from figure_style import use_style

    use_style()
    warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"


sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"/(?!_)[^/]*\.py$",  # every script is run
    "ignore_pattern": r"/_[^/]*\.py$",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": (_house_style,),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "backreferences_dir": "auto_gallery/backreferences",
    "doc_module": ("replearn",),
    "reference_url": {"replearn": None},
    "image_srcset": ["2x"],
    "abort_on_example_error": True,
    "capture_repr": ("_repr_html_",),  # what is shown is printed
    "matplotlib_animations": False,
}

# ---------------------------------------------------------------- the pages

html_theme = "pydata_sphinx_theme"
html_title = "replearn"
html_static_path = ["_static"]
html_css_files = ["style.css"]
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
    "header_links_before_dropdown": 6,
    "navbar_align": "left",
    "navbar_end": ["planner-link", "theme-switcher"],
    "show_toc_level": 2,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "use_edit_page_button": False,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": True,
    "search_as_you_type": True,
}
html_sidebars = {"index": [], "concepts/index": []}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

# ---------------------------------------------------------------- from Markdown to the site


def _as_on_the_site(app: object, docname: str, source: list[str]) -> None:
    """Links of Markdown files to folders outside of ``docs/`` become names: they are not copied."""
    if "/" not in docname:
        source[0] = re.sub(r"\[([^\]\n]+)\]\(\.\./(?!docs/)[^)\s]+\)", r"`\1`", source[0])


def _is_foreign(app, what, name, member, skip, options) -> bool | None:
    """Leave out of classes what they inherit from scikit-learn or from Python."""
    home = getattr(getattr(member, "fget", member), "__module__", None) or "replearn"
    return True if not home.startswith("replearn") or name.startswith("set_") else None


def _copy_planner(app, failure) -> None:
    """``docs/planner/`` is a page of its own, without Sphinx: copied to ``planner/`` as it is."""
    planner = HERE / "planner"
    if failure is None and app.builder.format == "html" and (planner / "index.html").is_file():
        shutil.copytree(planner, Path(app.outdir) / "planner", dirs_exist_ok=True)


def setup(app: object) -> None:
    """Register what this file defines."""
    app.connect("build-finished", _copy_planner)  # type: ignore[attr-defined]
    app.connect("autodoc-skip-member", _is_foreign)  # type: ignore[attr-defined]
    app.connect("source-read", _as_on_the_site)  # type: ignore[attr-defined]
