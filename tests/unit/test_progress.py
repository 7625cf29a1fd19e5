"""Progress and warnings: where they are shown, and what stays behind."""

import io
import sys
import warnings

import numpy as np
import pytest

from replearn import ReplicableLogisticClassifier
from replearn.errors import ReplicabilityWarning
from replearn.words import meter as module
from replearn.words import progress, tracked, warn


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, patience: float, verbose: bool
) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "PATIENCE", patience)
    with progress("read\x1bing", 4, verbose) as advance:
        for done in range(5):
            advance(done)
    return stream.getvalue()


def test_a_terminal_has_one_line_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, Terminal(), 0, False)
    assert text == "".join(f"\rread?ing: {p}%" for p in (0, 25, 50, 75, 100)) + "\r\x1b[K"


def test_a_log_has_lines_if_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, io.StringIO(), 0, False) == ""
    text = shown(monkeypatch, io.StringIO(), 0, True)
    assert text == "".join(f"read?ing: {p}%\n" for p in (0, 20, 50, 70, 100))


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO) -> None:
    assert shown(monkeypatch, stream, 60, True) == ""


def test_without_standard_error_nothing_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert list(tracked(map, "blocks")(str, range(3))) == ["0", "1", "2"]


def test_a_warning_names_the_users_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn("few rows", ReplicabilityWarning)
    assert caught[0].filename == __file__
    assert caught[0].category is ReplicabilityWarning


def test_an_original_shows_its_progress_if_it_is_asked_to(monkeypatch, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = (rng.logistic(size=300) < X[:, 0]).astype(int)
    monkeypatch.setattr("replearn.words.meter.PATIENCE", 0.0)

    ReplicableLogisticClassifier(verbose=1).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("fitting the original: ") for line in lines)

    ReplicableLogisticClassifier().fit(X, y)
    assert not capsys.readouterr().err
