"""``replearn fit``: one of the paper's algorithms on the rows of a table."""

import argparse
from dataclasses import replace
from typing import Any

from replearn.cli.command import (
    DIFFERENT,
    DONE,
    Outcome,
    Parser,
    add_promise,
    check_output_path,
    may_leave,
    promise_of,
    read_numbers,
    working,
)
from replearn.documents.facts import Facts, Row, percent
from replearn.errors import ReplearnError
from replearn.study.halfspace_study import HalfspaceStudy

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
    parser.add("--seed TEXT", "published; any text (default 0)", default="0", dest="shared_seed")
    parser.add("--out FILE", "write the model")
    parser.add("--study-out FILE", "write the study of an original (svm, sgd with --bits)")
    parser.add_csv()
    parser.add_page()


def estimator_of(options: argparse.Namespace) -> Any:
    """The estimator that the options describe."""
    from replearn.estimators.table import ESTIMATORS

    given = promise_of(options) | {"shared_seed": options.shared_seed}
    bits = given.pop("sketch_bits")
    if options.algorithm in ("svm", "sgd"):
        given["sketch_bits"] = bits
    elif bits:
        raise ReplearnError(f"--bits belongs to svm and sgd, got --algorithm {options.algorithm}.")
    return ESTIMATORS[options.algorithm](**given)


def run(options: argparse.Namespace) -> Outcome:
    """Fit, and say how replicable that is."""
    check_output_path(options.out, "model", [options.table], ("replearn/halfspace",))
    taken = [path for path in (options.table, options.out) if path]
    check_output_path(options.study_out, "study", taken, ("replearn/paper-study",))
    estimator = estimator_of(options)
    X, y, names = read_numbers(options)
    with working(f"fitting {options.algorithm}"):
        estimator.fit(X, y)
    _save_model(estimator, names, len(y), options.out)
    study = getattr(estimator, "study_", None)
    if options.study_out is not None:
        if study is None:
            raise ReplearnError("--study-out needs svm or sgd with --bits 1 to 4.")
        may_leave("study", len(y), study.design.space.n_codes)
        stated = {"columns": list(names), "target": options.target}
        replace(study, provenance=stated).save(options.study_out)
    written = [(options.study_out, "send", "not the model"), (options.out, "keep", "your model")]
    files = [Row(word, path, note=note) for path, word, note in written if path]
    facts, title = _facts(estimator, X, y, files), f"Fit of {options.algorithm}"
    return Outcome(facts, title=title, n_rows=len(y))


def of_study(
    options: argparse.Namespace, study: HalfspaceStudy
) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """The estimator of a replication of Algorithm 1 or 2, and the rows of a lab."""
    from replearn.estimators.table import ESTIMATORS

    stated = study.provenance or {}
    options.target = options.target or stated.get("target")
    X, y, names = read_numbers(options, stated.get("columns"))
    shell = ESTIMATORS[study.design.recipe](study=study, fit_intercept=study.design.fit_intercept)
    return shell, X, y, names


def replicate(options: argparse.Namespace, study: HalfspaceStudy) -> Outcome:
    """Fit the study of Algorithm 1 or 2 on a lab's own rows, and compare."""
    estimator, X, y, names = of_study(options, study)
    with working("fitting the study"):
        estimator.fit(X, y)
    _save_model(estimator, names, len(y), options.out)
    found, title = estimator.replication_, f"Replication of {options.study}"
    code = DONE if found.same else DIFFERENT
    return Outcome(found.facts(), code, title=title, n_rows=len(y))


def _save_model(estimator: Any, names: tuple[str, ...], n_rows: int, path: str | None) -> None:
    if path is not None:
        may_leave("model", n_rows, estimator.model_.codes.size)
        replace(estimator.model_, provenance={"columns": list(names)}).save(path)


def _facts(estimator: Any, X: Any, y: Any, files: list[Row]) -> Facts:
    bound, plan, n_rows = estimator.certificate_, estimator.plan_, len(y)
    if bound.expected is None and plan.mode == "practical":
        verdict = f"A model of {n_rows:,} rows; they are too few to say how replicable it is."
    else:
        share = bound.in_mode(plan.mode)
        word = "estimated" if plan.mode == "practical" else "proved, as a mean over seeds"
        verdict = (
            f"A second lab with {n_rows:,} rows gets the same model in {percent(1 - share)} of the "
            f"cases ({word})."
        )
    right = float((estimator.predict(X) == y).mean())
    return Facts(
        verdict,
        [
            f"Fingerprint {estimator.fingerprint_}",
            *files,
            Row("algorithm", plan.recipe, note=f"{plan.mode} mode"),
            Row("rows here", n_rows, note=f"planned {plan.n_rows:,}"),
            Row("right labels", right, "%", note="on these rows, which made the model"),
        ],
        details=[Row(name.replace("_", " "), n) for name, n in estimator.counts_.items()],
        values={"fingerprint": estimator.fingerprint_},
    )
