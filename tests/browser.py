"""A real browser for tests of pages: Chromium without a window and without a network."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium here: install Debian's package chromium to run this"
)


def browse(page: Path, *options: str, fragment: str = "") -> subprocess.CompletedProcess[str]:
    """Open a page in a browser that cannot reach any network."""
    assert CHROMIUM is not None
    profile = page.parent / f"profile-{os.getpid()}"
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", "--hide-scrollbars", "--enable-logging=stderr", "--v=0"),
        *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}"),
        *(*options, page.as_uri() + fragment),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)
