"""Rows of a sequence that carry a mark once they have been written.

Where a loop's product reads what it wrote in the iteration before, or what a map beside it has just
written, and these are rows of a sequence, the sequence is filled before the loop with a NaN that no
kernel writes: who reads a word sees by itself whether it has come, so that nothing else need be
ordered, and no wait of all blocks stands in the loop. All other values that the product reads are
of the same point, which the same threads have in every iteration, or nobody writes them in the loop
(`exchange.handed_on`, `pairs.paired`).
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from xdsl.ir import SSAValue

from rnncc.codegen.llvm.values import I1, I64, Pointer, Value
from rnncc.codegen.nvptx.emit import GpuEmit
from rnncc.codegen.nvptx.exchanges.pairs import MappedProduct, row_of
from rnncc.codegen.nvptx.exchanges.rows import handed_on
from rnncc.codegen.nvptx.primitives import UNWRITTEN
from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim, product
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.dialect import For, Row
from rnncc.kern.kernels import Gemm
from rnncc.records import record

MOST_VALUES = 1 << 18
"""Of a row: to fill more takes as long as a wait of all blocks."""
FILLED = 16
"""Bytes that a thread fills at a time."""


@record
class MarkedRows:
    """The rows of a product in its loop.

    Args:
        loop: whose product `gemm` is.
        rows: what is read, a row of a sequence, and `first` what the first iteration reads instead.
        posted: numbers of the product's results that the rows are; none where a map writes them.
    """

    loop: For
    gemm: Gemm
    rows: Row
    first: SSAValue | None
    posted: tuple[int, ...]

    @staticmethod
    def of(loop: For, gemms: Sequence[Gemm], pair: MappedProduct | None) -> MarkedRows | None:
        """Those of fp32 that a loop's one product reads; None if there are none."""
        if pair is not None:
            return MarkedRows(loop, pair.gemm, pair.rows, None, ())
        out = handed_on(loop, gemms)
        if out is None:
            return None
        [op] = gemms
        number = list[SSAValue](loop.body.block.args).index(op.a)
        rows = row_of(loop, op, loop.yields[number], "f32", if_wanted=True)
        return None if rows is None else MarkedRows(loop, op, rows, loop.inits[number], (out,))

    def begin(self, emit: GpuEmit, pointers: dict[SSAValue, Pointer], holds: Value) -> Value:
        """Nothing is written yet; returns whether rows are marked, the same for all blocks.

        Args:
            holds: whether the product computes them from registers or from shared memory.
        """
        b, buffer = emit.b, pointers[self.rows.buffer]
        aligned = [buffer, *([] if self.first is None else [pointers[self.first]])]
        few = b.icmp_signed("<=", emit.dim(self._row), I64(MOST_VALUES))
        on = b.and_(b.and_(holds, few), emit.aligned(*aligned))
        if buffer.absent is not None and buffer.ring is not None:
            # A single row stands in for an output that nobody wants.
            on = b.and_(on, b.not_(buffer.absent))
        with emit.when(on):
            with emit.members():
                fill(emit, self.loop, self.rows, buffer)
            emit.together()
        return on

    def is_behind_first(self, emit: GpuEmit) -> Value:
        """Whether rows of this iteration were written in the loop."""
        if self.first is None:
            return I1(1)
        first, _ = self.loop.edges
        return emit.b.icmp_signed("!=", emit.symbols[self.loop.index.data], emit.dim(first))

    @property
    def _row(self) -> Dim:
        return product(self.gemm.dims[:-1]) * self.gemm.depth.data


def fill(emit: GpuEmit, loop: For, rows: Row, buffer: Pointer) -> None:
    """Fill a loop's rows of a sequence, that a wait of all blocks stands behind."""
    b, run = emit.b, FILLED // ITEM_BYTES[buffer.dtype]
    stride = emit.dim(get_dim(rows.stride))
    begin = emit.at(buffer, b.mul(emit.dim(get_dim(loop.start)), stride))
    count = b.sdiv(b.mul(emit.dim(get_dim(loop.count)), stride), I64(run))
    unwritten = ir.Constant(ir.VectorType(I64, 2), [UNWRITTEN, UNWRITTEN])

    def clear(number: Value) -> None:
        b.store(unwritten, emit.at(begin, b.mul(number, I64(run))).base, align=FILLED)

    emit.for_each(count, clear)
