"""NVIDIA's driver through ctypes: what loading and running libraries takes of it.

Handles and addresses are ints. The driver is looked for when it is first used; RNNCC_LIBCUDA names
another file than libcuda.so.1.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from typing import Any

from rnncc_runtime.errors import LoadError, RunError

NO_MEMORY, NO_DEVICE = 2, 100
"""Errors of the driver, of type CUresult."""

_P, _I, _U, _Z = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cuInit": (_U,),
    "cuDriverGetVersion": (_P,),
    "cuDeviceGetCount": (_P,),
    "cuDeviceGet": (_P, _I),
    "cuDeviceGetName": (_P, _I, _I),
    "cuDeviceGetAttribute": (_P, _I, _I),
    "cuDevicePrimaryCtxRetain": (_P, _I),
    "cuCtxGetCurrent": (_P,),
    "cuCtxGetDevice": (_P,),
    "cuCtxPushCurrent_v2": (_P,),
    "cuCtxPopCurrent_v2": (_P,),
    "cuCtxSynchronize": (),
    "cuModuleLoadDataEx": (_P, _P, _U, _P, _P),
    "cuModuleUnload": (_P,),
    "cuModuleGetFunction": (_P, _P, ctypes.c_char_p),
    "cuFuncSetAttribute": (_P, _I, _I),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_P, _P, _I, _Z),
    "cuMemAlloc_v2": (_P, _Z),
    "cuMemFree_v2": (_P,),
    "cuMemcpyHtoD_v2": (_P, _P, _Z),
    "cuMemcpyHtoDAsync_v2": (_P, _P, _Z, _P),
    "cuMemcpyDtoHAsync_v2": (_P, _P, _Z, _P),
    "cuMemcpyDtoDAsync_v2": (_P, _P, _Z, _P),
    "cuMemsetD8Async": (_P, ctypes.c_ubyte, _Z, _P),
    "cuMemsetD32Async": (_P, _U, _Z, _P),
    "cuStreamSynchronize": (_P,),
    "cuLaunchCooperativeKernel": (_P, *[_U] * 7, _P, _P),
    "cuPointerGetAttribute": (_P, _I, _P),
    "cuGetErrorName": (_I, _P),
    "cuGetErrorString": (_I, _P),
}


class Driver:
    """The driver of this process.

    Args:
        path: the file, or its name.

    Raises:
        LoadError: there is none, it is too old, or it finds no device.
    """

    def __init__(self, path: str) -> None:
        try:
            self.library = ctypes.CDLL(path)
        except OSError as error:
            raise LoadError(f"found no NVIDIA driver: {error}") from error
        self._functions: dict[str, Callable[..., int]] = {}
        for name, types in _SIGNATURES.items():
            try:
                function = getattr(self.library, name)
            except AttributeError:
                raise LoadError(f"the NVIDIA driver is too old: it has no {name}") from None
            function.argtypes, function.restype = types, _I
            self._functions[name] = function
        code = self._functions["cuInit"](0)
        if code == NO_DEVICE:
            raise LoadError("no NVIDIA GPU is found")
        if code:
            raise LoadError(f"the NVIDIA driver did not begin: {self.text(code)}")

    def ask(self, name: str, *arguments: Any) -> int:
        """Call a function; its code."""
        return self._functions[name](*arguments)

    def do(self, name: str, *arguments: Any) -> None:
        """Call a function.

        Raises:
            RunError: it refuses; the code is minus the driver's.
        """
        if code := self._functions[name](*arguments):
            raise RunError(f"{name} of the CUDA driver: {self.text(code)}", -code)

    def number(self, name: str, *arguments: Any) -> int:
        """What a function writes as an int."""
        out = ctypes.c_int()
        self.do(name, ctypes.byref(out), *arguments)
        return out.value

    def pointer(self, name: str, *arguments: Any) -> int:
        """What a function writes as a handle or an address."""
        out = ctypes.c_void_p()
        self.do(name, ctypes.byref(out), *arguments)
        return out.value or 0

    def address(self, name: str) -> int:
        """Where one of its functions is."""
        return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value or 0

    def text(self, code: int) -> str:
        """What the driver says of an error of its own."""
        text = ctypes.c_char_p()
        texts: list[str] = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            if self._functions[name](code, ctypes.byref(text)) == 0 and text.value:
                texts.append(text.value.decode(errors="replace"))
        return ": ".join(texts) or f"error {code}"

    @property
    def version(self) -> tuple[int, int]:
        """The newest CUDA that it serves."""
        number = self.number("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    @property
    def devices(self) -> int:
        """How many there are."""
        return self.number("cuDeviceGetCount")


_found: Driver | None = None
_finding = threading.Lock()


def driver() -> Driver:
    """The driver, found once.

    Raises:
        LoadError: as `Driver`; the next call looks again.
    """
    global _found
    with _finding:
        if _found is None:
            _found = Driver(os.environ.get("RNNCC_LIBCUDA") or "libcuda.so.1")
        return _found
