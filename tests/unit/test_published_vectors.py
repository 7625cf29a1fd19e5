"""Figures that others published, with their sources: not one of them was made by replearn."""

import hashlib
import json
import struct

import numpy as np
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from replearn.codes.canonical import canonical_json
from replearn.kernels.philox import philox_block
from tests.reference import philox4x64

#: Counter, key and block of Philox4x64 with ten rounds: the file ``tests/kat_vectors`` of Random123
#: (D. E. Shaw Research), lines "philox4x64 10": zeros, ones, and the digits of pi.
PHILOX = [
    (
        "0000000000000000 0000000000000000 0000000000000000 0000000000000000",
        "0000000000000000 0000000000000000",
        "16554d9eca36314c db20fe9d672d0fdc d7e772cee186176b 7e68b68aec7ba23b",
    ),
    (
        "ffffffffffffffff ffffffffffffffff ffffffffffffffff ffffffffffffffff",
        "ffffffffffffffff ffffffffffffffff",
        "87b092c3013fe90b 438c3c67be8d0224 9cc7d7c69cd777b6 a09caebf594f0ba0",
    ),
    (
        "243f6a8885a308d3 13198a2e03707344 a4093822299f31d0 082efa98ec4e6c89",
        "452821e638d01377 be5466cf34e90c6c",
        "a528f45403e61d95 38c72dbd566e9788 a5a1610e72fd18b5 57bd43b5e52b7fe6",
    ),
]


def numbers(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("counter", "key", "block"), PHILOX, ids=["zeros", "ones", "pi"])
def test_philox_of_random123(counter: str, key: str, block: str) -> None:
    assert list(philox4x64(numbers(counter), numbers(key))) == numbers(block)
    before = sum(word << (64 * place) for place, word in enumerate(numbers(counter))) - 1
    words = [(before >> (64 * place)) & (2**64 - 1) for place in range(4)]
    numpys = np.random.Philox(
        counter=np.array(words, dtype=np.uint64), key=np.array(numbers(key), dtype=np.uint64)
    )
    assert numpys.random_raw(4).tolist() == numbers(block)


def test_the_kernels_block_is_that_of_random123() -> None:
    # the kernel's counter is (block + 1, row, 0, 0): only the zeros can be asked of it, and others
    # of the twin that the vectors above have proved
    zero = np.uint64(0)
    found = philox_block(np.uint64(2**64 - 1), zero, zero, zero)
    assert [int(word) for word in found] == numbers(PHILOX[0][2])
    rng = np.random.default_rng(5)
    for block, row, *key in rng.integers(2**64, size=(50, 4), dtype=np.uint64):
        wanted = philox4x64([(int(block) + 1) % 2**64, int(row), 0, 0], list(map(int, key)))
        assert [int(word) for word in philox_block(block, row, *key)] == list(wanted)


#: FIPS 180-4 and the examples of NIST's Cryptographic Standards page: message, SHA-256.
SHA256 = {
    "": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    "a" * 1_000_000: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
}


@pytest.mark.parametrize("message", SHA256, ids=lambda message: f"{message[:8]!r}")
def test_sha_256_of_nist(message: str) -> None:
    assert hashlib.sha256(message.encode()).hexdigest() == SHA256[message]


#: RFC 8785, appendix B: bits of a double, and how it is written.
REALS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


@pytest.mark.parametrize("bits", REALS)
def test_numbers_of_rfc_8785(bits: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json(number).decode() == REALS[bits]


@pytest.mark.parametrize(
    ("number", "text"),
    # each way of writing, where it begins and where it ends
    [(0.5, "0.5"), (-0.25, "-0.25"), (1.0, "1"), (1.5, "1.5"), (10.0, "10"), (0.0123, "0.0123")],
)
def test_numbers_as_ecmascript_writes_them(number: float, text: str) -> None:
    assert canonical_json(number).decode() == text


def test_the_samples_of_rfc_8785() -> None:
    # section 3.2.2 and 3.2.3
    sample = json.loads(r"""{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }""")
    assert canonical_json(sample).decode() == (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        r'"string":"€$\u000f\nA' + "'" + r'B\"\\\\\"/"}'
    )
    names = json.loads(r"""{
        "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis"
    }""")
    assert list(json.loads(canonical_json(names)).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_canonical_json_is_that_of_another_package(value: object) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_json_cannot_say_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="JSON has no"):
        canonical_json({"a": [value]})
