"""Sums of many sites become one model: that of the pooled rows, to the bit."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any

from replearn.coalitions.engines import refuse_overflow
from replearn.coalitions.influence import (
    Heterogeneity,
    Influence,
    batch_influences,
    heterogeneity,
    influences,
)
from replearn.coalitions.rounds import CoalitionRound, Counts, counts_of
from replearn.coalitions.site_sums import SiteSums, batches_of, n_rounds, scores_of
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.stages.certificate import Certificate
from replearn.stages.scores import Steps
from replearn.study.protocol import Protocol


@dataclass(frozen=True, eq=False)
class Coalition:
    """The model of many sites, and what each of them adds to it.

    Attributes
    ----------
    model : Model
        That of ``fit`` on the rows of all sites, to the bit.
    hint : int or None
        With hint bits: what later labs pass as ``hint``.
    certificate : Certificate
        Of the pooled rows: how likely another coalition of as many rows gets the same model.
    sites : tuple of Influence
        What each site adds, in the order of the files.
    heterogeneity : Heterogeneity or None
        Are the sites' scores compatible with one population? None for a single site, and for
        Algorithm 1.
    n_rows, n_rounds : int

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
    >>> coalition = rl.combine(protocol, sites)
    >>> coalition.n_rows, len(coalition.sites)
    (1800, 2)
    """

    model: Model
    hint: int | None
    certificate: Certificate
    sites: tuple[Influence, ...]
    heterogeneity: Heterogeneity | None
    n_rows: int
    n_rounds: int

    @property
    def agreement(self) -> float:
        """Share of the sites without which the model is the same."""
        return sum(site.same for site in self.sites) / len(self.sites)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        certificate = self.certificate
        return {
            "fingerprint": self.model.fingerprint,
            "hint": self.hint,
            "rows": self.n_rows,
            "rounds": self.n_rounds,
            "estimated_disagreement": certificate.estimated_disagreement,
            "disagreement_bound": certificate.disagreement_bound,
            "bound_confidence": certificate.confidence,
            "bound_assumes": certificate.assumes,
            "agreement_without_a_site": self.agreement,
            "sites": [site.data() for site in self.sites],
            "heterogeneity": None if self.heterogeneity is None else asdict(self.heterogeneity),
        }

    def __str__(self) -> str:
        estimate, n_same = self.certificate.estimated_disagreement, sum(s.same for s in self.sites)
        lines = [
            f"coalition      {len(self.sites):,} sites, {self.n_rows:,} rows, "
            f"{self.n_rounds} {'round' if self.n_rounds == 1 else 'rounds'}",
            f"fingerprint    {self.model.fingerprint}",
        ]
        lines += [] if self.hint is None else [f"hint           {self.hint}"]
        if estimate is not None:
            lines.append(
                "estimated      another coalition of as many rows gets a different model with "
                f"probability {estimate:.3f} at this seed"
            )
        bound = self.certificate.disagreement_bound
        if bound < 1:
            lines.append(
                f"certified      that probability is at most {bound:.3f} on average over seeds, at "
                f"confidence {self.certificate.confidence:g}"
            )
        if self.heterogeneity is not None:
            lines.append(f"one population {self.heterogeneity}")
        if len(self.sites) > 1:
            lines.append(
                f"left out       the model is the same without {n_same:,} of "
                f"{len(self.sites):,} sites"
            )
            lines += [f"  {site}" for site in self.sites]
        return "\n".join(lines)


def combine(
    protocol: Protocol,
    sites: Sequence[SiteSums],
    after: CoalitionRound | None = None,
    hint: int | None = None,
) -> Coalition | CoalitionRound:
    """Add up the sums of all sites.

    Parameters
    ----------
    protocol : Protocol
        Of a logistic study.
    sites : sequence of SiteSums
        One of each site, all of one round; their order does not matter.
    after : CoalitionRound, optional
        What this function gave after the last round; None in the first.
    hint : int, optional
        Published by the first lab. With hint bits and no hint, the coalition is the first.

    Returns
    -------
    Coalition or CoalitionRound
        After the last round the model; before, what sites need for the next.

    Raises
    ------
    ReplearnError
        If a file is there twice, a site in two versions, or sums are of another protocol or round,
        or of other sites than in the last round.

    Notes
    -----
    Sums are whole numbers, so their total is that of the pooled rows, whoever added them up; from
    there on the steps are those of ``fit`` on all rows.

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
    >>> pooled = protocol.estimator().fit(X[200:], y[200:])
    >>> rl.combine(protocol, sites).model.fingerprint == pooled.fingerprint_
    True
    """
    n_rounds(protocol)
    if after is not None:
        after.check_next(protocol)
    _check_sites(protocol, sites, after)
    refuse_overflow(sites)
    given = {} if hint is None else {"hint": hint}
    if protocol.design is None:
        return _combine_batches(protocol, sites, given)
    design = protocol.design
    total = reduce(add, map(scores_of, sites))
    looked = design.space.start_numbers if after is None else after.steps.following
    steps = Steps.start(total, design) if after is None else after.steps.then(total, design)
    if steps.n_passes < design.n_steps:
        members = _members(sites)
        above = None if after is None else after.fingerprint
        return CoalitionRound(protocol.fingerprint, steps, members, above)
    estimator = protocol.estimator(**given).fit_steps(steps)
    return Coalition(
        model=estimator.model_,
        hint=estimator.hint_ if protocol.hint_bits else None,
        certificate=estimator.certificate_,
        sites=influences(sites, total, looked, steps, design, estimator.model_),
        heterogeneity=heterogeneity(sites, total, design) if len(sites) > 1 else None,
        n_rows=total.n_rows,
        n_rounds=design.n_steps,
    )


def _combine_batches(
    protocol: Protocol, sites: Sequence[SiteSums], given: dict[str, int]
) -> Coalition:
    """Algorithm 1: batch vectors of all sites, added up; one round."""
    total = reduce(add, map(batches_of, sites))
    if min(total.class_weights) == 0:
        raise ReplearnError(
            "the sites together must hold two classes, got one. Get the sums of other sites."
        )
    estimator = protocol.estimator(**given).fit_batches(total.batches, total.n_rows)
    return Coalition(
        model=estimator.model_,
        hint=estimator.hint_ if protocol.hint_bits else None,
        certificate=estimator.certificate_,
        sites=batch_influences(sites, estimator.plan_, estimator.model_),
        heterogeneity=None,
        n_rows=total.n_rows,
        n_rounds=1,
    )


def _members(sites: Sequence[SiteSums]) -> tuple[Counts, ...]:
    return tuple(sorted(map(counts_of, sites)))


def _check_sites(
    protocol: Protocol, sites: Sequence[SiteSums], after: CoalitionRound | None
) -> None:
    """Refuse what would make another model than that of the pooled rows."""
    if not sites:
        raise ReplearnError("there must be sums of at least one site, got none.")
    expected = 1 if after is None else after.round + 1
    above = None if after is None else after.fingerprint
    for place, site in enumerate(sites):
        name = _name(site, place)
        if site.protocol != protocol.fingerprint:
            raise ReplearnError(
                f"{name} must be of the protocol {protocol.fingerprint}, got {site.protocol}. Let "
                "the site make its sums with the protocol of the study."
            )
        if site.round != expected:
            raise ReplearnError(
                f"{name} must be of round {expected}, got round {site.round}. Use the file of this "
                "round, and name the state of the last one (after, on the command line --after)."
            )
        if site.after != above:
            raise ReplearnError(
                f"{name} was made after another state of the coalition, {site.after}, than "
                f"{above}. Send the site the right one."
            )
    _refuse_twice(sites)
    if after is not None and _members(sites) != after.members:
        raise ReplearnError(
            f"round {expected} must have the sites and rows of the last round, got others: "
            f"{_changes(_members(sites), after.members)}. Get the missing files, or begin anew "
            "with round 1."
        )


def _refuse_twice(sites: Sequence[SiteSums]) -> None:
    contents: dict[str, str] = {}
    names: dict[str, str] = {}
    for place, site in enumerate(sites):
        name = _name(site, place)
        twin = contents.setdefault(site.nameless, name)
        if twin is not name:
            raise ReplearnError(
                f"{twin} and {name} hold the same sums: the rows would count twice. Leave one out."
            )
        if site.site is not None and names.setdefault(site.site, name) is not name:
            raise ReplearnError(
                f"there are two versions of the site {site.site!r}. Keep the one that counts."
            )


def _name(site: SiteSums, place: int) -> str:
    return f"file {place + 1}" if site.site is None else f"file {place + 1} ({site.site})"


def _changes(found: Sequence[Counts], before: Sequence[Counts]) -> str:
    missing = [member for member in before if member not in found]
    new = [member for member in found if member not in before]
    words = [f"{len(found)} sites instead of {len(before)}"] if len(found) != len(before) else []
    for what, members in (("missing", missing), ("new", new)):
        if members:
            shown = ", ".join(f"{m[0] or 'a nameless site'} of {m[1]:,} rows" for m in members[:3])
            words.append(f"{what} {shown}")
    return "; ".join(words)
