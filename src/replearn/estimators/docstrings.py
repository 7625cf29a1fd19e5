"""What parameters and attributes of estimators, and of functions for sites, mean, written once.

Users read complete docstrings in ``help()``, notebooks and the documentation. In the source a line
such as ``{n_jobs, verbose}`` stands for the entries of these names.
"""

import re
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

_TWO_LABS = """\
Two labs that fit on different samples of one population, with the same parameters and
``shared_seed``, get exactly the same model with probability at least
``1 - max_disagreement`` (proved in certified mode given enough samples, estimated by
``certificate_`` in practical mode).
"""

_ENTRIES = """\
margin : float, default=0.1
    Margin that some halfspace has on the population, rows scaled to length 1.
max_error : float, default=0.05
    Share of new points that may be misclassified.
max_disagreement : float, default=0.1
    Probability that two labs may get different models.
failure_prob : float, default=0.05
    Probability that the error may exceed ``max_error``.
shared_seed : int or str, default=0
    Published; the same at every site.
fit_intercept : bool, default=True
    Append a constant 1 to each row (before rows are scaled to length 1).
random_state : int or None, default=None
    Private key of the permutation.
n_jobs : int or None, default=None
    Threads. The model does not depend on it.
verbose : int, default=0
    Print progress.
samples_per_site : int, default=100_000
    Rows that each lab is expected to have. It decides how wide the cells are, so it is part of
    what labs agree on; a lab may have more or fewer.
batch_size : int or "auto", default="auto"
    Rows that the plan asks for; paper mode uses exactly that many.
n_components, projection : "auto" or value, default="auto"
    Space of the net, by hand.
net : {"auto", "random", "lattice"}, default="auto"
    Independent random directions, or the integer vectors of a ball.
n_candidates : int or "auto", default="auto"
    Size of a random net, by hand.
class_weight : dict or None, default=None
    Published weights of the classes: how much the loss of their rows counts. Only ratios
    matter. "balanced" would differ between labs: a plan from a pilot publishes numbers for it.
hint : int or None, default=None
    What the first lab published. With hint bits and no hint, this fit is the first, and sets
    ``hint_``.
protocol : Protocol
    Of a logistic study, or of Algorithm 1.
after : CoalitionRound, optional
    What the coalition published after the last round; None in the first.
site : str, optional
    A name for the site, which stands in its file.
few_rows : bool, default=False
    Allow fewer than 100 rows, whose sums may tell what is in single ones.
allow_unknown : bool, default=False
    Go on although columns are coded differently than the protocol says.
model_ : Model
    The integers that are the classifier.
hint_ : int
    The hint that was used: given, or chosen by this fit as the first.
fingerprint_ : str
    SHA-256 of the model's canonical bytes: equal models, equal fingerprints.
certificate_ : Certificate
    How likely another lab gets the same model.
coef_ : array of shape (1, n_features)
intercept_ : array of shape (1,)
classes_ : array of shape (2,)
n_features_in_ : int
feature_names_in_ : array of str, if X had column names
"""

# by name; an entry of two names is found under the first
_SHARED = {re.split("[, ]", entry)[0]: entry for entry in re.findall(r"\w.*\n(?: .*\n)*", _ENTRIES)}
_SHARED["two_labs"] = _TWO_LABS

Documented = TypeVar("Documented", bound=Callable[..., Any])


def with_shared_entries(documented: Documented) -> Documented:
    """Fill in the lines ``{name, name}`` of the docstring of a class or a function."""

    def filled(line: re.Match[str]) -> str:
        entries = "".join(_SHARED[name] for name in line["names"].split(", "))
        return textwrap.indent(entries, line["indent"])

    if documented.__doc__:  # python -OO leaves none
        pattern = r"^(?P<indent> *)\{(?P<names>[a-z_, ]+)\}\n"
        documented.__doc__ = re.sub(pattern, filled, documented.__doc__, flags=re.M)
    return documented
