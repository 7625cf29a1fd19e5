"""``replearn choose``: one of several finished models, the same one at every site."""

import argparse
from typing import TYPE_CHECKING, Any

from replearn import __version__
from replearn.cli.choice_files import add_choice_models, folder_of, limits_of
from replearn.cli.files import check_target, read_labelled_columns, writing
from replearn.cli.options import Parser, add_common, given, positive, share
from replearn.cli.outcome import DIFFERENT, DONE, Outcome
from replearn.cli.text import aligned
from replearn.errors import ReplearnError
from replearn.terminal import printable_lines

if TYPE_CHECKING:
    from replearn.estimators.choice import ReplicableChoiceClassifier
    from replearn.study.choice_protocol import ChoiceProtocol

_SCORINGS = ("accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score", "roc_auc")

#: Options that make a protocol, and have no meaning once there is one.
_FOR_PUBLISHING = (
    *("candidates", "samples_per_site", "sites", "scoring", "max_disagreement", "seed"),
    *("public_value", "register", "draw_date"),
)


HELP = "choose one of several finished models, the same one at every site"

EPILOG = """\
examples:
  replearn choose pilot.csv --target label --candidates models/*.onnx --samples-per-site 20000
      --publish choice.json
  replearn choose site_a.parquet --protocol choice.json --out a.choice.json

With --publish, DATA is a pilot, no site's own and not seen by any candidate: the candidates are
scored on it, the noise is planned, and the protocol has their names and SHA-256. Candidates are
ONNX files, or model files of replearn. With --protocol, DATA are the rows of this site. ONNX files
are run in a process of their own, with limits on time and memory; a file whose hash is not the
published one is refused by name.

`replearn compare`, `predict`, `evaluate` and `show` also take choice files, and `audit --protocol`
takes the protocol of a choice.

exit codes: 0 done; 1 --expect was given and the fingerprint is another one (--out is written
  anyway); 2 bad usage or bad input

JSON keys: fingerprint, chosen, index, scoring, scores (by candidate), noise_scale, rows,
  estimated_disagreement (under this seed; null: not estimable), expected_disagreement (over seeds),
  disagreement_bound, bound_confidence, bound_assumes, expected_loss, protocol (its hash), out,
  as_expected (null without --expect), warnings; with --publish: protocol, out, registered (null
  without --register), plan, scores, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("data DATA", "labelled rows: a file, or a folder of files")
    add_common(parser, "--target")
    parser.add("--protocol FILE", "protocol of the choice")
    add_common(parser, "--lock")
    add_choice_models(parser)
    parser.add("--out FILE", "where to write the choice")
    add_common(parser, "--expect")
    parser.add("--publish FILE", "write a protocol, from a pilot")
    parser.add("--candidates FILE", "with --publish: the models", nargs="+")
    parser.add(
        "--samples-per-site N",
        "with --publish: rows that each site will have; one number for all, or one each",
        type=positive,
        nargs="+",
    )
    parser.add("--sites K", "number of sites (default 2)", type=positive)
    parser.add("--scoring", "with --publish (default accuracy)", choices=_SCORINGS)
    parser.add(
        "--max-disagreement X",
        "probability that not all sites choose the same (default 0.1)",
        type=share,
    )
    parser.add("--seed", "published seed that the protocol fixes (default 0)")
    add_common(parser, "--public-value", "--register", "--draw-date")


def run(options: argparse.Namespace) -> Outcome:
    """Publish a protocol, or choose under one."""
    if (options.publish is None) == (options.protocol is None):
        raise ReplearnError(
            "choose needs --protocol FILE, to choose, or --publish FILE, to make one from a pilot."
        )
    return _publish(options) if options.publish is not None else _choose(options)


# --- a site -------------------------------------------------------------------------------------


def _choose(options: argparse.Namespace) -> Outcome:
    from replearn.files.choicefile import save_choice
    from replearn.study.choice_protocol import ChoiceProtocol

    if fixed := given(options, *_FOR_PUBLISHING):
        raise ReplearnError(
            f"{fixed[0]} is fixed by the protocol. Leave it out, or make another protocol with "
            "--publish."
        )
    check_target(options.out)
    protocol = ChoiceProtocol.load(options.protocol, options.lock)
    folder = folder_of(options, options.protocol)
    estimator = protocol.estimator(folder, limits_of(options))
    X, y = read_labelled_columns(options.data, options.target or protocol.target)
    chosen = estimator.fit(X, y)
    data = _data(chosen, protocol) | {"out": options.out}
    as_expected = None if options.expect is None else chosen.fingerprint_ == options.expect
    if options.out is not None:
        provenance = {
            "noise_scale": chosen.noise_scale_,
            "protocol": protocol.fingerprint,
            "replearn": __version__,
            "rows": len(y),
            "scores": {name: f"{score:.6g}" for name, score in data["scores"].items()},
            "target": options.target or protocol.target,
        }
        with writing(options.out):
            save_choice(chosen.choice_, options.out, provenance)
    text = _in_words(chosen, protocol, len(y))
    if options.out is not None:
        text += f"\nwritten to {options.out}"
    if as_expected is False:
        text += f"\nanother choice than expected: {options.expect}"
    return Outcome(
        printable_lines(text),
        data | {"rows": len(y), "as_expected": as_expected},
        DIFFERENT if as_expected is False else DONE,
    )


def _data(chosen: "ReplicableChoiceClassifier", protocol: "ChoiceProtocol") -> dict[str, Any]:
    certificate = chosen.certificate_
    names = [candidate.name for candidate in protocol.candidates]
    return {
        "fingerprint": chosen.fingerprint_,
        "chosen": chosen.choice_.name,
        "index": chosen.choice_.index,
        "scoring": protocol.scoring.content(),
        "scores": dict(zip(names, chosen.scores_.tolist(), strict=True)),
        "noise_scale": chosen.noise_scale_,
        "estimated_disagreement": certificate.estimated_disagreement,
        "expected_disagreement": certificate.expected_disagreement,
        "disagreement_bound": certificate.disagreement_bound,
        "bound_confidence": certificate.confidence,
        "bound_assumes": certificate.assumes,
        "expected_loss": certificate.expected_loss,
        "protocol": protocol.fingerprint,
    }


def _in_words(chosen: "ReplicableChoiceClassifier", protocol: "ChoiceProtocol", n_rows: int) -> str:
    order = sorted(range(len(chosen.scores_)), key=lambda i: -chosen.scores_[i])
    width = max(len(candidate.name) for candidate in protocol.candidates)
    table = [
        f"  {protocol.candidates[i].name:<{width}}  {chosen.scores_[i]:.4f}"
        + ("  chosen" if i == chosen.choice_.index else "")
        for i in order
    ]
    lines = [
        ("chosen", f"{chosen.choice_}"),
        ("rows", f"{n_rows:,}"),
        ("noise scale", f"{chosen.noise_scale_} (published)"),
        ("fingerprint", chosen.fingerprint_),
    ]
    scores = [f"{protocol.scoring.name} on these rows", *table]
    return "\n".join([aligned(lines), str(chosen.certificate_), *scores])


# --- a protocol ---------------------------------------------------------------------------------


def _publish(options: argparse.Namespace) -> Outcome:
    from replearn.study.choice_protocol import publish_choice

    if idle := given(options, "out", "expect", "models", "lock"):
        raise ReplearnError(f"{idle[0]} belongs to --protocol, got --publish. Leave one out.")
    if options.candidates is None or options.samples_per_site is None:
        raise ReplearnError(
            "--publish needs --candidates FILES and --samples-per-site N, the rows that each site "
            "will have."
        )
    sources = [name for name in ("seed", "public_value", "register") if getattr(options, name)]
    if len(sources) > 1 or (options.register is None) != (options.draw_date is None):
        raise ReplearnError(
            "a seed comes from one of --seed, --public-value, or --register with --draw-date."
        )
    check_target(options.publish)
    X, y = read_labelled_columns(options.data, options.target)
    rows = options.samples_per_site
    protocol, plan = publish_choice(
        options.candidates,
        X,
        y,
        samples_per_site=rows[0] if len(rows) == 1 else rows,
        n_sites=options.sites or 2,
        scoring=options.scoring or "accuracy",
        max_disagreement=options.max_disagreement or 0.1,
        shared_seed="0" if options.seed is None else options.seed,
        target=options.target,
        limits=limits_of(options),
    )
    if options.register is not None:
        protocol = protocol.register(options.register, options.draw_date)
    elif options.public_value is not None:
        protocol = protocol.with_public_value(options.public_value)
    with writing(options.publish):
        protocol.save(options.publish)
    scores = protocol.notes["pilot_scores"]
    width = max(map(len, scores))
    text = [
        str(plan),
        "",
        f"{protocol.scoring.name} on the pilot",
        *(f"  {name:<{width}}  {score}" for name, score in scores.items()),
        f"seed: {protocol.seed_policy}",
        f"protocol {protocol.fingerprint}, written to {options.publish}",
    ]
    data = {
        "protocol": protocol.fingerprint,
        "out": options.publish,
        "registered": protocol.registered_hash,
        "plan": plan.data(),
        "scores": {name: float(score) for name, score in scores.items()},
    }
    return Outcome(printable_lines("\n".join(text)), data)
