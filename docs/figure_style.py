"""One style for all figures of the site: quiet axes, marks that differ in grey, two grounds."""

from pathlib import Path
from typing import Any

import matplotlib as mpl
from cycler import cycler

#: Colours that differ in lightness, so that they can be told apart in grey.
BLUE, ORANGE, GREEN, GREY, PALE = "#1f5fa8", "#e8890c", "#6fb98f", "#6b7280", "#cbd2dc"

_COMMON: dict[str, Any] = {
    "svg.hashsalt": "replearn",
    "svg.fonttype": "path",  # the same widths on every machine; the alt text is for readers
    "font.family": "sans-serif",
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": False,
    "lines.linewidth": 2,
    "lines.markersize": 6,
    "legend.frameon": False,
    "figure.figsize": (7.0, 3.6),
    "figure.constrained_layout.use": True,
    "figure.dpi": 100,
    # colour, dash and mark change together: no line is known by its colour alone
    "axes.prop_cycle": cycler(color=[BLUE, ORANGE, GREEN, GREY])
    + cycler(linestyle=["-", "--", "-.", ":"])
    + cycler(marker=["o", "s", "^", "D"]),
}
_INK = {"light": "#1f2430", "dark": "#e6e8ec"}
_QUIET = {"light": "#8a909c", "dark": "#7f8794"}


def use_style(ground: str = "light") -> None:
    """Set matplotlib's style for a figure on a light or a dark page."""
    mpl.rcdefaults()
    mpl.rcParams.update(settings(ground))


def settings(ground: str = "light") -> dict[str, Any]:
    """The style as settings of matplotlib."""
    ink, quiet = _INK[ground], _QUIET[ground]
    return _COMMON | {
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "axes.edgecolor": quiet,
        "xtick.color": quiet,
        "ytick.color": quiet,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
    }


def save_pair(draw: Any, stem: Path) -> None:
    """Save what ``draw(ground)`` makes as two SVG files, for light and for dark pages."""
    for ground in ("light", "dark"):
        with mpl.rc_context(settings(ground)):
            figure = draw(ground)
            path = stem.with_name(f"{stem.name}-{ground}.svg")
            figure.savefig(path, transparent=True, metadata={"Date": None, "Creator": None})
