"""``replearn plan --pilot``: the protocol of a study, and the truth about it."""

import argparse
from typing import TYPE_CHECKING, Any

from replearn.cli.choice_files import is_choice_protocol
from replearn.cli.files import check_target, read_labelled_columns, writing
from replearn.cli.options import (
    PROMISE,
    Parser,
    add_common,
    given,
    given_promise,
    names,
    positive,
    share,
)
from replearn.cli.outcome import Outcome
from replearn.cli.text import aligned
from replearn.errors import ReplearnError
from replearn.terminal import printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replearn.study.pilot.scores import PublishedScore

#: Options that mean something only with a pilot, for either algorithm.
_FOR_PILOTS = (
    *("target", "columns", "drop", "categories", "numeric", "rare", "samples_per_site"),
    *("seed", "public_value", "register", "draw_date", "out"),
)

#: Options of a logistic study, and of one with Algorithms 1 to 3.
_LOGISTIC = ("study", "scores", "threshold", "classes", "share")
_SVM = ("margin", "max_error", "intercept")

#: Options of a plan from a promise alone.
_FOR_PROMISES = ("features", "samples", "solve", "mode")


def add_options(parser: Parser) -> None:
    """Add what a plan from a pilot can be told."""
    parser.add(
        "--study",
        "whether directions may know the pilot's labels (default updating)",
        choices=("updating", "discovery"),
    )
    parser.add(
        "--hint-bits B",
        "bits that the first site publishes about its estimate, 0 to 8 (default 0)",
        type=int,
        choices=range(9),
    )
    parser.add(
        "--scores FILE",
        "published score whose direction comes first: a CSV of column,weight, or a model "
        "file; may be given again",
        action="append",
    )
    parser.add(
        "--threshold T",
        "probability from which on a row gets the second label: a number; share, the pilot's "
        "share of that label (default); half; or 5:1 if a missed one costs 5 false alarms",
        type=threshold,
    )
    parser.add(
        "--target COLUMN", "label column, which the protocol keeps, so that sites need not name it"
    )
    parser.add(
        "--classes A,B",
        "pilot without labels: those of the sites, negative first",
        type=_two_labels,
    )
    parser.add("--share X", "pilot without labels: expected share of B", type=share)
    parser.add("--columns A,B", "columns of the pilot to use (default: all)", type=names)
    parser.add(
        "--drop A,B",
        "columns to leave out: identifiers, dates, free text, what the label follows from",
        type=names,
    )
    parser.add(
        "--categories A,B",
        "columns that are categories although they look like something else",
        type=names,
    )
    parser.add(
        "--numeric A,B",
        "columns that are numbers although they look like something else",
        type=names,
    )
    parser.add(
        "--rare N",
        "categories in fewer rows of the pilot are not published, but folded into (other) "
        "(default 10)",
        type=positive,
    )
    parser.add("--samples-per-site N", "rows that each site will have", type=positive)
    parser.add(
        "--seed",
        "seed that the protocol fixes (default 0); whoever chooses one may try several, so a "
        "public value is better: --register, --public-value",
    )
    add_common(parser, "--public-value", "--register", "--draw-date")
    parser.add(
        "--registered FILE",
        "complete this registered protocol with --public-value, once that is drawn",
    )
    parser.add("--out FILE", "where to write the protocol")


def refuse_without_pilot(options: argparse.Namespace) -> None:
    """Refuse what would be ignored."""
    if idle := given(options, *_FOR_PILOTS, *_LOGISTIC):
        raise ReplearnError(
            f"{idle[0]} is for a plan from a pilot. Leave it out, or name the pilot with --pilot "
            "FILE."
        )


def run(options: argparse.Namespace) -> Outcome:
    """Plan, and write the protocol."""
    from replearn.study.pilot import plan_from_pilot

    algorithm = options.algorithm or "logistic"
    _refuse_odd(options, algorithm)
    check_target(options.out)
    categories = options.categories or []
    columns, y = _read_pilot(options, categories)
    plan = plan_from_pilot(
        columns,
        y,
        algorithm=algorithm,
        categories=categories,
        numeric=options.numeric or [],
        columns=options.columns,
        drop=options.drop or [],
        samples_per_site=options.samples_per_site,
        shared_seed="0" if options.seed is None else options.seed,
        target=options.target,
        scores=[_read_score(path) for path in options.scores or ()],
        **_settings(options, algorithm),
    )
    if options.register is not None:
        plan = plan.under(plan.protocol.register(options.register, options.draw_date))
    if options.public_value is not None:
        plan = plan.under(plan.protocol.with_public_value(options.public_value))
    text = f"{plan}\n  seed: {plan.protocol.seed_policy}"
    if plan.protocol.registered_hash is not None:
        text += f"\n  publish this before {options.draw_date}: {plan.protocol.registered_hash}"
    if options.out is not None:
        with writing(options.out):
            plan.protocol.save(options.out)
        text += f"\n  protocol {plan.protocol.fingerprint[:16]}..., written to {options.out}"
    other_seed = getattr(plan, "other_seed", None)  # plans of Algorithms 1 to 3 judge no seed
    if other_seed is not None:
        text += f'\n  Unlucky seed: before any site fits, plan again with --seed "{other_seed}"'
    data = {
        "protocol": plan.protocol.fingerprint,
        "registered": plan.protocol.registered_hash,
        "out": options.out,
        "algorithm": plan.protocol.algorithm,
    }
    return Outcome(printable_lines(text), data | plan.data())


