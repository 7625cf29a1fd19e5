"""Models as plain, fitted scikit-learn objects, which need no replearn to be unpickled."""

from functools import partial
from typing import Any

import numpy as np

from replearn.errors import ReplearnError
from replearn.exports.rules import Rule, rule_of
from replearn.tables import WHITE_SPACE, LevelColumn
from replearn.types import Matrix


def to_sklearn(source: Any) -> Any:
    """Give a model as plain scikit-learn objects, fitted.

    Parameters
    ----------
    source : model or fitted estimator
        Of replearn.

    Returns
    -------
    model : Pipeline or LinearSVC
        Functions of NumPy in FunctionTransformers, and a LogisticRegression, or a LinearRegression
        of a number; around that of counts is a TransformedTargetRegressor. A halfspace, which has
        no probabilities, is a LinearSVC; with an intercept, of rows and their lengths.

    See Also
    --------
    to_onnx : a file that other languages run.
    to_csv : coefficients.

    Notes
    -----
    If the columns have names, it takes a dataframe of pandas with these; else an array. What the
    model refuses raises scikit-learn's errors. Levels may be texts, booleans or numbers. A text
    must be spelled as the model file has it: "01" is not the level 1, but one that is not named.
    Columns of numbers must hold numbers. Sparse rows must be made dense.

    With an estimator as ``source`` labels have its type, else that of the model file. The parts
    are those of scikit-learn [Pedregosa11] alone.

    References
    ----------
    .. [Pedregosa11] Pedregosa and others. Scikit-learn: machine learning in Python. Journal of
       Machine Learning Research 12, 2011.

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> model = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> plain = rl.to_sklearn(model)
    >>> bool(abs(plain.predict_proba(table) - model.predict_proba(table)).max() < 1e-9)
    True
    """
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.svm import LinearSVC

    rule = rule_of(source)
    classes = getattr(source, "classes_", rule.classes)
    if rule.link == "sign":
        if rule.length_weight:
            return _of_lengths(rule, classes)
        halfspace = _set(LinearSVC(), rule.weights.T, rule.constants, classes)
        if not rule.by_position:
            halfspace.feature_names_in_ = np.array(rule.names, dtype=object)
        return halfspace

    # products of two terms stand behind the terms
    weights, pairs = rule.blocks()
    steps = [("terms", _terms(rule))]
    if len(pairs):
        multiply = _chain(_function(np.take, indices=pairs, axis=1), _function(np.prod, axis=2))
        steps.append(("products", FeatureUnion([("terms", "passthrough"), ("two", multiply)])))
    return Pipeline([*steps, ("predict", _predictor(rule, weights.T, classes))])


def _of_lengths(rule: Rule, classes: Any) -> Any:
    """A halfspace of rows to which their lengths are appended."""
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.svm import LinearSVC

    length = _function(np.linalg.norm, axis=1, keepdims=True)
    both = FeatureUnion([("columns", "passthrough"), ("length", length)])
    weights = np.append(rule.weights[:, 0], rule.length_weight)[None, :]
    halfspace = _set(LinearSVC(), weights, rule.constants, classes)
    return Pipeline([("terms", _terms(rule)), ("lengths", both), ("predict", halfspace)])


def _set(estimator: Any, coef: Any, intercept: Any, classes: Any = None) -> Any:
    """An estimator whose fitted attributes are set."""
    estimator.coef_, estimator.intercept_ = np.array(coef), intercept
    estimator.n_features_in_ = estimator.coef_.shape[-1]
    if classes is not None:
        estimator.classes_ = np.asarray(classes)
    return estimator


