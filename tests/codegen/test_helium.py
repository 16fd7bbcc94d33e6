"""Comparisons on Helium: by instructions that are true or false of NaN as the relation is."""

from __future__ import annotations

from typing import Any

import pytest
from llvmlite import ir

from rnncc.codegen import targets
from rnncc.codegen.llvm import helium, objects
from rnncc.codegen.llvm.text_builder import TextBuilder, spread

TARGET: Any = targets.resolve("cortex-m55")
OF_OTHERS = {"eq", "gt", "ge"}
"""The conditions that are false of NaN: those of relations that LLVM calls ordered."""
RELATIONS = [("<", True), ("<=", True), (">", True), (">=", True), ("==", True), ("!=", False)]
OPERANDS = {
    "another vector": lambda b, x, y, n: y,
    "zero": lambda b, x, y, n: ir.Constant(x.type, None),
    "a constant": lambda b, x, y, n: ir.Constant(x.type, [1.5] * x.type.count),
    "a number of the run": lambda b, x, y, n: spread(b, n, x.type.count),
    "itself": lambda b, x, y, n: x,
}


def conditions(
    triple: str, operator: str, operand: str, is_first: bool, ordered: bool, lanes: int = 4
) -> set[str]:
    """Those of the instructions that compare floats.

    Args:
        triple: the one that the builder sees.
        is_first: whether the operand is.
    """
    module = ir.Module()
    module.triple = triple
    floats, flags = (ir.VectorType(of, lanes) for of in (ir.FloatType(), ir.IntType(1)))
    kind = ir.FunctionType(flags, [floats, floats, ir.FloatType()])
    function = ir.Function(module, kind, "f")
    b = TextBuilder(function.append_basic_block())
    x, y, n = function.args
    other = OPERANDS[operand](b, x, y, n)
    compare = b.fcmp_ordered if ordered else b.fcmp_unordered
    b.ret(compare(operator, other, x) if is_first else compare(operator, x, other))
    words = map(str.split, objects.optimise(str(module), TARGET).assembly.splitlines())
    return {w[1].rstrip(",") for w in words if w and w[0] in ("vcmp.f32", "vcmpt.f32", "vpt.f32")}


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("operand", OPERANDS)
@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(("operator", "ordered"), RELATIONS)
def test_relations(operator: str, ordered: bool, operand: str, is_first: bool, lanes: int) -> None:
    found = conditions(TARGET.triple, operator, operand, is_first, ordered, lanes)
    assert found <= OF_OTHERS if ordered else not found & OF_OTHERS


@pytest.mark.parametrize("lanes", [2, 4])
def test_what_is_no_number_is_found(lanes: int) -> None:
    assert conditions(TARGET.triple, "uno", "itself", False, False, lanes) == {"ne"}


def test_other_relations_are_not_written() -> None:
    with pytest.raises(AssertionError, match="ueq"):
        conditions(TARGET.triple, "==", "zero", False, False)


def test_llvm_alone_would_be_wrong() -> None:
    """Where this fails, LLVM has been put right, and `rnncc.codegen.llvm.helium` can go."""
    assert conditions("", "<", "zero", False, True) == {"lt"}
    assert helium.SWAPPED["ogt"] == "olt"
