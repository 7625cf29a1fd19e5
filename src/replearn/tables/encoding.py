"""How rows become whole numbers, as published: nothing here is learned from a lab's rows.

Every term of a row is a whole number in units of 2^-12. It follows from the cell and the published
decimals by float64 additions, multiplications, divisions and floors in a stated order, so that
every machine and every language gets the same one; `docs/format.md` is the specification.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from replearn.documents import DecimalText, Length, Part, Range, Share3, Text, Unfit, decimal_text
from replearn.errors import ReplearnError
from replearn.tables.cells import MAX_TEXT, Column, absent_columns, levels_of, numbers_of
from replearn.tables.counts import KEPT_PER_BATCH, EncodingCounts
from replearn.tables.table import Batch
from replearn.types import Array, Ints, Matrix, Vector, is_sparse

#: One, in units of the grid.
ONE = 1 << 12
#: Numbers further from the centre than this many spreads are moved to there.
CLIP = 4
#: An own estimate takes numbers as they are up to so many spreads.
MOST_REACH = 500
#: The level of cells that have no term of their own, and that of missing cells.
OTHER, MISSING = "(other)", "(missing)"
#: The last column of rows at risk, which says in which interval of time they are.
INTERVAL = "(interval)"
#: Terms of an encoding at most.
MAX_TERMS = 1 << 15

Place = Annotated[str, DecimalText(digits=17, low=-1e100, high=1e100)]
Spread = Annotated[str, DecimalText(digits=3, low=1e-100, high=1e100)]
Name = Annotated[str, Text(most=MAX_TEXT)]

_UPWARDS = 1.006  # more than three digits round off
_CACHED = 1 << 15  # numbers of a piece that stays in a core's cache
_TURNED = 1 << 9  # rows that are turned at once


@dataclass(frozen=True)
class NumberColumn(Part):
    """A column of numbers."""

    name: Name
    # decimal numbers. The first term is ``z = (x - centre) / spread``, with x clipped at four
    # spreads from the centre.
    centre: Place
    spread: Spread
    # where the terms "hats" have their tops; increasing
    knots: Annotated[tuple[Place, ...], Length(0, 64)] = ()
    # whether a last term says that the cell is missing. Without it a missing cell counts as the
    # centre.
    indicator: bool = False
    kind: Literal["number"] = "number"

    @cached_property
    def nodes(self) -> Vector:
        """The lower end, the knots and the upper end."""
        centre, spread = float(self.centre), float(self.spread)
        ends = centre - CLIP * spread, centre + CLIP * spread
        return np.array([ends[0], *map(float, self.knots), ends[1]])

    def check(self) -> None:
        """Refuse knots that are out of order or out of reach, and spreads that vanish."""
        if not (np.diff(self.nodes) > 0).all():
            raise Unfit(f"knots must increase within four spreads of the centre, got {self.knots}")

    @cached_property
    def terms(self) -> tuple[tuple[str, str], ...]:
        """Kind and name of each term."""
        terms = [("z", self.name)]
        terms += (("hat", f"{self.name} ~ {knot}") for knot in self.knots)
        if self.indicator:
            terms.append(("missing", f"{self.name} missing"))
        return tuple(terms)


@dataclass(frozen=True)
class LevelColumn(Part):
    """A column of levels, compared with the reference level."""

    name: Name
    # those with a term: 1 where a cell has the level, else 0. "(other)" stands for all levels that
    # are not named, "(missing)" for cells without a value. Where they are not among the levels,
    # missing cells count as "(other)", and others as the reference.
    levels: Annotated[tuple[Name, ...], Length(0, 10_000)]
    reference: Name  # the level without a term: all terms are 0
    # share of the original's values that are not named here; a lab may have more of them
    folded: Share3 = "0"
    kind: Literal["levels"] = "levels"

    def check(self) -> None:
        """Refuse a level that stands there twice."""
        if len(set(self.named)) <= len(self.levels):
            raise Unfit(f"levels of {self.name!r} must be different from each other")

    @cached_property
    def terms(self) -> tuple[tuple[str, str], ...]:
        """Kind and name of each term."""
        terms = {level: ("level", f"{self.name} = {level}") for level in self.levels}
        if MISSING in terms:
            terms[MISSING] = "missing", f"{self.name} missing"
        return tuple(terms.values())

    @property
    def named(self) -> tuple[str, ...]:
        """The reference, then the levels with a term."""
        return self.reference, *self.levels

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each level among the terms; -1 for the reference."""
        known = {level: place for place, level in enumerate(self.levels)}
        other = known.get(OTHER, -1)
        return {OTHER: other, MISSING: other, self.reference: -1} | known


