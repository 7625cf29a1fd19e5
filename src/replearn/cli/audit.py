"""``replearn audit``: how often two labs would get exactly the same model."""

import argparse
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replearn.cli.choice_files import (
    add_choice_models,
    audit_choice,
    is_choice_protocol,
    refuse_choice_options,
)
from replearn.cli.files import check_report, check_target, save_page, terminal_progress
from replearn.cli.options import Parser, add_common, add_training, positive
from replearn.cli.outcome import DIFFERENT, DONE, UNDECIDED, Outcome
from replearn.cli.text import command_line
from replearn.cli.training import algorithm_of, label_column, make_estimator, read_protocol
from replearn.errors import ReplearnError
from replearn.terminal import printable_lines

if TYPE_CHECKING:
    from replearn.audits.findings import AuditResult
    from replearn.estimators.base import ReplicableClassifier

_EXIT = {"within": DONE, "exceeds": DIFFERENT, "undecided": UNDECIDED}


HELP = "measure how often two labs would get exactly the same model"

EPILOG = """\
examples:
  replearn audit site_a.csv --target label --margin .2 --pairs 60 --report audit.html
  replearn audit site_a.csv --protocol study.json --checkpoint audit.json

The file's rows are cut into disjoint samples, each pair of samples is fitted under one seed, and
the pairs with different models are counted. Two questions are answered apart: small parts
(independent pairs, each of n/(2*pairs) rows) and halves, cut at random for each pair (full size,
but given these rows). The verdict is that of the halves, if they were asked for.

A protocol plans rows per site, and its promise is about such samples. If the file holds two of
them, samples have that size instead of half of the rows. If not, the disagreement is extrapolated
to it, and what is seen at a smaller size refutes nothing.

59 clean pairs show a disagreement of at most 5 %, and 29 one of at most 10 %, at 95 % confidence.

exit codes: 0 within --max-disagreement; 1 the disagreement exceeds it; 2 bad usage or bad input;
  3 undecided

JSON keys: algorithm, verdict, verdict_in_words, disagreement, interval, max_disagreement,
  confidence, clean_pairs_needed, method, compared, seed_parameter, published_seed, test_rows,
  questions (question, rows_per_sample, planned_rows, at_planned_rows, fresh_seeds, published_seed,
  pointwise_agreement, churn, churn_when_different, test_error, angle_degrees, coefficient_distance,
  estimated_disagreement, codes), notes, command, score_name, report, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("data DATA", "rows of this lab, with labels")
    add_common(parser, "--target")
    add_training(parser)
    parser.add("--pairs N", "pairs of fits (default 60)", type=positive, default=60)
    parser.add(
        "--question",
        "small independent parts, full-size halves, or both (default)",
        choices=("both", "parts", "halves"),
    )
    add_common(parser, "--confidence", "--report")
    parser.add("--checkpoint FILE", "keep the pairs done, and go on from there")
    parser.add("--allow-copies", "different subjects may have equal rows", action="store_true")
    parser.add("--audit-seed", "decides the split and the fresh seeds (default 0)", default="0")
    parser.add_argument(
        "--assume-shuffled",
        "--no-shuffle",
        dest="shuffle",
        action="store_false",
        help="fits take their rows in the order of the split",
    )
    add_common(parser, "--allow-unknown", "--cluster")
    add_choice_models(parser)
    add_common(parser, "--jobs")


def run(options: argparse.Namespace) -> Outcome:
    """Audit, and write the report."""
    check_report(options.report)
    check_target(options.checkpoint)
    if options.cluster is not None and options.jobs != -1:
        raise ReplearnError(
            "--jobs are threads of this computer, got --cluster too, where the work is done. Leave "
            "one out."
        )
    if is_choice_protocol(options.protocol):
        algorithm = "choice"
        result = audit_choice(options)
    else:
        refuse_choice_options(options)
        protocol = read_protocol(options)
        if protocol is not None:
            protocol.require_labels("an audit")
        estimator = make_estimator(options, protocol)
        options.target = label_column(options, protocol)
        algorithm, result = algorithm_of(estimator), _measure(estimator, options)
    result = replace(result, command=command_line(options))
    text = str(result)
    if options.report is not None:
        from replearn.audits.report import audit_report

        save_page(audit_report(result), options.report)
        text += f"\n  report        {options.report}"
    data = result.data() | {"algorithm": algorithm, "report": options.report}
    return Outcome(printable_lines(text), data, _EXIT[result.verdict])


def _client(address: str | None) -> AbstractContextManager[Any]:
    """Connection to a cluster, if one is asked for."""
    if address is None:
        return nullcontext()
    from replearn.fits.connection import connect

    return connect(address)


def _measure(estimator: "ReplicableClassifier", options: argparse.Namespace) -> "AuditResult":
    from replearn.audits.auditing import audit
    from replearn.fits.file_fit import training_rows

    with terminal_progress(f"reading {Path(options.data).name}") as advance:
        X, y = training_rows(
            estimator,
            options.data,
            options.target,
            allow_unknown=options.allow_unknown,
            watch=advance,
        )
    if estimator.published is not None:  # encoded once, instead of in every fit
        estimator.set_params(published=replace(estimator.published, encoding=None))
    estimator.set_params(verbose=0, n_jobs=1)
    question = options.question or "both"
    total = options.pairs * (2 if question == "both" else 1)
    with _client(options.cluster) as client, terminal_progress("auditing", total) as advance:
        return audit(
            estimator,
            X,
            y,
            n_pairs=options.pairs,
            max_disagreement=estimator.max_disagreement,
            confidence=options.confidence,
            question=question,
            copies="allow" if options.allow_copies else "refuse",
            audit_seed=options.audit_seed,
            n_jobs=options.jobs,
            client=client,
            checkpoint=options.checkpoint,
            advance=advance,
        )
