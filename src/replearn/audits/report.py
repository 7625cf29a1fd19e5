"""Reports for people: one HTML file that needs no network, with figures and words."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from replearn import __version__
from replearn.audits.findings import GIVEN_ROWS, AuditResult, Question
from replearn.audits.sites import Sites, group_name
from replearn.codes.model import Model
from replearn.files.atomic import write_atomically

_BADGES = {"within": "Within", "exceeds": "Exceeds", "undecided": "Undecided about"}
_COLUMNS = {
    "samples": "independent samples",
    "parts": "small parts",
    "halves": "full-size halves",
    "planned": "samples of the planned size",
}


@dataclass(frozen=True)
class Drawing:
    """A figure with its words."""

    place: str
    title: str
    svg: str
    caption: str


def save_report(result: AuditResult, path: str | os.PathLike[str]) -> None:
    """Write the report of an audit for people: one HTML file that needs no network.

    Parameters
    ----------
    result : AuditResult
        From `audit`.
    path : path
        Of the page; it holds its figures, and no script.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> classifier = rl.ReplicableSVMClassifier(margin=0.3, batch_size=50, max_disagreement=0.9)
    >>> result = rl.audit(classifier, X, y, n_pairs=3, max_disagreement=0.9)
    >>> with TemporaryDirectory() as folder:
    ...     rl.save_report(result, Path(folder, "audit.html"))
    ...     print(Path(folder, "audit.html").read_text()[:15])
    <!DOCTYPE html>
    """
    write_atomically(path, audit_report(result).encode())


def audit_report(result: AuditResult) -> str:
    """The page of an audit: HTML, the same bytes for the same result."""
    drawings = _audit_drawings(result)
    return make_page(
        "audit.html",
        drawings,
        result=result,
        badge=f"{_BADGES[result.verdict]} {percent(result.main.max_disagreement)}",
        plain=plain_verdict(result),
        churn=_churn_words(result.main),
        codes=any(drawing.place == "codes" for drawing in drawings),
        names=_COLUMNS,
        table=_table(result),
        two_questions=len(result.questions) > 1,
        methods=methods_paragraph(result),
    )


def model_report(model: Model, provenance: dict[str, Any], command: str) -> str:
    """The page of one model, with the provenance of its file and the command that makes it."""
    from replearn.audits import figures

    drawing = Drawing(
        "weights",
        "Largest weights",
        figures.weight_figure(model),
        f"Blue bars speak for {model.classes[1]!r}, orange bars for {model.classes[0]!r}."
        if model.n_classes == 2
        else "Blue bars raise the number, orange bars lower it."
        if model.is_numeric
        else "How far the weights of a feature are apart, over the classes.",
    )
    rows = provenance.get("rows")
    learned = f" learned from {rows:,} rows" if isinstance(rows, int) else ""
    return make_page(
        "model.html",
        [drawing],
        model=model,
        plain=f"A linear rule for {_either(model)} from "
        f"{model.n_features:,} features{learned}, stored as {model.codes.size:,} whole numbers.",
        chance=_chance_words(provenance.get("estimated_disagreement")),
        facts=_model_facts(model, provenance),
        command=command,
    )


def sites_report(sites: Sites, command: str, signal: str = "") -> str:
    """The page of a comparison of many sites; ``signal`` says whether their rows hold any."""
    from replearn.audits import figures

    measure = (
        "codes that differ" if sites.n_rows is None else f"{sites.n_rows:,} rows with another class"
    )
    drawing = Drawing(
        "sites",
        "Every site against every other one",
        figures.sites_figure(sites),
        f"Blue: the same model. Orange: different models, with the share of {measure}. Grey: "
        "models that cannot be compared code by code.",
    )
    return make_page(
        "sites.html",
        [drawing],
        sites=sites,
        verdict=f"The same model at all {sites.n_sites} sites."
        if sites.same
        else f"{len(sites.groups)} different models at {sites.n_sites} sites.",
        rows=[
            (group_name(place), group, sites.differences(place))
            for place, group in enumerate(sites.groups)
        ],
        signal=signal,
        command=command,
    )


# --- words ------------------------------------------------------------------------------------


def plain_verdict(result: AuditResult) -> str:
    """The verdict for somebody who does not read intervals."""
    main = result.main
    agreement = main.main
    same, pairs = agreement.n_pairs - agreement.n_different, agreement.n_pairs
    if main.name in GIVEN_ROWS:  # nothing is said about others
        pieces = "halves" if main.name == "halves" else "samples"
        head = (
            f"Two {pieces} of {main.n_rows:,} rows were cut from these data in {pairs} random "
            f"ways, which stood for two labs. In {same} of {pairs} both got exactly the same "
            "model. "
        )
        share = f"in at most {percent(agreement.max_disagreement)} of all ways to cut these data"
    else:
        head = (
            f"In {same} of {pairs} trials, two labs with {main.n_rows:,} rows each ended up with "
            "exactly the same model. "
        )
        share = f"in at most {percent(agreement.max_disagreement)} of studies like this"
    verdict = main.verdict(agreement)
    if verdict != agreement.verdict:
        return head + (
            f"That says nothing for or against the study, which plans {main.planned:,} rows per "
            f"site: {main.extrapolation}."
        )
    if verdict == "within":
        return head + f"That is enough to say that they disagree {share}."
    if verdict == "exceeds":
        allowed = percent(agreement.max_disagreement)
        return head + f"They disagree more often than the {allowed} that were allowed."
    return head + (
        f"That is too little evidence to say whether they disagree {share}: more trials are needed."
    )


def methods_paragraph(result: AuditResult) -> str:
    """What to write into a paper."""
    main = result.main
    agreement = main.main
    low, high = agreement.interval
    how = {
        "samples": f"{agreement.n_pairs} pairs of independent samples of {main.n_rows:,} rows each",
        "parts": f"{agreement.n_pairs} pairs of disjoint parts of the data, {main.n_rows:,} rows "
        "each",
        "halves": f"two disjoint halves of the data ({main.n_rows:,} rows each), cut in "
        f"{agreement.n_pairs} random ways",
        "planned": f"two disjoint samples of the planned {main.n_rows:,} rows each, taken from the "
        f"data in {agreement.n_pairs} random ways",
    }[main.name]
    seeds = (
        f"The two fits of a pair shared a {result.seed_parameter}, drawn afresh for each pair; "
        f"the published one is {result.published_seed}. "
        if main.seeds == "fresh"
        else ""
    )
    claim = f"The claim of a disagreement of at most {agreement.max_disagreement:g}"
    if main.other_size is not None:
        claim += f" for {main.planned:,} rows per site"
    verdict = {
        "within": f"{claim} was confirmed (one-sided upper bound {agreement.upper:.3f}).",
        "exceeds": f"{claim} was refuted (one-sided lower bound {agreement.lower:.3f}).",
        "undecided": f"{claim} could be neither confirmed nor refuted.",
    }[main.verdict(agreement)]
    if more := main.extrapolation:
        verdict += f" By extrapolation: {more}."
    given = " given these data" if main.name in GIVEN_ROWS else ""
    return (
        f"Replicability was audited with replearn {__version__}. The method was fitted to {how}. "
        f"{seeds}Two models counted as the same if these were equal: {result.compared}. "
        f"{agreement.n_different} of {agreement.n_pairs} pairs differed: disagreement "
        f"{agreement.disagreement:.3f}, {agreement.confidence:.0%} Clopper-Pearson interval"
        f"{given} {low:.3f} to {high:.3f}. {verdict} On {result.n_test:,} test rows the mean error "
        f"was {main.test_error:.4f}, and {main.churn:.2%} of rows changed their class between the "
        "two fits of a pair, on average."
    )


def _churn_words(question: Question) -> str:
    if question.churn == 0:
        return "No test row got another class from the second lab's model."
    text = (
        f"On average {question.churn:.2%} of the test rows got another class from the second "
        "lab's model"
    )
    different = question.churn_when_different
    if different is None:
        return text + "."
    return text + f"; where the models differed, {different:.2%} did."


def _rows_words(result: AuditResult) -> str:
    text = (
        "More rows, fewer disagreements: about half for four times the rows. Dots are measured, "
        "with their intervals"
    )
    estimate = result.main.estimated_disagreement
    if estimate is None:
        return text + "."
    text += "; the line is what the fits estimate of themselves"
    needed = result.main.n_rows * (estimate / result.main.max_disagreement) ** 2
    if needed >= 1:
        text += f" (it reaches the allowed value at about {float(f'{needed:.1g}'):,.0f} rows)"
    return text + "."


def _chance_words(estimate: Any) -> str:
    if not isinstance(estimate, str):
        return "How likely another lab gets the same model was not estimated."
    chance = "less than 0.001" if estimate == "0" else estimate
    return (
        "Another lab with as many rows from the same population, and the same seed, gets a "
        f"different model with an estimated probability of {chance}."
    )


def percent(share: float) -> str:
    """A share in per cent, in as few digits as it has."""
    return f"{100 * share:g} %"


# --- figures and tables -----------------------------------------------------------------------


def _audit_drawings(result: AuditResult) -> list[Drawing]:
    from replearn.audits import figures

    score = result.extra.get("score_name", "score")
    by_code = max(result.questions, key=lambda question: len(question.of("published")))
    candidates = [
        (
            "agreement",
            "Agreement",
            figures.agreement_figure(result),
            "Dots: share of pairs whose models differed. Bars: "
            f"{percent(result.main.confidence)} Clopper-Pearson intervals. A bar left of the "
            "dashed line shows that the claim holds.",
        ),
        (
            "agreement",
            "Frontier: disagreement against sample size",
            figures.rows_figure(result),
            _rows_words(result),
        ),
        (
            "people",
            "Prediction against prediction of another run",
            figures.prediction_figure(result.main, score),
            "Each dot is one test row, scored by the models of two labs (up to 12 pairs with the "
            "same model and 12 with different ones). On the diagonal both give the same score; the "
            "same model puts all its dots there.",
        ),
        (
            "people",
            "Classification instability",
            figures.instability_figure(result.main, score),
            "Each dot is one test row. High dots are people whose class depends on which lab "
            "made the model, most of them close to the decision boundary (the line at "
            f"{'0.5' if score.endswith('probability') else '0'}).",
        ),
        (
            "codes",
            "Stability of each code",
            figures.code_figure(by_code),
            f"Under the published seed, {by_code.n_rows:,} rows per lab.",
        ),
        (
            "codes",
            "How near to a wall",
            figures.wall_figure(by_code),
            "Codes flip where the average lies close to the wall of its cell.",
        ),
    ]
    return [
        Drawing(place, title, svg, caption)
        for place, title, svg, caption in candidates
        if svg is not None
    ]


def _table(result: AuditResult) -> list[dict[str, Any]]:
    def row(name: str, cell: Any) -> dict[str, Any]:
        return {"name": name, "cells": [cell(question) for question in result.questions]}

    def rate(question: Question, agreement: Any) -> str:
        if agreement is None:
            return "–"
        low, high = agreement.interval
        return (
            f"{agreement.n_different} of {agreement.n_pairs} = {agreement.disagreement:.3f} "
            f"({low:.3f} to {high:.3f}), {question.verdict(agreement)}"
        )

    def planned(question: Question) -> str:
        if question.at_planned is None:
            return "–"
        value, (low, high) = question.at_planned
        return f"{value:.3f} ({low:.3f} to {high:.3f}) at {question.planned:,} rows"

    def number(value: float | None, digits: str = ".4f") -> str:
        return "–" if value is None else f"{value:{digits}}"

    return [
        row("rows at each lab", lambda question: f"{question.n_rows:,}"),
        row("different models, fresh seeds", lambda q: rate(q, q.fresh)),
        row("different models, published seed", lambda q: rate(q, q.published)),
        *(
            [row("extrapolated to the planned size", planned)]
            if any(question.at_planned for question in result.questions)
            else []
        ),
        row("estimated by the fits", lambda q: number(q.estimated_disagreement, ".3f")),
        row("test error", lambda question: number(question.test_error)),
        row("same class (pointwise agreement)", lambda q: number(q.pointwise_agreement)),
        row("changed class (churn)", lambda question: number(question.churn)),
        row("churn where models differ", lambda question: number(question.churn_when_different)),
        row("angle of the normals, degrees", lambda question: number(question.angle, ".3g")),
        row("distance of coefficients", lambda q: number(q.coefficient_distance, ".3g")),
    ]


def _either(model: Model) -> str:
    """The labels that a row may get, in words; of many the first ones."""
    if model.is_numeric:
        return "a number"
    shown = [repr(label) for label in model.classes[:8]]
    if model.n_classes > 8:
        return ", ".join(shown) + f" or one of {model.n_classes - 8} more"
    return ", ".join(shown[:-1]) + " or " + shown[-1]


def label_words(model: Model) -> str:
    """The labels, and what decides for one of them."""
    if model.is_numeric:
        return f"none: a number, {getattr(model.space, 'target_in_words', '')}"
    labels = ", ".join(map(repr, model.classes))
    if model.n_classes == 2:
        return f"{labels} (positive score)"
    return f"{labels} (the {'most probable one' if model.has_probabilities else 'largest score'})"


def _model_facts(model: Model, provenance: dict[str, Any]) -> list[tuple[str, str]]:
    space = model.space
    return [
        ("algorithm", model.recipe),
        ("published seed", model.seed),
        ("labels", label_words(model)),
        ("inputs", f"{space.n_inputs:,}" + (" (with a constant)" if model.fit_intercept else "")),
        *_space_facts(model),
        ("codes", " ".join(str(code) for code in model.codes[:200])),
        *((name, in_prose(value)) for name, value in sorted(provenance.items())),
    ]


def in_prose(value: Any) -> str:
    """A value of a file without the brackets of a program.

    Examples
    --------
    >>> in_prose({"auc": "0.81", "base_rates": ["0.3", "0.7"]}), in_prose(None)
    ('auc 0.81, base_rates 0.3 0.7', 'unknown')
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {in_prose(inner)}" for name, inner in value.items()) or "none"
    if isinstance(value, list):
        return " ".join(map(in_prose, value)) or "none"
    return "unknown" if value is None else str(value)


