"""``replearn demo``: two simulated labs, end to end."""

import csv
import io
import os
import warnings
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replearn.cli.command import Outcome, Parser, refuse_unused, width, working
from replearn.words import Facts, Row, Table, counted, percent

if TYPE_CHECKING:
    from replearn.glm import GlmModel
    from replearn.study import GlmStudy, Original

EPILOG = """\
Both parts of the library, in seconds. Two labs that share a seed fit a
halfspace: nobody is first. Two hospitals fit one model of their patients: one
publishes, the other replicates. Each stands beside what people use otherwise.

examples:
  replearn demo --rows 2000
  replearn demo --tables practice
"""

_TARGET = "readmitted"
_BITS = (3, 8)
_PILOT_ROWS = 1000
_NEW_ROWS = 20_000
#: Of the halfspace: examples of each lab, their columns, and the margin.
_EXAMPLES, _INPUTS, _MARGIN = 20_000, 10, 0.3


def add_arguments(parser: Parser) -> None:
    """Add the options of the command."""
    parser.add("--rows N", "patients of each lab (default 4000)", type=int, default=4000)
    parser.add("--labs N", "further labs that are counted (default 20)", type=int, default=20)
    parser.add("--tables FOLDER", "only write the patients of four labs as tables to practise on")


def run(options: Namespace) -> Outcome:
    """Both doors: halfspaces, where nobody is first, and a study with its replication."""
    if options.tables is not None:
        refuse_unused(options, "--tables", "labs")
        return _tables(options.tables, options.rows)
    with working("two labs at work"):
        halfspaces = _halfspaces()
        study = _study(options.rows, options.labs)

    # the verdict, then both doors
    all_same = halfspaces.same and study.same
    verdict = "Two labs with different samples have exactly the same model, twice."
    if not all_same:
        verdict = "Two labs with different samples have different models this time."
    facts = Facts(
        verdict, [*halfspaces.facts, *study.facts], values={"same": all_same, "rows": options.rows}
    )
    text = [*halfspaces.text, "", *study.text]
    return Outcome(facts, raw="\n".join(text) + "\n")


@dataclass(frozen=True)
class _Door:
    """What one half of the demonstration shows."""

    same: bool
    facts: list[Row | Table]
    text: list[str]


def _halfspaces() -> _Door:
    """Algorithm 1 at two labs that share a seed, beside LinearSVC on the same rows."""
    import numpy as np
    from sklearn.svm import LinearSVC

    from replearn import ReplicableSVMClassifier
    from replearn.datasets import make_margin

    # two labs, each fitted twice: with shared coins, and as people do
    samples = [make_margin(_EXAMPLES, _INPUTS, _MARGIN, random_state=number) for number in range(2)]
    fits = [
        ReplicableSVMClassifier(margin=_MARGIN, shared_seed="2024").fit(X, y) for X, y in samples
    ]
    rivals = [LinearSVC(C=10.0).fit(X, y) for X, y in samples]
    same = fits[0].fingerprint_ == fits[1].fingerprint_
    rivals_agree = bool(np.array_equal(rivals[0].coef_, rivals[1].coef_))

    # what both are good for
    new = make_margin(_NEW_ROWS, _INPUTS, _MARGIN, random_state=2)
    errors = [1 - float(model.score(*new)) for model in (fits[0], rivals[0])]

    words = {True: "yes", False: "no"}
    lines = [
        ("Algorithm 1", percent(errors[0]), words[same]),
        ("LinearSVC", percent(errors[1]), words[rivals_agree]),
    ]
    table = Table(
        f"Errors on {_NEW_ROWS:,} new examples",
        ("model", "errors", "the same at both labs"),
        lines,
        key="halfspaces",
    )
    text = [
        _said(
            f"1. Halfspaces: nobody is first. North and South have {_EXAMPLES:,} invented examples "
            "each, no example in both. They share a seed, and fit Algorithm 1 of the paper."
        ),
        "",
        f"$ replearn fit north.csv --target y --margin {_MARGIN} --seed 2024",
        f"Fingerprint {fits[0].fingerprint_}",
        f"$ replearn fit south.csv --target y --margin {_MARGIN} --seed 2024",
        f"Fingerprint {fits[1].fingerprint_}",
        "",
        _shown(table),
    ]
    return _Door(same, [Row("halfspace", fits[0].fingerprint_), table], text)


