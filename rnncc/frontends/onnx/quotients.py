"""Quotients of sizes as floats: formulas where they are rounded to integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rnncc.frontends.onnx.formulas import sizes
from rnncc.frontends.onnx.node import Node
from rnncc.frontends.onnx.values import EXACT, Array, NoFormula, as_objects
from rnncc.ir.dims import MOST_DIVISOR, Dim

PART_OF_EXACT = 4
"""The errors of a quotient and of a sum with it are together less than 1 by the divisor where the
numerators of both are up to this part of the integers that a float holds."""


def rounded_quotient(n: Node, rounded: Callable[[Dim, Dim], Dim]) -> Array | None:
    """The input as integers, where it is a quotient of sizes as floats, or a fraction of them, or
    the sum of one and of integers.

    Of sizes up to where floats hold all integers, a rounded quotient is an integer only if the
    exact one is, and lies between the same two.
    """
    name = n.op.input[0]
    try:
        above, below, *unmoved = _quotient(n, name) or _moved_quotient(n, name)
        quotient = sizes.by_element(rounded, above, below)
    except NoFormula:
        return None
    limit = EXACT[n.value(0).dtype] // (PART_OF_EXACT if unmoved else 1)
    formulas = [formula for array in (above, below, *unmoved) for formula in array.flat]
    return quotient if quotient is not None and n.scope.model.within(limit, formulas) else None


def _quotient(n: Node, name: str) -> tuple[Array, Array] | None:
    """The numerators and denominators of a value that is a quotient of sizes as floats."""
    op = n.scope.writer(name)
    if op is None or op.op_type not in ("Div", "Mul") or op.domain:
        return None
    x, y = (n.scope.find(operand) for operand in op.input)
    if x is None or y is None or x.known is None or y.known is None or x.dtype not in EXACT:
        return None
    if op.op_type == "Mul":
        return _product(x.known, y.known)
    return as_objects(x.known), as_objects(y.known)


def _moved_quotient(n: Node, name: str) -> tuple[Array, Array, Array]:
    """Those of the sum of a quotient and integers, and the quotient's own numerators; raises
    `NoFormula`."""
    op = n.scope.writer(name)
    if op is None or op.op_type not in ("Add", "Sub") or op.domain:
        raise NoFormula
    minus = -1 if op.op_type == "Sub" else 1
    for at, sign, other_sign in ((0, 1, minus), (1, minus, 1)):
        quotient, other = _quotient(n, op.input[at]), n.scope.find(op.input[1 - at])
        if quotient is not None and other is not None and other.known is not None:
            above, below = quotient
            moved: Any = above * sign + as_objects(other.known) * below * other_sign
            return np.asarray(moved, object), below, above
    raise NoFormula


def _product(x: Array, y: Array) -> tuple[Array, Array]:
    """x · y as a quotient of sizes; raises `NoFormula`.

    One operand has fractions, such as 0.5: floats are integers over powers of two. Where a float
    holds the numerator, it holds the product.
    """
    one, other = (x, y) if x.dtype == object else (y, x)
    if one.dtype != object or other.dtype.kind != "f" or not np.isfinite(other).all():
        raise NoFormula
    ratios = [float(number).as_integer_ratio() for number in other.flat]
    if any(denominator > MOST_DIVISOR for _, denominator in ratios):
        raise NoFormula
    above, below = (
        np.array([Dim.of(ratio[i]) for ratio in ratios], object).reshape(other.shape)
        for i in (0, 1)
    )
    return np.asarray(one * above, object), below
