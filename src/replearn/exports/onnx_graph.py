"""Models as ONNX graphs in double precision, written node by node."""

import json
import math
from collections.abc import Iterable
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replearn import __version__
from replearn.codes.encoding import CategoryColumn, Column, Encoding, NumberColumn
from replearn.codes.model import FORMAT, Model
from replearn.errors import ReplearnError
from replearn.exports.rules import Rule, check_text, model_of, rule_of

#: Of the year 2020, so that old runtimes read the file; set, so that new releases of onnx write
#: the same bytes.
_OPSET, _ML_OPSET, _IR_VERSION = 13, 1, 7


def to_onnx(
    source: Any, *, encoded: bool = False, single_precision: bool = False, large: bool = False
) -> bytes:
    """Write a model as an ONNX file.

    Parameters
    ----------
    source : Model or fitted classifier
        What is exported.
    encoded : bool, default=False
        Of a model with an encoding: leave the encoding out, and take a matrix of encoded rows.
    single_precision : bool, default=False
        Numbers come in as float32. The graph computes in double precision in any case.
    large : bool, default=False
        Decode a model of more than 2^18 features, or a map of more than 2^24 numbers, from a file.

    Returns
    -------
    bytes
        Content of the file; the same model gives the same bytes.

    Notes
    -----
    Inputs: the matrix ``X`` of shape (rows, n_features). With an encoding, a vector for each raw
    column, by its name: numbers, NaN if missing, or text. A text that is no published category
    counts as missing; of a column with an output for others only the empty text does.

    Outputs: ``label`` (text, or int64 for labels that are integers or booleans) and ``score``
    (double), both of shape (rows,); with a ``_`` behind the name if a column has it. A graph cannot
    refuse a row: if a number is NaN that must not be, the score is NaN and the label means nothing.
    A logistic model has ``probabilities`` (double, shape (rows, 2)) as a third output; rows longer
    than its published length are shortened in the graph. There the score is also NaN if the
    squared length of a row overflows. With more than two classes ``score`` and ``probabilities``
    have a column for each. A regression has one output, ``prediction`` (double, shape (rows,)).

    Metadata: ``replearn.fingerprint``, ``replearn.labels`` as JSON, ``replearn.version`` and
    ``replearn.format``.

    Examples
    --------
    >>> import replearn as rl
    >>> X, y = rl.datasets.make_margin(2000, 3, margin=0.3, random_state=0)
    >>> fitted = rl.ReplicableSVMClassifier(margin=0.3, max_disagreement=0.9).fit(X, y)
    >>> rl.to_onnx(fitted) == rl.to_onnx(fitted.model_)
    True
    """
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise ReplearnError(
            'an ONNX export needs the package onnx. Install it: pip install "replearn[onnx]"'
        ) from None
    model = model_of(source, large)
    rule = rule_of(model)
    encoding = None if encoded else model.encoding
    numbers = TensorProto.FLOAT if single_precision else TensorProto.DOUBLE
    inputs = _inputs(encoding, model.n_features, numbers)
    graph = _Graph(info.name for info in inputs)
    label = graph.new_name("prediction" if model.is_numeric else "label")
    score = label if model.is_numeric else graph.new_name("score")
    if encoding is None:
        rows = graph.node("Cast", "X", to=TensorProto.DOUBLE) if single_precision else "X"
    else:
        rows = _encode(graph, encoding)
    many = model.n_classes > 2
    probabilities = None
    if many:
        _scores_of_classes(graph, rows, rule, score)
        _label_of_classes(graph, score, model, label)
        if rule.threshold is not None:
            name = graph.new_name("probabilities")
            probabilities = graph.node("Softmax", score, out=name, axis=1)
    else:
        _score(graph, rows, rule, model.is_halfspace, score)
        if not model.is_numeric:
            _label(graph, score, model, label)
        if rule.threshold is not None:
            probabilities = graph.new_name("probabilities")
            _probabilities(graph, score, rule.threshold, probabilities)
    kind = TensorProto.STRING if isinstance((*model.classes, 0)[0], str) else TensorProto.INT64
    by_class: list[str | int | None] = ["rows", model.n_classes]
    outputs = [
        helper.make_tensor_value_info(label, kind, ["rows"]),
        helper.make_tensor_value_info(score, TensorProto.DOUBLE, by_class if many else ["rows"]),
    ][model.is_numeric :]
    if probabilities is not None:
        outputs.append(helper.make_tensor_value_info(probabilities, TensorProto.DOUBLE, by_class))
    proto = helper.make_model(
        helper.make_graph(graph.nodes, "replearn", inputs, outputs, graph.constants),
        producer_name="replearn",
        producer_version=__version__,
        ir_version=_IR_VERSION,
        opset_imports=[
            helper.make_opsetid("", _OPSET),
            helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
    )
    facts = {  # nothing but what the fingerprint covers, and versions
        "replearn.fingerprint": model.fingerprint,
        "replearn.format": f"{FORMAT} {model.format_version}",
        "replearn.labels": json.dumps(list(model.classes)),
        "replearn.version": __version__,
    }
    helper.set_model_props(proto, facts)
    return bytes(proto.SerializeToString(deterministic=True))


def _inputs(encoding: Encoding | None, n_features: int, numbers: int) -> list[Any]:
    """The matrix X, or a vector for each raw column."""
    from onnx import TensorProto, helper

    if encoding is None:
        return [helper.make_tensor_value_info("X", numbers, ["rows", n_features])]
    infos = []
    for column in encoding.columns:
        if column.name == "":
            raise ReplearnError("an ONNX input must have a name, got a column ''. Rename it.")
        name = check_text(column.name, "a column's name", "ONNX")
        kind = TensorProto.STRING if isinstance(column, CategoryColumn) else numbers
        infos.append(helper.make_tensor_value_info(name, kind, ["rows"]))
    return infos


class _Graph:
    """Nodes and constants of a graph under construction, with names that no input has."""

    def __init__(self, inputs: Iterable[str]) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._taken = set(inputs)

    def new_name(self, word: str) -> str:
        """The word, or the word and as many ``_`` as make it new."""
        while word in self._taken:
            word += "_"
        self._taken.add(word)
        return word

    def constant(self, values: Any) -> str:
        """Name of a constant."""
        from onnx import numpy_helper

        name = self.new_name(f"constant {len(self.constants)}")
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Name of the output of a new node."""
        from onnx import helper

        name = out or self.new_name(f"{kind} {len(self.nodes)}")
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name


def _score(graph: _Graph, rows: str, rule: Rule, is_halfspace: bool, out: str) -> None:
    """The product with the normal, or the mean of the votes."""
    if is_halfspace:
        product = graph.node("MatMul", rows, graph.constant(rule.weights[0]))
        if rule.cap < math.inf:
            product = graph.node("Mul", product, _shortening(graph, rows, rule.cap))
        graph.node("Add", product, graph.constant(rule.intercepts[0]), out=out)
        return
    products = graph.node("MatMul", rows, graph.constant(np.ascontiguousarray(rule.weights.T)))
    products = graph.node("Add", products, graph.constant(rule.intercepts))
    agree = graph.node("Greater", products, graph.constant(0.0))
    votes = graph.node("Where", agree, graph.constant(1.0), graph.constant(-1.0))
    total = graph.node("ReduceSum", votes, graph.constant(np.array([1])), keepdims=0)
    graph.node("Div", total, graph.constant(float(len(rule.weights))), out=out)


def _scores_of_classes(graph: _Graph, rows: str, rule: Rule, out: str) -> None:
    """The products with the weights of each class."""
    products = graph.node("MatMul", rows, graph.constant(np.ascontiguousarray(rule.weights.T)))
    if rule.cap < math.inf:
        shorter = _shortening(graph, rows, rule.cap)
        standing = graph.node("Unsqueeze", shorter, graph.constant(np.array([1])))
        products = graph.node("Mul", products, standing)
    graph.node("Add", products, graph.constant(rule.intercepts), out=out)


def _label_of_classes(graph: _Graph, score: str, model: Model, out: str) -> None:
    """The label of the largest score; the first one of equal ones."""
    labels = [_tensor(label) for label in model.classes]
    kind = object if isinstance(model.classes[0], str) else np.int64
    known = graph.constant(np.array([label.item() for label in labels], dtype=kind))
    place = graph.node("ArgMax", score, axis=1, keepdims=0)
    graph.node("Gather", known, place, axis=0, out=out)


def _shortening(graph: _Graph, rows: str, cap: float) -> str:
    """What each row is multiplied by to be no longer than the cap; NaN if that overflows."""
    size = graph.node("ReduceSumSquare", rows, axes=[1], keepdims=0)
    factor = graph.node("Div", graph.constant(cap), graph.node("Sqrt", size))
    longer = graph.node("Greater", size, graph.constant(cap * cap))
    factor = graph.node("Where", longer, factor, graph.constant(1.0))
    return graph.node("Where", graph.node("IsInf", size), graph.constant(math.nan), factor)


def _probabilities(graph: _Graph, score: str, threshold: float, out: str) -> None:
    """Of both labels; the exponential may overflow, which gives 0."""
    one, last = graph.constant(1.0), graph.constant(np.array([1]))
    log_odds = graph.node("Add", score, graph.constant(threshold))
    odds_against = graph.node("Exp", graph.node("Neg", log_odds))
    high = graph.node("Div", one, graph.node("Add", one, odds_against))
    low = graph.node("Sub", one, high)
    standing = [graph.node("Unsqueeze", part, last) for part in (low, high)]
    graph.node("Concat", *standing, axis=1, out=out)


def _label(graph: _Graph, score: str, model: Model, out: str) -> None:
    low, high = (graph.constant(_tensor(label)) for label in model.classes)
    positive = graph.node("Greater", score, graph.constant(0.0))
    graph.node("Where", positive, high, low, out=out)


def _tensor(label: bool | int | str) -> NDArray[Any]:
    if isinstance(label, str):
        return np.array(check_text(label, "a label", "ONNX"), dtype=object)
    if not -(2**63) <= label < 2**63:
        raise ReplearnError(f"a label must fit into 64 bits for ONNX, got {label}. Recode it.")
    return np.array(label, dtype=np.int64)


# --- encodings ------------------------------------------------------------------------------


def _encode(graph: _Graph, encoding: Encoding) -> str:
    """The matrix of encoded rows, from a vector for each raw column."""
    parts: list[str] = []
    for _, run in groupby(encoding.columns, key=_kind):
        columns = list(run)
        numbers = [column for column in columns if isinstance(column, NumberColumn)]
        if numbers:
            parts.append(_numbers(graph, numbers))
        parts += [_indicators(graph, c) for c in columns if isinstance(c, CategoryColumn)]
    return graph.node("Concat", *parts, axis=1)


def _kind(column: Column) -> str:
    """Numbers of one kind are scaled together, while they stand side by side."""
    if isinstance(column, CategoryColumn):
        return "category"
    return "number or missing" if column.fill_missing else "number"


def _numbers(graph: _Graph, columns: list[NumberColumn]) -> str:
    """Centred and scaled numbers; a missing one becomes 0 if these columns allow it."""
    from onnx import TensorProto

    last = graph.constant(np.array([1]))
    standing = [graph.node("Unsqueeze", column.name, last) for column in columns]
    raw = graph.node("Cast", graph.node("Concat", *standing, axis=1), to=TensorProto.DOUBLE)
    centred = graph.node("Sub", raw, graph.constant([float(c.centre) for c in columns]))
    scaled = graph.node("Div", centred, graph.constant([float(c.scale) for c in columns]))
    if not columns[0].fill_missing:
        return scaled
    return graph.node("Where", graph.node("IsNaN", raw), graph.constant(0.0), scaled)


def _indicators(graph: _Graph, column: CategoryColumn) -> str:
    """Indicators of the categories, over their scales.

    For any other text they are all 0, or the last one is not, unless the text is empty.
    """
    values = [check_text(value, "a category", "ONNX") for value in column.values]
    found = _one_hot(graph, column.name, values)
    if column.other:
        axis = graph.constant(np.array([1]))
        published = graph.node("ReduceSum", found, axis, keepdims=1)
        known = graph.node("Add", published, _one_hot(graph, column.name, [""]))
        found = graph.node("Concat", found, graph.node("Sub", graph.constant(1.0), known), axis=1)
    return graph.node("Mul", found, graph.constant(column.heights)) if column.scales else found


def _one_hot(graph: _Graph, name: str, values: list[str]) -> str:
    from onnx import TensorProto

    found = graph.node("OneHotEncoder", name, domain="ai.onnx.ml", cats_strings=values, zeros=1)
    return graph.node("Cast", found, to=TensorProto.DOUBLE)
