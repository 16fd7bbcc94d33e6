"""The cells in PyTorch: its own LSTM and GRU, and the others as a loop over steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import cells
from rnncc.bench.cases import Case
from rnncc.bench.contenders import Workload

STANDARD = ("lstm", "gru")
WRITTEN = ("milstm", "layernorm_lstm", "peephole_lstm", "attention_lstm")
EPSILON = 1e-5
GRADIENT = 0.01

Wrap = Callable[[Any], Any]


def make_call(
    case: Case, threads: int, dtype: str, wrap: Wrap, device: str = "cpu"
) -> Workload | None:
    """The case, with `wrap` around the module or the function that computes it."""
    torch: Any = import_module("torch")
    torch.set_num_threads(threads)
    kind = getattr(torch, dtype)
    x = torch.from_numpy(cells.inputs(case)["x"]).to(device, kind)
    if case.cell in STANDARD:
        module = module_of(torch, case).to(device, kind)
        forward, arguments, leaves = wrap(module), (x,), list(module.parameters())
        if case.lengths:
            forward = partial(
                _packed, torch, forward, torch.from_numpy(cells.inputs(case)["lengths"])
            )
        if case.mode == "step":
            row = torch.zeros(1, case.batch, case.units, dtype=kind, device=device)
            arguments = (x, row if case.cell == "gru" else (row, row))
    elif case.cell in WRITTEN and case.mode != "step" and not case.lengths:
        arrays = {**cells.parameters(case), **cells.inputs(case)}
        p = {name: torch.from_numpy(array).to(device, kind) for name, array in arrays.items()}
        x, leaves = p.pop("x"), [v for n, v in p.items() if n != "memory"]
        step = STEPS[case.cell]
        forward, arguments = wrap(partial(loop, torch, step, p)), (x,)
    else:
        return None
    if case.mode == "train":
        workload = _training(torch, forward, x, leaves)
    else:
        workload = _inference(torch, forward, arguments)
    return workload if device == "cpu" else replace(workload, wait=torch.cuda.synchronize)


def _inference(torch: Any, forward: Any, arguments: Any) -> Workload:
    def run() -> Any:
        with torch.inference_mode():
            return forward(*arguments)[0]

    return Workload(run, lambda: run().float().cpu().numpy())


def _training(torch: Any, forward: Any, x: Any, leaves: list[Any]) -> Workload:
    for leaf in (x, *leaves):
        leaf.requires_grad_()

    def run() -> Any:
        for leaf in (x, *leaves):
            leaf.grad = None
        y = forward(x)[0]
        y.backward(torch.full_like(y, GRADIENT))
        return y

    return Workload(run, lambda: run().detach().cpu().numpy())


def module_of(torch: Any, case: Case) -> Any:
    """nn.LSTM or nn.GRU, whose gates stand as ours do."""
    p, units = cells.parameters(case), case.units
    module = getattr(torch.nn, case.cell.upper())(units, units)
    hidden = np.zeros_like(p["b"])
    if "rb" in p:
        hidden[2 * units :] = p["rb"]
    arrays = (p["W"].T, p["RW"].T, p["b"], hidden)
    with torch.no_grad():
        for parameter, array in zip(module.parameters(), arrays, strict=True):
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))
    return module


def _packed(torch: Any, module: Any, lengths: Any, x: Any) -> tuple[Any]:
    """A module over sequences packed by their lengths, and unpacked again."""
    rnn = torch.nn.utils.rnn
    packed = rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    return (rnn.pad_packed_sequence(module(packed)[0], total_length=len(x))[0],)


def loop(torch: Any, step: Any, p: dict[str, Any], x: Any, gates: int = 4) -> tuple[Any]:
    """All steps of a cell, its input projection computed at once."""
    steps, batch, _ = x.shape
    units = p["RW"].shape[1] // gates
    projected = (x.reshape(steps * batch, -1) @ p["W"]).reshape(steps, batch, -1)
    h = c = x.new_zeros(batch, units)
    rows: list[Any] = []
    for u in projected:
        h, c = step(torch, p, u, h, c)
        rows.append(h)
    return (torch.stack(rows),)


def _gates(torch: Any, z: Any, c: Any) -> tuple[Any, Any]:
    i, f, g, o = z.chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _milstm(torch: Any, p: dict[str, Any], u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    v = h @ p["RW"]
    z = p["alpha"] * u * v + p["beta_x"] * u + p["beta_h"] * v + p["b"]
    return _gates(torch, z, c)


def _layer_norm(torch: Any, p: dict[str, Any], u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    z = u + h @ p["RW"]
    z = torch.nn.functional.layer_norm(z, z.shape[-1:], p["gain"], p["b"], EPSILON)
    return _gates(torch, z, c)


def _peephole(torch: Any, p: dict[str, Any], u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    new, f, o, g = torch.addmm(u + p["b"], h, p["RW"]).chunk(4, -1)
    f, g = torch.sigmoid(f + c * p["FF"]), torch.sigmoid(g + c * p["GG"])
    c = f * c + g * torch.tanh(new)
    return torch.tanh(c) * torch.sigmoid(o + c * p["OO"]), c


def _attention(torch: Any, p: dict[str, Any], u: Any, h: Any, c: Any) -> tuple[Any, Any]:
    weights = torch.softmax(torch.einsum("snh,nh->sn", p["memory"], h), 0)
    context = torch.einsum("sn,snh->nh", weights, p["memory"])
    return _gates(torch, u + p["b"] + torch.cat([h, context], 1) @ p["RW"], c)


STEPS = {
    "milstm": _milstm,
    "layernorm_lstm": _layer_norm,
    "peephole_lstm": _peephole,
    "attention_lstm": _attention,
}
