"""The page of a coalition, for people: a forest of its sites."""

from typing import Any

from replearn.audits.report import Drawing, make_page
from replearn.coalitions.combining import Coalition

#: Sites and coded numbers that are drawn; all stand in the JSON of `replearn combine`.
_MOST_SITES, _MOST_NUMBERS = 60, 12


def coalition_report(found: Coalition, command: str) -> str:
    """The page of a coalition: HTML, the same bytes for the same coalition."""
    n_numbers = min(len(found.sites[0].estimate), _MOST_NUMBERS)
    drawings = [
        Drawing(
            "forest",
            "Intercept" if number == 0 else f"Direction {number}",
            forest_figure(found, number),
            "Each site's own number relative to that of all sites, in cells, with a 95 % interval. "
            "Larger squares have more rows; orange ones move a code of the model.",
        )
        for number in range(n_numbers)
    ]
    return make_page("coalition.html", drawings, found=found, command=command)


def forest_figure(found: Coalition, number: int) -> str:
    """The estimates of the sites for one coded number, one below the other."""
    from replearn.audits.figures import BLUE, GREY, ORANGE, draw

    sites = found.sites[:_MOST_SITES]
    most = max(site.n_rows for site in sites)

    def paint(axes: Any) -> None:
        axes.axvline(0, color=GREY, linewidth=1)
        for place, site in enumerate(reversed(sites)):
            middle, reach = site.estimate[number], 1.96 * site.error[number]
            colour = BLUE if site.same else ORANGE
            axes.plot([middle - reach, middle + reach], [place, place], color=colour)
            size = 4 + 6 * (site.n_rows / most) ** 0.5
            axes.plot(middle, place, "s", color=colour, markersize=size)
        names = [f"{site.site[:24]} ({site.n_rows:,})" for site in reversed(sites)]
        axes.set_yticks(range(len(sites)), names)
        axes.set_ylim(-0.7, len(sites) - 0.3)
        # to the left, below the names: long ones leave little room for the axes
        axes.set_xlabel("difference from all sites, in cells", loc="right")

    return draw(paint, height=1.1 + 0.32 * len(sites))
