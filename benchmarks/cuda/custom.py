# pyright: reportMissingImports=false
"""Cells that cuDNN does not have: `rnncc.torch.scan` beside the loop in Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import torch

import rnncc.torch
from benchmarks.cuda import checks
from benchmarks.cuda.cells import (
    CELLS,
    SIZES,
    STEPS,
    UNROLLED,
    arrays_of,
    loop_of,
    step_of,
)
from benchmarks.cuda.clock import Work, alternate, graph_times, one_line

SECONDS = 0.3
INPUTS = 3
LOW = "rnncc bf16"
Forward = Callable[[Any, dict[str, Any]], Any]


def cases() -> list[dict[str, Any]]:
    """Each cell at each size."""
    several = product(CELLS, SIZES)
    return [{"cell": c, "units": h, "batch": n, "steps": STEPS} for c, (h, n) in several]


def drawn(case: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any], Any]:
    """Parameters, inputs, and the gradient of y."""
    p = {name: torch.from_numpy(a).cuda() for name, a in parameters_of(case).items()}
    shape = (case["steps"], case["batch"], case["units"])
    xs = [torch.randn(shape, device="cuda") for _ in range(INPUTS)]
    return p, xs, torch.randn(shape, device="cuda")


def parameters_of(case: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a case's cell."""
    return arrays_of(case["cell"], case["units"])


def plain(cell: str, x: Any, p: dict[str, Any]) -> Any:
    """The loop in Python."""
    return loop_of(cell, p)(x)


def ours(cell: str, x: Any, p: dict[str, Any], precision: str = "fp32") -> Any:
    """The compiled loop."""
    start = x.new_zeros(x.shape[1], p["RW"].shape[0])
    return rnncc.torch.scan(step_of(cell, p), x, (start, start), precision=precision)[0]


def forward(function: Forward, p: dict[str, Any], x: Any) -> Any:
    """Y alone."""
    with torch.no_grad():
        return function(x, p)


def both(function: Forward, p: dict[str, Any], gradient: Any, x: Any) -> list[Any]:
    """Y and the gradients of x and all parameters."""
    leaves = [tensor.detach().requires_grad_() for tensor in (x, *p.values())]
    y = function(leaves[0], dict(zip(p, leaves[1:], strict=True)))
    return [y, *torch.autograd.grad(y, leaves, gradient)]


def ways(cell: str) -> dict[str, Forward]:
    """Ours, in both precisions, and PyTorch's."""
    low = partial(ours, cell, precision="bf16")
    return {"rnncc": partial(ours, cell), "eager": partial(plain, cell), LOW: low}


def run(case: dict[str, Any]) -> dict[str, Any]:
    """Microseconds a step of all ways, forward and with gradients; errors against float64."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    cell, steps = case["cell"], case["steps"]
    p, xs, gradient = drawn(case)
    exact = {name: tensor.double() for name, tensor in p.items()}
    want = both(partial(plain, cell), exact, gradient.double(), xs[0].double())
    row: dict[str, Any] = {"us": {}, "graph_us": {}, "off": {}, "errors": {}}
    calls: dict[str, dict[str, list[Work]]] = {"forward": {}, "both": {}}
    for name, function in ways(cell).items():
        try:
            once = {
                "forward": [partial(forward, function, p, x) for x in xs],
                "both": [partial(both, function, p, gradient, x) for x in xs],
            }
            row["off"][name] = _check(row, name, once, want)
            for way, several in once.items():
                calls[way][name] = several
        except Exception as error:
            torch.cuda.synchronize()
            row["errors"][name] = one_line(error)
    for way, several in calls.items():
        times = alternate(several, SECONDS) if several else {}
        row["us"][way] = {name: us / steps for name, us in times.items()}
        firsts = {name: some[0] for name, some in several.items()}
        times, refused = graph_times(firsts, SECONDS / 3)
        row["graph_us"][way] = {name: us / steps for name, us in times.items()}
        row["errors"] |= {f"{name} {way} in a graph": why for name, why in refused.items()}
    if "rnncc" in calls["both"]:
        row["us"]["unrolled"] = {"rnncc": _unrolled(case, p, gradient, xs)}
    return row


def _unrolled(case: Mapping[str, Any], p: dict[str, Any], gradient: Any, xs: list[Any]) -> float:
    """Ours with gradients, of as many steps as a peer unrolls."""
    function, steps = partial(ours, case["cell"]), UNROLLED
    calls = [partial(both, function, p, gradient[:steps], x[:steps]) for x in xs]
    return alternate({"both": calls}, SECONDS)["both"] / steps


def _check(row: dict[str, Any], name: str, calls: dict[str, list[Work]], want: Any) -> list[float]:
    """How far y, y with gradients, and the gradients are off; NaN fills new memory before."""
    _poison(want)
    alone = calls["forward"][0]()
    got = calls["both"][0]()
    gradients = [checks.distance(g, w) for g, w in zip(got[1:], want[1:], strict=True)]
    found = [checks.distance(alone, want[0]), checks.distance(got[0], want[0]), max(gradients)]
    limit = checks.LIMITS["bf16" if name == LOW else "fp32"]
    wrong = checks.fault("y", max(found[:2]), limit)
    wrong = wrong or checks.fault("a gradient", found[2], limit * checks.GRADIENT)
    if wrong:
        row["errors"][name] = wrong
    return found


def _poison(like: list[Any]) -> None:
    """Leave NaN in the memory that PyTorch's allocator gives out next."""
    held = [torch.full(t.shape, float("nan"), device="cuda") for t in like for _ in range(4)]
    del held