@dataclass(frozen=True)
class Product(Part):
    """The product of two terms, by their numbers: of z, or of levels; see `Encoding.shrinkage`."""

    first: Annotated[int, Range(0, MAX_TERMS)]
    second: Annotated[int, Range(0, MAX_TERMS)]


class Term(NamedTuple):
    """Which column a term belongs to, and what it is: z, hat, missing, level or product."""

    columns: tuple[int, ...]
    kind: str
    name: str


def per_unit(
    columns: Sequence[NumberColumn | LevelColumn], products: Sequence[Product], numbers: Matrix
) -> Matrix:
    """Coefficients as readers multiply and add them: of the columns as they are, uncentred.

    ``numbers`` are coefficients of the encoded terms, the constant first, along the last axis;
    those of products belong to products that are not halved. What comes back has the same order.
    The new constant belongs to columns that are 0, a number's coefficient is per unit of its
    column, and a product's per unit of both.
    """
    coefs = np.array(numbers, dtype=np.float64)

    # centre and spread of each term; the constant, levels and hats stay as they are
    scales = [(0.0, 1.0)]
    for column in columns:
        own = [(0.0, 1.0)] * len(column.terms)
        if isinstance(column, NumberColumn):
            own[0] = float(column.centre), float(column.spread)
        scales += own

    for place, (centre, spread) in enumerate(scales):
        coefs[..., place] /= spread
        if place:
            coefs[..., 0] -= coefs[..., place] * centre

    for place, product in enumerate(products, len(scales)):
        first, second = product.first + 1, product.second + 1
        (a, a_spread), (b, b_spread) = scales[first], scales[second]
        coefs[..., place] /= a_spread * b_spread
        # p (x - a)(y - b) = p x y - p b x - p a y + p a b
        coefs[..., first] -= coefs[..., place] * b
        coefs[..., second] -= coefs[..., place] * a
        coefs[..., 0] += coefs[..., place] * (a * b)
    return coefs


