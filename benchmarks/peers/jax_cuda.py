"""JAX on an NVIDIA GPU, in full fp32."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from benchmarks.peers import jax_scan
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """The case, if JAX's first device is a GPU."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax: Any = import_module("jax")
    if jax.default_backend() != "gpu":
        return None
    jax.config.update("jax_default_matmul_precision", "float32")
    return jax_scan.make(case, setup)
