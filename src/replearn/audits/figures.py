"""Figures of the reports, as SVG text that is the same on every run and needs no network."""

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from replearn.audits.agreement import Agreement
from replearn.audits.findings import AuditResult, Question
from replearn.audits.sites import Sites, group_name
from replearn.codes.model import Model
from replearn.errors import ReplearnError
from replearn.stages.calibration import Bin
from replearn.types import Matrix, Vector

BLUE, ORANGE, GREY = "#1f5fa8", "#c2410c", "#6b7280"
STYLE: Any = {
    "svg.hashsalt": "replearn",
    "text.parse_math": False,  # a dollar sign in a name is a dollar sign
    "svg.fonttype": "none",  # text stays text: it can be read aloud, searched and copied
    "font.family": "sans-serif",
    "font.size": 11,  # points: still readable on a phone, where a figure is 340 pixels wide
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.labelcolor": "#222222",
    "axes.edgecolor": "#888888",
    "xtick.color": "#444444",
    "ytick.color": "#444444",
}


def require_report_packages() -> None:
    """Refuse before the work what could not be drawn after it."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError as problem:
        raise ReplearnError(
            f"a report needs the package {problem.name}. Install it: pip install replearn[report]"
        ) from None


def draw(paint: Callable[[Any], None], width: float = 4.8, height: float = 3.3) -> str:
    """SVG of one pair of axes that ``paint`` fills."""
    require_report_packages()
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        paint(figure.add_subplot())
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # several figures share one page: groups need no names, and these would stand twice
    return re.sub(r'<g id="[^"]*"', "<g", svg)


# --- audits -----------------------------------------------------------------------------------

_NAMES = {"samples": "samples", "parts": "parts", "halves": "halves", "planned": "planned size"}


def agreement_figure(result: AuditResult) -> str:
    """Disagreement with its interval, beside the claim."""
    n_rows = len(_agreements(result))
    return draw(lambda axes: paint_agreement(result, axes), height=1.1 + 0.62 * n_rows)


def paint_agreement(result: AuditResult, axes: Any) -> None:
    """The same on given axes."""
    rows = _agreements(result)
    for place, (_, agreement) in enumerate(rows):
        low, high = agreement.interval
        axes.plot([low, high], [place, place], color=BLUE, linewidth=3, solid_capstyle="butt")
        axes.plot(agreement.disagreement, place, "o", color=BLUE, markersize=8)
    axes.axvline(result.main.max_disagreement, color=ORANGE, linestyle="--")
    axes.text(result.main.max_disagreement, len(rows) - 0.45, " allowed", color=ORANGE, va="bottom")
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set(
        xlim=(-0.02, 1.02),
        ylim=(-0.6, len(rows) - 0.1),
        xlabel="share of pairs with different models",
    )


def _agreements(result: AuditResult) -> list[tuple[str, Agreement]]:
    """What was measured, with words for each."""
    rows: list[tuple[str, Agreement]] = []
    for question in result.questions:
        for words, agreement in (("fresh seeds", question.fresh), ("one seed", question.published)):
            if agreement is not None and agreement.n_pairs > 1:
                name = f"{_NAMES[question.name]}, {question.n_rows:,} rows"
                rows.append((f"{name},\n{words}" if result.seed_parameter else name, agreement))
    return rows


def rows_figure(result: AuditResult) -> str | None:
    """Disagreement against rows per lab: measured points, and the law that joins them."""
    questions = [question for question in result.questions if question.fresh is not None]
    estimate = result.main.estimated_disagreement
    if not questions:
        return None

    def paint(axes: Any) -> None:
        for question in questions:
            agreement = question.main
            low, high = agreement.interval
            axes.plot([question.n_rows] * 2, [low, high], color=BLUE, linewidth=2)
            axes.plot(question.n_rows, agreement.disagreement, "o", color=BLUE, markersize=8)
        sizes = [question.n_rows for question in questions]
        reach = np.geomspace(min(sizes) / 3, max(sizes) * 10, 100)
        if estimate is not None:
            law = estimate * np.sqrt(result.main.n_rows / reach)
            axes.plot(reach, np.minimum(law, 1), color=GREY, label="estimated by the fits")
        axes.axhline(result.main.max_disagreement, color=ORANGE, linestyle="--", label="allowed")
        disagreement_by_rows(axes, reach)
        axes.legend(frameon=False, loc="upper right")

    return draw(paint)


def disagreement_by_rows(axes: Any, sizes: Vector) -> None:
    """Label axes with rows at each lab, on a logarithmic scale, and disagreement."""
    axes.set(
        xscale="log",
        xlim=(sizes[0], sizes[-1]),
        ylim=(-0.02, 1.02),
        xlabel="rows at each lab",
        ylabel="disagreement",
    )
    axes.xaxis.set_major_formatter(lambda rows, _: f"{rows:,.0f}")
    axes.xaxis.set_minor_formatter(lambda rows, _: "")


def prediction_figure(question: Question, score_name: str) -> str:
    """Prediction against the prediction of another run, for the same test rows."""
    pairs = question.of(question.seeds)

    def paint(axes: Any) -> None:
        for same, colour, label in ((False, ORANGE, "another model"), (True, BLUE, "same model")):
            chosen = [pair.scores for pair in pairs if pair.same == same][:12]
            if chosen:
                first = np.concatenate([scores[0] for scores in chosen])
                second = np.concatenate([scores[1] for scores in chosen])
                step = max(1, first.size // 1500)  # more dots only make the file larger
                axes.plot(
                    first[::step], second[::step], ".", color=colour, markersize=3, label=label
                )
        limits = axes.get_xlim()
        axes.plot(limits, limits, color=GREY, linewidth=0.8)
        axes.set(xlim=limits, xlabel=f"{score_name}, first lab", ylabel="the same row, second lab")
        axes.legend(frameon=False, loc="upper left", markerscale=3)

    return draw(paint, height=3.8)


def instability_figure(question: Question, score_name: str) -> str:
    """For each test row, how often two labs classify it differently."""
    cut = 0.5 if score_name.endswith("probability") else 0.0
    pairs = question.of(question.seeds)
    scores = np.array([pair.scores for pair in pairs])  # pairs, labs, rows
    unstable = ((scores[:, 0] > cut) != (scores[:, 1] > cut)).mean(axis=0)

    def paint(axes: Any) -> None:
        axes.plot(scores.mean(axis=(0, 1)), unstable, ".", color=BLUE, markersize=5)
        axes.axvline(cut, color=GREY, linewidth=0.8)
        axes.set(
            ylim=(-0.02, max(0.1, float(unstable.max()) * 1.1)),
            xlabel=f"mean {score_name} of the row",
            ylabel="share of pairs that\nclassify it differently",
        )

    return draw(paint, height=3.8)


def code_figure(question: Question) -> str | None:
    """How often each code differs under the published seed."""
    shares = question.flip_shares()
    if not shares or len(question.of("published")) < 2:
        return None

    def paint(axes: Any) -> None:
        axes.bar(range(len(shares)), shares, width=0.9, color=BLUE)
        axes.set(
            ylim=(0, max(0.1, 1.1 * max(shares))),
            xlabel="code",
            ylabel="share of pairs in\nwhich it differs",
        )
        axes.xaxis.get_major_locator().set_params(integer=True)

    return draw(paint)


def wall_figure(question: Question) -> str | None:
    """How near to a wall of their cell fits were that flipped, and fits that did not."""
    flipped, kept = question.wall_distances(True), question.wall_distances(False)
    if not kept:
        return None

    def paint(axes: Any) -> None:
        bins = np.linspace(0, max(*kept, *flipped, 1e-3), 25)
        axes.hist(kept, bins, color=BLUE, alpha=0.7, label="stayed")
        if flipped:
            axes.hist(flipped, bins, color=ORANGE, alpha=0.9, label="flipped")
        axes.set(xlabel="distance to the nearest wall, in grid widths", ylabel="cells")
        axes.legend(frameon=False)

    return draw(paint)


# --- sites ------------------------------------------------------------------------------------

_MOST_NAMED = 40  # sites whose names stand at the axis
_MOST_NUMBERS = 8  # groups whose shares are written into the blocks


def sites_figure(sites: Sites) -> str:
    """Every site against every other one: same model, or how different.

    Sites with the same model stand side by side, so that each two groups make one block.
    """
    sizes = [len(group.sites) for group in sites.groups]
    edges = np.concatenate([[0], np.cumsum(sizes)])
    n_groups = len(sizes)
    places = range(n_groups)
    shares = np.array([[sites.share_different(i, j) for j in places] for i in places], dtype=float)
    different = ~np.eye(n_groups, dtype=bool)
    largest = float(np.nanmax(shares, initial=0.0)) or 1.0

    def paint(axes: Any) -> None:
        from matplotlib.colors import LinearSegmentedColormap, ListedColormap

        blue = ListedColormap([BLUE])
        orange = LinearSegmentedColormap.from_list("shares", ["#fdf0e6", "#f19a5e"])
        axes.pcolormesh(edges, edges, np.ma.masked_where(different, shares), cmap=blue)
        shown = np.ma.masked_where(~different | np.isnan(shares), shares)
        axes.pcolormesh(edges, edges, shown, cmap=orange, vmin=0, vmax=largest)
        for place in edges[1:-1]:
            axes.axhline(place, color="white", linewidth=1.5)
            axes.axvline(place, color="white", linewidth=1.5)
        if n_groups <= _MOST_NUMBERS:
            _write_shares(axes, edges, shares)
        axes.set_yticks(*_site_ticks(sites, edges))
        axes.set_xticks((edges[:-1] + edges[1:]) / 2, map(group_name, range(n_groups)))
        axes.set(xlim=(0, edges[-1]), ylim=(edges[-1], 0), aspect="equal", facecolor="#d8dde4")
        axes.tick_params(length=0)

    side = 0.5 + min(6.0, max(2.4, 0.22 * sites.n_sites))
    longest = max(map(len, _site_ticks(sites, edges)[1]))
    return draw(paint, width=side + 0.2 + 0.09 * longest, height=side)


def _write_shares(axes: Any, edges: Any, shares: Any) -> None:
    middles = (edges[:-1] + edges[1:]) / 2
    for i, y in enumerate(middles):
        for j, x in enumerate(middles):
            text = "same" if i == j else ("other" if np.isnan(shares[i, j]) else "")
            text = text or f"{float(f'{100 * shares[i, j]:.2g}'):g} %"
            colour = "white" if i == j else "#222222"
            axes.text(x, y, text, ha="center", va="center", color=colour, fontsize=9)


def _site_ticks(sites: Sites, edges: Any) -> tuple[Any, list[str]]:
    """A name for each site, or for each group if these are too many."""
    if sites.n_sites <= _MOST_NAMED:
        names = [
            f"{group_name(place)}  {site[-24:]}"
            for place, group in enumerate(sites.groups)
            for site in group.sites
        ]
        return np.arange(sites.n_sites) + 0.5, names
    names = [
        f"{group_name(place)}  {len(group.sites)} sites" for place, group in enumerate(sites.groups)
    ]
    return (edges[:-1] + edges[1:]) / 2, names


# --- evaluations ------------------------------------------------------------------------------


def roc_figure(points: Matrix) -> str:
    """The ROC curve, and the line of guessing."""

    def paint(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
        axes.text(0.62, 0.55, "guessing", color=GREY)
        axes.plot(points[:, 0], points[:, 1], color=BLUE, linewidth=2)
        axes.set(
            xlim=(-0.02, 1.02),
            ylim=(-0.02, 1.02),
            xlabel="share of the other rows that is flagged",
            ylabel="share of positive rows\nthat is found",
        )
        axes.set_aspect("equal")

    return draw(paint, width=4.2, height=3.9)


def calibration_figure(bins: Sequence[Bin]) -> str:
    """What was predicted, what observed, and how many rows that is."""

    def paint(axes: Any) -> None:
        top = max(0.02, *(max(b.predicted, b.observed.high) for b in bins)) * 1.05
        axes.plot([0, top], [0, top], color=GREY, linestyle="--", linewidth=1)
        for b in bins:
            axes.plot(
                [b.predicted, b.predicted],
                [b.observed.low, b.observed.high],
                color=BLUE,
                linewidth=1.5,
            )
        axes.plot([b.predicted for b in bins], [b.observed.value for b in bins], "o", color=BLUE)
        axes.set(
            xlim=(-0.02 * top, top),
            ylim=(-0.02 * top, top),
            xlabel="probability that the model gives",
            ylabel="share that observed true",
        )
        axes.set_aspect("equal")

    return draw(paint, width=4.2, height=3.9)


# --- models -----------------------------------------------------------------------------------


def weight_figure(model: Model, n_shown: int = 15) -> str:
    """The largest weights of a model."""
    n_bars = min(n_shown, model.n_features)
    return draw(lambda axes: paint_weights(model, axes, n_shown), height=0.9 + 0.28 * n_bars)


def paint_weights(model: Model, axes: Any, n_shown: int = 15) -> None:
    """The same on given axes."""
    largest = model.largest_weights(n_shown)[::-1]
    values = [weight for _, weight in largest]
    colours = [BLUE if value > 0 else ORANGE for value in values]
    axes.barh(range(len(largest)), values, color=colours)
    axes.set_yticks(range(len(largest)), [name[:30] for name, _ in largest])
    axes.axvline(0, color=GREY, linewidth=0.8)
    words = "spread of the weights over the classes"
    if model.n_classes == 2:
        words = f"weight (positive: {str(model.classes[1])[:30]!r})"
    elif model.is_numeric:
        words = "weight of an encoded column, in units of the number"
    axes.set(xlabel=words)
