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


def exact_session(source: bytes) -> Any:
    """ONNX Runtime's session of a model, on one thread, with exact sums of products of bytes.

    Its optimiser is off: it makes such products of those of floats, and faults of its folding and
    fusions are not ours to find.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    source = with_exact_sums(source)
    return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def with_exact_sums(source: bytes) -> bytes:
    """A model with the int8 weights of such products as uint8, be they constants or inputs."""
    model = onnx.ModelProto.FromString(source)
    graph = model.graph
    signed = {x.name for x in graph.initializer if x.data_type == onnx.TensorProto.INT8}
    signed |= {x.name for x in graph.input if x.type.tensor_type.elem_type == onnx.TensorProto.INT8}
    nodes: list[Any] = []
    for number, node in enumerate(graph.node):
        places = WEIGHTS.get(node.op_type, ())
        # of two int8 there is no product of an int8 and a uint8; a zero point shows it as well
        rows = node.input[2 if node.op_type.startswith("QLinear") else 0] if places else ""
        for weights, zero in places if rows not in signed else ():
            if node.input[weights] not in signed:
                continue
            node.input.extend([""] * (zero + 1 - len(node.input)))
            for at in (weights, zero):
                unsigned = f"unsigned_{number}_{at}"
                if node.input[at]:
                    nodes += _moved(node.input[at], unsigned)
                else:
                    nodes.append(_constant(128, np.uint8, unsigned))
                node.input[at] = unsigned
        nodes.append(node)
    made = onnx.GraphProto(node=nodes)
    del graph.node[:]
    graph.node.extend(made.node)
    return model.SerializeToString()


def _moved(name: str, unsigned: str) -> list[Any]:
    """Nodes that make an int8 tensor a uint8 one, 128 higher."""
    by, wide, higher = (f"{unsigned}_{what}" for what in ("by", "wide", "higher"))
    return [
        _constant(128, np.int32, by),
        helper.make_node("Cast", [name], [wide], to=onnx.TensorProto.INT32),
        helper.make_node("Add", [wide, by], [higher]),
        helper.make_node("Cast", [higher], [unsigned], to=onnx.TensorProto.UINT8),
    ]


def _constant(number: int, dtype: Any, name: str) -> Any:
    value = numpy_helper.from_array(np.array(number, dtype))
    return helper.make_node("Constant", [], [name], value=value)
