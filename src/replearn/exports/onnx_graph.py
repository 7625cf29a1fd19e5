"""Models as ONNX graphs in double precision, written node by node."""

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from replearn.documents import FilePath, check_start, write_atomically
from replearn.errors import ReplearnError
from replearn.exports.rules import Rule, rule_of
from replearn.tables import LevelColumn

#: Of the year 2020, so that old runtimes read the file; set, so that new releases of onnx write
#: the same bytes.
_OPSET, _ML_OPSET, _IR_VERSION = 13, 2, 7
#: Stands at the start of a file.
_PRODUCER = "replearn"


def to_onnx(source: Any, path: FilePath) -> None:
    """Write a model as an ONNX file; the same model gives the same bytes.

    Parameters
    ----------
    source : model or fitted estimator
        Of replearn.
    path : path
        The file to write.

    See Also
    --------
    to_sql : a statement that predicts.
    to_sklearn : plain scikit-learn objects.

    Notes
    -----
    Inputs: a vector of shape (rows,) for each column of the table, by its name: doubles for
    numbers, NaN where a cell is missing; texts for levels, without white space around them, with an
    empty text or "NA" where a cell is missing, and whole numbers as "1" or "1.0". A model whose
    columns had no names takes one matrix ``X`` of shape (rows, columns).

    Outputs: for classes ``label``, of shape (rows,), ``probabilities`` (rows, classes) unless it is
    a halfspace, and ``score``, the decision function: (rows,), or (rows, classes) of more than two.
    For numbers ``prediction`` (rows,). If a column has such a name, a ``_`` is put behind ours.

    A graph cannot refuse a row. If a cell is missing that the model refuses, numbers are NaN, and
    the label means nothing. Metadata: ``replearn.fingerprint``, and ``replearn.labels`` as JSON.
    Operators are those of the standard and of its extension for machine learning [ONNX].

    References
    ----------
    .. [ONNX] Open Neural Network Exchange. https://onnx.ai

    Examples
    --------
    >>> import replearn as rl
    >>> table = rl.datasets.load_readmission("Ashford", 2000)
    >>> y = table.pop("readmitted")
    >>> model = rl.ReplicableLogisticClassifier().fit(table, y)
    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    >>> rl.to_onnx(model, path)
    >>> os.path.getsize(path) > 1000
    True
    """
    try:
        from onnx import TensorProto, helper
    except ImportError:
        raise ReplearnError(
            'an ONNX export needs the package onnx. Install it: pip install "replearn[onnx]"'
        ) from None

    check_start(path, _PRODUCER.encode(), "ONNX file of replearn")
    rule = rule_of(source)
    kinds = {column.name: TensorProto.STRING for column in rule.levels}
    inputs = [_tensor(name, kinds.get(name, TensorProto.DOUBLE)) for name in rule.names]
    if rule.by_position:
        inputs = [_tensor("X", TensorProto.DOUBLE, len(rule.columns))]

    graph = _Graph(info.name for info in inputs)
    outputs = _outputs(graph, rule, _scores(graph, rule))
    versions = {"": _OPSET, "ai.onnx.ml": _ML_OPSET}
    proto = helper.make_model(
        helper.make_graph(graph.nodes, "replearn", inputs, outputs, graph.constants),
        producer_name=_PRODUCER,
        ir_version=_IR_VERSION,
        opset_imports=[helper.make_opsetid(*version) for version in versions.items()],
    )

    facts = {"replearn.fingerprint": rule.fingerprint}
    if rule.classes is not None:
        facts["replearn.labels"] = json.dumps(list(rule.classes))
    helper.set_model_props(proto, facts)
    write_atomically(path, bytes(proto.SerializeToString(deterministic=True)))


def _tensor(name: str, kind: int, *shape: int) -> Any:
    """An input or output with a row for each row of the table."""
    from onnx import helper

    return helper.make_tensor_value_info(name, kind, ["rows", *shape])


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

    def node(self, kind: str, *inputs: Any, out: str | None = None, **attributes: Any) -> str:
        """Name of the output of a new node; inputs are names, or values of constants."""
        from onnx import helper, numpy_helper

        names = []
        for given in inputs:
            name = given
            if not isinstance(given, str):
                name = self.new_name(f"constant {len(self.constants)}")
                self.constants.append(numpy_helper.from_array(np.array(given, order="C"), name))
            names.append(name)
        out = out or self.new_name(f"{kind} {len(self.nodes)}")
        self.nodes.append(helper.make_node(kind, names, [out], **attributes))
        return out