def _space_facts(model: Model) -> list[tuple[str, str]]:
    if model.is_numeric:  # its matrices would fill the page
        space: Any = model.space
        return [("directions", f"{len(space.directions.rows)} published"), ("cap", space.cap)]
    if model.has_probabilities:
        from replearn.exports.coefficients import in_words

        return in_words(model, n_shown=15)
    content = model.space.content()
    return [("code space", ", ".join(f"{k} {v}" for k, v in content.items() if k != "basis"))]


def make_page(template: str, drawings: list[Drawing], **values: Any) -> str:
    """HTML of a template with figures and values, all escaped."""
    from replearn.audits.figures import require_report_packages

    require_report_packages()
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup, escape

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
    )

    def drawn(drawing: Drawing) -> Markup:
        # the SVG is our own; all words around it are escaped
        return Markup(
            '<figure class="card"><h3>{}</h3><div role="img" aria-label="{}">{}</div>'
            "<figcaption>{}</figcaption></figure>"
        ).format(
            drawing.title,
            f"{drawing.title}. {drawing.caption}",  # for those who have the page read to them
            Markup(drawing.svg),
            escape(drawing.caption),
        )

    page: str = environment.get_template(template).render(
        figures=drawings, drawn=drawn, version=__version__, **values
    )
    return page
