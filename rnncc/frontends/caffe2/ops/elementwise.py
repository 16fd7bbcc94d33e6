"""Elementwise operators: of one tensor, and of two with Caffe2's two ways of broadcasting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import inf
from typing import Any, ClassVar

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.constants import Known, cast
from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import ANY, Emitter, Operator
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim, Dims
from rnncc.ir.types import FLOATS, dtype_of
from rnncc.netdef import TensorProto
from rnncc.nn.activations import silu
from rnncc.nn.arithmetic import power, reciprocal
from rnncc.nn.slopes import passing

UnaryFunction = Callable[[Builder, SSAValue], SSAValue]
BinaryFunction = Callable[[Builder, SSAValue, SSAValue], SSAValue]

TYPES: dict[int, str] = {
    TensorProto.FLOAT: "f32",
    TensorProto.DOUBLE: "f64",
    TensorProto.INT32: "i32",
    TensorProto.INT64: "i64",
    TensorProto.BOOL: "i1",
}
"""Caffe2's element types by ours."""

INTEGERS = "tensors of integers or bools"
"""What operators of floats refuse."""


class Unary(Operator):
    """Y[...] = f(X[...])."""

    function: ClassVar[UnaryFunction]
    takes_integers: ClassVar[bool] = False

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], self.ys[0])
        s.same_dtype(self.xs[0], self.ys[0])

    def operand(self, e: Emitter) -> SSAValue:
        """X; raises `CompileError` for one of integers or bools where it must be of floats."""
        x = e[self.xs[0]]
        if dtype_of(x) not in FLOATS and not self.takes_integers:
            raise self.error(f'"{self.xs[0].name}" is {dtype_of(x)}, expected a float')
        return x

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = type(self).function(e.b, self.operand(e))


def unary(formula: str, function: UnaryFunction, refused: str = INTEGERS) -> type[Unary]:
    """An operator of one tensor."""
    members: dict[str, Any] = {"__doc__": f"Y = {formula}.\n\nRefused: {refused}."}
    members |= {"function": staticmethod(function), "takes_integers": refused != INTEGERS}
    return type("Unary", (Unary,), members)


class Clip(Unary):
    """Y = minimum(maximum(X, min), max), either bound may be left out.

    Refused: a bound that is NaN.
    """

    def setup(self, maker: Resolver) -> None:
        self.low, self.high = (self.args.float("min", -inf), self.args.float("max", inf))

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = clipped(e.b, e[self.xs[0]], self.low, self.high)


def clipped(b: Builder, x: SSAValue, low: float, high: float) -> SSAValue:
    """x within bounds that may be infinite; at a bound, too, the gradient is 0."""
    y = x if low == -inf else b.maximum(x, b.fill(low, ()))
    y = y if high == inf else b.minimum(y, b.fill(high, ()))
    if y is x or dtype_of(x) not in FLOATS:
        return y
    return passing(b, y, x, lambda b, x: strictly_within(b, x, low, high))


def strictly_within(b: Builder, x: SSAValue, low: float, high: float) -> SSAValue:
    """Where elements are between bounds and equal to neither."""
    above, below = (
        b.compare(kind, x, b.full_like(x, n)) for kind, n in (("gt", low), ("lt", high))
    )
    return b.logical("and", above, below)


class Scale(Unary):
    """Y = X * scale.

    Refused: elements other than float32.
    """

    def setup(self, maker: Resolver) -> None:
        self.factor = self.args.float("scale", 1.0)

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.mul(e[self.xs[0]], e.b.fill(self.factor, ()))


class Power(Unary):
    """Y = X ** exponent.

    Refused: exponents in a tensor; tensors of integers or bools.
    """

    def setup(self, maker: Resolver) -> None:
        if "exponent" not in self.args:
            raise self.error("lacks the argument 'exponent'")
        self.exponent = self.args.float("exponent", 0.0)

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = power(e.b, self.operand(e), self.exponent)


class Not(Unary):
    """Y = not X.

    Refused: elements other than bool.
    """

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], self.ys[0])
        s.expect_dtype(self.xs[0], "i1")
        s.expect_dtype(self.ys[0], "i1")

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.logical_not(e[self.xs[0]])


