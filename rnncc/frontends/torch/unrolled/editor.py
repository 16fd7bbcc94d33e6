# pyright: basic, reportMissingImports=false
"""Adds nodes to a graph of PyTorch, with fakes of their results."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from rnncc.frontends.torch.graphs import fake_mode
from rnncc.frontends.torch.own_operators.constant_op import CONSTANT, number_of
from rnncc.frontends.torch.unrolled.growing import JOINS
from rnncc.frontends.torch.unrolled.places import END, Sweep, TensorPart, read_of, sweep_of
from rnncc.frontends.torch.unrolled.view import (
    arguments_of,
    known,
    name_of,
    name_of_function,
    parts_of,
    value_of,
)

aten: Any = torch.ops.aten
NEAR = 8
"""Places so far from an axis's end are counted from there, so that the axis's size may be open."""


class Editor:
    """Adds nodes where the graph inserts them.

    Args:
        module: the graph.
        plain: whether it stays as it is; else it is traced again.
    """

    def __init__(self, module: GraphModule, plain: bool) -> None:
        self.module, self.graph, self.plain = module, module.graph, plain
        values = [value_of(node) for node in module.graph.nodes]
        self.mode = fake_mode([part for x in values for part in parts_of(x)])
        self.is_aten = any("val" in node.meta for node in module.graph.nodes)
        """Whether it consists of aten operators."""
        self.key = "val" if self.is_aten else "example_value"
        self.like: Node | None = None
        """Whose line of the program new nodes have."""

    def new(self, target: Any, *args: Any, **kwargs: Any) -> Node:
        """A call; its result is computed of those of its operands."""
        values: Any = map_arg((args, kwargs), value_of)
        return self.call(target, args, kwargs, self.fake(target, *values[0], **values[1]))

    def call(self, target: Any, args: Any, kwargs: Any, value: Any) -> Node:
        """A call whose result is known."""
        name = name_of_function(target)
        node = self.graph.create_node("call_function", target, args, kwargs, name)
        if self.like is not None and "stack_trace" in self.like.meta:
            node.meta["stack_trace"] = self.like.meta["stack_trace"]
        node.meta[self.key] = value
        return node

    def taken(self, node: Node, number: int) -> Node:
        """One of a call's results."""
        return self.call(operator.getitem, (node, number), {}, value_of(node)[number])

    def fake(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """What a function makes of fakes."""
        if self.mode is None:
            return target(*args, **kwargs)
        with self.mode, torch.no_grad():
            return target(*args, **kwargs)

    def part(self, module: torch.nn.Module, name: str) -> Node:
        """A graph within this one, under a name like the given one."""
        own = self._free_name(name)
        self.module.register_module(own, module)
        return self.graph.get_attr(own)

    def _free_name(self, stem: str) -> str:
        """A name that the module has not."""
        return next(name for i in count() if not hasattr(self.module, name := f"{stem}_{i}"))

    def constant(self, values: Sequence[int | float], dtype: torch.dtype, device: Any) -> Node:
        """A tensor of one axis."""
        if not self.is_aten:
            return self.new(torch.tensor, list(values), dtype=dtype, device=device)
        number = number_of(torch.tensor(values, dtype=dtype))
        return self.new(CONSTANT, number, torch.device(device))

    def apart(self, node: Node) -> Node:
        """A copy, where operators that are traced want tensors that share no memory."""
        if self.plain or not isinstance(value_of(node), torch.Tensor):
            return node
        return self.new(aten.clone.default, node, memory_format=torch.contiguous_format)

    # Parts of axes

    def cut(self, x: Node, axis: int, start: int, end: int) -> Node:
        """x[start:end] along an axis."""
        size = known(value_of(x).shape[axis])
        if size == end:
            end = END
        elif size is not None and size - end <= NEAR:
            end -= size
        return x if (start, end) == (0, END) else self.new(aten.slice.Tensor, x, axis, start, end)

    def select(self, x: Node, axis: int, place: int, like: Node | None = None) -> Node:
        """x[place] along an axis.

        Args:
            like: another place of it: what stands for one stands for all, but for where it begins.
        """
        size = known(value_of(x).shape[axis])
        if size is not None and size - place <= min(NEAR, place):
            place -= size
        if like is not None:
            return self.call(aten.select.int, (x, axis, place), {}, value_of(like))
        return self.new(aten.select.int, x, axis, place)

    def move(self, x: Node, axis: int, to: int) -> Node:
        """An axis moved to another place."""
        order = list(range(value_of(x).dim()))
        order.insert(to, order.pop(axis))
        return x if order == sorted(order) else self.new(aten.permute.default, x, order)

    def turned(self, x: Node, step: int) -> Node:
        """The rows, the last one first if the step is below 0."""
        return self.new(aten.flip.default, x, [0]) if step < 0 else x

    def rows(self, sweep: Sweep, count: int) -> Node:
        """The parts that all repeats read, along a new first axis."""
        x, axis = sweep.base, sweep.axis
        others = [i for i in range(len(sweep.rest) + 1) if i != axis]
        for other, part in reversed(list(zip(others, sweep.rest, strict=True))):
            if part.drops:
                x, axis = self.select(x, other, part.start), axis - (other < axis)
            elif part.size is not None:
                x = self.cut(x, other, part.start, part.start + part.size)
        x = self.cut(x, axis, *sweep.covers(count))
        stride = abs(sweep.step)
        if sweep.extent == 1:
            x = self.move(x, axis, 0)
            if stride > 1:
                x = self.new(aten.slice.Tensor, x, 0, 0, END, stride)
            x = self.turned(x, sweep.step)
            return x if sweep.drops else self.new(aten.unsqueeze.default, x, axis + 1)
        if stride == sweep.extent:
            x = self.new(aten.unflatten.int, x, axis, [-1, sweep.extent])
        else:
            x = self.new(aten.unfold.default, x, axis, sweep.extent, stride)
            x = self.move(x, value_of(x).dim() - 1, axis + 1)
        return self.turned(self.move(x, axis, 0), sweep.step)

    def joined(self, rows: Node, axis: int, new: bool) -> Node:
        """Rows side by side along an axis: one of their own, or a new one; a tensor that is
        contiguous, as that which it stands for may be viewed in any shape."""
        x = self.move(rows, 0, axis)
        x = x if x is rows else self.apart(x)
        return x if new else self.new(aten.flatten.using_ints, x, axis, axis + 1)

    def filled(self, init: Node, sweep: Sweep, rows: Node, count: int) -> Node:
        """A tensor with the parts that all repeats write."""
        written = self.joined(self.turned(rows, sweep.step), sweep.axis, sweep.drops)
        start, end = sweep.covers(count)
        size = known(value_of(init).shape[sweep.axis])
        if (start, end) == (0, size):
            return written
        end = END if end == size else end - size if size and size - end <= NEAR else end
        return self.new(aten.slice_scatter.default, init, written, sweep.axis, start, end)

    def collect(self, node: Node, bases: set[Node]) -> None:
        """Put rows of some tensors that a `stack` or `cat` lines up together at once."""
        parts: Any = node.args[0] if node.args else node.kwargs.get("tensors")
        if name_of(node) not in ("stack", *JOINS):
            return
        new = name_of(node) == "stack"
        dim = arguments_of(node, dim=0)["dim"]
        rank = value_of(node).dim()
        pieces, k = list[Node](), 0
        places = [read_of(part) for part in parts]
        while k < len(parts):
            sweep = sweep_of(places[k:]) if _is_row(places[k], bases) else None
            if sweep is not None and sweep[0].axis == 0 and abs(sweep[0].step) == 1:
                with self.graph.inserting_before(node):
                    pieces.append(self.joined(self.rows(*sweep), dim % rank, new))
                k += sweep[1]
                continue
            with self.graph.inserting_before(node):
                pieces.append(self.new(aten.unsqueeze.default, parts[k], dim) if new else parts[k])
            k += 1
        if len(pieces) == len(parts):
            return
        with self.graph.inserting_before(node):
            whole = self.new(aten.cat.default, pieces, dim) if len(pieces) > 1 else pieces[0]
        node.replace_all_uses_with(whole)
        self.graph.erase_node(node)


def _is_row(place: TensorPart | None, bases: set[Node]) -> bool:
    return place is not None and place.base in bases and place.parts[0].drops
