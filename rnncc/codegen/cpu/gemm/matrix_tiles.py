"""Sums by instructions that multiply a matrix by a matrix, both in registers: Intel's AMX.

A register holds 16 rows of 64 bytes: of rows, 64 bytes of k each; of packed weights, the words of
16 groups of k for 16 units; of sums, 16 rows of 16 units. Packed weights and converted rows lie as
these registers take them (Intel's Software Developer's Manual, volume 1, chapter "Programming with
Intel AMX"). The last words of a depth that is no multiple of 16 words are multiplied together with
those before them, by rows that are zero there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.gemm.converted_rows import HEAD, TILE_BYTES, TILE_ROWS
from rnncc.codegen.cpu.gemm.packed_words import PackedWords, Width
from rnncc.codegen.cpu.machine.core import TILE_WORDS, Core
from rnncc.codegen.llvm.values import I8, I64, POINTER, VOID, Pointer, Value, declared
from rnncc.ir.attributes import get_dim
from rnncc.ir.dims import Dim
from rnncc.kern.access import buffer_dtype
from rnncc.kern.dialect import For
from rnncc.kern.kernels import Gemm
from rnncc.kern.program import KernelProgram
from rnncc.records import record

TILE_SUMS, REGISTERS = 4, 8
"""Registers for sums, the first ones; then two for rows, then two for weights."""
ROWS, WEIGHTS = 4, 6
INSTRUCTIONS = {"u8": "tdpbsud", "bf16": "tdpbf16ps"}
"""Type of weights -> LLVM's name of what multiplies rows by them and adds to sums."""
EXACT = "u8"
"""Whose sums are the same by vectors, which multiply a row that is alone."""
MOST_BLOCKS = 2
"""Blocks of 16 rows that share what is loaded of weights."""


@record
class Factors:
    """Rows and weights that are multiplied.

    Attributes:
        row: the first of the converted rows.
        blocks: of 16 rows.
        panel: of weights.
        width: of the panel.
    """

    row: Pointer
    blocks: int
    panel: Pointer
    width: Width


class MatrixTiles:
    """Products of converted rows by packed weights.

    Attributes:
        row_bytes: from one converted row to the next.
    """

    def __init__(self, emit: CpuEmit, packed: PackedWords, row_bytes: int) -> None:
        self.emit, self.packed, self.row_bytes = emit, packed, row_bytes
        self.instruction = INSTRUCTIONS[packed.weights.dtype]
        self.full, self.rest = divmod(packed.words, TILE_WORDS)

    def store(self, factors: Factors, offsets: Sequence[Value], stack: Pointer) -> None:
        """Sums of rows times vectors of a panel: row by row, vector by vector.

        Args:
            offsets: the first units of the vectors, over the panel's slots.
            stack: where they go.
        """
        blocks = factors.blocks
        at_once = TILE_SUMS // blocks
        for first in range(0, len(offsets), at_once):
            some = offsets[first : first + at_once]
            for n in range(blocks * len(some)):
                self._call("tilezero", I8(n))
            self._add_all(factors, some)
            for n in range(blocks * len(some)):
                place, block = divmod(n, blocks)
                number = block * TILE_ROWS * len(offsets) + first + place
                at = self.emit.at(stack, I64(number * self.emit.target.lanes))
                self._memory("tilestored64", n, at, I64(len(offsets) * TILE_BYTES))

    def _add_all(self, factors: Factors, offsets: Sequence[Value]) -> None:
        emit, b, blocks = self.emit, self.emit.b, factors.blocks
        bytes = replace(factors.row, dtype="i8")
        packed, width = self.packed, factors.width
        step = b.mul(width.stripe, I64(packed.group * packed.item))  # from word to word of a stripe

        def add(at: Value, word: Value) -> None:
            """The products of a register's words: where they are in a row, and in the panel."""
            for block in range(blocks):
                here = emit.at(bytes, b.add(at, I64(block * TILE_ROWS * self.row_bytes)))
                self._memory("tileloadd64", ROWS + block, here, I64(self.row_bytes))
            weights = packed.word(factors.panel, word, width)
            for n, offset in enumerate(offsets):
                register = WEIGHTS + n % 2
                here = packed.column(weights, offset, width)
                self._memory("tileloadd64", register, here, step)
                for block in range(blocks):
                    operands = (n * blocks + block, ROWS + block, register)
                    self._call(self.instruction, *map(I8, operands))

        def iteration(i: Value, carried: list[Value]) -> list[Value]:
            add(b.add(I64(HEAD), b.mul(i, I64(TILE_BYTES))), b.mul(i, I64(TILE_WORDS)))
            return []

        if self.full:
            emit.loop(I64(self.full), iteration)
        if self.rest:
            add(I64(last_words(self.full)), I64(self.packed.words - TILE_WORDS))

    def _memory(self, name: str, register: int, at: Pointer, step: Value) -> None:
        self._call(name, I8(register), at.base, step)

    def _call(self, name: str, *operands: Value) -> None:
        call_amx(self.emit.b, name, *operands)


