"""Models as plain, fitted scikit-learn objects, which need no replearn to be unpickled."""

import math
import re
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn.codes.encoding import CategoryColumn, Column, Encoding, NumberColumn
from replearn.errors import ReplearnError
from replearn.exports.rules import Rule, check_text, model_of, rule_of


def to_sklearn(source: Any, *, encoded: bool = False, large: bool = False) -> Any:
    """Give a model as plain scikit-learn objects, fitted.

    Parameters
    ----------
    source : Model or fitted classifier
        What is exported.
    encoded : bool, default=False
        Of a model with an encoding: leave the encoding out, and take rows that the model's
        ``encoding.transform`` has encoded.
    large : bool, default=False
        Decode a model of more than 2^18 features, or a map of more than 2^24 numbers, from a file.

    Returns
    -------
    LinearSVC
        For a halfspace, or one for each of more than two classes. It has no probabilities, which
        the model does not have either, and no ``partial_fit``, which would change it.
    VotingClassifier
        For a majority of halfspaces: plain LinearSVCs that vote. Ties go to the first class, as in
        the model. It has no ``decision_function``; ``transform`` gives the votes.
    Pipeline
        With an encoding, unless ``encoded``: a ColumnTransformer for dataframes with the raw
        columns, then the classifier. Needs pandas to be made, and a dataframe to predict.

        For a logistic model: a step that shortens rows beyond the published length, then a
        LogisticRegression; in a FixedThresholdClassifier, unless the threshold is one half.
        Its ``decision_function`` is the log-odds. For a regression the same with a
        LinearRegression.

    Notes
    -----
    Predictions are those of the model; scores are, up to rounding: sums may run in another order.
    With a classifier as ``source`` the labels have its type, else that of the model file.

    Columns of categories must hold text or, if all published categories are whole numbers,
    numbers. Other values raise scikit-learn's errors.

    Examples
    --------
    >>> from replearn import ReplicableSVMClassifier, datasets
    >>> X, y = datasets.make_margin(4000, 3, margin=0.3, random_state=0)
    >>> classifier = ReplicableSVMClassifier(margin=0.3, max_error=0.2).fit(X, y)
    >>> plain = to_sklearn(classifier)
    >>> type(plain).__name__, bool((plain.predict(X) == classifier.predict(X)).all())
    ('LinearSVC', True)
    """
    from sklearn.pipeline import Pipeline

    model = model_of(source, large)
    rule = rule_of(model)
    classes = np.asarray(getattr(source, "classes_", model.classes))
    # features that an encoder made come as an array: names would only make scikit-learn warn
    names = None if model.encoding is not None else model.feature_names
    steps: list[tuple[str, Any]] = []
    if model.encoding is not None and not encoded:
        steps.append(("encode", _encoder(model.encoding)))
    if rule.threshold is not None or model.is_numeric:
        steps.append(("shorten", _shortener(rule.cap, model.n_features, names)))
    if model.is_numeric:
        return Pipeline([*steps, ("regress", _regression(rule))])
    if rule.threshold is not None:
        classifier = _logistic(rule, rule.threshold, classes)
    elif model.is_halfspace:
        places = list(range(len(rule.weights)))  # more than one of more than two classes
        classifier = _linear(rule, places, classes, names)
    else:
        classifier = _majority(rule, classes, names)
    if not steps:
        return classifier
    return Pipeline([*steps, ("classify", classifier)])


def _linear(
    rule: Rule, places: list[int], classes: NDArray[Any], names: tuple[str, ...] | None
) -> Any:
    """Halfspaces of a rule: a LinearSVC whose fitted attributes are set."""
    from sklearn.svm import LinearSVC

    classifier = LinearSVC()
    classifier.classes_ = classes
    classifier.coef_ = rule.weights[places]  # a copy: the model cannot be changed through it
    classifier.intercept_ = rule.intercepts[places]
    classifier.n_features_in_ = rule.weights.shape[1]
    if names is not None:
        classifier.feature_names_in_ = np.array(names, dtype=object)
    return classifier


