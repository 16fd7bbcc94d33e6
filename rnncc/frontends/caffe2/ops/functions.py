"""Functions of elements that few nets use: activations, and those of angles."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.elementwise import Nary, Unary, clipped, strictly_within, unary
from rnncc.frontends.caffe2.shapes import Shapes
from rnncc.ir.builder import Builder
from rnncc.ir.types import FLOATS, dims_of, dtype_of
from rnncc.nn import angles
from rnncc.nn.activations import (
    cube,
    elu,
    gelu,
    hard_sigmoid,
    leaky_relu,
    logit,
    mish,
    soft_sign,
    softplus,
    thresholded_relu,
)
from rnncc.nn.arithmetic import cube_root, modulo, reciprocal, sign, times
from rnncc.nn.axes import along
from rnncc.nn.slopes import with_backward, with_backward_by_result


class Elu(Unary):
    """Y = X where it is positive, else alpha * (exp(X) - 1).

    Refused: tensors of integers or bools.
    """

    def setup(self, maker: Resolver) -> None:
        self.alpha, self.scale = self.args.float("alpha", 1.0), 1.0

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = elu(e.b, self.operand(e), self.alpha, self.scale)


class Selu(Elu):
    """Y = scale * X where it is positive, else scale * alpha * (exp(X) - 1)."""

    def setup(self, maker: Resolver) -> None:
        self.alpha = self.args.float("alpha", 1.6732632423543772)
        self.scale = self.args.float("scale", 1.0507009873554805)


class LeakyRelu(Unary):
    """Y = X where it is positive, else alpha * X.

    Refused: tensors of integers or bools.
    """

    def setup(self, maker: Resolver) -> None:
        self.alpha = self.args.float("alpha", 0.01)

    def build(self, e: Emitter) -> None:
        x = self.operand(e)

        def backward(b: Builder, dy: SSAValue, x: SSAValue) -> SSAValue:
            above = b.compare("ge", x, b.full_like(x, 0.0))  # at 0 the slope is that above
            return b.select(above, dy, times(b, dy, self.alpha))

        e[self.ys[0]] = with_backward(e.b, leaky_relu(e.b, x, self.alpha), x, backward)


class HardSigmoid(Unary):
    """Y = alpha * X + beta, within 0 and 1.

    Refused: tensors of integers or bools.
    """

    def setup(self, maker: Resolver) -> None:
        self.alpha, self.beta = self.args.float("alpha", 0.2), self.args.float("beta", 0.5)

    def build(self, e: Emitter) -> None:
        x = self.operand(e)

        def backward(b: Builder, dy: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
            return b.select(
                strictly_within(b, y, 0.0, 1.0), times(b, dy, self.alpha), b.fill(0.0, ())
            )

        y = hard_sigmoid(e.b, x, self.alpha, self.beta)
        e[self.ys[0]] = with_backward_by_result(e.b, y, x, backward)


class ThresholdedRelu(Unary):
    """Y = X where it is above `alpha`, else 0.

    Refused: tensors of integers or bools.
    """

    def setup(self, maker: Resolver) -> None:
        self.alpha = self.args.float("alpha", 1.0)

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = thresholded_relu(e.b, self.operand(e), self.alpha)


class ReluN(Unary):
    """Y = X, within 0 and `n`.

    Refused: tensors of integers or bools.
    """

    def setup(self, maker: Resolver) -> None:
        self.most = self.args.float("n", 6.0)
        if not self.most > 0:
            raise self.error(f"argument 'n' is {self.most:g}, expected a positive number")

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = clipped(e.b, self.operand(e), 0.0, self.most)


class Glu(Operator):
    """Y = the first half of X along `dim`, the last axis by default, times the sigmoid of the
    second.

    Refused: elements other than float32.
    """

    def infer(self, s: Shapes) -> None:
        s.expect_dtypes("f32", self.xs[0], self.ys[0])
        dims = s.dims(self.xs[0])
        if dims is not None:
            axis = self.axis("dim", -1, len(dims))
            half = s.resolve(dims[axis]).divide(2)
            if half is None:
                raise self.error(f"{s.size_text(dims[axis])} elements have no halves")
            s.expect(self.ys[0], (*dims[:axis], half, *dims[axis + 1 :]))

    def build(self, e: Emitter) -> None:
        b, axis, dims = e.b, self.axis("dim", -1, len(e.dims(self.xs[0]))), e.dims(self.ys[0])
        x, gate = (b.slice(e[self.xs[0]], axis, n * dims[axis], dims[axis]) for n in range(2))
        e[self.ys[0]] = b.mul(x, b.sigmoid(gate))


class Gelu(Unary):
    """Y = X times the normal distribution function of X; `fast_gelu` computes it by a tanh.

    Refused: tensors of integers or bools.
    """

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = gelu(e.b, self.operand(e), self.args.flag("fast_gelu"))


class Logit(Unary):
    """Y = log(X / (1 - X)), of X held within `eps` and 1 - `eps`.

    Refused: tensors of integers or bools.
    """

    def setup(self, maker: Resolver) -> None:
        self.least = self.args.float("eps", 1e-6)
        if not 0 < self.least < 0.5:
            raise self.error(f"argument 'eps' is {self.least:g}, expected one within 0 and 0.5")

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = logit(e.b, self.operand(e), self.least)


class Mod(Unary):
    """Y = the remainder of X / `divisor`, with X's sign, or with `sign_follow_divisor` the
    divisor's.

    Refused: tensors of floats or bools.
    """

    takes_integers = True

    def setup(self, maker: Resolver) -> None:
        self.divisor = self.args.int("divisor", 0)
        if not 0 < abs(self.divisor) < 1 << 31:
            raise self.error(f"argument 'divisor' is {self.divisor}")

    def build(self, e: Emitter) -> None:
        x = self.operand(e)
        if dtype_of(x) not in ("i32", "i64"):
            raise self.error(f'"{self.xs[0].name}" is {dtype_of(x)}, expected int32 or int64')
        divisor = e.b.fill(self.divisor, (), dtype_of(x))
        follows = self.args.flag("sign_follow_divisor")
        e[self.ys[0]] = (modulo if follows else Builder.rem)(e.b, x, divisor)


class Mean(Nary):
    """Y = (X0 + X1 + ...) / their number, of one shape.

    Refused: operands of several shapes or element types; tensors of integers or bools.
    """

    function = staticmethod(Builder.add)

    def build(self, e: Emitter) -> None:
        super().build(e)
        y = e[self.ys[0]]
        if dtype_of(y) not in FLOATS:
            raise self.error(f'"{self.xs[0].name}" is {dtype_of(y)}, expected a float')
        e[self.ys[0]] = times(e.b, y, 1 / len(self.xs))


class NegateGradient(Unary):
    """Y = X, whose gradient changes its sign.

    Refused: tensors of integers or bools.
    """

    def build(self, e: Emitter) -> None:
        x = self.operand(e)
        e[self.ys[0]] = with_backward(e.b, x, x, lambda b, dy, x: b.neg(dy))


class PRelu(Operator):
    """Y = X above 0, X1 X below: X1 is one number, or one for each channel of X [N, C, ...], with
    `order` NHWC of X [N, ..., C].

    Refused: elements other than float32.
    """

    inputs = (2, 2)

    def infer(self, s: Shapes) -> None:
        x, slope = self.xs
        s.same_shape(x, self.ys[0])
        s.expect_dtypes("f32", x, slope, self.ys[0])
        dims, slopes = s.dims(x), s.dims(slope)
        if dims is not None and slopes is not None:
            one = len(slopes) < 2 and all(d == 1 for d in slopes)
            if not one:
                s.expect(slope, (dims[self._channels(len(dims))],))

    def assume(self, s: Shapes, level: int) -> None:
        if level == 2 and self.xs[1].shape is None:
            s.expect(self.xs[1], (1,))

    def _channels(self, rank: int) -> int:
        if rank < 2:
            raise self.error(f"data of rank {rank}, expected channels")
        return rank - 1 if self.has_channels_last() else 1

    def build(self, e: Emitter) -> None:
        x, slope = (e[blob] for blob in self.xs)
        rank, one = len(dims_of(x)), all(d == 1 for d in dims_of(slope))
        slope = along(e.b, slope, 0 if one else self._channels(rank), rank)
        above = e.b.compare("gt", x, e.b.full_like(x, 0.0))  # at 0 the slope is that below
        e[self.ys[0]] = e.b.select(above, x, e.b.mul(x, slope))


class SumRelu(Nary):
    """Y = max(X0 + X1 + ..., 0), of one shape.

    Refused: elements other than float32.
    """

    function = Builder.add

    def infer(self, s: Shapes) -> None:
        super().infer(s)
        s.expect_dtype(self.ys[0], "f32")

    def build(self, e: Emitter) -> None:
        super().build(e)
        e[self.ys[0]] = e.b.relu(e[self.ys[0]])


OPERATORS: dict[str, type[Operator]] = {
    "SumRelu": SumRelu,
    "Sign": unary("-1, 0 or 1, as X is below, at or above 0", sign, "nothing"),
    "Gelu": Gelu,
    "Logit": Logit,
    "NegateGradient": NegateGradient,
    "Log1p": unary("log(1 + X)", Builder.log1p),
    "Cbrt": unary("the cube root of X", cube_root),
    "Mod": Mod,
    "Mean": Mean,
    "PRelu": PRelu,
    "Elu": Elu,
    "Selu": Selu,
    "LeakyRelu": LeakyRelu,
    "HardSigmoid": HardSigmoid,
    "ThresholdedRelu": ThresholdedRelu,
    "ReluN": ReluN,
    "Glu": Glu,
    "Mish": unary("X tanh(log(1 + exp(X)))", mish),
    "Softplus": unary("log(1 + exp(X))", softplus),
    "Softsign": unary("X / (1 + |X|)", soft_sign),
    "Cube": unary("X * X * X", cube, "nothing"),
    "Rsqrt": unary("1 / sqrt(X)", lambda b, x: reciprocal(b, b.sqrt(x))),
    "Floor": unary("the largest integer up to X", lambda b, x: b.round("floor", x)),
    "Ceil": unary("the smallest integer from X on", lambda b, x: b.round("ceil", x)),
    "Sin": unary("sin(X)", Builder.sin),
    "Cos": unary("cos(X)", Builder.cos),
    "Tan": unary("tan(X)", angles.tan),
    "Asin": unary("asin(X)", angles.asin),
    "Acos": unary("acos(X)", angles.acos),
    "Atan": unary("atan(X)", angles.atan),
    "Sinh": unary("sinh(X)", angles.sinh),
    "Cosh": unary("cosh(X)", angles.cosh),
}