def matrices_of(
    program: KernelProgram, target: Core, fixed: Mapping[str, int] | None = None
) -> set[str]:
    """The types of weights that a program multiplies as matrices, where some sizes are known."""
    if not target.tiles:
        return set()
    sizes = dict(fixed or {})

    def is_one(dim: Dim) -> bool:
        return dim.symbols <= sizes.keys() and dim.evaluate(sizes) == 1

    for loop in program.func.walk():
        # A chunk of a loop of one iteration is one iteration.
        if isinstance(loop, For) and loop.extent is not None and is_one(get_dim(loop.count)):
            sizes[loop.extent.data] = 1
    products = [op for op in program.func.walk() if isinstance(op, Gemm)]
    tiled = [op for op in products if target.in_tiles(buffer_dtype(op.weights), op.depth.data)]
    return {
        dtype
        for op in tiled
        if (dtype := buffer_dtype(op.weights)) != EXACT or not all(map(is_one, op.dims[:-1]))
    }


def with_registers(inner: ir.Function, name: str) -> ir.Function:
    """A function that makes the registers ready, and gives them back: it takes 60 ns."""
    function = ir.Function(inner.module, inner.function_type, name)
    function.attributes.add("nounwind")
    inner.linkage = "internal"
    inner.attributes.add("alwaysinline")
    b = ir.IRBuilder(function.append_basic_block())
    call_amx(b, "ldtilecfg", _configuration(inner.module))
    code = b.call(inner, function.args)
    call_amx(b, "tilerelease")
    b.ret(code)
    return function


def _configuration(module: ir.Module) -> ir.GlobalValue:
    """What says how large each register is: so many bytes a row, so many rows."""
    name = "tiles"
    if name not in module.globals:
        sizes = TILE_BYTES.to_bytes(2, "little") * REGISTERS
        rows = bytes([TILE_ROWS] * REGISTERS)
        # The first byte says which layout of registers this is; the others are 0.
        bytes_ = (bytes([1]).ljust(16, b"\0") + sizes).ljust(48, b"\0") + rows.ljust(16, b"\0")
        config = ir.GlobalVariable(module, ir.ArrayType(I8, len(bytes_)), name)
        config.linkage, config.global_constant, config.align = "private", True, 64
        config.initializer = ir.Constant(config.value_type, bytearray(bytes_))
    return module.globals[name]


def call_amx(b: ir.IRBuilder, name: str, *operands: Value) -> None:
    """One of LLVM's functions for AMX."""
    kinds = [POINTER if isinstance(x.type, ir.PointerType) else x.type for x in operands]
    b.call(declared(b.module, f"llvm.x86.{name}", VOID, kinds), operands)


def last_words(full: int) -> int:
    """Where a row has the words that fill no register: bytes from it, with so many full ones."""
    return HEAD + (full + 1) * TILE_BYTES
