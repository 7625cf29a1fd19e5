"""The page of an evaluation: a supplement for a paper, and for people who read no code."""

import re
from typing import Any

from replearn.audits.evaluation import Evaluation
from replearn.audits.report import Drawing, make_page, percent
from replearn.audits.weights import weights_of
from replearn.codes.encoding import CategoryColumn
from replearn.codes.model import Model
from replearn.stages.intervals import Measured
from replearn.study.protocol import Protocol

_MOST_CELLS = 6  # values of a category that are listed
_MOST_WEIGHTS = 12

#: Words of notes, for people.
_WORDS = {
    "updating": "updating: the directions know the pilot's labels",
    "discovery": "discovery: the directions know no labels",
    "pca": "principal directions",
    "score": "published scores, the pilot's own fit, then principal directions",
    "pls": "published scores, the pilot's own fit, then partial least squares",
    "ridges": "published scores, the pilot's own fit and fits with other ridge weights",
    "own": "each column by its own spread",
    "plain": "each number by its own spread, categories as 0 and 1",
    "standard": "each column by its own spread",
    "common": "all columns by one number",
}


def evaluation_report(
    found: Evaluation,
    command: str,
    model: Model | None = None,
    provenance: dict[str, Any] | None = None,
    protocol: Protocol | None = None,
) -> str:
    """The page of an evaluation: HTML, the same bytes for the same evaluation.

    Model, provenance (as in the model file) and protocol are for the sections about them.
    """
    provenance = provenance or {}
    halfspace = model is not None and model.is_halfspace and model.n_classes == 2
    weights = weights_of(model, found.spreads) if model is not None and halfspace else []
    return make_page(
        "evaluation.html",
        _drawings(found),
        found=found,
        worth=found.worth,
        level=percent(found.worth.confidence),
        command=command,
        data=_data_facts(found, model, provenance),
        columns=_columns(found, model),
        model=model,
        weights=weights[:_MOST_WEIGHTS],
        n_more=max(0, len(weights) - _MOST_WEIGHTS),
        odds=model is not None and model.has_probabilities,
        decided=_decided(protocol),
        planned=_planned(found, provenance, protocol),
        items=_items(found, model, protocol),
    )


def _drawings(found: Evaluation) -> list[Drawing]:
    from replearn.audits import figures

    drawings = []
    if found.roc is not None:
        drawings.append(
            Drawing(
                "curves",
                "ROC curve",
                figures.roc_figure(found.roc),
                "Every threshold gives a point: how many of the positive rows are found, and how "
                f"many of the others are flagged with them. AUC {found.worth.auc}.",
            )
        )
    if found.bins:
        drawings.append(
            Drawing(
                "curves",
                "Calibration",
                figures.calibration_figure(found.bins),
                f"Rows in {len(found.bins)} groups of about equal size by their probability. On "
                "the dashed line the predicted share is the observed one. Bars: "
                f"{percent(found.worth.confidence)} Wilson intervals.",
            )
        )
    return drawings


# --- what the sections say --------------------------------------------------------------------


def _data_facts(
    found: Evaluation, model: Model | None, provenance: dict[str, Any]
) -> list[tuple[str, str]]:
    rates = ", ".join(
        f"{rate.value:.1%} {label}"
        for label, rate in zip(found.worth.labels, found.worth.base_rates, strict=True)
    )
    facts = [("rows", f"{found.worth.n_rows:,}"), ("labels", rates)]
    rows = provenance.get("rows")
    if isinstance(rows, int):
        facts.append(("rows of the fit", f"{rows:,}"))
    own = provenance.get("worth")
    if isinstance(own, dict) and isinstance(own.get("base_rates"), list):
        shares = ", ".join(
            f"{float(rate):.1%} {label}"
            for label, rate in zip(found.worth.labels, own["base_rates"], strict=False)
        )
        facts.append(("labels of the fit", shares))
    if model is not None and model.encoding is not None:
        n_columns = len(model.encoding.columns)
        facts.append(("columns", f"{n_columns:,}, which become {model.n_features:,} numbers"))
    elif model is not None:
        facts.append(("columns", f"{model.n_features:,}"))
    return facts