def _study(n_rows: int, n_labs: int) -> _Door:
    """An original, a blind replication, and the model's performance beside its rivals."""
    from replearn.datasets import load_readmission
    from replearn.study import Request, publish, register_study, replicate

    def lab(name: str, size: int = n_rows, seed: int = 0) -> Any:
        return load_readmission(name, size, seed=seed, as_frame=False)

    ashford, birchwood = lab("Ashford"), lab("Birchwood")
    originals = {}
    for bits in _BITS:
        request = Request(target=_TARGET, sketch_bits=bits)
        originals[bits] = publish(_table(ashford), request)
    first = originals[8]
    model, replication = replicate(first.study, _table(birchwood))

    # the same at further labs, and on new patients
    with warnings.catch_warnings():  # the table shows how well it predicts
        warnings.simplefilter("ignore")
        pilot = lab("Castleton", _PILOT_ROWS, seed=1)
        registered = register_study(pilot, _TARGET, replication_rows=n_rows)
    models = [(registered, replicate(registered, _table(ashford))[0])]
    models += [(original.study, original.model) for original in originals.values()]
    others = [lab("Dunmore", seed=seed) for seed in range(n_labs)]
    performance = _performance(models, ashford, others, lab("Castleton", _NEW_ROWS))

    share = percent(float(ashford[_TARGET].mean()))
    text = [
        _said(
            f"2. Studies: Ashford publishes. Ashford and Birchwood have {n_rows:,} invented "
            f"patients each, no patient in both. {share} of Ashford's return within 30 days. No "
            "row leaves a lab."
        ),
        *_study_text(first),
        *(_said(line) for line in replication.facts().text(10_000).split("\n")[:3]),
        "",
        _shown(performance),
        "",
        _said(_LESSON),
    ]
    facts: list[Row | Table] = [
        Row("original", first.model.fingerprint),
        Row("replication", model.fingerprint),
        performance,
    ]
    return _Door(bool(replication.same), facts, text)


def _table(columns: Any) -> Any:
    """A lab's patients, with their outcome as the target."""
    from replearn.tables import open_table

    return open_table(columns, target=_TARGET)


def _study_text(original: "Original") -> list[str]:
    """What the first lab does and sends."""
    size = len(original.study.canonical_bytes())
    planned = percent(1 - original.certificate.planned)
    return [
        "",
        "$ replearn publish ashford.csv --target readmitted --out study.json",
        _said(
            f"Ashford fits a model and sends a study file of {size:,} bytes: one byte for each of "
            f"{original.study.design.n_numbers} coefficients, and a fingerprint. Planned: "
            f"{planned} of centres that differ as centres typically do get it."
        ),
        "$ replearn replicate study.json birchwood.csv",
    ]


def _performance(
    models: "list[tuple[GlmStudy, GlmModel]]", ashford: Any, others: list[Any], new: Any
) -> Table:
    """Each model on new patients, and how many further labs get it."""
    from replearn.study import replicate

    # rivals first; then each study at all labs
    rows = _base_and_sklearn(ashford, others, new)
    for study, model in models:
        n_same = 0
        for other in others:
            n_same += replicate(study, _table(other))[0].fingerprint == model.fingerprint
        rows.append(_line(study, model, n_same, new))
    return Table(
        f"Performance on {_NEW_ROWS:,} new patients",
        ("model", "AUC", "log-loss", f"same at {len(others)} labs", "patients to match"),
        rows,
        key="performance",
    )


def _said(sentence: str) -> str:
    """A paragraph that fits the terminal."""
    return Facts(sentence).text(width())


def _shown(table: Table) -> str:
    """A table alone."""
    return Facts("", [table]).text(width(), details=True).strip("\n")


