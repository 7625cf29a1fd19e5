"""What can go wrong, by name. Every message gives the rule, the value and the remedy."""


class ReplearnError(ValueError):
    """Base of all errors that replearn raises about its input."""


class NotEnoughSamples(ReplearnError):
    """The mode promises a guarantee for which these rows are too few.

    Attributes
    ----------
    available, needed : int
        Rows at hand, and rows that the plan needs.
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
    """A model or protocol file that is not what it should be."""


class ReplicabilityWarning(UserWarning):
    """The fit went through, but a second lab may well get another model."""


class UselessModelWarning(UserWarning):
    """The model is constant, upside down, no better than guessing, or worse."""