def _scores(graph: _Graph, rule: Rule) -> str:
    """A matrix with a column for each score, from terms in the order of `Rule.blocks`."""
    blocks = []
    if rule.numbers:
        blocks += _number_blocks(graph, rule)
    blocks += [_level_block(graph, rule, column) for column in rule.levels]
    if rule.offset is not None:
        blocks.append(graph.node("Unsqueeze", rule.offset, [1]))
    terms = graph.node("Concat", *blocks, axis=1)

    # products of two terms stand behind the terms
    weights, pairs = rule.blocks()
    if len(pairs):
        factors = (graph.node("Gather", terms, part, axis=1) for part in pairs.T)
        terms = graph.node("Concat", terms, graph.node("Mul", *factors), axis=1)
    scores = graph.node("Add", graph.node("MatMul", terms, weights), rule.constants)
    if rule.length_weight:  # of a halfspace, whose terms are its numbers
        length = graph.node("ReduceL2", terms, axes=[1], keepdims=1)
        scores = graph.node("Add", scores, graph.node("Mul", length, rule.length_weight))
    return scores


def _number_blocks(graph: _Graph, rule: Rule) -> list[str]:
    """Scaled numbers, hats, and which numbers are missing."""
    from onnx import TensorProto

    raw = "X"
    if not rule.by_position:
        standing = [graph.node("Unsqueeze", column.name, [1]) for column in rule.numbers]
        raw = graph.node("Concat", *standing, axis=1)

    # numbers between their ends, with the centre in place of a missing one
    low, high, centres, spreads = rule.scales()
    absent = graph.node("IsNaN", raw)
    x = graph.node("Min", graph.node("Max", raw, low), high)
    filled = centres
    if rule.refuses_missing:
        filled = np.full_like(centres, math.nan)
    x = graph.node("Where", absent, filled, x)
    blocks = [graph.node("Div", graph.node("Sub", x, centres), spreads)]

    # a hat is the lower of its two lines, and not below 0
    owners, (below, top, above) = rule.hats()
    if len(owners):
        x = graph.node("Gather", x, owners, axis=1)
        rises = graph.node("Div", graph.node("Sub", x, below), top - below)
        falls = graph.node("Div", graph.node("Sub", above, x), above - top)
        blocks.append(graph.node("Max", graph.node("Min", rises, falls), 0.0))
    if told := rule.indicators():
        ones = graph.node("Cast", absent, to=TensorProto.DOUBLE)
        blocks.append(graph.node("Gather", ones, told, axis=1))
    return blocks


def _level_block(graph: _Graph, rule: Rule, column: LevelColumn) -> str:
    """Terms of a column of levels: a row of a table."""
    rows, other, table = rule.level_rows(column)
    place = graph.node(
        "LabelEncoder",
        column.name,
        domain="ai.onnx.ml",
        keys_strings=list(rows),
        values_int64s=list(rows.values()),
        default_int64=other,
    )
    return graph.node("Gather", table, place, axis=0)


def _outputs(graph: _Graph, rule: Rule, scores: str) -> list[Any]:
    """What scores say."""
    from onnx import TensorProto

    if rule.classes is None:
        name = graph.new_name("prediction")
        if rule.link == "log":
            scores = graph.node("Exp", graph.node("Min", scores, rule.largest))
        graph.node("Squeeze", scores, [1], out=name)
        return [_tensor(name, TensorProto.DOUBLE)]

    # the first class has the score 0, as many times as there are rows
    label, probabilities, score = map(graph.new_name, ("label", "probabilities", "score"))
    first = graph.node("Gather", scores, [0], axis=1)
    every = graph.node("Concat", graph.node("Sub", first, first), scores, axis=1)
    place = graph.node("ArgMax", every, axis=1, keepdims=0)  # of equal scores the first

    known, kind = np.array(rule.classes), TensorProto.INT64
    if known.dtype.kind == "b":
        kind = TensorProto.BOOL
    elif known.dtype.kind == "U":
        known, kind = known.astype(object), TensorProto.STRING
    graph.node("Gather", known, place, axis=0, out=label)
    outputs, n_classes = [_tensor(label, kind)], len(rule.classes)
    if rule.link != "sign":
        graph.node("Softmax", every, axis=1, out=probabilities)
        outputs.append(_tensor(probabilities, TensorProto.DOUBLE, n_classes))
    if n_classes == 2:
        graph.node("Squeeze", scores, [1], out=score)
        return [*outputs, _tensor(score, TensorProto.DOUBLE)]
    graph.node("Identity", every, out=score)
    return [*outputs, _tensor(score, TensorProto.DOUBLE, n_classes)]
