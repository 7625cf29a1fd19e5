"""Hostile input: generators, and the judge of what comes of it.

A *case* is a function of a random source: it makes some input and uses it as a user would. The
judge says what became of it: a result, a documented error, or something else, which is a bug: a
traceback from inside, a hang, or more memory than the input deserves.

A case is addressed by the name of its target and a number, so every finding can be had again:
``python benchmarks/fuzz.py --only NAME --first NUMBER --cases 1``.
"""

import contextlib
import copy
import hashlib
import json
import os
import random
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis

from replearn.errors import ReplearnError, ReplicabilityWarning

SECONDS = 10.0
MEGABYTES = 64.0

#: A case: takes a random source and an empty folder; returns if all went well.
Case = Callable[[random.Random, Path], object]


# --- the judge ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What became of a case: "result", "error" (a documented one) or "other", and details."""

    kind: str
    detail: str = ""


class TimeUp(BaseException):
    """A case took too long. No ``except Exception`` may catch it."""


class Wrong(Exception):
    """What a case calls when an answer came, but a wrong one."""


def require(fact: object, what: str) -> None:
    """Complain, whatever the optimisation of the interpreter, unless the fact holds."""
    if not fact:
        raise Wrong(what)


def must(function: Callable[[], Any]) -> Any:
    """Call what must not fail any more, not even with a documented error."""
    try:
        return function()
    except ReplearnError as problem:
        raise Wrong(f"too late: {problem}") from None


def judge(
    case: Callable[[], object], seconds: float = SECONDS, megabytes: float = MEGABYTES
) -> Verdict:
    """Run a case and say what became of it."""
    memory = _Memory()
    try:
        with _alarm(seconds), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ReplicabilityWarning)
            case()
        kind, detail = "result", ""
    except ReplearnError as problem:
        kind, detail = _of_documented(problem)
    except TimeUp:
        kind, detail = "other", f"hang: {_last_lines()}"
    except Exception as problem:
        foreign = _is_validation_of_sklearn(problem)
        kind, detail = ("error", str(problem)) if foreign else ("other", _last_lines())
    grown = memory.grown()
    if kind != "other" and grown > megabytes:
        kind, detail = "other", f"memory: {grown:.0f} MiB ({kind}: {detail[:300]})"
    return Verdict(kind, detail)


def _of_documented(problem: ReplearnError) -> tuple[str, str]:
    text = str(problem)
    if len(text) > 20_000:
        return "other", f"a message of {len(text):,} characters: {text[:300]}"
    return "error", text


def _is_validation_of_sklearn(problem: Exception) -> bool:
    """Whether it is what users of scikit-learn expect of its checks of X, y and n_jobs."""
    if not isinstance(problem, ValueError | TypeError | RuntimeWarning):
        return False
    names = {frame.filename for frame in traceback.extract_tb(problem.__traceback__)}
    checks = ("sklearn/utils/", "joblib/parallel.py", "joblib/_parallel_backends.py")
    return any(check in name for name in names for check in checks)


def _last_lines() -> str:
    lines = traceback.format_exc(limit=-6).strip().splitlines()
    return "\n".join(line[:300] for line in lines)


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class _Memory:
    """How far the peak of the process's memory went above what it was at the start, in MiB.

    The kernel keeps the peak; it is set back when it is so far away that it would hide a case.
    """

    _SLACK = 16.0

    def __init__(self) -> None:
        self._start = _resident()
        if _peak() > self._start + self._SLACK:
            _reset_peak()

    def grown(self) -> float:
        """MiB above the start."""
        return _peak() - self._start


_PAGE = os.sysconf("SC_PAGE_SIZE")


def _resident() -> float:
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * _PAGE / 2**20


def _peak() -> float:
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"VmHWM"):
                return int(line.split()[1]) / 1024
    return 0.0


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "wb") as file:
        file.write(b"5")


# --- draws of hypothesis ------------------------------------------------------------------------


def draws(strategy: hypothesis.strategies.SearchStrategy[Any], seed: int, n: int) -> list[Any]:
    """What hypothesis draws, which depends on the seed alone."""
    found: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=n,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found[:n]


# --- bytes --------------------------------------------------------------------------------------


def some_bytes(rng: random.Random) -> bytes:
    """Bytes that mean nothing, or nearly so."""
    size = rng.choice([0, 1, 2, 7, 64, 1000])
    if rng.random() < 0.5:
        return rng.randbytes(size)
    return "".join(rng.choices('{}[]:,"\\/ue+-.0123456789aNftn \n\t\r\0é', k=size)).encode()


