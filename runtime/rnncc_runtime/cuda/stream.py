"""A sequence that comes piece by piece on a GPU: its state stays in the GPU's memory."""
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from rnncc_runtime.arrays import Array, Specs
from rnncc_runtime.cuda.arrays import (
    AnyArray,
    AnyArrays,
    DeviceArray,
    read_array,
    read_inputs,
    read_outputs,
    stream_of,
)
from rnncc_runtime.cuda.calls import Calls, Staged, download, places_of, refuse_driver, upload
from rnncc_runtime.cuda.device import DeviceMemory
from rnncc_runtime.errors import ArrayError
from rnncc_runtime.prepared import Prepared
from rnncc_runtime.stream import Stream, alone


class CudaStream(Stream):
    """A model on a GPU and the state of a batch of sequences; `CudaModel.stream` makes it.

    As `Stream`, but for where arrays lie. After a `RunError` of a step begin anew, or set a `state`
    that was saved: what the GPU finds it finds when the state has changed already.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        calls: Calls,
        batch: int | None,
        inputs: Mapping[str, object] | None,
        keep: object,
        on: object = None,
    ) -> None:
        self._calls, self.device = calls, calls.device
        self._waits, self._handle = on is None, stream_of(on)
        super().__init__(metadata, calls.for_models(), batch, inputs, keep)

    @alone
    def step(
        self, inputs: Mapping[str, object], out: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Compute the next steps, as `Stream.step`, on arrays of the GPU or on arrays of the CPU.

        Returns:
            The outputs by name: `DeviceArray`s, or NumPy's arrays where the inputs are such.
        """
        device, handle = self.device, self._handle
        arguments, on_device = read_inputs(inputs, self.inputs, device, handle)
        results = None
        if out is not None:
            results, out_on_device = read_outputs(out, self.outputs, device, handle)
            if arguments and out and on_device != out_on_device:
                raise ArrayError("inputs and outputs: give all on the GPU, or all on the CPU")
            on_device = on_device or out_on_device
        call = self._prepared(arguments, results)
        arrays = (
            self._allocated(call, on_device)
            if results is None
            else [a for a in results if a is not None]
        )
        sources: AnyArrays = [array for array in arguments if array is not None]
        if on_device:
            places = places_of([*sources, *arrays])
            if results is not None:
                call.check(places)
            self._compute_on_device(call, places)
        else:
            self._compute_from_host(call, sources, arrays)
        return dict(zip(self.outputs, arrays, strict=True)) if out is None else dict(out)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream cannot be copied or pickled, but its `state` can")

    def _allocated(self, call: Prepared, on_device: bool) -> AnyArrays:
        if not on_device:
            return list(call.make().values())
        written = None if self._waits else self._handle
        return [
            DeviceArray.empty(slot.shape, slot.dtype, self.device, written) for slot in call.outputs
        ]

    def _compute_on_device(self, call: Prepared, places: list[int]) -> None:
        call.point(places)
        if self._waits:
            self._run(call.arguments)
            return
        status, count = self._calls.scratch.status(self._handle), len(self._symbols)
        pointers, sizes = call.arguments[:-count], call.arguments[-count:]
        with self.device.current():
            code = self._calls.enqueue("step", pointers, sizes, self._handle, status)
        if code:
            self._refuse(code, dict(zip(self._symbols, sizes, strict=True)))

    def _compute_from_host(
        self,
        call: Prepared,
        arguments: Sequence[AnyArray | None],
        results: Sequence[AnyArray | None],
    ) -> None:
        staged = Staged([*arguments, *results])
        places = staged.places(self._calls.scratch.of(0, staged.size))
        call.point(places)
        with self.device.current():
            self._settle()
            upload(self.device, arguments, places[: len(arguments)])
            self._run(call.arguments)
            download(self.device, results, places[len(arguments) :])

    # What the base class does in the CPU's memory

    def _memory(self, size: int) -> DeviceMemory:
        return DeviceMemory(self.device, size)

    def _checked(self, inputs: Mapping[str, object], specs: Specs) -> list[Any]:
        arrays: list[Any] = []
        for name, spec in specs.items():
            array = read_array(name, inputs[name], self.device, self._handle)
            if array.dtype != spec.dtype:
                raise ArrayError(f"{name} is {array.dtype}, expected {spec.dtype}")
            arrays.append(array)
        return arrays

    def _pointers(self, arrays: Sequence[Any]) -> tuple[list[int], object]:
        near: AnyArrays = [array if isinstance(array, np.ndarray) else None for array in arrays]
        staged = Staged(near)
        memory = DeviceMemory(self.device, staged.size)
        places = staged.places(memory.address)
        with self.device.current():
            self._settle()  # who asks begins a sequence, in the same workspace
            upload(self.device, near, places)
        far = places_of(arrays)
        return [a or b for a, b in zip(places, far, strict=True)], memory

    def _content(self, state: Any) -> Array:
        content = np.empty(state.size, np.uint8)
        with self.device.current():
            self._settle()
            download(self.device, [content], [state.address])
        return content

    def _settle(self) -> None:
        """Wait for steps that nobody has waited for."""
        if not self._waits:
            self.device.wait(self._handle)

    def _fill(self, state: Any, content: Array) -> None:
        with self.device.current():
            self.device.upload(state.address, content, 0)
            self.device.wait(0)

    def _refuse(self, code: int, symbols: Mapping[str, int]) -> NoReturn:
        refuse_driver(self.device, self.name, code)
        super()._refuse(code, symbols)
