"""``replearn replicate``: fit a study on a lab's own rows."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from replearn.cli.command import (
    DIFFERENT,
    DONE,
    Outcome,
    Parser,
    check_output_path,
    inputs_of,
    lab_table,
    may_leave,
    working,
)
from replearn.errors import ReplearnError

if TYPE_CHECKING:
    from replearn.glm import GlmModel
    from replearn.study import GlmStudy

EPILOG = """\
examples:
  replearn replicate study.json b.csv
  replearn replicate study.json b.parquet --out b.model.json --page b.html
  replearn replicate study.json b.csv --opened a.model.json

exit codes: 0 confirmed (the same model, and no patient contradicts it; or
  the study does not tell: sealed, registered); 1 contradicted, questioned
  (columns to look at first), same slopes, or different; 2 bad usage or input
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("study STUDY", "the study file")
    parser.add("table TABLE", "your rows: .csv, .csv.gz, .parquet, .npz or .svm")
    parser.add("--out FILE", "write your model")
    parser.add("--target COLUMN", "the labels, if their name here is not the study's")
    parser.add(
        "--opened FILE",
        "the original's model, or what opens a sealed study; or both",
        action="append",
        default=[],
    )
    parser.add_csv()
    parser.add_page()


def run(options: argparse.Namespace) -> Outcome:
    """Fit and compare."""
    from replearn.cli import fit
    from replearn.reports.files import load_study

    check_output_path(options.out, "model", inputs_of(options), ("replearn/model",))
    study = load_study(options.study)
    roads: dict[str, Callable[[argparse.Namespace, Any], Outcome]]
    roads = {"glm": _replicate, "halfspace": fit.replicate}
    return roads[study.design.kind](options, study)


def _replicate(options: argparse.Namespace, study: "GlmStudy") -> Outcome:
    """Fit a regression on a lab's own rows, and compare."""
    from replearn.reports.methods import with_methods
    from replearn.study import replicate

    opened, nonce = read_opened(options.opened, study)
    table = lab_table(options, study.design)
    if options.page is not None:  # which has the performance of the original's model, too
        table = table.kept()
    with working("fitting the study"):
        model, found = replicate(study, table, opened, nonce)
    facts = found.facts()
    stated = model.stating(found.own)
    # after a mismatch nothing looks like a model: only what this lab's own rows say
    facts = replace(facts, details=[*facts.details, *stated.coefficients.own_tables()])
    if found.same is False:
        facts = replace(facts, figures=[*facts.figures, *stated.coefficients.figures()])
    if options.out is not None or options.page is not None:  # the page has all coefficients
        may_leave("model", found.n_rows, study.design.n_numbers)
    if options.out is not None and found.same is not False:
        stated.save(options.out)
    elif options.out is not None:  # what these rows give is nobody's fit
        facts = replace(facts, items=["No model file was written.", *facts.items])
    page = facts
    if options.page is not None and found.same is not False:
        from replearn.reports.evaluate import evaluate

        whose = "of the original's model, made without this lab's rows:"
        page = with_methods(facts, study, stated, (whose, evaluate(model, table)))
    code, title = DONE if found.succeeded else DIFFERENT, f"Replication of {options.study}"
    return Outcome(facts, code, title=title, n_rows=found.n_rows, page=page)


def read_opened(paths: list[str], study: "GlmStudy") -> "tuple[GlmModel | None, str | None]":
    """The original's model and the nonce, as far as they are given."""
    from replearn.documents import document_of
    from replearn.glm import GlmModel
    from replearn.reports.files import Opening

    model, nonce = None, None

    # in any order: files say what they are
    for path in paths:
        found = document_of(path, (GlmModel, Opening))
        if isinstance(found, Opening):
            if found.study != study.fingerprint:
                raise ReplearnError(f"{path} opens a different study. Ask the original for this.")
            # a wrong nonce would call every model a different one
            if study.commits_to(found.model, found.nonce) is False:
                raise ReplearnError(
                    f"{path} must hold the nonce and the model that the study commits to, got "
                    "others. Ask the original for its opening."
                )
            nonce = found.nonce
        else:
            model = cast(GlmModel, found)
    return model, nonce
