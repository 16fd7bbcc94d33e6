# pyright: basic, reportMissingImports=false
"""The run of a graph of calls that is traced."""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.autograd_function import autograd_function_apply
from torch.fx import Interpreter

from rnncc.frontends.torch.branches.marks import choose, mark, mark_loop
from rnncc.frontends.torch.decompositions import FUNCTIONS
from rnncc.frontends.torch.mark_places import BRANCH_END, WAY_IF_FALSE, WAY_IF_TRUE
from rnncc.frontends.torch.own_operators.function_op import with_graphs
from rnncc.frontends.torch.own_operators.recurrent_op import CELLS, call_whole, recurrent_kind
from rnncc.frontends.torch.unrolled.view import parts_of


def _rnn_cell(activation: Any) -> Any:
    """PyTorch's own has another type in the body of a loop, where its state has 16 bits."""

    def step(x: Any, h: Any, w: Any, u: Any, b: Any = None, c: Any = None) -> Any:
        linear = torch.nn.functional.linear
        return activation(linear(x, w, b) + linear(h, u, c))

    return step


_IN_PARTS = {
    **{operator: function for function, operator in CELLS.items()},
    CELLS[torch.rnn_tanh_cell]: _rnn_cell(torch.tanh),
    CELLS[torch.rnn_relu_cell]: _rnn_cell(torch.relu),
}
"""Cells whose products alone are computed in 16 bits under autocast."""


class Whole(Interpreter):
    """Recurrent layers become one operator each; open sizes stay open."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        kind = recurrent_kind(target)
        if kind is not None:
            return call_whole(kind, *args, **kwargs)
        if target in _IN_PARTS and torch.is_autocast_enabled(args[0].device.type):
            target = _IN_PARTS[target]
        target = FUNCTIONS.get(target, target)
        if target is torch.ops.higher_order.scan:
            args = (Whole(args[0]).run, *args[1:])
        if target is torch.ops.higher_order.cond and isinstance(args[0], torch.Tensor):
            return _both_ways(*args)
        if target is torch.ops.higher_order.while_loop and _are_tensors(args[2]):
            return _iterated(*args)
        if target is torch.nn.functional.linear and len(args) == 3 and args[0].dim() > 2:
            return _linear(*args)
        if target is autograd_function_apply:
            return with_graphs(lambda part, *operands: Whole(part).run(*operands), *args, **kwargs)
        return super().call_function(target, args, kwargs)


def _both_ways(flag: Any, one: Any, other: Any, operands: Any) -> Any:
    """Both ways of `torch.cond`, which would be traced several times, each within another more.
    Numbers that they give are the same (`branches/merged.py`)."""
    ways, flag = list[Any](), flag.reshape(())
    mark(flag, WAY_IF_TRUE)
    for part, behind in (one, WAY_IF_FALSE), (other, BRANCH_END):
        ways.append(Whole(part).run(*operands))
        mark(flag, behind)
    return tuple(
        choose(flag, *both) if isinstance(both[0], torch.Tensor) else both[0]
        for both in zip(*ways, strict=True)
    )


def _are_tensors(carried: Any) -> bool:
    return bool(carried) and all(isinstance(x, torch.Tensor) for x in carried)


def _iterated(going: Any, body: Any, inits: Any, held: Any) -> Any:
    """`torch.while_loop`, whose parts would be traced several times, too."""
    parts = [lambda *xs, part=part: Whole(part).run(*xs, *held) for part in (going, body)]
    return mark_loop(lambda *xs: parts_of(parts[0](*xs))[0].reshape(()), parts[1], inits)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    """In one piece, functionalization would fix the sizes of x.

    A sum of 16 bits is rounded once, as it is of rows.
    """
    product = torch.nn.functional.linear(x, weight)
    if bias is None:
        return product
    if product.dtype.itemsize < 4:
        rows = torch.nn.functional.linear(x.flatten(0, -2), weight, bias)
        return rows.view(product.shape)
    return product + bias
