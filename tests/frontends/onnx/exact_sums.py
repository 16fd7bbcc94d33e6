"""Sums of products of bytes that ONNX Runtime computes exactly on every machine.

MLAS on AVX2 and AVX-512 without VNNI adds two products of a uint8 and an int8 in 16 bits, saturated
(`pmaddubsw`); of two uint8 or two int8 it adds them exactly. So signed weights of products with
uint8 become unsigned ones with a zero point that is 128 higher, which stand for the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

WEIGHTS = {
    "MatMulInteger": ((1, 3),),
    "QLinearMatMul": ((3, 5),),
    "QLinearConv": ((3, 5),),
    "DynamicQuantizeLSTM": ((1, 9), (2, 11)),
}
"""Where these operators take weights and their zero points."""


def with_exact_sums(source: bytes) -> bytes:
    """A model with the int8 weights of such products as uint8, be they constants or inputs."""
    model = onnx.ModelProto.FromString(source)
    graph = model.graph
    known = {tensor.name: tensor for tensor in graph.initializer}
    bytes_given = {
        given.name
        for given in graph.input
        if given.type.tensor_type.elem_type == onnx.TensorProto.INT8
    } - known.keys()
    nodes: list[Any] = []
    for number, node in enumerate(graph.node):
        places = WEIGHTS.get(node.op_type, ())
        if places and _is_signed(known, bytes_given, node):
            places = ()  # of two int8 there is no product of an int8 and a uint8
        for weights, zero in places:
            name, numbers = node.input[weights], _signed(known, node, weights)
            if numbers is None and name not in bytes_given:
                continue
            shift = _signed(known, node, zero)
            moved = {zero: np.zeros((), np.int8) if shift is None else shift}
            node.input.extend([""] * (zero + 1 - len(node.input)))
            node.input[weights] = f"unsigned_{number}_{weights}"
            if numbers is None:
                nodes += _moved_in_the_graph(graph, name, node.input[weights])
            else:
                moved[weights] = numbers
            for at, array in moved.items():
                node.input[at] = f"unsigned_{number}_{at}"
                unsigned = (array.astype(np.int16) + 128).astype(np.uint8)
                graph.initializer.append(numpy_helper.from_array(unsigned, node.input[at]))
        nodes.append(node)
    made = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(made)
    return model.SerializeToString()


def _moved_in_the_graph(graph: Any, name: str, unsigned: str) -> list[Any]:
    """Nodes that make an int8 tensor a uint8 one, 128 higher."""
    graph.initializer.append(numpy_helper.from_array(np.array(128, np.int32), f"{unsigned}_by"))
    wide, higher = f"{unsigned}_wide", f"{unsigned}_higher"
    return [
        helper.make_node("Cast", [name], [wide], to=onnx.TensorProto.INT32),
        helper.make_node("Add", [wide, f"{unsigned}_by"], [higher]),
        helper.make_node("Cast", [higher], [unsigned], to=onnx.TensorProto.UINT8),
    ]


def _is_signed(known: dict[str, Any], bytes_given: set[str], node: Any) -> bool:
    """Whether the rows of such a product are int8."""
    scaled = node.op_type.startswith("QLinear")  # of these the zero point shows it
    return _signed(known, node, 2 if scaled else 0) is not None or node.input[0] in bytes_given


def _signed(known: dict[str, Any], node: Any, at: int) -> np.ndarray[Any, Any] | None:
    """A constant int8 operand; None where there is none."""
    tensor = known.get(node.input[at]) if at < len(node.input) else None
    if tensor is None or tensor.data_type != onnx.TensorProto.INT8:
        return None
    return numpy_helper.to_array(tensor)
