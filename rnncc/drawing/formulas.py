"""Values as texts: `f · c' + tanh(i)`, with the names of what has a box of its own.

In: a value, and what others are called. Out: a formula that a person reads; shapes are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.ir import Operation, SSAValue

from rnncc.ir.attributes import get_dim, get_ints
from rnncc.ir.naming import kind_of
from rnncc.ir.ops import casts, elementwise, functions, gradients, indexing, linear, shape, source
from rnncc.ir.types import dims_of

TRANSPARENT = (
    shape.Reshape,
    shape.Transpose,
    shape.Broadcast,
    casts.Cast,
    elementwise.StopGradient,
    gradients.WithGradient,
)
"""What moves or marks elements, and computes none."""
CHOICE, LOGIC, COMPARISON, SUM, PRODUCT, SIGN, ATOM = range(7)
"""How tightly operations bind, a name tightest."""
_INFIX: Mapping[type[Operation], tuple[str, int]] = {
    elementwise.Add: (" + ", SUM),
    elementwise.Sub: (" - ", SUM),
    elementwise.Mul: (" · ", PRODUCT),
    elementwise.Div: (" / ", PRODUCT),
    elementwise.Share: (" / ", PRODUCT),
    elementwise.Rem: (" mod ", PRODUCT),
}
_COMPARE = {"lt": "<", "le": "≤", "gt": ">", "ge": "≥", "eq": "=", "ne": "≠"}
_CALLED: Mapping[type[Operation], str] = {
    functions.Sigmoid: "\N{GREEK SMALL LETTER SIGMA}",
    functions.Sqrt: "√",
}

Text = tuple[str, int]
"""A formula, and how tightly its last operation binds."""


def seen_through(value: SSAValue) -> SSAValue:
    """What a value's elements are, in whatever shape."""
    while isinstance(value.owner, TRANSPARENT):
        value = value.owner.operands[0]
    return value


