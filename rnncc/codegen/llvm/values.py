"""What generated code computes with: types of elements, pointers to buffers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from llvmlite import ir

from rnncc.ir.types import ITEM_BYTES
from rnncc.records import record

I64, I32, I16 = ir.IntType(64), ir.IntType(32), ir.IntType(16)
I8, I1 = ir.IntType(8), ir.IntType(1)
POINTER, VOID = ir.PointerType(), ir.VoidType()
FLOAT, DOUBLE = ir.FloatType(), ir.DoubleType()
VALUE: dict[str, ir.Type] = {
    **{"f32": FLOAT, "f64": DOUBLE, "i32": I32, "i64": I64, "i1": I1},
    **{"i8": I8, "u8": I8, "i16": I16, "u16": I16, "u32": I32, "u64": I64, "f16": I16, "bf16": I16},
    "text": I32,
}
"""Element types while a kernel computes with them; a narrow float stands for its bits."""
MEMORY: dict[str, ir.Type] = {**VALUE, "i1": I8}
"""Element types as they lie in memory; an i1 takes a byte."""

Value = Any


@record
class Pointer:
    """A buffer as code sees it.

    Attributes:
        absent: whether the caller's pointer is null (of outputs).
        ring: rows kept, see `kern.buffer`.
        skippable: kernels that write nothing but absent skippable buffers are skipped.
    """

    base: Value
    dtype: str
    absent: Value | None = None
    ring: int | None = None
    skippable: bool = False


def vector_type(element: ir.Type, lanes: int) -> ir.Type:
    """A vector, or the element's own type for one lane."""
    return element if lanes == 1 else ir.VectorType(element, lanes)


def declared(
    module: ir.Module, name: str, result: ir.Type, arguments: Sequence[ir.Type]
) -> ir.GlobalValue:
    """An intrinsic or a function of libc, declared where the module first needs it."""
    function = module.globals.get(name)
    return function or ir.Function(module, ir.FunctionType(result, arguments), name)


@cache
def selection(*numbers: int) -> ir.Constant:
    """Which lanes a shuffle takes: of its first vector, then of its second."""
    return ir.Constant(ir.VectorType(I32, len(numbers)), list(numbers))


def align_of(dtype: str) -> int:
    """Elements are aligned to their own size, vectors no more than that."""
    return ITEM_BYTES[dtype]
