"""The numbers that Python, JavaScript and R share have one value: that of docs/vectors.json."""

import json
import re
from pathlib import Path

import pytest

from benchmarks import vectors

ROOT = Path(__file__).parents[2]
JAVASCRIPT = sorted((ROOT / "src/replearn/reports/web").glob("*.js"))
R = ROOT / "inst" / "replicate.R"

#: What R does not need: it has no sums of a coalition.
INLINE_IN_R = {"EXPONENTS"}
#: What JavaScript does not name.
INLINE_IN_JAVASCRIPT = {"ROOT_HALF"}


@pytest.fixture(scope="module")
def constants():
    return json.loads(vectors.PATH.read_bytes())["constants"]


def value_of(text):
    """What a constant expression of either language stands for; None if it is no such thing."""
    if words := re.findall(r'"([^"]*)"', text):
        return words
    text = re.sub(r"(0x[0-9a-f.]+p-?[0-9]+)", lambda hit: repr(float.fromhex(hit[0])), text)
    text = re.sub(r"power2\((-?[0-9]+)\)", r"2.0 ** \1", text).replace("^", "**")
    text = re.sub(r"^c\((.*)\)$", r"[\1]", text)
    return eval(text) if re.fullmatch(r"[0-9a-fxe.+*/<(), \[\]-]+", text) else None


def named(source, pattern):
    """All constants of a source text: a name may occur in several modules."""
    for name, text in re.findall(pattern, source):
        yield name, value_of(text.strip())


def javascript():
    pattern = r"(?:const |, )([A-Z][A-Z0-9_]+) = (new Set\(\s*\[[^\]]*\]|\[[^\]]*\]|[^,;\n]+)"
    for path in JAVASCRIPT:
        yield from named(path.read_text(encoding="utf-8"), pattern)


def r():
    pattern = r"(?m)^([A-Z][A-Z0-9_]+) <- (c\([^)]*\)|[^#\n]+)"
    return named(R.read_text(encoding="utf-8"), pattern)


@pytest.mark.parametrize(
    ("source", "inline"), [(javascript, INLINE_IN_JAVASCRIPT), (r, INLINE_IN_R)]
)
def test_twins_have_the_constants_of_python(constants, source, inline):
    found = [(name, value) for name, value in source() if name in constants]
    assert {name for name, _ in found} >= set(constants) - inline
    for name, value in found:
        assert value == constants[name], name


def test_the_stored_constants_are_those_of_python(constants):
    assert constants == json.loads(json.dumps(vectors.constants()))
