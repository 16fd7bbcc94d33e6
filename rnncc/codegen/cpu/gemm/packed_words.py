"""A product's packed weights, read word by word: as many k as stand side by side."""

from __future__ import annotations

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.kernels import Gemm
from rnncc.kern.packing import GROUP
from rnncc.records import record


@record
class Width:
    """Of a panel: its units, the vectors that hold them, and the columns of a stripe."""

    units: Value
    vectors: int
    stripe: Value


class PackedWords:
    """Where weights are.

    Attributes:
        group: k of a word.
        words: of one unit.
        count: the same as a value, which a function may be given.
        item: bytes of a number.
        stripe: columns of a whole panel that stand side by side.
        block: numbers of a word, of all slots of one unit.
        bytes: the same in bytes.
    """

    def __init__(self, emit: CpuEmit, op: Gemm, weights: Pointer) -> None:
        self.emit, self.weights = emit, weights
        self.depth = op.depth.data
        self.group = GROUP[weights.dtype]
        self.words = -(-self.depth // self.group)
        self.count: Value = I64(self.words)
        self.block = op.slots.data * self.group
        self.stripe = op.geometry.columns
        self.item = ITEM_BYTES[weights.dtype]
        self.bytes = self.block * self.item

    def size(self, units: Value) -> Value:
        """Bytes of the weights of so many units."""
        b = self.emit.b
        return b.mul(b.mul(self.count, units), I64(self.bytes))

    def panel(self, number: Value, width: int) -> Pointer:
        """A panel's weights; all before it are of the given width."""
        size = self.emit.b.mul(self.count, I64(self.block * width))
        return self.emit.at(self.weights, self.emit.b.mul(number, size))

    def word(self, panel: Pointer, word: Value, width: Width) -> Pointer:
        """Where the weights of a word are, of the first stripe."""
        b = self.emit.b
        return self.emit.at(panel, b.mul(word, b.mul(width.stripe, I64(self.group))))

    def column(self, word: Pointer, first: Value, width: Width) -> Pointer:
        """Where those of a column and of all behind it in its stripe are."""
        b, stripes = self.emit.b, self.stripes(width)
        if stripes > 1:
            # That many stripes before it, each of all words.
            before = self.emit.quotient(first, width.stripe)
            first = b.add(first, b.mul(b.mul(before, width.stripe), b.sub(self.count, I64(1))))
        return self.emit.at(word, b.mul(first, I64(self.group)))

    def stripes(self, width: Width) -> int:
        """Of a panel."""
        if not isinstance(width.units, ir.Constant):
            return 1
        columns: int = width.units.constant * (self.block // self.group)
        return columns // width.stripe.constant
