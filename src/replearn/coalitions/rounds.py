"""What a coalition publishes between two rounds: where the next one looks."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.coalitions.site_sums import (
    SiteSums,
    check_document,
    design_of,
    read_name,
    read_sums,
    save_hashed,
    scores_of,
    sums_content,
)
from replearn.codes.canonical import fingerprint_of
from replearn.errors import InvalidFile, ReplearnError
from replearn.files.jsonfile import Unfit, read_decimal, read_hash, read_integer, read_json
from replearn.kernels.score_sums import MAX_TOTAL_WEIGHT
from replearn.stages.scores import Steps
from replearn.study.protocol import Protocol
from replearn.types import Vector

FORMAT = "replearn-round"
VERSION = 1
MAX_SITES = 1 << 16

#: Counts that the same rows have in every round.
Counts = tuple[str, int, int, int, int, int, int]


def counts_of(site: SiteSums) -> Counts:
    """What tells a site from another in every round: name and counts ("" for no name)."""
    sums = scores_of(site)
    low, high = (int(count) for count in sums.class_weights)
    return site.site or "", sums.n_rows, sums.n_zero, sums.n_capped, sums.n_cut, low, high


@dataclass(frozen=True, eq=False)
class CoalitionRound:
    """A coalition between two rounds.

    Attributes
    ----------
    protocol : str
    steps : Steps
        How far the coalition has come: ``steps.following`` is where the next round looks.
    members : tuple of Counts
        The sites, sorted; the same ones must take part in every round.
    after : str or None
        Hash of the state before; None after the first round.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> protocol = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900).protocol
    >>> parts = {"oslo": slice(200, 1100), "rome": slice(1100, 2000)}
    >>> sites = [rl.row_sums(protocol, X[rows], y[rows], site=name) for name, rows in parts.items()]
    >>> isinstance(rl.combine(protocol, sites), rl.CoalitionRound)  # one step: no second round
    False
    """

    protocol: str
    steps: Steps
    members: tuple[Counts, ...]
    after: str | None

    @property
    def round(self) -> int:
        """Rounds that are done."""
        return self.steps.n_passes

    def content(self) -> dict[str, Any]:
        """As JSON types; reals in the shortest text that is read as the same number."""
        return {
            "after": self.after,
            "following": _texts(self.steps.following),
            "format": FORMAT,
            "members": [list(member) for member in self.members],
            "protocol": self.protocol,
            "round": self.round,
            "sums": sums_content(self.steps.sums),
            "theta": _texts(self.steps.theta),
            "version": VERSION,
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return fingerprint_of(self.content())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state, whole or not at all."""
        save_hashed(self.content(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], protocol: Protocol) -> "CoalitionRound":
        """Read and check what a coalition published after a round.

        Parameters
        ----------
        path : path
        protocol : Protocol

        Returns
        -------
        CoalitionRound
        """
        keys = {
            "after", "following", "format", "members", "protocol", "round", "sha256", "sums",
            "theta", "version",
        }  # fmt: skip
        document = read_json(path)
        try:
            check_document(document, FORMAT, keys, protocol)
            design = design_of(protocol)
            q = design.space.n_components
            after = document["after"]
            steps = Steps(
                theta=_numbers(document["theta"], "theta", q),
                sums=read_sums(document["sums"], design),
                following=_numbers(document["following"], "following", q),
                n_passes=read_integer(document["round"], "round", 1, design.n_steps),
            )
            return cls(
                protocol=document["protocol"],
                steps=steps,
                members=_members(document["members"]),
                after=None if after is None else read_hash(after, "after"),
            )
        except Unfit as problem:
            raise InvalidFile(f"{path} is not a valid round of a coalition: {problem}.") from None

    def check_next(self, protocol: Protocol) -> None:
        """Refuse to go on with another protocol, or after the last round."""
        if self.protocol != protocol.fingerprint:
            raise ReplearnError(
                f"the round must be one of the protocol {protocol.fingerprint}, got one of "
                f"{self.protocol}. Use the protocol of the study."
            )
        n_rounds = design_of(protocol).n_steps
        if self.round >= n_rounds:
            raise ReplearnError(
                f"the protocol has {n_rounds} rounds, got a state after round {self.round}. There "
                "is nothing left to do: combine has written the model."
            )


def _texts(values: Vector) -> list[str]:
    return [repr(float(value)) for value in values]


def _numbers(value: Any, name: str, size: int) -> Vector:
    if not isinstance(value, list) or len(value) != size:
        raise Unfit(f"{name} must be a list of {size} decimal numbers")
    return np.array([float(read_decimal(text, f"a number of {name}")) for text in value])


def _members(value: Any) -> tuple[Counts, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_SITES:
        raise Unfit(f"members must be a list of 1 to {MAX_SITES:,} sites")
    return tuple(_member(member) for member in value)


def _member(value: Any) -> Counts:
    if not isinstance(value, list) or len(value) != 7:
        raise Unfit("a member must be a name and six counts")
    name = "" if value[0] == "" else read_name(value[0])
    a, b, c, d, e, f = (read_integer(n, "a count", 0, MAX_TOTAL_WEIGHT) for n in value[1:])
    return name, a, b, c, d, e, f
