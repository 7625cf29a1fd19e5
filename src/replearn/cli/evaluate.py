"""``replearn evaluate``: performance of a model on labelled rows."""

from argparse import Namespace
from typing import Any

from replearn.cli.command import CSV, Outcome, Parser, answered, csv_options, refuse_unused, working

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


def run(options: Namespace) -> Outcome:
    """Score the rows and measure."""
    from replearn.reports.evaluate import evaluate
    from replearn.reports.files import load_model
    from replearn.reports.horizon import evaluate_at

    # of survival there are risks at one time; nothing else has one
    model, csv = load_model(options.model), csv_options(options)
    at_one_time = options.horizon is not None and model.design.recipe == "survival"
    if at_one_time:
        refuse_unused(options, "--horizon", "target", "by", "weights")
    else:
        refuse_unused(options, "a model without times", "horizon")

    evaluation: Any
    with working("scoring the rows"):
        if at_one_time:
            evaluation = evaluate_at(model, options.table, options.horizon, csv)
        else:
            columns = {"by": options.by, "sample_weight": options.weights}
            evaluation = evaluate(model, options.table, options.target, csv=csv, **columns)
    return answered(evaluation, f"Performance of {options.model}", evaluation.is_inverted)
