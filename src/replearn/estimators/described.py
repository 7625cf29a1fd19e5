"""Parts of docstrings that several estimators share, so that each page of them is whole."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar, dataclass_transform

C = TypeVar("C", bound=type)

#: Where the head of an algorithm's module ends, and its constants begin.
_END_OF_PRINTED = ("**Our constants**", "What is proved here")

_PAPER = """Alkis Kalavasis, Amin Karbasi, Kasper Green Larsen, Grigoris Velegkas and Felix Zhou:
    Replicable Learning of Large-Margin Halfspaces. ICML 2024. https://arxiv.org/abs/2402.13857"""

#: Parts by the name that stands for them in a docstring.
_PARTS = {
    # ---------------------------------------------------------------- the paper's classifiers
    "promise": """margin : float, default=0.1
        Assumed margin: some halfspace separates the unit-norm examples with it.
    max_error : float, default=0.05
        Share of new rows that the model may get wrong. In practical mode this is a mean over
        seeds: a single seed may cost several times as much, above all with an intercept, which
        all rows share.
    max_disagreement : float, default=0.1
        Probability that two labs get different models.
    failure_prob : float, default=0.05
        Probability that the error is larger than ``max_error``.
    shared_seed : int or str, default=0
        Seed shared by all labs; public; must not depend on the data.
    mode : {"practical", "certified", "paper"}, default="practical"
        Where the sizes come from: calibrated on simulations, proved with explicit constants, or
        as the paper prints them.
    fit_intercept : bool or None, default=None
        Append a constant 1 to ``x / |x|``: scores are ``<coef_, x> + intercept_ |x|``, and no unit
        of the columns counts. Sizes are then those of ``margin / sqrt(2)``. None is True, but
        False in paper mode; in a replication None is what the study says.
    shuffle : bool, default=True
        Put the rows in random order first, by a key that depends on their number alone.
    random_state : int or None, default=None
        A private key for that order; by default the key comes from the shared seed.
    n_jobs : int or None, default=None
        Number of threads. Does not affect the result.
    verbose : int, default=0
        Above 0: show progress.
    constants : dict or None, default=None
        Paper mode: constants of the printed formulas by symbol; 1 unless given.""",
    "batch_sizes": """n_batches : int or None, default=None
        Number of batches; None is the planned one, here and below.
    batch_size : int or None, default=None
        Rows of a batch.
    n_components : int or None, default=None
        Components after the projection.
    grid_width : float or None, default=None
        Side of a cell of the shared grid.
    projection : {"none", "hadamard", "rotation", "gaussian"} or None, default=None
        How directions are mapped to components; the paper's is Gaussian.
    rounding : {"ak", "centre", "e8", "leech"}, several joined by "+", or None, default=None
        How components become codes: the paper's randomised rounding, centres of cubes, or cells
        of a lattice.
    regularization : float or None, default=None
        Weight of ``|u|^2 / 2`` beside the mean hinge loss.
    sketch_bits : int, default=0
        Bits about each component that this original publishes, 0 to 4. With 0 nobody is first.
    study : HalfspaceStudy, path, fitted estimator or None, default=None
        The study of an original: this fit is then a replication.
    trace : bool, default=False
        Keep every intermediate result of the fit, by the paper's letters, in ``trace_``.""",
    "net_sizes": """n_components : int or None, default=None
        Components of a candidate; None is the planned number, here and below.
    projection : {"none", "hadamard", "rotation", "gaussian"} or None, default=None
        How directions are mapped to components; the paper's is Gaussian.
    n_candidates : int or None, default=None
        Size of the net.
    n_rows : int or None, default=None
        Rows of a lab, for paper mode.""",
    "batch_fitted": """{fitted}
    plan_ : BatchPlan
        Sizes that were used.
    study_ : HalfspaceStudy
        With a sketch: what other labs need to replicate the model.
    replication_ : HalfspaceReplication
        With ``study``: whether this is the original's model.
    trace_ : Trace
        With ``trace``: vectors of batches, mean, projection, offsets, thresholds and codes.""",
    "fitted": """model_ : HalfspaceModel
        Design and codes: what `replearn.save` writes, and labs compare.
    fingerprint_ : str
        SHA-256 of the model's canonical bytes, in hex: equal if and only if the models are.
    coef_ : array of shape (1, n_features)
        Weights of the features.
    intercept_ : array of shape (1,)
        Weight of a row's length.
    classes_ : array of shape (2,)
        Labels; a positive score means the second.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of str
        Names of the columns, where they have names.
    n_rows_ : int
        Rows of the fit.
    certificate_ : Bound
        How likely two labs are to differ: proved, or estimated from these rows.
    counts_ : dict
        What was counted on the way: batches, rows left over, errors on these rows.""",
    "paper": _PAPER,
    "two_labs": """>>> import replearn as rl
    >>> samples = [rl.datasets.make_margin(20_000, 3, margin=0.3, random_state=i) for i in (1, 2)]
    >>> promise = {"margin": 0.3, "max_error": 0.1, "shared_seed": 2024}
    >>> first, second = (rl.{name}(**promise).fit(X, y) for X, y in samples)
    >>> second.fingerprint_ == first.fingerprint_
    True
    >>> bool(second.score(*samples[0]) > 0.95)
    True""",
    # ---------------------------------------------------------------- models of studies
    "original": """max_disagreement : float, default=0.01
        Planned probability that a replication gets a different model.
    sketch_bits : int, default=8
        Bits published about each coefficient, 0 to 8. More bits mean finer rounding.
    between : "typical", 0 or (constant, slopes), default="typical"
        How much the truth differs between centres: as it typically does, not at all (all labs
        sample one population), or with these standard deviations of the mean score and of slopes.
        Where ``fit`` has ``centres``, they show it.
    constant : "shared" or "local", default="shared"
        Local: labs agree on slopes, and each fits a constant of its own, which is no part of the
        fingerprint.
    basis : "linear", "splines" or "auto", default="linear"
        How numbers enter; "auto" takes the one with less held-out loss.
    interactions : "all", pairs of columns or None, default=None
        Products of columns. They are shrunk more than columns where that predicts better.
    ridge : float or "auto", default="auto"
        Weight of half the squared length of the standardised coefficients, beside the mean loss.
    missing : "indicator" or "refuse", default="indicator"
        A missing number gets a coefficient of its own, or is an error.
    replication_rows : int or None, default=None
        Rows of the smallest replication that is promised the model; by default as many as here.
    shared_seed : int or str, default=0
        Seed shared by all labs; public; must not depend on the data.
    categories : sequence of str, default=()
        Columns that are levels, though they hold numbers.
    numeric : sequence of str, default=()
        Columns that are measurements, whatever they look like.
    drop : sequence of str, default=()
        Columns to leave out.
    sealed : bool, default=False
        Whether the study tells nobody that they got its model, until it is opened with `opening_`.
    n_jobs : int or None, default=None
        Number of threads. Does not affect the result.
    opened : path, model, opening, fitted estimator, or a sequence of them, default=None
        What opens the study: the original's model, and the opening of a sealed one.
    study : GlmStudy, path, fitted estimator or None, default=None
        The study to replicate; the options above are then the study's.
    verbose : int, default=0
        Above 0: show progress.""",
    "glm_fitted": """study_ : GlmStudy
        Of an original: what to publish. Of a replication: what it replicated.
    model_ : GlmModel
        The model after rounding.
    fingerprint_ : str
        SHA-256 of the model, in hex: equal if and only if the models are.
    certificate_ : Certificate or None
        Of an original: how likely a replication gets this model; estimated, not proved.
    opening_ : Opening or None
        Of a sealed original: what opens its study; keep it until all labs have their models.
    replication_ : GlmReplication or None
        Of a replication: whether it is the original's model, and whether these rows support it.
    performance_ : Performance
        Cross-validated, after rounding; of a replication, that of the original's model here.
    coefficients_ : Coefficients
        The model's, and this lab's own estimates with standard errors and 95% intervals;
        ``pandas.DataFrame(estimator.coefficients_.columns)`` is a dataframe.
    coef_ : array
        Coefficients of the terms, per unit of their columns.
    intercept_ : array
        Constants that go with ``coef_``.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : array of str
        Names of the columns, where they have names.""",
}


@dataclass_transform(eq_default=False, kw_only_default=True)
def estimator(printed: ModuleType | None = None) -> Callable[[C], C]:
    """Make a class whose fields are the parameters of an estimator, by name.

    Parts of its docstring that several classes share are filled in; ``{printed}`` is the head of
    the algorithm's module: the paper's pseudo-code and theorem.
    """
    parts = dict(_PARTS)
    if printed is not None:
        parts["printed"] = _head(printed.__doc__ or "")

    def made(cls: C) -> C:
        text = cls.__doc__ or ""
        for name, part in (*parts.items(), ("name", cls.__name__)):
            text = text.replace(f"{{{name}}}", part)
        cls.__doc__ = text
        dataclass(eq=False, repr=False, kw_only=True)(cls)  # changes the class itself
        return cls

    return made


def _head(text: str) -> str:
    """What a module says of the algorithm as it is printed, indented as a class's docstring."""
    # the first paragraph names the module; what comes after the head is ours
    head = text.split("\n\n", 1)[1]
    for end in _END_OF_PRINTED:
        head = head.split(end, 1)[0]
    return "\n    ".join(head.strip().splitlines()).replace("\n    \n", "\n\n")
