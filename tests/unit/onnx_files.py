"""Small ONNX models for tests: honest ones of common shapes, and hostile ones."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def model(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "test", inputs, outputs, list(constants))
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("ai.onnx.ml", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=7)


def tensor(name, values):
    return numpy_helper.from_array(np.asarray(values), name)


def info(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def linear(weights, intercept=0.0, *, give=("label", "probabilities"), kind=TensorProto.FLOAT):
    """A logistic model in single precision: labels 0 and 1, and a table of probabilities."""
    number = np.float32 if kind == TensorProto.FLOAT else np.float64
    weights = np.asarray(weights, dtype=number)[:, None]
    nodes = [
        helper.make_node("MatMul", ["X", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["score"]),
        helper.make_node("Sigmoid", ["score"], ["yes"]),
        helper.make_node("Sub", ["one", "yes"], ["no"]),
        helper.make_node("Concat", ["no", "yes"], ["probabilities"], axis=1),
        helper.make_node("Greater", ["score", "zero"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["labels"], to=TensorProto.INT64),
        helper.make_node("Squeeze", ["labels", "axis"], ["label"]),
    ]
    outputs = {
        "label": info("label", TensorProto.INT64, ["rows"]),
        "probabilities": info("probabilities", kind, ["rows", 2]),
        "yes": info("yes", kind, ["rows", 1]),
    }
    constants = [
        tensor("w", weights),
        tensor("b", np.array([intercept], dtype=number)),
        tensor("one", np.array([1], dtype=number)),
        tensor("zero", np.array([0], dtype=number)),
        tensor("axis", np.array([1])),
    ]
    inputs = [info("X", kind, ["rows", len(weights)])]
    return model(nodes, inputs, [outputs[name] for name in give], constants)


def zipped(weights):
    """The same with maps from classes to probabilities, as some exporters write them."""
    proto = linear(weights)
    proto.graph.node.append(
        helper.make_node(
            "ZipMap", ["probabilities"], ["maps"], domain="ai.onnx.ml", classlabels_int64s=[0, 1]
        )
    )
    del proto.graph.output[1]
    proto.graph.output.append(
        helper.make_value_info(
            "maps",
            helper.make_sequence_type_proto(
                helper.make_map_type_proto(
                    TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
                )
            ),
        )
    )
    return proto


def endless():
    """A loop that never ends."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go on"]),
            helper.make_node("Add", ["value", "one"], ["more"]),
        ],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("value", TensorProto.INT64, []),
        ],
        [info("go on", TensorProto.BOOL, []), info("more", TensorProto.INT64, [])],
        [tensor("one", np.array(1))],
    )
    nodes = [
        helper.make_node("Loop", ["times", "yes", "start"], ["end"], body=body),
        helper.make_node("Shape", ["X"], ["shape"]),
        helper.make_node("Expand", ["end", "shape"], ["wide"]),
        helper.make_node("ReduceMax", ["wide"], ["label"], axes=[1], keepdims=0),
    ]
    constants = [
        tensor("times", np.array(2**62)),
        tensor("yes", np.array(True)),
        tensor("start", np.array(0)),
    ]
    return model(nodes, [matrix()], [info("label", TensorProto.INT64, ["rows"])], constants)


def greedy():
    """A tensor of 32 GiB."""
    nodes = [
        helper.make_node("ConstantOfShape", ["size"], ["huge"]),
        helper.make_node("ReduceMax", ["huge"], ["most"], axes=[0], keepdims=0),
        helper.make_node("Cast", ["most"], ["label"], to=TensorProto.INT64),
    ]
    constants = [tensor("size", np.array([2**33]))]
    return model(nodes, [matrix()], [info("label", TensorProto.INT64, [])], constants)


def external(inside_a_node=False):
    """Weights that stand in another file."""
    weights = tensor("w", np.ones(8))
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "/etc/passwd"
    nodes = [
        helper.make_node("MatMul", ["X", "w"], ["score"]),
        helper.make_node("Cast", ["score"], ["label"], to=TensorProto.INT64),
    ]
    if inside_a_node:
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=weights))
    constants = [] if inside_a_node else [weights]
    return model(nodes, [matrix()], [info("label", TensorProto.INT64, ["rows"])], constants)


def foreign():
    """An operator of somebody."""
    nodes = [helper.make_node("Anything", ["X"], ["label"], domain="com.somebody")]
    return model(nodes, [matrix()], [info("label", TensorProto.INT64, ["rows"])])


def matrix():
    return info("X", TensorProto.DOUBLE, ["rows", 8])
