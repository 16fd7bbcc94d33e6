"""The body of a kernel: values of a block as scalar expressions at one point of a domain."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.builder import Builder as OpBuilder
from xdsl.ir import Block, SSAValue
from xdsl.rewriter import InsertPoint

from rnncc.ir.attributes import get_dim
from rnncc.ir.builder import Builder
from rnncc.ir.ops.base import Elementwise, RnnOp
from rnncc.ir.ops.control import Yield
from rnncc.ir.ops.elementwise import Add
from rnncc.ir.ops.linear import Matmul
from rnncc.ir.ops.source import Constant, Fill, Iota, Size
from rnncc.ir.order import post_order
from rnncc.ir.types import dims_of, dtype_of, tensor
from rnncc.kern.access import Access, buffer_dtype
from rnncc.kern.kernels import Index
from rnncc.lowering.maps import AxisIndex, IndexMap, Placed, is_view, through_view

Point = tuple[SSAValue, IndexMap]
"""A value and which of its elements."""
MOST_SLOTS = 16
"""Columns of a product that one point of a kernel may read: their sums are in registers."""
Resolve = Callable[[SSAValue, IndexMap], tuple[SSAValue, IndexMap]]
"""Replaces a loop body's argument by the outer value it stands for."""


class CannotFuse(Exception):
    """A product is read in a way that its kernel's registers do not offer."""


class Region:
    """Builds a kernel's body and collects what it reads.

    Before:

        v1 = matmul(x, w)
        v2 = slice(v1, axis=1, start=0, size=4)
        v3 = exp(v2)
        v4 = slice(v1, axis=1, start=4, size=4)
        v5 = relu(v4)
        v6 = mul(v3, v5)
        return v6

    After:

        scratch packed: 32
        pack packed = w, w
        gemm i in N, j in 4: y = exp(x·packed.0) * relu(x·packed.1)

    Args:
        rank: axes of the domain.
        product: the product whose sums the kernel holds in registers, and the index of an element
            of it at a point of the domain.
        find: the place of a value in memory, or None where it is to be computed here.
        place: the place of a value that cannot be computed here.
    """

    def __init__(
        self,
        rank: int,
        resolve: Resolve,
        find: Callable[[SSAValue], Placed | None],
        place: Callable[[SSAValue], Placed],
        product: tuple[Matmul, IndexMap] | None = None,
    ) -> None:
        self.block = Block()
        self.ins: list[tuple[SSAValue, Access]] = []
        self.slots: list[int] = []
        self._rank = rank
        self._product, index = product or (None, (AxisIndex(),))
        *self._rows, self._column = index
        self._resolve, self._find, self._place = resolve, find, place
        self._builder = OpBuilder(InsertPoint.at_end(self.block))
        self._formula = Builder(self.block)
        self._memo: dict[tuple[SSAValue, IndexMap], SSAValue] = {}
        self._arguments: dict[tuple[SSAValue, Access], SSAValue] = {}

    def finish(self, values: Sequence[SSAValue]) -> Block:
        """End the body with what it yields."""
        self._builder.insert(Yield(list(values)))
        return self.block

    def value(self, value: SSAValue, index: IndexMap) -> SSAValue:
        """The scalar that `value` holds at `index`."""
        key = self._resolve(value, index)
        needed = dict[Point, list[Point]]()

        def needs(point: Point) -> list[Point]:
            needed[point] = [] if point in self._memo else self._needs(*point)
            return needed[point]

        for point in post_order(key, needs):
            if point not in self._memo:
                operands = [self._memo[other] for other in needed[point]]
                self._memo[point] = self._compute(*point, operands)
        return self._memo[key]

    def insert(self, op: RnnOp) -> SSAValue:
        """Append an op on scalars."""
        return self._builder.insert(op).y

    def _needs(self, value: SSAValue, index: IndexMap) -> list[Point]:
        """The points that a point is computed from in the kernel; none of what is loaded."""
        if self._holds(value) or self._find(value) is not None:
            return []
        op = value.owner
        if isinstance(op, Elementwise):
            return [self._resolve(v, index) for v in op.operands]
        if not is_view(op) or (inner := through_view(op, index)) is None:
            return []
        return [self._resolve(op.x, inner)]

    def _holds(self, value: SSAValue) -> bool:
        """Whether a value is the product whose sums are in registers."""
        return self._product is not None and value == self._product.y

    def _compute(self, value: SSAValue, index: IndexMap, operands: list[SSAValue]) -> SSAValue:
        op = value.owner
        if operands and not isinstance(op, Elementwise):
            return operands[0]  # of a view
        if self._holds(value):
            return self._slot(index)
        if not operands and (placed := self._find(value)) is not None:
            return self._load(placed, index)
        match op:
            case Elementwise():
                return op.scalar(self._formula, operands)
            case Constant() if not dims_of(value):
                return self.insert(op.clone())
            case Fill():
                return self.insert(Fill(tensor((), dtype_of(value)), value=op.value))
            case Size():
                return self.insert(Size.of(get_dim(op.dim), dtype_of(value)))
            case Iota():
                return self._position(index[op.axis.data], dtype_of(value))
            case _:
                if self._reads_product(value):  # which has no place yet
                    raise CannotFuse
                return self._load(self._place(value), index)

    def _reads_product(self, value: SSAValue) -> bool:
        """Whether a value without a place is computed from the kernel's own product."""
        if self._product is None:
            return False
        worklist, seen = [value], set[SSAValue]()
        while worklist:
            value = worklist.pop()
            if value == self._product.y:
                return True
            op = value.owner
            if value in seen or self._find(value) is not None:
                continue
            seen.add(value)
            if isinstance(op, Elementwise) or is_view(op):
                worklist += op.operands
        return False

    def _position(self, at: AxisIndex, dtype: str) -> SSAValue:
        """An axis index as a number."""
        offset = self.insert(Size.of(at.offset, dtype))
        if at.axis is None:
            return offset
        index = self._builder.insert(Index(at.axis, dtype)).y
        return index if at.offset == 0 else self.insert(Add(offset, index))

    def _load(self, placed: Placed, index: IndexMap) -> SSAValue:
        # One load for all reads of an element, through whichever views they come.
        key = (placed.buffer, placed.over(index, self._rank))
        if key not in self._arguments:
            type_ = tensor((), buffer_dtype(placed.buffer))
            argument = self.block.insert_arg(type_, len(self.block.args))
            self._arguments[key] = argument
            self.ins.append(key)
        return self._arguments[key]

    def _slot(self, index: IndexMap) -> SSAValue:
        """A product's sum, held in registers: row for row, at a fixed distance in its columns."""
        assert self._product is not None
        *rows, last = index
        # A column that a broadcast repeats is no slot: the kernel would compute one at each point.
        if rows != self._rows or last.axis != self._column.axis or not last.offset.is_static:
            raise CannotFuse
        start = int(last.offset)
        if start not in self.slots:
            # A tile's sums pass through a stack of fixed size, which more than 96 columns overran.
            if len(self.slots) == MOST_SLOTS:
                raise CannotFuse
            self.block.insert_arg(tensor((), dtype_of(self._product.y)), len(self.slots))
            self.slots.append(start)
        return self.block.args[self.slots.index(start)]
