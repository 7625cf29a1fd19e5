"""Seeds that nobody could choose: first the protocol without a seed, then a public draw.

A seed that is hashed from the protocol and a public value can still be ground: whoever may change
the protocol after the draw tries notes or digits until the seed pleases. So the protocol is
registered first. Its hash without a seed is published *before* the day of the draw, and covers
which draw it will be; afterwards nothing is left to choose. Who checks a protocol compares that
hash with the one that was published, the value with the draw, and finds the dates checked.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self, cast

from replearn.codes.canonical import canonical_json, fingerprint_of
from replearn.codes.randomness import MAX_TEXT, has_surrogates
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.jsonfile import Unfit, read_object, read_text, write_json

#: Notes of a protocol that speak about its seed.
PUBLIC_VALUE, REGISTRATION = "public_value", "registration"


@dataclass(frozen=True)
class Registration:
    """What is fixed about a seed before it can be known."""

    draw: str  # which public value it will be, such as the numbers of a lottery
    drawn_on: date  # when the value becomes known
    registered_on: date  # when the protocol was fixed, as its authors say; before ``drawn_on``

    def content(self) -> dict[str, str]:
        """As JSON types."""
        return {
            "draw": self.draw,
            "drawn_on": self.drawn_on.isoformat(),
            "registered_on": self.registered_on.isoformat(),
        }


class Registrable:
    """What protocols share: a hash, a file, and a seed that may follow from a public draw.

    Subclasses are frozen dataclasses with the fields ``seed`` and ``notes``.
    """

    seed: str
    notes: dict[str, Any]

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return fingerprint_of(self.content())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the protocol file, whole or not at all."""
        write_json(path, self.content())

    def require(self, expect: str | None, path: object) -> None:
        """Refuse any protocol but the one that was agreed on, or registered before its draw."""
        hashes = (self.fingerprint, self.registered_hash)
        if expect is not None and expect.lower() not in hashes:
            raise InvalidFile(
                f"{path} must be the protocol {expect}, got {self.fingerprint}. "
                "It has been changed, or it is that of another study."
            )

    def register(self, draw: str, drawn_on: date | str) -> Self:
        """The same protocol without a seed, to be published before a public draw decides it.

        Parameters
        ----------
        draw : str
            Which public value it will be, such as "the six numbers of the national lottery".
        drawn_on : date or str
            Day of the draw, after today, as 2027-05-06.

        Returns
        -------
        protocol
            Publish its ``registered_hash``; after the draw, ``with_public_value`` completes it.
        """
        notes = {name: note for name, note in self.notes.items() if name != PUBLIC_VALUE}
        registration = new_registration(draw, drawn_on)
        return self._with("", notes | {REGISTRATION: registration.content()})

    @property
    def registered_hash(self) -> str | None:
        """Hash of a registered protocol without its seed, the same before and after the draw."""
        return registered_hash(self.content()) if REGISTRATION in self.notes else None

    def with_public_value(self, value: str) -> Self:
        """The same protocol with a seed that nobody could choose.

        The seed becomes a hash of everything else in the protocol and of a public value that
        nobody knew before, such as a lottery draw on a day agreed on in advance. The value is
        kept in the notes, and `load` checks that the seed follows from it. Only a protocol that was
        registered before the draw leaves nothing to choose: see `register`.

        Parameters
        ----------
        value : str

        Returns
        -------
        protocol
        """
        seed = derived_seed(self.content(), value)
        protocol = self._with(seed, self.notes | {PUBLIC_VALUE: value})
        try:
            check_seed(protocol.content())
        except Unfit as problem:
            raise ReplearnError(f"the protocol cannot have a public value: {problem}.") from None
        return protocol

    @property
    def seed_policy(self) -> str:
        """Where the seed comes from, in words."""
        value, registration = self.notes.get(PUBLIC_VALUE), read_registration(self.notes)
        if registration is None:
            if value is None:
                return (
                    "explicit seed, chosen by the authors of the protocol: they may have tried "
                    "several after a look at the pilot. Better: a public value that is drawn after "
                    "the plan is registered (--register, --public-value)"
                )
            return (
                f"derived from this protocol and the public value {value!r}, but not registered "
                "before it was drawn: the authors may have tried several protocols"
            )
        known = f"{registration.draw}, drawn on {registration.drawn_on}"
        if value is None:
            return f"none yet; it will follow from {known}"
        return (
            f"derived from {value!r} ({known}) and from this protocol, whose hash without a seed "
            f"is {self.registered_hash}; check that it was published before that day"
        )

    def _with(self, seed: str, notes: dict[str, Any]) -> Self:
        changed: Any = replace(self, seed=seed, notes=notes)  # type: ignore[type-var]
        return cast("Self", changed)