def mutated_bytes(rng: random.Random, content: bytes) -> bytes:
    """A copy with some damage."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data) + 1)
        stop = min(len(data), at + rng.choice([1, 1, 2, 8, 100]))
        match rng.randrange(8):
            case 0:
                del data[at:]
            case 1:
                del data[at:stop]
            case 2:
                data[at:at] = rng.randbytes(rng.choice([1, 2, 8]))
            case 3 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 4:
                data[at:at] = data[at:stop] * rng.choice([1, 2, 50])
            case 5:
                data[at:at] = rng.choice(ODD_BYTES)
            case 6:
                data[at:stop] = bytes(stop - at)
            case _ if at < len(data):
                data[at] = rng.randrange(256)
    return bytes(data)


ODD_BYTES = [
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\0",
    b"\r",
    b"\n",
    b'"',
    b"\\",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"9" * 400,
    b"{" * 3,
    b"[" * 2000,
]


# --- JSON ---------------------------------------------------------------------------------------


class Raw(str):
    """A piece of JSON text that no Python value is written as."""


ODD_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 1.5, -0.0, 1e-5, 255, 2**24, 2**31, 2**53, 2**53 + 1, 2**60,
    2**63, 2**64, 10**9, 10**18, 10**400, -(10**400), 1e308, 5e-324, "", " ", "0", "1", "-1", "1.5",
    "-0", "+1", "01", "1e5", "1e+5", "1e+300", "1e-300", "9e+299", "1e-320", "1e+999", "1e-999",
    "nan", "inf", "Infinity", "0x10", "1_0", " 1", "1 ", "1\n", "١", "auto", "x" * 5000, "\0", "é",
    "\x1b[31m", "a\nb", "'\";--", "😀", [], {}, [[]], [None], [0], ["a", "b"], [1, 2],
    [True, False], {"a": 1}, {"": None}, "svm", "net", "lattice", "random", "none", "gaussian",
    "signs",
    "hadamard", "rotation", "published", "ak", "centre", "e8", "leech", "box", "foam", "majority",
    "halfspace", Raw("NaN"), Raw("Infinity"), Raw("-Infinity"), Raw("1e400"), Raw("-1e400"),
    Raw("1E5"), Raw("-0"), Raw("1.0"), Raw("01"), Raw('"\\ud800"'), Raw('"\\udfff\\ud800"'),
    Raw('"\\ud83d\\ude00"'), Raw('"\\u0000"'), Raw("9" * 5000), Raw("[" * 100 + "]" * 100),
    Raw("[" * 900 + "]" * 900), Raw("[" * 20000 + "]" * 20000),
    Raw('{"a":' * 600 + "1" + "}" * 600),
    Raw('{"a":1,"a":2}'), Raw('{"\\ud800":1}'), Raw("0." + "1" * 2000), Raw("1e-99999"), Raw("'a'"),
]  # fmt: skip


def mutated_json(rng: random.Random, document: Any, n: int | None = None) -> Any:
    """A copy with some values, keys or shapes changed."""
    holder = [copy.deepcopy(document)]
    for _ in range(n or rng.choice([1, 1, 1, 2, 3])):
        place, key = rng.choice(list(_places(holder)))
        value = place[key]
        match rng.randrange(8):
            case 0 | 1 | 2:
                place[key] = copy.deepcopy(rng.choice(ODD_VALUES))
            case 3:
                place[key] = _nudged(rng, value)
            case 4:
                other, at = rng.choice(list(_places(holder)))
                place[key] = copy.deepcopy(other[at])
            case 5 if isinstance(place, dict):
                place[rng.choice([*ODD_KEYS, key + "x"])] = place.pop(key)
            case 6 if place is not holder:
                del place[key]
            case _:
                _reshape(rng, value)
    return holder[0]


ODD_KEYS = ["", "a", "net", "boosting", "basis", "encoding", "public_value", "version", "\0", "é"]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All entries of all lists and objects; of long lists a few."""
    stack = [value]
    while stack:
        place = stack.pop()
        keys = list(place) if isinstance(place, dict) else range(min(len(place), 12))
        for key in keys:
            yield place, key
            if isinstance(place[key], dict | list):
                stack.append(place[key])


def _nudged(rng: random.Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, -value, value * 1000, value << 40, 1.5])
    if isinstance(value, Raw):
        return value
    if isinstance(value, str):
        at = rng.randrange(len(value) + 1)
        new = rng.choice(["0", "9", "e+9", "-", ".", " ", "é", "\n", "x", ""])
        return value[:at] + new + value[at + rng.randrange(2) :]
    if isinstance(value, list):
        return value * rng.choice([0, 2, 100]) + rng.choices(ODD_VALUES, k=rng.randrange(2))
    return rng.choice(ODD_VALUES)


def _reshape(rng: random.Random, value: Any) -> None:
    if isinstance(value, list) and value:
        match rng.randrange(4):
            case 0:
                value.append(copy.deepcopy(rng.choice(value)))
            case 1:
                value.pop(rng.randrange(len(value)))
            case 2:
                rng.shuffle(value)
            case _:
                value[rng.randrange(len(value))] = rng.choice(ODD_VALUES)
    elif isinstance(value, dict):
        value[rng.choice(ODD_KEYS)] = rng.choice(ODD_VALUES)


def json_text(value: Any) -> str:
    """JSON, with raw pieces as they are."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        entries = [f"{json.dumps(key)}:{json_text(item)}" for key, item in value.items()]
        return "{" + ",".join(entries) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return json.dumps(value)


def json_bytes(rng: random.Random, document: Any) -> bytes:
    """A file with a document, sometimes with something odd around it."""
    content = json_text(document).encode()
    match rng.randrange(30):
        case 0:
            return b"\xef\xbb\xbf" + content
        case 1:
            return content + rng.choice([b"x", b"{}", b"\0", b"\n\n", b"]"])
        case 2:
            return content.replace(b":", b" :\r\n\t", 3)
        case 3:
            return content.decode().encode("utf-16")
        case 4:
            return content[:-1] + b',"version":1}'
    return content


def sealed(document: Any) -> Any:
    """A model document with the fingerprint that its content has, if there can be one."""
    if not isinstance(document, dict) or "model" not in document:
        return document
    with contextlib.suppress(ValueError, RecursionError):
        model = json.loads(json_text(document["model"]))
        text = json.dumps(
            model, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return document | {"fingerprint": hashlib.sha256(text.encode()).hexdigest()}
    return document


def hostile_json(
    rng: random.Random, documents: list[Any], seal: Callable[[Any], Any] = lambda document: document
) -> bytes:
    """A file that is nearly one of the documents, or not at all."""
    kind = rng.random()
    if kind < 0.05:
        return some_bytes(rng)
    document = rng.choice(documents)
    if kind < 0.2:
        return mutated_bytes(rng, json_text(document).encode())
    changed = mutated_json(rng, document)
    return json_bytes(rng, seal(changed) if rng.random() < 0.85 else changed)
