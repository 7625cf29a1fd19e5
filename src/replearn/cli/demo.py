"""``replearn demo``: two simulated labs, end to end."""

import argparse
import csv
import os
import warnings
from typing import TYPE_CHECKING, Any

from replearn.cli.command import Outcome, Parser, refuse_unused, width, working
from replearn.documents.facts import Facts, Row, Table, counted, percent

if TYPE_CHECKING:
    from replearn.recipes.model import Model
    from replearn.study.study import Study

EPILOG = """\
Two hospitals with different patients fit one model. One publishes, the other
replicates. Then the table that a sceptic asks for, measured on new patients.

examples:
  replearn demo --rows 2000
  replearn demo --tables practice
"""

_TARGET = "readmitted"
_BITS = (3, 8)
_PILOT_ROWS = 1000
_NEW_ROWS = 20_000


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("--rows N", "patients of each lab (default 4000)", type=int, default=4000)
    parser.add("--labs N", "further labs that are counted (default 20)", type=int, default=20)
    parser.add("--tables FOLDER", "only write the patients of four labs as tables to practise on")


def run(options: argparse.Namespace) -> Outcome:
    """An original, a blind replication, and the sceptic's table."""
    from replearn.datasets import load_readmission

    if options.tables is not None:
        refuse_unused(options, "--tables", "labs")
        return _tables(options.tables, options.rows)
    from replearn.study.original import Request, publish
    from replearn.study.registered import register_study
    from replearn.study.replication import replicate
    from replearn.tables import open_table

    def lab(name: str, n_rows: int = options.rows, seed: int = 0) -> Any:
        return load_readmission(name, n_rows, seed=seed, as_frame=False)

    def table(columns: Any) -> Any:
        return open_table(columns, target=_TARGET)

    ashford, birchwood = lab("Ashford"), lab("Birchwood")
    with working("two labs at work"):
        originals = {
            bits: publish(table(ashford), Request(target=_TARGET, sketch_bits=bits))
            for bits in _BITS
        }
        first = originals[8]
        model, found = replicate(first.study, table(birchwood))
        others = [lab("Dunmore", seed=seed) for seed in range(options.labs)]
        new = lab("Castleton", _NEW_ROWS)
        rows = _base_and_sklearn(ashford, others, new)
        pilot = lab("Castleton", _PILOT_ROWS, seed=1)
        with warnings.catch_warnings():  # the table shows what it is worth
            warnings.simplefilter("ignore")
            registered = register_study(pilot, _TARGET, samples_per_lab=options.rows)
        models = [(registered, replicate(registered, table(ashford))[0])]
        models += [(original.study, original.model) for original in originals.values()]
        for study, model_of_ashford in models:
            n_same = sum(
                replicate(study, table(other))[0].fingerprint == model_of_ashford.fingerprint
                for other in others
            )
            rows.append(_line(study, model_of_ashford, n_same, new))
    sceptic = Table(
        f"Performance on {_NEW_ROWS:,} new patients",
        ("model", "AUC", "log-loss", f"same at {options.labs} labs", "patients to match"),
        rows,
        key="sceptic",
    )
    n_rows = options.rows
    verdict = "Two labs with different patients have exactly the same model."
    if not found.same:
        verdict = "Two labs with different patients have different models this time."
    facts = Facts(
        verdict,
        [Row("original", first.model.fingerprint), Row("replication", model.fingerprint), sceptic],
        values={"same": found.same, "rows": n_rows},
    )
    share = percent(float(ashford[_TARGET].mean()))
    size = len(first.study.canonical_bytes())
    steps = [
        f"Ashford and Birchwood have {n_rows:,} invented patients each, no patient in both. "
        f"{share} of Ashford's return within 30 days. No row leaves a lab.",
        "$ replearn publish ashford.csv --target readmitted --out study.json",
        f"Ashford fits a model and sends a study file of {size:,} bytes: "
        f"one byte for each of {first.study.design.n_numbers} coefficients, and a fingerprint. "
        f"Planned: {percent(1 - first.certificate.planned)} of centres that differ as centres "
        "typically do get it.",
        "$ replearn replicate study.json birchwood.csv",
        *found.facts().text(10_000).split("\n")[:3],
    ]
    text = [Facts(step).text(width()) for step in steps]
    text.insert(1, "")
    text.insert(4, "")
    text += ["", Facts("", [sceptic]).text(width(), details=True).strip("\n"), ""]
    text.append(Facts(_LESSON).text(width()))
    return Outcome(facts, raw="\n".join(text) + "\n")


