"""``replearn compare``: whether models are the same."""

from argparse import Namespace

from replearn.cli.command import Outcome, Parser, answered

EPILOG = """\
examples:
  replearn compare a.model.json b.model.json
  replearn compare a.model.json b.model.json --study study.json

exit codes: 0 the same model; 1 different models; 2 bad input
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("models MODEL", "two or more model files", nargs="+")
    parser.add("--study FILE", "the study that they replicate: says what a match proves")
    parser.add_shared("page")


def run(options: Namespace) -> Outcome:
    """Compare codes."""
    from replearn.reports.compare import compare
    from replearn.study import Study

    # without the study nobody knows what a match proves
    study = None if options.study is None else Study.load(options.study)
    comparison = compare(*options.models, study=study)
    return answered(comparison, "Comparison of models", not comparison.same)
