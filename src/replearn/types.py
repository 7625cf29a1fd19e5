"""Array aliases used in every signature."""

import html
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Codes = NDArray[np.int64]
IntegerArray = NDArray[np.int64]
Words = NDArray[np.uint64]
Order = NDArray[np.int64]
Signs = NDArray[np.int8]


def refuse_not_finite(X: Any, refused: Callable[[int, int, float], Exception]) -> None:
    """Raise what ``refused`` makes of row, column and value of the first NaN or infinity, if any.

    Nearly all tables have a finite sum, and then no array of flags is made.
    """
    sparse = hasattr(X, "indptr")
    values = X.data if sparse else X
    with np.errstate(all="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():
            return
    place = int(np.argmin(np.isfinite(values)))
    if sparse:
        row, column = int(np.searchsorted(X.indptr, place, side="right")) - 1, int(X.indices[place])
    else:
        row, column = divmod(place, X.shape[1])
    raise refused(row, column, float(values.flat[place]))


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse matrix or array of SciPy; it is not loaded for the answer."""
    return any(kind.__module__.startswith("scipy.sparse") for kind in type(X).__mro__)


class InNotebooks:
    """What is printed as text, as HTML for notebooks: its first line as a heading."""

    def _repr_html_(self) -> str:
        head, _, rest = str(self).partition("\n")
        return (
            f'<div class="replearn"><strong>{html.escape(head)}</strong>'
            f'<pre style="margin:0.3em 0 0 0">{html.escape(rest)}</pre></div>'
        )


class Drawable(InNotebooks):
    """What can also draw a picture of itself."""

    def plot(self, ax: Any = None) -> Any:
        """Draw it; needs matplotlib (the extra "report").

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default on those of a new figure.

        Returns
        -------
        ax : matplotlib axes
        """
        # a picture is a view from above: the room that draws knows all of these, not they it
        return import_module("replearn.audits.pictures").plotted(self, ax)


#: A backend: applies a function to block descriptors, in any order, anywhere.
BlockMap = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
