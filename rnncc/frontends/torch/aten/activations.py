"""Activations of aten; at kinks their slopes are PyTorch's."""

from __future__ import annotations

from rnncc.frontends.torch.node_context import NodeContext, Number, Table, Value
from rnncc.ir.types import FLOATS
from rnncc.nn import activations


def relu(at: NodeContext, x: Value) -> Value:
    """max(x, 0)"""
    return at.b.relu(x)


def leaky_relu(at: NodeContext, x: Value, slope: Number = 0.01) -> Value:
    """x above 0, slope · x below"""
    return activations.leaky_relu(at.b, x, slope)


def elu(
    at: NodeContext, x: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1
) -> Value:
    """scale · x above 0, scale · alpha · (e^(input_scale · x) - 1) below"""
    return activations.elu(at.b, x, alpha, scale, input_scale)


def celu(at: NodeContext, x: Value, alpha: Number = 1) -> Value:
    """x above 0, alpha · (e^(x / alpha) - 1) below"""
    return activations.elu(at.b, x, alpha, 1, 1 / alpha)


def hardtanh(at: NodeContext, x: Value, low: Number = -1, high: Number = 1) -> Value:
    """x held within two numbers; flat from them on"""
    held = at.b.select(at.b.compare("ge", x, at.value(high)), at.value(high), x)
    return at.b.select(at.b.compare("le", x, at.value(low)), at.value(low), held)


def hardsigmoid(at: NodeContext, x: Value) -> Value:
    """(x + 3) / 6 held within 0 and 1"""
    return at.b.div(at.b.add(hardtanh(at, x, -3, 3), at.value(3)), at.value(6))


def hardswish(at: NodeContext, x: Value) -> Value:
    """x · (x + 3) / 6 between -3 and 3, x · 0 below, which is NaN at -∞, x above"""
    middle = at.b.div(at.b.mul(x, at.b.add(x, at.value(3))), at.value(6))
    inner = at.b.select(at.b.compare("ge", x, at.value(3)), x, middle)
    return at.b.select(at.b.compare("le", x, at.value(-3)), at.b.mul(x, at.value(0)), inner)


def silu(at: NodeContext, x: Value) -> Value:
    """x · sigmoid x"""
    return activations.silu(at.b, x)


def gelu(at: NodeContext, x: Value, *, approximate: str = "none") -> Value:
    """x/2 · (1 + erf(x/√2)), or with tanh"""
    return activations.gelu(at.b, x, by_tanh=approximate == "tanh")


def logit(at: NodeContext, x: Value, eps: Number | None = None) -> Value:
    """ln(x / (1 - x))"""
    return activations.logit(at.b, at.value(x), None if eps is None else float(eps))


def softplus(at: NodeContext, x: Value, beta: Number = 1, threshold: Number = 20) -> Value:
    """ln(1 + e^(beta · x)) / beta; x where beta · x is above the threshold"""
    grown = at.scaled(x, beta)
    curve = at.scaled(activations.softplus(at.b, grown), 1 / beta)
    return at.b.select(_above(at, grown, threshold), x, curve)


def log_sigmoid(at: NodeContext, x: Value) -> tuple[Value, Value]:
    """ln sigmoid x; and what PyTorch keeps for its gradient, e^-|x|"""
    return activations.log_sigmoid(at.b, x), at.b.exp(at.b.neg(at.b.abs(x)))


def log_sigmoid_alone(at: NodeContext, x: Value) -> Value:
    """ln sigmoid x"""
    return activations.log_sigmoid(at.b, x)


def mish(at: NodeContext, x: Value) -> Value:
    """x · tanh(ln(1 + eˣ))"""
    return activations.mish(at.b, x)


def detach(at: NodeContext, x: Value) -> Value:
    """x; no gradient flows back to it"""
    return at.b.stop_gradient(x) if at.dtype in FLOATS else x


def _above(at: NodeContext, x: Value, bound: Number) -> Value:
    """x > bound"""
    return at.b.compare("gt", x, at.value(bound))


def prelu(at: NodeContext, x: Value, slope: Value) -> Value:
    """x above 0, slope · x else"""
    return at.b.select(_above(at, x, 0), x, at.b.mul(x, slope))


OPERATORS: Table = {
    "log_sigmoid": log_sigmoid_alone,
    "_prelu_kernel": prelu,
    "relu": relu,
    "leaky_relu": leaky_relu,
    "elu": elu,
    "celu": celu,
    "hardtanh": hardtanh,
    "hardsigmoid": hardsigmoid,
    "hardswish": hardswish,
    "silu": silu,
    "logit": logit,
    "gelu": gelu,
    "softplus": softplus,
    "log_sigmoid_forward": log_sigmoid,
    "mish": mish,
    "detach": detach,
}
