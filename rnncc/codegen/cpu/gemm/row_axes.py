"""The rows of a product as loops: the innermost one is cut into tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rnncc.codegen.cpu.active_rows import RowList
from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.values import I64, Value
from rnncc.ir.dims import Dim


class RowAxes:
    """Loops over the axes of rows, or over the list of those that are computed.

    Args:
        dims: of the axes.
        height: rows of a tile.
    """

    def __init__(
        self, emit: CpuEmit, dims: Sequence[Dim], listed: RowList | None, height: int
    ) -> None:
        self.emit, self.listed = emit, listed
        counts = [emit.dim(d) for d in dims] or [I64(1)]
        self.turned = None if listed is not None else self._turned(dims, height)
        if self.turned is not None:
            *others, one, two = counts
            counts = [*others, *self._in_turn(self.turned, one, two)]
        *self.outer, self.count = counts if listed is None else [listed.count]

    def nest(self, body: Callable[[list[Value]], None]) -> None:
        """Loops over the outer axes."""
        self.emit.nest(self.outer, body)

    def indices(self, outer: list[Value], number: Value) -> list[Value]:
        """Of a row's axes, given those of the outer loops and its number along the innermost."""
        if self.listed is not None:
            return self.listed.indices(number)
        if self.turned is None:
            return [*outer, number]
        return [*outer[:-1], *self._in_turn(self.turned, outer[-1], number)]

    def _turned(self, dims: Sequence[Dim], height: int) -> Value | None:
        """Whether the axis around the last one is the innermost: the last one fills no more than
        half a tile, such as a batch of one whose steps lie side by side; None if that is never so.
        Beyond, tiles along the other axis gain nothing.
        """
        most = height // 2
        if len(dims) < 2 or most == 0 or (dims[-1].is_static and int(dims[-1]) > most):
            return None
        b, (around, last) = self.emit.b, (self.emit.dim(d) for d in dims[-2:])
        return b.and_(b.icmp_signed("<=", last, I64(most)), b.icmp_signed("<", last, around))

    def _in_turn(self, turned: Value, one: Value, two: Value) -> tuple[Value, Value]:
        b = self.emit.b
        return b.select(turned, two, one), b.select(turned, one, two)


def indices_apart(
    emit: CpuEmit, dims: Sequence[Dim], axes: Sequence[int], indices: Sequence[Value]
) -> list[Value]:
    """The index along each axis, given those of loops that run along several.

    Args:
        axes: the last one of each loop's.
    """
    b, coordinates = emit.b, list[Value]()
    for axis, index in zip(axes, indices, strict=True):
        inner, rest = list[Value](), index
        for size in reversed(dims[len(coordinates) + 1 : axis + 1]):
            around = b.udiv(rest, emit.dim(size))
            inner.append(b.sub(rest, b.mul(around, emit.dim(size))))
            rest = around
        coordinates += [rest, *reversed(inner)]
    return coordinates + [I64(0)] * (len(dims) - len(coordinates))
