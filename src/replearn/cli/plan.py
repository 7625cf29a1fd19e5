"""``replearn plan``: how many rows a lab needs; with a pilot, the protocol of a study."""

import argparse
from dataclasses import asdict, replace
from math import inf
from typing import TYPE_CHECKING, Any

from replearn.cli.files import check_target, read_labelled_columns, writing
from replearn.cli.options import (
    ALGORITHMS,
    PROMISE,
    add_command,
    add_file,
    add_promise,
    given_promise,
    names,
    positive,
)
from replearn.cli.outcome import Outcome
from replearn.cli.text import aligned
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.plans.sizes import Plan

#: Options that mean nothing without a pilot.
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
)
_FOR_PILOTS = (
    "target",
    "columns",
    "drop",
    "categories",
    "numeric",
    "rare",
    "samples_per_site",
    "seed",
    "public_value",
    "register",
    "draw_date",
    "out",
)


def add(commands: Any) -> None:
    """Add the command to the parser."""
    parser = add_command(
        commands,
        "plan",
        run,
        "how many rows a lab needs, before any data is spent",
        """\
examples:
  replearn plan --margin .2 --max-error .05 --max-disagreement .1 --features 50
  replearn plan --pilot pilot.csv --target label --samples-per-site 100000 --out study.json
  replearn plan --pilot pilot.csv --target label --samples-per-site 100000 --drop patient_id,date
  replearn plan --pilot pilot.csv --target label --samples-per-site 100000 --out draft.json \\
      --register "national lottery, six numbers" --draw-date 2027-05-06
  replearn plan --registered draft.json --public-value "3 17 22 31 40 44" --out study.json

Who chooses a seed may try several after a look at the pilot. With --register the protocol has none
yet: publish the hash that is printed before the day of the draw; afterwards --registered completes
it, and sites check it with --lock HASH.

Everything in a protocol is published. Columns of a pilot that look like identifiers, dates or
free text are refused, and categories that few rows have are folded into (other).

With --pilot, JSON keys: protocol (its hash), registered (hash without a seed; or null), out,
  pilot_accuracy, chosen, frontier, samples, remarks (about columns), warnings. With --registered:
  protocol, registered, out, warnings. Without, JSON keys: algorithm, mode, basis, margin,
  max_error, max_disagreement, failure_prob, n_samples, n_inputs, n_sites, warnings, and (null where
  the algorithm has none) n_batches, batch_size, projection, n_components, rounding, grid_width,
  regularization, unit_vectors, length_cap""",
    )
    add_promise(parser)
    parser.add_argument("--features", type=positive, metavar="N", help="number of columns")
    parser.add_argument(
        "--algorithm",
        choices=ALGORITHMS,
        default="svm",
        help="row of Table 1 (default svm)",
    )
    parser.add_argument(
        "--samples", type=positive, metavar="N", help="rows per site: check them, or --solve"
    )
    parser.add_argument(
        "--solve",
        choices=("margin", "max-error", "max-disagreement"),
        help="the smallest value of this that --samples allow",
    )
    parser.add_argument(
        "--sites",
        type=positive,
        default=2,
        metavar="K",
        help="all K agree but with probability --max-disagreement (default 2)",
    )
    parser.add_argument(
        "--public-value",
        metavar="TEXT",
        help="with --pilot: derive the seed from the protocol and a value nobody could choose",
    )
    parser.add_argument(
        "--register",
        metavar="DRAW",
        help="with --pilot: no seed yet; it will follow from this public draw",
    )
    parser.add_argument("--draw-date", metavar="DATE", help="day of that draw, as 2027-05-06")
    add_file(
        parser,
        "--registered",
        metavar="FILE",
        help="complete this registered protocol with --public-value, once that is drawn",
    )
    add_file(parser, "--pilot", metavar="FILE", help="plan from a pilot sample, no site's own")
    parser.add_argument("--target", metavar="COLUMN", help="label column of the pilot")
    parser.add_argument(
        "--columns", type=names, metavar="A,B", help="columns of the pilot to use (default: all)"
    )
    parser.add_argument(
        "--drop",
        type=names,
        metavar="A,B",
        help="columns to leave out: identifiers, dates, free text, what the label follows from",
    )
    parser.add_argument(
        "--categories",
        type=names,
        metavar="A,B",
        help="columns that are categories although they look like something else",
    )
    parser.add_argument(
        "--numeric",
        type=names,
        metavar="A,B",
        help="columns that are numbers although they look like something else",
    )
    parser.add_argument(
        "--rare",
        type=positive,
        metavar="N",
        help="categories in fewer rows of the pilot are not published, but folded into (other) "
        "(default 10)",
    )
    parser.add_argument(
        "--samples-per-site", type=positive, metavar="N", help="rows that each site will have"
    )
    parser.add_argument("--seed", help="published seed that the protocol fixes (default 0)")
    add_file(parser, "--out", metavar="FILE", help="where to write the protocol")


