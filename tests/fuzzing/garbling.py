"""Hostile bytes, JSON and archives, made from valid ones."""

import contextlib
import copy
import hashlib
import io
import json
import random
import warnings
import zipfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


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


def canonical(content: Any) -> bytes:
    """Canonical JSON of a document, raw pieces included, if there can be one."""
    value = json.loads(json_text(content))
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def digest(content: Any) -> str:
    """SHA-256 of the canonical JSON of a document."""
    return hashlib.sha256(canonical(content)).hexdigest()


def sealed(document: Any, part: str = "model") -> Any:
    """A document with the fingerprint that one of its parts has, if there can be one."""
    if not isinstance(document, dict) or part not in document:
        return document
    with contextlib.suppress(ValueError, RecursionError):
        return document | {"fingerprint": digest(document[part])}
    return document


def hashed(document: Any) -> Any:
    """A document with the hash that the rest of it has, if there can be one."""
    if not isinstance(document, dict):
        return document
    rest = {key: value for key, value in document.items() if key != "sha256"}
    with contextlib.suppress(ValueError, RecursionError):
        return rest | {"sha256": digest(rest)}
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


def hostile_npz(
    rng: random.Random, content: bytes, seal: Callable[[dict[str, Any]], None] | None = None
) -> bytes:
    """An archive with changed bytes, members, headers, types, shapes or numbers."""
    if rng.random() < 0.25:
        return mutated_bytes(rng, content)
    members = npz_members(content)
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(list(members))
        match rng.randrange(9):
            case 0:
                members[name] = mutated_bytes(rng, members[name])
            case 1:
                members.pop(name)
            case 2:
                members[rng.choice(["X.npy", "y.npy", "../x.npy", "/x.npy", "x", "é.npy"])] = (
                    members.pop(name)
                )
            case 3 | 4:
                members[name] = forged_array(rng, members[name])
            case 5 if "header.npy" in members and seal is not None:
                _forge_header(rng, members)
            case _:
                members[name] = changed_array(rng, members[name])
        if not members:
            members["a.npy"] = b""
    if seal is not None and rng.random() < 0.7:
        seal(members)
    out = io.BytesIO()
    method = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # names that stand twice
        for name, data in members.items():
            archive.writestr(name, data)
            if rng.random() < 0.03:
                archive.writestr(name, data)
    return out.getvalue()


def npz_members(content: bytes) -> dict[str, bytes]:
    """Files in an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def npy_bytes(array: Any) -> bytes:
    """An array as a file."""
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def changed_array(rng: random.Random, content: bytes) -> bytes:
    """Other numbers, type or shape."""
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except Exception:  # what was forged before
        return content
    match rng.randrange(5):
        case 0 if array.dtype.kind != "c":
            kinds = ["f2", "f4", "f8", "i1", "i8", "u8", "U3", "S4", "c16", "M8[s]", ">f8", "b1"]
            with contextlib.suppress(ValueError, TypeError), np.errstate(all="ignore"):
                array = array.astype(rng.choice(kinds))
        case 1:
            array = array.reshape(rng.choice([(-1,), (1, -1), (-1, 1)]))
        case 2:
            array = array[: rng.randrange(4)] if array.ndim else array
        case 3 if array.ndim:
            array = np.concatenate([array, array])
        case _ if array.size:
            odd: list[Any] = [0, 1, -1, 2**31, 2**62, -(2**63), 1e308, np.nan, np.inf, -0.0]
            array = array.copy()
            with contextlib.suppress(OverflowError, ValueError), np.errstate(all="ignore"):
                array.flat[rng.randrange(array.size)] = rng.choice(odd)
    return npy_bytes(array)


def forged_array(rng: random.Random, content: bytes) -> bytes:
    """A header that promises something else than what follows."""
    shapes = ["()", "(0,)", "(1,)", "(-1,)", "(1000000000000,)", "(2305843009213693952,)", "(3, 0)",
              "(99999999999999999999999,)", "(True,)", "(1.5,)", "5", "None", "(300, 3)",
              "(1, 1, 1)"]  # fmt: skip
    kinds = ["'<f8'", "'|O'", "'<i8'", "'<U2147483647'", "'|V8'", "[('a', '<f8')]", "'<M8[s]'",
             "'<c16'", "5", "'<f8' if 0 else 1", "'<f16'", "'|S0'", "'<f3'"]  # fmt: skip
    descr, order, shape = rng.choice(kinds), rng.choice(["False", "True", "1"]), rng.choice(shapes)
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if rng.random() < 0.1:
        header = rng.choice(
            ["(" * 500, "__import__('os')", "{}", "", "[" * 200 + "]" * 200, "1" * 9000]
        )
    data = header.encode() + b"\n"
    version = rng.choice([b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"])
    size = len(data).to_bytes(2 if version[0] == 1 else 4, "little")
    if rng.random() < 0.1:
        size = rng.choice([b"\xff" * len(size), b"\0" * len(size)])
    return b"\x93NUMPY" + version + size + data + content[128:]


def _forge_header(rng: random.Random, members: dict[str, bytes]) -> None:
    with contextlib.suppress(Exception):  # what is damaged already may be no array, or no JSON
        header = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
        text = json_text(mutated_json(rng, header)).encode()
        members["header.npy"] = npy_bytes(np.frombuffer(text, dtype=np.uint8))


def resealed(members: dict[str, bytes]) -> None:
    """Put the digest of the arrays into the header, if there can be one."""
    with contextlib.suppress(Exception):  # there is none for what is no array
        header = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
        digest = hashlib.sha256()
        for name in sorted(set(members) - {"header.npy"}):
            array = np.load(io.BytesIO(members[name]), allow_pickle=False)
            digest.update(name.removesuffix(".npy").encode() + b"\0" + array.tobytes())
        header["digest"] = digest.hexdigest()
        members["header.npy"] = npy_bytes(
            np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)
        )
