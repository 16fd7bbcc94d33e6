"""The same cells in PyTorch and ONNX Runtime, on one thread."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from importlib import import_module
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


def torch_training(cell: str, steps: int, batch: int, units: int) -> dict[str, Call]:
    """Forward and backward: PyTorch's own LSTM or GRU, or the cell as a loop in eager mode."""
    import torch

    torch.set_num_threads(1)
    x = torch.randn(steps, batch, units, requires_grad=True)
    dy = torch.randn(steps, batch, units)
    if cell in ("lstm", "gru"):
        module = getattr(torch.nn, cell.upper())(units, units)

        def standard() -> object:
            module.zero_grad()
            x.grad = None
            return module(x)[0].backward(dy)

        return {"PyTorch": standard}
    step = {"milstm": _milstm, "layernorm_lstm": _layernorm}[cell]
    weights = [(torch.randn(units, 4 * units) * 0.05).requires_grad_() for _ in range(2)]
    scales = [torch.ones(4 * units).requires_grad_() for _ in range(3)]
    scales.append(torch.zeros(4 * units, requires_grad=True))

    def eager() -> object:
        for value in (x, *weights, *scales):
            value.grad = None
        return _loop(torch, step, x, weights, scales).backward(dy)

    return {"PyTorch eager": eager}


def jax_training(cell: str, steps: int, batch: int, units: int) -> dict[str, Call]:
    """Forward and backward of the custom cells: JAX's scan, compiled."""
    if cell in ("lstm", "gru"):
        return {}
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    )
    jax: Any = import_module("jax")  # it has no types where it is not installed
    jnp: Any = import_module("jax.numpy")

    def cell_step(u: Any, scales: Any, carry: Any, x: Any) -> Any:
        h, c = carry
        product = h @ u
        if cell == "milstm":
            z = scales[0] * product * x + scales[1] * product + scales[2] * x + scales[3]
        else:
            z = x + product
            mean = z.mean(-1, keepdims=True)
            variance = ((z - mean) ** 2).mean(-1, keepdims=True)
            z = (z - mean) / jnp.sqrt(variance + 1e-5) * scales[0] + scales[3]
        i, f, o, g = jnp.split(z, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    def forward(x: Any, w: Any, u: Any, scales: Any) -> Any:
        start = jnp.zeros((batch, units))
        return jax.lax.scan(partial(cell_step, u, scales), (start, start), x @ w)[1]

    rng = np.random.default_rng(0)
    shapes = [(steps, batch, units), (units, 4 * units), (units, 4 * units)]
    values = [jnp.array(rng.standard_normal(s) * 0.05, jnp.float32) for s in shapes]
    values.append(jnp.stack([jnp.ones(4 * units)] * 3 + [jnp.zeros(4 * units)]))
    dy = jnp.array(rng.standard_normal(shapes[0]), jnp.float32)

    def both(*arguments: Any) -> Any:
        y, pull = jax.vjp(forward, *arguments)
        return y, pull(dy)

    compiled: Any = jax.jit(both)
    return {"JAX": lambda: jax.block_until_ready(compiled(*values))}


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
