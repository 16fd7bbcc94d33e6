"""Shared by loops whose products keep weights on the chip: `stationary` and `tensor_cores`."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Self

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.llvm.values import I32, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.ir.dims import product
from rnncc.kern.dialect import For, Gate, Limit
from rnncc.kern.kernels import Contract, Gemm
from rnncc.kern.moves import Gather, Reverse, Scatter

_UNIFORM = (Gate, Limit, Gather, Reverse, Scatter)
"""What all blocks must see: whether the iteration, or the call, goes on."""


def _meets(op: Operation) -> bool:
    """Whether all blocks must be at an op."""
    # Parts of a rounded sum are waited for within it.
    return isinstance(op, _UNIFORM) or (isinstance(op, Contract) and op.rounded is not None)


class Shares:
    """Which points of a product in a loop this block has.

    Written before the loop: divisions in each iteration would take as long as hundreds of
    multiply-adds.

    Args:
        parts: how many blocks it takes to own all units.

    Attributes:
        part, rank, ranks: which units a block has, as which of how many with the same ones.
        active: whether a block has any.
        count: of all rows; `mine`: about how many rows a block has.
    """

    def __init__(self, emit: GpuEmit, op: Gemm, parts: Value) -> None:
        self.emit, self.op = emit, op
        b, parts = emit.b, self._some(parts)
        self.part, self.rank = b.urem(emit.block, parts), b.udiv(emit.block, parts)
        self.ranks = b.udiv(emit.blocks, parts)
        self.active = b.icmp_unsigned("<", self.rank, self.ranks)
        self.count: Value = b.trunc(emit.dim(product(op.dims[:-1])), I32)
        self.mine: Value = self._mine()

    def of(self, count: Value) -> Self:
        """The same of so many rows, if an iteration lists them."""
        if self.op.rows is None:
            return self
        shares = copy(self)
        shares.count = count
        shares.mine = shares._mine()
        return shares

    def _mine(self) -> Value:
        b, ranks = self.emit.b, self._some(self.ranks)
        return b.udiv(b.add(self.count, b.sub(ranks, I32(1))), ranks)

    def _some(self, number: Value) -> Value:
        """At least one: where weights are not held there are none, and nobody asks."""
        b = self.emit.b
        return b.select(b.icmp_unsigned(">", number, I32(1)), number, I32(1))


class HeldLoop:
    """One loop, the products of its body that hold weights, and who computes it."""

    def __init__(
        self, emit: GpuEmit, loop: For, gemms: Sequence[Gemm], pointers: dict[SSAValue, Pointer]
    ) -> None:
        self.emit, self.loop, self.gemms, self.pointers = emit, loop, gemms, pointers
        self.has_team = False

    @staticmethod
    def steady(loop: For) -> list[Gemm]:
        """The products of a loop's body whose sizes are the same in every iteration."""
        if loop.chunk is not None:
            return []
        own = {name.data for name in (loop.index, loop.iteration) if name is not None}
        gemms = (op for op in loop.body.block.ops if isinstance(op, Gemm))
        # Who computes what is chosen once, before the loop.
        return [op for op in gemms if not any(set(d.symbols) & own for d in op.dims)]

    @property
    def may_have_team(self) -> bool:
        """Whether fewer blocks may compute the loop than there are."""
        whole = self.emit.team is None
        return whole and not any(_meets(op) for op in self.loop.walk())

    def begin_team(self, needed: Sequence[Value], holds: Value) -> None:
        """Let only as many blocks compute as the product with the most work needs.

        Args:
            holds: whether weights are held; all blocks compute where they are not.
        """
        emit, b = self.emit, self.emit.b
        most = needed[0]
        for value in needed[1:]:
            most = b.select(b.icmp_unsigned(">", value, most), value, most)
        fewer = b.and_(b.icmp_unsigned("<", most, emit.blocks), holds)
        emit.begin_team(b.select(fewer, most, emit.blocks))
        self.has_team = True

    def together(self) -> None:
        """A wait of all blocks in the loop."""
        self.emit.together()

    def end(self) -> None:
        """All blocks meet again."""
        if self.has_team:
            self.emit.end_team()
