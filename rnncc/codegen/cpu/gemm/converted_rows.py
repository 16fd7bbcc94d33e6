"""Where a product whose rows become integers or bf16 keeps them meanwhile.

The lowering asks for the memory, the code generator for the rest.
"""

from __future__ import annotations

from rnncc.codegen.cpu.machine.core import TILE_WORDS, Core
from rnncc.kern.packing import GROUP, WORD
from rnncc.records import record

HEAD = 2 * WORD
"""Of a row, before its values: its scale, then what its sums start at; for integers."""
MOST_ROWS, LEAST_ROWS = 96, 12
TILE_ROWS, TILE_BYTES = 16, WORD * TILE_WORDS
"""Of a register of matrix instructions, and bytes of each row."""


@record
class ConvertedRows:
    """Rows of `depth` values that are converted at a time.

    Attributes:
        item: bytes of a value: what the weights' group leaves of a word.
        start: bytes before the first row.
        stride: from row to row, with room for whole vectors.
        rows: as many as stay in the cache.
        line: what the bytes of all rows are a multiple of.
    """

    item: int
    start: int
    stride: int
    rows: int
    line: int

    @staticmethod
    def of(target: Core, dtype: str, depth: int) -> ConvertedRows:
        """The rows that go with weights of a type."""
        item = WORD // GROUP[dtype]
        if target.in_tiles(dtype, depth):
            return ConvertedRows._in_tiles(target, item, depth)
        vectors = -(-depth // target.lanes)
        stride = HEAD + -(-vectors * target.lanes * item // WORD) * WORD
        # Each block of rows reads all weights once more, so that the more rows the better, while
        # they stay in the cache.
        fit = target.cache // stride
        rows = 1 if target.compact else min(max(fit // 12 * 12, LEAST_ROWS), MOST_ROWS)
        return ConvertedRows(item, 0, stride, rows, target.line)

    @staticmethod
    def _in_tiles(target: Core, item: int, depth: int) -> ConvertedRows:
        """In whole registers, each in lines of its own."""
        words, line = -(-depth * item // WORD), TILE_BYTES
        full, rest = divmod(words, TILE_WORDS)
        # A line that the head ends with, those of the values, and one for the last words again.
        stride = line * (1 + full + 2 * (rest > 0))
        rows = min(max(target.cache // stride // 32 * 32, 2 * TILE_ROWS), MOST_ROWS)
        return ConvertedRows(item, line - HEAD, stride, rows, target.line)

    @property
    def bytes(self) -> int:
        """Of all rows, in whole lines."""
        return -(-(self.start + self.rows * self.stride) // self.line) * self.line
