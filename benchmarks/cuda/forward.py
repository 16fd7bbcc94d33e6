# pyright: reportMissingImports=false
"""LSTM and GRU over sequences: rnncc in fp32, tf32 and bf16, cuDNN by PyTorch in all four."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import product
from typing import Any

import torch

import rnncc
from benchmarks import cells
from benchmarks.cuda import checks
from benchmarks.cuda.clock import Work, alternate, graph_times, one_line
from benchmarks.peers import torch_cells
from rnncc.bench.cases import Case

SECONDS = 0.06
INPUTS = 3
OURS = ("fp32", "tf32", "bf16")
KNOWN = ("fp32", "bf16")
"""Of ours what there is."""
FLASH = ("lstm", 768, 16, 1024)
"""The case with a published time: cuDNN's fp16, 1.96 us a step."""
GRID = tuple(product(("lstm", "gru"), (256, 512, 1024), (1, 16, 64), (100, 512)))


def cases() -> list[dict[str, Any]]:
    """The published case first, then the issue's grid."""
    names = ("cell", "units", "batch", "steps")
    return [dict(zip(names, values, strict=True)) for values in (FLASH, *GRID)]


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Microseconds a step, of calls and of graphs; errors against float64."""
    cell, units, batch, steps = (case[name] for name in ("cell", "units", "batch", "steps"))
    xs = [torch.randn(steps, batch, units, device="cuda") for _ in range(INPUTS)]
    want = reference(cell, units)(xs[0])
    ways: dict[str, list[Work]] = {}
    row: dict[str, Any] = {"us": {}, "graph_us": {}, "off": {}, "errors": {}}
    for kind in kinds_of(cell, (cell, units, batch, steps) == FLASH):
        try:
            calls = list(map(_calls(kind, cell, units), xs))
            row["off"][kind] = checks.distance(calls[0](), want)
            limit = checks.LIMITS[kind.split()[-1]]
            if wrong := checks.fault("y", row["off"][kind], limit):
                row["errors"][kind] = wrong
            ways[kind] = calls
        except Exception as error:
            torch.cuda.synchronize()
            row["errors"][kind] = one_line(error)
    if "fp32" in ways:
        row["cpu_bits"] = has_cpu_bits(cell, units, batch)
    row["us"] = {name: us / steps for name, us in alternate(ways, SECONDS).items()}
    times, refused = graph_times({name: calls[0] for name, calls in ways.items()}, SECONDS / 2)
    row["graph_us"] = {name: us / steps for name, us in times.items()}
    row["errors"] |= {f"{name} in a graph": why for name, why in refused.items()}
    return row


def kinds_of(cell: str, published: bool) -> list[str]:
    """Ours, and cuDNN's; of the GRU fp32 alone, as is asked."""
    if cell == "gru":
        return ["fp32", "cudnn fp32"]
    theirs = [f"cudnn {kind}" for kind in OURS]
    return [*OURS, *theirs, *(["cudnn fp16"] if published else [])]


def _calls(kind: str, cell: str, units: int) -> Callable[[Any], Work]:
    """An input -> a call."""
    if kind in OURS:
        model = compiled(cell, units, kind)
        return lambda x: partial(ours, model, x, checks.poisoned(tuple(x.shape)))
    precision = kind.split()[-1]
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    module = cudnn(cell, units, dtype)
    return lambda x: partial(theirs, module, precision != "fp32", x.to(dtype))


@lru_cache(maxsize=3)
def compiled(cell: str, units: int, precision: str) -> Any:
    """The cell as rnncc compiles it, its parameters packed."""
    return rnncc.compile(cells.build(Case(cell, units)), device="cuda", precision=precision)


@lru_cache(maxsize=4)
def cudnn(cell: str, units: int, dtype: Any) -> Any:
    """PyTorch's module with the same parameters, in one piece of memory."""
    module = torch_cells.module_of(torch, Case(cell, units)).to("cuda", dtype)
    module.flatten_parameters()
    return module


def ours(model: Any, x: Any, y: Any) -> Any:
    """Y [T, N, H] on PyTorch's stream."""
    model.run({"x": x}, out={"y": y}, stream=torch.cuda.current_stream().cuda_stream)
    return y


def theirs(module: Any, tf32: bool, x: Any) -> Any:
    """The same by cuDNN."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = tf32
    with torch.inference_mode():
        return module(x)[0]


def reference(cell: str, units: int) -> Callable[[Any], Any]:
    """In float64."""
    return lambda x: theirs(cudnn(cell, units, torch.float64), False, x.double())


@lru_cache(maxsize=64)
def has_cpu_bits(cell: str, units: int, batch: int, steps: int = 9) -> bool:
    """Whether fp32 gives every bit of the library for the CPU, over a few steps."""
    x = torch.randn(steps, batch, units)
    on_cpu = _on_cpu(cell, units).run({"x": x.numpy()})["y"]
    model = compiled(cell, units, "fp32")
    got = ours(model, x.cuda(), checks.poisoned(tuple(x.shape))).cpu().numpy()
    return got.tobytes() == on_cpu.tobytes()


@lru_cache(maxsize=1)
def _on_cpu(cell: str, units: int) -> Any:
    return rnncc.compile(cells.build(Case(cell, units)))