def new_registration(draw: str, drawn_on: date | str, today: date | None = None) -> Registration:
    """Registration as of today, by default as the clock says."""
    _check_text(draw, "the draw")
    try:
        day = drawn_on if isinstance(drawn_on, date) else date.fromisoformat(drawn_on)
    except (TypeError, ValueError):
        raise ReplearnError(f"a day must be written as 2027-05-06, got {drawn_on!r:.80}.") from None
    now = datetime.now(UTC).date() if today is None else today
    if day <= now:
        raise ReplearnError(
            f"a draw must be after the registration, which is on {now}, got {day}. Nobody may know "
            "the value when the protocol is fixed; choose a later draw."
        )
    return Registration(draw, day, now)


def registered_hash(content: Mapping[str, Any]) -> str:
    """SHA-256 of a protocol without its seed and its public value: what is published first."""
    return hashlib.sha256(_seedless(content)).hexdigest()


def derived_seed(content: Mapping[str, Any], value: str) -> str:
    """The seed that follows from the rest of a protocol and a public value."""
    _check_text(value, "a public value")
    if REGISTRATION in content["notes"]:
        text = b"replearn/seed/2\n" + bytes.fromhex(registered_hash(content)) + value.encode()
    else:
        rest = _seedless(content)
        text = b"replearn/seed/1\n" + len(rest).to_bytes(8, "little") + rest + value.encode()
    return hashlib.sha256(text).hexdigest()


def check_seed(content: Mapping[str, Any]) -> None:
    """Refuse a seed that does not follow from what the notes say, or dates that cannot be.

    Raises
    ------
    Unfit
    """
    notes = content["notes"]
    value = notes.get(PUBLIC_VALUE)
    if value is not None:
        if not read_text(value, PUBLIC_VALUE):
            raise Unfit("the public value must not be empty")
        if content["seed"] != derived_seed(content, value):
            raise Unfit("the seed does not follow from the rest and from its public value")
    registration = read_registration(notes)
    if registration is None:
        return
    if registration.registered_on >= registration.drawn_on:
        raise Unfit(
            f"it was registered on {registration.registered_on}, not before the draw of "
            f"{registration.drawn_on}"
        )
    if value is None and content["seed"] != "":
        raise Unfit("a registered protocol must have no seed before its public value is drawn")
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)  # time zones
    if value is not None and registration.drawn_on > tomorrow:
        raise Unfit(f"its public value is of {registration.drawn_on}, which has not come yet")


def read_registration(notes: Mapping[str, Any]) -> Registration | None:
    """What the notes of a protocol say about its registration; None if nothing."""
    found = notes.get(REGISTRATION)
    if found is None:
        return None
    read_object(found, REGISTRATION, {"draw", "drawn_on", "registered_on"})
    try:
        return Registration(
            read_text(found["draw"], "draw"),
            *(
                date.fromisoformat(read_text(found[name], name))
                for name in ("drawn_on", "registered_on")
            ),
        )
    except ValueError:
        raise Unfit("the dates of a registration must be days such as 2027-05-06") from None


def _seedless(content: Mapping[str, Any]) -> bytes:
    notes = {name: note for name, note in content["notes"].items() if name != PUBLIC_VALUE}
    return canonical_json({**content, "seed": "", "notes": notes})


def _check_text(value: Any, name: str) -> None:
    fits = isinstance(value, str) and 0 < len(value) <= MAX_TEXT and not has_surrogates(value)
    if not fits:
        raise ReplearnError(
            f"{name} must be text of 1 to {MAX_TEXT} characters, got {value!r:.80}."
        )
