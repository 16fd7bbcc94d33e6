"""Arrays and streams of a GPU, as other packages lend them."""

from __future__ import annotations

import gc
from typing import Any

from rnncc_runtime.cuda import Device, DeviceArray

TRAINED = "rnn/hidden_state_all"


class Lent:
    """An array that is lent by DLPack."""

    def __init__(self, array: DeviceArray, device: tuple[int, int] | None = None) -> None:
        self.array, self.device, self.streams = array, device, list[Any]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device or self.array.__dlpack_device__()

    def __dlpack__(self, stream: Any = None) -> object:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream)


class stream:  # noqa: N801, reads as a function
    """A stream of the driver's, that does not wait for the default one."""

    def __init__(self, emulator: Any) -> None:
        self.emulator, self.device = emulator, Device.at(0)

    def __enter__(self) -> int:
        with self.device.current():
            self.handle = self.device.driver.library.cuStreamCreate
            import ctypes

            made = ctypes.c_void_p()
            assert self.handle(ctypes.byref(made), 1) == 0
            self.made = made
        return made.value or 0

    def __exit__(self, *_: object) -> None:
        with self.device.current():
            self.device.driver.do("cuStreamSynchronize", self.made.value)
            gc.collect()
            assert self.device.driver.library.cuStreamDestroy_v2(self.made) == 0