def _logistic(rule: Rule, threshold: float, classes: NDArray[Any]) -> Any:
    """Log-odds: a LogisticRegression, with the threshold around it if that is not one half."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import FixedThresholdClassifier

    classifier = LogisticRegression()
    classifier.classes_ = classes
    classifier.coef_ = rule.weights.copy()  # of two classes one row, else one for each
    classifier.intercept_ = rule.intercepts + threshold
    classifier.n_features_in_ = rule.weights.shape[1]
    classifier.n_iter_ = np.array([1], dtype=np.int32)
    if threshold == 0:
        return classifier
    # from the next number on: a row on the threshold gets the first label, as in the model
    above = float(np.nextafter(threshold, math.inf))
    fixed = FixedThresholdClassifier(
        classifier, threshold=above, response_method="decision_function"
    )
    fixed.estimator_ = classifier
    fixed.n_features_in_ = classifier.n_features_in_
    return fixed


def _regression(rule: Rule) -> Any:
    """A LinearRegression whose fitted attributes are set."""
    from sklearn.linear_model import LinearRegression

    regressor = LinearRegression()
    regressor.coef_ = rule.weights[0].copy()
    regressor.intercept_ = float(rule.intercepts[0])
    regressor.n_features_in_ = rule.weights.shape[1]
    return regressor


def _shortener(cap: float, n_features: int, names: tuple[str, ...] | None) -> Any:
    """Rows of at most a length, dense or CSR, in parts of scikit-learn only.

    A row x becomes ``(x / u, 1, ||x|| / cap)``, with a power of two u above the cap. The largest
    of these numbers is one of the last two, ``max(1, ||x|| / cap)``, and dividing by it is what
    ``Normalizer`` does. The last two are left out, and the rest is multiplied by u again.
    """
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.metrics.pairwise import euclidean_distances, polynomial_kernel
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.preprocessing import FunctionTransformer, Normalizer
    from sklearn.utils import check_array

    unit = 2.0 ** max(0, math.frexp(cap)[1])
    # validated, so that names are checked; then doubles, as in the model
    as_doubles = FunctionTransformer(
        check_array,
        kw_args={"accept_sparse": "csr", "dtype": np.float64},
        validate=True,
        accept_sparse=True,
    )
    as_doubles.n_features_in_ = n_features
    if names is not None:
        as_doubles.feature_names_in_ = np.array(names, dtype=object)
    origin = np.zeros((1, n_features))
    to_origin = FunctionTransformer(euclidean_distances, kw_args={"Y": origin}, accept_sparse=True)
    one = {"Y": origin, "degree": 1, "gamma": 1.0, "coef0": 1.0}
    widened = FeatureUnion(
        [
            ("rows", _scaler([unit] * n_features)),
            ("one", FunctionTransformer(polynomial_kernel, kw_args=one, accept_sparse=True)),
            ("length", Pipeline([("measure", to_origin), ("over cap", _scaler([cap]))])),
        ]
    )
    without_last_two = VarianceThreshold()
    without_last_two.variances_ = np.array([1.0] * n_features + [0.0, 0.0])
    without_last_two.n_features_in_ = n_features + 2
    return Pipeline(
        [
            ("check", as_doubles),
            ("widen", widened),
            ("divide", Normalizer(norm="max")),
            ("select", without_last_two),
            ("unscale", _scaler([1 / unit] * n_features)),
        ]
    )


def _scaler(scales: list[float]) -> Any:
    """A fitted scaler that divides the columns by numbers."""
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(with_mean=False)
    scaler.scale_ = np.array(scales)
    scaler.var_ = scaler.scale_**2
    scaler.mean_ = None
    scaler.n_features_in_ = len(scales)
    scaler.n_samples_seen_ = 1
    return scaler


def _majority(rule: Rule, classes: NDArray[Any], names: tuple[str, ...] | None) -> Any:
    """Halfspaces that vote; scikit-learn's voters work on the places of the labels."""
    from sklearn.ensemble import VotingClassifier
    from sklearn.preprocessing import LabelEncoder
    from sklearn.utils import Bunch

    places = np.array([0, 1])
    voters = {f"vote{i}": _linear(rule, [i], places, names) for i in range(len(rule.weights))}
    majority = VotingClassifier(list(voters.items()), voting="hard")
    majority.estimators_ = list(voters.values())
    majority.named_estimators_ = Bunch(**voters)
    majority.le_ = LabelEncoder()
    majority.le_.classes_ = majority.classes_ = classes
    if names is not None:
        majority.feature_names_in_ = np.array(names, dtype=object)
    return majority


# --- encodings ------------------------------------------------------------------------------


def _encoder(encoding: Encoding) -> Any:
    """The encoding as a ColumnTransformer; its outputs have the order of the model's features."""
    from sklearn.compose import ColumnTransformer

    for column in encoding.columns:
        for text in (column.name, *getattr(column, "values", ())):
            check_text(text, "a name or category", "scikit-learn")
    runs = [list(run) for _, run in groupby(encoding.columns, key=_kind)]
    steps = [
        (f"{_kind(run[0])} {i}", _transformer(run), [column.name for column in run])
        for i, run in enumerate(runs)
    ]
    # fitted on a row that stands for the columns: names and types are learned, no numbers
    encoder = ColumnTransformer(steps, sparse_threshold=0).fit(_row(encoding))
    for run, (name, _, _) in zip(runs, steps, strict=True):
        numbers = [column for column in run if isinstance(column, NumberColumn)]
        if numbers or _has_scales(run):
            scaler = encoder.named_transformers_[name]["scale"]
            if numbers:
                scaler.mean_ = np.array([float(column.centre) for column in numbers])
            scaler.scale_ = np.array([scale for column in run for scale in _scales(column)])
            scaler.var_ = scaler.scale_**2
    return encoder


