"""What loops share whose products keep their weights on the chip: see `stationary` and `tensor`."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from rnncc.codegen.llvm.values import Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.kern.dialect import For, Gate, Limit
from rnncc.kern.kernels import Contract, Gemm
from rnncc.kern.moves import Gather, Reverse, Scatter

_UNIFORM = (Gate, Limit, Gather, Reverse, Scatter)
"""What all blocks must see: whether the iteration, or the call, goes on."""


def _meets(op: Operation) -> bool:
    """Whether all blocks must be at an op."""
    # Parts of a rounded sum are waited for within it.
    return isinstance(op, _UNIFORM) or (isinstance(op, Contract) and op.rounded is not None)


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

    def end(self) -> None:
        """All blocks meet again."""
        if self.has_team:
            self.emit.end_team()
