"""A GPU: its primary context, its memory, copies to and from it."""

from __future__ import annotations

import ctypes
import threading
import weakref
from contextlib import AbstractContextManager, suppress
from typing import NoReturn

import numpy as np

from rnncc_runtime.arrays import Array, address
from rnncc_runtime.cuda.driver import Driver, driver
from rnncc_runtime.errors import LoadError, RunError

ALIGNMENT = 256
"""Of what shares a block of memory."""
_PROCESSORS, _MAJOR, _MINOR, _COOPERATIVE = 16, 75, 76, 95
_SHARED = 97
"""Of CUdevice_attribute."""


class _Current(AbstractContextManager[None]):
    """A context is the calling thread's current one within such a block; blocks may lie within each
    other. (A generator would take as long again as the two calls.)"""

    def __init__(self, driver: Driver, context: int) -> None:
        self._driver, self._context = driver, context

    def __enter__(self) -> None:
        self._driver.do("cuCtxPushCurrent_v2", self._context)

    def __exit__(self, *error: object) -> None:
        self._driver.ask("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))


class Device:
    """A GPU, by its number among those that this process sees; `Device.at` gives the one of it.

    Attributes:
        number: from 0 up.
        name: as NVIDIA calls it.
        chip: its compute capability, such as (9, 0).
        processors: how many there are.
        shared: bytes of shared memory that a block may have.

    Raises:
        LoadError: there is no such device, or it is too old.
    """

    def __init__(self, number: int) -> None:
        self.driver: Driver = driver()
        count = self.driver.devices
        if not 0 <= number < count:
            raise LoadError(f"no such NVIDIA GPU: there are {count}, and number {number} is wanted")
        self.number = number
        handle = self.driver.number("cuDeviceGet", number)
        ask = self._attribute
        self.processors = ask(_PROCESSORS, handle)
        self.shared = ask(_SHARED, handle)
        self.chip = ask(_MAJOR, handle), ask(_MINOR, handle)
        name = ctypes.create_string_buffer(256)
        self.driver.do("cuDeviceGetName", name, len(name), handle)
        self.name = name.value.decode(errors="replace")
        if not ask(_COOPERATIVE, handle):
            raise LoadError(f"{self.name} is too old: it has no cooperative launches")
        try:
            self._context = self.driver.pointer("cuDevicePrimaryCtxRetain", handle)
        except RunError as error:
            raise LoadError(f"{self.name} cannot be used: {error}") from error
        self._current = _Current(self.driver, self._context)

    @staticmethod
    def at(number: int | None = None) -> Device:
        """The device of a number; without one that of the thread's current context, else 0.

        Raises:
            LoadError: there is none.
        """
        if number is None:
            number = _current()
        with _opening:
            if number not in _devices:
                _devices[number] = Device(number)
            return _devices[number]

    def _attribute(self, attribute: int, handle: int) -> int:
        return self.driver.number("cuDeviceGetAttribute", attribute, handle)

    def current(self) -> AbstractContextManager[None]:
        """With its primary context as current, until the end of the block."""
        return self._current

    def wait(self, stream: int) -> None:
        """Until all is done that a stream was asked for; within `current`."""
        self.driver.do("cuStreamSynchronize", stream)

    def upload(self, place: int, array: Array, stream: int) -> None:
        """Copy a contiguous array's bytes; within `current`. It may be changed afterwards."""
        if array.nbytes:
            self.driver.do("cuMemcpyHtoDAsync_v2", place, address(array), array.nbytes, stream)

    def download(self, array: Array, place: int, stream: int) -> None:
        """Copy bytes into a contiguous array, which has them after `wait`; within `current`."""
        if array.nbytes:
            self.driver.do("cuMemcpyDtoHAsync_v2", address(array), place, array.nbytes, stream)

    def word(self, place: int, stream: int) -> int:
        """A 32-bit word once the stream is done; within `current`."""
        word = np.zeros(1, np.int32)
        self.download(word, place, stream)
        self.wait(stream)
        return int(word[0])

    def __repr__(self) -> str:
        major, minor = self.chip
        return f"<Device {self.number}: {self.name}, sm_{major}{minor}>"


_devices: dict[int, Device] = {}
_opening = threading.Lock()


def _current() -> int:
    context, number = ctypes.c_void_p(), ctypes.c_int()
    if driver().ask("cuCtxGetCurrent", ctypes.byref(context)) or not context:
        return 0
    return 0 if driver().ask("cuCtxGetDevice", ctypes.byref(number)) else number.value


class DeviceMemory:
    """Bytes of a device, at a multiple of 256; they are given back with the object.

    Raises:
        RunError: the device has no more.
    """

    def __init__(self, device: Device, size: int) -> None:
        self.device, self.size = device, size
        with device.current():
            self.address = device.driver.pointer("cuMemAlloc_v2", max(size, 1))
        self._give_back = weakref.finalize(self, _free, device, self.address)
        self._give_back.atexit = False  # the process gives all back

    def __reduce__(self) -> NoReturn:
        raise TypeError("memory of a GPU cannot be copied or pickled")


def _free(device: Device, place: int) -> None:
    """The driver waits until what uses the memory is done."""
    with suppress(RunError), device.current():
        device.driver.ask("cuMemFree_v2", place)


def aligned(size: int) -> int:
    """A size up to where the next thing in a block may begin."""
    return -(-size // ALIGNMENT) * ALIGNMENT
