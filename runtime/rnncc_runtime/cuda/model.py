"""A compiled model on a GPU: checks arrays, finds sizes, calls the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Self

import numpy as np

from rnncc_runtime.arrays import check_apart
from rnncc_runtime.compiled import Compiled
from rnncc_runtime.cuda.arrays import (
    AnyArrays,
    DeviceArray,
    read_inputs,
    read_outputs,
    stream_of,
)
from rnncc_runtime.cuda.calls import (
    Calls,
    Staged,
    download,
    places_of,
    refuse_driver,
    refuse_pool,
    upload,
)
from rnncc_runtime.cuda.code import LoadedCode
from rnncc_runtime.cuda.device import Device, aligned
from rnncc_runtime.cuda.stream import CudaStream
from rnncc_runtime.errors import ArrayError
from rnncc_runtime.model import Model
from rnncc_runtime.pool import Parallel
from rnncc_runtime.sizes import TIME


class OnDevice(Compiled):
    """What models on a GPU have in common: the lower door, by which others call.

    Args:
        metadata, keep: as for `Compiled`.
        functions: as they are exported, without the library's name.
        image: the address that `NAME_cuda_image` returns.
        weights: where the packed weights are, if not in the image.
        device: the device's number; without one that of the thread's current context, else 0.

    Attributes:
        device: where arrays lie.

    Raises:
        LoadError: there is no such device, or the library has no code for it.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        functions: Mapping[str, Callable[..., int]],
        image: int,
        keep: object = None,
        weights: int | None = None,
        device: int | None = None,
    ) -> None:
        self._made_of = metadata, functions, image, keep, weights
        self.device = Device.at(device)
        self._calls = Calls(metadata, functions, LoadedCode(self.device, image, weights, keep))
        super().__init__(metadata, self._calls.for_models(), keep)

    def on(self, device: int) -> Self:
        """The same library on a device by its number: this model, or another one."""
        if device == self.device.number:
            return self
        metadata, functions, image, keep, weights = self._made_of
        return type(self)(metadata, functions, image, keep, weights, device)

    def call(
        self,
        name: str,
        pointers: Mapping[str, Sequence[int] | int],
        sizes: Mapping[str, int],
        stream: int = 0,
        status: int = 0,
    ) -> None:
        """Enqueue a call of `NAME_name_cuda`, allocating nothing and waiting for nothing.

        Args:
            name: such as `run`, `step`, `forward` (docs/abi.md).
            pointers: of each block that it takes where it is on the device: `workspace`, `tape`,
                `state`; of `inputs`, `outputs` and other structs those of all fields in order, 0
                for one that is absent.
            sizes: a number for each symbol of the metadata.
            stream: a CUstream's handle; 0 is the legacy default stream.
            status: where a code that is found on the device is written; 0 for nowhere.

        Raises:
            RunError: a size or a pointer is refused, or the driver refuses.
        """
        if code := self._calls.call(name, pointers, sizes, stream, status):
            self._refuse(code, sizes)

    def workspace_bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of a call's workspace, given a number for each symbol."""
        return self._bytes("workspace_bytes", {s: sizes[s] for s in self._symbols})

    def check(self, stream: object = None) -> None:
        """Wait for a stream; raise what this thread's last call there found on the device.

        Raises:
            RunError: the code refused the values, such as a sequence length beyond T.
        """
        handle = stream_of(stream)
        with self.device.current():
            code = self.device.word(self._calls.scratch.status(handle), handle)
        if code:
            self._refuse(code, {})

    def _refuse(self, code: int, symbols: Mapping[str, int]) -> NoReturn:
        refuse_driver(self.device, self.name, code)
        super()._refuse(code, symbols)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a model on a GPU cannot be copied or pickled")


