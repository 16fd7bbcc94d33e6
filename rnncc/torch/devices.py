# pyright: basic, reportMissingImports=false
"""Where a call's tensors lie, and what a call there needs of PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

import torch
from rnncc_runtime.errors import ArrayError

from rnncc.errors import CompileError
from rnncc.frontends.torch.types import type_name

PLAIN_TENSORS = torch.Tensor, torch.nn.Parameter
"""Types, not their subclasses, whose memory is the tensor's."""


class Gpu:
    """An NVIDIA GPU as PyTorch uses it: the one place that asks `torch.cuda`.

    Attributes:
        number: which of those that this process sees.
    """

    def __init__(self, number: int) -> None:
        self.number, self._device = number, torch.device("cuda", number)

    def current(self) -> AbstractContextManager[None]:
        """While it lasts, this thread's calls of CUDA are for this GPU."""
        return torch.cuda.device(self.number)

    def stream(self) -> int:
        """What the calling thread has chosen for its work, as CUDA knows it."""
        return torch._C._cuda_getCurrentRawStream(self.number)

    def is_capturing(self) -> bool:
        """Whether that stream's work becomes part of a CUDA graph, and is not done yet."""
        return torch.cuda.is_current_stream_capturing()

    def wait(self) -> None:
        """Until all work of that stream is done."""
        torch.cuda.current_stream(self.number).synchronize()

    def memory(self, size: int) -> torch.Tensor:
        """So many bytes, which mean nothing, for work of that stream."""
        return torch.empty(size, dtype=torch.uint8, device=self._device)

    def words(self, count: int) -> torch.Tensor:
        """Zeros, int32, that both the GPU and this process can write and read."""
        return torch.zeros(count, dtype=torch.int32, pin_memory=True)


def gpu_of(device: torch.device) -> Gpu | None:
    """The GPU that a device is; None for the CPU."""
    if device.type == "cpu":
        return None
    return Gpu(torch.cuda.current_device() if device.index is None else device.index)


def check_tensor(x: torch.Tensor) -> None:
    """Refuse what compiled code cannot read."""
    known = x.device.type == "cpu" or (x.device.type == "cuda" and torch.version.hip is None)
    layout = "nested" if x.is_nested else x.layout
    if not known or layout != torch.strided:
        kinds = "the CPU and NVIDIA GPUs"
        raise CompileError("", f"a tensor on {x.device} ({layout}): only dense ones on {kinds}")


def check_dtypes(
    names: Iterable[str], tensors: Iterable[torch.Tensor], expected: Iterable[torch.dtype]
) -> None:
    """Raise `ArrayError` for an input of another dtype than its own."""
    for name, x, dtype in zip(names, tensors, expected, strict=True):
        if x.dtype != dtype:
            raise ArrayError(f"{name} is {type_name(x.dtype)}, expected {type_name(dtype)}")


def dense(x: torch.Tensor) -> torch.Tensor:
    """A tensor's memory; one that is not contiguous, or not negated yet, is copied."""
    if x._is_zerotensor():  # a tangent that autograd knows to be zeros has no memory
        return torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    if x.is_contiguous() and not x.is_neg():
        return x
    return x.detach().resolve_neg().contiguous()


def new_like(x: torch.Tensor) -> torch.Tensor:
    """A new, dense tensor of the same shape, dtype and device.

    To make it by these takes two to three times as long.
    """
    if type(x) in PLAIN_TENSORS:
        return torch.empty_like(x, memory_format=torch.contiguous_format)
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def single_device(tensors: Iterable[torch.Tensor]) -> torch.device | None:
    """The device that all tensors are on; None for several, or no tensors."""
    devices = {x.device for x in tensors}
    return devices.pop() if len(devices) == 1 else None


def common_device(names: Sequence[str], tensors: Sequence[torch.Tensor]) -> torch.device:
    """The device that all tensors are on; there may be names for more than these.

    A single number on the CPU may go with tensors elsewhere, as in PyTorch.

    Raises:
        CompileError: they are on several.
    """
    only = single_device(tensors)
    if only is not None:
        return only
    device = torch.device("cpu")
    first: str | None = None
    for name, tensor in zip(names, tensors, strict=False):
        if tensor.device == device or is_number(tensor):
            first = first or (None if is_number(tensor) else name)
        elif first is None:
            device, first = tensor.device, name
        else:
            what = f"{name} is on {tensor.device} and {first} on {device}"
            raise CompileError("", what, "all tensors of a call must be on one device")
    return device


def is_number(x: torch.Tensor) -> bool:
    """Whether a tensor is a single number on the CPU."""
    return x.dim() == 0 and x.device.type == "cpu"
