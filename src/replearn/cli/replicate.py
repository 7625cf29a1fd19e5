"""``replearn replicate``: a published study once more, on rows of one's own."""

import argparse
from typing import TYPE_CHECKING

from replearn.cli.files import check_target, writing
from replearn.cli.options import Parser, add_common
from replearn.cli.outcome import DIFFERENT, DONE, Outcome
from replearn.cli.provenance import facts_of, provenance_of, signal_line
from replearn.cli.text import aligned, chance, evidence_words
from replearn.cli.training import label_column, own_worth
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.codes.comparison import Comparison
    from replearn.codes.model import Model
    from replearn.estimators.base import ReplicableClassifier
    from replearn.stages.worth import Worth
    from replearn.study.protocol import Protocol


HELP = "do a published study again on new rows, and compare the models"

EPILOG = """\
examples:
  replearn replicate a.model.json site_b.parquet
  replearn replicate a.model.json site_b.csv --target label --out b.model.json

The model file carries the protocol and the hint under which it was fitted. The same fit is done on
DATA, and the models are compared. A match is worth as many bits as it would be hard to guess for
somebody who knows protocol and hint, but has no rows. Name the hash of the protocol, if you know
it from elsewhere, with --lock: a file can carry any protocol.

exit codes: 0 the same model; 1 another one; 2 bad usage or bad input

JSON keys: same, differences, fingerprint (of the new model), expected (that of the file), protocol
  (its hash), hint (null: none), evidence_bits (of a match; null: not known), rows, signal_p,
  estimated_disagreement (null: not estimable), disagreement_bound, bound_confidence, worth (of the
  new model on these rows), planned, out, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("model MODEL", "model file of the published study")
    parser.add("data DATA", "new rows, which had no part in it")
    add_common(parser, "--target", "--lock")
    parser.add("--out FILE", "where to write the new model")
    add_common(parser, "--features", "--jobs", "--allow-unknown")


def run(options: argparse.Namespace) -> Outcome:
    """Fit under the protocol of the file, and compare."""
    from replearn.codes.comparison import compare
    from replearn.files.modelfile import load, save

    check_target(options.out)
    published, protocol = load(options.model), _protocol(options)
    options.target = label_column(options, protocol)
    estimator = _fitted(published, protocol, options)
    model = estimator.model_
    found = own_worth(estimator, options, protocol)
    if options.out is not None:
        provenance = provenance_of(estimator, options.target, protocol) | facts_of(found)
        with writing(options.out):
            save(model, options.out, provenance, protocol.content())
    result = compare(published, model)
    return _outcome(result, published.fingerprint, estimator, protocol, options, found.worth)


def _protocol(options: argparse.Namespace) -> "Protocol":
    from replearn.study.protocol import Protocol

    protocol = Protocol.of_model_file(options.model)
    if protocol is None:
        raise ReplearnError(
            f"{options.model} must carry the protocol of its study, got a model without one. Fit "
            "with `replearn fit --protocol study.json`, and `replearn compare` the two models."
        )
    protocol.require_labels("replicate")
    if options.lock is not None and options.lock not in (
        protocol.fingerprint,
        protocol.registered_hash,
    ):
        raise ReplearnError(
            f"{options.model} must carry the protocol {options.lock}, got {protocol.fingerprint}. "
            "It is a model of another study."
        )
    return protocol


def _fitted(
    published: "Model", protocol: "Protocol", options: argparse.Namespace
) -> "ReplicableClassifier":
    from replearn.fits.file_fit import fit_file
    from replearn.progress import on_terminal

    hint = {"hint": published.hint} if protocol.hint_bits else {}
    estimator: ReplicableClassifier = protocol.estimator(
        n_jobs=options.jobs, verbose=int(on_terminal()), **hint
    )
    return fit_file(
        estimator,
        options.data,
        options.target,
        n_features=options.features,
        allow_unknown=options.allow_unknown,
    )


def _outcome(
    result: "Comparison",
    expected: str,
    estimator: "ReplicableClassifier",
    protocol: "Protocol",
    options: argparse.Namespace,
    worth: "Worth",
) -> Outcome:
    from replearn.stages.planned import Planned

    certificate, n_rows = estimator.certificate_, estimator.plan_.spent.n_rows
    estimate, bits = certificate.estimated_disagreement, protocol.evidence_bits
    same, planned = result.same, Planned.of(protocol.notes)
    verdict = "the same model" if same else f"NOT the same model: {'; '.join(result.differences)}"
    lines = [
        ("replicated", verdict),
        ("rows", f"{n_rows:,}"),
        ("evidence", evidence_words(bits) if same else "none: no match"),
        ("signal", signal_line(estimator)),
        (
            "expected",
            "it cannot be said how often another lab gets another model"
            if estimate is None
            else f"another lab gets another model with probability {chance(estimate)} at this seed",
        ),
        ("protocol", protocol.fingerprint),
        ("fingerprint", estimator.model_.fingerprint),
        *([("written to", options.out)] if options.out is not None else []),
        *planned.lines(worth),
    ]
    data = {
        "same": same,
        "differences": list(result.differences),
        "fingerprint": estimator.model_.fingerprint,
        "expected": expected,
        "protocol": protocol.fingerprint,
        "hint": estimator.model_.hint if protocol.hint_bits else None,
        "evidence_bits": bits,
        "rows": n_rows,
        "signal_p": None if estimator.signal_ is None else estimator.signal_.p_value,
        "estimated_disagreement": estimate,
        "disagreement_bound": certificate.disagreement_bound,
        "bound_confidence": certificate.confidence,
        "worth": worth.data(),
        "planned": planned.data(),
        "out": options.out,
    }
    text = aligned(lines) + "\n\non these rows, which the new model has seen:\n"
    return Outcome(text + aligned(worth.lines(own=True)), data, DONE if same else DIFFERENT)
