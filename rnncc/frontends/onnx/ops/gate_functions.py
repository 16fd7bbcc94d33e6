"""The functions of gates and states that a recurrent operator names, with their parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from rnncc.frontends.onnx.node import Node
from rnncc.ir.builder import Builder
from rnncc.nn import activations as act
from rnncc.nn.arithmetic import plus, times
from rnncc.nn.steps import Function

DEFAULTS: dict[str, tuple[float, ...]] = {
    "affine": (),
    "leakyrelu": (0.01,),
    "thresholdedrelu": (),
    "scaledtanh": (),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0,),
}
"""Functions with parameters -> what alpha and beta are where they are not given. Of those without
defaults the standard says none, or another one than ONNX Runtime."""
PLAIN: dict[str, Function] = {
    "relu": Builder.relu,
    "tanh": Builder.tanh,
    "sigmoid": Builder.sigmoid,
    "softsign": act.soft_sign,
    "softplus": act.softplus,
}


def _affine(b: Builder, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    return plus(b, times(b, x, alpha), beta)


def _scaled_tanh(b: Builder, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    return times(b, b.tanh(times(b, x, beta)), alpha)


WITH_ONE: dict[str, Callable[..., SSAValue]] = {
    "leakyrelu": act.leaky_relu,
    "thresholdedrelu": act.thresholded_relu,
    "elu": act.elu,
}
WITH_TWO: dict[str, Callable[..., SSAValue]] = {
    "affine": _affine,
    "scaledtanh": _scaled_tanh,
    "hardsigmoid": act.hard_sigmoid,
}

FUNCTIONS: dict[str, tuple[Callable[..., SSAValue], int]] = {
    name: (function, count)
    for count, functions in enumerate((PLAIN, WITH_ONE, WITH_TWO))
    for name, function in functions.items()
}
"""All of them, and how many parameters each has."""


def gate_functions(n: Node, defaults: Sequence[str], directions: int) -> list[list[Function]]:
    """The functions of each direction; alphas and betas go in order to those that have some.

    Args:
        defaults: the names of one direction's functions, where the node says none.
    """
    names = [name.lower() for name in n.texts("activations", list(defaults) * directions)]
    if len(names) != len(defaults) * directions:
        what = f"attribute 'activations' names {len(names)} functions"
        raise n.error(f"{what}, expected {len(defaults) * directions}")
    alphas, betas = n.reals("activation_alpha"), n.reals("activation_beta")
    functions = [_activation(n, name, alphas, betas) for name in names]
    per_direction = len(defaults)
    return [functions[d * per_direction : (d + 1) * per_direction] for d in range(directions)]


def _activation(n: Node, name: str, alphas: list[float], betas: list[float]) -> Function:
    if name in PLAIN:
        return PLAIN[name]
    if name not in DEFAULTS:
        known = ", ".join(sorted([*PLAIN, *DEFAULTS]))
        raise n.error(f"attribute 'activations' names {name[:40]!r}, not one of {known}")
    function, count = FUNCTIONS[name]
    names = ("activation_alpha", "activation_beta")[:count]
    parameters = list[float]()
    for at, (attribute, values) in enumerate(zip(names, (alphas, betas), strict=False)):
        if not values and not DEFAULTS[name]:
            what = f"attribute {attribute!r} has no value for {name!r}"
            raise n.unsupported(what, "the standard has no default, or ONNX Runtime another")
        parameters.append(values.pop(0) if values else DEFAULTS[name][at])
    return lambda b, x: function(b, x, *parameters)
