"""A computed number as another one plus a formula: what `start` and `start + 4` have in common."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.formulas.elements import elements_of
from rnncc.frontends.onnx.values import EXACT
from rnncc.ir.attributes import get_dim
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.ops.base import RnnOp
from rnncc.ir.ops.casts import Cast
from rnncc.ir.ops.elementwise import Add, Compare, Select, Sub
from rnncc.ir.ops.shape import Broadcast, Concat, Reshape, Slice
from rnncc.ir.ops.source import Fill, Size
from rnncc.ir.size_proofs import is_natural
from rnncc.ir.types import dims_of, dtype_of

MOST = 64
"""Ops that are looked through."""


def distance(start: SSAValue, end: SSAValue) -> Dim | None:
    """end - start, of numbers by themselves, if it is a formula of sizes."""
    first, less = parted(start)
    last, more = parted(end)
    return more - less if are_same(first, last) else None


def are_same(one: SSAValue | None, other: SSAValue | None) -> bool:
    """Whether two numbers are computed in the same way from the same values."""
    if one is other or one is None or other is None:
        return one is other
    return _are_same(one, other, [MOST])


def _are_same(one: SSAValue, other: SSAValue, left: list[int]) -> bool:
    if one is other:
        return True
    a, b = one.owner, other.owner
    left[0] -= 1
    if left[0] < 0 or not isinstance(a, RnnOp) or type(a) is not type(b) or a.regions:
        return False
    assert isinstance(b, RnnOp)
    alike = a.properties == b.properties and one.type == other.type
    same_result = a.results.index(one) == b.results.index(other)
    if not alike or not same_result or len(a.operands) != len(b.operands):
        return False
    return all(_are_same(x, y, left) for x, y in zip(a.operands, b.operands, strict=True))


def total(count: SSAValue, rest: SSAValue) -> Dim | None:
    """count + rest, of numbers by themselves, if it is a formula, as of n and T - n."""
    base, more = parted(rest)
    op = None if base is None else base.owner
    if not isinstance(op, Sub) or (whole := formula_of(op.a)) is None:
        return None
    less = distance(op.b, count)
    return None if less is None else whole + less + more


def parted(value: SSAValue) -> tuple[SSAValue | None, Dim]:
    """A number as another one plus a formula; None of a formula alone."""
    return _parted(value, MOST)


def _parted(value: SSAValue, left: int) -> tuple[SSAValue | None, Dim]:
    """What a number is made of, and the formula that is added to it; None of a formula alone."""
    while left and (inner := _same_number(value)) is not None:
        value, left = inner, left - 1
    op = value.owner
    if isinstance(op, Size):
        return None, get_dim(op.dim)
    if isinstance(op, Fill):
        return None, Dim.of(int(op.value.value.data))
    if left and isinstance(op, Add | Sub):
        (one, of_one), (two, of_two) = (_parted(v, left - 1) for v in op.operands)
        if two is None:
            return one, of_one + of_two if isinstance(op, Add) else of_one - of_two
        if one is None and isinstance(op, Add):
            return two, of_one + of_two
    return value, Dim.of(0)


def _same_number(value: SSAValue) -> SSAValue | None:
    """The value whose one element a number is, another one's; None if it is computed here."""
    op = value.owner
    if isinstance(op, Cast):
        kinds = dtype_of(op.x), dtype_of(value)
        return op.x if kinds == ("i32", "i64") or kinds[0] == kinds[1] else None
    if isinstance(op, Reshape | Broadcast | Slice) and all(d == 1 for d in dims_of(op.x)):
        return op.x
    if isinstance(op, Slice) and isinstance(whole := op.x.owner, Concat):
        return _part_at(whole, get_dim(op.start))
    return None


def _part_at(op: Concat, at: Dim) -> SSAValue | None:
    """The vector of one element that stands at a place in several."""
    return next((x for start, x in op.parts if start == at and dims_of(x) == (1,)), None)


def integers_behind(value: SSAValue) -> SSAValue:
    """The integers that floats are, where a cast says so; else the value itself."""
    op = value.owner
    if isinstance(op, Cast) and dtype_of(value) in EXACT and dtype_of(op.x) in ("i32", "i64"):
        return op.x
    return value


def unless_negative(value: SSAValue) -> SSAValue:
    """The number v of `where(v == -1, 1, v)`, as exporters write a size to which Expand repeats:
    the caller sees to it that v is not negative."""
    op = value.owner
    if not (isinstance(op, Select) and isinstance(test := op.condition.owner, Compare)):
        return value
    base, least = parted(test.b)
    if test.kind.data != "eq" or base is not None or not is_natural(-least - 1):
        return value
    return op.b if parted(test.a) == parted(op.b) else value


def formulas_of(b: Builder, part: SSAValue) -> list[Dim] | None:
    """The formulas of sizes that a part of a shape holds, if none of these is computed."""
    whole = part
    while isinstance(whole.owner, Reshape | Slice):
        whole = whole.owner.x
    sizes = dims_of(part)
    if dtype_of(part) != "i64" or len(sizes) > 1 or not isinstance(whole.owner, Concat):
        return None
    if not all(size.is_static for size in sizes):
        return None
    elements = elements_of(b, part) if sizes and sizes != (1,) else [part]
    formulas = [e if isinstance(e, Dim) else formula_of(e) for e in elements]
    known = [size for size in formulas if size is not None]
    return known if len(known) == len(formulas) else None


def formula_of(value: SSAValue) -> Dim | None:
    """The formula of sizes that a number is, if it is one."""
    base, formula = parted(value)
    return formula if base is None else None
