"""The emulated libcuda.so, built once a session, and its driver as Python functions."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

SOURCES = Path(__file__).parent / "emulator"
_FLAGS = "-std=gnu99 -O2 -g -Wall -Wextra -Werror -fvisibility=hidden -shared -fPIC".split()
DEFAULTS = {"seed": 1, "sms": 3, "check": 1, "devices": 1, "driver": 12040, "chip": 90} | {
    "occupancy": 1
}

_MOST_SHARED = 8
_folders: list[tempfile.TemporaryDirectory[str]] = []
"""They last as long as this process."""


def build(*flags: str) -> Path:
    """Compile the emulator."""
    folder = tempfile.TemporaryDirectory(prefix="libcuda")
    _folders.append(folder)
    path = Path(folder.name, "libcuda.so.1")
    sources = sorted(SOURCES.glob("*.c"))
    subprocess.run(
        ["cc", *_FLAGS, *flags, *sources, "-ldl", "-lpthread", "-lm", "-o", path], check=True
    )
    return path


@cache
def path() -> Path:
    """Of the one library of this process."""
    return build()


class CudaError(Exception):
    """A code of the driver that is not 0."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {code}")
        self.code = code


class Emulator:
    """The emulated driver, and what it has noticed."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))
        self.configured = dict[str, int]()
        self.library.emu_report.restype = ctypes.c_char_p
        self.library.emu_races.restype = ctypes.c_int64
        self.library.emu_shared_accesses.restype = ctypes.c_int64
        self.library.emu_reports.restype = ctypes.c_int64

    # What it has noticed

    @property
    def report(self) -> str:
        """All that it noticed since it was told to forget."""
        return self.library.emu_report().decode()

    @property
    def races(self) -> int:
        return self.library.emu_races()

    @property
    def shared_accesses(self) -> int:
        """Of shared memory, as long as the library is loaded."""
        return self.library.emu_shared_accesses()

    @property
    def leaks(self) -> int:
        """Allocations that are not freed."""
        return self.library.emu_leaks()

    def configure(self, **settings: int) -> None:
        """Set its settings: seed, sms, check, devices, driver, chip, occupancy."""
        self.configured = self.configured | settings
        for name, value in settings.items():
            assert self.library.emu_set(name.upper().encode(), ctypes.c_int64(value)), name

    def fail(self, function: str, code: int, after: int = 0) -> None:
        """Let a later call of one of the driver's functions fail."""
        self.library.emu_fail(function.encode(), code, after)

    def forget(self) -> None:
        """Begin anew: settings, reports, errors of launches."""
        self.library.emu_forget()
        self.library.emu_reset()
        self.configure(**DEFAULTS)
        self.configured = {}

    # The driver, as far as tests call it themselves

    def call(self, function: str, *args: Any) -> None:
        """Call a function of the driver.

        Raises:
            CudaError: it refuses.
        """
        if code := getattr(self.library, function)(*args):
            raise CudaError(function, code)

    @contextmanager
    def context(self) -> Generator[None]:
        """With the device's context as current."""
        context = ctypes.c_void_p()
        self.forget()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxPushCurrent_v2", context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", None)
            self.call("cuDevicePrimaryCtxRelease_v2", 0)

    def upload(self, array: np.ndarray[Any, Any]) -> int:
        """Device memory with an array's bytes."""
        place = self.allocate(array.nbytes)
        held = np.ascontiguousarray(array)
        self.call("cuMemcpyHtoD_v2", _pointer(place), _pointer(held.ctypes.data), _size(held))
        return place

    def allocate(self, size: int) -> int:
        place = ctypes.c_void_p()
        self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        assert place.value is not None
        return place.value

    def download(self, place: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """An array's bytes from device memory, once all work there is done."""
        made = np.empty_like(like)
        self.call("cuMemcpyDtoH_v2", _pointer(made.ctypes.data), _pointer(place), _size(made))
        return made

    def release(self, *places: int) -> None:
        for place in places:
            self.call("cuMemFree_v2", _pointer(place))

    def copy(self, to: int, source: int, size: int) -> None:
        """Within device memory, on the default stream."""
        if size:
            args = _pointer(to), _pointer(source), ctypes.c_size_t(size), None
            self.call("cuMemcpyDtoDAsync_v2", *args)

    def store(self, place: int, word: int) -> None:
        """Eight bytes of device memory."""
        self.call(
            "cuMemcpyHtoD_v2",
            _pointer(place),
            ctypes.byref(ctypes.c_uint64(word)),
            ctypes.c_size_t(8),
        )

    def module(self, image: bytes) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("cuModuleLoadDataEx", ctypes.byref(made), image, 0, None, None)
        return made

    def unload(self, module: ctypes.c_void_p) -> None:
        self.call("cuModuleUnload", module)

    def launch(
        self,
        module: ctypes.c_void_p,
        name: str,
        arguments: Sequence[int],
        shape: tuple[int, int],
        shared: int = 0,
    ) -> None:
        """A cooperative launch of blocks and threads, and a wait for its end."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        self.call("cuFuncSetAttribute", function, _MOST_SHARED, shared)
        values = [ctypes.c_int64(argument) for argument in arguments]
        table = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        blocks, threads = shape
        grid = (blocks, 1, 1, threads, 1, 1, shared, None, table)
        self.call("cuLaunchCooperativeKernel", function, *grid)
        self.call("cuStreamSynchronize", None)


@cache
def emulator() -> Emulator:
    """That of this process."""
    return Emulator(path())


def environment(settings: Mapping[str, int] | None = None) -> dict[str, str]:
    """For another process: variables by which it finds the emulated driver."""
    chosen = {f"RNNCC_EMU_{name.upper()}": str(value) for name, value in (settings or {}).items()}
    return {"RNNCC_LIBCUDA": str(path()), **chosen}


def _pointer(address: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(address)


def _size(array: np.ndarray[Any, Any]) -> ctypes.c_size_t:
    return ctypes.c_size_t(array.nbytes)