def _tables(folder: str, n_rows: int) -> Outcome:
    """Write what four labs have, and a table whose outcome is defined differently."""
    from replearn.datasets import CENTRES, load_readmission
    from replearn.documents import write_atomically

    labs = {name.lower(): load_readmission(name, n_rows, as_frame=False) for name in CENTRES}

    # one lab counts readmissions differently: a replication should tell
    late = [int(i % 8 == 0 or y) for i, y in enumerate(labs["castleton"][_TARGET].tolist())]
    tables = labs | {"ninety-days": labs["castleton"] | {_TARGET: late}}
    os.makedirs(folder, exist_ok=True)
    try:
        for name, columns in tables.items():
            cells = [["" if x is None or x != x else x for x in cell] for cell in columns.values()]
            text = io.StringIO(newline="")
            csv.writer(text).writerows([columns, *zip(*cells, strict=True)])
            path = os.path.join(folder, f"{name}.csv")
            write_atomically(path, text.getvalue().encode(), new=True)
    except OSError:
        # a full disk: a folder that has nothing in it is no use
        if not os.listdir(folder):
            os.rmdir(folder)
        raise

    # what to do with them
    said = {
        "tables": ", ".join(f"{name}.csv" for name in labs),
        "outcome": f"{_TARGET}, within 30 days",
        "differs": "ninety-days.csv: castleton.csv with the outcome within 90 days",
        "try": f"replearn publish ashford.csv --target {_TARGET} --out study.json",
        "then": "replearn replicate study.json birchwood.csv",
    }
    where = "this folder" if os.path.samefile(folder, ".") else f"the folder {folder}"
    verdict = f"Tables of four labs with {n_rows:,} invented patients each are in {where}."
    return Outcome(Facts(verdict, [Row(name, words) for name, words in said.items()]))


_LESSON = (
    "The labs sample one population. LogisticRegression gives each a model of its own. Without "
    "published bits (a registered study) they agree on little more than the base rate. With one "
    "byte they agree on a model that predicts as well as one lab's own. The last column is the "
    "sample size that a lab needs to get the model half of the time."
)


def _line(study: "GlmStudy", model: "GlmModel", n_same: int, new: Any) -> tuple[Any, ...]:
    """A line of the table for a study and its model."""
    from replearn.reports.evaluate import evaluate

    performance = evaluate(model, new, _TARGET).performance
    assert performance.auc is not None
    match = study.evidence(model).rows
    name = f"replearn, {counted(study.design.bits, 'bit')}"
    return name, performance.auc.value, f"{performance.loss.value:.3f}", n_same, match


def _base_and_sklearn(ashford: Any, others: list[Any], new: Any) -> list[tuple[Any, ...]]:
    """Lines of the base rate and of scikit-learn's logistic regression on one lab's rows."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    from replearn.glm import Bernoulli
    from replearn.study import Performance

    def encoded(columns: Any) -> Any:
        """Standardised numbers with gaps filled, and a column for each level."""
        terms = []
        for name, values in ashford.items():
            cells = columns[name]
            if values.dtype == object:
                terms += [cells == level for level in sorted({*values} - {None})]
            elif name != _TARGET:
                units = (cells - np.nanmean(values)) / np.nanstd(values)
                terms.append(np.where(np.isnan(units), 0.0, units))
        return np.column_stack(terms).astype(np.float64)

    def fitted(columns: Any) -> Any:
        return LogisticRegression().fit(encoded(columns), columns[_TARGET])

    # one lab's model on new patients; the others' for comparison
    model = fitted(ashford)
    scores = model.decision_function(encoded(new))[:, None]
    performance = Performance.of(Bernoulli(), scores, new[_TARGET].astype(np.float64))
    assert performance.auc is not None
    n_same = sum(np.array_equal(fitted(other).coef_, model.coef_) for other in others)
    return [
        ("base rate", 0.5, f"{performance.base:.3f}", None, None),
        (
            "LogisticRegression",
            performance.auc.value,
            f"{performance.loss.value:.3f}",
            n_same,
            None,
        ),
    ]
