"""A model compiled for training on a GPU: parameters, tape and gradients in the GPU's memory."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rnncc_runtime.arrays import Specs, check_apart
from rnncc_runtime.cuda.arrays import (
    AnyArray,
    AnyArrays,
    DeviceArray,
    is_of_device,
    read_inputs,
    read_outputs,
    stream_of,
)
from rnncc_runtime.cuda.calls import Staged, download, places_of, refuse_pool, upload
from rnncc_runtime.cuda.device import DeviceMemory, aligned
from rnncc_runtime.cuda.model import OnDevice
from rnncc_runtime.errors import ArrayError
from rnncc_runtime.pool import Parallel
from rnncc_runtime.tapes import Tape
from rnncc_runtime.training import TrainableModel

_Named = tuple[str, AnyArray | None]


@dataclass(eq=False)
class CudaTape(Tape):
    """What a forward pass on a GPU leaves there for the backward pass, which uses it up."""

    _on_device: bool = field(default=True, repr=False)
    """Whether the caller's arrays are of the GPU."""


class CudaTrainableModel(OnDevice, TrainableModel):
    """A model for training on a GPU: passes over parameters that lie there.

    Safe to share between threads, as long as none changes parameters while another computes.

    Attributes:
        parameters: name -> `DeviceArray`, float32, as the init net made it; `assign` updates one,
            and so do other packages that take it by `__dlpack__` or `__cuda_array_interface__`. A
            contiguous array of another package may stand in its place.
    """

    parameters: dict[str, Any]

    def forward(
        self,
        inputs: Mapping[str, object],
        out: Mapping[str, Any] | None = None,
        pool: Parallel | None = None,
        stream: object = None,
    ) -> tuple[dict[str, Any], CudaTape]:
        """Compute the outputs, and keep what `backward` needs.

        Args:
            inputs, pool, stream: as for `CudaModel.run`.
            out: arrays to write outputs into, of the same kind as the inputs.

        Returns:
            The outputs by name, of the kind of the inputs, and the tape.

        Raises:
            ArrayError: an array is missing, unknown, of a wrong dtype or shape, or elsewhere.
            RunError: the code refused the values.
        """
        refuse_pool(pool)
        handle = stream_of(stream)
        arguments, on_device = read_inputs(inputs, self.inputs, self.device, handle)
        chosen, out_on_device = read_outputs(out or {}, self.outputs, self.device, handle)
        on_device = _one_kind(on_device, bool(inputs), out_on_device, bool(out), stream)
        sizes = self._sizes(arguments, chosen)
        results = self._allocated(chosen, self.outputs, sizes.shapes["outputs"], on_device, stream)
        parameters = self._on_device(handle)
        read = [
            *zip(self.inputs, arguments, strict=True),
            *zip(self._trained, parameters, strict=True),
        ]
        if out:
            _check_apart(read, list(zip(self.outputs, results, strict=True)))
        staged = Staged([] if on_device else [*arguments, *results])
        at = aligned(sizes.tape)
        block: Any = self._take(at + staged.size)
        if on_device:
            sources, targets = arguments, results
        else:
            copies = staged.on(self.device, block.address + at, block)
            sources, targets = copies[: len(arguments)], copies[len(arguments) :]
            with self.device.current():
                upload(self.device, arguments, places_of(sources))
        pointers = {"inputs": sources, "parameters": parameters, "outputs": targets}
        self._pass("forward", pointers, block, sizes, stream)
        if not on_device:
            with self.device.current():
                download(self.device, results, places_of(targets))
        kept: Any = targets
        tape = CudaTape(self, list[Any](sources), kept, sizes, [block], _on_device=on_device)
        return dict(zip(self.outputs, results, strict=True)), tape

    def backward(
        self,
        tape: Tape,
        output_grads: Mapping[str, object],
        wanted: Iterable[str] | None = None,
        out: Mapping[str, Any] | None = None,
        pool: Parallel | None = None,
        stream: object = None,
    ) -> dict[str, Any]:
        """The gradients of a loss with respect to the float inputs and the parameters.

        Args:
            tape, output_grads, wanted: as for `TrainableModel.backward`; the gradients are arrays
                of the GPU or of the CPU, whatever the inputs were.
            out: arrays to write gradients into, of the same kind.
            pool, stream: as for `CudaModel.run`.

        Returns:
            Gradients by the names of inputs and parameters, of the kind of those given.

        Raises:
            ArrayError: an array is unknown, of a wrong dtype or shape, or elsewhere; or the tape
                was used before, or is of another model.
        """
        refuse_pool(pool)
        if not isinstance(tape, CudaTape):
            raise ArrayError(f"the tape is a {type(tape).__name__}, not what forward has returned")
        tape._check(self)
        sizes, handle = tape._sizes, stream_of(stream)
        if unknown := [str(name) for name in output_grads if name not in self._output_grads]:
            raise ArrayError(f"no output with a gradient is named {', '.join(unknown)}")
        on_device = self._kind(output_grads, out, tape)
        full = self._with_zeros(output_grads, sizes, on_device, handle)
        cotangents, _ = read_inputs(full, self._output_grads, self.device, handle)
        chosen, out_on_device = read_outputs(out or {}, self._grads, self.device, handle)
        _one_kind(on_device, True, out_on_device, bool(out), stream)
        results = self._chosen(chosen, wanted, sizes, on_device, stream)
        self._check_shapes(cotangents, results, sizes)
        parameters = self._on_device(handle)
        inputs, outputs = tape._inputs, tape._outputs
        if out:
            groups: list[tuple[Iterable[str], Any]] = [
                (self.inputs, inputs),
                (self.outputs, outputs),
                (self._output_grads, cotangents),
                (self._trained, parameters),
            ]
            read = [pair for names, arrays in groups for pair in zip(names, arrays, strict=True)]
            written = zip((f"gradient of {name}" for name in self._grads), results, strict=True)
            _check_apart(read, list(written))
        block: Any = tape._take()
        pointers: dict[str, Any] = {"inputs": inputs, "parameters": parameters}
        if on_device:
            pointers |= {"output_grads": cotangents, "grads": results}
            self._pass("backward", pointers, block, sizes, stream)
        else:
            self._back_from_host(pointers, cotangents, results, block, sizes)
        if stream is None:
            self._keep_spare(block)
        named = zip(self._grads, results, strict=True)
        return {name: array for name, array in named if array is not None}

    def run(
        self, inputs: Mapping[str, object], pool: Parallel | None = None, stream: object = None
    ) -> dict[str, Any]:
        """The outputs alone."""
        outputs, tape = self.forward(inputs, pool=pool, stream=stream)
        if stream is None:
            self._keep_spare(tape._take())
        return outputs

    def tape_bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of a tape, given a number for each symbol."""
        return self._bytes("tape_bytes", {s: sizes[s] for s in self._symbols})

    # What the base class does in the CPU's memory

    def _memory(self, size: int) -> Any:
        return DeviceMemory(self.device, size)

    def _initial(self) -> dict[str, Any]:
        arrays = {
            name: DeviceArray.empty(shape, spec.dtype, self.device)
            for (name, spec), shape in zip(self._trained.items(), self._fixed, strict=True)
        }
        pointers = {"parameters": [array.address for array in arrays.values()]}
        self.call("init_parameters", pointers, {})
        with self.device.current():
            self.device.wait(0)
        return arrays

    # Arrays

    def _on_device(self, handle: int) -> AnyArrays:
        """The parameters in order, whatever the caller made of the dict."""
        for name, array in self.parameters.items():
            if not is_of_device(array):
                kind = type(array).__name__
                raise ArrayError(f"parameter {name} is a {kind}, expected an array of the GPU")
        arrays, _ = read_inputs(self.parameters, self._trained, self.device, handle)
        for name, expected, array in zip(self._trained, self._fixed, arrays, strict=True):
            if array is None or array.shape != expected:
                raise ArrayError(f"parameter {name} is to be an array of shape {list(expected)}")
        return arrays

    def _allocated(
        self,
        chosen: AnyArrays,
        specs: Specs,
        shapes: Sequence[tuple[int, ...]],
        on_device: bool,
        stream: object,
    ) -> AnyArrays:
        """The arrays to write; those that are not given are new ones."""
        written = None if stream is None else stream_of(stream)
        arrays: AnyArrays = []
        for spec, shape, array in zip(specs.values(), shapes, chosen, strict=True):
            if array is None and on_device:
                array = DeviceArray.empty(shape, spec.dtype, self.device, written)
            arrays.append(np.empty(shape, spec.dtype) if array is None else array)
        return arrays

    def _chosen(
        self,
        chosen: AnyArrays,
        wanted: Iterable[str] | None,
        sizes: Any,
        on_device: bool,
        stream: object,
    ) -> AnyArrays:
        """The arrays to write gradients into; None for one that is not wanted."""
        names = set(self._grads if wanted is None else wanted)
        if unknown := sorted(names - self._grads.keys()):
            raise ArrayError(f"no gradient is there for {', '.join(unknown)}")
        missing = {
            name: (spec, shape)
            for (name, spec), shape, array in zip(
                self._grads.items(), sizes.shapes["grads"], chosen, strict=True
            )
            if array is None and name in names
        }
        specs = {name: spec for name, (spec, _) in missing.items()}
        shapes = [shape for _, shape in missing.values()]
        absent: AnyArrays = [None] * len(specs)
        allocated = dict(
            zip(specs, self._allocated(absent, specs, shapes, on_device, stream), strict=True)
        )
        pairs = zip(self._grads, chosen, strict=True)
        return [allocated.get(name) if array is None else array for name, array in pairs]

    def _kind(
        self, output_grads: Mapping[str, object], out: Mapping[str, Any] | None, tape: CudaTape
    ) -> bool:
        """Whether a backward pass's arrays are of the GPU: as those given, else as forward's."""
        for arrays in (output_grads, out or {}):
            for value in arrays.values():
                return is_of_device(value)
        return tape._on_device

    def _with_zeros(
        self, output_grads: Mapping[str, object], sizes: Any, on_device: bool, handle: int
    ) -> dict[str, object]:
        """The gradients of outputs, with zeros for those that have none and need one."""
        full = dict(output_grads)
        for (name, spec), shape in zip(
            self._output_grads.items(), sizes.shapes["output_grads"], strict=True
        ):
            if name in full or spec.optional:
                continue
            if not on_device:
                full[name] = np.zeros(shape, spec.dtype)
                continue
            zeros = DeviceArray.empty(shape, spec.dtype, self.device)
            if zeros.nbytes:
                with self.device.current():
                    fill = "cuMemsetD8Async"
                    self.device.driver.do(fill, zeros.address, 0, zeros.nbytes, handle)
            full[name] = zeros
        return full

    # Calls

    def _back_from_host(
        self,
        pointers: dict[str, Any],
        cotangents: AnyArrays,
        results: AnyArrays,
        block: Any,
        sizes: Any,
    ) -> None:
        """On gradients that are NumPy's, copied to the device and back."""
        staged = Staged([*cotangents, *results])
        at = aligned(sizes.workspace)
        start = self._calls.scratch.of(0, at + staged.size) + at
        copies = staged.on(self.device, start, None)
        sources, targets = copies[: len(cotangents)], copies[len(cotangents) :]
        with self.device.current():
            upload(self.device, cotangents, places_of(sources))
            pointers |= {"output_grads": sources, "grads": targets}
            self._pass("backward", pointers, block, sizes, None)
            download(self.device, results, places_of(targets))

    def _pass(
        self, name: str, arrays: Mapping[str, Any], tape: Any, sizes: Any, stream: object
    ) -> None:
        """Call a pass, and wait for it unless it is on a stream of the caller's."""
        handle = stream_of(stream)
        symbols = dict(zip(self._symbols, sizes.symbols, strict=True))
        scratch = self._calls.scratch
        workspace = scratch.of(handle, sizes.workspace)
        pointers: dict[str, Any] = {block: places_of(values) for block, values in arrays.items()}
        pointers |= {"tape": tape.address, "workspace": workspace}
        self.call(name, pointers, symbols, handle, scratch.status(handle))
        if stream is None:
            with self.device.current():
                code = self.device.word(scratch.status(0), 0)
            if code:
                self._refuse(code, symbols)


def _one_kind(
    on_device: bool, some: bool, out_on_device: bool, some_out: bool, stream: object
) -> bool:
    """Whether the arrays of a call are of the GPU; raises `ArrayError` where some are."""
    if some and some_out and on_device != out_on_device:
        raise ArrayError("what is read and what is written: give all on the GPU, or all on the CPU")
    on_device = on_device if some else out_on_device
    if stream is not None and not on_device:
        raise ArrayError("arrays of the CPU do not go with a stream: leave it out")
    return on_device


def _check_apart(read: Sequence[_Named], written: Sequence[_Named]) -> None:
    """Refuse memory of the device that is written and read, or written twice."""
    named = [(name, array) for name, array in [*read, *written] if isinstance(array, DeviceArray)]
    count = sum(isinstance(array, DeviceArray) for _, array in read)
    places = [(array.address, array.nbytes) for _, array in named]
    check_apart([name for name, _ in named], places, count)
