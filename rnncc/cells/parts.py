"""What several cells have in common: the projection of x, layer norm, gates cut from a sum."""

from __future__ import annotations

from xdsl.ir import SSAValue

from rnncc.cells.layer import Named
from rnncc.cells.parameters import Parameter, Vector, Weights
from rnncc.ir.build import Build
from rnncc.ir.types import dims_of
from rnncc.nn.normalisation import layer_norm

EPSILON = 1e-5
"""Added to the variance by layer norm."""


def gate_parameters(
    n_in: int, n_out: int, biases: tuple[float, ...], norm: bool, extra: int = 0
) -> dict[str, Parameter]:
    """W [nIn, kH], RW [H, kH + extra], b [kH], and with layer norm `gain` [kH], from 1."""
    width, fans = n_out * len(biases), (n_out, n_in + n_out)
    made: dict[str, Parameter] = {
        "W": Weights((n_in, width), fans),
        "RW": Weights((n_out, width + extra), fans),
        "b": Vector(n_out, biases),
    }
    return {**made, "gain": Vector(n_out, (1.0,) * len(biases))} if norm else made


def project(b: Build, x: SSAValue, p: Named, norm: bool) -> SSAValue:
    """X · W + b for all steps at once; with layer norm b is added after it."""
    product = b.matmul(x, p["W"])
    return product if norm else b.add(product, p["b"])


def normalised(b: Build, z: SSAValue, norm: list[SSAValue]) -> SSAValue:
    """Layer norm of z over its features, where `norm` has its gain and bias; else z itself."""
    if not norm:
        return z
    gain, bias = norm
    return layer_norm(b, z, gain, bias, len(dims_of(z)) - 1, EPSILON)[0]


def cut(b: Build, z: SSAValue, units: int) -> list[SSAValue]:
    """The blocks of so many units that z [..., kH] consists of."""
    axis = len(dims_of(z)) - 1
    count = int(dims_of(z)[axis]) // units
    return [b.slice(z, axis, k * units, units) for k in range(count)]
