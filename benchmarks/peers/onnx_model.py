"""A case as an ONNX model, for the peers that read those: their LSTM or GRU operator."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import cells
from rnncc.bench.cases import Case
from rnncc.bench.contenders import Array

OPSET, IR_VERSION = 17, 8


def has_operator(case: Case) -> bool:
    """Whether ONNX has an operator for the case: no training, no other cells."""
    return case.cell in ("lstm", "gru", "peephole_lstm") and case.mode != "train"


def onnx_model(case: Case) -> bytes:
    """The model: X [T, N, H], lengths if there are any -> Y; for a step also the states.

    Raises:
        ImportError: onnx is not installed.
    """
    onnx: Any = import_module("onnx")
    helper, to_tensor = onnx.helper, onnx.numpy_helper.from_array
    weights = _weights(case)
    weight_names = [name for name in ("W", "R", "B") if name in weights]
    states = _states(case)
    lengths = ["lengths"] if case.lengths else []
    inputs = ["X", *weight_names, *(lengths or [""]), *states]
    if "P" in weights:
        inputs = ["X", *weight_names, *(lengths or [""]), *(states or ["", ""]), "P"]
    finals = [f"{name}_next" for name in states]
    linear = {"linear_before_reset": 1} if case.cell == "gru" else {}
    kind = "GRU" if case.cell == "gru" else "LSTM"
    node = helper.make_node(kind, inputs, ["Y", *finals], hidden_size=case.units, **linear)
    float32, row = onnx.TensorProto.FLOAT, [1, case.batch, case.units]
    x = helper.make_tensor_value_info("X", float32, [case.steps, case.batch, case.units])
    carried = [helper.make_tensor_value_info(name, float32, row) for name in states]
    int32 = onnx.TensorProto.INT32
    carried += [helper.make_tensor_value_info(name, int32, [case.batch]) for name in lengths]
    results = [helper.make_tensor_value_info(name, float32, None) for name in ("Y", *finals)]
    constants = [to_tensor(array, name) for name, array in weights.items()]
    graph = helper.make_graph([node], "cell", [x, *carried], results, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return model.SerializeToString()


def feeds(case: Case) -> dict[str, Array]:
    """What the model takes."""
    row = np.zeros((1, case.batch, case.units), np.float32)
    arrays = cells.inputs(case)
    return {"X": arrays.pop("x"), **dict.fromkeys(_states(case), row), **arrays}


def _states(case: Case) -> list[str]:
    """Names of the states that a step takes and gives."""
    if case.mode != "step":
        return []
    return ["h"] if case.cell == "gru" else ["h", "c"]


def _weights(case: Case) -> dict[str, Array]:
    """W, R, B and P in ONNX's order of gates: i, o, f, c of the LSTM, z, r, h of the GRU."""
    p, units = cells.parameters(case), case.units
    order = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "peephole_lstm": (3, 2, 1, 0)}[case.cell]

    def turned(name: str) -> Array:
        blocks = [p[name][..., k * units : (k + 1) * units].T for k in order]
        return np.concatenate(blocks)[None]

    hidden = np.zeros_like(p["b"])
    if "rb" in p:
        hidden[2 * units :] = p["rb"]
    tensors = {"W": turned("W"), "R": turned("RW")}
    tensors["B"] = np.concatenate([turned("b"), hidden[None]], 1)
    if case.cell == "peephole_lstm":
        tensors["P"] = np.concatenate([p["GG"], p["OO"], p["FF"]])[None]
    return {name: np.ascontiguousarray(array, np.float32) for name, array in tensors.items()}
