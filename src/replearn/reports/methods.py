"""The methods paragraph of a paper, from what a study says, and its columns as a table."""

from collections.abc import Sequence
from dataclasses import replace

from replearn.glm import GlmDesign, GlmModel, Hazard
from replearn.reports.evaluate import Evaluation
from replearn.study import GlmStudy
from replearn.tables import MISSING, OTHER, LevelColumn, NumberColumn, NumberProfile
from replearn.words import Facts, Table, counted, percent

#: Levels of a column that are listed; all stand among the coefficients.
_MOST_LEVELS = 12


def methods(study: GlmStudy) -> str:
    """How the model is made, in words that a paper can print."""
    design = study.design
    sentences = _terms(design)

    # what is missing, classes and constants
    sentences.append(f"{missing_rule(study)}.")
    if len(design.classes or ()) > 2:
        sentences.append("Classes were taken as unordered.")
    if design.constant == "local":
        sentences.append(
            "Centres agreed on the slopes; each fitted its own constant to its own rows, given "
            "these slopes."
        )

    # who published what, and what was planned
    if study.commitment is not None:
        whose = "The original centre"
        if study.n_centres > 1:
            whose = f"The original, of {study.n_centres} centres or more,"
        sentences.append(
            f"{whose} ({study.sized(study.n_original)}, as it states) published the "
            f"study file {study.fingerprint[:16]} with {counted(design.bits, 'bit')} per "
            "coefficient, and not the model."
        )
    else:
        sentences.append(
            f"The study file {study.fingerprint[:16]} was registered before any centre fitted it; "
            "nobody is first."
        )
    sentences.append(f"Centres: {between_centres(study)}.")
    sentences.append(
        f"A lab with at least {study.sized(study.n_replication)} was planned to obtain the "
        f"identical model with probability {percent(1 - float(study.max_disagreement))}, for "
        f"{study.condition}. Fits used exact integer arithmetic "
        "(replearn), so that identical means bit for bit; models were compared by SHA-256 "
        "fingerprints."
    )
    return " ".join(sentences)


def _terms(design: GlmDesign) -> list[str]:
    """The model, and how columns become terms."""
    columns = design.encoding.own_columns
    numbers = [column for column in columns if isinstance(column, NumberColumn)]
    n_levels = len(columns) - len(numbers)
    curved = any(column.knots for column in numbers)
    what = f"a {design.loss.title} for {design.target}"
    coefficients = counted(design.n_numbers, "coefficient")
    if isinstance(design.loss, Hazard):  # a constant for each interval, which is no effect
        n_intervals = len(design.loss.cuts) + 1
        n_effects = design.n_numbers - n_intervals
        coefficients = (
            f"{counted(n_effects, 'log-hazard ratio')}, a baseline hazard that is constant in each "
            f"of {counted(n_intervals, 'interval')} of time,"
        )
    form = "linear"
    if curved:
        form = "piecewise linear (hats at published quantiles)"

    sentences = [
        f"We fitted {what} with {coefficients} and a ridge penalty "
        f"(weight {design.ridge} beside the mean loss).",
        f"{counted(len(numbers), 'numeric predictor')} entered as {form} terms after centring and "
        f"scaling by published constants; values beyond the published range were set to its ends.",
    ]
    if n_levels:
        sentences.append(
            f"{counted(n_levels, 'categorical predictor')} entered as indicators against a "
            f"published reference level{_rare_levels(columns)}."
        )
    if products := design.encoding.products:
        times = 4**design.encoding.products_halved
        shrunk = ""
        if times > 1:
            shrunk = f", which the penalty shrinks {times} times as much"
        sentences.append(f"{counted(len(products), 'product')} of terms entered as well{shrunk}.")
    return sentences


def _rare_levels(columns: Sequence[NumberColumn | LevelColumn]) -> str:
    """What was done with levels of few rows, as the end of a sentence."""
    rare = [c for c in columns if isinstance(c, LevelColumn) and float(c.folded) > 0]
    done = []
    if any(OTHER in column.levels for column in rare):
        done.append("were taken together")
    if any(OTHER not in column.levels for column in rare):
        done.append("counted as the reference where they were too few even together")
    if not done:
        return ""
    return f"; rare levels {', or '.join(done)}"


def missing_rule(study: GlmStudy) -> str:
    """What is done with a missing cell: the rule that the encoding applies."""
    encoding = study.design.encoding
    if encoding.missing == "refuse":
        return "Rows with missing values were refused"
    own = [c.name for c in encoding.columns if any(kind == "missing" for kind, _ in c.terms)]
    # of levels a gap is one more level
    own += [c.name for c in encoding.columns if MISSING in getattr(c, "levels", ())]
    others = "a missing number counts as the published median, a missing level as the reference"
    if not own:
        return f"The original had no missing values, or too few for coefficients; {others}"
    kept = f"Missing values had coefficients of their own in {counted(len(own), 'predictor')}"
    if len(own) == len(study.design.encoding.own_columns):
        return kept
    return f"{kept}; elsewhere {others}"


