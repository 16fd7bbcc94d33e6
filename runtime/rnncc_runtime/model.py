"""A compiled model: checks the caller's arrays, finds the sizes, calls the code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from ctypes import addressof, c_void_p
from dataclasses import dataclass
from typing import Any

import numpy as np

from rnncc_runtime.arrays import (
    Array,
    address,
    check_apart,
    check_inputs,
    check_outputs,
    read_specs,
)
from rnncc_runtime.errors import CODES, ArrayError, LoadError, RunError
from rnncc_runtime.sizes import parse_largest, solve
from rnncc_runtime.stream import Stream

Arrays = list[Array | None]
Shape = tuple[int, ...]

FORMAT = 2
"""The version of the metadata that this package reads."""

_ALIGNMENT = 64
_LARGEST = 2**62
_REMEMBERED = 256
"""Combinations of shapes whose sizes are kept; beyond that, all are found anew."""


@dataclass(frozen=True)
class _Sizes:
    """What follows from the shapes of a call's arrays."""

    symbols: tuple[int, ...]
    outputs: tuple[Shape, ...]
    workspace: int


class _Frame(threading.local):
    """What one thread needs for its calls: two pointer tables and a workspace that only grows."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = (c_void_p * max(inputs, 1))()
        self.outputs = (c_void_p * max(outputs, 1))()
        self.inputs_address = addressof(self.inputs)
        self.outputs_address = addressof(self.outputs)
        self.size = -1
        self.workspace_address = 0

    def grow(self, size: int) -> None:
        self.memory = np.empty(size + _ALIGNMENT, np.uint8)
        self.size = size
        self.workspace_address = -(-address(self.memory) // _ALIGNMENT) * _ALIGNMENT


class Model:
    """Compiled code with the names, dtypes and shapes of its arrays.

    Safe to share: every thread that calls `run` has a workspace of its own.

    Args:
        metadata: what `NAME_metadata` tells, as a dict (docs/abi.md).
        functions: the exported functions by name, such as
            `run`: (inputs, outputs, workspace, *symbols) -> code, addresses as ints, and
            `workspace_bytes`: (*symbols) -> bytes that a call with these sizes needs.
        keep: whatever must live as long as the code is called.

    Attributes:
        inputs, outputs, parameters: name -> `TensorSpec`; parameters are those packed inside.

    Raises:
        LoadError: the metadata is of another format.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        functions: Mapping[str, Callable[..., int]],
        keep: object = None,
    ) -> None:
        if metadata.get("format") != FORMAT:
            raise LoadError(f"metadata of format {metadata.get('format')!r}, expected {FORMAT}")
        self.metadata = dict(metadata)
        self.name: str = metadata["name"]
        self.inputs = read_specs(metadata["inputs"])
        self.outputs = read_specs(metadata["outputs"])
        self.parameters = read_specs(metadata["parameters"])
        self._symbols: tuple[str, ...] = tuple(metadata["symbols"])
        self._functions = functions
        self._run = functions["run"]
        self._workspace_bytes = functions["workspace_bytes"]
        self._keep = keep
        self._frame = _Frame(len(self.inputs), len(self.outputs))
        self._known: dict[tuple[Shape | None, ...], _Sizes] = {}
        sizes = parse_largest(metadata["workspace"])
        used = set[str]().union(*(size.symbols for size in sizes))
        for spec in (*self.inputs.values(), *self.outputs.values()):
            used = used.union(*(size.symbols for size in spec.sizes))
        self._needed = tuple(symbol for symbol in self._symbols if symbol in used)

    def run(
        self, inputs: Mapping[str, object], out: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Compute the outputs.

        Args:
            inputs: every input by its name, optional ones if wanted: an array, or what
                `np.asarray` makes one of, with exactly the dtype of its spec. What is not
                contiguous is copied.
            out: arrays to write into, contiguous and apart from the inputs; only these outputs
                are computed. Without it, every output is computed into a new array.

        Returns:
            The outputs by name.

        Raises:
            ArrayError: an array is missing, unknown, of a wrong dtype or shape, or not writeable.
            RunError: the code refused the values, such as a sequence length beyond T.
        """
        given = check_inputs(inputs, self.inputs)
        results = check_outputs({} if out is None else out, self.outputs)
        sizes = self._sizes(given, results)
        if out is None:
            results = [
                np.empty(shape, spec.dtype)
                for spec, shape in zip(self.outputs.values(), sizes.outputs, strict=True)
            ]
        sources = [address(array) for array in given]
        targets = [address(array) for array in results]
        if out is not None:
            arrays = zip(sources + targets, [*given, *results], strict=True)
            places = [(at, 0 if array is None else array.nbytes) for at, array in arrays]
            check_apart([*self.inputs, *self.outputs], places, len(sources))
        self._call(sizes, sources, targets)
        named = zip(self.outputs, results, strict=True)
        return {name: array for name, array in named if array is not None}

    def stream(
        self, batch: int | None = None, inputs: Mapping[str, object] | None = None
    ) -> Stream:
        """Begin a sequence that comes piece by piece; cut anywhere, it gives the bits of `run`.

        Args:
            batch: N; without it, what `inputs` or the first step shows.
            inputs: what the sequence begins with, as for `Stream.reset`.

        Raises:
            StreamError: the net cannot be computed as time goes on; the message says why.
            ArrayError, RunError: as `Stream.reset` does.
        """
        return Stream(self.metadata, self._functions, batch, inputs, keep=self)

    def _call(self, sizes: _Sizes, sources: list[int], targets: list[int]) -> None:
        frame = self._frame
        if frame.size < sizes.workspace:
            frame.grow(sizes.workspace)
        frame.inputs[: len(sources)] = sources
        frame.outputs[: len(targets)] = targets
        code = self._run(
            frame.inputs_address, frame.outputs_address, frame.workspace_address, *sizes.symbols
        )
        if code:
            self._refuse(code, sizes.symbols)

    def _sizes(self, given: Arrays, results: Arrays) -> _Sizes:
        """The sizes of a call, remembered by the shapes of its arrays."""
        key = tuple([None if array is None else array.shape for array in given + results])
        known = self._known.get(key)
        if known is None:
            known = self._find_sizes(given, results)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known

    def _find_sizes(self, given: Arrays, results: Arrays) -> _Sizes:
        labels = [*self.inputs, *(f"output {name}" for name in self.outputs)]
        specs = (*self.inputs.values(), *self.outputs.values())
        shapes = [
            (label, spec.sizes, array.shape)
            for label, spec, array in zip(labels, specs, given + results, strict=True)
            if array is not None
        ]
        values = solve(shapes, self._needed)
        symbols = tuple(values.get(symbol, 1) for symbol in self._symbols)
        workspace = self._workspace_bytes(*symbols)
        if not 0 <= workspace < _LARGEST:
            self._refuse(2, symbols)
        outputs = {
            name: tuple(size.evaluate(values) for size in spec.sizes)
            for name, spec in self.outputs.items()
        }
        for name, shape in outputs.items():
            if min(shape, default=0) < 0:
                raise ArrayError(f"output {name} would have shape {list(shape)}")
        return _Sizes(symbols, tuple(outputs.values()), workspace)

    def _refuse(self, code: int, symbols: tuple[int, ...]) -> None:
        told = ", ".join(f"{s} = {v}" for s, v in zip(self._symbols, symbols, strict=True))
        raise RunError(f"{self.name}: {CODES.get(code, f'unknown error {code}')} ({told})", code)

    def __str__(self) -> str:
        groups = ("inputs", self.inputs), ("outputs", self.outputs), ("packed", self.parameters)
        lines = [f"{self.name} (workspace: {self.metadata['workspace']} bytes)"]
        for title, specs in groups:
            lines += [f"{title}:", *(f"  {spec}" for spec in specs.values())] if specs else []
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Model {self.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"
