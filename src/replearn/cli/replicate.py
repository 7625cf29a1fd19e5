"""``replearn replicate``: fit a study on a lab's own rows."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from replearn.cli.command import (
    CSV,
    DIFFERENT,
    DONE,
    Outcome,
    Parser,
    check_output_path,
    lab_table,
    may_leave,
    working,
)

if TYPE_CHECKING:
    from replearn.study import GlmStudy

EPILOG = """\
examples:
  replearn replicate study.json b.csv
  replearn replicate study.json b.parquet --out b.model.json --page b.html
  replearn replicate study.json b.csv --opened a.model.json

exit codes: 0 confirmed (the same model, and no patient contradicts it; or
  the study does not tell: sealed, registered); 1 contradicted, unsupported
  (not better than the base rate), questioned (columns to look at first), same
  slopes (a different base risk), or different; 2 bad usage or input
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add_shared("study", "table")
    parser.add("--out FILE", "write your model")
    parser.add("--target COLUMN", "the labels, if their name here is not the study's")
    parser.add_shared("opened", *CSV, "page")


def run(options: Namespace) -> Outcome:
    """Fit and compare."""
    from replearn.cli import fit
    from replearn.study import Study

    check_output_path(options.out, "model", ("replearn/model",))
    study: Any = Study.load(options.study)
    roads: dict[str, Callable[[Namespace, Any], Outcome]]
    roads = {"glm": _replicate, "halfspace": fit.replicate}
    return roads[study.design.kind](options, study)


def _replicate(options: Namespace, study: "GlmStudy") -> Outcome:
    """Fit a regression on a lab's own rows, and compare."""
    from replearn.reports.methods import with_methods
    from replearn.study import NO_ESTIMATES, replicate

    # own estimates, and the page's performance, take passes of their own
    table = lab_table(options, study.design).kept()
    with working("fitting the study"):
        model, replication = replicate(study, table, options.opened)
    with working("testing what these rows support"):  # findings are computed when they are read
        facts = replication.facts()
        stated = model.stating(replication.own)
        own_tables = stated.coefficients.own_tables() or [NO_ESTIMATES]
    # after a mismatch nothing looks like a model: only what this lab's own rows say
    facts = replace(facts, details=[*facts.details, *own_tables])
    if replication.same is False:
        facts = replace(facts, figures=[*facts.figures, *stated.coefficients.figures()])
    if options.out is not None or options.page is not None:  # the page has all coefficients
        may_leave("model", replication.n_rows, study.design.n_numbers)
    if options.out is not None and replication.same is not False:
        stated.save(options.out)
    elif options.out is not None:  # what these rows give is nobody's fit
        facts = replace(facts, items=["No model file was written.", *facts.items])
    page = facts
    if options.page is not None and replication.same is not False:
        from replearn.reports.evaluate import evaluate

        whose = "of the original's model, made without this lab's rows:"
        with working("evaluating the model"):
            performance = evaluate(model, table)
        page = with_methods(facts, study, stated, (whose, performance))
    code, title = DONE if replication.succeeded else DIFFERENT, f"Replication of {options.study}"
    return Outcome(facts, code, title=title, n_rows=replication.n_rows, page=page)
