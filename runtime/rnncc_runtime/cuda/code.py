"""A library's code and weights on a device; the structs are those of `rnncc_cuda.h`."""

from __future__ import annotations

import ctypes
import weakref
from contextlib import suppress
from typing import Any

from rnncc_runtime.cuda.device import Device, DeviceMemory
from rnncc_runtime.cuda.driver import NO_MEMORY
from rnncc_runtime.errors import LoadError, RunError

VERSION, _MOST_KERNELS = 1, 4
_BAD_IMAGE, _NO_BINARY, _BAD_PTX, _NO_COMPILER, _NEW_PTX, _NO_JIT = 200, 209, 218, 221, 222, 223
_NOT_FOR_HERE = (_BAD_IMAGE, _NO_BINARY, _BAD_PTX, _NO_COMPILER, _NEW_PTX, _NO_JIT)
"""Errors after which another image may do."""
_ERRORS, _ERROR_BYTES = 5, 6
"""Of CUjit_option."""
_MOST_SHARED = 8
"""Of CUfunction_attribute."""
_MOST_BLOCKS = 4
"""Of a processor: more would wait longer for each other than they gain."""
_USUAL_SHARED, _LOG = 48 << 10, 4096


class _Binary(ctypes.Structure):
    _fields_ = [
        ("chip", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
    ]


class _Kernel(ctypes.Structure):
    _fields_ = [
        ("symbol", ctypes.c_char_p),
        ("threads", ctypes.c_int32),
        ("shared", ctypes.c_int32),
    ]


class _Image(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_int32),
        ("binaries", ctypes.c_int32),
        ("kernels", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("binary", ctypes.POINTER(_Binary)),
        ("kernel", ctypes.POINTER(_Kernel)),
        ("weights", ctypes.c_void_p),
        ("weights_bytes", ctypes.c_int64),
    ]


class _Launch(ctypes.Structure):
    _fields_ = [
        ("function", ctypes.c_void_p),
        ("resident", ctypes.c_int32),
        ("shared", ctypes.c_int32),
    ]


class _Cuda(ctypes.Structure):
    """As much of `struct rnncc_cuda` as libraries read."""

    _fields_ = [
        ("launch", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("kernels", _Launch * _MOST_KERNELS),
    ]


class LoadedCode:
    """A library as it is loaded on a device.

    Args:
        image: the address that `NAME_cuda_image` returns.
        weights: where they are, if not in the image.
        keep: whatever must live as long.

    Attributes:
        address: of the struct that functions take first.
        chip: of the image that was taken, such as `sm_90a` or `ptx`.

    Raises:
        LoadError: the library has no code for the device, or the device no room for it.
    """

    def __init__(self, device: Device, image: int, weights: int | None, keep: object) -> None:
        header = _Image.from_address(image)
        self.device, self._keep, self._name = device, keep, _text(header.name)
        if header.version != VERSION or header.kernels > _MOST_KERNELS:
            what = f"made for version {header.version} of rnncc_runtime.cuda, and this is {VERSION}"
            raise LoadError(f"{self._name}: {what}")
        struct = _Cuda()
        driver = device.driver
        with device.current():
            module, self.chip = self._load(header)
            finalizer = weakref.finalize(self, _unload, device, module)
            finalizer.atexit = False  # as for memory
            self._weights = self._upload(header, weights)
            for number in range(header.kernels):
                struct.kernels[number] = self._kernel(module, header.kernel[number])
        struct.launch = driver.address("cuLaunchCooperativeKernel")
        struct.set = driver.address("cuMemsetD32Async")
        struct.copy = driver.address("cuMemcpyDtoDAsync_v2")
        struct.weights = self._weights.address
        self._struct, self.address = struct, ctypes.addressof(struct)

    def _load(self, image: Any) -> tuple[int, str]:
        """The module of the image that suits the device best, and that image's chip."""
        binaries = [image.binary[i] for i in range(image.binaries)]
        fits = [(suits(_text(binary.chip), self.device.chip), binary) for binary in binaries]
        refused = ""
        for _, binary in sorted((fit for fit in fits if fit[0]), key=lambda fit: -fit[0]):
            module = ctypes.c_void_p()
            code, error = self._try(module, binary)
            if code == 0:
                return module.value or 0, _text(binary.chip)
            refused = f"; {_text(binary.chip)} was refused: {error}"
            if code not in _NOT_FOR_HERE:
                break
        chips = ", ".join(_text(binary.chip) for binary in binaries) or "nothing"
        major, minor = self.device.chip
        what = f"no code for {self.device.name}, a chip sm_{major}{minor}: it has {chips}"
        raise LoadError(f"{self._name}: {what}{refused}")

    def _try(self, module: ctypes.c_void_p, binary: Any) -> tuple[int, str]:
        """The driver's code for an image, and what it says."""
        log = ctypes.create_string_buffer(_LOG)
        options = (ctypes.c_int * 2)(_ERRORS, _ERROR_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG - 1)
        load = "cuModuleLoadDataEx"
        driver = self.device.driver
        code = driver.ask(load, ctypes.byref(module), binary.data, 2, options, values)
        if not code:
            return 0, ""
        said = log.value.decode(errors="replace").strip()
        return code, driver.text(code) + (f": {said}" if said else "")

    def _upload(self, image: Any, weights: int | None) -> DeviceMemory:
        source, size = weights or image.weights, image.weights_bytes
        try:
            memory = DeviceMemory(self.device, size)
            if size:
                self.device.driver.do("cuMemcpyHtoD_v2", memory.address, source, size)
        except RunError as error:
            what = "no memory for" if error.code == -NO_MEMORY else "cannot take"
            problem = f"{self.device.name} has {what} {size} bytes of weights"
            raise LoadError(f"{self._name}: {problem}: {error}") from error
        return memory

    def _kernel(self, module: int, kernel: Any) -> _Launch:
        driver, symbol = self.device.driver, kernel.symbol
        try:
            function = driver.pointer("cuModuleGetFunction", module, symbol)
            shared = min(kernel.shared, self.device.shared)
            if shared > _USUAL_SHARED:
                driver.do("cuFuncSetAttribute", function, _MOST_SHARED, shared)
            resident = driver.number(
                "cuOccupancyMaxActiveBlocksPerMultiprocessor",
                function,
                kernel.threads,
                shared,
            )
        except RunError as error:
            raise LoadError(f"{self._name}: the kernel {_text(symbol)}: {error}") from error
        if resident < 1:
            shape = f"{kernel.threads} threads and {shared} bytes of shared memory"
            what = f"{self.device.name} has no room for a block of {_text(symbol)}, {shape}"
            raise LoadError(f"{self._name}: {what}")
        blocks = min(resident, _MOST_BLOCKS) * self.device.processors
        return _Launch(function, blocks, shared)


def suits(chip: str, device: tuple[int, int]) -> int:
    """How well code for a chip suits a device: 0 not at all, 1 as text for the driver's compiler, 2
    as machine code of an older chip of its kind, 3 as that of the chip itself."""
    if chip == "ptx":
        return 1
    name = chip.removeprefix("sm_")
    number = name.rstrip("af")
    if name == chip or not number.isdigit():
        return 0
    major, minor = divmod(int(number), 10)
    if (major, minor) == device:
        return 3
    return 0 if name.endswith("a") or major != device[0] or minor > device[1] else 2


def _unload(device: Device, module: int) -> None:
    """Once nothing computes with it any more."""
    with suppress(RunError), device.current():
        device.driver.ask("cuCtxSynchronize")
        device.driver.ask("cuModuleUnload", module)


def _text(name: bytes | None) -> str:
    return (name or b"").decode(errors="replace")