class CudaModel(OnDevice, Model):
    """A model for inference on a GPU; safe to share between threads.

    Attributes:
        parameters: name -> `TensorSpec`, of those packed inside.
    """

    def run(
        self,
        inputs: Mapping[str, object],
        out: Mapping[str, Any] | None = None,
        pool: Parallel | None = None,
        stream: object = None,
    ) -> dict[str, Any]:
        """Compute the outputs.

        Args:
            inputs: every input by its name, optional ones if wanted, with exactly the dtype of its
                spec: arrays of the GPU (of any package that has DLPack or
                `__cuda_array_interface__`) or arrays of the CPU, not some of each.
            out: arrays to write into, of the same kind and apart from the inputs; only these
                outputs are computed.
            pool: None: a GPU has threads of its own.
            stream: a stream of CUDA's (a handle, or PyTorch's or CuPy's object) on which the call
                is enqueued without waiting for it; `check(stream)` waits, and tells what was
                found. Without it the call is done, and its errors are told, on return.

        Returns:
            The outputs by name: `DeviceArray`s, or NumPy's arrays where the inputs are of the CPU,
            for which the call waits in any case.

        Raises:
            ArrayError: an array is missing, unknown, of a wrong dtype or shape, or elsewhere.
            RunError: the code refused the values, such as a sequence length beyond T.
        """
        refuse_pool(pool)
        handle = stream_of(stream)
        arguments, on_device = read_inputs(inputs, self.inputs, self.device, handle)
        results, out_on_device = read_outputs(out or {}, self.outputs, self.device, handle)
        if out and arguments and on_device != out_on_device:
            raise ArrayError("inputs and outputs: give all on the GPU, or all on the CPU")
        on_device = on_device or (bool(out) and out_on_device)
        if on_device:
            return self._run_on_device(arguments, None if out is None else results, stream)
        if stream is not None:
            raise ArrayError("arrays of the CPU do not go with a stream: leave it out")
        return self._run_from_host(arguments, None if out is None else results)

    def stream(
        self,
        batch: int | None = None,
        inputs: Mapping[str, object] | None = None,
        on: object = None,
    ) -> CudaStream:
        """Begin a sequence that comes piece by piece; cut anywhere, it gives the bits of `run`.

        Args:
            batch, inputs: as for `Model.stream`; the inputs are of the GPU or of the CPU.
            on: a stream of CUDA's on which steps on arrays of the GPU are enqueued without waiting.

        Raises:
            StreamError: the net cannot be computed as time goes on; the message says why.
            ArrayError, RunError: as `Stream.reset` does.
        """
        return CudaStream(self.metadata, self._calls, batch, inputs, self, on)

    def state_bytes(self, sizes: Mapping[str, int]) -> int:
        """The bytes of a stream's state, given a number for each symbol but T."""
        return self._bytes("state_bytes", {s: sizes[s] for s in self._symbols if s != TIME})

    def _run_on_device(
        self, arguments: AnyArrays, results: AnyArrays | None, stream: object
    ) -> dict[str, Any]:
        """On arrays of the device."""
        handle = stream_of(stream)
        sizes = self._sizes(arguments, results or [None] * len(self.outputs))
        if results is None:
            pairs = zip(self.outputs.values(), sizes.outputs, strict=True)
            written = None if stream is None else handle
            results = [
                DeviceArray.empty(shape, spec.dtype, self.device, written) for spec, shape in pairs
            ]
        else:
            named = zip([*self.inputs, *self.outputs], [*arguments, *results], strict=True)
            known = [(name, array) for name, array in named if isinstance(array, DeviceArray)]
            places = [(array.address, array.nbytes) for _, array in known]
            count = sum(array is not None for array in arguments)
            check_apart([name for name, _ in known], places, count)
        self._enqueue(places_of(arguments), places_of(results), sizes, handle)
        if stream is None:
            self._wait(sizes.symbols)
        named = zip(self.outputs, results, strict=True)
        return {name: array for name, array in named if array is not None}

    def _run_from_host(self, arguments: AnyArrays, results: AnyArrays | None) -> dict[str, Any]:
        """On arrays of NumPy's, copied to the device and back."""
        sizes = self._sizes(arguments, results or [None] * len(self.outputs))
        if results is None:
            pairs = zip(self.outputs.values(), sizes.outputs, strict=True)
            results = [np.empty(shape, spec.dtype) for spec, shape in pairs]
        staged = Staged([*arguments, *results])
        at = aligned(sizes.workspace)
        start = self._calls.scratch.of(0, at + staged.size) + at
        places = staged.places(start)
        sources, targets = places[: len(arguments)], places[len(arguments) :]
        with self.device.current():
            upload(self.device, arguments, sources)
            self._enqueue(sources, targets, sizes, 0)
            self._wait(sizes.symbols)
            download(self.device, results, targets)
        named = zip(self.outputs, results, strict=True)
        return {name: array for name, array in named if array is not None}

    def _enqueue(self, sources: list[int], targets: list[int], sizes: Any, stream: int) -> None:
        workspace = self._calls.scratch.of(stream, sizes.workspace)
        status = self._calls.scratch.status(stream)
        symbols = dict(zip(self._symbols, sizes.symbols, strict=True))
        pointers = {"inputs": sources, "outputs": targets, "workspace": workspace}
        self.call("run", pointers, symbols, stream, status)

    def _wait(self, symbols: tuple[int, ...]) -> None:
        """Until the call on the default stream is done; raises what it found."""
        with self.device.current():
            code = self.device.word(self._calls.scratch.status(0), 0)
        if code:
            self._refuse(code, dict(zip(self._symbols, symbols, strict=True)))
