"""Operators of images whose channels stand last, as ONNX Runtime's optimisers write them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import Function, Node, Result
from rnncc.frontends.onnx.values import Value


def if_last(function: Function) -> Function:
    """An operator of input 0 that has its channels last where the attribute `channels_last` says
    so."""
    last = channels_last(function)

    @wraps(function)
    def build(n: Node) -> Result | Sequence[Result]:
        return last(n) if n.flag("channels_last", 0) else function(n)

    return build


def channels_last(function: Function) -> Function:
    """An operator whose input 0 and result are [N, space..., C], of one with [N, C, space...]."""

    @wraps(function)
    def build(n: Node) -> SSAValue:
        rank = len(n.dims())
        if rank < 2:
            raise n.error(f"has data of {rank} axes, of which the last has its channels")
        first = [0, rank - 1, *range(1, rank - 1)]
        n.inputs[0] = Value.computed(n.b.transpose(n.x(), first))
        y = function(n)
        assert isinstance(y, SSAValue)
        return n.b.transpose(y, [first.index(axis) for axis in range(rank)])

    return build
