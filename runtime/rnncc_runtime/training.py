"""A model compiled for training: parameters that the caller updates, forward, and backward."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import addressof, c_void_p
from dataclasses import dataclass, field
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
from rnncc_runtime.model import FORMAT
from rnncc_runtime.sizes import solve

_ALIGNMENT = 64
_LARGEST = 2**62
_Named = tuple[str, Array | None]
Shape = tuple[int, ...]
_REMEMBERED = 256
"""Combinations of shapes whose sizes are kept."""
_SPARE = 2
"""Blocks of memory that are kept for the next call."""


@dataclass(eq=False)
class Tape:
    """What a forward pass leaves for its backward pass; `Model.backward` uses it up.

    The inputs and outputs of the forward pass belong to it: leave them unchanged until then.
    """

    _inputs: list[Array | None]
    _outputs: list[Array]
    _sizes: _Sizes
    _block: Block | None = field(repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of the tape itself, without inputs and outputs; 0 once used up."""
        return 0 if self._block is None else self._block.size


class Block:
    """Memory at a multiple of 64 bytes."""

    def __init__(self, size: int) -> None:
        self.memory = np.empty(size + _ALIGNMENT, np.uint8)
        self.size = size
        self.address = -(-address(self.memory) // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True)
class _Sizes:
    """What follows from the sizes of a call: shapes by group of arrays, and bytes."""

    symbols: tuple[int, ...]
    shapes: dict[str, list[Shape]]
    tape: int
    workspace: int


class _Workspace(threading.local):
    block = Block(0)

    def of(self, size: int) -> int:
        if self.block.size < size:
            self.block = Block(size)
        return self.block.address


class TrainableModel:
    """Compiled forward and backward passes over parameters that the caller holds.

    Safe to share between threads, as long as none changes parameters while another computes.

    Args:
        metadata: what `NAME_metadata` tells, as a dict (docs/abi.md).
        functions: the exported functions by name.
        keep: whatever must live as long as the code is called.

    Attributes:
        inputs, outputs: name -> `TensorSpec`.
        parameters: name -> array, float32, as the init net made it; update them in place.

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
        self._trained = read_specs(metadata["trained"])
        self._given = read_specs(metadata["output_grads"])
        self._grads = read_specs(metadata["grads"])
        self._symbols: tuple[str, ...] = tuple(metadata["symbols"])
        self._functions, self._keep = dict(functions), keep
        self._workspace = _Workspace()
        self._spare: list[Block] = []
        self._known: dict[tuple[Shape | None, ...], _Sizes] = {}
        self._fixed = [tuple(s.evaluate({}) for s in t.sizes) for t in self._trained.values()]
        self.parameters: dict[str, Array] = {
            name: np.empty(shape, spec.dtype)
            for (name, spec), shape in zip(self._trained.items(), self._fixed, strict=True)
        }
        table = _table(self.parameters.values())
        functions["init_parameters"](addressof(table))

    def forward(
        self, inputs: Mapping[str, object], out: Mapping[str, Array] | None = None
    ) -> tuple[dict[str, Array], Tape]:
        """Compute the outputs, and keep what `backward` needs.

        Args:
            inputs: every input by its name, as for `Model.run`.
            out: arrays to write outputs into, contiguous and apart from inputs and parameters.

        Returns:
            The outputs by name, and the tape.

        Raises:
            ArrayError: an array is missing, unknown, of a wrong dtype or shape, or not writeable.
            RunError: the code refused the values.
        """
        given = check_inputs(inputs, self.inputs)
        chosen = check_outputs({} if out is None else out, self.outputs)
        sizes = self._sizes(given, chosen)
        results = [
            np.empty(shape, spec.dtype) if array is None else array
            for spec, shape, array in zip(
                self.outputs.values(), sizes.shapes["outputs"], chosen, strict=True
            )
        ]
        parameters = self._held()
        if out:
            read = [*zip(self.inputs, given, strict=True), *self.parameters.items()]
            _check_apart(read, list(zip(self.outputs, results, strict=True)))
        block = self._take(sizes.tape)
        tables = [_table(given), _table(parameters), _table(results)]
        self._call("forward", tables, block, sizes)
        named = dict(zip(self.outputs, results, strict=True))
        return named, Tape(given, results, sizes, block)

    def backward(
        self,
        tape: Tape,
        output_grads: Mapping[str, object],
        wanted: Iterable[str] | None = None,
        out: Mapping[str, Array] | None = None,
    ) -> dict[str, Array]:
        """The gradients of a loss with respect to the float inputs and the parameters.

        Args:
            tape: of `forward`; it is used up.
            output_grads: the loss's gradients with respect to outputs, by their names; an output
                left out has none.
            wanted: names of inputs and parameters; all by default.
            out: arrays to write gradients into, contiguous and apart from all that is read.

        Returns:
            Gradients by the names of inputs and parameters.

        Raises:
            ArrayError: an array is unknown, of a wrong dtype or shape, or not writeable; or the
                tape was used before.
        """
        if tape._block is None:  # pyright: ignore[reportPrivateUsage]
            raise ArrayError("the tape was used up by an earlier backward pass")
        sizes = tape._sizes  # pyright: ignore[reportPrivateUsage]
        unknown = [name for name in output_grads if name not in self._given]
        if unknown:
            raise ArrayError(f"no output with a gradient is named {', '.join(map(str, unknown))}")
        full = dict(output_grads)
        for (name, spec), shape in zip(self._given.items(), sizes.shapes["given"], strict=True):
            if name not in full and not spec.optional:
                full[name] = np.zeros(shape, spec.dtype)
        given = check_inputs(full, self._given)
        results = self._results(wanted, out, sizes)
        self._check_shapes(given, results, sizes)
        inputs, outputs = tape._inputs, tape._outputs  # pyright: ignore[reportPrivateUsage]
        parameters = self._held()
        if out:
            groups = (self.inputs, inputs), (self.outputs, outputs), (self._given, given)
            read = [pair for names, arrays in groups for pair in zip(names, arrays, strict=True)]
            written = zip((f"gradient of {name}" for name in self._grads), results, strict=True)
            _check_apart([*read, *self.parameters.items()], list(written))
        tables = [_table(arrays) for arrays in (inputs, parameters, given, results)]
        block, tape._block = tape._block, None  # pyright: ignore[reportPrivateUsage]
        self._call("backward", tables, block, sizes)
        if len(self._spare) < _SPARE:
            self._spare.append(block)
        named = zip(self._grads, results, strict=True)
        return {name: array for name, array in named if array is not None}

    def run(self, inputs: Mapping[str, object]) -> dict[str, Array]:
        """The outputs alone."""
        outputs, tape = self.forward(inputs)
        if tape._block is not None and len(self._spare) < _SPARE:  # pyright: ignore[reportPrivateUsage]
            self._spare.append(tape._block)  # pyright: ignore[reportPrivateUsage]
        return outputs

    def _results(
        self, wanted: Iterable[str] | None, out: Mapping[str, Array] | None, sizes: _Sizes
    ) -> list[Array | None]:
        """The arrays to write gradients into; None for one that is not wanted."""
        names = set(self._grads if wanted is None else wanted)
        if unknown := sorted(names - self._grads.keys()):
            raise ArrayError(f"no gradient is there for {', '.join(unknown)}")
        chosen = check_outputs({} if out is None else out, self._grads)
        return [
            array if array is not None or name not in names else np.empty(shape, spec.dtype)
            for (name, spec), shape, array in zip(
                self._grads.items(), sizes.shapes["grads"], chosen, strict=True
            )
        ]

    def _check_shapes(
        self, given: list[Array | None], results: list[Array | None], sizes: _Sizes
    ) -> None:
        specs = [*self._given.values(), *self._grads.values()]
        shapes = [*sizes.shapes["given"], *sizes.shapes["grads"]]
        for spec, want, array in zip(specs, shapes, [*given, *results], strict=True):
            if array is not None and array.shape != want:
                found = f"has shape {list(array.shape)}, expected {list(want)}"
                raise ArrayError(f"the gradient of {spec.name} {found}")

    def _sizes(self, given: list[Array | None], results: list[Array | None]) -> _Sizes:
        """The sizes of a call, remembered by the shapes of its arrays."""
        key = tuple([None if array is None else array.shape for array in given + results])
        known = self._known.get(key)
        if known is None:
            known = self._find_sizes(given, results)
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[key] = known
        return known

    def _find_sizes(self, given: list[Array | None], results: list[Array | None]) -> _Sizes:
        labels = [*self.inputs, *(f"output {name}" for name in self.outputs)]
        specs = (*self.inputs.values(), *self.outputs.values())
        shapes = [
            (label, spec.sizes, array.shape)
            for label, spec, array in zip(labels, specs, given + results, strict=True)
            if array is not None
        ]
        used = set[str]().union(*(size.symbols for spec in specs for size in spec.sizes))
        values = solve(shapes, tuple(s for s in self._symbols if s in used))
        symbols = tuple(values.get(symbol, 1) for symbol in self._symbols)
        values = dict(zip(self._symbols, symbols, strict=True))
        groups = {"outputs": self.outputs, "given": self._given, "grads": self._grads}
        found = {
            group: [tuple(size.evaluate(values) for size in spec.sizes) for spec in of.values()]
            for group, of in groups.items()
        }
        tape, workspace = (self._bytes(n, symbols) for n in ("tape_bytes", "workspace_bytes"))
        return _Sizes(symbols, found, tape, workspace)

    def _held(self) -> list[Array | None]:
        """The parameters in order, whatever the caller made of the dict."""
        arrays = check_outputs(self.parameters, self._trained)
        for name, want, array in zip(self._trained, self._fixed, arrays, strict=True):
            if array is None or array.shape != want:
                raise ArrayError(f"parameter {name} is to be an array of shape {list(want)}")
        return arrays

    def _take(self, size: int) -> Block:
        for block in list(self._spare):
            if block.size == size and block in self._spare:
                self._spare.remove(block)
                return block
        return Block(size)

    def _bytes(self, name: str, symbols: tuple[int, ...]) -> int:
        size = self._functions[name](*symbols)
        if not 0 <= size < _LARGEST:
            self._refuse(2, symbols)
        return size

    def _call(self, name: str, tables: list[Any], tape: Block, sizes: _Sizes) -> None:
        workspace = self._workspace.of(sizes.workspace)
        addresses = [addressof(table) for table in tables]
        code = self._functions[name](*addresses, tape.address, workspace, *sizes.symbols)
        if code:
            self._refuse(code, sizes.symbols)

    def _refuse(self, code: int, symbols: tuple[int, ...]) -> None:
        told = ", ".join(f"{s} = {v}" for s, v in zip(self._symbols, symbols, strict=True))
        raise RunError(f"{self.name}: {CODES.get(code, f'unknown error {code}')} ({told})", code)

    def __repr__(self) -> str:
        return (
            f"<TrainableModel {self.name}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"
        )


def _check_apart(read: Sequence[_Named], written: Sequence[_Named]) -> None:
    """Refuse memory that is written and read, or written twice."""
    named = [(name, array) for name, array in [*read, *written] if array is not None]
    count = sum(array is not None for _, array in read)
    places = [(address(array), array.nbytes) for _, array in named]
    check_apart([name for name, _ in named], places, count)


def _table(arrays: Iterable[Array | None]) -> Any:
    """A table of pointers."""
    addresses = [None if array is None else address(array) for array in arrays]
    return (c_void_p * max(len(addresses), 1))(*addresses)
