"""A headless Chromium, driven by the WebDriver protocol over plain HTTP."""

import base64
import json
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Any

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window; use it in a ``with`` statement."""

    def __init__(self, folder: Path, width: int = 1000) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.root = f"http://127.0.0.1:{port}"
        options = {
            "args": [*_FLAGS, f"--user-data-dir={folder / 'user'}", f"--window-size={width},900"],
            "prefs": {"download.default_directory": str(self.downloads)},
        }
        wanted = {
            "alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        }
        try:
            self._wait_for_driver()
            session = self._send("POST", "/session", {"capabilities": wanted})
        except BaseException:
            self.driver.kill()
            raise
        self.root += f"/session/{session['sessionId']}"

    def _wait_for_driver(self) -> None:
        for _ in range(100):
            try:
                return self._send("GET", "/status")
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("chromedriver does not answer")

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read())["value"]

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self._send("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()

    def open(self, path: Path) -> None:
        self._send("POST", "/url", {"url": path.absolute().as_uri()})

    def run(self, script: str) -> Any:
        """What the body of a function returns in the page."""
        return self._send("POST", "/execute/sync", {"script": script, "args": []})

    def _element(self, element_id: str) -> str:
        query = {"using": "css selector", "value": f"#{element_id}"}
        return f"/element/{self._send('POST', '/element', query)[_ELEMENT]}"

    def choose(self, element_id: str, path: Path) -> None:
        """Choose a file in an input."""
        self._send("POST", f"{self._element(element_id)}/value", {"text": str(path)})

    def click(self, element_id: str) -> None:
        self._send("POST", f"{self._element(element_id)}/click", {})

    def wait(self, condition: str, seconds: float = 60) -> None:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}: {self.run('return document.body.innerText')}")
            time.sleep(0.05)

    def download(self, name: str) -> bytes:
        """A file that the page has saved."""
        for _ in range(100):
            if (self.downloads / name).exists():
                return (self.downloads / name).read_bytes()
            time.sleep(0.1)
        raise TimeoutError(f"{name} was not saved")

    def complaints(self) -> list[str]:
        """What the browser complains about: faults of scripts, violations of the policy."""
        found = self._send("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in found]

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._send("GET", "/screenshot")))
