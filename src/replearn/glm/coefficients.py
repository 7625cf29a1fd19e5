"""Coefficients as a statistician prints them: one scale, one constant, in every output.

Per unit of a number, of a level against its reference, uncentred: what a reader multiplies and adds
is the prediction. Beside them stands what a lab's own rows say: estimates without the ridge, with
standard errors and 95% intervals.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from replearn.glm.design import GlmDesign
from replearn.glm.sandwich import Estimates, is_interval
from replearn.tables import NumberColumn
from replearn.types import Mask, Matrix
from replearn.words import (
    AS_PUBLISHED,
    MOST_DRAWN,
    Facts,
    Figure,
    Mark,
    Row,
    Spoken,
    Table,
    counted,
    forest,
    ratio_in_words,
)

#: Significant digits of a coefficient that is multiplied and added.
DIGITS = 5
#: Ratios on the axis of a forest plot.
_TICKS = (0.001, 0.01, 0.03, 0.1, 0.25, 0.5, 1, 2, 4, 10, 30, 100, 1000)
#: Coefficients that are printed without being asked for; of more, the clearest.
_MOST_PRINTED, _N_CLEAREST = 60, 9
#: Effects that commands show before details are asked for.
MOST_EFFECTS = 10
#: What a number beyond its range, or a missing one, counts as.
_COUNTS_AS = ("lowest", "highest", "if missing")
#: The exponential of more is no ratio that anybody reads.
_MOST = 700.0


@dataclass(frozen=True, eq=False)
class Coefficients(Spoken):
    """The coefficients of a model.

    Attributes
    ----------
    design : GlmDesign
        Names and meaning of the terms.
    model : array of shape (n_scores, 1 + n_terms), or None
        Coefficients of the model, the constant first; None after a mismatch, when there is none.
    own : Estimates or None
        What a lab's own rows say, without the ridge.
    half_cells : array like ``model``, or None
        How far each may be from the model's inside its cell.

    See Also
    --------
    ReplicableLogisticClassifier : its ``coefficients_`` is one.
    to_csv : writes them to a file.

    Notes
    -----
    Own estimates take Newton's steps on from the fit until hardly a ridge is left. Their
    variance is the sandwich of this lab's rows, or of its groups. All are per unit of the
    column: who multiplies and adds gets the prediction.

    Examples
    --------
    >>> import numpy as np
    >>> import replearn as rl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = X[:, 0] + rng.logistic(size=4000) > 0
    >>> found = rl.ReplicableLogisticClassifier().fit(X, y).coefficients_
    >>> [name for name in found.columns]
    ['term', 'model', 'estimate', 'standard_error', 'odds_ratio', 'low', 'high']
    >>> found.columns["term"]
    ['(constant)', 'x0', 'x1']
    """

    design: GlmDesign
    model: Matrix | None
    own: Estimates | None = None
    half_cells: Matrix | None = None

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the coefficients of one score, the constant first."""
        return ("(constant)", *self.design.encoding.term_names)

    @property
    def _curved(self) -> list[str]:
        """Terms of columns with knots: none of them is an effect by itself."""
        names = list[str]()
        for column in self.design.encoding.columns:
            if isinstance(column, NumberColumn) and column.knots:
                names += [name for kind, name in column.terms if kind in ("z", "hat")]
        return names

    @property
    def _is_ratio(self) -> Mask:
        """Whether the exponential of a term is a ratio that a reader may state."""
        none = {self.terms[0], *self._curved}
        return np.array([name not in none for name in self.terms])

    def facts(self) -> Facts:
        """The table and its picture."""
        own, figures = self.own_tables(), self.figures()
        clearest = self.strongest(_N_CLEAREST) if self._is_long else []
        if self.model is None:
            verdict = "No model: these are this lab's own estimates."
            return Facts(verdict, clearest, own, figures)
        return Facts("Coefficients of the model.", clearest, [*own, *self.tables()], figures)

    def __str__(self) -> str:
        """The tables, as a table is printed elsewhere; a long one by its clearest terms."""
        return self.facts().text(details=not self._is_long)

    @property
    def _is_long(self) -> bool:
        return len(self.terms) * self.design.loss.n_scores > _MOST_PRINTED

    @property
    def columns(self) -> dict[str, list[Any]]:
        """All numbers by column, a row for each coefficient: what a dataframe is made of.

        The model's coefficients, which predict; and this lab's estimates without the ridge, with
        standard errors, ratios (of the exponential) and the ends of 95% intervals of the ratios.
        """
        labels, ratio = self.design.score_labels, self.design.loss.ratio
        columns: dict[str, list[Any]] = {}
        if len(labels) > 1:
            columns["class"] = [label for label in labels for _ in self.terms]
        columns["term"] = [*self.terms] * len(labels)

        # what predicts, and what this lab's own rows say
        nothing = np.full((len(labels), len(self.terms)), np.nan)
        model, numbers = self.model, (nothing,) * 4
        if self.own is not None:
            numbers = self.own.estimate, self.own.standard_error, *self.own.interval
        estimate, error, low, high = numbers
        columns["model"] = _listed(nothing if model is None else model)
        columns["estimate"] = _listed(estimate)
        columns["standard_error"] = _listed(error)

        # ratios, which constants and parts of curves are not
        if ratio:
            estimate, low, high = (
                np.exp(np.minimum(ends, _MOST)) for ends in (estimate, low, high)
            )
            for part in (estimate, low, high):
                part[:, ~self._is_ratio] = np.nan
            columns[ratio.replace(" ", "_")] = _listed(estimate)
        columns["low"], columns["high"] = _listed(low), _listed(high)
        return columns

    def own_tables(self) -> list[Table | str]:
        """What this lab's own rows say: a table, and what the ridge does to a model."""
        if self.own is None:
            return []

        # the columns of `columns`, under the names of statisticians
        columns = self.columns
        names = {"standard_error": "SE", "low": "2.5%", "high": "97.5%"}
        shown = [name for name in columns if name != "model"]
        header = [names.get(name, name.replace("_", " ")) for name in shown]
        rows = list(zip(*(columns[name] for name in shown), strict=True))
        counted_as = "persons" if self.own.is_cox else self.design.loss.counted
        n_rows = f"{self.own.n_rows:,} {counted_as}"
        title = f"This lab's own estimates ({n_rows}), without the ridge"
        of_ratios = 4 if not self.design.loss.ratio else -4
        known = {"term": 0, "class": 0, "estimate": 4, "standard_error": 3}
        digits = [known.get(name, of_ratios) for name in shown]

        # how they were made, and what to know of them
        said = "Intervals are 95%, from robust standard errors"
        if self.own.is_grouped:
            said += " by group"
        if self.design.loss.ratio:
            said += f", of the {self.design.loss.ratio}"
        said += "."
        if self.design.loss.kind == "hazard":
            whose = "of the study's intervals of time"
            if self.own.is_cox:
                whose = "of Cox's partial likelihood, with Efron's ties"
            said += f" Hazard ratios are those {whose}."
        if self.own.n_beyond:
            said += f" {self._far_values(self.own)}"
        if absent := self._without_estimate():
            said += f" {absent}"
        if curved := self._curved:
            said += f" {curved[-1]!r} is a part of a curve, and no effect by itself: only "
            said += "differences of their sums are."
        return [
            Table(title, header, rows, key="own_estimates", digits=digits),
            f"{said} The model itself has a ridge of {self.design.ridge}, which moves its "
            "coefficients towards zero and predicts new rows better. Report effects from the "
            "estimates, and predictions from the model.",
        ]

    def _without_estimate(self) -> str:
        """Terms that have none: they follow from others, or nobody had the event there."""
        assert self.own is not None
        encoding, said = self.design.encoding, ""
        absent = np.flatnonzero(np.isnan(self.own.estimate[0])).tolist()
        intervals = [j for j in absent if not j or is_interval(encoding, encoding.terms[j - 1])]
        repeated = [self.terms[j] for j in absent if j not in intervals]
        if repeated:
            listed = ", ".join(map(repr, repeated[:4])) + (", ..." if len(repeated) > 4 else "")
            said = f"No estimate: {listed}, which has no row here or follows from columns above. "
            said += "Their estimates are those without it. Leave one of them out (--drop)."
        if intervals:
            said += " Intervals in which nobody had the event have no estimate."
        return said.strip()

    def _far_values(self, own: Estimates) -> str:
        """What is done with numbers beyond the study's range."""
        values = counted(own.n_beyond, "value")
        if self.design.loss.kind == "hazard":
            values += " (of rows at risk)"
        here = "while these estimates take them as they are"
        if not own.as_they_are:
            here = "here, too"
        return f"The model sets {values} beyond the study's range to its ends, {here}."

    def tables(self) -> list[Table | str]:
        """All coefficients of the model, the references of levels, and what numbers count as."""
        ratio, n_scores = self.design.loss.ratio, self.design.loss.n_scores
        header = ["term", "coefficient"]
        if n_scores > 1:
            header[1:] = [f"of {label}" for label in self.design.score_labels]
        rows: list[list[Any]] = [[name, *values] for name, values in self._lines()]
        digits = [0, *[DIGITS] * n_scores]
        if ratio and n_scores == 1:
            header.append(ratio)
            digits.append(-4)
            none = {self.terms[0], *self._curved}  # constants and parts of curves are no ratios
            rows = [[*row, None if row[0] in none else _ratio(row[1])] for row in rows]
        title = "Coefficients: per unit of a number, of a level against its reference"

        # what a reader multiplies: a number within its ends, or what stands for a missing one
        counts_as = self._counts_as()
        if not counts_as:
            return [Table(title, header, rows, key="coefficients", digits=digits)]
        rows = [[*row, *counts_as.get(row[0], (None,) * len(_COUNTS_AS))] for row in rows]
        digits += [AS_PUBLISHED] * len(_COUNTS_AS)
        said = "A number below its lowest value counts as that, one above its highest as this, "
        said += "and a missing one as stated."
        if self._curved:
            said += (
                " A term with ~ is 1 at its number, 0 from the next ones on, and linear between."
            )
        table = Table(title, [*header, *_COUNTS_AS], rows, key="coefficients", digits=digits)
        return [table, said]

    def _counts_as(self) -> dict[str, tuple[float, float, float | None]]:
        """Of each number the ends that values beyond count as, and what a missing one does."""
        encoding, ends = self.design.encoding, dict[str, tuple[float, float, float | None]]()
        for column in encoding.columns:
            if isinstance(column, NumberColumn):
                low, high = column.nodes[[0, -1]].tolist()
                missing = float(column.centre) if encoding.missing == "indicator" else None
                ends[column.name] = low, high, missing
        return ends

    def _lines(self) -> list[tuple[str, list[float]]]:
        """Names and coefficients, with a line for each reference level."""
        assert self.model is not None
        encoding = self.design.encoding
        constant, *coefficients = self.model.T.tolist()
        lines = [(self.terms[0], constant)]
        seen: set[str] = set()
        for term, name, values in zip(encoding.terms, self.terms[1:], coefficients, strict=True):
            column = encoding.columns[term.columns[0]]
            # the reference stands before the first level of its column
            if term.kind == "level" and column.name not in seen:
                seen.add(column.name)
                reference = f"{column.name} = {getattr(column, 'reference', '')} (reference)"
                lines.append((reference, [0.0] * len(values)))
            lines.append((name, values))
        return lines

    def strongest(self, most: int) -> list[Row]:
        """The clearest of the lab's own estimates, with intervals; none where it states none.

        Clearest: most standard errors away from no effect, whatever the unit of a column.
        """
        if self.own is None:
            return []
        ratio, columns = self.design.loss.ratio, self.columns
        values = columns[ratio.replace(" ", "_") or "estimate"]

        # constants, those of intervals of time among them, are no effects, nor are parts of curves
        encoding = self.design.encoding
        of_time = [False, *(is_interval(encoding, term) for term in encoding.terms)]
        is_effect = self._is_ratio & ~np.array(of_time)
        errors = np.where(is_effect, self.own.standard_error, np.nan).ravel()
        distance = np.abs(self.own.estimate.ravel()) / np.maximum(errors, 1e-300)
        order = np.argsort(-distance, kind="stable").tolist()
        clearest = [place for place in order if errors[place] > 0][:most]

        names = columns["term"]
        if "class" in columns:
            pairs = zip(names, columns["class"], strict=True)
            names = [f"{term}, {label}" for term, label in pairs]
        note = f"estimated {ratio}" if ratio else "estimate per unit"
        low, high = columns["low"], columns["high"]
        return [
            Row(names[i], values[i], "", (low[i], high[i]), note, in_json=False) for i in clearest
        ]

    def figures(self) -> list[Figure]:
        """A forest plot: the model with its cells, this lab's estimates, or both."""
        if self.model is None and self.own is None:
            return []
        n_marks = len(self.design.encoding.term_names) * self.design.loss.n_scores
        said = "Per unit of a number (of a 0/1 column: 1 against 0), of a level against its "
        said += "reference."
        if self.model is None:
            title = "This lab's own estimates"
            said += " No model: a dot is the estimate, a line its 95% interval."
        else:
            title = "Coefficients"
            said += " A dot is the model's, as in the table."
            if self.half_cells is not None:
                said += " A box is its cell: how far a lab's coefficient may be for the same model."
            if self.own is not None:
                said += " A line is the 95% interval of this lab's own estimate."
        if n_marks > MOST_DRAWN:
            said += f" The {MOST_DRAWN} furthest from no effect, of {n_marks:,}."
        return [Figure(title, self._picture, said)]

    def _picture(self) -> str:
        """Ratios on a logarithmic scale, or coefficients."""
        shown = self.model
        if shown is None:
            assert self.own is not None
            shown = self.own.estimate
        low, high = (shown, shown) if self.own is None else self.own.interval
        low, high = (np.where(np.isnan(ends), shown, ends) for ends in (low, high))

        ratio, marks = self.design.loss.ratio, list[Mark]()
        for k, label in enumerate(self.design.score_labels):
            for j, name in enumerate(self.terms[1:], 1):
                named = f"{name}, {label}" if len(shown) > 1 else name
                value = float(shown[k, j])
                if np.isnan(value):  # no model, and no estimate
                    continue
                text = ratio_in_words(_ratio(value), 3) if ratio else f"{value:+.3g}"
                marks.append((named, text, value, float(low[k, j]), float(high[k, j])))

        boxes = None if self.half_cells is None else self.half_cells[:, 1:].ravel().tolist()
        if not ratio:
            return forest(marks, 0.0, "no effect", boxes=boxes)
        ticks = [(float(np.log(value)), f"{value:g}") for value in _TICKS]
        return forest(marks, 0.0, ratio, boxes=boxes, ticks=ticks)


def _listed(values: Matrix) -> list[float | None]:
    """Of all scores, one after the other; None where there is no number."""
    return [None if np.isnan(value) else value for value in values.ravel().tolist()]


def _ratio(coefficient: float) -> float:
    return float(np.exp(min(coefficient, _MOST)))
