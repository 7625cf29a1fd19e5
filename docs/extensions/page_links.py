"""Names of pages in running text, such as ``docs/data.md``, become links on the site.

The pages are read as plain Markdown files, too, where such a name is what helps. Nothing is
written twice.
"""

import re
from pathlib import PurePosixPath

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform

_PAGE = re.compile(r"(?:docs/)?((?:[a-z0-9-]+/)*[a-z0-9-]+)\.(?:md|ipynb)")


class PageLinks(SphinxPostTransform):
    """Turn literal names of pages into links."""

    default_priority = 20

    def run(self, **kwargs) -> None:
        """Go through all literals of a page that are no link yet."""
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, nodes.reference):
                continue
            match = _PAGE.fullmatch(literal.astext())
            page = match and self._page(match[1], literal.astext().startswith("docs/"))
            if page and page != self.env.docname:
                target = self.app.builder.get_relative_uri(self.env.docname, page)
                link = nodes.reference("", "", literal.deepcopy(), refuri=target, internal=True)
                literal.replace_self(link)

    def _page(self, name: str, from_root: bool) -> str | None:
        beside = str(PurePosixPath(self.env.docname).parent / name)
        candidates = (name,) if from_root else (beside, name)
        return next((page for page in candidates if page in self.env.all_docs), None)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(PageLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