@dataclass
class Formulas:
    """Formulas over names.

    Attributes:
        names: of values that are not written out.
    """

    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])

    def of(self, value: SSAValue) -> str:
        """A value as its own operation has it, whether it has a name or not."""
        return self._written(seen_through(value))[0]

    def called(self, value: SSAValue) -> str:
        """A value's name, or its formula where it has none."""
        return self._text(value)[0]

    def _text(self, value: SSAValue) -> Text:
        if value in self.names:
            return self.names[value], ATOM
        value = seen_through(value)
        if value in self.names:
            return self.names[value], ATOM
        return self._written(value)

    def _in(self, value: SSAValue, least: int) -> str:
        """In parentheses where an operation around binds tighter."""
        text, binds = self._text(value)
        return text if binds >= least else f"({text})"

    def _list(self, values: Sequence[SSAValue]) -> str:
        return ", ".join(self._in(value, CHOICE) for value in values)

    def _written(self, value: SSAValue) -> Text:
        op = value.owner
        if not isinstance(op, Operation):
            return self.names.get(value, value.name_hint or "?"), ATOM
        if write := _WRITERS.get(type(op)):
            return write(self, op)
        if infix := _INFIX.get(type(op)):
            return self._infix(op, *infix)
        name = _CALLED.get(type(op), kind_of(op))
        return f"{name}({self._list(op.operands)})", ATOM

    def _infix(self, op: Operation, sign: str, binds: int) -> Text:
        """The right operand of a difference or quotient binds tighter."""
        a, b = op.operands
        tighter = not isinstance(op, (elementwise.Add, elementwise.Mul))
        return f"{self._in(a, binds)}{sign}{self._in(b, binds + tighter)}", binds

    def multiply_add(self, op: elementwise.MultiplyAdd) -> Text:
        """`a · b + c`, `a · b - c`, `c - a · b`"""
        product = f"{self._in(op.a, PRODUCT)} · {self._in(op.b, PRODUCT)}"
        if op.kind.data == "from":
            return f"{self._in(op.c, SUM)} - {product}", SUM
        sign = "+" if op.kind.data == "add" else "-"
        return f"{product} {sign} {self._in(op.c, SUM + (sign == '-'))}", SUM

    def matmul(self, op: linear.Matmul) -> Text:
        """`x @ Wᵀ`"""
        a, b = self._in(op.a, PRODUCT), self._in(op.b, SIGN)
        turned = ("ᵀ" if op.transpose_a else ""), ("ᵀ" if op.transpose_b else "")
        return f"{a}{turned[0]} @ {b}{turned[1]}", PRODUCT

    def sliced(self, op: shape.Slice) -> Text:
        """`gates[0:128]`; of another axis than the last `x[1 @ axis 0]`."""
        start, size = get_dim(op.start), get_dim(op.size)
        where = f"{start}:{start + size}" if size != 1 else str(start)
        last = int(op.axis.data) == len(dims_of(op.x)) - 1
        return f"{self._in(op.x, ATOM)}[{where}{'' if last else f' @ axis {op.axis.data}'}]", ATOM

    def select(self, op: elementwise.Select) -> Text:
        """`live ? a : b`"""
        condition, a, b = (self._in(value, LOGIC) for value in op.operands)
        return f"{condition} ? {a} : {b}", CHOICE

    def compare(self, op: elementwise.Compare) -> Text:
        """`t < length`"""
        a, b = (self._in(value, SUM) for value in op.operands)
        return f"{a} {_COMPARE[op.kind.data]} {b}", COMPARISON

    def logical(self, op: elementwise.Logical) -> Text:
        """`a and b`"""
        a, b = (self._in(value, COMPARISON) for value in op.operands)
        return f"{a} {op.kind.data} {b}", LOGIC

    def negated(self, op: Operation) -> Text:
        """`-x`, `not x`"""
        sign = "not " if isinstance(op, elementwise.Not) else "-"
        return f"{sign}{self._in(op.operands[0], SIGN)}", SIGN

    def reduced(self, op: linear.Reduce) -> Text:
        """`sum(x)`, over the axes that go."""
        axes = get_ints(op.axes)
        over = "" if axes == (len(dims_of(op.x)) - 1,) else f", axes {', '.join(map(str, axes))}"
        return f"{op.kind.data}({self._in(op.x, CHOICE)}{over})", ATOM

    def concat(self, op: Operation) -> Text:
        """`[a, b]`"""
        return f"[{self._list(op.operands)}]", ATOM

    def gather(self, op: indexing.Gather) -> Text:
        """`table[index]`"""
        return f"{self._in(op.x, ATOM)}[{self._in(op.index, CHOICE)}]", ATOM

    def rounded(self, op: elementwise.Round) -> Text:
        """`floor(x)`"""
        name = "round" if op.kind.data == "even" else op.kind.data
        return f"{name}({self._in(op.operands[0], CHOICE)})", ATOM

    def fill(self, op: source.Fill) -> Text:
        """A number."""
        return f"{op.value.value.data:g}", ATOM

    def constant(self, op: source.Constant) -> Text:
        """A number, or how many."""
        numbers = op.array().reshape(-1)
        return (f"{numbers[0]:g}" if len(numbers) == 1 else f"{len(numbers)} numbers"), ATOM

    def param(self, op: source.Param) -> Text:
        """A weight by its name."""
        return op.param_name.data, ATOM

    def iota(self, op: source.Iota) -> Text:
        """The numbers from 0 up."""
        return "0, 1, …", ATOM

    def size(self, op: source.Size) -> Text:
        """A size as a number."""
        return str(get_dim(op.dim)), ATOM


_WRITERS: Mapping[type[Operation], Callable[[Formulas, Any], Text]] = {
    linear.Matmul: Formulas.matmul,
    shape.Slice: Formulas.sliced,
    shape.Concat: Formulas.concat,
    elementwise.MultiplyAdd: Formulas.multiply_add,
    elementwise.Select: Formulas.select,
    elementwise.Compare: Formulas.compare,
    elementwise.Logical: Formulas.logical,
    elementwise.Neg: Formulas.negated,
    elementwise.Not: Formulas.negated,
    elementwise.Round: Formulas.rounded,
    linear.Reduce: Formulas.reduced,
    indexing.Gather: Formulas.gather,
    source.Fill: Formulas.fill,
    source.Constant: Formulas.constant,
    source.Param: Formulas.param,
    source.Iota: Formulas.iota,
    source.Size: Formulas.size,
}
