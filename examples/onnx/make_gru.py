"""Writes gru.onnx: one step of a GRU with its state as an input and an output, as exporters do.

It needs the package onnx: pip install 'rnncc[onnx]'.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUTS, UNITS, OUTPUTS = 4, 16, 2


def make() -> onnx.ModelProto:
    """x [1, 4] and h [1, 16] -> y [1, 2] and h_next [1, 16]."""
    rng = np.random.default_rng(0)
    shapes = {
        "W": (1, 3 * UNITS, INPUTS),
        "R": (1, 3 * UNITS, UNITS),
        "B": (1, 6 * UNITS),
        "V": (UNITS, OUTPUTS),
    }
    arrays = {n: rng.standard_normal(s).astype(np.float32) / 4 for n, s in shapes.items()}
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    tensors.append(numpy_helper.from_array(np.array([0]), "first"))
    nodes = [
        helper.make_node("Unsqueeze", ["x", "first"], ["steps"]),
        helper.make_node("Unsqueeze", ["h", "first"], ["start"]),
        helper.make_node(
            "GRU", ["steps", "W", "R", "B", "", "start"], ["", "last"], hidden_size=UNITS
        ),
        helper.make_node("Squeeze", ["last", "first"], ["h_next"]),
        helper.make_node("MatMul", ["h_next", "V"], ["z"]),
        helper.make_node("Softmax", ["z"], ["y"]),
    ]

    def declared(name: str, size: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, size])

    inputs = [declared("x", INPUTS), declared("h", UNITS)]
    outputs = [declared("y", OUTPUTS), declared("h_next", UNITS)]
    graph = helper.make_graph(nodes, "gru", inputs, outputs, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    onnx.save(make(), Path(__file__).with_name("gru.onnx"))
