"""Cells, codes and sketches: numbers that a second lab gets again from its own rows.

A number ``z`` lies at the position ``z / width + u`` on a line that is cut into cells of length 1,
``u`` uniform from the shared coins. The *original* publishes where inside its cell the number lies,
to ``bits`` bits: the *sketch*. A *replication* with a number nearby reads the sketch, and gets the
original's code: a secure sketch by code offset [DORS08].

With ``bits = 0`` there is no sketch, and nobody is first: the rounding of the paper.
"""

from dataclasses import dataclass

import numpy as np

from replearn.codes.coins import Coins
from replearn.types import Codes, Vector

#: The stream of the coins that shift the cells.
STREAM = "cells"


@dataclass(frozen=True)
class Cells:
    """Shifted cells of one or more numbers.

    Attributes
    ----------
    widths : array of shape (n,)
        Of a cell, in the units of the numbers.
    shifts : array of shape (n,)
        Uniform on ``[0, 1)``, from the shared coins.
    bits : int
        Published for each number, 0 to 8.

    Notes
    -----
    The residual ``z - decoded`` of an original is uniform on ``+-width / 2^(bits + 1)`` and
    independent of all data; a replication's code differs if and only if its number minus the
    decoded one leaves ``+-width / 2``. Tested in tests/theory/test_sketch.py.

    Examples
    --------
    >>> cells = Cells(np.array([1.0]), np.array([0.3]), bits=3)
    >>> codes, sketch = cells.publish(np.array([5.0]))
    >>> cells.replicate(np.array([5.4]), sketch) == codes
    array([ True])
    >>> cells.decode(codes, sketch)
    array([4.95])
    """

    widths: Vector
    shifts: Vector
    bits: int

    @classmethod
    def drawn(cls, widths: Vector, bits: int, coins: Coins, stream: str = STREAM) -> "Cells":
        """Cells whose shifts come from the shared coins."""
        return cls(widths, coins.uniforms(stream, widths.size), bits)

    def publish(self, z: Vector) -> tuple[Codes, Codes]:
        """Codes and sketch of an original's numbers."""
        parts = 1 << self.bits
        places = np.floor(parts * (z / self.widths + self.shifts) + 0.5).astype(np.int64)
        sketch = places % parts
        return (places - sketch) // parts, sketch

    def replicate(self, z: Vector, sketch: Codes) -> Codes:
        """Codes of a replication's numbers, given the original's sketch."""
        return np.floor(self.offsets(z, sketch) + 0.5).astype(np.int64)

    def offsets(self, z: Vector, sketch: Codes) -> Vector:
        """Where numbers lie on the line, in cells: a code is the nearest whole number."""
        return (z / self.widths + self.shifts) - sketch / (1 << self.bits)

    def decode(self, codes: Codes, sketch: Codes) -> Vector:
        """The numbers that codes and sketch stand for."""
        places = codes * (1 << self.bits) + sketch
        return (places / (1 << self.bits) - self.shifts) * self.widths
