"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def _inline(translator, node):
    translator.body.append(tex2mathml(node.astext()))
    raise _skip()


def _display(translator, node):
    translator.body.append('<div class="formula" role="math">')
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    translator.body.append("</div>\n")
    raise _skip()


def _skip():
    from docutils import nodes

    return nodes.SkipNode()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer and choose it."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
