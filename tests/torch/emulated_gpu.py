"""Tensors on the CPU that go the way of those on a GPU, which the emulator of tests/gpu plays."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

import pytest

from rnncc.codegen import targets
from tests.gpu import libcuda
from tests.torch.cells import torch

codes: Any = pytest.importorskip("rnncc.torch.codes")
cuda: Any = pytest.importorskip("rnncc.torch.cuda")
devices: Any = pytest.importorskip("rnncc.torch.devices")
faults: Any = pytest.importorskip("rnncc.torch.faults")
nets: Any = pytest.importorskip("rnncc.torch.nets")
driver: Any = pytest.importorskip("rnncc_runtime.cuda.driver")
device: Any = pytest.importorskip("rnncc_runtime.cuda.device")


class EmulatedGpu(devices.Gpu):
    """The seam of rnncc.torch.devices, over the emulator's driver.

    PyTorch's memory of the CPU knows no streams: a call's work is done when the call ends.

    Attributes:
        waits: how often somebody has waited.
        calls: how many there were.
        capturing: whether a CUDA graph is captured.
    """

    def __init__(self) -> None:
        super().__init__(0)
        self.waits, self.calls, self.capturing = 0, 0, False

    @contextmanager
    def current(self) -> Generator[None]:
        yield
        self._finish()

    def stream(self) -> int:
        self.calls += 1
        return 0

    def is_capturing(self) -> bool:
        return self.capturing

    def wait(self) -> None:
        self.waits += 1
        self._finish()

    def memory(self, size: int) -> Any:
        return device_tensor(size, torch.uint8)

    def words(self, count: int) -> Any:
        return device_tensor(count, torch.int32).zero_()

    def _finish(self) -> None:
        there = device.Device.at(0)
        with there.current():
            there.wait(0)


def device_tensor(count: int, dtype: Any) -> Any:
    """A tensor in memory of the emulated driver's, poisoned."""
    memory = device.DeviceMemory(device.Device.at(0), count * dtype.itemsize)
    block = (ctypes.c_char * max(memory.size, 1)).from_address(memory.address)
    weakref.finalize(block, lambda _: None, memory)  # the memory lives as long
    return torch.frombuffer(block, dtype=dtype, count=count)


GPU = EmulatedGpu()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Generator[EmulatedGpu]:
    """Everything that rnncc.torch computes in float32 goes to the emulated GPU."""
    monkeypatch.setenv("RNNCC_LIBCUDA", str(libcuda.path()))
    monkeypatch.setattr(driver, "_found", None)
    monkeypatch.setattr(device, "_devices", {})
    row = targets.NVPTX
    emulated = targets.TargetRow("tests.gpu.emulated", row.products, row.by_default, row.knobs)
    monkeypatch.setitem(targets.TARGETS, "nvptx", emulated)
    monkeypatch.setattr(devices, "gpu_of", lambda _: GPU)
    monkeypatch.setattr(nets, "_codes", WeakValueDictionary())
    monkeypatch.setattr(faults, "_errors", {})
    libcuda.emulator().forget()
    libcuda.emulator().configure(check=0)  # PyTorch's memory is not the device's
    GPU.waits, GPU.calls, GPU.capturing = 0, 0, False
    yield GPU
    assert libcuda.emulator().report == ""
