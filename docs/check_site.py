"""Check the links of the built site: every page, picture and anchor that a page names exists.

    python docs/check_site.py docs/_build/html

Links to other hosts are not followed, as the build needs no network. A page that would load
something from one is an error: the site must work offline.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
# theme pages that are made of parts of others
ASIDE = {"_modules", "_static"}


class Page(HTMLParser):
    """What a page names: its anchors, and its links with the tag that has them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[tuple[str, str, str]] = []
        self.images_without_alt = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Note one tag."""
        named = dict(attributes)
        self.anchors |= {value for key in ("id", "name") if (value := named.get(key))}
        for key in ("href", "src"):
            if value := named.get(key):
                self.links.append((tag, key, value))
        self.images_without_alt += tag == "img" and "alt" not in named  # empty: an ornament


@cache
def read(path: Path) -> Page:
    """A page, read once."""
    return Page(path.read_text(encoding="utf-8"))


def complaints(root: Path) -> list[str]:
    """Everything that is wrong with the links of a site."""
    found = []
    for path in sorted(root.rglob("*.html")):
        name = path.relative_to(root)
        if name.parts[0] in ASIDE:
            continue
        page = read(path)
        if page.images_without_alt:
            found.append(f"{name}: {page.images_without_alt} images without an alternative text")
        for tag, key, link in page.links:
            if problem := _problem(path, tag, key, link, root):
                found.append(f"{name}: {problem}")
    return found


def _problem(path: Path, tag: str, key: str, link: str, root: Path) -> str | None:
    parts = urlsplit(link)
    if parts.scheme in ("data", "mailto", "javascript"):
        return None
    if parts.scheme or parts.netloc:
        loads = (tag, key) in LOADED
        return f"<{tag}> would load {link}" if loads else None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return f"{link} is not there"
    if not target.is_relative_to(root):
        return f"{link} leaves the site"
    fragment = unquote(parts.fragment)
    if fragment and target.suffix == ".html" and fragment not in read(target).anchors | {"top"}:
        return f"{link} names an anchor that is not there"
    return None


def main(arguments: list[str]) -> int:
    """Print what is wrong; 1 if anything is."""
    root = Path(arguments[0]).resolve()
    found = complaints(root)
    print(*found, sep="\n", end="\n" if found else "")
    n_pages = sum(1 for _ in root.rglob("*.html"))
    print(f"{n_pages} pages, {len(found)} complaints about links and pictures")
    return 1 if found or not n_pages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
