# pyright: basic, reportMissingImports=false
"""A net as code for a GPU, on memory of PyTorch's allocator and in PyTorch's stream.

A call has been put on the stream when it returns, and has not run. That tensors live until then
PyTorch's allocator sees to, as all of them are used in that one stream.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rnncc_runtime.arrays import Specs, read_specs
from rnncc_runtime.compiled import remember
from rnncc_runtime.errors import ArrayError
from rnncc_runtime.sizes import solve

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.torch.types import type_name
from rnncc.ir.program import Program
from rnncc.torch.devices import Gpu
from rnncc.torch.faults import can_fail, errors_of

Named = Mapping[str, torch.Tensor]
Sizes = Mapping[str, int]


@dataclass(eq=False)
class DeviceTape:
    """What forward leaves for backward: memory, and the tensors that backward reads besides."""

    memory: torch.Tensor
    inputs: Named
    outputs: Named
    sizes: Sizes


class GpuCode:
    """Machine code for one GPU, compiled when it is first needed; safe to share between threads.

    Inputs and outputs are dense tensors by the net's names, all of them on this GPU.
    """

    def __init__(self, program: Program, gpu: Gpu, precision: str) -> None:
        self._program, self._gpu, self._precision = program, gpu, precision
        self._can_fail = can_fail(program)
        self._lock = threading.Lock()
        self._entries: dict[bool, _Entry] = {}

    def prepare(self, train: bool) -> None:
        """Compile."""
        self._entry(train)

    def infer(self, inputs: Named, out: Named) -> None:
        """Compute the outputs."""
        entry = self._entry(False)
        sizes = entry.sizes(inputs)
        blocks = {"inputs": entry.table("inputs", inputs), "outputs": entry.table("outputs", out)}
        entry.call("run", blocks, sizes, self._can_fail)

    def forward(self, inputs: Named, out: Named) -> DeviceTape:
        """Compute the outputs; returns the tape."""
        entry = self._entry(True)
        sizes = entry.sizes(inputs)
        memory = entry.memory("tape_bytes", sizes)
        blocks = {
            "inputs": entry.table("inputs", inputs),
            "parameters": [],
            "outputs": entry.table("outputs", out),
            "tape": memory.data_ptr(),
        }
        entry.call("forward", blocks, sizes, self._can_fail)
        detached = {name: tensor.detach() for name, tensor in out.items()}  # these know no graph
        return DeviceTape(memory, inputs, detached, sizes)

    def backward(self, tape: DeviceTape, grads: Named, out: Named) -> None:
        """Compute the gradients that have a place in `out`; uses the tape up.

        What is wrong with values, forward has found: there is nothing to wait for.
        """
        entry = self._entry(True)
        blocks = {
            "inputs": entry.table("inputs", tape.inputs),
            "parameters": [],
            "output_grads": entry.table("output_grads", entry.filled(grads, tape.outputs)),
            "grads": entry.table("grads", out),
            "tape": tape.memory.data_ptr(),
        }
        entry.call("backward", blocks, tape.sizes, False)

    def _entry(self, train: bool) -> _Entry:
        entry = self._entries.get(train)
        if entry is None:
            with self._lock, self._gpu.current():
                if train not in self._entries:
                    kind = train, self._precision
                    self._entries[train] = _Entry(self._program, self._gpu, *kind)
                entry = self._entries[train]
        return entry


class _Entry:
    """The code for inference, or for training."""

    def __init__(self, program: Program, gpu: Gpu, train: bool, precision: str) -> None:
        if gpu.is_capturing():
            hint = "call it once before torch.cuda.graph"
            raise CompileError("", "nothing is compiled while a CUDA graph is captured", hint)
        self._gpu = gpu
        device = f"cuda:{gpu.number}"
        self._model: Any = rnncc.compile(program, train=train, device=device, precision=precision)
        groups = ("inputs", "outputs", *(("output_grads", "grads") if train else ()))
        self._specs = {group: read_specs(self._model.metadata[group]) for group in groups}
        self._name = program.name
        self._waited, self._late = errors_of(gpu, True), errors_of(gpu, False)
        self._known: dict[Any, Sizes] = {}
        self._bytes: dict[Any, int] = {}

    def table(self, group: str, tensors: Named) -> list[int]:
        """Where tensors lie, in the order of a struct; 0 for what is not there.

        An empty tensor lies nowhere, and is there even so.
        """
        chosen = [tensors.get(name) for name in self._specs[group]]
        somewhere = self._late.address(0)
        return [0 if tensor is None else tensor.data_ptr() or somewhere for tensor in chosen]

    def filled(self, grads: Named, outputs: Named) -> Named:
        """Gradients of outputs, with zeros where the code needs some and there are none."""
        needed = {n for n, spec in self._specs["output_grads"].items() if not spec.optional}
        zeros = {name: torch.zeros_like(outputs[name]) for name in needed - grads.keys()}
        return {**grads, **zeros}

    def sizes(self, inputs: Named) -> Sizes:
        """What the sizes are called, remembered by the shapes and dtypes of inputs.

        Raises:
            ArrayError: an input has a wrong dtype or shape.
        """
        key = tuple([(tensor.shape, tensor.dtype) for tensor in inputs.values()])
        known = self._known.get(key)
        return known or remember(self._known, key, self._solved(inputs))

    def _solved(self, inputs: Named) -> Sizes:
        specs = self._specs["inputs"]
        for name, spec in specs.items():
            dtype = type_name(inputs[name].dtype)
            if dtype != spec.dtype.name:
                raise ArrayError(f"{name} is {dtype}, expected {spec.dtype.name}")
        shapes = [(name, spec.sizes, tuple(inputs[name].shape)) for name, spec in specs.items()]
        used = set[str]().union(*(s.symbols for spec in _all(self._specs) for s in spec.sizes))
        symbols: Sequence[str] = self._model.metadata["symbols"]
        values = solve(shapes, [symbol for symbol in symbols if symbol in used])
        return {symbol: values.get(symbol, 1) for symbol in symbols}

    def memory(self, name: str, sizes: Sizes) -> torch.Tensor:
        """As many bytes as `tape_bytes` or `workspace_bytes` tells, in the current stream."""
        key = name, *sizes.values()
        known = self._bytes.get(key)
        if known is None:
            known = remember(self._bytes, key, getattr(self._model, name)(sizes))
        return self._gpu.memory(known)

    def call(self, name: str, blocks: Mapping[str, Any], sizes: Sizes, waits: bool) -> None:
        """Put a call on the stream.

        Args:
            waits: whether it is waited for, to raise what is wrong with values.

        Raises:
            CompileError: it is to be waited for, and becomes part of a CUDA graph.
            RunError: it failed; or an earlier call did, of those that were not waited for.
        """
        gpu, words = self._gpu, self._waited if waits else self._late
        with gpu.current():
            captured = gpu.is_capturing()
            if captured and waits:
                what = "what it finds wrong with lengths and indices is lost in a CUDA graph"
                raise CompileError(self._name, what, "run it outside of torch.cuda.graph")
            self._late.raise_any()
            word = words.take(self._name)
            workspace = self.memory("workspace_bytes", sizes)
            blocks = {**blocks, "workspace": workspace.data_ptr()}
            status = 0 if captured else words.address(word)
            self._model.call(name, blocks, sizes, gpu.stream(), status)
            if waits:
                gpu.wait()
                words.raise_found(word)


def _all(groups: Mapping[str, Specs]) -> list[Any]:
    return [spec for specs in groups.values() for spec in specs.values()]
