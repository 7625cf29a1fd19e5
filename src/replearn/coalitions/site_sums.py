"""The sums of one site: a small file, and nothing of a row in it."""

import os
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from replearn.coalitions.site_batches import SiteBatches, batches_content, read_batches
from replearn.codes.canonical import fingerprint_of
from replearn.codes.design import Design
from replearn.errors import InvalidFile, ReplearnError, short
from replearn.estimators.score_state import checked_sums, n_sums_of
from replearn.files.jsonfile import (
    Unfit,
    read_format,
    read_hash,
    read_integer,
    read_json,
    read_object,
    read_text,
    write_json,
)
from replearn.kernels.score_sums import MAX_TOTAL_WEIGHT, ScoreSums
from replearn.study.protocol import Protocol

FORMAT = "replearn-sums"
VERSION = 1

_KEYS = {
    "after", "format", "protocol", "round", "sha256", "site", "sums", "unknown", "version",
}  # fmt: skip
_SUM_KEYS = {"cut_rows", "integers", "labels", "rows", "shortened_rows", "zero_rows"}
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,31})")  # 2^101 has 31 digits


@dataclass(frozen=True, eq=False)
class SiteSums:
    """What one site sends in one round.

    Attributes
    ----------
    protocol : str
        Fingerprint of the protocol.
    round : int
        From 1 to the number of steps of the design.
    after : str or None
        Hash of the coalition's state that the sums were made at; None in the first round, which is
        made at the published start.
    sums : ScoreSums or SiteBatches
        Whole numbers, of a logistic study or of Algorithm 1: see `replearn.kernels.score_sums` and
        `replearn.coalitions.site_batches`.
    unknown : tuple of int
        Rows with a value that the protocol does not know, for each column of its encoding.
    site : str or None
        Name of the site, if it wants to have one.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> protocol = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900).protocol
    >>> sums = rl.row_sums(protocol, X[200:1100], y[200:1100], site="oslo")
    >>> sums.n_rows, sums.site
    (900, 'oslo')
    """

    protocol: str
    round: int
    after: str | None
    sums: ScoreSums | SiteBatches
    unknown: tuple[int, ...]
    site: str | None = None

    @property
    def n_rows(self) -> int:
        """Rows of the site."""
        return self.sums.n_rows

    def content(self) -> dict[str, Any]:
        """As JSON types; integers of more than 53 bits stand in text."""
        return {
            "after": self.after,
            "format": FORMAT,
            "protocol": self.protocol,
            "round": self.round,
            "site": self.site,
            "sums": sums_content(self.sums)
            if isinstance(self.sums, ScoreSums)
            else batches_content(self.sums),
            "unknown": list(self.unknown),
            "version": VERSION,
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return fingerprint_of(self.content())

    @property
    def nameless(self) -> str:
        """The fingerprint without the name: equal for the same rows under two names."""
        return replace(self, site=None).fingerprint

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sums, whole or not at all."""
        save_hashed(self.content(), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], protocol: Protocol) -> "SiteSums":
        """Read and check a file of sums.

        Parameters
        ----------
        path : path
        protocol : Protocol
            Of the study; sums of another one are refused.

        Returns
        -------
        SiteSums

        Raises
        ------
        InvalidFile
            If it is damaged, belongs to another protocol, or holds numbers that no rows give.
        """
        document = read_json(path)
        try:
            check_document(document, FORMAT, _KEYS, protocol)
            found = cls(
                protocol=document["protocol"],
                round=read_integer(document["round"], "round", 1, n_rounds(protocol)),
                after=None if document["after"] is None else read_hash(document["after"], "after"),
                sums=_read_any(document["sums"], protocol),
                unknown=_read_unknown(document["unknown"], protocol, document["sums"]["rows"]),
                site=None if document["site"] is None else read_name(document["site"]),
            )
            if (found.after is None) != (found.round == 1):
                raise Unfit("only sums of the first round come after nothing")
        except Unfit as problem:
            raise InvalidFile(f"{path} is not a valid file of sums: {problem}.") from None
        return found


# --- what files of a coalition share ----------------------------------------------------------


def design_of(protocol: Protocol) -> Design:
    """The design of a logistic study; other protocols have no rounds."""
    if protocol.design is None:
        raise ReplearnError(
            f"rounds of sums need a protocol of a logistic study, got algorithm "
            f"{protocol.algorithm!r}. Plan one: replearn plan --pilot."
        )
    if protocol.design.space.is_numeric:
        raise ReplearnError(
            "sums of sites are for classifiers, got the protocol of a regression. Fit each site by "
            "itself."
        )
    if protocol.design.space.n_classes > 2:
        raise ReplearnError(
            f"sums of sites are for two classes, got {protocol.design.space.n_classes}. Fit each "
            "site by itself, or merge classes."
        )
    return protocol.design


def n_rounds(protocol: Protocol) -> int:
    """How often sites send sums; protocols whose sums do not add up are refused."""
    if protocol.design is not None:
        return design_of(protocol).n_steps
    if protocol.algorithm != "svm":
        raise ReplearnError(
            "sums of sites need a protocol of a logistic study or of Algorithm 1, got algorithm "
            f"{protocol.algorithm!r}. Plan one: replearn plan --pilot."
        )
    return 1


def n_vector(protocol: Protocol) -> int | None:
    """Numbers of a batch vector of Algorithm 1; None if only the rows say how many."""
    intercept = int(bool(protocol.parameters["fit_intercept"]))
    if protocol.encoding is not None:
        return protocol.encoding.n_outputs + intercept
    return None if protocol.basis is None else protocol.basis.rows.shape[1]


def _read_any(value: Any, protocol: Protocol) -> ScoreSums | SiteBatches:
    if protocol.design is not None:
        return read_sums(value, protocol.design)
    if "batch_size" not in protocol.parameters:
        raise Unfit("a fit on all rows takes several rounds, so its sums cannot be added up")
    return read_batches(value, n_vector(protocol), protocol.parameters["batch_size"])


def save_hashed(content: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write content with its hash."""
    write_json(path, content | {"sha256": fingerprint_of(content)})


def check_document(document: dict[str, Any], kind: str, keys: set[str], protocol: Protocol) -> None:
    """Refuse another format, a damaged file, or another protocol."""
    read_format(document, kind, VERSION)
    read_object(document, "it", keys)
    content = {key: value for key, value in document.items() if key != "sha256"}
    if document["sha256"] != fingerprint_of(content):
        raise Unfit("its hash is not that of its content: it was damaged or changed")
    if document["protocol"] != protocol.fingerprint:
        raise Unfit(
            f"it belongs to the protocol {short(document['protocol'])}, not to "
            f"{protocol.fingerprint}. All sites need the same protocol file"
        )


def sums_content(sums: ScoreSums) -> dict[str, Any]:
    """Sums as JSON types; units and parts are those of the protocol."""
    return {
        "cut_rows": sums.n_cut,
        "integers": [str(number) for number in sums.integers()],
        "labels": [int(count) for count in sums.class_weights],
        "rows": sums.n_rows,
        "shortened_rows": sums.n_capped,
        "zero_rows": sums.n_zero,
    }


def read_sums(value: Any, design: Design) -> ScoreSums:
    """Sums that rows can have given."""
    content = read_object(value, "'sums'", _SUM_KEYS)
    n_rows = read_integer(content["rows"], "rows", 1, MAX_TOTAL_WEIGHT)
    n_zero, n_capped, n_cut = (
        read_integer(content[name], name, 0, n_rows)
        for name in ("zero_rows", "shortened_rows", "cut_rows")
    )
    labels = content["labels"]
    if not isinstance(labels, list) or len(labels) != 2:
        raise Unfit("labels must be a list of two counts")
    weights = [read_integer(count, "a count of labels", 0, n_rows) for count in labels]
    if sum(weights) != n_rows:
        raise Unfit(f"counts of labels must add up to {n_rows} rows, got {sum(weights)}")
    texts, n_sums = content["integers"], n_sums_of(design)
    if not isinstance(texts, list) or len(texts) != n_sums:
        raise Unfit(f"integers must be a list of {n_sums} whole numbers, as text")
    if not all(isinstance(text, str) and _INTEGER.fullmatch(text) for text in texts):
        raise Unfit("integers must be whole numbers of at most 32 digits, as text")
    numbers = [int(text) for text in texts]
    if [str(number) for number in numbers] != texts:
        raise Unfit("integers must be written in one way: no zero has a sign")
    class_weights = np.array(weights, dtype=np.int64)
    try:
        return checked_sums(design, numbers, n_rows, n_zero, n_capped, n_cut, class_weights)
    except ValueError as refused:
        raise Unfit(str(refused).rstrip(".")) from None


def scores_of(site: SiteSums) -> ScoreSums:
    """The sums of a site in a logistic study."""
    assert isinstance(site.sums, ScoreSums)  # the protocol has been checked
    return site.sums


def batches_of(site: SiteSums) -> SiteBatches:
    """The sums of a site for Algorithm 1."""
    assert isinstance(site.sums, SiteBatches)  # the protocol has been checked
    return site.sums


def _read_unknown(value: Any, protocol: Protocol, n_rows: int) -> tuple[int, ...]:
    n_columns = 0 if protocol.encoding is None else len(protocol.encoding.columns)
    if not isinstance(value, list) or len(value) != n_columns:
        raise Unfit(f"unknown must be a list of {n_columns} counts, one for each column")
    return tuple(read_integer(count, "a count of unknown values", 0, n_rows) for count in value)


def read_name(value: Any) -> str:
    """The name of a site: one line of at most 200 characters."""
    text = read_text(value, "site")
    if not 1 <= len(text) <= 200 or not text.isprintable() or text != text.strip():
        raise Unfit("site must be a name of 1 to 200 printable characters")
    return text
