"""Buffers as values, and which of their elements a kernel's points read and write."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from rnncc.ir.attributes import dims_attr, get_dims
from rnncc.ir.dims import Dim
from rnncc.records import record

FAR = 4
"""How far apart elements of a vector may be that are read with those between: `Emit.spaced`."""


@record
class Access:
    """Which element a point of a domain reads or writes: offset + Σ strides[d] · index[d]."""

    offset: Dim
    strides: tuple[Dim, ...]

    def shifted(self, by: Dim | int) -> Access:
        return Access(self.offset + by, self.strides)


def access_attr(access: Access) -> ArrayAttr[StringAttr]:
    """An access as an attribute: its offset, then its strides."""
    return dims_attr([access.offset, *access.strides])


def get_access(attribute: Attribute) -> Access:
    """The access that an attribute holds."""
    offset, *strides = get_dims(attribute)
    return Access(offset, tuple(strides))


def dense(dims: Sequence[Dim]) -> tuple[Dim, ...]:
    """The row-major strides of a dense tensor."""
    strides = [Dim.of(1)]
    for size in reversed(dims[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides)) if dims else ()


def packed_elements(slots: int, units: int, depth: int, slack: int) -> int:
    """How many elements packed weights take, with the slack behind them; `depth`: as packed."""
    return slots * units * depth + slack


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """A block of elements of one type: `!kern.buffer<"f32">`"""

    name = "kern.buffer"
    dtype: StringAttr = param_def()


def buffer_type(dtype: str) -> BufferType:
    """The type of a buffer of such elements."""
    return BufferType(StringAttr(dtype))


def buffer_dtype(value: SSAValue) -> str:
    """The element type of a buffer."""
    assert isinstance(value.type, BufferType)
    return value.type.dtype.data


def are_near(steps: Sequence[Dim], most: int = FAR) -> bool:
    """Whether no two elements, so many steps apart each, are too far apart for a vector."""
    return all(s.is_static and 0 <= int(s) <= most for s in steps)