class Cast(Operator):
    """Y = X as the element type `to`, a number of DataType or its name.

    Refused: types other than float, double, int32, int64 and bool.
    """

    def setup(self, maker: Resolver) -> None:
        names = {TensorProto.DataType.Name(k).lower(): k for k in TYPES}
        if "to" not in self.args:
            raise self.error("lacks the argument 'to'")
        named = self.args.holds("to", "s")
        to = self.args.str("to").lower() if named else self.args.int("to", 0)
        kind = names.get(to) if isinstance(to, str) else to
        if kind is None or kind not in TYPES:
            raise self.error(f"casts to {to}, which is not supported", ", ".join(names))
        self.to = TYPES[kind]

    def infer(self, s: Shapes) -> None:
        s.same_shape(self.xs[0], self.ys[0])
        s.expect_dtype(self.ys[0], self.to)
        value = s.value(self.xs[0])
        if value is not None and self.to in ("i32", "i64"):
            s.expect_value(self.ys[0], value, self.to)

    def evaluate(self, values: Sequence[Known | None]) -> Known | None:
        return None if values[0] is None else cast(self.to, values[0])

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = e.b.cast(e[self.xs[0]], self.to)


class Nary(Operator):
    """Y = X0 op X1 op ..., all of one shape.

    Refused: operands of several shapes or element types.
    """

    inputs = (1, ANY)
    function: ClassVar[BinaryFunction]

    def infer(self, s: Shapes) -> None:
        s.same_shape(*self.xs, self.ys[0])
        s.same_dtype(*self.xs, self.ys[0])

    def build(self, e: Emitter) -> None:
        values = [e[x] for x in self.xs]
        function = type(self).function
        e[self.ys[0]] = reduce(lambda a, b: function(e.b, a, b), values)


def nary(formula: str, function: BinaryFunction) -> type[Nary]:
    """An operator of any number of tensors of one shape."""
    members = {"function": staticmethod(function), "__doc__": f"Y = {formula}, of one shape."}
    return type("Nary", (Nary,), members)


class Binary(Operator):
    """C = A op B.

    With `broadcast` (the legacy way) B is a contiguous part of A's axes that starts at `axis`, by
    default a suffix, where leading and trailing axes of size 1 spread. Without it as in NumPy.
    """

    inputs = (2, 2)
    function: ClassVar[BinaryFunction]
    result: ClassVar[str | None] = None
    operand: ClassVar[str | None] = None

    def setup(self, maker: Resolver) -> None:
        self.legacy = self.args.flag("broadcast")
        if "axis_str" in self.args or (not self.legacy and self.args.int("axis", -1) != -1):
            raise self.error("names an axis, which takes broadcast = 1 and a number")

    def infer(self, s: Shapes) -> None:
        s.same_dtype(*self.xs, *([] if self.result else self.ys))
        for blobs, dtype in ((self.xs, self.operand), (self.ys, self.result)):
            for blob in blobs:
                if dtype:
                    s.expect_dtype(blob, dtype)
        self._shapes(s, assume=False)

    def assume(self, s: Shapes, level: int) -> None:
        a, b = (s.dims(x) for x in self.xs)
        if self.legacy and level == 1 and b is None and a:
            s.expect(self.xs[1], (a[self._start(len(a), 1)],))
        elif level == 2:
            scalar = self.legacy and b is not None and all(d == 1 for d in b)
            if (a is None) != (b is None) and not scalar:
                s.same_shape(*self.xs)
            elif a is None and b is None:
                s.same_shape(self.ys[0], *self.xs)
            self._shapes(s, assume=True)

    def _shapes(self, s: Shapes, assume: bool) -> None:
        if self.legacy:
            s.same_shape(self.xs[0], self.ys[0])
        a, b = (s.dims(x) for x in self.xs)
        if a is None or b is None:
            return
        if self.legacy:
            self._legacy(s, a, b, assume)
        else:
            s.expect(self.ys[0], self._together(s, a, b, assume))

    def _legacy(self, s: Shapes, a: Dims, b: Dims, assume: bool) -> None:
        """Equations between A's and B's axes; `assume` that open sizes of B are not 1."""
        start, shown = self._start(len(a), len(b)), f"{s.text(b)} does not fit into {s.text(a)}"
        if len(b) > len(a):
            raise self.error(f"B of shape {shown}")
        inner = [i for i, d in enumerate(b) if d != 1 and (assume or not s.is_open(d))]
        if not inner:
            return
        for i in range(inner[0], inner[-1] + 1):
            if not s.equal(b[i], a[start + i]):
                raise self.error(
                    f"broadcast dimension mismatch: B of shape {shown} at axis {start}"
                )

    def _start(self, rank_a: int, rank_b: int) -> int:
        start = self.args.int("axis", -1)
        start = rank_a - rank_b if start == -1 else start
        if not 0 <= start <= max(rank_a - rank_b, 0):
            raise self.error(f"argument 'axis' is {start}, for ranks {rank_a} and {rank_b}")
        return start

    def _together(self, s: Shapes, a: Dims, b: Dims, assume: bool) -> list[Dim]:
        """The broadcast shape; sizes that may or may not be 1 stay open unless `assume`."""
        rank = max(len(a), len(b))
        one = Dim.of(1)
        wide = [(one,) * (rank - len(d)) + d for d in (a, b)]
        dims = s.dims(self.ys[0])
        if dims is None or len(dims) != rank:
            dims = tuple(s.fresh() for _ in range(rank))
        result = list(dims)
        for axis, (left, right) in enumerate(zip(*wide, strict=True)):
            if one in (left, right):
                result[axis] = right if left == one else left
            elif assume or not (s.is_open(left) or s.is_open(right)):
                if not s.equal(left, right):
                    raise self.error(f"shapes {s.text(a)} and {s.text(b)} do not broadcast")
                result[axis] = left
            else:
                static = [d for d in (left, right) if not s.is_open(d)]
                result[axis] = static[0] if static else result[axis]
        return result

    def build(self, e: Emitter) -> None:
        a, b = (e[x] for x in self.xs)
        if self.legacy:
            rank_a, dims = len(e.dims(self.xs[0])), e.dims(self.xs[1])
            after = rank_a - len(dims) - self._start(rank_a, len(dims))
            b = e.b.reshape(b, (*dims, *[1] * after))
        e[self.ys[0]] = type(self).function(e.b, a, b)


