"""What a centre needs to replicate a study offline: a page that fits, a rehearsal, a few words.

The page is one file. It holds the study and the JavaScript of ``reports/web``, which gives the
same bytes as Python, and a policy by which a browser lets it connect to nothing.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from html import escape
from importlib.resources import files
from pathlib import Path

import numpy as np

from replearn import __version__
from replearn.codes import Coins
from replearn.documents import (
    FilePath,
    canonical_json,
    decimal_text,
    in_place_of,
    system_words,
    write_atomically,
)
from replearn.errors import ReplearnError, printable
from replearn.glm import Hazard
from replearn.study import GlmStudy
from replearn.tables import (
    MISSING,
    OTHER,
    LevelColumn,
    LevelProfile,
    NumberColumn,
    NumberProfile,
    is_number_text,
    spelled,
)
from replearn.types import Vector

_MODULES = (
    *("words", "exact", "stability", "table", "targets", "check", "evidence", "placebo", "tails"),
    *("support", "strongest", "recalibration", "worth", "compare", "replicate", "disclosure"),
    *("sums", "pictures", "own", "lab", "worker"),
)

#: Rows of a rehearsal, and of each of its classes at least.
_ROWS, _ROWS_PER_CLASS = 400, 40

_README = """\
Replicate a study: {target}

1. Open study.html in a browser (Chrome, Chromium, Edge or Firefox). It needs no
   installation and no network: its security policy forbids it to connect.
2. Rehearse: choose rehearsal.csv. Its rows are invented, so the answer is "A
   different model". This shows what the page does, and which columns it needs.
3. Choose a table of your own, as a CSV file with the same columns.
4. Send what you were asked for: the fingerprint, the model file, or, in a joint
   fit, the sums file. None of them holds a row.

With Python: ask whoever sent you this folder for the folder of replearn
{version}, and run there: pip install . Then this command gives the
same model, byte for byte:

    replearn replicate study.json your-table.csv

