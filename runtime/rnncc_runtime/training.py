"""A model compiled for training: parameters that the caller updates, forward, and backward."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import addressof, c_void_p
from typing import Any

import numpy as np

from rnncc_runtime.arrays import (
    Array,
    address,
    check_apart,
    check_inputs,
    check_mapping,
    check_outputs,
    read_specs,
)
from rnncc_runtime.compiled import (
    Arrays,
    Compiled,
    Origin,
    Shape,
    Shapeds,
    given_shapes,
    remember,
    shapes_of,
)
from rnncc_runtime.errors import ArrayError
from rnncc_runtime.memory import Memory, new_array
from rnncc_runtime.pool import Parallel
from rnncc_runtime.signatures import PACKED
from rnncc_runtime.tapes import Tape, TrainingSizes

_Named = tuple[str, Array | None]
_SPARE = 2
"""Blocks of memory that are kept for the next call."""


class _Workspace(threading.local):
    block = Memory(0)

    def of(self, size: int) -> int:
        if self.block.size < size:
            self.block = Memory(size)
        return self.block.address


class TrainableModel(Compiled):
    """A model for training: passes over parameters that the caller holds.

    Safe to share between threads, as long as none changes parameters while another computes. Copies
    and pickles take the code and the parameters along.

    Attributes:
        parameters: name -> array, float32, as the init net made it; update them in place.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        functions: Mapping[str, Callable[..., int]],
        keep: object = None,
        origin: Origin | None = None,
    ) -> None:
        super().__init__(metadata, functions, keep, origin)
        self._trained = read_specs(metadata["trained"])
        self._output_grads = read_specs(metadata["output_grads"])
        self._grads = read_specs(metadata["grads"])
        seeds = enumerate(self._output_grads.values())
        self._required_grads = [number for number, spec in seeds if not spec.optional]
        self._workspace = _Workspace()
        self._spare: list[Memory] = []
        self._known: dict[tuple[Shape | None, ...], TrainingSizes] = {}
        self._packed, self._packing = Memory(0), 0
        self._packed_places, self._packed_arrays = b"", list[Array]()
        """The addresses of the parameters that are packed, empty where they have to be packed; and
        the arrays, so that no other takes such an address."""
        self._lock = threading.Lock()
        self._fixed = [tuple(s.evaluate({}) for s in t.sizes) for t in self._trained.values()]
        self.parameters: dict[str, Array] = self._initial()

    def __reduce__(self) -> tuple[Any, ...]:
        return (*super().__reduce__(), dict(zip(self._trained, self._held(), strict=True)))

    def __setstate__(self, parameters: Mapping[str, Array]) -> None:
        for name, array in parameters.items():
            self.parameters[name][...] = array

    def updated(self) -> None:
        """Say that parameters have changed: the next `forward` packs them.

        A model that was compiled with `prepack=True` keeps them packed until then, and may not see
        a change of which it was not told; others read parameters in each call. Tapes of before are
        refused by `backward` from then on.
        """
        if PACKED in self.metadata:
            with self._lock:
                self._packing += 1
                self._packed_places = b""

    def forward(
        self,
        inputs: Mapping[str, object],
        out: Mapping[str, Array] | None = None,
        pool: Parallel | None = None,
    ) -> tuple[dict[str, Array], Tape]:
        """Compute the outputs, and keep what `backward` needs.

        Args:
            inputs: every input by its name, as for `Model.run`.
            out: arrays to write outputs into, contiguous and apart from inputs and parameters.
            pool: as for `Model.run`.

        Returns:
            The outputs by name, and the tape.

        Raises:
            ArrayError: an array is missing, unknown, of a wrong dtype or shape, or not writeable.
            RunError: the code refused the values.
        """
        arguments = check_inputs(inputs, self.inputs)
        chosen = check_outputs({} if out is None else out, self.outputs)
        sizes = self._sizes(arguments, chosen)
        results = [
            new_array(shape, spec.dtype) if array is None else array
            for spec, shape, array in zip(
                self.outputs.values(), sizes.shapes["outputs"], chosen, strict=True
            )
        ]
        parameters = self._held()
        if out:
            read = [*zip(self.inputs, arguments, strict=True), *self.parameters.items()]
            _check_apart(read, list(zip(self.outputs, results, strict=True)))
        block = self._take(sizes.tape)
        tables = [_table(arguments), _table(parameters), _table(results)]
        packing = self._call("forward", tables, block, sizes, pool)
        named = dict(zip(self.outputs, results, strict=True))
        return named, Tape(self, arguments, results, sizes, [block], packing, tables[0])

    def forward_at(
        self, arrays: Shapeds, places: Sequence[int], pool: Parallel | None = None
    ) -> Tape:
        """`forward` on memory that is no NumPy arrays, of whose shapes and addresses alone it is
        told; its tape is for `backward_at`, and keeps none of it.

        Args:
            arrays: what has the shapes: every input in order, then every output.
            places: where each lies, as for `Model.run_at`.
            pool: as for `Model.run`.

        Raises:
            ArrayError: a shape is wrong.
            RunError: the code refused the values.
        """
        count = len(self.inputs)
        arguments, results = arrays[:count], arrays[count:]
        sizes = self._sizes(arguments, results)
        block = self._take(sizes.tape)
        tables = [_pointers(places[:count]), _table(self._held()), _pointers(places[count:])]
        packing = self._call("forward", tables, block, sizes, pool)
        return Tape(self, [], [], sizes, [block], packing, tables[0])

    def backward_at(
        self,
        tape: Tape,
        output_grads: Shapeds,
        out: Shapeds,
        places: Sequence[int],
        pool: Parallel | None = None,
    ) -> None:
        """`backward` on such memory, of the gradients that are there.

        Args:
            tape: of `forward_at`; it is used up.
            output_grads: what has the shapes, in the order of the metadata's `output_grads`; None
                for one that is not there.
            out: the same of gradients to write, in the order of `grads`.
            places: where each lies, those of `output_grads` first; 0 for None.
            pool: as for `Model.run`.

        Raises:
            ArrayError: as `backward` does, of shapes and the tape.
        """
        tape._check(self)
        sizes, count = tape._sizes, len(self._output_grads)
        self._check_shapes(output_grads, out, sizes)
        seeds = list[int | None](places[:count])
        missing = [i for i in self._required_grads if output_grads[i] is None]
        zeros = [self._zero(i, sizes) for i in missing]  # alive until the call ends
        for i, array in zip(missing, zeros, strict=True):
            seeds[i] = address(array)
        block = tape._take()
        tables = [tape._pointers, _table(self._held()), _pointers(seeds), _pointers(places[count:])]
        self._call("backward", tables, block, sizes, pool)
        self._keep_spare(block)

    def backward(
        self,
        tape: Tape,
        output_grads: Mapping[str, object],
        wanted: Iterable[str] | None = None,
        out: Mapping[str, Array] | None = None,
        pool: Parallel | None = None,
    ) -> dict[str, Array]:
        """The gradients of a loss with respect to the float inputs and the parameters.

        Args:
            tape: of this model's `forward`; it is used up, unless an array is refused.
            output_grads: the loss's gradients with respect to outputs, by their names; an output
                left out has none.
            wanted: names of inputs and parameters; all by default.
            out: arrays to write gradients into, contiguous and apart from all that is read.
            pool: as for `Model.run`.

        Returns:
            Gradients by the names of inputs and parameters.

        Raises:
            ArrayError: an array is unknown, of a wrong dtype or shape, or not writeable; or the
                tape was used before, also by another thread, or is of another model.
        """
        if not isinstance(tape, Tape):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArrayError(f"the tape is a {type(tape).__name__}, not what forward has returned")
        tape._check(self)
        sizes = tape._sizes
        check_mapping(output_grads, "output gradients", self._output_grads)
        unknown = [name for name in output_grads if name not in self._output_grads]
        if unknown:
            raise ArrayError(f"no output with a gradient is named {', '.join(map(str, unknown))}")
        names = list(self._output_grads)
        missing = [i for i in self._required_grads if names[i] not in output_grads]
        full = {**output_grads, **{names[i]: self._zero(i, sizes) for i in missing}}
        cotangents = check_inputs(full, self._output_grads)
        results = self._results(wanted, out, sizes)
        self._check_shapes(cotangents, results, sizes)
        parameters = self._held()
        if out:
            groups: Any = (
                (self.inputs, tape._inputs),
                (self.outputs, tape._outputs),
                (self._output_grads, cotangents),
            )
            read = [pair for names, arrays in groups for pair in zip(names, arrays, strict=True)]
            written = zip((f"gradient of {name}" for name in self._grads), results, strict=True)
            _check_apart([*read, *self.parameters.items()], list(written))
        tables = [_table(arrays) for arrays in (parameters, cotangents, results)]
        tables.insert(0, tape._pointers)
        block = tape._take()
        self._call("backward", tables, block, sizes, pool)
        self._keep_spare(block)
        named = zip(self._grads, results, strict=True)
        return {name: array for name, array in named if array is not None}

    def run(self, inputs: Mapping[str, object], pool: Parallel | None = None) -> dict[str, Array]:
        """The outputs alone."""
        outputs, tape = self.forward(inputs, pool=pool)
        self._keep_spare(tape._take())
        return outputs

    def _zero(self, number: int, sizes: TrainingSizes) -> Array:
        """The gradient of an output that has none, where the code reads it nevertheless."""
        spec = list(self._output_grads.values())[number]
        return np.zeros(sizes.shapes["output_grads"][number], spec.dtype)

    def _initial(self) -> dict[str, Array]:
        """The parameters as the init net made them."""
        arrays = {
            name: new_array(shape, spec.dtype)
            for (name, spec), shape in zip(self._trained.items(), self._fixed, strict=True)
        }
        table = _table(arrays.values())
        self._functions["init_parameters"](addressof(table))
        return arrays

    def _results(
        self, wanted: Iterable[str] | None, out: Mapping[str, Array] | None, sizes: TrainingSizes
    ) -> Arrays:
        """The arrays to write gradients into; None for one that is not wanted."""
        names = set(self._grads if wanted is None else wanted)
        if unknown := sorted(map(str, names - self._grads.keys())):
            raise ArrayError(f"no gradient is there for {', '.join(unknown)}")
        chosen = check_outputs({} if out is None else out, self._grads, "gradient")
        return [
            array if array is not None or name not in names else new_array(shape, spec.dtype)
            for (name, spec), shape, array in zip(
                self._grads.items(), sizes.shapes["grads"], chosen, strict=True
            )
        ]

    def _check_shapes(self, cotangents: Shapeds, results: Shapeds, sizes: TrainingSizes) -> None:
        groups = ("output_grads", self._output_grads, cotangents), ("grads", self._grads, results)
        for group, names, arrays in groups:
            for name, expected, array in zip(names, sizes.shapes[group], arrays, strict=True):
                if array is not None and array.shape != expected:
                    problem = f"has shape {list(array.shape)}, expected {list(expected)}"
                    raise ArrayError(f"the gradient of {name} {problem}")

    def _sizes(self, arguments: Shapeds, results: Shapeds) -> TrainingSizes:
        """The sizes of a call, remembered by the shapes of its arrays."""
        key = given_shapes([*arguments, *results])
        known = self._known.get(key)
        return known or remember(self._known, key, self._find_sizes(arguments, results))

    def _find_sizes(self, arguments: Shapeds, results: Shapeds) -> TrainingSizes:
        specs = (*self.inputs.values(), *self.outputs.values())
        used = set[str]().union(*(size.symbols for spec in specs for size in spec.sizes))
        needed = tuple(symbol for symbol in self._symbols if symbol in used)
        symbols = self._solved(arguments, results, needed)
        groups = {"outputs": self.outputs, "output_grads": self._output_grads, "grads": self._grads}
        shapes = {group: shapes_of(specs, symbols) for group, specs in groups.items()}
        tape, workspace = (self._bytes(n, symbols) for n in ("tape_bytes", "workspace_bytes"))
        return TrainingSizes(tuple(symbols.values()), shapes, tape, workspace)

    def _held(self) -> Arrays:
        """The parameters in order, whatever the caller made of the dict."""
        arrays = check_outputs(self.parameters, self._trained, "parameter")
        for name, expected, array in zip(self._trained, self._fixed, arrays, strict=True):
            if array is None:
                raise ArrayError(f"parameter {name} is missing")
            if array.shape != expected:
                raise ArrayError(f"parameter {name} is to be an array of shape {list(expected)}")
        return arrays

    def _memory(self, size: int) -> Memory:
        return Memory(size)

    def _take(self, size: int) -> Memory:
        for block in list(self._spare):
            if block.size == size:
                try:
                    self._spare.remove(block)
                except ValueError:  # another thread was quicker
                    continue
                return block
        return self._memory(size)

    def _keep_spare(self, block: Memory) -> None:
        if len(self._spare) < _SPARE:
            self._spare.append(block)

    def _call(
        self,
        name: str,
        tables: list[Any],
        tape: Memory,
        sizes: TrainingSizes,
        pool: Parallel | None,
    ) -> int:
        """Call a pass; the number of the packing of the parameters that it has read."""
        packed, packing = self._pack(tables[1], sizes.workspace)
        places = [addressof(table) for table in tables]
        places[2:2] = [] if packed is None else [packed.address]
        places += [tape.address, self._workspace.of(sizes.workspace)]
        self._compute(name, places, sizes.symbols, pool)
        return packing

    def _pack(self, parameters: Any, workspace: int) -> tuple[Memory | None, int]:
        """The packed parameters, if the library has such, and which packing that is.

        Args:
            workspace: the bytes of that of any call.
        """
        if PACKED not in self.metadata:
            return None, 0
        with self._lock:
            if self._packed_places != bytes(parameters):
                if not self._packed.size:
                    self._packed = Memory(self._bytes("packed_bytes", {}))
                places = addressof(parameters), self._packed.address, self._workspace.of(workspace)
                if code := self._functions["pack_parameters"](*places):
                    self._refuse(code, {})
                self._packed_places = bytes(parameters)
                self._packed_arrays = list(self.parameters.values())
            return self._packed, self._packing


def _check_apart(read: Sequence[_Named], written: Sequence[_Named]) -> None:
    """Refuse memory that is written and read, or written twice."""
    named = [(name, array) for name, array in [*read, *written] if array is not None]
    count = sum(array is not None for _, array in read)
    places = [(address(array), array.nbytes) for _, array in named]
    check_apart([name for name, _ in named], places, count)


def _table(arrays: Iterable[Array | None]) -> Any:
    """A table of pointers."""
    return _pointers([None if array is None else address(array) for array in arrays])


def _pointers(addresses: Sequence[int | None]) -> Any:
    return (c_void_p * max(len(addresses), 1))(*addresses)
