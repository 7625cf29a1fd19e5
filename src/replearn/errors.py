"""What can go wrong, by name. Every message gives the rule, the value and the remedy."""


class ReplearnError(ValueError):
    """Base of all errors that replearn raises about its input.

    Examples
    --------
    >>> import replearn as rl
    >>> try:
    ...     rl.plan("svm", n_features=5, max_disagreement=5)
    ... except rl.ReplearnError as error:
    ...     print(error)
    max_disagreement must be a number in (0, 1), got 5. It is a probability; for 5 % pass 0.05.
    """


class NotEnoughSamples(ReplearnError):
    """The mode promises a guarantee for which these rows are too few.

    Parameters
    ----------
    message : str
        Rule, value and remedy.
    available, needed : int
        Rows at hand, and rows that the plan needs; kept as attributes.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(100, 3, margin=0.3, random_state=0)
    >>> try:
    ...     rl.ReplicableSVMClassifier(margin=0.3, mode="certified").fit(X, y)
    ... except rl.NotEnoughSamples as error:
    ...     print(error.available, error.needed > 1_000_000)
    100 True
    """

    def __init__(self, message: str, available: int, needed: int) -> None:
        super().__init__(message)
        self.available = available
        self.needed = needed

    def __reduce__(self) -> tuple[type, tuple[str, int, int]]:
        return type(self), (str(self), self.available, self.needed)


class NoModel(ReplearnError, AttributeError):
    """The rows of a stream make no model; an AttributeError, so that ``hasattr`` says no."""


class NoModelYet(NotEnoughSamples, NoModel):
    """The rows of a stream are too few, so far, for the promise of its mode."""


class InvalidFile(ReplearnError):
    """A model or protocol file that is not what it should be.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import replearn as rl
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.model.json")
    ...     size = path.write_text("{}")
    ...     try:
    ...         rl.load(path)
    ...     except rl.InvalidFile:
    ...         print("no model")
    no model
    """


class ReplicabilityWarning(UserWarning):
    """The fit went through, but a second lab may well get another model.

    Examples
    --------
    >>> import warnings
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(1000, 3, margin=0.3, random_state=0)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", rl.ReplicabilityWarning)
    ...     try:
    ...         fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.001).fit(X, y)
    ...     except rl.ReplicabilityWarning:
    ...         print("another lab may get another model")
    another lab may get another model
    """


class UselessModelWarning(UserWarning):
    """The model is constant, upside down, no better than guessing, or worse.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     found = rl.evaluate(fitted, X, -y)  # labels the other way round
    >>> caught[0].category.__name__
    'UselessModelWarning'
    """


def short(value: object, most: int = 60) -> str:
    """A value as Python writes it, or the start of that, for a message."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."
