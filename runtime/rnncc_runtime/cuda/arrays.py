"""Arrays in a GPU's memory: our own, and those of other packages, read where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from rnncc_runtime.arrays import Array, Specs, as_array, check_names, listed
from rnncc_runtime.cuda import dlpack
from rnncc_runtime.cuda.device import Device, DeviceMemory
from rnncc_runtime.errors import ArrayError, RunError

DEFAULT_STREAM, _LEGACY, _PER_THREAD = 0, 1, 2
_ORDINAL = 9
"""Of CUpointer_attribute."""


class DeviceArray:
    """A dense, row-major array in a GPU's memory.

    Other packages take it as it is, by `__dlpack__` (`torch.from_dlpack`) or
    `__cuda_array_interface__` (`cupy.asarray`).

    Attributes:
        device: where it lies.
        address: of its first byte.
        shape, dtype: as NumPy's.
        stream: on which it is written, if nobody has waited for that; else None.
    """

    def __init__(
        self,
        device: Device,
        address: int,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        keep: object,
        stream: int | None = None,
    ) -> None:
        self.device, self.address, self.dtype = device, address, dtype
        self.shape, self.stream, self._keep = tuple(shape), stream, keep
        self.read_only = False

    @staticmethod
    def empty(
        shape: Sequence[int], dtype: Any, device: Device | None = None, stream: int | None = None
    ) -> DeviceArray:
        """New memory, whose content means nothing yet."""
        where, kind = device or Device.at(), np.dtype(dtype)
        memory = DeviceMemory(where, prod(shape) * kind.itemsize)
        return DeviceArray(where, memory.address, shape, kind, memory, stream)

    @staticmethod
    def of(array: Array, device: Device | None = None) -> DeviceArray:
        """A copy of an array of NumPy's."""
        copy = DeviceArray.empty(array.shape, array.dtype, device)
        copy.assign(array)
        return copy

    def assign(self, array: Array) -> None:
        """Overwrite all values.

        Raises:
            ArrayError: the shape or the dtype differs.
        """
        if array.shape != self.shape or array.dtype != self.dtype:
            source = f"{array.dtype} {list(array.shape)}"
            raise ArrayError(f"cannot assign {source} to {self.dtype} {list(self.shape)}")
        with self.device.current():
            self.device.upload(self.address, np.ascontiguousarray(array), self.stream or 0)
            self.device.wait(self.stream or 0)

    def numpy(self) -> Array:
        """The values, once they are computed, as an array of NumPy's."""
        array = np.empty(self.shape, self.dtype)
        with self.device.current():
            self.device.download(array, self.address, self.stream or 0)
            self.device.wait(self.stream or 0)
        return array

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        stream = None if self.stream is None else self.stream or _LEGACY
        return {
            "version": 3,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.size else 0, self.read_only),
            "strides": None,
            "stream": stream,
        }

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CUDA, self.device.number

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """A capsule that holds this array, ready for what is done on the consumer's stream."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("a DeviceArray is neither copied nor moved by __dlpack__")
        if (
            self.stream is not None
            and stream != -1
            and (stream or _LEGACY) != (self.stream or _LEGACY)
        ):
            with self.device.current():
                self.device.wait(self.stream)
        return dlpack.make(self.address, self.device.number, self.shape, self.dtype, self)

    def __repr__(self) -> str:
        return f"<DeviceArray {self.dtype} {list(self.shape)} on GPU {self.device.number}>"


AnyArray = Array | DeviceArray
AnyArrays = list[AnyArray | None]


def is_of_device(value: object) -> bool:
    """Whether an array lies in a GPU's memory, by its own word."""
    if isinstance(value, DeviceArray):
        return True
    if isinstance(value, np.ndarray):
        return False
    if hasattr(value, "__dlpack_device__"):
        return _kind(value)[0] not in (dlpack.CPU, dlpack.PINNED)
    return hasattr(value, "__cuda_array_interface__")


def read_inputs(
    arguments: Mapping[str, object], specs: Specs, device: Device, stream: int
) -> tuple[AnyArrays, bool]:
    """The arrays in the order of the specs, and whether they lie on the device.

    None stands for an optional one that is not given. Work on `stream` finds those of other
    packages written.

    Raises:
        ArrayError: one is missing, unknown, of a wrong dtype, not contiguous, on another device, or
            some are on the device and some are not.
    """
    if arguments.keys() != specs.keys():
        check_names(arguments, specs)
    device_flags = {name: is_of_device(arguments[name]) for name in specs if name in arguments}
    on_device = any(device_flags.values())
    if on_device and not all(device_flags.values()):
        near = next(name for name, of_device in device_flags.items() if not of_device)
        far = next(name for name, of_device in device_flags.items() if of_device)
        raise ArrayError(f"{far} is on a GPU and {near} is not: give all of one kind")
    arrays: AnyArrays = []
    for name, spec in specs.items():
        if name not in arguments:
            arrays.append(None)
            continue
        array = read_array(name, arguments[name], device, stream)
        if array.dtype != spec.dtype:
            raise ArrayError(f"{name} is {array.dtype}, expected {spec.dtype}")
        arrays.append(array)
    return arrays, on_device