@dataclass(frozen=True)
class Encoding(Part):
    """How every lab turns its rows into whole numbers.

    Terms stand in the order of the columns (of a number z, its hats, its missing indicator; of
    levels one for each), then the products. The constant is not among them.

    Attributes
    ----------
    missing : "indicator" or "refuse"
        Whether missing cells are taken, or refused.
    products_halved : int
        How often, so that a ridge keeps them small.

    Examples
    --------
    >>> from replearn.tables import open_table
    >>> age = NumberColumn("age", centre="60", spread="10")
    >>> ward = LevelColumn("ward", levels=("B", "(missing)"), reference="A")
    >>> encoding = Encoding((age, ward), (Product(0, 1),))
    >>> encoding.term_names
    ('age', 'ward = B', 'ward missing', 'age x ward = B')
    >>> table = open_table({"age": [70, 55], "ward": ["B", None]})
    >>> [encoding.encode(batch).tolist() for batch in table.batches()]
    [[[4096, 4096, 0, 4096], [-2048, 0, 4096, 0]]]
    """

    columns: Annotated[tuple[NumberColumn | LevelColumn, ...], Length(1, 10_000)]
    products: Annotated[tuple[Product, ...], Length(0, MAX_TERMS)] = ()
    missing: Literal["indicator", "refuse"] = "indicator"
    products_halved: Annotated[int, Range(0, 8)] = 0

    def check(self) -> None:
        """Refuse columns of one name, and products of what has none."""
        if len(set(self.names)) < len(self.names):
            raise Unfit("columns must have different names")

        # a product of hats, gaps or products would need a grid of its own
        kinds = [kind for column in self.columns for kind, _ in column.terms]
        for product in self.products:
            pair = [kinds[i] for i in (product.first, product.second) if i < len(kinds)]
            if len(pair) < 2 or not set(pair) <= {"z", "level"}:
                raise Unfit(f"products must be of two terms, z or levels, got {product.content()}")

        n_terms = len(kinds) + len(self.products)
        if n_terms > MAX_TERMS:
            raise Unfit(f"there must be at most {MAX_TERMS:,} terms, got {n_terms:,}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def intervals(self) -> LevelColumn | None:
        """The column of intervals, of rows at risk."""
        last = self.columns[-1]
        return last if isinstance(last, LevelColumn) and last.name == INTERVAL else None

    @cached_property
    def own_columns(self) -> tuple[NumberColumn | LevelColumn, ...]:
        """Columns of a table: intervals are none."""
        return self.columns if self.intervals is None else self.columns[:-1]

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """What each term is."""
        terms = []
        for place, column in enumerate(self.columns):
            terms += [Term((place,), *term) for term in column.terms]
        for product in self.products:
            a, b = terms[product.first], terms[product.second]
            terms.append(Term(a.columns + b.columns, "product", f"{a.name} x {b.name}"))
        return tuple(terms)

    @property
    def n_terms(self) -> int:
        """Whole numbers of a row, without the constant."""
        return len(self.terms)

    @property
    def term_names(self) -> tuple[str, ...]:
        """What the terms are called."""
        return tuple(term.name for term in self.terms)

    def encode(self, batch: Batch, seen: EncodingCounts | None = None) -> Any:
        """Rows as whole numbers in units of 2^-12: an int16 array of shape (n_rows, n_terms).

        It is CSR where the rows are sparse and no term has to be centred. The batch may have more
        columns; ``seen`` counts what is missing, unknown, unreadable or clipped.
        """
        self._require(batch.names)
        if is_sparse(batch.matrix) and self._only_z and not self._scales[2].any():
            return self._encode_sparse(batch, seen)

        out = np.empty((batch.n_rows, self.n_terms), dtype=np.int16)
        if batch.matrix is not None and self._only_z:
            self._write_matrix(batch, out, seen)
            return out

        columns = self._columns(batch, np.int16, seen)
        for place, product in enumerate(self.products, -len(self.products)):
            a, b = columns[product.first].astype(np.int32), columns[product.second]
            # back to units of 2^-12, halves upwards
            shift = 12 + self.shrinkage(product)
            columns[place] = (a * b + (1 << (shift - 1))) >> shift

        for start in range(0, batch.n_rows, _TURNED):  # some rows at a time stay in the cache
            out[start : start + _TURNED] = columns[:, start : start + _TURNED].T
        return out

    def values(self, batch: Batch) -> Matrix:
        """The same terms before they are rounded to the grid: for predictions and exports."""
        self._require(batch.names)
        if batch.matrix is not None and self._only_z:
            out = np.empty((batch.n_rows, self.n_terms))
            self._write_matrix(batch, out, None)
            return out

        columns = self._columns(batch, np.float64, None)
        for place, product in enumerate(self.products, -len(self.products)):
            factor = 2.0 ** -self.shrinkage(product)
            columns[place] = columns[product.first] * columns[product.second] * factor
        return columns.T

    def shrinkage(self, product: Product) -> int:
        """How often a product of two terms is halved: twice more if both are z, which reach 4."""
        both_z = all(self.terms[i].kind == "z" for i in (product.first, product.second))
        return self.products_halved + 2 * both_z

    def per_unit(self, theta: Matrix) -> Matrix:
        """Coefficients of the encoded terms, the constant first, as `per_unit` gives them."""
        halved = np.array(theta, dtype=np.float64)
        for place, product in enumerate(self.products, -len(self.products)):
            halved[..., place] *= 2.0 ** -self.shrinkage(product)
        return per_unit(self.columns, self.products, halved)

    def reaching(self, lowest: Vector, highest: Vector) -> "Encoding":
        """The same with ranges that hold these numbers of its columns, where none has hats.

        Beyond `MOST_REACH` spreads a column keeps its range: other rows would vanish on the grid.
        """
        columns = list(self.columns)
        for place, (column, low, high) in enumerate(zip(columns, lowest, highest, strict=True)):
            if not isinstance(column, NumberColumn) or column.knots:
                continue
            centre, spread = float(column.centre), float(column.spread)
            reach = max(high - centre, centre - low) / spread
            if CLIP < reach <= MOST_REACH:
                wider = decimal_text(spread * reach / CLIP * _UPWARDS)
                columns[place] = replace(column, spread=wider)
        return replace(self, columns=tuple(columns))

    # --- how ------------------------------------------------------------------------------------

    @cached_property
    def _only_z(self) -> bool:
        return all(term.kind == "z" for term in self.terms)

    @cached_property
    def _scales(self) -> Matrix:
        """Lower ends, upper ends, centres and spreads of all numbers."""
        scales = []
        for column in self.columns:
            if isinstance(column, NumberColumn):
                ends = column.nodes[0], column.nodes[-1]
                scales.append((*ends, float(column.centre), float(column.spread)))
        return np.array(scales).T.copy()

    def _require(self, names: Sequence[str]) -> None:
        if names == self.names:
            return

        known = set(names)
        absent = [name for name in self.names if name not in known]
        if absent:
            raise ReplearnError(
                f"the table must have {absent_columns(absent, names)}. "
                "Rename the columns, or use the study of this table."
            )

    def _columns(self, batch: Batch, dtype: Any, seen: EncodingCounts | None) -> Array:
        """All terms, a row for each; products are left open."""
        if seen is not None:
            seen.n_rows += batch.n_rows

        # a length that is no power of two: rows then do not fight for the same lines of the cache
        out = np.empty((self.n_terms, batch.n_rows + 96), dtype=dtype)[:, : batch.n_rows]

        start = 0
        for place, column in enumerate(self.columns):
            part = out[start : start + len(column.terms)]
            cells = batch.column(column.name)
            if isinstance(column, NumberColumn):
                self._write_number(place, column, cells, part, seen)
            else:
                self._write_levels(place, column, cells, part, seen)
            start += len(column.terms)
        return out

    def _write_number(
        self,
        place: int,
        column: NumberColumn,
        cells: Column,
        out: Array,
        seen: EncodingCounts | None,
    ) -> None:
        values, odd = numbers_of(cells)
        absent = np.isnan(values)
        n_absent = int(np.count_nonzero(absent))
        known = values
        if n_absent:  # gaps, and texts that are no numbers, count as the centre
            self._refuse_missing(place, n_absent)
            known = values[~absent]
            values = np.where(absent, float(column.centre), values)
        nodes = column.nodes
        clipped = np.minimum(np.maximum(values, nodes[0]), nodes[-1])

        if seen is not None:
            n_odd = 0
            if odd is not None:
                n_odd = int(np.count_nonzero(odd))
                seen.keep_odd(place, cells, odd)
            beyond = values[clipped != values]
            seen.counts[:3, place] += n_absent - n_odd, 0, n_odd
            seen.keep_beyond(np.full(len(beyond), place), beyond)
            seen.keep(place, known)

        for start in range(0, len(clipped), _CACHED >> 3):  # pieces that stay in the cache
            part = slice(start, start + (_CACHED >> 3))
            x = clipped[part]
            _put(out[0, part], (x - float(column.centre)) / float(column.spread))
            for j in range(1, len(nodes) - 1):
                below, top, above = nodes[j - 1 : j + 2]
                rises = (x - below) / (top - below)
                falls = (above - x) / (above - top)
                # below the top the first is the smaller one, above it the second
                _put(out[j, part], np.maximum(np.minimum(rises, falls), 0.0))
        if column.indicator:
            out[-1] = absent * _unit(out)

    def _write_levels(
        self,
        place: int,
        column: LevelColumn,
        cells: Column,
        out: Array,
        seen: EncodingCounts | None,
    ) -> None:
        codes, texts = levels_of(cells)
        n_absent = int(np.count_nonzero(codes < 0))
        self._refuse_missing(place, n_absent)

        known = column.places
        terms = [known.get(text, known[OTHER]) for text in texts]
        term = np.array([*terms, known[MISSING]], dtype=np.int64)[codes]

        if seen is not None:
            unknown = np.array([text not in known for text in texts] + [False])[codes]
            n_unknown = int(np.count_nonzero(unknown))
            seen.counts[:, place] += n_absent, n_unknown, 0, 0
            seen.keep_levels(place, codes, texts)
            if n_unknown:
                seen.keep_odd(place, cells, unknown)

        out[:] = 0
        rows = np.flatnonzero(term >= 0)  # others have the reference level
        out[term[rows], rows] = _unit(out)

    def _write_matrix(self, batch: Batch, out: Array, seen: EncodingCounts | None) -> None:
        """Only z: a whole array at a time, in pieces that stay in the cache."""
        matrix = batch.ordered(self.names)
        if is_sparse(matrix):
            matrix = matrix.toarray()
        low, high, centres, spreads = self._scales
        n_rows, n_columns = matrix.shape
        units = spreads / _unit(out)  # to divide by a power of two is exact

        step = max(1, min(n_rows, _CACHED // (4 * n_columns)))
        buffer = np.empty((step, n_columns))
        # a copy of the scales for each row: NumPy takes twice as long to repeat a short one
        scales = np.repeat([low, high, centres, units], step, axis=0)
        scales = scales.reshape(4, step, n_columns)

        n_missing = np.zeros(n_columns, dtype=np.int64)
        for start in range(0, n_rows, step):
            rows = matrix[start : start + step]
            x = buffer[: rows.shape[0]]
            lows, highs, middles, sizes = scales[:, : rows.shape[0]]

            np.maximum(rows, lows, out=x)  # NaN stays NaN
            np.minimum(x, highs, out=x)
            if np.isnan(x.sum()):
                absent = np.isnan(x)
                n_missing += np.count_nonzero(absent, axis=0)
                np.copyto(x, middles, where=absent)

            x -= middles
            x /= sizes
            _put_units(out[start : start + step], x)

        self._refuse_gaps(n_missing)
        if seen is not None:
            seen.missing += n_missing
            self._count_matrix(matrix, out, seen)

    def _count_matrix(self, matrix: Array, out: Array, seen: EncodingCounts) -> None:
        """Count numbers beyond the ends, and keep some of all."""
        n_rows, n_columns = matrix.shape
        low, high = self._scales[:2]

        # few are at the ends: only these are compared
        row, column = divmod(np.flatnonzero(np.abs(out) >= CLIP * ONE), n_columns)
        ends = matrix[row, column]
        is_beyond = (ends < low[column]) | (ends > high[column])
        seen.n_rows += n_rows
        seen.keep_beyond(column[is_beyond], ends[is_beyond])

        some = np.array(matrix[:: max(1, n_rows // KEPT_PER_BATCH)].T, dtype=np.float64)
        for place, values in enumerate(some):
            seen.keep(place, values[~np.isnan(values)])

    def _refuse_gaps(self, n_missing: Ints) -> None:
        for place in np.flatnonzero(n_missing)[:1].tolist():
            self._refuse_missing(place, int(n_missing[place]))

    def _refuse_missing(self, place: int, n_missing: int) -> None:
        if self.missing == "refuse" and n_missing:
            raise ReplearnError(
                f"column {self.names[place]!r} must have a value in every row, got {n_missing:,} "
                "missing ones. Fill or leave out such rows, or make the study with "
                'missing="indicator".'
            )

    def _encode_sparse(self, batch: Batch, seen: EncodingCounts | None) -> Any:
        """Only z around 0: zeros stay zeros."""
        from scipy import sparse

        rows = batch.ordered(self.names)
        low, high, _, spreads = self._scales
        z = np.empty(len(rows.data), dtype=np.int16)
        n_missing = np.zeros(len(self.names), dtype=np.int64)
        places, ends = [], []

        # few cells at a time, which stay in the cache
        for start in range(0, len(z), _CACHED):
            part = slice(start, start + _CACHED)
            columns, values = rows.indices[part], rows.data[part].astype(np.float64)
            absent = np.isnan(values)
            if absent.any():
                n_missing += np.bincount(columns[absent], minlength=len(self.names))
                values[absent] = 0.0
            x = np.minimum(np.maximum(values, low[columns]), high[columns])
            is_beyond = x != values
            places.append(columns[is_beyond])
            ends.append(values[is_beyond])

            # on the grid
            x /= spreads[columns]
            x *= ONE
            _put_units(z[part], x)

        self._refuse_gaps(n_missing)
        if seen is not None:
            seen.n_rows += batch.n_rows
            seen.missing += n_missing
            nothing = rows.indices[:0], np.empty(0)
            seen.keep_beyond(*map(np.concatenate, ([*places, nothing[0]], [*ends, nothing[1]])))

        # what is stored and rounds to 0 need not be
        terms = sparse.csr_array((z, rows.indices, rows.indptr), shape=rows.shape)
        terms.eliminate_zeros()
        return terms


def _unit(out: Array) -> int:
    """What one is: on the grid, or as it is."""
    if out.dtype.kind == "i":
        return ONE
    return 1


def _put(out: Array, term: Vector) -> None:
    """A term of some rows: as it is, or on the grid. The term is overwritten."""
    term *= _unit(out)
    _put_units(out, term)


def _put_units(out: Array, numbers: Vector) -> None:
    """Numbers in units of the grid, to the nearest one; or as they are. They are overwritten."""
    if out.dtype.kind == "i":
        numbers += 0.5
        np.floor(numbers, out=numbers)
    np.copyto(out, numbers, casting="unsafe")
