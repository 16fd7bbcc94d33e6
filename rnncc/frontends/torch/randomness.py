# pyright: basic, reportMissingImports=false
"""Where the random numbers of a graph come from: the net's seed, a use's stream, an iteration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch.fx import GraphModule, Node
from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.frontends.torch.graphs import graphs_of
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, product

SEED = "seed"


@dataclass
class Random:
    """The random numbers of a net, or of a loop's body.

    Attributes:
        net: appends the input `seed`, in a net; None where there is one, or is to be none.
        seed: i32 of rank 0, once there is one.
        iteration: in a loop's body, its number among all iterations, i32 of rank 0.
        streams: the numbers of uses to come: each use draws numbers of its own.
    """

    net: Builder | None = None
    seed: SSAValue | None = None
    iteration: SSAValue | None = None
    streams: Iterator[int] = field(default_factory=lambda: count(1))

    def uniform(self, b: Builder, dims: Sequence[Dim]) -> SSAValue:
        """Multiples of 2^-24 in [0, 1), f32, which follow from the seed alone.

        An element's number is its place, counted on from one iteration to the next; numbers repeat
        after 2^32 of them.

        Raises:
            CompileError: there can be no seed here.
        """
        seed, size = self.begun(), product(dims)
        index = b.iota([size], 0)
        if self.iteration is not None:
            index = b.add(index, b.mul(self.iteration, b.size(size, "i32")))
        return b.uniform(seed, b.reshape(index, dims), next(self.streams))

    def within(self, seed: SSAValue, iteration: SSAValue) -> Random:
        """Those of a loop's body, given the seed and the iteration's number as values in there."""
        return Random(None, seed, iteration, self.streams)

    def handed_on(self, b: Builder) -> list[SSAValue]:
        """The seed and the iteration's number, which a branch or a loop within takes as values.

        Raises:
            CompileError: there can be no seed here.
        """
        return [self.begun(), b.fill(0, [], "i32") if self.iteration is None else self.iteration]

    def begun(self) -> SSAValue:
        """The seed, i32 of rank 0.

        Raises:
            CompileError: there can be none here.
        """
        if self.seed is None:
            if self.net is None:
                hint = "draw them outside and give them as inputs"
                raise CompileError("", "random numbers are not supported here", hint)
            self.seed = self.net.input(self.net.free_name(SEED), [], "i32")
        return self.seed

    def iterations(self, b: Builder, length: Dim) -> SSAValue:
        """The numbers of a loop's iterations, i32 [length]; rows that come last first keep them."""
        numbers = b.iota([length], 0)
        if self.iteration is None:
            return numbers
        return b.add(numbers, b.mul(self.iteration, b.size(length, "i32")))


def draws(module: GraphModule) -> bool:
    """Whether a graph, or one within it, draws random numbers."""
    return any(_draws(node) for part in graphs_of(module) for node in part.graph.nodes)


def _draws(node: Node) -> bool:
    target: Any = node.target
    if target is torch.ops.rnncc.recurrent.default:
        return bool(_argument(node, "dropout"))
    return torch.Tag.nondeterministic_seeded in getattr(target, "tags", ())


def _argument(node: Node, name: str) -> Any:
    target: Any = node.target
    place = [argument.name for argument in target._schema.arguments].index(name)
    return node.kwargs.get(name, node.args[place] if place < len(node.args) else None)
