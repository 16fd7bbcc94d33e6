"""Host functions of GPU libraries in this process, with a driver that writes down its calls."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from rnncc_runtime.library import bind

from rnncc.codegen.cpu.resolve import resolve_target
from rnncc.codegen.cpu.target import CpuTarget
from rnncc.codegen.llvm import objects
from rnncc.codegen.nvptx.device import DeviceCode, DeviceKernel
from rnncc.codegen.nvptx.host.entries import write_host
from rnncc.codegen.nvptx.ptx import ChipImage
from rnncc.driver import compiling
from rnncc.ir.dims import Dim
from rnncc.kern.largest import Largest
from rnncc.kern.library import Library
from rnncc.options import Options
from rnncc.packaging.describe import describe

RESIDENT = 6


@dataclass(frozen=True)
class HostOnly:
    """As much of a target as the host's part asks for."""

    host: CpuTarget
    chips: tuple[str, ...] = ()
    device: str = "cuda"
    tuned: str = ""

    def extensions_of(self, library: Library) -> list[str]:
        return []

    @property
    def triple(self) -> str:
        return self.host.triple

    @property
    def cpu(self) -> str:
        return "ptx"


class Struct(ctypes.Structure):
    """`struct rnncc_cuda`, as far as libraries know it."""

    _fields_ = [
        ("launch", ctypes.c_void_p),
        ("set", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("weights", ctypes.c_uint64),
        ("kernels", ctypes.c_int64 * 8),
    ]


@dataclass
class Hosted:
    """A library's host functions, and the calls that they have made."""

    library: Library
    device: DeviceCode
    functions: Mapping[str, Any]
    metadata: dict[str, Any]
    parameters: Mapping[str, int]
    calls: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    fails: int = 0
    """A number of the call that the driver refuses, from 1 up."""
    weights: int = 0x7000_0000

    def __post_init__(self) -> None:
        pointer, word, size = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t
        result = ctypes.c_int32
        set_type = ctypes.CFUNCTYPE(result, pointer, word, size, pointer)
        copy_type = ctypes.CFUNCTYPE(result, pointer, pointer, size, pointer)
        launch_type = ctypes.CFUNCTYPE(result, pointer, *[word] * 7, pointer, pointer)
        self._keep = launch_type(self._launch), set_type(self._set), copy_type(self._copy)
        addresses = [ctypes.cast(one, pointer).value for one in self._keep]
        self.struct = Struct(*addresses, self.weights)
        for number in range(len(self.device.kernels)):
            self.struct.kernels[2 * number] = 0x100 + number
            self.struct.kernels[2 * number + 1] = RESIDENT | (1024 * number) << 32

    @property
    def cuda(self) -> int:
        return ctypes.addressof(self.struct)

    def call(self, name: str, *arguments: int) -> int:
        """A function's code; `calls` are those of this call alone."""
        self.calls.clear()
        return self.functions[name](*arguments)

    def _told(self, *call: Any) -> int:
        self.calls.append(call)
        return 7 if len(self.calls) == self.fails else 0

    def _set(self, at: int, word: int, count: int, stream: int) -> int:
        return self._told("set", at or 0, word, count, stream or 0)

    def _copy(self, to: int, source: int, size: int, stream: int) -> int:
        return self._told("copy", to or 0, source or 0, size, stream or 0)

    def _launch(self, *given: int) -> int:
        handle, *grid, shared, stream, table = given
        name = list(self.device.kernels)[handle - 0x100]
        count = self.parameters[name]
        places = (ctypes.c_void_p * count).from_address(table)
        values = [ctypes.c_int64.from_address(place or 0).value for place in places]
        return self._told("launch", name, tuple(grid), shared, stream or 0, values)


def hosted(net: Any, init: Any = None, **options: Any) -> Hosted:
    """A net's host functions, loaded without weights."""
    library = compiling.build_library(net, init, Options.of(net, options))
    device = device_of(library)
    target: Any = HostOnly(resolve_target(None, None))
    metadata = describe(library, target)
    images = [ChipImage("ptx", b"// nothing\0"), ChipImage("sm_80", bytes(range(256)))]
    text = write_host(library, target, device, metadata, images, in_memory=True)
    engine = objects.load(objects.optimise(text, target.host, jit=True))
    functions: dict[str, Any] = {
        name: bind(metadata, name, engine.get_function_address(f"{library.name}_{name}"))
        for name in (*metadata["functions"], *metadata["sizes"])
    }
    for name in ("cuda_image", "metadata"):
        address = engine.get_function_address(f"{library.name}_{name}")
        functions[name] = ctypes.CFUNCTYPE(ctypes.c_void_p)(address)
    functions["engine"] = engine
    parameters = {
        name: 6 + len(one.inputs) + len(one.outputs) + len(one.symbols)
        for name, one in library.programs.items()
    }
    return Hosted(library, device, functions, metadata, parameters)


def device_of(library: Library) -> DeviceCode:
    """Kernels that nothing is known of but how they are launched."""
    points = Largest([Dim.of("N") * 20 - 10, Dim.of(31)])
    kernels = {
        name: DeviceKernel(f"{library.name}_{name}", 256, 1024 * number, points, 10)
        for number, name in enumerate(library.programs)
    }
    return DeviceCode("", kernels)


def table(pointers: Sequence[int]) -> Any:
    """A struct of pointers."""
    return (ctypes.c_void_p * max(len(pointers), 1))(*pointers)


def address(struct: Any) -> int:
    return ctypes.addressof(struct)


def zeros(size: int) -> np.ndarray[Any, Any]:
    return np.zeros(size, np.uint8)
