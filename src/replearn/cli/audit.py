"""``replearn audit``: how often two labs get the same model, by counting."""

from argparse import Namespace
from typing import Any

from replearn.cli.command import (
    CSV,
    OF_HALFSPACES,
    Outcome,
    Parser,
    add_promise,
    answered,
    csv_options,
    lab_table,
    refuse_unused,
    working,
)
from replearn.cli.fit import estimator_of, of_study
from replearn.errors import ReplearnError

EPILOG = """\
examples:
  replearn audit b.csv --study study.json --pairs 20
  replearn audit a.csv --target died --algorithm glm
  replearn audit labs.csv --target died --by hospital
  replearn audit data.parquet --target y --algorithm sklearn
  replearn audit data.parquet --target y --algorithm svm --margin 0.2

with --study: parts of the table replicate it. Else each pair is an original
and a replication on random halves of the table; sklearn is its
LogisticRegression. With --by each centre is left out once and replicates the
model of all others: agreement, support and performance, centre by centre,
with what to expect of a new one.

exit codes: 0 not refuted; 1 the claim is refuted; 2 bad input
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("table TABLE", "rows: .csv, .csv.gz, .parquet, .npz or .svm")
    parser.add("--study FILE", "audit this study")
    parser.add("--target COLUMN", "the labels")
    add_promise(parser, also=("glm", "sklearn"), default="glm")
    parser.add("--seed TEXT", "of splits and fits (default 0)", default="0", dest="shared_seed")
    parser.add("--by COLUMN", "the centre of each row (hospital, month): leave each out once")
    parser.add("--pairs N", "how many (default 20)", type=int, dest="n_pairs", default=20)
    parser.add(
        "--rows N", "rows of each lab (default: as many as there are)", type=int, dest="n_rows"
    )
    parser.add_shared("drop", *CSV, "page")


def run(options: Namespace) -> Outcome:
    """Count."""
    if options.by is not None:  # centres are what they are
        refuse_unused(options, "an audit with --by", "n_pairs", "n_rows")
    audited = _of_study(options) if options.study else _of_estimator(options)
    return answered(audited, "Audit", audited.verdict == "exceeds")


def _of_study(options: Namespace) -> Any:
    """Disjoint random parts of the table, each a lab."""
    from replearn.reports.audit import audit_study, audit_study_by, labels_of
    from replearn.study import Study
    from replearn.tables import open_table

    refuse_unused(options, "an audit of a --study", "algorithm", "drop", *OF_HALFSPACES)
    study: Any = Study.load(options.study)
    if study.design.kind == "halfspace":
        if options.by is not None:
            raise ReplearnError("--by needs the study of a GLM, got that of a halfspace.")
        return _of_halfspaces(options, study)

    # each centre is a lab
    table = lab_table(options, study.design)
    if options.by is not None:
        refuse_unused(options, "an audit of a --study with --by", "shared_seed")
        names, csv = table.names[:1], csv_options(options)
        named = open_table(options.table, target=options.by, columns=names, csv=csv)
        with working("replicating"):
            return audit_study_by(study, table, labels_of(named.whole("target")), options.by)

    # or parts as large as the smallest lab that is promised the model
    n_rows = options.n_rows or study.n_replication
    with working("replicating"):
        return audit_study(study, table, n_rows, options.n_pairs, options.shared_seed)


def _of_halfspaces(options: Namespace, study: Any) -> Any:
    from replearn.reports.audit import audit_replications

    estimator, table = of_study(options, study)
    X, y = table.numbers()
    with working("replicating"):
        return audit_replications(
            estimator, X, y, n_rows=options.n_rows, most=options.n_pairs, seed=options.shared_seed
        )


def _of_estimator(options: Namespace) -> Any:
    from sklearn.linear_model import LogisticRegression

    from replearn.estimators import ReplicableLogisticClassifier
    from replearn.reports.audit import audit, labels_of
    from replearn.tables import open_table

    if options.by is not None and options.algorithm != "glm":
        raise ReplearnError(
            f"--by needs --algorithm glm, whose studies know centres, got {options.algorithm}."
        )
    if options.algorithm in ("glm", "sklearn"):
        refuse_unused(options, f"--algorithm {options.algorithm}", *OF_HALFSPACES)

    # a GLM takes columns of all kinds, all others numbers alone
    table = open_table(options.table, target=options.target, csv=csv_options(options))
    table = table.without(options.drop)
    estimator: Any
    if options.algorithm == "glm":
        table = table.kept()
        X, y = table.columns(), labels_of(table.whole("target"))
        estimator = ReplicableLogisticClassifier(shared_seed=options.shared_seed)
    else:
        X, y = table.numbers()
        if options.algorithm == "sklearn":
            estimator = LogisticRegression(max_iter=1000)
        else:
            estimator = estimator_of(options)

    # labs: each centre, or random parts
    labs: dict[str, Any] = {"by": options.by}
    if options.by is None:
        labs = {"n_pairs": options.n_pairs, "n_rows": options.n_rows, "seed": options.shared_seed}
    with working("auditing"):
        return audit(estimator, X, y, **labs)
