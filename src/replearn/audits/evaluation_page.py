"""The page of an evaluation: a supplement for a paper, and for people who read no code."""

import re
from dataclasses import dataclass
from typing import Any

from replearn.audits.evaluation import Evaluation
from replearn.audits.report import Drawing, make_page, percent, require_report_packages
from replearn.audits.weights import largest, weights_of
from replearn.codes.encoding import CategoryColumn
from replearn.codes.model import Model
from replearn.stages.intervals import Measured
from replearn.study.protocol import Protocol

_MOST_CELLS = 6  # values of a category that are listed

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


@dataclass(frozen=True)
class Study:
    """What a page can say about a model besides its numbers on rows.

    Attributes
    ----------
    model : Model or None
    provenance : dict
        As in the model file.
    protocol : Protocol or None
    """

    model: Model | None = None
    provenance: dict[str, Any] | None = None
    protocol: Protocol | None = None


def evaluation_report(found: Evaluation, command: str, study: Study | None = None) -> str:
    """The page of an evaluation.

    Parameters
    ----------
    found : Evaluation
    command : str
        What makes this page.
    study : Study, optional
        Model, provenance and protocol, for the sections about them.

    Returns
    -------
    page : str
        HTML; the same bytes for the same evaluation.
    """
    require_report_packages()
    study = study or Study()
    model = study.model
    halfspace = model is not None and model.is_halfspace and model.n_classes == 2
    listed, more = (
        largest(weights_of(model, found.spreads)) if model is not None and halfspace else ([], 0)
    )
    return make_page(
        "evaluation.html",
        _drawings(found),
        found=found,
        worth=found.worth,
        level=percent(found.worth.confidence),
        command=command,
        data=_data_facts(found, study),
        columns=_columns(found, model),
        model=model,
        weights=listed,
        n_more=more,
        odds=model is not None and model.has_probabilities,
        decided=_decided(study.protocol),
        planned=_planned(found, study),
        items=_items(found, study),
    )


def _drawings(found: Evaluation) -> list[Drawing]:
    from replearn.audits import curve_figures as figures

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


def _data_facts(found: Evaluation, study: Study) -> list[tuple[str, str]]:
    rates = ", ".join(
        f"{rate.value:.1%} {label}"
        for label, rate in zip(found.worth.labels, found.worth.base_rates, strict=True)
    )
    facts = [("rows", f"{found.worth.n_rows:,}"), ("labels", rates)]
    provenance = study.provenance or {}
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
    if study.model is not None and study.model.encoding is not None:
        n_columns = len(study.model.encoding.columns)
        facts.append(("columns", f"{n_columns:,}, which become {study.model.n_features:,} numbers"))
    elif study.model is not None:
        facts.append(("columns", f"{study.model.n_features:,}"))
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


def _planned(found: Evaluation, study: Study) -> list[tuple[str, str, str]]:
    """Name, planned and measured."""
    if study.protocol is None:
        return []
    notes, worth = study.protocol.notes, found.worth
    rows: list[tuple[str, str, Measured | str | None]] = [
        ("expected_auc", "AUC", worth.auc),
        ("expected_balanced_accuracy", "balanced accuracy", worth.balanced_accuracy),
        ("expected_log_loss", "log-loss", worth.log_loss),
        ("expected_accuracy", "accuracy", worth.accuracy),
        (
            "expected_disagreement",
            "disagreement of two sites",
            _estimate((study.provenance or {}).get("estimated_disagreement")),
        ),
        ("samples_per_site", "rows of the fit", _count((study.provenance or {}).get("rows"))),
    ]
    return [
        (name, _count(notes[key]) or str(notes[key]), "–" if value is None else str(value))
        for key, name, value in rows
        if key in notes
    ]


def _estimate(value: Any) -> str | None:
    return f"{value} (estimated by the fit, at this seed)" if isinstance(value, str) else None


def _count(value: Any) -> str | None:
    if isinstance(value, int) or (isinstance(value, str) and value.isdigit()):
        return f"{int(value):,}"
    return None


def _items(found: Evaluation, study: Study) -> list[tuple[str, str]]:
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
    if study.model is not None and study.model.encoding is not None:
        items += [
            ("9a", "predictors and their coding: Data"),
            ("11, 20b", "missing values, how they are handled and how many there are: Data"),
            ("12b", "predictors as they enter the model: Data"),
        ]
    if study.model is not None:
        items += [("22", "the whole model: Weights; the model file holds every number")]
    if study.protocol is not None:
        items += [
            ("10", "planned number of rows: What was planned"),
            ("12c", "type of model and how it was built: What the protocol decided"),
            ("16", "development against evaluation: What was planned, Data"),
            ("18c", "the protocol, by its hash: What the protocol decided"),
        ]
    return sorted(items, key=lambda item: (int(re.findall(r"[0-9]+", item[0])[0]), item[0]))
