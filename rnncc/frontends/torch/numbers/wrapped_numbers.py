# pyright: basic, reportMissingImports=false
"""Integers that a tensor's type does not hold: PyTorch wraps them where two numbers meet.

Of int8 `x > 300` is `x > 44`. Where it would raise an error instead, as in `x.clamp(max=300)`,
`NodeContext.value` refuses them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node
from xdsl.ir import SSAValue

from rnncc.frontends.torch.node_context import wrapped
from rnncc.frontends.torch.types import DTYPES, NARROW
from rnncc.frontends.torch.unrolled.view import name_of, value_of
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.types import dims_of
from rnncc.nn.narrow import narrowed

_OF_TWO = frozenset(
    "add sub rsub mul div remainder fmod maximum minimum lt le gt ge eq ne bitwise_and bitwise_or "
    "bitwise_xor bitwise_left_shift bitwise_right_shift __lshift__ __rshift__".split()
)
_TENSORS_IN = {*_OF_TWO, "clamp", "clamp_min", "clamp_max"}
"""Operators that wrap numbers, and those that wrap tensors without axes."""


def meeting(b: Builder, node: Node, args: Sequence[Any]) -> list[Any]:
    """An operator's arguments, integers without axes as the type holds them that it computes in."""
    name = name_of(node)
    if name not in _TENSORS_IN:
        return list(args)
    fakes = [value_of(x) if isinstance(x, Node) else x for x in node.args]
    kind = node.meta["val"].dtype
    if kind == torch.bool:
        kind = _compared_in([x for x in fakes if isinstance(x, torch.Tensor)])
    operands = 2 if name in _OF_TWO else 0  # behind them is a factor
    return [
        _as_held(b, arg, fake, kind, number < operands)
        for number, (arg, fake) in enumerate(zip(args, fakes, strict=True))
    ]


def _compared_in(tensors: Sequence[torch.Tensor]) -> torch.dtype:
    """The type that one or two tensors are compared in, beside integers."""
    first, *others = tensors
    return torch.result_type(first, others[0]) if others else first.dtype


def _as_held(b: Builder, arg: Any, fake: Any, kind: torch.dtype, numbers: bool) -> Any:
    if kind not in (torch.uint8, torch.int8, torch.int16, torch.int32):
        return arg
    if isinstance(arg, int) and not isinstance(arg, bool):
        return wrapped(arg, kind) if numbers else arg
    if isinstance(arg, Dim) and not arg.is_static:
        arg = b.size(arg)
    elif not isinstance(arg, SSAValue) or dims_of(arg) or fake.dtype in (kind, torch.bool):
        return arg
    return narrowed(b, arg, NARROW[kind]) if kind in NARROW else b.cast(arg, DTYPES[kind])
