"""Comparisons, logic, and choosing between two tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from rnncc.frontends.onnx.counted.shapes import chosen, compared
from rnncc.frontends.onnx.formulas import sizes
from rnncc.frontends.onnx.node import COMPUTED, FoldOne, Node, OnnxOperator
from rnncc.frontends.onnx.ops.arithmetic import folded
from rnncc.frontends.onnx.values import Array, Value, as_objects
from rnncc.ir.types import dtype_of


def _compare(kind: str, sign: str) -> Any:
    has_texts = kind == "eq"  # their numbers are in no order

    def build(n: Node) -> SSAValue | Value:
        if has_texts and n.value(0).dtype == "text":
            return n.b.compare(kind, n.text_numbers(0), n.text_numbers(1))
        known = compared(n, kind)
        return known or n.b.compare(kind, n.x(0, COMPUTED), n.x(1, COMPUTED))

    others = "floats, int32, int64, bool" + ", texts" * has_texts
    build.__doc__ = f"A {sign} B.\n\nRefused: elements other than {others}."
    return build


def _logical(kind: str) -> Any:
    def build(n: Node) -> SSAValue:
        return n.b.logical(kind, n.x(0, ("i1",)), n.x(1, ("i1",)))

    build.__doc__ = f"A {kind} B."
    return build


def _not(n: Node) -> SSAValue:
    """not X."""
    return n.b.logical_not(n.x(0, ("i1",)))


def _where(n: Node) -> SSAValue:
    """X where the condition holds, else Y.

    Refused: elements other than floats, int32, int64, bool.
    """
    if (shape := chosen(n)) is not None:
        return shape
    condition, x, y = n.x(0, ("i1",)), n.x(1), n.x(2)
    if dtype_of(x) != "i1":
        return n.b.select(condition, x, y)
    taken = n.b.logical("and", condition, x)
    return n.b.logical("or", taken, n.b.logical("and", n.b.logical_not(condition), y))


def _fold_where(n: Node, arrays: list[Array]) -> Array:
    condition, x, y = arrays
    n.check_broadcast()
    if x.dtype == object or y.dtype == object:
        return np.where(condition, as_objects(x), as_objects(y))
    return np.where(condition, x, y)


def _fold_compare(numpy: Callable[..., Any], kind: str) -> FoldOne:
    fold = folded(numpy, sizes.comparison(kind), rounds=False)

    def decided(n: Node, arrays: list[Array]) -> Array | None:
        outcome = fold(n, arrays)
        return None if outcome is None else outcome.astype(bool)

    return decided


OPERATORS: dict[str, OnnxOperator] = {
    "Equal": OnnxOperator(_compare("eq", "="), _fold_compare(np.equal, "eq")),
    "Less": OnnxOperator(_compare("lt", "<"), _fold_compare(np.less, "lt")),
    "LessOrEqual": OnnxOperator(_compare("le", "≤"), _fold_compare(np.less_equal, "le")),
    "Greater": OnnxOperator(_compare("gt", ">"), _fold_compare(np.greater, "gt")),
    "GreaterOrEqual": OnnxOperator(_compare("ge", "≥"), _fold_compare(np.greater_equal, "ge")),
    "And": OnnxOperator(_logical("and"), folded(np.logical_and, None)),
    "Or": OnnxOperator(_logical("or"), folded(np.logical_or, None)),
    "Xor": OnnxOperator(_logical("xor"), folded(np.logical_xor, None)),
    "Not": OnnxOperator(_not, lambda n, arrays: np.logical_not(arrays[0])),
    "Where": OnnxOperator(_where, _fold_where),
}
