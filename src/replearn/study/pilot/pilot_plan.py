"""A plan from a pilot: what people read, draw and carry on with."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from replearn.codes.design import Design
from replearn.codes.randomness import seed_text
from replearn.errors import ReplearnError
from replearn.study.pilot.allotment import Agreement, Allotment
from replearn.study.pilot.encoders import EncodedPilot
from replearn.study.pilot.request import Request
from replearn.study.pilot.safe_columns import Remark, in_words
from replearn.study.pilot.truth import PlanRow, table
from replearn.study.pilot.unlucky_seeds import SeedCheck, next_seed, no_cautions
from replearn.study.protocol import Protocol
from replearn.study.registration import PUBLIC_VALUE
from replearn.types import InNotebooks

#: Hint bits that every plan shows side by side.
SHOWN_BITS = (0, 2, 4, 8)


@dataclass(frozen=True)
class PilotPlan(InNotebooks):
    """What a pilot says about a study, and the study's protocol.

    Attributes
    ----------
    study : {"updating", "discovery"}
    n_pilot, n_positive : int
        Rows of the pilot, and those with the second label (0 without labels).
    table : tuple of PlanRow
        Always the base rate; the pilot's own model; this protocol; one site's rows without
        rounding. Empty without labels.
    by_bits : tuple of (int, PlanRow, int)
        Hint bits, what they would give, and coded numbers.
    by_rows : tuple of (int, PlanRow)
        Rows per site, and what this protocol would give.
    rows_to_halve : int or None
        Rows per site at which rounding costs half of what it does.
    directions : str
        Family of directions that was chosen.
    n_codes, hint_bits, n_sites, samples_per_site : int
    evidence_bits : float
        What a match is worth: minus log2 of the best guess of somebody who knows the protocol.
    remarks : tuple of Remark
        What is odd about columns of the pilot.
    rare : int
        Categories in fewer rows are folded into one.
    cautions : tuple of str
        Why the protocol may not be worth a study.
    protocol : Protocol
    replan : callable
        ``plan.replan(hint_bits=4)``: the plan of the same pilot with another ``samples_per_site,
        max_disagreement, hint_bits, sites`` or ``shared_seed``, in a moment.
    seed_cautions : callable
        ``plan.seed_cautions(seed)``: cautions about a seed, if it is an unlucky one.
    n_classes : int
    other : str
        What another recipe would have given, if one was tried.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = X[:, 0] + rng.normal(size=2000) > 0
    >>> plan = rl.plan_from_pilot(X[:200], y[:200], samples_per_site=900)
    >>> plan.n_pilot, plan.study, plan.hint_bits
    (200, 'updating', 0)
    >>> plan.replan(hint_bits=4).hint_bits
    4
    """

    study: str
    n_pilot: int
    n_positive: int
    table: tuple[PlanRow, ...]
    by_bits: tuple[tuple[int, PlanRow, int], ...]
    by_rows: tuple[tuple[int, PlanRow], ...]
    rows_to_halve: int | None
    directions: str
    n_codes: int
    hint_bits: int
    n_sites: int
    samples_per_site: int
    evidence_bits: float
    remarks: tuple[Remark, ...]
    rare: int
    cautions: tuple[str, ...]
    protocol: Protocol = field(repr=False)
    replan: "Callable[..., PilotPlan]" = field(repr=False, compare=False)
    seed_cautions: Callable[[str], list[str]] = field(repr=False, compare=False)
    n_classes: int = 2
    other: str = ""

    def under(self, protocol: Protocol) -> "PilotPlan":
        """The plan after its protocol was registered, or got the seed of a public value."""
        old = self.seed_cautions(self.protocol.seed)
        lasting = tuple(caution for caution in self.cautions if caution not in old)
        new = self.seed_cautions(protocol.seed) if protocol.seed else []
        return replace(self, protocol=protocol, cautions=(*lasting, *new))

    @property
    def other_seed(self) -> str | None:
        """A seed without such cautions, if the protocol's own is an unlucky one.

        The first of "seed/2", "seed/3" and so on: there is nothing to choose. None if the seed is
        fine, or follows from a public value.
        """
        seed = self.protocol.seed
        if not seed or PUBLIC_VALUE in self.protocol.notes or not self.seed_cautions(seed):
            return None
        return next_seed(seed, lambda other: not self.seed_cautions(other))

    @property
    def decided(self) -> str:
        """What the protocol has decided, and what is left to the sites."""
        labels = {"updating": "the pilot's labels", "discovery": "no label"}[self.study]
        n_directions = self.n_codes // (self.n_classes - 1) - 1
        one = n_directions == 1
        known = f"{n_directions} direction{'' if one else 's'} that know{'s' if one else ''}"
        classes = "" if self.n_classes == 2 else f" for {self.n_classes - 1} of the classes"
        return (
            f"The protocol decides the columns and their scaling, {known} {labels} "
            f"({self.directions}), the start and the grid. The sites decide {self.n_codes} numbers:"
            f" the intercept and the weight of each direction{classes}."
        )

    def __str__(self) -> str:
        share = f"{self.n_positive / self.n_pilot:.1%} labelled {self.protocol.classes[1]!r}"
        lines = [
            f"Pilot of {self.n_pilot:,} rows{f', {share}' if self.n_positive else ''}; "
            f"{self.n_sites} sites of "
            f"{self.samples_per_site:,} rows (estimated from the pilot, by held-out rows)"
        ]
        if self.table:
            lines += table(self.table)
        if self.by_bits:
            words = [
                f"{bits}: log-loss {row.log_loss:.4f}, AUC {row.auc:.3f}, {n_codes} numbers"
                for bits, row, n_codes in self.by_bits
            ]
            lines.append("  hint bits: " + "; ".join(words))
        if self.other:
            lines.append(f"  other recipe: {self.other}")
        lines.append(f"  {self.decided}")
        lines.append(
            f"  A match between two sites is worth {self.evidence_bits:.1f} bits to somebody who "
            "knows the protocol."
        )
        if self.rows_to_halve is not None:
            lines.append(f"  Rounding would cost half with {self.rows_to_halve:,} rows per site.")
        lines += [f"  {line}" for line in in_words(self.remarks, self.rare)]
        lines += [f"  Caution: {caution}" for caution in self.cautions]
        if self.other_seed is not None:
            lines.append(f"  The seed {self.other_seed!r} is not an unlucky one.")
        return "\n".join(lines)

    def data(self) -> dict[str, Any]:
        """As JSON types."""
        return {
            name: getattr(self, name)
            for name in (
                *("study", "n_pilot", "n_positive", "rows_to_halve", "directions", "n_codes"),
                *("hint_bits", "n_sites", "samples_per_site", "evidence_bits", "decided", "other"),
                "other_seed",
            )
        } | {
            "cautions": list(self.cautions),
            "remarks": [asdict(remark) for remark in self.remarks],
            "table": [asdict(row) for row in self.table],
            "by_bits": [
                {"hint_bits": bits, "n_codes": n_codes, **asdict(row)}
                for bits, row, n_codes in self.by_bits
            ],
            "by_rows": [{"samples_per_site": n, **asdict(row)} for n, row in self.by_rows],
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw what rows and hint bits give; needs matplotlib. Returns the axes."""
        import matplotlib.pyplot as plt

        if not self.table:
            raise ReplearnError("a plan without labels has nothing to draw. Plan with labels.")
        if axes is None:
            axes = plt.figure(figsize=(9, 4), layout="constrained").subplots(1, 2)
        left, right = axes
        base, own, _, single = self.table
        left.plot([n for n, _ in self.by_rows], [row.log_loss for _, row in self.by_rows], "o-")
        for row, style in ((base, ":"), (own, "--"), (single, "-.")):
            left.axhline(row.log_loss, linestyle=style, color="grey", label=row.name)
        left.axvline(self.samples_per_site, color="grey", linewidth=0.5)
        left.set(xscale="log", xlabel="rows per site", ylabel="log-loss", title="this protocol")
        left.legend(fontsize="small")
        bits = [str(bits) for bits, _, _ in self.by_bits]
        right.bar(bits, [row.auc - 0.5 for _, row, _ in self.by_bits], bottom=0.5)
        right.axhline(own.auc, linestyle="--", color="grey")
        title = f"{self.samples_per_site:,} rows per site"
        right.set(xlabel="hint bits", ylabel="AUC", title=title)
        return axes


