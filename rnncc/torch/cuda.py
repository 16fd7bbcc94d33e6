# pyright: basic, reportMissingImports=false
"""A net as code for a GPU, on memory of PyTorch's allocator and in PyTorch's stream.

A call has been put on the stream when it returns, and has not run. That tensors live until then
PyTorch's allocator sees to, as all of them are used in that one stream.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from rnncc_runtime.arrays import read_specs
from rnncc_runtime.compiled import remember
from rnncc_runtime.sizes import solve

import rnncc
from rnncc.errors import CompileError
from rnncc.frontends.torch.types import TORCH_DTYPES
from rnncc.ir.program import Program
from rnncc.ir.types import dtype_of
from rnncc.records import record
from rnncc.torch.devices import Gpu, check_dtypes, dense
from rnncc.torch.faults import can_fail, errors_of
from rnncc.torch.model_order import check_order, differentiated

Tensors = Sequence[torch.Tensor]
Optionals = Sequence[torch.Tensor | None]
Sizes = Mapping[str, int]


@record(eq=False)
class DeviceTape:
    """What forward leaves for backward: memory, and the tensors that backward reads besides, which
    do not hold the graph."""

    memory: torch.Tensor
    inputs: Tensors
    outputs: Tensors
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

    def infer(self, inputs: Tensors, out: Tensors) -> None:
        """Compute the outputs."""
        entry = self._entry(False)
        inputs = [dense(x) for x in inputs]
        blocks = {"inputs": entry.table(inputs), "outputs": entry.table(out)}
        entry.call("run", blocks, entry.sizes(inputs), self._can_fail)

    def forward(self, inputs: Tensors, out: Tensors) -> DeviceTape:
        """Compute the outputs; returns the tape."""
        entry = self._entry(True)
        inputs = [dense(x) for x in inputs]
        sizes = entry.sizes(inputs)
        memory = entry.memory("tape_bytes", sizes)
        blocks = {
            "inputs": entry.table(inputs),
            "parameters": [],
            "outputs": entry.table(out),
            "tape": memory.data_ptr(),
        }
        entry.call("forward", blocks, sizes, self._can_fail)
        return DeviceTape(memory, inputs, [x.detach() for x in out], sizes)

    def backward(self, tape: DeviceTape, grads: Optionals, out: Optionals) -> None:
        """Compute gradients; uses the tape up.

        What is wrong with values, forward has found: there is nothing to wait for.

        Args:
            grads: of each output, or None.
            out: where that of each input goes, or None.
        """
        entry = self._entry(True)
        seeds = entry.seeds(grads, tape.outputs)
        blocks = {
            "inputs": entry.table(tape.inputs),
            "parameters": [],
            "output_grads": entry.table(seeds),
            "grads": entry.table([out[i] for i in entry.sources]),
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
        metadata: Any = self._model.metadata
        check_order(program.net, metadata)
        names = ("inputs", "outputs", *(("output_grads", "grads") if train else ()))
        groups = {name: read_specs(metadata[name]) for name in names}
        specs = [spec for group in groups.values() for spec in group.values()]
        self._used = set[str]().union(*(size.symbols for spec in specs for size in spec.sizes))
        self._inputs = groups["inputs"]
        self._dtypes = [TORCH_DTYPES[dtype_of(x)] for x in program.net.inputs.values()]
        self._seeds, self.sources = list[tuple[int, bool]](), list[int]()
        if train:
            seeded, self.sources = differentiated(program.net, metadata)
            optional = [spec.optional for spec in groups["output_grads"].values()]
            self._seeds = list(zip(seeded, optional, strict=True))
        self._name = program.name
        self._waited, self._late = errors_of(gpu, True), errors_of(gpu, False)
        self._somewhere = self._late.address(0)
        self._known: dict[Any, Sizes] = {}
        self._bytes: dict[Any, int] = {}

    def table(self, tensors: Optionals) -> list[int]:
        """Where tensors lie, in the order of a struct; 0 for what is not there.

        An empty tensor lies nowhere, and is there even so.
        """
        return [0 if x is None else x.data_ptr() or self._somewhere for x in tensors]

    def seeds(self, grads: Optionals, outputs: Tensors) -> Optionals:
        """Gradients of outputs, with zeros where the code needs some and there are none."""
        seeds = list[torch.Tensor | None]()
        for number, is_optional in self._seeds:
            grad = grads[number]
            if grad is not None:
                seeds.append(dense(grad))
            else:
                seeds.append(None if is_optional else torch.zeros_like(outputs[number]))
        return seeds

    def sizes(self, inputs: Tensors) -> Sizes:
        """What the sizes are called, remembered by the shapes of inputs.

        Raises:
            ArrayError: an input has a wrong dtype or shape.
        """
        check_dtypes(self._inputs, inputs, self._dtypes)
        key = tuple([x.shape for x in inputs])
        known = self._known.get(key)
        return known or remember(self._known, key, self._solved(key))

    def _solved(self, shapes: Sequence[torch.Size]) -> Sizes:
        pairs = zip(self._inputs.items(), shapes, strict=True)
        named = [(name, spec.sizes, tuple(shape)) for (name, spec), shape in pairs]
        symbols: Sequence[str] = self._model.metadata["symbols"]
        values = solve(named, [symbol for symbol in symbols if symbol in self._used])
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
