"""Pictures as plain SVG: they need no package, and follow light and dark."""

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, NamedTuple

from replearn.words.values import percent

if TYPE_CHECKING:  # help needs no NumPy
    from replearn.types import Vector

#: The palette of Okabe and Ito, which colour-blind readers tell apart; shapes say the same.
_MARKS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

#: A page of 400 pixels shows 392 of a picture, so that text of 14 units has more than 9 pixels.
WIDTH = 600

#: Numbers of a forest plot, at most.
MOST_DRAWN = 40


class Rung(NamedTuple):
    """A step of the ladder: a model, its performance (0 to 1), and who gets it."""

    name: str
    performance: float
    value: str
    agree: str
    ours: bool = False


#: A name, its number in words, where it stands, and the ends of its interval.
Mark = tuple[str, str, float, float, float]


class Landed(NamedTuple):
    """A lab's numbers in cells from the centre, inside is -0.5 to 0.5; and half their intervals."""

    positions: "Vector"
    reach: "Vector"


def where_we_landed(
    names: Sequence[str], labs: Mapping[str, Landed], most: int = 30, reach: float = 1.5
) -> str:
    """Draw a box for each cell and a mark for each lab: marks inside agree with the original.

    Shown are the ``most`` coded numbers that are furthest from the centre.
    """
    furthest = [
        max(abs(float(lab.positions[i])) for lab in labs.values()) for i in range(len(names))
    ]
    shown = sorted(sorted(range(len(names)), key=lambda i: -furthest[i])[:most])
    ends = [abs(lab.positions[i]) + lab.reach[i] for lab in labs.values() for i in shown]
    span = min(reach, max(0.75, *map(float, ends)) + 0.05)  # with intervals

    # lines of cells, and a legend of four labs in each line below
    row, left, width = 20 + 4 * len(labs), 236, WIDTH
    legend = 20 * -(-len(labs) // 4)
    height = row * len(shown) + 54 + legend
    edge = 10  # half a mark: none is cut off
    middle, cell = left + (width - left) / 2, (width - left - 2 * edge) / (2 * span)

    def across(position: float) -> float:
        return middle + cell * max(-span, min(span, position))

    parts = []
    for line, i in enumerate(shown):
        y = 26 + line * row
        parts.append(
            f"{_name_at(left - 12, y + 4, names[i])}"
            f'<rect x="{middle - cell / 2:.1f}" y="{y + 2 - row / 2}" width="{cell:.1f}" '
            f'height="{row - 4}" rx="2" fill="currentColor" fill-opacity="0.08" '
            'stroke="currentColor" stroke-opacity="0.35"/>'
        )
        for number, lab in enumerate(labs.values()):
            at, half = float(lab.positions[i]), float(lab.reach[i])
            level = y + 5 * (number - (len(labs) - 1) / 2)  # labs below each other, in the middle
            parts.append(
                f'<line x1="{across(at - half):.1f}" x2="{across(at + half):.1f}" y1="{level}" '
                f'y2="{level}" stroke="{_MARKS[number % len(_MARKS)]}" stroke-opacity="0.55"/>'
                f"{dot(across(at), level, number)}"
            )
            if abs(at) > span:  # the mark stands at the edge, and its number says how far it is
                side = 10 if at > 0 else -10
                anchor = "start" if at < 0 else "end"
                parts.append(
                    f'<text x="{across(at) - side:.1f}" y="{level + 4}" '
                    f'text-anchor="{anchor}">{at:+.1f} cells</text>'
                )

    axis = 26 + row * len(shown)
    parts.append(
        f'<text x="{middle:.1f}" y="{axis}" text-anchor="middle">'
        "distance from the cell's centre; a box is one cell</text>"
    )
    for number, name in enumerate(labs):
        x, y = 12 + 147 * (number % 4), height - legend + 4 + 20 * (number // 4)
        parts.append(f'{dot(x, y - 4, number)}<text x="{x + 9}" y="{y}">{_short(name, 16)}</text>')

    # in words, for those who do not see it
    outside = sum(far > 0.5 for far in furthest)
    said = {0: "all marks are inside", 1: "1 has a mark outside"}
    what = said.get(outside, f"{outside} have a mark outside")
    return svg(width, height, parts, f"Estimates in rounding cells: {len(names)} numbers, {what}.")


def ladder(rungs: Sequence[Rung], unit: str) -> str:
    """Draw the performance of models, from nothing up, and how often labs get each."""
    left, right, width, row = 224, 420, WIDTH, 40
    parts = [f'<text x="{left}" y="18" fill-opacity="0.8">{escape(unit)}</text>']
    if any(rung.agree for rung in rungs):
        parts.append(f'<text x="{right + 60}" y="18" fill-opacity="0.8">same model at</text>')

    most = max(rung.performance for rung in rungs) or 1.0
    said = []
    for number, rung in enumerate(rungs):
        y = 32 + number * row
        length = max(2.0, (right - left - 10) * rung.performance / most)
        weight, color = "400", 'fill="currentColor" fill-opacity="0.3"'
        if rung.ours:  # the one that a reader looks for
            weight, color = "600", f'fill="{_MARKS[0]}"'
        parts.append(
            f'<text x="{left - 12}" y="{y + 18}" text-anchor="end" font-weight="{weight}">'
            f"{escape(rung.name)}</text>"
            f'<rect x="{left}" y="{y + 2}" width="{length:.1f}" height="24" rx="3" {color}/>'
            f'<text x="{left + length + 6:.1f}" y="{y + 18}">{escape(rung.value)}</text>'
            f'<text x="{right + 60}" y="{y + 18}" font-weight="{weight}">'
            f"{escape(rung.agree)}</text>"
        )

        said.append(f"{rung.name} {rung.value}")
        if rung.agree:
            said[-1] += f", same at {rung.agree}"
    return svg(width, 40 + row * len(rungs), parts, f"{unit}: {'; '.join(said)}.")


def by_rows(n_planned: int, disagreement: Callable[[int], float]) -> str:
    """Draw how often labs get the same model, with fewer rows than planned and with more."""
    rungs = []
    for share in (0.25, 0.5, 1.0, 2.0):
        n_rows = max(1, round(share * n_planned))
        rate = 1 - disagreement(n_rows)
        name = f"{n_rows:,} rows"
        if n_rows >= 10**9:  # nobody reads so many digits
            name = f"{n_rows:.1e} rows"
        rungs.append(Rung(name, rate, percent(rate), "", share == 1))
    return ladder(rungs, "agreement rate")


#: How far apart the middles of two ticks are at least.
_TICK = 34


def forest(
    marks: Sequence[Mark],
    line: float,
    words: str,
    boxes: "Sequence[float] | None" = None,
    ticks: "Sequence[tuple[float, str]] | None" = None,
) -> str:
    """Draw the numbers furthest from a line, which stands where a reader expects them.

    ``boxes`` are half the lengths of cells around the numbers. Intervals that are much longer than
    most of the others end in an arrow. The axis has ``ticks``, or round numbers.
    """
    furthest = sorted(range(len(marks)), key=lambda i: -abs(marks[i][2] - line))[:MOST_DRAWN]
    places = sorted(furthest)
    shown = [marks[i] for i in places]
    first, last = _span(shown, line)
    if ticks is None:
        ticks = [(value, f"{value:g}") for value in round_numbers(first, last)]
    # long words, such as intervals, take room from the lines
    longest = max((len(text) for _, text, *_ in shown), default=0)
    left, right, width, row = 236, min(490, WIDTH - 20 - 8 * longest), WIDTH, 22
    height = row * len(shown) + 50
    foot = row * len(shown) + 10

    def across(value: float) -> float:
        inside = min(max(value, first), last)
        return left + 8 + (right - left - 16) * (inside - first) / (last - first or 1)

    parts = [
        f'<line x1="{across(line):.1f}" x2="{across(line):.1f}" y1="4" y2="{foot}" '
        'stroke="currentColor" stroke-opacity="0.5" stroke-dasharray="4 3"/>'
        f'<text x="{across(line):.1f}" y="{height - 6}" text-anchor="middle">{escape(words)}</text>'
    ]
    shown_ticks = [(across(value), text) for value, text in ticks if first <= value <= last]
    for x, text in _apart(shown_ticks, across(line)):
        parts.append(
            f'<text x="{x:.1f}" y="{foot + 14}" text-anchor="middle" '
            f'fill-opacity="0.8">{escape(text)}</text>'
        )

    # a line for each number, from the top
    for number, (i, (name, text, at, low, high)) in enumerate(zip(places, shown, strict=True)):
        y = 16 + number * row
        parts.append(_name_at(left - 14, y + 4, name))
        if boxes is not None:
            ends = across(at - boxes[i]), across(at + boxes[i])
            parts.append(
                f'<rect x="{ends[0]:.1f}" y="{y - 8}" width="{ends[1] - ends[0]:.1f}" height="16" '
                'rx="2" fill="currentColor" fill-opacity="0.08" stroke="currentColor" '
                'stroke-opacity="0.35"/>'
            )
        parts.append(
            f'<line x1="{across(low):.1f}" x2="{across(high):.1f}" y1="{y}" y2="{y}" '
            f'stroke="{_MARKS[0]}" stroke-width="2" stroke-opacity="0.55"/>'
        )
        if low < first:
            parts.append(_arrow(across(first), y, -5))
        if high > last:
            parts.append(_arrow(across(last), y, 5))
        parts.append(
            f'{dot(across(at), y, 0, 5)}<text x="{right + 16}" y="{y + 4}">{escape(text)}</text>'
        )
    said = "; ".join(f"{name} {text}" for name, text, *_ in shown)
    return svg(width, height, parts, f"{said}; line: {words}.")


def _span(marks: Sequence[Mark], line: float) -> tuple[float, float]:
    """All numbers, and what most of their intervals take: one long line leaves no room for others.

    An interval may be three times as long as the fourth longest of five. Fewer are drawn in full.
    """
    lengths = sorted(high - low for *_, low, high in marks)
    most = 1.5 * lengths[4 * (len(lengths) - 1) // 5] if len(lengths) >= 5 else math.inf
    first, last = line, line
    for *_, at, low, high in marks:
        first = min(first, at, max(low, at - most))
        last = max(last, at, min(high, at + most))
    return first, last


def round_numbers(low: float, high: float) -> list[float]:
    """Three to six round numbers between two ends."""
    if not low < high:
        return []
    power = 10.0 ** math.floor(math.log10(high - low))
    step = power * min(one for one in (0.2, 0.5, 1, 2) if (high - low) / (one * power) <= 5.01)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 9) for i in range(first, last + 1)]


def _apart(ticks: Sequence[tuple[float, str]], line: float) -> list[tuple[float, str]]:
    """Ticks that do not overlap, those next to the line first."""
    kept = list[tuple[float, str]]()
    for x, text in sorted(ticks, key=lambda tick: abs(tick[0] - line)):
        if all(abs(x - other) >= _TICK for other, _ in kept):
            kept.append((x, text))
    return sorted(kept)


def _arrow(x: float, y: float, length: int) -> str:
    """The end of an interval that goes on."""
    outline = f"M{x + length:.1f} {y}l{-length} -4v8z"
    return f'<path d="{outline}" fill="{_MARKS[0]}" fill-opacity="0.55"/>'


def svg(width: int, height: int, parts: Sequence[str], label: str) -> str:
    """A picture of these parts, which a screen reader calls by its label."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{escape(label)}" style="max-width:100%;height:auto" '
        'font-family="system-ui,sans-serif" font-size="14" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def dot(x: float, y: float, number: int, radius: int = 4) -> str:
    """A mark in the color and the shape of a lab: circle, square, diamond or triangle."""
    color, shape = _MARKS[number % len(_MARKS)], number % 4
    if shape == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{color}"/>'

    side = {1: 1.8, 2: 2.4, 3: 2.4}[shape] * radius  # areas look equal
    outlines = {
        1: f"m{-side / 2:.1f} {-side / 2:.1f}h{side:.1f}v{side:.1f}h{-side:.1f}z",
        2: f"m0 {-side / 2:.1f}l{side / 2:.1f} {side / 2:.1f}l{-side / 2:.1f} {side / 2:.1f}"
        f"l{-side / 2:.1f} {-side / 2:.1f}z",
        3: f"m0 {-side / 2:.1f}l{side / 2:.1f} {side:.1f}h{-side:.1f}z",
    }
    return f'<path class="mark" d="M{x:.1f} {y:.1f}{outlines[shape]}" fill="{color}"/>'


def _name_at(x: float, y: float, name: str) -> str:
    """The name of a line, which ends there."""
    return f'<text x="{x}" y="{y}" text-anchor="end">{_short(name, 29)}</text>'


def _short(name: str, most: int) -> str:
    if len(name) > most:
        name = name[: most - 1] + "…"
    return escape(name)
