"""The terms of a product: how rows and weights are read, and what is added to a sum for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.converted_rows import TILE_ROWS
from rnncc.codegen.cpu.gemm.matrix_tiles import MatrixTiles
from rnncc.codegen.cpu.gemm.packed_words import PackedWords
from rnncc.codegen.cpu.gemm.sizes import panel_vectors
from rnncc.codegen.llvm.values import I64, VALUE, Pointer, Value, vector_type
from rnncc.ir.dims import Dim
from rnncc.kern.kernels import Gemm
from rnncc.records import record


@record
class LeftOperand:
    """A product's left operand: steps along the rows' axes and along k.

    Attributes:
        k_step: along the last of k's axes.
        indices: of a row, given those of the outer axes and its number along the last one.
        outer: sizes and steps of k's other axes.
    """

    pointer: Pointer
    row_steps: Sequence[Dim]
    k_step: Value
    indices: Callable[[list[Value], Value], list[Value]]
    outer: Sequence[tuple[int, Value]] = ()


def neighbours(
    emit: CpuEmit, pointer: Pointer, first: Value, step: Value, count: int | Value, lanes: int
) -> Value:
    """A vector of so many elements, each a step from the one before; zeros beyond their count.

    Of elements that are not side by side the count is a number.
    """
    b = emit.b
    if isinstance(step, ir.Constant) and step.constant == 1:
        return emit.load(emit.at(pointer, first), lanes, emit.mask(count, lanes))
    assert isinstance(count, int)
    if lanes == 1:
        return emit.load(emit.at(pointer, b.mul(first, step)))
    values: Value = ir.Constant(vector_type(VALUE[pointer.dtype], lanes), None)
    # lanes from the count on stay zero: no memory need lie there
    for lane in range(count):
        element = emit.load(emit.at(pointer, b.mul(b.add(first, I64(lane)), step)))
        values = b.insert_element(values, element, I64(lane))
    return values


class Terms(PackedWords):
    """Of fp32 or f64 weights: one k a word, one fused multiply-add.

    Attributes:
        vectors: of a panel, over all slots.
        sums: the type of a sum while terms are added to it, if that is not the rows' own.
        most_rows: how many rows are prepared at a time; 0 where none has to be.
        chains: independent sums that keep up with the reading of weights.
        tiles: what multiplies several rows at once, where there are instructions for matrices.
    """

    sums: str | None = None
    most_rows = 0
    chains = 3
    tiles: MatrixTiles | None = None

    def __init__(self, emit: CpuEmit, op: Gemm, left: LeftOperand, weights: Pointer) -> None:
        super().__init__(emit, op, weights)
        self.a, self.lanes = left, emit.target.lanes
        self.vectors = panel_vectors(op, self.lanes)

    @property
    def outer(self) -> Sequence[tuple[int, Value]]:
        """Sizes and steps of k's axes but the last one, along which a row is read."""
        return self.a.outer

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and vectors of a register tile."""
        return self.emit.target.tile(self.vectors)

    @property
    def tall(self) -> int:
        """Rows of the highest tiles, which take some of a panel at a time; 0 where it stays in the
        first-level cache, or its depth is not known."""
        target = self.emit.target
        panel = self.words * self.vectors * self.lanes * self.group * self.item
        return target.tall if panel > target.l1 // 2 else 0

    @property
    def height(self) -> int:
        """Rows that are multiplied at a time."""
        return self.tile[0] if self.tiles is None else TILE_ROWS

    @property
    def one_by_one(self) -> bool:
        """Whether there are no tiles of several rows, whose code would be another one."""
        return self.emit.target.compact

    def prepare(self, outer: list[Value], first: Value, count: Value) -> None:
        """What must be done before the sums of some rows."""

    def row(self, outer: list[Value], first: Value, number: Value) -> Pointer:
        """A row: `number` beyond the first of those that were prepared."""
        indices = self.a.indices(outer, self.emit.b.add(first, number))
        return self.emit.along(self.a.pointer, self.a.row_steps, indices)

    def start(self, row: Pointer) -> Value:
        """A row's sums of no terms."""
        return self.emit.vector.splat(0.0)

    def left(self, row: Pointer, word: Value) -> list[Value]:
        """A row's values of a word, each in all lanes."""
        return [self._spread(self._at(row, word))]

    def right(self, here: Pointer) -> list[Value]:
        """Weights of a word, for the vector of columns that begins there."""
        return [self.emit.load(here, self.lanes)]

    def add(self, total: Value, left: list[Value], right: list[Value]) -> Value:
        """A sum with a word's terms, k from 0 up."""
        for a, weight in zip(left, right, strict=True):
            total = self.emit.vector.fma(self.emit.b, a, weight, total)
        return total

    def total(self, value: Value, row: Pointer, at: Value) -> Value:
        """A finished sum as floats; `at`: the number of its first unit, over panels and slots."""
        return value

    def _at(self, row: Pointer, k: Value) -> Pointer:
        return self.emit.at(row, self.emit.b.mul(k, self.a.k_step))

    def _spread(self, pointer: Pointer) -> Value:
        return self.emit.splat(self.emit.load(pointer), self.lanes)
