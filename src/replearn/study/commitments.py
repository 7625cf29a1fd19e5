"""Commit, then reveal: sites compare fingerprints without anyone being able to copy or guess.

A model has few codes, so its bare hash can be guessed: whoever sees it can try likely codes until
one fits, and may then claim the same model. So each site first publishes a salted hash of its
fingerprint and of the protocol it fitted under, and shows fingerprint and salt only when all salted
hashes are on the table.

This prevents copying and guessing after others have shown theirs, changing one's mind, and passing
off a commitment of another site or of another study. It does not prevent sites from agreeing in
secret, nor a model that was guessed from the protocol alone: a match is no proof that a site has
rows.
"""

import hmac
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from replearn.codes.canonical import canonical_json
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.jsonfile import (
    SHA256,
    Unfit,
    read_hash,
    read_integer,
    read_json,
    read_object,
    read_text,
    write_json,
)
from replearn.terminal import printable

COMMITMENT_FORMAT = "replearn-commitment"
OPENING_FORMAT = "replearn-opening"
FORMAT_VERSION = 2  # 1 did not bind the protocol


@dataclass(frozen=True)
class Commitment:
    """What a site publishes first.

    Attributes
    ----------
    site : str
        Part of the hash: nobody can pass another site's commitment off as its own.
    protocol : str or None
        Fingerprint of the protocol of the study, part of the hash: a commitment cannot be used in
        another study. None if there is no protocol.
    digest : str
        HMAC-SHA256 of site, protocol and fingerprint under the salt, in hex.
    """

    site: str
    protocol: str | None
    digest: str

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {"format": COMMITMENT_FORMAT, "version": FORMAT_VERSION, **vars(self)}


@dataclass(frozen=True)
class Opening:
    """What a site shows after all commitments are published.

    Attributes
    ----------
    site, fingerprint, salt : str
        The salt is 32 random bytes in hex.
    protocol : str or None
        As in the commitment.
    """

    site: str
    protocol: str | None
    fingerprint: str
    salt: str

    def content(self) -> dict[str, Any]:
        """As JSON types."""
        return {"format": OPENING_FORMAT, "version": FORMAT_VERSION, **vars(self)}

    def commitment(self) -> Commitment:
        """What must have been published before."""
        message = canonical_json(
            [COMMITMENT_FORMAT, FORMAT_VERSION, self.site, self.protocol, self.fingerprint]
        )
        digest = hmac.new(bytes.fromhex(self.salt), message, "sha256").hexdigest()
        return Commitment(self.site, self.protocol, digest)


def commit(fingerprint: str, site: str, protocol: str | None = None) -> tuple[Commitment, Opening]:
    """Commit to a fingerprint without showing it.

    Parameters
    ----------
    fingerprint : str
        Of the model, 64 hexadecimal digits.
    site : str
        Name of the site, different from all others.
    protocol : str, optional
        Fingerprint of the protocol that the model was fitted under, 64 hexadecimal digits.

    Returns
    -------
    commitment : Commitment
        To be published now.
    opening : Opening
        To be kept, and published after all commitments are.

    Examples
    --------
    >>> commitment, opening = commit("ab" * 32, site="Oslo")
    >>> opening.commitment() == commitment
    True
    """
    for name, value in (("fingerprint", fingerprint), ("protocol", protocol)):
        if value is not None and SHA256.fullmatch(value) is None:
            raise ReplearnError(
                f"{name} must be 64 hexadecimal digits, got {value[:80]!r}. Pass the fingerprint "
                f"of the {'model' if name == 'fingerprint' else name}."
            )
    if not site or len(site) > 200:
        raise ReplearnError(f"site must have 1 to 200 characters, got {len(site)}.")
    try:
        read_text(site, "site")
    except Unfit as problem:
        raise ReplearnError(f"{problem}, got {site!r}.") from None
    opening = Opening(site, protocol, fingerprint, secrets.token_hex(32))
    return opening.commitment(), opening


