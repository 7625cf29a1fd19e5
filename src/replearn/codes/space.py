"""The space of a rounded direction: everything besides the seed that turns it into codes and back.

A direction is projected (`replearn.codes.projection`) and rounded (`replearn.codes.cells`), with
offsets from the stream "rounding/offset". Cubes may have sketch bits (`replearn.codes.sketch`):
their codes are then the original's places, which a replication finds from its own components and
the published sketch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from replearn.codes.cells import Run, check_rounding, runs
from replearn.codes.coins import Coins
from replearn.codes.lattices import DITHER, UNITS, nearest_codes
from replearn.codes.projection import check_decoding, lift, project
from replearn.codes.sketch import Cells
from replearn.documents import DecimalText, Part, Range, Text, Unfit
from replearn.errors import ReplearnError
from replearn.types import Codes, Matrix, Vector

#: Inputs and components of a model, at most; and numbers that its decoding may draw.
MAX_INPUTS = 1 << 22
MAX_DRAWS = 1 << 28
InputCount = Annotated[int, Range(1, MAX_INPUTS)]

#: Published reals that a user may set by hand.
Decimal6 = Annotated[str, DecimalText(digits=6, low=1e-30, high=1e30)]


@dataclass(frozen=True)
class CodeSpace(Part):
    """A shared map from directions to integer codes.

    Attributes
    ----------
    projection, rounding : str
        Names in `replearn.codes.projection` and `replearn.codes.cells`.
    """

    kind: Literal["rounded"]
    # length of a direction: features, and one more for the intercept
    n_inputs: InputCount
    projection: Annotated[str, Text(20)]
    n_components: InputCount
    rounding: Annotated[str, Text(40)]
    # side of a cell; a decimal number, so that every machine reads the same one
    grid_width: Decimal6
    sketch_bits: Annotated[int, Range(0, 4)]  # bits of each component that an original publishes

    def check(self) -> None:
        """Refuse spaces that do not exist, or that nobody could decode."""
        check_decoding(self.projection, self.n_components, self.n_inputs, MAX_DRAWS)
        try:
            check_rounding(self.rounding)
        except ReplearnError as problem:
            raise Unfit(str(problem).split(". ")[0]) from None
        if self.sketch_bits and self.rounding != "centre":
            raise Unfit(f'a sketch needs the rounding "centre", got {self.rounding!r}')

    @property
    def n_codes(self) -> int:
        """Number of integers that describe a direction."""
        return runs(self.rounding, self.n_components)[-1].stop

    def check_codes(self, codes: Codes) -> None:
        """Refuse codes that the space does not have."""
        if codes.size != self.n_codes:
            raise Unfit(f"codes must be {self.n_codes:,} numbers, got {codes.size:,}")

    def project(self, points: Matrix, coins: Coins) -> Matrix:
        """Components of points, one in each row."""
        return project(self.projection, points, self.n_components, coins)

    def encode(self, components: Vector, coins: Coins, sketch: Codes | None = None) -> Codes:
        """Codes of components; a replication gives the sketch of the original."""
        if not self.sketch_bits:
            return self._each_run(_codes, self._padded(components), coins)

        # the cell and the place in it, as one number
        cells, parts = self._cells(coins), 1 << self.sketch_bits
        if sketch is None:
            codes, sketch = cells.publish(components)
        else:
            codes = cells.replicate(components, sketch)
        return codes * parts + sketch

    def sketch(self, codes: Codes) -> Codes:
        """The bits of these codes that an original publishes."""
        return codes % (1 << self.sketch_bits)

    def place(self, components: Vector, codes: Codes, coins: Coins) -> Vector:
        """Where components lie from the centre of the cell of their codes, in widths, padded.

        With a sketch cells are centred at what the codes stand for.
        """
        padded = self._padded(components)
        if self.sketch_bits:
            return padded - self.components(codes, coins) / float(self.grid_width)

        centre = self._each_run(_point, codes, coins)
        if self.rounding == "ak":  # c stands for what is from c - u to c + 1 - u above the offset
            centre = centre + (0.5 - coins.uniforms("rounding/threshold", self.n_codes))
        return padded - centre

    def components(self, codes: Codes, coins: Coins) -> Vector:
        """Components that stand for the codes."""
        if self.sketch_bits:
            sketch = self.sketch(codes)
            return self._cells(coins).decode((codes - sketch) >> self.sketch_bits, sketch)
        point = self._each_run(_point, codes, coins)
        return point[: self.n_components] * float(self.grid_width)

    def decode(self, codes: Codes, coins: Coins) -> Vector:
        """Direction that stands for the codes: a function of codes and coins alone."""
        return lift(self.projection, self.components(codes, coins), self.n_inputs, coins)

    def _padded(self, components: Vector) -> Vector:
        """Components in units of the width, with zeros up to full blocks."""
        padded = np.zeros(self.n_codes)
        padded[: components.size] = components / float(self.grid_width)
        return padded

    def _cells(self, coins: Coins) -> Cells:
        widths = np.full(self.n_components, float(self.grid_width))
        return Cells.drawn(widths, self.sketch_bits, coins, "rounding/offset")

    def _each_run(
        self, convert: Callable[[Run, Any, Coins], Any], values: Any, coins: Coins
    ) -> Any:
        parts = runs(self.rounding, self.n_components)
        return np.concatenate([convert(run, values[run.start : run.stop], coins) for run in parts])


def _drawn(run: Run, coins: Coins, stream: str = "rounding/offset") -> Vector:
    """Uniforms of a run; a code has the coins of its place."""
    return coins.uniforms(stream, run.stop)[run.start :]


def _codes(run: Run, point: Vector, coins: Coins) -> Codes:
    """Codes of a point in units of the width."""
    offsets = _drawn(run, coins)
    if run.name in UNITS:
        shifted = point - offsets * DITHER[run.name]
        return nearest_codes(run.name, shifted.reshape(-1, run.cell.block)).ravel()
    if run.name == "centre":
        return np.floor(point + offsets + 0.5).astype(np.int64)

    # "ak": a corner of the cube, with the paper's probability
    above_corner = point - offsets
    corner = np.floor(above_corner)
    share_of_corner = 1.0 - (above_corner - corner)  # the paper's p(z)
    thresholds = _drawn(run, coins, "rounding/threshold")
    return (corner + (thresholds > share_of_corner)).astype(np.int64)


def _point(run: Run, codes: Codes, coins: Coins) -> Vector:
    """The point that stands for codes, in units of the width."""
    offsets = _drawn(run, coins)
    if run.name in UNITS:
        return codes * UNITS[run.name] + offsets * DITHER[run.name]
    if run.name == "centre":
        return codes - offsets
    return codes + offsets
