"""``replearn plan``: how many rows a lab needs; with a pilot, the protocol of a study."""

import argparse
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING, Any

from replearn.cli import pilot
from replearn.cli.options import (
    ALGORITHMS,
    PROMISE,
    Parser,
    add_promise,
    given_promise,
    positive,
)
from replearn.cli.outcome import Outcome
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.plans.sizes import Plan

#: Sizes of plans; no algorithm has all of them.
_SIZES = (
    "n_batches",
    "batch_size",
    "projection",
    "n_components",
    "rounding",
    "grid_width",
    "regularization",
    "unit_vectors",
    "length_cap",
    "hint_bits",
)


HELP = "how many rows a lab needs, before any data is spent"

EPILOG = """\
examples:
  replearn plan --margin .2 --max-error .05 --max-disagreement .1 --features 50
  replearn plan --margin .2 --features 50 --hint-bits 2
  replearn plan --pilot pilot.csv --target label --samples-per-site 100000 --out study.json
  replearn plan --pilot pilot.csv --target label --samples-per-site 100000 --hint-bits 4
  replearn plan --pilot x.csv --study discovery --classes no,yes --share .1 --samples-per-site 9000
  replearn plan --pilot x.csv --samples-per-site 9000 --register "lottery" --draw-date 2027-05-06
  replearn plan --registered draft.json --public-value "3 17 22 31 40 44" --out study.json

With --pilot a logistic study is planned (--algorithm svm, sgd or net: Algorithm 1, 2 or 3, the last
with a net over at most six published directions; auto: logistic or Algorithm 1, whichever has the
better balanced accuracy on held-out rows, and what the other would give). The plan says what the
protocol is worth next to the base rate, the pilot's own model and one site's rows, and what the
protocol has decided already. Study "updating": directions that know the pilot's labels. Study
"discovery": directions that know none; a pilot without labels is enough, with --classes (those of
the sites, negative first) and --share (expected share of the second). Hint bits: the first site
publishes this many bits about where its estimate lies, and the others use them.

Who chooses a seed may try several after a look at the pilot. With --register the protocol has none
yet: publish the hash that is printed before the day of the draw; afterwards --registered completes
it, and sites check it with --lock HASH.

Everything in a protocol is published. Columns of a pilot that look like identifiers, dates or
free text are refused, and categories that few rows have are folded into (other).

With --pilot, JSON keys: protocol (its hash), registered (hash without a seed; or null), out,
  algorithm, remarks (about columns), warnings, other (what the recipe not taken would give);
  logistic: study, n_pilot, n_positive, rows_to_halve, directions, n_codes, hint_bits, n_sites,
  samples_per_site, evidence_bits, decided, cautions, other_seed (in place of an unlucky one, or
  null), table, by_bits, by_rows
  (svm: pilot_accuracy, chosen, frontier, samples). With --registered: protocol, registered,
  out, cautions (about the seed; null: not judged), warnings. Without, JSON keys: algorithm, mode,
  basis, margin, max_error, max_disagreement,
  failure_prob, n_samples, n_inputs, n_sites, warnings, and (null where the algorithm has none)
  n_batches, batch_size, projection, n_components, rounding, grid_width, regularization,
  unit_vectors, length_cap, hint_bits"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    add_promise(parser)
    parser.set_defaults(mode=None)  # so that one that was given is seen
    parser.add("--features N", "number of columns", type=positive)
    parser.add(
        "--algorithm",
        "row of Table 1 (default svm); with --pilot logistic (default), svm, sgd, net, or "
        "auto: logistic or svm, whichever is better",
        choices=("logistic", *ALGORITHMS, "auto"),
    )
    parser.add("--samples N", "rows per site: check them, or --solve", type=positive)
    parser.add(
        "--solve",
        "the smallest value of this that --samples allow",
        choices=("margin", "max-error", "max-disagreement"),
    )
    parser.add(
        "--sites K",
        "all K agree but with probability --max-disagreement (default 2)",
        type=positive,
    )
    parser.add("--pilot FILE", "plan from a pilot sample, no site's own")
    pilot.add_options(parser)


def run(options: argparse.Namespace) -> Outcome:
    """Plan from the promise alone, or from a pilot; or complete a registered protocol."""
    if options.registered is not None:
        return pilot.complete(options)
    if options.pilot is not None:
        return pilot.run(options)
    pilot.refuse_without_pilot(options)
    if options.features is None:
        raise ReplearnError("plan needs --features N, or --pilot FILE with --samples-per-site N.")
    if options.algorithm in ("logistic", "auto"):
        raise ReplearnError(
            f"a study is planned from a pilot, got --algorithm {options.algorithm} without one. "
            "Name it with --pilot FILE."
        )
    from replearn.plans.planner import plan as make_plan

    promise: dict[str, Any] = {name: default for name, (default, _) in PROMISE.items()}
    promise |= given_promise(options)
    if options.solve is not None:
        promise[options.solve.replace("-", "_")] = None
    n_sites = options.sites or 2
    plan = make_plan(
        options.algorithm or "svm",
        n_features=options.features,
        n_samples=options.samples,
        mode=options.mode or "practical",
        n_sites=n_sites,
        fit_intercept=options.intercept,
        hint_bits=options.hint_bits or 0,
        **promise,
    )
    return Outcome(str(plan), _plan_data(plan) | {"n_sites": n_sites})


def _plan_data(plan: "Plan") -> dict[str, Any]:
    sizes = {name: getattr(plan, name, None) for name in _SIZES}
    if sizes["length_cap"] == inf:  # JSON has no infinity
        sizes["length_cap"] = None
    return {
        "algorithm": plan.algorithm,
        "mode": plan.mode,
        "basis": plan.basis,
        **asdict(plan.guarantee),
        "n_samples": plan.n_samples,
        "n_inputs": plan.n_inputs,
        **sizes,
    }
