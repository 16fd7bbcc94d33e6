"""Activations by name: functions that append the ops of f(x) and give its value."""

from __future__ import annotations

from functools import partial

from xdsl.ir import SSAValue

from rnncc.errors import CompileError
from rnncc.ir.builder import Builder
from rnncc.nn.activations import (
    cube,
    elu,
    gelu,
    hard_sigmoid,
    hard_tanh,
    leaky_relu,
    mish,
    rational_tanh,
    rectified_tanh,
    relu6,
    selu,
    silu,
    soft_sign,
    softplus,
)
from rnncc.nn.steps import Function

Activation = str | Function
"""A name, or a function of a `Builder` and a value that gives a value of the same type."""


def identity(b: Builder, x: SSAValue) -> SSAValue:
    """x"""
    return x


ACTIVATIONS: dict[str, Function] = {
    "tanh": Builder.tanh,
    "sigmoid": Builder.sigmoid,
    "hardsigmoid": partial(hard_sigmoid, alpha=0.2, beta=0.5),
    "relu": Builder.relu,
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


def _find(option: str, activation: Activation, functions: dict[str, Function]) -> Function:
    if callable(activation):
        return activation
    if activation not in functions:
        raise CompileError("", f"{option} {activation!r} is not one of {', '.join(functions)}")
    return functions[activation]