def read_outputs(
    out: Mapping[str, object], specs: Specs, device: Device, stream: int
) -> tuple[AnyArrays, bool]:
    """The caller's arrays in the order of the specs, None for what is not wanted, and whether they
    lie on the device.

    Raises:
        ArrayError: one is unknown, cannot be written, or is as `read_inputs` refuses.
    """
    if unknown := [str(name) for name in out if name not in specs]:
        raise ArrayError(f"no output is named {listed(unknown)}; outputs: {listed(specs)}")
    chosen = {name: spec for name, spec in specs.items() if name in out}
    named = dict(out)
    for name, value in named.items():
        if not is_of_device(value) and not isinstance(value, np.ndarray):
            raise ArrayError(f"output {name} is a {type(value).__name__}, expected an array")
    arrays, on_device = read_inputs(named, chosen, device, stream)
    for name, array in zip(chosen, arrays, strict=True):
        if isinstance(array, DeviceArray) and array.read_only:
            raise ArrayError(f"output {name} must be writeable")
        if isinstance(array, np.ndarray) and not (array.flags.writeable and array is named[name]):
            raise ArrayError(f"output {name} must be contiguous, aligned and writeable")
    by_name = dict(zip(chosen, arrays, strict=True))
    return [by_name.get(name) for name in specs], on_device


def read_array(name: str, value: object, device: Device, stream: int) -> AnyArray:
    """An array of any package, contiguous; one of the CPU as NumPy's, copied if need be.

    Raises:
        ArrayError: it is none, is not contiguous, or lies on another device.
    """
    if not is_of_device(value):
        array = as_array(name, value)
        flags = array.flags
        return array if flags.c_contiguous and flags.aligned else array.copy(order="C")
    if isinstance(value, DeviceArray):
        result = value
        if result.stream not in (None, stream):
            with device.current():
                device.wait(result.stream)
    elif hasattr(value, "__dlpack_device__"):
        result = _by_dlpack(name, value, device, stream)
    else:
        result = _by_interface(name, value, device, stream)
    if result.device is not device:
        what = f"on GPU {result.device.number}, and the model on GPU {device.number}"
        raise ArrayError(f"{name} is {what}")
    return result


def _by_dlpack(name: str, value: Any, device: Device, stream: int) -> DeviceArray:
    kind, number = _kind(value)
    if kind not in (dlpack.CUDA, dlpack.MANAGED):
        what = f"on a device of DLPack's kind {kind}, expected the CPU's or an NVIDIA GPU's memory"
        raise ArrayError(f"{name} is {what}")
    if number != device.number:
        what = f"on GPU {number}, and the model on GPU {device.number}"
        raise ArrayError(f"{name} is {what}")
    try:
        capsule = value.__dlpack__(stream=stream or _LEGACY)
        tensor = dlpack.read(capsule)
    except Exception as error:  # of any package, which has errors of its own
        raise ArrayError(f"{name} cannot be read: {error}") from error
    if tensor.dtype is None:
        raise ArrayError(f"{name} is of a dtype that NumPy does not have")
    _check_dense(name, tensor.shape, tensor.strides)
    return DeviceArray(device, tensor.address, tensor.shape, tensor.dtype, (capsule, value))


def _by_interface(name: str, value: Any, device: Device, stream: int) -> DeviceArray:
    try:
        interface = value.__cuda_array_interface__
        shape, (address, read_only) = tuple(map(int, interface["shape"])), interface["data"]
        dtype, strides = np.dtype(interface["typestr"]), interface.get("strides")
        producer, mask = interface.get("stream"), interface.get("mask")
    except Exception as error:  # of any package, as above
        raise ArrayError(f"{name} cannot be read: {error}") from error
    if mask is not None:
        raise ArrayError(f"{name} has a mask: give an array without one")
    if strides is not None:
        strides = tuple(stride // max(dtype.itemsize, 1) for stride in strides)
    _check_dense(name, shape, strides)
    address = int(address or 0)
    _check_place(name, address if prod(shape) else 0, device)
    if producer is not None and producer != (stream or _LEGACY):
        with device.current():
            device.wait(producer)
    array = DeviceArray(device, address, shape, dtype, value)
    array.read_only = bool(read_only)
    return array


def _kind(value: Any) -> tuple[int, int]:
    kind, number = cast("tuple[int, int]", value.__dlpack_device__())
    return int(kind), int(number)


def _check_dense(name: str, shape: Sequence[int], strides: Sequence[int] | None) -> None:
    """Refuse an array with gaps, or in another order: what has one element or none is dense."""
    if strides is None or 0 in shape:
        return
    dense = dlpack.dense_strides(shape)
    steps = zip(shape, strides, dense, strict=True)
    if any(size > 1 and stride != packed for size, stride, packed in steps):
        raise ArrayError(f"{name} is not contiguous: give a contiguous copy")


def _check_place(name: str, address: int, device: Device) -> None:
    """Refuse what is no memory of the device, which would end all work there."""
    if not address:
        return
    try:
        with device.current():
            number = device.driver.number("cuPointerGetAttribute", _ORDINAL, address)
    except RunError as error:
        raise ArrayError(f"{name} does not lie in a GPU's memory: {error}") from error
    if number != device.number:
        what = f"on GPU {number}, and the model on GPU {device.number}"
        raise ArrayError(f"{name} is {what}")


def stream_of(stream: object) -> int:
    """A stream's handle: an int, or what PyTorch, CuPy, Numba or cuda.core have; None is 0.

    Raises:
        ArrayError: it is no stream.
    """
    if stream is None:
        return DEFAULT_STREAM
    if isinstance(stream, int):
        return stream
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    protocol: Any = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        pair: Any = protocol() if callable(protocol) else protocol
        return int(pair[1])
    raise ArrayError(f"a {type(stream).__name__} is no stream: give its handle as an int")
