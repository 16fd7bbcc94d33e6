"""Streams through bare compiled code, every block in guarded memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rnncc.codegen.cpu.library.entries import emit_module
from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm import objects
from rnncc.driver import compiling
from rnncc.ir.program import Program
from rnncc.ir.types import NUMPY
from rnncc.kern.exports import exported
from rnncc.kern.library import Library
from rnncc.kern.program import Port
from rnncc.options import Options
from rnncc.stages.reading import import_source
from tests.codegen.guarded import Guards, address, table
from tests.golden import Arrays
from tests.passes.streams import in_chunks

Call = Callable[..., int]
NOT_WRITTEN = 0xA5


class BareStream:
    """A library's functions; weights, state and workspace are wherever the test puts them."""

    def __init__(self, library: Library, target: CpuTarget) -> None:
        assert library.streaming is not None
        self.library, self.streaming = library, library.streaming
        code = emit_module(library, target, {})
        self._engine = objects.load(objects.optimise(str(code.module), target, jit=True))
        self.timed = library.symbols
        self.untimed = [symbol for symbol in self.timed if symbol != "T"]
        self._calls = {
            name: self._bind(f"{library.name}_{name}_given", name, len(parameters) + 1)
            for name, parameters in exported(library).items()
        }
        for name in ("workspace_bytes", "state_bytes"):
            self._calls[name] = self._bind(f"{library.name}_{name}", name, 0)
        self.weights = library.weights_block()

    def _bind(self, symbol: str, name: str, pointers: int) -> Call:
        sizes = len(self.untimed if name.startswith("state_") else self.timed)
        result = ctypes.c_int32 if pointers else ctypes.c_int64
        types = [*[ctypes.c_void_p] * pointers, *[ctypes.c_int64] * sizes]
        return ctypes.CFUNCTYPE(result, *types)(self._engine.get_function_address(symbol))

    def call(self, name: str) -> Call:
        """A function as it is: (weights, pointers..., sizes...) -> code."""
        return self._calls[name]

    def run(self, inputs: Arrays, sizes: Mapping[str, int], memory: Guards) -> Arrays:
        """The whole sequence at once."""
        outputs, targets = self._outputs(sizes, memory)
        sources = self._inputs(inputs, memory)
        self._call("run", sizes, memory, sources, targets, self._workspace(sizes, memory))
        return {name: np.array(array) for name, array in outputs.items()}

    def begin(self, inputs: Arrays, sizes: Mapping[str, int], memory: Guards) -> bytes:
        """The first state; sequences may not be there."""
        starts = {n: a for n, a in inputs.items() if n in self.streaming.defaults}
        state = self._state(bytes([NOT_WRITTEN]) * self.size("state_bytes", sizes), memory)
        workspace = self._workspace({**sizes, "T": 0}, memory)
        self._call("state_init", sizes, memory, self._inputs(starts, memory), state, workspace)
        return state.tobytes()

    def step(
        self,
        inputs: Arrays,
        state: bytes,
        sizes: Mapping[str, int],
        memory: Guards,
        absent: Sequence[str] = (),
    ) -> tuple[Arrays, bytes]:
        """A few steps from a state that has moved to another place."""
        timed = {n: a for n, a in inputs.items() if n not in self.streaming.defaults}
        outputs, targets = self._outputs(sizes, memory, absent)
        kept = self._state(state, memory)
        workspace = self._workspace(sizes, memory)
        sources = self._inputs(timed, memory)
        self._call("step", sizes, memory, sources, targets, kept, workspace)
        return {name: np.array(array) for name, array in outputs.items()}, kept.tobytes()

    def size(self, name: str, sizes: Mapping[str, int]) -> int:
        symbols = self.untimed if name.startswith("state_") else self.timed
        return self._calls[name](*[sizes.get(symbol, 1) for symbol in symbols])

    def _call(self, name: str, sizes: Mapping[str, int], memory: Guards, *blocks: Any) -> None:
        symbols = self.untimed if name.startswith("state_") else self.timed
        pointers = [b if isinstance(b, ctypes.Array) else address(b) for b in blocks]
        weights = address(memory.array(self.weights))
        code = self._calls[name](weights, *pointers, *[sizes.get(s, 1) for s in symbols])
        assert code == 0, f"error code {code}"

    def _inputs(self, inputs: Arrays, memory: Guards) -> object:
        held = [self._held(inputs.get(p.name), memory) for p in self.streaming.inputs]
        return table(held)

    def _held(self, array: np.ndarray | None, memory: Guards) -> np.ndarray | None:
        return None if array is None else memory.array(np.ascontiguousarray(array))

    def _outputs(
        self, sizes: Mapping[str, int], memory: Guards, absent: Sequence[str] = ()
    ) -> tuple[Arrays, object]:
        arrays = {p.name: memory.array(_filled(p, sizes)) for p in self.streaming.outputs}
        targets = table(None if name in absent else array for name, array in arrays.items())
        return {n: a for n, a in arrays.items() if n not in absent}, targets

    def _state(self, content: bytes, memory: Guards) -> np.ndarray:
        return memory.array(np.frombuffer(content, np.uint8))

    def _workspace(self, sizes: Mapping[str, int], memory: Guards) -> np.ndarray:
        return memory.array(np.full(self.size("workspace_bytes", sizes), 0xFF, np.uint8))


def _filled(port: Port, sizes: Mapping[str, int]) -> np.ndarray:
    return np.full(tuple(d.evaluate(sizes) for d in port.dims), 77, NUMPY[port.dtype])


@cache
def bare_stream(case: Path) -> tuple[Program, BareStream]:
    options = Options(name="net")
    imported = import_source(case / "net.pb", case / "init.pb", options)
    return imported, BareStream(library_of(imported.copy()), resolve_target())


def library_of(program: Program, **options: Any) -> Library:
    return compiling.build_library(program, None, Options(name="net", verify_each=True, **options))


def stepwise(
    program: Program,
    bare: BareStream,
    inputs: Arrays,
    sizes: dict[str, int],
    chunks: Sequence[int],
    memory: Guards,
) -> Arrays:
    """The outputs of a sequence cut into chunks."""
    state = bare.begin(inputs, sizes, memory)

    def step(part: Arrays, steps: int) -> Arrays:
        nonlocal state
        outputs, state = bare.step(part, state, {**sizes, "T": steps}, memory)
        return outputs

    return in_chunks(program, step, inputs, chunks)
