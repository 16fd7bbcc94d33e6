"""Arrays of a GPU from one package to another by DLPack: capsules read and made with ctypes."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CPU, CUDA, PINNED, MANAGED = 1, 2, 3, 13
"""Kinds of devices."""
_NAME = b"dltensor"
_CODES = {
    **{("i", size): 0 for size in (1, 2, 4, 8)},
    **{("u", size): 1 for size in (1, 2, 4)},
    **{("f", size): 2 for size in (2, 4, 8)},
    ("b", 1): 6,
}
"""(NumPy's kind, bytes) -> DLPack's kind of numbers."""


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


_python: Any = ctypes.pythonapi
_new = _python.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_is_valid = _python.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
_content = _python.PyCapsule_GetPointer
_content.restype, _content.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
# of a capsule that is going: as an address, so that nobody counts references to it
_is_valid_at = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _python)
)
_content_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)


@dataclass(frozen=True)
class TensorView:
    """What a capsule says of an array.

    Attributes:
        strides: in elements; None where the array is dense and row-major.
        dtype: None for one that NumPy does not have.
    """

    address: int
    device_kind: int
    device: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    dtype: np.dtype[Any] | None


def read(capsule: object) -> TensorView:
    """What a capsule holds, which must live as long as the array is used.

    Raises:
        ValueError: it is none, or was taken by somebody.
    """
    if not _is_valid(capsule, _NAME):
        raise ValueError("its __dlpack__ gives no capsule with a tensor")
    tensor: Any = _Managed.from_address(_content(capsule, _NAME)).tensor
    rank = tensor.rank
    strides = tuple(tensor.strides[:rank]) if tensor.strides else None
    address = (tensor.data or 0) + tensor.byte_offset
    kinds = {(code, 8 * size): f"{kind}{size}" for (kind, size), code in _CODES.items()}
    name = kinds.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    dtype = None if name is None else np.dtype(name)
    shape = tuple(tensor.shape[:rank])
    return TensorView(address, tensor.device_kind, tensor.device, shape, strides, dtype)


_lent: dict[int, tuple[Any, ...]] = {}
"""What capsules of ours hold, by the addresses of their structs."""
_lending = threading.Lock()


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(managed: int) -> None:
    with _lending:
        _lent.pop(managed, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _destroy(capsule: int) -> None:
    """Of a capsule that nobody has taken: who takes one renames it, and calls the deleter."""
    if _is_valid_at(capsule, _NAME):
        _delete(_content_at(capsule, _NAME))


def make(
    address: int, device: int, shape: Sequence[int], dtype: np.dtype[Any], keep: object
) -> object:
    """A capsule of a dense, row-major array.

    Args:
        keep: lives as long as somebody has the array.
    """
    managed = _Managed()
    sizes = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    steps = (ctypes.c_int64 * max(len(shape), 1))(*dense_strides(shape))
    tensor: Any = managed.tensor
    tensor.data, tensor.device_kind, tensor.device = address, CUDA, device
    tensor.rank, tensor.lanes = len(shape), 1
    tensor.code, tensor.bits = _CODES[dtype.kind, dtype.itemsize], 8 * dtype.itemsize
    tensor.shape = ctypes.cast(sizes, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(steps, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = ctypes.cast(_delete, ctypes.c_void_p)
    where = ctypes.addressof(managed)
    with _lending:
        _lent[where] = managed, sizes, steps, keep
    return _new(where, _NAME, ctypes.cast(_destroy, ctypes.c_void_p))


def dense_strides(shape: Sequence[int]) -> list[int]:
    """The strides of a row-major array, in elements."""
    strides, step = list[int](), 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]
