"""Pages from notebooks: ``docs/NAME.ipynb``, with its outputs, becomes ``docs/NAME.md``.

The outputs are those that ``docs/run_pages.py --write`` put there, and the tests run the notebook
and compare, so the site's build runs no kernel.
"""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx


def write_pages(app: Sphinx) -> None:
    """Write a page and its pictures for every notebook; leave alone what is up to date."""
    folder = Path(app.srcdir)
    for path in folder.glob("*.ipynb"):
        text, pictures = page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files = {folder / f"{path.stem}.md": text.encode()}
        files |= {folder / "_static" / name: content for name, content in pictures.items()}
        for target, content in files.items():
            if not target.exists() or target.read_bytes() != content:
                target.write_bytes(content)


def page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by file name."""
    pictures: dict[str, bytes] = {}
    parts = list(_parts(notebook["cells"], name, pictures))
    parts.insert(
        1, f"{{download}}`The notebook <{name}.ipynb>` behind this page, to run it yourself."
    )
    return "\n\n".join(parts) + "\n", pictures


def _parts(cells: list[Any], name: str, pictures: dict[str, bytes]) -> Iterator[str]:
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
            continue
        yield f"```python\n{source}\n```"
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode("".join(data["image/png"]))
                alt = cell["metadata"]["alt"]  # a figure without a text for readers is an error
                yield f"```{{image}} _static/{file}\n:alt: {alt}\n:class: picture\n```"
            else:
                text = "".join(output["text"] if "text" in output else data["text/plain"])
                yield f"```text\n{text.rstrip()}\n```"


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before any page is read."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
