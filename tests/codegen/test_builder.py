"""What constants decide is not written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import pytest
from llvmlite import ir

from rnncc.codegen.llvm.builder import FoldingBuilder
from rnncc.codegen.llvm.values import FLOAT, I32, I64


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
    assert isinstance(written(b, x), ir.Instruction)


def test_operands_are_let_go() -> None:
    b, x = begun()
    total = b.add(x, x)
    gone = ref(total)
    square = b.mul(total, total)
    del total
    assert gone() is None
    assert str(square) == b.block.instructions[-1] == '%".5" = mul i64 %".4", %".4"'
