"""Headless browsers: Chromium by the WebDriver protocol over HTTP, Firefox by Marionette."""

import base64
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    "--disable-dev-shm-usage",
)
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _patiently(connect: Callable[[], Any]) -> Any:
    """What a call gives as soon as somebody listens."""
    for _ in range(300):
        try:
            return connect()
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the browser does not answer")


class Browser:
    """A window of Chromium; use it in a ``with`` statement."""

    def __init__(self, folder: Path, width: int = 1000) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        port = _free_port()
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
            _patiently(lambda: self._send("GET", "/status"))
            session = self._send("POST", "/session", {"capabilities": wanted})
        except BaseException:
            self.driver.kill()
            raise
        self.root += f"/session/{session['sessionId']}"

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


class Firefox(Browser):
    """A window of Firefox: the same questions, in messages of a length and JSON."""

    def __init__(self, folder: Path, width: int = 1000) -> None:
        self.downloads = folder / "downloads"
        self.downloads.mkdir()
        profile, port = folder / "user", _free_port()
        profile.mkdir()
        wanted = {
            "marionette.port": port,
            "browser.download.dir": str(self.downloads),
            "browser.download.folderList": 2,
            "browser.shell.checkDefaultBrowser": False,
            "datareporting.policy.dataSubmissionEnabled": False,
        }
        lines = [f"user_pref({json.dumps(k)}, {json.dumps(v)});" for k, v in wanted.items()]
        (profile / "user.js").write_text("\n".join(lines))
        flags = ["--headless", "--marionette", "--no-remote", f"--width={width}", "--height=900"]
        self.driver = subprocess.Popen(
            ["firefox-esr", *flags, "--profile", str(profile)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self.line = _patiently(lambda: socket.create_connection(("127.0.0.1", port)))
            self.line.settimeout(60)
            self._answer()  # who it is
            self._ask("WebDriver:NewSession", capabilities={})
        except BaseException:
            self.driver.kill()
            raise

    def _answer(self) -> Any:
        size = b""
        while not size.endswith(b":"):
            size += self.line.recv(1)
        text = b""
        while len(text) < int(size[:-1]):
            text += self.line.recv(int(size[:-1]) - len(text))
        return json.loads(text)

    def _ask(self, name: str, **given: Any) -> Any:
        message = json.dumps([0, 1, name, given]).encode()
        self.line.sendall(f"{len(message)}:".encode() + message)
        _, _, problem, found = self._answer()
        assert problem is None, problem
        return found.get("value", found) if isinstance(found, dict) else found

    def __exit__(self, *_: Any) -> None:
        self.line.close()
        self.driver.terminate()
        self.driver.wait()

    def open(self, path: Path) -> None:
        self._ask("WebDriver:Navigate", url=path.absolute().as_uri())

    def run(self, script: str) -> Any:
        return self._ask("WebDriver:ExecuteScript", script=script, args=[])

    def _element(self, element_id: str) -> str:
        found = self._ask("WebDriver:FindElement", using="css selector", value=f"#{element_id}")
        return str(found[_ELEMENT])

    def choose(self, element_id: str, path: Path) -> None:
        self._ask("WebDriver:ElementSendKeys", id=self._element(element_id), text=str(path))

    def click(self, element_id: str) -> None:
        self._ask("WebDriver:ElementClick", id=self._element(element_id))

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("WebDriver:TakeScreenshot", full=False)))
