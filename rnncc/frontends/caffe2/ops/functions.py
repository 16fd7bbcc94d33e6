"""Functions of one number that few nets use: activations, and those of angles."""

from __future__ import annotations

from rnncc.frontends.caffe2.graph import Resolver
from rnncc.frontends.caffe2.operator import Emitter, Operator
from rnncc.frontends.caffe2.ops.elementwise import Unary, unary
from rnncc.ir.builder import Builder
from rnncc.nn import angles
from rnncc.nn.activations import cube, elu, hard_sigmoid, leaky_relu, soft_sign, softplus
from rnncc.nn.arithmetic import reciprocal


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
        e[self.ys[0]] = leaky_relu(e.b, self.operand(e), self.alpha)


class HardSigmoid(Unary):
    """Y = alpha * X + beta, within 0 and 1.

    Refused: tensors of integers or bools.
    """

    def setup(self, maker: Resolver) -> None:
        self.alpha, self.beta = self.args.float("alpha", 0.2), self.args.float("beta", 0.5)

    def build(self, e: Emitter) -> None:
        e[self.ys[0]] = hard_sigmoid(e.b, self.operand(e), self.alpha, self.beta)


OPERATORS: dict[str, type[Operator]] = {
    "Elu": Elu,
    "Selu": Selu,
    "LeakyRelu": LeakyRelu,
    "HardSigmoid": HardSigmoid,
    "Softplus": unary("log(1 + exp(X))", softplus),
    "Softsign": unary("X / (1 + |X|)", soft_sign),
    "Cube": unary("X * X * X", cube, "nothing"),
    "Rsqrt": unary("1 / sqrt(X)", lambda b, x: reciprocal(b, b.sqrt(x))),
    "Floor": unary("the largest whole number up to X", lambda b, x: b.round("floor", x)),
    "Ceil": unary("the smallest whole number from X on", lambda b, x: b.round("ceil", x)),
    "Sin": unary("sin(X)", Builder.sin),
    "Cos": unary("cos(X)", Builder.cos),
    "Tan": unary("tan(X)", angles.tan),
    "Asin": unary("asin(X)", angles.asin),
    "Acos": unary("acos(X)", angles.acos),
    "Atan": unary("atan(X)", angles.atan),
    "Sinh": unary("sinh(X)", angles.sinh),
    "Cosh": unary("cosh(X)", angles.cosh),
}
