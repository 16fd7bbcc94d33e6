"""Activations by name: functions that append the ops of f(x) and give its value."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.build import Build
from rnncc.nn.activations import (
    elu,
    gelu,
    hard_sigmoid,
    leaky_relu,
    mish,
    silu,
    soft_sign,
    softplus,
)
from rnncc.nn.arithmetic import clamp, plus, times

Function = Callable[[Build, SSAValue], SSAValue]
Activation = str | Function
"""A name, or a function of a `Build` and a value that gives a value of the same type."""


def hard_tanh(b: Build, x: SSAValue) -> SSAValue:
    """x, held within -1 and 1"""
    return clamp(b, x, -1.0, 1.0)


def rational_tanh(b: Build, x: SSAValue) -> SSAValue:
    """1.7159 f(2x/3), f(u) = sign u · (1 - 1 / (1 + |u| + u² + 1.41645 u⁴))

    Computed as u · (1 + |u| + 1.41645 |u|³) / (1 + |u| + u² + 1.41645 u⁴), smooth at 0.
    """
    u = times(b, x, 2 / 3)
    size = b.abs(u)
    rest = b.add(size, times(b, b.mul(size, b.mul(u, u)), 1.41645))
    factor = plus(b, rest, 1.0)
    whole = plus(b, b.mul(size, factor), 1.0)
    return times(b, b.div(b.mul(u, factor), whole), 1.7159)


def rectified_tanh(b: Build, x: SSAValue) -> SSAValue:
    """max(0, tanh x)"""
    return b.relu(b.tanh(x))


def relu6(b: Build, x: SSAValue) -> SSAValue:
    """x, held within 0 and 6"""
    return b.minimum(b.relu(x), b.full_like(x, 6.0))


def selu(b: Build, x: SSAValue) -> SSAValue:
    """1.0507 x above 0, 1.0507 · 1.6733 · (eˣ - 1) below (Klambauer et al., 2017)"""
    return elu(b, x, alpha=1.6732632423543772, scale=1.0507009873554805)


def cube(b: Build, x: SSAValue) -> SSAValue:
    """x³"""
    return b.mul(x, b.mul(x, x))


def identity(b: Build, x: SSAValue) -> SSAValue:
    """x"""
    return x


ACTIVATIONS: dict[str, Function] = {
    "tanh": Build.tanh,
    "sigmoid": Build.sigmoid,
    "hardsigmoid": partial(hard_sigmoid, alpha=0.2, beta=0.5),
    "relu": Build.relu,
    "softsign": soft_sign,
    "identity": identity,
    "hardtanh": hard_tanh,
    "rationaltanh": rational_tanh,
    "rectifiedtanh": rectified_tanh,
    "leakyrelu": partial(leaky_relu, slope=0.01),
    "relu6": relu6,
    "elu": elu,
    "selu": selu,
    "softplus": softplus,
    "swish": silu,
    "gelu": gelu,
    "mish": mish,
    "cube": cube,
}
GATE_ACTIVATIONS: dict[str, Function] = {
    name: ACTIVATIONS[name] for name in ("sigmoid", "hardsigmoid")
}
"""Those with values from 0 to 1."""


def layer_activation(activation: Activation) -> Function:
    """The function of a name; raises `CompileError` for one that is not known."""
    return _find("activation", activation, ACTIVATIONS)


def gate_activation(activation: Activation) -> Function:
    """The function of a gate; raises `CompileError` for a name that is not known as one."""
    return _find("gate_activation", activation, GATE_ACTIVATIONS)


def _find(option: str, activation: Activation, known: dict[str, Function]) -> Function:
    if callable(activation):
        return activation
    if activation not in known:
        raise CompileError("", f"{option} {activation!r} is not one of {', '.join(known)}")
    return known[activation]
