"""``replearn evaluate``: what a model is worth on labelled rows."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from replearn.cli.choice_files import (
    add_choice_models,
    evaluate_choice,
    refuse_choice_options,
)
from replearn.cli.files import check_report, save_page, target_of, terminal_progress
from replearn.cli.options import Parser, add_common, given
from replearn.cli.outcome import Outcome
from replearn.cli.text import aligned, command_line
from replearn.errors import ReplearnError
from replearn.terminal import printable_lines

if TYPE_CHECKING:
    from replearn.codes.model import Model


HELP = "what a model is worth on labelled rows, next to guessing"

EPILOG = """\
examples:
  replearn evaluate a.model.json new.parquet --target label
  replearn evaluate a.model.json new.csv --target label --by hospital --report a.html
  replearn evaluate a.model.json new.csv --protocol study.json --report supplement.html

Rows that the model has not seen say what it is worth on new ones; its own rows flatter it. Every
number has an interval. DATA may have any format that `replearn fit` takes; it is read piece by
piece. The label column is by default the one that the model was fitted with.

Of a regression it is R2, RMSE and MAE, next to the mean (JSON keys: fingerprint, place, n_rows, r2,
rmse, mae, mean_rmse, mean_mae).

A model that is constant, upside down, not shown to know anything, or worse than always giving the
base rate is warned of.

JSON keys: fingerprint, place, labels, rows, confidence, confusion (true class, predicted class),
  base_rates, predicted_shares, recalls, precisions, accuracy, balanced_accuracy, auc, log_loss,
  log_loss_gain, brier (each with value, interval, method), signal_p, base_log_loss, base_brier,
  calibration, calibration_bins, flags, problems, absent, by, groups, groups_left_out, columns
  (rows with a missing or unknown value, by column), planned (by the protocol), report, warnings"""


def add_arguments(parser: Parser) -> None:
    """Add the arguments of the command."""
    parser.add("model MODEL", "model file, or choice file")
    parser.add("data DATA", "labelled rows: a file, or a folder of files")
    add_common(parser, "--target")
    parser.add("--by COLUMN", "also evaluate the rows of each value of this column")
    parser.add(
        "--protocol FILE", "protocol of the study: what it planned stands beside, and in the report"
    )
    add_common(parser, "--lock", "--confidence", "--report")
    add_choice_models(parser)


def run(options: argparse.Namespace) -> Outcome:
    """Evaluate, and write the report."""
    from replearn.audits.evaluation import evaluate_file
    from replearn.files.choicefile import is_choice_file
    from replearn.files.modelfile import load
    from replearn.stages.planned import Planned

    check_report(options.report)
    if is_choice_file(options.model):
        return evaluate_choice(options)
    refuse_choice_options(options)
    if options.lock is not None and options.protocol is None:
        raise ReplearnError("--lock is the hash of a protocol, got none. Add --protocol FILE.")
    model = load(options.model)
    if model.is_numeric:
        return _evaluate_numbers(options, model)
    protocol = None
    if options.protocol is not None:
        from replearn.study.protocol import Protocol

        protocol = Protocol.load(options.protocol, options.lock)
    target = options.target or target_of(options.model, options.data)
    target = target or getattr(protocol, "target", None)
    planned = Planned.of(None if protocol is None else protocol.notes)
    with terminal_progress(f"reading {Path(options.data).name}") as advance:
        found = evaluate_file(
            model,
            options.data,
            target,
            by=options.by,
            confidence=options.confidence,
            describe=options.report is not None,
            planned=planned,
            watch=advance,
        )
    text = printable_lines(str(found))
    if beside := planned.lines(found.worth):
        text += f"\n\nbeside the plan:\n{aligned(beside)}"
    if options.report is not None:
        from replearn.audits.evaluation_page import evaluation_report
        from replearn.files.jsonfile import read_json

        provenance = read_json(options.model)["provenance"]
        page = evaluation_report(found, command_line(options), model, provenance, protocol)
        save_page(page, options.report)
        text += f"\nreport written to {options.report}"
    data = found.data() | {"report": options.report, "planned": planned.data()}
    return Outcome(text, data)


def _evaluate_numbers(options: argparse.Namespace, model: "Model") -> Outcome:
    """The same for a regression, which has no groups and no report yet."""
    from replearn.audits.regression import evaluate_regression_file

    if idle := given(options, "by", "protocol", "lock", "report"):
        raise ReplearnError(f"{idle[0]} is for classifiers, got a regression. Leave it out.")
    target = options.target or target_of(options.model, options.data)
    with terminal_progress(f"reading {Path(options.data).name}") as advance:
        found = evaluate_regression_file(
            model, options.data, target, confidence=options.confidence, watch=advance
        )
    return Outcome(printable_lines(str(found)), found.data())
