"""Names of pages in running text, such as ``docs/data.md``, become links on the site.

The pages are read as plain Markdown files, too, where such a name is what helps. Nothing is
written twice.
"""

import re
from pathlib import PurePosixPath

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_PAGE = re.compile(r"(?:docs/)?((?:[a-z0-9-]+/)*[a-z0-9-]+)\.(?:md|ipynb)")


class PageLinks(SphinxTransform):
    """Turn literal names of pages into references to them."""

    default_priority = 400

    def apply(self, **kwargs) -> None:
        """Go through all literals of a page that are no link yet."""
        for literal in list(self.document.findall(nodes.literal)):
            match = _PAGE.fullmatch(literal.astext())
            if match is None or isinstance(literal.parent, nodes.reference | addnodes.pending_xref):
                continue
            page = self._page(match[1], literal.astext().startswith("docs/"))
            if page and page != self.env.docname:
                options = {"reftype": "doc", "refdomain": "std", "refexplicit": True}
                link = addnodes.pending_xref(
                    "", literal.deepcopy(), reftarget=f"/{page}", refdoc=self.env.docname, **options
                )
                literal.replace_self(link)

    def _page(self, name: str, from_root: bool) -> str | None:
        beside = str(PurePosixPath(self.env.docname).parent / name)
        candidates = (name,) if from_root else (beside, name)
        return next((page for page in candidates if page in self.env.found_docs), None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(PageLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