def binary(
    formula: str, function: BinaryFunction, result: str | None = None, operand: str | None = None
) -> type[Binary]:
    """An operator of two tensors, with the element types of its result and operands if fixed."""
    members = {"function": staticmethod(function), "result": result, "operand": operand}
    types = "several element types" if operand is None else "other types than bool"
    members["__doc__"] = (
        f"C = {formula}, broadcast as in NumPy, or B along A's `axis`."
        f"\n\nRefused: operands of {types}; `axis` without `broadcast`; `axis_str`."
    )
    return type("Binary", (Binary,), members)


def _comparison(kind: str, sign: str) -> type[Binary]:
    return binary(f"A {sign} B", lambda b, x, y: b.compare(kind, x, y), result="i1")


def _logical(kind: str) -> type[Binary]:
    def function(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.logical(kind, x, y)

    return binary(f"A {kind} B", function, result="i1", operand="i1")


def _bitwise(kind: str) -> type[Binary]:
    def function(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.logical(kind, x, y) if dtype_of(x) == "i1" else b.bits(kind, x, y)

    return binary(f"A {kind} B, bit by bit", function)


_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "=", "ne": "!="}

OPERATORS: dict[str, type[Operator]] = {
    "Sigmoid": unary("1 / (1 + exp(-X))", Builder.sigmoid),
    "Tanh": unary("tanh(X)", Builder.tanh),
    "Relu": unary("max(X, 0)", Builder.relu),
    "Exp": unary("exp(X)", Builder.exp),
    "Log": unary("log(X)", Builder.log),
    "Negative": unary("-X", Builder.neg),
    "Sqrt": unary("sqrt(X)", Builder.sqrt),
    "Abs": unary("|X|", Builder.abs),
    "Erf": unary("erf(X)", Builder.erf),
    "Sqr": unary("X * X", lambda b, x: b.mul(x, x), "nothing"),
    "Reciprocal": unary("1 / X", reciprocal),
    "Swish": unary("X / (1 + exp(-X))", silu),
    "Clip": Clip,
    "Scale": Scale,
    "Pow": Power,
    "Not": Not,
    "Cast": Cast,
    "Sum": nary("X0 + X1 + ...", Builder.add),
    "Max": nary("max(X0, X1, ...)", Builder.maximum),
    "Min": nary("min(X0, X1, ...)", Builder.minimum),
    "Add": binary("A + B", Builder.add),
    "Sub": binary("A - B", Builder.sub),
    "Mul": binary("A * B", Builder.mul),
    "Div": binary("A / B", Builder.div),
    **{kind.upper(): _comparison(kind, sign) for kind, sign in _COMPARISONS.items()},
    "And": _logical("and"),
    "Or": _logical("or"),
    "Xor": _logical("xor"),
    **{f"Bitwise{kind.title()}": _bitwise(kind) for kind in ("and", "or", "xor")},
}
