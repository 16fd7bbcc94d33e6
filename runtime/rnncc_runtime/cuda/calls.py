"""Calls of a library's functions for a GPU: the lower door, and that by which models call."""

from __future__ import annotations

import threading
from array import array as table_of
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from rnncc_runtime.arrays import Array
from rnncc_runtime.cuda.arrays import AnyArray, AnyArrays, DeviceArray
from rnncc_runtime.cuda.code import LoadedCode
from rnncc_runtime.cuda.device import ALIGNMENT, Device, DeviceMemory, aligned
from rnncc_runtime.errors import ArrayError, RunError
from rnncc_runtime.signatures import CUDA_SUFFIX, PARAMETERS, symbols_of

_STREAMS = 8
"""How many streams a thread keeps memory for."""


class Scratch(threading.local):
    """A block of memory for each stream that a thread computes on; it only grows.

    Its first 256 bytes are for the code that a call ends with.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._blocks: dict[int, DeviceMemory] = {}

    def of(self, stream: int, size: int) -> int:
        """Where so many bytes behind the code are."""
        return self._block(stream, ALIGNMENT + size).address + ALIGNMENT

    def status(self, stream: int) -> int:
        """Where the code of the stream's last call is, and will be."""
        return self._block(stream, ALIGNMENT).address

    def _block(self, stream: int, size: int) -> DeviceMemory:
        block = self._blocks.get(stream)
        if block is None or block.size < size:
            if block is None and len(self._blocks) >= _STREAMS:
                self._blocks.clear()
            self._blocks.pop(stream, None)  # two at once may be more than the device has
            block = self._blocks[stream] = DeviceMemory(self._device, size)
        return block


class Calls:
    """The functions of a library on one device.

    Args:
        functions: as they are exported, without the library's name: `run_cuda`, ...
        code: the library on the device.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any],
        functions: Mapping[str, Callable[..., int]],
        code: LoadedCode,
    ) -> None:
        self.device, self.code = code.device, code
        self._metadata, self._functions = metadata, functions
        self._known: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
        self.scratch = Scratch(code.device)

    def enqueue(
        self, name: str, pointers: Sequence[int], sizes: Sequence[int], stream: int, status: int
    ) -> int:
        """Call `NAME_name_cuda`; its code. Within `device.current`."""
        function = self._functions[name + CUDA_SUFFIX]
        return function(self.code.address, *pointers, status, stream, *sizes)

    def compute(self, name: str, *arguments: int) -> int:
        """As a function for the CPU: pointers, then sizes; the code, once all is computed."""
        count = self._metadata["functions"][name + CUDA_SUFFIX] - 3
        with self.device.current():
            status = self.scratch.status(0)
            code = self.enqueue(name, arguments[:count], arguments[count:], 0, status)
            return code or self.device.word(status, 0)

    def for_models(self) -> dict[str, Callable[..., int]]:
        """The functions as `Compiled` calls them: those that compute wait until they have."""
        computing = [name.removesuffix(CUDA_SUFFIX) for name in self._metadata["functions"]]
        return {
            **{name: partial(self.compute, name) for name in computing},
            **{n.removesuffix(CUDA_SUFFIX): self._functions[n] for n in self._metadata["sizes"]},
        }

    def call(
        self,
        name: str,
        pointers: Mapping[str, Sequence[int] | int],
        sizes: Mapping[str, int],
        stream: int,
        status: int,
    ) -> int:
        """As `CudaModel.call`; the code."""
        blocks, symbols = self._taken(name)
        tables: list[table_of[int]] = []
        addresses: list[int] = []
        for block in blocks:
            pointer = pointers.get(block, 0)
            if not isinstance(pointer, int):
                tables.append(table_of("Q", pointer or (0,)))
                pointer = tables[-1].buffer_info()[0]
            addresses.append(pointer)
        values = [sizes[symbol] for symbol in symbols]
        with self.device.current():
            return self.enqueue(name, addresses, values, stream, status)

    def _taken(self, name: str) -> tuple[Sequence[str], Sequence[str]]:
        """The blocks and the sizes that a function takes."""
        taken = self._known.get(name)
        if taken is None:
            taken = PARAMETERS[name], symbols_of(self._metadata["symbols"], name)
            self._known[name] = taken
        return taken


def explained(device: Device, code: int) -> str | None:
    """What a negative code of a call means; None for another."""
    return f"the CUDA driver: {device.driver.text(-code)}" if code < 0 else None


class Staged:
    """Arrays of NumPy's as they lie on the device, one after another from a place on."""

    def __init__(self, arrays: Sequence[AnyArray | None]) -> None:
        self._arrays = arrays
        self._offsets: list[int] = []
        end = 0
        for array in arrays:
            self._offsets.append(end)
            end += 0 if array is None else aligned(max(array.nbytes, 1))
        self.size = end

    def places(self, start: int) -> list[int]:
        """Where they are; 0 for none."""
        pairs = zip(self._arrays, self._offsets, strict=True)
        return [0 if array is None else start + offset for array, offset in pairs]

    def on(self, device: Device, start: int, keep: object) -> AnyArrays:
        """They as arrays of the device."""
        pairs = zip(self._arrays, self.places(start), strict=True)
        return [
            None if a is None else DeviceArray(device, place, a.shape, a.dtype, keep)
            for a, place in pairs
        ]


def upload(device: Device, arrays: Sequence[AnyArray | None], places: Sequence[int]) -> None:
    """Copy arrays of NumPy's to the device; within `device.current`."""
    for array, place in zip(arrays, places, strict=True):
        if array is not None:
            device.upload(place, host(array), 0)


def download(device: Device, arrays: Sequence[AnyArray | None], places: Sequence[int]) -> None:
    """The opposite of `upload`; it waits."""
    for array, place in zip(arrays, places, strict=True):
        if array is not None:
            device.download(host(array), place, 0)
    device.wait(0)


def host(array: AnyArray) -> Array:
    """An array that is one of NumPy's."""
    assert not isinstance(array, DeviceArray)
    return array


def places_of(arrays: Sequence[AnyArray | None]) -> list[int]:
    """Where arrays of the device are; 0 for none."""
    return [array.address if isinstance(array, DeviceArray) else 0 for array in arrays]


def refuse_pool(pool: object) -> None:
    """A GPU has threads of its own."""
    if pool is not None:
        raise ArrayError("a model on a GPU takes no pool: leave it out")


def refuse_driver(device: Device, name: str, code: int) -> None:
    """Raise `RunError` for a code of the driver."""
    if text := explained(device, code):
        raise RunError(f"{name}: {text}", code)