def _tables(folder: str, n_rows: int) -> Outcome:
    """Write what four labs have, and a table whose outcome is defined differently."""
    from replearn.datasets import CENTRES, load_readmission

    labs = {name.lower(): load_readmission(name, n_rows, as_frame=False) for name in CENTRES}
    late = [int(i % 8 == 0 or y) for i, y in enumerate(labs["castleton"][_TARGET].tolist())]
    os.makedirs(folder, exist_ok=True)
    for name, columns in (labs | {"ninety-days": labs["castleton"] | {_TARGET: late}}).items():
        cells = [["" if x is None or x != x else x for x in column] for column in columns.values()]
        with open(os.path.join(folder, f"{name}.csv"), "x", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([columns, *zip(*cells, strict=True)])
    said = {
        "tables": ", ".join(f"{name}.csv" for name in labs),
        "outcome": f"{_TARGET}, within 30 days",
        "differs": "ninety-days.csv: castleton.csv with the outcome within 90 days",
        "try": f"replearn publish ashford.csv --target {_TARGET} --out study.json",
        "then": "replearn replicate study.json birchwood.csv",
    }
    verdict = f"Four labs with {n_rows:,} invented patients each are in {folder}."
    return Outcome(Facts(verdict, [Row(name, words) for name, words in said.items()]))


_LESSON = (
    "LogisticRegression gives every lab a model of its own. Without published bits (a registered "
    "study) labs agree on little more than the base rate. With one byte they agree on a model "
    "that predicts as well as one lab's own. The last column is the sample size that a lab needs "
    "to get the model half of the time."
)


def _line(study: "Study", model: "Model", n_same: int, new: Any) -> tuple[Any, ...]:
    """A line of the table for a study and its model."""
    from replearn.reports.evaluate import evaluate

    worth = evaluate(model, new, _TARGET).worth
    assert worth.auc is not None
    match = study.evidence(model).rows
    name = f"replearn, {counted(study.design.bits, 'bit')}"
    return name, worth.auc.value, f"{worth.loss.value:.3f}", n_same, match


def _base_and_sklearn(ashford: Any, others: list[Any], new: Any) -> list[tuple[Any, ...]]:
    """Lines of the base rate and of scikit-learn's logistic regression on one lab's rows."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from replearn.recipes.losses import Bernoulli
    from replearn.study.worth import Worth

    def terms(columns: Any) -> Any:
        """Standardised numbers with gaps filled, and a column for each level."""
        found = []
        for name, values in ashford.items():
            cells = columns[name]
            if values.dtype == object:
                found += [cells == level for level in sorted({*values} - {None})]
            elif name != _TARGET:
                units = (cells - np.nanmean(values)) / np.nanstd(values)
                found.append(np.where(np.isnan(units), 0.0, units))
        return np.column_stack(found).astype(np.float64)

    def fitted(columns: Any) -> Any:
        return LogisticRegression().fit(terms(columns), columns[_TARGET])

    model = fitted(ashford)
    scores = model.decision_function(terms(new))[:, None]
    worth = Worth.of(Bernoulli(), scores, new[_TARGET].astype(np.float64))
    assert worth.auc is not None
    n_same = sum(np.array_equal(fitted(other).coef_, model.coef_) for other in others)
    return [
        ("base rate", 0.5, f"{worth.base:.3f}", None, None),
        ("LogisticRegression", worth.auc.value, f"{worth.loss.value:.3f}", n_same, None),
    ]
