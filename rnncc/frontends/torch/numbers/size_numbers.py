# pyright: basic, reportMissingImports=false
"""Floats that a graph computes of open sizes: x * (x.shape[1] / 3), the scale of other sizes.

As Python's they are in double precision; where they meet a tensor they become numbers of its type.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import Node
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.node_context import location
from rnncc.frontends.torch.unrolled.view import name_of, value_of
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.nn.arithmetic import power

_KIND = "f64"
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    torch.sym_float: lambda b, x: x,
    operator.truediv: lambda b, x, y: b.div(x, y),
    operator.mul: lambda b, x, y: b.mul(x, y),
    operator.add: lambda b, x, y: b.add(x, y),
    operator.sub: lambda b, x, y: b.sub(x, y),
    operator.neg: lambda b, x: b.neg(x),
    **dict.fromkeys((torch.sym_sqrt, math.sqrt), lambda b, x: b.sqrt(x)),  # pyright: ignore
    torch.sym_max: lambda b, x, y: b.maximum(x, y),
    torch.sym_min: lambda b, x, y: b.minimum(x, y),
}
_ROUNDED = {math.trunc, math.floor, math.ceil, torch.sym_int}
"""What makes a size of a float: the graph knows its formula."""
_TAKEN = frozenset(
    "add sub rsub mul div remainder fmod atan2 copysign xlogy pow where masked_fill eq ne lt le gt "
    "ge clamp clamp_min clamp_max full full_like new_full fill scalar_tensor scatter".split()
)
"""The operators that take a tensor in a number's place."""


def is_rounded(node: Node) -> bool:
    """Whether a node makes a size of a float."""
    return node.target in _ROUNDED


def is_float(node: Node) -> bool:
    """Whether a node computes a float of sizes, and takes none out of a tensor."""
    is_operator = isinstance(node.target, torch._ops.OpOverload)
    return isinstance(value_of(node), torch.SymFloat) and not is_operator


def float_of_sizes(b: Builder, node: Node, args: Sequence[Any]) -> SSAValue:
    """What it computes; raises `CompileError` where there is no function for it."""
    b.loc = location(node)
    if node.target is operator.truediv and not any(isinstance(x, (int, Dim)) for x in args):
        return _quotient(b, *args)
    if node.target is operator.pow:
        base, exponent = args
        is_known = isinstance(exponent, (int, float))  # whole powers and roots are exact
        return power(b, _number(b, base), exponent if is_known else _number(b, exponent))
    function = _FUNCTIONS.get(node.target)
    if function is None:
        raise CompileError(b.loc, "of sizes that are open is not supported", "x.new_tensor(size)")
    return function(b, *(_number(b, x) for x in args))


def _quotient(b: Builder, x: Any, y: Any) -> SSAValue:
    """Of floats, 0 by 0: PyTorch's scale where the only place is the first one.

    Whether it is, PyTorch asked of a size that it takes for 2 or more.
    """
    divided, by = _number(b, x), _number(b, y)
    zero = b.fill(0, (), _KIND)
    return b.select(b.compare("eq", by, zero), zero, b.div(divided, by))


def _number(b: Builder, x: Any) -> SSAValue:
    if isinstance(x, Dim) and not x.is_static:
        return b.size(x, _KIND)
    return x if isinstance(x, SSAValue) else b.fill(float(x), (), _KIND)


def refuse_floats(node: Node) -> None:
    """Refuse an operator that takes such a float where it is translated for known ones only."""
    if any(map(is_float, node.all_input_nodes)) and name_of(node) not in _TAKEN:
        what = "a number that is computed of open sizes is not supported here"
        raise CompileError(location(node), what, "x.new_tensor(number)")
