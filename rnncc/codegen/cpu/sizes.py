"""Exported functions that return bytes or threads for given sizes, and the checks of sizes."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from rnncc.codegen.cpu.emit import CpuEmit
from rnncc.codegen.cpu.machine.core import Core
from rnncc.codegen.llvm.values import I64, Value
from rnncc.ir.dims import Dim
from rnncc.kern.largest import Largest
from rnncc.kern.size_limits import LARGEST_PRODUCT, LARGEST_SIZE
from rnncc.planning.threading_cost import START, ThreadingCost
from rnncc.platforms import pointer_bytes, system_of

UPPER = 20
"""Bits of a product below its upper part."""


def emit_size(
    module: ir.Module,
    name: str,
    size: Largest,
    symbols: Sequence[str],
    target: Core,
    bounds: Sequence[Dim],
) -> None:
    """Add `name(sizes...)`: the bytes as a `size_t`, or -1 where a size is out of range."""
    word = ir.IntType(8 * pointer_bytes(target.triple))
    emit = _begin(module, name, symbols, target, word(-1), bounds)
    total = emit.largest(size)
    if word != I64:
        most = (1 << word.width) - 1
        fits = emit.b.icmp_unsigned("<", total, I64(most))
        total = emit.b.trunc(emit.b.select(fits, total, I64(most)), word)
    emit.b.ret(total)


def emit_threads(
    module: ir.Module, name: str, worth: ThreadingCost, symbols: Sequence[str], target: Core
) -> None:
    """Add `name(sizes...)`: how many threads are worth it, from 1 up."""
    emit = _begin(module, name, symbols, target, I64(1))
    b, least = emit.b, I64(START)
    overhead = emit.dim(worth.overhead)
    overhead = b.select(b.icmp_signed(">", overhead, least), overhead, least)  # if it overflowed
    threads = b.sdiv(emit.dim(worth.work), overhead)
    b.ret(b.select(b.icmp_signed(">", threads, I64(1)), threads, I64(1)))


def _begin(
    module: ir.Module,
    name: str,
    symbols: Sequence[str],
    target: Core,
    refusal: Value,
    bounds: Sequence[Dim] = (),
) -> CpuEmit:
    """Start a function that returns `refusal` where a size is out of range."""
    function = ir.Function(module, ir.FunctionType(refusal.type, [I64] * len(symbols)), name)
    emit = CpuEmit.begin(function, target, symbols)
    with emit.when(bad_size(emit, bounds)):
        emit.b.ret(refusal)
    return emit


def bad_size(emit: CpuEmit, bounds: Sequence[Dim]) -> Value:
    """Whether a symbol is negative or too large, or their product is, or one of some formulas is
    negative."""
    b = emit.b
    bad: Value = ir.Constant(ir.IntType(1), 0)
    product: Value = I64(1)
    for value in emit.symbols.values():
        # Unsigned, a negative size is too large.
        out = b.icmp_unsigned(">", value, I64(LARGEST_SIZE))
        # A size of 0 must not hide that the others' product is too large for formulas without it.
        least = b.select(b.icmp_signed("<", value, I64(1)), I64(1), value)
        product, past = _multiplied(emit, product, least)
        largest = LARGEST_PRODUCT if emit.native == I64 else LARGEST_SIZE
        past = b.or_(past, b.icmp_unsigned(">", product, I64(largest)))
        bad = b.or_(bad, b.or_(out, past))
    for formula in bounds:
        bad = b.or_(bad, b.icmp_signed("<", emit.dim(formula), I64(0)))
    return bad


def _multiplied(emit: CpuEmit, product: Value, by: Value) -> tuple[Value, Value]:
    """The product of all sizes so far by one more, and whether that is certainly too large.

    Where addresses have 32 bits, and in WebAssembly, asking for the overflow would call a function
    of the compiler's: there the upper part is multiplied by itself first, which cannot overflow
    where neither is out of range.
    """
    b = emit.b
    if emit.pointer_bytes == 8 and system_of(emit.target.triple) != "wasm":
        multiplied = b.umul_with_overflow(product, by)
        return b.extract_value(multiplied, 0), b.extract_value(multiplied, 1)
    upper = b.mul(b.lshr(product, I64(UPPER)), by)
    past = b.icmp_unsigned(">", upper, I64(LARGEST_PRODUCT >> UPPER))
    return b.mul(product, by), past
