"""A compiled model: checks the caller's arrays, finds the sizes, calls the code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
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
    cut,
    read_specs,
)
from rnncc_runtime.compiled import Compiled, Origin, Shape, Shapeds, remember, shapes_of
from rnncc_runtime.memory import Memory
from rnncc_runtime.pool import Parallel
from rnncc_runtime.sizes import parse_largest
from rnncc_runtime.stream import Stream


@dataclass(frozen=True)
class _Sizes:
    """What follows from the shapes of a call's arrays."""

    symbols: Shape
    outputs: list[Shape]
    workspace: int


class _Frame(threading.local):
    """What one thread needs for its calls: two pointer tables and a workspace that only grows."""

    def __init__(self, inputs: int, outputs: int) -> None:
        self.inputs = (c_void_p * max(inputs, 1))()
        self.outputs = (c_void_p * max(outputs, 1))()
        self.inputs_address = addressof(self.inputs)
        self.outputs_address = addressof(self.outputs)
        self.workspace = Memory(0)


class Model(Compiled):
    """A model for inference: `Compiled` with `run` and `stream`.

    Safe to share: every thread that calls `run` has a workspace of its own. Copies and pickles take
    the code along.

    Attributes:
        parameters: name -> `TensorSpec`, of those packed inside.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        functions: Mapping[str, Callable[..., int]],
        keep: object = None,
        origin: Origin | None = None,
    ) -> None:
        super().__init__(metadata, functions, keep, origin)
        self.parameters = read_specs(metadata["parameters"])
        self._counts: Mapping[str, Sequence[Any]] = metadata.get("counts", {})
        self._frame = _Frame(len(self.inputs), len(self.outputs))
        self._known: dict[tuple[Shape | None, ...], _Sizes] = {}
        sizes = parse_largest(metadata["workspace"])
        used = set[str]().union(*(size.symbols for size in sizes))
        for spec in (*self.inputs.values(), *self.outputs.values()):
            used = used.union(*(size.symbols for size in spec.sizes))
        self._needed = tuple(symbol for symbol in self._symbols if symbol in used)

    def run(
        self,
        inputs: Mapping[str, object],
        out: Mapping[str, Array] | None = None,
        pool: Parallel | None = None,
    ) -> dict[str, Array]:
        """Compute the outputs.

        Args:
            inputs: every input by its name, optional ones if wanted: an array, or what
                `np.asarray` makes one of, with exactly the dtype of its spec. What is not
                contiguous is copied.
            out: arrays to write into, contiguous and apart from the inputs; only these outputs
                are computed. Without it, every output is computed into a new array, without the
                rows that do not count where the run decides how many there are.
            pool: threads that compute the call together, as many of them as are worth it, if the
                model was compiled with `threads`: a `Pool`, or another `Parallel`. The results have
                the same bits.

        Returns:
            The outputs by name.

        Raises:
            ArrayError: an array is missing, unknown, of a wrong dtype or shape, or not writeable.
            RunError: the code refused the values, such as a sequence length beyond T.
        """
        arguments = check_inputs(inputs, self.inputs)
        results = check_outputs({} if out is None else out, self.outputs)
        sizes = self._sizes(arguments, results)
        if out is None:
            results = [
                np.empty(shape, spec.dtype)
                for spec, shape in zip(self.outputs.values(), sizes.outputs, strict=True)
            ]
        sources = [address(array) for array in arguments]
        targets = [address(array) for array in results]
        if out is not None:
            arrays = zip(sources + targets, [*arguments, *results], strict=True)
            places = [(at, 0 if array is None else array.nbytes) for at, array in arrays]
            check_apart([*self.inputs, *self.outputs], places, len(sources))
        self._call(sizes, sources, targets, pool)
        named = zip(self.outputs, results, strict=True)
        outputs = {name: array for name, array in named if array is not None}
        return cut(outputs, self._counts) if out is None else outputs

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

    def _call(
        self, sizes: _Sizes, sources: list[int], targets: list[int], pool: Parallel | None
    ) -> None:
        frame = self._frame
        if frame.workspace.size < sizes.workspace:
            frame.workspace = Memory(sizes.workspace)
        frame.inputs[: len(sources)] = sources
        frame.outputs[: len(targets)] = targets
        places = (frame.inputs_address, frame.outputs_address, frame.workspace.address)
        self._compute("run", places, sizes.symbols, pool)

    def _sizes(self, arguments: Shapeds, results: Shapeds) -> _Sizes:
        """The sizes of a call, remembered by the shapes of its arrays."""
        key = tuple([None if array is None else array.shape for array in (*arguments, *results)])
        known = self._known.get(key)
        return known or remember(self._known, key, self._find_sizes(arguments, results))

    def _find_sizes(self, arguments: Shapeds, results: Shapeds) -> _Sizes:
        symbols = self._solved(arguments, results, self._needed)
        workspace = self._bytes("workspace_bytes", symbols)
        return _Sizes(tuple(symbols.values()), shapes_of(self.outputs, symbols), workspace)

    def __str__(self) -> str:
        groups = ("inputs", self.inputs), ("outputs", self.outputs), ("packed", self.parameters)
        lines = [f"{self.name} (workspace: {self.metadata['workspace']} bytes)"]
        for title, specs in groups:
            lines += [f"{title}:", *(f"  {spec}" for spec in specs.values())] if specs else []
        return "\n".join(lines)
