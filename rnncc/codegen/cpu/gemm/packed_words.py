"""A product's packed weights, read word by word: as many k as stand side by side."""

from __future__ import annotations

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.llvm.values import I64, Pointer, Value
from rnncc.ir.types import ITEM_BYTES
from rnncc.kern.kernels import Gemm
from rnncc.kern.packing import GROUP


class PackedWords:
    """Where weights are.

    Attributes:
        group: k of a word.
        words: of one unit.
        count: the same as a value, which a function may be given.
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
        self.bytes = self.block * ITEM_BYTES[weights.dtype]

    def size(self, units: Value) -> Value:
        """Bytes of the weights of so many units."""
        b = self.emit.b
        return b.mul(b.mul(self.count, units), I64(self.bytes))

    def panel(self, number: Value, width: int) -> Pointer:
        """A panel's weights; all before it are of the given width."""
        size = self.emit.b.mul(self.count, I64(self.block * width))
        return self.emit.at(self.weights, self.emit.b.mul(number, size))

    def word(self, panel: Pointer, word: Value, width: Value) -> Pointer:
        """Where the weights of a word are."""
        b = self.emit.b
        return self.emit.at(panel, b.mul(word, b.mul(width, I64(self.block))))

    def unit(self, word: Pointer, first: Value) -> Pointer:
        """Where those of a unit and of all behind it are."""
        return self.emit.at(word, self.emit.b.mul(first, I64(self.group)))