def between_centres(study: GlmStudy) -> str:
    """What is assumed of centres, as TRIPOD+AI asks under 12d."""
    if study.n_centres == 0:
        return "none are assumed to differ"
    if study.n_centres == 1:
        return "rounding cells allow for differences as they are typical of centres, not estimated"
    estimated = f"differences between {study.n_centres} centres were estimated"
    return f"{estimated}; cells allow for them, and for some centres that differ by far more"


def with_methods(
    facts: Facts,
    study: GlmStudy,
    model: GlmModel | None = None,
    performance: tuple[str, Evaluation] | None = None,
) -> Facts:
    """Facts for a paper's supplement: predictors, coefficients and the methods paragraph.

    ``performance`` says in words on which rows, and what was found there.
    """
    own = Facts("") if model is None else model.facts()
    details, figures = [*facts.details], [*facts.figures]
    if performance is not None and performance[1].bins:
        details += [f"Performance {performance[0]}", *performance[1].calibration()]
        figures += performance[1].figures()
    # an original states its own estimates itself
    others = [item for item in own.details if item not in details]
    details += [columns_table(study), *others, f"Methods. {methods(study)}"]
    items = tripod_items(study, model, performance is not None)
    return replace(facts, details=[*details, items], figures=[*figures, *own.figures])


def tripod_items(study: GlmStudy, model: GlmModel | None = None, measured: bool = False) -> Table:
    """What the checklist TRIPOD+AI asks and the study answers; the rest is for the authors."""
    design = study.design
    output = {"logistic": "probabilities", "survival": "hazard, and risk at a horizon"}
    updating = {"local": "each centre's own constant"}

    # what was not opened or measured is asked for
    specification, performance = "not opened", "replearn evaluate MODEL TABLE --page FILE"
    if model:
        specification = "all coefficients, above"
    if measured:
        performance = "above"
    imbalance = "no weights"
    if design.class_weight:
        imbalance = "weights of classes"

    # numbers are those of the checklist
    sizes = f"original: {study.sized(study.n_original)}; others: {study.sized(study.n_replication)}"
    rows = [
        ("7", "data preparation", "constants under Predictors; values beyond the range: its ends"),
        ("8a", "outcome", f"{design.target}, {design.loss.title}"),
        ("9b", "predictors", f"{len(design.encoding.own_columns)}, under Predictors"),
        ("10", "sample size", sizes),
        ("11", "missing data", missing_rule(study)),
        ("12b, c", "analysis", f"ridge {design.ridge}, exact arithmetic; see Methods"),
        ("12d", "heterogeneity", between_centres(study)),
        ("12f, 24", "updating", updating.get(design.constant or "", "none in this study")),
        ("13", "class imbalance", imbalance),
        ("15", "output", output.get(design.recipe, "expected values")),
        ("18c, f", "protocol, code", f"study {study.fingerprint[:16]}; replearn, open source"),
        ("22", "specification", specification),
        ("23a", "performance", performance),
        ("23b", "heterogeneity", "a page of each centre; replearn evaluate MODEL TABLE --by"),
        ("others", "", "for the authors: setting, participants, fairness, ethics, use"),
    ]
    return Table("TRIPOD+AI", ("item", "about", "answer"), rows, key="tripod")


def columns_table(study: GlmStudy) -> Table:
    """Predictors with the constants that a study publishes."""
    rows: list[tuple[str, str, str]] = []
    # intervals of time, the last column, are no predictor
    own = study.design.encoding.own_columns
    for column, seen in zip(own, study.profile.columns, strict=False):
        if isinstance(seen, NumberProfile) and isinstance(column, NumberColumn):
            quantiles = ", ".join(seen.quantiles) or "not published"
            low, high = column.nodes[[0, -1]].tolist()
            ends = f"counts from {low:.12g} to {high:.12g}"
            rows.append((column.name, "number", f"quantiles {quantiles}; {ends}"))
        elif isinstance(column, LevelColumn):
            rows.append((column.name, "levels", _levels_in_words(column)))
    return Table("Predictors", ("column", "kind", "published"), rows, key="predictors")


def _levels_in_words(column: LevelColumn) -> str:
    """Levels with a coefficient, and what is done with the others."""
    levels = ", ".join((f"{column.reference} (reference)", *column.levels[:_MOST_LEVELS]))
    if more := len(column.levels[_MOST_LEVELS:]):
        levels += f" and {more} more"
    if float(column.folded) == 0:
        return levels
    as_what = OTHER if OTHER in column.levels else column.reference
    return f"{levels}; rarer ones count as {as_what}"
