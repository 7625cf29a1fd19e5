"""``replearn fit``: one of the paper's algorithms on the rows of a table."""

from argparse import Namespace
from typing import Any

from replearn.cli.command import (
    CSV,
    Outcome,
    Parser,
    add_promise,
    answered,
    check_output_path,
    csv_options,
    may_leave,
    promise_of,
    refuse_unused,
    working,
)
from replearn.errors import ReplearnError
from replearn.study import HalfspaceStudy
from replearn.tables import Table, open_table
from replearn.words import Facts, Row, percent

EPILOG = """\
examples:
  replearn fit data.parquet --target y --margin 0.2 --out a.model.json
  replearn fit data.csv --target y --algorithm sgd --seed 2026
  replearn fit data.csv --target y --bits 3 --study-out study.json
  replearn replicate study.json other.csv

exit codes: 0 done; 2 bad input
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("table TABLE", "rows of numbers: .csv, .csv.gz, .parquet, .npz or .svm")
    parser.add("--target COLUMN", "the labels, two classes")
    add_promise(parser)
    parser.add_shared("seed")
    parser.add("--out FILE", "write the model")
    parser.add("--study-out FILE", "write the study of an original (svm, sgd with --bits)")
    parser.add_shared(*CSV, "page")


def estimator_of(options: Namespace) -> Any:
    """The estimator that the options describe."""
    from replearn.estimators import ESTIMATORS

    given = promise_of(options) | {"shared_seed": options.shared_seed}
    if options.algorithm not in ("svm", "sgd"):  # others have none, and `promise_of` refuses them
        del given["sketch_bits"]
    return ESTIMATORS[options.algorithm](**given)


def run(options: Namespace) -> Outcome:
    """Fit, and say how replicable that is."""
    # 1 what can be refused before the work
    check_output_path(options.out, "model", ("replearn/model/halfspace",))
    beside = [options.out] if options.out else []
    check_output_path(options.study_out, "study", beside=beside)
    estimator = estimator_of(options)
    if options.study_out is not None and not getattr(estimator, "sketch_bits", 0):
        raise ReplearnError("--study-out needs svm or sgd with --bits 1 to 4.")

    # 2 the fit
    table = open_table(options.table, target=options.target, csv=csv_options(options))
    with working(f"fitting {options.algorithm}"):
        estimator.fit_table(table)
    n_rows = estimator.n_rows_
    _save_model(estimator, options.out)

    # 3 files: what to send, and what to keep
    study: Any = getattr(estimator, "study_", None)
    if options.study_out is not None:
        may_leave("study", n_rows, study.design.space.n_codes)
        study.save(options.study_out)
    written = [(options.study_out, "send", "not the model"), (options.out, "keep", "your model")]
    files = [Row(word, path, note=note) for path, word, note in written if path]
    facts, title = _facts(estimator, files), f"Fit of {options.algorithm}"
    return Outcome(facts, title=title, n_rows=n_rows)


def of_study(options: Namespace, study: HalfspaceStudy) -> tuple[Any, Table]:
    """The estimator of a replication of Algorithm 1 or 2, and the rows of a lab."""
    from replearn.estimators import ESTIMATORS, table_of

    shell = ESTIMATORS[study.design.recipe](study=study, fit_intercept=study.design.fit_intercept)
    return shell, table_of(study, options.table, options.target, csv_options(options))


def replicate(options: Namespace, study: HalfspaceStudy) -> Outcome:
    """Fit the study of Algorithm 1 or 2 on a lab's own rows, and compare."""
    refuse_unused(options, "a study of halfspaces", "opened")
    estimator, table = of_study(options, study)
    with working("fitting the study"):
        estimator.fit_table(table)
    _save_model(estimator, options.out)
    replication = estimator.replication_
    return answered(replication, f"Replication of {options.study}", not replication.succeeded)


def _save_model(estimator: Any, path: str | None) -> None:
    if path is not None:
        may_leave("model", estimator.n_rows_, estimator.model_.codes.size)
        estimator.model_.save(path)


def _facts(estimator: Any, files: list[Row]) -> Facts:
    bound, plan, n_rows = estimator.certificate_, estimator.plan_, estimator.n_rows_
    if bound.expected is None and plan.mode == "practical":
        verdict = f"A model of {n_rows:,} rows; they are too few to say how replicable it is."
    else:
        share = bound.in_mode(plan.mode)
        word = "estimated" if plan.mode == "practical" else "proved, as a mean over seeds"
        # no estimate shows that labs never differ
        rate = percent(min(1 - share, 1 - 1e-9))
        verdict = (
            f"A second lab with {n_rows:,} rows of the same population gets this model in {rate} "
            f"of cases ({word})."
        )

    # training rows: the promise speaks of new ones
    right = 1 - estimator.counts_["own_errors"] / n_rows
    return Facts(
        verdict,
        [
            f"Fingerprint {estimator.fingerprint_}",
            *files,
            Row("algorithm", plan.recipe, note=f"{plan.mode} mode"),
            Row("rows here", n_rows, note=f"planned {plan.n_rows:,}"),
            Row("training accuracy", right, "%"),
        ],
        details=[Row(name.replace("_", " "), n) for name, n in estimator.counts_.items()],
        values={"fingerprint": estimator.fingerprint_},
    )
