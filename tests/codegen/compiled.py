"""Nets compiled into this process, called with bare pointers."""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

import numpy as np
from rnncc_runtime import Model

import rnncc
from rnncc.codegen.cpu.library.entries import emit_module
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm import objects
from rnncc.ir.program import Program
from rnncc.ir.types import NUMPY
from rnncc.kern.library import Library
from rnncc.kern.program import KernelProgram
from rnncc.options import Options
from rnncc.stages.reading import import_source
from tests.codegen.guarded import Guards, address, table
from tests.compiling import lower
from tests.golden import Arrays


class Bare:
    """A kernel program's code, its weights and workspace wherever the test puts them."""

    def __init__(self, kernels: KernelProgram, target: CpuTarget) -> None:
        self.kernels = kernels
        library = Library.of(kernels)
        made = emit_module(library, target, {})
        optimised = objects.optimise(str(made.module), target, jit=True, linked=made.linked)
        self._engine = objects.load(optimised)
        symbols = [ctypes.c_int64] * len(kernels.symbols)
        run = self._engine.get_function_address(f"{kernels.name}_run_call")
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4, *symbols)(run)
        workspace = self._engine.get_function_address(f"{kernels.name}_workspace_bytes")
        self.workspace_bytes = ctypes.CFUNCTYPE(ctypes.c_int64, *symbols)(workspace)
        self.weights = library.weights_block()

    def run(
        self,
        inputs: Arrays,
        sizes: Mapping[str, int],
        guards: Guards,
        absent: Collection[str] = (),
    ) -> Arrays:
        """Call with every block in guarded memory; the outputs, copied."""
        symbols = [sizes.get(name, 1) for name in self.kernels.symbols]
        held = [guards.array(np.ascontiguousarray(inputs[p.name])) for p in self.kernels.inputs]
        outputs: Arrays = {}
        for port in self.kernels.outputs:
            shape = tuple(d.evaluate(sizes) for d in port.dims)
            outputs[port.name] = guards.array(np.full(shape, 77, NUMPY[port.dtype]))
        weights = guards.array(self.weights)
        size = self.workspace_bytes(*symbols)
        workspace = guards.array(np.full(size, 0xFF, np.uint8))
        code = self._call(
            address(weights),
            table(held),
            table(None if name in absent else array for name, array in outputs.items()),
            address(workspace),
            *symbols,
        )
        assert code == 0, f"error code {code}"
        return {name: np.array(array) for name, array in outputs.items() if name not in absent}


@cache
def model_of(case: Path) -> Model:
    """A golden case as users compile it; whoever changes the model takes one of their own."""
    return rnncc.compile(case / "net.pb", case / "init.pb")


@cache
def bare_net(case: Path, cpu: str | None = None) -> tuple[Program, Bare]:
    """A golden case through the whole pipeline; the program as imported, for the interpreter."""
    options = Options(name="net", cpu=cpu)
    imported = import_source(case / "net.pb", case / "init.pb", options)
    kernels = lower(import_source(case / "net.pb", case / "init.pb", options), options)
    return imported, Bare(kernels, resolve_target(None, cpu))
