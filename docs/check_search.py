"""Ask the built site's search what readers ask: the right page must come first.

    python docs/check_search.py docs/_build/html

It needs Chromium with chromedriver, and says so where they are absent.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

EXPECTED = {
    "sample size": "howto/rows.html",
    "how many rows": "howto/rows.html",
    "odds ratio": "howto/export.html",
    "methods paragraph": "howto/export.html",
    "missing values": "howto/files.html",
    "R": "r.html",
    "validate": "guide/validate.html",
}


def main(site):
    """Print what comes first; 1 if anything else was expected."""
    if not shutil.which("chromedriver"):
        print("chromedriver is not installed: the search was not tried")
        return 0
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.contract.browser import Browser

    wrong = 0
    with tempfile.TemporaryDirectory() as place, Browser(Path(place)) as browser:
        for query, page in EXPECTED.items():
            address = f"{(site / 'search.html').as_uri()}?q={quote(query)}"
            browser._send("POST", "/url", {"url": address})
            browser.wait("document.querySelector('.search-summary')?.innerText.includes('found')")
            first = browser.run("return document.querySelector('.search li > a').href")
            found = first.split(f"{site}/")[-1]
            wrong += found != page
            print(f"{query}: {found}" + ("" if found == page else f", expected {page}"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