def _predictor(rule: Rule, weights: Matrix, classes: Any) -> Any:
    """What turns terms into predictions."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.preprocessing import FunctionTransformer

    constants = rule.constants
    if len(constants) > 1:  # the first class has the score 0
        weights = np.vstack([np.zeros_like(weights[:1]), weights])
        constants = np.append(0.0, constants)
    if rule.classes is not None:
        return _set(LogisticRegression(), weights, constants, classes)
    regressor = _set(LinearRegression(), weights[0], float(constants[0]))
    if rule.link == "identity":
        return regressor
    rate = _chain(
        FunctionTransformer(inverse_func=np.exp),
        FunctionTransformer(inverse_func=partial(np.minimum, rule.largest)),
    )
    # fitted on two rows: it learns that targets are vectors, and nothing else
    counts = TransformedTargetRegressor(LinearRegression(), transformer=rate, check_inverse=False)
    counts.fit(np.zeros((2, weights.shape[1])), np.ones(2))
    counts.regressor_ = regressor
    return counts


def _function(function: Any, *arguments: Any, **options: Any) -> Any:
    """A step that calls a function of NumPy, with arguments before the rows and options."""
    from sklearn.preprocessing import FunctionTransformer

    return FunctionTransformer(partial(function, *arguments, **options))


def _chain(*steps: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return Pipeline([(f"step {i}", step) for i, step in enumerate(steps)])


def _terms(rule: Rule) -> Any:
    """Columns to terms in the order of `Rule.blocks`, without the products."""
    from sklearn.compose import ColumnTransformer

    if rule.by_position:
        return _numbers(rule)
    try:
        import pandas as pd
    except ImportError:
        raise ReplearnError("an export of named columns needs pandas. Install pandas.") from None
    parts: list[tuple[str, Any, list[str]]] = []
    if rule.numbers:
        parts.append(("numbers", _numbers(rule), [column.name for column in rule.numbers]))
    for i, column in enumerate(rule.levels):
        parts.append((f"levels {i}", _levels(rule, column, pd.NA), [column.name]))
    if rule.offset is not None:
        parts.append(("offset", _function(np.asarray, dtype=np.float64), [rule.offset]))
    # fitted on a row that stands for the columns: names are learned, no numbers
    cells: dict[str, list[Any]] = {name: [0.0] for name in rule.names}
    cells |= {column.name: [column.reference] for column in rule.levels}
    return ColumnTransformer(parts, sparse_threshold=0).fit(pd.DataFrame(cells))


def _numbers(rule: Rule) -> Any:
    """Scaled numbers, hats, and which numbers are missing."""
    from sklearn.pipeline import FeatureUnion

    low, high, centres, spreads = rule.scales()
    fill = []
    if not rule.refuses_missing:
        fill.append(_function(np.nan_to_num, nan=centres))
    clip = [_function(np.maximum, low), _function(np.minimum, high)]
    scaled = _chain(_function(np.add, -centres), _function(np.multiply, 1 / spreads))
    terms = [("scaled", scaled)]

    # a hat is the lower of its two lines, and not below 0
    owners, (below, top, above) = rule.hats()
    if len(owners):
        hats = _chain(
            _function(np.take, indices=np.stack([owners, owners], axis=1), axis=1),
            _function(np.add, -np.stack([below, above], axis=1)),
            _function(np.multiply, 1 / np.stack([top - below, top - above], axis=1)),
            _function(np.min, axis=2),
            _function(np.maximum, 0.0),
        )
        terms.append(("hats", hats))
    blocks = [("values", _chain(*fill, *clip, FeatureUnion(terms)))]
    if told := rule.indicators():
        missing = _chain(_function(np.take, indices=told, axis=1), _function(np.isnan))
        blocks.append(("missing", missing))
    return _chain(_function(np.asarray, dtype=np.float64), FeatureUnion(blocks))


def _levels(rule: Rule, column: LevelColumn, missing: Any) -> Any:
    """Terms of a column of levels: a row of a table."""
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OrdinalEncoder

    rows, other, table = rule.level_rows(column)
    order = [*rows.values(), other]  # of each known text, and of all others
    encoder = OrdinalEncoder(
        categories=[np.array(list(rows))],
        dtype=np.int64,
        handle_unknown="use_encoded_value",
        unknown_value=len(rows),
    )
    return _chain(
        _function(np.asarray, dtype=object),
        SimpleImputer(missing_values=missing, strategy="constant", fill_value=""),
        _function(np.asarray, dtype=str),
        _function(np.strings.strip, chars=WHITE_SPACE),
        encoder,
        _function(np.take, table[order], axis=0),
        _function(np.squeeze, axis=1),
    )