@dataclass(frozen=True)
class Reveal:
    """Result of a comparison of openings.

    Attributes
    ----------
    same : bool
        All sites have the same model.
    fingerprints : dict
        By site.
    protocol : str or None
        Of the study, the same for all sites.
    """

    same: bool
    fingerprints: dict[str, str]
    protocol: str | None = None

    def __str__(self) -> str:
        count = len(set(self.fingerprints.values()))
        sites = len(self.fingerprints)
        head = (
            f"same model at all {sites} sites"
            if self.same
            else f"different models: {count} models at {sites} sites"
        )
        lines = [
            f"  {print_}  {printable(site)}" for site, print_ in sorted(self.fingerprints.items())
        ]
        under = "no protocol" if self.protocol is None else f"the protocol {self.protocol}"
        return "\n".join([head, *lines, f"committed under {under}"])


def reveal(commitments: Sequence[Commitment], openings: Sequence[Opening]) -> Reveal:
    """Check every opening against its commitment, and compare the fingerprints.

    Parameters
    ----------
    commitments : sequence of Commitment
        Published before any opening was seen.
    openings : sequence of Opening
        One for each commitment.

    Returns
    -------
    Reveal
        Whether all are the same, and the fingerprint of each site.

    Raises
    ------
    ReplearnError
        If a site is missing, appears twice, opened something else than it committed to, or
        committed under another protocol than the others.

    Examples
    --------
    >>> import replearn as rl
    >>> sites = [rl.commit("ab" * 32, site=site) for site in ("Oslo", "Rome")]
    >>> commitments, openings = zip(*sites, strict=True)
    >>> rl.reveal(commitments, openings).same
    True
    """
    published = _by_site(commitments, "commitments")
    opened = _by_site(openings, "openings")
    if set(published) != set(opened) or len(published) < 2:
        alone = sorted(set(published) ^ set(opened))
        raise ReplearnError(
            "each site must have one commitment and one opening, and there must be two sites, got "
            + (f"only one of them from {alone[0]!r}" if alone else f"{len(published)} site")
            + ". Collect the missing file."
        )
    for site, opening in opened.items():
        if not hmac.compare_digest(opening.commitment().digest, published[site].digest):
            raise ReplearnError(
                f"the opening of {site!r} is not what it committed to. Its model or its files have "
                "changed since; the comparison is void and must be repeated."
            )
    protocols = sorted({item.protocol or "none" for item in opened.values()})
    if len(protocols) > 1:
        raise ReplearnError(
            f"all sites must commit under one protocol, got {protocols[0]} and {protocols[1]}. "
            "They are sites of different studies, or one of them used another protocol."
        )
    fingerprints = {site: opening.fingerprint for site, opening in opened.items()}
    protocol = next(iter(opened.values())).protocol
    return Reveal(len(set(fingerprints.values())) == 1, fingerprints, protocol)


def _by_site(items: Sequence[Any], what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        if item.site in found:
            raise ReplearnError(
                f"{what} must come from different sites, got two from {item.site!r}. "
                "Give every site a name of its own."
            )
        found[item.site] = item
    return found


# --- files ------------------------------------------------------------------------------------


def save_commitment(item: Commitment | Opening, path: str | os.PathLike[str]) -> None:
    """Write a commitment or an opening, whole or not at all.

    An opening is secret until all sites have committed: only its owner may read the file.
    """
    write_json(path, item.content(), private=isinstance(item, Opening))


def load_commitment(path: str | os.PathLike[str]) -> Commitment | Opening:
    """Read and check a commitment or an opening."""
    content = read_json(path)
    try:
        return _item(content)
    except Unfit as problem:
        raise InvalidFile(f"{path} is no commitment and no opening: {problem}.") from None


def _item(content: dict[str, Any]) -> Commitment | Opening:
    hashes = {COMMITMENT_FORMAT: ("digest",), OPENING_FORMAT: ("fingerprint", "salt")}
    kind = content.get("format")
    if not isinstance(kind, str) or kind not in hashes:
        raise Unfit(f"the format must be {COMMITMENT_FORMAT!r} or {OPENING_FORMAT!r}")
    read_integer(content.get("version"), "version", FORMAT_VERSION, FORMAT_VERSION)
    read_object(content, "the file", {"format", "version", "site", "protocol", *hashes[kind]})
    values = {name: read_hash(content[name], name) for name in hashes[kind]}
    protocol = content["protocol"]
    make = Commitment if kind == COMMITMENT_FORMAT else Opening
    return make(
        site=read_text(content["site"], "site"),
        protocol=None if protocol is None else read_hash(protocol, "protocol"),
        **values,
    )
