"""The same cells in PyTorch and ONNX Runtime, on one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[[], object]


def torch_calls(cell: str, steps: int, batch: int, units: int) -> dict[str, Call]:
    """PyTorch's own LSTM or GRU, or the cell as a loop in eager mode."""
    import torch

    torch.set_num_threads(1)
    x = torch.randn(steps, batch, units)
    if cell in ("lstm", "gru"):
        module = getattr(torch.nn, cell.upper())(units, units).eval()

        def standard() -> object:
            with torch.inference_mode():
                return module(x)

        return {"PyTorch": standard}
    step = {"milstm": _milstm, "layernorm_lstm": _layernorm}[cell]
    weights = [torch.randn(units, 4 * units) * 0.05 for _ in range(2)]
    scales = [torch.ones(4 * units)] * 3 + [torch.zeros(4 * units)]

    def eager() -> object:
        with torch.inference_mode():
            return _loop(torch, step, x, weights, scales)

    return {"PyTorch eager": eager}


def onnxruntime_calls(cell: str, steps: int, batch: int, units: int) -> dict[str, Call]:
    """ONNX Runtime's LSTM or GRU operator; it has none for other cells."""
    if cell not in ("lstm", "gru"):
        return {}
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = _onnx_model(cell.upper(), steps, batch, units)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).standard_normal((steps, batch, units)).astype(np.float32)
    return {"ONNX Runtime": lambda: session.run(None, {"X": x})}


def _loop(torch: Any, step: Any, x: Any, weights: Any, scales: Any) -> Any:
    """A cell in eager mode, its input projection computed at once."""
    steps, batch, _ = x.shape
    w, u = weights
    projected = (x.reshape(steps * batch, -1) @ w).reshape(steps, batch, -1)
    h = c = x.new_zeros(batch, u.shape[0])
    rows: list[Any] = []
    for t in range(steps):
        i, f, o, g = step(torch, projected[t], h @ u, scales).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        rows.append(h)
    return torch.stack(rows)


def _milstm(torch: Any, x: Any, u: Any, scales: Any) -> Any:
    alpha, beta1, beta2, bias = scales
    return alpha * u * x + beta1 * u + beta2 * x + bias


def _layernorm(torch: Any, x: Any, u: Any, scales: Any) -> Any:
    return torch.nn.functional.layer_norm(x + u, u.shape[-1:], scales[0], scales[3])


def _onnx_model(kind: str, steps: int, batch: int, units: int) -> bytes:
    from onnx import TensorProto, helper, numpy_helper

    gates = {"LSTM": 4, "GRU": 3}[kind]
    rng = np.random.default_rng(1)
    weights = {
        "W": rng.standard_normal((1, gates * units, units)) * 0.1,
        "R": rng.standard_normal((1, gates * units, units)) * 0.1,
        "B": np.zeros((1, 2 * gates * units)),
    }
    attributes: dict[str, Any] = {"hidden_size": units} | (
        {"linear_before_reset": 1} if kind == "GRU" else {}
    )
    node = helper.make_node(kind, ["X", *weights], ["Y"], **attributes)
    graph = helper.make_graph(
        [node],
        "cell",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [steps, batch, units])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w.astype(np.float32), n) for n, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model.SerializeToString()
