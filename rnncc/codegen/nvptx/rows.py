"""The points of a kernel: all of a domain's first axes, or those that `kern.list_rows` listed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, SSAValue

from rnncc.codegen.llvm.nest import Nest, indexed_axes, make_nest
from rnncc.codegen.llvm.region import RegionCode
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.ir.dims import Dim, product
from rnncc.kern.access import Access
from rnncc.kern.kernels import Kernel


class KernelRows:
    """The rows of a kernel, over the first `axes` axes of its domain.

    Args:
        accesses: of all pointers that `at` is asked for, over the whole domain.
        listed: the list of those that are computed, if not all are.

    Attributes:
        count: how many there are.
    """

    def __init__(
        self,
        emit: GpuEmit,
        op: Kernel,
        accesses: Sequence[Access],
        axes: int,
        listed: Pointer | None,
    ) -> None:
        self.emit, self.axes = emit, axes
        own = [Access(a.offset, a.strides[:axes]) for a in accesses]
        listing = op.active_rows
        if listed is None or listing is None:
            apart = [axis for axis in indexed_axes(op) if axis < axes]
            self.nest = make_nest(op.dims[:axes], own, apart)
            self._counts = [emit.dim(d) for d in self.nest.dims]
            self._entries, self.count = None, emit.multiplied(self._counts)
            return
        # A row's number in the list counts over all its axes, none of which may be merged.
        self.nest = Nest(op.dims[:axes], tuple(range(axes)), tuple(own))
        self._counts = [emit.dim(d) for d in self.nest.dims]
        self._listed_axes = listing.axes
        chosen, self._entries = emit.load_number(listed), emit.at(listed, I64(1))
        if not listing.where:
            self._entries = emit.at(self._entries, chosen)
            chosen = emit.b.sub(emit.dim(product(op.dims[: listing.axes])), chosen)
        self.count = emit.b.mul(chosen, emit.multiplied(self._counts[listing.axes :]))

    def indices(self, number: Value) -> list[Value]:
        """The indices of a row along the nest's loops, given its number among those computed."""
        emit = self.emit
        if self._entries is None:
            return emit.unravel(number, self._counts)
        # The first axis may have any size: nothing is divided by it.
        first, *inner = emit.unravel(number, [I64(0), *self._counts[self._listed_axes :]])
        row = emit.load_number(emit.at(self._entries, first))
        return [*emit.unravel(row, self._counts[: self._listed_axes]), *inner]

    def at(self, pointers: Sequence[Pointer], indices: Sequence[Value]) -> list[Pointer]:
        """The pointers at a row."""
        return [
            self.emit.along(p, access.strides, indices)
            for p, access in zip(pointers, self.nest.accesses, strict=False)
        ]

    def by_axis(self, indices: Sequence[Value]) -> dict[int, Value]:
        """A row's indices by the domain's axes."""
        return dict(zip(self.nest.axes, indices, strict=True))


def begins(emit: GpuEmit, pointers: Sequence[Pointer], accesses: Sequence[Access]) -> list[Pointer]:
    """Pointers at the offsets of their accesses."""
    return [emit.at(p, emit.dim(a.offset)) for p, a in zip(pointers, accesses, strict=True)]


def values_of(
    emit: GpuEmit,
    block: Block,
    known: Mapping[SSAValue, Value],
    by_axis: Mapping[int, Value],
    results: Sequence[SSAValue] | None = None,
) -> list[Value]:
    """What a kernel's body yields at one point, or other results of its."""
    code = RegionCode(emit, block, block.args, results=results)

    def index(axis: int) -> Value:
        return by_axis.get(axis, I64(0))

    return code.vectors(code.invariants({}, index), known, index, 1)


def unit_steps(accesses: Sequence[Access]) -> list[Dim]:
    """Along the last axis of a domain."""
    return [a.strides[-1] for a in accesses]
