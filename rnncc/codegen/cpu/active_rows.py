"""The active rows of a kernel that does not compute all: their count and their indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.dims import Dim, product
from rnncc.kern.kernels import Kernel


class RowList:
    """The rows that `kern.list_rows` listed for a kernel.

    Args:
        dims: the axes that a row's number runs over.
        listed: the list.

    Attributes:
        count: how many rows are computed.
    """

    def __init__(self, emit: CpuEmit, op: Kernel, dims: Sequence[Dim], listed: Pointer) -> None:
        listing = op.active_rows
        assert listing is not None
        self.emit, self.dims = emit, dims
        chosen = emit.load_number(listed)
        # The list starts with the number of true flags; behind their rows are the others.
        entries = emit.at(listed, I64(1))
        if listing.where:
            self.count, self.entries = chosen, entries
        else:
            self.count = emit.b.sub(emit.dim(product(op.dims[: listing.axes])), chosen)
            self.entries = emit.at(entries, chosen)

    @staticmethod
    def of(
        emit: CpuEmit, op: Kernel, dims: Sequence[Dim], listed: Pointer | None
    ) -> RowList | None:
        """None for a kernel that computes all rows."""
        return None if listed is None else RowList(emit, op, dims, listed)

    def indices(self, number: Value) -> list[Value]:
        """The indices of a listed row."""
        emit = self.emit
        row, inner = emit.load_number(emit.at(self.entries, number)), list[Value]()
        for size in (emit.dim(d) for d in reversed(self.dims[1:])):
            inner.append(emit.remainder(row, size))
            row = emit.quotient(row, size)
        return [row, *reversed(inner)][: len(self.dims)]

    def nest(self, counts: Sequence[Value], body: Callable[[list[Value]], None]) -> None:
        """Loops over the rows, which threads share, and over other axes inside."""

        def point(indices: list[Value]) -> None:
            body([*self.indices(indices[0]), *indices[1:]])

        self.emit.nest([self.count, *counts], point, shared=True)