def run(options: argparse.Namespace) -> Outcome:
    """Plan from the promise alone, or from a pilot; or complete a registered protocol."""
    if options.registered is not None:
        return _complete(options)
    if options.pilot is not None:
        return _plan_from_pilot(options)
    _refuse_what_is_for_pilots(options)
    if options.features is None:
        raise ReplearnError("plan needs --features N, or --pilot FILE with --samples-per-site N.")
    from replearn.plans.planner import plan as make_plan

    promise: dict[str, Any] = {name: default for name, (default, _) in PROMISE.items()}
    promise |= given_promise(options)
    if options.solve is not None:
        promise[options.solve.replace("-", "_")] = None
    plan = make_plan(
        options.algorithm,
        n_features=options.features,
        n_samples=options.samples,
        mode=options.mode,
        n_sites=options.sites,
        fit_intercept=options.intercept,
        **promise,
    )
    return Outcome(str(plan), _plan_data(plan) | {"n_sites": options.sites})


def _refuse_what_is_for_pilots(options: argparse.Namespace) -> None:
    for name in _FOR_PILOTS:
        if getattr(options, name) is not None:
            raise ReplearnError(
                f"--{name.replace('_', '-')} is for a plan from a pilot. Leave it out, or name the "
                "pilot with --pilot FILE."
            )


def _plan_from_pilot(options: argparse.Namespace) -> Outcome:
    from replearn.study.pilot import plan_from_pilot

    if options.samples_per_site is None:
        raise ReplearnError(
            "--pilot needs --samples-per-site N, the rows that each site will have."
        )
    _check_seed_options(options)
    check_target(options.out)
    categories = options.categories or []
    columns, y = read_labelled_columns(options.pilot, options.target, categories)
    plan = plan_from_pilot(
        columns,
        y,
        algorithm="svm",
        categories=categories,
        numeric=options.numeric or [],
        columns=options.columns,
        drop=options.drop or [],
        **({} if options.rare is None else {"rare": options.rare}),
        samples_per_site=options.samples_per_site,
        shared_seed="0" if options.seed is None else options.seed,
        fit_intercept=options.intercept,
        **given_promise(options),
    )
    if options.register is not None:
        protocol = plan.protocol.register(options.register, options.draw_date)
        plan = replace(plan, protocol=protocol)
    if options.public_value is not None:
        plan = replace(plan, protocol=plan.protocol.with_public_value(options.public_value))
    text = f"{plan}\n  seed: {plan.protocol.seed_policy}"
    if plan.protocol.registered_hash is not None:
        text += f"\n  publish this before {options.draw_date}: {plan.protocol.registered_hash}"
    if options.out is not None:
        with writing(options.out):
            plan.protocol.save(options.out)
        text += f"\n  protocol {plan.protocol.fingerprint[:16]}..., written to {options.out}"
    data = {
        "protocol": plan.protocol.fingerprint,
        "registered": plan.protocol.registered_hash,
        "out": options.out,
    } | plan.data()
    return Outcome(text, data)


def _check_seed_options(options: argparse.Namespace) -> None:
    """Refuse more than one source of a seed."""
    given = [
        f"--{name.replace('_', '-')}"
        for name in ("seed", "public_value", "register")
        if getattr(options, name) is not None
    ]
    if len(given) > 1:
        raise ReplearnError(f"a seed comes from one place, got {' and '.join(given)}. Leave one.")
    if (options.register is None) != (options.draw_date is None):
        raise ReplearnError(
            "--register and --draw-date go together, got one of them. Add the other."
        )


def _complete(options: argparse.Namespace) -> Outcome:
    """Give a registered protocol the seed that its draw decided."""
    from replearn.study.protocol import Protocol

    others = [name for name in _FOR_PILOTS if name not in ("public_value", "out")]
    others += ["pilot", "features", "samples", "solve", *PROMISE]
    given = [name for name in others if getattr(options, name) is not None]
    if given:
        raise ReplearnError(
            f"--registered completes a protocol, got --{given[0].replace('_', '-')} too. Leave it "
            "out."
        )
    if options.public_value is None or options.out is None:
        raise ReplearnError("--registered needs --public-value TEXT and --out FILE.")
    check_target(options.out)
    draft = Protocol.load(options.registered)
    if draft.registered_hash is None or draft.seed:
        raise ReplearnError(
            f"{options.registered} must be a registered protocol without a seed, made by `replearn "
            "plan --pilot ... --register`. Name that file."
        )
    protocol = draft.with_public_value(options.public_value)
    with writing(options.out):
        protocol.save(options.out)
    lines = [
        ("seed", protocol.seed_policy),
        ("registered", str(protocol.registered_hash)),
        ("protocol", protocol.fingerprint),
        ("written to", options.out),
    ]
    data = {
        "protocol": protocol.fingerprint,
        "registered": protocol.registered_hash,
        "out": options.out,
    }
    return Outcome(aligned(lines), data)


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
