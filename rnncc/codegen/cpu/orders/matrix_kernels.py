"""Which kernels are over the elements of one matrix, and have lanes along its columns.

In: a kernel of the planned program. Out: its `MatrixKernel`, of which `fused_pass` makes code.
"""

from __future__ import annotations

from rnncc.codegen.llvm.reductions import Lanes, lanes_of
from rnncc.ir.ops.base import Cost, cost_of
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.kern.access import Access
from rnncc.kern.kernels import Reduce
from rnncc.planning.resident import ResidentKernel
from rnncc.records import record

MOST_VECTORS, TOGETHER = 8, 4
"""Vectors of a row whose code may stand side by side, where each sum over rows has as many
registers; and of the blocks that columns of longer rows come in."""
MOST_ROWS = 128
"""That have sums: each has a vector on the stack."""


@record(eq=False)
class MatrixKernel:
    """A kernel over a matrix.

    Attributes:
        rows, columns: of its domain, the axes; lanes run along columns.
        over_rows, over_columns: whether it adds them up.
    """

    part: ResidentKernel
    rows: int
    columns: int
    over_rows: bool
    over_columns: bool

    @staticmethod
    def of(part: ResidentKernel, lanes: int) -> MatrixKernel | None:
        """None for a kernel over something else, or that has lanes otherwise."""
        op, axes = part.op, (*part.kept, *part.reduced)
        if len(axes) != 2 or not all(op.dims[axis].is_static for axis in axes):
            return None
        rows, columns = axes if len(part.kept) != 1 else (*part.reduced, *part.kept)
        if isinstance(op, Reduce):
            across = len(part.kept) == 1 and part.kept[0] == len(op.dims) - op.reduced.data - 1
            if len(part.kept) == 1 and lanes_of(op) is Lanes.ALONG:
                rows, columns, across = part.kept[0], part.reduced[0], False
            if not _sums_in_order(op, across):
                return None
        kernel = MatrixKernel(part, rows, columns, rows in part.reduced, columns in part.reduced)
        return kernel if kernel.has_lanes and kernel.fills(lanes) else None

    def functions(self, lanes: int) -> int:
        """How many functions stand in the code of a row, or of a block of its columns."""
        vectors = -(-self.size[1] // lanes)
        own = sum(cost_of(op) > Cost.ARITHMETIC for op in self.part.op.body.block.ops)
        return own * (vectors if vectors <= MOST_VECTORS else TOGETHER)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return int(self.part.op.dims[self.rows]), int(self.part.op.dims[self.columns])

    def fills(self, lanes: int) -> bool:
        """Whether vectors are full, and blocks of them keep the order of sums."""
        rows, columns = self.size
        if self.over_columns and (rows > MOST_ROWS or lanes == 1):
            return False
        in_blocks = columns > lanes * MOST_VECTORS
        # One sum over all, block by block, would take its terms in another order.
        return columns >= lanes and not (in_blocks and self.over_rows and self.over_columns)

    @property
    def has_lanes(self) -> bool:
        """Whether all is dense, or the same, along columns, and written once in each."""
        op = self.part.op
        dense = all(a.strides[self.columns] in (0, 1) for a in op.in_accesses)
        rows = [a.strides[self.rows] for a in (*op.in_accesses, *op.out_accesses)]
        step = 0 if self.over_columns else 1
        written = all(a.strides[self.columns] == step for a in op.out_accesses)
        return dense and written and all(r.is_static for r in rows)

    def point_of(self, access: Access) -> tuple[object, ...]:
        """Which element of a value a point of the matrix touches."""
        return access.offset, access.strides[self.rows], access.strides[self.columns]

    def is_at_own_point(self, access: Access) -> bool:
        """Whether each point of the matrix touches another element."""
        columns = access.strides[self.columns] == 1
        return columns and int(access.strides[self.rows]) >= self.size[1]


def _sums_in_order(op: Reduce, across: bool) -> bool:
    """Whether it is a sum of floats in the order of this code."""
    direction = Lanes.ACROSS if across else Lanes.ALONG
    floats = op.kind.data == "sum" and dtype_of(op.yields[0]) in FLOATS
    # A pass takes rows from the first to the last.
    return floats and op.order.data != "down" and lanes_of(op) is direction
