"""JAX: the cells as a scan, compiled by XLA."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peers.jax_cells import forward_of
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload

GRADIENT = 0.01


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """The case, compiled as it is first called."""
    jax: Any = import_module("jax")
    model = forward_of(case)
    if model is None or case.mode == "step":
        return None
    forward, arrays = model
    x = arrays.pop("x")
    compiled = jax.jit(forward if case.mode == "run" else _with_gradients(jax, forward))

    def run() -> Any:
        return jax.block_until_ready(compiled(x, arrays))

    return Workload(run, lambda: np.asarray(run() if case.mode == "run" else run()[0]))


def _with_gradients(jax: Any, forward: Any) -> Any:
    """Y, and the gradients of x and of all parameters."""

    def both(x: Any, p: Any) -> Any:
        y, pull = jax.vjp(forward, x, p)
        return y, pull(jax.numpy.full_like(y, GRADIENT))

    return both
