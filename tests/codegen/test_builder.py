"""What constants decide is not written; the rest reads as llvmlite writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
from llvmlite import ir

from rnncc.codegen.llvm.builder import FoldingBuilder
from rnncc.codegen.llvm.objects import llvm
from rnncc.codegen.llvm.text_builder import Result
from rnncc.codegen.llvm.values import DOUBLE, FLOAT, I1, I8, I32, I64, POINTER, declared, selection

VECTOR, NUMBERS = ir.VectorType(FLOAT, 4), ir.VectorType(I64, 4)
TYPES = [I1, I8, I32, I64, FLOAT, DOUBLE, VECTOR, NUMBERS, POINTER]


def begun() -> tuple[FoldingBuilder, Any]:
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(I64, [I64]), "f")
    return FoldingBuilder(function.append_basic_block()), function.args[0]


@pytest.mark.parametrize(
    "same",
    [
        lambda b, x: b.add(x, I64(0)),
        lambda b, x: b.add(I64(0), x),
        lambda b, x: b.sub(x, I64(0)),
        lambda b, x: b.mul(x, I64(1)),
        lambda b, x: b.mul(I64(1), x),
        lambda b, x: b.sdiv(x, I64(1)),
    ],
)
def test_neutral_constants(same: Callable[[FoldingBuilder, Any], Any]) -> None:
    b, x = begun()
    assert same(b, x) is x
    assert not b.block.instructions


@pytest.mark.parametrize(
    ("made", "value"),
    [
        (lambda b, x: b.add(I64(2), I64(3)), 5),
        (lambda b, x: b.sub(I64(2), I64(3)), -1),
        (lambda b, x: b.mul(I64(-2), I64(3)), -6),
        (lambda b, x: b.mul(x, I64(0)), 0),
        (lambda b, x: b.mul(I64(0), x), 0),
        (lambda b, x: b.sdiv(I64(33), I64(16)), 2),
        (lambda b, x: b.sdiv(I64(-7), I64(2)), -3),
        (lambda b, x: b.srem(I64(33), I64(16)), 1),
        (lambda b, x: b.srem(I64(-7), I64(2)), -1),
        (lambda b, x: b.sext(b.trunc(I64(-5), I32), I64), -5),
    ],
)
def test_constants(made: Callable[[FoldingBuilder, Any], Any], value: int) -> None:
    b, x = begun()
    result = made(b, x)
    assert isinstance(result, ir.Constant)
    assert (result.type, result.constant) == (I64, value)
    assert not b.block.instructions


@pytest.mark.parametrize(
    "written",
    [
        lambda b, x: b.add(x, I64(1)),
        lambda b, x: b.sub(I64(0), x),
        lambda b, x: b.mul(x, I64(2)),
        lambda b, x: b.sdiv(I64(1), x),
        lambda b, x: b.sdiv(I64(1), I64(0)),
        lambda b, x: b.srem(I64(1), I64(0)),
        lambda b, x: b.trunc(I64(1 << 31), I32),
        lambda b, x: b.add(x, ir.Constant(I64, ir.Undefined)),
        lambda b, x: b.fadd(ir.Constant(FLOAT, 0.0), ir.Constant(FLOAT, 0.0)),
        lambda b, x: b.add(*(ir.Constant(ir.VectorType(I64, 2), [0, 0]) for _ in "ab")),
    ],
)
def test_all_else_is_written(written: Callable[[FoldingBuilder, Any], Any]) -> None:
    b, x = begun()
    assert isinstance(written(b, x), Result)
    assert len(b.block.instructions) == 1


BINARY = {
    **dict.fromkeys(("add", "sub", "mul", "sdiv", "udiv", "srem", "urem"), I64),
    **dict.fromkeys(("shl", "ashr", "lshr", "and_", "or_", "xor"), I64),
    **dict.fromkeys(("fadd", "fsub", "fmul", "fdiv"), VECTOR),
}


@pytest.mark.parametrize(
    "written",
    [
        *(lambda b, v, t=t, n=n: getattr(b, n)(v(t), v(t)) for n, t in BINARY.items()),
        lambda b, v: b.fadd(v(FLOAT), v(FLOAT), "sum", ("nnan", "nsz")),
        lambda b, v: b.bitcast(v(FLOAT), I32),
        lambda b, v: b.bitcast(v(I32), I32),
        lambda b, v: b.trunc(v(I64), I32),
        lambda b, v: b.zext(v(I32), I64),
        lambda b, v: b.sext(v(I32), I64),
        lambda b, v: b.sitofp(v(I32), FLOAT),
        lambda b, v: b.uitofp(v(I32), FLOAT),
        lambda b, v: b.fptosi(v(FLOAT), I32),
        lambda b, v: b.fptoui(v(FLOAT), I32),
        lambda b, v: b.fptrunc(v(DOUBLE), FLOAT),
        lambda b, v: b.fpext(v(FLOAT), DOUBLE),
        lambda b, v: b.icmp_signed("==", v(I64), I64(3)),
        lambda b, v: b.icmp_signed("<=", v(I64), v(I64)),
        lambda b, v: b.icmp_unsigned(">", *(v(NUMBERS) for _ in "xy")),
        lambda b, v: b.fcmp_ordered("!=", v(VECTOR), v(VECTOR)),
        lambda b, v: b.fcmp_ordered("ord", v(FLOAT), v(FLOAT), flags=["ninf"]),
        lambda b, v: b.fcmp_unordered("<", v(FLOAT), v(FLOAT)),
        lambda b, v: b.fcmp_unordered("uno", v(FLOAT), v(FLOAT)),
        lambda b, v: b.select(v(I1), v(VECTOR), v(VECTOR)),
        lambda b, v: b.select(v(I1), v(FLOAT), v(FLOAT), flags=["nnan"]),
        lambda b, v: b.load(v(POINTER), typ=FLOAT),
        lambda b, v: b.load(v(POINTER), typ=VECTOR, align=4),
        lambda b, v: b.load(b.alloca(I64)),
        lambda b, v: b.store(v(FLOAT), v(POINTER)),
        lambda b, v: b.store(v(VECTOR), v(POINTER), align=4),
        lambda b, v: b.gep(v(POINTER), [v(I64)], source_etype=FLOAT),
        lambda b, v: b.gep(v(POINTER), [I32(0), v(I64)], True, source_etype=ir.ArrayType(I8, 9)),
        lambda b, v: b.extract_element(v(VECTOR), I32(1)),
        lambda b, v: b.insert_element(v(VECTOR), v(FLOAT), I32(1)),
        lambda b, v: b.shuffle_vector(v(VECTOR), v(VECTOR), selection(0, 7)),
        lambda b, v: b.call(declared(b.module, "g", FLOAT, [I64, POINTER]), [v(I64), v(POINTER)]),
        lambda b, v: b.call(declared(b.module, "h", ir.VoidType(), []), []),
        lambda b, v: b.call(declared(b.module, "k", FLOAT, [FLOAT]), [v(FLOAT)], tail=True),
    ],
)
def test_the_text_is_what_llvmlite_writes(written: Callable[[Any, Any], Any]) -> None:
    """As LLVM prints it, with the types of the results, and with all names."""

    def text(builder: type[ir.IRBuilder]) -> str:
        module = ir.Module()
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), TYPES * 2), "f")
        count = len(TYPES)
        values = {str(t): iter(function.args[i::count]) for i, t in enumerate(TYPES)}
        b = builder(function.append_basic_block("entry"))
        result = written(b, lambda type_: next(values[str(type_)]))
        if result is not None and not isinstance(result.type, ir.VoidType):
            b.store(result, function.args[-1])
        b.ret_void()
        return str(llvm.parse_assembly(str(module)))

    assert text(FoldingBuilder) == text(ir.IRBuilder)


def test_operands_are_let_go() -> None:
    b, x = begun()
    total = b.add(x, x)
    gone = ref(total)
    square = b.mul(total, total)
    del total
    assert gone() is None
    assert b.block.instructions[-1] == f'{square.get_reference()} = mul i64 %".4", %".4"'
