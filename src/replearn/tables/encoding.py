"""How rows become whole numbers, as published: nothing here is learned from a lab's rows.

Every term of a row is a whole number in units of 2^-12. It follows from the cell and the published
decimals by float64 additions, multiplications, divisions and floors in a stated order, so that
every machine and every language gets the same one; `docs/format-encoding.md` is the specification.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from replearn.documents import DecimalText, Length, Part, Range, Share3, Text, Unfit
from replearn.errors import ReplearnError
from replearn.tables.cells import MAX_TEXT, Column, levels_of, named_columns, numbers_of
from replearn.tables.seen import Seen
from replearn.tables.table import Batch
from replearn.types import Grid, Matrix, Vector, is_sparse

#: One, in units of the grid.
ONE = 1 << 12
#: Numbers further from the centre than this many spreads are moved to there.
CLIP = 4.0
#: The level of cells that have no term of their own, and that of missing cells.
OTHER, MISSING = "(other)", "(missing)"
#: Terms of an encoding at most.
MAX_TERMS = 1 << 15

Place = Annotated[str, DecimalText(digits=17, low=-1e100, high=1e100)]
Spread = Annotated[str, DecimalText(digits=3, low=1e-100, high=1e100)]
Name = Annotated[str, Text(most=MAX_TEXT)]

_CACHED = 1 << 15  # numbers of a piece that stays in a core's cache


@dataclass(frozen=True)
class NumberColumn(Part):
    """A column of numbers.

    Attributes
    ----------
    name : str
    centre, spread : str
        Decimal numbers. The first term is ``z = (x - centre) / spread``, with x clipped at four
        spreads from the centre.
    knots : tuple of str
        Where the terms "hats" have their tops; increasing.
    indicator : bool
        Whether a last term says that the cell is missing. Without it a missing cell counts as the
        centre.
    """

    name: Name
    centre: Place
    spread: Spread
    knots: Annotated[tuple[Place, ...], Length(0, 64)] = ()
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

    def term_names(self) -> list[str]:
        """What its terms are called."""
        missing = [f"{self.name} missing"] if self.indicator else []
        return [self.name, *(f"{self.name} ~ {knot}" for knot in self.knots), *missing]


@dataclass(frozen=True)
class LevelColumn(Part):
    """A column of levels, compared with the reference level.

    Attributes
    ----------
    name : str
    levels : tuple of str
        Those with a term: 1 where a cell has the level, else 0. "(other)" stands for all levels
        that are not named, "(missing)" for cells without a value. Where they are not among the
        levels, missing cells count as "(other)", and others as the reference.
    reference : str
        The level without a term: all terms are 0.
    folded : str
        Share of the original's values that are not named here; more of them are to be expected.
    """

    name: Name
    levels: Annotated[tuple[Name, ...], Length(0, 10_000)]
    reference: Name
    folded: Share3 = "0"
    kind: Literal["levels"] = "levels"

    def check(self) -> None:
        """Refuse a level that stands there twice."""
        if len({*self.levels, self.reference}) <= len(self.levels):
            raise Unfit(f"levels of {self.name!r} must be different from each other")

    def term_names(self) -> list[str]:
        """What its terms are called."""
        return [
            f"{self.name} missing" if level == MISSING else f"{self.name} = {level}"
            for level in self.levels
        ]

    @cached_property
    def places(self) -> dict[str, int]:
        """The place of each level among the terms; -1 for the reference."""
        known = {level: place for place, level in enumerate(self.levels)}
        other = known.get(OTHER, -1)
        return {OTHER: other, MISSING: other, self.reference: -1} | known


@dataclass(frozen=True)
class Product(Part):
    """The product of two terms, by their numbers: of z, or of levels; z z is divided by 4."""

    first: Annotated[int, Range(0, MAX_TERMS)]
    second: Annotated[int, Range(0, MAX_TERMS)]


class Term(NamedTuple):
    """Which column a term belongs to, and what it is: z, hat, missing, level or product."""

    columns: tuple[int, ...]
    kind: str
    name: str


@dataclass(frozen=True)
class Encoding(Part):
    """How every lab turns its rows into whole numbers.

    Terms stand in the order of the columns (of a number z, its hats, its missing indicator; of
    levels one for each), then the products. The constant is not among them.

    Attributes
    ----------
    columns : tuple of NumberColumn and LevelColumn
    products : tuple of Product
    missing : "indicator" or "refuse"
        Whether missing cells are taken, or refused.

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

    def check(self) -> None:
        """Refuse columns of one name, and products of what has none."""
        if len(set(self.names)) < len(self.names):
            raise Unfit("columns must have different names")
        for product in self.products:
            kinds = [
                self._basic[i].kind for i in (product.first, product.second) if i < self.n_basic
            ]
            if len(kinds) < 2 or not set(kinds) <= {"z", "level"}:
                raise Unfit(f"products must be of two terms, z or levels, got {product.content()}")
        if self.n_terms > MAX_TERMS:
            raise Unfit(f"there must be at most {MAX_TERMS:,} terms, got {self.n_terms:,}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)

    @cached_property
    def _basic(self) -> tuple[Term, ...]:
        found = []
        for place, column in enumerate(self.columns):
            for i, name in enumerate(column.term_names()):
                kind = "level"
                if isinstance(column, NumberColumn):
                    kind = "z" if i == 0 else "hat" if i <= len(column.knots) else "missing"
                elif column.levels[i] == MISSING:
                    kind = "missing"
                found.append(Term((place,), kind, name))
        return tuple(found)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """What each term is."""
        products = []
        for product in self.products:
            a, b = self._basic[product.first], self._basic[product.second]
            products.append(Term(a.columns + b.columns, "product", f"{a.name} x {b.name}"))
        return (*self._basic, *products)

    @property
    def n_basic(self) -> int:
        """Terms that are no products."""
        return len(self._basic)

    @property
    def n_terms(self) -> int:
        """Whole numbers of a row, without the constant."""
        return len(self._basic) + len(self.products)

    @property
    def term_names(self) -> tuple[str, ...]:
        """What the terms are called."""
        return tuple(term.name for term in self.terms)

    def encode(self, batch: Batch, seen: Seen | None = None) -> Any:
        """Rows as whole numbers in units of 2^-12.

        Parameters
        ----------
        batch : Batch
            It must have the columns of this encoding; it may have more.
        seen : Seen, optional
            Counts what is missing, unknown, unreadable or clipped.

        Returns
        -------
        terms : int16 array of shape (n_rows, n_terms)
            CSR where the rows are sparse and no term has to be centred.
        """
        self._require(batch.names)
        if is_sparse(batch.matrix):
            if self._stays_sparse:
                return self._encode_sparse(batch, seen)
            batch = _dense(batch)
        if batch.matrix is not None and self._only_z:
            return self._encode_matrix(batch, seen)
        out = np.empty((batch.n_rows, self.n_terms), dtype=np.int16)
        self._write(batch, out, seen)
        for place, product in enumerate(self.products, start=self.n_basic):
            a, b = out[:, product.first].astype(np.int32), out[:, product.second]
            shift = 14 if self._is_z(product.first) and self._is_z(product.second) else 12
            out[:, place] = (a * b + (1 << (shift - 1))) >> shift
        return out

    def values(self, batch: Batch) -> Matrix:
        """The same terms before they are rounded to the grid: for predictions and exports."""
        self._require(batch.names)
        batch = _dense(batch) if is_sparse(batch.matrix) else batch
        out = np.empty((batch.n_rows, self.n_terms))
        self._write(batch, out, None)
        for place, product in enumerate(self.products, start=self.n_basic):
            np.multiply(out[:, product.first], out[:, product.second], out=out[:, place])
            if self._is_z(product.first) and self._is_z(product.second):
                out[:, place] *= 0.25
        return out

    # --- how ------------------------------------------------------------------------------------

    def _is_z(self, term: int) -> bool:
        return self._basic[term].kind == "z"

    @cached_property
    def _only_z(self) -> bool:
        return all(term.kind == "z" for term in self.terms)

    @cached_property
    def _stays_sparse(self) -> bool:
        return self._only_z and all(float(c.centre) == 0 for c in self._numbers)

    @property
    def _numbers(self) -> Iterator[NumberColumn]:
        return (column for column in self.columns if isinstance(column, NumberColumn))

    @cached_property
    def _scales(self) -> tuple[Vector, Vector, Vector, Vector]:
        """Lower ends, upper ends, centres and spreads of all numbers."""
        columns = list(self._numbers)
        return (
            np.array([column.nodes[0] for column in columns]),
            np.array([column.nodes[-1] for column in columns]),
            np.array([float(column.centre) for column in columns]),
            np.array([float(column.spread) for column in columns]),
        )

    def _require(self, names: Sequence[str]) -> None:
        if names == self.names:
            return
        known = set(names)
        absent = [name for name in self.names if name not in known]
        if absent:
            raise ReplearnError(
                f"the table must have {named_columns(absent)}; it has {named_columns(names)}. "
                "Rename the columns, or use the study of this table."
            )

    def _write(self, batch: Batch, out: NDArray[Any], seen: Seen | None) -> None:
        """All terms but the products: on the grid if ``out`` holds whole numbers."""
        start = 0
        if seen is not None:
            seen.n_rows += batch.n_rows
        for place, column in enumerate(self.columns):
            stop = start + len(column.term_names())
            part = out[:, start:stop]
            if isinstance(column, NumberColumn):
                self._write_number(place, column, batch.column(column.name), part, seen)
            else:
                self._write_levels(place, column, batch.column(column.name), part, seen)
            start = stop

    def _write_number(
        self, place: int, column: NumberColumn, cells: Column, out: NDArray[Any], seen: Seen | None
    ) -> None:
        values, odd = numbers_of(cells)
        absent = np.isnan(values)
        n_absent = int(np.count_nonzero(absent))
        n_odd = 0 if odd is None else int(np.count_nonzero(odd))
        if n_absent and self.missing == "refuse":
            raise _refused_missing(column.name, n_absent)
        if n_absent:
            values = np.where(absent, float(column.centre), values)
        nodes = column.nodes
        x = np.minimum(np.maximum(values, nodes[0]), nodes[-1])
        if seen is not None:
            n_clipped = int(np.count_nonzero(x != values))
            seen.count(place, n_absent - n_odd, 0, n_odd, n_clipped)
            seen.keep(place, values[~absent] if n_absent else values)
            if n_odd:
                seen.keep_odd(place, cells, odd)
        _put(out, 0, (x - float(column.centre)) / float(column.spread))
        for j in range(1, len(nodes) - 1):
            below, top, above = nodes[j - 1 : j + 2]
            rises, falls = (x - below) / (top - below), (above - x) / (above - top)
            inside = (below <= x) & (x <= above)
            _put(out, j, np.where(inside, np.where(x <= top, rises, falls), 0.0))
        if column.indicator:
            _put(out, len(nodes) - 1, absent.astype(np.float64))

    def _write_levels(
        self, place: int, column: LevelColumn, cells: Column, out: NDArray[Any], seen: Seen | None
    ) -> None:
        codes, texts = levels_of(cells)
        known = column.places
        terms = [known.get(text, known[OTHER]) for text in texts]
        found = np.array([*terms, known[MISSING]], dtype=np.int64)[codes]
        n_absent = int(np.count_nonzero(codes < 0))
        if n_absent and self.missing == "refuse":
            raise _refused_missing(column.name, n_absent)
        if seen is not None:
            unknown = np.array([text not in known for text in texts] + [False])[codes]
            n_unknown = int(np.count_nonzero(unknown))
            seen.count(place, n_absent, n_unknown, 0, 0)
            seen.keep_levels(place, codes, texts)
            if n_unknown:
                seen.keep_odd(place, cells, unknown)
        out[:] = 0
        rows = np.flatnonzero(found >= 0)
        out[rows, found[rows]] = ONE if out.dtype.kind == "i" else 1.0

    def _encode_matrix(self, batch: Batch, seen: Seen | None) -> Grid:
        """Only z: a whole array at a time, in pieces that stay in the cache."""
        matrix = batch.matrix
        if batch.names != self.names:
            matrix = matrix[:, [batch.places[name] for name in self.names]]
        low, high, centres, spreads = self._scales
        n_rows, n_columns = matrix.shape
        out = np.empty((n_rows, n_columns), dtype=np.int16)
        units = spreads / ONE  # a division by a power of two is exact
        step = max(1, _CACHED // n_columns)
        buffer = np.empty((min(step, n_rows), n_columns))
        n_missing, n_clipped = np.zeros((2, n_columns), dtype=np.int64)
        for start in range(0, n_rows, step):
            rows = matrix[start : start + step]
            x = buffer[: rows.shape[0]]
            np.maximum(rows, low, out=x)  # NaN stays NaN
            np.minimum(x, high, out=x)
            if np.isnan(x.sum()):
                absent = np.isnan(x)
                n_missing += np.count_nonzero(absent, axis=0)
                np.copyto(x, np.broadcast_to(centres, x.shape), where=absent)
            x -= centres
            x /= units
            x += 0.5
            np.floor(x, out=x)
            z = out[start : start + step]
            np.copyto(z, x, casting="unsafe")
            if seen is not None and (z.max() >= 4 * ONE or z.min() <= -4 * ONE):
                n_clipped += np.count_nonzero((rows < low) | (rows > high), axis=0)
        if n_missing.any() and self.missing == "refuse":
            first = int(np.argmax(n_missing > 0))
            raise _refused_missing(self.names[first], int(n_missing[first]))
        if seen is not None:
            seen.n_rows += n_rows
            seen.missing += n_missing
            seen.clipped += n_clipped
            seen.keep_matrix(matrix)
        return out

    def _encode_sparse(self, batch: Batch, seen: Seen | None) -> Any:
        """Only z around 0: zeros stay zeros."""
        from scipy import sparse

        rows = batch.matrix
        if batch.names != self.names:
            rows = rows[:, [batch.places[name] for name in self.names]]
        low, high, _, spreads = self._scales
        values, columns = rows.data.astype(np.float64), rows.indices
        absent = np.isnan(values)
        if absent.any():
            counts = np.bincount(columns[absent], minlength=len(self.names))
            if self.missing == "refuse":
                first = int(np.argmax(counts > 0))
                raise _refused_missing(self.names[first], int(counts[first]))
            if seen is not None:
                seen.missing += counts
            values = np.where(absent, 0.0, values)
        x = np.minimum(np.maximum(values, low[columns]), high[columns])
        if seen is not None:
            seen.n_rows += batch.n_rows
            seen.clipped += np.bincount(columns[x != values], minlength=len(self.names))
        z = np.floor(x / spreads[columns] * ONE + 0.5).astype(np.int16)
        found = sparse.csr_array((z, columns, rows.indptr), shape=rows.shape)
        found.eliminate_zeros()
        return found


def _put(out: NDArray[Any], place: int, term: Vector) -> None:
    """A term of all rows: as it is, or on the grid."""
    if out.dtype.kind == "i":
        term = np.floor(term * ONE + 0.5)
    out[:, place] = term


def _dense(batch: Batch) -> Batch:
    """The same rows, not sparse."""
    return Batch(
        batch.names,
        batch.n_rows,
        np.asarray(batch.matrix.toarray()),
        y=batch.y,
        weights=batch.weights,
        offset=batch.offset,
        groups=batch.groups,
    )


def _refused_missing(name: str, n_missing: int) -> ReplearnError:
    return ReplearnError(
        f"column {name!r} must have a value in every row, got {n_missing:,} missing ones. Fill or "
        'leave out such rows, or make the study with missing="indicator".'
    )
