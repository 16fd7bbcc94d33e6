"""The builder's methods for plain ops, derived from their classes.

A plain op takes values and properties as they are: first its `kind`, then its operands, then the
other properties, of which bools are false unless given. The operands of elementwise ops broadcast.
`plain_ops.pyi`, written by `tools/write_plain_ops.py`, has the signatures for type checkers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import BoolAttr, IntAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_to_attr_constraint

from rnncc.ir.ops.apply import Apply
from rnncc.ir.ops.base import Elementwise, RnnOp, Source
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.elementwise import Not
from rnncc.ir.ops.gradients import WithGradient
from rnncc.ir.ops.linear import Reduce
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Slice, Transpose
from rnncc.ir.ops.windows import Windows
from rnncc.ir.rnn import OPS

BY_HAND = (
    *(Source, Apply, Cast, Not, Reshape, Transpose, Broadcast, Slice, Concat, Windows, Reduce),
    WithGradient,
)
"""Ops whose method in the builder does more than make them."""
PLAIN = [op for op in OPS if issubclass(op, RnnOp) and not issubclass(op, BY_HAND)]


class PlainOps(ABC):
    """What `Builder` inherits: a method `NAME` for each plain op `rnn.NAME`."""

    @abstractmethod
    def broadcast_together(self, *values: SSAValue) -> list[SSAValue]:
        """Broadcast as NumPy does."""

    @abstractmethod
    def append(self, op: type[RnnOp], *operands: SSAValue, **properties: Attribute) -> SSAValue:
        """Append an op; its result."""


def flags_of(op: type[RnnOp]) -> dict[str, bool]:
    """An op's properties but for its `kind` -> whether it is a bool; the others are integers."""
    properties = {n: p for n, p in op.get_irdl_definition().properties.items() if n != "kind"}
    return {name: p.constr != irdl_to_attr_constraint(IntAttr) for name, p in properties.items()}


def _method(op: type[RnnOp]) -> Callable[..., SSAValue]:
    definition, flags = op.get_irdl_definition(), flags_of(op)
    first = int("kind" in definition.properties)
    end = first + len(definition.operands)
    broadcasts = issubclass(op, Elementwise) and end - first > 1
    defaults = {name: False for name, is_flag in flags.items() if is_flag}

    def build(self: PlainOps, *args: Any, **named: Any) -> SSAValue:
        properties = {**defaults, **dict(zip(flags, args[end:], strict=False)), **named}
        if not end <= len(args) <= end + len(flags) or properties.keys() != flags.keys():
            raise TypeError(f"{op.name} of {len(args)} arguments and {list(named)}")
        operands = self.broadcast_together(*args[first:end]) if broadcasts else args[first:end]
        attributes = {name: _attribute(value) for name, value in properties.items()}
        if first:
            attributes["kind"] = StringAttr(args[0])
        return self.append(op, *operands, **attributes)

    build.__doc__ = op.__doc__
    return build


def _attribute(value: bool | int) -> Attribute:
    return BoolAttr.from_bool(value) if isinstance(value, bool) else IntAttr(value)


for _op in PLAIN:
    setattr(PlainOps, _op.name.removeprefix("rnn."), _method(_op))
