"""Sums of products of bytes that ONNX Runtime computes exactly on every machine.

MLAS on AVX2 and AVX-512 without VNNI adds two products of a uint8 and an int8 in 16 bits, saturated
(`pmaddubsw`); of two uint8 or two int8 it adds them exactly. So signed weights of products with
uint8 become unsigned ones with a zero point that is 128 higher, which stand for the same numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

WEIGHTS = {
    "MatMulInteger": ((1, 3),),
    "QLinearMatMul": ((3, 5),),
    "QLinearConv": ((3, 5),),
    "DynamicQuantizeLSTM": ((1, 9), (2, 11)),
}
"""Where these operators take weights and their zero points."""


def with_exact_sums(source: bytes) -> bytes:
    """A model with the constant int8 weights of such products as uint8."""
    model = onnx.ModelProto.FromString(source)
    known = {tensor.name: tensor for tensor in model.graph.initializer}
    for number, node in enumerate(model.graph.node):
        if node.op_type.startswith("QLinear") and _signed(known, node, 2) is not None:
            continue  # two int8: there is none of an int8 and a uint8
        for weights, zero in WEIGHTS.get(node.op_type, ()):
            numbers = _signed(known, node, weights)
            if numbers is None:
                continue
            shift = _signed(known, node, zero)
            if shift is None:
                shift = np.zeros((), np.int8)
            node.input.extend([""] * (zero + 1 - len(node.input)))
            for at, array in ((weights, numbers), (zero, shift)):
                node.input[at] = f"unsigned_{number}_{at}"
                moved = (array.astype(np.int16) + 128).astype(np.uint8)
                model.graph.initializer.append(numpy_helper.from_array(moved, node.input[at]))
    return model.SerializeToString()


def _signed(known: dict[str, Any], node: Any, at: int) -> np.ndarray[Any, Any] | None:
    """A constant int8 operand; None where there is none."""
    tensor = known.get(node.input[at]) if at < len(node.input) else None
    if tensor is None or tensor.data_type != onnx.TensorProto.INT8:
        return None
    return numpy_helper.to_array(tensor)