def _categories(run: list[Column]) -> list[CategoryColumn]:
    return [column for column in run if isinstance(column, CategoryColumn)]


def _scales(column: Column) -> list[float]:
    """What the outputs of a column are divided by."""
    if isinstance(column, NumberColumn):
        return [float(column.scale)]
    return [float(scale) for scale in column.scales or ["1"] * column.n_outputs]


def _has_scales(run: list[Column]) -> bool:
    return any(column.scales for column in _categories(run))


def _kind(column: Column) -> str:
    """Columns of one kind are transformed together, while they stand side by side."""
    if isinstance(column, NumberColumn):
        return "numbers or missing" if column.fill_missing else "numbers"
    kind = "codes" if all(map(_is_whole, column.values)) else "text"
    return f"{kind} or other" if column.other else kind


def _transformer(run: list[Column]) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    kind = _kind(run[0])
    # doubles first, as in the model: a scaler would compute single precision in single precision
    as_numbers = FunctionTransformer(
        np.asarray, kw_args={"dtype": "float64"}, feature_names_out="one-to-one"
    )
    if kind.startswith("numbers"):
        steps = [("as numbers", as_numbers), ("scale", StandardScaler())]
        if kind == "numbers or missing":
            steps.append(("fill", SimpleImputer(strategy="constant", fill_value=0.0)))
        return Pipeline(steps)
    categories = _categories(run)
    if kind.endswith("other"):
        missing = ["nan"] if kind.startswith("codes") else [None, np.nan]
        indicators = _indicators_or_other(categories, missing)
    else:
        indicators = OneHotEncoder(
            categories=[list(column.values) for column in categories],
            handle_unknown="ignore",
            sparse_output=False,
        )
    scale = [("scale", StandardScaler(with_mean=False))] if _has_scales(run) else []
    if kind.startswith("text"):
        return Pipeline([("indicate", indicators), *scale]) if scale else indicators
    # 1, 1.0 and "1" are one category, written 1; a missing number is written nan, which is none
    as_text = FunctionTransformer(partial(np.strings.mod, "%.17g"), feature_names_out="one-to-one")
    return Pipeline(
        [("as numbers", as_numbers), ("as text", as_text), ("indicate", indicators), *scale]
    )


def _indicators_or_other(columns: list[CategoryColumn], missing: list[Any]) -> Any:
    """Indicators with a last one for texts that are not published, and none for a missing one.

    The last one is 1 minus all others, those of missing values included: a product with a matrix,
    of rows that begin with a 1.
    """
    from scipy.linalg import block_diag
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

    encoder = OneHotEncoder(
        categories=[np.array([*column.values, *missing], dtype=object) for column in columns],
        handle_unknown="ignore",
        sparse_output=False,
    )
    blocks, constants = [], []
    for column in columns:
        n_values = len(column.values)
        block = np.zeros((n_values + len(missing), n_values + 1))
        block[:n_values, :n_values] = np.eye(n_values)
        block[:, -1] = -1.0
        blocks.append(block)
        constants.append(np.eye(n_values + 1)[-1])
    matrix = np.vstack([np.concatenate(constants), block_diag(*blocks)])
    one_first = {"pad_width": ((0, 0), (1, 0)), "constant_values": 1.0}
    return Pipeline(
        [
            ("indicate", encoder),
            ("one", FunctionTransformer(np.pad, kw_args=one_first)),
            ("others", FunctionTransformer(np.dot, kw_args={"b": matrix})),
        ]
    )


def _is_whole(text: str) -> bool:
    """Whether a category is a whole number, written as a model writes it."""
    return re.fullmatch(r"0|-?[1-9][0-9]{0,14}", text) is not None


def _row(encoding: Encoding) -> Any:
    """A dataframe of one row."""
    try:
        import pandas as pd
    except ImportError:
        raise ReplearnError(
            "a scikit-learn pipeline for raw columns needs pandas to be made. Install pandas, or "
            "pass encoded=True for a classifier of encoded rows."
        ) from None
    cells = {
        column.name: [column.values[0] if isinstance(column, CategoryColumn) else 0.0]
        for column in encoding.columns
    }
    return pd.DataFrame(cells)
