# pyright: reportMissingImports=false
"""The custom cells, forward and backward, by torch.compile, their loop unrolled, and JAX's scan.

Each is compiled in a process of its own, all at once; then each is timed in its turn.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any

from benchmarks.cuda import cells

ROUNDS = 9
PEERS = {"JAX": cells.STEPS, "torch.compile": cells.UNROLLED}
"""Each with the steps of its calls."""


def cases() -> list[dict[str, Any]]:
    """Each cell at each size, by each peer."""
    return [
        {"peer": peer, "cell": cell, "units": units, "batch": batch, "steps": steps}
        for peer, steps in PEERS.items()
        for cell in cells.CELLS
        for units, batch in cells.SIZES
    ]


def prepare(case: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """Compile a case; what then times it."""
    begun = time.perf_counter()
    timed = _jax(case) if case["peer"] == "JAX" else _torch(case)
    spent = time.perf_counter() - begun
    return lambda: {**timed(), "compile_s": spent}


def _torch(case: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """By events, as ours; tf32 is off, and so in `custom`."""
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "4")
    import torch

    from benchmarks.cuda import custom
    from benchmarks.cuda.clock import alternate, graph_times

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    p, xs, gradient = custom.drawn(case)
    function = torch.compile(partial(custom.plain, case["cell"]), dynamic=False)
    calls = [partial(custom.both, function, p, gradient, x) for x in xs]
    calls[0]()
    torch.cuda.synchronize()

    def timed() -> dict[str, Any]:
        steps = case["steps"]
        times = alternate({"both": calls}, custom.SECONDS)
        graphs, refused = graph_times({"both": calls[0]}, custom.SECONDS / 3)
        return {
            "us": {way: us / steps for way, us in times.items()},
            "graph_us": {way: us / steps for way, us in graphs.items()},
            "errors": {f"{way} in a graph": why for way, why in refused.items()},
        }

    return timed


def _jax(case: dict[str, Any]) -> Callable[[], dict[str, Any]]:
    """By the clock of the host, around calls that are not waited for one by one."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax: Any = import_module("jax")
    import numpy as np

    cell, units, batch = case["cell"], case["units"], case["batch"]
    rng = np.random.default_rng(0)
    xs = [
        jax.numpy.asarray(rng.standard_normal((case["steps"], batch, units)), np.float32)
        for _ in range(3)
    ]
    p = {name: jax.numpy.asarray(a) for name, a in cells.arrays_of(cell, units).items()}
    forward = partial(_scan, jax, cells.JAX[cell], (batch, units))
    with jax.default_matmul_precision("float32"):
        call = jax.jit(partial(_pulled, jax, forward)).lower(xs[0], p).compile()

    def timed() -> dict[str, Any]:
        return {"us": {"both": _seconds(jax, call, xs, p) * 1e6 / case["steps"]}}

    return timed


def _scan(jax: Any, step: Any, shape: tuple[int, int], x: Any, p: Any) -> Any:
    """All rows of y."""
    np = jax.numpy
    start = np.zeros(shape, np.float32)

    def one(carry: Any, u: Any) -> Any:
        h, c = step(jax, np, p, u, *carry)
        return (h, c), h

    return jax.lax.scan(one, (start, start), x @ p["W"])[1]


def _pulled(jax: Any, forward: Any, x: Any, p: Any) -> Any:
    """The gradients of x and of all parameters; XLA would leave out what nothing reads."""
    y, pull = jax.vjp(forward, x, p)
    return y, pull(0.01 * y)


def _seconds(jax: Any, call: Any, xs: list[Any], p: Any) -> float:
    """Of one call."""
    jax.block_until_ready([call(x, p) for x in xs])
    spent: list[float] = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        jax.block_until_ready([call(x, p) for x in xs])
        spent.append((time.perf_counter() - begun) / len(xs))
    return median(spent)
