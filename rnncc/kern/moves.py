"""The kernels of the `kern` dialect that move numbers, or list rows, and compute none."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, IntAttr, StringAttr, UnitAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    var_operand_def,
)

from rnncc.ir.attributes import dim_attr, dims_attr, get_dim, get_dims
from rnncc.ir.dims import Dim
from rnncc.kern.access import Access, BufferType, access_attr, get_access
from rnncc.kern.kernels import Contract, Reduce
from rnncc.kern.packing import PackedGeometry
from rnncc.kern.signatures import BAD_COUNT, BAD_INDEX


@irdl_op_definition
class Pack(IRDLOperation):
    """Weights in the order in which `kern.gemm` reads them.

    Source s gives weights[s, u, k] over the axes (u, k). The units are cut into panels of
    `panel` units, the last one as wide as what is left, and whole panels into stripes of `stripe`
    columns, as `packing.pack` has it. One vector of slack follows the last panel. An out of bf16
    gets weights rounded to nearest even, two k of a unit beside each other, zero behind the last.
    """

    name = "kern.pack"
    ins = var_operand_def(BufferType)
    out = operand_def(BufferType)
    depth = prop_def(IntAttr)
    units = prop_def(IntAttr)
    panel = prop_def(IntAttr)
    stripe = prop_def(IntAttr)
    accesses = prop_def(ArrayAttr)

    def __init__(
        self,
        sources: Sequence[tuple[SSAValue, Access]],
        out: SSAValue,
        units: int,
        geometry: PackedGeometry,
    ) -> None:
        super().__init__(
            operands=[[b for b, _ in sources], out],
            properties={
                "depth": IntAttr(geometry.depth),
                "units": IntAttr(units),
                "panel": IntAttr(geometry.panel),
                "stripe": IntAttr(geometry.stripe),
                "accesses": ArrayAttr(access_attr(a) for _, a in sources),
            },
        )

    @property
    def in_accesses(self) -> list[Access]:
        return [get_access(a) for a in self.accesses.data]

    @property
    def geometry(self) -> PackedGeometry:
        """How they are packed."""
        return PackedGeometry(self.depth.data, len(self.ins), self.panel.data, self.stripe.data)


@irdl_op_definition
class Reverse(IRDLOperation):
    """out[t, n, i] = x[len[n] - 1 - t, n, i] for t < len[n], else x[t, n, i]; all dense

    A length outside 0..T ends the call with error 3.
    """

    name = "kern.reverse"
    x = operand_def(BufferType)
    lengths = operand_def(BufferType)
    out = operand_def(BufferType)
    dims = prop_def(ArrayAttr)

    def __init__(
        self, x: SSAValue, lengths: SSAValue, out: SSAValue, dims: tuple[Dim, Dim, Dim]
    ) -> None:
        super().__init__(operands=[x, lengths, out], properties={"dims": dims_attr(dims)})


class IndexedMove(IRDLOperation):
    """What kernels share whose `index` numbers rows: `size` of them, for each of `dims`' first."""

    x = operand_def(BufferType)
    index = operand_def(BufferType)
    out = operand_def(BufferType)
    dims = prop_def(ArrayAttr)
    size = prop_def(StringAttr)

    def __init__(
        self, buffers: Sequence[SSAValue | None], dims: tuple[Dim, Dim, Dim], size: Dim
    ) -> None:
        """`buffers`: those of the op alone, then x, index and out."""
        super().__init__(
            operands=buffers,
            properties={"dims": dims_attr(dims), "size": dim_attr(size)},
        )

    @property
    def error(self) -> int:
        """The code of an index outside."""
        return BAD_INDEX

    @property
    def numbered(self) -> tuple[Dim, ...]:
        """The sizes of what has the rows that numbers choose among."""
        outer, _, inner = get_dims(self.dims)
        return outer, get_dim(self.size), inner


@irdl_op_definition
class Gather(IndexedMove):
    """out[a, j, c] = x[a, index[j], c] over `dims`, x having `size` rows for each a; all dense

    An index outside of 0..size - 1 ends the call with error 5, with `counts` with 14.
    """

    name = "kern.gather"
    counts = opt_prop_def(UnitAttr)

    @property
    def error(self) -> int:
        """The code of an index outside."""
        return BAD_COUNT if "counts" in self.properties else BAD_INDEX


@irdl_op_definition
class Scatter(IndexedMove):
    """out = init, then out[a, index[j], c] folded with x[a, j, c] over `dims`, j upwards; all dense

    `kind` is sum, max or min. out has `size` rows for each a; without init it starts at zero.
    Both may be the same memory. An index outside of 0..size - 1 ends the call with error 5.
    """

    # In a stated order, as rows of one number may be many: that order decides a sum of floats.
    name = "kern.scatter"
    init = opt_operand_def(BufferType)
    kind = prop_def(StringAttr)

    def __init__(
        self,
        kind: str,
        buffers: Sequence[SSAValue | None],
        dims: tuple[Dim, Dim, Dim],
        size: Dim,
    ) -> None:
        super().__init__(buffers, dims, size)
        self.properties["kind"] = StringAttr(kind)

    @property
    def outs(self) -> tuple[SSAValue]:
        return (self.out,)


ContinuedSum = Contract | Reduce | Scatter
"""Kernels that add to `init`, which may be the memory of the result."""


@irdl_op_definition
class ListRows(IRDLOperation):
    """out = how many flags are true, the numbers of those, the numbers of the others, last first

    Rows are numbered row-major over the domain. out has one element more than there are rows, of
    i32 or i64. A kernel takes such a list of its domain's first `row_axes` axes as `rows`, and
    computes the rows whose flag is `where`: of others nothing is read, and nothing written.
    """

    # One pass over the flags fills the list from both ends; so the others come last first.
    name = "kern.list_rows"
    flags = operand_def(BufferType)
    out = operand_def(BufferType)
    domain = prop_def(ArrayAttr)
    access = prop_def(ArrayAttr)

    def __init__(
        self, domain: Sequence[Dim], flags: tuple[SSAValue, Access], out: SSAValue
    ) -> None:
        super().__init__(
            operands=[flags[0], out],
            properties={"domain": dims_attr(domain), "access": access_attr(flags[1])},
        )

    @property
    def dims(self) -> tuple[Dim, ...]:
        return get_dims(self.domain)