def study_plan(
    request: Request,
    pilot: EncodedPilot,
    classes: tuple[Any, ...],
    allotment: Allotment,
    design: Design,
    rows: tuple[PlanRow, ...],
    *,
    best: Callable[[Agreement], Allotment],
    gained: Callable[[Allotment], PlanRow],
    factors: Sequence[float],
    seeds: SeedCheck | None,
    cautions: Sequence[str],
    again: Callable[[Request], PilotPlan],
    **shown: Any,
) -> PilotPlan:
    """The plan of a logistic study, and its protocol, once cells and table are known.

    Parameters
    ----------
    rows : tuple of PlanRow
        The table; empty without labels.
    best, gained : callables
        The allotment for an agreement, and what one is expected to give.
    factors : sequence of float
        Of the rows per site, for which the plan says what they would give.
    seeds : SeedCheck or None
        None: nobody can tell how lucky a seed is.
    again : callable
        Plans the same pilot for another request.
    **shown
        Other attributes of the plan.
    """
    agreement, n_rows = allotment.agreement, request.samples_per_site
    by_bits, by_rows = [], []
    if rows:
        for bits in SHOWN_BITS:
            made = best(replace(agreement, hint_bits=bits))
            by_bits.append((bits, gained(made), made.size))
        for factor in factors:
            n = max(100, round(n_rows * factor))
            by_rows.append((n, gained(best(replace(agreement, samples_per_site=n)))))
    seed, seed_cautions = seed_text(request.shared_seed, "shared_seed"), no_cautions
    by_chance: list[str] = []
    if seeds is not None:
        seed, passed_over = seeds.upright(seed)
        seed_cautions, by_chance = seeds.cautions, [*seeds.left_to_chance(), *passed_over]
    protocol = Protocol(
        algorithm="logistic",
        parameters={
            "failure_prob": repr(request.failure_prob),
            "max_disagreement": repr(request.max_disagreement),
        },
        seed=seed,
        classes=classes,
        encoding=pilot.encoding,
        basis=None,
        notes=_notes(request, pilot, allotment, rows),
        design=design,
        target=request.target,
    )
    return PilotPlan(
        study=request.study,
        n_pilot=int(pilot.rows.shape[0]),
        table=rows,
        by_bits=tuple(by_bits),
        by_rows=tuple(by_rows),
        n_codes=allotment.size,
        hint_bits=request.hint_bits,
        n_sites=request.sites,
        samples_per_site=n_rows,
        evidence_bits=allotment.evidence_bits,
        rare=request.rare,
        cautions=(*cautions, *by_chance, *seed_cautions(protocol.seed)),
        protocol=protocol,
        replan=partial(_replanned, again, request, bool(rows)),
        seed_cautions=seed_cautions,
        **shown,
    )


def _replanned(
    again: Callable[[Request], PilotPlan], request: Request, has_labels: bool, **changes: Any
) -> PilotPlan:
    return again(request.changed(has_labels, **changes))


def _notes(
    request: Request, pilot: EncodedPilot, allotment: Allotment, rows: tuple[PlanRow, ...]
) -> dict[str, str]:
    """What people should find in the protocol about its origin."""
    notes = {
        "directions": allotment.family.name,
        "evidence_bits": f"{allotment.evidence_bits:.1f}",
        "expected_disagreement": f"{allotment.agreement.disagreement:.3f}",
        "n_pilot": str(pilot.rows.shape[0]),
        "samples_per_site": str(request.samples_per_site),
        "scaling": pilot.scaling,
        "sites": str(request.sites),
        "study": request.study,
    }
    if rows:
        _, own, planned, _ = rows
        notes |= {
            "expected_auc": f"{planned.auc:.4f}",
            "expected_balanced_accuracy": f"{planned.balanced_accuracy:.4f}",
            "expected_log_loss": f"{planned.log_loss:.4f}",
            "pilot_auc": f"{own.auc:.4f}",
            "pilot_log_loss": f"{own.log_loss:.4f}",
        }
    return notes
