"""``replearn evaluate``: performance of a model on labelled rows."""

import argparse
from typing import Any

from replearn.cli.command import (
    CSV,
    DIFFERENT,
    DONE,
    Outcome,
    Parser,
    csv_options,
    refuse_unused,
    working,
)

EPILOG = """\
examples:
  replearn evaluate a.model.json new.csv
  replearn evaluate a.model.json new.csv --by ward --page a.html
  replearn evaluate a.model.json new.csv --horizon 365

exit codes: 0 done; 1 the model ranks the wrong way round (AUC below 0.5);
  2 bad input
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_shared("model")
    parser.add("table TABLE", "labelled rows that the model has not seen")
    parser.add("--target COLUMN", "the labels (default: the model's own target)")
    parser.add("--by COLUMN", "evaluate the groups of this column, too")
    parser.add("--weights COLUMN", "weights of rows")
    parser.add("--horizon TIME", "of a survival model: the time of its risks", type=float)
    parser.add_shared(*CSV, "page")


def run(options: argparse.Namespace) -> Outcome:
    """Score the rows and measure."""
    from replearn.reports.evaluate import evaluate
    from replearn.reports.files import load_model

    model = load_model(options.model)
    if options.horizon is not None and model.design.recipe == "survival":
        return _at_horizon(model, options)
    refuse_unused(options, "a model without times", "horizon")
    with working("scoring the rows"):
        found = evaluate(
            model,
            options.table,
            options.target,
            by=options.by,
            sample_weight=options.weights,
            csv=csv_options(options),
        )
    code, title = DIFFERENT if found.is_inverted else DONE, f"Performance of {options.model}"
    return Outcome(found.facts(), code, title=title, n_rows=found.performance.n_rows)


def _at_horizon(model: Any, options: argparse.Namespace) -> Outcome:
    """The same of a survival model, at one time."""
    from replearn.reports.horizon import evaluate_at

    refuse_unused(options, "--horizon", "target", "by", "weights")
    with working("scoring the rows"):
        found = evaluate_at(model, options.table, options.horizon, csv_options(options))
    code = DIFFERENT if found.is_inverted else DONE
    title = f"Performance of {options.model}"
    return Outcome(found.facts(), code, title=title, n_rows=found.n_rows)
