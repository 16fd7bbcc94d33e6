"""Small recurrent nets in the forms in which front ends give them."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from rnncc.ir.builder import Builder
from rnncc.ir.dims import Dim
from rnncc.ir.program import Program

D, H = 3, 4
Values = list[SSAValue]


def lstm() -> Program:
    """The form that Caffe2 nets have: states of [1, N, H], FC, lengths, states kept past them."""
    b = Builder.net("lstm")
    x, lengths = b.input("x", ["T", "N", D]), b.input("lengths", ["N"], "i32")
    h0, c0 = b.input("h0", [1, "N", H]), b.input("c0", [1, "N", H])
    w, bias = b.param("w", [4 * H, D]), b.param("bias", [4 * H])
    u, more = b.param("u", [4 * H, H]), b.param("more", [4 * H])
    flat = b.reshape(x, [Dim.of("T") * Dim.of("N"), D])
    bulk = b.reshape(b.add(b.matmul(flat, w, transpose_b=True), bias), ["T", "N", 4 * H])
    time = b.iota(["T"], 0)

    def body(i: Builder, consts: Values, carry: Values, rows: Values) -> tuple[Values, Values]:
        (u, more, lengths), (h, c), (row, t) = consts, carry, rows
        flat = i.add(i.matmul(i.reshape(h, ["N", H]), u, transpose_b=True), more)
        gates = i.add(i.reshape(flat, [1, "N", 4 * H]), i.reshape(row, [1, "N", 4 * H]))
        first, forget, out, cell = (i.slice(gates, 2, k * H, H) for k in range(4))
        kept = i.mul(i.sigmoid(forget), c)
        new_c = i.add(kept, i.mul(i.sigmoid(first), i.tanh(cell)))
        new_h = i.mul(i.sigmoid(out), i.tanh(new_c))
        live = i.reshape(i.compare("lt", t, lengths), [1, "N", 1])
        new_h, new_c = i.select(live, new_h, h), i.select(live, new_c, c)
        return [new_h, new_c], [new_h, new_c]

    finals, ys = b.scan([u, more, lengths], [h0, c0], [bulk, time], body)
    rng = np.random.default_rng(0)
    shapes = {"w": (4 * H, D), "bias": 4 * H, "u": (4 * H, H), "more": 4 * H}
    arrays = {name: rng.uniform(-1, 1, shape) for name, shape in shapes.items()}
    return b.finish({"h": finals[0], "all": b.reshape(ys[0], ["T", "N", H])}, arrays)


def gated(output: str = "h") -> Program:
    """h = o * tanh(c), c = f * c + i, all gates from one product; c or h is an output."""
    b = Builder.net("gated")
    x, h0, c0 = b.input("x", ["T", "N", 4]), b.input("h0", ["N", 3]), b.input("c0", ["N", 3])
    u = b.param("u", [3, 9])
    w = b.param("w", [4, 9])

    def body(inner: Builder, ks: list, carry: list, rows: list) -> tuple[list, list]:
        h, c = carry
        z = inner.add(inner.matmul(rows[0], ks[1]), inner.matmul(h, ks[0]))
        z.name_hint = "z"
        i, f, o = (inner.sigmoid(inner.slice(z, 1, 3 * k, 3)) for k in range(3))
        i.name_hint, f.name_hint, o.name_hint = "i", "f", "o"
        new = inner.add(inner.mul(f, c), i)
        squashed = inner.tanh(new)
        squashed.name_hint = "squashed"
        h = inner.mul(o, squashed)
        return [h, new], [h if output == "h" else new]

    _, (every,) = b.scan([u, w], [h0, c0], [x], body)
    return b.finish({"y": every})