study.json      what the original lab has published
study.html      the page
rehearsal.csv   invented rows
Study {fingerprint}
"""


def study_page(study: GlmStudy) -> str:
    """One self-contained page (HTML) that replicates the study from a CSV file."""
    content = canonical_json(study.content() | {"fingerprint": study.fingerprint}).decode()
    parts = {
        "title": escape(printable(study.design.target)),
        "style": _source("page.css"),
        "study": content.replace("<", "\\u003c"),  # nothing may end the element
        "engine": "".join(_module(name) for name in _MODULES),
        "script": _source("page.js"),
    }
    parts["policy"] = (
        "default-src 'none'; connect-src 'none'; worker-src blob:; base-uri 'none'; "
        f"form-action 'none'; webrtc 'block'; script-src {_hash(parts['script'])}; "
        f"style-src {_hash(parts['style'])}"
    )
    return re.sub(r"\$(\w+)", lambda name: parts[name[1]], _source("page.html"))


def _source(name: str) -> str:
    return (files("replearn.reports") / "web" / name).read_text("utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _module(name: str) -> str:
    """A module as a function of its own, so that many make one script."""
    text = _source(f"{name}.js")
    given = re.findall(r"^export (?:async )?(?:function|class|const) (\w+)", text, re.M)
    text = re.sub(
        r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', r"const \1 = $\2;", text, flags=re.M
    )
    text = re.sub(r"^export ", "", text, flags=re.M)
    return f"const ${name} = (() => {{\n{text}return {{ {', '.join(given)} }};\n}})();\n"


def rehearsal(study: GlmStudy) -> str:
    """Invented rows with the columns of a study, as CSV: from what it publishes, from no row.

    Columns are drawn apart from each other and from the target. The same study gives the same rows.
    """
    design, coins = study.design, Coins(study.fingerprint)
    n_rows = max(_ROWS, _ROWS_PER_CLASS * len(design.classes or ()))

    def draws(name: str) -> Vector:
        return coins.uniforms(f"rehearsal/{name}", n_rows)

    columns = _predictors(study, draws) | _outcome(study, draws)
    if design.weights is not None:
        columns[design.weights] = ["1"] * n_rows
    if design.offset is not None and not isinstance(design.loss, Hazard):
        columns[design.offset] = ["0"] * n_rows
    lines = [columns.keys(), *zip(*columns.values(), strict=True)]
    return "".join(",".join(map(_cell, line)) + "\n" for line in lines)


def _predictors(study: GlmStudy, draws: Callable[[str], Vector]) -> dict[str, list[str]]:
    """Invented cells of each column, with the quantiles or the shares that the study states."""
    columns: dict[str, list[str]] = {}
    # intervals, the last column, follow from the time
    own = study.design.encoding.own_columns
    for column, theirs in zip(own, study.profile.columns, strict=False):
        if isinstance(column, NumberColumn) and isinstance(theirs, NumberProfile):
            centre, spread = float(column.centre), float(column.spread)
            usual = [decimal_text(centre + spread * z) for z in (-1.6, -0.7, 0.0, 0.7, 1.6)]
            texts = np.array(_numbers(draws(column.name), theirs.quantiles or usual), dtype=object)
            texts[draws(f"{column.name}/missing") < float(theirs.missing)] = ""
            columns[column.name] = texts.tolist()
        elif isinstance(column, LevelColumn) and isinstance(theirs, LevelProfile):
            columns[column.name] = _levels(column, theirs.shares, draws(column.name))
    return columns


def _outcome(study: GlmStudy, draws: Callable[[str], Vector]) -> dict[str, list[str]]:
    """Invented cells of the target; of survival those of times and events."""
    design, loss = study.design, study.design.loss
    shown = study.profile.target  # shares of classes, or quantiles
    if isinstance(loss, Hazard):
        last = float(loss.cuts[-1]) if loss.cuts else 1.0
        at = [decimal_text(last * part, 3) for part in (0.1, 0.5, 1.0, 1.5, 1.9)]
        events = _chosen(["0", "1"], [0.5, 0.5], draws("target"))
        return {loss.time: _numbers(draws("time"), at), loss.event: events}

    if design.classes is None:
        return {design.target: _numbers(draws("target"), shown or [*"01234"])}
    labels = list(map(spelled, design.classes))
    return {design.target: _chosen(labels, [*map(float, shown)], draws("target"))}


def _numbers(u: Vector, at: Sequence[str]) -> list[str]:
    """Numbers whose quantiles at 5, 25, 50, 75 and 95% are these, with as many decimals."""
    places = np.interp(u, [0.05, 0.25, 0.5, 0.75, 0.95], [*map(float, at)])
    digits = max(-int(Decimal(text).as_tuple().exponent) for text in at)
    return [decimal_text(round(value, digits)) for value in places.tolist()]


def _levels(column: LevelColumn, shares: tuple[str, ...], u: Vector) -> list[str]:
    words = {MISSING: "", OTHER: "other"}
    texts = [words.get(name, name) for name in column.named]
    return _chosen(texts, [*map(float, shares)], u)


def _chosen(texts: list[str], shares: list[float], u: Vector) -> list[str]:
    weights = np.maximum(shares or np.ones(len(texts)), 0.02)
    ends = np.cumsum(weights / weights.sum())
    return [texts[min(int(i), len(texts) - 1)] for i in np.searchsorted(ends, u, side="right")]


def _cell(text: str) -> str:
    """A cell that no spreadsheet computes: readers of tables trim the space before a formula."""
    if re.match(r"[=+@-]", text) and not is_number_text(text):
        text = f" {text}"
    if re.search(r'[",;\t|\r\n]|^ | $', text):
        return '"' + text.replace('"', '""') + '"'
    return text


def write_bundle(study: GlmStudy, folder: FilePath) -> Path:
    """Write study.json, study.html, rehearsal.csv and README.txt into a new folder, or nothing."""
    target = Path(folder).absolute()
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ReplearnError(f"{folder} must be a new or an empty folder. Name a different one.")
    readme = _README.format(
        target=printable(study.design.target), version=__version__, fingerprint=study.fingerprint
    )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ReplearnError(f"{folder} cannot be written: {system_words(problem)}") from problem
    with in_place_of(target, folder=True) as made:  # whoever looks sees all files or none
        study.save(made / "study.json")
        for name, text in (
            ("study.html", study_page(study)),
            ("rehearsal.csv", rehearsal(study)),
            ("README.txt", readme),
        ):
            write_atomically(made / name, text.encode())
    return target
