"""What can go wrong, by name, and text that is safe in a message.

Every message gives the rule, the value and the remedy.
"""

import os
import re
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any


class ReplearnError(ValueError):
    """Base of all errors that replearn raises about its input.

    See Also
    --------
    InvalidFile : about a file.

    Notes
    -----
    Its message gives the rule, the value and the remedy. It is a ``ValueError``, as scikit-learn
    expects.

    Examples
    --------
    >>> import replearn as rl
    >>> try:
    ...     rl.plan("svm", n_features=3, margin=2)
    ... except rl.ReplearnError as error:
    ...     print(error)
    margin must be a number in (0, 1), got 2. It is a distance for rows of norm 1; try 0.1.
    """


class NotEnoughSamples(ReplearnError):
    """The mode promises a guarantee for which these rows are too few.

    Parameters
    ----------
    message : str
        Rule, value and remedy.
    available, needed : int
        Rows at hand, and rows that the plan needs; kept as attributes.

    See Also
    --------
    plan : says how many rows are needed before any are spent.

    Notes
    -----
    The modes "certified" and "paper" raise it; "practical" warns with a `ReplicabilityWarning`.

    Examples
    --------
    >>> error = NotEnoughSamples("the plan needs 500 rows, got 100. Get more.", 100, 500)
    >>> error.needed - error.available
    400
    """

    def __init__(self, message: str, available: int, needed: int) -> None:
        super().__init__(message)
        self.available = available
        self.needed = needed

    def __reduce__(self) -> tuple[type, tuple[str, int, int]]:
        return type(self), (str(self), self.available, self.needed)


class Unbounded(ReplearnError):
    """Rows have no bounded fit: some column nearly separates the classes."""


class NotSearchable(ReplearnError):
    """A net has more candidates than can be searched."""


class NotConverged(ReplearnError):
    """A fit did not come near its limit in the steps that it may take."""


class InvalidFile(ReplearnError):
    """A file that is not what it should be: torn, altered, hostile, or of a different kind.

    See Also
    --------
    load : raises it.

    Notes
    -----
    The message names the file, and the part of it that is wrong. Nothing of it was used.

    Examples
    --------
    >>> import os, tempfile, replearn as rl
    >>> path = os.path.join(tempfile.mkdtemp(), "study.json")
    >>> with open(path, "w") as file:
    ...     _ = file.write("{}")
    >>> try:
    ...     rl.load(path)
    ... except rl.InvalidFile:
    ...     print("not a file of replearn")
    not a file of replearn
    """


class ReplicabilityWarning(UserWarning):
    """The fit went through, but a second lab may well get a different model.

    See Also
    --------
    ReplicableSVMClassifier : its certificate has the probability.

    Notes
    -----
    Replicability is the probability, over two samples, of the same model [ILPS22].

    References
    ----------
    .. [ILPS22] Impagliazzo, Lei, Pitassi and Sorrell. Reproducibility in learning. STOC 2022.

    Examples
    --------
    >>> import warnings, replearn as rl
    >>> warnings.simplefilter("error", rl.ReplicabilityWarning)  # stop where labs may differ
    >>> issubclass(rl.ReplicabilityWarning, UserWarning)
    True
    """


class UselessModelWarning(UserWarning):
    """The model is constant, upside down, no better than guessing, or worse.

    See Also
    --------
    evaluate : measures a model.

    Notes
    -----
    Labs may agree on such a model: agreement says nothing about performance.

    Examples
    --------
    >>> import warnings, replearn as rl
    >>> warnings.simplefilter("error", rl.UselessModelWarning)  # stop where the model is useless
    >>> issubclass(rl.UselessModelWarning, UserWarning)
    True
    """


class ColumnWarning(UserWarning):
    """A column or a level has left the model, or is odd enough to be looked at.

    See Also
    --------
    check : says what is odd before a fit.

    Notes
    -----
    The remedy stands in the message; `replearn publish` prints the same sentences.

    Examples
    --------
    >>> import warnings, replearn as rl
    >>> warnings.simplefilter("error", rl.ColumnWarning)  # stop at odd columns
    >>> issubclass(rl.ColumnWarning, UserWarning)
    True
    """


def short(value: object, most: int = 60) -> str:
    """A value as Python writes it, or the start of that, for a message.

    Examples
    --------
    >>> short("a" * 100, most=10)
    "'aaaaaa..."
    >>> import numpy as np
    >>> short(np.int64(0)), short(np.array(3))
    ('0', 'array(3)')
    """
    if isinstance(value, str | bytes | list | tuple):
        value = value[:most]  # the text of a long one would take long
    if hasattr(value, "item") and not hasattr(value, "__len__"):
        value = value.item()  # a number of NumPy is written as any other

    text = repr(value)
    if len(text) > most:
        text = text[: most - 3] + "..."
    return text


def whole_number(name: str, value: Any, remedy: str = "", least: int = 1) -> int:
    """A whole number of any library as an int, or the error that says what it must be.

    Examples
    --------
    >>> import numpy as np
    >>> whole_number("n_rows", np.int64(3))
    3
    """
    if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least:
        return int(value)
    raise ReplearnError(
        f"{name} must be a whole number of at least {least}, got {short(value)}. {remedy}".rstrip()
    )


def instance(name: str, value: Any, kind: type, remedy: str) -> None:
    """Refuse what is not of this class.

    Examples
    --------
    >>> instance("state", 0, dict, "Pass that of begin.")
    Traceback (most recent call last):
    replearn.errors.ReplearnError: state must be of type dict, got 0. Pass that of begin.
    """
    if not isinstance(value, kind):
        raise ReplearnError(f"{name} must be of type {kind.__name__}, got {short(value)}. {remedy}")


def file_path(path: Any) -> None:
    """Refuse what names no file.

    Examples
    --------
    >>> file_path("study.json")
    """
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise ReplearnError(
            f"path must be a text or a path, got {short(path)}. Name a file: 'study.json'."
        )


def probability(name: str, value: Any, example: str = "0.01") -> float:
    """A real number of any library between 0 and 1 as a float, with the digits that it shows.

    Examples
    --------
    >>> import numpy as np
    >>> probability("max_disagreement", np.float32(0.01))
    0.01
    """
    if is_real(value) and 0 < value < 1:
        return plain_float(value)
    raise ReplearnError(
        f"{name} must be in (0, 1), got {short(value)}. It is a probability; for "
        f"{float(example):.0%} pass {example}."
    )


def one_of(name: str, value: Any, choices: Sequence[Any]) -> None:
    """Refuse a value that is none of these; True is not 1.

    Examples
    --------
    >>> one_of("basis", "linear", ("linear", "splines"))
    """
    if isinstance(value, bool) or value not in choices:
        words = ", ".join(repr(choice) for choice in choices if choice is not None)
        raise ReplearnError(f"{name} must be one of {words}, got {short(value)}.")


def is_real(value: Any) -> bool:
    """Whether a value is a real number of any library; True is none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def plain_float(value: Any) -> float:
    """The float64 with the digits of a number: those of a float32 are fewer than its bits."""
    if hasattr(value, "dtype"):  # of NumPy and its like
        return float(str(value))
    return float(value)


#: What moves the cursor, changes colours, ends a line, turns the direction of writing, or cannot be
#: written at all: control characters, separators of lines, marks of direction, halves of pairs.
_STEERING = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""One line in which nothing steers a terminal: names and labels in files are not ours.

    Examples
    --------
    >>> printable("a\x1b[2Jb\nc")
    'a?[2Jb?c'
    """
    return _STEERING.sub("?", text)
