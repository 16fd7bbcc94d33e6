"""The `rnn` dialect: what a net computes, on typed SSA values."""

from __future__ import annotations

from xdsl.ir import Dialect, Operation

from rnncc.ir.ops import apply, chunks, control, elementwise, linear, random, shape, source

OPS: list[type[Operation]] = [
    *(*source.OPS, *elementwise.OPS, *random.OPS),
    *(*shape.OPS, *linear.OPS, *control.OPS, *chunks.OPS, *apply.OPS),
]
RNN = Dialect("rnn", OPS, apply.ATTRIBUTES)