def _columns(found: Evaluation, model: Model | None) -> list[tuple[str, ...]]:
    """Name, kind, missing and unknown of each raw column."""
    if model is None or model.encoding is None:
        return []
    n_rows = found.worth.n_rows
    rows: list[tuple[str, ...]] = []
    for column in model.encoding.columns:
        counts = found.columns.get(column.name, {})
        if isinstance(column, CategoryColumn):
            values = list(column.values[:_MOST_CELLS])
            values += ["..."] if len(column.values) > _MOST_CELLS else []
            kind = "category: " + ", ".join([*values, *(["other"] if column.other else [])])
        else:
            kind = "number" + (", filled in if missing" if column.fill_missing else "")
        shares = [f"{counts.get(what, 0) / n_rows:.1%}" for what in ("missing", "unknown")]
        rows.append((column.name, kind, *shares))
    return rows


def _decided(protocol: Protocol | None) -> list[tuple[str, str]]:
    """What the protocol fixed before any site looked at its rows."""
    if protocol is None:
        return []
    notes = protocol.notes
    facts = [("protocol", protocol.fingerprint), ("algorithm", protocol.algorithm)]
    words = {
        "study": "kind of study",
        "n_pilot": "rows of the pilot",
        "directions": "directions",
        "projection": "projection",
        "scaling": "scaling",
        "sites": "sites",
        "samples_per_site": "rows planned per site",
    }
    facts += [
        (words[name], _count(notes[name]) or _WORDS.get(str(notes[name]), str(notes[name])))
        for name in words
        if name in notes
    ]
    if protocol.design is not None:
        space = protocol.design.space
        n_numbers, n_directions = space.n_components, len(space.directions.rows)
        classes = "" if space.n_classes == 2 else f", for {space.n_classes - 1} of the classes"
        facts.append(
            (
                "left to the sites",
                f"{n_numbers} numbers: an intercept and the weights of {n_directions} published "
                f"directions{classes}",
            )
        )
    facts.append(("seed", protocol.seed_policy))
    return facts


def _planned(
    found: Evaluation, provenance: dict[str, Any], protocol: Protocol | None
) -> list[tuple[str, str, str]]:
    """Name, planned and measured."""
    if protocol is None:
        return []
    notes, worth = protocol.notes, found.worth
    estimate = provenance.get("estimated_disagreement")
    if isinstance(estimate, str):
        estimate += " (estimated by the fit, at this seed)"
    else:
        estimate = None
    rows: list[tuple[str, str, Measured | str | None]] = [
        ("expected_auc", "AUC", worth.auc),
        ("expected_balanced_accuracy", "balanced accuracy", worth.balanced_accuracy),
        ("expected_log_loss", "log-loss", worth.log_loss),
        ("expected_accuracy", "accuracy", worth.accuracy),
        ("expected_disagreement", "disagreement of two sites", estimate),
        ("samples_per_site", "rows of the fit", _count(provenance.get("rows"))),
    ]
    return [
        (name, _count(notes[key]) or str(notes[key]), "–" if value is None else str(value))
        for key, name, value in rows
        if key in notes
    ]


def _count(value: Any) -> str | None:
    if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
        return f"{int(value):,}"
    return None


def _items(
    found: Evaluation, model: Model | None, protocol: Protocol | None
) -> list[tuple[str, str]]:
    """Items of TRIPOD+AI that the page helps with, and where."""
    items = [
        ("12e", "measures and plots of performance: Numbers, Curves"),
        ("13", "class imbalance: base rate, balanced accuracy and threshold in Numbers"),
        ("15", "what the model gives out: Numbers, By class"),
        ("21", "rows and outcome events of the analysis: Data"),
        ("23a", "performance with intervals: Numbers"),
    ]
    if found.by is not None:
        items += [("14, 23a", f"performance in groups: By {found.by}")]
    if model is not None and model.encoding is not None:
        items += [
            ("9a", "predictors and their coding: Data"),
            ("11, 20b", "missing values, how they are handled and how many there are: Data"),
            ("12b", "predictors as they enter the model: Data"),
        ]
    if model is not None:
        items += [("22", "the whole model: Weights; the model file holds every number")]
    if protocol is not None:
        items += [
            ("10", "planned number of rows: What was planned"),
            ("12c", "type of model and how it was built: What the protocol decided"),
            ("16", "development against evaluation: What was planned, Data"),
            ("18c", "the protocol, by its hash: What the protocol decided"),
        ]
    return sorted(items, key=lambda item: (int(re.findall(r"[0-9]+", item[0])[0]), item[0]))
