"""Recurrent nets of any size, built from the IR's primitives, with random parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.program import Program
from rnncc.ir.types import dims_of

Values = list[SSAValue]
Step = Callable[[Builder, Values, Values, SSAValue], Values]
"""Over the parameters, the states, and a row of inputs' products; h comes first."""


def cell(kind: str, units: int, width: int) -> Program:
    """A cell over a sequence x of `width`, from states h (and c); outputs all of h and the last."""
    gates = 3 if kind == "gru" else 4
    b = Builder.net(kind)
    x = b.input("x", ["T", "N", width])
    states = [b.input(name, ["N", units]) for name in STATES[kind]]
    rng = np.random.default_rng(units * 101 + width)
    shapes = {"w": (gates * units, width), "u": (gates * units, units), "bias": (gates * units,)}
    if kind == "milstm":
        shapes |= dict.fromkeys(("alpha", "beta1", "beta2"), (gates * units,))
    arrays = {n: rng.uniform(-1, 1, s).astype(np.float32) / s[-1] ** 0.5 for n, s in shapes.items()}
    params = {name: b.param(name, shape) for name, shape in shapes.items()}
    w, *consts = params.values()
    inputs = b.matmul(x, w, transpose_b=True)

    def body(inner: Builder, ks: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        new = STEPS[kind](inner, ks, carry, rows[0])
        return new, new[:1]

    finals, (h_all,) = b.scan(consts, states, [inputs], body)
    lasts = {f"{name}_last": v for name, v in zip(STATES[kind], finals, strict=True)}
    return b.finish({"h_all": h_all, **lasts}, arrays)


def _split(b: Builder, gates: SSAValue, count: int, units: int) -> Values:
    return [b.slice(gates, 1, i * units, units) for i in range(count)]


def _lstm(b: Builder, ks: Values, carry: Values, x: SSAValue) -> Values:
    u, bias = ks
    gates = b.add(b.add(x, b.matmul(carry[0], u, transpose_b=True)), bias)
    return _unit(b, gates, carry)


def _milstm(b: Builder, ks: Values, carry: Values, x: SSAValue) -> Values:
    u, bias, alpha, beta1, beta2 = ks
    uh = b.matmul(carry[0], u, transpose_b=True)
    both = b.mul(alpha, b.mul(x, uh))
    gates = b.add(b.add(both, b.mul(beta1, uh)), b.add(b.mul(beta2, x), bias))
    return _unit(b, gates, carry)


def _unit(b: Builder, gates: SSAValue, carry: Values) -> Values:
    h, c = carry
    i, f, o, g = _split(b, gates, 4, int(dims_of(h)[1]))
    c = b.add(b.mul(b.sigmoid(f), c), b.mul(b.sigmoid(i), b.tanh(g)))
    return [b.mul(b.sigmoid(o), b.tanh(c)), c]


def _gru(b: Builder, ks: Values, carry: Values, x: SSAValue) -> Values:
    """The reset gate before the product, so that a step has two."""
    (u, bias), (h,) = ks, carry
    units = int(dims_of(h)[1])
    x = b.add(x, bias)
    gates = b.matmul(h, b.slice(u, 0, 0, 2 * units), transpose_b=True)
    r, z = (b.sigmoid(v) for v in _split(b, b.add(b.slice(x, 1, 0, 2 * units), gates), 2, units))
    new = b.matmul(b.mul(r, h), b.slice(u, 0, 2 * units, units), transpose_b=True)
    n = b.tanh(b.add(b.slice(x, 1, 2 * units, units), new))
    return [b.add(n, b.mul(z, b.sub(h, n)))]


STATES = {"lstm": ("h", "c"), "milstm": ("h", "c"), "gru": ("h",)}
STEPS: dict[str, Step] = {"lstm": _lstm, "milstm": _milstm, "gru": _gru}
