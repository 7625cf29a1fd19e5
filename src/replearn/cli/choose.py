"""``replearn choose``: one of several finished models, the same at every lab."""

import argparse
from typing import Any

from replearn.cli.command import (
    Outcome,
    Parser,
    check_output_path,
    csv_options,
    inputs_of,
    may_leave,
    names,
    working,
)
from replearn.documents.facts import Facts, Row, Table, percent
from replearn.errors import ReplearnError

EPILOG = """\
examples:
  replearn choose b.csv --target died --models a.model.json c.model.json
  replearn choose b.csv --target died --columns p_tree,p_logistic

candidates are model files, or columns that hold probabilities of the second
class (labels with --scoring accuracy); the same in one order at every lab
"""


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("table TABLE", "labelled rows that no candidate has seen")
    parser.add("--target COLUMN", "the labels")
    parser.add("--models MODEL", "candidates: model files", nargs="+", default=[])
    parser.add("--columns COLUMNS", "candidates: columns, with commas", type=names, default=[])
    parser.add(
        "--scoring",
        "what is compared (default neg_log_loss)",
        choices=("neg_log_loss", "neg_brier_score", "accuracy"),
        default="neg_log_loss",
    )
    parser.add(
        "--max-error X", "score that may be given up (default 0.01)", type=float, default=0.01
    )
    parser.add(
        "--max-disagreement X",
        "probability of different choices (default 0.1)",
        type=float,
        default=0.1,
    )
    parser.add("--seed TEXT", "published; any text (default 0)", default="0", dest="shared_seed")
    parser.add(
        "--mode", "practical or certified", choices=("practical", "certified"), default="practical"
    )
    parser.add("--out FILE", "write the choice")
    parser.add_csv()
    parser.add_page()


def run(options: argparse.Namespace) -> Outcome:
    """Score the candidates and choose."""
    from replearn.estimators.choice import ReplicableChoiceClassifier

    check_output_path(options.out, "model", inputs_of(options), ("replearn/choice",))
    with working("scoring candidates"):
        candidates, X, y = _candidates(options)
        found = ReplicableChoiceClassifier(
            candidates,
            scoring=options.scoring,
            max_error=options.max_error,
            max_disagreement=options.max_disagreement,
            shared_seed=options.shared_seed,
            mode=options.mode,
        ).fit(X, y)
    if options.out is not None:
        may_leave("model", len(y), len(candidates))
        found.model_.save(options.out)
    expected = found.certificate_.expected
    agreement = ""
    if expected is not None:
        agreement = (
            f" A second lab chooses the same in {percent(1 - max(expected, 1e-5))} of the cases."
        )
    scores = Table(
        "Scores (1 is best)",
        ("candidate", "score"),
        list(zip(candidates, found.scores_, strict=True)),
        key="scores",
    )
    facts = Facts(
        f"The choice is {found.model_.name}.{agreement}",
        [f"Fingerprint {found.fingerprint_}", Row("rows here", len(y)), scores],
        values={"chosen": found.model_.name, "fingerprint": found.fingerprint_},
    )
    return Outcome(facts, title="Choice", n_rows=len(y))


def _candidates(options: argparse.Namespace) -> tuple[dict[str, int], Any, Any]:
    """A column for each candidate, and the labels."""
    import numpy as np

    from replearn.reports.audit import columns_of
    from replearn.reports.files import load_model
    from replearn.tables import open_table

    if len(options.models) + len(options.columns) < 2:
        raise ReplearnError("choose needs two candidates. Name them with --models or --columns.")
    rows = open_table(options.table, target=options.target, csv=csv_options(options))
    columns, y = columns_of(rows)
    found: dict[str, Any] = {}
    for path in options.models:
        model = load_model(path)
        if options.scoring == "accuracy":
            found[path] = model.predict(columns)
        elif hasattr(model, "predict_proba"):
            found[path] = model.predict_proba(columns)[:, 1]
        else:
            raise ReplearnError(f"{path} gives no probabilities. Use --scoring accuracy.")
    for name in options.columns:
        if name not in columns:
            raise ReplearnError(f"{options.table} has no column {name!r}. Check --columns.")
        found[name] = columns[name]
    table = np.empty((len(y), len(found)), dtype=object)
    for place, values in enumerate(found.values()):
        table[:, place] = list(values)
    return {name: place for place, name in enumerate(found)}, table, y
