# pyright: reportMissingImports=false
"""Forward and backward of the LSTM with all gradients: `rnncc.torch.scan` beside cuDNN."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import torch
from torch.nn.functional import linear

import rnncc.torch
from benchmarks.cuda import checks
from benchmarks.cuda.clock import Work, alternate, one_line
from benchmarks.peers import torch_cells
from rnncc.bench.cases import Case

SECONDS = 0.12
INPUTS = 3
FLASH = (768, 16, 1024)
"""The case with a published time: cuDNN's fp16, 5.1 us a step."""
GRID = tuple(product((256, 512, 1024), (1, 16, 64), (100, 512)))
OURS = {"rnncc": "fp32", "rnncc bf16": "bf16"}
KINDS = ("fp32", "tf32", "bf16", "fp16")
"""Of cuDNN, for the published case; `IN_GRID` for the others."""
IN_GRID = ("fp32", "bf16")
NAMES = ("x", "W", "RW", "b")


def cases() -> list[dict[str, Any]]:
    """The published case first, then the issue's grid."""
    names = ("units", "batch", "steps")
    return [dict(zip(names, values, strict=True)) for values in (FLASH, *GRID)]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Microseconds a step; errors of y and of the gradients against float64."""
    units, batch, steps = (case[name] for name in ("units", "batch", "steps"))
    module = module_of(units)
    shape = (steps, batch, units)
    xs = [torch.randn(shape, device="cuda") for _ in range(INPUTS)]
    gradient = torch.randn(shape, device="cuda")
    want = _cudnn(module, torch.float64, False, gradient, xs[0])
    ways: dict[str, list[Work]] = {}
    row: dict[str, Any] = {"us": {}, "off": {}, "errors": {}}
    for kind in (*OURS, *(KINDS if (units, batch, steps) == FLASH else IN_GRID)):
        try:
            calls = [call_of(kind, module, gradient, x) for x in xs]
            row["off"][kind] = _check(row, kind, calls[0](), want)
            ways[kind] = calls
        except Exception as error:
            torch.cuda.synchronize()
            row["errors"][kind] = one_line(error)
    row["us"] = {name: us / steps for name, us in alternate(ways, SECONDS).items()}
    return row


def _check(row: dict[str, Any], kind: str, got: Any, want: Any) -> list[float]:
    """How far y and the gradients are off; a fault becomes one of the row's errors."""
    limit = checks.LIMITS[OURS.get(kind, kind)]
    found = [checks.distance(got[0], want[0])]
    found.append(max(checks.distance(g, w) for g, w in zip(got[1:], want[1:], strict=True)))
    wrong = checks.fault("y", found[0], limit)
    wrong = wrong or checks.fault("a gradient", found[1], limit * checks.GRADIENT)
    if wrong:
        row["errors"][kind] = wrong
    return found


def module_of(units: int) -> Any:
    """PyTorch's LSTM, whose parameters all kinds have."""
    return torch_cells.module_of(torch, Case("lstm", units)).cuda()


def call_of(kind: str, module: Any, gradient: Any, x: Any) -> Work:
    """Y and its gradients, by one of the kinds."""
    if kind in OURS:
        return partial(_ours, _leaves(module), OURS[kind], gradient, x)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(kind, torch.float32)
    return _packed(module, dtype, kind != "fp32", gradient, x)


def _leaves(module: Any) -> list[Any]:
    """W [4H, H], RW [4H, H] and one bias of the cell: PyTorch's second one is 0."""
    return [p.detach().clone().requires_grad_() for p in list(module.parameters())[:3]]


def _ours(leaves: list[Any], precision: str, gradient: Any, x: Any) -> list[Any]:
    """Y and the gradients of x, W, RW, b."""
    w, rw, b = leaves

    def cell(row: Any, state: Any) -> Any:
        h, c = state
        i, f, g, o = (linear(row, w, b) + linear(h, rw)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, (h, c)

    x = x.detach().requires_grad_()
    start = x.new_zeros(x.shape[1], rw.shape[1])
    y, _ = rnncc.torch.scan(cell, x, (start, start), precision=precision)
    return [y, *torch.autograd.grad(y, [x, *leaves], gradient)]


def _packed(module: Any, dtype: Any, tf32: bool, gradient: Any, x: Any) -> Work:
    """A call of cuDNN whose parameters, input and gradient are of their type before."""
    same = type(module)(module.input_size, module.hidden_size).to("cuda", dtype)
    same.load_state_dict(module.state_dict())
    same.flatten_parameters()
    return partial(_run_cudnn, same, tf32, gradient.to(dtype), x.to(dtype))


def _run_cudnn(module: Any, tf32: bool, gradient: Any, x: Any) -> list[Any]:
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    x = x.detach().requires_grad_()
    y = module(x)[0]
    return [y, *torch.autograd.grad(y, [x, *list(module.parameters())[:3]], gradient)]


def _cudnn(module: Any, dtype: Any, tf32: bool, gradient: Any, x: Any) -> list[Any]:
    return _packed(module, dtype, tf32, gradient, x)()