def _settings(options: argparse.Namespace, algorithm: str) -> dict[str, Any]:
    """What was given, by the names of `plan_from_pilot`."""
    names = ("study", "hint_bits", "threshold", "classes", "share", "sites", "rare")
    settings = {name: getattr(options, name) for name in names if given(options, name)}
    if algorithm not in ("logistic", "auto"):
        settings["fit_intercept"] = options.intercept
    return settings | given_promise(options)


def _refuse_odd(options: argparse.Namespace, algorithm: str) -> None:
    """Refuse options that would be ignored, and what is missing."""
    if algorithm not in ("logistic", "svm", "sgd", "net", "auto"):
        raise ReplearnError(
            f"--pilot plans --algorithm logistic, svm, sgd, net or auto, got {algorithm}. Leave "
            "--pilot out, or take one of these."
        )
    if idle := given(options, *_FOR_PROMISES):
        remedy = " Rows per site are --samples-per-site." if idle[0] == "--samples" else ""
        raise ReplearnError(
            f"{idle[0]} is for a plan without a pilot, got --pilot too. Leave one out.{remedy}"
        )
    scored = algorithm in ("logistic", "auto")
    other = "svm" if scored else "logistic"
    if odd := given(options, *(_SVM if scored else (*_LOGISTIC, "sites"))):
        raise ReplearnError(
            f"{odd[0]} belongs to --algorithm {other}, got {algorithm}. Leave it out, or plan with "
            f"--algorithm {other}."
        )
    if options.samples_per_site is None:
        raise ReplearnError(
            "--pilot needs --samples-per-site N, the rows that each site will have."
        )
    if (options.classes is None) != (options.share is None):
        raise ReplearnError(
            "a pilot without labels needs both --classes A,B and --share X, got one of them."
        )
    sources = given(options, "seed", "public_value", "register")
    if len(sources) > 1:
        raise ReplearnError(f"a seed comes from one place, got {' and '.join(sources)}. Leave one.")
    if (options.register is None) != (options.draw_date is None):
        raise ReplearnError(
            "--register and --draw-date go together, got one of them. Add the other."
        )


def complete(options: argparse.Namespace) -> Outcome:
    """Give a registered protocol the seed that its draw decided."""
    from replearn.study.choice_protocol import ChoiceProtocol
    from replearn.study.pilot.unlucky_seeds import unlucky_without_pilot
    from replearn.study.protocol import Protocol

    others = [name for name in (*_FOR_PILOTS, *_LOGISTIC) if name not in ("public_value", "out")]
    others += ["pilot", "algorithm", "sites", "hint_bits", "intercept", *_FOR_PROMISES, *PROMISE]
    if idle := given(options, *others):
        raise ReplearnError(f"--registered completes a protocol, got {idle[0]} too. Leave it out.")
    if options.public_value is None or options.out is None:
        raise ReplearnError("--registered needs --public-value TEXT and --out FILE.")
    check_target(options.out)
    draft: Protocol | ChoiceProtocol = (
        ChoiceProtocol.load(options.registered)
        if is_choice_protocol(options.registered)
        else Protocol.load(options.registered)
    )
    if draft.registered_hash is None or draft.seed:
        raise ReplearnError(
            f"{options.registered} must be a registered protocol without a seed, made by `replearn "
            "plan --pilot ... --register` or `replearn choose ... --register`. Name that file."
        )
    protocol = draft.with_public_value(options.public_value)
    with writing(options.out):
        protocol.save(options.out)
    design = getattr(protocol, "design", None)
    cautions = None if design is None else unlucky_without_pilot(design, protocol.seed)
    lines = [
        ("seed", protocol.seed_policy),
        ("registered", str(protocol.registered_hash)),
        ("protocol", protocol.fingerprint),
        ("written to", options.out),
        *(("caution", caution) for caution in cautions or ()),
    ]
    if cautions is None:
        lines.append(("luck", "not judged: nothing published says where the sites will be"))
    data = {
        "protocol": protocol.fingerprint,
        "registered": protocol.registered_hash,
        "out": options.out,
        "cautions": cautions,
    }
    return Outcome(aligned(lines), data)


def _read_pilot(options: argparse.Namespace, categories: "Sequence[str]") -> tuple[Any, Any]:
    """Columns and labels; no labels if the classes of the sites were named."""
    if options.classes is None:
        return read_labelled_columns(options.pilot, options.target, categories)
    from replearn.sources import open_source, read_columns
    from replearn.sources.svmlight_files import SvmlightSource

    found = open_source(options.pilot, raw=True)
    # rows of svmlight files always begin with a label, so there it means nothing
    labelled = found.labelled and not isinstance(found, SvmlightSource)
    if labelled or (options.target is not None and options.target in (found.names or ())):
        raise ReplearnError(
            f"--classes and --share are for a pilot without labels, but {options.pilot} has them. "
            "Leave both options out, or drop the label column from the file."
        )
    return read_columns(options.pilot, categories=categories)


def _read_score(path: str) -> "PublishedScore":
    """A published score: a model file, or a table of column and weight."""
    from replearn.files.modelfile import load
    from replearn.study.pilot.scores import read_score_table

    return load(path) if path.lower().endswith(".json") else read_score_table(path)


def threshold(text: str) -> float | str:
    """A probability, a word, or a ratio of costs."""
    try:
        return float(text)
    except ValueError:
        return text  # the plan knows which words there are


def _two_labels(text: str) -> tuple[Any, Any]:
    found = names(text)
    if len(found) != 2:
        raise argparse.ArgumentTypeError(f"must be two labels with a comma, got {text!r}")
    if all(label.lstrip("-").isdecimal() for label in found):
        return int(found[0]), int(found[1])
    return found[0], found[1]
