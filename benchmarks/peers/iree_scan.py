"""IREE: what JAX writes of a scan, compiled for this CPU."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.peers.jax_cells import forward_of
from rnncc.bench.cases import Case
from rnncc.bench.contenders import ALONE, Setup, Workload


def make(case: Case, setup: Setup = ALONE) -> Workload | None:
    """A module that runs in the caller's thread; whole sequences only."""
    compiler: Any = import_module("iree.compiler.tools")
    runtime: Any = import_module("iree.runtime")
    jax: Any = import_module("jax")
    model = forward_of(case)
    if model is None or case.mode != "run" or setup.threads > 1:
        return None
    forward, arrays = model
    x = arrays.pop("x")
    text = jax.jit(partial(forward, p=arrays)).lower(x).as_text()
    flatbuffer = compiler.compile_str(
        text,
        input_type="stablehlo",
        target_backends=["llvm-cpu"],
        extra_args=["--iree-llvmcpu-target-cpu=host"],
    )
    config = runtime.Config("local-sync")
    context = runtime.SystemContext(config=config)
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, flatbuffer))
    (name,) = (name for name in context.modules if name.startswith("jit"))
    main = context.modules[name]["main"]
    argument = runtime.asdevicearray(config.device, np.asarray(x))
    return Workload(lambda: main(argument), lambda: main(argument).to_host())
